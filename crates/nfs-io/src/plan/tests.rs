use proptest::prelude::*;

use super::*;

const FILE_END: u64 = i64::MAX as u64;

fn alignment(memory: u32, offset: u32, read_offset: u32, block: u32) -> Alignment {
    Alignment {
        memory,
        offset,
        read_offset,
        block,
    }
}

/// What a direct write's middle is aligned to; `None` for what the kernel cannot mean.
fn write_align(a: &Alignment) -> Option<u64> {
    let block = a.block.max(1);
    let known = [a.memory, a.offset, block];
    let known = known.iter().all(|align| align.is_power_of_two());
    known.then(|| u64::from(a.offset.max(block).max(4096)))
}

fn read_align(a: &Alignment) -> Option<u64> {
    let align = if a.read_offset == 0 {
        a.offset
    } else {
        a.read_offset
    };
    let known = align.is_power_of_two() && a.memory.is_power_of_two();
    known.then_some(u64::from(align))
}

/// The laws of any plan: in ascending order, no gap, nothing twice, nothing empty.
fn assert_covers<'a>(segments: impl Iterator<Item = &'a Segment>, range: Range<u64>) {
    let mut reached = range.start;
    for segment in segments {
        assert_eq!(segment.file.start, reached);
        assert!(segment.file.end > segment.file.start);
        reached = segment.file.end;
    }
    assert_eq!(reached, range.end);
}

/// Everything that is promised of a write's plan, said in other words than the code's.
fn check_write(mode: Mode, offset: u64, len: usize, memory: usize, a: &Alignment) {
    let end = offset
        .checked_add(len as u64)
        .filter(|&end| end <= FILE_END);
    let plan = plan_write(mode, offset, len, memory, a);
    assert_eq!(plan.is_some(), end.is_some());
    let (Some(plan), Some(end)) = (plan, end) else {
        return;
    };
    assert_covers(plan.segments(), offset..end);
    let mut direct = plan
        .segments()
        .filter(|segment| segment.mode == Mode::Direct)
        .map(|segment| segment.file.clone());
    let direct = (direct.next(), direct.next());
    if mode != Mode::Direct || len == 0 {
        assert!(plan.segments().all(|segment| segment.mode == mode));
        assert!(plan.fallback().is_none() && plan.segments().count() <= 1);
        return;
    }
    assert!(
        plan.segments()
            .all(|segment| segment.mode != Mode::DontCache)
    );
    let reason = match write_align(a) {
        None => Some(Fallback::AlignmentUnknown),
        Some(align) if (len as u64) < align => Some(Fallback::ShorterThanAlignment),
        Some(align) => {
            let first = offset.div_ceil(align);
            let blocks = (end / align).saturating_sub(first);
            // `memory` may be anything; addresses wrap.
            let middle = (memory as u64).wrapping_add(first * align - offset);
            if blocks == 0 {
                Some(Fallback::NoAlignedMiddle)
            } else if !middle.is_multiple_of(u64::from(a.memory)) {
                Some(Fallback::MemoryNotCongruent)
            } else {
                let whole = first * align..(first + blocks) * align;
                assert_eq!(direct, (Some(whole), None), "as much as can be");
                None
            }
        }
    };
    assert_eq!(plan.fallback(), reason);
    if reason.is_some() {
        assert_eq!((direct, plan.segments().count()), ((None, None), 1));
    }
}

/// Checks the promises of a read's plan: it covers the range that was asked for, and is aligned where it is
/// direct.
fn check_read(mode: Mode, offset: u64, len: usize, memory: usize, a: &Alignment) {
    let end = offset
        .checked_add(len as u64)
        .filter(|&end| end <= FILE_END);
    let plan = plan_read(mode, offset, len, memory, a);
    assert_eq!(plan.is_some(), end.is_some());
    let (Some(plan), Some(end)) = (plan, end) else {
        return;
    };
    let (rounded, window) = (plan.rounded(), plan.window());
    assert_covers(plan.segments(), rounded.clone());
    assert!(plan.segments().count() <= 1);
    // The window is the asked bytes.
    assert_eq!(rounded.start + window.start as u64, offset);
    assert_eq!(rounded.start + window.end as u64, end);
    assert!(rounded.start <= offset && end <= rounded.end && rounded.end <= FILE_END);
    let decided = plan.segments().next().map(|segment| segment.mode);
    if mode != Mode::Direct || len == 0 {
        assert_eq!((rounded, plan.fallback()), (offset..end, None));
        assert!(decided.is_none_or(|decided| decided == mode));
        return;
    }
    let reason = match read_align(a) {
        None => Some(Fallback::AlignmentUnknown),
        Some(align) if end.div_ceil(align) * align > FILE_END => Some(Fallback::NoAlignedMiddle),
        Some(_) if !(memory as u64).is_multiple_of(u64::from(a.memory)) => {
            Some(Fallback::MemoryNotCongruent)
        }
        Some(align) => {
            assert_eq!((rounded.start % align, rounded.end % align), (0, 0));
            assert!(
                offset - rounded.start < align && rounded.end - end < align,
                "no more than needed"
            );
            None
        }
    };
    assert_eq!(plan.fallback(), reason);
    let expected = reason.map_or(Mode::Direct, |_| Mode::Buffered);
    assert_eq!(decided, Some(expected));
    if reason.is_some() {
        assert_eq!(plan.rounded(), offset..end);
    }
}

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![
        1 => Just(Mode::Buffered),
        1 => Just(Mode::DontCache),
        3 => Just(Mode::Direct),
    ]
}

