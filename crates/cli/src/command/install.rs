//! `leno install`, `leno upgrade`, `leno uninstall`: print manifests that `kubectl` applies or deletes; nothing is written here.
//!
//! What is chosen becomes values in [`choose`]; the chart and certificates are `leno_install`'s; [`super::reach`] asks the cluster.

mod choose;

use super::reach::{Reach, Unanswered};
use crate::args::{Install, Manifest, Uninstall, Upgrade};
use crate::output;
use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use choose::Choosing;
use leno_install::certificates::{Identity, IssuerError, Pair};
use leno_install::chart::Object;
use leno_install::others::{self, Others};
use leno_install::{certificates, chart, linkerd, uninstall as leaving, values};
use leno_kube::Unreachable;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the API server names the kinds of the Prometheus operator; everybody may ask.
const MONITORING: &str = "/apis/monitoring.coreos.com/v1";
/// What else may be done where a cluster does not say what it has.
const INSTALL_ADVICE: &str =
    "--ignore-cluster prints an installation without connecting to a cluster";
/// What may be done where it does not say it to this account.
const ACCOUNT_ADVICE: &str = "`leno check --pre` lists the rights that the account needs; --kubeconfig and --context select another cluster";

/// Prints a new installation.
pub(crate) fn install(wish: &Install) -> Result<ExitCode> {
    let now = now()?;
    let mut choosing = Choosing::new(&wish.choice, json!({}))?;
    refuse_name(&wish.namespace, &choosing)?;
    if !wish.ignore_cluster {
        let asked = super::reach::run(refuse_what_cannot_be(wish, &mut choosing));
        asked.map_err(|why| match why.is::<Unanswered>() || why.is::<Unreachable>() {
            true => anyhow::anyhow!("{:#}. {INSTALL_ADVICE}", advised(why)),
            false => why,
        })?;
    }
    choosing.identity_or(now, |domain| Ok(certificates::make(domain, now)?))?;
    let values = choosing.finish();
    let code = print(&render(&values, &wish.namespace)?, wish.choice.output)?;
    if values["control"]["replicas"] == 1 {
        eprintln!(
            "leno: the control plane has one replica. While it restarts, new pods of the mesh are rejected and Kubernetes tries again. For production, use leno install --ha"
        );
    }
    Ok(code)
}

/// Prints the installation that the cluster has, with other values or of another version.
pub(crate) fn upgrade(wish: &Upgrade) -> Result<ExitCode> {
    let before = super::reach::run(Before::read(wish));
    let before = before.map_err(advised)?;
    let given = if wish.reset_values { json!({}) } else { before.given.clone() };
    let mut choosing = Choosing::new(&wish.choice, given)?;
    let now = now()?;
    if choosing.trust_domain() != before.trust_domain && !wish.force {
        bail!(
            "the trust domain would change from {} to {}, and proxies would reject each other's certificates; use --force to change it",
            before.trust_domain,
            choosing.trust_domain()
        );
    }
    refuse_name(&wish.namespace, &choosing)?;
    if before.has_own_namespace {
        leave_namespace(&wish.namespace, &mut choosing);
    }
    choosing.anchors_or(before.anchors.as_deref())?;
    choosing.identity_or(now, |domain| before.identity(wish.renew_issuer, domain, now))?;
    let monitoring = choosing.monitoring_kinds();
    if !monitoring.is_empty() {
        let known = super::reach::run(async {
            refuse_unknown_kinds(&Reach::new(&wish.cluster).await?, &monitoring).await
        });
        known.map_err(advised)?;
    }
    let values = choosing.finish();
    let after = values["identity"]["trustAnchors"].as_str().unwrap_or_default();
    let external = values["identity"]["external"] == Value::Bool(true);
    if let Some(anchors) = &before.anchors
        && !external
        && !wish.force
        && !certificates::contains(after, anchors)
    {
        bail!(
            "the new trust anchors do not include a root that certificates of running proxies may come from; {}. Use --force to continue now",
            certificates::ROTATION
        );
    }
    if let Some(anchors) = &before.anchors
        && !external
        && !wish.force
    {
        refuse_early_issuer(&values, anchors, before.issuer.as_ref())?;
    }
    let objects = render(&values, &wish.namespace)?;
    let left = super::reach::run(left_behind(wish, &objects));
    let code = print(&objects, wish.choice.output)?;
    match left {
        Ok(left) if left.is_empty() => {}
        Ok(left) => eprintln!(
            "leno: `kubectl apply` does not delete objects that are no longer in the chart. Delete them with: kubectl delete -n {} {}",
            wish.namespace,
            left.join(" ")
        ),
        // The upgrade itself is whole without it.
        Err(why) => {
            eprintln!("leno: could not check for objects that are no longer in the chart: {why:#}")
        }
    }
    Ok(code)
}

