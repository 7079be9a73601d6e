//! What a file system refuses, and what fails in the middle of a READ or WRITE, in every segment.

mod support;

use bytes::Bytes;
use nfs_client::Nfs3;
use nfs_io::Errno;
use nfs_io::Mode;
use nfs_io::faults::{Call, Fault, Rule};
use nfs_server::exports::policy::IoPolicy;
use nfs_server::operate::control::IoStatus;
use nfs_wire::nfs3::{FileHandle, Nfsstat3, StableHow, WriteOk};
use support::{Served, block_on, create, ok, status};

/// A WRITE of this has all three segments: 1000..4096, 4096..20480, 20480..21000.
const OFFSET: u64 = 1000;
const LEN: usize = 20_000;
const PREFIX: u32 = 3096;
const MIDDLE: u32 = 16_384;
const REFUSALS: [Errno; 3] = [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOTBLK];
const STABILITIES: [StableHow; 3] = [
    StableHow::Unstable,
    StableHow::DataSync,
    StableHow::FileSync,
];

fn served(mode: Mode) -> Served {
    Served::with(|config| {
        config.exports[0].io = IoPolicy {
            read: mode.into(),
            write: mode.into(),
            // A fault is to meet the READ that it is meant for.
            read_ahead: 0,
            ..IoPolicy::default()
        };
    })
}

fn figures(served: &Served, operation: &str) -> IoStatus {
    let rows = served.server.status().io;
    let row = rows.into_iter().find(|row| row.operation == operation);
    row.unwrap_or_default()
}

/// May files here be opened with `O_DIRECT`, and is it known how? Else a direct plan has one segment.
fn has_direct(served: &Served) -> bool {
    let path = served.path().join("probe");
    let file = std::fs::File::create(path).unwrap();
    nfs_io::fs::statx(std::os::fd::AsFd::as_fd(&file))
        .unwrap()
        .dio_offset_align
        != 0
}

macro_rules! need_direct {
    ($served:expr) => {
        if !has_direct(&$served) {
            support::skip!("no direct I/O on the temporary directory");
        }
    };
}

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|at| 1 + (at % 199) as u8).collect()
}

/// A client, and an empty file in the root.
async fn new_file(served: &Served, name: &[u8]) -> (Nfs3, FileHandle) {
    let client = served.client().await;
    let root = served.root(&client).await;
    let file = create(&client, &root, name).await;
    (client, file)
}

async fn write(client: &Nfs3, file: &FileHandle, stable: StableHow) -> WriteOk {
    ok(client
        .write(file, OFFSET, stable, Bytes::from(data(LEN)))
        .await)
}

async fn assert_holds(client: &Nfs3, file: &FileHandle, written: usize) {
    let read = ok(client.read(file, OFFSET, LEN as u32 + 10).await);
    assert!(read.eof);
    assert!(read.data[..] == data(LEN)[..written]);
}

#[test]
fn a_refused_direct_write_goes_through_the_page_cache_and_is_not_tried_again() {
    for refusal in REFUSALS {
        let served = served(Mode::Direct);
        need_direct!(served);
        block_on(async {
            let (client, file) = new_file(&served, b"refused-write").await;
            let rule = Rule::new(Call::Write, Fault::Fail(refusal))
                .in_mode(Mode::Direct)
                .of_name(b"refused-write")
                .inject();
            for stable in STABILITIES {
                let done = write(&client, &file, stable).await;
                assert_eq!((done.count as usize, done.committed), (LEN, stable));
            }
            assert_eq!(rule.hits(), 1, "it is remembered");
            drop(rule);
            assert_holds(&client, &file, LEN).await;
        });
        let row = figures(&served, "write");
        assert_eq!((row.calls, row.bytes), (3, 3 * LEN as u64));
        assert_eq!(row.segments, 3 + 1 + 1, "only the first was cut");
        assert_eq!(row.moved_bytes.get("direct"), None);
        assert_eq!(row.fallbacks["refused-direct"], 3);
    }
}

