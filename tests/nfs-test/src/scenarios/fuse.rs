//! `penstock mount`: what programs do on the mount, over our server and over a foreign one, while the server is
//! killed too.

mod killed;

pub(super) use killed::killed;

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nfs_lab::{GuestOutcome, Running, output, test_binary};
use rustix::process::Signal;

use super::kernel::{compare_calls, compare_fsx, failures, verdicts};
use crate::guest;
use crate::host::{Context, Peer, PeerServer};

/// How long a suite may take.
const SUITE_DEADLINE: Duration = Duration::from_secs(600);
/// How long mounting and unmounting may take.
const MOUNT_DEADLINE: Duration = Duration::from_secs(60);
/// Mounts of a server that stages WRITEs: names, and options of `penstock mount`.
const STAGED: [(&str, Option<&str>); 2] = [("staged", None), ("staged-cached", Some("--cached"))];
/// The pause between two looks at the results.
const LOOK_AT_RESULTS: Duration = Duration::from_millis(20);

pub(super) fn penstock(context: &Context) -> Result<String> {
    on_peer(context, Peer::Penstock)
}

pub(super) fn ganesha(context: &Context) -> Result<String> {
    on_peer(context, Peer::Ganesha)
}

fn on_peer(context: &Context, peer: Peer) -> Result<String> {
    let mut server = PeerServer::start(context, peer, |_| Ok(()))?;
    let operations = match (context.full, context.quick) {
        (true, _) => 20_000,
        (_, true) => 2_000,
        _ => 5_000,
    };
    let mut all = Vec::new();
    for (name, option) in [("plain", None), ("cached", Some("--cached"))] {
        let mount = mount_of(context, &server, name, option)?;
        all.extend(suites(context, &mount, name, operations).context(name)?);
        if peer == Peer::Penstock && name == "plain" {
            all.extend(beside(context, &mount, &[])?);
        }
        mount.end().context(name)?;
    }
    if peer == Peer::Penstock {
        // With caches, and all that may be remembered, for as long as a user gets it.
        let mut command = server
            .netns()
            .command_among_our_mounts(&context.lab.program);
        command.args(["mount", "--cached", &server.url("").to_string()]);
        let mount = Mount::new(context, command, "usual", "")?;
        all.extend(beside(context, &mount, &["--cached"])?);
        mount.end().context("usual")?;
    }
    let mut played = vec!["plain", "cached"];
    if peer == Peer::Penstock {
        all.extend(staged(context, &server, operations / 2)?);
        played.extend(STAGED.map(|(name, _)| name));
    }
    let outcome = GuestOutcome { lines: all };
    let mut wrong = failures(&outcome);
    let told = wrong.len();
    wrong.retain(|wrong| {
        !deviations(peer)
            .iter()
            .any(|(known, _)| wrong.contains(known))
    });
    let known = told - wrong.len();
    let rest = server.at_rest()?;
    for name in ["plain", "cached"] {
        let calls = format!("{name}-calls");
        wrong.extend(compare_calls(&outcome, &calls, &rest.join(&calls))?);
    }
    for name in played {
        let fsx = format!("{name}-fsx");
        wrong.extend(compare_fsx(&outcome, &fsx, &rest.join(&fsx))?);
    }
    ensure!(
        wrong.is_empty(),
        "{} wrong: {}",
        wrong.len(),
        wrong.join(" | ")
    );
    let beside = match peer {
        Peer::Penstock => guest::BESIDE + guest::BESIDE_CACHED + STAGED.len(),
        Peer::Ganesha | Peer::KernelNfsd | Peer::KernelNfsdAsync => 0,
    };
    let (passed, expected) = (
        verdicts(&outcome) + known,
        2 * (guest::CALLS.len() + guest::POSIX + 1) + beside,
    );
    ensure!(
        passed == expected,
        "{passed} verdicts, should be {expected}"
    );
    Ok(format!("{passed} tests, fsx 2 x {operations} operations"))
}

/// Texts of failures that are known of a server, and why each is the server's own way and no fault of
/// the mount.
fn deviations(peer: Peer) -> &'static [(&'static str, &'static str)] {
    match peer {
        Peer::Penstock | Peer::KernelNfsd | Peer::KernelNfsdAsync => &[],
        Peer::Ganesha => &[
            (
                "calls/times: mtime of a link:",
                "it answers SETATTR of a symbolic link's times with success and leaves them",
            ),
            (
                "calls/statfs: longest name: 1024,",
                "its PATHCONF says what it takes itself, not what the file system takes",
            ),
        ],
    }
}

fn suites(context: &Context, mount: &Mount, name: &str, operations: u64) -> Result<Vec<String>> {
    let point = mount.point.display();
    let calls = format!("{name}-calls");
    fs::create_dir(mount.point.join(&calls))?;
    let binary = test_binary(&context.lab.dir)?;
    let mut lines = Vec::new();
    let mut suite = |who: &[&str], words: &str| -> Result<()> {
        let mut command = match who.split_first() {
            None => Command::new(&binary),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(&binary);
                command
            }
        };
        command.arg("guest").args(words.split(' '));
        lines.extend(run(context, command, |_| Ok(()))?);
        Ok(())
    };
    suite(&[], &format!("calls {point}/{calls} --name {calls}"))?;
    suite(
        &[],
        &format!("posix {point}/{name}-posix --name {name}-posix"),
    )?;
    let other = ["setpriv", "--reuid=1001", "--regid=1001", "--clear-groups"];
    suite(
        &other,
        &format!("posix {point}/{name}-posix --name {name}-posix"),
    )?;
    lines.extend(fsx(context, mount, name, operations)?);
    Ok(lines)
}

