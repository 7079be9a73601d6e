//! NFSv4.1 and 4.2 in the words of NFSv3: each procedure is one COMPOUND.

use std::sync::Arc;

use bytes::Bytes;
use nfs_io::Buf;
use nfs_wire::encode_to_vec;
use nfs_wire::nfs3::{
    AccessOk, CommitOk, CreateArgs, CreateHow, CreateOk, FSF3_CANSETTIME, FSF3_HOMOGENEOUS,
    FSF3_LINK, FSF3_SYMLINK, Failure, FileHandle, FsinfoOk, FsstatOk, GetattrOk, LinkArgs,
    LinkBody, LookupOk, MkdirArgs, MknodArgs, Mknoddata, Nfsstat3, Nfstime3, PathconfOk,
    PostOpAttr, RemoveArgs, RemoveOk, RenameArgs, RenameBody, RmdirArgs, Sattr3, StableHow,
    SymlinkArgs, WccData, WriteOk,
};
use nfs_wire::nfs4::ops::{
    AccessArgs, CommitArgs, CreateArgs as CreateArgs4, CreateVerfAttr, Createhow4, Createtype4,
    GetattrArgs, LinkArgs as LinkArgs4, LookupArgs, OPEN4_SHARE_ACCESS_WRITE, ReaddirArgs,
    ReaddirOk as ReaddirOk4, RemoveArgs as RemoveArgs4, RenameArgs as RenameArgs4, SetattrArgs,
    VerifyArgs,
};
use nfs_wire::nfs4::{
    ArgOp, Attribute, Attributes, Bitmap4, Component4, Ftype4, Linktext4, Nfsstat4, Opnum, ResOp,
    Verifier4,
};

use super::handles::Handles;
use super::words::{Owners, device, outcome, stable3, stable4, time4};
use crate::connection::Connections;
use crate::error::RpcError;
use crate::identity::Identity;
use crate::nfs3::{
    Answer, Entry3, EntryPlus3, Outcome, ReadInto, ReadOk, ReaddirOk, ReaddirplusOk, ReadlinkOk,
};
use crate::nfs4::{
    ASKED, Hold, Nfs4, Nfs4Error, Node4, Results, Stat4, Stateid4, fattr, getattr, is_lost,
    stat_from,
};

/// A session of NFSv4.1 or 4.2, asked in the words of NFSv3.
#[derive(Clone, Debug)]
pub struct V4 {
    nfs: Nfs4,
    read_only: bool,
    handles: Handles,
    /// Keeps the file open that this was made for.
    _hold: Option<Arc<Hold>>,
}

impl V4 {
    /// Asks over this session; if `read_only`, what changes anything is not sent, and fails with `NFS3ERR_ROFS`.
    #[must_use]
    pub fn new(nfs: Nfs4, read_only: bool) -> Self {
        Self {
            nfs,
            read_only,
            handles: Handles::new(),
            _hold: None,
        }
    }

    /// The session.
    #[must_use]
    pub const fn session(&self) -> &Nfs4 {
        &self.nfs
    }

    /// The root of what the server exports.
    pub(crate) async fn root(&self) -> Result<FileHandle, Nfs4Error> {
        self.handles.short(&self.nfs.root().await?.handle)
    }

    #[cfg(feature = "doctor")]
    pub(super) fn is_stand_in(&self, handle: &FileHandle) -> bool {
        self.handles.long(handle).as_ref() != handle.as_ref()
    }

    /// REMOVE of a name, and whether the server says that nothing else lies between the directory's change attributes
    /// before and after it (RFC 8881 §3.3.3).
    #[cfg(feature = "doctor")]
    pub(crate) async fn remove_is_atomic(
        &self,
        dir: &FileHandle,
        name: &[u8],
    ) -> Result<bool, Nfs4Error> {
        let target = Component4(name);
        let remove = ArgOp::Remove(RemoveArgs4 { target });
        let results = self.nfs.all(&[self.putfh(dir), remove]).await?;
        match results.decode()?.resarray.last() {
            Some(ResOp::Remove(Ok(info))) => Ok(info.atomic),
            _ => Err(Nfs4Error::Unexpected(Opnum::Remove)),
        }
    }

