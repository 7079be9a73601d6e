//! `penstock ctl io --why`: what would happen to one READ or WRITE of a file, and why.
//!
//! The answer is the one that a call would get ([`decide`](crate::vfs::decide)), put in words; what only trying
//! can tell is said to be so.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use nfs_io::plan::{Segment, placement};
use nfs_io::{Errno, Mode};

use super::Server;
use crate::exports::config::{from_word, word_of};
use crate::exports::policy::{
    Asked, AutoUse, Because, Choice, Hint, Io, IoPolicy, Mismatch, ON_OFF, OpenAs, OpenShare,
    Stability, StableFloor, show_size,
};
use crate::exports::{PRIVILEGED_PORT, Versions};
use crate::limits;
use crate::operate::control::{
    Why, WhyAlignment, WhyAuto, WhyQuery, WhyRule, WhySegment, WhyStable,
};
use crate::operate::io_counters::Reason;
use crate::vfs::auto::{call_of, direction_of};
use crate::vfs::decide::{Decision, IoCall, IoFacts, Refused, choose, decide};
use crate::vfs::{Error, FileFacts, KnownName, Tree};

/// The words of a WRITE's stability.
const STABILITIES: &[(&str, Stability)] = &[
    ("unstable", Stability::Unstable),
    ("data-sync", Stability::DataSync),
    ("file-sync", Stability::FileSync),
];

/// How the file is to be looked at as open.
///
/// # Errors
/// The sentence to show.
fn open_as(query: &WhyQuery) -> Result<OpenAs, String> {
    let share = |key, word: &Option<String>| {
        let word = word.as_deref().unwrap_or("none");
        from_word(word, OpenShare::WORDS).map_err(|message| format!("{key}: {message}"))
    };
    Ok(OpenAs {
        access: share("open", &query.open)?,
        deny: share("deny", &query.deny)?,
        hint: Hint::Normal,
    })
}

impl Server {
    /// Explains how a READ or WRITE would be moved, for `penstock ctl io --why`. May wait for the disk.
    ///
    /// # Errors
    /// The sentence to show: the question makes no sense, or the file cannot be looked at.
    pub fn why_io(&self, query: &WhyQuery) -> Result<Why, String> {
        let size = query.size.unwrap_or(limits::IO_BYTES_PREFERRED.into());
        let most = u64::from(self.service.vfs.io_bytes_max);
        let io = from_word(&query.op, Io::WORDS).map_err(|message| format!("op: {message}"))?;
        let call = IoCall {
            io,
            offset: query.offset,
            bytes: usize::try_from(size.min(most)).unwrap_or(usize::MAX),
            client: query.client.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            open: open_as(query)?,
            stable: from_word(&query.stable, STABILITIES)
                .map_err(|message| format!("stable: {message}"))?,
            memory: memory_of(io, query.offset),
        };
        let (tree, facts) = self.look(&query.file, io)?;
        // Once, as a call does: the policy may be changed meanwhile.
        let policy = Arc::clone(&tree.export.io.now());
        let mut why = explain(&call, &policy, &facts)?;
        why.export.clone_from(&tree.export.pseudo);
        if size > most {
            let (size, most) = (show_size(size), show_size(most));
            let note = format!("{size} is more than one call moves here: {most} are looked at");
            why.notes.insert(0, note);
        }
        if tree.export.io.is_changed() {
            let note = "the export's policy was changed live; see `penstock ctl io`";
            why.notes.push(note.to_owned());
        }
        why.notes.extend(not_allowed(&tree, &call));
        why.notes.extend(held_to(&tree, &call));
        why.notes
            .extend(over_some_versions(&tree, &call, self.service.versions));
        Ok(why)
    }

    fn look(&self, file: &str, io: Io) -> Result<(Arc<Tree>, FileFacts), String> {
        self.find_file(file, |tree, below| {
            self.service.vfs.file_facts(tree, below, io)
        })
    }

