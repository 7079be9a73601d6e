//! What is said on the control socket.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{BlockOrder, BlockStatus, CacheQuery, HeldQuery, IoOrder, IoQuery, WhyQuery};
use crate::exports::config::{
    Access, Allowance, Audited, Durability, LogLevel, SquashKind, from_word, word_of,
};
use crate::exports::policy::show_way;
use crate::exports::{ClientRule, Export, ExportOrder, LiveName, NameState, Versions};
use crate::limits;
use crate::operate::calls::{CallQuery, RecorderLevel, RecordingQuery};
use crate::operate::io_counters::IoStatus;
use crate::operate::latency::ProcedureStatus;
use crate::operate::trace::FollowRequest;

/// Version of the protocol. Fields may be added within one; a change of meaning is a new one.
pub const VERSION: u32 = 1;

/// One request: a line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The version of the protocol that this is said in, [`VERSION`].
    pub v: u32,
    /// What the server is asked or told.
    pub command: Command,
}

/// The commands of the control socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Asks for the state of the server: a [`Status`].
    Status,
    /// Asks for all figures of the moment: a [`Snapshot`](crate::metrics::Snapshot).
    Metrics,
    /// Asks what is served: a list of [`ExportStatus`].
    Exports,
    /// Serves one export more until the configuration is read again; an [`ExportsChanged`](super::ExportsChanged).
    ExportsAdd(ExportOrder),
    /// Serves one export less until the configuration is read again, named by the path that clients mount; an
    /// [`ExportsChanged`](super::ExportsChanged).
    ExportsRemove(String),
    /// Asks who is connected: a list of [`ClientStatus`].
    Clients,
    /// Shuts hosts out until the server ends or some minutes have passed; a list of
    /// [`BlockStatus`].
    Block(BlockOrder),
    /// Asks who is shut out: a list of [`BlockStatus`].
    Blocked,
    /// Lets hosts in again, by the network that was blocked; a list of [`BlockStatus`].
    Unblock(String),
    /// Closes the connections of an address, or the one of an address and port; answered with how many.
    Disconnect(String),
    /// Asks or tells about what NFSv4's clients hold; see [`HeldQuery`].
    Held(HeldQuery),
    /// Asks what the open-file cache has, or drops a file from it; see [`CacheQuery`].
    Cache(CacheQuery),
    /// Asks for the write verifier, or has it changed; a [`VerifierStatus`].
    Verifier(VerifierOrder),
    /// Reads the configuration again; [`crate::exports::reload::ReloadReport`].
    Reload,
    /// Ends the server when what is under way is done.
    Drain,
    /// Changes how much is logged, if a level is given; the [`LogLevel`] that holds then.
    LogLevel(Option<LogLevel>),
    /// Asks how bytes travel; answered with a list of [`IoState`](super::IoState).
    Io(IoQuery),
    /// Changes the I/O policy of an export; [`IoChanged`](super::IoChanged).
    IoSet(IoOrder),
    /// What would happen to one call; [`Why`](super::Why).
    IoWhy(WhyQuery),
    /// Switches trace events on and off in the log; [`TraceStatus`](super::TraceStatus).
    Trace(TraceChange),
    /// Follows trace events: after an empty answer come [`TraceLine`](super::TraceLine)s, one JSON value
    /// in each line, until either side closes. Anything the asking side says ends it.
    TraceFollow(FollowRequest),
    /// Follows single calls, or asks for those that the flight recorder has: as [`Command::TraceFollow`], with
    /// [`CallLine`](super::CallLine)s.
    CallsFollow(CallQuery),
    /// Records calls: as [`Command::TraceFollow`], with [`RecordingLine`](super::RecordingLine)s.
    CallsRecord(RecordingQuery),
    /// Changes how much the flight recorder keeps, if a level is given; answered with the
    /// [`RecorderLevel`] from then on.
    Recorder(Option<RecorderLevel>),
    /// Follows the audit: as [`Command::TraceFollow`], with [`AuditLine`](super::AuditLine)s.
    AuditFollow,
}

impl Command {
    /// Whether the command asks for figures and settings and no more: it changes nothing, tells no names of files,
    /// and costs the server no more than its answer. Only such commands are answered on the status socket.
    #[must_use]
    pub const fn only_looks(&self) -> bool {
        match self {
            Self::LogLevel(None)
            | Self::Status
            | Self::Metrics
            | Self::Exports
            | Self::Clients
            | Self::Blocked
            | Self::Held(HeldQuery::Grace | HeldQuery::Clients(_))
            | Self::Verifier(VerifierOrder { change: false })
            | Self::Io(_)
            | Self::Trace(TraceChange::List) => true,
            Self::ExportsAdd(_)
            | Self::ExportsRemove(_)
            | Self::Block(_)
            | Self::Unblock(_)
            | Self::Disconnect(_)
            | Self::Held(
                HeldQuery::EndGrace
                | HeldQuery::Expire(_)
                | HeldQuery::Opens(_)
                | HeldQuery::Locks(_),
            )
            | Self::Cache(_)
            | Self::Verifier(VerifierOrder { change: true })
            | Self::Reload
            | Self::Drain
            | Self::LogLevel(Some(_))
            | Self::IoSet(_)
            | Self::IoWhy(_)
            | Self::Trace(TraceChange::On(_) | TraceChange::Off(_))
            | Self::Recorder(_)
            | Self::TraceFollow(_)
            | Self::CallsFollow(_)
            | Self::CallsRecord(_)
            | Self::AuditFollow => false,
        }
    }
}

