//! Rate limits: `inbound.HttpLocalRateLimit` <-> [`RateLimit`].

use crate::WireError;
use crate::parts;
use leno_model::limit::CLIENTS_MAX;
use leno_model::name::PeerName;
use leno_model::policy::{RateLimit, RateOverride};
use linkerd2_proxy_api::inbound as message;
use message::http_local_rate_limit::r#override::ClientIdentities;
use message::http_local_rate_limit::{Limit, Override};
use std::num::NonZeroU32;
use std::sync::Arc;

/// Reads a limit. A message that limits nothing is none.
pub(super) fn read(
    message: Option<&message::HttpLocalRateLimit>,
) -> Result<Option<Box<RateLimit>>, WireError> {
    let Some(message) = message else { return Ok(None) };
    let total = limit(message.total.as_ref(), "local_rate_limit.total")?;
    let identity = limit(message.identity.as_ref(), "local_rate_limit.identity")?;
    if total.is_none() && identity.is_none() && message.overrides.is_empty() {
        return Ok(None);
    }
    let field = "local_rate_limit.overrides";
    parts::at_most(message.overrides.len(), CLIENTS_MAX, field)?;
    let clients = message.overrides.iter().filter_map(|one| one.clients.as_ref());
    parts::at_most(clients.map(|clients| clients.identities.len()).sum(), CLIENTS_MAX, field)?;
    let overrides = message.overrides.iter().map(read_override).collect::<Result<_, _>>()?;
    let resource =
        parts::optional_resource(message.metadata.as_ref(), "local_rate_limit.metadata")?
            .ok_or(WireError::Missing("local_rate_limit.metadata"))?;
    Ok(Some(Box::new(RateLimit { resource, total, identity, overrides })))
}

fn limit(message: Option<&Limit>, field: &'static str) -> Result<Option<NonZeroU32>, WireError> {
    let Some(message) = message else { return Ok(None) };
    let rate = NonZeroU32::new(message.requests_per_second);
    rate.map(Some).ok_or_else(|| WireError::invalid(field, "0 requests per second"))
}

fn read_override(message: &Override) -> Result<RateOverride, WireError> {
    let field = "local_rate_limit.overrides.limit";
    let requests_per_second =
        limit(message.limit.as_ref(), field)?.ok_or(WireError::Missing(field))?;
    let identity = |identity: &message::Identity| {
        PeerName::parse(&identity.name)
            .map(|name| Arc::from(name.as_str()))
            .map_err(|error| WireError::invalid("local_rate_limit.overrides.clients", error))
    };
    let identities = message.clients.iter().flat_map(|clients| &clients.identities);
    let identities = identities.map(identity).collect::<Result<_, _>>()?;
    Ok(RateOverride { requests_per_second, identities })
}

pub(super) fn to_message(limit: Option<&RateLimit>) -> Option<message::HttpLocalRateLimit> {
    let limit = limit?;
    let rate = |rate: NonZeroU32| Limit { requests_per_second: rate.get() };
    let overrides = limit.overrides.iter().map(|one| Override {
        limit: Some(rate(one.requests_per_second)),
        clients: Some(ClientIdentities {
            identities: one
                .identities
                .iter()
                .map(|name| message::Identity { name: name.to_string() })
                .collect(),
        }),
    });
    Some(message::HttpLocalRateLimit {
        metadata: Some(parts::resource_message(&limit.resource)),
        total: limit.total.map(rate),
        identity: limit.identity.map(rate),
        overrides: overrides.collect(),
    })
}
