//! Deadlines travel: how much time a client gives a request, and how the next hop gets what is left.
//!
//! gRPC has `grpc-timeout`. For HTTP, a proxy sends [`HEADER`] to another proxy, which removes it. It counts only from clients with an
//! identity of the mesh.

use crate::request::view::View;
use crate::shared::deadlines::{Deadlines, Open};
use leno_model::route::RequestView as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Milliseconds that are left, from proxy to proxy.
pub const HEADER: &str = "leno-deadline-ms";
/// A server's proxy waits a little longer than a client's proxy, which gives the more exact reason.
const GRACE: Duration = Duration::from_millis(20);
/// Digits that a `grpc-timeout` may have.
const GRPC_DIGITS_MAX: usize = 8;

/// How much time a request has, where something says so.
#[derive(Debug)]
pub struct Told {
    /// Zero means that it is over.
    pub left: Duration,
    /// What our application asks of others meanwhile has no more time.
    pub open: Option<Open>,
}

/// A request to our application, whose client may give it a time.
#[must_use]
pub fn of_inbound(
    request: &View<'_>,
    (from_mesh, is_http2): (bool, bool),
    table: Option<&Arc<Deadlines>>,
    begun: Instant,
) -> Option<Box<Told>> {
    let left = of_request(request, from_mesh, is_http2)?;
    let open = table.filter(|_| !left.is_zero()).and_then(|table| {
        let trace = request.trace()?.trace_id;
        let grace = if from_mesh { GRACE } else { Duration::ZERO };
        table.serve(trace, begun.checked_add(left)? - grace)
    });
    Some(Box::new(Told { left, open }))
}

/// A request of our application: the time that it gives, or what is left of the request that it serves.
#[must_use]
pub fn of_outbound(
    request: &View<'_>,
    is_http2: bool,
    table: Option<&Arc<Deadlines>>,
    begun: Instant,
) -> Option<Box<Told>> {
    let own = of_request(request, false, is_http2);
    let inherited = table
        .filter(|table| !table.is_empty())
        .and_then(|table| table.left(request.trace()?.trace_id, begun));
    let left = own.into_iter().chain(inherited).min()?;
    Some(Box::new(Told { left, open: None }))
}

/// The time that a client gives this request. Zero means that it is over.
#[must_use]
fn of_request(request: &View<'_>, from_mesh: bool, is_http2: bool) -> Option<Duration> {
    let mut left = None;
    // Every value is read; the shortest time counts.
    let mut tell = |told: Option<Duration>| {
        left = told.into_iter().chain(left).min();
        false
    };
    if is_http2 {
        request.any_header("grpc-timeout", &mut |value| tell(grpc_timeout(value)));
    }
    if from_mesh {
        let millis = |value: &str| value.parse::<u32>().ok().map(u64::from);
        request.any_header(HEADER, &mut |value| tell(millis(value).map(Duration::from_millis)));
        return left.map(|left| if left.is_zero() { left } else { left + GRACE });
    }
    left
}

