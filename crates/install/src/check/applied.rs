//! Whether proxies have applied what the control plane sent: its answers at `/diagnostics/applied`. Pure.

use super::facts::{CONTROL_PODS, Facts, text};
use super::{Category, Verdict, failed, passing, some_of, warning};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What is acknowledged later than this is late; what was just sent is not.
const LATE_MIN_SECONDS: f64 = 1.0;

/// Proxies that acknowledge what they apply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Proxies {
    /// Namespaces and names of their pods.
    pub pods: BTreeSet<(String, String)>,
    /// Those that have not applied everything.
    pub behind: Vec<Behind>,
}

/// A proxy that has not applied everything.
#[derive(Clone, Debug, PartialEq)]
pub struct Behind {
    pub namespace: String,
    pub pod: String,
    /// As `the policy of port 8080`.
    pub what: String,
    pub seconds: f64,
    /// The proxy has rejected a part of the newest message.
    pub rejected: bool,
}

impl Proxies {
    /// Of the answers of all replicas, for one namespace or for all. A proxy may have streams to several replicas.
    #[must_use]
    pub fn read<'a>(answers: impl IntoIterator<Item = &'a Value>, only: Option<&str>) -> Self {
        let mut pods = BTreeSet::new();
        let mut behind: BTreeMap<(&str, &str), Behind> = BTreeMap::new();
        for proxy in answers.into_iter().filter_map(|one| one["proxies"].as_array()).flatten() {
            let name = (text(&proxy["namespace"]), text(&proxy["pod"]));
            let is_wanted = only.is_none_or(|only| only == name.0);
            if !is_wanted || proxy["acknowledges"] != Value::Bool(true) {
                continue;
            }
            pods.insert((name.0.to_owned(), name.1.to_owned()));
            for waiting in proxy["waiting"].as_array().into_iter().flatten() {
                let one = Behind::read(name, waiting);
                let is_late = one.rejected || one.seconds >= LATE_MIN_SECONDS;
                let known = behind.get(&name);
                if is_late && known.is_none_or(|known| known.seconds < one.seconds) {
                    behind.insert(name, one);
                }
            }
        }
        Self { pods, behind: behind.into_values().collect() }
    }

    /// As `11 of 12 proxies have the newest configuration`.
    #[must_use]
    pub fn summary(&self) -> String {
        let (total, behind) = (self.pods.len(), self.behind.len());
        format!("{} of {total} proxies have the newest configuration", total - behind)
    }

    /// The proxies that are behind, in words.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        self.behind.iter().map(ToString::to_string).collect()
    }

    /// A few of them.
    #[must_use]
    pub fn some_missing(&self) -> String {
        some_of(&self.missing())
    }
}

impl Behind {
    fn read((namespace, pod): (&str, &str), waiting: &Value) -> Self {
        Self {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            what: text(&waiting["what"]).to_owned(),
            seconds: waiting["seconds"].as_f64().unwrap_or(0.0),
            rejected: waiting["rejected"] == Value::Bool(true),
        }
    }
}

impl std::fmt::Display for Behind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { namespace, pod, what, seconds, rejected } = self;
        let verb = if *rejected { "has rejected a part of" } else { "has not acknowledged" };
        write!(f, "{namespace}/{pod} {verb} {what} for {seconds:.0} s")
    }
}

pub(super) fn look(facts: &Facts, category: &mut Category<'_>) {
    let answers = facts.applied.iter().filter_map(|(_, said)| said.as_ref().ok());
    let proxies = Proxies::read(answers, facts.only.as_deref());
    category.add(proxies.summary(), verdict(facts, &proxies));
}

fn verdict(facts: &Facts, proxies: &Proxies) -> Option<Verdict> {
    if proxies.behind.iter().any(|one| one.rejected) {
        return failed(
            proxies.some_missing(),
            "the proxy keeps what it had for that part; leno logs NAME --proxy names the field. A proxy that is older than the control plane may not have the feature: restart the pod",
        );
    }
    if !proxies.behind.is_empty() {
        return passing(
            proxies.some_missing(),
            "the proxy keeps its last configuration. Check that the pod runs and has CPU time (leno logs NAME --proxy), then restart it: kubectl rollout restart deployment -n NAMESPACE",
        );
    }
    let unread = facts.applied.iter().find_map(|(pod, said)| Some((pod, said.as_ref().err()?)));
    let Some((pod, why)) = unread else { return facts.unknown(&[CONTROL_PODS]) };
    warning(
        format!("not known for the proxies of {pod}: {why}"),
        "the control plane is read through a port-forward, which needs the rights get and create on pods/portforward; a control plane of an older version does not have the page",
    )
}
