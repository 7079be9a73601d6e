//! When calls begin: each when there is room for it, or by the clock.
//!
//! A call that begins by the clock has its time whether or not those before it are answered, and its latency counts
//! from then. So a server that stops for a second has a second's calls wait, as its users would, and not one of them
//! ("coordinated omission").

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Mutex;

use crate::error::LoadError;

/// Tells a run to end early. Clones are told together.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Tells it.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was told.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What decides about the calls of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// When the first call may begin.
    pub(crate) begin: Instant,
    /// The time between two calls that begin by the clock; `None` for calls that begin when there is room.
    pub(crate) every: Option<Duration>,
    /// No call begins from then on.
    pub(crate) until: Option<Instant>,
    /// There are so many calls and no more.
    pub(crate) calls_max: u64,
}

/// Hands the calls of one connection out to those who make them.
#[derive(Debug)]
pub(crate) struct Pace {
    schedule: Schedule,
    next: Cell<u64>,
    stop: Stop,
    halt: Stop,
    timer: Mutex<Option<Timer>>,
}

impl Pace {
    /// Begins. `stop` makes the calls fail, `halt` is their regular end.
    pub(crate) fn new(schedule: Schedule, stop: Stop, halt: Stop) -> Result<Self, LoadError> {
        let timer = schedule.every.map(|_| Timer::new()).transpose();
        Ok(Self {
            schedule,
            next: Cell::new(0),
            stop,
            halt,
            timer: Mutex::new(timer.map_err(LoadError::system("get a timer"))?),
        })
    }

    /// Whether calls begin by the clock.
    pub(crate) fn is_timed(&self) -> bool {
        self.schedule.every.is_some()
    }

    /// The number of the next call and when it is to begin, which is now or past; `None` when there are no more.
    pub(crate) async fn next(&self) -> Result<Option<(u64, Instant)>, LoadError> {
        if self.is_over()? {
            return Ok(None);
        }
        let Some(every) = self.schedule.every else {
            let now = Instant::now();
            // One call at least: what is so short that a connection had no turn in it would have no figure.
            let is_past = self.schedule.until.is_some_and(|until| now >= until);
            if is_past && self.next.get() > 0 {
                return Ok(None);
            }
            let number = self.next.replace(self.next.get() + 1);
            return Ok(Some((number, now)));
        };
        // Whoever waits for the clock keeps the others waiting, in the order of the calls.
        let mut timer = self.timer.lock().await;
        let number = self.next.get();
        let due = self.schedule.begin + every.mul_f64(number as f64);
        // A call that was due in time is made however late it is, and shows how long it waited; but not after the
        // end, or a server that cannot keep up would make the measurement longer. Those are counted as left.
        let now = Instant::now();
        let ends = |until: Instant| due >= until || now >= until;
        if self.schedule.until.is_some_and(ends) || self.is_over()? {
            return Ok(None);
        }
        if let Some(timer) = timer.as_mut() {
            let waited = timer.wait_until(due).await;
            waited.map_err(LoadError::system("wait for a timer"))?;
        }
        self.next.set(number + 1);
        Ok(Some((number, due)))
    }

    /// How many calls were due before the end, and did not begin before it.
    pub(crate) fn left(&self) -> u64 {
        let Schedule {
            begin,
            every: Some(every),
            until: Some(until),
            calls_max,
        } = self.schedule
        else {
            return 0;
        };
        let due =
            until.saturating_duration_since(begin).as_secs_f64() / every.as_secs_f64().max(1e-9);
        // The first is due at the beginning; a hair's breadth is not a call.
        let due = ((due - 1e-6).ceil().max(0.0) as u64).min(calls_max);
        due.saturating_sub(self.next.get())
    }

    fn is_over(&self) -> Result<bool, LoadError> {
        if self.stop.is_set() {
            return Err(LoadError::Interrupted);
        }
        Ok(self.halt.is_set() || self.next.get() >= self.schedule.calls_max)
    }
}

/// A timer of the kernel that wakes within microseconds; tokio's counts milliseconds. It is read like a pipe, and tokio
/// waits for it as for one: what can wait for any descriptor (`AsyncFd`) is not to be had without unsafe code.
#[derive(Debug)]
pub(crate) struct Timer {
    timer: OwnedFd,
    ready: Receiver,
}

impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let ready = Receiver::from_owned_fd_unchecked(timer.try_clone()?)?;
        Ok(Self { timer, ready })
    }

    pub(crate) async fn wait_until(&mut self, due: Instant) -> io::Result<()> {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let once = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        loop {
            self.ready.readable().await?;
            let mut expirations = [0; 8];
            match self.ready.try_read(&mut expirations) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(drop),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(work)
    }

    fn pace(schedule: Schedule) -> Pace {
        Pace::new(schedule, Stop::default(), Stop::default()).unwrap()
    }

    #[test]
    fn calls_by_the_clock_keep_their_times_however_late_they_are_taken() {
        run(async {
            let begin = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
            let every = Duration::from_millis(100);
            let pace = pace(Schedule {
                begin,
                every: Some(every),
                until: Some(begin + Duration::from_secs(3600)),
                calls_max: 3,
            });
            // All of them were due while nobody took them, and none is left out.
            for number in 0..3_u32 {
                let next = pace.next().await.unwrap();
                assert_eq!(next, Some((number.into(), begin + every * number)));
            }
            assert_eq!(pace.next().await.unwrap(), None);
        });
    }

    #[test]
    fn what_did_not_begin_before_the_end_is_left_and_counted() {
        run(async {
            let begin = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
            let pace = pace(Schedule {
                begin,
                every: Some(Duration::from_millis(100)),
                until: Some(begin + Duration::from_millis(250)),
                calls_max: u64::MAX,
            });
            // Those that were due at 0, 100 and 200 ms.
            assert_eq!((pace.next().await.unwrap(), pace.left()), (None, 3));
        });
        run(async {
            let begin = Instant::now();
            let schedule = Schedule {
                begin,
                every: Some(Duration::from_micros(100)),
                until: Some(begin + Duration::from_millis(2)),
                calls_max: u64::MAX,
            };
            let pace = pace(schedule);
            let mut made = 0;
            while pace.next().await.unwrap().is_some() {
                made += 1;
            }
            assert_eq!(made + pace.left(), 20);
        });
    }

    #[test]
    fn no_call_begins_before_its_time() {
        run(async {
            let begin = Instant::now();
            let pace = pace(Schedule {
                begin,
                every: Some(Duration::from_millis(5)),
                until: None,
                calls_max: 3,
            });
            while let Some((number, due)) = pace.next().await.unwrap() {
                assert_eq!(
                    due,
                    begin + Duration::from_millis(5) * u32::try_from(number).unwrap()
                );
                assert!(Instant::now() >= due);
            }
        });
    }

    #[test]
    fn calls_that_begin_when_there_is_room_end_with_their_number_and_when_told() {
        run(async {
            let schedule = Schedule {
                begin: Instant::now(),
                every: None,
                until: None,
                calls_max: 2,
            };
            let limited = pace(schedule);
            let numbers = [
                limited.next().await,
                limited.next().await,
                limited.next().await,
            ]
            .map(|next| next.unwrap().map(|(number, _)| number));
            assert_eq!(numbers, [Some(0), Some(1), None]);
            let stop = Stop::default();
            let stopped = Pace::new(schedule, stop.clone(), Stop::default()).unwrap();
            stop.set();
            assert!(matches!(stopped.next().await, Err(LoadError::Interrupted)));
        });
    }
}
