//! What all shards share, and how a call's handle and credentials become something to act on.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use nfs_io::identity::ServerIdentity;
use nfs_io::{BufferPool, Creds, Errno, Lane, LocalUid, Pool};
use nfs_wire::nfs3::FileHandle;

use crate::exports::policy::{Choice, Io};
use crate::exports::{ClientRule, ExportTable, PRIVILEGED_PORT, WireGid, WireUid};
use crate::host::groups::GroupLists;
use crate::limits;
use crate::operate::counters::Counters;
use crate::operate::trace::{About, CallId, Trace};
use crate::rpc::call_notes::NotedCall;
use crate::rpc::client_id::ClientId;
use crate::rpc::reply_cache::ReplyCache;
use crate::rpc::standing::Standing;
use crate::vfs::fh::{HandleError, HandleKey};
use crate::vfs::file_cache::FileCache;
use crate::vfs::gate::Gates;
use crate::vfs::handle_table::HandleTable;
use crate::vfs::hints::Hints;
use crate::vfs::stable::{Committer, Verifier};
use crate::vfs::{Error, Object, Result, Tree, Turn, Writers};

/// Made once at start; every shard and helper thread holds it.
pub(crate) struct Core {
    pub(crate) trees: ArcSwap<Trees>,
    pub(crate) files: FileCache,
    pub(crate) writers: Writers,
    pub(crate) replies: Arc<ReplyCache>,
    pub(crate) key: HandleKey,
    /// Opened with the first export for which the kernel's handles are not to be had.
    pub(crate) table: OnceLock<HandleTable>,
    /// Where the handle table is kept.
    pub(crate) table_path: PathBuf,
    pub(crate) pool: Pool,
    /// Buffers that WRITE payloads are received into.
    pub(crate) receive_buffers: BufferPool,
    /// Buffers that READ payloads are sent from.
    pub(crate) send_buffers: BufferPool,
    pub(crate) verifier: Arc<Verifier>,
    pub(crate) hints: Hints,
    pub(crate) committer: Arc<Committer>,
    pub(crate) gates: Gates,
    pub(crate) counters: Counters,
    pub(crate) trace: Arc<Trace>,
    pub(crate) groups: Arc<GroupLists>,
    /// Use the server's own group list of a uid instead of the one in AUTH_SYS.
    pub(crate) server_groups: bool,
    /// The largest READ and WRITE, in bytes.
    pub(crate) io_bytes_max: u32,
    pub(crate) mounts: crate::front::mount3::MountList,
    pub(crate) clients: crate::net::clients::Clients,
}

/// The exports and their trees, swapped as one on reload.
pub(crate) struct Trees {
    pub(crate) table: Arc<ExportTable>,
    by_id: HashMap<u32, Arc<Tree>>,
}

impl Trees {
    /// Opens the root of every export; those that `old` serves already from the same directory keep
    /// what is known of it.
    ///
    /// # Errors
    /// The first export whose directory cannot be opened, with the reason.
    pub(crate) fn open(
        table: Arc<ExportTable>,
        old: Option<&Self>,
    ) -> core::result::Result<Self, String> {
        let mut by_id = HashMap::new();
        for export in table.exports() {
            let before = old.and_then(|old| old.by_id(export.id));
            let tree = Tree::open(Arc::clone(export), before.map(AsRef::as_ref))
                .map_err(|error| format!("{} cannot be served: {error}", export.path.display()))?;
            let tree = Arc::new(tree);
            by_id.insert(export.id, tree);
        }
        Ok(Self { table, by_id })
    }

    /// Does any export need the handle table?
    pub(crate) fn need_table(&self) -> bool {
        self.by_id.values().any(|tree| tree.is_by_table())
    }

    /// Retires what is served by this and no more by `next`.
    fn retire_all_but(&self, next: &Self) {
        for (id, tree) in &self.by_id {
            let kept = next.by_id(*id).is_some_and(|next| next.shares_place(tree));
            if !kept {
                tree.retire();
            }
        }
    }

    pub(crate) fn by_id(&self, id: u32) -> Option<&Arc<Tree>> {
        self.by_id.get(&id)
    }
}

