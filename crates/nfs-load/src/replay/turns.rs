//! The order of calls: each begins when those on the same file have begun that began earlier, and when those are over
//! that were over. All on one thread.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use tokio::sync::Notify;

use super::script::Turn;

/// How far the calls of each object are.
#[derive(Debug, Default)]
pub(super) struct Turns(Vec<RefCell<OfObject>>);

#[derive(Debug, Default)]
struct OfObject {
    begun: usize,
    /// So many, in the order of ends, are over without a gap.
    over: usize,
    /// Those behind the gap that are over.
    ahead: BTreeSet<usize>,
    waiting: HashMap<usize, Rc<Notify>>,
}

impl Turns {
    pub(super) fn new(objects: usize) -> Self {
        Self((0..objects).map(|_| RefCell::default()).collect())
    }

    /// Waits for a call's turn, and takes it.
    pub(super) async fn begin(&self, turns: &[Turn]) {
        for turn in turns {
            let Some(object) = self.0.get(turn.object) else {
                continue;
            };
            loop {
                let waits = object.borrow_mut().wait(turn);
                match waits {
                    Some(waits) => waits.notified().await,
                    None => break,
                }
            }
        }
        for turn in turns {
            if let Some(object) = self.0.get(turn.object) {
                let mut object = object.borrow_mut();
                object.begun += 1;
                object.wake();
            }
        }
    }

    /// Says that a call is over.
    pub(super) fn end(&self, turns: &[Turn]) {
        for turn in turns {
            if let Some(object) = self.0.get(turn.object) {
                object.borrow_mut().end(turn.end);
            }
        }
    }
}

impl OfObject {
    /// What to wait for; `None` where it is the call's turn.
    fn wait(&mut self, turn: &Turn) -> Option<Rc<Notify>> {
        if self.begun >= turn.behind && self.over >= turn.after {
            self.waiting.remove(&turn.behind);
            return None;
        }
        let waits = self.waiting.entry(turn.behind).or_default();
        Some(Rc::clone(waits))
    }

    fn end(&mut self, end: usize) {
        self.ahead.insert(end);
        while self.ahead.remove(&self.over) {
            self.over += 1;
        }
        self.wake();
    }

    /// Wakes the one whose turn may be next.
    fn wake(&self) {
        if let Some(waits) = self.waiting.get(&self.begun) {
            waits.notify_one();
        }
    }
}
