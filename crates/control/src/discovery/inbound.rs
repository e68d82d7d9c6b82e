//! `InboundServerPolicies`: the policy and the protocol of a port. A proxy gets only those of its own workload.

use super::{Answers, Asked as Stream, Sight, member};
use crate::applied::Watched;
use crate::world::World;
use leno_api::applied::acknowledges;
use leno_api::inbound::{read_request, to_message};
use leno_model::name::{SpiffeId, WorkloadId};
use leno_model::policy::InboundPolicy;
use linkerd2_proxy_api::inbound::inbound_server_policies_server::InboundServerPolicies;
use linkerd2_proxy_api::inbound::{PortSpec, Server};
use tonic::{Request, Response, Status};

/// The service.
#[derive(Clone, Debug)]
pub struct Inbound(pub Sight);

struct Asked {
    member: SpiffeId,
    workload: WorkloadId,
    port: u16,
}

fn read(request: &Request<PortSpec>) -> Result<Asked, Status> {
    let member = member(request)?;
    let (workload, port) = read_request(request.get_ref())
        .map_err(|error| Status::invalid_argument(error.to_string()))?;
    let asked = Asked { member, workload, port };
    // Known at once; the service account only when the pod is.
    if super::namespace(&asked.member) == asked.workload.namespace.as_ref() {
        Ok(asked)
    } else {
        Err(asked.denied())
    }
}

impl Asked {
    fn denied(&self) -> Status {
        Status::permission_denied(format!(
            "{} is not the identity of {}",
            self.member, self.workload
        ))
    }

    /// The policy, `None` while the workload is unknown.
    fn answer(&self, world: &World) -> Result<Option<InboundPolicy>, Status> {
        let Some(pod) = world.pod(&self.workload) else { return Ok(None) };
        let own = self.member.as_service_account().is_ok_and(|(namespace, account)| {
            namespace == pod.id.namespace.as_ref() && account == pod.service_account.as_ref()
        });
        if own { Ok(world.inbound(&self.workload, self.port)) } else { Err(self.denied()) }
    }
}

#[tonic::async_trait]
impl InboundServerPolicies for Inbound {
    async fn get_port(&self, request: Request<PortSpec>) -> Result<Response<Server>, Status> {
        let asked = read(&request)?;
        let world = self.0.world().await?;
        match asked.answer(&world)? {
            Some(policy) => Ok(Response::new(to_message(&policy))),
            None => Err(Status::not_found(format!("no pod {}", asked.workload))),
        }
    }

    type WatchPortStream = Answers<Server>;

    async fn watch_port(
        &self,
        request: Request<PortSpec>,
    ) -> Result<Response<Self::WatchPortStream>, Status> {
        let asked = read(&request)?;
        let workload = asked.workload.clone();
        let ground = move |world: &World| world.ground_of(&workload);
        let mut last = None;
        let stream = Stream {
            member: asked.member.clone(),
            method: "inbound",
            workload: Some(asked.workload.clone()),
            watched: Watched::Inbound(asked.port),
            acknowledges: acknowledges(request.metadata()),
        };
        self.0.follow(stream, ground, move |world| match asked.answer(world) {
            // A proxy may be earlier than its pod's manifest; and one whose pod is gone keeps what it has.
            Ok(None) => Vec::new(),
            Ok(policy) if policy == last => Vec::new(),
            Ok(Some(policy)) => {
                let message = to_message(&policy);
                last = Some(policy);
                vec![Ok(message)]
            }
            Err(status) => vec![Err(status)],
        })
    }
}
