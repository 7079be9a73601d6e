//! What the client commands say on standard error: for people, or as lines of JSON.
//!
//! A process has one standard error, so this is the process's: how messages look ([`begin`]), and the progress
//! line that gives way to them ([`give_way`]). Standard output is for results and is not written here.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use parking_lot::Mutex;
use serde_json::{Map, Value};

/// Messages are lines of JSON: `--log-json` was given.
static JSON: AtomicBool = AtomicBool::new(false);

/// The line on the terminal that is taken away while something is printed.
static LINE: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// How grave a message is: the `level` of `--log-json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Something went as it was to go.
    Info,
    /// Something may need a look.
    Warn,
    /// Something failed.
    Error,
}

impl Level {
    const fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// Has messages be for people, or lines of JSON.
pub(crate) fn begin(json: bool) {
    JSON.store(json, Ordering::Relaxed);
}

/// Has `line` give way to all that is printed from now on.
pub(crate) fn give_way(line: ProgressBar) {
    *LINE.lock() = Some(line);
}

/// Says that something failed.
pub(crate) fn error(text: impl std::fmt::Display) {
    say(Level::Error, &text.to_string(), Map::new());
}

/// Says that something may need a look.
pub(crate) fn warn(text: impl std::fmt::Display) {
    say(Level::Warn, &text.to_string(), Map::new());
}

/// Says how something went.
pub(crate) fn info(text: impl std::fmt::Display) {
    say(Level::Info, &text.to_string(), Map::new());
}

/// Says `text`; as JSON with `members` beside it.
pub(crate) fn say(level: Level, text: &str, members: Map<String, Value>) {
    let line = if JSON.load(Ordering::Relaxed) {
        json(level, text, members, jiff::Timestamp::now())
    } else {
        format!("penstock: {text}")
    };
    // A standard error that is gone stops no command.
    around(|| {
        let _gone = writeln!(io::stderr().lock(), "{line}");
    });
}

/// Prints text of several lines as it is; as JSON, `title` with `members` beside it.
pub(crate) fn page(text: &str, title: &str, members: Map<String, Value>) {
    if JSON.load(Ordering::Relaxed) {
        return say(Level::Info, title, members);
    }
    around(|| {
        let _gone = io::stderr().lock().write_all(text.as_bytes());
    });
}

/// Runs `print` while the progress line is off the terminal.
pub(crate) fn around<T>(print: impl FnOnce() -> T) -> T {
    let line = LINE.lock().clone();
    match line {
        Some(line) => line.suspend(print),
        None => print(),
    }
}

fn json(level: Level, text: &str, members: Map<String, Value>, now: jiff::Timestamp) -> String {
    let mut object = Map::new();
    object.insert("time".to_owned(), format!("{now:.3}").into());
    object.insert("level".to_owned(), level.word().into());
    object.insert("message".to_owned(), text.into());
    object.extend(members);
    Value::Object(object).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_time_in_rfc_3339() {
        let members = Map::from_iter([("server".to_owned(), "h:1".into())]);
        let at = jiff::Timestamp::new(1_767_225_599, 5_000_000).unwrap();
        let line: Value = serde_json::from_str(&json(Level::Warn, "a \"b\"", members, at)).unwrap();
        let expected = serde_json::json!({
            "time": "2025-12-31T23:59:59.005Z", "level": "warn", "message": "a \"b\"", "server": "h:1",
        });
        assert_eq!(line, expected);
    }
}
