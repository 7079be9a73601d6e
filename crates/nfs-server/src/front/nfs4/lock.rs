//! LOCK, LOCKT, LOCKU (RFC 8881 §18.10 to §18.12).

use std::sync::Arc;

use nfs_io::fs::{OfdHolder, OfdLock};
use nfs_state::{
    Holder, LockArgs as InState, LockKind, LockOwner, LockRefused, Locker, OwnerBytes, Range,
};
use nfs_wire::nfs4::ops::{LockArgs, LockDenied, Locker4, LocktArgs, LockuArgs};
use nfs_wire::nfs4::{Clientid4, LockType4, Nfsstat4, Opaque4, StateOwner4};

use super::compound::{Compound, Done, put};
use super::data::regular;
use super::stateids::{self, Stop, wire};
use super::status::{refused, status};
use crate::vfs::HostSays;

/// How asking for a range went.
enum Asked<T> {
    Granted(T),
    Denied(Holder),
}

pub(super) async fn lock(
    compound: &mut Compound<'_>,
    args: &LockArgs<'_>,
    out: &mut Vec<u8>,
) -> Done {
    let target = regular(compound)?.clone();
    let range = Range::new(args.offset, args.length).map_err(refused)?;
    let permit = stateids::permit(compound, args.reclaim).await?;
    let (owner, through) = match &args.locker {
        Locker4::New(new) => {
            let owner = OwnerBytes::new(new.lock_owner.owner.0).map_err(refused)?;
            (Some(owner), compound.state_id(&new.open_stateid)?)
        }
        Locker4::Exists(exists) => (None, compound.state_id(&exists.lock_stateid)?),
    };
    let locker = match &owner {
        Some(owner) => Locker::New {
            open: through,
            owner,
        },
        None => Locker::Existing(through),
    };
    let asked = InState {
        locker,
        file: target.object.file_state(),
        range,
        kind: kind(args.locktype),
        // Who expects to be told has a place in the queue; who does not asks again by itself.
        wait: args.locktype.waits() && compound.sequenced()?.client().expects_notices(),
    };
    let states = compound.states()?;
    let granted = compound.without_the_expired(|| {
        let by = compound.sequenced()?;
        let reserved = states.core.lock(by, permit.claim(), &asked, states.now());
        asked_of(reserved)
    });
    let reservation = match granted.await? {
        Asked::Granted(reservation) => reservation,
        Asked::Denied(holder) => return denied(&holder, out),
    };
    let vfs = compound.cx.vfs();
    let stateid = match vfs.tell_host(&target, Some(range)).await {
        Ok(HostSays::Agreed) => {
            let confirmed = reservation.confirm(states.now()).map_err(refused);
            confirmed.map(|(stateid, waiters)| {
                states.notify(target.object.file_state(), waiters);
                wire(stateid.to_wire())
            })
        }
        not_granted => {
            let is_refused = matches!(not_granted, Ok(HostSays::Refused(_)));
            let others = if is_refused && asked.wait {
                let others = reservation.give_up_for_now(states.now());
                states.watch_host(&target.object, compound.host_sharer(&target));
                others
            } else {
                reservation.give_up(states.now())
            };
            states.notify(target.object.file_state(), others);
            match not_granted {
                Err(error) => Err(status(error)),
                Ok(_) if args.reclaim => Err(Nfsstat4::ReclaimConflict),
                Ok(HostSays::Refused(holder)) => denied_by_host(holder, &asked, out),
                Ok(HostSays::Agreed) => Err(Nfsstat4::Delay),
            }
        }
    };
    // What was not granted after all, or is weaker now, is given back on the host. Nobody waits for that.
    if target.object.file_state().is_behind_on_host() {
        states.tell_host_in_a_while(vfs, Arc::clone(&target.object));
    }
    let stateid = stateid?;
    compound.set_stateid(stateid);
    put(out, &stateid);
    Ok(())
}

pub(super) async fn lockt(
    compound: &mut Compound<'_>,
    args: &LocktArgs<'_>,
    out: &mut Vec<u8>,
) -> Done {
    let target = regular(compound)?.clone();
    let range = Range::new(args.offset, args.length).map_err(refused)?;
    let owner = OwnerBytes::new(args.owner.owner.0).map_err(refused)?;
    let states = compound.states()?;
    let asked = compound.without_the_expired(|| {
        let (by, file) = (compound.sequenced()?, target.object.file_state());
        let wanted = (range, kind(args.locktype));
        let tested = states
            .core
            .test_lock(by, &owner, file, wanted, states.now());
        asked_of(tested)
    });
    if let Asked::Denied(holder) = asked.await? {
        return denied(&holder, out);
    }
    let vfs = compound.cx.vfs();
    let kind = kind(args.locktype);
    let held = vfs.host_holder(&target, (range, kind)).await;
    match held.map_err(status)? {
        Some(holder) => denied_by_program(holder, out),
        None => Ok(()),
    }
}