/// Who makes a call, as the wire says; nothing of it is believed beyond what the export's rules allow.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) addr: IpAddr,
    pub(crate) port: u16,
    /// What the connection is believed.
    pub(crate) standing: Standing,
    /// Whose changes and errors this call's are, as its credential says.
    pub(crate) client: ClientId,
    pub(crate) identity: WireIdentity,
    pub(crate) call: CallId,
}

/// What the credential of a call says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WireIdentity {
    /// AUTH_NONE: served as the anonymous user.
    Nobody,
    /// AUTH_SYS.
    Sys { uid: u32, gid: u32, gids: Vec<u32> },
    /// A user of this machine, as the kernel says and not the credential. Its groups are those of this
    /// machine's user database.
    Own(LocalUid),
}

/// An object, who wants something of it, and whether they may change anything.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) tree: Arc<Tree>,
    pub(crate) object: Arc<Object>,
    pub(crate) creds: Creds,
    pub(crate) writable: bool,
    pub(crate) client: ClientId,
    pub(crate) call: CallId,
    /// Where the call notes what it changes.
    pub(crate) call_note: Option<Arc<NotedCall>>,
}

impl Caller {
    /// What trace events of this call are about, where it names `file`.
    pub(crate) const fn about<'a>(&'a self, file: &'a FileHandle) -> About<'a> {
        About {
            call: &self.call,
            file,
        }
    }
}

impl Target {
    /// How an operation of `bytes` (as asked for) is to be moved, by the policy that holds now.
    pub(crate) fn choose(&self, io: Io, bytes: u64) -> Choice {
        let policy = self.tree.export.io.now();
        if policy.uses_names() {
            let name = self.object.name();
            policy.choose(io, bytes, self.call.client.ip(), name.as_deref())
        } else {
            policy.choose(io, bytes, self.call.client.ip(), None)
        }
    }

    /// What trace events of this call are about.
    pub(crate) fn about(&self) -> About<'_> {
        About {
            call: &self.call,
            file: &self.object.handle,
        }
    }

    pub(crate) fn lane(&self) -> Lane {
        self.object.mount.lane()
    }

    /// # Errors
    /// [`Error::ReadOnly`] when this client may only read.
    pub(crate) fn must_be_writable(&self) -> Result<()> {
        if self.writable {
            Ok(())
        } else {
            Err(Error::ReadOnly)
        }
    }

    /// The same caller on another object of the same tree.
    pub(crate) fn with_object(&self, object: Arc<Object>) -> Self {
        Self {
            object,
            ..self.clone()
        }
    }
}

impl Core {
    /// Finds a handle's object and decides who the caller is there.
    ///
    /// # Errors
    /// BADHANDLE, STALE, or the refusal of the export's rules.
    pub(crate) async fn target(
        self: &Arc<Self>,
        caller: &Caller,
        handle: &FileHandle,
        turn: &Turn,
    ) -> Result<Target> {
        if let Some(object) = self.files.by_handle(handle) {
            if !object.mount.is_retired() {
                let tree = self.tree(object.export_id())?;
                self.take_turn(turn, &tree).await?;
                self.check_place(&tree, &object, caller.call.started)
                    .await?;
                return self.admit(caller, tree, object).await;
            }
            self.put_out(object).await?;
        }
        let trees = self.trees.load_full();
        let place_of = |export| Some(*trees.by_id(export)?.mark());
        let parts = self
            .key
            .open(handle, place_of)
            .map_err(|error| match error {
                HandleError::Malformed => Error::BadHandle,
                HandleError::NoExport | HandleError::Forged | HandleError::Outdated => Error::Stale,
            })?;
        let tree = trees.by_id(parts.export).cloned().ok_or(Error::Stale)?;
        // Before anything is opened on the client's behalf, it must be allowed on the export.
        self.rule(caller, &tree)?;
        self.take_turn(turn, &tree).await?;
        let object = self.open_handle(&tree, *handle, parts).await?;
        self.admit(caller, tree, object).await
    }

    /// Puts an object out of the cache whose export is served no more, or from another directory.
    async fn put_out(self: &Arc<Self>, object: Arc<Object>) -> Result<()> {
        if object.has_unstable() {
            let (core, dirty) = (Arc::clone(self), Arc::clone(&object));
            self.blocking(object.mount.lane(), move || core.sync_before_close(&dirty))
                .await?;
        }
        self.files.remove(&object);
        Ok(())
    }

