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

mod problem;
mod read;
mod toml_section;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;

pub use problem::{ConfigErrors, Problem};

use crate::limits;

/// User and group that squashed requests run as unless configured: `nobody` on Linux.
pub const ANONYMOUS_ID_DEFAULT: u32 = 65534;

/// The port of NFS (RFC 1813 §2.2).
pub const NFS_PORT: u16 = 2049;

/// A whole configuration, valid in itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The file this was read from; `None` when it was made from flags.
    pub file: Option<PathBuf>,
    /// What holds for the whole server.
    pub server: ServerConfig,
    /// What is served. At least one; pseudo paths are unique.
    pub exports: Vec<ExportConfig>,
}

/// The `[server]` section. A change of these needs a restart, except `log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Addresses that MOUNT and NFS are answered on. Port 0 takes a free one.
    pub listen: Vec<SocketAddr>,
    /// Where handle keys, the control socket and the handle table live; `None` takes the default
    /// of [`crate::state_dir`].
    pub state_dir: Option<PathBuf>,
    /// How file I/O is carried out.
    pub engine: EngineChoice,
    /// Budget of all I/O buffers together, in bytes. At the budget connections are read no further
    /// until replies have left: slower, never larger.
    pub memory_bytes: u64,
    /// Event-loop threads; `None` takes one per processor.
    pub shards: Option<usize>,
    /// Most threads for calls that may block; `None` takes the server's own choice.
    pub helper_threads: Option<usize>,
    /// Answer portmap and rpcbind on port 111 ourselves (needs root and no other rpcbind).
    pub portmap: bool,
    /// Register with a local rpcbind where there is one.
    pub rpcbind: bool,
    /// Take a user's groups from this machine's group database instead of the (at most 16) groups
    /// that AUTH_SYS carries.
    pub server_groups: bool,
    /// How much is logged.
    pub log: LogLevel,
    /// Log one JSON object per line instead of text.
    pub log_json: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, NFS_PORT))],
            state_dir: None,
            engine: EngineChoice::Auto,
            memory_bytes: limits::MEMORY_BYTES_DEFAULT,
            shards: None,
            helper_threads: None,
            portmap: false,
            rpcbind: true,
            server_groups: false,
            log: LogLevel::Info,
            log_json: false,
        }
    }
}

/// One `[[export]]` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportConfig {
    /// The directory that is served, absolute.
    pub path: PathBuf,
    /// The path that clients mount, `/` or `/name/...`, without a slash at its end. The default is
    /// the directory's own path.
    pub pseudo: String,
    /// Who may come, in order; the first match decides. Never empty.
    pub clients: Vec<ClientConfig>,
    /// When a change is on stable storage.
    pub durability: Durability,
    /// May a client walk into other file systems that are mounted below the directory?
    pub crossmnt: bool,
    /// How READs reach the disk.
    pub read: IoMode,
    /// How WRITEs reach the disk.
    pub write: IoMode,
}

impl ExportConfig {
    /// An export of `path` as `pseudo` to loopback clients, writable, root squashed: the defaults
    /// of an `[[export]]` section.
    pub fn new(path: impl Into<PathBuf>, pseudo: impl Into<String>) -> Self {
        let rule = |net| ClientConfig {
            net,
            ..ClientConfig::default()
        };
        Self {
            path: path.into(),
            pseudo: pseudo.into(),
            clients: loopback_nets().map(rule).to_vec(),
            durability: Durability::Sync,
            crossmnt: false,
            read: IoMode::Buffered,
            write: IoMode::Buffered,
        }
    }
}

/// What one network of clients may do with an export: an entry of `clients`, or an
/// `[[export.client]]` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// The network. IPv4 networks written as IPv4-mapped IPv6 are kept as IPv4.
    pub net: IpNet,
    /// May it change anything?
    pub access: Access,
    /// Whose requests become anonymous.
    pub squash: SquashKind,
    /// The user that squashed requests run as.
    pub anonuid: u32,
    /// The group that squashed requests run as.
    pub anongid: u32,
    /// Must the client's port be below 1024? That only proves that the sender was root on its own
    /// machine; it locks out user-space clients.
    pub privileged_port: bool,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            net: loopback_nets()[0],
            access: Access::ReadWrite,
            squash: SquashKind::Root,
            anonuid: ANONYMOUS_ID_DEFAULT,
            anongid: ANONYMOUS_ID_DEFAULT,
            privileged_port: false,
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
    /// The words of the configuration.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("uring", Self::Uring),
        ("threads", Self::Threads),
    ];
}

