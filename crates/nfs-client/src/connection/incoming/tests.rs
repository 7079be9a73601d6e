//! Streams cut anywhere, with and without memory for their data.

use nfs_io::buffer::POISON;
use nfs_io::{Budget, BufferPool};
use nfs_wire::record::{FragmentHeader, MARK_BYTES};
use nfs_wire::xdr::padding;
use proptest::prelude::*;

use super::*;

/// A record as a test wants to see it: whole, or head and data.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Whole(Vec<u8>),
    Placed(Vec<u8>, Vec<u8>),
}

/// Bytes before the data of a record that [`cut`] knows to have some: a word, the head's length, the
/// data's length, and filling.
const HEAD: &[u8] = b"head";

/// Feeds `stream` in steps of at most `step` bytes, as a socket would, and collects the records. Gives
/// memory of `room` bytes to each record that begins with [`HEAD`].
fn cut(
    stream: &[u8],
    steps: &[usize],
    max: usize,
    room: Option<usize>,
) -> Result<Vec<Seen>, RecordError> {
    let pool = BufferPool::new(Budget::new(64 << 20));
    let mut incoming = Incoming::new(max);
    let mut records = Vec::new();
    let mut rest = stream;
    let mut steps = steps.iter().copied().cycle();
    loop {
        while let Some(record) = incoming.next(|head, len| judge(&pool, room, head, len))? {
            records.push(match record {
                Record::InBuffer(bytes) => Seen::Whole(bytes.to_vec()),
                Record::Own(bytes) => Seen::Whole(bytes),
                Record::Placed(placed) => Seen::Placed(placed.head, placed.memory.to_vec()),
            });
        }
        if rest.is_empty() {
            return Ok(records);
        }
        let step = steps.next().unwrap();
        let take = |room: usize| step.min(room).min(rest.len());
        let read = |places: &mut [IoSliceMut<'_>]| {
            let mut count = 0;
            for place in places {
                let now = take(usize::MAX).min(step - count).min(rest.len() - count);
                let now = now.min(place.len());
                place[..now].copy_from_slice(&rest[count..count + now]);
                count += now;
            }
            Ok(count)
        };
        let append = |into: &mut bytes::buf::Limit<&mut Vec<u8>>| {
            let count = take(into.remaining_mut());
            into.put_slice(&rest[..count]);
            Ok(count)
        };
        let received = incoming.receive(read, append).unwrap();
        assert!(received > 0, "there is always room for the next byte");
        rest = &rest[received..];
    }
}

fn judge(pool: &BufferPool, room: Option<usize>, head: &[u8], len: usize) -> Judged {
    let Some(room) = room else {
        return Judged::Whole;
    };
    let known = head.len().min(4);
    if head[..known] != HEAD[..known] {
        return Judged::Whole;
    }
    let word = |at: usize| {
        let bytes = head.get(at..at + 4)?.first_chunk::<4>()?;
        usize::try_from(u32::from_be_bytes(*bytes)).ok()
    };
    let (Some(head_len), Some(data_len)) = (word(4), word(8)) else {
        return Judged::More;
    };
    if data_len > room || head_len + data_len + padding(data_len) != len {
        return Judged::Whole;
    }
    if head.len() < head_len {
        return Judged::More;
    }
    let buf = pool.try_take(room).unwrap();
    assert!(buf.iter().all(|&byte| byte == POISON));
    let cut = |_: &[u8]| Ok(None);
    Judged::Into(Destination {
        xid: 0,
        head_len,
        data_len,
        memory: Memory { buf, cut },
    })
}

fn fragment(last: bool, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).unwrap();
    let mut bytes = FragmentHeader { last, len }.to_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// Head, data and padding of a record with data.
fn with_data(head_len: usize, data: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut head = HEAD.to_vec();
    for len in [head_len, data.len()] {
        head.extend_from_slice(&u32::try_from(len).unwrap().to_be_bytes());
    }
    head.resize(head_len, b'.');
    let mut body = head.clone();
    body.extend_from_slice(data);
    body.resize(body.len() + padding(data.len()), 0);
    (head, body)
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251).to_le_bytes()[0]).collect()
}

