//! Ends of UNSTABLE direct WRITEs that are held until a neighbour completes their block: what goes out when, and
//! that nobody sees anything of it but the figures.
//!
//! Parts are held for a second at most. A machine that is busy can take longer between two calls of a test: then
//! the figures say so (`staged_flushed_time`) and the test is done again. What is in the file is looked at every
//! time.

mod support;

use std::cell::Cell;

use bytes::Bytes;
use nfs_client::Nfs3;
use nfs_io::faults::{Call, Fault, Rule};
use nfs_io::{Errno, Mode};
use nfs_server::exports::config::{ExportConfig, SquashKind};
use nfs_server::exports::policy::{IoPolicy, parse_rule};
use nfs_server::operate::control::{Asker, IoOrder, WhyQuery};
use nfs_wire::nfs3::{CreateHow, FileHandle, Nfsstat3, Sattr3, StableHow, WriteOk};
use support::{Served, block_on, create, lookup, mode, mount, ok, status, wire};

/// A record as IOR's "hard" pattern has it: no multiple of anything.
const RECORD: usize = 47_008;
/// What one test is done again for at most.
const TRIES: usize = 20;

fn served() -> Served {
    served_with(|_policy| {})
}

fn served_with(change: impl FnOnce(&mut IoPolicy)) -> Served {
    Served::with(|config| {
        let policy = &mut config.exports[0].io;
        *policy = IoPolicy {
            read: Mode::Direct.into(),
            write: Mode::Direct.into(),
            staging: true,
            ..IoPolicy::default()
        };
        change(policy);
    })
}

/// May files here be opened with `O_DIRECT`, and is a page what it asks for at most?
fn can_stage(served: &Served) -> bool {
    let path = served.path().join("probe");
    let file = std::fs::File::create(path).unwrap();
    let stat = nfs_io::fs::statx(std::os::fd::AsFd::as_fd(&file)).unwrap();
    (1..=4096).contains(&stat.dio_offset_align)
}

macro_rules! need_staging {
    ($served:expr) => {
        if !can_stage(&$served) {
            support::skip!("no direct I/O on the temporary directory");
        }
    };
}

/// Does `act` as a client of the server, with a new file of this name.
fn on_file(served: &Served, name: &str, act: impl AsyncFnOnce(&Nfs3, &FileHandle)) {
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, name.as_bytes()).await;
        act(&client, &file).await;
    });
}

/// Does `act` with a server of its own, and compares figures with what they are if nothing was held for too long.
fn staged(act: impl AsyncFn(&Served, &Nfs3, &FileHandle), figures: &[(&str, u64)]) {
    for _ in 0..TRIES {
        let served = served();
        need_staging!(served);
        on_file(&served, "file", async |client, file| {
            act(&served, client, file).await;
        });
        if served.counter("staged_flushed_time") == 0 {
            for (name, value) in figures {
                assert_eq!(served.counter(name), *value, "{name}");
            }
            return;
        }
    }
    panic!("in {TRIES} tries parts were held for too long: this machine is too busy");
}

/// Bytes that tell which record they are of, and where in it.
fn data(record: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| 1 + ((at * 7 + record * 31) % 199) as u8)
        .collect()
}

async fn put(client: &Nfs3, file: &FileHandle, offset: usize, data: Vec<u8>) -> WriteOk {
    let len = data.len();
    let written = client
        .write(file, offset as u64, StableHow::Unstable, Bytes::from(data))
        .await;
    let written = ok(written);
    assert_eq!(
        (written.count as usize, written.committed),
        (len, StableHow::Unstable)
    );
    written
}

async fn put_record(client: &Nfs3, file: &FileHandle, record: usize) -> WriteOk {
    put(client, file, record * RECORD, data(record, RECORD)).await
}

fn records(count: usize) -> Vec<u8> {
    (0..count).flat_map(|record| data(record, RECORD)).collect()
}

async fn read(client: &Nfs3, file: &FileHandle, offset: usize, len: usize) -> Vec<u8> {
    ok(client.read(file, offset as u64, len as u32).await)
        .data
        .to_vec()
}

fn local(served: &Served) -> Vec<u8> {
    std::fs::read(served.path().join("file")).unwrap()
}

fn is_held(served: &Served) -> bool {
    served.counter("staged_bytes_held") > 0
}

