//! A session with a server that loses connections, replies and sessions: everything is carried out once, in the
//! order of its slot.

mod responder;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nfs_client::nfs::{Nfs, V4};
use nfs_client::nfs3::StableHow;
use nfs_client::nfs4::{FileHandle, MinorVersion, Nfs4, Nfs4Error};
use nfs_client::{ConnectOptions, Connection, Identity, RawConnection, RpcError, Target};
use nfs_wire::nfs4::ops::{
    ChannelAttrs4, CreateSessionOk, ExchangeIdOk, GetattrOk, OpenClaim4, OpenDelegation4, OpenOk,
    ReadOk, RemoveArgs, SequenceOk, ServerOwner4, StateProtect4R, WriteOk,
};
use nfs_wire::nfs4::{
    ArgOp, Attributes, Bitmap4, ChangeInfo4, Changeid4, Clientid4, Component4, CompoundArgs,
    CompoundRes, Fsid4, Ftype4, Nfsstat4, Opaque4, Opnum, ResOp, Sessionid4, StableHow4, Stateid4,
    Tag, Verifier4,
};
use nfs_wire::{Payload, decode_all, encode_to_vec};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use responder::{HANG, arguments, own_address, success, xid};

/// What becomes of a COMPOUND of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is carried out and answered.
    Good,
    /// It is carried out, and the connection ends before the reply.
    ReplyLost,
    /// SEQUENCE fails with this, and nothing is carried out.
    Refused(Nfsstat4),
    /// The operation at this index (SEQUENCE has 0) fails with this.
    Fails(usize, Nfsstat4),
    /// What is answered is no reply.
    Garbage,
    /// The server was started anew: it knows neither the session nor the client any more.
    Restarted,
    /// It is carried out and not answered before the test allows it.
    Held,
}

/// The server, as its connections share it.
#[derive(Default)]
struct Shared {
    slots: u32,
    sessions: u32,
    minor_versions: Vec<u32>,
    /// Of the session at present: the last number and reply of each slot.
    last: HashMap<u32, (u32, Option<Vec<u8>>)>,
    /// What becomes of the COMPOUNDs that are new, in their order; of those behind them all is good.
    fates: Vec<Fate>,
    /// How often each name was removed.
    removed: BTreeMap<Vec<u8>, u32>,
    /// New COMPOUNDs of sessions.
    seen: usize,
    /// How often it was started anew.
    restarts: u8,
    /// It takes reclaims.
    gives_back: bool,
    /// READs and WRITEs fail with this.
    refuses: Option<Nfsstat4>,
    /// The stateids that it knows, by what they are without their sequence.
    opens: BTreeSet<[u8; 12]>,
    /// What was done with files, and with sessions of clients that had some.
    log: Vec<String>,
}

type Server = Arc<Mutex<Shared>>;

async fn serve(shared: Server) -> (Target, Arc<tokio::sync::Notify>) {
    let listener = TcpListener::bind(own_address()).await.unwrap();
    let target = listener.local_addr().unwrap().into();
    let held = Arc::new(tokio::sync::Notify::new());
    let release = held.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let connection = RawConnection::from_stream(stream);
            tokio::spawn(answer_all(connection, shared.clone(), held.clone()));
        }
    });
    (target, release)
}

async fn answer_all(mut connection: RawConnection, shared: Server, held: Arc<tokio::sync::Notify>) {
    while let Ok(Some(call)) = connection.receive_record().await {
        let (reply, fate) = answer(&mut shared.lock().unwrap(), arguments(&call));
        match fate {
            Fate::ReplyLost => return,
            Fate::Held => held.notified().await,
            _ => {}
        }
        let message = success(xid(&call), &reply);
        if connection.send_record(&message).await.is_err() {
            return;
        }
    }
}

