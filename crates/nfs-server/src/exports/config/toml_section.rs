//! Reading typed values out of a TOML table, collecting problems with their lines.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::Problem;
use super::{from_word, parse_size};
use crate::limits;

/// A value and where it stands.
pub(super) struct Item<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

/// Collects the problems of one document.
pub(super) struct Findings<'t> {
    text: &'t str,
    problems: Vec<Problem>,
    warnings: Vec<String>,
}

impl<'t> Findings<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self {
            text,
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The line of a byte position, counted from 1.
    pub(super) fn line(&self, position: usize) -> usize {
        let before = self.text.as_bytes().iter().take(position);
        before.filter(|byte| **byte == b'\n').count() + 1
    }

    pub(super) fn add(&mut self, span: &Range<usize>, message: impl Into<String>) {
        let line = Some(self.line(span.start));
        self.problems.push(Problem {
            line,
            message: message.into(),
        });
    }

    pub(super) fn add_whole(&mut self, message: impl Into<String>) {
        self.problems.push(Problem {
            line: None,
            message: message.into(),
        });
    }

    /// What is allowed and yet worth a second look.
    pub(super) fn warn(&mut self, span: &Range<usize>, message: impl std::fmt::Display) {
        if self.warnings.len() < limits::CONFIG_PROBLEMS_MAX {
            let line = self.line(span.start);
            self.warnings.push(format!("line {line}: {message}"));
        }
    }

    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// How many problems were found so far.
    pub(super) const fn len(&self) -> usize {
        self.problems.len()
    }

    /// All problems in the order of the file, at most [`limits::CONFIG_PROBLEMS_MAX`].
    pub(super) fn finish(mut self) -> Vec<Problem> {
        self.problems.sort_by_key(|problem| problem.line);
        let left_out = self
            .problems
            .len()
            .saturating_sub(limits::CONFIG_PROBLEMS_MAX);
        self.problems.truncate(limits::CONFIG_PROBLEMS_MAX);
        if left_out > 0 {
            let message = format!("and {left_out} more; cure these first");
            self.problems.push(Problem {
                line: None,
                message,
            });
        }
        self.problems
    }
}

/// One table of the document under its name in messages, such as `[server]`.
#[derive(Clone, Copy)]
pub(super) struct Section<'d> {
    name: &'static str,
    table: &'d DeTable<'d>,
}

