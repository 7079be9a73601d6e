//! A bounded set of threads for calls that block.
//!
//! Jobs come in lanes, one for each file system, and within a lane by client: who gets a thread next, and who
//! is refused where too much waits, is the rule of [`crate::lanes`].
//!
//! Of jobs that take the same lock of the kernel few threads are at work at once, as [`KernelLock`] tells.
//!
//! What is queued is bounded for each lane; beyond that a job is refused, at once and typed, or pushed out by
//! one of a client that has less than its share, before it began.
//! Threads are made when there is work for them and end when they have been idle for a while.
//!
//! A job runs with the server's identity; what it needs beyond that it takes with
//! [`crate::identity::run_as`]. A job that has begun runs to its end, also when nobody waits for its result
//! any more: it owns everything it uses.

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::identity::ServerIdentity;
use crate::lanes::{Lane, LaneLimits, Lanes, Queue};
use crate::limits::{
    POOL_DROP_SECONDS, POOL_IDLE_SECONDS, POOL_QUEUED_MAX, POOL_THREADS_MAX,
    POOL_WATCH_MILLISECONDS,
};
use crate::promptness;
use crate::wake_ups::{Gathered, gathered};

mod crowds;
mod task;

pub use crowds::KernelLock;
use crowds::{Crowds, Next, Watch};
use task::{Giver, Value};

/// The bounds of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Threads that all lanes may use together; at least 1.
    pub threads_max: usize,
    /// Threads that one lane may use; at least 1. Networks of which nothing runs may use some more.
    pub lane_threads_max: usize,
    /// Jobs of one lane that may wait for a thread.
    pub queued_max: usize,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            threads_max: POOL_THREADS_MAX,
            lane_threads_max: POOL_THREADS_MAX / 2,
            queued_max: POOL_QUEUED_MAX,
        }
    }
}

/// Why a job was not accepted, or pushed out before it began. Nothing of it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolFull {
    /// The lane's queue is full, and the job's client has its share of it: the file system is slower than what
    /// is asked of it.
    #[error("too many calls wait for the file system {:#x}", .0.0)]
    Lane(Lane),
    /// The system gives no thread (`RLIMIT_NPROC`, a cgroup's `pids.max`) and there is none yet.
    #[error("the system refuses the first thread of the pool")]
    Threads,
    /// The pool is shutting down.
    #[error("the pool is shutting down")]
    Closed,
}

/// What a pool does now and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Threads alive now, at work or not.
    pub threads: usize,
    /// Most threads alive at once.
    pub threads_peak: usize,
    /// Jobs that threads run now.
    pub running: usize,
    /// Jobs that were accepted and wait for a thread.
    pub queued: usize,
    /// Jobs accepted since the start.
    pub accepted: u64,
    /// Jobs refused since the start, those pushed out among them.
    pub refused: u64,
}

/// The threads. Cheap to clone; clones share. When the last clone is dropped the pool shuts
/// down as by [`Pool::shutdown`].
#[derive(Clone)]
pub struct Pool {
    handle: Arc<Handle>,
}

impl Pool {
    /// A pool without threads yet.
    #[must_use]
    pub fn new(limits: PoolLimits) -> Self {
        // Read before any guard exists: each thread takes it on.
        ServerIdentity::current();
        let limits = PoolLimits {
            threads_max: limits.threads_max.max(1),
            lane_threads_max: limits.lane_threads_max.clamp(1, limits.threads_max.max(1)),
            queued_max: limits.queued_max,
        };
        let lanes = Lanes::new(LaneLimits {
            places_max: limits.threads_max,
            lane_max: limits.lane_threads_max,
            queued_max: limits.queued_max,
        });
        let inner = Arc::new(Inner {
            limits,
            state: Mutex::new(State::new(lanes)),
            prompt_work: Condvar::new(),
            work: Condvar::new(),
            prompt_max: std::thread::available_parallelism().map_or(1, NonZero::get),
            nice: promptness::niceness(),
            ended: Condvar::new(),
        });
        Self {
            handle: Arc::new(Handle(inner)),
        }
    }

