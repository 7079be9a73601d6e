//! What all shards share, and how a call's handle and credentials become something to act on.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use nfs_io::identity::ServerIdentity;
use nfs_io::{BufferPool, Creds, Lane, Pool};
use nfs_wire::nfs3::FileHandle;

use crate::counters::Counters;
use crate::exports::{ClientRule, ExportTable, WireGid, WireUid};
use crate::fh::HandleKey;
use crate::file_cache::FileCache;
use crate::groups::GroupLists;
use crate::handle_table::HandleTable;
use crate::reply_cache::ReplyCache;
use crate::vfs::stable::{Committer, Verifier};
use crate::vfs::{Error, Object, Result, Tree};

/// Made once at start; every shard and helper thread holds it.
pub(crate) struct Core {
    pub(crate) trees: ArcSwap<Trees>,
    pub(crate) files: FileCache,
    pub(crate) replies: Arc<ReplyCache>,
    pub(crate) key: HandleKey,
    /// Only where `open_by_handle_at` is not allowed.
    pub(crate) table: Option<HandleTable>,
    pub(crate) pool: Pool,
    /// Buffers that WRITE payloads are received into.
    pub(crate) receive_buffers: BufferPool,
    /// Buffers that READ payloads are sent from.
    pub(crate) send_buffers: BufferPool,
    pub(crate) verifier: Arc<Verifier>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) counters: Counters,
    /// Use the server's own group list of a uid instead of the one in AUTH_SYS.
    pub(crate) groups: Option<Arc<GroupLists>>,
    /// The largest READ and WRITE, in bytes.
    pub(crate) io_bytes_max: u32,
    pub(crate) mounts: crate::mount3::MountList,
    pub(crate) clients: crate::net::clients::Clients,
}

/// The exports and their trees, swapped as one on reload.
pub(crate) struct Trees {
    pub(crate) table: Arc<ExportTable>,
    by_id: HashMap<u32, Arc<Tree>>,
}

impl Trees {
    /// Opens the root of every export; those that `old` serves already with the same settings keep theirs.
    ///
    /// # Errors
    /// The first export whose directory cannot be opened, with the reason.
    pub(crate) fn open(
        table: Arc<ExportTable>,
        old: Option<&Self>,
    ) -> core::result::Result<Self, String> {
        let mut by_id = HashMap::new();
        for export in table.exports() {
            let kept = old
                .and_then(|old| old.by_id.get(&export.id))
                .filter(|tree| tree.export == *export);
            let tree = match kept {
                Some(tree) => Arc::clone(tree),
                None => Arc::new(Tree::open(Arc::clone(export)).map_err(|error| {
                    format!("{} cannot be served: {error}", export.path.display())
                })?),
            };
            by_id.insert(export.id, tree);
        }
        Ok(Self { table, by_id })
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
    /// Stands for the client in wcc_data and error bookkeeping: a hash of its address.
    pub(crate) client: u64,
    pub(crate) identity: WireIdentity,
}

/// What the credential of a call says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WireIdentity {
    /// AUTH_NONE: served as the anonymous user.
    Nobody,
    /// AUTH_SYS.
    Sys { uid: u32, gid: u32, gids: Vec<u32> },
}

/// An object, who wants something of it, and whether they may change anything.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) tree: Arc<Tree>,
    pub(crate) object: Arc<Object>,
    pub(crate) creds: Creds,
    pub(crate) writable: bool,
    pub(crate) client: u64,
}

impl Target {
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
    ) -> Result<Target> {
        if let Some(object) = self.files.by_handle(handle) {
            let tree = self.tree(object.export_id())?;
            return self.admit(caller, tree, object).await;
        }
        let parts = self.key.open(handle).map_err(|_| Error::BadHandle)?;
        let tree = self.tree(parts.export)?;
        // Before anything is opened on the client's behalf, it must be allowed on the export.
        self.rule(caller, &tree)?;
        let object = self.open_handle(&tree, *handle, parts).await?;
        self.admit(caller, tree, object).await
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
        let own_groups = self.own_groups(caller).await?;
        let rule = self.rule(caller, &tree)?;
        let creds = match &caller.identity {
            WireIdentity::Nobody => rule.squash.anonymous().clone(),
            WireIdentity::Sys { uid, gid, gids } => {
                let gids = own_groups.as_ref().unwrap_or(gids);
                rule.squash.creds(WireUid(*uid), WireGid(*gid), gids)
            }
        };
        let writable = rule.is_writable();
        Ok(Target {
            tree,
            object,
            creds: self.possible(creds),
            writable,
            client: caller.client,
        })
    }

    /// A server that cannot take on identities acts as itself for everybody, as it said at start.
    fn possible(&self, creds: Creds) -> Creds {
        let own = ServerIdentity::current();
        if own.can_switch() {
            creds
        } else {
            own.creds().clone()
        }
    }

    /// The server's own group list of the caller, where the configuration asks for it.
    async fn own_groups(&self, caller: &Caller) -> Result<Option<Vec<u32>>> {
        let (Some(groups), WireIdentity::Sys { uid, .. }) = (&self.groups, &caller.identity) else {
            return Ok(None);
        };
        if let Some(gids) = groups.recent(*uid) {
            return Ok(Some(gids));
        }
        let (groups, uid) = (Arc::clone(groups), *uid);
        // A lane of its own: no file system has this number.
        self.blocking(Lane(u64::MAX), move || groups.ask(uid))
            .await
            .map(Some)
    }

    fn rule<'t>(&self, caller: &Caller, tree: &'t Tree) -> Result<&'t ClientRule> {
        tree.export
            .client_rule(caller.addr, caller.port)
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