/// Mostly what kernels say, now and then what none does.
fn one_align() -> impl Strategy<Value = u32> {
    prop_oneof![8 => (0_u32..20).prop_map(|bits| 1 << bits), 1 => Just(0), 1 => any::<u32>()]
}

fn alignments() -> impl Strategy<Value = Alignment> {
    let memory = prop_oneof![8 => (0_u32..13).prop_map(|bits| 1 << bits), 1 => one_align()];
    let read_offset = prop_oneof![Just(0), one_align()];
    (memory, one_align(), read_offset, one_align())
        .prop_map(|(memory, offset, read, block)| alignment(memory, offset, read, block))
}

fn offsets() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..1_u64 << 40,
        1 => FILE_END - (1 << 21)..=FILE_END,
        1 => any::<u64>()
    ]
}

fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0_usize..1 << 22, 1 => any::<usize>()]
}

/// Addresses of the data in memory: that of a server that places its buffers, or any other.
fn memories(offset: u64) -> impl Strategy<Value = usize> {
    prop_oneof![Just(placement(offset)), 0_usize..4096, any::<usize>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn plans_keep_their_promises(
        mode in modes(),
        (offset, memory) in offsets().prop_flat_map(|offset| (Just(offset), memories(offset))),
        len in lengths(),
        a in alignments(),
    ) {
        check_write(mode, offset, len, memory, &a);
        check_read(mode, offset, len, memory, &a);
        check_read(mode, offset, len, 0, &a);
    }
}

#[test]
fn every_range_in_the_first_three_blocks() {
    // 512-byte devices under a file system of 4096-byte blocks, and devices of 4096 themselves.
    for a in [alignment(4, 512, 0, 4096), alignment(4096, 4096, 0, 4096)] {
        let end = 3 * 4096;
        for offset in 0..=end {
            // Every length would be 75 million plans: those around multiples of 512, and the rest
            // of the range.
            let lengths = (0..=end - offset).filter(|len| {
                let near = (offset + len) % 512;
                near <= 1 || near == 511 || offset + len == end
            });
            for len in lengths {
                check_write(Mode::Direct, offset, len as usize, placement(offset), &a);
                check_read(Mode::Direct, offset, len as usize, 0, &a);
            }
        }
    }
    // Every range at all, in three blocks of a device of 512.
    let a = alignment(512, 512, 512, 512);
    for offset in 0..=3 * 512 {
        for len in 0..=3 * 512 - offset {
            check_read(Mode::Direct, offset, len as usize, 0, &a);
            check_write(Mode::Direct, offset, len as usize, 0, &a);
        }
    }
}

#[test]
fn a_misaligned_stream_has_two_edges_and_a_middle() {
    let a = alignment(4, 512, 0, 4096);
    // The second WRITE of IOR-hard: 47008 bytes each.
    let plan = plan_write(Mode::Direct, 47_008, 47_008, placement(47_008), &a).unwrap();
    let segments: Vec<_> = plan
        .segments()
        .map(|segment| (segment.file.clone(), segment.mode))
        .collect();
    let expected = [
        (47_008..49_152, Mode::Buffered),
        (49_152..90_112, Mode::Direct),
        (90_112..94_016, Mode::Buffered),
    ];
    assert_eq!(
        (segments.as_slice(), plan.fallback()),
        (&expected[..], None)
    );
    let read = plan_read(Mode::Direct, 47_008, 47_008, 0, &a).unwrap();
    assert_eq!(
        (read.rounded(), read.window()),
        (46_592..94_208, 416..47_424)
    );
}

#[test]
fn a_short_read_leaves_a_part_of_the_window() {
    let a = alignment(4, 4096, 512, 4096);
    let plan = plan_read(Mode::Direct, 700, 1000, 0, &a).unwrap();
    assert_eq!((plan.rounded(), plan.window()), (512..2048, 188..1188));
    let seen = [0, 100, 188, 189, 1188, 1536].map(|read| plan.window_of(read));
    let expected = [0..0, 100..100, 188..188, 188..189, 188..1188, 188..1188];
    assert_eq!(seen, expected);
}

#[test]
fn each_reason_has_a_word_and_a_sentence_of_its_own() {
    let words: std::collections::HashSet<_> = Fallback::ALL.iter().map(|f| f.word()).collect();
    let sentences: std::collections::HashSet<_> =
        Fallback::ALL.iter().map(ToString::to_string).collect();
    assert_eq!((words.len(), sentences.len()), (4, 4));
    let modes = [Mode::Buffered, Mode::DontCache, Mode::Direct];
    assert_eq!(
        modes.map(|mode| mode.to_string()),
        ["buffered", "dontcache", "direct"]
    );
}

#[test]
fn the_end_of_the_largest_file_is_not_rounded_over() {
    let a = alignment(512, 512, 512, 4096);
    let last = plan_read(Mode::Direct, FILE_END - 10, 10, 0, &a).unwrap();
    assert_eq!(last.fallback(), Some(Fallback::NoAlignedMiddle));
    assert_eq!(last.rounded(), FILE_END - 10..FILE_END);
    assert!(plan_read(Mode::Direct, FILE_END - 10, 11, 0, &a).is_none());
    assert!(plan_write(Mode::Direct, u64::MAX, 1, 0, &a).is_none());
    assert!(plan_write(Mode::Direct, FILE_END, usize::MAX, 0, &a).is_none());
}
