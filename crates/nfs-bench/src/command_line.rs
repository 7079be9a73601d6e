//! The options of the comparisons of I/O modes and clients, as `nfs-bench` takes them from its command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use nfs_bench::auto::run::Options as AutoOptions;
use nfs_bench::client::plan::Sizes;
use nfs_bench::client::run::Options as ClientOptions;
use nfs_bench::content::Data;
use nfs_bench::limits;
use nfs_bench::modes::run::{About, Options as ModesOptions};
use nfs_bench::out_of_order::run::Options as OutOfOrderOptions;
use serde::Serialize;

#[derive(Args)]
pub(crate) struct ClientArgs {
    /// Smaller files and fewer rounds: within ten minutes
    #[arg(long)]
    quick: bool,
    /// Only rows whose label contains this: "SERVER, WORK: TOOL", as they are printed
    #[arg(long)]
    filter: Option<String>,
    /// Measurements of each, of which the median is shown (3, or 5 without --quick)
    #[arg(long)]
    rounds: Option<usize>,
    /// The size of the large file (4, or 1 with --quick)
    #[arg(long)]
    gib: Option<f64>,
    /// The Linux kernel's client too, in User Mode Linux (a minute or two more for each round)
    #[arg(long)]
    kernel: bool,
    /// How many small files (10,000, or 2,000 with --quick)
    #[arg(long)]
    files: Option<usize>,
    /// Make the files of the rows of a disk in this directory
    #[arg(long, default_value = "/var/tmp")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) results: Results,
}

impl ClientArgs {
    pub(crate) fn options(&self) -> Result<ClientOptions> {
        let rounds = rounds(self.rounds.unwrap_or(if self.quick { 3 } else { 5 }))?;
        let whole = file_bytes(self.gib.unwrap_or(if self.quick { 1.0 } else { 4.0 }))?;
        let files = self.files.unwrap_or(if self.quick { 2000 } else { 10_000 });
        if files > limits::SMALL_FILES_MAX {
            bail!("--files is at most {}", limits::SMALL_FILES_MAX);
        }
        Ok(ClientOptions {
            sizes: Sizes {
                whole,
                // Long enough that start and end do not count, and there are many of them.
                swept: whole.min(if self.quick { 512 << 20 } else { 1 << 30 }),
                small: (256 << 20).min(whole),
            },
            files,
            rounds,
            filter: self.filter.clone(),
            kernel: self.kernel,
        })
    }
}

/// Where the figures of a comparison go, besides standard output.
#[derive(Args)]
pub(crate) struct Results {
    /// Write everything, all rounds included, to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write tables, pictures and JSON into this directory
    #[arg(long)]
    report: Option<PathBuf>,
}

impl Results {
    /// Writes `report` as JSON, and with `page` as a directory, where these were asked for.
    pub(crate) fn write<R: Serialize>(
        &self,
        report: &R,
        page: impl FnOnce(&R, &Path) -> Result<()>,
    ) -> Result<()> {
        if let Some(path) = &self.json {
            std::fs::write(path, serde_json::to_vec_pretty(report)?)
                .with_context(|| path.display().to_string())?;
        }
        self.report.as_deref().map_or(Ok(()), |at| page(report, at))
    }
}

/// Checks the number of rounds, which is 1 to [`limits::ROUNDS_MAX`].
pub(crate) fn rounds(rounds: usize) -> Result<usize> {
    if rounds == 0 || rounds > limits::ROUNDS_MAX {
        bail!("--rounds is 1 to {}", limits::ROUNDS_MAX);
    }
    Ok(rounds)
}

/// Whole mebibytes, so that every workload but the odd one reads to the very end.
pub(crate) fn file_bytes(gib: f64) -> Result<u64> {
    if !(gib > 0.0 && gib <= limits::FILE_GIB_MAX) {
        bail!("--gib is more than 0 and at most {}", limits::FILE_GIB_MAX);
    }
    Ok(((gib * 1024.0).ceil() as u64) << 20)
}

pub(crate) fn kib(text: &str) -> Result<u32> {
    let number = text.trim_end_matches("KiB");
    let kib: u32 = number.parse().context("a number of KiB")?;
    kib.checked_mul(1024).context("too large")
}

