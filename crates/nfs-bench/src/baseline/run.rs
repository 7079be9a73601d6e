//! A whole run of the baseline: the servers, the rounds, and what is counted after them.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use nfs_lab::Memory;
use nfs_lab::{Engine, output_within};
use serde::Serialize;

use super::pingpong;
use super::report::{Header, Report, Row};
use super::workload::Workload;
use crate::counters;
use crate::sample::Sample;
use crate::servers::{
    Penstock, Program, Responder, Server, Start, WITHOUT_GANESHA, ganesha_is_installed,
};
use crate::stage::{Stage, output};
use crate::turns::{Machine, Turns};

/// Calls in flight that are measured: the latency of one, and the rate of many.
const DEPTHS: [usize; 2] = [1, 32];
/// A single load takes no longer, also under callgrind.
const LOAD_DEADLINE: Duration = Duration::from_secs(600);
/// Calls over which system calls are counted: strace makes each some ten times slower.
const TRACED_CALLS: u64 = 2000;
/// Calls of the short and the long run under callgrind; their difference leaves start-up and set-up out.
const PROFILED_CALLS: (u64, u64) = (1000, 3000);

/// Settings of a run of the baseline.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of one measurement in seconds.
    pub seconds: f64,
    /// Number of rounds: each row is measured once in every round.
    pub rounds: usize,
    /// A directory to export instead of a new file system in memory.
    pub directory: Option<PathBuf>,
    /// Whether to leave out the count of system calls and instructions.
    pub quick: bool,
    /// The servers to measure; an empty list means [`Kind::USUAL`].
    pub servers: Vec<Kind>,
    /// Measure only workloads whose name contains this.
    pub filter: Option<String>,
    /// Measure only these workloads; an empty list means all of them.
    pub workloads: Vec<Workload>,
}

/// A server of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Ours, with the io_uring engine.
    PenstockUring,
    /// Ours, with the io_uring engine and busy polling, asked by a load that polls, too.
    PenstockPolling,
    /// Ours, with the thread-pool engine.
    PenstockThreads,
    /// NFS-Ganesha with its VFS back end, from the distribution's packages.
    Ganesha,
    /// A responder that touches no file: what the load and loopback can do at most.
    Responder,
    /// The same with busy polling, asked by a load that polls, too.
    ResponderPolling,
    /// The responder as a plain program, which reads and writes files and has nothing else to do.
    Plain,
}

impl Kind {
    /// The servers that are measured unless others are named, in the order in which they take turns.
    pub const USUAL: [Self; 3] = [Self::PenstockUring, Self::PenstockThreads, Self::Ganesha];

    /// The server's name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::PenstockUring => "penstock (uring)",
            Self::PenstockPolling => "penstock (polling)",
            Self::PenstockThreads => "penstock (threads)",
            Self::Ganesha => "ganesha",
            Self::Responder => "responder",
            Self::ResponderPolling => "responder (polling)",
            Self::Plain => "plain program",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::PenstockUring => 20_491,
            Self::PenstockThreads => 20_492,
            Self::Ganesha => 20_493,
            // Ganesha has the port behind its own, too.
            Self::Responder => 20_495,
            Self::PenstockPolling => 20_496,
            Self::ResponderPolling => 20_497,
            Self::Plain => 20_498,
        }
    }

    /// How long the server, and its load, look for more before they sleep, if they do.
    pub(crate) const fn busy_poll(self) -> Option<&'static str> {
        match self {
            Self::PenstockPolling | Self::ResponderPolling => Some("50us"),
            Self::PenstockUring
            | Self::PenstockThreads
            | Self::Ganesha
            | Self::Responder
            | Self::Plain => None,
        }
    }

    /// Whether it has an answer of its own to these calls: the responder knows NFSv3 alone, and a plain program differs from
    /// it in what moves data.
    fn answers(self, workload: Workload) -> bool {
        match self {
            Self::Responder | Self::ResponderPolling => !workload.is_v4(),
            Self::Plain => !workload.is_v4() && workload.moves_data(),
            Self::PenstockUring | Self::PenstockPolling | Self::PenstockThreads | Self::Ganesha => {
                true
            }
        }
    }

    /// The program that serves, with the settings of the baseline.
    pub(crate) fn program(self) -> Program<'static> {
        let ours = |engine| {
            Program::Penstock(Penstock {
                engine: Some(engine),
                pseudo: "/",
                busy_poll: self.busy_poll(),
                ..Penstock::default()
            })
        };
        match self {
            Self::PenstockUring | Self::PenstockPolling => ours(Engine::Uring),
            Self::PenstockThreads => ours(Engine::Threads),
            Self::Ganesha => Program::Ganesha,
            Self::Plain => Program::Plain { is_direct: false },
            Self::Responder | Self::ResponderPolling => Program::Responder(Responder {
                file_bytes: 1 << 40,
                busy_poll: self.busy_poll(),
                ..Responder::default()
            }),
        }
    }
}

