//! The manifests of one topology variant: replicas set, instances multiplied. The change itself is pure. And what all variants
//! have, for the scenario's checks.

use crate::run::plan::BedKey;
use crate::scenario::known::Known;
use crate::scenario::topology::{Instances, Topology};
use anyhow::{Context as _, bail};
use leno_manifest::read_all;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files for `leno up`: those of the scenario, or changed copies in `into`.
///
/// # Errors
/// A file cannot be read or is not YAML, or a workload with `replicas` does not exist.
pub fn prepare(
    base: &Path,
    topology: &Topology,
    key: &BedKey,
    into: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let plain: Vec<PathBuf> = topology.manifests.iter().map(|path| base.join(path)).collect();
    for path in &plain {
        std::fs::metadata(path).with_context(|| format!("manifest {}", path.display()))?;
    }
    if key.replicas.is_empty() && topology.instances.is_none() {
        return Ok(plain);
    }
    let file = into.join("topology.yaml");
    // JSON is YAML.
    let objects = variant(base, topology, key)?;
    let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
    std::fs::write(&file, documents.join("\n---\n")).with_context(|| file.display().to_string())?;
    Ok(vec![file])
}

/// The objects of one topology variant.
///
/// # Errors
/// As [`prepare`].
pub fn variant(base: &Path, topology: &Topology, key: &BedKey) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for path in &topology.manifests {
        objects.extend(read(&base.join(path))?);
    }
    if let Some(instances) = &topology.instances {
        for path in &instances.manifests {
            let of_file = read(&base.join(path))?;
            for number in 0..instances.count {
                objects.extend(
                    of_file.iter().filter_map(|object| instance(object, instances, number)),
                );
            }
        }
    }
    set_replicas(&mut objects, &key.replicas)?;
    Ok(objects)
}

/// What a scenario may name of its topology, and what is wrong with the manifests.
#[must_use]
pub fn known(base: &Path, topology: &Topology) -> Known {
    let (objects, mistakes) = objects(base, topology);
    let mut known = Known::of(&objects);
    known.mistakes = mistakes;
    known
}

/// Every object that runs, with as many replicas as its manifest says; and fields of the topology with what is wrong.
#[must_use]
pub fn objects(base: &Path, topology: &Topology) -> (Vec<Value>, Vec<(String, String)>) {
    let (mut objects, mut mistakes) = (Vec::new(), Vec::new());
    let mut each = |field: &str, paths: &[PathBuf], take: &mut dyn FnMut(Vec<Value>)| {
        for (at, path) in paths.iter().enumerate() {
            match checked(&base.join(path)) {
                Ok(of_file) => take(of_file),
                Err(said) => {
                    mistakes.extend(said.into_iter().map(|said| (format!("{field}.{at}"), said)));
                }
            }
        }
    };
    each("manifests", &topology.manifests, &mut |of_file| objects.extend(of_file));
    if let Some(instances) = &topology.instances {
        let mut once = Vec::new();
        each("instances.manifests", &instances.manifests, &mut |of_file| once.extend(of_file));
        if mistakes.is_empty() {
            mistakes.extend(not_left_out(instances, &once));
        }
        for number in 0..instances.count {
            objects.extend(once.iter().filter_map(|object| instance(object, instances, number)));
        }
    }
    (objects, mistakes)
}

/// The objects of a file or directory, or all that `leno up` would refuse.
fn checked(path: &Path) -> Result<Vec<Value>, Vec<String>> {
    if !path.exists() {
        return Err(vec![format!("there is no {}", path.display())]);
    }
    let objects = read(path).map_err(|error| vec![format!("{error:#}")])?;
    let problems = leno_up::manifest::read(&[path.to_owned()]).problems;
    let refused: Vec<String> = problems
        .iter()
        .filter(|problem| problem.weight == leno_up::manifest::Weight::Error)
        .map(ToString::to_string)
        .collect();
    if refused.is_empty() { Ok(objects) } else { Err(refused) }
}

