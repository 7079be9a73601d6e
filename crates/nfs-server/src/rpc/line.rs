//! Calls of the server over a client's own connection (RFC 8881 §2.10.3.1): what is to be sent, and who waits for which
//! reply.
//!
//! A [`Line`] is one connection's. Whoever wants to call its client, from whatever thread, finds it by the connection's
//! number in [`Lines`], once its client has said that it may be called there. The connection takes what is to be sent as
//! it takes replies, and hands over each reply that comes by its xid. Both directions number their calls apart.
//!
//! Bounds: so many calls of a connection at once ([`limits::CALLBACKS_PER_CONNECTION_MAX`]), and so many bytes of a reply
//! ([`limits::CALLBACK_REPLY_BYTES_MAX`]). Who waits gives up by dropping the [`Calling`]: nothing of the call is left
//! then, and a reply that comes all the same is one that nobody asked for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::limits;

/// The lines over which clients may be called, by the numbers of their connections.
#[derive(Default)]
pub(crate) struct Lines(Mutex<HashMap<u64, Weak<Line>>>);

impl Lines {
    /// Lets everybody call over this line, for as long as its connection lasts.
    pub(crate) fn note(self: &Arc<Self>, line: &Arc<Line>) {
        if line.noted_in.set(Arc::downgrade(self)).is_ok() {
            let mut lines = self.0.lock();
            lines.insert(line.connection, Arc::downgrade(line));
        }
    }

    /// The line of a connection, if that is still there.
    pub(crate) fn find(&self, connection: u64) -> Option<Arc<Line>> {
        self.0.lock().get(&connection)?.upgrade()
    }
}

/// The server's calls over one connection.
pub(crate) struct Line {
    /// The number of the connection, which no other has.
    connection: u64,
    calls: Mutex<Calls>,
    /// Tells the connection that something is to be sent, or that it ends.
    pub(crate) to_send: Notify,
    noted_in: OnceLock<Weak<Lines>>,
}

#[derive(Default)]
struct Calls {
    last_xid: u32,
    /// Records, mark and all, by the xids in them.
    unsent: VecDeque<(u32, Vec<u8>)>,
    waiting: Vec<(u32, oneshot::Sender<Vec<u8>>)>,
    is_over: bool,
}

/// Why a call was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotCalled {
    /// The connection has ended.
    Over,
    /// There are as many calls on it as there may be.
    Busy,
}

impl Line {
    /// The line of the connection with this number.
    pub(crate) fn new(connection: u64) -> Arc<Self> {
        Arc::new(Self {
            connection,
            calls: Mutex::default(),
            to_send: Notify::new(),
            noted_in: OnceLock::new(),
        })
    }

    /// Makes a call, whose record `record` makes of its xid, mark and all.
    ///
    /// # Errors
    /// [`NotCalled`]: nothing was sent.
    pub(crate) fn call(
        self: &Arc<Self>,
        record: impl FnOnce(u32) -> Vec<u8>,
    ) -> Result<Calling, NotCalled> {
        let mut calls = self.calls.lock();
        if calls.is_over {
            return Err(NotCalled::Over);
        }
        if calls.waiting.len() >= limits::CALLBACKS_PER_CONNECTION_MAX {
            return Err(NotCalled::Busy);
        }
        let (told, reply) = oneshot::channel();
        let xid = calls.last_xid.wrapping_add(1);
        calls.last_xid = xid;
        calls.waiting.push((xid, told));
        calls.unsent.push_back((xid, record(xid)));
        drop(calls);
        self.to_send.notify_one();
        let line = Arc::clone(self);
        Ok(Calling { line, xid, reply })
    }

    /// The next record to be sent.
    pub(crate) fn next_unsent(&self) -> Option<Vec<u8>> {
        let (_, record) = self.calls.lock().unsent.pop_front()?;
        Some(record)
    }

