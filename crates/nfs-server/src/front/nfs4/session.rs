//! Clients and sessions: SEQUENCE, EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION, DESTROY_CLIENTID,
//! BIND_CONN_TO_SESSION, BACKCHANNEL_CTL, RECLAIM_COMPLETE (RFC 8881 §18.33 to §18.37, §18.46, §18.50, §18.51).
//!
//! A connection is for calls of the server, too, where the client says so and accepts a credential that the server has.

use std::sync::Arc;

use nfs_state::{
    BackChannel, Begun as InState, Channel, ClientId, ConnId, CreateSession, Direction, ExchangeId,
    Host, Origin, OwnerBytes, Principal, Replay, SequenceCall, SequenceStatus, Sequenced,
    SessionId, StatusFlags, Verifier,
};
use nfs_wire::Encode;
use nfs_wire::nfs4::ops::{
    BackchannelCtlArgs, BindConnToSessionArgs, BindConnToSessionOk,
    CREATE_SESSION4_FLAG_CONN_BACK_CHAN, CREATE_SESSION4_FLAG_CONN_RDMA,
    CREATE_SESSION4_FLAG_PERSIST, ChannelAttrs4, ChannelDirFromClient4, ChannelDirFromServer4,
    CreateSessionArgs, CreateSessionOk, DestroyClientidArgs, DestroySessionArgs,
    EXCHGID4_FLAG_CONFIRMED_R, EXCHGID4_FLAG_MASK_A, EXCHGID4_FLAG_UPD_CONFIRMED_REC_A,
    EXCHGID4_FLAG_USE_NON_PNFS, ExchangeIdArgs, ExchangeIdOk, ReclaimCompleteArgs, SequenceArgs,
    SequenceOk, ServerOwner4, StateProtect4A, StateProtect4R,
};
use nfs_wire::nfs4::{Clientid4, CompoundReply, Nfsstat4, Opaque4, Opnum, ReplyLimits, Sessionid4};

use super::All;
use super::callback;
use super::compound::{Compound, Done, put};
use super::status::refused;
use crate::front::context::Context;
use crate::operate::calls::{StepKind, step};
use crate::rpc::reply::Draft;
use crate::state::States;
use crate::vfs::Opened;

type Result<T> = core::result::Result<T, Nfsstat4>;

/// A request in its slot.
pub(super) type InSession = Sequenced<Opened>;

/// What becomes of a COMPOUND that begins with SEQUENCE.
pub(super) enum Begun {
    /// SEQUENCE is answered; the other operations are to be carried out.
    Run(InSession),
    /// The whole reply is there: SEQUENCE failed so, or the request came before.
    Answered(Option<Nfsstat4>),
}

/// SEQUENCE: puts a request into its slot, or answers it from there.
pub(super) fn begin(
    cx: &mut Context,
    all: &All<'_>,
    args: &SequenceArgs,
    results: &mut CompoundReply,
    reply: &mut Draft,
) -> Begun {
    let begun = in_slot(cx, all, args, results);
    let (status, flags, replay) = match begun {
        Ok((InState::Run(request), flags)) => {
            let client = request.client().id().to_wire();
            cx.caller.client = cx.peer.v4_client(client);
            // What it has agreed to is at least as long as this.
            let ended = put_sequence((&request.status(), flags), results, reply);
            return match ended {
                Ok(()) => Begun::Run(request),
                Err(too_long) => {
                    results.finish(reply.first_mut());
                    Begun::Answered(Some(too_long))
                }
            };
        }
        Ok((InState::Again(replay, status), flags)) => (status, flags, replay),
        Err(status) => {
            let _ends_the_compound = results.put_failure(reply.out(), Opnum::Sequence, status);
            results.finish(reply.first_mut());
            return Begun::Answered(Some(status));
        }
    };
    match replay {
        Replay::Reply(bytes) => {
            let out = reply.out();
            out.truncate(all.begin);
            out.extend_from_slice(&bytes);
        }
        Replay::Uncached => {
            let why = Nfsstat4::RetryUncachedRep;
            again(all, (&status, flags), why, results, reply);
        }
        Replay::Faulted => {
            again(all, (&status, flags), Nfsstat4::Serverfault, results, reply);
        }
    }
    Begun::Answered(None)
}

