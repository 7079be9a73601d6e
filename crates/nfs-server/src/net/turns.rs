//! Whose turn it is on a shard's thread, and how many calls of a client may run there.
//!
//! What is cheap is done when it comes. What moves many bytes, and what is done for a client beyond a little
//! ([`limits::FREE_COST_MAX`]) before the event loop has looked again, needs a turn: it is waited for among all
//! that wait ([`nfs_io::turns`]), and is worth [`limits::TURN_COST_MAX`]. One turn is given at a time, but those
//! who want a call or two and nothing else share one, a piece of it each: of hundreds of connections with a call
//! each, none waits while others have many. In the middle of its turn a connection pauses ([`ConnectionTurns::pause`]): the event loop looks, cheap calls that
//! have come are answered, and the turn goes on. So a call of somebody who makes few waits for a piece of one
//! turn, not for a turn of everybody who is busy.
//!
//! A shard with a single connection gives no turns.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use nfs_io::engine::Copies;
use nfs_io::turns::{Rule, Turns, Verdict};
use nfs_io::{ClientKey, Sharer};
use tokio::sync::Notify;

use crate::limits;

/// The turns and the places of one shard.
pub(super) struct ShardTurns {
    /// How many calls may run at once.
    places: usize,
    waiting: RefCell<Turns<Waiting>>,
    /// Told when somebody waits.
    asked: Notify,
    /// How many turns were given: the last one is in progress.
    given: Cell<u64>,
    /// How often the event loop has looked for what came, since turns are waited for.
    looks: Cell<u64>,
    /// A connection is in the middle of its turn.
    pausing: Cell<bool>,
    in_flight: Cell<usize>,
    connections: Cell<usize>,
    clients: RefCell<HashMap<ClientKey, Weak<ClientHere>>>,
}

/// Who waits for a turn.
struct Waiting {
    /// Told when the turn comes.
    told: Rc<Notify>,
    client: Weak<ClientHere>,
    /// What it is going to use of its turn: all of it, or so little that others have the rest.
    wanted: u64,
}

/// One client as its connections to a shard share it.
pub(super) struct ClientHere {
    turns: Rc<ShardTurns>,
    key: ClientKey,
    weight: Cell<u32>,
    copies: Rc<Copies>,
    in_flight: Cell<usize>,
    /// What was used without a turn, and is counted with the next one.
    used: Cell<u64>,
    /// What was used of turns and not counted yet.
    used_in_turns: Cell<u64>,
    /// What was used since the event loop looked, and which look that was.
    since_look: Cell<(u64, u64)>,
}

/// One connection's part: which client it is of, and what is left of its turn.
pub(super) struct ConnectionTurns {
    client: Rc<ClientHere>,
    /// Which turn it had last, and what is left of that.
    turn: Cell<(u64, u64)>,
    since_pause: Cell<u64>,
}

/// How many calls may run at once on each of so many shards, where the server has this memory budget, in bytes.
pub(super) fn places(memory_bytes: u64, shards: usize) -> usize {
    let all = memory_bytes / limits::MEMORY_BYTES_PER_CALL_IN_FLIGHT;
    let of_each = usize::try_from(all).unwrap_or(usize::MAX) / shards.max(1);
    of_each.clamp(
        limits::IN_FLIGHT_PER_CONNECTION_MAX,
        limits::IN_FLIGHT_PER_SHARD_MAX,
    )
}

