//! What somebody may have meant who mistyped a kind or a field; pure.

use super::supported;
use leno_inject::annotation::distance;

/// Kinds that `leno up` runs or leaves to the control plane.
const KINDS: &[&str] = &[
    "Namespace",
    "ServiceAccount",
    "Pod",
    "Deployment",
    "Job",
    "Service",
    "ConfigMap",
    "Secret",
    "HTTPRoute",
    "GRPCRoute",
    "ReferenceGrant",
    "EndpointSlice",
    "Server",
    "AuthorizationPolicy",
    "MeshTLSAuthentication",
    "NetworkAuthentication",
    "HTTPLocalRateLimitPolicy",
    "ServerAuthorization",
    "XAuthorizationPolicy",
    "XBackendTrafficPolicy",
    "Fault",
];

/// Fields of routes and policies, wherever they are.
const OF_ROUTES: &[&str] = &[
    "accessPolicy",
    "action",
    "enforcementLevel",
    "networkAttributes",
    "ports",
    "serviceAccount",
    "sources",
    "spiffe",
    "targetRefs",
    "cidr",
    "clientRefs",
    "except",
    "identities",
    "identityRefs",
    "overrides",
    "requestsPerSecond",
    "networks",
    "podSelector",
    "proxyProtocol",
    "requiredAuthenticationRefs",
    "targetRef",
    "backendRefs",
    "filters",
    "group",
    "headers",
    "hostnames",
    "kind",
    "matches",
    "method",
    "name",
    "namespace",
    "parentRefs",
    "path",
    "port",
    "queryParams",
    "rules",
    "sectionName",
    "timeouts",
    "type",
    "value",
    "weight",
];

/// `; did you mean Deployment?`, or nothing.
pub(super) fn kind(typed: &str) -> String {
    nearest(typed, KINDS.iter().map(ToString::to_string))
}

/// The same for a dotted field of an object with these supported fields.
pub(super) fn field(typed: &str, table: &[&str]) -> String {
    let (parent, name) = typed.rsplit_once('.').unwrap_or(("", typed));
    nearest(name, supported::children(parent, table).into_iter())
}

/// The same for a field of a route or policy.
pub(super) fn of_route(typed: &str) -> String {
    let name = typed.rsplit('.').next().unwrap_or(typed);
    nearest(name, OF_ROUTES.iter().map(ToString::to_string))
}

fn nearest(typed: &str, known: impl Iterator<Item = String>) -> String {
    let (low, lower) = (typed.to_lowercase(), |word: &String| word.to_lowercase());
    match known.map(|word| (distance(&low, &lower(&word)), word)).min() {
        // A third of the letters may be wrong.
        Some((steps, word)) if steps * 3 <= word.len() => format!("; did you mean {word}?"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos() {
        assert_eq!(kind("Deployement"), "; did you mean Deployment?");
        assert_eq!(kind("deployment"), "; did you mean Deployment?");
        assert_eq!(kind("Gadget"), "");
        let table = supported::DEPLOYMENT;
        assert_eq!(field("spec.replcas", table), "; did you mean replicas?");
        let container = "spec.template.spec.containers.0";
        let check = |name: &str| field(&format!("{container}.{name}"), table);
        assert_eq!(check("comand"), "; did you mean command?");
        assert_eq!(check("readynessProbe"), "; did you mean readinessProbe?");
        assert_eq!(check("colour"), "");
        assert_eq!(of_route("spec.rules.0.backendRefs.1.wieght"), "; did you mean weight?");
    }
}
