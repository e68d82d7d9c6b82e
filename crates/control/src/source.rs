//! Where desired state comes from: an [`Inventory`] of objects, each with its origin.
//!
//! - [`parse`]: the text of one manifest to objects and problems; pure.
//! - [`layers`]: files of several directories to one inventory, and the last good state of each; pure.
//! - [`kept`]: what is kept of the kinds that are many.
//! - [`route`]: routes, and what their published types have no word for.
//! - [`policy`]: policy objects in their published types.
//! - [`fault`]: faults in their published type.
//! - [`backend_policy`]: XBackendTrafficPolicy in its published type.
//! - [`gateway_policy`]: the parts of an XAuthorizationPolicy.
//! - [`file`]: directories of manifests, watched.
//! - [`kubernetes`]: the Kubernetes API, watched.
//!
//! A source is a task with a `watch::Sender<Arc<Inventory>>`, and that is the interface.

pub mod backend_policy;
pub mod fault;
pub mod file;
pub mod gateway_policy;
pub mod kept;
pub mod kubernetes;
pub mod layers;
pub mod parse;
pub mod policy;
pub mod route;

use backend_policy::BackendPolicySpec;
use fault::FaultSpec;
use gateway_api::grpcroutes::GrpcRoute;
use gateway_api::httproutes::HttpRoute;
use gateway_api::referencegrants::ReferenceGrant;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServiceAccount};
use k8s_openapi::api::{core, discovery};
use leno_manifest::line_of;
use leno_manifest::typed::{self, Mistake, Typed};
use policy::{
    AuthorizationPolicySpec, HttpLocalRateLimitPolicySpec, MeshTlsAuthenticationSpec,
    NetworkAuthenticationSpec, Policy, ServerAuthorizationSpec, ServerSpec,
};
use route::Route;
use serde::de::Error as _;
use serde_json::Value;
use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where an object was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// In a manifest.
    File {
        /// The manifest.
        file: Arc<Path>,
        /// The document in it, from 1.
        document: usize,
        /// The line where the document begins, from 1.
        line: u64,
        /// The document, in which the lines of fields are looked for.
        text: Arc<str>,
    },
    Cluster {
        /// Its namespace, empty for kinds that have none.
        namespace: Arc<str>,
        name: Arc<str>,
        /// Its `metadata.resourceVersion`.
        version: Arc<str>,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, document, line, .. } => {
                write!(f, "{}:{document}:{line}", file.display())
            }
            Self::Cluster { namespace, name, version } if namespace.is_empty() => {
                write!(f, "{name}@{version}")
            }
            Self::Cluster { namespace, name, version } => {
                write!(f, "{namespace}/{name}@{version}")
            }
        }
    }
}

impl Origin {
    /// The same place, at the line of a field such as `spec.rules[0].matches`.
    fn at(&self, field: &str) -> String {
        match self {
            Self::File { file, document, line, text } => {
                let dotted = field.replace('[', ".").replace(']', "");
                let line = line + line_of(text, &dotted) as u64;
                format!("{}:{document}:{line}", file.display())
            }
            Self::Cluster { .. } => self.to_string(),
        }
    }
}

/// What an object is called: one later layer's object replaces an earlier one of the same key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Kind, e.g. `Service`. A kind that two groups have is written as kubectl writes it: `Server.policy.linkerd.io`.
    pub kind: &'static str,
    /// Namespace, empty for kinds that have none.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// An object with its name and origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Sourced<T> {
    /// What it is called.
    pub key: Key,
    /// Where it was read.
    pub origin: Origin,
    /// The object, in its published type or as much of it as is kept.
    pub object: Arc<T>,
}

/// Something wrong with what an operator wrote.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Problem {
    /// The object, or the file where no object could be read.
    pub object: String,
    /// `file:document:line`, or `namespace/name@resourceVersion`.
    pub origin: String,
    /// Path of the field, e.g. `spec.rules[0].matches[1].path`; may be empty.
    pub field: String,
    /// What is wrong, and what was done about it.
    pub message: String,
    /// Another controller may serve it, as with a route on a Gateway: in a cluster the object gets no Event.
    pub elsewhere: bool,
    /// The object is not wrong: what is said of it is to be known, as that its kind is deprecated.
    pub is_note: bool,
}

