//! The record of one call, and the one that the thread works on.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};

use nfs_wire::{mount3, nfs3, nfs4, nlm4};

use super::clock::now;
use super::query::FileNumber;
use super::steps::{Note, Step, StepKind, Weight};
use crate::limits;

thread_local! {
    /// From which weight on steps are recorded now: 0 while no call is polled whose steps are wanted. It is apart from
    /// the record so that a step which is not wanted costs one load.
    static WANTED: Cell<u8> = const { Cell::new(0) };
    /// The record of the call that is being polled.
    static RECORD: RefCell<Option<Box<CallRecord>>> = const { RefCell::new(None) };
    /// Tells the records of this thread apart, so that a step that outlives its call ends nobody else's.
    static SERIAL: Cell<u16> = const { Cell::new(0) };
}

/// What is known of one call, from its first byte to its reply.
#[derive(Clone, Debug)]
pub(crate) struct CallRecord {
    pub(super) times: Times,
    pub(super) client: SocketAddr,
    pub(super) xid: u32,
    pub(super) procedure: Procedure,
    /// The export and the object that the call named last, and the object that it named before.
    pub(super) export: Option<u32>,
    pub(super) files: [Option<FileNumber>; 2],
    handle: [u8; limits::HANDLE_BYTES_MAX],
    handle_len: u8,
    /// Offset and length of what it is to read, write or commit, in bytes.
    pub(super) range: Option<(u64, u64)>,
    pub(super) answer: Answered,
    pub(super) steps: Vec<StepRecord>,
    /// Steps beyond [`limits::CALL_STEPS_MAX`].
    pub(super) left_out: u32,
    /// How many steps are under way, one in the other.
    depth: u8,
    serial: u16,
    wanted: u8,
}

/// The times that every call has, in ticks of the clock; 0 where it has not come so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// The first bytes of it were read.
    pub(super) first_bytes: u64,
    /// All of it was read.
    pub(super) received: u64,
    /// It was looked at first.
    pub(super) begun: u64,
    /// Its reply was there.
    pub(super) answered: u64,
    /// Its reply was handed to the kernel, or it ended without one.
    pub(super) ended: u64,
}

/// Which procedure of which program a call is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Procedure {
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) number: u32,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// It has not ended.
    Running,
    /// With results, of which this is the first word: the status, in most programs.
    Results(Option<u32>),
    /// RPC's own refusal (RFC 5531 §9).
    Refused,
    /// There is no reply: another run of it is under way, it was no call, or its connection went.
    Nothing,
}

/// One step of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepRecord {
    pub(super) begun: u64,
    /// In ticks; 0 while it is under way.
    pub(super) ended: u64,
    pub(super) kind: StepKind,
    /// How many steps it is in.
    pub(super) depth: u8,
    pub(super) note: Note,
}

impl Times {
    /// The times of a call that was received, in ticks.
    pub(crate) const fn of(first_bytes: u64, received: u64) -> Self {
        Self {
            first_bytes,
            received,
            begun: 0,
            answered: 0,
            ended: 0,
        }
    }
}

impl Procedure {
    pub(super) const NONE: Self = Self {
        program: 0,
        version: 0,
        number: 0,
    };

    /// The RFC's name; `None` where it is no procedure of ours.
    pub(super) fn name(self) -> Option<&'static str> {
        let number = self.number;
        match (self.program, self.version) {
            (nfs3::PROGRAM, nfs3::VERSION) => {
                let procedure = nfs3::Procedure::try_from(number);
                procedure.ok().map(nfs3::Procedure::name)
            }
            (nfs4::PROGRAM, nfs4::VERSION) => match number {
                nfs4::PROC_NULL => Some("NULL"),
                nfs4::PROC_COMPOUND => Some("COMPOUND"),
                _ => None,
            },
            (mount3::PROGRAM, mount3::VERSION) => {
                let procedure = mount3::Procedure::try_from(number);
                procedure.ok().map(mount3::Procedure::name)
            }
            (nlm4::PROGRAM, nlm4::VERSION) => {
                let procedure = nlm4::Procedure::try_from(number);
                procedure.ok().map(nlm4::Procedure::name)
            }
            _ => None,
        }
    }

    /// What the program is called, with its version.
    pub(super) const fn program_name(self) -> &'static str {
        match self.program {
            nfs3::PROGRAM if self.version == nfs4::VERSION => "NFSv4",
            nfs3::PROGRAM => "NFSv3",
            mount3::PROGRAM => "MOUNT",
            nlm4::PROGRAM => "NLM",
            _ => "?",
        }
    }
}

