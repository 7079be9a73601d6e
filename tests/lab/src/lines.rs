//! A file that another process writes line by line, and that is heard as it grows: how a guest, which
//! has no pipe to its host, says what happens in it.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use rustix::fs::inotify;

use crate::Running;

/// Room for the kernel's notices that the file has grown; what does not fit is fetched by the next look.
const NOTICE_BYTES: usize = 1024;

/// The lines of a file, each handed out once.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    grown: OwnedFd,
    taken: usize,
}

/// What [`Lines::hear`] comes back with.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// The next line of the file, without its end.
    Line(String),
    /// The writing process has ended, and all its lines have been taken.
    Ended,
    /// The deadline has passed and no whole line has come.
    Late,
}

impl Lines {
    /// Makes the empty file `path`, which lines are to be appended to.
    ///
    /// # Errors
    /// When it cannot be made or watched.
    pub fn new(path: &Path) -> Result<Self> {
        fs::write(path, "").with_context(|| path.display().to_string())?;
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let grown = inotify::init(flags).context("inotify")?;
        inotify::add_watch(&grown, path, inotify::WatchFlags::MODIFY).context("watch a file")?;
        Ok(Self {
            path: path.to_owned(),
            grown,
            taken: 0,
        })
    }

    /// Waits for the next line that is there with its end; `writer` is the process that writes.
    ///
    /// # Errors
    /// When the file or the process cannot be looked at.
    pub fn hear(&mut self, writer: &mut Running, deadline: Instant) -> Result<Heard> {
        loop {
            // Before the file: whoever had ended by then has written everything.
            let has_ended = writer.exited()?.is_some();
            if let Some(line) = self.text()?.lines().nth(self.taken) {
                self.taken += 1;
                return Ok(Heard::Line(line.to_owned()));
            }
            if has_ended {
                return Ok(Heard::Ended);
            }
            if Instant::now() > deadline {
                return Ok(Heard::Late);
            }
            writer.wait_for_end_or(Some(self.grown.as_fd()), deadline)?;
            self.forget_notices();
        }
    }

    /// Everything that has been written in whole lines, also what was taken.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn text(&self) -> Result<String> {
        let bytes = fs::read(&self.path).with_context(|| self.path.display().to_string())?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        let whole = whole.map_or(0, |last| last + 1);
        Ok(String::from_utf8_lossy(bytes.get(..whole).unwrap_or_default()).into_owned())
    }

    fn forget_notices(&self) {
        let mut room = [MaybeUninit::uninit(); NOTICE_BYTES];
        let mut notices = inotify::Reader::new(&self.grown, &mut room);
        // Ends when none is left, which the kernel tells as an error.
        while notices.next().is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    /// What `script`, which has the file as `$0`, is heard saying within `within`.
    fn heard(script: &str, within: Duration) -> Result<Vec<Heard>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("lines");
        let mut lines = Lines::new(&path)?;
        let mut writer = Running::start(Command::new("sh").args(["-c", script]).arg(&path))?;
        let deadline = Instant::now() + within;
        let mut all = Vec::new();
        loop {
            let next = lines.hear(&mut writer, deadline)?;
            let is_last = !matches!(next, Heard::Line(_));
            all.push(next);
            if is_last {
                return Ok(all);
            }
        }
    }

    fn line(text: &str) -> Heard {
        Heard::Line(text.to_owned())
    }

    #[test]
    fn each_whole_line_is_heard_once_and_then_the_end() -> Result<()> {
        let script =
            "echo one >>$0; printf 'tw' >>$0; sleep 0.05; printf 'o\n' >>$0; printf part >>$0";
        let all = heard(script, Duration::from_secs(60))?;
        assert_eq!(all, [line("one"), line("two"), Heard::Ended]);
        Ok(())
    }

    #[test]
    fn a_silent_writer_is_late() -> Result<()> {
        let all = heard("echo one >>$0; exec sleep 60", Duration::from_secs(2))?;
        assert_eq!(all, [line("one"), Heard::Late]);
        Ok(())
    }
}
