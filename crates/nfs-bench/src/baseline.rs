//! The baseline: the everyday calls, ours and Ganesha in turn, in one run.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::counters::{self, Memory};
use crate::pin;
use crate::pingpong;
use crate::report::{Header, Report, Row, commit};
use crate::sample::Sample;
use crate::servers::{Kind, Server, ganesha_is_installed};
use crate::stage::{Stage, output};
use crate::workload::Workload;

/// Calls in flight that are measured: the latency of one, and the rate of many.
const DEPTHS: [usize; 2] = [1, 32];
/// Calls over which system calls are counted: strace makes each some ten times slower.
const TRACED_CALLS: u64 = 2000;
/// Calls of the short and the long run under callgrind; their difference leaves start-up and set-up out.
const PROFILED_CALLS: (u64, u64) = (1000, 3000);

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of one measurement.
    pub seconds: f64,
    /// Measurements of each.
    pub rounds: usize,
    /// Exported instead of a new file system in memory.
    pub directory: Option<PathBuf>,
    /// Leave the system calls and instructions out.
    pub quick: bool,
    /// Which servers; all if empty.
    pub servers: Vec<Kind>,
    /// Only workloads whose name contains this.
    pub filter: Option<String>,
}

/// Runs everything; prints what it is doing to standard error.
///
/// # Errors
/// Not inside the namespaces of [`crate::stage`], or our own server does not start.
pub fn run(options: &Options) -> Result<Report> {
    let stage = Stage::set(options.directory.as_deref())?;
    let mut missing = Vec::new();
    let kinds = kinds(&options.servers, &mut missing);
    let cores = pin::cores();
    let mut servers = Vec::new();
    for kind in kinds {
        servers.push(Server::start(kind, &stage, cores.1, &[])?);
    }
    let rest = memories(&servers)?;
    let mut rows = rows(&servers, options);
    let mut floors: Vec<(Workload, Vec<Sample>)> = [Workload::Null, Workload::Getattr]
        .map(|w| (w, Vec::new()))
        .into();
    let duration = Duration::from_secs_f64(options.seconds);
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        measure_round(&servers, &mut rows, options, cores)?;
        for (workload, samples) in &mut floors {
            let (request, reply) = workload.message_bytes();
            samples.push(pingpong::run(request, reply, cores, duration)?);
        }
    }
    let load = memories(&servers)?;
    if options.quick {
        missing.push("system calls and instructions (--quick)".to_owned());
    } else {
        count_system_calls(&servers, &stage, &mut rows, cores.0, &mut missing);
        drop(servers);
        count_instructions(&stage, &mut rows, cores, &mut missing);
    }
    let memory = rest
        .into_iter()
        .zip(load)
        .map(|((kind, rest), (_, load))| (kind, rest, load))
        .collect();
    let header = header(&stage, options, cores)?;
    Ok(Report {
        header,
        floors,
        rows,
        memory,
        missing,
    })
}

/// What takes part; Ganesha is installed if it is missing and we may.
fn kinds(wanted: &[Kind], missing: &mut Vec<String>) -> Vec<Kind> {
    let mut kinds = Kind::ALL.to_vec();
    kinds.retain(|kind| wanted.is_empty() || wanted.contains(kind));
    if !kinds.contains(&Kind::Ganesha) || ganesha_is_installed() {
        return kinds;
    }
    eprintln!("installing NFS-Ganesha");
    let packages = [
        "nfs-ganesha",
        "nfs-ganesha-vfs",
        "rpcbind",
        "strace",
        "valgrind",
        "xfsprogs",
    ];
    let install = [
        &["install", "-y", "-q", "--no-install-recommends"],
        packages.as_slice(),
    ]
    .concat();
    let installed = output("apt-get", &["update", "-q"]).and_then(|_| output("apt-get", &install));
    if let Err(error) = installed {
        missing.push(format!("NFS-Ganesha: {error:#}"));
        kinds.retain(|kind| *kind != Kind::Ganesha);
    }
    kinds
}

fn header(stage: &Stage, options: &Options, cores: (usize, usize)) -> Result<Header> {
    let ganesha = output("dpkg-query", &["-W", "-f=${Version}", "nfs-ganesha"]).ok();
    Ok(Header {
        kernel: output("uname", &["-sr"])?,
        cpus: std::thread::available_parallelism()?.get(),
        commit: commit(),
        file_system: stage.file_system.clone(),
        ganesha,
        seconds: options.seconds,
        rounds: options.rounds,
        cores,
    })
}

fn memories(servers: &[Server]) -> Result<Vec<(Kind, Memory)>> {
    servers
        .iter()
        .map(|s| Ok((s.kind, Memory::of(s.pid)?)))
        .collect()
}

