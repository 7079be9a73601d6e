//! What was written and is not yet on stable storage: what to send next, and what a reply means.
//!
//! [`Kept`] holds the data of one file from the moment it is accepted until the server has it on stable
//! storage. It does no I/O and knows no clock: the driver asks for the next [`Step`], carries it out,
//! and tells what came of it.
//!
//! Data is *waiting*, then *flying* (a WRITE is on its way), then *written* (the server holds it, perhaps
//! only in memory), then gone. Waiting extents never overlap each other, and neither do flying ones:
//! of what was written twice before it could be sent, only the newer is sent. Written extents may
//! overlap, in any way: their content is at the server already, and a COMMIT covers them all.
//!
//! The server's write verifier says whether it still has what it was given (RFC 1813 §3.3.7, §4.8): all
//! that is `written` was answered with the present verifier. When another one is seen, everything
//! written waits again, without what newer data covers. A reply to a call that was sent before the
//! present verifier was known proves nothing when it brings another one: it may come from before or
//! after. Only its own data is sent again.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use nfs_wire::nfs3::StableHow;

use crate::limits::{EMPTY_WRITES_MAX, VERIFIER_CHANGES_MAX};

/// A server's write verifier (`writeverf3`): another one tells that it lost what was not committed.
pub(super) type Verifier = [u8; 8];

/// Whose data it is: as whom it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Writer(pub(super) usize);

/// Data of one file that is not yet known to be on stable storage. See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Number of the next data to be accepted.
    next_number: u64,
    /// By offset; they do not overlap.
    waiting: BTreeMap<u64, Extent>,
    /// `(since, offset)` of all that wait: the order of sending.
    queue: BTreeSet<(u64, u64)>,
    /// By ticket; they do not overlap.
    flying: BTreeMap<u64, Flight>,
    written: Vec<Written>,
    written_bytes: u64,
    /// Lowest `since` of the written.
    written_since: Option<u64>,
    /// How many calls were sent, so that each has a number of its own.
    tickets: u64,
    /// Counts WRITE replies: says which came before a COMMIT was sent.
    replies: u64,
    verifier: Option<Verifier>,
    /// Counts the verifiers that were seen.
    epoch: u64,
    /// Verifiers seen since the server last kept something for good.
    changes: u32,
    commit: Option<CommitCall>,
    /// All data with a number below this is to be sent, however little it is.
    released: u64,
    /// All data with a number below this is to come to stable storage.
    wanted: u64,
    /// Whether any WRITE of the file was sent.
    begun: bool,
    /// End of the data accepted so far, bytes.
    accepted_end: u64,
    /// The file at the server is at least so long, bytes, as far as we know.
    answered_end: u64,
    /// As far as we know, the file is at least so long after a restart as well, bytes: what is only
    /// written does not count.
    stable_size: u64,
    /// Where the first data begins that was given up, bytes.
    lost_from: Option<u64>,
    /// No WRITE is to be sent.
    held: bool,
}

#[derive(Clone, Debug)]
struct Extent {
    offset: u64,
    data: Bytes,
    /// Newer data has the higher number.
    number: u64,
    /// The lowest number of the data that it stands for: its own, or what it replaced before that was
    /// sent. A sync that waits for the replaced data waits for this.
    since: u64,
    /// How often in a row the server took none of it.
    empty: u32,
    writer: Writer,
}

#[derive(Debug)]
struct Flight {
    extent: Extent,
    /// The epoch that it was sent in.
    epoch: u64,
    /// Nobody waits for it any more, and the server may still carry it out: newer data of its range waits until it
    /// is answered, and comes after its end.
    given_up: bool,
}

#[derive(Debug)]
struct Written {
    extent: Extent,
    /// The number of the reply that answered it.
    reply: u64,
}

#[derive(Debug)]
struct CommitCall {
    epoch: u64,
    /// It covers the data of all replies up to this one.
    replies: u64,
}

