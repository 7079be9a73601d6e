//! A session: its slots, its limits, and the connections it is used over.

use std::sync::{Arc, OnceLock, Weak};

use super::Client;
use super::back::{BackChannel, Callback, CallbackAuth, CallbackEnd, Direction, Paths};
use crate::error::Error;
use crate::gate::Gate;
use crate::host::{Counted, Holdings};
use crate::id::{ClientId, ConnId, SessionId};
use crate::limits;
use crate::rank::{Rank, RankedMutex};
use crate::slot::{ReplyBudget, Slot, is_assured};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::time::Millis;

/// What a channel carries (`channel_attrs4`): asked for by the client, or agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Bytes of a call, all of it (`ca_maxrequestsize`).
    pub request_bytes_max: u32,
    /// Bytes of a reply, all of it (`ca_maxresponsesize`).
    pub response_bytes_max: u32,
    /// Bytes of a reply that is kept (`ca_maxresponsesize_cached`).
    pub cached_bytes_max: u32,
    /// Operations of a COMPOUND (`ca_maxoperations`).
    pub operations_max: u32,
    /// Slots (`ca_maxrequests`).
    pub slots_max: u32,
}

impl Channel {
    /// Whether calls of the server fit in a way back that is offered like this. Asked of every offer, whether the
    /// server is going to call or not: RFC 8881 §18.36.3 wants NFS4ERR_TOOSMALL for one that cannot be used.
    #[must_use]
    pub const fn carries_callbacks(&self) -> bool {
        self.request_bytes_max >= limits::CHANNEL_BYTES_MIN
            && self.response_bytes_max >= limits::CHANNEL_BYTES_MIN
            && self.operations_max >= limits::CALLBACK_OPERATIONS_MIN
            && self.slots_max > 0
    }

    /// What a client gets that asks for `self` of a server that has `most`. [`Error::TooSmall`] if no call fits in
    /// it (RFC 8881 §18.36.3).
    pub(crate) fn agreed(self, most: Self) -> Result<Self, Error> {
        let bytes = self.request_bytes_max.min(self.response_bytes_max);
        if bytes < limits::CHANNEL_BYTES_MIN || self.operations_max == 0 || self.slots_max == 0 {
            return Err(Error::TooSmall);
        }
        let response_bytes_max = self.response_bytes_max.min(most.response_bytes_max);
        let cached = self.cached_bytes_max.min(most.cached_bytes_max);
        let cached = cached.min(limits::CACHED_REPLY_BYTES_MAX);
        Ok(Self {
            request_bytes_max: self.request_bytes_max.min(most.request_bytes_max),
            response_bytes_max,
            cached_bytes_max: cached.min(response_bytes_max),
            operations_max: self
                .operations_max
                .min(most.operations_max)
                .min(limits::OPERATIONS_MAX),
            slots_max: self
                .slots_max
                .min(most.slots_max)
                .clamp(1, limits::SLOTS_MAX),
        })
    }
}

/// A session of a client. Connections keep it as they use it; it is over when its gate is closed.
#[derive(Debug)]
pub struct Session<P> {
    id: SessionId,
    client_id: ClientId,
    pub(super) client: Weak<Client<P>>,
    channel: Channel,
    /// Made piece by piece, as slots are used for the first time.
    pieces: Box<[OnceLock<Piece>]>,
    /// How many slots the client was last asked to use.
    pub(super) told: AtomicU32,
    /// Bytes of kept replies, and of those that will be, counted against the budget.
    held: AtomicUsize,
    /// What the client's host holds.
    holdings: Arc<Holdings>,
    _counted: Counted,
    pub(super) budget: Arc<ReplyBudget>,
    pub(super) gate: Gate,
    paths: RankedMutex<Paths>,
    /// What [`Paths::is_down`] says, to be asked with each SEQUENCE.
    is_back_down: AtomicBool,
}

type Piece = Box<[RankedMutex<Slot>]>;

