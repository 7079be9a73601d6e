//! What clients and files ask of a server, over either version of NFS.
//!
//! The procedures are NFSv3's, with its words and its results: all that is above asks in them. Over NFSv4.1 and 4.2
//! each is one COMPOUND ([`V4`]), and what that version has besides (sessions, opens) is kept below.

mod handles;
mod v4;
mod words;

use bytes::Bytes;
use nfs_io::Buf;
use nfs_wire::nfs3::{
    AccessOk, CommitOk, CreateArgs, CreateOk, FileHandle, FsinfoOk, FsstatOk, GetattrOk, LinkArgs,
    LinkBody, LookupOk, MkdirArgs, MknodArgs, Nfstime3, PathconfOk, PostOpAttr, Procedure,
    RemoveArgs, RemoveOk, RenameArgs, RenameBody, RmdirArgs, Sattr3, StableHow, SymlinkArgs,
    WccData, WriteOk,
};

pub use self::v4::V4;

use crate::connection::{Connection, Connections};
use crate::error::RpcError;
use crate::identity::Identity;
use crate::nfs3::{Answer, Nfs3, Outcome, ReadInto, ReadOk, ReaddirOk, ReaddirplusOk, ReadlinkOk};

/// A server as one identity, over one version of NFS. Clones share the connections.
#[derive(Clone, Debug)]
pub enum Nfs {
    /// NFSv3.
    V3(Nfs3),
    /// NFSv4.1 or 4.2.
    V4(V4),
}

impl From<Nfs3> for Nfs {
    fn from(nfs: Nfs3) -> Self {
        Self::V3(nfs)
    }
}

/// Asks over the version that there is.
macro_rules! either {
    ($of:expr, $nfs:ident => $call:expr) => {
        match $of {
            Nfs::V3($nfs) => $call.await,
            Nfs::V4($nfs) => $call.await,
        }
    };
}

impl Nfs {
    /// The procedures of NFSv3; none over NFSv4.
    #[must_use]
    pub const fn v3(&self) -> Option<&Nfs3> {
        match self {
            Self::V3(nfs) => Some(nfs),
            Self::V4(_) => None,
        }
    }

    /// The same server over the same connections, called as `identity`.
    #[must_use]
    pub fn with_identity(&self, identity: Identity) -> Self {
        match self {
            Self::V3(nfs) => Self::V3(nfs.with_identity(identity)),
            Self::V4(nfs) => Self::V4(nfs.with_identity(identity)),
        }
    }

    /// As [`Self::clone`], and the file stays open at the server as long as this or a clone of it is there.
    pub(crate) fn holding(&self, file: &FileHandle) -> Self {
        match self {
            Self::V3(nfs) => Self::V3(nfs.clone()),
            Self::V4(nfs) => Self::V4(nfs.holding(file)),
        }
    }

    /// Whether a handle stands for a longer one of NFSv4, and so means something to this client alone.
    #[cfg(feature = "doctor")]
    pub(crate) fn is_stand_in(&self, handle: &FileHandle) -> bool {
        match self {
            Self::V3(_) => false,
            Self::V4(nfs) => nfs.is_stand_in(handle),
        }
    }

