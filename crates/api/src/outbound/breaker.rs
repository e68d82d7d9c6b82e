//! Endpoints that fail: `outbound.FailureAccrual` <-> [`Breaker`].
//!
//! linkerd says it of each protocol; it is the same for all protocols of a Service. What linkerd has no field for is in `own.rs`.

use super::own::{BreakerMessage, OwnMessage};
use crate::{WireError, parts};
use leno_model::breaker::{
    Accrual, Breaker, FailureAccrual, JITTER_RATIO_MAX, Limits, PENALTY_LIMIT, Penalty, SuccessRate,
};
use linkerd2_proxy_api::outbound as message;
use message::failure_accrual::{ConsecutiveFailures, Kind, Unified};
use message::proxy_protocol::Kind as Protocol;
use std::num::NonZeroU32;
use std::time::Duration;

/// A balancer of linkerd's proxies keeps one endpoint at least. Ours keeps half of them.
const READY_ENDPOINTS_MIN: u32 = 1;

/// What the message says of its protocol, or of one of its protocols.
pub(super) fn accrual_of(protocol: &Protocol) -> Option<&message::FailureAccrual> {
    match protocol {
        Protocol::Detect(detect) => {
            let http1 = detect.http1.as_ref().and_then(|http1| http1.failure_accrual.as_ref());
            http1.or_else(|| detect.http2.as_ref()?.failure_accrual.as_ref())
        }
        Protocol::Http1(http1) => http1.failure_accrual.as_ref(),
        Protocol::Http2(http2) => http2.failure_accrual.as_ref(),
        Protocol::Grpc(grpc) => grpc.failure_accrual.as_ref(),
        Protocol::Opaque(_) | Protocol::Tls(_) => None,
    }
}

pub(super) fn read(
    accrual: Option<&message::FailureAccrual>,
    own: Option<&OwnMessage>,
) -> Result<Option<Box<Breaker>>, WireError> {
    let own = own.and_then(|own| own.breaker.as_ref());
    let rule = accrual.and_then(|accrual| accrual.kind.as_ref()).map(rule).transpose()?;
    let accrual = match rule {
        Some(rule) => Accrual::Rule(rule),
        None if own.is_some_and(|own| own.accrual_off) => Accrual::Off,
        None => Accrual::Default,
    };
    let limits = own.map_or_else(Limits::default, |own| Limits {
        connections_max: NonZeroU32::new(own.connections_max),
        pending_max: NonZeroU32::new(own.pending_max),
        requests_max: NonZeroU32::new(own.requests_max),
    });
    let breaker = Breaker { accrual, limits };
    Ok((breaker != Breaker::default()).then(|| Box::new(breaker)))
}

fn rule(kind: &Kind) -> Result<FailureAccrual, WireError> {
    let (consecutive_max, success_rate, backoff) = match kind {
        Kind::ConsecutiveFailures(ConsecutiveFailures { max_failures, backoff }) => {
            (*max_failures, None, backoff.as_ref())
        }
        Kind::Unified(unified) => {
            (unified.max_consecutive_failures, success_rate(unified)?, unified.backoff.as_ref())
        }
    };
    let backoff = backoff.ok_or(WireError::Missing("failure_accrual.backoff"))?;
    let (min, max) = (
        limited(backoff.min_backoff.as_ref(), "failure_accrual.min_backoff")?,
        limited(backoff.max_backoff.as_ref(), "failure_accrual.max_backoff")?,
    );
    let jitter_ratio = f64::from(backoff.jitter_ratio);
    if !(0.0..=JITTER_RATIO_MAX).contains(&jitter_ratio) {
        let reason = format_args!("{jitter_ratio} is not from 0 to {JITTER_RATIO_MAX}");
        return Err(WireError::invalid("failure_accrual.jitter_ratio", reason));
    }
    let penalty = Penalty { min, max: max.max(min), jitter_ratio };
    Ok(FailureAccrual { consecutive_max, success_rate, penalty })
}

fn success_rate(unified: &Unified) -> Result<Option<SuccessRate>, WireError> {
    let min = unified.success_rate_threshold;
    if !(0.0..=1.0).contains(&min) {
        let reason = format_args!("{min} is not from 0 to 1");
        return Err(WireError::invalid("failure_accrual.success_rate_threshold", reason));
    }
    if min <= 0.0 {
        return Ok(None);
    }
    let window = limited(unified.decay.as_ref(), "failure_accrual.decay")?;
    Ok(Some(SuccessRate { min, window, responses_min: unified.min_requests }))
}