/// What an issuer signs is refused by every proxy that does not have its root yet, and running proxies have the roots of before.
fn refuse_early_issuer(values: &Value, anchors: &str, before: Option<&Pair>) -> Result<()> {
    let identity = &values["identity"];
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let issuer = &identity["issuer"];
    let issuer = Pair { certificate: word(&issuer["certificate"]), key: word(&issuer["key"]) };
    let domain = word(&identity["trustDomain"]);
    let judged = certificates::examine(&issuer, anchors, &domain);
    if Some(&issuer) != before && matches!(judged, Err(IssuerError::Untrusted(_))) {
        bail!(
            "no installed root has signed the new issuer, so running proxies would reject its certificates, also the control plane's; {}. Use --force to continue now",
            certificates::ROTATION
        );
    }
    Ok(())
}

/// Prints references to everything that is in the cluster of the mesh.
pub(crate) fn uninstall(wish: &Uninstall) -> Result<ExitCode> {
    let references = super::reach::run(everything(wish));
    let references = references.map_err(advised)?;
    output::print(&leaving::yaml(&references).map_err(anyhow::Error::msg)?)?;
    Ok(ExitCode::SUCCESS)
}

/// What to do, where the cluster denies what is asked.
fn advised(why: anyhow::Error) -> anyhow::Error {
    match why.downcast_ref() {
        Some(Unanswered::Denied(said)) => anyhow::anyhow!("{said}. {ACCOUNT_ADVICE}"),
        _ => why,
    }
}

fn now() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH).context("this machine's clock")?.as_secs())
}

fn render(values: &Value, namespace: &str) -> Result<Vec<Object>> {
    Ok(chart::render(values, namespace)?)
}

