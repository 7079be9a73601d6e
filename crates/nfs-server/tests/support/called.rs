//! An NFSv4 client that its server calls: one connection, of which the test reads every record.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use nfs_client::{Identity, Procedure, RawConnection};
use nfs_wire::auth::{AuthSys, GidList};
use nfs_wire::nfs4::ops::{
    BindConnToSessionArgs, CREATE_SESSION4_FLAG_CONN_BACK_CHAN, CallbackSecParms4, ChannelAttrs4,
    ChannelDirFromClient4, ChannelDirFromServer4, CreateSessionArgs, LockArgs, Locker4, LockuArgs,
    OPEN4_SHARE_ACCESS_BOTH, OpenToLockOwner4, Openflag4, ReclaimCompleteArgs, SequenceArgs,
};
use nfs_wire::nfs4::{
    ArgOp, CbArgOp, CbCompoundArgs, CbCompoundRes, CbResOp, CbSequenceArgs, CbSequenceOk,
    CompoundArgs, CompoundRes, FileHandle, LockType4, Nfsstat4, ResOp, Sessionid4, Stateid4, Tag,
};
use nfs_wire::rpc::{AcceptStat, CallHeader, ReplyBody, ReplyHeader};
use nfs_wire::{Decode as _, Decoder, Encode as _, Encoder, decode_all, encode_to_vec, nfs4};

use super::Served;
use super::v4::{channel, exchange_id, open_args, owner, putfh};
use super::wire::{DEADLINE, connect_from};

/// The program that the clients here answer to.
pub(crate) const PROGRAM: u32 = 0x4000_1234;

/// One end of a session.
pub(crate) struct Called {
    raw: RawConnection,
    xid: u32,
    pub(crate) session: Sessionid4,
    pub(crate) sequence: u32,
    /// The flags in the last answer to SEQUENCE.
    pub(crate) flags: u32,
    /// Calls of the server that came while something else was waited for.
    calls: VecDeque<Vec<u8>>,
}

/// A call of the server, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) xid: u32,
    pub(crate) uid: u32,
    pub(crate) sequence: CbSequenceArgs,
    pub(crate) file: FileHandle,
    pub(crate) owner: Vec<u8>,
}

pub(crate) fn back() -> ChannelAttrs4 {
    ChannelAttrs4 {
        maxrequestsize: 4096,
        maxresponsesize: 4096,
        maxresponsesize_cached: 0,
        maxoperations: 2,
        maxrequests: 16,
        ..channel()
    }
}

/// What Linux sends: the server is to be root of a machine.
pub(crate) fn as_root() -> CallbackSecParms4<'static> {
    CallbackSecParms4::Sys(AuthSys {
        stamp: 7,
        machine_name: b"client",
        uid: 0,
        gid: 0,
        gids: GidList::EMPTY,
    })
}

impl Called {
    /// A client with a session of which this connection is both ways, as far as the server lets it.
    pub(crate) async fn new(served: &Served, name: &[u8]) -> Self {
        let flag = CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
        let (client, flags) = Self::with(served, name, flag, vec![as_root()]).await;
        assert_eq!(flags, flag, "the way back is there");
        client
    }

    /// The same with these flags and credentials; also the flags that the server grants.
    pub(crate) async fn with(
        served: &Served,
        name: &[u8],
        flags: u32,
        sec_parms: Vec<CallbackSecParms4<'_>>,
    ) -> (Self, u32) {
        let mut client = Self::connect(served, Sessionid4::default()).await;
        let flags = client.join(name, flags, sec_parms).await;
        (client, flags)
    }

    /// Becomes a client of this name, with a session and nothing to reclaim; the flags that the server grants.
    async fn join(
        &mut self,
        name: &[u8],
        flags: u32,
        sec_parms: Vec<CallbackSecParms4<'_>>,
    ) -> u32 {
        let exchanged = self.raw(vec![exchange_id(name)], |res| match &*res.resarray {
            [ResOp::ExchangeId(Ok(ok))] => (ok.clientid, ok.sequenceid),
            other => panic!("{other:?}"),
        });
        let (clientid, sequence) = exchanged.await;
        let create = ArgOp::CreateSession(CreateSessionArgs {
            clientid,
            sequence,
            flags,
            fore_chan_attrs: channel(),
            back_chan_attrs: back(),
            cb_program: PROGRAM,
            sec_parms,
        });
        let made = self.raw(vec![create], |res| match &*res.resarray {
            [ResOp::CreateSession(Ok(ok))] => *ok,
            other => panic!("{other:?}"),
        });
        let made = made.await;
        assert_eq!(made.back_chan_attrs, back());
        self.session = made.sessionid;
        let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        assert_eq!(self.status(vec![complete]).await, Nfsstat4::Ok);
        made.flags
    }

