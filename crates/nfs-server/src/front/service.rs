//! What all programs of the server share, and the way from a handle and a credential to a target.

use std::net::IpAddr;
use std::sync::Arc;

use nfs_io::engine::EngineCounters;
use nfs_io::identity::ServerIdentity;
use nfs_io::{BufferPool, Creds, LocalUid, Sharer};
use parking_lot::Mutex;

use crate::exports::policy::OpenAs;
use crate::exports::{ClientRule, Export, PRIVILEGED_PORT, Refused, Versions, WireGid, WireUid};
use crate::front::first_uses::FirstUses;
use crate::front::mount3::MountList;
use crate::front::pace::Paces;
use crate::host::accounts::{self, Accounts, Answer, Question};
use crate::host::call_notes::NotedCall;
use crate::limits;
use crate::operate::audit::Audit;
use crate::operate::blocks::BlockList;
use crate::operate::calls::{Recorder, StepKind, step};
use crate::operate::counters::Counters;
use crate::operate::notices::Notices;
use crate::rpc::caller::{Caller, WireIdentity};
use crate::rpc::line::Lines;
use crate::rpc::reply_cache::ReplyCache;
use crate::rpc::standing::Standing;
use crate::state::States;
use crate::vfs::fh::Handle;
use crate::vfs::{Access, Actor, Author, Error, Result, Target, Turn, Vfs};

/// Made once at start; every shard holds it.
pub(crate) struct Service {
    pub(crate) vfs: Arc<Vfs>,
    pub(crate) replies: Arc<ReplyCache>,
    /// Buffers that WRITE payloads are received into.
    pub(crate) receive_buffers: BufferPool,
    pub(crate) counters: Counters,
    pub(crate) audit: Audit,
    /// What single calls do.
    pub(crate) calls: Arc<Recorder>,
    /// When clients with a rate may go on.
    pub(crate) paces: Paces,
    /// Which lines about peers go to the log.
    pub(crate) notices: Mutex<Notices>,
    pub(crate) first_uses: Mutex<FirstUses>,
    /// What the rings of the shards count, where they have rings.
    pub(crate) rings: Mutex<Vec<Arc<EngineCounters>>>,
    /// The hosts that the administrator shut out.
    pub(crate) blocked: BlockList,
    pub(crate) mounts: MountList,
    /// Versions of NFS that are answered.
    pub(crate) versions: Versions,
    /// The state of NFSv4's clients, if a minor version of it is among them.
    pub(crate) states: Option<Arc<States>>,
    /// The connections over which clients may be called.
    pub(crate) lines: Arc<Lines>,
    /// What the machine's user database says.
    pub(crate) accounts: Arc<Accounts>,
    /// Use the server's own group list of a uid instead of the one in AUTH_SYS.
    pub(crate) server_groups: bool,
    /// The domain of names that stand for users and groups in NFSv4; without it they are numbers.
    pub(crate) idmap_domain: Option<Arc<str>>,
}

impl Service {
    /// Whether any export's rules name this address.
    pub(crate) fn admits(&self, addr: IpAddr) -> bool {
        self.vfs.trees.load().table.admits(addr)
    }

    /// Seconds that an NFSv4 client may be silent.
    pub(crate) fn lease_seconds(&self) -> u32 {
        let states = self.states.as_ref();
        states.map_or(limits::LEASE_SECONDS_DEFAULT, |states| {
            states.lease_seconds()
        })
    }

    /// Finds a handle's object and decides who the caller is there.
    ///
    /// # Errors
    /// [`Error::BadHandle`], [`Error::Stale`], or the refusal of the export's rules.
    pub(crate) async fn target(
        &self,
        caller: &Caller,
        handle: &[u8],
        turn: &Turn,
        call_note: Option<&Arc<NotedCall>>,
    ) -> Result<Target> {
        let handle = Handle::new(handle).map_err(|_too_long| Error::BadHandle)?;
        let checking = step(StepKind::HandleCheck);
        let located = self.vfs.locate(&handle).await?;
        checking.end();
        // Before anything is opened on the client's behalf, it must be allowed on the export.
        let mut actor = match self.admit(caller, &located.tree.export).await {
            Ok(actor) => actor,
            Err(error) => {
                if let Error::Refused(why) = error {
                    self.note_refused_call(caller, &located.tree.export, why);
                }
                return Err(error);
            }
        };
        actor.call_note = call_note.cloned();
        let now = caller.call.started;
        let opened = self.vfs.open_located(located, turn, &actor, now);
        let (tree, object) = opened.await?;
        Ok(Target {
            tree,
            object,
            actor,
        })
    }

