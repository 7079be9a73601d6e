//! Servers as processes of a run: started in as much memory as they are to have, and ended with it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::cgroup::Cgroup;
use crate::error::LoadError;
use crate::ganesha::Served;

/// How long a server may take until it accepts connections.
const START_WITHIN: Duration = Duration::from_secs(30);
/// How long it may take to end when it is asked to.
const END_WITHIN: Duration = Duration::from_secs(10);
/// How many lines of its log are shown when it does not start.
const LOG_LINES: usize = 5;

/// The memory that a server is started in.
#[derive(Debug)]
pub(crate) struct Room(Option<Cgroup>);

impl Room {
    /// Makes room for the server that is called `name`: a memory cgroup of so many bytes, or all there is.
    pub(crate) fn new(name: &str, memory_bytes: Option<u64>) -> Result<Self, LoadError> {
        let name = |bytes| (format!("{}-{name}", std::process::id()), bytes);
        let group = memory_bytes.map(name);
        let group = group.map(|(name, bytes)| Cgroup::new(&name, bytes));
        Ok(Self(group.transpose()?))
    }

    /// The beginning of a command that runs in here and gets `signal` when this process ends, even if that is killed.
    fn command(&self, signal: &str, program: &Path) -> Command {
        let group = self.0.iter().flat_map(Cgroup::wrapper);
        let mut words: Vec<OsString> = group.map(OsString::from).collect();
        let has = |directory: PathBuf| directory.join("setpriv").is_file();
        let path = std::env::var_os("PATH").unwrap_or_default();
        if std::env::split_paths(&path).any(has) {
            words.extend(["setpriv", "--pdeathsig", signal, "--"].map(OsString::from));
        }
        words.push(program.into());
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        // Ctrl-C is the run's to handle: it ends its servers when it is done with them.
        command
            .args(words)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }
}

/// A server as a process, asked to end when dropped, and waited for.
#[derive(Debug)]
pub(crate) struct Serving {
    child: Child,
    /// The process that serves, where it is one that the child started.
    served: Option<u32>,
    // Removed when its last process has ended.
    _room: Room,
}

impl Serving {
    /// Starts our server; gives the port that it says it listens on.
    pub(crate) fn listening(
        name: &str,
        room: Room,
        program: &Path,
        arguments: &[OsString],
        log: &Path,
    ) -> Result<(Self, u16), LoadError> {
        let mut command = room.command("TERM", program);
        command.args(arguments).stdout(Stdio::piped());
        let mut serving = Self::spawn(name, room, &mut command, log)?;
        let Some(out) = serving.child.stdout.take() else {
            return Err(failed(name, "it has no standard output".to_owned()));
        };
        let (found, port) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            for line in lines {
                let port = line
                    .strip_prefix("listening ")
                    .and_then(|at| at.rsplit(':').next());
                if let Some(port) = port.and_then(|port| port.parse().ok()) {
                    // Whoever waited too long is gone.
                    let _sent = found.send(port);
                }
            }
        });
        match port.recv_timeout(START_WITHIN) {
            Ok(port) => Ok((serving, port)),
            Err(_) => {
                drop(serving);
                Err(failed(name, last_words(log)))
            }
        }
    }

    /// Starts Ganesha; `answers` when this returns. It accepts connections before it is sure that it will serve.
    pub(crate) fn ganesha(
        name: &str,
        room: Room,
        served: &Served<'_>,
        answers: impl Fn() -> bool,
    ) -> Result<Self, LoadError> {
        let mut words = served.command_line_in_private()?.into_iter();
        let program = PathBuf::from(words.next().unwrap_or_default());
        // The program in front hands no other signal on.
        let mut command = room.command("KILL", &program);
        command.args(words);
        let output = served.dir.join("output");
        let mut serving = Self::spawn(name, room, &mut command, &output)?;
        let deadline = Instant::now() + START_WITHIN;
        let accepts = |port| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        while !(accepts(served.ports.nfs) && accepts(served.ports.mount) && answers()) {
            let is_over = Instant::now() > deadline;
            if is_over || !matches!(serving.child.try_wait(), Ok(None)) {
                let said = [last_words(&output), last_words(&served.log())];
                return Err(failed(name, said.join("; ")));
            }
            // SLEEP: a poll until a server that tells nobody is ready.
            std::thread::sleep(Duration::from_millis(20));
        }
        let first = serving.child.id();
        let children = PathBuf::from(format!("/proc/{first}/task/{first}/children"));
        let numbers = fs::read_to_string(&children).map_err(LoadError::local(&children))?;
        let number = numbers.split_whitespace().next();
        serving.served = number.and_then(|number| number.parse().ok());
        Ok(serving)
    }

    fn spawn(name: &str, room: Room, command: &mut Command, log: &Path) -> Result<Self, LoadError> {
        let said = File::create(log).map_err(LoadError::local(log))?;
        let child = command.stderr(said).spawn();
        let child = child.map_err(|error| failed(name, error.to_string()))?;
        Ok(Self {
            child,
            served: None,
            _room: room,
        })
    }

    /// The process whose time is counted.
    pub(crate) fn pid(&self) -> u32 {
        self.served.unwrap_or_else(|| self.child.id())
    }
}

fn failed(name: &str, why: String) -> LoadError {
    LoadError::Start {
        server: name.to_owned(),
        why,
    }
}

fn last_words(log: &Path) -> String {
    let said = fs::read_to_string(log).unwrap_or_default();
    let mut last: Vec<&str> = said.lines().rev().take(LOG_LINES).collect();
    last.reverse();
    last.join("; ")
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.pid().cast_signed()) {
            // Who waits for it is waited for below only, so the number is still its own, or nobody's.
            let _ended_before = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + END_WITHIN;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            // SLEEP: a poll for the end of a process that was asked to end.
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ended_now = self.child.kill();
        let _status = self.child.wait();
    }
}
