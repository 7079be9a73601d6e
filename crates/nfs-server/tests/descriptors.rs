//! Descriptors: when the server closes what it opened, and what it does when there are few.
//!
//! This process stands for a server that was started with `ulimit -n 1024`, so its tests run one after another.

mod support;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nfs_client::Nfs3;
use nfs_lab::Engine;
use nfs_lab::held_fs::HeldFs;
use nfs_lab::needs::{Need, missing};
use nfs_server::exports::config::EngineChoice;
use nfs_server::exports::policy::{IoPolicy, Mode};
use nfs_server::limits;
use nfs_wire::nfs3::{
    CommitArgs, CommitOk, DirOpArgs, FileHandle, Filename, LookupOk, Nfsstat3, Procedure,
    StableHow, WriteArgs, WriteOk,
};
use nfs_wire::{Decode, Decoder, Encode};
use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{Served, block_on, create, lookup, ok};
use tokio::task::JoinSet;

const DESCRIPTORS: u64 = 1024;
const MODES: [Mode; 3] = [Mode::Buffered, Mode::DontCache, Mode::Direct];
const ENGINES: [EngineChoice; 2] = [EngineChoice::Auto, EngineChoice::Threads];

/// Waits for the others and lowers the limit of descriptors.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let alone = ONE_AT_A_TIME.lock();
    let few = Rlimit {
        current: Some(DESCRIPTORS),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, few).unwrap();
    alone
}

fn served(mode: Mode, engine: EngineChoice) -> Served {
    Served::within(DESCRIPTORS, support::scratch(0o755), None, |config| {
        config.server.engine = engine;
        config.exports[0].io = IoPolicy {
            write: mode.into(),
            ..IoPolicy::default()
        };
    })
}

/// How many descriptors of this process, which is the server's, are open on the file and can write to it.
fn open_for_writing(path: &Path) -> usize {
    descriptors_of(|target| target == path)
        .filter(|flags| flags & 0o3 != 0)
        .count()
}

/// The flags of the descriptors on what is shown by such a path.
fn descriptors_of(is: impl Fn(&Path) -> bool) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    entries.filter_map(move |entry| {
        let entry = entry.unwrap();
        // Some close while we look.
        let target = std::fs::read_link(entry.path()).ok()?;
        if !is(&target) {
            return None;
        }
        let info = Path::new("/proc/self/fdinfo").join(entry.file_name());
        let info = std::fs::read_to_string(info).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        Some(u32::from_str_radix(flags.trim(), 8).unwrap())
    })
}

/// Polls until something has happened.
async fn until(what: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..600 {
        if happened() {
            return;
        }
        // SLEEP: a poll rests.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what}: not within half a minute");
}

async fn write(client: &Nfs3, file: &FileHandle, stable: StableHow, data: &[u8]) {
    let data = Bytes::from(data.to_vec());
    let len = data.len();
    let done = ok(client.write(file, 0, stable, data).await);
    assert_eq!(done.count as usize, len);
}

#[test]
fn a_file_is_not_open_for_writing_any_more_when_its_last_write_or_commit_is_answered() {
    let _alone = alone();
    for engine in ENGINES {
        for mode in MODES {
            let served = served(mode, engine);
            let path = served.path().join("f");
            block_on(async {
                let client = served.client().await;
                let root = served.root(&client).await;
                let file = create(&client, &root, b"f").await;
                let data = [7; 9000];
                write(&client, &file, StableHow::Unstable, &data).await;
                // The kernel tells of a lost write to who had the file open by then.
                assert!(open_for_writing(&path) > 0);
                write(&client, &file, StableHow::FileSync, b"other").await;
                assert!(open_for_writing(&path) > 0, "that one was not all");
                ok(client.commit(&file, 0, 0).await);
                assert_eq!(open_for_writing(&path), 0, "{mode:?} {engine:?} COMMIT");
                for stable in [StableHow::DataSync, StableHow::FileSync] {
                    write(&client, &file, stable, &data).await;
                    assert_eq!(open_for_writing(&path), 0, "{mode:?} {engine:?} {stable:?}");
                }
            });
        }
    }
}

#[test]
fn a_stream_of_stable_writes_is_opened_a_few_times_a_second_at_most_and_closed_at_its_end() {
    let _alone = alone();
    let served = served(Mode::Buffered, EngineChoice::Auto);
    let path = served.path().join("f");
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let (opened, swept) = (
            served.counter("file_cache_write_opens"),
            served.counter("file_cache_sweeps"),
        );
        for _ in 0..300 {
            write(&client, &file, StableHow::FileSync, b"data").await;
        }
        let opened = served.counter("file_cache_write_opens") - opened;
        let sweeps = 1 + served.counter("file_cache_sweeps") - swept;
        let most = sweeps * u64::from(limits::EARLY_CLOSES_PER_SWEEP_MAX + 1);
        assert!(opened <= most, "{opened} in {sweeps} sweeps");
        until("closed", || open_for_writing(&path) == 0).await;
        // Not because it left the cache: it is unused for a second or two, not for ten.
        assert!(served.counter("file_cache_objects") >= 2);
    });
}

