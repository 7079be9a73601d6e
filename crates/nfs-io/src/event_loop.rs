//! The event loop of a thread that serves connections: what it does when there is nothing to do, and what other threads
//! are told of that.
//!
//! It sleeps, or looks for more for a while first ([`BusyPoll`]). Something was to be done when the future of the loop was
//! woken, whatever woke it: a socket, an engine's completion, a helper thread, a timer.
//!
//! A look for more is an `epoll_wait` that does not wait, and behind it the processor is offered to whoever else has
//! something to do there, so that a thread that looks for more is in nobody's way.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::BusyPoll;
use crate::busy_poll::When;
use crate::limits::{
    BUSY_POLL_CROWDED_FRACTION, BUSY_POLL_REST_MILLISECONDS_MAX, BUSY_POLL_REST_MILLISECONDS_MIN,
    BUSY_POLL_SPAN_MICROSECONDS, BUSY_POLL_WORK_FRACTION,
};
use crate::rests::Rests;

/// How an event loop spends its time, for other threads to see.
#[derive(Debug, Default)]
pub struct LoopTimes {
    worked_ns: AtomicU64,
    looked_ns: AtomicU64,
    waited_ns: AtomicU64,
    is_at_work: AtomicBool,
}

impl LoopTimes {
    /// How long it has carried something out since it began, system calls among that which may have waited.
    #[must_use]
    pub fn worked(&self) -> Duration {
        Duration::from_nanos(self.worked_ns.load(Ordering::Relaxed))
    }

    /// How long it has looked for more to do; while it does, others may have its processor.
    #[must_use]
    pub fn looked(&self) -> Duration {
        Duration::from_nanos(self.looked_ns.load(Ordering::Relaxed))
    }

    /// How long it had nothing to do, asleep or looking for more, before it began what it carries out now or did last.
    #[must_use]
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed))
    }

    /// Whether it carries something out now, rather than sleep or look for more.
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        self.is_at_work.load(Ordering::Relaxed)
    }
}

fn add(to: &AtomicU64, time: Duration) {
    to.fetch_add(nanoseconds(time), Ordering::Relaxed);
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Runs `future` and the tasks of `local` to its end on the calling thread, as [`LocalSet::block_on`] does; before the
/// thread sleeps it does what `poll` says. How it spends its time is told by `times`.
///
/// # Panics
/// When called by a task of a runtime.
pub fn run<F: Future>(
    runtime: &Runtime,
    local: &LocalSet,
    (poll, times): (BusyPoll, &LoopTimes),
    future: F,
) -> F::Output {
    let inner = pin!(local.run_until(future));
    let now = Instant::now();
    runtime.block_on(EventLoop {
        inner,
        alarm: None,
        poll,
        times,
        worked: now,
        looks: false,
        slept: now,
        judge: Judge::new(now),
    })
}

/// A future that is polled when it was woken, and asks for another look at what came while looking pays.
struct EventLoop<'f, F> {
    inner: Pin<&'f mut F>,
    alarm: Option<(Arc<Alarm>, Waker)>,
    poll: BusyPoll,
    times: &'f LoopTimes,
    /// When the inner future had done what it was woken for.
    worked: Instant,
    /// Whether it has looked for more since.
    looks: bool,
    /// When it went to sleep, unless it looks for more.
    slept: Instant,
    judge: Judge,
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

impl<F: Future> Future for EventLoop<'_, F> {
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
        if alarm.rang.swap(false, Ordering::AcqRel) {
            let done = this.work(&waker);
            if done.is_ready() {
                return done;
            }
        } else if this.looks {
            this.look_on();
        }
        this.alarm = Some((alarm, waker));
        if this.looks {
            look_again(context);
        }
        Poll::Pending
    }
}

impl<F: Future> EventLoop<'_, F> {
    /// Does what it was woken for.
    fn work(&mut self, waker: &Waker) -> Poll<F::Output> {
        let begun = Instant::now();
        if self.looks {
            add(&self.times.looked_ns, begun - self.worked);
        } else {
            self.judge.slept(begun - self.slept);
        }
        let waited = nanoseconds(begun - self.worked);
        self.times.waited_ns.store(waited, Ordering::Relaxed);
        self.times.is_at_work.store(true, Ordering::Relaxed);
        let done = self.inner.as_mut().poll(&mut Context::from_waker(waker));
        self.times.is_at_work.store(false, Ordering::Relaxed);
        self.worked = Instant::now();
        add(&self.times.worked_ns, self.worked - begun);
        self.looks = match self.poll.when() {
            When::Always => !self.poll.is_off(),
            When::AtWork => self.judge.pays((begun, self.worked), thread_time),
        };
        self.slept = self.worked;
        done
    }

    /// Nothing has come: others may run, and when the time is over it is to sleep.
    fn look_on(&mut self) {
        std::thread::yield_now();
        let now = Instant::now();
        let looked = now - self.worked;
        if looked >= self.poll.time() {
            add(&self.times.looked_ns, looked);
            self.looks = false;
            self.slept = now;
        }
    }
}

