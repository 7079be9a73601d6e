//! What the file system refused of a file: to ask again would cost each call a system call that fails.

use std::sync::atomic::{AtomicU8, Ordering};

use super::decide::Refused;
use crate::exports::policy::Io;
use crate::operate::io_counters::Reason;

/// The refusals of one file, a bit for each. They are forgotten when the file leaves the cache.
#[derive(Default)]
pub(crate) struct Refusals(AtomicU8);

impl Refusals {
    /// What need not be tried for an operation.
    pub(crate) fn of(&self, io: Io) -> Refused {
        let bits = self.0.load(Ordering::Relaxed);
        let has = |reason: Reason| bits & bit(io, reason) != 0;
        // A file that cannot be opened for direct I/O has not refused a transfer.
        let direct = [Reason::OpenRefused, Reason::RefusedDirect];
        Refused {
            direct: direct.into_iter().find(|reason| has(*reason)),
            dontcache: has(Reason::RefusedDontCache).then_some(Reason::RefusedDontCache),
        }
    }

    /// Remembers why an operation went through the page cache, if it will not go otherwise the next time.
    pub(super) fn remember(&self, io: Io, reason: Reason) {
        self.0.fetch_or(bit(io, reason), Ordering::Relaxed);
    }
}

/// The bit of a refusal; none for what may go well the next time. A file system knows `RWF_DONTCACHE` or
/// does not; direct I/O it may take of one operation only.
fn bit(io: Io, reason: Reason) -> u8 {
    match (reason, io) {
        (Reason::RefusedDontCache, _) => 1,
        (Reason::RefusedDirect, Io::Read) => 2,
        (Reason::RefusedDirect, Io::Write) => 4,
        (Reason::OpenRefused, Io::Read) => 8,
        (Reason::OpenRefused, Io::Write) => 16,
        (
            Reason::AlignmentUnknown
            | Reason::ShorterThanAlignment
            | Reason::NoAlignedMiddle
            | Reason::MemoryNotCongruent
            | Reason::DirectFailed,
            _,
        ) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_its_own_refusals_and_dontcache_is_of_both() {
        let refusals = Refusals::default();
        assert_eq!(refusals.of(Io::Read), Refused::default());
        for reason in Reason::ALL {
            refusals.remember(Io::Write, reason);
        }
        let write = Refused {
            direct: Some(Reason::OpenRefused),
            dontcache: Some(Reason::RefusedDontCache),
        };
        let read = Refused {
            direct: None,
            ..write
        };
        assert_eq!(
            (refusals.of(Io::Write), refusals.of(Io::Read)),
            (write, read)
        );
    }

    #[test]
    fn what_may_go_well_the_next_time_is_not_remembered() {
        let refusals = Refusals::default();
        for reason in [Reason::DirectFailed, Reason::ShorterThanAlignment] {
            refusals.remember(Io::Read, reason);
        }
        assert_eq!(refusals.of(Io::Read), Refused::default());
        refusals.remember(Io::Read, Reason::RefusedDirect);
        assert_eq!(refusals.of(Io::Read).direct, Some(Reason::RefusedDirect));
        assert_eq!(refusals.of(Io::Write), Refused::default());
    }
}
