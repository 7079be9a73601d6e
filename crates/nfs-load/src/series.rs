//! A measurement as it went: what was moved, how long calls took and what the server did, from moment to moment.
//!
//! The load says of each call what came of it, and a thread beside it looks at the clock and at the server. The number
//! of moments is capped: where a measurement goes on, two of them become one, and each is twice as long from then on.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::error::LoadError;
use crate::limits;
use crate::watch::{Look, Watch};

/// The length of a moment, until there are too many.
pub const INTERVAL: Duration = Duration::from_millis(100);
/// What share of the throughput before it tips over is left at most.
pub const TIPPED: f64 = 0.8;

/// A measurement as it went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Memory that the server may use: its cgroup's limit or the machine's, in bytes.
    pub memory_bytes: Option<u64>,
    /// Whether [`Moment::page_cache_bytes`] is that of the server's memory cgroup; otherwise it is the host's.
    pub is_cache_of_group: bool,
    /// Whether the stalls are those of the server's cgroup; otherwise they are the host's.
    pub is_pressure_of_group: bool,
    /// What happened, in the order of time.
    pub moments: Vec<Moment>,
}

/// One of them. What is not known is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// When it ended, in seconds since the load began; it began with the end of the one before.
    pub seconds: f64,
    /// How much was read and written meanwhile, in MiB/s.
    pub mib_per_second: f64,
    /// How many calls were answered meanwhile.
    pub calls: u64,
    /// Bytes that had been written when it ended: how large the data was.
    pub written_bytes: u64,
    /// How long half of the calls took at most, in microseconds.
    pub p50_us: Option<f64>,
    /// How long 99 of 100 calls took at most.
    pub p99_us: Option<f64>,
    /// The longest.
    pub max_us: Option<f64>,
    /// Cores that the server kept busy in its own code.
    pub user_cores: Option<f64>,
    /// Cores that the server kept busy in the kernel.
    pub system_cores: Option<f64>,
    /// Bytes of the data in this host's page cache when it ended.
    pub data_cached_bytes: Option<u64>,
    /// Page cache of the server's cgroup or of the host when it ended, in bytes.
    pub page_cache_bytes: Option<u64>,
    /// Share of the time (0 to 1) in which somebody waited for memory.
    pub memory_stall: Option<f64>,
    /// Share of the time (0 to 1) in which somebody waited for a device.
    pub io_stall: Option<f64>,
}

/// Some moments together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stretch {
    /// How much was read and written, in MiB/s.
    pub mib_per_second: f64,
    /// The middle one of what 99 of 100 calls took at most.
    pub p99_us: Option<f64>,
    /// Cores that the server kept busy in the kernel.
    pub system_cores: Option<f64>,
    /// Share of the time in which somebody waited for memory.
    pub memory_stall: Option<f64>,
    /// Share of the time in which somebody waited for a device.
    pub io_stall: Option<f64>,
}

impl Series {
    /// The moments until the last call was answered; those of the COMMIT follow.
    #[must_use]
    pub fn moving(&self) -> &[Moment] {
        let end = self.moments.iter().rposition(|moment| moment.calls > 0);
        self.moments
            .get(..end.map_or(0, |end| end + 1))
            .unwrap_or_default()
    }

    /// The first moment after it tipped over: where the throughput falls most, if less than [`TIPPED`] of it is left
    /// from there on.
    #[must_use]
    pub fn tipped_at(&self) -> Option<usize> {
        let moments = self.moving();
        // What is at the ends alone is no level.
        let margin = (moments.len() / 10).max(3);
        let all: f64 = moments.iter().map(|moment| moment.mib_per_second).sum();
        let (mut sum, mut best) = (0.0, None::<(f64, usize, bool)>);
        for (at, moment) in moments.iter().enumerate() {
            let (count, rest) = (at as f64, (moments.len() - at) as f64);
            if at >= margin && at + margin <= moments.len() {
                let (before, after) = (sum / count, (all - sum) / rest);
                // Two levels fit best where this, which is what they explain of the variance, is largest.
                let explained = count * rest * (before - after).powi(2);
                if best.is_none_or(|(most, ..)| explained > most) {
                    best = Some((explained, at, after < before * TIPPED));
                }
            }
            sum += moment.mib_per_second;
        }
        best.filter(|(_, _, has_tipped)| *has_tipped)
            .map(|(_, at, _)| at)
    }

