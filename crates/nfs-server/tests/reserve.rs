//! Space taken ahead of streams of WRITEs, and given back: on XFS and ext4 of our own, with both engines.

mod support;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nfs_client::{Identity, Nfs3};
use nfs_io::Errno;
use nfs_io::faults::{Call, Fault, Rule};
use nfs_lab::{FsKind, LoopFs};
use nfs_server::exports::config::{EngineChoice, ExportConfig, SquashKind};
use nfs_server::exports::policy::{IoPolicy, Mode};
use nfs_server::limits::RESERVE_BYTES_MAX;
use nfs_wire::nfs3::{FileHandle, Nfsstat3, Sattr3, StableHow, WccData};
use rustix::process::Signal;
use support::process::{Starting, as_server};
use support::{Served, block_on, connect, create, lookup, mount, ok, process};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
const ENGINES: [EngineChoice; 2] = [EngineChoice::Auto, EngineChoice::Threads];
const KINDS: [FsKind; 2] = [FsKind::Xfs, FsKind::Ext4];
/// What a file system may have beyond the end of a file for reasons of its own: a block at the end, and blocks
/// of the map of extents.
const SLACK: u64 = 64 << 10;

/// A file system of our own, in which directories are served.
struct Place {
    // Unmounted before the mount point goes.
    volume: LoopFs,
    _mounts: TempDir,
}

impl Place {
    /// `None` where this process may not mount.
    fn new(kind: FsKind, size_mib: u32) -> Option<Self> {
        if !support::is_root() {
            return None;
        }
        let mounts = support::scratch(0o755);
        let volume = LoopFs::new(kind, size_mib, &mounts.path().join("volume")).unwrap();
        Some(Self {
            volume,
            _mounts: mounts,
        })
    }

    fn directory(&self) -> TempDir {
        tempfile::Builder::new()
            .prefix("served-")
            .tempdir_in(self.volume.point())
            .unwrap()
    }

    fn serve(&self, engine: EngineChoice, policy: IoPolicy) -> Served {
        Served::over(self.directory(), None, |config| {
            config.server.engine = engine;
            config.exports[0].io = policy;
        })
    }
}

macro_rules! place {
    ($kind:expr) => {
        match Place::new($kind, 320) {
            Some(place) => place,
            None => support::skip!("a file system of our own needs root"),
        }
    };
}

fn reserving(write: Mode) -> IoPolicy {
    IoPolicy {
        write: write.into(),
        reserve: true,
        ..IoPolicy::default()
    }
}

/// Bytes of the blocks that a file has.
fn held(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().blocks() * 512
}

fn beyond(path: &Path) -> u64 {
    held(path).saturating_sub(std::fs::metadata(path).unwrap().len())
}

/// Polls until something has happened.
async fn until(what: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if happened() {
            return;
        }
        // SLEEP: a poll rests.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what}: not within a minute");
}

fn piece(number: u64) -> Bytes {
    let bytes = (0..MIB).map(|at| (1 + number * 7 + at % 199) as u8);
    bytes.collect::<Vec<u8>>().into()
}

/// Writes the pieces of these numbers, each 1 MiB, one after the other.
async fn stream(
    client: &Nfs3,
    file: &FileHandle,
    pieces: impl IntoIterator<Item = u64>,
) -> WccData {
    let mut last = WccData::default();
    for number in pieces {
        let write = client.write(file, number * MIB, StableHow::Unstable, piece(number));
        let done = ok(write.await);
        assert_eq!(u64::from(done.count), MIB);
        last = done.file_wcc;
    }
    last
}

fn assert_has(path: &Path, pieces: u64) {
    let file = File::open(path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), pieces * MIB);
    for number in 0..pieces {
        let mut read = vec![0; MIB as usize];
        file.read_exact_at(&mut read, number * MIB).unwrap();
        assert!(read[..] == piece(number)[..], "piece {number}");
    }
}

async fn new_file(served: &Served) -> (Nfs3, FileHandle, PathBuf) {
    let client = served.client().await;
    let root = served.root(&client).await;
    let file = create(&client, &root, b"f").await;
    (client, file, served.path().join("f"))
}

