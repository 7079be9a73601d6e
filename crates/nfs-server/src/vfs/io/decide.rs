//! What is decided about a READ or WRITE before it moves a byte: in which mode, why, in which segments,
//! how stable, and what is done where the file system refuses a segment.
//!
//! [`choose`] and [`decide`] are pure functions of the export's policy, the call and what is known of the file;
//! where the policy leaves the mode to what was seen of the file, that is put into the choice between them. The calls
//! themselves (`read.rs`, `write.rs`) and `penstock ctl io --why` ask the same one, so what is foretold,
//! done, counted and traced cannot differ by more than the facts that each of them found. Nothing here
//! touches a file or panics on what a client asks.

use std::net::IpAddr;
use std::ops::Range;

use nfs_io::limits::SEGMENTS_MAX;
use nfs_io::plan::{Alignment, Segment, plan_read, plan_write};
use nfs_io::staging::{End, Placed};
use nfs_io::{Errno, Mode, WriteSync};

use crate::exports::policy::{Asked, Choice, Io, IoPolicy, OpenAs, Stability};
use crate::limits;
use crate::operate::io_counters::Reason;
use crate::vfs::Error;

/// One READ or WRITE as a client asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoCall {
    pub(crate) io: Io,
    /// Where the range begins in the file, in bytes.
    pub(crate) offset: u64,
    /// How many bytes were asked for: READ's count, the length of WRITE's data.
    pub(crate) bytes: usize,
    /// The client's address, which rules are held against.
    pub(crate) client: IpAddr,
    /// How the file is open to the client.
    pub(crate) open: OpenAs,
    /// How stable a WRITE is to be; of no meaning for a READ.
    pub(crate) stable: Stability,
    /// Where the first byte lies in memory: an address or a [`placement`](nfs_io::plan::placement). What
    /// a READ reads lies at the beginning of a page, 0.
    pub(crate) memory: usize,
}

impl IoCall {
    /// The call as rules see it, with the `name` of its file.
    pub(crate) const fn asked<'a>(&self, name: Option<&'a [u8]>) -> Asked<'a> {
        Asked {
            io: self.io,
            bytes: self.bytes as u64,
            client: self.client,
            name,
            open: self.open,
        }
    }
}

/// What is known of a file when a call comes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IoFacts<'a> {
    /// The name by which the file was last found; `None` where none is known or no rule asks for one.
    pub(crate) name: Option<&'a [u8]>,
    /// The file's length in bytes.
    pub(crate) size: u64,
    /// What direct I/O on the file asks for.
    pub(crate) alignment: Alignment,
    /// What calls like this one were refused before.
    pub(crate) refused: Refused,
}

/// Why the modes other than `buffered` cannot be had of a file, as far as that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) direct: Option<Reason>,
    pub(crate) dontcache: Option<Reason>,
}

/// How one READ or WRITE is moved: the mode that was chosen and why, the stability of a WRITE, and the
/// segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    io: Io,
    /// What the policy chose and what made it choose so.
    pub(crate) choice: Choice,
    /// Why no segment begins in the mode that was chosen.
    pub(crate) fallback: Option<Reason>,
    /// How stable a WRITE is when it is answered.
    pub(crate) stability: Stability,
    /// The range that is moved: of a READ, what the file has of it.
    asked: Range<u64>,
    segments: [Option<Segment>; SEGMENTS_MAX],
    /// A stable WRITE is synced with others of its file.
    is_synced_with_others: bool,
    /// What the middle of a direct WRITE is a multiple of, in bytes.
    block: u64,
}

/// The step at which a segment failed, with its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The file could not be opened for the segment's mode.
    Open(Error),
    /// The transfer of the segment failed, once the file was open.
    Transfer(Errno),
}

impl Failure {
    /// The error of a call that ends with this failure.
    pub(crate) fn error(self) -> Error {
        match self {
            Self::Open(error) => error,
            Self::Transfer(errno) => transfer_error(errno),
        }
    }
}

/// What a failed transfer is to a call. The engine says `EAGAIN` only when too much waits for the file system.
pub(crate) fn transfer_error(errno: Errno) -> Error {
    if errno == Errno::AGAIN {
        Error::Busy
    } else {
        errno.into()
    }
}

/// What the policy chooses for `call`.
pub(crate) fn choose(policy: &IoPolicy, call: &IoCall, facts: &IoFacts<'_>) -> Choice {
    policy.choose(&call.asked(facts.name))
}

