use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::identity::ServerIdentity;
use crate::testing::{HangingFs, disk_fs, skip};
use crate::{Budget, BufferPool, Keep, Mode, WriteSync, WriteWaits, fs, probe};
use crate::{Client, Lane};

#[test]
fn what_cannot_be_cancelled_is_leaked_not_freed() {
    if let Err(reason) = probe::uring() {
        skip!("{reason}");
    }
    let ring = Uring::new(UringLimits::default()).unwrap();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let file = Arc::new(reader);
    let pool = BufferPool::new(Budget::new(1 << 20));
    let (offset, buf, range) = (0, pool.try_take(8).unwrap(), 0..8);
    let read = Op::Read {
        file: file.clone(),
        offset,
        buf,
        range,
        mode: Mode::Buffered,
        may_wait: false,
        keep: Keep::none(),
    };
    let waiter = ring.submit(read, ServerIdentity::current().creds(), Lane(1).into());
    {
        let mut inner = ring.inner.borrow_mut();
        assert_eq!(inner.exchange(), Ok(Exchanged::All));
        inner.patience = Duration::ZERO;
    }
    drop(ring);
    let Poll::Ready(done) = waiter.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("answered when the ring went away");
    };
    assert_eq!(
        (done.result, done.buf.is_none()),
        (Err(Errno::CANCELED), true)
    );
    assert!(Arc::strong_count(&file) > 1, "the file stays open");
    assert!(
        pool.budget().in_use() > pool.idle_bytes(),
        "the memory stays allocated"
    );
    rustix::io::write(&writer, b"too late").unwrap();
}

