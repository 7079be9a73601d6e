//! The lines of the table: which figures it has, beside what they are shown, and the bar of each.

use super::list::{BUFFERED, Bar, DIRECT, Figure, From, Limit, Line, POLLING};
use super::{copies, mounts};
use crate::baseline::workload::Workload as Calls;
use crate::client::serve::Server;
use crate::client::tool::Work as Copy;
use crate::modes::work::Work;

const DONTCACHE: &str = "penstock dontcache";
const STAGED: &str = "penstock direct+staging";
const STAGED_IN_ORDER: &str = "penstock direct+staging+order";
/// Ours with replies to stable WRITEs that tell no attributes.
const BARE: &str = "penstock direct+no-stable-write-attributes";
const ASYNC: &str = "penstock buffered+async";
const AUTO: &str = "penstock auto";
const IN_ORDER: &str = "write in order";
const SHUFFLED: &str = "write shuffled within 64";

const fn line(
    label: &'static str,
    (figure, from): (Figure, From),
    ours: &'static str,
    limit: Limit,
    bar: Bar,
) -> Line {
    Line {
        label,
        figure,
        from,
        ours,
        limit,
        bar,
    }
}

const fn fast(run: &'static str, step: &'static str) -> (Figure, From) {
    (Figure::Throughput, From::Bench(run, step))
}

const fn calls(calls: Calls, in_flight: usize) -> (Figure, From) {
    (Figure::Throughput, From::Calls(calls, in_flight))
}

const fn data(work: Work) -> (Figure, From) {
    (Figure::Throughput, From::Data(work))
}

const fn copies(server: Server, copy: Copy) -> (Figure, From) {
    (Figure::Throughput, From::Copies(server, copy))
}

const STABLE: &str = "write FILE_SYNC";
const UNSTABLE: &str = "write and COMMIT";
const BESIDE: &str = "NULL beside FILE_SYNC";

