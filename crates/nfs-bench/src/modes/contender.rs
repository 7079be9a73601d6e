//! Who is measured: ours in each mode, other servers, and local I/O without any server.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;

use crate::servers::{Place, Ports, Processes, ganesha};

/// How the server moves a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Through the page cache.
    Buffered,
    /// Through the page cache, which forgets them at once.
    #[value(name = "dontcache")]
    DontCache,
    /// Past the page cache.
    Direct,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Buffered, Self::DontCache, Self::Direct];

    /// As in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::DontCache => "dontcache",
            Self::Direct => "direct",
        }
    }
}

/// Ours carries its I/O out with one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// `io_uring`.
    Uring,
    /// A pool of threads.
    Threads,
}

impl Engine {
    fn word(self) -> &'static str {
        match self {
            Self::Uring => "uring",
            Self::Threads => "threads",
        }
    }
}

/// One that takes its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// Ours.
    Penstock(Engine, Mode),
    /// NFS-Ganesha with its VFS back end.
    Ganesha,
    /// unfs3.
    Unfs3,
    /// fio on the same file system, in the same kind of cgroup, without a server: `true` with `O_DIRECT`.
    Fio {
        /// Past the page cache.
        direct: bool,
    },
    /// A responder that touches no file: what the load generator and loopback can carry.
    Responder,
}

impl Contender {
    /// As in the report.
    pub fn name(self) -> String {
        match self {
            Self::Penstock(Engine::Uring, mode) => format!("penstock {}", mode.word()),
            Self::Penstock(Engine::Threads, mode) => format!("penstock {} (threads)", mode.word()),
            Self::Ganesha => "ganesha".to_owned(),
            Self::Unfs3 => "unfs3".to_owned(),
            Self::Fio { direct: true } => "local fio direct".to_owned(),
            Self::Fio { direct: false } => "local fio buffered".to_owned(),
            Self::Responder => "bare responder".to_owned(),
        }
    }

    /// Whether it is one of the servers that ours is compared with.
    pub fn is_peer(self) -> bool {
        matches!(self, Self::Ganesha | Self::Unfs3)
    }

