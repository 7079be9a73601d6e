//! Configurations of other servers, read into one of ours: `exports(5)` of the Linux kernel's server, and
//! `ganesha.conf`. Pure: what a file says, and in words what of it does not carry over.
//!
//! What is in doubt is left out: a client is never let in by an import that its server would have refused, nor as
//! another user, and nobody may write who only might read.

mod ganesha;
mod knfsd;

use std::fmt::Write as _;

use ipnet::IpNet;

use super::config::{Access, ClientConfig, SquashKind, Who, from_word, word_of};
use super::names::ClientName;
use super::versions::{NfsVersion, Versions};

/// What a configuration of another server says, in words of ours.
#[derive(Debug)]
pub struct Imported {
    /// A configuration file of this server.
    pub toml: String,
    /// What of the other one is not in it, in the order of its lines.
    pub left: Vec<Left>,
}

/// Something that does not carry over.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    /// The line of the file that says it, counted from 1.
    pub line: usize,
    /// What it is, why it does not carry over, and what may be done instead.
    pub what: String,
}

/// Reads `text`: `ganesha.conf` if it has blocks in braces, `exports(5)` otherwise.
#[must_use]
pub fn import(text: &str) -> Imported {
    let is_code = |line: &str| !line.trim_start().starts_with('#');
    let has_blocks = text
        .lines()
        .filter(|line| is_code(line))
        .any(|line| line.contains('{'));
    let mut findings = Findings::default();
    let said = if has_blocks {
        ganesha::read(text, &mut findings)
    } else {
        knfsd::read(text, &mut findings)
    };
    findings.0.sort_by_key(|left| left.line);
    Imported {
        toml: said.toml(),
        left: findings.0,
    }
}

/// What was found that does not carry over.
#[derive(Default)]
struct Findings(Vec<Left>);

impl Findings {
    fn add(&mut self, line: usize, what: impl Into<String>) {
        let what = what.into();
        // Options are repeated for each client; once is enough.
        if !self
            .0
            .iter()
            .any(|left| left.what == what && left.line == line)
        {
            self.0.push(Left { line, what });
        }
    }
}

/// What the other file says, as far as ours has words for it.
#[derive(Default)]
struct Said {
    /// Lines of `[server]`.
    server: Vec<String>,
    exports: Vec<SaidExport>,
}

struct SaidExport {
    path: String,
    pseudo: String,
    is_async: bool,
    crossmnt: bool,
    /// In the order in which they are tried.
    clients: Vec<SaidClient>,
}

struct SaidClient {
    nets: Vec<Who>,
    rules: Rules,
}

/// Whether some of these clients might be some of those, as far as is known without a look-up: a name may have any
/// address.
fn may_meet(these: &[Who], those: &[Who]) -> bool {
    let meets = |this: &Who, that: &Who| match (this, that) {
        (Who::Net(a), Who::Net(b)) => a.contains(b) || b.contains(a),
        (Who::Named(_), _) | (_, Who::Named(_)) => true,
    };
    these
        .iter()
        .any(|this| those.iter().any(|that| meets(this, that)))
}

/// Is it one host, by its name or its address?
fn is_host(who: &Who) -> bool {
    match who {
        Who::Net(net) => net.prefix_len() == net.max_prefix_len(),
        Who::Named(name) => matches!(name, ClientName::Host(_)),
    }
}

/// Whether a name among these clients, in the order in which they are tried, would let its hosts have more than it gives
/// them while it is not resolved. Of a later host it is not asked: it is another one, or the other server would take it
/// for this one too.
fn name_falls_to_more(clients: &[SaidClient]) -> bool {
    let falls = |(at, client): (usize, &SaidClient)| {
        let has_name = client.nets.iter().any(|who| who.name().is_some());
        let mut later = clients.iter().skip(at + 1);
        let gives_more = |later: &SaidClient| {
            !later.nets.iter().all(is_host) && !later.rules.is_within(&client.rules)
        };
        has_name && later.any(gives_more)
    };
    clients.iter().enumerate().any(falls)
}

/// What is said where [`name_falls_to_more`].
const FALLS_TO_MORE: &str = "as a host whose name cannot be resolved would be one of those that may do more; write it by \
                             hand";

