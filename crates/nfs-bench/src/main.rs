//! `nfs-bench`, started by `cargo xtask bench`: parses, calls, prints.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use nfs_bench::baseline::{self, Options};
use nfs_bench::limits;
use nfs_bench::load::{self, Amount, Load};
use nfs_bench::servers::Kind;
use nfs_bench::stage;
use nfs_bench::workload::Workload;

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
            };
            run_baseline(&options, json)
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
            };
            println!("{}", serde_json::to_string(&load::run(&load)?)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn run_baseline(options: &Options, json: bool) -> Result<ExitCode> {
    if options.rounds == 0 || options.rounds > limits::ROUNDS_MAX {
        bail!("--rounds is 1 to {}", limits::ROUNDS_MAX);
    }
    if !stage::is_inside() {
        if !stage::is_root() {
            bail!(
                "the baseline needs root: it makes namespaces and a file system of its own. Without root, start a server and use `nfs-bench load`"
            );
        }
        let status = stage::enter()?;
        return Ok(if status.success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    let report = baseline::run(options)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.text());
    }
    Ok(ExitCode::SUCCESS)
}