/// May a client change anything?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads and changes.
    ReadWrite,
    /// Only reads; a change is answered NFS3ERR_ROFS.
    ReadOnly,
}

impl Access {
    /// The words of the configuration.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("rw", Self::ReadWrite), ("ro", Self::ReadOnly)];
}

/// Whose requests run as the anonymous user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SquashKind {
    /// Those of user 0, and group 0 wherever it occurs.
    Root,
    /// Everybody's.
    All,
    /// Nobody's: a client's root is root here.
    None,
}

impl SquashKind {
    /// The words of the configuration.
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
    /// The words of the configuration.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("sync", Self::Sync), ("async", Self::Async)];
}

/// How a file's bytes travel between the wire and the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMode {
    /// Through the page cache.
    Buffered,
}

impl IoMode {
    /// The words of the configuration.
    pub const WORDS: &'static [(&'static str, Self)] = &[("buffered", Self::Buffered)];
    /// Modes that have a name already and come later; asking for one is an error of its own.
    pub const WORDS_LATER: &'static [&'static str] = &["dontcache", "direct", "auto"];

    /// The mode called `word`.
    ///
    /// # Errors
    /// What is wrong and the cure, for a word that names no mode or one that comes later.
    pub fn from_word(word: &str) -> Result<Self, String> {
        if Self::WORDS_LATER.contains(&word) {
            return Err(format!(
                "I/O mode \"{word}\" comes later, this version has none; write \"buffered\""
            ));
        }
        from_word(word, Self::WORDS)
    }
}

/// How much is logged. Each level contains those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What stops the server or loses data.
    Error,
    /// What an operator should look at.
    Warn,
    /// Starts, stops, reloads.
    Info,
    /// Connections and decisions.
    Debug,
    /// Everything, with a price.
    Trace,
}

impl LogLevel {
    /// The words of the configuration.
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

    /// What is allowed and yet worth a second look, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for export in &self.exports {
            if export.durability == Durability::Async {
                warnings.push(format!(
                    "{}: durability = \"async\": a power cut or a crash loses changes that were \
                     acknowledged, and no client will notice",
                    export.pseudo
                ));
            }
            for client in &export.clients {
                let wide_open = client.squash == SquashKind::None
                    && client.access == Access::ReadWrite
                    && client.net.prefix_len() == 0;
                if wide_open {
                    warnings.push(format!(
                        "{}: any host ({}) may act as root here (squash = \"none\")",
                        export.pseudo, client.net
                    ));
                }
            }
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

/// The networks that may mount when none is configured.
#[must_use]
pub fn loopback_nets() -> [IpNet; 2] {
    use ipnet::{Ipv4Net, Ipv6Net};
    [
        IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
        IpNet::V6(Ipv6Net::new_assert(std::net::Ipv6Addr::LOCALHOST, 128)),
    ]
}

/// The meaning of `word` among `words`.
///
/// # Errors
/// The sentence to show, with the words that would do.
pub fn from_word<T: Copy>(word: &str, words: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, value)) = words.iter().find(|(known, _)| *known == word) {
        return Ok(*value);
    }
    let known: Vec<String> = words
        .iter()
        .map(|(known, _)| format!("\"{known}\""))
        .collect();
    Err(format!(
        "\"{word}\" is not a choice; write {}",
        known.join(" or ")
    ))
}

/// The word for `value` among `words`; empty if it has none.
pub fn word_of<T: Copy + PartialEq>(value: T, words: &[(&'static str, T)]) -> &'static str {
    words
        .iter()
        .find(|(_, known)| *known == value)
        .map_or("", |(word, _)| word)
}

/// A number of bytes: `4096`, `512KiB`, `256MiB`, `1GiB`, `2G` (powers of 1024), `1GB` (powers of
/// 1000). Upper and lower case and a space before the unit are the same.
///
/// # Errors
/// The sentence to show.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let digits = trimmed.len()
        - trimmed
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .len();
    let (number, unit) = trimmed.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(not_a_size(text)),
    };
    let number: u64 = number.parse().map_err(|_| not_a_size(text))?;
    number.checked_mul(factor).ok_or_else(|| not_a_size(text))
}

/// Is `bytes` enough of a memory budget? `Err` is the sentence to show.
///
/// # Errors
/// If it is below [`limits::MEMORY_BYTES_MIN`].
pub fn check_memory(bytes: u64) -> Result<(), String> {
    if bytes < limits::MEMORY_BYTES_MIN {
        let least = limits::MEMORY_BYTES_MIN >> 20;
        return Err(format!(
            "memory of {bytes} bytes is too little; write at least \"{least}MiB\""
        ));
    }
    Ok(())
}

/// An address and port to listen on.
///
/// # Errors
/// The sentence to show.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let cure = match text.parse::<std::net::IpAddr>() {
            Ok(address) => format!("write \"{}\"", SocketAddr::new(address, NFS_PORT)),
            Err(_) => "write \"127.0.0.1:2049\", \"[::1]:2049\" or \"0.0.0.0:2049\"".to_owned(),
        };
        format!("\"{text}\" is not an address with a port; {cure}")
    })
}