#[derive(Args)]
pub(crate) struct ModesArgs {
    /// Fewer rounds, and no measurement longer than a few seconds: a quarter of an hour in all
    #[arg(long)]
    quick: bool,
    /// Only workloads whose name contains this
    #[arg(long)]
    filter: Option<String>,
    /// Only contenders whose name contains this (may be given more than once)
    #[arg(long)]
    who: Vec<String>,
    /// Only this volume: fast, or disk
    #[arg(long, value_parser = ["fast", "disk"])]
    on: Option<String>,
    /// No calls after so long in a measurement (without --quick the whole file)
    #[arg(long)]
    seconds: Option<f64>,
    /// The size of the file
    #[arg(long, default_value_t = 4.0)]
    gib: f64,
    /// The memory cgroup's limit
    #[arg(long, default_value_t = 512)]
    memory_mib: u64,
    /// Calls in flight
    #[arg(long, default_value_t = 32)]
    depth: usize,
    /// A client alone with its file: one READ in flight, from one end to the other. Only ours and only the
    /// workloads seq-read-1m and seq-read-128k, unless --who or --filter says otherwise; their goal is that direct
    /// with read-ahead is no slower than dontcache
    #[arg(long, conflicts_with = "depth")]
    alone: bool,
    /// Measurements of each, of which the median is shown (3, or 5 without --quick)
    #[arg(long)]
    rounds: Option<usize>,
    /// What files on the fast device hold: `filled` costs a device in memory next to nothing, as a disk's data
    /// costs the CPU nothing; `noise` makes zram try to compress it in vain, most of a second per GiB written
    #[arg(long, default_value = "filled")]
    data: Data,
    /// Count system calls (strace), and the bytes that ours copies, on the first volume
    #[arg(long)]
    count: bool,
    /// Ours with the threads engine as well
    #[arg(long)]
    threads: bool,
    /// Where unfs3's unfsd is, if not on the path
    #[arg(long)]
    unfsd: Option<PathBuf>,
    /// A directory on the disk to be measured
    #[arg(long, default_value = "target")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) results: Results,
}

impl ModesArgs {
    pub(crate) fn options(&self) -> Result<ModesOptions> {
        let rounds = rounds(self.rounds.unwrap_or(if self.quick { 3 } else { 5 }))?;
        let seconds = self.seconds.or(self.quick.then_some(2.0));
        let random = seconds.unwrap_or(5.0).min(5.0);
        Ok(ModesOptions {
            file_bytes: file_bytes(self.gib)?,
            memory_bytes: self.memory_mib << 20,
            clients: 1,
            depth: if self.alone { 1 } else { self.depth },
            about: if self.alone {
                About::Alone
            } else {
                About::Modes
            },
            reserve: None,
            at_most: seconds.map(Duration::try_from_secs_f64).transpose()?,
            random_for: Duration::try_from_secs_f64(random)?,
            rounds,
            filter: self.filter.clone(),
            who: self.who.clone(),
            on: self.on.clone(),
            data: self.data,
            count: self.count,
            threads: self.threads,
            unfsd: self.unfsd.clone(),
        })
    }
}

#[derive(Args)]
pub(crate) struct IorHardArgs {
    /// A smaller file and fewer rounds: some minutes
    #[arg(long)]
    quick: bool,
    /// Only rows whose contender's name contains this (may be given more than once)
    #[arg(long)]
    who: Vec<String>,
    /// Only this volume: fast, or disk
    #[arg(long, value_parser = ["fast", "disk"])]
    on: Option<String>,
    /// The size of the file (2, or 1 with --quick)
    #[arg(long)]
    gib: Option<f64>,
    /// The memory cgroup's limit
    #[arg(long, default_value_t = 512)]
    memory_mib: u64,
    /// Clients that write the file by turns, each over a connection of its own
    #[arg(long, default_value_t = 4)]
    clients: usize,
    /// WRITEs in flight on each connection
    #[arg(long, default_value_t = 8)]
    depth: usize,
    /// Whether ours takes space ahead of the file (its own choice if not given)
    #[arg(long, value_parser = ["on", "off"])]
    reserve: Option<String>,
    /// Measurements of each, of which the median is shown (3, or 5 without --quick)
    #[arg(long)]
    rounds: Option<usize>,
    /// What files on the fast device hold; see `modes`
    #[arg(long, default_value = "filled")]
    data: Data,
    /// Where unfs3's unfsd is, if not on the path
    #[arg(long)]
    unfsd: Option<PathBuf>,
    /// A directory on the disk to be measured
    #[arg(long, default_value = "target")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) results: Results,
}

