//! What `penstock cp` and `penstock sync` print: results on standard output, errors and the progress line on standard
//! error.

use std::io::{BufRead as _, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nfs_client::transfer::{Done, Event, Figures, Location, TransferError, What};
use nfs_client::{ClientError, NfsUrl};
use serde_json::{Map, Value, json};

use super::run::{Doing, Run};
use crate::message;
use crate::progress::{bytes_text, rate_text};
use crate::results::{self, Failure};
use crate::session::told;
use crate::show;
use crate::statistics;

/// Prints the events of a copy as they come.
pub(super) struct Reporter {
    json: bool,
    verbose: bool,
    doing: Doing,
    /// The totals are told at the end.
    tells_totals: bool,
    /// Standard output is gone; nobody is told any more.
    closed: AtomicBool,
    failed: AtomicBool,
    /// Held by whoever asks the user something.
    asking: Mutex<()>,
    /// Files that the stop caught in the middle, for the end.
    stopped: Mutex<Vec<TransferError>>,
}

impl Reporter {
    pub(super) fn new(run: &Run<'_>) -> Self {
        Self {
            json: run.common.json,
            verbose: run.verbose,
            doing: run.doing,
            tells_totals: run.tells_totals,
            closed: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            asking: Mutex::default(),
            stopped: Mutex::default(),
        }
    }

    pub(super) fn event(&self, event: Event<'_>) {
        match event {
            Event::Done(done) => self.done(done),
            Event::Failed(error) => self.failure(error),
        }
    }

    fn done(&self, done: &Done) {
        let is_left = done.what.is_left();
        if self.doing == Doing::Check && !is_left {
            self.failed.store(true, Ordering::Relaxed);
        }
        if self.json {
            self.print(&done_json(done).to_string());
        } else if self.verbose
            || (self.doing != Doing::Really && !(is_left && self.doing == Doing::Check))
        {
            self.print(&match self.doing {
                Doing::Check => checked_text(done),
                Doing::DryRun => done_text(done, true),
                Doing::Really => done_text(done, false),
            });
        }
    }

    fn failure(&self, error: &TransferError) {
        let failure = Failure::of_transfer(error);
        if let TransferError::Stopped { .. } = error {
            if self.json {
                self.print(&failure.object(&error.to_string()).to_string());
            }
            if let Ok(mut stopped) = self.stopped.lock() {
                stopped.push(error.clone());
            }
            return;
        }
        self.failed.store(true, Ordering::Relaxed);
        results::failed(&error.to_string(), failure);
    }

    /// Asks whether `place` may be written over; a no makes the command end with 1, as POSIX has it for cp -i.
    pub(super) fn may_replace(&self, place: &Location) -> bool {
        // One question at a time.
        let Ok(_asking) = self.asking.lock() else {
            return false;
        };
        let mut answer = String::new();
        let asked = write!(std::io::stderr().lock(), "penstock: overwrite {place}? ");
        let read = asked.and_then(|()| std::io::stdin().lock().read_line(&mut answer));
        let yes = read.is_ok() && answer.starts_with(['y', 'Y']);
        if !yes {
            self.failed.store(true, Ordering::Relaxed);
        }
        yes
    }

    /// Tells what could not be looked at before the copy began.
    pub(super) fn failed(&self, url: &NfsUrl, error: ClientError) {
        self.failed.store(true, Ordering::Relaxed);
        let failure = Failure::of(url, &error);
        results::failed(&told(url, error), failure);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Tells that the first Ctrl-C has come and the copy ends what it began.
    pub(super) fn stopping(&self) {
        message::warn("stopping: what is on its way ends; Ctrl-C again to give it up");
    }

    pub(super) fn summary(&self, figures: &Figures, elapsed: Duration, interrupted: bool) {
        if figures.owners_not_kept > 0 {
            message::warn(format_args!(
                "the owner of {} files could not be kept: only root may give files away",
                figures.owners_not_kept
            ));
        }
        if figures.times_not_kept > 0 {
            message::warn(format_args!(
                "the times of {} files are before 1970 or after 2106, which NFSv3 cannot say: the \
                 nearest that it can was taken",
                figures.times_not_kept
            ));
        }
        if figures.local_refused > 0 {
            message::warn(format_args!(
                "{} files of this host went through the page cache: their file system, or this kernel, refuses \
                 what --local asks for",
                figures.local_refused
            ));
        }
        if self.json {
            let summary = summary_json(figures, elapsed, self.doing, interrupted);
            self.print(&json!({ "summary": summary }).to_string());
        } else if self.tells_totals && !interrupted {
            message::info(summary_text(figures, elapsed, self.doing));
        }
    }

    /// What the calls to a server came to.
    pub(super) fn statistics(&self, figures: &statistics::figures::Figures) {
        match self.json {
            true => self.print(&json!({ "statistics": figures }).to_string()),
            false => statistics::say(figures),
        }
    }

    /// What is there after an interrupt, and the command that goes on.
    pub(super) fn how_to_go_on(&self, figures: &Figures, given_up: bool, again: Option<&str>) {
        message::warn(format_args!(
            "interrupted: {} files are done, {} moved",
            figures.files_done,
            bytes_text(figures.bytes_done)
        ));
        let stopped = self.stopped.lock().map(|stopped| stopped.clone());
        for error in stopped.unwrap_or_default() {
            message::warn(error);
        }
        if given_up {
            message::warn("what was on its way is given up: those files are incomplete");
        }
        match again {
            Some(command) => message::info(format_args!("to go on: {command}")),
            None => message::info(
                "to go on: remove the files that are incomplete, and give the same command again",
            ),
        }
    }

    fn print(&self, line: &str) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        let written = message::around(|| writeln!(std::io::stdout().lock(), "{line}"));
        // A reader that stopped early (`| head`) has what it wanted; the copy goes on.
        if written.is_err() {
            self.closed.store(true, Ordering::Relaxed);
        }
    }
}

fn done_text(done: &Done, dry_run: bool) -> String {
    let (source, destination) = (&done.source, &done.destination);
    let would = if dry_run { "would be " } else { "" };
    match done.what {
        What::Exists | What::NotOlder | What::Complete => {
            format!(
                "{source}: left alone, {destination} is {}",
                done.what.word()
            )
        }
        What::Resumed { from } => {
            format!("{source} -> {destination}: {would}resumed at {from}")
        }
        What::Directory => format!("{source} -> {destination}: {would}made"),
        What::Removed => format!("{destination}: {would}removed"),
        What::Attributes => format!("{source} -> {destination}: attributes {would}set"),
        what => format!("{source} -> {destination}: {would}{}", what.word()),
    }
}

/// How the two sides differ in one name.
fn checked_text(done: &Done) -> String {
    let (source, destination) = (&done.source, &done.destination);
    match done.what {
        What::Exists | What::NotOlder | What::Complete => format!("{destination}: as {source}"),
        What::Copied | What::Linked | What::Directory | What::Symlink | What::Special => {
            format!("{destination}: missing, or of another type than {source}")
        }
        What::Replaced | What::Resumed { .. } => format!("{destination}: differs from {source}"),
        What::Attributes => format!("{destination}: mode, times or owner differ from {source}"),
        What::Removed => format!("{destination}: is not at the source"),
    }
}

fn done_json(done: &Done) -> Value {
    let mut object = Map::new();
    for (key, location) in [("source", &done.source), ("destination", &done.destination)] {
        match location {
            Location::Local(path) => {
                use std::os::unix::ffi::OsStrExt as _;
                show::put_json_name(&mut object, key, path.as_os_str().as_bytes());
            }
            Location::Remote(url) => {
                object.insert(key.to_owned(), url.to_string().into());
            }
        }
    }
    object.insert("done".to_owned(), done.what.word().into());
    object.insert("bytes".to_owned(), done.bytes.into());
    if let What::Resumed { from } = done.what {
        object.insert("from".to_owned(), from.into());
    }
    if let Some(checksum) = &done.checksum {
        object.insert("blake3".to_owned(), checksum.as_str().into());
    }
    Value::Object(object)
}

/// The figures of a run as its last line.
fn summary_text(figures: &Figures, elapsed: Duration, doing: Doing) -> String {
    let copied = figures.files_done.saturating_sub(figures.files_left);
    let bytes = figures.bytes_done.saturating_sub(figures.bytes_left);
    let mut text = match doing {
        Doing::Check => format!(
            "{copied} files, {} differ or are missing",
            bytes_text(bytes)
        ),
        Doing::DryRun => format!(
            "dry run: {copied} files, {} would be copied",
            bytes_text(bytes)
        ),
        Doing::Really => format!(
            "{copied} files, {} copied in {:.1} s ({}/s)",
            bytes_text(bytes),
            elapsed.as_secs_f64(),
            rate_text(bytes, elapsed),
        ),
    };
    if figures.files_left > 0 || figures.bytes_left > 0 {
        let left = bytes_text(figures.bytes_left);
        text.push_str(&format!(
            "; {} files, {left} left as they were",
            figures.files_left
        ));
    }
    if figures.removed > 0 {
        text.push_str(&match doing {
            Doing::Really => format!("; {} removed", figures.removed),
            Doing::DryRun => format!("; {} would be removed", figures.removed),
            Doing::Check => format!("; {} are at the destination alone", figures.removed),
        });
    }
    if figures.failed > 0 {
        text.push_str(&format!("; {} failed", figures.failed));
    }
    text
}

fn summary_json(figures: &Figures, elapsed: Duration, doing: Doing, interrupted: bool) -> Value {
    json!({
        "files": figures.files_done.saturating_sub(figures.files_left),
        "bytes": figures.bytes_done.saturating_sub(figures.bytes_left),
        "files_left": figures.files_left,
        "bytes_left": figures.bytes_left,
        "removed": figures.removed,
        "failed": figures.failed,
        "owners_not_kept": figures.owners_not_kept,
        "times_not_kept": figures.times_not_kept,
        "local_refused": figures.local_refused,
        "seconds": elapsed.as_secs_f64(),
        "dry_run": doing != Doing::Really,
        "interrupted": interrupted,
    })
}