impl CallRecord {
    pub(super) fn new() -> Self {
        Self {
            times: Times::default(),
            client: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            xid: 0,
            procedure: Procedure::NONE,
            export: None,
            files: [None; 2],
            handle: [0; limits::HANDLE_BYTES_MAX],
            handle_len: 0,
            range: None,
            answer: Answered::Running,
            steps: Vec::new(),
            left_out: 0,
            depth: 0,
            serial: 0,
            wanted: 0,
        }
    }

    /// Makes the record one of another call, which begins now.
    pub(super) fn begin(&mut self, client: SocketAddr, times: Times, wanted: u8) {
        self.times = Times {
            begun: now(),
            answered: 0,
            ended: 0,
            ..times
        };
        self.client = client;
        self.xid = 0;
        self.procedure = Procedure::NONE;
        self.export = None;
        self.files = [None; 2];
        self.handle_len = 0;
        self.range = None;
        self.answer = Answered::Running;
        self.steps.clear();
        self.left_out = 0;
        self.depth = 0;
        self.serial = SERIAL.get().wrapping_add(1);
        SERIAL.set(self.serial);
        self.wanted = wanted;
    }

    /// The bytes of the handle that the call named last; none if it named none.
    pub(super) fn handle(&self) -> &[u8] {
        let len = usize::from(self.handle_len);
        self.handle.get(..len).unwrap_or_default()
    }

    /// The reply is there; `head` are its first bytes, the record mark among them.
    pub(crate) fn answered(&mut self, head: &[u8]) {
        /// Mark, xid, REPLY, MSG_ACCEPTED, an empty verifier, SUCCESS (RFC 5531 §9).
        const RESULTS_AT: usize = 28;
        let word = |at: usize| {
            let bytes = head.get(at..)?.first_chunk()?;
            Some(u32::from_be_bytes(*bytes))
        };
        if self.times.answered == 0 {
            self.times.answered = now();
        }
        let is_success = word(12) == Some(0) && word(24) == Some(0);
        self.answer = if is_success {
            Answered::Results(word(RESULTS_AT))
        } else {
            Answered::Refused
        };
    }

    fn begin_step(&mut self, kind: StepKind) -> Step {
        let place = u16::try_from(self.steps.len()).ok();
        let place = place.filter(|at| usize::from(*at) < limits::CALL_STEPS_MAX);
        let Some(at) = place else {
            self.left_out += 1;
            return Step::UNRECORDED;
        };
        self.make_room();
        self.steps.push(StepRecord {
            begun: now(),
            ended: 0,
            kind,
            depth: self.depth,
            note: Note::None,
        });
        self.depth = self.depth.saturating_add(1);
        Step::new(at, self.serial)
    }

    /// Makes room for one more step: twice as much as there was, and no more than for all that there may be.
    fn make_room(&mut self) {
        let len = self.steps.len();
        if len == self.steps.capacity() {
            let left = limits::CALL_STEPS_MAX.saturating_sub(len);
            self.steps.reserve_exact(len.max(8).min(left));
        }
    }

    fn end_step(&mut self, at: u16) {
        if let Some(step) = self.steps.get_mut(usize::from(at)) {
            step.ended = now();
            self.depth = step.depth;
        }
    }

    /// Notes a step that has lasted since `begun` and is over now.
    fn waited(&mut self, kind: StepKind, begun: u64) {
        if self.steps.len() >= limits::CALL_STEPS_MAX {
            self.left_out += 1;
            return;
        }
        self.make_room();
        self.steps.push(StepRecord {
            begun,
            ended: now(),
            kind,
            depth: self.depth,
            note: Note::None,
        });
    }

    /// Takes over what was recorded on a helper thread, below the step that is under way.
    pub(super) fn take_over(&mut self, handed_over: u64, child: &Self) {
        let Times { begun, ended, .. } = child.times;
        let own = [
            (StepKind::HelperWait, handed_over, begun),
            (StepKind::HelperRun, begun, ended),
        ];
        let own = own.map(|(kind, begun, ended)| StepRecord {
            begun,
            ended,
            kind,
            depth: self.depth,
            note: Note::None,
        });
        let depth = self.depth.saturating_add(1);
        let below = child.steps.iter().map(|step| StepRecord {
            depth: step.depth.saturating_add(depth),
            ..*step
        });
        self.left_out += child.left_out;
        for step in own.into_iter().chain(below) {
            if self.steps.len() < limits::CALL_STEPS_MAX {
                self.make_room();
                self.steps.push(step);
            } else {
                self.left_out += 1;
            }
        }
    }
}

