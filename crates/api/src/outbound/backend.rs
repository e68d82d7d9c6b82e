//! Backends and how endpoints are found.

use crate::WireError;
use crate::{destination, parts};
use leno_model::route::{Backend, BackendKind, Balance, Filter};
use linkerd2_proxy_api::outbound as message;
use message::backend::balance_p2c::{Load, PeakEwma};
use message::backend::endpoint_discovery::{DestinationGet, Kind as Discovery};
use message::backend::{BalanceP2c, EndpointDiscovery, Kind};
use std::sync::Arc;
use std::time::Duration;

/// What linkerd's proxy requires and we bound by limits of our own: linkerd's defaults.
const QUEUE_CAPACITY: u32 = 100;
const QUEUE_WAIT_MAX: Duration = Duration::from_secs(3);

pub(super) fn backend(
    message: Option<&message::Backend>,
    filters: Vec<Filter>,
) -> Result<Backend, WireError> {
    let message = message.ok_or(WireError::Missing("backend"))?;
    let kind = match &message.kind {
        // linkerd's control plane says so of a reference to nothing, beside a filter that answers.
        None => BackendKind::Broken,
        Some(Kind::Forward(endpoint)) => {
            BackendKind::Forward(Arc::new(destination::endpoint_from_message(endpoint)?))
        }
        Some(Kind::Balancer(balancer)) => BackendKind::Balance(balance(balancer)?),
    };
    let resource = parts::resource(message.metadata.as_ref(), "backend.metadata")?;
    Ok(Backend { resource, kind, filters })
}

fn balance(message: &BalanceP2c) -> Result<Balance, WireError> {
    let discovery = message.discovery.as_ref().and_then(|discovery| discovery.kind.as_ref());
    let Discovery::Dst(get) = discovery.ok_or(WireError::Missing("balancer.discovery"))?;
    let (default_rtt, decay) =
        match message.load.as_ref().ok_or(WireError::Missing("balancer.load"))? {
            Load::PeakEwma(ewma) => (&ewma.default_rtt, &ewma.decay),
            Load::PenaltyPeakEwma(ewma) => (&ewma.default_rtt, &ewma.decay),
        };
    Ok(Balance {
        destination: parts::some_text(&get.path, "balancer.discovery.dst.path")?,
        default_latency: parts::duration(default_rtt.as_ref(), "balancer.load.default_rtt")?,
        decay: parts::duration(decay.as_ref(), "balancer.load.decay")?,
        retry_budget: None,
    })
}

pub(super) fn backend_message(backend: &Backend) -> message::Backend {
    let kind = match &backend.kind {
        BackendKind::Broken => None,
        BackendKind::Forward(endpoint) => {
            Some(Kind::Forward(destination::endpoint_message(endpoint)))
        }
        BackendKind::Balance(balance) => Some(Kind::Balancer(BalanceP2c {
            discovery: Some(EndpointDiscovery {
                kind: Some(Discovery::Dst(DestinationGet {
                    path: balance.destination.to_string(),
                })),
            }),
            load: Some(Load::PeakEwma(PeakEwma {
                default_rtt: Some(parts::duration_message(balance.default_latency)),
                decay: Some(parts::duration_message(balance.decay)),
            })),
        })),
    };
    message::Backend {
        metadata: Some(parts::resource_message(&backend.resource)),
        kind,
        queue: Some(message::Queue {
            capacity: QUEUE_CAPACITY,
            failfast_timeout: Some(parts::duration_message(QUEUE_WAIT_MAX)),
        }),
    }
}

/// Whether the balancer is asked to penalize endpoints by their responses.
pub(super) fn is_penalizing(backend: Option<&message::Backend>) -> bool {
    matches!(
        backend.and_then(|backend| backend.kind.as_ref()),
        Some(Kind::Balancer(BalanceP2c { load: Some(Load::PenaltyPeakEwma(_)), .. }))
    )
}
