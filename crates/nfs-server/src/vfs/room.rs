//! What is done when descriptors are few.
//!
//! A file with data that is not on stable storage cannot leave the file cache. So when the budget is used up,
//! whoever is about to open one more descriptor puts such a file on stable storage first, on its own helper
//! thread: many do so at once, and files are written no faster than they can be synced. And a call that may
//! have descriptors opened has a turn of its export, of which there are as many as the budget serves: else
//! a crowd of calls would hold one descriptor each, and none could get its second.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nfs_io::turns::Rule;
use nfs_io::{Lane, Queue, Share, Sharer, Shares};

use super::{Error, Result, Tree};
use crate::limits;
use crate::operate::calls::{StepKind, step};
use crate::operate::counters::count;
use crate::vfs::Vfs;
use crate::vfs::file_cache::{Cursor, Leaving};

/// A call's turn with descriptors; given back when the call is over.
#[derive(Default)]
pub(crate) struct Turn(OnceCell<Share>);

/// The turns of one export: how many of its calls may have descriptors opened at once. `None` where that is
/// more than there ever are.
pub(super) fn turns(fds_max: usize) -> Option<Shares> {
    let turns = fds_max / limits::DESCRIPTORS_PER_CALL / limits::TURNS_PER_EXPORT_DIVISOR;
    let rule = Rule::TimesFree(limits::TIMES_FREE_PER_MOUNT_MAX);
    (turns < limits::IN_FLIGHT_PER_SHARD_MAX).then(|| Shares::new(turns.max(1) as u64, rule))
}

impl Vfs {
    /// Waits until the client's call may have descriptors opened for files of this export.
    ///
    /// # Errors
    /// [`Error::Busy`] when the file system seems to have stopped: the call may hold memory meanwhile.
    pub(crate) async fn take_turn(&self, turn: &Turn, tree: &Tree, client: Sharer) -> Result<()> {
        let Some(turns) = tree.turns(self.files.fds_max()) else {
            return Ok(());
        };
        // One for each call: who waited for a second might wait for one that waits for the first.
        if turn.0.get().is_some() {
            return Ok(());
        }
        let taken = if let Some(taken) = turns.try_take(client, 1) {
            taken
        } else {
            let _waiting = step(StepKind::Descriptors);
            let patience = Duration::from_secs(limits::WRITE_WAITS_SECONDS_MAX);
            let waiting = tokio::time::timeout(patience, turns.take(client, 1));
            waiting.await.map_err(|_elapsed| Error::Busy)?
        };
        turn.0.get_or_init(|| taken);
        Ok(())
    }

