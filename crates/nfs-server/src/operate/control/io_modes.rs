//! What is said on the control socket about how bytes travel: `ctl io`, its changes and its `--why`.
//!
//! Modes, floors, operations and rules are texts here, in the words of [`crate::exports::policy`]: what a `ctl` of
//! another version does not know it can still show.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::exports::config::{from_word, word_of};
use crate::exports::policy::{
    self, AutoUse, Hint, IoChange, IoPolicy, LivePolicy, StableFloor, show_way,
};

/// Asks for the policies: [`Command::Io`](super::Command::Io), answered with a list of [`IoState`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoQuery {
    /// Asks about this export alone, named by the path that clients mount or by its directory; `None` asks
    /// about all.
    pub export: Option<String>,
}

/// Changes a policy: [`Command::IoSet`](super::Command::IoSet), answered with [`IoChanged`]. What is left out stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoOrder {
    /// The export, by the path that clients mount or by its directory; may be left out where there
    /// is only one.
    pub export: Option<String>,
    /// The mode of READs that no rule matches, written as under the key `read` of the configuration.
    pub read: Option<String>,
    /// The mode of WRITEs that no rule matches, written as under the key `write` of the configuration.
    pub write: Option<String>,
    /// The least stability of WRITEs, written as under the key `stable` of the configuration.
    pub stable: Option<String>,
    /// What is read ahead of direct READs, written as under the key `read_ahead` of the configuration.
    #[serde(default)]
    pub read_ahead: Option<String>,
    /// Whether WRITEs are staged: `on` or `off`.
    #[serde(default)]
    pub staging: Option<String>,
    /// Whether space is taken ahead of streams of WRITEs: `on` or `off`.
    #[serde(default)]
    pub reserve: Option<String>,
    /// Whether WRITEs that come out of order wait for those before them: `on` or `off`.
    #[serde(default)]
    pub order: Option<String>,
    /// Whether large buffered READs are sent without a copy: `on` or `off`.
    #[serde(default)]
    pub splice: Option<String>,
    /// Whether chosen modes are taken, written as under the key `auto` of the configuration.
    #[serde(default)]
    pub auto: Option<String>,
    /// What is known of the calls beforehand, written as under the key `hint` of the configuration.
    #[serde(default)]
    pub hint: Option<String>,
    /// All rules, each as [`policy::parse_rule`] reads it; an empty list removes them.
    pub rules: Option<Vec<String>>,
}

/// A policy in the words of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoView {
    /// Mode of READs that no rule matches.
    pub read: String,
    /// Mode of WRITEs that no rule matches.
    pub write: String,
    /// The least stability of WRITEs.
    pub stable: String,
    /// Bytes that are read ahead of a sequential stream of direct READs.
    pub read_ahead_bytes: u64,
    /// The ends of direct WRITEs are staged.
    pub staging: bool,
    /// Space is taken ahead of streams of WRITEs.
    pub reserve: bool,
    /// WRITEs that come out of order wait for those before them.
    pub order: bool,
    /// Large buffered READs are sent without a copy.
    pub splice: bool,
    /// Whether modes that are chosen from what is seen are taken: `on` or `dry-run`.
    pub auto: String,
    /// What is known of the calls beforehand.
    pub hint: String,
    /// Rules in the order tried, as [`policy::parse_rule`] reads them.
    pub rules: Vec<String>,
}

/// The policy of one export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoState {
    /// The path that clients mount.
    pub export: String,
    /// The directory that is served.
    pub path: PathBuf,
    /// The policy that holds now.
    pub now: IoView,
    /// What the configuration says, if that is something else: a reload or restart goes back to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configured: Option<IoView>,
}

/// What a change of a policy did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoChanged {
    /// The path that clients mount.
    pub export: String,
    /// The policy that held before.
    pub before: IoView,
    /// The policy that holds now.
    pub now: IoView,
    /// What is allowed and yet worth a second look.
    pub warnings: Vec<String>,
    /// How long the change holds, in words for the operator.
    pub lasts: String,
}

