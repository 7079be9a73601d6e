//! Records, with and without holes, whatever the fragments and however their bytes arrive.

use proptest::prelude::*;

use super::super::FragmentHeader;
use super::*;

const SMALL: RecordLimits = RecordLimits {
    fragments_max: 4,
    ..RecordLimits::whole(64)
};

/// Small enough that every way in which a record can be taken comes up in short streams.
const HOLES: RecordLimits = RecordLimits {
    record_bytes_max: 400,
    kept_bytes_max: 200,
    fragments_max: 40,
    small_bytes_max: 12,
    in_place_bytes_max: 40,
    unasked_bytes_max: 24,
    head_bytes_max: 20,
    read_ahead_bytes_first: 24,
    read_ahead_bytes_max: 100,
};

/// A record as a test wants to see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    bytes: Vec<u8>,
    hole: Option<Hole>,
    payload: Vec<u8>,
    missing: usize,
}

/// Tells the hole of a record that begins with `H`, its place, its length and how much behind it is dropped,
/// a byte each. Other records have none.
fn judge(beginning: &[u8], total: Option<usize>) -> Verdict {
    assert!(total.is_none_or(|total| total > HOLES.small_bytes_max && total >= beginning.len()));
    match *beginning {
        [] => Verdict::More { bytes: 1 },
        [b'H'] => Verdict::More { bytes: 2 },
        [b'H', at, len, skipped, ..] => Verdict::Hole(Hole {
            at: at.into(),
            len: len.into(),
            skipped: skipped.into(),
        }),
        [b'H', ..] => Verdict::More { bytes: 0 },
        _ => Verdict::Whole,
    }
}

/// Receives streams as a connection does, from a socket that has at most so many bytes at a time.
struct Receiver {
    cutter: RecordCutter,
    payload: Vec<u8>,
    records: Vec<Seen>,
    /// Bytes of payload that came with other bytes.
    copied: usize,
    reads: usize,
}

impl Receiver {
    fn new(limits: RecordLimits) -> Self {
        Self {
            cutter: RecordCutter::new(limits),
            payload: Vec::new(),
            records: Vec::new(),
            copied: 0,
            reads: 0,
        }
    }

    /// Takes bytes as they come, payload and all.
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), RecordError> {
        // Each step uses bytes up or makes room: more steps than that are a loop without end.
        for _ in 0..2 * bytes.len() + 16 {
            match self.cutter.feed(&mut bytes, judge)? {
                Step::More => {
                    assert!(bytes.is_empty(), "bytes were left behind");
                    return Ok(());
                }
                Step::Hole(hole) => self.payload = vec![0xee; hole.len],
                Step::Payload { at, bytes } => {
                    assert!(!bytes.is_empty());
                    self.payload[at..at + bytes.len()].copy_from_slice(bytes);
                    self.copied += bytes.len();
                }
                Step::Memory { bytes } => {
                    assert!(bytes <= HOLES.kept_bytes_max);
                    self.cutter.grant(bytes);
                }
                Step::Record(record) => {
                    let mut payload = std::mem::take(&mut self.payload);
                    if let Some(hole) = record.hole {
                        payload.truncate(hole.len.saturating_sub(record.missing));
                    }
                    self.records.push(Seen {
                        bytes: record.bytes.into_owned(),
                        hole: record.hole,
                        payload,
                        missing: record.missing,
                    });
                }
            }
        }
        panic!("the cutter makes no progress");
    }

    /// Reads a stream to its end: payload to its place, the rest of long records to theirs, and no more
    /// beyond than the cutter allows.
    fn read(&mut self, mut stream: &[u8], most: usize) -> Result<(), RecordError> {
        while !stream.is_empty() {
            self.reads += 1;
            let room = self.cutter.append_room();
            if room > 0 {
                let received = self.cutter.append(|record, room| {
                    let now = take_front(&mut stream, room.min(most));
                    record.extend_from_slice(now);
                    Ok::<_, ()>(now.len())
                });
                assert!(received.unwrap() > 0);
                self.take(&[])?;
                continue;
            }
            let limit = self.cutter.read_limit();
            assert!(limit > 0, "a read of nothing tells that the peer is gone");
            let room = self.cutter.payload_room();
            let mut now = take_front(&mut stream, room.saturating_add(limit).min(most));
            let direct = take_front(&mut now, room);
            let at = self.cutter.payload_filled();
            self.payload[at..at + direct.len()].copy_from_slice(direct);
            self.cutter.received_payload(direct.len());
            self.take(now)?;
        }
        Ok(())
    }
}

