//! What the operator sets, sees and ends of NFSv4's state, over the wire.

mod support;

use std::fs::File;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use nfs_io::fs::{self, OfdLock};
use nfs_server::exports::Versions;
use nfs_server::operate::control::{Asker, HeldQuery, Page};
use nfs_wire::nfs4::ops::{
    ChannelAttrs4, CopyArgs, CreateSessionArgs, DestroyClientidArgs, GetattrArgs, LockArgs,
    Locker4, OpenToLockOwner4, Openflag4,
};
use nfs_wire::nfs4::{self, ArgOp, CompoundRes, LockType4, Nfsstat4, ResOp, Stateid4, Verifier4};
use support::v4::{Client, channel, exchange_id, lookup, open_args, owner, putfh, raw};
use support::{Served, block_on};

const ALL: Versions = Versions::ALL;

/// Serves an empty directory in all versions.
fn serve() -> Served {
    Served::with(|config| config.server.versions = ALL)
}

const READ: u32 = 1;
const WRITE: u32 = 2;
const BOTH: u32 = 3;

/// The ids of a life whose records are lost are nobody's, whoever came since.
#[test]
fn what_an_earlier_life_gave_out_is_stale_though_its_records_are_lost() {
    async fn exchange(nfs: &nfs_client::Nfs3, owner: &[u8]) -> nfs4::Clientid4 {
        raw(nfs, 1, vec![exchange_id(owner)], |res| {
            match &*res.resarray {
                [ResOp::ExchangeId(Ok(ok))] => ok.clientid,
                other => panic!("{other:?}"),
            }
        })
        .await
    }
    let served = serve();
    let (session, clientid) = block_on(async {
        let client = Client::new(&served, 1, b"one").await;
        (client.session, exchange(&client.nfs, b"one").await)
    });
    let (files, state) = served.stop();
    std::fs::remove_file(state.path().join("clients.redb")).unwrap();
    let served = Served::over(files, Some(state), |config| config.server.versions = ALL);
    block_on(async {
        // It has the place in the table that the other one had.
        let mut other = Client::new(&served, 1, b"two").await;
        let status = |res: CompoundRes<'_>| res.status;
        let destroy = ArgOp::DestroyClientid(DestroyClientidArgs { clientid });
        let stale = raw(&other.nfs, 1, vec![destroy], status).await;
        assert_eq!(stale, Nfsstat4::StaleClientid);
        let mine = std::mem::replace(&mut other.session, session);
        let sequence = vec![other.sequence()];
        let refused = raw(&other.nfs, 1, sequence, status).await;
        assert_eq!(refused, Nfsstat4::Badsession);
        (other.session, other.sequence) = (mine, other.sequence - 1);
        other.ok(vec![ArgOp::Putrootfh(())]).await;
    });
}

#[test]
fn a_channel_in_which_nothing_fits_is_refused() {
    let served = serve();
    block_on(async {
        let nfs = served.client().await;
        let exchanged = raw(&nfs, 1, vec![exchange_id(b"one")], |res| {
            match res.resarray.as_slice() {
                [ResOp::ExchangeId(Ok(ok))] => (ok.clientid, ok.sequenceid),
                other => panic!("{other:?}"),
            }
        });
        let (clientid, mut sequence) = exchanged.await;
        let create = |sequence, fore_chan_attrs, back_chan_attrs| {
            ArgOp::CreateSession(CreateSessionArgs {
                clientid,
                sequence,
                flags: 0,
                fore_chan_attrs,
                back_chan_attrs,
                cb_program: 0x4000_0000,
                sec_parms: vec![],
            })
        };
        let status = |res: CompoundRes<'_>| res.status;
        let small = ChannelAttrs4 {
            maxrequestsize: 100,
            ..channel()
        };
        let one_operation = ChannelAttrs4 {
            maxoperations: 1,
            ..channel()
        };
        // What a server that calls nobody back would never use is looked at all the same (RFC 8881 §18.36.3).
        for back in [small, one_operation] {
            let refused = raw(&nfs, 1, vec![create(sequence, channel(), back)], status).await;
            assert_eq!(refused, Nfsstat4::Toosmall, "{back:?}");
        }
        let refused = raw(&nfs, 1, vec![create(sequence, small, channel())], status).await;
        assert_eq!(refused, Nfsstat4::Toosmall);
        // That was the reply to this sequence.
        sequence += 1;
        let made = raw(
            &nfs,
            1,
            vec![create(sequence, channel(), channel())],
            status,
        )
        .await;
        assert_eq!(made, Nfsstat4::Ok);
    });
}

