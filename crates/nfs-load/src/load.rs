//! The measured loop: connections, a number of calls in flight on each, a clock.
//!
//! Each connection is a thread of its own with an event loop and the client library, up to
//! [`limits::CONNECTION_THREADS_MAX`] threads, which share more connections out; on a file system of this host each call
//! in flight is a thread. All of them go to their place first, and begin together.

mod crew;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nfs_io::BusyPoll;

use self::crew::{Crew, crews_of};
use crate::error::LoadError;
use crate::grow::{Grown, Turn};
use crate::limits;
use crate::noise::Noise;
use crate::pace::{Pace, Stop};
use crate::place::{Open, Place, Session, Stable, Verifier, same};
use crate::records::Records;
use crate::sample::{Latency, Sample};
use crate::series::{self, Ear, Series};
use crate::unpack::{self, Entry};
use crate::watch::{Watch, has_ended};

/// What the calls of a load do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Read the records of a file.
    Read {
        /// Name of the file in the measured directory.
        file: Name,
        /// Which pieces of the file are moved, and in which order.
        records: Records,
        /// Whether the file has the bytes of [`Noise`], and they are looked at.
        is_checked: bool,
    },
    /// Write the records of a file, and COMMIT.
    Write {
        /// Name of the file in the measured directory.
        file: Name,
        /// Which pieces of the file are moved, and in which order.
        records: Records,
        /// When they are on stable storage.
        stable: Stable,
        /// Whether the file is made first; otherwise it has to be there.
        is_new: bool,
    },
    /// Make a file, and in turn write its next record and read one of those before it; COMMIT at the end.
    Grow {
        /// Name of the file in the measured directory.
        file: Name,
        /// Which pieces of the file are moved, and in which order.
        records: Records,
    },
    /// Make empty files.
    Create(Names),
    /// Ask for the attributes of each name.
    Stat(Names),
    /// Give each file another name.
    Rename(Names),
    /// Remove each file that was renamed.
    Remove(Names),
    /// Unpack a source tree with so many files and links; each call is a directory of it.
    Unpack(Names),
    /// List the directory with attributes, as often as there are calls.
    List(Names),
    /// Make the same small call again and again.
    Ask {
        /// Name of the file in the measured directory that it is about.
        file: Name,
        /// Which call.
        call: Call,
    },
    /// In turn, ask for the attributes of a file and read one of its records.
    Small {
        /// Name of the file in the measured directory.
        file: Name,
        /// Which pieces of the file are moved, and in which order.
        records: Records,
    },
}

/// A call to a server that moves no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// NULL, which does nothing.
    Null,
    /// GETATTR of the file.
    Getattr,
    /// LOOKUP of the file's name.
    Lookup,
    /// ACCESS to the file.
    Access,
}

impl Call {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Null, Self::Getattr, Self::Lookup, Self::Access];

    /// Its name in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Getattr => "GETATTR",
            Self::Lookup => "LOOKUP",
            Self::Access => "ACCESS",
        }
    }
}

/// The file of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// All connections work on this one, and share its records out.
    Shared(String),
    /// Each connection has one of its own, which begins with this and ends in the connection's number.
    Own(String),
}

impl Name {
    /// The name of the file of one connection.
    #[must_use]
    pub fn of(&self, connection: usize) -> String {
        match self {
            Self::Shared(name) => name.clone(),
            Self::Own(name) => format!("{name}-{connection}"),
        }
    }
}

/// The names of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The directory, which has to be there.
    pub directory: String,
    /// How many there are.
    pub count: u64,
}

/// When a load ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// When every record or name had its turn once.
    Once,
    /// After this time; what was sent is waited for, and what is due by the clock but was not sent is left.
    For(Duration),
    /// When the load that it is beside ends.
    Beside,
}

/// Calls of one kind to one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// What the calls do.
    pub work: Work,
    /// How many connections there are.
    pub connections: usize,
    /// How many calls are in flight on each.
    pub depth: usize,
    /// How many calls begin in a second, on all connections together; `None` for as many as are answered.
    pub rate: Option<f64>,
    /// When it ends.
    pub amount: Amount,
}

/// What a load has of the run that it is part of.
#[derive(Clone, Debug)]
pub struct Around {
    /// The bytes of files.
    pub noise: Noise,
    /// Tells the run to end.
    pub stop: Stop,
    /// How long the threads of a load look for replies before they sleep.
    pub busy_poll: BusyPoll,
}

/// Runs a load, and another one beside it for as long as it takes; gives what each came to.
///
/// # Errors
/// A call failed, a place cannot be reached, or a number is out of its range.
pub fn run(
    place: &Place,
    load: &Load,
    beside: Option<&Load>,
    around: &Around,
    cpu: impl Fn() -> Option<f64>,
) -> Result<(Sample, Option<Sample>), LoadError> {
    let done = run_watched(place, load, beside, around, cpu, Watched::default())?;
    Ok((done.own, done.beside))
}