/// What the driver may do at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// WRITEs in flight, at least 1.
    pub(super) depth: usize,
    /// Written bytes that make a COMMIT due.
    pub(super) commit_bytes: u64,
}

/// What is to be done next.
#[derive(Debug)]
pub(super) enum Step {
    /// A WRITE is to be sent.
    Write(WriteStep),
    /// Send a COMMIT of the whole file: as one of those who wrote what it is for.
    Commit(Writer),
}

/// A WRITE to be sent.
#[derive(Debug)]
pub(super) struct WriteStep {
    /// Names it when its reply is told.
    pub(super) ticket: u64,
    pub(super) offset: u64,
    pub(super) data: Bytes,
    pub(super) stable: StableHow,
    pub(super) writer: Writer,
}

/// What a WRITE was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteAnswer {
    pub(super) count: u32,
    pub(super) committed: StableHow,
    pub(super) verifier: Verifier,
}

/// Why it cannot go on, although the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// WRITE after WRITE was answered with a count of 0.
    NoProgress { offset: u64 },
    /// One verifier after the other, and nothing came to stable storage.
    VerifierKeepsChanging,
}

impl Kept {
    /// What is kept of a file of `size` bytes when nothing is written yet.
    pub(super) fn of_size(size: u64) -> Self {
        Self {
            answered_end: size,
            stable_size: size,
            ..Self::default()
        }
    }

    /// Takes `data` over, as newer than all before. Its length is at most one transfer, and not 0.
    pub(super) fn accept(&mut self, offset: u64, data: Bytes, writer: Writer) {
        let number = self.next_number;
        self.next_number += 1;
        let extent = Extent {
            offset,
            data,
            number,
            since: number,
            empty: 0,
            writer,
        };
        self.accepted_end = self.accepted_end.max(extent.end());
        self.place(extent);
    }

    /// Whether one more extent may be accepted: no more wait than a window and one.
    pub(super) fn has_room(&self, policy: Policy) -> bool {
        self.waiting.len() <= policy.depth
    }

    /// Sends all that was accepted so far, also what may be the whole file ([`Self::next`]).
    pub(super) fn release(&mut self) {
        self.released = self.next_number;
    }

    /// Wants all that was accepted so far on stable storage. Returns what [`Self::is_stable`] is to be
    /// asked.
    pub(super) fn want_stable(&mut self) -> u64 {
        self.release();
        self.wanted = self.next_number;
        self.wanted
    }

    /// Whether all data with numbers below `number` is on stable storage (or was given up).
    pub(super) fn is_stable(&self, number: u64) -> bool {
        self.is_written(number) && self.written_since.is_none_or(|since| since >= number)
    }

    /// Number of the next data to be accepted: what [`Self::is_written`] is to be asked for all so far.
    pub(super) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Whether all data with numbers below `number` is at the server (or was given up).
    pub(super) fn is_written(&self, number: u64) -> bool {
        let waiting = self.queue.first().map(|&(since, _)| since);
        let wanted = self.flying.values().filter(|flight| !flight.given_up);
        let flying = wanted.map(|flight| flight.extent.since).min();
        [waiting, flying]
            .into_iter()
            .flatten()
            .all(|since| since >= number)
    }

    /// Whether a read of `start..end` sees all that was accepted: no such data is waiting or flying, nor
    /// any that moves the file's end to where the read looks.
    pub(super) fn is_visible(&self, start: u64, end: u64) -> bool {
        let flying = || self.flying.values().map(|flight| &flight.extent);
        let waits = overlapping(&self.waiting, start, end).next().is_some();
        let flies = flying().any(|extent| extent.overlaps(start, end));
        let looks_past_end = end > self.answered_end;
        let grows = looks_past_end
            && self
                .unanswered_end()
                .is_some_and(|unanswered| unanswered > start);
        !waits && !flies && !grows
    }

    /// The file at the server is at least so long, bytes, as far as we know.
    pub(super) fn answered_end(&self) -> u64 {
        self.answered_end
    }

