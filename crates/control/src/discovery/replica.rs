//! `leno.v1.Replica`: what this replica has of its own proxies, for the other replicas of the control plane only.

use super::{Sight, member};
use crate::applied::objects::Reaches;
use crate::limit::{LOGGED_BYTES_MAX, REPLICA_PART_BYTES_MAX};
use crate::replicas::Part;
use leno_api::record::part::{RecordPart, to_bytes};
use leno_api::replica::service::Replica;
use leno_api::replica::{PartMessage, ReadMessage};
use leno_model::name::PeerName;
use std::time::Instant;
use tonic::{Request, Response, Status};

/// What the rest of the answer takes.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// The service.
#[derive(Clone, Debug)]
pub struct Reader(pub Sight);

impl Reader {
    fn body(&self, part: Part, namespace: Option<&str>) -> Vec<u8> {
        let bytes_max = REPLICA_PART_BYTES_MAX - HEAD_BYTES_MAX;
        match part {
            Part::Record => {
                let (record, now) = (&self.0.record, Instant::now());
                let (reach, seen) = (record.reach(now), record.within(namespace, now));
                to_bytes(&RecordPart { reach, seen, left_out: 0 }, bytes_max)
            }
            Part::Applied => {
                let world = self.0.worlds.borrow().clone();
                let reaches = Reaches::new(&world, &self.0.applied, Instant::now()).used();
                let bytes = serde_json::to_vec(&reaches).unwrap_or_default();
                // An empty answer is malformed: the other replica then writes no condition.
                if bytes.len() > bytes_max { Vec::new() } else { bytes }
            }
        }
    }
}

#[tonic::async_trait]
impl Replica for Reader {
    async fn read(&self, request: Request<ReadMessage>) -> Result<Response<PartMessage>, Status> {
        let member = PeerName::Spiffe(member(&request)?);
        let own = &self.0.own;
        if member != own.peer.name {
            let why = format!("{member} is not the identity of the control plane");
            return Err(Status::permission_denied(why));
        }
        let wanted = request.get_ref();
        let part = Part::parse(&wanted.part).ok_or_else(|| {
            let asked = &wanted.part[..wanted.part.floor_char_boundary(LOGGED_BYTES_MAX)];
            Status::unimplemented(format!("this replica has no part named {asked:?}"))
        })?;
        let namespace = Some(wanted.namespace.as_str()).filter(|name| !name.is_empty());
        let body = self.body(part, namespace);
        Ok(Response::new(PartMessage { replica: own.id.to_string(), body }))
    }
}