/// What a load came to.
#[derive(Clone, Debug)]
pub struct Done {
    /// The load itself.
    pub own: Sample,
    /// The load beside it.
    pub beside: Option<Sample>,
    /// How the load itself went, if it was watched.
    pub series: Option<Series>,
}

/// What is known of the server that is asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watched<'a> {
    /// The process that has to be there; the load fails as soon as it is not, and not when a call has waited too long.
    pub process: Option<u32>,
    /// What is looked at from moment to moment.
    pub watch: Option<&'a Watch>,
}

/// As [`run`], and keeps how the load and the server that is watched went on meanwhile.
///
/// # Errors
/// As of [`run`].
pub fn run_watched(
    place: &Place,
    load: &Load,
    beside: Option<&Load>,
    around: &Around,
    cpu: impl Fn() -> Option<f64>,
    watched: Watched<'_>,
) -> Result<Done, LoadError> {
    let loads: Vec<&Load> = std::iter::once(load).chain(beside).collect();
    let mut crews = Vec::new();
    for (part, load) in loads.iter().enumerate() {
        crews.extend(crews_of(place, load, part)?);
    }
    let of_load = || crews.iter().filter(|crew| crew.part == 0);
    let watch = watched.watch;
    let own = of_load().map(|crew| crew.members.len()).sum();
    let ears = watch.iter().flat_map(|_| 0..own).map(|_| Ear::new());
    let ground = Ground {
        place,
        around,
        ears: ears.collect::<Result<_, _>>()?,
        barrier: Barrier::new(crews.len() + 1),
        begin: OnceLock::new(),
        halt: Stop::default(),
        left: AtomicUsize::new(of_load().count()),
        is_over: AtomicBool::new(false),
        process: watched.process,
    };
    let (tallies, series, used) = std::thread::scope(|scope| {
        let ground = &ground;
        let start = |crew| scope.spawn(move || Crew::run(crew, ground));
        let threads: Vec<_> = crews.iter().map(start).collect();
        ground.barrier.wait();
        let before = cpu();
        let looking = watch.map(|watch| scope.spawn(|| ground.watch(watch)));
        let tallies: Vec<_> = threads.into_iter().map(joined).collect();
        ground.is_over.store(true, Ordering::Release);
        let series = looking.map(|looking| {
            looking.thread().unpark();
            joined(looking)
        });
        let used = cpu().zip(before).map(|(after, before)| after - before);
        (tallies, series, used)
    });
    let begin = ground.begin.get().copied().unwrap_or_else(Instant::now);
    let mut parts: [Vec<Tally>; 2] = [Vec::new(), Vec::new()];
    for (crew, tallies) in crews.iter().zip(tallies) {
        if let Some(of_part) = parts.get_mut(crew.part) {
            of_part.extend(tallies?);
        }
    }
    let [own, other] = parts;
    let mut sample = summed(begin, &own)?;
    if beside.is_none() {
        sample.cpu_seconds = used;
    }
    Ok(Done {
        own: sample,
        beside: beside.map(|_| summed(begin, &other)).transpose()?,
        series: series.transpose()?,
    })
}

/// What a thread came to.
fn joined<T>(thread: ScopedJoinHandle<'_, Result<T, LoadError>>) -> Result<T, LoadError> {
    let panicked = |_| {
        Err(LoadError::Setting(
            "a thread of the load panicked".to_owned(),
        ))
    };
    thread.join().unwrap_or_else(panicked)
}

/// What all threads of a run share.
struct Ground<'a> {
    place: &'a Place,
    around: &'a Around,
    barrier: Barrier,
    begin: OnceLock<Instant>,
    /// Ends the load beside.
    halt: Stop,
    /// How many threads of the load itself are not done.
    left: AtomicUsize,
    /// What is heard of the calls of the load itself, by thread; empty where nobody wants to know.
    ears: Vec<Ear>,
    /// Whether all threads are done.
    is_over: AtomicBool,
    /// The server's, as [`Watched`] has it.
    process: Option<u32>,
}

impl Ground<'_> {
    /// Waits for the end of the server, which is not to come.
    async fn server_ended(&self) {
        let Some(process) = self.process else {
            return std::future::pending().await;
        };
        while !has_ended(process) {
            // SLEEP: a poll for the end of a process that another part of the run waits for.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    fn watch(&self, watch: &Watch) -> Result<Series, LoadError> {
        let begin = *self.begin.get_or_init(Instant::now);
        series::watch(&self.ears, watch, begin, &self.is_over)
    }
}

