//! How the bytes of READ and WRITE were moved: counted per export, operation and mode decided.
//!
//! An [`IoCounters`] belongs to an export, not to its settings: it is kept over reloads for as long as
//! the export stays. Figures only grow and are added up when somebody asks.
//!
//! Every shard counts into a stripe of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use nfs_io::plan::Fallback;
use nfs_io::{Mode, auto};
use serde::{Deserialize, Serialize};

use crate::exports::policy::Io;
use crate::operate::metrics::{
    AUTO_CALLS, AUTO_CHANGES, Builder, IO_CALLS, IO_COPIED_BYTES, IO_FALLBACKS, IO_MOVED_BYTES,
    READ_AHEAD_ANSWERED_BYTES, READ_AHEAD_BYTES, READ_AHEAD_DROPPED_BYTES, READ_BYTES,
    READ_SPLICED_BYTES, WRITTEN_BYTES,
};
use crate::operate::stripes::Striped;

/// Why bytes did not go the way that was decided for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    AlignmentUnknown,
    ShorterThanAlignment,
    NoAlignedMiddle,
    MemoryNotCongruent,
    RefusedDirect,
    RefusedDontCache,
    OpenRefused,
    DirectFailed,
}

impl Reason {
    /// All reasons, in the order in which the tables of figures show them.
    pub(crate) const ALL: [Self; 8] = [
        Self::AlignmentUnknown,
        Self::ShorterThanAlignment,
        Self::NoAlignedMiddle,
        Self::MemoryNotCongruent,
        Self::RefusedDirect,
        Self::RefusedDontCache,
        Self::OpenRefused,
        Self::DirectFailed,
    ];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::AlignmentUnknown => Fallback::AlignmentUnknown.word(),
            Self::ShorterThanAlignment => Fallback::ShorterThanAlignment.word(),
            Self::NoAlignedMiddle => Fallback::NoAlignedMiddle.word(),
            Self::MemoryNotCongruent => Fallback::MemoryNotCongruent.word(),
            Self::RefusedDirect => "refused-direct",
            Self::RefusedDontCache => "refused-dontcache",
            Self::OpenRefused => "open-refused",
            Self::DirectFailed => "direct-failed",
        }
    }

    /// The reason in a sentence for the operator, without its full stop.
    pub(crate) fn sentence(self) -> String {
        let own = match self {
            Self::AlignmentUnknown => return Fallback::AlignmentUnknown.to_string(),
            Self::ShorterThanAlignment => return Fallback::ShorterThanAlignment.to_string(),
            Self::NoAlignedMiddle => return Fallback::NoAlignedMiddle.to_string(),
            Self::MemoryNotCongruent => return Fallback::MemoryNotCongruent.to_string(),
            Self::RefusedDirect => "the file system or its device refused a direct transfer",
            Self::RefusedDontCache => "the file system does not know RWF_DONTCACHE",
            Self::OpenRefused => "the file cannot be opened with O_DIRECT",
            Self::DirectFailed => {
                "a direct read failed (a local program may be writing to the mapped file) and was tried again"
            }
        };
        own.to_owned()
    }
}

impl From<Fallback> for Reason {
    fn from(fallback: Fallback) -> Self {
        match fallback {
            Fallback::AlignmentUnknown => Self::AlignmentUnknown,
            Fallback::ShorterThanAlignment => Self::ShorterThanAlignment,
            Fallback::NoAlignedMiddle => Self::NoAlignedMiddle,
            Fallback::MemoryNotCongruent => Self::MemoryNotCongruent,
        }
    }
}

/// Why a piece that was read ahead is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Dropped {
    Unasked,
    Left,
    Written,
    ChangedLocally,
    MemoryWanted,
    Failed,
    Closed,
}

impl Dropped {
    /// All reasons, in the order in which the tables of figures show them.
    pub(crate) const ALL: [Self; 7] = [
        Self::Unasked,
        Self::Left,
        Self::Written,
        Self::ChangedLocally,
        Self::MemoryWanted,
        Self::Failed,
        Self::Closed,
    ];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Unasked => "unasked",
            Self::Left => "left",
            Self::Written => "written",
            Self::ChangedLocally => "changed-locally",
            Self::MemoryWanted => "memory-wanted",
            Self::Failed => "failed",
            Self::Closed => "closed",
        }
    }
}

/// Why nothing was read ahead of a READ that might have been one of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HeldBack {
    ChangedLately,
    NoMemory,
}

