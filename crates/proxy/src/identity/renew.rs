//! When to renew; pure.

use std::time::Duration;

/// Not sooner after a certification than this, however short the certificate's life: a control plane that issues
/// certificates of no length must not be asked without end.
const RENEW_WAIT_MIN: Duration = Duration::from_secs(1);

/// The moment of renewal, in Unix time: from two thirds of the remaining life, up to a twelfth of it later at
/// random (`random` is uniform in 0.0..1.0), so that proxies that started together do not renew together and a
/// quarter of the life is left for retries.
#[must_use]
pub fn renew_at(issued: Duration, expires: Duration, random: f64) -> Duration {
    let life = expires.saturating_sub(issued);
    let wait = life * 2 / 3 + (life / 12).mul_f64(random.clamp(0.0, 1.0));
    issued + wait.max(RENEW_WAIT_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewals() {
        let check = |issued: u64, expires: u64, random: f64, expected: f64| {
            let seconds = Duration::from_secs;
            let at = renew_at(seconds(issued), seconds(expires), random).as_secs_f64();
            assert!((at - expected).abs() < 1e-6, "{issued} {expires} {random}: {at}");
        };
        const HOUR: u64 = 3600;
        const DAY: u64 = 24 * HOUR;
        //    issued   expires        random  renewal
        check(0, DAY, 0.0, 16.0 * 3600.0);
        check(0, DAY, 0.5, 17.0 * 3600.0);
        check(0, DAY, 1.0, 18.0 * 3600.0);
        check(1_000, 1_000 + DAY, 0.0, 1_000.0 + 16.0 * 3600.0);
        check(0, 12, 0.0, 8.0); // The life of a test.
        check(0, 12, 1.0, 9.0);
        check(100, 101, 0.0, 101.0); // Never at once,
        check(100, 100, 0.9, 101.0);
        check(100, 50, 0.9, 101.0); // not even if it is over.
        check(0, 12, 7.0, 9.0); // Randomness out of its range is cut.
    }
}
