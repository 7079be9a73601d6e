//! The servers that clients are measured on.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::counters;
use crate::servers::{self, Penstock, Place, Program, Responder, Start};
use nfs_load::respond;

/// A server that clients are measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Server {
    /// The server of this project with its default engine and I/O modes.
    Penstock,
    /// NFS-Ganesha with its VFS back end.
    Ganesha,
    /// A responder that touches no file.
    Responder,
    /// A responder that touches no file and answers each call [`DELAY_US`] later.
    Distant,
}

/// How long after its call the distant responder answers, in microseconds: a disk that has to move its arm a little, or
/// a network of some hundred kilometres.
pub const DELAY_US: u64 = 2000;
/// The servers' address on the wire to a guest with the kernel's client.
pub const HOST: &str = "10.99.2.1";
/// Network of the wire between the host and a guest with the kernel's client.
pub const NETWORK: &str = "10.99.2.0/24";

impl Server {
    /// The server's name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Penstock => "penstock",
            Self::Ganesha => "ganesha",
            Self::Responder => "responder",
            Self::Distant => "responder 2 ms away",
        }
    }

    /// Whether the server keeps files, so that what was written can be looked at.
    pub fn has_files(self) -> bool {
        matches!(self, Self::Penstock | Self::Ganesha)
    }

    fn port(self) -> u16 {
        match self {
            Self::Penstock => 20_511,
            Self::Ganesha => 20_513,
            Self::Responder => 20_516,
            Self::Distant => 20_517,
        }
    }

    fn program(self, wire: bool, file_bytes: u64) -> Program<'static> {
        let responder = |delay_us| {
            Program::Responder(Responder {
                file_bytes,
                delay_us,
                copied: true,
                ..Responder::default()
            })
        };
        match self {
            Self::Penstock => Program::Penstock(Penstock {
                // Not at "/", which libnfs 4 cannot mount where it is listed as an export.
                pseudo: respond::EXPORT,
                guests: wire.then_some((HOST, NETWORK)),
                ..Penstock::default()
            }),
            Self::Ganesha => Program::Ganesha,
            Self::Responder => responder(0),
            Self::Distant => responder(DELAY_US),
        }
    }
}

/// A running server; ended when dropped.
pub struct Serving {
    /// Which of the servers this is.
    pub server: Server,
    /// The directory that it serves, if it serves files.
    pub directory: PathBuf,
    process: servers::Server,
}

impl Serving {
    /// Starts one on core `cpu`, for loopback and, with `wire`, for guests, that serves `directory`, with its
    /// state and logs in the new directory `work`. The files of responders have `file_bytes`.
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
        let start = Start {
            name: server.name(),
            program: server.program(wire, file_bytes),
            directory,
            work,
            port: server.port(),
            cpu,
            wrapper: &[],
        };
        Ok(Self {
            server,
            directory: directory.to_owned(),
            process: start.start()?,
        })
    }

    /// What our commands are given for the file `name`.
    pub fn url(&self, name: &str, nconnect: Option<u32>) -> String {
        let (nfs, mount) = (self.place().nfs, self.place().mount.port());
        let connections = nconnect.map_or(String::new(), |n| format!("&nconnect={n}"));
        format!(
            "nfs://{nfs}{}/{name}?mountport={mount}{connections}",
            self.place().export
        )
    }

    /// What libnfs's utilities are given: ports are options there. Without the options, which follow as the second.
    pub fn libnfs_url(&self, name: &str) -> (String, String) {
        let (nfs, mount) = (self.place().nfs, self.place().mount.port());
        (
            format!("nfs://{}{}/{name}", nfs.ip(), self.place().export),
            format!("?version=3&nfsport={}&mountport={mount}", nfs.port()),
        )
    }

    /// The path of the export, and the ports of NFS and MOUNT.
    pub fn mounted(&self) -> (&str, u16, u16) {
        let place = self.place();
        (&place.export, place.nfs.port(), place.mount.port())
    }

    fn place(&self) -> &Place {
        &self.process.place
    }

    /// CPU seconds so far, in its own code and in the kernel.
    ///
    /// # Errors
    /// It has ended.
    pub fn cpu_times(&self) -> Result<(f64, f64)> {
        counters::cpu_times(self.process.pid)
            .with_context(|| format!("{} has ended", self.server.name()))
    }
}