    /// Finds a file, and does with it what `look` does: by its path on this host in the innermost export that holds it
    /// or, if there is none, by the path that clients see. `look` is given the export and the path below its root.
    ///
    /// # Errors
    /// The sentence to show: what is wrong with the path, or what `look` answered.
    pub(super) fn find_file<T>(
        &self,
        file: &str,
        look: impl Fn(&Tree, &[u8]) -> crate::vfs::Result<T>,
    ) -> Result<(Arc<Tree>, T), String> {
        let trees = self.service.vfs.trees.load_full();
        let path = Path::new(file);
        if file.split('/').any(|name| name == "..") {
            return Err(format!("\"{file}\" holds \"..\"; write where it leads"));
        }
        let mut places: Vec<(&Arc<Tree>, Vec<u8>)> = Vec::new();
        for export in trees.table.exports() {
            if let Some(tree) = trees.by_id(export.id)
                && let Some(below) = self.service.vfs.path_below(tree, path)
            {
                places.push((tree, below.as_os_str().as_bytes().to_vec()));
            }
        }
        places.sort_by_key(|(_, below)| below.len());
        if let Some((export, names)) = trees.table.find_by_pseudo(file.as_bytes())
            && let Some(tree) = trees.by_id(export.id)
        {
            places.push((tree, names.join(&b'/')));
        }
        let mut refusal = None;
        for (tree, below) in places {
            match look(tree, &below) {
                Ok(found) => return Ok((Arc::clone(tree), found)),
                Err(error) => {
                    refusal.get_or_insert_with(|| {
                        let pseudo = &tree.export.pseudo;
                        format!("\"{file}\" in export {pseudo}: {}", cannot_look(error))
                    });
                }
            }
        }
        Err(refusal.unwrap_or_else(|| {
            format!(
                "\"{file}\" is in no export; write its path on the server's host, or as clients \
                 see it (`penstock ctl exports` lists both)"
            )
        }))
    }
}

/// Why a file cannot be looked at, with the cure.
fn cannot_look(error: Error) -> String {
    match error {
        Error::Errno(Errno::NOENT) => "there is no such file; check the path".to_owned(),
        Error::Errno(Errno::NOTDIR | Errno::LOOP) => {
            "a name on the way is no directory; check the path, and where a symbolic link is on the \
             way (the server follows none) write where it leads"
                .to_owned()
        }
        Error::CrossDevice | Error::NotExported => {
            "it lies behind a mount point, and the export has no crossmnt; export it by itself"
                .to_owned()
        }
        Error::WrongType => {
            "is no regular file, and only those are read and written; for a symbolic link write \
             where it leads"
                .to_owned()
        }
        error => format!("{error}; see what the server's user may do there"),
    }
}

/// What speaks against the call before any byte is moved.
fn not_allowed(tree: &Tree, call: &IoCall) -> Option<String> {
    match tree.export.client_rule(call.client, PRIVILEGED_PORT) {
        Err(_not_admitted) => Some(format!(
            "{} is not among the export's clients: it would be refused",
            call.client
        )),
        Ok(rule) if call.io == Io::Write && !rule.is_writable() => Some(format!(
            "{} may only read here: it would be refused",
            call.client
        )),
        Ok(_) => None,
    }
}

/// What the client's rule says of its share, where it says something.
fn held_to(tree: &Tree, call: &IoCall) -> Option<String> {
    let rule = tree.export.client_rule(call.client, PRIVILEGED_PORT).ok()?;
    let allowance = rule.allowance.as_deref()?;
    let mut note = format!(
        "{} is held to its rule for {}: weight {} beside others",
        call.client, rule.clients, allowance.weight
    );
    if let Some(bytes) = allowance.bytes_per_second {
        note.push_str(&format!(", at most {} a second", show_size(bytes)));
    }
    if let Some(calls) = allowance.calls_per_second {
        note.push_str(&format!(", at most {calls} calls a second"));
    }
    Some(note)
}

