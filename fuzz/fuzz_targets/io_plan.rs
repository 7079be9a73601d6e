//! How a read or write is split: whatever is asked, on whatever device, the parts are exactly the range, in order,
//! none empty, none twice, and what goes past the page cache is aligned in the file and in memory.
#![no_main]

use std::ops::Range;

use libfuzzer_sys::fuzz_target;
use nfs_io::Mode;
use nfs_io::plan::{Alignment, Segment, placement, plan_read, plan_write};

/// One read or write: 29 bytes of the input.
struct Ask {
    mode: Mode,
    offset: u64,
    len: usize,
    memory: usize,
    alignment: Alignment,
}

fuzz_target!(|data: &[u8]| {
    let mut data = data;
    while let Some(ask) = ask(&mut data) {
        write(&ask);
        read(&ask);
    }
});

fn ask(data: &mut &[u8]) -> Option<Ask> {
    let mode = match take::<1>(data)?[0] % 4 {
        0 => Mode::Buffered,
        1 => Mode::DontCache,
        _ => Mode::Direct,
    };
    let offset = u64::from_le_bytes(take(data)?);
    let len = u64::from_le_bytes(take(data)?);
    let memory = u64::from_le_bytes(take(data)?);
    // An alignment is one bit, unless its byte is above 127: then it is the byte times 77.
    let [memory_align, offset_align, read_offset, block] =
        take::<4>(data)?.map(|byte| match byte {
            0..=127 => 1_u32.checked_shl(u32::from(byte)).unwrap_or(0),
            other => u32::from(other) * 77,
        });
    Some(Ask {
        mode,
        offset,
        len: usize::try_from(len).ok()?,
        // Every second one as a server places it.
        memory: if memory % 2 == 0 {
            placement(offset)
        } else {
            usize::try_from(memory).ok()?
        },
        alignment: Alignment {
            memory: memory_align,
            offset: offset_align,
            read_offset,
            block,
        },
    })
}

fn take<const N: usize>(data: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = data.split_first_chunk()?;
    *data = rest;
    Some(*first)
}

fn write(ask: &Ask) {
    let Some(plan) = plan_write(ask.mode, ask.offset, ask.len, ask.memory, &ask.alignment) else {
        return refused(ask);
    };
    conserved(plan.segments(), ask.offset..ask.offset + ask.len as u64);
    let a = &ask.alignment;
    let direct = plan
        .segments()
        .filter(|segment| segment.mode == Mode::Direct);
    let mut directs = 0;
    for segment in direct {
        directs += 1;
        for align in [a.offset, a.block.max(1), 4096].map(u64::from) {
            assert_eq!(
                (segment.file.start % align, segment.file.end % align),
                (0, 0)
            );
        }
        let place = (ask.memory as u64).wrapping_add(segment.file.start - ask.offset);
        assert_eq!(place % u64::from(a.memory), 0);
    }
    explained(ask, directs, plan.fallback().is_some());
}

fn read(ask: &Ask) {
    let Some(plan) = plan_read(ask.mode, ask.offset, ask.len, ask.memory, &ask.alignment) else {
        return refused(ask);
    };
    let (rounded, window) = (plan.rounded(), plan.window());
    conserved(plan.segments(), rounded.clone());
    assert_eq!(rounded.start + window.start as u64, ask.offset);
    assert_eq!(window.len(), ask.len);
    assert!(rounded.start + window.end as u64 <= rounded.end);
    for read in [
        0,
        window.start,
        window.end / 2,
        window.end,
        window.end.saturating_add(1),
    ] {
        let part = plan.window_of(read);
        assert!(
            part.start <= part.end && part.end <= window.end && part.end <= read.max(part.start)
        );
    }
    let direct = plan
        .segments()
        .filter(|segment| segment.mode == Mode::Direct)
        .count();
    if direct > 0 {
        let a = &ask.alignment;
        let align = u64::from(if a.read_offset == 0 {
            a.offset
        } else {
            a.read_offset
        });
        assert_eq!((rounded.start % align, rounded.end % align), (0, 0));
        assert_eq!(ask.memory as u64 % u64::from(a.memory), 0);
    } else {
        assert_eq!(window, 0..ask.len, "only what is read directly is rounded");
    }
    explained(ask, direct, plan.fallback().is_some());
}

/// Only a range past the end of any file has no plan.
fn refused(ask: &Ask) {
    let end = ask.offset.checked_add(ask.len as u64);
    assert!(end.is_none_or(|end| end > i64::MAX as u64));
}

fn conserved<'a>(segments: impl Iterator<Item = &'a Segment>, range: Range<u64>) {
    assert!(range.end <= i64::MAX as u64);
    let mut reached = range.start;
    for segment in segments {
        assert!(segment.file.start == reached && segment.file.end > reached);
        reached = segment.file.end;
    }
    assert_eq!(reached, range.end);
}

/// Asked for directly, it is moved directly once or there is a reason; never both.
fn explained(ask: &Ask, directs: usize, fallback: bool) {
    let asked = ask.mode == Mode::Direct && ask.len > 0;
    assert_eq!(directs + usize::from(fallback), usize::from(asked));
}