    fn putfh(&self, handle: &FileHandle) -> ArgOp<'static> {
        crate::nfs4::putfh(&self.handles.long(handle))
    }

    fn made_node(
        &self,
        made: Result<Node4, Nfs4Error>,
        resent: bool,
    ) -> Result<Answer<CreateOk, WccData>, RpcError> {
        let outcome = outcome(made.and_then(|node| {
            Ok(CreateOk {
                obj: Some(self.handles.short(&node.handle)?),
                obj_attributes: Some(node.stat.as_nfs3()),
                dir_wcc: WccData::default(),
            })
        }))?;
        Ok(Answer { outcome, resent })
    }

    pub(super) fn with_identity(&self, identity: Identity) -> Self {
        Self {
            nfs: self.nfs.with_identity(identity),
            read_only: self.read_only,
            handles: self.handles.clone(),
            _hold: None,
        }
    }

    pub(super) fn holding(&self, file: &FileHandle) -> Self {
        Self {
            _hold: Some(Arc::new(self.nfs.hold(&self.handles.long(file)))),
            ..self.clone()
        }
    }

    pub(super) fn connections(&self) -> &Connections {
        self.nfs.connections()
    }

    pub(super) fn identity(&self) -> &Identity {
        self.nfs.identity()
    }

    pub(super) async fn getattr(&self, object: &FileHandle) -> Outcome<GetattrOk, ()> {
        let stat = self.nfs.stat(&self.handles.long(object)).await;
        outcome(stat.map(|stat| GetattrOk {
            obj_attributes: stat.as_nfs3(),
        }))
    }

    pub(super) async fn setattr(
        &self,
        object: &FileHandle,
        new: &Sattr3,
        guard: Option<Nfstime3>,
    ) -> Outcome<WccData, WccData> {
        if self.read_only {
            return Ok(Err(read_only()));
        }
        let guard = guard.map(|ctime| {
            encode_to_vec(&Attributes {
                time_metadata: Some(time4(ctime)),
                ..Attributes::default()
            })
        });
        let set = encode_to_vec(&Owners::of(new).with(new));
        let done = async {
            let stateid = match new.size {
                Some(_) => {
                    let access = OPEN4_SHARE_ACCESS_WRITE;
                    self.nfs.stateid_if_open(&self.handles.long(object), access)
                }
                None => Stateid4::ANONYMOUS,
            };
            let done = self.set(object, stateid, &set, guard.as_deref()).await;
            match done {
                // The server has lost the open: without one it is the same.
                Err(Nfs4Error::Status { status, .. }) if is_lost(status) => {
                    let none = Stateid4::ANONYMOUS;
                    self.set(object, none, &set, guard.as_deref()).await
                }
                done => done,
            }
        };
        let done = done.await;
        if let Err(Nfs4Error::Status {
            status: Nfsstat4::NotSame,
            ..
        }) = &done
        {
            return Ok(Err(failure(Nfsstat3::NotSync)));
        }
        outcome(done.map(|stat| WccData {
            before: None,
            after: Some(stat.as_nfs3()),
        }))
    }

    async fn set(
        &self,
        object: &FileHandle,
        stateid: Stateid4,
        set: &[u8],
        guard: Option<&[u8]>,
    ) -> Result<Stat4, Nfs4Error> {
        let mut ops = vec![self.putfh(object)];
        if let Some(guard) = guard {
            ops.push(ArgOp::Verify(VerifyArgs {
                obj_attributes: fattr(guard)?,
            }));
        }
        let obj_attributes = fattr(set)?;
        ops.push(ArgOp::Setattr(SetattrArgs {
            stateid,
            obj_attributes,
        }));
        ops.push(getattr());
        self.nfs.all(&ops).await?.stat()
    }

    pub(super) async fn lookup(
        &self,
        dir: &FileHandle,
        name: &[u8],
    ) -> Outcome<LookupOk, PostOpAttr> {
        let objname = Component4(name);
        let lookup = ArgOp::Lookup(LookupArgs { objname });
        let found = self
            .nfs
            .all(&[self.putfh(dir), lookup, ArgOp::Getfh(()), getattr()])
            .await;
        outcome(found.and_then(|results| {
            let node = results.node()?;
            Ok(LookupOk {
                object: self.handles.short(&node.handle)?,
                obj_attributes: Some(node.stat.as_nfs3()),
                dir_attributes: None,
            })
        }))
    }

    pub(super) async fn access(
        &self,
        object: &FileHandle,
        access: u32,
    ) -> Outcome<AccessOk, PostOpAttr> {
        // The bits are the same in both versions.
        let ask = ArgOp::Access(AccessArgs { access });
        let told = self.nfs.all(&[self.putfh(object), ask, getattr()]).await;
        outcome(told.and_then(|results| {
            let attributes = results.stat()?.as_nfs3();
            let res = results.decode()?;
            let granted = res.resarray.iter().find_map(|result| match result {
                ResOp::Access(Ok(ok)) => Some(ok.access),
                _ => None,
            });
            Ok(AccessOk {
                obj_attributes: Some(attributes),
                access: granted.ok_or(Nfs4Error::Unexpected(Opnum::Access))?,
            })
        }))
    }

    pub(super) async fn readlink(&self, symlink: &FileHandle) -> Outcome<ReadlinkOk, PostOpAttr> {
        let target = self.nfs.readlink(&self.handles.long(symlink)).await;
        outcome(target.map(|data| ReadlinkOk {
            symlink_attributes: None,
            data,
        }))
    }

    pub(super) async fn read(
        &self,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Outcome<ReadOk, PostOpAttr> {
        let count = count.min(self.nfs.data_bytes_max());
        let read = self
            .nfs
            .read_at(&self.handles.long(file), offset, count)
            .await;
        outcome(read.map(|(stat, read)| ReadOk {
            file_attributes: Some(stat.as_nfs3()),
            eof: read.eof,
            data: read.data,
        }))
    }

    pub(super) async fn read_into(
        &self,
        file: &FileHandle,
        offset: u64,
        memory: Buf,
    ) -> Outcome<ReadInto, PostOpAttr> {
        let read = self
            .nfs
            .read_into(&self.handles.long(file), offset, memory)
            .await;
        outcome(read.map(|read| ReadInto {
            file_attributes: Some(read.stat.as_nfs3()),
            eof: read.eof,
            data: read.data,
        }))
    }

    pub(super) async fn write(
        &self,
        file: &FileHandle,
        offset: u64,
        stable: StableHow,
        data: Bytes,
    ) -> Outcome<WriteOk, WccData> {
        if self.read_only {
            return Ok(Err(read_only()));
        }
        let file = self.handles.long(file);
        let wrote = self.nfs.write_at(&file, offset, stable4(stable), data);
        outcome(wrote.await.map(|wrote| WriteOk {
            file_wcc: WccData::default(),
            count: wrote.count,
            committed: stable3(wrote.committed),
            verf: wrote.verifier.0,
        }))
    }

    pub(super) async fn commit(
        &self,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Outcome<CommitOk, WccData> {
        let commit = ArgOp::Commit(CommitArgs { offset, count });
        let done = self.nfs.all(&[self.putfh(file), commit]).await;
        outcome(done.and_then(|results| {
            let res = results.decode()?;
            match res.resarray.last() {
                Some(ResOp::Commit(Ok(ok))) => Ok(CommitOk {
                    file_wcc: WccData::default(),
                    verf: ok.writeverf.0,
                }),
                _ => Err(Nfs4Error::Unexpected(Opnum::Commit)),
            }
        }))
    }

    pub(super) async fn readdir(
        &self,
        dir: &FileHandle,
        cookie: u64,
        cookieverf: [u8; 8],
        count: u32,
    ) -> Outcome<ReaddirOk, PostOpAttr> {
        let asked = Bitmap4::of(&[Attribute::RdattrError.number(), Attribute::Fileid.number()]);
        let take = |page: &ReaddirOk4<'_>| {
            let entry = |entry: &nfs_wire::nfs4::ops::Entry4<'_>| Entry3 {
                fileid: (entry.attrs.decode_values().ok())
                    .and_then(|values| values.fileid)
                    .unwrap_or_default(),
                name: entry.name.0.to_vec(),
                cookie: entry.cookie,
            };
            ReaddirOk {
                dir_attributes: None,
                cookieverf: page.cookieverf.0,
                entries: page.entries.iter().map(entry).collect(),
                eof: page.eof,
            }
        };
        let place = (cookie, cookieverf);
        self.page(dir, place, (count, count), asked, take).await
    }

    pub(super) async fn readdirplus(
        &self,
        dir: &FileHandle,
        cookie: u64,
        cookieverf: [u8; 8],
        dircount: u32,
        maxcount: u32,
    ) -> Outcome<ReaddirplusOk, PostOpAttr> {
        let asked = ASKED
            .with(Attribute::RdattrError.number())
            .with(Attribute::Filehandle.number());
        let take = |page: &ReaddirOk4<'_>| {
            let entry = |entry: &nfs_wire::nfs4::ops::Entry4<'_>| {
                let attributes = stat_from(&entry.attrs).ok().map(|stat| stat.as_nfs3());
                let values = entry.attrs.decode_values().ok();
                EntryPlus3 {
                    fileid: attributes.map_or(0, |attributes| attributes.fileid),
                    name: entry.name.0.to_vec(),
                    cookie: entry.cookie,
                    name_attributes: attributes,
                    name_handle: values
                        .and_then(|values| values.filehandle)
                        .and_then(|handle| self.handles.short(&handle).ok()),
                }
            };
            ReaddirplusOk {
                dir_attributes: None,
                cookieverf: page.cookieverf.0,
                entries: page.entries.iter().map(entry).collect(),
                eof: page.eof,
            }
        };
        let place = (cookie, cookieverf);
        let room = (dircount, maxcount);
        self.page(dir, place, room, asked, take).await
    }

    /// One READDIR, of which `take` takes what is wanted.
    async fn page<T>(
        &self,
        dir: &FileHandle,
        (cookie, cookieverf): (u64, [u8; 8]),
        (dircount, maxcount): (u32, u32),
        asked: Bitmap4,
        take: impl FnOnce(&ReaddirOk4<'_>) -> T,
    ) -> Outcome<T, PostOpAttr> {
        let readdir = ArgOp::Readdir(ReaddirArgs {
            cookie,
            cookieverf: Verifier4(cookieverf),
            dircount,
            maxcount: maxcount.min(self.nfs.data_bytes_max()),
            attr_request: asked,
        });
        let page = self.nfs.all(&[self.putfh(dir), readdir]).await;
        if let Err(Nfs4Error::Status {
            status: Nfsstat4::NotSame,
            ..
        }) = &page
        {
            // The verifier is not that of the directory any more.
            return Ok(Err(failure(Nfsstat3::BadCookie)));
        }
        outcome(
            page.and_then(|results| match results.decode()?.resarray.last() {
                Some(ResOp::Readdir(Ok(page))) => Ok(take(page)),
                _ => Err(Nfs4Error::Unexpected(Opnum::Readdir)),
            }),
        )
    }

    /// Attributes of an object's file system, of which `take` takes what is wanted.
    async fn asked<T>(
        &self,
        object: &FileHandle,
        asked: &[Attribute],
        take: impl FnOnce(&Attributes<'_>) -> T,
    ) -> Outcome<T, PostOpAttr> {
        let attr_request = asked.iter().map(|attribute| attribute.number()).collect();
        let getattr = ArgOp::Getattr(GetattrArgs { attr_request });
        let told = self.nfs.all(&[self.putfh(object), getattr]).await;
        outcome(
            told.and_then(|results| match results.decode()?.resarray.last() {
                Some(ResOp::Getattr(Ok(ok))) => {
                    let values = ok.obj_attributes.decode_values();
                    Ok(take(&values.map_err(|_| Nfs4Error::Attributes)?))
                }
                _ => Err(Nfs4Error::Unexpected(Opnum::Getattr)),
            }),
        )
    }

    pub(super) async fn fsstat(&self, root: &FileHandle) -> Outcome<FsstatOk, PostOpAttr> {
        let asked = [
            Attribute::FilesAvail,
            Attribute::FilesFree,
            Attribute::FilesTotal,
            Attribute::SpaceAvail,
            Attribute::SpaceFree,
            Attribute::SpaceTotal,
        ];
        let take = |values: &Attributes<'_>| FsstatOk {
            obj_attributes: None,
            tbytes: values.space_total.unwrap_or_default(),
            fbytes: values.space_free.unwrap_or_default(),
            abytes: values.space_avail.unwrap_or_default(),
            tfiles: values.files_total.unwrap_or_default(),
            ffiles: values.files_free.unwrap_or_default(),
            afiles: values.files_avail.unwrap_or_default(),
            invarsec: 0,
        };
        self.asked(root, &asked, take).await
    }

    pub(super) async fn fsinfo(&self, root: &FileHandle) -> Outcome<FsinfoOk, PostOpAttr> {
        let asked = [
            Attribute::Maxread,
            Attribute::Maxwrite,
            Attribute::Maxfilesize,
            Attribute::TimeDelta,
            Attribute::Homogeneous,
            Attribute::LinkSupport,
            Attribute::SymlinkSupport,
            Attribute::Cansettime,
        ];
        let most = self.nfs.data_bytes_max();
        let take = |values: &Attributes<'_>| {
            // No more than a message of the session has room for.
            let size = |said: Option<u64>| {
                let said = said.filter(|said| *said > 0).unwrap_or(u64::from(most));
                u32::try_from(said).unwrap_or(u32::MAX).min(most)
            };
            let bit = |has: Option<bool>, bit| if has == Some(false) { 0 } else { bit };
            let delta = values.time_delta.unwrap_or_default();
            FsinfoOk {
                obj_attributes: None,
                rtmax: size(values.maxread),
                rtpref: size(values.maxread),
                rtmult: 1,
                wtmax: size(values.maxwrite),
                wtpref: size(values.maxwrite),
                wtmult: 1,
                dtpref: most,
                maxfilesize: values.maxfilesize.unwrap_or(u64::MAX),
                time_delta: Nfstime3 {
                    seconds: u32::try_from(delta.seconds).unwrap_or_default(),
                    nseconds: delta.nseconds,
                },
                properties: bit(values.link_support, FSF3_LINK)
                    | bit(values.symlink_support, FSF3_SYMLINK)
                    | bit(values.homogeneous, FSF3_HOMOGENEOUS)
                    | bit(values.cansettime, FSF3_CANSETTIME),
            }
        };
        self.asked(root, &asked, take).await
    }

    pub(super) async fn pathconf(&self, object: &FileHandle) -> Outcome<PathconfOk, PostOpAttr> {
        let asked = [
            Attribute::Maxlink,
            Attribute::Maxname,
            Attribute::NoTrunc,
            Attribute::ChownRestricted,
            Attribute::CaseInsensitive,
            Attribute::CasePreserving,
        ];
        let take = |values: &Attributes<'_>| PathconfOk {
            obj_attributes: None,
            linkmax: values.maxlink.unwrap_or(1),
            name_max: values.maxname.unwrap_or(255),
            no_trunc: values.no_trunc.unwrap_or(true),
            chown_restricted: values.chown_restricted.unwrap_or(true),
            case_insensitive: values.case_insensitive.unwrap_or(false),
            case_preserving: values.case_preserving.unwrap_or(true),
        };
        self.asked(object, &asked, take).await
    }
}