    /// Runs what opens a descriptor on the helper pool, and makes room for it there.
    ///
    /// # Errors
    /// [`Error::Busy`] when too much of this client waits for that file system already: then nothing was done.
    pub(super) async fn opening<T: Send + 'static>(
        self: &Arc<Self>,
        queue: Queue,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let vfs = Arc::clone(self);
        self.blocking(queue, move || {
            vfs.make_room_if_full(queue.lane);
            work()
        })
        .await
    }

    /// For a helper thread of this lane that is about to open a descriptor.
    pub(super) fn make_room_if_full(self: &Arc<Self>, lane: Lane) {
        if self.files.is_full() {
            let _step = step(StepKind::MakeRoom);
            self.make_room(lane);
        }
    }

    /// Puts files out of the cache until a descriptor is free, or nothing more can be done about it. For a
    /// helper thread of this lane: files of its own file system are synced, where that needs be, by itself.
    fn make_room(self: &Arc<Self>, lane: Lane) {
        for _ in 0..limits::EVICTIONS_PER_INSERT_MAX {
            if !self.files.is_full() {
                return;
            }
            let mut leaving = Leaving::default();
            self.files.find_room(&mut leaving);
            if leaving.is_empty() {
                break;
            }
            let (own, others): (Vec<_>, Vec<_>) = std::mem::take(&mut leaving.to_sync)
                .into_iter()
                .partition(|object| object.mount.lane() == lane);
            leaving.to_sync = others;
            self.let_go(leaving);
            for object in own {
                self.make_ready_to_leave(&object);
                object.cleaning.store(false, Ordering::Relaxed);
                object.io.close_spare();
                drop(object.take_writing());
                count(&self.counters.synced_for_room);
                self.files.say_that_it_is_full();
            }
        }
        if self.files.is_full() {
            self.files.say_that_it_is_full();
        }
    }

    /// Lets objects go whose last name went on the server's own host: their space is not free while one of our
    /// descriptors is open. Looks at some of them; `cursor` keeps where it got to.
    pub(crate) fn let_removed_go(&self, cursor: &mut Cursor) {
        for object in self.files.some(cursor, limits::OBJECTS_PER_SWEEP_MAX) {
            // Elsewhere a statx may hang.
            if object.mount.local && object.stat() == Err(Error::Stale) {
                self.files.remove(&object);
                count(&self.counters.removed_locally);
                // To free the space of a long file takes time.
                drop(self.pool.submit(object.mount.lane(), object, drop));
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs::File;
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::path::Path;

    use nfs_io::{Budget, PoolLimits, fs};

    use super::*;
    use crate::exports::ExportTable;
    use crate::exports::config::{Config, ExportConfig, ServerConfig};
    use crate::vfs::fh::{HandleBody, HandleParts, MountKey};
    use crate::vfs::handle_table::TableId;
    use crate::vfs::{Object, Resources};

    /// The files of `directory`, which nothing but a test looks through.
    pub(in crate::vfs) fn over(
        directory: &tempfile::TempDir,
        state: &tempfile::TempDir,
    ) -> Arc<Vfs> {
        let exports = vec![ExportConfig::new(directory.path(), "/")];
        let config = Config::from_flags(ServerConfig::default(), exports);
        let resources = Resources {
            pool: PoolLimits::default(),
            ring: false,
            fds_max: 1 << 20,
            write_budget: Budget::new(16 << 20),
            read_budget: Budget::new(16 << 20),
        };
        let exports = ExportTable::new(&config).unwrap();
        Arc::new(Vfs::open(state.path(), exports, resources).unwrap())
    }

    /// A new file, which gets this number in its handle.
    pub(in crate::vfs) fn new_file(vfs: &Arc<Vfs>, path: &Path, number: u64) -> Arc<Object> {
        let trees = vfs.trees.load_full();
        let export = trees.table.exports()[0].id;
        let tree = trees.by_id(export).unwrap();
        let file = OwnedFd::from(File::create_new(path).unwrap());
        let body = HandleBody::Table(TableId { number, nonce: 0 });
        let mount = MountKey::ROOT;
        let parts = HandleParts {
            export,
            mount,
            body,
        };
        let handle = vfs.key.seal(&parts, tree.mark()).unwrap();
        let stat = fs::statx(file.as_fd()).unwrap();
        vfs.insert(handle, tree.root_mount(), file, &stat).unwrap()
    }

    #[test]
    fn more_removed_files_than_one_sweep_looks_at_go_in_several() {
        let most = limits::OBJECTS_PER_SWEEP_MAX as u64;
        // Every other one is removed, and these are more than one sweep looks at.
        let (removed, files) = (most + 500, 2 * (most + 500));
        if fs::raise_nofile(u64::MAX) < files + 1000 {
            nfs_lab::skipped("needs more descriptors than this process may have (ulimit -Hn)");
            return;
        }
        let (directory, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let vfs = over(&directory, &state);
        for number in 0..files {
            let path = directory.path().join(number.to_string());
            drop(new_file(&vfs, &path, number));
            if number % 2 == 0 {
                std::fs::remove_file(path).unwrap();
            }
        }
        assert_eq!(vfs.files.stats().objects as u64, files);
        let gone = || vfs.counters.removed_locally.load(Ordering::Relaxed);
        let mut cursor = Cursor::default();
        // Two walks through the cache: what changes places in it may be passed over by the first.
        for sweeps in 1..=2 * files.div_ceil(most) {
            vfs.let_removed_go(&mut cursor);
            assert!(gone() <= sweeps * most, "{} in {sweeps} sweeps", gone());
        }
        assert_eq!(gone(), removed);
        assert_eq!(vfs.files.stats().objects as u64, files - removed);
    }

    #[test]
    fn calls_wait_for_a_turn_only_where_descriptors_are_few() {
        let client = Sharer::of([192, 0, 2, 1].into());
        let most = |fds_max| {
            let turns = turns(fds_max)?;
            Some(
                std::iter::from_fn(|| turns.try_take(client, 1))
                    .collect::<Vec<_>>()
                    .len(),
            )
        };
        assert_eq!(most(1), Some(1), "or nobody would ever get on");
        // Of 8 and 32 turns, some stay for other clients.
        assert_eq!(most(64), Some(6));
        assert_eq!(most(256), Some(24), "of a limit of 1024");
        assert_eq!(most(1 << 19), None);
    }
}
