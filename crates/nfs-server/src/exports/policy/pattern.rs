//! Patterns of file names: `*`, `?` and `[...]`, on bytes.
//!
//! A pattern comes from the operator and meets names that clients choose, at every READ and WRITE of
//! an export that asks for it. Matching therefore never takes more than (length of the pattern) x
//! (length of the name) steps: after a mismatch only the last `*` is tried further on, never an
//! earlier one, because whatever an earlier one could reach the last one reaches too.

use std::fmt;
use std::str::FromStr;

use crate::limits;

/// A pattern that whole names are held against. `*` is any bytes, none included; `?` one byte; `[abc]`,
/// `[a-z]` one of these and `[!a-z]` (or `[^a-z]`) one of the others. There is no escape: `[*]` is
/// a star. Upper and lower case differ. Names are bytes: `?` is one byte of a letter in UTF-8.
#[derive(Clone, Debug)]
pub struct NamePattern {
    text: String,
    tokens: Vec<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// This byte.
    Byte(u8),
    /// `?`
    Any,
    /// `*`
    Run,
    /// `[...]`
    Class(Box<Class>),
}

/// A set of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Class([u64; 4]);

impl NamePattern {
    /// Does the whole of `name` match?
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        let (mut token, mut byte) = (0, 0);
        // Behind the last `*`, and how far it reaches.
        let mut retry: Option<(usize, usize)> = None;
        while byte < name.len() {
            match (self.tokens.get(token), name.get(byte)) {
                (Some(Token::Run), _) => {
                    retry = Some((token + 1, byte));
                    token += 1;
                    continue;
                }
                (Some(expected), Some(found)) if expected.takes(*found) => {
                    token += 1;
                    byte += 1;
                    continue;
                }
                _ => {}
            }
            let Some((behind, reached)) = retry else {
                return false;
            };
            retry = Some((behind, reached + 1));
            (token, byte) = (behind, reached + 1);
        }
        let mut rest = self.tokens.iter().skip(token);
        rest.all(|token| *token == Token::Run)
    }

    /// Is every name that `other` matches one that this matches, as far as is plain to see? `false`
    /// says nothing.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.tokens == other.tokens || self.tokens.iter().all(|token| *token == Token::Run)
    }

    /// As it was written.
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
        let mut tokens = Vec::new();
        let mut rest = text.as_bytes();
        while let [byte, tail @ ..] = rest {
            rest = tail;
            let token = match byte {
                b'?' => Token::Any,
                b'[' => Token::Class(Box::new(Class::read(&mut rest, text)?)),
                b'*' => Token::Run,
                byte => Token::Byte(*byte),
            };
            // Two stars in a row are one.
            if token != Token::Run || tokens.last() != Some(&Token::Run) {
                tokens.push(token);
            }
        }
        Ok(Self {
            text: text.to_owned(),
            tokens,
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

impl Token {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Self::Byte(expected) => *expected == byte,
            Self::Any => true,
            Self::Run => false,
            Self::Class(class) => class.has(byte),
        }
    }
}

impl Class {
    /// Takes what follows a `[` off `rest`, up to and with the `]`. A `]` that comes first is a member.
    fn read(rest: &mut &[u8], text: &str) -> Result<Self, String> {
        let mut class = Self::default();
        let negated = matches!(rest.first(), Some(b'!' | b'^'));
        *rest = rest.get(usize::from(negated)..).unwrap_or_default();
        let mut first = true;
        loop {
            *rest = match *rest {
                [b']', tail @ ..] if !first => {
                    *rest = tail;
                    return Ok(if negated { class.inverted() } else { class });
                }
                [from, b'-', to, tail @ ..] if *to != b']' => {
                    if from > to {
                        return Err(format!(
                            "name pattern \"{text}\" has a range that ends before it begins; \
                             write the lower character first"
                        ));
                    }
                    (*from..=*to).for_each(|member| class.add(member));
                    tail
                }
                [member, tail @ ..] => {
                    class.add(*member);
                    tail
                }
                [] => {
                    return Err(format!(
                        "name pattern \"{text}\" has a \"[\" without its \"]\"; close it, or write \
                         \"[[]\" for the character itself"
                    ));
                }
            };
            first = false;
        }
    }

    fn add(&mut self, byte: u8) {
        if let Some(word) = self.0.get_mut(usize::from(byte >> 6)) {
            *word |= 1 << (byte & 63);
        }
    }

    fn has(&self, byte: u8) -> bool {
        let word = self.0.get(usize::from(byte >> 6));
        word.is_some_and(|word| word >> (byte & 63) & 1 == 1)
    }

    fn inverted(self) -> Self {
        Self(self.0.map(|word| !word))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, name: &[u8]) -> bool {
        pattern.parse::<NamePattern>().unwrap().matches(name)
    }

    #[test]
    fn each_form_matches_what_it_says() {
        for (pattern, yes, no) in [
            (
                "*.ckpt",
                &["a.ckpt", ".ckpt"][..],
                &["a.ckpt2", "ckpt", ""][..],
            ),
            ("*", &["", "x", "\u{e9}"], &[]),
            ("a*b*c", &["abc", "aXbYc", "abbcbc"], &["abcd", "acb", "ab"]),
            ("?", &["a", "*"], &["", "ab", "\u{e9}"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "x", "-x"]),
            ("[!a-c]x", &["dx", "!x"], &["ax", "x"]),
            ("[^0-9]", &["a", "^"], &["7"]),
            ("[]x]", &["]", "x"], &["[", "y"]),
            ("[!]]", &["x"], &["]"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[[]*[*]", &["[*", "[x*"], &["[x", "x*"]),
            ("data.[0-9][0-9]", &["data.07"], &["data.7", "dataX07"]),
        ] {
            for name in yes {
                assert!(
                    matches(pattern, name.as_bytes()),
                    "{pattern} should match {name:?}"
                );
            }
            for name in no {
                assert!(
                    !matches(pattern, name.as_bytes()),
                    "{pattern} matches {name:?}"
                );
            }
        }
        assert!(matches("[!a]", &[0xff]), "names are bytes, not letters");
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

    #[test]
    fn what_would_take_for_ever_by_trying_all_ways_does_not() {
        let pattern = "*a".repeat(127);
        let mut name = vec![b'a'; 254];
        assert!(matches(&pattern, &name));
        name.push(b'b');
        assert!(!matches(&pattern, &name), "each star has every way to lose");
    }

    /// The definition, by trying all ways.
    fn model(tokens: &[Token], name: &[u8]) -> bool {
        match (tokens, name) {
            ([], []) => true,
            ([Token::Run, rest @ ..], _) => {
                (0..=name.len()).any(|skipped| model(rest, &name[skipped..]))
            }
            ([token, rest @ ..], [byte, tail @ ..]) => token.takes(*byte) && model(rest, tail),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn a_match_is_what_trying_all_ways_finds(
            pattern in "([ab*?]|\\[!?[ab]\\]){1,8}", name in "[abc]{0,10}",
        ) {
            let pattern: NamePattern = pattern.parse().unwrap();
            let found = pattern.matches(name.as_bytes());
            prop_assert_eq!(found, model(&pattern.tokens, name.as_bytes()), "{} {}", pattern, name);
        }

        #[test]
        fn no_text_and_no_name_make_it_panic(
            text in "[-*?!^a-c\\[\\]/\u{e9}]{0,20}", name in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            if let Ok(pattern) = text.parse::<NamePattern>() {
                let found = pattern.matches(&name);
                prop_assert!(!pattern.covers(&"*".parse().unwrap()) || found);
            }
        }
    }
}