/// Decides how `call` is moved, for which `choice` was made. `None` where its range passes 2^63 - 1, the end of any
/// file.
pub(crate) fn decide(choice: Choice, call: &IoCall, facts: &IoFacts<'_>) -> Option<Decision> {
    let IoCall { io, offset, .. } = *call;
    let refused = facts.refused.reason(choice.mode);
    let mode = match refused {
        Some(_) => Mode::Buffered,
        None => choice.mode,
    };
    let bytes = match io {
        Io::Read => call.bytes.min(left_in_file(facts.size, offset)),
        Io::Write => call.bytes,
    };
    let (segments, unaligned) = match io {
        Io::Read => {
            let plan = plan_read(mode, offset, bytes, call.memory, &facts.alignment)?;
            (at_most_three(plan.segments()), plan.fallback())
        }
        Io::Write => {
            let plan = plan_write(mode, offset, bytes, call.memory, &facts.alignment)?;
            (at_most_three(plan.segments()), plan.fallback())
        }
    };
    Some(Decision {
        io,
        choice,
        fallback: refused.or(unaligned.map(Reason::from)),
        stability: choice.stable.raise(call.stable),
        asked: offset..offset.checked_add(bytes as u64)?,
        segments,
        is_synced_with_others: false,
        block: facts.alignment.of_writes(),
    })
}

fn left_in_file(size: u64, offset: u64) -> usize {
    usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX)
}

fn at_most_three<'s>(
    segments: impl Iterator<Item = &'s Segment>,
) -> [Option<Segment>; SEGMENTS_MAX] {
    let mut segments = segments.cloned();
    std::array::from_fn(|_| segments.next())
}

impl Refused {
    /// Why segments in `mode` are refused; `None` if they are not, as far as is known.
    pub(crate) const fn reason(&self, mode: Mode) -> Option<Reason> {
        match mode {
            Mode::Buffered => None,
            Mode::DontCache => self.dontcache,
            Mode::Direct => self.direct,
        }
    }
}

impl Decision {
    /// The segments in ascending order: several of a direct WRITE with unaligned ends, none where there is
    /// nothing to move, else one. Of a direct READ it is rounded out to the alignment.
    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment> + use<> {
        self.segments.clone().into_iter().flatten()
    }

    /// Whether the call may be one of a stream that has space taken ahead of it. Not a stable WRITE: each of a
    /// stream of those is over when it is answered, and space would be given back after each.
    pub(crate) fn reserves(&self) -> bool {
        self.choice.reserve && self.io == Io::Write && self.stability == Stability::Unstable
    }

    /// Whether what the page cache has of a segment may be sent without a copy.
    pub(crate) fn splices(&self, segment: &Segment) -> bool {
        self.choice.splice && self.io == Io::Read && segment.mode == Mode::Buffered
    }

    /// How many bytes the call moves: WRITE's data, or what the file has of the range of a READ.
    pub(crate) fn bytes(&self) -> usize {
        within_call(self.asked.end - self.asked.start)
    }

    /// The range that is moved: of a READ, what the file has of it.
    pub(crate) fn asked(&self) -> Range<u64> {
        self.asked.clone()
    }

    /// May the ends of the WRITE be held until a neighbour completes their blocks? So if it is UNSTABLE, the middle
    /// is written directly, and something is before or behind it.
    pub(crate) fn may_be_staged(&self) -> bool {
        let direct = |segment: Segment| segment.mode == Mode::Direct;
        let block = limits::STAGED_BLOCK_BYTES as u64;
        self.io == Io::Write
            && self.choice.staging
            && self.stability == Stability::Unstable
            && self.segments().count() > 1
            && self.segments().any(direct)
            && self.block == block
    }

    /// The decision for the same WRITE once it was staged: its data is `run` and what else could not be held.
    pub(crate) fn with_run<M, S>(&self, placed: &Placed<M, S>) -> Self {
        let run = placed.run.clone();
        let part = |end, file: Range<u64>| {
            let mode = Mode::Buffered;
            (end == End::Refused).then_some(Segment { file, mode })
        };
        let direct = Segment {
            file: run.clone(),
            mode: Mode::Direct,
        };
        Self {
            asked: self.asked.start.min(run.start)..self.asked.end.max(run.end),
            segments: [
                part(placed.head, self.asked.start..run.start),
                Some(direct),
                part(placed.tail, run.end..self.asked.end),
            ],
            ..self.clone()
        }
    }

