//! Who is measured: ours in each mode, other servers, and local I/O without any server.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nfs_lab::Engine;
use serde::Serialize;

use crate::servers::{self, Penstock, Program, Responder, Server};

/// How the server moves a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Through the page cache.
    Buffered,
    /// Through the page cache, which forgets them at once.
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

/// The size of the responder's files: more than any workload asks for.
const RESPONDER_FILE_BYTES: u64 = 1 << 40;

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

/// The port of the one server that runs at a time.
const PORT: u16 = 20_501;

/// A running server, alone with its cgroup.
pub struct Serving {
    /// Its process, and where a load finds it.
    pub server: Server,
    /// Where it keeps its state, log and configuration.
    pub work: PathBuf,
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
        let program = match contender {
            Contender::Penstock(engine, mode) => Program::Penstock(Penstock {
                engine: Some(engine),
                mode: Some(mode.word()),
                pseudo: "/",
                guests: None,
            }),
            Contender::Ganesha => Program::Ganesha,
            Contender::Unfs3 => Program::Unfs3(self.unfsd.context("unfsd is not there")?),
            Contender::Responder => Program::Responder(Responder {
                file_bytes: RESPONDER_FILE_BYTES,
                delay_us: 0,
                copied: false,
            }),
            Contender::Fio { .. } => bail!("fio serves nobody"),
        };
        let start = servers::Start {
            name: &contender.name(),
            program,
            directory: self.export,
            work: &self.work,
            port: PORT,
            cpu: self.cpu,
            wrapper: self.wrapper,
        };
        let server = start.start()?;
        Ok(Serving {
            server,
            work: self.work,
        })
    }
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
