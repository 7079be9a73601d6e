//! The text of a policy: mode words and the kernel's numbers, rules as `op=read,min=64KiB,mode=direct`, and
//! changes made of these. A refusal is the sentence to show, with its cure: the same for a file, a flag
//! and the control socket.

use std::fmt;
use std::str::FromStr;

use nfs_io::UnknownMode;

use super::{
    AutoUse, Hint, Io, IoPolicy, Mode, NamePattern, OpenCondition, Rule, StableFloor, Way,
};
use crate::exports::values::{from_word, parse_net, parse_size, word_of};
use crate::limits;

/// The words for what is done or not, in rules, flags and on the control socket.
pub const ON_OFF: &[(&str, bool)] = &[("on", true), ("off", false)];

/// What a WRITE mode says: the kernel's numbers 3 and 4 are direct with a floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteMode {
    /// How the mode of WRITEs is found.
    pub way: Way,
    /// The floor that the number 3 or 4 stands for; `None` for every other number and for words.
    pub stable: Option<StableFloor>,
}

impl FromStr for WriteMode {
    type Err = String;

    /// # Errors
    /// The sentence to show.
    fn from_str(text: &str) -> Result<Self, String> {
        let stable = match text {
            "3" => StableFloor::DataSync,
            "4" => StableFloor::FileSync,
            _ => {
                let way = known_way(text, ", or the kernel's numbers 0 to 4")?;
                return Ok(Self { way, stable: None });
            }
        };
        Ok(Self {
            way: Mode::Direct.into(),
            stable: Some(stable),
        })
    }
}

/// The way of READ, or of a rule for both operations: a mode's word, `auto`, or the kernel's number 0
/// (buffered), 1 (dontcache) or 2 (direct).
///
/// # Errors
/// The sentence to show.
pub fn parse_mode(text: &str) -> Result<Way, String> {
    if matches!(text, "3" | "4") {
        return Err(format!(
            "mode {text} is of WRITE alone (3 is direct with stable = \"data-sync\", 4 with \
             \"file-sync\"); write \"direct\" or 2 here"
        ));
    }
    known_way(text, ", or the kernel's numbers 0 to 2")
}

fn known_way(text: &str, or: &str) -> Result<Way, String> {
    match text {
        "0" => Ok(Mode::Buffered.into()),
        "1" => Ok(Mode::DontCache.into()),
        "2" => Ok(Mode::Direct.into()),
        AUTO => Ok(Way::Auto),
        _ => text.parse().map(Way::Fixed).map_err(|_: UnknownMode| {
            format!(
                "\"{text}\" is no I/O mode; write \"buffered\", \"dontcache\", \"direct\" or \"auto\"{or}"
            )
        }),
    }
}

/// The word of [`Way::Auto`].
const AUTO: &str = "auto";

/// The word for a way, as [`parse_mode`] reads it.
#[must_use]
pub fn show_way(way: Way) -> &'static str {
    match way {
        Way::Fixed(mode) => mode.word(),
        Way::Auto => AUTO,
    }
}

/// How much is to be read ahead, as a size; 0 for nothing.
///
/// # Errors
/// The sentence to show.
pub fn parse_read_ahead(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    check_read_ahead(bytes)?;
    Ok(bytes)
}

/// # Errors
/// The sentence to show, for what is too little to be of use or more than a stream may have.
pub(crate) fn check_read_ahead(bytes: u64) -> Result<(), String> {
    let (least, most) = (limits::READ_AHEAD_BYTES_MIN, limits::READ_AHEAD_BYTES_MAX);
    if bytes == 0 || (least..=most).contains(&bytes) {
        return Ok(());
    }
    let (bytes, least, most) = (show_size(bytes), show_size(least), show_size(most));
    Err(format!(
        "{bytes} cannot be read ahead; write 0 for nothing, or \"{least}\" to \"{most}\""
    ))
}

