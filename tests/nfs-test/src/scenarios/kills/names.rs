//! The Linux kernel's client changes names while its server is killed, over and over: every call answers what
//! it would answer on a local file system, and so does the tree.
//!
//! The client waits some seconds before it connects again, so there are several servers, each with a mount,
//! an export and a port of its own: while one is waited for, the others are killed. Two of three kills come while
//! the flush of a change is held, when the reply to it is owed for certain; the third at any moment.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use fastrand::Rng;
use nfs_lab::{
    FsKind, Guest, GuestOutcome, Hold, Kernel, LoopFs, Mount, Netns, Server, ServerOptions,
};

use super::super::kernel::{failures, verdicts};
use crate::host::Context;
use crate::manifest::{self, Entry};

/// How long the guest may run in all.
const GUEST_DEADLINE: Duration = Duration::from_secs(600);
/// How long it may take until a change comes to a server that has just started: the client connects again
/// within a few seconds.
const CHANGE_DEADLINE: Duration = Duration::from_secs(90);
/// Longest random pause before a kill that may come at any moment, in milliseconds.
const PAUSE_MAX_MS: u64 = 50;
/// The flush at which a kill comes is one of the first this many.
const FLUSHES_MAX: u64 = 40;
/// Number of processes that change names on each mount.
const WORKERS: u64 = 2;
/// The first server's port, in a namespace of its own.
const PORT: u16 = 2049;

/// Trees, and how often the server of each is killed.
fn amount(context: &Context) -> (u16, u64) {
    match (context.quick, context.full) {
        (true, _) => (3, 3),
        (_, true) => (12, 26),
        _ => (6, 6),
    }
}

pub(in crate::scenarios) fn run(context: &Context) -> Result<String> {
    let (trees, kills) = amount(context);
    let export = context.lab.dir.join("export");
    let mut disk = LoopFs::new(FsKind::Xfs, 2048, &export)?;
    let netns = Netns::new()?;
    let mut random = Rng::with_seed(context.seed.wrapping_add(context.lab.engine as u64));
    let mut storms = Vec::new();
    for number in 0..trees {
        storms.push(Storm::new(context, &netns, &export, number, random.fork())?);
    }
    let mounts: Vec<_> = storms
        .iter()
        .map(|storm| Mount::new(&storm.name, "/", "hard").of_port(storm.port))
        .collect();
    let guest = Guest {
        kernel: Kernel::Installed,
        netns: &netns,
        port: PORT,
        mounts: &mounts,
        script: &script(&storms, &mut random),
        within: GUEST_DEADLINE,
    };
    let outcome = std::thread::scope(|scope| {
        let blows = storms.iter().map(|storm| scope.spawn(|| storm.blow(kills)));
        let blows: Vec<_> = blows.collect();
        let outcome = guest.run(&context.lab, |line| {
            for storm in &storms {
                storm.hear(line);
            }
            Ok(())
        });
        storms.iter().for_each(Storm::end);
        for blow in blows {
            let server = blow.join().map_err(|_| anyhow!("it panicked"))?;
            server?.stop()?;
        }
        outcome
    })?;
    let mut wrong = failures(&outcome);
    for storm in &storms {
        wrong.extend(storm.compare(&outcome)?);
    }
    drop(mounts);
    disk.unmount()?;
    ensure!(
        wrong.is_empty(),
        "{} of {trees} trees, seed {}: {}",
        wrong.len(),
        context.seed,
        wrong.join(" | ")
    );
    let passed = verdicts(&outcome);
    ensure!(
        passed == usize::from(trees),
        "{passed} verdicts, should be {trees}"
    );
    let operations: u64 = outcome
        .lines
        .iter()
        .filter_map(|line| operations(line))
        .sum();
    Ok(format!(
        "{trees} trees, {operations} operations, {} kills",
        u64::from(trees) * kills
    ))
}

/// What a `note` says of how many operations there were.
fn operations(line: &str) -> Option<u64> {
    let words = line.strip_prefix("note ")?.strip_suffix(" operations")?;
    words.split(' ').next_back()?.parse().ok()
}

