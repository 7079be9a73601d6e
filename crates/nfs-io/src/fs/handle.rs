//! Kernel file handles: names of inodes that survive renames and restarts;
//! name_to_handle_at(2), open_by_handle_at(2).

use std::ffi::{CStr, CString, c_int};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::retry_on_intr;

use super::one_name;
use crate::limits::{HANDLE_OPENS_MAX, KERNEL_HANDLE_BYTES_MAX};
use crate::{Errno, Result};

/// A kernel file handle: a type and up to 128 bytes, opaque to us.
#[derive(Clone, Copy)]
pub struct KernelHandle {
    kind: i32,
    len: u8,
    bytes: [u8; KERNEL_HANDLE_BYTES_MAX],
}

impl KernelHandle {
    /// Puts a handle together again from what [`KernelHandle::kind`] and
    /// [`KernelHandle::bytes`] gave.
    ///
    /// # Errors
    /// `EINVAL` for more than 128 bytes.
    pub fn new(kind: i32, bytes: &[u8]) -> Result<Self> {
        let mut handle = Self {
            kind,
            len: 0,
            bytes: [0; KERNEL_HANDLE_BYTES_MAX],
        };
        handle
            .bytes
            .get_mut(..bytes.len())
            .ok_or(Errno::INVAL)?
            .copy_from_slice(bytes);
        handle.len = u8::try_from(bytes.len()).map_err(|_| Errno::INVAL)?;
        Ok(handle)
    }

    /// The file system's handle type.
    #[must_use]
    pub fn kind(&self) -> i32 {
        self.kind
    }

    /// The bytes of the handle, which have a meaning to the kernel alone.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl PartialEq for KernelHandle {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.bytes() == other.bytes()
    }
}

impl Eq for KernelHandle {}

impl std::fmt::Debug for KernelHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KernelHandle({}:", self.kind)?;
        self.bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ")")
    }
}

/// The handle of an open object (an `O_PATH` descriptor too) and the id of its mount, as in the
/// first column of `/proc/self/mountinfo`.
///
/// # Errors
/// `EOPNOTSUPP` where the file system has no handles.
pub fn name_to_handle(fd: BorrowedFd<'_>) -> Result<(KernelHandle, i32)> {
    handle_of(fd, c"", libc::AT_EMPTY_PATH)
}

/// The handle of the object `name` in `dir`; a symbolic link is not followed.
///
/// # Errors
/// `ENOENT`, and `EOPNOTSUPP` where the file system has no handles.
pub fn name_to_handle_at(dir: BorrowedFd<'_>, name: &[u8]) -> Result<(KernelHandle, i32)> {
    let name = CString::new(one_name(name)?).map_err(|_| Errno::INVAL)?;
    handle_of(dir, &name, 0)
}

/// Opens the object of a handle. `mount` is any descriptor on the same mount, but not an
/// `O_PATH` one (the kernel answers `EBADF`): see [`super::open_dir`]. Needs
/// `CAP_DAC_READ_SEARCH`. `flags` may contain `O_PATH`; `O_CLOEXEC` is added.
///
/// # Errors
/// `ESTALE` where the object is gone, `EPERM` without the capability, `ENOMEM` where the kernel has
/// no memory, or says so for longer than a while because a file is being made with the inode number of
/// one that is gone. An object that was removed but is still open somewhere is found; its
/// [`super::Stat::nlink`] is 0.
pub fn open_by_handle(
    mount: BorrowedFd<'_>,
    handle: &KernelHandle,
    flags: OFlags,
) -> Result<OwnedFd> {
    let mut raw = RawHandle {
        len: u32::from(handle.len),
        kind: handle.kind,
        bytes: handle.bytes,
    };
    let flags = (flags | OFlags::CLOEXEC).bits() as c_int;
    let mut tries = 0;
    retry_on_intr(|| {
        // SAFETY: `raw` has the layout of `struct file_handle` followed by the room its length
        // field promises (`KernelHandle` keeps len <= 128), and lives through the call.
        let fd =
            unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut raw).cast(), flags) };
        if fd < 0 {
            let error = last_errno();
            tries += 1;
            // ext4 finds no inode in memory while its number is given to a new file (`iget_locked`
            // with `I_CREATING`), and calls that ENOMEM: soon there is one, of another generation.
            if error == Errno::NOMEM && tries < HANDLE_OPENS_MAX {
                std::thread::yield_now();
                return Err(Errno::INTR);
            }
            return Err(error);
        }
        // SAFETY: the kernel just made this descriptor for us; nobody else knows its number.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    })
}

