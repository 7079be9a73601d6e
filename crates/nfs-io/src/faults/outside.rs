//! Fault rules that come from a file, for a process that is tested from outside.

use std::path::PathBuf;

use super::{Active, Call, Fault, Met, Rule};
use crate::{Errno, UnknownMode};

/// The rules of a file, as of its present text.
pub(super) struct Outside {
    path: PathBuf,
    text: String,
    pub(super) active: Vec<Active>,
}

impl Outside {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            text: String::new(),
            active: Vec::new(),
        }
    }

    /// Looks at the file: its text, as times are too coarse to tell one from the next.
    ///
    /// # Panics
    /// For what is not a rule, and for a file that is there and cannot be read.
    pub(super) fn refresh(&mut self) {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => panic!("{}: {error}", self.path.display()),
        };
        if text == self.text {
            return;
        }
        self.active = rules(&text)
            .map(|rule| Active::new(0, rule.unwrap_or_else(|mistake| panic!("{mistake}"))))
            .collect();
        self.text = text;
    }
}

/// The rules in a text, one a line; empty lines and what begins with `#` are none.
pub(super) fn rules(text: &str) -> impl Iterator<Item = Result<Rule, String>> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| rule(line).map_err(|mistake| format!("fault `{line}`: {mistake}")))
}

fn rule(line: &str) -> Result<Rule, String> {
    let (mut call, mut met) = (None, None);
    let mut narrowed: Vec<Box<dyn Fn(Rule) -> Rule>> = Vec::new();
    for word in line.split_whitespace() {
        let (key, value) = word.split_once('=').ok_or(format!("`{word}` has no ="))?;
        match key {
            "call" => call = Some(parse_call(value)?),
            "fail" => met = Some(Met::Fault(Fault::Fail(parse_errno(value)?))),
            "shorten" => {
                let bytes = usize::try_from(number(value)?).map_err(|error| error.to_string())?;
                met = Some(Met::Fault(Fault::Shorten(bytes)));
            }
            "hold" => met = Some(Met::Hold(PathBuf::from(value))),
            "mode" => {
                let mode = value
                    .parse()
                    .map_err(|error: UnknownMode| format!("`{value}`: {error}"))?;
                narrowed.push(Box::new(move |rule| rule.in_mode(mode)));
            }
            "file" => {
                let name = value.as_bytes().to_vec();
                narrowed.push(Box::new(move |rule| rule.of_name(&name)));
            }
            "nth" => {
                let nth = number(value)?;
                narrowed.push(Box::new(move |rule| rule.from(nth)));
            }
            "times" => {
                let times = number(value)?;
                narrowed.push(Box::new(move |rule| rule.times(times)));
            }
            _ => return Err(format!("there is no `{key}`")),
        }
    }
    let call = call.ok_or("call= is missing")?;
    let met = met.ok_or("fail=, shorten= or hold= is missing")?;
    let rule = Rule::meeting(call, met);
    Ok(narrowed.iter().fold(rule, |rule, narrow| narrow(rule)))
}

fn parse_call(word: &str) -> Result<Call, String> {
    match word {
        "read" => Ok(Call::Read),
        "write" => Ok(Call::Write),
        "fsync" => Ok(Call::Fsync),
        "open-direct" => Ok(Call::OpenDirect),
        "close" => Ok(Call::Close),
        _ => Err(format!("`{word}` is no call")),
    }
}

fn parse_errno(word: &str) -> Result<Errno, String> {
    Ok(match word {
        "EAGAIN" => Errno::AGAIN,
        "EDQUOT" => Errno::DQUOT,
        "EFBIG" => Errno::FBIG,
        "EINTR" => Errno::INTR,
        "EINVAL" => Errno::INVAL,
        "EIO" => Errno::IO,
        "ENOSPC" => Errno::NOSPC,
        "ENOTBLK" => Errno::NOTBLK,
        "EOPNOTSUPP" => Errno::OPNOTSUPP,
        "EROFS" => Errno::ROFS,
        _ => match i32::try_from(number(word)?) {
            Ok(raw @ 1..=4095) => Errno::from_raw_os_error(raw),
            _ => return Err(format!("`{word}` is no errno")),
        },
    })
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("`{word}` is no number"))
}
