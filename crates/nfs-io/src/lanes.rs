//! Who may start: jobs by file system and by client, within the places there are.
//!
//! Jobs come in *lanes*, one for each file system: a file system that has stopped answering must not take
//! every place. A lane may take a place while it has fewer than its fixed share **and** fewer than what is
//! free for everybody else: the first stalled lane gets at most half of the places, the second at most half
//! of the rest, and so on, so that there is nearly always a place for a healthy one.
//!
//! Within a lane, networks take turns by their weight, within a network its clients, and jobs of one client start
//! in the order they came. A network of which nothing runs in a lane that has taken its share may have one place beyond it,
//! while half of what is left stays free: else whoever filled the lane of a file system that answers some
//! calls late would make all others wait for those.
//!
//! What waits is bounded for each lane. In a full lane, a job of a client that holds less than its share of
//! what waits pushes out the latest job of the client that holds most; any other is refused.
//!
//! What is to be done once for many jobs goes *behind* a lane: it starts when all that waited there when it came has
//! started, or [`BEHIND_JOBS_MAX`] have, and is never refused. Where the lane has taken its share, so that what waits may
//! wait for what is stuck, it has a place beyond that at once. There is little of it, as its callers see to.
//!
//! Without threads, clock and I/O: the pool and the ring ask who is next.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use crate::limits::{BEHIND_JOBS_MAX, LANES_IDLE_MAX, TURNS_IDLE_CLIENTS_MAX};
use crate::turns::ClientKey;

mod fair;

use fair::FairQueue;

/// What jobs must not block each other across: mostly a device number (`st_dev`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane(pub u64);

/// On whose behalf a job runs: each gets its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Client {
    /// Where the client is: networks share a lane first, and each divides its share among its clients. So
    /// nobody gets more by claiming to be many.
    pub network: u64,
    /// What tells the clients of one network apart.
    pub machine: u64,
}

impl Client {
    /// The program itself, for work that no client asked for.
    pub const OWN: Self = Self {
        network: u64::MAX,
        machine: 0,
    };

    /// The client `machine` at an address; see [`ClientKey`] for what is one network.
    #[must_use]
    pub fn at(address: IpAddr, machine: u64) -> Self {
        let network = ClientKey::of(address).number();
        Self { network, machine }
    }
}

/// The line in which a job waits: that of one client for one file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    /// The file system.
    pub lane: Lane,
    /// Whose job it is.
    pub client: Client,
    /// How many turns the client's network has for one of a network of weight 1. `None` where the rule that says
    /// it is not known yet: as many as for its other jobs that wait, or 1.
    pub weight: Option<u32>,
}

impl From<Lane> for Queue {
    /// The line of what the program does by itself.
    fn from(lane: Lane) -> Self {
        Self {
            lane,
            client: Client::OWN,
            weight: None,
        }
    }
}

/// The bounds of some lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneLimits {
    /// Places that all lanes have together: threads of the pool, operations in flight on a ring.
    pub(crate) places_max: usize,
    /// Places that one lane may take, at most `places_max`.
    pub(crate) lane_max: usize,
    /// Jobs of one lane that may wait.
    pub(crate) queued_max: usize,
}

/// Counts what runs in each lane and keeps what has to wait.
pub(crate) struct Lanes<T> {
    limits: LaneLimits,
    running: usize,
    queued: usize,
    /// How many of the places taken are beyond the share of their lane.
    beyond: usize,
    /// Lanes with something queued or running, and at most so many others that there are [`LANES_IDLE_MAX`]. In
    /// a tree and not in a table of hashes: every job looks its lane up, and there are few.
    lanes: BTreeMap<Lane, LaneState<T>>,
    /// Lanes with something queued, in the order their turn comes.
    turns: VecDeque<Lane>,
}

struct LaneState<T> {
    running: usize,
    /// How many of those running are beyond the lane's share.
    beyond: usize,
    running_of: RunningOf,
    queue: FairQueue<T>,
    /// How many jobs of the queue have started.
    started: u64,
    behind: VecDeque<Behind<T>>,
}

/// A job that starts once `after` jobs of the queue have, or when the queue is empty.
struct Behind<T> {
    after: u64,
    job: T,
}