impl ShardTurns {
    /// A shard on which so many calls may run at once.
    pub(super) fn new(places: usize) -> Self {
        Self {
            places,
            waiting: RefCell::default(),
            asked: Notify::new(),
            given: Cell::default(),
            looks: Cell::default(),
            pausing: Cell::default(),
            in_flight: Cell::default(),
            connections: Cell::default(),
            clients: RefCell::default(),
        }
    }

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
                copies: Rc::default(),
                in_flight: Cell::new(0),
                used: Cell::new(0),
                used_in_turns: Cell::new(0),
                since_look: Cell::new((0, 0)),
            });
            clients.insert(key, Rc::downgrade(&client));
            client
        });
        ConnectionTurns {
            client,
            turn: Cell::new((0, 0)),
            since_pause: Cell::new(0),
        }
    }

    /// Gives turns for as long as the shard lives, and counts each.
    pub(super) async fn give(&self, count: impl Fn()) {
        loop {
            self.asked.notified().await;
            loop {
                let sharing = self.next_turns();
                if sharing.is_empty() {
                    break;
                }
                self.given.set(self.given.get() + 1);
                for one in &sharing {
                    count();
                    one.told.notify_one();
                }
                loop {
                    // Resumed once whoever has the turn has gone as far as it may, and the event loop has
                    // looked for what came.
                    tokio::task::yield_now().await;
                    self.looks.set(self.looks.get() + 1);
                    if !self.pausing.get() {
                        break;
                    }
                }
                sharing.iter().for_each(|over| self.charge(over));
            }
        }
    }

    /// Who has the next turn: somebody alone, or as many as want no more than a piece of it together.
    fn next_turns(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting.borrow_mut();
        let mut sharing = Vec::new();
        let mut room = limits::PAUSE_COST;
        loop {
            let has_room = |next: &Waiting| sharing.is_empty() || next.wanted <= room;
            let next = waiting.next_turn_where(|_, _, next| match has_room(next) {
                true => Verdict::Take,
                false => Verdict::Stop,
            });
            let Some(next) = next else {
                return sharing;
            };
            // Of a connection that has gone nobody else holds the other end.
            if Rc::strong_count(&next.told) > 1 {
                room = room.saturating_sub(next.wanted);
                sharing.push(next);
            }
        }
    }

    /// Counts what a turn took when it is over.
    fn charge(&self, over: &Waiting) {
        if let Some(client) = over.client.upgrade() {
            client.charge();
        }
    }

    /// Half of the calls that may run at once do.
    pub(super) fn is_crowded(&self) -> bool {
        self.in_flight.get() >= self.places / 2
    }
}

impl ConnectionTurns {
    /// What calls cost that move so many bytes.
    pub(super) fn cost(calls: u64, bytes: usize) -> u64 {
        calls + bytes as u64 / limits::TURN_BYTES_PER_COST
    }

    /// Notes what was done for this connection: calls, and bytes moved for it.
    pub(super) fn use_up(&self, calls: u64, bytes: usize) {
        let cost = Self::cost(calls, bytes);
        let client = &self.client;
        let used = match self.left() {
            0 => &client.used,
            _ => &client.used_in_turns,
        };
        used.set(used.get().saturating_add(cost));
        client.since_look.set((
            client.turns.looks.get(),
            client.used_since_look().saturating_add(cost),
        ));
        let (turn, left) = self.turn.get();
        self.turn.set((turn, left.saturating_sub(cost)));
        self.since_pause.set(self.since_pause.get() + cost);
    }

    /// Something of this cost has to wait for the connection's next turn.
    pub(super) fn has_to_wait(&self, cost: u64) -> bool {
        if self.is_alone() {
            return false;
        }
        match self.left() {
            0 => self.client.used_since_look() + cost > limits::FREE_COST_MAX,
            // Whatever it costs may be done in a turn of which nothing was used.
            left => cost > left && left < limits::TURN_COST_MAX,
        }
    }

    /// What of its client's data is being copied into the page cache.
    pub(super) fn copies(&self) -> &Rc<Copies> {
        &self.client.copies
    }

    /// Nobody else has a connection to this shard.
    pub(super) fn is_alone(&self) -> bool {
        self.client.turns.connections.get() <= 1
    }

    /// So much was done in this turn that the event loop is to look for what came.
    pub(super) fn has_to_pause(&self) -> bool {
        !self.is_alone() && self.left() > 0 && self.since_pause.get() >= limits::PAUSE_COST
    }

    /// Lets the event loop look for what came. The turn goes on after that.
    pub(super) async fn pause(&self) {
        self.since_pause.set(0);
        let _pausing = Pausing::begin(&self.client.turns);
        tokio::task::yield_now().await;
    }

    fn left(&self) -> u64 {
        match self.turn.get() {
            (turn, left) if turn == self.client.turns.given.get() => left,
            _over => 0,
        }
    }

    /// The client and its weight.
    pub(super) fn sharer(&self) -> Sharer {
        self.client.sharer()
    }