impl HeldBack {
    /// All reasons, in the order in which the tables of figures show them.
    pub(crate) const ALL: [Self; 2] = [Self::ChangedLately, Self::NoMemory];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::ChangedLately => "changed-lately",
            Self::NoMemory => "no-memory",
        }
    }
}

/// What one call moved and how, gathered while it runs and counted once, at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    bytes: u64,
    segments: u64,
    by_kind: PerMode<u64>,
    /// A bit for each [`Reason`]: met twice within one call, it counts once.
    fallbacks: u16,
    copied: u64,
    spliced: u64,
}

impl Tally {
    /// Bytes of the call itself: of a READ those in the reply, of a WRITE those acknowledged.
    pub(crate) const fn set_bytes(&mut self, bytes: usize) {
        self.bytes = bytes as u64;
    }

    /// A segment was moved, `bytes` of it between memory and file in mode `kind`. Of a READ that was
    /// rounded out these are more than the reply carries.
    pub(crate) const fn segment(&mut self, kind: Mode, bytes: usize) {
        self.segments += 1;
        *self.by_kind.of_mut(kind) += bytes as u64;
    }

    /// Takes note that something of the call went another way than was decided. Each reason counts once per
    /// call.
    pub(crate) const fn fallback(&mut self, reason: Reason) {
        self.fallbacks |= 1 << reason as u16;
    }

    /// The server itself copied this many bytes of the payload from memory to memory.
    pub(crate) const fn copied(&mut self, bytes: usize) {
        self.copied += bytes as u64;
    }

    /// So many bytes of a READ go from the page cache to the socket without a copy.
    pub(crate) const fn spliced(&mut self, bytes: usize) {
        self.spliced += bytes as u64;
    }
}

/// The figures of one export: how the bytes of its READs and WRITEs were moved.
#[derive(Default)]
pub(crate) struct IoCounters {
    stripes: Striped<Stripe>,
}

/// What one shard counts.
#[derive(Default)]
struct Stripe {
    read: PerMode<Row>,
    write: PerMode<Row>,
    ahead: AheadRow,
}

/// What was read ahead of direct READs.
#[derive(Default)]
struct AheadRow {
    pieces: AtomicU64,
    bytes: AtomicU64,
    answered: AtomicU64,
    answered_bytes: AtomicU64,
    dropped_bytes: [AtomicU64; Dropped::ALL.len()],
    held_back: [AtomicU64; HeldBack::ALL.len()],
}

#[derive(Default)]
struct Row {
    calls: AtomicU64,
    bytes: AtomicU64,
    segments: AtomicU64,
    by_kind: PerMode<AtomicU64>,
    fallbacks: [AtomicU64; REASONS],
    copied: AtomicU64,
    spliced: AtomicU64,
    auto: AutoRow,
}

/// Calls for which the mode was chosen from what was seen of their file.
#[derive(Default)]
struct AutoRow {
    taken: AtomicU64,
    told: AtomicU64,
    changes: [AtomicU64; auto::Reason::ALL.len()],
}

impl Stripe {
    fn row(&self, io: Io, mode: Mode) -> &Row {
        match io {
            Io::Read => self.read.of(mode),
            Io::Write => self.write.of(mode),
        }
    }
}

/// A value for each mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PerMode<T> {
    buffered: T,
    dontcache: T,
    direct: T,
}

impl<T> PerMode<T> {
    const fn of(&self, mode: Mode) -> &T {
        match mode {
            Mode::Buffered => &self.buffered,
            Mode::DontCache => &self.dontcache,
            Mode::Direct => &self.direct,
        }
    }

    const fn of_mut(&mut self, mode: Mode) -> &mut T {
        match mode {
            Mode::Buffered => &mut self.buffered,
            Mode::DontCache => &mut self.dontcache,
            Mode::Direct => &mut self.direct,
        }
    }
}

impl IoCounters {
    /// Counts one call, whatever came of it: `decided` is the mode that the policy chose, `tally` what
    /// happened.
    pub(crate) fn record(&self, io: Io, decided: Mode, tally: &Tally) {
        // There is one at least.
        let Some(stripe) = self.stripe() else {
            return;
        };
        let row = stripe.row(io, decided);
        add(&row.calls, 1);
        add(&row.bytes, tally.bytes);
        add(&row.segments, tally.segments);
        for kind in Mode::ALL {
            add(row.by_kind.of(kind), *tally.by_kind.of(kind));
        }
        if tally.fallbacks != 0 {
            for (number, counter) in row.fallbacks.iter().enumerate() {
                add(counter, u64::from(tally.fallbacks >> number & 1));
            }
        }
        add(&row.copied, tally.copied);
        add(&row.spliced, tally.spliced);
    }

