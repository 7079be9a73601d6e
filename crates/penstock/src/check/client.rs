//! `penstock check --as`: what one client would get by a configuration, and why.

use std::io::{self, Write};
use std::net::IpAddr;

use nfs_server::exports::config::{Access, Config, SquashKind, word_of};
use nfs_server::exports::policy::IoPolicy;
use nfs_server::exports::{ClientRule, Export, ExportTable, Versions};
use nfs_server::operate::control::IoView;
use serde::Serialize;

use crate::ctl;

/// What a client would get, of each export or of the one that a path leads to.
#[derive(Serialize)]
pub(super) struct Answer {
    client: IpAddr,
    /// The path that it would mount, if one was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Whether any of these exports lets it in.
    pub(super) admitted: bool,
    exports: Vec<Verdict>,
    notes: Vec<String>,
}

/// What a client would get of one export.
#[derive(Serialize)]
struct Verdict {
    pseudo: String,
    path: std::path::PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    granted: Option<Granted>,
    /// Why it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

#[derive(Serialize)]
struct Granted {
    /// The network or name of the rule that decides.
    net: String,
    /// The line of the file that the rule is written in.
    line: Option<usize>,
    access: &'static str,
    squash: &'static str,
    anonuid: u32,
    anongid: u32,
    privileged_port: bool,
    /// Versions of NFS that it may use here.
    versions: Vec<&'static str>,
    durability: String,
    /// How its READs and WRITEs travel where no rule matches.
    io: IoView,
    /// The I/O rules that may hold for it.
    io_rules: Vec<NumberedRule>,
}

#[derive(Serialize)]
struct NumberedRule {
    /// Which of the export's rules it is, counted from 1.
    number: usize,
    rule: String,
}

impl Answer {
    /// Asks the rules of `config`, of which `table` was made. With a `path`, of the export that a mount of it means.
    pub(super) fn new(
        config: &Config,
        table: &ExportTable,
        client: IpAddr,
        path: Option<&str>,
    ) -> Self {
        let client = client.to_canonical();
        let mut notes = Vec::new();
        let asked = match path {
            None => None,
            Some(path) => match table.find_by_pseudo(path.as_bytes()) {
                Some((export, below)) => {
                    if !below.is_empty() {
                        let below = String::from_utf8_lossy(&below.join(&b'/')).into_owned();
                        notes.push(format!(
                            "{below} below {} has to be there, and what is on the way to it is the \
                             file system's to allow",
                            export.pseudo
                        ));
                    }
                    Some(export.id)
                }
                None => {
                    notes.push(format!("no export has {path}: a mount is MNT3ERR_NOENT"));
                    return Self::of(client, Some(path), Vec::new(), notes);
                }
            },
        };
        let exports = table.exports().iter().enumerate();
        let exports = exports.filter(|(_, export)| asked.is_none_or(|asked| export.id == asked));
        let verdicts = exports.map(|(at, export)| Verdict::new(config, at, export, client));
        let verdicts: Vec<Verdict> = verdicts.collect();
        if !table.admits(client) {
            notes.push(format!(
                "no export lets {client} in: its connections are reset unread"
            ));
        }
        if client.is_loopback() && !config.server.trust_loopback {
            notes.push(
                "a program of the server's own machine acts as the user who runs it, and needs no \
                 port below 1024"
                    .to_owned(),
            );
        }
        Self::of(client, path, verdicts, notes)
    }

