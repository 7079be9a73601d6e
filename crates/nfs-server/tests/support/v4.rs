//! A client of NFSv4.1 and 4.2 for tests: one session, of which it uses one slot.

use nfs_client::{Identity, Nfs3, Procedure};
use nfs_wire::nfs4::ops::{
    ChannelAttrs4, ClientOwner4, CreateSessionArgs, ExchangeIdArgs, GetattrArgs, LookupArgs,
    OpenArgs, OpenClaim4, Openflag4, PutfhArgs, ReadArgs, ReaddirArgs, ReclaimCompleteArgs,
    SequenceArgs, StateProtect4A, WriteArgs,
};
use nfs_wire::nfs4::{
    ArgOp, Attribute, Attributes, Bitmap4, Component4, CompoundArgs, CompoundRes, Fattr4,
    FileHandle, Nfsstat4, Opaque4, ResOp, Sessionid4, StableHow4, StateOwner4, Stateid4, Tag,
    Verifier4,
};
use nfs_wire::{Encode, Encoder, Payload, decode_all, encode_to_vec, nfs4};

use super::{Served, connect};

/// One client with one session, of which it uses one slot.
pub(crate) struct Client {
    pub(crate) nfs: Nfs3,
    minor: u32,
    pub(crate) session: Sessionid4,
    pub(crate) sequence: u32,
}

/// Sends operations as they are and hands the reply to `look`.
pub(crate) async fn raw<T>(
    nfs: &Nfs3,
    minorversion: u32,
    argarray: Vec<ArgOp<'_>>,
    look: impl FnOnce(CompoundRes<'_>) -> T,
) -> T {
    let procedure = Procedure {
        program: nfs4::PROGRAM,
        version: nfs4::VERSION,
        number: nfs4::PROC_COMPOUND,
    };
    let args = encode_to_vec(&CompoundArgs {
        tag: Tag(b"test"),
        minorversion,
        argarray,
    });
    let reply = nfs.connection().call_raw(procedure, nfs.identity(), &args);
    let reply = reply.await.unwrap();
    let res: CompoundRes<'_> = decode_all(&reply).unwrap();
    assert_eq!(res.tag.0, b"test");
    look(res)
}

pub(crate) fn channel() -> ChannelAttrs4 {
    ChannelAttrs4 {
        headerpadsize: 0,
        maxrequestsize: 1_049_620,
        maxresponsesize: 1_049_480,
        maxresponsesize_cached: 7584,
        maxoperations: 8,
        maxrequests: 64,
        rdma_ird: None,
    }
}

pub(crate) fn exchange_id(owner: &[u8]) -> ArgOp<'_> {
    ArgOp::ExchangeId(ExchangeIdArgs {
        clientowner: ClientOwner4 {
            verifier: Verifier4(*b"one life"),
            ownerid: Opaque4(owner),
        },
        flags: 0,
        state_protect: StateProtect4A::None,
        client_impl_id: None,
    })
}

impl Client {
    pub(crate) async fn new(served: &Served, minor: u32, owner: &[u8]) -> Self {
        Self::of(served, minor, owner, Identity::sys(0, 0, &[])).await
    }

    /// A client that has said who it is, has a session, and has nothing to reclaim.
    pub(crate) async fn of(served: &Served, minor: u32, owner: &[u8], identity: Identity) -> Self {
        let nfs = connect(served.addr, identity).await;
        let exchanged = raw(&nfs, minor, vec![exchange_id(owner)], |res| {
            assert_eq!(res.status, Nfsstat4::Ok);
            match res.resarray.as_slice() {
                [ResOp::ExchangeId(Ok(ok))] => (ok.clientid, ok.sequenceid),
                other => panic!("{other:?}"),
            }
        });
        let (clientid, sequence) = exchanged.await;
        let create = ArgOp::CreateSession(CreateSessionArgs {
            clientid,
            sequence,
            flags: 0,
            fore_chan_attrs: channel(),
            back_chan_attrs: channel(),
            cb_program: 0x4000_0000,
            sec_parms: vec![],
        });
        let session = raw(&nfs, minor, vec![create], |res| match &*res.resarray {
            [ResOp::CreateSession(Ok(ok))] => ok.sessionid,
            other => panic!("{other:?}"),
        });
        let session = session.await;
        let mut client = Self {
            nfs,
            minor,
            session,
            sequence: 0,
        };
        let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        client.ok(vec![complete]).await;
        client
    }

