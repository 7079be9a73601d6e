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
            jobs: limits::JOBS_DEFAULT,
            local: Mode::Buffered,
            fsync: false,
            umask: 0o022,
            filter: Filter::default(),
            rate: None,
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
