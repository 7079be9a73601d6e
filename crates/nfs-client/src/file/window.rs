//! How many transfers a window has in flight: found from what is measured. Pure; the clock is the
//! caller's.
//!
//! What has to be on its way for a pipe to be full is its throughput times its latency: the latency is
//! what a transfer takes that does not wait behind others of ours. So a window
//! - measures the latency while it is shallow: at its beginning, then every
//!   [`WINDOW_LATENCY_EVERY`], and sooner when the throughput has fallen to half, which says that something else
//!   is true now; never until [`LATENCIES_REST`] latencies have passed since it measured last;
//! - takes the best throughput of its last rounds, so that a pause of the server, or of the reader,
//!   costs nothing;
//! - is [`GAIN`] times the product deep, and one more.
//!
//! While the pipe is not full, throughput is depth by latency: the product is the depth, and the window
//! doubles with each round. As soon as it is full, a deeper window only makes transfers wait, the
//! throughput stays, and so does the depth. A user slower than the server holds the throughput down,
//! and has a window that is enough for it. No round can tell of more than was in flight: however bursty
//! they are, transfers only count together with one that was sent when the first of them came.
//!
//! The idea is BBR's (draft-ietf-ccwg-bbr), for transfers instead of packets. Reading and writing use
//! the same.
//!
//! The size of a transfer is found by trying: twice the size stays if it brings [`SIZE_GAIN_MIN`].

use std::time::Duration;

use super::Depth;
use crate::limits::{WINDOW_LATENCY_EVERY, WINDOW_SIZE_PAUSE_MAX};

/// How much deeper a window is than what just fills the pipe: for latencies that are not all alike. On
/// loopback with 2 ms of delay, twice is where throughput still rises with depth by a tenth.
const GAIN: f64 = 2.5;

/// What stands for [`GAIN`] while a deeper window still brings more throughput.
const GAIN_GROWING: f64 = 4.0;

/// A round has to bring this much more throughput than the best before, or the window is not growing any more.
const GROWING_MIN: f64 = 1.25;

/// Where a window begins, and the least that it is while it is not measuring, transfers.
const DEPTH_MIN: u32 = 2;

/// What part of its depth a window keeps while it measures the latency: at [`GAIN`] times what fills the
/// pipe, it is a third full then, and what is sent does not wait; nor at three times that depth.
const SHALLOW_PART: u32 = 8;

/// From one measurement of the latency to the next there are at least so many latencies.
const LATENCIES_REST: f64 = 100.0;

/// Fewest transfers of a round: the mean of a few is one of the way, not of one transfer's luck.
const ROUND_MIN: u32 = 4;

/// How many rounds the best throughput is taken from.
const ROUNDS_KEPT: usize = 8;

/// Rounds from the beginning to the first trial of larger transfers, and of each trial; pauses between
/// trials that do not pay double.
const SIZE_ROUNDS: u32 = 12;

/// Transfers of twice the size have to bring this much more throughput.
const SIZE_GAIN_MIN: f64 = 1.08;

/// The depth of one window. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Window {
    depth: u32,
    /// The most it may become.
    max: u32,
    /// Nothing is to be found.
    fixed: bool,
    phase: Phase,
    /// Counts up with each transfer that was sent since it was counted up last and went through.
    turn: u64,
    round: Round,
    /// What went through in the last rounds, the latest first.
    rates: [Rate; ROUNDS_KEPT],
    /// How long a transfer takes that waits for no other of ours, in seconds.
    latency: Option<f64>,
    /// When `latency` was measured.
    measured: Duration,
    /// The best throughput since then, transfers for a second.
    best: f64,
    size: Size,
}

/// When a transfer was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    at: Duration,
    turn: u64,
}

/// A transfer that has gone through a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transferred {
    pub(crate) sent: Sent,
    /// When its answer came; it may have waited for its reader since.
    pub(crate) answered: Duration,
    pub(crate) bytes: u64,
    /// How many use the window, each with as many transfers in flight as it is deep.
    pub(crate) readers: u32,
    /// How many windows of this client have something in flight, this one among them.
    pub(crate) windows: u32,
}

/// Where a window has arrived, and another of its kind may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// How many transfers were on their way together.
    depth: u32,
    /// How often the first transfer size was doubled.
    doubled: u32,
}

impl Found {
    /// How many transfers were on their way together.
    pub(crate) fn depth(self) -> u32 {
        self.depth
    }

    /// How often the first transfer size was doubled.
    pub(crate) fn doubled(self) -> u32 {
        self.doubled
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Shallow for so many more rounds, the last of which tells the latency; then at least `home` deep.
    Shallow { rounds: u32, home: u32 },
    /// As deep as what was measured says; `growing` until more has not brought more.
    Open { growing: bool },
}

/// Transfers that are measured together.
#[derive(Debug, Default)]
struct Round {
    /// When it began; `None` before anything was sent.
    began: Option<Duration>,
    moved: u32,
    /// Transfers for each reader: `moved` divided by the number of those who use the window.
    share: f64,
    bytes: u64,
    /// When the first and the last of them were sent.
    sent: Option<(Duration, Duration)>,
    /// The latencies of all transfers added up.
    latencies: Duration,
}

/// The throughput of one reader or writer, per second.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    transfers: f64,
    bytes: f64,
}

