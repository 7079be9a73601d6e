//! What executes an [`Op`]: an io_uring ring, or the thread pool where the kernel (or a
//! container's rules) offers none. Same operations, same results, same tests.
//!
//! An engine belongs to one thread (a shard). Operations are queued by [`Engine::submit`] and
//! handed to the kernel once per turn of the event loop by [`Engine::drive`], a future that must
//! run beside the rest for as long as the engine is used.
//!
//! Files and buffers in flight belong to the engine, not to the future that waits: dropping a
//! [`Completion`] stops nothing that has begun and endangers nothing. A read that has not begun when its
//! turn comes, and for which nobody waits any more, is left out.

use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use self::copies::Copying;
use self::counters::Counted;
use crate::pool::JobFuture;
use crate::{Creds, Errno, Op, OpResult, Pool, Queue, Result, identity};

mod attributes;
mod copies;
mod counters;
mod threads;
pub(crate) mod uring;

pub use attributes::sync_attributes;
pub use copies::Copies;
pub use counters::{EngineCounters, EngineFigures};
pub use uring::UringLimits;

/// Which of the two engines carries out the I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// An io_uring ring, driven by the thread that uses it.
    Uring,
    /// The thread pool, with `preadv2` and `pwritev2`.
    Threads,
}

impl std::fmt::Display for EngineKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Uring => "io_uring",
            Self::Threads => "threads",
        })
    }
}

/// Executes operations for one thread. Cheap to clone; clones share.
#[derive(Clone)]
pub struct Engine {
    inner: Inner,
    copies: Option<Rc<Copies>>,
}

#[derive(Clone)]
enum Inner {
    Uring(Rc<uring::Uring>),
    Threads(Threads),
}

/// What the thread engine is made of.
#[derive(Clone)]
struct Threads {
    pool: Pool,
    /// Operations that somebody waits for.
    awaited: Rc<Cell<usize>>,
    counters: Arc<EngineCounters>,
    /// An engine belongs to one thread, whichever it is.
    _of_one_thread: PhantomData<*const ()>,
}

impl Engine {
    /// An engine with a ring of its own, for the calling thread. Ask [`crate::probe::uring`]
    /// first for the reason in words where there is none.
    ///
    /// # Errors
    /// What io_uring_setup(2) and registration report.
    pub fn new_uring(limits: UringLimits) -> Result<Self> {
        let ring = uring::Uring::new(limits)?;
        Ok(Self {
            inner: Inner::Uring(Rc::new(ring)),
            copies: None,
        })
    }

    /// An engine that runs operations on `pool`.
    #[must_use]
    pub fn threads(pool: Pool) -> Self {
        Self::threads_counting(pool, Arc::default())
    }

    /// An engine as [`Engine::threads`] makes it, which counts in `counters`: several may share them.
    #[must_use]
    pub fn threads_counting(pool: Pool, counters: Arc<EngineCounters>) -> Self {
        Self {
            inner: Inner::Threads(Threads {
                pool,
                awaited: Rc::default(),
                counters,
                _of_one_thread: PhantomData,
            }),
            copies: None,
        }
    }

    /// The same engine, of whose operations the large copies are noted in `copies`.
    #[must_use]
    pub fn noting(&self, copies: &Rc<Copies>) -> Self {
        Self {
            inner: self.inner.clone(),
            copies: Some(Rc::clone(copies)),
        }
    }

    /// What the engine and its clones count.
    #[must_use]
    pub fn counters(&self) -> Arc<EngineCounters> {
        match &self.inner {
            Inner::Uring(ring) => ring.counters(),
            Inner::Threads(threads) => Arc::clone(&threads.counters),
        }
    }

    /// Which kind of engine this is.
    #[must_use]
    pub fn kind(&self) -> EngineKind {
        match &self.inner {
            Inner::Uring(_) => EngineKind::Uring,
            Inner::Threads(..) => EngineKind::Threads,
        }
    }

