//! `Destination`: endpoints of a name, as deltas; and profiles, which linkerd's proxies ask for.

use super::{Answers, Asked, Sight, member};
use crate::applied::Watched;
use crate::limit::ENDPOINTS_PER_MESSAGE_MAX;
use crate::world::World;
use crate::world::outbound::Profile;
use leno_api::applied::acknowledges;
use leno_api::destination::{endpoint_message, to_message};
use leno_api::outbound::Target;
use leno_model::limit::DNS_NAME_BYTES_MAX;
use leno_model::name::{Resource, SpiffeId, WorkloadId};
use leno_model::workload::{EndpointSet, EndpointUpdate};
use linkerd2_proxy_api::destination::destination_server::Destination;
use linkerd2_proxy_api::destination::{DestinationProfile, GetDestination, Update};
use linkerd2_proxy_api::meta;
use std::collections::HashMap;
use tonic::{Request, Response, Status};

/// The service.
#[derive(Clone, Debug)]
pub struct Destinations(pub Sight);

fn read(request: &Request<GetDestination>) -> Result<(SpiffeId, String), Status> {
    let member = member(request)?;
    let path = &request.get_ref().path;
    // A name, a colon and a port.
    if path.is_empty() || path.len() > DNS_NAME_BYTES_MAX + 7 {
        return Err(Status::invalid_argument("path must be NAME:PORT"));
    }
    Ok((member, path.clone()))
}

/// What turns the last set into the next; the first message says everything.
fn deltas(last: Option<&EndpointSet>, next: &EndpointSet) -> Vec<EndpointUpdate> {
    if next.endpoints.is_empty() {
        let same = last.is_some_and(|last| last.endpoints.is_empty() && last.exists == next.exists);
        return if same { Vec::new() } else { vec![EndpointUpdate::None { exists: next.exists }] };
    }
    let before: HashMap<_, _> =
        last.into_iter().flat_map(|last| &last.endpoints).map(|e| (e.address, e)).collect();
    let changed = next.endpoints.iter().filter(|e| before.get(&e.address) != Some(e));
    let added: Vec<_> = changed.map(|endpoint| endpoint.as_ref().clone()).collect();
    let is_gone = |address| next.endpoints.binary_search_by_key(&address, |e| e.address).is_err();
    let gone: Vec<_> = before.into_keys().filter(|address| is_gone(*address)).collect();
    // Added first, so that a set that changes completely is never empty in between.
    let mut updates: Vec<_> = added
        .chunks(ENDPOINTS_PER_MESSAGE_MAX)
        .map(|endpoints| EndpointUpdate::Add(endpoints.to_vec()))
        .collect();
    if !gone.is_empty() {
        updates.push(EndpointUpdate::Remove(gone));
    }
    updates
}

fn profile_message(profile: &Profile) -> DestinationProfile {
    DestinationProfile {
        fully_qualified_name: profile.name.clone(),
        opaque_protocol: profile.opaque,
        endpoint: profile.endpoint.as_ref().map(endpoint_message),
        parent_ref: profile.parent.as_ref().map(metadata),
        ..DestinationProfile::default()
    }
}

fn metadata(resource: &Resource) -> meta::Metadata {
    let kind = match resource {
        Resource::Default(name) => meta::metadata::Kind::Default(name.to_string()),
        Resource::Object { group, kind, namespace, name, section, port } => {
            meta::metadata::Kind::Resource(meta::Resource {
                group: group.to_string(),
                kind: kind.to_string(),
                namespace: namespace.to_string(),
                name: name.to_string(),
                section: section.to_string(),
                port: u32::from(*port),
            })
        }
    };
    meta::Metadata { kind: Some(kind) }
}

#[tonic::async_trait]
impl Destination for Destinations {
    type GetStream = Answers<Update>;