    fn of(client: IpAddr, path: Option<&str>, exports: Vec<Verdict>, notes: Vec<String>) -> Self {
        Self {
            client,
            path: path.map(str::to_owned),
            admitted: exports.iter().any(|verdict| verdict.granted.is_some()),
            exports,
            notes,
        }
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        for verdict in &self.exports {
            verdict.print(out)?;
        }
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }
}

impl Verdict {
    /// `at`: which export of the configuration it is.
    fn new(config: &Config, at: usize, export: &Export, client: IpAddr) -> Self {
        let found = export.rule_index(client);
        let rule = found.and_then(|index| Some((index, export.rules().get(index)?)));
        let granted = rule.map(|(index, rule)| {
            let line = config.client_line(at, index);
            Granted::new((rule, line), export, client, config.server.versions)
        });
        let mut rules = export.rules().iter();
        let has_names = rules.any(|rule| rule.clients.named().is_some());
        let refused = granted.is_none().then(|| {
            format!(
                "{client} is in no network of the export's clients{}; add one that it is in, if it \
                 shall have this",
                if has_names {
                    ", and none that a name of theirs has"
                } else {
                    ""
                }
            )
        });
        Self {
            pseudo: export.pseudo.clone(),
            path: export.path.clone(),
            granted,
            refused,
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let (pseudo, path) = (&self.pseudo, self.path.display());
        writeln!(out, "{pseudo} is {path}")?;
        if let Some(refused) = &self.refused {
            writeln!(out, "  refused: {refused}")?;
        }
        let Some(granted) = &self.granted else {
            return Ok(());
        };
        let (net, access, squash) = (&granted.net, granted.access, granted.squash);
        let line = granted.line.map(|line| format!(" in line {line}"));
        let line = line.unwrap_or_default();
        writeln!(
            out,
            "  let in by the rule for {net}{line}: {access}, {}",
            granted.durability
        )?;
        let (uid, gid) = (granted.anonuid, granted.anongid);
        let who = match granted.squash {
            "all" => "everybody runs",
            "root" => "user 0, and group 0 wherever it occurs, run",
            _ => "nobody but AUTH_NONE runs",
        };
        writeln!(
            out,
            "  squash {squash}: {who} as user {uid} and group {gid}"
        )?;
        if granted.privileged_port {
            let port = "from a port below 1024 only (privileged_port); from another it is refused";
            writeln!(out, "  {port}")?;
        } else {
            writeln!(out, "  from any port")?;
        }
        if granted.versions.is_empty() {
            let none = "refused: none of the versions of NFS that the rule gives it is answered";
            writeln!(out, "  {none} (versions)")?;
        } else {
            writeln!(out, "  over NFS {}", granted.versions.join(", "))?;
        }
        for line in ctl::io::lines(&granted.io) {
            writeln!(out, "  {line}")?;
        }
        for NumberedRule { number, rule } in &granted.io_rules {
            writeln!(out, "  rule {number}: {rule}")?;
        }
        Ok(())
    }
}

impl Granted {
    fn new(
        (rule, line): (&ClientRule, Option<usize>),
        export: &Export,
        client: IpAddr,
        served: Versions,
    ) -> Self {
        let anonymous = rule.squash.anonymous();
        let policy = export.io.now();
        Self {
            net: rule.clients.to_string(),
            line,
            access: word_of(rule.access, Access::WORDS),
            squash: word_of(rule.squash.kind(), SquashKind::WORDS),
            anonuid: anonymous.uid().0,
            anongid: anonymous.gid().0,
            privileged_port: rule.privileged_port,
            versions: rule.versions.intersection(served).words().collect(),
            durability: if export.is_async() { "async" } else { "sync" }.to_owned(),
            io: IoView {
                rules: Vec::new(),
                ..IoView::of(&policy)
            },
            io_rules: rules_for(&policy, client),
        }
    }
}

/// The rules of a policy that are not for other clients alone.
fn rules_for(policy: &IoPolicy, client: IpAddr) -> Vec<NumberedRule> {
    let rules = policy.rules.iter().enumerate();
    let may_hold = rules.filter(|(_, rule)| {
        let nets = &rule.clients;
        nets.is_empty() || nets.iter().any(|net| net.contains(&client))
    });
    may_hold
        .map(|(index, rule)| NumberedRule {
            number: index + 1,
            rule: rule.to_string(),
        })
        .collect()
}