    /// [`Called::new`] of the machine at this address.
    pub(crate) async fn at(own: Ipv4Addr, served: &Served, name: &[u8]) -> Self {
        let stream = connect_from(own, served.addr).await.unwrap();
        let raw = RawConnection::from_stream(stream);
        let mut client = Self::over(raw, Sessionid4::default());
        let flag = CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
        let flags = client.join(name, flag, vec![as_root()]).await;
        assert_eq!(flags, flag, "the way back is there");
        client
    }

    /// Another connection, which is to be used for this session.
    pub(crate) async fn connect(served: &Served, session: Sessionid4) -> Self {
        let raw = RawConnection::connect(served.addr).await.unwrap();
        Self::over(raw, session)
    }

    fn over(raw: RawConnection, session: Sessionid4) -> Self {
        Self {
            raw,
            xid: 1,
            session,
            sequence: 0,
            flags: 0,
            calls: VecDeque::new(),
        }
    }

    /// BIND_CONN_TO_SESSION: what the server uses the connection for from now on.
    pub(crate) async fn bind(
        &mut self,
        dir: ChannelDirFromClient4,
    ) -> Result<ChannelDirFromServer4, Nfsstat4> {
        let bind = ArgOp::BindConnToSession(BindConnToSessionArgs {
            sessid: self.session,
            dir,
            use_conn_in_rdma_mode: false,
        });
        self.raw(vec![bind], |res| match &*res.resarray {
            [ResOp::BindConnToSession(Ok(ok))] => Ok(ok.dir),
            _ => Err(res.status),
        })
        .await
    }

    async fn record(&mut self) -> Vec<u8> {
        let received = tokio::time::timeout(DEADLINE, self.raw.receive_record());
        let record = received.await.expect("a record in time");
        record.unwrap().expect("the server does not close")
    }

