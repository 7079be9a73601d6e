//! Windows on simulated links: no clock, and the same numbers each time.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;
const MOST: u32 = 32;
/// Depths that the found one is compared with.
const FIXED: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// A server at the other end of a link. Times are in microseconds; a transfer is 1 MiB at first.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// From a call to the first byte of its reply.
    latency: u64,
    /// The most that this is longer, at random, for each transfer.
    jitter: u64,
    /// What the link takes for 1 MiB.
    mib: u64,
    /// The most that this is longer, at random.
    noise: u64,
    /// What each call costs the server beside that, whatever its size.
    call: u64,
    /// Nothing moves for the second time in each of the first; none if 0.
    stall: (u64, u64),
    /// The user takes so long for each transfer.
    user: u64,
    /// The user does nothing for the second time after each so many transfers; never if 0.
    nap: (u64, u64),
}

/// Windows at work over one link.
struct Run {
    readers: Vec<Reader>,
    now: u64,
    /// When the link is free again.
    free: u64,
    chance: u64,
}

struct Reader {
    window: Window,
    /// What is in flight, oldest first: when each arrives.
    flying: VecDeque<(Sent, u64)>,
    /// When its user comes for the next.
    comes: u64,
    moved: u64,
}

impl Run {
    fn new(depth: Depth) -> Self {
        Self::of([Window::new(depth, None, MOST)])
    }

    fn of(windows: impl IntoIterator<Item = Window>) -> Self {
        let reader = |window| Reader {
            window,
            flying: VecDeque::new(),
            comes: 0,
            moved: 0,
        };
        Self {
            readers: windows.into_iter().map(reader).collect(),
            now: 0,
            free: 0,
            chance: 88_172_645_463_325_252,
        }
    }

    fn window(&self) -> &Window {
        &self.readers[0].window
    }

    fn depth(&self) -> u32 {
        self.window().depth()
    }

    fn up_to(&mut self, most: u64) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % (most + 1)
    }

    /// When a transfer of `bytes` arrives that is sent now.
    fn arrives(&mut self, link: &Link, bytes: u64) -> u64 {
        let ready = self.now + link.latency + self.up_to(link.jitter);
        let mut start = ready.max(self.free);
        let (every, long) = link.stall;
        if every > 0 && start % every < long {
            start += long - start % every;
        }
        let takes = link.mib + self.up_to(link.noise);
        self.free = start + takes * bytes / MIB + link.call;
        self.free
    }

    /// Moves `mib` over `link`, for all readers together; the rate in MiB/s.
    fn moves(&mut self, link: &Link, mib: u64) -> f64 {
        self.each(link, mib, |_| ())
    }

    fn each(&mut self, link: &Link, mib: u64, mut look: impl FnMut(&Self)) -> f64 {
        let (start, mut left) = (self.now, mib * MIB);
        let windows = u32::try_from(self.readers.len()).unwrap();
        while left > 0 {
            for index in 0..self.readers.len() {
                self.fill(link, index);
            }
            let due = |reader: &Reader| reader.flying[0].1.max(reader.comes);
            let next = (0..self.readers.len()).min_by_key(|index| due(&self.readers[*index]));
            let reader = &mut self.readers[next.unwrap()];
            self.now = due(reader).max(self.now);
            let (sent, arrived) = reader.flying.pop_front().unwrap();
            let bytes = MIB << reader.window.doubled();
            let (now, answered) = (micros(self.now), micros(arrived));
            let moved = Transferred {
                sent,
                answered,
                bytes,
                readers: 1,
                windows,
            };
            reader.window.moved(now, &moved);
            reader.moved += 1;
            reader.comes = self.now + link.user;
            if link.nap.0 > 0 && reader.moved.is_multiple_of(link.nap.0) {
                reader.comes += link.nap.1;
            }
            left = left.saturating_sub(bytes);
            look(self);
        }
        as_f64(mib) * 1e6 / as_f64((self.now - start).max(1))
    }

    fn fill(&mut self, link: &Link, index: usize) {
        while self.readers[index].flying.len() < self.readers[index].window.depth() as usize {
            let bytes = MIB << self.readers[index].window.doubled();
            let arrives = self.arrives(link, bytes);
            let now = micros(self.now);
            let reader = &mut self.readers[index];
            let sent = reader.window.sent(now);
            reader.flying.push_back((sent, arrives));
        }
    }
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// The rate with the best fixed depth, and that depth.
fn best_fixed(link: &Link, mib: u64) -> (f64, u32) {
    let rate = |depth| (Run::new(Depth::Fixed(depth)).moves(link, mib), depth);
    let rates = FIXED.map(rate);
    rates.into_iter().fold(
        (0.0, 0),
        |best, rate| if rate.0 > best.0 { rate } else { best },
    )
}

