//! Calls that wait for something, as their trees tell it: while it lasts, and when it is over.

mod support;

use std::net::Ipv4Addr;

use bytes::Bytes;
use nfs_client::RawConnection;
use nfs_io::faults::{Call, Rule};
use nfs_server::exports::Versions;
use nfs_server::exports::config::EngineChoice;
use nfs_server::exports::policy::{IoPolicy, Mode, parse_rule};
use nfs_server::limits;
use nfs_server::operate::control::{CallTree, StepTree};
use nfs_wire::nfs3::{Nfsstat3, Procedure, StableHow, WriteArgs};
use nfs_wire::nfs4::ops::{OPEN4_SHARE_ACCESS_BOTH, Openflag4};
use nfs_wire::nfs4::{ArgOp, Nfsstat4, ResOp};
use support::called::Called;
use support::trees::{check_times, follow, named, names, recorded, settle, told};
use support::v4::open_args;
use support::wire::{answer, connect_from, record, until};
use support::{Served, block_on, create, ok};
use tokio::task::JoinSet;

/// The steps of a call that have no end yet, by their names.
fn open_steps(steps: &[StepTree]) -> Vec<String> {
    let mut open = Vec::new();
    for step in steps.iter().filter(|step| step.took_ns.is_none()) {
        open.push(step.step.clone());
        open.extend(open_steps(&step.steps));
    }
    open
}

#[test]
fn a_wait_shows_while_it_lasts_and_when_it_is_over() {
    let served = Served::with(|config| {
        config.server.engine = EngineChoice::Threads;
        let mut io = IoPolicy {
            write: Mode::Buffered.into(),
            ..IoPolicy::default()
        };
        io.rules
            .push(parse_rule("op=write,min=32KiB,mode=direct").unwrap());
        config.exports[0].io = io;
    });
    let scratch = tempfile::tempdir().unwrap();
    let fifo = scratch.path().join("held");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    block_on(async {
        let (first, second) = (served.client().await, served.client().await);
        let root = served.root(&first).await;
        let file = create(&first, &root, b"f").await;
        let path = served.path().join("f");
        let direct = rustix::fs::OFlags::DIRECT | rustix::fs::OFlags::WRONLY;
        if let Err(error) = rustix::fs::open(&path, direct, rustix::fs::Mode::empty()) {
            support::skip!("no direct I/O here: {error}");
        }
        let held = Rule::holding(Call::Write, fifo.clone()).in_mode(Mode::Buffered);
        let rule = held.of_file(std::fs::File::open(&path).unwrap()).inject();
        // A WRITE waits on a helper thread, and holds no shard up.
        let cached = async {
            let data = Bytes::from(vec![7; 4096]);
            ok(first.write(&file, 0, StableHow::FileSync, data).await);
        };
        let past_the_cache = async {
            let fifo = caught(&fifo).await;
            let data = Bytes::from(vec![8; 65536]);
            let direct = second.write(&file, 65536, StableHow::FileSync, data);
            let looked = async {
                let waits = |call: &CallTree| {
                    let open = open_steps(&call.steps);
                    call.status.is_none() && open.last().is_some_and(|step| step == "wait_gate")
                };
                let mut running = Vec::new();
                until("a call that waits at the gate", || {
                    running = told(&mut follow(&served, &recorded()));
                    running.iter().any(waits)
                })
                .await;
                let held = |call: &CallTree| open_steps(&call.steps) == ["segment"];
                assert!(running.iter().any(held), "{running:?}");
                // In this order: what comes to a pipe that nobody holds waits until the server gives it up.
                drop(rule);
                drop(fifo);
            };
            let (direct, ()) = tokio::join!(direct, looked);
            ok(direct);
        };
        tokio::join!(cached, past_the_cache);
        settle(&served).await;
    });
    let calls = told(&mut follow(&served, &recorded()));
    let written = |len| {
        let mut of_it = calls.iter().filter(|call| call.len == Some(len));
        of_it.next().unwrap_or_else(|| panic!("{len} in {calls:?}"))
    };
    let (cached, direct) = (written(4096), written(65536));
    for call in [cached, direct] {
        check_times(call);
        assert!(open_steps(&call.steps).is_empty(), "{call}");
    }
    let gate = direct
        .steps
        .iter()
        .find(|step| step.step == "wait_gate")
        .unwrap();
    let begun = direct.begun_ns + gate.begun_ns;
    let ended = begun + gate.took_ns.unwrap();
    let moving = cached
        .steps
        .iter()
        .find(|step| step.step == "segment")
        .unwrap();
    let moved = cached.begun_ns + moving.begun_ns + moving.took_ns.unwrap();
    assert!(begun < moved, "it waited for the other:\n{cached}{direct}");
    // The gate is left by the thread that wrote, before the shard hears of it.
    assert!(
        ended >= begun && direct.begun_ns > cached.begun_ns,
        "{direct}"
    );
}