/// The record is that of the thread while this is kept.
pub(super) struct Running {
    before: Option<Box<CallRecord>>,
    before_wanted: u8,
}

impl Running {
    pub(super) fn enter(record: Box<CallRecord>) -> Self {
        let before_wanted = WANTED.replace(record.wanted);
        Self {
            before: RECORD.replace(Some(record)),
            before_wanted,
        }
    }

    /// The record, as it is now.
    pub(super) fn leave(self) -> Option<Box<CallRecord>> {
        RECORD.take()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        WANTED.set(self.before_wanted);
        RECORD.replace(self.before.take());
    }
}

/// Works on the record of the call that is being polled, if there is one.
pub(super) fn with_record<T>(work: impl FnOnce(&mut CallRecord) -> T) -> Option<T> {
    RECORD.with(|record| {
        // Nothing in here polls or steps in between.
        let mut record = record.try_borrow_mut().ok()?;
        record.as_deref_mut().map(work)
    })
}

/// The record of the call that is being polled on this thread, copied: for when the process dies.
pub(super) fn running_here() -> Option<CallRecord> {
    with_record(|record| record.clone())
}

/// Whether steps of that weight are recorded here and now.
#[inline(always)]
pub(super) fn is_wanted_at(weight: Weight) -> bool {
    WANTED.get() >= weight as u8
}

/// Whether anything is recorded here and now.
#[inline(always)]
pub(super) fn is_wanted() -> bool {
    is_wanted_at(Weight::Waits)
}

/// From which weight on steps are recorded here and now.
pub(super) fn wanted() -> u8 {
    WANTED.get()
}

#[inline(never)]
pub(super) fn begin(kind: StepKind) -> Step {
    with_record(|record| record.begin_step(kind)).unwrap_or(Step::UNRECORDED)
}

#[inline(never)]
pub(super) fn end(at: u16, call: u16) {
    with_record(|record| {
        if record.serial == call {
            record.end_step(at);
        }
    });
}

#[inline(never)]
pub(super) fn note(at: u16, call: u16, note: Note) {
    with_record(|record| {
        if record.serial == call
            && let Some(step) = record.steps.get_mut(usize::from(at))
        {
            step.note = note;
        }
    });
}

/// Takes over what was recorded on a helper thread.
pub(super) fn take_over(handed_over: u64, child: &CallRecord) {
    with_record(|record| record.take_over(handed_over, child));
}

/// Takes over what was recorded on a helper thread that left something to be waited for, which is over now.
pub(super) fn take_over_and_wait(handed_over: u64, child: &CallRecord, kind: StepKind) {
    with_record(|record| {
        record.take_over(handed_over, child);
        record.waited(kind, child.times.ended);
    });
}

/// Says which call it is that is being polled.
#[inline]
pub(crate) fn called(xid: u32, procedure: Procedure) {
    if is_wanted() {
        with_record(|record| {
            record.xid = xid;
            record.procedure = procedure;
        });
    }
}

/// The time now, in ticks, at which the reply to the call that is being polled is there.
#[inline]
pub(crate) fn answered_now() -> u64 {
    let now = now();
    if is_wanted() {
        with_record(|record| record.times.answered = now);
    }
    now
}

/// Says which object of which export the call is about; `handle`: what its client calls it.
#[inline]
pub(crate) fn of_file(export: u32, (dev, inode): (u64, u64), handle: &[u8]) {
    if is_wanted() {
        with_record(|record| {
            record.export = Some(export);
            record.files = [Some(FileNumber { dev, inode }), record.files[0]];
            if let Some(place) = record.handle.get_mut(..handle.len()) {
                place.copy_from_slice(handle);
                record.handle_len = u8::try_from(handle.len()).unwrap_or_default();
            }
        });
    }
}

/// Says what of the file the call is to read, write or commit.
#[inline]
pub(crate) fn of_range(offset: u64, len: u64) {
    if is_wanted() {
        with_record(|record| record.range = Some((offset, len)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_of_one_call_is_bounded() {
        let mut record = CallRecord::new();
        for _ in 0..10 * limits::CALL_STEPS_MAX {
            std::mem::forget(record.begin_step(StepKind::Segment));
            let bytes = size_of::<CallRecord>() + record.steps.capacity() * size_of::<StepRecord>();
            let most = limits::CALL_RECORDED_BYTES_MAX;
            assert!(bytes <= most, "{bytes} bytes of {most}");
        }
        assert_eq!(record.steps.len(), limits::CALL_STEPS_MAX);
        assert_eq!(record.left_out as usize, 9 * limits::CALL_STEPS_MAX);
    }
}