/// What the lanes of one member share; each makes one call at a time.
struct Lane {
    session: Session,
    file: Option<Open>,
    work: Work,
    noise: Noise,
    pace: Pace,
    tally: RefCell<Tally>,
    grown: RefCell<Grown>,
    ear: Option<Ear>,
    /// Number of the connection.
    connection: usize,
    first: u64,
    step: u64,
}

/// What one thread has done.
#[derive(Debug)]
struct Tally {
    latencies: Histogram<u64>,
    /// How late calls by the clock began.
    late: Histogram<u64>,
    bytes: u64,
    calls: u64,
    /// Calls by the clock that did not begin in time.
    left: u64,
    verifier: Verifier,
    moved_at: Instant,
    ended_at: Instant,
}

impl Tally {
    fn new() -> Result<Self, LoadError> {
        let histogram = || {
            // What is longer counts as so long; nothing is recorded that grows the table.
            let made = Histogram::new_with_bounds(1, limits::LATENCY_NANOSECONDS_MAX, 3);
            made.map_err(|error| LoadError::Setting(format!("histogram: {error}")))
        };
        Ok(Self {
            latencies: histogram()?,
            late: histogram()?,
            bytes: 0,
            calls: 0,
            left: 0,
            verifier: None,
            moved_at: Instant::now(),
            ended_at: Instant::now(),
        })
    }
}

impl Lane {
    async fn run(self: Rc<Self>) -> Result<(), LoadError> {
        let is_timed = self.pace.is_timed();
        while let Some((number, due)) = self.pace.next().await? {
            let begun = Instant::now();
            let (bytes, calls) = self.call(number).await?;
            let ended = Instant::now();
            if let Some(ear) = &self.ear {
                let latency = ended.saturating_duration_since(due);
                ear.hear(latency, bytes, self.written(number, bytes));
            }
            let nanoseconds = |from: Instant, to: Instant| {
                u64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(u64::MAX)
            };
            let mut tally = self.tally.borrow_mut();
            tally
                .latencies
                .saturating_record(nanoseconds(due, ended).max(1));
            if is_timed {
                tally.late.saturating_record(nanoseconds(due, begun));
            }
            tally.bytes += bytes;
            tally.calls += calls;
            tally.moved_at = ended;
        }
        Ok(())
    }

    /// Makes a call of the application; gives the bytes that it moved, and what it counts for.
    async fn call(&self, number: u64) -> Result<(u64, u64), LoadError> {
        let turn = self.first + number * self.step;
        let session = &self.session;
        match &self.work {
            Work::Read {
                records,
                is_checked,
                ..
            } => {
                let noise = is_checked.then_some(&self.noise);
                self.read(records, turn, noise).await
            }
            Work::Write {
                records, stable, ..
            } => self.write(records, turn, *stable).await,
            Work::Grow { records, .. } => self.grow(records, number).await,
            Work::Create(_) => session.create(&made(turn)).await.map(|_| (0, 1)),
            Work::Stat(_) => session.stat(&made(turn)).await.map(|()| (0, 1)),
            Work::Rename(_) => {
                let renamed = session.rename(&made(turn), &moved(turn)).await;
                renamed.map(|()| (0, 1))
            }
            Work::Unpack(names) => self.unpack(turn, names.count).await,
            Work::Remove(_) => session.remove(&moved(turn)).await.map(|()| (0, 1)),
            Work::List(names) => {
                let (listed, expected) = (session.list().await?, names.count);
                match listed == expected {
                    true => Ok((0, listed)),
                    false => Err(LoadError::Listing { expected, listed }),
                }
            }
            Work::Ask { file, call } => {
                let asked = match call {
                    Call::Null => session.null().await,
                    Call::Getattr => session.attributes(self.file()?).await,
                    Call::Lookup => session.stat(&file.of(self.connection)).await,
                    Call::Access => session.access(self.file()?).await,
                };
                asked.map(|()| (0, 1))
            }
            Work::Small { records, .. } => match number.is_multiple_of(2) {
                true => session.attributes(self.file()?).await.map(|()| (0, 1)),
                false => self.read(records, turn, Some(&self.noise)).await,
            },
        }
    }

    async fn write(
        &self,
        records: &Records,
        turn: u64,
        stable: Stable,
    ) -> Result<(u64, u64), LoadError> {
        let (file, offset) = (self.file()?, records.offset(turn));
        let len = length(records.bytes);
        let session = &self.session;
        let written = session
            .write(file, offset, len, stable, &self.noise)
            .await?;
        let mut tally = self.tally.borrow_mut();
        tally.verifier = same(tally.verifier, written)?;
        Ok((records.bytes.into(), 1))
    }