fn whole(body: &[u8]) -> Seen {
    Seen::Whole(body.to_vec())
}

#[test]
fn records_come_out_whole_whatever_the_cuts() {
    let long = bytes(200_000);
    let stream = [
        fragment(true, b"one"),
        fragment(true, b""),
        fragment(false, b"tw"),
        fragment(false, b""),
        fragment(true, b"o"),
        fragment(true, &long),
        fragment(false, &long[..100]),
        fragment(true, &long[100..]),
        fragment(true, b"end"),
    ]
    .concat();
    let expected: [&[u8]; 6] = [b"one", b"", b"two", &long, &long, b"end"];
    let expected = expected.map(whole);
    for step in [1, 2, 3, 5, 7, 64, 4096, 65536, 1 << 20] {
        let seen = cut(&stream, &[step], 1 << 20, None).unwrap();
        assert_eq!(seen, expected, "step {step}");
    }
}

#[test]
fn data_goes_into_given_memory_whatever_the_cuts() {
    let mut stream = Vec::new();
    let mut expected = Vec::new();
    // All paddings, heads that are shorter and longer than the last, small records between.
    for (head_len, data_len) in [
        (128, 100_000),
        (128, 100_001),
        (40, 100_002),
        (600, 100_003),
        (128, 70_000),
    ] {
        let (head, body) = with_data(head_len, &bytes(data_len));
        stream.extend(fragment(true, &body));
        expected.push(Seen::Placed(head, bytes(data_len)));
        if data_len % 2 == 0 {
            stream.extend(fragment(true, b"small"));
            expected.push(whole(b"small"));
        }
    }
    // Too long for the memory; in two fragments; short enough to lie in the buffer; a lie about its
    // length.
    let (_, too_long) = with_data(128, &bytes(200_000));
    let (_, halved) = with_data(128, &bytes(90_000));
    let (_, short) = with_data(128, &bytes(5000));
    let (_, mut lie) = with_data(128, &bytes(90_000));
    lie.truncate(80_000);
    stream.extend(fragment(true, &too_long));
    stream.extend(fragment(false, &halved[..50_000]));
    stream.extend(fragment(true, &halved[50_000..]));
    stream.extend(fragment(true, &short));
    stream.extend(fragment(true, &lie));
    expected.extend([&too_long, &halved, &short, &lie].map(|body| whole(body)));
    for step in [1, 2, 3, 5, 7, 64, 4096, 65536, 65537, 1 << 20] {
        let seen = cut(&stream, &[step], 1 << 20, Some(150_000)).unwrap();
        // A socket that brings much at once brings a long record whole, and it is copied.
        let same = |(seen, expected): (&Seen, &Seen)| match (seen, expected) {
            (Seen::Whole(seen), Seen::Placed(head, data)) if step >= 65536 => {
                seen.starts_with(&[head.as_slice(), data].concat())
            }
            _ => seen == expected,
        };
        assert_eq!(seen.len(), expected.len());
        assert!(seen.iter().zip(&expected).all(same), "step {step}");
    }
}

#[test]
fn expected_data_is_not_copied() {
    let (_, body) = with_data(128, &bytes(1 << 20));
    let stream = fragment(true, &body).repeat(4);
    let pool = BufferPool::new(Budget::new(64 << 20));
    let mut incoming = Incoming::new(2 << 20);
    let (mut at, mut reads, mut done) = (0, 0, 0);
    let mut copied = Vec::new();
    loop {
        let judge = |head: &[u8], len| judge(&pool, Some(1 << 20), head, len);
        if let Some(record) = incoming.next(judge).unwrap() {
            assert!(matches!(record, Record::Placed(_)));
            done += 1;
            copied.push(incoming.take_copied());
            continue;
        }
        if at == stream.len() {
            break;
        }
        reads += 1;
        let read = |places: &mut [IoSliceMut<'_>]| {
            let before = at;
            for place in places {
                let now = place.len().min(stream.len() - at);
                place[..now].copy_from_slice(&stream[at..at + now]);
                at += now;
            }
            Ok(at - before)
        };
        let append = |_: &mut bytes::buf::Limit<&mut Vec<u8>>| panic!("all goes to its place");
        incoming.receive(read, append).unwrap();
    }
    assert_eq!(done, 4);
    // What comes with the first reply cannot be known; from then on each read takes the rest of one
    // record's data and the next one's head.
    let first = u64::try_from(READ_BUFFER_BYTES - MARK_BYTES - 128).unwrap();
    assert_eq!(copied, [first, 0, 0, 0]);
    assert_eq!(reads, 5);
}