/// What makes and removes names. Each tells whether it went out in more than one session.
impl V4 {
    pub(super) async fn create(
        &self,
        args: &CreateArgs<'_>,
    ) -> Result<Answer<CreateOk, WccData>, RpcError> {
        if self.read_only {
            return Ok(refused());
        }
        let new = match &args.how {
            CreateHow::Unchecked(new) | CreateHow::Guarded(new) => *new,
            CreateHow::Exclusive(_) => Sattr3::default(),
        };
        let set = encode_to_vec(&Owners::of(&new).with(&new));
        let made = async {
            let attrs = fattr(&set)?;
            let how = match args.how {
                CreateHow::Unchecked(_) => Createhow4::Unchecked(attrs),
                CreateHow::Guarded(_) => Createhow4::Guarded(attrs),
                CreateHow::Exclusive(verifier) => Createhow4::Exclusive41(CreateVerfAttr {
                    verf: Verifier4(verifier),
                    attrs,
                }),
            };
            let (dir, name) = (&args.where_.dir, args.where_.name.0);
            let access = OPEN4_SHARE_ACCESS_WRITE;
            self.nfs
                .create(&self.handles.long(dir), name, how, access)
                .await
        };
        let (made, resent) = match made.await {
            Ok(made) => made,
            Err(error) => (Err(error), false),
        };
        if let Err(Nfs4Error::Status {
            status: Nfsstat4::Isdir | Nfsstat4::Symlink | Nfsstat4::WrongType,
            ..
        }) = &made
        {
            // OPEN says what is in the way, CREATE of NFSv3 that something is.
            let outcome = Err(failure(Nfsstat3::Exist));
            return Ok(Answer { outcome, resent });
        }
        self.made_node(made, resent)
    }

