//! What the audit is told of an operation of NFSv4.

use nfs_wire::nfs4::ops::{Createhow4, Createtype4, OpenClaim4, Openflag4};
use nfs_wire::nfs4::{ArgOp, Fattr4};

use super::compound::Compound;
use super::place::Place;
use super::wanted::Wanted;
use crate::front::told::{self, Told};
use crate::operate::audit::{Asked, Deed, Named, Operation};

/// The operation, if it is one that the audit is told of and somebody listens.
pub(super) fn told<'c>(compound: &Compound<'c>, op: &ArgOp<'_>) -> Option<Box<Told<'c>>> {
    let cx = compound.cx;
    let is_wanted = cx.service.audit.is_wanted();
    is_wanted.then(|| Box::new(Told::new(cx, deed(compound, op))))
}

/// `None` for operations that are not audited.
fn deed(compound: &Compound<'_>, op: &ArgOp<'_>) -> Option<Deed> {
    let current = compound.current().ok();
    let object = |operation| of(compound, operation, named(current?, None)?);
    let name = |operation, name| of(compound, operation, named(current?, Some(name))?);
    match op {
        ArgOp::Read(_) | ArgOp::ReadPlus(_) => object(Operation::Read),
        ArgOp::Write(_) | ArgOp::Allocate(_) | ArgOp::Deallocate(_) => object(Operation::Write),
        ArgOp::Copy(_) | ArgOp::Clone(_) => object(Operation::Write),
        ArgOp::Setattr(args) => {
            let asked = asked(compound, &args.obj_attributes);
            object(Operation::Setattr).map(|deed| Deed { asked, ..deed })
        }
        ArgOp::Setxattr(_) | ArgOp::Removexattr(_) => object(Operation::Setattr),
        ArgOp::Create(args) => {
            let operation = match args.objtype {
                Createtype4::Dir => Operation::Mkdir,
                Createtype4::Lnk(_) => Operation::Symlink,
                Createtype4::Blk(_)
                | Createtype4::Chr(_)
                | Createtype4::Sock
                | Createtype4::Fifo
                | Createtype4::Other(_) => Operation::Mknod,
            };
            let asked = asked(compound, &args.createattrs);
            name(operation, args.objname.0).map(|deed| Deed { asked, ..deed })
        }
        ArgOp::Open(args) => match (args.openhow, args.claim) {
            (Openflag4::Create(how), OpenClaim4::Null(file)) => {
                let asked = match how {
                    Createhow4::Unchecked(attributes) | Createhow4::Guarded(attributes) => {
                        asked(compound, &attributes)
                    }
                    Createhow4::Exclusive41(marked) => asked(compound, &marked.attrs),
                    Createhow4::Exclusive(_) => Asked::default(),
                };
                name(Operation::Create, file.0).map(|deed| Deed { asked, ..deed })
            }
            _ => None,
        },
        ArgOp::Remove(args) => name(Operation::Remove, args.target.0),
        ArgOp::Rename(args) => {
            let from = named(compound.saved().ok()?, Some(args.oldname.0))?;
            let to = named(current?, Some(args.newname.0));
            let renamed = of(compound, Operation::Rename, from)?;
            Some(Deed { to, ..renamed })
        }
        ArgOp::Link(args) => {
            let file = named(compound.saved().ok()?, None)?;
            let to = named(current?, Some(args.newname.0));
            let linked = of(compound, Operation::Link, file)?;
            Some(Deed { to, ..linked })
        }
        _ => None,
    }
}

/// What is to be set; nothing is told of attributes that the operation will refuse.
pub(super) fn asked(compound: &Compound<'_>, attributes: &Fattr4<'_>) -> Asked {
    let wanted = Wanted::decode_at_once(compound.cx, compound.minor, true, attributes);
    wanted.map_or_else(|_| Asked::default(), |wanted| wanted.told())
}

fn of(compound: &Compound<'_>, operation: Operation, on: Named) -> Option<Deed> {
    Some(told::deed(compound.cx, operation, on, Asked::default()))
}

/// An object of an export; what is above the exports nobody changes.
fn named(place: &Place, name: Option<&[u8]>) -> Option<Named> {
    match place {
        Place::File(target) => Some(Named::new(target.object.handle.as_ref(), name)),
        Place::Node(_) => None,
    }
}
