//! Whose turn it is on a shard's thread, and how many calls of a client may run there.
//!
//! A connection goes on until it has used what one turn may cost ([`limits::TURN_COST_MAX`]), then it waits for
//! its next turn among all that wait ([`nfs_io::turns`]). One turn is given at a time, and between two the
//! event loop looks for what has come: a call of somebody who does not use up a turn waits for the one in
//! progress, not for a round of all that are busy.
//!
//! A shard with a single connection gives no turns.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use nfs_io::turns::{Rule, Turns, Verdict};
use nfs_io::{ClientKey, Sharer};
use tokio::sync::Notify;

use crate::limits;

/// The turns and the places of one shard.
#[derive(Default)]
pub(super) struct ShardTurns {
    waiting: RefCell<Turns<Rc<Notify>>>,
    /// Told when somebody waits.
    asked: Notify,
    in_flight: Cell<usize>,
    connections: Cell<usize>,
    clients: RefCell<HashMap<ClientKey, Weak<ClientHere>>>,
}

/// One client as its connections to a shard share it.
pub(super) struct ClientHere {
    turns: Rc<ShardTurns>,
    key: ClientKey,
    weight: Cell<u32>,
    in_flight: Cell<usize>,
}

/// One connection's part: which client it is of, and what it has used of its turn.
pub(super) struct ConnectionTurns {
    client: Rc<ClientHere>,
    used: Cell<u64>,
}

impl ShardTurns {
    /// A connection of this client, for as long as what is returned exists.
    pub(super) fn enter(self: &Rc<Self>, key: ClientKey) -> ConnectionTurns {
        self.connections.set(self.connections.get() + 1);
        let mut clients = self.clients.borrow_mut();
        let known = clients.get(&key).and_then(Weak::upgrade);
        let client = known.unwrap_or_else(|| {
            let client = Rc::new(ClientHere {
                turns: Rc::clone(self),
                key,
                weight: Cell::new(1),
                in_flight: Cell::new(0),
            });
            clients.insert(key, Rc::downgrade(&client));
            client
        });
        ConnectionTurns {
            client,
            used: Cell::new(0),
        }
    }

    /// Gives turns for as long as the shard lives.
    pub(super) async fn give(&self) {
        loop {
            self.asked.notified().await;
            while let Some(next) = self.next_turn() {
                next.notify_one();
                // Resumed once the event loop has looked for what came.
                tokio::task::yield_now().await;
            }
        }
    }

    fn next_turn(&self) -> Option<Rc<Notify>> {
        let mut waiting = self.waiting.borrow_mut();
        // Of a connection that has gone nobody else holds the other end.
        std::iter::from_fn(|| waiting.next_turn()).find(|next| Rc::strong_count(next) > 1)
    }

    /// Half of the calls that may run at once do.
    pub(super) fn is_crowded(&self) -> bool {
        self.in_flight.get() >= limits::IN_FLIGHT_PER_SHARD_MAX / 2
    }
}

impl ConnectionTurns {
    /// Notes what was done for this connection: calls, and bytes moved for it.
    pub(super) fn use_up(&self, calls: u64, bytes: usize) {
        let cost = calls + bytes as u64 / limits::TURN_BYTES_PER_COST;
        self.used.set(self.used.get() + cost);
    }

    /// The connection has used what one turn may cost.
    pub(super) fn is_over(&self) -> bool {
        self.used.get() >= limits::TURN_COST_MAX
    }

    /// The client and its weight.
    pub(super) fn sharer(&self) -> Sharer {
        self.client.sharer()
    }

    /// Waits for the connection's next turn. `mine`: told when it comes; each half of a connection has its own.
    pub(super) async fn next(&self, mine: &Rc<Notify>) {
        let cost = self.used.take();
        let turns = &self.client.turns;
        if turns.connections.get() <= 1 {
            return tokio::task::yield_now().await;
        }
        turns
            .waiting
            .borrow_mut()
            .join(self.client.sharer(), cost, Rc::clone(mine));
        turns.asked.notify_one();
        mine.notified().await;
    }

