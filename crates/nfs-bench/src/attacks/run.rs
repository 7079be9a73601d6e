//! A whole run of the attacks: for each, every server in turn, the polite client before and during it.

use std::fs::{File, read_to_string};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nfs_lab::{Engine, Memory, Running, output_within};

use super::attacker::Job;
use super::kind::{Attack, CONNECTIONS, GREEDY_NETWORK, POLITE};
use super::report::{Header, Report, Row};
use crate::baseline::run::Kind;
use crate::baseline::workload::Workload;
use crate::sample::Sample;
use crate::servers::{
    Penstock, Place, Program, Server, Start, WITHOUT_GANESHA, ganesha_is_installed,
};
use crate::stage::{Stage, output};
use crate::turns::{Machine, Turns};

/// Settings of a run of the attacks.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seconds of each measurement of the polite client.
    pub seconds: f64,
    /// Number of rounds: each attack is run once against each server in every round.
    pub rounds: usize,
    /// The servers to attack; an empty list means all of them.
    pub servers: Vec<Kind>,
    /// Run only attacks whose name contains this.
    pub filter: Option<String>,
}

/// What the polite client does, one call in flight.
pub const POLITE_CALLS: [Workload; 4] = [
    Workload::Null,
    Workload::Getattr,
    Workload::ReadCached,
    Workload::WriteFileSync,
];
/// Files in the exported directory, so that a listing of it is long.
const FILES: usize = 2000;
/// From the beginning of an attack to the first measurement.
const WARM_UP: Duration = Duration::from_secs(3);
/// From the end of an attack to the last look at the server's memory.
const REST: Duration = Duration::from_secs(5);
/// Seconds beyond its length that a measurement may take: a call that waits longer was not answered.
const PATIENCE: Duration = Duration::from_secs(40);

/// Runs the attacks; says what it is doing on standard error.
///
/// # Errors
/// Not inside the namespaces of [`crate::stage`], or our own server does not start.
pub fn run(options: &Options) -> Result<Report> {
    let mut turns = Turns::new();
    let machine = Machine::look()?;
    let stage = Stage::set(None)?;
    let mut kinds = Kind::USUAL.to_vec();
    kinds.retain(|kind| options.servers.is_empty() || options.servers.contains(kind));
    if kinds.contains(&Kind::Ganesha) && !ganesha_is_installed() {
        turns.missing.push(WITHOUT_GANESHA.to_owned());
        kinds.retain(|kind| *kind != Kind::Ganesha);
    }
    let wanted = |attack: &Attack| {
        let filter = options.filter.as_deref();
        filter.is_none_or(|part| attack.name().contains(part))
    };
    let mut rows: Vec<Row> = Attack::ALL
        .into_iter()
        .filter(wanted)
        .flat_map(|attack| kinds.iter().map(move |kind| Row::new(attack, *kind)))
        .collect();
    for round in 1..=options.rounds {
        turns.round(round, options.rounds);
        for row in &mut rows {
            let label = row.label();
            let bout = turns.take(
                &label,
                |turn| bout(row, &stage, options, turn, machine.cores),
                |bout| bout.to_string(),
            );
            row.bouts.extend(bout);
        }
    }
    Ok(Report {
        header: Header {
            machine: turns.on(machine),
            file_system: stage.file_system,
            ganesha: output("dpkg-query", &["-W", "-f=${Version}", "nfs-ganesha"]).ok(),
            seconds: options.seconds,
            rounds: options.rounds,
            run_seconds: turns.seconds(),
        },
        rows,
        missing: turns.missing,
    })
}

/// What one attack on one server came to.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Bout {
    /// The polite client's calls, of each kind: before the attack, and during it.
    /// `None` where a call was not answered in time.
    pub polite: Vec<(Workload, Option<Sample>, Option<Sample>)>,
    /// The server's memory before the attack.
    pub rest: Memory,
    /// The server's memory at the end of the attack.
    pub attacked: Memory,
    /// The server's memory some seconds after the attack.
    pub after: Memory,
    /// Bytes a second that the attacker has moved; of silent connections how many were open at the end, divided
    /// by the seconds; of names and stable WRITEs calls a second.
    pub moved_per_second: f64,
}

impl std::fmt::Display for Bout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |sample: &Option<Sample>| {
            sample.map_or("no answer".to_owned(), |s| format!("{:.2}", s.p99_us / 1e3))
        };
        for (workload, before, during) in &self.polite {
            write!(f, "{} {} -> {}, ", workload.name(), ms(before), ms(during))?;
        }
        let mib = self.attacked.resident_bytes >> 20;
        write!(f, "p99 in ms; {mib} MiB")
    }
}

