//! The reply cache: a call that must not run twice is answered once and remembered.
//!
//! A client that lost its connection sends its calls again with the same xid. For REMOVE, CREATE
//! and their like a second run would answer wrongly (NFS3ERR_NOENT for a REMOVE that succeeded), so
//! the first reply is kept and sent again (RFC 1813 §4.5). While the first run is still going on,
//! the repetition is dropped: the reply will come.
//!
//! A call is the same when client address, xid, program, version, procedure and the bytes of the
//! call agree (the bytes by a keyed hash, so that a client which starts its xids anew is not handed
//! somebody's old reply). Entries live for a while, or until their stripe is full; the oldest go first.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::limits;

/// What makes two calls the same call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallId {
    client: IpAddr,
    xid: u32,
    procedure: u32,
    digest: u64,
}

/// What the cache knows of a call.
pub(crate) enum Seen {
    /// Nothing: run it, then say how it ended through the ticket.
    New(Ticket),
    /// It is running: say nothing, its reply is on the way.
    InProgress,
    /// It ran: send this reply again.
    Done(Arc<[u8]>),
}

enum State {
    InProgress,
    Done(Arc<[u8]>),
}

#[derive(Default)]
struct Stripe {
    calls: HashMap<CallId, State>,
    /// Done calls and when they were done, oldest first; calls in progress are not in it and cannot
    /// be evicted: their number is bounded by the cap of calls in flight.
    order: VecDeque<(Instant, CallId)>,
}

impl Stripe {
    /// Forgets what is too old or too much.
    fn trim(&mut self, now: Instant) {
        const LIFE: Duration = Duration::from_secs(limits::REPLY_CACHE_SECONDS_MAX);
        while let Some((done, oldest)) = self.order.front().copied()
            && (self.order.len() > limits::REPLY_CACHE_ENTRIES_MAX / STRIPES
                || now.saturating_duration_since(done) >= LIFE)
        {
            self.order.pop_front();
            self.calls.remove(&oldest);
        }
    }
}

/// Bounded by [`limits::REPLY_CACHE_ENTRIES_MAX`] entries of at most
/// [`limits::REPLY_CACHE_REPLY_BYTES_MAX`] bytes.
pub(crate) struct ReplyCache {
    stripes: Box<[Mutex<Stripe>]>,
    hasher: RandomState,
}

const STRIPES: usize = 16;

impl ReplyCache {
    pub(crate) fn new() -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Names a call: `call` are the bytes of the whole RPC call without a WRITE's payload.
    pub(crate) fn call_id(&self, client: IpAddr, xid: u32, procedure: u32, call: &[u8]) -> CallId {
        CallId {
            client,
            xid,
            procedure,
            digest: self.hasher.hash_one(call),
        }
    }

    /// Looks a call up and, if it is new, marks it as in progress.
    pub(crate) fn begin(self: &Arc<Self>, id: CallId, now: Instant) -> Seen {
        let mut stripe = self.stripe(&id).lock();
        stripe.trim(now);
        match stripe.calls.get(&id) {
            Some(State::InProgress) => Seen::InProgress,
            Some(State::Done(reply)) => Seen::Done(Arc::clone(reply)),
            None => {
                stripe.calls.insert(id, State::InProgress);
                Seen::New(Ticket {
                    cache: Arc::clone(self),
                    id,
                    reply: None,
                })
            }
        }
    }

    fn finish(&self, id: CallId, reply: Option<Arc<[u8]>>) {
        let mut stripe = self.stripe(&id).lock();
        let Some(reply) = reply else {
            stripe.calls.remove(&id);
            return;
        };
        let now = Instant::now();
        stripe.calls.insert(id, State::Done(reply));
        stripe.order.push_back((now, id));
        stripe.trim(now);
    }

    fn stripe(&self, id: &CallId) -> &Mutex<Stripe> {
        let index = self.hasher.hash_one(id) as usize % STRIPES;
        &self.stripes[index]
    }
}

/// A call in progress. Dropped without a reply (the call was abandoned), the call is forgotten,
/// so that a repetition runs.
pub(crate) struct Ticket {
    cache: Arc<ReplyCache>,
    id: CallId,
    reply: Option<Arc<[u8]>>,
}

impl Ticket {
    /// Keeps the reply for repetitions of the call. A reply longer than
    /// [`limits::REPLY_CACHE_REPLY_BYTES_MAX`] is not kept.
    pub(crate) fn done(mut self, reply: &[u8]) {
        if reply.len() <= limits::REPLY_CACHE_REPLY_BYTES_MAX {
            self.reply = Some(reply.into());
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.cache.finish(self.id, self.reply.take());
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn id(cache: &ReplyCache, xid: u32) -> CallId {
        cache.call_id(Ipv4Addr::LOCALHOST.into(), xid, 12, b"call")
    }

    #[test]
    fn a_repetition_gets_the_first_reply() {
        let cache = Arc::new(ReplyCache::new());
        let Seen::New(ticket) = cache.begin(id(&cache, 1), Instant::now()) else {
            panic!("new")
        };
        assert!(matches!(
            cache.begin(id(&cache, 1), Instant::now()),
            Seen::InProgress
        ));
        ticket.done(b"reply");
        let Seen::Done(reply) = cache.begin(id(&cache, 1), Instant::now()) else {
            panic!("done")
        };
        assert_eq!(&*reply, b"reply");
    }

    #[test]
    fn an_abandoned_call_runs_again() {
        let cache = Arc::new(ReplyCache::new());
        drop(cache.begin(id(&cache, 1), Instant::now()));
        assert!(matches!(
            cache.begin(id(&cache, 1), Instant::now()),
            Seen::New(_)
        ));
    }

    #[test]
    fn another_call_under_the_same_xid_is_another_call() {
        let cache = Arc::new(ReplyCache::new());
        let Seen::New(ticket) = cache.begin(id(&cache, 1), Instant::now()) else {
            panic!("new")
        };
        ticket.done(b"reply");
        let other = cache.call_id(Ipv4Addr::LOCALHOST.into(), 1, 12, b"another call");
        assert!(matches!(cache.begin(other, Instant::now()), Seen::New(_)));
    }

    #[test]
    fn a_reply_is_forgotten_after_its_time() {
        let cache = Arc::new(ReplyCache::new());
        if let Seen::New(ticket) = cache.begin(id(&cache, 1), Instant::now()) {
            ticket.done(b"reply");
        }
        let later = Instant::now() + Duration::from_secs(limits::REPLY_CACHE_SECONDS_MAX);
        assert!(matches!(cache.begin(id(&cache, 1), later), Seen::New(_)));
    }

    #[test]
    fn the_cache_stays_within_its_bound() {
        let cache = Arc::new(ReplyCache::new());
        for xid in 0..(limits::REPLY_CACHE_ENTRIES_MAX as u32 * 2) {
            if let Seen::New(ticket) = cache.begin(id(&cache, xid), Instant::now()) {
                ticket.done(b"reply");
            }
        }
        let held: usize = cache
            .stripes
            .iter()
            .map(|stripe| stripe.lock().calls.len())
            .sum();
        assert!(held <= limits::REPLY_CACHE_ENTRIES_MAX);
    }
}
