//! Past the page cache, and through it without staying: on real file systems.

use std::os::fd::BorrowedFd;

use super::*;
use crate::faults::{Call, Fault, Rule};
use crate::fs::{cachestat, statfs};
use crate::plan::{Alignment, Segment, placement, plan_read, plan_write};
use crate::testing::disk_fs;

/// How often it is looked whether pages are in the cache: where memory is short the kernel takes them for others.
const TRIES: u32 = 4;

/// One file, open for each way of going.
struct File {
    cached: Arc<OwnedFd>,
    direct: Arc<OwnedFd>,
    alignment: Alignment,
    pool: BufferPool,
}

impl File {
    fn new(dir: BorrowedFd<'_>) -> crate::Result<Self> {
        let cached = fs::tmpfile(dir, 0o600)?;
        let direct = fs::reopen(cached.as_fd(), OFlags::RDWR | OFlags::DIRECT)?;
        let alignment = statx(cached.as_fd())?.alignment(statfs(dir)?.bsize);
        Ok(Self {
            cached: Arc::new(cached),
            direct: Arc::new(direct),
            alignment,
            pool: buffers(),
        })
    }

    fn of(&self, mode: Mode) -> Arc<OwnedFd> {
        match mode {
            Mode::Buffered | Mode::DontCache => self.cached.clone(),
            Mode::Direct => self.direct.clone(),
        }
    }

    /// Pages of it in the cache; `None` where the kernel cannot count them.
    fn cached_pages(&self) -> Option<u64> {
        match cachestat(self.cached.as_fd(), 0, 0) {
            Err(Errno::NOSYS) => None,
            counted => Some(counted.unwrap().cached),
        }
    }

    fn buf_for(&self, offset: u64, bytes: &[u8]) -> Buf {
        let place = placement(offset);
        let mut buf = self.pool.try_take_placed(bytes.len(), place).unwrap();
        buf.copy_from_slice(bytes);
        buf
    }

    fn write_op(&self, segment: &Segment, offset: u64, buf: Buf, sync: WriteSync) -> Op {
        let start = (segment.file.start - offset) as usize;
        let len = (segment.file.end - segment.file.start) as usize;
        Op::Write {
            file: self.of(segment.mode),
            offset: segment.file.start,
            buf,
            range: start..start + len,
            sync,
            mode: segment.mode,
            may_wait: false,
            keep: Keep::none(),
        }
    }

    /// Writes as a server does; how many bytes went which way.
    async fn write(&self, engine: &Engine, mode: Mode, offset: u64, bytes: &[u8]) -> [usize; 2] {
        let mut buf = self.buf_for(offset, bytes);
        let len = bytes.len();
        let plan = plan_write(mode, offset, len, buf.address(), &self.alignment).unwrap();
        let mut moved = [0; 2];
        for segment in plan.segments() {
            let op = self.write_op(segment, offset, buf, WriteSync::None);
            let done = engine.submit(op, &own(), LANE).await;
            let len = (segment.file.end - segment.file.start) as usize;
            assert_eq!(done.result, Ok(len), "{segment:?}");
            moved[usize::from(segment.mode == Mode::Direct)] += len;
            buf = done.buf.unwrap();
        }
        moved
    }

    /// Reads as a server does: exactly what is asked, less at the end of the file.
    async fn read(&self, engine: &Engine, mode: Mode, offset: u64, len: usize) -> Vec<u8> {
        let plan = plan_read(mode, offset, len, 0, &self.alignment).unwrap();
        let rounded = plan.rounded();
        let rounded_len = (rounded.end - rounded.start) as usize;
        let mut buf = self.pool.try_take(rounded_len).unwrap();
        let mut read = 0;
        for segment in plan.segments() {
            let op = Op::Read {
                file: self.of(segment.mode),
                offset: rounded.start,
                buf,
                range: 0..rounded_len,
                mode: segment.mode,
                may_wait: false,
                keep: Keep::none(),
            };
            let done = engine.submit(op, &own(), LANE).await;
            read = done.result.unwrap();
            buf = done.buf.unwrap();
        }
        buf.narrow(plan.window_of(read));
        buf.to_vec()
    }
}