/// The guest's script, which changes all trees at once.
fn script(storms: &[Storm<'_>], random: &mut Rng) -> String {
    let mut script = String::new();
    for storm in storms {
        let (name, seed, enough) = (&storm.name, random.u64(..), storm.enough.display());
        script += &format!(
            "$T guest --results $R names /mnt/{name} /tmp --name {name} --seed {seed} \
             --workers {WORKERS} --enough {enough} &\n"
        );
    }
    script + "wait"
}

/// A server, its export, and what comes over it.
struct Storm<'a> {
    context: &'a Context,
    netns: &'a Netns,
    name: String,
    port: u16,
    export: PathBuf,
    hold: Hold,
    /// A file that is made when the guest has done enough.
    enough: PathBuf,
    /// Whether no change will come any more.
    over: AtomicBool,
    seed: u64,
}

impl<'a> Storm<'a> {
    fn new(
        context: &'a Context,
        netns: &'a Netns,
        exports: &Path,
        number: u16,
        mut random: Rng,
    ) -> Result<Self> {
        let name = format!("tree-{number}");
        let export = exports.join(&name);
        fs::create_dir(&export)?;
        Ok(Self {
            context,
            netns,
            port: PORT + number,
            export,
            hold: Hold::new(&context.lab.dir, &name)?,
            enough: context.lab.dir.join(format!("{name}.enough")),
            over: AtomicBool::new(false),
            seed: random.u64(..),
            name,
        })
    }

    fn start(&self) -> Result<Server> {
        let options = ServerOptions {
            listen: format!("{}:{}", Netns::HOST, self.port),
            netns: Some(self.netns),
            faults: Some(self.hold.rules()),
            memory: Some("64MiB"),
            more: &["--allow", Netns::NETWORK, "--squash", "none"],
            ..ServerOptions::default()
        };
        let state = self.context.lab.dir.join(format!("{}.state", self.name));
        Server::start(&self.context.lab, &self.export, &state, &options)
    }

    /// Kills the server `kills` times, then says that it is enough; returns the server that runs at the end.
    fn blow(&self, kills: u64) -> Result<Server> {
        let mut random = Rng::with_seed(self.seed);
        let mut server = self.start()?;
        let outcome = (0..kills).try_for_each(|_| self.kill(&mut server, &mut random));
        fs::write(&self.enough, "")?;
        outcome.with_context(|| self.name.clone())?;
        Ok(server)
    }

    /// Kills the server when a change has come to it, and starts it again.
    fn kill(&self, server: &mut Server, random: &mut Rng) -> Result<()> {
        let deadline = Instant::now() + CHANGE_DEADLINE;
        self.hold.begin(1 + random.u64(..FLUSHES_MAX))?;
        let held = self.hold.caught(|| {
            ensure!(Instant::now() < deadline, "no change comes");
            Ok(!self.over.load(Ordering::Acquire))
        })?;
        self.hold.end()?;
        let Some(held) = held else { return Ok(()) };
        if random.u64(..3) > 0 {
            server.kill()?;
            drop(held);
        } else {
            drop(held);
            // SLEEP: not to wait for anything: the moment is to be a random one.
            std::thread::sleep(Duration::from_millis(random.u64(..PAUSE_MAX_MS)));
            server.kill()?;
        }
        *server = self.start()?;
        Ok(())
    }

    /// Takes note of one line of the guest's results.
    fn hear(&self, line: &str) {
        let is_over = line.split([' ', ':']).nth(1) == Some(&self.name);
        if is_over {
            self.end();
        }
    }

    fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Compares what is on the disk with what the guest has on its own file system.
    fn compare(&self, outcome: &GuestOutcome) -> Result<Option<String>> {
        let start = format!("manifest {} ", self.name);
        let mut lines = outcome.lines.iter();
        let Some(expected) = lines.find_map(|line| line.strip_prefix(&start)) else {
            return Ok(None);
        };
        let expected: Vec<Entry> = serde_json::from_str(expected).context("a guest's manifest")?;
        let mut found = manifest::of_tree(&self.export.join(&self.name))?;
        manifest::forget_times(&mut found);
        let wrong = manifest::differences(&expected, &found);
        Ok((!wrong.is_empty())
            .then(|| format!("{} on the server's disk: {}", self.name, wrong.join("; "))))
    }
}
