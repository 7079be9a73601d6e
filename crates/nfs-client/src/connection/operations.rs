//! What the calls of each procedure came to: how many, how long, how many bytes, with which errors.
//!
//! Counted under the table's lock, which each call takes anyway, by plain additions; by the clock readings that a
//! batch of calls or replies shares; without an allocation but at the first call of a kind. It owns nothing of a
//! call.

use std::time::Duration;

use hdrhistogram::Histogram;
use nfs_wire::nfs4::{ArgOp, Opnum};
use nfs_wire::{mount3, nfs3};

use super::Procedure;
use crate::error::RpcError;
use crate::limits::{LATENCY_TOLD_MAX, STATUSES_COUNTED_MAX};

/// What a call is counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A procedure of NFSv3.
    Nfs3(nfs3::Procedure),
    /// A COMPOUND of NFSv4, by the operation that it is sent for. What only leads there (SEQUENCE, PUTFH) or goes with
    /// it (GETFH, GETATTR) is not counted beside it, as in `/proc/self/mountstats`.
    Nfs4(Opnum),
    /// A procedure of MOUNT version 3.
    Mount3(mount3::Procedure),
    /// Anything else: the portmapper's procedures, NULL of NFSv4, other programs.
    Other,
}

/// How many kinds there are room for: those of NFSv3, of NFSv4, of MOUNT, and the rest.
const KINDS: usize = NFS3_KINDS + NFS4_KINDS + MOUNT3_KINDS + 1;
const NFS3_KINDS: usize = nfs3::Procedure::ALL.len();
/// The largest number of an operation is that of REMOVEXATTR, 75; ILLEGAL is never sent.
const NFS4_KINDS: usize = 76;
const MOUNT3_KINDS: usize = mount3::Procedure::ALL.len();

impl Kind {
    /// Every kind that there is, in the order in which they are told.
    pub fn all() -> impl Iterator<Item = Self> {
        let nfs3 = nfs3::Procedure::ALL.iter().copied().map(Self::Nfs3);
        let sent = |operation: &Opnum| *operation != Opnum::Illegal;
        let nfs4 = Opnum::ALL.iter().copied().filter(sent).map(Self::Nfs4);
        let mount3 = mount3::Procedure::ALL.iter().copied().map(Self::Mount3);
        nfs3.chain(nfs4).chain(mount3).chain([Self::Other])
    }

    /// The protocol's name: `NFSv3`, `NFSv4`, `MOUNT`, or `RPC` for anything else.
    #[must_use]
    pub const fn protocol(self) -> &'static str {
        match self {
            Self::Nfs3(_) => "NFSv3",
            Self::Nfs4(_) => "NFSv4",
            Self::Mount3(_) => "MOUNT",
            Self::Other => "RPC",
        }
    }

    /// The RFC's name of the procedure or operation; `OTHER` for anything else.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nfs3(procedure) => procedure.name(),
            Self::Nfs4(operation) => operation.name(),
            Self::Mount3(procedure) => procedure.name(),
            Self::Other => "OTHER",
        }
    }

    /// The kind of a call that is no COMPOUND.
    pub(crate) fn of(procedure: Procedure) -> Self {
        match (procedure.program, procedure.version) {
            (nfs3::PROGRAM, nfs3::VERSION) => {
                let known = nfs3::Procedure::try_from(procedure.number);
                known.map_or(Self::Other, Self::Nfs3)
            }
            (mount3::PROGRAM, mount3::VERSION) => {
                let known = mount3::Procedure::try_from(procedure.number);
                known.map_or(Self::Other, Self::Mount3)
            }
            _ => Self::Other,
        }
    }

    /// The kind of a COMPOUND: the last operation that neither leads there nor goes with it.
    pub(crate) fn of_compound<'o>(operations: impl IntoIterator<Item = &'o ArgOp<'o>>) -> Self {
        let mut found = None;
        for operation in operations {
            let next = operation.opnum();
            if found.is_none_or(|before| weight(next) >= weight(before)) {
                found = Some(next);
            }
        }
        let found = found.filter(|found| *found != Opnum::Illegal);
        found.map_or(Self::Other, Self::Nfs4)
    }

    /// Where it is counted, below [`KINDS`].
    fn index(self) -> usize {
        let below = |number: u32, kinds: usize| {
            let number = usize::try_from(number).ok();
            number.filter(|&number| number < kinds)
        };
        let found = match self {
            Self::Nfs3(procedure) => below(procedure as u32, NFS3_KINDS),
            Self::Nfs4(operation) => {
                let number = below(operation.number(), NFS4_KINDS);
                number.map(|number| NFS3_KINDS + number)
            }
            Self::Mount3(procedure) => {
                let number = below(procedure as u32, MOUNT3_KINDS);
                number.map(|number| NFS3_KINDS + NFS4_KINDS + number)
            }
            Self::Other => None,
        };
        found.unwrap_or(KINDS - 1)
    }

    /// Whether results of this kind begin with a status.
    const fn has_status(self) -> bool {
        match self {
            Self::Nfs3(nfs3::Procedure::Null) | Self::Other => false,
            Self::Nfs3(_) | Self::Nfs4(_) => true,
            Self::Mount3(procedure) => matches!(procedure, mount3::Procedure::Mnt),
        }
    }
}