    /// Waits for the connection's next turn. `mine`: told when it comes; each half of a connection has its own.
    /// `wanted`: what is to be done in it, at most a whole turn. Who wants no more than a piece of one shares it.
    pub(super) async fn next(&self, mine: &Rc<Notify>, wanted: u64) {
        let turns = &self.client.turns;
        if self.is_alone() {
            return tokio::task::yield_now().await;
        }
        self.client.charge();
        let cost = self.client.used.take();
        let (wanted, share) = match wanted {
            // A reply is sent in it as well, and is to find something left.
            little if little <= limits::PAUSE_COST => (little.max(1), little.max(1) + 1),
            _much => (limits::TURN_COST_MAX, limits::TURN_COST_MAX),
        };
        let waiting = Waiting {
            told: Rc::clone(mine),
            client: Rc::downgrade(&self.client),
            wanted,
        };
        turns
            .waiting
            .borrow_mut()
            .join(self.client.sharer(), cost, waiting);
        turns.asked.notify_one();
        mine.notified().await;
        self.turn.set((turns.given.get(), share));
        self.since_pause.set(0);
    }

    /// Whether the client may have one more call in flight on this shard.
    pub(super) fn has_room(&self) -> bool {
        let client = &self.client;
        let rule = Rule::TimesFree(limits::IN_FLIGHT_TIMES_FREE_MAX);
        let taken = client.turns.in_flight.get() as u64;
        let total = client.turns.places as u64;
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

    /// A call is in flight from now on, which takes so many places.
    pub(super) fn begin(&self, places: usize) {
        let (all, own) = (&self.client.turns.in_flight, &self.client.in_flight);
        all.set(all.get() + places);
        own.set(own.get() + places);
    }

    /// A call that was begun in so many places is in flight no more.
    pub(super) fn end(&self, places: usize) {
        let (all, own) = (&self.client.turns.in_flight, &self.client.in_flight);
        all.set(all.get() - places);
        own.set(own.get() - places);
    }
}

impl ClientHere {
    fn sharer(&self) -> Sharer {
        Sharer {
            key: self.key,
            weight: self.weight.get(),
        }
    }

    /// Counts what turns took, before others of the client are given: with the next one of the same connection
    /// it would count too late, as each connection would have one before that.
    fn charge(&self) {
        let used = self.used_in_turns.take();
        self.turns.waiting.borrow_mut().charge(self.sharer(), used);
    }

    fn used_since_look(&self) -> u64 {
        match self.since_look.get() {
            (look, used) if look == self.turns.looks.get() => used,
            _before => 0,
        }
    }
}

/// A connection in the middle of its turn, which goes on when the event loop has looked.
struct Pausing<'t>(&'t ShardTurns);

impl<'t> Pausing<'t> {
    fn begin(turns: &'t ShardTurns) -> Self {
        turns.pausing.set(true);
        Self(turns)
    }
}

