//! Which [`Mode`] suits a file, from what its calls have in common.
//!
//! A [`History`] belongs to an open file and is forgotten with it. It is told of every READ and WRITE before it
//! moves a byte ([`History::judge`]), and of when some of them came, and says which mode the calls of that
//! direction go in. The rules are in `rules.rs`; how often a mode may change is here. Pure: no
//! clock, no I/O, no allocation, of fixed size; never panics. The same calls always give the same answers.

mod around;
mod reuse;
mod rules;
mod words;

use crate::Mode;
use crate::limits::{
    AUTO_CALLS_MIN, AUTO_CALM_CALLS, AUTO_CURSORS_MAX, AUTO_HOLD_MAX, AUTO_LARGE_BYTES,
    AUTO_LOOK_AHEAD_BYTES, AUTO_OVERTAKE_TIMES, AUTO_SAMPLED_CALLS, AUTO_SLOWER_CALLS,
    AUTO_STREAMED_BYTES, AUTO_SWITCH_CALLS_MIN, AUTO_SWITCH_KIB_MIN, AUTO_WISHES_MIN,
};

pub use around::Around;
use reuse::{Last, Reuse};
pub use words::{Hint, Reason};

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// READ: from a file to a client.
    Read,
    /// WRITE: from a client to a file.
    Write,
}

/// One READ or WRITE, before it moves a byte.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// READ or WRITE.
    pub direction: Direction,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// How many bytes it asks for.
    pub bytes: u64,
    /// The length of the file, with what this call adds to it.
    pub file_bytes: u64,
    /// Whether a direct WRITE would move all of it past the page cache: it has no ends that are parts of blocks,
    /// or they are staged. Of no meaning for a READ.
    pub aligned: bool,
    /// A WRITE is on stable storage when it is answered.
    pub stable: bool,
    /// What is known of the reader or writer beside the calls.
    pub hint: Hint,
    /// The file has not refused direct I/O, as far as is known.
    pub takes_direct: bool,
    /// The file has not refused to be read and written with its pages dropped behind, as far as is known.
    pub takes_dontcache: bool,
}

/// The mode for a call, and what is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The mode to move it in.
    pub mode: Mode,
    /// Why that mode.
    pub reason: Reason,
    /// The mode that the reason asks for, where the file does not take it.
    pub instead_of: Option<Mode>,
    /// The mode was another one for the call before.
    pub switch: Option<Switch>,
    /// Whoever moves the bytes is to say when the call came ([`History::sampled_at`]), and what of a range is in
    /// the page cache ([`History::found_cached`]) if there is one.
    pub sample: bool,
    /// Where in the file to look for that, in bytes.
    pub look_at: Option<u64>,
    /// Bytes of large calls that did not come back to what was moved lately, to be added to what all files
    /// tell ([`Around::after_a_second`]).
    pub streamed_bytes: u32,
}

/// A change of mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The mode of the call before.
    pub from: Mode,
    /// The mode from this call on.
    pub to: Mode,
    /// Why.
    pub reason: Reason,
}

/// What one file's calls were like, in each direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct History {
    read: Flow,
    write: Flow,
    reuse: Reuse,
}

/// What a verdict rests on, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Calls of this direction that were seen.
    pub calls: u64,
    /// Changes of mode among them.
    pub switches: u32,
    /// Calls since the last change, or since the first call.
    pub calls_since: u32,
    /// Bytes of a call, on the average.
    pub mean_bytes: u64,
    /// Percent of the last calls that went on from another one.
    pub sequential: u8,
    /// Percent of the last WRITEs whose ends are parts of blocks and are not staged.
    pub unaligned: u8,
    /// Percent of the last WRITEs that were stable.
    pub stable: u8,
    /// Percent of what was moved that was moved before, within as much as memory could hold; `None` while that
    /// is not known.
    pub reused: Option<u8>,
    /// Percent of what was looked for in the page cache that was there; `None` while that is not known.
    pub cached: Option<u8>,
    /// Nanoseconds from one call to the next, per 16 KiB and call, in each mode of [`Mode::ALL`] that was tried.
    pub cost: [Option<u32>; Mode::ALL.len()],
}

/// The calls of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    calls: u64,
    mean_bytes: u32,
    switches: u32,
    calls_since: u32,
    kib_since: u32,
    calm: u32,
    streamed: u32,
    /// Pages at which calls ended that others may go on from.
    cursors: [u32; AUTO_CURSORS_MAX],
    next_cursor: u8,
    mode: Mode,
    before: Mode,
    wish: Mode,
    wished: u8,
    hold: u8,
    reason: Reason,
    sequential: Share,
    unaligned: Share,
    stable: Share,
    reused: Sampled,
    cached: Sampled,
    /// When the last sampled call came, if the mode has been the same since.
    sampled_at: Option<u64>,
    cost: [Cost; Mode::ALL.len()],
}