/// Asks what would happen to one READ or WRITE: [`Command::IoWhy`](super::Command::IoWhy), answered with [`Why`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhyQuery {
    /// The file: its absolute path on the server's host, inside an export, or as clients see it.
    pub file: String,
    /// The operation, `read` or `write`.
    pub op: String,
    /// Where in the file the range begins, in bytes.
    pub offset: u64,
    /// Bytes asked for; `None` is the size recommended to clients.
    pub size: Option<u64>,
    /// Address of the client that asks; `None` is this machine.
    pub client: Option<IpAddr>,
    /// What a WRITE asks for: `unstable`, `data-sync` or `file-sync`.
    pub stable: String,
    /// What the file is open for to the client, `none`, `read`, `write` or `both`; `None` is `none`, as over NFSv3.
    #[serde(default)]
    pub open: Option<String>,
    /// What that open denies to others; likewise.
    #[serde(default)]
    pub deny: Option<String>,
}

/// How a call would be moved, and why so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Why {
    /// The path that clients mount.
    pub export: String,
    /// The file's path on the server's host.
    pub file: PathBuf,
    /// The operation, `read` or `write`.
    pub op: String,
    /// The range asked for, in bytes.
    pub asked: Range<u64>,
    /// The address that rules are held against.
    pub client: Option<IpAddr>,
    /// The name that rules are held against; lossy where it is not UTF-8.
    pub name: Option<String>,
    /// Where the name is from, in words.
    pub name_from: String,
    /// The mode that was chosen.
    pub mode: String,
    /// The rule or setting that chose the mode, in words.
    pub because: String,
    /// Every rule, with why it does not match.
    pub rules: Vec<WhyRule>,
    /// What happens to a WRITE's stability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stable: Option<WhyStable>,
    /// What is chosen from what was seen of the file, where that is done or tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto: Option<WhyAuto>,
    /// Whether space is taken ahead of a stream of such WRITEs, and why or why not, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve: Option<String>,
    /// Whether a WRITE that comes out of order waits for those before it, and who says so, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Whether a READ is sent from the page cache without a copy, and why or why not, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub splice: Option<String>,
    /// What direct I/O on the file asks for.
    pub alignment: WhyAlignment,
    /// The length of the file in bytes.
    pub size: u64,
    /// How the range would be moved, in ascending order; none for a READ behind the file's end.
    pub segments: Vec<WhySegment>,
    /// Bytes that are read ahead of READs like this one where they are a sequential stream; `None` where none can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ahead_bytes: Option<u64>,
    /// Why it would not be moved in the mode that was chosen, in words.
    pub fallbacks: Vec<String>,
    /// Bytes of the file in the page cache (whole pages); `None` where the kernel does not say.
    pub cached_bytes: Option<u64>,
    /// Bytes of the file in the page cache that are not on disk yet; `None` where the kernel does not say.
    pub dirty_bytes: Option<u64>,
    /// What else there is to know, in sentences.
    pub notes: Vec<String>,
}

/// What is chosen for a file from what was seen of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WhyAuto {
    /// The mode that the call would be given.
    pub mode: String,
    /// Whether it is taken: `on`, or `dry-run` where another one stays in force.
    pub state: String,
    /// Why that mode: one word of a closed list.
    pub reason: String,
    /// The reason in a sentence.
    pub sentence: String,
    /// The mode that the reason asks for, where the file does not take it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
    /// What it rests on, by name.
    pub evidence: BTreeMap<String, u64>,
}

/// One rule and a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WhyRule {
    /// The rule as [`policy::parse_rule`] reads it.
    pub rule: String,
    /// `decides`, `not reached`, or why it does not match.
    pub verdict: String,
}

/// What happens to a WRITE's stability.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WhyStable {
    /// The stability that the client asks for.
    pub asked: String,
    /// The floor, of the export or of the rule that decided, whichever is higher.
    pub floor: String,
    /// What is done, and said in the reply.
    pub committed: String,
}

