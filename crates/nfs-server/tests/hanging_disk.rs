//! A disk that has stopped to answer reads: what other calls get meanwhile, on the same thread of the server.

mod support;

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use nfs_lab::held_fs::{self, HeldFs};
use nfs_lab::needs::{Need, missing};
use nfs_lab::{Engine, FsKind, LoopFs};
use nfs_server::exports::policy::{IoPolicy, Mode};
use nfs_wire::nfs3::StableHow;
use support::wire::DEADLINE;
use support::{Served, block_on, lookup, ok, scratch, skip};
use tempfile::TempDir;
use tokio::time::timeout;

const NAME: &str = "pieces";
/// Bytes of a piece of the file, and of the hole behind it.
const PIECE: u64 = 4096;
/// Pieces of the file: their map takes several blocks of its own on every file system.
const PIECES: u64 = 4096;
/// Which piece is read.
const READ: u64 = PIECES / 2;

/// A file in one piece.
const WHOLE: &str = "whole";
const WHOLE_BYTES: u64 = 16 << 20;
/// What is read of it first, and so cached.
const CACHED_BYTES: u32 = 64 << 10;
/// Bytes of a READ of it that a helper thread makes, as its data is sent from the page cache.
const LARGE_BYTES: u32 = 512 << 10;

/// A file system with a file in many pieces and one in one, of which nothing but names and attributes is in memory; on
/// a disk that can stop to answer reads.
struct HangingDisk {
    volume: LoopFs,
    disk: HeldFs,
    _place: TempDir,
}

/// Has the disk answer again when it is dropped: before the server ends, which may wait for it.
struct Answers<'d>(&'d HangingDisk);

impl Drop for Answers<'_> {
    fn drop(&mut self) {
        self.0.disk.let_all_go();
    }
}

impl HangingDisk {
    fn new(kind: FsKind, size_mib: u32) -> Self {
        let place = scratch(0o755);
        let [made, served, disk] = ["made", "served", "disk"].map(|name| place.path().join(name));
        let content = {
            let mut volume = LoopFs::new(kind, size_mib, &made).unwrap();
            write_pieces(&made.join(NAME));
            let whole = File::create_new(made.join(WHOLE)).unwrap();
            whole.write_all_at(&[1; WHOLE_BYTES as usize], 0).unwrap();
            whole.sync_all().unwrap();
            drop(whole);
            volume.unmount().unwrap();
            std::fs::read(volume.image()).unwrap()
        };
        std::fs::create_dir(&disk).unwrap();
        let held = HeldFs::mount(&disk, content).unwrap();
        let volume = LoopFs::of_image(&disk.join(held_fs::FILE), &served).unwrap();
        Self {
            volume,
            disk: held,
            _place: place,
        }
    }
}

fn byte_of(piece: u64) -> u8 {
    1 + (piece % 251) as u8
}

fn write_pieces(path: &Path) {
    let file = File::create_new(path).unwrap();
    for piece in 0..PIECES {
        let data = [byte_of(piece); PIECE as usize];
        file.write_all_at(&data, piece * 2 * PIECE).unwrap();
    }
    file.sync_all().unwrap();
}

/// How READs are moved: their mode, and whether large ones are sent from the page cache.
type Way = (Mode, bool);

/// A server of this disk that reads in this way.
fn serve(disk: &HangingDisk, (mode, splice): Way) -> Served {
    Served::with(|config| {
        let export = &mut config.exports[0];
        export.path = disk.volume.point().to_owned();
        export.io = IoPolicy {
            read: mode.into(),
            splice,
            ..IoPolicy::default()
        };
    })
}

/// A READ of the file is not answered; another client's calls are.
fn others_go_on(kind: FsKind, size_mib: u32, way: Way) {
    let disk = HangingDisk::new(kind, size_mib);
    let served = serve(&disk, way);
    let _answers = Answers(&disk);
    block_on(async {
        let [reader, other] = [served.client().await, served.client().await];
        let root = served.root(&reader).await;
        let file = lookup(&reader, &root, NAME.as_bytes()).await;
        disk.disk.hold_reads();
        let reading = reader.read(&file, READ * 2 * PIECE, PIECE as u32);
        let others = async {
            disk.disk.wait_for_one().await.unwrap();
            for _ in 0..3 {
                let answer = timeout(DEADLINE, other.getattr(&root)).await;
                ok(answer.unwrap_or_else(|_| panic!("{kind:?}, {way:?}: the READ holds others")));
            }
            assert_eq!(served.counter("calls_running"), 1, "the READ");
            disk.disk.let_all_go();
        };
        let (read, ()) = tokio::join!(reading, others);
        let data = ok(read).data;
        assert_eq!(data.len() as u64, PIECE);
        assert!(data.iter().all(|byte| *byte == byte_of(READ)));
    });
}

