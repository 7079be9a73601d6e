//! Pages of files on their way to sockets: what the page cache has is sent from where it is, by splice(2).
//!
//! A READ's pages lie in a pipe of their own until they are sent. The kernel keeps a page for as long as it is in a
//! pipe or in a socket, whatever becomes of the file; what is written to the file meanwhile is in the page, and so is
//! sent. Pipes are used again where they were sent empty, and there are never more than a cap: whoever gets none copies.

use std::cell::Cell;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use crate::faults::{self, Call};
use crate::limits::{PIPES_IDLE_MAX, SPLICED_BYTES_MAX};
use crate::{Buf, Errno, Reservation, Result, Share};

/// Pipes for the pages of READs. Clones share them.
#[derive(Clone)]
pub struct Pipes(Arc<Mutex<State>>);

struct State {
    /// Empty ones, the one used last at the end.
    #[expect(
        clippy::vec_box,
        reason = "a pipe goes to its READ in the box that it is kept in"
    )]
    idle: Vec<Box<Pipe>>,
    /// How many there are, with those in use.
    made: usize,
    /// How many there may be.
    most: usize,
}

/// A pipe with room for the pages of the largest READ that is spliced; with the memory that its pages count as, and its
/// client's share of the pipes.
struct Pipe {
    from: OwnedFd,
    to: OwnedFd,
    /// Bytes that were read into it.
    len: usize,
    /// Those of them that are in it still.
    left: Cell<usize>,
    held: Option<(Reservation, Share)>,
}

/// The pages that a READ has found, until they are sent.
pub struct Pages {
    /// It is there until this is dropped.
    pipe: Option<Box<Pipe>>,
    pipes: Pipes,
}

/// What was read of a file: a copy of it, or its pages.
pub enum FileData {
    /// The bytes that were read and nothing else.
    Copied(Buf),
    /// Where the bytes are in the page cache.
    Pages(Pages),
}

impl FileData {
    /// Bytes that were read.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Copied(data) => data.len(),
            Self::Pages(pages) => pages.len(),
        }
    }

    /// Whether nothing was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Pipes {
    /// At most so many pipes, of two descriptors each. None is made before it is needed.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            idle: Vec::new(),
            made: 0,
            most,
        })))
    }

    /// How many pipes there are, with those in use.
    #[must_use]
    pub fn made(&self) -> usize {
        self.0.lock().made
    }

    /// Reads `len` bytes of a file from `offset` on into a pipe, at most [`SPLICED_BYTES_MAX`]. Waits for those that are
    /// not in the page cache: [`crate::fs::holds_whole`] tells whether there are such. The file and its descriptor may be
    /// closed as soon as this returns. `held` goes with the pages.
    ///
    /// `None` where there is no pipe for it, or where not all could be had: the file has less, or was refused.
    #[must_use]
    pub fn read(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        held: (Reservation, Share),
    ) -> Option<Pages> {
        if len == 0 || len > SPLICED_BYTES_MAX || faults::expected(Call::Read, file) {
            return None;
        }
        let mut pages = Pages {
            pipe: Some(self.take()?),
            pipes: self.clone(),
        };
        let pipe = pages.pipe.as_mut()?;
        pipe.held = Some(held);
        while pipe.len < len {
            let mut at = offset.checked_add(pipe.len as u64)?;
            let wanted = len - pipe.len;
            let moved = retry_on_intr(|| {
                let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
                splice(file, Some(&mut at), &pipe.to, None, wanted, flags)
            });
            match moved {
                // The file ends, has an error here, or takes more pages than the pipe has places.
                Ok(0) | Err(_) => return None,
                Ok(bytes) => {
                    pipe.len += bytes;
                    pipe.left.set(pipe.len);
                }
            }
        }
        Some(pages)
    }

    /// An empty pipe: one that is there, or a new one.
    fn take(&self) -> Option<Box<Pipe>> {
        {
            let mut state = self.0.lock();
            if let Some(pipe) = state.idle.pop() {
                return Some(pipe);
            }
            if state.made >= state.most {
                return None;
            }
            state.made += 1;
        }
        Pipe::new()
            .map(Box::new)
            .map_err(|error| self.was_refused(error))
            .ok()
    }

    /// A pipe could not be made.
    fn was_refused(&self, error: Errno) {
        let mut state = self.0.lock();
        state.made -= 1;
        if error == Errno::PERM {
            // As large as they are, a user without privileges may have no more of them
            // (`/proc/sys/fs/pipe-user-pages-soft`): asking for each READ again would be in vain.
            state.most = state.made;
        }
    }

    /// Keeps an empty pipe for the next READ. One with something in it is closed, and its pages are let go.
    fn give_back(&self, mut pipe: Box<Pipe>) {
        drop(pipe.held.take());
        let is_empty = pipe.left.get() == 0;
        pipe.len = 0;
        let mut state = self.0.lock();
        if is_empty && state.idle.len() < PIPES_IDLE_MAX {
            state.idle.push(pipe);
            return;
        }
        state.made -= 1;
        // Closing frees pages: not under the lock.
        drop(state);
        drop(pipe);
    }
}

