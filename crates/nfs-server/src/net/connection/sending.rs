//! The sending half of a connection, and its end in order.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::net::Shutdown;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::{Connection, End, not_ready, push};
use crate::limits;
use crate::net::output::Flushed;
use crate::net::progress::Progress;
use crate::net::turns::ConnectionTurns;
use crate::rpc::reply::Reply;

impl Connection {
    /// Sends what could not be sent at once, and what calls that ran on have answered.
    pub(super) async fn send(&self) -> Result<(), End> {
        loop {
            self.to_send().notified().await;
            self.take_callbacks();
            let mut progress = Progress::new();
            loop {
                self.wait_to_send().await;
                let before = self.output.borrow().bytes();
                let flushed = self.flush()?;
                if flushed == Flushed::All {
                    break;
                }
                let sent = before.saturating_sub(self.output.borrow().bytes());
                progress.moved(sent, Instant::now());
                progress.sent(self.output.borrow().completed());
                if flushed == Flushed::UntilFull {
                    let client = self.turns.sharer().key;
                    let shares = &self.shard.service.vfs.read_shares;
                    let pressed = || shares.is_held_up_by(client);
                    progress.wait(pressed, self.stream.writable()).await?;
                }
            }
        }
    }

    /// Tells the sending half that something is to be sent, or that the connection ends.
    pub(super) fn to_send(&self) -> &Notify {
        &self.from.line().to_send
    }

    /// Takes calls of the server to be sent among the replies: few, and short.
    fn take_callbacks(&self) {
        while let Some(record) = self.from.line().next_unsent() {
            push(self, Reply::again(record), None);
        }
    }

    /// Waits until more of what is unsent may be sent.
    async fn wait_to_send(&self) {
        let cost = self.cost_to_send();
        if self.turns.has_to_wait(cost) {
            self.turns.next(&self.sending_turn, cost).await;
        } else if self.turns.has_to_pause() {
            self.turns.pause().await;
        }
    }

    /// What it costs to send what may be sent at once.
    fn cost_to_send(&self) -> u64 {
        let bytes = self.output.borrow().bytes();
        ConnectionTurns::cost(0, bytes.min(limits::SENT_PER_PAUSE_BYTES_MAX))
    }

    /// Sends what may be sent here and now; the sending half goes on with the rest.
    pub(super) fn flush(&self) -> Result<Flushed, End> {
        let cost = self.cost_to_send();
        // Little goes out with what else is done; much is sent when the event loop has looked.
        if self.turns.has_to_wait(cost) || (cost > 0 && self.turns.has_to_pause()) {
            self.to_send().notify_one();
            return Ok(Flushed::Some);
        }
        self.flush_now()
    }

    pub(super) fn flush_now(&self) -> Result<Flushed, End> {
        let most = if self.turns.is_alone() {
            limits::SENT_AT_ONCE_BYTES_MAX
        } else {
            limits::SENT_PER_PAUSE_BYTES_MAX
        };
        let flushed = {
            let mut output = self.output.borrow_mut();
            let before = output.bytes();
            let flushed = output.flush(&self.stream, most)?;
            self.turns.use_up(0, before - output.bytes());
            output.give_places(&self.shard.spare_places);
            // A peer that lets many small replies lie is no reason to exceed the memory budget.
            let vfs = &self.shard.service.vfs;
            let (budget, shares) = (vfs.read_buffers.budget(), &vfs.read_shares);
            if flushed != Flushed::All && !output.is_accounted(budget, shares, self.turns.sharer())
            {
                return Err(End::Stalled);
            }
            flushed
        };
        if flushed != Flushed::All {
            self.to_send().notify_one();
        }
        let done = flushed == Flushed::All;
        let was_unsent = self.figures.unsent.load(Ordering::Relaxed);
        if was_unsent == done {
            self.figures.unsent.store(!done, Ordering::Relaxed);
            self.shard
                .clients
                .moved(&self.figures, Instant::now().into());
        }
        self.room.notify_one();
        Ok(flushed)
    }

    /// Waits for the calls in flight and sends their replies; no new ones are read.
    pub(super) async fn finish(&self) {
        if self.in_flight.get() == 0 && self.output.borrow().is_empty() {
            return;
        }
        loop {
            match self.flush_now() {
                Err(_) => return,
                Ok(Flushed::All) if self.in_flight.get() == 0 => break,
                Ok(Flushed::All) => self.to_send().notified().await,
                Ok(Flushed::Some | Flushed::UntilFull) => {
                    if self.stream.writable().await.is_err() {
                        return;
                    }
                }
            }
        }
        // Closing a socket that holds unread calls resets the connection, and a reset can overtake
        // replies on their way: the peer is let close first.
        let patience = Duration::from_millis(limits::LINGER_MILLISECONDS_MAX);
        if rustix::net::shutdown(&self.stream, Shutdown::Write).is_ok()
            && timeout(patience, self.discard()).await.is_err()
        {
            tracing::trace!("the peer did not close its side");
        }
    }

    /// Reads what the peer still sends and throws it away, until the peer closes.
    async fn discard(&self) {
        while self.stream.readable().await.is_ok() {
            match self.stream.try_read(&mut self.shard.scratch()) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    if not_ready(error).is_err() {
                        break;
                    }
                }
            }
        }
    }
}
