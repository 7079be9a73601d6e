//! How bytes travel, as an operator sets it: changed live under load, and explained truly.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use nfs_client::Nfs3;
use nfs_server::Server;
use nfs_server::operate::control::{Asker, IoChanged, IoOrder, IoQuery, IoStatus, Why, WhyQuery};
use nfs_wire::nfs3::{FileHandle, StableHow};
use support::{Served, block_on, create, lookup, mkdir, ok};

/// The operator of these tests.
const ASKER: Asker = Asker { uid: 0, pid: None };

/// A change in words: `read`, `write`, `stable` and rules.
fn order(read: &str, write: &str, stable: &str, rules: &[&str]) -> IoOrder {
    IoOrder {
        export: Some("/".to_owned()),
        read: Some(read.to_owned()),
        write: Some(write.to_owned()),
        stable: Some(stable.to_owned()),
        // What is foretold is what one call does.
        read_ahead: Some("0".to_owned()),
        staging: None,
        rules: Some(rules.iter().map(|rule| (*rule).to_owned()).collect()),
        ..IoOrder::default()
    }
}

fn set(server: &Server, read: &str, write: &str, stable: &str, rules: &[&str]) -> IoChanged {
    let changed = server.set_io_policy(&order(read, write, stable, rules), ASKER);
    changed.unwrap()
}

/// Bytes of which each says where it is and who wrote it when.
fn pattern(writer: usize, round: usize, offset: u64, len: usize) -> Bytes {
    let byte = |at: usize| (offset as usize + at) as u8 ^ (writer * 31 + round * 7) as u8;
    (0..len).map(byte).collect::<Vec<u8>>().into()
}

/// Writes and reads its own part of a file that all share, at offsets and lengths of every alignment.
///
/// No round begins before as many changes were made: what they meet does not depend on who gets the processor.
async fn work(
    client: Nfs3,
    file: FileHandle,
    writer: usize,
    rounds: usize,
    changes: Arc<AtomicUsize>,
) {
    const PART: u64 = 1 << 20;
    let stabilities = [
        StableHow::Unstable,
        StableHow::DataSync,
        StableHow::FileSync,
    ];
    for round in 0..rounds {
        while changes.load(Ordering::Relaxed) < round {
            tokio::task::yield_now().await;
        }
        let offset = PART * writer as u64 + (round * 1234 % 5000) as u64;
        let len = 1 + (round * 7919 + writer * 4099) % 40_000;
        let data = pattern(writer, round, offset, len);
        let asked = stabilities[round % 3];
        let written = ok(client.write(&file, offset, asked, data.clone()).await);
        assert_eq!(written.count as usize, len, "{writer} in round {round}");
        assert!(written.committed as u32 >= asked as u32);
        let read = ok(client.read(&file, offset, len as u32).await);
        assert!(read.data == data, "{writer} in round {round}: other bytes");
        let inside = offset + len as u64 / 3;
        let read = ok(client.read(&file, inside, len as u32 / 3).await);
        assert!(
            read.data == data.slice(len / 3..len / 3 + len / 3),
            "{writer} in {round}"
        );
    }
    ok(client.commit(&file, 0, 0).await);
}

/// Raises the flag when dropped, also by a test that fails: another thread waits for it.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Lets those go on who count changes, when nobody makes any more.
struct NoMore(Arc<AtomicUsize>);

impl Drop for NoMore {
    fn drop(&mut self) {
        self.0.store(usize::MAX, Ordering::Relaxed);
    }
}

