//! Files and directories: one COMPOUND per function.

use bytes::Bytes;
use nfs_wire::Payload;
use nfs_wire::nfs4::ops::{
    CloseArgs, CommitArgs, CreateArgs, Createhow4, Createtype4, GetattrArgs, LookupArgs,
    OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WANT_NO_DELEG, OPEN4_SHARE_ACCESS_WRITE,
    OPEN4_SHARE_DENY_NONE, OpenArgs, OpenClaim4, Openflag4, PutfhArgs, ReadArgs, ReaddirArgs,
    RemoveArgs, SetattrArgs, WriteArgs,
};
use nfs_wire::nfs4::{
    ArgOp, Attribute, Attributes, Bitmap4, Clientid4, Component4, CompoundRes, Fattr4, FileHandle,
    Fsid4, Ftype4, Nfstime4, Opaque4, Opnum, ResOp, Specdata4, StableHow4, StateOwner4, Stateid4,
    Verifier4,
};
use nfs_wire::{Decode, Decoder, encode_to_vec};

use super::{Nfs4, Nfs4Error, Results};
use crate::limits;

/// What every object is asked for.
pub(crate) const ASKED: Bitmap4 = Bitmap4::of(&[
    Attribute::Type.number(),
    Attribute::Change.number(),
    Attribute::Size.number(),
    Attribute::Fsid.number(),
    Attribute::Fileid.number(),
    Attribute::Mode.number(),
    Attribute::Numlinks.number(),
    Attribute::Owner.number(),
    Attribute::OwnerGroup.number(),
    Attribute::Rawdev.number(),
    Attribute::SpaceUsed.number(),
    Attribute::TimeAccess.number(),
    Attribute::TimeMetadata.number(),
    Attribute::TimeModify.number(),
]);

/// The attributes of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat4 {
    /// What kind of object it is.
    pub ftype: Ftype4,
    /// A number that becomes another one with each change.
    pub change: u64,
    /// The size of its contents, bytes.
    pub size: u64,
    /// Tells its file system from others of the server.
    pub fsid: Fsid4,
    /// Tells it from others of its file system; 0 where the server does not say.
    pub fileid: u64,
    /// Permission bits, set-user-ID, set-group-ID and sticky bit; 0 where the server does not say.
    pub mode: u32,
    /// How many names it has; 1 where the server does not say.
    pub numlinks: u32,
    /// The name of its owner, or the number in decimal; empty where the server does not say.
    pub owner: Vec<u8>,
    /// The name of its group, or the number in decimal; empty where the server does not say.
    pub owner_group: Vec<u8>,
    /// The numbers of a device; 0 for other objects, and where the server does not say.
    pub rawdev: Specdata4,
    /// Bytes of disk in use; 0 where the server does not say.
    pub space_used: u64,
    /// When its contents were read last.
    pub time_access: Nfstime4,
    /// When its attributes were changed last.
    pub time_metadata: Nfstime4,
    /// When its contents were changed last.
    pub time_modify: Nfstime4,
}

/// An object: its handle and its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node4 {
    /// The server's name for it.
    pub handle: FileHandle,
    /// Its attributes at the time of the answer.
    pub stat: Stat4,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry4 {
    /// The name in the directory: bytes that the server does not interpret.
    pub name: Vec<u8>,
    /// The object's attributes; none where the server cannot tell them.
    pub stat: Option<Stat4>,
}

/// A file that this session has open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile4 {
    /// The file and its attributes, as the server gave them.
    pub node: Node4,
    /// What the server calls the open.
    pub stateid: Stateid4,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenHow {
    /// To be read; it has to be there.
    Read,
    /// To be read and written; it is made with this mode if it is not there.
    Write {
        /// Permission bits of a file that is made.
        mode: u32,
        /// What it had is cut off.
        truncate: bool,
    },
}

/// The data that a READ brought, and whether the file ends with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read4 {
    /// The bytes that were read, which share the memory that the reply came in.
    pub data: Bytes,
    /// They end at the file's end.
    pub eof: bool,
}

/// How much a WRITE wrote, and what is promised of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written4 {
    /// How many bytes were written.
    pub count: u32,
    /// What is promised of them.
    pub committed: StableHow4,
    /// Another value than before means that unstable data may be lost.
    pub verifier: Verifier4,
}

impl Nfs4 {
    /// The root of what the server exports.
    ///
    /// # Errors
    /// [`Nfs4Error`].
    pub async fn root(&self) -> Result<Node4, Nfs4Error> {
        let ops = [ArgOp::Putrootfh(()), ArgOp::Getfh(()), getattr()];
        node_of(&self.all(&ops).await?)
    }

