//! Who is measured: ours in each mode, other servers, and local I/O without any server.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nfs_lab::Engine;
use serde::Serialize;

use crate::servers::{self, Penstock, Program, Responder, Server};

/// How the server of this project moves a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Through the page cache, which keeps them.
    Buffered,
    /// Through the page cache, which forgets the bytes at once.
    DontCache,
    /// Past the page cache, with `O_DIRECT`.
    Direct,
}

impl Mode {
    /// Every mode, in the order of the report.
    pub const ALL: [Self; 3] = [Self::Buffered, Self::DontCache, Self::Direct];

    /// The mode's name in the server's configuration.
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

/// A server, or local I/O, that takes its turn in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// The server of this project with an engine and a mode for READ and WRITE.
    Penstock(Engine, Mode),
    /// The same in mode direct, with read-ahead switched off.
    NothingAhead,
    /// The same in mode direct, with the ends of WRITEs staged.
    Staged,
    /// NFS-Ganesha with its VFS back end.
    Ganesha,
    /// unfs3, a server in user space.
    Unfs3,
    /// fio on the same file system, in the same kind of cgroup, without a server: `true` with `O_DIRECT`.
    Fio {
        /// Whether fio opens the file with `O_DIRECT`, past the page cache.
        direct: bool,
    },
    /// A responder that touches no file: what the load generator and loopback can carry.
    Responder,
    /// The same as a plain program, which reads and writes the file call by call, and has nothing else to do.
    Plain {
        /// Whether it does so past the page cache.
        direct: bool,
    },
}

impl Contender {
    /// The contender's name in the report.
    pub fn name(self) -> String {
        match self {
            Self::Penstock(Engine::Uring, mode) => format!("penstock {}", mode.word()),
            Self::Penstock(Engine::Threads, mode) => format!("penstock {} (threads)", mode.word()),
            Self::NothingAhead => "penstock direct, nothing ahead".to_owned(),
            Self::Staged => "penstock direct, staging".to_owned(),
            Self::Ganesha => "ganesha".to_owned(),
            Self::Unfs3 => "unfs3".to_owned(),
            Self::Fio { direct: true } => "local fio direct".to_owned(),
            Self::Fio { direct: false } => "local fio buffered".to_owned(),
            Self::Responder => "bare responder".to_owned(),
            Self::Plain { direct: true } => "plain program direct".to_owned(),
            Self::Plain { direct: false } => "plain program buffered".to_owned(),
        }
    }

    /// Whether the contender is one of the servers that ours is compared with.
    pub fn is_peer(self) -> bool {
        matches!(self, Self::Ganesha | Self::Unfs3)
    }

    /// The mode that the server of this project runs in; `None` for everybody else.
    pub fn mode(self) -> Option<Mode> {
        match self {
            Self::Penstock(_, mode) => Some(mode),
            Self::NothingAhead | Self::Staged => Some(Mode::Direct),
            Self::Ganesha
            | Self::Unfs3
            | Self::Fio { .. }
            | Self::Responder
            | Self::Plain { .. } => None,
        }
    }
}

/// The port of the one server that runs at a time.
const PORT: u16 = 20_501;

/// A running server, the only one at the time, in a cgroup of its own.
pub struct Serving {
    /// The server's process, and where a load reaches it.
    pub server: Server,
    /// Directory of the server's state, log and configuration.
    pub work: PathBuf,
}

/// What the start of a server needs beside the contender.
#[derive(Debug)]
pub struct Start<'a> {
    /// The directory that the server exports.
    pub export: &'a Path,
    /// A new directory for the server's state, log and configuration.
    pub work: PathBuf,
    /// Number of the core that the server is bound to.
    pub cpu: usize,
    /// Whether the server of this project takes space ahead of streams of WRITEs; its own choice if not given.
    pub reserve: Option<bool>,
    /// Words before the server's command that start it in a cgroup.
    pub wrapper: &'a [String],
    /// Path of `unfsd`, if unfs3 is there.
    pub unfsd: Option<&'a Path>,
}

impl Start<'_> {
    /// Starts a server; returns when it accepts connections.
    ///
    /// # Errors
    /// A binary is missing, the server does not come up, or `contender` is no server.
    pub fn start(self, contender: Contender) -> Result<Serving> {
        let direct = self.ours(Engine::Uring, Mode::Direct);
        let program = match contender {
            Contender::Penstock(engine, mode) => Program::Penstock(self.ours(engine, mode)),
            Contender::Staged => Program::Penstock(Penstock {
                staging: true,
                ..direct
            }),
            Contender::NothingAhead => Program::Penstock(Penstock {
                read_ahead: Some("0"),
                ..direct
            }),
            Contender::Ganesha => Program::Ganesha,
            Contender::Unfs3 => Program::Unfs3(self.unfsd.context("unfsd is not there")?),
            Contender::Responder => Program::Responder(Responder {
                file_bytes: RESPONDER_FILE_BYTES,
                ..Responder::default()
            }),
            Contender::Plain { direct } => Program::Plain { is_direct: direct },
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

    /// The server of this project in one mode.
    fn ours(&self, engine: Engine, mode: Mode) -> Penstock<'static> {
        Penstock {
            engine: Some(engine),
            mode: Some(mode.word()),
            reserve: self.reserve,
            pseudo: "/",
            ..Penstock::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_contenders_apart() {
        let mut all = vec![
            Contender::Ganesha,
            Contender::NothingAhead,
            Contender::Staged,
            Contender::Unfs3,
            Contender::Responder,
            Contender::Fio { direct: true },
            Contender::Fio { direct: false },
            Contender::Plain { direct: true },
            Contender::Plain { direct: false },
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