/// By which right a job may start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Right {
    /// The lane has a place left of its share.
    Share,
    /// Nothing of the job's network runs in the lane.
    FirstOfNetwork,
}

impl<T> Lanes<T> {
    pub(crate) fn new(limits: LaneLimits) -> Self {
        Self {
            limits,
            running: 0,
            queued: 0,
            beyond: 0,
            lanes: BTreeMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// How many jobs wait in all lanes together.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// How many jobs run in all lanes together.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// Counts a job as running if it may start now and would overtake nobody of its lane.
    pub(crate) fn start_at_once(&mut self, queue: Queue) -> bool {
        let free = self.free();
        let lane = self.lanes.entry(queue.lane).or_default();
        let starts = lane.queue.is_empty() && self.limits.leave_share(lane.running, free);
        if starts {
            lane.running += 1;
            lane.running_of.begin(queue.client.network);
            self.running += 1;
        } else {
            self.forget_if_idle(queue.lane);
        }
        starts
    }

    fn would_start_at_once(&self, lane: Lane) -> bool {
        self.queued_in(lane) == 0 && self.has_share_left(lane)
    }

    /// Whether one more job may wait, where another gives way if need be.
    pub(crate) fn takes(&self, queue: Queue) -> bool {
        !self.is_full_for(queue)
            || self.lanes.get(&queue.lane).is_some_and(|lane| {
                lane.queue
                    .gives_way_to(queue.client, queue.weight)
                    .is_some()
            })
    }

    /// Lets a job wait that the line [takes](Self::takes). Another of the same lane may have to give way, and
    /// is returned.
    pub(crate) fn wait(&mut self, queue: Queue, job: T) -> Option<T> {
        let full = self.is_full_for(queue);
        let lane = self.lanes.entry(queue.lane).or_default();
        let had_its_turn = lane.has_something();
        let pushed_out = full
            .then(|| lane.queue.push_out_for(queue.client, queue.weight))
            .flatten();
        lane.queue.push(queue.client, queue.weight, job);
        self.queued += usize::from(pushed_out.is_none());
        if !had_its_turn {
            self.turns.push_back(queue.lane);
        }
        pushed_out
    }

    /// Lets a job wait until all that waits in its lane now has started, or as much of it as [`BEHIND_JOBS_MAX`].
    pub(crate) fn wait_behind(&mut self, name: Lane, job: T) {
        let lane = self.lanes.entry(name).or_default();
        if !lane.has_something() {
            self.turns.push_back(name);
        }
        let after = lane.started + lane.queue.len().min(BEHIND_JOBS_MAX) as u64;
        lane.behind.push_back(Behind { after, job });
        self.queued += 1;
    }

    fn is_full_for(&self, queue: Queue) -> bool {
        self.queued_in(queue.lane) >= self.limits.queued_max
            && !self.would_start_at_once(queue.lane)
    }

    /// Whether something that waits may start.
    pub(crate) fn has_next(&self) -> bool {
        self.turns.iter().any(|&lane| self.right_of(lane).is_some())
    }

    /// The next job that may start, counted as running.
    pub(crate) fn next(&mut self) -> Option<(Queue, T)> {
        let mut turns = self.turns.iter().enumerate();
        let (at, right) = turns.find_map(|(at, &lane)| Some((at, self.right_of(lane)?)))?;
        let name = self.turns.remove(at)?;
        let lane = self.lanes.get_mut(&name)?;
        let (client, job) = lane.pop(right)?;
        lane.running += 1;
        lane.running_of.begin(client.network);
        self.running += 1;
        self.queued -= 1;
        if right == Right::FirstOfNetwork {
            lane.beyond += 1;
            self.beyond += 1;
        }
        if lane.has_something() {
            self.turns.push_back(name);
        }
        let queue = Queue {
            lane: name,
            client,
            weight: None,
        };
        Some((queue, job))
    }

    /// A job of this line does not run any more.
    pub(crate) fn leave(&mut self, queue: Queue) {
        let Some(lane) = self.lanes.get_mut(&queue.lane) else {
            return;
        };
        lane.running -= 1;
        self.running -= 1;
        lane.running_of.end(queue.client.network, lane.running);
        // A place is as good as another: one fewer is beyond the share, whichever was given back.
        if lane.beyond > 0 {
            lane.beyond -= 1;
            self.beyond -= 1;
        }
        self.forget_if_idle(queue.lane);
    }

    /// Everything that waits, in no particular order.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        self.turns.clear();
        self.queued = 0;
        let lanes = self.lanes.values_mut();
        lanes
            .flat_map(|lane| {
                let behind = std::mem::take(&mut lane.behind);
                let behind = behind.into_iter().map(|behind| behind.job);
                lane.queue.take_all().into_iter().chain(behind)
            })
            .collect()
    }

    fn queued_in(&self, lane: Lane) -> usize {
        self.lanes.get(&lane).map_or(0, |lane| lane.queue.len())
    }

    fn right_of(&self, name: Lane) -> Option<Right> {
        if self.has_share_left(name) {
            return Some(Right::Share);
        }
        let lane = self.lanes.get(&name)?;
        let may = self.beyond < self.free() / 2
            && (lane.queue.has_any(|network| !lane.running_of.has(network))
                || lane.may_start_behind(Right::FirstOfNetwork));
        may.then_some(Right::FirstOfNetwork)
    }

    /// Whether the lane is below its fixed share, and has fewer places than it leaves free for the others.
    fn has_share_left(&self, lane: Lane) -> bool {
        let own = self.lanes.get(&lane).map_or(0, |lane| lane.running);
        self.limits.leave_share(own, self.free())
    }

    /// Forgets a lane in which nothing is queued or running, where many are known.
    fn forget_if_idle(&mut self, name: Lane) {
        if self.lanes.len() <= LANES_IDLE_MAX {
            return;
        }
        let idle = |lane: &LaneState<T>| lane.running == 0 && !lane.has_something();
        if self.lanes.get(&name).is_some_and(idle) {
            self.lanes.remove(&name);
        }
    }

    fn free(&self) -> usize {
        self.limits.places_max.saturating_sub(self.running)
    }
}

impl LaneLimits {
    /// Whether a lane of which `own` jobs run may have one more place, where `free` are free.
    fn leave_share(&self, own: usize, free: usize) -> bool {
        own < self.lane_max && own < free
    }
}

/// How many jobs of each network run in a lane.
#[derive(Default)]
struct RunningOf(BTreeMap<u64, usize>);

impl RunningOf {
    fn has(&self, network: u64) -> bool {
        self.0.get(&network).is_some_and(|&running| running > 0)
    }