    /// Whether the client may have one more call in flight on this shard.
    pub(super) fn has_room(&self) -> bool {
        let client = &self.client;
        let rule = Rule::TimesFree(limits::IN_FLIGHT_TIMES_FREE_MAX);
        let taken = client.turns.in_flight.get() as u64;
        let total = limits::IN_FLIGHT_PER_SHARD_MAX as u64;
        let own = client.in_flight.get() as u64;
        rule.judge((total, taken), own, client.sharer(), 1) == Verdict::Take
    }

    /// Sets the weight of the client, which is that of its last call on any connection.
    pub(super) fn set_weight(&self, weight: u32) {
        self.client.weight.set(weight);
    }

    /// Half of the calls that may run on the shard at once do.
    pub(super) fn is_crowded(&self) -> bool {
        self.client.turns.is_crowded()
    }

    /// A call is in flight from now on.
    pub(super) fn begin(&self) {
        let (all, own) = (&self.client.turns.in_flight, &self.client.in_flight);
        all.set(all.get() + 1);
        own.set(own.get() + 1);
    }

    /// A call that was begun is in flight no more.
    pub(super) fn end(&self) {
        let (all, own) = (&self.client.turns.in_flight, &self.client.in_flight);
        all.set(all.get() - 1);
        own.set(own.get() - 1);
    }
}

impl ClientHere {
    fn sharer(&self) -> Sharer {
        Sharer {
            key: self.key,
            weight: self.weight.get(),
        }
    }
}

impl Drop for ConnectionTurns {
    fn drop(&mut self) {
        let connections = &self.client.turns.connections;
        connections.set(connections.get() - 1);
    }
}

impl Drop for ClientHere {
    fn drop(&mut self) {
        let mut clients = self.turns.clients.borrow_mut();
        let gone = |client: &Weak<Self>| client.strong_count() == 0;
        if clients.get(&self.key).is_some_and(gone) {
            clients.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn key(number: u32) -> ClientKey {
        ClientKey::of(Ipv4Addr::from(number).into())
    }

    #[test]
    fn one_client_leaves_half_of_the_places_to_whoever_comes_next() {
        let shard = Rc::new(ShardTurns::default());
        let greedy: Vec<_> = (0..8).map(|_| shard.enter(key(1))).collect();
        let mut begun = 0;
        while let Some(one) = greedy.iter().find(|one| one.has_room()) {
            one.begin();
            begun += 1;
        }
        assert_eq!(begun, limits::IN_FLIGHT_PER_SHARD_MAX / 2);
        let polite = shard.enter(key(2));
        for _ in 0..1000 {
            assert!(polite.has_room());
            polite.begin();
        }
        greedy.iter().for_each(|one| {
            while one.client.in_flight.get() > 0 {
                one.end();
            }
        });
        drop(greedy);
        assert_eq!(shard.clients.borrow().len(), 1);
        assert_eq!((shard.in_flight.get(), shard.connections.get()), (1000, 1));
    }

    #[test]
    fn a_turn_passes_over_connections_that_have_gone() {
        let shard = Rc::new(ShardTurns::default());
        let (one, other) = (shard.enter(key(1)), shard.enter(key(2)));
        let (gone, here) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut waits = Box::pin(one.next(&gone));
            assert!(waits.as_mut().poll(&mut context).is_pending());
        }
        drop(gone);
        let mut waits = Box::pin(other.next(&here));
        assert!(waits.as_mut().poll(&mut context).is_pending());
        shard.next_turn().unwrap().notify_one();
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(()));
        assert!(shard.next_turn().is_none());
    }

    #[test]
    fn what_is_moved_uses_up_a_turn_as_calls_do() {
        let shard = Rc::new(ShardTurns::default());
        let one = shard.enter(key(1));
        for _ in 1..limits::TURN_COST_MAX {
            one.use_up(1, 0);
        }
        assert!(!one.is_over());
        one.use_up(1, 0);
        assert!(one.is_over());
        one.used.set(0);
        one.use_up(1, 1 << 20);
        assert!(one.is_over());
    }
}