#[test]
fn a_stream_has_space_ahead_until_its_commit_and_nothing_else_of_it_changes() {
    for kind in KINDS {
        let place = place!(kind);
        for engine in ENGINES {
            for mode in [Mode::Buffered, Mode::DontCache, Mode::Direct] {
                let what = format!("{kind:?} {engine:?} {mode:?}");
                let served = place.serve(engine, reserving(mode));
                block_on(async {
                    let (client, file, path) = new_file(&served).await;
                    let sweeps = served.counter("file_cache_sweeps");
                    let written = stream(&client, &file, 0..3).await;
                    let written = written.after.unwrap();
                    let ahead = beyond(&path);
                    let commit = ok(client.commit(&file, 0, 0).await).file_wcc;
                    let swept = served.counter("file_cache_sweeps") - sweeps;
                    // Given back before the reply, or where something held it up a moment later, by the sweep.
                    until(&what, || served.counter("reserve_given_back") >= 1).await;
                    assert!(beyond(&path) <= SLACK, "{what}: {}", beyond(&path));
                    assert!(served.counter("reserve_taken") >= 1, "{what}");
                    let after = ok(client.getattr(&file).await).obj_attributes;
                    assert_eq!(after.mtime, written.mtime, "{what}");
                    // On a machine that stood still meanwhile the stream was idle for long enough.
                    if swept < 2 {
                        assert!(ahead >= MIB, "{what}: {ahead}");
                        // Between the last WRITE and the COMMIT the client sees no change but its own.
                        let before = commit.before.unwrap();
                        assert_eq!((before.mtime, before.ctime), (written.mtime, written.ctime));
                    }
                    assert_has(&path, 3);
                });
            }
        }
    }
}

#[test]
fn a_small_file_and_one_that_is_overwritten_have_nothing_taken() {
    let served = Served::with(|config| config.exports[0].io = reserving(Mode::Buffered));
    block_on(async {
        let (client, file, _path) = new_file(&served).await;
        stream(&client, &file, 0..1).await;
        ok(client.commit(&file, 0, 0).await);
        assert_eq!(served.counter("reserve_taken"), 0);
        // Stable ones do neither.
        for number in 1..5 {
            let write = client.write(&file, number * MIB, StableHow::FileSync, piece(number));
            ok(write.await);
        }
        for _ in 0..3 {
            stream(&client, &file, 0..5).await;
        }
        assert_eq!(served.counter("reserve_taken"), 0);
    });
}

#[test]
fn what_was_taken_between_pieces_that_never_came_is_given_back_too() {
    for kind in KINDS {
        let place = place!(kind);
        let served = place.serve(EngineChoice::Auto, reserving(Mode::Direct));
        block_on(async {
            let (client, file, path) = new_file(&served).await;
            stream(&client, &file, [7, 3]).await;
            assert_eq!(served.counter("reserve_taken"), 1, "{kind:?}");
            ok(client.commit(&file, 0, 0).await);
            until("given back", || served.counter("reserve_given_back") >= 1).await;
            assert!(held(&path) <= 2 * MIB + SLACK, "{kind:?}: {}", held(&path));
            let read = |number: u64| {
                let mut read = vec![1; MIB as usize];
                let file = File::open(&path).unwrap();
                file.read_exact_at(&mut read, number * MIB).unwrap();
                read
            };
            for number in [0, 1, 2, 4, 5, 6] {
                assert!(read(number) == vec![0; MIB as usize], "{kind:?} {number}");
            }
            assert!(read(3)[..] == piece(3)[..] && read(7)[..] == piece(7)[..]);
        });
    }
}

#[test]
fn space_is_given_back_when_the_stream_is_idle_and_when_the_server_ends() {
    for kind in KINDS {
        let place = place!(kind);
        for engine in ENGINES {
            let served = place.serve(engine, reserving(Mode::Buffered));
            let path = served.path().join("f");
            block_on(async {
                let (client, file, path) = new_file(&served).await;
                stream(&client, &file, 0..3).await;
                until("idle", || served.counter("reserve_given_back") >= 1).await;
                assert!(beyond(&path) <= SLACK, "{kind:?} {engine:?}");
                stream(&client, &file, 3..6).await;
                let taken = served.counter("reserve_taken");
                assert!(taken >= 2, "it goes on as it began: {taken}");
            });
            let (files, _state) = served.stop();
            assert!(files.path().exists());
            assert!(beyond(&path) <= SLACK, "{kind:?} {engine:?}: at the end");
            assert_has(&path, 6);
        }
    }
}

#[test]
fn be_the_server() {
    let export = |export: &mut ExportConfig| {
        export.io = reserving(Mode::Direct);
        for client in &mut export.clients {
            client.squash = SquashKind::None;
        }
    };
    process::be_the_server(export, |_server| {});
}