/// Over which versions the client may make the call, where that is not all that the server answers.
fn over_some_versions(tree: &Tree, call: &IoCall, served: Versions) -> Option<String> {
    let rule = tree.export.client_rule(call.client, PRIVILEGED_PORT).ok()?;
    let versions = rule.versions.intersection(served);
    let client = call.client;
    match versions == served {
        true => None,
        false if versions.is_empty() => Some(format!(
            "{client} may use NFS {} only, which the server does not answer: it would be refused",
            rule.versions
        )),
        false => Some(format!(
            "{client} may use NFS {versions} only: over another version it would be refused"
        )),
    }
}

/// Where the data of a call that begins at `offset` will lie in memory: a payload is received where its
/// alignment is that in the file, and a READ begins a page.
fn memory_of(io: Io, offset: u64) -> usize {
    match io {
        Io::Read => 0,
        Io::Write => placement(offset),
    }
}

fn explain(call: &IoCall, policy: &IoPolicy, facts: &FileFacts) -> Result<Why, String> {
    let name = match &facts.name {
        KnownName::Remembered(name) | KnownName::OfPath(name) => Some(name.as_slice()),
        KnownName::Unknown => None,
    };
    let known = IoFacts {
        name,
        size: facts.stat.size,
        alignment: facts.alignment,
        refused: facts.refused,
    };
    let mut choice = choose(policy, call, &known);
    let auto = auto(&mut choice, call, &known, facts);
    let decision = decide(choice, call, &known)
        .ok_or("the range ends beyond 2^63 - 1, the end of any file; ask for less")?;
    let (segments, found) = decision.foreseen(&facts.would_refuse);
    let mut why = Why {
        auto,
        file: facts.path.clone(),
        op: word_of(call.io, Io::WORDS).to_owned(),
        asked: call.offset..call.offset.saturating_add(call.bytes as u64),
        client: Some(call.client),
        name: name.map(|name| String::from_utf8_lossy(name).into_owned()),
        name_from: name_from(&facts.name).to_owned(),
        mode: choice.mode.to_string(),
        because: because(call.io, policy, choice),
        rules: verdicts(call, policy, choice, name),
        alignment: WhyAlignment {
            memory: facts.alignment.memory,
            offset: facts.alignment.offset,
            read_offset: facts.alignment.read_offset,
            block: facts.alignment.block,
        },
        size: facts.stat.size,
        fallbacks: fallbacks(&decision, &facts.refused, &found),
        cached_bytes: facts.cached_bytes.map(|(cached, _)| cached),
        dirty_bytes: facts.cached_bytes.map(|(_, dirty)| dirty),
        notes: notes(call, &decision, &segments, facts.stat.size),
        ..Why::default()
    };
    if call.io == Io::Write {
        why.reserve = Some(reserve(call, policy, &decision));
        why.order = Some(order(policy, &decision));
        why.stable = Some(WhyStable {
            asked: word_of(call.stable, STABILITIES).to_owned(),
            floor: word_of(choice.stable, StableFloor::WORDS).to_owned(),
            committed: word_of(decision.stability, STABILITIES).to_owned(),
        });
    }
    let is_direct = |segment: &Segment| segment.mode == Mode::Direct;
    if call.io == Io::Read {
        why.splice = Some(splice(policy, &decision, &segments));
        let reads_ahead = segments.iter().any(is_direct);
        why.read_ahead_bytes = reads_ahead.then_some(choice.read_ahead);
    }
    let segments = segments.into_iter().map(|segment| WhySegment {
        file: segment.file,
        mode: segment.mode.to_string(),
    });
    why.segments = segments.collect();
    Ok(why)
}