    fn begin(&mut self, network: u64) {
        *self.0.entry(network).or_default() += 1;
    }

    /// A job of the network runs no more, and `running` of all together do. Whoever has none stays known for
    /// a while, as it is likely to come again.
    fn end(&mut self, network: u64, running: usize) {
        if let Some(of) = self.0.get_mut(&network) {
            *of -= 1;
        }
        if self.0.len() > 2 * running + TURNS_IDLE_CLIENTS_MAX {
            self.0.retain(|_, running| *running > 0);
        }
    }
}

impl<T> Default for LaneState<T> {
    fn default() -> Self {
        Self {
            running: 0,
            beyond: 0,
            running_of: RunningOf::default(),
            queue: FairQueue::default(),
            started: 0,
            behind: VecDeque::new(),
        }
    }
}

impl<T> LaneState<T> {
    fn has_something(&self) -> bool {
        !self.queue.is_empty() || !self.behind.is_empty()
    }

    /// Whether the first of those behind may start by this right. Where the lane has taken its share, what it is
    /// behind may be stuck: it waits for nothing then.
    fn may_start_behind(&self, right: Right) -> bool {
        let Some(first) = self.behind.front() else {
            return false;
        };
        match right {
            Right::Share => self.queue.is_empty() || self.started >= first.after,
            Right::FirstOfNetwork => !self.running_of.has(Client::OWN.network),
        }
    }

    fn pop(&mut self, right: Right) -> Option<(Client, T)> {
        if self.may_start_behind(right) {
            let behind = self.behind.pop_front()?;
            return Some((Client::OWN, behind.job));
        }
        let running_of = &self.running_of;
        let popped = self
            .queue
            .pop(|network| right == Right::Share || !running_of.has(network))?;
        self.started += 1;
        Some(popped)
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
