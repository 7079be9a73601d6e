//! The log of the audit: a file of JSON lines in the state directory, or the journal.
//!
//! One thread writes it. What cannot be written (a full disk, no journal) is counted, said once until
//! something can be written again, at most once in a while, and never waited for by a call.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::{AuditLine, Counts, Record};
use crate::exports::config::AuditTo;
use crate::limits;

/// The log, before and after its thread has begun.
pub(super) struct Log {
    place: PathBuf,
    to: AuditTo,
    counts: Arc<Counts>,
    /// Says that the thread has ended, by being closed.
    ended: Option<Receiver<()>>,
}

impl Log {
    pub(super) fn new(state_dir: &Path, to: AuditTo, counts: Arc<Counts>) -> Self {
        let place = match to {
            AuditTo::File => state_dir.join("audit.jsonl"),
            AuditTo::Journal => PathBuf::from(JOURNAL),
        };
        Self {
            place,
            to,
            counts,
            ended: None,
        }
    }

    /// Begins to write what comes from `queue`, unless it has begun.
    pub(super) fn begin(&mut self, queue: broadcast::Receiver<Arc<Record>>) {
        if self.ended.is_some() {
            return;
        }
        let (alive, ended) = channel();
        let sink = match self.to {
            AuditTo::File => Sink::File(LogFile::new(
                self.place.clone(),
                limits::AUDIT_FILE_BYTES_MAX,
            )),
            AuditTo::Journal => Sink::Journal(self.place.clone(), None),
        };
        let counts = Arc::clone(&self.counts);
        let thread = std::thread::Builder::new().name("audit".to_owned());
        let spawned = thread.spawn(move || {
            write(queue, sink, &counts);
            drop(alive);
        });
        match spawned {
            Ok(_) => self.ended = Some(ended),
            Err(error) => tracing::error!(%error, "no thread to write the audit's log"),
        }
    }

    /// Waits until all is written, at most for `patience`. The queue has been closed.
    pub(super) fn end(self, patience: Duration) {
        let outcome = self.ended.map(|ended| ended.recv_timeout(patience));
        if outcome == Some(Err(RecvTimeoutError::Timeout)) {
            tracing::warn!("the audit's log is too slow; the end of it is lost");
        }
    }
}

/// Where lines go.
enum Sink {
    File(LogFile),
    Journal(PathBuf, Option<UnixDatagram>),
}

impl Sink {
    /// Writes lines, each with its end. On error none of them counts as written.
    fn write(&mut self, lines: &str) -> io::Result<()> {
        match self {
            Self::File(file) => file.write(lines.as_bytes()),
            Self::Journal(path, socket) => {
                for line in lines.lines() {
                    send(path, socket, line)?;
                }
                Ok(())
            }
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::File(file) => file.path.display().to_string(),
            Self::Journal(path, _) => format!("the journal ({})", path.display()),
        }
    }
}

/// Takes records until the queue is closed and writes them, as many at once as there are.
fn write(mut queue: broadcast::Receiver<Arc<Record>>, mut sink: Sink, counts: &Counts) {
    let mut failure = Failure::default();
    let mut next = queue.blocking_recv();
    loop {
        let (mut lines, mut count) = (String::new(), 0);
        loop {
            let line = match next {
                Ok(record) => AuditLine::of(&record),
                Err(RecvError::Lagged(lost)) => {
                    counts.lost.fetch_add(lost, Ordering::Relaxed);
                    AuditLine::Lost { lost }
                }
                Err(RecvError::Closed) => return,
            };
            // Of plain texts and numbers, which can always be written.
            if let Ok(json) = serde_json::to_string(&line) {
                lines.push_str(&json);
                lines.push('\n');
                count += 1;
            }
            next = match queue.try_recv() {
                _ if lines.len() >= limits::AUDIT_WRITE_BYTES_MAX => break,
                Ok(record) => Ok(record),
                Err(TryRecvError::Lagged(lost)) => Err(RecvError::Lagged(lost)),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            };
        }
        match sink.write(&lines) {
            Ok(()) if failure.ends() => {
                tracing::warn!("the audit is written again to {}", sink.shown());
            }
            Ok(()) => {}
            Err(error) => {
                counts.unwritten.fetch_add(count, Ordering::Relaxed);
                if failure.is_news(Instant::now()) {
                    tracing::error!(
                        %error,
                        "the audit cannot be written to {}: what is lost is counted in \
                         audit_records_unwritten; make room, or mend what is in the way",
                        sink.shown()
                    );
                }
            }
        }
        next = queue.blocking_recv();
    }
}

/// Whether it has been said that the log cannot be written. A disk with room now and then fails often.
#[derive(Default)]
struct Failure {
    is_told: bool,
    told_last: Option<Instant>,
}

