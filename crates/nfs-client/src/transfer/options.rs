//! What a copy is to do.

use std::num::NonZeroU64;

use nfs_io::Mode;

use super::filter::Filter;
use crate::limits;

/// What a copy is to do. The default copies one file as cp(1) does without options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Copy directories with all that they hold.
    pub recursive: bool,
    /// What is kept of the source besides its bytes.
    pub preserve: Preserve,
    /// Which symbolic links of the source are followed.
    pub follow: Follow,
    /// What happens to a file that is there already.
    pub existing: Existing,
    /// Which parts of a file are left as holes.
    pub sparse: Sparse,
    /// Read both sides again after the copy and compare their checksums.
    pub verify: bool,
    /// Change nothing; report what would be done.
    pub dry_run: bool,
    /// Never copy *into* a destination that is a directory.
    pub onto: bool,
    /// Copy into the destination, which has to be a directory. Not with [`Self::onto`].
    pub into: bool,
    /// A file that is there and cannot be written to is removed, and made anew.
    pub force: bool,
    /// Files copied at once, 1 to [`limits::JOBS_MAX`].
    pub jobs: u32,
    /// How files of this host are read and written, where their file system and the alignment allow it; through
    /// the page cache where not.
    pub local: Mode,
    /// Bring files of this host to stable storage before they count as done.
    pub fsync: bool,
    /// Permission bits that new files do not get, unless modes are kept.
    pub umask: u32,
    /// Which names of trees are copied.
    pub filter: Filter,
    /// Bytes per second over all files together, checksums' reading included.
    pub rate: Option<NonZeroU64>,
    /// How often a file that failed is tried again, after a pause that doubles from a second on. What cannot
    /// pass by itself (a missing permission, a directory in the way) is not.
    pub retries: u32,
    /// Paths below the source that alone are copied, with what leads to them and what lies below them; all if it
    /// is empty. One that is not there is an error.
    pub only: Vec<Vec<u8>>,
    /// The destination is to become like the source: see [`mirror`](super::mirror). What is said of files that
    /// are there already ([`Self::existing`]) does not count then.
    pub mirror: Option<Mirror>,
}

/// How a destination becomes like its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mirror {
    /// What tells that a file is there already as it is to be.
    pub compare: Compare,
    /// Remove what the source does not have, when all else is done and nothing failed.
    pub delete: Option<Delete>,
}

/// How much may be removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delete {
    /// Files and directories that may go; if it would be more, nothing is removed. Any number if `None`.
    pub max: Option<u64>,
}

/// What tells that a file is there already as it is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compare {
    /// Its size, and its time of modification as precisely as the destination keeps it.
    #[default]
    TimeAndSize,
    /// Its size alone.
    Size,
    /// Its content: both sides are read, and their checksums (BLAKE3) compared.
    Checksum,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            recursive: false,
            preserve: Preserve::default(),
            follow: Follow::Auto,
            existing: Existing::Replace,
            sparse: Sparse::Auto,
            verify: false,
            dry_run: false,
            onto: false,
            into: false,
            force: false,
            jobs: limits::JOBS_DEFAULT,
            local: Mode::Buffered,
            fsync: false,
            umask: 0o022,
            filter: Filter::default(),
            rate: None,
            retries: 0,
            only: Vec::new(),
            mirror: None,
        }
    }
}

/// What is kept of the source besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preserve {
    /// All permission bits, set-user-ID and the like among them.
    pub mode: bool,
    /// Times of the last access and the last change.
    pub times: bool,
    /// Owner and group, where the caller may set them.
    pub owner: bool,
    /// Names of one file stay names of one file.
    pub links: bool,
}

impl Preserve {
    /// All that can be kept is kept.
    pub const ALL: Self = Self {
        mode: true,
        times: true,
        owner: true,
        links: true,
    };
}

/// Which symbolic links of the source are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// Those that were named, unless trees are copied; as cp(1) does.
    Auto,
    /// All symbolic links are followed.
    Always,
    /// None: a link is copied as a link.
    Never,
}

/// What happens to a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It gets the new content, in place.
    Replace,
    /// It is left as it is.
    Keep,
    /// Who watches is asked ([`Watch::asking`](super::Watch::asking)): it gets the new content, or is left as it is.
    Ask,
    /// It is left as it is unless the source changed later.
    ReplaceOlder,
    /// What is there of an earlier, interrupted copy stays, and the rest is copied.
    Resume,
}

/// Which parts of a file are left as holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sparse {
    /// Holes of the source. On a server, which cannot tell them: blocks of zeros, if the source has
    /// fewer bytes in use than its size.
    Auto,
    /// Every block of zeros becomes a hole.
    Always,
    /// No hole is made: zeros are written as other bytes are.
    Never,
}
