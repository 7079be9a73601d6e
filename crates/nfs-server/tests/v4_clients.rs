//! NFSv4 clients that come again with what they sent, and that are very many.

mod support;

use std::collections::HashMap;
use std::net::Ipv4Addr;

use nfs_client::{Identity, Procedure, RawConnection};
use nfs_server::exports::Versions;
use nfs_wire::nfs4::ops::{
    BindConnToSessionArgs, ChannelDirFromClient4, CreateArgs, CreateSessionArgs, Createtype4,
    RenewArgs, SequenceArgs,
};
use nfs_wire::nfs4::{
    ArgOp, Clientid4, Component4, CompoundArgs, CompoundRes, Nfsstat4, ResOp, Sessionid4, Tag,
};
use nfs_wire::rpc::ReplyHeader;
use nfs_wire::{Decode as _, Decoder, decode_all, encode_to_vec, nfs4};
use support::called::Called;
use support::v4::{Client, NO_ATTRIBUTES, channel, exchange_id, putfh, raw};
use support::wire::{connect_from, marked};
use support::{Served, block_on, connect};

fn serve() -> Served {
    Served::with(|config| config.server.versions = Versions::ALL)
}

fn root() -> Identity {
    Identity::sys(0, 0, &[])
}

fn call(xid: u32, argarray: Vec<ArgOp<'_>>) -> Vec<u8> {
    let procedure = Procedure {
        program: nfs4::PROGRAM,
        version: nfs4::VERSION,
        number: nfs4::PROC_COMPOUND,
    };
    let args = CompoundArgs {
        tag: Tag(b"test"),
        minorversion: 1,
        argarray,
    };
    RawConnection::call_body(xid, procedure, &root(), &args)
}

/// A call that is lost on its way, and comes again over other connections: the file system sees it once.
#[test]
fn a_call_is_carried_out_once_at_whatever_point_it_comes_again() {
    let served = serve();
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let dir = client.root().await;
        let ArgOp::Sequence(mut sequence) = client.sequence() else {
            unreachable!()
        };
        sequence.cachethis = true;
        let mkdir = || {
            let mkdir = ArgOp::Create(CreateArgs {
                objtype: Createtype4::Dir,
                objname: Component4(b"d"),
                createattrs: NO_ATTRIBUTES,
            });
            vec![ArgOp::Sequence(sequence), putfh(&dir), mkdir]
        };
        let made = served.path().join("d");
        // Before it was received whole.
        let record = marked(&call(7, mkdir()));
        let stream = connect_from(Ipv4Addr::LOCALHOST, served.addr).await;
        let mut lost = RawConnection::from_stream(stream.unwrap());
        lost.send(&record[..record.len() - 8]).await.unwrap();
        lost.finish_sending().await.unwrap();
        assert_eq!(lost.receive_record().await.unwrap(), None);
        assert!(!made.exists());
        // Carried out, over a connection that ends with that.
        let whole = |res: CompoundRes<'_>| {
            assert_eq!(res.status, Nfsstat4::Ok);
            encode_to_vec(&res)
        };
        let second = connect(served.addr, root()).await;
        let first = raw(&second, 1, mkdir(), whole).await;
        drop(second);
        // Whoever carried it out once more would make it again.
        std::fs::remove_dir(&made).unwrap();
        let third = connect(served.addr, root()).await;
        let fourth = connect(served.addr, root()).await;
        let bind = ArgOp::BindConnToSession(BindConnToSessionArgs {
            sessid: client.session,
            dir: ChannelDirFromClient4::Fore,
            use_conn_in_rdma_mode: false,
        });
        let bound = raw(&fourth, 1, vec![bind], |res| res.status).await;
        assert_eq!(bound, Nfsstat4::Ok);
        for connection in [&client.nfs, &third, &fourth] {
            assert!(raw(connection, 1, mkdir(), whole).await == first);
            assert!(!made.exists());
        }
        assert_eq!(served.counter("nfs4_replayed"), 3);
        client.ok(vec![putfh(&dir)]).await;
        let late = raw(&client.nfs, 1, mkdir(), |res| res.status).await;
        assert_eq!(late, Nfsstat4::SeqMisordered);
        assert!(!made.exists());
    });
}

/// A reply that is not kept is no reason to take another request for the one before it: who is told that its request
/// was carried out must be able to rely on it.
#[test]
fn another_request_with_a_used_number_is_told_so_though_no_reply_is_kept() {
    let served = serve();
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let dir = client.root().await;
        let mut next = || match client.sequence() {
            ArgOp::Sequence(sequence) => ArgOp::Sequence(SequenceArgs {
                cachethis: false,
                ..sequence
            }),
            _ => unreachable!(),
        };
        let mkdir = |name| {
            ArgOp::Create(CreateArgs {
                objtype: Createtype4::Dir,
                objname: Component4(name),
                createattrs: NO_ATTRIBUTES,
            })
        };
        let first = connect(served.addr, root()).await;
        let somebody = connect(served.addr, Identity::sys(1000, 1000, &[])).await;
        // SEQUENCE's own status, and the last one.
        let statuses = |res: CompoundRes<'_>| {
            let sequence = match &res.resarray[0] {
                ResOp::Sequence(Ok(_)) => Nfsstat4::Ok,
                ResOp::Sequence(Err(status)) => *status,
                other => panic!("{other:?}"),
            };
            (sequence, res.status, res.resarray.len())
        };
        let ok = Nfsstat4::Ok;
        let sequence = next();
        let made = || vec![sequence.clone(), putfh(&dir), mkdir(b"d")];
        let answer = raw(&first, 1, made(), statuses).await;
        assert_eq!(answer, (ok, ok, 3));
        let again = raw(&first, 1, made(), statuses).await;
        assert_eq!(again, (ok, Nfsstat4::RetryUncachedRep, 2));
        let none = (Nfsstat4::SeqFalseRetry, Nfsstat4::SeqFalseRetry, 1);
        let other_name = vec![sequence.clone(), putfh(&dir), mkdir(b"e")];
        let other_operations = vec![sequence.clone(), ArgOp::Putrootfh(())];
        for other in [other_name, other_operations, vec![sequence.clone()]] {
            assert_eq!(raw(&first, 1, other, statuses).await, none);
        }
        assert_eq!(raw(&somebody, 1, made(), statuses).await, none);
        let names = std::fs::read_dir(served.path()).unwrap().count();
        assert_eq!(names, 1, "only the first was carried out");

        // What is no operation of NFSv4.1 stays that.
        let gone = ArgOp::Renew(RenewArgs {
            clientid: Clientid4 { id: 1 },
        });
        let sequence = next();
        for _ in 0..2 {
            let ops = vec![sequence.clone(), gone.clone()];
            let answer = raw(&first, 1, ops, statuses).await;
            assert_eq!(answer, (ok, Nfsstat4::Notsupp, 2));
        }
        assert_eq!(served.counter("nfs4_false_retries"), 4);
    });
}