/// Decides what a request is to its session, and what flags SEQUENCE is answered with.
fn in_slot(
    cx: &Context,
    all: &All<'_>,
    args: &SequenceArgs,
    results: &mut CompoundReply,
) -> Result<(InState<Opened>, StatusFlags)> {
    let _step = step(StepKind::Slot);
    let states = cx.service.states.as_ref().ok_or(Nfsstat4::Serverfault)?;
    let session = states.core.session(SessionId(args.sessionid.0));
    let session = session.map_err(refused)?;
    let channel = session.channel();
    if all.call.announced > channel.operations_max {
        return Err(Nfsstat4::TooManyOps);
    }
    if all.record_len() > channel.request_bytes_max as usize {
        return Err(Nfsstat4::ReqTooBig);
    }
    results.limit(ReplyLimits {
        message: channel.response_bytes_max as usize,
        cached: args.cachethis.then_some(channel.cached_bytes_max as usize),
    });
    let connection = ConnId(cx.peer.connection());
    let is_bound = session.is_bound(connection);
    let call = SequenceCall {
        slot: args.slotid,
        sequence: args.sequenceid,
        highest_slot: args.highest_slotid,
        cache_this: args.cachethis,
        digest: states.digest(user(cx), all.operations()),
        connection: (!is_bound).then_some(connection),
    };
    let begun = states.core.begin(&session, &call, states.now());
    let begun = begun.map_err(refused)?;
    if !is_bound {
        unbind_at_end(cx, &session);
    }
    Ok((begun, states.core.status_flags(&session)))
}

/// Who sends a request: a retry by another user is none (RFC 8881 §2.10.6.1.3.1).
fn user(cx: &Context) -> Option<u32> {
    cx.caller.identity.uid()
}

/// A connection that has ended is no connection of the session any more.
fn unbind_at_end(cx: &Context, session: &Arc<nfs_state::Session<Opened>>) {
    let (session, connection) = (Arc::downgrade(session), ConnId(cx.peer.connection()));
    cx.peer.at_end(move || {
        if let Some(session) = session.upgrade() {
            session.unbind(connection);
        }
    });
}

fn put_sequence(
    (status, flags): (&SequenceStatus, StatusFlags),
    results: &mut CompoundReply,
    reply: &mut Draft,
) -> Result<()> {
    let ok = SequenceOk {
        sessionid: Sessionid4(status.session.0),
        sequenceid: status.sequence,
        slotid: status.slot,
        highest_slotid: status.highest_slot,
        target_highest_slotid: status.target_highest_slot,
        status_flags: flags.0,
    };
    results.put_with(reply.out(), Opnum::Sequence, 0, |e| {
        e.u32(Opnum::Sequence.number());
        Nfsstat4::Ok.encode(e);
        ok.encode(e);
        Nfsstat4::Ok
    })
}

/// Answers a request that came before and whose reply is not kept: SEQUENCE is answered anew, and the operation behind it
/// says why there is no more. One that cannot be an operation of this version says that instead, as it did the first
/// time (RFC 8881 §2.10.6.1.3).
fn again(
    all: &All<'_>,
    sequence: (&SequenceStatus, StatusFlags),
    why: Nfsstat4,
    results: &mut CompoundReply,
    reply: &mut Draft,
) {
    let sequence = put_sequence(sequence, results, reply);
    let second = all.call.ops(all.minor).nth(1);
    if let (Ok(()), Some(second)) = (sequence, second) {
        let (opnum, why) =
            second.map_or_else(|bad| (bad.opnum(), bad.status()), |op| (op.opnum(), why));
        let _ends_the_compound = results.put_failure(reply.out(), opnum, why);
    }
    results.finish(reply.first_mut());
}

/// Who sends a request, as far as two requests' being of one matters.
pub(super) fn principal(cx: &Context) -> Result<Principal> {
    let name = match cx.caller.identity.uid() {
        None => "none".to_owned(),
        Some(uid) => format!("sys:{uid}"),
    };
    Principal::new(name.as_bytes()).map_err(refused)
}

