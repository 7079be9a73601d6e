//! Whether a peer in the middle of a call, or of taking a reply, gets on, and when it is given up.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::limits;

/// How often a stalled peer is looked at.
const TICK: Duration = Duration::from_secs(1);

/// Why a socket is waited for no longer, though it is not ready.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotReady {
    #[error("the peer stalled")]
    Stalled,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// How a peer in the middle of something gets on.
pub(super) struct Progress {
    /// When the peer sent or took bytes last.
    last: Instant,
    /// The time from which on `bytes` are counted.
    since: Instant,
    bytes: usize,
    /// Since when the first reply is being sent, and how many were sent before; `None` where calls come in.
    reply: Option<(Instant, u64)>,
}

impl Progress {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            last: now,
            since: now,
            bytes: 0,
            reply: None,
        }
    }

    pub(super) fn moved(&mut self, bytes: usize, now: Instant) {
        if bytes > 0 {
            self.last = now;
            self.bytes += bytes;
        }
    }

    /// So long the peer was let wait for a turn of its connection, which is not held against it.
    pub(super) fn excuse(&mut self, waited: Duration) {
        self.last += waited;
        self.since += waited;
    }

    /// So many replies were sent as a whole on this connection.
    pub(super) fn sent(&mut self, completed: u64) {
        if self.reply.is_none_or(|(_, before)| before != completed) {
            self.reply = Some((Instant::now(), completed));
        }
    }

    /// Waits until the socket is ready. `pressed`: whether others wait for the memory that the peer holds.
    ///
    /// # Errors
    /// [`NotReady::Stalled`] when the peer moves nothing for too long or, with others waiting for memory, too little.
    pub(super) fn wait<'a>(
        &'a mut self,
        pressed: impl Fn() -> bool + 'a,
        ready: impl Future<Output = io::Result<()>> + 'a,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotReady>> + 'a>> {
        // Boxed: it has a timer, for which each connection would have room that waits for nothing, or for a call.
        Box::pin(async move {
            let mut ready = std::pin::pin!(ready);
            loop {
                // Judged before each wait too: a peer that sends a byte now and then is never silent.
                if self.is_stalled(Instant::now(), pressed()) {
                    return Err(NotReady::Stalled);
                }
                if let Ok(ready) = timeout(TICK, &mut ready).await {
                    return Ok(ready?);
                }
            }
        })
    }

    /// True when the peer is to be given up. `pressed`: others wait for the memory it holds.
    fn is_stalled(&mut self, now: Instant, pressed: bool) -> bool {
        let silent = now.saturating_duration_since(self.last).as_secs();
        if silent >= limits::STALLED_PEER_SECONDS_MAX {
            return true;
        }
        // Who takes replies has a deadline for each and no pace to keep: a peer that is short of time now and
        // then is no reason to close a connection.
        if let Some((since, _)) = self.reply {
            let taken = now.saturating_duration_since(since).as_secs();
            return pressed && taken >= limits::REPLY_SECONDS_UNDER_PRESSURE_MAX;
        }
        let seconds = now.saturating_duration_since(self.since).as_secs();
        if seconds < limits::STALLED_PEER_SECONDS_UNDER_PRESSURE_MAX {
            return false;
        }
        let expected = limits::PEER_BYTES_PER_SECOND_UNDER_PRESSURE_MIN
            .saturating_mul(usize::try_from(seconds).unwrap_or(usize::MAX));
        let slow = self.bytes < expected;
        self.since = now;
        self.bytes = 0;
        pressed && slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_silent_peer_is_given_up_after_its_time() {
        let mut progress = Progress::new();
        let start = progress.last;
        let most = limits::STALLED_PEER_SECONDS_MAX * 1000;
        assert!(!progress.is_stalled(after(start, most - 1), false));
        assert!(progress.is_stalled(after(start, most), false));
    }

    #[test]
    fn a_trickle_is_not_enough_when_others_wait_for_the_memory() {
        let mut progress = Progress::new();
        let start = progress.last;
        for tenth in 1..10 {
            progress.moved(1, Instant::now());
            assert!(!progress.is_stalled(after(start, tenth * 100), true));
        }
        assert!(
            !progress.is_stalled(after(start, 1000), false),
            "nobody waits"
        );
        progress.moved(1, Instant::now());
        assert!(progress.is_stalled(after(start, 2000), true));
    }

    #[test]
    fn a_reply_has_a_deadline_when_others_wait_for_the_memory() {
        let mut progress = Progress::new();
        let start = progress.last;
        progress.reply = Some((start, 1));
        let trickle = |progress: &mut Progress, second: u64, pressed| {
            progress.last = after(start, second * 1000);
            progress.is_stalled(after(start, second * 1000), pressed)
        };
        let most = limits::REPLY_SECONDS_UNDER_PRESSURE_MAX;
        for second in 1..most {
            assert!(!trickle(&mut progress, second, true));
        }
        assert!(!trickle(&mut progress, most, false), "nobody waits");
        assert!(trickle(&mut progress, most, true));
        progress.sent(2);
        assert!(!trickle(&mut progress, most, true), "the next has its own");
    }

    #[test]
    fn a_peer_that_gets_on_is_kept_under_pressure() {
        let mut progress = Progress::new();
        let start = progress.last;
        for second in 1..100 {
            progress.last = after(start, second * 1000);
            progress.bytes = limits::PEER_BYTES_PER_SECOND_UNDER_PRESSURE_MIN;
            assert!(!progress.is_stalled(after(start, second * 1000), true));
        }
    }
}
