//! Faults: requests wait, or are answered with a failure.

use crate::ending::Ending;
use crate::refusal::Refusal;
use crate::request::local_reply::LocalReply;
use crate::request::view::View;
use leno_model::fault::Fault;
use leno_model::name::PeerName;
use leno_model::route::RequestView as _;
use std::time::Duration;

/// What happens to one request before it is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// It waits so long.
    pub delay: Duration,
    /// Then it is answered so.
    pub abort: Option<LocalReply>,
}

/// Adds what a fault does to this request. Several delays add up, and the first failure stays. `now` is from the beginning of 1970;
/// `draw` returns random numbers from 0 to 1.
pub fn inject(
    injected: &mut Option<Injected>,
    fault: &Fault,
    view: &View<'_>,
    (client, now): (&PeerName, Duration),
    draw: &mut impl FnMut() -> f64,
) {
    let has = |name: &str, value: &str| view.any_header(name, &mut |found| found == value);
    if !fault.is_for(client, now, has) {
        return;
    }
    if let Some((delay, share)) = fault.delay
        && share.takes(draw())
    {
        injected.get_or_insert_default().delay += delay;
    }
    if let Some((abort, share)) = fault.abort
        && share.takes(draw())
    {
        let refusal = Refusal::because(
            Ending::FaultInjected,
            format!("Fault {} of the route injected this failure", fault.name),
        );
        let (status, code) = abort.status_and_code();
        let reply = LocalReply { status: Some(status), grpc: Some(code), ..refusal.into() };
        injected.get_or_insert_default().abort.get_or_insert(reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_model::fault::{Abort, Share};

    #[test]
    fn what_faults_do_to_a_request() {
        let share = |numerator| Share { numerator, denominator: 100 };
        let fault = |delay: u64, of_delays, status, of_aborts| Fault {
            name: "a/f".into(),
            delay: (delay > 0).then(|| (Duration::from_millis(delay), share(of_delays))),
            abort: (status > 0).then(|| (Abort::Http(status), share(of_aborts))),
            clients: None,
            headers: Vec::new(),
            until: Duration::from_secs(10),
        };
        let (parts, ()) = http::Request::new(()).into_parts();
        let client = PeerName::parse("spiffe://td/ns/a/sa/web").unwrap();
        let check = |faults: &[Fault], now, expected: Option<(u64, Option<u16>)>| {
            let mut injected = None;
            let here = (&client, Duration::from_secs(now));
            for fault in faults {
                inject(&mut injected, fault, &View::http2(&parts), here, &mut || 0.5);
            }
            let seen = injected.map(|Injected { delay, abort }| {
                (u64::try_from(delay.as_millis()).unwrap(), abort.map(|reply| reply.status()))
            });
            assert_eq!(seen, expected, "{faults:?} at {now}");
        };
        check(&[], 0, None);
        check(&[fault(20, 100, 503, 100)], 0, Some((20, Some(503))));
        check(&[fault(20, 100, 503, 100)], 10, None);
        check(&[fault(20, 51, 503, 50)], 0, Some((20, None)));
        check(&[fault(20, 50, 503, 51)], 0, Some((0, Some(503))));
        check(&[fault(20, 50, 503, 50)], 0, None);
        check(
            &[fault(20, 100, 0, 0), fault(30, 100, 404, 100), fault(0, 0, 503, 100)],
            0,
            Some((50, Some(404))),
        );
    }
}
