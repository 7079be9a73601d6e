//! What the double answers when it behaves: the procedures of NFSv3 and MOUNT on the store.

use nfs_client::nfs3::{
    AccessOk, CommitOk, CreateHow, CreateOk, FileHandle, FsinfoOk, FsstatOk, Ftype3, GetattrOk,
    LinkBody, LookupOk, Nfsstat3, Nfstime3, PathconfOk, PostOpAttr, RenameBody, Sattr3, WccData,
    WriteOk,
};
use nfs_wire::nfs3::{
    Call, Entry3, EntryPlus3, Filename, Nfspath3, Procedure, ReadOk, ReaddirOk, ReaddirplusOk,
    ReadlinkOk,
};
use nfs_wire::{Encode, encode_to_vec};

use super::faults::Plan;
use super::store::{Id, Kind, Store};

/// Entries of one listing's reply.
const PAGE: usize = 7;

type Answer = Result<Vec<u8>, Nfsstat3>;

/// Executes a call; the results' bytes.
pub(crate) fn execute(store: &mut Store, call: &Call<'_>, plan: &Plan) -> Vec<u8> {
    let procedure = call.procedure();
    match plan.refuse.map_or_else(|| answer(store, call, plan), Err) {
        Ok(results) => results,
        Err(status) => refusal(procedure, status),
    }
}

/// The results of a procedure that failed, without any attributes.
fn refusal(procedure: Procedure, status: Nfsstat3) -> Vec<u8> {
    let wcc = WccData {
        before: None,
        after: None,
    };
    let body = match procedure {
        Procedure::Null | Procedure::Getattr => Vec::new(),
        Procedure::Rename => encode_to_vec(&RenameBody {
            fromdir_wcc: wcc,
            todir_wcc: wcc,
        }),
        Procedure::Link => encode_to_vec(&LinkBody {
            file_attributes: None,
            linkdir_wcc: wcc,
        }),
        Procedure::Setattr
        | Procedure::Write
        | Procedure::Create
        | Procedure::Mkdir
        | Procedure::Symlink
        | Procedure::Mknod
        | Procedure::Remove
        | Procedure::Rmdir
        | Procedure::Commit => encode_to_vec(&wcc),
        _ => encode_to_vec(&PostOpAttr::None),
    };
    [encode_to_vec(&status), body].concat()
}

fn ok(value: &impl Encode) -> Answer {
    Ok([vec![0; 4], encode_to_vec(value)].concat())
}

fn answer(store: &mut Store, call: &Call<'_>, plan: &Plan) -> Answer {
    match call {
        Call::Null(()) => Ok(Vec::new()),
        Call::Getattr(args) => {
            let obj_attributes = store.attributes(store.id(&args.object)?);
            ok(&GetattrOk { obj_attributes })
        }
        Call::Setattr(args) => {
            let id = store.id(&args.object)?;
            let before = store.before(id);
            store.set(id, &args.new_attributes);
            ok(&store.wcc(id, before))
        }
        Call::Lookup(args) => {
            let dir = store.id(&args.what.dir)?;
            let id = store.lookup(dir, args.what.name.0)?;
            ok(&LookupOk {
                object: Store::handle(id),
                obj_attributes: Some(store.attributes(id)),
                dir_attributes: Some(store.attributes(dir)),
            })
        }
        Call::Access(args) => ok(&AccessOk {
            obj_attributes: Some(store.attributes(store.id(&args.object)?)),
            access: args.access,
        }),
        Call::Readlink(args) => {
            let id = store.id(&args.symlink)?;
            let Kind::Link(target) = &store.node(id).kind else {
                return Err(Nfsstat3::Inval);
            };
            ok(&ReadlinkOk {
                symlink_attributes: Some(store.attributes(id)),
                data: Nfspath3(target),
            })
        }
        Call::Read(args) => read(store, store.id(&args.file)?, args.offset, args.count, plan),
        Call::Write(args) => {
            let id = store.id(&args.file)?;
            let before = store.before(id);
            let len = args.data.len().min(plan.bytes_max.unwrap_or(usize::MAX));
            store.write(id, args.offset, &args.data[..len], args.stable)?;
            ok(&WriteOk {
                file_wcc: store.wcc(id, before),
                count: u32::try_from(len).unwrap(),
                committed: args.stable,
                verf: store.verifier.to_be_bytes(),
            })
        }
        Call::Commit(args) => {
            let id = store.id(&args.file)?;
            let before = store.before(id);
            store.commit(id)?;
            ok(&CommitOk {
                file_wcc: store.wcc(id, before),
                verf: store.verifier.to_be_bytes(),
            })
        }
        call => names(store, call),
    }
}

