//! How long is waited before something is tried again. Pure: the clock comes in as arguments.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::{
    JUKEBOX_PAUSE_FIRST, JUKEBOX_PAUSE_MAX, RECONNECT_PAUSE_FIRST, RECONNECT_PAUSE_MAX,
    RETRY_AFTER_MAX,
};

/// How long a connection may say nothing while calls wait before it counts as lost. Doubled each time
/// it is lost that way in a row: a server that is slow and not away is not asked ever more often.
#[derive(Debug)]
pub(super) struct Patience {
    first: Duration,
    now: Duration,
}

impl Patience {
    pub(super) fn new(first: Duration) -> Self {
        Self { first, now: first }
    }

    /// When a connection that was heard from last at `heard_at`, with calls waiting since `busy_since`,
    /// counts as lost.
    pub(super) fn ends(&self, heard_at: Instant, busy_since: Instant) -> Instant {
        heard_at.max(busy_since) + self.now
    }

    /// Takes note that a reply came: the server is alive.
    pub(super) fn heard(&mut self) {
        self.now = self.first;
    }

    /// A connection was given up because it said nothing.
    pub(super) fn silent(&mut self) {
        self.now = (self.now * 2).min(RETRY_AFTER_MAX.max(self.first));
    }
}

/// How long is waited before connecting again: at first not at all, then longer each time, until the
/// server has answered something.
#[derive(Debug, Default)]
pub(super) struct Pause(Duration);

impl Pause {
    /// The pause before the next attempt, which counts as made.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).clamp(RECONNECT_PAUSE_FIRST, RECONNECT_PAUSE_MAX);
        pause
    }

    /// Takes note that a reply came: the server is alive.
    pub(super) fn heard(&mut self) {
        self.0 = Duration::ZERO;
    }
}

/// How long a server is left alone that has answered `NFS3ERR_JUKEBOX` for the `count`th time, from 1;
/// `None` when the call's time, of which `left` is left, would be over by then.
pub(crate) fn jukebox_pause(count: u32, left: Duration) -> Option<Duration> {
    let doubled = 1_u32
        .checked_shl(count.saturating_sub(1))
        .unwrap_or(u32::MAX);
    let pause = JUKEBOX_PAUSE_FIRST
        .saturating_mul(doubled)
        .min(JUKEBOX_PAUSE_MAX);
    (pause < left).then_some(pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn patience_doubles_up_to_a_minute_and_is_short_again_after_a_reply() {
        let start = Instant::now();
        let mut patience = Patience::new(seconds(15));
        for expected in [15, 30, 60, 60] {
            assert_eq!(patience.ends(start, start), start + seconds(expected));
            patience.silent();
        }
        patience.heard();
        assert_eq!(patience.ends(start, start), start + seconds(15));
        // An operator's longer time is kept.
        let mut long = Patience::new(seconds(90));
        long.silent();
        assert_eq!(long.ends(start, start), start + seconds(90));
    }

    #[test]
    fn silence_begins_when_something_is_waited_for() {
        let start = Instant::now();
        let patience = Patience::new(seconds(15));
        let later = start + seconds(1000);
        assert_eq!(patience.ends(start, later), later + seconds(15));
        assert_eq!(patience.ends(later, start), later + seconds(15));
    }

    #[test]
    fn pauses_grow_to_five_seconds() {
        let mut pause = Pause::default();
        let pauses: Vec<u128> = (0..11).map(|_| pause.next().as_millis()).collect();
        let expected = [0, 20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000];
        assert_eq!(pauses, expected);
        pause.heard();
        assert_eq!(pause.next(), Duration::ZERO);
    }

    #[test]
    fn a_jukebox_is_asked_less_and_less_often_until_time_is_over() {
        let pauses: Vec<_> = (1..=8)
            .map(|count| jukebox_pause(count, seconds(60)).unwrap().as_millis())
            .collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(jukebox_pause(u32::MAX, seconds(60)), Some(seconds(5)));
        assert_eq!(jukebox_pause(7, seconds(5)), None);
        assert_eq!(jukebox_pause(1, Duration::ZERO), None);
    }
}
