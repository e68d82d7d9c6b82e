//! Times that double from one failure to the next.

use std::time::Duration;

/// `first` after no doubling, twice as long after each, and never longer than `max`.
pub(crate) fn doubled(first: Duration, doublings: u32, max: Duration) -> Duration {
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_limit() {
        let check = |doublings, max_millis, millis| {
            let found =
                doubled(Duration::from_millis(100), doublings, Duration::from_millis(max_millis));
            assert_eq!(found, Duration::from_millis(millis), "{doublings}");
        };
        check(0, 1_000, 100);
        check(1, 1_000, 200);
        check(3, 1_000, 800);
        check(4, 1_000, 1_000);
        check(31, u64::MAX, 100 << 31);
        check(400, 1_000, 1_000);
    }
}