/// Runs a case on each kind of disk and file system; in the scratch directory where none of them
/// can be had. (btrfs does not tell its alignment.)
fn on_disks(case: impl Fn(&str, BorrowedFd<'_>)) {
    let kinds = [("xfs", 512), ("xfs", 4096), ("ext4", 512), ("ext4", 4096)];
    let mut missing = Vec::new();
    for (kind, sector_bytes) in kinds {
        let name = format!("{kind} on sectors of {sector_bytes}");
        match disk_fs(kind, sector_bytes) {
            Ok(dir) => case(&name, dir.as_fd()),
            Err(reason) => missing.push(format!("{name}: {reason}")),
        }
    }
    if missing.len() == kinds.len() {
        let scratch = Scratch::new();
        match File::new(scratch.dir()) {
            Ok(file) if file.alignment.offset > 0 => case("the scratch directory", scratch.dir()),
            Ok(_) => missing.push("the scratch directory: no alignment known".into()),
            Err(errno) => missing.push(format!("the scratch directory: {errno}")),
        }
    }
    if !missing.is_empty() {
        skipped(&missing.join("; "));
    }
}

/// Runs a test on both engines as [`on_both`] does, and gives each engine a file of its own.
fn both_with_file<T, F>(dir: BorrowedFd<'_>, test: impl Fn(Engine, File) -> F) -> T
where
    T: PartialEq + std::fmt::Debug,
    F: Future<Output = T>,
{
    on_both(|engine| test(engine, File::new(dir).unwrap()))
}

/// Nowhere [`crate::buffer::POISON`], and no two neighbouring sectors alike.
fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|at| ((at / 512 * 7 + at + seed) % 0xDB) as u8)
        .collect()
}

#[test]
fn a_misaligned_stream_arrives_whole_and_is_read_exactly() {
    const RECORD: usize = 47_008;
    on_disks(|name, dir| {
        let directly = both_with_file(dir, |engine, file| async move {
            let content = pattern(9 * RECORD, 1);
            let mut directly = 0;
            for (index, record) in content.chunks(RECORD).enumerate() {
                let offset = (index * RECORD) as u64;
                let [_, direct] = file.write(&engine, Mode::Direct, offset, record).await;
                directly += direct;
            }
            let asks = [
                (0, 9 * RECORD),
                (0, 1),
                (511, 2),
                (4095, 4098),
                (RECORD, RECORD),
                (7 * 512, 512),
                (9 * RECORD - 1, 1),
                (9 * RECORD - 5000, 100_000),
                (9 * RECORD, 10),
                (20 * RECORD, 10),
            ];
            for mode in [Mode::Direct, Mode::Buffered] {
                for (offset, len) in asks {
                    let got = file.read(&engine, mode, offset as u64, len).await;
                    let left = content.get(offset..).unwrap_or_default();
                    assert!(got == left[..len.min(left.len())], "{mode} {offset} {len}");
                }
            }
            directly
        });
        assert!(directly > 9 * (RECORD - 8192), "{name}: {directly}");
    });
}

#[test]
fn what_goes_past_the_cache_is_not_in_it() {
    on_disks(|name, dir| {
        both_with_file(dir, |engine, file| async move {
            let content = pattern(1 << 20, 2);
            let moved = file.write(&engine, Mode::Direct, 1 << 20, &content).await;
            assert_eq!(moved, [0, 1 << 20], "{name}");
            let got = file.read(&engine, Mode::Direct, 1 << 20, 1 << 20).await;
            assert!(got == content);
            let Some(pages) = file.cached_pages() else {
                return skipped("cachestat needs Linux 6.5");
            };
            assert_eq!(pages, 0, "{name}");
            let mut buffered = Vec::new();
            for _ in 0..TRIES {
                file.read(&engine, Mode::Buffered, 1 << 20, 1 << 20).await;
                buffered.push(file.cached_pages());
            }
            assert!(buffered.iter().any(|pages| *pages > Some(0)), "{name}");
        });
    });
}

