//! The configuration: what an operator may choose, from a TOML file or from flags.
//!
//! This module owns every knob of the server and the text of each complaint about it. It reads the
//! file into a [`Config`] once; nothing else of the server sees TOML. The document is walked by
//! hand, with the position of each key and value, so that one run reports *every* problem with its
//! line and its cure, which a derived deserializer (it stops at the first) cannot do. A key that is
//! not known is an error.
//!
//! It never panics on a file's contents, and it only looks at the file system to see that the
//! exported directories exist.

mod io_policy;
mod problem;
mod read;
mod toml_section;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use nfs_io::BusyPoll;

pub(super) use super::values::check_beneath;
use super::values::is_domain;
pub use super::values::{
    NFS_PORT, Who, check_directory, check_memory, check_pseudo, from_word, loopback_nets,
    parse_http, parse_listen, parse_net, parse_size, word_of,
};
pub use problem::{ConfigErrors, Problem};

use crate::exports::names::ClientName;
use crate::exports::policy::IoPolicy;
use crate::exports::versions::Versions;
use crate::limits;

/// User and group that squashed requests run as unless configured: `nobody` on Linux.
pub const ANONYMOUS_ID_DEFAULT: u32 = 65534;

/// A whole configuration, valid in itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The file this was read from; `None` when it was made from flags.
    pub file: Option<PathBuf>,
    /// Settings of the whole server, whatever the export.
    pub server: ServerConfig,
    /// What is served. At least one; pseudo paths are unique.
    pub exports: Vec<ExportConfig>,
    /// What the file says and is worth a second look, with its line; see [`Config::warnings`].
    pub remarks: Vec<String>,
    /// For each export, the line that each of its `clients` is written in. No part of the export: one that
    /// moved in the file is the same.
    pub client_lines: Vec<Vec<usize>>,
}

/// The `[server]` section. A change of these needs a restart, except `log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Addresses that MOUNT and NFS are answered on. Port 0 takes a free one.
    pub listen: Vec<SocketAddr>,
    /// Where handle keys, the control socket and the handle table live; `None` takes the default
    /// of [`crate::host::state_dir`].
    pub state_dir: Option<PathBuf>,
    /// Versions of NFS that are answered. Never empty.
    pub versions: Versions,
    /// Seconds that an NFSv4 client may be silent before others may have what it holds. From
    /// [`limits::LEASE_SECONDS_MIN`] to [`limits::LEASE_SECONDS_MAX`].
    pub lease_seconds: u32,
    /// Seconds that NFSv4 clients have after a restart to reclaim what they held, at most; nothing new is given
    /// meanwhile. No less than the lease.
    pub grace_seconds: u32,
    /// How file I/O is carried out.
    pub engine: EngineChoice,
    /// Budget of all I/O buffers together, in bytes. At the budget connections are read no further
    /// until replies have left: slower, never larger.
    pub memory_bytes: u64,
    /// Event-loop threads; `None` takes one per processor.
    pub shards: Option<usize>,
    /// How long a shard that had something to do looks for more before it sleeps.
    pub busy_poll: BusyPoll,
    /// TCP congestion control that replies are sent with, by the kernel's name for it; `None` takes the system's.
    pub congestion_control: Option<String>,
    /// Most threads for calls that may block; `None` takes the server's own choice.
    pub helper_threads: Option<usize>,
    /// Answer portmap and rpcbind on port 111 ourselves (needs root and no other rpcbind).
    pub portmap: bool,
    /// Register with a local rpcbind where there is one.
    pub rpcbind: bool,
    /// Take a user's groups from this machine's group database instead of the (at most 16) groups
    /// that AUTH_SYS carries.
    pub server_groups: bool,
    /// The domain of the names by which NFSv4 calls users and groups (`name@domain`, RFC 8881 §5.9); `None` calls them
    /// by their numbers.
    pub idmap_domain: Option<String>,
    /// Believe programs of this machine who they say they are, root included, instead of asking the
    /// kernel whose they are.
    pub trust_loopback: bool,
    /// Which messages reach the log: those of this level and of every graver one.
    pub log: LogLevel,
    /// Log one JSON object per line instead of text.
    pub log_json: bool,
    /// Where the audit of exports is written.
    pub audit_to: AuditTo,
    /// Address that `/metrics` is answered on over HTTP; `None` for nowhere. Port 0 takes a free one.
    pub metrics: Option<SocketAddr>,
    /// Address that the web page is answered on over HTTP; `None` for nowhere. Port 0 takes a free one.
    pub web: Option<SocketAddr>,
    /// Names by which HTTP requests may call this server, beside its addresses, `localhost` and the host's own name.
    pub http_names: Vec<String>,
    /// Group whose members may ask on the status socket, by name or number; `None` for the owner only.
    pub status_group: Option<String>,
    /// Whether the process gives up what it does not need.
    pub confine: Confine,
    /// Directories beneath which everything lies that this server will ever serve, absolute; empty
    /// leaves that open.
    pub confine_beneath: Vec<PathBuf>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, NFS_PORT))],
            state_dir: None,
            versions: Versions::ALL,
            lease_seconds: limits::LEASE_SECONDS_DEFAULT,
            grace_seconds: limits::LEASE_SECONDS_DEFAULT,
            engine: EngineChoice::Auto,
            memory_bytes: limits::MEMORY_BYTES_DEFAULT,
            shards: None,
            busy_poll: BusyPoll::AUTO,
            congestion_control: None,
            helper_threads: None,
            portmap: false,
            rpcbind: true,
            server_groups: false,
            idmap_domain: None,
            trust_loopback: false,
            log: LogLevel::Info,
            log_json: false,
            audit_to: AuditTo::File,
            metrics: None,
            web: None,
            http_names: Vec::new(),
            status_group: None,
            confine: Confine::Auto,
            confine_beneath: Vec::new(),
        }
    }
}

