//! Wilcoxon's tests, exact: signed ranks for pairs, rank sums for two groups; and Holm's correction for many tests.

/// Fewer pairs cannot reach 5 %: with five, the smallest two-sided p is 0.0625.
pub(super) const PAIRS_MIN: usize = 6;

/// Two-sided p of differences between paired repetitions; absent with fewer than six pairs.
///
/// Exact at every size: the distribution of the rank sum is counted out, ties with their mean ranks. Pairs without a
/// difference are left out, as Wilcoxon did; where none is left, nothing differs and p is 1.
pub(super) fn signed_rank(differences: &[f64]) -> Option<f64> {
    if differences.len() < PAIRS_MIN {
        return None;
    }
    let mut sizes: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    sizes.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let ranks = doubled_ranks(&sizes);
    let total: usize = ranks.iter().sum();
    let rising: usize =
        sizes.iter().zip(&ranks).filter_map(|(size, rank)| (*size > 0.0).then_some(*rank)).sum();
    let smaller = rising.min(total - rising);
    // How likely each sum of doubled ranks is when every sign is a coin.
    let mut chance = vec![0.0; total + 1];
    chance[0] = 1.0;
    for rank in ranks {
        for sum in (0..=total).rev() {
            let with = if sum >= rank { chance[sum - rank] } else { 0.0 };
            chance[sum] = f64::midpoint(chance[sum], with);
        }
    }
    Some((2.0 * chance[..=smaller].iter().sum::<f64>()).min(1.0))
}

/// Fewer than that in both groups cannot reach 5 %: three against three have a smallest two-sided p of 0.1.
pub(super) const GROUP_MIN: usize = 4;
/// More than that are not counted out: sums of ranks would fill the memory. The first ones are taken.
const GROUP_MAX: usize = 60;

/// Two-sided p of two groups that have nothing to do with each other (Wilcoxon's rank sum, Mann and Whitney's U); absent
/// with fewer than four in either. Exact, ties with their mean ranks.
pub(super) fn rank_sum(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (&a[..a.len().min(GROUP_MAX)], &b[..b.len().min(GROUP_MAX)]);
    if a.len().min(b.len()) < GROUP_MIN {
        return None;
    }
    let mut all: Vec<(f64, bool)> = a.iter().map(|value| (*value, true)).collect();
    all.extend(b.iter().map(|value| (*value, false)));
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    // Ranks are of values, not of their sizes: all are lifted above nought.
    let values: Vec<f64> = all.iter().map(|(value, _)| value - all[0].0).collect();
    let ranks = doubled_ranks(&values);
    let seen: usize =
        all.iter().zip(&ranks).filter_map(|((_, of_a), rank)| of_a.then_some(*rank)).sum();
    let total: usize = ranks.iter().sum();
    // How many ways there are to choose so many ranks with each sum.
    let mut ways = vec![vec![0.0_f64; total + 1]; a.len() + 1];
    ways[0][0] = 1.0;
    for rank in &ranks {
        for chosen in (1..=a.len()).rev() {
            let (fewer, more) = ways.split_at_mut(chosen);
            for sum in *rank..=total {
                more[0][sum] += fewer[chosen - 1][sum - rank];
            }
        }
    }
    let ways = &ways[a.len()];
    let all: f64 = ways.iter().sum();
    let (low, high) = (ways[..=seen].iter().sum::<f64>(), ways[seen..].iter().sum::<f64>());
    Some((2.0 * low.min(high) / all).min(1.0))
}

/// Twice the rank of each, by size, so that the mean rank of a tie is a whole number.
fn doubled_ranks(sorted: &[f64]) -> Vec<usize> {
    let mut ranks = vec![0; sorted.len()];
    let mut first = 0;
    while first < sorted.len() {
        let size = sorted[first].abs();
        let tied = sorted[first..].iter().take_while(|other| other.abs() == size).count();
        // Ranks first+1 … first+tied: twice their mean.
        ranks[first..first + tied].fill(2 * first + tied + 1);
        first += tied;
    }
    ranks
}