#[test]
fn a_stream_of_records_goes_out_in_one_direct_write_each() {
    staged(
        async |served, client, file| {
            for record in 0..20 {
                put_record(client, file, record).await;
            }
            ok(client.commit(file, 0, 0).await);
            assert_eq!(local(served).len(), 20 * RECORD, "nothing beyond the end");
            assert!(local(served) == records(20));
            assert!(!is_held(served));
            let rows = served.server.status().io;
            let row = rows.iter().find(|row| row.operation == "write").unwrap();
            assert_eq!((row.calls, row.bytes), (20, 20 * RECORD as u64));
            if served.counter("staged_flushed_time") == 0 {
                assert_eq!(row.segments, 20);
                assert_eq!(row.moved_bytes.get("buffered"), None);
            }
        },
        &[
            ("staged_writes", 20),
            ("staged_blocks_completed", 19),
            ("staged_flushed_commit", 1),
            ("read_modify_writes", 1),
            ("verifier_changes", 0),
        ],
    );
}

#[test]
fn without_the_option_each_end_is_a_read_modify_write() {
    let served = served_with(|policy| policy.staging = false);
    need_staging!(served);
    on_file(&served, "file", async |client, file| {
        for record in 0..4 {
            put_record(client, file, record).await;
        }
        assert!(local(&served) == records(4), "at once");
    });
    assert_eq!(served.counter("staged_writes"), 0);
    assert_eq!(served.counter("read_modify_writes"), 7);
}

#[test]
fn a_commit_flushes_what_is_held_of_its_range_and_nothing_else() {
    // Ends in the blocks at 45056, at 139264 and at 184320.
    let two = async |client: &Nfs3, file: &FileHandle| {
        put_record(client, file, 0).await;
        put_record(client, file, 3).await;
    };
    let range = |from: usize, count: usize| (from as u64, count as u32);
    let cases = [
        // A range that has no byte of what is held, in blocks that do.
        (range(47_100, 2000), 1),
        (range(0, RECORD), 1),
        (range(3 * RECORD, RECORD), 2),
        (range(RECORD + 4096, 4096), 0),
        // A count of 0 means to the end of the file.
        (range(3 * RECORD, 0), 2),
        (range(0, 0), 3),
        ((u64::MAX, u32::MAX), 0),
    ];
    for ((offset, count), flushed) in cases {
        staged(
            async |_, client, file| {
                two(client, file).await;
                ok(client.commit(file, offset, count).await);
            },
            &[("staged_flushed_commit", flushed), ("staged_writes", 2)],
        );
    }
    // Whose neighbour comes after the COMMIT is still completed by it.
    staged(
        async |served, client, file| {
            put_record(client, file, 0).await;
            put_record(client, file, 1).await;
            ok(client.commit(file, 0, RECORD as u32).await);
            put_record(client, file, 2).await;
            ok(client.commit(file, 0, 0).await);
            assert!(local(served) == records(3));
        },
        &[("staged_blocks_completed", 2), ("read_modify_writes", 1)],
    );
}

#[test]
fn records_that_arrive_backwards_complete_each_other() {
    staged(
        async |served, client, file| {
            for record in (0..8).rev() {
                put_record(client, file, record).await;
            }
            ok(client.commit(file, 0, 0).await);
            assert!(local(served) == records(8));
        },
        &[("staged_blocks_completed", 7), ("read_modify_writes", 1)],
    );
}

#[test]
fn two_clients_interleave_records_beside_a_reader() {
    const COUNT: usize = 32;
    staged(
        async |served, client, file| {
            let (other, reader) = (served.client().await, served.client().await);
            let writes = |client, first| async move {
                for record in (first..COUNT).step_by(2) {
                    put_record(client, file, record).await;
                }
            };
            let reads = async {
                for round in 0..COUNT {
                    let at = round * RECORD;
                    let found = read(&reader, file, at, RECORD).await;
                    let expected = data(round, RECORD);
                    // What is not written yet is zero.
                    let known = |(at, byte): (usize, &u8)| *byte == 0 || *byte == expected[at];
                    assert!(found.iter().enumerate().all(known));
                }
            };
            tokio::join!(writes(client, 0), writes(&other, 1), reads);
            let end = ok(client.getattr(file).await).obj_attributes.size;
            assert_eq!(end, (COUNT * RECORD) as u64);
            ok(other.commit(file, 0, 0).await);
            assert!(local(served) == records(COUNT));
            assert!(served.counter("staged_blocks_completed") > 0);
        },
        &[("staged_writes", COUNT as u64), ("verifier_changes", 0)],
    );
}

