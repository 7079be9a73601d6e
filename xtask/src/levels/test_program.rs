//! One test program with a deadline of its own: cargo starts `cargo xtask test-program PROGRAM...` in its place.
//!
//! Cargo runs test programs one after the other, so that one that hangs would take those behind it with it. What the
//! program prints goes where cargo has it go; nothing here reads it.

use std::ffi::OsString;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context, Result};
use nfs_deadline::{Ended, Hang, Patience, watch};

/// How long a program may run: longer than any does on a slow machine. A hang must not look like slowness.
const PATIENCE: Patience = Patience::seconds(600);

/// How a line begins that tells why a program did not end as it should; what belongs to the line is behind it and
/// two more spaces.
pub(super) const SAYS: &str = "error: test program: ";

/// What has cargo run test programs and documentation's tests by way of this program, as arguments of its own.
pub(super) fn runner() -> [String; 2] {
    // The file at its path may be another one, or none, once cargo has built this program anew.
    let own = format!("/proc/{}/exe", std::process::id());
    let runner = format!("target.'cfg(all())'.runner = ['{own}', 'test-program']");
    ["--config".to_owned(), runner]
}

/// Runs `program` with its arguments until its deadline; says why if it does not end by itself.
pub(crate) fn run(program: &[OsString]) -> Result<ExitCode> {
    run_until(program, PATIENCE).map(|(code, said)| {
        // In one piece: the program may still print.
        eprint!("{said}");
        code
    })
}

/// The exit code, and what is to be said.
fn run_until(program: &[OsString], patience: Patience) -> Result<(ExitCode, String)> {
    let (program, arguments) = program.split_first().context("no program is named")?;
    let child = Command::new(program)
        .args(arguments)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    Ok(match watch(child, None, patience, drop)? {
        Ended::ByItself(status) => by_itself(status),
        Ended::Late(hang) => (ExitCode::FAILURE, late(&hang)),
    })
}

fn by_itself(status: ExitStatus) -> (ExitCode, String) {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    match code {
        Some(code) => (code.into(), String::new()),
        // Cargo sees this process end, and not by a signal.
        None => (ExitCode::FAILURE, format!("{SAYS}it died: {status}\n")),
    }
}

fn late(hang: &Hang) -> String {
    let mut said = format!("{SAYS}{}\n", hang.why);
    for line in &hang.processes {
        said.push_str(&format!("{SAYS}  {line}\n"));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a shell's script that may run for two seconds, or for ten minutes.
    fn said(script: &str, seconds: u64) -> (String, String) {
        let program = ["sh", "-c", script].map(OsString::from);
        let (code, said) = run_until(&program, Patience::seconds(seconds)).unwrap();
        (format!("{code:?}"), said)
    }

    #[test]
    fn the_exit_code_is_the_program_s() {
        for code in [0, 1, 101] {
            let expected = (format!("{:?}", ExitCode::from(code)), String::new());
            assert_eq!(said(&format!("exit {code}"), 600), expected);
        }
    }

    #[test]
    fn a_program_that_dies_or_hangs_is_told() {
        let failure = format!("{:?}", ExitCode::FAILURE);
        let (code, died) = said("kill -ABRT $$", 600);
        assert_eq!(code, failure);
        assert!(died.starts_with(&format!("{SAYS}it died: signal: 6")));
        let (code, late) = said("exec sleep 1000", 2);
        assert_eq!(code, failure);
        let lines: Vec<&str> = late.lines().collect();
        assert_eq!(lines[0], format!("{SAYS}it has run for 2 s, and was ended"));
        let process = lines[1].starts_with(&format!("{SAYS}  process "));
        assert!(process && lines[1].contains(", sleep: "), "{late}");
        assert_eq!(lines.len(), 2, "{late}");
    }
}
