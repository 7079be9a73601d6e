//! The control socket: a server is asked and told by `penstock ctl`, over a unix socket in its state
//! directory that only its owner can open. Beside it the status socket, which a group may open too, and which
//! answers only what looks ([`Command::only_looks`]).
//!
//! One JSON object per line each way, with the protocol's version in each:
//!
//! ```text
//! -> {"v":1,"command":"status"}
//! <- {"v":1,"ok":{"version":"0.1.0", ...}}
//! -> {"v":1,"command":{"log-level":"debug"}}
//! <- {"v":1,"ok":null}
//! -> {"v":1,"command":"dance"}
//! <- {"v":1,"error":"..."}
//! ```
//!
//! The module owns the protocol and both of its ends. Requests are bounded in length, connections in
//! number and in time without a word ([`crate::limits`], `CONTROL_*`). What is asked for is done by
//! the [`Controls`] that the server hands in, on a thread that may block.

mod cache;
mod client;
mod follow;
mod held;
mod hosts;
mod io_modes;
mod messages;

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

pub use cache::{CacheAnswer, CacheDropped, CachePage, CacheQuery, CacheRow, CacheTarget};
pub use client::{ControlError, follow, follow_audit, follow_calls, record_calls, request};
pub use held::{
    Expired, GraceReport, HeldAnswer, HeldQuery, Listed, LockRow, Nfs4ClientStatus, OpenRow, Page,
};
pub use hosts::{BlockOrder, BlockStatus};
pub use io_modes::{
    IoChanged, IoOrder, IoQuery, IoState, IoView, Why, WhyAlignment, WhyAuto, WhyQuery, WhyRule,
    WhySegment, WhyStable,
};
pub use messages::{
    ClientStatus, Command, ConfinementStatus, ErrorKind, ExportStatus, Listening, MemoryStatus,
    NameStatus, Reply, Request, RuleStatus, Status, TraceChange, VERSION, VerifierOrder,
    VerifierStatus,
};

pub use crate::operate::audit::{AuditEvent, AuditFollower, AuditLine};
pub use crate::operate::calls::{
    CallFollower, CallLine, CallQuery, CallTree, ChromeTrace, FileNumber, RecordedCall,
    RecorderLevel, Recording, RecordingLine, RecordingQuery, StepTree, check_call,
};
pub use crate::operate::io_counters::{AheadStatus, AutoStatus, IoStatus, reason_sentence};
pub use crate::operate::latency::ProcedureStatus;
pub use crate::operate::trace::{
    EventStatus, FollowRequest, Follower, TRACE_LOG_TARGET, TraceEvent, TraceLine, TraceStatus,
    UnknownEvent, check_event,
};

use crate::exports::config::LogLevel;
use crate::exports::reload::{ReloadError, ReloadReport};
pub use crate::exports::{ExportOrder, ExportsChanged};
use crate::limits;
use crate::operate::metrics::Snapshot;
use follow::Following;

/// Who asks on the control socket, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The user that the asking process runs as.
    pub uid: u32,
    /// Process id; `None` where the kernel does not say.
    pub pid: Option<i32>,
}

impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {}", self.uid)?;
        match self.pid {
            Some(pid) => write!(f, ", process {pid}"),
            None => Ok(()),
        }
    }
}

/// What answers a question or an order; an error is the sentence to show.
pub type Ask<Q, A> = Box<dyn Fn(&Q, Asker) -> Result<A, String> + Send + Sync>;

