//! The server under test, as a process.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::Signal;
use serde::Deserialize;

use crate::{Lab, Memory, Netns, Running, output};

/// How long the server may take until it says `ready`.
const READY_DEADLINE: Duration = Duration::from_secs(30);
/// How long the server may drain after SIGTERM.
const DRAIN_DEADLINE: Duration = Duration::from_secs(30);

/// Hands a program the socket that is the shell's standard input, as systemd does: as descriptor 3, with the process's own
/// id in the environment.
const TAKE_SOCKET: &str = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";

/// How a server is started; the default is a loopback server with a port of its own.
#[derive(Default)]
pub struct ServerOptions<'a> {
    /// `ADDR:PORT`; empty means a port of an address on loopback that no other process uses: nobody is given it while
    /// the server is away.
    pub listen: String,
    /// A socket that it is handed instead of an address, as systemd does it: who holds the socket is connected to also
    /// while no server is there.
    pub socket: Option<&'a TcpListener>,
    /// How much memory it may use for data: its `--memory` option.
    pub memory: Option<&'a str>,
    /// The network namespace that it runs in; that of this process without one.
    pub netns: Option<&'a Netns>,
    /// A configuration file instead of the exported directory.
    pub config: Option<PathBuf>,
    /// Where it finds what is to fail, or wait; see [`super::Hold`].
    pub faults: Option<&'a Path>,
    /// Run as nobody, without any capability. The program and its directories must be readable by all.
    pub unprivileged: bool,
    /// Further arguments for the server's command line.
    pub more: &'a [&'a str],
}

/// A running server, which is killed on drop.
pub struct Server {
    process: Running,
    address: SocketAddr,
    /// What it says on its standard output after where it listens.
    said: mpsc::Receiver<String>,
    log: PathBuf,
    program: PathBuf,
    state: PathBuf,
}

/// The part of `ctl --json status` that is looked at.
#[derive(Deserialize)]
struct Status {
    io: Vec<IoFigures>,
    counters: BTreeMap<String, u64>,
    operations: Vec<OperationFigures>,
}

/// How often an operation of NFSv4 came.
#[derive(Deserialize)]
struct OperationFigures {
    procedure: String,
    calls: u64,
}

/// How the bytes of one export's READs or WRITEs went, in the server's own words (`ctl status`).
#[derive(Debug, Deserialize)]
pub struct IoFigures {
    /// The export's path as clients mount it, `pseudo` in the configuration.
    pub export: String,
    /// The operation that is counted: `read` or `write`.
    pub operation: String,
    /// Number of calls, failed ones included.
    pub calls: u64,
    /// Bytes by the mode in which they really went.
    pub moved_bytes: BTreeMap<String, u64>,
    /// Calls that went another way than was chosen, by reason.
    pub fallbacks: BTreeMap<String, u64>,
}

impl Server {
    /// Starts the server on `export` with its state in `state`, and waits until it is ready. The
    /// log goes to `server.log` of the laboratory's directory (appended, over restarts).
    ///
    /// # Errors
    /// When it ends or does not say `ready` in time.
    pub fn start(
        lab: &Lab,
        export: &Path,
        state: &Path,
        options: &ServerOptions<'_>,
    ) -> Result<Self> {
        let log = lab.dir.join("server.log");
        let log_file = OpenOptions::new().create(true).append(true).open(&log)?;
        let program = if options.unprivileged {
            Path::new("setpriv")
        } else {
            &lab.program
        };
        let first = options.socket.map_or(program, |_| Path::new("sh"));
        let mut command = options
            .netns
            .map_or_else(|| Command::new(first), |n| n.command(first));
        if options.socket.is_some() {
            command.args(["-c", TAKE_SOCKET, "sh"]).arg(program);
        }
        if options.unprivileged {
            command.args([
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "--inh-caps=-all",
                "--bounding-set=-all",
            ]);
            command.arg(&lab.program);
        }
        command.arg("serve");
        match &options.config {
            Some(config) => command.arg("--config").arg(config),
            None => command.arg(export),
        };
        if options.socket.is_none() {
            let own = options.listen.is_empty().then(own_address);
            command.arg("--listen");
            command.arg(own.as_ref().unwrap_or(&options.listen));
        }
        command.args(["--engine", lab.engine.name()]);
        command.arg("--state-dir").arg(state);
        if let Some(memory) = options.memory {
            command.args(["--memory", memory]);
        }
        command.args(options.more);
        if let Some(faults) = options.faults {
            command.env("PENSTOCK_FAULTS", faults);
        }
        let stdin = match options.socket {
            Some(socket) => Stdio::from(OwnedFd::from(socket.try_clone()?)),
            None => Stdio::null(),
        };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(log_file);
        let mut process = Running::start(&mut command)?;
        let stdout = process
            .child()
            .stdout
            .take()
            .context("the server's standard output")?;
        let (address, said) = wait_until_ready(stdout)
            .with_context(|| format!("the server did not start: {command:?}"))?;
        Ok(Self {
            process,
            address,
            said,
            log,
            program: lab.program.clone(),
            state: state.to_path_buf(),
        })
    }

