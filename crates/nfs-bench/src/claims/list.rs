//! Which claims there are, by which workload each is measured, and what is looked at.

/// A claim, and the workload that shows it.
#[derive(Debug)]
pub(super) struct Claim {
    /// Its number in the project's list.
    pub(super) number: &'static str,
    /// What a source says.
    pub(super) source: &'static str,
    /// Name of the workload.
    pub(super) workload: &'static str,
    /// Targets and sizes: what fits two cores and 24 GiB in a few minutes.
    pub(super) options: &'static [&'static str],
    /// Whether another server is measured beside ours.
    pub(super) has_peer: bool,
    /// What is looked at.
    pub(super) ratios: &'static [Ratio],
}

/// A figure over another one of the same run.
#[derive(Debug)]
pub(super) struct Ratio {
    /// What it says.
    pub(super) label: &'static str,
    /// Of what.
    pub(super) figure: Figure,
    /// Step and target of the figure.
    pub(super) over: (&'static str, &'static str),
    /// Step and target of the one that it is divided by.
    pub(super) under: (&'static str, &'static str),
    /// What it should be.
    pub(super) wanted: &'static str,
}

/// The figure of a ratio.
#[derive(Clone, Copy, Debug)]
pub(super) enum Figure {
    /// Bytes or calls per second, COMMIT included.
    Throughput,
    /// Processor time of the server for each byte or call.
    Processor,
}

/// A picture of a report that the README shows.
#[derive(Debug)]
pub(super) struct Picture {
    /// Name of its files.
    pub(super) name: &'static str,
    /// Whose report.
    pub(super) workload: &'static str,
    /// Which section of the report.
    pub(super) section: usize,
    /// Which picture of the section.
    pub(super) chart: usize,
}

pub(super) const PICTURES: &[Picture] = &[
    Picture {
        name: "seq-read-throughput",
        workload: "seq-read",
        section: 0,
        chart: 0,
    },
    Picture {
        name: "seq-read-processor",
        workload: "seq-read",
        section: 0,
        chart: 2,
    },
    Picture {
        name: "tip-over-throughput",
        workload: "tip-over",
        section: 0,
        chart: 0,
    },
];

const BUFFERED: &str = "penstock buffered";
const DONTCACHE: &str = "penstock dontcache";
const DIRECT: &str = "penstock direct";

const fn ratio(
    label: &'static str,
    over: (&'static str, &'static str),
    under: (&'static str, &'static str),
    wanted: &'static str,
) -> Ratio {
    Ratio {
        label,
        figure: Figure::Throughput,
        over,
        under,
        wanted,
    }
}

const fn processor(step: &'static str, wanted: &'static str) -> Ratio {
    Ratio {
        label: "processor time, direct / buffered",
        figure: Figure::Processor,
        over: (step, DIRECT),
        under: (step, BUFFERED),
        wanted,
    }
}

const GROW: &str = "write and read";
const IN_ORDER: &str = "write in order";
const SHUFFLED: &str = "write shuffled within 64";

