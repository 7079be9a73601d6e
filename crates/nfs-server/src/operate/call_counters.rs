//! What became of calls: of each procedure of NFSv3 and each operation of NFSv4 how many there were, with which
//! errors, and how long they took; of READ and WRITE for each I/O mode.
//!
//! A [`CallCounters`] belongs to an export and is kept over reloads for as long as that stays; one more is for what
//! belongs to no export. A shard adds to its own figures, which it makes for each procedure when it is first called:
//! about 250 bytes for each that is in use. Figures only grow.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nfs_io::Mode;
use nfs_wire::nfs3::Procedure;
use nfs_wire::nfs4::Opnum;
use parking_lot::Mutex;

use super::metrics::{Builder, Histogram, OPERATION_DURATION, OPERATION_ERRORS, OPERATIONS};
use super::stripes::Striped;

/// What was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Called {
    /// A procedure of NFSv3.
    V3(Procedure),
    /// An operation of NFSv4.
    V4(Opnum),
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) called: Called,
    /// The I/O mode that was decided, of a READ or WRITE that went well.
    pub(crate) mode: Option<Mode>,
    /// The word of its status, of one that failed.
    pub(crate) error: Option<&'static str>,
    pub(crate) took: Duration,
}

/// The figures of one export.
#[derive(Default)]
pub(crate) struct CallCounters(Striped<OnceLock<Row>>);

/// What one shard counts, by [`place`].
struct Row(Box<[OnceLock<Box<Cell>>]>);

/// One procedure or operation, in one mode.
#[derive(Default)]
struct Cell {
    /// How many took less than each of [`BOUNDS`] and no less than the one before, and how many took longer.
    buckets: [AtomicU64; BUCKETS],
    nanoseconds: AtomicU64,
    /// Few: no more than there are statuses.
    errors: Mutex<Vec<(&'static str, u64)>>,
}

/// The exponents of the bounds of times: powers of two microseconds, from 2^3 (8 us) to 2^24 (16.8 s).
const BOUNDS: std::ops::RangeInclusive<u32> = FIRST_BOUND..=24;
const FIRST_BOUND: u32 = 3;
const BUCKETS: usize = 24 - FIRST_BOUND as usize + 2;

const PROCEDURES: usize = Procedure::ALL.len();
const OPERATIONS_AT: usize = PROCEDURES;
const MODES_AT: usize = OPERATIONS_AT + Opnum::ALL.len();
const PLACES: usize = MODES_AT + MODED.len() * Mode::ALL.len();

/// What is counted for each mode.
const MODED: [Called; 5] = [
    Called::V3(Procedure::Read),
    Called::V3(Procedure::Write),
    Called::V4(Opnum::Read),
    Called::V4(Opnum::Write),
    Called::V4(Opnum::ReadPlus),
];

impl Called {
    /// Its name in the RFC, and the version of NFS.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::V3(procedure) => (procedure.name(), "3"),
            Self::V4(operation) => (operation.name(), "4"),
        }
    }
}

/// Where a call is counted. `None` for an operation that is in no table, of which there are none.
fn place(called: Called, mode: Option<Mode>) -> Option<usize> {
    if let Some(mode) = mode
        && let Some(moded) = MODED.iter().position(|it| *it == called)
    {
        return Some(MODES_AT + moded * Mode::ALL.len() + mode as usize);
    }
    match called {
        Called::V3(procedure) => Some(procedure as usize),
        Called::V4(operation) => {
            let found = Opnum::ALL.binary_search_by_key(&operation.number(), |it| it.number());
            found.ok().map(|place| OPERATIONS_AT + place)
        }
    }
}

/// Everything that is counted, in the order of [`place`].
fn places() -> impl Iterator<Item = (Called, Option<Mode>)> {
    let procedures = Procedure::ALL.iter().map(|it| (Called::V3(*it), None));
    let operations = Opnum::ALL.iter().map(|it| (Called::V4(*it), None));
    let moded = MODED.into_iter();
    let moded = moded.flat_map(|it| Mode::ALL.into_iter().map(move |mode| (it, Some(mode))));
    procedures.chain(operations).chain(moded)
}

impl Default for Row {
    fn default() -> Self {
        Self(std::iter::repeat_with(OnceLock::new).take(PLACES).collect())
    }
}

impl CallCounters {
    /// Counts one call.
    pub(crate) fn record(&self, ended: &Ended) {
        let row = self.0.own().map(|row| row.get_or_init(Row::default));
        let place = place(ended.called, ended.mode);
        let cell = row.zip(place).and_then(|(row, place)| row.0.get(place));
        if let Some(cell) = cell {
            cell.get_or_init(Box::default).record(ended);
        }
    }