#[test]
fn a_new_file_is_open_for_its_first_write_and_closed_where_none_comes() {
    const FILES: usize = 200;
    // Of those for files, which are half of them less 256, half are left for others; a new file has two.
    const OPEN_MAX: usize = (DESCRIPTORS as usize / 2 - 256) / 2 / 2 + 1;
    let _alone = alone();
    for engine in ENGINES {
        let served = served(Mode::Buffered, engine);
        let path = served.path().join("written");
        let opens = || served.counter("file_cache_write_opens");
        block_on(async {
            let client = served.client().await;
            let root = served.root(&client).await;
            let opened = opens();
            let file = create(&client, &root, b"written").await;
            write(&client, &file, StableHow::Unstable, b"data").await;
            assert_eq!(opens(), opened, "{engine:?}");
            ok(client.commit(&file, 0, 0).await);
            assert_eq!(open_for_writing(&path), 0, "{engine:?}");
            for number in 0..FILES {
                create(&client, &root, format!("n{number}").as_bytes()).await;
            }
            let open = || {
                let new = |target: &Path| target.starts_with(served.path());
                let open = descriptors_of(new);
                open.filter(|flags| flags & 0o3 != 0).count()
            };
            let many = open();
            assert!((1..=OPEN_MAX).contains(&many), "{engine:?} {many}");
            until("closed", || open() == 0).await;
        });
    }
}

#[test]
fn a_new_file_of_a_fuse_file_system_is_not_kept_open() {
    for need in [Need::Root, Need::Fuse] {
        if let Some(missing) = missing(need, Engine::Threads) {
            return nfs_lab::skipped(&missing);
        }
    }
    let _alone = alone();
    let files = support::scratch(0o755);
    let held = HeldFs::mount(files.path(), vec![]).unwrap();
    let served = Served::within(DESCRIPTORS, files, None, |_| {});
    let path = served.path().join("new");
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        create(&client, &root, b"new").await;
    });
    assert_eq!(open_for_writing(&path), 0);
    let kept = served.stop();
    drop(held);
    drop(kept);
}

#[test]
fn a_file_removed_on_the_host_is_let_go_before_it_is_idle_for_long() {
    let _alone = alone();
    let served = served(Mode::Buffered, EngineChoice::Auto);
    for name in ["kept", "removed"] {
        std::fs::write(served.path().join(name), name).unwrap();
    }
    let path = served.path().join("removed");
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        for name in [&b"kept"[..], b"removed"] {
            let file = lookup(&client, &root, name).await;
            ok(client.read(&file, 0, 10).await);
        }
        assert!(descriptors_of(|target| target == path).count() > 0);
        let ino = path.metadata().unwrap().ino();
        std::fs::remove_file(&path).unwrap();
        let is_it = |target: &Path| {
            let target = target.to_string_lossy();
            target.starts_with(&*path.to_string_lossy())
        };
        until("let go", || descriptors_of(is_it).count() == 0).await;
        assert!(
            served.counter("file_cache_objects") >= 2,
            "{ino}: others stay"
        );
        assert_eq!(served.counter("file_cache_removed_locally"), 1);
    });
}

