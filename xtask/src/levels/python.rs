//! The level of the Python package: its wheel built, installed and tested, in an environment of its own.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Tally;
use crate::python::Environment;
use crate::run::{self, Outcome, Patience};

/// How long the tests may take: half a minute on two idle cores. A hang must not look like slowness.
const PATIENCE: Patience = Patience::seconds(400);

/// What tells the tests that they have a network, a `/run` and processes of their own, which NFS-Ganesha needs.
const ALONE: &str = "PENSTOCK_TESTS_ALONE";

/// Runs the tests whose name contains `filter`, on this server.
pub(super) fn run(root: &Path, server: &Path, filter: Option<&str>) -> Result<Tally> {
    let mut arguments = Vec::new();
    if let Some(filter) = filter {
        if !names_a_test(root, filter)? {
            return Ok(Tally::default());
        }
        arguments.extend(["-k".to_owned(), filter.to_owned()]);
    }
    run_tests(root, server, &arguments)
}

/// Builds the wheel and runs its tests with these arguments for pytest. Where there is no Python, or what the tests run
/// on cannot be had, that is one skip.
pub(crate) fn run_tests(root: &Path, server: &Path, arguments: &[String]) -> Result<Tally> {
    let skip = |error: anyhow::Error| {
        let said = format!("SKIP: python: {error:#}");
        eprintln!("{said}");
        let mut tally = Tally::skip();
        tally.say(&said);
        tally
    };
    let environment = match Environment::make(root) {
        Ok(environment) => environment,
        Err(error) => return Ok(skip(error)),
    };
    if let Err(error) = environment.install(false) {
        return Ok(skip(error));
    }
    // The one waits for the network, the other for the processor.
    let (installed, wheel) = std::thread::scope(|scope| {
        let install = scope.spawn(|| environment.install(true));
        let wheel = environment.wheel("dev", &root.join("target/python/wheels"));
        (install.join(), wheel)
    });
    let installed = installed.map_err(|_| anyhow::anyhow!("installing panicked"))?;
    let wheel = match wheel? {
        Ok(wheel) => wheel,
        Err(last) => {
            return Ok(Tally::build_failure(
                "python: the wheel does not build",
                &last,
            ));
        }
    };
    if let Err(error) = installed {
        return Ok(skip(error));
    }
    environment.install_wheel(&wheel)?;
    run_pytest(root, &environment, server, arguments)
}

fn run_pytest(
    root: &Path,
    environment: &Environment,
    server: &Path,
    arguments: &[String],
) -> Result<Tally> {
    let python = environment.program("python");
    let mut command = if run::is_root() {
        let mut alone = Command::new("unshare");
        alone.args(["--net", "--mount", "--pid", "--mount-proc"]);
        alone.args(["--fork", "--kill-child", "sh", "-c"]);
        alone.arg("ip link set lo up && mount -t tmpfs tmpfs /run && exec \"$0\" \"$@\"");
        alone.arg(python).env(ALONE, "1");
        alone
    } else {
        Command::new(python)
    };
    command.args(["-m", "pytest", "-q"]).args(arguments);
    command
        .current_dir(root.join("python"))
        .env("PENSTOCK_SERVER", server)
        // The package under test is the one that was installed.
        .env("PYTHONSAFEPATH", "1");
    let mut reader = Reader::default();
    let outcome = run::lines("pytest", &mut command, PATIENCE, |line| {
        reader.read(&line);
        Some(line)
    })?;
    let has_ended = reader.closing.is_some();
    let mut tally = reader.closing.unwrap_or_default();
    let counted = has_ended && (outcome == Outcome::Succeeded || tally.failed > 0);
    tally.merge(reader.said);
    match outcome {
        Outcome::Late(hang) => tally.merge(Tally::hang("python: pytest", &hang)),
        Outcome::Succeeded | Outcome::Failed if !counted => {
            tally.merge(Tally::failure("python: pytest died"));
        }
        Outcome::Succeeded | Outcome::Failed => {}
    }
    Ok(tally)
}

/// Whether the name of a test contains `filter`, so that others do not wait for a wheel that nobody tests.
fn names_a_test(root: &Path, filter: &str) -> Result<bool> {
    let directory = root.join("python/tests");
    let entries = std::fs::read_dir(&directory);
    for entry in entries.with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "py") {
            let text = std::fs::read_to_string(&path);
            let text = text.with_context(|| path.display().to_string())?;
            if tests_of(&text).any(|name| name.contains(filter)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The names of the tests in a Python file.
fn tests_of(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let name = line.strip_prefix("def ")?.split('(').next()?;
        name.starts_with("test_").then_some(name)
    })
}

/// Reads what the tests print at their end.
#[derive(Default)]
struct Reader {
    closing: Option<Tally>,
    said: Tally,
}

impl Reader {
    fn read(&mut self, line: &str) {
        if let Some(closing) = Tally::parse(line) {
            self.closing = Some(closing);
        } else if line.starts_with("SKIP: ") || line.starts_with("FAIL ") {
            self.said.say(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_what_pytest_says_is_read() {
        let mut reader = Reader::default();
        let output = "..s.F  [100%]\nSKIP: tests/a.py::test_b: no server\nFAIL tests/a.py::test_c[3]\n\
                      3 passed, 1 failed, 1 skipped\n1 failed, 3 passed, 1 skipped in 2.00s";
        output.lines().for_each(|line| reader.read(line));
        let mut said = Tally::default();
        said.say("SKIP: tests/a.py::test_b: no server");
        said.say("FAIL tests/a.py::test_c[3]");
        assert_eq!(reader.said, said);
        assert_eq!(reader.closing.unwrap().failed, 1);
    }

    #[test]
    fn tests_are_known_by_their_names() {
        let text = "def test_a(fs):\n    def test_inner():\ndef helper():\nclass TestB:\n";
        assert_eq!(tests_of(text).collect::<Vec<_>>(), ["test_a"]);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert!(names_a_test(&root, "forked_child").unwrap());
        assert!(!names_a_test(&root, "kill:uring").unwrap());
    }
}
