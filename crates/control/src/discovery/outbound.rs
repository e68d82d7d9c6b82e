//! `OutboundPolicies`: how traffic to an original destination is treated.

use super::sessions::put_keys;
use super::{Answers as Followed, Asked, Sight, member, namespace};
use crate::applied::Watched;
use crate::limit::SHARED_ANSWERS_BYTES_MAX;
use crate::world::World;
use crate::world::service::ServiceKey;
use leno_api::applied::acknowledges;
use leno_api::outbound::service::{EncodedPolicy, OutboundPolicies};
use leno_api::outbound::{Target, read_request, to_message};
use leno_model::name::{SpiffeId, WorkloadId};
use linkerd2_proxy_api::outbound::TrafficSpec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tonic::{Request, Response, Status};
use tracing::error;

/// The service.
#[derive(Debug)]
pub struct Outbound {
    sight: Sight,
    answers: Arc<Answers>,
}

impl Outbound {
    /// The service of one control plane.
    #[must_use]
    pub fn new(sight: Sight) -> Self {
        Self { sight, answers: Arc::default() }
    }
}

/// Answers of the newest world: thousands of proxies ask for the same port of a Service, and a change reaches all of them at once.
#[derive(Debug, Default)]
struct Answers(Mutex<Newest>);

#[derive(Debug, Default)]
struct Newest {
    version: u64,
    /// What keys of session tokens are derived from.
    secret: [u8; 32],
    /// Of all messages.
    bytes: usize,
    /// By Service, port, and namespace of the clients.
    known: HashMap<(ServiceKey, u16, Arc<str>), Result<EncodedPolicy, Status>>,
}

impl Answers {
    /// The answer for clients of a namespace.
    fn get(
        &self,
        world: &World,
        target: &Target,
        namespace: &Arc<str>,
        secret: [u8; 32],
    ) -> Result<EncodedPolicy, Status> {
        let Some((service, port)) = world.service_port(target) else {
            return answer(world, target, namespace, secret);
        };
        let key = (service.clone(), port, namespace.clone());
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_older = newest.version == world.version && newest.secret != secret;
        if newest.version < world.version || is_older {
            *newest = Newest { version: world.version, secret, ..Newest::default() };
        }
        let is_newest = newest.version == world.version;
        if let Some(known) = newest.known.get(&key).filter(|_| is_newest) {
            return known.clone();
        }
        let answer = answer(world, target, namespace, secret);
        let bytes = answer.as_ref().map_or(0, EncodedPolicy::size);
        if is_newest && newest.bytes + bytes <= SHARED_ANSWERS_BYTES_MAX {
            newest.bytes += bytes;
            newest.known.insert(key, answer.clone());
        }
        answer
    }
}

fn read(request: &Request<TrafficSpec>) -> Result<(Target, SpiffeId, WorkloadId), Status> {
    let member = member(request)?;
    let (workload, target) = read_request(request.get_ref())
        .map_err(|error| Status::invalid_argument(error.to_string()))?;
    // The certificate says whose routes hold; what the message says of its sender proves nothing.
    Ok((target, member, workload))
}

fn answer(
    world: &World,
    target: &Target,
    namespace: &str,
    secret: [u8; 32],
) -> Result<EncodedPolicy, Status> {
    let policy = world.outbound(target, namespace);
    let policy = policy.ok_or_else(|| Status::not_found("no such Service"))?;
    let mut message = to_message(&policy).map_err(|wrong| {
        error!(parent = policy.parent.name(), "the policy cannot be encoded: {wrong}");
        Status::internal(wrong.to_string())
    })?;
    put_keys(&mut message, &secret);
    Ok(EncodedPolicy::from(&message))
}

#[tonic::async_trait]
impl OutboundPolicies for Outbound {
    async fn get(&self, request: Request<TrafficSpec>) -> Result<Response<EncodedPolicy>, Status> {
        let (target, member, _) = read(&request)?;
        let world = self.sight.world().await?;
        let secret = self.sight.secret.now();
        let namespace = namespace(&member).into();
        self.answers.get(&world, &target, &namespace, secret).map(Response::new)
    }

    type WatchStream = Followed<EncodedPolicy>;

    async fn watch(
        &self,
        request: Request<TrafficSpec>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (target, member, workload) = read(&request)?;
        let namespace = Arc::from(namespace(&member));
        let sought = target.clone();
        let ground = move |world: &World| world.ground(&sought, None);
        let mut last = None;
        let secret = self.sight.secret.clone();
        let asked = Asked {
            member,
            method: "outbound",
            workload: Some(workload),
            watched: Watched::Outbound(target.clone()),
            acknowledges: acknowledges(request.metadata()),
        };
        let answers = self.answers.clone();
        self.sight.follow(asked, ground, move |world| {
            // Objects go before what they stand for: containers run on, and rules of Services lead there for a while. What was meshed gets
            // no plain text meanwhile, so what was said holds until somebody else has the address, or the proxy asks anew.
            if last.is_some() && world.is_nobodys(&target) {
                return Vec::new();
            }
            match answers.get(world, &target, &namespace, secret.now()) {
                Ok(policy) if last.as_ref() == Some(&policy) => Vec::new(),
                Ok(policy) => {
                    last = Some(policy.clone());
                    vec![Ok(policy)]
                }
                Err(status) => vec![Err(status)],
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::layers::Layers;
    use crate::source::parse::parse;
    use crate::world::MeshNames;
    use std::path::Path;

    /// A Service with a route for all clients and one for those of namespace `b`.
    fn world(version: u64, path: &str) -> World {
        let route = |namespace: &str, path: &str| {
            format!(
                "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: r, namespace: {namespace}}}\n\
                 spec:\n  parentRefs: [{{group: '', kind: Service, name: web, namespace: a, port: 80}}]\n\
                 \x20 rules: [{{matches: [{{path: {{value: {path}}}}}]}}]\n"
            )
        };
        let text = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: a}\n\
             spec: {clusterIP: 10.96.0.1, ports: [{port: 80, appProtocol: http}, {port: 81}]}\n"
            .to_owned();
        let text = text + &route("a", path) + &route("b", "/b");
        let mut layers = Layers::default();
        layers.put(0, "m.yaml".into(), parse(&Arc::from(Path::new("m.yaml")), &text));
        World::build(&layers.inventory(), &MeshNames::default(), version)
    }

    #[test]
    fn answers_are_shared_by_those_who_ask_for_the_same() {
        let answers = Answers::default();
        let (first, second) = (world(1, "/one"), world(2, "/two"));
        let mut seen = Vec::new();
        // A stream may be late, and look at an older world than others have seen.
        for world in [&first, &second, &first] {
            for target in ["10.96.0.1:80", "10.96.0.1:81", "web.a.svc:80", "none.a.svc:80"] {
                let target = match target.parse() {
                    Ok(address) => Target::Address(address),
                    Err(_) => Target::Authority(target.into()),
                };
                for namespace in ["a", "b", "c"].map(Arc::from) {
                    let shown = |one: Result<EncodedPolicy, Status>| one.map_err(|e| e.code());
                    let expected = shown(answer(world, &target, &namespace, [0; 32]));
                    let got = shown(answers.get(world, &target, &namespace, [0; 32]));
                    assert_eq!(got, expected, "{} {target:?} {namespace}", world.version);
                    seen.push(got);
                }
            }
        }
        seen.dedup();
        assert!(seen.len() > 20, "the answers differ: {}", seen.len());
        let newest = answers.0.lock().unwrap();
        // Two ports, for three namespaces.
        assert_eq!((newest.version, newest.known.len()), (2, 6));
    }
}