fn not_a_size(text: &str) -> String {
    format!("\"{text}\" is not a size; write a whole number and a unit, for example \"256MiB\"")
}

/// A client network: `10.0.0.0/8`, `2001:db8::/32`, or one address.
///
/// # Errors
/// The sentence to show.
pub fn parse_net(text: &str) -> Result<IpNet, String> {
    const FORMS: &str = "write an address or a network, for example \"10.0.0.0/8\" or \"::1\"";
    if text == "*" {
        return Err("\"*\" is not a network; write \"0.0.0.0/0\" and \"::/0\"".to_owned());
    }
    let net = match text.parse::<std::net::IpAddr>() {
        Ok(address) => IpNet::from(address),
        Err(_) => match text.parse::<IpNet>() {
            Ok(net) => net,
            Err(_) if text.contains('/') => {
                return Err(format!("\"{text}\" is not a network; {FORMS}"));
            }
            Err(_) => {
                return Err(format!(
                    "\"{text}\" is not an address (names are not looked up); {FORMS}"
                ));
            }
        },
    };
    if net.addr() != net.network() {
        return Err(format!(
            "\"{text}\" has address bits behind its prefix; write \"{}\" for the network or \
             \"{}\" for the one address",
            net.trunc(),
            net.addr()
        ));
    }
    Ok(canonical_net(net))
}

/// `::ffff:10.0.0.0/104` is `10.0.0.0/8`: clients are compared in their IPv4 form.
fn canonical_net(net: IpNet) -> IpNet {
    if let IpNet::V6(v6) = net
        && let Some(v4) = v6.addr().to_ipv4_mapped()
        && let Some(prefix) = v6.prefix_len().checked_sub(96)
        && let Ok(v4) = ipnet::Ipv4Net::new(v4, prefix)
    {
        return IpNet::V4(v4);
    }
    net
}

/// The path that clients mount: absolute, in its one normal form.
///
/// # Errors
/// The sentence to show.
pub fn check_pseudo(pseudo: &str) -> Result<(), String> {
    if !pseudo.starts_with('/') {
        return Err(format!(
            "pseudo path \"{pseudo}\" is not absolute; write \"/{pseudo}\""
        ));
    }
    if pseudo.len() > limits::PSEUDO_PATH_BYTES_MAX {
        return Err(format!(
            "pseudo path has {} bytes; MOUNT carries at most {}",
            pseudo.len(),
            limits::PSEUDO_PATH_BYTES_MAX
        ));
    }
    if pseudo.bytes().any(|byte| byte == 0) {
        return Err("pseudo path holds a NUL byte; remove it".to_owned());
    }
    let names: Vec<&str> = pseudo
        .split('/')
        .filter(|name| !name.is_empty() && *name != ".")
        .collect();
    if names.contains(&"..") {
        return Err(format!(
            "pseudo path \"{pseudo}\" holds \"..\"; write where it leads"
        ));
    }
    let normal = format!("/{}", names.join("/"));
    if normal != pseudo {
        return Err(format!(
            "pseudo path \"{pseudo}\" is not in normal form; write \"{normal}\""
        ));
    }
    Ok(())
}

/// Is `path` a directory that can be served? `Err` is the sentence to show.
///
/// # Errors
/// If it is relative, missing, not a directory, or cannot be looked at.
pub fn check_directory(path: &Path) -> Result<(), String> {
    let shown = path.display();
    if !path.is_absolute() {
        return Err(format!(
            "path \"{shown}\" is relative; write it from the root, as \"/srv/data\""
        ));
    }
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(format!(
            "path \"{shown}\" is not a directory; name the directory that holds it"
        )),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(format!(
            "path \"{shown}\" does not exist; create it with: mkdir -p {shown}"
        )),
        Err(error) => Err(format!(
            "path \"{shown}\" cannot be looked at ({error}); check its permissions"
        )),
    }
}

fn read_bounded(path: &Path) -> Result<String, String> {
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