fn print(objects: &[Object], format: Manifest) -> Result<ExitCode> {
    output::print(&match format {
        Manifest::Yaml => chart::yaml(objects),
        Manifest::Json => chart::json(objects),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn config_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/leno-config")
}

/// Before the cluster is asked: what is there in such a namespace says nothing else.
fn refuse_name(namespace: &str, choosing: &Choosing) -> Result<()> {
    let is_made = choosing.makes_namespace().unwrap_or(true);
    chart::not_ours(namespace, is_made).map_or(Ok(()), |why| bail!(why))
}

/// A namespace that others made is neither labelled nor, later, taken out: both would be felt by all that is in it.
fn leave_namespace(namespace: &str, choosing: &mut Choosing) {
    if choosing.makes_namespace().is_some() {
        return;
    }
    choosing.leave_namespace();
    eprintln!(
        "leno: namespace {namespace} exists already; `leno install` and `leno uninstall` do not change it. If it contains only Leno, you can run: kubectl label namespace {namespace} pod-security.kubernetes.io/enforce=restricted"
    );
}

/// Whether there is such a namespace, and not by us.
async fn is_of_others(reach: &Reach, namespace: &str) -> Result<bool> {
    let found = reach.get(&format!("/api/v1/namespaces/{namespace}")).await?;
    Ok(found.is_some_and(|found| !leaving::is_of_chart(&found)))
}

async fn refuse_what_cannot_be(wish: &Install, choosing: &mut Choosing) -> Result<()> {
    let reach = Reach::new(&wish.cluster).await?;
    let namespace = &wish.namespace;
    let deployment = format!("/apis/apps/v1/namespaces/{namespace}/deployments/leno-control");
    for path in [config_path(namespace), deployment] {
        if reach.get(&path).await?.is_some() {
            bail!(
                "Leno is already in namespace {namespace} of this cluster. Use `leno upgrade | kubectl apply -f -`, which keeps its certificates; `leno install` would create new ones, and running proxies would be rejected"
            );
        }
    }
    if let Some(refusal) = find_others(&reach, namespace).await?.refusal() {
        bail!(refusal);
    }
    if choosing.reads_linkerds() {
        let named = reach.get(linkerd::NAMED).await?;
        let labelled = reach.list(linkerd::LABELLED).await?;
        if let Some(name) = linkerd::injector(named.as_ref(), &labelled) {
            bail!("{}. {}", linkerd::seen(name), linkerd::hint("leno install"));
        }
    }
    refuse_unknown_kinds(&reach, &choosing.monitoring_kinds()).await?;
    if is_of_others(&reach, namespace).await? {
        leave_namespace(namespace, choosing);
    }
    Ok(())
}

/// Control planes in other namespaces.
async fn find_others(reach: &Reach, namespace: &str) -> Result<Others> {
    let webhook = reach.get(others::WEBHOOK).await?;
    let binding = reach.get(others::BINDING).await?;
    let configs = reach.list(others::CONFIGS).await?;
    Ok(Others::find(namespace, webhook.as_ref(), binding.as_ref(), &configs))
}

/// Fails if a wanted kind of the Prometheus operator is missing. `wanted` are values of the chart and the kinds that they make.
async fn refuse_unknown_kinds(reach: &Reach, wanted: &[(&str, &str)]) -> Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let group = reach.get(MONITORING).await?;
    let known = group.as_ref().and_then(|group| group["resources"].as_array());
    let is_known = |kind: &str| known.into_iter().flatten().any(|one| one["kind"] == kind);
    for (value, kind) in wanted {
        if !is_known(kind) {
            bail!(
                "{value}.enabled: this cluster has no kind {kind} (monitoring.coreos.com/v1), and `kubectl apply` would fail; install the Prometheus operator first"
            );
        }
    }
    Ok(())
}

/// Objects of the chart that are there and are not printed any more, in the namespace of the control plane.
async fn left_behind(wish: &Upgrade, objects: &[Object]) -> Result<Vec<String>> {
    let reach = Reach::new(&wish.cluster).await?;
    let mut left = Vec::new();
    for reference in leaving::left_behind(&leaving::everything(&wish.namespace)?, objects) {
        let there = reach.get(&leaving::path(&reference)).await?;
        if there.as_ref().is_some_and(leaving::is_of_chart) {
            left.push(leaving::shown(&reference));
        }
    }
    Ok(left)
}

/// What the cluster has.
struct Before {
    given: Value,
    trust_domain: String,
    anchors: Option<String>,
    issuer: Option<Pair>,
    root: Option<Pair>,
    /// Whether others made the namespace.
    has_own_namespace: bool,
}

impl Before {
    async fn read(wish: &Upgrade) -> Result<Self> {
        let reach = Reach::new(&wish.cluster).await?;
        let namespace = &wish.namespace;
        let Some(config) = reach.get(&config_path(namespace)).await? else {
            bail!(
                "Leno is not installed in namespace {namespace} of this cluster (there is no ConfigMap leno-config); use `leno install`, or name another namespace with --namespace"
            );
        };
        let word = |name: &str| config["data"][name].as_str().unwrap_or_default();
        if word("installed-by") == "Helm" {
            bail!("Helm installed this Leno; use helm upgrade leno …");
        }
        let taken = find_others(&reach, namespace).await?.taken();
        if let Some(taken) = taken.filter(|_| !wish.force) {
            bail!(taken);
        }
        let given = values::read(word("values"))
            .map_err(|why| anyhow::anyhow!("ConfigMap leno-config, values: {why}"))?;
        let secret = format!("/api/v1/namespaces/{namespace}/secrets");
        let issuer = reach.get(&format!("{secret}/leno-identity-issuer")).await?;
        let root = reach.get(&format!("{secret}/leno-identity-root")).await?;
        let anchors = format!("/api/v1/namespaces/{namespace}/configmaps/leno-trust-anchors");
        let anchors = reach.get(&anchors).await?;
        let anchors = anchors.as_ref().and_then(|map| map["data"]["trust-anchors.pem"].as_str());
        let anchors = anchors.map(str::to_owned);
        let (issuer, root) = (issuer.as_ref().and_then(pair), root.as_ref().and_then(pair));
        let trust_domain = word("trust-domain").to_owned();
        let has_own_namespace = is_of_others(&reach, namespace).await?;
        Ok(Self { given, trust_domain, anchors, issuer, root, has_own_namespace })
    }

    /// What the cluster has, with a new issuer on demand. An issuer that is lost is renewed as one that has expired.
    fn identity(&self, renew: bool, domain: &str, now: u64) -> Result<Identity> {
        let Some(anchors) = self.anchors.clone() else {
            bail!(
                "the cluster has no trust anchors to keep (there is no ConfigMap leno-trust-anchors with trust-anchors.pem): \
                 give an issuer and its roots with --identity-issuer-certificate-file, --identity-issuer-key-file and \
                 --identity-trust-anchors-file"
            );
        };
        let issuer = match (&self.issuer, &self.root) {
            (Some(issuer), _) if !renew => issuer.clone(),
            (None, Some(_)) if !renew => bail!(
                "the cluster has no issuer to keep (there is no Secret leno-identity-issuer): --renew-issuer makes a new one \
                 with the root in Secret leno-identity-root"
            ),
            (_, Some(root)) => {
                certificates::renew(root, domain, now).context("Secret leno-identity-root")?
            }
            (_, None) => bail!(
                "there is no Secret leno-identity-root to sign a new issuer: give an issuer with \
                 --identity-issuer-certificate-file and --identity-issuer-key-file"
            ),
        };
        Ok(Identity { anchors, issuer, root: self.root.clone() })
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
        refuse_while_meshed(&reach.list("/api/v1/pods").await?, &wish.namespace)?;
    }
    let others = find_others(&reach, &wish.namespace).await?;
    let maps = reach.list(others::ANCHORS).await?;
    let (copies, of_others) = others.anchors(&wish.namespace, &maps);
    let namespace = reach.get(&format!("/api/v1/namespaces/{}", wish.namespace)).await?;
    let ours = namespace.as_ref().is_some_and(leaving::is_of_chart)
        && !holds_others(&reach, &wish.namespace).await;
    let all = leaving::everything(&wish.namespace)?;
    let (mut there, mut left) = (Vec::new(), Vec::new());
    for reference in leaving::references(&all, &wish.namespace, &copies, ours) {
        if reach.get(&leaving::path(&reference)).await?.is_none() {
            continue;
        }
        match others.owner(&reference) {
            None => there.push(reference),
            Some(_) => left.push(leaving::shown(&reference)),
        }
    }
    left.extend(of_others.iter().map(|name| format!("configmap/leno-trust-anchors of {name}")));
    if !left.is_empty() {
        let names: Vec<&str> = others.namespaces().into_iter().collect();
        eprintln!(
            "leno: skipped, because these belong or may belong to the control plane in namespace {}: {}",
            names.join(" and "),
            left.join(", ")
        );
    }
    if there.is_empty() {
        bail!("namespace {} of this cluster has no objects of Leno", wish.namespace);
    }
    Ok(there)
}

/// Whether pods of others are in the namespace that the chart calls its own: it goes with all that is in it. Where nobody says, it stays.
async fn holds_others(reach: &Reach, namespace: &str) -> bool {
    let path = format!(
        "/api/v1/namespaces/{namespace}/pods?labelSelector=app.kubernetes.io%2Fpart-of%21%3Dleno"
    );
    let why = match reach.list(&path).await {
        Ok(pods) if pods.is_empty() => return false,
        Ok(pods) => {
            let name = |pod: &Value| pod["metadata"]["name"].as_str().map(str::to_owned);
            let names: Vec<String> = pods.iter().take(5).filter_map(name).collect();
            let more = if pods.len() > 5 { ", …" } else { "" };
            format!("it contains other pods: {}{more}", names.join(", "))
        }
        Err(why) => format!("its pods could not be listed: {why:#}"),
    };
    eprintln!(
        "leno: namespace {namespace} is not deleted: {why}. It may still have Leno's labels; remove them with: kubectl label namespace {namespace} pod-security.kubernetes.io/enforce- app.kubernetes.io/part-of-"
    );
    true
}

/// Proxies of another control plane do not count.
fn refuse_while_meshed(pods: &[Value], namespace: &str) -> Result<()> {
    let meshed: Vec<String> = pods
        .iter()
        .filter(|pod| leno_inject::scope::is_injected(&pod["spec"]))
        .filter(|pod| leaving::certified_by(&pod["spec"]).is_none_or(|name| name == namespace))
        .filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")))
        .map(|pod| {
            let text = |name: &str| pod["metadata"][name].as_str().unwrap_or_default();
            format!("{}/{}", text("namespace"), text("name"))
        })
        .collect();
    if meshed.is_empty() {
        return Ok(());
    }
    let more = if meshed.len() > 5 { ", …" } else { "" };
    let shown = meshed.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
    bail!(
        "{} pods have proxies, which could not renew their certificates: {shown}{more}. First remove leno.dev/inject from their namespaces and restart them, or use --force",
        meshed.len()
    );
}

#[cfg(test)]
mod tests;