#[test]
fn a_page_behind_the_cache_s_back_is_seen_through_the_cache() {
    on_disks(|_, dir| {
        both_with_file(dir, |engine, file| async move {
            let (old, new) = (pattern(1 << 16, 3), pattern(1 << 16, 4));
            // Dirty in the cache, overwritten past it, and the other way round.
            for (first, second) in [
                (Mode::Buffered, Mode::Direct),
                (Mode::Direct, Mode::Buffered),
            ] {
                file.write(&engine, first, 0, &old).await;
                file.write(&engine, second, 0, &new).await;
                for mode in [first, second] {
                    assert!(file.read(&engine, mode, 0, 1 << 16).await == new);
                }
            }
        });
    });
}

#[test]
fn stable_direct_writes_are_written_whole() {
    on_disks(|_, dir| {
        both_with_file(dir, |engine, file| async move {
            let content = pattern(16_384, 5);
            for (sync, offset) in [(WriteSync::Dsync, 0), (WriteSync::Sync, 16_384)] {
                let segment = Segment {
                    file: offset..offset + 16_384,
                    mode: Mode::Direct,
                };
                let op = file.write_op(&segment, offset, file.buf_for(offset, &content), sync);
                assert_eq!(engine.submit(op, &own(), LANE).await.result, Ok(16_384));
                assert!(file.read(&engine, Mode::Buffered, offset, 16_384).await == content);
            }
        });
    });
}

#[test]
fn a_refusal_is_the_kernels_and_gives_the_buffer_back() {
    on_disks(|name, dir| {
        let results = both_with_file(dir, |engine, file| async move {
            file.write(&engine, Mode::Direct, 0, &pattern(16_384, 6))
                .await;
            let mut results = Vec::new();
            // Off in the file; of a length that is.
            for (offset, range) in [(100, 0..4096), (0, 0..100)] {
                let buf = file.pool.try_take(8192).unwrap();
                let op = Op::Read {
                    file: file.direct.clone(),
                    offset,
                    buf,
                    range,
                    mode: Mode::Direct,
                    may_wait: false,
                    keep: Keep::none(),
                };
                let done = engine.submit(op, &own(), LANE).await;
                assert_eq!(done.buf.unwrap().len(), 8192);
                results.push(done.result);
            }
            results
        });
        assert_eq!(results, [Err(Errno::INVAL); 2], "{name}");
    });
}

#[test]
fn what_is_read_in_passing_does_not_stay() {
    on_disks(|name, dir| {
        both_with_file(dir, |engine, file| async move {
            let content = pattern(1 << 20, 7);
            let mut pages = Vec::new();
            for _ in 0..TRIES {
                // From here on nothing of it is in the cache.
                file.write(&engine, Mode::Direct, 0, &content).await;
                let op = Op::Read {
                    file: file.cached.clone(),
                    offset: 0,
                    buf: file.pool.try_take(1 << 20).unwrap(),
                    range: 0..1 << 20,
                    mode: Mode::DontCache,
                    may_wait: false,
                    keep: Keep::none(),
                };
                let done = engine.submit(op, &own(), LANE).await;
                if done.result == Err(Errno::OPNOTSUPP) {
                    return skipped(&format!("{name} knows no RWF_DONTCACHE"));
                }
                assert_eq!(done.result, Ok(1 << 20));
                assert!(done.buf.unwrap()[..] == content);
                let in_passing = file.cached_pages();
                file.read(&engine, Mode::Buffered, 0, 1 << 20).await;
                pages.push((in_passing, file.cached_pages()));
            }
            let fewer = |(in_passing, stayed): &(Option<u64>, Option<u64>)| {
                in_passing < stayed || stayed.is_none()
            };
            assert!(pages.iter().any(fewer), "{pages:?}");
            let moved = file.write(&engine, Mode::DontCache, 0, &content).await;
            assert_eq!(moved, [1 << 20, 0]);
            assert!(file.read(&engine, Mode::Direct, 0, 1 << 20).await == content);
        });
    });
}