    /// The first of the connections, which exists in any case.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        self.connections().first()
    }

    /// All connections that calls are spread over.
    #[must_use]
    pub fn connections(&self) -> &Connections {
        match self {
            Self::V3(nfs) => nfs.connections(),
            Self::V4(nfs) => nfs.connections(),
        }
    }

    /// Who the calls are made as.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        match self {
            Self::V3(nfs) => nfs.identity(),
            Self::V4(nfs) => nfs.identity(),
        }
    }

    /// GETATTR: the attributes of an object (RFC 1813 §3.3.1).
    pub async fn getattr(&self, object: &FileHandle) -> Outcome<GetattrOk, ()> {
        either!(self, nfs => nfs.getattr(object))
    }

    /// SETATTR: changes attributes; with `guard`, only if the object's ctime is that (RFC 1813 §3.3.2).
    pub async fn setattr(
        &self,
        object: &FileHandle,
        new_attributes: &Sattr3,
        guard: Option<Nfstime3>,
    ) -> Outcome<WccData, WccData> {
        either!(self, nfs => nfs.setattr(object, new_attributes, guard))
    }

    /// LOOKUP: the handle of a name in a directory (RFC 1813 §3.3.3).
    pub async fn lookup(&self, dir: &FileHandle, name: &[u8]) -> Outcome<LookupOk, PostOpAttr> {
        either!(self, nfs => nfs.lookup(dir, name))
    }

    /// ACCESS: which of the `ACCESS3_*` bits in `access` this identity has (RFC 1813 §3.3.4).
    pub async fn access(&self, object: &FileHandle, access: u32) -> Outcome<AccessOk, PostOpAttr> {
        either!(self, nfs => nfs.access(object, access))
    }

    /// READLINK: where a symbolic link points (RFC 1813 §3.3.5).
    pub async fn readlink(&self, symlink: &FileHandle) -> Outcome<ReadlinkOk, PostOpAttr> {
        either!(self, nfs => nfs.readlink(symlink))
    }

    /// READ: `count` bytes from `offset`, or fewer (RFC 1813 §3.3.6).
    pub async fn read(
        &self,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Outcome<ReadOk, PostOpAttr> {
        either!(self, nfs => nfs.read(file, offset, count))
    }

    /// READ into `memory`: as many bytes from `offset` as it is long, or fewer. The data of a long reply goes from
    /// the socket straight to its place. With an error, the memory is gone back to its pool.
    pub async fn read_into(
        &self,
        file: &FileHandle,
        offset: u64,
        memory: Buf,
    ) -> Outcome<ReadInto, PostOpAttr> {
        either!(self, nfs => nfs.read_into(file, offset, memory))
    }

    /// WRITE: `data` at `offset`, at least as stable as `stable` (RFC 1813 §3.3.7). The data is sent from where
    /// it is.
    pub async fn write(
        &self,
        file: &FileHandle,
        offset: u64,
        stable: StableHow,
        data: Bytes,
    ) -> Outcome<WriteOk, WccData> {
        either!(self, nfs => nfs.write(file, offset, stable, data))
    }

    /// READDIR: names of a directory after `cookie`; `count` is the room for the results in bytes (RFC 1813
    /// §3.3.16).
    pub async fn readdir(
        &self,
        dir: &FileHandle,
        cookie: u64,
        cookieverf: [u8; 8],
        count: u32,
    ) -> Outcome<ReaddirOk, PostOpAttr> {
        either!(self, nfs => nfs.readdir(dir, cookie, cookieverf, count))
    }

    /// READDIRPLUS: names, attributes and handles after `cookie`; `dircount` is the room for names, fileids and
    /// cookies, `maxcount` that for the results, both in bytes (RFC 1813 §3.3.17).
    pub async fn readdirplus(
        &self,
        dir: &FileHandle,
        cookie: u64,
        cookieverf: [u8; 8],
        dircount: u32,
        maxcount: u32,
    ) -> Outcome<ReaddirplusOk, PostOpAttr> {
        either!(self, nfs => nfs.readdirplus(dir, cookie, cookieverf, dircount, maxcount))
    }

    /// FSSTAT: space and inodes of a file system (RFC 1813 §3.3.18).
    pub async fn fsstat(&self, root: &FileHandle) -> Outcome<FsstatOk, PostOpAttr> {
        either!(self, nfs => nfs.fsstat(root))
    }

    /// FSINFO: sizes and abilities of a server's file system (RFC 1813 §3.3.19).
    pub async fn fsinfo(&self, root: &FileHandle) -> Outcome<FsinfoOk, PostOpAttr> {
        either!(self, nfs => nfs.fsinfo(root))
    }

    /// PATHCONF: limits on names and links (RFC 1813 §3.3.20).
    pub async fn pathconf(&self, object: &FileHandle) -> Outcome<PathconfOk, PostOpAttr> {
        either!(self, nfs => nfs.pathconf(object))
    }

    /// COMMIT: puts unstable writes of `offset..offset + count` on stable storage; `count` 0 means to the end of the
    /// file (RFC 1813 §3.3.21).
    pub async fn commit(
        &self,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Outcome<CommitOk, WccData> {
        either!(self, nfs => nfs.commit(file, offset, count))
    }

    /// CREATE, and whether the call went out more than once; so with all below.
    pub(crate) async fn create(
        &self,
        args: &CreateArgs<'_>,
    ) -> Result<Answer<CreateOk, WccData>, RpcError> {
        match self {
            Self::V3(nfs) => nfs.ask(Procedure::Create, args).await,
            Self::V4(nfs) => nfs.create(args).await,
        }
    }

    pub(crate) async fn mkdir(
        &self,
        args: &MkdirArgs<'_>,
    ) -> Result<Answer<CreateOk, WccData>, RpcError> {
        match self {
            Self::V3(nfs) => nfs.ask(Procedure::Mkdir, args).await,
            Self::V4(nfs) => nfs.mkdir(args).await,
        }
    }

    pub(crate) async fn symlink(
        &self,
        args: &SymlinkArgs<'_>,
    ) -> Result<Answer<CreateOk, WccData>, RpcError> {
        match self {
            Self::V3(nfs) => nfs.ask(Procedure::Symlink, args).await,
            Self::V4(nfs) => nfs.symlink(args).await,
        }
    }

    pub(crate) async fn mknod(
        &self,
        args: &MknodArgs<'_>,
    ) -> Result<Answer<CreateOk, WccData>, RpcError> {
        match self {
            Self::V3(nfs) => nfs.ask(Procedure::Mknod, args).await,
            Self::V4(nfs) => nfs.mknod(args).await,
        }
    }

    pub(crate) async fn remove(
        &self,
        args: &RemoveArgs<'_>,
    ) -> Result<Answer<RemoveOk, WccData>, RpcError> {
        match self {
            Self::V3(nfs) => nfs.ask(Procedure::Remove, args).await,
            Self::V4(nfs) => nfs.remove(args).await,
        }
    }

    pub(crate) async fn rmdir(
        &self,
        args: &RmdirArgs<'_>,
    ) -> Result<Answer<RemoveOk, WccData>, RpcError> {
        match self {
            Self::V3(nfs) => nfs.ask(Procedure::Rmdir, args).await,
            Self::V4(nfs) => nfs.rmdir(args).await,
        }
    }

    pub(crate) async fn rename(
        &self,
        args: &RenameArgs<'_>,
    ) -> Result<Answer<RenameBody, RenameBody>, RpcError> {
        match self {
            Self::V3(nfs) => nfs.ask(Procedure::Rename, args).await,
            Self::V4(nfs) => nfs.rename(args).await,
        }
    }

    pub(crate) async fn link(
        &self,
        args: &LinkArgs<'_>,
    ) -> Result<Answer<LinkBody, LinkBody>, RpcError> {
        match self {
            Self::V3(nfs) => nfs.ask(Procedure::Link, args).await,
            Self::V4(nfs) => nfs.link(args).await,
        }
    }
}