    /// Where the data ends that is not yet on stable storage, bytes; 0 if there is none.
    pub(super) fn end(&self) -> u64 {
        let written = self.written.iter().map(|written| written.extent.end());
        written.chain(self.unanswered_end()).max().unwrap_or(0)
    }

    /// Something waits, and nothing is on its way that would send it when it is answered.
    pub(super) fn lingers(&self) -> bool {
        !self.waiting.is_empty() && self.flying.is_empty() && !self.held
    }

    /// Whether a read from `start` on looks at what the server may have lost since it took it.
    pub(super) fn is_at_risk(&self, start: u64) -> bool {
        let mut written = self.written.iter();
        written.any(|written| written.extent.end() > start)
    }

    /// Counts the verifiers that were seen.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Where the data ends that the server has not answered for yet, bytes.
    fn unanswered_end(&self) -> Option<u64> {
        let waiting = self.waiting.values().next_back().map(Extent::end);
        let flying = self.flying.values().map(|flight| flight.extent.end());
        flying.chain(waiting).max()
    }

    /// All bytes below this that were ever accepted are on stable storage.
    pub(super) fn stable_end(&self) -> u64 {
        let waiting = self.waiting.keys().next().copied();
        let flying = self.flying.values().map(|flight| flight.extent.offset);
        let written = self.written.iter().map(|written| written.extent.offset);
        let first = flying.chain(written).chain(waiting).chain(self.lost_from);
        first.min().unwrap_or(self.accepted_end)
    }

    /// Any WRITE is on its way.
    pub(super) fn flies(&self) -> bool {
        !self.flying.is_empty()
    }

    /// Nobody wants it any more: all is given up but the flying, which cannot be called back. Who comes
    /// later begins anew, with nothing written.
    pub(super) fn abandon(&mut self) {
        self.give_up_waiting();
        // Nobody will see whether the server loses it.
        for Written { extent, .. } in std::mem::take(&mut self.written) {
            self.end_may_be_lost(&extent);
        }
        self.count_written();
        self.accepted_end = 0;
        self.lost_from = None;
    }