    /// The address on which the server answers.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a line of its standard output that begins with `word` and a space, and returns what follows; lines
    /// before it are skipped.
    ///
    /// # Errors
    /// When it says no such thing in time.
    pub fn said(&self, word: &str) -> Result<String> {
        loop {
            let line = self.said.recv_timeout(READY_DEADLINE);
            let line = line.with_context(|| format!("the server never said \"{word}\""))?;
            if let Some((_, rest)) = line.split_once(' ').filter(|(first, _)| *first == word) {
                return Ok(rest.to_owned());
            }
        }
    }

    /// Ends the server as an operator does: SIGTERM, drained, exit code 0.
    ///
    /// # Errors
    /// When it does not end in time, ends otherwise, or its log tells of a panic.
    pub fn stop(mut self) -> Result<()> {
        self.process.signal(Signal::TERM);
        let status = self.process.wait(DRAIN_DEADLINE).context("after SIGTERM")?;
        ensure!(
            status.success(),
            "the server ended with {status} after SIGTERM"
        );
        self.no_panic()
    }

    /// Ends the server as a crash does, with SIGKILL. When this returns, it has ended.
    ///
    /// # Errors
    /// When it had ended before, or its log tells of a panic.
    pub fn kill(&mut self) -> Result<()> {
        self.alive()?;
        self.process.signal(Signal::KILL);
        self.process.wait(DRAIN_DEADLINE).context("after SIGKILL")?;
        self.no_panic()
    }

    /// Ends the server by SIGKILL where it cannot end before `meanwhile` has run: one of its threads waits in
    /// the kernel for what `meanwhile` lets go, and ends when its system call has.
    ///
    /// # Errors
    /// Those of [`Server::kill`] and of `meanwhile`.
    pub fn kill_while(&mut self, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
        self.alive()?;
        self.process.signal(Signal::KILL);
        meanwhile()?;
        self.process.wait(DRAIN_DEADLINE).context("after SIGKILL")?;
        self.no_panic()
    }