/// Measures all workloads, servers and rounds; says what it is doing on standard error.
///
/// # Errors
/// Not inside the namespaces of [`crate::stage`], or our own server does not start.
pub fn run(options: &Options) -> Result<Report> {
    let mut turns = Turns::new();
    let machine = Machine::look()?;
    let cores = machine.cores;
    let stage = Stage::set(options.directory.as_deref())?;
    let kinds = kinds(&options.servers, &mut turns.missing);
    let mut servers = Vec::new();
    for kind in kinds {
        servers.push((kind, start(kind, &stage, cores.1, &[])?));
    }
    let rest = memories(&servers)?;
    let mut rows = rows(&servers, options);
    let mut floors: Vec<(Workload, Vec<Sample>)> = [Workload::Null, Workload::Getattr]
        .map(|w| (w, Vec::new()))
        .into();
    let duration = Duration::from_secs_f64(options.seconds);
    for round in 1..=options.rounds {
        turns.round(round, options.rounds);
        for row in &mut rows {
            measure(
                find(&servers, row.server)?,
                row,
                options,
                cores.0,
                &mut turns,
            );
        }
        for (workload, samples) in &mut floors {
            let (request, reply) = workload.message_bytes();
            samples.push(pingpong::run(request, reply, cores, duration)?);
        }
    }
    let load = memories(&servers)?;
    if options.quick {
        let left_out = "system calls and instructions (--quick)";
        turns.missing.push(left_out.to_owned());
    } else {
        count_system_calls(&servers, &stage, &mut rows, cores.0, &mut turns.missing);
        drop(servers);
        count_instructions(&stage, &mut rows, cores, &mut turns.missing);
    }
    let both = rest.into_iter().zip(load);
    let memory = both.map(|((kind, rest), (_, load))| (kind, rest, load));
    let header = Header {
        machine: turns.on(machine),
        file_system: stage.file_system,
        ganesha: output("dpkg-query", &["-W", "-f=${Version}", "nfs-ganesha"]).ok(),
        seconds: options.seconds,
        rounds: options.rounds,
        run_seconds: turns.seconds(),
    };
    Ok(Report {
        header,
        floors,
        rows,
        memory: memory.collect(),
        missing: turns.missing,
    })
}

/// Starts a server on `cpu` with a directory of its own below `stage.exports`; `wrapper` is put before its
/// command (for callgrind).
fn start(kind: Kind, stage: &Stage, cpu: usize, wrapper: &[String]) -> Result<Server> {
    let port = kind.port();
    let start = Start {
        name: kind.name(),
        program: kind.program(),
        directory: &stage.exports.join(format!("export-{port}")),
        work: &stage.root.join(format!("server-{port}")),
        port,
        cpu,
        wrapper,
    };
    start.start()
}

/// The servers that take part: without Ganesha where it is not installed.
fn kinds(wanted: &[Kind], missing: &mut Vec<String>) -> Vec<Kind> {
    let mut kinds = match wanted {
        [] => Kind::USUAL.to_vec(),
        _ => wanted.to_vec(),
    };
    if kinds.contains(&Kind::Ganesha) && !ganesha_is_installed() {
        missing.push(WITHOUT_GANESHA.to_owned());
        kinds.retain(|kind| *kind != Kind::Ganesha);
    }
    kinds
}

fn memories(servers: &[(Kind, Server)]) -> Result<Vec<(Kind, Memory)>> {
    let memory = |(kind, server): &(Kind, Server)| Ok((*kind, Memory::of(server.pid)?));
    servers.iter().map(memory).collect()
}

fn rows(servers: &[(Kind, Server)], options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    let wanted = |w: &Workload| {
        let filter = options.filter.as_deref();
        filter.is_none_or(|f| w.name().contains(f))
            && (options.workloads.is_empty() || options.workloads.contains(w))
    };
    for workload in Workload::ALL.into_iter().filter(wanted) {
        for depth in DEPTHS {
            let asked = servers.iter().filter(|(kind, _)| kind.answers(workload));
            rows.extend(asked.map(|(kind, _)| Row {
                workload,
                depth,
                server: *kind,
                samples: Vec::new(),
                cpu_us: Vec::new(),
                system_calls: None,
                instructions: None,
            }));
        }
    }
    rows
}

fn find(servers: &[(Kind, Server)], kind: Kind) -> Result<&Server> {
    let found = servers.iter().find(|(of, _)| *of == kind);
    let (_, server) = found.context("a row of a server that was not started")?;
    Ok(server)
}

fn measure(server: &Server, row: &mut Row, options: &Options, cpu: usize, turns: &mut Turns) {
    let mut amount = vec!["--seconds".to_owned(), options.seconds.to_string()];
    let polls = row.server.busy_poll();
    amount.extend(polls.map(|time| format!("--busy-poll={time}")));
    let measured = turns.take(
        &row.label(),
        |_| {
            let before = counters::cpu_seconds(server.pid)?;
            let sample = load(server, row.workload, row.depth, &amount, cpu)?;
            let spent = counters::cpu_seconds(server.pid)? - before;
            Ok((sample, spent))
        },
        |(sample, _)| format!("{:>9.0} calls/s", sample.rate()),
    );
    if let Some((sample, spent)) = measured {
        row.cpu_us.push(spent * 1e6 / sample.calls.max(1) as f64);
        row.samples.push(sample);
    }
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
    let printed = output_within(&mut command, LOAD_DEADLINE)?;
    serde_json::from_slice(&printed).context("the load printed no sample")
}

fn count_system_calls(
    servers: &[(Kind, Server)],
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
        let server = start(row.server, stage, cores.1, wrapper)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_answers_a_workload_is_asked_for_it() {
        for kind in [Kind::Responder, Kind::ResponderPolling] {
            assert!(kind.answers(Workload::Getattr));
            assert!(!kind.answers(Workload::Getattr4));
        }
        for kind in [Kind::PenstockUring, Kind::Ganesha] {
            assert!(kind.answers(Workload::Getattr) && kind.answers(Workload::Getattr4));
        }
    }
}
