//! Which connection goes on on another shard, and when.
//!
//! A new connection goes where the fewest are, as nothing is known yet of what it will do. So one thread may come to
//! have more to do than it can, and small calls on it wait behind large ones, while another has nothing to do. Each
//! shard looks now and then how long all of them were busy ([`limits::SHARD_LOOK_MILLISECONDS`]). While its own thread
//! is busy and one that has nothing to do was far less so, it lets a connection go there at each look: one that has no
//! call on its way, and for which so little is done that the other thread will be less busy with it than this one was.
//!
//! A thread that does not come to an end of what it does, as it waits for a disk, takes no connection. What a thread does
//! only to [look for more](nfs_io::event_loop) does not count.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs_io::event_loop::LoopTimes;

use super::shards::Shards;
use crate::limits;

/// What a shard knows of all shards' loads; lives on its thread.
pub(super) struct OwnLoad {
    shards: Arc<Shards>,
    /// Which of the shards this one is.
    number: usize,
    looked: Cell<Instant>,
    /// How long each thread had been busy then.
    busy: Vec<Cell<Duration>>,
    /// How often it has looked at the threads.
    looks: Cell<u64>,
    /// What was done for all connections.
    done: Done,
    way: Cell<Option<Way>>,
}

/// Where a connection may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    to: usize,
    /// The largest part of what this shard does that may go, in thousandths.
    most: u64,
}

/// What was done for one connection, or for all, as [`cost`](super::turns::ConnectionTurns::cost) tells it.
#[derive(Default)]
struct Done {
    /// The look that was the last one when something was noted.
    look: Cell<u64>,
    /// What was done since that look.
    since: Cell<u64>,
    /// What was done between that look and the one before.
    before: Cell<u64>,
}

/// What one connection makes its shard do.
pub(super) struct ConnectionLoad {
    /// The look that was the last one when it came.
    came: u64,
    done: Done,
}

impl Done {
    fn note(&self, look: u64, cost: u64) {
        self.turn_to(look);
        self.since.set(self.since.get().saturating_add(cost));
    }

    /// What was done between the last two looks.
    fn between_looks(&self, look: u64) -> u64 {
        self.turn_to(look);
        self.before.get()
    }

    fn turn_to(&self, look: u64) {
        let since = match look.saturating_sub(self.look.replace(look)) {
            0 => return,
            1 => self.since.get(),
            _ => 0,
        };
        self.before.set(since);
        self.since.set(0);
    }
}

impl OwnLoad {
    /// For the shard of this number.
    pub(super) fn new(shards: Arc<Shards>, number: usize) -> Self {
        Self {
            busy: shards
                .loads()
                .map(|load| Cell::new(load.worked()))
                .collect(),
            shards,
            number,
            looked: Cell::new(Instant::now()),
            looks: Cell::new(0),
            done: Done::default(),
            way: Cell::new(None),
        }
    }

    pub(super) const fn shards(&self) -> &Arc<Shards> {
        &self.shards
    }

    /// What a connection that has just come makes this shard do: nothing yet.
    pub(super) fn enter(&self) -> ConnectionLoad {
        ConnectionLoad {
            came: self.looks.get(),
            done: Done::default(),
        }
    }

    /// Notes that something of this cost is done for a connection.
    pub(super) fn note(&self, connection: &ConnectionLoad, cost: u64) {
        for done in [&self.done, &connection.done] {
            done.note(self.looks.get(), cost);
        }
    }

    /// Looks at the threads, if it is time to.
    pub(super) fn look(&self, now: Instant) {
        let since = now.saturating_duration_since(self.looked.get());
        if self.busy.len() < 2 || since < Duration::from_millis(limits::SHARD_LOOK_MILLISECONDS) {
            return;
        }
        self.looked.set(now);
        self.looks.set(self.looks.get() + 1);
        let loads = self.shards.loads().zip(&self.busy);
        let busy = loads.map(|(load, before)| {
            let busy = load.worked();
            let new = busy.saturating_sub(before.replace(busy));
            (thousandths(new, since), !load.is_at_work())
        });
        self.way.set(way(self.number, busy));
    }

