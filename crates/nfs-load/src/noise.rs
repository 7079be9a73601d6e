//! What the bytes of a measured file are: noise that repeats after a mebibyte, so that the bytes of any place are known
//! without being kept, and no device can compress a block of them.

use bytes::Bytes;
use fastrand::Rng;

/// After so many bytes the noise begins again.
const PERIOD: u64 = 1 << 20;
/// The noise begins at a multiple of this in memory, as direct I/O needs it.
const ALIGNMENT: usize = 4096;
/// The same bytes in every run.
const SEED: u64 = 1;
/// How many bytes at the beginning of a READ are looked at.
const LOOKED_AT: usize = 16;

/// The contents of every measured file. Clones share the memory.
#[derive(Clone, Debug)]
pub struct Noise {
    bytes: Bytes,
}

impl Noise {
    /// Noise of which pieces of up to `longest` bytes can be taken.
    #[must_use]
    pub fn new(longest: usize) -> Self {
        let period = PERIOD as usize;
        let mut once = vec![0; period];
        Rng::with_seed(SEED).fill(&mut once);
        let len = period + longest;
        let mut memory = vec![0; len + ALIGNMENT];
        let skipped = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        for (byte, noise) in memory.iter_mut().skip(skipped).zip(once.iter().cycle()) {
            *byte = *noise;
        }
        let bytes = Bytes::from(memory).slice(skipped..skipped + len);
        Self { bytes }
    }

    /// The `len` bytes of a file at `offset`.
    ///
    /// # Panics
    /// `len` is more than [`Noise::new`] was told.
    #[must_use]
    pub fn at(&self, offset: u64, len: usize) -> Bytes {
        let start = (offset % PERIOD) as usize;
        self.bytes.slice(start..start + len)
    }

    /// Whether `data` begins as a file does at `offset`. Looking at all of it would be measured with the server.
    #[must_use]
    pub fn begins(&self, offset: u64, data: &[u8]) -> bool {
        let looked_at = data.len().min(LOOKED_AT);
        data.get(..looked_at) == Some(&self.at(offset, looked_at)[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_of_one_file_and_aligned() {
        let noise = Noise::new(16 << 20);
        let long = noise.at(0, 16 << 20);
        for offset in [0, 4096, 47_008, (1 << 20) - 5, 5 << 20] {
            let piece = noise.at(offset, 9000);
            assert_eq!(piece, long[offset as usize..offset as usize + 9000]);
            assert!(noise.begins(offset, &piece));
            assert!(!noise.begins(offset + 4096, &piece));
        }
        assert_eq!(noise.at(8192, 1).as_ptr() as usize % ALIGNMENT, 0);
    }
}