/// A WRITE of a part of a page waits for the rest of it, and on XFS keeps every other call from the file meanwhile. A
/// READ of what is cached of the file may have to wait then; another client's calls do not.
fn others_go_on_beside_a_write_that_waits(kind: FsKind, size_mib: u32, way: Way) {
    let disk = HangingDisk::new(kind, size_mib);
    let served = serve(&disk, way);
    let _answers = Answers(&disk);
    block_on(async {
        let [writer, reader, other] = [
            served.client().await,
            served.client().await,
            served.client().await,
        ];
        let root = served.root(&reader).await;
        let file = lookup(&reader, &root, WHOLE.as_bytes()).await;
        for _ in 0..2 {
            ok(reader.read(&file, 0, CACHED_BYTES).await);
        }
        disk.disk.hold_reads();
        let writing = writer.write(
            &file,
            WHOLE_BYTES / 2 + 100,
            StableHow::Unstable,
            vec![2; 100].into(),
        );
        let is_read = Cell::new(false);
        let others = async {
            disk.disk.wait_for_one().await.unwrap();
            let reading = async {
                let data = ok(reader.read(&file, 0, CACHED_BYTES).await).data;
                assert!(data.len() == CACHED_BYTES as usize && data.iter().all(|byte| *byte == 1));
                is_read.set(true);
            };
            let asking = async {
                // Until the READ is answered as well, or waits.
                while served.counter("calls_running") < 2 && !is_read.get() {
                    let answer = timeout(DEADLINE, other.getattr(&root)).await;
                    ok(answer.unwrap_or_else(|_| panic!("{kind:?}, {way:?}: others are held")));
                }
                for _ in 0..3 {
                    let answer = timeout(DEADLINE, other.getattr(&root)).await;
                    ok(answer.unwrap_or_else(|_| panic!("{kind:?}, {way:?}: others are held")));
                }
                assert!(served.counter("calls_running") >= 1, "the WRITE");
                disk.disk.let_all_go();
            };
            tokio::join!(reading, asking);
        };
        let (written, ()) = tokio::join!(writing, others);
        assert_eq!(ok(written).count, 100);
    });
}

/// Large READs of the same place wait for the disk: the first, and one that finds its pages in the page cache before they
/// are read. Another client's calls do not.
fn others_go_on_beside_large_reads(kind: FsKind, size_mib: u32, way: Way) {
    const AT: u64 = WHOLE_BYTES / 2;
    let disk = HangingDisk::new(kind, size_mib);
    let served = serve(&disk, way);
    let _answers = Answers(&disk);
    block_on(async {
        let [reader, second, other] = [
            served.client().await,
            served.client().await,
            served.client().await,
        ];
        let root = served.root(&reader).await;
        let file = lookup(&reader, &root, WHOLE.as_bytes()).await;
        for _ in 0..2 {
            ok(reader.read(&file, 0, CACHED_BYTES).await);
        }
        disk.disk.hold_reads();
        let first = reader.read(&file, AT, LARGE_BYTES);
        let others = async {
            disk.disk.wait_for_one().await.unwrap();
            let again = async {
                let small = second.read(&file, AT, CACHED_BYTES);
                let large = second.read(&file, AT, LARGE_BYTES);
                tokio::join!(small, large)
            };
            let asking = async {
                while served.counter("calls_running") < 3 {
                    let answer = timeout(DEADLINE, other.getattr(&root)).await;
                    ok(answer.unwrap_or_else(|_| panic!("{kind:?}, {way:?}: others are held")));
                }
                for _ in 0..3 {
                    let answer = timeout(DEADLINE, other.getattr(&root)).await;
                    ok(answer.unwrap_or_else(|_| panic!("{kind:?}, {way:?}: others are held")));
                }
                disk.disk.let_all_go();
            };
            let ((small, large), ()) = tokio::join!(again, asking);
            [ok(small).data, ok(large).data]
        };
        let (first, [small, large]) = tokio::join!(first, others);
        for (data, len) in [
            (ok(first).data, LARGE_BYTES),
            (small, CACHED_BYTES),
            (large, LARGE_BYTES),
        ] {
            assert!(data.len() == len as usize && data.iter().all(|byte| *byte == 1));
        }
    });
}

fn on(kind: FsKind, size_mib: u32, modes: &[Mode]) {
    for mode in modes {
        on_one(kind, size_mib, (*mode, false), others_go_on);
    }
}

/// Runs a test of READs through the page cache, in each way and on each file system.
fn on_each(test: fn(FsKind, u32, Way)) {
    for (kind, size_mib) in [(FsKind::Xfs, 300), (FsKind::Ext4, 64), (FsKind::Btrfs, 144)] {
        let ways = [
            (Mode::Buffered, false),
            (Mode::Buffered, true),
            (Mode::DontCache, false),
        ];
        for way in ways {
            on_one(kind, size_mib, way, test);
        }
    }
}

fn on_one(kind: FsKind, size_mib: u32, way: Way, test: fn(FsKind, u32, Way)) {
    let needs = [Need::Root, Need::Fuse, Need::Loop, Need::Btrfs];
    for need in needs {
        if let Some(missing) = missing(need, Engine::Uring) {
            skip!("{missing}");
        }
    }
    test(kind, size_mib, way);
}

#[test]
fn a_read_that_waits_for_the_map_of_a_file_of_ext4_holds_nobody() {
    on(
        FsKind::Ext4,
        64,
        &[Mode::Buffered, Mode::DontCache, Mode::Direct],
    );
}

#[test]
fn a_read_that_waits_for_the_map_of_a_file_of_xfs_holds_nobody() {
    on(
        FsKind::Xfs,
        300,
        &[Mode::Buffered, Mode::DontCache, Mode::Direct],
    );
}

#[test]
fn a_read_that_waits_for_the_checksums_of_btrfs_holds_nobody() {
    on(FsKind::Btrfs, 144, &[Mode::Buffered]);
}

#[test]
fn a_read_beside_a_write_that_waits_holds_nobody() {
    on_each(others_go_on_beside_a_write_that_waits);
}

#[test]
fn large_reads_that_wait_for_the_disk_hold_nobody() {
    on_each(others_go_on_beside_large_reads);
}