/// How much an operation says about what a COMPOUND is sent for.
const fn weight(operation: Opnum) -> u8 {
    match operation {
        Opnum::Sequence
        | Opnum::Putfh
        | Opnum::Putrootfh
        | Opnum::Putpubfh
        | Opnum::Savefh
        | Opnum::Restorefh => 0,
        Opnum::Getfh | Opnum::Getattr | Opnum::Verify | Opnum::Nverify => 1,
        _ => 2,
    }
}

/// What the calls of one kind came to, over one connection or several. The times are nfsiostat's: a call waits in a
/// queue until it is sent, its round trip (RTT) ends with the reply, and both together are its execution.
///
/// Of the calls that were made, each is in one of `ops`, `refused`, `timeouts`, `disconnected`, `given_up` and
/// `in_flight`.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// What is counted here.
    pub kind: Kind,
    /// Calls that were made.
    pub calls: u64,
    /// Calls that were answered with results, be they an error.
    pub ops: u64,
    /// Calls that were answered without results: denied, not provided, or with a reply that cannot be read.
    pub refused: u64,
    /// Calls that ended because their time was over.
    pub timeouts: u64,
    /// Calls that ended with their connection.
    pub disconnected: u64,
    /// Calls whose caller did not wait any longer: READs ahead that nobody wanted any more, for example.
    pub given_up: u64,
    /// Calls that are waiting for their replies now, sent or not.
    pub in_flight: u64,
    /// Times that a call was sent: one that is sent again counts again.
    pub transmissions: u64,
    /// Times that a call was sent after its first: `retrans` of nfsiostat.
    pub resent: u64,
    /// Bytes of calls that were sent, repetitions too: with their RPC headers, without record marks.
    pub bytes_sent: u64,
    /// Bytes of replies that calls waited for: with their RPC headers, without record marks.
    pub bytes_received: u64,
    /// Results that were an error: all of [`Self::statuses`], and those that found no place there.
    pub errors: u64,
    /// NFS's number of each status that was an error, and how often it came: at most [`STATUSES_COUNTED_MAX`].
    pub statuses: Vec<(u32, u64)>,
    /// How long `ops` waited until they were sent first: for a place among the calls in flight (over NFSv4, for a
    /// slot of the session), for a connection, for the socket.
    pub queue: Latencies,
    /// How long `ops` took from being sent first to the reply.
    pub rtt: Latencies,
    /// How long `ops` took from being made to the reply. Pauses after a JUKEBOX or DELAY are between calls.
    pub execute: Latencies,
}