#[test]
fn operations_are_counted_and_the_lease_is_as_configured() {
    let served = Served::with(|config| {
        config.server.versions = ALL;
        config.server.lease_seconds = 17;
        config.server.grace_seconds = 20;
    });
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let lease = [nfs4::Attribute::LeaseTime];
        let attr_request = lease.iter().map(|it| it.number()).collect();
        let ops = vec![
            ArgOp::Putrootfh(()),
            ArgOp::Getattr(GetattrArgs { attr_request }),
        ];
        let lease = client.call(ops, |status, results| match results {
            [_, ResOp::Getattr(Ok(ok))] => ok.obj_attributes.decode_values().unwrap().lease_time,
            _ => panic!("{status}: {results:?}"),
        });
        assert_eq!(lease.await, Some(17));
        let refused = client
            .status(vec![ArgOp::Putrootfh(()), lookup(b"none")])
            .await;
        assert_eq!(refused, Nfsstat4::Noent);
    });
    for (name, times) in [
        ("operations_exchange_id", 1),
        ("operations_create_session", 1),
        ("operations_sequence", 3),
        ("operations_putrootfh", 2),
        ("operations_lookup", 1),
        ("operations_getattr", 1),
        ("nfs4_clients", 1),
    ] {
        assert_eq!(served.counter(name), times, "{name}");
    }
    let status = served.server.status();
    let sequence = status
        .operations
        .iter()
        .find(|it| it.procedure == "SEQUENCE");
    assert_eq!(sequence.map(|it| it.calls), Some(3));
    assert!(!status.counters.contains_key("operations_read"));
}

/// The operator asks from a thread of its own.
async fn held(served: &Served, query: &HeldQuery) -> Result<serde_json::Value, String> {
    let (server, query) = (Arc::clone(&served.server), query.clone());
    let asker = Asker { uid: 0, pid: None };
    let answer = tokio::task::spawn_blocking(move || server.held(&query, asker));
    Ok(serde_json::to_value(answer.await.unwrap()?).unwrap())
}

#[test]
fn the_operator_sees_what_clients_hold_and_ends_it() {
    let served = serve();
    std::fs::create_dir(served.path().join("d")).unwrap();
    std::fs::write(served.path().join("d/f\x1b"), "text").unwrap();
    block_on(async {
        let mut client = Client::new(&served, 2, b"one\n\x1b[2J").await;
        let dir = client
            .handle(vec![ArgOp::Putrootfh(()), lookup(b"d")])
            .await;
        let mut args = open_args(b"f\x1b", BOTH, Openflag4::Nocreate);
        args.share_deny = WRITE;
        let (file, stateid) = client.open(&dir, args).await.unwrap();
        let lock = ArgOp::Lock(LockArgs {
            locktype: LockType4::Write,
            reclaim: false,
            offset: 7,
            length: u64::MAX,
            locker: Locker4::New(OpenToLockOwner4 {
                open_seqid: 0,
                open_stateid: stateid,
                lock_seqid: 0,
                lock_owner: owner(b"locker"),
            }),
        });
        client.ok(vec![putfh(&file), lock]).await;
        look_and_expire(&served, client, (file, stateid)).await;
    });
}

async fn look_and_expire(
    served: &Served,
    mut client: Client,
    (file, stateid): (nfs4::FileHandle, Stateid4),
) {
    // A program of this host has the beginning.
    let local = File::options()
        .write(true)
        .open(served.path().join("d/f\x1b"));
    let local = local.unwrap();
    fs::set_ofd_lock(local.as_fd(), Some(OfdLock::Write), (0, 5)).unwrap();

    let clients = held(served, &HeldQuery::Clients(Page::default()))
        .await
        .unwrap();
    let row = &clients["rows"][0];
    let id = row["id"].as_str().unwrap().to_owned();
    assert_eq!(row["name"], "one\\n\\x1b[2J");
    assert_eq!(
        (&row["address"], &row["version"]),
        (&"127.0.0.1".into(), &"4.2".into())
    );
    assert_eq!(
        (&row["opens"], &row["lock_states"], &row["sessions"]),
        (&1.into(), &1.into(), &1.into())
    );
    assert_eq!(row["courtesy"], false);
    let opens = held(served, &HeldQuery::Opens(Page::default()))
        .await
        .unwrap();
    assert_eq!(opens["total"], 1);
    let row = &opens["rows"][0];
    assert_eq!(
        (&row["file"], &row["client"]),
        (&"/d/f\\x1b".into(), &id.as_str().into())
    );
    assert_eq!(
        (&row["access"], &row["deny"]),
        (&"both".into(), &"write".into())
    );
    let locks = held(served, &HeldQuery::Locks(Page::default()))
        .await
        .unwrap();
    assert_eq!(locks["total"], 2, "{locks}");
    let (remote, own) = (&locks["rows"][0], &locks["rows"][1]);
    assert_eq!(
        (&remote["holder"], &remote["owner"]),
        (&"remote".into(), &"locker".into())
    );
    assert_eq!((&remote["offset"], remote.get("length")), (&7.into(), None));
    assert_eq!(
        (&own["holder"], &own["length"]),
        (&"local".into(), &5.into())
    );
    assert_eq!(own["file"], remote["file"]);
    let none = Page {
        skip: 1,
        ..Page::default()
    };
    let opens = held(served, &HeldQuery::Opens(none)).await.unwrap();
    assert_eq!(
        (&opens["total"], opens["rows"].as_array().unwrap().len()),
        (&1.into(), 0)
    );

    let unknown = held(served, &HeldQuery::Expire("nobody".to_owned()))
        .await
        .unwrap_err();
    assert!(unknown.contains("ctl clients"), "{unknown}");
    let expired = held(served, &HeldQuery::Expire(id)).await.unwrap();
    assert_eq!(
        (&expired["opens"], &expired["lock_states"]),
        (&1.into(), &1.into())
    );
    let clients = held(served, &HeldQuery::Clients(Page::default()))
        .await
        .unwrap();
    assert_eq!(clients["total"], 0);
    let sequence = vec![client.sequence()];
    let after = raw(&client.nfs, 2, sequence, |res| res.status).await;
    assert_eq!(after, Nfsstat4::Badsession);
    let mut other = Client::new(served, 1, b"other").await;
    let read = other.read(&file, stateid, (0, 1)).await;
    assert_eq!(read, Err(Nfsstat4::BadStateid));
}