/// The floor that a WRITE mode and a setting of `stable` give together.
///
/// # Errors
/// The sentence to show, where one says less than the other.
pub(crate) fn floor_of(
    write: Option<WriteMode>,
    stable: Option<StableFloor>,
) -> Result<Option<StableFloor>, String> {
    match (write.and_then(|write| write.stable), stable) {
        (Some(implied), Some(said)) if said < implied => {
            let number = if implied == StableFloor::DataSync {
                3
            } else {
                4
            };
            let (implied, said) = (floor_word(implied), floor_word(said));
            Err(format!(
                "stable \"{said}\" contradicts WRITE mode {number}, which is direct with stable \
                 \"{implied}\"; leave stable out, or write mode 2"
            ))
        }
        (implied, said) => Ok(said.or(implied)),
    }
}

/// A rule as `key=value` pairs with commas between: `op` (read or write), `min`, `max` (sizes), `client` (a
/// network; may be repeated), `name` (a pattern), `open`, `deny` (none, any, read, write or both), `mode`, `staging`, `reserve`,
/// `order`, `splice` (on or off). Only `mode` must be there. A comma within a name is written `?`.
///
/// # Errors
/// The sentence to show.
pub fn parse_rule(text: &str) -> Result<Rule, String> {
    let mut parts = RuleParts::default();
    for pair in text.split(',') {
        let pair = pair.trim();
        let Some((key, value)) = pair.split_once('=') else {
            return Err(format!(
                "\"{pair}\" in rule \"{text}\" is not KEY=VALUE; write for example \
                 \"op=read,min=64KiB,mode=direct\""
            ));
        };
        let taken = parts.take(key.trim(), value.trim());
        taken.map_err(|message| format!("rule \"{text}\": {message}"))?;
    }
    let rule = parts.finish();
    rule.map_err(|message| format!("rule \"{text}\": {message}"))
}

/// What was said of a rule, piece by piece: by a `--rule` or by an `[[export.rule]]` section.
#[derive(Debug, Default)]
pub(crate) struct RuleParts {
    pub(crate) op: Option<Io>,
    pub(crate) min_bytes: Option<u64>,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) clients: Vec<ipnet::IpNet>,
    pub(crate) name: Option<NamePattern>,
    pub(crate) open: Option<OpenCondition>,
    pub(crate) deny: Option<OpenCondition>,
    pub(crate) mode: Option<String>,
    pub(crate) read_ahead: Option<u64>,
    pub(crate) staging: Option<bool>,
    pub(crate) reserve: Option<bool>,
    pub(crate) order: Option<bool>,
    pub(crate) splice: Option<bool>,
    pub(crate) hint: Option<Hint>,
}

impl RuleParts {
    fn take(&mut self, key: &str, value: &str) -> Result<(), String> {
        let again = match key {
            "op" => self.op.replace(from_word(value, Io::WORDS)?).is_some(),
            "min" | "min_size" => self.min_bytes.replace(parse_size(value)?).is_some(),
            "max" | "max_size" => self.max_bytes.replace(parse_size(value)?).is_some(),
            "client" | "clients" => {
                self.clients.push(parse_net(value)?);
                false
            }
            "name" => self.name.replace(value.parse()?).is_some(),
            "open" => {
                let open = from_word(value, OpenCondition::WORDS)?;
                self.open.replace(open).is_some()
            }
            "deny" => {
                let deny = from_word(value, OpenCondition::WORDS)?;
                self.deny.replace(deny).is_some()
            }
            "order" => self.order.replace(from_word(value, ON_OFF)?).is_some(),
            "splice" => self.splice.replace(from_word(value, ON_OFF)?).is_some(),
            "reserve" => self.reserve.replace(from_word(value, ON_OFF)?).is_some(),
            "mode" => self.mode.replace(value.to_owned()).is_some(),
            "hint" => self.hint.replace(from_word(value, Hint::WORDS)?).is_some(),
            "read_ahead" => {
                let bytes = parse_read_ahead(value)?;
                self.read_ahead.replace(bytes).is_some()
            }
            "staging" => self.staging.replace(from_word(value, ON_OFF)?).is_some(),
            _ => {
                return Err(format!(
                    "unknown key \"{key}\"; known keys are op, min, max, client, name, open, deny, \
                     mode, read_ahead, staging, reserve, order, splice, hint"
                ));
            }
        };
        if again {
            return Err(format!("\"{key}\" is there twice; leave one out"));
        }
        Ok(())
    }

