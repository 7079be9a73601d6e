//! The name pattern of a rule: a [`Glob`] for the last name of a file.

use std::fmt;
use std::str::FromStr;

use nfs_io::glob::Glob;

use crate::limits;

/// A pattern that whole names are held against, as [`nfs_io::glob`] reads it. Upper and lower case
/// differ. It is not empty, not longer than a name can be, and holds no `/`.
#[derive(Clone, Debug)]
pub struct NamePattern {
    text: String,
    glob: Glob,
}

impl NamePattern {
    /// Whether the whole of `name` matches.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        self.glob.matches(name)
    }

    /// Whether every name that `other` matches is one that this matches, as far as that is plain to see:
    /// `false` says nothing.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.glob.covers(&other.glob)
    }

    /// The pattern as the operator wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for NamePattern {
    type Err = String;

    /// # Errors
    /// The sentence to show, with its cure.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the name pattern is empty; write for example \"*.ckpt\"".to_owned());
        }
        let most = limits::NAME_BYTES_MAX;
        if text.len() > most {
            let found = text.len();
            return Err(format!(
                "the name pattern has {found} bytes; names have at most {most}, write a shorter one"
            ));
        }
        if text.bytes().any(|byte| matches!(byte, b'/' | 0)) {
            return Err(format!(
                "name pattern \"{}\" holds a slash or NUL; it is held against a file's own name, \
                 without the directories: write what comes after the last slash",
                text.escape_default()
            ));
        }
        let read = text.parse::<Glob>();
        let glob = read.map_err(|error| format!("name pattern \"{text}\" has {error}"))?;
        Ok(Self {
            text: text.to_owned(),
            glob,
        })
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for NamePattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for NamePattern {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dialect_is_the_one_of_all_patterns() {
        let matches = |pattern: &str, name: &[u8]| {
            let pattern = pattern.parse::<NamePattern>();
            pattern.unwrap().matches(name)
        };
        assert!(matches("*.ckpt", b"a.ckpt") && !matches("*.ckpt", b"a.ckpt2"));
        assert!(matches("\\*[!a-c]", b"*d") && !matches("\\*[!a-c]", b"xd"));
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_its_cure() {
        for (pattern, expected) in [
            ("", "is empty; write"),
            ("a/b", "write what comes after the last slash"),
            ("a[bc", "without its \"]\"; close it"),
            ("[]", "without its \"]\""),
            ("[!", "without its"),
            ("[z-a]", "write the lower character first"),
            (&"x".repeat(256), "at most 255, write a shorter one"),
        ] {
            let refusal = pattern.parse::<NamePattern>().unwrap_err();
            assert!(refusal.contains(expected), "{pattern}: {refusal}");
        }
    }
}
