//! NFS URLs: `nfs://host[:port]/export/path[?option=value&...]` (the form of RFC 2224 §2).
//!
//! Owns the text form only: parsing, percent-decoding, and the names of the options. It resolves
//! no name and opens no connection. Parsing never panics, whatever the text.
//!
//! RFC 2224 takes the path relative to the server's public file handle, and asks MOUNT only if that
//! fails. This client asks MOUNT always: few servers have a public handle, and none of them is without
//! MOUNT. So the path is one of the server's name space, and `nfs://host/a` and `nfs://host//a` (which
//! RFC 2224 §4 calls absolute) are the same.

mod options;
mod pattern;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use self::pattern::{NamePattern, UrlPattern};

use crate::connection::Reconnect;
use crate::hint::Hint;
use crate::limits::{URL_BYTES_MAX, URL_PATH_BYTES_MAX};

/// Where an NFS server listens unless it is told otherwise (RFC 2224 §3, RFC 1813 §2.1).
pub const NFS_PORT: u16 = 2049;

/// A version of NFS that a URL can name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// NFSv3: RFC 1813.
    #[default]
    V3,
    /// The newest minor version of NFSv4 that both sides speak, from 4.1 on.
    V4,
    /// NFSv4.1: RFC 8881.
    V41,
    /// NFSv4.2: RFC 7862.
    V42,
}

