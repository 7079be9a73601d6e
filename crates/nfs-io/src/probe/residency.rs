//! How much of a file is in the page cache: cachestat(2), or mincore(2) where that is blind.
//!
//! The first looks at the pages of the file it is given. An overlayfs file has none of its own:
//! they belong to the file of the layer beneath, which a mapping leads to. So the way of looking
//! is chosen by trying it on pages that must be there.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::io::retry_on_intr;

use crate::{Errno, Result, fs};

/// A way of counting cached pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Meter {
    /// By cachestat(2), which Linux has since 6.5.
    Cachestat,
    /// By a mapping of the file, mmap(2), and mincore(2).
    Mincore,
}

impl Meter {
    /// Both ways, the cheaper one first.
    pub const ALL: [Self; 2] = [Self::Cachestat, Self::Mincore];

    /// The name of the system call.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cachestat => "cachestat",
            Self::Mincore => "mincore",
        }
    }

    /// The first that sees at least one of the file's first `bytes` in the page cache, just
    /// written there. `None` where neither does: nothing can be told about caching then.
    pub(super) fn choose(file: BorrowedFd<'_>, bytes: usize) -> Option<Self> {
        Self::ALL.into_iter().find(|meter| {
            meter
                .cached_pages(file, 0, bytes)
                .is_ok_and(|pages| pages > 0)
        })
    }

    /// How many pages of `len` bytes from `offset` (a multiple of the page size) are in the page
    /// cache. `file` is open for reading and writing: without the right to write, mincore calls
    /// everything cached.
    pub(super) fn cached_pages(self, file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<u64> {
        match self {
            Self::Cachestat => Ok(fs::cachestat(file, offset, len as u64)?.cached),
            Self::Mincore => mincore(file, offset, len),
        }
    }
}

fn mincore(file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<u64> {
    let mapping = Mapping::new(file, offset, len)?;
    let mut pages = vec![0_u8; len.div_ceil(rustix::param::page_size())];
    retry_on_intr(|| {
        // SAFETY: the mapping is ours and `len` bytes long; the vector has one byte for each of
        // its pages. No byte of the mapping is touched, so a file that shrinks does no harm.
        let done = unsafe { libc::mincore(mapping.start, len, pages.as_mut_ptr()) };
        if done < 0 { Err(last_errno()) } else { Ok(()) }
    })?;
    Ok(pages.iter().filter(|&&page| page & 1 != 0).count() as u64)
}

/// A part of a file in our address space, unmapped on drop.
struct Mapping {
    start: *mut libc::c_void,
    len: usize,
}

impl Mapping {
    fn new(file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Self> {
        let offset = i64::try_from(offset).map_err(|_| Errno::INVAL)?;
        // SAFETY: a new mapping at a place the kernel chooses; nothing else can be there.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(last_errno());
        }
        Ok(Self { start, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` made exactly this mapping and nobody else knows of it.
        let done = unsafe { libc::munmap(self.start, self.len) };
        debug_assert_eq!(done, 0, "a mapping of ours can be unmapped");
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::testing::{Scratch, skip, small_tmpfs};

    #[test]
    fn both_ways_count_the_same_pages() {
        let scratch = Scratch::new();
        let page = rustix::param::page_size();
        let file = scratch.file("f", &vec![7; 5 * page]);
        let counts = Meter::ALL.map(|meter| meter.cached_pages(file.as_fd(), 0, 5 * page));
        for count in counts {
            assert!(
                [Ok(5), Err(Errno::NOSYS), Err(Errno::PERM)].contains(&count),
                "{count:?}"
            );
        }
        let empty = scratch.file("empty", b"");
        assert_eq!(Meter::choose(empty.as_fd(), page), None);
    }

    #[test]
    fn a_tmpfs_keeps_its_pages() {
        let Some(mount) = small_tmpfs(1 << 20) else {
            skip!("mounting a tmpfs needs CAP_SYS_ADMIN");
        };
        let file = fs::tmpfile(mount.as_fd(), 0o600).unwrap();
        rustix::io::pwrite(&file, &[1; 8192], 0).unwrap();
        let meter = Meter::choose(file.as_fd(), 8192).unwrap();
        let pages = 8192 / rustix::param::page_size().min(8192);
        assert_eq!(meter.cached_pages(file.as_fd(), 0, 8192), Ok(pages as u64));
    }
}
