//! Questions to the kernel over a netlink socket: one message there, one back, without waiting.
//! netlink(7).

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, sendto,
    socket_with,
};

use crate::limits::{NETLINK_ANSWER_BYTES_MAX, NETLINK_STRANGE_ANSWERS_MAX};
use crate::{Errno, Result};

/// A netlink socket of one protocol.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// What the kernel answered: a message without its header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) kind: u16,
    pub(super) body: Vec<u8>,
}

/// Length in bytes of `struct nlmsghdr`, which begins every message.
const HEADER_BYTES: usize = 16;
/// `NLM_F_REQUEST` of `linux/netlink.h`: the flag of a question.
const REQUEST: u16 = 1;
/// `NLMSG_ERROR`: the answer is a number of errno, negative.
const ERROR: u16 = 2;

impl Netlink {
    /// # Errors
    /// Where the kernel or a sandbox does not let us: `EAFNOSUPPORT`, `EPROTONOSUPPORT`, `EPERM`.
    pub(super) fn open(protocol: Option<Protocol>) -> Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a message of this kind and gives back what the kernel answers.
    ///
    /// # Errors
    /// The kernel's refusal (`ENOENT` where there is nothing of what was asked about), `EAGAIN` where
    /// it did not answer at once, and `EBADMSG` for an answer that is none.
    pub(super) fn ask(&mut self, kind: u16, body: &[u8]) -> Result<Answer> {
        self.sequence = self.sequence.wrapping_add(1);
        let kernel = SocketAddrNetlink::new(0, 0);
        let question = message(kind, self.sequence, body);
        let sent = retry(|| sendto(&self.socket, &question, SendFlags::empty(), &kernel))?;
        if sent != question.len() {
            return Err(Errno::BADMSG);
        }
        let mut buffer = [0; NETLINK_ANSWER_BYTES_MAX];
        // An answer to an earlier question that was given up is passed over.
        for _ in 0..NETLINK_STRANGE_ANSWERS_MAX {
            let (len, _, from) =
                retry(|| recvfrom(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT))?;
            let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
            let is_the_kernels = from.is_some_and(|from| from.pid() == 0);
            let message = buffer.get(..len).unwrap_or_default();
            if is_the_kernels && let Some(answer) = read(message, self.sequence) {
                return answer;
            }
        }
        Err(Errno::BADMSG)
    }
}

/// Appends an attribute (`rtattr`), padded to four bytes.
pub(super) fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let len = (4 + value.len()) as u16;
    message.extend(len.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let len = (HEADER_BYTES + body.len()) as u32;
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend(len.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    // The port to answer to: the kernel knows.
    message.extend([0; 4]);
    message.extend(body);
    message
}

/// The first message in `bytes`, if it answers this question.
fn read(bytes: &[u8], sequence: u32) -> Option<Result<Answer>> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    let [l0, l1, l2, l3, k0, k1, _, _, s0, s1, s2, s3, ..] = *header;
    let len = usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).ok()?;
    if u32::from_ne_bytes([s0, s1, s2, s3]) != sequence {
        return None;
    }
    let Some(body) = bytes.get(HEADER_BYTES..len) else {
        return Some(Err(Errno::BADMSG));
    };
    let kind = u16::from_ne_bytes([k0, k1]);
    if kind != ERROR {
        let body = body.to_vec();
        return Some(Ok(Answer { kind, body }));
    }
    let errno = body.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
    Some(Err(match errno {
        Some(errno @ -4095..=-1) => Errno::from_raw_os_error(-errno),
        _ => Errno::BADMSG,
    }))
}

fn retry<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: u16, body: &[u8]) -> Vec<u8> {
        message(kind, 7, body)
    }

    #[test]
    fn a_message_comes_back_as_it_was_written() {
        let read_back = read(&answer(20, b"body"), 7).unwrap().unwrap();
        assert_eq!((read_back.kind, &read_back.body[..]), (20, &b"body"[..]));
        // Padding, or another message, behind it.
        let mut longer = answer(20, b"body");
        longer.extend([9; 20]);
        assert_eq!(read(&longer, 7).unwrap().unwrap().body, b"body");
    }

    #[test]
    fn an_error_is_an_errno() {
        let refused = |errno: i32| read(&answer(ERROR, &errno.to_ne_bytes()), 7).unwrap();
        assert_eq!(refused(-2), Err(Errno::NOENT));
        for odd in [0, 1, i32::MIN, i32::MAX, -4096] {
            assert_eq!(refused(odd), Err(Errno::BADMSG));
        }
    }

    #[test]
    fn another_questions_answer_is_none() {
        assert_eq!(read(&answer(20, b"body"), 8), None);
    }

    #[test]
    fn what_is_cut_off_anywhere_is_no_answer() {
        for whole in [answer(20, &[1; 72]), answer(ERROR, &(-2_i32).to_ne_bytes())] {
            for len in 0..whole.len() {
                let cut = read(&whole[..len], 7);
                assert!(matches!(cut, None | Some(Err(Errno::BADMSG))), "{len}");
            }
        }
        // A length that says less than a header.
        let mut short = answer(20, b"body");
        short[..4].copy_from_slice(&3_u32.to_ne_bytes());
        assert_eq!(read(&short, 7), Some(Err(Errno::BADMSG)));
    }
}