fn read(store: &Store, id: Id, offset: u64, count: u32, plan: &Plan) -> Answer {
    let content = &store.content(id)?.now;
    let start = usize::try_from(offset).unwrap().min(content.len());
    let rest = &content[start..];
    let wanted = usize::try_from(count).unwrap();
    let data = &rest[..rest
        .len()
        .min(wanted)
        .min(plan.bytes_max.unwrap_or(usize::MAX))];
    ok(&ReadOk {
        file_attributes: Some(store.attributes(id)),
        count: u32::try_from(data.len()).unwrap(),
        eof: data.len() == rest.len(),
        data,
    })
}

/// Executes the procedures that look names up, make, remove and list them.
fn names(store: &mut Store, call: &Call<'_>) -> Answer {
    match call {
        Call::Create(args) => {
            let (dir, name) = (&args.where_.dir, args.where_.name.0);
            let at = store.id(dir)?;
            match &args.how {
                CreateHow::Unchecked(new) => {
                    if let Ok(there) = store.lookup(at, name) {
                        store.content(there)?;
                        let before = store.before(at);
                        store.set(there, new);
                        return created(store, at, there, before);
                    }
                    make(store, dir, name, Kind::File(Default::default()), new, None)
                }
                CreateHow::Guarded(new) => {
                    make(store, dir, name, Kind::File(Default::default()), new, None)
                }
                CreateHow::Exclusive(verifier) => {
                    let none = Sattr3::default();
                    let file = Kind::File(Default::default());
                    make(store, dir, name, file, &none, Some(*verifier))
                }
            }
        }
        Call::Mkdir(args) => {
            let kind = Kind::Dir(Default::default());
            make(
                store,
                &args.where_.dir,
                args.where_.name.0,
                kind,
                &args.attributes,
                None,
            )
        }
        Call::Symlink(args) => {
            let kind = Kind::Link(args.symlink.symlink_data.0.to_vec());
            let new = &args.symlink.symlink_attributes;
            make(store, &args.where_.dir, args.where_.name.0, kind, new, None)
        }
        Call::Mknod(_) => Err(Nfsstat3::Notsupp),
        Call::Remove(args) => remove(store, &args.object.dir, args.object.name.0, false),
        Call::Rmdir(args) => remove(store, &args.object.dir, args.object.name.0, true),
        Call::Rename(args) => {
            let (from, to) = (store.id(&args.from.dir)?, store.id(&args.to.dir)?);
            let before = (store.before(from), store.before(to));
            store.rename((from, args.from.name.0), (to, args.to.name.0))?;
            ok(&RenameBody {
                fromdir_wcc: store.wcc(from, before.0),
                todir_wcc: store.wcc(to, before.1),
            })
        }
        Call::Link(args) => {
            let (file, dir) = (store.id(&args.file)?, store.id(&args.link.dir)?);
            let before = store.before(dir);
            store.link(file, dir, args.link.name.0)?;
            ok(&LinkBody {
                file_attributes: Some(store.attributes(file)),
                linkdir_wcc: store.wcc(dir, before),
            })
        }
        Call::Readdir(args) => {
            let dir = store.id(&args.dir)?;
            let (page, eof) = page(store, dir, args.cookie)?;
            ok(&ReaddirOk {
                dir_attributes: Some(store.attributes(dir)),
                cookieverf: [0; 8],
                entries: page.iter().map(entry).collect(),
                eof,
            })
        }
        Call::Readdirplus(args) => {
            let dir = store.id(&args.dir)?;
            let (page, eof) = page(store, dir, args.cookie)?;
            ok(&ReaddirplusOk {
                dir_attributes: Some(store.attributes(dir)),
                cookieverf: [0; 8],
                entries: page.iter().map(|found| plus(store, found)).collect(),
                eof,
            })
        }
        call => limits(store, call),
    }
}