impl Operation {
    /// Nothing of a kind.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            calls: 0,
            ops: 0,
            refused: 0,
            timeouts: 0,
            disconnected: 0,
            given_up: 0,
            in_flight: 0,
            transmissions: 0,
            resent: 0,
            bytes_sent: 0,
            bytes_received: 0,
            errors: 0,
            statuses: Vec::new(),
            queue: Latencies::default(),
            rtt: Latencies::default(),
            execute: Latencies::default(),
        }
    }

    /// Adds what another connection has counted of the same kind.
    pub fn add(&mut self, other: &Self) {
        let mut more = other.clone();
        for (sum, more) in self.counts().into_iter().zip(more.counts()) {
            *sum = sum.saturating_add(*more);
        }
        self.in_flight = self.in_flight.saturating_add(other.in_flight);
        for &(status, count) in &other.statuses {
            self.add_status(status, count);
        }
        self.queue.add(&other.queue);
        self.rtt.add(&other.rtt);
        self.execute.add(&other.execute);
    }

    /// What came since `earlier`, of the same kind; `None` where that is no earlier state of this one.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let (mut new, mut before) = (self.clone(), earlier.clone());
        for (now, before) in new.counts().into_iter().zip(before.counts()) {
            *now = now.checked_sub(*before)?;
        }
        for (status, count) in &mut new.statuses {
            let before = earlier.statuses.iter().find(|(known, _)| known == status);
            *count = count.checked_sub(before.map_or(0, |(_, count)| *count))?;
        }
        new.statuses.retain(|(_, count)| *count > 0);
        new.queue = self.queue.since(&earlier.queue)?;
        new.rtt = self.rtt.since(&earlier.rtt)?;
        new.execute = self.execute.since(&earlier.execute)?;
        Some(new)
    }

    /// All that only grows, times and statuses left out.
    fn counts(&mut self) -> [&mut u64; 11] {
        [
            &mut self.calls,
            &mut self.ops,
            &mut self.refused,
            &mut self.timeouts,
            &mut self.disconnected,
            &mut self.given_up,
            &mut self.transmissions,
            &mut self.resent,
            &mut self.bytes_sent,
            &mut self.bytes_received,
            &mut self.errors,
        ]
    }

    pub(super) fn begun(&mut self) {
        self.calls += 1;
    }

    pub(super) fn sent(&mut self, bytes: u64, again: bool) {
        self.transmissions += 1;
        self.resent += u64::from(again);
        self.bytes_sent += bytes;
    }

    /// Takes a reply in, of `bytes`, with results that begin with `results`.
    pub(super) fn answered(&mut self, bytes: u64, results: &[u8], queue: Duration, rtt: Duration) {
        self.ops += 1;
        self.bytes_received += bytes;
        self.queue.record(queue);
        self.rtt.record(rtt);
        self.execute.record(queue + rtt);
        let status = results.first_chunk().map(|word| u32::from_be_bytes(*word));
        if let Some(status @ 1..) = status.filter(|_| self.kind.has_status()) {
            self.errors += 1;
            self.add_status(status, 1);
        }
    }

    /// A call ended without results.
    pub(super) fn failed(&mut self, error: &RpcError) {
        match error {
            RpcError::Timeout { .. } => self.timeouts += 1,
            RpcError::Disconnected(_) => self.disconnected += 1,
            _ => self.refused += 1,
        }
    }

    pub(super) fn given_up(&mut self) {
        self.given_up += 1;
    }

    fn add_status(&mut self, status: u32, count: u64) {
        let mut known = self.statuses.iter_mut();
        if let Some((_, known)) = known.find(|(known, _)| *known == status) {
            *known = known.saturating_add(count);
        } else if self.statuses.len() < STATUSES_COUNTED_MAX {
            self.statuses.push((status, count));
        }
    }
}

/// How long something took, over many calls.
///
/// Percentiles come out of a histogram of microseconds (HdrHistogram with one significant digit: a class is at most a
/// sixteenth of its times wide), the average from the exact sum. What took longer than [`LATENCY_TOLD_MAX`] counts as
/// that in the histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    histogram: Histogram<u64>,
    total: Duration,
}

