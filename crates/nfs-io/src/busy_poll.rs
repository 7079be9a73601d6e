//! Busy polling: an event loop that looks for more to do for a while before it sleeps.
//!
//! A thread that sleeps in `epoll_wait` has to be woken for whatever comes next, and from the moment at which it comes
//! until the thread runs it takes longer than a small call does: tens of microseconds on a processor that was idle or
//! is virtual. An event loop that polls asks `epoll_wait` with a timeout of zero, again and again, and is awake when
//! something comes. The price is a processor that is busy for as long as it polls: it polls only for a set time after
//! something was to be done, and then sleeps as every event loop does.
//!
//! Something was to be done when the future of the loop was woken, whatever woke it: a socket, an engine's completion, a
//! helper thread, a timer. Nothing is added to what it does then, and nothing at all where busy polling is off.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::limits::BUSY_POLL_MICROSECONDS_MAX;

/// How long an event loop polls after something was to be done, before it sleeps. The default is not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusyPoll(Duration);

/// Why a text is no time to poll for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusyPollError {
    /// The text is not a number with a unit.
    #[error("\"{0}\" is no time to poll for; write \"50us\", \"1ms\", or 0 to sleep at once")]
    NotATime(String),
    /// It is longer than may be set.
    #[error(
        "\"{0}\" is too long to poll for: each shard would keep a processor busy for that long after every call; write \
         {BUSY_POLL_MICROSECONDS_MAX}us or less"
    )]
    TooLong(String),
}

impl BusyPoll {
    /// The event loop sleeps as soon as there is nothing to do.
    pub const OFF: Self = Self(Duration::ZERO);

    /// An event loop that polls for so long, however long that is: only what people write is bounded.
    #[must_use]
    pub const fn lasting(time: Duration) -> Self {
        Self(time)
    }

    /// An event loop that polls for so many microseconds.
    #[must_use]
    pub const fn of_microseconds(time: u64) -> Self {
        Self(Duration::from_micros(time))
    }

    /// Whether the event loop sleeps as soon as there is nothing to do.
    #[must_use]
    pub const fn is_off(self) -> bool {
        self.0.is_zero()
    }

    /// The time in whole microseconds.
    #[must_use]
    pub fn microseconds(self) -> u64 {
        u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)
    }

    /// For a thread without an event loop: asks `look` again and again until it gives something or the time is over;
    /// not once if that is off.
    pub fn look<T>(self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let begun = Instant::now();
        while !self.is_off() {
            let found = look();
            if found.is_some() {
                return found;
            }
            if begun.elapsed() >= self.0 {
                break;
            }
        }
        None
    }

    /// Runs `future` and the tasks of `local` to its end on the calling thread, as [`LocalSet::block_on`] does, and
    /// polls before it sleeps.
    ///
    /// # Panics
    /// When called by a task of a runtime.
    pub fn block_on<F: Future>(self, runtime: &Runtime, local: &LocalSet, future: F) -> F::Output {
        if self.is_off() {
            return local.block_on(runtime, future);
        }
        let inner = pin!(local.run_until(future));
        runtime.block_on(Polling {
            time: self.0,
            inner,
            alarm: None,
            worked: Instant::now(),
        })
    }
}

impl fmt::Display for BusyPoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.microseconds())
    }
}

impl FromStr for BusyPoll {
    type Err = BusyPollError;

    /// Reads a whole number with `us` or `ms`, or 0 for not at all.
    fn from_str(text: &str) -> Result<Self, BusyPollError> {
        let not_a_time = || BusyPollError::NotATime(text.to_owned());
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at_checked(digits).ok_or_else(not_a_time)?;
        if number.is_empty() {
            return Err(not_a_time());
        }
        // What is no `u64` is too long in any unit.
        let number: u64 = number.parse().unwrap_or(u64::MAX);
        let microseconds = match unit {
            "us" => number,
            "ms" => number.saturating_mul(1000),
            "" if number == 0 => 0,
            _ => return Err(not_a_time()),
        };
        if microseconds > BUSY_POLL_MICROSECONDS_MAX {
            return Err(BusyPollError::TooLong(text.to_owned()));
        }
        Ok(Self(Duration::from_micros(microseconds)))
    }
}

/// A future that is polled when it was woken, and asks for another look at what came until `time` has gone by since.
struct Polling<'f, F> {
    time: Duration,
    inner: Pin<&'f mut F>,
    alarm: Option<(Arc<Alarm>, Waker)>,
    /// When the inner future had done what it was woken for.
    worked: Instant,
}

/// Notes that somebody has woken the inner future, and wakes the outer one.
struct Alarm {
    rang: AtomicBool,
    outer: Waker,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rang.store(true, Ordering::Release);
        self.outer.wake_by_ref();
    }
}

