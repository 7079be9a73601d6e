//! What a file system refuses, and what fails in the middle of a READ or WRITE, in every segment.

mod support;

use bytes::Bytes;
use nfs_client::{Nfs3, RawConnection};
use nfs_io::Errno;
use nfs_io::Mode;
use nfs_io::faults::{Call, Fault, Injected, Rule};
use nfs_server::exports::policy::IoPolicy;
use nfs_server::limits;
use nfs_server::operate::control::IoStatus;
use nfs_wire::nfs3::{FileHandle, GetattrArgs, Nfsstat3, Procedure, StableHow, WriteArgs, WriteOk};
use support::wire::{answer, record};
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

/// Stable WRITEs that are sent at once, over a connection that is read far ahead. Says how many went well, and how many
/// ended with EIO.
async fn write_together(served: &Served, file: FileHandle, stable: StableHow) -> (usize, usize) {
    const BYTES: usize = 512;
    let mut raw = RawConnection::connect(served.addr).await.unwrap();
    let next = async |raw: &mut RawConnection| {
        let reply = raw.receive_record().await.unwrap().unwrap();
        answer(&reply)
    };
    // Small calls have the server read many at once.
    for xid in 0..4 {
        let getattr = GetattrArgs { object: file };
        let getattr = record(xid, Procedure::Getattr, &getattr);
        raw.send(&getattr).await.unwrap();
        assert_eq!(next(&mut raw).await, (xid, Nfsstat3::Ok));
    }
    let mut all = Vec::new();
    for number in 0..TOGETHER as u32 {
        let args = WriteArgs {
            file,
            offset: u64::from(number) * BYTES as u64,
            count: BYTES as u32,
            stable,
            data: &data(BYTES),
        };
        all.extend(record(100 + number, Procedure::Write, &args));
    }
    raw.send(&all).await.unwrap();
    let (mut well, mut failed) = (0, 0);
    for _ in 0..TOGETHER {
        match next(&mut raw).await.1 {
            Nfsstat3::Ok => well += 1,
            Nfsstat3::Io => failed += 1,
            other => panic!("{other:?}"),
        }
    }
    (well, failed)
}

/// So many that most of them find as many under way as are synced together, though they be read in two pieces.
const TOGETHER: usize = 40;

/// Sends stable WRITEs at once, again and again, until some of them were synced together; says how the last ones ended,
/// and how many flushes there were. A disk that is faster than the event loop lets few of them be under way at a time.
async fn write_until_synced_together(
    served: &Served,
    file: FileHandle,
    stable: StableHow,
    flushes: &Injected,
) -> ((usize, usize), usize) {
    for _ in 0..1000 {
        let ended = write_together(served, file, stable).await;
        match flushes.hits() {
            0 => assert_eq!(ended, (TOGETHER, 0)),
            hits => return (ended, hits as usize),
        }
    }
    panic!("of 1000 times no stable WRITEs were synced together");
}

#[test]
fn stable_writes_that_come_together_are_synced_together_and_fail_with_their_sync() {
    for stable in [StableHow::DataSync, StableHow::FileSync] {
        let served = served(Mode::Buffered);
        if !served.server.status().engine.starts_with("io_uring") {
            support::skip!("no io_uring: each stable WRITE has a thread that syncs it");
        }
        block_on(async {
            let (client, file) = new_file(&served, b"together").await;
            // Nothing is shortened of a flush: they are counted.
            let counted = Rule::new(Call::Fsync, Fault::Shorten(1)).of_name(b"together");
            let counted = counted.inject();
            let (ended, syncs) = write_until_synced_together(&served, file, stable, &counted).await;
            assert_eq!(ended, (TOGETHER, 0));
            let most = TOGETHER - limits::SYNCED_WITH_OTHERS_WRITES_MIN;
            assert!(syncs <= most, "{syncs}");
            drop(counted);
            let before = ok(client.commit(&file, 0, 0).await).verf;

            let rule = Rule::new(Call::Fsync, Fault::Fail(Errno::IO)).of_name(b"together");
            let rule = rule.inject();
            let ((_, failed), syncs) =
                write_until_synced_together(&served, file, stable, &rule).await;
            // A round that failed failed for all of it, and nothing but rounds did.
            assert!(syncs <= failed, "{syncs} of {failed}");
            drop(rule);
            // Whoever wrote is told once more by COMMIT, and sees another verifier.
            assert_eq!(status(client.commit(&file, 0, 0).await), Nfsstat3::Io);
            assert_ne!(ok(client.commit(&file, 0, 0).await).verf, before);
            assert_eq!(write_together(&served, file, stable).await, (TOGETHER, 0));
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
