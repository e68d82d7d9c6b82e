//! Retries of a rule: `outbound.HttpRoute.Retry` and `outbound.GrpcRoute.Retry` <-> [`Retry`].
//!
//! An HTTP rule's conditions are ranges of statuses. HTTP has none above 999, so what the message has no field for is written there:
//! gRPC code `n` as `1000 + n`, and "every method" as 2000. linkerd's proxies never see such a status.

use crate::{WireError, parts};
use leno_model::retry::{
    BACKOFF_GROWTH_MAX, GrpcCodes, REPLAY_BYTES_MAX, RETRIES_MAX, Retry, STATUS_RANGES_MAX,
};
use linkerd2_proxy_api::outbound as message;
use linkerd2_proxy_api::outbound::grpc_route::retry::Conditions as GrpcConditions;
use linkerd2_proxy_api::outbound::http_route::retry::conditions::StatusRange;
use std::time::Duration;

/// gRPC code 0, as a status.
const GRPC_STATUS_FIRST: u16 = 1000;
const GRPC_STATUS_LAST: u16 = GRPC_STATUS_FIRST + GrpcCodes::COUNT - 1;
/// "Every method", as a status.
const ANY_METHOD_STATUS: u16 = 2000;

/// The three fields that both kinds of rules have.
struct Limits {
    retries_max: u8,
    attempt_timeout: Option<Duration>,
    backoff: Duration,
}

fn limits(
    retries: u32,
    timeout: Option<&prost_types::Duration>,
    backoff: Option<&message::ExponentialBackoff>,
) -> Result<Limits, WireError> {
    parts::at_most(retries as usize, usize::from(RETRIES_MAX), "retry.max_retries")?;
    let backoff = backoff.and_then(|backoff| backoff.min_backoff.as_ref());
    Ok(Limits {
        retries_max: u8::try_from(retries).unwrap_or(RETRIES_MAX),
        attempt_timeout: parts::optional_duration(timeout, "retry.timeout")?,
        backoff: parts::optional_duration(backoff, "retry.backoff")?.unwrap_or_default(),
    })
}

fn backoff_message(retry: &Retry) -> Option<message::ExponentialBackoff> {
    (!retry.backoff.is_zero()).then(|| message::ExponentialBackoff {
        min_backoff: Some(parts::duration_message(retry.backoff)),
        max_backoff: Some(parts::duration_message(
            retry.backoff.saturating_mul(BACKOFF_GROWTH_MAX),
        )),
        jitter_ratio: 1.0,
        respect_retry_after_hint: true,
    })
}

pub(super) fn http(
    message: Option<&message::http_route::Retry>,
) -> Result<Option<Box<Retry>>, WireError> {
    let Some(message) = message else { return Ok(None) };
    let ranges = message.conditions.as_ref().map_or(&[][..], |all| &all.status_ranges);
    parts::at_most(ranges.len(), STATUS_RANGES_MAX, "retry.status_ranges")?;
    let limits = limits(message.max_retries, message.timeout.as_ref(), message.backoff.as_ref())?;
    let mut retry = of_limits(limits);
    for StatusRange { start, end } in ranges {
        let wrong = || {
            let field = "retry.status_ranges";
            WireError::invalid(field, format_args!("{start}-{end} is not a range of statuses"))
        };
        let first = u16::try_from(*start).map_err(|_| wrong())?;
        let last = u16::try_from(*end).map_err(|_| wrong())?;
        match (first, last) {
            (100..=999, 100..=999) if first <= last => retry.statuses.push((first, last)),
            (GRPC_STATUS_FIRST..=GRPC_STATUS_LAST, _) if first == last => {
                retry.grpc = retry.grpc.with(first - GRPC_STATUS_FIRST);
            }
            (ANY_METHOD_STATUS, ANY_METHOD_STATUS) => retry.any_method = true,
            _ => return Err(wrong()),
        }
    }
    Ok(Some(Box::new(retry)))
}

pub(super) fn http_message(retry: Option<&Retry>) -> Option<message::http_route::Retry> {
    let retry = retry?;
    let range = |first, last| StatusRange { start: u32::from(first), end: u32::from(last) };
    let statuses = retry.statuses.iter().map(|(first, last)| range(*first, *last));
    let one = |status| range(status, status);
    let codes = retry.grpc.iter().map(|code| one(GRPC_STATUS_FIRST + code));
    let any_method = retry.any_method.then(|| one(ANY_METHOD_STATUS));
    Some(message::http_route::Retry {
        max_retries: u32::from(retry.retries_max),
        max_request_bytes: REPLAY_BYTES_MAX,
        conditions: Some(message::http_route::retry::Conditions {
            status_ranges: statuses.chain(codes).chain(any_method).collect(),
        }),
        timeout: retry.attempt_timeout.map(parts::duration_message),
        backoff: backoff_message(retry),
    })
}