/// Reads `100m`: digits and a unit of H, M, S, m, u or n.
fn grpc_timeout(value: &str) -> Option<Duration> {
    // By bytes: the value is a client's, and its last character may have several.
    let (unit, digits) = value.as_bytes().split_last()?;
    if digits.is_empty() || digits.len() > GRPC_DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit)
    {
        return None;
    }
    let count = digits.iter().fold(0, |count, digit| count * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(count * 3600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

/// Milliseconds from now to the deadline, rounded up: work that has begun in time is not refused.
#[must_use]
pub fn millis_left(deadline: Instant, now: Instant) -> u128 {
    deadline.saturating_duration_since(now).as_nanos().div_ceil(1_000_000)
}

/// The value of `grpc-timeout` for so many milliseconds.
#[must_use]
pub fn grpc_value(millis: u128) -> String {
    if millis < 10_u128.pow(8) {
        format!("{millis}m")
    } else {
        format!("{}S", (millis / 1000).min(99_999_999))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request with these headers.
    fn request(headers: &[(&str, &str)]) -> http::request::Parts {
        let start = http::Request::get("http://web/");
        let all = headers.iter().fold(start, |built, (name, value)| built.header(*name, *value));
        all.body(()).unwrap().into_parts().0
    }

    #[test]
    fn deadlines_of_requests() {
        let check = |headers: &[(&str, &str)], from_mesh, expected: Option<u64>| {
            let left = of_request(&View::http2(&request(headers)), from_mesh, true);
            assert_eq!(left, expected.map(Duration::from_millis), "{headers:?} {from_mesh}");
        };
        check(&[], true, None);
        check(&[("grpc-timeout", "100m")], false, Some(100));
        check(&[("grpc-timeout", "100m")], true, Some(120));
        check(&[("leno-deadline-ms", "50")], false, None);
        check(&[("leno-deadline-ms", "50")], true, Some(70));
        check(&[("leno-deadline-ms", "0")], true, Some(0));
        check(&[("leno-deadline-ms", "50"), ("leno-deadline-ms", "1")], true, Some(21));
        check(&[("leno-deadline-ms", "50"), ("grpc-timeout", "2S")], true, Some(70));
        for wrong in ["", "-1", "1.5", "99999999999", "soon"] {
            check(&[("leno-deadline-ms", wrong)], true, None);
        }
        let without_grpc = request(&[("grpc-timeout", "1S")]);
        assert_eq!(of_request(&View::http2(&without_grpc), false, false), None);
    }

    #[test]
    fn requests_of_the_application_inherit_what_is_left() {
        let now = Instant::now();
        let table = Arc::new(Deadlines::new(now));
        let parent = |trace: &str| format!("00-{trace:0>32}-b7ad6b7169203331-01");
        let (known, other) = (parent("a1"), parent("a2"));
        let millis = Duration::from_millis;
        let left = |headers: &[(&str, &str)], after: u64| {
            of_outbound(&View::http2(&request(headers)), true, Some(&table), now + millis(after))
                .map(|told| told.left.as_millis())
        };
        let serve = |headers: &[(&str, &str)]| {
            of_inbound(&View::http2(&request(headers)), (true, true), Some(&table), now)
        };
        let traced = ("traceparent", known.as_str());
        assert_eq!(left(&[traced], 0), None);
        // Without a deadline, or without a trace, there is nothing to inherit.
        assert!(serve(&[traced]).is_none() && table.is_empty());
        assert!(serve(&[("leno-deadline-ms", "300")]).unwrap().open.is_none());
        let open = serve(&[traced, ("leno-deadline-ms", "300")]).unwrap();
        assert_eq!((open.left, open.open.is_some()), (millis(320), true));
        assert_eq!((left(&[traced], 0), left(&[traced], 100)), (Some(300), Some(200)));
        assert_eq!(left(&[traced], 400), Some(0));
        assert_eq!(left(&[("traceparent", &other)], 0), None);
        let b3 = "000000000000000000000000000000a1-b7ad6b7169203331-1";
        assert_eq!(left(&[("b3", b3)], 0), Some(300));
        // The shorter time counts.
        assert_eq!(left(&[traced, ("grpc-timeout", "50m")], 0), Some(50));
        assert_eq!(left(&[traced, ("grpc-timeout", "9S")], 0), Some(300));
        drop(open);
        assert_eq!(left(&[traced], 0), None);
    }

    #[test]
    fn timeouts_of_grpc() {
        let check = |text: &str, expected: Option<Duration>| {
            assert_eq!(grpc_timeout(text), expected, "{text}");
        };
        check("1H", Some(Duration::from_secs(3600)));
        check("2M", Some(Duration::from_secs(120)));
        check("3S", Some(Duration::from_secs(3)));
        check("4m", Some(Duration::from_millis(4)));
        check("5u", Some(Duration::from_micros(5)));
        check("6n", Some(Duration::from_nanos(6)));
        check("99999999H", Some(Duration::from_secs(99_999_999 * 3600)));
        for wrong in ["", "1", "S", "1s", "123456789S", "-1S", "1.5S", "+1S", "1\u{e9}"] {
            check(wrong, None);
        }
    }

    #[test]
    fn what_is_left() {
        let now = Instant::now();
        let check = |micros, expected| {
            let deadline = now + Duration::from_micros(micros);
            assert_eq!(millis_left(deadline, now), expected, "{micros}");
        };
        check(0, 0);
        check(1, 1);
        check(1000, 1);
        check(1001, 2);
        assert_eq!(millis_left(now, now + Duration::from_secs(1)), 0);
        assert_eq!(grpc_value(1500), "1500m");
        assert_eq!(grpc_value(100_000_000), "100000S");
        assert_eq!(grpc_value(u128::MAX), "99999999S");
    }
}
