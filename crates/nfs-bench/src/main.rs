//! `nfs-bench`, started by `cargo xtask bench`: parses, calls, prints.

mod command_line;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};
use nfs_bench::attacks::attacker::{self, Job};
use nfs_bench::attacks::kind::Attack;
use nfs_bench::attacks::run::{self as attacks, Options as AttacksOptions};
use nfs_bench::attacks::storm::{self, Options as StormOptions};
use nfs_bench::attacks::storm_report;
use nfs_bench::auto::run as auto;
use nfs_bench::baseline::load::{self, Amount, Load};
use nfs_bench::baseline::run::{self as baseline, Kind, Options};
use nfs_bench::baseline::workload::Workload;
use nfs_bench::claims;
use nfs_bench::client;
use nfs_bench::client::mover::{self, Move};
use nfs_bench::ior_hard;
use nfs_bench::kernel_client;
use nfs_bench::limits;
use nfs_bench::mirror;
use nfs_bench::modes::page;
use nfs_bench::modes::run as modes;
use nfs_bench::out_of_order::run as out_of_order;
use nfs_bench::speed;
use nfs_bench::stage;
use nfs_bench::supervise;
use nfs_client::NfsUrl;
use nfs_io::BusyPoll;
use nfs_load::respond;

use self::command_line::{
    AutoArgs, ClientArgs, IorHardArgs, ModesArgs, OutOfOrderArgs, Results, file_bytes, kib, rounds,
};

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
    /// IOR's "hard" pattern: clients that take turns in one file with records of 47008 bytes, ours in each mode, with
    /// staging and with aligned records, and other servers
    IorHard(IorHardArgs),
    /// WRITEs out of order: one stream shuffled within each k, in each I/O mode, with reserve, order, both and neither
    OutOfOrder(OutOfOrderArgs),
    /// The mode that the server chooses for itself beside each fixed one, at a dozen workloads, with little memory
    Auto(AutoArgs),
    /// What the sources claim, each by a workload of `penstock bench`: writes reports, pictures and a page
    Claims {
        /// Write into this directory
        #[arg(long, default_value = "docs/results/claims")]
        out: PathBuf,
        /// Make the files of the measurements in this directory
        #[arg(long, default_value = "/var/tmp")]
        directory: PathBuf,
        /// Only this workload (may be given more than once)
        #[arg(long)]
        only: Vec<String>,
    },
    /// The speed that the project asks of itself: every bar of its list, and a page that says which are met
    Speed {
        /// Write into this directory; docs/results/speed if all runs are made
        #[arg(long)]
        out: Option<PathBuf>,
        /// Make the files of what is measured on the disk in this directory
        #[arg(long, default_value = "/var/tmp")]
        directory: PathBuf,
        /// Measurements of each figure, of which the median is shown
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Only this run (may be given more than once), and the lines that are made of it
        #[arg(long)]
        only: Vec<String>,
    },
    /// The client: ours, libnfs's utilities, on our server, Ganesha and a responder without I/O
    Client(ClientArgs),
    /// Server and Linux client together: workloads of `penstock bench` in User Mode Linux, beside our own client
    KernelClient {
        /// Only this workload (may be given more than once)
        #[arg(long = "workload", value_name = "NAME")]
        workloads: Vec<String>,
        /// Measurements of each figure, in turn, after one that is thrown away
        #[arg(long, default_value_t = 3)]
        repetitions: usize,
        /// Write everything, all repetitions included, to this file
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// Mirroring to a server: `penstock sync`, and rsync and rclone on a mount of ours
    Sync {
        /// How many small files
        #[arg(long, default_value_t = 100_000)]
        files: usize,
        /// The size of the large file
        #[arg(long, default_value_t = 2.0)]
        gib: f64,
        /// Measurements of each, of which the median is shown
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Write everything, all rounds included, to this file
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// A program that a comparison starts as a process of its own
    #[command(flatten)]
    Part(Part),
}

/// Programs that the comparisons start, each as a process of its own.
#[derive(Subcommand)]
enum Part {
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
        /// Look for the next call for so long before sleeping
        #[arg(long, default_value = "0")]
        busy_poll: BusyPoll,
        /// Answer out of this directory, as a plain program would
        #[arg(long, conflicts_with_all = ["file_bytes", "delay_us", "copied"])]
        files: Option<PathBuf>,
        /// Read and write its files past the page cache
        #[arg(long, requires = "files")]
        direct: bool,
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
        /// How long to look for a reply before sleeping, as 50us
        #[arg(long, default_value_t)]
        busy_poll: BusyPoll,
    },
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
                workloads: Vec::new(),
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
        What::IorHard(arguments) => run_ior_hard(&arguments),
        What::OutOfOrder(arguments) => run_out_of_order(&arguments),
        What::Auto(arguments) => run_auto(&arguments),
        What::Client(arguments) => run_client(&arguments),
        What::Claims {
            out,
            directory,
            only,
        } => {
            claims::run(&claims::Options {
                out,
                directory,
                only,
            })?;
            Ok(ExitCode::SUCCESS)
        }
        What::KernelClient {
            workloads,
            repetitions,
            json,
        } => {
            let options = kernel_client::Options {
                workloads,
                repetitions: rounds(repetitions)?,
            };
            run_kernel_client(&options, json.as_deref())
        }
        What::Speed {
            out,
            directory,
            rounds: count,
            only,
        } => {
            let options = speed::Options::new(out, only, rounds(count)?)?;
            run_speed(&options, &directory)
        }
        What::Sync {
            files,
            gib,
            rounds: count,
            json,
        } => {
            if files > limits::SMALL_FILES_MAX {
                bail!("--files is at most {}", limits::SMALL_FILES_MAX);
            }
            let options = mirror::Options {
                files,
                large_bytes: file_bytes(gib)?,
                rounds: rounds(count)?,
            };
            run_sync(&options, json.as_deref())
        }
        What::Part(part) => run_part(part).map(|()| ExitCode::SUCCESS),
    }
}

