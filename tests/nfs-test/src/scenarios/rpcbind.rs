//! The real rpcbind and rpcinfo, in namespaces of their own: port 111 and /run belong to the machine.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nfs_lab::{Netns, Running, output};
use rustix::process::Signal;

use crate::host::Context;

/// How long a registration may take to show, and a server to drain.
const DEADLINE: Duration = Duration::from_secs(20);

pub(super) fn run(context: &Context) -> Result<String> {
    with_rpcbind(context).context("beside rpcbind")?;
    without_rpcbind(context).context("--portmap")?;
    Ok("registered, refused, removed; portmap answers TCP and UDP".to_owned())
}

/// Two servers beside an rpcbind: the first is registered, the second leaves it alone, and nothing
/// is left at the end.
fn with_rpcbind(context: &Context) -> Result<()> {
    let inside = Inside::new("exec rpcbind -f")?;
    inside.wait_for("portmapper")?;
    let first = inside.serve(context, "first", "127.0.0.1:2049", &[])?;
    inside.wait_for("100003    3   tcp   2049")?;
    inside.wait_for("100005    3   tcp   2049")?;
    inside.wait_for("100021    4   tcp   2049")?;
    let second = inside.serve(context, "second", "127.0.0.1:2050", &[])?;
    stop(second)?;
    inside.rpcinfo(&["-T", "tcp", "127.0.0.1", "nfs", "3"])?;
    inside.rpcinfo(&["-T", "tcp", "127.0.0.1", "mountd", "3"])?;
    stop(first)?;
    let left = inside.rpcinfo(&["-p", "127.0.0.1"])?;
    ensure!(!left.contains("2049"), "left behind: {left}");
    // A portmap of our own has no place beside it.
    let refused = inside.serve(context, "third", "127.0.0.1:2051", &["--portmap"]);
    ensure!(refused.is_err(), "two answer on port 111");
    Ok(())
}

/// Checks a server that answers port 111 itself.
fn without_rpcbind(context: &Context) -> Result<()> {
    let inside = Inside::new("exec cat")?;
    let server = inside.serve(context, "own", "0.0.0.0:2049", &["--portmap"])?;
    let listed = inside.rpcinfo(&["-p", "127.0.0.1"])?;
    for line in [
        "100003    3   tcp   2049",
        "100005    3   tcp   2049",
        "100021    4   tcp   2049",
        "100000    2   udp    111",
    ] {
        ensure!(listed.contains(line), "no {line:?} in {listed}");
    }
    let listed = inside.rpcinfo(&["127.0.0.1"])?;
    ensure!(
        listed.contains("0.0.0.0.8.1"),
        "version 4 does not list us: {listed}"
    );
    for transport in ["tcp", "udp"] {
        inside.rpcinfo(&["-T", transport, "127.0.0.1", "100000", "2"])?;
    }
    inside.rpcinfo(&["-T", "tcp", "127.0.0.1", "nfs", "3"])?;
    stop(server)
}

/// A network and a mount namespace with a /run of its own, which live as long as their first process.
pub(super) struct Inside {
    first: Running,
}

impl Inside {
    /// `last` is what the namespace's first process becomes.
    fn new(last: &str) -> Result<Self> {
        let mut command = Command::new("unshare");
        command.arg("--net");
        Self::start(command, last)
    }

    /// Makes the namespaces in the network of `netns`; `last` is what their first process becomes.
    pub(super) fn of(netns: &Netns, last: &str) -> Result<Self> {
        Self::start(netns.command("unshare"), last)
    }

    /// Starts the first process with `command`, an `unshare` that already says what is to be done about the
    /// network.
    fn start(mut command: Command, last: &str) -> Result<Self> {
        let script = format!("ip link set lo up && mount -t tmpfs none /run && echo up && {last}");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        // A standard input that stays open: `cat` waits on it.
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut first = Running::start(&mut command)?;
        ensure!(line_of(&mut first)? == "up", "no namespaces");
        Ok(Self { first })
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--mount", "--target", &self.first.id().to_string()]);
        command.arg(program);
        command
    }

    fn rpcinfo(&self, arguments: &[&str]) -> Result<String> {
        Ok(String::from_utf8(output(
            self.command("rpcinfo").args(arguments),
        )?)?)
    }

    /// Waits until `rpcinfo -p` shows `text`.
    pub(super) fn wait_for(&self, text: &str) -> Result<()> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.rpcinfo(&["-p", "127.0.0.1"]) {
                Ok(listed) if listed.contains(text) => return Ok(()),
                Ok(listed) if Instant::now() > deadline => bail!("no {text:?} in {listed}"),
                Err(error) if Instant::now() > deadline => return Err(error),
                // SLEEP: a poll rests between two looks; rpcbind tells nobody of its entries.
                Ok(_) | Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Starts a server inside; it is ready when this returns.
    pub(super) fn serve(
        &self,
        context: &Context,
        name: &str,
        listen: &str,
        more: &[&str],
    ) -> Result<Running> {
        let path = |kind: &str| context.lab.dir.join(format!("{name}-{kind}"));
        let log = std::fs::File::create(path("server.log"))?;
        let mut command = self.command(&context.lab.program);
        command
            .arg("serve")
            .arg(path("export"))
            .arg("--state-dir")
            .arg(path("state"));
        command
            .args(["--listen", listen, "--engine", context.lab.engine.name()])
            .args(more);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut server = Running::start(&mut command)?;
        let line = line_of(&mut server)?;
        ensure!(
            line.trim_end() == "ready",
            "{name} said {line:?}: {}",
            read(&path("server.log"))
        );
        Ok(server)
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The first line of a process; empty if it ends without one.
fn line_of(process: &mut Running) -> Result<String> {
    let out = process
        .child()
        .stdout
        .as_mut()
        .context("its standard output is a pipe")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

pub(super) fn stop(mut server: Running) -> Result<()> {
    server.signal(Signal::TERM);
    let status = server.wait(DEADLINE)?;
    ensure!(status.success(), "the server ended with {status}");
    Ok(())
}
