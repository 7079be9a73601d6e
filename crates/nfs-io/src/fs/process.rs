//! What concerns the process as a whole and files.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::Mode;
use rustix::io::retry_on_intr;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

use super::open::{FdName, proc_fd_dir};
use crate::Result;

/// The path the kernel shows for a descriptor: for messages, never to be opened. A removed
/// object's ends in ` (deleted)`.
///
/// # Errors
/// `ENOENT` without `/proc`.
pub fn fd_path(fd: BorrowedFd<'_>) -> Result<PathBuf> {
    let (dir, name) = (proc_fd_dir()?, FdName::new(fd));
    let path = retry_on_intr(|| rustix::fs::readlinkat(dir, name.as_bytes(), Vec::new()))?;
    Ok(OsString::from_vec(path.into_bytes()).into())
}

/// The number of descriptors the process may have now.
#[must_use]
pub fn nofile() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the number of descriptors to `wanted`, or as far as allowed: past the hard limit only
/// with `CAP_SYS_RESOURCE`. Never lowers it. Returns the number in force.
pub fn raise_nofile(wanted: u64) -> u64 {
    let before = getrlimit(Resource::Nofile);
    if before.current.is_none_or(|soft| soft >= wanted) {
        return nofile();
    }
    let hard_enough = before.maximum.is_none_or(|hard| hard >= wanted);
    let full = Rlimit {
        current: Some(wanted),
        maximum: if hard_enough {
            before.maximum
        } else {
            Some(wanted)
        },
    };
    if setrlimit(Resource::Nofile, full).is_err() {
        // Not allowed past the hard limit (or past fs.nr_open): as far as it goes. Where even
        // that is refused the number in force, which is returned, tells.
        let within = Rlimit {
            current: before.maximum,
            maximum: before.maximum,
        };
        let _unchanged_then = setrlimit(Resource::Nofile, within);
    }
    nofile()
}

/// Sets the file mode creation mask to 0: the modes a client asks for are what files get. The
/// mask belongs to the whole process; call it once, early. Returns the mask before.
pub fn umask_zero() -> u32 {
    umask(Mode::empty()).as_raw_mode()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn descriptors_have_a_path_for_messages() {
        let scratch = Scratch::new();
        let shown = fd_path(scratch.dir()).unwrap();
        assert_eq!(shown, scratch.path.path().canonicalize().unwrap());
        let file = scratch.file("f", b"");
        super::super::unlinkat(scratch.dir(), b"f").unwrap();
        let shown = fd_path(file.as_fd()).unwrap();
        assert!(shown.to_string_lossy().ends_with("f (deleted)"));
    }

    #[test]
    fn the_number_of_descriptors_only_grows() {
        let before = nofile();
        assert!(raise_nofile(1) >= before);
        let raised = raise_nofile(before + 1);
        assert!(raised >= before && raised == nofile());
    }
}
