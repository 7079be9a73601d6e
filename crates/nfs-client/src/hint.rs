//! What a program says of how it will read a file: the advice of posix_fadvise(2), for files without a page cache.

use std::fmt;
use std::str::FromStr;

/// How a file will be read, by the names of posix_fadvise(2). A hint changes what is asked for ahead of a
/// reader and when, never what a read returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    /// Nothing is said: what the reads have in common is found from them.
    #[default]
    Normal,
    /// From one end to the other: the full window of READs is sent with the first read, wherever that is.
    Sequential,
    /// Here and there: nothing is read ahead, also where reads go on from each other.
    Random,
    /// Once. This client keeps nothing for a second reader in any case; what was read ahead and lies behind
    /// a read is dropped with it, and not a second later.
    NoReuse,
    /// Soon: READs of the range are sent now, as many as the window and the memory have room for, and are
    /// given up if nobody comes for them. How reads are taken otherwise stays as it was said before.
    WillNeed {
        /// Where the range begins, in bytes.
        offset: u64,
        /// How many bytes it has; what is beyond the end of the file counts for nothing.
        len: u64,
    },
}

impl Hint {
    /// The hint that all of a file will be needed.
    pub const WILL_NEED_ALL: Self = Self::WillNeed {
        offset: 0,
        len: u64::MAX,
    };

    /// The words for hints on command lines and in URLs. A range is left out of them: it is all of the file.
    pub const WORDS: [(&str, Self); 5] = [
        ("normal", Self::Normal),
        ("sequential", Self::Sequential),
        ("random", Self::Random),
        ("noreuse", Self::NoReuse),
        ("willneed", Self::WILL_NEED_ALL),
    ];
}

/// A word that is no hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give sequential, random, noreuse, willneed or normal")]
pub struct UnknownHint;

impl FromStr for Hint {
    type Err = UnknownHint;

    fn from_str(text: &str) -> Result<Self, UnknownHint> {
        let known = Self::WORDS.into_iter().find(|(word, _)| *word == text);
        known.map(|(_, hint)| hint).ok_or(UnknownHint)
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "normal",
            Self::Sequential => "sequential",
            Self::Random => "random",
            Self::NoReuse => "noreuse",
            Self::WillNeed { .. } => "willneed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_shown() {
        for (word, hint) in Hint::WORDS {
            assert_eq!((word.parse(), hint.to_string().as_str()), (Ok(hint), word));
        }
        assert_eq!("dontneed".parse::<Hint>(), Err(UnknownHint));
        for (word, _) in Hint::WORDS {
            assert!(UnknownHint.to_string().contains(word), "{word}");
        }
    }
}
