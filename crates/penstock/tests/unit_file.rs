//! The example unit of systemd, in the judgement of the systemd that is installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The highest exposure that `systemd-analyze security` may find, in tenths.
const EXPOSURE_TENTHS_MAX: &str = "25";

/// `systemd-analyze` with these arguments, over a copy of the unit that starts the tested binary.
fn analyze(arguments: &[&str]) -> Option<(Output, tempfile::TempDir)> {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/penstock.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let unit = unit.replace("/usr/bin/penstock", env!("CARGO_BIN_EXE_penstock"));
    let scratch = tempfile::tempdir().unwrap();
    let copy: PathBuf = scratch.path().join("penstock.service");
    std::fs::write(&copy, unit).unwrap();
    let mut command = Command::new("systemd-analyze");
    match command.args(arguments).arg(&copy).output() {
        Ok(output) => Some((output, scratch)),
        Err(error) => {
            nfs_lab::skipped(&format!("systemd-analyze (package systemd): {error}"));
            None
        }
    }
}

fn told(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn systemd_understands_every_line_of_the_unit() {
    let Some((output, _scratch)) = analyze(&["verify", "--man=no"]) else {
        return;
    };
    // What it does not know it passes over, with a word on standard error.
    let ours: Vec<String> = told(&output)
        .lines()
        .filter(|line| line.contains("penstock"))
        .map(str::to_owned)
        .collect();
    assert!(output.status.success() && ours.is_empty(), "{ours:?}");
}

#[test]
fn the_unit_is_exposed_to_little() {
    let arguments = [
        "security",
        "--offline=yes",
        "--no-pager",
        "--threshold",
        EXPOSURE_TENTHS_MAX,
    ];
    let Some((output, _scratch)) = analyze(&arguments) else {
        return;
    };
    let told = told(&output);
    assert!(told.contains("Overall exposure level"), "{told}");
    assert!(output.status.success(), "{told}");
}

/// systemd 252 counts them to no set of calls, so that the server could not confine itself further.
#[test]
fn the_unit_lets_the_server_confine_itself() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/penstock.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let filters = unit
        .lines()
        .filter_map(|line| line.strip_prefix("SystemCallFilter="));
    let allowed: Vec<&str> = filters
        .filter(|filter| !filter.starts_with('~'))
        .flat_map(str::split_whitespace)
        .collect();
    for call in [
        "seccomp",
        "landlock_create_ruleset",
        "landlock_add_rule",
        "landlock_restrict_self",
    ] {
        assert!(allowed.contains(&call), "{call} is refused");
    }
}