impl Drop for Pausing<'_> {
    fn drop(&mut self) {
        self.0.pausing.set(false);
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

    const PLACES: usize = 4096;

    fn key(number: u32) -> ClientKey {
        ClientKey::of(Ipv4Addr::from(number).into())
    }

    #[test]
    fn little_memory_leaves_places_for_few_calls() {
        const MIB: u64 = 1 << 20;
        assert_eq!(places(limits::MEMORY_BYTES_DEFAULT, 2), 8192);
        assert_eq!(places(64 * MIB, 2), 2048);
        assert_eq!(places(64 * MIB, 1), 4096);
        let least = limits::IN_FLIGHT_PER_CONNECTION_MAX;
        assert_eq!(places(limits::MEMORY_BYTES_MIN, 2), least);
        assert_eq!(places(limits::MEMORY_BYTES_DEFAULT, 256), least);
        assert_eq!(places(u64::MAX, 0), limits::IN_FLIGHT_PER_SHARD_MAX);
    }

    #[test]
    fn one_client_leaves_half_of_the_places_to_whoever_comes_next() {
        let shard = Rc::new(ShardTurns::new(PLACES));
        let greedy: Vec<_> = (0..8).map(|_| shard.enter(key(1))).collect();
        let mut begun = 0;
        while let Some(one) = greedy.iter().find(|one| one.has_room()) {
            one.begin(1);
            begun += 1;
        }
        assert_eq!(begun, PLACES / 2);
        let polite = shard.enter(key(2));
        for _ in 0..1000 {
            assert!(polite.has_room());
            polite.begin(1);
        }
        greedy.iter().for_each(|one| {
            while one.client.in_flight.get() > 0 {
                one.end(1);
            }
        });
        drop(greedy);
        assert_eq!(shard.clients.borrow().len(), 1);
        assert_eq!((shard.in_flight.get(), shard.connections.get()), (1000, 1));
    }

    #[test]
    fn calls_with_long_records_are_fewer() {
        let shard = Rc::new(ShardTurns::new(PLACES));
        let greedy = shard.enter(key(1));
        let mut begun = 0;
        while greedy.has_room() {
            greedy.begin(16);
            begun += 1;
        }
        assert_eq!(begun, PLACES / 2 / 16);
        let polite = shard.enter(key(2));
        assert!(polite.has_room());
        (0..begun).for_each(|_| greedy.end(16));
        assert_eq!(shard.in_flight.get(), 0);
    }

    #[test]
    fn a_turn_passes_over_connections_that_have_gone() {
        let shard = Rc::new(ShardTurns::new(PLACES));
        let (one, other) = (shard.enter(key(1)), shard.enter(key(2)));
        let (gone, here) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut waits = Box::pin(one.next(&gone, 1));
            assert!(waits.as_mut().poll(&mut context).is_pending());
        }
        drop(gone);
        let mut waits = Box::pin(other.next(&here, 1));
        assert!(waits.as_mut().poll(&mut context).is_pending());
        let sharing = shard.next_turns();
        sharing.iter().for_each(|one| one.told.notify_one());
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(()));
        assert_eq!(sharing.len(), 1);
        assert!(shard.next_turns().is_empty());
    }

    #[test]
    fn cheap_calls_wait_for_nobody_and_what_moves_much_waits_for_its_turn() {
        let shard = Rc::new(ShardTurns::new(PLACES));
        let (one, beside) = (shard.enter(key(1)), shard.enter(key(1)));
        let large = ConnectionTurns::cost(1, 1 << 20);
        assert!(one.has_to_wait(large) && beside.has_to_wait(large));
        for _ in 0..limits::FREE_COST_MAX {
            assert!(!one.has_to_wait(1));
            one.use_up(1, 0);
        }
        assert!(one.has_to_wait(1), "beyond a little it waits, too");
        assert!(beside.has_to_wait(1), "more connections give no more");
        shard.looks.set(shard.looks.get() + 1);
        assert!(!one.has_to_wait(1), "until the event loop has looked");
        drop(beside);
        one.use_up(1000, 0);
        assert!(
            !one.has_to_wait(large) && !one.has_to_pause(),
            "alone it has no turns"
        );
    }

    #[test]
    fn who_wants_little_shares_a_piece_of_a_turn_and_who_wants_much_has_one_alone() {
        let shard = Rc::new(ShardTurns::new(PLACES));
        let told = Rc::new(Notify::new());
        let mut context = Context::from_waker(Waker::noop());
        let ask = |number: u32, wanted| (shard.enter(key(number)), wanted);
        let little = (0..20).map(|number| ask(number % 2, 1));
        let much = (0..2).map(|_| ask(2, limits::TURN_COST_MAX));
        let all: Vec<_> = little.chain(much).collect();
        let mut waits: Vec<_> = all
            .iter()
            .map(|(one, wanted)| Box::pin(one.next(&told, *wanted)))
            .collect();
        for one in &mut waits {
            assert!(one.as_mut().poll(&mut context).is_pending());
        }
        let turns = std::iter::from_fn(|| Some(shard.next_turns()).filter(|turn| !turn.is_empty()));
        let mut sizes: Vec<usize> = turns.map(|turn| turn.len()).collect();
        sizes.sort_unstable();
        // Whoever wants much may come between two of these.
        let most = sizes.last().copied();
        assert_eq!(most, Some(limits::PAUSE_COST as usize), "{sizes:?}");
        assert_eq!(sizes.iter().sum::<usize>(), 22);
        assert!(
            sizes.iter().filter(|size| **size == 1).count() >= 2,
            "{sizes:?}"
        );
    }

    /// What many connections have done, each with one small call at a time.
    #[derive(Default)]
    struct Calls {
        done: Cell<u64>,
        /// The most calls of others that were done while one waited.
        longest_wait: Cell<u64>,
    }

    /// A connection that makes one small call at a time, and the next one when it has the reply.
    async fn one_by_one(one: ConnectionTurns, calls: Rc<Calls>) {
        let mine = Rc::new(Notify::new());
        loop {
            let before = calls.done.get();
            if one.has_to_wait(1) {
                one.next(&mine, 1).await;
            }
            one.use_up(1, 0);
            let wait = calls.done.get() - before;
            calls.longest_wait.set(calls.longest_wait.get().max(wait));
            calls.done.set(calls.done.get() + 1);
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn of_many_connections_of_one_client_none_waits_for_long() {
        const CONNECTIONS: u64 = 256;
        let (shard, calls) = (Rc::new(ShardTurns::new(PLACES)), Rc::new(Calls::default()));
        let local = tokio::task::LocalSet::new();
        for _ in 0..CONNECTIONS {
            local.spawn_local(one_by_one(shard.enter(key(1)), Rc::clone(&calls)));
        }
        let giver = Rc::clone(&shard);
        local.spawn_local(async move { giver.give(|| {}).await });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        local.block_on(&runtime, async {
            while calls.done.get() < 1000 * CONNECTIONS {
                tokio::task::yield_now().await;
            }
        });
        let longest = calls.longest_wait.get();
        // Served in the order they came, each would wait for all others once.
        assert!(longest <= 3 * CONNECTIONS, "{longest}");
    }

    /// What was done in the simulation, by client, and what the polite client saw of it.
    #[derive(Default)]
    struct Work {
        by_client: RefCell<HashMap<u32, u64>>,
        total: Cell<u64>,
        since_look: Cell<u64>,
    }

    /// A connection that always has a READ of 1 MiB to answer: it is read, and leaves in two pieces.
    async fn stream(one: ConnectionTurns, number: u32, work: Rc<Work>) {
        let mine = Rc::new(Notify::new());
        loop {
            for (calls, bytes) in [(1, 1 << 20), (0, 512 << 10), (0, 512 << 10)] {
                let cost = ConnectionTurns::cost(calls, bytes);
                if one.has_to_wait(cost) {
                    one.next(&mine, cost).await;
                } else if one.has_to_pause() {
                    one.pause().await;
                }
                one.use_up(calls, bytes);
                let at_once = work.since_look.get() + cost;
                work.since_look.set(at_once);
                assert!(
                    at_once <= ConnectionTurns::cost(1, 1 << 20),
                    "nobody is let in between"
                );
                *work.by_client.borrow_mut().entry(number).or_default() += cost;
                work.total.set(work.total.get() + cost);
            }
        }
    }

    #[test]
    fn beside_hundreds_of_streams_a_polite_call_waits_for_one_piece_and_no_look_is_idle() {
        const LOOKS: u64 = 30_000;
        let shard = Rc::new(ShardTurns::new(PLACES));
        let work = Rc::new(Work::default());
        let mut weights = HashMap::new();
        let local = tokio::task::LocalSet::new();
        for number in 1..=200 {
            let weight = 1 + number * 7 % 3;
            weights.insert(number, weight);
            for _ in 0..=number % 4 {
                let one = shard.enter(key(number));
                one.set_weight(weight);
                local.spawn_local(stream(one, number, Rc::clone(&work)));
            }
        }
        let giver = Rc::clone(&shard);
        local.spawn_local(async move { giver.give(|| {}).await });
        let polite = shard.enter(key(1000));
        let seen = Rc::clone(&work);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let idle = local.block_on(&runtime, async move {
            for _ in 0..100 {
                // All connections ask for their first turn.
                tokio::task::yield_now().await;
                seen.since_look.set(0);
            }
            let (mut idle, mut before) = (0, seen.total.get());
            for _ in 0..LOOKS {
                // Resumed when the event loop has looked, as the task of a connection with a call is.
                tokio::task::yield_now().await;
                assert!(!polite.has_to_wait(1), "a cheap call goes at once");
                polite.use_up(1, 0);
                seen.since_look.set(0);
                let done = seen.total.get();
                idle += u64::from(done == before);
                before = done;
            }
            idle
        });
        // Served in the order they came, every look would find something to do.
        assert!(idle * 100 <= LOOKS * 3, "{idle} of {LOOKS}");
        let by_client = work.by_client.borrow();
        let served = |number: &u32| by_client[number] as f64 / f64::from(weights[number]);
        let by_weight: Vec<f64> = weights.keys().map(served).collect();
        let least = by_weight.iter().copied().fold(f64::MAX, f64::min);
        let greatest = by_weight.iter().copied().fold(0.0, f64::max);
        let turns = 2.0 * limits::TURN_COST_MAX as f64;
        assert!(greatest - least <= turns, "{least} to {greatest}");
    }
}
