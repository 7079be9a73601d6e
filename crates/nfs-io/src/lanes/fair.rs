//! What waits in one lane: networks take turns, and within a network its clients.

use std::collections::{BTreeMap, VecDeque};

use super::Client;

/// Jobs by client. The order is that of turns, and for one client that in which they came.
pub(super) struct FairQueue<T> {
    /// Only networks with something in it.
    networks: BTreeMap<u64, Network<T>>,
    /// Each of the networks once, in the order their turn comes.
    turns: VecDeque<u64>,
    len: usize,
}

struct Network<T> {
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

    pub(super) fn push(&mut self, client: Client, job: T) {
        let network = self.networks.entry(client.network).or_insert_with(|| {
            self.turns.push_back(client.network);
            Network::default()
        });
        network.push(client.machine, job);
        self.len += 1;
    }

    /// Whether a job of a network that `may` accepts is there. Looks at one more network than `may` refuses.
    pub(super) fn has_any(&self, may: impl Fn(u64) -> bool) -> bool {
        self.turns.iter().any(|&network| may(network))
    }

    /// The next job of a network that `may` accepts.
    pub(super) fn pop(&mut self, may: impl Fn(u64) -> bool) -> Option<(Client, T)> {
        let at = self.turns.iter().position(|&network| may(network))?;
        let name = self.turns.remove(at)?;
        let network = self.networks.get_mut(&name)?;
        let (machine, job) = network.pop()?;
        self.len -= 1;
        if network.len == 0 {
            self.networks.remove(&name);
        } else {
            self.turns.push_back(name);
        }
        let network = name;
        Some((Client { network, machine }, job))
    }

    /// The network that gives up a job so that there is room for one of `newcomer`: where the newcomer has less
    /// than its share, whichever has most. Shares are equal parts of all that waits, of the networks first, and
    /// within a network of its clients.
    pub(super) fn gives_way_to(&self, newcomer: Client) -> Option<u64> {
        let own = self.networks.get(&newcomer.network);
        let networks = self.networks.len() + usize::from(own.is_none());
        if own.map_or(0, |own| own.len) < self.len / networks {
            let most = self.networks.iter().max_by_key(|(_, network)| network.len);
            return most.map(|(&name, _)| name);
        }
        let within = own?.is_below_share(newcomer.machine);
        within.then_some(newcomer.network)
    }

    /// Takes out a job so that there is room for one of `newcomer`: the latest of the client that has most in
    /// the network that gives way.
    pub(super) fn push_out_for(&mut self, newcomer: Client) -> Option<T> {
        let name = self.gives_way_to(newcomer)?;
        let network = self.networks.get_mut(&name)?;
        let job = network.push_out()?;
        self.len -= 1;
        if network.len == 0 {
            self.networks.remove(&name);
            self.turns.retain(|&turn| turn != name);
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
            turns: VecDeque::new(),
            len: 0,
        }
    }
}

impl<T> Default for Network<T> {
    fn default() -> Self {
        Self {
            machines: BTreeMap::new(),
            turns: VecDeque::new(),
            len: 0,
        }
    }
}
