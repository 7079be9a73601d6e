use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

/// A generator of the tests' own: the same numbers for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn stream_of(advice: Advice) -> Option<u32> {
    match advice {
        Advice::Exact => None,
        Advice::Sequential { stream, .. } | Advice::Strided { stream, .. } => Some(stream),
    }
}

#[test]
fn reads_in_a_row_are_a_stream_from_the_third_on_or_the_second_from_the_start() {
    let mut patterns = Patterns::default();
    assert_eq!(patterns.read(0, 100), Advice::Exact);
    let second = patterns.read(100, 50);
    assert!(
        matches!(
            second,
            Advice::Sequential {
                end: 150,
                ahead: 600,
                ..
            }
        ),
        "{second:?}"
    );
    assert_eq!(patterns.read(1000, 10), Advice::Exact);
    assert_eq!(patterns.read(1010, 10), Advice::Exact);
    let third = patterns.read(1020, 10);
    assert!(
        matches!(
            third,
            Advice::Sequential {
                end: 1030,
                ahead: 120,
                ..
            }
        ),
        "{third:?}"
    );
    assert_ne!(stream_of(second), stream_of(third));
    let next = patterns.read(150, 1);
    assert_eq!(stream_of(next), stream_of(second));
}

#[test]
fn the_same_distance_three_times_is_a_stream() {
    for stride in [4096_i64, 5000, -100, -4096] {
        let mut patterns = Patterns::default();
        let at = |step: i64| {
            u64::try_from(1 << 30)
                .unwrap()
                .checked_add_signed(step * stride)
                .unwrap()
        };
        for step in 0..3 {
            assert_eq!(patterns.read(at(step), 100), Advice::Exact);
        }
        for step in 3..20 {
            let Advice::Strided {
                stride: found,
                ahead,
                ..
            } = patterns.read(at(step), 100)
            else {
                panic!("{stride}, step {step}");
            };
            assert_eq!((found, i64::from(ahead)), (stride, step - 2));
        }
    }
}

#[test]
fn a_stream_bears_reads_in_another_order_and_ends_with_a_jump() {
    let mut patterns = Patterns::default();
    for block in [0, 1, 2, 4, 3, 6, 5, 8, 7, 9, 10] {
        let advice = patterns.read(block * 10, 10);
        assert_eq!(stream_of(advice).is_some(), block > 0, "block {block}");
    }
    assert_eq!(patterns.next_gone(), None);
    // Far away it is not this stream; near and never in place, it is none any more.
    assert_eq!(patterns.read(5000, 10), Advice::Exact);
    for _ in 0..STREAM_CREDIT_MAX {
        patterns.read(103, 10);
    }
    assert!(patterns.next_gone().is_some());
    assert_eq!(patterns.read(103, 10), Advice::Exact);
}

#[test]
fn the_stream_unused_for_longest_gives_way() {
    let mut patterns = Patterns::default();
    let mut begin = |start: u64| {
        for read in 0..2 {
            assert_eq!(patterns.read(start + read * 10, 10), Advice::Exact);
        }
        let stream = stream_of(patterns.read(start + 20, 10)).unwrap();
        (stream, patterns.next_gone())
    };
    let streams: Vec<_> = (1..=8).map(|n| begin(n * 1_000_000)).collect();
    assert!(streams.iter().all(|(_, gone)| gone.is_none()));
    let (_, gone) = begin(100_000_000);
    assert_eq!(gone, Some(streams[0].0));
}

#[test]
fn the_ends_of_the_number_space_do_no_harm() {
    let mut patterns = Patterns::default();
    for offset in [u64::MAX, 0, u64::MAX - 1, 1, u64::MAX / 2, u64::MAX] {
        for len in [0, 1, u64::MAX] {
            for _ in 0..4 {
                patterns.read(offset, len);
            }
        }
    }
}

proptest! {
    /// One to four readers, each with reads of any sizes, in any turn: from its third read on each is
    /// a stream, and always the same one.
    #[test]
    fn sequential_readers_are_recognised(
        readers in 1_usize..5,
        reads in prop::collection::vec((any::<prop::sample::Index>(), 1_u64..3_000_000), 20..200),
    ) {
        let mut patterns = Patterns::default();
        let mut state: Vec<(u64, u32, Option<u32>)> =
            (0..readers).map(|n| (n as u64 * (1 << 40), 0, None)).collect();
        for (who, len) in reads {
            let (at, count, stream) = &mut state[who.index(readers)];
            let found = stream_of(patterns.read(*at, len));
            *at += len;
            *count += 1;
            // Others may push a reader's first reads out of what is remembered, but not so few.
            if *count >= 3 {
                prop_assert!(found.is_some(), "read {count} at {at}");
                prop_assert!(stream.is_none() || *stream == found);
                *stream = found;
            }
        }
    }

    /// Interleaved strided readers, each found at its fourth read.
    #[test]
    fn strided_readers_are_recognised(strides in prop::collection::hash_set(5_000_u64..1 << 30, 1..4)) {
        let mut patterns = Patterns::default();
        let mut streams = HashSet::new();
        for step in 0..30 {
            for (reader, stride) in strides.iter().enumerate() {
                let start = reader as u64 * (1 << 40) + 1;
                let found = stream_of(patterns.read(start + step * stride, 4096));
                prop_assert_eq!(found.is_some(), step >= 3, "reader {} step {}", reader, step);
                streams.extend(found);
            }
        }
        prop_assert_eq!(streams.len(), strides.len());
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random reads: what may be read ahead is less than a hundredth of what is read.
    #[test]
    fn random_reads_bring_next_to_nothing_ahead(
        seed in 1_u64..u64::MAX,
        blocks in 20_000_u64..1 << 30,
        len in prop::sample::select(vec![512_u64, 4096, 65_536]),
    ) {
        let mut patterns = Patterns::default();
        let mut numbers = Numbers(seed);
        let mut ahead_bytes = 0;
        let reads = 2000;
        for _ in 0..reads {
            ahead_bytes += match patterns.read(numbers.below(blocks) * len, len) {
                Advice::Exact => 0,
                Advice::Sequential { ahead, .. } => ahead,
                Advice::Strided { ahead, .. } => u64::from(ahead) * len,
            };
        }
        prop_assert!(ahead_bytes * 100 <= reads * len, "{ahead_bytes} of {}", reads * len);
    }
}