    /// Hands a reply over. False where nobody waits for it.
    pub(crate) fn answered(&self, xid: u32, reply: &[u8]) -> bool {
        let mut calls = self.calls.lock();
        let Some(at) = calls.waiting.iter().position(|(it, _)| *it == xid) else {
            return false;
        };
        let (_, waits) = calls.waiting.swap_remove(at);
        drop(calls);
        // What is too long is no reply to anything that is asked.
        let is_short = reply.len() <= limits::CALLBACK_REPLY_BYTES_MAX;
        let reply = if is_short { reply } else { &[] };
        waits.send(reply.to_vec()).is_ok()
    }

    /// The connection has ended: who waits is told so, and nobody calls any more.
    pub(crate) fn end(&self) {
        *self.calls.lock() = Calls {
            is_over: true,
            ..Calls::default()
        };
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(lines) = self.noted_in.get().and_then(Weak::upgrade) {
            lines.0.lock().remove(&self.connection);
        }
    }
}

/// A call of the server that was made. Dropped, it is not sent if it was not, and its reply is nobody's.
pub(crate) struct Calling {
    line: Arc<Line>,
    xid: u32,
    reply: oneshot::Receiver<Vec<u8>>,
}

impl Calling {
    /// Waits for the reply: the record without its mark, or nothing if the connection ends before it comes.
    pub(crate) async fn reply(&mut self) -> Option<Vec<u8>> {
        (&mut self.reply).await.ok()
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        let mut calls = self.line.calls.lock();
        calls.waiting.retain(|(xid, _)| *xid != self.xid);
        calls.unsent.retain(|(xid, _)| *xid != self.xid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &Arc<Line>) -> Result<Calling, NotCalled> {
        line.call(|xid| xid.to_be_bytes().to_vec())
    }

    fn told(calling: &mut Calling) -> Option<Vec<u8>> {
        calling.reply.try_recv().ok()
    }

    #[test]
    fn replies_find_their_calls_in_any_order() {
        let line = Line::new(7);
        let mut calls = [1, 2, 3].map(|_| call(&line).unwrap());
        let sent: Vec<_> = std::iter::from_fn(|| line.next_unsent()).collect();
        assert_eq!(sent, [1_u32, 2, 3].map(|xid| xid.to_be_bytes().to_vec()));
        assert!(line.answered(3, b"three") && line.answered(1, b"one"));
        assert!(!line.answered(1, b"one again") && !line.answered(9, b"of nobody's"));
        assert!(line.answered(2, &[7; limits::CALLBACK_REPLY_BYTES_MAX + 1]));
        let replies = calls.each_mut().map(told);
        let expected = [&b"one"[..], b"", b"three"].map(|it| Some(it.to_vec()));
        assert_eq!(replies, expected, "what is too long is cut to nothing");
    }

    #[test]
    fn of_a_call_that_is_given_up_nothing_is_left() {
        let line = Line::new(7);
        let most = limits::CALLBACKS_PER_CONNECTION_MAX;
        let mut calls: Vec<_> = (0..most).map(|_| call(&line).unwrap()).collect();
        assert_eq!(call(&line).err(), Some(NotCalled::Busy));
        drop(calls.remove(0));
        assert!(!line.answered(1, b"late"));
        let first = line.next_unsent().expect("the others are sent");
        assert_eq!(first, 2_u32.to_be_bytes());
        calls.push(call(&line).expect("there is room"));
        line.end();
        assert_eq!(call(&line).err(), Some(NotCalled::Over));
        assert!(line.next_unsent().is_none());
        for calling in &mut calls {
            let closed = oneshot::error::TryRecvError::Closed;
            assert_eq!(calling.reply.try_recv(), Err(closed));
        }
    }

    #[test]
    fn a_line_is_found_for_as_long_as_it_is_there() {
        let lines = Arc::new(Lines::default());
        let line = Line::new(7);
        assert!(lines.find(7).is_none(), "its client was not asked");
        lines.note(&line);
        lines.note(&line);
        assert!(lines.find(7).is_some() && lines.find(8).is_none());
        drop(line);
        assert!(lines.0.lock().is_empty());
    }
}
