//! The same cases for both engines: the ring and the thread pool.

use std::future::Future;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::pipe::pipe;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::*;
use crate::Lane;
use crate::fs::{self, OFlags, statx};
use crate::identity::can_switch;
use crate::limits::RING_PERSONALITIES_MAX;
use crate::testing::{Scratch, skip, skipped, small_tmpfs, stranger};
use crate::{
    Budget, Buf, BufferPool, Keep, LocalGid, LocalUid, Mode, PoolLimits, WriteSync, probe,
};

mod direct;

const LANE: Lane = Lane(1);

fn own() -> Creds {
    identity::ServerIdentity::current().creds().clone()
}

fn buffers() -> BufferPool {
    BufferPool::new(Budget::new(64 << 20))
}

fn uring(limits: UringLimits) -> Option<Engine> {
    match probe::uring() {
        Ok(_) => Some(Engine::new_uring(limits).unwrap()),
        Err(reason) => {
            skipped(&reason);
            None
        }
    }
}

/// Runs `test` with the engine driven beside it.
fn driven<T>(engine: &Engine, test: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_io().build().unwrap();
    let driver = engine.clone();
    LocalSet::new().block_on(&runtime, async move {
        let driver = spawn_local(async move { driver.drive().await });
        let value = test.await;
        driver.abort();
        // Ended by the abort, not by an error of the ring.
        assert!(driver.await.is_err_and(|error| error.is_cancelled()));
        value
    })
}

/// Runs `test` once for each engine there is, and expects the same value of both.
fn on_both<T, F>(test: impl Fn(Engine) -> F) -> T
where
    T: PartialEq + std::fmt::Debug,
    F: Future<Output = T>,
{
    let threads = Engine::threads(Pool::new(PoolLimits::default()));
    let expected = driven(&threads, test(threads.clone()));
    if let Some(ring) = uring(UringLimits::default()) {
        assert_eq!(ring.kind(), EngineKind::Uring);
        assert_eq!(driven(&ring, test(ring.clone())), expected);
        assert_eq!(ring.in_flight(), 0);
    }
    expected
}

fn buf(pool: &BufferPool, bytes: &[u8]) -> Buf {
    let mut buf = pool.try_take(bytes.len()).unwrap();
    buf.copy_from_slice(bytes);
    buf
}

fn read(file: &Arc<OwnedFd>, offset: u64, buf: Buf, range: Range<usize>) -> Op {
    Op::Read {
        file: file.clone(),
        offset,
        buf,
        range,
        mode: Mode::Buffered,
        may_wait: false,
        keep: Keep::none(),
    }
}

fn write(file: &Arc<OwnedFd>, offset: u64, buf: Buf, sync: WriteSync) -> Op {
    let range = 0..buf.len();
    Op::Write {
        file: file.clone(),
        offset,
        buf,
        range,
        sync,
        mode: Mode::Buffered,
        may_wait: false,
        keep: Keep::none(),
    }
}

fn fsync(file: &Arc<OwnedFd>, data_only: bool) -> Op {
    Op::Fsync {
        file: file.clone(),
        data_only,
    }
}

#[test]
fn reads_end_where_the_file_ends() {
    let results = on_both(|engine| async move {
        let scratch = Scratch::new();
        let content: Vec<u8> = (0..10_000).map(|n| n as u8).collect();
        let file = Arc::new(scratch.file("f", &content));
        let pool = buffers();
        let mut results = Vec::new();
        for (offset, len) in [
            (0, 10_000),
            (0, 0),
            (1, 4096),
            (9_999, 100),
            (10_000, 100),
            (1 << 40, 100),
            (i64::MAX as u64 - 100, 100),
            (i64::MAX as u64, 100),
            (1 << 63, 100),
            (u64::MAX, 100),
        ] {
            let buf = buf(&pool, &vec![0xee; len + 20]);
            let done = engine
                .submit(read(&file, offset, buf, 10..len + 10), &own(), LANE)
                .await;
            let buf = done.buf.unwrap();
            let got = done.result.unwrap_or(0);
            let expected = content.get(offset as usize..).unwrap_or_default();
            assert_eq!(buf[10..10 + got], expected[..got]);
            assert!(
                buf[..10]
                    .iter()
                    .chain(&buf[10 + got..])
                    .all(|&byte| byte == 0xee)
            );
            results.push(done.result);
        }
        results
    });
    let past = results[5];
    assert_eq!(results[..5], [Ok(10_000), Ok(0), Ok(4096), Ok(1), Ok(0)]);
    assert!(past == Ok(0), "{past:?}");
    assert_eq!(results[8..], [Err(Errno::INVAL), Err(Errno::INVAL)]);
}

