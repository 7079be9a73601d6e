//! Patterns for file names, in the one dialect of all that people write for Penstock: that of find(1).
//!
//! `*` is any number of characters, none included; `?` is one; `[a-z]` is one of these, and `[!0-9]` or
//! `[^0-9]` one of the others; `[[:alpha:]]` is one of a class; `\` takes the meaning from what follows
//! it. A pattern matches the whole name, a `/` in it like any other character. What is not UTF-8 in a
//! name counts byte by byte.
//!
//! Patterns come from operators and users, names from anybody: matching never takes more than (length
//! of the pattern) x (length of the name) steps, and allocates nothing.

use std::iter::Peekable;
use std::str::{Chars, FromStr};

/// A pattern that was read. See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    tokens: Vec<Token>,
    ignore_case: bool,
}

/// What is wrong with a pattern, to be said after "it has": each with its cure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// A set of characters has no closing bracket.
    #[error("a \"[\" without its \"]\"; close it, or write \"\\[\" for the character itself")]
    OpenSet,
    /// A range of characters begins behind its end.
    #[error("a range that ends before it begins; write the lower character first")]
    RangeReversed,
    /// A class of characters such as `[:digit:]` is not closed.
    #[error("a \"[:{0}:\" without its \":]\"; write for example \"[[:digit:]]\"")]
    OpenClass(String),
    /// A class that this dialect does not have.
    #[error(
        "a \"[:{0}:]\", which is no class of characters; write alnum, alpha, digit, lower, punct, \
         space or upper"
    )]
    UnknownClass(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// Any number of characters, also none (`*`).
    Star,
    /// Exactly one character, whichever it is (`?`).
    Any,
    One(char),
    Set {
        negated: bool,
        items: Vec<Item>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Range(char, char),
    Class(Class),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Alnum,
    Alpha,
    Digit,
    Lower,
    Punct,
    Space,
    Upper,
}

impl Glob {
    /// This pattern, made to take small and capital letters as alike.
    #[must_use]
    pub fn ignoring_case(self) -> Self {
        Self {
            ignore_case: true,
            ..self
        }
    }

    /// Whether the whole of `name` is as the pattern says.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        sequence_matches(
            &self.tokens,
            Symbols(name),
            |token| matches!(token, Token::Star),
            |token, got| self.fits(token, got),
        )
    }

    /// Whether what it matches begins with `char` because it says so, and not because anything may stand there.
    #[must_use]
    pub fn begins_with(&self, char: char) -> bool {
        self.tokens.first() == Some(&Token::One(char))
    }

    /// Whether every name that `other` matches is one that this matches, as far as that is plain to see:
    /// `false` says nothing.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self == other || !self.tokens.is_empty() && self.tokens.iter().all(|t| *t == Token::Star)
    }

    fn fits(&self, token: &Token, got: Symbol) -> bool {
        match (token, got) {
            (Token::Star, _) => false,
            (Token::Any, _) => true,
            (Token::One(wanted), Ok(got)) => {
                *wanted == got || self.ignore_case && wanted.to_lowercase().eq(got.to_lowercase())
            }
            (Token::One(_), Err(_)) => false,
            (Token::Set { negated, .. }, Err(_)) => *negated,
            (Token::Set { negated, items }, Ok(got)) => {
                let inside = items.iter().any(|item| self.inside(item, got));
                inside != *negated
            }
        }
    }

    fn inside(&self, item: &Item, char: char) -> bool {
        let plain = |char: char| match *item {
            Item::Range(first, last) => (first..=last).contains(&char),
            Item::Class(Class::Alnum) => char.is_alphanumeric(),
            Item::Class(Class::Alpha) => char.is_alphabetic(),
            Item::Class(Class::Digit) => char.is_ascii_digit(),
            Item::Class(Class::Lower) => char.is_lowercase(),
            Item::Class(Class::Punct) => char.is_ascii_punctuation(),
            Item::Class(Class::Space) => char.is_whitespace(),
            Item::Class(Class::Upper) => char.is_uppercase(),
        };
        let other_case = || char.to_lowercase().chain(char.to_uppercase()).any(plain);
        plain(char) || self.ignore_case && other_case()
    }
}

impl FromStr for Glob {
    type Err = GlobError;

    fn from_str(text: &str) -> Result<Self, GlobError> {
        let mut chars = text.chars().peekable();
        let mut tokens = Vec::new();
        while let Some(char) = chars.next() {
            let token = match char {
                '*' => Token::Star,
                '?' => Token::Any,
                '\\' => Token::One(chars.next().unwrap_or('\\')),
                '[' => set(&mut chars)?,
                char => Token::One(char),
            };
            // Two stars in a row are one.
            if token != Token::Star || tokens.last() != Some(&Token::Star) {
                tokens.push(token);
            }
        }
        Ok(Self {
            tokens,
            ignore_case: false,
        })
    }
}

