//! `exports(5)`: `/path client(options) client(options)`, a line for each directory.

use ipnet::IpNet;

use super::{
    FALLS_TO_MORE, Findings, NOBODY, Rules, Said, SaidClient, SaidExport, everybody, id, is_host,
    may_meet, name_falls_to_more,
};
use crate::exports::config::{Access, SquashKind, Who};
use crate::exports::names::ClientName;

/// What one client's options say.
#[derive(Clone)]
struct Options {
    rules: Rules,
    is_async: bool,
    crossmnt: bool,
    /// `fsid=0`: the root of NFSv4's names.
    is_root: bool,
    /// The options ask for a security that is not here.
    is_refused: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rules: Rules {
                access: Access::ReadOnly,
                squash: SquashKind::Root,
                anonuid: NOBODY,
                anongid: NOBODY,
                privileged_port: true,
                versions: Vec::new(),
            },
            is_async: false,
            crossmnt: false,
            is_root: false,
            is_refused: false,
        }
    }
}

/// One client of one line.
struct Entry {
    line: usize,
    path: String,
    /// Its networks and names; `None` where there is nothing of the kind here.
    nets: Option<Vec<Who>>,
    options: Options,
}

impl Entry {
    fn nets(&self) -> &[Who] {
        self.nets.as_deref().unwrap_or_default()
    }

    /// Where the kernel looks for it: the lowest first.
    fn rank(&self) -> (u8, std::cmp::Reverse<u8>) {
        let nets = self.nets();
        let prefix = nets
            .iter()
            .filter_map(|who| who.net().map(|net| net.prefix_len()));
        let kind = if nets == everybody() {
            3
        } else if nets
            .iter()
            .any(|who| matches!(who.name(), Some(ClientName::Netgroup(_))))
        {
            2
        } else {
            u8::from(!nets.iter().all(is_host))
        };
        // Of hosts the kernel takes the first that the file has.
        let prefix = prefix.max().filter(|_| kind == 1);
        (kind, std::cmp::Reverse(prefix.unwrap_or(0)))
    }

    /// Whether it becomes a rule of ours.
    fn is_kept(&self) -> bool {
        self.nets.is_some() && !self.options.is_refused
    }

    /// Whether `kept` would let clients do what this one, which is left out, does not let them do.
    fn would_gain(&self, kept: &Self) -> bool {
        if self.options.is_refused
            && let Some(nets) = &self.nets
        {
            return may_meet(nets, kept.nets());
        }
        self.options.is_refused || !kept.options.rules.is_within(&self.options.rules)
    }
}

/// Reads a file.
pub(super) fn read(text: &str, findings: &mut Findings) -> Said {
    let mut entries = Vec::new();
    for (line, content) in logical_lines(text) {
        entries.extend(entries_of(line, &content, findings));
    }
    let root = entries.iter().find(|entry| entry.options.is_root);
    let root = root.map(|entry| (entry.line, entry.path.clone()));
    let mut said = Said::default();
    let mut paths: Vec<String> = entries.iter().map(|entry| entry.path.clone()).collect();
    paths.sort();
    paths.dedup();
    for path in paths {
        let (of_path, others) = entries.into_iter().partition(|entry| entry.path == path);
        entries = others;
        said.exports
            .extend(export(path, of_path, root.as_ref(), findings));
    }
    said
}

/// The lines with their numbers, those that end in a backslash joined with the next, comments cut off.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let (line, more) = match line.strip_suffix('\\') {
            Some(line) => (line, true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, last)) => {
                last.push(' ');
                last.push_str(line);
            }
            None => lines.push((at + 1, line.to_owned())),
        }
        goes_on = more;
    }
    lines.retain(|(_, line)| !line.trim().is_empty());
    lines
}

/// What one line exports: one entry for each client.
fn entries_of(line: usize, content: &str, findings: &mut Findings) -> Vec<Entry> {
    let (path, rest) = path_of(content.trim_start());
    let mut default = Options::default();
    let mut entries = Vec::new();
    let mut entry = |nets, options| {
        let path = path.clone();
        entries.push(Entry {
            line,
            path,
            nets,
            options,
        });
    };
    let mut words = 0;
    for word in rest.split_whitespace() {
        if let Some(options) = word.strip_prefix('-') {
            default.read(line, options, findings);
            continue;
        }
        words += 1;
        let (host, options) = match word.split_once('(') {
            Some((host, options)) => (host, options.trim_end_matches(')')),
            None => (word, ""),
        };
        let mut own = default.clone();
        own.read(line, options, findings);
        entry(nets_of(line, host, findings), own);
    }
    if words == 0 {
        entry(Some(everybody()), default);
    }
    entries
}