#[test]
fn what_a_killed_server_left_is_bounded_and_goes_with_the_next_stream() {
    for kind in KINDS {
        let place = place!(kind);
        let (files, state) = (place.directory(), support::scratch(0o700));
        let mut command = Command::new(std::env::current_exe().unwrap());
        let starting = Starting::new(as_server(&mut command, files.path(), state.path()));
        let (mut server, addr, _said) = starting.until_it_listens();
        let path = files.path().join("f");
        block_on(async {
            let client = connect(addr, Identity::sys(0, 0, &[])).await;
            let root = mount(&client, b"/").await.unwrap();
            let file = create(&client, &root, b"f").await;
            // While it is open here too, nothing is given back.
            let open = File::open(&path).unwrap();
            stream(&client, &file, 0..3).await;
            server.signal(Signal::KILL);
            server.wait(Duration::from_secs(60)).unwrap();
            drop(open);
        });
        let left = beyond(&path);
        assert!(
            (MIB..=RESERVE_BYTES_MAX).contains(&left),
            "{kind:?}: {left}"
        );
        let served = Served::over(files, Some(state), |config| {
            config.exports[0].io = reserving(Mode::Direct);
        });
        block_on(async {
            let client = served.client().await;
            let root = served.root(&client).await;
            let file = lookup(&client, &root, b"f").await;
            stream(&client, &file, 3..6).await;
            ok(client.commit(&file, 0, 0).await);
            until("given back", || served.counter("reserve_given_back") >= 1).await;
        });
        assert!(beyond(&path) <= SLACK, "{kind:?}: {}", beyond(&path));
        assert_has(&path, 6);
    }
}

#[test]
fn while_a_local_program_has_the_file_open_it_is_left_alone() {
    let place = place!(FsKind::Xfs);
    let served = place.serve(EngineChoice::Auto, reserving(Mode::Buffered));
    block_on(async {
        let (client, file, path) = new_file(&served).await;
        // Open before anything is taken: the sweep cannot be faster.
        let mut local = OpenOptions::new().append(true).open(&path).unwrap();
        stream(&client, &file, 0..3).await;
        ok(client.commit(&file, 0, 0).await);
        let sweeps = served.counter("file_cache_sweeps");
        until("sweeps", || {
            served.counter("file_cache_sweeps") > sweeps + 2
        })
        .await;
        assert_eq!(served.counter("reserve_given_back"), 0);
        local.write_all(b"appended").unwrap();
        drop(local);
        until("closed", || served.counter("reserve_given_back") >= 1).await;
        let content = std::fs::read(&path).unwrap();
        assert_eq!(
            (content.len() as u64, &content[3 * MIB as usize..]),
            (3 * MIB + 8, &b"appended"[..])
        );
    });
}

/// The bytes that somebody appends on the server's host while space is given back are not cut off.
#[test]
fn local_appends_beside_the_giving_back_lose_nothing() {
    // Without the lease some of so many are lost; of 300, often none.
    const APPENDS: usize = 5000;
    for kind in KINDS {
        let place = place!(kind);
        let path = place.volume.point().join("log");
        let file = File::create(&path).unwrap();
        drop(file);
        let over = AtomicBool::new(false);
        let mut given = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..APPENDS {
                    // Waits while a lease is held, and gets on when it is given up.
                    let mut log = OpenOptions::new().append(true).open(&path).unwrap();
                    writeln!(log, "{number:06}").unwrap();
                }
                over.store(true, Ordering::Release);
            });
            while !over.load(Ordering::Acquire) || given == 0 {
                let file = OpenOptions::new().write(true).open(&path).unwrap();
                if given % 16 == 0 {
                    nfs_io::fs::allocate_ahead(file.as_fd(), 0, MIB).unwrap();
                }
                match nfs_io::fs::give_back(file.as_fd(), &[]) {
                    Ok(()) => given += 1,
                    Err(error) => assert_eq!(error, Errno::AGAIN, "the other has it open"),
                }
            }
        });
        let lines = std::fs::read_to_string(&path).unwrap();
        let expected: String = (0..APPENDS)
            .map(|number| format!("{number:06}\n"))
            .collect();
        assert!(
            lines == expected,
            "{kind:?}: {} of {APPENDS} lines",
            lines.lines().count()
        );
    }
}

