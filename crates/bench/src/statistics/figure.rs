//! One figure as a function of how often each repetition counts: what pooling, the bootstrap and halving all ask for.
//!
//! Weights are whole numbers, one for each repetition, in the order of the repetitions given.

use leno_load::histogram::Histogram;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Nanoseconds in a millisecond: histograms keep the one, results quote the other.
const NANOSECONDS_PER_MILLISECOND: f64 = 1e6;

/// A figure of several repetitions.
#[derive(Clone, Debug)]
pub(super) enum Figure {
    /// A percentile of the pooled histogram, in milliseconds.
    Quantile(Rc<Pool>, f64),
    /// The largest of the repetitions' values.
    Largest(Vec<f64>),
    /// A quotient of sums: requests over seconds, CPU over requests; with ones underneath it is a mean.
    Ratio(Vec<f64>, Vec<f64>),
}

impl Figure {
    /// A mean of one value for each repetition.
    pub(super) fn mean(values: Vec<f64>) -> Self {
        let ones = vec![1.0; values.len()];
        Self::Ratio(values, ones)
    }

    /// The figure with these weights; nothing where nothing counts.
    pub(super) fn at(&self, weights: &[u32]) -> Option<f64> {
        match self {
            Self::Quantile(pool, share) => pool.quantile(weights, *share),
            Self::Largest(values) => values
                .iter()
                .zip(weights)
                .filter_map(|(value, weight)| (*weight > 0).then_some(*value))
                .max_by(f64::total_cmp),
            Self::Ratio(above, below) => {
                let sum = |values: &[f64]| -> f64 {
                    values
                        .iter()
                        .zip(weights)
                        .map(|(value, weight)| value * f64::from(*weight))
                        .sum()
                };
                let below = sum(below);
                (below > 0.0).then(|| sum(above) / below)
            }
        }
    }

    /// Every repetition once.
    pub(super) fn whole(&self) -> Option<f64> {
        self.at(&vec![1; self.runs()])
    }

    /// One repetition alone.
    pub(super) fn of_run(&self, run: usize) -> Option<f64> {
        let mut weights = vec![0; self.runs()];
        weights[run] = 1;
        self.at(&weights)
    }

    /// How many repetitions it was made of.
    pub(super) fn runs(&self) -> usize {
        match self {
            Self::Quantile(pool, _) => pool.runs,
            Self::Largest(values) | Self::Ratio(values, _) => values.len(),
        }
    }
}

/// Histograms of several repetitions, ready to be pooled with any weights in a few steps: bucket by bucket, how many
/// latencies each repetition has up to it.
#[derive(Debug)]
pub(super) struct Pool {
    runs: usize,
    /// The longest latency of each bucket, in milliseconds, rising.
    values: Vec<f64>,
    /// `up_to[bucket * runs + run]`.
    up_to: Vec<u64>,
}

impl Pool {
    pub(super) fn new(histograms: &[&Histogram]) -> Self {
        let runs = histograms.len();
        let mut buckets: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (run, histogram) in histograms.iter().enumerate() {
            for step in histogram.hdr().iter_recorded() {
                let value = histogram.hdr().highest_equivalent(step.value_iterated_to());
                buckets.entry(value).or_insert_with(|| vec![0; runs])[run] += step.count_at_value();
            }
        }
        let mut so_far = vec![0; runs];
        let mut up_to = Vec::with_capacity(buckets.len() * runs);
        let mut values = Vec::with_capacity(buckets.len());
        for (value, counts) in buckets {
            values.push(value as f64 / NANOSECONDS_PER_MILLISECOND);
            for (sum, count) in so_far.iter_mut().zip(counts) {
                *sum += count;
            }
            up_to.extend_from_slice(&so_far);
        }
        Self { runs, values, up_to }
    }

    /// Latencies up to and with this bucket.
    fn count(&self, bucket: usize, weights: &[u32]) -> u64 {
        let row = &self.up_to[bucket * self.runs..(bucket + 1) * self.runs];
        row.iter().zip(weights).map(|(count, weight)| count * u64::from(*weight)).sum()
    }

    /// As [`Histogram::quantile`] of the pooled histogram would say.
    fn quantile(&self, weights: &[u32], share: f64) -> Option<f64> {
        let last = self.values.len().checked_sub(1)?;
        let total = self.count(last, weights);
        if total == 0 {
            return None;
        }
        let wanted = ((share * total as f64).ceil() as u64).clamp(1, total);
        let (mut low, mut high) = (0, last);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.count(middle, weights) >= wanted {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(self.values[low])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_with_weights_says_what_the_merged_histogram_says() {
        let histograms: Vec<Histogram> = (1..=4_u64)
            .map(|run| {
                let mut histogram = Histogram::new();
                (0..3_000 * run).for_each(|i| histogram.record(i * i * run % 90_000_017));
                histogram
            })
            .collect();
        let pool = Rc::new(Pool::new(&histograms.iter().collect::<Vec<_>>()));
        for weights in [[1, 1, 1, 1], [0, 3, 0, 1], [0, 0, 0, 4], [2, 0, 1, 1]] {
            let mut merged = Histogram::new();
            for (histogram, weight) in histograms.iter().zip(weights) {
                (0..weight).for_each(|_| merged.merge(histogram));
            }
            for share in [0.0001, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
                let seen = Figure::Quantile(Rc::clone(&pool), share).at(&weights);
                assert_eq!(seen, Some(merged.quantile(share) as f64 / 1e6), "{weights:?} {share}");
            }
        }
        assert_eq!(Figure::Quantile(pool, 0.5).at(&[0; 4]), None);
    }

    #[test]
    fn quotients_are_of_sums_and_the_largest_counts_only_what_counts() {
        let ratio = Figure::Ratio(vec![10.0, 30.0], vec![1.0, 5.0]);
        assert_eq!(ratio.whole(), Some(40.0 / 6.0));
        assert_eq!(ratio.at(&[2, 0]), Some(10.0));
        assert_eq!(ratio.at(&[0, 0]), None);
        let largest = Figure::Largest(vec![3.0, 7.0, 5.0]);
        assert_eq!(largest.whole(), Some(7.0));
        assert_eq!(largest.at(&[1, 0, 1]), Some(5.0));
        assert_eq!(Figure::mean(vec![1.0, 2.0, 6.0]).whole(), Some(3.0));
    }
}