/// A time that is not zero and not too long.
fn limited(
    time: Option<&prost_types::Duration>,
    field: &'static str,
) -> Result<Duration, WireError> {
    let time = parts::duration(time, field)?;
    if time.is_zero() || time > PENALTY_LIMIT {
        let reason = format_args!("{time:?} is not between 0s and {PENALTY_LIMIT:?}");
        return Err(WireError::invalid(field, reason));
    }
    Ok(time)
}

pub(super) fn accrual_message(breaker: Option<&Breaker>) -> Option<message::FailureAccrual> {
    let Accrual::Rule(rule) = &breaker?.accrual else { return None };
    let backoff = Some(message::ExponentialBackoff {
        min_backoff: Some(parts::duration_message(rule.penalty.min)),
        max_backoff: Some(parts::duration_message(rule.penalty.max)),
        jitter_ratio: rule.penalty.jitter_ratio as f32,
        respect_retry_after_hint: false,
    });
    let kind = match rule.success_rate {
        Some(SuccessRate { min, window, responses_min }) => Kind::Unified(Unified {
            success_rate_threshold: min,
            decay: Some(parts::duration_message(window)),
            min_requests: responses_min,
            max_consecutive_failures: rule.consecutive_max,
            backoff,
        }),
        None => Kind::ConsecutiveFailures(ConsecutiveFailures {
            max_failures: rule.consecutive_max,
            backoff,
        }),
    };
    let ejection = message::EjectionConfig { min_ready_endpoints: READY_ENDPOINTS_MIN };
    Some(message::FailureAccrual { kind: Some(kind), ejection: Some(ejection) })
}

pub(super) fn own_message(breaker: Option<&Breaker>) -> Option<BreakerMessage> {
    let Breaker { accrual, limits } = breaker?;
    let number = |limit: Option<NonZeroU32>| limit.map_or(0, NonZeroU32::get);
    let message = BreakerMessage {
        accrual_off: *accrual == Accrual::Off,
        connections_max: number(limits.connections_max),
        pending_max: number(limits.pending_max),
        requests_max: number(limits.requests_max),
    };
    (message != BreakerMessage::default()).then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unified() -> FailureAccrual {
        FailureAccrual { success_rate: Some(SuccessRate::default()), ..FailureAccrual::default() }
    }

    #[test]
    fn both_ways() {
        let limits = Limits { requests_max: NonZeroU32::new(7), ..Limits::default() };
        let check = |accrual: Accrual| {
            let breaker = Some(Box::new(Breaker { accrual, limits }));
            let message = accrual_message(breaker.as_deref());
            let own = own_message(breaker.as_deref());
            let own = OwnMessage { breaker: own, ..OwnMessage::default() };
            assert_eq!(read(message.as_ref(), Some(&own)), Ok(breaker));
        };
        check(Accrual::Default);
        check(Accrual::Off);
        check(Accrual::Rule(FailureAccrual::default()));
        check(Accrual::Rule(unified()));
        assert_eq!(read(None, None), Ok(None));
        assert_eq!((accrual_message(None), own_message(None)), (None, None));
    }

    #[test]
    fn what_is_not_read() {
        let check = |change: fn(&mut Unified), expected: &str| {
            let breaker = Breaker { accrual: Accrual::Rule(unified()), ..Breaker::default() };
            let mut message = accrual_message(Some(&breaker)).unwrap();
            let Some(Kind::Unified(unified)) = &mut message.kind else { panic!("{message:?}") };
            change(unified);
            assert_eq!(read(Some(&message), None).unwrap_err().to_string(), expected);
        };
        fn backoff(unified: &mut Unified) -> &mut message::ExponentialBackoff {
            unified.backoff.as_mut().unwrap()
        }
        check(|m| m.backoff = None, "failure_accrual.backoff is missing");
        check(
            |m| m.success_rate_threshold = f64::NAN,
            "failure_accrual.success_rate_threshold: NaN is not from 0 to 1",
        );
        check(
            |m| backoff(m).jitter_ratio = -1.0,
            "failure_accrual.jitter_ratio: -1 is not from 0 to 100",
        );
        check(
            |m| backoff(m).min_backoff = Some(prost_types::Duration::default()),
            "failure_accrual.min_backoff: 0ns is not between 0s and 86400s",
        );
    }
}
