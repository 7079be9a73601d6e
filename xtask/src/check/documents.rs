//! The documents: links lead somewhere, examples parse, exceptions to an RFC have a reason.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use super::{Finding, Tree};

/// Rules on all Markdown files and on `docs/rfc/exceptions.toml`.
pub(crate) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.texts.iter().filter(|(path, _)| path.ends_with(".md")) {
        links(tree, path, text, findings);
        examples(path, text, findings);
        names(tree, path, text, findings);
    }
    if let Some(text) = tree.text("docs/rfc/exceptions.toml") {
        exceptions(text, findings);
    }
}

fn links(tree: &Tree, path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (number, target) in link_targets(text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let resolved = if file.is_empty() {
            path.to_owned()
        } else {
            resolve(path, file)
        };
        if !tree.root.join(&resolved).exists() && tree.text(&resolved).is_none() {
            let cure = format!("{target} is {resolved}, which does not exist");
            findings.push(Finding::new(
                path,
                number,
                "links between documents resolve",
                cure,
            ));
            continue;
        }
        let known = tree.text(&resolved).map(anchors);
        if !anchor.is_empty() && known.is_some_and(|a| !a.contains(anchor)) {
            let cure = format!("{resolved} has no heading #{anchor}");
            findings.push(Finding::new(
                path,
                number,
                "links between documents resolve",
                cure,
            ));
        }
    }
}

/// Targets of `[text](target)` outside code, with their lines.
fn link_targets(text: &str) -> Vec<(usize, String)> {
    let mut targets = Vec::new();
    for (number, line) in outside_fences(text) {
        // Inside a code span a bracket is a bracket.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for (at, _) in prose.match_indices("](") {
            let rest = &prose[at + 2..];
            if let Some(end) = rest.find(')') {
                targets.push((number, rest[..end].trim().to_owned()));
            }
        }
    }
    targets
}

/// The lines outside of fenced blocks, with their numbers.
pub(super) fn outside_fences(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if !fence && !fenced {
            lines.push((index + 1, line));
        }
    }
    lines
}

fn resolve(from: &str, target: &str) -> String {
    let mut path = PathBuf::from(from)
        .parent()
        .map(Path::to_owned)
        .unwrap_or_default();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path.display().to_string()
}

/// Anchors as GitHub makes them: lower case, spaces to hyphens, punctuation dropped.
fn anchors(text: &str) -> HashSet<String> {
    let headings = outside_fences(text)
        .into_iter()
        .filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Files and caps that a document names in code spans exist.
fn names(tree: &Tree, path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (number, line) in outside_fences(text) {
        for span in line.split('`').skip(1).step_by(2) {
            let known = if is_cap(span) {
                tree.texts
                    .iter()
                    .any(|(p, t)| p.ends_with("limits.rs") && t.contains(&format!("const {span}:")))
            } else if span.ends_with(".rs") && !span.contains(' ') {
                tree.texts
                    .iter()
                    .any(|(p, _)| p == span || p.ends_with(&format!("/{span}")))
            } else if is_tracked_path(span) {
                let path = span.trim_end_matches('/');
                tree.texts
                    .iter()
                    .any(|(p, _)| p == path || p.starts_with(&format!("{path}/")))
            } else if path == "ARCHITECTURE.md" && is_folder(span) {
                tree.texts
                    .iter()
                    .any(|(p, _)| format!("/{p}").contains(&format!("/{span}")))
            } else {
                true
            };
            if !known {
                let rule = "what a document names exists";
                findings.push(Finding::new(
                    path,
                    number,
                    rule,
                    format!("`{span}` is nowhere in the tree"),
                ));
            }
        }
    }
}

/// A constant of ours, not Linux's `PATH_MAX` and `NAME_MAX`.
fn is_cap(span: &str) -> bool {
    let constant = span
        .chars()
        .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let bound = ["_MAX", "_MIN", "_DEFAULT"]
        .iter()
        .any(|end| span.ends_with(end));
    constant && bound && !["PATH_MAX", "NAME_MAX"].contains(&span)
}

fn is_tracked_path(span: &str) -> bool {
    let rooted = ["crates/", "docs/", "xtask/", "tests/", "fuzz/", "python/"]
        .iter()
        .any(|top| span.starts_with(top));
    rooted && !span.contains([' ', '*', '<', '{'])
}

fn is_folder(span: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-/".contains(c);
    span.ends_with('/') && !span.starts_with('/') && span.chars().all(word)
}

/// A fenced block of a language we can parse is parsed.
fn examples(path: &str, text: &str, findings: &mut Vec<Finding>) {
    for Example {
        line,
        language,
        body,
    } in fences(text)
    {
        let problem = match language.as_str() {
            "toml" => body
                .parse::<toml::Table>()
                .err()
                .map(|e| e.message().to_owned()),
            "json" => serde_json::from_str::<serde_json::Value>(&body)
                .err()
                .map(|e| e.to_string()),
            "sh" | "bash" => shell_problem(&body),
            _ => None,
        };
        if let Some(problem) = problem {
            findings.push(Finding::new(
                path,
                line,
                "examples in documents parse",
                problem,
            ));
        }
    }
    if text
        .lines()
        .filter(|line| line.trim_start().starts_with("```"))
        .count()
        % 2
        == 1
    {
        findings.push(Finding::new(
            path,
            0,
            "examples in documents parse",
            "a ``` fence is not closed",
        ));
    }
}

/// One fenced block of a document: an example that may have to hold.
pub(crate) struct Example {
    /// Line of the opening fence.
    pub(crate) line: usize,
    /// First word behind the fence.
    pub(crate) language: String,
    /// The lines between the fences.
    pub(crate) body: String,
}

/// The fenced blocks of a document.
pub(crate) fn fences(text: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let mut open: Option<Example> = None;
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (fence, open.take()) {
            (Some(info), None) => {
                let language = info
                    .split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                open = Some(Example {
                    line: index + 1,
                    language,
                    body: String::new(),
                });
            }
            (Some(_), Some(example)) => found.push(example),
            (None, Some(mut example)) => {
                example.body.push_str(line);
                example.body.push('\n');
                open = Some(example);
            }
            (None, None) => {}
        }
    }
    found
}