fn set(chars: &mut Peekable<Chars<'_>>) -> Result<Token, GlobError> {
    let negated = chars.next_if(|char| matches!(char, '!' | '^')).is_some();
    let mut items = Vec::new();
    loop {
        let first = match chars.next().ok_or(GlobError::OpenSet)? {
            ']' if !items.is_empty() => return Ok(Token::Set { negated, items }),
            '[' if chars.peek() == Some(&':') => {
                items.push(Item::Class(class(chars)?));
                continue;
            }
            '\\' => chars.next().ok_or(GlobError::OpenSet)?,
            char => char,
        };
        let mut after = chars.clone();
        let is_range = after.next() == Some('-') && !matches!(after.peek(), Some(']') | None);
        let last = if is_range {
            chars.next();
            match chars.next().ok_or(GlobError::OpenSet)? {
                '\\' => chars.next().ok_or(GlobError::OpenSet)?,
                char => char,
            }
        } else {
            first
        };
        if first > last {
            return Err(GlobError::RangeReversed);
        }
        items.push(Item::Range(first, last));
    }
}

fn class(chars: &mut Peekable<Chars<'_>>) -> Result<Class, GlobError> {
    chars.next();
    let name: String = chars.by_ref().take_while(|&char| char != ':').collect();
    let class = match name.as_str() {
        "alnum" => Class::Alnum,
        "alpha" => Class::Alpha,
        "digit" => Class::Digit,
        "lower" => Class::Lower,
        "punct" => Class::Punct,
        "space" => Class::Space,
        "upper" => Class::Upper,
        _ => return Err(GlobError::UnknownClass(name)),
    };
    match chars.next() {
        Some(']') => Ok(class),
        _ => Err(GlobError::OpenClass(name)),
    }
}

/// Whether each of `pattern` stands for what is at its place in `got`: one thing that it `fits`, or any
/// number of things if it `is_many`. After a mismatch only the last of many reaches further, never an
/// earlier one, because whatever an earlier one could reach the last one reaches too.
pub fn sequence_matches<P, I>(
    pattern: &[P],
    got: I,
    is_many: impl Fn(&P) -> bool,
    fits: impl Fn(&P, I::Item) -> bool,
) -> bool
where
    I: Iterator<Item: Copy> + Clone,
{
    let (mut wanted, mut rest) = (0, got);
    // What follows the last of many, and what is behind all that it stands for so far.
    let mut retry: Option<(usize, I)> = None;
    loop {
        if let Some(many) = pattern.get(wanted)
            && is_many(many)
        {
            wanted += 1;
            retry = Some((wanted, rest.clone()));
            continue;
        }
        match (pattern.get(wanted), rest.next()) {
            (None, None) => return true,
            (Some(one), Some(thing)) if fits(one, thing) => wanted += 1,
            _ => {
                let Some((behind, reached)) = &mut retry else {
                    return false;
                };
                if reached.next().is_none() {
                    return false;
                }
                (wanted, rest) = (*behind, reached.clone());
            }
        }
    }
}

/// A character of a name, or a byte that is part of none: `Err`.
type Symbol = Result<char, u8>;

/// The symbols of what is left of a name.
#[derive(Clone)]
struct Symbols<'a>(&'a [u8]);