/// A record with a hole, as [`judge`] knows it.
fn with_hole(at: u8, len: u8, skipped: u8, behind: usize) -> Vec<u8> {
    let filling = usize::from(at) + usize::from(len) + usize::from(skipped) + behind;
    let mut record: Vec<u8> = (0..filling).map(|index| (index % 251) as u8).collect();
    for (place, byte) in record.iter_mut().zip([b'H', at, len, skipped]) {
        *place = byte;
    }
    record
}

/// What was received is what was sent, in the places where it belongs.
fn assert_is(seen: &Seen, sent: &[u8]) {
    let Some(hole) = seen.hole else {
        assert_eq!(seen.bytes, sent);
        return;
    };
    let end = hole.at + hole.len + hole.skipped;
    assert_eq!(seen.missing, end.saturating_sub(sent.len().max(hole.at)));
    let part = |from: usize, to: usize| &sent[from.min(sent.len())..to.min(sent.len())];
    let front = hole.at.min(seen.bytes.len());
    assert_eq!(seen.bytes[..front], *part(0, hole.at));
    assert_eq!(seen.bytes[front..], *part(end, sent.len()));
    if seen.missing == 0 {
        assert_eq!(seen.payload, part(hole.at, hole.at + hole.len));
    }
}

/// One record of these fragments, received in pieces of every size and in every way.
fn received_anyhow(sent: &[u8], fragments: &[&[u8]]) -> Seen {
    let stream = [framed(fragments), framed(&[b"next"])].concat();
    let mut whole = Receiver::new(HOLES);
    whole.take(&stream).unwrap();
    let [seen, next] = whole.records.as_slice() else {
        panic!("two records, not {:?}", whole.records)
    };
    assert_eq!(next.bytes, b"next");
    assert_is(seen, sent);
    for piece in 1..=stream.len() {
        let mut pieces = Receiver::new(HOLES);
        stream
            .chunks(piece)
            .try_for_each(|bytes| pieces.take(bytes))
            .unwrap();
        assert_eq!(pieces.records, whole.records, "pieces of {piece}");
        let mut reads = Receiver::new(HOLES);
        reads.read(&stream, piece).unwrap();
        assert_eq!(reads.records, whole.records, "reads of {piece}");
        assert!(reads.cutter.is_between_records());
    }
    for cut in 0..=stream.len() {
        let mut halves = Receiver::new(HOLES);
        halves.take(&stream[..cut]).unwrap();
        halves.take(&stream[cut..]).unwrap();
        assert_eq!(halves.records, whole.records, "cut at {cut}");
    }
    seen.clone()
}

#[test]
fn a_hole_may_stand_anywhere_in_a_record() {
    for (at, len, skipped, behind) in [
        (4, 30, 0, 0),
        (4, 30, 2, 0),
        (4, 29, 3, 30),
        (9, 1, 3, 60),
        (20, 50, 90, 0),
        (20, 200, 60, 70),
        (60, 9, 3, 40),
        (4, 9, 200, 1),
    ] {
        let record = with_hole(at, len, skipped, behind);
        let seen = received_anyhow(&record, &[&record]);
        let hole = seen.hole.expect("a hole");
        assert_eq!(
            (hole.at, hole.len, hole.skipped),
            (at.into(), len.into(), skipped.into())
        );
        assert_eq!((seen.payload.len(), seen.missing), (len.into(), 0));
    }
}

#[test]
fn a_hole_is_filled_from_fragments_cut_at_every_byte() {
    let record = with_hole(9, 20, 3, 15);
    for first in 0..=record.len() {
        let (front, back) = record.split_at(first);
        assert!(received_anyhow(&record, &[front, back]).hole.is_some());
        assert!(
            received_anyhow(&record, &[front, b"", back, b""])
                .hole
                .is_some()
        );
    }
    for size in [3, 5, 7] {
        let fragments: Vec<&[u8]> = record.chunks(size).collect();
        assert!(received_anyhow(&record, &fragments).hole.is_some());
    }
}