/// The table, in the order of the project's own list of bars.
pub(super) const LINES: &[Line] = &[
    line(
        "READ 1 MiB, 32 deep, a file of 8 x memory, MiB/s",
        data(Work::SeqRead1m),
        DIRECT,
        Limit::Responder,
        Bar::OfLimit(0.95),
    ),
    line(
        "the same",
        data(Work::SeqRead1m),
        BUFFERED,
        Limit::Plain,
        Bar::OfPeer(1.5),
    ),
    line(
        "the same, processor s/GiB",
        (Figure::Processor, From::Data(Work::SeqRead1m)),
        BUFFERED,
        Limit::Plain,
        Bar::AtMost(0.28),
    ),
    line(
        "WRITE 1 MiB and COMMIT, MiB/s",
        data(Work::SeqWrite1m),
        DIRECT,
        Limit::Plain,
        Bar::OfLimit(0.9),
    ),
    line(
        "the same",
        data(Work::SeqWrite1m),
        BUFFERED,
        Limit::Plain,
        Bar::OfLimit(0.9),
    ),
    line(
        "the same, best measurement / worst",
        (Figure::Spread, From::Data(Work::SeqWrite1m)),
        BUFFERED,
        Limit::Nothing,
        Bar::AtMost(1.5),
    ),
    line(
        "READ 1 MiB, on the disk, MiB/s",
        fast("read-disk", "read"),
        DIRECT,
        Limit::Local("local direct"),
        Bar::OfLimit(0.95),
    ),
    line(
        "WRITE 1 MiB and COMMIT, on the disk, MiB/s",
        fast("write-disk", "write"),
        DIRECT,
        Limit::Local("local direct"),
        Bar::OfLimit(0.9),
    ),
    line(
        "READ 64 KiB cached, 32 deep, per s",
        calls(Calls::ReadMiddle, 32),
        "penstock",
        Limit::Plain,
        Bar::OfLimit(0.9),
    ),
    line(
        "READ 4 KiB cached, 32 deep, per s",
        calls(Calls::ReadCached, 32),
        "penstock",
        Limit::Plain,
        Bar::OfLimit(0.95),
    ),
    line(
        "READ 4 KiB random, cold, 32 deep, per s",
        data(Work::RandRead4k),
        DIRECT,
        Limit::Plain,
        Bar::OfLimit(0.9),
    ),
    line(
        "WRITE 4 KiB random, UNSTABLE, and COMMIT, per s",
        fast("random", UNSTABLE),
        DIRECT,
        Limit::Local("local direct"),
        Bar::OfPeer(1.5),
    ),
    line(
        "the same",
        fast("random", UNSTABLE),
        BUFFERED,
        Limit::Local("local direct"),
        Bar::OfPeer(1.5),
    ),
    line(
        "WRITE 4 KiB UNSTABLE, rewriting cached data, 32 deep, per s",
        calls(Calls::WriteUnstable, 32),
        "penstock",
        Limit::Responder,
        Bar::AtLeast(200_000.0),
    ),
    line(
        "WRITE 4 KiB FILE_SYNC, 32 deep, rewriting, per s",
        calls(Calls::WriteFileSync, 32),
        "penstock",
        Limit::Nothing,
        Bar::OfPeer(1.0),
    ),
    line(
        "the same, random, per s",
        fast("random", STABLE),
        DIRECT,
        Limit::Local("local direct"),
        Bar::OfPeer(1.0),
    ),
    line(
        "the same, on the disk, per s",
        fast("stable", STABLE),
        DIRECT,
        Limit::Nothing,
        Bar::OfPeer(1.0),
    ),
    line(
        "the same, on the disk, per s",
        fast("stable", STABLE),
        BUFFERED,
        Limit::Nothing,
        Bar::OfPeer(1.0),
    ),
    line(
        "the same, on XFS on the disk, per s",
        fast("stable-xfs", STABLE),
        DIRECT,
        Limit::Nothing,
        Bar::OfPeer(1.0),
    ),
    line(
        "the same, on XFS on the disk, per s",
        fast("stable-xfs", STABLE),
        BUFFERED,
        Limit::Nothing,
        Bar::OfPeer(1.0),
    ),
    line(
        "the same, one deep, on the disk, p50 µs",
        (Figure::P50, From::Bench("stable-alone", STABLE)),
        DIRECT,
        Limit::Local("local direct"),
        Bar::AtMost(250.0),
    ),
    line(
        "the same, one deep, on the disk, p50 µs",
        (Figure::P50, From::Bench("stable-alone", STABLE)),
        BUFFERED,
        Limit::Local("local direct"),
        Bar::AtMost(250.0),
    ),
    line(
        "the same without attributes in replies",
        (Figure::P50, From::Bench("stable-alone", STABLE)),
        BARE,
        Limit::Local("local direct"),
        Bar::AtMost(250.0),
    ),
    line(
        "the same, one deep, on XFS on the disk, p50 µs",
        (Figure::P50, From::Bench("stable-xfs-alone", STABLE)),
        DIRECT,
        Limit::Local("local direct"),
        Bar::AtMost(250.0),
    ),
    line(
        "the same, one deep, on XFS on the disk, p50 µs",
        (Figure::P50, From::Bench("stable-xfs-alone", STABLE)),
        BUFFERED,
        Limit::Local("local direct"),
        Bar::AtMost(250.0),
    ),
    line(
        "the same without attributes in replies",
        (Figure::P50, From::Bench("stable-xfs-alone", STABLE)),
        BARE,
        Limit::Local("local direct"),
        Bar::AtMost(250.0),
    ),
    line(
        "NULL beside FILE_SYNC WRITEs, p99 µs",
        (Figure::P99, From::Bench("beside", BESIDE)),
        DIRECT,
        Limit::Responder,
        Bar::AtMost(250.0),
    ),
    line(
        "the same, on the disk, p99 µs",
        (Figure::P99, From::Bench("beside-on-disk", BESIDE)),
        DIRECT,
        Limit::Responder,
        Bar::AtMost(250.0),
    ),
    line(
        "WRITE 64 KiB, shuffled within 64, MiB/s; limit: in order",
        fast("order", SHUFFLED),
        DIRECT,
        Limit::Own("order", IN_ORDER),
        Bar::OfLimit(0.95),
    ),
    line(
        "the same",
        fast("order", SHUFFLED),
        DONTCACHE,
        Limit::Own("order", IN_ORDER),
        Bar::OfLimit(0.95),
    ),
    line(
        "the same",
        fast("order", SHUFFLED),
        BUFFERED,
        Limit::Own("order", IN_ORDER),
        Bar::OfLimit(0.95),
    ),
    line(
        "WRITE 47008 B, four writers, MiB/s; limit: 48 KiB",
        fast("unaligned", "write"),
        DIRECT,
        Limit::Own("aligned", "write"),
        Bar::OfLimit(0.9),
    ),
    line(
        "the same",
        fast("unaligned", "write"),
        STAGED,
        Limit::Own("aligned", "write"),
        Bar::OfLimit(0.9),
    ),
    line(
        "the same, in order",
        fast("unaligned", "write"),
        STAGED_IN_ORDER,
        Limit::Own("aligned", "write"),
        Bar::OfLimit(0.9),
    ),
    line(
        "NULL, 32 deep, per s",
        calls(Calls::Null, 32),
        "penstock",
        Limit::Responder,
        Bar::AtLeast(480_000.0),
    ),
    line(
        "GETATTR, 32 deep, per s",
        calls(Calls::Getattr, 32),
        "penstock",
        Limit::Responder,
        Bar::AtLeast(400_000.0),
    ),
    line(
        "the same, processor µs for a call",
        (Figure::Processor, From::Calls(Calls::Getattr, 32)),
        "penstock",
        Limit::Responder,
        Bar::AtMost(1.5),
    ),
    line(
        "the same, where the load polls as well, so that the server never waits",
        (Figure::Processor, From::Calls(Calls::Getattr, 32)),
        POLLING,
        Limit::Responder,
        Bar::AtMost(1.5),
    ),
    line(
        "LOOKUP, 32 deep, per s",
        calls(Calls::Lookup, 32),
        "penstock",
        Limit::Responder,
        Bar::AtLeast(320_000.0),
    ),
    line(
        "ACCESS, 32 deep, per s",
        calls(Calls::Access, 32),
        "penstock",
        Limit::Responder,
        Bar::AtLeast(400_000.0),
    ),
    line(
        "NFSv4.1: GETATTR, 32 deep, per s",
        calls(Calls::Getattr4, 32),
        "penstock",
        Limit::Nothing,
        Bar::OfPeer(1.0),
    ),
    line(
        "the same: LOOKUP, GETFH and GETATTR",
        calls(Calls::Lookup4, 32),
        "penstock",
        Limit::Nothing,
        Bar::OfPeer(1.0),
    ),
    line(
        "the same: ACCESS and GETATTR",
        calls(Calls::Access4, 32),
        "penstock",
        Limit::Nothing,
        Bar::OfPeer(1.0),
    ),
    line(
        "the same: OPEN and CLOSE",
        calls(Calls::OpenClose4, 32),
        "penstock",
        Limit::Nothing,
        Bar::OfPeer(1.0),
    ),
    line(
        "the same: READ 4 KiB cached",
        calls(Calls::ReadCached4, 32),
        "penstock",
        Limit::Nothing,
        Bar::OfPeer(1.0),
    ),
    line(
        "the same: WRITE 4 KiB UNSTABLE, rewriting cached data",
        calls(Calls::WriteUnstable4, 32),
        "penstock",
        Limit::Nothing,
        Bar::OfPeer(1.0),
    ),
    line(
        "CREATE on stable storage, 8 deep, per s",
        fast("names", "create"),
        BUFFERED,
        Limit::Local("local buffered+sync"),
        Bar::AtLeast(20_000.0),
    ),
    line(
        "REMOVE on stable storage, 8 deep, per s",
        fast("names", "remove"),
        BUFFERED,
        Limit::Local("local buffered+sync"),
        Bar::AtLeast(20_000.0),
    ),
    line(
        "CREATE acknowledged before that, 8 deep, per s",
        fast("names", "create"),
        ASYNC,
        Limit::Responder,
        Bar::OfPeer(1.0),
    ),
    line(
        "REMOVE acknowledged before that, 8 deep, per s",
        fast("names", "remove"),
        ASYNC,
        Limit::Responder,
        Bar::OfPeer(1.0),
    ),
    line(
        "GETATTR, one deep, p50 µs",
        (Figure::P50, From::Calls(Calls::Getattr, 1)),
        "penstock",
        Limit::Responder,
        Bar::AtMost(66.0),
    ),
    line(
        "the same with busy polling, of the load as well",
        (Figure::P50, From::Calls(Calls::Getattr, 1)),
        POLLING,
        Limit::Responder,
        Bar::AtMost(15.0),
    ),
    line(
        "its price, processor µs for a call",
        (Figure::Processor, From::Calls(Calls::Getattr, 1)),
        POLLING,
        Limit::Responder,
        Bar::AtMost(15.0),
    ),
    line(
        "READ 4 KiB over 4 connections, per s; limit: over one",
        fast("connections", "4 connections"),
        AUTO,
        Limit::Own("connections", "1 connection"),
        Bar::OfLimit(0.9),
    ),
    line(
        "the same over 16",
        fast("connections", "16 connections"),
        AUTO,
        Limit::Own("connections", "1 connection"),
        Bar::OfLimit(0.9),
    ),
    line(
        "the same over 256; limit: the load over as many",
        fast("connections", "256 connections"),
        AUTO,
        // With a call on each the load itself does a third of what it does over one connection.
        Limit::Responder,
        Bar::OfLimit(0.9),
    ),
    line(
        "memory of an idle connection more, KiB",
        (Figure::Idle, From::Bench("connections", "")),
        AUTO,
        Limit::Nothing,
        Bar::AtMost(4.0),
    ),
    line(
        "a file of 512 MiB from our server to a disk, MiB/s",
        copies(Server::Penstock, Copy::CopyDown),
        copies::OURS,
        Limit::Local(copies::THEIRS),
        Bar::OfLimit(2.0),
    ),
    line(
        "the same from Ganesha",
        copies(Server::Ganesha, Copy::CopyDown),
        copies::OURS,
        Limit::Local(copies::THEIRS),
        Bar::OfLimit(2.0),
    ),
    line(
        "from a disk to our server, MiB/s",
        copies(Server::Penstock, Copy::CopyUp),
        copies::OURS,
        Limit::Local(copies::THEIRS),
        Bar::OfLimit(2.0),
    ),
    line(
        "the same to Ganesha",
        copies(Server::Ganesha, Copy::CopyUp),
        copies::OURS,
        Limit::Local(copies::THEIRS),
        Bar::OfLimit(2.0),
    ),
    line(
        "a file of 512 MiB from our server to memory, MiB/s",
        (Figure::Throughput, From::Mounts(Copy::CopyDown)),
        mounts::OURS,
        Limit::Local(mounts::THEIRS),
        Bar::OfLimit(0.7),
    ),
    line(
        "the same to our server",
        (Figure::Throughput, From::Mounts(Copy::CopyUp)),
        mounts::OURS,
        Limit::Local(mounts::THEIRS),
        Bar::OfLimit(0.7),
    ),
];

