//! The measured loop: connections, a number of calls in flight on each, a clock.
//!
//! Each connection is a thread of its own with an event loop and the client library; on a file system of this host
//! each call in flight is a thread. All of them go to their place first, and begin together.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::task::{JoinSet, LocalSet};

use crate::error::LoadError;
use crate::limits;
use crate::noise::Noise;
use crate::pace::{Pace, Schedule, Stop};
use crate::place::{Open, Place, Session, Stable, Verifier, same};
use crate::records::Records;
use crate::sample::{Latency, Sample};

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
    /// Make empty files.
    Create(Names),
    /// Ask for the attributes of each name.
    Stat(Names),
    /// Give each file another name.
    Rename(Names),
    /// Remove each file that was renamed.
    Remove(Names),
    /// List the directory with attributes, as often as there are calls.
    List(Names),
    /// In turn, ask for the attributes of a file and read one of its records.
    Small {
        /// Name of the file in the measured directory.
        file: Name,
        /// Which pieces of the file are moved, and in which order.
        records: Records,
    },
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
    /// After this time; what was sent is waited for.
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
    let loads: Vec<&Load> = std::iter::once(load).chain(beside).collect();
    let mut members = Vec::new();
    for (index, load) in loads.iter().enumerate() {
        members.extend(crew(place, load, index)?);
    }
    let ground = Ground {
        place,
        around,
        barrier: Barrier::new(members.len() + 1),
        begin: OnceLock::new(),
        halt: Stop::default(),
        left: AtomicUsize::new(members.iter().filter(|member| member.part == 0).count()),
    };
    let mut used = None;
    let done: Vec<(usize, Result<Tally, LoadError>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = members
            .iter()
            .map(|member| (member.part, scope.spawn(|| member.run(&ground))))
            .collect();
        ground.barrier.wait();
        let before = cpu();
        let ended = threads.into_iter().map(|(part, thread)| {
            let panicked = |_| {
                Err(LoadError::Setting(
                    "a thread of the load panicked".to_owned(),
                ))
            };
            (part, thread.join().unwrap_or_else(panicked))
        });
        let ended = ended.collect();
        used = cpu().zip(before).map(|(after, before)| after - before);
        ended
    });
    let begin = ground.begin.get().copied().unwrap_or_else(Instant::now);
    let mut parts: [Vec<Tally>; 2] = [Vec::new(), Vec::new()];
    for (part, tally) in done {
        if let Some(of_part) = parts.get_mut(part) {
            of_part.push(tally?);
        }
    }
    let [own, other] = parts;
    let mut sample = summed(begin, &own)?;
    if beside.is_none() {
        sample.cpu_seconds = used;
    }
    let other = beside.map(|_| summed(begin, &other)).transpose()?;
    Ok((sample, other))
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
}

/// One thread of a load.
struct Member<'a> {
    load: &'a Load,
    /// 0 for the load itself, 1 for the one beside it.
    part: usize,
    number: usize,
    threads: usize,
    lanes: usize,
}

fn crew<'a>(place: &Place, load: &'a Load, part: usize) -> Result<Vec<Member<'a>>, LoadError> {
    let within = |what: &str, value: usize, most: usize| match (1..=most).contains(&value) {
        true => Ok(()),
        false => Err(LoadError::Setting(format!("{what}: give 1 to {most}"))),
    };
    within("connections", load.connections, limits::CONNECTIONS_MAX)?;
    within("depth", load.depth, limits::DEPTH_MAX)?;
    let (threads, lanes) = match place {
        Place::Nfs { .. } => (load.connections, load.depth),
        Place::Local { .. } => (load.connections * load.depth, 1),
    };
    within(
        "connections times depth",
        threads,
        limits::LOCAL_THREADS_MAX,
    )?;
    Ok((0..threads)
        .map(|number| Member {
            load,
            part,
            number,
            threads,
            lanes,
        })
        .collect())
}