/// The directory at the beginning of a line, which may be in quotes or have `\040` for a blank; and the rest.
fn path_of(content: &str) -> (String, &str) {
    if let Some(quoted) = content.strip_prefix('"')
        && let Some((path, rest)) = quoted.split_once('"')
    {
        return (path.to_owned(), rest);
    }
    let end = content.find(char::is_whitespace).unwrap_or(content.len());
    let (path, rest) = content.split_at(end);
    let mut plain = String::new();
    let mut left = path;
    while let Some((before, escape)) = left.split_once('\\') {
        plain.push_str(before);
        let code = escape
            .get(..3)
            .and_then(|code| u8::from_str_radix(code, 8).ok());
        match code {
            Some(code) if code.is_ascii() => {
                plain.push(char::from(code));
                left = escape.get(3..).unwrap_or_default();
            }
            _ => {
                plain.push('\\');
                left = escape;
            }
        }
    }
    plain.push_str(left);
    (plain, rest)
}

/// What a client's name stands for.
fn nets_of(line: usize, host: &str, findings: &mut Findings) -> Option<Vec<Who>> {
    if host.is_empty() || host == "*" {
        return Some(everybody());
    }
    // Brackets are around an IPv6 address, and in a name the characters of a pattern.
    let bare = match host.contains(':') {
        true => host.replace(['[', ']'], ""),
        false => host.to_owned(),
    };
    let masked = bare.split_once('/').and_then(|(address, mask)| {
        let prefix = ipnet::ip_mask_to_prefix(mask.parse().ok()?).ok()?;
        IpNet::new(address.parse().ok()?, prefix).ok()
    });
    if let Some(net) = masked {
        return Some(vec![net.trunc().into()]);
    }
    let why = if host.starts_with("gss/") {
        "there is no Kerberos here".to_owned()
    } else {
        match bare.parse::<Who>() {
            Ok(who) => return Some(vec![who]),
            Err(why) => why,
        }
    };
    findings.add(line, format!("client {host}: {why}"));
    None
}

impl Options {
    fn read(&mut self, line: usize, options: &str, findings: &mut Findings) {
        for option in options
            .split(',')
            .map(str::trim)
            .filter(|option| !option.is_empty())
        {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            self.take(line, option, (name, value), findings);
        }
    }

    fn take(
        &mut self,
        line: usize,
        option: &str,
        (name, value): (&str, &str),
        findings: &mut Findings,
    ) {
        let rules = &mut self.rules;
        match name {
            "rw" => rules.access = Access::ReadWrite,
            "ro" => rules.access = Access::ReadOnly,
            "root_squash" => rules.squash = SquashKind::Root,
            "no_root_squash" => rules.squash = SquashKind::None,
            "all_squash" => rules.squash = SquashKind::All,
            "no_all_squash" if rules.squash == SquashKind::All => rules.squash = SquashKind::Root,
            "secure" => rules.privileged_port = true,
            "insecure" => rules.privileged_port = false,
            "sync" => self.is_async = false,
            "async" => self.is_async = true,
            "crossmnt" => self.crossmnt = true,
            "anonuid" | "anongid" => match id(value) {
                Some(id) if name == "anonuid" => rules.anonuid = id,
                Some(id) => rules.anongid = id,
                None => {
                    self.is_refused = true;
                    findings.add(line, format!("{option}: not a number of a user or group"));
                }
            },
            "fsid" => self.is_root |= value == "0" || value == "root",
            "sec" if value.split(':').any(|flavor| flavor == "sys") => {}
            "sec" => {
                self.is_refused = true;
                let why = "there is no Kerberos here, and nobody is let in without it instead";
                findings.add(line, format!("{option}: {why}"));
            }
            "xprtsec" if value.split(':').any(|policy| policy == "none") => {}
            "xprtsec" => {
                self.is_refused = true;
                let why = "there is no TLS here, and nobody is let in without it instead";
                findings.add(line, format!("{option}: {why}"));
            }
            // What is so here anyway, or means nothing here.
            "no_all_squash" | "no_subtree_check" | "wdelay" | "no_wdelay" | "auth_nlm"
            | "no_auth_nlm" | "insecure_locks" | "secure_locks" | "hide" | "acl" | "no_pnfs" => {}
            _ => findings.add(line, format!("{option}: {}", why_not(name))),
        }
    }
}