/// What is chosen from what was seen of the file, put into `choice` where the policy takes it.
fn auto(
    choice: &mut Choice,
    call: &IoCall,
    known: &IoFacts<'_>,
    facts: &FileFacts,
) -> Option<WhyAuto> {
    if !choice.is_judged() {
        return None;
    }
    let judged = call_of(choice, call, known);
    let verdict = facts.history.foretell(&judged, &facts.around);
    if choice.takes_verdict() {
        choice.mode = verdict.mode;
    }
    let seen = facts.history.evidence(direction_of(call.io));
    let around = facts.around;
    let mut evidence = BTreeMap::from([
        ("calls", seen.calls),
        ("changes", seen.switches.into()),
        ("calls-since-change", seen.calls_since.into()),
        ("mean-bytes", seen.mean_bytes),
        ("sequential-percent", seen.sequential.into()),
        ("file-bytes", judged.file_bytes),
        ("streamed-bytes", around.streamed_bytes),
        ("pressure-percent", u64::from(around.pressure) / 100),
    ]);
    if around.memory_bytes < u64::MAX {
        evidence.insert("memory-bytes", around.memory_bytes);
    }
    if call.io == Io::Write {
        evidence.insert("unaligned-percent", seen.unaligned.into());
        evidence.insert("stable-percent", seen.stable.into());
    }
    let shares = [
        ("reused-percent", seen.reused),
        ("cached-percent", seen.cached),
    ];
    evidence.extend(
        shares
            .into_iter()
            .filter_map(|(name, share)| Some((name, share?.into()))),
    );
    let costs = ["buffered-ns", "dontcache-ns", "direct-ns"]
        .into_iter()
        .zip(seen.cost);
    evidence.extend(costs.filter_map(|(name, cost)| Some((name, cost?.into()))));
    let evidence = evidence
        .into_iter()
        .map(|(name, figure)| (name.to_owned(), figure));
    Some(WhyAuto {
        mode: verdict.mode.to_string(),
        state: word_of(choice.auto, AutoUse::WORDS).to_owned(),
        reason: verdict.reason.word().to_owned(),
        sentence: verdict.reason.sentence().to_owned(),
        instead_of: verdict.instead_of.map(|mode| mode.to_string()),
        evidence: evidence.collect(),
    })
}

/// Why the call does not go in the mode that was chosen, a sentence for each reason: what is known before it
/// begins, then what it will find out.
fn fallbacks(decision: &Decision, refused: &Refused, found: &[Reason]) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(reason) = decision.fallback {
        let mut known = reason.sentence();
        if refused.reason(decision.choice.mode) == Some(reason) {
            known.push_str(", as the server remembers of this file");
        }
        sentences.push(known);
    }
    let found = found.iter().map(|reason| reason.sentence());
    sentences.extend(found.map(|reason| format!("{reason}, as the next call will find")));
    sentences
}

fn name_from(name: &KnownName) -> &'static str {
    match name {
        KnownName::Remembered(_) => "by which it was last found",
        KnownName::OfPath(_) => "of its path: a client that opens it looks this up",
        KnownName::Unknown => "until a client looks the file up: rules with a name do not match it",
    }
}

fn because(io: Io, policy: &IoPolicy, choice: Choice) -> String {
    let key = word_of(io, Io::WORDS);
    match choice.because {
        Because::Rule(index) => format!("rule {} is the first that matches", index + 1),
        Because::Setting if policy.rules.is_empty() => {
            format!("the export's \"{key}\"; it has no rules")
        }
        Because::Setting => format!("the export's \"{key}\"; no rule matches"),
    }
}

fn verdicts(call: &IoCall, policy: &IoPolicy, choice: Choice, name: Option<&[u8]>) -> Vec<WhyRule> {
    let asked = Asked {
        client: call.client.to_canonical(),
        ..call.asked(name)
    };
    let client = asked.client;
    let verdict = |index, rule: &crate::exports::policy::Rule| match choice.because {
        Because::Rule(decided) if decided == index => "decides".to_owned(),
        Because::Rule(decided) if decided < index => "not reached".to_owned(),
        Because::Rule(_) | Because::Setting => match rule.mismatch(&asked) {
            Some(Mismatch::Op) => "is for the other operation".to_owned(),
            Some(Mismatch::Size) => format!("not its size: {}", show_size(call.bytes as u64)),
            Some(Mismatch::Client) => format!("not its client: {client}"),
            Some(Mismatch::Open) => "the file is open in another way, or not".to_owned(),
            Some(Mismatch::Name) => "another name".to_owned(),
            Some(Mismatch::NameUnknown) => "asks for a name, and none is known".to_owned(),
            None => "matches".to_owned(),
        },
    };
    let rules = policy.rules.iter().enumerate();
    let why = rules.map(|(index, rule)| WhyRule {
        rule: rule.to_string(),
        verdict: verdict(index, rule),
    });
    why.collect()
}

