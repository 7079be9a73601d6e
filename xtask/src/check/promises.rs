//! The threat model: each test, scenario and limit that it names as holding a promise exists.

use super::documents::outside_fences;
use super::{Finding, Tree};

const THREAT_MODEL: &str = "docs/threat-model.md";
const RULE: &str = "a promise is held by a test or a limit that exists";

/// The tests, scenarios and limits that the threat model names exist, and each cap has its holder.
pub(crate) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(text) = tree.text(THREAT_MODEL) else {
        return;
    };
    for (number, line) in outside_fences(text) {
        for span in line.split('`').skip(1).step_by(2) {
            let (known, what) = if is_limit(span) {
                (is_defined_limit(tree, span), "limit in a limits.rs")
            } else if is_test_name(span) {
                (is_test(tree, span), "test")
            } else if is_scenario_name(span) {
                (is_scenario(tree, span), "scenario of tests/nfs-test")
            } else {
                continue;
            };
            if !known {
                findings.push(Finding::new(
                    THREAT_MODEL,
                    number,
                    RULE,
                    format!("there is no {what} named {span}; name the one that holds this, or promise less"),
                ));
            }
        }
        if let Some(cap) = row_without_holder(line) {
            findings.push(Finding::new(
                THREAT_MODEL,
                number,
                RULE,
                format!(
                    "{cap}: the third column says which test sees the cap; a dash where none does"
                ),
            ));
        }
    }
}

/// The first cell of a row of the tables of caps whose third one is empty or missing.
fn row_without_holder(line: &str) -> Option<&str> {
    let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
    let cells: Vec<&str> = row.split(" | ").collect();
    let cap = cells.first().filter(|cell| cell.starts_with('`'))?;
    let name = cap.split('`').nth(1).filter(|name| is_limit(name))?;
    let holder = cells.get(2).is_some_and(|cell| !cell.trim().is_empty());
    (!holder).then_some(name)
}

/// The words of RFCs and kernels in capital letters begin like this.
const NOT_OURS: [&str; 6] = ["NFS3ERR_", "MNT3ERR_", "CAP_", "AUTH_", "RESOLVE_", "O_"];

fn is_limit(span: &str) -> bool {
    let constant = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    span.contains('_')
        && span.chars().all(constant)
        && !NOT_OURS.iter().any(|begin| span.starts_with(begin))
}

fn is_defined_limit(tree: &Tree, span: &str) -> bool {
    let definition = format!("const {span}:");
    let mut limits = tree
        .texts
        .iter()
        .filter(|(path, _)| path.ends_with("limits.rs"));
    limits.any(|(_, text)| text.contains(&definition))
}

/// A sentence of words: no key of a configuration and no counter has as many.
fn is_test_name(span: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    span.matches('_').count() >= 3 && span.chars().all(word)
}

/// A function of this name that an attribute for tests stands above.
fn is_test(tree: &Tree, span: &str) -> bool {
    let beginning = format!("fn {span}(");
    let is_for_tests = |line: &str| {
        ["#[test]", "#[tokio::test"]
            .iter()
            .any(|a| line.starts_with(a))
    };
    let is_above = |text: &str, at: usize| {
        let line = text[..at].rfind('\n').unwrap_or(0);
        let above = text[..line].lines().rev().map(str::trim);
        above
            .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
            .any(is_for_tests)
    };
    let mut sources = tree.texts.iter().filter(|(path, _)| path.ends_with(".rs"));
    sources.any(|(_, text)| {
        let mut found = text.match_indices(&beginning);
        found.any(|(at, _)| is_above(text, at))
    })
}

fn is_scenario_name(span: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let single = ["hostile", "kernel", "fuse", "kill"].contains(&span);
    let hyphened = span.contains('-') && !span.starts_with('-') && !span.starts_with("nfs-");
    single || (hyphened && span.chars().all(word))
}

fn is_scenario(tree: &Tree, span: &str) -> bool {
    let name = format!("name: \"{span}\",");
    let list = tree.text("tests/nfs-test/src/scenarios/mod.rs");
    list.is_some_and(|list| list.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: (&str, &str) = ("crates/a/src/limits.rs", "pub const A_FEW: u8 = 1;");
    const TESTS: (&str, &str) = (
        "crates/a/src/a.rs",
        "#[test]\n#[cfg(unix)]\nfn who_comes_is_served() {\n\n    fn this_is_no_test() {}\n}\n",
    );
    const SCENARIOS: (&str, &str) = (
        "tests/nfs-test/src/scenarios/mod.rs",
        "Scenario {\n    name: \"stall-greedy\",\n}",
    );

    fn found(document: &str) -> Vec<String> {
        let texts = [(THREAT_MODEL, document), LIMITS, TESTS, SCENARIOS];
        let texts = texts.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let tree = Tree {
            root: "/nonexistent".into(),
            sources: Vec::new(),
            texts: texts.into(),
        };
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        findings.into_iter().map(|finding| finding.cure).collect()
    }

    #[test]
    fn what_exists_may_be_named() {
        let document = "`A_FEW`, `who_comes_is_served`, `stall-greedy`, `NFS3ERR_STALE`, `--memory`\n\
                        | `A_FEW` | they wait | `who_comes_is_served` |\n| `A_FEW` | they wait | – |\n";
        assert_eq!(found(document), Vec::<String>::new());
    }

    #[test]
    fn what_does_not_exist_is_caught() {
        for wrong in [
            "`MANY_OF_THEM`",
            "`who_goes_is_served`",
            "`this_is_no_test`",
            "`stall-polite`",
            "| `A_FEW` | they wait |",
            "| `A_FEW` | they wait |  |",
        ] {
            assert_eq!(found(wrong).len(), 1, "{wrong}");
        }
    }
}