impl Member<'_> {
    fn run(&self, ground: &Ground<'_>) -> Result<Tally, LoadError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(LoadError::system("start an event loop"));
        let done = match runtime {
            Ok(runtime) => LocalSet::new().block_on(&runtime, self.work(ground)),
            Err(error) => {
                ground.barrier.wait();
                Err(error)
            }
        };
        if self.part == 0 {
            // One that failed ends the whole run.
            let is_last = ground.left.fetch_sub(1, Ordering::AcqRel) == 1;
            if is_last || done.is_err() {
                ground.halt.set();
            }
        }
        done
    }

    async fn work(&self, ground: &Ground<'_>) -> Result<Tally, LoadError> {
        let ready = self.prepare(ground).await;
        ground.barrier.wait();
        let begin = *ground.begin.get_or_init(Instant::now);
        let (session, file) = ready?;
        let halt = match self.load.amount {
            Amount::Beside => ground.halt.clone(),
            // A load of a fixed length goes on to its end, unless another thread of it failed.
            Amount::Once | Amount::For(_) => Stop::default(),
        };
        let pace = Pace::new(self.schedule(begin), ground.around.stop.clone(), halt)?;
        let lane = Rc::new(Lane {
            session,
            file,
            work: self.load.work.clone(),
            noise: ground.around.noise.clone(),
            pace,
            tally: RefCell::new(Tally::new()?),
            first: self.first(),
            step: self.step(),
        });
        let mut lanes = JoinSet::new();
        for _ in 0..self.lanes {
            lanes.spawn_local(Rc::clone(&lane).run());
        }
        while let Some(ended) = lanes.join_next().await {
            ended.map_err(|_| LoadError::Setting("a part of the load panicked".to_owned()))??;
        }
        drop(lanes);
        let lane = Rc::into_inner(lane)
            .ok_or_else(|| LoadError::Setting("a part of the load did not end".to_owned()))?;
        lane.finish().await
    }

    async fn prepare(&self, ground: &Ground<'_>) -> Result<(Session, Option<Open>), LoadError> {
        let session = Session::open(ground.place).await?;
        let (name, makes) = match &self.load.work {
            Work::Read { file, .. } | Work::Small { file, .. } => (file, false),
            Work::Write { file, is_new, .. } => (file, *is_new),
            Work::Create(names)
            | Work::Stat(names)
            | Work::Rename(names)
            | Work::Remove(names)
            | Work::List(names) => {
                return Ok((session.below(&names.directory).await?, None));
            }
        };
        let of = match ground.place {
            Place::Nfs { .. } => self.number,
            Place::Local { .. } => self.number / self.load.depth,
        };
        let is_first = match name {
            Name::Shared(_) => self.number == 0,
            Name::Own(_) => self
                .number
                .is_multiple_of(self.threads / self.load.connections),
        };
        let file = match makes && is_first {
            true => session.create(&name.of(of)).await?,
            false if makes => until_made(&session, &name.of(of)).await?,
            false => session.find(&name.of(of)).await?,
        };
        Ok((session, Some(file)))
    }

    fn schedule(&self, begin: Instant) -> Schedule {
        let every = self.load.rate.map(|rate| {
            let share = rate / self.threads as f64;
            Duration::from_secs_f64(1.0 / share.clamp(1e-6, limits::RATE_MAX))
        });
        // The connections take turns, so that their calls do not all come at once.
        let offset = every.map_or(Duration::ZERO, |every| {
            every.mul_f64(self.number as f64 / self.threads as f64)
        });
        let (until, calls_max) = match self.load.amount {
            Amount::Once => (None, self.share()),
            Amount::For(time) => (Some(begin + time), u64::MAX),
            Amount::Beside => (None, u64::MAX),
        };
        Schedule {
            begin: begin + offset,
            every,
            until,
            calls_max,
        }
    }

    /// Number of the thread's first call among those that share records or names.
    fn first(&self) -> u64 {
        match self.own_threads() {
            Some(threads) => (self.number % threads) as u64,
            None => self.number as u64,
        }
    }

    fn step(&self) -> u64 {
        self.own_threads().unwrap_or(self.threads) as u64
    }

    /// How many threads share a file, where each connection has its own.
    fn own_threads(&self) -> Option<usize> {
        match &self.load.work {
            Work::Read { file, .. } | Work::Write { file, .. } | Work::Small { file, .. } => {
                matches!(file, Name::Own(_)).then(|| self.threads / self.load.connections)
            }
            _ => None,
        }
    }

    /// How many calls of one pass are this thread's.
    fn share(&self) -> u64 {
        let all = match &self.load.work {
            Work::Read { records, .. }
            | Work::Write { records, .. }
            | Work::Small { records, .. } => records.count,
            Work::Create(names) | Work::Stat(names) | Work::Rename(names) | Work::Remove(names) => {
                names.count
            }
            // A listing is one thread's.
            Work::List(_) => 1,
        };
        all.saturating_sub(self.first()).div_ceil(self.step())
    }
}

/// Opens a file that another thread makes.
async fn until_made(session: &Session, name: &str) -> Result<Open, LoadError> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match session.find(name).await {
            Err(_) if Instant::now() < deadline => {
                // SLEEP: a poll for what another connection makes at this moment.
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            found => return found,
        }
    }
}

/// What the lanes of one thread share; each makes one call at a time.
struct Lane {
    session: Session,
    file: Option<Open>,
    work: Work,
    noise: Noise,
    pace: Pace,
    tally: RefCell<Tally>,
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
            } => {
                let (file, offset) = (self.file()?, records.offset(turn));
                let len = length(records.bytes);
                let written = session
                    .write(file, offset, len, *stable, &self.noise)
                    .await?;
                let mut tally = self.tally.borrow_mut();
                tally.verifier = same(tally.verifier, written)?;
                Ok((records.bytes.into(), 1))
            }
            Work::Create(_) => session.create(&made(turn)).await.map(|_| (0, 1)),
            Work::Stat(_) => session.stat(&made(turn)).await.map(|()| (0, 1)),
            Work::Rename(_) => {
                let renamed = session.rename(&made(turn), &moved(turn)).await;
                renamed.map(|()| (0, 1))
            }
            Work::Remove(_) => session.remove(&moved(turn)).await.map(|()| (0, 1)),
            Work::List(names) => {
                let (listed, expected) = (session.list().await?, names.count);
                match listed == expected {
                    true => Ok((0, listed)),
                    false => Err(LoadError::Listing { expected, listed }),
                }
            }
            Work::Small { records, .. } => match number.is_multiple_of(2) {
                true => session.attributes(self.file()?).await.map(|()| (0, 1)),
                false => self.read(records, turn, Some(&self.noise)).await,
            },
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
        if let (Work::Write { .. }, Some(file)) = (&self.work, &self.file) {
            let committed = self.session.commit(file).await?;
            same(tally.verifier, committed)?;
        }
        tally.ended_at = match &self.work {
            Work::Write { .. } => Instant::now(),
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
        cpu_seconds: None,
    })
}
