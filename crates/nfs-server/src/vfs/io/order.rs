//! WRITEs of one file that come out of order, and which of them wait for those before them.
//!
//! A pure value: the clock comes in as an argument. A client that has many WRITEs of a stream on their way sends
//! them in any order; a file system that is to extend a file past a gap has more to do than one that
//! extends it at its end. So a WRITE that leaves a gap before it waits for the WRITE that fills it, for
//! [`ORDER_WAIT_MAX`] at most, and only while such WRITEs are known to be on their way: one has filled a gap
//! within the last [`ORDER_EXPECTED_FOR`]. Whoever sends one WRITE at a time, or leaves holes on purpose,
//! waits for nothing.

use std::ops::Range;
use std::time::Instant;

use crate::limits::{
    ORDER_EXPECTED_FOR, ORDER_PASSED_MAX, ORDER_WAIT_MAX, ORDER_WAITING_MAX, ORDER_WINDOW_BYTES_MAX,
};

/// The order of the WRITEs that extend one file.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Up to where every WRITE was let through, or is not waited for any more.
    front: u64,
    /// Ranges beyond `front` that were let through: their WRITEs did not wait, or not any more.
    passed: Vec<Range<u64>>,
    /// WRITEs that wait, by where they begin.
    waiting: Vec<Waiting>,
    /// The number of the next WRITE that waits.
    next: u64,
    /// When a WRITE came last, of any range.
    last: Option<Instant>,
    /// When a WRITE that came late filled a gap last.
    filled: Option<Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiting {
    range: Range<u64>,
    number: u64,
}

/// What a WRITE that came is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Go on: there is no gap before it.
    Now,
    /// Go on although there is a gap before it.
    NowBeforeOthers,
    /// Wait until it is released by its number, or until then; at that time [`Order::is_over`] is to be asked.
    Wait {
        /// Stands for the WRITE from here on.
        number: u64,
        /// When it waits no longer.
        until: Instant,
    },
}

impl Order {
    /// A WRITE of `range` came, to a file that had `size` bytes a moment ago. Those in `released`, in this
    /// order, are to go on after it.
    pub(super) fn arrived(
        &mut self,
        now: Instant,
        size: u64,
        range: Range<u64>,
        released: &mut Vec<u64>,
    ) -> Turn {
        let quiet = |last: Instant| now.saturating_duration_since(last) > ORDER_EXPECTED_FOR;
        if self.waiting.is_empty() && self.last.is_none_or(quiet) {
            // A stream begins, or the file was truncated meanwhile.
            self.front = size;
            self.passed.clear();
        }
        self.last = Some(now);
        self.front = self.front.max(size);
        if range.start <= self.front {
            let own = self.front.max(range.end);
            self.let_through(range.end, released);
            // It came after WRITEs that lie directly behind it.
            if self.front > own {
                self.filled = Some(now);
            }
            return Turn::Now;
        }
        let expected = self.filled.is_some_and(|filled| !quiet(filled));
        let near = range.start - self.front <= ORDER_WINDOW_BYTES_MAX;
        if expected && near && self.waiting.len() < ORDER_WAITING_MAX {
            let number = self.next;
            self.next = number.wrapping_add(1);
            let at = self
                .waiting
                .partition_point(|other| other.range.start <= range.start);
            self.waiting.insert(at, Waiting { range, number });
            let until = now + ORDER_WAIT_MAX;
            return Turn::Wait { number, until };
        }
        self.pass(range, released);
        Turn::NowBeforeOthers
    }

    /// The time of a WRITE that waits is over: it goes on, and before it those in `released` do that wait with
    /// less before them.
    pub(super) fn is_over(&mut self, number: u64, released: &mut Vec<u64>) {
        let Some(at) = self.place(number) else {
            return;
        };
        // What was waited for is not on its way, or is too slow: nobody waits for it any more.
        self.filled = None;
        let gone: Vec<Waiting> = self.waiting.drain(..=at).collect();
        let ends = gone.iter().map(|one| one.range.end).max();
        let before = gone.iter().map(|one| one.number);
        released.extend(before.filter(|other| *other != number));
        self.let_through(ends.unwrap_or(self.front), released);
    }

    /// A WRITE that waits was given up by its connection.
    pub(super) fn gave_up(&mut self, number: u64) {
        if let Some(at) = self.place(number) {
            self.waiting.remove(at);
        }
    }

    /// The file was truncated.
    pub(super) fn truncated(&mut self) {
        self.last = None;
    }