fn fsx(context: &Context, mount: &Mount, name: &str, operations: u64) -> Result<Vec<String>> {
    let (point, seed) = (mount.point.display(), context.seed);
    let words = format!("fsx {point} --name {name}-fsx --seed {seed} --operations {operations}");
    let mut command = Command::new(test_binary(&context.lab.dir)?);
    command.arg("guest").args(words.split(' '));
    run(context, command, |_| Ok(()))
}

/// Random operations on the mount of a server that moves bytes past its page cache, with WRITEs staged and put in
/// order and space ahead of them.
fn staged(context: &Context, server: &PeerServer<'_>, operations: u64) -> Result<Vec<String>> {
    let mut command = Command::new(&context.lab.program);
    command.args(["ctl", "--state-dir"]).arg(server.state());
    command.args(["io", "--read", "direct", "--write", "direct"]);
    output(command.args(["--staging", "on", "--order", "on", "--reserve", "on"]))?;
    let mut lines = Vec::new();
    for (name, option) in STAGED {
        let mount = mount_of(context, server, name, option)?;
        lines.extend(fsx(context, &mount, name, operations).context(name)?);
        mount.end().context(name)?;
    }
    let count = nfs_lab::counter(&context.lab, &server.state(), "staged_writes")?;
    ensure!(count > 0, "no WRITE was staged");
    Ok(lines)
}

/// Mounts the server's export where nothing is remembered of attributes, so that both sides can be looked at.
fn mount_of(
    context: &Context,
    server: &PeerServer<'_>,
    name: &str,
    option: Option<&str>,
) -> Result<Mount> {
    let mut command = server
        .netns()
        .command_among_our_mounts(&context.lab.program);
    command.arg("mount").args(option);
    command.arg(server.url("").to_string());
    Mount::new(context, command, name, ",attr_timeout=0,entry_timeout=0")
}

/// What a program does on the server's disk is seen on the mount, and the other way round.
fn beside(context: &Context, mount: &Mount, words: &[&str]) -> Result<Vec<String>> {
    let name = if words.is_empty() {
        "beside"
    } else {
        "beside-usual"
    };
    let mut command = Command::new(test_binary(&context.lab.dir)?);
    command.args(["guest", "beside"]);
    command
        .arg(context.lab.dir.join("export"))
        .arg(&mount.point);
    command.args(["--name", name]).args(words);
    run(context, command, |_| Ok(()))
}

/// Runs a suite on the host, as a guest would; `seen` is told of its lines while it runs.
fn run(
    context: &Context,
    mut command: Command,
    mut seen: impl FnMut(&str) -> Result<()>,
) -> Result<Vec<String>> {
    let results = context.lab.dir.join("results.log");
    let log = context.lab.dir.join("suite.log");
    let open = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
    let before = fs::metadata(&results).map_or(0, |there| there.len()) as usize;
    command
        .stdin(Stdio::null())
        .stdout(open(&results)?)
        .stderr(open(&log)?);
    let mut running = Running::start(&mut command)?;
    let deadline = Instant::now() + SUITE_DEADLINE;
    let mut lines: Vec<String> = Vec::new();
    loop {
        let ended = running.ended_within(LOOK_AT_RESULTS)?;
        let text = fs::read(&results)?;
        let text = String::from_utf8_lossy(&text[before..]).into_owned();
        let whole = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        for line in whole.skip(lines.len()).map(str::trim_end) {
            seen(line)?;
            lines.push(line.to_owned());
        }
        if let Some(status) = ended {
            ensure!(status.success(), "{command:?}: {status}");
            return Ok(lines);
        }
        ensure!(Instant::now() < deadline, "{command:?} still runs");
    }
}

/// A running `penstock mount`, which is unmounted on drop.
pub(super) struct Mount {
    pub(super) process: Running,
    pub(super) point: PathBuf,
}

impl Mount {
    /// Runs `command`, a `penstock mount` without its directory, for all users and with more options.
    pub(super) fn new(
        context: &Context,
        mut command: Command,
        name: &str,
        options: &str,
    ) -> Result<Self> {
        let point = context.lab.dir.join(format!("mount-{name}"));
        fs::create_dir(&point)?;
        fs::set_permissions(&point, fs::Permissions::from_mode(0o755))?;
        command.args(["-o", &format!("allow_other{options}")]);
        command.arg(&point);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(
                context.lab.dir.join(format!("mount-{name}.log")),
            )?);
        let mut process = Running::start(&mut command)?;
        let out = process.child().stdout.take().context("its output")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        ensure!(line.starts_with("mounted "), "it said {line:?}");
        let mount = Self { process, point };
        // Not what lies below it: the suites would pass there, too.
        let kind = output(
            Command::new("stat")
                .args(["-f", "-c", "%T"])
                .arg(&mount.point),
        )?;
        ensure!(kind.starts_with(b"fuse"), "{kind:?} is mounted");
        Ok(mount)
    }

    /// Unmounts as a user does, with a signal.
    pub(super) fn end(mut self) -> Result<()> {
        self.process.signal(Signal::TERM);
        let status = self.process.wait(MOUNT_DEADLINE)?;
        ensure!(status.success(), "penstock mount ended with {status}");
        Ok(())
    }

    /// Waits for the end of a process whose mount somebody else has taken off.
    pub(super) fn ended(mut self, within: Duration) -> Result<ExitStatus> {
        self.process.wait(within)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Ok(None) = self.process.exited() {
            // A test has failed: nothing may wait for what it left.
            let _best_effort = Command::new("umount").arg("-l").arg(&self.point).status();
        }
    }
}
