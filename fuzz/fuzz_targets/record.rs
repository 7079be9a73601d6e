//! A byte stream gives the same records, with the same holes, however it is cut into pieces, and keeps
//! to its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nfs_wire::record::{Hole, RecordCutter, RecordError, RecordLimits, Step, Verdict};

const LIMITS: RecordLimits = RecordLimits {
    record_bytes_max: 1000,
    kept_bytes_max: 500,
    fragments_max: 10,
    small_bytes_max: 16,
    in_place_bytes_max: 100,
    unasked_bytes_max: 50,
    head_bytes_max: 24,
    read_ahead_bytes_first: 28,
    read_ahead_bytes_max: 200,
};

/// The bytes of a record, its hole, the bytes of that, and how many of them never came.
type Seen = (Vec<u8>, Option<Hole>, Vec<u8>, usize);

fuzz_target!(|data: &[u8]| {
    let Some((piece_len, stream)) = data.split_first() else {
        return;
    };
    let piece_len = usize::from(*piece_len).max(1);
    let whole = cut(&mut std::iter::once(stream), false);
    let pieces = cut(&mut stream.chunks(piece_len), false);
    assert_eq!(whole, pieces);
    let received = cut(&mut stream.chunks(piece_len), true);
    assert_eq!(whole, received);
});

/// The records of a stream. `direct`: what belongs to a hole is received there where it may be.
fn cut<'a>(
    pieces: &mut dyn Iterator<Item = &'a [u8]>,
    direct: bool,
) -> (Vec<Seen>, Option<RecordError>) {
    let mut cutter = RecordCutter::new(LIMITS);
    let mut records = Vec::new();
    let mut payload = Vec::new();
    for mut piece in pieces {
        loop {
            let room = cutter.payload_room().min(piece.len());
            if direct && room > 0 {
                let (now, rest) = piece.split_at(room);
                let at = cutter.payload_filled();
                payload[at..at + room].copy_from_slice(now);
                cutter.received_payload(room);
                piece = rest;
            }
            match cutter.feed(&mut piece, judge) {
                Ok(Step::More) => break assert!(piece.is_empty()),
                Ok(Step::Hole(hole)) => payload = vec![0; hole.len],
                Ok(Step::Payload { at, bytes }) => {
                    payload[at..at + bytes.len()].copy_from_slice(bytes);
                }
                Ok(Step::Memory { bytes }) => cutter.grant(bytes),
                Ok(Step::Record(record)) => {
                    assert!(record.bytes.len() <= LIMITS.kept_bytes_max);
                    let payload = std::mem::take(&mut payload);
                    let bytes = record.bytes.into_owned();
                    records.push((bytes, record.hole, payload, record.missing));
                }
                Err(error) => return (records, Some(error)),
            }
        }
    }
    (records, None)
}

/// Takes the hole from the record's first bytes, where these say that there is one.
fn judge(beginning: &[u8], total: Option<usize>) -> Verdict {
    assert!(total.is_none_or(|total| total > LIMITS.small_bytes_max && total >= beginning.len()));
    match *beginning {
        [] => Verdict::More { bytes: 1 },
        [first, ..] if first < 0x80 => Verdict::Whole,
        [_, at, len, skipped, ..] => Verdict::Hole(Hole {
            at: at.into(),
            len: len.into(),
            skipped: skipped.into(),
        }),
        [..] => Verdict::More { bytes: 4 },
    }
}