impl<'d> Section<'d> {
    /// Takes `table` and reports each key that is not in `known`.
    pub(super) fn new(
        name: &'static str,
        table: &'d DeTable<'d>,
        known: &[&str],
        findings: &mut Findings<'_>,
    ) -> Self {
        for key in table.keys() {
            let word: &str = key.get_ref();
            if !known.contains(&word) {
                let cure = match nearest(word, known) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => format!("known keys are {}", known.join(", ")),
                };
                findings.add(
                    &key.span(),
                    format!("unknown key \"{word}\" in {name}; {cure}"),
                );
            }
        }
        Self { name, table }
    }

    fn get(&self, key: &str) -> Option<&'d Spanned<DeValue<'d>>> {
        self.table.get(key)
    }

    fn wrong_type(
        &self,
        key: &str,
        found: &Spanned<DeValue<'_>>,
        wanted: &str,
        findings: &mut Findings<'_>,
    ) {
        let message = format!(
            "\"{key}\" in {} is {} {}; write {wanted}",
            self.name,
            article(found.get_ref().type_str()),
            found.get_ref().type_str(),
        );
        findings.add(&found.span(), message);
    }

    pub(super) fn string(&self, key: &str, findings: &mut Findings<'_>) -> Option<Item<&'d str>> {
        let found = self.get(key)?;
        match found.get_ref() {
            DeValue::String(value) => Some(Item {
                value: value.as_ref(),
                span: found.span(),
            }),
            _ => {
                self.wrong_type(key, found, "text in quotes", findings);
                None
            }
        }
    }

    /// A word in quotes, or a whole number with or without them, as text. `wanted` says in the message what
    /// else should have been written.
    pub(super) fn word_or_number(
        &self,
        key: &str,
        wanted: &str,
        findings: &mut Findings<'_>,
    ) -> Option<Item<String>> {
        let found = self.get(key)?;
        let value = match found.get_ref() {
            DeValue::String(value) => value.to_string(),
            DeValue::Integer(number) => number.to_string(),
            _ => {
                self.wrong_type(key, found, wanted, findings);
                return None;
            }
        };
        Some(Item {
            value,
            span: found.span(),
        })
    }

    pub(super) fn boolean(&self, key: &str, findings: &mut Findings<'_>) -> Option<bool> {
        let found = self.get(key)?;
        let value = found.get_ref().as_bool();
        if value.is_none() {
            self.wrong_type(key, found, "true or false, without quotes", findings);
        }
        value
    }

    /// Where the value of a key stands; the beginning of the file if it is not there.
    pub(super) fn span_of(&self, key: &str) -> Range<usize> {
        self.get(key).map_or(0..0, Spanned::span)
    }

    /// A whole number within `range`.
    pub(super) fn integer(
        &self,
        key: &str,
        range: std::ops::RangeInclusive<u64>,
        findings: &mut Findings<'_>,
    ) -> Option<u64> {
        let found = self.get(key)?;
        let (low, high) = (*range.start(), *range.end());
        let Some(number) = found.get_ref().as_integer() else {
            let wanted = format!("a whole number from {low} to {high}");
            self.wrong_type(key, found, &wanted, findings);
            return None;
        };
        let value = u64::from_str_radix(number.as_str(), number.radix()).ok();
        let value = value.filter(|value| range.contains(value));
        if value.is_none() {
            let message = format!("\"{key}\" is {number}; write a number from {low} to {high}");
            findings.add(&found.span(), message);
        }
        value
    }

    /// A size with a unit in quotes, or a bare number of bytes.
    pub(super) fn size(&self, key: &str, findings: &mut Findings<'_>) -> Option<Item<u64>> {
        let found = self.get(key)?;
        let parsed = match found.get_ref() {
            DeValue::String(text) => parse_size(text),
            DeValue::Integer(number) => parse_size(&number.to_string()),
            _ => {
                self.wrong_type(key, found, "a size, for example \"256MiB\"", findings);
                return None;
            }
        };
        match parsed {
            Ok(value) => Some(Item {
                value,
                span: found.span(),
            }),
            Err(message) => {
                findings.add(&found.span(), message);
                None
            }
        }
    }

    /// The meaning of the word that `key` has, which must be one of `words`.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &str,
        words: &[(&str, T)],
        findings: &mut Findings<'_>,
    ) -> Option<T> {
        let word = self.string(key, findings)?;
        match from_word(word.value, words) {
            Ok(value) => Some(value),
            Err(message) => {
                findings.add(&word.span, format!("{key}: {message}"));
                None
            }
        }
    }

    /// A list of texts; `None` if the key is absent.
    pub(super) fn strings(
        &self,
        key: &str,
        findings: &mut Findings<'_>,
    ) -> Option<Item<Vec<Item<&'d str>>>> {
        let found = self.get(key)?;
        let wanted = "a list of texts, as [\"...\", \"...\"]";
        let DeValue::Array(array) = found.get_ref() else {
            self.wrong_type(key, found, wanted, findings);
            return None;
        };
        let mut items = Vec::with_capacity(array.len());
        for element in array.iter() {
            match element.get_ref() {
                DeValue::String(value) => {
                    items.push(Item {
                        value: value.as_ref(),
                        span: element.span(),
                    });
                }
                _ => self.wrong_type(key, element, wanted, findings),
            }
        }
        Some(Item {
            value: items,
            span: found.span(),
        })
    }

    /// The tables of an array of tables, `[[key]]`; empty if the key is absent.
    pub(super) fn tables(
        &self,
        key: &str,
        heading: &str,
        findings: &mut Findings<'_>,
    ) -> Vec<Item<&'d DeTable<'d>>> {
        let Some(found) = self.get(key) else {
            return Vec::new();
        };
        let wanted = format!("each one under a heading of its own, {heading}");
        let DeValue::Array(array) = found.get_ref() else {
            self.wrong_type(key, found, &wanted, findings);
            return Vec::new();
        };
        let mut tables = Vec::with_capacity(array.len());
        for element in array.iter() {
            match element.get_ref() {
                DeValue::Table(table) => {
                    tables.push(Item {
                        value: table,
                        span: element.span(),
                    });
                }
                _ => self.wrong_type(key, element, &wanted, findings),
            }
        }
        tables
    }

    /// The table that stands in the file as `[key]`; `None` where there is none.
    pub(super) fn table(&self, key: &str, findings: &mut Findings<'_>) -> Option<&'d DeTable<'d>> {
        let found = self.get(key)?;
        let table = found.get_ref().as_table();
        if table.is_none() {
            self.wrong_type(key, found, &format!("one section, [{key}]"), findings);
        }
        table
    }
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    }
}

/// The known word that `word` was probably meant to be: at most a third of it mistyped.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let distances = known
        .iter()
        .map(|candidate| (edit_distance(word, candidate), *candidate));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= word.chars().count().div_ceil(3)).then_some(nearest)
}

/// Levenshtein distance, one row at a time. Keys are short, and at most the file is.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, from) in left.chars().enumerate() {
        let mut diagonal = index;
        let mut previous = index + 1;
        if let Some(first) = row.first_mut() {
            *first = previous;
        }
        for (cell, to) in row.iter_mut().skip(1).zip(&right) {
            let substitute = diagonal + usize::from(from != *to);
            diagonal = *cell;
            *cell = substitute.min(previous + 1).min(*cell + 1);
            previous = *cell;
        }
    }
    row.last().copied().unwrap_or(0)
}
