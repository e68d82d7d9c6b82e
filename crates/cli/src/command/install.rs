//! `leno install`, `leno upgrade`, `leno uninstall`: print manifests that `kubectl` applies or deletes; nothing is written here.
//!
//! What is chosen becomes values in [`choose`]; the chart and certificates are `leno_install`'s; [`super::reach`] asks the cluster.

mod choose;

use super::reach::Reach;
use crate::args::{Install, Manifest, Uninstall, Upgrade};
use crate::output;
use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use choose::Choosing;
use leno_install::certificates::{Identity, Pair};
use leno_install::{certificates, chart, uninstall as leaving, values};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Prints a new installation.
pub(crate) fn install(wish: &Install) -> Result<ExitCode> {
    if !wish.ignore_cluster {
        super::reach::run(refuse_a_second(wish))?;
    }
    let now = now()?;
    let mut choosing = Choosing::new(&wish.choice, json!({}))?;
    choosing.identity_or(now, |domain| Ok(certificates::make(domain, now)?))?;
    print(&choosing.finish(), &wish.namespace, wish.choice.output)
}

/// Prints the installation that the cluster has, with other values or of another version.
pub(crate) fn upgrade(wish: &Upgrade) -> Result<ExitCode> {
    let before = super::reach::run(Before::read(wish))?;
    let given = if wish.reset_values { json!({}) } else { before.given.clone() };
    let mut choosing = Choosing::new(&wish.choice, given)?;
    let now = now()?;
    if choosing.trust_domain() != before.trust_domain && !wish.force {
        bail!(
            "the trust domain would change from {} to {}: every proxy would lose its peers. --force does it",
            before.trust_domain,
            choosing.trust_domain()
        );
    }
    let anchors_before = before.identity.as_ref().map(|identity| identity.anchors.clone());
    choosing.anchors_or(anchors_before.as_deref())?;
    choosing.identity_or(now, |domain| before.identity(wish.renew_issuer, domain, now))?;
    let values = choosing.finish();
    let after = values["identity"]["trustAnchors"].as_str().unwrap_or_default();
    let external = values["identity"]["external"] == Value::Bool(true);
    if let Some(anchors) = anchors_before
        && !external
        && !wish.force
        && !certificates::contains(after, &anchors)
    {
        bail!(
            "the new trust anchors leave out a root by which running proxies are certified: give a file with the old \
             and the new roots, restart what is meshed, and leave the old ones out then; or --force"
        );
    }
    print(&values, &wish.namespace, wish.choice.output)
}

/// Prints references to everything that is in the cluster of the mesh.
pub(crate) fn uninstall(wish: &Uninstall) -> Result<ExitCode> {
    let references = super::reach::run(everything(wish))?;
    output::print(&leaving::yaml(&references).map_err(anyhow::Error::msg)?)?;
    Ok(ExitCode::SUCCESS)
}

fn now() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH).context("this machine's clock")?.as_secs())
}

