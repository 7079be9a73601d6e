//! Operations that change directories, each exactly once as far as the protocol lets a client tell.
//!
//! Over NFSv4 a session keeps its replies, and what follows is about calls that went out in two of them.
//!
//! A call whose reply was lost with its connection goes out again. If the server has executed it the
//! first time and does not remember its answer (it restarted, or its reply cache forgot), the second
//! time fails: what was to be removed is gone, what was to be made exists. So where a call went out more
//! than once, such a failure is not told before it is known that this client's own call did not cause
//! it. A call that went out once is told as it was answered.
//!
//! Not told apart: somebody else doing the same thing (a directory of that name, an equal symbolic
//! link) in the same moment. For files there is EXCLUSIVE, which is exact: [`Client::create_new_in`].

use nfs_wire::nfs3::{
    CreateArgs, CreateHow, CreateOk, Fattr3, FileHandle, Ftype3, LinkArgs, MkdirArgs, MknodArgs,
    Mknoddata, Nfspath3, Nfsstat3, RemoveArgs, RemoveOk, RenameArgs, RmdirArgs, Sattr3, SetTime,
    Specdata3, SymlinkArgs, SymlinkData, WccData,
};

use super::Client;
use crate::error::{ClientError, refused};
use crate::nfs3::Node;
use crate::nfs3::{Answer, entry};
use crate::random;

impl Client {
    /// Creates a regular file `name` in `dir` (CREATE).
    pub async fn create_in(
        &self,
        dir: &FileHandle,
        name: &[u8],
        how: &CreateHow,
    ) -> Result<Node, ClientError> {
        let args = CreateArgs {
            where_: entry(dir, name),
            how: *how,
        };
        let ours = |made: &Fattr3| match how {
            // Until somebody has its handle, it is as long as it was made.
            CreateHow::Guarded(attributes) => {
                made.ftype == Ftype3::Reg && made.size == attributes.size.unwrap_or(0)
            }
            // The server itself knows an EXCLUSIVE call again, and UNCHECKED takes what is there.
            CreateHow::Exclusive(_) | CreateHow::Unchecked(_) => false,
        };
        let answer = self.nfs.create(&args).await?;
        self.made("CREATE", dir, name, answer, ours).await
    }

    /// Creates a regular file `name` in `dir`, which must not be there yet: of several clients that try,
    /// one succeeds, and whoever is told `Ok` made it (CREATE, EXCLUSIVE, then SETATTR). On a server
    /// without EXCLUSIVE, as [`CreateHow::Guarded`].
    pub async fn create_new_in(
        &self,
        dir: &FileHandle,
        name: &[u8],
        attributes: &Sattr3,
    ) -> Result<Node, ClientError> {
        let how = CreateHow::Exclusive(random::bytes());
        let mut node = match self.create_in(dir, name, &how).await {
            Err(error) if error.status() == Some(Nfsstat3::Notsupp) => {
                let how = CreateHow::Guarded(*attributes);
                return self.create_in(dir, name, &how).await;
            }
            made => made?,
        };
        // The server may keep the verifier in the times, until they are set (RFC 1813 §3.3.8).
        let or_now = |time| match time {
            SetTime::DontChange => SetTime::ServerTime,
            SetTime::ServerTime | SetTime::ClientTime(_) => time,
        };
        let attributes = Sattr3 {
            atime: or_now(attributes.atime),
            mtime: or_now(attributes.mtime),
            ..*attributes
        };
        node.attributes = match self.setattr_handle(&node.handle, &attributes).await? {
            Some(after) => after,
            None => self.stat_handle(&node.handle).await?,
        };
        Ok(node)
    }

    /// Creates a directory `name` in `dir` (MKDIR).
    pub async fn mkdir_in(
        &self,
        dir: &FileHandle,
        name: &[u8],
        attributes: &Sattr3,
    ) -> Result<Node, ClientError> {
        let args = MkdirArgs {
            where_: entry(dir, name),
            attributes: *attributes,
        };
        let ours = |made: &Fattr3| made.ftype == Ftype3::Dir;
        let answer = self.nfs.mkdir(&args).await?;
        self.made("MKDIR", dir, name, answer, ours).await
    }

    /// Creates a symbolic link `name` in `dir` that points to `target` (SYMLINK).
    pub async fn symlink_in(
        &self,
        dir: &FileHandle,
        name: &[u8],
        target: &[u8],
        attributes: &Sattr3,
    ) -> Result<Node, ClientError> {
        let symlink = SymlinkData {
            symlink_attributes: *attributes,
            symlink_data: Nfspath3(target),
        };
        let args = SymlinkArgs {
            where_: entry(dir, name),
            symlink,
        };
        let answer = self.nfs.symlink(&args).await?;
        let (resent, status) = (answer.resent, answer.status());
        let ours = |made: &Fattr3| made.ftype == Ftype3::Lnk;
        let node = self.made("SYMLINK", dir, name, answer, ours).await?;
        if resent
            && let Some(status) = status
            && self.readlink(&node.handle).await? != target
        {
            return Err(refused("SYMLINK", name, status));
        }
        Ok(node)
    }

