//! NFS version 3 (RFC 1813 §3): one async function per procedure.
//!
//! Each returns two layers: `Err(RpcError)` when there are no results, else the results as the server
//! gave them, `Ok(...)` or [`Failure`] with the status and what comes with it.
//!
//! One status is not told at once: after `NFS3ERR_JUKEBOX` ("not ready yet, try later") the call is
//! made again, as a new one, after 100 ms, 200 ms and so on up to every 5 seconds, until its time is
//! over ([`ConnectOptions::call_timeout`](crate::ConnectOptions::call_timeout)). [`Nfs3::call`] alone
//! tells it as it comes.
//!
//! Results that borrow in [`nfs_wire`] are owned here, READ's data without a copy.

mod calling;
mod read_into;

use bytes::Bytes;
use nfs_wire::nfs3::{
    AccessArgs, CommitArgs, CreateArgs, DirOpArgs, FsinfoArgs, FsstatArgs, GetattrArgs, LinkArgs,
    LookupArgs, MkdirArgs, MknodArgs, PathconfArgs, Procedure, ReadArgs, ReaddirArgs,
    ReaddirplusArgs, ReadlinkArgs, RemoveArgs, RenameArgs, RmdirArgs, SetattrArgs, SymlinkArgs,
    SymlinkData, WriteHead,
};
use nfs_wire::{Decode, DecodeError, Decoder, Encode};

pub use nfs_wire::nfs3::{
    ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ,
    AccessOk, CommitOk, CreateHow, CreateOk, DeviceData, Failure, Fattr3, FileHandle, Filename,
    FsinfoOk, FsstatOk, Ftype3, GetattrOk, LinkBody, LookupOk, Mknoddata, Nfspath3, Nfsstat3,
    Nfstime3, PROGRAM, PathconfOk, PipeData, PostOpAttr, RenameBody, Sattr3, SetTime, Specdata3,
    StableHow, VERSION, WccAttr, WccData, WriteOk,
};

pub(crate) use self::calling::Answer;
pub use self::read_into::ReadInto;

use crate::connection::{self, Connection, Connections, Extra};
use crate::error::{BadReply, RpcError};
use crate::identity::Identity;

/// What a procedure returns: no results, or results of either kind.
pub type Outcome<O, F> = Result<Result<O, Failure<F>>, RpcError>;

/// The procedures of NFS version 3 over one connection or several to the same server, called as one
/// identity. Clones share the connections.
#[derive(Clone, Debug)]
pub struct Nfs3 {
    connections: Connections,
    identity: Identity,
    read_only: bool,
}

/// An object of a file system as the server told of it: its handle and its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The server's name for it.
    pub handle: FileHandle,
    /// Its attributes at the time of the answer.
    pub attributes: Fattr3,
}

/// READ results (RFC 1813 §3.3.6) with owned data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOk {
    /// The file's attributes after the read.
    pub file_attributes: PostOpAttr,
    /// The read reached the end of the file.
    pub eof: bool,
    /// The bytes read: never more than were asked for. Shares the memory that the reply came in.
    pub data: Bytes,
}

/// READLINK results (RFC 1813 §3.3.5) with an owned path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadlinkOk {
    /// The symbolic link's attributes, if the server told them.
    pub symlink_attributes: PostOpAttr,
    /// Where it points: bytes that the server does not interpret.
    pub data: Vec<u8>,
}

/// READDIR results (RFC 1813 §3.3.16) with owned names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaddirOk {
    /// The directory's attributes, if the server told them.
    pub dir_attributes: PostOpAttr,
    /// To be given back with a cookie of this reply.
    pub cookieverf: [u8; 8],
    /// The entries, in the server's order.
    pub entries: Vec<Entry3>,
    /// The last entry is the directory's last.
    pub eof: bool,
}

/// One entry of READDIR (RFC 1813 §3.3.16), owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry3 {
    /// The file's number, unique on its file system.
    pub fileid: u64,
    /// The name in the directory: bytes that the server does not interpret.
    pub name: Vec<u8>,
    /// Where the next READDIR goes on after this entry.
    pub cookie: u64,
}

/// READDIRPLUS results (RFC 1813 §3.3.17) with owned names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaddirplusOk {
    /// The directory's attributes, if the server told them.
    pub dir_attributes: PostOpAttr,
    /// To be given back with a cookie of this reply.
    pub cookieverf: [u8; 8],
    /// The entries, in the server's order.
    pub entries: Vec<EntryPlus3>,
    /// The last entry is the directory's last.
    pub eof: bool,
}

