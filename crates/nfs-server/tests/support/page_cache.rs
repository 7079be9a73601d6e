//! Pages of files that are in the page cache for as long as a test wants.

use std::fs::File;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::Advice;
use rustix::pipe::SpliceFlags;

/// How often a test tries what the kernel may come between: where memory is short it takes clean pages for others at
/// any moment, and a page that it is looking at stays when it is dropped, that time.
pub(crate) const TRIES: u32 = 16;

/// Pages of a file that stay in the page cache until this is dropped, whoever needs memory meanwhile: they are those
/// of a pipe, too.
pub(crate) struct Kept {
    _pipe: (OwnedFd, OwnedFd),
}

impl Kept {
    /// The pages of these ranges, in bytes; what is not in the page cache is read into it, and nothing else of the file.
    /// No more than a pipe takes, which is 16 pages.
    pub(crate) fn new(file: &Path, ranges: &[Range<u64>]) -> Self {
        let file = File::open(file).unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::Random).unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let rest = usize::try_from(range.end - at).unwrap();
                let flags = SpliceFlags::NONBLOCK;
                let kept = rustix::pipe::splice(&file, Some(&mut at), &writer, None, rest, flags);
                assert!(kept.unwrap() > 0, "the file ends at {at}");
            }
        }
        Self {
            _pipe: (reader, writer),
        }
    }
}