#[test]
fn data_waits_a_moment_for_large_copies_and_no_longer() {
    const LEN: usize = 1 << 20;
    let served = Served::with(|config| {
        config.server.engine = EngineChoice::Threads;
        config.exports[0].io.write = Mode::Buffered.into();
    });
    let scratch = tempfile::tempdir().unwrap();
    let fifo = scratch.path().join("held");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    let put_off = || served.counter("data_put_off");
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let held = create(&client, &root, b"held").await;
        let free = create(&client, &root, b"free").await;
        let data = || Bytes::from(vec![7; LEN]);
        ok(client.write(&free, 0, StableHow::Unstable, data()).await);
        assert_eq!(put_off(), 0, "nothing was being copied");
        let path = served.path().join("held");
        let rule = Rule::holding(Call::Write, fifo.clone())
            .of_file(std::fs::File::open(&path).unwrap())
            .inject();
        let copy = async |at| ok(client.write(&held, at, StableHow::Unstable, data()).await);
        let others = async {
            let fifo = caught(&fifo).await;
            until("two copies are held", || {
                served.counter("calls_running") == 2
            })
            .await;
            assert_eq!(put_off(), 0, "one may be received while another is copied");
            let args = WriteArgs {
                file: free,
                offset: 0,
                count: LEN as u32,
                stable: StableHow::Unstable,
                data: &vec![7; LEN],
            };
            let own = Ipv4Addr::new(127, 0, 0, 2);
            let stream = connect_from(own, served.addr).await.unwrap();
            let mut another = RawConnection::from_stream(stream);
            another
                .send(&record(1, Procedure::Write, &args))
                .await
                .unwrap();
            let reply = another.receive_record().await.unwrap().unwrap();
            assert_eq!(answer(&reply), (1, Nfsstat3::Ok));
            assert_eq!(put_off(), 0, "another client waits for its own copies only");
            // Neither the data nor what comes behind it waits for as long as those copies take.
            let third = client.write(&free, 0, StableHow::Unstable, data());
            let (third, looked) = tokio::join!(third, client.getattr(&free));
            ok(third);
            ok(looked);
            assert_eq!(put_off(), 1);
            // In this order: what comes to a pipe that nobody holds waits until the server gives it up.
            drop(rule);
            drop(fifo);
        };
        tokio::join!(copy(0), copy(LEN as u64), others);
    });
}