    /// Whether no data is kept, neither unsent nor uncommitted.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.flying.is_empty() && self.written.is_empty()
    }

    /// The next thing to send, if there is anything and it may be sent now.
    ///
    /// The oldest data goes first. What may be the whole file, one extent at its start, waits until more
    /// comes or it is released: a file of one WRITE goes FILE_SYNC and needs no COMMIT.
    pub(super) fn next(&mut self, policy: Policy) -> Option<Step> {
        if let Some(write) = self.next_write(policy) {
            return Some(Step::Write(write));
        }
        let due = self.written_bytes >= policy.commit_bytes;
        let asked = self.is_written(self.wanted) && !self.is_stable(self.wanted);
        let writer = self.written.last()?.extent.writer;
        if self.commit.is_some() || !(due || asked) {
            return None;
        }
        self.commit = Some(CommitCall {
            epoch: self.epoch,
            replies: self.replies,
        });
        Some(Step::Commit(writer))
    }

    fn next_write(&mut self, policy: Policy) -> Option<WriteStep> {
        if self.held || self.flying.len() >= policy.depth {
            return None;
        }
        let free = |&&(_, offset): &&(u64, u64)| {
            let extent = self.waiting.get(&offset);
            extent.is_some_and(|extent| {
                let (start, end) = (extent.offset, extent.end());
                let mut flying = self.flying.values();
                !flying.any(|flight| flight.extent.overlaps(start, end))
            })
        };
        let &(since, offset) = self.queue.iter().find(free)?;
        let alone = self.waiting.len() == 1 && self.flying.is_empty() && self.written.is_empty();
        if alone && !self.begun && offset == 0 && since >= self.released {
            return None;
        }
        let extent = self.take(offset)?;
        let stable = if alone && since < self.wanted {
            StableHow::FileSync
        } else {
            StableHow::Unstable
        };
        self.begun = true;
        self.tickets += 1;
        let write = WriteStep {
            ticket: self.tickets,
            offset,
            data: extent.data.clone(),
            stable,
            writer: extent.writer,
        };
        let epoch = self.epoch;
        let flight = Flight {
            extent,
            epoch,
            given_up: false,
        };
        self.flying.insert(self.tickets, flight);
        Some(write)
    }

    /// Takes in the answer to the WRITE with this ticket.
    pub(super) fn write_answered(
        &mut self,
        ticket: u64,
        answer: &WriteAnswer,
    ) -> Result<(), Problem> {
        let Some(flight) = self.flying.get(&ticket) else {
            return Ok(());
        };
        let sent_in = flight.epoch;
        // The flight is still among the flying, so that older data which waits again leaves it out.
        let seen = self.see(answer.verifier, sent_in);
        let answered = self.flying.remove(&ticket);
        seen?;
        let Some(Flight { mut extent, .. }) = answered.filter(|flight| !flight.given_up) else {
            return Ok(());
        };
        self.replies += 1;
        let stable = answer.committed != StableHow::Unstable;
        if !stable && self.verifier != Some(answer.verifier) {
            self.place(extent);
            return Ok(());
        }
        let count = usize::try_from(answer.count).unwrap_or(usize::MAX);
        let count = count.min(extent.data.len());
        extent.empty = if count == 0 { extent.empty + 1 } else { 0 };
        if extent.empty > EMPTY_WRITES_MAX {
            let offset = extent.offset;
            self.give_up(&extent);
            self.give_up_waiting();
            return Err(Problem::NoProgress { offset });
        }
        let rest = extent.split_off(count);
        if !rest.data.is_empty() {
            self.place(rest);
        }
        if count == 0 {
            return Ok(());
        }
        self.answered_end = self.answered_end.max(extent.end());
        if stable {
            self.changes = 0;
            self.stable_size = self.stable_size.max(extent.end());
            self.forget_older(extent);
        } else {
            self.written_bytes += bytes(count);
            let since = self.written_since.unwrap_or(extent.since);
            self.written_since = Some(since.min(extent.since));
            let reply = self.replies;
            self.written.push(Written { extent, reply });
        }
        Ok(())
    }

    /// The server does not answer: all is given up that is not flying.
    pub(super) fn write_lost(&mut self, ticket: u64) {
        self.write_failed(ticket);
        for written in std::mem::take(&mut self.written) {
            self.give_up(&written.extent);
        }
        self.count_written();
    }

    /// The WRITE failed: its data is given up, and so is all that waits. What is written or flying is
    /// not.
    pub(super) fn write_failed(&mut self, ticket: u64) {
        if let Some(flight) = self.flying.remove(&ticket) {
            self.give_up(&flight.extent);
        }
        self.give_up_waiting();
    }

    /// Takes in the answer to the COMMIT on its way, which came with `verifier`.
    pub(super) fn commit_answered(&mut self, verifier: Verifier) -> Result<(), Problem> {
        let Some(commit) = self.commit.take() else {
            return Ok(());
        };
        self.see(verifier, commit.epoch)?;
        if self.verifier != Some(verifier) {
            return Ok(());
        }
        let before = self.written.len();
        let covered = |written: &&Written| written.reply <= commit.replies;
        let ends = self.written.iter().filter(covered);
        let stable_end = ends.map(|written| written.extent.end()).max();
        self.stable_size = self.stable_size.max(stable_end.unwrap_or(0));
        self.written
            .retain(|written| written.reply > commit.replies);
        if self.written.len() < before {
            self.changes = 0;
        }
        self.count_written();
        Ok(())
    }

    /// The COMMIT failed, or its reply did not come: what it covers is given up, and so is all that
    /// waits.
    pub(super) fn commit_failed(&mut self) {
        if let Some(commit) = self.commit.take() {
            for written in std::mem::take(&mut self.written) {
                if written.reply <= commit.replies {
                    self.give_up(&written.extent);
                } else {
                    self.written.push(written);
                }
            }
            self.count_written();
        }
        self.give_up_waiting();
    }

    /// The file was cut to `len` bytes: what was written beyond is forgotten, so that it is never sent
    /// again. Nothing may be flying.
    pub(super) fn cut(&mut self, len: u64) {
        let cut = |mut extent: Extent| {
            let keep = usize::try_from(len.saturating_sub(extent.offset)).unwrap_or(usize::MAX);
            extent.split_off(keep.min(extent.data.len()));
            Some(extent).filter(|extent| !extent.data.is_empty())
        };
        for written in std::mem::take(&mut self.written) {
            let Written { extent, reply } = written;
            self.written
                .extend(cut(extent).map(|extent| Written { extent, reply }));
        }
        self.queue.clear();
        for extent in std::mem::take(&mut self.waiting).into_values() {
            if let Some(extent) = cut(extent) {
                self.put(extent);
            }
        }
        self.count_written();
        self.accepted_end = self.accepted_end.min(len);
        self.answered_end = self.answered_end.min(len);
        self.stable_size = self.stable_size.min(len);
    }

    /// Sends nothing from now on until [`Self::unhold`], if everything accepted is at the server.
    pub(super) fn try_hold(&mut self) -> bool {
        self.held = self.waiting.is_empty() && self.flying.is_empty();
        self.held
    }

    /// Lets calls be sent again, after [`Self::try_hold`] has held them back.
    pub(super) fn unhold(&mut self) {
        self.held = false;
    }

    /// Looks at the verifier of a reply to a call that was sent in epoch `sent_in`.
    fn see(&mut self, verifier: Verifier, sent_in: u64) -> Result<(), Problem> {
        if self.verifier == Some(verifier) || sent_in < self.epoch {
            return Ok(());
        }
        let first = self.verifier.replace(verifier).is_none();
        self.epoch += 1;
        if first {
            return Ok(());
        }
        self.changes += 1;
        if self.changes > VERIFIER_CHANGES_MAX {
            self.give_up_all();
            return Err(Problem::VerifierKeepsChanging);
        }
        for Written { extent, .. } in std::mem::take(&mut self.written) {
            self.end_may_be_lost(&extent);
            self.send_again(extent);
        }
        self.count_written();
        Ok(())
    }

    /// The server may have lost `extent`, which was written. The file may then end before it, and as
    /// early as on stable storage: what was between may have been lost to an earlier restart, and wait.
    fn end_may_be_lost(&mut self, extent: &Extent) {
        let left = self.stable_size.min(extent.offset);
        self.answered_end = self.answered_end.min(left);
    }

    /// Lets what was written wait again, without what newer data on its way covers.
    fn send_again(&mut self, extent: Extent) {
        let mut parts = vec![extent];
        for flight in self.flying.values_mut() {
            let newer = &mut flight.extent;
            parts = cut_out(parts, newer);
        }
        for part in parts {
            self.place(part);
        }
    }

    /// Forgets what was written before `stable`, which came to stable storage at once, and is covered by
    /// it: sent again, it would replace the newer data.
    fn forget_older(&mut self, mut stable: Extent) {
        for Written { extent, reply } in std::mem::take(&mut self.written) {
            let parts = cut_out(vec![extent], &mut stable).into_iter();
            self.written
                .extend(parts.map(|extent| Written { extent, reply }));
        }
        self.count_written();
    }

    /// Puts `new` among the waiting. Where it overlaps one of them, the newer of both stays.
    fn place(&mut self, mut new: Extent) {
        let (start, end) = (new.offset, new.end());
        let offsets: Vec<u64> = overlapping(&self.waiting, start, end)
            .map(|extent| extent.offset)
            .collect();
        let others = offsets.iter().filter_map(|&offset| self.take(offset));
        let (mut newer, older): (Vec<_>, Vec<_>) = others
            .collect::<Vec<_>>()
            .into_iter()
            .partition(|other| other.number > new.number);
        for old in older {
            new.since = new.since.min(old.since);
            for part in old.without(start, end) {
                self.put(part);
            }
        }
        let mut parts = vec![new];
        for other in &mut newer {
            parts = cut_out(parts, other);
        }
        for extent in parts.into_iter().chain(newer) {
            self.put(extent);
        }
    }

    fn put(&mut self, extent: Extent) {
        self.queue.insert((extent.since, extent.offset));
        self.waiting.insert(extent.offset, extent);
    }

    fn take(&mut self, offset: u64) -> Option<Extent> {
        let extent = self.waiting.remove(&offset)?;
        self.queue.remove(&(extent.since, offset));
        Some(extent)
    }

    fn count_written(&mut self) {
        let all = || self.written.iter().map(|written| &written.extent);
        self.written_bytes = all().map(|extent| bytes(extent.data.len())).sum();
        self.written_since = all().map(|extent| extent.since).min();
    }

    fn give_up(&mut self, extent: &Extent) {
        let from = self.lost_from.unwrap_or(extent.offset);
        self.lost_from = Some(from.min(extent.offset));
    }

    fn give_up_waiting(&mut self) {
        self.queue.clear();
        for extent in std::mem::take(&mut self.waiting).into_values() {
            self.give_up(&extent);
        }
    }

    /// What became of a call will never be told: all is given up, and nothing waited for.
    pub(super) fn cut_off(&mut self) {
        self.give_up_all();
        self.flying.clear();
        self.commit = None;
        self.held = false;
    }

    /// Gives all up. What flies cannot be called back: it stays among the flying until it is answered.
    fn give_up_all(&mut self) {
        self.give_up_waiting();
        let mut lost_from = self.lost_from.unwrap_or(u64::MAX);
        for flight in self.flying.values_mut() {
            flight.given_up = true;
            lost_from = lost_from.min(flight.extent.offset);
        }
        self.lost_from = Some(lost_from).filter(|&from| from < u64::MAX);
        for written in std::mem::take(&mut self.written) {
            self.give_up(&written.extent);
        }
        self.count_written();
    }
}

