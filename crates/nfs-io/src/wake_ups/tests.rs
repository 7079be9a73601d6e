use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot;

use super::*;

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn woken(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn counting() -> (Arc<Count>, Waker) {
    let count = Arc::<Count>::default();
    (Arc::clone(&count), Waker::from(count))
}

fn on_another_thread(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(work);
    });
}

#[test]
fn an_event_loop_is_woken_once_for_all_that_is_done_together() {
    let (event_loop, loop_waker) = counting();
    let mut gathering = Box::pin(gather());
    let mut context = Context::from_waker(&loop_waker);
    assert!(gathering.as_mut().poll(&mut context).is_pending());
    let (task, task_waker) = counting();
    let mut task_context = Context::from_waker(&task_waker);
    let mut await_one = || {
        let (sender, receiver) = oneshot::channel();
        let mut receiver = gathered(receiver);
        assert!(Pin::new(&mut receiver).poll(&mut task_context).is_pending());
        (sender, receiver)
    };
    let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..8).map(|_| await_one()).unzip();
    on_another_thread(|| {
        together(|| {
            for (number, sender) in senders.into_iter().enumerate() {
                sender.send(number).unwrap();
            }
            // One within another takes nothing of its list.
            together(|| ());
            assert_eq!(event_loop.woken(), 0, "not before all is done");
        });
    });
    assert_eq!((event_loop.woken(), task.woken()), (1, 0));
    assert!(gathering.as_mut().poll(&mut context).is_pending());
    assert_eq!((event_loop.woken(), task.woken()), (1, 8));
    for (number, receiver) in receivers.iter_mut().enumerate() {
        let mut context = Context::from_waker(&task_waker);
        assert_eq!(
            Pin::new(receiver).poll(&mut context),
            Poll::Ready(Ok(number))
        );
    }
    // One by one: each is told while the event loop has not looked, or by a wake-up of its own.
    let (first, second) = (await_one(), await_one());
    on_another_thread(|| first.0.send(1).unwrap());
    assert_eq!(event_loop.woken(), 2);
    on_another_thread(|| second.0.send(2).unwrap());
    assert_eq!(event_loop.woken(), 2, "it knows already");
    assert!(gathering.as_mut().poll(&mut context).is_pending());
    assert_eq!(task.woken(), 10);
    let third = await_one();
    on_another_thread(|| third.0.send(3).unwrap());
    assert_eq!(event_loop.woken(), 3);
    // What waits when the event loop ends is woken all the same, and what comes later.
    let fourth = await_one();
    drop(gathering);
    assert_eq!(task.woken(), 11);
    on_another_thread(|| fourth.0.send(4).unwrap());
    assert_eq!((event_loop.woken(), task.woken()), (3, 12));
}

#[test]
fn somebody_else_wakes_the_event_loop_while_one_gathers() {
    let (event_loop, loop_waker) = counting();
    let mut gathering = pin!(gather());
    let mut context = Context::from_waker(&loop_waker);
    assert!(gathering.as_mut().poll(&mut context).is_pending());
    let await_one = || {
        let (sender, receiver) = oneshot::channel::<()>();
        let mut receiver = gathered(receiver);
        let (_, waker) = counting();
        let mut context = Context::from_waker(&waker);
        assert!(Pin::new(&mut receiver).poll(&mut context).is_pending());
        (sender, receiver)
    };
    let (one, other) = (await_one(), await_one());
    on_another_thread(|| {
        together(|| {
            one.0.send(()).unwrap();
            on_another_thread(|| other.0.send(()).unwrap());
            assert_eq!(event_loop.woken(), 1, "it does not wait for the first");
        });
    });
    assert_eq!(event_loop.woken(), 1);
}

#[test]
fn without_an_event_loop_that_gathers_the_task_is_woken() {
    let (task, waker) = counting();
    let (sender, receiver) = oneshot::channel();
    let mut receiver = gathered(receiver);
    let mut context = Context::from_waker(&waker);
    assert!(Pin::new(&mut receiver).poll(&mut context).is_pending());
    together(|| sender.send(()).unwrap());
    assert_eq!(task.woken(), 1);
}