fn rows(servers: &[Server], options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    let wanted = |w: &Workload| {
        options
            .filter
            .as_deref()
            .is_none_or(|f| w.name().contains(f))
    };
    for workload in Workload::ALL.into_iter().filter(wanted) {
        for depth in DEPTHS {
            rows.extend(servers.iter().map(|server| Row {
                workload,
                depth,
                server: server.kind,
                samples: Vec::new(),
                cpu_us: Vec::new(),
                system_calls: None,
                instructions: None,
            }));
        }
    }
    rows
}

fn find(servers: &[Server], kind: Kind) -> Result<&Server> {
    servers
        .iter()
        .find(|s| s.kind == kind)
        .context("a row of a server that was not started")
}

fn measure_round(
    servers: &[Server],
    rows: &mut [Row],
    options: &Options,
    cores: (usize, usize),
) -> Result<()> {
    for row in rows {
        let server = find(servers, row.server)?;
        let amount = ["--seconds".to_owned(), options.seconds.to_string()];
        let before = counters::cpu_seconds(server.pid)?;
        let sample = load(server, row.workload, row.depth, &amount, cores.0)?;
        let spent = counters::cpu_seconds(server.pid)? - before;
        row.cpu_us.push(spent * 1e6 / sample.calls.max(1) as f64);
        eprintln!(
            "  {:<22} depth {:<3} {:<19} {:>9.0} calls/s",
            row.workload.name(),
            row.depth,
            row.server.name(),
            sample.rate()
        );
        row.samples.push(sample);
    }
    Ok(())
}

/// One measurement in a process of its own, so that no state of the last one is left.
fn load(
    server: &Server,
    workload: Workload,
    depth: usize,
    amount: &[String],
    cpu: usize,
) -> Result<Sample> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("load")
        .args(["--workload", workload.name(), "--depth", &depth.to_string()]);
    command.arg("--nfs").arg(server.place.nfs.to_string());
    command.arg("--mount").arg(server.place.mount.to_string());
    command
        .args(["--export", &server.place.export, "--cpu", &cpu.to_string()])
        .args(amount);
    run_child(&mut command)
        .with_context(|| format!("{} against {}", workload.name(), server.kind.name()))
}

fn run_child(command: &mut Command) -> Result<Sample> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("starting the load")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("the load printed no sample")
}

fn count_system_calls(
    servers: &[Server],
    stage: &Stage,
    rows: &mut [Row],
    cpu: usize,
    missing: &mut Vec<String>,
) {
    eprintln!("counting system calls");
    let amount = ["--calls".to_owned(), TRACED_CALLS.to_string()];
    for row in rows {
        let counted = find(servers, row.server).and_then(|server| {
            let work = || load(server, row.workload, row.depth, &amount, cpu);
            counters::system_calls(server.pid, &stage.root, work)
        });
        match counted {
            Ok((sample, calls)) => {
                let each = |n: u64| n as f64 / sample.calls.max(1) as f64;
                row.system_calls =
                    Some(calls.into_iter().map(|(name, n)| (name, each(n))).collect());
            }
            Err(error) => {
                missing.push(format!("system calls: {error:#}"));
                return;
            }
        }
    }
}

/// Instructions of the whole process for a short and a long run: the difference is what the calls cost.
fn count_instructions(
    stage: &Stage,
    rows: &mut [Row],
    cores: (usize, usize),
    missing: &mut Vec<String>,
) {
    eprintln!("counting instructions");
    for row in rows.iter_mut().filter(|row| row.depth == 1) {
        match instructions_per_call(stage, row, cores) {
            Ok(each) => row.instructions = Some(each),
            Err(error) => {
                let (server, workload) = (row.server.name(), row.workload.name());
                missing.push(format!("instructions of {server}, {workload}: {error:#}"));
            }
        }
    }
}

fn instructions_per_call(stage: &Stage, row: &Row, cores: (usize, usize)) -> Result<f64> {
    let handles = stage.root.join(format!("handles.{}", row.server.name()));
    let run = |wrapper: &[String], calls: u64| {
        let server = Server::start(row.server, stage, cores.1, wrapper)?;
        let mut amount = vec!["--calls".to_owned(), calls.to_string()];
        amount.extend(["--handles".to_owned(), handles.display().to_string()]);
        load(&server, row.workload, row.depth, &amount, cores.0)
    };
    // valgrind does not know every system call of set-up (openat2), so that is done without it.
    if !handles.exists() {
        run(&[], 1)?;
    }
    let count = |calls: u64| {
        let (wrapper, out) = counters::callgrind(&stage.root, &calls.to_string());
        run(&wrapper, calls)?;
        counters::instructions(&out)
    };
    let (short, long) = PROFILED_CALLS;
    let (first, second) = (count(short)?, count(long)?);
    Ok(second.saturating_sub(first) as f64 / (long - short) as f64)
}
