//! A container's root: the machine's files with a writable layer of its own on top (overlayfs), so that a
//! program finds everything that is installed and can litter nothing.

use crate::container::{Mount, Root};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::pivot_root;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const NONE: Option<&str> = None;

/// File systems that show the kernel, not files; the container gets them in another way or not at all.
const KERNEL_TYPES: &[&str] = &[
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "ramfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];

/// Moves into a mount namespace whose root is the container's.
pub(super) fn enter(root: &Root) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let base = root.directory.join("root");
    // What an earlier run of this container left in its layer is not carried over, as with images.
    if root.directory.exists() {
        fs::remove_dir_all(&root.directory)?;
    }
    fs::create_dir_all(&base)?;
    overlay(Path::new("/"), &base, &root.directory.join("layer")).map_err(at("overlay of /"))?;
    for (number, place) in machine_mounts(&root.scratch).map_err(at("mounts"))?.iter().enumerate() {
        let inside = inside(&base, place);
        // A file system that cannot be a lower layer is shown as it is, read-only.
        if overlay(place, &inside, &root.directory.join(format!("layer{number}"))).is_err() {
            bind(place, &inside, true).map_err(at(&place.display().to_string()))?;
        }
    }
    kernel_file_systems(&base).map_err(at("/proc, /dev and /sys"))?;
    for hidden in &root.hidden {
        let inside = inside(&base, hidden);
        if inside.is_dir() {
            tmpfs(&inside, "mode=755,size=64k")?;
        }
    }
    for (path, content) in &root.files {
        let inside = self::inside(&base, Path::new(path));
        // The machine's may be a link to somewhere that means nothing here.
        drop(fs::remove_file(&inside));
        fs::write(&inside, content).map_err(at(path))?;
    }
    for mount in &root.mounts {
        volume(mount, root, &base).map_err(at(&mount.target))?;
    }
    std::env::set_current_dir(&base)?;
    pivot_root(".", ".").map_err(|error| at("pivot_root")(error.into()))?;
    umount2(".", MntFlags::MNT_DETACH)?;
    std::env::set_current_dir("/")
}

/// Shows these files in the place of the machine's, to this process alone. A place that the machine does not have is left out.
pub(super) fn cover(files: &[(PathBuf, PathBuf)]) -> io::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    for (source, place) in files.iter().filter(|(_, place)| place.exists()) {
        bind(source, place, true).map_err(at(&place.display().to_string()))?;
    }
    Ok(())
}

/// An error with what it was about.
fn at(what: &str) -> impl FnOnce(io::Error) -> io::Error {
    let what = what.to_owned();
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn inside(base: &Path, path: &Path) -> PathBuf {
    base.join(path.strip_prefix("/").unwrap_or(path))
}

fn overlay(lower: &Path, target: &Path, layer: &Path) -> io::Result<()> {
    let (upper, work) = (layer.join("upper"), layer.join("work"));
    fs::create_dir_all(&upper)?;
    fs::create_dir_all(&work)?;
    // The merged root takes its mode from the upper layer.
    fs::set_permissions(&upper, fs::metadata(lower)?.permissions())?;
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    Ok(mount(Some("leno"), target, Some("overlay"), MsFlags::empty(), Some(options.as_str()))?)
}

fn bind(source: &Path, target: &Path, read_only: bool) -> io::Result<()> {
    mount(Some(source), target, NONE, MsFlags::MS_BIND, NONE)?;
    if read_only {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(NONE, target, NONE, flags, NONE)?;
    }
    Ok(())
}

fn tmpfs(target: &Path, options: &str) -> io::Result<()> {
    Ok(mount(Some("leno"), target, Some("tmpfs"), MsFlags::MS_NOSUID, Some(options))?)
}

/// `/proc` of this pod, devices, `/sys`; shared memory and `/run` of its own.
fn kernel_file_systems(base: &Path) -> io::Result<()> {
    for place in ["dev", "sys"] {
        mount(
            Some(&Path::new("/").join(place)),
            &base.join(place),
            NONE,
            MsFlags::MS_BIND | MsFlags::MS_REC,
            NONE,
        )?;
    }
    mount(Some("proc"), &base.join("proc"), Some("proc"), MsFlags::empty(), NONE)?;
    let shared_memory = base.join("dev/shm");
    if shared_memory.is_dir() {
        tmpfs(&shared_memory, "mode=1777")?;
    }
    // Sockets of the machine's daemons (nscd, resolved) would answer for the machine and not for the pod.
    let run = base.join("run");
    if run.is_dir() {
        tmpfs(&run, "mode=755")?;
        // Debian's programs expect it.
        fs::create_dir_all(run.join("lock"))?;
        fs::set_permissions(run.join("lock"), fs::Permissions::from_mode(0o1777))?;
    }
    Ok(())
}

/// Directories of the machine that are file systems of their own, parents first.
fn machine_mounts(scratch: &Path) -> io::Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(parse_mounts(&table)
        .into_iter()
        // Our own tmpfs, and mounts on it, are not files of the machine.
        .filter(|place| {
            scratch.parent().is_none_or(|own| !place.starts_with(own)) && place.is_dir()
        })
        .collect())
}

/// Mount points of real file systems outside of what [`kernel_file_systems`] brings.
fn parse_mounts(table: &str) -> Vec<PathBuf> {
    let mut places = Vec::new();
    for line in table.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let Some(place) = left.split(' ').nth(4) else { continue };
        let kind = right.split(' ').next().unwrap_or("");
        let place = PathBuf::from(place.replace("\\040", " "));
        let brought = ["/dev", "/proc", "/sys", "/run"].iter().any(|root| place.starts_with(root));
        if place != Path::new("/")
            && !brought
            && !KERNEL_TYPES.contains(&kind)
            && !places.contains(&place)
        {
            places.push(place);
        }
    }
    places.sort();
    places
}

fn volume(wanted: &Mount, root: &Root, base: &Path) -> io::Result<()> {
    let mut source = match &wanted.files {
        Some(files) => files.clone(),
        None => {
            let directory = root.scratch.join(&wanted.volume);
            if !directory.exists() {
                fs::create_dir_all(&directory)?;
                // Any user of the pod may write, as in Kubernetes.
                fs::set_permissions(&directory, fs::Permissions::from_mode(0o777))?;
            }
            directory
        }
    };
    if !wanted.sub_path.is_empty() {
        source.push(&wanted.sub_path);
        if wanted.files.is_none() {
            fs::create_dir_all(&source)?;
        }
    }
    let target = inside(base, Path::new(&wanted.target));
    if source.is_dir() {
        fs::create_dir_all(&target)?;
    } else {
        fs::create_dir_all(target.parent().unwrap_or(base))?;
        if !target.exists() {
            fs::write(&target, "")?;
        }
    }
    bind(&source, &target, wanted.read_only || wanted.files.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_file_systems_only() {
        let table = "22 27 0:21 / /proc rw - proc proc rw\n27 1 254:0 / / rw - ext4 /dev/vda rw\n\
            30 27 0:1 / /home/with\\040space rw - xfs /dev/b rw\n31 27 0:2 / /run/user rw - tmpfs t rw\n\
            32 27 0:3 / /boot/x rw - autofs t rw\n33 27 0:3 / /boot rw shared:1 - vfat t rw\n";
        assert_eq!(parse_mounts(table), [Path::new("/boot"), Path::new("/home/with space")]);
    }
}
