//! The words of `-o`, as mount commands take them. Pure.

use std::str::FromStr;
use std::time::Duration;

use nfs_client::Hint;
use nfs_client::limits::NCONNECT_MAX;
use nfs_fuse::limits::{THREADS_MAX, TIMEOUT_MAX};

/// The meaning of one word of the list behind `-o`, as mount commands take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    ReadOnly(bool),
    AllowOther,
    DefaultPermissions(bool),
    Cached,
    Nconnect(u32),
    AttrTimeout(Duration),
    EntryTimeout(Duration),
    Timeout(Duration),
    Threads(usize),
    Hint(Hint),
}

/// All words of one `-o`, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words(Vec<Word>);

/// What the words of the command line come to; later words win.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) read_only: bool,
    pub(super) allow_other: bool,
    pub(super) default_permissions: Option<bool>,
    pub(super) cached: bool,
    pub(super) nconnect: Option<u32>,
    pub(super) attr_timeout: Option<Duration>,
    pub(super) entry_timeout: Option<Duration>,
    pub(super) call_timeout: Option<Duration>,
    pub(super) threads: Option<usize>,
    pub(super) hint: Option<Hint>,
}

impl FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split(',').filter(|word| !word.is_empty());
        Ok(Self(words.map(word).collect::<Result<_, _>>()?))
    }
}

fn word(text: &str) -> Result<Word, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    match (name, value) {
        ("ro", None) => Ok(Word::ReadOnly(true)),
        ("rw", None) => Ok(Word::ReadOnly(false)),
        ("allow_other", None) => Ok(Word::AllowOther),
        ("default_permissions", None) => Ok(Word::DefaultPermissions(true)),
        ("no_default_permissions", None) => Ok(Word::DefaultPermissions(false)),
        ("cached", None) => Ok(Word::Cached),
        ("nconnect", Some(value)) => {
            let count = number(name, value, u64::from(NCONNECT_MAX))?;
            Ok(Word::Nconnect(u32::try_from(count).unwrap_or(1)))
        }
        ("threads", Some(value)) => {
            let most = u64::try_from(THREADS_MAX).unwrap_or(1);
            let count = number(name, value, most)?;
            Ok(Word::Threads(usize::try_from(count).unwrap_or(1)))
        }
        ("hint", Some(value)) => match value.parse() {
            Ok(hint) => Ok(Word::Hint(hint)),
            Err(unknown) => Err(format!("hint: {unknown}, not {value:?}")),
        },
        ("attr_timeout", Some(value)) => Ok(Word::AttrTimeout(seconds(name, value)?)),
        ("entry_timeout", Some(value)) => Ok(Word::EntryTimeout(seconds(name, value)?)),
        ("timeout", Some(value)) => {
            let timeout = seconds(name, value)?;
            if timeout.is_zero() {
                return Err("timeout: at least a part of a second".to_owned());
            }
            Ok(Word::Timeout(timeout))
        }
        _ => Err(format!(
            "{text}: there is no such option; there are ro, rw, allow_other, default_permissions, \
             no_default_permissions, cached, hint=HINT, nconnect=N, threads=N, \
             attr_timeout=SECONDS, entry_timeout=SECONDS, timeout=SECONDS"
        )),
    }
}

fn number(name: &str, value: &str, most: u64) -> Result<u64, String> {
    match value.parse() {
        Ok(count) if (1..=most).contains(&count) => Ok(count),
        _ => Err(format!("{name}: a number from 1 to {most}, not {value:?}")),
    }
}

fn seconds(name: &str, value: &str) -> Result<Duration, String> {
    let most = TIMEOUT_MAX.as_secs();
    let plain = value.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    let seconds = value.parse::<f64>().ok().filter(|_| plain);
    match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(time) if time <= TIMEOUT_MAX => Ok(time),
        _ => Err(format!(
            "{name}: seconds from 0 to {most}, such as 0.5, not {value:?}"
        )),
    }
}

impl Asked {
    /// What the words of all `-o` come to, in their order.
    pub(super) fn of(all: &[Words]) -> Self {
        let mut asked = Self::default();
        for word in all.iter().flat_map(|words| &words.0) {
            match *word {
                Word::ReadOnly(yes) => asked.read_only = yes,
                Word::AllowOther => asked.allow_other = true,
                Word::DefaultPermissions(yes) => asked.default_permissions = Some(yes),
                Word::Cached => asked.cached = true,
                Word::Nconnect(count) => asked.nconnect = Some(count),
                Word::AttrTimeout(time) => asked.attr_timeout = Some(time),
                Word::EntryTimeout(time) => asked.entry_timeout = Some(time),
                Word::Timeout(time) => asked.call_timeout = Some(time),
                Word::Threads(count) => asked.threads = Some(count),
                Word::Hint(hint) => asked.hint = Some(hint),
            }
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_words_win() {
        let all: Vec<Words> = [
            "ro,allow_other,hint=random",
            "rw,,attr_timeout=0.5,nconnect=4,hint=sequential",
        ]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
        let expected = Asked {
            allow_other: true,
            nconnect: Some(4),
            hint: Some(Hint::Sequential),
            attr_timeout: Some(Duration::from_millis(500)),
            ..Asked::default()
        };
        assert_eq!(Asked::of(&all), expected);
    }

    #[test]
    fn wrong_words_are_told() {
        for text in [
            "roo",
            "ro=1",
            "nconnect",
            "nconnect=0",
            "nconnect=17",
            "threads=-1",
            "hint",
            "hint=fast",
            "attr_timeout=",
            "attr_timeout=-1",
            "attr_timeout=1e3",
            "attr_timeout=inf",
            "entry_timeout=4000",
            "timeout=0",
        ] {
            assert!(text.parse::<Words>().is_err(), "{text}");
        }
    }
}
