//! `ganesha.conf`: blocks in braces, `Name = value;` in them.

use super::{
    FALLS_TO_MORE, Findings, NOBODY, Rules, Said, SaidClient, SaidExport, everybody, id, may_meet,
    name_falls_to_more, quoted,
};
use crate::exports::config::{Access, SquashKind, Who};
use crate::exports::values::from_word;
use crate::limits;

/// A block, or the whole file.
#[derive(Clone, Debug, Default)]
struct Block {
    name: String,
    line: usize,
    settings: Vec<Setting>,
    blocks: Vec<Self>,
}

impl Block {
    /// The first value of the setting of this name.
    fn value(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().find(|setting| setting.name == name);
        found.and_then(|setting| setting.values.first().map(String::as_str))
    }
}

#[derive(Clone, Debug)]
struct Setting {
    line: usize,
    /// In small letters: Ganesha takes any.
    name: String,
    values: Vec<String>,
}

/// Reads a file.
pub(super) fn read(text: &str, findings: &mut Findings) -> Said {
    let mut words = Words::new(text);
    let file = block(&mut words, String::new(), 1, 0, findings);
    let mut said = Said::default();
    let mut defaults = Permissions::of_ganesha();
    for block in &file.blocks {
        match block.name.as_str() {
            "export_defaults" => defaults.read(block, findings),
            "nfsv4" => server(block, &SERVER_TIMES, &mut said, findings),
            "nfs_core_param" => listen(block, &mut said, findings),
            "export" | "log" => {}
            other => findings.add(block.line, format!("{other} {{ }}: not carried over")),
        }
    }
    for block in file.blocks.iter().filter(|block| block.name == "export") {
        said.exports.extend(export(block, &defaults, findings));
    }
    said
}

/// Settings of NFSv4 { } that ours has, and their names in ours.
const SERVER_TIMES: [(&str, &str); 2] = [
    ("lease_lifetime", "lease_seconds"),
    ("grace_period", "grace_seconds"),
];

fn server(block: &Block, known: &[(&str, &str)], said: &mut Said, findings: &mut Findings) {
    for setting in &block.settings {
        let own = known.iter().find(|(name, _)| *name == setting.name);
        let number = setting
            .values
            .first()
            .and_then(|value| value.parse::<u32>().ok());
        match (own, number) {
            (Some((_, own)), Some(number)) => said.server.push(format!("{own} = {number}")),
            _ => findings.add(setting.line, format!("{}: not carried over", setting.name)),
        }
    }
}

/// The address and the port of NFS.
fn listen(block: &Block, said: &mut Said, findings: &mut Findings) {
    let (mut address, mut port) = ("0.0.0.0".to_owned(), "2049".to_owned());
    for setting in &block.settings {
        match (setting.name.as_str(), setting.values.first()) {
            ("bind_addr", Some(value)) => address.clone_from(value),
            ("nfs_port", Some(value)) => port.clone_from(value),
            ("protocols", Some(_)) => {}
            _ => findings.add(setting.line, format!("{}: not carried over", setting.name)),
        }
    }
    let address = if address.contains(':') {
        format!("[{address}]")
    } else {
        address
    };
    said.server.push(format!(
        "listen = [{}]",
        quoted(&format!("{address}:{port}"))
    ));
}

/// What an EXPORT or a CLIENT block lets its clients do.
#[derive(Clone)]
struct Permissions {
    rules: Rules,
    /// `Access_Type` said that they may do something.
    is_open: bool,
    /// `SecType` wants more of them than can be had here.
    wants_proof: bool,
    /// Something else was said that is not understood.
    is_unclear: bool,
}

impl Permissions {
    /// What Ganesha takes where nothing is said: it lets nobody in.
    fn of_ganesha() -> Self {
        Self {
            rules: Rules {
                access: Access::ReadWrite,
                squash: SquashKind::Root,
                anonuid: NOBODY,
                anongid: NOBODY,
                privileged_port: false,
                versions: Vec::new(),
            },
            is_open: false,
            wants_proof: false,
            is_unclear: false,
        }
    }

    /// What becomes of it here; `None` if they may do nothing.
    fn granted(self) -> Option<Rules> {
        let may = self.is_open && !self.wants_proof && !self.is_unclear;
        may.then_some(self.rules)
    }

    fn read(&mut self, block: &Block, findings: &mut Findings) {
        for setting in &block.settings {
            self.take(setting, findings);
        }
    }

