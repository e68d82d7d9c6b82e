//! Meshes under one roof: the same manifests, run by `leno up` in the same namespaces behind the same capture rules, with the
//! proxy of one mesh or another (or none) in each pod.
//!
//! - Here: which meshes there are, and how they are named on a command line. [`bed`]: a running topology.
//! - [`sidecar`]: the program inside of each pod that runs a peer's proxy; [`neighbours`] what it knows, [`redirect`] the rules it
//!   adds, [`authority`] its certificate. [`haproxy`], [`nginx`], [`envoy`], [`linkerd`], [`leno`], [`none`]: what is particular to each.
//! - [`probe`]: what a mesh really does, seen on the wire and in its own counters.
//!
//! Not here: load and measurement. A bed says which processes belong to which role, and that is all it knows of them.

pub mod authority;
pub mod bed;
pub mod envoy;
pub mod haproxy;
pub mod leno;
pub mod linkerd;
mod machine;
pub mod manifests;
pub mod neighbours;
pub mod nginx;
pub mod none;
pub mod place;
mod privileges;
pub mod probe;
pub mod redirect;
pub mod sidecar;
mod state;

pub use bed::{Bed, Pod, Worker};
pub use machine::netem_missing;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A mesh that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// No proxies at all: the baseline.
    None,
    Leno,
    /// Envoy, as Istio runs it: a transparent pair with mTLS, statistics on, access log off.
    Envoy,
    /// `HAProxy`, a transparent pair with mTLS.
    Haproxy,
    /// nginx, a pair with mTLS; see [`nginx`] for how it gets to know where a connection was going.
    Nginx,
    /// linkerd2-proxy, joined to Leno's control plane.
    Linkerd,
}

impl Kind {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 6] =
        [Self::None, Self::Leno, Self::Envoy, Self::Haproxy, Self::Nginx, Self::Linkerd];

    /// Its name in `--mesh`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Leno => "leno",
            Self::Envoy => "envoy",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Linkerd => "linkerd",
        }
    }

    /// Whether `leno-control` serves it.
    #[must_use]
    pub fn has_control(self) -> bool {
        matches!(self, Self::Leno | Self::Linkerd)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("{text:?} is not a known mesh; known: {}", names.join(", "))
        })
    }
}

/// What may follow a mesh's name.
const OPTIONS: &[&str] = &["workers", "leno"];

/// One mesh of `--mesh`: `NAME[=PROGRAM][+OPTION=VALUE…]`, as `linkerd=/opt/linkerd2-proxy` or `envoy+workers=2`.
///
/// `PROGRAM` is the proxy; of `leno`, it is a `leno` with `leno-proxy` and `leno-control` beside it, which compares two builds.
/// Options: `workers` (threads of each proxy; 1), `leno` (the `leno` that runs the pods; this program).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which mesh.
    pub kind: Kind,
    /// Its program, where it is not to be looked for.
    pub program: Option<PathBuf>,
    /// What else was said.
    pub options: BTreeMap<String, String>,
}

impl From<Kind> for Choice {
    fn from(kind: Kind) -> Self {
        Self { kind, program: None, options: BTreeMap::new() }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.kind)?;
        if let Some(program) = &self.program {
            write!(out, "={}", program.display())?;
        }
        self.options.iter().try_for_each(|(name, value)| write!(out, "+{name}={value}"))
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.trim().split('+');
        let first = parts.next().unwrap_or_default();
        let (name, program) = match first.split_once('=') {
            Some((name, program)) => (name, Some(program)),
            None => (first, None),
        };
        let mut choice = Self::from(name.parse::<Kind>()?);
        match program {
            Some("") => return Err(format!("{text:?}: the program after `=` is missing")),
            Some(_) if choice.kind == Kind::None => {
                return Err("`none` runs no program".to_owned());
            }
            program => choice.program = program.map(PathBuf::from),
        }
        for option in parts {
            match option.split_once('=') {
                Some((name, value)) if OPTIONS.contains(&name) && !value.is_empty() => {
                    choice.options.insert(name.to_owned(), value.to_owned());
                }
                _ => {
                    return Err(format!(
                        "{text:?}: {option:?} is not one of {}",
                        OPTIONS.join(", ")
                    ));
                }
            }
        }
        let workers = choice.options.get("workers").map(|count| count.parse::<u16>());
        if workers.is_some_and(|count| !matches!(count, Ok(1..=256))) {
            return Err(format!("{text:?}: workers must be a number from 1 to 256"));
        }
        Ok(choice)
    }
}