    /// Sends operations as they are and hands the reply to `look`.
    pub(crate) async fn raw<T>(
        &mut self,
        argarray: Vec<ArgOp<'_>>,
        look: impl FnOnce(CompoundRes<'_>) -> T,
    ) -> T {
        self.xid += 1;
        let procedure = Procedure {
            program: nfs4::PROGRAM,
            version: nfs4::VERSION,
            number: nfs4::PROC_COMPOUND,
        };
        let args = CompoundArgs {
            tag: Tag(b"called"),
            minorversion: 1,
            argarray,
        };
        let identity = Identity::sys(0, 0, &[]);
        let call = RawConnection::call_body(self.xid, procedure, &identity, &args);
        self.raw.send_record(&call).await.unwrap();
        loop {
            let record = self.record().await;
            if record[4..8] == [0, 0, 0, 0] {
                self.calls.push_back(record);
                continue;
            }
            let mut decoder = Decoder::new(&record);
            let header = ReplyHeader::decode(&mut decoder).unwrap();
            let stat = AcceptStat::Success;
            assert_eq!(header.xid, self.xid);
            assert!(matches!(header.body, ReplyBody::Accepted { stat: it, .. } if it == stat));
            return look(decode_all(&record[decoder.position()..]).unwrap());
        }
    }

    /// Carries operations out in the session; `look` gets the results behind SEQUENCE's.
    pub(crate) async fn call<T>(
        &mut self,
        ops: Vec<ArgOp<'_>>,
        look: impl FnOnce(Nfsstat4, &[ResOp<'_>]) -> T,
    ) -> T {
        self.sequence += 1;
        let mut all = vec![ArgOp::Sequence(SequenceArgs {
            sessionid: self.session,
            sequenceid: self.sequence,
            slotid: 0,
            highest_slotid: 0,
            cachethis: false,
        })];
        all.extend(ops);
        let mut flags = 0;
        let looked = self.raw(all, |res| {
            let [ResOp::Sequence(Ok(ok)), results @ ..] = res.resarray.as_slice() else {
                panic!("{res:?}")
            };
            flags = ok.status_flags;
            look(res.status, results)
        });
        let looked = looked.await;
        self.flags = flags;
        looked
    }

    pub(crate) async fn status(&mut self, ops: Vec<ArgOp<'_>>) -> Nfsstat4 {
        self.call(ops, |status, _| status).await
    }

    /// Opens a file of the export for reading and writing: its handle, the stateid, and the flags of the answer.
    pub(crate) async fn open(&mut self, name: &[u8]) -> ((FileHandle, Stateid4), u32) {
        let open = open_args(name, OPEN4_SHARE_ACCESS_BOTH, Openflag4::Nocreate);
        let ops = vec![ArgOp::Putrootfh(()), ArgOp::Open(open), ArgOp::Getfh(())];
        self.call(ops, |status, results| match results {
            [_, ResOp::Open(Ok(ok)), ResOp::Getfh(Ok(fh))] => ((fh.object, ok.stateid), ok.rflags),
            _ => panic!("{status}: {results:?}"),
        })
        .await
    }

    /// LOCK of a range for writing by a new owner, which waits for it.
    pub(crate) async fn lock(
        &mut self,
        open: (FileHandle, Stateid4),
        locker: &[u8],
    ) -> Result<Stateid4, Nfsstat4> {
        self.lock_as(LockType4::WriteWaits, open, locker).await
    }

    pub(crate) async fn lock_as(
        &mut self,
        locktype: LockType4,
        open: (FileHandle, Stateid4),
        locker: &[u8],
    ) -> Result<Stateid4, Nfsstat4> {
        self.lock_at(0, locktype, open, locker).await
    }

    /// LOCK of the ten bytes from `offset` on.
    pub(crate) async fn lock_at(
        &mut self,
        offset: u64,
        locktype: LockType4,
        (file, open_stateid): (FileHandle, Stateid4),
        locker: &[u8],
    ) -> Result<Stateid4, Nfsstat4> {
        let lock = ArgOp::Lock(LockArgs {
            locktype,
            reclaim: false,
            offset,
            length: 10,
            locker: Locker4::New(OpenToLockOwner4 {
                open_seqid: 0,
                open_stateid,
                lock_seqid: 0,
                lock_owner: owner(locker),
            }),
        });
        self.call(vec![putfh(&file), lock], |status, results| match results {
            [_, ResOp::Lock(Ok(stateid))] => Ok(*stateid),
            _ => Err(status),
        })
        .await
    }

    pub(crate) async fn unlock(&mut self, file: FileHandle, lock_stateid: Stateid4) {
        let unlock = ArgOp::Locku(LockuArgs {
            locktype: LockType4::Write,
            seqid: 0,
            lock_stateid,
            offset: 0,
            length: u64::MAX,
        });
        let status = self.status(vec![putfh(&file), unlock]).await;
        assert_eq!(status, Nfsstat4::Ok);
    }

    /// The next call of the server.
    pub(crate) async fn next_call(&mut self) -> Call {
        let record = match self.calls.pop_front() {
            Some(record) => record,
            None => self.record().await,
        };
        let mut decoder = Decoder::new(&record);
        let header = CallHeader::decode(&mut decoder).unwrap();
        let numbers = (header.program, header.version, header.procedure);
        assert_eq!(numbers, (PROGRAM, 1, 1));
        let uid = header.credential.auth_sys().unwrap().uid;
        let compound: CbCompoundArgs<'_> = decode_all(&record[decoder.position()..]).unwrap();
        assert_eq!(compound.minorversion, 1);
        match compound.argarray.as_slice() {
            [CbArgOp::Sequence(sequence), CbArgOp::NotifyLock(notify)] => Call {
                xid: header.xid,
                uid,
                sequence: sequence.clone(),
                file: notify.fh,
                owner: notify.lock_owner.owner.0.to_vec(),
            },
            other => panic!("{other:?}"),
        }
    }

    /// Whether no call of the server has come up to what this connection was last answered.
    pub(crate) fn was_not_called(&self) -> bool {
        self.calls.is_empty()
    }

    /// Answers a call of the server with these results.
    pub(crate) async fn answer(
        &mut self,
        call: &Call,
        resarray: Vec<CbResOp<'_>>,
        status: Nfsstat4,
    ) {
        let res = CbCompoundRes {
            status,
            tag: Tag(b""),
            resarray,
        };
        self.answer_raw(call, &encode_to_vec(&res)).await;
    }

    /// Answers with these bytes behind the header of a reply.
    pub(crate) async fn answer_raw(&mut self, call: &Call, results: &[u8]) {
        let mut reply = Vec::new();
        let header = ReplyHeader::accepted(call.xid, AcceptStat::Success);
        header.encode(&mut Encoder::new(&mut reply));
        reply.extend_from_slice(results);
        self.send(&reply).await;
    }

    pub(crate) async fn send(&mut self, record: &[u8]) {
        self.raw.send_record(record).await.unwrap();
    }

    /// Carries a call of the server out.
    pub(crate) async fn carry_out(&mut self, call: &Call) {
        let results = vec![taken(call), CbResOp::NotifyLock(Ok(()))];
        self.answer(call, results, Nfsstat4::Ok).await;
    }
}

/// That a call was put into its slot.
pub(crate) fn taken(call: &Call) -> CbResOp<'static> {
    CbResOp::Sequence(Ok(CbSequenceOk {
        sessionid: call.sequence.sessionid,
        sequenceid: call.sequence.sequenceid,
        slotid: call.sequence.slotid,
        highest_slotid: 15,
        target_highest_slotid: 15,
    }))
}
