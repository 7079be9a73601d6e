//! A Rust file as the rules see it: code, comments and strings told apart, tests marked.
//!
//! This is a scanner, not a parser. It knows comments, strings, character literals and braces, which
//! is enough to say "this word stands in code" without a syntax tree, and it never fails: on
//! text that is not Rust it merely finds less.

/// One file, split into what the compiler reads and what people read.
pub(crate) struct Source {
    /// Path from the workspace's root, with `/`.
    pub(crate) path: String,
    /// The lines as they stand in the file.
    pub(crate) text: Vec<String>,
    /// The lines of `text` with comments and the contents of strings blanked; columns are kept.
    pub(crate) code: Vec<String>,
    /// The comment text of each line, empty where there is none.
    pub(crate) comments: Vec<String>,
    /// Whether the line belongs to a test: a `#[cfg(test)]` item, or a file below `tests/`.
    pub(crate) test: Vec<bool>,
}

impl Source {
    /// Splits `text`, the content of the file at `path`.
    pub(crate) fn parse(path: &str, text: &str) -> Self {
        let (code, comments) = split(text);
        let lines = |s: &str| s.split('\n').map(str::to_owned).collect::<Vec<_>>();
        let (text, code, comments) = (lines(text), lines(&code), lines(&comments));
        let whole = path
            .split('/')
            .any(|part| part == "tests" || part == "tests.rs");
        let test = if whole {
            vec![true; code.len()]
        } else {
            mark_tests(&code)
        };
        Self {
            path: path.to_owned(),
            text,
            code,
            comments,
            test,
        }
    }

    /// Lines of code outside tests, numbered from 1.
    pub(crate) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.numbered().filter(|(number, _)| !self.test[number - 1])
    }

    /// All lines of code, numbered from 1.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .iter()
            .enumerate()
            .map(|(i, line)| (i + 1, line.as_str()))
    }

    /// The line `number`, joined with those that follow up to the semicolon where it begins a `use`.
    pub(crate) fn joined_use(&self, number: usize) -> String {
        let line = &self.code[number - 1];
        let trimmed = line.trim_start();
        let is_use = trimmed.starts_with("use ") || trimmed.starts_with("pub use ");
        if !is_use || line.contains(';') {
            return line.clone();
        }
        let rest = &self.code[number - 1..];
        let end = rest
            .iter()
            .position(|l| l.contains(';'))
            .unwrap_or(rest.len() - 1);
        rest[..=end].join(" ")
    }

    /// Whether a comment with `mark` stands on line `number` or on the lines above it that belong to
    /// the same statement: the search ends at a blank line or where another statement ends.
    pub(crate) fn explained(&self, number: usize, mark: &str) -> bool {
        let mut index = number - 1;
        if self.comments[index].contains(mark) {
            return true;
        }
        while index > 0 {
            index -= 1;
            if self.comments[index].contains(mark) {
                return true;
            }
            let code = self.code[index].trim();
            let ends = code.ends_with(';') || code.ends_with('{') || code.ends_with('}');
            if ends || self.text[index].trim().is_empty() {
                return false;
            }
        }
        false
    }
}

/// Whether `word` stands in `line` as a whole word (`unsafe`, but not `unsafe_code`).
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

