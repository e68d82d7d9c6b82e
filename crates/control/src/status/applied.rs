//! When the condition `Applied` of an object is written, and what it says. Pure.
//!
//! Pods come and go, and each status that is written is an event for everybody who watches the object. So a condition is written when the
//! proxies have settled or when some of them are late, and seldom for the same object.

use crate::applied::objects::{Behind, Reach};
use crate::world::route::verdict::Condition;
use std::time::{Duration, Instant};

/// A proxy that needs longer is named.
const LATE_MIN_SECONDS: f64 = 5.0;
/// Between two conditions of one object.
const INTERVAL: Duration = Duration::from_secs(10);
/// The same, where only the number of proxies has changed.
const COUNT_INTERVAL: Duration = Duration::from_secs(60);
/// Proxies that are named in a message.
const NAMED_MAX: usize = 3;

/// The last condition of one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shown {
    /// `metadata.generation`.
    pub(super) generation: Option<i64>,
    pub(super) condition: Condition,
    at: Instant,
}

/// The condition that the object should have now; `last` where that should stay.
pub(super) fn next(
    last: Option<&Shown>,
    generation: Option<i64>,
    reach: &Reach,
    now: Instant,
) -> Option<Shown> {
    let last = last.filter(|last| last.generation == generation);
    let Some(condition) = condition(reach) else { return last.cloned() };
    if let Some(last) = last {
        let is_same = last.condition.reason == condition.reason;
        let interval = if is_same && condition.holds { COUNT_INTERVAL } else { INTERVAL };
        let is_early = now.saturating_duration_since(last.at) < interval;
        if last.condition == condition || is_early {
            return Some(last.clone());
        }
    }
    Some(Shown { generation, condition, at: now })
}

/// `None` while proxies may still acknowledge in time.
fn condition(reach: &Reach) -> Option<Condition> {
    let Reach { total, applied, silent, behind, is_mixed, .. } = reach;
    if *is_mixed {
        return None;
    }
    let mut message = format!("{applied} of {total} proxies");
    let is_late = |one: &Behind| one.rejected || one.seconds >= LATE_MIN_SECONDS;
    if !behind.is_empty() {
        if !behind.iter().any(is_late) {
            return None;
        }
        // In the order of their names: that of time changes too often.
        let mut names: Vec<&str> = behind.iter().map(|one| one.pod.as_str()).collect();
        names.sort_unstable();
        names.truncate(NAMED_MAX);
        message += &format!("; missing: {}", names.join(", "));
        let more = (total - applied).saturating_sub(names.len());
        if more > 0 {
            message += &format!(" and {more} more");
        }
    }
    if *silent > 0 {
        message += &format!("; {silent} more do not acknowledge");
    }
    if *total == 0 && *silent == 0 {
        let message = "no proxy uses it".to_owned();
        return Some(Condition { holds: true, reason: "NotUsed", message });
    }
    let reason = match (behind.is_empty(), behind.iter().any(|one| one.rejected)) {
        (true, _) => "Acknowledged",
        (false, true) => "Rejected",
        (false, false) => "Waiting",
    };
    Some(Condition { holds: behind.is_empty(), reason, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `2/3 5s!` is 2 of 3 proxies, one of which waits for 5 s and has rejected a part.
    fn reach(text: &str) -> Reach {
        let mut words = text.split_whitespace();
        let (applied, total) = words.next().unwrap().split_once('/').unwrap();
        let behind = words.enumerate().map(|(number, word)| Behind {
            pod: format!("shop/web-{number}"),
            seconds: word.trim_end_matches(['s', '!']).parse().unwrap(),
            rejected: word.ends_with('!'),
        });
        let (applied, total) = (applied.parse().unwrap(), total.parse().unwrap());
        Reach { total, applied, behind: behind.collect(), ..Reach::default() }
    }

    #[test]
    fn what_is_said() {
        let check = |text: &str, expected: Option<&str>| {
            let said = condition(&reach(text));
            let said = said.map(|one| format!("{} {} {}", one.holds, one.reason, one.message));
            assert_eq!(said.as_deref(), expected, "{text}");
        };
        check("0/0", Some("true NotUsed no proxy uses it"));
        check("3/3", Some("true Acknowledged 3 of 3 proxies"));
        check("2/3 1s", None);
        check("2/3 5s", Some("false Waiting 2 of 3 proxies; missing: shop/web-0"));
        check("2/3 1s!", Some("false Rejected 2 of 3 proxies; missing: shop/web-0"));
        let many =
            "false Waiting 4 of 9 proxies; missing: shop/web-0, shop/web-1, shop/web-2 and 2 more";
        check("4/9 9s 9s 8s 7s 1s", Some(many));
        let mixed = Reach { is_mixed: true, ..reach("3/3") };
        assert_eq!(condition(&mixed), None);
        let silent = Reach { silent: 2, ..reach("3/3") };
        assert_eq!(
            condition(&silent).unwrap().message,
            "3 of 3 proxies; 2 more do not acknowledge"
        );
    }

    /// Steps: a second, a generation, and a reach; and the message after each.
    #[test]
    fn it_is_said_seldom() {
        let began = Instant::now();
        let mut last: Option<Shown> = None;
        for (second, generation, now, expected) in [
            // A route is there before its traffic.
            (0, 0, "0/0", Some("no proxy")),
            (9, 0, "1/1", Some("no proxy")),
            (10, 0, "1/1", Some("1 of 1")),
            (0, 1, "0/3 0s", None),
            (1, 1, "3/3", Some("3 of 3")),
            (2, 1, "4/4", Some("3 of 3")),
            (30, 1, "4/4", Some("3 of 3")),
            (61, 1, "4/4", Some("4 of 4")),
            (62, 1, "3/4 6s", Some("4 of 4")),
            (72, 1, "3/4 6s", Some("3 of 4")),
            (73, 1, "4/4", Some("3 of 4")),
            (82, 1, "4/4", Some("4 of 4")),
            // A change is settled anew.
            (83, 2, "1/4 0s", None),
            (84, 2, "4/4", Some("4 of 4")),
        ] {
            let at = began + Duration::from_secs(second);
            last = next(last.as_ref(), Some(generation), &reach(now), at);
            let said = last.as_ref().map(|last| last.condition.message.as_str());
            let is_it = |said: &str| expected.is_some_and(|expected| said.starts_with(expected));
            assert!(said.map_or(expected.is_none(), is_it), "{second}: {said:?}");
        }
    }
}
