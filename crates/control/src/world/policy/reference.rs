//! References between objects.

use crate::source::policy::{LENO, LINKERD, ObjectRef};
use crate::world::route::parent::GATEWAY_GROUP;

/// The kind that a reference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Referred {
    ServiceAccount,
    Namespace,
    /// Of this group.
    Server(&'static str),
    MeshTls(&'static str),
    Network(&'static str),
    /// The key of a route's kind: see `Object::KINDS`.
    Route(&'static str),
}

/// The kind of a reference; letters of either case, as in Linkerd.
pub(super) fn referred(reference: &ObjectRef) -> Option<Referred> {
    let group = match reference.group.as_deref().unwrap_or_default() {
        "" | "core" => "",
        LENO => LENO,
        LINKERD => LINKERD,
        GATEWAY_GROUP => GATEWAY_GROUP,
        _ => return None,
    };
    match (group, reference.kind.to_ascii_lowercase().as_str()) {
        ("", "serviceaccount") => Some(Referred::ServiceAccount),
        ("", "namespace") => Some(Referred::Namespace),
        (LENO | LINKERD, "server") => Some(Referred::Server(group)),
        (LENO | LINKERD, "meshtlsauthentication") => Some(Referred::MeshTls(group)),
        (LENO | LINKERD, "networkauthentication") => Some(Referred::Network(group)),
        (GATEWAY_GROUP, "httproute") => Some(Referred::Route("HTTPRoute")),
        (GATEWAY_GROUP, "grpcroute") => Some(Referred::Route("GRPCRoute")),
        (LINKERD, "httproute") => Some(Referred::Route("HTTPRoute.policy.linkerd.io")),
        _ => None,
    }
}

/// `Server.policy.leno.dev web`, as messages name what a reference means.
pub(super) fn shown(reference: &ObjectRef) -> String {
    let ObjectRef { group, kind, name, .. } = reference;
    match group.as_deref() {
        None | Some("" | "core") => format!("{kind} {name}"),
        Some(group) => format!("{kind}.{group} {name}"),
    }
}
