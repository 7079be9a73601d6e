//! Programs of two kernel clients and of the server's host lock random ranges of one file, while the server is
//! killed and comes back: nobody writes where somebody else has a lock, and all go on.
//!
//! The programs of the host have their locks from the host's kernel. Those that they hold outlive the server; but
//! while it is away, nothing keeps them from a range that a client has, so they take nothing new until the grace
//! period is over.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::ValueEnum as _;
use nfs_lab::{Heard, Lines, Running, Server, test_binary};
use rustix::fs::{FlockOperation, flock};

use super::{Bed, CLIENTS, Client, make};
use crate::guest::ranges::{Kind, LENGTH};
use crate::host::Context;

/// Programs in each guest: at most kills one of them holds something.
const PROGRAMS: u64 = 2;
/// The programs on the host: each kind of lock.
const LOCAL: [Kind; 2] = [Kind::Process, Kind::OpenFile];
/// Locks that each program gets after a restart before the next kill.
const LOCKS_MIN: u64 = 10;
/// How long that may take.
const PROGRESS_DEADLINE: Duration = Duration::from_secs(90);
/// Between two kills of the long form.
const KILL_EACH: Duration = Duration::from_secs(30);
/// What a kill and what follows take at most, and the boot of a guest.
const ROUND_DEADLINE: Duration = Duration::from_secs(200);

pub(in super::super) fn run(context: &Context) -> Result<String> {
    let (kills, each) = match (context.quick, context.full) {
        (true, _) => (2, Duration::ZERO),
        (_, true) => (20, KILL_EACH),
        _ => (4, Duration::ZERO),
    };
    let bed = Bed::new(context)?;
    let storm = Storm {
        bed: &bed,
        file: bed.export.join("ranges"),
        gate: context.lab.dir.join("gate"),
        enough: context.lab.dir.join("enough"),
        tally: Tally::default(),
        within: ROUND_DEADLINE * (kills + 1),
    };
    fs::write(&storm.file, vec![0; usize::try_from(LENGTH)?])?;
    make(&storm.gate)?;
    let mut server = bed.start()?;
    std::thread::scope(|scope| {
        let storm = &storm;
        let guests = CLIENTS
            .iter()
            .map(|client| scope.spawn(|| storm.guest(client)));
        let locals = LOCAL.iter().map(|kind| scope.spawn(|| storm.local(*kind)));
        let programs: Vec<_> = guests.chain(locals).collect();
        let outcome = storm.blow(&mut server, kills, each);
        make(&storm.enough)?;
        // What a program has to say comes first: that the others do not get on may be the consequence.
        let programs: Vec<_> = programs.into_iter().map(joined).collect();
        programs.into_iter().collect::<Result<()>>()?;
        outcome
    })?;
    let locks: u64 = storm.tally.counts().values().sum();
    let programs = storm.tally.counts().len();
    bed.end(server)?;
    Ok(format!("{kills} kills, {programs} programs, {locks} locks"))
}

fn joined(thread: ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    thread.join().map_err(|_| anyhow!("it panicked"))?
}

/// What all programs and those who end the server share.
struct Storm<'a> {
    bed: &'a Bed<'a>,
    /// The file whose ranges are locked, on the server's disk.
    file: PathBuf,
    /// Locked as a whole while programs of the host take no new locks.
    gate: PathBuf,
    enough: PathBuf,
    tally: Tally,
    within: Duration,
}