    /// # Errors
    /// The sentence to show.
    pub(crate) fn finish(self) -> Result<Rule, String> {
        let mode = self.mode.ok_or("has no mode; add mode = \"direct\"")?;
        let mode = match self.op {
            Some(Io::Write) => mode.parse::<WriteMode>()?,
            None if matches!(mode.as_str(), "3" | "4") => {
                return Err(format!(
                    "mode {mode} is of WRITE alone; add op = \"write\", or write \"direct\" or 2"
                ));
            }
            Some(Io::Read) | None => WriteMode {
                way: parse_mode(&mode)?,
                stable: None,
            },
        };
        for (key, said) in [
            ("staging", self.staging),
            ("reserve", self.reserve),
            ("order", self.order),
        ] {
            if said.is_some() && self.op == Some(Io::Read) {
                return Err(format!(
                    "{key} is of WRITEs alone; leave it out, or write op=write"
                ));
            }
        }
        if self.splice.is_some() && self.op == Some(Io::Write) {
            let message = "splice is of READs alone; leave it out, or write op=read";
            return Err(message.to_owned());
        }
        let min_bytes = self.min_bytes.unwrap_or(0);
        let max_bytes = self.max_bytes.unwrap_or(u64::MAX);
        if min_bytes > max_bytes {
            let (min, max) = (show_size(min_bytes), show_size(max_bytes));
            return Err(format!(
                "min {min} is more than max {max}, so it would never match; exchange them or \
                 leave one out"
            ));
        }
        let most = limits::IO_RULE_CLIENTS_MAX;
        if self.clients.len() > most {
            return Err(format!("more than {most} clients; use wider networks"));
        }
        let may_be_direct = mode.way != Mode::Buffered.into() && mode.way != Mode::DontCache.into();
        if self.read_ahead.is_some() && (!may_be_direct || self.op == Some(Io::Write)) {
            let message = "read_ahead is of direct READs alone; leave it out, or write mode direct \
                           and no other op than read";
            return Err(message.to_owned());
        }
        Ok(Rule {
            op: self.op,
            min_bytes,
            max_bytes,
            clients: self.clients,
            name: self.name,
            open: self.open,
            deny: self.deny,
            way: mode.way,
            hint: self.hint,
            read_ahead: self.read_ahead,
            stable: mode.stable.unwrap_or_default(),
            staging: self.staging,
            reserve: self.reserve,
            order: self.order,
            splice: self.splice,
        })
    }
}

impl fmt::Display for Rule {
    /// Writes the rule as [`parse_rule`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(op) = self.op {
            write!(f, "op={},", word_of(op, Io::WORDS))?;
        }
        if self.min_bytes > 0 {
            write!(f, "min={},", show_size(self.min_bytes))?;
        }
        if self.max_bytes < u64::MAX {
            write!(f, "max={},", show_size(self.max_bytes))?;
        }
        for net in &self.clients {
            write!(f, "client={net},")?;
        }
        if let Some(name) = &self.name {
            // What a comma would cut in two; the pattern in a file may hold one.
            write!(f, "name={},", name.as_str().replace(',', "?"))?;
        }
        for (key, condition) in [("open", self.open), ("deny", self.deny)] {
            if let Some(condition) = condition {
                write!(f, "{key}={},", word_of(condition, OpenCondition::WORDS))?;
            }
        }
        if let Some(bytes) = self.read_ahead {
            write!(f, "read_ahead={},", show_size(bytes))?;
        }
        if let Some(reserve) = self.reserve {
            write!(f, "reserve={},", word_of(reserve, ON_OFF))?;
        }
        if let Some(order) = self.order {
            write!(f, "order={},", word_of(order, ON_OFF))?;
        }
        if let Some(splice) = self.splice {
            write!(f, "splice={},", word_of(splice, ON_OFF))?;
        }
        match self.stable {
            StableFloor::Asked => write!(f, "mode={}", show_way(self.way))?,
            StableFloor::DataSync => f.write_str("mode=3")?,
            StableFloor::FileSync => f.write_str("mode=4")?,
        }
        if let Some(staging) = self.staging {
            write!(f, ",staging={}", word_of(staging, ON_OFF))?;
        }
        if let Some(hint) = self.hint {
            write!(f, ",hint={}", word_of(hint, Hint::WORDS))?;
        }
        Ok(())
    }
}

