//! Faults, as routes refer to them.
//!
//! A fault that is not valid injects nothing. Its mistakes are reported on it, and on the routes that refer to it.

use super::MeshNames;
use super::policy::identity;
use super::policy::report::{INVALID, Report};
use super::route::filter::{checked_share, is_token};
use super::route::traffic::duration;
use crate::source::fault::{Abort as AbortWish, FaultSpec, Fraction, Header};
use crate::source::policy::Policy;
use crate::source::{Inventory, Sourced};
use leno_model::fault::{Abort, Clients, DELAY_MAX, Fault, LIFE_MAX, Share};
use leno_model::limit::{CONDITIONS_MAX, TEXT_BYTES_MAX};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// By namespace and name; `None` for one that is not valid.
pub(super) type Faults = HashMap<(Arc<str>, Arc<str>), Option<Arc<Fault>>>;

/// gRPC's codes from 1 on.
const GRPC_CODES: [&str; 16] = [
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Reads all of them.
pub(super) fn read(inventory: &Inventory, names: &MeshNames, report: &mut Report) -> Faults {
    let read = |fault: &Sourced<Policy<FaultSpec>>| {
        let key = (fault.key.namespace.clone(), fault.key.name.clone());
        let mut reading = Reading { fault, names, wrong: Vec::new() };
        let read = reading.fault();
        let wrong = reading.wrong;
        report.begin(fault);
        for (field, message) in wrong {
            report.wrong(fault, INVALID, field, format!("{message}; the fault injects nothing"));
        }
        (key, read.map(Arc::new))
    };
    inventory.faults.iter().map(read).collect()
}

/// One fault while it is read.
struct Reading<'a> {
    fault: &'a Sourced<Policy<FaultSpec>>,
    names: &'a MeshNames,
    /// Fields, and what is wrong with each.
    wrong: Vec<(String, String)>,
}