/// What is wrong with links of the table: none, one, or several troubles.
fn troubled(latency: u64, mib: u64) -> [Link; 5] {
    let calm = Link {
        latency,
        mib,
        ..Link::default()
    };
    let (noise, jitter) = (mib, latency * 2);
    let noisy = Link { noise, ..calm };
    let jittery = Link { jitter, ..calm };
    let both = Link { noise, ..jittery };
    let stalling = Link {
        stall: (200_000, 20_000),
        ..calm
    };
    [calm, noisy, jittery, both, stalling]
}

#[test]
fn it_is_as_good_as_the_best_fixed_one() {
    for latency in [0, 50, 200, 2000, 20_000, 100_000] {
        for mib in [100, 350, 1000, 10_000] {
            for link in troubled(latency, mib) {
                let mut run = Run::new(Depth::Measured);
                run.moves(&link, 200);
                let rate = run.moves(&link, 2000);
                let (best, at) = best_fixed(&link, 2000);
                assert!(
                    rate >= 0.94 * best,
                    "depth {}: {rate}, depth {at}: {best}: {link:?}",
                    run.depth()
                );
            }
        }
    }
}

#[test]
fn its_beginning_costs_little() {
    // The least part of the best fixed rate that 1 GiB goes at from its first byte.
    let table = [(0, 0.97), (200, 0.97), (2000, 0.9), (20_000, 0.85)];
    for (latency, least) in table {
        for mib in [100, 350, 1000] {
            let link = Link {
                latency,
                mib,
                ..Link::default()
            };
            let rate = Run::new(Depth::Measured).moves(&link, 1024);
            let (best, _) = best_fixed(&link, 1024);
            assert!(rate >= least * best, "{rate} of {best}: {link:?}");
        }
    }
}

#[test]
fn it_takes_little_more_than_fills_the_pipe() {
    for latency in [0, 50, 200, 2000, 20_000, 100_000] {
        for mib in [100, 350, 1000, 10_000] {
            let [calm, noisy, ..] = troubled(latency, mib);
            for link in [calm, noisy] {
                let mut run = Run::new(Depth::Measured);
                run.moves(&link, 200);
                let mut depths = Vec::new();
                run.each(&link, 2000, |run| depths.push(run.depth()));
                depths.sort_unstable();
                // Latency and one transfer, by what one transfer takes.
                let fills = 1 + latency.div_ceil(mib);
                let high = u64::from(depths[depths.len() * 9 / 10]);
                assert!(
                    high <= (5 * fills / 2 + 4).min(u64::from(MOST)),
                    "{high}, not {fills}: {link:?}"
                );
            }
        }
    }
}

#[test]
fn a_user_slower_than_the_server_needs_no_window() {
    for user in [2000, 20_000] {
        let mut run = Run::new(Depth::Measured);
        let link = Link {
            latency: 500,
            mib: 1000,
            user,
            ..Link::default()
        };
        let rate = run.moves(&link, 3000);
        assert_eq!(run.depth(), DEPTH_MIN, "user {user}");
        assert!(rate * as_f64(user) >= 0.99e6, "{rate}");
    }
}

