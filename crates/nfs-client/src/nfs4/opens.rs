//! What a session has open: for each file and identity one open, shared by all who read and write it.
//!
//! A file is opened when the first of its bytes is moved, and closed when the last [`Hold`] of it is dropped. After
//! a restart of the server all of it is reclaimed (RFC 8881 §8.4.2) before anything else is asked of it; what the
//! server does not give back is opened once more by who uses it next.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nfs_wire::nfs4::ops::{
    CloseArgs, Createhow4, OPEN4_SHARE_ACCESS_WANT_NO_DELEG, OPEN4_SHARE_DENY_NONE, OpenArgs,
    OpenClaim4, OpenDelegationType4, Openflag4,
};
use nfs_wire::nfs4::{
    ArgOp, Clientid4, Component4, CompoundRes, FileHandle, Nfsstat4, Opaque4, Opnum, ResOp,
    StateOwner4, Stateid4,
};
use tokio::task::JoinSet;

use super::files::{getattr, node_of, putfh};
use super::session::{Beside, Ran};
use super::{Nfs4, Nfs4Error, Node4};
use crate::identity::Identity;
use crate::limits::{NFS4_OPENS_UNHELD_MAX, NFS4_REOPENS_MAX};
use crate::random;

/// What is open in one session.
#[derive(Debug, Default)]
pub(super) struct Opens {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    known: HashMap<Key, Known>,
    /// Those that were opened without a [`Hold`], oldest first; some may have got one since, or be closed.
    unheld: VecDeque<Key>,
    /// CLOSEs on their way.
    closing: JoinSet<()>,
}

/// A file, and as whom it is open.
type Key = (FileHandle, Identity);

#[derive(Debug)]
struct Known {
    open: Arc<Open>,
    holders: usize,
}

/// One file that is open, or will be.
#[derive(Debug)]
pub(super) struct Open {
    key: Key,
    owner: [u8; 8],
    /// Held while the server is asked to open or close it.
    changing: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not yet, or not any more since the server has lost it.
    Not,
    Granted {
        stateid: Stateid4,
        /// `OPEN4_SHARE_ACCESS_*` bits.
        access: u32,
    },
    /// Closed for good: another [`Open`] stands for the file by now.
    Closed,
}

/// Keeps a file open as long as somebody uses it.
#[derive(Debug)]
pub(crate) struct Hold {
    nfs: Nfs4,
    handle: FileHandle,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let key = (self.handle, self.nfs.identity.clone());
        let last = self.nfs.shared.opens.release(&key);
        if let Some(open) = last {
            self.nfs.close_later(open);
        }
    }
}

impl Nfs4 {
    /// Keeps the file open, once it is, until the last hold of it is dropped.
    pub(crate) fn hold(&self, handle: &FileHandle) -> Hold {
        let key = (*handle, self.identity.clone());
        self.shared.opens.hold(&key);
        Hold {
            nfs: self.clone(),
            handle: *handle,
        }
    }

