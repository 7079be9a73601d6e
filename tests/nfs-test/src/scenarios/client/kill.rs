//! The server is killed, or its power is cut, again and again in the middle of copies: `cp` ends with the right
//! bytes, or says that it did not, and then `--resume` mends it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use nfs_lab::pattern;
use nfs_lab::{FsKind, LoopFs, Running, Server, ServerOptions, output};

use super::tree;
use crate::host::{Context, IoSetting, Mode};
use crate::manifest::{self, Entry};

/// How long a copy may go on after its last blow.
const COPY_DEADLINE: Duration = Duration::from_secs(120);
/// The pause between two looks whether a copy has begun.
const LOOK_AT_COPY: Duration = Duration::from_millis(1);
/// Least number of copies that have to be struck; one that has ended is followed by another.
const COPIES_MIN: u32 = 4;
/// The longest random time between two blows, in microseconds.
const PAUSE_MAX_US: u64 = 250_000;
/// The large files' sizes, in bytes; a manifest reads no more of one than 64 MiB.
const LARGE: [usize; 4] = [67_000_001, 50_000_000, 33_333_333, 9_999_999];
/// The words of a copy that met too many restarts in a row.
const RESTARTS_AGAIN: &str = "the server restarts again and again";
/// Number of small files beside the large ones.
const SMALL: u64 = 1_500;

/// `kill -9`, again and again.
///
/// # Errors
/// What is wrong.
pub(crate) fn kill(context: &Context) -> Result<String> {
    let blows = match (context.full, context.quick) {
        (true, _) => 400,
        (_, true) => 20,
        _ => 100,
    };
    let export = context.lab.dir.join("export");
    let disk = LoopFs::new(FsKind::Xfs, 4096, &export)?;
    Bench::new(context, export, disk, false)?.run(blows)
}

/// Cuts the power of the server's disk, which has an XFS, again and again.
///
/// # Errors
/// What is wrong.
pub(crate) fn power_xfs(context: &Context) -> Result<String> {
    power(context, FsKind::Xfs)
}

/// Cuts the power of the server's disk, which has an ext4, again and again.
///
/// # Errors
/// What is wrong.
pub(crate) fn power_ext4(context: &Context) -> Result<String> {
    power(context, FsKind::Ext4)
}

fn power(context: &Context, kind: FsKind) -> Result<String> {
    let blows = match (context.full, context.quick) {
        (true, _) => 100,
        (_, true) => 5,
        _ => 15,
    };
    let export = context.lab.dir.join("export");
    let disk = LoopFs::new(kind, 4096, &export)?;
    Bench::new(context, export, disk, true)?.run(blows)
}

/// The direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
    Between,
}

struct Bench<'a> {
    context: &'a Context,
    random: Rng,
    export: PathBuf,
    disk: LoopFs,
    /// The tree that is copied, in memory.
    source: tempfile::TempDir,
    expected: Vec<Entry>,
    cut: bool,
    /// The disk goes first, while the server still answers.
    rough: bool,
    /// Modes, times and owners are kept (`-a`). To set them brings what was written to stable storage on many
    /// servers: only a copy without shows that COMMIT did.
    keep: bool,
    server: Option<Server>,
    listen: String,
    blows: u32,
    failed: u32,
}

impl<'a> Bench<'a> {
    fn new(context: &'a Context, export: PathBuf, disk: LoopFs, cut: bool) -> Result<Self> {
        let mut random = Rng::with_seed(context.seed.wrapping_add(context.lab.engine as u64));
        let source = tempfile::Builder::new()
            .prefix("nfs-test-kill-")
            .tempdir_in("/dev/shm")?;
        fill(source.path(), &mut random).context("make a tree")?;
        let expected = manifest::of_tree(source.path())?;
        Ok(Self {
            context,
            random,
            export,
            disk,
            source,
            expected,
            cut,
            rough: false,
            keep: true,
            server: None,
            listen: String::new(),
            blows: 0,
            failed: 0,
        })
    }