#[test]
fn a_user_that_pauses_keeps_most_of_the_throughput() {
    for latency in [0, 200, 2000, 20_000] {
        for mib in [100, 350, 1000] {
            let link = Link {
                latency,
                mib,
                nap: (100, 20_000),
                ..Link::default()
            };
            let mut run = Run::new(Depth::Measured);
            run.moves(&link, 200);
            let rate = run.moves(&link, 2000);
            let (best, _) = best_fixed(&link, 2000);
            assert!(rate >= 0.78 * best, "{rate} of {best}: {link:?}");
        }
    }
}

#[test]
fn it_follows_a_link_that_changes() {
    // Latency and time for 1 MiB, before and after.
    let table = [
        ((100, 1000), (10_000, 1000)),
        ((10_000, 1000), (100, 1000)),
        ((2000, 350), (20_000, 350)),
        ((20_000, 350), (0, 350)),
        ((0, 100), (100_000, 1000)),
        ((2000, 100), (2000, 2000)),
        ((2000, 2000), (2000, 100)),
    ];
    for ((latency, mib), (later, slower)) in table {
        let link = |latency, mib| Link {
            latency,
            mib,
            noise: mib / 4,
            ..Link::default()
        };
        let (before, after) = (link(latency, mib), link(later, slower));
        let mut run = Run::new(Depth::Measured);
        run.moves(&before, 2000);
        run.moves(&after, 200);
        let rate = run.moves(&after, 1000);
        let (best, _) = best_fixed(&after, 1000);
        assert!(rate >= 0.85 * best, "{rate} of {best}: {after:?}");
        // What is too deep by now is seen when the latency is measured next.
        run.moves(&after, 20_000);
        let fills = 1 + u64::from(u32::try_from(later.div_ceil(slower)).unwrap());
        let depth = u64::from(run.depth());
        assert!(depth <= (5 * fills / 2 + 4).min(32), "{depth}: {after:?}");
    }
}

#[test]
fn fixed_depths_stay_and_the_maximum_holds() {
    let link = Link {
        latency: 10_000,
        mib: 1000,
        ..Link::default()
    };
    for depth in [0, 1, 3, 1000] {
        let mut run = Run::new(Depth::Fixed(depth));
        run.each(&link, 500, |run| assert_eq!(run.depth(), depth.max(1)));
        assert_eq!(run.window().found(), None);
    }
    for most in [0, 1, 2, 5] {
        let mut run = Run::of([Window::new(Depth::Measured, None, most)]);
        run.each(&link, 500, |run| assert!(run.depth() <= most.max(1)));
    }
    let found = Some(Found {
        depth: 99,
        doubled: 9,
    });
    let window = Window::new(Depth::Measured, found, MOST).may_double(2);
    assert_eq!((window.depth(), window.doubled()), (4, 2));
    assert_eq!(Window::new(Depth::Fixed(3), found, MOST).doubled(), 0);
}

#[test]
fn transfers_grow_where_calls_cost_much_and_only_there() {
    for (call, doubled) in [(0, 0), (20, 0), (1000, 3)] {
        let window = Window::new(Depth::Measured, None, MOST).may_double(3);
        let mut run = Run::of([window]);
        let link = Link {
            latency: 2000,
            mib: 1000,
            noise: 300,
            call,
            ..Link::default()
        };
        run.moves(&link, 10_000);
        assert_eq!(run.window().doubled(), doubled, "a call costs {call}");
        assert!(run.depth() <= 11, "{}", run.depth());
        let (rate, best) = (run.moves(&link, 3000), 1e6 / 1150.0);
        let calls = 1.0 + as_f64(call) / 1150.0 / f64::from(1 << doubled);
        assert!(rate >= 0.93 * best / calls, "{rate}: a call costs {call}");
    }
    let fixed = Window::new(Depth::Fixed(4), None, MOST).may_double(3);
    assert_eq!(fixed.size.doubled_max, 0);
}