/// A share that forgets: after some 16 observations the older ones count for a third.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share(u16);

/// A share, and whether enough was observed to speak of one.
#[derive(Clone, Copy, Debug, Default)]
struct Sampled {
    share: Share,
    samples: u8,
}

/// How soon one call followed another in one mode, at its best.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    nanos: u32,
    samples: u8,
}

impl History {
    /// Takes note of a call, and says in which mode it is to be moved.
    pub fn judge(&mut self, call: &Call, around: &Around) -> Verdict {
        let reused = self.note_reuse(call, around);
        let read_hot = self.read.is_hot();
        let flow = self.flow_mut(call.direction);
        let is_first = flow.calls == 0;
        flow.note(call);
        let streamed_bytes = flow.note_streamed(call, reused);
        let wish = rules::wish(flow, read_hot, call, around);
        let (mode, reason) = wish;
        let possible = call.nearest_to(mode);
        let switch = if is_first {
            flow.begin(possible, reason);
            None
        } else {
            flow.settle(call, (possible, reason), around)
        };
        let sample = flow.calls % u64::from(AUTO_SAMPLED_CALLS) == 1;
        let look_at = flow.look_at(call).filter(|_| sample);
        Verdict {
            mode: flow.mode,
            reason: flow.reason,
            instead_of: (mode != possible && flow.mode == possible).then_some(mode),
            switch,
            sample,
            look_at,
            streamed_bytes,
        }
    }

    /// What [`History::judge`] would say, without taking note of the call.
    #[must_use]
    pub fn foretell(&self, call: &Call, around: &Around) -> Verdict {
        let mut copy = *self;
        copy.judge(call, around)
    }

    /// The call that was to be sampled came `nanos` nanoseconds after some moment, the same for all calls. Calls of
    /// clients that wait for replies come as fast as they are answered, however many of them are under way at once,
    /// which the time that each of them takes does not tell.
    pub fn sampled_at(&mut self, direction: Direction, nanos: u64) {
        let flow = self.flow_mut(direction);
        let Some(before) = flow.sampled_at.replace(nanos) else {
            return;
        };
        if let Some(cost) = flow.cost.get_mut(flow.mode as usize) {
            let apart = nanos.saturating_sub(before) / u64::from(AUTO_SAMPLED_CALLS);
            cost.note(flow.mean_bytes.into(), apart);
        }
    }

    /// Of the pages that the page cache was asked for, it had so many.
    pub fn found_cached(&mut self, direction: Direction, had: u64, of: u64) {
        if of > 0 {
            let flow = self.flow_mut(direction);
            flow.cached.note(had.saturating_mul(2) >= of);
        }
    }

    /// The mode of the last call of this direction; `None` before the first.
    #[must_use]
    pub fn mode(&self, direction: Direction) -> Option<Mode> {
        let flow = self.flow(direction);
        (flow.calls > 0).then_some(flow.mode)
    }

    /// What is known of the calls of one direction.
    #[must_use]
    pub fn evidence(&self, direction: Direction) -> Evidence {
        let flow = self.flow(direction);
        Evidence {
            calls: flow.calls,
            switches: flow.switches,
            calls_since: flow.calls_since,
            mean_bytes: flow.mean_bytes.into(),
            sequential: flow.sequential.percent(),
            unaligned: flow.unaligned.percent(),
            stable: flow.stable.percent(),
            reused: flow.reused.percent(),
            cached: flow.cached.percent(),
            cost: flow.cost.map(|cost| cost.known()),
        }
    }

    /// Whether the call comes back to what was moved lately; `None` where the sample does not tell.
    fn note_reuse(&mut self, call: &Call, around: &Around) -> Option<bool> {
        let room = around.memory_bytes / 2;
        let last = match call.direction {
            Direction::Read => Last::Read,
            Direction::Write => Last::Written,
        };
        let seen = self.reuse.note(call.offset, call.bytes, room, last);
        if seen.places == 0 {
            return None;
        }
        match call.direction {
            Direction::Read => {
                if seen.written > 0 {
                    // Whether the page cache would have spared the disk a read is for WRITEs to know.
                    self.write.reused.note(true);
                }
                // What was written past the cache is not in it.
                let kept = self.write.mode == Mode::Buffered;
                let again = seen.read > 0 || kept && seen.written > 0;
                self.read.reused.note(again);
                Some(again)
            }
            Direction::Write => {
                let again = seen.written > 0 || seen.read > 0 && self.read.is_hot();
                self.write.reused.note(again);
                Some(again)
            }
        }
    }

    const fn flow(&self, direction: Direction) -> &Flow {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    const fn flow_mut(&mut self, direction: Direction) -> &mut Flow {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        }
    }
}

