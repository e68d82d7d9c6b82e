//! `OutboundPolicies`: how traffic to an original destination is treated.

use super::{Answers, Asked, Sight, member, namespace};
use crate::applied::Watched;
use crate::world::World;
use leno_api::applied::acknowledges;
use leno_api::outbound::service::OutboundPolicies;
use leno_api::outbound::{PolicyMessage, Target, read_request, to_message};
use leno_model::name::{SpiffeId, WorkloadId};
use linkerd2_proxy_api::outbound::TrafficSpec;
use tonic::{Request, Response, Status};
use tracing::error;

/// The service.
#[derive(Clone, Debug)]
pub struct Outbound(pub Sight);

fn read(request: &Request<TrafficSpec>) -> Result<(Target, SpiffeId, WorkloadId), Status> {
    let member = member(request)?;
    let (workload, target) = read_request(request.get_ref())
        .map_err(|error| Status::invalid_argument(error.to_string()))?;
    // The certificate says whose routes hold; what the message says of its sender proves nothing.
    Ok((target, member, workload))
}

fn policy(
    world: &World,
    target: &Target,
    namespace: &str,
) -> Result<leno_model::route::OutboundPolicy, Status> {
    world.outbound(target, namespace).ok_or_else(|| Status::not_found("no such Service"))
}

fn message(policy: &leno_model::route::OutboundPolicy) -> Result<PolicyMessage, Status> {
    to_message(policy).map_err(|wrong| {
        error!(parent = policy.parent.name(), "the policy cannot be encoded: {wrong}");
        Status::internal(wrong.to_string())
    })
}

#[tonic::async_trait]
impl OutboundPolicies for Outbound {
    async fn get(&self, request: Request<TrafficSpec>) -> Result<Response<PolicyMessage>, Status> {
        let (target, member, _) = read(&request)?;
        let world = self.0.world().await?;
        message(&policy(&world, &target, namespace(&member))?).map(Response::new)
    }

    type WatchStream = Answers<PolicyMessage>;

    async fn watch(
        &self,
        request: Request<TrafficSpec>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (target, member, workload) = read(&request)?;
        let namespace = namespace(&member).to_owned();
        let sought = target.clone();
        let ground = move |world: &World| world.ground(&sought, None);
        let mut last = None;
        let asked = Asked {
            member,
            method: "outbound",
            workload: Some(workload),
            watched: Watched::Outbound(target.clone()),
            acknowledges: acknowledges(request.metadata()),
        };
        self.0.follow(asked, ground, move |world| {
            // Objects go before what they stand for: containers run on, and rules of Services lead there for a while. What was meshed gets
            // no plain text meanwhile, so what was said holds until somebody else has the address, or the proxy asks anew.
            if last.is_some() && world.is_nobodys(&target) {
                return Vec::new();
            }
            match policy(world, &target, &namespace) {
                Ok(policy) if last.as_ref() == Some(&policy) => Vec::new(),
                Ok(policy) => {
                    let message = message(&policy);
                    last = Some(policy);
                    vec![message]
                }
                Err(status) => vec![Err(status)],
            }
        })
    }
}