/// One entry of READDIRPLUS (RFC 1813 §3.3.17), owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPlus3 {
    /// The file's number, unique on its file system.
    pub fileid: u64,
    /// The name in the directory: bytes that the server does not interpret.
    pub name: Vec<u8>,
    /// Where the next READDIRPLUS goes on after this entry.
    pub cookie: u64,
    /// Its attributes, if the server gave them.
    pub name_attributes: PostOpAttr,
    /// Its handle, if the server gave it.
    pub name_handle: Option<FileHandle>,
}

impl Nfs3 {
    /// Calls over one connection ([`Connection`]) or several ([`Connections`]) as `identity`.
    pub fn new(connections: impl Into<Connections>, identity: Identity) -> Self {
        Self {
            connections: connections.into(),
            identity,
            read_only: false,
        }
    }

    /// These procedures over the same connections, called as `identity`.
    pub fn with_identity(&self, identity: Identity) -> Self {
        Self {
            identity,
            ..self.clone()
        }
    }

    /// These procedures over the same connections, for reading only: procedures that change anything are not sent, and fail
    /// with `NFS3ERR_ROFS`.
    #[must_use]
    pub fn read_only(&self) -> Self {
        Self {
            read_only: true,
            ..self.clone()
        }
    }

    /// The first of the connections, which exists in any case.
    pub fn connection(&self) -> &Connection {
        self.connections.first()
    }

    /// All connections that calls are spread over.
    pub fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Who the calls are made as.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// NULL: does nothing (RFC 1813 §3.3.0).
    pub async fn null(&self) -> Result<(), RpcError> {
        self.typed(Procedure::Null, &()).await
    }

    /// GETATTR: the attributes of an object (RFC 1813 §3.3.1).
    pub async fn getattr(&self, object: &FileHandle) -> Outcome<GetattrOk, ()> {
        self.typed(Procedure::Getattr, &GetattrArgs { object: *object })
            .await
    }

    /// SETATTR: changes attributes; with `guard`, only if the object's ctime is that (RFC 1813
    /// §3.3.2).
    pub async fn setattr(
        &self,
        object: &FileHandle,
        new_attributes: &Sattr3,
        guard: Option<Nfstime3>,
    ) -> Outcome<WccData, WccData> {
        let args = SetattrArgs {
            object: *object,
            new_attributes: *new_attributes,
            guard,
        };
        self.typed(Procedure::Setattr, &args).await
    }

    /// LOOKUP: the handle of a name in a directory (RFC 1813 §3.3.3).
    pub async fn lookup(&self, dir: &FileHandle, name: &[u8]) -> Outcome<LookupOk, PostOpAttr> {
        self.typed(
            Procedure::Lookup,
            &LookupArgs {
                what: entry(dir, name),
            },
        )
        .await
    }

    /// ACCESS: which of the `ACCESS3_*` bits in `access` this identity has (RFC 1813 §3.3.4).
    pub async fn access(&self, object: &FileHandle, access: u32) -> Outcome<AccessOk, PostOpAttr> {
        self.typed(
            Procedure::Access,
            &AccessArgs {
                object: *object,
                access,
            },
        )
        .await
    }

