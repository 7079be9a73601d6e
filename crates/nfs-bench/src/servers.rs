//! Servers as processes: ours, NFS-Ganesha, unfs3, a plain program, and a responder that touches no file, each bound to
//! one core and reached over loopback.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nfs_lab::{Engine, Running, needs};

use crate::limits;
use nfs_load::ganesha::{Clients, Ports, Protocols, Served};
use nfs_load::respond;

/// The pause between two looks whether a server accepts connections; its end is seen at once.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// How long a server may take to end when it is asked to.
const END_DEADLINE: Duration = Duration::from_secs(10);
/// Number of lines of a log that are shown when its server does not come up.
const LOG_LINES: usize = 10;

/// The program that serves, with the settings that are its own.
#[derive(Clone, Copy, Debug)]
pub enum Program<'a> {
    /// The server of this project: `penstock serve`.
    Penstock(Penstock<'a>),
    /// NFS-Ganesha with its VFS back end, from the distribution's packages.
    Ganesha,
    /// unfs3, given the path of its program `unfsd`.
    Unfs3(&'a Path),
    /// The responder of [`nfs_load::respond`], run as a process of its own.
    Responder(Responder),
    /// The same as a plain program that reads and writes the files of the directory ([`respond::Files`]).
    Plain {
        /// Whether it does so past the page cache.
        is_direct: bool,
    },
}

/// How the server of this project is configured; everything that is not here is at its default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Penstock<'a> {
    /// The I/O engine to use; `None` leaves the choice to the server.
    pub engine: Option<Engine>,
    /// The word of the mode for READ and WRITE.
    pub mode: Option<&'a str>,
    /// How much is read ahead of direct READs; the server's own choice if not given.
    pub read_ahead: Option<&'a str>,
    /// Whether space is taken ahead of streams of WRITEs; the server's own choice if not given.
    pub reserve: Option<bool>,
    /// Whether the ends of direct WRITEs are staged.
    pub staging: bool,
    /// Whether WRITEs that come out of order wait for those before them.
    pub order: bool,
    /// The path by which clients mount the export.
    pub pseudo: &'a str,
    /// An address on a wire to guests on which the server listens, too, and the guests' network.
    pub guests: Option<(&'a str, &'a str)>,
    /// A network of loopback that the export admits, beside this machine's usual address and the guests. Each
    /// address of loopback is a host of its own then.
    pub neighbours: Option<&'a str>,
    /// How long its shards look for more calls before they sleep; not at all if not given.
    pub busy_poll: Option<&'a str>,
}

/// How the responder answers; these are the options of its command line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Responder {
    /// Size of every file in bytes.
    pub file_bytes: u64,
    /// How long after its call a reply leaves, in microseconds.
    pub delay_us: u64,
    /// Whether the responder copies what is written out of the kernel.
    pub copied: bool,
    /// How long it looks for the next call before it sleeps; not at all if not given.
    pub busy_poll: Option<&'static str>,
}

/// The addresses and the path with which a load reaches a server.
#[derive(Clone, Debug)]
pub struct Place {
    /// Address of the NFS program.
    pub nfs: SocketAddr,
    /// Address of the MOUNT program.
    pub mount: SocketAddr,
    /// Path of the export, as MOUNT takes it.
    pub export: String,
}

/// A server that is to be started, and everything that its start needs.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    /// The server's name in messages.
    pub name: &'a str,
    /// The program to start, with its settings.
    pub program: Program<'a>,
    /// The directory that the server exports.
    pub directory: &'a Path,
    /// A directory for the server's state, log and configuration.
    pub work: &'a Path,
    /// Port of the NFS program; MOUNT has the same one, but with Ganesha the next.
    pub port: u16,
    /// Number of the core that the server is bound to.
    pub cpu: usize,
    /// Words before the server's command: a profiler, or what puts the server into a cgroup.
    pub wrapper: &'a [String],
}

/// A running server; asked to end when dropped, and waited for.
pub struct Server {
    /// The addresses and the path with which a load reaches this server.
    pub place: Place,
    /// Process id of the server; rpcbind, which runs beside Ganesha, has another.
    pub pid: u32,
    /// The processes that were started, the server itself last.
    processes: Vec<Running>,
}

/// Why a server that was started does not serve.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It ended by itself, as one does that refuses its configuration.
    #[error(
        "{name} ended ({status}) before it accepted connections; does this build of it take the options and the configuration in {}? It said:\n{said}",
        log.display()
    )]
    Ended {
        /// The server's name in messages.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// Its log, beside which its configuration lies.
        log: PathBuf,
        /// The end of its log.
        said: String,
    },
    /// It runs, and accepts no connections.
    #[error("{name} accepts no connections on {address}; the end of {}:\n{said}", log.display())]
    Late {
        /// The server's name in messages.
        name: String,
        /// The address that was tried last.
        address: SocketAddr,
        /// Its log.
        log: PathBuf,
        /// The end of its log.
        said: String,
    },
}