    /// Where the bytes of a segment are in WRITE's data.
    pub(crate) fn part(&self, segment: &Segment) -> Range<usize> {
        let place = |at: u64| within_call(at.saturating_sub(self.asked.start));
        place(segment.file.start)..place(segment.file.end)
    }

    /// Where the bytes asked for are among the first `read` ones of a READ's segment: fewer than asked
    /// for, or none, where the file ended before.
    pub(crate) fn window(&self, segment: &Segment, read: usize) -> Range<usize> {
        let place = |at: u64| within_call(at.saturating_sub(segment.file.start)).min(read);
        place(self.asked.start)..place(self.asked.end)
    }

    /// How the write of each segment is synced.
    pub(crate) fn sync_of_each(&self) -> WriteSync {
        match self.stability {
            _ if self.is_synced_once() => WriteSync::None,
            Stability::Unstable => WriteSync::None,
            Stability::DataSync => WriteSync::Dsync,
            Stability::FileSync => WriteSync::Sync,
        }
    }

    /// Is a stable WRITE synced once, after its last segment? Each segment's own sync would flush the
    /// journal and the disk's cache; one at the end is as safe, since nothing is said before it.
    pub(crate) fn is_synced_once(&self) -> bool {
        let has_parts = self.is_synced_with_others || self.segments().count() > 1;
        self.stability != Stability::Unstable && has_parts
    }

    /// Has a stable WRITE through the page cache share the sync of its file with others that are under way. A direct
    /// one stays as it is: its data is on its way to the disk by itself, which a sync would have to wait for.
    pub(crate) fn sync_with_others(&mut self) {
        let direct = |segment: Segment| segment.mode == Mode::Direct;
        self.is_synced_with_others = !self.segments().any(direct);
    }

    /// Why, where `segment` failed so, its bytes go through the page cache instead ([`Self::instead`]).
    /// `None`: the call ends with that error.
    pub(crate) fn reason_to_fall_back(
        &self,
        segment: &Segment,
        failure: Failure,
    ) -> Option<Reason> {
        match (segment.mode, failure) {
            (Mode::Direct, Failure::Open(Error::Errno(errno)))
                if Mode::is_open_refused_by(errno) =>
            {
                Some(Reason::OpenRefused)
            }
            (mode @ Mode::Direct, Failure::Transfer(errno)) if mode.is_refused_by(errno) => {
                Some(Reason::RefusedDirect)
            }
            (mode @ Mode::DontCache, Failure::Transfer(errno)) if mode.is_refused_by(errno) => {
                Some(Reason::RefusedDontCache)
            }
            // XFS says EIO of a page that a local program made dirty through a mapping while the read
            // began, so it is tried once more, through the page cache. A disk that fails does so again.
            (Mode::Direct, Failure::Transfer(Errno::IO)) if self.io == Io::Read => {
                Some(Reason::DirectFailed)
            }
            (Mode::Buffered | Mode::DontCache | Mode::Direct, _) => None,
        }
    }

    /// What is moved in place of a segment that cannot be moved as decided: the same part of a WRITE; of a
    /// READ what was asked for, without what it was rounded out to.
    pub(crate) fn instead(&self, segment: &Segment) -> Segment {
        let file = match self.io {
            Io::Read => self.asked.clone(),
            Io::Write => segment.file.clone(),
        };
        Segment {
            file,
            mode: Mode::Buffered,
        }
    }

    /// The segments as they will be moved in the end if the file refuses `refused`, and why those differ
    /// that do.
    pub(crate) fn foreseen(&self, refused: &Refused) -> (Vec<Segment>, Vec<Reason>) {
        let mut reasons = Vec::new();
        let segments = self.segments().map(|segment| {
            let reason = refused.reason(segment.mode);
            reasons.extend(reason);
            match reason {
                Some(_) => self.instead(&segment),
                None => segment,
            }
        });
        let segments = segments.collect();
        reasons.dedup();
        (segments, reasons)
    }
}

/// How many bytes a segment has.
pub(crate) fn len_of(segment: &Segment) -> usize {
    within_call(segment.file.end - segment.file.start)
}

/// A distance between two places of one call's range, whose length is a `usize`.
pub(super) fn within_call(distance: u64) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
