//! When to cut: what the sequences of one round share.

use std::cell::Cell;

use anyhow::{Context as _, Result};
use nfs_client::nfs3::{Failure, Outcome};
use tokio::sync::Notify;

/// The state of one round, shared by its sequences.
pub(super) struct Traffic {
    cut: Cell<bool>,
    /// Whether the server itself ends with the cut.
    killed: bool,
    acknowledged: Cell<u32>,
    /// The cut comes after this many acknowledged calls.
    target: u32,
    running: Cell<u32>,
    moment: Notify,
}

impl Traffic {
    /// `running` sequences; the cut is due after `target` acknowledged calls, or when all sequences
    /// have ended. `killed`: the server ends with
    /// the cut.
    pub(super) fn new(running: u32, target: u32, killed: bool) -> Self {
        let running = Cell::new(running);
        let moment = Notify::new();
        Self {
            cut: Cell::new(false),
            killed,
            acknowledged: Cell::new(0),
            target,
            running,
            moment,
        }
    }

    /// Whether the power is gone; replies seen from now on promise nothing.
    pub(super) const fn cut(&self) -> bool {
        self.cut.get()
    }

    /// Whether calls may remain without an answer now.
    const fn may_be_silent(&self) -> bool {
        self.cut.get() && self.killed
    }

    pub(super) fn begin_cut(&self) {
        self.cut.set(true);
    }

    /// What a call's end means at this moment: `None` for one that ended after the cut, and so promises
    /// nothing. An acknowledged call is counted.
    ///
    /// # Errors
    /// When there is no reply and there should be one.
    pub(super) fn counted<T, F>(
        &self,
        reply: Outcome<T, F>,
    ) -> Result<Option<Result<T, Failure<F>>>> {
        if self.may_be_silent() {
            return Ok(None);
        }
        let reply = reply.context("no reply")?;
        if self.cut() {
            return Ok(None);
        }
        if reply.is_ok() {
            self.acknowledged();
        }
        Ok(Some(reply))
    }

    fn acknowledged(&self) {
        self.acknowledged.set(self.acknowledged.get() + 1);
        if self.acknowledged.get() >= self.target {
            self.moment.notify_one();
        }
    }

    /// One sequence has ended, `well` or with a failure that ends the round.
    pub(super) fn ended(&self, well: bool) {
        self.running.set(self.running.get().saturating_sub(1));
        if !well || self.running.get() == 0 {
            self.moment.notify_one();
        }
    }

    /// Waits until the cut is due.
    pub(super) async fn moment(&self) {
        self.moment.notified().await;
    }

    /// Number of calls that were acknowledged so far.
    pub(super) const fn count(&self) -> u32 {
        self.acknowledged.get()
    }
}
