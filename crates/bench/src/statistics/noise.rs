//! The noise band: how far apart two halves of the same repetitions lie, though nothing differs between them.
//!
//! Every way to halve the repetitions is tried (some hundreds of drawn ones where there are too many); the distance
//! that 95 of 100 halvings stay within is the band. A half has only half of the repetitions and so twice the variance:
//! the distance is scaled down to what a comparison of whole cells would see by chance.
//!
//! [`band`] holds all that moves a cell, the machine's mood of the day included: what results of two campaigns differ by.
//! [`paired_band`] first takes out what two meshes of the same blocks had in common, as their comparison does too.

use super::bootstrap::RUNS_MIN;
use super::figure::Figure;
use super::random::Random;

/// Up to so many repetitions every halving is tried: 462 ways for 12, one half of them mirrored.
const RUNS_ALL: usize = 12;
/// Beyond, so many are drawn.
const HALVINGS: usize = 500;
/// The share of halvings that the band holds.
const WITHIN: f64 = 0.95;

/// The band of one figure of one cell, as a share of the figure; absent with fewer than three repetitions, or where it
/// has no value.
pub(super) fn band(figure: &Figure, seed: u64) -> Option<f64> {
    let runs = figure.runs();
    if runs < RUNS_MIN {
        return None;
    }
    figure.whole()?;
    let mut shares: Vec<f64> = halvings(runs, seed)
        .into_iter()
        .filter_map(|half| {
            let rest: Vec<u32> = half.iter().map(|weight| 1 - weight).collect();
            let (one, other) = (figure.at(&half)?, figure.at(&rest)?);
            let mean = f64::midpoint(one, other);
            Some(if mean == 0.0 { 0.0 } else { ((one - other) / mean).abs() })
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    let at = ((WITHIN * shares.len() as f64).ceil() as usize).checked_sub(1)?;
    let (small, large, whole) = ((runs / 2) as f64, runs.div_ceil(2) as f64, runs as f64);
    Some(shares[at] * ((2.0 / whole) / (1.0 / small + 1.0 / large)).sqrt())
}

/// The band of the difference of two cells whose repetitions ran side by side, as a share of either; `a` and `b` are the
/// repetitions' own values, block by block. Absent with fewer than three, or where nothing can be a share.
pub(super) fn paired_band(a: &[f64], b: &[f64], seed: u64) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    if a.len() < RUNS_MIN || mean_a == 0.0 || mean_b == 0.0 {
        return (a.len() >= RUNS_MIN).then_some(0.0);
    }
    let own = a.iter().zip(b).map(|(a, b)| {
        let (a, b) = (a / mean_a, b / mean_b);
        let common = f64::midpoint(a, b);
        if common == 0.0 { 1.0 } else { a / common }
    });
    // What two have in common holds half of the noise of each: the other half is to be doubled.
    Some(band(&Figure::mean(own.collect()), seed)? * std::f64::consts::SQRT_2)
}

/// Ways to choose half of the repetitions, as weights.
fn halvings(runs: usize, seed: u64) -> Vec<Vec<u32>> {
    if runs <= RUNS_ALL {
        return (0_u32..1 << runs)
            .filter(|chosen| chosen.count_ones() as usize == runs / 2)
            .map(|chosen| (0..runs).map(|run| chosen >> run & 1).collect())
            .collect();
    }
    let mut random = Random::new(seed);
    (0..HALVINGS)
        .map(|_| {
            let mut half = vec![0; runs];
            let mut chosen = 0;
            while chosen < runs / 2 {
                let run = random.below(runs);
                chosen += usize::from(half[run] == 0);
                half[run] = 1;
            }
            half
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_band_is_what_chance_puts_between_two_cells() {
        for runs in [6, 10, 20] {
            let mut random = Random::new(7);
            let cells = 400;
            let mut mean = 0.0;
            for _ in 0..cells {
                let values = (0..runs).map(|_| 100.0 + 3.0 * random.normal()).collect();
                mean += band(&Figure::mean(values), 1).expect("enough runs") / f64::from(cells);
            }
            // 1.96 standard deviations of the difference of two means of normal values.
            let expected = 1.96 * 0.03 * (2.0 / f64::from(runs)).sqrt();
            assert!((0.8..1.2).contains(&(mean / expected)), "{runs}: {mean} for {expected}");
        }
    }

    #[test]
    fn what_both_have_in_common_is_not_noise_of_their_difference() {
        let mut random = Random::new(9);
        let cells = 400;
        let mut mean = 0.0;
        for _ in 0..cells {
            let weather: Vec<f64> = (0..10).map(|_| 1.0 + 0.3 * random.unit()).collect();
            let mut own = |level: f64| -> Vec<f64> {
                weather
                    .iter()
                    .map(|common| common * level * (1.0 + 0.02 * random.normal()))
                    .collect()
            };
            let (a, b) = (own(3.0), own(7.0));
            mean += paired_band(&a, &b, 1).expect("enough runs") / f64::from(cells);
        }
        let expected = 1.96 * 0.02 * (2.0_f64 / 10.0).sqrt();
        assert!((0.8..1.2).contains(&(mean / expected)), "{mean} for {expected}");
        assert_eq!(paired_band(&[0.0; 6], &[0.0, 0.0, 0.0, 1.0, 0.0, 0.0], 1), Some(0.0));
        assert_eq!(paired_band(&[1.0; 2], &[1.0; 2], 1), None);
    }

    #[test]
    fn repetitions_that_agree_have_no_noise_and_too_few_have_no_band() {
        assert_eq!(band(&Figure::mean(vec![5.0; 10]), 1), Some(0.0));
        assert_eq!(band(&Figure::mean(vec![0.0; 10]), 1), Some(0.0));
        assert_eq!(band(&Figure::mean(vec![1.0, 2.0]), 1), None);
        assert!(band(&Figure::mean(vec![1.0, 2.0, 3.0]), 1).is_some_and(|band| band > 0.1));
    }
}