/// What a session is made of.
pub(crate) struct SessionParts<P> {
    pub(crate) id: SessionId,
    pub(crate) client_id: ClientId,
    pub(crate) client: Weak<Client<P>>,
    pub(crate) channel: Channel,
    pub(crate) back: Option<BackChannel>,
    pub(crate) budget: Arc<ReplyBudget>,
    pub(crate) holdings: Arc<Holdings>,
    pub(crate) counted: Counted,
}

impl<P> Session<P> {
    pub(crate) fn new(parts: SessionParts<P>) -> Self {
        let pieces = parts.channel.slots_max.div_ceil(limits::SLOTS_PER_PIECE);
        Self {
            id: parts.id,
            client_id: parts.client_id,
            client: parts.client,
            channel: parts.channel,
            pieces: (0..pieces).map(|_| OnceLock::new()).collect(),
            told: AtomicU32::new(parts.channel.slots_max),
            held: AtomicUsize::new(0),
            holdings: parts.holdings,
            _counted: parts.counted,
            budget: parts.budget,
            gate: Gate::new(),
            paths: RankedMutex::new(Rank::Leaf, Paths::new(parts.back)),
            is_back_down: AtomicBool::new(false),
        }
    }

    /// Its name.
    #[must_use]
    pub const fn id(&self) -> SessionId {
        self.id
    }

    /// The client that it is of.
    #[must_use]
    pub const fn client_id(&self) -> ClientId {
        self.client_id
    }

    pub(crate) fn client(&self) -> Option<Arc<Client<P>>> {
        self.client.upgrade()
    }

    /// What was agreed about calls of the client.
    #[must_use]
    pub const fn channel(&self) -> Channel {
        self.channel
    }

    /// The way back, if the client offered one that the server can use.
    #[must_use]
    pub fn back(&self) -> Option<BackChannel> {
        self.paths.lock().agreed().cloned()
    }