impl Reading<'_> {
    /// The fault; `None` where anything of it is wrong.
    fn fault(&mut self) -> Option<Fault> {
        let spec = &self.fault.object.spec;
        if spec.delay.is_none() && spec.abort.is_none() {
            self.wrong("spec", "the fault has neither delay nor abort");
        }
        let delay = spec.delay.as_ref().map(|delay| {
            let share = self.share("spec.delay", delay.percent, delay.fraction);
            (self.delay(delay.duration.as_deref()), share)
        });
        let abort = spec.abort.as_ref().map(|abort| {
            let share = self.share("spec.abort", abort.percent, abort.fraction);
            (self.abort(abort), share)
        });
        let clients = spec.clients.as_ref().map(|clients| self.clients(&clients.identities));
        let headers = spec.headers.as_deref().map(|headers| self.headers(headers));
        let until = self.until(spec);
        let fault = Fault {
            name: format!("{}/{}", self.fault.key.namespace, self.fault.key.name).into(),
            delay,
            abort,
            clients,
            headers: headers.unwrap_or_default(),
            until,
        };
        self.wrong.is_empty().then_some(fault)
    }

    fn wrong(&mut self, field: &str, message: impl Into<String>) {
        self.wrong.push((field.to_owned(), message.into()));
    }

    fn share(&mut self, field: &str, percent: Option<i32>, fraction: Option<Fraction>) -> Share {
        let fraction = fraction.map(|Fraction { numerator, denominator }| (numerator, denominator));
        match checked_share(percent, fraction) {
            Ok((numerator, denominator)) => Share { numerator, denominator },
            Err(message) => {
                self.wrong(field, message);
                Share::ALL
            }
        }
    }

    fn delay(&mut self, text: Option<&str>) -> Duration {
        let field = "spec.delay.duration";
        let read = text.ok_or_else(|| "missing".to_owned()).and_then(duration);
        match read {
            Ok(delay) if delay.is_zero() || delay > DELAY_MAX => {
                let text = text.unwrap_or_default();
                self.wrong(field, format!("{text} is not a delay of more than 0s and at most 1m"));
            }
            Ok(delay) => return delay,
            Err(message) => self.wrong(field, message),
        }
        Duration::ZERO
    }

    fn abort(&mut self, abort: &AbortWish) -> Abort {
        let nothing = Abort::Http(500);
        match (abort.http_status, abort.grpc_status.as_deref()) {
            (Some(status), None) => match u16::try_from(status) {
                Ok(status @ 400..=599) => return Abort::Http(status),
                _ => {
                    let message = format!("{status} is not a status from 400 to 599");
                    self.wrong("spec.abort.httpStatus", message);
                }
            },
            (None, Some(name)) => match (1..).zip(GRPC_CODES).find(|(_, code)| *code == name) {
                Some((code, _)) => return Abort::Grpc(code),
                None => {
                    let message = format!(
                        "{name:?} is not the name of a gRPC code of a failure, such as UNAVAILABLE"
                    );
                    self.wrong("spec.abort.grpcStatus", message);
                }
            },
            _ => self.wrong("spec.abort", "exactly one of httpStatus and grpcStatus is needed"),
        }
        nothing
    }

    fn clients(&mut self, identities: &[String]) -> Clients {
        let field = "spec.clients.identities";
        let mut clients = identity::Clients::default();
        for (number, identity) in identities.iter().enumerate() {
            if let Err(message) = clients.add(identity, self.names) {
                self.wrong(&format!("{field}[{number}]"), message);
            }
        }
        if identities.is_empty() {
            self.wrong(field, "the list is empty; leave clients out for requests of every client");
        }
        Clients { identities: clients.identities, suffixes: clients.suffixes }
    }

    fn headers(&mut self, headers: &[Header]) -> Vec<(Arc<str>, Arc<str>)> {
        let field = "spec.headers";
        if headers.is_empty() || headers.len() > CONDITIONS_MAX {
            let count = headers.len();
            self.wrong(
                field,
                format!("{count} is not a number of headers from 1 to {CONDITIONS_MAX}"),
            );
        }
        let mut read = Vec::new();
        for (number, Header { name, value }) in headers.iter().enumerate().take(CONDITIONS_MAX) {
            if !is_token(name) {
                self.wrong(
                    &format!("{field}[{number}].name"),
                    format!("{name:?} is not a header name"),
                );
            }
            if value.len() > TEXT_BYTES_MAX || value.chars().any(|c| c.is_control() && c != '\t') {
                let message =
                    format!("longer than {TEXT_BYTES_MAX} bytes, or has a control character");
                self.wrong(&format!("{field}[{number}].value"), message);
            }
            read.push((name.to_ascii_lowercase().into(), value.as_str().into()));
        }
        read
    }

    /// When it ends, from the beginning of 1970. The earlier of two ends counts.
    fn until(&mut self, spec: &FaultSpec) -> Duration {
        let millis = |at: i64| Duration::from_millis(u64::try_from(at).unwrap_or(0));
        let created = self.fault.object.metadata.creation_timestamp.as_ref();
        let created = created.map(|time| millis(time.0.as_millisecond()));
        let ttl = match (spec.ttl.as_deref().map(duration), created) {
            (None, _) => None,
            (Some(Ok(ttl)), Some(created)) => Some(created + ttl),
            (Some(Ok(_)), None) => {
                self.wrong("spec.ttl", "the object has no metadata.creationTimestamp, from which ttl counts; use until");
                None
            }
            (Some(Err(message)), _) => {
                self.wrong("spec.ttl", message);
                None
            }
        };
        let until = spec.until.as_ref().map(|time| millis(time.0.as_millisecond()));
        let Some(end) = ttl.into_iter().chain(until).min() else {
            if spec.ttl.is_none() {
                self.wrong("spec", "the fault has neither ttl nor until: it must end by itself");
            }
            return Duration::ZERO;
        };
        if created.is_some_and(|created| end.saturating_sub(created) > LIFE_MAX) {
            let days = LIFE_MAX.as_secs() / 86_400;
            let field = if ttl == Some(end) { "spec.ttl" } else { "spec.until" };
            self.wrong(field, format!("the fault ends more than {days} days after it was created"));
        }
        end
    }
}