pub(super) async fn locku(
    compound: &mut Compound<'_>,
    args: &LockuArgs,
    out: &mut Vec<u8>,
) -> Done {
    let target = regular(compound)?.clone();
    let range = Range::new(args.offset, args.length).map_err(refused)?;
    let id = compound.state_id(&args.lock_stateid)?;
    let states = compound.states()?;
    let (by, file) = (compound.sequenced()?, target.object.file_state());
    let unlocked = states.core.unlock(by, id, file, range, states.now());
    let unlocked = unlocked.map_err(refused)?;
    let stateid = wire(unlocked.stateid.to_wire());
    // A local program that learns of this reply finds the range free.
    if compound.cx.vfs().tell_host(&target, None).await.is_err() {
        states.tell_host_in_a_while(compound.cx.vfs(), Arc::clone(&target.object));
    }
    states.notify(file, unlocked.notify);
    compound.set_stateid(stateid);
    put(out, &stateid);
    Ok(())
}

fn asked_of<T>(asked: Result<T, LockRefused>) -> Result<Asked<T>, Stop> {
    match asked {
        Ok(granted) => Ok(Asked::Granted(granted)),
        Err(LockRefused::Denied(holder)) => Ok(Asked::Denied(holder)),
        Err(LockRefused::Status(error)) => Err(Stop::Status(refused(error))),
        Err(LockRefused::Expirable(client)) => Err(Stop::Expirable(client)),
    }
}

/// Says who is in the way. Of an owner that is no client's nothing but a number is known.
fn denied(holder: &Holder, out: &mut Vec<u8>) -> Done {
    let of_host;
    let owner = match &holder.owner {
        LockOwner::V4 { client, owner } => StateOwner4 {
            clientid: Clientid4 {
                id: client.to_wire(),
            },
            owner: Opaque4(owner.as_bytes()),
        },
        LockOwner::Nlm { host, .. } => {
            of_host = format!("nlm:{host}");
            StateOwner4 {
                clientid: Clientid4::default(),
                owner: Opaque4(of_host.as_bytes()),
            }
        }
    };
    put(
        out,
        &LockDenied {
            offset: holder.range.offset(),
            length: holder.range.length(),
            locktype: match holder.kind {
                LockKind::Read => LockType4::Read,
                LockKind::Write => LockType4::Write,
            },
            owner,
        },
    );
    Err(Nfsstat4::Denied)
}

/// The host refused: says which local program is in the way, or, if that has gone meanwhile, that something was.
fn denied_by_host<T>(
    holder: Option<OfdHolder>,
    asked: &InState<'_>,
    out: &mut Vec<u8>,
) -> Result<T, Nfsstat4> {
    let asked_for = OfdHolder {
        lock: match asked.kind {
            LockKind::Read => OfdLock::Read,
            LockKind::Write => OfdLock::Write,
        },
        start: i64::try_from(asked.range.offset()).unwrap_or(i64::MAX),
        length: i64::try_from(asked.range.length()).unwrap_or(0),
        pid: None,
    };
    denied_by_program(holder.unwrap_or(asked_for), out)
}

/// Says which program of this host is in the way, by its process's number where that is known.
fn denied_by_program<T>(holder: OfdHolder, out: &mut Vec<u8>) -> Result<T, Nfsstat4> {
    let owner = match holder.pid {
        Some(pid) => format!("local:{pid}"),
        None => "local".to_owned(),
    };
    put(
        out,
        &LockDenied {
            offset: holder.start.unsigned_abs(),
            length: match holder.length.unsigned_abs() {
                0 => u64::MAX,
                length => length,
            },
            locktype: match holder.lock {
                OfdLock::Read => LockType4::Read,
                OfdLock::Write => LockType4::Write,
            },
            owner: StateOwner4 {
                clientid: Clientid4::default(),
                owner: Opaque4(owner.as_bytes()),
            },
        },
    );
    Err(Nfsstat4::Denied)
}

const fn kind(locktype: LockType4) -> LockKind {
    match locktype.is_exclusive() {
        true => LockKind::Write,
        false => LockKind::Read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_asks_for_the_same_kind() {
        assert_eq!(kind(LockType4::ReadWaits), LockKind::Read);
        assert_eq!(kind(LockType4::WriteWaits), LockKind::Write);
    }
}
