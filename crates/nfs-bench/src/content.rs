//! What the bytes of a measured file are: a function of their offset, so that any READ can be checked.
//!
//! Each block of 4 KiB begins with a stamp that only its own place has, so a block that comes from another place of
//! the file, from another file or from unwritten memory is found out by its first eight bytes. What follows is
//! [`Data`]: noise that no device can compress, or the stamp again and again, which costs a device that lies
//! in memory next to nothing, as moving bytes costs the CPU nothing where a real disk does it.

use std::fs::File;
use std::io::{IoSlice, Write};
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use fastrand::Rng;
use serde::Serialize;

/// Size of a block in bytes; each block begins with a stamp that no other place has.
pub const BLOCK_BYTES: u64 = 4096;
/// Length of the noise in bytes; a longer file repeats it.
const NOISE_BYTES: u64 = 1 << 20;
/// Seed of the noise; it is fixed, so that every run works on the same bytes.
const NOISE_SEED: u64 = 1;
/// Makes stamps of neighbouring blocks differ in all their bytes.
const STAMP_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the blocks of a measured file hold behind their stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Data {
    /// A mebibyte of noise, over and over: nothing in a block compresses.
    Noise,
    /// The block's stamp, to its end.
    Filled,
}

/// The contents of every measured file, and one reused buffer in which pieces of them are composed.
#[derive(Debug)]
pub struct Content {
    data: Data,
    noise: Vec<u8>,
    /// The noise, followed by as much of it again as the longest piece has bytes, so that a piece of any
    /// offset lies in one run of it.
    composed: Vec<u8>,
}

impl Content {
    /// Makes contents whose pieces may be up to `piece_bytes_max` bytes long.
    pub fn new(data: Data, piece_bytes_max: usize) -> Self {
        let noise = noise();
        let composed: Vec<u8> = noise
            .iter()
            .copied()
            .cycle()
            .take(noise.len() + piece_bytes_max)
            .collect();
        Self {
            data,
            noise,
            composed,
        }
    }

    /// The bytes of the file at `offset`. The buffer is the same for each call, so a piece has to leave before the
    /// next one is composed.
    ///
    /// # Panics
    /// `len` is beyond what [`Content::new`] was told.
    pub fn piece(&mut self, offset: u64, len: usize) -> &[u8] {
        let start = within(offset % NOISE_BYTES);
        // Older stamps of the same place in the buffer belong to other offsets, so the stamp that begins before the
        // piece is written too.
        let piece = &mut self.composed[start..start + len];
        for (range, from, stamp) in stamps(self.data, offset, len) {
            fill_with(&mut piece[range], from, stamp);
        }
        &self.composed[start..start + len]
    }

    /// Whether `bytes` are what the file has at `offset`.
    ///
    /// # Errors
    /// They are not; the message says where the first wrong byte is.
    pub fn check(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut at = 0;
        for (range, from, stamp) in stamps(self.data, offset, bytes.len()) {
            self.check_noise(offset, bytes, at..range.start)?;
            at = range.end;
            if let Some(wrong) = first_difference(&bytes[range.clone()], from, stamp) {
                bail!(
                    "wrong bytes at offset {}: the block is not the one that was asked for",
                    offset + (range.start + wrong) as u64
                );
            }
        }
        self.check_noise(offset, bytes, at..bytes.len())
    }

    fn check_noise(&self, offset: u64, bytes: &[u8], range: Range<usize>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let start = within((offset + at as u64) % NOISE_BYTES);
            let len = (range.end - at).min(self.noise.len() - start);
            if bytes[at..at + len] != self.noise[start..start + len] {
                let same = |i: &usize| bytes[at + i] == self.noise[start + i];
                let wrong = (0..len).take_while(same).count();
                bail!("a wrong byte at offset {}", offset + (at + wrong) as u64);
            }
            at += len;
        }
        Ok(())
    }

    /// Makes a new file of the first `bytes` of the contents.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn make_file(&mut self, path: &Path, bytes: u64) -> Result<File> {
        let mut file = File::create(path).with_context(|| path.display().to_string())?;
        self.fill(&mut file, bytes)?;
        Ok(file)
    }

    /// Writes the first `bytes` of the contents to `out`.
    ///
    /// # Errors
    /// Writing failed.
    pub fn fill(&mut self, out: &mut impl Write, bytes: u64) -> Result<()> {
        let mut at = 0;
        while at < bytes {
            let len = within((bytes - at).min(NOISE_BYTES));
            let piece = self.piece(at, len);
            let mut slices: &mut [IoSlice<'_>] = &mut [IoSlice::new(piece)];
            while !slices.is_empty() {
                let written = out.write_vectored(slices).context("filling the file")?;
                IoSlice::advance_slices(&mut slices, written);
            }
            at += len as u64;
        }
        Ok(())
    }
}

