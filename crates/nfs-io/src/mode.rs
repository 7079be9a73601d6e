//! The ways in which bytes travel between memory and disk, and what it looks like when one is refused.

use std::fmt;
use std::str::FromStr;

use crate::Errno;

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
    /// All modes, from the most to the least that the page cache keeps.
    pub const ALL: [Self; 3] = [Self::Buffered, Self::DontCache, Self::Direct];

    /// The word for it in configuration, options, counters and traces.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::DontCache => "dontcache",
            Self::Direct => "direct",
        }
    }

    /// Whether `errno`, of a transfer in this mode, says that the kernel or the file system does not take the
    /// mode: the same may then be tried in [`Mode::Buffered`], which nothing refuses. Linux says `EINVAL` or
    /// `EOPNOTSUPP`, and `ENOTBLK` of a direct transfer that the file system leaves to the page cache.
    #[must_use]
    pub fn is_refused_by(self, errno: Errno) -> bool {
        match self {
            Self::Buffered => false,
            Self::DontCache | Self::Direct => {
                matches!(errno, Errno::INVAL | Errno::OPNOTSUPP | Errno::NOTBLK)
            }
        }
    }

    /// Whether `errno`, of opening a file with `O_DIRECT`, says that its file system has no direct I/O:
    /// `EINVAL`, or `EOPNOTSUPP` of some on a network.
    #[must_use]
    pub fn is_open_refused_by(errno: Errno) -> bool {
        matches!(errno, Errno::INVAL | Errno::OPNOTSUPP)
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

/// A word that stands for no mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no I/O mode; there are \"buffered\", \"dontcache\" and \"direct\"")]
pub struct UnknownMode;

impl FromStr for Mode {
    type Err = UnknownMode;

    /// # Errors
    /// [`UnknownMode`] for anything but a [`Mode::word`].
    fn from_str(word: &str) -> Result<Self, UnknownMode> {
        let found = Self::ALL.into_iter().find(|mode| mode.word() == word);
        found.ok_or(UnknownMode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for mode in Mode::ALL {
            assert_eq!(mode.word().parse(), Ok(mode));
            assert_eq!(mode.to_string(), mode.word());
        }
        assert_eq!("Direct".parse::<Mode>(), Err(UnknownMode));
        assert_eq!("".parse::<Mode>(), Err(UnknownMode));
    }

    #[test]
    fn only_a_mode_past_or_behind_the_cache_is_refused() {
        for errno in [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOTBLK] {
            let refused = Mode::ALL.map(|mode| mode.is_refused_by(errno));
            assert_eq!(refused, [false, true, true], "{errno}");
        }
        let opening = [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOTBLK, Errno::ACCESS];
        assert_eq!(
            opening.map(Mode::is_open_refused_by),
            [true, true, false, false]
        );
        let by_the_disk = Mode::ALL.map(|mode| mode.is_refused_by(Errno::IO));
        assert_eq!(by_the_disk, [false; 3]);
    }
}