    /// READLINK: where a symbolic link points (RFC 1813 §3.3.5).
    pub async fn readlink(&self, symlink: &FileHandle) -> Outcome<ReadlinkOk, PostOpAttr> {
        let args = ReadlinkArgs { symlink: *symlink };
        let results = self.results(Procedure::Readlink, &args).await?;
        decode_owned(&results, |ok: nfs_wire::nfs3::ReadlinkOk<'_>| ReadlinkOk {
            symlink_attributes: ok.symlink_attributes,
            data: ok.data.0.to_vec(),
        })
    }

    /// READ: `count` bytes from `offset`, or fewer (RFC 1813 §3.3.6). A reply with more data than
    /// was asked for, or another count than data, is [`BadReply::ReadCount`].
    pub async fn read(
        &self,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Outcome<ReadOk, PostOpAttr> {
        let args = ReadArgs {
            file: *file,
            offset,
            count,
        };
        let results = self.results(Procedure::Read, &args).await?;
        let answer: Result<nfs_wire::nfs3::ReadOk<'_>, Failure<PostOpAttr>> =
            connection::decode_results(&results)?;
        let ok = match answer {
            Ok(ok) => ok,
            Err(failure) => return Ok(Err(failure)),
        };
        let len = ok.data.len();
        if ok.count > count || usize::try_from(ok.count) != Ok(len) {
            let bad = BadReply::ReadCount {
                asked: count,
                count: ok.count,
                len,
            };
            return Err(RpcError::BadReply(bad));
        }
        let data = results.slice_ref(ok.data);
        Ok(Ok(ReadOk {
            file_attributes: ok.file_attributes,
            eof: ok.eof,
            data,
        }))
    }

    /// WRITE: `data` at `offset`, at least as stable as `stable` (RFC 1813 §3.3.7). The data is sent
    /// from where it is.
    pub async fn write(
        &self,
        file: &FileHandle,
        offset: u64,
        stable: StableHow,
        data: Bytes,
    ) -> Outcome<WriteOk, WccData> {
        let Ok(count) = u32::try_from(data.len()) else {
            let max = usize::try_from(u32::MAX).unwrap_or(usize::MAX);
            return Err(RpcError::CallTooLarge {
                len: data.len(),
                max,
            });
        };
        let head = WriteHead {
            file: *file,
            offset,
            count,
            stable,
            data_len: count,
        };
        let extra = Extra::Payload(data);
        let reply = self.patient(Procedure::Write, &head, extra).await?;
        connection::decode_results(&reply.results)
    }

    /// CREATE: a regular file (RFC 1813 §3.3.8).
    pub async fn create(
        &self,
        dir: &FileHandle,
        name: &[u8],
        how: &CreateHow,
    ) -> Outcome<CreateOk, WccData> {
        let args = CreateArgs {
            where_: entry(dir, name),
            how: *how,
        };
        self.typed(Procedure::Create, &args).await
    }

    /// MKDIR: a directory (RFC 1813 §3.3.9).
    pub async fn mkdir(
        &self,
        dir: &FileHandle,
        name: &[u8],
        attributes: &Sattr3,
    ) -> Outcome<CreateOk, WccData> {
        let args = MkdirArgs {
            where_: entry(dir, name),
            attributes: *attributes,
        };
        self.typed(Procedure::Mkdir, &args).await
    }

    /// SYMLINK: a symbolic link to `target` (RFC 1813 §3.3.10).
    pub async fn symlink(
        &self,
        dir: &FileHandle,
        name: &[u8],
        attributes: &Sattr3,
        target: &[u8],
    ) -> Outcome<CreateOk, WccData> {
        let symlink = SymlinkData {
            symlink_attributes: *attributes,
            symlink_data: Nfspath3(target),
        };
        self.typed(
            Procedure::Symlink,
            &SymlinkArgs {
                where_: entry(dir, name),
                symlink,
            },
        )
        .await
    }

    /// MKNOD: a device, socket or fifo (RFC 1813 §3.3.11).
    pub async fn mknod(
        &self,
        dir: &FileHandle,
        name: &[u8],
        what: &Mknoddata,
    ) -> Outcome<CreateOk, WccData> {
        let args = MknodArgs {
            where_: entry(dir, name),
            what: *what,
        };
        self.typed(Procedure::Mknod, &args).await
    }

    /// REMOVE: a name that is not a directory's (RFC 1813 §3.3.12).
    pub async fn remove(&self, dir: &FileHandle, name: &[u8]) -> Outcome<WccData, WccData> {
        self.typed(
            Procedure::Remove,
            &RemoveArgs {
                object: entry(dir, name),
            },
        )
        .await
    }

    /// RMDIR: an empty directory (RFC 1813 §3.3.13).
    pub async fn rmdir(&self, dir: &FileHandle, name: &[u8]) -> Outcome<WccData, WccData> {
        self.typed(
            Procedure::Rmdir,
            &RmdirArgs {
                object: entry(dir, name),
            },
        )
        .await
    }

    /// RENAME: gives a file another name, replacing what has it (RFC 1813 §3.3.14).
    pub async fn rename(
        &self,
        from_dir: &FileHandle,
        from_name: &[u8],
        to_dir: &FileHandle,
        to_name: &[u8],
    ) -> Outcome<RenameBody, RenameBody> {
        let args = RenameArgs {
            from: entry(from_dir, from_name),
            to: entry(to_dir, to_name),
        };
        self.typed(Procedure::Rename, &args).await
    }

    /// LINK: gives a file one more name (RFC 1813 §3.3.15).
    pub async fn link(
        &self,
        file: &FileHandle,
        dir: &FileHandle,
        name: &[u8],
    ) -> Outcome<LinkBody, LinkBody> {
        self.typed(
            Procedure::Link,
            &LinkArgs {
                file: *file,
                link: entry(dir, name),
            },
        )
        .await
    }

    /// READDIR: names of a directory after `cookie`; `count` is the room for the results in bytes
    /// (RFC 1813 §3.3.16).
    pub async fn readdir(
        &self,
        dir: &FileHandle,
        cookie: u64,
        cookieverf: [u8; 8],
        count: u32,
    ) -> Outcome<ReaddirOk, PostOpAttr> {
        let args = ReaddirArgs {
            dir: *dir,
            cookie,
            cookieverf,
            count,
        };
        let results = self.results(Procedure::Readdir, &args).await?;
        decode_owned(&results, |ok: nfs_wire::nfs3::ReaddirOk<'_>| ReaddirOk {
            dir_attributes: ok.dir_attributes,
            cookieverf: ok.cookieverf,
            entries: ok.entries.iter().map(Entry3::from_wire).collect(),
            eof: ok.eof,
        })
    }

    /// READDIRPLUS: names, attributes and handles after `cookie`; `dircount` is the room for names,
    /// fileids and cookies, `maxcount` that for the results, both in bytes (RFC 1813 §3.3.17).
    pub async fn readdirplus(
        &self,
        dir: &FileHandle,
        cookie: u64,
        cookieverf: [u8; 8],
        dircount: u32,
        maxcount: u32,
    ) -> Outcome<ReaddirplusOk, PostOpAttr> {
        let args = ReaddirplusArgs {
            dir: *dir,
            cookie,
            cookieverf,
            dircount,
            maxcount,
        };
        let results = self.results(Procedure::Readdirplus, &args).await?;
        decode_owned(&results, |ok: nfs_wire::nfs3::ReaddirplusOk<'_>| {
            ReaddirplusOk {
                dir_attributes: ok.dir_attributes,
                cookieverf: ok.cookieverf,
                entries: ok.entries.iter().map(EntryPlus3::from_wire).collect(),
                eof: ok.eof,
            }
        })
    }

    /// FSSTAT: space and inodes of a file system (RFC 1813 §3.3.18).
    pub async fn fsstat(&self, root: &FileHandle) -> Outcome<FsstatOk, PostOpAttr> {
        self.typed(Procedure::Fsstat, &FsstatArgs { fsroot: *root })
            .await
    }

    /// FSINFO: sizes and abilities of a server's file system (RFC 1813 §3.3.19).
    pub async fn fsinfo(&self, root: &FileHandle) -> Outcome<FsinfoOk, PostOpAttr> {
        self.typed(Procedure::Fsinfo, &FsinfoArgs { fsroot: *root })
            .await
    }

    /// PATHCONF: limits on names and links (RFC 1813 §3.3.20).
    pub async fn pathconf(&self, object: &FileHandle) -> Outcome<PathconfOk, PostOpAttr> {
        self.typed(Procedure::Pathconf, &PathconfArgs { object: *object })
            .await
    }

    /// COMMIT: puts unstable writes of `offset..offset + count` on stable storage; `count` 0 means
    /// to the end of the file (RFC 1813 §3.3.21).
    pub async fn commit(
        &self,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Outcome<CommitOk, WccData> {
        let args = CommitArgs {
            file: *file,
            offset,
            count,
        };
        self.typed(Procedure::Commit, &args).await
    }

    /// Any procedure with any arguments: the results' bytes, not decoded and whatever their status. For
    /// tests that send arguments which contradict themselves.
    pub async fn call<A: Encode + ?Sized>(
        &self,
        procedure: Procedure,
        args: &A,
    ) -> Result<Bytes, RpcError> {
        self.connections
            .least_busy()
            .call(number(procedure), &self.identity, args)
            .await
    }
}

