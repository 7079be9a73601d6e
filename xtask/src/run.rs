//! Running other programs: what is run is printed, what they print goes through.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Lines of a failed build, or of tests that print little, that are told again.
const LAST_LINES: usize = 30;

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

/// Runs a build, or tests that print little, with its outputs passed on. Of one that fails, the last lines: they are told again at the end of a run,
/// because of a long log only the end may be kept.
pub(crate) fn build(name: &str, command: &mut Command) -> Result<Result<(), Vec<String>>> {
    let mut last = VecDeque::new();
    let built = merged(name, command, |line| {
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        last.push_back(line.clone());
        Some(line)
    })?;
    if built {
        return Ok(Ok(()));
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

/// Runs `command` with each line of its standard output shown to `see`, and what that makes of it passed on; whether
/// it succeeded.
pub(crate) fn lines(
    name: &str,
    command: &mut Command,
    see: impl FnMut(String) -> Option<String>,
) -> Result<bool> {
    eprintln!("==> {name}");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let program = command.get_program().display().to_string();
    let mut child = command
        .spawn()
        .with_context(|| format!("{name}: cannot start {program}"))?;
    let output = child.stdout.take().context("no standard output")?;
    passed_on(name, child, output, see)
}

/// Runs `command` with each line of its two outputs shown to `see`, and what that makes of it passed on; whether it
/// succeeded.
pub(crate) fn merged(
    name: &str,
    command: &mut Command,
    see: impl FnMut(String) -> Option<String>,
) -> Result<bool> {
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
    passed_on(name, child?, reader, see)
}

/// Passes on what `see` makes of each line, until there is no more; whether `child` succeeded.
fn passed_on(
    name: &str,
    mut child: Child,
    output: impl Read,
    mut see: impl FnMut(String) -> Option<String>,
) -> Result<bool> {
    // What we pass on goes to standard error: our standard output carries the closing line only.
    for line in BufReader::new(output).split(b'\n') {
        let line = line.with_context(|| format!("{name}: reading its output"))?;
        if let Some(line) = see(String::from_utf8_lossy(&line).into_owned()) {
            eprintln!("{line}");
        }
    }
    let status = child
        .wait()
        .with_context(|| format!("{name}: waiting for it"))?;
    if !status.success() {
        eprintln!("==> {name}: {status}");
    }
    Ok(status.success())
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
}