    /// Whether this is a handle of the server and the rules of its export let the caller in. It neither waits
    /// nor asks the kernel; the object may be gone all the same.
    pub(crate) fn lets_in(&self, caller: &Caller, handle: &[u8]) -> bool {
        let admits = |export: &Export| Self::rule(caller, export).is_ok();
        Handle::new(handle).is_ok_and(|handle| self.vfs.is_of_export(&handle, admits))
    }

    /// Decides whether the caller may use an export, and as which user.
    ///
    /// # Errors
    /// The refusal of the export's rules.
    pub(crate) async fn admit(&self, caller: &Caller, export: &Export) -> Result<Actor> {
        let _step = step(StepKind::ExportRules);
        let rule = Self::rule(caller, export).map_err(Error::Refused)?;
        let possible = |creds| possible(creds, rule.squash.anonymous());
        let creds = match &caller.identity {
            WireIdentity::Nobody => possible(rule.squash.anonymous().clone())?,
            WireIdentity::Sys(claimed) if !self.server_groups => {
                claimed.served_as(&rule.squash, possible)?
            }
            WireIdentity::Sys(claimed) => {
                let gids = self.own_groups(caller, claimed.uid).await?;
                let (uid, gid) = (WireUid(claimed.uid), WireGid(claimed.gid));
                possible(rule.squash.creds(uid, gid, &gids))?
            }
            WireIdentity::Own(LocalUid(uid)) => {
                let gids = self.own_groups(caller, *uid).await?;
                // The primary group is the first. Whom the user database does not know has none.
                let nobody = rule.squash.anonymous().gid().0;
                let gid = gids.first().copied().unwrap_or(nobody);
                possible(rule.squash.creds(WireUid(*uid), WireGid(gid), &gids))?
            }
        };
        Ok(Actor {
            creds,
            writable: rule.is_writable(),
            // NFSv3 has no open: whoever opened a file before a chmod goes on with it (RFC 1813 §4.4).
            owner_goes_on: true,
            opened_for: Access::NONE,
            open: OpenAs::default(),
            allowance: rule.allowance.clone(),
            author: Author(caller.client.number()),
            call: caller.call,
            call_note: None,
        })
    }

    /// The rule of the export that holds for the caller.
    ///
    /// # Errors
    /// Why the caller may not use the export.
    pub(super) fn rule<'e>(
        caller: &Caller,
        export: &'e Export,
    ) -> core::result::Result<&'e ClientRule, Refused> {
        if caller.standing == Standing::Barred {
            return Err(Refused::LocalBarred);
        }
        let port = if caller.standing.is_known() {
            PRIVILEGED_PORT
        } else {
            caller.port
        };
        export.rule_for(caller.addr, port, caller.version)
    }

    /// The groups of a user as this machine's user database has them, the primary one first; none for
    /// whom it does not know.
    async fn own_groups(&self, caller: &Caller, uid: u32) -> Result<Arc<[u32]>> {
        let question = Question::Groups(uid);
        if let Some(Answer::Groups(gids)) = self.accounts.recall(&question) {
            return Ok(gids);
        }
        let asked = [question];
        // Late or not: what is known by now counts.
        let _late = self.learn(caller, &asked).await;
        match asked
            .first()
            .and_then(|question| self.accounts.recall(question))
        {
            Some(Answer::Groups(gids)) => Ok(gids),
            Some(Answer::Unknown) => Ok(Arc::default()),
            _ => Err(Error::Busy),
        }
    }

    /// Sees to it that the answers of the user database are known, as far as they come in time.
    pub(crate) async fn learn(
        &self,
        caller: &Caller,
        questions: &[Question],
    ) -> core::result::Result<(), accounts::Late> {
        let by = (caller.queue(accounts::LANE), Sharer::of(caller.addr));
        self.accounts.learn(&self.vfs.pool, by, questions).await
    }
}

/// The identity nearest to `creds` that this server can act as. A server that cannot take on identities acts
/// as itself for everybody, as it said at start. In a user namespace, users that it does not know become the
/// anonymous user.
///
/// # Errors
/// The refusal where the anonymous user is not known either.
fn possible(creds: Creds, anonymous: &Creds) -> Result<Creds> {
    let own = ServerIdentity::current();
    if !own.can_switch() {
        return Ok(own.creds().clone());
    }
    own.known(creds, anonymous)
        .ok_or(Error::Refused(Refused::NoIdentity))
}