    fn run(mut self, blows: u32) -> Result<String> {
        self.start()?;
        self.calm()?;
        let mut copies = 0;
        while self.blows < blows || copies < COPIES_MIN {
            let way = match copies % 3 {
                0 => Way::Up,
                1 => Way::Down,
                _ => Way::Between,
            };
            // Each way comes with either.
            self.rough = self.cut && copies % 2 == 1;
            self.keep = way == Way::Down || copies / 3 % 2 == 1;
            let (seed, rough, keep) = (self.context.seed, self.rough, self.keep);
            let what =
                || format!("copy {copies}, {way:?}, rough: {rough}, keep: {keep}, seed {seed}");
            self.copy(way, blows).with_context(what)?;
            copies += 1;
        }
        if let Some(server) = self.server.take() {
            server.stop()?;
        }
        self.disk.unmount()?;
        Ok(format!(
            "{} blows in {copies} copies, {} of them gave up and were mended, {} entries",
            self.blows,
            self.failed,
            self.expected.len()
        ))
    }

    /// The server, on the port that it had before.
    fn start(&mut self) -> Result<()> {
        let config = self.context.lab.dir.join("penstock.toml");
        let mode = Mode::WORDS[self.random.usize(..Mode::WORDS.len())];
        let text = format!(
            "[[export]]\npath = {:?}\npseudo = \"/\"\nsquash = \"none\"\n{}",
            self.export.display(),
            IoSetting::all(mode).toml()
        );
        fs::write(&config, text)?;
        let options = ServerOptions {
            listen: self.listen.clone(),
            config: Some(config),
            ..ServerOptions::default()
        };
        let state = self.context.lab.dir.join("state");
        let server = Server::start(&self.context.lab, &self.export, &state, &options)?;
        self.listen = server.address().to_string();
        self.server = Some(server);
        Ok(())
    }

    /// What copies down and between begin with: a copy that nobody disturbed, on stable storage.
    fn calm(&self) -> Result<()> {
        let mut command = self.cp(&[self.local()?, &self.url("calm")]);
        output(&mut command)?;
        rustix::fs::syncfs(File::open(&self.export)?)?;
        self.check(&self.export.join("calm"))
    }

    fn local(&self) -> Result<&str> {
        self.source.path().to_str().context("UTF-8")
    }

    fn url(&self, name: &str) -> String {
        format!("nfs://{}/{name}", self.listen)
    }

