use nfs_wire::nfs4::ops::{GetattrArgs, PutfhArgs, ReadArgs};
use nfs_wire::nfs4::{Bitmap4, FileHandle, Stateid4};
use proptest::prelude::*;

use super::*;

const READ: Kind = Kind::Nfs3(nfs3::Procedure::Read);

fn answered(operation: &mut Operation, status: u32, rtt: Duration) {
    let results = status.to_be_bytes();
    operation.answered(28, &results, Duration::ZERO, rtt);
}

#[test]
fn each_kind_has_a_place_of_its_own() {
    let mut operations = Operations::default();
    for kind in Kind::all() {
        operations.at(kind).unwrap().begun();
    }
    let all = operations.all();
    assert_eq!(all.len(), Kind::all().count());
    assert!(all.iter().all(|one| one.calls == 1));
    let kinds: Vec<Kind> = all.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, Kind::all().collect::<Vec<_>>());
    let order: Vec<usize> = all.iter().map(|one| one.kind.index()).collect();
    assert!(order.is_sorted());
}

#[test]
fn procedures_of_other_programs_are_told_apart_from_ours() {
    let kind = |program, version, number| {
        Kind::of(Procedure {
            program,
            version,
            number,
        })
    };
    assert_eq!(kind(100_003, 3, 6), READ);
    assert_eq!(kind(100_005, 3, 1).name(), "MNT");
    // NFSv2, MOUNT version 1, a procedure that NFSv3 does not have, the portmapper.
    for other in [
        (100_003, 2, 6),
        (100_005, 1, 1),
        (100_003, 3, 22),
        (100_000, 2, 3),
    ] {
        assert_eq!(kind(other.0, other.1, other.2), Kind::Other);
    }
}

#[test]
fn a_compound_is_what_it_is_sent_for() {
    let object = FileHandle::new(b"f").unwrap();
    let putfh = ArgOp::Putfh(PutfhArgs { object });
    let getattr = ArgOp::Getattr(GetattrArgs {
        attr_request: Bitmap4::EMPTY,
    });
    let read = ArgOp::Read(ReadArgs {
        stateid: Stateid4::ANONYMOUS,
        offset: 0,
        count: 1,
    });
    let kind = |ops: &[&ArgOp<'_>]| Kind::of_compound(ops.iter().copied()).name();
    assert_eq!(kind(&[&putfh, &getattr, &read]), "READ");
    assert_eq!(kind(&[&putfh, &read, &getattr]), "READ");
    assert_eq!(kind(&[&putfh, &getattr]), "GETATTR");
    assert_eq!(kind(&[&putfh]), "PUTFH");
    assert_eq!(kind(&[]), "OTHER");
}

#[test]
fn errors_are_counted_by_status_within_bounds() {
    let mut read = Operation::new(READ);
    answered(&mut read, 0, Duration::ZERO);
    for status in 1..=40 {
        answered(&mut read, status, Duration::ZERO);
        answered(&mut read, 1, Duration::ZERO);
    }
    assert_eq!(
        (read.ops, read.errors, read.bytes_received),
        (81, 80, 81 * 28)
    );
    assert_eq!(read.statuses.len(), STATUSES_COUNTED_MAX);
    assert_eq!(read.statuses[0], (1, 41));
    // Results without a status, and results that are none.
    let mut null = Operation::new(Kind::Nfs3(nfs3::Procedure::Null));
    answered(&mut null, 5, Duration::ZERO);
    null.answered(0, &[], Duration::ZERO, Duration::ZERO);
    assert_eq!((null.ops, null.errors), (2, 0));
}

#[test]
fn a_difference_is_of_the_time_between_and_a_sum_of_both() {
    let mut read = Operation::new(READ);
    read.begun();
    answered(&mut read, 2, Duration::from_millis(3));
    let before = read.clone();
    read.begun();
    answered(&mut read, 2, Duration::from_millis(40));
    answered(&mut read, 5, Duration::from_millis(40));
    let new = read.since(&before).unwrap();
    assert_eq!((new.calls, new.ops, new.errors), (1, 2, 2));
    assert_eq!(new.statuses, [(2, 1), (5, 1)]);
    assert_eq!(new.rtt.average(), Some(Duration::from_millis(40)));
    assert!(new.rtt.max() >= Some(Duration::from_millis(40)));
    assert_eq!(before.since(&read), None, "it has begun anew");
    let mut sum = before.clone();
    sum.add(&new);
    assert_eq!(sum, read);
}

#[test]
fn times_beyond_the_longest_count_as_that() {
    let mut times = Latencies::default();
    assert_eq!(
        (times.average(), times.max(), times.quantile(0.5)),
        (None, None, None)
    );
    times.record(Duration::from_secs(1000));
    assert_eq!(times.total(), Duration::from_secs(1000));
    let max = times.max().unwrap();
    assert!(
        max >= LATENCY_TOLD_MAX && max < LATENCY_TOLD_MAX * 17 / 16,
        "{max:?}"
    );
}

proptest! {
    /// Percentiles lie in the class of the real call of their rank, at most a sixteenth above it; the sum is exact;
    /// and classes that went through other hands make the same again.
    #[test]
    fn percentiles_are_those_of_the_real_times(
        mut micros in prop::collection::vec(0..64_000_000_u64, 1..200),
        part in 0.0..=1.0_f64,
    ) {
        let mut times = Latencies::default();
        for &time in &micros {
            times.record(Duration::from_micros(time));
        }
        micros.sort_unstable();
        let rank = ((part * micros.len() as f64).ceil() as usize).clamp(1, micros.len());
        let real = micros[rank - 1];
        let told = times.quantile(part).unwrap().as_micros() as u64;
        prop_assert!(told >= real && told <= real + real / 16 + 1, "{told} for {real}");
        prop_assert_eq!(times.total().as_micros() as u64, micros.iter().sum::<u64>());
        prop_assert_eq!(times.classes().map(|(_, count)| count).sum::<u64>(), times.count());
        let again = Latencies::from_classes(times.classes(), times.total());
        prop_assert_eq!(again.quantile(part), times.quantile(part));
        prop_assert_eq!(times.since(&again).unwrap().count(), 0);
    }
}