/// Does what a comparison has started this process for.
fn run_part(part: Part) -> Result<()> {
    match part {
        Part::Attack {
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
        }
        Part::Move {
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
        }
        Part::Respond {
            port,
            busy_poll,
            files: Some(files),
            direct,
            ..
        } => {
            let told = || files.display().to_string();
            let files = respond::Files::new(&files, direct).with_context(told)?;
            respond::serve_files(port, files, busy_poll)?;
        }
        Part::Respond {
            port,
            file_bytes,
            delay_us,
            copied,
            busy_poll,
            ..
        } => {
            let answers = respond::Answers {
                file_bytes,
                delay: Duration::from_micros(delay_us),
                copied,
                busy_poll,
            };
            respond::serve(port, answers)?;
        }
        Part::Load {
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
            busy_poll,
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
                busy_poll,
            };
            println!("{}", serde_json::to_string(&load::run(&load)?)?);
        }
    }
    Ok(())
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
    if let Some(ended) = supervised(&arguments.directory, None)? {
        return Ok(ended);
    }
    let report = client::run::run(&options)?;
    arguments.results.write(&report, client::page::write)?;
    print!("{}", report.summary().text());
    Ok(ExitCode::SUCCESS)
}

fn run_kernel_client(options: &kernel_client::Options, json: Option<&Path>) -> Result<ExitCode> {
    if !stage::is_inside() {
        if !stage::is_root() {
            bail!("this needs root: it makes namespaces and a file system of its own");
        }
        return Ok(code(stage::enter()?));
    }
    let report = kernel_client::run(options)?;
    if let Some(path) = json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)?;
    }
    print!("{}", report.summary()?.text());
    Ok(ExitCode::SUCCESS)
}

fn run_speed(options: &speed::Options, directory: &Path) -> Result<ExitCode> {
    if let Some(ended) = supervised(directory, Some(speed::FAST_BYTES))? {
        return Ok(ended);
    }
    speed::run(options)?;
    Ok(ExitCode::SUCCESS)
}

fn run_sync(options: &mirror::Options, json: Option<&Path>) -> Result<ExitCode> {
    if !stage::is_inside() {
        if !stage::is_root() {
            bail!("this needs root: it makes namespaces and a file system of its own");
        }
        return Ok(code(stage::enter()?));
    }
    let report = mirror::run(options)?;
    if let Some(path) = json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)?;
    }
    print!("{}", report.summary().text());
    Ok(ExitCode::SUCCESS)
}

fn run_modes(arguments: &ModesArgs) -> Result<ExitCode> {
    let options = arguments.options()?;
    if let Some(ended) = supervised(&arguments.directory, options.fast_bytes())? {
        return Ok(ended);
    }
    let report = modes::run(&options)?;
    arguments.results.write(&report, page::write)?;
    print!("{}", report.summary().text());
    Ok(ExitCode::SUCCESS)
}

fn run_ior_hard(arguments: &IorHardArgs) -> Result<ExitCode> {
    let options = arguments.options()?;
    if let Some(ended) = supervised(&arguments.directory, options.fast_bytes())? {
        return Ok(ended);
    }
    let report = modes::run(&options)?;
    arguments.results.write(&report, ior_hard::page::write)?;
    print!("{}", ior_hard::table::summary(&report).text());
    Ok(ExitCode::SUCCESS)
}

fn run_out_of_order(arguments: &OutOfOrderArgs) -> Result<ExitCode> {
    let options = arguments.options()?;
    if let Some(ended) = supervised(&arguments.directory, options.fast_bytes())? {
        return Ok(ended);
    }
    let report = out_of_order::run(&options)?;
    let write = nfs_bench::out_of_order::page::write;
    arguments.results.write(&report, write)?;
    print!("{}", report.summary().text());
    Ok(ExitCode::SUCCESS)
}

fn run_auto(arguments: &AutoArgs) -> Result<ExitCode> {
    let options = arguments.options()?;
    if let Some(ended) = supervised(&arguments.directory, options.fast_bytes())? {
        return Ok(ended);
    }
    let report = auto::run(&options)?;
    arguments
        .results
        .write(&report, nfs_bench::auto::page::write)?;
    print!("{}", report.summary().text());
    Ok(ExitCode::SUCCESS)
}

/// How the run ended that this process started in namespaces of its own; `None` in that run.
///
/// # Errors
/// This is not root's process, or the namespaces cannot be made.
fn supervised(directory: &Path, fast_bytes: Option<u64>) -> Result<Option<ExitCode>> {
    if stage::is_inside() {
        return Ok(None);
    }
    if !stage::is_root() {
        bail!("this needs root: it makes namespaces, memory cgroups and a file system of its own");
    }
    let status = supervise::run_inside(directory, fast_bytes)?;
    Ok(Some(code(status)))
}

/// How this program ends, as it ended inside its namespaces.
fn code(status: ExitStatus) -> ExitCode {
    match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