/// Very many clients that call over one connection.
struct Crowd {
    raw: RawConnection,
}

impl Crowd {
    /// What each of these calls was answered, in their order.
    async fn all<T>(
        &mut self,
        calls: Vec<Vec<ArgOp<'_>>>,
        look: impl Fn(&CompoundRes<'_>) -> T,
    ) -> Vec<T> {
        let count = calls.len();
        for (xid, ops) in (0..).zip(calls) {
            self.raw.send_record(&call(xid, ops)).await.unwrap();
        }
        let mut answers = HashMap::new();
        for _ in 0..count {
            let record = self.raw.receive_record().await.unwrap().unwrap();
            let mut decoder = Decoder::new(&record);
            let header = ReplyHeader::decode(&mut decoder).unwrap();
            let res = decode_all(&record[decoder.position()..]).unwrap();
            answers.insert(header.xid, look(&res));
        }
        (0..).map_while(|xid| answers.remove(&xid)).collect()
    }

    async fn join(&mut self, names: &[String]) -> Vec<Result<Sessionid4, Nfsstat4>> {
        let asks = names.iter().map(|name| vec![exchange_id(name.as_bytes())]);
        let ids = self.all(asks.collect(), |res| match &*res.resarray {
            [ResOp::ExchangeId(Ok(ok))] => (ok.clientid, ok.sequenceid),
            other => panic!("{other:?}"),
        });
        let ids = ids.await;
        let asks = ids.iter().map(|id| vec![create_session(*id)]).collect();
        self.all(asks, |res| match &*res.resarray {
            [ResOp::CreateSession(Ok(ok))] => Ok(ok.sessionid),
            _ => Err(res.status),
        })
        .await
    }
}

fn create_session((clientid, sequence): (Clientid4, u32)) -> ArgOp<'static> {
    ArgOp::CreateSession(CreateSessionArgs {
        clientid,
        sequence,
        flags: 0,
        fore_chan_attrs: channel(),
        back_chan_attrs: channel(),
        cb_program: 0x4000_0000,
        sec_parms: vec![],
    })
}

#[test]
fn a_host_with_its_share_of_clients_loses_an_idle_one_for_each_that_comes() {
    /// What one host has of all clients.
    const SHARE: usize = nfs_state::limits::CLIENTS_MAX / 2;
    /// Clients that come at once: fewer than may be half there.
    const AT_ONCE: usize = 256;
    // Each address of this machine is a host of its own.
    let served = Served::with(|config| {
        config.server.versions = Versions::ALL;
        config.server.trust_loopback = true;
        config.exports[0].clients[0].net = "127.0.0.0/8".parse().unwrap();
    });
    block_on(async {
        let mut other = Called::at(Ipv4Addr::new(127, 0, 0, 3), &served, b"other").await;
        let mut crowd = Crowd {
            raw: RawConnection::connect(served.addr).await.unwrap(),
        };
        let names: Vec<_> = (0..SHARE).map(|n| format!("client {n}")).collect();
        let mut sessions = Vec::new();
        for names in names.chunks(AT_ONCE) {
            let joined = crowd.join(names).await;
            sessions.extend(joined.into_iter().map(Result::unwrap));
        }
        assert_eq!(served.counter("nfs4_clients") as usize, SHARE + 1);
        // Those of before have been silent for as long as it takes by now.
        let more: Vec<_> = (0..4).map(|n| format!("more {n}")).collect();
        for name in &more {
            let joined = crowd.join(std::slice::from_ref(name)).await;
            sessions.push(joined[0].expect("another one gives way"));
        }
        assert_eq!(served.counter("nfs4_clients") as usize, SHARE + 1);
        assert_eq!(served.counter("nfs4_clients_expired") as usize, more.len());
        assert_eq!(other.status(vec![]).await, Nfsstat4::Ok);
        let mut gone = 0;
        for sessions in sessions.chunks(AT_ONCE) {
            let asks = sessions.iter().map(|session| {
                vec![ArgOp::Sequence(nfs_wire::nfs4::ops::SequenceArgs {
                    sessionid: *session,
                    sequenceid: 1,
                    slotid: 0,
                    highest_slotid: 0,
                    cachethis: false,
                })]
            });
            let answers = crowd.all(asks.collect(), |res| res.status).await;
            let is_gone = |status: &&Nfsstat4| **status == Nfsstat4::Badsession;
            gone += answers.iter().filter(is_gone).count();
        }
        assert_eq!(gone, more.len());
        assert_eq!(other.status(vec![]).await, Nfsstat4::Ok);
    });
}
