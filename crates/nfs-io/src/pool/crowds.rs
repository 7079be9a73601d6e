//! Jobs that take the same lock of the kernel, and how many threads they are worth.
//!
//! Whoever makes, moves or removes a name of a directory holds that directory's lock in the kernel. Eight threads at
//! eight names of one directory wait for each other there, and to sleep and be woken costs more than the names do. So a
//! few jobs of a lock are left to the threads that are at work anyway, of which one has begun the first of them.
//!
//! That thread may be stuck on a disk, though, while the next job would not be. So jobs are left waiting only while an
//! idle thread watches: it looks every [`POOL_WATCH_MILLISECONDS`] whether any job has begun since, and takes one where
//! none has. Where nobody watches, each job wakes a thread.

use std::collections::HashMap;

use crate::limits::{POOL_CROWD_JOBS_FOR_A_THREAD, POOL_WATCH_QUIET_LOOKS_MAX};

/// A lock of the kernel's that a job takes, such as that of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelLock(pub u64);

/// How many jobs wait for a thread or run that take each lock, and who watches.
#[derive(Default)]
pub(super) struct Crowds {
    jobs: HashMap<KernelLock, usize>,
    /// Jobs that wait and for which no thread was woken.
    pub(super) left: usize,
    /// A thread watches.
    pub(super) is_watched: bool,
    /// Jobs of one lock have come together since the thread that watches has looked.
    are_there: bool,
    /// Jobs that have begun.
    pub(super) begun: u64,
}

impl Crowds {
    /// A job comes; whether it may wait until a thread that is at work comes to it.
    pub(super) fn come(&mut self, lock: Option<KernelLock>) -> bool {
        let Some(lock) = lock else {
            return false;
        };
        let jobs = self.jobs.entry(lock).or_default();
        let others = *jobs;
        *jobs += 1;
        self.are_there |= others > 0;
        self.is_watched && !others.is_multiple_of(POOL_CROWD_JOBS_FOR_A_THREAD)
    }

    /// A job is over, or will never run.
    pub(super) fn go(&mut self, lock: Option<KernelLock>) {
        let Some(lock) = lock else {
            return;
        };
        if let Some(jobs) = self.jobs.get_mut(&lock) {
            *jobs -= 1;
            if *jobs == 0 {
                self.jobs.remove(&lock);
            }
        }
    }

    /// A job does not wait any more that may have been left. Of those that were left before the last watch ended nobody
    /// knows any more: fewer count as left then, and more threads are woken.
    pub(super) fn take_left(&mut self, was_left: bool) {
        self.left = self.left.saturating_sub(usize::from(was_left));
    }

    /// Nobody watches any more: what was left is worth threads of its own.
    pub(super) fn unwatch(&mut self) {
        self.is_watched = false;
        self.left = 0;
    }

    /// Whether a thread that has nothing to do is to watch.
    pub(super) fn want_a_watch(&self) -> bool {
        self.are_there && !self.is_watched
    }
}

/// What a thread has seen that watches.
pub(super) struct Watch {
    begun: u64,
    quiet_looks: u32,
}

/// What a thread that watches does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It goes on.
    Watch,
    /// Something waits, and nobody gets to it: it takes that.
    Work,
    /// There is nothing to watch any more.
    Sleep,
}

impl Watch {
    pub(super) fn begin(crowds: &mut Crowds) -> Self {
        crowds.is_watched = true;
        Self {
            begun: crowds.begun,
            quiet_looks: 0,
        }
    }

    /// Looks; `something_waits` that may run.
    pub(super) fn look(&mut self, crowds: &mut Crowds, something_waits: bool) -> Next {
        if something_waits && self.begun == crowds.begun {
            return Next::Work;
        }
        self.begun = crowds.begun;
        if std::mem::take(&mut crowds.are_there) {
            self.quiet_looks = 0;
        } else {
            self.quiet_looks += 1;
        }
        if self.quiet_looks > POOL_WATCH_QUIET_LOOKS_MAX && !something_waits {
            Next::Sleep
        } else {
            Next::Watch
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORY: Option<KernelLock> = Some(KernelLock(7));

    #[test]
    fn few_jobs_of_a_lock_are_left_to_who_is_at_work_where_somebody_watches() {
        let mut crowds = Crowds::default();
        assert!(!crowds.come(DIRECTORY) && !crowds.come(DIRECTORY));
        assert!(crowds.want_a_watch());
        let _watch = Watch::begin(&mut crowds);
        assert!(!crowds.want_a_watch());
        let more = POOL_CROWD_JOBS_FOR_A_THREAD - 2;
        assert!((0..more).all(|_| crowds.come(DIRECTORY)));
        assert!(!crowds.come(DIRECTORY), "so many are worth a thread more");
        assert!(crowds.come(DIRECTORY));
        assert!(!crowds.come(Some(KernelLock(8))), "the first of another");
        assert!(!crowds.come(None) && !crowds.come(None));
        for _ in 0..POOL_CROWD_JOBS_FOR_A_THREAD + 2 {
            crowds.go(DIRECTORY);
        }
        assert!(!crowds.come(DIRECTORY), "the first one again");
        crowds.go(None);
    }

    #[test]
    fn who_watches_works_where_nothing_begins_and_sleeps_where_nothing_comes() {
        let mut crowds = Crowds::default();
        crowds.come(DIRECTORY);
        crowds.come(DIRECTORY);
        let mut watch = Watch::begin(&mut crowds);
        crowds.begun += 1;
        assert_eq!(watch.look(&mut crowds, true), Next::Watch, "one has begun");
        assert_eq!(watch.look(&mut crowds, true), Next::Work);
        let mut watch = Watch::begin(&mut crowds);
        for _ in 0..POOL_WATCH_QUIET_LOOKS_MAX {
            assert_eq!(watch.look(&mut crowds, false), Next::Watch);
        }
        crowds.come(DIRECTORY);
        assert_eq!(watch.look(&mut crowds, false), Next::Watch);
        for _ in 0..POOL_WATCH_QUIET_LOOKS_MAX {
            assert_eq!(watch.look(&mut crowds, false), Next::Watch);
        }
        assert_eq!(watch.look(&mut crowds, false), Next::Sleep);
    }
}
