//! Whole campaigns made of known distributions, seeded.

use super::random::Random;
use super::*;
use leno_load::histogram::Histogram;

/// A repetition whose latencies are log-normal around `median_ms`, and whose proxy uses `cpu_us` for each request.
fn run(block: usize, random: &mut Random, median_ms: f64, cpu_us: f64) -> Run {
    let mut response = Histogram::new();
    for _ in 0..1_000 {
        response.record((median_ms * 1e6 * (0.3 * random.normal()).exp()) as u64);
    }
    let mut run = Run { block, valid: true, ..Run::default() };
    run.hist.service = response.clone();
    run.hist.response = response;
    run.phases.insert("measure".into(), 10.0);
    run.counts.completed = 1_000;
    run.counts.started = 1_000;
    let used = crate::result::Used { cpu_s: cpu_us * 1_000.0 / 1e6, ..Default::default() };
    run.resources.proxy = vec![used];
    run
}

/// Two meshes, so many blocks; each repetition is off by 2 % of its own, each block by 5 % for both.
fn campaign(blocks: usize, factor: f64, random: &mut Random) -> (Cell, Cell) {
    let mut cells = ["a", "b"].map(|mesh| Cell { mesh: mesh.into(), ..Cell::default() });
    for block in 1..=blocks {
        let weather = (0.05 * random.normal()).exp();
        for (cell, factor) in cells.iter_mut().zip([1.0, factor]) {
            let luck = weather * factor * (0.02 * random.normal()).exp();
            let cpu = 20.0 * weather * factor * (0.02 * random.normal()).exp();
            cell.runs.push(run(block, random, luck, cpu));
        }
    }
    let [a, b] = cells;
    (a, b)
}

/// How often, of so many seeded campaigns, each metric was called one of `effects`.
fn called(trials: u64, factor: f64, metrics: &[&str], effects: &[&str]) -> Vec<f64> {
    let mut random = Random::new(2026);
    let mut counts = vec![0_u32; metrics.len()];
    for trial in 0..trials {
        let (a, b) = campaign(10, factor, &mut random);
        let compared = pairs::compare(&a, &b, 300, trial);
        for (count, metric) in counts.iter_mut().zip(metrics) {
            let one = compared.iter().find(|one| one.metric == *metric).expect(metric);
            *count += u32::from(effects.contains(&one.effect.as_str()));
        }
    }
    counts.into_iter().map(|count| f64::from(count) / trials as f64).collect()
}

/// Over 2,000 trials these are 4.0, 2.7 and 3.8 %.
#[test]
fn the_same_against_itself_is_called_different_at_most_once_in_twenty() {
    let metrics = ["p50_ms", "p99_ms", "proxy.cpu_us_per_req"];
    for (metric, share) in metrics.iter().zip(called(300, 1.0, &metrics, &["better", "worse"])) {
        assert!(share <= 0.05, "{metric}: {share}");
    }
}

#[test]
fn five_percent_more_are_found_nine_times_in_ten() {
    let metrics = ["p50_ms", "proxy.cpu_us_per_req"];
    for (metric, share) in metrics.iter().zip(called(100, 1.05, &metrics, &["worse"])) {
        assert!(share >= 0.9, "{metric}: {share}");
    }
}

#[test]
fn after_holm_a_whole_campaign_of_the_same_rejects_at_most_once_in_twenty() {
    let mut random = Random::new(5);
    let trials = 100;
    let rejected = (0..trials)
        .filter(|trial| {
            let (a, b) = campaign(10, 1.0, &mut random);
            let mut compared = pairs::compare(&a, &b, 20, *trial);
            pairs::correct(&mut compared);
            compared.iter().any(|one| one.p_holm.is_some_and(|p| p < 0.05))
        })
        .count();
    assert!(rejected as u64 * 20 <= trials, "{rejected} of {trials}");
}

#[test]
fn a_summary_of_a_known_distribution() {
    let mut random = Random::new(1);
    let runs = (1..=10).map(|block| run(block, &mut random, 2.0, 25.0)).collect();
    let mut cell = Cell { runs, ..Cell::default() };
    cell.runs[3].valid = false;
    summarise(&mut cell, &Discard::None, 1);
    // A log-normal distribution: median 2, and exp(0.3 z) times that at each percentile.
    for (name, expected) in [("p50", 2.0), ("p90", 2.938), ("p99", 4.019), ("p999", 5.054)] {
        let seen = cell.summary.merged[name];
        let [low, high] = seen.ci95.expect("nine repetitions");
        assert!(low <= seen.v && seen.v <= high && seen.n == 9_000, "{name}: {seen:?}");
        assert!((seen.v / expected - 1.0).abs() < 0.06, "{name}: {seen:?}");
    }
    assert!(cell.summary.merged["p99"].quotable && !cell.summary.merged["p999"].quotable);
    assert_eq!(cell.summary.rps.v, 100.0);
    assert_eq!(metric(&cell, "rps").map(|rps| rps.n), Some(9));
    assert_eq!(metric(&cell, "response.p99").map(|p| p.v), Some(cell.summary.merged["p99"].v));
    assert!((metric(&cell, "proxy.cpu_us_per_req").expect("a proxy").v - 25.0).abs() < 1e-9);
    assert!((metric(&cell, "proxy.cpu_us_per_traversal").expect("one").v - 25.0).abs() < 1e-9);
    assert_eq!(metric(&cell, "failed_ratio").map(|failed| failed.v), Some(0.0));
    assert!(metric(&cell, "control.cpu_s").is_none() && metric(&cell, "nonsense").is_none());
    let per_run = cell.summary.per_run["p50"];
    assert!(per_run.min <= per_run.median && per_run.median <= per_run.max && per_run.sd > 0.0);
}

