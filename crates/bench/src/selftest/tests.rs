//! The same questions without a clock: schedule and recorder alone, in time that is only counted.

use super::*;
use leno_load::clock::SECOND;
use leno_load::schedule::{Arrivals, Limits};

fn answered(sent: u64, end: u64) -> Exchange {
    let result = Ok(Answer { status: 200, grpc_status: 0, bytes_in: 0 });
    Exchange { sent, first_byte: end, end, bytes_out: 0, result }
}

/// What a recorder sees of a server that takes 100 µs and stands still from `from` to `to`, over so many connections.
fn simulated(rate: f64, length: u64, connections: usize, from: u64, to: u64) -> Shard {
    let limits = Limits { count: None, until: Some(length) };
    let arrivals = Arrivals::new(Arrival::Uniform, &Rate::Constant(rate), 1, 1, limits);
    let mut free = vec![0_u64; connections];
    let mut shard = Shard::default();
    for due in arrivals {
        let soonest = free.iter_mut().min().expect("there are connections");
        let sent = due.max(*soonest);
        let end = if (from..to).contains(&sent) { to + 100_000 } else { sent + 100_000 };
        shard.add(&answered(sent, end), due, sent);
        *soonest = end;
    }
    shard
}

#[test]
fn a_stall_shows_as_the_arithmetic_says() {
    // Worked out by hand: 1.4 s in 30 s at 2,000/s is a p99 of 1.10 s; from the send it is not seen.
    for (length, share, expected) in [
        (30.0, 0.99, 1.1),
        (30.0, 0.999, 1.37),
        (5.0, 0.9, 0.9),
        (5.0, 0.99, 1.35),
        (5.0, 0.5, 0.0),
    ] {
        let by_hand = stalled(1.4, length, share);
        assert!((by_hand - expected).abs() < 1e-9, "{length} s, {share}: {by_hand}");
        let seconds = |seconds: f64| (seconds * SECOND as f64) as u64;
        let shard = simulated(2_000.0, seconds(length), 32, seconds(2.0), seconds(3.4));
        let seen = shard.hist.response.quantile(share) as f64 / SECOND as f64;
        assert!((seen - expected).abs() < 0.02, "{length} s, {share}: {seen}");
        assert!(shard.hist.service.quantile(0.99) < 200_000);
        assert_eq!(shard.hist.lateness.max(), 0);
    }
}

#[test]
fn a_known_distribution_is_found_within_the_error_of_a_histogram() {
    let (mut shard, mut told) = (Shard::default(), Vec::new());
    for number in 1..=20_000_u64 {
        // From 1 µs to 4 s, ever longer tails.
        let took = 1_000 + number.pow(3) / 2_000 * number / 20_000;
        told.push(took);
        shard.add(&answered(number, number + took), number, number);
    }
    told.sort_unstable();
    for permille in 1..=999_usize {
        let rank = permille * told.len() / 1000 - 1;
        let seen = shard.hist.response.quantile(permille as f64 / 1000.0);
        // The share as a binary fraction may be a hair above: then it is the next one.
        assert!(
            within(told[rank], told[rank + 1], seen, 0),
            "{permille}: {seen} for {}",
            told[rank]
        );
    }
}

#[test]
fn what_is_looked_at_can_fail() {
    let (mut told, mut found) = (Histogram::new(), Histogram::new());
    for number in 0..1_000_u64 {
        told.record(number * 1_000_000);
        found.record(number * 1_000_000 + 200_000);
    }
    assert_eq!(deviation(&told, &found, 1_000_000), (0, 99));
    let mut off = Histogram::new();
    (0..1_000_u64).for_each(|number| off.record(number * 1_050_000));
    assert!(deviation(&told, &off, 1_000_000).0 > 50);
    let mut early = Histogram::new();
    (0..1_000_u64).for_each(|number| early.record(number * 900_000));
    assert!(deviation(&told, &early, 1_000_000).0 > 50);
    assert!(within(100_000, 100_000, 100_050, 0) && !within(100_000, 100_000, 100_200, 0));
}

#[test]
fn what_needs_no_clock_holds() {
    assert!(merged().pass);
}
