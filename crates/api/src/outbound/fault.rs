//! Faults, which linkerd's messages have no field for.

use crate::{WireError, matching, parts};
use leno_model::fault::{Abort, Clients, DELAY_MAX, Fault, Share};
use leno_model::limit::{CLIENTS_MAX, CONDITIONS_MAX};
use leno_model::policy::Suffix;
use std::sync::Arc;
use std::time::Duration;

/// As `leno_model::fault::Fault` has it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FaultMessage {
    /// Namespace and name of its object, with `/` between them.
    #[prost(string, tag = "1")]
    pub name: String,
    /// How long requests wait.
    #[prost(message, optional, tag = "2")]
    pub delay: Option<DelayMessage>,
    /// What requests are answered with.
    #[prost(message, optional, tag = "3")]
    pub abort: Option<AbortMessage>,
    /// Only requests of these clients.
    #[prost(message, optional, tag = "4")]
    pub clients: Option<ClientsMessage>,
    /// Only requests with all of these headers.
    #[prost(message, repeated, tag = "5")]
    pub headers: Vec<HeaderMessage>,
    /// When it ends: milliseconds from the beginning of 1970.
    #[prost(uint64, tag = "6")]
    pub until_millis: u64,
}

/// Requests wait before they are sent.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DelayMessage {
    /// In milliseconds.
    #[prost(uint64, tag = "1")]
    pub millis: u64,
    /// Which requests.
    #[prost(message, optional, tag = "2")]
    pub share: Option<ShareMessage>,
}

/// A failure.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AbortMessage {
    /// 0 where there is a code of gRPC.
    #[prost(uint32, tag = "1")]
    pub http_status: u32,
    /// 0 where there is a status of HTTP.
    #[prost(uint32, tag = "2")]
    pub grpc_code: u32,
    /// Which requests.
    #[prost(message, optional, tag = "3")]
    pub share: Option<ShareMessage>,
}

/// So many of so many requests.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ShareMessage {
    /// So many of `denominator`.
    #[prost(uint32, tag = "1")]
    pub numerator: u32,
    /// At least 1.
    #[prost(uint32, tag = "2")]
    pub denominator: u32,
}

/// Identities of clients.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ClientsMessage {
    /// These names.
    #[prost(string, repeated, tag = "1")]
    pub identities: Vec<String>,
    /// Ends of DNS-like names; an empty one means every client.
    #[prost(string, repeated, tag = "2")]
    pub suffixes: Vec<String>,
}

/// A header with this value.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HeaderMessage {
    /// In lower case.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The whole value.
    #[prost(string, tag = "2")]
    pub value: String,
}

pub(super) fn written(fault: &Fault) -> FaultMessage {
    let share = |share: Share| {
        Some(ShareMessage { numerator: share.numerator, denominator: share.denominator })
    };
    let delay =
        fault.delay.map(|(delay, of)| DelayMessage { millis: millis(delay), share: share(of) });
    let abort = fault.abort.map(|(abort, of)| {
        let (http_status, grpc_code) = match abort {
            Abort::Http(status) => (u32::from(status), 0),
            Abort::Grpc(code) => (0, u32::from(code)),
        };
        AbortMessage { http_status, grpc_code, share: share(of) }
    });
    let clients = fault.clients.as_ref().map(|clients| ClientsMessage {
        identities: clients.identities.iter().map(ToString::to_string).collect(),
        suffixes: clients.suffixes.iter().map(|Suffix(labels)| labels.join(".")).collect(),
    });
    let header = |(name, value): &(Arc<str>, Arc<str>)| HeaderMessage {
        name: name.to_string(),
        value: value.to_string(),
    };
    FaultMessage {
        name: fault.name.to_string(),
        delay,
        abort,
        clients,
        headers: fault.headers.iter().map(header).collect(),
        until_millis: millis(fault.until),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn read(message: &FaultMessage) -> Result<Fault, WireError> {
    parts::at_most(message.headers.len(), CONDITIONS_MAX, "fault.headers")?;
    let header = |header: &HeaderMessage| {
        let name = matching::token(&header.name, "fault.headers.name")?;
        Ok((name, parts::text(&header.value, "fault.headers.value")?))
    };
    Ok(Fault {
        name: parts::some_text(&message.name, "fault.name")?,
        delay: message.delay.as_ref().map(delay).transpose()?,
        abort: message.abort.as_ref().map(abort).transpose()?,
        clients: message.clients.as_ref().map(clients).transpose()?,
        headers: message.headers.iter().map(header).collect::<Result<_, WireError>>()?,
        until: Duration::from_millis(message.until_millis),
    })
}

fn delay(message: &DelayMessage) -> Result<(Duration, Share), WireError> {
    let delay = Duration::from_millis(message.millis);
    if delay > DELAY_MAX {
        let reason = format_args!("{delay:?} is longer than {DELAY_MAX:?}");
        return Err(WireError::invalid("fault.delay", reason));
    }
    Ok((delay, share(message.share)?))
}

fn abort(message: &AbortMessage) -> Result<(Abort, Share), WireError> {
    let small = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
    let abort = match (small(message.http_status), small(message.grpc_code)) {
        (status @ 400..=599, 0) => Abort::Http(status),
        (0, code @ 1..=16) => Abort::Grpc(code),
        (status, code) => {
            let reason = format_args!("status {status} with gRPC code {code} is not a failure");
            return Err(WireError::invalid("fault.abort", reason));
        }
    };
    Ok((abort, share(message.share)?))
}

fn share(message: Option<ShareMessage>) -> Result<Share, WireError> {
    let ShareMessage { numerator, denominator } =
        message.ok_or(WireError::Missing("fault.share"))?;
    if denominator == 0 || numerator > denominator {
        let reason = format_args!("{numerator} of {denominator} is not a valid fraction");
        return Err(WireError::invalid("fault.share", reason));
    }
    Ok(Share { numerator, denominator })
}

fn clients(message: &ClientsMessage) -> Result<Clients, WireError> {
    let field = "fault.clients";
    parts::at_most(message.identities.len(), CLIENTS_MAX, field)?;
    parts::at_most(message.suffixes.len(), CLIENTS_MAX, field)?;
    let suffix = |text: &String| {
        let labels = text.split('.').filter(|label| !label.is_empty());
        parts::text(text, field).map(|_| Suffix(labels.map(Arc::from).collect()))
    };
    Ok(Clients {
        identities: message
            .identities
            .iter()
            .map(|identity| parts::some_text(identity, field))
            .collect::<Result<_, _>>()?,
        suffixes: message.suffixes.iter().map(suffix).collect::<Result<_, _>>()?,
    })
}