    /// A mode was chosen from what was seen of a file, and `taken` or only told.
    pub(crate) fn judged(&self, io: Io, verdict: &auto::Verdict, taken: bool) {
        let Some(stripe) = self.stripe() else {
            return;
        };
        let row = &stripe.row(io, verdict.mode).auto;
        add(if taken { &row.taken } else { &row.told }, 1);
        if let Some(switch) = verdict.switch
            && let Some(counter) = row.changes.get(switch.reason as usize)
        {
            add(counter, 1);
        }
    }

    /// A piece was read ahead, `bytes` of it: they went past the page cache, for no call.
    pub(crate) fn read_ahead(&self, bytes: usize) {
        if let Some(stripe) = self.stripe() {
            let row = stripe.row(Io::Read, Mode::Direct);
            add(&row.segments, 1);
            add(row.by_kind.of(Mode::Direct), bytes as u64);
            add(&stripe.ahead.pieces, 1);
            add(&stripe.ahead.bytes, bytes as u64);
        }
    }

    /// A READ was answered with `bytes` that were read ahead.
    pub(crate) fn answered_ahead(&self, bytes: u64) {
        if let Some(stripe) = self.stripe() {
            add(&stripe.ahead.answered, 1);
            add(&stripe.ahead.answered_bytes, bytes);
        }
    }

    /// So many bytes were read ahead, or were to be, and nobody was answered with them.
    pub(crate) fn dropped_ahead(&self, why: Dropped, bytes: u64) {
        let stripe = self.stripe();
        let counter = stripe.and_then(|stripe| stripe.ahead.dropped_bytes.get(why as usize));
        if let Some(counter) = counter {
            add(counter, bytes);
        }
    }

    /// Nothing was read ahead of a READ.
    pub(crate) fn held_back_ahead(&self, why: HeldBack) {
        let stripe = self.stripe();
        let counter = stripe.and_then(|stripe| stripe.ahead.held_back.get(why as usize));
        if let Some(counter) = counter {
            add(counter, 1);
        }
    }

    /// The rows that count anything, for the export that clients mount as `pseudo`.
    pub(crate) fn stats(&self, pseudo: &str) -> Vec<IoStatus> {
        let mut rows = Vec::new();
        for io in Io::ALL {
            for mode in Mode::ALL {
                let row = self.sum(pseudo, io, mode);
                if row.calls > 0 || row.auto.is_some() {
                    rows.push(row);
                }
            }
        }
        rows
    }

    fn sum(&self, pseudo: &str, io: Io, mode: Mode) -> IoStatus {
        let rows = || self.stripes.all().map(|stripe| stripe.row(io, mode));
        let sum = |of: &dyn Fn(&Row) -> &AtomicU64| {
            let counters = rows().map(of);
            counters
                .map(|counter| counter.load(Ordering::Relaxed))
                .sum::<u64>()
        };
        let kinds = Mode::ALL.into_iter().map(|kind| {
            let bytes = sum(&|row| row.by_kind.of(kind));
            (kind.word().to_owned(), bytes)
        });
        let mut fallbacks = BTreeMap::new();
        for row in rows() {
            for (reason, counter) in Reason::ALL.iter().zip(&row.fallbacks) {
                let calls = counter.load(Ordering::Relaxed);
                if calls > 0 {
                    *fallbacks.entry(reason.word().to_owned()).or_default() += calls;
                }
            }
        }
        IoStatus {
            export: pseudo.to_owned(),
            operation: io.word().to_owned(),
            mode: mode.word().to_owned(),
            calls: sum(&|row| &row.calls),
            bytes: sum(&|row| &row.bytes),
            segments: sum(&|row| &row.segments),
            moved_bytes: kinds.filter(|(_, bytes)| *bytes > 0).collect(),
            fallbacks,
            copied_bytes: sum(&|row| &row.copied),
            spliced_bytes: sum(&|row| &row.spliced),
            ahead: match (io, mode) {
                (Io::Read, Mode::Direct) => self.sum_ahead(),
                (Io::Read | Io::Write, _) => None,
            },
            auto: self.sum_auto(io, mode),
        }
    }

