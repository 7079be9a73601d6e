use proptest::prelude::*;

use super::*;

fn header() -> Header {
    Header {
        began_ns: 1_700_000_000_000_000_000,
        server: "0.1.0".to_owned(),
    }
}

fn any_call() -> impl Strategy<Value = Call> {
    let object = || proptest::option::of(any::<u64>());
    let times = (any::<i64>(), any::<u64>(), any::<u8>(), any::<u32>());
    let who = (any::<bool>(), any::<u32>(), any::<u32>(), any::<u32>());
    let objects = (object(), object(), object(), object());
    let rest = (
        proptest::option::of(any::<(u64, u64)>()),
        proptest::option::of(any::<u32>()),
        object(),
    );
    (times, who, objects, rest).prop_map(|(times, who, objects, rest)| Call {
        at_ns: times.0,
        took_ns: times.1,
        version: times.2,
        number: times.3,
        follows: who.0,
        client: who.1,
        connection: who.2,
        status: who.3,
        on: objects.0,
        name: objects.1,
        to: objects.2,
        to_name: objects.3,
        range: rest.0,
        how: rest.1,
        moved: rest.2,
    })
}

/// A file of these calls, in which `lost` are missing behind them.
fn written(calls: &[Call], lost: u64, end: End) -> Vec<u8> {
    let mut writer = Writer::begin(Vec::new(), &header(), u64::MAX).unwrap();
    for call in calls {
        assert!(writer.call(call).unwrap());
    }
    writer.lost(lost).unwrap();
    writer.end(end).unwrap();
    assert_eq!(writer.bytes(), writer.get_ref().len() as u64);
    writer.get_ref().clone()
}

/// The records of a file, and how it ends.
fn read(bytes: &[u8]) -> Result<(Vec<Entry>, Option<End>), RecordingError> {
    let mut reader = Reader::new(bytes)?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        entries.push(entry);
    }
    Ok((entries, reader.end()))
}

/// The calls as they are told: their times count from the first of them.
fn told(calls: &[Call]) -> Vec<Entry> {
    let first = calls.first().map_or(0, |call| call.at_ns);
    let moved = calls.iter().map(|call| {
        Entry::Call(Call {
            at_ns: call.at_ns.wrapping_sub(first),
            ..*call
        })
    });
    moved.collect()
}

proptest! {
    #[test]
    fn what_is_written_is_read(calls in proptest::collection::vec(any_call(), 0..20), lost in any::<u64>()) {
        let (entries, end) = read(&written(&calls, lost, End::Full)).unwrap();
        let mut expected = told(&calls);
        expected.push(Entry::Lost(lost));
        prop_assert_eq!(entries, expected);
        prop_assert_eq!(end, Some(End::Full));
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _any = read(&bytes);
        let mut behind = written(&[], 0, End::Cut);
        behind.extend_from_slice(&bytes);
        let _any = read(&behind);
    }

    #[test]
    fn no_changed_byte_makes_it_panic(
        calls in proptest::collection::vec(any_call(), 1..6), at in any::<prop::sample::Index>(), bit in 0..8_u32,
    ) {
        let mut bytes = written(&calls, 1, End::Asked);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let _any = read(&bytes);
    }
}

#[test]
fn a_file_that_was_cut_off_is_good_up_to_its_last_whole_record() {
    let calls = [
        Call::default(),
        Call {
            at_ns: 7,
            on: Some(1),
            range: Some((4096, 512)),
            ..Call::default()
        },
    ];
    let bytes = written(&calls, 3, End::Asked);
    let whole = read(&bytes).unwrap().0;
    let mut most = 0;
    for len in 0..bytes.len() {
        match read(&bytes[..len]) {
            Ok((entries, end)) => {
                assert_eq!(entries, whole[..entries.len()]);
                assert_eq!(end, Some(End::Cut), "{len} of {} bytes", bytes.len());
                most = most.max(entries.len());
            }
            Err(RecordingError::Foreign | RecordingError::NoHeader(_)) => assert_eq!(most, 0),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(most, 3);
}

#[test]
fn errors_say_what_is_wrong_and_what_helps() {
    let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert!(error(b"#!/bin/sh\necho a script").contains("`penstock trace record`"));
    let mut newer = written(&[], 0, End::Asked);
    newer[8] = 2;
    assert!(error(&newer).contains("form 2"), "{}", error(&newer));
    let mut damaged = written(&[], 0, End::Cut);
    let len = damaged.len();
    // A call that ends behind its kind.
    damaged.extend_from_slice(&[1, 1]);
    let text = error(&damaged);
    assert!(text.contains(&format!("head -c {len} FILE")), "{text}");
}

#[test]
fn what_a_later_version_adds_is_passed_over() {
    let mut bytes = written(&[Call::default()], 0, End::Cut);
    // A kind that is not known, and a number of lost calls with something behind it.
    bytes.extend_from_slice(&[3, 200, 1, 2]);
    bytes.extend_from_slice(&[4, 2, 9, 8, 7]);
    let (entries, _) = read(&bytes).unwrap();
    assert_eq!(entries.last(), Some(&Entry::Lost(9)));
    assert_eq!(entries.len(), 3);
}

#[test]
fn a_recording_does_not_grow_beyond_its_size() {
    let mut writer = Writer::begin(Vec::new(), &header(), 100).unwrap();
    let mut fitted = 0;
    while writer.call(&Call::default()).unwrap() {
        fitted += 1;
    }
    assert!((1..10).contains(&fitted), "{fitted}");
    assert!(writer.bytes() <= 100);
}

#[test]
fn a_call_takes_some_forty_bytes() {
    let call = |number: u64| Call {
        at_ns: number.cast_signed() * 100_000,
        took_ns: 90_000,
        version: 3,
        number: 6,
        client: 0x8123_4567,
        connection: 0x9234_5678,
        on: Some(u64::MAX / 3),
        range: Some((number << 20, 1 << 20)),
        moved: Some(1 << 20),
        ..Call::default()
    };
    let calls: Vec<Call> = (0..1000).map(call).collect();
    let bytes = written(&calls, 0, End::Asked).len();
    assert!(bytes < 42 * calls.len(), "{bytes}");
}