    /// Waits until a thread of the server waits for a file system that is frozen ([`Frozen`]) to be thawed.
    ///
    /// [`Frozen`]: crate::Frozen
    ///
    /// # Errors
    /// When none does in time.
    pub fn until_it_waits_for_a_thaw(&self, within: Duration) -> Result<()> {
        // Where the kernel makes a change wait (sb_start_write). The state `D` would not tell: a thread has it for a
        // moment at many a lock.
        const WAITS: &str = "percpu_rwsem_wait";
        let deadline = Instant::now() + within;
        loop {
            for thread in fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
                // A thread that has ended meanwhile waits for nothing.
                let place = fs::read_to_string(thread?.path().join("wchan")).unwrap_or_default();
                if place == WAITS {
                    return Ok(());
                }
            }
            ensure!(Instant::now() < deadline, "no thread waits for the thaw");
            std::thread::yield_now();
        }
    }

    /// Makes sure that it still runs.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn alive(&mut self) -> Result<()> {
        match self.process.exited()? {
            None => Ok(()),
            Some(status) => bail!("the server has ended: {status}"),
        }
    }

    /// The largest resident set so far, in bytes (`VmHWM` of proc(5)).
    ///
    /// # Errors
    /// When /proc does not say.
    pub fn resident_max(&self) -> Result<u64> {
        Ok(Memory::of(self.process.id())?.peak_bytes)
    }

    /// The memory that it has now, bytes.
    ///
    /// # Errors
    /// When /proc does not say.
    pub fn resident(&self) -> Result<u64> {
        Ok(Memory::of(self.process.id())?.resident_bytes)
    }

    /// How bytes went since it was started.
    ///
    /// # Errors
    /// When it does not answer on its control socket.
    pub fn io_figures(&self) -> Result<Vec<IoFigures>> {
        Ok(status(&self.program, &self.state)?.io)
    }

    /// Process id of the server.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits until the process `tracer` traces all of its threads.
    ///
    /// # Errors
    /// When that has not come about in time.
    pub fn until_traced(&self, tracer: u32, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        let wanted = format!("TracerPid:\t{tracer}");
        loop {
            let mut all = true;
            for thread in fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
                // A thread that has ended meanwhile needs no tracer.
                let status = fs::read_to_string(thread?.path().join("status"));
                all &= status.is_ok_and(|text| text.lines().any(|line| line == wanted));
            }
            if all {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "not traced after {within:?}");
            std::thread::yield_now();
        }
    }

    /// Keeps the server from making any file longer than `bytes` from now on (`RLIMIT_FSIZE`).
    ///
    /// # Errors
    /// When the kernel does not let us.
    pub fn limit_file_size(&self, bytes: u64) -> Result<()> {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        let limit = Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        };
        let process = Pid::from_raw(self.process.id().cast_signed());
        prlimit(process, Resource::Fsize, limit).context("prlimit")?;
        Ok(())
    }

    fn no_panic(&self) -> Result<()> {
        let mut text = Vec::new();
        let mut log = File::open(&self.log)?;
        let length = log.metadata()?.len();
        log.seek(SeekFrom::Start(length.saturating_sub(1 << 20)))?;
        log.read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        match text.lines().find(|line| line.contains("panicked at")) {
            Some(line) => bail!("the server's log tells of a panic: {line}"),
            None => Ok(()),
        }
    }
}

/// The counter `name` of the server whose state is in `state`.
///
/// # Errors
/// When it does not answer on its control socket, or counts no such thing.
pub fn counter(lab: &Lab, state: &Path, name: &str) -> Result<u64> {
    let counters = status(&lab.program, state)?.counters;
    let counted = counters.get(name).copied();
    counted.with_context(|| format!("the server counts no {name}"))
}

/// How often the NFSv4 operation `name` came to the server whose state is in `state`, refused ones included.
///
/// # Errors
/// When it does not answer on its control socket.
pub fn operations(lab: &Lab, state: &Path, name: &str) -> Result<u64> {
    let operations = status(&lab.program, state)?.operations;
    let found = operations.iter().find(|it| it.procedure == name);
    Ok(found.map_or(0, |it| it.calls))
}

fn status(program: &Path, state: &Path) -> Result<Status> {
    let mut command = Command::new(program);
    command.args(["ctl", "--json", "--state-dir"]).arg(state);
    let text = output(command.arg("status"))?;
    serde_json::from_slice(&text).context("what `ctl status` said")
}

/// A port of its own of an address on loopback, by the process id.
fn own_address() -> String {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    format!("127.{}.{low}.1:0", 1 + high % 128)
}

/// Waits for `ready` and the line after it, `listening ADDR:PORT`.
fn wait_until_ready(
    stdout: impl Read + Send + 'static,
) -> Result<(SocketAddr, mpsc::Receiver<String>)> {
    let (sender, lines) = mpsc::channel();
    // The thread goes on reading after `ready`, so that the server never blocks on a full pipe; it
    // ends with the server.
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _nobody_waits_any_more = sender.send(line);
        }
    });
    let next = || match lines.recv_timeout(READY_DEADLINE) {
        Ok(line) => Ok(line),
        Err(mpsc::RecvTimeoutError::Timeout) => bail!("not ready after {READY_DEADLINE:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => bail!("it ended before it was ready"),
    };
    let first = next()?;
    ensure!(first == "ready", "it said {first:?} instead of `ready`");
    let second = next()?;
    let address = second.strip_prefix("listening ");
    let address = address
        .and_then(|address| address.parse().ok())
        .with_context(|| format!("it said {second:?} instead of where it listens"))?;
    Ok((address, lines))
}
