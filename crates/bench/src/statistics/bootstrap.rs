//! The cluster bootstrap: draw whole repetitions with replacement, again and again, and look how far the figure moves.
//!
//! Repetitions are drawn, never requests: those of one repetition share its luck. With few repetitions the plain
//! percentile interval is too narrow, so its level is widened as Student's t would be (Hesterberg's expanded percentile
//! interval, "What Teachers Should Know About the Bootstrap", 2015).

use super::figure::Figure;
use super::random::Random;

/// How often repetitions are drawn: the tails of the interval then hold some tens of draws with ten repetitions.
pub(super) const DRAWS: usize = 4_000;
/// With fewer repetitions an interval would say nothing.
pub(super) const RUNS_MIN: usize = 3;

/// The same draws for every figure of the same repetitions.
pub(super) struct Draws {
    runs: usize,
    /// How often each repetition was drawn, draw after draw.
    weights: Vec<u32>,
}

impl Draws {
    pub(super) fn new(runs: usize, draws: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut weights = vec![0_u32; runs * draws];
        for one in weights.chunks_exact_mut(runs.max(1)) {
            for _ in 0..runs {
                one[random.below(runs)] += 1;
            }
        }
        Self { runs, weights }
    }

    /// 95 % confidence interval of what `figure` computes from weights; absent with fewer than three repetitions.
    pub(super) fn interval(&self, figure: impl Fn(&[u32]) -> Option<f64>) -> Option<[f64; 2]> {
        if self.runs < RUNS_MIN {
            return None;
        }
        inner(self.weights.chunks_exact(self.runs).filter_map(figure).collect(), self.runs)
    }

    /// The same for one figure.
    pub(super) fn of(&self, figure: &Figure) -> Option<[f64; 2]> {
        self.interval(|weights| figure.at(weights))
    }
}

/// 95 % interval of `b - a` of two figures whose repetitions have nothing to do with each other.
pub(super) fn unpaired(a: &Figure, b: &Figure, draws: usize, seed: u64) -> Option<[f64; 2]> {
    let runs = a.runs().min(b.runs());
    if runs < RUNS_MIN {
        return None;
    }
    let (left, right) = (Draws::new(a.runs(), draws, seed), Draws::new(b.runs(), draws, !seed));
    let pairs = left.weights.chunks_exact(a.runs()).zip(right.weights.chunks_exact(b.runs()));
    inner(pairs.filter_map(|(one, other)| Some(b.at(other)? - a.at(one)?)).collect(), runs)
}

/// What is left of drawn values without their tails.
fn inner(mut values: Vec<f64>, runs: usize) -> Option<[f64; 2]> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    let cut = ((tail(runs) * values.len() as f64).floor() as usize).min(last);
    Some([values[cut], values[last - cut]])
}

/// The share of draws to leave out at each end for 95 %.
fn tail(runs: usize) -> f64 {
    let runs_f = runs as f64;
    normal_below(-(runs_f / (runs_f - 1.0)).sqrt() * student_975(runs - 1))
}

/// Student's t: the value that 97.5 % stay below.
fn student_975(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    match freedom {
        0 => f64::INFINITY,
        1..=30 => TABLE[freedom - 1],
        _ => 1.960 + 2.4 / freedom as f64,
    }
}

/// The share of a standard normal distribution below `z` (Abramowitz and Stegun 26.2.17, to 1e-7).
fn normal_below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = t
        * (0.319_381_530
            + t * (-0.356_563_782
                + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let beyond = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt() * series;
    if z > 0.0 { 1.0 - beyond } else { beyond }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        for (z, share) in [(0.0, 0.5), (-1.0, 0.158_655), (1.96, 0.975_002), (-3.0, 0.001_350)] {
            assert!((normal_below(z) - share).abs() < 1e-6, "{z}");
        }
        assert!((student_975(60) - 2.000).abs() < 0.001 && (student_975(120) - 1.980).abs() < 1e-3);
        // For many repetitions nothing is widened.
        assert!((tail(2_000) - 0.025).abs() < 0.000_2 && tail(10) < 0.01 && tail(3) < 1e-6);
    }

    #[test]
    fn the_same_seed_draws_the_same_and_every_draw_has_all_repetitions() {
        let (one, same, other) = (Draws::new(7, 50, 1), Draws::new(7, 50, 1), Draws::new(7, 50, 2));
        assert_eq!(one.weights, same.weights);
        assert_ne!(one.weights, other.weights);
        assert!(one.weights.chunks_exact(7).all(|draw| draw.iter().sum::<u32>() == 7));
    }

    /// Of intervals at 95 %, about 95 of 100 must hold the truth: 2,000 seeded trials for each number of repetitions. Five
    /// repetitions are too few for the bootstrap to keep that promise wholly.
    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        for (runs, least) in [(5, 0.90), (10, 0.93), (20, 0.93)] {
            let mut random = Random::new(42);
            let trials = 2_000;
            let held = (0..trials)
                .filter(|trial| {
                    let values = (0..runs).map(|_| 100.0 + 5.0 * random.normal()).collect();
                    let draws = Draws::new(runs, 300, *trial);
                    let [low, high] = draws.of(&Figure::mean(values)).expect("enough runs");
                    low <= 100.0 && 100.0 <= high
                })
                .count();
            let share = held as f64 / trials as f64;
            assert!((least..=0.98).contains(&share), "{runs} repetitions: {share}");
        }
    }

    #[test]
    fn two_repetitions_have_no_interval() {
        assert_eq!(Draws::new(2, 100, 1).of(&Figure::mean(vec![1.0, 2.0])), None);
        assert_eq!(Draws::new(0, 100, 1).of(&Figure::mean(vec![])), None);
    }
}
