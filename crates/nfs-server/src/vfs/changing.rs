//! A change of names or attributes and its flush, as one job of the helper pool.

use std::sync::Arc;

use nfs_io::pool::{Give, KernelLock};

use super::stable::Flush;
use super::{Error, Object, Result};
use crate::operate::calls::{self, StepKind, step};
use crate::vfs::file_cache::InodeId;
use crate::vfs::{Target, Vfs};

impl Vfs {
    /// Runs a change on the helper pool, which takes this lock of the kernel's if it is known, and then has what it says
    /// put on stable storage: what it has made and the flushes, or why it failed, and what is told in either case.
    ///
    /// # Errors
    /// [`Error::Busy`] when too much of this client waits for that file system already: then nothing was done.
    pub(super) async fn changing_metadata<T: Send + 'static, W: Send + 'static>(
        self: &Arc<Self>,
        target: &Target,
        lock: Option<KernelLock>,
        work: impl FnOnce() -> (Result<(T, Vec<Flush>)>, W) + Send + 'static,
    ) -> Result<(Result<T>, W)> {
        let _step = step(StepKind::Helper);
        let (vfs, queue) = (Arc::clone(self), target.queue());
        let (handed_over, is_async) = (calls::hand_over(), target.tree.export.is_async());
        let job = move |give: Give<Changed<T, W>>| {
            let work = || {
                vfs.make_room_if_full(queue.lane);
                let under_way = vfs.committer.begin(queue.lane);
                (work(), under_way)
            };
            let (((result, told), _under_way), brought) = match handed_over {
                Some(handed_over) => handed_over.run(work),
                None => (work(), None),
            };
            let mut changed = Changed {
                made: Err(Error::Busy),
                told,
                brought,
                flushed: None,
                flushes: vec![],
            };
            match result {
                Ok((made, flushes)) if !is_async && !flushes.is_empty() => {
                    changed.made = Ok(made);
                    changed.flushes.clone_from(&flushes);
                    vfs.committer.join(queue, flushes, move |flushed| {
                        changed.flushed = Some(flushed);
                        give.give(changed);
                    });
                }
                result => {
                    changed.made = result.map(|(made, _)| made);
                    give.give(changed);
                }
            }
        };
        let done = self.pool.run_giving(queue, lock, job).await;
        let changed = done.map_err(|_full| Error::Busy)?;
        match (&changed.brought, &changed.flushed) {
            (Some(brought), Some(_)) => calls::take_back_waiting(brought, StepKind::GroupCommit),
            (Some(brought), None) => calls::take_back(brought),
            (None, _) => {}
        }
        let result = match (changed.made, changed.flushed) {
            (Ok(made), Some(Err(Error::Busy))) => {
                // Boxed, as it is rare.
                let flushed = Box::pin(self.flush(target, changed.flushes)).await;
                flushed.map(|()| made)
            }
            (Ok(made), Some(flushed)) => flushed.map(|()| made),
            (made, _) => made,
        };
        Ok((result, changed.told))
    }
}

/// The lock that the kernel takes for changes of this directory's names.
pub(super) fn names_lock(directory: &Object) -> KernelLock {
    let InodeId { dev, ino, .. } = directory.inode_id();
    // Two that are taken for one wait for each other a little.
    KernelLock(dev.rotate_left(32) ^ ino)
}

/// What a helper thread hands back of a change.
struct Changed<T, W> {
    made: Result<T>,
    told: W,
    brought: Option<calls::Brought>,
    /// What became of its flushes; `None` if there were none to make.
    flushed: Option<Result<()>>,
    flushes: Vec<Flush>,
}