    pub(crate) fn sequence(&mut self) -> ArgOp<'static> {
        self.sequence += 1;
        ArgOp::Sequence(SequenceArgs {
            sessionid: self.session,
            sequenceid: self.sequence,
            slotid: 0,
            highest_slotid: 0,
            cachethis: false,
        })
    }

    /// Carries operations out in the session; `look` gets the results behind SEQUENCE's.
    pub(crate) async fn call<T>(
        &mut self,
        ops: Vec<ArgOp<'_>>,
        look: impl FnOnce(Nfsstat4, &[ResOp<'_>]) -> T,
    ) -> T {
        let mut all = vec![self.sequence()];
        all.extend(ops);
        raw(&self.nfs, self.minor, all, |res| {
            let [ResOp::Sequence(Ok(_)), results @ ..] = res.resarray.as_slice() else {
                panic!("{res:?}")
            };
            look(res.status, results)
        })
        .await
    }

    pub(crate) async fn status(&mut self, ops: Vec<ArgOp<'_>>) -> Nfsstat4 {
        self.call(ops, |status, _| status).await
    }

    pub(crate) async fn ok(&mut self, ops: Vec<ArgOp<'_>>) {
        self.call(ops, |status, results| {
            assert_eq!(status, Nfsstat4::Ok, "{results:?}");
        })
        .await;
    }

    /// The handle that operations end at.
    pub(crate) async fn handle(&mut self, mut ops: Vec<ArgOp<'_>>) -> FileHandle {
        ops.push(ArgOp::Getfh(()));
        self.call(ops, |status, results| match results.last() {
            Some(ResOp::Getfh(Ok(ok))) => ok.object,
            _ => panic!("{status}: {results:?}"),
        })
        .await
    }

    pub(crate) async fn root(&mut self) -> FileHandle {
        self.handle(vec![ArgOp::Putrootfh(())]).await
    }

    /// The size, mode and number of links of an object.
    pub(crate) async fn stat(&mut self, object: &FileHandle) -> (u64, u32, u32) {
        let asked = [Attribute::Size, Attribute::Mode, Attribute::Numlinks];
        let attr_request = asked.iter().map(|it| it.number()).collect();
        let ops = vec![putfh(object), ArgOp::Getattr(GetattrArgs { attr_request })];
        self.call(ops, |status, results| match results {
            [_, ResOp::Getattr(Ok(ok))] => {
                let values = ok.obj_attributes.decode_values().unwrap();
                let (size, mode) = (values.size.unwrap(), values.mode.unwrap());
                (size, mode, values.numlinks.unwrap())
            }
            _ => panic!("{status}: {results:?}"),
        })
        .await
    }

    /// Opens a file by its name in a directory; returns its handle and the stateid.
    pub(crate) async fn open(&mut self, dir: &FileHandle, open: OpenArgs<'_>) -> Opened {
        let ops = vec![putfh(dir), ArgOp::Open(open), ArgOp::Getfh(())];
        self.call(ops, |status, results| match results {
            [_, ResOp::Open(Ok(ok)), ResOp::Getfh(Ok(fh))] => Ok((fh.object, ok.stateid)),
            _ => Err(status),
        })
        .await
    }

    pub(crate) async fn read(
        &mut self,
        file: &FileHandle,
        stateid: Stateid4,
        (offset, count): (u64, u32),
    ) -> Result<(Vec<u8>, bool), Nfsstat4> {
        let read = ArgOp::Read(ReadArgs {
            stateid,
            offset,
            count,
        });
        self.call(vec![putfh(file), read], |status, results| match results {
            [_, ResOp::Read(Ok(ok))] => match ok.data {
                Payload::Here(data) => Ok((data.to_vec(), ok.eof)),
                Payload::Apart { .. } => panic!("a reply is whole"),
            },
            _ => Err(status),
        })
        .await
    }

    pub(crate) async fn write(
        &mut self,
        file: &FileHandle,
        stateid: Stateid4,
        (offset, data): (u64, &[u8]),
    ) -> Result<u32, Nfsstat4> {
        let write = ArgOp::Write(WriteArgs {
            stateid,
            offset,
            stable: StableHow4::FileSync,
            data: Payload::Here(data),
        });
        self.call(vec![putfh(file), write], |status, results| match results {
            [_, ResOp::Write(Ok(ok))] => Ok(ok.count),
            _ => Err(status),
        })
        .await
    }

    pub(crate) async fn names(&mut self, dir: &FileHandle, maxcount: u32) -> Vec<String> {
        let (mut names, mut cookie, mut verifier) = (vec![], 0, Verifier4::default());
        loop {
            let readdir = ArgOp::Readdir(ReaddirArgs {
                cookie,
                cookieverf: verifier,
                dircount: maxcount,
                maxcount,
                attr_request: Bitmap4::of(&[1, 8, 11, 19, 20, 55]),
            });
            let ops = vec![putfh(dir), readdir];
            let eof = self.call(ops, |status, results| match results {
                [_, ResOp::Readdir(Ok(ok))] => {
                    verifier = ok.cookieverf;
                    for entry in &ok.entries {
                        cookie = entry.cookie;
                        let values = entry.attrs.decode_values().unwrap();
                        assert!(values.fileid.is_some() && values.filehandle.is_some());
                        names.push(String::from_utf8_lossy(entry.name.0).into_owned());
                    }
                    ok.eof
                }
                _ => panic!("{status}: {results:?}"),
            });
            if eof.await {
                names.sort();
                return names;
            }
        }
    }
}

pub(crate) type Opened = Result<(FileHandle, Stateid4), Nfsstat4>;

pub(crate) fn putfh(object: &FileHandle) -> ArgOp<'static> {
    ArgOp::Putfh(PutfhArgs { object: *object })
}