/// One `[[export]]` section: a directory that is served, to whom and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportConfig {
    /// The directory that is served, absolute.
    pub path: PathBuf,
    /// The path that clients mount, `/` or `/name/...`, without a slash at its end. The default is
    /// the directory's own path.
    pub pseudo: String,
    /// Who may use the export, in order: the first entry that matches a client decides. Never empty.
    pub clients: Vec<ClientConfig>,
    /// When a change is on stable storage.
    pub durability: Durability,
    /// Are the replies to stable WRITEs of NFSv3 to tell attributes? A client that caches needs them to know its own
    /// WRITEs from others'; without them a WRITE waits for the file system's journal once in a tick of the clock,
    /// not each time.
    pub stable_write_attributes: bool,
    /// May a client walk into other file systems that are mounted below the directory?
    pub crossmnt: bool,
    /// Which calls the audit is told of.
    pub audit: Audited,
    /// How READs and WRITEs reach the disk.
    pub io: IoPolicy,
}

impl ExportConfig {
    /// An export of `path` as `pseudo` to loopback clients, writable, root squashed: the defaults
    /// of an `[[export]]` section.
    pub fn new(path: impl Into<PathBuf>, pseudo: impl Into<String>) -> Self {
        let rule = |net: IpNet| ClientConfig {
            net: net.into(),
            ..ClientConfig::default()
        };
        Self {
            path: path.into(),
            pseudo: pseudo.into(),
            clients: loopback_nets().map(rule).to_vec(),
            durability: Durability::Sync,
            stable_write_attributes: true,
            crossmnt: false,
            audit: Audited::Off,
            io: IoPolicy::default(),
        }
    }
}

impl ExportConfig {
    /// For each name that a later rule gives more than its own, that so it is: while the name cannot be resolved, its
    /// hosts are taken for others.
    fn falls_through(&self) -> Vec<String> {
        let rules = self.clients.iter().enumerate();
        let warning = |(at, rule): (usize, &ClientConfig)| {
            let name = rule.net.name()?;
            let later = self.clients.iter().skip(at + 1);
            let is_wide = |later: &&ClientConfig| match &later.net {
                Who::Net(net) => net.prefix_len() < net.max_prefix_len(),
                Who::Named(name) => matches!(name, ClientName::Netgroup(_)),
            };
            let mut later = later.filter(is_wide);
            let more = later.find(|later| !later.is_within(rule))?;
            Some(format!(
                "{}: while {name} cannot be resolved, its hosts may do what the rule for {} lets them, which is more; \
                 list their addresses if that matters",
                self.pseudo, more.net
            ))
        };
        rules.filter_map(warning).collect()
    }
}

/// What some clients may do with an export: an entry of `clients`, or an
/// `[[export.client]]` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// The clients: a network, or a name.
    pub net: Who,
    /// May these clients change files, or only read them?
    pub access: Access,
    /// Which of these clients' users run as the anonymous user.
    pub squash: SquashKind,
    /// The user that squashed requests run as.
    pub anonuid: u32,
    /// The group that squashed requests run as.
    pub anongid: u32,
    /// Must the client's port be below 1024? That only proves that the sender was root on its own
    /// machine; it locks out user-space clients.
    pub privileged_port: bool,
    /// Versions of NFS that these clients may use, of those that the server answers. Never empty.
    pub versions: Versions,
    /// What each of these clients gets beside others, and at most.
    pub allowance: Allowance,
}

