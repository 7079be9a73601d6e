//! A script played once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};

use super::Speed;
use super::player::{Players, Tally, place_of, tallies};
use super::script::{Play, Script};
use super::turns::Turns;
use crate::error::LoadError;
use crate::limits;
use crate::load::Around;
use crate::pace::Timer;
use crate::place::Place;

/// How long the run may wait for the time of a call without looking whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What playing a script came to.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) groups: [Tally; 4],
    /// How late calls by the clock were begun.
    pub(super) late: Histogram<u64>,
    pub(super) seconds: f64,
    pub(super) refused: BTreeMap<String, u64>,
    pub(super) cpu_seconds: Option<f64>,
}

/// What the calls of a replay share.
struct Stage {
    script: Arc<Script>,
    players: Players,
    turns: Turns,
    is_paced: bool,
    groups: RefCell<[Tally; 4]>,
    ended: Cell<Instant>,
}

/// Makes the files of a script in an empty directory, and plays it. `ready` is called between the two. A place that is
/// not to be filled has files of any size as soon as they are made.
///
/// # Errors
/// The files cannot be made, a call had no answer, or the run was told to stop.
pub(super) fn play(
    (place, is_filled): (&Place, bool),
    script: &Arc<Script>,
    speed: Speed,
    around: &Around,
    ready: impl FnOnce() -> Result<(), LoadError>,
    cpu: impl Fn() -> Option<f64>,
) -> Result<Played, LoadError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(LoadError::system("start an event loop"))?;
    LocalSet::new().block_on(&runtime, async {
        let players = Players::enter(place, script, &around.noise).await?;
        players.make(script, is_filled).await?;
        ready()?;
        let before = cpu();
        let begin = Instant::now();
        let stage = Rc::new(Stage {
            script: Arc::clone(script),
            players,
            turns: Turns::new(script.objects.len()),
            is_paced: matches!(speed, Speed::Times(_)),
            groups: RefCell::new(tallies()?),
            ended: Cell::new(begin),
        });
        let late = Rc::clone(&stage).perform(begin, speed, around).await?;
        let cpu_seconds = cpu().zip(before).map(|(after, before)| after - before);
        let stage = Rc::into_inner(stage)
            .ok_or_else(|| LoadError::Setting("a part of the replay did not end".to_owned()))?;
        Ok(Played {
            seconds: (stage.ended.get() - begin).as_secs_f64().max(1e-9),
            groups: stage.groups.into_inner(),
            late,
            refused: stage.players.leave().await,
            cpu_seconds,
        })
    })
}

impl Stage {
    /// Begins the calls in their order; how late the clock was.
    async fn perform(
        self: Rc<Self>,
        begin: Instant,
        speed: Speed,
        around: &Around,
    ) -> Result<Histogram<u64>, LoadError> {
        let mut timer = Timer::new().map_err(LoadError::system("get a timer"))?;
        let mut late = Tally::new()?;
        let room = Arc::new(Semaphore::new(limits::REPLAYED_IN_FLIGHT_MAX));
        let mut calls = JoinSet::new();
        for index in 0..self.script.plays.len() {
            let due = self.due(index, begin, speed)?;
            loop {
                if around.stop.is_set() {
                    return Err(LoadError::Interrupted);
                }
                while let Some(ended) = calls.try_join_next() {
                    over(ended)?;
                }
                let Some(due) = due.filter(|due| *due > Instant::now()) else {
                    break;
                };
                // In between it is seen whether the run is told to stop: clients may have been idle for an hour.
                let waited = timer.wait_until(due.min(Instant::now() + LOOK_EVERY));
                waited
                    .await
                    .map_err(LoadError::system("wait for a timer"))?;
            }
            if let Some(due) = due {
                late.count(nanoseconds(due, Instant::now()), 0);
            }
            let permit = match Arc::clone(&room).try_acquire_owned() {
                Ok(permit) => permit,
                Err(_full) => self.next_end(&room, &mut calls).await?,
            };
            let stage = Rc::clone(&self);
            calls.spawn_local(async move {
                let done = stage.one(index, due).await;
                drop(permit);
                done
            });
        }
        while let Some(ended) = calls.join_next().await {
            over(ended)?;
            if around.stop.is_set() {
                return Err(LoadError::Interrupted);
            }
        }
        Ok(late.latencies)
    }

    /// Waits until there is room for one call more, or one has failed.
    async fn next_end(
        &self,
        room: &Arc<Semaphore>,
        calls: &mut JoinSet<Result<(), LoadError>>,
    ) -> Result<tokio::sync::OwnedSemaphorePermit, LoadError> {
        loop {
            if let Some(ended) = calls.join_next().await {
                over(ended)?;
            }
            if let Ok(permit) = Arc::clone(room).try_acquire_owned() {
                return Ok(permit);
            }
        }
    }

    /// When a call is to begin, if the clock says so.
    fn due(
        &self,
        index: usize,
        begin: Instant,
        speed: Speed,
    ) -> Result<Option<Instant>, LoadError> {
        let (Speed::Times(times), Some(play)) = (speed, self.script.plays.get(index)) else {
            return Ok(None);
        };
        let behind = Duration::from_secs_f64(play.at_ns as f64 / 1e9 / times);
        let due = begin.checked_add(behind);
        due.map(Some).ok_or_else(|| {
            LoadError::Setting("a call of the recording is out of all time".to_owned())
        })
    }

    /// One call, from the wait for its turn to its answer.
    async fn one(&self, index: usize, due: Option<Instant>) -> Result<(), LoadError> {
        let Some(Play {
            act, client, turns, ..
        }) = self.script.plays.get(index)
        else {
            return Ok(());
        };
        self.turns.begin(turns).await;
        let begun = due.filter(|_| self.is_paced).unwrap_or_else(Instant::now);
        let moved = self.players.act(*client, act).await;
        let ended = Instant::now();
        self.turns.end(turns);
        self.ended.set(ended);
        let mut groups = self.groups.borrow_mut();
        if let Some(tally) = groups.get_mut(place_of(act.group())) {
            tally.count(nanoseconds(begun, ended), moved?);
        }
        Ok(())
    }
}

fn over(ended: Result<Result<(), LoadError>, tokio::task::JoinError>) -> Result<(), LoadError> {
    ended.map_err(|_| LoadError::Setting("a part of the replay panicked".to_owned()))?
}

fn nanoseconds(from: Instant, to: Instant) -> u64 {
    let time = to.saturating_duration_since(from).as_nanos();
    u64::try_from(time).unwrap_or(u64::MAX)
}