    pub(super) async fn mkdir(
        &self,
        args: &MkdirArgs<'_>,
    ) -> Result<Answer<CreateOk, WccData>, RpcError> {
        let (dir, name) = (&args.where_.dir, args.where_.name.0);
        self.make(dir, name, Createtype4::Dir, &args.attributes)
            .await
    }

    pub(super) async fn symlink(
        &self,
        args: &SymlinkArgs<'_>,
    ) -> Result<Answer<CreateOk, WccData>, RpcError> {
        let (dir, name) = (&args.where_.dir, args.where_.name.0);
        let link = Createtype4::Lnk(Linktext4(args.symlink.symlink_data.0));
        self.make(dir, name, link, &args.symlink.symlink_attributes)
            .await
    }

    pub(super) async fn mknod(
        &self,
        args: &MknodArgs<'_>,
    ) -> Result<Answer<CreateOk, WccData>, RpcError> {
        let (kind, attributes) = match &args.what {
            Mknoddata::CharacterDevice(data) => {
                (Createtype4::Chr(device(data.spec)), &data.dev_attributes)
            }
            Mknoddata::BlockDevice(data) => {
                (Createtype4::Blk(device(data.spec)), &data.dev_attributes)
            }
            Mknoddata::Socket(data) => (Createtype4::Sock, &data.pipe_attributes),
            Mknoddata::Fifo(data) => (Createtype4::Fifo, &data.pipe_attributes),
            Mknoddata::Other(_) => {
                let outcome = Err(failure(Nfsstat3::Badtype));
                return Ok(Answer {
                    outcome,
                    resent: false,
                });
            }
        };
        let (dir, name) = (&args.where_.dir, args.where_.name.0);
        self.make(dir, name, kind, attributes).await
    }