    async fn get(
        &self,
        request: Request<GetDestination>,
    ) -> Result<Response<Self::GetStream>, Status> {
        let (member, path) = read(&request)?;
        // By the client's own word: the node that it is on changes where its requests go, and nothing that it may do.
        let client = WorkloadId::parse(&request.get_ref().context_token).ok();
        let target = Target::Authority(path.as_str().into());
        let asked = Asked {
            member,
            method: "destination",
            workload: client.clone(),
            watched: Watched::Endpoints(target.clone()),
            acknowledges: acknowledges(request.metadata()),
        };
        let whose = client.clone();
        let ground = move |world: &World| world.ground(&target, whose.as_ref());
        let mut last = None;
        self.0.follow(asked, ground, move |world| {
            let next = world.endpoints(&path, client.as_ref());
            let updates = deltas(last.as_ref(), &next);
            last = Some(next);
            updates.iter().map(|update| Ok(to_message(update))).collect()
        })
    }

    type GetProfileStream = Answers<DestinationProfile>;

    async fn get_profile(
        &self,
        request: Request<GetDestination>,
    ) -> Result<Response<Self::GetProfileStream>, Status> {
        let (member, path) = read(&request)?;
        let target = Target::Authority(path.into());
        let sought = target.clone();
        let ground = move |world: &World| world.ground(&sought, None);
        let mut last = None;
        let asked = Asked {
            member,
            method: "profile",
            workload: WorkloadId::parse(&request.get_ref().context_token).ok(),
            watched: Watched::Endpoints(target.clone()),
            acknowledges: acknowledges(request.metadata()),
        };
        self.0.follow(asked, ground, move |world| {
            let profile = world.profile(&target);
            if last.as_ref() == Some(&profile) {
                return Vec::new();
            }
            let message = profile_message(&profile);
            last = Some(profile);
            vec![Ok(message)]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_model::workload::{Endpoint, Labels, ProtocolHint};
    use std::sync::Arc;

    fn set(exists: bool, endpoints: &[(u16, u32)]) -> EndpointSet {
        let endpoint = |(port, weight): &(u16, u32)| {
            Arc::new(Endpoint {
                address: ([10, 0, 0, 1], *port).into(),
                weight: *weight,
                identity: None,
                hint: ProtocolHint::Unknown,
                opaque_transport_port: None,
                labels: Labels::default(),
                resource: None,
            })
        };
        EndpointSet { endpoints: endpoints.iter().map(endpoint).collect(), exists }
    }

    #[test]
    fn deltas_lead_from_one_set_to_the_next() {
        let check = |last: Option<&EndpointSet>, next: &EndpointSet, expected: &str| {
            let updates = deltas(last, next);
            let shown: Vec<_> = updates
                .iter()
                .map(|update| match update {
                    EndpointUpdate::Add(added) => format!("+{}", added.len()),
                    EndpointUpdate::Remove(gone) => format!("-{}", gone.len()),
                    EndpointUpdate::None { exists } => format!("none {exists}"),
                })
                .collect();
            assert_eq!(shown.join(" "), expected);
            let reached = updates
                .into_iter()
                .fold(last.cloned().unwrap_or_default(), |set, update| set.apply(update));
            assert_eq!(&reached, next);
        };
        let (empty, missing) = (set(true, &[]), set(false, &[]));
        let (one, two) = (set(true, &[(1, 1)]), set(true, &[(1, 1), (2, 1)]));
        check(None, &missing, "none false");
        check(Some(&missing), &missing, "");
        check(Some(&missing), &empty, "none true");
        check(None, &two, "+2");
        check(Some(&two), &two, "");
        check(Some(&two), &one, "-1");
        check(Some(&one), &set(true, &[(1, 9)]), "+1");
        check(Some(&one), &set(true, &[(3, 1), (4, 1)]), "+2 -1");
        check(Some(&two), &empty, "none true");
        check(Some(&two), &missing, "none false");
        let many: Vec<(u16, u32)> = (1..=1_200).map(|port| (port, 1)).collect();
        check(None, &set(true, &many), "+512 +512 +176");
    }
}
