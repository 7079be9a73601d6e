//! What waits in one lane: networks take turns by their weight, and within a network its clients.
//!
//! A turn of a network takes so much virtual time that in the time of one turn at weight 1 a network of weight 4
//! has four. Who comes stands where it would stand had it just had a turn: behind all others that wait, at weight 1.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Client;

/// Jobs by client. The order is that of turns, and for one client that in which they came.
pub(super) struct FairQueue<T> {
    /// Only networks with something in it.
    networks: BTreeMap<u64, Network<T>>,
    /// Each of the networks once, in the order their turn comes.
    turns: BTreeSet<Turn>,
    /// Virtual time: that of the turn that was given last.
    now: u64,
    /// Tells turns of the same time apart, in the order in which they were asked for.
    asked: u64,
    len: usize,
}

/// When a network's next turn comes in virtual time, the number that turns of the same time are ordered by, and
/// the network.
type Turn = (u64, u64, u64);

/// Virtual time of a turn at weight 1: what is lost by dividing by a weight is little.
const TIME_PER_TURN: u64 = 1 << 20;

struct Network<T> {
    /// How many turns it has for one of a network of weight 1; never 0.
    weight: u32,
    turn: Turn,
    /// Only clients with something in it.
    machines: BTreeMap<u64, VecDeque<T>>,
    /// Each of the clients once, in the order their turn comes.
    turns: VecDeque<u64>,
    len: usize,
}

impl<T> FairQueue<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Lets a job wait. `weight`: the network's from now on, if it is known.
    pub(super) fn push(&mut self, client: Client, weight: Option<u32>, job: T) {
        let network = self.networks.entry(client.network).or_insert_with(|| {
            let weight = weight.unwrap_or(1).max(1);
            let time = self.now + TIME_PER_TURN / u64::from(weight);
            let turn = (time, self.asked, client.network);
            self.asked += 1;
            self.turns.insert(turn);
            Network::new(weight, turn)
        });
        network.weight = weight.map_or(network.weight, |weight| weight.max(1));
        network.push(client.machine, job);
        self.len += 1;
    }

    /// Whether a job of a network that `may` accepts is there. Looks at one more network than `may` refuses.
    pub(super) fn has_any(&self, may: impl Fn(u64) -> bool) -> bool {
        self.turns.iter().any(|&(_, _, network)| may(network))
    }

    /// The next job of a network that `may` accepts.
    pub(super) fn pop(&mut self, may: impl Fn(u64) -> bool) -> Option<(Client, T)> {
        let turn = *self.turns.iter().find(|turn| may(turn.2))?;
        let name = turn.2;
        let network = self.networks.get_mut(&name)?;
        let (machine, job) = network.pop()?;
        self.len -= 1;
        self.turns.remove(&turn);
        // Where others were passed over, theirs come late, and bring no turns that were not had.
        self.now = self.now.max(turn.0);
        if network.len == 0 {
            self.networks.remove(&name);
        } else {
            let time = self.now + TIME_PER_TURN / u64::from(network.weight);
            network.turn = (time, self.asked, name);
            self.asked += 1;
            self.turns.insert(network.turn);
        }
        let network = name;
        Some((Client { network, machine }, job))
    }

    /// The network that gives up a job so that there is room for one of `newcomer`: where the newcomer has less
    /// than its share, whichever has most for its weight. Shares are parts of all that waits, of the networks by
    /// their weight first, and within a network equal ones of its clients.
    pub(super) fn gives_way_to(&self, newcomer: Client, weight: Option<u32>) -> Option<u64> {
        let own = self.networks.get(&newcomer.network);
        let weight = weight.unwrap_or(own.map_or(1, |own| own.weight)).max(1);
        let others = self.networks.iter();
        let others = others.filter(|(name, _)| **name != newcomer.network);
        let of_others: u64 = others.map(|(_, network)| u64::from(network.weight)).sum();
        let weight = u64::from(weight);
        let share = self.len as u64 * weight / (of_others + weight);
        if own.map_or(0, |own| own.len as u64) < share {
            let networks = self.networks.iter();
            let most = networks.max_by_key(|(_, network)| network.len_by_weight());
            return most.map(|(&name, _)| name);
        }
        let within = own?.is_below_share(newcomer.machine);
        within.then_some(newcomer.network)
    }

    /// Takes out a job so that there is room for one of `newcomer`: the latest of the client that has most in
    /// the network that gives way.
    pub(super) fn push_out_for(&mut self, newcomer: Client, weight: Option<u32>) -> Option<T> {
        let name = self.gives_way_to(newcomer, weight)?;
        let network = self.networks.get_mut(&name)?;
        let job = network.push_out()?;
        self.len -= 1;
        if network.len == 0 {
            self.turns.remove(&network.turn);
            self.networks.remove(&name);
        }
        Some(job)
    }

    pub(super) fn take_all(&mut self) -> Vec<T> {
        let taken = std::mem::take(self);
        let networks = taken.networks.into_values();
        let clients = networks.flat_map(|network| network.machines.into_values());
        clients.flatten().collect()
    }
}

impl<T> Network<T> {
    fn new(weight: u32, turn: Turn) -> Self {
        Self {
            weight,
            turn,
            machines: BTreeMap::new(),
            turns: VecDeque::new(),
            len: 0,
        }
    }

    /// How much waits, in parts that are the same for all where each has its share.
    fn len_by_weight(&self) -> u64 {
        (self.len as u64).saturating_mul(TIME_PER_TURN) / u64::from(self.weight)
    }

    fn push(&mut self, machine: u64, job: T) {
        let queue = self.machines.entry(machine).or_insert_with(|| {
            self.turns.push_back(machine);
            VecDeque::new()
        });
        queue.push_back(job);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<(u64, T)> {
        let machine = self.turns.pop_front()?;
        let queue = self.machines.get_mut(&machine)?;
        let job = queue.pop_front()?;
        self.len -= 1;
        if queue.is_empty() {
            self.machines.remove(&machine);
        } else {
            self.turns.push_back(machine);
        }
        Some((machine, job))
    }

    fn is_below_share(&self, machine: u64) -> bool {
        let own = self.machines.get(&machine);
        let machines = self.machines.len() + usize::from(own.is_none());
        own.map_or(0, VecDeque::len) < self.len / machines
    }

    fn push_out(&mut self) -> Option<T> {
        let most = self.machines.iter().max_by_key(|(_, queue)| queue.len());
        let machine = *most?.0;
        let queue = self.machines.get_mut(&machine)?;
        let job = queue.pop_back()?;
        self.len -= 1;
        if queue.is_empty() {
            self.machines.remove(&machine);
            self.turns.retain(|&turn| turn != machine);
        }
        Some(job)
    }
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            networks: BTreeMap::new(),
            turns: BTreeSet::new(),
            now: 0,
            asked: 0,
            len: 0,
        }
    }
}
