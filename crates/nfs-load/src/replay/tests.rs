use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;

use super::script::{Act, Form, Script};
use super::turns::Turns;
use super::*;
use crate::recording::{Call, End, Header, Writer};

const GETATTR: u32 = 1;
const LOOKUP: u32 = 3;
const READLINK: u32 = 5;
const READ: u32 = 6;
const CREATE: u32 = 8;
const SYMLINK: u32 = 10;
const REMOVE: u32 = 12;
const LINK: u32 = 15;
const READDIRPLUS: u32 = 17;

/// A call of NFSv3 that begins at `at` and takes `took`.
fn call(number: u32, at: i64, took: u64, on: u64) -> Call {
    Call {
        at_ns: at,
        took_ns: took,
        version: 3,
        number,
        on: Some(on),
        ..Call::default()
    }
}

fn named(number: u32, at: i64, name: u64, to: Option<u64>) -> Call {
    Call {
        name: Some(name),
        to,
        ..call(number, at, 1, 100)
    }
}

fn read(at: i64, took: u64, file: u64, offset: u64) -> Call {
    Call {
        range: Some((offset, 4096)),
        moved: Some(1000),
        ..call(READ, at, took, file)
    }
}

fn acts(script: &Script) -> Vec<Act> {
    script.plays.iter().map(|play| play.act).collect()
}

#[test]
fn files_are_as_large_as_they_were_read_and_made_ones_are_not_there_before() {
    let script = Script::of(vec![
        read(10, 5, 1, 8192),
        named(CREATE, 20, 7, Some(2)),
        read(30, 5, 2, 0),
        named(REMOVE, 40, 7, None),
        named(REMOVE, 50, 8, None),
    ]);
    let sizes: Vec<_> = script.objects.iter().map(|one| one.size).collect();
    // The file that was read, the directory, the one that is made, and the one of which only the end was seen.
    assert_eq!(sizes, [Some(9192), Some(0), None, Some(0)]);
    let forms = [script.objects[1].form, script.objects[3].form];
    assert_eq!(forms, [Form::Directory, Form::File]);
    let expected = [
        Act::Read(0, 8192, 4096),
        Act::Create(1, 0, 2),
        Act::Read(2, 0, 4096),
        Act::Remove(1, 0, 2),
        Act::Remove(1, 1, 3),
    ];
    assert_eq!(acts(&script), expected);
    assert_eq!((script.left_out.len(), script.calls), (0, 5));
}