    /// Serves other trees from now on.
    ///
    /// # Errors
    /// When a handle table is needed for them and cannot be opened; then nothing has changed.
    pub(crate) fn serve(&self, next: Trees) -> core::result::Result<(), String> {
        self.open_table_for(&next)?;
        // First, so that no call meets a new tree with an object of the old.
        self.trees.load().retire_all_but(&next);
        self.trace
            .set_exports(next.table.exports().iter().map(AsRef::as_ref));
        self.trees.store(Arc::new(next));
        Ok(())
    }

    /// Opens the handle table if one of the trees needs it.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(crate) fn open_table_for(&self, trees: &Trees) -> core::result::Result<(), String> {
        if !trees.need_table() || self.table.get().is_some() {
            return Ok(());
        }
        let path = &self.table_path;
        let table = HandleTable::open(path, limits::HANDLE_TABLE_OBJECTS_MAX)
            .map_err(|error| format!("the handle table {}: {error}", path.display()))?;
        self.table.get_or_init(|| table);
        Ok(())
    }

    /// The caller on an object that was found otherwise (MOUNT's walk).
    ///
    /// # Errors
    /// The refusal of the export's rules.
    pub(crate) async fn admit(
        &self,
        caller: &Caller,
        tree: Arc<Tree>,
        object: Arc<Object>,
    ) -> Result<Target> {
        let rule = self.rule(caller, &tree)?;
        let creds = match &caller.identity {
            WireIdentity::Nobody => rule.squash.anonymous().clone(),
            WireIdentity::Sys { uid, gid, gids } if !self.server_groups => {
                rule.squash.creds(WireUid(*uid), WireGid(*gid), gids)
            }
            WireIdentity::Sys { uid, gid, .. } => {
                let gids = self.own_groups(*uid).await?;
                rule.squash.creds(WireUid(*uid), WireGid(*gid), &gids)
            }
            WireIdentity::Own(LocalUid(uid)) => {
                let gids = self.own_groups(*uid).await?;
                // The primary group is the first. Whom the user database does not know has none.
                let nobody = rule.squash.anonymous().gid().0;
                let gid = gids.first().copied().unwrap_or(nobody);
                rule.squash.creds(WireUid(*uid), WireGid(gid), &gids)
            }
        };
        let creds = possible(creds, rule.squash.anonymous())?;
        let writable = rule.is_writable();
        Ok(Target {
            tree,
            object,
            creds,
            writable,
            client: caller.client,
            call: caller.call,
            call_note: None,
        })
    }

    /// The groups of a user as this machine's user database has them, the primary one first; none for
    /// whom it does not know.
    async fn own_groups(&self, uid: u32) -> Result<Vec<u32>> {
        if let Some(gids) = self.groups.recent(uid) {
            return Ok(gids);
        }
        let groups = Arc::clone(&self.groups);
        // A lane of its own: no file system has this number.
        self.blocking(Lane(u64::MAX), move || groups.ask(uid)).await
    }

    fn rule<'t>(&self, caller: &Caller, tree: &'t Tree) -> Result<&'t ClientRule> {
        if caller.standing == Standing::Barred {
            return Err(Error::NotExported);
        }
        let port = if caller.standing.is_known() {
            PRIVILEGED_PORT
        } else {
            caller.port
        };
        tree.export
            .client_rule(caller.addr, port)
            .map_err(|_refused| Error::NotExported)
    }

    fn tree(&self, export: u32) -> Result<Arc<Tree>> {
        self.trees.load().by_id(export).cloned().ok_or(Error::Stale)
    }

    /// Runs what may wait for a disk or a peer on the helper pool.
    ///
    /// # Errors
    /// [`Error::Busy`] when too much waits for that file system already.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.pool.run(lane, work).await.map_err(|_full| Error::Busy)
    }
}

/// The nearest to `creds` that this server can act as. One that cannot take on identities acts as itself for
/// everybody, as it said at start; in a user namespace whom it does not know is the anonymous user.
///
/// # Errors
/// `EACCES` where the anonymous user is not known either.
fn possible(creds: Creds, anonymous: &Creds) -> Result<Creds> {
    let own = ServerIdentity::current();
    if !own.can_switch() {
        return Ok(own.creds().clone());
    }
    own.known(creds, anonymous)
        .ok_or(Error::Errno(Errno::ACCESS))
}
