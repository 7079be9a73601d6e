//! The servers that clients are measured on.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::counters;
use crate::respond;
use crate::servers::{Place, Ports, Processes, ganesha};

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Server {
    /// Ours, buffered.
    Penstock,
    /// NFS-Ganesha with its VFS back end.
    Ganesha,
    /// A responder that touches no file.
    Responder,
    /// The same, answering each call [`DELAY_US`] later.
    Distant,
}

/// How long after its call the distant responder answers, in microseconds: a disk that has to move its arm a little, or
/// a network of some hundred kilometres.
pub const DELAY_US: u64 = 2000;
/// The servers' address on the wire to a guest with the kernel's client.
pub const HOST: &str = "10.99.2.1";

impl Server {
    /// As in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Penstock => "penstock",
            Self::Ganesha => "ganesha",
            Self::Responder => "responder",
            Self::Distant => "responder 2 ms away",
        }
    }

    /// Whether it serves files: what was written can be looked at.
    pub fn has_files(self) -> bool {
        matches!(self, Self::Penstock | Self::Ganesha)
    }

    fn ports(self) -> Ports {
        let (nfs, mount) = match self {
            Self::Penstock => (20_511, 20_511),
            // Its lock manager takes the next one.
            Self::Ganesha => (20_513, 20_514),
            Self::Responder => (20_516, 20_516),
            Self::Distant => (20_517, 20_517),
        };
        Ports { nfs, mount }
    }
}

/// A running server; ended when dropped.
#[derive(Debug)]
pub struct Serving {
    /// Which one.
    pub server: Server,
    /// The directory that it serves, if it serves files.
    pub directory: PathBuf,
    place: Place,
    pid: u32,
    _processes: Processes,
}

impl Serving {
    /// Starts one on core `cpu`, for loopback and, with `wire`, for guests, that serves `directory`, with its state and logs in the new directory `work`. The files of
    /// responders have `file_bytes`.
    ///
    /// # Errors
    /// A program is missing, or the server does not come up; the message has the end of its log.
    pub fn start(
        server: Server,
        directory: &Path,
        work: &Path,
        (cpu, wire): (usize, bool),
        file_bytes: u64,
    ) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        std::fs::create_dir_all(work)?;
        let ports = server.ports();
        let path = directory.display().to_string();
        let (children, export) = match server {
            Server::Ganesha => (ganesha(work, &path, &ports, cpu, &[])?, path),
            Server::Penstock => {
                let child = penstock(&path, work, &ports, (cpu, wire))?;
                (vec![child], respond::EXPORT.to_owned())
            }
            Server::Responder | Server::Distant => {
                let delay = if server == Server::Distant {
                    DELAY_US
                } else {
                    0
                };
                let child = responder(work, &ports, cpu, file_bytes, delay)?;
                (vec![child], respond::EXPORT.to_owned())
            }
        };
        let processes = Processes(children);
        let at = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let place = Place {
            nfs: at(ports.nfs),
            mount: at(ports.mount),
            export,
        };
        processes.wait_until_they_accept(server.name(), &place, work)?;
        Ok(Self {
            server,
            directory: directory.to_owned(),
            place,
            pid: processes.server_pid()?,
            _processes: processes,
        })
    }

    /// What our commands are given for the file `name`.
    pub fn url(&self, name: &str, nconnect: Option<u32>) -> String {
        let (nfs, mount) = (self.place.nfs, self.place.mount.port());
        let connections = nconnect.map_or(String::new(), |n| format!("&nconnect={n}"));
        format!(
            "nfs://{nfs}{}/{name}?mountport={mount}{connections}",
            self.place.export
        )
    }

    /// What libnfs's utilities are given: ports are options there. Without the options, which follow as the second.
    pub fn libnfs_url(&self, name: &str) -> (String, String) {
        let (nfs, mount) = (self.place.nfs, self.place.mount.port());
        (
            format!("nfs://{}{}/{name}", nfs.ip(), self.place.export),
            format!("?version=3&nfsport={}&mountport={mount}", nfs.port()),
        )
    }

    /// What is mounted, and the ports of NFS and MOUNT.
    pub fn mounted(&self) -> (&str, u16, u16) {
        let place = &self.place;
        (&place.export, place.nfs.port(), place.mount.port())
    }

    /// CPU seconds so far, in its own code and in the kernel.
    ///
    /// # Errors
    /// It has ended.
    pub fn cpu_times(&self) -> Result<(f64, f64)> {
        counters::cpu_times(self.pid).with_context(|| format!("{} has ended", self.server.name()))
    }
}

fn penstock(export: &str, work: &Path, ports: &Ports, (cpu, wire): (usize, bool)) -> Result<Child> {
    let config = work.join("penstock.toml");
    let (port, state, pseudo) = (ports.nfs, work.join("state"), respond::EXPORT);
    let (listen, clients) = if wire {
        (format!(", \"{HOST}:{port}\""), ", \"10.99.2.0/24\"")
    } else {
        (String::new(), "")
    };
    // Not at "/", which libnfs 4 cannot mount where it is listed as an export.
    let text = format!(
        "[server]\nlisten = [\"127.0.0.1:{port}\"{listen}]\nstate_dir = \"{}\"\nrpcbind = false\n\n\
         [[export]]\npath = \"{export}\"\npseudo = \"{pseudo}\"\nclients = [\"127.0.0.1\"{clients}]\nsquash = \"none\"\n",
        state.display()
    );
    std::fs::write(&config, text).with_context(|| config.display().to_string())?;
    let mut command = on_core(cpu);
    command
        .arg(binary()?)
        .args(["serve", "--config"])
        .arg(&config);
    spawn(command, work)
}

fn responder(work: &Path, ports: &Ports, cpu: usize, bytes: u64, delay_us: u64) -> Result<Child> {
    let mut command = on_core(cpu);
    command.arg(std::env::current_exe()?).args([
        "respond",
        "--copied",
        "--port",
        &ports.nfs.to_string(),
        "--file-bytes",
        &bytes.to_string(),
        "--delay-us",
        &delay_us.to_string(),
    ]);
    spawn(command, work)
}

/// The `penstock` command.
///
/// # Errors
/// This was not started by `cargo xtask bench`, which says where it is.
pub fn binary() -> Result<PathBuf> {
    std::env::var_os("PENSTOCK_SERVER")
        .map(PathBuf::from)
        .context("PENSTOCK_SERVER is not set: start this with `cargo xtask bench client`")
}

/// The beginning of a command that stays on one core.
pub fn on_core(cpu: usize) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string()]);
    command
}

fn spawn(mut command: Command, work: &Path) -> Result<Child> {
    command
        .stdin(Stdio::null())
        .stdout(File::create(work.join("output"))?)
        .stderr(File::create(work.join("log"))?);
    command.spawn().context("starting a server")
}