impl Entry3 {
    fn from_wire(entry: &nfs_wire::nfs3::Entry3<'_>) -> Self {
        Self {
            fileid: entry.fileid,
            name: entry.name.0.to_vec(),
            cookie: entry.cookie,
        }
    }
}

impl EntryPlus3 {
    fn from_wire(plus: &nfs_wire::nfs3::EntryPlus3<'_>) -> Self {
        Self {
            fileid: plus.entry.fileid,
            name: plus.entry.name.0.to_vec(),
            cookie: plus.entry.cookie,
            name_attributes: plus.name_attributes,
            name_handle: plus.name_handle,
        }
    }
}

/// The number of an NFSv3 procedure, for [`Connection::call_raw`].
pub fn number(procedure: Procedure) -> connection::Procedure {
    connection::Procedure {
        program: PROGRAM,
        version: VERSION,
        number: procedure as u32,
    }
}

pub(crate) fn entry<'a>(dir: &FileHandle, name: &'a [u8]) -> DirOpArgs<'a> {
    DirOpArgs {
        dir: *dir,
        name: Filename(name),
    }
}

fn decode_owned<'a, W, O, F>(results: &'a [u8], own: impl FnOnce(W) -> O) -> Outcome<O, F>
where
    W: Decode<'a>,
    F: Decode<'a>,
{
    let decode = |results| {
        let mut decoder = Decoder::new(results);
        let answer = Result::<W, Failure<F>>::decode(&mut decoder)?;
        decoder.finish()?;
        Ok::<_, DecodeError>(answer.map(own))
    };
    decode(results).map_err(|error| RpcError::BadReply(BadReply::Decode(error)))
}
