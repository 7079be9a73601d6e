//! Calls of the server to NFSv4 clients, over their own connections: CB_NOTIFY_LOCK (RFC 8881 §20.11), behind
//! CB_SEQUENCE (§20.9).
//!
//! One task tells whoever [`nfs_state`] says may try a lock now. It is a hint: a client that is not told asks again by
//! itself, and nothing here rests on an answer. So each call has a time to be answered in
//! ([`limits::CALLBACK_SECONDS_MAX`]), each session one call in flight, each host and all together so many, and what
//! does not fit is left out.

mod room;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use nfs_state::{
    Callback, CallbackAuth, CallbackEnd, FileState, Host, Millis, Notify, Session, SessionId,
};
use nfs_wire::auth::{AUTH_NONE, AUTH_SYS, OpaqueAuth};
use nfs_wire::nfs4::ops::CallbackSecParms4;
use nfs_wire::nfs4::{
    CALLBACK_VERSION, CbArgOp, CbCompoundArgs, CbCompoundRes, CbNotifyLockArgs, CbResOp,
    CbSequenceArgs, Clientid4, FileHandle, Nfsstat4, Opaque4, PROC_CB_COMPOUND, Sessionid4,
    StateOwner4, Tag,
};
use nfs_wire::record::{FragmentHeader, MARK_BYTES};
use nfs_wire::rpc::{AcceptStat, CallHeader, ReplyBody, ReplyHeader};
use nfs_wire::{Decode as _, Decoder, Encode as _, Encoder, encode_to_vec};
use tokio::task::JoinSet;

use self::room::Room;
use super::attributes::wire_handle;
use crate::front::service::Service;
use crate::limits;
use crate::operate::counters::count;
use crate::rpc::line::{Lines, NotCalled};
use crate::state::States;
use crate::state::notices::Notice;
use crate::vfs::Opened;

