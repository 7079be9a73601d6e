use super::*;

fn open(directory: &Path) -> Arc<CallNotes> {
    Arc::new(CallNotes::open(directory, [9; 24]))
}

fn key(number: u64) -> CallKey {
    CallKey::of_words([number, !number])
}

fn before(change: Change, place: u64, found: u64) -> Before {
    Before {
        change,
        place,
        found: Known(found),
    }
}

/// A call of connection 1 that has noted this, and perhaps what it did.
fn noted(notes: &Arc<CallNotes>, number: u64, before: Before, done: u64) -> Arc<NotedCall> {
    let call = notes.call(key(number), 1);
    call.begin(before);
    if done != 0 {
        call.done(before, Known(done));
    }
    call
}

const MAKE: Before = Before {
    change: Change::Make,
    place: 5,
    found: Known::NOTHING,
};
const TAKE: Before = Before {
    change: Change::Take,
    place: 5,
    found: Known(8),
};

#[test]
fn what_was_noted_is_known_in_the_next_life() {
    let directory = tempfile::tempdir().unwrap();
    let notes = open(directory.path());
    let calls = [
        noted(&notes, 1, MAKE, 0),
        noted(&notes, 2, before(Change::Make, 6, 0), 7),
        noted(&notes, 3, TAKE, 8),
    ];
    let hash_key = notes.key();
    let notes = CallNotes::open(directory.path(), [1; 24]);
    assert_eq!(notes.key(), hash_key);
    let notes = Arc::new(notes);
    drop(calls);
    let [made, knows, taken, new] = [1, 2, 3, 4].map(|number| notes.call(key(number), 2));
    assert!(made.has_made(Known(77)), "nobody else says so");
    assert!(knows.has_made(Known(7)) && !knows.has_made(Known(77)));
    assert_eq!(taken.has_taken(Known::NOTHING), Some(Known(8)));
    assert_eq!(taken.has_taken(Known(8)), None, "it is there");
    assert_eq!(made.has_taken(Known(8)), None);
    assert!(!taken.has_made(Known(8)));
    assert!(!new.has_made(Known(7)) && new.has_taken(Known(7)).is_none());
    // Each is asked for once: then the reply cache has it.
    assert!(notes.table.lock().earlier.is_empty());
}

#[test]
fn what_another_call_has_made_since_is_not_ones_own() {
    let directory = tempfile::tempdir().unwrap();
    let notes = open(directory.path());
    let calls = [noted(&notes, 1, MAKE, 0), noted(&notes, 2, MAKE, 7)];
    let again = open(directory.path());
    assert!(!again.call(key(1), 1).has_made(Known(7)));
    assert!(again.call(key(2), 1).has_made(Known(7)));
    drop(calls);
    // Of two that were both cut off, the first to come again has it.
    let directory = tempfile::tempdir().unwrap();
    let notes = open(directory.path());
    let calls = [noted(&notes, 1, MAKE, 0), noted(&notes, 2, MAKE, 0)];
    let again = open(directory.path());
    let [first, second] = [2, 1].map(|number| again.call(key(number), 1));
    assert!(first.has_made(Known(7)));
    first.done(MAKE, Known(7));
    assert!(!second.has_made(Known(7)));
    drop(calls);
}

#[test]
fn what_others_did_before_is_no_objection() {
    let directory = tempfile::tempdir().unwrap();
    let notes = open(directory.path());
    let calls = [
        // Made, removed, made again as a link, and removed by a call that was cut off.
        noted(&notes, 1, MAKE, 8),
        noted(&notes, 2, TAKE, 8),
        noted(&notes, 3, MAKE, 8),
        noted(&notes, 4, TAKE, 0),
    ];
    let again = open(directory.path());
    let last = again.call(key(4), 1);
    assert_eq!(last.has_taken(Known::NOTHING), Some(Known(8)));
    drop(calls);
}

#[test]
fn a_place_is_free_again_when_its_call_is_forgotten() {
    let notes = open(tempfile::tempdir().unwrap().path());
    for number in 0..u64::from(limits::CALL_NOTES_MAX) * 2 {
        drop(noted(&notes, number, MAKE, 7));
    }
    let table = notes.table.lock();
    assert_eq!(table.free.len(), limits::CALL_NOTES_MAX as usize);
    assert!(table.notes.is_empty());
}

