//! A seeded source of decisions: the same seed, the same decisions.

use fastrand::Rng;

#[derive(Clone, Debug)]
pub(crate) struct Chance(Rng);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// From 0 to `below` - 1; 0 if `below` is 0.
    pub(crate) fn below(&mut self, below: usize) -> usize {
        self.0.usize(..below.max(1))
    }

    /// True once in `often` times; never for 0.
    pub(crate) fn one_in(&mut self, often: usize) -> bool {
        often > 0 && self.below(often) == 0
    }

    /// Bytes that are different for each call and never 0.
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        std::iter::repeat_with(|| self.0.u8(1..))
            .take(len)
            .collect()
    }
}