/// Why an option of this name does not carry over.
fn why_not(name: &str) -> &'static str {
    match name {
        "subtree_check" => {
            "files are not looked for below the directory; export a file system of its own"
        }
        "nohide" => "say crossmnt in the export that it lies in, or mount it by its own path",
        "mountpoint" | "mp" => {
            "it is served whether or not something is mounted there; order the units \
             (RequiresMountsFor=) instead"
        }
        "refer" | "replicas" => "clients are not sent to other servers",
        "pnfs" => "there is no pNFS",
        "security_label" => "there are no security labels",
        "no_acl" => "ACLs are the file system's",
        _ => "not known",
    }
}

/// The export of one directory. The kernel looks for single hosts first, then for networks, then for netgroups, at last
/// for what stands for everybody; among these ours takes the first that matches, so the narrower ones come first. There
/// is none where nobody is left who may use it, or where somebody who is left out, or whose name is not resolved, would be
/// taken for one of a network that may do more.
fn export(
    path: String,
    entries: Vec<Entry>,
    root: Option<&(usize, String)>,
    findings: &mut Findings,
) -> Option<SaidExport> {
    let (mut entries, lost): (Vec<Entry>, Vec<Entry>) =
        entries.into_iter().partition(Entry::is_kept);
    for lost in &lost {
        if entries.iter().any(|kept| lost.would_gain(kept)) {
            let why = "a client that is left out might be one of those that may do more";
            findings.add(
                lost.line,
                format!("{path}: not exported, as {why}; write it by hand"),
            );
            return None;
        }
    }
    if entries.is_empty() {
        let line = lost.first().map_or(0, |lost| lost.line);
        findings.add(line, format!("{path}: not exported: no client is left"));
        return None;
    }
    entries.sort_by_key(Entry::rank);
    let line = entries.first().map_or(0, |entry| entry.line);
    let is_async = entries.iter().any(|entry| entry.options.is_async);
    let all_async = entries.iter().all(|entry| entry.options.is_async);
    if is_async && !all_async {
        findings.add(
            line,
            format!("{path}: async for some clients only; sync for all here"),
        );
    }
    let crosses = entries.iter().any(|entry| entry.options.crossmnt);
    let all_cross = entries.iter().all(|entry| entry.options.crossmnt);
    if crosses && !all_cross {
        let what = format!("{path}: crossmnt for some clients only; for none here");
        findings.add(line, what);
    }
    let pseudo = match root {
        Some((_, root)) => below(&path, root).unwrap_or_else(|| path.clone()),
        None => path.clone(),
    };
    if pseudo != path {
        findings.add(
            line,
            format!("{path}: NFSv3 clients mount {pseudo} here, as NFSv4 clients do (fsid=0)"),
        );
    }
    let clients = entries.into_iter().map(|entry| SaidClient {
        nets: entry.nets.unwrap_or_default(),
        rules: entry.options.rules,
    });
    let clients: Vec<SaidClient> = clients.collect();
    if name_falls_to_more(&clients) {
        findings.add(line, format!("{path}: not exported, {FALLS_TO_MORE}"));
        return None;
    }
    Some(SaidExport {
        is_async: all_async && is_async,
        crossmnt: all_cross && crosses,
        clients,
        path,
        pseudo,
    })
}

/// Where `path` is below `root`: the path that NFSv4 clients of the kernel's server mount.
fn below(path: &str, root: &str) -> Option<String> {
    let rest = path.strip_prefix(root.trim_end_matches('/'))?;
    match rest {
        "" => Some("/".to_owned()),
        _ if rest.starts_with('/') => Some(rest.to_owned()),
        _ => None,
    }
}