impl ClientConfig {
    /// Whether whoever gets this is let do no more than by `other`, and as no other user.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        let strictness = |squash| match squash {
            SquashKind::None => 0,
            SquashKind::Root => 1,
            SquashKind::All => 2,
        };
        let same_ids = (self.anonuid, self.anongid) == (other.anonuid, other.anongid);
        (self.access == Access::ReadOnly || other.access == Access::ReadWrite)
            && strictness(self.squash) >= strictness(other.squash)
            && (same_ids || other.squash == SquashKind::None)
            && (self.privileged_port || !other.privileged_port)
            && self.versions.without(other.versions).is_empty()
    }
}

/// What one client may have of what all share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// How much it gets beside others that want as much as they can have; 1 unless told otherwise.
    pub weight: u32,
    /// Most bytes that its READs and WRITEs of the export may move in a second.
    pub bytes_per_second: Option<u64>,
    /// Most calls on the export in a second.
    pub calls_per_second: Option<u64>,
}

impl Allowance {
    /// What a client may have of whom nobody said anything.
    pub const DEFAULT: Self = Self {
        weight: 1,
        bytes_per_second: None,
        calls_per_second: None,
    };
}

impl Default for Allowance {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            net: loopback_nets()[0].into(),
            access: Access::ReadWrite,
            squash: SquashKind::Root,
            anonuid: ANONYMOUS_ID_DEFAULT,
            anongid: ANONYMOUS_ID_DEFAULT,
            privileged_port: false,
            versions: Versions::ALL,
            allowance: Allowance::default(),
        }
    }
}

/// How file I/O is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineChoice {
    /// io_uring where the kernel lets us, threads elsewhere.
    Auto,
    /// io_uring; the server does not start without it.
    Uring,
    /// Threads that block in `preadv2` and `pwritev2`.
    Threads,
}

impl EngineChoice {
    /// The words that the configuration has for the values.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("uring", Self::Uring),
        ("threads", Self::Threads),
    ];
}

/// Whether the server's process gives up what it does not need: capabilities, system calls, places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confine {
    /// As far as the kernel lets it; what fails is said.
    Auto,
    /// Nothing is given up but `CAP_SYS_RESOURCE`.
    Off,
    /// All of it; the server does not start where a part fails.
    Required,
}

impl Confine {
    /// The words that the configuration has for the values.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("off", Self::Off),
        ("required", Self::Required),
    ];
}

/// Which calls on an export the audit is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audited {
    /// None.
    Off,
    /// Those that make, remove and rename, and that change attributes.
    Changes,
    /// READ and WRITE too, but of them only the first in a while of each user, client and file.
    All,
}

impl Audited {
    /// The words that the configuration has for the values.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("off", Self::Off),
        ("changes", Self::Changes),
        ("all", Self::All),
    ];
}

/// Where the audit is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditTo {
    /// To `audit.jsonl` in the state directory.
    File,
    /// To the journal of systemd.
    Journal,
}

impl AuditTo {
    /// The words that the configuration has for the values.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("file", Self::File), ("journal", Self::Journal)];
}

/// Whether clients may change files of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Clients read and change files.
    ReadWrite,
    /// Only reads; a change is answered NFS3ERR_ROFS.
    ReadOnly,
}

impl Access {
    /// The words that the configuration has for the values.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("rw", Self::ReadWrite), ("ro", Self::ReadOnly)];
}

/// Whose requests run as the anonymous user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SquashKind {
    /// The requests of user 0, and group 0 wherever it occurs.
    Root,
    /// The requests of every user.
    All,
    /// The requests of nobody: a client's root is root here.
    None,
}

impl SquashKind {
    /// The words that the configuration has for the values.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("root", Self::Root),
        ("all", Self::All),
        ("none", Self::None),
    ];
}

/// When a change is on stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before the reply, as RFC 1813 §1.7 and §4.8 ask.
    Sync,
    /// Some time after the reply: faster, and a power cut loses what was acknowledged.
    Async,
}

impl Durability {
    /// The words that the configuration has for the values.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("sync", Self::Sync), ("async", Self::Async)];
}