#[test]
fn the_declared_rule_leaves_out_the_worst_and_both_results_are_kept() {
    let mut random = Random::new(3);
    let mut runs: Vec<Run> = (1..=6).map(|block| run(block, &mut random, 1.0, 1.0)).collect();
    runs[4].hist.response.record(900_000_000);
    // Worse, but not valid anyway.
    runs[1].hist.response.record(1_900_000_000);
    runs[1].valid = false;
    let mut cell = Cell { runs, ..Cell::default() };
    summarise(&mut cell, &Discard::WorstMax(1), 1);
    assert_eq!(cell.summary.excluded_by_rule, [5]);
    assert!(cell.runs[4].discarded && !cell.runs[1].discarded);
    let max = |rule: &str| cell.summary.sensitivity[rule]["max"];
    assert!((899.0..902.0).contains(&max("none")) && max("worst_max(1)") < 100.0);
    assert_eq!(cell.summary.merged["max"].v, max("worst_max(1)"));
    assert_eq!(cell.summary.merged["max"].n, 4 * 1_000);
    // Another rule forgets what the first has marked.
    summarise(&mut cell, &Discard::None, 1);
    assert!(cell.summary.excluded_by_rule.is_empty() && !cell.runs[4].discarded);
    // One always stays.
    summarise(&mut cell, &Discard::WorstMax(99), 1);
    assert_eq!(cell.summary.excluded_by_rule.len(), 4);
}

#[test]
fn without_a_valid_repetition_nothing_is_quoted() {
    let mut cell = Cell { runs: vec![Run::default()], ..Cell::default() };
    summarise(&mut cell, &Discard::WorstMax(1), 1);
    assert!(cell.summary.merged.is_empty() && cell.summary.rps.n == 0);
    assert!(metric(&cell, "response.p50").is_none() && metric(&cell, "rps").is_none());
}

#[test]
fn a_campaign_pairs_meshes_of_the_same_place_by_block() {
    let mut random = Random::new(11);
    let (mut a, mut b) = campaign(8, 1.5, &mut random);
    for cell in [&mut a, &mut b] {
        cell.load = "main".into();
        cell.params.insert("rate".into(), 500.into());
    }
    // Weather apart, the blocks' order does not matter; a block that one of them lost is left out for both.
    b.runs.reverse();
    b.runs[2].valid = false;
    let mut elsewhere = b.clone();
    elsewhere.params.insert("rate".into(), 2_000.into());
    let mut again = a.clone();
    again.params.insert("aa".into(), true.into());
    let mut campaign = Campaign { cells: vec![a, b, elsewhere, again], ..Campaign::default() };
    compare_cells(&mut campaign);
    let p50 = campaign.compare.iter().find(|one| one.metric == "p50_ms").expect("compared");
    assert_eq!((p50.a.as_str(), p50.b.as_str(), p50.pairs), ("a", "b", 7));
    assert_eq!((p50.cell.as_str(), p50.effect.as_str()), ("main rate=500", "worse"));
    let [low, high] = p50.ratio_ci95.expect("enough blocks");
    assert!(low <= 1.5 && 1.5 <= high, "{low} {high}");
    assert_eq!(p50.p, Some(2.0 / 128.0));
    assert!(p50.p_holm.expect("tested") > 2.0 / 128.0);
    assert!(campaign.compare.iter().all(|one| one.cell == "main rate=500"));
    assert!(campaign.noise_band["p50_ms"] > 0.0);
    assert_eq!(campaign.noise_method, "halves and A/A cells");
}

#[test]
fn two_repetitions_tell_nothing() {
    let (a, b) = campaign(2, 3.0, &mut Random::new(1));
    let compared = pairs::compare(&a, &b, 20, 1);
    assert!(!compared.is_empty());
    assert!(compared.iter().all(|one| one.effect == "unknown" && one.ci95.is_none()));
    // Not known is not the same as no noise.
    assert!(compared.iter().all(|one| one.noise_band.is_none()), "{compared:?}");
    // Of two results too, though one of them alone has enough.
    let (six, _) = campaign(6, 1.0, &mut Random::new(2));
    for (before, after) in [(&a, &b), (&six, &b), (&a, &six)] {
        let changes = changes(before, after, 0.02, 1);
        assert!(!changes.is_empty());
        for one in changes {
            assert!(one.noise_band.is_none() && one.effect == Effect::Unknown, "{one:?}");
        }
    }
}

#[test]
fn assertions_have_units() {
    for (expr, spoken) in [
        ("p99 <= 0.001", "p99_ms <= 0.001"),
        ("service.p50 <= none + 1 (none 2.0000)", "service.p50_ms <= none + 1 (none 2.0000)"),
        ("p99_ms <= 3", "p99_ms <= 3"),
        ("recovery_s <= 2", "recovery_s <= 2"),
        ("failed_ratio <= 0.001", "failed_ratio <= 0.001"),
        ("proxy.mem_mb_max >= 1 and <= 9", "proxy.mem_mb_max >= 1 and <= 9"),
        ("", ""),
    ] {
        let assertion = Assertion { expr: expr.into(), ..Assertion::default() };
        assert_eq!(super::spoken(&assertion), spoken);
    }
}
