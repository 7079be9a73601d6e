//! Words that say "not finished" or "only here", and habits that hide a failure.

use std::path::Path;

use super::source::{Source, has_word};
use super::{Finding, Tree};

/// Directories that are everybody's: a checkout directly below one says nothing about a workplace.
const COMMON_PARENTS: &[&str] = &[
    "/", "/tmp", "/var/tmp", "/home", "/root", "/srv", "/opt", "/usr/src", "/mnt",
];

/// Checks the markers in one Rust file, and adds what breaks a rule to `findings`.
pub(crate) fn check_source(source: &Source, findings: &mut Vec<Finding>) {
    unfinished(source, findings);
    ignored_tests(source, findings);
    sleeps(source, findings);
    lints_switched_off(source, findings);
    swallowed_errors(source, findings);
}

/// No file names the directory this checkout happens to live in, or somebody's home.
pub(crate) fn check_workplaces(tree: &Tree, findings: &mut Vec<Finding>) {
    let places = workplaces(&tree.root);
    for (path, text) in &tree.texts {
        for (index, line) in text.lines().enumerate() {
            if places.iter().any(|place| line.contains(place.as_str())) {
                let rule = "no path of somebody's workplace";
                let cure = "use a path relative to the workspace, or one the reader has as well";
                findings.push(Finding::new(path, index + 1, rule, cure));
            }
        }
    }
}

fn workplaces(root: &Path) -> Vec<String> {
    let mut places = vec![root.display().to_string()];
    if let Some(parent) = root.parent().map(|p| p.display().to_string())
        && !COMMON_PARENTS.contains(&parent.as_str())
    {
        places.push(format!("{parent}/"));
    }
    if let Some(home) = std::env::var_os("HOME").map(|h| h.to_string_lossy().into_owned())
        && home.len() > 1
    {
        places.push(format!("{home}/"));
    }
    places
}

fn unfinished(source: &Source, findings: &mut Vec<Finding>) {
    // Spelt in two halves so that this file does not find itself.
    let words = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!("HA", "CK"),
    ];
    let macros = [
        concat!("to", "do!"),
        concat!("unimple", "mented!"),
        concat!("db", "g!"),
    ];
    for (number, code) in source.numbered() {
        let comment = &source.comments[number - 1];
        let marked = words
            .iter()
            .any(|word| has_word(comment, word) || has_word(code, word));
        if marked || macros.iter().any(|name| code.contains(name)) {
            let rule = "nothing is left unfinished in the tree";
            let cure = "finish it, or describe it in an issue and remove the mark";
            findings.push(Finding::new(&source.path, number, rule, cure));
        }
    }
}

fn ignored_tests(source: &Source, findings: &mut Vec<Finding>) {
    for (number, code) in source.numbered() {
        if code.contains(concat!("#[ign", "ore")) {
            let rule = "a test runs or says at run time why it cannot";
            let cure = "probe for what is missing and print `SKIP: <test>: <reason>`; --strict makes that a failure";
            findings.push(Finding::new(&source.path, number, rule, cure));
        }
    }
}

/// A sleep in a test is a guess at how long something takes. A poll with a deadline may sleep between looks
/// and says so.
fn sleeps(source: &Source, findings: &mut Vec<Finding>) {
    let inside_tests = source.path.starts_with("tests/");
    for (number, code) in source.numbered() {
        if !(inside_tests || source.test[number - 1]) {
            continue;
        }
        let calls = code.contains("thread::sleep(") || code.contains("time::sleep(");
        if calls && !source.explained(number, "SLEEP:") {
            let rule = "no sleep as synchronisation in a test";
            let cure = "wait for the event itself (a line of output, a reply, a file) with a deadline; where time is \
                        the thing tested, or a poll rests between two looks, say so in a `// SLEEP:` comment";
            findings.push(Finding::new(&source.path, number, rule, cure));
        }
    }
}