/// What the server lets itself be asked and told. Each may be called from any thread.
pub struct Controls {
    /// The state of the whole server.
    pub status: Box<dyn Fn() -> Status + Send + Sync>,
    /// All figures of the moment.
    pub metrics: Box<dyn Fn() -> Snapshot + Send + Sync>,
    /// The exports as they are served now.
    pub exports: Box<dyn Fn() -> Vec<ExportStatus> + Send + Sync>,
    /// Serves one export more; `Err` says what is wrong.
    pub exports_add: Ask<ExportOrder, ExportsChanged>,
    /// Serves one export less.
    pub exports_remove: Ask<String, ExportsChanged>,
    /// The clients that are connected.
    pub clients: Box<dyn Fn() -> Vec<ClientStatus> + Send + Sync>,
    /// Shuts hosts out, and says which are.
    pub block: Ask<BlockOrder, Vec<BlockStatus>>,
    /// Lets hosts in again that were shut out, and says which still are.
    pub unblock: Ask<String, Vec<BlockStatus>>,
    /// Closes connections of an address, or of an address and port, and says how many.
    pub disconnect: Ask<String, usize>,
    /// Tells what NFSv4's clients hold, and ends it.
    pub held: Ask<HeldQuery, HeldAnswer>,
    /// Shows the open-file cache, and drops files from it.
    pub cache: Ask<CacheQuery, CacheAnswer>,
    /// Tells the write verifier, and changes it.
    pub verifier: Ask<VerifierOrder, VerifierStatus>,
    /// Reads the configuration again and says what changed.
    pub reload: Box<dyn Fn() -> Result<ReloadReport, ReloadError> + Send + Sync>,
    /// Begins to end the server: no new connections, what is under way is finished.
    pub drain: Box<dyn Fn() + Send + Sync>,
    /// Changes how much is logged, if a level is given; what holds then.
    pub log_level: Box<dyn Fn(Option<LogLevel>) -> LogLevel + Send + Sync>,
    /// The I/O policies of the exports.
    pub io: Ask<IoQuery, Vec<IoState>>,
    /// Changes the I/O policy of an export.
    pub io_set: Ask<IoOrder, IoChanged>,
    /// Tells how one READ or WRITE would be moved, and why.
    pub io_why: Ask<WhyQuery, Why>,
    /// Changes which trace events are logged, and says which are; `Err` says what is wrong.
    pub trace: Ask<TraceChange, TraceStatus>,
    /// Begins to follow single calls, or to tell those that are recorded; `Err` says why not.
    pub follow_calls: Ask<CallQuery, CallFollower>,
    /// Begins to record calls; `Err` says why not.
    pub record_calls: Ask<RecordingQuery, Recording>,
    /// Changes how much the flight recorder keeps, if a level is given, and says how much it does.
    pub recorder: Ask<Option<RecorderLevel>, RecorderLevel>,
    /// Begins to follow the audit; `Err` says why not.
    pub follow_audit: Box<dyn Fn() -> Result<AuditFollower, String> + Send + Sync>,
    /// Begins to follow trace events; `Err` says why not.
    pub follow: Ask<FollowRequest, Follower>,
}

impl std::fmt::Debug for Controls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Controls")
    }
}

/// What may be done over a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Everything: it is its owner's.
    All,
    /// Only what [`Command::only_looks`].
    Look,
}

/// The bound socket. Its file goes when this is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    reach: Reach,
}

impl ControlSocket {
    /// Binds the control socket at `path` with mode 0600, in place of one that a dead server left. The
    /// caller holds the state directory's lock. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(path: &Path) -> io::Result<Self> {
        Self::bound(path, Reach::All, None)
    }

    /// Binds the status socket at `path`, as [`ControlSocket::bind`] does the control socket. With a `group` its
    /// members may open it (mode 0660), else only its owner.
    ///
    /// # Errors
    /// What the system says; a process without privileges can give the socket to its own groups only.
    pub fn bind_status(path: &Path, group: Option<u32>) -> io::Result<Self> {
        Self::bound(path, Reach::Look, group)
    }

    fn bound(path: &Path, reach: Reach, group: Option<u32>) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        // Nobody can connect meanwhile: it does not listen, or the directory's mode (0700, or 0710 for a group)
        // keeps out whom the socket's own mode would let in for this moment.
        let reachable = client::Reachable::new(path)?;
        let listener = UnixListener::bind(reachable.path())?;
        let mode = if group.is_some() { 0o660 } else { 0o600 };
        if group.is_some() {
            std::os::unix::fs::chown(path, None, group)?;
        }
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            reach,
        })
    }

    /// Serves requests until it is dropped.
    pub async fn serve(self, controls: Arc<Controls>) {
        let slots = Arc::new(Semaphore::new(limits::CONTROL_CONNECTIONS_MAX));
        while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let controls = Arc::clone(&controls);
                    let reach = self.reach;
                    tokio::spawn(async move {
                        if let Err(error) = converse(stream, &controls, reach).await {
                            tracing::debug!(%error, "control connection ended");
                        }
                        drop(slot);
                    });
                }
                Err(error) => {
                    // Out of descriptors, for the most part: to try again at once would spin.
                    tracing::warn!(%error, "control socket: cannot accept");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, "control socket was gone already");
        }
    }
}