pub(super) fn exchange_id(
    compound: &Compound<'_>,
    args: &ExchangeIdArgs<'_>,
    out: &mut Vec<u8>,
) -> Done {
    if args.flags & !EXCHGID4_FLAG_MASK_A != 0 {
        return Err(Nfsstat4::Inval);
    }
    match args.state_protect {
        StateProtect4A::None => {}
        // The machine credential is one of RPCSEC_GSS, which is not spoken here (RFC 8881 §18.35.3).
        StateProtect4A::MachCred(_) => return Err(Nfsstat4::Inval),
        StateProtect4A::Ssv(_) => return Err(Nfsstat4::EncrAlgUnsupp),
    }
    let states = compound.states()?;
    let owner = OwnerBytes::new(args.clientowner.ownerid.0).map_err(refused)?;
    let asked = ExchangeId {
        owner: &owner,
        verifier: Verifier(args.clientowner.verifier.0),
        principal: &principal(compound.cx)?,
        update: args.flags & EXCHGID4_FLAG_UPD_CONFIRMED_REC_A != 0,
        from: Origin {
            host: Host(compound.cx.caller.host()),
            address: compound.cx.caller.addr,
            minor: compound.minor as u32,
        },
    };
    let exchanged = states.core.exchange_id(&asked, states.now());
    let exchanged = exchanged.map_err(refused)?;
    if let Some(other) = exchanged.shared_with {
        let cx = compound.cx;
        cx.service
            .note_shared_name(&cx.caller, other, owner.as_bytes());
    }
    let confirmed = match exchanged.is_confirmed {
        true => EXCHGID4_FLAG_CONFIRMED_R,
        false => 0,
    };
    put(
        out,
        &ExchangeIdOk {
            clientid: Clientid4 {
                id: exchanged.client.to_wire(),
            },
            sequenceid: exchanged.sequence,
            flags: EXCHGID4_FLAG_USE_NON_PNFS | confirmed,
            state_protect: StateProtect4R::None,
            server_owner: ServerOwner4 {
                minor_id: 0,
                major_id: Opaque4(&states.server_id),
            },
            server_scope: Opaque4(&states.server_id),
            server_impl_id: None,
        },
    );
    Ok(())
}

pub(super) async fn create_session(
    compound: &Compound<'_>,
    args: &CreateSessionArgs<'_>,
    out: &mut Vec<u8>,
) -> Done {
    const KNOWN: u32 = CREATE_SESSION4_FLAG_PERSIST
        | CREATE_SESSION4_FLAG_CONN_BACK_CHAN
        | CREATE_SESSION4_FLAG_CONN_RDMA;
    if args.flags & !KNOWN != 0 {
        return Err(Nfsstat4::Inval);
    }
    if !channel(&args.back_chan_attrs).carries_callbacks() {
        return Err(Nfsstat4::Toosmall);
    }
    let (cx, states) = (compound.cx, compound.states()?);
    // Where none fits, the session has no way back, and says so.
    let back = callback::usable(&args.sec_parms).map(|auth| BackChannel {
        program: args.cb_program,
        auth,
        channel: channel(&args.back_chan_attrs),
    });
    let mut nonce = [0; 4];
    getrandom::fill(&mut nonce).map_err(|_| Nfsstat4::Delay)?;
    let asked = CreateSession {
        client: ClientId::from_wire(args.clientid.id),
        sequence: args.sequence,
        principal: &principal(cx)?,
        fore: channel(&args.fore_chan_attrs),
        back,
        binds_back: args.flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN != 0,
        connection: ConnId(cx.peer.connection()),
        nonce: u32::from_ne_bytes(nonce),
    };
    let created = states.create_session(cx.vfs(), &asked).await;
    let created = created.map_err(refused)?;
    states.release(cx.vfs(), created.released);
    if let Some(session) = &created.session {
        unbind_at_end(cx, session);
    }
    let made = created.made;
    if made.is_bound_back {
        cx.service.lines.note(cx.peer.line());
    }
    put(
        out,
        &CreateSessionOk {
            sessionid: Sessionid4(made.session.0),
            sequence: made.sequence,
            // Nothing is kept over a restart.
            flags: match made.is_bound_back {
                true => CREATE_SESSION4_FLAG_CONN_BACK_CHAN,
                false => 0,
            },
            fore_chan_attrs: channel_attrs(&made.fore),
            back_chan_attrs: match &made.back {
                Some(back) => channel_attrs(back),
                None => args.back_chan_attrs,
            },
        },
    );
    Ok(())
}

const fn channel(attrs: &ChannelAttrs4) -> Channel {
    Channel {
        request_bytes_max: attrs.maxrequestsize,
        response_bytes_max: attrs.maxresponsesize,
        cached_bytes_max: attrs.maxresponsesize_cached,
        operations_max: attrs.maxoperations,
        slots_max: attrs.maxrequests,
    }
}