impl Iterator for Symbols<'_> {
    type Item = Symbol;

    fn next(&mut self) -> Option<Symbol> {
        let (&first, rest) = self.0.split_first()?;
        let len = match first {
            ..0x80 => {
                self.0 = rest;
                return Some(Ok(char::from(first)));
            }
            0x80..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0.. => 4,
        };
        let char = self.0.split_at_checked(len).and_then(|(char, rest)| {
            let char = std::str::from_utf8(char).ok()?.chars().next()?;
            Some((char, rest))
        });
        match char {
            Some((char, rest)) => {
                self.0 = rest;
                Some(Ok(char))
            }
            None => {
                self.0 = rest;
                Some(Err(first))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_match_and_that_do_not() {
        let table: &[(&str, &[u8], bool)] = &[
            ("a", b"a", true),
            ("a", b"ab", false),
            ("", b"", true),
            ("*", b"", true),
            ("*", b".hidden", true),
            ("*.rs", b"main.rs", true),
            ("*.rs", b"main.rs.bak", false),
            ("a*b*c", b"aXbXbYc", true),
            ("a*b*c", b"aXc", false),
            ("?", b"x", true),
            ("?", "\u{e4}".as_bytes(), true),
            ("?", b"\xff", true),
            ("??", "\u{e4}".as_bytes(), false),
            ("*", b"\xff\xfe", true),
            ("[a-c]x", b"bx", true),
            ("[a-c]x", b"dx", false),
            ("[!a-c]x", b"dx", true),
            ("[^a-c]x", b"ax", false),
            ("[]]", b"]", true),
            ("[!]]", b"]", false),
            ("[a-]", b"-", true),
            ("[\\]]", b"]", true),
            ("[[:digit:]x]*", b"7z", true),
            ("[[:digit:]x]*", b"xz", true),
            ("[[:digit:]x]*", b"az", false),
            ("\\*", b"*", true),
            ("\\*", b"a", false),
            ("[!a]", b"\xff", true),
            ("a*b*c", b"abbcbc", true),
            ("a*b*c", b"abcd", false),
            ("**", b"", true),
            ("[[]*[*]", b"[x*", true),
            ("[[]*[*]", b"x*", false),
            ("data.[0-9][0-9]", b"data.07", true),
            ("data.[0-9][0-9]", b"dataX07", false),
            ("[\u{e4}]", "\u{e4}".as_bytes(), true),
            ("\u{e4}", b"\xc3", false),
            ("?", b"\xe2\x82", false),
            ("??", b"\xe2\x82", true),
        ];
        for &(pattern, name, expected) in table {
            let glob: Glob = pattern.parse().unwrap();
            assert_eq!(glob.matches(name), expected, "{pattern} and {name:?}");
        }
    }

    #[test]
    fn case_can_be_ignored() {
        let table: &[(&str, &str, bool)] = &[
            ("readme*", "README.md", true),
            ("\u{c4}*", "\u{e4}x", true),
            ("[a-c]", "B", true),
            ("[A-C]", "b", true),
            ("[a-c]", "D", false),
        ];
        for &(pattern, name, expected) in table {
            let glob = pattern.parse::<Glob>().unwrap().ignoring_case();
            assert_eq!(glob.matches(name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for (pattern, told) in [
            ("[", "without its \"]\"; close it"),
            ("[a", "without its \"]\""),
            ("[a-", "without its \"]\""),
            ("[]", "without its \"]\""),
            ("[!", "without its \"]\""),
            ("[\\", "without its \"]\""),
            ("[z-a]", "write the lower character first"),
            ("[[:nope:]]", "no class of characters"),
            ("[[:digit:", "without its \":]\""),
        ] {
            let error = pattern.parse::<Glob>().unwrap_err().to_string();
            assert!(error.contains(told), "{pattern}: {error}");
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let pattern = "*a".repeat(100) + "b";
        let glob: Glob = pattern.parse().unwrap();
        assert!(!glob.matches("a".repeat(4000).as_bytes()));
    }

    #[test]
    fn one_pattern_may_cover_another() {
        let glob = |text: &str| text.parse::<Glob>().unwrap();
        assert!(glob("*").covers(&glob("a*")) && glob("a*").covers(&glob("a*")));
        assert!(!glob("a*").covers(&glob("*")) && !glob("").covers(&glob("a")));
    }

    /// What a pattern matches by its definition, found by trying all ways.
    fn model(glob: &Glob, tokens: &[Token], name: &[Symbol]) -> bool {
        match (tokens, name) {
            ([], []) => true,
            ([Token::Star, rest @ ..], _) => {
                (0..=name.len()).any(|skipped| model(glob, rest, &name[skipped..]))
            }
            ([token, rest @ ..], [symbol, tail @ ..]) => {
                glob.fits(token, *symbol) && model(glob, rest, tail)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn a_match_is_what_trying_all_ways_finds(
            pattern in "([ab*?]|\\[!?[ab]\\]){1,8}", name in "[abc\u{e4}]{0,10}",
        ) {
            let glob: Glob = pattern.parse().unwrap();
            let symbols: Vec<Symbol> = Symbols(name.as_bytes()).collect();
            let expected = model(&glob, &glob.tokens, &symbols);
            prop_assert_eq!(glob.matches(name.as_bytes()), expected, "{} {}", pattern, name);
        }

        #[test]
        fn symbols_are_what_the_standard_library_finds(
            name in prop::collection::vec(prop_oneof![any::<u8>(), 0x61_u8..0x63], 0..40),
        ) {
            let chunks = name.utf8_chunks().flat_map(|chunk| {
                let valid = chunk.valid().chars().map(Ok);
                valid.chain(chunk.invalid().iter().map(|&byte| Err(byte)))
            });
            prop_assert_eq!(Symbols(&name).collect::<Vec<_>>(), chunks.collect::<Vec<_>>());
        }

        #[test]
        fn no_text_and_no_name_make_it_panic(
            text in "[-*?!^a-c:\\[\\]\\\\/\u{e9}]{0,20}",
            name in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            if let Ok(glob) = text.parse::<Glob>() {
                let found = glob.matches(&name);
                prop_assert!(!glob.covers(&"*".parse().unwrap()) || found);
            }
        }
    }
}