#[test]
fn a_resumed_operation_asks_for_the_rest() {
    if let Err(reason) = probe::uring() {
        skip!("{reason}");
    }
    let ring = Uring::new(UringLimits::default()).unwrap();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let pool = BufferPool::new(Budget::new(1 << 20));
    let (offset, buf, range) = (0, pool.try_take(12).unwrap(), 2..12);
    let read = Op::Read {
        file: Arc::new(reader),
        offset,
        buf,
        range,
        mode: Mode::Buffered,
        may_wait: false,
        keep: Keep::none(),
    };
    let waiter = ring.submit(read, ServerIdentity::current().creds(), Lane(1).into());
    let mut context = Context::from_waker(Waker::noop());
    for part in [&b"ab"[..], b"cdefg", b"hij"] {
        assert!(waiter.poll(&mut context).is_pending());
        rustix::io::write(&writer, part).unwrap();
        let mut inner = ring.inner.borrow_mut();
        inner.submit().unwrap();
        inner.io_uring.submit_and_wait(1).unwrap();
        inner.exchange().unwrap();
    }
    let Poll::Ready(done) = waiter.poll(&mut context) else {
        panic!("all bytes are there")
    };
    assert_eq!(
        (done.result, &done.buf.unwrap()[2..]),
        (Ok(10), &b"abcdefghij"[..])
    );
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn many_bytes_are_handed_over_at_once_and_few_wait_for_their_turn() {
    if let Err(reason) = probe::uring() {
        skip!("{reason}");
    }
    let ring = Uring::new(UringLimits::default()).unwrap();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    rustix::io::write(&writer, b"0123456789").unwrap();
    let file = Arc::new(reader);
    let pool = BufferPool::new(Budget::new(1 << 20));
    let mut context = Context::from_waker(Waker::noop());
    assert!(!ring.hand_over(0), "nothing is queued");
    let read = || {
        let op = Op::Read {
            file: file.clone(),
            offset: 0,
            buf: pool.try_take(5).unwrap(),
            range: 0..5,
            mode: Mode::Buffered,
            may_wait: false,
            keep: Keep::none(),
        };
        ring.submit(op, ServerIdentity::current().creds(), Lane(1).into())
    };
    let first = read();
    assert!(!ring.hand_over(6));
    assert!(first.poll(&mut context).is_pending());
    let second = read();
    assert!(ring.hand_over(6), "ten bytes are queued by now");
    for waiter in [first, second] {
        let Poll::Ready(done) = waiter.poll(&mut context) else {
            panic!("the bytes were there")
        };
        assert_eq!(done.result, Ok(5));
    }
    assert!(
        !ring.hand_over(1),
        "what was handed over is not counted again"
    );
}

/// How often this thread has gone to sleep so far.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let count = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}

#[test]
fn whoever_hands_over_a_stable_write_does_not_wait_for_the_disk() {
    if let Err(reason) = probe::uring() {
        skip!("{reason}");
    }
    // Ext4 takes no buffered WRITE without a worker, whatever it asks for.
    let dir = match disk_fs("xfs", 512) {
        Ok(dir) => dir,
        Err(reason) => skip!("{reason}"),
    };
    let ring = Uring::new(UringLimits::default()).unwrap();
    let pool = BufferPool::new(Budget::new(1 << 20));
    let file = Arc::new(fs::tmpfile(dir.as_fd(), 0o600).unwrap());
    // A WRITE that needs no new block is taken at once: what extends a file goes to a worker in any case.
    rustix::io::pwrite(&file, &[1; 16 * 4096], 0).unwrap();
    rustix::fs::fsync(&file).unwrap();
    let mut slept = 0;
    let mut context = Context::from_waker(Waker::noop());
    for turn in 0..16 {
        let write = Op::Write {
            file: file.clone(),
            offset: turn * 4096,
            buf: pool.try_take(4096).unwrap(),
            range: 0..4096,
            sync: [WriteSync::Dsync, WriteSync::Sync][turn as usize % 2],
            mode: Mode::Buffered,
            may_wait: false,
            keep: Keep::none(),
        };
        let waiter = ring.submit(write, ServerIdentity::current().creds(), Lane(1).into());
        let mut inner = ring.inner.borrow_mut();
        let before = sleeps();
        inner.submit().unwrap();
        slept += sleeps() - before;
        inner.io_uring.submit_and_wait(1).unwrap();
        inner.exchange().unwrap();
        drop(inner);
        let Poll::Ready(done) = waiter.poll(&mut context) else {
            panic!("it has ended")
        };
        assert_eq!(done.result, Ok(4096));
    }
    assert!(slept < 16, "{slept} times for 16 WRITEs");
}

/// Ends with the disk going on, when this thread waits within a submission for a page to be written back (`true`)
/// or has got on, whichever comes first.
fn waits_for(disk: &HangingFs, thread: &str, got_on: &AtomicBool) -> bool {
    let waits = loop {
        // Its state alone would not tell: a thread waits in the kernel for a moment for much else, for the lock of the
        // process's memory among it, and in a plain write(2) where other programs have written a great deal.
        let stack = std::fs::read_to_string(format!("/proc/self/task/{thread}/stack")).unwrap();
        if stack.contains("io_submit_sqes") && stack.contains("folio_wait_") {
            break true;
        }
        if got_on.load(Ordering::Acquire) {
            break false;
        }
        std::thread::yield_now();
    };
    disk.go_on();
    waits
}

#[test]
fn whoever_hands_over_a_write_to_a_page_under_write_back_does_not_wait_for_the_disk() {
    const TURNS: usize = 16;
    if let Err(reason) = probe::uring() {
        skip!("{reason}");
    }
    // Ext4 takes no buffered WRITE without a worker, whatever it asks for.
    let disk = match HangingFs::with_stable_pages("xfs") {
        Ok(disk) => disk,
        Err(reason) => skip!("{reason}"),
    };
    let root = disk.root.as_fd();
    let fs_type = fs::statfs(root).unwrap().fs_type;
    let waits = WriteWaits::of(fs_type, fs::statx(root).unwrap().dev);
    assert_eq!(waits, WriteWaits::ForWriteBack);
    let ring = Uring::new(UringLimits::default()).unwrap();
    let pool = BufferPool::new(Budget::new(1 << 20));
    let write_page = |file: &OwnedFd| assert_eq!(rustix::io::pwrite(file, &[1; 4096], 0), Ok(4096));
    // A file for each, as a worker that waits has the lock of its file.
    let files = [(); TURNS].map(|()| {
        let file = fs::tmpfile(root, 0o600).unwrap();
        // From here on no WRITE to it needs a new block.
        write_page(&file);
        rustix::fs::fsync(&file).unwrap();
        Arc::new(file)
    });
    disk.hang();
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    let thread = thread.file_name().unwrap().to_str().unwrap();
    let got_on = AtomicBool::new(false);
    let mut waiters = Vec::new();
    let waited = std::thread::scope(|scope| {
        let watch = scope.spawn(|| waits_for(&disk, thread, &got_on));
        for file in &files {
            // A WRITE is tried at once only if it need not change the times of the file: soon after another.
            write_page(file);
            let (fd, flags) = (file.as_raw_fd(), libc::SYNC_FILE_RANGE_WRITE);
            // SAFETY: the descriptor is open, and the call touches no memory of ours.
            let begun = unsafe { libc::sync_file_range(fd, 0, 4096, flags) };
            assert_eq!(begun, 0);
            let write = Op::Write {
                file: file.clone(),
                offset: 0,
                buf: pool.try_take(4096).unwrap(),
                range: 0..4096,
                sync: WriteSync::None,
                mode: Mode::Buffered,
                may_wait: waits != WriteWaits::Never,
                keep: Keep::none(),
            };
            waiters.push(ring.submit(write, ServerIdentity::current().creds(), Lane(1).into()));
            assert_eq!(ring.inner.borrow_mut().submit(), Ok(true));
        }
        got_on.store(true, Ordering::Release);
        watch.join().unwrap()
    });
    assert!(!waited, "a submission waited for the disk");
    let mut inner = ring.inner.borrow_mut();
    inner.io_uring.submit_and_wait(TURNS).unwrap();
    inner.exchange().unwrap();
    drop(inner);
    for waiter in waiters {
        let Poll::Ready(done) = waiter.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("it has ended")
        };
        assert_eq!(done.result, Ok(4096));
    }
}

