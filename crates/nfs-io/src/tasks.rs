//! Tasks of an event loop that are used again.
//!
//! What a server cannot finish at once goes on as a task. The memory of one is asked for with the alignment of two
//! cache lines, for which the allocator cuts a larger piece to size and so breaks up what it has at hand for others. For small
//! WRITEs, of which each is a task, that is a noticeable part of all that they cost. Here a task that is done waits for the next
//! work.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The tasks of one event loop for works of one kind.
pub struct Tasks<W> {
    spare: RefCell<Vec<Rc<Place<W>>>>,
    most: usize,
}

/// Where a task finds its next work.
struct Place<W> {
    work: Cell<Option<W>>,
    waker: Cell<Option<Waker>>,
}

impl<W: 'static> Tasks<W> {
    /// Keeps so many tasks at most for works to come.
    #[must_use]
    pub fn new(most: usize) -> Rc<Self> {
        Rc::new(Self {
            spare: RefCell::default(),
            most,
        })
    }

    /// Has a task do `work`, as `run` says: one that waits for some, or else a new one. All works have to be given the
    /// same `run`, as a task goes on with the one that it began with.
    ///
    /// # Panics
    /// Where it is called outside of a [`LocalSet`](tokio::task::LocalSet), whose tasks these are.
    pub fn begin<F>(self: &Rc<Self>, work: W, run: fn(W) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        let spare = self.spare.borrow_mut().pop();
        if let Some(place) = spare {
            place.give(work);
            return;
        }
        let tasks = Rc::clone(self);
        let place = Rc::new(Place {
            work: Cell::new(Some(work)),
            waker: Cell::default(),
        });
        tokio::task::spawn_local(async move {
            loop {
                run(place.next().await).await;
                let mut spare = tasks.spare.borrow_mut();
                if spare.len() >= tasks.most {
                    return;
                }
                spare.push(Rc::clone(&place));
            }
        });
    }
}

impl<W> Place<W> {
    fn give(&self, work: W) {
        self.work.set(Some(work));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    async fn next(&self) -> W {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&self, context: &Context<'_>) -> Poll<W> {
        match self.work.take() {
            Some(work) => Poll::Ready(work),
            None => {
                self.waker.set(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl<W> fmt::Debug for Tasks<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks")
            .field("spare", &self.spare.borrow().len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tokio::task::LocalSet;

    use super::*;

    type Asked = (
        oneshot::Receiver<u32>,
        oneshot::Sender<(u32, tokio::task::Id)>,
    );

    async fn answer((asked, answered): Asked) {
        let number = asked.await.expect("it is asked");
        let _gone = answered.send((number, tokio::task::id()));
    }

    /// Begins a work, and gives who lets it go on and who hears of its end.
    fn begin(
        tasks: &Rc<Tasks<Asked>>,
    ) -> (
        oneshot::Sender<u32>,
        oneshot::Receiver<(u32, tokio::task::Id)>,
    ) {
        let (ask, asked) = oneshot::channel();
        let (answered, answer_comes) = oneshot::channel();
        tasks.begin((asked, answered), answer);
        (ask, answer_comes)
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().expect("a runtime");
        let bounded = async { tokio::time::timeout(Duration::from_secs(60), future).await };
        let done = LocalSet::new().block_on(&runtime, bounded);
        done.expect("a work that nobody does")
    }

    #[test]
    fn a_task_that_is_done_gets_the_next_work() {
        block_on(async {
            let tasks = Tasks::new(1);
            let mut ids = Vec::new();
            for number in 0..3 {
                let (ask, answer) = begin(&tasks);
                ask.send(number).expect("it waits");
                let (told, id) = answer.await.expect("it ends");
                assert_eq!(told, number);
                ids.push(id);
                tokio::task::yield_now().await;
            }
            assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        });
    }

    #[test]
    fn works_that_wait_together_have_a_task_each_and_few_are_kept() {
        block_on(async {
            let tasks = Tasks::new(2);
            let begun: Vec<_> = (0..4).map(|_| begin(&tasks)).collect();
            let mut ids = std::collections::BTreeSet::new();
            // The last goes first: none stands in another's way.
            for (number, (ask, answer)) in (0..4).zip(begun).rev() {
                ask.send(number).expect("it waits");
                let (told, id) = answer.await.expect("it ends");
                assert_eq!(told, number);
                ids.insert(id.to_string());
            }
            tokio::task::yield_now().await;
            assert_eq!((ids.len(), tasks.spare.borrow().len()), (4, 2));
        });
    }

    #[test]
    fn a_work_whose_task_panics_takes_no_other_with_it() {
        block_on(async {
            let tasks = Tasks::new(2);
            let (ask, answer) = begin(&tasks);
            // Nobody asks any more.
            drop(ask);
            assert!(answer.await.is_err(), "it panicked");
            tokio::task::yield_now().await;
            assert_eq!(tasks.spare.borrow().len(), 0);
            let (ask, answer) = begin(&tasks);
            ask.send(7).expect("it waits");
            assert_eq!(answer.await.expect("it ends").0, 7);
        });
    }
}