#[test]
fn a_live_change_loses_no_call_and_no_byte() {
    const WRITERS: usize = 6;
    const ROUNDS: usize = 60;
    let served = Served::start();
    let done = AtomicBool::new(false);
    let changes = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let flipping = scope.spawn(|| {
            let modes = ["buffered", "dontcache", "direct"];
            let floors = ["asked", "data-sync", "file-sync"];
            let rules: [&[&str]; 3] = [&[], &["op=write,max=8KiB,mode=3"], &["name=*x,mode=1"]];
            let _no_more = NoMore(changes.clone());
            while !done.load(Ordering::Relaxed) {
                let number = changes.load(Ordering::Relaxed);
                let (read, write) = (modes[number % 3], modes[number / 3 % 3]);
                let stable = floors[number / 9 % 3];
                let changed = set(&served.server, read, write, stable, rules[number % 3]);
                assert_eq!(
                    (changed.now.read.as_str(), changed.now.write.as_str()),
                    (read, write)
                );
                changes.fetch_add(1, Ordering::Relaxed);
                std::thread::yield_now();
            }
        });
        let raised = Raise(&done);
        block_on(async {
            let client = served.client().await;
            let root = served.root(&client).await;
            let file = create(&client, &root, b"shared.x").await;
            let local = tokio::task::LocalSet::new();
            let workers = local.run_until(async {
                let workers = (0..WRITERS).map(|writer| {
                    tokio::task::spawn_local(work(
                        client.clone(),
                        file,
                        writer,
                        ROUNDS,
                        changes.clone(),
                    ))
                });
                for worker in workers.collect::<Vec<_>>() {
                    worker.await.unwrap();
                }
            });
            workers.await;
        });
        drop(raised);
        flipping.join().unwrap();
    });
    let rows = served.server.io();
    let calls = |operation: &str| {
        let rows = rows.iter().filter(|row| row.operation == operation);
        rows.map(|row| row.calls).sum::<u64>()
    };
    let all = (WRITERS * ROUNDS) as u64;
    assert_eq!(
        (calls("write"), calls("read")),
        (all, 2 * all),
        "each was decided once"
    );
    assert!(rows.len() > 2, "more than one mode each: {rows:?}");
}

#[test]
fn a_reload_goes_back_to_the_configuration() {
    let served = Served::start();
    let state = || {
        served
            .server
            .io_policies(&IoQuery::default())
            .unwrap()
            .remove(0)
    };
    let before = state();
    assert_eq!(before.configured, None);
    let changed = set(
        &served.server,
        "2",
        "4",
        "file-sync",
        &["mode=1", "mode=direct"],
    );
    assert_eq!(changed.before, before.now);
    assert_eq!(
        (changed.now.write.as_str(), changed.now.stable.as_str()),
        ("direct", "file-sync")
    );
    assert!(
        changed.warnings[0].contains("rule 2 can never match"),
        "{changed:?}"
    );
    assert!(changed.lasts.contains("reload"));
    let now = state();
    assert_eq!(
        (&now.now, now.configured.as_ref()),
        (&changed.now, Some(&before.now))
    );
    let table = nfs_server::exports::ExportTable::new(&served.config).unwrap();
    served.server.apply(table).unwrap();
    assert_eq!(state(), before);
}

#[test]
fn a_wrong_change_changes_nothing() {
    let served = Served::with(|config| {
        let other = nfs_server::exports::config::ExportConfig::new("/", "/other");
        config.exports.push(other);
    });
    let refused = |order: IoOrder| served.server.set_io_policy(&order, ASKER).unwrap_err();
    let good = || order("direct", "direct", "asked", &[]);
    let before = served.server.io_policies(&IoQuery::default()).unwrap();
    let wrong = [
        (
            IoOrder {
                export: None,
                ..good()
            },
            "name one of: / /other",
        ),
        (
            IoOrder {
                export: Some("/x".into()),
                ..good()
            },
            "no export \"/x\"; there are: / /other",
        ),
        (
            order("fast", "direct", "asked", &[]),
            "read: \"fast\" is no I/O mode",
        ),
        (
            order("3", "direct", "asked", &[]),
            "read: mode 3 is of WRITE alone",
        ),
        (
            order("direct", "3", "asked", &[]),
            "contradicts WRITE mode 3",
        ),
        (
            order("direct", "direct", "always", &[]),
            "stable: \"always\" is not a choice",
        ),
        (
            order("direct", "direct", "asked", &["op=read"]),
            "has no mode",
        ),
    ];
    for (order, expected) in wrong {
        let refusal = refused(order);
        assert!(refusal.contains(expected), "{refusal}");
    }
    assert_eq!(
        served.server.io_policies(&IoQuery::default()).unwrap(),
        before
    );
}