    fn place(&self, number: u64) -> Option<usize> {
        self.waiting.iter().position(|one| one.number == number)
    }

    /// Everything before `end` is let through; so is what follows without a gap.
    fn let_through(&mut self, end: u64, released: &mut Vec<u64>) {
        self.front = self.front.max(end);
        loop {
            let before = self.front;
            let mut front = self.front;
            self.passed.retain(|passed| {
                let reached = passed.start <= front;
                if reached {
                    front = front.max(passed.end);
                }
                !reached
            });
            let ready = self.waiting.partition_point(|one| one.range.start <= front);
            for one in self.waiting.drain(..ready) {
                front = front.max(one.range.end);
                released.push(one.number);
            }
            self.front = front;
            if front == before {
                return;
            }
        }
    }

    /// Lets a range through that has a gap before it.
    fn pass(&mut self, range: Range<u64>, released: &mut Vec<u64>) {
        if self.passed.len() >= ORDER_PASSED_MAX {
            // Too scattered to be kept in mind: it begins anew here.
            self.passed.clear();
            self.let_through(range.end, released);
            return;
        }
        self.passed.push(range);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    const STEP: u64 = 64 << 10;

    fn piece(number: u64) -> Range<u64> {
        number * STEP..(number + 1) * STEP
    }

    /// An order in which a WRITE that came late was seen at `now`: pieces 0, 2, 1.
    fn expecting(now: Instant) -> Order {
        let mut order = Order::default();
        let mut released = Vec::new();
        for (number, turn) in [(0, Turn::Now), (2, Turn::NowBeforeOthers), (1, Turn::Now)] {
            assert_eq!(order.arrived(now, 0, piece(number), &mut released), turn);
        }
        assert!(released.is_empty() && order.front == 3 * STEP);
        order
    }

    #[test]
    fn nobody_waits_before_a_gap_was_seen_to_be_filled() {
        let now = Instant::now();
        let mut order = Order::default();
        let mut released = Vec::new();
        for number in [0, 5, 9, 20, 3000] {
            let turn = order.arrived(now, 0, piece(number), &mut released);
            assert!(!matches!(turn, Turn::Wait { .. }), "{number}");
        }
        // Overwriting waits for nothing, in any order.
        let mut order = expecting(now);
        for number in [7, 3, 90, 4] {
            let turn = order.arrived(now, 1 << 30, piece(number), &mut released);
            assert_eq!(turn, Turn::Now);
        }
        assert!(released.is_empty());
    }

    #[test]
    fn who_leaves_a_gap_waits_until_it_is_filled_and_they_go_in_ascending_order() {
        let now = Instant::now();
        let mut order = expecting(now);
        let mut released = Vec::new();
        let mut numbers = BTreeMap::new();
        for at in [6, 4, 5] {
            match order.arrived(now, 0, piece(at), &mut released) {
                Turn::Wait { number, until } => {
                    assert_eq!(until, now + ORDER_WAIT_MAX);
                    numbers.insert(at, number);
                }
                other => panic!("{at}: {other:?}"),
            }
        }
        assert!(released.is_empty());
        assert_eq!(order.arrived(now, 0, piece(3), &mut released), Turn::Now);
        assert_eq!(released, numbers.values().copied().collect::<Vec<_>>());
        assert!(order.waiting.is_empty() && order.front == 7 * STEP);
    }

    #[test]
    fn a_gap_that_nobody_fills_is_waited_for_once() {
        let now = Instant::now();
        let mut order = expecting(now);
        let mut released = Vec::new();
        let Turn::Wait { number: low, .. } = order.arrived(now, 0, piece(5), &mut released) else {
            panic!("it waits");
        };
        let Turn::Wait { number: high, .. } = order.arrived(now, 0, piece(8), &mut released) else {
            panic!("it waits");
        };
        order.is_over(high, &mut released);
        assert_eq!(released, [low], "the one before goes first");
        order.is_over(low, &mut released);
        assert_eq!(released, [low], "it has gone");
        let turn = order.arrived(now, 0, piece(12), &mut released);
        assert_eq!(turn, Turn::NowBeforeOthers, "no longer expected");
    }

    #[test]
    fn after_a_silence_nobody_waits_and_the_file_begins_where_it_ends() {
        let now = Instant::now();
        let mut order = expecting(now);
        let mut released = Vec::new();
        let later = now + ORDER_EXPECTED_FOR + Duration::from_millis(1);
        let turn = order.arrived(later, 0, piece(5), &mut released);
        assert_eq!((turn, order.front), (Turn::NowBeforeOthers, 0));
        order.truncated();
        assert_eq!(order.arrived(later, 0, piece(0), &mut released), Turn::Now);
    }

    /// A client with some WRITEs in flight, shuffled, some lost on their way: by seed.
    #[test]
    fn whatever_comes_in_whatever_order_goes_once_and_within_its_time() {
        for seed in 1..400_u64 {
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut next = |below: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % below
            };
            let mut now = Instant::now();
            let mut pieces: Vec<u64> = (0..300).filter(|_| next(50) > 0).collect();
            let together = usize::try_from(1 + next(64)).unwrap();
            for chunk in pieces.chunks_mut(together) {
                for at in (1..chunk.len()).rev() {
                    chunk.swap(at, usize::try_from(next(at as u64 + 1)).unwrap());
                }
            }
            let mut order = Order::default();
            let mut waiting: BTreeMap<u64, (u64, Instant)> = BTreeMap::new();
            let mut gone = Vec::new();
            let mut arrivals = pieces.iter().copied();
            loop {
                let passed = next(400);
                now += Duration::from_micros(passed);
                // Whose time is over asks, the earliest first; one in each turn of the loop.
                let due = waiting.iter().find(|(_, (_, until))| *until <= now);
                let due = due.map(|(number, _)| *number);
                let mut released = Vec::new();
                if let Some(number) = due {
                    order.is_over(number, &mut released);
                    released.push(number);
                    now -= Duration::from_micros(passed);
                } else if let Some(at) = arrivals.next() {
                    match order.arrived(now, 0, piece(at), &mut released) {
                        Turn::Now | Turn::NowBeforeOthers => gone.push(at),
                        Turn::Wait { number, until } => {
                            waiting.insert(number, (at, until));
                        }
                    }
                } else if waiting.is_empty() {
                    break;
                }
                for number in released {
                    let (at, until) = waiting.remove(&number).unwrap();
                    assert!(now <= until + Duration::from_millis(1), "seed {seed}");
                    gone.push(at);
                }
                assert_eq!(order.waiting.len(), waiting.len(), "seed {seed}");
                assert!(order.passed.len() <= ORDER_PASSED_MAX);
            }
            gone.sort_unstable();
            pieces.sort_unstable();
            assert_eq!(gone, pieces, "seed {seed}: each once");
        }
    }