impl<F: Future> Future for Polling<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let known = this.alarm.take();
        let (alarm, waker) = known
            .filter(|(alarm, _)| alarm.outer.will_wake(context.waker()))
            .unwrap_or_else(|| {
                let alarm = Arc::new(Alarm {
                    // Whoever polls it first, or from elsewhere, may have been told by another waker.
                    rang: AtomicBool::new(true),
                    outer: context.waker().clone(),
                });
                let waker = Waker::from(Arc::clone(&alarm));
                (alarm, waker)
            });
        let rang = alarm.rang.swap(false, Ordering::AcqRel);
        if rang {
            let done = this.inner.as_mut().poll(&mut Context::from_waker(&waker));
            if done.is_ready() {
                return done;
            }
            this.worked = Instant::now();
        }
        this.alarm = Some((alarm, waker));
        if rang || this.worked.elapsed() < this.time {
            look_again(context);
        }
        Poll::Pending
    }
}

/// Has the runtime poll this task once more as soon as it has looked, without waiting, for what came.
fn look_again(context: &mut Context<'_>) {
    let is_over = pin!(tokio::task::yield_now()).poll(context).is_ready();
    debug_assert!(!is_over, "it is over when it is polled again");
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixStream;

    use super::*;

    /// Longer than any test.
    const FOREVER: BusyPoll = BusyPoll::lasting(Duration::from_secs(3600));
    const ROUNDS: usize = 200;
    /// For what comes unless the code is broken.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A runtime that tells each time that its thread goes to sleep.
    fn runtime() -> (Runtime, Receiver<()>) {
        let (sleeps, slept): (Sender<()>, _) = channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .on_thread_park(move || {
                // Nobody listens any more when the test is over.
                let _heard_or_not = sleeps.send(());
            })
            .build()
            .unwrap();
        (runtime, slept)
    }

    #[test]
    fn who_polls_does_not_sleep_between_calls() {
        use std::io::{Read as _, Write as _};

        let (runtime, slept) = runtime();
        let (mut there, here) = std::os::unix::net::UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        let asking = std::thread::spawn(move || {
            let mut byte = [7];
            for _ in 0..ROUNDS {
                there.write_all(&byte).unwrap();
                there.read_exact(&mut byte).unwrap();
            }
        });
        let echo = async {
            // A task, as a shard's connections are.
            let echo = tokio::task::spawn_local(async move {
                let mut stream = UnixStream::from_std(here).unwrap();
                let mut byte = [0];
                while stream.read_exact(&mut byte).await.is_ok() {
                    stream.write_all(&byte).await.unwrap();
                }
            });
            echo.await.unwrap();
        };
        FOREVER.block_on(&runtime, &LocalSet::new(), echo);
        asking.join().unwrap();
        assert_eq!(slept.try_iter().count(), 0);
    }

    #[test]
    fn it_sleeps_when_the_time_is_over_and_wakes_for_what_another_thread_does() {
        for time in [Duration::ZERO, Duration::from_micros(20)] {
            let (runtime, slept) = runtime();
            let (ask, mut asked) = tokio::sync::mpsc::unbounded_channel();
            let asking = std::thread::spawn(move || {
                for round in 0..ROUNDS {
                    slept
                        .recv_timeout(PATIENCE)
                        .expect("it sleeps though something was done before");
                    ask.send(round).unwrap();
                }
                drop(ask);
                slept.try_iter().count()
            });
            let counting = async {
                let mut heard = 0;
                while asked.recv().await.is_some() {
                    heard += 1;
                }
                heard
            };
            let poll = BusyPoll::lasting(time);
            let heard = poll.block_on(&runtime, &LocalSet::new(), counting);
            assert_eq!(heard, ROUNDS, "{poll}");
            // Another one may be at the end of the channel, or where a thread that woke it was interrupted.
            let more = asking.join().unwrap();
            assert!(
                more <= ROUNDS / 10,
                "{poll}: it slept {more} times for nothing"
            );
        }
    }

    #[test]
    fn timers_run_while_it_polls() {
        let (runtime, slept) = runtime();
        let waits = async {
            // SLEEP: what is tested is that it ends.
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        FOREVER.block_on(&runtime, &LocalSet::new(), waits);
        assert_eq!(slept.try_iter().count(), 0);
    }

    #[test]
    fn times() {
        let read = |text: &str| text.parse::<BusyPoll>();
        let table = [("0", 0), ("0us", 0), ("50us", 50), ("1ms", 1000)];
        for (text, microseconds) in table {
            assert_eq!(read(text).unwrap().microseconds(), microseconds, "{text}");
        }
        let most = BusyPoll::lasting(Duration::from_micros(BUSY_POLL_MICROSECONDS_MAX));
        assert_eq!(read(&most.to_string()), Ok(most));
        assert!(read("0").unwrap().is_off() && !most.is_off());
        for text in ["", "us", "50", "50 us", "-1us", "1.5ms", "1s", "50µs", "é"] {
            assert_eq!(read(text), Err(BusyPollError::NotATime(text.to_owned())));
        }
        let longer = format!("{}us", BUSY_POLL_MICROSECONDS_MAX + 1);
        for text in [longer.as_str(), "1000ms", "99999999999999999999us"] {
            assert_eq!(read(text), Err(BusyPollError::TooLong(text.to_owned())));
        }
    }
}
