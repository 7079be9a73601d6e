//! Which network namespace a socket is of.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{Errno, Result};

/// `SO_NETNS_COOKIE` of `asm-generic/socket.h`: a number that no other network namespace has.
const SO_NETNS_COOKIE: libc::c_int = 71;
/// `SIOCGSKNS` of `linux/sockios.h`: a descriptor of a socket's network namespace.
const SIOCGSKNS: libc::Ioctl = 0x894C;

/// Whether two sockets are of one network namespace. Before Linux 5.14 nobody can tell, and they count
/// as such: it is the rule.
pub(super) fn is_shared(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    match (cookie(one), cookie(other)) {
        (Ok(one), Ok(other)) => one == other,
        (Err(_), _) | (_, Err(_)) => true,
    }
}

fn cookie(socket: BorrowedFd<'_>) -> Result<u64> {
    let mut cookie = 0_u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: `cookie` has the `len` bytes that the kernel may write, and both live through the call.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    };
    if outcome == 0 {
        Ok(cookie)
    } else {
        Err(last())
    }
}

/// Runs `work` in a thread of its own that is in the network namespace of `socket`.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN or, over that namespace, CAP_NET_ADMIN.
pub(super) fn within_that_of<T: Send>(
    socket: BorrowedFd<'_>,
    work: impl FnOnce() -> T + Send,
) -> Result<T> {
    // SAFETY: the request takes no argument and touches no memory of ours.
    let namespace = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSKNS) };
    if namespace < 0 {
        return Err(last());
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows of it.
    let namespace = unsafe { OwnedFd::from_raw_fd(namespace) };
    std::thread::scope(|scope| {
        let inside = std::thread::Builder::new().spawn_scoped(scope, || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        });
        let inside = inside.map_err(|_| Errno::AGAIN)?;
        inside.join().unwrap_or(Err(Errno::CANCELED))
    })
}

fn last() -> Errno {
    let error = std::io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(error.unwrap_or(libc::EIO))
}