    /// Starts an operation with the identity `creds`. `queue` is its file system and its client: a file system
    /// that has stopped answering holds up its own operations only, and clients take turns. Where too much
    /// waits, operations of those who have most end with `EAGAIN`, and nothing of them is done.
    ///
    /// Order is not kept between operations in flight, also not on one file: what must come
    /// after another is submitted when that has completed.
    ///
    /// # Panics
    /// When the operation's range is not within its buffer, and inside an
    /// [`identity::Guard`]: the ring would act with the wrong identity.
    pub fn submit(&self, op: Op, creds: &Creds, queue: impl Into<Queue>) -> Completion {
        let queue = queue.into();
        assert!(
            !identity::guarded(),
            "the engine takes the identity as an argument"
        );
        if let Err(errno) = op.check() {
            return Completion {
                state: State::Done(Some(op.failed(errno))),
            };
        }
        let copying = self.copies.as_ref().and_then(|copies| copies.begin(&op));
        let state = match &self.inner {
            Inner::Uring(ring) => State::Uring {
                waiter: ring.submit(op, creds, queue),
                _copying: copying,
            },
            Inner::Threads(threads) => {
                let counted = Counted::submitted(&threads.counters);
                let submitted = threads.pool.submit_or(
                    queue,
                    (op, creds.clone(), counted),
                    |(op, creds, counted)| {
                        let result = threads::execute(op, &creds);
                        counted.completed();
                        result
                    },
                    |(op, _, counted)| {
                        counted.refused();
                        op.failed(Errno::AGAIN)
                    },
                    |(op, ..)| op.changes_nothing(),
                );
                match submitted {
                    Ok(job) => {
                        threads.awaited.set(threads.awaited.get() + 1);
                        State::Threads {
                            job,
                            _awaited: Awaited(threads.awaited.clone()),
                            _copying: copying,
                        }
                    }
                    Err(refused) => {
                        let (op, _, counted) = refused.input;
                        counted.refused();
                        State::Done(Some(op.failed(Errno::AGAIN)))
                    }
                }
            }
        };
        Completion { state }
    }

    /// Hands queued operations to the kernel and takes completed ones back, until dropped. Runs
    /// beside the tasks that use the engine (`spawn_local`), once for each engine; needs a tokio
    /// runtime with I/O enabled. Sleeps while there is nothing to do.
    ///
    /// # Errors
    /// Returns only if the ring itself fails; operations in flight are then lost to their
    /// waiters, and the process had better end.
    pub async fn drive(&self) -> Result<()> {
        match &self.inner {
            Inner::Uring(ring) => ring.drive().await,
            Inner::Threads(..) => std::future::pending().await,
        }
    }

    /// Hands queued operations to the kernel at once if they are to move `least` bytes or more, and
    /// takes back what has completed; whether it did. Otherwise [`Engine::drive`] does that once per
    /// turn of the event loop, which saves system calls. But many large transfers handed over at
    /// once, to a device that is done with them as fast, are in as many buffers, which fit into no
    /// processor's cache; one after the other they can have the same.
    pub fn hand_over(&self, least: usize) -> bool {
        match &self.inner {
            Inner::Uring(ring) => ring.hand_over(least),
            Inner::Threads(..) => false,
        }
    }

    /// Operations submitted and not completed. With the thread engine, those still waited for.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        match &self.inner {
            Inner::Uring(ring) => ring.in_flight(),
            Inner::Threads(threads) => threads.awaited.get(),
        }
    }
}

/// Carries out an operation on the calling thread, which may block, with the identity `creds`: for jobs of a
/// pool that have more than one to do.
///
/// # Panics
/// When the operation's range is not within its buffer.
#[must_use]
pub fn execute(op: Op, creds: &Creds) -> OpResult {
    match op.check() {
        Ok(()) => threads::execute(op, creds),
        Err(errno) => op.failed(errno),
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({}, {} in flight)", self.kind(), self.in_flight())
    }
}

/// The end of an operation to come. May be dropped at any time.
#[must_use = "what changes something runs anyway; its result is lost"]
pub struct Completion {
    state: State,
}

enum State {
    /// Known at once; taken by the first poll.
    Done(Option<OpResult>),
    Uring {
        waiter: uring::Waiter,
        _copying: Option<Copying>,
    },
    Threads {
        job: JobFuture<OpResult>,
        _awaited: Awaited,
        _copying: Option<Copying>,
    },
}

impl Future for Completion {
    type Output = OpResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<OpResult> {
        match &mut self.state {
            State::Done(result) => Poll::Ready(
                result
                    .take()
                    .expect("a completion is polled to its end once"),
            ),
            State::Uring { waiter, .. } => waiter.poll(context),
            State::Threads { job, .. } => {
                // The pool is going away: what was not started has not happened, and its buffer
                // went with it.
                let closed = |_| OpResult {
                    result: Err(Errno::CANCELED),
                    buf: None,
                };
                Poll::Ready(ready!(Pin::new(job).poll(context)).unwrap_or_else(closed))
            }
        }
    }
}

/// Counts one operation of the thread engine that somebody waits for.
struct Awaited(Rc<Cell<usize>>);

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests;