    /// The object that a path leads to from `from`. Symbolic links are not followed; empty names are left out.
    ///
    /// # Errors
    /// [`Nfs4Error`], for example NFS4ERR_NOENT.
    pub async fn walk(&self, from: &Node4, path: &[u8]) -> Result<Node4, Nfs4Error> {
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let names: Vec<&[u8]> = names.into_iter().filter(|name| !name.is_empty()).collect();
        let mut node = from.clone();
        for names in names.chunks(limits::NFS4_NAMES_MAX) {
            let mut ops = vec![putfh(&node.handle)];
            let lookups = names.iter().map(|name| {
                ArgOp::Lookup(LookupArgs {
                    objname: Component4(name),
                })
            });
            ops.extend(lookups);
            ops.extend([ArgOp::Getfh(()), getattr()]);
            node = node_of(&self.all(&ops).await?)?;
        }
        Ok(node)
    }

    /// An object's attributes.
    ///
    /// # Errors
    /// [`Nfs4Error`].
    pub async fn stat(&self, handle: &FileHandle) -> Result<Stat4, Nfs4Error> {
        let results = self.all(&[putfh(handle), getattr()]).await?;
        stat_of(&results.decode()?)
    }

    /// What a symbolic link holds.
    ///
    /// # Errors
    /// [`Nfs4Error`].
    pub async fn readlink(&self, handle: &FileHandle) -> Result<Vec<u8>, Nfs4Error> {
        let results = self.all(&[putfh(handle), ArgOp::Readlink(())]).await?;
        match results.decode()?.resarray.last() {
            Some(ResOp::Readlink(Ok(ok))) => Ok(ok.link.0.to_vec()),
            _ => Err(Nfs4Error::Unexpected(Opnum::Readlink)),
        }
    }

    /// All entries of a directory, without `.` and `..`, which NFSv4 does not list.
    ///
    /// # Errors
    /// [`Nfs4Error`]; [`Nfs4Error::EndlessDirectory`] where the server goes on and on.
    pub async fn list(&self, dir: &FileHandle) -> Result<Vec<Entry4>, Nfs4Error> {
        let mut entries = Vec::new();
        let (mut cookie, mut cookieverf) = (0, Verifier4::default());
        loop {
            let readdir = ArgOp::Readdir(ReaddirArgs {
                cookie,
                cookieverf,
                dircount: limits::NFS4_READDIR_BYTES / 8,
                maxcount: limits::NFS4_READDIR_BYTES.min(self.data_bytes_max()),
                attr_request: ASKED.with(Attribute::RdattrError.number()),
            });
            let results = self.all(&[putfh(dir), readdir]).await?;
            let res = results.decode()?;
            let Some(ResOp::Readdir(Ok(page))) = res.resarray.last() else {
                return Err(Nfs4Error::Unexpected(Opnum::Readdir));
            };
            for entry in &page.entries {
                entries.push(Entry4 {
                    name: entry.name.0.to_vec(),
                    stat: stat_from(&entry.attrs).ok(),
                });
            }
            if page.eof {
                return Ok(entries);
            }
            let last = page.entries.last().map(|entry| entry.cookie);
            let goes_on = last.is_some_and(|last| last != cookie);
            if !goes_on || entries.len() > limits::READDIR_ENTRIES_MAX {
                return Err(Nfs4Error::EndlessDirectory);
            }
            cookie = last.unwrap_or_default();
            cookieverf = page.cookieverf;
        }
    }

    /// Opens a regular file of a directory.
    ///
    /// # Errors
    /// [`Nfs4Error`].
    pub async fn open(
        &self,
        dir: &FileHandle,
        name: &[u8],
        how: OpenHow,
    ) -> Result<OpenFile4, Nfs4Error> {
        let made = match how {
            OpenHow::Read => Vec::new(),
            OpenHow::Write { mode, truncate } => encode_to_vec(&Attributes {
                mode: Some(mode),
                size: truncate.then_some(0),
                ..Attributes::default()
            }),
        };
        let openhow = match how {
            OpenHow::Read => Openflag4::Nocreate,
            OpenHow::Write { .. } => Openflag4::Create(Createhow4::Unchecked(fattr(&made)?)),
        };
        let access = match how {
            OpenHow::Read => OPEN4_SHARE_ACCESS_READ,
            OpenHow::Write { .. } => OPEN4_SHARE_ACCESS_READ | OPEN4_SHARE_ACCESS_WRITE,
        };
        let owner = crate::random::bytes();
        let open = ArgOp::Open(OpenArgs {
            seqid: 0,
            share_access: access | OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
            share_deny: OPEN4_SHARE_DENY_NONE,
            owner: StateOwner4 {
                clientid: Clientid4::default(),
                owner: Opaque4(&owner),
            },
            openhow,
            claim: OpenClaim4::Null(Component4(name)),
        });
        let results = self
            .all(&[putfh(dir), open, ArgOp::Getfh(()), getattr()])
            .await?;
        let res = results.decode()?;
        let stateid = res.resarray.iter().find_map(|result| match result {
            ResOp::Open(Ok(ok)) => Some(ok.stateid),
            _ => None,
        });
        Ok(OpenFile4 {
            node: node_of(&results)?,
            stateid: stateid.ok_or(Nfs4Error::Unexpected(Opnum::Open))?,
        })
    }