impl Storm<'_> {
    /// Programs in a guest.
    fn guest(&self, client: &Client) -> Result<()> {
        let _ended = self.tally.ends_with();
        let mut script = String::new();
        for number in 0..PROGRAMS {
            let name = format!("{}-{number}", client.name);
            let words = self.words(&name, &LOCAL[number as usize % LOCAL.len()]);
            script += &format!(
                "$T guest --results $R ranges /mnt/nfs/ranges --past-cache {} &\n",
                words.join(" ")
            );
        }
        let bed = self.bed;
        bed.guest(client, &(script + "wait\n"), self.within, |line| {
            self.tally.hear(line)
        })?;
        Ok(())
    }

    /// A program on the host.
    fn local(&self, kind: Kind) -> Result<()> {
        let _ended = self.tally.ends_with();
        let name = format!("host-{}", word(kind));
        let dir = &self.bed.context.lab.dir;
        let results = dir.join(format!("{name}-results"));
        let mut lines = Lines::new(&results)?;
        let mut command = Command::new(test_binary(dir)?);
        command.arg("guest").arg("--results").arg(&results);
        command.arg("ranges").arg(&self.file);
        command.args(self.words(&name, &kind)).arg("--gate");
        let mut program = Running::start(command.arg(&self.gate).stdin(Stdio::null()))?;
        let deadline = Instant::now() + self.within;
        loop {
            match lines.hear(&mut program, deadline)? {
                Heard::Line(line) => self.tally.hear(&line)?,
                Heard::Ended => break,
                Heard::Late => bail!("{name} does not end"),
            }
        }
        let passed = lines.text()?.contains(&format!("ok ranges/{name}"));
        ensure!(passed, "{name} ended without a verdict");
        Ok(())
    }

    /// The words of a program's command line that all have.
    fn words(&self, name: &str, kind: &Kind) -> Vec<String> {
        let owner = self.tally.add(name);
        let seed = self.bed.context.seed.wrapping_add(owner);
        [
            ("name", name.to_owned()),
            ("owner", owner.to_string()),
            ("kind", word(*kind)),
            ("enough", self.enough.display().to_string()),
            ("seed", seed.to_string()),
        ]
        .map(|(option, value)| format!("--{option}={value}"))
        .to_vec()
    }

    /// Kills the server again and again; each time everybody goes on afterwards.
    fn blow(&self, server: &mut Server, kills: u32, each: Duration) -> Result<()> {
        let programs = CLIENTS.len() * PROGRAMS as usize + LOCAL.len();
        self.tally.progress(programs, &BTreeMap::new())?;
        let gate = File::open(&self.gate)?;
        for kill in 1..=kills {
            let begun = Instant::now();
            flock(&gate, FlockOperation::LockExclusive)?;
            let restarted = self.bed.restart(server, CLIENTS.len());
            restarted.with_context(|| format!("kill {kill}"))?;
            let counts = self.tally.counts();
            flock(&gate, FlockOperation::Unlock)?;
            let progress = self.tally.progress(programs, &counts);
            progress.with_context(|| format!("after kill {kill}"))?;
            let rest = each.saturating_sub(begun.elapsed());
            self.tally.wait(rest, |counts| counts.over)?;
        }
        Ok(())
    }
}

fn word(kind: Kind) -> String {
    let value = kind.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// How many locks each program has had, as it tells.
#[derive(Default)]
struct Tally {
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Default)]
struct Counts {
    of: BTreeMap<String, u64>,
    /// One of them has ended, or failed.
    over: bool,
}

impl Tally {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A further program; returns its number, from 1.
    fn add(&self, name: &str) -> u64 {
        let mut counts = self.lock();
        counts.of.insert(name.to_owned(), 0);
        counts.of.len() as u64
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        self.lock().of.clone()
    }

    /// Takes note of a line of a program's results.
    fn hear(&self, line: &str) -> Result<()> {
        ensure!(!line.starts_with("FAIL "), "{line}");
        let mut words = line.split(' ');
        if let (Some("progress"), Some(name), Some(count)) =
            (words.next(), words.next(), words.next())
        {
            self.lock().of.insert(name.to_owned(), count.parse()?);
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Waits until `programs` programs each have had [`LOCKS_MIN`] more locks than in `before`.
    fn progress(&self, programs: usize, before: &BTreeMap<String, u64>) -> Result<()> {
        let got_on = |(name, count): (&String, &u64)| {
            *count >= before.get(name).copied().unwrap_or_default() + LOCKS_MIN
        };
        let all = |counts: &Counts| counts.of.len() == programs && counts.of.iter().all(got_on);
        self.wait(PROGRESS_DEADLINE, |counts| counts.over || all(counts))?;
        let counts = self.lock();
        ensure!(!counts.over, "a program has ended");
        ensure!(
            all(&counts),
            "not everybody gets on: {before:?}, then {:?}",
            counts.of
        );
        Ok(())
    }

    /// Waits until `enough` says so, or the time is over.
    fn wait(&self, within: Duration, enough: impl Fn(&Counts) -> bool) -> Result<()> {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), within, |counts| !enough(counts));
        drop(waited.map_err(|_| anyhow!("a thread panicked"))?);
        Ok(())
    }

    /// Says that a program has ended, when it is dropped.
    fn ends_with(&self) -> Ended<'_> {
        Ended(self)
    }
}

struct Ended<'a>(&'a Tally);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.lock().over = true;
        self.0.changed.notify_all();
    }
}
