//! The reply cache: a call that must not run twice is answered once and remembered.
//!
//! A client that lost its connection, or its patience, sends its calls again with the same xid. A second
//! run of a REMOVE or MKDIR would answer wrongly (NFS3ERR_NOENT for a REMOVE that succeeded). A second
//! run of a WRITE is worse: when the first was answered and the client has written the same bytes anew by
//! then, old data would stand over data that was acknowledged. So the first reply is kept and sent
//! again (RFC 1813 §4.5). While the first run is still going on, a repetition over the same connection is
//! dropped: the reply will come. One over another connection waits for the reply, as the first
//! connection may be no more; if several ask, the latest gets it. (Where so many calls are in flight that those
//! that wait would be in the way of others, it is dropped as well, and the client asks once more.)
//!
//! A call is the same when the client's address, what its connection is believed ([`Standing`]) and the
//! bytes of the call agree, which begin with the xid and have the credential in them: a local user who
//! sends another's bytes gets no reply that was that one's. Of a WRITE that is all but its data: a client that sends a page
//! again may have changed it since, and it is still the call that was carried out. The bytes are
//! known by a keyed hash.
//!
//! **Who comes again.** A newcomer that happens to send the same bytes (a script that always begins with
//! the same xid) must not be handed the reply to somebody's earlier call. What tells them apart is
//! how the connection ended that the reply was sent over ([`Origin`]):
//!
//! - Ended in order: the peer closed it, no call of it was in progress, and its TCP had acknowledged
//!   every byte of ours. Then the client has its replies: had it closed the socket with something
//!   unread, Linux and its like would have sent a reset. Whoever connects afterwards is a newcomer, from
//!   whatever port. The kernel's client, which comes again from its old port, closes in order only
//!   when it is idle. A client that shuts down only its sending side with a call in progress is not in
//!   order; without one it has all its replies before it.
//! - Still open, or ended in any other way (reset, given up by us, lost with the network): replies
//!   may be lost. A repetition is recognised from any port, as clients in user space connect from a
//!   new one.
//!
//! Connections that were there before the end in order are the client's other connections (`nconnect`):
//! what still comes over them is recognised.
//!
//! **Shares.** Replies of WRITE and of all other calls are kept apart: a stream of WRITEs has no bearing on how
//! long a CREATE is remembered. When one of the two is full and somebody needs room for a reply,
//! whoever holds its share (the whole divided by the addresses that hold any) gives up its own oldest one,
//! and otherwise the address that holds most; within an address the same holds for its clients. Calls that
//! an export's rules refuse have changed nothing and are not kept.
//!
//! Replies go with the process. What outlives a kill is in [`call_notes`](crate::host::call_notes).

mod shelf;

use std::hash::{Hash, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use siphasher::sip128::{Hasher128, SipHasher13};
use tokio::sync::oneshot;

pub(crate) use self::shelf::Fill;
use self::shelf::{Kept, Shelf, State, Waiter};
use crate::host::call_notes::{CallKey, CallNotes, NotedCall};
use crate::limits;
use crate::network::Network;
use crate::rpc::client_id::ClientId;
use crate::rpc::standing::Standing;

/// A call that may have come before.
pub(crate) struct Asked<'a> {
    /// Whether it is a WRITE, whose replies are kept apart from those of other calls.
    pub(crate) is_write: bool,
    pub(crate) addr: IpAddr,
    pub(crate) standing: Standing,
    /// The client in whose share the reply is kept.
    pub(crate) client: ClientId,
    pub(crate) origin: &'a Arc<Origin>,
    /// The caller must not wait for another run of the call.
    pub(crate) crowded: bool,
    /// The bytes of the call, of a WRITE without its data.
    pub(crate) head: &'a [u8],
}

