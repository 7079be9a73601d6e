//! What every program of the server is called with: who calls, over which connection, and the way to the files.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs_io::engine::Engine;
use nfs_io::{FutureBoxes, Mode};
use nfs_wire::nfs3::Procedure;
use tokio::sync::Notify;

use crate::front::pace::Metered;
use crate::front::service::Service;
use crate::host::call_notes::NotedCall;
use crate::operate::call_counters::{Called, Ended};
use crate::operate::calls::{self, StepKind, step};
use crate::operate::counters::count;
use crate::rpc::caller::Caller;
use crate::rpc::client_id::Peer;
use crate::rpc::reply_cache::Origin;
use crate::vfs::{Attributes, Error, ReadDone, Result, Step, Target, Trees, Turn, Vfs};

/// All that a procedure or operation needs besides its arguments.
pub(crate) struct Context {
    pub(crate) service: Arc<Service>,
    pub(crate) engine: Engine,
    /// Where a COMPOUND is put while it is carried out.
    pub(crate) compound_boxes: FutureBoxes,
    /// The client at the other end of the connection that the call came over.
    pub(crate) peer: Rc<Peer>,
    pub(crate) caller: Caller,
    /// When all of the call was read, in ticks of the steps' clock.
    pub(crate) received: u64,
    /// The connection that the call came over.
    pub(crate) origin: Arc<Origin>,
    /// So many calls are in flight that this one must not wait for another run of itself.
    pub(crate) crowded: bool,
    /// The id of the export whose rules let the caller in last.
    pub(crate) export: Cell<Option<u32>>,
    /// The I/O mode that was decided for the READ or WRITE, once that went well.
    pub(crate) mode: Cell<Option<Mode>>,
    /// The call is a COMPOUND whose operations change nothing: they may share a look at attributes.
    pub(crate) shares_looks: bool,
    /// Where the call notes what it changes, if it must not run twice.
    pub(crate) call_note: Option<Arc<NotedCall>>,
    pub(crate) turn: Turn,
    /// Tells that the connection has gone, over which the reply would be sent.
    pub(crate) gone: Rc<Notify>,
}

impl Context {
    pub(crate) fn vfs(&self) -> &Arc<Vfs> {
        &self.service.vfs
    }

    /// The object of a handle, whatever front gave it out, and who wants something of it.
    ///
    /// # Errors
    /// Those of [`Service::target`].
    pub(super) async fn target(&self, handle: &impl AsRef<[u8]>) -> Result<Target> {
        let _step = step(StepKind::Target);
        let (caller, note) = (&self.caller, self.call_note.as_ref());
        let target = self
            .service
            .target(caller, handle.as_ref(), &self.turn, note);
        let target = target.await?;
        self.was_let_in(&target);
        let allowance = target.actor.allowance.as_deref();
        if let Some(rate) = allowance.and_then(|allowance| allowance.calls_per_second) {
            self.pay(&target, (Metered::Calls, 1), rate);
        }
        Ok(target)
    }

    /// The root of an export, for a client that comes to it by its path.
    ///
    /// # Errors
    /// [`Error::Stale`] where the export is served no more, the refusal of its rules, and
    /// what keeps its root from being opened.
    pub(super) async fn export_root(&self, trees: &Trees, export: u32) -> Result<Target> {
        let tree = trees.by_id(export).ok_or(Error::Stale)?;
        // Before anything is looked at on the client's behalf.
        let mut actor = self.service.admit(&self.caller, &tree.export).await?;
        actor.call_note = self.call_note.clone();
        let object = match tree.root() {
            Some(root) => root,
            None => {
                let (vfs, tree) = (Arc::clone(self.vfs()), Arc::clone(tree));
                let queue = self.caller.queue(tree.root_mount().lane());
                self.vfs()
                    .blocking(queue, move || vfs.root(&tree))
                    .await??
            }
        };
        let target = Target {
            tree: Arc::clone(tree),
            object,
            actor,
        };
        self.was_let_in(&target);
        Ok(target)
    }

    /// The attributes of an object for an operation of a COMPOUND. Where none of its operations changes anything they
    /// are from no sooner than the call came, and a look is shared with calls that came together with it; else they are
    /// of now, since an operation before may have changed them.
    ///
    /// # Errors
    /// As [`Vfs::attributes`].
    pub(super) async fn attributes(&self, target: &Target) -> Result<Attributes> {
        if self.shares_looks {
            self.vfs().attributes_since_call(target).await
        } else {
            self.vfs().attributes(target).await
        }
    }

    /// Reads up to so many bytes from an offset on, for an operation of a COMPOUND.
    ///
    /// # Errors
    /// As [`Vfs::read`].
    pub(super) fn read(
        &self,
        target: &Target,
        range: (u64, usize),
    ) -> impl Future<Output = Result<ReadDone>> {
        let vfs = self.vfs();
        vfs.read(&self.engine, target, range, self.shares_looks)
    }

    /// What a step from a directory leads to, for an operation of a COMPOUND.
    ///
    /// # Errors
    /// As [`Vfs::lookup_in`].
    pub(super) async fn lookup(&self, directory: &Target, step: Step<'_>) -> Result<Target> {
        let attributes = self.attributes(directory).await?;
        let found = self.vfs().lookup_in(directory, &attributes, step).await?;
        let (object, _) = found;
        Ok(directory.with_object(object))
    }

