//! The user's manifests as a bed runs them: the same text, except for annotations on the pods that get no sidecar or other options.
//! Pure, but for reading and writing files.

use super::{Choice, Kind, Sidecars, Topology};
use anyhow::{Context, Result, bail};
use leno_up::manifest::{self, Loaded, Weight};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Reads and checks the manifests, and writes what this bed runs into the directory.
///
/// # Errors
/// Every mistake in them, with file and line.
pub fn write(topology: &Topology, choice: &Choice, directory: &Path) -> Result<()> {
    let loaded = manifest::read(&topology.manifests);
    if loaded.is_refused() {
        let refused = loaded.problems.iter().filter(|problem| problem.weight == Weight::Error);
        let lines: Vec<String> = refused.map(ToString::to_string).collect();
        bail!("{}", lines.join("\n"));
    }
    check_names(topology, &loaded)?;
    std::fs::create_dir_all(directory)?;
    for (number, file) in files(&topology.manifests)?.iter().enumerate() {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let written = rewritten(&text, topology, choice, &loaded);
        std::fs::write(directory.join(format!("{number:03}-{name}.yaml")), written)?;
    }
    Ok(())
}

/// The files that `leno up` would read, in its order.
fn files(sources: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for source in sources {
        if !source.is_dir() {
            all.push(source.clone());
            continue;
        }
        let entries = std::fs::read_dir(source).with_context(|| source.display().to_string())?;
        let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        found.retain(|path| {
            let extension = path.extension().and_then(|extension| extension.to_str());
            matches!(extension, Some("yaml" | "yml" | "json"))
        });
        found.sort();
        all.extend(found);
    }
    Ok(all)
}

/// A misspelt name would leave a sidecar where none is wanted.
fn check_names(topology: &Topology, loaded: &Loaded) -> Result<()> {
    let objects = &loaded.objects;
    let known = objects.deployments.keys().chain(objects.pods.keys()).chain(objects.jobs.keys());
    let known: Vec<&(String, String)> = known.collect();
    for wanted in &topology.unmeshed {
        if !known.iter().any(|(namespace, name)| is_named(wanted, namespace, name)) {
            bail!("unmeshed: there is no workload {wanted:?} in the manifests");
        }
    }
    Ok(())
}

fn is_named(wanted: &str, namespace: &str, name: &str) -> bool {
    match wanted.split_once('/') {
        Some((of, wanted)) => of == namespace && wanted == name,
        None => wanted == name,
    }
}

/// Whether a workload (namespace and name) gets no sidecar; `is_server` says that a Service selects its pods.
pub(crate) fn stays_out(
    sidecars: Sidecars,
    unmeshed: &[String],
    (namespace, name): (&str, &str),
    is_server: bool,
) -> bool {
    unmeshed.iter().any(|wanted| is_named(wanted, namespace, name))
        || match sidecars {
            Sidecars::None => true,
            Sidecars::Client => is_server,
            Sidecars::Server => !is_server,
            Sidecars::Both => false,
        }
}

/// One file's text; documents that stay as they are keep their very words.
#[must_use]
pub fn rewritten(text: &str, topology: &Topology, choice: &Choice, loaded: &Loaded) -> String {
    let mut written = String::new();
    for document in leno_manifest::documents(text) {
        if !written.is_empty() {
            written.push_str("---\n");
        }
        let value = leno_manifest::read(document.text).unwrap_or_default();
        match annotated(value, topology, choice, loaded) {
            Some(value) => written.push_str(&format!("{value:#}\n")),
            None if document.text.is_empty() => written.push_str("# Nothing.\n"),
            None => written.push_str(document.text),
        }
    }
    written
}