impl Default for Latencies {
    fn default() -> Self {
        let microseconds = u64::try_from(LATENCY_TOLD_MAX.as_micros()).unwrap_or(u64::MAX);
        let Ok(histogram) = Histogram::new_with_bounds(1, microseconds, 1) else {
            unreachable!("the largest time is a constant above two microseconds")
        };
        Self {
            histogram,
            total: Duration::ZERO,
        }
    }
}

impl Latencies {
    /// Those that [`Self::classes`] and [`Self::total`] tell of; in any order.
    #[must_use]
    pub fn from_classes(classes: impl IntoIterator<Item = (u64, u64)>, total: Duration) -> Self {
        let mut made = Self {
            total,
            ..Self::default()
        };
        for (microseconds, count) in classes {
            made.histogram.saturating_record_n(microseconds, count);
        }
        made
    }

    /// How many calls there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The times of all calls together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.total
    }

    /// The average of all calls; `None` without one.
    #[must_use]
    pub fn average(&self) -> Option<Duration> {
        let nanoseconds = self.total.as_nanos().checked_div(self.count().into())?;
        Some(Duration::from_nanos(
            u64::try_from(nanoseconds).unwrap_or(u64::MAX),
        ))
    }

    /// The time that `part` of the calls, 0 to 1, did not take longer than: the end of the class that it is in. `None`
    /// without a call.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let microseconds = || self.histogram.value_at_quantile(part);
        (self.count() > 0).then(|| Duration::from_micros(microseconds()))
    }

    /// The longest: the end of the class that it is in. `None` without a call.
    #[must_use]
    pub fn max(&self) -> Option<Duration> {
        (self.count() > 0).then(|| Duration::from_micros(self.histogram.max()))
    }

    /// The classes that have any call: the last microsecond of each, and how many calls are in it, in ascending order.
    pub fn classes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let recorded = self.histogram.iter_recorded();
        recorded.map(|class| {
            (
                class.value_iterated_to(),
                class.count_since_last_iteration(),
            )
        })
    }

    fn record(&mut self, time: Duration) {
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(microseconds);
        self.total += time;
    }

    fn add(&mut self, other: &Self) {
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok(), "all have the same bounds");
        self.total = self.total.saturating_add(other.total);
    }

    fn since(&self, earlier: &Self) -> Option<Self> {
        let mut new = self.clone();
        new.histogram.subtract(&earlier.histogram).ok()?;
        new.total = self.total.checked_sub(earlier.total)?;
        Some(new)
    }
}

/// The operations of one connection, by their kinds.
#[derive(Debug)]
pub(super) struct Operations(Box<[Option<Box<Operation>>; KINDS]>);

impl Default for Operations {
    fn default() -> Self {
        Self(Box::new([const { None }; KINDS]))
    }
}

impl Operations {
    /// What is counted of a kind; from now on it is told.
    pub(super) fn at(&mut self, kind: Kind) -> Option<&mut Operation> {
        let place = self.0.get_mut(kind.index())?;
        Some(place.get_or_insert_with(|| Box::new(Operation::new(kind))))
    }

    /// What was counted of the kinds that there were calls of.
    pub(super) fn all(&self) -> Vec<Operation> {
        self.0.iter().flatten().map(|one| (**one).clone()).collect()
    }
}

/// Adds operations to a sum by kind, which stays in the order of the kinds.
pub(super) fn add_all(sum: &mut Vec<Operation>, more: Vec<Operation>) {
    for one in more {
        match sum.binary_search_by_key(&one.kind.index(), |known| known.kind.index()) {
            Ok(known) => {
                if let Some(known) = sum.get_mut(known) {
                    known.add(&one);
                }
            }
            Err(place) => sum.insert(place, one),
        }
    }
}

#[cfg(test)]
mod tests;