impl Extent {
    fn end(&self) -> u64 {
        self.offset + bytes(self.data.len())
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.offset < end && start < self.end()
    }

    /// Keeps the first `len` bytes, and returns the rest.
    fn split_off(&mut self, len: usize) -> Self {
        Self {
            offset: self.offset + bytes(len),
            data: self.data.split_off(len),
            ..*self
        }
    }

    /// What of it is outside `start..end`, which it overlaps.
    fn without(mut self, start: u64, end: u64) -> impl Iterator<Item = Self> {
        let after = end.clamp(self.offset, self.end()) - self.offset;
        let after = self.split_off(usize::try_from(after).unwrap_or(usize::MAX));
        let before = start.clamp(self.offset, self.end()) - self.offset;
        self.split_off(usize::try_from(before).unwrap_or(usize::MAX));
        let parts = [self, after].into_iter();
        parts.filter(|part| !part.data.is_empty())
    }
}

/// `older` without what `newer` covers, if it is newer; who waits for what was covered, waits for `newer`.
fn cut_out(older: Vec<Extent>, newer: &mut Extent) -> Vec<Extent> {
    let (start, end, number) = (newer.offset, newer.end(), newer.number);
    let mut parts = Vec::new();
    for extent in older {
        if extent.number < number && extent.overlaps(start, end) {
            newer.since = newer.since.min(extent.since);
            parts.extend(extent.without(start, end));
        } else {
            parts.push(extent);
        }
    }
    parts
}

/// Those of the extents that overlap `start..end`, last first.
fn overlapping(
    extents: &BTreeMap<u64, Extent>,
    start: u64,
    end: u64,
) -> impl Iterator<Item = &Extent> {
    let begin_before = extents.range(..end).rev().map(|(_, extent)| extent);
    begin_before.take_while(move |extent| extent.end() > start)
}

fn bytes(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
