//! A cluster to test on: one that is given, or one that is made of processes of this machine and ends with us.

use crate::command;
use anyhow::{Context as _, Result, bail};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds, boots and stops a cluster: this directory beside the project, or beside a directory that holds it.
const RECIPE: &str = "shared/cluster";

/// A cluster that runs.
pub(crate) struct Ground {
    kubeconfig: PathBuf,
    /// Where clusters of this machine are kept: their programs, and what runs.
    home: PathBuf,
    /// What stops it again, if it was booted by us.
    booted_by: Option<PathBuf>,
}

impl Ground {
    /// The cluster that KUBECONFIG names, or a new one.
    ///
    /// # Errors
    /// When there is neither, or it does not answer.
    pub(crate) fn find() -> Result<Self> {
        let home = match env::var_os("LENO_CLUSTER") {
            Some(home) => PathBuf::from(home),
            None => Path::new(&env::var_os("HOME").context("HOME")?).join(".cache/leno-cluster"),
        };
        let given = env::var_os("KUBECONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
        let ground = match given {
            Some(kubeconfig) => Self { kubeconfig, home, booted_by: None },
            None => Self::boot(home)?,
        };
        command::step(&mut ground.kubectl(&["get", "nodes"])).context("the cluster")?;
        Ok(ground)
    }

    fn boot(home: PathBuf) -> Result<Self> {
        let Some(recipe) = recipe()? else {
            bail!(
                "there is no cluster to test on: set KUBECONFIG, or put a recipe that boots one into ../{RECIPE}"
            );
        };
        let started = home.join("run/pids");
        if started.exists() && !runs(&started)? {
            eprintln!("\nA cluster of this machine was killed; what is left of it goes first.");
            command::step(&mut Command::new(recipe.join("down.sh")))?;
        }
        if started.exists() {
            bail!(
                "a cluster of this machine runs already: set KUBECONFIG={}, or stop it with {}",
                home.join("run/pki/admin.kubeconfig").display(),
                recipe.join("down.sh").display()
            );
        }
        command::step(&mut Command::new(recipe.join("build.sh")))?;
        let up = recipe.join("up.sh");
        let kubeconfig = home.join("run/pki/admin.kubeconfig");
        let ground = Self { kubeconfig, home, booted_by: Some(recipe) };
        // Two, so that traffic goes between nodes as well.
        let nodes = env::var_os("NODES").unwrap_or_else(|| "2".into());
        command::step(Command::new(up).env("NODES", nodes))?;
        Ok(ground)
    }

    /// Puts every archive of a directory on the nodes.
    ///
    /// # Errors
    /// When a node of this machine refuses one.
    pub(crate) fn load(&self, archives: &Path) -> Result<()> {
        let running = self.home.join("run");
        if !self.kubeconfig.starts_with(&running) {
            eprintln!("\nThe nodes are not ours to fill: they have to have the images already.");
            return Ok(());
        }
        let nodes =
            fs::read_dir(running)?.flatten().map(|entry| entry.path().join("containerd.sock"));
        for socket in nodes.filter(|socket| socket.exists()) {
            for archive in fs::read_dir(archives)?.flatten() {
                let mut import = Command::new("ctr");
                import.arg("-a").arg(&socket).args(["-n", "k8s.io", "images", "import"]);
                command::run(import.arg(archive.path()))?;
            }
        }
        Ok(())
    }

    /// `kubectl` of this cluster.
    pub(crate) fn kubectl(&self, words: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        self.prepared(command.args(words));
        command
    }

    /// A program that speaks with this cluster, and finds `kubectl`.
    pub(crate) fn prepared<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let mut path: OsString = self.home.join("bin").into();
        if let Some(others) = env::var_os("PATH") {
            path.push(":");
            path.push(others);
        }
        command.env("PATH", path).env("KUBECONFIG", &self.kubeconfig)
    }

    /// Stops it, if it is ours.
    ///
    /// # Errors
    /// When something of it is left.
    pub(crate) fn end(mut self) -> Result<()> {
        self.stop()
    }

    /// Once: whoever comes second finds nothing to stop.
    fn stop(&mut self) -> Result<()> {
        match self.booted_by.take() {
            Some(recipe) => command::step(&mut Command::new(recipe.join("down.sh"))),
            None => Ok(()),
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("{error:#}");
        }
    }
}

/// Whether a program of a cluster is still there. `started` has a line for each, with its process and its name; a number may be another program's by
/// now, so what it runs counts: each has files below the cluster's directory on its command line.
fn runs(started: &Path) -> Result<bool> {
    let directory = started.parent().context("a directory")?.to_str().context("a path in UTF-8")?;
    let lines = fs::read_to_string(started)?;
    let mut processes = lines.lines().filter_map(|line| line.split_whitespace().next());
    Ok(processes.any(|process| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(directory)
    }))
}

/// The nearest one on the way up from the project.
fn recipe() -> Result<Option<PathBuf>> {
    let project = env::current_dir()?;
    let mut places = project.ancestors().skip(1).map(|directory| directory.join(RECIPE));
    Ok(places.find(|place| place.join("up.sh").exists()))
}

#[cfg(test)]
mod tests {
    use super::runs;
    use std::fs;
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    #[test]
    fn a_cluster_runs_while_one_of_its_programs_does() {
        let home = tempfile::tempdir().unwrap();
        let started = home.path().join("pids");
        let file = home.path().join("file");
        fs::write(&file, "here").unwrap();
        // Our own number, as that of a program that has come after: not of the cluster.
        let other = std::process::id();
        fs::write(&started, format!("{other} etcd\n")).unwrap();
        assert!(!runs(&started).unwrap());
        let mut tail = Command::new("tail");
        let mut program = tail.arg("-f").arg(&file).stdout(Stdio::piped()).spawn().unwrap();
        // `spawn` returns while the kernel still replaces the program, when it has no command line yet; what it prints comes after.
        program.stdout.as_mut().unwrap().read_exact(&mut [0; 4]).unwrap();
        fs::write(&started, format!("{other} etcd\n{} kubelet\n", program.id())).unwrap();
        let while_it_runs = runs(&started).unwrap();
        program.kill().unwrap();
        program.wait().unwrap();
        assert!(while_it_runs);
        assert!(!runs(&started).unwrap());
    }
}