#[test]
fn a_refused_direct_read_is_answered_from_the_page_cache_and_is_not_tried_again() {
    for refusal in REFUSALS {
        let served = served(Mode::Direct);
        need_direct!(served);
        block_on(async {
            let (client, file) = new_file(&served, b"refused-read").await;
            write(&client, &file, StableHow::Unstable).await;
            let rule = Rule::new(Call::Read, Fault::Fail(refusal))
                .in_mode(Mode::Direct)
                .of_name(b"refused-read")
                .inject();
            assert_holds(&client, &file, LEN).await;
            assert_holds(&client, &file, LEN).await;
            assert_eq!(rule.hits(), 1);
        });
        let row = figures(&served, "read");
        assert_eq!((row.calls, row.bytes), (2, 2 * LEN as u64));
        assert_eq!(row.moved_bytes["buffered"], 2 * LEN as u64);
        assert_eq!(row.fallbacks["refused-direct"], 2);
    }
}

#[test]
fn a_file_that_cannot_be_opened_for_direct_io_is_served_all_the_same() {
    let served = served(Mode::Direct);
    need_direct!(served);
    block_on(async {
        let (client, file) = new_file(&served, b"refused-open").await;
        let rule = Rule::new(Call::OpenDirect, Fault::Fail(Errno::INVAL))
            .of_name(b"refused-open")
            .inject();
        for _ in 0..2 {
            write(&client, &file, StableHow::Unstable).await;
            assert_holds(&client, &file, LEN).await;
        }
        assert_eq!(rule.hits(), 2, "once to write, once to read");
    });
    for operation in ["read", "write"] {
        let row = figures(&served, operation);
        assert_eq!(row.moved_bytes.get("direct"), None);
        // The second call asks no more, and no transfer was ever tried.
        assert_eq!(row.fallbacks, [("open-refused".to_owned(), 2)].into());
    }
}

#[test]
fn a_file_system_without_dontcache_is_served_all_the_same() {
    let served = served(Mode::DontCache);
    block_on(async {
        let (client, file) = new_file(&served, b"refused-dontcache").await;
        let rules = [Call::Write, Call::Read].map(|call| {
            Rule::new(call, Fault::Fail(Errno::OPNOTSUPP))
                .in_mode(Mode::DontCache)
                .of_name(b"refused-dontcache")
                .inject()
        });
        for stable in STABILITIES {
            write(&client, &file, stable).await;
            assert_holds(&client, &file, LEN).await;
        }
        // A refused write tells of reads too.
        assert_eq!(rules.map(|rule| rule.hits()), [1, 0]);
    });
    for operation in ["read", "write"] {
        let row = figures(&served, operation);
        assert_eq!(row.moved_bytes["buffered"], 3 * LEN as u64);
        assert_eq!(row.fallbacks["refused-dontcache"], 3);
    }
}

#[test]
fn a_full_disk_behind_the_first_segment_makes_a_short_write() {
    for stable in STABILITIES {
        for (nth, written) in [(1, 0), (2, PREFIX), (3, PREFIX + MIDDLE)] {
            let served = served(Mode::Direct);
            need_direct!(served);
            block_on(async {
                let (client, file) = new_file(&served, b"full").await;
                let rule = Rule::new(Call::Write, Fault::Fail(Errno::NOSPC))
                    .of_name(b"full")
                    .from(nth)
                    .inject();
                let outcome = client
                    .write(&file, OFFSET, stable, Bytes::from(data(LEN)))
                    .await;
                assert_eq!(rule.hits(), 1);
                drop(rule);
                if written == 0 {
                    assert_eq!(status(outcome), Nfsstat3::Nospc);
                } else {
                    let done = ok(outcome);
                    assert_eq!((done.count, done.committed), (written, stable));
                    assert_holds(&client, &file, written as usize).await;
                }
                write(&client, &file, stable).await;
                assert_holds(&client, &file, LEN).await;
            });
        }
    }
}

