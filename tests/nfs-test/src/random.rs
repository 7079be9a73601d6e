//! A small seeded random number generator, so that a printed seed repeats a run.
//!
//! SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014). Not for
//! secrets.

/// The generator; the same seed gives the same sequence.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// An index below `bound`, which must not be 0.
    pub(crate) const fn index(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A generator of its own for a part of the work, so that parts do not disturb each other.
    pub(crate) const fn fork(&mut self) -> Self {
        Self::new(self.next())
    }
}

/// A seed from the clock, for runs that were given none.
pub(crate) fn seed_from_clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Random::new(now.map_or(1, |since| since.as_nanos() as u64)).next() % 1_000_000_000
}
