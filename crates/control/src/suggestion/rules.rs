//! The rules for the clients of a port, in YAML. Counts stand beside them as comments.

use super::Today;
use super::clients::{Clients, Match, Who, by_path, clients};
use super::plan::{Plan, unused};
use super::yaml::{gateway_policy, head, quoted, scalar};
use crate::source::policy::GATEWAY;
use crate::world::World;
use ipnet::IpNet;
use leno_model::name::PeerName;
use leno_model::policy::InboundProtocol;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Rules under way.
pub(super) struct Rules<'a> {
    pub(super) text: String,
    /// What no rule can admit.
    pub(super) notes: Vec<String>,
    world: &'a World,
    trust_domain: &'a str,
    /// Names that are taken.
    names: BTreeSet<String>,
    /// MeshTLSAuthentications by group, namespace and identities: equal ones are written once.
    known: BTreeMap<(String, String, Vec<PeerName>), String>,
}

/// What a rule is for.
struct Target<'a> {
    group: &'a str,
    kind: &'a str,
    name: &'a str,
}

impl<'a> Rules<'a> {
    pub(super) fn new(today: &Today<'a>) -> Self {
        let inventory = today.inventory;
        let names = inventory.authorization_policies.iter().map(|one| &one.key);
        let names = names.chain(inventory.mesh_tls_authentications.iter().map(|one| &one.key));
        let names = names.chain(inventory.network_authentications.iter().map(|one| &one.key));
        let names = names.chain(inventory.http_routes.iter().map(|one| &one.key));
        let names = names.chain(inventory.grpc_routes.iter().map(|one| &one.key));
        let of_gateway = inventory.gateway_authorization_policies.iter().map(|one| &one.key);
        let names = names.chain(of_gateway);
        Self {
            text: String::new(),
            notes: Vec::new(),
            world: today.world,
            trust_domain: &today.names.trust_domain,
            names: names.map(|key| key.name.to_string()).collect(),
            known: BTreeMap::new(),
        }
    }

    /// Writes the rules of a port.
    pub(super) fn of(&mut self, plan: &Plan<'_>) {
        if !plan.ungoverned.is_empty() {
            self.of_gateway(plan);
        }
        if plan.needed.is_empty() {
            return;
        }
        let by_path = by_path(&plan.needed, plan.protocol).filter(|_| plan.is_new);
        let Some(groups) = by_path else {
            let target = Target { group: &plan.group, kind: "Server", name: &plan.name };
            return self.rules(plan, &target, &clients(&plan.needed));
        };
        for (matches, clients) in groups {
            let kind =
                if plan.protocol == InboundProtocol::Grpc { "GRPCRoute" } else { "HTTPRoute" };
            let name = self.unused(format!("{}-{}", plan.name, word(&matches)));
            self.route(plan, (kind, &name), &matches);
            self.rules(plan, &Target { group: GATEWAY, kind, name: &name }, &clients);
        }
    }

    /// One more XAuthorizationPolicy: it adds clients to those of the others. It knows clients by their SPIFFE IDs only.
    fn of_gateway(&mut self, plan: &Plan<'_>) {
        let mut sources = String::new();
        let mut strangers = 0;
        for (client, count) in clients(&plan.ungoverned) {
            let seen = seen(count);
            let account = match &client {
                Who::Identity(name) => self.account(name),
                Who::Network(_) => None,
            };
            let _ = match (&client, account) {
                (_, Some((namespace, account))) => {
                    let (account, namespace) = (scalar(&account), scalar(&namespace));
                    writeln!(
                        sources,
                        "    - type: ServiceAccount # {seen}\n      serviceAccount:\n        name: {account}\n        namespace: {namespace}"
                    )
                }
                (Who::Identity(PeerName::Spiffe(id)), None) => {
                    let id = quoted(id.as_str());
                    writeln!(sources, "    - type: SPIFFE # {seen}\n      spiffe: {id}")
                }
                _ => {
                    strangers += 1;
                    Ok(())
                }
            };
        }
        let port = plan.port;
        if strangers > 0 {
            let (kind, name) = plan.pod.workload();
            self.notes.push(format!(
                "port {port} of {kind}/{name}: {strangers} clients have no SPIFFE ID, and XAuthorizationPolicies select the pod: they cannot admit these clients by address. Give the clients a proxy"
            ));
        }
        if !sources.is_empty() {
            let name = self.unused(format!("{}-clients", plan.name));
            gateway_policy(&mut self.text, plan.pod, (&name, port));
            self.text.push_str("    sources:\n");
            self.text.push_str(&sources);
        }
    }

    fn unused(&mut self, wanted: String) -> String {
        unused(&mut self.names, wanted)
    }

    fn route(&mut self, plan: &Plan<'_>, (kind, name): (&str, &str), matches: &[Match]) {
        let text = &mut self.text;
        head(text, &format!("{GATEWAY}/v1"), kind, (&plan.pod.id.namespace, name));
        let (group, server) = (&plan.group, scalar(&plan.name));
        let _ = writeln!(
            text,
            "  parentRefs:\n  - group: {group}\n    kind: Server\n    name: {server}\n  rules:\n  - matches:"
        );
        for one in matches {
            let _ = match one {
                Match::Root => writeln!(text, "    - path: {{type: Exact, value: /}}"),
                Match::Prefix(prefix) => {
                    let value = quoted(prefix);
                    writeln!(text, "    - path: {{type: PathPrefix, value: {value}}}")
                }
                Match::Service(service) => {
                    writeln!(text, "    - method: {{service: {}}}", quoted(service))
                }
            };
        }
    }