    /// Gives `job` to its line now and returns a future for its value. The future may be
    /// dropped: the job runs all the same.
    ///
    /// A job that panics makes the future panic, nothing else.
    ///
    /// # Errors
    /// [`PoolFull`], at the first poll of the future and without waiting, or when the job is pushed out.
    pub fn run<Q, T, F>(
        &self,
        queue: Q,
        job: F,
    ) -> impl Future<Output = Result<T, PoolFull>> + Send + use<Q, T, F>
    where
        Q: Into<Queue>,
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        Awaited::of(self.submit(queue.into(), job, |job| job()))
    }

    /// Runs a job as [`Pool::run`] does, which takes `lock` if one is given, and whose value comes when it gives one,
    /// which may be after its end and by another thread. Where the job and all that it handed [`Give`] to are gone
    /// without one, there is none.
    ///
    /// # Errors
    /// As [`Pool::run`], and [`PoolFull::Closed`] where no value was given.
    pub fn run_giving<Q, T, F>(
        &self,
        queue: Q,
        lock: Option<KernelLock>,
        job: F,
    ) -> impl Future<Output = Result<T, PoolFull>> + Send + use<Q, T, F>
    where
        Q: Into<Queue>,
        T: Send + 'static,
        F: FnOnce(Give<T>) + Send + 'static,
    {
        let work = move |job: F, start, giver| {
            let give = Give(Some(giver));
            match start {
                // Its panic is told by `Give`, which goes with it.
                Start::Now => drop(catch_unwind(AssertUnwindSafe(|| job(give)))),
                Start::PushedOut(why) => give.send(Err(why)),
            }
        };
        Awaited::of(self.offer(queue.into(), lock, job, work))
    }

    /// Runs a job once all that waits in the lane now has been started. It is refused by no limit: callers see to it
    /// that there is little of it, and that a job which gets dropped is no loss.
    ///
    /// A job of this pool that calls this does so at its end: its thread is counted on to look for more then.
    pub fn run_behind(&self, lane: Lane, job: impl FnOnce() + Send + 'static) {
        let inner = &self.handle.0;
        let (job, _nobody_waits) = Job::giving(move |start, _: Giver<()>| {
            if let Start::Now = start {
                // A panic ends the job and nothing else; what it owns tells those who wait for it.
                drop(catch_unwind(AssertUnwindSafe(job)));
            }
        });
        let mut state = inner.state.lock();
        if state.closed || (state.threads == 0 && !inner.spawn(&mut state)) {
            state.stats.refused += 1;
            // It may own anything, this pool too: not under the lock.
            MutexGuard::unlocked(&mut state, || drop(job));
            return;
        }
        state.stats.accepted += 1;
        let is_counted_on = std::ptr::eq(WORKS_FOR.get(), Arc::as_ptr(inner));
        let is_left = is_counted_on && state.crowds.is_watched;
        state.crowds.left += usize::from(is_left);
        let waiting = Waiting {
            job,
            lock: None,
            is_left,
        };
        state.lanes.wait_behind(lane, waiting);
        if !is_counted_on && state.lanes.has_next() {
            inner.wake_one(&mut state);
        }
    }

    /// Runs a job as [`Pool::run`] does, answering at once whether it was accepted, and handing `input` back
    /// if not. A job that is pushed out later drops it.
    ///
    /// # Errors
    /// [`Refused`], with the input.
    pub fn submit<A, T, F>(
        &self,
        queue: impl Into<Queue>,
        input: A,
        job: F,
    ) -> Result<JobFuture<T>, Refused<A>>
    where
        A: Send + 'static,
        T: Send + 'static,
        F: FnOnce(A) -> T + Send + 'static,
    {
        let work = move |input, start, giver: Giver<_>| {
            let outcome = match start {
                Start::Now => Ok(catch_unwind(AssertUnwindSafe(|| job(input)))),
                Start::PushedOut(why) => Err(why),
            };
            giver.give(outcome);
        };
        self.offer(queue.into(), None, input, work)
    }

    /// Runs a job as [`Pool::submit`] does; one that is pushed out later has the value of `instead`. One for
    /// which nobody waits any more when its turn comes is not begun, if `may_be_left` says so.
    ///
    /// # Errors
    /// [`Refused`], with the input.
    pub(crate) fn submit_or<A, T>(
        &self,
        queue: Queue,
        input: A,
        job: fn(A) -> T,
        instead: fn(A) -> T,
        may_be_left: fn(&A) -> bool,
    ) -> Result<JobFuture<T>, Refused<A>>
    where
        A: Send + 'static,
        T: Send + 'static,
    {
        let work = move |input, start, giver: Giver<_>| {
            let work = match start {
                Start::Now if giver.is_given_up() && may_be_left(&input) => return,
                Start::Now => job,
                Start::PushedOut(_) => instead,
            };
            let outcome = catch_unwind(AssertUnwindSafe(|| work(input)));
            giver.give(Ok(outcome));
        };
        self.offer(queue, None, input, work)
    }

    fn offer<A, T, F>(
        &self,
        queue: Queue,
        lock: Option<KernelLock>,
        input: A,
        work: F,
    ) -> Result<JobFuture<T>, Refused<A>>
    where
        A: Send + 'static,
        T: Send + 'static,
        F: FnOnce(A, Start, Giver<Outcome<T>>) + Send + 'static,
    {
        let inner = &self.handle.0;
        let mut state = inner.state.lock();
        if let Err(why) = inner.admit(&mut state, queue) {
            state.stats.refused += 1;
            return Err(Refused { input, why });
        }
        let (job, value) = Job::giving(move |start, giver| work(input, start, giver));
        let pushed_out = inner.enqueue(&mut state, queue, lock, job);
        drop(state);
        // It may own anything, this pool too: not under the lock.
        if let Some(job) = pushed_out {
            job.run(Start::PushedOut(PoolFull::Lane(queue.lane)));
        }
        Ok(JobFuture {
            value: gathered(value),
        })
    }

    /// What the pool does now and has done.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let state = self.handle.0.state.lock();
        PoolStats {
            threads: state.threads,
            running: state.lanes.running(),
            queued: state.lanes.queued(),
            ..state.stats
        }
    }

    /// Shuts down: nothing more is accepted, what has not started is dropped (its futures yield
    /// [`PoolFull::Closed`]), what runs is waited for up to `patience`. A job stuck in the
    /// kernel cannot be ended from outside; its thread is left to itself and owns what it uses.
    /// Returns how many jobs were left running.
    pub fn shutdown(&self, patience: Duration) -> usize {
        self.handle.0.shutdown(patience)
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({:?})", self.stats())
    }
}