#[test]
fn a_full_lane_answers_the_latest_of_who_has_most_and_takes_the_newcomer() {
    if let Err(reason) = probe::uring() {
        skip!("{reason}");
    }
    let limits = UringLimits {
        lane_in_flight_max: 1,
        lane_queued_max: 2,
        ..UringLimits::default()
    };
    let ring = Uring::new(limits).unwrap();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let file = Arc::new(reader);
    let pool = BufferPool::new(Budget::new(1 << 20));
    let mut context = Context::from_waker(Waker::noop());
    let read = |host: u8| {
        let op = Op::Read {
            file: file.clone(),
            offset: 0,
            buf: pool.try_take(1).unwrap(),
            range: 0..1,
            mode: Mode::Buffered,
            may_wait: false,
            keep: Keep::none(),
        };
        let queue = Queue {
            lane: Lane(1),
            client: Client::at([192, 0, 2, host].into(), 0),
            weight: None,
        };
        ring.submit(op, ServerIdentity::current().creds(), queue)
    };
    let mut answer = |waiter: &Waiter| match waiter.poll(&mut context) {
        Poll::Ready(done) => Some(done.result),
        Poll::Pending => None,
    };
    let greedy = [read(1), read(1), read(1)];
    let refused = read(1);
    assert_eq!(answer(&refused), Some(Err(Errno::AGAIN)), "nobody has less");
    assert!(greedy.iter().all(|waiter| answer(waiter).is_none()));
    // Another host's first one has a place of its own, and its second takes one of those that wait.
    let polite = [read(2), read(2)];
    assert_eq!(answer(&greedy[2]), Some(Err(Errno::AGAIN)), "the latest");
    assert!(
        polite
            .iter()
            .chain(&greedy[..2])
            .all(|waiter| answer(waiter).is_none())
    );
    rustix::io::write(&writer, b"four").unwrap();
    while ring.in_flight() > 0 {
        let mut inner = ring.inner.borrow_mut();
        inner.submit().unwrap();
        inner.io_uring.submit_and_wait(1).unwrap();
        inner.exchange().unwrap();
    }
    for waiter in greedy[..2].iter().chain(&polite) {
        assert_eq!(answer(waiter), Some(Ok(1)));
    }
}