    /// How long this thread had nothing to do before it began what it does now.
    pub(super) fn waited(&self) -> Duration {
        let own = self.shards.loads().nth(self.number);
        own.map(LoopTimes::waited).unwrap_or_default()
    }

    /// Whether some connection may go to another shard.
    pub(super) fn has_a_way(&self) -> bool {
        self.way.get().is_some()
    }

    /// The shard to which this connection is to go, if there is one. No other goes before the next look.
    pub(super) fn way_for(&self, connection: &ConnectionLoad) -> Option<usize> {
        let way = self.way.get()?;
        let look = self.looks.get();
        let own = connection.done.between_looks(look);
        let all = self.done.between_looks(look);
        let is_known = look.saturating_sub(connection.came) >= limits::SHARD_LOOKS_BEFORE_A_MOVE;
        if !is_known || own.saturating_mul(1000) > all.saturating_mul(way.most) {
            return None;
        }
        self.way.set(None);
        Some(way.to)
    }
}

fn thousandths(part: Duration, of: Duration) -> u64 {
    let part = part.as_micros().saturating_mul(1000);
    let thousandths = part.checked_div(of.as_micros()).unwrap_or(0);
    u64::try_from(thousandths).map_or(1000, |thousandths| thousandths.min(1000))
}

/// Where a connection of the shard `own` may go. Of each shard: for how much of the time it was busy, in thousandths, and
/// whether it has nothing to do.
fn way(own: usize, busy: impl Iterator<Item = (u64, bool)>) -> Option<Way> {
    let mut own_busy = 0;
    let mut least: Option<(usize, u64)> = None;
    for (number, (busy, is_free)) in busy.enumerate() {
        if number == own {
            own_busy = busy;
        } else if is_free && least.is_none_or(|(_, least)| busy < least) {
            least = Some((number, busy));
        }
    }
    let (to, least) = least?;
    let difference = own_busy.saturating_sub(least);
    if own_busy < limits::SHARD_BUSY_THOUSANDTHS_MIN
        || difference < limits::SHARD_DIFFERENCE_THOUSANDTHS_MIN
    {
        return None;
    }
    // More than half of it would make the other one the busier of the two.
    let most = (difference * 1000 / 2).checked_div(own_busy)?;
    Some(Way { to, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way_of(own: usize, busy: &[(u64, bool)]) -> Option<Way> {
        way(own, busy.iter().copied())
    }

    #[test]
    fn a_busy_shard_lets_go_to_the_one_that_does_least_and_no_more_than_evens_it_out() {
        let to = |to, most| Some(Way { to, most });
        assert_eq!(way_of(0, &[(1000, false), (0, true)]), to(1, 500));
        assert_eq!(way_of(1, &[(200, true), (800, false)]), to(0, 375));
        let three = [(900, false), (400, true), (100, true)];
        assert_eq!(way_of(0, &three), to(2, 444));
    }

    #[test]
    fn nothing_goes_where_it_would_help_little_or_not_at_all() {
        // Alone; little to do; as much to do there.
        assert_eq!(way_of(0, &[(1000, false)]), None);
        assert_eq!(way_of(0, &[(300, false), (0, true)]), None);
        assert_eq!(way_of(0, &[(1000, false), (900, true)]), None);
        // It did little because it waits for a disk.
        assert_eq!(way_of(0, &[(1000, false), (0, false)]), None);
    }

    #[test]
    fn what_was_done_between_the_last_looks_is_told() {
        let done = Done::default();
        done.note(0, 3);
        assert_eq!(done.between_looks(0), 0);
        done.note(1, 5);
        done.note(1, 6);
        assert_eq!(done.between_looks(1), 3);
        assert_eq!(done.between_looks(2), 11);
        done.note(2, 7);
        assert_eq!(done.between_looks(4), 0, "nothing was done after the third");
    }

    #[test]
    fn of_times_the_thousandths_are_told() {
        let milliseconds = Duration::from_millis;
        assert_eq!(thousandths(milliseconds(20), milliseconds(80)), 250);
        assert_eq!(thousandths(milliseconds(90), milliseconds(80)), 1000);
        assert_eq!(thousandths(milliseconds(90), Duration::ZERO), 0);
    }
}