    /// Reads up to `count` bytes, of which one reply has as many as [`Nfs4::data_bytes_max`].
    ///
    /// # Errors
    /// [`Nfs4Error`].
    pub async fn read(
        &self,
        file: &OpenFile4,
        offset: u64,
        count: u32,
    ) -> Result<Read4, Nfs4Error> {
        let count = count.min(self.data_bytes_max());
        let read = ArgOp::Read(ReadArgs {
            stateid: file.stateid,
            offset,
            count,
        });
        let results = self.all(&[putfh(&file.node.handle), read]).await?;
        results.data(count)
    }

    /// Writes bytes, of which one call has as many as [`Nfs4::data_bytes_max`].
    ///
    /// # Errors
    /// [`Nfs4Error`].
    pub async fn write(
        &self,
        file: &OpenFile4,
        offset: u64,
        stable: StableHow4,
        data: &[u8],
    ) -> Result<Written4, Nfs4Error> {
        let max = size(self.data_bytes_max());
        let data = data.get(..max).unwrap_or(data);
        let write = ArgOp::Write(WriteArgs {
            stateid: file.stateid,
            offset,
            stable,
            data: Payload::Here(data),
        });
        let results = self.all(&[putfh(&file.node.handle), write]).await?;
        match results.decode()?.resarray.last() {
            Some(ResOp::Write(Ok(ok))) if size(ok.count) <= data.len() => Ok(Written4 {
                count: ok.count,
                committed: ok.committed,
                verifier: ok.writeverf,
            }),
            _ => Err(Nfs4Error::Unexpected(Opnum::Write)),
        }
    }

    /// Puts what was written on stable storage.
    ///
    /// # Errors
    /// [`Nfs4Error`].
    pub async fn commit(&self, file: &OpenFile4) -> Result<Verifier4, Nfs4Error> {
        let commit = ArgOp::Commit(CommitArgs {
            offset: 0,
            count: 0,
        });
        let results = self.all(&[putfh(&file.node.handle), commit]).await?;
        match results.decode()?.resarray.last() {
            Some(ResOp::Commit(Ok(ok))) => Ok(ok.writeverf),
            _ => Err(Nfs4Error::Unexpected(Opnum::Commit)),
        }
    }

    /// Ends an open.
    ///
    /// # Errors
    /// [`Nfs4Error`].
    pub async fn close(&self, file: OpenFile4) -> Result<(), Nfs4Error> {
        let close = ArgOp::Close(CloseArgs {
            seqid: 0,
            open_stateid: file.stateid,
        });
        self.all(&[putfh(&file.node.handle), close]).await?;
        Ok(())
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// [`Nfs4Error`].
    pub async fn mkdir(
        &self,
        dir: &FileHandle,
        name: &[u8],
        mode: u32,
    ) -> Result<Node4, Nfs4Error> {
        let attributes = encode_to_vec(&Attributes {
            mode: Some(mode),
            ..Attributes::default()
        });
        let create = ArgOp::Create(CreateArgs {
            objtype: Createtype4::Dir,
            objname: Component4(name),
            createattrs: fattr(&attributes)?,
        });
        let ops = [putfh(dir), create, ArgOp::Getfh(()), getattr()];
        node_of(&self.all(&ops).await?)
    }

    /// Removes an entry of a directory: of a directory only one that is empty.
    ///
    /// # Errors
    /// [`Nfs4Error`].
    pub async fn remove(&self, dir: &FileHandle, name: &[u8]) -> Result<(), Nfs4Error> {
        let remove = ArgOp::Remove(RemoveArgs {
            target: Component4(name),
        });
        self.all(&[putfh(dir), remove]).await?;
        Ok(())
    }

    /// Sets a file's size, bytes.
    ///
    /// # Errors
    /// [`Nfs4Error`].
    pub async fn set_size(&self, file: &OpenFile4, size: u64) -> Result<(), Nfs4Error> {
        let attributes = encode_to_vec(&Attributes {
            size: Some(size),
            ..Attributes::default()
        });
        let setattr = ArgOp::Setattr(SetattrArgs {
            stateid: file.stateid,
            obj_attributes: fattr(&attributes)?,
        });
        self.all(&[putfh(&file.node.handle), setattr]).await?;
        Ok(())
    }
}

impl Results {
    /// The data of a READ of `count` bytes, which is the last operation.
    fn data(&self, count: u32) -> Result<Read4, Nfs4Error> {
        match self.decode()?.resarray.last() {
            Some(ResOp::Read(Ok(ok))) => match ok.data {
                Payload::Here(data) if data.len() <= size(count) => Ok(Read4 {
                    data: self.bytes.slice_ref(data),
                    eof: ok.eof,
                }),
                Payload::Here(_) | Payload::Apart { .. } => Err(Nfs4Error::Unexpected(Opnum::Read)),
            },
            _ => Err(Nfs4Error::Unexpected(Opnum::Read)),
        }
    }

