//! `leno.v1.Record`: what reached workloads. A proxy reports for its own workload only.

use super::{Sight, member, namespace};
use crate::world::World;
use crate::world::pod::Pod;
use leno_api::record::service::Record;
use leno_api::record::{AcknowledgedMessage, Sums, SumsMessage, from_message};
use leno_model::name::SpiffeId;
use std::sync::Arc;
use std::time::Instant;
use tonic::{Request, Response, Status};

/// Pods whose proxies report within a second, at most; more pods report less often.
const PODS_PER_SECOND_MAX: usize = 200;
/// A small mesh reports so often.
const INTERVAL_SECONDS_MIN: u32 = 5;

/// The service.
#[derive(Clone, Debug)]
pub struct Recorder(pub Sight);

impl Recorder {
    /// The pod that reports.
    fn pod<'w>(
        &self,
        world: &'w World,
        member: &SpiffeId,
        sums: &Sums,
    ) -> Result<&'w Arc<Pod>, Status> {
        let denied = || {
            let workload = &sums.workload;
            Status::permission_denied(format!("{member} is not the identity of {workload}"))
        };
        if namespace(member) != sums.workload.namespace.as_ref() {
            return Err(denied());
        }
        let missing = || Status::not_found(format!("no pod {}", sums.workload));
        let pod = world.pod(&sums.workload).ok_or_else(missing)?;
        let own = member.as_service_account().is_ok_and(|(namespace, account)| {
            namespace == pod.id.namespace.as_ref() && account == pod.service_account.as_ref()
        });
        if own { Ok(pod) } else { Err(denied()) }
    }
}

#[tonic::async_trait]
impl Record for Recorder {
    async fn report(
        &self,
        request: Request<SumsMessage>,
    ) -> Result<Response<AcknowledgedMessage>, Status> {
        let member = member(&request)?;
        let (record, now) = (&self.0.record, Instant::now());
        if !record.may_report(&member, self.0.pods_of(&member), now) {
            let why = format!("{member} has reported more often than its pods need");
            return Err(Status::resource_exhausted(why));
        }
        let sums = from_message(request.get_ref())
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let world = self.0.world().await?;
        let pod = self.pod(&world, &member, &sums)?;
        let (kind, name) = pod.workload();
        let workload = (pod.id.namespace.clone(), kind.into(), name.into());
        record.add(&workload, sums.entries, sums.lost, now);
        let pods = world.counts().0 / PODS_PER_SECOND_MAX;
        let interval_seconds = u32::try_from(pods).unwrap_or(u32::MAX).max(INTERVAL_SECONDS_MIN);
        Ok(Response::new(AcknowledgedMessage { interval_seconds }))
    }
}
