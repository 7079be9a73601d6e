use std::sync::Arc;

use super::*;
use crate::identity::ServerIdentity;
use crate::testing::skip;
use crate::{Budget, BufferPool, Keep, Mode, probe};
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
