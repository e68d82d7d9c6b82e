//! Injected failures.

use crate::ending::Ending;
use crate::refusal::Refusal;
use crate::request::local_reply::LocalReply;
use leno_model::route::Failure;

/// The failure, where this request is among those that get it; `random` is from 0 to 1.
#[must_use]
pub fn reply(failure: &Failure, random: f64) -> Option<LocalReply> {
    let share = f64::from(failure.numerator) / f64::from(failure.denominator.max(1));
    if failure.denominator != 0 && random >= share {
        return None;
    }
    let refusal = Refusal::because(Ending::FailureInjected, failure.message.to_string());
    let (status, grpc) = match failure.status {
        code @ 0..100 => (None, Some(code)),
        status => (Some(status), None),
    };
    Some(LocalReply { status, grpc, ..refusal.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_requests_that_fail() {
        let check = |numerator, denominator, random, expected: Option<u16>| {
            let failure = Failure { status: 418, message: "tea".into(), numerator, denominator };
            let status = reply(&failure, random).map(|reply| reply.status());
            assert_eq!(status, expected, "{numerator}/{denominator} at {random}");
        };
        check(1, 2, 0.49, Some(418));
        check(1, 2, 0.5, None);
        check(0, 2, 0.0, None);
        check(2, 2, 0.99, Some(418));
        check(0, 0, 0.99, Some(418));
    }

    #[test]
    fn a_route_of_grpc_gives_a_code() {
        let failure = Failure { status: 7, message: "no".into(), numerator: 0, denominator: 0 };
        let reply = reply(&failure, 0.0).unwrap();
        assert_eq!((reply.status(), reply.grpc()), (503, 7));
    }
}