#[test]
fn a_hole_that_the_record_has_no_room_for_is_none() {
    let mut record = with_hole(4, 30, 2, 0);
    for left in 13..record.len() {
        record.truncate(left + 1);
        let whole = left + 1 < 36;
        let seen = received_anyhow(&record, &[&record]);
        assert_eq!(seen.hole.is_none(), whole, "{left}");
        record = with_hole(4, 30, 2, 0);
    }
    let empty = with_hole(4, 0, 2, 60);
    assert_eq!(received_anyhow(&empty, &[&empty]).hole, None);
}

#[test]
fn a_record_that_ends_within_its_hole_says_how_much_is_missing() {
    let record = with_hole(6, 30, 2, 0);
    for left in 21..record.len() {
        let sent = &record[..left];
        let seen = received_anyhow(sent, &[&sent[..20], &sent[20..]]);
        assert_eq!(seen.missing, record.len() - left);
    }
}

#[test]
fn a_small_record_is_not_looked_at() {
    let record = with_hole(4, 8, 0, 0);
    assert_eq!(record.len(), HOLES.small_bytes_max);
    assert_eq!(received_anyhow(&record, &[&record]).hole, None);
    let record = with_hole(4, 9, 0, HOLES.head_bytes_max);
    assert!(received_anyhow(&record, &[&record]).hole.is_some());
}

#[test]
fn expected_payload_is_not_copied_and_costs_one_read() {
    let record = with_hole(16, 150, 2, 10);
    let stream = framed(&[&record]).repeat(20);
    let mut receiver = Receiver::new(HOLES);
    receiver.read(&stream, usize::MAX).unwrap();
    assert_eq!(receiver.records.len(), 20);
    // The first head is shorter than what is read where nothing is known.
    assert_eq!(receiver.copied, 4);
    assert_eq!(receiver.reads, 21);
}

#[test]
fn small_records_in_numbers_are_read_in_numbers() {
    let stream = framed(&[b"small"]).repeat(1000);
    let mut receiver = Receiver::new(HOLES);
    receiver.read(&stream, usize::MAX).unwrap();
    assert_eq!(receiver.records.len(), 1000);
    assert!(
        receiver.reads <= stream.len() / 100 + 3,
        "{}",
        receiver.reads
    );
}

#[test]
fn memory_is_asked_for_beyond_what_is_free() {
    let record = vec![7; 190];
    let stream = framed(&[&record]);
    let mut cutter = RecordCutter::new(HOLES);
    let mut bytes = &stream[..100];
    let step = cutter.feed(&mut bytes, judge).unwrap();
    assert_eq!(step, Step::Memory { bytes: 190 });
    assert!(cutter.kept_capacity() < 2 * HOLES.unasked_bytes_max);
    cutter.grant(190);
    assert_eq!(cutter.feed(&mut bytes, judge), Ok(Step::More));
    assert_eq!((cutter.kept_capacity(), cutter.append_room()), (190, 94));
    assert_eq!(received_anyhow(&record, &[&record]).bytes, record);
}

/// Found by fuzzing: cut into bytes, the record was refused only behind its hole.
#[test]
fn a_record_that_keeps_too_much_is_refused_when_its_hole_is_known_however_it_is_cut() {
    let head = FragmentHeader {
        last: false,
        len: 350,
    };
    let mut stream = head.to_bytes().to_vec();
    stream.extend_from_slice(b"H\x04\x3c\x00 and a few bytes of its hole");
    for piece_len in 1..=stream.len() {
        let mut receiver = Receiver::new(HOLES);
        let taken = stream
            .chunks(piece_len)
            .try_for_each(|piece| receiver.take(piece));
        let too_large = RecordError::TooLarge { len: 290, max: 200 };
        assert_eq!(taken, Err(too_large), "in pieces of {piece_len}");
    }
}