#[test]
fn writes_reach_the_file_in_every_degree_of_durability() {
    let content = on_both(|engine| async move {
        let scratch = Scratch::new();
        let file = Arc::new(scratch.file("f", b"0123456789"));
        let pool = buffers();
        let syncs = [WriteSync::None, WriteSync::Dsync, WriteSync::Sync];
        for (sync, offset) in syncs.into_iter().zip([0, 5000, 8]) {
            let op = write(&file, offset, buf(&pool, b"abc"), sync);
            let done = engine.submit(op, &own(), LANE).await;
            assert_eq!(done.result, Ok(3));
            assert_eq!(&done.buf.unwrap()[..], b"abc");
        }
        for data_only in [true, false] {
            let done = engine.submit(fsync(&file, data_only), &own(), LANE).await;
            assert_eq!((done.result, done.buf.is_none()), (Ok(0), true));
        }
        let dir = Arc::new(scratch.open(".", OFlags::RDONLY).unwrap());
        let done = engine.submit(fsync(&dir, false), &own(), LANE).await;
        assert_eq!(done.result, Ok(0));
        std::fs::read(scratch.path.path().join("f")).unwrap()
    });
    assert_eq!((content.len(), &content[..11]), (5003, &b"abc34567abc"[..]));
    assert!(content[11..5000].iter().all(|&byte| byte == 0), "a hole");
}

#[test]
fn errors_are_the_kernels() {
    let results = on_both(|engine| async move {
        let scratch = Scratch::new();
        drop(scratch.file("f", b"0123456789"));
        let reader = Arc::new(scratch.open("f", OFlags::RDONLY).unwrap());
        let writer = Arc::new(scratch.open("f", OFlags::WRONLY).unwrap());
        let object = Arc::new(scratch.object("f"));
        let dir = Arc::new(scratch.open(".", OFlags::RDONLY).unwrap());
        let pipe = Arc::new(pipe().unwrap().0);
        let pool = buffers();
        let ten = || buf(&pool, &[1; 10]);
        let mut results = Vec::new();
        for op in [
            write(&reader, 0, ten(), WriteSync::None),
            read(&writer, 0, ten(), 0..10),
            read(&object, 0, ten(), 0..10),
            write(&object, 0, ten(), WriteSync::Dsync),
            fsync(&object, false),
            read(&dir, 0, ten(), 0..10),
            write(&writer, i64::MAX as u64 - 5, ten(), WriteSync::None),
            write(&writer, 1 << 63, ten(), WriteSync::None),
            fsync(&pipe, false),
        ] {
            let has_buffer = !matches!(op, Op::Fsync { .. });
            let done = engine.submit(op, &own(), LANE).await;
            assert_eq!(done.buf.is_some(), has_buffer);
            results.push(done.result.unwrap_err());
        }
        results
    });
    assert_eq!(
        results[..6],
        [
            Errno::BADF,
            Errno::BADF,
            Errno::BADF,
            Errno::BADF,
            Errno::BADF,
            Errno::ISDIR
        ]
    );
    assert!([Errno::FBIG, Errno::INVAL, Errno::OVERFLOW].contains(&results[6]));
    assert_eq!(results[7..], [Errno::INVAL, Errno::INVAL]);
}

#[test]
fn a_full_file_system_takes_what_fits() {
    if small_tmpfs(4096).is_none() {
        skip!("mounting a tmpfs needs CAP_SYS_ADMIN");
    }
    let results = on_both(|engine| async move {
        let mount = small_tmpfs(64 << 10).unwrap();
        let flags = OFlags::CREATE | OFlags::RDWR;
        let file = fs::openat_create(mount.as_fd(), b"f", flags, 0o600).unwrap();
        let file = Arc::new(file);
        let pool = buffers();
        let mut results = Vec::new();
        for (offset, sync) in [
            (0, WriteSync::None),
            (60 << 10, WriteSync::Sync),
            (1 << 20, WriteSync::None),
        ] {
            let op = write(&file, offset, buf(&pool, &vec![3; 100 << 10]), sync);
            results.push(engine.submit(op, &own(), LANE).await.result);
        }
        results
    });
    let Ok(first) = results[0] else {
        panic!("{results:?}")
    };
    assert!(
        (32 << 10..=64 << 10).contains(&first),
        "what fits is counted: {first}"
    );
    assert_eq!(results[2], Err(Errno::NOSPC));
}

