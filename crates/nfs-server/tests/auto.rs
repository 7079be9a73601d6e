//! Modes that are chosen from what is seen of a file, over real connections: that they change, that this is told
//! wherever an operator looks, and that no byte is lost over it.

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use nfs_client::Nfs3;
use nfs_server::Server;
use nfs_server::exports::config::EngineChoice;
use nfs_server::exports::policy::{AutoUse, IoPolicy, Mode, Way};
use nfs_server::operate::control::{
    Asker, AutoStatus, FollowRequest, IoOrder, IoStatus, TraceEvent, TraceLine, WhyQuery,
};
use nfs_wire::nfs3::{FileHandle, StableHow};
use support::{Served, block_on, lookup, ok};

/// The operator of these tests.
const ASKER: Asker = Asker { uid: 0, pid: None };
const ENGINES: [EngineChoice; 2] = [EngineChoice::Auto, EngineChoice::Threads];
const KIB: u64 = 1 << 10;
/// The length of the file, most of it a hole: no machine has a quarter of that as memory.
const SIZE: u64 = 8 << 40;
/// Calls of one kind before others come: more than are waited for between the first changes of mode.
const CALLS: u64 = 300;
const LARGE: u64 = 64 * KIB;
const SMALL: u64 = 4 * KIB;

/// A server that chooses for itself, and a large file with a hole in it.
struct Bed {
    served: Served,
    local: File,
}

impl Bed {
    /// `None`, said aloud, where there is no direct I/O or no such file: then there is nothing to choose.
    fn new(engine: EngineChoice, change: impl FnOnce(&mut IoPolicy)) -> Option<Self> {
        let served = Served::with(|config| {
            config.server.engine = engine;
            let policy = &mut config.exports[0].io;
            *policy = IoPolicy {
                read: Way::Auto,
                write: Way::Auto,
                ..IoPolicy::default()
            };
            change(policy);
        });
        let path = served.path().join("f");
        let mut options = File::options();
        let options = options.read(true).write(true).create_new(true);
        let local = options.open(&path).unwrap();
        if let Err(error) = local.set_len(SIZE) {
            nfs_lab::skipped(&format!(
                "no file of 8 TiB in the temporary directory: {error}"
            ));
            return None;
        }
        if nfs_io::fs::statx(local.as_fd()).unwrap().dio_offset_align == 0 {
            nfs_lab::skipped("no direct I/O on the temporary directory");
            return None;
        }
        Some(Self { served, local })
    }

    /// The counters of one operation by mode.
    fn auto(&self, operation: &str) -> BTreeMap<String, AutoStatus> {
        let rows = self.served.server.io().into_iter();
        let rows = rows.filter(|row: &IoStatus| row.operation == operation);
        rows.filter_map(|row| Some((row.mode, row.auto?))).collect()
    }

    /// Bytes of one operation that went past the page cache.
    fn direct_bytes(&self, operation: &str) -> u64 {
        let rows = self.served.server.io().into_iter();
        let rows = rows.filter(|row: &IoStatus| row.operation == operation);
        rows.filter_map(|row| row.moved_bytes.get("direct").copied())
            .sum()
    }

    fn why(&self, op: &str, size: u64) -> nfs_server::operate::control::Why {
        let query = WhyQuery {
            file: self.served.path().join("f").display().to_string(),
            op: op.to_owned(),
            offset: 0,
            size: Some(size),
            client: None,
            stable: "unstable".to_owned(),
            open: None,
            deny: None,
        };
        self.served.server.why_io(&query).unwrap()
    }
}

/// The bytes of a WRITE: each says where it is and in which round it was written.
fn pattern(round: u64, offset: u64, len: u64) -> Bytes {
    let byte = |at: u64| (at ^ (at >> 8) ^ (at >> 16)) as u8 ^ (round as u8).wrapping_mul(37);
    (offset..offset + len).map(byte).collect::<Vec<u8>>().into()
}

async fn write_all(client: &Nfs3, file: &FileHandle, calls: u64, bytes: u64, round: u64) {
    for at in 0..calls {
        let data = pattern(round, at * bytes, bytes);
        let done = client.write(file, at * bytes, StableHow::Unstable, data);
        assert_eq!(u64::from(ok(done.await).count), bytes);
    }
}

async fn read_all(client: &Nfs3, file: &FileHandle, calls: u64, bytes: u64, round: u64) {
    for at in 0..calls {
        let read = ok(client.read(file, at * bytes, bytes as u32).await);
        assert!(
            read.data == pattern(round, at * bytes, bytes),
            "{bytes} {at}"
        );
    }
}

