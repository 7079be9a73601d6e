//! How many transfers a window has in flight: found from what more of them bring. Pure; the clock is
//! the caller's.
//!
//! A window begins small and doubles while its user has to wait for the server and the doubling is
//! worth [`GAIN_MIN`]; the first that is not is taken back. From then on it tries, rarely, twice and
//! half of what it has: the first stays if it brings that much more, the second if it brings no less.
//! So the window finds the pipe's length again when that changes, and holds no more memory than the
//! pipe needs. Reading and writing use the same.

use std::time::Duration;

use super::Depth;

/// A doubling has to bring this much more throughput.
const GAIN_MIN: f64 = 1.05;

/// Half of the window has to bring this part of the throughput.
const KEPT_MIN: f64 = 0.98;

/// The user waits for the server if it does so for this part of the time: a window can help.
const WAITING_MIN: f64 = 0.05;

/// Where a window begins, transfers.
const DEPTH_FIRST: u32 = 2;

/// Fewest transfers that are measured together while the window grows, and when it has settled: a
/// short time measures the machine's other work.
const GROWING_ROUND: u32 = 4;
const SETTLED_ROUND: u32 = 16;

/// Rounds between trials of another depth: at first, and at most, after many that did not pay.
const TRIAL_PAUSE_FIRST: u32 = 8;
const TRIAL_PAUSE_MAX: u32 = 512;

/// The depth of one window. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Window {
    depth: u32,
    /// The most it may become.
    max: u32,
    /// Nothing is to be found.
    fixed: bool,
    phase: Phase,
    round: Round,
    /// Rounds from one trial to the next.
    pause: u32,
    /// The next trial is of twice the depth, not of half.
    trial_up: bool,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Doubles at the end of a round; `before` is the rate with half of the depth.
    Growing { before: Option<f64> },
    /// Has the depth it needs, as far as it knows, and the mean rate with it.
    Settled { rate: Option<f64>, left: u32 },
    /// Has another depth for a round; `home` is the depth to go back to, with its rate.
    Trying { home: u32, rate: f64 },
}

/// Transfers that are measured together.
#[derive(Debug, Default)]
struct Round {
    /// When it began; `None` before the first transfer of all.
    began: Option<Duration>,
    /// Transfers to let pass first: they were sent when the depth was another.
    skip: u32,
    left: u32,
    bytes: u64,
    waited: Duration,
}

impl Window {
    /// A window of `depth`, of at most `max` transfers where that is to be found; then it begins at
    /// `start`, if a window like it has found that before.
    pub(crate) fn new(depth: Depth, start: Option<u32>, max: u32) -> Self {
        let max = max.max(1);
        let growing = Phase::Growing { before: None };
        let settled = Phase::Settled {
            rate: None,
            left: TRIAL_PAUSE_FIRST,
        };
        let fixed = matches!(depth, Depth::Fixed(_)) || max == 1;
        let (depth, phase) = match (depth, start) {
            (Depth::Fixed(depth), _) => (depth.max(1), growing),
            (Depth::Measured, None) => (DEPTH_FIRST.min(max), growing),
            (Depth::Measured, Some(start)) => (start.clamp(1, max), settled),
        };
        let mut window = Self {
            depth,
            max,
            fixed,
            phase,
            round: Round::default(),
            pause: TRIAL_PAUSE_FIRST,
            trial_up: true,
        };
        window.round.left = window.round_transfers();
        window
    }

    /// Transfers that may be in flight, or here and not used yet; at least 1.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// The depth that it has settled at: where another window of the same client may begin.
    pub(crate) fn settled(&self) -> Option<u32> {
        match self.phase {
            Phase::Settled { rate: Some(_), .. } => Some(self.depth),
            Phase::Settled { .. } | Phase::Growing { .. } | Phase::Trying { .. } => None,
        }
    }

    /// One transfer of `bytes` went through the window at `now`, a time since whenever the caller
    /// counts from. Its user had to wait `waited` for it.
    pub(crate) fn moved(&mut self, now: Duration, bytes: u64, waited: Duration) {
        let round = &mut self.round;
        if round.began.is_none() || round.skip > 0 {
            round.skip = round.skip.saturating_sub(1);
            round.began = Some(now);
            return;
        }
        round.bytes += bytes;
        round.waited += waited;
        round.left = round.left.saturating_sub(1);
        if round.left > 0 {
            return;
        }
        let took = now.saturating_sub(round.began.unwrap_or(now)).as_secs_f64();
        let rate = as_f64(round.bytes) / took.max(1e-9);
        let waiting = round.waited.as_secs_f64() >= took * WAITING_MIN;
        let before = self.depth;
        if !self.fixed {
            self.phase = self.next_phase(rate, waiting);
        }
        self.round = Round {
            began: Some(now),
            skip: if self.depth == before {
                0
            } else {
                before.max(self.depth)
            },
            left: self.round_transfers(),
            ..Round::default()
        };
    }

    /// What comes after a round that went at `rate`; sets the depth for it.
    fn next_phase(&mut self, rate: f64, waiting: bool) -> Phase {
        match self.phase {
            Phase::Growing { .. } if !waiting => Phase::Growing { before: None },
            Phase::Growing { before } => {
                if before.is_some_and(|before| rate < before * GAIN_MIN) {
                    self.depth = (self.depth / 2).max(1);
                    return self.settle(before);
                }
                if self.depth >= self.max {
                    return self.settle(Some(rate));
                }
                self.depth = (self.depth * 2).min(self.max);
                Phase::Growing { before: Some(rate) }
            }
            Phase::Settled { rate: mean, left } => {
                let mean = mean.map_or(rate, |mean| mean.mul_add(0.75, rate * 0.25));
                if left > 1 {
                    let left = left - 1;
                    return Phase::Settled {
                        rate: Some(mean),
                        left,
                    };
                }
                self.try_another(mean, waiting)
            }
            Phase::Trying {
                home,
                rate: at_home,
            } => {
                let up = self.depth > home;
                let pays = rate >= at_home * if up { GAIN_MIN } else { KEPT_MIN };
                if pays {
                    self.pause = TRIAL_PAUSE_FIRST;
                    if up {
                        return Phase::Growing { before: None };
                    }
                    // There may be still more that is not needed.
                    self.trial_up = false;
                    return self.settle(Some(rate));
                }
                self.depth = home;
                self.pause = (self.pause * 2).min(TRIAL_PAUSE_MAX);
                self.settle(Some(at_home))
            }
        }
    }

    fn settle(&self, rate: Option<f64>) -> Phase {
        Phase::Settled {
            rate,
            left: self.pause,
        }
    }

    /// Takes twice or half of the depth for a round, in turn, as far as there is room and sense in it.
    fn try_another(&mut self, rate: f64, waiting: bool) -> Phase {
        let home = self.depth;
        let up = self.trial_up && waiting && home < self.max;
        self.trial_up = !self.trial_up;
        if up {
            self.depth = (home * 2).min(self.max);
        } else if home > DEPTH_FIRST {
            self.depth = home / 2;
        } else {
            return self.settle(Some(rate));
        }
        Phase::Trying { home, rate }
    }

    fn round_transfers(&self) -> u32 {
        match self.phase {
            Phase::Growing { .. } => self.depth.max(GROWING_ROUND),
            Phase::Settled { .. } | Phase::Trying { .. } => (2 * self.depth).max(SETTLED_ROUND),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a rate needs no more than 53 bits"
)]
fn as_f64(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
