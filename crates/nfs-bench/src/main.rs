//! `nfs-bench`, started by `cargo xtask bench`: parses, calls, prints.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use nfs_bench::attacks::attacker::{self, Job};
use nfs_bench::attacks::kind::Attack;
use nfs_bench::attacks::run::{self as attacks, Options as AttacksOptions};
use nfs_bench::attacks::storm::{self, Options as StormOptions};
use nfs_bench::attacks::storm_report;
use nfs_bench::baseline::load::{self, Amount, Load};
use nfs_bench::baseline::run::{self as baseline, Kind, Options};
use nfs_bench::baseline::workload::Workload;
use nfs_bench::client;
use nfs_bench::client::mover::{self, Move};
use nfs_bench::client::plan::Sizes;
use nfs_bench::client::run::Options as ClientOptions;
use nfs_bench::content::Data;
use nfs_bench::limits;
use nfs_bench::modes::run::{self as modes, Options as ModesOptions};
use nfs_bench::modes::{page, supervise};
use nfs_bench::out_of_order::run::{self as out_of_order, Options as OutOfOrderOptions};
use nfs_bench::respond;
use nfs_bench::stage;
use nfs_client::NfsUrl;
use serde::Serialize;

/// Measures NFS servers against each other
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// The everyday calls: ours with both engines and NFS-Ganesha, in turn
    Baseline {
        /// Length of one measurement
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Measurements of each, of which the median is shown
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Export this directory instead of a new XFS in memory
        #[arg(long)]
        directory: Option<PathBuf>,
        /// Only rates and latencies: no system calls, no instructions
        #[arg(long)]
        quick: bool,
        /// Only this server (may be given more than once)
        #[arg(long = "server")]
        servers: Vec<Kind>,
        /// Only workloads whose name contains this
        #[arg(long)]
        filter: Option<String>,
        /// Print JSON instead of tables
        #[arg(long)]
        json: bool,
    },
    /// Hostile and greedy peers beside a polite client: ours with both engines and NFS-Ganesha, in turn
    Attacks {
        /// Length of one measurement of the polite client
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
        /// How often each attack is run against each server
        #[arg(long, default_value_t = 1)]
        rounds: usize,
        /// Only this server (may be given more than once)
        #[arg(long = "server")]
        servers: Vec<Kind>,
        /// Only attacks whose name contains this
        #[arg(long)]
        filter: Option<String>,
        /// Print JSON instead of tables
        #[arg(long)]
        json: bool,
    },
    /// Attack a server until ended (what `attacks` attacks with)
    #[command(hide = true)]
    Attack {
        /// Its name, as in the report
        #[arg(long)]
        attack: Attack,
        /// Where the NFS program listens
        #[arg(long)]
        nfs: SocketAddr,
        /// Where the MOUNT program listens
        #[arg(long)]
        mount: SocketAddr,
        /// The path to mount
        #[arg(long)]
        export: String,
        /// The address of this machine to attack from
        #[arg(long)]
        from: Ipv4Addr,
        /// How many silent or half-open connections there may be
        #[arg(long)]
        connections: usize,
    },
    /// Ten thousand hostile connections of every kind at once beside a polite client, over time
    Storm {
        /// How long the storm is
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// How many hostile connections there are, about
        #[arg(long, default_value_t = 10_000)]
        connections: usize,
        /// This server instead of ours with io_uring (may be given more than once)
        #[arg(long = "server")]
        servers: Vec<Kind>,
        #[command(flatten)]
        results: Results,
    },
    /// The I/O modes: ours in each, other servers and local fio, in turn, with little memory
    Modes(Box<ModesArgs>),
    /// WRITEs out of order: one stream shuffled within each k, in each I/O mode, with reserve, order, both and neither
    OutOfOrder(OutOfOrderArgs),
    /// The client: ours, libnfs's utilities, on our server, Ganesha and a responder without I/O
    Client(ClientArgs),
    /// Read or write one file with the client library (what `client` measures it with)
    #[command(hide = true)]
    Move {
        /// The file
        url: NfsUrl,
        /// Write so many bytes instead of reading all there are
        #[arg(long)]
        write_bytes: Option<u64>,
        /// Transfers in flight (found from what is measured if not given)
        #[arg(long)]
        window: Option<u32>,
        /// Largest transfer, in KiB
        #[arg(long, value_parser = kib)]
        transfer: Option<u32>,
    },
    /// Answer calls without touching a file (what `modes` and `client` measure their own limits with)
    #[command(hide = true)]
    Respond {
        /// On this port of loopback
        #[arg(long)]
        port: u16,
        /// The size of its files
        #[arg(long, default_value_t = 1 << 40)]
        file_bytes: u64,
        /// Answer no sooner than so many microseconds after the call
        #[arg(long, default_value_t = 0)]
        delay_us: u64,
        /// Copy what is written out of the kernel, as any program would that looks at it
        #[arg(long)]
        copied: bool,
    },
    /// One workload against one server; prints a sample as JSON
    Load {
        /// Its name, as in the report
        #[arg(long)]
        workload: Workload,
        /// Calls in flight
        #[arg(long, default_value_t = 1)]
        depth: usize,
        /// Where the NFS program listens
        #[arg(long)]
        nfs: SocketAddr,
        /// Where the MOUNT program listens (as the NFS program if not given)
        #[arg(long)]
        mount: Option<SocketAddr>,
        /// The path to mount
        #[arg(long, default_value = "/")]
        export: String,
        /// How long
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Stop after this many calls instead
        #[arg(long)]
        calls: Option<u64>,
        /// Take the handles from this file; if it is not there, write it. They outlive a server
        #[arg(long)]
        handles: Option<PathBuf>,
        /// The core to run on (wherever the kernel likes if not given)
        #[arg(long)]
        cpu: Option<usize>,
        /// The address of this machine to call from
        #[arg(long)]
        from: Option<Ipv4Addr>,
    },
}

