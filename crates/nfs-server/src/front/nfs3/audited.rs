//! What the audit is told of a call of NFSv3.

use nfs_wire::Decode as _;
use nfs_wire::nfs3::{Call, CreateHow, DirOpArgs, FileHandle, Mknoddata, Nfsstat3, Sattr3};

use super::{Context, Request};
use crate::front::told;
use crate::operate::audit::{Asked, Deed, Named, Operation};

/// The status that a call's results begin with.
pub(super) fn status_of(results: &[u8]) -> Option<&'static str> {
    let status = Nfsstat3::decode(&mut nfs_wire::Decoder::new(results));
    status.ok().map(Nfsstat3::word)
}

/// `None` for calls that are not audited.
pub(super) fn deed(cx: &Context, request: &Request<'_>) -> Option<Deed> {
    let call = match request {
        Request::Write(head, _) => {
            return Some(of_object(
                cx,
                Operation::Write,
                &head.file,
                Asked::default(),
            ));
        }
        Request::Other(call) => call,
    };
    let none = Asked::default();
    Some(match call {
        Call::Read(args) => of_object(cx, Operation::Read, &args.file, none),
        Call::Setattr(args) => of_object(
            cx,
            Operation::Setattr,
            &args.object,
            asked(&args.new_attributes),
        ),
        Call::Create(args) => {
            let set = match &args.how {
                CreateHow::Unchecked(set) | CreateHow::Guarded(set) => asked(set),
                CreateHow::Exclusive(_) => none,
            };
            of_name(cx, Operation::Create, &args.where_, set)
        }
        Call::Mkdir(args) => of_name(cx, Operation::Mkdir, &args.where_, asked(&args.attributes)),
        Call::Symlink(args) => {
            let set = asked(&args.symlink.symlink_attributes);
            of_name(cx, Operation::Symlink, &args.where_, set)
        }
        Call::Mknod(args) => {
            let set = match &args.what {
                Mknoddata::CharacterDevice(device) | Mknoddata::BlockDevice(device) => {
                    asked(&device.dev_attributes)
                }
                Mknoddata::Socket(pipe) | Mknoddata::Fifo(pipe) => asked(&pipe.pipe_attributes),
                Mknoddata::Other(_) => none,
            };
            of_name(cx, Operation::Mknod, &args.where_, set)
        }
        Call::Remove(args) => of_name(cx, Operation::Remove, &args.object, none),
        Call::Rmdir(args) => of_name(cx, Operation::Rmdir, &args.object, none),
        Call::Rename(args) => Deed {
            to: Some(named(&args.to)),
            ..of_name(cx, Operation::Rename, &args.from, none)
        },
        Call::Link(args) => Deed {
            to: Some(named(&args.link)),
            ..of_object(cx, Operation::Link, &args.file, none)
        },
        Call::Null(())
        | Call::Write(_)
        | Call::Getattr(_)
        | Call::Lookup(_)
        | Call::Access(_)
        | Call::Readlink(_)
        | Call::Readdir(_)
        | Call::Readdirplus(_)
        | Call::Fsstat(_)
        | Call::Fsinfo(_)
        | Call::Pathconf(_)
        | Call::Commit(_) => return None,
    })
}

fn of_object(cx: &Context, operation: Operation, object: &FileHandle, asked: Asked) -> Deed {
    told::deed(cx, operation, Named::new(object.as_ref(), None), asked)
}

fn of_name(cx: &Context, operation: Operation, entry: &DirOpArgs<'_>, asked: Asked) -> Deed {
    told::deed(cx, operation, named(entry), asked)
}

fn named(entry: &DirOpArgs<'_>) -> Named {
    Named::new(entry.dir.as_ref(), Some(entry.name.0))
}

const fn asked(set: &Sattr3) -> Asked {
    Asked {
        mode: set.mode,
        uid: set.uid,
        gid: set.gid,
        size: set.size,
    }
}
