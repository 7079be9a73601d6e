//! Wake-ups that helper threads have for the tasks of one event loop, gathered.
//!
//! Whoever wakes a task of another thread's event loop makes a system call, and on a processor that both share the
//! event loop may run at once: it does that one task, sends what there is to send, sleeps, and is woken for the next
//! one. So the tasks to be woken are put on a list here, and the event loop is woken once for all that are on it. It
//! wakes them itself, which costs little. A helper that has something for many tasks at a time finishes all of them
//! first ([`together`]).
//!
//! Nothing waits for a list to become longer: whoever puts the first task on it wakes the event loop, at once or at the
//! end of its `together`.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

thread_local! {
    /// What gathers the wake-ups for the event loop of this thread.
    static HERE: RefCell<Option<Arc<WakeUps>>> = const { RefCell::new(None) };
    /// The event loops that this thread has something for and will wake at the end of its [`together`].
    static TO_TELL: RefCell<Option<Vec<Arc<WakeUps>>>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct WakeUps(Mutex<State>);

#[derive(Default)]
struct State {
    /// Tasks that are to be woken.
    tasks: Vec<Waker>,
    /// What wakes the event loop.
    event_loop: Option<Waker>,
    /// The event loop was woken and has not looked since.
    is_told: bool,
    /// The event loop looks no more: whoever has something wakes the task itself.
    has_ended: bool,
}

impl WakeUps {
    fn add(self: &Arc<Self>, task: Waker) {
        let mut state = self.0.lock();
        if state.has_ended {
            drop(state);
            task.wake();
            return;
        }
        state.tasks.push(task);
        let is_told = state.is_told;
        drop(state);
        if is_told {
            return;
        }
        // A thread that is ending has no list any more.
        let is_told_later = TO_TELL.try_with(|to_tell| match &mut *to_tell.borrow_mut() {
            Some(to_tell) => {
                if !to_tell.iter().any(|other| Arc::ptr_eq(other, self)) {
                    to_tell.push(Arc::clone(self));
                }
                true
            }
            None => false,
        });
        if !is_told_later.unwrap_or(false) {
            self.tell();
        }
    }

    /// Wakes the event loop, if it does not know yet that there is something.
    fn tell(&self) {
        let mut state = self.0.lock();
        if state.is_told || state.tasks.is_empty() {
            return;
        }
        state.is_told = true;
        let event_loop = state.event_loop.clone();
        drop(state);
        if let Some(event_loop) = event_loop {
            event_loop.wake();
        }
    }

    /// What is on the list. Whoever puts something there from now on wakes the event loop by `event_loop`.
    fn take(&self, event_loop: &Waker) -> Vec<Waker> {
        let mut state = self.0.lock();
        match &mut state.event_loop {
            Some(known) => known.clone_from(event_loop),
            none => *none = Some(event_loop.clone()),
        }
        state.is_told = false;
        std::mem::take(&mut state.tasks)
    }
}

/// Gathers the wake-ups of [`gathered`] futures that are polled on this thread, for as long as it is polled: to be run
/// beside them, on the same event loop.
pub async fn gather() -> Infallible {
    let here = Here::begin();
    poll_fn(|context| {
        for task in here.0.take(context.waker()) {
            task.wake();
        }
        Poll::Pending
    })
    .await
}

/// The wake-ups of this thread, until it is dropped.
struct Here(Arc<WakeUps>);

impl Here {
    fn begin() -> Self {
        let wake_ups = Arc::<WakeUps>::default();
        HERE.set(Some(Arc::clone(&wake_ups)));
        Self(wake_ups)
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        // The thread may be about to end, and what it keeps be gone.
        let _gone = HERE.try_with(|here| here.take());
        let mut state = self.0.0.lock();
        state.has_ended = true;
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        for task in tasks {
            task.wake();
        }
    }
}

/// Does what wakes tasks of event loops; each event loop is woken at the end, once. Within another `together` of the same
/// thread that is the other's end.
pub fn together<T>(work: impl FnOnce() -> T) -> T {
    /// Tells them also where the work panics.
    struct Telling;
    impl Drop for Telling {
        fn drop(&mut self) {
            for wake_ups in TO_TELL.take().unwrap_or_default() {
                wake_ups.tell();
            }
        }
    }
    if TO_TELL.with_borrow(Option::is_some) {
        return work();
    }
    TO_TELL.set(Some(Vec::new()));
    let _telling = Telling;
    work()
}

/// A future for what another thread does, whose wake-up goes the way of all others of this thread's event loop if that
/// [gathers](gather) them. Else it is `future`.
#[must_use = "a future does nothing unless it is polled"]
#[derive(Debug)]
pub struct Gathered<F>(F);

/// A [`Gathered`] future of this one.
pub const fn gathered<F: Future + Unpin>(future: F) -> Gathered<F> {
    Gathered(future)
}

impl<F: Future + Unpin> Future for Gathered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let task = context.waker();
        let here = HERE.with_borrow(|here| match here {
            // Nobody is woken by this one.
            _ if task.will_wake(Waker::noop()) => None,
            Some(wake_ups) => Some(Waker::from(Arc::new(Task {
                wake_ups: Arc::clone(wake_ups),
                task: task.clone(),
            }))),
            None => None,
        });
        let mut own = Context::from_waker(here.as_ref().unwrap_or(task));
        Pin::new(&mut self.0).poll(&mut own)
    }
}

/// Wakes a task by way of the list.
struct Task {
    wake_ups: Arc<WakeUps>,
    task: Waker,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_ups.add(self.task.clone());
    }
}

#[cfg(test)]
mod tests;
