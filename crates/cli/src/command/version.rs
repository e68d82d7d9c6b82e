//! `leno version`: this program, and the control plane and proxies of a mesh that is found.

use crate::args::home::Scope;
use crate::args::{Form, Version, build};
use crate::home::Home;
use crate::output;
use leno_runtime::prometheus_text;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

/// How many programs have which version.
type Counts = BTreeMap<String, usize>;

/// What a mesh answered.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mesh {
    control_plane: Counts,
    proxies: Counts,
}

pub(super) fn run(given: Option<&Path>, wanted: &Version) -> anyhow::Result<ExitCode> {
    let is_there = !wanted.client && Home::meant(given, &wanted.cluster).is_ok();
    let asked = is_there.then(|| ask(given, wanted));
    let mesh = asked.as_ref().and_then(|asked| asked.as_ref().ok());
    output::print(&match wanted.output {
        Form::Text => text(mesh),
        Form::Json => format!("{:#}\n", json(mesh)),
    })?;
    // What is known is printed, whatever became of the rest.
    asked.transpose().map(|_| ExitCode::SUCCESS)
}

fn ask(given: Option<&Path>, wanted: &Version) -> anyhow::Result<Mesh> {
    let home = Home::find(given, &wanted.cluster)?;
    let mut mesh = Mesh::default();
    for text in control_metrics(&home)? {
        let mut samples = prometheus_text::samples(&text);
        let build = samples.find(|sample| sample.name == "control_build_info");
        let version = build.and_then(|sample| sample.labels.get("version").cloned());
        *mesh.control_plane.entry(version.unwrap_or_else(unknown)).or_default() += 1;
    }
    let members = home.members(&Scope { all_namespaces: true, ..Scope::default() })?;
    for reading in home.readings(&members)? {
        let version = reading.label("proxy_build_info", "version").map(str::to_owned);
        *mesh.proxies.entry(version.unwrap_or_else(unknown)).or_default() += 1;
    }
    Ok(mesh)
}

/// The version of a program whose metrics do not have it.
fn unknown() -> String {
    "unknown".to_owned()
}

fn control_metrics(home: &Home) -> anyhow::Result<Vec<String>> {
    Ok(match home {
        Home::Machine(_) => vec![home.control("/metrics")?.body],
        Home::Cluster(cluster) => {
            cluster.control_each("/metrics")?.into_iter().map(|(_, text)| text).collect()
        }
    })
}

fn text(mesh: Option<&Mesh>) -> String {
    let mut text = format!("leno {}\n", build());
    let Some(mesh) = mesh else { return text };
    for (name, counts) in [("control plane", &mesh.control_plane), ("proxies", &mesh.proxies)] {
        let each: Vec<_> =
            counts.iter().map(|(version, count)| format!("{version} ({count})")).collect();
        let shown = if each.is_empty() { "none".to_owned() } else { each.join(", ") };
        text.push_str(&format!("{name}: {shown}\n"));
    }
    text
}

fn json(mesh: Option<&Mesh>) -> Value {
    let build = build();
    let mut object =
        json!({"version": build.version, "commit": build.commit, "profile": build.profile});
    let list = |counts: &Counts| -> Value {
        counts.iter().map(|(version, count)| json!({"version": version, "count": count})).collect()
    };
    if let Some(mesh) = mesh {
        object["control_plane"] = list(&mesh.control_plane);
        object["proxies"] = list(&mesh.proxies);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mesh_is_shown_where_there_is_one() {
        let client = json(None);
        assert_eq!(client["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(client["profile"], leno_runtime::version::PROFILE);
        assert_eq!(client.as_object().unwrap().len(), 3);
        let first = format!("leno {} (commit ", env!("CARGO_PKG_VERSION"));
        assert!(text(None).starts_with(&first), "{}", text(None));

        let proxies = Counts::from([("0.1.0".to_owned(), 11), ("0.0.9".to_owned(), 1)]);
        let mesh = Mesh { control_plane: Counts::from([("0.1.0".to_owned(), 3)]), proxies };
        let shown = text(Some(&mesh));
        assert!(
            shown.ends_with("\ncontrol plane: 0.1.0 (3)\nproxies: 0.0.9 (1), 0.1.0 (11)\n"),
            "{shown}"
        );
        assert_eq!(json(Some(&mesh))["proxies"][1], json!({"version": "0.1.0", "count": 11}));
        assert!(text(Some(&Mesh::default())).ends_with("\ncontrol plane: none\nproxies: none\n"));
    }
}
