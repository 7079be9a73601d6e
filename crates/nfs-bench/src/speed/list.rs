//! What is run, and what a line of the table says of it.

use crate::baseline::workload::Workload as Calls;
use crate::client::serve::Server;
use crate::client::tool::Work as Copy;
use crate::modes::work::Work;

/// One run of `penstock bench`.
#[derive(Debug)]
pub(super) struct Run {
    /// Its name in this list, in `--only` and on the page.
    pub(super) name: &'static str,
    /// Name of the workload.
    pub(super) workload: &'static str,
    /// Targets and sizes.
    pub(super) options: &'static [&'static str],
    /// Where the files lie.
    pub(super) on: On,
}

/// A file system that the files of a run lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    /// XFS in memory.
    Memory,
    /// What the machine's disk has.
    Disk,
    /// XFS on a loop device over a file on the machine's disk.
    XfsOnDisk,
}

/// A line of the table.
#[derive(Debug)]
pub(super) struct Line {
    /// What is measured.
    pub(super) label: &'static str,
    /// The figure of it.
    pub(super) figure: Figure,
    /// Where it is from.
    pub(super) from: From,
    /// What of ours is looked at.
    pub(super) ours: &'static str,
    /// What it is shown beside.
    pub(super) limit: Limit,
    /// What the figure is held against.
    pub(super) bar: Bar,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// MiB or calls per second, COMMIT included: more is better.
    Throughput,
    /// What half of the calls took at most, in microseconds: less is better.
    P50,
    /// What 99 of 100 calls took at most, in microseconds.
    P99,
    /// Processor time of the server: seconds for a GiB, or microseconds for a call.
    Processor,
    /// The best measurement over the worst.
    Spread,
    /// Memory of an idle connection more, in KiB.
    Idle,
}

/// Where a figure is from.
#[derive(Clone, Copy, Debug)]
pub(super) enum From {
    /// A step of a run of `penstock bench`.
    Bench(&'static str, &'static str),
    /// The prepared calls of `nfs-bench baseline`, so many in flight: load and server each on a core of its own.
    Calls(Calls, usize),
    /// The prepared calls of `nfs-bench modes`, 32 in flight: likewise, and the server in little memory.
    Data(Work),
    /// A file that `nfs-bench client` copies between this server and a disk of the client's.
    Copies(Server, Copy),
    /// A file that is copied from our server, or to it, through a mount.
    Mounts(Copy),
}

/// What the figure is shown beside: the most that was to be expected at the same load.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// Nothing was measured.
    Nothing,
    /// The load against the responder that touches no file.
    Responder,
    /// The load against the same as a plain program, which does what is asked to the same files by one system call after the
    /// other, and nothing else.
    Plain,
    /// The same load straight on the file system: this target of the run.
    Local(&'static str),
    /// Another figure of ours, of the same target: a run and its step.
    Own(&'static str, &'static str),
}

/// What a figure is held against.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bar {
    /// At least so much of the limit.
    OfLimit(f64),
    /// At least so many times the peer.
    OfPeer(f64),
    /// At least so much.
    AtLeast(f64),
    /// At most so much.
    AtMost(f64),
}

impl Figure {
    /// Whether less of it is better.
    pub(super) const fn is_less_better(self) -> bool {
        !matches!(self, Self::Throughput)
    }
}

/// Ours, through the page cache.
pub(super) const BUFFERED: &str = "penstock buffered";
/// Ours, past the page cache.
pub(super) const DIRECT: &str = "penstock direct";
/// Ours with busy polling, asked by a load that polls.
pub(super) const POLLING: &str = "penstock polling";

/// The prepared calls that are measured, with 1 and with 32 in flight.
pub(super) const CALLS: [Calls; 14] = [
    Calls::Null,
    Calls::Getattr,
    Calls::Getattr4,
    Calls::Lookup,
    Calls::Lookup4,
    Calls::Access,
    Calls::Access4,
    Calls::OpenClose4,
    Calls::ReadCached,
    Calls::ReadCached4,
    Calls::ReadMiddle,
    Calls::WriteUnstable,
    Calls::WriteUnstable4,
    Calls::WriteFileSync,
];

/// Idle connections, which is replaced by as many as the limit of descriptors allows.
pub(super) const IDLE: &str = "--idle";

/// The runs of `penstock bench`, in their order.
pub(super) const RUNS: &[Run] = &[
    Run {
        name: "random",
        workload: "random-4k",
        options: &[
            "--self=buffered,direct",
            "--local=direct",
            "--memory=512MiB",
            "--size=1GiB",
            "--seconds=1",
        ],
        on: On::Memory,
    },
    Run {
        name: "stable",
        workload: "random-4k",
        options: &[
            "--self=buffered,direct",
            "--size=64MiB",
            "--cached",
            "--seconds=0.4",
        ],
        on: On::Disk,
    },
    Run {
        name: "stable-alone",
        workload: "random-4k",
        options: &[
            "--self=buffered,direct,direct+no-stable-write-attributes",
            "--local=direct",
            "--size=64MiB",
            "--cached",
            "--seconds=0.4",
            "--depth=1",
        ],
        on: On::Disk,
    },
    Run {
        name: "read-disk",
        workload: "seq-read",
        options: &["--self=direct", "--local=direct", "--size=512MiB"],
        on: On::Disk,
    },
    Run {
        name: "write-disk",
        workload: "seq-write",
        options: &["--self=direct", "--local=direct", "--size=512MiB"],
        on: On::Disk,
    },
    Run {
        name: "stable-xfs",
        workload: "random-4k",
        options: &[
            "--self=buffered,direct",
            "--size=64MiB",
            "--cached",
            "--seconds=0.4",
        ],
        on: On::XfsOnDisk,
    },
    Run {
        name: "stable-xfs-alone",
        workload: "random-4k",
        options: &[
            "--self=buffered,direct,direct+no-stable-write-attributes",
            "--local=direct",
            "--size=64MiB",
            "--cached",
            "--seconds=0.4",
            "--depth=1",
        ],
        on: On::XfsOnDisk,
    },
    Run {
        name: "beside",
        workload: "small-calls",
        options: &["--self=buffered,direct", "--seconds=0.7"],
        on: On::Memory,
    },
    Run {
        name: "beside-on-disk",
        workload: "small-calls",
        options: &["--self=buffered,direct", "--seconds=0.7"],
        on: On::Disk,
    },
    Run {
        name: "order",
        workload: "out-of-order",
        options: &["--self"],
        on: On::Memory,
    },
    Run {
        name: "unaligned",
        workload: "ior-hard",
        options: &[
            "--self=direct,direct+staging,direct+staging+order",
            "--memory=512MiB",
            "--size=256MiB",
        ],
        on: On::Memory,
    },
    Run {
        name: "aligned",
        workload: "ior-hard",
        options: &[
            "--self=direct,direct+staging,direct+staging+order",
            "--memory=512MiB",
            "--size=256MiB",
            "--record=48KiB",
        ],
        on: On::Memory,
    },
    Run {
        name: "names",
        workload: "metadata",
        options: &[
            "--self=buffered,buffered+async",
            "--local=buffered+sync",
            "--names=5000",
        ],
        on: On::Memory,
    },
    Run {
        name: "connections",
        workload: "connections",
        options: &["--self=auto", "--seconds=0.7", IDLE],
        on: On::Memory,
    },
];
