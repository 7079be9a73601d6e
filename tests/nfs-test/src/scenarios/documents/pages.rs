//! What pages need before their commands can be run, and what of them is not run.

/// A page whose commands need more than what every page finds.
pub(super) struct Prepared {
    /// The page, by its path from the root of the source tree.
    pub(super) page: &'static str,
    /// Commands of the shell that make what the page speaks of.
    pub(super) before: &'static str,
    pub(super) going_on: &'static [GoingOn],
}

/// A line that goes on until it is ended, and a command that succeeds once it is under way.
pub(super) type GoingOn = (&'static str, &'static str);

/// Commands of the shell that make what every page finds.
pub(super) const COMMON: &str = include_str!("pages/common.sh");

/// The pages that need more, or show what goes on.
pub(super) const PREPARED: &[Prepared] = &[
    Prepared {
        page: "README.md",
        before: include_str!("pages/readme.sh"),
        going_on: &[
            (
                "cargo run --release -- serve ./data",
                "penstock cat nfs://127.0.0.1/some/file",
            ),
            (
                "penstock serve ./data --read dontcache --write direct",
                "penstock ctl io",
            ),
        ],
    },
    Prepared {
        page: "docs/audit.md",
        before: include_str!("pages/audit.sh"),
        going_on: &[("penstock audit --follow", "true")],
    },
    Prepared {
        page: "docs/client.md",
        before: include_str!("pages/client.sh"),
        going_on: &[("penstock stats /mnt 5", "true")],
    },
    Prepared {
        page: "docs/doctor.md",
        before: include_str!("pages/client.sh"),
        going_on: &[],
    },
    Prepared {
        page: "docs/io-modes.md",
        before: include_str!("pages/io-modes.sh"),
        going_on: &[],
    },
    Prepared {
        page: "docs/moving.md",
        before: include_str!("pages/moving.sh"),
        going_on: &[],
    },
    Prepared {
        page: "docs/seeing.md",
        before: include_str!("pages/seeing.sh"),
        going_on: &[(
            "penstock serve ./data --web 127.0.0.1:8049",
            "penstock ping -c 1 nfs://127.0.0.1/",
        )],
    },
    Prepared {
        page: "docs/tracing.md",
        before: "",
        going_on: &[],
    },
];

/// Blocks of commands and configurations that are not run, by their page and how they begin, with the reason.
pub(super) const NOT_RUN: &[(&str, &str, &str)] = &[
    (
        "README.md",
        "cargo xtask test",
        "this scenario is a part of it",
    ),
    ("README.md", "mount -t nfs 127.0.0.1:/ /mnt", KERNEL_CLIENT),
    ("README.md", "mount -t nfs -o vers=3", KERNEL_CLIENT),
    (
        "CONTRIBUTING.md",
        "cargo xtask prepush",
        "this scenario is a part of the second",
    ),
    ("docs/bench.md", "penstock bench seq-read --self", MEASURED),
    ("docs/bench.md", "penstock bench seq-write --self", MEASURED),
    ("docs/bench.md", "penstock bench tip-over", MEASURED),
    ("docs/bench.md", "mount -t nfs -o vers=3", KERNEL_CLIENT),
    (
        "docs/bench.md",
        "systemd-run --scope",
        "it asks systemd, which does not run here, for a control group",
    ),
    (
        "docs/benchmarking.md",
        "cargo xtask bench baseline",
        BENCHMARK,
    ),
    (
        "docs/benchmarking.md",
        "cargo xtask bench attacks",
        BENCHMARK,
    ),
    ("docs/benchmarking.md", "cargo xtask bench storm", BENCHMARK),
    ("docs/benchmarking.md", "cargo xtask bench modes", BENCHMARK),
    (
        "docs/benchmarking.md",
        "cargo xtask bench ior-hard",
        BENCHMARK,
    ),
    (
        "docs/benchmarking.md",
        "cargo xtask bench out-of-order",
        BENCHMARK,
    ),
    ("docs/benchmarking.md", "cargo xtask bench auto", BENCHMARK),
    (
        "docs/benchmarking.md",
        "cargo xtask bench client",
        BENCHMARK,
    ),
    (
        "docs/benchmarking.md",
        "cargo xtask bench kernel-client",
        BENCHMARK,
    ),
    ("docs/benchmarking.md", "cargo xtask bench sync", BENCHMARK),
    (
        "docs/design/0004-buffers.md",
        "cargo build --release -p nfs-io --example direct_io",
        "it measured, once, what the decision rests on",
    ),
    (
        "docs/nfsv4.md",
        "mount -t nfs SERVER:/data /mnt",
        KERNEL_CLIENT,
    ),
    (
        "docs/results/suites/README.md",
        "cargo xtask suites compare FILE",
        "it wants the result of a suite from outside the project",
    ),
    (
        "docs/seeing.md",
        "penstock top\n",
        "it draws on a terminal: `screens-top` types into one",
    ),
    (
        "docs/testing.md",
        "cargo xtask test",
        "this scenario is a part of it",
    ),
    (
        "docs/testing.md",
        "cargo xtask prepush",
        "this scenario would be a part of it",
    ),
    (
        "fuzz/README.md",
        "export RUSTFLAGS=",
        "it builds the fuzz targets: the level `fuzz` of `cargo xtask test` does that",
    ),
];

/// Why no `mount -t nfs` is run here.
const KERNEL_CLIENT: &str =
    "it wants a kernel with an NFS client: `kernel` and `kernel-v4.2` mount so in a guest";
/// Why the measurements of the program itself are not run here.
const MEASURED: &str =
    "it measures for a minute: the program's `tests/bench.rs` runs such with less";
/// Why no measurement is run here.
const BENCHMARK: &str = "it measures for minutes";

/// Blocks of text that no command of their page prints, by their page and how they begin, with the reason.
pub(super) const NOT_PRINTED: &[(&str, &str, &str)] = &[
    ("README.md", "client  ", PICTURE),
    ("ARCHITECTURE.md", "penstock ──", PICTURE),
    ("ARCHITECTURE.md", "server    uses", PICTURE),
    (
        "docs/client.md",
        "nfs://server/export  /mnt/data",
        "a line of /etc/fstab: tests/fstab.rs mounts it",
    ),
    ("docs/io-modes.md", "47008  ", PICTURE),
    ("docs/io-modes.md", "45056  ", PICTURE),
    (
        "docs/io-modes.md",
        "2026-11-22T01:46:34.384528Z write_direct",
        EVENTS,
    ),
    (
        "docs/tracing.md",
        "2026-11-22T01:41:10.980042Z write_start",
        EVENTS,
    ),
    (
        "docs/tracing.md",
        "# 2026-11-25T03:58:43.644062Z NFSv4 COMPOUND",
        "which steps a call takes depends on what is known already",
    ),
    (
        "docs/io-modes.md",
        "mode        direct: the export's \"read\"; it has no rules",
        "a part of what `--why` says where `auto` has seen thousands of calls",
    ),
    (
        "docs/seeing.md",
        "penstock top /var/lib",
        "a screen: `screens-top` reads one",
    ),
];

/// Why no events of WRITEs are looked for.
const EVENTS: &str = "of a client's WRITE: tests of the server's `operate/trace` hold the form";
/// Why a block of text is compared with nothing.
const PICTURE: &str = "a picture";