impl Problem {
    /// The file and line of its origin; line 0 where it is about a whole file, or an object of a cluster.
    #[must_use]
    pub fn place(&self) -> (&str, u64) {
        let mut parts = self.origin.rsplitn(3, ':');
        let line = parts.next().and_then(|line| line.parse().ok());
        let document = parts.next().and_then(|document| document.parse::<usize>().ok());
        match (line, document, parts.next()) {
            (Some(line), Some(_), Some(file)) => (file, line),
            _ => (&self.origin, 0),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.object)?;
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Those of `now` that are not among `before`.
pub(crate) fn new_problems<'a>(
    now: &'a [Problem],
    before: impl Iterator<Item = &'a Problem>,
) -> Vec<&'a Problem> {
    if now.is_empty() {
        return Vec::new();
    }
    let before: HashSet<&Problem> = before.collect();
    now.iter().filter(|problem| !before.contains(problem)).collect()
}

impl<T> Sourced<T> {
    /// A problem of this object at the place of the object: nobody looks for the field's line, which costs a reading of the text.
    pub fn problem_without_line(
        &self,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> Problem {
        Problem {
            object: self.key.to_string(),
            origin: self.origin.to_string(),
            field: field.into(),
            message: message.into(),
            elsewhere: false,
            is_note: false,
        }
    }

    /// A problem of this object.
    pub fn problem(&self, field: impl Into<String>, message: impl Into<String>) -> Problem {
        let field = field.into();
        Problem {
            object: self.key.to_string(),
            origin: self.origin.at(&field),
            field,
            message: message.into(),
            elsewhere: false,
            is_note: false,
        }
    }
}

/// The kind as it is in the object itself: `Server` of `Server.policy.linkerd.io`.
#[must_use]
pub fn published_kind(kind: &str) -> &str {
    kind.split('.').next().unwrap_or(kind)
}

const A_KIND_NOT_USED: &str = "a kind that is not used";

fn not_used() -> Mistake {
    Mistake { field: "kind".to_owned(), message: A_KIND_NOT_USED.to_owned() }
}

/// One row of the table of kinds makes a variant of [`Object`], a list of [`Inventory`] and a line of the parser.
macro_rules! kinds {
    ($($kind:literal, $group:literal, [$($version:literal),+], $variant:ident, $kept:ty, $published:ty, $list:ident, $namespaced:literal;)+) => {
        /// An object of a kind that is used.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Object {
            $(
                #[doc = concat!("A `", $kind, "`.")]
                $variant(Arc<$kept>),
            )+
        }

        /// Everything that a source says exists, each object once. A list in which nothing changed is the same `Arc` in the next inventory.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Inventory {
            $(
                #[doc = concat!("Objects of kind `", $kind, "`, by namespace and name.")]
                pub $list: Arc<Vec<Sourced<$kept>>>,
            )+
            /// What was wrong with the manifests.
            pub problems: Vec<Problem>,
        }

        impl Inventory {
            /// Adds one object; the caller sees to it that its key is new.
            pub fn add(&mut self, sourced: Sourced<Object>) {
                let Sourced { key, origin, object } = sourced;
                match object.as_ref() {
                    $(Object::$variant(object) => {
                        let list = Arc::make_mut(&mut self.$list);
                        list.push(Sourced { key, origin, object: object.clone() });
                    })+
                }
            }

            /// Replaces the object with the same key; returns whether anything changed.
            /// Only for lists that are in the order of keys.
            pub(crate) fn put(&mut self, sourced: Sourced<Object>) -> bool {
                let Sourced { key, origin, object } = sourced;
                match object.as_ref() {
                    $(Object::$variant(object) => {
                        let list = &mut self.$list;
                        let found = list.binary_search_by(|other| other.key.cmp(&key));
                        if found.is_ok_and(|at| list[at].object == *object) {
                            return false;
                        }
                        let new = Sourced { key, origin, object: object.clone() };
                        match found {
                            Ok(at) => Arc::make_mut(list)[at] = new,
                            Err(at) => Arc::make_mut(list).insert(at, new),
                        }
                        true
                    })+
                }
            }

            /// Removes an object; returns whether it existed. Only for lists that are in the order of keys.
            pub(crate) fn remove(&mut self, key: &Key) -> bool {
                match key.kind {
                    $($kind => {
                        let found = self.$list.binary_search_by(|other| other.key.cmp(key));
                        found.map(|at| Arc::make_mut(&mut self.$list).remove(at)).is_ok()
                    })+
                    _ => false,
                }
            }