/// Has the runtime poll this task once more as soon as it has looked, without waiting, for what came.
fn look_again(context: &mut Context<'_>) {
    let is_over = pin!(tokio::task::yield_now()).poll(context).is_ready();
    debug_assert!(!is_over, "it is over when it is polled again");
}

/// Judges whether it pays to look for more: where the thread is at work for so much of the time that little of a
/// processor is left for others, and nobody else wants that.
///
/// A thread that falls asleep, and has to be woken, takes processor time for both, and until it runs again that of
/// whoever waits for it. Where it has much to do it does that so often that looking takes little more; where it has
/// little, looking would keep a processor busy for nothing. Where others want the processor they get it while it looks,
/// but then it has to wait for its turn, and one that sleeps is woken at once.
struct Judge {
    /// When the span began that is being measured.
    since: Instant,
    /// How long it was at work in it.
    worked: Duration,
    /// How long it slept in it.
    slept: Duration,
    /// Processor time of the thread when it began.
    used: Duration,
    pays: bool,
    /// It does not pay in these, behind spans in which others wanted the processor.
    rests: Rests,
}

impl Judge {
    fn new(now: Instant) -> Self {
        let rests = BUSY_POLL_REST_MILLISECONDS_MIN..=BUSY_POLL_REST_MILLISECONDS_MAX;
        Self {
            since: now,
            worked: Duration::ZERO,
            slept: Duration::ZERO,
            used: Duration::ZERO,
            pays: false,
            rests: Rests::new(now, rests),
        }
    }

    /// Whether it pays, when it has been at work from `begun` to `ended`. `used` tells how much processor time the thread
    /// has had.
    fn pays(
        &mut self,
        (begun, ended): (Instant, Instant),
        used: impl FnOnce() -> Duration,
    ) -> bool {
        self.worked += ended.saturating_duration_since(begun);
        let span = ended.saturating_duration_since(self.since);
        if span >= Duration::from_micros(BUSY_POLL_SPAN_MICROSECONDS) {
            let used = used();
            let awake = span.saturating_sub(self.slept);
            let lost = awake.saturating_sub(used.saturating_sub(self.used));
            if lost * BUSY_POLL_CROWDED_FRACTION > span {
                self.rests.begin(ended);
            }
            self.used = used;
            let is_at_work = self.worked * BUSY_POLL_WORK_FRACTION >= span;
            self.pays = is_at_work && self.rests.are_over(ended);
            (self.since, self.worked, self.slept) = (ended, Duration::ZERO, Duration::ZERO);
        }
        self.pays
    }

    /// Notes how long it slept.
    fn slept(&mut self, time: Duration) {
        self.slept += time;
    }
}

