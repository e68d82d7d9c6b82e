//! `leno stat KIND[/NAME]`: pods grouped by what they are of, and Services as their clients see them.

use super::choose::kind;
use super::traffic::{failing, look, percent, rest};
use crate::args::home::Scope;
use crate::args::{self, Format};
use crate::home::{Home, Member};
use crate::output;
use anyhow::bail;
use leno_install::check::applied::Proxies;
use leno_up::figures::reading::{Figures, Of, Reading, grouped};
use serde::Serialize;
use std::collections::BTreeMap;

/// One row; `docs/cli.md` is the contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Group {
    kind: &'static str,
    /// Empty for namespaces.
    namespace: String,
    name: String,
    /// Pods with a proxy; none for Services, whose figures are those of their clients.
    meshed: Option<usize>,
    pods: Option<usize>,
    /// None for Services, and where the control plane could not be asked.
    configuration: Option<Configuration>,
    /// None where no proxy was read twice.
    traffic: Option<Figures>,
}

/// Proxies of an object that acknowledge their configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Configuration {
    proxies: usize,
    /// Those with the newest one.
    applied: usize,
}

/// The requested objects: all of a kind, or one by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) kind: &'static str,
    pub(super) name: Option<String>,
}

pub(super) fn run(home: &Home, wanted: &args::Stat) -> anyhow::Result<()> {
    let wish = Wish::read(&wanted.target)?;
    let scope = &wanted.shown.scope;
    if wish.kind == "service" && scope.selector.is_some() {
        bail!(
            "-l selects pods and is not valid for Services: the figures of a Service come from all its clients"
        );
    }
    let asked = asked(&wish, scope);
    super::repeat(wanted.shown.watch, || {
        let members = home.members(&asked)?;
        let before = home.readings(&members)?;
        let proxies = super::applied::read(home).filter(|_| wish.kind != "service");
        look(wanted.window);
        let after = home.readings(&members)?;
        let rows = match wish.kind {
            "service" => services(&before, &after, &namespace_of(home, scope), &wish),
            _ => groups(&members, (&before, &after), proxies.as_ref(), &wish),
        };
        if let (Some(name), true) = (&wish.name, rows.is_empty()) {
            bail!("{}", missing(&wish, name));
        }
        Ok(match output::structured(wanted.shown.output, &rows)? {
            Some(text) => text,
            None if rows.is_empty() => {
                eprintln!("leno: there is no {} with figures here", wish.kind);
                String::new()
            }
            None => table(&rows, wanted.shown.output),
        })
    })
}

pub(super) fn missing(wish: &Wish, name: &str) -> String {
    match wish.kind {
        "service" => format!("no pod in the mesh has called a Service {name:?}"),
        "pod" => format!("there is no pod {name:?}; `leno ps` lists pods"),
        kind => format!(
            "there is no {kind} {name:?} with pods; `leno ps -o wide` lists pods and their workloads"
        ),
    }
}

impl Wish {
    pub(super) fn read(target: &[String]) -> anyhow::Result<Self> {
        let (typed, name) = match target {
            [one] => match one.split_once('/') {
                Some((kind, name)) => (kind, Some(name)),
                None => (one.as_str(), None),
            },
            [kind, name] => (kind.as_str(), Some(name.as_str())),
            _ => bail!("KIND, KIND/NAME or KIND NAME"),
        };
        let Some(kind) = kind(typed) else {
            bail!("{typed:?} is not a valid kind; use deploy, sts, ds, job, rs, rc, po, svc or ns");
        };
        if name == Some("") {
            bail!("{kind}/ needs a name");
        }
        Ok(Self { kind, name: name.map(str::to_owned) })
    }
}

impl Wish {
    /// Namespace and name of the requested object that a pod is of; the namespace is empty for namespaces.
    pub(super) fn object_of(&self, member: &Member) -> Option<(String, String)> {
        let (namespace, name) = match (self.kind, member.workload.split_once('/')) {
            ("pod", _) => (member.namespace.clone(), member.name.clone()),
            ("namespace", _) => (String::new(), member.namespace.clone()),
            (kind, Some((of, name))) if of == kind => (member.namespace.clone(), name.to_owned()),
            _ => return None,
        };
        self.name.as_ref().is_none_or(|wanted| *wanted == name).then_some((namespace, name))
    }
}

/// Whose proxies are asked: for Services, and for namespaces, those of all namespaces.
pub(super) fn asked(wish: &Wish, scope: &Scope) -> Scope {
    match (wish.kind, &wish.name) {
        ("service", _) => Scope { all_namespaces: true, namespace: None, selector: None },
        ("namespace", Some(name)) => {
            Scope { all_namespaces: false, namespace: Some(name.clone()), ..scope.clone() }
        }
        ("namespace", None) if scope.namespace.is_none() => {
            Scope { all_namespaces: true, ..scope.clone() }
        }
        _ => scope.clone(),
    }
}