/// One connection: answers line by line until the peer closes, falls silent or says too much.
async fn converse(stream: UnixStream, controls: &Arc<Controls>, reach: Reach) -> io::Result<()> {
    let peer = stream.peer_cred()?;
    let asker = Asker {
        uid: peer.uid(),
        pid: peer.pid(),
    };
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let idle = Duration::from_secs(limits::CONTROL_IDLE_SECONDS_MAX);
    let timed_out = |_| io::Error::from(io::ErrorKind::TimedOut);
    loop {
        let mut line = Vec::new();
        let mut bounded = (&mut reader).take(limits::CONTROL_REQUEST_BYTES_MAX as u64);
        let read = bounded.read_until(b'\n', &mut line);
        tokio::time::timeout(idle, read)
            .await
            .map_err(timed_out)??;
        if line.is_empty() {
            return Ok(());
        }
        let complete = line.last() == Some(&b'\n');
        let mut reply = match command_of(&line) {
            Ok(command) if reach == Reach::Look && !command.only_looks() => only_looks(),
            Ok(Command::TraceFollow(request)) => match (controls.follow)(&request, asker) {
                Ok(follower) => {
                    let follower = Following::Trace(follower);
                    return follow::stream(reader, writer, follower).await;
                }
                Err(refused) => refusal(&refused),
            },
            Ok(Command::CallsFollow(query)) => match (controls.follow_calls)(&query, asker) {
                Ok(follower) => {
                    let follower = Following::Calls(Box::new(follower));
                    return follow::stream(reader, writer, follower).await;
                }
                Err(refused) => refusal(&refused),
            },
            Ok(Command::CallsRecord(query)) => match (controls.record_calls)(&query, asker) {
                Ok(recording) => {
                    let recording = Following::Recording(Box::new(recording));
                    return follow::stream(reader, writer, recording).await;
                }
                Err(refused) => refusal(&refused),
            },
            Ok(Command::AuditFollow) => match (controls.follow_audit)() {
                Ok(follower) => {
                    let follower = Following::Audit(follower);
                    return follow::stream(reader, writer, follower).await;
                }
                Err(refused) => refusal(&refused),
            },
            Ok(command) => {
                let controls = Arc::clone(controls);
                // A reload opens directories, perhaps on a disk that is slow to wake.
                tokio::task::spawn_blocking(move || answer(command, &controls, asker)).await?
            }
            Err(refused) => refusal(&refused),
        };
        reply.push('\n');
        tokio::time::timeout(idle, writer.write_all(reply.as_bytes()))
            .await
            .map_err(timed_out)??;
        if !complete {
            return Ok(());
        }
    }
}

/// What one request line asks for, or why that cannot be told.
fn command_of(line: &[u8]) -> Result<Command, String> {
    if line.last() != Some(&b'\n') {
        return Err("the request is too long or its line does not end".to_owned());
    }
    let request: Request = serde_json::from_slice(line)
        .map_err(|error| format!("not a request of protocol {VERSION}: {error}"))?;
    if request.v != VERSION {
        return Err(format!(
            "this server speaks control protocol {VERSION}, not {}; use its own `penstock ctl`",
            request.v
        ));
    }
    Ok(request.command)
}

/// The reply to one command.
fn answer(command: Command, controls: &Controls, asker: Asker) -> String {
    match command {
        Command::Status => success(&(controls.status)()),
        Command::Metrics => success(&(controls.metrics)()),
        Command::Exports => success(&(controls.exports)()),
        Command::ExportsAdd(order) => either((controls.exports_add)(&order, asker)),
        Command::ExportsRemove(pseudo) => either((controls.exports_remove)(&pseudo, asker)),
        Command::Clients => {
            let mut clients = (controls.clients)();
            clients.truncate(limits::CONTROL_CLIENTS_MAX);
            success(&clients)
        }
        Command::Block(order) => either((controls.block)(&order, asker)),
        Command::Blocked => success(&(controls.status)().blocked),
        Command::Unblock(net) => either((controls.unblock)(&net, asker)),
        Command::Disconnect(peer) => either((controls.disconnect)(&peer, asker)),
        Command::Held(query) => either((controls.held)(&query, asker)),
        Command::Cache(query) => either((controls.cache)(&query, asker)),
        Command::Verifier(order) => either((controls.verifier)(&order, asker)),
        Command::Reload => match (controls.reload)() {
            Ok(report) => success(&report),
            Err(error) => refusal(&error.to_string()),
        },
        Command::Drain => {
            (controls.drain)();
            success(&())
        }
        Command::LogLevel(level) => success(&(controls.log_level)(level)),
        Command::Trace(change) => either((controls.trace)(&change, asker)),
        Command::Recorder(level) => either((controls.recorder)(&level, asker)),
        Command::TraceFollow(_)
        | Command::CallsFollow(_)
        | Command::CallsRecord(_)
        | Command::AuditFollow => refusal("this is followed on a connection of its own"),
        Command::Io(query) => either((controls.io)(&query, asker)),
        Command::IoSet(order) => either((controls.io_set)(&order, asker)),
        Command::IoWhy(query) => either((controls.io_why)(&query, asker)),
    }
}

fn either<T: serde::Serialize>(result: Result<T, String>) -> String {
    match result {
        Ok(ok) => success(&ok),
        Err(message) => refusal(&message),
    }
}

fn success<T: serde::Serialize>(ok: &T) -> String {
    let reply = Reply {
        v: VERSION,
        ok: Some(ok),
        error: None,
        kind: None,
    };
    serde_json::to_string(&reply).unwrap_or_else(|error| refusal(&error.to_string()))
}

/// The answer to a command that the status socket is not for.
fn only_looks() -> String {
    let message = "the status socket only shows figures and settings: it changes nothing and tells no names of \
                   files; ask on the control socket, as the user that the server runs as";
    serde_json::json!({ "v": VERSION, "error": message, "kind": ErrorKind::ReadOnly }).to_string()
}

fn refusal(message: &str) -> String {
    // Built of a value, which cannot fail to be written.
    serde_json::json!({ "v": VERSION, "error": message }).to_string()
}

#[cfg(test)]
mod tests;
