//! The replies of one kind, under one bound, with a share for everybody who has some.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::{CallKey, Origin};
use crate::host::call_notes::NotedCall;
use crate::limits;
use crate::network::Network;
use crate::rpc::client_id::ClientId;

/// Calls of one kind, in progress and done; see the parent module for who gives way when it is full.
pub(super) struct Shelf {
    calls: HashMap<CallKey, State, BuildHasherDefault<KeyHasher>>,
    holders: HashMap<Network, Holder>,
    /// How many elements the queues of all clients have together.
    held: usize,
    held_max: usize,
    /// The network that held most when that was looked for last.
    heaviest: Option<Network>,
    fill: Fill,
}

/// What a shelf has and had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fill {
    /// Replies that are kept.
    pub(crate) replies: u64,
    /// The bytes of these replies alone.
    pub(crate) bytes: u64,
    /// How many may be kept.
    pub(crate) replies_max: u64,
    /// Replies that were forgotten early, to make room for others; it only grows.
    pub(crate) evicted: u64,
}

pub(super) enum State {
    InProgress(Running),
    Done(Kept),
}

/// A call whose first run is still going on.
pub(super) struct Running {
    /// The connection that it came over.
    pub(super) origin: Arc<Origin>,
    /// The connection that asked again, and waits.
    pub(super) waiter: Option<Waiter>,
}

pub(super) struct Waiter {
    pub(super) origin: Arc<Origin>,
    pub(super) reply: oneshot::Sender<Vec<u8>>,
}

/// A reply that was sent.
pub(super) struct Kept {
    pub(super) reply: Box<[u8]>,
    /// The connection that it was sent over last.
    pub(super) origin: Arc<Origin>,
    /// When the call was done; together with its key this names an entry.
    pub(super) done: Instant,
    /// The call's note, whose place is free for another call when the reply is forgotten.
    #[allow(dead_code, reason = "held for its end")]
    pub(super) noted: Option<Arc<NotedCall>>,
}

/// The replies that are kept for the clients of one network.
#[derive(Default)]
struct Holder {
    held: usize,
    /// Each client's done calls, oldest first. An element whose entry was replaced since counts until its
    /// turn comes.
    clients: HashMap<ClientId, VecDeque<(Instant, CallKey)>>,
}

impl Shelf {
    pub(super) fn new(held_max: usize) -> Self {
        Self {
            calls: HashMap::default(),
            holders: HashMap::new(),
            held: 0,
            held_max,
            heaviest: None,
            fill: Fill {
                replies_max: held_max as u64,
                ..Fill::default()
            },
        }
    }

    pub(super) fn get_mut(&mut self, key: CallKey) -> Option<&mut State> {
        self.calls.get_mut(&key)
    }

    /// Marks a call as in progress, in place of what is known of it.
    pub(super) fn begin(&mut self, key: CallKey, origin: Arc<Origin>) {
        let waiter = None;
        let running = State::InProgress(Running { origin, waiter });
        let known = self.calls.insert(key, running);
        self.fill.lost(known.as_ref());
    }

    /// Takes out a call that was in progress.
    pub(super) fn end(&mut self, key: CallKey) -> Option<Running> {
        let known = self.calls.remove(&key)?;
        self.fill.lost(Some(&known));
        match known {
            State::InProgress(running) => Some(running),
            State::Done(_) => None,
        }
    }

    /// What the shelf has and had.
    pub(super) const fn fill(&self) -> Fill {
        self.fill
    }

    /// Keeps a reply for this client of this network.
    pub(super) fn keep(&mut self, key: CallKey, network: Network, client: ClientId, kept: Kept) {
        // Counted as one who shares, also before it has anything.
        self.holders.entry(network).or_default();
        while self.held >= self.held_max && self.give_way(network, client) {}
        let element = (kept.done, key);
        self.fill.replies += 1;
        self.fill.bytes += kept.reply.len() as u64;
        let known = self.calls.insert(key, State::Done(kept));
        self.fill.lost(known.as_ref());
        let holder = self.holders.entry(network).or_default();
        if !holder.clients.contains_key(&client)
            && holder.clients.len() >= limits::REPLY_CACHE_CLIENTS_PER_ADDRESS_MAX
        {
            let oldest = holder.clients.iter();
            let oldest = oldest.min_by_key(|(_, queue)| queue.back().map(|(done, _)| *done));
            let oldest = oldest.map(|(client, _)| *client);
            let gone = oldest.and_then(|client| holder.clients.remove(&client));
            let gone = gone.unwrap_or_default();
            holder.held -= gone.len();
            self.held -= gone.len();
            for (done, key) in gone {
                self.fill.evicted += remove_done(&mut self.calls, &mut self.fill, key, done);
            }
        }
        let queue = holder.clients.entry(client).or_default();
        queue.push_back(element);
        holder.held += 1;
        self.held += 1;
    }