#[test]
fn writes_are_the_clients() {
    if !can_switch() {
        skip!("taking another identity needs CAP_SETUID and CAP_SETGID");
    }
    let modes = on_both(|engine| async move {
        let scratch = Scratch::new();
        let file = Arc::new(scratch.file("f", b""));
        let pool = buffers();
        let mut modes = Vec::new();
        for creds in [own(), stranger()] {
            fs::chmod(file.as_fd(), 0o6777).unwrap();
            let op = write(&file, 0, buf(&pool, b"x"), WriteSync::None);
            assert_eq!(engine.submit(op, &creds, LANE).await.result, Ok(1));
            modes.push(statx(file.as_fd()).unwrap().permissions());
        }
        assert!(!identity::guarded());
        modes
    });
    let kept = if own().uid() == LocalUid(0) {
        0o6777
    } else {
        0o777
    };
    assert_eq!(
        modes,
        [kept, 0o777],
        "a write by others takes set-user-id away"
    );
}

#[test]
fn more_identities_than_the_ring_keeps() {
    if !can_switch() {
        skip!("taking another identity needs CAP_SETUID and CAP_SETGID");
    }
    on_both(|engine| async move {
        let scratch = Scratch::new();
        let file = Arc::new(scratch.file("f", b"x"));
        let pool = buffers();
        let someone = |n: usize| Creds::new(LocalUid(10_000 + n as u32), LocalGid(1), &[]);
        let started: Vec<_> = (0..2 * RING_PERSONALITIES_MAX)
            .map(|n| engine.submit(read(&file, 0, buf(&pool, b"y"), 0..1), &someone(n), LANE))
            .collect();
        for one in started {
            assert_eq!(one.await.result, Ok(1));
        }
        for n in [0, 2 * RING_PERSONALITIES_MAX - 1] {
            let op = read(&file, 0, buf(&pool, b"y"), 0..1);
            assert_eq!(engine.submit(op, &someone(n), LANE).await.result, Ok(1));
        }
    });
}

#[test]
fn many_operations_at_once_keep_their_bytes() {
    const CHUNK: usize = 10_007;
    let content = on_both(|engine| async move {
        let scratch = Scratch::new();
        let file = Arc::new(scratch.file("f", b""));
        let pool = buffers();
        let writes: Vec<_> = (0..300_u64)
            .map(|n| {
                let buf = buf(&pool, &[n as u8; CHUNK]);
                let op = write(&file, n * CHUNK as u64, buf, WriteSync::None);
                engine.submit(op, &own(), Lane(n % 3))
            })
            .collect();
        for one in writes {
            assert_eq!(one.await.result, Ok(CHUNK));
        }
        let reads: Vec<_> = (0..300_u64)
            .rev()
            .map(|n| {
                let buf = buf(&pool, &[0; CHUNK]);
                let op = read(&file, n * CHUNK as u64, buf, 0..CHUNK);
                (n, engine.submit(op, &own(), Lane(n % 5)))
            })
            .collect();
        for (n, one) in reads {
            let done = one.await;
            assert_eq!(done.result, Ok(CHUNK));
            assert!(done.buf.unwrap().iter().all(|&byte| byte == n as u8));
        }
        let got = engine.counters().figures();
        assert_eq!((got.submitted, got.completed, got.in_flight), (600, 600, 0));
        let is_ring = engine.kind() == EngineKind::Uring;
        assert_eq!(got.handed_over > 0, is_ring, "{got:?}");
        assert_eq!(
            pool.budget().in_use(),
            pool.idle_bytes(),
            "every buffer came back"
        );
        std::fs::read(scratch.path.path().join("f")).unwrap().len()
    });
    assert_eq!(content, 300 * CHUNK);
}