#[test]
fn a_file_system_without_it_refuses_to_drop_behind() {
    let Some(mount) = small_tmpfs(1 << 20) else {
        skip!("mounting a tmpfs needs CAP_SYS_ADMIN");
    };
    let refused = on_both(|engine| {
        let file = Arc::new(fs::tmpfile(mount.as_fd(), 0o600).unwrap());
        async move {
            let pool = buffers();
            let (offset, mode) = (0, Mode::DontCache);
            let write = Op::Write {
                file: file.clone(),
                offset,
                buf: buf(&pool, &[1; 4096]),
                range: 0..4096,
                sync: WriteSync::None,
                mode,
                may_wait: false,
                keep: Keep::none(),
            };
            let written = engine.submit(write, &own(), LANE).await;
            let (buf, range) = (written.buf.unwrap(), 0..4096);
            let read = Op::Read {
                file,
                offset,
                buf,
                range,
                mode,
                may_wait: false,
                keep: Keep::none(),
            };
            let read = engine.submit(read, &own(), LANE).await;
            assert_eq!(read.buf.unwrap().len(), 4096);
            [written.result, read.result]
        }
    });
    assert_eq!(refused, [Err(Errno::OPNOTSUPP); 2]);
}

#[test]
fn injected_faults_are_met_as_the_disks_own_would_be() {
    on_disks(|name, dir| {
        let results = both_with_file(dir, |engine, file| async move {
            let content = pattern(32_768, 8);
            let whole = |mode, buf| {
                let segment = Segment {
                    file: 0..32_768,
                    mode,
                };
                file.write_op(&segment, 0, buf, WriteSync::None)
            };
            let once = |call, fault| Rule::new(call, fault).of_file(&file.cached).times(1);
            let mut results = Vec::new();
            for (mode, fault) in [
                (Mode::Direct, Fault::Fail(Errno::INVAL)),
                (Mode::Direct, Fault::Shorten(8192)),
                (Mode::Direct, Fault::Shorten(8200)),
                (Mode::Buffered, Fault::Shorten(1000)),
                (Mode::Buffered, Fault::Fail(Errno::INTR)),
                (Mode::Buffered, Fault::Fail(Errno::NOSPC)),
            ] {
                file.write(&engine, mode, 0, &[0; 32_768]).await;
                let injected = once(Call::Write, fault).in_mode(mode).inject();
                let buf = file.buf_for(0, &content);
                let done = engine.submit(whole(mode, buf), &own(), LANE).await;
                assert_eq!(injected.hits(), 1, "{fault:?}");
                let moved = done.result.unwrap_or(0);
                let now = file.read(&engine, Mode::Buffered, 0, 32_768).await;
                assert!(now[..moved] == content[..moved]);
                // A direct transfer reaches up to a page further than it tells.
                let reached = moved.next_multiple_of(4096);
                assert!(now[reached..].iter().all(|&byte| byte == 0), "{name}");
                results.push(done.result);
            }
            let injected = once(Call::Fsync, Fault::Fail(Errno::IO)).from(2).inject();
            for _ in 0..3 {
                let done = engine
                    .submit(fsync(&file.direct, false), &own(), LANE)
                    .await;
                results.push(done.result);
            }
            drop(injected);
            let injected = once(Call::Read, Fault::Shorten(700)).inject();
            assert_eq!(file.read(&engine, Mode::Direct, 1, 900).await.len(), 699);
            assert_eq!(injected.hits(), 1);
            results
        });
        let expected = [
            Err(Errno::INVAL),
            Ok(32_768),
            Ok(8200),
            Ok(32_768),
            Ok(32_768),
            Err(Errno::NOSPC),
            Ok(0),
            Err(Errno::IO),
            Ok(0),
        ];
        assert_eq!(results, expected, "{name}");
    });
}
