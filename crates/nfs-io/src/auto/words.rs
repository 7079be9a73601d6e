//! The words for why a mode was chosen, and for what is said of a file beforehand.

/// Why a mode was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Nothing is known of the file's calls yet.
    #[default]
    Beginning,
    /// The configuration says what the file's calls are like.
    Hint,
    /// The file is so small that the page cache is the place for it.
    SmallFile,
    /// Tasks wait for memory.
    Pressure,
    /// What is moved was moved before, not long ago.
    Reused,
    /// What is read is in the page cache already.
    Cached,
    /// The file has its place in memory.
    Fits,
    /// Large calls one after the other that do not come back, on more than memory holds.
    Stream,
    /// Small READs one after the other that do not come back.
    SmallStream,
    /// Calls here and there that do not come back, on more than memory holds.
    Scattered,
    /// WRITEs whose ends are parts of blocks.
    Unaligned,
    /// Small WRITEs, which the page cache gathers.
    Small,
    /// WRITEs that are on stable storage when they are answered, of whole blocks.
    Stable,
    /// The file does not take the mode that was chosen before.
    Refused,
    /// The mode that was chosen before was slower than the one before it.
    Slower,
}

impl Reason {
    /// All reasons, in the order in which the tables of figures show them.
    pub const ALL: [Self; 15] = [
        Self::Beginning,
        Self::Hint,
        Self::SmallFile,
        Self::Pressure,
        Self::Reused,
        Self::Cached,
        Self::Fits,
        Self::Stream,
        Self::SmallStream,
        Self::Scattered,
        Self::Unaligned,
        Self::Small,
        Self::Stable,
        Self::Refused,
        Self::Slower,
    ];

    /// The word for it in counters and traces.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Beginning => "beginning",
            Self::Hint => "hint",
            Self::SmallFile => "small-file",
            Self::Pressure => "pressure",
            Self::Reused => "reused",
            Self::Cached => "cached",
            Self::Fits => "fits",
            Self::Stream => "stream",
            Self::SmallStream => "small-stream",
            Self::Scattered => "scattered",
            Self::Unaligned => "unaligned",
            Self::Small => "small",
            Self::Stable => "stable",
            Self::Refused => "refused",
            Self::Slower => "slower",
        }
    }

    /// The reason in a sentence for people, without its full stop.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Beginning => "too few calls were seen yet to say what they have in common",
            Self::Hint => "the hint says so",
            Self::SmallFile => "the file is small",
            Self::Pressure => {
                "tasks wait for memory, and the calls do not come back to what was moved"
            }
            Self::Reused => "the calls come back to what was moved lately",
            Self::Cached => "what is read is in the page cache already",
            Self::Fits => "the file has its place in memory",
            Self::Stream => {
                "large calls one after the other do not come back, and memory cannot hold the file"
            }
            Self::SmallStream => {
                "small READs one after the other do not come back: the kernel reads ahead of them"
            }
            Self::Scattered => {
                "calls here and there do not come back, and memory cannot hold the file"
            }
            Self::Unaligned => "the ends of the WRITEs are parts of blocks, and are not staged",
            Self::Small => "the WRITEs are small: the page cache gathers them",
            Self::Stable => {
                "the WRITEs are stable and of whole blocks: they have to go to the disk at once"
            }
            Self::Refused => "the file does not take the mode that was chosen before",
            Self::Slower => "the mode that was chosen before was slower than this one",
        }
    }
}

/// What is said of a file's calls beforehand, by the names of posix_fadvise(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hint {
    /// Nothing: the calls show it.
    #[default]
    Normal,
    /// They go from one end to the other.
    Sequential,
    /// They go here and there.
    Random,
    /// What they move is not wanted again soon.
    NoReuse,
    /// What they move is wanted again soon: it belongs into memory.
    WillNeed,
}

impl Hint {
    /// The words of the configuration.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("normal", Self::Normal),
        ("sequential", Self::Sequential),
        ("random", Self::Random),
        ("noreuse", Self::NoReuse),
        ("willneed", Self::WillNeed),
    ];
}