#[test]
fn memory_of_a_reply_that_ends_half_way_comes_back_whole() {
    let (_, body) = with_data(40, &bytes(100_000));
    let stream = fragment(true, &body);
    let pool = BufferPool::new(Budget::new(64 << 20));
    let mut incoming = Incoming::new(1 << 20);
    let read = |places: &mut [IoSliceMut<'_>]| {
        let len = places[0].len();
        places[0].copy_from_slice(&stream[..len]);
        Ok(len)
    };
    incoming.receive(read, |_| panic!("not yet")).unwrap();
    let judge = |head: &[u8], len| judge(&pool, Some(150_000), head, len);
    assert!(incoming.next(judge).unwrap().is_none());
    let (_, memory) = incoming.reset().unwrap();
    assert_eq!(memory.buf.len(), 150_000);
    assert!(incoming.reset().is_none());
}

#[test]
fn declared_lengths_are_capped() {
    let stream = [0xff, 0xff, 0xff, 0xff];
    let error = cut(&stream, &[4], 1000, Some(1 << 20)).unwrap_err();
    assert_eq!(
        error,
        RecordError::TooLarge {
            len: 0x7fff_ffff,
            max: 1000
        }
    );
    let stream = [fragment(false, &[0; 600]), fragment(true, &[0; 401])].concat();
    let error = cut(&stream, &[4096], 1000, None).unwrap_err();
    assert_eq!(
        error,
        RecordError::TooLarge {
            len: 1001,
            max: 1000
        }
    );
}

#[test]
fn fragments_are_counted() {
    let stream = fragment(false, b"").repeat(REPLY_FRAGMENTS_MAX as usize + 1);
    let error = cut(&stream, &[4096], 1000, None).unwrap_err();
    assert_eq!(
        error,
        RecordError::TooManyFragments {
            max: REPLY_FRAGMENTS_MAX
        }
    );
}

proptest! {
    /// Whatever the records, the cuts and the memory: every byte comes out, once and in order.
    #[test]
    fn no_byte_is_lost_or_made_up(
        records in proptest::collection::vec((12..1500_usize, 0..40_000_usize, any::<bool>()), 1..8),
        steps in proptest::collection::vec(1..30_000_usize, 1..8),
        room in proptest::option::of(0..40_000_usize),
    ) {
        let mut stream = Vec::new();
        let mut bodies = Vec::new();
        for (head_len, data_len, halved) in records {
            let (_, body) = with_data(head_len, &bytes(data_len));
            if halved {
                stream.extend(fragment(false, &body[..body.len() / 2]));
                stream.extend(fragment(true, &body[body.len() / 2..]));
            } else {
                stream.extend(fragment(true, &body));
            }
            bodies.push(body);
        }
        let seen = cut(&stream, &steps, 1 << 20, room).unwrap();
        let seen: Vec<Vec<u8>> = seen
            .into_iter()
            .map(|seen| match seen {
                Seen::Whole(body) => body,
                Seen::Placed(head, data) => {
                    let padding = padding(data.len());
                    [head, data, vec![0; padding]].concat()
                }
            })
            .collect();
        prop_assert_eq!(seen, bodies);
    }

    /// Noise ends in records, an error, or nothing; never in a panic.
    #[test]
    fn noise_is_no_danger(
        stream in proptest::collection::vec(any::<u8>(), 0..4096),
        steps in proptest::collection::vec(1..1000_usize, 1..4),
    ) {
        let _ = cut(&stream, &steps, 1 << 16, Some(1 << 16));
    }
}
