//! The keys of an export that say how its bytes travel: `read`, `write`, `stable` and the rules.

use std::ops::Range;

use toml::de::DeTable;

use super::toml_section::{Findings, Item, Section};
use super::{from_word, parse_net};
use crate::exports::policy::{
    AutoUse, Hint, Io, IoPolicy, NamePattern, OpenCondition, Rule, RuleParts, StableFloor,
    WriteMode, check_read_ahead, floor_of, parse_mode,
};
use crate::limits;

const RULE_KEYS: &[&str] = &[
    "op",
    "min_size",
    "max_size",
    "clients",
    "name",
    "open",
    "deny",
    "mode",
    "read_ahead",
    "staging",
    "reserve",
    "order",
    "splice",
    "hint",
];

/// The policy of one export, with a warning for each rule that can never match.
pub(super) fn io_policy(
    section: &Section<'_>,
    export: &Range<usize>,
    findings: &mut Findings<'_>,
) -> IoPolicy {
    let read = mode(section, "read", findings, parse_mode);
    let write = mode(section, "write", findings, str::parse::<WriteMode>);
    let stable = floor(section, findings);
    let stable = match floor_of(write.as_ref().map(|write| write.value), stable.value) {
        Ok(floor) => floor.unwrap_or_default(),
        Err(message) => {
            findings.add(&stable.span, message);
            StableFloor::Asked
        }
    };
    let staging = section.boolean("staging", findings);
    let reserve = section.boolean("reserve", findings);
    let order = section.boolean("order", findings);
    let splice = section.boolean("splice", findings);
    let default = IoPolicy::default();
    let (rules, spans) = rules(section, export, findings);
    let policy = IoPolicy {
        read: read.map_or(default.read, |read| read.value),
        write: write.map_or(default.write, |write| write.value.way),
        auto: section
            .choice("auto", AutoUse::WORDS, findings)
            .unwrap_or(default.auto),
        hint: section
            .choice("hint", Hint::WORDS, findings)
            .unwrap_or(default.hint),
        stable,
        read_ahead: read_ahead(section, findings).unwrap_or(default.read_ahead),
        staging: staging.unwrap_or(default.staging),
        reserve: reserve.unwrap_or(default.reserve),
        order: order.unwrap_or(default.order),
        splice: splice.unwrap_or(default.splice),
        rules,
    };
    if let Some(spans) = spans {
        for (index, why) in policy.idle_rules() {
            if let Some(span) = spans.get(index) {
                findings.warn(span, format!("this [[export.rule]] {why}"));
            }
        }
    }
    policy
}

/// What `key` says, as a word in quotes or one of the kernel's numbers.
fn mode<T>(
    section: &Section<'_>,
    key: &str,
    findings: &mut Findings<'_>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Option<Item<T>> {
    let said = section.word_or_number(key, "a mode, as \"direct\"", findings)?;
    match parse(&said.value) {
        Ok(value) => Some(Item {
            value,
            span: said.span,
        }),
        Err(message) => {
            findings.add(&said.span, format!("{key}: {message}"));
            None
        }
    }
}

/// How much is to be read ahead, if that is said.
fn read_ahead(section: &Section<'_>, findings: &mut Findings<'_>) -> Option<u64> {
    let size = section.size("read_ahead", findings)?;
    match check_read_ahead(size.value) {
        Ok(()) => Some(size.value),
        Err(message) => {
            findings.add(&size.span, format!("read_ahead: {message}"));
            None
        }
    }
}

fn floor(section: &Section<'_>, findings: &mut Findings<'_>) -> Item<Option<StableFloor>> {
    let Some(word) = section.string("stable", findings) else {
        return Item {
            value: None,
            span: 0..0,
        };
    };
    let value = from_word(word.value, StableFloor::WORDS);
    let value = value.map_err(|message| findings.add(&word.span, format!("stable: {message}")));
    Item {
        value: value.ok(),
        span: word.span,
    }
}

/// The rules and where they stand. No places if a rule could not be read: what was left out shifts the
/// others and may be what covers them or not.
fn rules(
    section: &Section<'_>,
    export: &Range<usize>,
    findings: &mut Findings<'_>,
) -> (Vec<Rule>, Option<Vec<Range<usize>>>) {
    let tables = section.tables("rule", "[[export.rule]]", findings);
    let (found, most) = (tables.len(), limits::IO_RULES_PER_EXPORT_MAX);
    if found > most {
        findings.add(
            export,
            format!("{found} I/O rules; at most {most} are tried, join some of them"),
        );
    }
    let mut spans = Vec::with_capacity(found);
    let mut rules = Vec::with_capacity(found);
    for table in tables {
        if let Some(rule) = rule(&table, findings) {
            rules.push(rule);
            spans.push(table.span);
        }
    }
    let complete = rules.len() == found;
    (rules, complete.then_some(spans))
}

fn rule(table: &Item<&DeTable<'_>>, findings: &mut Findings<'_>) -> Option<Rule> {
    let section = Section::new("[[export.rule]]", table.value, RULE_KEYS, findings);
    let before = findings.len();
    let parts = RuleParts {
        op: section.choice("op", Io::WORDS, findings),
        min_bytes: section.size("min_size", findings).map(|size| size.value),
        max_bytes: section.size("max_size", findings).map(|size| size.value),
        clients: clients(&section, findings),
        name: name(&section, findings),
        open: section.choice("open", OpenCondition::WORDS, findings),
        deny: section.choice("deny", OpenCondition::WORDS, findings),
        mode: section
            .word_or_number("mode", "a mode, as \"direct\"", findings)
            .map(|mode| mode.value),
        read_ahead: read_ahead(&section, findings),
        staging: section.boolean("staging", findings),
        reserve: section.boolean("reserve", findings),
        order: section.boolean("order", findings),
        splice: section.boolean("splice", findings),
        hint: section.choice("hint", Hint::WORDS, findings),
    };
    // A mistake in one key would be told again as one of the whole rule.
    if findings.len() > before {
        return None;
    }
    match parts.finish() {
        Ok(rule) => Some(rule),
        Err(message) => {
            findings.add(&table.span, format!("[[export.rule]] {message}"));
            None
        }
    }
}

fn clients(section: &Section<'_>, findings: &mut Findings<'_>) -> Vec<ipnet::IpNet> {
    let Some(list) = section.strings("clients", findings) else {
        return Vec::new();
    };
    if list.value.is_empty() {
        findings.add(
            &list.span,
            "\"clients\" of [[export.rule]] is empty, so it would match nobody; leave it out for \
             all clients",
        );
    }
    let mut nets = Vec::with_capacity(list.value.len());
    for item in &list.value {
        match parse_net(item.value) {
            Ok(net) => nets.push(net),
            Err(message) => findings.add(&item.span, message),
        }
    }
    nets
}

fn name(section: &Section<'_>, findings: &mut Findings<'_>) -> Option<NamePattern> {
    let item = section.string("name", findings)?;
    let pattern = item.value.parse();
    pattern
        .map_err(|message: String| findings.add(&item.span, message))
        .ok()
}