/// What the cache knows of a call.
pub(crate) enum Seen {
    /// The cache knows nothing of the call: run it, then say how it ended through the ticket.
    New(Ticket),
    /// The call is running: say nothing, its reply is on the way.
    InProgress,
    /// The call came over another connection before and is running. Its reply comes from here, or nothing, if
    /// the call is given up or somebody else asks for the reply later.
    Awaited(oneshot::Receiver<Vec<u8>>),
    /// The call ran: send this reply again.
    Done(Vec<u8>),
}

/// A connection, as far as it matters for the replies that were sent over it.
#[derive(Debug)]
pub(crate) struct Origin {
    number: u64,
    /// The number of the first connection that came after the end of this one, if that was in order;
    /// else `u64::MAX`.
    followed_by: AtomicU64,
    /// Calls that came over it are noted.
    noted: AtomicBool,
}

/// The replies that may be asked for again. Bounded by [`limits::REPLY_CACHE_NAMES_MAX`] and [`limits::REPLY_CACHE_WRITES_MAX`]
/// replies of at most [`limits::REPLY_CACHE_REPLY_BYTES_MAX`] bytes.
pub(crate) struct ReplyCache {
    names: Mutex<Shelf>,
    writes: Mutex<Shelf>,
    notes: Arc<CallNotes>,
    connections: AtomicU64,
}

const LIFE: Duration = Duration::from_secs(limits::REPLY_CACHE_SECONDS_MAX);

impl ReplyCache {
    /// An empty one, whose calls other than WRITEs are noted in `notes`.
    pub(crate) fn new(notes: Arc<CallNotes>) -> Self {
        Self {
            names: Mutex::new(Shelf::new(limits::REPLY_CACHE_NAMES_MAX)),
            writes: Mutex::new(Shelf::new(limits::REPLY_CACHE_WRITES_MAX)),
            notes,
            connections: AtomicU64::new(0),
        }
    }

    /// Gives a new connection its number, by which its calls are told from those of others.
    pub(crate) fn origin(&self) -> Arc<Origin> {
        Arc::new(Origin {
            number: self.connections.fetch_add(1, Ordering::SeqCst),
            followed_by: AtomicU64::new(u64::MAX),
            noted: AtomicBool::new(false),
        })
    }

    /// The peer closed this connection and has received everything; see the module. What comes back is
    /// left to be done where waiting for a disk does not matter.
    pub(crate) fn ended_in_order(&self, origin: &Origin) -> Option<impl FnOnce() + Send + use<>> {
        let next = self.connections.load(Ordering::SeqCst);
        origin.followed_by.store(next, Ordering::SeqCst);
        let (notes, number) = (Arc::clone(&self.notes), origin.number);
        let noted = origin.noted.load(Ordering::Relaxed);
        noted.then_some(move || notes.connection_ended(number))
    }