/// Whether space is taken ahead of a stream of such WRITEs, and why or why not.
fn reserve(call: &IoCall, policy: &IoPolicy, decision: &Decision) -> String {
    let choice = &decision.choice;
    let by_rule = match choice.because {
        Because::Rule(index) => policy
            .rules
            .get(index)
            .is_some_and(|rule| rule.reserve.is_some()),
        Because::Setting => false,
    };
    let who = if by_rule {
        "the rule's"
    } else {
        "the export's"
    };
    let word = word_of(choice.reserve, ON_OFF);
    if choice.reserve && call.io == Io::Write && !decision.reserves() {
        return format!(
            "off: {who} \"reserve\" is on, and only WRITEs that are answered UNSTABLE have space taken ahead"
        );
    }
    format!("{word}: {who} \"reserve\"")
}

/// Whether such a WRITE that comes out of order waits for those before it, and who says so.
fn order(policy: &IoPolicy, decision: &Decision) -> String {
    let choice = &decision.choice;
    let by_rule = match choice.because {
        Because::Rule(index) => policy.rules.get(index).and_then(|rule| rule.order),
        Because::Setting => None,
    };
    let who = by_rule.map_or("the export's", |_| "the rule's");
    format!("{}: {who} \"order\"", word_of(choice.order, ON_OFF))
}

/// Whether such a READ is sent from the page cache without a copy, and why or why not.
fn splice(policy: &IoPolicy, decision: &Decision, segments: &[Segment]) -> String {
    let choice = &decision.choice;
    let by_rule = match choice.because {
        Because::Rule(index) => policy.rules.get(index).and_then(|rule| rule.splice),
        Because::Setting => None,
    };
    let who = by_rule.map_or("the export's", |_| "the rule's");
    let word = word_of(choice.splice, ON_OFF);
    if choice.splice && !segments.iter().all(|segment| decision.splices(segment)) {
        return format!(
            "off: {who} \"splice\" is on, and only buffered READs are sent without a copy"
        );
    }
    format!("{word}: {who} \"splice\"")
}

fn notes(call: &IoCall, decision: &Decision, segments: &[Segment], size: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if call.io == Io::Read {
        notes.extend(read_note(call, segments, size));
    }
    if segments.iter().any(|segment| segment.mode == Mode::Direct) {
        let note = "a direct transfer that the device or file system refuses is done again \
                    through the page cache, and remembered";
        notes.push(note.to_owned());
    }
    if decision.may_be_staged() {
        let note = "staged: what is before and behind the direct middle is held in memory until a neighbour \
                    completes its block, for a second at most; the segments are those without a neighbour";
        notes.push(note.to_owned());
    }
    if decision.is_synced_once() {
        let note = "the segments are written one after the other and synced once, after the last";
        notes.push(note.to_owned());
    }
    notes
}

fn read_note(call: &IoCall, segments: &[Segment], size: u64) -> Option<String> {
    let end = call.offset.saturating_add(call.bytes as u64);
    let rounded = |segment: &Segment| {
        segment.mode == Mode::Direct
            && (segment.file.start < call.offset || segment.file.end > end.min(size))
    };
    if call.offset >= size {
        Some(format!(
            "the file ends at {size}: the reply is empty, at the end of the file"
        ))
    } else if segments.iter().any(rounded) {
        let note =
            "rounded out to the alignment; the reply carries only what was asked and is there";
        Some(note.to_owned())
    } else if end > size {
        Some(format!(
            "the file ends at {size}: the reply carries {}",
            show_size(size - call.offset)
        ))
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
