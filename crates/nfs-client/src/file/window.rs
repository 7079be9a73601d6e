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
use crate::limits::WINDOW_TRIAL_PAUSE_MAX;

/// A doubling has to bring this much more throughput.
const GAIN_MIN: f64 = 1.05;

/// Half of the window has to bring this part of the throughput.
const KEPT_MIN: f64 = 0.98;

/// The user waits for the server if it does so for this part of the time: a window can help.
const WAITING_MIN: f64 = 0.05;

/// Where a window begins, transfers.
const DEPTH_FIRST: u32 = 2;

/// Fewest transfers that are measured together while the window grows, when it has settled, and when it
/// tries another shape: a short time measures the machine's other work.
const GROWING_ROUND: u32 = 4;
const SETTLED_ROUND: u32 = 32;
const TRIAL_ROUND: u32 = 64;

/// Rounds between trials of another shape, at first; doubled with each that does not pay.
const TRIAL_PAUSE_FIRST: u32 = 4;

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
    /// What is tried next.
    trial: Trial,
    /// Transfers are the first size doubled so many times, at most `doubled_max` times.
    doubled: u32,
    doubled_max: u32,
}

/// Another shape that a window may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    Deeper,
    Shallower,
    /// Half as many transfers of twice the size.
    Larger,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Doubles at the end of a round; `before` is the smaller depth from before, with its rate.
    Growing { before: Option<(u32, f64)> },
    /// Has the depth it needs, as far as it knows, and the mean rate with it.
    Settled { rate: Option<f64>, left: u32 },
    /// Has another shape for a round; `home` is the depth to go back to, with its rate.
    Trying { home: u32, rate: f64, trial: Trial },
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
            // Twice as many is what growing has tried last.
            trial: Trial::Shallower,
            doubled: 0,
            doubled_max: 0,
        };
        window.round.left = window.round_transfers();
        window
    }

    /// Transfers that may be in flight, or here and not used yet; at least 1.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// The same window with transfers that may be doubled so many times where that pays.
    pub(crate) fn may_double(mut self, times: u32) -> Self {
        self.doubled_max = if self.fixed { 0 } else { times };
        self
    }

    /// How often the first transfer size is to be doubled now.
    pub(crate) fn doubled(&self) -> u32 {
        self.doubled
    }

    /// The depth that it has settled at: where another window of the same client may begin.
    pub(crate) fn settled(&self) -> Option<u32> {
        match self.phase {
            Phase::Settled { rate: Some(_), .. } => Some(self.depth),
            Phase::Trying { home, .. } => Some(home),
            Phase::Settled { rate: None, .. } | Phase::Growing { .. } => None,
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
        let before = (self.depth, self.doubled);
        if !self.fixed {
            self.phase = self.next_phase(rate, waiting);
        }
        self.round = Round {
            began: Some(now),
            skip: if (self.depth, self.doubled) == before {
                0
            } else {
                before.0.max(self.depth)
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
                if let Some((depth, best)) = before
                    && rate < best * GAIN_MIN
                {
                    self.depth = depth;
                    return self.settle(Some(best));
                }
                if self.depth >= self.max {
                    return self.settle(Some(rate));
                }
                let before = Some((self.depth, rate));
                self.depth = (self.depth * 2).min(self.max);
                Phase::Growing { before }
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
                trial,
            } => {
                let shallower = trial == Trial::Shallower;
                if rate >= at_home * if shallower { KEPT_MIN } else { GAIN_MIN } {
                    // There may be more of the same.
                    self.pause = TRIAL_PAUSE_FIRST;
                    self.trial = trial;
                    return Phase::Settled {
                        rate: None,
                        left: 1,
                    };
                }
                self.depth = home;
                self.doubled -= u32::from(trial == Trial::Larger);
                self.pause = (self.pause * 2).min(WINDOW_TRIAL_PAUSE_MAX);
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

    /// Takes another shape for a round, the next in turn that there is room and sense in.
    fn try_another(&mut self, rate: f64, waiting: bool) -> Phase {
        let home = self.depth;
        for _ in 0..3 {
            let trial = self.trial;
            let (next, possible) = match trial {
                Trial::Deeper => (Trial::Shallower, waiting && home < self.max),
                Trial::Shallower => (Trial::Larger, home > DEPTH_FIRST),
                Trial::Larger => (Trial::Deeper, waiting && self.doubled < self.doubled_max),
            };
            self.trial = next;
            if possible {
                self.depth = match trial {
                    Trial::Deeper => (home * 2).min(self.max),
                    Trial::Shallower => home / 2,
                    Trial::Larger => (home / 2).max(DEPTH_FIRST).min(self.max),
                };
                self.doubled += u32::from(trial == Trial::Larger);
                return Phase::Trying { home, rate, trial };
            }
        }
        self.settle(Some(rate))
    }

    fn round_transfers(&self) -> u32 {
        match self.phase {
            Phase::Growing { .. } => self.depth.max(GROWING_ROUND),
            Phase::Settled { .. } => (2 * self.depth).max(SETTLED_ROUND),
            Phase::Trying { .. } => (2 * self.depth).max(TRIAL_ROUND),
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
mod tests;
