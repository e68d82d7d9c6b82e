//! The manifests of one topology variant: replicas set, instances multiplied. The change itself is pure.

use crate::run::plan::BedKey;
use crate::scenario::topology::{Instances, Topology};
use anyhow::{Context as _, bail};
use leno_up::manifest::document;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files for `leno up`: those of the scenario, or changed copies in `into`.
///
/// # Errors
/// A file cannot be read or is no YAML, or a workload whose replicas are to be set is not there.
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
    let mut objects = Vec::new();
    for path in &plain {
        objects.extend(read(path)?);
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
    let file = into.join("topology.yaml");
    // JSON is YAML.
    let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
    std::fs::write(&file, documents.join("\n---\n")).with_context(|| file.display().to_string())?;
    Ok(vec![file])
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
        for document in document::split(&text) {
            let value: Value = serde_saphyr::from_str(document.text).map_err(|error| {
                let said = error.without_snippet().to_string();
                anyhow::anyhow!("{}: {}", file.display(), said.lines().next().unwrap_or_default())
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