/// A job that was not accepted.
#[derive(Debug)]
pub struct Refused<A> {
    /// What the job would have worked on, untouched.
    pub input: A,
    /// The limit that the job met.
    pub why: PoolFull,
}

/// The value of a job to come.
#[must_use = "the job runs anyway; its value is lost"]
#[derive(Debug)]
pub struct JobFuture<T> {
    value: Gathered<Value<Outcome<T>>>,
}

/// The value of a job, its panic, or why it did not run.
type Outcome<T> = Result<std::thread::Result<T>, PoolFull>;

/// By which a job of [`Pool::run_giving`] gives its value.
#[derive(Debug)]
pub struct Give<T>(Option<Giver<Outcome<T>>>);

impl<T> Give<T> {
    /// Gives the value to whoever waits for it.
    pub fn give(self, value: T) {
        self.send(Ok(Ok(value)));
    }

    fn send(mut self, outcome: Outcome<T>) {
        if let Some(giver) = self.0.take() {
            giver.give(outcome);
        }
    }
}

impl<T> Drop for Give<T> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(giver) = self.0.take()
        {
            let panic: Box<dyn Any + Send> = Box::new("the job panicked");
            giver.give(Ok(Err(panic)));
        }
    }
}

/// The value of a job, or why it was refused. Every call in progress may keep one: what was refused is not in it.
enum Awaited<T> {
    Value(JobFuture<T>),
    Refused(PoolFull),
}

impl<T> Awaited<T> {
    fn of<A>(submitted: Result<JobFuture<T>, Refused<A>>) -> Self {
        match submitted {
            Ok(value) => Self::Value(value),
            Err(refused) => Self::Refused(refused.why),
        }
    }
}

impl<T> Future for Awaited<T> {
    type Output = Result<T, PoolFull>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Value(value) => Pin::new(value).poll(context),
            Self::Refused(why) => Poll::Ready(Err(*why)),
        }
    }
}

impl<T> Future for JobFuture<T> {
    type Output = Result<T, PoolFull>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.value)
            .poll(context)
            .map(|outcome| match outcome {
                Some(Ok(Ok(value))) => Ok(value),
                Some(Err(pushed_out)) => Err(pushed_out),
                Some(Ok(Err(panic))) => resume_unwind(panic as Box<dyn Any + Send>),
                None => Err(PoolFull::Closed),
            })
    }
}

type Job = task::Job<Start>;

/// A job that waits for a thread.
struct Waiting {
    job: Job,
    lock: Option<KernelLock>,
    /// No thread was woken for it.
    is_left: bool,
}

/// What a job is told when its turn to wait is over.
enum Start {
    Now,
    /// It does not run.
    PushedOut(PoolFull),
}

/// Shuts the pool down when the last user is gone; the threads hold only `Inner`.
struct Handle(Arc<Inner>);