    /// The mode, of ours.
    pub fn mode(self) -> Option<Mode> {
        match self {
            Self::Penstock(_, mode) => Some(mode),
            Self::Ganesha | Self::Unfs3 | Self::Fio { .. } | Self::Responder => None,
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct Serving {
    /// Where a load finds it.
    pub place: Place,
    /// The process that serves.
    pub pid: u32,
    /// Where it keeps its state, log and configuration.
    pub work: PathBuf,
    _processes: Processes,
}

/// How to start one.
#[derive(Debug)]
pub struct Start<'a> {
    /// The exported directory.
    pub export: &'a Path,
    /// A new directory for state and logs.
    pub work: PathBuf,
    /// The core it is bound to.
    pub cpu: usize,
    /// Put before its command, to start it in a cgroup.
    pub wrapper: &'a [String],
    /// Where unfs3 is.
    pub unfsd: Option<&'a Path>,
}

impl Start<'_> {
    /// Starts a server; returns when it accepts connections.
    ///
    /// # Errors
    /// A binary is missing, the server does not come up, or `contender` is no server.
    pub fn start(self, contender: Contender) -> Result<Serving> {
        std::fs::create_dir_all(&self.work).with_context(|| self.work.display().to_string())?;
        let export = self.export.display().to_string();
        let ports = Ports {
            nfs: 20_501,
            mount: if contender == Contender::Ganesha {
                20_502
            } else {
                20_501
            },
        };
        let (children, mounted_as) = match contender {
            Contender::Penstock(engine, mode) => (
                vec![self.penstock(engine, mode, &export, &ports)?],
                "/".to_owned(),
            ),
            Contender::Ganesha => {
                let children = ganesha(&self.work, &export, &ports, self.cpu, self.wrapper)?;
                (children, export)
            }
            Contender::Unfs3 => (vec![self.unfs3(&export, &ports)?], export),
            Contender::Responder => (vec![self.responder(&ports)?], "/".to_owned()),
            Contender::Fio { .. } => anyhow::bail!("fio serves nobody"),
        };
        let processes = Processes(children);
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let place = Place {
            nfs: at(ports.nfs),
            mount: at(ports.mount),
            export: mounted_as,
        };
        processes.wait_until_they_accept(&contender.name(), &place, &self.work)?;
        Ok(Serving {
            place,
            pid: processes.server_pid()?,
            work: self.work,
            _processes: processes,
        })
    }

    fn penstock(&self, engine: Engine, mode: Mode, export: &str, ports: &Ports) -> Result<Child> {
        let binary = std::env::var_os("PENSTOCK_SERVER")
            .context("PENSTOCK_SERVER is not set: start this with `cargo xtask bench modes`")?;
        let config = self.work.join("penstock.toml");
        let text = penstock_config(engine, mode, export, &self.work.join("state"), ports);
        std::fs::write(&config, text).with_context(|| config.display().to_string())?;
        let mut command = self.command();
        command.arg(binary).args(["serve", "--config"]).arg(&config);
        self.spawn(command, "penstock")
    }

    fn unfs3(&self, export: &str, ports: &Ports) -> Result<Child> {
        let exports = self.work.join("exports");
        std::fs::write(&exports, format!("{export} (rw,no_root_squash,insecure)\n"))
            .with_context(|| exports.display().to_string())?;
        let (nfs, mount) = (ports.nfs.to_string(), ports.mount.to_string());
        let mut command = self.command();
        // In the foreground, TCP only, any source port, not registered with rpcbind.
        command
            .arg(self.unfsd.context("unfsd is not there")?)
            .args(["-d", "-t", "-u", "-p", "-n", &nfs, "-m", &mount])
            .arg("-e")
            .arg(&exports);
        self.spawn(command, "unfsd")
    }

    fn responder(&self, ports: &Ports) -> Result<Child> {
        let mut command = self.command();
        command
            .arg(std::env::current_exe()?)
            .args(["respond", "--port", &ports.nfs.to_string()]);
        self.spawn(command, "the responder")
    }

    fn command(&self) -> Command {
        let mut command = Command::new("taskset");
        command
            .args(["-c", &self.cpu.to_string()])
            .args(self.wrapper);
        command
    }

    fn spawn(&self, mut command: Command, name: &str) -> Result<Child> {
        command
            .stdin(Stdio::null())
            .stdout(File::create(self.work.join("output"))?)
            .stderr(File::create(self.work.join("log"))?);
        command.spawn().with_context(|| format!("starting {name}"))
    }
}

fn penstock_config(
    engine: Engine,
    mode: Mode,
    export: &str,
    state: &Path,
    ports: &Ports,
) -> String {
    let (engine, mode, port, state) = (engine.word(), mode.word(), ports.nfs, state.display());
    format!(
        "[server]\nlisten = [\"127.0.0.1:{port}\"]\nstate_dir = \"{state}\"\nengine = \"{engine}\"\nrpcbind = false\n\n\
         [[export]]\npath = \"{export}\"\npseudo = \"/\"\nclients = [\"127.0.0.1\"]\nsquash = \"none\"\n\
         read = \"{mode}\"\nwrite = \"{mode}\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_contenders_apart() {
        let mut all = vec![
            Contender::Ganesha,
            Contender::Unfs3,
            Contender::Responder,
            Contender::Fio { direct: true },
            Contender::Fio { direct: false },
        ];
        for engine in [Engine::Uring, Engine::Threads] {
            all.extend(Mode::ALL.map(|mode| Contender::Penstock(engine, mode)));
        }
        let mut names: Vec<String> = all.iter().map(|c| c.name()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert_eq!(all.iter().filter(|c| c.is_peer()).count(), 2);
    }
}