fn answer(server: &mut Shared, args: &[u8]) -> (Vec<u8>, Fate) {
    let args: CompoundArgs<'_> = decode_all(args).unwrap();
    if !server.minor_versions.contains(&args.minorversion) {
        let status = Nfsstat4::MinorVersMismatch;
        return (reply(status, Vec::new()), Fate::Good);
    }
    match args.argarray.as_slice() {
        [ArgOp::Sequence(sequence), ops @ ..] => {
            let current = session_id(server.sessions);
            if sequence.sessionid != current {
                return (refused(Nfsstat4::Badsession), Fate::Good);
            }
            let slot = sequence.slotid;
            assert!(slot < server.slots, "slot {slot}");
            let (last, kept) = server.last.get(&slot).cloned().unwrap_or_default();
            if sequence.sequenceid == last {
                let again = kept.unwrap_or_else(|| refused(Nfsstat4::RetryUncachedRep));
                return (again, Fate::Good);
            }
            assert_eq!(sequence.sequenceid, last + 1, "slot {slot}");
            let fate = server.fates.get(server.seen).copied().unwrap_or(Fate::Good);
            server.seen += 1;
            let reply = match fate {
                Fate::Refused(status) => {
                    if status == Nfsstat4::Badsession {
                        server.sessions += 1;
                        server.last.clear();
                    }
                    return (refused(status), fate);
                }
                Fate::Garbage => vec![1, 2, 3, 4],
                Fate::Restarted => {
                    server.sessions += 1;
                    server.restarts += 1;
                    server.last.clear();
                    server.opens.clear();
                    server.log.push("restart".to_owned());
                    return (refused(Nfsstat4::Badsession), fate);
                }
                _ => run(server, sequence, ops, fate),
            };
            let kept = sequence.cachethis.then(|| reply.clone());
            server.last.insert(slot, (sequence.sequenceid, kept));
            (reply, fate)
        }
        [one] => (alone(server, one), Fate::Good),
        other => panic!("without a session: {other:?}"),
    }
}

