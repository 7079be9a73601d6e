//! What a remote user can repeat is counted.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Count {
    /// Requests that were answered from a slot.
    Replayed,
    /// Retries that were not.
    FalseRetries,
    /// Sequences that were neither the last nor the next.
    Misordered,
    /// Requests put off: in progress, being expired, no memory for the reply.
    Delayed,
    /// CREATE_SESSION refused for a bound on clients or sessions.
    SessionsFull,
    /// OPEN refused for a bound.
    OpensFull,
    /// LOCK or LOCKU refused for a bound.
    LocksFull,
    /// Waiters that found the queue full.
    WaitersFull,
    /// Clients whose state was given up because their lease was over.
    Expired,
    /// Clients that were replaced by their own next life.
    Replaced,
    /// Names under which two machines were seen.
    SharedNames,
}

const COUNTS: usize = Count::SharedNames as usize + 1;

/// Counted since the start.
#[derive(Debug, Default)]
pub struct Counters([AtomicU64; COUNTS]);

impl Counters {
    /// How often so far.
    #[must_use]
    pub fn get(&self, count: Count) -> u64 {
        let cell = self.0.get(count as usize);
        cell.map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    pub(crate) fn add(&self, count: Count) {
        if let Some(cell) = self.0.get(count as usize) {
            cell.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn refused(&self, error: Error) {
        match error {
            Error::SeqFalseRetry => self.add(Count::FalseRetries),
            Error::SeqMisordered => self.add(Count::Misordered),
            Error::Delay => self.add(Count::Delayed),
            _ => {}
        }
    }
}
