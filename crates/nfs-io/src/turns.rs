//! Whose turn it is, among clients that want more than there is: start-time fair queueing.
//!
//! Each client has a queue of its own. What is served is counted in virtual time: a client that was served
//! `cost` gets its next turn `cost` divided by its weight later than now, so that who has had much waits for
//! who has had little, and somebody who comes after a pause is next. Of two clients that both wait
//! all the time, neither gets ahead of the other, in cost by weight, by more than one turn of each.
//!
//! Nothing here waits, knows a clock or does I/O; an order is all that comes out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use crate::limits::TURNS_IDLE_CLIENTS_MAX;

/// Stands for one client where only its share matters: its address. All addresses of an IPv6 /64 are
/// one, as a single machine has as many of these as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientKey(u64);

impl ClientKey {
    /// The client at this address. An IPv4 address that is mapped into IPv6 is the IPv4 one.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(u32::from(address).into()),
            // No network has a prefix of 32 zero bits, which the numbers of IPv4 addresses begin with.
            IpAddr::V6(address) => Self((u128::from(address) >> 64) as u64),
        }
    }
}

impl ClientKey {
    /// A user of this machine, whatever addresses of it are used; what numbers there are is the caller's affair.
    #[must_use]
    pub const fn of_local(user: u64) -> Self {
        /// The first bits of multicast addresses, which nobody calls from.
        const NOBODYS: u64 = 0xff << 56;
        Self(NOBODYS | (user & (!NOBODYS >> 1)))
    }

    /// The number that stands for it: no other client's, and not the largest one.
    pub(crate) const fn number(self) -> u64 {
        self.0
    }
}

/// A client, and how much it is to get compared with others that want something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharer {
    /// Which one it is.
    pub key: ClientKey,
    /// Its share beside that of others: 1 where nobody said otherwise, and never 0.
    pub weight: u32,
}

impl Sharer {
    /// The client at this address, with the weight that it has if nobody says otherwise.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        Self {
            key: ClientKey::of(address),
            weight: 1,
        }
    }
}

/// What becomes of whoever is next of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has its turn.
    Take,
    /// Its client has to wait, and others may overtake it.
    Skip,
    /// Nobody is to overtake it.
    Stop,
}

/// Those who wait for a turn, each with something of type `T`.
#[derive(Debug)]
pub struct Turns<T> {
    flows: HashMap<ClientKey, Flow<T>>,
    /// The first of each client's queue, in the order of their turns.
    heads: BTreeSet<Head>,
    /// Virtual time: where the turn that was given last began.
    now: u64,
    next_place: u64,
}

/// When a client's turn begins in virtual time, the place of whoever has it, and the client.
type Head = (u64, u64, ClientKey);

#[derive(Debug)]
struct Flow<T> {
    waiting: BTreeMap<u64, Waiter<T>>,
    /// Where in virtual time the client's next turn may begin.
    finish: u64,
    head: Option<Head>,
}

#[derive(Debug)]
struct Waiter<T> {
    weight: u32,
    cost: u64,
    what: T,
}

/// Virtual time that a cost of 1 takes at weight 1: what is lost by dividing by a weight is little.
const TIME_PER_COST: u64 = 1 << 16;

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            flows: HashMap::new(),
            heads: BTreeSet::new(),
            now: 0,
            next_place: 0,
        }
    }
}

impl<T> Turns<T> {
    /// True when nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The clients of whom somebody waits.
    pub fn clients(&self) -> impl Iterator<Item = ClientKey> {
        self.heads.iter().map(|(_, _, client)| *client)
    }

    /// Lets somebody wait for a turn of this cost, behind those of the same client that wait. The number says
    /// which place it has, for [`Turns::leave`].
    pub fn join(&mut self, client: Sharer, cost: u64, what: T) -> u64 {
        let place = self.next_place;
        self.next_place += 1;
        self.forget_idle();
        let flow = self.flows.entry(client.key).or_insert_with(|| Flow {
            waiting: BTreeMap::new(),
            finish: self.now,
            head: None,
        });
        let waiter = Waiter {
            weight: client.weight.max(1),
            cost,
            what,
        };
        flow.waiting.insert(place, waiter);
        if flow.head.is_none() {
            let head = (flow.finish.max(self.now), place, client.key);
            flow.head = Some(head);
            self.heads.insert(head);
        }
        place
    }