fn print(values: &Value, namespace: &str, format: Manifest) -> Result<ExitCode> {
    let objects = chart::render(values, namespace)?;
    output::print(&match format {
        Manifest::Yaml => chart::yaml(&objects),
        Manifest::Json => chart::json(&objects),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn config_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/leno-config")
}

async fn refuse_a_second(wish: &Install) -> Result<()> {
    let otherwise = "--ignore-cluster prints without asking it";
    let reach = Reach::new(&wish.cluster).await.context(otherwise)?;
    let namespace = &wish.namespace;
    let deployment = format!("/apis/apps/v1/namespaces/{namespace}/deployments/leno-control");
    for path in [config_path(namespace), deployment] {
        if reach.get(&path).await.context(otherwise)?.is_some() {
            bail!(
                "Leno is in namespace {namespace} of this cluster already. `leno upgrade | kubectl apply -f -` changes it \
                 and keeps its certificates; `leno install` would make new ones and shut every proxy out"
            );
        }
    }
    Ok(())
}

/// What the cluster has.
struct Before {
    given: Value,
    trust_domain: String,
    identity: Option<Identity>,
}

impl Before {
    async fn read(wish: &Upgrade) -> Result<Self> {
        let reach = Reach::new(&wish.cluster).await?;
        let namespace = &wish.namespace;
        let Some(config) = reach.get(&config_path(namespace)).await? else {
            bail!(
                "no Leno in namespace {namespace} of this cluster (no ConfigMap leno-config); `leno install` makes one, \
                 --namespace names another"
            );
        };
        let word = |name: &str| config["data"][name].as_str().unwrap_or_default();
        if word("installed-by") == "Helm" {
            bail!("this Leno was installed by Helm: helm upgrade leno …");
        }
        let given = values::read(word("values"))
            .map_err(|why| anyhow::anyhow!("ConfigMap leno-config, values: {why}"))?;
        let secret = format!("/api/v1/namespaces/{namespace}/secrets");
        let issuer = reach.get(&format!("{secret}/leno-identity-issuer")).await?;
        let root = reach.get(&format!("{secret}/leno-identity-root")).await?;
        let anchors = format!("/api/v1/namespaces/{namespace}/configmaps/leno-trust-anchors");
        let anchors = reach.get(&anchors).await?;
        let anchors = anchors.as_ref().and_then(|map| map["data"]["trust-anchors.pem"].as_str());
        let identity = match (anchors, issuer.as_ref().and_then(pair)) {
            (Some(anchors), Some(issuer)) => Some(Identity {
                anchors: anchors.to_owned(),
                issuer,
                root: root.as_ref().and_then(pair),
            }),
            _ => None,
        };
        let trust_domain = word("trust-domain").to_owned();
        Ok(Self { given, trust_domain, identity })
    }

    fn identity(&self, renew: bool, domain: &str, now: u64) -> Result<Identity> {
        let Some(identity) = self.identity.clone() else {
            bail!(
                "the cluster has no issuer to keep (Secret leno-identity-issuer, ConfigMap leno-trust-anchors): bring one \
                 with --identity-issuer-certificate-file, --identity-issuer-key-file and --identity-trust-anchors-file"
            );
        };
        if !renew {
            return Ok(identity);
        }
        let Some(root) = &identity.root else {
            bail!(
                "there is no Secret leno-identity-root to sign a new issuer with: bring an issuer with \
                 --identity-issuer-certificate-file and --identity-issuer-key-file"
            );
        };
        let issuer = certificates::renew(root, domain, now).context("Secret leno-identity-root")?;
        Ok(Identity { issuer, ..identity })
    }
}

/// Certificate and key of a Secret.
fn pair(secret: &Value) -> Option<Pair> {
    let text = |name: &str| {
        let encoded = secret["data"][name].as_str()?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).ok()?;
        String::from_utf8(bytes).ok()
    };
    Some(Pair { certificate: text("tls.crt")?, key: text("tls.key")? })
}

async fn everything(wish: &Uninstall) -> Result<Vec<Value>> {
    let reach = Reach::new(&wish.cluster).await?;
    if !wish.force {
        let pods = reach.list("/api/v1/pods").await?;
        let meshed: Vec<String> = pods
            .iter()
            .filter(|pod| leno_inject::scope::is_injected(&pod["spec"]))
            .filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")))
            .map(|pod| {
                let text = |name: &str| pod["metadata"][name].as_str().unwrap_or_default();
                format!("{}/{}", text("namespace"), text("name"))
            })
            .collect();
        if !meshed.is_empty() {
            let more = if meshed.len() > 5 { ", …" } else { "" };
            let shown = meshed.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
            bail!(
                "{} pods have proxies, which will not be certified any more: {shown}{more}. Take leno.dev/inject from \
                 their namespaces and restart them first, or --force",
                meshed.len()
            );
        }
    }
    let copies = reach
        .list("/api/v1/configmaps?fieldSelector=metadata.name%3Dleno-trust-anchors")
        .await?
        .iter()
        .filter_map(|map| map["metadata"]["namespace"].as_str().map(str::to_owned))
        .collect::<Vec<_>>();
    let namespace = reach.get(&format!("/api/v1/namespaces/{}", wish.namespace)).await?;
    let ours = namespace.is_some_and(|namespace| {
        namespace["metadata"]["labels"]["app.kubernetes.io/part-of"] == "leno"
    });
    let all = leaving::everything(&wish.namespace)?;
    let mut there = Vec::new();
    for reference in leaving::references(&all, &wish.namespace, &copies, ours) {
        if reach.get(&leaving::path(&reference)).await?.is_some() {
            there.push(reference);
        }
    }
    if there.is_empty() {
        bail!("nothing of Leno is in namespace {} of this cluster", wish.namespace);
    }
    Ok(there)
}