fn shell_problem(body: &str) -> Option<String> {
    let output = std::process::Command::new("bash")
        .args(["-n", "-c", body])
        .output()
        .ok()?;
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// Each requirement of an RFC that is not followed is quoted, with the reason.
fn exceptions(text: &str, findings: &mut Vec<Finding>) {
    let path = "docs/rfc/exceptions.toml";
    let rule = "an exception names the RFC's section, its words, what we do and why";
    let Ok(table) = text.parse::<toml::Table>() else {
        return;
    };
    let Some(entries) = table.get("exception").and_then(toml::Value::as_array) else {
        findings.push(Finding::new(path, 0, rule, "write [[exception]] tables"));
        return;
    };
    for (index, entry) in entries.iter().enumerate() {
        for key in ["rfc", "section", "quote", "what", "reason"] {
            let filled = entry
                .get(key)
                .is_some_and(|v| v.as_str().is_none_or(|s| !s.trim().is_empty()));
            if !filled {
                findings.push(Finding::new(
                    path,
                    0,
                    rule,
                    format!("entry {} has no `{key}`", index + 1),
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[(&str, &str)]) -> Vec<String> {
        let texts = texts
            .iter()
            .map(|(p, t)| ((*p).to_owned(), (*t).to_owned()))
            .collect();
        let tree = Tree {
            root: "/nonexistent".into(),
            sources: Vec::new(),
            texts,
        };
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        findings
            .into_iter()
            .map(|f| format!("{}:{} {}", f.path, f.line, f.cure))
            .collect()
    }

    #[test]
    fn dead_links_and_anchors_are_caught() {
        let good = ("docs/b.md", "# Two Words: here\n[up](../a.md#top)");
        assert!(found(&[("a.md", "# Top\n[x](docs/b.md#two-words-here)"), good]).is_empty());
        assert_eq!(found(&[("a.md", "# Top\n[x](docs/c.md)"), good]).len(), 1);
        assert_eq!(
            found(&[("a.md", "# Top\n[x](docs/b.md#three)"), good]).len(),
            1
        );
        assert!(found(&[("a.md", "`[x](nowhere.md)` [y](https://example.org/)")]).is_empty());
    }

    #[test]
    fn names_of_nothing_are_caught() {
        let limits = ("crates/a/src/limits.rs", "pub const NAMES_MAX: usize = 1;");
        assert!(
            found(&[
                (
                    "a.md",
                    "`NAMES_MAX` in `limits.rs`, `crates/a/src/`, `PATH_MAX`"
                ),
                limits
            ])
            .is_empty()
        );
        assert_eq!(found(&[("a.md", "`NAMES_MIN`"), limits]).len(), 1);
        assert_eq!(found(&[("a.md", "`vfs/gone.rs`"), limits]).len(), 1);
        assert_eq!(found(&[("a.md", "`crates/b/`"), limits]).len(), 1);
        let map = |text| found(&[("ARCHITECTURE.md", text), limits]).len();
        assert_eq!((map("`a/src/`, `src/`"), map("`rc/`")), (0, 1));
    }

    #[test]
    fn broken_examples_are_caught() {
        assert_eq!(found(&[("a.md", "```toml\na = \n```")]).len(), 1);
        assert_eq!(found(&[("a.md", "```json\n{]\n```")]).len(), 1);
        assert_eq!(found(&[("a.md", "```sh\nif true; then\n```")]).len(), 1);
        assert!(found(&[("a.md", "```toml\na = 1\n```\n```text\n{]\n```")]).is_empty());
        assert_eq!(found(&[("a.md", "```text\nnever closed")]).len(), 1);
    }

    #[test]
    fn exceptions_need_a_reason() {
        let entry = "[[exception]]\nrfc = 1813\nsection = \"3.3.7\"\nquote = \"q\"\nwhat = \"w\"\n";
        assert_eq!(found(&[("docs/rfc/exceptions.toml", entry)]).len(), 1);
        let whole = format!("{entry}reason = \"r\"\n");
        assert!(found(&[("docs/rfc/exceptions.toml", &whole)]).is_empty());
    }
}