    /// For how many calls the mode was chosen from what was seen of their files, if for any.
    fn sum_auto(&self, io: Io, mode: Mode) -> Option<AutoStatus> {
        let rows = || self.stripes.all().map(|stripe| &stripe.row(io, mode).auto);
        let sum = |of: &dyn Fn(&AutoRow) -> u64| rows().map(of).sum::<u64>();
        let changes = auto::Reason::ALL.into_iter().map(|reason| {
            let times = sum(&|row| {
                let counter = row.changes.get(reason as usize);
                counter.map_or(0, |counter| counter.load(Ordering::Relaxed))
            });
            (reason.word().to_owned(), times)
        });
        let status = AutoStatus {
            taken: sum(&|row| row.taken.load(Ordering::Relaxed)),
            told: sum(&|row| row.told.load(Ordering::Relaxed)),
            changes: changes.filter(|(_, times)| *times > 0).collect(),
        };
        (status != AutoStatus::default()).then_some(status)
    }

    /// What was read ahead, if anything was, or could have been.
    fn sum_ahead(&self) -> Option<AheadStatus> {
        let sum = |of: &dyn Fn(&AheadRow) -> Option<&AtomicU64>| {
            let counters = self.stripes.all().filter_map(|stripe| of(&stripe.ahead));
            counters
                .map(|counter| counter.load(Ordering::Relaxed))
                .sum::<u64>()
        };
        let dropped = Dropped::ALL.into_iter().map(|why| {
            let bytes = sum(&|row| row.dropped_bytes.get(why as usize));
            (why.word().to_owned(), bytes)
        });
        let held_back = HeldBack::ALL.into_iter().map(|why| {
            let reads = sum(&|row| row.held_back.get(why as usize));
            (why.word().to_owned(), reads)
        });
        let status = AheadStatus {
            pieces: sum(&|row| Some(&row.pieces)),
            bytes: sum(&|row| Some(&row.bytes)),
            answered: sum(&|row| Some(&row.answered)),
            answered_bytes: sum(&|row| Some(&row.answered_bytes)),
            dropped_bytes: dropped.filter(|(_, bytes)| *bytes > 0).collect(),
            held_back: held_back.filter(|(_, reads)| *reads > 0).collect(),
        };
        (status != AheadStatus::default()).then_some(status)
    }

    fn stripe(&self) -> Option<&Stripe> {
        self.stripes.own()
    }
}

/// One row of the figures: one export, one operation, one mode that was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoStatus {
    /// The path that clients mount.
    pub export: String,
    /// The operation's word, `read` or `write`.
    pub operation: String,
    /// The mode that the policy chose: `buffered`, `dontcache` or `direct`.
    pub mode: String,
    /// Calls for which it was chosen, failed ones included.
    pub calls: u64,
    /// Bytes that READ replies carried, bytes that WRITE replies acknowledged.
    pub bytes: u64,
    /// Segments moved: a direct WRITE has up to three.
    pub segments: u64,
    /// Bytes moved between memory and file, by the mode in which they really went. More than
    /// `bytes` where READs were rounded out to the alignment.
    pub moved_bytes: BTreeMap<String, u64>,
    /// Calls that went another way than was chosen, as a whole or in part, by the word for why. See
    /// [`reason_sentence`].
    pub fallbacks: BTreeMap<String, u64>,
    /// Bytes of the payload that the server copied from memory to memory.
    pub copied_bytes: u64,
    /// Bytes of READs that were sent from the page cache without a copy.
    pub spliced_bytes: u64,
    /// What was read ahead of direct READs; `None` where there is nothing to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<AheadStatus>,
    /// For how many calls `auto` chose this mode; `None` where for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto: Option<AutoStatus>,
}

/// Calls of one operation for which `auto` chose one mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AutoStatus {
    /// Calls that were given the mode.
    pub taken: u64,
    /// Calls that would have been given it, but for a dry run.
    pub told: u64,
    /// How often a file's calls changed to this mode (or, in a dry run, would have), by the word for why.
    pub changes: BTreeMap<String, u64>,
}

/// What was read ahead of the direct READs of one export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AheadStatus {
    /// Pieces that were read.
    pub pieces: u64,
    /// Bytes of these. They are among the segments and the moved bytes of the READs.
    pub bytes: u64,
    /// READs that were answered from pieces.
    pub answered: u64,
    /// Bytes that these READs were answered with.
    pub answered_bytes: u64,
    /// Bytes of pieces that no READ was answered with, by the word for why they were dropped.
    pub dropped_bytes: BTreeMap<String, u64>,
    /// READs of which nothing was read ahead, by the word for why.
    pub held_back: BTreeMap<String, u64>,
}