    fn take(&mut self, setting: &Setting, findings: &mut Findings) {
        let value = setting.values.first().map_or("", String::as_str);
        let small = value.to_ascii_lowercase();
        let rules = &mut self.rules;
        let understood = match setting.name.as_str() {
            "access_type" => {
                self.is_open = small != "none";
                let access = from_word(&small, Access::WORDS).ok();
                rules.access = access.unwrap_or(rules.access);
                access.map(drop).or((small == "none").then_some(()))
            }
            "squash" => squash(&small).map(|squash| rules.squash = squash),
            "anonymous_uid" | "anon_uid" => id(value).map(|id| rules.anonuid = id),
            "anonymous_gid" | "anon_gid" => id(value).map(|id| rules.anongid = id),
            "privilegedport" => {
                rules.privileged_port = matches!(small.as_str(), "true" | "yes" | "on");
                Some(())
            }
            "sectype" => {
                let is_sys = |flavor: &String| flavor.eq_ignore_ascii_case("sys");
                self.wants_proof = !setting.values.iter().any(is_sys);
                if self.wants_proof {
                    let flavors = setting.values.join(", ");
                    let why = "there is no Kerberos here, and nobody is let in without it instead";
                    findings.add(setting.line, format!("SecType = {flavors}: {why}"));
                }
                Some(())
            }
            "protocols" => {
                rules.versions = versions(&setting.values);
                Some(())
            }
            name => {
                if !OF_THE_EXPORT.contains(&name) {
                    findings.add(setting.line, format!("{name}: not carried over"));
                }
                Some(())
            }
        };
        if understood.is_none() {
            self.is_unclear = true;
            let what = format!("{} = {value}: there is no such thing here", setting.name);
            findings.add(setting.line, what);
        }
    }
}

/// Settings that say nothing of clients, or what is so here anyway.
const OF_THE_EXPORT: [&str; 13] = [
    "path",
    "pseudo",
    "clients",
    "export_id",
    "filesystem_id",
    "tag",
    "transports",
    "manage_gids",
    "maxread",
    "maxwrite",
    "prefread",
    "prefwrite",
    "attr_expiration_time",
];

/// The versions that `Protocols` lists, in our words; none for all.
fn versions(protocols: &[String]) -> Vec<&'static str> {
    let has = |number: &str| {
        let mut numbers = protocols.iter();
        numbers.any(|word| word.trim_start_matches(|c: char| c.is_ascii_alphabetic()) == number)
    };
    match (has("3"), has("4")) {
        (true, false) => vec!["3"],
        (false, true) => vec!["4.1", "4.2"],
        _ => Vec::new(),
    }
}

/// Ganesha has many words for whose requests are squashed.
fn squash(word: &str) -> Option<SquashKind> {
    match word {
        "root" | "root_squash" | "rootsquash" | "rootid" | "root_id_squash" | "rootidsquash" => {
            Some(SquashKind::Root)
        }
        "all" | "all_squash" | "allsquash" | "all_anonymous" | "allanonymous" => {
            Some(SquashKind::All)
        }
        "none" | "no_root_squash" | "noidsquash" | "no_id_squash" => Some(SquashKind::None),
        _ => None,
    }
}

/// Clients that no rule of ours is made for.
struct Lost {
    /// Their networks and names; `None` where there is nothing of the kind here.
    nets: Option<Vec<Who>>,
    /// What they may do; `None` for nothing.
    rules: Option<Rules>,
    /// How many clients that are kept come before them: these are tried first by Ganesha too.
    behind: usize,
}

impl Lost {
    /// Whether `kept` would let them do what they may not.
    fn would_gain(&self, kept: &SaidClient) -> bool {
        let may_be_of_it = self
            .nets
            .as_ref()
            .is_none_or(|nets| may_meet(nets, &kept.nets));
        let gains = |rules: &Rules| !kept.rules.is_within(rules);
        may_be_of_it && self.rules.as_ref().is_none_or(gains)
    }
}

fn export(block: &Block, defaults: &Permissions, findings: &mut Findings) -> Option<SaidExport> {
    let Some(path) = block.value("path") else {
        findings.add(block.line, "EXPORT without Path: left out");
        return None;
    };
    let fsal = block.blocks.iter().find(|block| block.name == "fsal");
    let fsal = fsal.and_then(|fsal| fsal.value("name")).unwrap_or("VFS");
    if !fsal.eq_ignore_ascii_case("VFS") && !fsal.eq_ignore_ascii_case("XFS") {
        let what = format!("{path}: not exported: FSAL {fsal} is no local file system");
        findings.add(block.line, what);
        return None;
    }
    let mut own = defaults.clone();
    own.read(block, findings);
    let (clients, lost) = clients(block, own, findings);
    let would_gain = |lost: &Lost| {
        let mut behind = clients.iter().skip(lost.behind);
        behind.any(|kept| lost.would_gain(kept))
    };
    let why = if lost.iter().any(would_gain) {
        "as a client that is left out might be one of those that may do more; write it by hand"
    } else if clients.is_empty() {
        "as nobody may mount it (Access_Type)"
    } else if name_falls_to_more(&clients) {
        FALLS_TO_MORE
    } else {
        let pseudo = block.value("pseudo").unwrap_or(path);
        return Some(SaidExport {
            path: path.to_owned(),
            pseudo: pseudo.to_owned(),
            is_async: false,
            crossmnt: false,
            clients,
        });
    };
    findings.add(block.line, format!("{path}: not exported, {why}"));
    None
}