impl Version {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::V3, Self::V4, Self::V41, Self::V42];

    /// The version as `version=` of a URL has it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::V3 => "3",
            Self::V4 => "4",
            Self::V41 => "4.1",
            Self::V42 => "4.2",
        }
    }

    /// The version of the RPC program, as the portmapper and calls have it.
    #[must_use]
    pub const fn program_version(self) -> u32 {
        match self {
            Self::V3 => nfs_wire::nfs3::VERSION,
            Self::V4 | Self::V41 | Self::V42 => nfs_wire::nfs4::VERSION,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A parsed `nfs://` URL.
///
/// `nfs://host[:port]/path?option=value&option=value`. IPv6 addresses stand in brackets. The path is
/// percent-decoded to bytes: names need not be UTF-8. Options:
///
/// | option | meaning | default |
/// |---|---|---|
/// | `version=V` | the NFS version: 3; 4.1 or 4.2; 4 for the newest of these that both speak | 3 |
/// | `nfsport=N` | the NFS port, the same as `:N` after the host | 2049, then the portmapper |
/// | `mountport=N` | the MOUNT port | the NFS port, then the portmapper |
/// | `uid=N`, `gid=N` | the AUTH_SYS identity to call with | that of this process |
/// | `nconnect=N` | how many connections to use, 1 to 16 | 1 |
/// | `rsize=N`, `wsize=N` | bytes per READ and WRITE; the server's FSINFO caps them, and 1 MiB | what the server prefers |
/// | `readdir-buffer=N[,M]` | bytes per directory reply, the larger one counts | 64 KiB |
/// | `hint=HINT` | how files will be read: `sequential`, `random`, `noreuse`, `willneed` or `normal` ([`Hint`]) | found from the reads |
/// | `timeout=N` | seconds that a call may take, reconnects included | 300 |
/// | `timeo=N` | tenths of a second of silence after which calls go out again over a new connection | 150 |
/// | `retrans=0` | a call is not sent again: it fails after `timeo` (60 s if not given) or a lost connection | |
/// | `autoreconnect=0` | a lost connection stays lost: all calls fail | |
/// | `readonly` | calls that change anything fail here with `NFS3ERR_ROFS` | |
/// | `if=NAME` | the network interface to use | the system's choice |
///
/// Taken because libnfs has them, without effect, as this client does that already: `retrans=N` and
/// `autoreconnect=N` for other N (calls are sent again until their time is over), `tcp-syncnt=N` (an
/// attempt to connect has 10 s, and is repeated), `dircache=0|1` (no directory is cached),
/// `auto-traverse-mounts=0`, `sec=sys`, `xprtsec=none`, `debug=N` (`RUST_LOG` says what is logged).
/// Refused, because something else would happen than was asked for: `auto-traverse-mounts=1`,
/// `sec=krb5...`, `xprtsec=tls`, names that are none of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NfsUrl {
    /// Host name or address, without brackets.
    pub host: String,
    /// The NFS port if the URL names one.
    pub port: Option<u16>,
    /// The version of NFS.
    pub version: Version,
    /// The MOUNT port if the URL names one.
    pub mount_port: Option<u16>,
    /// The decoded path. Begins with `/`, holds no NUL.
    pub path: Vec<u8>,
    /// The user to call as, if the URL names one.
    pub uid: Option<u32>,
    /// The group to call as, if the URL names one.
    pub gid: Option<u32>,
    /// Connections asked for, 1 to 16.
    pub nconnect: Option<u8>,
    /// Bytes of one READ at most (`rsize`); the server's choice if `None`.
    pub read_bytes: Option<u32>,
    /// Bytes of one WRITE at most (`wsize`); the server's choice if `None`.
    pub write_bytes: Option<u32>,
    /// Bytes of one READDIR or READDIRPLUS reply at most (`readdir-buffer`).
    pub directory_bytes: Option<u32>,
    /// What is said of each file as it is opened.
    pub hint: Option<Hint>,
    /// How long a call may take.
    pub call_timeout: Option<Duration>,
    /// How much silence makes calls go out again; whole tenths of a second.
    pub retry_after: Option<Duration>,
    /// What is done when a connection is lost, if the URL forbids to send calls again.
    pub reconnect: Option<Reconnect>,
    /// Whether calls that change something are refused on this side (`readonly`).
    pub read_only: bool,
    /// The network interface to use.
    pub interface: Option<String>,
}

/// Why a text is not an NFS URL that we can use, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The text is longer than the cap.
    #[error("the URL is {len} bytes long; at most {URL_BYTES_MAX} are accepted")]
    TooLong {
        /// How long it is, in bytes.
        len: usize,
    },
    /// The text neither begins with `nfs://` nor is `HOST:/PATH`.
    #[error("not an NFS URL: write nfs://HOST[:PORT]/EXPORT/PATH, or HOST:/EXPORT/PATH")]
    Scheme,
    /// No host between `nfs://` and the path.
    #[error("the URL names no host: write nfs://HOST[:PORT]/EXPORT/PATH")]
    NoHost,
    /// A host with bytes that no host name or address has.
    #[error(
        "'{0}' is not a host name or address; an IPv6 address stands in brackets: nfs://[::1]/"
    )]
    BadHost(String),
    /// `user@host`, which NFS has no meaning for.
    #[error("an NFS URL carries no user name before '@': give ?uid=N&gid=N instead")]
    UserInfo,
    /// A port that is not a number from 1 to 65535.
    #[error("'{0}' is not a port: give a number from 1 to 65535")]
    BadPort(String),
    /// A `%` that is not followed by two hexadecimal digits.
    #[error(
        "'%' at byte {at} is not followed by two hexadecimal digits: write %25 for a plain '%'"
    )]
    BadEscape {
        /// Where, in bytes from the start of the part.
        at: usize,
    },
    /// A NUL byte in the path.
    #[error("the path holds a NUL byte (%00), which no file name can")]
    Nul,
    /// A name that is a pattern, and cannot be read as one.
    #[error(
        "the pattern '{name}' has {error}; a character that stands for itself is %XX, or has a \\ before it"
    )]
    BadPattern {
        /// The name as it is written.
        name: String,
        /// What is wrong with it.
        error: nfs_io::glob::GlobError,
    },
    /// A pattern with bytes in it that are no text.
    #[error("the pattern '{0}' has bytes that are not UTF-8: let a * stand for them")]
    PatternBytes(String),
    /// The decoded path is longer than a MOUNT path may be.
    #[error("the path is {len} bytes long; at most {URL_PATH_BYTES_MAX} are accepted")]
    PathTooLong {
        /// How long it is, in bytes.
        len: usize,
    },
    /// A `#` and what follows it, which means nothing in an NFS URL.
    #[error("an NFS URL has no '#' part: write %23 for a '#' in a name")]
    Fragment,
    /// An option that we do not know.
    #[error("unknown option '{0}' in the URL; the options are {names}", names = options::NAMES)]
    UnknownOption(String),
    /// An option is given more than once.
    #[error("option '{0}' is given twice in the URL")]
    RepeatedOption(String),
    /// An option whose value does not fit it.
    #[error("'{value}' does not fit option '{option}': {cure}")]
    BadValue {
        /// The option's name as it is written.
        option: String,
        /// The value that was given for it.
        value: String,
        /// What the option takes instead, as a sentence.
        cure: &'static str,
    },
    /// The port behind the host and the option `nfsport=` are not the same.
    #[error("the URL names two NFS ports, :{port} and nfsport={nfsport}: keep one")]
    TwoPorts {
        /// The port after the host.
        port: u16,
        /// The port in the options.
        nfsport: u16,
    },
}

