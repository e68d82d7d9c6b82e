//! What a cgroup says that `/proc` does not: time held back by a CPU limit, and memory as it is charged.
//! Only for a cgroup that contains a single measured tree: memory of a shared cgroup cannot be divided.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where hierarchies are mounted.
#[derive(Clone, Debug, Default)]
pub(super) struct Mounts(Vec<Mount>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    /// Controllers of a first-version hierarchy; none for the second version.
    controllers: Vec<String>,
    /// The cgroup that is mounted, and where.
    root: String,
    at: PathBuf,
}

/// What one tree's own cgroup says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Charged {
    /// Since the cgroup was made.
    pub(super) throttled_ns: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
}

impl Mounts {
    pub(super) fn now() -> Self {
        Self::parse(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    fn parse(mountinfo: &str) -> Self {
        let mount = |line: &str| {
            let (front, back) = line.split_once(" - ")?;
            let front: Vec<&str> = front.split(' ').collect();
            let back: Vec<&str> = back.split(' ').collect();
            let controllers = match *back.first()? {
                "cgroup2" => Vec::new(),
                "cgroup" => back.get(2)?.split(',').map(str::to_owned).collect(),
                _ => return None,
            };
            let (root, at) = ((*front.get(3)?).to_owned(), PathBuf::from(front.get(4)?));
            Some(Mount { controllers, root, at })
        };
        Self(mountinfo.lines().filter_map(mount).collect())
    }

    /// The directory of a process's cgroup that has this controller; `/proc/PID/cgroup` says which it is in.
    fn directory(&self, membership: &str, controller: &str) -> Option<(PathBuf, bool)> {
        membership.lines().find_map(|line| {
            let [_, controllers, path] =
                *line.splitn(3, ':').collect::<Vec<_>>().first_chunk::<3>()?;
            let is_second = controllers.is_empty();
            if path == "/" || !is_second && !controllers.split(',').any(|one| one == controller) {
                return None;
            }
            let of = |mount: &&Mount| match is_second {
                true => mount.controllers.is_empty(),
                false => mount.controllers.iter().any(|one| one == controller),
            };
            let mount = self.0.iter().find(of)?;
            let below = path.strip_prefix(mount.root.trim_end_matches('/'))?;
            let directory = mount.at.join(below.trim_start_matches('/'));
            directory.join("cgroup.procs").exists().then_some((directory, is_second))
        })
    }

    /// What the cgroup of `pid` says, if nobody but `tree` is in it.
    pub(super) fn charged(&self, pid: i32, tree: &BTreeSet<i32>) -> Charged {
        match fs::read_to_string(format!("/proc/{pid}/cgroup")) {
            Ok(membership) => self.charged_in(&membership, tree),
            Err(_) => Charged::default(),
        }
    }

    fn charged_in(&self, membership: &str, tree: &BTreeSet<i32>) -> Charged {
        let own = |controller: &str| {
            self.directory(membership, controller).filter(|(path, _)| is_own(path, tree))
        };
        let throttled = own("cpu").and_then(|(path, is_second)| {
            throttled_ns(&fs::read_to_string(path.join("cpu.stat")).ok()?, is_second)
        });
        let memory = own("memory").and_then(|(path, is_second)| {
            let file = if is_second { "memory.current" } else { "memory.usage_in_bytes" };
            fs::read_to_string(path.join(file)).ok()?.trim().parse().ok()
        });
        Charged { throttled_ns: throttled, memory_bytes: memory }
    }
}

/// Whether all processes of the cgroup are of the tree.
fn is_own(directory: &Path, tree: &BTreeSet<i32>) -> bool {
    let Ok(processes) = fs::read_to_string(directory.join("cgroup.procs")) else { return false };
    let mut pids = processes.lines().filter_map(|line| line.trim().parse::<i32>().ok()).peekable();
    pids.peek().is_some() && pids.all(|pid| tree.contains(&pid))
}

/// The second version counts microseconds, the first nanoseconds.
fn throttled_ns(stat: &str, is_second: bool) -> Option<u64> {
    let (name, unit) = if is_second { ("throttled_usec ", 1_000) } else { ("throttled_time ", 1) };
    let value = stat.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().parse::<u64>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_count_throttling() {
        let first = "nr_periods 3\nnr_throttled 2\nthrottled_time 5000000\n";
        let second = "usage_usec 9\nnr_throttled 2\nthrottled_usec 5000\n";
        assert_eq!(throttled_ns(first, false), Some(5_000_000));
        assert_eq!(throttled_ns(second, true), Some(5_000_000));
        assert_eq!(throttled_ns(second, false), None);
    }

    #[test]
    fn both_versions_say_what_a_tree_is_charged_with() {
        let place = tempfile::tempdir().expect("a directory");
        let at = place.path().to_str().expect("a plain path");
        for (file, text) in [
            ("cpu/pod/cgroup.procs", "7\n"),
            ("cpu/pod/cpu.stat", "nr_throttled 2\nthrottled_time 5000000\n"),
            ("memory/pod/cgroup.procs", "7\n"),
            ("memory/pod/memory.usage_in_bytes", "4096\n"),
            ("unified/pod/cgroup.procs", "7\n"),
            ("unified/pod/cpu.stat", "usage_usec 9\nnr_throttled 2\nthrottled_usec 5000\n"),
            ("unified/pod/memory.current", "4096\n"),
        ] {
            let file = place.path().join(file);
            fs::create_dir_all(file.parent().expect("a directory")).expect("made");
            fs::write(file, text).expect("written");
        }
        let first = format!(
            "1 0 0:1 / {at}/cpu rw - cgroup cgroup rw,cpu,cpuacct\n2 0 0:2 / {at}/memory rw - cgroup cgroup rw,memory"
        );
        let second = format!("3 0 0:3 / {at}/unified rw - cgroup2 cgroup2 rw");
        let charged = Charged { throttled_ns: Some(5_000_000), memory_bytes: Some(4096) };
        let check = |mountinfo: &str, membership: &str, tree: &[i32], expected: Charged| {
            let tree = tree.iter().copied().collect();
            let seen = Mounts::parse(mountinfo).charged_in(membership, &tree);
            assert_eq!(seen, expected, "{mountinfo} {membership}");
        };
        let membership = "4:memory:/pod\n1:cpu,cpuacct:/pod\n0::/pod";
        check(&first, membership, &[7], charged);
        check(&second, "0::/pod", &[7, 8], charged);
        // As systemd has it beside the first version: a second one without controllers.
        check(&format!("{first}\n{second}"), membership, &[7], charged);
        // Somebody else lives there, too.
        check(&second, "0::/pod", &[8], Charged::default());
    }

    #[test]
    fn a_process_is_found_in_either_version_and_the_root_is_nobodys_own() {
        let place = tempfile::tempdir().expect("a directory");
        let at = place.path().to_str().expect("a plain path");
        for directory in ["cpu/pod", "unified/pod"] {
            fs::create_dir_all(place.path().join(directory)).expect("made");
            fs::write(place.path().join(directory).join("cgroup.procs"), "7\n8\n").expect("made");
        }
        let first = format!("1 0 0:1 / {at}/cpu rw shared:1 - cgroup cgroup rw,cpu,cpuacct");
        let second = format!("2 0 0:2 /kube {at}/unified rw - cgroup2 cgroup2 rw");
        let check = |mountinfo: &str, membership: &str, expected: Option<(&str, bool)>| {
            let seen = Mounts::parse(mountinfo).directory(membership, "cpu");
            let expected = expected.map(|(path, second)| (place.path().join(path), second));
            assert_eq!(seen, expected, "{mountinfo} {membership}");
        };
        check(&first, "4:memory:/x\n1:cpu,cpuacct:/pod", Some(("cpu/pod", false)));
        check(&first, "1:cpu,cpuacct:/", None);
        check(&second, "0::/kube/pod", Some(("unified/pod", true)));
        check(&second, "0::/elsewhere", None);
        check("", "0::/pod", None);
        let directory = place.path().join("cpu/pod");
        assert!(is_own(&directory, &BTreeSet::from([7, 8, 9])));
        assert!(!is_own(&directory, &BTreeSet::from([7])));
    }
}