#[test]
fn a_failing_disk_in_any_segment_is_told_and_changes_the_verifier() {
    for stable in STABILITIES {
        for nth in 1..=3 {
            let served = served(Mode::Direct);
            need_direct!(served);
            block_on(async {
                let (client, file) = new_file(&served, b"failing").await;
                let before = write(&client, &file, StableHow::Unstable).await;
                let rule = Rule::new(Call::Write, Fault::Fail(Errno::IO))
                    .of_name(b"failing")
                    .from(nth)
                    .times(1)
                    .inject();
                let outcome = client
                    .write(&file, OFFSET, stable, Bytes::from(data(LEN)))
                    .await;
                assert_eq!(status(outcome), Nfsstat3::Io, "{stable:?} {nth}");
                assert_eq!(rule.hits(), 1);
                let after = write(&client, &file, stable).await;
                assert_ne!(after.verf, before.verf);
            });
        }
    }
}

#[test]
fn a_failed_sync_at_the_end_of_a_write_fails_it_and_is_told_to_the_others() {
    for stable in [StableHow::DataSync, StableHow::FileSync] {
        let served = served(Mode::Direct);
        need_direct!(served);
        block_on(async {
            let (client, file) = new_file(&served, b"unsynced").await;
            let before = write(&client, &file, StableHow::Unstable).await;
            let rule = Rule::new(Call::Fsync, Fault::Fail(Errno::IO))
                .of_name(b"unsynced")
                .times(1)
                .inject();
            let outcome = client
                .write(&file, OFFSET, stable, Bytes::from(data(LEN)))
                .await;
            assert_eq!(status(outcome), Nfsstat3::Io);
            assert_eq!(rule.hits(), 1);
            // What was unstable may be lost: said once, and sent again.
            assert_eq!(status(client.commit(&file, 0, 0).await), Nfsstat3::Io);
            let committed = ok(client.commit(&file, 0, 0).await);
            assert_ne!(committed.verf, before.verf);
            let again = write(&client, &file, stable).await;
            assert_eq!((again.count as usize, again.verf), (LEN, committed.verf));
        });
    }
}

#[test]
fn short_transfers_are_finished_or_told() {
    for shorten in [512, 4096, 5000, 10_000] {
        let served = served(Mode::Direct);
        need_direct!(served);
        block_on(async {
            let (client, file) = new_file(&served, b"short").await;
            let rule = Rule::new(Call::Write, Fault::Shorten(shorten))
                .of_name(b"short")
                .inject();
            let mut done = 0;
            while done < LEN {
                let rest = Bytes::from(data(LEN)[done..].to_vec());
                let offset = OFFSET + done as u64;
                let written = ok(client.write(&file, offset, StableHow::Unstable, rest).await);
                assert!(written.count > 0);
                done += written.count as usize;
            }
            assert!(rule.hits() > 0);
            drop(rule);
            assert_holds(&client, &file, LEN).await;
            let rule = Rule::new(Call::Read, Fault::Shorten(shorten))
                .of_name(b"short")
                .inject();
            let mut read = Vec::new();
            let mut eof = false;
            while !eof {
                let part = ok(client
                    .read(&file, OFFSET + read.len() as u64, LEN as u32)
                    .await);
                assert!(part.eof || !part.data.is_empty());
                read.extend_from_slice(&part.data);
                eof = part.eof;
            }
            assert!(rule.hits() > 0);
            assert!(read == data(LEN), "{shorten}");
        });
    }
}

#[test]
fn a_failed_direct_read_is_tried_through_the_page_cache_once() {
    let served = served(Mode::Direct);
    need_direct!(served);
    block_on(async {
        let (client, file) = new_file(&served, b"collided").await;
        write(&client, &file, StableHow::Unstable).await;
        let rule = Rule::new(Call::Read, Fault::Fail(Errno::IO))
            .of_name(b"collided")
            .times(1)
            .inject();
        assert_holds(&client, &file, LEN).await;
        assert_eq!(rule.hits(), 1);
        drop(rule);
        assert_holds(&client, &file, LEN).await;
        let rule = Rule::new(Call::Read, Fault::Fail(Errno::IO))
            .of_name(b"collided")
            .inject();
        let outcome = client.read(&file, OFFSET, LEN as u32).await;
        assert_eq!(status(outcome), Nfsstat3::Io);
        assert_eq!(rule.hits(), 2);
    });
    let row = figures(&served, "read");
    assert_eq!(row.fallbacks["direct-failed"], 2);
    assert!(row.moved_bytes["direct"] > LEN as u64, "rounded out");
}