impl Drop for Handle {
    fn drop(&mut self) {
        // Whoever shut it down before has waited as long as they wanted.
        if !self.0.state.lock().closed {
            self.0.shutdown(Duration::from_secs(POOL_DROP_SECONDS));
        }
    }
}

struct Inner {
    limits: PoolLimits,
    state: Mutex<State>,
    /// Signalled when there is something for an idle prompt thread.
    prompt_work: Condvar,
    /// Signalled when there is something for an idle thread that runs behind.
    work: Condvar,
    /// How many threads may be prompt: one for each processor.
    prompt_max: usize,
    /// How nice whoever made the pool was.
    nice: Option<i32>,
    /// Signalled when a thread has ended.
    ended: Condvar,
}

struct State {
    lanes: Lanes<Waiting>,
    crowds: Crowds,
    threads: usize,
    /// Threads made that have not looked for work yet.
    starting: usize,
    /// Threads that sleep until there is work.
    idle: usize,
    /// How many of `threads` are prompt, and how many of those sleep (not counted in `idle`).
    prompt: usize,
    prompt_idle: usize,
    /// Sleeping threads that have been signalled and have not woken yet.
    signalled: usize,
    closed: bool,
    stats: PoolStats,
}

impl State {
    fn new(lanes: Lanes<Waiting>) -> Self {
        Self {
            lanes,
            crowds: Crowds::default(),
            threads: 0,
            starting: 0,
            idle: 0,
            prompt: 0,
            prompt_idle: 0,
            signalled: 0,
            closed: false,
            stats: PoolStats::default(),
        }
    }
}

impl Inner {
    /// Whether the line takes one more job; sees to it that there is at least one thread.
    fn admit(self: &Arc<Self>, state: &mut State, queue: Queue) -> Result<(), PoolFull> {
        if state.closed {
            return Err(PoolFull::Closed);
        }
        if !state.lanes.takes(queue) {
            return Err(PoolFull::Lane(queue.lane));
        }
        if state.threads == 0 && !self.spawn(state) {
            return Err(PoolFull::Threads);
        }
        Ok(())
    }

    /// Lets a job wait that was admitted. Another may have to give way, and is returned.
    fn enqueue(
        self: &Arc<Self>,
        state: &mut State,
        queue: Queue,
        lock: Option<KernelLock>,
        job: Job,
    ) -> Option<Job> {
        state.stats.accepted += 1;
        let is_left = state.crowds.come(lock);
        state.crowds.left += usize::from(is_left);
        let waiting = Waiting { job, lock, is_left };
        let pushed_out = state.lanes.wait(queue, waiting);
        state.stats.refused += u64::from(pushed_out.is_some());
        if !is_left && state.lanes.has_next() {
            self.wake_one(state);
        }
        let pushed_out = pushed_out?;
        state.crowds.take_left(pushed_out.is_left);
        state.crowds.go(pushed_out.lock);
        Some(pushed_out.job)
    }

    /// Sees to it that some thread looks for work. One on its way is enough: it wakes the next
    /// when it finds more than it takes.
    fn wake_one(self: &Arc<Self>, state: &mut State) {
        if state.starting + state.signalled > 0 {
            return;
        }
        let has_room = state.threads < self.limits.threads_max;
        if state.prompt_idle > 0 {
            state.signalled += 1;
            self.prompt_work.notify_one();
        } else if has_room && self.may_be_prompt(state) && self.spawn(state) {
            // A prompt one is on its way.
        } else if state.idle > 0 {
            state.signalled += 1;
            self.work.notify_one();
        } else if has_room {
            // Where the system refuses a thread, those there are get to the job in time.
            self.spawn(state);
        }
    }

    /// Starts a thread: as many are prompt as there are processors, so that few jobs at a time run like any other
    /// program, and further ones come behind, so that many do not keep a processor from whoever is to take calls.
    fn spawn(self: &Arc<Self>, state: &mut State) -> bool {
        let inner = self.clone();
        let prompt = self.may_be_prompt(state);
        let spawned = std::thread::Builder::new()
            .name("penstock-fs".to_owned())
            .spawn(move || inner.work(prompt));
        if spawned.is_ok() {
            state.prompt += usize::from(prompt);
            state.threads += 1;
            state.starting += 1;
            state.stats.threads_peak = state.stats.threads_peak.max(state.threads);
        }
        spawned.is_ok()
    }

    /// Whether the next thread may be a prompt one. Not if a thread starts it that runs behind: it would be as nice.
    fn may_be_prompt(&self, state: &State) -> bool {
        state.prompt < self.prompt_max && !RUNS_BEHIND.get()
    }