    /// The rules of an export let the caller in.
    fn was_let_in(&self, target: &Target) {
        let export = &target.tree.export;
        self.export.set(Some(export.id));
        let object = &target.object;
        calls::of_file(export.id, (object.dev, object.ino), object.handle.as_ref());
        if self.peer.is_new_use(export.id, &target.tree.calls) {
            self.service.note_use(&self.caller, export);
        }
        self.peer.set_weight(target.actor.weight());
    }

    /// Counts bytes that are to be moved, where the client may have no more than some a second.
    pub(super) fn meter(&self, target: &Target, bytes: usize) {
        let allowance = target.actor.allowance.as_deref();
        if let Some(rate) = allowance.and_then(|allowance| allowance.bytes_per_second) {
            self.pay(target, (Metered::Bytes, bytes as u64), rate);
        }
    }

    fn pay(&self, target: &Target, (metered, amount): (Metered, u64), per_second: u64) {
        let account = (target.tree.export.id, target.sharer().key, metered);
        let now = Instant::now();
        let paces = &self.service.paces;
        if let Some(resume) = paces.spend(account, amount, per_second, now) {
            count(&self.service.counters.paused);
            self.peer.pause_until(resume);
        }
    }

    /// Did an export's rules let the caller in? Otherwise the call has changed nothing.
    pub(crate) fn was_admitted(&self) -> bool {
        self.export.get().is_some()
    }

    /// Counts a call of NFSv3, for the export that it was about.
    pub(crate) fn count_call(&self, procedure: Procedure, error: Option<&'static str>) {
        // One reading of the clock for the figures and the flight recorder.
        let took = calls::nanoseconds(self.received, calls::answered_now());
        let took = Duration::from_nanos(took);
        let called = Called::V3(procedure);
        let ended = Ended {
            called,
            mode: self.mode.get(),
            error,
            took,
        };
        let counters = &self.service.counters;
        counters.called(called, took);
        let export = self.export.get();
        if !export.is_some_and(|export| self.peer.count(export, &ended)) {
            counters.no_export.record(&ended);
        }
    }
}

/// The bytes that a COMMIT is about: a count of 0 means all from its offset to the end of the file (RFC 1813 §3.3.21,
/// RFC 8881 §18.3.3).
pub(crate) fn committed_range(offset: u64, count: u32) -> Range<u64> {
    let end = match count {
        0 => u64::MAX,
        count => offset.saturating_add(count.into()),
    };
    offset..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exports::config::{Config, ExportConfig, ServerConfig};
    use crate::fuzzing::Dispatch;
    use crate::host::state_dir::StateDir;
    use crate::vfs::EntryName;

    /// A program of the host changes the file between two operations of a COMPOUND.
    #[test]
    fn a_look_is_shared_where_nothing_changes_and_by_no_call_that_comes_later() {
        let scratch = tempfile::tempdir().unwrap();
        let files = scratch.path().join("files");
        std::fs::create_dir(&files).unwrap();
        let write = |bytes: &str| std::fs::write(files.join("file"), bytes).unwrap();
        write("3 B");
        let state_dir = StateDir::open(&scratch.path().join("state")).unwrap();
        let exports = vec![ExportConfig::new(&files, "/")];
        let config = Config::from_flags(ServerConfig::default(), exports);
        let dispatch = Dispatch::new(&config, state_dir).unwrap();
        dispatch.runtime.block_on(async {
            let file_of = async |cx: &Context| {
                let trees = cx.vfs().trees.load_full();
                let export = &trees.table.exports()[0];
                let root = cx.export_root(&trees, export.id).await.unwrap();
                let name = Step::Entry(EntryName::new(b"file").unwrap());
                cx.lookup(&root, name).await.unwrap()
            };
            let size = async |cx: &Context, file: &Target| {
                let attributes = cx.attributes(file).await.unwrap();
                attributes.stat.size
            };
            // What a READ tells of the file's length, and how much it gives.
            let read = async |cx: &Context, file: &Target| {
                let done = cx.read(file, (0, 100)).await.unwrap();
                assert!(done.eof);
                (done.attributes.stat.size, done.data.len())
            };
            let mut changes_nothing = dispatch.context();
            changes_nothing.shares_looks = true;
            let file = file_of(&changes_nothing).await;
            assert_eq!(size(&changes_nothing, &file).await, 3);
            write("5 B..");
            assert_eq!(size(&changes_nothing, &file).await, 3);
            assert_eq!(read(&changes_nothing, &file).await, (3, 3));
            let changes = dispatch.context();
            assert!(!changes.shares_looks);
            assert_eq!(size(&changes, &file).await, 5, "of now");
            assert_eq!(read(&changes, &file).await, (5, 5), "of now");
            let mut later = dispatch.context();
            later.shares_looks = true;
            let file = file_of(&later).await;
            assert_eq!(size(&later, &file).await, 5, "it came after the look");
            assert_eq!(read(&later, &file).await, (5, 5));
        });
    }
}
