//! The threads of a load, and which connections each of them looks after.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nfs_io::event_loop::{self, LoopTimes};
use tokio::task::{JoinSet, LocalSet};

use super::{Amount, Ground, Lane, Load, Name, Tally, Work};
use crate::error::LoadError;
use crate::limits;
use crate::pace::{Pace, Schedule, Stop};
use crate::place::{Open, Place, Session};
use crate::unpack;

/// One thread of a load, and the connections that it looks after.
pub(super) struct Crew<'a> {
    /// 0 for the load itself, 1 for the one beside it.
    pub(super) part: usize,
    pub(super) members: Vec<Member<'a>>,
}

/// One connection of a load; on a file system of this host, one call in flight.
pub(super) struct Member<'a> {
    load: &'a Load,
    number: usize,
    /// How many members the load has.
    members: usize,
    lanes: usize,
}

pub(super) fn crews_of<'a>(
    place: &Place,
    load: &'a Load,
    part: usize,
) -> Result<Vec<Crew<'a>>, LoadError> {
    let within = |what: &str, value: usize, most: usize| match (1..=most).contains(&value) {
        true => Ok(()),
        false => Err(LoadError::Setting(format!("{what}: give 1 to {most}"))),
    };
    within("connections", load.connections, limits::CONNECTIONS_MAX)?;
    within("depth", load.depth, limits::DEPTH_MAX)?;
    let (members, lanes, threads) = match place {
        Place::Nfs { .. } => {
            let threads = load.connections.min(limits::CONNECTION_THREADS_MAX);
            (load.connections, load.depth, threads)
        }
        Place::Local { .. } => {
            let all = load.connections * load.depth;
            within("connections times depth", all, limits::LOCAL_THREADS_MAX)?;
            (all, 1, all)
        }
    };
    let member = |number| Member {
        load,
        number,
        members,
        lanes,
    };
    let of_thread = |thread| Crew {
        part,
        members: (thread..members).step_by(threads).map(member).collect(),
    };
    Ok((0..threads).map(of_thread).collect())
}

impl Crew<'_> {
    pub(super) fn run(&self, ground: &Ground<'_>) -> Result<Vec<Tally>, LoadError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(LoadError::system("start an event loop"));
        let done = match runtime {
            Ok(runtime) => {
                let poll = ground.around.busy_poll;
                let (local, times) = (LocalSet::new(), LoopTimes::default());
                event_loop::run(&runtime, &local, (poll, &times), self.work(ground))
            }
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

    async fn work(&self, ground: &Ground<'_>) -> Result<Vec<Tally>, LoadError> {
        let mut ready = Vec::new();
        for member in &self.members {
            ready.push(member.prepare(ground).await);
        }
        ground.barrier.wait();
        let begin = *ground.begin.get_or_init(Instant::now);
        let mut driven = JoinSet::new();
        for (member, ready) in self.members.iter().zip(ready) {
            let lane = member.lane(ready?, begin, self.part, ground)?;
            driven.spawn_local(drive(lane, member.lanes));
        }
        let all = async {
            let mut tallies = Vec::new();
            while let Some(ended) = driven.join_next().await {
                tallies.push(ended.map_err(|_| panicked())??);
            }
            Ok(tallies)
        };
        tokio::select! {
            done = all => done,
            () = ground.server_ended() => Err(LoadError::Ended),
        }
    }
}

impl Member<'_> {
    /// What the member's calls share.
    fn lane(
        &self,
        (session, file): (Session, Option<Open>),
        begin: Instant,
        part: usize,
        ground: &Ground<'_>,
    ) -> Result<Rc<Lane>, LoadError> {
        let halt = match self.load.amount {
            Amount::Beside => ground.halt.clone(),
            // A load of a fixed length goes on to its end, unless another thread of it failed.
            Amount::Once | Amount::For(_) => Stop::default(),
        };
        Ok(Rc::new(Lane {
            session,
            file,
            work: self.load.work.clone(),
            noise: ground.around.noise.clone(),
            pace: Pace::new(self.schedule(begin), ground.around.stop.clone(), halt)?,
            tally: RefCell::new(Tally::new()?),
            grown: RefCell::default(),
            ear: ground.ears.get(self.number).filter(|_| part == 0).cloned(),
            connection: self.number,
            first: self.first(),
            step: self.step(),
        }))
    }

    async fn prepare(&self, ground: &Ground<'_>) -> Result<(Session, Option<Open>), LoadError> {
        let session = Session::open(ground.place).await?;
        let (name, makes) = match &self.load.work {
            Work::Read { file, .. } | Work::Ask { file, .. } | Work::Small { file, .. } => {
                (file, false)
            }
            Work::Write { file, is_new, .. } => (file, *is_new),
            Work::Grow { file, .. } => (file, true),
            Work::Create(names)
            | Work::Stat(names)
            | Work::Rename(names)
            | Work::Remove(names)
            | Work::Unpack(names)
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
                .is_multiple_of(self.members / self.load.connections),
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
            let share = rate / self.members as f64;
            Duration::from_secs_f64(1.0 / share.clamp(1e-6, limits::RATE_MAX))
        });
        // The connections take turns, so that their calls do not all come at once.
        let offset = every.map_or(Duration::ZERO, |every| {
            every.mul_f64(self.number as f64 / self.members as f64)
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
        match self.own_members() {
            Some(members) => (self.number % members) as u64,
            None => self.number as u64,
        }
    }

    fn step(&self) -> u64 {
        self.own_members().unwrap_or(self.members) as u64
    }

    /// How many members share a file, where each connection has its own.
    fn own_members(&self) -> Option<usize> {
        match &self.load.work {
            Work::Read { file, .. }
            | Work::Write { file, .. }
            | Work::Grow { file, .. }
            | Work::Ask { file, .. }
            | Work::Small { file, .. } => {
                matches!(file, Name::Own(_)).then(|| self.members / self.load.connections)
            }
            _ => None,
        }
    }

    /// How many calls of one pass are this thread's.
    fn share(&self) -> u64 {
        let all = match &self.load.work {
            Work::Read { records, .. }
            | Work::Write { records, .. }
            | Work::Grow { records, .. }
            | Work::Small { records, .. } => records.count,
            Work::Create(names) | Work::Stat(names) | Work::Rename(names) | Work::Remove(names) => {
                names.count
            }
            Work::Unpack(names) => unpack::directories(names.count),
            // A listing is one thread's. A small call has no end of its own.
            Work::List(_) | Work::Ask { .. } => 1,
        };
        let share = all.saturating_sub(self.first()).div_ceil(self.step());
        match &self.load.work {
            // Each record is one call that writes it and one that reads another.
            Work::Grow { .. } => share.saturating_mul(2),
            _ => share,
        }
    }
}

/// Makes the calls of one member, so many at a time; what they came to.
async fn drive(lane: Rc<Lane>, in_flight: usize) -> Result<Tally, LoadError> {
    let mut lanes = JoinSet::new();
    for _ in 0..in_flight {
        lanes.spawn_local(Rc::clone(&lane).run());
    }
    while let Some(ended) = lanes.join_next().await {
        ended.map_err(|_| panicked())??;
    }
    drop(lanes);
    let lane = Rc::into_inner(lane)
        .ok_or_else(|| LoadError::Setting("a part of the load did not end".to_owned()))?;
    lane.finish().await
}

fn panicked() -> LoadError {
    LoadError::Setting("a part of the load panicked".to_owned())
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