#[test]
fn links_are_made_read_and_removed() {
    let link = |at, to_name| Call {
        to: Some(100),
        to_name: Some(to_name),
        ..call(LINK, at, 1, 1)
    };
    let script = Script::of(vec![
        read(10, 5, 1, 0),
        call(READLINK, 20, 1, 2),
        named(SYMLINK, 30, 7, Some(3)),
        call(READLINK, 40, 1, 3),
        link(50, 8),
        link(60, 8),
        named(REMOVE, 70, 8, None),
        link(80, 8),
    ]);
    let forms: Vec<_> = script.objects.iter().map(|one| one.form).collect();
    // The file, the link that was there, the directory, the link that is made.
    assert_eq!(forms, [Form::File, Form::Link, Form::Directory, Form::Link]);
    let expected = [
        Act::Read(0, 0, 4096),
        Act::Readlink(1),
        Act::Symlink(2, 0, 3),
        Act::Readlink(3),
        Act::Link(0, 2, 1),
        Act::Remove(2, 1, 0),
        Act::Link(0, 2, 1),
    ];
    assert_eq!(acts(&script), expected);
    // A name that is there cannot have been given, so the recording is not whole.
    assert_eq!(script.left_out.values().sum::<u64>(), 1);
    let of_file = script.plays[4].turns.iter().map(|turn| turn.object);
    assert_eq!(of_file.collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn a_listing_begins_or_goes_on() {
    let list = |at, cookie| Call {
        range: Some((cookie, 32_768)),
        ..call(READDIRPLUS, at, 1, 100)
    };
    let script = Script::of(vec![list(1, 0), list(2, 77), list(3, 0)]);
    let expected = [false, true, false].map(|goes_on| Act::Readdir(0, goes_on, 32_768));
    assert_eq!(acts(&script), expected);
}

#[test]
fn what_cannot_be_played_is_left_out_and_counted() {
    let failed = Call {
        status: 13,
        ..call(GETATTR, 1, 1, 1)
    };
    let missing = Call {
        status: 2,
        ..named(LOOKUP, 2, 5, None)
    };
    let far = read(3, 1, 1, u64::MAX - 10);
    let odd = Call {
        version: 9,
        ..call(77, 4, 1, 1)
    };
    let script = Script::of(vec![failed, failed, missing, far, odd]);
    assert_eq!(acts(&script), [Act::Lookup(0, 0, None)]);
    let left_out: Vec<_> = script
        .left_out
        .iter()
        .map(|(why, count)| (why.as_str(), *count))
        .collect();
    let expected = [
        ("?: it is not replayed", 1),
        ("GETATTR: it failed when it was recorded", 2),
        ("READ: its range is out of bounds", 1),
    ];
    assert_eq!(left_out, expected);
}

/// The bytes of a recording of these calls.
fn recording(calls: &[Call]) -> Vec<u8> {
    let header = Header {
        began_ns: 0,
        server: String::new(),
    };
    let mut writer = Writer::begin(Vec::new(), &header, u64::MAX).unwrap();
    for call in calls {
        assert!(writer.call(call).unwrap());
    }
    writer.end(End::Asked).unwrap();
    writer.get_ref().clone()
}

#[test]
fn a_recording_of_nothing_or_of_too_much_is_refused_with_the_cure() {
    let refused = |calls: &[Call]| Script::read(&recording(calls)[..]).unwrap_err().to_string();
    assert!(refused(&[]).contains("record while clients work"));
    // Two files, each as large as a file may be.
    let far = limits::FILE_BYTES_MAX - 4096;
    let text = refused(&[read(1, 1, 1, far), read(2, 1, 2, far)]);
    assert!(text.contains("are the most that are made"), "{text}");
    let few = [read(1, 1, 1, far)];
    assert_eq!(Script::read(&recording(&few)[..]).unwrap().calls, 1);
}

#[test]
fn a_recording_of_more_calls_than_are_replayed_is_refused_before_it_is_read_to_its_end() {
    let calls = [1, 2, 3].map(|at| read(at, 1, 1, 0));
    let whole = recording(&calls);
    assert_eq!(Script::read_up_to(3, &whole[..]).unwrap().calls, 3);
    // What is behind the call that is one too many is damaged, and nobody gets as far.
    let mut damaged = recording(&calls[..2]);
    damaged.extend_from_slice(&[0xff; 64]);
    let refused = Script::read_up_to(1, &damaged[..]).unwrap_err();
    assert!(
        refused.to_string().contains("has more than 1 calls"),
        "{refused}"
    );
    assert!(
        refused.to_string().contains("record with --for"),
        "{refused}"
    );
}

#[test]
fn calls_wait_for_those_that_were_over_and_not_for_those_beside_them() {
    // The second overlaps the first; the third began when both were over, the last one is on another file.
    let script = Script::of(vec![
        read(0, 10, 1, 0),
        read(5, 20, 1, 1),
        read(30, 5, 1, 2),
        read(31, 5, 2, 3),
    ]);
    let turns: Vec<_> = script.plays.iter().map(|play| play.turns[0]).collect();
    let told: Vec<_> = turns
        .iter()
        .map(|turn| (turn.behind, turn.after, turn.end))
        .collect();
    assert_eq!(told, [(0, 0, 0), (1, 0, 1), (2, 2, 2), (0, 0, 0)]);
}

/// Any calls, on few files and names, with times that often meet.
fn any_call() -> impl Strategy<Value = Call> {
    let number = prop::sample::select(vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 21]);
    let few = || proptest::option::of(0..4_u64);
    let times = (0..6_i64, 0..4_u64, any::<bool>());
    (number, times, (few(), few(), few(), few()), 0..3_u32).prop_map(
        |(number, times, numbers, client)| Call {
            number,
            at_ns: if times.2 { times.0 } else { i64::MAX - times.0 },
            took_ns: times.1,
            version: 3,
            client,
            on: numbers.0,
            name: numbers.1,
            to: numbers.2,
            to_name: numbers.3,
            range: Some((0, 10)),
            how: Some(0),
            ..Call::default()
        },
    )
}

proptest! {
    #[test]
    fn every_script_comes_to_its_end_in_order(calls in prop::collection::vec(any_call(), 0..40), seed in any::<u64>()) {
        let script = Script::of(calls);
        for (at, place) in script.objects.iter().enumerate() {
            prop_assert!(place.name.is_none_or(|(directory, _)| directory < at), "a directory is before what is in it");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let turns = Rc::new(Turns::new(script.objects.len()));
        let begun = Rc::new(RefCell::new(Vec::new()));
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let mut order: Vec<usize> = (0..script.plays.len()).collect();
            fastrand::Rng::with_seed(seed).shuffle(&mut order);
            let mut calls = tokio::task::JoinSet::new();
            for at in order {
                let (turns, begun) = (Rc::clone(&turns), Rc::clone(&begun));
                let own = script.plays[at].turns.clone();
                calls.spawn_local(async move {
                    turns.begin(&own).await;
                    begun.borrow_mut().push(at);
                    tokio::task::yield_now().await;
                    turns.end(&own);
                });
            }
            while calls.join_next().await.is_some() {}
        });
        let begun = begun.borrow();
        prop_assert_eq!(begun.len(), script.plays.len());
        for object in 0..script.objects.len() {
            let of_object = begun.iter().filter(|at| script.plays[**at].turns.iter().any(|turn| turn.object == object));
            let of_object: Vec<_> = of_object.collect();
            prop_assert!(of_object.is_sorted(), "{:?}", of_object);
        }
    }
}

#[test]
fn speeds_are_numbers_or_max() {
    assert_eq!(Speed::parse("10"), Ok(Speed::Times(10.0)));
    assert_eq!(Speed::parse("max"), Ok(Speed::Max));
    for wrong in ["0", "-1", "nan", "inf", "fast", ""] {
        assert!(Speed::parse(wrong).is_err(), "{wrong}");
    }
    assert!(Speed::Times(1.0).check(1e6).is_err());
    assert!(Speed::Max.check(1e9).is_ok());
}
