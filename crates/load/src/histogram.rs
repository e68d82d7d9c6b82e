//! One latency distribution: an HDR histogram in nanoseconds, and its form in JSON.
//!
//! Merging loses nothing: the buckets of the sum are the sums of the buckets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Deserializer as From, Serialize, Serializer as Into};

/// Significant decimal digits: a recorded value is off by at most one part in a thousand.
pub const DIGITS: u8 = 3;
/// The longest latency that is told apart from longer ones.
pub const NANOSECONDS_MAX: u64 = 3_600_000_000_000;

/// Latencies in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(Hdr<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty one. It grows to what is recorded, at most to `NANOSECONDS_MAX`.
    ///
    /// # Panics
    /// Never: the bounds are constants that `hdrhistogram` takes.
    #[must_use]
    pub fn new() -> Self {
        let mut hdr = Hdr::new_with_bounds(1, 1_000_000_000, DIGITS).expect("bounds are constants");
        hdr.auto(true);
        Self(hdr)
    }

    /// Counts one latency; longer ones than `NANOSECONDS_MAX` count as that.
    pub fn record(&mut self, nanoseconds: u64) {
        let value = nanoseconds.min(NANOSECONDS_MAX);
        // It cannot fail: the histogram grows by itself, and the value is bounded.
        let _recorded = self.0.record(value);
    }

    /// Counts a latency so many times.
    pub fn record_many(&mut self, nanoseconds: u64, count: u64) {
        let value = nanoseconds.min(NANOSECONDS_MAX);
        // It cannot fail, as above.
        let _recorded = self.0.record_n(value, count);
    }

    /// Adds everything that the other has seen.
    pub fn merge(&mut self, other: &Self) {
        // It cannot fail: both have the same digits, and this one grows by itself.
        let _added = self.0.add(&other.0);
    }

    /// What is left without latencies that are in this one, too.
    #[must_use]
    pub fn without(&self, part: &Self) -> Self {
        let mut rest = self.clone();
        // It cannot fail: every latency of the part is in the whole.
        let _taken = rest.0.subtract(&part.0);
        rest
    }

    /// How many latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency, in nanoseconds, that this share (0 to 1) of requests did not exceed; 0 without any.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    /// The smallest, in nanoseconds.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.0.min()
    }

    /// The largest, in nanoseconds.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// The mean, in nanoseconds.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The standard deviation, in nanoseconds.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        self.0.stdev()
    }

    /// Forgets everything and keeps the room.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Gives back room beyond the largest; it grows again when that is needed.
    pub fn shrink(&mut self) {
        if let Ok(mut small) = Hdr::new_with_bounds(1, self.0.max().max(2), DIGITS) {
            small.auto(true);
            // It cannot fail: the largest fits.
            let _added = small.add(&self.0);
            self.0 = small;
        }
    }

    /// The histogram underneath, for iteration.
    #[must_use]
    pub fn hdr(&self) -> &Hdr<u64> {
        &self.0
    }

    /// HdrHistogram's V2 form, compressed, in base64: what its log format and other tools read.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        // Writing to memory cannot fail.
        let _length = V2DeflateSerializer::new().serialize(&self.0, &mut bytes);
        STANDARD.encode(bytes)
    }

    /// Reads what [`Histogram::encode`] (or any HdrHistogram library) wrote.
    ///
    /// # Errors
    /// It is not a V2 histogram in base64.
    pub fn decode(text: &str) -> Result<Self, String> {
        let bytes = STANDARD.decode(text.trim()).map_err(|error| format!("base64: {error}"))?;
        let mut hdr: Hdr<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| format!("histogram: {error:?}"))?;
        hdr.auto(true);
        Ok(Self(hdr))
    }
}

/// `{"unit":"ns","digits":3,"hdr_v2":"…","n":1000}`
#[derive(Serialize, Deserialize)]
struct Form {
    unit: String,
    digits: u8,
    hdr_v2: String,
    n: u64,
}

impl Serialize for Histogram {
    fn serialize<S: Into>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Form { unit: "ns".into(), digits: DIGITS, hdr_v2: self.encode(), n: self.count() }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: From<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let form = Form::deserialize(deserializer)?;
        Self::decode(&form.hdr_v2).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_merging_loses_nothing() {
        let (mut whole, mut odd, mut even) = (Histogram::new(), Histogram::new(), Histogram::new());
        for value in 0..100_000_u64 {
            let latency = value * value % 5_000_000_000;
            whole.record(latency);
            if value % 2 == 0 { &mut even } else { &mut odd }.record(latency);
        }
        let odd_only = odd.clone();
        odd.merge(&even);
        assert_eq!(odd.encode(), whole.encode());
        let rest = whole.without(&even);
        assert_eq!((rest.count(), rest.quantile(0.9)), (50_000, odd_only.quantile(0.9)));
        let read = Histogram::decode(&whole.encode()).expect("it was written here");
        assert_eq!(read.encode(), whole.encode());
        assert_eq!(read.quantile(0.99), whole.quantile(0.99));
        let mut small = whole.clone();
        small.shrink();
        assert_eq!((small.quantile(0.999), &small), (whole.quantile(0.999), &whole));
        small.record(NANOSECONDS_MAX);
        assert!(small.max() >= NANOSECONDS_MAX);
        assert!(Histogram::decode("AAAA").is_err() && Histogram::decode("%").is_err());
    }

    #[test]
    fn longer_than_the_longest_counts_as_the_longest() {
        let mut histogram = Histogram::new();
        histogram.record(u64::MAX);
        assert_eq!(histogram.count(), 1);
        assert!(histogram.max() >= NANOSECONDS_MAX);
    }
}