    /// What is kept of WRITEs, and of all other calls that must not run twice.
    pub(crate) fn fill(&self) -> [(&'static str, Fill); 2] {
        [("other", &self.names), ("WRITE", &self.writes)]
            .map(|(calls, shelf)| (calls, shelf.lock().fill()))
    }

    /// Calls that could not be noted.
    pub(crate) fn notes_failed(&self) -> u64 {
        self.notes.failed()
    }

    /// Looks a call up and, if it is new, marks it as in progress.
    pub(crate) fn begin(self: &Arc<Self>, asked: &Asked<'_>, now: Instant) -> Seen {
        let key = self.key_of(asked);
        let mut shelf = self.shelf(asked.is_write).lock();
        match shelf.get_mut(key) {
            Some(State::InProgress(running)) => {
                let waiter = running.waiter.as_ref();
                let latest = waiter.map_or(&running.origin, |waiter| &waiter.origin);
                let came_here = |origin: &Origin| origin.number == asked.origin.number;
                if asked.crowded || came_here(latest) || came_here(&running.origin) {
                    return Seen::InProgress;
                }
                let (reply, awaited) = oneshot::channel();
                let origin = Arc::clone(asked.origin);
                running.waiter = Some(Waiter { origin, reply });
                Seen::Awaited(awaited)
            }
            Some(State::Done(kept)) if kept.is_for(asked.origin, now) => {
                kept.origin = Arc::clone(asked.origin);
                Seen::Done(kept.reply.to_vec())
            }
            Some(State::Done(_)) | None => {
                shelf.begin(key, Arc::clone(asked.origin));
                drop(shelf);
                Seen::New(self.ticket(key, asked))
            }
        }
    }

    fn ticket(self: &Arc<Self>, key: CallKey, asked: &Asked<'_>) -> Ticket {
        let noted = !asked.is_write;
        Ticket {
            cache: Arc::clone(self),
            key,
            is_write: asked.is_write,
            network: Network::of(asked.addr),
            client: asked.client,
            origin: Arc::clone(asked.origin),
            noted: noted.then(|| self.notes.call(key, asked.origin.number)),
            ended: false,
        }
    }

    /// Forgets what is too old; to be called now and then.
    pub(crate) fn expire(&self, now: Instant) {
        for shelf in [&self.names, &self.writes] {
            shelf.lock().expire(now, LIFE);
        }
        self.notes.expire();
    }

    fn shelf(&self, is_write: bool) -> &Mutex<Shelf> {
        if is_write { &self.writes } else { &self.names }
    }

    fn key_of(&self, asked: &Asked<'_>) -> CallKey {
        let mut hasher = SipHasher13::new_with_key(&self.notes.key());
        asked.addr.hash(&mut hasher);
        asked.standing.hash(&mut hasher);
        hasher.write(asked.head);
        let hash = hasher.finish128();
        CallKey::of_words([hash.h1, hash.h2])
    }
}

impl Kept {
    /// May this connection be of the client whose call it was?
    fn is_for(&self, asking: &Origin, now: Instant) -> bool {
        asking.number < self.origin.followed_by.load(Ordering::SeqCst)
            && now.saturating_duration_since(self.done) < LIFE
    }
}

/// A call in progress. Dropped without a reply (the call was abandoned), the call is forgotten,
/// so that a repetition runs.
pub(crate) struct Ticket {
    cache: Arc<ReplyCache>,
    key: CallKey,
    is_write: bool,
    network: Network,
    client: ClientId,
    origin: Arc<Origin>,
    noted: Option<Arc<NotedCall>>,
    ended: bool,
}

impl Ticket {
    /// Where the call notes what it does.
    pub(crate) fn noted(&self) -> Option<Arc<NotedCall>> {
        self.noted.clone()
    }

    /// Gives the reply to who waits for it. With `keep` it is kept for repetitions of the call, unless it is
    /// longer than [`limits::REPLY_CACHE_REPLY_BYTES_MAX`], which none of the calls' replies is.
    pub(crate) fn done(mut self, reply: &[u8], keep: bool) {
        self.ended = true;
        let kept = (keep && reply.len() <= limits::REPLY_CACHE_REPLY_BYTES_MAX)
            .then(|| (Box::from(reply), Instant::now()));
        let waiter = {
            let mut shelf = self.cache.shelf(self.is_write).lock();
            let waiter = shelf.end(self.key).and_then(|running| running.waiter);
            if let Some((reply, done)) = kept {
                let latest = waiter.as_ref().map_or(&self.origin, |w| &w.origin);
                let origin = Arc::clone(latest);
                origin.noted.store(true, Ordering::Relaxed);
                self.origin.noted.store(true, Ordering::Relaxed);
                let kept = Kept {
                    reply,
                    origin,
                    done,
                    noted: self.noted.take(),
                };
                shelf.keep(self.key, self.network, self.client, kept);
            }
            waiter
        };
        if let Some(waiter) = waiter {
            // Its connection may be gone as well: then the client asks once more.
            let _gone = waiter.reply.send(reply.to_vec());
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.ended {
            self.cache.shelf(self.is_write).lock().end(self.key);
        }
    }
}

#[cfg(test)]
mod tests;
