//! A storm: every kind of attack at once, from many hosts, and what becomes of the server and a polite client
//! second by second.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use nfs_lab::{Memory, Running};
use rustix::process::Signal;
use serde::Serialize;

use super::attacker::Job;
use super::failures::Failures;
use super::kind::Attack;
use super::polite::{Asked, Heard, Polite};
use super::run::{attack, on_core_behind_others, start};
use super::storm_report::{Header, Report, Row};
use crate::baseline::run::Kind;
use crate::pin::pin_thread;
use crate::servers::Server;
use crate::stage::Stage;
use crate::turns::{Machine, Turns};

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of the storm in seconds.
    pub seconds: u64,
    /// How many connections the silent and half-open attackers that the export admits want together.
    pub connections: usize,
    /// The servers, one after another; an empty list means ours with io_uring.
    pub servers: Vec<Kind>,
}

/// Why calls of one kind failed in one phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// When.
    pub phase: Phase,
    /// What was asked for.
    pub asked: Asked,
    /// The error in words.
    pub reason: String,
    /// How many calls failed for it.
    pub calls: u64,
}

/// The times of a run, of which the storm has the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The polite client alone.
    Before,
    /// The storm.
    During,
    /// The polite client alone again.
    After,
}

/// One second of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Seconds since the run began.
    pub seconds: f64,
    /// Resident memory of the server in bytes.
    pub resident_bytes: u64,
    /// TCP connections of the run, all of the server's among them.
    pub connections: u64,
    /// What the polite client heard, each of [`Asked::ALL`].
    pub heard: Vec<Figures>,
}

/// What one kind of call came to in some time, in milliseconds; zero where no call was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Calls that were answered.
    pub answered: u64,
    /// Calls that failed, or were given up.
    pub failed: u64,
    /// The median of those that were answered.
    pub p50_ms: f64,
    /// Their 99th percentile.
    pub p99_ms: f64,
    /// The longest, and how long the call under way has waited if that is longer.
    pub max_ms: f64,
}

/// The networks of the attackers that the export admits.
const ADMITTED: &str = "127.0.1.0/24";
/// From this many hosts come the silent connections that the export admits, and as many half-open ones: so many
/// that all together may have every place of the server's.
const CROWDS: u8 = 4;
/// Before the storm, and after it: longer than the server takes to look whether memory is to be given back.
pub(super) const REST_SECONDS: [u64; 2] = [5, 25];
/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Runs the storm against each server; says what it is doing on standard error.
///
/// # Errors
/// Not inside the namespaces of [`crate::stage`], or a server does not start.
pub fn run(options: &Options) -> Result<Report> {
    let mut turns = Turns::new();
    let machine = Machine::look()?;
    let stage = Stage::set(None)?;
    pin_thread(machine.cores.0)?;
    let mut rows = Vec::new();
    let servers = match &options.servers[..] {
        [] => &[Kind::PenstockUring][..],
        servers => servers,
    };
    for kind in servers {
        let row = turns.take(
            kind.name(),
            |turn| against(*kind, &stage, options, turn, machine.cores),
            Row::to_string,
        );
        rows.extend(row);
    }
    Ok(Report {
        header: Header {
            machine: turns.on(machine),
            file_system: stage.file_system,
            seconds: options.seconds,
            connections: options.connections,
            run_seconds: turns.seconds(),
        },
        rows,
        missing: turns.missing,
    })
}

fn against(
    kind: Kind,
    stage: &Stage,
    options: &Options,
    turn: usize,
    cores: (usize, usize),
) -> Result<Row> {
    let server = start(kind, ADMITTED, stage, cores.1, turn)?;
    let polite = Polite::start(&server.place)?;
    let mut watch = Watch {
        server: &server,
        polite: &polite,
        began: Instant::now(),
        row: Row::new(kind),
    };
    watch.over(Phase::Before, REST_SECONDS[0])?;
    let attackers = jobs(options.connections)
        .into_iter()
        .enumerate()
        .map(|(at, (kind, from, connections))| {
            let job = Job::on(&server.place, kind, from, connections);
            let said = stage.root.join(format!("storm-{turn}-{at}"));
            attack(on_core_behind_others(cores.0), &job, &said)
        })
        .collect::<Result<Vec<Running>>>()?;
    watch.over(Phase::During, options.seconds)?;
    // All at once: while one ends after the other, the last ones would go on for many seconds.
    for attacker in &attackers {
        attacker.signal(Signal::KILL);
    }
    std::thread::scope(|scope| {
        // To end takes an attacker with thousands of connections a while, and the server has to do with all of
        // them at once: what becomes of the polite client meanwhile belongs to what is looked at.
        scope.spawn(move || drop(attackers));
        watch.over(Phase::After, REST_SECONDS[1])
    })?;
    Ok(watch.row)
}