impl Pipe {
    /// # Errors
    /// `EMFILE` and `ENFILE` without descriptors for it, `EPERM` for a user who may have no more pipes of this size.
    fn new() -> Result<Self> {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        fcntl_setpipe_size(&to, SPLICED_BYTES_MAX)?;
        Ok(Self {
            from,
            to,
            len: 0,
            left: Cell::new(0),
            held: None,
        })
    }
}

impl Pages {
    /// Bytes that were read.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pipe.as_ref().map_or(0, |pipe| pipe.len)
    }

    /// Whether nothing was read, which is never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that are still to be sent.
    #[must_use]
    pub fn left(&self) -> usize {
        self.pipe.as_ref().map_or(0, |pipe| pipe.left.get())
    }

    /// Sends what is left, `most` bytes at most and as much as the socket takes without waiting; how many bytes it
    /// took. `is_more` says that something follows at once, so that the socket need not send a last part of a segment
    /// alone.
    ///
    /// # Errors
    /// `EAGAIN` where the socket takes nothing now, or what sending gives where the connection is broken.
    pub fn send(&self, socket: BorrowedFd<'_>, most: usize, is_more: bool) -> Result<usize> {
        let pipe = self.pipe.as_ref().ok_or(Errno::PIPE)?;
        let left = pipe.left.get();
        let bytes = left.min(most);
        let mut flags = SpliceFlags::NONBLOCK;
        flags.set(SpliceFlags::MORE, is_more || bytes < left);
        let sent = retry_on_intr(|| splice(&pipe.from, None, socket, None, bytes, flags))?;
        pipe.left.set(left - sent);
        Ok(sent)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            self.pipes.give_back(pipe);
        }
    }
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pages({} of {} bytes)", self.left(), self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::testing::Scratch;
    use crate::turns::Rule;
    use crate::{Budget, Sharer, Shares};

    fn content(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 7 + at / 4096) as u8).collect()
    }

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (here, listener.accept().unwrap().0)
    }

    fn memory() -> Budget {
        Budget::new(8 << 20)
    }

    fn of(memory: &Budget, len: usize) -> (Reservation, Share) {
        let client = Sharer::of(Ipv4Addr::LOCALHOST.into());
        let share = Shares::new(1, Rule::TimesFree(100)).try_take(client, 1);
        (memory.try_reserve(len as u64).unwrap(), share.unwrap())
    }

    #[test]
    fn what_was_read_is_sent_in_pieces_of_any_size() {
        let scratch = Scratch::new();
        let bytes = content(300_000);
        let file = scratch.file("f", &bytes);
        let (pipes, memory) = (Pipes::new(1), memory());
        let (socket, peer) = connected();
        for (offset, len, most) in [(0, 300_000, 4096), (4095, 70_001, 1000), (299_999, 1, 9)] {
            let held = of(&memory, len);
            let pages = pipes.read(file.as_fd(), offset as u64, len, held).unwrap();
            assert_eq!((pages.len(), pages.left()), (len, len));
            let mut peer = peer.try_clone().unwrap();
            let receiving = std::thread::spawn(move || {
                let mut received = vec![0; len];
                peer.read_exact(&mut received).unwrap();
                received
            });
            while pages.left() > 0 {
                let is_more = pages.left() > most;
                let sent = pages.send(socket.as_fd(), most, is_more).unwrap();
                assert!((1..=most).contains(&sent));
            }
            let received = receiving.join().unwrap();
            assert!(received == bytes[offset..offset + len]);
            drop(pages);
            assert_eq!(
                (pipes.made(), memory.in_use()),
                (1, 0),
                "the same pipe again"
            );
        }
    }

    #[test]
    fn pages_that_are_not_sent_go_with_their_pipe() {
        let scratch = Scratch::new();
        let file = scratch.file("f", &content(100_000));
        let (pipes, memory) = (Pipes::new(2), memory());
        let read = |len| pipes.read(file.as_fd(), 0, len, of(&memory, len));
        let (first, second) = (read(50_000), read(100_000));
        assert!(first.is_some() && second.is_some());
        assert!(read(10).is_none(), "there are as many as there may be");
        let (socket, peer) = connected();
        first
            .as_ref()
            .unwrap()
            .send(socket.as_fd(), 1000, true)
            .unwrap();
        drop((first, peer));
        assert_eq!(pipes.made(), 1);
        assert!(read(10).is_some());
        drop(second);
        assert_eq!((pipes.made(), memory.in_use()), (0, 0));
    }

    #[test]
    fn a_read_that_cannot_be_had_whole_is_none() {
        let scratch = Scratch::new();
        let file = scratch.file("f", &content(3 << 20));
        let (pipes, memory) = (Pipes::new(4), memory());
        let read =
            |offset, len| pipes.read(file.as_fd(), offset, len, of(&memory, len.min(2 << 20)));
        assert!(read(0, SPLICED_BYTES_MAX).is_some());
        assert!(read(0, SPLICED_BYTES_MAX + 1).is_none());
        assert!(
            read(1, SPLICED_BYTES_MAX).is_none(),
            "one page more than a pipe has places"
        );
        assert!(read((3 << 20) - 10, 11).is_none(), "the file ends");
        assert!(read(u64::MAX, 11).is_none());
        assert!(read(0, 0).is_none());
        assert_eq!(memory.in_use(), 0);
    }

    #[test]
    fn a_socket_that_takes_nothing_says_so() {
        let scratch = Scratch::new();
        let file = scratch.file("f", &content(1 << 20));
        let (pipes, memory) = (Pipes::new(64), memory());
        let (socket, peer) = connected();
        socket.set_nonblocking(true).unwrap();
        let full = loop {
            let pages = pipes
                .read(file.as_fd(), 0, 256 << 10, of(&memory, 1 << 10))
                .unwrap();
            let sent = loop {
                match pages.send(socket.as_fd(), usize::MAX, false) {
                    Ok(_) if pages.left() == 0 => break Ok(()),
                    Ok(_) => {}
                    Err(error) => break Err(error),
                }
            };
            if let Err(error) = sent {
                assert!(pages.left() > 0);
                break error;
            }
        };
        assert_eq!(full, Errno::AGAIN);
        drop(peer);
        let pages = pipes
            .read(file.as_fd(), 0, 4096, of(&memory, 4096))
            .unwrap();
        assert!(pages.send(socket.as_fd(), usize::MAX, false).is_err());
    }

    #[test]
    fn a_user_without_privileges_has_as_many_as_it_may() {
        use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

        // What a thread gives up is its own.
        let thread = std::thread::spawn(|| {
            let mut held = capabilities(None).unwrap();
            held.effective -= CapabilitySet::SYS_RESOURCE | CapabilitySet::SYS_ADMIN;
            set_capabilities(None, held).unwrap();
            let scratch = Scratch::new();
            let file = scratch.file("f", &content(100_000));
            let (pipes, memory) = (Pipes::new(500), memory());
            let read = || pipes.read(file.as_fd(), 0, 1000, of(&memory, 1000));
            let all: Vec<Pages> = std::iter::from_fn(read).collect();
            let most = all.len();
            assert!(most < 500 && pipes.made() == most);
            drop(all);
            assert!(read().is_some() || most == 0);
            assert_eq!(memory.in_use(), 0);
        });
        thread.join().unwrap();
    }
}