/// How much is logged. Each level contains those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What stops the server or loses data.
    Error,
    /// What an operator should look at.
    Warn,
    /// Starts, stops and reloads of the server too.
    Info,
    /// Connections and what was decided about them too.
    Debug,
    /// All there is, call by call: it slows the server down.
    Trace,
}

impl LogLevel {
    /// The words that the configuration has for the values.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

impl Config {
    /// A configuration made of flags: one export and what holds for the server.
    #[must_use]
    pub const fn from_flags(server: ServerConfig, exports: Vec<ExportConfig>) -> Self {
        Self {
            file: None,
            server,
            exports,
            remarks: Vec::new(),
            client_lines: Vec::new(),
        }
    }

    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    /// Every problem found, each with its line and cure.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        let text = read_bounded(path).map_err(|problem| ConfigErrors::one(path, problem))?;
        Self::parse(path, &text)
    }

    /// Checks `text`, which is the contents of `file` (used for messages only).
    ///
    /// # Errors
    /// Every problem found, each with its line and cure.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ConfigErrors> {
        read::config(file, text)
    }

    /// The line of the file that decides about the client rule at this index of an export, itself at that index:
    /// that of its network or, where the export lists none, that of the export. `None` for rules made of flags.
    #[must_use]
    pub fn client_line(&self, export: usize, rule: usize) -> Option<usize> {
        self.client_lines.get(export)?.get(rule).copied()
    }

    /// What is allowed and yet worth a second look, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.remarks.clone();
        if self.server.trust_loopback {
            warnings.push(
                "trust_loopback: every user of this machine can act as any other, and as root \
                 where root is not squashed"
                    .to_owned(),
            );
        }
        if let Some(web) = self
            .server
            .web
            .filter(|web| !web.ip().to_canonical().is_loopback())
        {
            warnings.push(format!(
                "web: whoever can connect to {web} sees the names of exports and the addresses of clients; \
                 there is no password. A loopback address and `ssh -L` are safer"
            ));
        }
        for export in &self.exports {
            if export.durability == Durability::Async {
                warnings.push(format!(
                    "{}: durability = \"async\": a power cut or a crash loses changes that were \
                     acknowledged, and no client will notice",
                    export.pseudo
                ));
            }
            for client in &export.clients {
                if client
                    .versions
                    .intersection(self.server.versions)
                    .is_empty()
                {
                    warnings.push(format!(
                        "{}: {} may use only NFS {}, which is not among the versions of [server]: \
                         it is refused",
                        export.pseudo, client.net, client.versions
                    ));
                }
                let wide_open = client.squash == SquashKind::None
                    && client.access == Access::ReadWrite
                    && client.net.net().is_some_and(|net| net.prefix_len() == 0);
                if wide_open {
                    warnings.push(format!(
                        "{}: any host ({}) may act as root here (squash = \"none\")",
                        export.pseudo, client.net
                    ));
                }
            }
            warnings.extend(export.falls_through());
            let outer = |other: &&ExportConfig| {
                other.pseudo != export.pseudo && export.path.starts_with(&other.path)
            };
            if let Some(outer) = self.exports.iter().find(outer) {
                warnings.push(format!(
                    "{}: its directory {} lies inside that of {} ({}): clients of the latter \
                     reach it under the latter's rules",
                    export.pseudo,
                    export.path.display(),
                    outer.pseudo,
                    outer.path.display()
                ));
            }
        }
        warnings
    }
}

/// The id of an export: FNV-1a (32 bit) of its pseudo path. It is in every handle, so it must not
/// depend on the order of the file, on the run or on the build.
#[must_use]
pub fn export_id(pseudo: &str) -> u32 {
    const OFFSET_BASIS: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    pseudo.bytes().fold(OFFSET_BASIS, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(PRIME)
    })
}

/// The text of a configuration file, this server's or another's, of at most [`limits::CONFIG_BYTES_MAX`].
///
/// # Errors
/// The sentence to show.
pub fn read_bounded(path: &Path) -> Result<String, String> {
    use std::io::Read as _;
    let cannot = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file; check the path".to_owned(),
        std::io::ErrorKind::InvalidData => "this is not UTF-8 text; save it as UTF-8".to_owned(),
        _ => format!("cannot be read ({error}); check its permissions"),
    };
    let file = std::fs::File::open(path).map_err(cannot)?;
    let mut text = String::new();
    file.take(limits::CONFIG_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(cannot)?;
    if text.len() as u64 > limits::CONFIG_BYTES_MAX {
        return Err(format!(
            "is larger than {} bytes; is this the right file?",
            limits::CONFIG_BYTES_MAX
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