/// Carries out what is behind SEQUENCE.
fn run(
    server: &mut Shared,
    sequence: &nfs_wire::nfs4::ops::SequenceArgs,
    ops: &[ArgOp<'_>],
    fate: Fate,
) -> Vec<u8> {
    let mut results = vec![ResOp::Sequence(Ok(SequenceOk {
        sessionid: sequence.sessionid,
        sequenceid: sequence.sequenceid,
        slotid: sequence.slotid,
        highest_slotid: server.slots - 1,
        target_highest_slotid: server.slots - 1,
        status_flags: 0,
    }))];
    for (index, op) in (1..).zip(ops) {
        if let Fate::Fails(at, status) = fate
            && at == index
        {
            let mut failure = Vec::new();
            op.opnum()
                .encode_failure(status, &mut nfs_wire::Encoder::new(&mut failure));
            results.push(decode_all(failure.leak()).unwrap());
            return reply(status, results);
        }
        results.push(match op {
            ArgOp::Putfh(_) => ResOp::Putfh(Ok(())),
            ArgOp::Putrootfh(()) => ResOp::Putrootfh(Ok(())),
            ArgOp::Savefh(()) => ResOp::Savefh(Ok(())),
            ArgOp::ReclaimComplete(_) => {
                server.log.push("complete".to_owned());
                ResOp::ReclaimComplete(Ok(()))
            }
            ArgOp::Getattr(_) => ResOp::Getattr(Ok(GetattrOk {
                obj_attributes: decode_all(attributes().leak()).unwrap(),
            })),
            ArgOp::Open(_) | ArgOp::Close(_) | ArgOp::Read(_) | ArgOp::Write(_) => {
                let result = on_file(server, op);
                let status = result.status();
                results.push(result);
                if status != Nfsstat4::Ok {
                    return reply(status, results);
                }
                continue;
            }
            ArgOp::Remove(args) => {
                let count = server.removed.entry(args.target.0.to_vec()).or_default();
                *count += 1;
                ResOp::Remove(Ok(ChangeInfo4::default()))
            }
            other => panic!("{other:?}"),
        });
    }
    reply(Nfsstat4::Ok, results)
}

/// Opens, reads, writes and closes what its stateids stand for.
fn on_file(server: &mut Shared, op: &ArgOp<'_>) -> ResOp<'static> {
    let refuses = server.refuses;
    let known = |stateid: &Stateid4| match server.opens.contains(&stateid.other) {
        true => refuses.map_or(Ok(()), Err),
        false => Err(Nfsstat4::BadStateid),
    };
    let (word, result) = match op {
        ArgOp::Open(args) => {
            let (word, opened) = match args.claim {
                OpenClaim4::Previous(_) => match server.gives_back {
                    true => ("reclaim", Ok(())),
                    false => ("reclaim", Err(Nfsstat4::NoGrace)),
                },
                _ => ("open", Ok(())),
            };
            let mut other = [server.restarts; 12];
            other[..8].copy_from_slice(args.owner.owner.0);
            let opened = opened.map(|()| {
                server.opens.insert(other);
                OpenOk {
                    stateid: Stateid4 { seqid: 1, other },
                    cinfo: ChangeInfo4::default(),
                    rflags: 0,
                    attrset: Bitmap4::EMPTY,
                    delegation: OpenDelegation4::None,
                }
            });
            (word, ResOp::Open(opened))
        }
        ArgOp::Close(args) => {
            let done = match server.opens.contains(&args.open_stateid.other) {
                true => Ok(args.open_stateid),
                false => Err(Nfsstat4::BadStateid),
            };
            server.opens.remove(&args.open_stateid.other);
            ("close", ResOp::Close(done))
        }
        ArgOp::Read(args) => {
            let data = Payload::Here(b"data");
            let read = known(&args.stateid).map(|()| ReadOk { eof: true, data });
            ("read", ResOp::Read(read))
        }
        ArgOp::Write(args) => {
            let Payload::Here(data) = args.data else {
                panic!("data apart");
            };
            let written = known(&args.stateid).map(|()| WriteOk {
                count: data.len().try_into().unwrap(),
                committed: StableHow4::Unstable,
                writeverf: Verifier4([server.restarts; 8]),
            });
            ("write", ResOp::Write(written))
        }
        other => panic!("{other:?}"),
    };
    let status = result.status();
    server.log.push(match status {
        Nfsstat4::Ok => word.to_owned(),
        status => format!("{word}: {status}"),
    });
    result
}

fn attributes() -> Vec<u8> {
    encode_to_vec(&Attributes {
        ftype: Some(Ftype4::Reg),
        change: Some(Changeid4 { value: 1 }),
        size: Some(4),
        fsid: Some(Fsid4::default()),
        ..Attributes::default()
    })
}

fn alone(server: &mut Shared, op: &ArgOp<'_>) -> Vec<u8> {
    let result = match op {
        ArgOp::ExchangeId(_) => ResOp::ExchangeId(Ok(ExchangeIdOk {
            clientid: Clientid4 {
                id: 7 + u64::from(server.restarts),
            },
            sequenceid: 1,
            flags: 0x1_0000,
            state_protect: StateProtect4R::None,
            server_owner: ServerOwner4::default(),
            server_scope: Opaque4(b"scope"),
            server_impl_id: None,
        })),
        ArgOp::CreateSession(args) => {
            server.sessions += 1;
            server.last.clear();
            ResOp::CreateSession(Ok(CreateSessionOk {
                sessionid: session_id(server.sessions),
                sequence: args.sequence,
                flags: 0,
                fore_chan_attrs: ChannelAttrs4 {
                    maxrequests: server.slots,
                    ..args.fore_chan_attrs
                },
                back_chan_attrs: args.back_chan_attrs,
            }))
        }
        ArgOp::DestroySession(_) => ResOp::DestroySession(Ok(())),
        ArgOp::DestroyClientid(_) => ResOp::DestroyClientid(Ok(())),
        other => panic!("{other:?}"),
    };
    reply(Nfsstat4::Ok, vec![result])
}

fn session_id(number: u32) -> Sessionid4 {
    let mut id = [0xa5; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    Sessionid4(id)
}

fn refused(status: Nfsstat4) -> Vec<u8> {
    reply(status, vec![ResOp::Sequence(Err(status))])
}

fn reply(status: Nfsstat4, resarray: Vec<ResOp<'_>>) -> Vec<u8> {
    encode_to_vec(&CompoundRes {
        status,
        tag: Tag(b""),
        resarray,
    })
}

/// A server with so many slots, and a session with it. RECLAIM_COMPLETE is the first of its COMPOUNDs.
async fn session(slots: u32, fates: &[Fate]) -> (Nfs4, Server, Arc<tokio::sync::Notify>) {
    let shared = Arc::new(Mutex::new(Shared {
        slots,
        minor_versions: vec![1],
        fates: [&[Fate::Good], fates].concat(),
        ..Shared::default()
    }));
    let (target, release) = serve(shared.clone()).await;
    let nfs = begin(target, MinorVersion::V1).await.unwrap();
    (nfs, shared, release)
}

async fn begin(target: Target, minor: MinorVersion) -> Result<Nfs4, Nfs4Error> {
    let options = ConnectOptions::default();
    let connection = Connection::connect(target, options).await.unwrap();
    Nfs4::begin(connection, Identity::none(), minor).await
}

async fn remove(nfs: &Nfs4, name: &[u8]) -> Result<(), Nfs4Error> {
    let dir = FileHandle::new(b"dir").unwrap();
    let removed = timeout(HANG, nfs.remove(&dir, name)).await;
    removed.expect("the call hangs")
}

fn removed(server: &Server) -> Vec<(Vec<u8>, u32)> {
    let server = server.lock().unwrap();
    server.removed.clone().into_iter().collect()
}

#[tokio::test]
async fn more_calls_than_slots_wait_their_turn() {
    let (nfs, server, _) = session(3, &[]).await;
    let mut calls = JoinSet::new();
    for number in 0..100_u32 {
        let nfs = nfs.clone();
        calls.spawn(async move { remove(&nfs, &number.to_be_bytes()).await });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap().unwrap();
    }
    // The server has looked at the numbers of all slots.
    let removed = removed(&server);
    assert_eq!(removed.len(), 100);
    assert!(removed.iter().all(|(_, count)| *count == 1));
    nfs.end().await.unwrap();
}

#[tokio::test]
async fn a_change_whose_reply_was_lost_is_not_made_again() {
    let (nfs, server, _) = session(2, &[Fate::ReplyLost, Fate::ReplyLost]).await;
    remove(&nfs, b"one").await.unwrap();
    remove(&nfs, b"two").await.unwrap();
    remove(&nfs, b"three").await.unwrap();
    let once = |name: &[u8]| (name.to_vec(), 1);
    assert_eq!(
        removed(&server),
        [once(b"one"), once(b"three"), once(b"two")]
    );
}

#[tokio::test]
async fn what_changes_nothing_is_asked_again_where_its_reply_is_gone() {
    let (nfs, server, _) = session(1, &[Fate::ReplyLost]).await;
    let ops = [ArgOp::Putrootfh(()), ArgOp::Savefh(())];
    let results = timeout(HANG, nfs.compound(&ops)).await.unwrap().unwrap();
    let res = results.decode().unwrap();
    assert_eq!((res.status, res.resarray.len()), (Nfsstat4::Ok, 3));
    assert_eq!(server.lock().unwrap().seen, 3);
}

#[tokio::test]
async fn a_session_that_the_server_lost_is_made_anew() {
    let lost = Fate::Refused(Nfsstat4::Badsession);
    let (nfs, server, _) = session(2, &[Fate::Good, lost]).await;
    remove(&nfs, b"before").await.unwrap();
    remove(&nfs, b"after").await.unwrap();
    let once = |name: &[u8]| (name.to_vec(), 1);
    assert_eq!(removed(&server), [once(b"after"), once(b"before")]);
    // That of the beginning, the one that nobody has, and another.
    assert_eq!(server.lock().unwrap().sessions, 3);
}

#[tokio::test]
async fn a_server_that_needs_time_is_asked_again() {
    let delayed = [
        Fate::Refused(Nfsstat4::Delay),
        Fate::Fails(1, Nfsstat4::Delay),
        Fate::Fails(2, Nfsstat4::Grace),
    ];
    let (nfs, server, _) = session(1, &delayed).await;
    remove(&nfs, b"name").await.unwrap();
    assert_eq!(removed(&server), [(b"name".to_vec(), 1)]);
    assert_eq!(server.lock().unwrap().seen, 5);
}

#[tokio::test]
async fn compounds_are_counted_by_what_they_are_sent_for() {
    let fates = [
        Fate::Refused(Nfsstat4::Delay),
        Fate::Fails(2, Nfsstat4::Delay),
        Fate::ReplyLost,
        Fate::Fails(2, Nfsstat4::Noent),
    ];
    let (nfs, server, _) = session(1, &fates).await;
    remove(&nfs, b"one").await.unwrap();
    remove(&nfs, b"two").await.unwrap_err();
    let operations = nfs.connections().operations();
    let names: Vec<_> = operations.iter().map(|one| one.kind.name()).collect();
    let expected = [
        "REMOVE",
        "EXCHANGE_ID",
        "CREATE_SESSION",
        "RECLAIM_COMPLETE",
    ];
    assert_eq!(names, expected);
    let [remove, others @ ..] = operations.as_slice() else {
        panic!("{names:?}");
    };
    assert!(others.iter().all(|one| (one.ops, one.errors) == (1, 0)));
    // The reply that was lost made its COMPOUND go out twice, with the number of its slot, and come once.
    assert_eq!((remove.calls, remove.ops), (4, 4));
    assert_eq!((remove.transmissions, remove.resent), (5, 1));
    let statuses = [(Nfsstat4::Delay as u32, 2), (Nfsstat4::Noent as u32, 1)];
    assert_eq!(remove.statuses, statuses);
    assert_eq!(nfs.connections().stats().jukebox_waits, 2);
    // RECLAIM_COMPLETE, and each of the four once.
    assert_eq!(server.lock().unwrap().seen, 5);
}

#[tokio::test]
async fn waiting_for_a_slot_is_part_of_the_queue() {
    let (nfs, _, release) = session(1, &[Fate::Held]).await;
    let first = tokio::spawn({
        let nfs = nfs.clone();
        async move { remove(&nfs, b"held").await }
    });
    let in_flight = || {
        let operations = nfs.connections().operations();
        let removes = operations.iter().find(|one| one.kind.name() == "REMOVE");
        removes.map_or(0, |one| one.in_flight)
    };
    let sent = async {
        while in_flight() == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(HANG, sent).await.expect("no REMOVE is in flight");
    let mut second = std::pin::pin!(remove(&nfs, b"behind"));
    let pause = Duration::from_millis(50);
    assert!(timeout(pause, second.as_mut()).await.is_err());
    release.notify_one();
    second.await.unwrap();
    first.await.unwrap().unwrap();
    let operations = nfs.connections().operations();
    let removes = operations.iter().find(|one| one.kind.name() == "REMOVE");
    let removes = removes.unwrap();
    assert_eq!(removes.ops, 2);
    assert!(
        removes.queue.max() >= Some(pause),
        "{:?}",
        removes.queue.max()
    );
}

#[tokio::test]
async fn a_delay_behind_a_change_is_told() {
    let (nfs, server, _) = session(1, &[Fate::Fails(3, Nfsstat4::Delay)]).await;
    let target = Component4(b"name");
    let ops = [
        ArgOp::Putrootfh(()),
        ArgOp::Remove(RemoveArgs { target }),
        ArgOp::Savefh(()),
    ];
    let results = timeout(HANG, nfs.compound(&ops)).await.unwrap().unwrap();
    assert_eq!(results.status().unwrap(), Nfsstat4::Delay);
    assert_eq!(removed(&server), [(b"name".to_vec(), 1)]);
}

#[tokio::test]
async fn a_caller_who_gives_up_leaves_the_slot_in_order() {
    let (nfs, server, release) = session(1, &[Fate::Held]).await;
    let dir = FileHandle::new(b"dir").unwrap();
    let given_up = timeout(Duration::from_millis(50), nfs.remove(&dir, b"held")).await;
    assert!(given_up.is_err());
    let behind = tokio::spawn({
        let nfs = nfs.clone();
        async move { remove(&nfs, b"behind").await }
    });
    release.notify_one();
    timeout(HANG, behind).await.unwrap().unwrap().unwrap();
    assert!(removed(&server).contains(&(b"behind".to_vec(), 1)));
}

#[tokio::test]
async fn slots_whose_requests_were_not_answered_are_not_used_again() {
    let (nfs, _, _) = session(2, &[Fate::Garbage, Fate::Garbage]).await;
    for _ in 0..2 {
        let error = remove(&nfs, b"name").await.unwrap_err();
        assert!(matches!(error, Nfs4Error::Rpc(RpcError::BadReply(_))));
    }
    let error = remove(&nfs, b"name").await.unwrap_err();
    assert!(matches!(error, Nfs4Error::SlotsGivenUp), "{error:?}");
}

#[tokio::test]
async fn a_server_without_the_minor_version_says_so() {
    let shared = Arc::new(Mutex::new(Shared {
        slots: 1,
        minor_versions: vec![1],
        ..Shared::default()
    }));
    let (target, _) = serve(shared).await;
    let error = begin(target, MinorVersion::V2).await.unwrap_err();
    let Nfs4Error::Status { status, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(status, Nfsstat4::MinorVersMismatch);
}

#[tokio::test]
async fn a_failure_names_its_operation() {
    let (nfs, _, _) = session(1, &[Fate::Fails(2, Nfsstat4::Noent)]).await;
    let error = remove(&nfs, b"name").await.unwrap_err();
    let Nfs4Error::Status { opnum, status } = error else {
        panic!("{error:?}");
    };
    assert_eq!((opnum, status), (Opnum::Remove, Nfsstat4::Noent));
}

/// A session, and what its server noted down of what was done with files.
async fn on_files(gives_back: bool, fates: &[Fate]) -> (Nfs, Server) {
    let (nfs, server, _) = session(2, fates).await;
    server.lock().unwrap().gives_back = gives_back;
    server.lock().unwrap().log.clear();
    (Nfs::V4(V4::new(nfs, false)), server)
}

async fn write(nfs: &Nfs) -> [u8; 8] {
    let file = nfs_client::nfs3::FileHandle::new(b"file").unwrap();
    let data = bytes::Bytes::from_static(b"data");
    let wrote = nfs.write(&file, 0, StableHow::Unstable, data);
    let wrote = timeout(HANG, wrote).await.expect("the call hangs");
    wrote.unwrap().unwrap().verf
}

async fn end(nfs: Nfs) {
    let Nfs::V4(nfs) = nfs else { panic!() };
    nfs.session().clone().end().await.unwrap();
}

fn log(server: &Server) -> Vec<String> {
    std::mem::take(&mut server.lock().unwrap().log)
}

#[tokio::test]
async fn a_file_is_opened_once_and_closed_at_the_end() {
    let (nfs, server) = on_files(true, &[]).await;
    write(&nfs).await;
    write(&nfs).await;
    let file = nfs_client::nfs3::FileHandle::new(b"file").unwrap();
    let read = nfs.read(&file, 0, 100).await.unwrap().unwrap();
    assert_eq!((&read.data[..], read.eof), (&b"data"[..], true));
    let memory = nfs_client::BufferPool::new(nfs_client::Budget::new(1 << 20));
    let memory = memory.take(100).await.unwrap();
    let read = nfs.read_into(&file, 0, memory).await.unwrap().unwrap();
    assert_eq!(&read.data[..], b"data");
    end(nfs).await;
    let expected = ["open", "write", "write", "open", "read", "read", "close"];
    assert_eq!(log(&server), expected);
}

#[tokio::test]
async fn what_was_open_is_reclaimed_before_anything_else() {
    let restarted = [Fate::Good, Fate::Good, Fate::Restarted];
    let (nfs, server) = on_files(true, &restarted).await;
    let before = write(&nfs).await;
    assert_ne!(write(&nfs).await, before, "the server was started anew");
    // The WRITE has the stateid of before once more, which the other server does not know.
    let [open, write_, restart, reclaim, complete] =
        ["open", "write", "restart", "reclaim", "complete"];
    let gone = "write: NFS4ERR_BAD_STATEID";
    let expected = [open, write_, restart, reclaim, complete, gone, write_];
    assert_eq!(log(&server), expected);
    end(nfs).await;
    assert_eq!(log(&server), ["close"]);
}

#[tokio::test]
async fn what_the_server_does_not_give_back_is_opened_anew() {
    let restarted = [Fate::Good, Fate::Good, Fate::Restarted];
    let (nfs, server) = on_files(false, &restarted).await;
    write(&nfs).await;
    write(&nfs).await;
    let expected = [
        "open",
        "write",
        "restart",
        "reclaim: NFS4ERR_NO_GRACE",
        "complete",
        "write: NFS4ERR_BAD_STATEID",
        "open",
        "write",
    ];
    assert_eq!(log(&server), expected);
    end(nfs).await;
}

#[tokio::test]
async fn a_server_that_lost_the_session_alone_has_the_opens() {
    let lost = Fate::Refused(Nfsstat4::Badsession);
    let (nfs, server) = on_files(true, &[Fate::Good, Fate::Good, lost]).await;
    write(&nfs).await;
    write(&nfs).await;
    assert_eq!(log(&server), ["open", "write", "complete", "write"]);
    end(nfs).await;
}

#[tokio::test]
async fn what_nfsv3_has_no_word_for_is_told_with_the_file_s_name() {
    let (nfs, server) = on_files(true, &[]).await;
    server.lock().unwrap().refuses = Some(Nfsstat4::Locked);
    let handle = |name: &[u8]| nfs_client::nfs3::FileHandle::new(name).unwrap();
    let client = nfs_client::Client::from_root(nfs, None, handle(b"root"));
    let client = client.await.unwrap();
    let file = handle(b"file");
    let attributes = client.stat_handle(&file).await.unwrap();
    let node = nfs_client::Node {
        handle: file,
        attributes,
    };
    let file = client.open_node(node, b"/dir/file").unwrap();
    let read = timeout(HANG, file.read_at(0, 4)).await.unwrap();
    let read = read.unwrap_err().to_string();
    assert_eq!(read, "/dir/file: READ: the server answers NFS4ERR_LOCKED");
    file.write_at(0, "data").await.unwrap();
    let closed = timeout(HANG, file.close()).await.unwrap();
    let closed = closed.unwrap_err().to_string();
    assert_eq!(
        closed,
        "/dir/file: WRITE: the server answers NFS4ERR_LOCKED"
    );
    client.unmount().await.unwrap();
    assert!(server.lock().unwrap().opens.is_empty());
}