    /// Makes anything but a regular file.
    async fn make(
        &self,
        dir: &FileHandle,
        name: &[u8],
        objtype: Createtype4<'_>,
        new: &Sattr3,
    ) -> Result<Answer<CreateOk, WccData>, RpcError> {
        if self.read_only {
            return Ok(refused());
        }
        let set = encode_to_vec(&Owners::of(new).with(new));
        let made = async {
            let create = ArgOp::Create(CreateArgs4 {
                objtype,
                objname: Component4(name),
                createattrs: fattr(&set)?,
            });
            let ops = [self.putfh(dir), create, ArgOp::Getfh(()), getattr()];
            self.nfs.changed(&ops).await
        };
        match made.await {
            Ok((done, resent)) => self.made_node(done.and_then(|results| results.node()), resent),
            Err(error) => self.made_node(Err(error), false),
        }
    }

    pub(super) async fn remove(
        &self,
        args: &RemoveArgs<'_>,
    ) -> Result<Answer<RemoveOk, WccData>, RpcError> {
        let (dir, name) = (&args.object.dir, args.object.name.0);
        self.take_away(dir, name, false).await
    }

    pub(super) async fn rmdir(
        &self,
        args: &RmdirArgs<'_>,
    ) -> Result<Answer<RemoveOk, WccData>, RpcError> {
        let (dir, name) = (&args.object.dir, args.object.name.0);
        self.take_away(dir, name, true).await
    }