/// How the server says who it is when it calls, by what the client accepts: the first of it that the server can do.
pub(super) fn usable(sec_parms: &[CallbackSecParms4<'_>]) -> Option<CallbackAuth> {
    sec_parms.iter().find_map(|parms| match parms {
        CallbackSecParms4::None => Some(CallbackAuth {
            flavor: AUTH_NONE,
            body: Arc::default(),
        }),
        CallbackSecParms4::Sys(sys) => Some(CallbackAuth {
            flavor: AUTH_SYS,
            body: encode_to_vec(sys).into(),
        }),
        CallbackSecParms4::Gss(_) => None,
    })
}

/// Tells clients of locks that they wait for, for as long as the server runs.
pub(crate) async fn notify_waiters(service: &Service, states: Arc<States>) {
    let mut notifier = Notifier {
        lines: Arc::clone(&service.lines),
        states,
        queues: HashMap::new(),
        ready: VecDeque::new(),
        room: Room::default(),
        calls: JoinSet::new(),
        lapses: VecDeque::new(),
    };
    loop {
        let states = Arc::clone(&notifier.states);
        tokio::select! {
            () = states.notices.more.notified() => {
                for notice in states.notices.take() {
                    notifier.tell(notice);
                }
            }
            Some(ended) = notifier.calls.join_next() => {
                // A task that panicked has ended the process.
                if let Ok(ended) = ended {
                    notifier.ended(ended);
                }
            }
            () = pause(&notifier.states, notifier.lapses.front()) => notifier.look_for_lapsed(),
        }
        notifier.call_who_is_ready();
    }
}

/// Waits until a promise may have lapsed; for ever if none was made.
async fn pause(states: &States, lapse: Option<&(Millis, Arc<FileState>)>) {
    match lapse {
        Some((at, _)) => {
            let left = at.since(states.now());
            tokio::time::sleep(Duration::from_millis(left)).await;
        }
        None => std::future::pending().await,
    }
}

struct Notifier {
    states: Arc<States>,
    lines: Arc<Lines>,
    queues: HashMap<SessionId, Queue>,
    /// Sessions with notices and without a call in flight.
    ready: VecDeque<SessionId>,
    /// How many notices and calls there are.
    room: Room,
    calls: JoinSet<Ended>,
    /// When promises lapse that were made to whom was told, in order of time.
    lapses: VecDeque<(Millis, Arc<FileState>)>,
}

/// What one session's client is to be told.
struct Queue {
    session: Arc<Session<Opened>>,
    host: Host,
    minor: u32,
    notices: VecDeque<ToTell>,
    is_calling: bool,
}

impl Queue {
    /// How many waiters are to be told and were not yet, the one among them that is told now.
    fn len(&self) -> usize {
        self.notices.len() + usize::from(self.is_calling)
    }
}

/// A waiter, and how its file and its owner are called on the wire.
struct ToTell {
    notice: Notice,
    file: FileHandle,
    owner: Vec<u8>,
    client: Clientid4,
}

/// A call that has ended.
struct Ended {
    session: Arc<Session<Opened>>,
    host: Host,
    callback: Callback,
    told: ToTell,
    how: CallbackEnd,
}

impl Notifier {
    /// Has a waiter told, or, where that cannot be, the next one.
    fn tell(&mut self, notice: Notice) {
        let mut left = vec![notice];
        while let Some(notice) = left.pop() {
            if let Err((file, notify)) = self.queue(notice) {
                left.extend(self.untold(&file, &notify));
            }
        }
    }

    /// Puts a waiter into its session's queue.
    ///
    /// # Errors
    /// The waiter, if it cannot be told.
    fn queue(&mut self, notice: Notice) -> Result<(), Notice> {
        let found = self.states.core.notice(&notice.1);
        let session = found
            .as_ref()
            .and_then(|found| found.sessions.iter().find(|it| it.can_be_called()));
        let client = found
            .as_ref()
            .and_then(|found| self.states.core.client(found.client));
        let (Some(found), Some(session), Some(client)) = (&found, session, client) else {
            return Err(notice);
        };
        let Some(file) = wire_handle(&found.open.pin().object().handle) else {
            return Err(notice);
        };
        let from = client.from();
        let of_session = self.queues.get(&session.id());
        let of_session = of_session.map_or(0, Queue::len);
        if !self.room.may_join(from.host, of_session) {
            return Err(notice);
        }
        let queue = self.queues.entry(session.id()).or_insert_with(|| Queue {
            session: Arc::clone(session),
            host: from.host,
            minor: from.minor,
            notices: VecDeque::new(),
            is_calling: false,
        });
        if queue.notices.is_empty() && !queue.is_calling {
            self.ready.push_back(session.id());
        }
        self.note_lapse(&notice.0);
        if let Some(queue) = self.queues.get_mut(&session.id()) {
            self.room.joins(from.host);
            queue.notices.push_back(ToTell {
                file,
                owner: found.owner.as_bytes().to_vec(),
                client: Clientid4 {
                    id: found.client.to_wire(),
                },
                notice,
            });
        }
        Ok(())
    }

    /// Something was promised in this file now.
    fn note_lapse(&mut self, file: &Arc<FileState>) {
        let at = self.states.now().plus(nfs_state::limits::CLAIM_MS_MAX);
        let is_noted =
            |(noted, last): &(Millis, Arc<FileState>)| *noted == at && Arc::ptr_eq(last, file);
        if self.lapses.len() < limits::NOTICES_MAX && !self.lapses.back().is_some_and(is_noted) {
            self.lapses.push_back((at, Arc::clone(file)));
        }
    }

    fn look_for_lapsed(&mut self) {
        let now = self.states.now();
        while let Some((at, file)) = self.lapses.pop_front() {
            if at > now {
                self.lapses.push_front((at, file));
                return;
            }
            for notify in file.promises_lapsed(now) {
                self.tell((Arc::clone(&file), notify));
            }
        }
    }

    /// A waiter cannot be told. Who may try instead.
    fn untold(&self, file: &Arc<FileState>, notify: &Notify) -> Vec<Notice> {
        count(&self.states.notices.untold);
        let others = file.could_not_tell(notify, self.states.now());
        let others = others.into_iter();
        others.map(|other| (Arc::clone(file), other)).collect()
    }

    /// Calls clients that wait for it, as many as there may be.
    fn call_who_is_ready(&mut self) {
        for _ in 0..self.ready.len() {
            if self.calls.len() >= limits::CALLBACKS_MAX {
                return;
            }
            let Some(id) = self.ready.pop_front() else {
                return;
            };
            let host = self.queues.get(&id).map(|queue| queue.host);
            let Some(host) = host else {
                continue;
            };
            if self.room.may_call(host) {
                self.call(id);
            } else {
                self.ready.push_back(id);
            }
        }
    }

    fn call(&mut self, id: SessionId) {
        let Some(queue) = self.queues.get_mut(&id).filter(|it| !it.is_calling) else {
            return;
        };
        let (session, host) = (Arc::clone(&queue.session), queue.host);
        let Some(callback) = session.call_back() else {
            let left = self.queues.remove(&id).map(|queue| queue.notices);
            for told in left.into_iter().flatten() {
                self.give_up(host, told);
            }
            return;
        };
        let Some(told) = queue.notices.pop_front() else {
            // Nothing was sent, and the number is as it was.
            session.called_back(&callback, CallbackEnd::NotNow);
            return;
        };
        queue.is_calling = true;
        self.room.calls(host);
        let (lines, minor) = (Arc::clone(&self.lines), queue.minor);
        let states = Arc::clone(&self.states);
        self.calls.spawn(async move {
            let how = call(&states, &lines, &callback, minor, &told).await;
            Ended {
                session,
                host,
                callback,
                told,
                how,
            }
        });
    }

    /// A waiter that was in a queue is not told.
    fn give_up(&mut self, host: Host, told: ToTell) {
        self.room.leaves(host);
        let (file, notify) = told.notice;
        for other in self.untold(&file, &notify) {
            self.tell(other);
        }
    }

    fn ended(&mut self, ended: Ended) {
        let Ended {
            session,
            host,
            callback,
            told,
            how,
        } = ended;
        let again = session.called_back(&callback, how);
        self.room.called(host);
        let queue = self.queues.get_mut(&callback.session);
        let mut left = Some(told);
        if let Some(queue) = queue {
            queue.is_calling = false;
            if again {
                queue.notices.extend(left.take());
                queue.notices.rotate_right(1);
            }
            if queue.notices.is_empty() {
                self.queues.remove(&callback.session);
            } else {
                self.ready.push_back(callback.session);
            }
        }
        match left {
            Some(_told) if how == CallbackEnd::Done => self.room.leaves(host),
            Some(told) => self.give_up(host, told),
            None => {}
        }
    }
}

/// Calls a client and waits for its answer.
async fn call(
    states: &States,
    lines: &Lines,
    callback: &Callback,
    minor: u32,
    told: &ToTell,
) -> CallbackEnd {
    let Some(line) = lines.find(callback.over.0) else {
        return CallbackEnd::NotSent;
    };
    let size = record(0, callback, minor, told).len() - MARK_BYTES;
    if size > callback.to.channel.request_bytes_max as usize {
        return CallbackEnd::NotNow;
    }
    let counted = |xid| {
        // Before anybody can see it.
        count(&states.notices.callbacks);
        record(xid, callback, minor, told)
    };
    let mut calling = match line.call(counted) {
        Ok(calling) => calling,
        Err(NotCalled::Over) => return CallbackEnd::NotSent,
        Err(NotCalled::Busy) => return CallbackEnd::NotNow,
    };
    drop(line);
    let patience = Duration::from_secs(limits::CALLBACK_SECONDS_MAX);
    let how = match tokio::time::timeout(patience, calling.reply()).await {
        Ok(Some(reply)) => judge(&reply, callback).unwrap_or(CallbackEnd::Unanswered),
        Ok(None) => CallbackEnd::Lost,
        Err(_late) => CallbackEnd::Unanswered,
    };
    if how != CallbackEnd::Done {
        count(&states.notices.callbacks_failed);
    }
    how
}

/// The record of a call, mark and all.
fn record(xid: u32, callback: &Callback, minor: u32, told: &ToTell) -> Vec<u8> {
    let mut bytes = vec![0; MARK_BYTES];
    let mut e = Encoder::new(&mut bytes);
    let header = CallHeader {
        xid,
        program: callback.to.program,
        version: CALLBACK_VERSION,
        procedure: PROC_CB_COMPOUND,
        credential: OpaqueAuth {
            flavor: callback.to.auth.flavor,
            body: &callback.to.auth.body,
        },
        verifier: OpaqueAuth::NONE,
    };
    header.encode(&mut e);
    let sequence = CbSequenceArgs {
        sessionid: Sessionid4(callback.session.0),
        sequenceid: callback.sequence,
        slotid: callback.slot,
        highest_slotid: callback.slot,
        cachethis: false,
        referring_call_lists: Vec::new(),
    };
    let notify = CbNotifyLockArgs {
        fh: told.file,
        lock_owner: StateOwner4 {
            clientid: told.client,
            owner: Opaque4(&told.owner),
        },
    };
    let compound = CbCompoundArgs {
        tag: Tag(b""),
        minorversion: minor,
        callback_ident: 0,
        argarray: vec![CbArgOp::Sequence(sequence), CbArgOp::NotifyLock(notify)],
    };
    compound.encode(&mut e);
    let len = u32::try_from(bytes.len() - MARK_BYTES).unwrap_or(FragmentHeader::LEN_MAX);
    if let Some(mark) = bytes.first_chunk_mut() {
        *mark = FragmentHeader { last: true, len }.to_bytes();
    }
    bytes
}

/// What a reply says about a call; nothing if it is none.
fn judge(reply: &[u8], callback: &Callback) -> Option<CallbackEnd> {
    let mut decoder = Decoder::new(reply);
    match ReplyHeader::decode(&mut decoder).ok()?.body {
        ReplyBody::Accepted {
            stat: AcceptStat::Success,
            ..
        } => {}
        ReplyBody::Accepted { .. } | ReplyBody::Denied(_) => return Some(CallbackEnd::NotTaken),
    }
    let res = CbCompoundRes::decode(&mut decoder).ok()?;
    decoder.finish().ok()?;
    match res.resarray.as_slice() {
        [CbResOp::Sequence(Ok(ok)), behind @ ..] => {
            let is_ours = ok.sessionid.0 == callback.session.0
                && (ok.slotid, ok.sequenceid) == (callback.slot, callback.sequence);
            match behind {
                _ if !is_ours => None,
                [CbResOp::NotifyLock(Err(Nfsstat4::RetryUncachedRep)), ..] => {
                    Some(CallbackEnd::SeenBefore)
                }
                _ => Some(CallbackEnd::Done),
            }
        }
        [CbResOp::Sequence(Err(status)), ..] => Some(by_status(*status)),
        // A client that knows no minor version of this sort, or has no room for a result.
        [] if res.status != Nfsstat4::Ok => Some(CallbackEnd::NotTaken),
        _ => None,
    }
}

/// What a failure of CB_SEQUENCE says about a call.
fn by_status(status: Nfsstat4) -> CallbackEnd {
    match status {
        Nfsstat4::RetryUncachedRep | Nfsstat4::SeqFalseRetry => CallbackEnd::SeenBefore,
        Nfsstat4::Delay => CallbackEnd::NotNow,
        Nfsstat4::SeqMisordered | Nfsstat4::Badslot | Nfsstat4::BadHighSlot => {
            CallbackEnd::OutOfOrder
        }
        _ => CallbackEnd::NotTaken,
    }
}
