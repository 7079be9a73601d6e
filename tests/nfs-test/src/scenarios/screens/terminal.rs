//! A terminal that a test types into and reads: tmux, with a server of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use nfs_lab::output;

/// One window of a tmux of its own; the tmux ends with this value.
pub(super) struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Opens a window of 80 columns and 24 lines in which `script` runs.
    pub(super) fn open(socket: &Path, script: &str) -> Result<Self> {
        let terminal = Self {
            socket: socket.to_owned(),
        };
        let mut command = terminal.tmux();
        command.args([
            "-u",
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
        ]);
        command.args(["sh", "-c", script]);
        command
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8");
        output(&mut command).context("tmux")?;
        Ok(terminal)
    }

    /// Types keys, by tmux's names.
    pub(super) fn keys(&self, keys: &[&str]) -> Result<()> {
        output(self.tmux().arg("send-keys").args(keys)).map(drop)
    }

    /// Makes the window that large.
    pub(super) fn resize(&self, (columns, lines): (u16, u16)) -> Result<()> {
        let mut command = self.tmux();
        command.args([
            "resize-window",
            "-x",
            &columns.to_string(),
            "-y",
            &lines.to_string(),
        ]);
        output(&mut command).map(drop)
    }

    /// The text on the window, line by line.
    pub(super) fn text(&self) -> Result<String> {
        let text = output(self.tmux().args(["capture-pane", "-p"]))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// What tmux knows of the window under this name.
    pub(super) fn variable(&self, name: &str) -> Result<String> {
        let format = format!("#{{{name}}}");
        let text = output(self.tmux().args(["display-message", "-p", &format]))?;
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    }

    fn tmux(&self) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket);
        // The tests may run in a tmux themselves.
        command.env_remove("TMUX");
        command
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ended_before = output(self.tmux().arg("kill-server"));
    }
}
