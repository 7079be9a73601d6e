//! What is said on the control socket.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{IoOrder, IoQuery, WhyQuery};
use crate::exports::config::{Access, Durability, LogLevel, SquashKind, from_word, word_of};
use crate::exports::{ClientRule, Export};
use crate::operate::io_counters::IoStatus;
use crate::operate::latency::ProcedureStatus;
use crate::operate::trace::FollowRequest;

/// Version of the protocol. Fields may be added within one; a change of meaning is a new one.
pub const VERSION: u32 = 1;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// [`VERSION`].
    pub v: u32,
    /// What is asked for.
    pub command: Command,
}

/// What can be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// [`Status`].
    Status,
    /// A list of [`ExportStatus`].
    Exports,
    /// A list of [`ClientStatus`].
    Clients,
    /// Reads the configuration again; [`crate::exports::reload::ReloadReport`].
    Reload,
    /// Ends the server when what is under way is done.
    Drain,
    /// Changes how much is logged.
    LogLevel(LogLevel),
    /// How bytes travel; a list of [`IoState`](super::IoState).
    Io(IoQuery),
    /// Changes that; [`IoChanged`](super::IoChanged).
    IoSet(IoOrder),
    /// What would happen to one call; [`Why`](super::Why).
    IoWhy(WhyQuery),
    /// Switches trace events on and off in the log; [`TraceStatus`](super::TraceStatus).
    Trace(TraceChange),
    /// Follows trace events: after an empty answer come [`TraceLine`](super::TraceLine)s, one JSON value
    /// in each line, until either side closes. Anything the asking side says ends it.
    TraceFollow(FollowRequest),
}

/// What is to become of the trace in the server's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceChange {
    /// These events (or `all`) go to it too.
    On(Vec<String>),
    /// These events go to it no more, or none at all if none is named.
    Off(Vec<String>),
    /// Nothing changes.
    List,
}

/// One reply: `ok` or `error`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reply<T> {
    /// [`VERSION`].
    pub v: u32,
    /// What was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ok: Option<T>,
    /// Why not, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The state of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Seconds since start.
    pub uptime_seconds: u64,
    /// `serving` or `draining`.
    pub state: Listening,
    /// The engine in use and, where it was chosen by a probe, why.
    pub engine: String,
    /// The capabilities held.
    pub capabilities: String,
    /// How handles are made: `kernel` or `table`.
    pub handles: String,
    /// Where MOUNT and NFS are answered.
    pub listeners: Vec<SocketAddr>,
    /// The state directory.
    pub state_dir: PathBuf,
    /// The write verifier now, in hexadecimal.
    pub verifier: String,
    /// Event-loop threads.
    pub shards: usize,
    /// Exports served.
    pub exports: usize,
    /// Connections open.
    pub connections: u64,
    /// I/O buffers.
    pub memory: MemoryStatus,
    /// Everything that is counted, by name.
    pub counters: BTreeMap<String, u64>,
    /// How long calls took, by procedure; those that were never called are not there.
    pub procedures: Vec<ProcedureStatus>,
    /// How the bytes of READ and WRITE were moved, by export, operation and mode.
    pub io: Vec<IoStatus>,
}

/// Does the server take new connections?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Listening {
    /// Yes.
    #[default]
    Serving,
    /// No more: it finishes what is under way.
    Draining,
}

/// I/O buffers, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryStatus {
    /// The budget.
    pub budget_bytes: u64,
    /// In use now.
    pub in_use_bytes: u64,
    /// Most that ever was in use at once.
    pub peak_bytes: u64,
}

/// One export as it is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportStatus {
    /// The path that clients mount.
    pub pseudo: String,
    /// The directory.
    pub path: PathBuf,
    /// Its id in handles.
    pub id: u32,
    /// `sync` or `async`.
    pub durability: String,
    /// May clients walk into file systems mounted below?
    pub crossmnt: bool,
    /// I/O mode of READ.
    pub read: String,
    /// I/O mode of WRITE.
    pub write: String,
    /// Who may come, in the order tried.
    pub rules: Vec<RuleStatus>,
}

/// One rule of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleStatus {
    /// The network.
    pub net: String,
    /// `rw` or `ro`.
    pub access: String,
    /// `root`, `all` or `none`.
    pub squash: String,
    /// Must the client's port be below 1024?
    pub privileged_port: bool,
}

/// One client that is connected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientStatus {
    /// Address and port.
    pub address: String,
    /// Of a program of this machine: the number of its user, `untold` where the kernel does not say, or
    /// `barred` where it is another's than a server without privileges acts for. Absent for others, and
    /// where loopback is trusted.
    pub user: Option<String>,
    /// Seconds since it connected.
    pub connected_seconds: u64,
    /// Calls answered.
    pub calls: u64,
    /// Calls under way.
    pub in_flight: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

impl ExportStatus {
    /// What there is to say of `export`.
    #[must_use]
    pub fn of(export: &Export) -> Self {
        Self {
            pseudo: export.pseudo.clone(),
            path: export.path.clone(),
            id: export.id,
            durability: word_of(export.durability, Durability::WORDS).to_owned(),
            crossmnt: export.crossmnt,
            read: export.io.now().read.to_string(),
            write: export.io.now().write.to_string(),
            rules: export.rules().iter().map(RuleStatus::of).collect(),
        }
    }
}

impl RuleStatus {
    fn of(rule: &ClientRule) -> Self {
        Self {
            net: rule.net.to_string(),
            access: word_of(rule.access, Access::WORDS).to_owned(),
            squash: word_of(rule.squash.kind(), SquashKind::WORDS).to_owned(),
            privileged_port: rule.privileged_port,
        }
    }
}

// As its word, the one that the configuration uses too.
impl Serialize for LogLevel {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(word_of(*self, Self::WORDS))
    }
}

impl<'de> Deserialize<'de> for LogLevel {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        from_word(&word, Self::WORDS).map_err(serde::de::Error::custom)
    }
}