            /// Keeps the objects of a kind that are among the keys; returns whether any was removed.
            pub(crate) fn retain(&mut self, kind: &str, keys: &HashSet<Key>) -> bool {
                match kind {
                    $($kind => {
                        let stays = |sourced: &Sourced<$kept>| keys.contains(&sourced.key);
                        if self.$list.iter().all(stays) {
                            return false;
                        }
                        let list = Arc::make_mut(&mut self.$list);
                        list.retain(stays);
                        list.shrink_to_fit();
                        true
                    })+
                    _ => false,
                }
            }

            /// How many objects of a kind there are.
            pub(crate) fn count(&self, kind: &str) -> usize {
                match kind {
                    $($kind => self.$list.len(),)+
                    _ => 0,
                }
            }

            /// How many objects there are.
            #[must_use]
            pub fn len(&self) -> usize {
                0 $(+ self.$list.len())+
            }

            /// Whether there is no object.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }

        impl Object {
            /// The kinds that are used: kind, group, versions, whether they live in a namespace.
            pub(crate) const KINDS: &[(&str, &str, &[&str], bool)] =
                &[$(($kind, $group, &[$($version),+], $namespaced)),+];

            /// Holds an object against the published type of a kind in [`Self::KINDS`]: what is wrong with it, and fields that the
            /// type does not have, both dotted.
            pub(crate) fn check(kind: &str, value: &Value) -> (Result<(), Mistake>, Vec<String>) {
                match kind {
                    $($kind => {
                        let Typed { object, unknown } = typed::read::<$published>(value);
                        (object.map(drop), unknown)
                    })+
                    _ => (Err(not_used()), Vec::new()),
                }
            }

            /// Reads what is kept of an object of a kind in [`Self::KINDS`], or says where it is wrong.
            pub(crate) fn read_value(kind: &str, value: &Value) -> Result<Self, Mistake> {
                match kind {
                    $($kind => typed::read::<$kept>(value)
                        .object
                        .map(|object| Self::$variant(Arc::new(object))),)+
                    _ => Err(not_used()),
                }
            }

            /// The same of JSON at once, for lists of thousands; what is wrong is said without its place.
            pub(crate) fn read(kind: &str, json: &str) -> Result<Self, String> {
                let read = match kind {
                    $($kind => serde_json::from_str::<$kept>(json)
                        .map(|object| Self::$variant(Arc::new(object))),)+
                    _ => Err(serde_json::Error::custom(A_KIND_NOT_USED)),
                };
                // A line and column of generated JSON do not help an operator.
                read.map_err(|error| {
                    let message = error.to_string();
                    message.split(" at line ").next().unwrap_or(&message).to_owned()
                })
            }
        }
    };
}

