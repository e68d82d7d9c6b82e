//! `leno inject` and `leno uninject`: manifests in, manifests out. What happens to a pod is `leno_inject`'s to say.

use crate::args::{Inject, Manifests};
use crate::output;
use anyhow::{Context as _, bail};
use leno_inject::Mesh;
use leno_inject::annotation::value;
use leno_inject::file::{self, Done, Namespaces, Said};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Standard input, as people write it.
const STANDARD_INPUT: &str = "-";
/// What is read of one file: far more than an API server takes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Directories in directories are followed this deep, so that a circle of links has an end.
const DEPTH_MAX: usize = 16;

/// Prints manifests with proxies; exit code 1, and nothing printed, where one cannot be part of the mesh.
pub(crate) fn inject(wish: &Inject) -> anyhow::Result<ExitCode> {
    let mesh = mesh(wish)?;
    let texts = read(&wish.manifests)?;
    let mut namespaces = Namespaces::new();
    for (_, text) in &texts {
        file::add_namespaces(text, &mut namespaces);
    }
    let all = texts
        .into_iter()
        .map(|(path, text)| (path, file::inject_file(&text, &wish.namespace, &namespaces, &mesh)))
        .collect();
    report(all, wish.ignore_refused)
}

/// Prints manifests without proxies.
pub(crate) fn uninject(manifests: &Manifests) -> anyhow::Result<ExitCode> {
    let texts = read(manifests)?;
    let all = texts.into_iter().map(|(path, text)| (path, file::uninject_file(&text))).collect();
    report(all, false)
}

fn mesh(wish: &Inject) -> anyhow::Result<Mesh> {
    let defaults = Mesh::default();
    let namespace = wish.control_namespace.clone();
    let address = || format!("leno-control.{namespace}.svc:{}", Mesh::CONTROL_PORT);
    let control_address = wish.control_address.clone().unwrap_or_else(address);
    let port = control_address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    if !port.is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0)) {
        bail!("--control-address {control_address:?} is not HOST:PORT");
    }
    let proxy_image = match &wish.proxy_image {
        None => defaults.proxy_image,
        Some(image) => {
            value::image(image).map_err(|wrong| anyhow::anyhow!("--proxy-image: {wrong}"))?
        }
    };
    Ok(Mesh {
        proxy_image,
        image_pull_policy: wish.image_pull_policy.clone().unwrap_or(defaults.image_pull_policy),
        control_address,
        control_ip: None,
        trust_domain: wish.trust_domain.clone(),
        trust_anchors: wish.trust_anchors.clone(),
        resources: defaults.resources,
        settings: defaults.settings,
        words: defaults.words,
        host_network: defaults.host_network,
        prometheus_annotations: defaults.prometheus_annotations,
        namespace,
    })
}

/// Every file, in the order given, those of directories by name.
fn read(manifests: &Manifests) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for path in &manifests.files {
        if path.as_os_str() == STANDARD_INPUT {
            found.push((PathBuf::from("standard input"), limited(std::io::stdin().lock(), path)?));
        } else {
            let depth = if manifests.recursive { DEPTH_MAX } else { 1 };
            read_path(path, depth, &mut found)?;
        }
    }
    if found.is_empty() {
        bail!("the directory has no *.yaml, *.yml or *.json; -R reads subdirectories");
    }
    Ok(found)
}

fn read_path(path: &Path, depth: usize, found: &mut Vec<(PathBuf, String)>) -> anyhow::Result<()> {
    let shown = || path.display().to_string();
    if !path.is_dir() {
        let opened = std::fs::File::open(path).with_context(shown)?;
        found.push((path.to_owned(), limited(opened, path)?));
        return Ok(());
    }
    let entries = std::fs::read_dir(path).with_context(shown)?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()
        .with_context(shown)?;
    paths.sort();
    for path in paths {
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        if path.is_dir() {
            if depth > 1 {
                read_path(&path, depth - 1, found)?;
            }
        } else if ["yaml", "yml", "json"].contains(&kind) {
            read_path(&path, depth, found)?;
        }
    }
    Ok(())
}

fn limited(from: impl std::io::Read, path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = from.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    let bytes = read.with_context(|| path.display().to_string())?;
    if bytes as u64 > FILE_BYTES_MAX {
        bail!("{} is larger than {FILE_BYTES_MAX} bytes", path.display());
    }
    Ok(text)
}

/// A word on every object to standard error, then all files as one.
fn report(all: Vec<(PathBuf, Done)>, ignore_refused: bool) -> anyhow::Result<ExitCode> {
    let several = all.len() > 1;
    let mut refused = 0;
    let mut out = String::new();
    for (path, done) in all {
        for report in &done.reports {
            let place = if several { format!("{}: ", path.display()) } else { String::new() };
            eprintln!("{place}{report}");
            for warning in &report.warnings {
                eprintln!("{place}{}: note: {warning}", report.object);
            }
            refused += usize::from(matches!(report.said, Said::Refused(_)));
        }
        if !out.is_empty() && !done.text.starts_with("---") {
            out.push_str(if out.ends_with('\n') { "---\n" } else { "\n---\n" });
        }
        out.push_str(&done.text);
    }
    if refused > 0 && !ignore_refused {
        eprintln!(
            "leno: {refused} refused, so nothing is printed; --ignore-refused leaves them unchanged"
        );
        return Ok(ExitCode::FAILURE);
    }
    output::print(&out)?;
    Ok(ExitCode::SUCCESS)
}