    /// A rule for the clients with identities, and one for those without.
    fn rules(&mut self, plan: &Plan<'_>, target: &Target<'_>, clients: &Clients) {
        let mut identities = Vec::new();
        let mut networks = Vec::new();
        for (client, count) in clients {
            match client {
                Who::Identity(name) => identities.push((name, *count)),
                Who::Network(network) => networks.push((*network, *count)),
            }
        }
        if !identities.is_empty() {
            self.of_identities(plan, target, &identities);
        }
        if !networks.is_empty() {
            self.of_networks(plan, target, &networks);
        }
    }

    fn of_identities(
        &mut self,
        plan: &Plan<'_>,
        target: &Target<'_>,
        identities: &[(&PeerName, u64)],
    ) {
        let single = match identities {
            [(name, count)] => self.account(name).map(|account| (account, *count)),
            _ => None,
        };
        if let Some(((namespace, account), count)) = single {
            let name = self.unused(format!("{}-from-{account}", target.name));
            self.policy(plan, &name, target);
            let (account, namespace) = (scalar(&account), scalar(&namespace));
            let _ = writeln!(
                self.text,
                "  - kind: ServiceAccount # {}\n    name: {account}\n    namespace: {namespace}",
                seen(count)
            );
            return;
        }
        let namespace = plan.pod.id.namespace.to_string();
        let all = identities.iter().map(|(name, _)| (*name).clone()).collect();
        let key = (plan.group.to_string(), namespace, all);
        let known = self.known.get(&key).cloned();
        let authentication = known.clone().unwrap_or_else(|| {
            let name = self.unused(format!("{}-clients", target.name));
            self.known.insert(key, name.clone());
            name
        });
        let wanted = match known {
            None => authentication.clone(),
            Some(_) => self.unused(format!("{}-clients", target.name)),
        };
        self.policy(plan, &wanted, target);
        self.refers(plan, "MeshTLSAuthentication", &authentication);
        if known.is_none() {
            self.authentication(plan, &authentication, identities);
        }
    }

    fn authentication(&mut self, plan: &Plan<'_>, name: &str, identities: &[(&PeerName, u64)]) {
        let version = format!("{}/v1alpha1", plan.group);
        let namespace = &plan.pod.id.namespace;
        head(&mut self.text, &version, "MeshTLSAuthentication", (namespace, name));
        let accounts = identities.iter().map(|(name, count)| (self.account(name), *name, *count));
        let (accounts, others): (Vec<_>, Vec<_>) =
            accounts.partition(|(account, ..)| account.is_some());
        if !accounts.is_empty() {
            self.text.push_str("  identityRefs:\n");
        }
        for (account, _, count) in accounts {
            let (namespace, account) = account.unwrap_or_default();
            let (account, namespace) = (scalar(&account), scalar(&namespace));
            let _ = writeln!(
                self.text,
                "  - kind: ServiceAccount # {}\n    name: {account}\n    namespace: {namespace}",
                seen(count)
            );
        }
        if !others.is_empty() {
            self.text.push_str("  identities:\n");
        }
        for (_, name, count) in others {
            let _ = writeln!(self.text, "  - {} # {}", quoted(name.as_str()), seen(count));
        }
    }

    fn of_networks(&mut self, plan: &Plan<'_>, target: &Target<'_>, networks: &[(IpNet, u64)]) {
        let name = self.unused(format!("{}-from-addresses", target.name));
        self.policy(plan, &name, target);
        self.refers(plan, "NetworkAuthentication", &name);
        let version = format!("{}/v1alpha1", plan.group);
        let namespace = &plan.pod.id.namespace;
        head(&mut self.text, &version, "NetworkAuthentication", (namespace, &name));
        self.text.push_str(
            "  # Clients without a proxy, as addresses change: give them one, and the rule can name an identity.\n  networks:\n",
        );
        for (network, count) in networks {
            let _ = writeln!(
                self.text,
                "  - cidr: {} # {}",
                quoted(&network.to_string()),
                seen(*count)
            );
        }
    }

    fn policy(&mut self, plan: &Plan<'_>, name: &str, target: &Target<'_>) {
        let version = format!("{}/v1alpha1", plan.group);
        head(&mut self.text, &version, "AuthorizationPolicy", (&plan.pod.id.namespace, name));
        let Target { group, kind, name } = target;
        let name = scalar(name);
        let _ = writeln!(
            self.text,
            "  targetRef:\n    group: {group}\n    kind: {kind}\n    name: {name}\n  requiredAuthenticationRefs:"
        );
    }

    fn refers(&mut self, plan: &Plan<'_>, kind: &str, name: &str) {
        let (group, name) = (&plan.group, scalar(name));
        let _ = writeln!(self.text, "  - group: {group}\n    kind: {kind}\n    name: {name}");
    }

    /// Namespace and name of an identity's account, where a pod runs as it.
    fn account(&self, name: &PeerName) -> Option<(String, String)> {
        let PeerName::Spiffe(id) = name else { return None };
        let (namespace, account) = id.as_service_account().ok()?;
        let is_here = id.trust_domain() == self.trust_domain && self.world.pods_of(id) > 0;
        is_here.then(|| (namespace.to_owned(), account.to_owned()))
    }
}

fn seen(count: u64) -> String {
    match count {
        0 => "not seen here, but its paths may be below this one".to_owned(),
        1 => "seen once".to_owned(),
        _ => format!("seen {count} times"),
    }
}

/// What names the route of these requests.
fn word(matches: &[Match]) -> String {
    let text = match matches.first() {
        None | Some(Match::Root) => "root",
        Some(Match::Prefix(prefix)) => prefix,
        Some(Match::Service(service)) => service,
    };
    let lower = text.to_ascii_lowercase();
    let kept = lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let word: String = kept.take(40).collect();
    match word.trim_matches('-') {
        "" => "all".to_owned(),
        word => word.to_owned(),
    }
}
