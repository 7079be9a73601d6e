//! What is held, what goes out with whom, and what comes back, case by case.

use super::*;

const BLOCK: usize = 16;
const ALL: Range<u64> = 0..u64::MAX;

type Small = Staging<Vec<u8>, char>;

fn memory() -> Option<Vec<u8>> {
    Some(vec![0xDB; BLOCK])
}

fn staging() -> Small {
    Staging::new(BLOCK)
}

/// A write of `range`, every byte of it the sender's letter.
fn write(
    staging: &mut Small,
    range: Range<u64>,
    sender: char,
) -> Result<Placed<Vec<u8>, char>, Obstacle> {
    let data = vec![sender as u8; (range.end - range.start) as usize];
    staging.write(range.start, &data, &sender, 0, memory)
}

/// The whole run of a write, with what goes along of others.
fn run(placed: &Placed<Vec<u8>, char>, asked: Range<u64>, sender: char) -> (Range<u64>, String) {
    let (front, back) = placed.of_others(&asked);
    let own = asked.start.max(placed.run.start)..asked.end.min(placed.run.end);
    let own = vec![sender as u8; (own.end - own.start) as usize];
    let bytes = [front, &own, back].concat();
    assert_eq!(bytes.len() as u64, placed.run.end - placed.run.start);
    (placed.run.clone(), String::from_utf8(bytes).unwrap())
}

/// The parts that are taken out, as text.
fn parts(taken: &mut Taken<Vec<u8>, char>) -> Vec<(u64, String, char)> {
    let mut parts = Vec::new();
    for (start, block) in taken.blocks_mut() {
        let bytes = block.memory_mut().clone();
        for (range, sender) in block.parts() {
            let text = String::from_utf8(bytes[range.clone()].to_vec()).unwrap();
            parts.push((start + range.start as u64, text, *sender));
        }
    }
    parts
}

