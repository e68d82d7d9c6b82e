//! `cargo xtask fences`: the rules for dependencies and imports.
//!
//! - Which crate may reach which other crate.
//! - Which licences are allowed, and which crates may exist in two versions: `deny.toml`, which `cargo deny check` reads as well.
//! - [`circles`]: no import circle between the files of a crate, except those in `xtask/circles.toml`.
//! - [`map`]: ARCHITECTURE.md names only paths and tests that exist.

mod circles;
mod licence;
mod map;

use crate::command;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A crate of ours, and what must not be in its graph, with the reason.
const FORBIDDEN: [(&str, &[&str], &str); 7] = [
    (
        "leno-proxy",
        &[
            "leno-control",
            "leno-kube",
            "kube-core",
            "kube-client",
            "clap",
            "hickory-proto",
            "serde-saphyr",
        ],
        "it runs beside every pod: small, and talks to the control plane through messages alone",
    ),
    (
        "leno-control",
        &["leno-proxy", "kube-runtime"],
        "it meets proxies in messages, and watches by itself: what kube keeps of every object is not small",
    ),
    (
        "leno-model",
        &["tokio", "serde", "rustls"],
        "rules are pure, and their tests take milliseconds",
    ),
    ("leno-http1", &["tokio", "serde", "rustls", "httparse"], "the parser is fuzzed alone"),
    ("leno-up", &["kube-client"], "a mesh on one machine needs no client of Kubernetes"),
    (
        "leno-manifest",
        &["tokio", "rustls", "k8s-openapi"],
        "reading is a function of text, and is fuzzed alone",
    ),
    (
        "leno-inject",
        &["tokio", "rustls", "k8s-openapi"],
        "admission is a function of bytes, and is fuzzed alone",
    ),
];

/// What each crate of ours may use of ours: a floor uses the floors below it.
const FLOORS: [(&str, &[&str]); 20] = [
    ("leno-text", &[]),
    ("leno-manifest", &[]),
    ("leno-model", &[]),
    ("leno-http1", &[]),
    ("leno-runtime", &["leno-text"]),
    ("leno-inject", &["leno-model", "leno-text", "leno-manifest"]),
    ("leno-kube", &["leno-runtime"]),
    ("leno-api", &["leno-model"]),
    ("leno-tls", &["leno-model", "leno-text"]),
    ("leno-proxy", &["leno-model", "leno-http1", "leno-api", "leno-tls", "leno-runtime"]),
    (
        "leno-control",
        &[
            "leno-model",
            "leno-manifest",
            "leno-inject",
            "leno-kube",
            "leno-api",
            "leno-tls",
            "leno-runtime",
        ],
    ),
    ("leno-testapp", &["leno-runtime"]),
    ("leno-install", &["leno-model", "leno-text", "leno-manifest", "leno-inject", "leno-tls"]),
    ("leno-up", &["leno-manifest", "leno-inject", "leno-runtime"]),
    ("leno-load", &["leno-runtime"]),
    (
        "leno-bench",
        &["leno-load", "leno-manifest", "leno-kube", "leno-up", "leno-tls", "leno-runtime"],
    ),
    (
        "leno-cli",
        &[
            "leno-up",
            "leno-bench",
            "leno-load",
            "leno-inject",
            "leno-install",
            "leno-kube",
            "leno-control",
            "leno-model",
            "leno-api",
            "leno-tls",
            "leno-runtime",
        ],
    ),
    ("leno-testkit", &["leno-model", "leno-api", "leno-tls"]),
    ("leno-tests", &["leno-http1", "leno-runtime", "leno-model", "leno-tls", "leno-testkit"]),
    (
        "xtask",
        &["leno-text", "leno-manifest", "leno-inject", "leno-load", "leno-runtime", "leno-tests"],
    ),
];

/// Forbidden crates that nothing brings today, so that a misspelt name is told from an absent one.
const NOWHERE: [&str; 1] = ["kube-runtime"];

