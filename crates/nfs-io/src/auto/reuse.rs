//! How much of what is moved was moved before, within as many bytes as memory could hold: a sample of places
//! in one file, of fixed size.
//!
//! A place is kept if its hash lies below a threshold, so that all calls on it are seen or none. Where more places
//! are met than there is room for, the threshold sinks, and what is kept stands for more of the file; it sinks
//! until the sample stands for as much as memory could hold. From there on some place goes for each new one, and
//! what comes back later than memory would have kept it counts as new for the most part: with the oldest going,
//! a scan of a little more than memory would seem to find nothing again. Pure: no clock, no I/O; never panics.

use std::ops::Range;

use crate::limits::{AUTO_PAGE_BYTES, AUTO_PLACE_BYTES, AUTO_PLACES_MAX, AUTO_PLACES_PER_CALL_MAX};

/// Who moved a place last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    Read,
    Written,
}

/// What a call's places say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Places of the sample that the call met: none, for most calls on a large file.
    pub(super) places: u8,
    /// Those of them that were read before, and nothing else since.
    pub(super) read: u8,
    /// Those of them that were written before, and nothing else since.
    pub(super) written: u8,
}

/// A sample of the places of a file that were moved lately.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reuse {
    /// Hashes of places; the lowest bit says whether the last to move it was a WRITE.
    places: [u32; AUTO_PLACES_MAX],
    kept: u8,
    /// Which place goes next when the threshold cannot sink any more: any, by the hashes that were met.
    goes: u8,
    /// Places whose hash is not below this are passed over.
    threshold: u32,
}

impl Default for Reuse {
    fn default() -> Self {
        Self {
            places: [0; AUTO_PLACES_MAX],
            kept: 0,
            goes: 0,
            threshold: u32::MAX,
        }
    }
}

impl Reuse {
    /// A call moves `bytes` from `offset` on, and memory could hold `room` bytes of the file.
    pub(super) fn note(&mut self, offset: u64, bytes: u64, room: u64, now: Last) -> Seen {
        let (range, grain) = places_of(offset, bytes);
        let mut seen = Seen::default();
        for place in range {
            let hash = hash_of(place, grain);
            if hash >= self.threshold {
                continue;
            }
            seen.places += 1;
            match self.meet(hash, now, lowest_threshold(room, grain)) {
                Some(Last::Read) => seen.read += 1,
                Some(Last::Written) => seen.written += 1,
                None => {}
            }
        }
        seen
    }

    /// Who moved this place last, if it is kept; it is kept from now on.
    fn meet(&mut self, hash: u32, now: Last, lowest: u32) -> Option<Last> {
        let marked = hash & !1 | u32::from(now == Last::Written);
        let kept = self.places.iter_mut().take(usize::from(self.kept));
        for place in kept {
            if *place & !1 == hash & !1 {
                let before = if *place & 1 == 1 {
                    Last::Written
                } else {
                    Last::Read
                };
                *place = marked;
                return Some(before);
            }
        }
        if usize::from(self.kept) == AUTO_PLACES_MAX && self.threshold > lowest {
            self.threshold = lowest.max(self.threshold / 2);
            self.let_go_above();
        }
        if hash >= self.threshold {
            return None;
        }
        let at = if usize::from(self.kept) < AUTO_PLACES_MAX {
            self.kept += 1;
            self.kept - 1
        } else {
            self.goes = self.goes.wrapping_mul(5).wrapping_add((hash >> 1) as u8);
            (self.goes >> 2) % AUTO_PLACES_MAX as u8
        };
        if let Some(place) = self.places.get_mut(usize::from(at)) {
            *place = marked;
        }
        None
    }

    fn let_go_above(&mut self) {
        let mut left = 0;
        for at in 0..usize::from(self.kept) {
            if self.places[at] < self.threshold {
                self.places[left] = self.places[at];
                left += 1;
            }
        }
        self.kept = left as u8;
    }
}

/// The places that a call moves: of a large call each 64 KiB, of a small one the page that it begins in.
fn places_of(offset: u64, bytes: u64) -> (Range<u64>, u64) {
    if bytes < AUTO_PLACE_BYTES {
        let page = offset / AUTO_PAGE_BYTES;
        return (page..page + 1, AUTO_PAGE_BYTES);
    }
    // Whole places: a call that follows on another one meets none of that one's.
    let first = offset.div_ceil(AUTO_PLACE_BYTES);
    let end = offset.saturating_add(bytes) / AUTO_PLACE_BYTES;
    let end = end.clamp(first + 1, first + AUTO_PLACES_PER_CALL_MAX);
    (first..end, AUTO_PLACE_BYTES)
}

/// The threshold at which as many places as are kept stand for `room` bytes.
fn lowest_threshold(room: u64, grain: u64) -> u32 {
    let places = (room / grain).max(1);
    let of_hashes = (AUTO_PLACES_MAX as u64) << 32;
    u32::try_from(of_hashes / places).unwrap_or(u32::MAX)
}

/// The finisher of SplitMix64: neighbouring places have nothing in common afterwards. Who could make places
/// collide would only be served in another mode.
fn hash_of(place: u64, grain: u64) -> u32 {
    let mut hash = place.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ grain;
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Of what share of the sampled places of a pass the sketch says that they were read before, in percent.
    fn pass(reuse: &mut Reuse, file: u64, bytes: u64, room: u64) -> u32 {
        let (mut places, mut read) = (0, 0);
        for offset in (0..file).step_by(bytes as usize) {
            let seen = reuse.note(offset, bytes, room, Last::Read);
            places += u32::from(seen.places);
            read += u32::from(seen.read);
        }
        read * 100 / places.max(1)
    }

    #[test]
    fn a_second_pass_over_what_fits_is_seen_as_such() {
        for bytes in [4096, 65536, MIB] {
            let mut reuse = Reuse::default();
            assert_eq!(pass(&mut reuse, 64 * MIB, bytes, 256 * MIB), 0, "{bytes}");
            let second = pass(&mut reuse, 64 * MIB, bytes, 256 * MIB);
            assert!(second >= 90, "{bytes}: {second}");
        }
    }

    #[test]
    fn a_pass_over_more_than_memory_finds_nothing_again() {
        for bytes in [4096, MIB] {
            let mut reuse = Reuse::default();
            for _ in 0..3 {
                let again = pass(&mut reuse, 512 * MIB, bytes, 64 * MIB);
                assert!(again <= 10, "{bytes}: {again}");
            }
        }
    }

    #[test]
    fn what_is_kept_says_who_moved_it_last() {
        let mut reuse = Reuse::default();
        let seen = |places, read, written| Seen {
            places,
            read,
            written,
        };
        let mut note = |now| reuse.note(8192, 4096, MIB, now);
        assert_eq!(note(Last::Written), seen(1, 0, 0));
        assert_eq!(note(Last::Read), seen(1, 0, 1));
        assert_eq!(note(Last::Read), seen(1, 1, 0));
        assert_eq!(note(Last::Written), seen(1, 1, 0));
    }

    #[test]
    fn no_offset_and_no_room_is_too_large_or_too_small() {
        let mut reuse = Reuse::default();
        for offset in [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
            for bytes in [0, 1, 4096, 1 << 26, u64::MAX] {
                for room in [0, 1, MIB, u64::MAX] {
                    let seen = reuse.note(offset, bytes, room, Last::Read);
                    assert!(u64::from(seen.places) <= AUTO_PLACES_PER_CALL_MAX);
                }
            }
        }
    }
}