#[test]
fn records_of_one_stream_go_out_in_one_write_each() {
    let mut staging = staging();
    let first = write(&mut staging, 0..40, 'a').unwrap();
    assert_eq!((first.head, first.tail), (End::Aligned, End::Held));
    assert_eq!(
        run(&first, 0..40, 'a'),
        (0..32, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".into())
    );
    assert!(first.taken.is_empty());
    let second = write(&mut staging, 40..80, 'b').unwrap();
    assert_eq!((second.head, second.tail), (End::Completes, End::Aligned));
    let (range, bytes) = run(&second, 40..80, 'b');
    assert_eq!(
        (range, bytes.as_str()),
        (32..80, "aaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")
    );
    assert!(staging.is_under_way(&(32..33), u64::MAX) && !staging.holds(&ALL));
    staging.done(second.taken);
    assert!(staging.is_idle());
}

#[test]
fn a_record_between_two_others_takes_both_along() {
    let mut staging = staging();
    let _first = write(&mut staging, 0..40, 'a').unwrap();
    let third = write(&mut staging, 72..100, 'c').unwrap();
    assert_eq!((third.head, third.tail), (End::Held, End::Held));
    assert_eq!(third.run, 80..96);
    let second = write(&mut staging, 40..72, 'b').unwrap();
    let (range, bytes) = run(&second, 40..72, 'b');
    assert_eq!(
        (range, bytes.as_str()),
        (32..80, "aaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbcccccccc")
    );
    assert_eq!(second.taken.len(), 2);
    staging.done(second.taken);
    let mut rest = staging.take(&ALL, Which::HeldSince(0)).unwrap();
    assert_eq!(parts(&mut rest), [(96, "cccc".into(), 'c')]);
    staging.done(rest);
    assert!(staging.is_idle());
}

#[test]
fn what_never_completes_comes_out_as_it_was_given_and_no_byte_more() {
    let mut staging = staging();
    let _one = write(&mut staging, 5..35, 'a').unwrap();
    let _other = write(&mut staging, 41..70, 'b').unwrap();
    assert!(staging.take(&(64..64), Which::HeldSince(0)).is_none());
    assert!(
        staging.take(&(16..32), Which::HeldSince(0)).is_none(),
        "the middle is out"
    );
    let mut taken = staging.take(&(0..40), Which::HeldSince(0)).unwrap();
    let expected = [(5, 11, 'a'), (32, 3, 'a'), (41, 7, 'b')];
    let expected = expected.map(|(at, len, sender)| (at, sender.to_string().repeat(len), sender));
    assert_eq!(parts(&mut taken), expected);
    assert!(staging.holds(&(64..65)) && !staging.holds(&(0..64)));
    staging.done(taken);
}

/// Whoever is far ahead of the others in a file fills what may be held. What is refused to it then must not have
/// the others' parts wait for a neighbour that was there already: they would keep the memory from those that come.
#[test]
fn a_part_whose_neighbour_went_alone_is_not_held() {
    let mut staging = staging();
    let ahead = staging.write(0, &[b'a'; 40], &'a', 0, || None).unwrap();
    assert_eq!(ahead.tail, End::Refused);
    let behind = write(&mut staging, 40..80, 'b').unwrap();
    assert_eq!((behind.head, behind.run), (End::Refused, 48..80));
    assert!(staging.is_idle());
    // Once: who writes that block again may hold it again.
    let again = write(&mut staging, 0..40, 'a').unwrap();
    assert_eq!(again.tail, End::Held);
    // The same where a part was held and then went alone.
    let taken = staging.take(&ALL, Which::HeldSince(0)).unwrap();
    staging.done(taken);
    let behind = write(&mut staging, 40..80, 'b').unwrap();
    assert_eq!(behind.head, End::Refused);
    // But not where it could not go and is held again.
    let _again = write(&mut staging, 0..40, 'a').unwrap();
    let taken = staging.take(&ALL, Which::HeldSince(0)).unwrap();
    staging.restore(taken);
    let behind = write(&mut staging, 40..80, 'b').unwrap();
    assert_eq!(behind.head, End::Completes);
    staging.done(behind.taken);
    assert!(staging.is_idle());
}

#[test]
fn blocks_that_were_written_in_part_are_remembered_up_to_a_number() {
    let mut staging = staging();
    let most = limits::STAGING_WRITTEN_IN_PART_MAX as u64;
    for at in 0..=most {
        let at = at * 64;
        let placed = staging.write(at, &[b'a'; 40], &'a', 0, || None).unwrap();
        assert_eq!(placed.tail, End::Refused);
    }
    let first = write(&mut staging, 40..64, 'b').unwrap();
    assert_eq!(first.head, End::Held, "the lowest is forgotten");
    let last = write(&mut staging, most * 64 + 40..most * 64 + 64, 'b').unwrap();
    assert_eq!(last.head, End::Refused);
}

#[test]
fn later_bytes_count() {
    let mut staging = staging();
    let _long = write(&mut staging, 0..44, 'a').unwrap();
    let _short = write(&mut staging, 0..38, 'b').unwrap();
    let last = write(&mut staging, 42..64, 'c').unwrap();
    let (range, bytes) = run(&last, 42..64, 'c');
    assert_eq!(
        (range, bytes.as_str()),
        (32..64, "bbbbbbaaaacccccccccccccccccccccc")
    );
    staging.done(last.taken);
}

#[test]
fn nothing_touches_a_block_that_is_under_way() {
    let mut staging = staging();
    let _first = write(&mut staging, 0..40, 'a').unwrap();
    let moment = staging.moment();
    let _later = write(&mut staging, 64..90, 'z').unwrap();
    let taken = staging.take(&ALL, Which::Before(moment)).unwrap();
    assert_eq!(taken.len(), 1);
    assert!(!staging.is_under_way(&ALL, 0) && staging.is_under_way(&ALL, moment));
    let refused = |staging: &mut Small, range| write(staging, range, 'b').err();
    assert_eq!(refused(&mut staging, 40..80), Some(Obstacle::UnderWay));
    assert_eq!(refused(&mut staging, 8..40), Some(Obstacle::UnderWay));
    assert_eq!(refused(&mut staging, 0..64), Some(Obstacle::Covers));
    assert_eq!(refused(&mut staging, 48..70), None, "it touches others");
    staging.restore(taken);
    assert_eq!(refused(&mut staging, 0..64), Some(Obstacle::Covers));
    let joined = write(&mut staging, 40..64, 'c').unwrap();
    assert_eq!(&run(&joined, 40..64, 'c').1[..9], "aaaaaaaac");
    staging.done(joined.taken);
}

#[test]
fn a_failed_write_loses_nothing_of_others_and_leaves_nothing_of_its_own() {
    let mut staging = staging();
    let _first = write(&mut staging, 0..40, 'a').unwrap();
    staging.accepted(40);
    let second = write(&mut staging, 40..70, 'b').unwrap();
    staging.restore(second.taken);
    staging.retract(second.number, &(40..70));
    let mut left = staging.take(&ALL, Which::HeldSince(0)).unwrap();
    assert_eq!(parts(&mut left), [(32, "aaaaaaaa".into(), 'a')]);
    assert_eq!(staging.end().0, 40);
    staging.done(left);
    assert_eq!(staging.end(), (0, 1));
    // What lies over somebody else's stays: theirs is not to be had back.
    let _first = write(&mut staging, 0..36, 'a').unwrap();
    let over = write(&mut staging, 0..40, 'b').unwrap();
    staging.retract(over.number, &(0..40));
    assert!(staging.holds(&(32..33)));
}

#[test]
fn the_end_of_the_file_is_that_of_accepted_writes() {
    let mut staging = staging();
    let _first = write(&mut staging, 0..40, 'a').unwrap();
    assert_eq!(staging.end().0, 0, "nobody was told of it");
    staging.accepted(40);
    assert_eq!(staging.end().0, 40);
    let second = write(&mut staging, 40..64, 'b').unwrap();
    assert_eq!(staging.end().0, 40, "on its way, perhaps not there");
    staging.done(second.taken);
    assert_eq!(staging.end(), (0, 1));
    // Answered late, when its end had gone out with the neighbour: the file itself knows.
    staging.accepted(40);
    assert_eq!(staging.end().0, 0);
}

#[test]
fn what_cannot_be_taken_in_leaves_everything_as_it_was() {
    let mut staging = staging();
    let refused = |staging: &mut Small, range| write(staging, range, 'x').err();
    for range in [0..15, 1..17, 15..31, 17..31, 5..5] {
        assert_eq!(refused(&mut staging, range), Some(Obstacle::NoMiddle));
    }
    let end = i64::MAX as u64 - 30;
    assert_eq!(
        refused(&mut staging, end..end + 40),
        Some(Obstacle::NoMiddle)
    );
    let data = [0; 40];
    let past = staging.write(u64::MAX - 30, &data, &'x', 0, memory).err();
    assert_eq!(past, Some(Obstacle::NoMiddle));
    staging.pause();
    assert_eq!(refused(&mut staging, 0..40), Some(Obstacle::Paused));
    staging.resume();
    let placed = staging.write(1, &data, &'x', 0, || None).unwrap();
    assert_eq!((placed.head, placed.tail), (End::Refused, End::Refused));
    assert_eq!(placed.run, 16..32);
    assert!(staging.is_idle());
}

#[test]
fn age_is_that_of_the_first_part() {
    let mut staging = staging();
    let data = [b'a'; 40];
    let _old = staging.write(0, &data, &'a', 5, memory).unwrap();
    let _new = staging.write(44, &data, &'a', 9, memory).unwrap();
    assert!(staging.take(&ALL, Which::HeldSince(4)).is_none());
    let mut due = staging.take(&ALL, Which::HeldSince(5)).unwrap();
    assert_eq!(parts(&mut due).len(), 2);
    assert!(staging.holds(&(80..81)));
    staging.done(due);
}
