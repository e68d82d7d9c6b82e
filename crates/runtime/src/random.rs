//! A small random source for balancing and jitter. Never for secrets.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

/// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016).
#[derive(Clone, Debug)]
pub struct Random(Cell<u64>);

impl Random {
    /// The same seed gives the same sequence; 0 is replaced, as the generator cannot leave it.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Cell::new(if seed == 0 { 0x9E37_79B9_7F4A_7C15 } else { seed }))
    }

    /// Seeded by the operating system, by way of the standard library's hash keys.
    #[must_use]
    pub fn from_entropy() -> Self {
        Self::seeded(RandomState::new().hash_one(std::process::id()))
    }

    /// The next 64 bits.
    pub fn next_u64(&self) -> u64 {
        let mut x = self.0.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0.set(x);
        x.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Uniform in `0..bound`; `bound` 0 answers 0.
    pub fn below(&self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Uniform in 0.0..1.0.
    pub fn unit(&self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_in_bounds_and_visits_all() {
        let random = Random::seeded(7);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[random.below(5)] = true;
            assert!((0.0..1.0).contains(&random.unit()));
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(random.below(0), 0);
    }
}
