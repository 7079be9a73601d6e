//! How far apart the machine's cores are: the time that a cache line takes from one to another and back.
//!
//! Client and server of a measurement hand each other everything from one core to another. The host of a virtual machine
//! may move its cores at any time, and while two of them do not share a cache, all that goes between them takes several
//! times as long: a program that copies 3600 MiB/s from one to the other does 1250. So a measurement waits, for a while,
//! until the cores are near, and one that was taken while they were not is taken again where that can be.

use std::hint::spin_loop;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// The environment variable that tells a process how near the cores were to each other at best, in nanoseconds.
const NEAREST: &str = "PENSTOCK_BENCH_CORES_NS";
/// How near they were at best, as far as this process has seen or was told.
static NEAREST_NS: AtomicU64 = AtomicU64::new(u64::MAX);
/// Cores are far apart while the way takes so many times as long as at best.
const FAR: u32 = 4;
/// How long a measurement waits for cores that are far apart.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long all measurements of a run wait together: somewhere the cores may be far apart most of the time.
const PATIENCE_IN_ALL: Duration = Duration::from_secs(120);
/// How often it looks meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Looks at the beginning, which find out what "at best" is.
const FIRST_LOOKS: u32 = 10;
/// Ways there and back of one look: so many times so many, of which the fastest times count.
const CHUNKS: u32 = 16;
const ROUND_TRIPS: u32 = 250;
/// A look ends after so long, whatever else runs on the cores.
const LOOK_FOR: Duration = Duration::from_millis(200);

/// How far apart the cores were during a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Apart {
    /// The shortest time of a cache line to another core and back, in nanoseconds.
    pub nearest_ns: u64,
    /// The longest one, beside a measurement.
    pub farthest_ns: u64,
    /// Measurements that were taken while the cores were far apart, and not used because others were taken instead.
    pub left_out: u32,
    /// Measurements that were taken while the cores were far apart, and used.
    pub used: u32,
}

/// Looks at two cores of this machine, again and again.
#[derive(Debug)]
pub struct Cores {
    /// The cores; `None` where there is one, which is always near.
    pair: Option<[usize; 2]>,
    apart: Apart,
    waited: Duration,
}

/// A cache line, with nothing beside it that others use.
#[repr(align(128))]
struct Line(AtomicU32);

impl Cores {
    /// Chooses two of the cores that this thread may run on, and looks how near they are at best. To be called before the
    /// thread is bound to one of them.
    #[must_use]
    pub fn choose() -> Self {
        let told = std::env::var(NEAREST).ok();
        let told = told.and_then(|text| text.parse().ok());
        let known = NEAREST_NS.fetch_min(told.unwrap_or(u64::MAX), Ordering::Relaxed);
        let mut cores = Self {
            pair: first_two(),
            apart: Apart::default(),
            waited: Duration::ZERO,
        };
        if told.is_none() && known == u64::MAX && cores.pair.is_some() {
            for _ in 0..FIRST_LOOKS {
                cores.look();
                // SLEEP: the host may move the cores between two looks.
                std::thread::sleep(LOOK_EVERY);
            }
        }
        cores
    }

    /// Waits until the cores are near, for a while, or until the run is over.
    pub fn wait(&mut self, is_over: impl Fn() -> bool) {
        let patience = PATIENCE.min(PATIENCE_IN_ALL.saturating_sub(self.waited));
        let waited = wait(patience, || self.are_near() || is_over());
        self.waited += waited;
    }

    /// Whether they are near now.
    pub fn are_near(&mut self) -> bool {
        let now = self.look();
        self.apart.farthest_ns = self.apart.farthest_ns.max(now.unwrap_or_default());
        now.is_none_or(|now| !is_far(now, NEAREST_NS.load(Ordering::Relaxed)))
    }

    /// Notes what became of measurements that were taken while the cores were far apart.
    pub fn note(&mut self, left_out: usize, used: usize) {
        let add = |to: &mut u32, more: usize| *to += u32::try_from(more).unwrap_or(u32::MAX);
        add(&mut self.apart.left_out, left_out);
        add(&mut self.apart.used, used);
    }

    /// How far apart they were so far; `None` where there is one core.
    #[must_use]
    pub fn apart(&self) -> Option<Apart> {
        self.pair.map(|_| Apart {
            nearest_ns: NEAREST_NS.load(Ordering::Relaxed),
            ..self.apart.clone()
        })
    }

    fn look(&mut self) -> Option<u64> {
        let now = round_trip(self.pair?)?;
        NEAREST_NS.fetch_min(now, Ordering::Relaxed);
        Some(now)
    }
}

/// Waits until it is enough or patience is at its end; how long that took.
fn wait(patience: Duration, mut is_enough: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_enough() && begun.elapsed() < patience {
        // SLEEP: there is nothing to wait for that would tell.
        std::thread::sleep(LOOK_EVERY);
    }
    begun.elapsed()
}