/// Checks everything and reports everything.
pub(crate) fn run() -> Result<()> {
    let mut wrong = Vec::new();
    let metadata = metadata()?;
    reach(&metadata, &mut wrong)?;
    floors(&metadata, &mut wrong);
    let rules: toml::Table = std::fs::read_to_string("deny.toml")?.parse()?;
    licences(&metadata, &rules, &mut wrong)?;
    duplicates(&metadata, &rules, &mut wrong)?;
    let standing = circles::Standing::read()?;
    let found = circles::of_all(metadata.roots())?;
    standing.compare(&found, &mut wrong);
    map::check(&mut wrong)?;
    if wrong.is_empty() {
        eprintln!(
            "fences hold: {} crates of others; licences and versions as in deny.toml; {} import circles, each with its reason",
            metadata.others().count(),
            found.len()
        );
        return Ok(());
    }
    bail!("{} fences are broken:\n{}", wrong.len(), wrong.join("\n"));
}

/// What cargo knows of the packages that are compiled on Linux.
pub(crate) struct Metadata {
    packages: Vec<Value>,
    /// By package id: the ids of what it uses at run time.
    uses: BTreeMap<String, Vec<String>>,
}

pub(crate) fn metadata() -> Result<Metadata> {
    let words = [
        "metadata",
        "--locked",
        "--format-version=1",
        "--filter-platform=x86_64-unknown-linux-gnu",
    ];
    let mut all: Value = serde_json::from_str(&command::output(&mut command::cargo(&words))?)?;
    let mut uses = BTreeMap::new();
    for node in all["resolve"]["nodes"].as_array().context("nodes")? {
        let dependencies = node["deps"].as_array().into_iter().flatten();
        let normal = dependencies.filter(|dependency| {
            let kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
            kinds.map(|kind| &kind["kind"]).any(Value::is_null)
        });
        let ids = normal.filter_map(|dependency| dependency["pkg"].as_str().map(str::to_owned));
        uses.insert(node["id"].as_str().context("an id")?.to_owned(), ids.collect());
    }
    let Value::Array(mut packages) = all["packages"].take() else { bail!("no packages") };
    packages.retain(|package| package["id"].as_str().is_some_and(|id| uses.contains_key(id)));
    Ok(Metadata { packages, uses })
}

fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().unwrap_or_default()
}

impl Metadata {
    fn others(&self) -> impl Iterator<Item = &Value> {
        self.packages.iter().filter(|package| !package["source"].is_null())
    }

    /// The root files of our libraries, and of our programs where a package has no library.
    fn roots(&self) -> Vec<PathBuf> {
        let ours = self.packages.iter().filter(|package| package["source"].is_null());
        let root = |package: &Value| {
            let targets = package["targets"].as_array()?;
            let of = |kind: &str| {
                targets.iter().find(|target| {
                    let kinds = target["kind"].as_array().into_iter().flatten();
                    kinds.filter_map(Value::as_str).any(|word| word == kind)
                })
            };
            of("lib").or_else(|| of("bin"))?["src_path"].as_str().map(PathBuf::from)
        };
        ours.filter_map(root).collect()
    }

    fn id(&self, name: &str) -> Result<&str> {
        let mut named = self.packages.iter().filter(|package| text(package, "name") == name);
        named.next().map(|package| text(package, "id")).with_context(|| format!("no crate {name}"))
    }

    /// Names of everything that ends up in a crate's programs, itself among them; two versions are two.
    pub(crate) fn reached(&self, name: &str) -> Result<BTreeSet<(&str, &str)>> {
        Ok(self.linked(name)?.iter().map(|linked| (linked.name, linked.version)).collect())
    }

