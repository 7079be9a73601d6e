//! Memory that is there when it is needed.
//!
//! The host of a virtual machine may take the memory back that the machine has free ("free page reporting"), and each page
//! of it that is used again is then given by the host first. Who is measured first after a pause pays for memory that all
//! others have at hand: WRITEs of 1 MiB in 512 MiB of memory took 3471 MiB/s (median of seven, 1322 to 4851), and 4799
//! after free memory was written to (1471 to 5108; Linux 6.18). So memory is taken, written to and freed before each
//! measurement that needs much. Where the host takes none back it does no harm.

use std::hint::black_box;

use nfs_io::memory::MemoryWatch;

use crate::environment::kib_field;
use crate::limits::{TOUCHED_BYTES_MAX, TOUCHED_FREE_FRACTION, TOUCHED_PIECE_BYTES};

/// Writes to `bytes` of free memory and frees them again, but to no more than [`TOUCHED_BYTES_MAX`] and than a part of what
/// is free for this process: nothing is to be pushed out of memory for it. Ends early once `is_over` says so. A GiB takes
/// a quarter of a second to a second.
pub fn touch(bytes: u64, is_over: impl Fn() -> bool) {
    if bytes == 0 {
        return;
    }
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = kib_field(&meminfo, "MemFree:");
    let may_have = MemoryWatch::open().figures().page_cache_bytes_max;
    // What the kernel does not tell is not used up.
    let free = free.unwrap_or(0).min(may_have.unwrap_or(0));
    let bytes = usize::try_from(bytes_to_touch(bytes, free)).unwrap_or(usize::MAX);
    write_to(bytes, is_over);
}

/// Writes to so many bytes, or to fewer where it is over first. Returns how many.
fn write_to(bytes: usize, is_over: impl Fn() -> bool) -> usize {
    let mut memory = Vec::<u8>::new();
    if memory.try_reserve_exact(bytes).is_ok() {
        while memory.len() < bytes && !is_over() {
            memory.resize(bytes.min(memory.len() + TOUCHED_PIECE_BYTES), 1);
        }
    }
    black_box(&memory).len()
}

fn bytes_to_touch(wanted: u64, free: u64) -> u64 {
    wanted
        .min(TOUCHED_BYTES_MAX)
        .min(free / TOUCHED_FREE_FRACTION)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn as_much_is_touched_as_is_wanted_and_free() {
        let mib = |wanted: u64, free: u64| bytes_to_touch(wanted << 20, free << 20) >> 20;
        assert_eq!(mib(100, 8192), 100);
        assert_eq!(mib(4096, 8192), 2048);
        assert_eq!(mib(4096, 1000), 500);
    }

    #[test]
    fn it_is_written_to_until_it_is_over() {
        let wanted = 2 * TOUCHED_PIECE_BYTES;
        assert_eq!(write_to(wanted, || false), wanted);
        let looks = Cell::new(0);
        let second = || looks.replace(looks.get() + 1) == 1;
        assert_eq!(write_to(wanted, second), TOUCHED_PIECE_BYTES);
        touch(u64::MAX, || true);
    }
}