// Of a kind its variant, what is kept of an object, the published type, and its list.
kinds! {
    "Namespace", "", ["v1"], Namespace, Namespace, Namespace, namespaces, false;
    "ServiceAccount", "", ["v1"], ServiceAccount, kept::Nothing, ServiceAccount, service_accounts, true;
    "Pod", "", ["v1"], Pod, kept::Pod, core::v1::Pod, pods, true;
    "Deployment", "apps", ["v1"], Deployment, kept::Nothing, Deployment, deployments, true;
    "Job", "batch", ["v1"], Job, kept::Nothing, Job, jobs, true;
    "Service", "", ["v1"], Service, Service, Service, services, true;
    "EndpointSlice", "discovery.k8s.io", ["v1"], EndpointSlice, kept::EndpointSlice, discovery::v1::EndpointSlice, endpoint_slices, true;
    "ConfigMap", "", ["v1"], ConfigMap, kept::Nothing, ConfigMap, config_maps, true;
    "HTTPRoute", "gateway.networking.k8s.io", ["v1", "v1beta1"], HttpRoute, Route<HttpRoute>, HttpRoute, http_routes, true;
    "GRPCRoute", "gateway.networking.k8s.io", ["v1"], GrpcRoute, Route<GrpcRoute>, GrpcRoute, grpc_routes, true;
    "ReferenceGrant", "gateway.networking.k8s.io", ["v1", "v1beta1"], ReferenceGrant, ReferenceGrant, ReferenceGrant, reference_grants, true;
    "Fault", "leno.dev", ["v1alpha1"], Fault, Policy<FaultSpec>, Policy<FaultSpec>, faults, true;
    "XBackendTrafficPolicy", "leno.dev", ["v1alpha1"], BackendPolicy, Policy<BackendPolicySpec>, Policy<BackendPolicySpec>, backend_policies, true;
    "XBackendTrafficPolicy.gateway.networking.x-k8s.io", "gateway.networking.x-k8s.io", ["v1alpha1"], GatewayBackendPolicy, Policy<BackendPolicySpec>, Policy<BackendPolicySpec>, gateway_backend_policies, true;
    "XAuthorizationPolicy", "gateway.networking.x-k8s.io", ["v1alpha1"], GatewayAuthorizationPolicy, Policy<Value>, Policy<Value>, gateway_authorization_policies, true;
    "Server", "policy.leno.dev", ["v1beta3"], Server, Policy<ServerSpec>, Policy<ServerSpec>, servers, true;
    "AuthorizationPolicy", "policy.leno.dev", ["v1alpha1"], AuthorizationPolicy, Policy<AuthorizationPolicySpec>, Policy<AuthorizationPolicySpec>, authorization_policies, true;
    "MeshTLSAuthentication", "policy.leno.dev", ["v1alpha1"], MeshTlsAuthentication, Policy<MeshTlsAuthenticationSpec>, Policy<MeshTlsAuthenticationSpec>, mesh_tls_authentications, true;
    "NetworkAuthentication", "policy.leno.dev", ["v1alpha1"], NetworkAuthentication, Policy<NetworkAuthenticationSpec>, Policy<NetworkAuthenticationSpec>, network_authentications, true;
    "ServerAuthorization", "policy.leno.dev", ["v1beta1"], ServerAuthorization, Policy<ServerAuthorizationSpec>, Policy<ServerAuthorizationSpec>, server_authorizations, true;
    "HTTPLocalRateLimitPolicy", "policy.leno.dev", ["v1alpha1"], HttpLocalRateLimitPolicy, Policy<HttpLocalRateLimitPolicySpec>, Policy<HttpLocalRateLimitPolicySpec>, http_local_rate_limit_policies, true;
    "Server.policy.linkerd.io", "policy.linkerd.io", ["v1beta3", "v1beta2", "v1beta1"], LinkerdServer, Policy<ServerSpec>, Policy<ServerSpec>, linkerd_servers, true;
    "AuthorizationPolicy.policy.linkerd.io", "policy.linkerd.io", ["v1alpha1"], LinkerdAuthorizationPolicy, Policy<AuthorizationPolicySpec>, Policy<AuthorizationPolicySpec>, linkerd_authorization_policies, true;
    "MeshTLSAuthentication.policy.linkerd.io", "policy.linkerd.io", ["v1alpha1"], LinkerdMeshTlsAuthentication, Policy<MeshTlsAuthenticationSpec>, Policy<MeshTlsAuthenticationSpec>, linkerd_mesh_tls_authentications, true;
    "NetworkAuthentication.policy.linkerd.io", "policy.linkerd.io", ["v1alpha1"], LinkerdNetworkAuthentication, Policy<NetworkAuthenticationSpec>, Policy<NetworkAuthenticationSpec>, linkerd_network_authentications, true;
    "ServerAuthorization.policy.linkerd.io", "policy.linkerd.io", ["v1beta1"], LinkerdServerAuthorization, Policy<ServerAuthorizationSpec>, Policy<ServerAuthorizationSpec>, linkerd_server_authorizations, true;
    "HTTPLocalRateLimitPolicy.policy.linkerd.io", "policy.linkerd.io", ["v1alpha1"], LinkerdHttpLocalRateLimitPolicy, Policy<HttpLocalRateLimitPolicySpec>, Policy<HttpLocalRateLimitPolicySpec>, linkerd_http_local_rate_limit_policies, true;
    "HTTPRoute.policy.linkerd.io", "policy.linkerd.io", ["v1beta3", "v1beta2", "v1beta1", "v1alpha1"], LinkerdHttpRoute, Route<HttpRoute>, HttpRoute, linkerd_http_routes, true;
}
