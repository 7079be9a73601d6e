//! Busy polling: what the threads of the shards do between calls, as the kernel counts it.
//!
//! A process of its own, with one server at a time: the threads are found by their names.

mod support;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nfs_client::Nfs3;
use nfs_io::BusyPoll;
use nfs_wire::nfs3::{FileHandle, StableHow};
use parking_lot::Mutex;

use support::{Served, block_on, create, ok};

const CALLS: u64 = 250;
/// For what happens unless the code is broken.
const PATIENCE: Duration = Duration::from_secs(60);
/// Held by the test that has a server.
static ONE_SERVER: Mutex<()> = Mutex::new(());

/// The thread of a shard.
struct Shard(PathBuf);

impl Shard {
    /// The one that has answered a call: it has its name since.
    fn of_number(number: usize) -> Self {
        let name = format!("shard-{number}\n");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let threads = std::fs::read_dir("/proc/self/task").unwrap();
            let threads = threads.map(|thread| thread.unwrap().path());
            // Threads end meanwhile.
            let comm = |path: &PathBuf| std::fs::read_to_string(path.join("comm"));
            let found: Vec<_> = threads
                .filter(|path| comm(path).is_ok_and(|comm| comm == name))
                .collect();
            match <[PathBuf; 1]>::try_from(found) {
                Ok([path]) => return Self(path),
                // That of an earlier server, which is gone but for its name.
                Err(found) => assert!(Instant::now() < deadline, "{name}{found:?}"),
            }
            std::thread::yield_now();
        }
    }

    fn field(&self, name: &str) -> String {
        let status = std::fs::read_to_string(self.0.join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().to_owned()
    }

    /// How often it has slept.
    fn sleeps(&self) -> u64 {
        self.field("voluntary_ctxt_switches:").parse().unwrap()
    }

    /// Waits until it sleeps.
    fn until_asleep(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.field("State:").starts_with('S') {
            assert!(Instant::now() < deadline, "it does not sleep");
            std::thread::yield_now();
        }
    }

    /// How often it has stopped running: it slept, or others were to run.
    fn stops(&self) -> u64 {
        let interrupted: u64 = self.field("nonvoluntary_ctxt_switches:").parse().unwrap();
        self.sleeps() + interrupted
    }
}

async fn getattr(client: &Nfs3, object: &FileHandle) {
    ok(client.getattr(object).await);
}

#[test]
fn a_shard_that_polls_does_not_sleep_between_calls() {
    let _turn = ONE_SERVER.lock();
    let forever = BusyPoll::lasting(Duration::from_secs(3600));
    let served = Served::with(|config| config.server.busy_poll = forever);
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let shard = Shard::of_number(0);
        let file = create(&client, &root, b"f").await;
        let before = shard.sleeps();
        for call in 0..CALLS {
            getattr(&client, &file).await;
            if call % 10 == 0 {
                // What the engine and the helper threads have done is seen as well.
                let data = vec![7; 4096];
                ok(client
                    .write(&file, 0, StableHow::FileSync, data.into())
                    .await);
            }
        }
        // A lock may have been somebody else's now and then.
        let slept = shard.sleeps() - before;
        assert!(
            slept <= CALLS / 50,
            "it slept {slept} times in {CALLS} calls"
        );
    });
}

#[test]
fn a_shard_sleeps_at_once_or_when_the_time_is_over_and_costs_nothing_then() {
    let _turn = ONE_SERVER.lock();
    for poll in [BusyPoll::OFF, BusyPoll::of_microseconds(20), BusyPoll::AUTO] {
        let served = Served::with(|config| {
            config.server.busy_poll = poll;
            config.server.shards = Some(2);
        });
        block_on(async {
            let (first, second) = (served.client().await, served.client().await);
            let root = served.root(&first).await;
            getattr(&second, &root).await;
            let (idle, asked) = (Shard::of_number(0), Shard::of_number(1));
            idle.until_asleep();
            let before = idle.stops();
            for _ in 0..CALLS {
                asked.until_asleep();
                let slept = asked.sleeps();
                getattr(&second, &root).await;
                asked.until_asleep();
                assert!(asked.sleeps() > slept, "{poll}: it did not sleep again");
            }
            assert_eq!(idle.stops() - before, 0, "{poll}: the idle one ran");
            getattr(&first, &root).await;
            idle.until_asleep();
            assert!(
                idle.stops() > before,
                "{poll}: calls are not where they are thought to be"
            );
        });
    }
}
