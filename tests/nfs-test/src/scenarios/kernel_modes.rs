//! The Linux kernel's NFSv3 client on exports in each I/O mode, in a User Mode Linux guest: random
//! operations, odd sizes past the client's cache, two clients in different modes and a local program on
//! one file, and a server that is killed and comes back in another mode.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use fastrand::Rng;
use nfs_lab::{FsKind, Guest, IoFigures, Kernel, LoopFs, Mount, Netns, Server, ServerOptions};
use nfs_wire::nfs3::StableHow;

use super::kernel::{compare_calls, compare_fsx, failures, verdicts};
use crate::duel::{self, Expected};
use crate::guest;
use crate::host::{Context, IoSetting, Mode};
use crate::map::Map;

/// How long the guest may run in all.
const GUEST_DEADLINE: Duration = Duration::from_secs(900);
/// Least number of bytes that has to go in an export's own mode.
const MOVED_MIN: u64 = 1 << 20;
/// How often the server is killed and comes back, in another mode each time.
const RESTARTS: u64 = 6;

/// Mounts: where, of which export, with which options. `/rules` has a mode for each address of the guest.
const MOUNTS: &[Mount<'_>] = &[
    Mount::new("dontcache", "/dontcache", "hard"),
    Mount::new("direct", "/direct", "hard"),
    Mount::new("sizes", "/direct", "nosharecache,rsize=32768,wsize=4096"),
    Mount::new("sync", "/direct", "nosharecache,sync"),
    Mount::new("staged", "/staged", "nosharecache,wsize=12288"),
    Mount::new("changing", "/changing", "hard"),
    Mount::new("rules", "/rules", "nosharecache,noac"),
    Mount::new("others", "/rules", "nosharecache,noac").by_second_address(),
];

/// A run of fsx: its name begins with the export's.
struct Fsx {
    name: &'static str,
    mount: &'static str,
    /// Whether [`Amount::long`] operations are made, or else [`Amount::short`].
    long: bool,
    /// How many of a hundred operations go past the client's cache, at any offset and length.
    direct: u64,
}

const FSX: &[Fsx] = &[
    Fsx {
        name: "dontcache-fsx",
        mount: "dontcache",
        long: true,
        direct: 3,
    },
    Fsx {
        name: "direct-fsx",
        mount: "direct",
        long: true,
        direct: 3,
    },
    Fsx {
        name: "direct-sizes",
        mount: "sizes",
        long: false,
        direct: 10,
    },
    Fsx {
        name: "direct-sync",
        mount: "sync",
        long: false,
        direct: 3,
    },
    Fsx {
        name: "direct-past",
        mount: "direct",
        long: false,
        direct: 70,
    },
    Fsx {
        name: "staged-fsx",
        mount: "staged",
        long: false,
        direct: 3,
    },
    Fsx {
        name: "staged-past",
        mount: "staged",
        long: false,
        direct: 70,
    },
];
/// Name of the fsx run that goes on while the server is killed.
const KILLED: &str = "changing-restarts";

/// Numbers of operations and rounds, which depend on `--quick`.
struct Amount {
    long: u64,
    short: u64,
    /// Rounds of the three writers of one file.
    rounds: u64,
}