    /// The object of a reply that has GETFH and GETATTR.
    pub(crate) fn node(&self) -> Result<Node4, Nfs4Error> {
        node_of(self)
    }

    /// The attributes of a reply that has GETATTR.
    pub(crate) fn stat(&self) -> Result<Stat4, Nfs4Error> {
        stat_of(&self.decode()?)
    }

    /// The same behind a GETATTR, with the attributes.
    pub(super) fn read(&self, count: u32) -> Result<(Stat4, Read4), Nfs4Error> {
        Ok((stat_of(&self.decode()?)?, self.data(count)?))
    }
}

pub(crate) fn putfh(handle: &FileHandle) -> ArgOp<'static> {
    ArgOp::Putfh(PutfhArgs { object: *handle })
}

pub(crate) fn getattr() -> ArgOp<'static> {
    ArgOp::Getattr(GetattrArgs {
        attr_request: ASKED,
    })
}

/// What was encoded just before, as an operation takes it.
pub(crate) fn fattr(bytes: &[u8]) -> Result<Fattr4<'_>, Nfs4Error> {
    Fattr4::decode(&mut Decoder::new(bytes)).map_err(|_| Nfs4Error::Attributes)
}

/// The object of a reply that has GETFH and GETATTR.
pub(super) fn node_of(results: &Results) -> Result<Node4, Nfs4Error> {
    let res = results.decode()?;
    let handle = res.resarray.iter().find_map(|result| match result {
        ResOp::Getfh(Ok(ok)) => Some(ok.object),
        _ => None,
    });
    Ok(Node4 {
        handle: handle.ok_or(Nfs4Error::Unexpected(Opnum::Getfh))?,
        stat: stat_of(&res)?,
    })
}

pub(super) fn stat_of(res: &CompoundRes<'_>) -> Result<Stat4, Nfs4Error> {
    let attributes = res.resarray.iter().find_map(|result| match result {
        ResOp::Getattr(Ok(ok)) => Some(ok.obj_attributes),
        _ => None,
    });
    stat_from(&attributes.ok_or(Nfs4Error::Unexpected(Opnum::Getattr))?)
}

/// What a set of attributes says. Those that RFC 8881 §5.6 requires have to be there.
pub(crate) fn stat_from(fattr: &Fattr4<'_>) -> Result<Stat4, Nfs4Error> {
    let values = fattr.decode_values().map_err(|_| Nfs4Error::Attributes)?;
    let (Some(ftype), Some(change), Some(size), Some(fsid)) =
        (values.ftype, values.change, values.size, values.fsid)
    else {
        return Err(Nfs4Error::Attributes);
    };
    let name = |name: Option<nfs_wire::nfs4::Utf8str<'_>>| name.unwrap_or_default().0.to_vec();
    Ok(Stat4 {
        ftype,
        change: change.value,
        size,
        fsid,
        fileid: values.fileid.unwrap_or_default(),
        mode: values.mode.unwrap_or_default(),
        numlinks: values.numlinks.unwrap_or(1),
        owner: name(values.owner),
        owner_group: name(values.owner_group),
        rawdev: values.rawdev.unwrap_or_default(),
        space_used: values.space_used.unwrap_or_default(),
        time_access: values.time_access.unwrap_or_default(),
        time_metadata: values.time_metadata.unwrap_or_default(),
        time_modify: values.time_modify.unwrap_or_default(),
    })
}

fn size(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
