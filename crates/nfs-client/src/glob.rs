//! Patterns for names, as find(1) has them: `*`, `?`, `[a-z]`, `[!0-9]`, `[[:alpha:]]`, `\` before any.
//!
//! A pattern matches the whole name. What is not UTF-8 in a name counts byte by byte. Matching takes time
//! by the product of the lengths at most.

use std::str::FromStr;

/// A pattern that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    tokens: Vec<Token>,
    ignore_case: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// Any number of characters.
    Star,
    /// Any one character.
    Any,
    One(Symbol),
    Set {
        negated: bool,
        items: Vec<Item>,
    },
}

/// A character, or a byte that is part of none: `Err`.
type Symbol = Result<char, u8>;

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

impl FromStr for Glob {
    type Err = String;

    /// # Errors
    /// What is wrong with it, for its writer.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut chars = text.chars().peekable();
        let mut tokens = Vec::new();
        while let Some(char) = chars.next() {
            tokens.push(match char {
                '*' => Token::Star,
                '?' => Token::Any,
                '\\' => Token::One(Ok(chars.next().unwrap_or('\\'))),
                '[' => set(&mut chars)?,
                char => Token::One(Ok(char)),
            });
        }
        Ok(Self {
            tokens,
            ignore_case: false,
        })
    }
}

/// Whether each of `pattern` stands for what is at its place among `got`: one thing that it `fits`, or any
/// number of things if it `is_many`.
pub(crate) fn is_like<P, G>(
    pattern: &[P],
    got: &[G],
    is_many: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &G) -> bool,
) -> bool {
    let (mut wanted, mut at) = (0, 0);
    // Where the last of many was, and how far it reached: what fails later lets it reach one farther.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(wanted), got.get(at)) {
            (None, None) => return true,
            (Some(many), _) if is_many(many) => {
                retry = Some((wanted, at));
                wanted += 1;
                continue;
            }
            (Some(one), Some(thing)) if fits(one, thing) => {
                wanted += 1;
                at += 1;
                continue;
            }
            _ => {}
        }
        match retry {
            Some((many, reached)) if reached < got.len() => {
                retry = Some((many, reached + 1));
                (wanted, at) = (many + 1, reached + 1);
            }
            _ => return false,
        }
    }
}

fn set(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Token, String> {
    let unclosed = || "a '[' has no ']': write \\[ for a plain one".to_owned();
    let negated = chars.next_if(|char| matches!(char, '!' | '^')).is_some();
    let mut items = Vec::new();
    loop {
        let first = match chars.next().ok_or_else(unclosed)? {
            ']' if !items.is_empty() => return Ok(Token::Set { negated, items }),
            '[' if chars.peek() == Some(&':') => {
                items.push(Item::Class(class(chars)?));
                continue;
            }
            '\\' => chars.next().ok_or_else(unclosed)?,
            char => char,
        };
        let mut after = chars.clone();
        let is_range = after.next() == Some('-') && !matches!(after.peek(), Some(']') | None);
        let last = if is_range {
            chars.next();
            match chars.next().ok_or_else(unclosed)? {
                '\\' => chars.next().ok_or_else(unclosed)?,
                char => char,
            }
        } else {
            first
        };
        items.push(Item::Range(first, last));
    }
}

fn class(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Class, String> {
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
        _ => return Err(format!("'[:{name}:]' is no class of characters")),
    };
    match chars.next() {
        Some(']') => Ok(class),
        _ => Err(format!("'[:{name}:' has no ':]'")),
    }
}

impl Glob {
    /// The same pattern, in which small and capital letters are alike.
    pub fn ignoring_case(self) -> Self {
        Self {
            ignore_case: true,
            ..self
        }
    }

    /// The whole of `name` is as the pattern says.
    pub fn matches(&self, name: &[u8]) -> bool {
        let symbols: Vec<Symbol> = symbols(name);
        is_like(
            &self.tokens,
            &symbols,
            |token| matches!(token, Token::Star),
            |token, &got| self.fits(token, got),
        )
    }

    fn fits(&self, token: &Token, got: Symbol) -> bool {
        match token {
            Token::Star => false,
            Token::Any => true,
            Token::One(wanted) => self.same(*wanted, got),
            Token::Set { negated, items } => {
                let inside = match got {
                    Ok(char) => items.iter().any(|item| self.inside(item, char)),
                    Err(_) => false,
                };
                inside != *negated
            }
        }
    }

    fn same(&self, a: Symbol, b: Symbol) -> bool {
        match (a, b) {
            (Ok(a), Ok(b)) if self.ignore_case => a.to_lowercase().eq(b.to_lowercase()),
            (a, b) => a == b,
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

fn symbols(name: &[u8]) -> Vec<Symbol> {
    let chunks = name.utf8_chunks();
    let chunks = chunks.map(|chunk| {
        let valid = chunk.valid().chars().map(Ok);
        valid.chain(chunk.invalid().iter().map(|&byte| Err(byte)))
    });
    chunks.flatten().collect()
}

#[cfg(test)]
mod tests {
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
        for pattern in ["[", "[a", "[a-", "[]", "[[:nope:]]", "[[:digit:", "[\\"] {
            assert!(pattern.parse::<Glob>().is_err(), "{pattern} is taken");
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let pattern = "*a".repeat(100) + "b";
        let glob: Glob = pattern.parse().unwrap();
        assert!(!glob.matches("a".repeat(4000).as_bytes()));
    }
}
