//! The software bill of materials: every crate that is linked into a program of the release, in CycloneDX 1.6.

use super::Source;
use crate::fences::Metadata;
use anyhow::{Context as _, Result};
use serde_json::json;
use std::collections::BTreeMap;

/// The bill of some packages of ours.
///
/// # Errors
/// When a package is not known to cargo.
pub(super) fn bill(
    metadata: &Metadata,
    lock: &toml::Table,
    packages: &[&str],
    source: &Source,
) -> Result<String> {
    let checksums = checksums(lock);
    let mut components = BTreeMap::new();
    let mut dependencies = BTreeMap::new();
    for package in packages {
        for linked in metadata.linked(package)? {
            let name = reference(linked.name, linked.version);
            let mut component = json!({
                "type": if packages.contains(&linked.name) { "application" } else { "library" },
                "bom-ref": name,
                "name": linked.name,
                "version": linked.version,
                "purl": name,
            });
            if !linked.license.is_empty() {
                // Old manifests write a slash for OR.
                let expression = linked.license.replace('/', " OR ");
                component["licenses"] = json!([{"expression": expression}]);
            }
            if let Some(checksum) = checksums.get(&(linked.name, linked.version)) {
                component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
            }
            let uses: Vec<String> =
                linked.uses.iter().map(|(name, version)| reference(name, version)).collect();
            dependencies.insert(name.clone(), json!({"ref": name, "dependsOn": uses}));
            components.insert(name, component);
        }
    }
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": source.time,
            "component": {
                "type": "application",
                "bom-ref": "leno",
                "name": "leno",
                "version": source.version,
                "licenses": [{"expression": env!("CARGO_PKG_LICENSE")}],
                "properties": [{"name": "leno:commit", "value": source.commit}],
            },
        },
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies.into_values().collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&bill).context("the SBOM")? + "\n")
}

fn reference(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

/// Of Cargo.lock, by name and version. Crates of ours have none.
fn checksums(lock: &toml::Table) -> BTreeMap<(&str, &str), &str> {
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    packages
        .filter_map(|package| {
            let field = |name: &str| package.get(name).and_then(toml::Value::as_str);
            Some(((field("name")?, field("version")?), field("checksum")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_linked_crate_is_a_component_with_its_checksum() {
        std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap();
        let lock: toml::Table = std::fs::read_to_string("Cargo.lock").unwrap().parse().unwrap();
        let source = Source {
            version: "1.2.3".to_owned(),
            commit: "abc".to_owned(),
            seconds: 0,
            time: "1970-01-01T00:00:00Z".to_owned(),
        };
        let metadata = crate::fences::metadata().unwrap();
        let text = bill(&metadata, &lock, &["leno-proxy"], &source).unwrap();
        assert_eq!(text, bill(&metadata, &lock, &["leno-proxy"], &source).unwrap());
        let bill: Value = serde_json::from_str(&text).unwrap();
        let components = bill["components"].as_array().unwrap();
        assert_eq!(components.len(), metadata.reached("leno-proxy").unwrap().len());
        let named = |name: &str| components.iter().find(|component| component["name"] == name);
        assert_eq!(named("leno-proxy").unwrap()["type"], "application");
        let rustls = named("rustls").unwrap();
        assert_eq!(rustls["hashes"][0]["content"].as_str().unwrap().len(), 64);
        assert!(named("kube-client").is_none(), "the proxy does not link it");
        let listed: Vec<&Value> =
            components.iter().map(|component| &component["bom-ref"]).collect();
        for dependency in bill["dependencies"].as_array().unwrap() {
            for used in dependency["dependsOn"].as_array().unwrap() {
                assert!(listed.contains(&used), "{used} is not a component");
            }
        }
    }
}