impl IorHardArgs {
    pub(crate) fn options(&self) -> Result<ModesOptions> {
        Ok(ModesOptions {
            file_bytes: file_bytes(self.gib.unwrap_or(if self.quick { 1.0 } else { 2.0 }))?,
            memory_bytes: self.memory_mib << 20,
            clients: self.clients,
            depth: self.depth,
            about: About::IorHard,
            reserve: self.reserve.as_deref().map(|how| how == "on"),
            at_most: None,
            random_for: Duration::ZERO,
            rounds: rounds(self.rounds.unwrap_or(if self.quick { 3 } else { 5 }))?,
            filter: None,
            who: self.who.clone(),
            on: self.on.clone(),
            data: self.data,
            count: false,
            threads: false,
            unfsd: self.unfsd.clone(),
        })
    }
}

#[derive(Args)]
pub(crate) struct OutOfOrderArgs {
    /// A smaller file and fewer rounds: some minutes
    #[arg(long)]
    quick: bool,
    /// Only cases whose name contains this, as they are printed (may be given more than once)
    #[arg(long)]
    who: Vec<String>,
    /// Only this volume: fast, or disk
    #[arg(long, value_parser = ["fast", "disk"])]
    on: Option<String>,
    /// The size of the file (2, or 1 with --quick)
    #[arg(long)]
    gib: Option<f64>,
    /// The memory cgroup's limit
    #[arg(long, default_value_t = 512)]
    memory_mib: u64,
    /// WRITEs in flight
    #[arg(long, default_value_t = 64)]
    depth: usize,
    /// Measurements of each, of which the median is shown (3, or 5 without --quick)
    #[arg(long)]
    rounds: Option<usize>,
    /// What files on the fast device hold; see `modes`
    #[arg(long, default_value = "filled")]
    data: Data,
    /// A directory on the disk to be measured
    #[arg(long, default_value = "target")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) results: Results,
}

impl OutOfOrderArgs {
    pub(crate) fn options(&self) -> Result<OutOfOrderOptions> {
        Ok(OutOfOrderOptions {
            file_bytes: file_bytes(self.gib.unwrap_or(if self.quick { 1.0 } else { 2.0 }))?,
            memory_bytes: self.memory_mib << 20,
            depth: self.depth,
            rounds: rounds(self.rounds.unwrap_or(if self.quick { 3 } else { 5 }))?,
            who: self.who.clone(),
            on: self.on.clone(),
            data: self.data,
        })
    }
}

#[derive(Args)]
pub(crate) struct AutoArgs {
    /// Smaller files and fewer rounds: a quarter of an hour
    #[arg(long)]
    quick: bool,
    /// Only cases whose name contains this, as they are printed (may be given more than once)
    #[arg(long)]
    who: Vec<String>,
    /// Only this volume: fast, or disk
    #[arg(long, value_parser = ["fast", "disk"])]
    on: Option<String>,
    /// The size of the large files (4, or 1.5 with --quick)
    #[arg(long)]
    gib: Option<f64>,
    /// The memory cgroup's limit
    #[arg(long, default_value_t = 512)]
    memory_mib: u64,
    /// How long small calls are made in a measurement (5, or 2 with --quick)
    #[arg(long)]
    seconds: Option<f64>,
    /// Measurements of each, of which the median is shown (3, or 5 without --quick)
    #[arg(long)]
    rounds: Option<usize>,
    /// What files on the fast device hold; see `modes`
    #[arg(long, default_value = "filled")]
    data: Data,
    /// A directory on the disk to be measured
    #[arg(long, default_value = "target")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) results: Results,
}

impl AutoArgs {
    pub(crate) fn options(&self) -> Result<AutoOptions> {
        let (gib, seconds, times) = if self.quick {
            (1.5, 2.0, 3)
        } else {
            (4.0, 5.0, 5)
        };
        let seconds = self.seconds.unwrap_or(seconds);
        Ok(AutoOptions {
            file_bytes: file_bytes(self.gib.unwrap_or(gib))?,
            memory_bytes: self.memory_mib << 20,
            random_for: Duration::try_from_secs_f64(seconds)?,
            rounds: rounds(self.rounds.unwrap_or(times))?,
            who: self.who.clone(),
            on: self.on.clone(),
            data: self.data,
        })
    }
}