/// A whole `--mesh`: `none,leno,haproxy,linkerd=/opt/linkerd2-proxy`.
///
/// # Errors
/// Every mistake, and a mesh that is named twice in the same way.
pub fn choices(text: &str) -> Result<Vec<Choice>, Vec<String>> {
    let (mut found, mut mistakes) = (Vec::new(), Vec::new());
    for part in text.split(',') {
        match part.parse::<Choice>() {
            Ok(choice) if found.contains(&choice) => {
                mistakes.push(format!("{part:?} appears twice"))
            }
            Ok(choice) => found.push(choice),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    if mistakes.is_empty() { Ok(found) } else { Err(mistakes) }
}

/// Which pods get a sidecar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sidecars {
    /// None: the topology as without a mesh.
    None,
    /// Pods that no Service selects: generators and other callers.
    Client,
    /// Pods that some Service selects.
    Server,
    /// All that the manifests do not except.
    #[default]
    Both,
}

impl Sidecars {
    /// All of them, each with its word in files.
    pub(crate) const ALL: [(&'static str, Self); 4] = [
        ("none", Self::None),
        ("client", Self::Client),
        ("server", Self::Server),
        ("both", Self::Both),
    ];

    /// The word for it in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, sidecars)| *sidecars == self).map_or("", |(name, _)| name)
    }
}

/// What runs under a mesh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Kubernetes manifests: files and directories, as `leno up -f` takes them.
    pub manifests: Vec<PathBuf>,
    /// Which pods get a sidecar.
    pub sidecars: Sidecars,
    /// Workloads (`web`, or `NAMESPACE/web`) that get none in any case.
    pub unmeshed: Vec<String>,
}

/// What this machine lacks for this mesh, with the line that installs it; nothing when it can be run.
#[must_use]
pub fn missing(choice: &Choice) -> Option<String> {
    let needed = match choice.kind {
        Kind::None => none::missing(choice),
        Kind::Leno => leno::missing(choice),
        Kind::Envoy => envoy::missing(choice),
        Kind::Haproxy => haproxy::missing(choice),
        Kind::Nginx => nginx::missing(choice),
        Kind::Linkerd => linkerd::missing(choice),
    };
    needed.or_else(|| leno::missing_home(choice))
}

/// The peer's program: what was said, else the first of `names` in `PATH` and the system's own places. Links are followed:
/// the proxy's user may not be able to follow them.
pub(crate) fn program(choice: &Choice, names: &[&str]) -> Option<PathBuf> {
    let found = match &choice.program {
        Some(said) => Some(said.clone()).filter(|said| said.is_file()),
        None => names.iter().find_map(|name| find_program(name)),
    }?;
    Some(std::fs::canonicalize(&found).unwrap_or(found))
}

/// As a shell finds a program, and in `sbin` even where an ordinary user's `PATH` has none.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path);
    let usual = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let mut places = places.chain(usual.iter().map(PathBuf::from));
    places.find_map(|place| Some(place.join(name)).filter(|program| program.is_file()))
}

/// What a missing program is said with.
pub(crate) fn lacking(choice: &Choice, what: &str, install: &str) -> String {
    match &choice.program {
        Some(said) => format!("{}: the program {} does not exist", choice.kind, said.display()),
        None => format!("{}: {what} is not installed; {install}", choice.kind),
    }
}

/// The first line that a program says of its version.
pub(crate) fn version(program: &Path, flag: &str) -> Option<String> {
    let output = std::process::Command::new(program)
        .arg(flag)
        .stdin(std::process::Stdio::null())
        .output()
        .ok()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    said.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let said = match choices(text) {
            Ok(found) => found.iter().map(|choice| format!("[{choice}]")).collect::<String>(),
            Err(mistakes) => mistakes.join("; "),
        };
        assert_eq!(said, expected, "{text}");
    }

    #[test]
    fn meshes_as_people_name_them() {
        check("none,leno,haproxy,linkerd=/opt/proxy", "[none][leno][haproxy][linkerd=/opt/proxy]");
        check("leno, leno=/old/leno", "[leno][leno=/old/leno]");
        check("envoy=/e/envoy+workers=2,nginx", "[envoy=/e/envoy+workers=2][nginx]");
        check(
            "istio,none=/x,leno=,leno,leno",
            "\"istio\" is not a known mesh; known: none, leno, envoy, haproxy, nginx, linkerd; `none` runs no program; \
             \"leno=\": the program after `=` is missing; \"leno\" appears twice",
        );
        check("leno+speed=9", "\"leno+speed=9\": \"speed=9\" is not one of workers, leno");
        check("leno+workers=0", "\"leno+workers=0\": workers must be a number from 1 to 256");
        check("", "\"\" is not a known mesh; known: none, leno, envoy, haproxy, nginx, linkerd");
    }

    #[test]
    fn what_is_missing_is_said_with_the_line_that_installs_it() {
        for text in ["linkerd", "linkerd=/nowhere/x", "haproxy=/nowhere/x", "envoy=/nowhere/x"] {
            let choice: Choice = text.parse().unwrap();
            let said = missing(&choice).unwrap_or_default();
            assert!(said.starts_with(choice.kind.name()), "{text}: {said}");
            let named = text.contains('=');
            assert_eq!(
                said.contains("the program /nowhere/x does not exist"),
                named,
                "{text}: {said}"
            );
        }
    }
}