#[cfg(test)]
mod tests {
    use nfs_load::workload::Workload;

    use super::*;
    use crate::speed::list::{CALLS, RUNS};

    fn steps(run: &str) -> Vec<String> {
        let run = RUNS.iter().find(|one| one.name == run).unwrap();
        let named = |workload: &Workload| workload.name() == run.workload;
        let workload = Workload::ALL.into_iter().find(named).unwrap();
        let steps = workload.steps(&workload.defaults()).unwrap();
        steps.into_iter().map(|step| step.name).collect()
    }

    #[test]
    fn lines_speak_of_steps_that_their_runs_have() {
        for line in LINES {
            match line.from {
                From::Bench(run, step) => {
                    assert!(
                        line.figure == Figure::Idle || steps(run).iter().any(|s| s == step),
                        "{run}: {step}"
                    );
                }
                From::Calls(calls, in_flight) => {
                    assert!(CALLS.contains(&calls) && [1, 32].contains(&in_flight));
                }
                From::Copies(_, copy) | From::Mounts(copy) => {
                    assert!([Copy::CopyDown, Copy::CopyUp].contains(&copy))
                }
                From::Data(work) => assert!(super::super::data::WORKS.contains(&work)),
            }
            if let Limit::Own(run, step) = line.limit {
                assert!(steps(run).iter().any(|s| s == step), "{run}: {step}");
            }
        }
    }

    #[test]
    fn targets_are_those_of_the_run() {
        for line in LINES {
            let From::Bench(run, _) = line.from else {
                continue;
            };
            let run = RUNS.iter().find(|one| one.name == run).unwrap();
            let mode = line.ours.trim_start_matches("penstock ");
            let has = |text: &str| run.options.iter().any(|option| option.contains(text));
            assert!(has(mode) || run.options.contains(&"--self"), "{line:?}");
            if let Limit::Local(target) = line.limit {
                assert!(has(&target.replace(' ', "=")), "{line:?}");
            }
        }
    }
}