    #[test]
    fn a_shuffled_stream_that_is_known_to_be_one_goes_in_ascending_order() {
        let now = Instant::now();
        for seed in 1..100_u64 {
            let mut order = expecting(now);
            let mut gone = Vec::new();
            let mut at_number = BTreeMap::new();
            let mut pieces: Vec<u64> = (3..3 + 64).collect();
            for at in (1..pieces.len()).rev() {
                let other = seed.wrapping_mul(6_364_136_223_846_793_005) >> 33;
                pieces.swap(at, usize::try_from(other % (at as u64 + 1)).unwrap());
            }
            for at in pieces {
                let mut released = Vec::new();
                match order.arrived(now, 0, piece(at), &mut released) {
                    Turn::Now => gone.push(at),
                    Turn::Wait { number, .. } => {
                        at_number.insert(number, at);
                    }
                    Turn::NowBeforeOthers => panic!("it is expected"),
                }
                gone.extend(released.iter().map(|number| at_number[number]));
            }
            assert_eq!(gone, (3..3 + 64).collect::<Vec<u64>>(), "seed {seed}");
        }
    }

    #[test]
    fn what_waits_and_what_is_kept_in_mind_is_bounded() {
        let now = Instant::now();
        let mut order = expecting(now);
        let mut released = Vec::new();
        for number in 0..4 * (ORDER_WAITING_MAX + ORDER_PASSED_MAX) as u64 {
            order.arrived(now, 0, piece(4 + 2 * number), &mut released);
            assert!(order.waiting.len() <= ORDER_WAITING_MAX);
            assert!(order.passed.len() <= ORDER_PASSED_MAX);
        }
        let far = order.front + ORDER_WINDOW_BYTES_MAX + 1;
        let turn = order.arrived(now, 0, far..far + 1, &mut released);
        assert_eq!(turn, Turn::NowBeforeOthers);
        for range in [u64::MAX - 1..u64::MAX, 0..u64::MAX, 5..5] {
            order.arrived(now, u64::MAX, range, &mut released);
        }
    }
}
