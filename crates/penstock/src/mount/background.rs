//! `--background`: the same command once more, on its own.
//!
//! A process with threads cannot be forked safely, so the command starts itself again, without a
//! terminal, and waits until that says that the export is mounted.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;

/// Set for the process in the background.
const MARK: &str = "PENSTOCK_MOUNT_IN_BACKGROUND";

/// Whether this is the process in the background.
pub(super) fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts the process in the background and waits until it has mounted, or failed.
/// With `tells`, what that says is said again.
pub(super) fn start(tells: bool) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(MARK, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the process in the background")?;
    let mut ready = String::new();
    if let Some(stdout) = child.stdout.take() {
        let mut stdout = BufReader::new(stdout);
        stdout
            .read_line(&mut ready)
            .context("cannot hear from it")?;
    }
    if ready.is_empty() {
        // It has said why on standard error.
        let status = child.wait().context("cannot wait for it")?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
    }
    if tells {
        std::io::stdout().write_all(ready.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Leaves the terminal's session, so that it can be closed.
pub(super) fn leave_terminal() {
    // Fails for the leader of a group, who has no terminal to lose.
    let _ = rustix::process::setsid();
}

/// Gives up the terminal: from now on nobody reads standard output, and standard error goes to `log`, if
/// there is one.
pub(super) fn detach(log: Option<&Path>) -> anyhow::Result<()> {
    let null = OpenOptions::new()
        .write(true)
        .open("/dev/null")
        .context("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    match log {
        None => rustix::stdio::dup2_stderr(&null)?,
        Some(path) => {
            let log = OpenOptions::new().create(true).append(true).open(path);
            let log = log.with_context(|| path.display().to_string())?;
            rustix::stdio::dup2_stderr(&log)?;
        }
    }
    Ok(())
}