    /// The first moment at the end of which the data was larger than memory.
    #[must_use]
    pub fn outgrown_at(&self) -> Option<usize> {
        let memory = self.memory_bytes?;
        let moments = self.moving();
        moments
            .iter()
            .position(|moment| moment.written_bytes > memory)
    }

    /// The moments before and after it tipped over, or, where it did not, before and after the data outgrew memory.
    #[must_use]
    pub fn sides(&self) -> Option<(Stretch, Stretch)> {
        let at = self.tipped_at().or_else(|| self.outgrown_at())?;
        let end = self.moving().len();
        (at > 0 && at < end).then(|| (self.stretch(0..at), self.stretch(at..end)))
    }

    /// The most of the data that was in the page cache, in bytes.
    #[must_use]
    pub fn data_cached_bytes_max(&self) -> Option<u64> {
        let cached = self.moments.iter().map(|moment| moment.data_cached_bytes);
        cached.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// Bytes of the data when all of it was written.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.moments.last().map_or(0, |moment| moment.written_bytes)
    }

    fn stretch(&self, range: Range<usize>) -> Stretch {
        let start = range
            .start
            .checked_sub(1)
            .and_then(|at| self.moments.get(at));
        let mut before = start.map_or(0.0, |moment| moment.seconds);
        let moments = self.moments.get(range).unwrap_or_default();
        let lengths: Vec<f64> = moments
            .iter()
            .map(|moment| moment.seconds - std::mem::replace(&mut before, moment.seconds))
            .collect();
        let all: f64 = lengths.iter().sum();
        let mean = |value: fn(&Moment) -> Option<f64>| -> Option<f64> {
            let each = moments.iter().zip(&lengths);
            let sum: Option<f64> = each.map(|(one, length)| Some(value(one)? * length)).sum();
            sum.map(|sum| sum / all.max(1e-9))
        };
        Stretch {
            mib_per_second: mean(|one| Some(one.mib_per_second)).unwrap_or_default(),
            p99_us: crate::spread::median(moments.iter().filter_map(|one| one.p99_us)),
            system_cores: mean(|one| one.system_cores),
            memory_stall: mean(|one| one.memory_stall),
            io_stall: mean(|one| one.io_stall),
        }
    }
}

/// What one thread of a load says of its calls since it was last asked.
#[derive(Debug)]
struct Heard {
    /// In microseconds.
    latencies: Histogram<u64>,
    bytes: u64,
    written: u64,
}

/// Where a thread of a load says it. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Ear(Arc<Mutex<Heard>>);

impl Ear {
    pub(crate) fn new() -> Result<Self, LoadError> {
        Ok(Self(Arc::new(Mutex::new(Heard {
            latencies: histogram()?,
            bytes: 0,
            written: 0,
        }))))
    }

    /// A call was answered that moved `bytes`, of which `written` make the data larger.
    pub(crate) fn hear(&self, latency: Duration, bytes: u64, written: u64) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.latencies.saturating_record(us.max(1));
        heard.bytes += bytes;
        heard.written += written;
    }

    /// Adds what was heard to `piece`, and forgets it.
    fn tell(&self, piece: &mut Piece) -> Result<(), LoadError> {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        add(&mut piece.latencies, &heard.latencies)?;
        piece.bytes += std::mem::take(&mut heard.bytes);
        piece.written += std::mem::take(&mut heard.written);
        heard.latencies.reset();
        Ok(())
    }
}

/// Two digits are as much as a picture shows, and there is a table for each moment.
fn histogram() -> Result<Histogram<u64>, LoadError> {
    let made = Histogram::new_with_bounds(1, limits::LATENCY_NANOSECONDS_MAX / 1000, 2);
    made.map_err(|error| LoadError::Setting(format!("histogram: {error}")))
}

fn add(all: &mut Histogram<u64>, more: &Histogram<u64>) -> Result<(), LoadError> {
    all.add(more)
        .map_err(|error| LoadError::Setting(format!("histogram: {error}")))
}

/// A moment that may still become part of a longer one.
#[derive(Debug)]
struct Piece {
    latencies: Histogram<u64>,
    bytes: u64,
    written: u64,
    /// Since the load began, at its end.
    end: Duration,
    /// At its end.
    look: Look,
}