impl Failure {
    /// Is a failure at this time to be told of?
    fn is_news(&mut self, now: Instant) -> bool {
        let pause = Duration::from_secs(limits::AUDIT_FAILURE_SECONDS);
        let is_soon = |told: Instant| now.saturating_duration_since(told) < pause;
        if self.is_told || self.told_last.is_some_and(is_soon) {
            return false;
        }
        self.is_told = true;
        self.told_last = Some(now);
        true
    }

    /// Something was written. Is that news?
    const fn ends(&mut self) -> bool {
        std::mem::replace(&mut self.is_told, false)
    }
}

/// A file that grows to a bound and becomes `.1` then, in place of an earlier one.
struct LogFile {
    path: PathBuf,
    bytes_max: u64,
    open: Option<File>,
}

impl LogFile {
    const fn new(path: PathBuf, bytes_max: u64) -> Self {
        Self {
            path,
            bytes_max,
            open: None,
        }
    }

    /// Appends `lines`, all or, where that fails, none.
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let file = self.ready(lines.len() as u64)?;
        let before = file.metadata()?.len();
        let written = (&*file).write_all(lines);
        if written.is_err() {
            // A line that is cut would spoil the next one.
            file.set_len(before)?;
        }
        written
    }

    /// The file with room for `more` bytes; made anew if somebody has removed it.
    fn ready(&mut self, more: u64) -> io::Result<&File> {
        let present = match self.open.take() {
            Some(file) if file.metadata()?.nlink() > 0 => file,
            Some(_) => {
                tracing::warn!("{} was removed: it is begun anew", self.path.display());
                self.begin()?
            }
            None => self.begin()?,
        };
        let len = present.metadata()?.len();
        let file = if len > 0 && len.saturating_add(more) > self.bytes_max {
            let mut old = self.path.clone().into_os_string();
            old.push(".1");
            std::fs::rename(&self.path, old)?;
            self.begin()?
        } else {
            present
        };
        Ok(self.open.insert(file))
    }

    fn begin(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let no_links = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        options
            .create(true)
            .append(true)
            .mode(0o600)
            .custom_flags(no_links);
        options.open(&self.path)
    }
}

/// One entry in the journal's own words: fields, of which none has a line's end in it.
fn send(path: &Path, socket: &mut Option<UnixDatagram>, line: &str) -> io::Result<()> {
    let entry = format!("MESSAGE={line}\nPRIORITY=6\nSYSLOG_IDENTIFIER=penstock-audit\n");
    let present = match socket.take() {
        Some(present) => present,
        None => {
            let fresh = UnixDatagram::unbound()?;
            // The journal may be stopped and not read what waits: its entries are lost then.
            fresh
                .set_write_timeout(Some(Duration::from_secs(limits::AUDIT_JOURNAL_SECONDS_MAX)))?;
            fresh
        }
    };
    // By the path each time: a journal that was started anew has another socket there.
    present.send_to(entry.as_bytes(), path)?;
    *socket = Some(present);
    Ok(())
}

/// Where journald listens; systemd-journald.service(8).
const JOURNAL: &str = "/run/systemd/journal/socket";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_bounded_and_keeps_one_that_went_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let mut file = LogFile::new(path.clone(), 10);
        for line in ["one--\n", "two\n", "three--\n", "four--\n"] {
            file.write(line.as_bytes()).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(read("audit.jsonl"), "four--\n");
        assert_eq!(read("audit.jsonl.1"), "three--\n");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        std::fs::remove_file(&path).unwrap();
        file.write(b"five\n").unwrap();
        assert_eq!(read("audit.jsonl"), "five\n");
    }

    #[test]
    fn a_full_disk_is_an_error_and_cuts_no_line() {
        let mut file = LogFile::new("/dev/full".into(), 1 << 20);
        assert!(file.write(b"line\n").is_err());
    }

    #[test]
    fn a_disk_that_is_full_now_and_then_is_told_of_once_in_a_while() {
        let mut failure = Failure::default();
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert!(!failure.ends());
        assert!(failure.is_news(at(0)));
        assert!(!failure.is_news(at(1)));
        assert!(failure.ends());
        assert!(!failure.is_news(at(2)), "too soon");
        assert!(!failure.ends(), "nothing was said of it");
        assert!(!failure.is_news(at(3)));
        assert!(failure.is_news(at(limits::AUDIT_FAILURE_SECONDS)));
        assert!(failure.ends());
    }

    #[test]
    fn the_journal_gets_an_entry_for_each_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let journal = UnixDatagram::bind(&path).unwrap();
        journal
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut sink = Sink::Journal(path.clone(), None);
        sink.write("{\"a\":1}\n{\"b\":2}\n").unwrap();
        let mut entry = [0; 200];
        for expected in [
            "MESSAGE={\"a\":1}\nPRIORITY=6\n",
            "MESSAGE={\"b\":2}\nPRIORITY=6\n",
        ] {
            let len = journal.recv(&mut entry).unwrap();
            assert!(entry[..len].starts_with(expected.as_bytes()));
        }
        drop(journal);
        assert!(sink.write("{}\n").is_err());
    }
}