impl IoStatus {
    /// Adds the row to a snapshot.
    pub(crate) fn measure(&self, into: &mut Builder) {
        let (export, operation, mode) = (&*self.export, &*self.operation, &*self.mode);
        if operation == Io::Read.word() {
            into.number(&READ_BYTES, &[export, mode], self.bytes);
            into.number(&READ_SPLICED_BYTES, &[export, mode], self.spliced_bytes);
        } else {
            into.number(&WRITTEN_BYTES, &[export, mode], self.bytes);
        }
        into.number(&IO_CALLS, &[export, operation, mode], self.calls);
        for (reason, calls) in &self.fallbacks {
            into.number(&IO_FALLBACKS, &[export, operation, mode, reason], *calls);
        }
        for (kind, moved) in &self.moved_bytes {
            into.number(&IO_MOVED_BYTES, &[export, operation, mode, kind], *moved);
        }
        into.number(
            &IO_COPIED_BYTES,
            &[export, operation, mode],
            self.copied_bytes,
        );
        if let Some(ahead) = &self.ahead {
            into.number(&READ_AHEAD_BYTES, &[export], ahead.bytes);
            into.number(&READ_AHEAD_ANSWERED_BYTES, &[export], ahead.answered_bytes);
            for (reason, dropped) in &ahead.dropped_bytes {
                into.number(&READ_AHEAD_DROPPED_BYTES, &[export, reason], *dropped);
            }
        }
        if let Some(auto) = &self.auto {
            into.number(&AUTO_CALLS, &[export, operation, mode, "taken"], auto.taken);
            into.number(&AUTO_CALLS, &[export, operation, mode, "told"], auto.told);
            for (reason, times) in &auto.changes {
                into.number(&AUTO_CHANGES, &[export, operation, mode, reason], *times);
            }
        }
    }
}

/// What the word of a fallback means, in a sentence; the word itself for one that this version does
/// not know.
#[must_use]
pub fn reason_sentence(word: &str) -> String {
    let known = Reason::ALL.iter().find(|reason| reason.word() == word);
    known.map_or_else(|| word.to_owned(), |reason| reason.sentence())
}

const REASONS: usize = Reason::ALL.len();

