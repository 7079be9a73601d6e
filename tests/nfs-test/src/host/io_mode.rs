//! How the server under test is told to move bytes.

use std::fmt;

use nfs_wire::nfs3::StableHow;

/// The ways in which the server can move bytes between the wire and the disk, or be told to choose among.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Buffered,
    DontCache,
    Direct,
    /// One of the others, for each file as the server thinks best.
    Auto,
}

impl Mode {
    /// The ways in which bytes can move.
    pub(crate) const ALL: [Self; 3] = [Self::Buffered, Self::DontCache, Self::Direct];

    /// What an export can be told.
    pub(crate) const WORDS: [Self; 4] = [Self::Buffered, Self::DontCache, Self::Direct, Self::Auto];

    /// The mode's name in the server's configuration.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::DontCache => "dontcache",
            Self::Direct => "direct",
            Self::Auto => "auto",
        }
    }
}

/// The keys of an export that say how the bytes of READ and WRITE travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IoSetting {
    pub(crate) read: Mode,
    pub(crate) write: Mode,
    /// The least that a WRITE is; `Unstable` for what the client asks.
    pub(crate) floor: StableHow,
    /// A mode of their own for WRITEs of at most [`SMALL_KIB`] KiB: a rule of the export.
    pub(crate) small: Option<Mode>,
    /// Space is taken ahead of streams of WRITEs.
    pub(crate) reserve: bool,
    /// WRITEs that come out of order wait for those before them.
    pub(crate) order: bool,
    /// The ends of direct WRITEs are staged.
    pub(crate) staging: bool,
    /// Large buffered READs are sent from the page cache.
    pub(crate) splice: bool,
}

/// Largest WRITE that counts as small, in KiB.
const SMALL_KIB: u32 = 12;

impl IoSetting {
    /// One mode for READ and WRITE, as stable as the client asks.
    pub(crate) const fn all(mode: Mode) -> Self {
        Self {
            read: mode,
            write: mode,
            floor: StableHow::Unstable,
            small: None,
            reserve: false,
            order: false,
            staging: false,
            splice: false,
        }
    }

    /// All direct, with the ends of WRITEs staged.
    pub(crate) const fn staged() -> Self {
        Self {
            staging: true,
            ..Self::all(Mode::Direct)
        }
    }

    /// The setting as TOML, to be put at the end of an `[[export]]` section.
    pub(crate) fn toml(self) -> String {
        let (read, write) = (self.read.word(), self.write.word());
        let stable = self.floor_word();
        let Self {
            reserve,
            order,
            staging,
            splice,
            ..
        } = self;
        let keys = format!(
            "read = \"{read}\"\nwrite = \"{write}\"\nstable = \"{stable}\"\nreserve = {reserve}\n\
             order = {order}\nstaging = {staging}\nsplice = {splice}\n"
        );
        let rule = self.small.map(|mode| {
            let mode = mode.word();
            format!(
                "[[export.rule]]\nop = \"write\"\nmax_size = \"{SMALL_KIB}KiB\"\nmode = \"{mode}\"\n"
            )
        });
        keys + &rule.unwrap_or_default()
    }

    const fn floor_word(self) -> &'static str {
        match self.floor {
            StableHow::Unstable => "asked",
            StableHow::DataSync => "data-sync",
            StableHow::FileSync => "file-sync",
        }
    }
}

impl fmt::Display for IoSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (read, write) = (self.read.word(), self.write.word());
        write!(f, "READ {read}, WRITE {write}")?;
        if self.staging {
            f.write_str(" staged")?;
        }
        if let Some(small) = self.small {
            write!(f, ", small ones {}", small.word())?;
        }
        if self.reserve {
            write!(f, ", reserve")?;
        }
        if self.order {
            write!(f, ", order")?;
        }
        if self.splice {
            write!(f, ", splice")?;
        }
        match self.floor {
            StableHow::Unstable => Ok(()),
            _ => write!(f, " and {}", self.floor_word()),
        }
    }
}