/// Workloads that instances leave out and do not have.
fn not_left_out(instances: &Instances, objects: &[Value]) -> Vec<(String, String)> {
    let has = |name: &String| objects.iter().any(|object| object["metadata"]["name"] == **name);
    let lacking = instances.without.iter().enumerate().filter(|(_, name)| !has(name));
    lacking
        .map(|(at, name)| {
            (format!("instances.without.{at}"), format!("the manifests have no {name:?}"))
        })
        .collect()
}

/// Every object of a file, or of all manifests in a directory.
fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path)?.collect::<Result<Vec<_>, _>>()?;
        files = entries.into_iter().map(|entry| entry.path()).collect();
        files.retain(|file| {
            let ending = file.extension().and_then(|ending| ending.to_str());
            matches!(ending, Some("yaml" | "yml" | "json"))
        });
        files.sort();
    }
    let mut objects = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("manifest {}", file.display()))?;
        for (document, value) in read_all(&text) {
            let value = value.map_err(|wrong| {
                let line = document.first_line + wrong.line - 1;
                anyhow::anyhow!("{}:{line}:{}: {}", file.display(), wrong.column, wrong.message)
            })?;
            if !value.is_null() {
                objects.push(value);
            }
        }
    }
    Ok(objects)
}

/// The same object in the namespace of an instance; nothing for what instances leave out.
fn instance(object: &Value, instances: &Instances, number: u32) -> Option<Value> {
    let mut object = object.clone();
    let is_namespace = object["kind"] == "Namespace";
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    if instances.without.iter().any(|without| without == name) {
        return None;
    }
    let field = if is_namespace { "name" } else { "namespace" };
    let namespace = metadata.get(field).and_then(Value::as_str).unwrap_or("default");
    let namespace = format!("{namespace}-{number}");
    metadata.insert(field.to_owned(), json!(namespace));
    Some(object)
}

/// Sets `spec.replicas` of Deployments, named `name` or `namespace/name`.
fn set_replicas(objects: &mut [Value], replicas: &BTreeMap<String, u32>) -> anyhow::Result<()> {
    for (workload, count) in replicas {
        let mut found = false;
        for object in objects.iter_mut().filter(|object| object["kind"] == "Deployment") {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
            if workload == name || *workload == format!("{namespace}/{name}") {
                object["spec"]["replicas"] = json!(count);
                found = true;
            }
        }
        if !found {
            bail!("replicas: no manifest has a Deployment {workload}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::Sidecars;

    #[test]
    fn replicas_are_set_and_instances_live_in_namespaces_of_their_own() {
        let directory = tempfile::tempdir().expect("a directory");
        let base = directory.path();
        std::fs::write(
            base.join("app.yaml"),
            "kind: Namespace\nmetadata: {name: shop}\n---\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {}\n---\nkind: Deployment\nmetadata: {name: bot, namespace: shop}\n",
        )
        .expect("written");
        std::fs::write(
            base.join("client.yaml"),
            "kind: Deployment\nmetadata: {name: client}\nspec: {}\n",
        )
        .expect("written");
        let instances =
            Instances { count: 2, manifests: vec!["app.yaml".into()], without: vec!["bot".into()] };
        let topology = Topology {
            manifests: vec!["client.yaml".into()],
            instances: Some(instances),
            ..Topology::default()
        };
        let key = |workload: &str| BedKey {
            mesh: 0,
            sidecars: Sidecars::Both,
            replicas: BTreeMap::from([(workload.to_owned(), 3)]),
        };
        let files = prepare(base, &topology, &key("shop-1/web"), base).expect("prepared");
        let seen: Vec<String> = read(&files[0])
            .expect("read")
            .iter()
            .map(|object| {
                let metadata = &object["metadata"];
                let namespace = metadata["namespace"].as_str().unwrap_or_default();
                let name = metadata["name"].as_str().unwrap_or_default();
                format!("{namespace}/{name}*{}", object["spec"]["replicas"])
            })
            .collect();
        let expected =
            ["/client*null", "/shop-0*null", "shop-0/web*null", "/shop-1*null", "shop-1/web*3"];
        assert_eq!(seen, expected);
        assert!(prepare(base, &topology, &key("other"), base).is_err());
    }
}
