//! MeshTLSAuthentication and NetworkAuthentication.

use super::identity::{Clients, networks};
use super::reference::{Referred, referred, shown};
use super::report::{INVALID, REF_NOT_FOUND, Report};
use super::{Named, Objects, group};
use crate::source::policy::{
    MeshTlsAuthenticationSpec, NetworkAuthenticationSpec, ObjectRef, Policy,
};
use crate::source::{Key, Sourced};
use leno_model::policy::Network;
use std::collections::HashMap;
use std::sync::Arc;

/// All authentications, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Authentications {
    pub(super) mesh_tls: HashMap<(Arc<str>, Named), Clients>,
    pub(super) networks: HashMap<(Arc<str>, Named), Vec<Network>>,
}

fn place(key: &Key) -> (Arc<str>, Named) {
    (key.namespace.clone(), (group(key), key.name.clone()))
}

impl Authentications {
    pub(super) fn read(objects: &Objects<'_>, report: &mut Report) -> Self {
        let mut all = Self::default();
        let inventory = objects.inventory;
        let mesh_tls = inventory.mesh_tls_authentications.iter();
        for object in mesh_tls.chain(inventory.linkerd_mesh_tls_authentications.iter()) {
            report.begin(object);
            let clients = mesh_tls_clients(objects, object, report);
            all.mesh_tls.insert(place(&object.key), clients);
        }
        let networks = inventory.network_authentications.iter();
        for object in networks.chain(inventory.linkerd_network_authentications.iter()) {
            report.begin(object);
            all.networks.insert(place(&object.key), networks_of(object, report));
        }
        all
    }
}

fn mesh_tls_clients(
    objects: &Objects<'_>,
    object: &Sourced<Policy<MeshTlsAuthenticationSpec>>,
    report: &mut Report,
) -> Clients {
    let spec = &object.object.spec;
    let mut clients = Clients::default();
    for (number, text) in spec.identities.iter().flatten().enumerate() {
        if let Err(message) = clients.add(text, objects.names) {
            report.wrong(object, INVALID, format!("spec.identities[{number}]"), message);
        }
    }
    for (number, reference) in spec.identity_refs.iter().flatten().enumerate() {
        let field = format!("spec.identityRefs[{number}]");
        if let Err((reason, message)) = add_ref(objects, &object.key, reference, &mut clients) {
            report.wrong(object, reason, field, message);
        }
    }
    if clients.len() == 0 {
        let message = "names no identity; rules that require it admit no client";
        report.wrong(object, INVALID, "spec", message);
    }
    clients
}

/// Adds the clients that a reference means.
fn add_ref(
    objects: &Objects<'_>,
    key: &Key,
    reference: &ObjectRef,
    clients: &mut Clients,
) -> Result<(), (&'static str, String)> {
    let name = reference.name.as_str();
    match referred(reference) {
        Some(Referred::ServiceAccount) => {
            let namespace = reference.namespace.as_deref().unwrap_or(&key.namespace);
            if let Some(message) = objects.missing_account(namespace, name) {
                return Err((REF_NOT_FOUND, message));
            }
            let added = clients.add_account(namespace, name, objects.names);
            added.map_err(|message| (INVALID, message))
        }
        Some(Referred::Namespace) => {
            if let Some(message) = objects.missing_namespace(name) {
                return Err((REF_NOT_FOUND, message));
            }
            let added = clients.add_namespace(name, objects.names);
            added.map_err(|message| (INVALID, message))
        }
        _ => {
            let message = format!(
                "{} is not a ServiceAccount or Namespace; it matches no client",
                shown(reference)
            );
            Err((INVALID, message))
        }
    }
}

fn networks_of(
    object: &Sourced<Policy<NetworkAuthenticationSpec>>,
    report: &mut Report,
) -> Vec<Network> {
    let texts = object.object.spec.networks.as_deref().unwrap_or_default();
    let (networks, wrong) = networks(texts);
    for (field, message) in wrong {
        report.wrong(object, INVALID, format!("spec.networks{field}"), message);
    }
    if networks.is_empty() {
        let message = "names no network; rules that require it admit no client";
        report.wrong(object, INVALID, "spec.networks", message);
    }
    networks
}