#[test]
fn a_long_record_without_a_hole_is_refused_once_that_is_known() {
    let hole = with_hole(16, 200, 100, 30);
    assert!(received_anyhow(&hole, &[&hole]).hole.is_some());
    for fragments in [&[&[7_u8; 201][..]][..], &[&[7; 100], &[7; 101]]] {
        let read = Receiver::new(HOLES).take(&framed(fragments));
        assert_eq!(read, Err(RecordError::TooLarge { len: 201, max: 200 }));
    }
    let behind = with_hole(16, 100, 0, 185);
    let read = Receiver::new(HOLES).take(&framed(&[&behind]));
    assert_eq!(read, Err(RecordError::TooLarge { len: 201, max: 200 }));
}

/// A record of these fragments as it travels.
fn framed(fragments: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, fragment) in fragments.iter().enumerate() {
        let header = FragmentHeader {
            last: index + 1 == fragments.len(),
            len: u32::try_from(fragment.len()).unwrap(),
        };
        out.extend(header.to_bytes());
        out.extend_from_slice(fragment);
    }
    out
}

/// All the records in `pieces`, which arrive one after the other.
fn assemble(limits: RecordLimits, pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>, RecordError> {
    let mut cutter = RecordCutter::new(limits);
    let mut records = Vec::new();
    for mut piece in pieces.iter().copied() {
        while let Some(record) = cutter.feed_whole(&mut piece)? {
            records.push(record.into_owned());
        }
        assert!(piece.is_empty(), "None means that all was taken");
    }
    Ok(records)
}

proptest! {
    #[test]
    fn records_survive_any_fragments_and_pieces(
        records in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 1..6),
            0..6,
        ),
        piece_len in 1_usize..50,
    ) {
        let mut stream = Vec::new();
        for fragments in &records {
            let fragments: Vec<&[u8]> = fragments.iter().map(Vec::as_slice).collect();
            stream.extend(framed(&fragments));
        }
        let pieces: Vec<&[u8]> = stream.chunks(piece_len).collect();
        let expected: Vec<Vec<u8>> = records.iter().map(|record| record.concat()).collect();
        prop_assert_eq!(assemble(RecordLimits::whole(1 << 20), &pieces), Ok(expected));
    }

    #[test]
    fn any_bytes_keep_to_the_limits(stream in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(records) = assemble(SMALL, &[&stream]) {
            for record in records {
                prop_assert!(record.len() <= SMALL.record_bytes_max);
            }
        }
    }
}

#[test]
fn two_records_split_at_every_byte() {
    let mut stream = framed(&[b"one", b"", b"two"]);
    stream.extend(framed(&[b"three"]));
    for cut in 0..=stream.len() {
        let (front, back) = stream.split_at(cut);
        assert_eq!(
            assemble(SMALL, &[front, back]),
            Ok(vec![b"onetwo".to_vec(), b"three".to_vec()]),
            "cut at {cut}"
        );
    }
}

#[test]
fn stream_may_end_between_records_only() {
    let stream = framed(&[b"one", b"two"]);
    for cut in 0..=stream.len() {
        let mut cutter = RecordCutter::new(SMALL);
        let mut front = &stream[..cut];
        let record = cutter.feed_whole(&mut front).unwrap();
        assert_eq!(record.is_some(), cut == stream.len());
        assert_eq!(
            cutter.is_between_records(),
            cut == 0 || cut == stream.len(),
            "after {cut} bytes"
        );
    }
}

#[test]
fn bytes_after_a_record_are_left() {
    let mut stream = framed(&[b"one"]);
    stream.extend(b"rest");
    let mut bytes = stream.as_slice();
    let mut cutter = RecordCutter::new(SMALL);
    assert_eq!(
        cutter.feed_whole(&mut bytes),
        Ok(Some(Cow::Borrowed(&b"one"[..])))
    );
    assert_eq!(bytes, b"rest");
}

#[test]
fn empty_record_is_a_record() {
    assert_eq!(assemble(SMALL, &[&framed(&[b""])]), Ok(vec![Vec::new()]));
    assert_eq!(
        assemble(SMALL, &[&framed(&[b"", b"", b""])]),
        Ok(vec![Vec::new()])
    );
}

#[test]
fn length_beyond_the_limit_fails_before_its_bytes() {
    let header = FragmentHeader {
        last: true,
        len: 65,
    };
    let error = RecordError::TooLarge { len: 65, max: 64 };
    assert_eq!(assemble(SMALL, &[&header.to_bytes()]), Err(error));
    assert_eq!(
        assemble(SMALL, &[&framed(&[&[7; 64]])]),
        Ok(vec![vec![7; 64]])
    );
}

