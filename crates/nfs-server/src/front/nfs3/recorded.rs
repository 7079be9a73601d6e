//! What a recording of a load has of a call of NFSv3.

use nfs_wire::nfs3::{
    Call, CreateHow, CreateOk, DirOpArgs, Failure, FileHandle, LookupOk, Nfsstat3, PostOpAttr,
    Procedure, WccData, WriteOk,
};
use nfs_wire::{Decode, Decoder};

use super::{Context, Held, Request};
use crate::operate::calls::{self, Action, Recorder};

/// A call that is recorded, until it is answered.
pub(super) struct Recorded {
    action: Action,
    procedure: Procedure,
    begun: u64,
}

/// The call, if somebody records.
pub(super) fn recorded(cx: &Context, request: &Request<'_>) -> Option<Box<Recorded>> {
    let recorder = &cx.service.calls;
    recorder.is_recording().then(|| {
        let (procedure, action) = asked(recorder, request);
        let action = Action {
            version: 3,
            number: procedure as u32,
            ..action
        };
        Box::new(Recorded {
            action,
            procedure,
            begun: calls::action_begins(true),
        })
    })
}

impl Recorded {
    /// The call is answered with `results`, and with what is held for its reply.
    pub(super) fn answered(mut self, cx: &Context, results: &[u8], held: &Held) {
        let recorder = &cx.service.calls;
        let status = Nfsstat3::decode(&mut Decoder::new(results));
        self.action.status = match self.procedure {
            Procedure::Null => 0,
            _ => status.map_or(0, |status| status as u32),
        };
        let number = |handle: FileHandle| recorder.number_of(handle.as_ref());
        match self.procedure {
            Procedure::Read => {
                self.action.moved = held.data.as_ref().map(|data| data.len() as u64);
            }
            Procedure::Write => {
                let done = ok::<WriteOk, WccData>(results);
                self.action.moved = done.map(|done| u64::from(done.count));
            }
            Procedure::Lookup => {
                let found = ok::<LookupOk, PostOpAttr>(results);
                self.action.to = found.map(|found| number(found.object));
            }
            Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod => {
                let made = ok::<CreateOk, WccData>(results);
                self.action.to = made.and_then(|made| made.obj).map(number);
            }
            _ => {}
        }
        calls::acted(self.action, self.begun);
    }
}

/// The results of a call that went well.
fn ok<'a, O: Decode<'a>, F: Decode<'a>>(results: &'a [u8]) -> Option<O> {
    let results: Result<O, Failure<F>> = Decode::decode(&mut Decoder::new(results)).ok()?;
    results.ok()
}

/// What is asked for.
fn asked(recorder: &Recorder, request: &Request<'_>) -> (Procedure, Action) {
    let call = match request {
        Request::Write(head, _) => {
            let action = Action {
                range: Some((head.offset, head.count.into())),
                how: Some(head.stable as u32),
                ..on(recorder, &head.file)
            };
            return (Procedure::Write, action);
        }
        Request::Other(call) => call,
    };
    let ranged = |file, offset: u64, count: u32| Action {
        range: Some((offset, count.into())),
        ..on(recorder, file)
    };
    let action = match call {
        // A WRITE always comes as `Request::Write`.
        Call::Null(()) | Call::Write(_) => Action::default(),
        Call::Getattr(args) => on(recorder, &args.object),
        Call::Setattr(args) => Action {
            range: args.new_attributes.size.map(|size| (size, 0)),
            ..on(recorder, &args.object)
        },
        Call::Lookup(args) => named(recorder, &args.what),
        Call::Access(args) => on(recorder, &args.object),
        Call::Readlink(args) => on(recorder, &args.symlink),
        Call::Read(args) => ranged(&args.file, args.offset, args.count),
        Call::Commit(args) => ranged(&args.file, args.offset, args.count),
        Call::Create(args) => {
            let (how, size) = match &args.how {
                CreateHow::Unchecked(set) => (0, set.size),
                CreateHow::Guarded(set) => (1, set.size),
                CreateHow::Exclusive(_) => (2, None),
            };
            Action {
                range: size.map(|size| (size, 0)),
                how: Some(how),
                ..named(recorder, &args.where_)
            }
        }
        Call::Mkdir(args) => named(recorder, &args.where_),
        Call::Symlink(args) => named(recorder, &args.where_),
        Call::Mknod(args) => named(recorder, &args.where_),
        Call::Remove(args) => named(recorder, &args.object),
        Call::Rmdir(args) => named(recorder, &args.object),
        Call::Rename(args) => with_new_name(recorder, named(recorder, &args.from), &args.to),
        Call::Link(args) => with_new_name(recorder, on(recorder, &args.file), &args.link),
        Call::Readdir(args) => ranged(&args.dir, args.cookie, args.count),
        Call::Readdirplus(args) => ranged(&args.dir, args.cookie, args.maxcount),
        Call::Fsstat(args) => on(recorder, &args.fsroot),
        Call::Fsinfo(args) => on(recorder, &args.fsroot),
        Call::Pathconf(args) => on(recorder, &args.object),
    };
    (call.procedure(), action)
}

fn on(recorder: &Recorder, object: &FileHandle) -> Action {
    Action {
        on: Some(recorder.number_of(object.as_ref())),
        ..Action::default()
    }
}

fn named(recorder: &Recorder, entry: &DirOpArgs<'_>) -> Action {
    let (dir, name) = (entry.dir.as_ref(), entry.name.0);
    Action {
        name: Some(recorder.number_of_name(dir, name)),
        ..on(recorder, &entry.dir)
    }
}

fn with_new_name(recorder: &Recorder, action: Action, entry: &DirOpArgs<'_>) -> Action {
    let new = named(recorder, entry);
    Action {
        to: new.on,
        to_name: new.name,
        ..action
    }
}