    /// Whether it was destroyed. A connection that keeps it looks it up anew then, and finds nothing.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !self.gate.is_open()
    }

    /// Notes that the session is used over `connection` (BIND_CONN_TO_SESSION, or a first SEQUENCE there). What the
    /// connection is used for now. A connection beyond [`limits::CONNECTIONS_PER_SESSION_MAX`] may call, and is not
    /// called. Where calls of the server failed, binding one for them says that they are to be tried again.
    pub fn bind(&self, connection: ConnId, direction: Direction) -> Direction {
        self.with_paths(|paths| paths.bind(connection, direction))
    }

    /// The connection has ended.
    pub fn unbind(&self, connection: ConnId) {
        self.with_paths(|paths| paths.unbind(connection));
    }

    /// BACKCHANNEL_CTL: the client answers to another program, or wants to be told otherwise who calls. Of no effect on a
    /// session without a way back.
    pub fn change_back(&self, program: u32, auth: CallbackAuth) {
        self.with_paths(|paths| paths.change(program, auth));
    }

    /// Begins a call of the server: none where there is no way to the client, and while another one is in flight.
    #[must_use]
    pub fn call_back(&self) -> Option<Callback> {
        match self.is_over() {
            true => None,
            false => self.paths.lock().begin(self.id),
        }
    }

    /// How a call of the server ended. True if it is worth being made again, now: the client is there, and has not carried
    /// it out. That ends by itself: each time costs a connection or a slot of the session.
    pub fn called_back(&self, callback: &Callback, how: CallbackEnd) -> bool {
        self.with_paths(|paths| paths.end(callback, how))
    }

    fn with_paths<T>(&self, change: impl FnOnce(&mut Paths) -> T) -> T {
        let mut paths = self.paths.lock();
        let done = change(&mut paths);
        self.is_back_down.store(paths.is_down(), Ordering::Release);
        done
    }

    /// Whether the client was to be called over this session, and cannot be now. One atomic load.
    pub(crate) fn is_back_down(&self) -> bool {
        self.is_back_down.load(Ordering::Acquire)
    }

    /// Whether the client can be called over this session, as far as is known.
    #[must_use]
    pub fn can_be_called(&self) -> bool {
        !self.is_over() && self.paths.lock().is_up()
    }

    /// Whether it is used over this connection.
    #[must_use]
    pub fn is_bound(&self, connection: ConnId) -> bool {
        self.paths.lock().is_bound(connection)
    }

    /// Connections over which the client can be called, the oldest first.
    #[must_use]
    pub fn back_connections(&self) -> Vec<ConnId> {
        self.paths.lock().back_connections().collect()
    }

    /// Ends it. False while requests are in progress in it, besides the one that asks if `own`.
    pub(crate) fn close(&self, own: bool) -> bool {
        if self.gate.inside() > u32::from(own) {
            return false;
        }
        self.gate.close_behind();
        true
    }

    pub(super) fn slot(&self, number: u32) -> Result<&RankedMutex<Slot>, Error> {
        if number >= self.channel.slots_max {
            return Err(Error::BadSlot);
        }
        let (piece, at) = (
            number / limits::SLOTS_PER_PIECE,
            number % limits::SLOTS_PER_PIECE,
        );
        let piece = self.pieces.get(piece as usize).ok_or(Error::BadSlot)?;
        let slots = piece.get_or_init(|| {
            let slot = |_| RankedMutex::new(Rank::Leaf, Slot::default());
            (0..limits::SLOTS_PER_PIECE).map(slot).collect()
        });
        slots.get(at as usize).ok_or(Error::BadSlot)
    }

    /// Takes `bytes` for a reply that is to be kept.
    pub(super) fn reserve(&self, bytes: usize) -> Result<(), Error> {
        let assured = is_assured(self.held.load(Ordering::Relaxed), bytes);
        if !self.budget.take(bytes, assured, &self.holdings.reply_bytes) {
            return Err(Error::Delay);
        }
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
            self.budget.give_back(bytes, &self.holdings.reply_bytes);
        }
    }

    /// Drops what is kept in slots that the client does not use any more: beyond what it was asked to use, and beyond the
    /// highest one it says that it uses.
    pub(super) fn give_back_slots(&self, highest_used: u32) {
        let told = self.told.load(Ordering::Relaxed);
        let first = told.max(highest_used.saturating_add(1));
        for (piece, at) in self
            .pieces
            .iter()
            .zip((0..).step_by(limits::SLOTS_PER_PIECE as usize))
        {
            let Some(slots) = piece.get() else {
                continue;
            };
            for (slot, number) in slots.iter().zip(at..) {
                if number >= first {
                    let kept = slot.lock().forget();
                    self.give_back(kept);
                }
            }
        }
    }

    /// How many slots the client is to use from now on.
    pub(super) fn target(&self) -> u32 {
        let target = self.budget.slots_worth(self.channel.slots_max);
        self.told.store(target, Ordering::Relaxed);
        target
    }

    pub(super) fn misordered(&self, slot: u32, now: Millis, lease_ms: u64) -> Error {
        let for_ms = lease_ms.saturating_mul(limits::MISORDERED_LEASES_MAX);
        let lost = self
            .slot(slot)
            .is_ok_and(|slot| slot.lock().misordered(now, for_ms));
        if lost {
            Error::BadSession
        } else {
            Error::SeqMisordered
        }
    }

    /// Bytes of kept replies.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

impl<P> Drop for Session<P> {
    fn drop(&mut self) {
        let held = *self.held.get_mut();
        self.budget.give_back(held, &self.holdings.reply_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_back_has_room_for_a_callback_in_its_sequence() {
        let least = Channel {
            request_bytes_max: limits::CHANNEL_BYTES_MIN,
            response_bytes_max: limits::CHANNEL_BYTES_MIN,
            cached_bytes_max: 0,
            operations_max: limits::CALLBACK_OPERATIONS_MIN,
            slots_max: 1,
        };
        assert!(least.carries_callbacks());
        let too_small = [
            Channel {
                request_bytes_max: 10,
                ..least
            },
            Channel {
                response_bytes_max: 10,
                ..least
            },
            Channel {
                operations_max: 1,
                ..least
            },
            Channel {
                slots_max: 0,
                ..least
            },
        ];
        for channel in too_small {
            assert!(!channel.carries_callbacks(), "{channel:?}");
        }
    }
}