impl Call {
    /// The mode itself or, where the file does not take it, the next best.
    const fn nearest_to(&self, mode: Mode) -> Mode {
        match mode {
            Mode::Direct if self.takes_direct => Mode::Direct,
            Mode::Direct | Mode::DontCache if self.takes_dontcache => Mode::DontCache,
            Mode::Direct | Mode::DontCache | Mode::Buffered => Mode::Buffered,
        }
    }

    const fn takes(&self, mode: Mode) -> bool {
        match mode {
            Mode::Buffered => true,
            Mode::DontCache => self.takes_dontcache,
            Mode::Direct => self.takes_direct,
        }
    }
}

impl Flow {
    /// READs are served from the page cache because they come back.
    fn is_hot(&self) -> bool {
        self.calls > 0 && self.mode == Mode::Buffered && self.reused.is(50)
    }

    fn note(&mut self, call: &Call) {
        let bytes = u32::try_from(call.bytes).unwrap_or(u32::MAX);
        let goes_on = self.goes_on(call);
        if self.calls == 0 {
            self.mean_bytes = bytes;
            self.unaligned = Share::of(!call.aligned);
            self.stable = Share::of(call.stable);
        } else {
            let mean = u64::from(self.mean_bytes) * 15 + u64::from(bytes);
            self.mean_bytes = u32::try_from(mean / 16).unwrap_or(u32::MAX);
            self.unaligned.note(!call.aligned);
            self.stable.note(call.stable);
            if self.calls == 1 {
                self.sequential = Share::of(goes_on);
            }
            self.sequential.note(goes_on);
        }
        self.calls += 1;
        self.calls_since = self.calls_since.saturating_add(1);
        self.kib_since = self.kib_since.saturating_add(bytes.div_ceil(1024));
        self.calm += 1;
        if self.calm >= AUTO_CALM_CALLS {
            self.calm = 0;
            self.hold = self.hold.saturating_sub(1);
        }
    }

    /// Does the call begin about where another one ended? Its own end takes that one's place.
    fn goes_on(&mut self, call: &Call) -> bool {
        let page = |offset: u64| (offset / 4096) as u32;
        let window = call.bytes.max(4096).saturating_mul(AUTO_OVERTAKE_TIMES) / 4096;
        let (begin, end) = (
            page(call.offset),
            page(call.offset.saturating_add(call.bytes)),
        );
        let near = |cursor: &&mut u32| u64::from(cursor.abs_diff(begin)) <= window;
        if self.calls > 0
            && let Some(cursor) = self.cursors.iter_mut().find(near)
        {
            // Of calls that overtake each other the farthest one counts.
            *cursor = end.max(*cursor);
            return true;
        }
        let next = usize::from(self.next_cursor) % AUTO_CURSORS_MAX;
        if self.calls == 0 {
            self.cursors = [end; AUTO_CURSORS_MAX];
        } else if let Some(cursor) = self.cursors.get_mut(next) {
            *cursor = end;
        }
        self.next_cursor = self.next_cursor.wrapping_add(1);
        false
    }

    /// Bytes of large calls that do not come back, once there are some MiB of them.
    fn note_streamed(&mut self, call: &Call, reused: Option<bool>) -> u32 {
        let comes_back = reused.unwrap_or_else(|| self.reused.is(50));
        if call.bytes < AUTO_LARGE_BYTES || comes_back {
            return 0;
        }
        let bytes = u32::try_from(call.bytes).unwrap_or(u32::MAX);
        self.streamed = self.streamed.saturating_add(bytes);
        if self.streamed < AUTO_STREAMED_BYTES {
            return 0;
        }
        std::mem::take(&mut self.streamed)
    }

    fn begin(&mut self, mode: Mode, reason: Reason) {
        self.mode = mode;
        self.before = mode;
        self.reason = reason;
    }

    /// Whether the mode changes now that the evidence asks for another, or for this one.
    fn settle(
        &mut self,
        call: &Call,
        (wish, reason): (Mode, Reason),
        around: &Around,
    ) -> Option<Switch> {
        if !call.takes(self.mode) {
            return Some(self.switch_to(wish, Reason::Refused));
        }
        if self.is_slower(call) && !around.pressed && call.takes(self.before) {
            return Some(self.switch_to(self.before, Reason::Slower));
        }
        let pinned = self.reason == Reason::Slower
            && call.hint == Hint::Normal
            && !around.pressed
            && self.calls_since < AUTO_SLOWER_CALLS;
        if pinned {
            self.wished = 0;
            return None;
        }
        if wish == self.mode {
            self.wished = 0;
            self.reason = reason;
            return None;
        }
        self.wished = match self.wish == wish {
            true => self.wished.saturating_add(1),
            false => 1,
        };
        self.wish = wish;
        let waited = self.calls_since >= self.calls_to_wait()
            && self.kib_since >= AUTO_SWITCH_KIB_MIN
            && self.calls >= u64::from(AUTO_CALLS_MIN);
        (waited && self.wished >= AUTO_WISHES_MIN).then(|| self.switch_to(wish, reason))
    }