/// The size of a transfer: the first size, doubled so many times.
#[derive(Debug)]
struct Size {
    doubled: u32,
    doubled_max: u32,
    /// Rounds to the next decision.
    left: u32,
    /// Rounds from one trial to the next.
    pause: u32,
    trial: Option<Trial>,
}

/// What to go back to when larger transfers do not pay.
#[derive(Clone, Copy, Debug)]
struct Trial {
    depth: u32,
    latency: Option<f64>,
    bytes: f64,
}

impl Window {
    /// A window of `depth`, of at most `max` transfers where that is to be found; then it begins at
    /// `start`, if a window like it has arrived there before, once it has measured the latency.
    pub(crate) fn new(depth: Depth, start: Option<Found>, max: u32) -> Self {
        let max = max.max(1);
        let start = start.filter(|_| depth == Depth::Measured);
        let home = start.map_or(0, |start| start.depth.min(max));
        let (fixed, depth) = match depth {
            Depth::Fixed(depth) => (true, depth.max(1)),
            Depth::Measured => (max == 1, (home / SHALLOW_PART).max(DEPTH_MIN).min(max)),
        };
        Self {
            depth,
            max,
            fixed,
            phase: Phase::Shallow { rounds: 1, home },
            turn: 0,
            round: Round::default(),
            rates: [Rate::default(); ROUNDS_KEPT],
            latency: None,
            measured: Duration::ZERO,
            best: 0.0,
            size: Size {
                doubled: start.map_or(0, |start| start.doubled),
                doubled_max: 0,
                left: SIZE_ROUNDS,
                pause: SIZE_ROUNDS,
                trial: None,
            },
        }
    }

    /// This window, with transfers that may be doubled so many times where that pays.
    pub(crate) fn may_double(mut self, times: u32) -> Self {
        self.size.doubled_max = if self.fixed { 0 } else { times };
        self.size.doubled = self.size.doubled.min(self.size.doubled_max);
        self
    }

    /// Transfers that may be in flight, or here and not used yet; at least 1.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// How often the first transfer size is to be doubled now.
    pub(crate) fn doubled(&self) -> u32 {
        self.size.doubled
    }

    /// Where it has arrived, if it has measured anything.
    pub(crate) fn found(&self) -> Option<Found> {
        let open = matches!(self.phase, Phase::Open { .. });
        (open && self.size.trial.is_none() && !self.fixed).then_some(Found {
            depth: self.depth,
            doubled: self.size.doubled,
        })
    }

    /// A transfer is sent at `now`, a time since whenever the caller counts from.
    pub(crate) fn sent(&mut self, now: Duration) -> Sent {
        self.round.began.get_or_insert(now);
        Sent {
            at: now,
            turn: self.turn,
        }
    }

    /// A transfer has gone through the window at `now`.
    pub(crate) fn moved(&mut self, now: Duration, moved: &Transferred) {
        let round = &mut self.round;
        let sent = moved.sent.at;
        let (first, last) = round.sent.unwrap_or((sent, sent));
        round.sent = Some((first.min(sent), last.max(sent)));
        round.moved += 1;
        round.share += 1.0 / f64::from(moved.readers.max(1));
        round.bytes += moved.bytes;
        round.latencies += moved.answered.saturating_sub(moved.sent.at);
        if self.is_due(now) {
            self.measure(0, moved.windows);
            self.begin_round(now);
            return;
        }
        // It and what came before it, but not before it was sent: no more than what was in flight.
        if moved.sent.turn < self.turn {
            return;
        }
        self.turn += 1;
        if self.round.moved < ROUND_MIN {
            return;
        }
        let round = self.begin_round(now);
        if !self.fixed {
            self.ended(now, &round, moved.windows);
        }
    }

    /// Begins a round, with what is sent from now on; returns the one before.
    fn begin_round(&mut self, now: Duration) -> Round {
        self.turn += 1;
        let next = Round {
            began: Some(now),
            ..Round::default()
        };
        std::mem::replace(&mut self.round, next)
    }

    /// It is time to measure the latency again.
    fn is_due(&self, now: Duration) -> bool {
        let open = matches!(self.phase, Phase::Open { .. }) && self.size.trial.is_none();
        open && !self.fixed && period(now) != period(self.measured) && self.has_rested(now)
    }

    /// The last measurement is long enough ago that another costs little.
    fn has_rested(&self, now: Duration) -> bool {
        let rest = now.saturating_sub(self.measured).as_secs_f64();
        rest >= self.latency.unwrap_or(0.0) * LATENCIES_REST
    }