/// The document with annotations, where it makes pods that need any.
fn annotated(
    mut value: Value,
    topology: &Topology,
    choice: &Choice,
    loaded: &Loaded,
) -> Option<Value> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let namespace = text(&value["metadata"]["namespace"]).unwrap_or_else(|| "default".to_owned());
    let name = text(&value["metadata"]["name"])?;
    let pod = match value["kind"].as_str()? {
        "Pod" => &mut value,
        "Deployment" | "Job" => &mut value["spec"]["template"],
        _ => return None,
    };
    let labels: BTreeMap<String, String> =
        serde_json::from_value(pod["metadata"]["labels"].clone()).unwrap_or_default();
    let is_server = loaded.objects.services.iter().any(|((of, _), service)| {
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let selector = selector.filter(|selector| !selector.is_empty());
        *of == namespace
            && selector.is_some_and(|wanted| {
                wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
            })
    });
    let excluded = stays_out(topology.sidecars, &topology.unmeshed, (&namespace, &name), is_server);
    let mut wanted: Vec<(&str, String)> = Vec::new();
    if excluded {
        wanted.push(("leno.dev/inject", "disabled".to_owned()));
    } else if choice.kind == Kind::Linkerd {
        // As linkerd's own control plane has it: HTTP/1 between its proxies is carried in HTTP/2.
        wanted.push(("leno.dev/http2-upgrade", "true".to_owned()));
    }
    if let Some(workers) = choice.options.get("workers") {
        wanted.push(("leno.dev/proxy-workers", workers.clone()));
    }
    if wanted.is_empty() {
        return None;
    }
    if pod["metadata"].is_null() {
        pod["metadata"] = json!({});
    }
    if pod["metadata"]["annotations"].is_null() {
        pod["metadata"]["annotations"] = json!({});
    }
    for (key, value) in wanted {
        pod["metadata"]["annotations"][key] = value.into();
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# kept\nkind: Service\napiVersion: v1\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n\
        ---\nkind: Deployment\napiVersion: apps/v1\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  \
        template:\n    metadata: {labels: {app: web}, annotations: {a: b}}\n    spec: {containers: [{name: c, command: [x]}]}\n\
        ---\nkind: Pod\napiVersion: v1\nmetadata: {name: client}\nspec: {containers: [{name: c, command: [x]}]}\n";

    fn injected(topology: &Topology, choice: &Choice) -> Vec<String> {
        let mut loaded = Loaded::default();
        manifest::read_text(Path::new("all.yaml"), TEXT, &mut loaded);
        assert!(!loaded.is_refused(), "{:?}", loaded.problems);
        check_names(topology, &loaded).unwrap();
        let written = rewritten(TEXT, topology, choice, &loaded);
        assert!(written.starts_with("# kept\n"), "{written}");
        let mut again = Loaded::default();
        manifest::read_text(Path::new("all.yaml"), &written, &mut again);
        assert!(!again.is_refused(), "{:?}", again.problems);
        let objects = again.objects;
        let web = objects.deployments[&("default".into(), "web".into())].spec.clone().unwrap();
        let client = objects.pods[&("default".into(), "client".into())].metadata.clone();
        [("web", web.template.metadata.unwrap()), ("client", client)]
            .into_iter()
            .flat_map(|(name, metadata)| {
                let annotations = metadata.annotations.unwrap_or_default();
                annotations.into_iter().map(move |(key, value)| format!("{name} {key}={value}"))
            })
            .collect()
    }

    #[test]
    fn who_gets_a_sidecar() {
        let of = |sidecars: &str, unmeshed: &[&str]| Topology {
            manifests: Vec::new(),
            sidecars: Sidecars::ALL.iter().find(|(name, _)| *name == sidecars).unwrap().1,
            unmeshed: unmeshed.iter().map(ToString::to_string).collect(),
        };
        let plain = Choice::from(Kind::Leno);
        let out = "leno.dev/inject=disabled";
        let (web, client) = (format!("web {out}"), format!("client {out}"));
        assert_eq!(injected(&of("both", &[]), &plain), ["web a=b"]);
        assert_eq!(injected(&of("client", &[]), &plain), ["web a=b", &web]);
        assert_eq!(injected(&of("server", &[]), &plain), ["web a=b", &client]);
        assert_eq!(injected(&of("none", &[]), &plain), ["web a=b", &web, &client]);
        assert_eq!(injected(&of("both", &["default/client"]), &plain), ["web a=b", &client]);
        let workers = injected(&of("both", &[]), &"leno+workers=2".parse().unwrap());
        assert_eq!(
            workers,
            ["web a=b", "web leno.dev/proxy-workers=2", "client leno.dev/proxy-workers=2"]
        );
        let upgraded = "web leno.dev/http2-upgrade=true";
        let linkerd = Choice::from(Kind::Linkerd);
        assert_eq!(injected(&of("server", &[]), &linkerd), ["web a=b", upgraded, &client]);
    }

    #[test]
    fn a_workload_that_is_not_there() {
        let topology = Topology { unmeshed: vec!["wbe".into()], ..Topology::default() };
        let error = check_names(&topology, &Loaded::default()).unwrap_err().to_string();
        assert!(error.contains("wbe"), "{error}");
    }
}
