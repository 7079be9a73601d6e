//! Who follows calls, as they end or as the flight recorder has them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;

use super::query::{CallQuery, Filter};
use super::record::CallRecord;
use super::ring::Recorder;
use super::tree::{CallLine, Teller};
use crate::limits;

/// The sending end of one follower's queue.
pub(crate) struct Listener {
    filter: Filter,
    /// Calls that took less are not wanted any more, in nanoseconds: so many slower ones are there.
    least: AtomicU64,
    queue: mpsc::Sender<Told>,
    lost: Arc<AtomicU64>,
    lost_by_all: Arc<AtomicU64>,
}

/// A call and the shard that it was on.
type Told = (usize, Box<CallRecord>);

/// Somebody who follows calls. All of their steps are recorded for as long as it is kept.
pub struct CallFollower {
    recorder: Arc<Recorder>,
    /// `None` where what the flight recorder has is told, and no more.
    live: Option<(Arc<Listener>, mpsc::Receiver<Told>)>,
    teller: Teller,
    /// What is told next.
    ready: VecDeque<Told>,
    slowest: Option<Slowest>,
    until: Option<Instant>,
    /// Calls that this follower has lost, and how many of them it was told of.
    lost: Arc<AtomicU64>,
    told_lost: u64,
}

/// The slowest calls so far, the slowest first.
struct Slowest {
    most: usize,
    calls: Vec<Told>,
}

impl Listener {
    pub(super) fn offer(&self, shard: usize, call: &CallRecord) {
        let least = Duration::from_nanos(self.least.load(Ordering::Relaxed));
        if !self.filter.wants(call) || (!least.is_zero() && call.took() < least) {
            return;
        }
        match self.queue.try_send((shard, Box::new(call.clone()))) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                self.lost_by_all.fetch_add(1, Ordering::Relaxed);
            }
            // Its reader has just gone.
            Err(TrySendError::Closed(_)) => {}
        }
    }
}

impl Recorder {
    /// Follows the calls that a query wants, from now on, or tells those that are recorded.
    ///
    /// # Errors
    /// In words: a name that is no procedure's, an export that is not served, too many followers.
    pub(crate) fn follow(self: &Arc<Self>, query: &CallQuery) -> Result<CallFollower, String> {
        let filter = query.filter(&self.exports)?;
        let slowest = query.slowest.map(|most| Slowest {
            most,
            calls: Vec::new(),
        });
        let mut follower = CallFollower {
            recorder: Arc::clone(self),
            live: None,
            teller: Teller::new(self.exports.clone(), self.started),
            ready: VecDeque::new(),
            slowest,
            until: None,
            lost: Arc::default(),
            told_lost: 0,
        };
        if query.recorded {
            follower.ready = recorded(self, &filter, query.slowest);
            return Ok(follower);
        }
        let (queue, calls) = mpsc::channel(limits::CALLS_QUEUE_MAX);
        let listener = Arc::new(Listener {
            filter,
            least: AtomicU64::new(0),
            queue,
            lost: Arc::clone(&follower.lost),
            lost_by_all: Arc::clone(&self.lost),
        });
        self.listen(&listener)?;
        follower.live = Some((listener, calls));
        let limit = query.for_ms.map(Duration::from_millis);
        follower.until = limit.and_then(|limit| Instant::now().checked_add(limit));
        Ok(follower)
    }

    fn listen(&self, listener: &Arc<Listener>) -> Result<(), String> {
        let mut full = false;
        self.listeners.rcu(|present| {
            full = present.len() >= limits::TRACE_FOLLOWERS_MAX;
            let mut listeners = present.to_vec();
            if !full {
                listeners.push(Arc::clone(listener));
            }
            listeners
        });
        if full {
            let most = limits::TRACE_FOLLOWERS_MAX;
            return Err(format!(
                "{most} follow calls already, which is the most that may; end one of them"
            ));
        }
        self.recount();
        Ok(())
    }

