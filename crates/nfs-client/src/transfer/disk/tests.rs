use std::os::unix::fs::FileExt as _;

use nfs_io::Errno;
use nfs_io::budget::Budget;
use nfs_io::faults::{Call, Fault, Injected, Rule};

use super::*;

const PIECE: usize = 64 * 1024;

fn pool() -> BufferPool {
    BufferPool::new(Budget::new(4 << 20))
}

fn content(len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(8) as u64).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut content: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    content.truncate(len);
    content
}

/// Directories on a disk and in memory, where there are such: the kernel refuses different things there.
fn directories() -> Vec<tempfile::TempDir> {
    let places = ["/var/tmp", "/dev/shm"].map(tempfile::tempdir_in);
    places.into_iter().flatten().collect()
}

fn disk(directory: &tempfile::TempDir, how: Mode, watch: &Watch) -> Disk {
    let path = directory.path().join("file");
    let mut open = LocalFile::options();
    let file = open.read(true).write(true).create(true).truncate(true);
    Disk::new(file.open(path).unwrap(), how, watch)
}

/// `content` in pieces as a server's READs bring them: in aligned memory, up to `shift` bytes.
fn pieces(content: &[u8], offset: u64, shift: usize, pool: &BufferPool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < content.len() {
        let into = (offset as usize + at) % PIECE;
        let len = (PIECE - into).min(content.len() - at);
        let mut buf = pool.try_take_placed(len, (into + shift) % 4096).unwrap();
        buf.copy_from_slice(&content[at..at + len]);
        let (offset, data) = (offset + at as u64, Bytes::from_owner(buf));
        pieces.push(Piece { offset, data });
        at += len;
    }
    pieces
}

/// Writes as the writing thread does when all of it waits.
fn write_all(disk: &Disk, mut pieces: Vec<Piece>, pool: &BufferPool) {
    while !pieces.is_empty() {
        let most = pieces.len().min(disk.pieces_at_once());
        let run = (1..most).find(|&at| !disk.joins(&pieces[at - 1], &pieces[at]));
        let run: Vec<_> = pieces.drain(..run.unwrap_or(most)).collect();
        disk.write(&run, pool).unwrap();
    }
}

fn read_all(disk: &Disk, from: u64, pool: &BufferPool) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let at = from + all.len() as u64;
        let first = PIECE - (at as usize % PIECE);
        let lens: Vec<usize> = std::iter::once(first)
            .chain(std::iter::repeat_n(PIECE, disk.pieces_at_once() - 1))
            .collect();
        let read = disk.read_some(at, &lens, pool).unwrap();
        if read.is_empty() {
            return all;
        }
        read.iter().for_each(|data| all.extend_from_slice(data));
    }
}

#[test]
fn bytes_are_equal_in_each_mode() {
    let pool = pool();
    let sizes = [
        0,
        1,
        511,
        4095,
        4096,
        4097,
        PIECE - 1,
        PIECE,
        PIECE + 1,
        5 * PIECE,
        9 * PIECE + 4099,
    ];
    for directory in directories() {
        for (how, len) in Mode::ALL
            .iter()
            .flat_map(|&how| sizes.map(|len| (how, len)))
        {
            for (offset, shift) in [(0, 0), (0, 8), (4096, 0), (PIECE as u64 + 13, 0), (1, 5)] {
                let disk = disk(&directory, how, &Watch::default());
                let content = content(len);
                write_all(&disk, pieces(&content, offset, shift, &pool), &pool);
                let what = format!("{how:?}, {len} at {offset}, shifted {shift}");
                let mut plain = vec![0; len];
                disk.file().read_exact_at(&mut plain, offset).unwrap();
                assert!(plain == content, "written: {what}");
                assert!(read_all(&disk, offset, &pool) == content, "read: {what}");
            }
        }
    }
}