    /// Runs jobs on the calling thread until it has been idle for long or the pool closes.
    fn work(self: Arc<Self>, prompt: bool) {
        ServerIdentity::current().adopt();
        if !prompt {
            RUNS_BEHIND.set(true);
            // Where that is refused, calls wait longer while many helpers are busy.
            let _refused_or_not = self.nice.map(promptness::run_behind);
        }
        WORKS_FOR.set(Arc::as_ptr(&self));
        let mut state = self.state.lock();
        state.starting -= 1;
        loop {
            if let Some((queue, lock, job)) = self.next_job(&mut state) {
                MutexGuard::unlocked(&mut state, || job.run(Start::Now));
                state.lanes.leave(queue);
                state.crowds.go(lock);
            } else if state.closed || !self.wait(&mut state, prompt) {
                break;
            }
        }
        state.prompt -= usize::from(prompt);
        state.threads -= 1;
        self.ended.notify_all();
    }

    /// Takes the next job, and wakes another thread if there is more than is left to those at work.
    fn next_job(self: &Arc<Self>, state: &mut State) -> Option<(Queue, Option<KernelLock>, Job)> {
        let (queue, next) = state.lanes.next()?;
        state.crowds.begun += 1;
        state.crowds.take_left(next.is_left);
        if state.lanes.queued() > state.crowds.left && state.lanes.has_next() {
            self.wake_one(state);
        }
        Some((queue, next.lock, next.job))
    }

    /// Waits for work; false when the thread has been idle for long enough to end.
    fn wait(&self, state: &mut MutexGuard<'_, State>, prompt: bool) -> bool {
        // Prompt threads are those that are woken first.
        if !prompt && state.crowds.want_a_watch() && self.watch(state) {
            return true;
        }
        let timed_out = self.sleep(state, prompt, Duration::from_secs(POOL_IDLE_SECONDS));
        self.is_signalled(state) || !timed_out
    }

    /// Watches over jobs that were left to threads at work; whether there is something to do for the calling one.
    fn watch(&self, state: &mut MutexGuard<'_, State>) -> bool {
        let mut watch = Watch::begin(&mut state.crowds);
        let is_needed = loop {
            let patience = Duration::from_millis(POOL_WATCH_MILLISECONDS);
            let timed_out = self.sleep(state, false, patience);
            if self.is_signalled(state) || !timed_out || state.closed {
                break true;
            }
            let something_waits = state.lanes.has_next();
            match watch.look(&mut state.crowds, something_waits) {
                Next::Watch => {}
                Next::Work => break true,
                Next::Sleep => break false,
            }
        };
        state.crowds.unwatch();
        is_needed
    }

    /// Sleeps until there may be work; whether the time was over before.
    fn sleep(&self, state: &mut MutexGuard<'_, State>, prompt: bool, patience: Duration) -> bool {
        if prompt {
            state.prompt_idle += 1;
            let timed_out = self.prompt_work.wait_for(state, patience).timed_out();
            state.prompt_idle -= 1;
            timed_out
        } else {
            state.idle += 1;
            let timed_out = self.work.wait_for(state, patience).timed_out();
            state.idle -= 1;
            timed_out
        }
    }

    /// A signal is taken by whoever wakes first: all wake to look for the same work.
    fn is_signalled(&self, state: &mut State) -> bool {
        let signalled = state.signalled > 0;
        state.signalled -= usize::from(signalled);
        signalled
    }

    fn shutdown(&self, patience: Duration) -> usize {
        let mut state = self.state.lock();
        state.closed = true;
        let unstarted = state.lanes.take_all();
        // A job may own anything, a clone of this pool too: not dropped under the lock.
        MutexGuard::unlocked(&mut state, || drop(unstarted));
        self.prompt_work.notify_all();
        self.work.notify_all();
        // A job may drop the last clone: its own thread cannot be waited for.
        let own = usize::from(std::ptr::eq(WORKS_FOR.get(), self));
        let deadline = Instant::now() + patience;
        while state.threads > own {
            if self.ended.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.lanes.running()
    }
}

thread_local! {
    /// The pool that the thread belongs to: compared, never followed.
    static WORKS_FOR: Cell<*const Inner> = const { Cell::new(std::ptr::null()) };
    /// The thread is one of a pool that runs behind.
    static RUNS_BEHIND: Cell<bool> = const { Cell::new(false) };
}

#[cfg(test)]
mod tests;