    fn cp(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.context.lab.program);
        let how = if self.keep { "-aT" } else { "-rT" };
        command.args(["cp", how, "--no-progress"]).args(words);
        command
    }

    /// Makes one copy, which is struck until it ends or there were enough blows.
    fn copy(&mut self, way: Way, blows: u32) -> Result<()> {
        let down = self.context.lab.dir.join("down");
        let to = self.export.join("target");
        for old in [&down, &to] {
            if old.exists() {
                fs::remove_dir_all(old)?;
            }
        }
        let (from, onto) = match way {
            Way::Up => (self.local()?.to_owned(), self.url("target")),
            Way::Down => (self.url("calm"), down.to_str().context("UTF-8")?.to_owned()),
            Way::Between => (self.url("calm"), self.url("target")),
        };
        let made = if way == Way::Down { &down } else { &to };
        let status = self.struck(&[&from, &onto], made, blows)?;
        match status.code() {
            Some(0) => {}
            // It said so. What it says is missing comes with the next try, at which nobody strikes.
            Some(1) => {
                self.must_have_reason()?;
                self.failed += 1;
                let mut command = self.cp(&["--resume", &from, &onto]);
                output(&mut command).context("cp --resume")?;
            }
            _ => bail!("cp ended with {status}: {}", self.said()?),
        }
        if self.cut && way != Way::Down {
            // Done is on stable storage: one more cut must not take it away.
            self.last_and_strike()?;
        }
        let said = if status.success() { "done" } else { "mended" };
        self.check(made)
            .with_context(|| format!("cp said {said}, {} blows so far", self.blows))
    }

    /// Copies one more file and strikes at once, as what was copied first may have come to the disk by itself
    /// meanwhile.
    fn last_and_strike(&mut self) -> Result<()> {
        let source = self.source.path().join(format!("large-{}", LARGE[3]));
        let mut command = Command::new(&self.context.lab.program);
        command.args(["cp", "--no-progress"]).arg(&source);
        output(command.arg(self.url("last")))?;
        self.strike()?;
        let there = fs::read(self.export.join("last"))?;
        ensure!(
            there == fs::read(&source)?,
            "cp said done, and a cut right after it took bytes: {} of {} are there, rough: {}",
            there.len(),
            LARGE[3],
            self.rough
        );
        Ok(())
    }

    /// A server that goes away and comes back, with all that it had told to be on stable storage, is no reason to
    /// fail, unless it does so again and again without an end. A disk that fails under it is.
    fn must_have_reason(&self) -> Result<()> {
        let said = self.said()?;
        let mut unfounded = said.lines().filter(|line| !line.contains(RESTARTS_AGAIN));
        match unfounded.next() {
            Some(line) if !self.rough => bail!("cp failed, and the server only went away: {line}"),
            _ => Ok(()),
        }
    }

    /// A copy that makes `made`, struck from then on: one that finds nobody listening at all when it starts says so and
    /// ends.
    fn struck(&mut self, words: &[&str], made: &Path, blows: u32) -> Result<ExitStatus> {
        let log = File::create(self.context.lab.dir.join("cp.log"))?;
        let mut command = self.cp(words);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let mut running = Running::start(&mut command)?;
        let deadline = Instant::now() + COPY_DEADLINE;
        while !made.exists() {
            if let Some(status) = running.ended_within(LOOK_AT_COPY)? {
                return Ok(status);
            }
            ensure!(
                Instant::now() < deadline,
                "cp does not begin: {}",
                self.said()?
            );
        }
        while self.blows < blows {
            let pause = Duration::from_micros(self.random.u64(..PAUSE_MAX_US));
            if let Some(status) = running.ended_within(pause)? {
                return Ok(status);
            }
            self.strike()?;
        }
        running
            .wait(COPY_DEADLINE)
            .with_context(|| self.said().unwrap_or_default())
    }

    /// Ends the server as a crash does, with its disk's power if that is to be cut, and starts it again.
    fn strike(&mut self) -> Result<()> {
        let mut server = self.server.take().context("a server that runs")?;
        if self.cut && self.rough {
            self.disk.knife()?.cut()?;
        }
        server.kill()?;
        drop(server);
        if self.cut && !self.rough {
            self.disk.knife()?.cut()?;
        }
        if self.cut {
            self.disk.unmount()?;
            self.disk.mount()?;
        }
        self.blows += 1;
        self.start()
    }

    fn check(&self, found: &Path) -> Result<()> {
        let found = manifest::of_tree(found)?;
        let wrong = match self.keep {
            true => manifest::differences(&self.expected, &found),
            false => manifest::differences(&plain(&self.expected), &plain(&found)),
        };
        let shown = &wrong[..wrong.len().min(5)];
        ensure!(
            wrong.is_empty(),
            "{} differences: {}",
            wrong.len(),
            shown.join(" | ")
        );
        Ok(())
    }

    fn said(&self) -> Result<String> {
        Ok(fs::read_to_string(self.context.lab.dir.join("cp.log"))?)
    }
}

/// Without what a copy keeps only with `-a`.
fn plain(entries: &[Entry]) -> Vec<Entry> {
    let plain = |entry: &Entry| Entry {
        mode: 0,
        uid: 0,
        gid: 0,
        nlink: 0,
        mtime: (0, 0),
        ..entry.clone()
    };
    entries.iter().map(plain).collect()
}

/// Large files, many small ones, and a tree with everything in it.
fn fill(dir: &Path, random: &mut Rng) -> Result<()> {
    tree::make(&dir.join("tree"), random)?;
    for size in LARGE {
        fs::write(
            dir.join(format!("large-{size}")),
            pattern::bytes(size as u64, 0, size),
        )?;
    }
    fs::create_dir(dir.join("small"))?;
    for index in 0..SMALL {
        let size = random.usize(..20_000);
        fs::write(
            dir.join(format!("small/{index}")),
            pattern::bytes(index, 0, size),
        )?;
    }
    Ok(())
}
