//! Running other programs: what is run is printed, what they print goes through.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

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

/// Runs `command` with each line of its standard output shown to `see`, and what that makes of it passed on; whether
/// it succeeded.
pub(crate) fn lines(
    name: &str,
    command: &mut Command,
    mut see: impl FnMut(String) -> Option<String>,
) -> Result<bool> {
    eprintln!("==> {name}");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let program = command.get_program().display().to_string();
    let mut child = command
        .spawn()
        .with_context(|| format!("{name}: cannot start {program}"))?;
    let output = child.stdout.take().context("no standard output")?;
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

/// Runs `command` with those lines of its two outputs that `keep` wants passed on behind `name`; whether it
/// succeeded.
pub(crate) fn prefixed(name: &str, command: &mut Command, keep: fn(&str) -> bool) -> Result<bool> {
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
    let mut child = child?;
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.with_context(|| format!("{name}: reading its output"))?;
        let line = String::from_utf8_lossy(&line);
        if keep(&line) {
            eprintln!("{name}: {line}");
        }
    }
    let status = child
        .wait()
        .with_context(|| format!("{name}: waiting for it"))?;
    eprintln!("==> {name}: {status}");
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
