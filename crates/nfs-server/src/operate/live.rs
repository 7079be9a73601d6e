//! The live picture of a server: what `penstock top` and the web page show, made of a series of
//! [`Snapshot`]s.
//!
//! Pure: snapshots come in, rates, percentiles and a bounded history come out; the time is that of the snapshots.
//! Where two snapshots cannot be compared (the server was started again between them, the clock was set, nobody
//! looked for long) there are no rates, rather than absurd ones.

mod distribution;
mod figures;
mod interval;
mod moment;
mod rows;
mod web;

use std::collections::VecDeque;
use std::time::Duration;

pub use distribution::{Distribution, Percentiles};
pub use figures::CallKey;
pub use interval::{Calls, ClientRates, HostRates, Interval};
pub use moment::{Flow, Moment, Moving, Way};
pub use web::{Part, Web};

pub use rows::{CallRow, ClientRow, ExportRow, Group, call_rows, client_rows, export_rows};

use crate::limits::{LIVE_APART_MS_MAX, LIVE_APART_MS_MIN, LIVE_MOMENTS_MAX};
use crate::operate::metrics::Snapshot;

use figures::Figures;

/// Watches a server. Keeps what the last snapshot said and a bounded history.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    last: Option<Figures>,
    now: Option<Interval>,
    moments: VecDeque<Moment>,
}

impl Watch {
    /// Takes the next snapshot in. One that is too close to the one before is left out.
    pub fn add(&mut self, snapshot: &Snapshot) {
        let now = Figures::of(snapshot);
        let Some(before) = &self.last else {
            self.last = Some(now);
            return;
        };
        let apart_ms = now.at_unix_ms.checked_sub(before.at_unix_ms);
        if apart_ms.is_some_and(|ms| ms < LIVE_APART_MS_MIN) {
            return;
        }
        // `None` where the clock was set back.
        let apart_ms = apart_ms.filter(|ms| *ms <= LIVE_APART_MS_MAX);
        let can_compare = apart_ms.is_some() && !has_restarted(before, &now);
        let seconds = Duration::from_millis(apart_ms.unwrap_or(0)).as_secs_f64();
        let interval = Interval::between(before, &now, seconds, can_compare);
        if self.moments.len() >= LIVE_MOMENTS_MAX {
            self.moments.pop_front();
        }
        self.moments.push_back(Moment::of(&interval));
        self.now = Some(interval);
        self.last = Some(now);
    }

    /// What happened between the last two snapshots. `None` until there are two.
    #[must_use]
    pub const fn now(&self) -> Option<&Interval> {
        self.now.as_ref()
    }

    /// What was, the oldest moment first.
    pub fn moments(&self) -> impl DoubleEndedIterator<Item = &Moment> + ExactSizeIterator {
        self.moments.iter()
    }
}

/// Whether the later figures are those of another process: what only grows in one has become less.
fn has_restarted(before: &Figures, now: &Figures) -> bool {
    let less = |before: Option<f64>, now: Option<f64>| {
        before.zip(now).is_some_and(|(before, now)| now < before)
    };
    let (old, new) = (&before.host, &now.host);
    less(old.uptime_seconds, new.uptime_seconds)
        || less(old.user_seconds, new.user_seconds)
        || less(old.system_seconds, new.system_seconds)
        || before.took.iter().any(|(key, old)| {
            let new = now.took.get(key);
            new.is_some_and(|new| new.count < old.count)
        })
}

#[cfg(test)]
mod tests;