    /// Forgets replies of which `life` is over.
    pub(super) fn expire(&mut self, now: Instant, life: Duration) {
        let is_over = |done: Instant| now.saturating_duration_since(done) >= life;
        for holder in self.holders.values_mut() {
            for queue in holder.clients.values_mut() {
                while let Some((done, key)) = queue.front().copied()
                    && is_over(done)
                {
                    queue.pop_front();
                    holder.held -= 1;
                    self.held -= 1;
                    remove_done(&mut self.calls, &mut self.fill, key, done);
                }
                queue.shrink_to(queue.len() * 2);
            }
            holder.clients.retain(|_, queue| !queue.is_empty());
        }
        self.holders.retain(|_, holder| holder.held > 0);
        self.calls.shrink_to(self.calls.len() * 2);
    }

    /// Forgets one reply for a new one of this client. False when there is nothing to forget.
    fn give_way(&mut self, network: Network, client: ClientId) -> bool {
        let share = self.held_max / self.holders.len().max(1);
        let held_by = |network: &Network| self.holders.get(network).map_or(0, |h| h.held);
        let from = if held_by(&network) >= share.max(1) {
            network
        } else {
            let known = self.heaviest.filter(|known| held_by(known) > share);
            let most = || self.holders.iter().max_by_key(|(_, holder)| holder.held);
            match known.or_else(|| most().map(|(network, _)| *network)) {
                Some(heaviest) => heaviest,
                None => return false,
            }
        };
        if from != network {
            self.heaviest = Some(from);
        }
        let Some(holder) = self.holders.get_mut(&from) else {
            return false;
        };
        let Some((done, key)) = holder.take_oldest(client) else {
            return false;
        };
        if holder.held == 0 && from != network {
            self.holders.remove(&from);
        }
        self.held -= 1;
        self.fill.evicted += remove_done(&mut self.calls, &mut self.fill, key, done);
        true
    }

    /// How many calls are known, and how many elements the queues of all clients have.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.calls.len(), self.held)
    }

    /// How many replies are kept, and their bytes, by counting them.
    #[cfg(test)]
    pub(super) fn counted(&self) -> (u64, u64) {
        let kept = self.calls.values().filter_map(|state| match state {
            State::InProgress(_) => None,
            State::Done(kept) => Some(kept.reply.len() as u64),
        });
        kept.fold((0, 0), |(replies, bytes), reply| {
            (replies + 1, bytes + reply)
        })
    }

    /// How many replies a network holds.
    #[cfg(test)]
    pub(super) fn held_by(&self, addr: std::net::IpAddr) -> usize {
        self.holders.get(&Network::of(addr)).map_or(0, |h| h.held)
    }

    /// What it takes, in bytes, by the capacity of everything in it.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let replies = self.calls.values().map(|state| match state {
            State::InProgress(_) => 0,
            // The allocator's own word and rounding.
            State::Done(kept) => {
                let noted = kept.noted.as_ref().map_or(0, |_| NotedCall::BYTES);
                kept.reply.len().next_multiple_of(16) + 16 + noted
            }
        });
        let queues = self.holders.values().flat_map(|h| h.clients.values());
        let queues = queues.map(|queue| queue.capacity() * size_of::<(Instant, CallKey)>());
        // A hash table keeps an eighth of its places free and has a power of two of them.
        let places = (self.calls.capacity() * 8 / 7).next_power_of_two();
        let calls = places * (size_of::<(CallKey, State)>() + 1);
        replies.sum::<usize>() + queues.sum::<usize>() + calls
    }
}

impl Holder {
    /// The oldest call of `client`, if that holds its share, or else of the client that holds most.
    fn take_oldest(&mut self, client: ClientId) -> Option<(Instant, CallKey)> {
        let share = self.held / self.clients.len().max(1);
        let own = self.clients.get(&client).map_or(0, VecDeque::len);
        let from = if own >= share.max(1) {
            client
        } else {
            *self.clients.iter().max_by_key(|(_, queue)| queue.len())?.0
        };
        let queue = self.clients.get_mut(&from)?;
        let oldest = queue.pop_front()?;
        if queue.is_empty() {
            self.clients.remove(&from);
        }
        self.held -= 1;
        Some(oldest)
    }
}

impl Fill {
    /// This is known of a call no more.
    fn lost(&mut self, known: Option<&State>) {
        if let Some(State::Done(kept)) = known {
            self.replies -= 1;
            self.bytes -= kept.reply.len() as u64;
        }
    }
}

/// Forgets the reply that was done then under this key, unless another call took its place. Says how many replies that
/// were, one or none.
fn remove_done(
    calls: &mut HashMap<CallKey, State, BuildHasherDefault<KeyHasher>>,
    fill: &mut Fill,
    key: CallKey,
    done: Instant,
) -> u64 {
    let is_it = |state: &State| matches!(state, State::Done(kept) if kept.done == done);
    if !calls.get(&key).is_some_and(is_it) {
        return 0;
    }
    fill.lost(calls.remove(&key).as_ref());
    1
}

/// Takes a key's own bits: it is a keyed hash already.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}