/// The clients of an export in the order in which they are tried, and those that no rule is made for.
fn clients(
    block: &Block,
    own: Permissions,
    findings: &mut Findings,
) -> (Vec<SaidClient>, Vec<Lost>) {
    let (mut clients, mut lost) = (Vec::new(), Vec::new());
    for client in block.blocks.iter().filter(|block| block.name == "client") {
        let mut permissions = own.clone();
        permissions.read(client, findings);
        let rules = permissions.granted();
        let (nets, is_whole) = nets(client, findings);
        let behind = clients.len();
        if !is_whole {
            lost.push(Lost {
                nets: None,
                rules: rules.clone(),
                behind,
            });
        }
        match rules {
            Some(rules) if !nets.is_empty() => clients.push(SaidClient { nets, rules }),
            Some(_) => {}
            None => lost.push(Lost {
                nets: Some(nets),
                rules: None,
                behind,
            }),
        }
    }
    clients.extend(own.granted().map(|rules| SaidClient {
        nets: everybody(),
        rules,
    }));
    (clients, lost)
}

/// The networks and names of a CLIENT block, and whether these are all that it names.
fn nets(client: &Block, findings: &mut Findings) -> (Vec<Who>, bool) {
    let lists = client
        .settings
        .iter()
        .filter(|setting| setting.name == "clients");
    let (mut nets, mut is_whole) = (Vec::new(), true);
    for (line, host) in lists.flat_map(|list| list.values.iter().map(|host| (list.line, host))) {
        match host.parse() {
            Ok(who) => nets.push(who),
            Err(_) if host == "*" => nets.extend(everybody()),
            Err(why) => {
                is_whole = false;
                findings.add(line, format!("client {host}: {why}"));
            }
        }
    }
    (nets, is_whole)
}

/// The words of the file, each with its line.
struct Words<'a> {
    left: &'a str,
    line: usize,
}

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            left: text,
            line: 1,
        }
    }

    /// The next one: a mark, a string, or what stands between them.
    fn next(&mut self) -> Option<&'a str> {
        loop {
            let trimmed = self.left.trim_start();
            let skipped = self.left.len() - trimmed.len();
            self.line += newlines(self.left.get(..skipped)?);
            self.left = trimmed;
            if !self.left.starts_with('#') && !self.left.starts_with('%') {
                break;
            }
            let end = self.left.find('\n').unwrap_or(self.left.len());
            self.left = self.left.get(end..)?;
        }
        let first = self.left.chars().next()?;
        if let Some(quoted) = self.left.strip_prefix(['"', '\'']) {
            let end = quoted.find(first).unwrap_or(quoted.len());
            let word = quoted.get(..end)?;
            self.line += newlines(word);
            self.left = quoted.get(end..)?.strip_prefix(first).unwrap_or_default();
            return Some(word);
        }
        let is_mark = |c: char| "{}=;,".contains(c);
        let is_end = |c: char| c.is_whitespace() || c == '#' || is_mark(c);
        let end = if is_mark(first) {
            1
        } else {
            self.left.find(is_end).unwrap_or(self.left.len())
        };
        let (word, rest) = self.left.split_at_checked(end)?;
        self.left = rest;
        Some(word)
    }
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// Reads a block up to its end; the whole file has no name and no brace.
fn block(
    words: &mut Words<'_>,
    name: String,
    line: usize,
    depth: usize,
    findings: &mut Findings,
) -> Block {
    let mut block = Block {
        name,
        line,
        ..Block::default()
    };
    while let Some(word) = words.next() {
        let line = words.line;
        match word {
            "}" => return block,
            ";" | "," | "=" | "{" => {}
            name => {
                let name = name.to_ascii_lowercase();
                match words.next() {
                    Some("{") if depth < limits::IMPORT_DEPTH_MAX => {
                        block
                            .blocks
                            .push(self::block(words, name, line, depth + 1, findings));
                    }
                    Some("=") => block.settings.push(setting(words, name, line)),
                    _ => findings.add(line, format!("{name}: not understood")),
                }
            }
        }
    }
    block
}

/// Reads the values of a setting: separated by commas, up to the semicolon.
fn setting(words: &mut Words<'_>, name: String, line: usize) -> Setting {
    let mut values = Vec::new();
    while let Some(word) = words.next() {
        match word {
            ";" | "}" => break,
            "," => {}
            value => values.push(value.to_owned()),
        }
    }
    Setting { line, name, values }
}
