//! What a reader says itself of what it will ask for, and will not any more.

use std::ops::Range;
use std::sync::Arc;

use tokio::time::Instant;

use super::{Follow, Reading};

impl Reading {
    /// Sends READs of `range`, as many as the window and the memory have room for. A reader that comes for them
    /// finds them; they are forgotten like others if none does.
    pub(in crate::file) fn will_need(self: &Arc<Self>, range: Range<u64>) {
        let mut state = self.lock();
        state.used = Instant::now();
        let follow = Follow::Sequential {
            stream: state.patterns.id(),
            // What is asked for is not a guess: the last of it is read, however little it is.
            end: u64::MAX,
            until: range.end,
        };
        self.fill(&mut state, range.start, false, follow);
    }

    /// A reader has come to `at`, and nobody will ask for what its stream has before that.
    pub(in crate::file) fn leave_behind(&self, follow: Follow, at: u64) {
        if let Follow::Sequential { stream, .. } = follow {
            self.lock().forget_of(stream, |slot| slot.end() <= at);
        }
    }
}
