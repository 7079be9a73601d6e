//! Which names of a tree are copied.

use std::str::FromStr;

use nfs_io::glob::{Glob, GlobError, sequence_matches};

/// Names to leave out of trees, and names to take all the same. The default leaves out nothing.
///
/// What was named as a source is always taken. A directory that is left out is not looked into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// What matches one of these is left out.
    pub exclude: Vec<Pattern>,
    /// What matches one of these is taken, whatever [`Self::exclude`] says.
    pub include: Vec<Pattern>,
}

impl Filter {
    /// Whether what has this path below its source is copied. Names in it are divided by `/`.
    pub fn takes(&self, path: &[u8], is_dir: bool) -> bool {
        let matches = |pattern: &Pattern| pattern.matches(path, is_dir);
        !self.exclude.iter().any(matches) || self.include.iter().any(matches)
    }

    /// Whether nothing is left out of any tree.
    pub fn is_empty(&self) -> bool {
        self.exclude.is_empty()
    }
}

/// A pattern for paths below a source, as rsync(1) and gitignore(5) have them.
///
/// Without a `/` in it, it is for the last name of a path, at any depth. With one, for as many names at
/// the end of the path; one that begins with `/`, for the whole path below the source. `*` and `?` stay
/// within a name, `**` is any number of names, and a `/` at the end says that it is for directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The pattern as it was written.
    text: String,
    names: Vec<Name>,
    directories_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    /// Any number of names, none among them.
    Any,
    Like(Glob),
}

impl FromStr for Pattern {
    type Err = String;

    /// # Errors
    /// What is wrong with it, for its writer.
    fn from_str(text: &str) -> Result<Self, String> {
        let (body, directories_only) = match text.strip_suffix('/') {
            Some(body) => (body, true),
            None => (text, false),
        };
        let (body, anchored) = match body.strip_prefix('/') {
            Some(body) => (body, true),
            None => (body, false),
        };
        if body.split('/').any(str::is_empty) {
            return Err(format!(
                "'{text}' has an empty name in it: write *.o, cache/, or /top/*.log"
            ));
        }
        let mut names = Vec::new();
        if !anchored {
            names.push(Name::Any);
        }
        for name in body.split('/') {
            names.push(match name {
                "**" => Name::Any,
                name => Name::Like(glob(name)?),
            });
        }
        Ok(Self {
            text: text.to_owned(),
            names,
            directories_only,
        })
    }
}

fn glob(name: &str) -> Result<Glob, String> {
    let read = name.parse();
    read.map_err(|error: GlobError| format!("'{name}' has {error}"))
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Pattern {
    fn matches(&self, path: &[u8], is_dir: bool) -> bool {
        if self.directories_only && !is_dir {
            return false;
        }
        sequence_matches(
            &self.names,
            path.split(|&byte| byte == b'/'),
            |wanted| matches!(wanted, Name::Any),
            |wanted, name| matches!(wanted, Name::Like(glob) if glob.matches(name)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    #[test]
    fn patterns_and_paths() {
        let table = [
            // Pattern, path, a directory or not, matches.
            ("*.o", "a.o", false, true),
            ("*.o", "deep/er/a.o", false, true),
            ("*.o", "a.o/x", false, false),
            ("cache/", "a/cache", true, true),
            ("cache/", "a/cache", false, false),
            ("/top", "top", false, true),
            ("/top", "a/top", false, false),
            ("/*.log", "x.log", false, true),
            ("/*.log", "a/x.log", false, false),
            ("a/*.log", "a/x.log", false, true),
            ("a/*.log", "b/a/x.log", false, true),
            ("a/*.log", "a/b/x.log", false, false),
            ("/a/**/x", "a/x", false, true),
            ("/a/**/x", "a/b/c/x", false, true),
            ("/a/**/x", "b/a/x", false, false),
            ("/a/**", "a/b/c", false, true),
            ("**/x", "x", false, true),
            ("*", "a/b", false, true),
            ("a?c", "abc", false, true),
            ("-r", "-r", false, true),
        ];
        for (text, path, is_dir, expected) in table {
            let found = pattern(text).matches(path.as_bytes(), is_dir);
            assert_eq!(found, expected, "{text} and {path}");
        }
        let odd = pattern("*.o").matches(b"a/\xff.o", false);
        assert!(odd, "names need not be text");
        for text in ["", "/", "a//b", "//", "[a", "a/[", "b//"] {
            assert!(text.parse::<Pattern>().is_err(), "{text} is taken");
        }
    }

    #[test]
    fn what_is_included_is_taken_whatever_is_excluded() {
        let filter = Filter {
            exclude: vec![pattern("*")],
            include: vec![pattern("*.c"), pattern("*/")],
        };
        assert!(filter.takes(b"a.c", false) && filter.takes(b"dir", true));
        assert!(filter.takes(b"dir/a.c", false) && !filter.takes(b"dir/a.h", false));
        assert!(Filter::default().takes(b"a", false));
    }
}