fn handle_of(dir: BorrowedFd<'_>, name: &CStr, flags: c_int) -> Result<(KernelHandle, i32)> {
    let mut raw = RawHandle {
        len: KERNEL_HANDLE_BYTES_MAX as u32,
        kind: 0,
        bytes: [0; KERNEL_HANDLE_BYTES_MAX],
    };
    let mut mount_id: c_int = 0;
    retry_on_intr(|| {
        // SAFETY: `raw` has the layout of `struct file_handle` with 128 bytes of room, as its
        // length field says; `name` and `mount_id` are valid for the call.
        let done = unsafe {
            libc::name_to_handle_at(
                dir.as_raw_fd(),
                name.as_ptr(),
                (&raw mut raw).cast(),
                &raw mut mount_id,
                flags,
            )
        };
        if done < 0 { Err(last_errno()) } else { Ok(()) }
    })?;
    let len = u8::try_from(raw.len)
        .ok()
        .filter(|&len| usize::from(len) <= KERNEL_HANDLE_BYTES_MAX)
        .ok_or(Errno::OVERFLOW)?;
    Ok((
        KernelHandle {
            kind: raw.kind,
            len,
            bytes: raw.bytes,
        },
        mount_id,
    ))
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// `struct file_handle` with room for the longest handle.
#[repr(C)]
struct RawHandle {
    len: u32,
    kind: i32,
    bytes: [u8; KERNEL_HANDLE_BYTES_MAX],
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::Arc;

    use super::super::{renameat, statx, unlinkat};
    use super::*;
    use crate::caps::{self, Capability};
    use crate::testing::{Scratch, skip, small_tmpfs};

    fn ino(fd: &OwnedFd) -> u64 {
        statx(fd.as_fd()).unwrap().ino
    }

    #[test]
    fn a_handle_finds_its_object_again() {
        if !caps::has(Capability::DacReadSearch) {
            skip!("open_by_handle_at needs CAP_DAC_READ_SEARCH");
        }
        let scratch = Scratch::new();
        drop(scratch.file("a", b"x"));
        let object = scratch.object("a");
        let (handle, mount_id) = name_to_handle(object.as_fd()).unwrap();
        assert_eq!(
            name_to_handle_at(scratch.dir(), b"a").unwrap(),
            (handle, mount_id)
        );
        assert_eq!(statx(object.as_fd()).unwrap().mnt_id, mount_id as u64);
        renameat(scratch.dir(), b"a", scratch.dir(), b"b").unwrap();

        let again = KernelHandle::new(handle.kind(), handle.bytes()).unwrap();
        assert_eq!(again, handle);
        let path = open_by_handle(scratch.dir(), &again, OFlags::PATH).unwrap();
        assert_eq!(ino(&path), ino(&object));
        let file = open_by_handle(scratch.dir(), &again, OFlags::RDWR).unwrap();
        assert_eq!(rustix::io::pwrite(&file, b"y", 0), Ok(1));
        let directory = name_to_handle(scratch.dir()).unwrap().0;
        assert!(open_by_handle(scratch.dir(), &directory, OFlags::DIRECTORY).is_ok());

        unlinkat(scratch.dir(), b"b").unwrap();
        // While somebody has it open the object lives on, without a name.
        let nameless = open_by_handle(scratch.dir(), &again, OFlags::PATH).unwrap();
        assert_eq!(statx(nameless.as_fd()).unwrap().nlink, 0);
        drop((object, path, file, nameless));
        // Other tests make files here, of which one may get the number at this moment; and they start programs:
        // until a child runs its own it has our descriptors open.
        let is_passing = |gone: &Result<OwnedFd>| match gone {
            Ok(gone) => statx(gone.as_fd()).unwrap().nlink == 0,
            Err(errno) => *errno == Errno::NOMEM,
        };
        let gone = std::iter::repeat_with(|| open_by_handle(scratch.dir(), &again, OFlags::PATH))
            .take(10_000_000)
            .find(|gone| !is_passing(gone));
        assert_eq!(gone.unwrap().unwrap_err(), Errno::STALE);
    }

    #[test]
    fn what_is_gone_is_stale_while_its_number_is_given_again() {
        if !caps::has(Capability::DacReadSearch) {
            skip!("open_by_handle_at needs CAP_DAC_READ_SEARCH");
        }
        let scratch = Scratch::new();
        let over = Arc::new(());
        let (mut stale, mut busy, mut held) = (0, 0, 0);
        std::thread::scope(|scope| {
            // Gone when this thread is through, also by a panic: the scope waits for the other one.
            let looking = Arc::clone(&over);
            scope.spawn(|| {
                while Arc::strong_count(&over) > 1 {
                    for name in ["one", "two", "three"] {
                        drop(scratch.file(name, b""));
                    }
                    for name in ["one", "two", "three"] {
                        unlinkat(scratch.dir(), name.as_bytes()).unwrap();
                    }
                }
            });
            for _ in 0..2000 {
                drop(scratch.file("a", b""));
                let (handle, _) = name_to_handle_at(scratch.dir(), b"a").unwrap();
                unlinkat(scratch.dir(), b"a").unwrap();
                for _ in 0..10 {
                    match open_by_handle(scratch.dir(), &handle, OFlags::PATH) {
                        Err(Errno::STALE) => stale += 1,
                        Err(Errno::NOMEM) => busy += 1,
                        // A child of another test has the file open until it runs its program.
                        Ok(gone) if statx(gone.as_fd()).unwrap().nlink == 0 => held += 1,
                        other => panic!("{other:?}"),
                    }
                }
            }
            drop(looking);
        });
        // Without another try it is one of forty; whoever makes the other file may be off the processor
        // for longer than all tries take.
        assert!(busy < stale / 400, "{busy} of {stale}");
        assert!(held < stale, "{held} beside {stale}");
    }

    #[test]
    fn the_mount_must_not_be_a_path_descriptor() {
        if !caps::has(Capability::DacReadSearch) {
            skip!("open_by_handle_at needs CAP_DAC_READ_SEARCH");
        }
        let scratch = Scratch::new();
        let handle = name_to_handle(scratch.dir()).unwrap().0;
        let root = super::super::open_root(scratch.path.path()).unwrap();
        let opened = open_by_handle(root.as_fd(), &handle, OFlags::PATH);
        assert_eq!(opened.unwrap_err(), Errno::BADF);
    }

    #[test]
    fn tmpfs_has_handles_too() {
        let Some(mount) = small_tmpfs(1 << 20) else {
            skip!("mounting a tmpfs needs CAP_SYS_ADMIN");
        };
        super::super::mkdirat(mount.as_fd(), b"d", 0o755).unwrap();
        let (handle, _) = name_to_handle_at(mount.as_fd(), b"d").unwrap();
        let opened = open_by_handle(mount.as_fd(), &handle, OFlags::PATH).unwrap();
        assert_eq!(
            ino(&opened),
            super::super::statx_at(mount.as_fd(), b"d").unwrap().ino
        );
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(KernelHandle::new(1, &[0; 129]).unwrap_err(), Errno::INVAL);
        let scratch = Scratch::new();
        for bytes in [&[][..], &[0xff; 8], &[0xff; 128]] {
            let handle = KernelHandle::new(1, bytes).unwrap();
            assert_eq!(handle.bytes(), bytes);
            assert!(open_by_handle(scratch.dir(), &handle, OFlags::PATH).is_err());
        }
        assert!(name_to_handle_at(scratch.dir(), b"a/b").is_err());
        let proc_root = super::super::open_root(std::path::Path::new("/proc")).unwrap();
        assert_eq!(
            name_to_handle(proc_root.as_fd()).unwrap_err(),
            Errno::OPNOTSUPP
        );
    }
}