/// Events that tell of changes of mode, in the order in which they happened.
fn changes(follower: &mut nfs_server::operate::control::Follower) -> Vec<TraceEvent> {
    std::iter::from_fn(|| follower.at_once())
        .map(|line| match line {
            TraceLine::Event(event) => *event,
            TraceLine::Lost { lost } => panic!("{lost} events lost"),
        })
        .collect()
}

fn follow(bed: &Bed, event: &str) -> nfs_server::operate::control::Follower {
    let request = FollowRequest {
        events: vec![event.to_owned()],
        ..FollowRequest::default()
    };
    bed.served.server.follow(&request).unwrap()
}

/// Operation, mode before and mode from then on of a change, of which the reason is told as well.
fn words(event: &TraceEvent) -> [&str; 3] {
    assert!(event.because.is_some(), "{event:?}");
    [&event.op, &event.from, &event.mode].map(|field| field.as_deref().unwrap_or(""))
}

#[test]
fn a_change_of_mode_is_told_wherever_one_looks() {
    for engine in ENGINES {
        let Some(bed) = Bed::new(engine, |_policy| {}) else {
            return;
        };
        let mut follower = follow(&bed, "mode_change");
        block_on(async {
            let client = bed.served.client().await;
            let root = bed.served.root(&client).await;
            let file = lookup(&client, &root, b"f").await;
            write_all(&client, &file, CALLS, LARGE, 1).await;
            assert_eq!(changes(&mut follower), [], "direct from the first one on");
            read_all(&client, &file, CALLS, LARGE, 1).await;
            assert!(bed.direct_bytes("write") >= CALLS * LARGE);
            assert!(bed.direct_bytes("read") >= CALLS * LARGE);
            // What comes often, and small, belongs into the cache.
            for _ in 0..3 {
                write_all(&client, &file, CALLS, SMALL, 2).await;
            }
            read_all(&client, &file, CALLS, SMALL, 2).await;
        });
        let told = changes(&mut follower);
        assert_eq!(words(&told[0]), ["write", "direct", "buffered"]);
        let auto = bed.auto("write");
        let reason = told[0].because.clone().unwrap();
        assert_eq!(auto["buffered"].changes.get(&reason), Some(&1), "{auto:?}");
        assert!(auto["direct"].taken >= CALLS && auto["direct"].told == 0);
        let why = bed.why("write", SMALL);
        let said = why.auto.unwrap();
        assert_eq!(
            (why.mode.as_str(), said.mode.as_str()),
            ("buffered", "buffered")
        );
        assert_eq!(said.state, "on");
        assert!(!said.sentence.is_empty());
        assert_eq!(said.evidence["calls"], 4 * CALLS);
        assert_eq!(said.evidence["changes"], 1);
        assert_eq!(said.evidence["file-bytes"], SIZE);
        assert_eq!(
            bed.why("write", SMALL).auto.unwrap(),
            said,
            "asking changes nothing"
        );
        let state = bed.served.server.io_policies(&Default::default()).unwrap();
        assert_eq!(
            (&*state[0].now.read, &*state[0].now.write),
            ("auto", "auto")
        );
    }
}

/// The hint in turns, so that every mode comes: large calls of `noreuse` are direct, small ones not.
fn hint(server: &Server, round: u64) {
    let order = IoOrder {
        hint: Some(["noreuse", "willneed"][round as usize % 2].to_owned()),
        ..IoOrder::default()
    };
    server.set_io_policy(&order, ASKER).unwrap();
}

/// Writes and reads its own part of the file, in rounds of large calls and of small ones, and compares every byte.
/// The first of all workers has the mode changed under them.
async fn work(server: Arc<Server>, client: Nfs3, file: FileHandle, part: u64, rounds: u64) {
    let begin = part * (1 << 30);
    for round in 0..rounds {
        if part == 0 {
            hint(&server, round / 2);
        }
        let bytes = if round % 2 == 0 { LARGE } else { SMALL };
        // A few bytes off, now and then, so that edges meet as well.
        let begin = begin + if round % 3 == 2 { 100 } else { 0 };
        for at in 0..CALLS / 4 {
            let offset = begin + at * bytes;
            let data = pattern(round, offset, bytes);
            let written = client.write(&file, offset, StableHow::Unstable, data.clone());
            assert_eq!(u64::from(ok(written.await).count), bytes);
            let back = offset + bytes / 3;
            let read = ok(client.read(&file, back, (bytes / 2) as u32).await);
            let (from, to) = (bytes as usize / 3, bytes as usize / 3 + bytes as usize / 2);
            assert!(read.data == data.slice(from..to), "{part} {round} {at}");
        }
        for at in 0..CALLS / 4 {
            let offset = begin + at * bytes;
            let read = ok(client.read(&file, offset, bytes as u32).await);
            assert!(
                read.data == pattern(round, offset, bytes),
                "{part} {round} {at}"
            );
        }
    }
    ok(client.commit(&file, 0, 0).await);
}