pub(super) fn run(context: &Context) -> Result<String> {
    let amount = if context.quick {
        Amount {
            long: 2_000,
            short: 500,
            rounds: 6,
        }
    } else {
        Amount {
            long: 12_000,
            short: 2_500,
            rounds: 40,
        }
    };
    let export = context.lab.dir.join("export");
    let mut disk = LoopFs::new(FsKind::Xfs, 1024, &export)?;
    let netns = Netns::new()?;
    let bench = Bench::new(context, &netns, &export)?;
    let mut random = Rng::with_seed(context.seed);
    let mut server = bench.start(&mut random)?;
    let guest = Guest {
        kernel: Kernel::Installed,
        netns: &netns,
        port: server.address().port(),
        mounts: MOUNTS,
        script: &script(context.seed, &amount),
        within: GUEST_DEADLINE,
    };
    let (mut figures, mut staged) = (None, 0);
    let (shared, mut local) = (export.join("rules").join(duel::FILE), None);
    let outcome = guest.run(&context.lab, |line| {
        if line.starts_with("progress duel begins") {
            local = Some(Local::start(&shared, context.seed)?);
        } else if let ("progress duel over", Some(local)) = (line, &local) {
            local.end();
        } else if line.starts_with("progress changing") {
            if figures.is_none() {
                figures = Some(server.io_figures()?);
                let state = context.lab.dir.join("state");
                staged = nfs_lab::counter(&context.lab, &state, "staged_writes")?;
            }
            server.kill()?;
            server = bench.start(&mut random)?;
        }
        Ok(())
    })?;
    server.stop()?;

    let mut wrong = failures(&outcome);
    wrong.extend(strayed(&figures.unwrap_or_default()));
    if staged == 0 {
        wrong.push("no WRITE was staged".to_owned());
    }
    let ended = local.map_or_else(|| Err(anyhow!("never began")), Local::outcome);
    let seen = ended.and_then(|()| see_all(&shared));
    // From here on it is the disk that tells, not the page cache.
    disk.unmount()?;
    disk.mount()?;
    let seen = seen.and_then(|()| see_all(&shared).context("on the disk"));
    wrong.extend(
        seen.err()
            .map(|error| format!("the local program: {error:#}")),
    );
    for mode in ["direct", "dontcache"] {
        let name = format!("{mode}-calls");
        wrong.extend(compare_calls(
            &outcome,
            &name,
            &export.join(mode).join(&name),
        )?);
    }
    let files = outcome
        .lines
        .iter()
        .filter_map(|line| line.strip_prefix("file "));
    for name in files.filter_map(|line| line.split(' ').next()) {
        let dir = name.split('-').next().unwrap_or_default();
        wrong.extend(compare_fsx(&outcome, name, &export.join(dir).join(name))?);
    }
    disk.unmount()?;
    ensure!(
        wrong.is_empty(),
        "{} wrong: {}",
        wrong.len(),
        wrong.join(" | ")
    );
    let (passed, expected) = (verdicts(&outcome), expected_verdicts());
    ensure!(
        passed == expected,
        "{passed} verdicts, should be {expected}"
    );
    let operations = amount.long;
    Ok(format!(
        "{passed} tests, fsx {operations} operations in each mode"
    ))
}

fn expected_verdicts() -> usize {
    let (duel, killed) = (2, 1);
    FSX.len() + killed + guest::COPIES + 2 * guest::content_calls() + duel
}

/// What did not go as its export says: without this all could go through the page cache and pass.
fn strayed(figures: &[IoFigures]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (export, mode) in [
        ("/direct", Mode::Direct),
        ("/staged", Mode::Direct),
        ("/dontcache", Mode::DontCache),
        ("/rules", Mode::Direct),
    ] {
        for operation in ["read", "write"] {
            let of_it = |row: &&IoFigures| row.export == export && row.operation == operation;
            let rows: Vec<_> = figures.iter().filter(of_it).collect();
            let bytes = |row: &&IoFigures| row.moved_bytes.get(mode.word()).copied();
            let refused =
                |row: &&IoFigures| row.fallbacks.keys().any(|why| why.contains("refused"));
            if rows.iter().filter_map(bytes).sum::<u64>() < MOVED_MIN || rows.iter().any(refused) {
                wrong.push(format!("{operation} of {export}: {rows:?}"));
            }
        }
    }
    wrong
}

fn script(seed: u64, amount: &Amount) -> String {
    let mut script = String::new();
    let guest = "$T guest --results $R";
    for mode in ["direct", "dontcache"] {
        script += &format!(
            "mkdir /mnt/{mode}/{mode}-calls\n\
             {guest} calls /mnt/{mode}/{mode}-calls --name {mode}-calls --content\n"
        );
    }
    let rounds = amount.rounds;
    script += &format!("{guest} dd /mnt/direct /tmp --name direct-dd\n");
    script += &format!("{guest} duel /mnt/rules /mnt/others --rounds {rounds} --seed {seed}\n");
    for fsx in FSX {
        let Fsx {
            name,
            mount,
            direct,
            ..
        } = fsx;
        let operations = if fsx.long { amount.long } else { amount.short };
        script += &format!(
            "{guest} fsx /mnt/{mount} --name {name} --seed {seed} --operations {operations} \
             --direct {direct}\n"
        );
    }
    // Short of one for each restart, no progress is told of.
    let (operations, progress) = (amount.long / 5, amount.long / 5 / RESTARTS);
    script
        + &format!(
            "{guest} fsx /mnt/changing --name {KILLED} --seed {seed} --operations {operations} \
         --progress {progress}"
        )
}

/// What all starts of the server have in common.
struct Bench<'a> {
    context: &'a Context,
    netns: &'a Netns,
    export: &'a Path,
    config: PathBuf,
    /// Counts the starts, from a number that the seed gives; the mode of the next start follows from it.
    starts: Cell<usize>,
}