#[test]
fn who_waits_for_memory_tells_so() {
    const CALLS: usize = 24;
    let served = Served::with(|config| {
        config.server.memory_bytes = limits::MEMORY_BYTES_MIN;
        // With a ring a read that is held would hold its shard.
        config.server.engine = EngineChoice::Threads;
        config.exports[0].io.read = Mode::Buffered.into();
    });
    let scratch = tempfile::tempdir().unwrap();
    let fifo = scratch.path().join("held");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    std::fs::write(served.path().join("f"), vec![7; 1 << 20]).unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = support::lookup(&client, &root, b"f").await;
        let info = ok(client.fsinfo(&root).await);
        let rule = Rule::holding(Call::Read, fifo.clone());
        let path = served.path().join("f");
        let rule = rule.of_file(std::fs::File::open(path).unwrap()).inject();
        let reads = (0..CALLS).map(|_| {
            let (client, file) = (client.clone(), file);
            async move { ok(client.read(&file, 0, info.rtmax).await) }
        });
        let mut reading: JoinSet<_> = JoinSet::new();
        for read in reads {
            reading.spawn(read);
        }
        let fifo = caught(&fifo).await;
        until("a call that waits for memory", || {
            let running = told(&mut follow(&served, &recorded()));
            let waits = |call: &CallTree| {
                let open = open_steps(&call.steps);
                call.status.is_none() && open.last().is_some_and(|step| step == "wait_memory")
            };
            running.iter().any(waits)
        })
        .await;
        // In this order: what comes to a pipe that nobody holds waits until the server gives it up.
        drop(rule);
        drop(fifo);
        assert_eq!(reading.join_all().await.len(), CALLS);
        settle(&served).await;
    });
    let calls = told(&mut follow(&served, &recorded()));
    let reads = calls.iter().filter(|call| call.call == "READ");
    let waited = reads.filter(|call| {
        check_times(call);
        assert!(open_steps(&call.steps).is_empty(), "{call}");
        names(&call.steps).iter().any(|step| step == "wait_memory")
    });
    assert!(waited.count() > 0);
}

/// Waits until a call has come to the named pipe, which goes on when what is returned is dropped.
async fn caught(fifo: &std::path::Path) -> std::os::fd::OwnedFd {
    use rustix::fs::OFlags;
    let flags = OFlags::WRONLY | OFlags::NONBLOCK;
    let mut writer = None;
    until("a call that is held", || {
        // ENXIO: nobody reads it yet.
        writer = rustix::fs::open(fifo, flags, rustix::fs::Mode::empty()).ok();
        writer.is_some()
    })
    .await;
    writer.unwrap()
}

#[test]
fn a_lock_that_has_to_wait_tells_so() {
    let served = Served::with(|config| config.server.versions = Versions::ALL);
    std::fs::write(served.path().join("f"), "text").unwrap();
    let mut follower = follow(&served, &named(&["LOCK", "LOCKU"]));
    block_on(async {
        let mut clients = Vec::new();
        for name in [b"holder", b"waiter"] {
            let mut client = Called::new(&served, name).await;
            let open = open_args(b"f", OPEN4_SHARE_ACCESS_BOTH, Openflag4::Nocreate);
            let ops = vec![ArgOp::Putrootfh(()), ArgOp::Open(open), ArgOp::Getfh(())];
            let opened = client.call(ops, |status, results| match results {
                [_, ResOp::Open(Ok(ok)), ResOp::Getfh(Ok(fh))] => (fh.object, ok.stateid),
                _ => panic!("{status}: {results:?}"),
            });
            let opened = opened.await;
            clients.push((client, opened));
        }
        let [(holder, of_holder), (waiter, of_waiter)] = clients.as_mut_slice() else {
            unreachable!("two clients")
        };
        let held = holder.lock(*of_holder, b"of the holder").await.unwrap();
        let denied = waiter.lock(*of_waiter, b"of the waiter").await;
        assert_eq!(denied, Err(Nfsstat4::Denied));
        holder.unlock(of_holder.0, held).await;
        waiter.lock(*of_waiter, b"of the waiter").await.unwrap();
        settle(&served).await;
    });
    let calls = told(&mut follower);
    let notes = calls.iter().map(|call| {
        check_times(call);
        let of_locks = |step: &&StepTree| step.step.starts_with("LOCK");
        let operation = call.steps.iter().find(of_locks).unwrap();
        format!("{} {}", operation.step, operation.note.as_deref().unwrap())
    });
    let notes: Vec<String> = notes.collect();
    let expected = [
        "LOCK NFS4_OK",
        "LOCK NFS4ERR_DENIED",
        "LOCKU NFS4_OK",
        "LOCK NFS4_OK",
    ];
    assert_eq!(notes, expected);
}