/// Processor time that the calling thread has taken since it began.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
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
        run(
            &runtime,
            &LocalSet::new(),
            (FOREVER, &LoopTimes::default()),
            echo,
        );
        asking.join().unwrap();
        assert_eq!(slept.try_iter().count(), 0);
    }

    #[test]
    fn it_sleeps_when_the_time_is_over_and_wakes_for_what_another_thread_does() {
        for poll in [BusyPoll::OFF, BusyPoll::of_microseconds(20), BusyPoll::AUTO] {
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
            let heard = run(
                &runtime,
                &LocalSet::new(),
                (poll, &LoopTimes::default()),
                counting,
            );
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
        run(
            &runtime,
            &LocalSet::new(),
            (FOREVER, &LoopTimes::default()),
            waits,
        );
        assert_eq!(slept.try_iter().count(), 0);
    }

    #[test]
    fn it_tells_how_it_spends_its_time() {
        let times = LoopTimes::default();
        let (runtime, _slept) = runtime();
        let begun = Instant::now();
        let working = async {
            assert!(times.is_at_work());
            let working = Instant::now();
            while working.elapsed() < Duration::from_millis(2) {}
            // Looks for more meanwhile. SLEEP: what is tested is that it is not counted as work.
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(times.waited() >= Duration::from_millis(10));
        };
        run(&runtime, &LocalSet::new(), (FOREVER, &times), working);
        assert!(!times.is_at_work());
        let (worked, looked) = (times.worked(), times.looked());
        assert!(worked >= Duration::from_millis(2), "{worked:?}");
        assert!(looked >= Duration::from_millis(10), "{looked:?}");
        assert!(worked + looked <= begun.elapsed());
    }

    #[test]
    fn one_that_chooses_itself_looks_for_more_while_it_has_much_to_do() {
        let times = LoopTimes::default();
        let (runtime, _slept) = runtime();
        let deadline = Instant::now() + PATIENCE;
        let working = async {
            // Others may have wanted the processor meanwhile.
            while times.looked().is_zero() {
                assert!(Instant::now() < deadline, "it never looks for more");
                let working = Instant::now();
                while working.elapsed() < Duration::from_millis(2) {}
                // SLEEP: there is nothing to do for a while.
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        run(
            &runtime,
            &LocalSet::new(),
            (BusyPoll::AUTO, &times),
            working,
        );
    }

    /// A thread that a [`Judge`] judges, and the time.
    struct Judged {
        judge: Judge,
        now: Instant,
        used: Duration,
    }

    impl Judged {
        fn new() -> Self {
            let now = Instant::now();
            Self {
                judge: Judge::new(now),
                now,
                used: Duration::ZERO,
            }
        }

        /// A span in which it was at work for so many microseconds, others had its processor for so many, and it slept, or
        /// looked for more, for the rest.
        fn span(&mut self, (worked, lost): (u64, u64), sleeps: bool) -> bool {
            let microseconds = Duration::from_micros;
            let rest = microseconds(BUSY_POLL_SPAN_MICROSECONDS - worked);
            if sleeps {
                self.judge.slept(rest);
                self.used += microseconds(worked - lost);
            } else {
                self.used += microseconds(BUSY_POLL_SPAN_MICROSECONDS - lost);
            }
            let begun = self.now + rest;
            self.now += microseconds(BUSY_POLL_SPAN_MICROSECONDS);
            self.judge.pays((begun, self.now), || self.used)
        }

        /// So many spans in which it is at work for half of the time, and what of them it pays in.
        fn pays_in(&mut self, spans: u64) -> u64 {
            (0..spans)
                .map(|_| u64::from(self.span((500, 0), false)))
                .sum()
        }
    }

    #[test]
    fn looking_pays_while_much_is_to_be_done() {
        let mut judged = Judged::new();
        let least = BUSY_POLL_SPAN_MICROSECONDS / u64::from(BUSY_POLL_WORK_FRACTION);
        assert!(!judged.span((least - 1, 0), true));
        assert!(judged.span((least, 0), true));
        assert!(judged.span((least, 0), false));
        assert!(!judged.span((least - 1, 0), false));
        // A single call behind a long time without any.
        judged.now += Duration::from_secs(10);
        judged.judge.slept(Duration::from_secs(10));
        assert!(!judged.span((900, 0), true));
    }

    #[test]
    fn looking_does_not_pay_where_others_want_the_processor() {
        let crowded = BUSY_POLL_SPAN_MICROSECONDS / u64::from(BUSY_POLL_CROWDED_FRACTION) + 1;
        for sleeps in [true, false] {
            let mut judged = Judged::new();
            assert!(judged.span((500, crowded - 1), sleeps));
            assert!(!judged.span((500, crowded), sleeps), "sleeps: {sleeps}");
        }
    }

    #[test]
    fn others_that_want_the_processor_while_it_rests_do_not_make_rests_longer() {
        let mut judged = Judged::new();
        for _ in 0..100 {
            assert!(!judged.span((500, 500), true));
        }
        let rest = (1..).find(|_| judged.pays_in(1) == 1);
        assert_eq!(rest, Some(BUSY_POLL_REST_MILLISECONDS_MIN));
    }

    #[test]
    fn it_rests_longer_where_others_want_the_processor_again_and_again() {
        let (least, most) = (
            BUSY_POLL_REST_MILLISECONDS_MIN,
            BUSY_POLL_REST_MILLISECONDS_MAX,
        );
        let mut judged = Judged::new();
        let mut rests = Vec::new();
        for _ in 0..9 {
            assert!(!judged.span((500, 500), false));
            let rest = (1..).find(|_| judged.pays_in(1) == 1).unwrap();
            rests.push(rest);
        }
        assert_eq!(rests[..3], [least, 2 * least, 4 * least]);
        assert_eq!(rests.last(), Some(&most));
        // Not wanted for as long as it rested: it begins anew.
        assert_eq!(judged.pays_in(most + 1), most + 1);
        assert!(!judged.span((500, 500), false));
        assert_eq!(judged.pays_in(2 * least), least + 1);
    }
}