/// Starts the server, and measures the polite client without and with the attack.
fn bout(
    row: &Row,
    stage: &Stage,
    options: &Options,
    turn: usize,
    cores: (usize, usize),
) -> Result<Bout> {
    let server = start(row.server, GREEDY_NETWORK, stage, cores.1, turn)?;
    let measure = || -> Result<Vec<Option<Sample>>> {
        let calls = POLITE_CALLS.into_iter();
        calls
            .map(|workload| polite(&server.place, workload, options.seconds, cores.0))
            .collect()
    };
    let before = measure()?;
    let rest = Memory::of(server.pid)?;
    let said = stage.root.join(format!("attack-{turn}"));
    let begun = Instant::now();
    let job = Job::on(&server.place, row.attack, row.attack.from(), CONNECTIONS);
    let attacker = attack(on_core_behind_others(cores.0), &job, &said)?;
    // SLEEP: an attack has to be under way when the measurement begins.
    std::thread::sleep(WARM_UP);
    let during = measure()?;
    let attacked = Memory::of(server.pid)?;
    drop(attacker);
    let seconds = begun.elapsed().as_secs_f64();
    let moved = read_to_string(&said)?;
    // SLEEP: a server gives memory back in its own time.
    std::thread::sleep(REST);
    let after = Memory::of(server.pid)?;
    let both = before.into_iter().zip(during);
    let polite = POLITE_CALLS.into_iter().zip(both);
    Ok(Bout {
        polite: polite.map(|(w, (b, d))| (w, b, d)).collect(),
        rest,
        attacked,
        after,
        moved_per_second: last_figure(&moved) / seconds,
    })
}

fn last_figure(said: &str) -> f64 {
    let last = said.lines().last().and_then(|line| line.parse().ok());
    last.unwrap_or(0.0)
}

/// Starts a server that exports a directory with many files, also to `neighbours`.
pub(super) fn start(
    kind: Kind,
    neighbours: &str,
    stage: &Stage,
    cpu: usize,
    turn: usize,
) -> Result<Server> {
    let ours = |engine| {
        Program::Penstock(Penstock {
            engine: Some(engine),
            pseudo: "/",
            neighbours: Some(neighbours),
            busy_poll: kind.busy_poll(),
            ..Penstock::default()
        })
    };
    let program = match kind {
        Kind::PenstockUring | Kind::PenstockPolling => ours(Engine::Uring),
        Kind::PenstockThreads => ours(Engine::Threads),
        Kind::Ganesha | Kind::Responder | Kind::ResponderPolling | Kind::Plain => kind.program(),
    };
    let directory = stage.exports.join(format!("export-{turn}"));
    std::fs::create_dir_all(&directory)?;
    for file in 0..FILES {
        File::create(directory.join(format!("one-of-many-files-{file}")))?;
    }
    // A port for each turn: the connections of the last one linger.
    let port = 21_000 + u16::try_from(turn * 2)?;
    let start = Start {
        name: kind.name(),
        program,
        directory: &directory,
        work: &stage.root.join(format!("server-{turn}")),
        port,
        cpu,
        wrapper: &[],
    };
    start.start()
}

/// The beginning of an attacker's command: it gives way to the polite client, which is to wait for the server
/// and not for the attackers on its own core.
pub(super) fn on_core_behind_others(cpu: usize) -> Command {
    let mut command = Command::new("chrt");
    command.args(["--idle", "0", "taskset", "-c", &cpu.to_string()]);
    command
}

/// Starts the attacker with the words of `command` before its own; its figures go to the file `said`.
pub(super) fn attack(mut command: Command, job: &Job, said: &Path) -> Result<Running> {
    command
        .arg(std::env::current_exe()?)
        .args(["attack", "--attack", job.attack.name()])
        .args(["--nfs", &job.nfs.to_string()])
        .args(["--mount", &job.mount.to_string()])
        .args(["--export", &job.export])
        .args(["--from", &job.from.to_string()])
        .args(["--connections", &job.connections.to_string()])
        .stdin(Stdio::null())
        .stdout(File::create(said)?);
    Running::start(&mut command)
}

/// The polite client's calls of one kind; `None` where one was not answered.
fn polite(place: &Place, workload: Workload, seconds: f64, cpu: usize) -> Result<Option<Sample>> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["load", "--workload", workload.name()])
        .args(["--seconds", &seconds.to_string(), "--cpu", &cpu.to_string()])
        .args(["--nfs", &place.nfs.to_string()])
        .args(["--mount", &place.mount.to_string()])
        .args(["--export", &place.export, "--from", &POLITE.to_string()]);
    let within = Duration::try_from_secs_f64(seconds)? + PATIENCE;
    match output_within(&mut command, within) {
        Ok(printed) => {
            let sample = serde_json::from_slice(&printed);
            sample.map(Some).context("the load printed no sample")
        }
        Err(error) if error.to_string().contains("no such program") => bail!(error),
        Err(error) => {
            eprintln!("    {}: {error:#}", workload.name());
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attackers_last_figure_counts() {
        assert!((last_figure("1\n20\n300\n") - 300.0).abs() < f64::EPSILON);
        assert!(last_figure("").abs() < f64::EPSILON);
    }
}
