use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::*;
use crate::Client;
use crate::limits::HELPER_NICE_MORE;

fn limits(threads_max: usize, lane_threads_max: usize, queued_max: usize) -> PoolLimits {
    PoolLimits {
        threads_max,
        lane_threads_max,
        queued_max,
    }
}

fn wait_for<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

/// Something jobs block on until the test lets them go.
#[derive(Clone, Debug, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn pass(&self) {
        let mut open = self.0.0.lock();
        while !*open {
            self.0.1.wait(&mut open);
        }
    }

    fn open(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }
}

#[test]
fn returns_the_value_of_the_job() {
    let pool = Pool::new(PoolLimits::default());
    assert_eq!(wait_for(pool.run(Lane(1), || 6 * 7)), Ok(42));
}

fn nice_of_the_calling_thread() -> i32 {
    rustix::process::getpriority_process(None).unwrap()
}

#[test]
fn helpers_beyond_one_for_each_processor_come_behind() {
    let processors = std::thread::available_parallelism().unwrap().get();
    let pool = Pool::new(limits(processors + 3, processors + 3, 100));
    let gate = Gate::default();
    let busy: Vec<_> = (0..processors + 3)
        .map(|lane| {
            let job = |gate: Gate| {
                gate.pass();
                nice_of_the_calling_thread()
            };
            pool.submit(Lane(lane as u64), gate.clone(), job).unwrap()
        })
        .collect();
    while pool.stats().running < processors + 3 {
        std::thread::yield_now();
    }
    gate.open();
    let own = nice_of_the_calling_thread();
    let mut nice: Vec<i32> = busy.into_iter().map(|job| wait_for(job).unwrap()).collect();
    nice.sort_unstable();
    assert!(
        nice[..processors].iter().all(|nice| *nice == own),
        "{nice:?}"
    );
    assert!(
        nice[processors..]
            .iter()
            .all(|nice| *nice == own + HELPER_NICE_MORE),
        "{nice:?}"
    );
    while pool.stats().running > 0 {
        std::thread::yield_now();
    }
    for _ in 0..20 {
        let alone = wait_for(pool.run(Lane(1), nice_of_the_calling_thread));
        assert_eq!(alone, Ok(own), "a single job runs like any other program");
    }
}

#[test]
fn a_blocked_lane_leaves_threads_for_the_others() {
    let pool = Pool::new(limits(8, 8, 100));
    let gate = Gate::default();
    let mut stuck = Vec::new();
    for lane in [1, 2] {
        for _ in 0..20 {
            let gate = gate.clone();
            stuck.push(pool.submit(Lane(lane), gate, |gate| gate.pass()).unwrap());
        }
    }
    // Two stalled file systems, and the third still answers: its jobs run one after another.
    for n in 0..50 {
        assert_eq!(wait_for(pool.run(Lane(3), move || n)), Ok(n));
    }
    assert!(pool.stats().running <= 7, "{:?}", pool.stats());
    gate.open();
    for job in stuck {
        assert_eq!(wait_for(job), Ok(()));
    }
}