#[test]
fn a_local_reader_beside_two_clients_sees_their_bytes_alone_and_at_last_all_of_them() {
    const COUNT: usize = 32;
    // Blocks beside a record that stays away are completed by nobody.
    let is_written = |record: &usize| record % 3 != 2;
    let served = served();
    need_staging!(served);
    on_file(&served, "file", async |client, file| {
        let other = served.client().await;
        let writing = Cell::new(2);
        let writes = async |client: &Nfs3, first| {
            for record in (first..COUNT).step_by(2).filter(is_written) {
                put_record(client, file, record).await;
            }
            writing.set(writing.get() - 1);
        };
        let mut seen = Vec::new();
        let looks = async {
            while writing.get() > 0 {
                seen = look_from_beside(&served, &seen, COUNT);
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(writes(client, 0), writes(&other, 1), looks);
        // Nobody asks for what is held: its time ends.
        wire::until("what is held goes out", || !is_held(&served)).await;
        let found = look_from_beside(&served, &seen, COUNT);
        for record in (0..COUNT).filter(is_written) {
            let at = record * RECORD;
            assert!(found[at..at + RECORD] == data(record, RECORD), "{record}");
        }
        assert!(served.counter("staged_flushed_time") > 0);
    });
}

/// The file as a local program finds it after it was `seen`: what was there stays, and what has come is of the
/// first `count` records, or a hole.
fn look_from_beside(served: &Served, seen: &[u8], count: usize) -> Vec<u8> {
    let (found, expected) = (local(served), records(count));
    assert!((seen.len()..=expected.len()).contains(&found.len()));
    for (at, byte) in found.iter().enumerate() {
        let was_there = seen.get(at).is_some_and(|seen| *seen != 0);
        let is_hole = *byte == 0 && !was_there;
        assert!(is_hole || *byte == expected[at], "byte {at} is {byte}");
    }
    found
}

#[test]
fn a_reader_sees_what_is_held_and_only_its_range_goes_out() {
    staged(
        async |served, client, file| {
            put_record(client, file, 0).await;
            put_record(client, file, 3).await;
            assert!(read(client, file, 4096, 8192).await == data(0, RECORD)[4096..12_288]);
            let untouched = served.counter("staged_flushed_read");
            assert!(untouched == 0 || served.counter("staged_flushed_time") > 0);
            let tail = read(client, file, RECORD - 100, 200).await;
            assert!(tail[..100] == data(0, RECORD)[RECORD - 100..]);
            assert!(tail[100..].iter().all(|byte| *byte == 0), "a hole");
            let head = read(client, file, 3 * RECORD - 8, 16).await;
            assert!(head[8..] == data(3, RECORD)[..8]);
        },
        &[("staged_flushed_read", 2)],
    );
}

#[test]
fn everybody_is_told_the_size_that_was_acknowledged() {
    staged(
        async |served, client, file| {
            let end = RECORD as u64;
            let written = put_record(client, file, 0).await;
            let held = is_held(served);
            assert_eq!(written.file_wcc.after.unwrap().size, end);
            assert_eq!(ok(client.getattr(file).await).obj_attributes.size, end);
            let root = served.root(client).await;
            let found = ok(client.lookup(&root, b"file").await);
            assert_eq!(found.obj_attributes.unwrap().size, end);
            let listed = ok(client.readdirplus(&root, 0, [0; 8], 4096, 32768).await);
            let entry = listed
                .entries
                .iter()
                .find(|entry| &entry.name[..] == b"file");
            assert_eq!(entry.unwrap().name_attributes.unwrap().size, end);
            if held && is_held(served) {
                let local = std::fs::metadata(served.path().join("file")).unwrap();
                assert_eq!(local.len(), end / 4096 * 4096, "the rest is held");
            }
            ok(client.commit(file, 0, 0).await);
            assert_eq!(ok(client.getattr(file).await).obj_attributes.size, end);
        },
        &[("staged_writes", 1)],
    );
}

#[test]
fn a_file_that_is_cut_stays_cut() {
    staged(
        async |served, client, file| {
            for (size, record) in [(46_000, 0), (100, 1)] {
                put_record(client, file, record).await;
                let set = Sattr3 {
                    size: Some(size),
                    ..Sattr3::default()
                };
                let done = ok(client.setattr(file, &set, None).await);
                assert_eq!(done.after.unwrap().size, size);
                assert_eq!(ok(client.getattr(file).await).obj_attributes.size, size);
                ok(client.commit(file, 0, 0).await);
                assert_eq!(local(served).len() as u64, size);
            }
            assert!(local(served) == data(0, RECORD)[..100]);
        },
        // The first record's end went into the file alone, so the beginning of the second one, in the same block,
        // is not held.
        &[("staged_flushed_setattr", 2), ("staged_flushed_commit", 0)],
    );
}

#[test]
fn a_file_that_is_made_anew_over_held_ends_is_empty() {
    staged(
        async |served, client, file| {
            put_record(client, file, 0).await;
            let root = served.root(client).await;
            let empty = Sattr3 {
                size: Some(0),
                ..Sattr3::default()
            };
            ok(client
                .create(&root, b"file", &CreateHow::Unchecked(empty))
                .await);
            assert_eq!(ok(client.getattr(file).await).obj_attributes.size, 0);
            ok(client.commit(file, 0, 0).await);
            assert_eq!(local(served).len(), 0);
        },
        &[("staged_flushed_setattr", 1)],
    );
}

#[test]
fn times_that_a_client_sets_stay() {
    staged(
        async |served, client, file| {
            put_record(client, file, 0).await;
            ok(client.setattr(file, &mode(0o600), None).await);
            let before = ok(client.getattr(file).await).obj_attributes;
            ok(client.commit(file, 0, 0).await);
            let after = ok(client.getattr(file).await).obj_attributes;
            assert_eq!((before.mtime, before.mode), (after.mtime, after.mode));
            assert!(local(served) == records(1));
        },
        &[("staged_flushed_setattr", 1)],
    );
}

#[test]
fn times_that_a_file_sync_write_was_told_stay_whatever_was_held_before_it() {
    staged(
        async |_, client, file| {
            put_record(client, file, 0).await;
            let write = client.write(
                file,
                1 << 20,
                StableHow::FileSync,
                Bytes::from(vec![9; 100]),
            );
            let told = ok(write.await).file_wcc.after.unwrap();
            // Both ask for the end of the record.
            read(client, file, RECORD - 100, 100).await;
            ok(client.commit(file, 0, 0).await);
            let after = ok(client.getattr(file).await).obj_attributes;
            assert_eq!((told.mtime, told.ctime), (after.mtime, after.ctime));
        },
        &[("staged_flushed_write", 1), ("staged_flushed_read", 0)],
    );
}

#[test]
fn later_bytes_lie_over_held_ones_however_they_are_written() {
    for stable in [
        StableHow::Unstable,
        StableHow::DataSync,
        StableHow::FileSync,
    ] {
        staged(
            async |served, client, file| {
                put_record(client, file, 0).await;
                let over = vec![200; 60];
                let write = client.write(file, 46_990, stable, Bytes::from(over));
                assert_eq!(ok(write.await).committed, stable);
                // And a record beneath whose middle the other's end is held.
                let mut expected = data(0, RECORD);
                expected.resize(47_050, 0);
                expected[46_990..].fill(200);
                assert!(read(client, file, 0, 60_000).await == expected);
                put_record(client, file, 1).await;
                put(client, file, 80_000, vec![201; 30_000]).await;
                put(client, file, 90_000, vec![202; 30_000]).await;
                ok(client.commit(file, 0, 0).await);
                expected.truncate(RECORD);
                expected.extend(data(1, RECORD));
                expected.resize(120_000, 0);
                expected[80_000..90_000].fill(201);
                expected[90_000..].fill(202);
                assert!(local(served) == expected);
            },
            &[("verifier_changes", 0)],
        );
    }
}

#[test]
fn a_local_reader_sees_what_nobody_completes_after_the_time_limit() {
    let served = served();
    need_staging!(served);
    on_file(&served, "file", async |client, file| {
        put_record(client, file, 0).await;
        wire::until("what is held goes out", || !is_held(&served)).await;
    });
    assert!(local(&served) == records(1));
    assert_eq!(served.counter("staged_flushed_time"), 1);
    assert_eq!(served.counter("verifier_changes"), 0);
}

#[test]
fn what_is_held_is_written_when_the_server_ends() {
    let served = served();
    need_staging!(served);
    on_file(&served, "file", async |client, file| {
        put_record(client, file, 0).await;
        put_record(client, file, 2).await;
    });
    let (files, _state) = served.stop();
    let found = std::fs::read(files.path().join("file")).unwrap();
    assert_eq!(found.len(), 3 * RECORD);
    assert!(found[..RECORD] == data(0, RECORD) && found[2 * RECORD..] == data(2, RECORD));
}

#[test]
fn who_wrote_what_is_lost_hears_of_it_once_and_by_the_verifier() {
    let served = served();
    need_staging!(served);
    on_file(&served, "staged-full", async |client, file| {
        let other = served.client().await;
        // Of a record only its end, which waits for its neighbour, goes through the page cache: by the COMMIT, or before it
        // by the time limit.
        let full = Rule::new(Call::Write, Fault::Fail(Errno::NOSPC))
            .in_mode(Mode::Buffered)
            .of_name(b"staged-full")
            .inject();
        let wrote = put_record(client, file, 0).await;
        let told = status(client.commit(file, 0, 0).await);
        assert!([Nfsstat3::Nospc, Nfsstat3::Io].contains(&told), "{told:?}");
        assert!(full.hits() > 0);
        drop(full);
        let committed = ok(client.commit(file, 0, 0).await);
        assert_ne!(committed.verf, wrote.verf);
        assert_eq!(served.counter("staged_blocks_lost"), 1);
        // It sends again, and all is well.
        let again = put_record(client, file, 0).await;
        assert_eq!(again.verf, committed.verf);
        assert_eq!(ok(client.commit(file, 0, 0).await).verf, again.verf);
        assert_eq!(ok(other.commit(file, 0, 0).await).verf, again.verf);
    });
    let found = std::fs::read(served.path().join("staged-full")).unwrap();
    assert!(found == records(1));
}

#[test]
fn a_failure_of_who_completes_a_block_loses_nothing_of_its_neighbour() {
    let served = served();
    need_staging!(served);
    on_file(&served, "staged-join", async |client, file| {
        let wrote = put_record(client, file, 0).await;
        let full = Rule::new(Call::Write, Fault::Fail(Errno::NOSPC))
            .in_mode(Mode::Direct)
            .of_name(b"staged-join")
            .inject();
        let second = data(1, RECORD);
        let write = client.write(
            file,
            RECORD as u64,
            StableHow::Unstable,
            Bytes::from(second),
        );
        assert_eq!(status(write.await), Nfsstat3::Nospc);
        drop(full);
        assert_eq!(ok(client.commit(file, 0, 0).await).verf, wrote.verf);
        let size = ok(client.getattr(file).await).obj_attributes.size;
        assert_eq!(size, RECORD as u64);
    });
    let found = std::fs::read(served.path().join("staged-join")).unwrap();
    assert!(found == records(1));
    assert_eq!(served.counter("verifier_changes"), 0);
}

#[test]
fn a_short_write_is_told_as_what_it_is() {
    let served = served();
    need_staging!(served);
    on_file(&served, "staged-short", async |client, file| {
        put_record(client, file, 0).await;
        // The first call moves a part, and the next one finds the disk full.
        let rules = [
            Rule::new(Call::Write, Fault::Shorten(16_384)).times(1),
            Rule::new(Call::Write, Fault::Fail(Errno::NOSPC)).from(2),
        ];
        let rules = rules.map(|rule| {
            let rule = rule.in_mode(Mode::Direct);
            rule.of_name(b"staged-short").inject()
        });
        let second = Bytes::from(data(1, RECORD));
        let write = client.write(file, RECORD as u64, StableHow::Unstable, second);
        let count = ok(write.await).count as usize;
        assert!(count > 0 && count < RECORD, "{count}");
        drop(rules);
        ok(client.commit(file, 0, 0).await);
        let found = std::fs::read(served.path().join("staged-short")).unwrap();
        assert!(found[..RECORD + count] == records(2)[..RECORD + count]);
        assert!(found.len() <= 2 * RECORD);
    });
}

#[test]
fn a_refused_direct_write_takes_its_neighbour_through_the_page_cache() {
    let served = served();
    need_staging!(served);
    on_file(&served, "staged-refused", async |client, file| {
        put_record(client, file, 0).await;
        let refused = Rule::new(Call::Write, Fault::Fail(Errno::INVAL))
            .in_mode(Mode::Direct)
            .of_name(b"staged-refused")
            .inject();
        put_record(client, file, 1).await;
        assert_eq!(refused.hits(), 1);
        put_record(client, file, 2).await;
        assert_eq!(refused.hits(), 1, "it is remembered");
        ok(client.commit(file, 0, 0).await);
    });
    let found = std::fs::read(served.path().join("staged-refused")).unwrap();
    assert!(found == records(3));
}

#[test]
fn two_exports_of_one_directory_show_one_file() {
    let served = Served::with(|config| {
        let mut other = ExportConfig::new(&config.exports[0].path, "/other");
        for client in &mut other.clients {
            client.squash = SquashKind::None;
        }
        config.exports[0].io = IoPolicy {
            write: Mode::Direct.into(),
            staging: true,
            ..IoPolicy::default()
        };
        config.exports.push(other);
    });
    need_staging!(served);
    on_file(&served, "file", async |client, file| {
        put_record(client, file, 0).await;
        let other = mount(client, b"/other").await.unwrap();
        let seen = lookup(client, &other, b"file").await;
        let size = ok(client.getattr(&seen).await).obj_attributes.size;
        assert_eq!(size, RECORD as u64);
        assert!(read(client, &seen, 0, RECORD).await == records(1));
    });
}

#[test]
fn the_option_is_changed_live_and_by_rule_and_explained() {
    let served = served_with(|policy| {
        policy.staging = false;
        let rule = parse_rule("op=write,min=32KiB,mode=direct,staging=on").unwrap();
        policy.rules.push(rule);
    });
    need_staging!(served);
    let why = |size| {
        let query = WhyQuery {
            file: served.path().join("file").to_str().unwrap().to_owned(),
            op: "write".to_owned(),
            offset: 1000,
            size: Some(size),
            client: None,
            stable: "unstable".to_owned(),
            open: None,
            deny: None,
        };
        let why = served.server.why_io(&query).unwrap();
        why.notes.iter().any(|note| note.contains("staged"))
    };
    on_file(&served, "file", async |client, file| {
        assert!(why(RECORD as u64) && !why(20_000));
        put(client, file, 1000, data(0, 20_000)).await;
        assert_eq!(served.counter("staged_writes"), 0);
        put(client, file, 1000, data(0, RECORD)).await;
        assert_eq!(served.counter("staged_writes"), 1);
        let order = |staging: &str| IoOrder {
            staging: Some(staging.to_owned()),
            rules: Some(Vec::new()),
            ..IoOrder::default()
        };
        let asker = Asker { uid: 0, pid: None };
        let changed = served.server.set_io_policy(&order("on"), asker).unwrap();
        assert!(changed.now.staging);
        put(client, file, 1000, data(1, 20_000)).await;
        assert_eq!(served.counter("staged_writes"), 2);
        assert!(why(20_000));
        let wrong = served.server.set_io_policy(&order("yes"), asker);
        assert!(wrong.unwrap_err().contains("staging"));
        served.server.set_io_policy(&order("off"), asker).unwrap();
        put(client, file, 1000, data(2, 20_000)).await;
        assert_eq!(served.counter("staged_writes"), 2);
        let mut expected = data(0, RECORD);
        expected[..20_000].copy_from_slice(&data(2, 20_000));
        assert!(read(client, file, 1000, RECORD).await == expected);
    });
}

#[test]
fn edges_beyond_the_memory_for_them_go_the_old_way() {
    const COUNT: usize = 700;
    let served = Served::with(|config| {
        config.exports[0].io = IoPolicy {
            write: Mode::Direct.into(),
            staging: true,
            ..IoPolicy::default()
        };
        config.server.memory_bytes = nfs_server::limits::MEMORY_BYTES_MIN;
    });
    need_staging!(served);
    on_file(&served, "file", async |client, file| {
        // Two edges each, none of which has a neighbour.
        for record in 0..COUNT {
            put(client, file, record * 32_768 + 100, data(record, 20_000)).await;
            let held = served.counter("staged_bytes_held");
            assert!(held <= nfs_server::limits::MEMORY_BYTES_MIN / 16, "{held}");
        }
        ok(client.commit(file, 0, 0).await);
    });
    assert!(!is_held(&served));
    let edges = served.counter("read_modify_writes");
    assert_eq!(edges, 2 * COUNT as u64);
    let found = local(&served);
    for record in 0..COUNT {
        let at = record * 32_768 + 100;
        assert!(found[at..at + 20_000] == data(record, 20_000));
    }
}