    /// Stateids with which the file can be used for `access`, for one READ or WRITE.
    pub(super) fn opening(&self, handle: &FileHandle, access: u32) -> Opening<'_> {
        Opening {
            nfs: self,
            key: (*handle, self.identity.clone()),
            access,
            tries: 0,
            used: None,
        }
    }

    /// The stateid of a file that is open with `access`; the anonymous one of another.
    pub(crate) fn stateid_if_open(&self, handle: &FileHandle, access: u32) -> Stateid4 {
        let key = (*handle, self.identity.clone());
        let table = self.shared.opens.lock();
        let known = table.known.get(&key);
        let stateid = known.and_then(|known| known.open.granted(access));
        stateid.unwrap_or(Stateid4::ANONYMOUS)
    }

    /// Makes a regular file, or opens the one that is there, and keeps it open for who holds it next. Tells whether
    /// the call went out in more than one session.
    pub(crate) async fn create(
        &self,
        dir: &FileHandle,
        name: &[u8],
        how: Createhow4<'_>,
        access: u32,
    ) -> Result<(Result<Node4, Nfs4Error>, bool), Nfs4Error> {
        let owner = random::bytes();
        let claim = OpenClaim4::Null(Component4(name));
        let open = open(&owner, access, Openflag4::Create(how), claim);
        let ops = [putfh(dir), open, ArgOp::Getfh(()), getattr()];
        let Ran { results, anew, .. } = self
            .shared
            .run(&self.identity, &ops, Beside::Nothing)
            .await?;
        let res = results.decode()?;
        if res.status != Nfsstat4::Ok {
            return Ok((Err(results.failure(res.status)), anew));
        }
        let node = node_of(&results)?;
        let stateid = stateid_of(&res).ok_or(Nfs4Error::Unexpected(Opnum::Open))?;
        let key = (node.handle, self.identity.clone());
        let made = Arc::new(Open::new(
            key,
            owner,
            State::Granted {
                stateid: any_seqid(stateid),
                access,
            },
        ));
        for open in self.shared.opens.take_in(made) {
            self.close_later(open);
        }
        Ok((Ok(node), anew))
    }

    /// Closes all that is open, and waits for what is being closed.
    pub(super) async fn close_all(&self) {
        for open in self.shared.opens.take_all() {
            self.close_later(open);
        }
        let mut closing = std::mem::take(&mut self.shared.opens.lock().closing);
        while closing.join_next().await.is_some() {}
    }

    /// The stateid of `open` once it allows `access`; none if it was closed meanwhile.
    async fn stateid(&self, it: &Open, access: u32) -> Result<Option<Stateid4>, Nfs4Error> {
        if let Some(stateid) = it.granted(access) {
            return Ok(Some(stateid));
        }
        let _alone = it.changing.lock().await;
        let access = match it.state() {
            State::Closed => return Ok(None),
            State::Granted {
                stateid,
                access: had,
            } if had & access == access => return Ok(Some(stateid)),
            State::Granted { access: had, .. } => had | access,
            State::Not => access,
        };
        let nocreate = Openflag4::Nocreate;
        let open = open(&it.owner, access, nocreate, OpenClaim4::Fh);
        let results = self.all(&[putfh(&it.key.0), open]).await?;
        let stateid = stateid_of(&results.decode()?);
        let stateid = any_seqid(stateid.ok_or(Nfs4Error::Unexpected(Opnum::Open))?);
        *it.lock() = State::Granted { stateid, access };
        Ok(Some(stateid))
    }

    /// Has a task close what nobody uses any more. What cannot be closed ends with the client's lease.
    fn close_later(&self, open: Arc<Open>) {
        let nfs = self.clone();
        let runtime = self.connections().first().runtime().clone();
        let mut table = self.shared.opens.lock();
        while table.closing.try_join_next().is_some() {}
        let close = async move {
            let _alone = open.changing.lock().await;
            let was = std::mem::replace(&mut *open.lock(), State::Closed);
            if let State::Granted { stateid, .. } = was {
                let close = ArgOp::Close(CloseArgs {
                    seqid: 0,
                    open_stateid: stateid,
                });
                let _ends_with_the_lease = nfs.compound(&[putfh(&open.key.0), close]).await;
            }
        };
        table.closing.spawn_on(close, &runtime);
    }
}

/// What one READ or WRITE is done with: a stateid, and another one where the server has lost that.
#[derive(Debug)]
pub(super) struct Opening<'a> {
    nfs: &'a Nfs4,
    key: Key,
    access: u32,
    tries: u32,
    /// What was given out last.
    used: Option<(Arc<Open>, Stateid4)>,
}

impl Opening<'_> {
    /// A stateid to try; the file is opened if it is not.
    pub(super) async fn stateid(&mut self) -> Result<Stateid4, Nfs4Error> {
        loop {
            let (open, unheld) = self.nfs.shared.opens.find(&self.key);
            for unheld in unheld {
                self.nfs.close_later(unheld);
            }
            // None where it was closed in this moment: then another one is found.
            if let Some(stateid) = self.nfs.stateid(&open, self.access).await? {
                self.tries += 1;
                self.used = Some((open, stateid));
                return Ok(stateid);
            }
        }
    }

    /// Whether this is what came of it, and not only the loss of the stateid.
    pub(super) fn is_over<T>(&mut self, done: &Result<T, Nfs4Error>) -> bool {
        match (done, self.used.take()) {
            (Err(Nfs4Error::Status { status, .. }), Some((open, stateid)))
                if is_lost(*status) && self.tries < NFS4_REOPENS_MAX =>
            {
                open.lost(stateid);
                false
            }
            _ => true,
        }
    }
}

impl Opens {
    /// The open of a file, made known if it was not; and those that are to be closed for it.
    fn find(&self, key: &Key) -> (Arc<Open>, Vec<Arc<Open>>) {
        let mut table = self.lock();
        if let Some(known) = table.known.get(key) {
            return (known.open.clone(), Vec::new());
        }
        let open = Arc::new(Open::new(key.clone(), random::bytes(), State::Not));
        let unheld = table.add_unheld(open.clone());
        (open, unheld)
    }

    /// Takes in a file that was just made and opened; what is to be closed for it.
    fn take_in(&self, made: Arc<Open>) -> Vec<Arc<Open>> {
        let mut table = self.lock();
        match table.known.contains_key(&made.key) {
            // It was there, and is open already.
            true => vec![made],
            false => table.add_unheld(made),
        }
    }

    fn hold(&self, key: &Key) {
        let mut table = self.lock();
        let known = table.known.entry(key.clone()).or_insert_with(|| Known {
            open: Arc::new(Open::new(key.clone(), random::bytes(), State::Not)),
            holders: 0,
        });
        known.holders += 1;
    }