/// The names that `line` takes directly from the module `base`: of `use std::{fs, net::IpAddr};` and
/// base `std` these are `fs` and `net`.
pub(crate) fn names_from(line: &str, base: &str) -> Vec<String> {
    let mut names = Vec::new();
    let prefix = format!("{base}::");
    for (at, _) in line.match_indices(&prefix) {
        if line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &line[at + prefix.len()..];
        match rest.strip_prefix('{') {
            None => names.push(leading_word(rest)),
            Some(group) => names.extend(group_heads(group)),
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// First words of the members of a `use` group, up to its closing brace.
fn group_heads(group: &str) -> Vec<String> {
    let mut heads = Vec::new();
    let mut depth = 0usize;
    let mut start = true;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = true,
            c if c.is_whitespace() => {}
            _ if start => {
                heads.push(leading_word(&group[at..]));
                start = false;
            }
            _ => {}
        }
    }
    heads
}

fn leading_word(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// Blanks comments and strings in one copy, everything but comments in the other.
fn split(text: &str) -> (String, String) {
    let chars: Vec<char> = text.chars().collect();
    let mut out = Split {
        code: String::with_capacity(text.len()),
        comments: String::new(),
    };
    let mut at = 0;
    while at < chars.len() {
        let end = token_end(&chars, at);
        let kind = kind(&chars, at);
        for (i, &c) in chars[at..end].iter().enumerate() {
            let edge = i == 0 || at + i + 1 == end;
            out.push(c, kind, edge);
        }
        at = end;
    }
    (out.code, out.comments)
}

struct Split {
    code: String,
    comments: String,
}

impl Split {
    fn push(&mut self, c: char, kind: Kind, edge: bool) {
        let blank = if c == '\n' { '\n' } else { ' ' };
        // The quotes of a string stay, so that a line of code keeps its shape.
        let keep = kind == Kind::Code || (kind == Kind::Text && edge);
        self.code.push(if keep { c } else { blank });
        self.comments
            .push(if kind == Kind::Comment { c } else { blank });
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Text,
}

fn kind(chars: &[char], at: usize) -> Kind {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') || next == Some('*') => Kind::Comment,
        '"' => Kind::Text,
        '\'' if char_literal_end(chars, at).is_some() => Kind::Text,
        'r' if raw_string_end(chars, at).is_some() => Kind::Text,
        _ => Kind::Code,
    }
}

/// One past the end of the comment, string, character literal or single character at `at`.
fn token_end(chars: &[char], at: usize) -> usize {
    match (chars[at], chars.get(at + 1).copied()) {
        ('/', Some('/')) => find(chars, at, |c| c == '\n'),
        ('/', Some('*')) => block_comment_end(chars, at),
        ('"', _) => string_end(chars, at),
        ('\'', _) => char_literal_end(chars, at).unwrap_or(at + 1),
        ('r', _) => raw_string_end(chars, at).unwrap_or(at + 1),
        _ => at + 1,
    }
}

fn find(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    chars[from..]
        .iter()
        .position(|&c| wanted(c))
        .map_or(chars.len(), |n| from + n)
}

/// Block comments nest in Rust.
fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0usize, at);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], at: usize) -> usize {
    let mut i = at + 1;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

/// A character literal, or `None` where the quote begins a lifetime.
fn char_literal_end(chars: &[char], at: usize) -> Option<usize> {
    match (chars.get(at + 1)?, chars.get(at + 2)) {
        ('\\', Some(_)) => Some(find(chars, at + 3, |c| c == '\'') + 1).map(|e| e.min(chars.len())),
        (_, Some('\'')) => Some(at + 3),
        _ => None,
    }
}

fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let inside_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    let byte_prefix = at > 0 && matches!(chars[at - 1], 'b' | 'c');
    if inside_word && !byte_prefix {
        return None;
    }
    let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
    if chars.get(at + 1 + hashes) != Some(&'"') {
        return None;
    }
    let closing: Vec<char> = std::iter::once('"')
        .chain(std::iter::repeat_n('#', hashes))
        .collect();
    let from = at + 2 + hashes;
    let end = chars[from..]
        .windows(closing.len())
        .position(|w| w == closing)?;
    Some(from + end + closing.len())
}

/// Marks each item under `#[cfg(test)]`, from the attribute to the item's closing brace or semicolon.
fn mark_tests(code: &[String]) -> Vec<bool> {
    let mut test = vec![false; code.len()];
    let mut line = 0;
    while line < code.len() {
        if !code[line].contains("#[cfg(test)]") && !code[line].contains("#[cfg(all(test") {
            line += 1;
            continue;
        }
        let end = item_end(code, line);
        test[line..=end].fill(true);
        line = end + 1;
    }
    test
}

fn item_end(code: &[String], from: usize) -> usize {
    let (mut depth, mut opened) = (0usize, false);
    for (index, line) in code.iter().enumerate().skip(from) {
        for c in line.chars() {
            match c {
                '{' => (depth, opened) = (depth + 1, true),
                '}' => depth = depth.saturating_sub(1),
                ';' if !opened => return index,
                _ => {}
            }
            if opened && depth == 0 {
                return index;
            }
        }
    }
    code.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_not_code() {
        let source = Source::parse(
            "a.rs",
            "let a = \"unsafe\"; // unsafe here\n/* unsafe /* nested */ unsafe */ let b = r#\"unsafe\"#;\n",
        );
        assert!(
            source.code.iter().all(|line| !has_word(line, "unsafe")),
            "{:?}",
            source.code
        );
        assert!(source.comments[0].contains("unsafe here"));
        assert_eq!(source.code[0].len(), source.text[0].len());
    }

    #[test]
    fn lifetimes_do_not_open_a_literal() {
        let source = Source::parse(
            "a.rs",
            "fn f<'a>(x: &'a str) -> char { '\\'' } // c\nunsafe {}",
        );
        assert!(has_word(&source.code[1], "unsafe"));
        assert!(source.comments[0].contains("// c"));
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("let x = unsafe {", "unsafe"));
        assert!(!has_word("#![forbid(unsafe_code)]", "unsafe"));
    }

    #[test]
    fn names_of_a_use_group() {
        assert_eq!(
            names_from("use std::{fs, net::{IpAddr, Ipv4Addr}, fmt};", "std"),
            ["fs", "net", "fmt"]
        );
        assert_eq!(
            names_from("let t = std::time::Instant::now();", "std"),
            ["time"]
        );
        assert!(names_from("my_std::time", "std").is_empty());
    }

    #[test]
    fn test_items_are_marked_to_their_end() {
        let source = Source::parse(
            "a.rs",
            "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() {}\n}\nfn c() {}",
        );
        assert_eq!(source.test, [false, true, true, true, true, false]);
        let source = Source::parse("a.rs", "#[cfg(test)]\nmod tests;\nfn c() {}");
        assert_eq!(source.test, [true, true, false]);
    }

    #[test]
    fn an_explanation_belongs_to_its_statement() {
        let source = Source::parse(
            "a.rs",
            "// SAFETY: mine\nlet x =\n    unsafe { 1 };\nunsafe { 2 };",
        );
        assert!(source.explained(3, "SAFETY:"));
        assert!(!source.explained(4, "SAFETY:"));
    }
}