/// Those of the project's claims that have a workload, in their order. C4, C8 and C9 are shown by tests and traces.
pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        number: "C1",
        source: "Reads of a file of 2.7 times the memory through a kernel's server: buffered 5.4 GB/s, direct 18.3, \
                 local disk 87.",
        workload: "seq-read",
        options: &[
            "--self",
            "--local=direct",
            "--memory=512MiB",
            "--size=1536MiB",
            "--depth=32",
        ],
        has_peer: true,
        ratios: &[
            ratio(
                "direct / buffered",
                ("read", DIRECT),
                ("read", BUFFERED),
                "1 or more",
            ),
            processor("read", "a fraction"),
            ratio(
                "direct / local direct",
                ("read", DIRECT),
                ("read", "local direct"),
                "near 1 (the source: 0.21)",
            ),
            ratio(
                "direct / Ganesha",
                ("read", DIRECT),
                ("read", "ganesha"),
                "more than 1",
            ),
        ],
    },
    Claim {
        number: "C2",
        source: "IOR easy, direct instead of buffered: write 295.6 → 348.1 GiB/s, read 60.7 → 348.0, the server's \
                 processors 100 % → 72 and 56 %.",
        workload: "ior-easy",
        options: &[
            "--self",
            "--memory=512MiB",
            "--size=384MiB",
            "--repetitions=2",
        ],
        has_peer: true,
        ratios: &[
            ratio(
                "write, direct / buffered",
                ("write", DIRECT),
                ("write", BUFFERED),
                "1 or more",
            ),
            processor("write", "a fraction"),
            ratio(
                "read, direct / buffered",
                ("read", DIRECT),
                ("read", BUFFERED),
                "1 or more",
            ),
            processor("read", "a fraction"),
        ],
    },
    Claim {
        number: "C2",
        source: "The same over time: buffered, the server tips over when the data is as large as its memory.",
        workload: "tip-over",
        options: &["--self", "--memory=512MiB", "--repetitions=1"],
        has_peer: true,
        ratios: &[ratio(
            "write and read, direct / buffered",
            (GROW, DIRECT),
            (GROW, BUFFERED),
            "1 or more",
        )],
    },
    Claim {
        number: "C3",
        source: "WRITEs of 47008 bytes, which no device takes as they are: a kernel's server takes them at 0.34 to \
                 1.26 GB/s.",
        workload: "ior-hard",
        options: &[
            "--self",
            "--memory=128MiB",
            "--size=256MiB",
            "--repetitions=2",
        ],
        has_peer: true,
        ratios: &[
            ratio(
                "write, direct / buffered",
                ("write", DIRECT),
                ("write", BUFFERED),
                "near 1",
            ),
            ratio(
                "write, dontcache / buffered",
                ("write", DONTCACHE),
                ("write", BUFFERED),
                "near 1",
            ),
            ratio(
                "write, buffered / Ganesha",
                ("write", BUFFERED),
                ("write", "ganesha"),
                "1 or more",
            ),
        ],
    },
    Claim {
        number: "C5",
        source: "IOzone's table through a kernel's server: 43 to 50 µs for a call of 4 KiB.",
        workload: "iozone",
        options: &["--self=buffered,direct", "--repetitions=2"],
        has_peer: true,
        ratios: &[
            ratio(
                "read 4 KiB, buffered / Ganesha",
                ("read 4 KiB", BUFFERED),
                ("read 4 KiB", "ganesha"),
                "1 or more",
            ),
            ratio(
                "write 4 KiB, buffered / Ganesha",
                ("write 4 KiB", BUFFERED),
                ("write 4 KiB", "ganesha"),
                "1 or more",
            ),
        ],
    },
    Claim {
        number: "C6",
        source: "60 MB in sequence: 3.4 → 5 → more than 6 MB/s by keeping the pipe full.",
        workload: "mkfile-dd",
        options: &["--self=auto"],
        has_peer: true,
        ratios: &[
            ratio(
                "mkfile, 32 in flight / 1",
                ("mkfile, 32 in flight", "penstock auto"),
                ("mkfile, 1 in flight", "penstock auto"),
                "more than 1",
            ),
            ratio(
                "dd, 32 in flight / 1",
                ("dd, 32 in flight", "penstock auto"),
                ("dd, 1 in flight", "penstock auto"),
                "more than 1",
            ),
        ],
    },
    Claim {
        number: "C7",
        source: "WRITEs out of order: 45.9 MB/s with two senders, 21.4 with 20, 9.6 with 64.",
        workload: "out-of-order",
        options: &["--self"],
        has_peer: true,
        ratios: &[
            ratio(
                "buffered, shuffled within 64 / in order",
                (SHUFFLED, BUFFERED),
                (IN_ORDER, BUFFERED),
                "0.95 or more",
            ),
            ratio(
                "dontcache, shuffled within 64 / in order",
                (SHUFFLED, DONTCACHE),
                (IN_ORDER, DONTCACHE),
                "0.95 or more",
            ),
            ratio(
                "direct, shuffled within 64 / in order",
                (SHUFFLED, DIRECT),
                (IN_ORDER, DIRECT),
                "0.95 or more",
            ),
            ratio(
                "Ganesha, shuffled within 64 / in order",
                (SHUFFLED, "ganesha"),
                (IN_ORDER, "ganesha"),
                "for comparison",
            ),
        ],
    },
];

#[cfg(test)]
mod tests {
    use nfs_load::workload::Workload;

    use super::*;

    #[test]
    fn claims_speak_of_steps_that_their_workloads_have() {
        for claim in CLAIMS {
            let named = |workload: &&Workload| workload.name() == claim.workload;
            let workload = Workload::ALL.into_iter().find(|w| named(&w)).unwrap();
            let steps = workload.steps(&workload.defaults()).unwrap();
            for ratio in claim.ratios {
                for (step, _) in [ratio.over, ratio.under] {
                    assert!(
                        steps.iter().any(|s| s.name == step),
                        "{}: {step}",
                        claim.number
                    );
                }
            }
        }
        for picture in PICTURES {
            assert!(
                CLAIMS
                    .iter()
                    .any(|claim| claim.workload == picture.workload)
            );
        }
    }
}
