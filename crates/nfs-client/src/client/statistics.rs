//! What a client tells about itself: [`Client::statistics`].

use std::time::Duration;

use super::Client;
use crate::connection::{Connection, Operation, Stats};
use crate::file::{CacheStatistics, WindowStatistics};

/// What a client has done since its connections were made, and how deep it works now.
///
/// Of all clients over the same connections: those that [`Client::with_identity`] makes count as one. A snapshot is no
/// cut through all counters at one moment: each connection, and each cache, is looked at after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// How long ago the first connection was made, or in a difference, how long it is from one snapshot to the next.
    pub age: Duration,
    /// How many connections there are, those that are to be made again too.
    pub connections: u32,
    /// How many of them are up, as far as is known.
    pub connections_up: u32,
    /// What was counted of the connections themselves.
    pub transport: Stats,
    /// What the calls of each kind came to; kinds without a call are left out.
    pub operations: Vec<Operation>,
    /// How much files have on their way.
    pub windows: WindowStatistics,
    /// What was served without asking the server.
    pub cache: CacheStatistics,
}

impl Statistics {
    /// What came since `earlier`: counts and times are of the time between the two, the states (windows, connections,
    /// calls in flight) are those of now. `None` where `earlier` is no earlier state of this one, so that something
    /// was begun anew between the two.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let mut operations = Vec::with_capacity(self.operations.len());
        for now in &self.operations {
            let before = earlier.operations.iter().find(|one| one.kind == now.kind);
            operations.push(match before {
                Some(before) => now.since(before)?,
                None => now.clone(),
            });
        }
        Some(Self {
            age: self.age.checked_sub(earlier.age)?,
            transport: self.transport.since(&earlier.transport)?,
            cache: self.cache.since(&earlier.cache)?,
            operations,
            ..self.clone()
        })
    }
}

impl Client {
    /// What this client has done so far: operations, times, bytes, what was sent again, windows, caches.
    ///
    /// Takes each connection's lock once, for as long as its counters are copied: some ten microseconds.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let connections = self.nfs.connections();
        let all = connections.all();
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Statistics {
            age: connections.first().made_at().elapsed(),
            connections: count(all.len()),
            connections_up: count(all.iter().filter(|one| Connection::is_up(one)).count()),
            transport: connections.stats(),
            operations: connections.operations(),
            windows: self.files.window_statistics(),
            cache: self.files.cache_statistics(),
        }
    }
}