    fn listen_no_more(&self, listener: &Arc<Listener>) {
        self.listeners.rcu(|present| {
            let mut listeners = present.to_vec();
            listeners.retain(|one| !Arc::ptr_eq(one, listener));
            listeners
        });
        self.recount();
    }
}

/// What the flight recorder has of the calls that are wanted: in the order in which they came, or the slowest.
fn recorded(recorder: &Recorder, filter: &Filter, slowest: Option<usize>) -> VecDeque<Told> {
    let mut calls = recorder.all();
    calls.retain(|(_, call)| filter.wants(call));
    match slowest {
        Some(most) => {
            calls.sort_by_key(|(_, call)| std::cmp::Reverse(call.took()));
            calls.truncate(most);
        }
        None => calls.sort_by_key(|(_, call)| call.times.received),
    }
    let boxed = calls
        .into_iter()
        .map(|(shard, call)| (shard, Box::new(call)));
    boxed.collect()
}

impl CallFollower {
    /// The next call or loss; `None` when there will be no more. May be dropped and called again without losing any.
    pub async fn next(&mut self) -> Option<CallLine> {
        loop {
            if let Some(line) = self.at_once() {
                return Some(line);
            }
            let (_, calls) = self.live.as_mut()?;
            let received = match self.until {
                None => calls.recv().await,
                Some(until) => match tokio::time::timeout_at(until, calls.recv()).await {
                    Ok(received) => received,
                    Err(_elapsed) => {
                        self.finish();
                        continue;
                    }
                },
            };
            match received {
                Some(told) => self.take(told),
                None => self.finish(),
            }
        }
    }

    /// The next line if there is one now, without waiting.
    pub fn at_once(&mut self) -> Option<CallLine> {
        while self.ready.is_empty()
            && let Some((_, calls)) = &mut self.live
            && let Ok(told) = calls.try_recv()
        {
            self.take(told);
        }
        // Who waits for the slowest hears of it with them.
        let lost = self.lost.load(Ordering::Relaxed);
        if lost > self.told_lost && self.slowest.is_none() {
            let news = lost - self.told_lost;
            self.told_lost = lost;
            return Some(CallLine::Lost { lost: news });
        }
        let (shard, call) = self.ready.pop_front()?;
        Some(CallLine::Call(Box::new(self.teller.tree(shard, &call))))
    }

    fn take(&mut self, told: Told) {
        let Some(slowest) = &mut self.slowest else {
            self.ready.push_back(told);
            return;
        };
        slowest.take(told);
        if let (Some(least), Some((listener, _))) = (slowest.least(), &self.live) {
            let least = u64::try_from(least.as_nanos()).unwrap_or(u64::MAX);
            listener.least.store(least, Ordering::Relaxed);
        }
    }

    /// The time is over: what was kept is told, and nothing more is listened to.
    fn finish(&mut self) {
        if let Some((listener, _)) = self.live.take() {
            self.recorder.listen_no_more(&listener);
        }
        if let Some(slowest) = self.slowest.take() {
            self.ready.extend(slowest.calls);
        }
    }
}

impl Drop for CallFollower {
    fn drop(&mut self) {
        if let Some((listener, _)) = self.live.take() {
            self.recorder.listen_no_more(&listener);
        }
    }
}

impl fmt::Debug for CallFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallFollower")
    }
}

impl Slowest {
    fn take(&mut self, told: Told) {
        let took = told.1.took();
        let at = self.calls.partition_point(|(_, call)| call.took() >= took);
        if at < self.most {
            self.calls.insert(at, told);
            self.calls.truncate(self.most);
        }
    }

    /// The time that a call must take to be among them; `None` while there is room.
    fn least(&self) -> Option<Duration> {
        let last = self.calls.last().filter(|_| self.calls.len() >= self.most);
        last.map(|(_, call)| call.took())
    }
}