/// Who attacks, from where, and with how many silent connections.
fn jobs(connections: usize) -> Vec<(Attack, Ipv4Addr, usize)> {
    let mut jobs = Vec::new();
    for (kind, number) in Attack::ALL.into_iter().zip(1..) {
        let (third, hosts) = match kind {
            Attack::IdleConnectionsOfAStranger | Attack::WriteHeadsOfAStranger => (9, 1),
            Attack::IdleConnections | Attack::HalfOpen => (1, CROWDS),
            Attack::WriteHeads
            | Attack::Noise
            | Attack::SlowReaders
            | Attack::Bursts
            | Attack::Names
            | Attack::StableWrites
            | Attack::ReadStream
            | Attack::WriteStream => (1, 1),
        };
        let each = connections / (2 * usize::from(CROWDS));
        let address = |host| Ipv4Addr::new(127, 0, third, 16 * number + host);
        jobs.extend((0..hosts).map(|host| (kind, address(host), each)));
    }
    jobs
}

struct Watch<'a> {
    server: &'a Server,
    polite: &'a Polite,
    began: Instant,
    row: Row,
}

impl Watch<'_> {
    /// Looks every second, so many times.
    fn over(&mut self, phase: Phase, seconds: u64) -> Result<()> {
        let mut sums: Vec<Sum> = Asked::ALL
            .iter()
            .map(|_| Sum::new())
            .collect::<Result<_>>()?;
        let begun = Instant::now();
        for turn in 1..=seconds {
            let next = begun + INTERVAL * u32::try_from(turn)?;
            // SLEEP: the pace of the looks.
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            let memory = Memory::of(self.server.pid).context("the server has died")?;
            let heard = self.polite.heard();
            for (sum, heard) in sums.iter_mut().zip(&heard) {
                sum.add(heard)?;
            }
            self.row.points.push(Point {
                seconds: self.began.elapsed().as_secs_f64(),
                resident_bytes: memory.resident_bytes,
                connections: tcp_connections()?,
                heard: heard.iter().map(Figures::of).collect(),
            });
        }
        let figures = sums.iter().map(|sum| Figures::of(&sum.0)).collect();
        self.row.phases.push((phase, figures));
        for (asked, sum) in Asked::ALL.into_iter().zip(&sums) {
            self.row.note_failures(phase, asked, &sum.0.failed);
        }
        Ok(())
    }
}

/// What came of one kind of call in a phase so far.
struct Sum(Heard);

impl Sum {
    fn new() -> Result<Self> {
        Ok(Self(Heard {
            took_us: Histogram::new(3)?,
            failed: Failures::default(),
            waiting_us: 0,
        }))
    }

    fn add(&mut self, heard: &Heard) -> Result<()> {
        self.0.took_us.add(&heard.took_us)?;
        self.0.failed.merge(&heard.failed);
        self.0.waiting_us = self.0.waiting_us.max(heard.waiting_us);
        Ok(())
    }
}

impl Figures {
    fn of(heard: &Heard) -> Self {
        let ms = |us: u64| us as f64 / 1e3;
        let took = &heard.took_us;
        Self {
            answered: took.len(),
            failed: heard.failed.count(),
            p50_ms: ms(took.value_at_quantile(0.5)),
            p99_ms: ms(took.value_at_quantile(0.99)),
            max_ms: ms(took.max().max(heard.waiting_us)),
        }
    }
}

/// The TCP connections within this network namespace, both ends of each on this machine.
fn tcp_connections() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/net/sockstat")?;
    let sockets = text
        .lines()
        .find_map(|line| line.strip_prefix("TCP: inuse "))
        .and_then(|rest| rest.split(' ').next())
        .context("/proc/net/sockstat has no TCP line")?;
    Ok(sockets.parse::<u64>()? / 2)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_kind_takes_part_and_each_attacker_is_a_host_of_its_own() {
        let jobs = jobs(10_000);
        for kind in Attack::ALL {
            assert!(jobs.iter().any(|job| job.0 == kind), "{}", kind.name());
        }
        let hosts: HashSet<_> = jobs.iter().map(|job| job.1).collect();
        assert_eq!(hosts.len(), jobs.len());
        let admitted = jobs.iter().filter(|job| job.1.octets()[2] == 1);
        let silent = |job: &&(Attack, Ipv4Addr, usize)| {
            matches!(job.0, Attack::IdleConnections | Attack::HalfOpen)
        };
        assert_eq!(
            admitted.filter(silent).map(|job| job.2).sum::<usize>(),
            10_000
        );
    }

    #[test]
    fn a_call_under_way_counts_for_as_long_as_it_has_waited() {
        let mut sum = Sum::new().unwrap();
        let mut heard = Sum::new().unwrap().0;
        heard.took_us.record(1000).unwrap();
        heard.waiting_us = 7000;
        heard.failed.add("reset".to_owned());
        sum.add(&heard).unwrap();
        let figures = Figures::of(&sum.0);
        assert_eq!((figures.answered, figures.failed), (1, 1));
        assert!((figures.max_ms - 7.0).abs() < f64::EPSILON);
        assert!((figures.p50_ms - 1.0).abs() < 0.01);
    }
}