const fn channel_attrs(channel: &Channel) -> ChannelAttrs4 {
    ChannelAttrs4 {
        headerpadsize: 0,
        maxrequestsize: channel.request_bytes_max,
        maxresponsesize: channel.response_bytes_max,
        maxresponsesize_cached: channel.cached_bytes_max,
        maxoperations: channel.operations_max,
        maxrequests: channel.slots_max,
        rdma_ird: None,
    }
}

pub(super) fn destroy_session(compound: &Compound<'_>, args: &DestroySessionArgs) -> Done {
    let states = compound.states()?;
    let id = SessionId(args.sessionid.0);
    let principal = principal(compound.cx)?;
    let by = compound.session.as_ref();
    let destroyed = states.core.destroy_session(id, by, &principal);
    destroyed.map_err(refused)
}

pub(super) async fn destroy_clientid(compound: &Compound<'_>, args: &DestroyClientidArgs) -> Done {
    let states: &Arc<States> = compound.states()?;
    let id = ClientId::from_wire(args.clientid.id);
    let principal = principal(compound.cx)?;
    let destroyed = states.core.destroy_client_id(id, &principal);
    if let Some(removal) = destroyed.map_err(refused)? {
        // A record that stays costs the next start a grace period, and nobody his state.
        let _removed_or_not = states.remove(compound.cx.vfs(), removal).await;
    }
    Ok(())
}

/// A connection is to be used for a session, too: for calls of the server where the client lets it and the server can
/// call it.
///
/// # Errors
/// NFS4ERR_INVAL where the client wants calls of the server and has accepted no credential that the server has.
pub(super) fn bind(
    compound: &Compound<'_>,
    args: &BindConnToSessionArgs,
    out: &mut Vec<u8>,
) -> Done {
    let (cx, states) = (compound.cx, compound.states()?);
    let session = states.core.session(SessionId(args.sessid.0));
    let session = session.map_err(refused)?;
    let wanted = match (args.dir, session.back().is_some()) {
        (ChannelDirFromClient4::Fore, _) | (ChannelDirFromClient4::ForeOrBoth, false) => {
            Direction::Fore
        }
        (ChannelDirFromClient4::Back | ChannelDirFromClient4::BackOrBoth, false) => {
            return Err(Nfsstat4::Inval);
        }
        (ChannelDirFromClient4::Back, true) => Direction::Back,
        (ChannelDirFromClient4::ForeOrBoth | ChannelDirFromClient4::BackOrBoth, true) => {
            Direction::Both
        }
    };
    let connection = ConnId(cx.peer.connection());
    if !session.is_bound(connection) {
        unbind_at_end(cx, &session);
    }
    if wanted != Direction::Fore {
        cx.service.lines.note(cx.peer.line());
    }
    // One that was bound before keeps what it was bound for, and a session has only so many.
    let dir = match (session.bind(connection, wanted), args.dir) {
        (Direction::Fore, _) | (_, ChannelDirFromClient4::Fore) => ChannelDirFromServer4::Fore,
        (_, ChannelDirFromClient4::Back) => ChannelDirFromServer4::Back,
        (Direction::Back, _) => ChannelDirFromServer4::Back,
        (Direction::Both, _) => ChannelDirFromServer4::Both,
    };
    put(
        out,
        &BindConnToSessionOk {
            sessid: args.sessid,
            dir,
            use_conn_in_rdma_mode: false,
        },
    );
    Ok(())
}

/// BACKCHANNEL_CTL: the client answers to another program from now on, or wants to be told otherwise who calls.
///
/// # Errors
/// NFS4ERR_INVAL where it accepts no credential that the server has; then all is as it was.
pub(super) fn backchannel_ctl(compound: &Compound<'_>, args: &BackchannelCtlArgs<'_>) -> Done {
    let session = compound.sequenced()?.session();
    let auth = callback::usable(&args.sec_parms).ok_or(Nfsstat4::Inval)?;
    session.change_back(args.cb_program, auth);
    Ok(())
}

pub(super) async fn reclaim_complete(compound: &Compound<'_>, args: &ReclaimCompleteArgs) -> Done {
    if args.one_fs {
        // No file system comes from another server, so that there is nothing to be reclaimed of one alone.
        return compound.current().map(drop);
    }
    let by = compound.sequenced()?;
    let states = compound.states()?;
    let done = states.reclaim_complete(compound.cx.vfs(), by).await;
    done.map_err(refused)
}