#[test]
fn tasks_beside_each_other_all_get_their_answers() {
    on_both(|engine| async move {
        let scratch = Scratch::new();
        let file = Arc::new(scratch.file("f", &[9; 4096]));
        let pool = buffers();
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let (engine, file, pool) = (engine.clone(), file.clone(), pool.clone());
                spawn_local(async move {
                    for _ in 0..40 {
                        let op = read(&file, 0, pool.take(4096).await.unwrap(), 0..4096);
                        assert_eq!(engine.submit(op, &own(), LANE).await.result, Ok(4096));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn a_dropped_completion_gives_its_buffer_back_at_the_end() {
    on_both(|engine| async move {
        let scratch = Scratch::new();
        let file = Arc::new(scratch.file("f", b""));
        let pool = buffers();
        for n in 0..20 {
            let op = write(&file, n * 10, buf(&pool, &[5; 10]), WriteSync::Dsync);
            drop(engine.submit(op, &own(), LANE));
        }
        // The operations go on: what they own comes back when they end.
        while pool.budget().in_use() > pool.idle_bytes() || Arc::strong_count(&file) > 1 {
            yield_now().await;
        }
        let content = std::fs::read(scratch.path.path().join("f")).unwrap();
        assert_eq!(content, [5; 200]);
    });
}

#[test]
fn a_read_that_nobody_awaits_when_its_turn_comes_is_left_out() {
    let limits = UringLimits {
        lane_in_flight_max: 1,
        ..UringLimits::default()
    };
    let Some(engine) = uring(limits) else {
        return;
    };
    driven(&engine, async {
        let (first, to_first) = pipe().unwrap();
        let (second, to_second) = pipe().unwrap();
        let (first, second) = (Arc::new(first), Arc::new(second));
        let pool = buffers();
        let one = |file| read(file, 0, buf(&pool, &[0]), 0..1);
        rustix::io::write(&to_second, b"x").unwrap();
        let begun = engine.submit(one(&first), &own(), LANE);
        let left = engine.submit(one(&second), &own(), LANE);
        let wanted = engine.submit(one(&second), &own(), LANE);
        assert_eq!(engine.in_flight(), 3);
        drop(left);
        rustix::io::write(&to_first, b"y").unwrap();
        assert_eq!(begun.await.result, Ok(1));
        let wanted = wanted.await;
        assert_eq!(wanted.result, Ok(1));
        assert_eq!(wanted.buf.unwrap()[..], *b"x", "nobody took it before");
        let got = engine.counters().figures();
        assert_eq!((got.completed, got.left_out, got.waited), (2, 1, 2));
        assert_eq!(engine.in_flight(), 0);
    });
}

/// The operation, with something to be kept until its end.
fn keeping(mut op: Op, kept: &Arc<()>) -> Op {
    if let Op::Read { keep, .. } | Op::Write { keep, .. } = &mut op {
        *keep = Keep::new(kept.clone());
    }
    op
}

#[test]
fn what_is_kept_is_given_up_before_the_end_is_told() {
    on_both(|engine| async move {
        let scratch = Scratch::new();
        let file = Arc::new(scratch.file("f", b""));
        let (pool, kept) = (buffers(), Arc::new(()));
        for offset in [0, u64::MAX] {
            let op = write(&file, offset, buf(&pool, &[5; 10]), WriteSync::Dsync);
            let done = engine.submit(keeping(op, &kept), &own(), LANE).await;
            assert_eq!(done.result.is_ok(), offset == 0);
            assert_eq!(Arc::strong_count(&kept), 1);
        }
    });
}

#[test]
fn a_read_that_waits_is_dropped_and_ends_later() {
    let Some(engine) = uring(UringLimits::default()) else {
        return;
    };
    driven(&engine, async {
        let (reader, writer) = pipe().unwrap();
        let reader = Arc::new(reader);
        let pool = buffers();
        let kept = Arc::new(());
        let op = keeping(read(&reader, 0, buf(&pool, &[0; 10]), 0..10), &kept);
        let waiting = engine.submit(op, &own(), LANE);
        // Let the kernel have it before it is dropped.
        let other = Scratch::new();
        let file = Arc::new(other.file("f", b"x"));
        let op = read(&file, 0, buf(&pool, b"y"), 0..1);
        assert_eq!(engine.submit(op, &own(), LANE).await.result, Ok(1));
        drop(waiting);
        assert_eq!(engine.in_flight(), 1);
        assert_eq!(Arc::strong_count(&kept), 2);
        assert!(
            pool.budget().in_use() > pool.idle_bytes(),
            "the kernel may still write to it"
        );
        // A short read is resumed: five bytes are not ten.
        rustix::io::write(&writer, b"01234").unwrap();
        rustix::io::write(&writer, b"56789").unwrap();
        while engine.in_flight() > 0 {
            yield_now().await;
        }
        assert_eq!(Arc::strong_count(&kept), 1);
        assert_eq!(pool.budget().in_use(), pool.idle_bytes());
    });
}

#[test]
fn an_engine_dropped_with_operations_in_flight_cancels_them() {
    let Some(engine) = uring(UringLimits::default()) else {
        return;
    };
    let (reader, _writer) = pipe().unwrap();
    let reader = Arc::new(reader);
    let pool = buffers();
    let started: Vec<_> = driven(&engine, async {
        let started = (0..100)
            .map(|_| engine.submit(read(&reader, 0, buf(&pool, &[0; 10]), 0..10), &own(), LANE))
            .collect();
        yield_now().await;
        started
    });
    assert_eq!(
        engine.in_flight(),
        100,
        "some with the kernel, some in the lane's queue"
    );
    let counters = engine.counters();
    let waiting = counters.figures().waiting;
    drop(engine);
    let got = counters.figures();
    assert_eq!((got.completed, got.left_out), (100 - waiting, waiting));
    assert_eq!(Arc::strong_count(&reader), 1, "nothing was leaked");
    let runtime = Builder::new_current_thread().build().unwrap();
    for one in started {
        let done = runtime.block_on(one);
        assert_eq!(done.result, Err(Errno::CANCELED));
        assert!(done.buf.is_some());
    }
    assert_eq!(pool.budget().in_use(), pool.idle_bytes());
}

#[test]
fn a_stalled_lane_leaves_the_ring_to_the_others() {
    let limits = UringLimits {
        in_flight_max: 16,
        lane_in_flight_max: 8,
        lane_queued_max: 20,
    };
    let Some(engine) = uring(limits) else { return };
    driven(&engine, async {
        let (reader, writer) = pipe().unwrap();
        let reader = Arc::new(reader);
        let scratch = Scratch::new();
        let file = Arc::new(scratch.file("f", b"x"));
        let pool = buffers();
        let stuck = || engine.submit(read(&reader, 0, buf(&pool, b"?"), 0..1), &own(), LANE);
        let stuck: Vec<_> = std::iter::repeat_with(stuck).take(28).collect();
        let refused = engine.submit(read(&reader, 0, buf(&pool, b"?"), 0..1), &own(), LANE);
        let refused = refused.await;
        assert_eq!(
            (refused.result, refused.buf.is_some()),
            (Err(Errno::AGAIN), true)
        );
        for _ in 0..100 {
            let op = read(&file, 0, buf(&pool, b"y"), 0..1);
            assert_eq!(engine.submit(op, &own(), Lane(2)).await.result, Ok(1));
        }
        assert_eq!(engine.in_flight(), 28);
        let counters = engine.counters();
        let got = counters.figures();
        assert_eq!((got.submitted, got.refused, got.in_flight), (129, 1, 28));
        assert_eq!((got.waited, got.waiting), (21, 20));
        assert!(
            got.handed_over >= 100,
            "one for each that was awaited: {got:?}"
        );
        rustix::io::write(&writer, &[b'!'; 28]).unwrap();
        for one in stuck {
            let done = one.await;
            assert_eq!((done.result, &done.buf.unwrap()[..]), (Ok(1), &b"!"[..]));
        }
        let got = counters.figures();
        assert_eq!((got.completed, got.in_flight, got.waiting), (128, 0, 0));
        assert_eq!((got.left_out, got.overflows), (0, 0));
    });
}

#[test]
fn a_full_lane_of_the_pool_hands_the_buffer_back() {
    let limits = PoolLimits {
        threads_max: 1,
        lane_threads_max: 1,
        queued_max: 0,
    };
    let pool = Pool::new(limits);
    let engine = Engine::threads(pool.clone());
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let blocker = pool
        .submit(LANE, receiver, |receiver| receiver.recv().unwrap_err())
        .unwrap();
    let scratch = Scratch::new();
    let file = Arc::new(scratch.file("f", b"x"));
    let op = read(&file, 0, buf(&buffers(), b"y"), 0..1);
    driven(&engine, async {
        let refused = engine.submit(op, &own(), LANE).await;
        assert_eq!(
            (refused.result, refused.buf.is_some()),
            (Err(Errno::AGAIN), true)
        );
        let got = engine.counters().figures();
        assert_eq!((got.submitted, got.refused, got.in_flight), (1, 1, 0));
        drop(sender);
        assert!(blocker.await.is_ok());
    });
}

#[test]
#[should_panic(expected = "the engine takes the identity as an argument")]
fn submitting_inside_a_guard_is_a_mistake() {
    let engine = Engine::threads(Pool::new(PoolLimits::default()));
    let scratch = Scratch::new();
    let op = fsync(&Arc::new(scratch.file("f", b"")), true);
    let _guard = identity::Guard::enter(&stranger()).unwrap();
    drop(engine.submit(op, &own(), LANE));
}

#[test]
#[should_panic(expected = "is not within")]
fn a_range_outside_the_buffer_is_a_mistake() {
    let engine = Engine::threads(Pool::new(PoolLimits::default()));
    let scratch = Scratch::new();
    let file = Arc::new(scratch.file("f", b""));
    drop(engine.submit(read(&file, 0, buf(&buffers(), b"y"), 0..2), &own(), LANE));
}