#[test]
fn the_next_file_begins_where_the_last_one_arrived() {
    let link = Link {
        latency: 10_000,
        mib: 1000,
        noise: 300,
        ..Link::default()
    };
    let mut run = Run::new(Depth::Measured);
    assert_eq!(run.window().found(), None);
    run.moves(&link, 300);
    let mut found = run.window().found();
    let first = found.unwrap().depth;
    for file in 0..200 {
        run.readers[0].window = Window::new(Depth::Measured, found, MOST);
        run.readers[0].flying.clear();
        run.free = run.now;
        run.moves(&link, 20);
        let depth = run.depth();
        assert!(depth + 5 >= first, "file {file}: {depth}, not {first}");
        run.moves(&link, 80);
        found = run.window().found();
        let depth = run.depth();
        assert!(
            (first - 5..=first + 5).contains(&depth),
            "file {file}: {depth}"
        );
    }
}

/// Windows of one client stand in each other's way: each sees the latency longer than it is.
#[test]
fn many_windows_do_not_drive_each_other_up() {
    for latency in [0, 200, 2000] {
        for files in [2, 4, 16] {
            let link = Link {
                latency,
                mib: 350,
                noise: 100,
                ..Link::default()
            };
            let windows = (0..files).map(|_| Window::new(Depth::Measured, None, MOST));
            let mut run = Run::of(windows);
            run.moves(&link, 20_000);
            let rate = run.moves(&link, 4000);
            let best = 1e6 / 400.0;
            let depths: u32 = run.readers.iter().map(|reader| reader.window.depth()).sum();
            let fills = 1 + u32::try_from(latency.div_ceil(350)).unwrap();
            assert!(
                depths <= 5 * fills / 2 + 5 * files && rate >= 0.95 * best,
                "{files} files, {latency} us: {depths} in flight, {rate}"
            );
            let moved = || run.readers.iter().map(|reader| reader.moved);
            let (least, most) = (moved().min().unwrap(), moved().max().unwrap());
            assert!(least * 4 >= most, "{files} files: {least} to {most}");
        }
    }
}

#[test]
fn times_that_do_not_pass_do_no_harm() {
    let mut window = Window::new(Depth::Measured, None, MOST).may_double(2);
    for turn in 0..1000 {
        let sent = window.sent(Duration::from_secs(turn % 7));
        let mut moved = Transferred {
            sent,
            answered: Duration::ZERO,
            bytes: u64::from(u32::MAX),
            readers: 0,
            windows: 0,
        };
        window.moved(Duration::ZERO, &moved);
        moved.answered = Duration::MAX / 4096;
        window.moved(Duration::MAX, &moved);
        assert!((1..=MOST).contains(&window.depth()));
    }
}

/// Each pause halves the throughput of some rounds; to measure the latency each time would cost more than it tells.
#[test]
fn a_server_that_often_stands_still_is_not_measured_all_the_time() {
    let link = Link {
        latency: 17_720,
        mib: 1041,
        stall: (124_972, 43_774),
        ..Link::default()
    };
    let mut run = Run::new(Depth::Measured);
    run.moves(&link, 4000);
    let rate = run.moves(&link, 8000);
    let (best, at) = best_fixed(&link, 8000);
    let depth = run.depth();
    assert!(
        rate >= 0.9 * best,
        "depth {depth}: {rate}, depth {at}: {best}"
    );
}

proptest! {
    #[test]
    fn on_any_link_it_is_nearly_as_good_as_the_best_fixed_one(
        latency in 0..50_000_u64,
        mib in 100..5000_u64,
        jitter in 0..4_u64,
        noise in 0..4_u64,
        stall in prop::option::of((100_000..1_000_000_u64, 1000..50_000_u64)),
        chance in 1..u64::MAX,
    ) {
        let link = Link {
            latency,
            mib,
            jitter: latency * jitter / 2,
            noise: mib * noise / 2,
            stall: stall.unwrap_or_default(),
            ..Link::default()
        };
        let mut run = Run::new(Depth::Measured);
        run.chance = chance;
        // One that stands still now and then takes longer to be known, and where a measurement falls counts for less
        // the longer it is.
        let (settles, measured) = match stall {
            Some(_) => (4000, 8000),
            None => (300, 1000),
        };
        run.moves(&link, settles);
        let rate = run.moves(&link, measured);
        let (best, at) = best_fixed(&link, measured);
        prop_assert!(rate >= 0.85 * best, "depth {}: {rate}, depth {at}: {best}", run.depth());
    }
}
