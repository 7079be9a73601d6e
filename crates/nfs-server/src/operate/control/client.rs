//! The asking end of the control socket. Blocking: it serves a command line.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use serde::de::DeserializeOwned;

use super::messages::{Command, ErrorKind, Reply, Request, VERSION};
use crate::limits;
use crate::operate::audit::AuditLine;
use crate::operate::calls::{CallLine, CallQuery, RecordingLine, RecordingQuery};
use crate::operate::trace::{FollowRequest, TraceLine};

/// Why a server did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No server answers on the socket.
    #[error("no server answers on {}; is it running, and are you its user?", path.display())]
    Connect {
        /// Path of the control socket.
        path: PathBuf,
        /// Why the system could not connect.
        source: io::Error,
    },
    /// The connection ended or fell silent before the answer was whole.
    #[error("the server on {} did not finish its answer; see its log", path.display())]
    Broken {
        /// Path of the control socket.
        path: PathBuf,
        /// How reading or writing failed.
        source: io::Error,
    },
    /// The answer is not of this protocol.
    #[error("the server on {} answers in words unknown to this version; use its own `penstock ctl`", path.display())]
    Foreign {
        /// Path of the control socket.
        path: PathBuf,
        /// What is wrong with the answer, as JSON.
        source: serde_json::Error,
    },
    /// The server refuses; the text says why, with the cure.
    #[error("{0}")]
    Refused(String),
    /// The socket is the status socket, and the command is not one that only looks; the text says the cure.
    #[error("{0}")]
    ReadOnly(String),
}

/// Sends one command to the socket at `path` and waits for the answer. `T` is what the command
/// answers with, see [`Command`]; [`serde_json::Value`] takes every answer.
///
/// # Errors
/// See [`ControlError`].
pub fn request<T: DeserializeOwned>(path: &Path, command: Command) -> Result<T, ControlError> {
    ask(path, command).map(|(answer, _)| answer)
}

/// Follows trace events of the server on the socket at `path`: `begun` is called when they are on,
/// `take` with each line until it breaks, whose value is returned, or the server ends (`None`).
///
/// # Errors
/// See [`ControlError`].
pub fn follow<B>(
    path: &Path,
    request: FollowRequest,
    begun: impl FnOnce(),
    take: impl FnMut(TraceLine) -> ControlFlow<B>,
) -> Result<Option<B>, ControlError> {
    lines(path, Command::TraceFollow(request), begun, take)
}

/// Follows single calls of the server on the socket at `path`, or reads those that its flight recorder has, as [`follow`]
/// does trace events; it ends by itself where the query has an end.
///
/// # Errors
/// See [`ControlError`].
pub fn follow_calls<B>(
    path: &Path,
    query: CallQuery,
    begun: impl FnOnce(),
    take: impl FnMut(CallLine) -> ControlFlow<B>,
) -> Result<Option<B>, ControlError> {
    lines(path, Command::CallsFollow(query), begun, take)
}

/// Records calls of the server on the socket at `path`, as [`follow_calls`] follows them.
///
/// # Errors
/// See [`ControlError`].
pub fn record_calls<B>(
    path: &Path,
    query: RecordingQuery,
    begun: impl FnOnce(),
    take: impl FnMut(RecordingLine) -> ControlFlow<B>,
) -> Result<Option<B>, ControlError> {
    lines(path, Command::CallsRecord(query), begun, take)
}

/// Follows the audit of the server on the socket at `path`, as [`follow`] does the trace.
///
/// # Errors
/// See [`ControlError`].
pub fn follow_audit<B>(
    path: &Path,
    begun: impl FnOnce(),
    take: impl FnMut(AuditLine) -> ControlFlow<B>,
) -> Result<Option<B>, ControlError> {
    lines(path, Command::AuditFollow, begun, take)
}

fn lines<T: DeserializeOwned, B>(
    path: &Path,
    command: Command,
    begun: impl FnOnce(),
    mut take: impl FnMut(T) -> ControlFlow<B>,
) -> Result<Option<B>, ControlError> {
    let broken = |source| ControlError::Broken {
        path: path.to_owned(),
        source,
    };
    let ((), mut reader) = ask(path, command)?;
    // Hours may pass between two events.
    reader.get_ref().set_read_timeout(None).map_err(broken)?;
    begun();
    while let Some(line) = line_of(&mut reader).map_err(broken)? {
        let line = serde_json::from_slice(&line).map_err(|source| ControlError::Foreign {
            path: path.to_owned(),
            source,
        })?;
        if let ControlFlow::Break(value) = take(line) {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// The answer, and the connection for what may come after it.
fn ask<T: DeserializeOwned>(
    path: &Path,
    command: Command,
) -> Result<(T, BufReader<UnixStream>), ControlError> {
    let connect = |source| ControlError::Connect {
        path: path.to_owned(),
        source,
    };
    let broken = |source| ControlError::Broken {
        path: path.to_owned(),
        source,
    };
    let foreign = |source| ControlError::Foreign {
        path: path.to_owned(),
        source,
    };
    let reachable = Reachable::new(path).map_err(connect)?;
    let mut stream = UnixStream::connect(reachable.path()).map_err(connect)?;
    let timeout = Some(Duration::from_secs(limits::CONTROL_ANSWER_SECONDS_MAX));
    stream.set_read_timeout(timeout).map_err(broken)?;
    stream.set_write_timeout(timeout).map_err(broken)?;
    let mut line = serde_json::to_string(&Request {
        v: VERSION,
        command,
    })
    .map_err(foreign)?;
    line.push('\n');
    stream.write_all(line.as_bytes()).map_err(broken)?;
    let mut reader = BufReader::new(stream);
    let answer = line_of(&mut reader)
        .and_then(|line| line.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()))
        .map_err(broken)?;
    // First the frame, then what is in it: an answer of `null` is an answer too.
    let reply: Reply<serde_json::Value> = serde_json::from_slice(&answer).map_err(foreign)?;
    if let Some(message) = reply.error {
        return Err(match reply.kind {
            Some(ErrorKind::ReadOnly) => ControlError::ReadOnly(message),
            None => ControlError::Refused(message),
        });
    }
    let ok = serde_json::from_value(reply.ok.unwrap_or_default()).map_err(foreign)?;
    Ok((ok, reader))
}

/// The next line with its end; `None` at the end of the stream.
fn line_of(reader: &mut BufReader<UnixStream>) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut bounded = reader.take(limits::CONTROL_REPLY_BYTES_MAX);
    bounded.read_until(b'\n', &mut line)?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A path to a socket that is short enough for its address (108 bytes, unix(7)): a long one is
/// reached through a descriptor of its directory.
pub(super) struct Reachable {
    path: PathBuf,
    _directory: Option<OwnedFd>,
}

impl Reachable {
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        const SOCKET_PATH_BYTES_MAX: usize = 107;
        if path.as_os_str().as_bytes().len() <= SOCKET_PATH_BYTES_MAX {
            return Ok(Self {
                path: path.to_owned(),
                _directory: None,
            });
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(parent, flags, Mode::empty())?;
        let short = Path::new("/proc/self/fd")
            .join(directory.as_raw_fd().to_string())
            .join(name);
        Ok(Self {
            path: short,
            _directory: Some(directory),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