/// Holm's step-down correction, in the order given.
pub(super) fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut corrected = vec![0.0; p.len()];
    let mut floor: f64 = 0.0;
    for (step, index) in order.into_iter().enumerate() {
        floor = floor.max(p[index] * (p.len() - step) as f64).min(1.0);
        corrected[index] = floor;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Differences 1…n, of which those negative have ranks that sum up to `sum`.
    fn with_rank_sum(n: usize, sum: usize) -> Vec<f64> {
        let mut left = sum;
        let mut differences: Vec<f64> = (1..=n).map(|rank| rank as f64).collect();
        for rank in (1..=n).rev() {
            if rank <= left {
                left -= rank;
                differences[rank - 1] = -(rank as f64);
            }
        }
        assert_eq!(left, 0, "{n} {sum}");
        differences
    }

    /// Critical values of the two-sided test as every textbook prints them (Wilcoxon and Wilcox 1964): the largest rank
    /// sum that is still significant.
    #[test]
    fn critical_values_are_those_of_the_tables() {
        let five_percent = [
            (6, 0),
            (7, 2),
            (8, 3),
            (9, 5),
            (10, 8),
            (11, 10),
            (12, 13),
            (13, 17),
            (14, 21),
            (15, 25),
            (16, 29),
            (17, 34),
            (18, 40),
            (19, 46),
            (20, 52),
            (21, 58),
            (22, 65),
            (23, 73),
            (24, 81),
            (25, 89),
        ];
        let one_percent = [
            (8, 0),
            (9, 1),
            (10, 3),
            (11, 5),
            (12, 7),
            (13, 9),
            (14, 12),
            (15, 15),
            (16, 19),
            (17, 23),
            (18, 27),
            (19, 32),
            (20, 37),
            (21, 42),
            (22, 48),
            (23, 54),
            (24, 61),
            (25, 68),
        ];
        for (level, table) in [(0.05, &five_percent[..]), (0.01, &one_percent[..])] {
            for (n, sum) in table {
                let p = |sum| signed_rank(&with_rank_sum(*n, sum)).expect("six or more");
                assert!(p(*sum) <= level && p(sum + 1) > level, "n {n}, sum {sum}, level {level}");
            }
        }
    }

    #[test]
    fn exact_values() {
        let check = |differences: &[f64], expected: Option<f64>| {
            let seen = signed_rank(differences);
            let same = match (seen, expected) {
                (Some(seen), Some(expected)) => (seen - expected).abs() < 1e-12,
                (seen, expected) => seen == expected,
            };
            assert!(same, "{differences:?}: {seen:?}");
        };
        check(&[1.0; 5], None);
        check(&[1.0; 6], Some(2.0 / 64.0));
        check(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], Some(2.0 / 64.0));
        check(&[-1.0, 2.0, 3.0, 4.0, 5.0, 6.0], Some(4.0 / 64.0));
        check(&with_rank_sum(10, 8), Some(50.0 / 1024.0));
        check(&[0.0; 8], Some(1.0));
        // Two ties: ranks 1.5, 1.5, 3.5, 3.5, 5, 6, with 1.5 against. At or below 1.5: no sign, or one of the first two.
        check(&[-1.0, 1.0, 2.0, 2.0, 3.0, 4.0], Some(2.0 * 3.0 / 64.0));
        // Darwin's maize (eighths of an inch): rank sum 24, p = 0.04126 in every textbook.
        let maize = [
            49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0,
            -48.0,
        ];
        check(&maize, Some(1352.0 / 32768.0));
    }

    #[test]
    fn rank_sums() {
        let check = |a: &[f64], b: &[f64], expected: Option<f64>| {
            for seen in [rank_sum(a, b), rank_sum(b, a)] {
                let same = match (seen, expected) {
                    (Some(seen), Some(expected)) => (seen - expected).abs() < 1e-12,
                    (seen, expected) => seen == expected,
                };
                assert!(same, "{a:?} {b:?}: {seen:?}");
            }
        };
        check(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0, 7.0], None);
        check(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0], Some(2.0 / 70.0));
        check(&[1.0, 2.0, 3.0, 5.0], &[4.0, 6.0, 7.0, 8.0], Some(4.0 / 70.0));
        check(&[-4.0, -3.0, -2.0, -1.0], &[1.0, 2.0, 3.0, 4.0], Some(2.0 / 70.0));
        check(&[1.0; 4], &[1.0; 5], Some(1.0));
        // U = 2 of 5 and 5: seven ways of 252 give 2 or less on either side, counted out by hand: 1 + 1 + 2.
        check(&[1.0, 2.0, 3.0, 4.0, 7.0], &[5.0, 6.0, 8.0, 9.0, 10.0], Some(2.0 * 4.0 / 252.0));
    }

    #[test]
    fn holm_is_monotone_and_as_in_his_example() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(corrected.iter().zip(expected).all(|(seen, wanted)| (seen - wanted).abs() < 1e-12));
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert_eq!(holm(&[]), Vec::<f64>::new());
    }
}