    /// A round has ended: measures it, and goes on.
    fn ended(&mut self, now: Duration, round: &Round, windows: u32) {
        let took = now.saturating_sub(round.began.unwrap_or(now));
        // Answers that waited somewhere come all at once; that was not sent in so short a time.
        let (first, last) = round.sent.unwrap_or_default();
        let took = took.max(last.saturating_sub(first));
        let took = took.as_secs_f64().max(1e-9);
        let latency = round.latencies.as_secs_f64() / f64::from(round.moved);
        let before = self.throughput(true);
        self.rates.rotate_right(1);
        self.rates[0] = Rate {
            transfers: round.share / took,
            bytes: as_f64(round.bytes) / took,
        };
        match self.phase {
            Phase::Shallow { rounds, home } if rounds > 1 => {
                let rounds = rounds - 1;
                self.phase = Phase::Shallow { rounds, home };
            }
            Phase::Shallow { home, .. } => {
                self.latency = Some(latency);
                self.measured = now;
                let growing = before == 0.0 && home == 0;
                self.phase = Phase::Open { growing };
                self.depth = self.wanted(growing).max(home);
                self.best = self.throughput(false);
            }
            Phase::Open { growing } => {
                let growing = growing && self.throughput(true) > before * GROWING_MIN;
                self.phase = Phase::Open { growing };
                self.latency = self.latency.map(|known| known.min(latency));
                self.depth = self.wanted(growing);
                let best = self.throughput(false);
                self.best = self.best.max(best);
                if best < self.best / 2.0 && windows <= 1 && self.has_rested(now) {
                    self.measure(0, windows);
                }
                self.resize(windows);
            }
        }
    }

    /// What fills the pipe, and the reserve, transfers.
    fn wanted(&self, growing: bool) -> u32 {
        let gain = if growing { GAIN_GROWING } else { GAIN };
        let fills = self.throughput(growing) * self.latency.unwrap_or(0.0);
        to_u32(fills * gain)
            .saturating_add(1)
            .clamp(DEPTH_MIN, self.max)
    }

    /// Transfers of one reader for a second, in the best of the rounds, or, where one of them alone proves
    /// nothing, in the second best.
    fn throughput(&self, growing: bool) -> f64 {
        let mut rates = self.rates.map(|rate| rate.transfers);
        rates.sort_by(|a, b| b.total_cmp(a));
        let [first, second, ..] = rates;
        if growing || second == 0.0 {
            first
        } else {
            second
        }
    }

    /// What the rounds move in a second, bytes: their median, which pauses do not change.
    fn usual_bytes(&self) -> f64 {
        let mut bytes = self.rates.map(|rate| rate.bytes);
        bytes.sort_by(f64::total_cmp);
        bytes[ROUNDS_KEPT / 2]
    }

    /// Becomes shallow, to measure the latency: a round in which what is in flight drains, and one that
    /// counts.
    fn measure(&mut self, home: u32, windows: u32) {
        self.depth = (self.depth / SHALLOW_PART / windows.max(1)).max(1);
        self.phase = Phase::Shallow { rounds: 2, home };
    }

    /// Tries larger transfers, or looks what came of it, if it is time for that.
    fn resize(&mut self, windows: u32) {
        let bytes = self.usual_bytes();
        let size = &mut self.size;
        if size.doubled_max == 0 {
            return;
        }
        size.left = size.left.saturating_sub(1);
        if size.left > 0 {
            return;
        }
        match size.trial.take() {
            None if size.doubled < size.doubled_max => {
                size.trial = Some(Trial {
                    depth: self.depth,
                    latency: self.latency,
                    bytes,
                });
                size.left = SIZE_ROUNDS;
                size.doubled += 1;
                self.rates = [Rate::default(); ROUNDS_KEPT];
                self.measure(self.depth / 2, windows);
            }
            Some(trial) if bytes < trial.bytes * SIZE_GAIN_MIN => {
                size.doubled -= 1;
                size.pause = (size.pause * 2).min(WINDOW_SIZE_PAUSE_MAX);
                size.left = size.pause;
                self.rates = [Rate::default(); ROUNDS_KEPT];
                self.latency = trial.latency;
                self.depth = trial.depth;
                self.best = 0.0;
                self.phase = Phase::Open { growing: false };
            }
            None | Some(_) => {
                size.pause = SIZE_ROUNDS;
                size.left = size.pause;
            }
        }
    }
}

/// Which period of [`WINDOW_LATENCY_EVERY`] it is. Windows that count from the same time measure at the
/// same time, when none of them stands in another's way.
fn period(now: Duration) -> u64 {
    now.as_secs() / WINDOW_LATENCY_EVERY.as_secs().max(1)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a rate needs no more than 53 bits"
)]
fn as_f64(bytes: u64) -> f64 {
    bytes as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` goes to the nearest end of the range, and is clamped after"
)]
fn to_u32(transfers: f64) -> u32 {
    transfers as u32
}

#[cfg(test)]
mod tests;
