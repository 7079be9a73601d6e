//! The fenced blocks of the documents.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// A fenced block of a page.
pub(super) struct Block {
    /// The number of the block's first line in its page.
    pub(super) line: usize,
    pub(super) language: Language,
    pub(super) text: String,
}

/// What is done with a block, by the word behind its fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// `sh`, `console`: commands, which are run.
    Shell,
    /// `toml`: a configuration, which is checked.
    Configuration,
    /// `text`: what commands print, or a picture.
    Text,
    /// Anything else, which other tests hold: JSON, YAML, Rust.
    Other,
}

impl Block {
    /// Whether it begins with this, as a list of exceptions names it.
    pub(super) fn begins(&self, beginning: &str) -> bool {
        self.text.trim_start().starts_with(beginning)
    }
}

/// The root of the source tree that this program was built from.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Pages that a measurement wrote: their commands are those that it was made of, and take minutes.
const MEASURED: [&str; 2] = ["docs/results/claims", "docs/results/speed"];

/// The pages of the source tree that have blocks, by their paths from its root, in order.
pub(super) fn pages() -> Result<Vec<(String, Vec<Block>)>> {
    let root = root();
    let mut pages = Vec::new();
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_measured = MEASURED.iter().any(|page| path.ends_with(page));
            if name == "target" || name.starts_with('.') || is_measured {
                continue;
            }
            if path.is_dir() {
                directories.push(path);
            } else if name.ends_with(".md") {
                let text = std::fs::read_to_string(&path)?;
                let name = path.strip_prefix(&root)?.display().to_string();
                let blocks = blocks(&text).with_context(|| name.clone())?;
                pages.push((name, blocks));
            }
        }
    }
    pages.retain(|(_, blocks)| !blocks.is_empty());
    pages.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(pages)
}

fn blocks(page: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in page.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (None, None) => {}
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (Some(word), None) => {
                let language = language(word).with_context(|| format!("line {}", index + 1))?;
                open = Some(Block {
                    line: index + 2,
                    language,
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
        }
    }
    Ok(blocks)
}

fn language(word: &str) -> Result<Language> {
    Ok(match word.split(',').next().unwrap_or_default().trim() {
        "sh" | "console" => Language::Shell,
        "toml" => Language::Configuration,
        "text" => Language::Text,
        "json" | "jsonl" | "yaml" | "rust" | "python" => Language::Other,
        other => bail!("a block in {other:?}: say sh, toml or text, or what it is"),
    })
}

/// The words of a line that are the same each time: letters alone, at least three of them, and no unit.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    text.split(move |c| !is_part(c))
        .map(|word| word.trim_matches(['-', '_']))
        .filter(|word| word.len() > 2 && !word.contains(|c: char| c.is_ascii_digit()))
        .filter(|word| !["KiB", "MiB", "GiB"].contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_a_line_and_a_language() {
        let page = "a\n```sh\nls\n\n```\n```text\nb\n```\n";
        let found = blocks(page).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].line, found[0].text.as_str()), (3, "ls\n\n"));
        assert_eq!(found[1].language, Language::Text);
        assert!(blocks("```\nls\n```\n").is_err());
    }

    #[test]
    fn words_are_what_does_not_vary() {
        let line = "READ 41 22.93 MiB xid=0x2a calls-seen (0.0%) at";
        assert_eq!(
            words(line).collect::<Vec<_>>(),
            ["READ", "xid", "calls-seen"]
        );
    }
}