/// A number of bytes with the largest unit that it is a whole number of, as [`parse_size`] reads it.
#[must_use]
pub fn show_size(bytes: u64) -> String {
    let units = [
        (1 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    let unit = units
        .into_iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    match unit {
        Some((unit, word)) => format!("{}{word}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

/// The word of a floor in configuration and messages.
pub(crate) fn floor_word(floor: StableFloor) -> &'static str {
    word_of(floor, StableFloor::WORDS)
}

/// A change of a policy: what is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoChange {
    /// Way of READs that no rule matches.
    pub read: Option<Way>,
    /// Way of WRITEs that no rule matches.
    pub write: Option<WriteMode>,
    /// Whether modes that are chosen from what is seen are taken, or only told.
    pub auto: Option<AutoUse>,
    /// What is known of the calls beforehand, where no rule says something else.
    pub hint: Option<Hint>,
    /// Floor of all WRITEs. Where this is left out and `write` is the kernel's 3 or 4, theirs.
    pub stable: Option<StableFloor>,
    /// What is read ahead of direct READs where no rule says something else, in bytes.
    pub read_ahead: Option<u64>,
    /// Whether WRITEs are staged.
    pub staging: Option<bool>,
    /// Whether space is taken ahead of streams of WRITEs that no rule says something else of.
    pub reserve: Option<bool>,
    /// Whether WRITEs that come out of order wait for those before them, where no rule says something else.
    pub order: Option<bool>,
    /// Whether large buffered READs are sent without a copy, where no rule says something else.
    pub splice: Option<bool>,
    /// All rules, in place of those before.
    pub rules: Option<Vec<Rule>>,
}

impl IoChange {
    /// # Errors
    /// The sentence to show: contradictions, and more rules than an export may have.
    pub fn check(&self) -> Result<(), String> {
        floor_of(self.write, self.stable)?;
        check_read_ahead(self.read_ahead.unwrap_or(0))?;
        let most = limits::IO_RULES_PER_EXPORT_MAX;
        match &self.rules {
            Some(rules) if rules.len() > most => {
                Err(format!("more than {most} rules; join some of them"))
            }
            _ => Ok(()),
        }
    }

    /// The policy that this makes of `before`.
    #[must_use]
    pub fn applied_to(&self, before: &IoPolicy) -> IoPolicy {
        let floor = floor_of(self.write, self.stable).unwrap_or(self.stable);
        IoPolicy {
            read: self.read.unwrap_or(before.read),
            write: self.write.map_or(before.write, |write| write.way),
            auto: self.auto.unwrap_or(before.auto),
            hint: self.hint.unwrap_or(before.hint),
            stable: floor.unwrap_or(before.stable),
            read_ahead: self.read_ahead.unwrap_or(before.read_ahead),
            staging: self.staging.unwrap_or(before.staging),
            reserve: self.reserve.unwrap_or(before.reserve),
            order: self.order.unwrap_or(before.order),
            splice: self.splice.unwrap_or(before.splice),
            rules: self.rules.clone().unwrap_or_else(|| before.rules.clone()),
        }
    }
}

impl fmt::Display for IoPolicy {
    /// Writes the policy in one line: `read=direct write=buffered stable=asked
    /// rules=[op=read,min=64KiB,mode=direct]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (read, write) = (show_way(self.read), show_way(self.write));
        let stable = floor_word(self.stable);
        write!(f, "read={read} write={write} stable={stable}")?;
        if self.read_ahead != limits::READ_AHEAD_BYTES_DEFAULT {
            write!(f, " read_ahead={}", show_size(self.read_ahead))?;
        }
        if self.staging {
            f.write_str(" staging=on")?;
        }
        if self.reserve {
            f.write_str(" reserve=on")?;
        }
        if self.order {
            f.write_str(" order=on")?;
        }
        if self.splice {
            f.write_str(" splice=on")?;
        }
        if self.auto != AutoUse::On {
            write!(f, " auto={}", word_of(self.auto, AutoUse::WORDS))?;
        }
        if self.hint != Hint::Normal {
            write!(f, " hint={}", word_of(self.hint, Hint::WORDS))?;
        }
        if !self.rules.is_empty() {
            let rules: Vec<String> = self.rules.iter().map(ToString::to_string).collect();
            write!(f, " rules=[{}]", rules.join("; "))?;
        }
        Ok(())
    }
}