#[test]
fn a_lane_never_exceeds_its_share() {
    let pool = Pool::new(limits(16, 3, 1000));
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let jobs: Vec<_> = (0..200)
        .map(|_| {
            let (now, most) = (now.clone(), most.clone());
            pool.run(Lane(1), move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    for job in jobs {
        wait_for(job).unwrap();
    }
    assert!((1..=3).contains(&most.load(Ordering::SeqCst)));
    assert!(pool.stats().threads_peak <= 3);
}

#[test]
fn starts_in_order_within_a_lane() {
    let pool = Pool::new(limits(4, 1, 1000));
    let order = Arc::new(Mutex::new(Vec::new()));
    let jobs: Vec<_> = (0..100)
        .map(|n| {
            let order = order.clone();
            pool.run(Lane(9), move || order.lock().push(n))
        })
        .collect();
    for job in jobs {
        wait_for(job).unwrap();
    }
    assert_eq!(*order.lock(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_full_lane_refuses_and_hands_the_job_back() {
    let pool = Pool::new(limits(1, 1, 2));
    let gate = Gate::default();
    let (started, has_started) = mpsc::channel();
    let blocker = gate.clone();
    let first = pool
        .submit(Lane(1), blocker, move |blocker| {
            started.send(()).unwrap();
            blocker.pass();
        })
        .unwrap();
    has_started.recv().unwrap();
    let second = pool.submit(Lane(1), (), |()| ()).unwrap();
    let third = pool.submit(Lane(1), (), |()| ()).unwrap();
    let refused = pool.submit(Lane(1), 5, |five| five).unwrap_err();
    assert_eq!((refused.why, refused.input), (PoolFull::Lane(Lane(1)), 5));
    let elsewhere = pool.submit(Lane(2), (), |()| ()).unwrap();
    gate.open();
    for job in [first, second, third, elsewhere] {
        assert_eq!(wait_for(job), Ok(()));
    }
    assert_eq!((pool.stats().accepted, pool.stats().refused), (4, 1));
}

#[test]
fn a_dropped_future_does_not_stop_its_job() {
    let pool = Pool::new(limits(1, 1, 10));
    let (sender, receiver) = mpsc::channel();
    drop(pool.run(Lane(1), move || sender.send(7).unwrap()));
    assert_eq!(receiver.recv(), Ok(7));
}

#[test]
fn shutdown_drops_what_has_not_started_and_waits_for_what_runs() {
    let pool = Pool::new(limits(1, 1, 10));
    let gate = Gate::default();
    let (started, has_started) = mpsc::channel();
    let blocker = gate.clone();
    let running = pool
        .submit(Lane(1), blocker, move |blocker| {
            started.send(()).unwrap();
            blocker.pass();
            1
        })
        .unwrap();
    has_started.recv().unwrap();
    let queued = pool.submit(Lane(1), 2, |two| two).unwrap();
    assert_eq!(pool.shutdown(Duration::ZERO), 1, "one job left to itself");
    assert_eq!(wait_for(queued), Err(PoolFull::Closed));
    assert_eq!(wait_for(pool.run(Lane(1), || 3)), Err(PoolFull::Closed));
    gate.open();
    assert_eq!(pool.shutdown(Duration::from_secs(60)), 0);
    assert_eq!(wait_for(running), Ok(1));
    assert_eq!(pool.stats().threads, 0);
}

#[test]
fn a_job_may_hold_the_last_clone_of_its_pool() {
    let pool = Pool::new(limits(2, 2, 10));
    let clone = pool.clone();
    let gate = Gate::default();
    let blocker = gate.clone();
    let job = pool
        .submit(Lane(1), (blocker, clone), |(blocker, clone)| {
            blocker.pass();
            drop(clone);
        })
        .unwrap();
    drop(pool);
    gate.open();
    assert_eq!(wait_for(job), Ok(()));
}

#[test]
fn a_panicking_job_panics_its_waiter_and_spares_the_thread() {
    let pool = Pool::new(limits(1, 1, 10));
    let job = pool.run(Lane(1), || -> u32 { panic!("on purpose") });
    assert!(catch_unwind(AssertUnwindSafe(|| wait_for(job))).is_err());
    assert_eq!(wait_for(pool.run(Lane(1), || 1)), Ok(1));
    assert_eq!(pool.stats().threads_peak, 1);
}

#[test]
fn who_fills_a_lane_is_pushed_out_by_another_client() {
    let of = |network| Queue {
        lane: Lane(1),
        client: Client {
            network,
            machine: 1,
        },
        weight: None,
    };
    let pool = Pool::new(limits(1, 1, 4));
    let gate = Gate::default();
    let (started, has_started) = mpsc::channel();
    let blocker = gate.clone();
    let first = pool
        .submit(of(1), blocker, move |blocker| {
            started.send(()).unwrap();
            blocker.pass();
            0
        })
        .unwrap();
    has_started.recv().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let job = || {
        let order = Arc::clone(&order);
        move |n: u32| order.lock().push(n)
    };
    let mut greedy: Vec<_> = (1..=3)
        .map(|n| pool.submit(of(1), n, job()).unwrap())
        .collect();
    let instead = pool.submit_or(of(1), 4, |_| "ran", |_| "pushed out", |_| false);
    let polite: Vec<_> = (10..12)
        .map(|n| pool.submit(of(2), n, job()).unwrap())
        .collect();
    assert!(pool.submit(of(2), 12, job()).is_err(), "it has its share");
    assert_eq!(wait_for(instead.unwrap()), Ok("pushed out"));
    assert_eq!(
        wait_for(greedy.pop().unwrap()),
        Err(PoolFull::Lane(Lane(1)))
    );
    gate.open();
    assert_eq!(wait_for(first), Ok(0));
    for job in greedy.into_iter().chain(polite) {
        wait_for(job).unwrap();
    }
    assert_eq!(*order.lock(), [1, 10, 2, 11]);
    assert_eq!((pool.stats().accepted, pool.stats().refused), (7, 3));
}

#[test]
fn what_may_be_left_does_not_begin_when_nobody_waits_for_it() {
    let pool = Pool::new(limits(1, 1, 10));
    let gate = Gate::default();
    let (started, has_started) = mpsc::channel();
    let blocker = gate.clone();
    let first = pool.submit(Lane(1), blocker, move |blocker| {
        started.send(()).unwrap();
        blocker.pass();
    });
    has_started.recv().unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let submit = |bit: usize| {
        let input = (Arc::clone(&done), bit);
        let set = |(done, bit): (Arc<AtomicUsize>, usize)| {
            done.fetch_or(1 << bit, Ordering::SeqCst);
        };
        // Even ones may be left.
        let submitted = pool.submit_or(Lane(1).into(), input, set, drop, |(_, bit)| bit % 2 == 0);
        submitted.unwrap()
    };
    drop((submit(0), submit(1)));
    let awaited = [submit(2), submit(3)];
    gate.open();
    wait_for(first.unwrap()).unwrap();
    for job in awaited {
        wait_for(job).unwrap();
    }
    assert_eq!(done.load(Ordering::SeqCst), 0b1110);
}

#[test]
fn a_job_may_give_its_value_after_its_end_or_never() {
    let pool = Pool::new(limits(1, 1, 10));
    let (sender, receiver) = mpsc::channel();
    let later = pool.run_giving(Lane(1), None, move |give: Give<u32>| {
        sender.send(give).unwrap()
    });
    let give = receiver.recv().unwrap();
    // The thread is free again.
    assert_eq!(wait_for(pool.run(Lane(1), || 1)), Ok(1));
    give.give(2);
    assert_eq!(wait_for(later), Ok(2));
    let never = pool.run_giving(Lane(1), None, drop::<Give<u32>>);
    assert_eq!(wait_for(never), Err(PoolFull::Closed));
    let panics = pool.run_giving(Lane(1), None, |_give: Give<u32>| panic!("as it is to"));
    let panicked = catch_unwind(AssertUnwindSafe(|| wait_for(panics)));
    assert!(panicked.is_err());
    assert_eq!(wait_for(pool.run(Lane(1), || 3)), Ok(3));
    pool.shutdown(Duration::from_secs(60));
    let closed = pool.run_giving(Lane(1), None, |give: Give<u32>| give.give(4));
    assert_eq!(wait_for(closed), Err(PoolFull::Closed));
}

#[test]
fn what_runs_behind_a_lane_comes_after_what_waits_there_and_is_never_refused() {
    let pool = Pool::new(limits(1, 1, 2));
    let gate = Gate::default();
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let order = Arc::clone(&order);
        move || order.lock().push(name)
    };
    let (started, has_started) = mpsc::channel();
    let (blocker, last) = (gate.clone(), note("asked for by a job"));
    let own = pool.clone();
    let first = pool.run(Lane(1), move || {
        started.send(()).unwrap();
        blocker.pass();
        own.run_behind(Lane(1), last);
    });
    has_started.recv().unwrap();
    let second = pool.run(Lane(1), note("second"));
    let third = pool.run(Lane(1), note("third"));
    assert!(
        wait_for(pool.run(Lane(1), || ())).is_err(),
        "the lane is full"
    );
    pool.run_behind(Lane(1), note("behind"));
    pool.run_behind(Lane(1), || panic!("nobody is told, and nothing else ends"));
    gate.open();
    wait_for(first).unwrap();
    for job in [second, third] {
        wait_for(job).unwrap();
    }
    while order.lock().len() < 4 {
        std::thread::yield_now();
    }
    let order = order.lock();
    assert_eq!(*order, ["second", "third", "behind", "asked for by a job"]);
    // On a pool that is closed it is dropped.
    pool.shutdown(Duration::from_secs(60));
    let (sender, receiver) = mpsc::channel::<()>();
    pool.run_behind(Lane(1), move || sender.send(()).unwrap());
    assert!(receiver.recv().is_err());
}

#[test]
fn what_is_left_to_a_thread_that_is_stuck_is_taken_by_who_watches() {
    // The threads that watch are those beyond one for each processor.
    let threads = std::thread::available_parallelism().unwrap().get() + 3;
    let pool = Pool::new(limits(2 * threads, threads, 100));
    let begun = Arc::new(AtomicUsize::new(0));
    let run = |gate: &Gate| {
        let (gate, begun) = (gate.clone(), Arc::clone(&begun));
        pool.run_giving(Lane(1), Some(KernelLock(7)), move |give| {
            begun.fetch_add(1, Ordering::SeqCst);
            gate.pass();
            give.give(());
        })
    };
    let is_watched = || pool.handle.0.state.lock().crowds.is_watched;
    let left = || pool.handle.0.state.lock().crowds.left;
    let open = Gate::default();
    open.open();
    // Whether some were left is seen only where this thread is quick; they are taken each time.
    let mut were_left = false;
    while !were_left {
        // Each of these has a thread, at once or by who watches.
        let gate = Gate::default();
        begun.store(0, Ordering::SeqCst);
        let busy: Vec<_> = (0..threads).map(|_| run(&gate)).collect();
        while begun.load(Ordering::SeqCst) < threads {
            std::thread::yield_now();
        }
        gate.open();
        for job in busy {
            assert_eq!(wait_for(job), Ok(()));
        }
        while !is_watched() && pool.handle.0.state.lock().crowds.want_a_watch() {
            std::thread::yield_now();
        }
        let gate = Gate::default();
        let stuck = run(&gate);
        let others: Vec<_> = (0..5).map(|_| run(&open)).collect();
        were_left = left() > 0;
        for job in others {
            assert_eq!(wait_for(job), Ok(()));
        }
        gate.open();
        assert_eq!(wait_for(stuck), Ok(()));
    }
    assert_eq!(left(), 0);
}