/// The pieces of a series that is being made.
struct Pieces {
    done: Vec<Piece>,
    interval: Duration,
    most: usize,
}

impl Pieces {
    fn push(&mut self, piece: Piece) -> Result<(), LoadError> {
        self.done.push(piece);
        if self.done.len() < self.most {
            return Ok(());
        }
        let mut pieces = std::mem::take(&mut self.done).into_iter();
        while let Some(mut first) = pieces.next() {
            if let Some(second) = pieces.next() {
                add(&mut first.latencies, &second.latencies)?;
                first.bytes += second.bytes;
                first.written += second.written;
                (first.end, first.look) = (second.end, second.look);
            }
            self.done.push(first);
        }
        self.interval *= 2;
        Ok(())
    }
}

/// Looks at a load and its server until `done`; the thread of it is to be unparked then.
pub(crate) fn watch(
    ears: &[Ear],
    watch: &Watch,
    begin: Instant,
    done: &AtomicBool,
) -> Result<Series, LoadError> {
    let first = watch.look();
    let mut pieces = Pieces {
        done: Vec::new(),
        interval: INTERVAL,
        most: limits::SERIES_MOMENTS_MAX,
    };
    let mut next = begin + INTERVAL;
    loop {
        while let Some(rest) = next.checked_duration_since(Instant::now()) {
            if done.load(Ordering::Acquire) {
                break;
            }
            std::thread::park_timeout(rest);
        }
        // What is heard after the load has ended is all of it.
        let is_last = done.load(Ordering::Acquire);
        let mut piece = Piece {
            latencies: histogram()?,
            bytes: 0,
            written: 0,
            end: begin.elapsed(),
            look: watch.look(),
        };
        for ear in ears {
            ear.tell(&mut piece)?;
        }
        pieces.push(piece)?;
        if is_last {
            break;
        }
        next = (next + pieces.interval).max(Instant::now());
    }
    let (is_cache_of_group, is_pressure_of_group) = watch.is_of_group();
    Ok(Series {
        memory_bytes: watch.memory_bytes(),
        is_cache_of_group,
        is_pressure_of_group,
        moments: moments(first, &pieces.done),
    })
}