#[test]
fn no_byte_is_lost_while_modes_change() {
    const WORKERS: u64 = 4;
    const ROUNDS: u64 = 8;
    for staging in [false, true] {
        let Some(bed) = Bed::new(EngineChoice::Auto, |policy| policy.staging = staging) else {
            return;
        };
        let mut follower = follow(&bed, "mode_change");
        block_on(async {
            let client = bed.served.client().await;
            let root = bed.served.root(&client).await;
            let file = lookup(&client, &root, b"f").await;
            let local = tokio::task::LocalSet::new();
            let workers = local.run_until(async {
                let workers = (0..WORKERS).map(|part| {
                    let server = Arc::clone(&bed.served.server);
                    tokio::task::spawn_local(work(server, client.clone(), file, part, ROUNDS))
                });
                for worker in workers.collect::<Vec<_>>() {
                    worker.await.unwrap();
                }
            });
            workers.await;
        });
        let told = changes(&mut follower);
        let writes = told
            .iter()
            .filter(|event| event.op.as_deref() == Some("write"));
        assert!(writes.count() >= 2, "it changed under them: {told:?}");
        // Local programs see the same when all is on stable storage.
        let bytes = SMALL * (CALLS / 4);
        for part in 0..WORKERS {
            let mut found = vec![0; bytes as usize];
            let begin = part * (1 << 30);
            bed.local.read_exact_at(&mut found, begin).unwrap();
            assert!(found == pattern(ROUNDS - 1, begin, bytes), "{part}");
        }
    }
}

#[test]
fn a_dry_run_says_what_it_would_do_and_does_nothing() {
    let Some(bed) = Bed::new(EngineChoice::Auto, |policy| {
        policy.read = Mode::Buffered.into();
        policy.auto = AutoUse::DryRun;
    }) else {
        return;
    };
    let mut follower = follow(&bed, "mode_would_change");
    let mut taken = follow(&bed, "mode_change");
    block_on(async {
        let client = bed.served.client().await;
        let root = bed.served.root(&client).await;
        let file = lookup(&client, &root, b"f").await;
        write_all(&client, &file, CALLS, LARGE, 1).await;
        read_all(&client, &file, CALLS, LARGE, 1).await;
        for _ in 0..3 {
            write_all(&client, &file, CALLS, SMALL, 2).await;
        }
    });
    let told = changes(&mut follower);
    assert_eq!(words(&told[0]), ["write", "direct", "buffered"]);
    assert_eq!(changes(&mut taken), []);
    for operation in ["read", "write"] {
        assert_eq!(bed.direct_bytes(operation), 0, "{operation}");
        let auto = bed.auto(operation);
        assert!(auto.values().all(|row| row.taken == 0), "{auto:?}");
        let told: u64 = auto.values().map(|row| row.told).sum();
        let calls = if operation == "read" {
            CALLS
        } else {
            4 * CALLS
        };
        assert_eq!(told, calls, "{auto:?}");
    }
    let why = bed.why("write", LARGE);
    assert_eq!(why.mode, "buffered", "in force");
    assert_eq!(why.auto.unwrap().state, "dry-run");
}

#[test]
fn a_hint_and_a_switch_take_hold_while_the_server_runs() {
    let Some(bed) = Bed::new(EngineChoice::Auto, |_policy| {}) else {
        return;
    };
    let set = |hint: Option<&str>, auto: Option<&str>| {
        let order = IoOrder {
            hint: hint.map(str::to_owned),
            auto: auto.map(str::to_owned),
            ..IoOrder::default()
        };
        bed.served.server.set_io_policy(&order, ASKER).unwrap()
    };
    block_on(async {
        let client = bed.served.client().await;
        let root = bed.served.root(&client).await;
        let file = lookup(&client, &root, b"f").await;
        write_all(&client, &file, CALLS, LARGE, 1).await;
        let direct = bed.direct_bytes("write");
        assert!(direct >= CALLS * LARGE);
        assert_eq!(set(Some("willneed"), None).now.hint, "willneed");
        write_all(&client, &file, CALLS, LARGE, 2).await;
        let changes = &bed.auto("write")["buffered"].changes;
        assert_eq!(changes.get("hint"), Some(&1), "{changes:?}");
        assert_eq!(set(None, Some("dry-run")).now.auto, "dry-run");
        let before = bed.auto("write")["buffered"].told;
        write_all(&client, &file, 10, LARGE, 3).await;
        assert_eq!(bed.auto("write")["buffered"].told - before, 10);
        read_all(&client, &file, 10, LARGE, 3).await;
    });
}
