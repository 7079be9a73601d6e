//! What a client counts of its files: how deep their windows are, and what was served without asking the server.

use super::memory::{Direction, ServedFrom};
use super::{Depth, Files};

/// How much the files of a client have on their way, or may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowStatistics {
    /// How deep a window of READs ahead is to be.
    pub read: Depth,
    /// Where a window of READs arrived last, transfers; `None` before one has measured anything, and with a given
    /// depth.
    pub read_found: Option<u32>,
    /// Bytes of a READ ahead in the window that arrived last.
    pub read_bytes: u64,
    /// How deep a window of WRITEs behind is to be.
    pub write: Depth,
    /// Where a window of WRITEs arrived last, transfers; as [`Self::read_found`].
    pub write_found: Option<u32>,
    /// Bytes of a full WRITE.
    pub write_bytes: u64,
    /// Windows that hold something now: data on its way, read ahead, or not yet on stable storage.
    pub busy: u32,
    /// Files that are known: open, or with WRITEs on their way.
    pub files: u64,
    /// Memory of all windows now, bytes.
    pub memory_bytes: u64,
    /// The most memory that all windows had at once, bytes.
    pub memory_bytes_peak: u64,
    /// Memory that all windows may have together, bytes.
    pub memory_bytes_max: u64,
}

/// Where what programs asked for came from. What the kernel of a mount keeps itself is not seen here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Pieces of data that had been read ahead and were there.
    pub data_ahead: u64,
    /// Pieces of data that were being read ahead, and were waited for.
    pub data_coming: u64,
    /// Pieces of data that a READ was sent for when they were asked for.
    pub data_asked: u64,
    /// Attributes of open files that were known.
    pub attributes_known: u64,
    /// Attributes of open files that a GETATTR was sent for.
    pub attributes_asked: u64,
}

impl CacheStatistics {
    /// What came since `earlier`; `None` where that is no earlier state of this one.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        Some(Self {
            data_ahead: self.data_ahead.checked_sub(earlier.data_ahead)?,
            data_coming: self.data_coming.checked_sub(earlier.data_coming)?,
            data_asked: self.data_asked.checked_sub(earlier.data_asked)?,
            attributes_known: self
                .attributes_known
                .checked_sub(earlier.attributes_known)?,
            attributes_asked: self
                .attributes_asked
                .checked_sub(earlier.attributes_asked)?,
        })
    }
}

impl Files {
    pub(crate) fn window_statistics(&self) -> WindowStatistics {
        let (sizes, windows) = (self.transfer, self.windows);
        let read = self.memory.found(Direction::Read);
        let write = self.memory.found(Direction::Write);
        let doubled = read.map_or(0, |found| found.doubled());
        let usual = |bytes: u32| u64::from(bytes.min(windows.transfer_bytes_max));
        let budget = self.memory.budget();
        WindowStatistics {
            read: windows.read,
            read_found: read.map(|found| found.depth()),
            read_bytes: usual(sizes.read) << doubled,
            write: windows.write,
            write_found: write.map(|found| found.depth()),
            write_bytes: usual(sizes.write),
            busy: self.memory.windows(),
            files: u64::try_from(self.count()).unwrap_or(u64::MAX),
            memory_bytes: budget.in_use(),
            memory_bytes_peak: budget.peak(),
            memory_bytes_max: budget.total(),
        }
    }

    pub(crate) fn cache_statistics(&self) -> CacheStatistics {
        let count = |from| self.memory.served_count(from);
        CacheStatistics {
            data_ahead: count(ServedFrom::Ahead),
            data_coming: count(ServedFrom::Coming),
            data_asked: count(ServedFrom::Read),
            attributes_known: count(ServedFrom::Known),
            attributes_asked: count(ServedFrom::Getattr),
        }
    }
}