#[test]
fn the_operator_sees_a_grace_period_and_ends_it() {
    let served = serve();
    std::fs::write(served.path().join("f"), "text").unwrap();
    let open = || open_args(b"f", READ, Openflag4::Nocreate);
    block_on(async {
        let mut client = Client::new(&served, 1, b"away").await;
        let root = client.root().await;
        client.open(&root, open()).await.unwrap();
        let report = held(&served, &HeldQuery::Grace).await.unwrap();
        assert_eq!(report["running"], false);
        assert!(held(&served, &HeldQuery::EndGrace).await.is_err());
    });
    let (files, state) = served.stop();
    let served = Served::over(files, Some(state), |config| config.server.versions = ALL);
    block_on(async {
        let report = held(&served, &HeldQuery::Grace).await.unwrap();
        assert_eq!(report["running"], true);
        assert_eq!(
            (&report["waiting"], &report["names"][0]),
            (&1.into(), &"away".into())
        );
        assert!(report["seconds_left"].as_u64().unwrap() <= 60);
        let mut client = Client::new(&served, 1, b"new").await;
        let root = client.root().await;
        let refused = client.open(&root, open()).await;
        assert_eq!(refused.err(), Some(Nfsstat4::Grace));
        let report = held(&served, &HeldQuery::EndGrace).await.unwrap();
        assert_eq!(report["running"], false);
        client.open(&root, open()).await.unwrap();
    });
    // Who missed it is waited for no more.
    let (files, state) = served.stop();
    let served = Served::over(files, Some(state), |config| config.server.versions = ALL);
    let report = block_on(held(&served, &HeldQuery::Grace)).unwrap();
    assert_eq!(report["names"], serde_json::json!(["new"]));
}

#[test]
fn two_machines_of_one_name_are_shown_with_it() {
    let served = serve();
    block_on(async {
        let nfs = served.client().await;
        for turn in 0..8_u8 {
            let ArgOp::ExchangeId(mut asked) = exchange_id(b"cloned") else {
                unreachable!()
            };
            asked.clientowner.verifier = Verifier4([turn % 2; 8]);
            let exchanged = raw(&nfs, 1, vec![ArgOp::ExchangeId(asked)], |res| {
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
            let made = raw(&nfs, 1, vec![create], |res| res.status).await;
            assert_eq!(made, Nfsstat4::Ok);
        }
    });
    assert_eq!(served.counter("nfs4_names_shared"), 1, "once a minute");
    let clients = block_on(held(&served, &HeldQuery::Clients(Page::default()))).unwrap();
    assert_eq!(clients["total"], 1);
    let shared = &clients["rows"][0]["name_shared_by"];
    assert_eq!(*shared, serde_json::json!(["127.0.0.1", "127.0.0.1"]));
}

#[test]
fn the_bytes_of_a_copy_count_for_the_clients_rate() {
    const BYTES: u64 = 4 << 20;
    let served = Served::with(|config| {
        config.server.versions = ALL;
        config.exports[0].clients[0].allowance.bytes_per_second = Some(BYTES / 4);
    });
    std::fs::write(served.path().join("from"), vec![7; BYTES as usize]).unwrap();
    std::fs::write(served.path().join("to"), "").unwrap();
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let nocreate = || Openflag4::Nocreate;
        let from = client.open(&root, open_args(b"from", READ, nocreate()));
        let (from, src_stateid) = from.await.unwrap();
        let to = client.open(&root, open_args(b"to", WRITE, nocreate()));
        let (to, dst_stateid) = to.await.unwrap();
        assert_eq!(served.counter("rate_pauses"), 0);
        let copy = ArgOp::Copy(CopyArgs {
            src_stateid,
            dst_stateid,
            src_offset: 0,
            dst_offset: 0,
            count: 0,
            consecutive: true,
            synchronous: true,
            source_server: vec![],
        });
        client
            .ok(vec![putfh(&from), ArgOp::Savefh(()), putfh(&to), copy])
            .await;
        assert_eq!(served.counter("rate_pauses"), 1, "four seconds' worth");
    });
}