    /// Creates a device, socket or fifo `name` in `dir` (MKNOD).
    pub async fn mknod_in(
        &self,
        dir: &FileHandle,
        name: &[u8],
        what: &Mknoddata,
    ) -> Result<Node, ClientError> {
        let args = MknodArgs {
            where_: entry(dir, name),
            what: *what,
        };
        let device =
            |made: &Fattr3, ftype, spec: Specdata3| made.ftype == ftype && made.rdev == spec;
        let ours = |made: &Fattr3| match what {
            Mknoddata::CharacterDevice(data) => device(made, Ftype3::Chr, data.spec),
            Mknoddata::BlockDevice(data) => device(made, Ftype3::Blk, data.spec),
            Mknoddata::Socket(_) => made.ftype == Ftype3::Sock,
            Mknoddata::Fifo(_) => made.ftype == Ftype3::Fifo,
            Mknoddata::Other(_) => false,
        };
        let answer = self.nfs.mknod(&args).await?;
        self.made("MKNOD", dir, name, answer, ours).await
    }

    /// Removes `name`, not a directory's, from `dir` (REMOVE).
    pub async fn remove_in(&self, dir: &FileHandle, name: &[u8]) -> Result<(), ClientError> {
        let object = entry(dir, name);
        let args = RemoveArgs { object };
        let answer = self.nfs.remove(&args).await?;
        removed("REMOVE", name, answer)
    }

    /// Removes the empty directory `name` from `dir` (RMDIR).
    pub async fn rmdir_in(&self, dir: &FileHandle, name: &[u8]) -> Result<(), ClientError> {
        let object = entry(dir, name);
        let args = RmdirArgs { object };
        let answer = self.nfs.rmdir(&args).await?;
        removed("RMDIR", name, answer)
    }

    /// Renames `from` in `from_dir` to `to` in `to_dir`, replacing what has that name (LOOKUP, so that a
    /// lost reply can be told from a missing file; RENAME).
    pub async fn rename_in(
        &self,
        from_dir: &FileHandle,
        from: &[u8],
        to_dir: &FileHandle,
        to: &[u8],
    ) -> Result<(), ClientError> {
        let source = self.there(from_dir, from).await?;
        let args = RenameArgs {
            from: entry(from_dir, from),
            to: entry(to_dir, to),
        };
        let answer = self.nfs.rename(&args).await?;
        let Err(failure) = answer.outcome else {
            return Ok(());
        };
        if answer.resent
            && failure.status == Nfsstat3::Noent
            && let Some(source) = source
            && let Some(target) = self.there(to_dir, to).await?
            && is_same(&source.attributes, &target.attributes)
        {
            return Ok(());
        }
        Err(refused("RENAME", from, failure.status))
    }

    /// Gives `file` the further name `name` in `dir` (LINK).
    pub async fn link_in(
        &self,
        file: &FileHandle,
        dir: &FileHandle,
        name: &[u8],
    ) -> Result<(), ClientError> {
        let args = LinkArgs {
            file: *file,
            link: entry(dir, name),
        };
        let answer = self.nfs.link(&args).await?;
        let Err(failure) = answer.outcome else {
            return Ok(());
        };
        if answer.resent
            && failure.status == Nfsstat3::Exist
            && let Some(there) = self.there(dir, name).await?
            && is_same(&self.stat_handle(file).await?, &there.attributes)
        {
            return Ok(());
        }
        Err(refused("LINK", name, failure.status))
    }

    /// What a call made that was to make `name`; if it went out more than once and the name is taken,
    /// what has that name, if it is `ours`.
    async fn made(
        &self,
        operation: &'static str,
        dir: &FileHandle,
        name: &[u8],
        answer: Answer<CreateOk, WccData>,
        ours: impl Fn(&Fattr3) -> bool,
    ) -> Result<Node, ClientError> {
        let failure = match answer.outcome {
            Ok(ok) => return self.complete(dir, name, ok.obj, ok.obj_attributes).await,
            Err(failure) => failure,
        };
        if answer.resent
            && failure.status == Nfsstat3::Exist
            && let Some(there) = self.there(dir, name).await?
            && ours(&there.attributes)
        {
            return Ok(there);
        }
        Err(refused(operation, name, failure.status))
    }

    /// What has this name, if anything has.
    async fn there(&self, dir: &FileHandle, name: &[u8]) -> Result<Option<Node>, ClientError> {
        match self.lookup(dir, name).await {
            Ok(node) => Ok(Some(node)),
            Err(error) if error.status().is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Handle and attributes of a new object: servers may leave either out of their answer.
    async fn complete(
        &self,
        dir: &FileHandle,
        name: &[u8],
        handle: Option<FileHandle>,
        attributes: Option<Fattr3>,
    ) -> Result<Node, ClientError> {
        match (handle, attributes) {
            (Some(handle), Some(attributes)) => Ok(Node { handle, attributes }),
            (Some(handle), None) => Ok(Node {
                handle,
                attributes: self.stat_handle(&handle).await?,
            }),
            (None, _) => self.lookup(dir, name).await,
        }
    }
}

/// What an answer to REMOVE or RMDIR means: gone is gone, if the call went out more than once.
fn removed(
    operation: &'static str,
    name: &[u8],
    answer: Answer<RemoveOk, WccData>,
) -> Result<(), ClientError> {
    match answer.outcome {
        Ok(_) => Ok(()),
        Err(failure) if answer.resent && failure.status == Nfsstat3::Noent => Ok(()),
        Err(failure) => Err(refused(operation, name, failure.status)),
    }
}

fn is_same(one: &Fattr3, other: &Fattr3) -> bool {
    (one.fsid, one.fileid) == (other.fsid, other.fileid)
}