    /// Writes the thread's next record, or reads one that it has written.
    async fn grow(&self, records: &Records, number: u64) -> Result<(u64, u64), LoadError> {
        let turn = self.grown.borrow_mut().turn(number);
        let at = |record: u64| self.first + record * self.step;
        match turn {
            Turn::Write(record) => {
                let done = self.write(records, at(record), Stable::AtTheEnd).await?;
                self.grown.borrow_mut().written(record);
                Ok(done)
            }
            Turn::Read(record) => self.read(records, at(record), Some(&self.noise)).await,
            Turn::Nothing => {
                let looked = self.session.attributes(self.file()?).await;
                looked.map(|()| (0, 1))
            }
        }
    }

    /// Makes one directory of a tree, and what lies in it, one after the other.
    async fn unpack(&self, number: u64, entries: u64) -> Result<(u64, u64), LoadError> {
        let name = format!("dir-{number}");
        self.session.make_directory(&name).await?;
        let session = self.session.below(&name).await?;
        let (mut bytes, mut made) = (0, 0);
        for (entry, index) in unpack::directory(number, entries).zip(0..) {
            made += 1;
            let Entry::File(len) = entry else {
                session.symlink("link", &self::made(0)).await?;
                continue;
            };
            let file = session.create(&self::made(index)).await?;
            let at_the_end = Stable::AtTheEnd;
            let written = session
                .write(&file, 0, length(len), at_the_end, &self.noise)
                .await?;
            session.stamp(&file).await?;
            same(written, session.commit(&file).await?)?;
            bytes += u64::from(len);
        }
        Ok((bytes, made))
    }

    /// By how much the call with this number made the data larger, of the bytes that it moved.
    fn written(&self, number: u64, bytes: u64) -> u64 {
        match &self.work {
            Work::Write { .. } => bytes,
            Work::Grow { .. } if number.is_multiple_of(2) => bytes,
            _ => 0,
        }
    }

    async fn read(
        &self,
        records: &Records,
        turn: u64,
        noise: Option<&Noise>,
    ) -> Result<(u64, u64), LoadError> {
        let (file, offset) = (self.file()?, records.offset(turn));
        let len = length(records.bytes);
        self.session.read(file, offset, len, noise).await?;
        Ok((records.bytes.into(), 1))
    }

    fn file(&self) -> Result<&Open, LoadError> {
        let missing = || LoadError::Setting("the load has no file".to_owned());
        self.file.as_ref().ok_or_else(missing)
    }

    /// Puts what was written on stable storage, and ends the session.
    async fn finish(self) -> Result<Tally, LoadError> {
        let mut tally = self.tally.into_inner();
        if let (Work::Write { .. } | Work::Grow { .. }, Some(file)) = (&self.work, &self.file) {
            let committed = self.session.commit(file).await?;
            same(tally.verifier, committed)?;
        }
        tally.left = self.pace.left();
        tally.ended_at = match &self.work {
            Work::Write { .. } | Work::Grow { .. } => Instant::now(),
            _ => tally.moved_at,
        };
        drop(self.file);
        self.session.end().await;
        Ok(tally)
    }
}

fn length(bytes: u32) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn made(turn: u64) -> String {
    format!("file-{turn}")
}

fn moved(turn: u64) -> String {
    format!("moved-{turn}")
}

fn summed(begin: Instant, done: &[Tally]) -> Result<Sample, LoadError> {
    let mut all = Tally::new()?;
    for tally in done {
        let added =
            all.latencies.add(&tally.latencies).is_ok() && all.late.add(&tally.late).is_ok();
        if !added {
            let text = "the latencies of several connections cannot be added";
            return Err(LoadError::Setting(text.to_owned()));
        }
        all.bytes += tally.bytes;
        all.calls += tally.calls;
        all.left += tally.left;
        all.verifier = same(all.verifier, tally.verifier)?;
    }
    let last = |at: fn(&Tally) -> Instant| done.iter().map(at).max().unwrap_or(begin);
    let (moved_at, ended_at) = (last(|one| one.moved_at), last(|one| one.ended_at));
    let seconds = (ended_at.saturating_duration_since(begin)).as_secs_f64();
    Ok(Sample {
        calls: all.calls,
        bytes: all.bytes,
        // A run so short that the clock did not move must not divide by nothing.
        seconds: seconds.max(1e-9),
        commit_seconds: ended_at.saturating_duration_since(moved_at).as_secs_f64(),
        latency: Latency::of(&all.latencies),
        late_p99_us: (!all.late.is_empty())
            .then(|| all.late.value_at_quantile(0.99) as f64 / 1000.0),
        calls_left: all.left,
        cpu_seconds: None,
    })
}