    /// What is to be closed now that one holder less has it.
    fn release(&self, key: &Key) -> Option<Arc<Open>> {
        let mut table = self.lock();
        let known = table.known.get_mut(key)?;
        known.holders = known.holders.saturating_sub(1);
        if known.holders > 0 {
            return None;
        }
        table.known.remove(key).map(|known| known.open)
    }

    fn take_all(&self) -> Vec<Arc<Open>> {
        let mut table = self.lock();
        table.unheld.clear();
        table.known.drain().map(|(_, known)| known.open).collect()
    }

    /// All that the server has granted.
    pub(super) fn granted(&self) -> Vec<Arc<Open>> {
        let table = self.lock();
        let opens = table.known.values().map(|known| known.open.clone());
        opens
            .filter(|open| matches!(open.state(), State::Granted { .. }))
            .collect()
    }

    /// Nothing is left half-done where a panic could be.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Makes an open known that nobody holds; those that have waited longest for a holder are to be closed.
    fn add_unheld(&mut self, open: Arc<Open>) -> Vec<Arc<Open>> {
        self.unheld.push_back(open.key.clone());
        let holders = 0;
        self.known.insert(open.key.clone(), Known { open, holders });
        let mut over = Vec::new();
        while self.unheld.len() > NFS4_OPENS_UNHELD_MAX {
            let Some(key) = self.unheld.pop_front() else {
                break;
            };
            if self.known.get(&key).is_some_and(|known| known.holders == 0) {
                over.extend(self.known.remove(&key).map(|known| known.open));
            }
        }
        over
    }
}

impl Open {
    fn new(key: Key, owner: [u8; 8], state: State) -> Self {
        Self {
            key,
            owner,
            changing: tokio::sync::Mutex::default(),
            state: Mutex::new(state),
        }
    }

    /// As whom it is open.
    pub(super) fn identity(&self) -> &Identity {
        &self.key.1
    }

    /// The operations that reclaim it after a restart of the server; none if it is not open.
    pub(super) fn reclaim(&self) -> Option<[ArgOp<'_>; 2]> {
        let State::Granted { access, .. } = self.state() else {
            return None;
        };
        let claim = OpenClaim4::Previous(OpenDelegationType4::None);
        let open = open(&self.owner, access, Openflag4::Nocreate, claim);
        Some([putfh(&self.key.0), open])
    }

    /// Takes note of what the server said to [`Self::reclaim`].
    pub(super) fn reclaimed(&self, res: &CompoundRes<'_>) {
        let mut state = self.lock();
        *state = match (*state, stateid_of(res)) {
            (State::Granted { access, .. }, Some(stateid)) if res.status == Nfsstat4::Ok => {
                State::Granted {
                    stateid: any_seqid(stateid),
                    access,
                }
            }
            (State::Granted { .. } | State::Not, _) => State::Not,
            (State::Closed, _) => State::Closed,
        };
    }

    /// The server does not know this stateid any more.
    fn lost(&self, gone: Stateid4) {
        let mut state = self.lock();
        if matches!(*state, State::Granted { stateid, .. } if stateid == gone) {
            *state = State::Not;
        }
    }

    fn granted(&self, wanted: u32) -> Option<Stateid4> {
        match self.state() {
            State::Granted { stateid, access } if access & wanted == wanted => Some(stateid),
            State::Granted { .. } | State::Not | State::Closed => None,
        }
    }

    fn state(&self) -> State {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open<'a>(
    owner: &'a [u8],
    access: u32,
    openhow: Openflag4<'a>,
    claim: OpenClaim4<'a>,
) -> ArgOp<'a> {
    ArgOp::Open(OpenArgs {
        seqid: 0,
        share_access: access | OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
        share_deny: OPEN4_SHARE_DENY_NONE,
        owner: StateOwner4 {
            clientid: Clientid4::default(),
            owner: Opaque4(owner),
        },
        openhow,
        claim,
    })
}

fn stateid_of(res: &CompoundRes<'_>) -> Option<Stateid4> {
    res.resarray.iter().find_map(|result| match result {
        ResOp::Open(Ok(ok)) => Some(ok.stateid),
        _ => None,
    })
}

/// The stateid in whatever state it is by then: READs and WRITEs are on their way while more access is asked for
/// (RFC 8881 §8.2.2).
fn any_seqid(stateid: Stateid4) -> Stateid4 {
    Stateid4 {
        seqid: 0,
        ..stateid
    }
}

/// Whether the server says that it has no such open: it has restarted, or the lease was over.
pub(crate) fn is_lost(status: Nfsstat4) -> bool {
    matches!(
        status,
        Nfsstat4::BadStateid
            | Nfsstat4::StaleStateid
            | Nfsstat4::OldStateid
            | Nfsstat4::Expired
            | Nfsstat4::AdminRevoked
    )
}
