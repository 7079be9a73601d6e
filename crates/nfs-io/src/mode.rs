//! The ways in which bytes travel between memory and disk.

use std::fmt;

/// How bytes travel between memory and disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Through the page cache, and kept there.
    #[default]
    Buffered,
    /// Through the page cache, and dropped behind: `RWF_DONTCACHE`, Linux 6.14.
    DontCache,
    /// Past the page cache: the file was opened with `O_DIRECT`.
    Direct,
}

impl Mode {
    /// The word for it in configuration, counters and traces.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::DontCache => "dontcache",
            Self::Direct => "direct",
        }
    }

    /// The `RWF_*` bits of preadv2(2) and pwritev2(2). `Direct` is a property of the open file.
    pub(crate) fn rwf(self) -> u32 {
        match self {
            Self::Buffered | Self::Direct => 0,
            Self::DontCache => libc::RWF_DONTCACHE as u32,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
