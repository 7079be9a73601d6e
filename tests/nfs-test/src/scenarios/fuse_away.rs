//! `penstock mount` while its server is away: programs that wait can be ended, what they wrote is not lost, and
//! the mount can be taken off.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nfs_lab::{Running, Server, ServerOptions, output};
use rustix::process::{Pid, Signal, kill_process};

use super::fuse::Mount;
use crate::host::Context;

/// How long something that has to end, or to come about, may take: far below the 5 minutes after which calls
/// fail.
const DEADLINE: Duration = Duration::from_secs(60);
/// The pause between two looks at a process.
const LOOK: Duration = Duration::from_millis(5);
/// Number of bytes that a program writes: the mount takes them over without a word from the server.
const WRITTEN: usize = 100_000;
/// Where the kernel lets a program wait for FUSE.
const WAITS: &str = "request_wait_answer";

/// A server that neither answers nor closes its connections; it goes on when this is dropped.
struct Away(Pid);

impl Away {
    fn new(server: &Server) -> Result<Self> {
        let pid = Pid::from_raw(server.id().cast_signed()).context("a process has an id")?;
        kill_process(pid, Signal::STOP)?;
        Ok(Self(pid))
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        // Gone: nothing is left to go on.
        let _gone = kill_process(self.0, Signal::CONT);
    }
}

pub(super) fn run(context: &Context) -> Result<String> {
    let export = context.lab.dir.join("export");
    fs::create_dir(&export)?;
    fs::write(export.join("big"), vec![7; 8 << 20])?;
    let state = context.lab.dir.join("state");
    let server = Server::start(&context.lab, &export, &state, &ServerOptions::default())?;
    let mount = |name: &str, cached: bool| {
        let mut command = Command::new(&context.lab.program);
        command.arg("mount").args(cached.then_some("--cached"));
        command.arg(format!("nfs://{}/", server.address()));
        Mount::new(context, command, name, "")
    };
    for (name, cached) in [("plain", false), ("cached", true)] {
        let mount = mount(name, cached)?;
        signals(&mount, &server).context(name)?;
        killed_writer(&mount, &server, &export.join(name)).context(name)?;
        mount.end().context(name)?;
        let there = fs::metadata(export.join(name))?.len();
        ensure!(there == WRITTEN as u64, "{name}: {there} bytes are there");
    }
    let mounted = mount("child", false)?;
    child(&mounted, &server)?;
    mounted.end()?;
    for (way, commands) in WAYS {
        taken_off(mount(way, false)?, &server, commands).context(*way)?;
    }
    ended_at_once(mount("at-once", false)?, &server)?;
    daemon_killed(mount("killed", false)?, &server)?;
    server.stop()?;
    Ok(format!(
        "{} signals, 2 killed writers, {} ways to unmount",
        2 * ENDED.len(),
        WAYS.len() + 2
    ))
}

/// What is ended while it waits, and with which signal; `@` stands for the mount. `dd` takes care of SIGINT
/// itself.
const ENDED: [(&str, &[&str], Signal); 6] = [
    ("cat", &["@/big"], Signal::INT),
    ("ls", &["-l", "@"], Signal::KILL),
    ("dd", &["if=@/big", "of=/dev/null", "bs=1M"], Signal::INT),
    ("dd", &["if=/dev/zero", "of=@/new", "count=1"], Signal::HUP),
    ("mkdir", &["@/directory"], Signal::TERM),
    ("mv", &["@/big", "@/other"], Signal::QUIT),
];

fn signals(mount: &Mount, server: &Server) -> Result<()> {
    let _away = Away::new(server)?;
    for (program, args, signal) in ENDED {
        let mut running = waiting(mount, program, args)?;
        running.signal(signal);
        let ended = running.wait(DEADLINE)?.signal();
        ensure!(
            ended == Some(signal.as_raw()),
            "{program} ended with {ended:?}"
        );
    }
    Ok(())
}

/// Starts a program, and returns when it waits for the server.
fn waiting(mount: &Mount, program: &str, args: &[&str]) -> Result<Running> {
    let point = mount.point.display().to_string();
    // Whoever started the tests in the background of a shell had them, and what they start, ignore SIGINT.
    let mut command = Command::new("env");
    command.args(["--default-signal", program]);
    command.args(args.iter().map(|arg| arg.replace('@', &point)));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running::start(&mut command)?;
    until(program, || waits(running.id()))?;
    Ok(running)
}

fn waits(process: u32) -> Result<bool> {
    Ok(fs::read_to_string(format!("/proc/{process}/wchan"))?.contains(WAITS))
}

fn until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + DEADLINE;
    while !holds()? {
        if Instant::now() > deadline {
            bail!("{what}: not what was waited for");
        }
        // SLEEP: a poll of /proc rests between two looks.
        thread::sleep(LOOK);
    }
    Ok(())
}