    /// Everything that ends up in a crate's programs, itself among them.
    pub(crate) fn linked(&self, name: &str) -> Result<Vec<Linked<'_>>> {
        let mut found = BTreeSet::new();
        let mut open = vec![self.id(name)?];
        while let Some(id) = open.pop() {
            if found.insert(id) {
                open.extend(self.uses.get(id).into_iter().flatten().map(String::as_str));
            }
        }
        let by_id = |id: &str| self.packages.iter().find(|package| text(package, "id") == id);
        let packages = self.packages.iter().filter(|package| found.contains(text(package, "id")));
        let linked = packages.map(|package| {
            let uses = self.uses.get(text(package, "id")).into_iter().flatten();
            Linked {
                name: text(package, "name"),
                version: text(package, "version"),
                license: text(package, "license"),
                uses: uses
                    .filter_map(|id| by_id(id))
                    .map(|used| (text(used, "name"), text(used, "version")))
                    .collect(),
            }
        });
        Ok(linked.collect())
    }
}

/// A crate that ends up in a program.
pub(crate) struct Linked<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    pub(crate) license: &'a str,
    /// Names and versions.
    pub(crate) uses: Vec<(&'a str, &'a str)>,
}

fn reach(metadata: &Metadata, wrong: &mut Vec<String>) -> Result<()> {
    for (of, names, why) in FORBIDDEN {
        let reached: BTreeSet<&str> =
            metadata.reached(of)?.into_iter().map(|(name, _)| name).collect();
        for name in names {
            let known = metadata.id(name).is_ok();
            if reached.contains(name) {
                wrong.push(format!("{of} reaches {name}: {why} (cargo tree -p {of} -i {name})"));
            } else if known == NOWHERE.contains(name) {
                wrong
                    .push(format!("{name}: nothing brings it, or something does now; see NOWHERE"));
            }
        }
    }
    Ok(())
}

fn floors(metadata: &Metadata, wrong: &mut Vec<String>) {
    for package in metadata.packages.iter().filter(|package| package["source"].is_null()) {
        let name = text(package, "name");
        let Some((_, allowed)) = FLOORS.iter().find(|(of, _)| *of == name) else {
            wrong.push(format!("{name} stands on no floor; see FLOORS"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = text(dependency, "name");
            let ours = dependency["source"].is_null() && dependency["kind"].is_null();
            if ours && !allowed.contains(&used) {
                wrong.push(format!("{name} uses {used}, which is not below it"));
            }
        }
    }
}

fn strings<'a>(rules: &'a toml::Table, table: &str, field: &str) -> Result<Vec<&'a str>> {
    let list = rules.get(table).and_then(|table| table.get(field));
    let list = list.and_then(toml::Value::as_array).with_context(|| format!("{table}.{field}"))?;
    // A word, or a table with the word and a reason.
    let word = |entry: &'a toml::Value| entry.as_str().or_else(|| entry.get("crate")?.as_str());
    Ok(list.iter().filter_map(word).collect())
}

fn licences(metadata: &Metadata, rules: &toml::Table, wrong: &mut Vec<String>) -> Result<()> {
    let allowed = strings(rules, "licenses", "allow")?;
    for package in metadata.others() {
        let expression = text(package, "license");
        if !licence::is_allowed(expression, &allowed) {
            wrong.push(format!("{} is under {expression:?}", text(package, "name")));
        }
    }
    Ok(())
}

fn duplicates(metadata: &Metadata, rules: &toml::Table, wrong: &mut Vec<String>) -> Result<()> {
    let skipped = strings(rules, "bans", "skip")?;
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut used = BTreeSet::new();
    for package in metadata.others() {
        let (name, version) = (text(package, "name"), text(package, "version"));
        let skip = skipped.iter().find(|skip| {
            let (crate_name, at) = skip.split_once('@').unwrap_or((skip, ""));
            crate_name == name && (version == at || version.starts_with(&format!("{at}.")))
        });
        match skip {
            Some(skip) => drop(used.insert(*skip)),
            None => drop(versions.entry(name).or_default().insert(version)),
        }
    }
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let list: Vec<&str> = versions.iter().copied().collect();
        wrong.push(format!("{name} exists as {}; see bans.skip in deny.toml", list.join(" and ")));
    }
    for skip in skipped.iter().filter(|skip| !used.contains(*skip)) {
        wrong.push(format!("deny.toml skips {skip}, which is not here"));
    }
    Ok(())
}