    /// REMOVE takes everything (RFC 8881 §18.25); so what has the name is looked at just before.
    async fn take_away(
        &self,
        dir: &FileHandle,
        name: &[u8],
        directory: bool,
    ) -> Result<Answer<RemoveOk, WccData>, RpcError> {
        if self.read_only {
            return Ok(refused());
        }
        let is_directory = encode_to_vec(&Attributes {
            ftype: Some(Ftype4::Dir),
            ..Attributes::default()
        });
        let done = async {
            let obj_attributes = fattr(&is_directory)?;
            let verify = VerifyArgs { obj_attributes };
            let verify = match directory {
                true => ArgOp::Verify(verify),
                false => ArgOp::Nverify(verify),
            };
            let objname = Component4(name);
            let target = Component4(name);
            let ops = [
                self.putfh(dir),
                ArgOp::Lookup(LookupArgs { objname }),
                verify,
                self.putfh(dir),
                ArgOp::Remove(RemoveArgs4 { target }),
            ];
            self.nfs.changed(&ops).await
        };
        let (done, resent) = split(done.await);
        let status = match &done {
            Err(Nfs4Error::Status { status, .. }) => Some(*status),
            _ => None,
        };
        let outcome = match status {
            Some(Nfsstat4::Same) => Err(failure(Nfsstat3::Isdir)),
            Some(Nfsstat4::NotSame) => Err(failure(Nfsstat3::Notdir)),
            _ => outcome(done.map(|_| RemoveOk {
                wcc: WccData::default(),
            }))?,
        };
        Ok(Answer { outcome, resent })
    }