fn moments(mut last: Look, pieces: &[Piece]) -> Vec<Moment> {
    let (mut end, mut written) = (Duration::ZERO, 0);
    let each = pieces.iter().map(|piece| {
        let seconds = piece.end.saturating_sub(end).as_secs_f64().max(1e-9);
        let look = piece.look;
        let share =
            |of: fn(&Look) -> Option<f64>| Some((of(&look)? - of(&last)?).max(0.0) / seconds);
        let us = |quantile| {
            let some = (!piece.latencies.is_empty()).then_some(&piece.latencies);
            some.map(|times| times.value_at_quantile(quantile) as f64)
        };
        written += piece.written;
        let moment = Moment {
            seconds: piece.end.as_secs_f64(),
            mib_per_second: piece.bytes as f64 / f64::from(1 << 20) / seconds,
            calls: piece.latencies.len(),
            written_bytes: written,
            p50_us: us(0.5),
            p99_us: us(0.99),
            max_us: us(1.0),
            user_cores: share(|look| look.user_seconds),
            system_cores: share(|look| look.system_seconds),
            data_cached_bytes: look.data_cached_bytes,
            page_cache_bytes: look.page_cache_bytes,
            memory_stall: share(|look| look.memory_stall_seconds),
            io_stall: share(|look| look.io_stall_seconds),
        };
        (end, last) = (piece.end, look);
        moment
    });
    each.collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A series of these throughputs, a second each, in which half of what is moved is written.
    pub(crate) fn series(throughputs: &[f64], memory_bytes: Option<u64>) -> Series {
        let mut written = 0;
        let moments = throughputs.iter().enumerate().map(|(at, mib)| {
            written += (*mib as u64) << 19;
            Moment {
                seconds: (at + 1) as f64,
                mib_per_second: *mib,
                calls: *mib as u64,
                written_bytes: written,
                p50_us: (*mib > 0.0).then(|| 1e6 / mib),
                p99_us: (*mib > 0.0).then(|| 4e6 / mib),
                max_us: (*mib > 0.0).then(|| 8e6 / mib),
                user_cores: Some(0.25),
                system_cores: Some(0.5),
                data_cached_bytes: Some(written / 4),
                page_cache_bytes: Some(written),
                memory_stall: Some(0.125),
                io_stall: Some(0.25),
            }
        });
        Series {
            memory_bytes,
            is_cache_of_group: true,
            is_pressure_of_group: false,
            moments: moments.collect(),
        }
    }

    #[test]
    fn it_tips_over_where_the_throughput_falls_and_stays_low() {
        let fell = [
            990.0, 1010.0, 1000.0, 1005.0, 500.0, 410.0, 390.0, 400.0, 395.0,
        ];
        let found = series(&fell, None);
        assert_eq!(found.tipped_at(), Some(4));
        let (before, after) = found.sides().unwrap();
        assert!((before.mib_per_second - 1001.25).abs() < 1e-9, "{before:?}");
        assert!((after.mib_per_second - 419.0).abs() < 1e-9, "{after:?}");
        assert!(after.p99_us > before.p99_us);
        assert_eq!(
            (before.system_cores, before.io_stall),
            (Some(0.5), Some(0.25))
        );
    }

    #[test]
    fn what_goes_up_or_wavers_or_ends_with_a_commit_does_not_tip_over() {
        let rises = [300.0, 400.0, 1000.0, 1000.0, 1010.0, 1000.0, 990.0];
        let wavers = [1000.0, 900.0, 1000.0, 880.0, 990.0, 900.0, 1010.0, 905.0];
        let commits = [1000.0, 1000.0, 1000.0, 1000.0, 1000.0, 0.0, 0.0, 0.0, 0.0];
        for throughputs in [&rises[..], &wavers, &commits, &[1000.0, 10.0], &[]] {
            assert_eq!(
                series(throughputs, None).tipped_at(),
                None,
                "{throughputs:?}"
            );
            assert_eq!(series(throughputs, None).sides(), None, "{throughputs:?}");
        }
        assert_eq!(series(&commits, None).moving().len(), 5);
    }

    #[test]
    fn data_that_outgrows_memory_divides_what_does_not_tip_over() {
        let found = series(&[100.0; 10], Some(160 << 20));
        assert_eq!((found.tipped_at(), found.outgrown_at()), (None, Some(3)));
        let (before, after) = found.sides().unwrap();
        assert_eq!(
            (before.mib_per_second, after.mib_per_second),
            (100.0, 100.0)
        );
        assert_eq!(series(&[100.0; 10], Some(1 << 40)).sides(), None);
        assert_eq!(found.written_bytes(), 500 << 20);
        assert_eq!(found.data_cached_bytes_max(), Some(125 << 20));
    }

    #[test]
    fn moments_become_longer_where_there_are_too_many() {
        let mut pieces = Pieces {
            done: Vec::new(),
            interval: INTERVAL,
            most: 8,
        };
        let ear = Ear::new().unwrap();
        for second in 1..=21 {
            ear.hear(Duration::from_micros(second), 2 << 20, 1 << 20);
            let mut piece = Piece {
                latencies: histogram().unwrap(),
                bytes: 0,
                written: 0,
                end: Duration::from_secs(second),
                look: Look {
                    system_seconds: Some(second as f64 / 2.0),
                    ..Look::default()
                },
            };
            ear.tell(&mut piece).unwrap();
            pieces.push(piece).unwrap();
            assert!(pieces.done.len() < 8);
        }
        assert!(pieces.interval >= INTERVAL * 4, "{:?}", pieces.interval);
        let look = Look {
            system_seconds: Some(0.0),
            ..Look::default()
        };
        let moments = moments(look, &pieces.done);
        let calls: u64 = moments.iter().map(|moment| moment.calls).sum();
        assert_eq!(
            (calls, moments.last().unwrap().written_bytes),
            (21, 21 << 20)
        );
        for moment in &moments {
            assert!((moment.mib_per_second - 2.0).abs() < 1e-9, "{moment:?}");
            assert!(
                (moment.system_cores.unwrap() - 0.5).abs() < 1e-9,
                "{moment:?}"
            );
            assert_eq!(moment.user_cores, None);
        }
        assert_eq!(moments.last().unwrap().max_us, Some(21.0));
        assert_eq!(moments.last().unwrap().seconds, 21.0);
    }
}
