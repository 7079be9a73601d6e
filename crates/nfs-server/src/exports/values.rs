//! The values of the configuration, one parser each. A refusal is the sentence to show, with its
//! cure: the same for a file and for a flag.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;

use super::names::ClientName;
use crate::limits;

/// The port of NFS (RFC 1813 §2.2).
pub const NFS_PORT: u16 = 2049;

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

/// A number of bytes as [`nfs_io::size`] reads it.
///
/// # Errors
/// The sentence to show.
pub fn parse_size(text: &str) -> Result<u64, String> {
    nfs_io::size::parse(text).map_err(|error| error.to_string())
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

/// An address and port on which `/metrics` or the web page is answered.
///
/// # Errors
/// The sentence to show.
pub fn parse_http(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("\"{text}\" is no address and port; write \"127.0.0.1:9150\" or \"[::1]:9150\"")
    })
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
                    "\"{text}\" is not an address (names are not looked up here); {FORMS}"
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

/// Whom a client rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// All addresses of a network. IPv4 networks written as IPv4-mapped IPv6 are kept as IPv4.
    Net(IpNet),
    /// The addresses of a host or of the hosts of a netgroup, by its name.
    Named(ClientName),
}

impl Who {
    /// The network, where it is one.
    #[must_use]
    pub const fn net(&self) -> Option<IpNet> {
        match self {
            Self::Net(net) => Some(*net),
            Self::Named(_) => None,
        }
    }

    /// The name, where it is one.
    #[must_use]
    pub const fn name(&self) -> Option<&ClientName> {
        match self {
            Self::Net(_) => None,
            Self::Named(name) => Some(name),
        }
    }

    /// Is it a network of loopback addresses?
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.net().is_some_and(|net| net.addr().is_loopback())
    }
}

impl From<IpNet> for Who {
    fn from(net: IpNet) -> Self {
        Self::Net(net)
    }
}

/// As the configuration writes it.
impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(net) => net.fmt(f),
            Self::Named(name) => name.fmt(f),
        }
    }
}

impl FromStr for Who {
    type Err = String;

    /// A network as [`parse_net`] reads it, `@NETGROUP`, or the name of a host.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(group) = text.strip_prefix('@') {
            return netgroup(group).map(Self::Named);
        }
        // What is not the name of a host was meant for an address, but for patterns of names.
        let last = text.trim_end_matches('.').rsplit('.').next();
        let is_number = last.is_none_or(|last| {
            let hexadecimal = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
            let is_hexadecimal = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            hexadecimal.is_some_and(is_hexadecimal)
                || !last
                    .bytes()
                    .any(|byte| byte.is_ascii_alphabetic() || b"*?".contains(&byte))
        });
        if text == "*" || text.contains([':', '/']) || is_number {
            return parse_net(text).map(Self::Net);
        }
        host(text).map(Self::Named)
    }
}

/// The name of a netgroup, as it stands behind the `@`.
fn netgroup(group: &str) -> Result<ClientName, String> {
    let is_part = |byte: u8| byte.is_ascii_graphic() && !b"@(),\"\\#".contains(&byte);
    if group.is_empty() || group.len() > limits::HOST_NAME_BYTES_MAX || !group.bytes().all(is_part)
    {
        return Err(format!(
            "\"@{group}\" is no name of a netgroup; write one that `getent netgroup` knows, as \"@builders\""
        ));
    }
    if !nfs_io::host_names::HAS_NETGROUPS {
        return Err(format!(
            "\"@{group}\" is a netgroup, and this program is linked with a C library that has none (musl, the \
             static binary); use the program of the Debian package or one built with glibc, or list hosts and networks"
        ));
    }
    Ok(ClientName::Netgroup(Arc::from(group)))
}

/// The name of a host.
fn host(text: &str) -> Result<ClientName, String> {
    if text.contains(['*', '?']) {
        return Err(format!(
            "\"{text}\" is a pattern of names, and an address tells its name only by a reverse look-up, which \
             whoever has the address can forge; list the names, a netgroup (\"@builders\"), or a network (\"10.0.0.0/8\")"
        ));
    }
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    if !is_domain(&name, limits::HOST_NAME_BYTES_MAX) {
        return Err(format!(
            "\"{text}\" is neither an address nor the name of a host; write for example \"10.0.0.0/8\", \"::1\", \
             \"build7.example.org\" or \"@netgroup\""
        ));
    }
    Ok(ClientName::Host(Arc::from(name)))
}

/// Whether it is letters, digits and hyphens between dots, of at most so many bytes.
pub(super) fn is_domain(text: &str, bytes_max: usize) -> bool {
    let is_label = |label: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.bytes().all(is_part)
    };
    text.len() <= bytes_max && text.split('.').all(is_label)
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

/// Does a directory that is there lie beneath one of these places, links followed? `Err` is the sentence to show.
///
/// # Errors
/// If it does not, or if that cannot be told. Without places it may lie anywhere.
pub(super) fn check_beneath(path: &Path, places: &[PathBuf]) -> Result<(), String> {
    if places.is_empty() {
        return Ok(());
    }
    let shown = path.display();
    let real = std::fs::canonicalize(path);
    let real = real.map_err(|error| format!("path \"{shown}\" cannot be looked at ({error})"))?;
    let is_above = |place: &PathBuf| {
        let place = std::fs::canonicalize(place);
        place.is_ok_and(|place| real.starts_with(place))
    };
    if places.iter().any(is_above) {
        return Ok(());
    }
    let places: Vec<String> = places
        .iter()
        .map(|place| place.display().to_string())
        .collect();
    Err(format!(
        "path \"{shown}\" is not beneath confine_beneath ({}), to which this server confined itself when it started; \
         add its place there and start the server anew",
        places.join(" ")
    ))
}