fn question(file: &Path, op: &str, offset: u64, size: u64) -> WhyQuery {
    WhyQuery {
        file: file.to_str().unwrap().to_owned(),
        op: op.to_owned(),
        offset,
        size: Some(size),
        client: None,
        stable: "unstable".to_owned(),
        open: None,
        deny: None,
    }
}

/// The figures of one operation, all modes together but for the calls, which are by the mode decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Figures {
    calls: BTreeMap<String, u64>,
    segments: u64,
    moved: BTreeMap<String, u64>,
    fallbacks: u64,
}

impl Figures {
    fn of(rows: &[IoStatus], op: &str) -> Self {
        let mut figures = Self::default();
        for row in rows.iter().filter(|row| row.operation == op) {
            *figures.calls.entry(row.mode.clone()).or_default() += row.calls;
            figures.segments += row.segments;
            for (mode, bytes) in &row.moved_bytes {
                *figures.moved.entry(mode.clone()).or_default() += bytes;
            }
            figures.fallbacks += row.fallbacks.values().sum::<u64>();
        }
        figures
    }

    /// What these become by a call that goes as foretold.
    fn after(mut self, why: &Why) -> Self {
        *self.calls.entry(why.mode.clone()).or_default() += 1;
        self.segments += why.segments.len() as u64;
        for segment in &why.segments {
            // A READ that is rounded out gets what the file has.
            let end = if why.op == "read" { why.size } else { u64::MAX };
            let bytes = segment.file.end.min(end) - segment.file.start;
            *self.moved.entry(segment.mode.clone()).or_default() += bytes;
        }
        self.fallbacks += why.fallbacks.len() as u64;
        self
    }
}

/// A WRITE and a READ, each foretold, then done.
async fn foretold(served: &Served, client: &Nfs3, file: &FileHandle, offset: u64, size: u64) {
    let path = served.path().join("big.ckpt");
    let figures = |op: &str| Figures::of(&served.server.io(), op);
    let before = figures("write");
    let why = served
        .server
        .why_io(&question(&path, "write", offset, size))
        .unwrap();
    let data = pattern(1, 1, offset, size as usize);
    let written = ok(client
        .write(file, offset, StableHow::Unstable, data.clone())
        .await);
    let committed = match written.committed {
        StableHow::Unstable => "unstable",
        StableHow::DataSync => "data-sync",
        StableHow::FileSync => "file-sync",
    };
    assert_eq!(why.stable.as_ref().unwrap().committed, committed, "{why:?}");
    assert_eq!(figures("write"), before.after(&why), "{why:?}");
    let before = figures("read");
    let why = served
        .server
        .why_io(&question(&path, "read", offset, size))
        .unwrap();
    let read = ok(client.read(file, offset, size as u32).await);
    assert_eq!(read.data, data);
    assert_eq!(figures("read"), before.after(&why), "{why:?}");
}

#[test]
fn what_why_foretells_is_what_happens() {
    let served = Served::start();
    // As the clients see it and as the server's host does.
    std::fs::write(served.path().join("big.ckpt"), vec![7; 3 << 20]).unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = lookup(&client, &root, b"big.ckpt").await;
        let rules: [&[&str]; 3] = [
            &[],
            &["op=write,max=9000,mode=4", "client=10.0.0.0/8,mode=0"],
            &["name=*.db,mode=1", "name=*.ckpt,mode=2"],
        ];
        for (number, mode) in ["buffered", "dontcache", "direct", "direct"]
            .iter()
            .enumerate()
        {
            let stable = ["asked", "data-sync", "asked", "file-sync"][number];
            set(&served.server, mode, mode, stable, rules[number % 3]);
            // The name is remembered from the look-up after a rule asked for one.
            lookup(&client, &root, b"big.ckpt").await;
            for (offset, size) in [
                (0, 1 << 20),
                (1, 4096),
                (4096, 4096),
                (47008, 47008),
                (100, 12288),
                (5000, 100),
                (511, 1),
                ((3 << 20) - 5000, 5000),
            ] {
                foretold(&served, &client, &file, offset, size).await;
            }
        }
    });
}