    /// Counts what a client was served beside what its turns were said to cost: its next turn comes later.
    pub fn charge(&mut self, client: Sharer, cost: u64) {
        let Some(flow) = self.flows.get_mut(&client.key) else {
            return;
        };
        let time = cost.saturating_mul(TIME_PER_COST) / u64::from(client.weight.max(1));
        flow.finish = flow.finish.max(self.now).saturating_add(time);
        if let Some(head) = flow.head.take() {
            self.heads.remove(&head);
            flow.promote(flow.finish, client.key, &mut self.heads);
        }
    }

    /// Gives up a place. `None` when its turn has come.
    pub fn leave(&mut self, client: ClientKey, place: u64) -> Option<T> {
        let flow = self.flows.get_mut(&client)?;
        let waiter = flow.waiting.remove(&place)?;
        if let Some(head) = flow.head
            && head.1 == place
        {
            self.heads.remove(&head);
            flow.promote(head.0, client, &mut self.heads);
        }
        Some(waiter.what)
    }

    /// Takes out whoever has the next turn.
    pub fn next_turn(&mut self) -> Option<T> {
        self.next_turn_where(|_, _, _| Verdict::Take)
    }

    /// Takes out whoever has the next turn, as `judge` says of the first of each client, by its weight and
    /// the cost it asked for.
    pub fn next_turn_where(
        &mut self,
        mut judge: impl FnMut(Sharer, u64, &T) -> Verdict,
    ) -> Option<T> {
        let flows = &self.flows;
        let mut taken = None;
        for head in &self.heads {
            let (_, place, key) = *head;
            let Some(waiter) = flows.get(&key).and_then(|flow| flow.waiting.get(&place)) else {
                continue;
            };
            let client = Sharer {
                key,
                weight: waiter.weight,
            };
            match judge(client, waiter.cost, &waiter.what) {
                Verdict::Take => {
                    taken = Some(*head);
                    break;
                }
                Verdict::Skip => {}
                Verdict::Stop => return None,
            }
        }
        let head = taken?;
        let (start, place, key) = head;
        self.heads.remove(&head);
        self.now = self.now.max(start);
        let flow = self.flows.get_mut(&key)?;
        let waiter = flow.waiting.remove(&place)?;
        let time = waiter.cost.saturating_mul(TIME_PER_COST) / u64::from(waiter.weight);
        flow.finish = start.saturating_add(time);
        flow.promote(flow.finish.max(self.now), key, &mut self.heads);
        Some(waiter.what)
    }

    /// Whether this client, of whom nobody waits, would have the next turn if it asked for one now: whoever waits
    /// in front of it is passed over by `judge`, which is asked as in [`Turns::next_turn_where`]. Of a client
    /// that waits itself the answer is no, as its own calls keep their order.
    pub fn would_be_next(
        &self,
        client: ClientKey,
        mut judge: impl FnMut(Sharer, u64) -> Verdict,
    ) -> bool {
        let start = match self.flows.get(&client) {
            Some(flow) if flow.head.is_some() => return false,
            Some(flow) => flow.finish.max(self.now),
            None => self.now,
        };
        self.heads
            .iter()
            .take_while(|(other, _, _)| *other <= start)
            .filter_map(|(_, place, key)| {
                let waiter = self.flows.get(key)?.waiting.get(place)?;
                let weight = waiter.weight;
                Some((Sharer { key: *key, weight }, waiter.cost))
            })
            .all(|(waiting, cost)| judge(waiting, cost) == Verdict::Skip)
    }

    /// Counts a turn that a client had without waiting, while others waited: as if it had joined and been the
    /// next.
    pub fn note_turn(&mut self, client: Sharer, cost: u64) {
        self.forget_idle();
        let now = self.now;
        let flow = self.flows.entry(client.key).or_insert_with(|| Flow {
            waiting: BTreeMap::new(),
            finish: now,
            head: None,
        });
        let start = flow.finish.max(now);
        let time = cost.saturating_mul(TIME_PER_COST) / u64::from(client.weight.max(1));
        flow.finish = start.saturating_add(time);
        self.now = start;
    }