pub(crate) fn lookup(name: &[u8]) -> ArgOp<'_> {
    ArgOp::Lookup(LookupArgs {
        objname: Component4(name),
    })
}

pub(crate) const NO_ATTRIBUTES: Fattr4<'static> = Fattr4 {
    attrmask: Bitmap4::EMPTY,
    attr_vals: nfs_wire::nfs4::Attrlist4(b""),
};

/// Encoded attributes, to be borrowed by a `Fattr4`.
pub(crate) fn encoded(values: &Attributes<'_>) -> (Bitmap4, Vec<u8>) {
    let mut bytes = Vec::new();
    values.encode(&mut Encoder::new(&mut bytes));
    let fattr: Fattr4<'_> = decode_all(&bytes).unwrap();
    (fattr.attrmask, fattr.attr_vals.0.to_vec())
}

pub(crate) fn fattr(encoded: &(Bitmap4, Vec<u8>)) -> Fattr4<'_> {
    Fattr4 {
        attrmask: encoded.0,
        attr_vals: nfs_wire::nfs4::Attrlist4(&encoded.1),
    }
}

pub(crate) fn of_mode(mode: u32) -> (Bitmap4, Vec<u8>) {
    encoded(&Attributes {
        mode: Some(mode),
        ..Attributes::default()
    })
}

pub(crate) fn owner(owner: &[u8]) -> StateOwner4<'_> {
    StateOwner4 {
        clientid: Default::default(),
        owner: Opaque4(owner),
    }
}

pub(crate) fn open_args<'a>(name: &'a [u8], access: u32, openhow: Openflag4<'a>) -> OpenArgs<'a> {
    OpenArgs {
        seqid: 0,
        share_access: access,
        share_deny: 0,
        owner: owner(b"opener"),
        openhow,
        claim: OpenClaim4::Null(Component4(name)),
    }
}