    fn calls_to_wait(&self) -> u32 {
        AUTO_SWITCH_CALLS_MIN << self.hold.min(AUTO_HOLD_MAX)
    }

    fn switch_to(&mut self, to: Mode, reason: Reason) -> Switch {
        let from = self.mode;
        self.before = from;
        self.mode = to;
        self.reason = reason;
        self.switches = self.switches.saturating_add(1);
        (self.calls_since, self.kib_since, self.wished) = (0, 0, 0);
        self.hold = (self.hold + 1).min(AUTO_HOLD_MAX);
        self.calm = 0;
        // What the device was like then says nothing of how it is now.
        if let Some(cost) = self.cost.get_mut(to as usize) {
            *cost = Cost::default();
        }
        self.sampled_at = None;
        Switch { from, to, reason }
    }

    /// Was the mode before, which kept things in memory, twice as fast as this one, which was taken because the
    /// disk is as good? WRITEs that are not stable cost nothing until later, so of these nobody can tell.
    fn is_slower(&self, call: &Call) -> bool {
        let comparable = call.direction == Direction::Read || call.stable;
        let chosen_to_be_fast = matches!(
            self.reason,
            Reason::Stream | Reason::Scattered | Reason::Stable
        );
        let cost = |mode: Mode| self.cost.get(mode as usize).and_then(|cost| cost.known());
        if !comparable || !chosen_to_be_fast || self.before != Mode::Buffered {
            return false;
        }
        if self.mode == Mode::Buffered || self.calls_since < self.calls_to_wait() {
            return false;
        }
        match (cost(self.mode), cost(self.before)) {
            (Some(now), Some(before)) => now / 2 > before,
            (None, _) | (_, None) => false,
        }
    }

    /// Where the page cache is to be looked at: where a call on its own begins; of a sequence well ahead of it, since
    /// what lies directly before the reader was read ahead.
    fn look_at(&self, call: &Call) -> Option<u64> {
        if call.direction == Direction::Write {
            return None;
        }
        if !self.sequential.is(50) {
            return Some(call.offset);
        }
        let ahead = call.offset.saturating_add(AUTO_LOOK_AHEAD_BYTES);
        (ahead.saturating_add(call.bytes) <= call.file_bytes).then_some(ahead)
    }
}

impl Share {
    const fn of(all: bool) -> Self {
        Self(if all { u16::MAX } else { 0 })
    }

    fn note(&mut self, yes: bool) {
        let Self(share) = *self;
        // Rounded towards the new value, so that it is reached.
        self.0 = match yes {
            true => share + (u16::MAX - share).div_ceil(16),
            false => share - share.div_ceil(16),
        };
    }

    fn percent(self) -> u8 {
        (u32::from(self.0) * 100 / u32::from(u16::MAX)) as u8
    }

    fn is(self, percent: u8) -> bool {
        self.percent() >= percent
    }
}

impl Sampled {
    /// Observations before it is a share of anything.
    const ENOUGH: u8 = 8;

    fn note(&mut self, yes: bool) {
        if self.samples < Self::ENOUGH {
            // A plain average at first: nothing older is to be forgotten.
            let all = u32::from(self.share.0) * u32::from(self.samples);
            let all = all + if yes { u32::from(u16::MAX) } else { 0 };
            self.samples += 1;
            self.share = Share((all / u32::from(self.samples)) as u16);
        } else {
            self.share.note(yes);
        }
    }

    fn percent(self) -> Option<u8> {
        (self.samples >= Self::ENOUGH).then(|| self.share.percent())
    }

    fn is(self, percent: u8) -> bool {
        self.percent().is_some_and(|share| share >= percent)
    }
}

impl Cost {
    /// Times between calls before they count.
    const ENOUGH: u8 = 8;
    /// What a call costs whatever its size, as if it were so many bytes more.
    const CALL_BYTES: u64 = 16 << 10;

    fn note(&mut self, bytes: u64, nanos: u64) {
        let per_call =
            nanos.saturating_mul(Self::CALL_BYTES) / bytes.saturating_add(Self::CALL_BYTES);
        let per_call = u32::try_from(per_call).unwrap_or(u32::MAX);
        // The best of late: what takes longer may have waited for the client, and not for the disk.
        let faded = match self.samples {
            0 => u32::MAX,
            _ => self.nanos.saturating_add(self.nanos / 64),
        };
        self.nanos = per_call.min(faded);
        self.samples = self.samples.saturating_add(1);
    }

    fn known(self) -> Option<u32> {
        (self.samples >= Self::ENOUGH).then_some(self.nanos)
    }
}

#[cfg(test)]
mod tests;