impl NfsUrl {
    /// Parses `text`. See [`NfsUrl`] for the form and [`UrlError`] for what is refused.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong { len: text.len() });
        }
        let Some(rest) = strip_scheme(text) else {
            let (host, path) = split_mount(text).ok_or(UrlError::Scheme)?;
            let (host, _) = parse_authority(host)?;
            return Self::at(host, None, path.as_bytes().to_vec());
        };
        if rest.contains('#') {
            return Err(UrlError::Fragment);
        }
        let (authority, path, options) = parts(rest);
        if authority.is_empty() && !rest.starts_with('/') {
            return Err(UrlError::NoHost);
        }
        let (host, port) = parse_authority(authority)?;
        let mut url = Self::at(host, port, percent_decode(path)?)?;
        url.read_options(options)?;
        Ok(url)
    }

    /// The address of a path without options.
    fn at(host: String, port: Option<u16>, path: Vec<u8>) -> Result<Self, UrlError> {
        if path.contains(&0) {
            return Err(UrlError::Nul);
        }
        if path.len() > URL_PATH_BYTES_MAX {
            return Err(UrlError::PathTooLong { len: path.len() });
        }
        Ok(Self {
            host,
            port,
            path,
            ..Self::default()
        })
    }

    /// Whether a text is an address, of either form, and not a path of this host: `nfs://` stands before it, or a
    /// `:` before its first `/`, which follows at once. A file with such a name is `./HOST:/PATH`.
    pub fn is_meant_by(text: &str) -> bool {
        strip_scheme(text).is_some() || split_mount(text).is_some()
    }

    /// The port to try for NFS first: the one given, or 2049.
    pub fn nfs_port(&self) -> u16 {
        self.port.unwrap_or(NFS_PORT)
    }

    /// The names of the path, in order; empty names (`//`) and `.` are left out.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        components(&self.path)
    }

    /// This address with another path: host, ports and options stay.
    pub fn with_path(&self, path: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            ..self.clone()
        }
    }
}

impl FromStr for NfsUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

impl fmt::Display for NfsUrl {
    /// Writes a URL that parses to the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            // A zone's '%' is written as is; parsing takes it either way.
            write!(f, "nfs://[{}]", self.host)?;
        } else {
            write!(f, "nfs://{}", self.host)?;
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        for &byte in &self.path {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => write!(f, "{}", char::from(byte))?,
                b'/' | b'-' | b'_' | b'.' | b'~' | b'+' | b',' | b'=' | b'@' | b':' => {
                    write!(f, "{}", char::from(byte))?;
                }
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        self.write_options(f)
    }
}