/// What is to become of the write verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifierOrder {
    /// It is to be changed, so that every client sends again what it wrote UNSTABLE and has not committed.
    pub change: bool,
}

/// The write verifier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VerifierStatus {
    /// The write verifier now, in hexadecimal.
    pub verifier: String,
    /// How often it was changed since the server started.
    pub changes: u64,
}

/// What is to become of the trace in the server's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceChange {
    /// These events (or `all`) go to the log too.
    On(Vec<String>),
    /// These events go to the log no more, or none at all if none is named.
    Off(Vec<String>),
    /// Nothing changes: the answer alone is wanted.
    List,
}

/// One reply: `ok` or `error`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reply<T> {
    /// The version of the protocol that this is said in, [`VERSION`].
    pub v: u32,
    /// The answer, of the kind that the command has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ok: Option<T>,
    /// What is wrong and what to do about it, where the command failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why the command failed, where a program is to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ErrorKind>,
}

/// Why a command failed, as far as programs tell it from other failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The command changes something or tells names of files, and came over the status socket.
    ReadOnly,
}

/// The state of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Version of the program that serves.
    pub version: String,
    /// Process id of the server.
    pub pid: u32,
    /// Seconds since the server started.
    pub uptime_seconds: u64,
    /// Whether new connections are taken: `serving` or `draining`.
    pub state: Listening,
    /// The engine in use and, where it was chosen by a probe, why.
    pub engine: String,
    /// The capabilities that the process holds, in words.
    pub capabilities: String,
    /// What the process has given up, part by part; empty where nothing was.
    pub confinement: Vec<ConfinementStatus>,
    /// How handles are made: `kernel` or `table`.
    pub handles: String,
    /// Where MOUNT and NFS are answered.
    pub listeners: Vec<SocketAddr>,
    /// The state directory that the server holds the lock of.
    pub state_dir: PathBuf,
    /// The write verifier now, in hexadecimal.
    pub verifier: String,
    /// How many event-loop threads serve connections.
    pub shards: usize,
    /// How long each of them polls before it sleeps, in microseconds; 0 if they sleep at once.
    pub busy_poll_us: u64,
    /// Whether that was left to the server: they do only while they are at work for much of the time, and sleep at once
    /// where the control group's processor time is limited.
    #[serde(default)]
    pub busy_poll_is_auto: bool,
    /// The TCP congestion control that replies are sent with, where the operator has chosen one; `None` is the system's.
    pub congestion_control: Option<String>,
    /// How many exports are served.
    pub exports: usize,
    /// How many connections are open now.
    pub connections: u64,
    /// The hosts that are shut out.
    pub blocked: Vec<BlockStatus>,
    /// How much memory the I/O buffers take.
    pub memory: MemoryStatus,
    /// Everything that is counted, by name.
    pub counters: BTreeMap<String, u64>,
    /// How long calls took, by procedure; those that were never called are not there.
    pub procedures: Vec<ProcedureStatus>,
    /// The same of the operations of NFSv4, each from when it was looked at to when its result was ready.
    pub operations: Vec<ProcedureStatus>,
    /// How the bytes of READ and WRITE were moved, by export, operation and mode.
    pub io: Vec<IoStatus>,
}

/// One part of what the server's process has given up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfinementStatus {
    /// Which: `capabilities`, `no-new-privileges`, `places` or `system-calls`.
    pub part: String,
    /// Whether it holds: `in force`, `off` or `unavailable`.
    pub state: String,
    /// What is left, or why the part does not hold.
    pub detail: String,
}

impl std::fmt::Display for ConfinementStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            part,
            state,
            detail,
        } = self;
        write!(f, "confinement: {part} {state}")?;
        if detail.is_empty() {
            return Ok(());
        }
        write!(f, ": {detail}")
    }
}

/// Does the server take new connections?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Listening {
    /// The server takes new connections.
    #[default]
    Serving,
    /// The server takes no new connections and finishes what is under way.
    Draining,
}

/// How much memory the I/O buffers take, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryStatus {
    /// What all buffers together may take.
    pub budget_bytes: u64,
    /// What buffers take at this moment.
    pub in_use_bytes: u64,
    /// Most that ever was in use at once.
    pub peak_bytes: u64,
}