#[test]
fn length_counts_all_fragments() {
    let stream = framed(&[&[7; 60], &[7; 5]]);
    let error = RecordError::TooLarge { len: 65, max: 64 };
    assert_eq!(assemble(SMALL, &[&stream]), Err(error));
}

#[test]
fn announced_length_is_not_allocated() {
    let header = FragmentHeader {
        last: true,
        len: 1 << 24,
    };
    let mut cutter = RecordCutter::new(RecordLimits::whole(1 << 25));
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend([7; 10]);
    assert_eq!(cutter.feed_whole(&mut bytes.as_slice()), Ok(None));
    assert!(cutter.kept_capacity() < 100);
}

#[test]
fn endless_empty_fragments_are_ended() {
    assert!(assemble(SMALL, &[&framed(&[b"", b"", b"", b"x"])]).is_ok());
    assert_eq!(
        assemble(SMALL, &[&framed(&[b"", b"", b"", b"", b"x"])]),
        Err(RecordError::TooManyFragments { max: 4 })
    );
}

#[test]
fn fragments_are_counted_per_record() {
    let stream = framed(&[b"a", b"b", b"c"]).repeat(5);
    assert_eq!(assemble(SMALL, &[&stream]), Ok(vec![b"abc".to_vec(); 5]));
}

#[test]
fn failed_stream_stays_failed() {
    let mut cutter = RecordCutter::new(SMALL);
    let error = cutter.feed_whole(&mut [0xff; 4].as_slice()).unwrap_err();
    let stream = framed(&[b"one"]);
    assert_eq!(cutter.feed_whole(&mut stream.as_slice()), Err(error));
    assert_eq!(cutter.feed_whole(&mut [].as_slice()), Err(error));
    assert!(!cutter.is_between_records());
}

proptest! {
    /// Whatever the records, their fragments and the way they come: every byte arrives, once and where it
    /// belongs.
    #[test]
    fn no_byte_is_lost_or_made_up(
        records in proptest::collection::vec(
            (any::<bool>(), 0..40_u8, 0..90_u8, 0..9_u8, 0..60_usize, 0..5_usize),
            1..6,
        ),
        most in 1..300_usize,
        pieces in proptest::collection::vec(1..60_usize, 1..5),
    ) {
        let mut stream = Vec::new();
        let mut sent = Vec::new();
        for (has_hole, at, len, skipped, behind, cuts) in records {
            let record = if has_hole {
                with_hole(at.max(4), len, skipped, behind)
            } else {
                vec![7; behind]
            };
            let size = record.len() / (cuts + 1) + 1;
            let fragments: Vec<&[u8]> = record.chunks(size).collect();
            let fragments = if fragments.is_empty() { vec![&b""[..]] } else { fragments };
            stream.extend(framed(&fragments));
            sent.push(record);
        }
        let mut reads = Receiver::new(HOLES);
        prop_assert_eq!(reads.read(&stream, most), Ok(()));
        prop_assert_eq!(reads.records.len(), sent.len());
        for (seen, sent) in reads.records.iter().zip(&sent) {
            assert_is(seen, sent);
        }
        let mut taken = Receiver::new(HOLES);
        let mut rest = stream.as_slice();
        for piece in pieces.iter().cycle() {
            taken.take(take_front(&mut rest, *piece)).unwrap();
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(taken.records, reads.records);
    }

    /// Noise ends in records within the limits, an error, or nothing.
    #[test]
    fn noise_is_no_danger(
        stream in proptest::collection::vec(prop_oneof![Just(0), Just(0x80), Just(b'H'), 0..60_u8], 0..400),
        most in 1..100_usize,
    ) {
        let mut reads = Receiver::new(HOLES);
        let ended = reads.read(&stream, most);
        let mut whole = Receiver::new(HOLES);
        prop_assert_eq!(whole.take(&stream), ended);
        prop_assert_eq!(&whole.records, &reads.records);
        for seen in &whole.records {
            prop_assert!(seen.bytes.len() <= HOLES.kept_bytes_max);
        }
    }
}