/// The names of a path, in order; empty names (`//`) and `.` are left out.
pub fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
}

/// Host and path of `HOST:/PATH`, as mount(8) has them. Each byte of the path stands for itself.
fn split_mount(text: &str) -> Option<(&str, &str)> {
    let at = text.find('/')?;
    let host = text.get(..at)?.strip_suffix(':')?;
    // What has a colon in it is an IPv6 address, in brackets, or another scheme.
    let is_host = !host.is_empty() && (host.starts_with('[') || !host.contains(':'));
    let path = text.get(at..)?;
    (is_host && !path.starts_with("//")).then_some((host, path))
}

/// Host with port, path and options of what comes after `nfs://`.
fn parts(rest: &str) -> (&str, &str, &str) {
    let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
    let at = place.find('/').unwrap_or(place.len());
    match place.split_at(at) {
        (authority, "") => (authority, "/", options),
        (authority, path) => (authority, path, options),
    }
}

fn strip_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once("://")?;
    scheme.eq_ignore_ascii_case("nfs").then_some(rest)
}

fn parse_authority(authority: &str) -> Result<(String, Option<u16>), UrlError> {
    if authority.contains('@') {
        return Err(UrlError::UserInfo);
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let bad = || UrlError::BadHost(authority.to_owned());
            let (host, after) = rest.split_once(']').ok_or_else(bad)?;
            let port = match after.strip_prefix(':') {
                Some(port) => Some(port),
                None if after.is_empty() => None,
                None => return Err(bad()),
            };
            (ipv6_host(host).ok_or_else(bad)?, port)
        }
        None => match authority.split_once(':') {
            Some((host, port)) if !port.contains(':') => (plain_host(host)?, Some(port)),
            Some(_) => return Err(UrlError::BadHost(authority.to_owned())),
            None => (plain_host(authority)?, None),
        },
    };
    let port = port.map(parse_port).transpose()?;
    Ok((host, port))
}

/// An IPv6 address with an optional zone: `fe80::1%eth0`, its `%` plain or as `%25` (RFC 6874 §2).
fn ipv6_host(host: &str) -> Option<String> {
    let (address, zone) = match host.split_once('%') {
        Some((address, zone)) => (address, Some(zone.strip_prefix("25").unwrap_or(zone))),
        None => (host, None),
    };
    address.parse::<std::net::Ipv6Addr>().ok()?;
    match zone {
        None => Some(address.to_owned()),
        Some(zone) if !zone.is_empty() && zone.bytes().all(is_host_byte) => {
            Some(format!("{address}%{zone}"))
        }
        Some(_) => None,
    }
}

fn plain_host(host: &str) -> Result<String, UrlError> {
    if host.is_empty() {
        return Err(UrlError::NoHost);
    }
    if host.bytes().all(is_host_byte) {
        Ok(host.to_owned())
    } else {
        Err(UrlError::BadHost(host.to_owned()))
    }
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

fn parse_port(text: &str) -> Result<u16, UrlError> {
    parse_digits(text)
        .and_then(|number| u16::try_from(number).ok())
        .filter(|&port| port != 0)
        .ok_or_else(|| UrlError::BadPort(text.to_owned()))
}

/// A user or group number. 2^32-1 is not one: system calls read it as "leave unchanged".
fn parse_id(text: &str) -> Option<u32> {
    parse_digits(text)
        .and_then(|number| u32::try_from(number).ok())
        .filter(|&id| id != u32::MAX)
}

/// Decimal digits only: `u64::from_str` alone would take a leading `+` too.
fn parse_digits(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

fn percent_decode(text: &str) -> Result<Vec<u8>, UrlError> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || {
            let (_, byte) = bytes.next()?;
            char::from(byte)
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        };
        let (high, low) = (digit(), digit());
        match (high, low) {
            (Some(high), Some(low)) => decoded.push(high << 4 | low),
            _ => return Err(UrlError::BadEscape { at }),
        }
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests;