    /// Forgets clients that wait for nothing: what they were served counts no more, which is at most a turn
    /// of each.
    fn forget_idle(&mut self) {
        if self.flows.len() > 2 * self.heads.len() + TURNS_IDLE_CLIENTS_MAX {
            self.flows.retain(|_, flow| flow.head.is_some());
        }
    }
}

impl<T> Flow<T> {
    /// The first that waits becomes the client's next, with a turn that begins at `start`.
    fn promote(&mut self, start: u64, client: ClientKey, heads: &mut BTreeSet<Head>) {
        let first = self.waiting.first_key_value();
        self.head = first.map(|(place, _)| (start, *place, client));
        heads.extend(self.head);
    }
}

/// Who holds how much of a number of places (or bytes), and who waits for some.
///
/// A client that holds nothing gets its place as soon as there is one. A client that holds some gets more as
/// long as it leaves free a fixed part of what it then has: alone it has nearly all, and for whoever
/// comes next there is room at once, without anybody giving back.
#[derive(Debug)]
pub struct Ledger<T> {
    total: u64,
    taken: u64,
    rule: Rule,
    /// In a tree and not in a table of hashes: every call looks its client up, and there are few. Clients that
    /// hold nothing stay for a while, as whoever was here a moment ago comes again.
    held: BTreeMap<ClientKey, Held>,
    /// How many of `held` hold nothing.
    idle: usize,
    waiting: Turns<T>,
}

/// How much one client may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// All of it: only the order is fair.
    Everything,
    /// At most so many times what is left free, times its weight.
    TimesFree(u32),
}

#[derive(Clone, Copy, Debug)]
struct Held {
    amount: u64,
    weight: u32,
}

impl<T> Ledger<T> {
    /// A ledger of `total` places, none of which is taken.
    #[must_use]
    pub fn new(total: u64, rule: Rule) -> Self {
        Self {
            total,
            taken: 0,
            rule,
            held: BTreeMap::new(),
            idle: 0,
            waiting: Turns::default(),
        }
    }

    /// What of `amount` one call can have: all there is, at most.
    #[must_use]
    pub fn at_most(&self, amount: u64) -> u64 {
        amount.min(self.total)
    }

    /// Gives a client `amount`, if it may have it now and its turn is not behind that of somebody who waits.
    ///
    /// That others wait is no reason to refuse: those in front may wait because they hold much themselves, and
    /// a caller that needs a part of two ledgers, and asks each without waiting while it holds the other, would
    /// be refused for as long as they do.
    #[must_use]
    pub fn try_take(&mut self, client: Sharer, amount: u64) -> bool {
        if !self.waiting.is_empty() {
            return self.try_overtake(client, amount);
        }
        let known = self.held.get_mut(&client.key);
        let own = known.as_ref().map_or(0, |held| held.amount);
        let so_far = (self.total, self.taken);
        if self.rule.judge(so_far, own, client, amount) != Verdict::Take {
            return false;
        }
        self.taken += amount;
        match known {
            Some(held) => held.take(client, amount, &mut self.idle),
            None => self.begin_holding(client, amount),
        }
        true
    }

    /// [`Ledger::try_take`] where somebody waits: passes over whom [`Ledger::grant`] would pass over.
    fn try_overtake(&mut self, client: Sharer, amount: u64) -> bool {
        let (rule, so_far) = (self.rule, (self.total, self.taken));
        let judge = |who: Sharer, amount: u64| rule.judge(so_far, self.of(who.key), who, amount);
        let may =
            self.waiting.would_be_next(client.key, judge) && judge(client, amount) == Verdict::Take;
        if may {
            self.waiting.note_turn(client, amount);
            self.note_taken(client, amount);
        }
        may
    }

    /// Lets somebody wait for `amount`: to be followed by [`Ledger::grant`].
    pub fn join(&mut self, client: Sharer, amount: u64, what: T) -> u64 {
        self.waiting.join(client, amount, what)
    }

    /// Gives up a place in the queue: to be followed by [`Ledger::grant`].
    pub fn leave(&mut self, client: ClientKey, place: u64) -> Option<T> {
        self.waiting.leave(client, place)
    }