#[test]
fn at_the_cap_calls_of_an_earlier_life_give_way_and_then_none_is_noted() {
    let directory = tempfile::tempdir().unwrap();
    let notes = open(directory.path());
    let earlier: Vec<_> = (0..10)
        .map(|number| noted(&notes, number, MAKE, 7))
        .collect();
    let notes = open(directory.path());
    drop(earlier);
    let most = u64::from(limits::CALL_NOTES_MAX);
    let calls: Vec<_> = (100..100 + most)
        .map(|number| noted(&notes, number, MAKE, 7))
        .collect();
    assert!(notes.table.lock().earlier.is_empty());
    let beyond = noted(&notes, 99, MAKE, 7);
    assert!(beyond.place.lock().is_none());
    drop((calls, beyond));
    assert_eq!(
        notes.table.lock().free.len(),
        limits::CALL_NOTES_MAX as usize
    );
}

#[test]
fn calls_of_a_connection_that_ended_in_order_do_not_come_again() {
    let directory = tempfile::tempdir().unwrap();
    let notes = open(directory.path());
    let calls = [notes.call(key(1), 1), notes.call(key(2), 2)];
    for call in &calls {
        call.begin(MAKE);
    }
    notes.connection_ended(1);
    let again = open(directory.path());
    assert!(!again.call(key(1), 3).has_made(Known(7)));
    assert!(again.call(key(2), 3).has_made(Known(7)));
    drop(calls);
}

#[test]
fn old_notes_are_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let notes = open(directory.path());
    let call = noted(&notes, 1, MAKE, 7);
    let bytes = std::fs::read(directory.path().join(NAME)).unwrap();
    let contents = Contents {
        key: notes.key(),
        bytes,
    };
    let later = unix_seconds() + limits::REPLY_CACHE_SECONDS_MAX;
    assert_eq!(contents.table(unix_seconds()).earlier.len(), 1);
    assert_eq!(contents.table(later).earlier.len(), 0);
    let long_before = unix_seconds() - 2 * limits::REPLY_CACHE_SECONDS_MAX;
    assert_eq!(
        contents.table(long_before).earlier.len(),
        0,
        "of the future"
    );
    drop(call);
}

#[test]
fn a_note_that_was_changed_anywhere_is_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let notes = open(directory.path());
    let call = noted(&notes, 1, MAKE, 7);
    let path = directory.path().join(NAME);
    let sound = std::fs::read(&path).unwrap();
    let place = call.place.lock().unwrap() as usize;
    for at in 0..NOTE_BYTES {
        let mut bytes = sound.clone();
        bytes[HEADER_BYTES + place * NOTE_BYTES + at] ^= 1;
        let contents = Contents {
            key: notes.key(),
            bytes,
        };
        assert!(
            contents.table(unix_seconds()).earlier.is_empty(),
            "byte {at}"
        );
    }
}

#[test]
fn a_damaged_file_is_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(NAME);
    for damage in [
        &b""[..],
        b"short",
        &vec![0xff; FILE_BYTES],
        &vec![0; FILE_BYTES],
    ] {
        std::fs::write(&path, damage).unwrap();
        let notes = open(directory.path());
        let call = noted(&notes, 1, MAKE, 7);
        let again = open(directory.path());
        assert!(again.call(key(1), 1).has_made(Known(7)));
        drop(call);
    }
    // A sound head with noise behind it.
    let mut bytes = std::fs::read(&path).unwrap();
    for (at, byte) in bytes.iter_mut().enumerate().skip(ENDED_AT) {
        *byte = (at * 31 % 251) as u8;
    }
    std::fs::write(&path, bytes).unwrap();
    assert!(open(directory.path()).table.lock().earlier.is_empty());
}

#[test]
fn without_a_file_calls_run_and_nothing_is_noted() {
    let directory = tempfile::tempdir().unwrap();
    // A directory in the file's place.
    std::fs::create_dir(directory.path().join(NAME)).unwrap();
    let notes = open(directory.path());
    let call = notes.call(key(1), 1);
    assert!(call.notes().is_none());
    notes.connection_ended(1);
    notes.expire();
}

#[test]
fn a_write_that_fails_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(directory.path().join("f")).unwrap();
    drop(file);
    let read_only = std::fs::File::open(directory.path().join("f")).unwrap();
    let notes = CallNotes::of(Some(read_only), &Contents::empty([7; 16]), 0);
    let notes = Arc::new(notes);
    let call = noted(&notes, 1, MAKE, 7);
    assert_eq!(notes.failed(), 2);
    drop(call);
}

#[test]
fn objects_and_places_differ() {
    let notes = CallNotes::nowhere();
    assert_ne!(notes.known(1, (2, 3)), notes.known(1, (2, 4)));
    assert_ne!(notes.known(1, (2, 3)), notes.known(2, (2, 3)));
    assert_ne!(notes.place(b"ab", b"c"), notes.place(b"a", b"bc"));
}
