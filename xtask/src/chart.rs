//! `cargo xtask chart`: what `leno install` renders without Helm is what Helm renders, object by object, for several sets of values.
//!
//! Helm is built from its Go module into the target directory, once.

use crate::command;
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The newest of Helm 3 that the Go of Debian's backports builds; its templates have not changed for years.
const HELM: &str = "helm.sh/helm/v3/cmd/helm@v3.19.0";
const CHART: &str = "deploy/leno";

/// Flags that mean the same to both; `--ha` is a file of the chart.
const SETS: [&[&str]; 7] = [
    &[],
    &["--ha"],
    &[
        "--set",
        "podMonitor.enabled=true,podMonitor.labels.release=x,dashboards.enabled=true,alerts.enabled=true,alerts.successObjective=0.99,networkPolicy.enabled=true",
    ],
    &[
        "--set",
        "control.replicas=2,control.logFormat=json,control.priorityClassName=system-cluster-critical",
        "--set",
        r"control.podAnnotations.leno\.dev/note=a b,control.podLabels.team=mesh,imagePullSecrets=null",
        "--set",
        "control.nodeSelector=null,control.resources.limits=null,identity.trustDomain=mesh.example",
    ],
    &["--set", "identity.external=true"],
    &[
        "--set",
        "injector.linkerdAnnotations=false,proxy.resources.requests.cpu=1,proxy.resources.requests.memory=null",
        "--set",
        "proxy.resources.limits.memory=64Mi,enabled=true,tags.mesh=true",
        "--set-string",
        r"control.podAnnotations.prometheus\.io/scrape=false",
    ],
    &[
        "--set",
        "proxy.resources=null,control.podAnnotations=null,control.spread=true,control.affinity.nodeAffinity.a=b",
    ],
];

/// Renders with both, and compares.
pub(crate) fn run() -> Result<()> {
    let target = command::target_directory()?;
    let leno = target.join("debug/leno");
    ensure!(leno.exists(), "{} is not built: cargo build", leno.display());
    let helm = helm(&target)?;
    let values = target.join("helm/values.json");
    for flags in SETS {
        let ours = ours(&leno, flags)?;
        fs::write(&values, brought(&ours)?.to_string())?;
        let theirs = theirs(&helm, &values, flags)?;
        compare(&ours, &theirs).with_context(|| format!("with {flags:?}"))?;
        eprintln!("{} objects are Helm's, with {flags:?}", ours.len());
    }
    Ok(())
}

fn helm(target: &Path) -> Result<PathBuf> {
    let folder = target.join("helm");
    let helm = folder.join("helm");
    if !helm.exists() {
        fs::create_dir_all(&folder)?;
        command::step(Command::new("go").args(["install", HELM]).env("GOBIN", &folder))?;
    }
    Ok(helm)
}

type Objects = BTreeMap<String, Value>;

fn ours(leno: &Path, flags: &[&str]) -> Result<Objects> {
    let mut install = Command::new(leno);
    install.args(["install", "--ignore-cluster", "-o", "json"]).args(flags);
    let list: Value = serde_json::from_str(&command::output(&mut install)?)?;
    let items = list["items"].as_array().context("a list")?.clone();
    named(items)
}

fn theirs(helm: &Path, values: &Path, flags: &[&str]) -> Result<Objects> {
    let mut template = Command::new(helm);
    let words = ["template", "leno", CHART, "--namespace", "leno", "--kube-version", "1.35.0"];
    template.args(words);
    for flag in flags {
        match *flag {
            "--ha" => template.args(["--values", "deploy/leno/values-ha.yaml"]),
            flag => template.arg(flag),
        };
    }
    let text = command::output(template.arg("--values").arg(values))?;
    let mut objects = Vec::new();
    for (_, value) in leno_manifest::read_all(&text) {
        objects.extend(Some(value?).filter(|value| !value.is_null()));
    }
    named(objects)
}

fn named(objects: Vec<Value>) -> Result<Objects> {
    let mut all = Objects::new();
    for mut object in objects {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let name = [text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"])]
            .join("/");
        // The one word in which they differ by intention: who installed it.
        if object["data"].get("installed-by").is_some() {
            object["data"]["installed-by"] = "somebody".into();
        }
        if all.insert(name.clone(), object).is_some() {
            bail!("{name} is there twice");
        }
    }
    Ok(all)
}

/// What `leno install` makes by itself, as values for Helm.
fn brought(ours: &Objects) -> Result<Value> {
    let object = |name: &str| ours.get(name).unwrap_or(&Value::Null);
    let given = object("ConfigMap/leno/leno-config")["data"]["values"].clone();
    let mut values = json!({"createNamespace": true, "given": given});
    let anchors = &object("ConfigMap/leno/leno-trust-anchors")["data"]["trust-anchors.pem"];
    if let Some(anchors) = anchors.as_str() {
        let pair = |name: &str| -> Result<Value> {
            let data = &object(name)["data"];
            let certificate = decoded(&data["tls.crt"])?;
            Ok(json!({"certificate": certificate, "key": decoded(&data["tls.key"])?}))
        };
        values["identity"] = json!({
            // The Secret has it as it was given; the ConfigMap without blanks around it.
            "trustAnchors": decoded(&object("Secret/leno/leno-identity-issuer")["data"]["ca.crt"])
                .unwrap_or_else(|_| anchors.to_owned()),
            "issuer": pair("Secret/leno/leno-identity-issuer")?,
            "root": pair("Secret/leno/leno-identity-root")?,
        });
    }
    Ok(values)
}

/// Base64 by the system's own tool, which every Debian has: no crate for three lines of a check.
fn decoded(value: &Value) -> Result<String> {
    let text = value.as_str().context("a text of a Secret")?;
    command::output(Command::new("sh").args(["-c", "printf %s \"$1\" | base64 -d", "sh", text]))
}

fn compare(ours: &Objects, theirs: &Objects) -> Result<()> {
    let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
    ensure!(names(ours) == names(theirs), "{:?}\nHelm: {:?}", names(ours), names(theirs));
    for (name, object) in ours {
        let other = &theirs[name];
        ensure!(object == other, "{name}:\n{object:#}\nHelm:\n{other:#}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_said() {
        let one =
            |value: u32| named(vec![json!({"kind": "A", "metadata": {"name": "b"}, "x": value})]);
        assert!(compare(&one(1).unwrap(), &one(1).unwrap()).is_ok());
        let said = compare(&one(1).unwrap(), &one(2).unwrap()).unwrap_err().to_string();
        assert!(said.starts_with("A//b:"), "{said}");
        assert!(compare(&one(1).unwrap(), &Objects::new()).is_err());
    }
}
