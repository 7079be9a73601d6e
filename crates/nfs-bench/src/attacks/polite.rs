//! A polite client that is watched: one call at a time of each kind, and how long every one of them takes.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use nfs_wire::nfs3::{
    CreateArgs, CreateHow, CreateOk, DirOpArgs, FileHandle, Filename, GetattrArgs, GetattrOk,
    Procedure, ReadArgs, StableHow, WccData, WriteArgs, WriteOk,
};

use super::failures::Failures;
use super::kind::POLITE;
use crate::calls::{ask, connect, mode, mount};
use crate::servers::Place;

/// What the polite client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asked {
    /// The attributes of the exported directory.
    Getattr,
    /// 32 KiB of a file that is in the page cache.
    Read,
    /// 32 KiB, UNSTABLE.
    Write,
    /// MNT over a new connection: how a client comes in that was not there yet.
    Mount,
}

impl Asked {
    /// Everything that is asked for, in the order of the report.
    pub const ALL: [Self; 4] = [Self::Getattr, Self::Read, Self::Write, Self::Mount];

    /// Its name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Getattr => "GETATTR",
            Self::Read => "READ 32 KiB",
            Self::Write => "WRITE 32 KiB",
            Self::Mount => "MNT, new connection",
        }
    }
}

/// What came of one kind of call in some time.
#[derive(Clone, Debug)]
pub struct Heard {
    /// How long the calls took that were answered, in microseconds.
    pub took_us: Histogram<u64>,
    /// Calls that were not answered within [`PATIENCE`], or failed, and why.
    pub failed: Failures,
    /// How long the call has waited that is under way, in microseconds; 0 where there is none.
    pub waiting_us: u64,
}

/// A client at work, until this is dropped.
pub struct Polite {
    lines: Arc<Vec<Line>>,
    ended: Arc<AtomicBool>,
}

/// One kind of call, and what came of it since it was looked at last.
struct Line {
    asked: Asked,
    began: Instant,
    took_us: Mutex<Histogram<u64>>,
    failed: Mutex<Failures>,
    /// When the call under way was sent, in microseconds since `began`; 0 where there is none.
    sent: AtomicU64,
}

/// What all calls are about.
#[derive(Clone)]
struct Files {
    place: Place,
    root: FileHandle,
    file: FileHandle,
}

/// How long an answer may take; after that the connection is given up and made anew.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Between a reply and the next call of the kind.
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes of a READ or WRITE.
const PIECE_BYTES: u32 = 32 << 10;
/// Name of the client's file.
const FILE_NAME: &[u8] = b"polite-file";

impl Polite {
    /// Mounts, makes a file and begins to call.
    ///
    /// # Errors
    /// The server cannot be mounted, or no thread can be made.
    pub fn start(place: &Place) -> Result<Self> {
        let root = mount(Some(POLITE), place.mount, &place.export)?;
        let mut stream = connect(Some(POLITE), place.nfs)?;
        let create = CreateArgs {
            where_: DirOpArgs {
                dir: root,
                name: Filename(FILE_NAME),
            },
            how: CreateHow::Unchecked(mode(0o644)),
        };
        let made = ask::<CreateOk, WccData>(&mut stream, Procedure::Create, &create)?;
        let file = made.obj.context("CREATE gave no handle")?;
        let files = Files {
            place: place.clone(),
            root,
            file,
        };
        files.call(Asked::Write, &mut stream)?;
        let lines = Asked::ALL.map(Line::new).into_iter();
        let lines = Arc::new(lines.collect::<Result<Vec<_>>>()?);
        let ended = Arc::new(AtomicBool::new(false));
        for at in 0..lines.len() {
            let (lines, ended, files) = (Arc::clone(&lines), Arc::clone(&ended), files.clone());
            thread::Builder::new()
                .name(format!("polite-{at}"))
                .spawn(move || lines[at].work(&files, &ended))?;
        }
        Ok(Self { lines, ended })
    }

