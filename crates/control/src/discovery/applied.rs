//! `leno.v1.Applied`: what proxies have applied. An identity acknowledges its own streams only.

use super::{Sight, leaving, member};
use crate::limit::APPLIED_MESSAGES_PER_SECOND_MAX;
use leno_api::applied::service::Applied;
use leno_api::applied::{AppliedMessage, EndedMessage, from_message};
use std::time::{Duration, Instant};
use tonic::{Request, Response, Status, Streaming};

/// The service.
#[derive(Clone, Debug)]
pub struct Reports(pub Sight);

#[tonic::async_trait]
impl Applied for Reports {
    async fn report(
        &self,
        request: Request<Streaming<AppliedMessage>>,
    ) -> Result<Response<EndedMessage>, Status> {
        let member = member(&request)?;
        let _share = self.0.share(&member)?;
        let guard = self.0.drain.guard();
        let mut messages = request.into_inner();
        let (mut second, mut count) = (Instant::now(), 0);
        loop {
            let message = tokio::select! {
                message = messages.message() => message?,
                () = guard.draining() => return Err(leaving()),
            };
            let Some(message) = message else { return Ok(Response::new(EndedMessage {})) };
            let now = Instant::now();
            if now.saturating_duration_since(second) >= Duration::from_secs(1) {
                (second, count) = (now, 0);
            }
            count += 1;
            if count > APPLIED_MESSAGES_PER_SECOND_MAX {
                let max = APPLIED_MESSAGES_PER_SECOND_MAX;
                let why = format!("{member} has sent more than {max} messages in a second");
                return Err(Status::resource_exhausted(why));
            }
            let said = from_message(&message)
                .map_err(|error| Status::invalid_argument(error.to_string()))?;
            let taken = self.0.applied.acknowledge(&member, &said, now);
            taken.map_err(|error| Status::permission_denied(format!("{member}: {error}")))?;
        }
    }
}