fn lints_switched_off(source: &Source, findings: &mut Vec<Finding>) {
    for (number, code) in source.numbered() {
        let trimmed = code.trim_start();
        let opens = ["#[allow(", "#![allow(", "#[expect(", "#![expect("]
            .iter()
            .any(|a| trimmed.starts_with(a));
        if !opens {
            continue;
        }
        let rest = &source.code[number - 1..];
        let end = rest
            .iter()
            .position(|line| line.contains(")]"))
            .unwrap_or(0);
        let attribute = rest[..=end].join(" ");
        if !has_word(&attribute, "reason") {
            let rule = "a lint is switched off with a reason";
            let cure =
                "write #[expect(lint, reason = \"...\")], on the smallest item that needs it";
            findings.push(Finding::new(&source.path, number, rule, cure));
        }
    }
}

/// A failed flush is an event the client has to hear of.
fn swallowed_errors(source: &Source, findings: &mut Vec<Finding>) {
    for (number, code) in source.product_lines() {
        let Some(at) = code.find("let _ =") else {
            continue;
        };
        let what = &code[at..];
        if [
            "fsync",
            "fdatasync",
            "syncfs",
            "sync_all",
            "sync_data",
            ".commit(",
        ]
        .iter()
        .any(|w| what.contains(w))
        {
            let rule = "the result of a flush is never dropped";
            let cure = "carry it to the reply (NFS3ERR_IO, a new write verifier) or to the log";
            findings.push(Finding::new(&source.path, number, rule, cure));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        check_source(&Source::parse(path, text), &mut findings);
        findings.into_iter().map(|f| f.line).collect()
    }

    #[test]
    fn unfinished_work_is_caught() {
        let mark = concat!("// TO", "DO: later");
        assert_eq!(
            found("crates/a/src/b.rs", &format!("fn f() {{}}\n{mark}")),
            [2]
        );
        assert_eq!(
            found("crates/a/src/b.rs", concat!("fn f() { to", "do!() }")),
            [1]
        );
        assert!(found("crates/a/src/b.rs", "let s = \"a TODO list\";").is_empty());
    }

    #[test]
    fn ignored_tests_and_sleeps_are_caught() {
        assert_eq!(
            found(
                "tests/a/src/b.rs",
                concat!("#[ign", "ore]\n#[test]\nfn f() {}")
            ),
            [1]
        );
        assert_eq!(
            found(
                "tests/a/src/b.rs",
                "fn f() {\n    std::thread::sleep(SECOND);\n}"
            ),
            [2]
        );
        assert!(
            found(
                "tests/a/src/b.rs",
                "// SLEEP: between two looks\nthread::sleep(REST);"
            )
            .is_empty()
        );
        assert!(found("crates/a/src/b.rs", "fn f() { thread::sleep(REST); }").is_empty());
    }

    #[test]
    fn a_lint_needs_a_reason() {
        assert_eq!(found("crates/a/src/b.rs", "#[allow(dead_code)]"), [1]);
        assert!(
            found(
                "crates/a/src/b.rs",
                "#[expect(\n    dead_code,\n    reason = \"tests only\"\n)]"
            )
            .is_empty()
        );
    }

    #[test]
    fn a_dropped_flush_is_caught() {
        assert_eq!(found("crates/a/src/b.rs", "let _ = fs::fsync(&fd);"), [1]);
        assert!(found("crates/a/src/b.rs", "let _ = writeln!(f);").is_empty());
    }

    #[test]
    fn workplaces_are_the_checkout_and_the_home() {
        let tree = Tree {
            root: "/srv/builds/penstock".into(),
            sources: Vec::new(),
            texts: vec![
                (
                    "a.md".into(),
                    "fine: /srv/nfs\nnot: /srv/builds/other".into(),
                ),
                ("b.sh".into(), "cd /srv/builds/penstock".into()),
            ],
        };
        let mut findings = Vec::new();
        check_workplaces(&tree, &mut findings);
        let places: Vec<_> = findings.iter().map(|f| (f.path.as_str(), f.line)).collect();
        assert_eq!(places, [("a.md", 2), ("b.sh", 1)]);
    }
}