/// A file as long as four pieces and a bit, which meets `fault`; whether its bytes survive that, and how
/// often the watch was told.
fn through(how: Mode, call: Call, fault: Fault, more: impl Fn(Rule) -> Rule) -> u64 {
    let (pool, watch) = (pool(), Watch::default());
    let content = content(4 * PIECE + 4099);
    let mut hits = 0;
    for directory in directories() {
        let disk = disk(&directory, how, &watch);
        let injected: Injected = more(Rule::new(call, fault).of_file(disk.file())).inject();
        write_all(&disk, pieces(&content, 0, 0, &pool), &pool);
        assert!(
            read_all(&disk, 0, &pool) == content,
            "{how:?} {call:?} {fault:?}"
        );
        hits += injected.hits();
    }
    assert!(hits > 0, "{how:?} {call:?} {fault:?}: never met");
    watch.figures().local_refused
}

#[test]
fn what_is_refused_goes_through_the_page_cache_and_is_counted_once() {
    let files = directories().len() as u64;
    let refused = [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOTBLK].map(Fault::Fail);
    for mode in [Mode::Direct, Mode::DontCache] {
        for (call, fault) in [Call::Read, Call::Write]
            .into_iter()
            .flat_map(|call| refused.map(|fault| (call, fault)))
        {
            let told = through(mode, call, fault, |rule| rule.in_mode(mode));
            assert_eq!(told, files, "{mode} {call:?} {fault:?}");
        }
    }
    let told = through(Mode::Direct, Call::OpenDirect, refused[0], |rule| rule);
    assert_eq!(told, files, "opening");
}

#[test]
fn short_transfers_are_gone_on_with() {
    for bytes in [512, 4096, 5000, PIECE] {
        for mode in [Mode::Direct, Mode::Buffered] {
            for call in [Call::Read, Call::Write] {
                let fault = Fault::Shorten(bytes);
                let told = through(mode, call, fault, |rule| rule.in_mode(mode));
                assert_eq!(told, 0, "{mode} {call:?}: nothing was refused");
            }
        }
    }
}

/// A small file is read in one go: what comes in parts is not its end.
#[test]
fn one_read_is_short_only_at_the_end() {
    let content = content(PIECE);
    for (directory, how) in directories()
        .iter()
        .flat_map(|d| Mode::ALL.map(|how| (d, how)))
    {
        let (pool, disk) = (pool(), disk(directory, how, &Watch::default()));
        write_all(&disk, pieces(&content, 0, 0, &pool), &pool);
        let short = Rule::new(Call::Read, Fault::Shorten(4096)).of_file(disk.file());
        let _short = short.inject();
        assert!(
            disk.read(0, PIECE + 1, &pool).unwrap() == content,
            "{how:?}"
        );
        assert!(disk.read(PIECE as u64, 1, &pool).unwrap().is_empty());
    }
}

#[test]
fn errors_of_a_disk_are_told() {
    for (how, errno) in Mode::ALL
        .iter()
        .flat_map(|&how| [Errno::NOSPC, Errno::IO].map(|e| (how, e)))
    {
        for directory in directories() {
            let (pool, disk) = (pool(), disk(&directory, how, &Watch::default()));
            let full = Rule::new(Call::Write, Fault::Fail(errno)).of_file(disk.file());
            let _full = full.inject();
            let pieces = pieces(&content(PIECE), 0, 0, &pool);
            let told = disk.write(&pieces, &pool).unwrap_err();
            assert_eq!(told.raw_os_error(), Some(errno.raw_os_error()), "{how:?}");
        }
    }
}

#[test]
fn without_memory_pieces_come_one_by_one() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let (ample, content) = (pool(), content(3 * PIECE));
    for bytes in [4096, PIECE as u64] {
        let disk = disk(&directory, Mode::Direct, &Watch::default());
        write_all(&disk, pieces(&content, 0, 0, &ample), &ample);
        let scarce = BufferPool::new(Budget::new(bytes));
        assert!(read_all(&disk, 0, &scarce) == content, "{bytes}");
        let one = disk.read_some(0, &[PIECE; 3], &scarce).unwrap();
        assert_eq!((one.len(), one[0].len()), (1, PIECE), "{bytes}");
    }
}