pub(super) fn grpc(
    message: Option<&message::grpc_route::Retry>,
) -> Result<Option<Box<Retry>>, WireError> {
    let Some(message) = message else { return Ok(None) };
    let limits = limits(message.max_retries, message.timeout.as_ref(), message.backoff.as_ref())?;
    let mut retry = of_limits(limits);
    let conditions = message.conditions.unwrap_or_default();
    for (code, is_set) in codes(&conditions) {
        if is_set {
            retry.grpc = retry.grpc.with(code);
        }
    }
    Ok(Some(Box::new(retry)))
}

/// # Errors
/// The rule names statuses, methods or codes that a gRPC rule cannot name.
pub(super) fn grpc_message(
    retry: Option<&Retry>,
) -> Result<Option<message::grpc_route::Retry>, WireError> {
    let Some(retry) = retry else { return Ok(None) };
    let has = |code| retry.grpc.contains(code);
    let conditions = GrpcConditions {
        cancelled: has(1),
        deadine_exceeded: has(4),
        resource_exhausted: has(8),
        internal: has(13),
        unavailable: has(14),
    };
    let said = codes(&conditions).into_iter().filter(|(_, is_set)| *is_set);
    let said = said.fold(GrpcCodes::default(), |codes, (code, _)| codes.with(code));
    if said != retry.grpc || !retry.statuses.is_empty() || retry.any_method {
        let what = "a condition that is not one of the five gRPC codes";
        return Err(WireError::Unsupported { field: "grpc.retry", what });
    }
    Ok(Some(message::grpc_route::Retry {
        max_retries: u32::from(retry.retries_max),
        max_request_bytes: REPLAY_BYTES_MAX,
        conditions: Some(conditions),
        timeout: retry.attempt_timeout.map(parts::duration_message),
        backoff: backoff_message(retry),
    }))
}

fn codes(conditions: &GrpcConditions) -> [(u16, bool); 5] {
    [
        (1, conditions.cancelled),
        (4, conditions.deadine_exceeded),
        (8, conditions.resource_exhausted),
        (13, conditions.internal),
        (14, conditions.unavailable),
    ]
}

fn of_limits(limits: Limits) -> Retry {
    let Limits { retries_max, attempt_timeout, backoff } = limits;
    Retry {
        retries_max,
        statuses: Vec::new(),
        grpc: GrpcCodes::default(),
        any_method: false,
        attempt_timeout,
        backoff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry() -> Retry {
        Retry {
            retries_max: 3,
            statuses: vec![(500, 500), (502, 504)],
            grpc: GrpcCodes::default().with(1).with(14),
            any_method: true,
            attempt_timeout: Some(Duration::from_millis(300)),
            backoff: Duration::from_millis(25),
        }
    }

    #[test]
    fn both_ways() {
        let check = |retry: &Retry| {
            let read = http(http_message(Some(retry)).as_ref());
            assert_eq!(read, Ok(Some(Box::new(retry.clone()))));
        };
        check(&retry());
        check(&Retry { backoff: Duration::ZERO, any_method: false, ..retry() });
        check(&Retry { statuses: Vec::new(), attempt_timeout: None, ..retry() });
        assert_eq!(http(None), Ok(None));
        let of_grpc = Retry { statuses: Vec::new(), any_method: false, ..retry() };
        let message = grpc_message(Some(&of_grpc)).unwrap();
        assert_eq!(grpc(message.as_ref()), Ok(Some(Box::new(of_grpc.clone()))));
        let more = Retry { grpc: of_grpc.grpc.with(2), ..of_grpc };
        for refused in [retry(), more] {
            assert!(grpc_message(Some(&refused)).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn what_is_not_read() {
        let check = |change: fn(&mut message::http_route::Retry), expected: &str| {
            let mut message = http_message(Some(&retry())).unwrap();
            change(&mut message);
            assert_eq!(http(Some(&message)).unwrap_err().to_string(), expected);
        };
        fn range(message: &mut message::http_route::Retry, start: u32, end: u32) {
            let conditions = message.conditions.as_mut().unwrap();
            conditions.status_ranges = vec![StatusRange { start, end }];
        }
        check(|m| m.max_retries = 11, "retry.max_retries has size 11; the limit is 10");
        let range_of = "is not a range of statuses";
        check(|m| range(m, 504, 500), &format!("retry.status_ranges: 504-500 {range_of}"));
        check(|m| range(m, 0, 999), &format!("retry.status_ranges: 0-999 {range_of}"));
        check(
            |m| range(m, 99_999, 99_999),
            &format!("retry.status_ranges: 99999-99999 {range_of}"),
        );
        check(|m| range(m, 1017, 1017), &format!("retry.status_ranges: 1017-1017 {range_of}"));
        check(
            |m| m.conditions.as_mut().unwrap().status_ranges = vec![StatusRange::default(); 65],
            "retry.status_ranges has size 65; the limit is 64",
        );
    }
}
