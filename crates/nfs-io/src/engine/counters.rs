//! What an engine counts of itself, to be read from any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of one engine. They are written by the thread that uses it and, with the thread engine, by those of
/// the pool.
#[derive(Debug, Default)]
pub struct EngineCounters {
    submitted: AtomicU64,
    completed: AtomicU64,
    refused: AtomicU64,
    left_out: AtomicU64,
    waited: AtomicU64,
    waiting: AtomicU64,
    handed_over: AtomicU64,
    not_taken: AtomicU64,
    overflows: AtomicU64,
}

/// What an engine counted until a moment. All but `in_flight` and `waiting` only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineFigures {
    /// Operations that were submitted, those that were refused included.
    pub submitted: u64,
    /// Operations that were carried out to their end, whatever that was.
    pub completed: u64,
    /// Operations that ended with `EAGAIN`, because too many waited.
    pub refused: u64,
    /// Reads that were not begun because nobody waited for them any more, and what an engine had left when it ended.
    pub left_out: u64,
    /// Operations that have not ended: with the kernel or a thread, or waiting for their turn.
    pub in_flight: u64,
    /// Operations that found no place in the ring: they waited for one, or were refused. 0 for the thread engine, whose
    /// operations wait in the pool.
    pub waited: u64,
    /// Of those in flight, the ones that wait for a place in the ring.
    pub waiting: u64,
    /// System calls by which the kernel was handed operations of the ring, and took some.
    pub handed_over: u64,
    /// Such calls of which the kernel took none: it was short of memory, or completions had to be taken first.
    pub not_taken: u64,
    /// Completions for which the ring's queue of them had no room: the kernel keeps them until there is.
    pub overflows: u64,
}

impl std::ops::Add for EngineFigures {
    type Output = Self;

    /// The figures of two engines together.
    fn add(self, other: Self) -> Self {
        Self {
            submitted: self.submitted + other.submitted,
            completed: self.completed + other.completed,
            refused: self.refused + other.refused,
            left_out: self.left_out + other.left_out,
            in_flight: self.in_flight + other.in_flight,
            waited: self.waited + other.waited,
            waiting: self.waiting + other.waiting,
            handed_over: self.handed_over + other.handed_over,
            not_taken: self.not_taken + other.not_taken,
            overflows: self.overflows + other.overflows,
        }
    }
}

impl EngineCounters {
    /// What was counted until now. Numbers of operations that begin or end meanwhile may be one ahead of others.
    #[must_use]
    pub fn figures(&self) -> EngineFigures {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (completed, refused) = (load(&self.completed), load(&self.refused));
        let left_out = load(&self.left_out);
        // Last, so that no more have ended than were submitted.
        let submitted = load(&self.submitted);
        EngineFigures {
            submitted,
            completed,
            refused,
            left_out,
            in_flight: submitted.saturating_sub(completed + refused + left_out),
            waited: load(&self.waited),
            waiting: load(&self.waiting),
            handed_over: load(&self.handed_over),
            not_taken: load(&self.not_taken),
            overflows: load(&self.overflows),
        }
    }

    /// An operation finds no place in the ring.
    pub(super) fn waits(&self) {
        add_one(&self.waited);
    }

    /// So many operations wait for a place in the ring now.
    pub(super) fn set_waiting(&self, waiting: usize) {
        self.waiting.store(waiting as u64, Ordering::Relaxed);
    }

    /// The kernel was offered operations of the ring, and took some or none.
    pub(super) fn offered(&self, took_some: bool) {
        add_one(match took_some {
            true => &self.handed_over,
            false => &self.not_taken,
        });
    }

    /// The kernel's own number of completions without room, since the ring was made.
    pub(super) fn set_overflows(&self, overflows: u32) {
        self.overflows.store(overflows.into(), Ordering::Relaxed);
    }
}

fn add_one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// One submitted operation, for the counters. Dropped without a word, it is one that was left out.
pub(super) struct Counted {
    counters: Arc<EngineCounters>,
    /// It was said how it ended.
    is_told: bool,
}

impl Counted {
    /// Counts an operation as submitted.
    pub(super) fn submitted(counters: &Arc<EngineCounters>) -> Self {
        add_one(&counters.submitted);
        Self {
            counters: Arc::clone(counters),
            is_told: false,
        }
    }

    /// The operation was carried out to its end.
    pub(super) fn completed(mut self) {
        self.is_told = true;
        add_one(&self.counters.completed);
    }

    /// The operation was not taken, because too many wait.
    pub(super) fn refused(mut self) {
        self.is_told = true;
        add_one(&self.counters.refused);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.is_told {
            add_one(&self.counters.left_out);
        }
    }
}
