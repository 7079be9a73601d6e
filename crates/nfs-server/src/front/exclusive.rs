//! How an exclusive CREATE is known again: its verifier is kept in the times of the file until the client sets
//! them (RFC 1813 §3.3.8, RFC 8881 §18.16.3).

use nfs_io::fs::Timestamp;

use crate::vfs::Mark;

/// The verifier as times that every file system keeps: 31 bits of each half as seconds. The bit that is left
/// of each half goes into the nanoseconds, as 1 or 2, so that a file system without them, which gives back 0,
/// can be told.
pub(super) fn mark(verifier: [u8; 8]) -> Mark {
    let [a, b, c, d, e, f, g, h] = verifier;
    Mark {
        mtime: timestamp([a, b, c, d]),
        atime: timestamp([e, f, g, h]),
    }
}

fn timestamp(half: [u8; 4]) -> Timestamp {
    let half = u32::from_be_bytes(half);
    Timestamp {
        sec: i64::from(half & 0x7fff_ffff),
        nsec: 1 + (half >> 31),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_bit_of_a_verifier_is_in_the_times() {
        let mut marks = HashSet::new();
        for bit in 0..64 {
            let Mark { mtime, atime } = mark((1_u64 << bit).to_be_bytes());
            marks.insert((mtime.sec, mtime.nsec, atime.sec, atime.nsec));
            assert!(mtime.sec >= 0 && atime.sec >= 0, "before 1970");
        }
        assert_eq!(marks.len(), 64);
    }
}
