//! Backends of a rule: whether they exist, may be used, and what happens where not.

use super::super::service::ServiceKey;
use super::{BackendRef, Compiler, GATEWAY_GROUP, fail, service_backend};
use crate::source::{Key, Sourced};
use gateway_api::referencegrants::ReferenceGrant;
use leno_model::limit::BACKENDS_MAX;
use leno_model::name::Resource;
use leno_model::route::{Backend, BackendKind, Distribution};
use std::sync::Arc;

/// The reply to a request whose backend is not usable.
const NOT_A_SERVICE: &str = "the backend is not a Service";
const NOT_GRANTED: &str = "a ReferenceGrant for the backend is missing";

impl<T> Compiler<'_, T> {
    /// Where requests go; `None` where there is nowhere.
    pub(super) fn backends(
        &mut self,
        field: &str,
        backends: &[BackendRef<'_>],
        has_sessions: bool,
    ) -> Option<Distribution> {
        let mut weighted = Vec::new();
        if backends.len() > BACKENDS_MAX {
            self.report(
                format!("{field}.backendRefs"),
                format!("only the first {BACKENDS_MAX} are used"),
            );
        }
        for (number, backend) in backends.iter().take(BACKENDS_MAX).enumerate() {
            let field = format!("{field}.backendRefs[{number}]");
            let weight = u32::try_from(backend.weight.unwrap_or(1)).unwrap_or(0);
            let filters = self.filters(&format!("{field}.filters"), backend.filters.clone());
            let found = self.resolved(&field, backend, "its share of requests fails");
            // Sessions stay with a backend that gets no new ones (GEP-1619).
            let has_sessions = has_sessions
                || found
                    .as_ref()
                    .is_ok_and(|found| self.world.backend_policies.has_sessions(found));
            if weight == 0 && !has_sessions {
                continue;
            }
            // A broken backend keeps its share of requests, and fails them (Gateway API, BackendRef).
            let backend = match (found, filters) {
                (Ok(mut backend), Some(filters)) => {
                    backend.filters = filters;
                    self.world.backend_policies.complete(&mut backend);
                    backend
                }
                (found, _) => {
                    let message = found.err().unwrap_or("a filter of the backend is not supported");
                    Backend {
                        resource: self.named(backend),
                        kind: BackendKind::Broken,
                        filters: vec![fail(self.kind, message)],
                    }
                }
            };
            weighted.push((backend, weight));
        }
        match weighted.len() {
            _ if weighted.iter().all(|(_, weight)| *weight == 0) => None,
            1 => Some(Distribution::First(
                weighted.into_iter().map(|(backend, _)| backend).collect(),
            )),
            _ => Some(Distribution::Random(weighted)),
        }
    }

    /// The object that a backend reference names, whether or not it is there.
    fn named(&self, backend: &BackendRef<'_>) -> Resource {
        Resource::Object {
            group: backend.group.filter(|group| !group.is_empty()).unwrap_or("core").into(),
            kind: backend.kind.unwrap_or("Service").into(),
            namespace: backend.namespace.unwrap_or(&self.route.key.namespace).into(),
            name: backend.name.into(),
            section: "".into(),
            port: backend.port.and_then(|port| u16::try_from(port).ok()).unwrap_or(0),
        }
    }

    /// The backend. Where there is none, the author reads why, and what follows.
    pub(super) fn resolved(
        &mut self,
        field: &str,
        backend: &BackendRef<'_>,
        consequence: &str,
    ) -> Result<Backend, &'static str> {
        let found = self.backend(field, backend, consequence);
        if let Err(short) = found {
            let reason = match short {
                NOT_A_SERVICE => "InvalidKind",
                NOT_GRANTED => "RefNotPermitted",
                _ => "BackendNotFound",
            };
            let why = self.reported();
            self.findings.unresolved.get_or_insert((reason, why));
        }
        found
    }

    fn backend(
        &mut self,
        field: &str,
        backend: &BackendRef<'_>,
        consequence: &str,
    ) -> Result<Backend, &'static str> {
        let mut wrong = |part: &str, message: String, short: &'static str| {
            self.problems.push(
                self.route.problem(format!("{field}{part}"), format!("{message}; {consequence}")),
            );
            Err(short)
        };
        let is_service = matches!(backend.group, None | Some("" | "core"))
            && matches!(backend.kind, None | Some("Service"));
        if !is_service {
            return wrong(".kind", "only a Service can be a backend".to_owned(), NOT_A_SERVICE);
        }
        let own = &self.route.key.namespace;
        let key: ServiceKey =
            (backend.namespace.map_or_else(|| own.clone(), Arc::from), backend.name.into());
        // What was sent to a Service may go to it: without the route it would.
        let allowed = key.0 == *own
            || self.parents.contains(&key)
            || granted(self.grants, &self.route.key, &key);
        if !allowed {
            let message = format!(
                "no ReferenceGrant in namespace {} allows a {} of {own} to use Service {}",
                key.0, self.route.key.kind, key.1
            );
            return wrong(".namespace", message, NOT_GRANTED);
        }
        let Some(service) = self.world.services.get(&key) else {
            return wrong(
                ".name",
                format!("Service {}/{} does not exist", key.0, key.1),
                "the backend does not exist",
            );
        };
        let Some(port) = backend.port else {
            return wrong(".port", "missing".to_owned(), "the backend has no port");
        };
        match u16::try_from(port).ok().filter(|port| service.ports.contains_key(port)) {
            Some(port) => Ok(service_backend(self.world, &key, port)),
            None => wrong(
                ".port",
                format!("Service {}/{} has no port {port}", key.0, key.1),
                "the backend has no such port",
            ),
        }
    }
}

/// Whether a grant in the backend's namespace lets this kind of route of that namespace use it.
fn granted(grants: &[Sourced<ReferenceGrant>], route: &Key, to: &ServiceKey) -> bool {
    grants.iter().filter(|grant| grant.key.namespace == to.0).any(|grant| {
        let spec = &grant.object.spec;
        spec.from.iter().any(|from| {
            from.group == GATEWAY_GROUP
                && from.kind == route.kind
                && from.namespace == *route.namespace
        }) && spec.to.iter().any(|target| {
            matches!(target.group.as_str(), "" | "core")
                && target.kind == "Service"
                && target
                    .name
                    .as_deref()
                    .is_none_or(|name| name.is_empty() || name == to.1.as_ref())
        })
    })
}