    /// What came of each of [`Asked::ALL`] since the last time.
    pub fn heard(&self) -> Vec<Heard> {
        self.lines.iter().map(Line::heard).collect()
    }
}

impl Drop for Polite {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl Line {
    fn new(asked: Asked) -> Result<Self> {
        Ok(Self {
            asked,
            began: Instant::now(),
            took_us: Mutex::new(Histogram::new(3)?),
            failed: Mutex::default(),
            sent: AtomicU64::new(0),
        })
    }

    fn work(&self, files: &Files, ended: &AtomicBool) {
        let mut stream = None;
        while !ended.load(Ordering::Relaxed) {
            let start = Instant::now();
            self.sent.store(self.now_us().max(1), Ordering::Relaxed);
            let done = files.call_on(self.asked, &mut stream);
            self.sent.store(0, Ordering::Relaxed);
            match done {
                Ok(()) => {
                    let took = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
                    // It grows with what it is given.
                    let _recorded = locked(&self.took_us).record(took);
                }
                Err(error) => {
                    locked(&self.failed).add(format!("{error:#}"));
                    stream = None;
                }
            }
            // SLEEP: the client's own pace.
            thread::sleep(PAUSE);
        }
    }

    fn heard(&self) -> Heard {
        let mut all = locked(&self.took_us);
        let took_us = all.clone();
        all.reset();
        drop(all);
        let sent = self.sent.load(Ordering::Relaxed);
        Heard {
            took_us,
            failed: std::mem::take(&mut locked(&self.failed)),
            waiting_us: match sent {
                0 => 0,
                sent => self.now_us().saturating_sub(sent),
            },
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    /// One call over the connection that is there, or a new one.
    fn call_on(&self, asked: Asked, kept: &mut Option<TcpStream>) -> Result<()> {
        if asked == Asked::Mount {
            return mount(Some(POLITE), self.place.mount, &self.place.export).map(drop);
        }
        let stream = match kept {
            Some(stream) => stream,
            None => kept.insert(self.connect()?),
        };
        self.call(asked, stream)
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = connect(Some(POLITE), self.place.nfs)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    fn call(&self, asked: Asked, stream: &mut TcpStream) -> Result<()> {
        let file = self.file;
        match asked {
            Asked::Getattr => {
                let object = self.root;
                let args = GetattrArgs { object };
                ask::<GetattrOk, ()>(stream, Procedure::Getattr, &args).map(drop)
            }
            Asked::Read => {
                let args = ReadArgs {
                    file,
                    offset: 0,
                    count: PIECE_BYTES,
                };
                ask::<(), ()>(stream, Procedure::Read, &args).map(drop)
            }
            Asked::Write => {
                let args = WriteArgs {
                    file,
                    offset: 0,
                    count: PIECE_BYTES,
                    stable: StableHow::Unstable,
                    data: &[5; PIECE_BYTES as usize],
                };
                ask::<WriteOk, WccData>(stream, Procedure::Write, &args).map(drop)
            }
            Asked::Mount => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_call_that_fails_is_told_of_with_its_reason() {
        // Nobody listens there once it is dropped.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let nobody = listener.local_addr().unwrap();
        drop(listener);
        let handle = FileHandle::new(&[1; 8]).unwrap();
        let files = Files {
            place: Place {
                nfs: nobody,
                mount: nobody,
                export: "/".to_owned(),
            },
            root: handle,
            file: handle,
        };
        let (line, ended) = (Line::new(Asked::Getattr).unwrap(), AtomicBool::new(false));
        let heard = thread::scope(|scope| {
            scope.spawn(|| line.work(&files, &ended));
            let mut heard = line.heard();
            while heard.failed.count() == 0 {
                thread::yield_now();
                heard = line.heard();
            }
            ended.store(true, Ordering::Relaxed);
            heard
        });
        let reasons = heard.failed.reasons();
        assert!(reasons[0].0.contains("refused"), "{reasons:?}");
        assert!(heard.took_us.is_empty());
    }
}