    pub(super) async fn rename(
        &self,
        args: &RenameArgs<'_>,
    ) -> Result<Answer<RenameBody, RenameBody>, RpcError> {
        if self.read_only {
            return Ok(refused());
        }
        let ops = [
            self.putfh(&args.from.dir),
            ArgOp::Savefh(()),
            self.putfh(&args.to.dir),
            ArgOp::Rename(RenameArgs4 {
                oldname: Component4(args.from.name.0),
                newname: Component4(args.to.name.0),
            }),
        ];
        let (done, resent) = split(self.nfs.changed(&ops).await);
        let outcome = outcome(done.map(|_| RenameBody::default()))?;
        Ok(Answer { outcome, resent })
    }

    pub(super) async fn link(
        &self,
        args: &LinkArgs<'_>,
    ) -> Result<Answer<LinkBody, LinkBody>, RpcError> {
        if self.read_only {
            return Ok(refused());
        }
        let ops = [
            self.putfh(&args.file),
            ArgOp::Savefh(()),
            self.putfh(&args.link.dir),
            ArgOp::Link(LinkArgs4 {
                newname: Component4(args.link.name.0),
            }),
        ];
        let (done, resent) = split(self.nfs.changed(&ops).await);
        let outcome = outcome(done.map(|_| LinkBody::default()))?;
        Ok(Answer { outcome, resent })
    }
}

/// What came of a call that changes something, and whether it went out in more than one session.
type Changed = Result<(Result<Results, Nfs4Error>, bool), Nfs4Error>;

fn split(changed: Changed) -> (Result<Results, Nfs4Error>, bool) {
    match changed {
        Ok(changed) => changed,
        Err(error) => (Err(error), false),
    }
}

fn failure<F: Default>(status: Nfsstat3) -> Failure<F> {
    let body = F::default();
    Failure { status, body }
}

fn read_only<F: Default>() -> Failure<F> {
    failure(Nfsstat3::Rofs)
}

fn refused<O, F: Default>() -> Answer<O, F> {
    Answer {
        outcome: Err(read_only()),
        resent: false,
    }
}