impl Start<'_> {
    /// Starts the server; returns when it accepts connections.
    ///
    /// # Errors
    /// The program is missing, or it does not come up: [`StartError`], which has the end of its log.
    pub fn start(&self) -> Result<Server> {
        std::fs::create_dir_all(self.directory)?;
        std::fs::create_dir_all(self.work).with_context(|| self.work.display().to_string())?;
        let ports = self.ports();
        let mut processes = Vec::new();
        if matches!(self.program, Program::Ganesha) {
            processes.push(self.spawn(["rpcbind", "-w", "-f"].map(OsString::from), false)?);
        }
        let served = self.spawn(self.words(ports)?, true)?;
        let pid = served.id();
        processes.push(served);
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut server = Server {
            place: Place {
                nfs: at(ports.nfs),
                mount: at(ports.mount),
                export: self.mounted_as(),
            },
            pid,
            processes,
        };
        self.wait_until_it_accepts(&mut server)?;
        Ok(server)
    }

    fn ports(&self) -> Ports {
        let mount = match self.program {
            Program::Ganesha => self.port + 1,
            Program::Penstock(_)
            | Program::Unfs3(_)
            | Program::Responder(_)
            | Program::Plain { .. } => self.port,
        };
        Ports {
            nfs: self.port,
            mount,
        }
    }

    fn mounted_as(&self) -> String {
        match self.program {
            Program::Penstock(ours) => ours.pseudo.to_owned(),
            Program::Responder(_) | Program::Plain { .. } => respond::EXPORT.to_owned(),
            Program::Ganesha | Program::Unfs3(_) => self.directory.display().to_string(),
        }
    }

    /// The command line that starts the server; writes the configuration files that it names.
    fn words(&self, ports: Ports) -> Result<Vec<OsString>> {
        match self.program {
            Program::Penstock(ours) => {
                let config = self.work.join("penstock.toml");
                self.write(&config, &self.penstock_config(ours))?;
                let words = [binary()?.into(), "serve".into(), "--config".into()];
                Ok([&words[..], &[config.into()]].concat())
            }
            Program::Ganesha => {
                let served = Served {
                    dir: self.work,
                    export: self.directory,
                    ports,
                    protocols: Protocols::V3AndV41,
                    clients: Clients::Everybody,
                };
                Ok(served.command_line()?)
            }
            Program::Unfs3(unfsd) => {
                let exports = self.work.join("exports");
                let directory = self.directory.display();
                self.write(
                    &exports,
                    &format!("{directory} (rw,no_root_squash,insecure)\n"),
                )?;
                let port = self.port.to_string();
                // In the foreground, TCP only, any source port, not registered with rpcbind.
                let options = ["-d", "-t", "-u", "-p", "-n", &port, "-m", &port, "-e"];
                let options = options.map(OsString::from);
                Ok([&[unfsd.into()], &options[..], &[exports.into()]].concat())
            }
            Program::Responder(how) => {
                let numbers = [
                    ("--port", u64::from(self.port)),
                    ("--file-bytes", how.file_bytes),
                    ("--delay-us", how.delay_us),
                ];
                let mut words = vec![std::env::current_exe()?.into(), "respond".into()];
                for (option, number) in numbers {
                    words.extend([option.into(), number.to_string().into()]);
                }
                words.extend(how.copied.then(|| "--copied".into()));
                words.extend(
                    how.busy_poll
                        .map(|time| format!("--busy-poll={time}").into()),
                );
                Ok(words)
            }
            Program::Plain { is_direct } => {
                let port = format!("--port={}", self.port);
                let mut words = vec![std::env::current_exe()?.into(), "respond".into()];
                words.extend([port.into(), "--files".into(), self.directory.into()]);
                words.extend(is_direct.then(|| "--direct".into()));
                Ok(words)
            }
        }
    }

    fn write(&self, path: &Path, text: &str) -> Result<()> {
        std::fs::write(path, text).with_context(|| path.display().to_string())
    }

    fn penstock_config(&self, ours: Penstock<'_>) -> String {
        let (port, state) = (self.port, self.work.join("state"));
        let (state, directory) = (state.display(), self.directory.display());
        let (listen, clients) = match ours.guests {
            Some((host, network)) => (format!(", \"{host}:{port}\""), format!(", \"{network}\"")),
            None => (String::new(), String::new()),
        };
        let (trust, neighbours) = match ours.neighbours {
            Some(network) => ("trust_loopback = true\n", format!(", \"{network}\"")),
            None => ("", String::new()),
        };
        let mut engine = ours.engine.map_or(String::new(), |engine| {
            format!("engine = \"{}\"\n", engine.name())
        });
        if let Some(time) = ours.busy_poll {
            let _ = writeln!(engine, "busy_poll = \"{time}\"");
        }
        let mut modes = ours.mode.map_or(String::new(), |mode| {
            format!("read = \"{mode}\"\nwrite = \"{mode}\"\n")
        });
        let staging = if ours.staging { "staging = true\n" } else { "" };
        let ahead = ours
            .read_ahead
            .map_or(String::new(), |ahead| format!("read_ahead = \"{ahead}\"\n"));
        if let Some(reserve) = ours.reserve {
            let _ = writeln!(modes, "reserve = {reserve}");
        }
        if ours.order {
            modes.push_str("order = true\n");
        }
        format!(
            "[server]\nlisten = [\"127.0.0.1:{port}\"{listen}]\nstate_dir = \"{state}\"\nversions = [\"3\", \"4.1\"]\nrpcbind = false\n{trust}{engine}\n\
             [[export]]\npath = \"{directory}\"\npseudo = \"{}\"\nclients = [\"127.0.0.1\"{clients}{neighbours}]\nsquash = \"none\"\n{modes}{ahead}{staging}",
            ours.pseudo
        )
    }

    /// Starts a part of the server, with its messages in a log; only the server itself is measured.
    fn spawn(
        &self,
        words: impl IntoIterator<Item = OsString>,
        is_measured: bool,
    ) -> Result<Running> {
        let mut command = on_core(self.cpu);
        if is_measured {
            command.args(self.wrapper);
        }
        let log = |name| {
            File::options()
                .create(true)
                .append(true)
                .open(self.work.join(name))
        };
        command
            .args(words)
            .stdin(Stdio::null())
            .stdout(log("output")?)
            .stderr(log("log")?);
        Running::start(&mut command).with_context(|| format!("starting {}", self.name))
    }

    fn wait_until_it_accepts(&self, server: &mut Server) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(limits::START_SECONDS_MAX);
        let (name, log) = (self.name.to_owned(), self.work.join("log"));
        for address in [server.place.nfs, server.place.mount] {
            while TcpStream::connect(address).is_err() {
                if let Some(status) = server.ended_within(BETWEEN_LOOKS)? {
                    let said = self.end_of_logs();
                    return Err(StartError::Ended {
                        name,
                        status,
                        log,
                        said,
                    }
                    .into());
                }
                if Instant::now() > deadline {
                    let said = self.end_of_logs();
                    return Err(StartError::Late {
                        name,
                        address,
                        log,
                        said,
                    }
                    .into());
                }
            }
        }
        Ok(())
    }

    fn end_of_logs(&self) -> String {
        let text = ["log", "ganesha.log"]
            .map(|name| std::fs::read_to_string(self.work.join(name)).unwrap_or_default())
            .concat();
        let mut end: Vec<&str> = text.lines().rev().take(LOG_LINES).collect();
        end.reverse();
        end.join("\n")
    }
}