/// A program that is killed while its close waits leaves what it wrote to the mount.
fn killed_writer(mount: &Mount, server: &Server, on_disk: &Path) -> Result<()> {
    let name = on_disk.file_name().context("its name")?;
    let mut command = Command::new("dd");
    command
        .arg(format!("of={}", mount.point.join(name).display()))
        .args([&format!("bs={WRITTEN}"), "iflag=fullblock"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null());
    let mut writer = Running::start(&mut command)?;
    until("the file", || Ok(on_disk.exists()))?;
    let pid = writer.id();
    // It has opened it, and waits for its input.
    until("dd", || {
        Ok(fs::read_to_string(format!("/proc/{pid}/wchan"))?.contains("pipe_read"))
    })?;
    let _away = Away::new(server)?;
    let mut input = writer.child().stdin.take().context("its input")?;
    input.write_all(&[1; WRITTEN])?;
    until("what dd wrote", || {
        let io = fs::read_to_string(format!("/proc/{pid}/io"))?;
        Ok(io.lines().any(|line| line == format!("wchar: {WRITTEN}")))
    })?;
    drop(input);
    until("its close", || waits(pid))?;
    writer.signal(Signal::KILL);
    writer.wait(DEADLINE)?;
    Ok(())
}

/// A process that has written and starts a program does not wait for the server: the child closes its copy of
/// the descriptor, and wrote nothing.
fn child(mount: &Mount, server: &Server) -> Result<()> {
    let mut file = File::create(mount.point.join("parent"))?;
    let away = Away::new(server)?;
    file.write_all(&[1; WRITTEN])?;
    let (tell, told) = mpsc::channel();
    let starting = thread::spawn(move || tell.send(Command::new("true").status()));
    let ended = told.recv_timeout(DEADLINE);
    drop(away);
    let _told_or_not = starting.join();
    let status = ended.context("a child waits for what its parent wrote")??;
    ensure!(status.success(), "it ended with {status}");
    file.sync_all()?;
    Ok(())
}

/// A command, and whether nothing is mounted any more afterwards.
type Attempt = (&'static [&'static str], bool);

/// Ways to take a mount off that a program waits in. The program is ended before the last command.
const WAYS: &[(&str, &[Attempt])] = &[
    (
        "fusermount",
        &[
            (&["fusermount3", "-u"], false),
            (&["fusermount3", "-u"], true),
        ],
    ),
    ("lazily", &[(&["umount", "-l"], true)]),
    ("lazily-fuse", &[(&["fusermount3", "-uz"], true)]),
    // Ends what waits; it takes the mount off as well if that has let go of it soon enough, else the next
    // command does.
    (
        "force",
        &[(&["umount", "-f"], false), (&["umount", "-l"], true)],
    ),
];

fn taken_off(mount: Mount, server: &Server, commands: &[Attempt]) -> Result<()> {
    let _away = Away::new(server)?;
    let mut reader = waiting(&mount, "cat", &["@/big"])?;
    for (index, (command, last)) in commands.iter().enumerate() {
        if index > 0 {
            reader.signal(Signal::KILL);
            reader.wait(DEADLINE)?;
        }
        let (program, args) = command.split_first().context("a program")?;
        let did = output(Command::new(program).args(args).arg(&mount.point));
        ensure!(!last || !is_mounted(&mount.point)?, "{command:?}: {did:?}");
    }
    reader.signal(Signal::KILL);
    reader.wait(DEADLINE)?;
    // The server is still away: nothing of it is needed.
    let status = mount.ended(DEADLINE)?;
    ensure!(status.success(), "penstock mount ended with {status}");
    Ok(())
}

fn is_mounted(point: &Path) -> Result<bool> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mut points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    Ok(points.any(|at| Path::new(at) == point))
}

/// The second signal ends a mount whose data waits for the server, and leaves nothing where it was.
fn ended_at_once(mut mount: Mount, server: &Server) -> Result<()> {
    let path = mount.point.join("unsaved");
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let away = Away::new(server)?;
    file.write_all(b"x")?;
    mount.process.signal(Signal::TERM);
    // Signals that wait together are one: the second goes out until it is over.
    until("the end", || {
        mount.process.signal(Signal::TERM);
        Ok(mount.process.exited()?.is_some())
    })?;
    drop(away);
    drop(file);
    ensure!(!is_mounted(&mount.point)?, "a dead mount is left");
    Ok(())
}

/// A mount whose process is gone sets free who waits in it, and can be taken off.
fn daemon_killed(mount: Mount, server: &Server) -> Result<()> {
    let _away = Away::new(server)?;
    let mut reader = waiting(&mount, "cat", &["@/big"])?;
    mount.process.signal(Signal::KILL);
    let status = reader.wait(DEADLINE)?;
    ensure!(!status.success(), "cat ended with {status}");
    output(Command::new("fusermount3").arg("-u").arg(&mount.point)).map(drop)
}
