//! The algebra of ranges against a table with one cell for each byte.

use super::*;

/// Bytes of the modelled file: cell `n` stands for byte `n`, the last one for all bytes from there on.
const CELLS: usize = 24;

fn range(offset: u64, length: u64) -> Range {
    Range::new(offset, length).expect("a range")
}

/// Cells `from..=to`, where the last cell reaches to the end of the largest file.
fn cells(from: usize, to: usize) -> Range {
    Range {
        first: from as u64,
        last: if to == CELLS - 1 { u64::MAX } else { to as u64 },
    }
}

#[test]
fn lengths_that_no_file_has_are_refused() {
    let bad = Err(Error::Inval);
    for (offset, length) in [(0, 0), (u64::MAX, 1), (u64::MAX, 2), (2, u64::MAX - 1)] {
        assert_eq!(Range::new(offset, length), bad, "{length} from {offset}");
    }
    for (offset, length, told) in [
        (0, 1, 1),
        (5, u64::MAX, u64::MAX),
        (u64::MAX, u64::MAX, u64::MAX),
        (1, u64::MAX - 1, u64::MAX - 1),
    ] {
        let range = range(offset, length);
        assert_eq!((range.offset(), range.length()), (offset, told));
    }
}

#[test]
fn the_host_is_told_of_what_it_can_have() {
    let edge = i64::MAX as u64;
    for (range, told) in [
        (range(0, 10), Some((0, 10))),
        (range(7, u64::MAX), Some((7, 0))),
        (range(edge - 1, 1), Some((i64::MAX - 1, 1))),
        (range(edge - 1, 2), Some((i64::MAX - 1, 0))),
        (range(edge, 1), Some((i64::MAX, 0))),
        (range(edge + 1, 1), None),
        (range(0, edge + 5), Some((0, 0))),
    ] {
        assert_eq!(range.on_host(), told, "{range:?}");
    }
}

#[test]
fn random_histories_agree_with_a_table_of_bytes() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..300 {
        let mut table = RangeTable::default();
        let mut model = [[None; CELLS]; 3];
        for _ in 0..60 {
            step(&mut random, &mut table, &mut model);
            check_shape(&table);
            check_bytes(&table, &model);
            check_union(&mut random, &table, &model);
        }
    }
}

type Model = [[Option<LockKind>; CELLS]; 3];

fn any_kind(random: &mut fastrand::Rng) -> Option<LockKind> {
    [None, Some(LockKind::Read), Some(LockKind::Write)][random.usize(..3)]
}

fn any_cells(random: &mut fastrand::Rng) -> (usize, usize) {
    let from = random.usize(..CELLS);
    (from, random.usize(from..CELLS))
}

fn step(random: &mut fastrand::Rng, table: &mut RangeTable<usize>, model: &mut Model) {
    let owner = random.usize(..3);
    let (from, to) = any_cells(random);
    let kind = any_kind(random);
    let others = |cell: usize| (0..3).filter(move |o| *o != owner).map(move |o| (o, cell));
    let free = kind.is_none_or(|kind| {
        (from..=to)
            .flat_map(others)
            .all(|(other, cell)| model[other][cell].is_none_or(|held| !held.conflicts(kind)))
    });
    let conflict = kind.and_then(|kind| table.conflict(&owner, cells(from, to), kind));
    assert_eq!(conflict.is_none(), free);
    if free {
        table.set(&owner, cells(from, to), kind);
        model[owner][from..=to].fill(kind);
    }
}

/// Sorted; of one owner apart, and not to be merged.
fn check_shape(table: &RangeTable<usize>) {
    assert!(table.held.is_sorted_by_key(|h| h.range.first));
    for owner in 0..3 {
        let own: Vec<_> = table.iter().filter(|h| h.owner == owner).collect();
        for pair in own.windows(2) {
            assert!(!pair[0].range.overlaps(pair[1].range));
            assert!(pair[0].kind != pair[1].kind || !pair[0].range.touches(pair[1].range));
        }
    }
}

fn check_bytes(table: &RangeTable<usize>, model: &Model) {
    for (owner, bytes) in model.iter().enumerate() {
        for (cell, expected) in bytes.iter().enumerate() {
            let mut at = table
                .iter()
                .filter(|h| h.owner == owner && h.range.overlaps(cells(cell, cell)));
            assert_eq!(
                at.next().map(|h| h.kind),
                *expected,
                "owner {owner}, byte {cell}"
            );
        }
    }
}

/// The union has the strongest of each byte, and the steps lead from anything to it, within their window.
fn check_union(random: &mut fastrand::Rng, table: &RangeTable<usize>, model: &Model) {
    let all = || table.iter().map(|h| (h.range, h.kind));
    let union = Union::of(all(), Range::WHOLE);
    let strongest = |cell: usize| model.iter().map(|bytes| bytes[cell]).max().flatten();
    for cell in 0..CELLS {
        assert_eq!(union.at(cell as u64), strongest(cell), "byte {cell}");
    }
    let mut host = Union::default();
    for _ in 0..3 {
        let (from, to) = any_cells(random);
        host.set(cells(from, to), any_kind(random));
    }
    let before = host.clone();
    let (from, to) = any_cells(random);
    let window = cells(from, to);
    let steps = host.steps_to(&Union::of(all(), window), window);
    assert!(steps.is_sorted_by_key(|step| step.kind.is_some()));
    for step in steps {
        host.set(step.range, step.kind);
    }
    for cell in 0..CELLS {
        let expected = if (from..=to).contains(&cell) {
            strongest(cell)
        } else {
            before.at(cell as u64)
        };
        assert_eq!(host.at(cell as u64), expected, "byte {cell} in {window:?}");
    }
}
