//! A job, and the place for its value, as one piece of memory.
//!
//! A thread that gives many jobs to others and frees none of them takes fresh memory for each, and the others give it
//! back to a heap that is not theirs: to the C library's allocator, either takes a lock that all of them want. So a task
//! is one piece, which lives until whoever waits for the value has it, and mostly goes back where it came from.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// A job of a pool's, with whatever it is told by `S` when its turn to wait is over.
pub(super) struct Job<S>(Option<Arc<dyn Run<S>>>);

impl<S: 'static> Job<S> {
    /// A job that gives a value, and where that will be.
    pub(super) fn giving<T, W>(work: W) -> (Self, Value<T>)
    where
        T: Send + 'static,
        W: FnOnce(S, Giver<T>) + Send + 'static,
    {
        let task = Arc::new(Task {
            work: Mutex::new(Some(work)),
            place: Mutex::new(Place::Empty(None)),
        });
        let place: Arc<dyn Holds<T>> = task.clone();
        (Self(Some(task)), Value(place))
    }

    /// Runs the job, or does what it does instead.
    pub(super) fn run(mut self, start: S) {
        if let Some(task) = self.0.take() {
            task.run(start);
        }
    }
}

/// One that never ran drops what it owns, and whoever waits for its value learns that there is none.
impl<S> Drop for Job<S> {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abandon();
        }
    }
}

struct Task<W, T> {
    /// What is to be done; gone once it has begun.
    work: Mutex<Option<W>>,
    place: Mutex<Place<T>>,
}

/// What is known of a value.
enum Place<T> {
    /// It is to come; whom to wake then.
    Empty(Option<Waker>),
    Full(T),
    /// It was taken, or nobody waits for it, or nobody gives it.
    Over,
}

trait Run<S>: Send + Sync {
    fn run(self: Arc<Self>, start: S);
    fn abandon(&self);
}

trait Holds<T>: Send + Sync {
    fn place(&self) -> &Mutex<Place<T>>;
}

impl<W: Send, T: Send> Holds<T> for Task<W, T> {
    fn place(&self) -> &Mutex<Place<T>> {
        &self.place
    }
}

impl<S, W, T> Run<S> for Task<W, T>
where
    T: Send + 'static,
    W: FnOnce(S, Giver<T>) + Send + 'static,
{
    fn run(self: Arc<Self>, start: S) {
        let work = self.work.lock().take();
        if let Some(work) = work {
            work(start, Giver(self));
        }
    }

    fn abandon(&self) {
        let work = self.work.lock().take();
        drop(work);
        put(&self.place, Place::Over);
    }
}

/// Puts into the place of a value what is known of it now, if it was to come, and wakes whoever waits.
fn put<T>(place: &Mutex<Place<T>>, known: Place<T>) {
    let mut place = place.lock();
    let Place::Empty(waker) = &mut *place else {
        // Nobody waits for it any more. It may own anything: not dropped under the lock.
        drop(place);
        drop(known);
        return;
    };
    let waker = waker.take();
    *place = known;
    drop(place);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// By which the value of a task is given. Dropped without one, there is none.
pub(super) struct Giver<T>(Arc<dyn Holds<T>>);

impl<T> Giver<T> {
    pub(super) fn give(self, value: T) {
        put(self.0.place(), Place::Full(value));
    }

    /// Whether nobody waits for the value any more.
    pub(super) fn is_given_up(&self) -> bool {
        matches!(*self.0.place().lock(), Place::Over)
    }
}

impl<T> Drop for Giver<T> {
    fn drop(&mut self) {
        put(self.0.place(), Place::Over);
    }
}

impl<T> std::fmt::Debug for Giver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Giver")
    }
}

/// The value of a task, to come; `None` where nobody gives it.
pub(super) struct Value<T>(Arc<dyn Holds<T>>);

impl<T> Future for Value<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut place = self.0.place().lock();
        match std::mem::replace(&mut *place, Place::Over) {
            Place::Empty(known) => {
                let (waker, other) = match known {
                    Some(waker) if waker.will_wake(context.waker()) => (waker, None),
                    other => (context.waker().clone(), other),
                };
                *place = Place::Empty(Some(waker));
                // What it would have woken may be gone with it, and own this: not dropped under the lock.
                drop(place);
                drop(other);
                Poll::Pending
            }
            Place::Full(value) => Poll::Ready(Some(value)),
            Place::Over => Poll::Ready(None),
        }
    }
}

/// A value that nobody wants is dropped here and now.
impl<T> Drop for Value<T> {
    fn drop(&mut self) {
        let unwanted = std::mem::replace(&mut *self.0.place().lock(), Place::Over);
        drop(unwanted);
    }
}

impl<T> std::fmt::Debug for Value<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Value")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use super::*;

    /// A job that hands what gives its value to whoever calls, and the value.
    fn task() -> (Giver<Arc<u8>>, Value<Arc<u8>>) {
        let (sender, giver) = std::sync::mpsc::channel();
        let (job, value) = Job::giving(move |(), giver| sender.send(giver).unwrap());
        job.run(());
        (giver.recv().unwrap(), value)
    }

    fn poll<T>(value: &mut Value<T>) -> Poll<Option<T>> {
        Pin::new(value).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_value_comes_once_and_is_nowhere_else() {
        let (giver, mut value) = task();
        assert_eq!(poll(&mut value), Poll::Pending);
        let given = Arc::new(7);
        giver.give(Arc::clone(&given));
        assert_eq!(poll(&mut value), Poll::Ready(Some(Arc::clone(&given))));
        assert_eq!(Arc::strong_count(&given), 1);
        assert_eq!(poll(&mut value), Poll::Ready(None), "it was taken");
    }

    #[test]
    fn what_nobody_waits_for_is_dropped_at_once() {
        let (giver, value) = task();
        let given = Arc::new(7);
        let known: Weak<u8> = Arc::downgrade(&given);
        giver.give(given);
        drop(value);
        assert!(known.upgrade().is_none(), "it was given before");

        let (giver, value) = task();
        assert!(!giver.is_given_up());
        drop(value);
        assert!(giver.is_given_up());
        let given = Arc::new(7);
        let known = Arc::downgrade(&given);
        giver.give(given);
        assert!(known.upgrade().is_none(), "it came too late");
    }

    #[test]
    fn whoever_waits_for_what_nobody_gives_learns_of_it() {
        let (giver, mut value) = task();
        drop(giver);
        assert_eq!(poll(&mut value), Poll::Ready(None));

        let owned = Arc::new(7);
        let known = Arc::downgrade(&owned);
        let (job, mut value) = Job::<()>::giving(move |(), giver| giver.give(owned));
        drop(job);
        assert!(known.upgrade().is_none(), "what the job owns goes with it");
        assert_eq!(poll(&mut value), Poll::Ready(None));
    }
}
