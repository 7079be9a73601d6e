//! Running other programs: what is run is printed, what they print goes through, and what hangs is ended.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use nfs_deadline::{Ended, watch};
pub(crate) use nfs_deadline::{Hang, Patience};

/// Lines of a failed build, or of tests that print little, that are told again.
const LAST_LINES: usize = 30;

/// What became of a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Succeeded,
    Failed,
    /// It did not end in time, and was ended.
    Late(Hang),
}

/// Runs `command` with its output going to ours; whether it succeeded.
pub(crate) fn streams(name: &str, command: &mut Command) -> Result<bool> {
    eprintln!("==> {name}");
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("{name}: cannot start {}", command.get_program().display()))?;
    if !status.success() {
        eprintln!("==> {name}: {status}");
    }
    Ok(status.success())
}

/// Runs a build with its outputs passed on. Of one that fails, the last lines: they are told again at the end of a run,
/// because of a long log only the end may be kept.
pub(crate) fn build(name: &str, command: &mut Command) -> Result<Result<(), Vec<String>>> {
    build_within(name, command, Patience::ENDLESS)
}

/// Runs what ends in time or has failed, and else as [`build`] does: a build, or tests that print little.
pub(crate) fn build_within(
    name: &str,
    command: &mut Command,
    patience: Patience,
) -> Result<Result<(), Vec<String>>> {
    let mut last = VecDeque::new();
    let built = merged(name, command, patience, |line| {
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        last.push_back(line.clone());
        Some(line)
    })?;
    match built {
        Outcome::Succeeded => return Ok(Ok(())),
        Outcome::Failed => {}
        Outcome::Late(hang) => {
            last.push_back(hang.why);
            last.extend(hang.processes);
        }
    }
    // A build that cannot write does not always say so.
    let disk = Command::new("df")
        .arg("-h")
        .arg(command.get_current_dir().unwrap_or(Path::new(".")))
        .output();
    if let Ok(disk) = disk {
        let said = String::from_utf8_lossy(&disk.stdout).into_owned();
        last.extend(said.lines().map(str::to_owned));
    }
    Ok(Err(last.into()))
}

/// Runs `command` with each line of its standard output shown to `see`, and what that makes of it passed on.
pub(crate) fn lines(
    name: &str,
    command: &mut Command,
    patience: Patience,
    see: impl FnMut(String) -> Option<String>,
) -> Result<Outcome> {
    eprintln!("==> {name}");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let program = command.get_program().display().to_string();
    let mut child = command
        .spawn()
        .with_context(|| format!("{name}: cannot start {program}"))?;
    let output = child.stdout.take().context("no standard output")?;
    passed_on(name, child, output.into(), patience, see)
}

/// Runs `command` with each line of its two outputs shown to `see`, and what that makes of it passed on.
pub(crate) fn merged(
    name: &str,
    command: &mut Command,
    patience: Patience,
    see: impl FnMut(String) -> Option<String>,
) -> Result<Outcome> {
    eprintln!("==> {name}");
    let (reader, writer) = std::io::pipe().context("pipe")?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("pipe")?)
        .stderr(writer);
    let program = command.get_program().display().to_string();
    let child = command
        .spawn()
        .with_context(|| format!("{name}: cannot start {program}"));
    // The command holds the pipe's writing ends; reading ends when the child alone held them.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    passed_on(name, child?, reader.into(), patience, see)
}

/// Passes on what `see` makes of each line, until there is no more or it takes too long.
fn passed_on(
    name: &str,
    child: Child,
    output: OwnedFd,
    patience: Patience,
    mut see: impl FnMut(String) -> Option<String>,
) -> Result<Outcome> {
    let ended = watch(child, Some(output), patience, |line| {
        // What we pass on goes to standard error: our standard output carries the closing line only.
        if let Some(line) = see(line) {
            eprintln!("{line}");
        }
    });
    match ended.with_context(|| format!("{name}: waiting for it"))? {
        Ended::ByItself(status) if status.success() => Ok(Outcome::Succeeded),
        Ended::ByItself(status) => {
            eprintln!("==> {name}: {status}");
            Ok(Outcome::Failed)
        }
        Ended::Late(hang) => {
            eprintln!("==> {name}: {}", hang.why);
            for line in &hang.processes {
                eprintln!("    {line}");
            }
            Ok(Outcome::Late(hang))
        }
    }
}

/// The cargo that runs us, so that a toolchain chosen with `+` stays chosen.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Whether `program` is on the search path.
pub(crate) fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/sbin", "/sbin"].map(Into::into);
    std::env::split_paths(&path)
        .chain(sbin)
        .any(|dir: std::path::PathBuf| dir.join(program).is_file())
}

/// Whether this process is root, which set-up, loop mounts and namespaces need.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(Path::new("/proc/self")).is_ok_and(|m| m.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_build_is_told_by_its_last_lines_and_the_disk() {
        let mut command = Command::new("sh");
        command.args(["-c", "seq 100 >&2; echo no space; exit 3"]);
        let said = build("a build", &mut command).unwrap().unwrap_err();
        let place = said.iter().position(|line| line == "no space").unwrap();
        assert_eq!(place + 1, LAST_LINES, "{said:?}");
        assert!(said[0] != "1" && said[place - 1] == "100", "{said:?}");
        assert!(said.len() > LAST_LINES, "the disk is told: {said:?}");
        let mut command = Command::new("true");
        assert_eq!(build("another", &mut command).unwrap(), Ok(()));
    }

    #[test]
    fn what_hangs_is_told_with_what_it_printed() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo begins; exec sleep 1000"]);
        let said = build_within("a build", &mut command, Patience::seconds(2));
        let said = said.unwrap().unwrap_err();
        assert_eq!(said[..2], ["begins", "it has run for 2 s, and was ended"]);
        assert!(said[2].contains(", sleep: "), "{said:?}");
    }

    #[test]
    fn of_two_outputs_or_one_each_line_is_seen_as_it_is() {
        let mut seen = Vec::new();
        let mut see = |line: String| {
            seen.push(line);
            None
        };
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; echo '  end '"]);
        let (patience, name) = (Patience::seconds(600), "a command");
        let outcome = merged(name, &mut command, patience, &mut see).unwrap();
        assert_eq!(outcome, Outcome::Succeeded);
        let mut command = Command::new("sh");
        command.args(["-c", "printf 'a\\n\\nb'; exit 1"]);
        let outcome = lines(name, &mut command, patience, &mut see).unwrap();
        assert_eq!(outcome, Outcome::Failed);
        assert_eq!(seen, ["out", "err", "  end ", "a", "", "b"]);
    }
}
