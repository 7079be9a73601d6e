//! What counting a call costs: `cargo test --release -p nfs-server --lib what_counting_costs -- --nocapture` prints it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nfs_io::Mode;
use nfs_wire::nfs3::Procedure;
use nfs_wire::nfs4::Opnum;

use super::call_counters::{CallCounters, Called, Ended};
use super::counters::Counters;
use super::io_counters::{IoCounters, Tally};
use super::metrics::{Builder, OPERATIONS};
use crate::exports::policy::Io;

/// How often each is done.
const TIMES: u64 = 200_000;

/// Does something so often, and prints how long one of it took; the shortest of a few rounds, since a machine that does
/// something else besides takes longer, and never shorter.
fn cost(what: &str, mut once: impl FnMut(u64)) {
    const ROUNDS: u64 = 5;
    let mut least = Duration::MAX;
    for round in 0..ROUNDS {
        let from = Instant::now();
        for number in 0..TIMES / ROUNDS {
            once(round * TIMES / ROUNDS + number);
        }
        least = least.min(from.elapsed());
    }
    let nanoseconds = least.as_nanos() as f64 / (TIMES / ROUNDS) as f64;
    println!("{what}: {nanoseconds:.1} ns");
}

#[test]
fn what_counting_costs() {
    let (of_export, of_all) = (CallCounters::default(), Counters::default());
    let io = IoCounters::default();
    let took = |number: u64| Duration::from_nanos(2000 + 37 * (number % 1000));
    let getattr = Called::V3(Procedure::Getattr);
    cost("a call, by export, procedure and time", |number| {
        of_export.record(black_box(&Ended {
            called: getattr,
            mode: None,
            error: None,
            took: took(number),
        }));
    });
    cost("an operation of NFSv4 that failed", |number| {
        of_export.record(black_box(&Ended {
            called: Called::V4(Opnum::Lookup),
            mode: None,
            error: Some("NFS4ERR_NOENT"),
            took: took(number),
        }));
    });
    cost(
        "the same call in the figures of the whole server",
        |number| {
            of_all.called(black_box(getattr), took(number));
        },
    );
    let mut tally = Tally::default();
    tally.set_bytes(4096);
    tally.segment(Mode::Buffered, 4096);
    cost("how a READ or WRITE moved its bytes", |_number| {
        io.record(Io::Read, Mode::Buffered, black_box(&tally));
    });
    let mut into = Builder::default();
    of_export.measure("/a", &mut into);
    let snapshot = into.build();
    for procedure in ["GETATTR", "LOOKUP"] {
        let counted = snapshot.sum(&OPERATIONS, &[("procedure", procedure)]);
        assert_eq!(counted, TIMES as f64, "{procedure}");
    }
    assert_eq!(of_all.procedures()[0].calls, TIMES);
    let moved = io.stats("/a");
    assert_eq!((moved[0].calls, moved[0].bytes), (TIMES, 4096 * TIMES));
}