/// One export as it is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportStatus {
    /// The path that clients mount.
    pub pseudo: String,
    /// The directory that is served.
    pub path: PathBuf,
    /// The export's id, which is in every handle of its files.
    pub id: u32,
    /// When changes are on stable storage: `sync` or `async`.
    pub durability: String,
    /// Do replies to stable WRITEs of NFSv3 tell attributes?
    #[serde(default = "told_unless_said")]
    pub stable_write_attributes: bool,
    /// May clients walk into file systems mounted below?
    pub crossmnt: bool,
    /// Which calls are audited: `off`, `changes` or `all`.
    #[serde(default)]
    pub audit: String,
    /// I/O mode of READs that no rule matches.
    pub read: String,
    /// I/O mode of WRITEs that no rule matches.
    pub write: String,
    /// Who may come, in the order tried.
    pub rules: Vec<RuleStatus>,
}

/// What an older server does, which says nothing of it.
const fn told_unless_said() -> bool {
    true
}

/// One rule of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleStatus {
    /// The network, host or netgroup (`@name`) that the rule is for.
    pub net: String,
    /// What the name stands for at the moment, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<NameStatus>,
    /// What these clients may do: `rw` or `ro`.
    pub access: String,
    /// Which users become anonymous: `root`, `all` or `none`.
    pub squash: String,
    /// Must the client's port be below 1024?
    pub privileged_port: bool,
    /// The versions of NFS that these clients may use, of those that the server answers; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
    /// How much each of these clients gets beside others.
    #[serde(default)]
    pub weight: u32,
    /// Most bytes that each may move in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// Most calls of each in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_per_second: Option<u64>,
}

/// What the name of a host or netgroup stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NameStatus {
    /// The addresses that it has.
    pub addresses: Vec<IpAddr>,
    /// How these came about: `asked`, `known`, `partly`, `kept` or `nobody`.
    pub state: String,
    /// What is wrong, in words; empty where nothing is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trouble: String,
}

impl NameStatus {
    /// What a name stands for at the moment.
    #[must_use]
    pub fn of(live: &LiveName) -> Self {
        let now = live.resolved();
        Self {
            addresses: now.addresses.clone(),
            state: word_of(now.state, NameState::WORDS).to_owned(),
            trouble: now.trouble.clone(),
        }
    }

    /// The same for people: the first of its addresses, and what is wrong.
    #[must_use]
    pub fn in_words(&self) -> String {
        let shown = self.addresses.iter().take(limits::SHOWN_ADDRESSES_MAX);
        let shown: Vec<String> = shown.map(ToString::to_string).collect();
        let mut words = shown.join(" ");
        if self.addresses.len() > shown.len() {
            words.push_str(&format!(" and {} more", self.addresses.len() - shown.len()));
        }
        if shown.is_empty() {
            words.push_str("nobody");
        }
        let asked = word_of(NameState::Asked, NameState::WORDS);
        match self.trouble.as_str() {
            "" if self.state == asked => words.push_str(": not looked up yet"),
            "" => {}
            trouble => words.push_str(&format!(": {trouble}")),
        }
        words
    }
}

/// One client that is connected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientStatus {
    /// Address and port that the client connected from.
    pub address: String,
    /// The user of a program of this machine: its number, `untold` where the kernel does not say, or `barred`
    /// where it is another user's than a server without privileges acts for. Absent for others, and where
    /// loopback is trusted.
    pub user: Option<String>,
    /// How many seconds ago it connected.
    pub connected_seconds: u64,
    /// Calls of this connection that were answered.
    pub calls: u64,
    /// Calls of this connection that are under way.
    pub in_flight: u64,
    /// Bytes that were received on this connection.
    pub received_bytes: u64,
    /// Bytes that were sent on this connection.
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
            stable_write_attributes: export.stable_write_attributes,
            crossmnt: export.crossmnt,
            audit: word_of(export.audit, Audited::WORDS).to_owned(),
            read: show_way(export.io.now().read).to_owned(),
            write: show_way(export.io.now().write).to_owned(),
            rules: export.rules().iter().map(RuleStatus::of).collect(),
        }
    }
}

impl RuleStatus {
    fn of(rule: &ClientRule) -> Self {
        let allowance = rule.allowance.as_deref().unwrap_or(&Allowance::DEFAULT);
        Self {
            net: rule.clients.to_string(),
            name: rule.clients.named().map(NameStatus::of),
            access: word_of(rule.access, Access::WORDS).to_owned(),
            squash: word_of(rule.squash.kind(), SquashKind::WORDS).to_owned(),
            privileged_port: rule.privileged_port,
            versions: match rule.versions {
                Versions::ALL => Vec::new(),
                some => some.words().map(str::to_owned).collect(),
            },
            weight: allowance.weight,
            bytes_per_second: allowance.bytes_per_second,
            calls_per_second: allowance.calls_per_second,
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
