//! Addresses with patterns in them: `nfs://host/export/2026-*/*.log`.

use std::fmt;
use std::str::FromStr;

use nfs_io::glob::{Glob, GlobError};

use super::{NfsUrl, UrlError, parts, percent_decode, strip_scheme};

/// An address in whose path names may be patterns, in the dialect of [`nfs_io::glob`]: `*`, `[a-z]` and, in
/// `HOST:/PATH`, `?`, which begins the options of an `nfs://` address.
///
/// `%XX` stands for the byte itself in `nfs://`, `\` for the character behind it in either form: `%2A` and `\*`
/// are a `*`. A `[` without its `]` is itself. As in a shell, a pattern matches a name that begins with `.` only if
/// it begins with `.` as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlPattern {
    text: String,
    /// The address if no name in it is a pattern.
    literal: NfsUrl,
    /// Bytes of the literal's path in front of the first pattern; the whole of it if there is none.
    base: Vec<u8>,
    names: Vec<NamePattern>,
    directories_only: bool,
}

/// One name of a path, or what it is to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePattern {
    /// The name itself.
    Name(Vec<u8>),
    /// What the name is to be like.
    Like(Glob),
}

impl UrlPattern {
    /// The address as it is written, each `*` and `[` of the path for itself.
    pub fn literal(&self) -> &NfsUrl {
        &self.literal
    }

    /// Whether a name in it is a pattern.
    pub fn is_pattern(&self) -> bool {
        !self.names.is_empty()
    }

    /// The address of the directory in which the first pattern is looked for.
    pub fn base(&self) -> NfsUrl {
        self.literal.with_path(self.base.as_slice())
    }

    /// The first name that is a pattern, and all names behind it.
    pub fn names(&self) -> &[NamePattern] {
        &self.names
    }

    /// Whether a `/` at its end says that only directories are meant.
    pub fn directories_only(&self) -> bool {
        self.directories_only
    }
}

impl NamePattern {
    /// Whether this is what it is to be like.
    pub fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::Like(glob) => {
                let hidden = name.starts_with(b".");
                (!hidden || glob.begins_with('.')) && glob.matches(name)
            }
        }
    }
}

impl fmt::Display for UrlPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for UrlPattern {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let literal = NfsUrl::parse(text)?;
        let decodes = strip_scheme(text).is_some();
        let path = match strip_scheme(text) {
            Some(rest) => parts(rest).1.strip_prefix('/').unwrap_or_default(),
            None => text.split_once(":/").map_or("/", |(_, path)| path),
        };
        let mut base = Vec::new();
        let mut names = Vec::new();
        for name in path.split('/') {
            let pattern = pattern(name, decodes)?;
            let read = |name: &str| match decodes {
                true => percent_decode(name),
                false => Ok(name.as_bytes().to_vec()),
            };
            match pattern {
                Some(glob) => names.push(NamePattern::Like(glob)),
                None if names.is_empty() => {
                    base.push(b'/');
                    base.extend(read(name)?);
                }
                None if name.is_empty() || name == "." => {}
                None => names.push(NamePattern::Name(read(name)?)),
            }
        }
        let base = match names.is_empty() {
            true => literal.path.clone(),
            false if base.is_empty() => b"/".to_vec(),
            false => base,
        };
        Ok(Self {
            directories_only: path.ends_with('/'),
            text: text.to_owned(),
            literal,
            base,
            names,
        })
    }
}

/// A name as a pattern; `None` if nothing in it makes it one.
fn pattern(name: &str, decodes: bool) -> Result<Option<Glob>, UrlError> {
    let special = |char| matches!(char, '*' | '[') || char == '?' && !decodes;
    if !name.contains(special) {
        return Ok(None);
    }
    let glob = match decodes {
        true => escaped(name)?.parse(),
        false => name.parse::<Glob>(),
    };
    match glob {
        Ok(glob) => Ok(Some(glob)),
        // As in a shell: it may be a name.
        Err(GlobError::OpenSet) => Ok(None),
        Err(error) => Err(UrlError::BadPattern {
            name: name.to_owned(),
            error,
        }),
    }
}

/// The name with what stands as `%XX` decoded, and without a meaning of its own.
fn escaped(name: &str) -> Result<String, UrlError> {
    let mut text = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('%') {
        let (plain, encoded) = rest.split_at(at);
        text.push_str(plain);
        let end = run_of_escapes(encoded);
        let (encoded, behind) = encoded.split_at_checked(end).unwrap_or((encoded, ""));
        let bytes = percent_decode(encoded)?;
        let decoded = String::from_utf8(bytes);
        let decoded = decoded.map_err(|_| UrlError::PatternBytes(name.to_owned()))?;
        for char in decoded.chars() {
            text.extend(['\\', char]);
        }
        rest = behind;
    }
    text.push_str(rest);
    Ok(text)
}

/// The length of the `%XX` that `text` begins with, one behind the other, bytes; at least 1.
fn run_of_escapes(text: &str) -> usize {
    let escapes = text.as_bytes().chunks(3);
    let len: usize = escapes
        .take_while(|chunk| chunk.starts_with(b"%"))
        .map(<[u8]>::len)
        .sum();
    len.max(1)
}