/// What some clients may do.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rules {
    access: Access,
    squash: SquashKind,
    anonuid: u32,
    anongid: u32,
    privileged_port: bool,
    /// Versions, in our words; empty for all.
    versions: Vec<&'static str>,
}

impl Said {
    fn toml(&self) -> String {
        let mut toml = String::from("[server]\n");
        for line in &self.server {
            // Writing to a string does not fail.
            let _ = writeln!(toml, "{line}");
        }
        for export in &self.exports {
            export.write(&mut toml);
        }
        toml
    }
}

impl SaidExport {
    fn write(&self, toml: &mut String) {
        let _ = writeln!(toml, "\n[[export]]\npath = {}", quoted(&self.path));
        if self.pseudo != self.path {
            let _ = writeln!(toml, "pseudo = {}", quoted(&self.pseudo));
        }
        if self.is_async {
            toml.push_str("durability = \"async\"\n");
        }
        if self.crossmnt {
            toml.push_str("crossmnt = true\n");
        }
        if let [first, others @ ..] = &self.clients[..]
            && others.iter().all(|client| client.rules == first.rules)
        {
            let nets = self.clients.iter().flat_map(|client| &client.nets);
            let nets: Vec<String> = nets.map(|net| quoted(&net.to_string())).collect();
            let _ = writeln!(toml, "clients = [{}]", nets.join(", "));
            first.rules.write(toml);
            return;
        }
        for client in &self.clients {
            for net in &client.nets {
                let net = quoted(&net.to_string());
                let _ = writeln!(toml, "\n[[export.client]]\nnet = {net}");
                client.rules.write(toml);
            }
        }
    }
}

impl Rules {
    /// Whether whoever gets this is let do no more than by `other`, and as no other user.
    fn is_within(&self, other: &Self) -> bool {
        self.as_client().is_within(&other.as_client())
    }

    /// The same as a client of our configuration.
    fn as_client(&self) -> ClientConfig {
        let versions = self.versions.iter();
        let versions = versions.filter_map(|word| from_word(word, NfsVersion::WORDS).ok());
        ClientConfig {
            access: self.access,
            squash: self.squash,
            anonuid: self.anonuid,
            anongid: self.anongid,
            privileged_port: self.privileged_port,
            versions: match self.versions.is_empty() {
                true => Versions::ALL,
                false => versions.fold(Versions::NONE, Versions::with),
            },
            ..ClientConfig::default()
        }
    }

    /// Writes what is not our default.
    fn write(&self, toml: &mut String) {
        if self.access != Access::ReadWrite {
            let _ = writeln!(toml, "access = \"{}\"", word_of(self.access, Access::WORDS));
        }
        if self.squash != SquashKind::Root {
            let word = word_of(self.squash, SquashKind::WORDS);
            let _ = writeln!(toml, "squash = \"{word}\"");
        }
        for (key, id) in [("anonuid", self.anonuid), ("anongid", self.anongid)] {
            if id != NOBODY {
                let _ = writeln!(toml, "{key} = {id}");
            }
        }
        if self.privileged_port {
            toml.push_str("privileged_port = true\n");
        }
        if !self.versions.is_empty() {
            let versions: Vec<String> = self.versions.iter().map(|word| quoted(word)).collect();
            let _ = writeln!(toml, "versions = [{}]", versions.join(", "));
        }
    }
}

/// The anonymous user and group that all three servers have by default.
const NOBODY: u32 = 65534;

/// Every address there is.
fn everybody() -> Vec<Who> {
    vec![
        IpNet::V4(ipnet::Ipv4Net::default()).into(),
        IpNet::V6(ipnet::Ipv6Net::default()).into(),
    ]
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A user or group id, which the other servers also take as a negative number (-2 is 65534 in `exports(5)`'s examples,
/// and 4294967294 to the kernel).
fn id(text: &str) -> Option<u32> {
    let number: i64 = text.trim().parse().ok()?;
    match number {
        -1 | -2 => Some(NOBODY),
        _ => u32::try_from(number).ok().filter(|id| *id != u32::MAX),
    }
}

#[cfg(test)]
mod tests;