#[test]
fn giving_back_leaves_bytes_length_and_mtime_and_all_that_is_data() {
    for kind in KINDS {
        let place = place!(kind);
        let path = place.volume.point().join("f");
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        nfs_io::fs::allocate_ahead(file.as_fd(), 0, 8 * MIB).unwrap();
        file.write_all_at(&[7; 5000], 2 * MIB + 100).unwrap();
        file.set_len(4 * MIB + 10).unwrap();
        let before = std::fs::metadata(&path).unwrap();
        nfs_io::fs::give_back(file.as_fd(), &[(0, 3 * MIB), (3 * MIB, 9 * MIB)]).unwrap();
        let after = std::fs::metadata(&path).unwrap();
        assert_eq!(before.len(), after.len());
        assert_eq!(
            before.modified().unwrap(),
            after.modified().unwrap(),
            "{kind:?}"
        );
        assert!(
            after.blocks() * 512 <= SLACK,
            "{kind:?}: {}",
            after.blocks()
        );
        let content = std::fs::read(&path).unwrap();
        let written = 2 * MIB as usize + 100;
        assert!(content[written..written + 5000] == [7; 5000]);
        assert_eq!(content.iter().filter(|byte| **byte != 0).count(), 5000);
    }
}

#[test]
fn a_truncation_gives_back_and_the_next_stream_begins_anew() {
    let place = place!(FsKind::Xfs);
    let served = place.serve(EngineChoice::Auto, reserving(Mode::Buffered));
    block_on(async {
        let (client, file, path) = new_file(&served).await;
        for round in 1..4 {
            stream(&client, &file, 0..2).await;
            assert_eq!(served.counter("reserve_taken"), round);
            let cut = Sattr3 {
                size: Some(0),
                ..Sattr3::default()
            };
            ok(client.setattr(&file, &cut, None).await);
            assert!(held(&path) <= SLACK, "round {round}");
        }
    });
}

#[test]
fn where_no_space_can_be_taken_writes_go_on_and_the_reason_is_counted() {
    for (errno, counter) in [
        (Errno::OPNOTSUPP, "reserve_refused_unsupported"),
        (Errno::NOSPC, "reserve_refused_full"),
        (Errno::DQUOT, "reserve_refused_full"),
        (Errno::IO, "reserve_refused_failed"),
    ] {
        for engine in ENGINES {
            let served = Served::with(|config| {
                config.server.engine = engine;
                config.exports[0].io = reserving(Mode::Buffered);
            });
            block_on(async {
                let client = served.client().await;
                let root = served.root(&client).await;
                let file = create(&client, &root, b"refused-space").await;
                let rule = Rule::new(Call::Allocate, Fault::Fail(errno))
                    .of_name(b"refused-space")
                    .inject();
                stream(&client, &file, 0..6).await;
                ok(client.commit(&file, 0, 0).await);
                assert_eq!(rule.hits(), 1, "{errno}: it is not asked for at each WRITE");
                assert_eq!(served.counter(counter), 1, "{errno}");
                assert_eq!(served.counter("reserve_taken"), 0, "{errno}");
            });
            assert_has(&served.path().join("refused-space"), 6);
        }
    }
}

/// How many bytes two files of a small disk take, written in turn, until both are refused.
async fn fill(served: &Served) -> u64 {
    let client = served.client().await;
    let root = served.root(&client).await;
    for name in [&b"a"[..], b"b"] {
        create(&client, &root, name).await;
    }
    let mut files = Vec::new();
    for name in [&b"a"[..], b"b"] {
        files.push((lookup(&client, &root, name).await, 0, false));
    }
    while files.iter().any(|(_, _, full)| !full) {
        for (file, at, full) in &mut files {
            if *full {
                continue;
            }
            let data = Bytes::from(vec![7; 256 << 10]);
            match client
                .write(file, *at, StableHow::Unstable, data)
                .await
                .unwrap()
            {
                Ok(done) => *at += u64::from(done.count),
                Err(failure) => {
                    assert_eq!(failure.status, Nfsstat3::Nospc);
                    *full = true;
                }
            }
        }
    }
    for (file, ..) in &files {
        ok(client.commit(file, 0, 0).await);
    }
    files.iter().map(|(_, at, _)| at).sum()
}

#[test]
fn a_disk_takes_as_much_as_without_and_nothing_is_held_when_it_is_full() {
    let fill_with = |reserve| {
        let place = Place::new(FsKind::Ext4, 320)?;
        let policy = IoPolicy {
            reserve,
            ..reserving(Mode::Direct)
        };
        let served = place.serve(EngineChoice::Auto, policy);
        let filled = block_on(fill(&served));
        if reserve {
            assert!(served.counter("reserve_taken") > 0);
            assert!(served.counter("reserve_refused_nearly_full") > 0);
        }
        drop(served);
        Some(filled)
    };
    let (Some(without), Some(with)) = (fill_with(false), fill_with(true)) else {
        support::skip!("a file system of our own needs root");
    };
    assert!(with + MIB >= without, "{with} with, {without} without");
}