/// What direct I/O on a file asks for, in bytes; 0 where the file system does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WhyAlignment {
    /// The alignment of the memory that bytes are moved from or to.
    pub memory: u32,
    /// The alignment of offset and length of writes.
    pub offset: u32,
    /// The alignment of offset and length of reads.
    pub read_offset: u32,
    /// A block of the file system or a page of the cache, whichever is larger: the middle of a direct
    /// WRITE consists of whole ones.
    pub block: u32,
}

/// One part of the range.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WhySegment {
    /// Bytes of the file. Of a direct READ that is rounded out, more than was asked for.
    pub file: Range<u64>,
    /// The mode in which the segment would be moved.
    pub mode: String,
}

impl IoView {
    /// Puts `policy` into the words of the configuration.
    #[must_use]
    pub fn of(policy: &IoPolicy) -> Self {
        Self {
            read: show_way(policy.read).to_owned(),
            write: show_way(policy.write).to_owned(),
            stable: word_of(policy.stable, StableFloor::WORDS).to_owned(),
            read_ahead_bytes: policy.read_ahead,
            staging: policy.staging,
            reserve: policy.reserve,
            order: policy.order,
            splice: policy.splice,
            auto: word_of(policy.auto, AutoUse::WORDS).to_owned(),
            hint: word_of(policy.hint, Hint::WORDS).to_owned(),
            rules: policy.rules.iter().map(ToString::to_string).collect(),
        }
    }
}

impl IoState {
    /// What there is to say of an export's policy.
    #[must_use]
    pub fn of(export: &str, path: PathBuf, policy: &LivePolicy) -> Self {
        Self {
            export: export.to_owned(),
            path,
            now: IoView::of(&policy.now()),
            configured: policy.is_changed().then(|| IoView::of(policy.configured())),
        }
    }
}

impl IoOrder {
    /// The change that this asks for.
    ///
    /// # Errors
    /// The sentence to show.
    pub fn change(&self) -> Result<IoChange, String> {
        let in_key = |key: &str| {
            let key = key.to_owned();
            move |message: String| format!("{key}: {message}")
        };
        let read = self.read.as_deref().map(policy::parse_mode).transpose();
        let write = self.write.as_deref().map(str::parse).transpose();
        let floor = |word: &str| from_word(word, StableFloor::WORDS);
        let stable = self.stable.as_deref().map(floor).transpose();
        let read_ahead = self.read_ahead.as_deref();
        let read_ahead = read_ahead.map(policy::parse_read_ahead).transpose();
        let on_off = |word: &str| from_word(word, policy::ON_OFF);
        let staging = self.staging.as_deref().map(on_off).transpose();
        let reserve = self.reserve.as_deref().map(on_off).transpose();
        let order = self.order.as_deref().map(on_off).transpose();
        let splice = self.splice.as_deref().map(on_off).transpose();
        let auto = self
            .auto
            .as_deref()
            .map(|word| from_word(word, AutoUse::WORDS));
        let hint = self
            .hint
            .as_deref()
            .map(|word| from_word(word, Hint::WORDS));
        let rules =
            |rules: &Vec<String>| rules.iter().map(|rule| policy::parse_rule(rule)).collect();
        let change = IoChange {
            read: read.map_err(in_key("read"))?,
            write: write.map_err(in_key("write"))?,
            stable: stable.map_err(in_key("stable"))?,
            read_ahead: read_ahead.map_err(in_key("read_ahead"))?,
            staging: staging.map_err(in_key("staging"))?,
            reserve: reserve.map_err(in_key("reserve"))?,
            order: order.map_err(in_key("order"))?,
            splice: splice.map_err(in_key("splice"))?,
            auto: auto.transpose().map_err(in_key("auto"))?,
            hint: hint.transpose().map_err(in_key("hint"))?,
            rules: self.rules.as_ref().map(rules).transpose()?,
        };
        change.check()?;
        Ok(change)
    }
}