/// Calls until the answer is another than NFS3ERR_JUKEBOX, which is counted. A server that gets on with its
/// work lets a call wait before it says that, and so says it to none very often.
async fn patiently<A: Encode + ?Sized, T: for<'a> Decode<'a>>(
    client: &Nfs3,
    procedure: Procedure,
    args: &A,
    come_again: &AtomicUsize,
) -> T {
    for _ in 0..300 {
        let results = client.call(procedure, args).await.unwrap();
        let mut decoder = Decoder::new(&results);
        let status = decoder.u32("status").unwrap();
        if status != Nfsstat3::Jukebox as u32 {
            assert_eq!(status, Nfsstat3::Ok as u32, "{procedure:?}");
            return T::decode(&mut decoder).unwrap();
        }
        come_again.fetch_add(1, Ordering::Relaxed);
        // SLEEP: what was told to come again does not come at once.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{procedure:?} is told to come again for ever");
}

/// LOOKUP and WRITE, UNSTABLE. The file, and what the WRITE answered.
async fn find_and_write(
    client: &Nfs3,
    dir: FileHandle,
    number: usize,
    come_again: &AtomicUsize,
) -> (FileHandle, WriteOk) {
    let name = format!("f{number}").into_bytes();
    let what = DirOpArgs {
        dir,
        name: Filename(&name),
    };
    let found: LookupOk = patiently(client, Procedure::Lookup, &what, come_again).await;
    let file = found.object;
    let data = content(number);
    let write = WriteArgs {
        file,
        offset: 0,
        count: data.len() as u32,
        stable: StableHow::Unstable,
        data: &data,
    };
    let wrote = patiently(client, Procedure::Write, &write, come_again).await;
    (file, wrote)
}

fn content(number: usize) -> Vec<u8> {
    format!("{number} ").repeat(900).into_bytes()
}

/// Every file is written, and none is committed before all are.
#[test]
fn many_files_can_be_written_unstable_with_few_descriptors() {
    const FILES: usize = 3000;
    const AT_ONCE: usize = 3000;
    const CLIENTS: usize = 32;
    let _alone = alone();
    for (engine, mode) in ENGINES.into_iter().zip([Mode::Buffered, Mode::Direct]) {
        let served = served(mode, engine);
        for number in 0..FILES {
            std::fs::write(served.path().join(format!("f{number}")), "").unwrap();
        }
        let come_again = Arc::new(AtomicUsize::new(0));
        block_on(async {
            let mut clients = Vec::new();
            for _ in 0..CLIENTS {
                clients.push(served.client().await);
            }
            let root = served.root(&clients[0]).await;
            let mut calls = JoinSet::new();
            let mut files = Vec::new();
            for number in 0..FILES {
                let client = clients[number % CLIENTS].clone();
                let come_again = Arc::clone(&come_again);
                if calls.len() == AT_ONCE {
                    files.push(calls.join_next().await.unwrap().unwrap());
                }
                calls
                    .spawn(async move { find_and_write(&client, root, number, &come_again).await });
            }
            files.extend(calls.join_all().await);
            let mut calls = JoinSet::new();
            for (number, (file, wrote)) in files.into_iter().enumerate() {
                let client = clients[number % CLIENTS].clone();
                let come_again = Arc::clone(&come_again);
                if calls.len() == AT_ONCE {
                    calls.join_next().await.unwrap().unwrap();
                }
                calls.spawn(async move {
                    let commit = CommitArgs {
                        file,
                        offset: 0,
                        count: 0,
                    };
                    let committed: CommitOk =
                        patiently(&client, Procedure::Commit, &commit, &come_again).await;
                    assert_eq!(committed.verf, wrote.verf, "nothing was lost");
                });
            }
            calls.join_all().await;
        });
        for number in 0..FILES {
            let held = std::fs::read(served.path().join(format!("f{number}"))).unwrap();
            assert!(held == content(number), "{number}");
        }
        assert_eq!(served.counter("verifier_changes"), 0);
        let come_again = come_again.load(Ordering::Relaxed);
        println!("{mode:?}, {engine:?}: told to come again {come_again} times");
        assert!(served.counter("file_cache_synced_for_room") > 0);
    }
}
