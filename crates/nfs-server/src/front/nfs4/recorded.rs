//! What a recording of a load has of an operation of NFSv4.
//!
//! Operations that only say which object is the current one, and those of sessions, are left out: they are the
//! protocol's, and not the load's.

use nfs_wire::nfs4::ops::{Createhow4, Createtype4, OpenClaim4, Openflag4};
use nfs_wire::nfs4::{ArgOp, Fattr4, Ftype4, Nfsstat4, Opnum};

use super::audited::asked;
use super::compound::Compound;
use super::data::len_of;
use super::place::Place;
use crate::operate::calls::{self, Action, Recorder};

/// An operation that is recorded, until it is carried out.
pub(super) struct Recorded {
    action: Action,
    operation: Opnum,
    begun: u64,
}

/// The operation, if somebody records.
pub(super) fn recorded(compound: &mut Compound<'_>, op: &ArgOp<'_>) -> Option<Box<Recorded>> {
    let recorder = &compound.cx.service.calls;
    if !recorder.is_recording() {
        return None;
    }
    let action = action(recorder, compound, op)?;
    let follows = compound.has_recorded;
    compound.has_recorded = true;
    let operation = op.opnum();
    Some(Box::new(Recorded {
        action: Action {
            version: 4,
            number: operation.number(),
            follows,
            ..action
        },
        operation,
        begun: calls::action_begins(!follows),
    }))
}

impl Recorded {
    /// The operation ended with this status, and has this to tell beside it.
    pub(super) fn answered(mut self, compound: &Compound<'_>, status: Nfsstat4, body: &[u8]) {
        self.action.status = status as u32;
        let word = |at: usize| {
            let bytes = body.get(at..)?.first_chunk()?;
            Some(u64::from(u32::from_be_bytes(*bytes)))
        };
        if status == Nfsstat4::Ok {
            match self.operation {
                // Behind `eof` the length of the data (RFC 8881 §18.22.2).
                Opnum::Read => self.action.moved = word(4),
                Opnum::Write => self.action.moved = word(0),
                Opnum::Lookup | Opnum::Lookupp | Opnum::Open | Opnum::Create => {
                    let current = compound.current().ok();
                    self.action.to = number(&compound.cx.service.calls, current);
                }
                _ => {}
            }
        }
        calls::acted(self.action, self.begun);
    }
}

/// `None` for operations that are not recorded.
fn action(recorder: &Recorder, compound: &Compound<'_>, op: &ArgOp<'_>) -> Option<Action> {
    let current = compound.current().ok();
    let on = Action {
        on: number(recorder, current),
        ..Action::default()
    };
    let ranged = |offset: u64, len: u64| Action {
        range: Some((offset, len)),
        ..on
    };
    let named = |name: &[u8]| Action {
        name: number_of_name(recorder, current, name),
        ..on
    };
    Some(match op {
        ArgOp::Read(args) => ranged(args.offset, args.count.into()),
        ArgOp::ReadPlus(args) => ranged(args.offset, args.count.into()),
        ArgOp::Write(args) => Action {
            how: Some(args.stable as u32),
            ..ranged(args.offset, len_of(&args.data) as u64)
        },
        ArgOp::Commit(args) => ranged(args.offset, args.count.into()),
        ArgOp::Allocate(args) => ranged(args.offset, args.length),
        ArgOp::Deallocate(args) => ranged(args.offset, args.length),
        ArgOp::Seek(args) => ranged(args.offset, 0),
        ArgOp::Readdir(args) => ranged(args.cookie, args.maxcount.into()),
        ArgOp::Setattr(args) => Action {
            range: size_of(compound, &args.obj_attributes),
            ..on
        },
        ArgOp::Lookup(args) => named(args.objname.0),
        ArgOp::Remove(args) => named(args.target.0),
        ArgOp::Create(args) => Action {
            how: Some(type_of(&args.objtype)),
            ..named(args.objname.0)
        },
        ArgOp::Open(args) => {
            let action = match args.claim {
                OpenClaim4::Null(name) => named(name.0),
                _ => on,
            };
            Action {
                range: size_at_open(compound, &args.openhow),
                how: Some(matches!(args.openhow, Openflag4::Create(_)).into()),
                ..action
            }
        }
        ArgOp::Rename(args) => {
            let from = compound.saved().ok();
            Action {
                on: number(recorder, from),
                name: number_of_name(recorder, from, args.oldname.0),
                to: on.on,
                to_name: named(args.newname.0).name,
                ..Action::default()
            }
        }
        ArgOp::Link(args) => Action {
            on: number(recorder, compound.saved().ok()),
            to: on.on,
            to_name: named(args.newname.0).name,
            ..Action::default()
        },
        op if is_recorded(op) => on,
        _ => return None,
    })
}

/// Whether an operation is recorded of which nothing more is than the object that it is on.
const fn is_recorded(op: &ArgOp<'_>) -> bool {
    matches!(
        op,
        ArgOp::Access(_)
            | ArgOp::Close(_)
            | ArgOp::Copy(_)
            | ArgOp::Clone(_)
            | ArgOp::Getattr(_)
            | ArgOp::Getxattr(_)
            | ArgOp::IoAdvise(_)
            | ArgOp::Listxattrs(_)
            | ArgOp::Lock(_)
            | ArgOp::Lockt(_)
            | ArgOp::Locku(_)
            | ArgOp::Lookupp(())
            | ArgOp::Nverify(_)
            | ArgOp::OpenDowngrade(_)
            | ArgOp::Readlink(())
            | ArgOp::Removexattr(_)
            | ArgOp::Setxattr(_)
            | ArgOp::Verify(_)
    )
}

/// The size that attributes set, in the place of a range.
fn size_of(compound: &Compound<'_>, attributes: &Fattr4<'_>) -> Option<(u64, u64)> {
    asked(compound, attributes).size.map(|size| (size, 0))
}

/// The size that a file is opened with, in the place of a range.
fn size_at_open(compound: &Compound<'_>, how: &Openflag4<'_>) -> Option<(u64, u64)> {
    match how {
        Openflag4::Create(Createhow4::Unchecked(set) | Createhow4::Guarded(set)) => {
            size_of(compound, set)
        }
        Openflag4::Create(Createhow4::Exclusive41(marked)) => size_of(compound, &marked.attrs),
        Openflag4::Create(Createhow4::Exclusive(_)) | Openflag4::Nocreate => None,
    }
}

/// The number of an object; what is above the exports has none.
fn number(recorder: &Recorder, place: Option<&Place>) -> Option<u64> {
    match place? {
        Place::File(target) => Some(recorder.number_of(target.object.handle.as_ref())),
        Place::Node(_) => None,
    }
}

fn number_of_name(recorder: &Recorder, place: Option<&Place>, name: &[u8]) -> Option<u64> {
    match place? {
        Place::File(target) => Some(recorder.number_of_name(target.object.handle.as_ref(), name)),
        Place::Node(_) => None,
    }
}

/// The number of the type that is made.
const fn type_of(made: &Createtype4<'_>) -> u32 {
    match made {
        Createtype4::Lnk(_) => Ftype4::Lnk as u32,
        Createtype4::Blk(_) => Ftype4::Blk as u32,
        Createtype4::Chr(_) => Ftype4::Chr as u32,
        Createtype4::Sock => Ftype4::Sock as u32,
        Createtype4::Fifo => Ftype4::Fifo as u32,
        Createtype4::Dir => Ftype4::Dir as u32,
        Createtype4::Other(number) => *number,
    }
}
