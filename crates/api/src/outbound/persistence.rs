//! Session persistence of rules and backends, which linkerd's messages have no field for: a list beside the routes.
//!
//! A proxy without the list balances each request on its own.

use crate::{WireError, parts};
use leno_model::limit::{BACKENDS_MAX, ROUTES_MAX, RULES_MAX};
use leno_model::persistence::{Carrier, Keys, Persistence};
use leno_model::route::HttpRule;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How the sessions of a rule, or of one of its backends, persist.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PersistenceMessage {
    /// 2 for the HTTP/2 routes of a policy that detects, 1 otherwise.
    #[prost(uint32, tag = "1")]
    pub protocol: u32,
    /// Its place among the routes.
    #[prost(uint32, tag = "2")]
    pub route: u32,
    /// Its place among the rules.
    #[prost(uint32, tag = "3")]
    pub rule: u32,
    /// 0 for all backends of the rule, 1 for its first backend.
    #[prost(uint32, tag = "4")]
    pub backend: u32,
    /// 1 for a header, 2 for a cookie of the client's session, 3 for a cookie with a lifetime.
    #[prost(uint32, tag = "5")]
    pub carrier: u32,
    /// The name of the cookie or header.
    #[prost(string, tag = "6")]
    pub name: String,
    /// 0 is none, as below.
    #[prost(uint64, tag = "7")]
    pub absolute_timeout_millis: u64,
    /// From the last request.
    #[prost(uint64, tag = "8")]
    pub idle_timeout_millis: u64,
    /// What the first key is derived from.
    #[prost(string, tag = "9")]
    pub scope: String,
    /// For the MAC of tokens: 32 bytes, or none.
    #[prost(bytes = "vec", tag = "10")]
    pub token_key: Vec<u8>,
    /// For the hashes of endpoints: 32 bytes, or none.
    #[prost(bytes = "vec", tag = "11")]
    pub endpoint_key: Vec<u8>,
}

impl PersistenceMessage {
    /// Puts the keys in.
    pub fn set_keys(&mut self, keys: &Keys) {
        self.token_key = keys.token.to_vec();
        self.endpoint_key = keys.endpoint.to_vec();
    }
}

/// Protocol, route and rule, as in a message.
type Place = (u32, u32, u32);

/// By rule, in order.
pub(super) type Persistences = HashMap<Place, Vec<Arc<Persistence>>>;

/// Rules of a policy that may have persistence.
const LIST_MAX: usize = ROUTES_MAX * RULES_MAX;

pub(super) fn read(messages: &[PersistenceMessage]) -> Result<Persistences, WireError> {
    parts::at_most(messages.len(), LIST_MAX, "own.persistence")?;
    let mut all = Persistences::new();
    for message in messages {
        let of_rule = all.entry((message.protocol, message.route, message.rule));
        let of_rule: &mut Vec<_> = of_rule.or_default();
        parts::at_most(of_rule.len() + 1, BACKENDS_MAX, "own.persistence")?;
        of_rule.push(Arc::new(one(message)?));
    }
    Ok(all)
}

fn one(message: &PersistenceMessage) -> Result<Persistence, WireError> {
    let invalid = |why: &dyn std::fmt::Display| WireError::invalid("own.persistence", why);
    let timeout = |millis: u64| (millis > 0).then(|| Duration::from_millis(millis));
    let carrier = match message.carrier {
        1 => Carrier::Header,
        2 => Carrier::Cookie { is_permanent: false },
        3 => Carrier::Cookie { is_permanent: true },
        other => return Err(invalid(&format_args!("{other} is not a carrier of tokens"))),
    };
    let persistence = Persistence {
        backend: message.backend.checked_sub(1),
        carrier,
        name: parts::some_text(&message.name, "own.persistence.name")?,
        absolute_timeout: timeout(message.absolute_timeout_millis),
        idle_timeout: timeout(message.idle_timeout_millis),
        scope: parts::text(&message.scope, "own.persistence.scope")?,
        keys: keys(message)?,
    };
    persistence.check().map_err(|(field, why)| invalid(&format_args!("{field}: {why}")))?;
    Ok(persistence)
}

fn keys(message: &PersistenceMessage) -> Result<Option<Keys>, WireError> {
    let PersistenceMessage { token_key: token, endpoint_key: endpoint, .. } = message;
    if token.is_empty() && endpoint.is_empty() {
        return Ok(None);
    }
    let key = |key: &[u8]| {
        key.try_into().map_err(|_| {
            let why = format_args!("{} bytes are not a key of 32", key.len());
            WireError::invalid("own.persistence.keys", why)
        })
    };
    Ok(Some(Keys { token: key(token)?, endpoint: key(endpoint)? }))
}

/// Notes the persistence of a rule.
pub(super) fn collect(
    messages: &mut Vec<PersistenceMessage>,
    (protocol, route, number): Place,
    rule: &HttpRule,
) {
    for persistence in &rule.persistence {
        let millis = |timeout: Option<Duration>| {
            timeout.map_or(0, |timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX))
        };
        let mut message = PersistenceMessage {
            protocol,
            route,
            rule: number,
            backend: persistence.backend.map_or(0, |number| number.saturating_add(1)),
            carrier: match persistence.carrier {
                Carrier::Header => 1,
                Carrier::Cookie { is_permanent: false } => 2,
                Carrier::Cookie { is_permanent: true } => 3,
            },
            name: persistence.name.to_string(),
            absolute_timeout_millis: millis(persistence.absolute_timeout),
            idle_timeout_millis: millis(persistence.idle_timeout),
            scope: persistence.scope.to_string(),
            ..PersistenceMessage::default()
        };
        if let Some(keys) = &persistence.keys {
            message.set_keys(keys);
        }
        messages.push(message);
    }
}