/// Most figures of most calls are 0: those cost no atomic operation.
fn add(counter: &AtomicU64, value: u64) {
    if value > 0 {
        counter.fetch_add(value, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_call_is_counted_in_its_row_and_nowhere_else() {
        let counters = IoCounters::default();
        let mut moved = Tally::default();
        moved.set_bytes(10);
        moved.segment(Mode::Buffered, 4);
        moved.segment(Mode::Buffered, 8);
        moved.copied(3);
        counters.record(Io::Write, Mode::Buffered, &moved);
        counters.record(Io::Write, Mode::Buffered, &moved);
        let rows = counters.stats("/a");
        let expected = IoStatus {
            export: "/a".to_owned(),
            operation: "write".to_owned(),
            mode: "buffered".to_owned(),
            calls: 2,
            bytes: 20,
            segments: 4,
            moved_bytes: BTreeMap::from([("buffered".to_owned(), 24)]),
            fallbacks: BTreeMap::new(),
            copied_bytes: 6,
            spliced_bytes: 0,
            ahead: None,
            auto: None,
        };
        assert_eq!(rows, [expected]);
    }

    #[test]
    fn bytes_are_counted_by_the_way_they_went() {
        let counters = IoCounters::default();
        let mut moved = Tally::default();
        moved.segment(Mode::Buffered, 100);
        moved.segment(Mode::Direct, 4096);
        moved.segment(Mode::Buffered, 200);
        moved.fallback(Fallback::NoAlignedMiddle.into());
        counters.record(Io::Write, Mode::Direct, &moved);
        counters.record(Io::Read, Mode::DontCache, &Tally::default());
        let rows = counters.stats("/");
        let names = rows
            .iter()
            .map(|row| (row.operation.as_str(), row.mode.as_str()));
        assert_eq!(
            names.collect::<Vec<_>>(),
            [("read", "dontcache"), ("write", "direct")]
        );
        let moved = [("buffered", 300), ("direct", 4096)];
        let moved = moved.map(|(word, bytes)| (word.to_owned(), bytes));
        assert_eq!(rows[1].moved_bytes, BTreeMap::from(moved));
        assert_eq!(
            (rows[1].segments, rows[1].fallbacks["no-aligned-middle"]),
            (3, 1)
        );
    }

    #[test]
    fn a_reason_counts_once_for_each_call_however_often_it_was_met() {
        let counters = IoCounters::default();
        let mut moved = Tally::default();
        moved.fallback(Reason::OpenRefused);
        moved.fallback(Reason::OpenRefused);
        moved.fallback(Reason::AlignmentUnknown);
        counters.record(Io::Read, Mode::Buffered, &moved);
        counters.record(Io::Read, Mode::Buffered, &Tally::default());
        let rows = counters.stats("/");
        let fallbacks = [("alignment-unknown", 1), ("open-refused", 1)];
        let fallbacks = fallbacks.map(|(word, calls)| (word.to_owned(), calls));
        assert_eq!((rows[0].calls, rows[0].segments), (2, 0));
        assert_eq!(rows[0].fallbacks, BTreeMap::from(fallbacks));
    }

    #[test]
    fn every_reason_has_its_own_number_word_and_sentence() {
        for (number, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
            let word = reason.word();
            assert_ne!(reason_sentence(word), word);
            let same = Reason::ALL.iter().filter(|other| other.word() == word);
            assert_eq!(same.count(), 1, "{word}");
        }
        assert_eq!(reason_sentence("of-a-later-version"), "of-a-later-version");
        for fallback in Fallback::ALL {
            assert_eq!(Reason::from(fallback).word(), fallback.word());
        }
    }

    #[test]
    fn the_document_has_every_reason_and_event() {
        let document = include_str!("../../../../docs/tracing.md");
        let reasons = Reason::ALL.into_iter().map(Reason::word);
        let events = crate::operate::trace::Event::ALL
            .iter()
            .map(|event| event.word());
        let ahead = Dropped::ALL.into_iter().map(Dropped::word);
        let ahead = ahead.chain(HeldBack::ALL.into_iter().map(HeldBack::word));
        let auto = auto::Reason::ALL.into_iter().map(auto::Reason::word);
        for word in reasons.chain(events).chain(ahead).chain(auto) {
            assert!(document.contains(&format!("`{word}`")), "{word}");
        }
    }

    #[test]
    fn what_is_read_ahead_is_counted_beside_the_calls() {
        let counters = IoCounters::default();
        let mut moved = Tally::default();
        moved.set_bytes(100);
        counters.record(Io::Read, Mode::Direct, &moved);
        assert_eq!(counters.stats("/")[0].ahead, None);
        counters.read_ahead(4096);
        counters.answered_ahead(100);
        counters.dropped_ahead(Dropped::Written, 3996);
        counters.dropped_ahead(Dropped::Left, 0);
        counters.held_back_ahead(HeldBack::NoMemory);
        let row = &counters.stats("/")[0];
        let one = |word: &str, value| BTreeMap::from([(word.to_owned(), value)]);
        let ahead = AheadStatus {
            pieces: 1,
            bytes: 4096,
            answered: 1,
            answered_bytes: 100,
            dropped_bytes: one("written", 3996),
            held_back: one("no-memory", 1),
        };
        assert_eq!((row.calls, row.segments), (1, 1));
        assert_eq!(
            (&row.moved_bytes, &row.ahead),
            (&one("direct", 4096), &Some(ahead))
        );
        for (number, why) in Dropped::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, number);
        }
        for (number, why) in HeldBack::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, number);
        }
    }

    #[test]
    fn what_is_sent_without_a_copy_is_counted_in_its_row() {
        let counters = IoCounters::default();
        let mut moved = Tally::default();
        moved.set_bytes(5000);
        moved.spliced(4096);
        moved.spliced(904);
        counters.record(Io::Read, Mode::Buffered, &moved);
        counters.record(Io::Read, Mode::Buffered, &Tally::default());
        let rows = counters.stats("/");
        assert_eq!((rows[0].bytes, rows[0].spliced_bytes), (5000, 5000));
        assert_eq!((rows.len(), rows[0].copied_bytes), (1, 0));
    }

    #[test]
    fn threads_lose_nothing_of_each_other() {
        const THREADS: u64 = 8;
        const CALLS: u64 = 1000;
        let counters = Arc::new(IoCounters::default());
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let mut moved = Tally::default();
                    moved.set_bytes(1);
                    moved.segment(Mode::Buffered, 1);
                    for _ in 0..CALLS {
                        counters.record(Io::Read, Mode::Buffered, &moved);
                    }
                });
            }
        });
        let row = &counters.stats("/")[0];
        let all = THREADS * CALLS;
        assert_eq!((row.calls, row.bytes, row.segments), (all, all, all));
    }
}
