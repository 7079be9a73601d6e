use super::*;

const MIB: u64 = 1 << 20;
const MOST: u32 = 32;

/// A server at the other end of a link; every transfer is 1 MiB.
#[derive(Clone, Copy)]
struct Link {
    /// From a call to the first byte of its reply, microseconds.
    latency: u64,
    /// What the link takes for one transfer, microseconds.
    transfer: u64,
    /// What the user takes for one transfer, microseconds.
    user: u64,
    /// What each call costs the server beside that, microseconds, whatever its size.
    call: u64,
}

/// A window at work. Times are in microseconds.
struct Run {
    window: Window,
    now: u64,
    /// When each transfer in flight arrives, oldest first.
    flying: std::collections::VecDeque<u64>,
    /// When the link is free again.
    free: u64,
}

impl Run {
    fn new(depth: Depth) -> Self {
        Self {
            window: Window::new(depth, None, MOST),
            now: 0,
            flying: std::collections::VecDeque::new(),
            free: 0,
        }
    }

    /// Moves `transfers` over `link`; the rate in transfers per second.
    fn moves(&mut self, link: Link, transfers: u32) -> f64 {
        let start = self.now;
        for _ in 0..transfers {
            while self.flying.len() < usize::try_from(self.window.depth()).unwrap() {
                let takes = (link.transfer << self.window.doubled()) + link.call;
                self.free = self.free.max(self.now + link.latency) + takes;
                self.flying.push_back(self.free);
            }
            let arrives = self.flying.pop_front().unwrap();
            let waited = arrives.saturating_sub(self.now);
            self.now += waited;
            let at = Duration::from_micros(self.now);
            let bytes = MIB << self.window.doubled();
            self.window.moved(at, bytes, Duration::from_micros(waited));
            self.now += link.user;
        }
        f64::from(transfers) * 1e6 / as_f64(self.now - start)
    }
}

fn link(latency: u64, transfer: u64, user: u64) -> Link {
    Link {
        latency,
        transfer,
        user,
        call: 0,
    }
}

#[test]
fn it_fills_the_pipe_and_takes_no_more_than_that() {
    // Latency and transfer time in microseconds, least and most depth that is right.
    let table = [
        (0, 1000, 2, 2),
        (100, 1000, 2, 2),
        (1000, 1000, 2, 4),
        (5000, 1000, 6, 8),
        (10_000, 1000, 11, 16),
        (100_000, 10_000, 11, 16),
        (14_000, 1000, 15, 16),
        (1_000_000, 100, MOST, MOST),
    ];
    for (latency, transfer, least, most) in table {
        let mut run = Run::new(Depth::Measured);
        let link = link(latency, transfer, 0);
        let first = run.moves(link, 500);
        let rate = run.moves(link, 20_000);
        let depth = run.window.depth();
        assert!(
            (least..=most).contains(&depth),
            "{latency}/{transfer}: depth {depth}, not {least} to {most}"
        );
        let best = (f64::from(MOST) * 1e6 / as_f64(latency + transfer)).min(1e6 / as_f64(transfer));
        assert!(
            rate >= 0.95 * best && first >= 0.5 * best,
            "{latency}/{transfer}: {first}, then {rate} of {best}"
        );
    }
}

#[test]
fn it_grows_in_a_few_round_trips() {
    let mut run = Run::new(Depth::Measured);
    run.moves(link(10_000, 1000, 0), 40);
    assert!(run.window.depth() >= 8, "{}", run.window.depth());
}

#[test]
fn a_user_slower_than_the_server_needs_no_window() {
    for user in [2000, 20_000] {
        let mut run = Run::new(Depth::Measured);
        run.moves(link(500, 1000, user), 3000);
        assert_eq!(run.window.depth(), 2, "user {user}");
    }
}

#[test]
fn it_follows_a_link_that_changes() {
    let mut run = Run::new(Depth::Measured);
    run.moves(link(100, 1000, 0), 2000);
    assert_eq!(run.window.depth(), 2);
    // The way becomes longer, then short again.
    run.moves(link(10_000, 1000, 0), 10_000);
    let far = run.window.depth();
    assert!((11..=16).contains(&far), "{far}");
    run.moves(link(100, 1000, 0), 30_000);
    let near = run.window.depth();
    assert!(near <= 4, "{near}");
}

#[test]
fn fixed_depths_stay_and_the_maximum_holds() {
    for depth in [0, 1, 3, 1000] {
        let mut run = Run::new(Depth::Fixed(depth));
        run.moves(link(10_000, 1000, 0), 500);
        assert_eq!(run.window.depth(), depth.max(1));
    }
    let mut run = Run::new(Depth::Measured);
    run.window = Window::new(Depth::Measured, None, 1);
    run.moves(link(10_000, 1000, 0), 500);
    assert_eq!(run.window.depth(), 1);
    assert_eq!(Window::new(Depth::Measured, Some(99), MOST).depth(), MOST);
}

#[test]
fn transfers_grow_where_calls_cost_much_and_only_there() {
    for (call, doubled) in [(0, 0), (20, 0), (1000, 3)] {
        let mut run = Run::new(Depth::Measured);
        run.window = Window::new(Depth::Measured, None, MOST).may_double(3);
        let link = Link {
            call,
            ..link(2000, 1000, 0)
        };
        run.moves(link, 10_000);
        assert_eq!(run.window.doubled(), doubled, "a call costs {call}");
        assert!(run.window.depth() <= 8, "{}", run.window.depth());
    }
    let fixed = Window::new(Depth::Fixed(4), None, MOST).may_double(3);
    assert_eq!(fixed.doubled_max, 0);
}

/// Each transfer takes up to a third more or less than the link says, at random.
#[test]
fn noise_does_not_blow_it_up() {
    for seed in 1..20_u64 {
        let mut run = Run::new(Depth::Measured);
        let mut number = seed;
        let mut depths = Vec::new();
        for _ in 0..20_000 {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            run.moves(link(3000, 667 + number % 667, 0), 1);
            depths.push(run.window.depth());
        }
        depths.sort_unstable();
        let (median, high) = (depths[10_000], depths[18_000]);
        assert!((4..=8).contains(&median), "seed {seed}: median {median}");
        assert!(high <= 16, "seed {seed}: one in ten is {high} or more");
    }
}

#[test]
fn what_was_found_is_told_and_taken_over() {
    let link = link(10_000, 1000, 0);
    let mut run = Run::new(Depth::Measured);
    assert_eq!(run.window.settled(), None);
    run.moves(link, 300);
    let found = run.window.settled();
    assert_eq!(found, Some(16));
    run.window = Window::new(Depth::Measured, found, MOST);
    assert_eq!(run.window.depth(), 16);
    run.moves(link, 3000);
    assert_eq!(run.window.depth(), 16);
}

#[test]
fn times_that_do_not_pass_do_no_harm() {
    let mut window = Window::new(Depth::Measured, None, MOST);
    for _ in 0..1000 {
        window.moved(Duration::ZERO, u64::from(u32::MAX), Duration::ZERO);
        window.moved(Duration::from_secs(1), 0, Duration::MAX / 4096);
    }
    assert!((1..=MOST).contains(&window.depth()));
}
