//! What the field's test suites said of the server, one verdict for each test, and what has changed since.
//!
//! The suites are other people's and are run from outside the project; `docs/results/suites/` keeps what they
//! found. A test that begins to pass is a change as one that begins to fail: both belong into the list.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

/// Where the lists are, below the workspace's root.
const DIRECTORY: &str = "docs/results/suites";

/// What a suite says of one of its tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Pass,
    Fail,
    /// The test was not run, or found that it does not apply.
    Skip,
}

impl Verdict {
    const ALL: [Self; 3] = [Self::Pass, Self::Fail, Self::Skip];

    const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Skip => "skip",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The verdicts of one run of a suite, by the names of its tests.
type Verdicts = BTreeMap<String, Verdict>;

/// Prints for each kept list how many tests passed, failed and were skipped.
pub(crate) fn list(root: &Path) -> Result<ExitCode> {
    let directory = root.join(DIRECTORY);
    let entries = fs::read_dir(&directory).with_context(|| directory.display().to_string())?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    paths.sort();
    for path in paths.iter().filter(|path| is_list(path)) {
        let name = path.file_stem().unwrap_or_default().display();
        println!("{name}: {}", counts(&read(path)?));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints in which tests the list `fresh` differs from the kept one with the same file name; fails if there are any.
pub(crate) fn compare(root: &Path, fresh: &Path) -> Result<ExitCode> {
    let name = fresh.file_name().context("the file has no name")?;
    let kept = root.join(DIRECTORY).join(name);
    ensure!(
        kept.is_file(),
        "no list is kept under this name ({}): `cargo xtask suites list` shows those that are",
        kept.display()
    );
    let (before, after) = (read(&kept)?, read(fresh)?);
    let changes = changes(&before, &after);
    for change in &changes {
        println!("{change}");
    }
    println!("kept:  {}", counts(&before));
    println!("fresh: {}", counts(&after));
    if changes.is_empty() {
        println!("no test has changed");
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "{} tests have changed; what is meant to stay goes into {}",
        changes.len(),
        kept.display()
    );
    Ok(ExitCode::FAILURE)
}

fn is_list(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "txt")
}

fn read(path: &Path) -> Result<Verdicts> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    parse(&text).with_context(|| path.display().to_string())
}

/// Reads a list: on each line a verdict and the name of a test. Lines that begin with `#` are for people.
fn parse(text: &str) -> Result<Verdicts> {
    let mut verdicts = Verdicts::new();
    let lines = text.lines().enumerate();
    for (at, line) in lines.filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty()) {
        let number = at + 1;
        let (word, name) = line.split_once(' ').unwrap_or((line, ""));
        let known = Verdict::ALL.into_iter().find(|known| known.word() == word);
        let Some(verdict) = known.filter(|_| !name.trim().is_empty()) else {
            bail!("line {number} is not `pass NAME`, `fail NAME` or `skip NAME`: {line:?}");
        };
        let name = name.trim().to_owned();
        if verdicts.insert(name, verdict).is_some() {
            bail!("line {number} names a test for the second time: {line:?}");
        }
    }
    ensure!(!verdicts.is_empty(), "no verdict in it");
    Ok(verdicts)
}

/// One line for each test whose verdict is another, that is new, or that has gone.
fn changes(before: &Verdicts, after: &Verdicts) -> Vec<String> {
    let mut changes = Vec::new();
    for (name, old) in before {
        match after.get(name) {
            Some(new) if new == old => {}
            Some(new) => changes.push(format!("{name}: {old} before, {new} now")),
            None => changes.push(format!("{name}: {old} before, not run now")),
        }
    }
    let new = after.iter().filter(|(name, _)| !before.contains_key(*name));
    changes.extend(new.map(|(name, verdict)| format!("{name}: not kept, {verdict} now")));
    changes
}

fn counts(verdicts: &Verdicts) -> String {
    let count = |wanted: Verdict| verdicts.values().filter(|found| **found == wanted).count();
    let [passed, failed, skipped] = Verdict::ALL.map(count);
    format!(
        "{} tests: {passed} passed, {failed} failed, {skipped} skipped",
        verdicts.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_in_either_direction_is_seen() {
        let before = parse("# a suite\npass a\nfail b\npass c d\nskip e\npass f\n").unwrap();
        let after = parse("pass f\nfail a\npass b\npass c d\npass g\nskip e\n").unwrap();
        let expected = [
            "a: pass before, fail now",
            "b: fail before, pass now",
            "g: not kept, pass now",
        ];
        assert_eq!(changes(&before, &after), expected);
        let gone = parse("fail a\n").unwrap();
        assert!(changes(&after, &gone).contains(&"c d: pass before, not run now".to_owned()));
        assert!(changes(&after, &after.clone()).is_empty());
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in [
            "",
            "# only a comment\n",
            "pass\n",
            "passed a\n",
            "pass a\nfail a\n",
            "a pass\n",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_kept_lists_are_lists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut lists = 0;
        for entry in fs::read_dir(root.join(DIRECTORY)).unwrap() {
            let path = entry.unwrap().path();
            if is_list(&path) {
                read(&path).unwrap();
                lists += 1;
            }
        }
        assert!(lists > 0);
    }
}