#[derive(Args)]
struct ClientArgs {
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
    #[command(flatten)]
    results: Results,
}

impl ClientArgs {
    fn options(&self) -> Result<ClientOptions> {
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
struct Results {
    /// Write everything, all rounds included, to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write tables, pictures and JSON into this directory
    #[arg(long)]
    report: Option<PathBuf>,
}

impl Results {
    /// Writes `report` as JSON, and with `page` as a directory, where these were asked for.
    fn write<R: Serialize>(
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
fn rounds(rounds: usize) -> Result<usize> {
    if rounds == 0 || rounds > limits::ROUNDS_MAX {
        bail!("--rounds is 1 to {}", limits::ROUNDS_MAX);
    }
    Ok(rounds)
}

/// Whole mebibytes, so that every workload but the odd one reads to the very end.
fn file_bytes(gib: f64) -> Result<u64> {
    if !(gib > 0.0 && gib <= limits::FILE_GIB_MAX) {
        bail!("--gib is more than 0 and at most {}", limits::FILE_GIB_MAX);
    }
    Ok(((gib * 1024.0).ceil() as u64) << 20)
}

fn kib(text: &str) -> Result<u32> {
    let number = text.trim_end_matches("KiB");
    let kib: u32 = number.parse().context("a number of KiB")?;
    kib.checked_mul(1024).context("too large")
}

#[derive(Args)]
struct ModesArgs {
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
    directory: PathBuf,
    #[command(flatten)]
    results: Results,
}

impl ModesArgs {
    fn options(&self) -> Result<ModesOptions> {
        let rounds = rounds(self.rounds.unwrap_or(if self.quick { 3 } else { 5 }))?;
        let seconds = self.seconds.or(self.quick.then_some(2.0));
        let random = seconds.unwrap_or(5.0).min(5.0);
        Ok(ModesOptions {
            file_bytes: file_bytes(self.gib)?,
            memory_bytes: self.memory_mib << 20,
            depth: if self.alone { 1 } else { self.depth },
            alone: self.alone,
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
struct OutOfOrderArgs {
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
    directory: PathBuf,
    #[command(flatten)]
    results: Results,
}

impl OutOfOrderArgs {
    fn options(&self) -> Result<OutOfOrderOptions> {
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

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("nfs-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: What) -> Result<ExitCode> {
    match command {
        What::Baseline {
            seconds,
            rounds,
            directory,
            quick,
            servers,
            filter,
            json,
        } => {
            let options = Options {
                seconds,
                rounds,
                directory,
                quick,
                servers,
                filter,
            };
            run_baseline(&options, json)
        }
        What::Attacks {
            seconds,
            rounds,
            servers,
            filter,
            json,
        } => {
            let options = AttacksOptions {
                seconds,
                rounds,
                servers,
                filter,
            };
            run_attacks(&options, json)
        }
        What::Attack {
            attack,
            nfs,
            mount,
            export,
            from,
            connections,
        } => {
            attacker::run(&Job {
                attack,
                nfs,
                mount,
                export,
                from,
                connections,
            })?;
            Ok(ExitCode::SUCCESS)
        }
        What::Storm {
            seconds,
            connections,
            servers,
            results,
        } => {
            let options = StormOptions {
                seconds,
                connections,
                servers,
            };
            run_storm(&options, &results)
        }
        What::Modes(arguments) => run_modes(&arguments),
        What::OutOfOrder(arguments) => run_out_of_order(&arguments),
        What::Client(arguments) => run_client(&arguments),
        What::Move {
            url,
            write_bytes,
            window,
            transfer,
        } => {
            let job = Move {
                url,
                write_bytes,
                window,
                transfer,
            };
            println!("{} bytes", mover::run(&job)?);
            Ok(ExitCode::SUCCESS)
        }
        What::Respond {
            port,
            file_bytes,
            delay_us,
            copied,
        } => {
            let answers = respond::Answers {
                file_bytes,
                delay: Duration::from_micros(delay_us),
                copied,
            };
            respond::serve(port, answers)?;
            Ok(ExitCode::SUCCESS)
        }
        What::Load {
            workload,
            depth,
            nfs,
            mount,
            export,
            seconds,
            calls,
            handles,
            cpu,
            from,
        } => {
            let amount = calls.map_or(Amount::For(Duration::from_secs_f64(seconds)), Amount::Calls);
            let load = Load {
                workload,
                depth,
                nfs,
                mount: mount.unwrap_or(nfs),
                export,
                amount,
                handles,
                cpu,
                from,
            };
            println!("{}", serde_json::to_string(&load::run(&load)?)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn run_baseline(options: &Options, json: bool) -> Result<ExitCode> {
    rounds(options.rounds)?;
    if !stage::is_inside() {
        if !stage::is_root() {
            bail!(
                "the baseline needs root: it makes namespaces and a file system of its own. Without root, start a server and use `nfs-bench load`"
            );
        }
        return Ok(code(stage::enter()?));
    }
    let report = baseline::run(options)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.summary().text());
    }
    Ok(ExitCode::SUCCESS)
}

fn run_attacks(options: &AttacksOptions, json: bool) -> Result<ExitCode> {
    rounds(options.rounds)?;
    if !stage::is_inside() {
        if !stage::is_root() {
            bail!("this needs root: it makes namespaces and a file system of its own");
        }
        return Ok(code(stage::enter()?));
    }
    let report = attacks::run(options)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.summary().text());
    }
    Ok(ExitCode::SUCCESS)
}

fn run_storm(options: &StormOptions, results: &Results) -> Result<ExitCode> {
    let most = limits::STORM_SECONDS_MAX;
    if options.seconds == 0 || options.seconds > most {
        bail!("--seconds is 1 to {most}");
    }
    if !stage::is_inside() {
        if !stage::is_root() {
            bail!("this needs root: it makes namespaces and a file system of its own");
        }
        return Ok(code(stage::enter()?));
    }
    let report = storm::run(options)?;
    results.write(&report, storm_report::write)?;
    print!("{}", report.summary().text());
    Ok(ExitCode::SUCCESS)
}

fn run_client(arguments: &ClientArgs) -> Result<ExitCode> {
    let options = arguments.options()?;
    if !stage::is_inside() {
        if !stage::is_root() {
            bail!("this needs root: it makes namespaces and a file system of its own");
        }
        return Ok(code(stage::enter()?));
    }
    let report = client::run::run(&options)?;
    arguments.results.write(&report, client::page::write)?;
    print!("{}", report.summary().text());
    Ok(ExitCode::SUCCESS)
}

fn run_modes(arguments: &ModesArgs) -> Result<ExitCode> {
    let options = arguments.options()?;
    if !stage::is_inside() {
        if !stage::is_root() {
            bail!(
                "this needs root: it makes namespaces, memory cgroups and a file system of its own"
            );
        }
        let status = supervise::run_inside(&arguments.directory, options.fast_bytes())?;
        return Ok(code(status));
    }
    let report = modes::run(&options)?;
    arguments.results.write(&report, page::write)?;
    print!("{}", report.summary().text());
    Ok(ExitCode::SUCCESS)
}

fn run_out_of_order(arguments: &OutOfOrderArgs) -> Result<ExitCode> {
    let options = arguments.options()?;
    if !stage::is_inside() {
        if !stage::is_root() {
            bail!(
                "this needs root: it makes namespaces, memory cgroups and a file system of its own"
            );
        }
        let status = supervise::run_inside(&arguments.directory, options.fast_bytes())?;
        return Ok(code(status));
    }
    let report = out_of_order::run(&options)?;
    let write = nfs_bench::out_of_order::page::write;
    arguments.results.write(&report, write)?;
    print!("{}", report.summary().text());
    Ok(ExitCode::SUCCESS)
}

/// How this program ends, as it ended inside its namespaces.
fn code(status: ExitStatus) -> ExitCode {
    match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
