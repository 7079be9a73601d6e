//! Configurations of other servers, read into one of ours: `exports(5)` of the Linux kernel's server, and
//! `ganesha.conf`. Pure: what a file says, and in words what of it does not carry over.
//!
//! What is in doubt is left out: a client is never let in by an import that its server would have refused, nor as
//! another user, and nobody may write who only might read.

mod ganesha;
mod knfsd;

use std::fmt::Write as _;

use ipnet::IpNet;

use super::config::{Access, SquashKind, word_of};

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
    nets: Vec<IpNet>,
    rules: Rules,
}

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
fn everybody() -> Vec<IpNet> {
    vec![
        IpNet::V4(ipnet::Ipv4Net::default()),
        IpNet::V6(ipnet::Ipv6Net::default()),
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
