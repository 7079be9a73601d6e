//! What the kernel knows of a connected socket, and sending to one.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::{Errno, Result};

/// Bytes written to a TCP socket that its peer's TCP has not acknowledged yet, sent or not (`SIOCOUTQ`,
/// tcp(7)).
///
/// # Errors
/// `ENOTTY` and the like for what is no such socket.
pub fn unacknowledged_bytes(socket: BorrowedFd<'_>) -> Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one int to the place that it is given, which lives until it returns; the
    // descriptor is borrowed and thus open.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 {
        Ok(bytes.unsigned_abs())
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

/// Whether the peer of a connected socket has gone, as far as the kernel has heard: it has closed its end, or its
/// sending half alone, or the connection is broken. What it sent before may still be there to be read. False
/// where the kernel does not say.
#[must_use]
pub fn has_hung_up(socket: BorrowedFd<'_>) -> bool {
    let mut asked = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // Of what is told besides, errors and broken connections are told unasked.
    poll(&mut asked, Some(&at_once)).is_ok_and(|told| told > 0)
}

/// Sends slices, as much as the socket takes without waiting, where something else follows at once: the socket need not
/// send a last part of a segment alone (`MSG_MORE`). How many bytes it took.
///
/// # Errors
/// `EAGAIN` where it takes nothing now, or what sending gives where the connection is broken.
pub fn send_before_more(socket: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> Result<usize> {
    let flags = SendFlags::MORE | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    retry_on_intr(|| sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), flags))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn bytes_that_the_peer_has_not_taken_are_unacknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        assert_eq!(unacknowledged_bytes(here.as_fd()), Ok(0));
        here.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(len) = here.write(&[7; 64 << 10]) {
            sent += len;
        }
        assert!(unacknowledged_bytes(here.as_fd()).unwrap() > 0);
        here.shutdown(std::net::Shutdown::Write).unwrap();
        let mut received = Vec::new();
        there.read_to_end(&mut received).unwrap();
        assert_eq!(received.len(), sent);
        drop(there);
        // The peer's end comes behind its acknowledgement.
        here.set_nonblocking(false).unwrap();
        assert_eq!(here.read(&mut [0]).unwrap(), 0);
        assert_eq!(unacknowledged_bytes(here.as_fd()), Ok(0));
    }

    #[test]
    fn a_file_has_no_such_bytes() {
        let file = tempfile::tempfile().unwrap();
        assert!(unacknowledged_bytes(file.as_fd()).is_err());
    }

    #[test]
    fn a_peer_that_has_closed_is_known_though_its_bytes_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut ours, _) = listener.accept().unwrap();
        peer.write_all(b"calls").unwrap();
        assert!(!has_hung_up(ours.as_fd()));
        drop(peer);
        while !has_hung_up(ours.as_fd()) {
            std::thread::yield_now();
        }
        let mut bytes = [0; 5];
        ours.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"calls");
    }
}