/// The namespace of Services that are shown; none for all.
pub(super) fn namespace_of(home: &Home, scope: &Scope) -> Option<String> {
    match home {
        _ if scope.all_namespaces => None,
        Home::Machine(_) => scope.namespace.clone(),
        Home::Cluster(_) => {
            Some(scope.namespace.clone().unwrap_or_else(|| home.namespace().to_owned()))
        }
    }
}

/// Of these pods.
fn configuration(pods: &[&Member], proxies: &Proxies) -> Configuration {
    let is_one = |pod: &&&Member| proxies.pods.contains(&(pod.namespace.clone(), pod.name.clone()));
    let is_behind = |pod: &&&Member| {
        let mut behind = proxies.behind.iter();
        behind.any(|one| one.pod == pod.name && one.namespace == pod.namespace)
    };
    let total = pods.iter().filter(is_one).count();
    Configuration { proxies: total, applied: total - pods.iter().filter(is_behind).count() }
}

fn groups(
    members: &[Member],
    (before, after): (&[Reading], &[Reading]),
    proxies: Option<&Proxies>,
    wish: &Wish,
) -> Vec<Group> {
    let mut found: BTreeMap<(String, String), Vec<&Member>> = BTreeMap::new();
    for member in members.iter().filter(|member| !member.ending) {
        if let Some(of) = wish.object_of(member) {
            found.entry(of).or_default().push(member);
        }
    }
    let row = |((namespace, name), pods): ((String, String), Vec<&Member>)| {
        let is_of = |reading: &&Reading| {
            pods.iter().any(|pod| pod.name == reading.pod && pod.namespace == reading.namespace)
        };
        Group {
            kind: wish.kind,
            namespace,
            name,
            meshed: Some(pods.iter().filter(|pod| pod.meshed).count()),
            pods: Some(pods.len()),
            configuration: proxies.map(|proxies| configuration(&pods, proxies)),
            traffic: grouped(before, after.iter().filter(is_of), &Of::Inbound),
        }
    };
    found.into_iter().map(row).collect()
}

/// Services that pods of the mesh have called, as those clients counted.
fn services(
    before: &[Reading],
    after: &[Reading],
    namespace: &Option<String>,
    wish: &Wish,
) -> Vec<Group> {
    let mut called: Vec<(String, String)> = after.iter().flat_map(Reading::services).collect();
    called.sort();
    called.dedup();
    called.retain(|(of, name)| {
        namespace.as_ref().is_none_or(|wanted| wanted == of)
            && wish.name.as_ref().is_none_or(|wanted| wanted == name)
    });
    let row = |(namespace, name): (String, String)| Group {
        traffic: grouped(before, after, &Of::Service(namespace.clone(), name.clone())),
        kind: "service",
        namespace,
        name,
        meshed: None,
        pods: None,
        configuration: None,
    };
    called.into_iter().map(row).collect()
}

fn table(rows: &[Group], format: Format) -> String {
    if format == Format::Name {
        return rows.iter().map(|row| format!("{}/{}\n", row.kind, row.name)).collect();
    }
    let wide = format == Format::Wide;
    let is_behind = |one: Configuration| one.applied < one.proxies;
    // Where all have the newest configuration, a column would only take room.
    let with_applied = wide || rows.iter().filter_map(|row| row.configuration).any(is_behind);
    let mut headings = vec!["NAMESPACE", "NAME", "MESHED"];
    if with_applied {
        headings.push("APPLIED");
    }
    headings.extend(["SUCCESS", "RPS", "LATENCY_P50", "LATENCY_P95", "LATENCY_P99", "TCP_CONN"]);
    if wide {
        headings.extend(["OPENED/S", "READ/S", "WRITE/S"]);
        headings.extend(["RETRIES/S", "AMPLIFICATION", "SHED/S", "EJECTED"]);
    }
    let shown = |row: &Group| {
        let dash = || "-".to_owned();
        let meshed = row.meshed.zip(row.pods);
        let mut cells = vec![
            if row.namespace.is_empty() { dash() } else { row.namespace.clone() },
            row.name.clone(),
            meshed.map_or_else(dash, |(meshed, pods)| format!("{meshed}/{pods}")),
        ];
        if with_applied {
            let of = |one: Configuration| format!("{}/{}", one.applied, one.proxies);
            cells.push(row.configuration.map_or_else(dash, of));
        }
        match &row.traffic {
            None => cells.extend((0..13).map(|_| dash())),
            Some(figures) => {
                cells.push(percent(figures.success_rate));
                cells.push(format!("{:.1}", figures.requests_per_second));
                cells.extend(rest(figures));
                cells.extend(failing(figures));
            }
        }
        cells.truncate(headings.len());
        cells
    };
    output::shown(&headings, &rows.iter().map(shown).collect::<Vec<_>>(), wide)
}

#[cfg(test)]
mod tests;