/// Tells a process that is going to be started how near the cores were at best, which is looked at first where this
/// process has not seen it.
pub fn tell(command: &mut Command) -> &mut Command {
    let _looked = Cores::choose();
    match NEAREST_NS.load(Ordering::Relaxed) {
        u64::MAX => command,
        known => command.env(NEAREST, known.to_string()),
    }
}

impl Apart {
    /// In words, for a report.
    #[must_use]
    pub fn words(&self) -> String {
        let Self {
            nearest_ns,
            farthest_ns,
            left_out,
            used,
        } = self;
        format!(
            "{nearest_ns} to {farthest_ns} ns there and back; of the measurements while they were {FAR} times as far apart \
             as at best, {left_out} were taken again and {used} were used"
        )
    }

    /// How far apart the cores were in this run and the other one together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            nearest_ns: self.nearest_ns.min(other.nearest_ns),
            farthest_ns: self.farthest_ns.max(other.farthest_ns),
            left_out: self.left_out.saturating_add(other.left_out),
            used: self.used.saturating_add(other.used),
        }
    }
}

fn is_far(now_ns: u64, nearest_ns: u64) -> bool {
    now_ns > nearest_ns.saturating_mul(FAR.into())
}

/// The first two cores that this thread may run on.
fn first_two() -> Option<[usize; 2]> {
    let may = sched_getaffinity(None).ok()?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| may.is_set(*core));
    Some([cores.next()?, cores.next()?])
}

/// How long a cache line takes from one core to the other and back, in nanoseconds: the least of several times. `None` where
/// the cores are not to be had.
fn round_trip(pair: [usize; 2]) -> Option<u64> {
    let line = Line(AtomicU32::new(0));
    let is_over = AtomicBool::new(false);
    // Looks at no clock, which would take about as long as the way itself: `is_over` ends it.
    let until = |value: u32| {
        while line.0.load(Ordering::Acquire) != value {
            if is_over.load(Ordering::Relaxed) {
                return None;
            }
            spin_loop();
        }
        Some(())
    };
    let all = CHUNKS * ROUND_TRIPS;
    std::thread::scope(|scope| {
        let there = || {
            bind(pair[1])?;
            for trip in 0..all {
                until(2 * trip + 1)?;
                line.0.store(2 * trip + 2, Ordering::Release);
            }
            Some(())
        };
        let back = || {
            bind(pair[0])?;
            let mut least = u64::MAX;
            for chunk in 0..CHUNKS {
                let begun = Instant::now();
                for trip in chunk * ROUND_TRIPS..(chunk + 1) * ROUND_TRIPS {
                    line.0.store(2 * trip + 1, Ordering::Release);
                    until(2 * trip + 2)?;
                }
                let took = begun.elapsed().as_nanos() / u128::from(ROUND_TRIPS);
                least = least.min(u64::try_from(took).ok()?);
            }
            Some(least)
        };
        let end_of = |found: Option<()>| {
            if found.is_none() {
                is_over.store(true, Ordering::Relaxed);
            }
        };
        let (ended, wait) = std::sync::mpsc::channel();
        scope.spawn(move || end_of(there()));
        scope.spawn(move || ended.send(back()));
        // It ends without a word where the cores are not to be had.
        let found = wait.recv_timeout(LOOK_FOR).ok().flatten();
        is_over.store(true, Ordering::Relaxed);
        found
    })
}

fn bind(core: usize) -> Option<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_between_two_cores_takes_time_and_to_one_that_is_not_there_is_none() {
        let Some(pair) = first_two() else {
            assert_eq!(Cores::choose().apart(), None, "there is one core");
            return;
        };
        // Where both are busy with other tests it may take longer than a look lasts.
        while round_trip(pair).is_none_or(|found| found == 0) {}
        assert_eq!(round_trip([pair[0], CpuSet::MAX_CPU - 1]), None);
        let mut cores = Cores::choose();
        cores.are_near();
        let apart = cores.apart().unwrap();
        assert!(
            apart.nearest_ns > 0 && apart.nearest_ns < u64::MAX,
            "{apart:?}"
        );
    }

    #[test]
    fn nobody_waits_once_it_is_enough_or_without_patience() {
        let mut asked = 0;
        let hour = Duration::from_secs(3600);
        let waited = wait(hour, || {
            asked += 1;
            asked == 2
        });
        assert!(waited >= LOOK_EVERY && asked == 2);
        wait(Duration::ZERO, || false);
    }

    #[test]
    fn far_is_measured_by_the_nearest() {
        assert!(!is_far(67, 26) && is_far(330, 67) && !is_far(330, 330));
        assert!(!is_far(u64::MAX, u64::MAX));
        let of = |nearest_ns, farthest_ns, left_out| Apart {
            nearest_ns,
            farthest_ns,
            left_out,
            used: 1,
        };
        let both = of(60, 90, 2).and(&of(50, 80, 3));
        let expected = Apart {
            used: 2,
            ..of(50, 90, 5)
        };
        assert_eq!(both, expected);
        assert!(both.words().starts_with("50 to 90 ns"), "{}", both.words());
    }
}