fn make(
    store: &mut Store,
    dir: &FileHandle,
    name: &[u8],
    kind: Kind,
    new: &Sattr3,
    exclusive: Option<[u8; 8]>,
) -> Answer {
    let dir = store.id(dir)?;
    let before = store.before(dir);
    let id = store.make(dir, name, kind, new, exclusive)?;
    created(store, dir, id, before)
}

fn created(store: &Store, dir: Id, id: Id, before: nfs_client::nfs3::WccAttr) -> Answer {
    ok(&CreateOk {
        obj: Some(Store::handle(id)),
        obj_attributes: Some(store.attributes(id)),
        dir_wcc: store.wcc(dir, before),
    })
}

fn remove(store: &mut Store, dir: &FileHandle, name: &[u8], is_rmdir: bool) -> Answer {
    let dir = store.id(dir)?;
    let before = store.before(dir);
    store.remove(dir, name, is_rmdir)?;
    ok(&store.wcc(dir, before))
}

/// A name and its object; the cookie is the object's number, which no other entry of a directory has
/// unless it is a further name, which these tests do not list.
type Found = (Vec<u8>, Id);

fn page(store: &Store, dir: Id, cookie: u64) -> Result<(Vec<Found>, bool), Nfsstat3> {
    let entries = store.dir(dir)?;
    let mut sorted: Vec<Found> = entries
        .iter()
        .map(|(name, id)| (name.clone(), *id))
        .collect();
    sorted.sort_by_key(|(_, id)| *id);
    let rest: Vec<Found> = sorted.into_iter().filter(|(_, id)| *id > cookie).collect();
    let eof = rest.len() <= PAGE;
    Ok((rest.into_iter().take(PAGE).collect(), eof))
}

fn entry(found: &Found) -> Entry3<'_> {
    Entry3 {
        fileid: found.1,
        name: Filename(&found.0),
        cookie: found.1,
    }
}

fn plus<'a>(store: &Store, found: &'a Found) -> EntryPlus3<'a> {
    EntryPlus3 {
        entry: entry(found),
        name_attributes: Some(store.attributes(found.1)),
        name_handle: Some(Store::handle(found.1)),
    }
}

fn limits(store: &Store, call: &Call<'_>) -> Answer {
    match call {
        Call::Fsinfo(args) => ok(&FsinfoOk {
            obj_attributes: Some(store.attributes(store.id(&args.fsroot)?)),
            rtmax: 8192,
            rtpref: 8192,
            rtmult: 1,
            wtmax: 8192,
            wtpref: 8192,
            wtmult: 1,
            dtpref: 4096,
            maxfilesize: 1 << 40,
            time_delta: Nfstime3 {
                seconds: 0,
                nseconds: 1,
            },
            properties: 0x1b,
        }),
        Call::Fsstat(args) => ok(&FsstatOk {
            obj_attributes: Some(store.attributes(store.id(&args.fsroot)?)),
            tbytes: 1 << 40,
            fbytes: 1 << 39,
            abytes: 1 << 39,
            tfiles: 1000,
            ffiles: 900,
            afiles: 900,
            invarsec: 0,
        }),
        Call::Pathconf(args) => ok(&PathconfOk {
            obj_attributes: Some(store.attributes(store.id(&args.object)?)),
            linkmax: 100,
            name_max: 255,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        }),
        _ => Err(Nfsstat3::Notsupp),
    }
}

/// What an object is, for the tests.
pub(crate) fn ftype(store: &Store, id: Id) -> Ftype3 {
    store.attributes(id).ftype
}