    /// Adds the figures of the export that clients mount as `export`.
    pub(crate) fn measure(&self, export: &str, into: &mut Builder) {
        for (number, (called, mode)) in places().enumerate() {
            let rows = self.0.all().filter_map(OnceLock::get);
            let cells = rows.filter_map(|row| row.0.get(number)?.get());
            let mut sum = Sum::default();
            for cell in cells {
                sum.add(cell);
            }
            let (procedure, version) = called.words();
            let mode = mode.map_or("", Mode::word);
            for (status, times) in &sum.errors {
                let labels = [export, procedure, version, status];
                into.number(&OPERATION_ERRORS, &labels, *times);
            }
            if let Some(histogram) = sum.histogram() {
                let labels = [export, procedure, version, mode];
                into.number(&OPERATIONS, &labels, histogram.count);
                into.histogram(&OPERATION_DURATION, &labels, histogram);
            }
        }
    }
}

impl Cell {
    fn record(&self, ended: &Ended) {
        if let Some(bucket) = self.buckets.get(bucket_of(ended.took)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        let nanoseconds = u64::try_from(ended.took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        let Some(error) = ended.error else {
            return;
        };
        let mut errors = self.errors.lock();
        match errors.iter_mut().find(|(status, _)| *status == error) {
            Some((_, times)) => *times += 1,
            None => errors.push((error, 1)),
        }
    }
}

/// The bucket of a time.
fn bucket_of(took: Duration) -> usize {
    let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let bits = u64::BITS - microseconds.leading_zeros();
    (bits.saturating_sub(FIRST_BOUND) as usize).min(BUCKETS - 1)
}

/// What the shards counted together.
#[derive(Default)]
struct Sum {
    buckets: [u64; BUCKETS],
    nanoseconds: u64,
    errors: BTreeMap<&'static str, u64>,
}

impl Sum {
    fn add(&mut self, cell: &Cell) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&cell.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
        self.nanoseconds += cell.nanoseconds.load(Ordering::Relaxed);
        for (status, times) in cell.errors.lock().iter() {
            *self.errors.entry(status).or_default() += times;
        }
    }

    fn histogram(&self) -> Option<Histogram> {
        let mut below = 0;
        let bounds = BOUNDS.zip(&self.buckets);
        let buckets = bounds.map(|(power, bucket)| {
            below += bucket;
            ((1_u64 << power) as f64 / 1e6, below)
        });
        let buckets = buckets.collect();
        let count = self.buckets.iter().sum();
        (count > 0).then(|| Histogram {
            buckets,
            sum: self.nanoseconds as f64 / 1e9,
            count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::metrics::{Snapshot, Value};
    use super::*;

    fn ended(called: Called, microseconds: u64) -> Ended {
        Ended {
            called,
            mode: None,
            error: None,
            took: Duration::from_micros(microseconds),
        }
    }

    fn measured(counters: &CallCounters) -> Snapshot {
        let mut into = Builder::default();
        counters.measure("/a", &mut into);
        into.build()
    }

    #[test]
    fn everything_has_a_place_of_its_own() {
        assert_eq!(places().count(), PLACES);
        for (number, (called, mode)) in places().enumerate() {
            assert_eq!(place(called, mode), Some(number), "{called:?} {mode:?}");
        }
    }

    #[test]
    fn a_histogram_counts_what_took_less_than_its_bounds() {
        let counters = CallCounters::default();
        for time in [0, 7, 8, 1000, 30_000_000] {
            counters.record(&ended(Called::V3(Procedure::Getattr), time));
        }
        let snapshot = measured(&counters);
        let sample = &snapshot.family(&OPERATION_DURATION).unwrap().samples[0];
        let Value::Histogram(histogram) = &sample.value else {
            panic!("{sample:?}");
        };
        assert!(sample.has(&[("export", "/a"), ("procedure", "GETATTR"), ("mode", "")]));
        assert_eq!(histogram.count, 5);
        assert!((histogram.sum - 30.001_015).abs() < 1e-9, "{histogram:?}");
        let of = |bound: f64| {
            let bucket = histogram.buckets.iter().find(|(it, _)| *it == bound);
            bucket.unwrap().1
        };
        assert_eq!((of(0.000_008), of(0.000_016), of(0.000_512)), (2, 3, 3));
        assert_eq!((of(0.001_024), of(16.777_216)), (4, 4));
        assert!(
            histogram
                .buckets
                .is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1)
        );
    }

    #[test]
    fn errors_and_modes_are_told_apart() {
        let counters = CallCounters::default();
        let read = Called::V4(Opnum::Read);
        counters.record(&Ended {
            mode: Some(Mode::Direct),
            ..ended(read, 1)
        });
        for error in ["NFS4ERR_IO", "NFS4ERR_IO", "NFS4ERR_STALE"] {
            counters.record(&Ended {
                error: Some(error),
                ..ended(read, 1)
            });
        }
        let snapshot = measured(&counters);
        assert_eq!(snapshot.sum(&OPERATIONS, &[("procedure", "READ")]), 4.0);
        assert_eq!(snapshot.sum(&OPERATIONS, &[("mode", "direct")]), 1.0);
        assert_eq!(snapshot.sum(&OPERATION_ERRORS, &[("version", "4")]), 3.0);
        assert_eq!(
            snapshot.sum(&OPERATION_ERRORS, &[("status", "NFS4ERR_IO")]),
            2.0
        );
    }
}
