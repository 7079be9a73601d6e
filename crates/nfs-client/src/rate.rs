//! Bytes per second, held: a [`Bucket`] decides, a [`Limit`] waits.

use std::num::NonZeroU64;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::limits::{LIMIT_PIECE_BYTES_MIN, LIMIT_WAIT_MAX};

/// The largest parts a second's bytes are cut into, so that they go evenly.
const PARTS_PER_SECOND: u64 = 8;

/// When how many bytes may go. Pure: the time comes in as an argument.
///
/// What goes at once is paid for afterwards, so that no piece is too large ever to go; what was not used
/// earlier is not saved up. So over any time that begins when something goes, at most the rate's share
/// and one piece go.
#[derive(Clone, Debug)]
pub struct Bucket {
    rate: NonZeroU64,
    /// Everything that went is paid for at this time, since the clock's beginning.
    paid: Duration,
}

impl Bucket {
    /// A limit of `rate` bytes per second, from now on.
    pub fn new(rate: NonZeroU64) -> Self {
        Self {
            rate,
            paid: Duration::ZERO,
        }
    }

    /// Takes `bytes` at `now`, which is since the clock's beginning. Returns how long to wait before
    /// they go.
    pub fn take(&mut self, now: Duration, bytes: u64) -> Duration {
        let begin = self.paid.max(now);
        let nanoseconds = u128::from(bytes) * 1_000_000_000;
        let cost = nanoseconds.div_ceil(u128::from(self.rate.get()));
        let cost = Duration::from_nanos(u64::try_from(cost).unwrap_or(u64::MAX));
        self.paid = begin.saturating_add(cost);
        begin - now
    }
}

/// Holds those who move bytes to one rate together.
#[derive(Debug)]
pub struct Limit {
    bucket: Mutex<Bucket>,
    begun: Instant,
    piece_bytes: usize,
}

impl Limit {
    /// A limit of `rate` bytes per second, from now on.
    pub fn new(rate: NonZeroU64) -> Self {
        Self {
            bucket: Mutex::new(Bucket::new(rate)),
            begun: Instant::now(),
            piece_bytes: usize::try_from(piece_bytes(rate)).unwrap_or(usize::MAX),
        }
    }

    /// The most bytes to move in one go, so that they go evenly.
    pub fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    /// Waits until `bytes` may go, or until `is_stopped`.
    pub async fn take(&self, bytes: u64, is_stopped: impl Fn() -> bool) {
        let wait = self.bucket.lock().take(self.begun.elapsed(), bytes);
        sleep(wait, is_stopped).await;
    }
}

/// Sleeps for so long, or until `is_stopped`.
pub(crate) async fn sleep(wait: Duration, is_stopped: impl Fn() -> bool) {
    let end = Instant::now() + wait.min(Duration::from_secs(u32::MAX.into()));
    while Instant::now() < end && !is_stopped() {
        tokio::time::sleep_until(end.min(Instant::now() + LIMIT_WAIT_MAX)).await;
    }
}

/// The most bytes to move in one go at `rate` bytes per second, a power of two: an eighth of a second's
/// or less, and [`LIMIT_PIECE_BYTES_MIN`] at least.
pub fn piece_bytes(rate: NonZeroU64) -> u64 {
    let part = rate.get() / PARTS_PER_SECOND;
    let power = part.checked_ilog2().map_or(0, |log| 1 << log);
    power.max(LIMIT_PIECE_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bytes: u64) -> NonZeroU64 {
        NonZeroU64::new(bytes).unwrap()
    }

    #[test]
    fn pieces_wait_for_those_before_them() {
        let mut bucket = Bucket::new(rate(1000));
        let ms = Duration::from_millis;
        let table = [
            // At, bytes, wait; in milliseconds.
            (0, 500, 0),
            (0, 500, 500),
            (100, 100, 900),
            (1100, 1, 0),
            // Time in which nothing went is not saved up.
            (9000, 5000, 0),
            (9000, 1, 5000),
        ];
        for (at, bytes, wait) in table {
            assert_eq!(bucket.take(ms(at), bytes), ms(wait), "{bytes} at {at}");
        }
        let mut slow = Bucket::new(rate(1));
        slow.take(Duration::MAX, u64::MAX);
        assert_eq!(slow.take(Duration::MAX, u64::MAX), Duration::ZERO);
    }

    #[test]
    fn pieces_are_parts_of_a_second() {
        let table = [
            (1, 4096),
            (40_000, 4096),
            (80_000, 8192),
            (1 << 20, 128 << 10),
            (100_000_000, 8 << 20),
            (u64::MAX, 1 << 60),
        ];
        for (bytes, expected) in table {
            assert_eq!(piece_bytes(rate(bytes)), expected, "{bytes}");
        }
    }

    proptest::proptest! {
        /// Whoever waits as told never moves more than the rate and one piece.
        #[test]
        fn the_rate_is_kept(
            bytes_per_second in 1_u64..1_000_000_000,
            pieces in proptest::collection::vec((1_u64..1_000_000, 0_u64..1_000_000), 1..50),
        ) {
            let mut bucket = Bucket::new(rate(bytes_per_second));
            let mut now = Duration::ZERO;
            let (mut before, mut first) = (0_u128, None);
            for (bytes, idle_us) in pieces {
                now += Duration::from_micros(idle_us);
                now += bucket.take(now, bytes);
                let first = *first.get_or_insert(now);
                let share = (now - first).as_nanos() * u128::from(bytes_per_second);
                proptest::prop_assert!(before * 1_000_000_000 <= share);
                before += u128::from(bytes);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_at_a_stop() {
        let limit = Limit::new(rate(1));
        limit.take(20, || false).await;
        let begun = Instant::now();
        limit
            .take(5, || begun.elapsed() > Duration::from_secs(1))
            .await;
        assert!(begun.elapsed() < Duration::from_secs(2));
        limit.take(0, || false).await;
        assert!(begun.elapsed() >= Duration::from_secs(20));
    }
}
