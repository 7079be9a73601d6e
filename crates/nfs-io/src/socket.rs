//! What the kernel knows of a connected socket.

use std::os::fd::{AsRawFd, BorrowedFd};

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
}