impl<'a> Bench<'a> {
    /// The exports' directories, and the file that everybody writes.
    fn new(context: &'a Context, netns: &'a Netns, export: &'a Path) -> Result<Self> {
        for name in ["dontcache", "direct", "staged", "changing", "rules"] {
            fs::create_dir(export.join(name))?;
        }
        let shared = File::create(export.join("rules").join(duel::FILE))?;
        shared.set_len(duel::LENGTH)?;
        Ok(Self {
            context,
            netns,
            export,
            config: context.lab.dir.join("penstock.toml"),
            starts: Cell::new(context.seed as usize % Mode::WORDS.len()),
        })
    }

    /// Starts the server, with another mode for WRITEs to `/changing` each time.
    fn start(&self, random: &mut Rng) -> Result<Server> {
        let mut mode = || Mode::WORDS[random.usize(..Mode::WORDS.len())];
        let (first, read) = (mode(), mode());
        let write = Mode::WORDS[self.starts.get() % Mode::WORDS.len()];
        self.starts.set(self.starts.get() + 1);
        // Who comes by the second address gets past the page cache; the other one need not.
        let rules = format!(
            "{}[[export.rule]]\nclients = [\"{}\"]\nmode = \"direct\"\n",
            IoSetting::all(first).toml(),
            Netns::GUEST_SECOND
        );
        let floors = [
            StableHow::Unstable,
            StableHow::DataSync,
            StableHow::FileSync,
        ];
        let floor = floors[random.usize(..floors.len())];
        let changing = IoSetting {
            read,
            floor,
            reserve: random.bool(),
            order: random.bool(),
            staging: random.bool(),
            splice: random.bool(),
            ..IoSetting::all(write)
        };
        let direct = IoSetting {
            reserve: true,
            ..IoSetting::all(Mode::Direct)
        };
        let staged = IoSetting {
            order: true,
            ..IoSetting::staged()
        };
        let text = self.section("dontcache", &IoSetting::all(Mode::DontCache).toml())
            + &self.section("direct", &direct.toml())
            + &self.section("staged", &staged.toml())
            + &self.section("changing", &changing.toml())
            + &self.section("rules", &rules);
        fs::write(&self.config, text)?;
        let second = format!("{}:2049", Netns::HOST_SECOND);
        let options = ServerOptions {
            listen: format!("{}:2049", Netns::HOST),
            netns: Some(self.netns),
            config: Some(self.config.clone()),
            more: &["--listen", &second],
            ..ServerOptions::default()
        };
        let state = self.context.lab.dir.join("state");
        Server::start(&self.context.lab, self.export, &state, &options)
    }

    fn section(&self, name: &str, more: &str) -> String {
        format!(
            "[[export]]\npath = {:?}\npseudo = \"/{name}\"\nclients = [\"{}\"]\n\
             squash = \"none\"\n{more}",
            self.export.join(name).display(),
            Netns::NETWORK
        )
    }
}

/// The program on the server's machine that writes and reads the shared file beside the clients.
struct Local {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl Local {
    fn start(file: &Path, seed: u64) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(file)?;
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let thread = std::thread::spawn(move || play(&file, seed, &told));
        Ok(Self { over, thread })
    }

    /// The clients have ended: it writes once more, and ends.
    fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    fn outcome(self) -> Result<()> {
        // Also where the guest never came so far.
        self.end();
        let outcome = self.thread.join();
        outcome.map_err(|_| anyhow!("it panicked"))?
    }
}

/// Writes by call and by map in turn, and reads, until it is over.
fn play(file: &File, seed: u64, over: &AtomicBool) -> Result<()> {
    let mut random = Rng::with_seed(seed ^ 1);
    let map = Map::new(file, duel::LENGTH as usize)?;
    let by_call = |offset: u64, data: &[u8]| Ok(file.write_all_at(data, offset)?);
    let by_map = |offset: u64, data: &[u8]| map.write(offset as usize, data);
    let mut round = 0;
    while !over.load(Ordering::Acquire) {
        if round % 2 == 0 {
            duel::write_round(duel::LOCAL, Some(round), &mut random, by_call)?;
        } else {
            duel::write_round(duel::LOCAL, Some(round), &mut random, by_map)?;
        }
        let mut expected = [Expected::Any; duel::OWNERS as usize];
        expected[duel::LOCAL as usize] = Expected::Round(round);
        for _ in 0..4 {
            duel::read_some(file, &mut random, expected)
                .with_context(|| format!("round {round}"))?;
        }
        round += 1;
    }
    duel::write_round(duel::LOCAL, None, &mut random, by_call)
}

/// Checks, when all writers have ended, that the last records of each are there, by call and by map.
fn see_all(file: &Path) -> Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(file)?;
    let expected = [Expected::Last; duel::OWNERS as usize];
    duel::read_all(&file, expected).context("read")?;
    let mut found = vec![0; duel::LENGTH as usize];
    Map::new(&file, found.len())?.read(0, &mut found)?;
    duel::check(0, &found, expected).context("by map")
}
