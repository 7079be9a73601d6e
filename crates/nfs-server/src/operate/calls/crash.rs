//! The flight recorder's last words: what the last calls were, in a file, when the process dies.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::record::{Answered, CallRecord, running_here};
use super::ring::{Recorder, shard_here};
use super::tree::Teller;
use crate::limits;

/// How the names of the files begin.
const PREFIX: &str = "crash-";

/// What the thread that panics knows.
#[derive(Default)]
struct Known {
    panic: Option<String>,
    call: Option<(usize, CallRecord)>,
}

impl Recorder {
    /// Has a file written into `directory` when this process panics, or is ended by a signal that says that something
    /// went wrong. Once for each process; of the files of earlier ones a few are kept.
    ///
    /// # Errors
    /// No descriptors or no thread to be had.
    pub(crate) fn write_at_crash(self: &Arc<Self>, directory: &Path) -> io::Result<()> {
        let known = Arc::new(Mutex::new(Known::default()));
        let (recorder, directory) = (Arc::clone(self), directory.to_owned());
        let of_panic = Arc::clone(&known);
        nfs_io::crash::at_crash(move |signal| {
            let known = known
                .try_lock()
                .map(|mut known| std::mem::take(&mut *known));
            let written = recorder.write_last_words(&directory, signal, known.unwrap_or_default());
            match written {
                Ok(path) => tracing::error!("what the last calls were is in {}", path.display()),
                Err(error) => tracing::error!(%error, "what the last calls were is not written"),
            }
        })?;
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            if let Some(mut known) = of_panic.try_lock_for(Duration::from_millis(100)) {
                known.panic = Some(panic.to_string());
                known.call = shard_here().zip(running_here());
            }
            nfs_io::crash::tell();
        }));
        Ok(())
    }

    fn write_last_words(&self, directory: &Path, signal: i32, known: Known) -> io::Result<PathBuf> {
        make_room(directory)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seconds = now.unwrap_or_default().as_secs();
        let name = format!("{PREFIX}{seconds}-{}.txt", std::process::id());
        let path = directory.join(name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        self.write_calls(file, signal, known)?;
        Ok(path)
    }

    fn write_calls(&self, file: File, signal: i32, known: Known) -> io::Result<()> {
        let mut out = BufWriter::new(file);
        let version = env!("CARGO_PKG_VERSION");
        writeln!(out, "penstock {version}, process {}", std::process::id())?;
        match known.panic {
            Some(panic) => writeln!(out, "{panic}")?,
            None => writeln!(out, "ended by signal {signal}")?,
        }
        let teller = Teller::new(self.exports.clone(), self.started);
        if let Some((shard, call)) = &known.call {
            writeln!(
                out,
                "\nThe call that failed:\n\n{}",
                teller.tree(*shard, call)
            )?;
        }
        let mut calls = Vec::new();
        if !self.all_at_death(&mut calls) {
            writeln!(
                out,
                "\nThe calls of a shard are missing: it was at its book."
            )?;
        }
        calls.sort_by_key(|(_, call)| std::cmp::Reverse(call.times.received));
        let runs = |call: &CallRecord| call.answer == Answered::Running;
        let (running, over): (Vec<_>, Vec<_>) = calls.iter().partition(|(_, call)| runs(call));
        for (title, calls) in [("under way", running), ("over, the latest first", over)] {
            writeln!(out, "\n{} calls {title}:\n", calls.len())?;
            for (shard, call) in calls {
                writeln!(out, "{}", teller.tree(*shard, call))?;
            }
        }
        out.flush()?;
        out.get_ref().sync_all()
    }
}

/// Removes the oldest files of earlier crashes, so that there are no more than are kept, with one that is to come.
fn make_room(directory: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            files.push(name);
        }
    }
    // Of the same length, they are in the order of their times.
    files.sort_unstable();
    let too_many = (files.len() + 1).saturating_sub(limits::CRASH_FILES_MAX);
    for name in files.iter().take(too_many) {
        std::fs::remove_file(directory.join(name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::trace::ExportNames;

    #[test]
    fn so_many_files_are_kept_and_the_oldest_go() {
        let directory = tempfile::tempdir().unwrap();
        for seconds in 1_000_000_001..=1_000_000_020 {
            let name = format!("{PREFIX}{seconds}-1.txt");
            std::fs::write(directory.path().join(name), b"").unwrap();
        }
        let recorder = Recorder::new(ExportNames::default());
        let known = Known {
            panic: Some("it broke".to_owned()),
            call: None,
        };
        let path = recorder.write_last_words(directory.path(), 0, known);
        let text = std::fs::read_to_string(path.unwrap()).unwrap();
        assert!(
            text.contains("it broke") && text.contains("0 calls under way"),
            "{text}"
        );
        let names = std::fs::read_dir(directory.path()).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort_unstable();
        assert_eq!(names.len(), limits::CRASH_FILES_MAX);
        assert_eq!(names[0], "crash-1000000014-1.txt");
    }
}