    /// Gives what is free to whoever has the next turn, and says to whom; to be asked until nobody gets any.
    pub fn grant(&mut self) -> Option<T> {
        if self.waiting.is_empty() {
            return None;
        }
        let (rule, total, taken) = (self.rule, self.total, self.taken);
        let held = &self.held;
        let mut granted = None;
        let what = self.waiting.next_turn_where(|client, amount, _| {
            let own = held.get(&client.key).map_or(0, |held| held.amount);
            let verdict = rule.judge((total, taken), own, client, amount);
            if verdict == Verdict::Take {
                granted = Some((client, amount));
            }
            verdict
        });
        if let Some((client, amount)) = granted {
            self.note_taken(client, amount);
        }
        what
    }

    /// Takes back what a client was given: to be followed by [`Ledger::grant`].
    pub fn give_back(&mut self, client: ClientKey, amount: u64) {
        if let Some(held) = self.held.get_mut(&client) {
            let was_idle = held.amount == 0;
            held.amount = held.amount.saturating_sub(amount);
            if held.amount == 0 && !was_idle {
                self.idle += 1;
                self.forget_idle();
            }
        }
        self.taken = self.taken.saturating_sub(amount);
    }

    /// How much a client holds.
    #[must_use]
    pub fn of(&self, client: ClientKey) -> u64 {
        self.held.get(&client).map_or(0, |held| held.amount)
    }

    /// How much is taken by all together.
    #[must_use]
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// Another client waits, and this one holds more than its share, which is the whole by weight among
    /// those that hold some or wait.
    #[must_use]
    pub fn holds_up_others(&self, client: ClientKey) -> bool {
        let Some(own) = self.held.get(&client) else {
            return false;
        };
        if !self.waiting.clients().any(|other| other != client) {
            return false;
        }
        let holders = self.held.values().filter(|held| held.amount > 0);
        let holding: u64 = holders.map(|held| u64::from(held.weight)).sum();
        let waiting = self.waiting.clients();
        let only_waiting = waiting.filter(|other| self.of(*other) == 0).count() as u64;
        let weights = holding + only_waiting;
        own.amount.saturating_mul(weights) > self.total.saturating_mul(own.weight.into())
    }

    /// A call of this client waits.
    #[must_use]
    pub fn waits(&self, client: ClientKey) -> bool {
        self.waiting.clients().any(|waiting| waiting == client)
    }

    /// True when nobody waits.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.waiting.is_empty()
    }

    fn note_taken(&mut self, client: Sharer, amount: u64) {
        self.taken += amount;
        match self.held.get_mut(&client.key) {
            Some(held) => held.take(client, amount, &mut self.idle),
            None => self.begin_holding(client, amount),
        }
    }

    fn begin_holding(&mut self, client: Sharer, amount: u64) {
        let weight = client.weight.max(1);
        self.held.insert(client.key, Held { amount, weight });
        self.idle += usize::from(amount == 0);
    }

    fn forget_idle(&mut self) {
        let holding = self.held.len() - self.idle;
        if self.idle > holding + TURNS_IDLE_CLIENTS_MAX {
            self.held.retain(|_, held| held.amount > 0);
            self.idle = 0;
        }
    }
}

impl Held {
    fn take(&mut self, client: Sharer, amount: u64, idle: &mut usize) {
        if self.amount == 0 && amount > 0 {
            *idle -= 1;
        }
        self.amount += amount;
        self.weight = client.weight.max(1);
    }
}

impl Rule {
    /// Whether a client that holds `own` may have `amount` more, of a `total` of which `taken` is taken.
    #[must_use]
    pub fn judge(
        self,
        (total, taken): (u64, u64),
        own: u64,
        client: Sharer,
        amount: u64,
    ) -> Verdict {
        let free = total.saturating_sub(taken).checked_sub(amount);
        match (self, free) {
            (Self::Everything, Some(_)) => Verdict::Take,
            (Self::TimesFree(_), Some(_)) if own == 0 => Verdict::Take,
            (Self::TimesFree(times), Some(free)) => {
                let most = free
                    .saturating_mul(times.into())
                    .saturating_mul(client.weight.max(1).into());
                if own.saturating_add(amount) <= most {
                    Verdict::Take
                } else {
                    Verdict::Skip
                }
            }
            // A large request is not overtaken for ever by small ones, unless its client has some already.
            (Self::TimesFree(_), None) if own > 0 => Verdict::Skip,
            (Self::Everything | Self::TimesFree(_), None) => Verdict::Stop,
        }
    }
}

#[cfg(test)]
mod tests;