/// The runs of stamps that lie in a piece, wholly or in part: where, from which byte on, and the stamp itself.
fn stamps(data: Data, offset: u64, len: usize) -> impl Iterator<Item = (Range<usize>, usize, u64)> {
    let end = offset + len as u64;
    let run = match data {
        Data::Noise => 8,
        Data::Filled => BLOCK_BYTES,
    };
    (offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)).filter_map(move |block| {
        let place = block * BLOCK_BYTES;
        let (start, stop) = (place.max(offset), (place + run).min(end));
        // Adding one keeps the first stamp from being zero, which is what unwritten blocks hold.
        let stamp = (block + 1).wrapping_mul(STAMP_FACTOR);
        (start < stop).then(|| {
            let range = within(start - offset)..within(stop - offset);
            (range, within(start - place), stamp)
        })
    })
}

/// Puts `stamp`, again and again, from its byte `from` on.
fn fill_with(out: &mut [u8], from: usize, stamp: u64) {
    let word = stamp.rotate_right(bits(from)).to_le_bytes();
    let mut words = out.chunks_exact_mut(8);
    for out in &mut words {
        out.copy_from_slice(&word);
    }
    let rest = words.into_remainder();
    rest.copy_from_slice(&word[..rest.len()]);
}

/// Where `bytes` stop being `stamp`, again and again, from its byte `from` on.
fn first_difference(bytes: &[u8], from: usize, stamp: u64) -> Option<usize> {
    let word = stamp.rotate_right(bits(from)).to_le_bytes();
    let chunk = bytes
        .chunks(8)
        .position(|chunk| *chunk != word[..chunk.len()])?;
    Some(chunk * 8)
}

/// How far a stamp is turned so that its byte `from` comes first.
fn bits(from: usize) -> u32 {
    u32::try_from(from % 8 * 8).expect("less than 64")
}

/// Makes the noise: the same bytes in every run, in which an LZ compressor finds no repetition.
fn noise() -> Vec<u8> {
    let mut noise = vec![0; within(NOISE_BYTES)];
    Rng::with_seed(NOISE_SEED).fill(&mut noise);
    noise
}

/// Turns an offset or a length within one piece into a `usize`, which such a number always fits.
fn within(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a piece fits into memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Data; 2] = [Data::Noise, Data::Filled];

    #[test]
    fn pieces_are_cut_from_one_and_the_same_file() {
        for data in BOTH {
            let mut content = Content::new(data, 3 << 20);
            let mut whole = Vec::new();
            content.fill(&mut whole, (2 << 20) + 100).unwrap();
            assert_eq!(whole.len(), (2 << 20) + 100);
            for (offset, len) in [
                (0, 1),
                (3, 9),
                (4090, 20),
                (47008, 47008),
                (1 << 20, 8),
                ((1 << 20) - 5, 4200),
            ] {
                let expected = whole[offset..offset + len].to_vec();
                let piece = content.piece(offset as u64, len);
                assert_eq!(piece, expected, "{data:?} {offset}+{len}");
                content.check(offset as u64, &expected).unwrap();
            }
        }
    }

    #[test]
    fn an_earlier_piece_leaves_nothing_behind() {
        for data in BOTH {
            let mut content = Content::new(data, 16384);
            content.piece(7 << 20, 16384);
            let second = content.piece(4, 16000).to_vec();
            content.check(4, &second).unwrap();
            assert_eq!(second, Content::new(data, 16384).piece(4, 16000));
        }
    }

    #[test]
    fn every_single_wrong_byte_is_found() {
        for data in BOTH {
            let mut content = Content::new(data, 9000);
            let right = content.piece(4001, 9000).to_vec();
            for at in 0..right.len() {
                let mut wrong = right.clone();
                wrong[at] ^= 1;
                assert!(content.check(4001, &wrong).is_err(), "{data:?} byte {at}");
            }
        }
    }

    #[test]
    fn a_block_of_another_place_is_found() {
        for data in BOTH {
            let mut content = Content::new(data, 4096);
            let other = content.piece(NOISE_BYTES + 8192, 4096).to_vec();
            let error = content.check(8192, &other).unwrap_err();
            assert!(error.to_string().contains("8192"), "{error}");
            assert!(content.check(8192, &[0; 4096]).is_err());
        }
    }
}