#[test]
fn a_rule_knows_a_file_by_the_name_it_was_last_found_by() {
    let served = Served::start();
    set(
        &served.server,
        "buffered",
        "buffered",
        "asked",
        &["name=*.ckpt,mode=direct"],
    );
    let why = |name: &str| {
        let path = served.path().join(name);
        let why = served
            .server
            .why_io(&question(&path, "read", 0, 4096))
            .unwrap();
        (why.mode, why.name.unwrap_or_default())
    };
    let is = |mode: &str, name: &str| (mode.to_owned(), name.to_owned());
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"a.ckpt").await;
        assert_eq!(why("a.ckpt"), is("direct", "a.ckpt"), "created");
        ok(client.rename(&root, b"a.ckpt", &root, b"a.tmp").await);
        assert_eq!(
            why("a.tmp"),
            is("buffered", "a.tmp"),
            "renamed, not looked up"
        );
        ok(client.link(&file, &root, b"b.ckpt").await);
        assert_eq!(why("a.tmp"), is("direct", "b.ckpt"), "linked");
        lookup(&client, &root, b"a.tmp").await;
        assert_eq!(
            why("b.ckpt"),
            is("buffered", "a.tmp"),
            "looked up by its other name"
        );
        lookup(&client, &root, b"b.ckpt").await;
        assert_eq!(why("b.ckpt"), is("direct", "b.ckpt"), "looked up again");
        std::fs::write(served.path().join("local.ckpt"), b"x").unwrap();
        assert_eq!(
            why("local.ckpt"),
            is("direct", "local.ckpt"),
            "no client has it yet"
        );
        // A listing gives a handle, and the file may be opened by that alone.
        let listed = ok(client.readdirplus(&root, 0, [0; 8], 4096, 32768).await);
        let entry = listed
            .entries
            .iter()
            .find(|entry| entry.name == b"local.ckpt"[..]);
        let handle = entry.unwrap().name_handle.unwrap();
        ok(client.read(&handle, 0, 1).await);
        let reads = Figures::of(&served.server.io(), "read").calls;
        assert_eq!(reads, BTreeMap::from([("direct".to_owned(), 1)]));
    });
}

#[test]
fn a_question_that_makes_no_sense_is_answered_with_its_cure() {
    let served = Served::start();
    std::fs::write(served.path().join("f"), b"x").unwrap();
    std::os::unix::fs::symlink("f", served.path().join("link")).unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        mkdir(&client, &root, b"d").await;
    });
    let ask = |file: &str| {
        let path = served.path().join(file);
        served.server.why_io(&question(&path, "read", 0, 1))
    };
    for (file, expected) in [
        ("none", "there is no such file; check"),
        ("f/x", "is no directory; check the path"),
        ("link", "for a symbolic link write where it leads"),
        ("link/x", "where a symbolic link is on the way"),
        ("d", "no regular file"),
        ("", "no regular file"),
        ("../f", "holds \"..\"; write where it leads"),
    ] {
        let refusal = ask(file).unwrap_err();
        assert!(refusal.contains(expected), "{file}: {refusal}");
    }
    let seen = served
        .server
        .why_io(&question(Path::new("/f"), "read", 0, 1))
        .unwrap();
    assert_eq!(seen.file, served.path().join("f"), "as clients see it");
    let refused = |query: WhyQuery| served.server.why_io(&query).unwrap_err();
    let good = || question(Path::new("/f"), "read", 0, 1);
    assert!(
        refused(WhyQuery {
            op: "append".into(),
            ..good()
        })
        .contains("op: \"append\"")
    );
    assert!(
        refused(WhyQuery {
            stable: "asked".into(),
            ..good()
        })
        .contains("stable: \"asked\"")
    );
    assert!(
        refused(WhyQuery {
            offset: u64::MAX,
            ..good()
        })
        .contains("ask for less")
    );
    let foreign = WhyQuery {
        client: Some("192.0.2.1".parse().unwrap()),
        size: Some(1 << 40),
        ..good()
    };
    let notes = served.server.why_io(&foreign).unwrap().notes;
    assert!(notes[0].contains("more than one call moves"), "{notes:?}");
    assert!(
        notes
            .iter()
            .any(|note| note.contains("not among the export's clients")),
        "{notes:?}"
    );
}