impl Server {
    /// Waits until one of the processes has ended, but not longer than `within`; `None` if all still run.
    fn ended_within(&mut self, within: Duration) -> Result<Option<ExitStatus>> {
        let (served, beside) = self.processes.split_last_mut().context("no process")?;
        for process in beside {
            if let Some(status) = process.exited()? {
                return Ok(Some(status));
            }
        }
        served.ended_within(within)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Asked, not killed, so that a profiler writes what it has seen.
        while let Some(process) = self.processes.pop() {
            process.end(END_DEADLINE);
        }
    }
}

/// The `penstock` command.
///
/// # Errors
/// This was not started by `cargo xtask bench`, which says where it is.
pub fn binary() -> Result<PathBuf> {
    std::env::var_os("PENSTOCK_SERVER")
        .map(PathBuf::from)
        .context("PENSTOCK_SERVER is not set: start this with `cargo xtask bench`")
}

/// The beginning of a command that stays on one core.
pub fn on_core(cpu: usize) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string()]);
    command
}

/// What a report says of Ganesha where it is not installed.
pub const WITHOUT_GANESHA: &str = "ganesha: install nfs-ganesha, nfs-ganesha-vfs and rpcbind";

/// Whether Ganesha and what it needs are installed.
pub fn ganesha_is_installed() -> bool {
    needs::missing(needs::Need::Ganesha, Engine::Threads).is_none()
        && needs::find("rpcbind").is_some()
}

#[cfg(test)]
mod tests {
    use nfs_lab::Scratch;

    use super::*;

    #[test]
    fn a_server_that_ends_at_its_start_is_not_waited_for() {
        let place = Scratch::new("bench-start").unwrap();
        let start = Start {
            name: "no server at all",
            // It does not know all of the options, and says so.
            program: Program::Unfs3(Path::new("ls")),
            directory: place.path(),
            work: &place.path().join("work"),
            // Nobody listens on it, as TCPMUX is long dead.
            port: 1,
            cpu: 0,
            wrapper: &[],
        };
        let error = start.start().err().unwrap();
        let Some(StartError::Ended { status, said, .. }) = error.downcast_ref() else {
            panic!("{error:#}");
        };
        assert_eq!(status.code(), Some(2));
        assert!(said.starts_with("ls: "), "{said}");
    }
}
