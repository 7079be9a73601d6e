//! One slot of a session, and the memory that kept replies take.
//!
//! A slot is idle, with the reply to its last request, or busy with one; there is no third. What a sequence
//! number means is decided in one place, [`Slot::begin`]. A request that is refused there has not been
//! accepted: it changes neither the slot nor the lease (RFC 8881 §2.10.6.1, §18.46.3).

use crate::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use crate::error::Error;
use crate::host::may_hold;
use crate::limits;
use crate::time::Millis;

/// A digest of a request, by which a retry is told from another request with the same sequence. The driver
/// makes it, with a seed of its own, of the bytes of all operations; of a WRITE, its data may be left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(pub u64);

/// What is answered to a retry of a request that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replay {
    /// The bytes that were given to `finish`.
    Reply(Arc<[u8]>),
    /// The client said that it would not ask: NFS4ERR_RETRY_UNCACHED_REP at the operation behind SEQUENCE. A
    /// SEQUENCE that was alone is simply answered anew.
    Uncached,
    /// Nobody finished the request: NFS4ERR_SERVERFAULT. What of it was done is not known.
    Faulted,
}

#[derive(Debug)]
pub(crate) enum Slot {
    Idle {
        seq: u32,
        digest: Digest,
        kept: Kept,
        /// Since when there came nothing but wrong sequences.
        misordered_since: Option<Millis>,
    },
    Busy {
        seq: u32,
        digest: Digest,
    },
}

#[derive(Debug)]
pub(crate) enum Kept {
    /// Nothing ran yet, or the client gave the slot back: the next sequence is 1. After it was given back, the
    /// one that would have been next is taken as well, as some clients keep count.
    Nothing,
    Replay(Replay),
}

/// What a request is to a slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A new one: the slot is busy now.
    New,
    Again(Replay),
}

impl Default for Slot {
    fn default() -> Self {
        Self::Idle {
            seq: 0,
            digest: Digest::default(),
            kept: Kept::Nothing,
            misordered_since: None,
        }
    }
}

impl Slot {
    /// Decides about a request with sequence `asked`. `room` is asked last, when the request would be accepted: what it
    /// refuses leaves the slot as it was.
    ///
    /// Another request with the sequence of the last one is [`Error::SeqFalseRetry`], whether a reply is kept or not. Where
    /// none is, the RFC would let a server answer it as a repetition ([`Replay::Uncached`]), and some do. That would say
    /// to its client that the request was carried out, which it was not (RFC 8881 §2.10.6.1.3, §2.10.6.1.3.1).
    pub(crate) fn begin(
        &mut self,
        asked: u32,
        digest: Digest,
        room: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Verdict, Error> {
        match self {
            Self::Busy { seq, .. } if *seq == asked => Err(Error::Delay),
            Self::Busy { .. } => Err(Error::SeqMisordered),
            Self::Idle {
                seq,
                digest: last,
                kept: Kept::Replay(replay),
                ..
            } if *seq == asked => match *last == digest {
                true => Ok(Verdict::Again(replay.clone())),
                false => Err(Error::SeqFalseRetry),
            },
            Self::Idle { seq, kept, .. } => {
                let restarts = matches!(kept, Kept::Nothing) && asked == 1;
                if asked != seq.wrapping_add(1) && !restarts {
                    return Err(Error::SeqMisordered);
                }
                room()?;
                *self = Self::Busy { seq: asked, digest };
                Ok(Verdict::New)
            }
        }
    }

    /// Ends what [`Slot::begin`] began.
    pub(crate) fn finish(&mut self, replay: Replay) {
        debug_assert!(
            matches!(self, Self::Busy { .. }),
            "only a busy slot ends a request"
        );
        if let Self::Busy { seq, digest } = *self {
            *self = Self::Idle {
                seq,
                digest,
                kept: Kept::Replay(replay),
                misordered_since: None,
            };
        }
    }

    /// Drops the reply that is kept, since no retry can come: either a later request was accepted, or the client gave
    /// the slot back. The bytes that were kept.
    pub(crate) fn forget(&mut self) -> usize {
        match self {
            Self::Idle { kept, .. } => {
                let bytes = kept.bytes();
                *kept = Kept::Nothing;
                bytes
            }
            Self::Busy { .. } => 0,
        }
    }

    pub(crate) fn kept_bytes(&self) -> usize {
        match self {
            Self::Idle { kept, .. } => kept.bytes(),
            Self::Busy { .. } => 0,
        }
    }

    #[cfg(test)]
    pub(crate) const fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }

    /// Notes a wrong sequence. Whether there were only such for `ms`: then client and server will never agree
    /// about this slot again, and the client is to make a new session.
    pub(crate) fn misordered(&mut self, now: Millis, ms: u64) -> bool {
        match self {
            Self::Idle {
                misordered_since, ..
            } => now.since(*misordered_since.get_or_insert(now)) > ms,
            Self::Busy { .. } => false,
        }
    }
}

impl Kept {
    fn bytes(&self) -> usize {
        match self {
            Self::Replay(Replay::Reply(bytes)) => bytes.len(),
            Self::Nothing | Self::Replay(Replay::Uncached | Replay::Faulted) => 0,
        }
    }
}

/// The memory that the kept replies of all sessions may take together.
#[derive(Debug)]
pub(crate) struct ReplyBudget {
    used: AtomicUsize,
    max: usize,
}

impl ReplyBudget {
    pub(crate) const fn new(max: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            max,
        }
    }

    /// Takes `bytes` for a session of a host that has `of_host`; false if there are not as many, or the host has its
    /// share. For what is `assured` there is more.
    pub(crate) fn take(&self, bytes: usize, assured: bool, of_host: &AtomicUsize) -> bool {
        let max = match assured {
            true => self.max.saturating_add(limits::REPLY_BYTES_ASSURED_MAX),
            false => self.max,
        };
        let held = of_host.load(Ordering::Relaxed);
        let step = |used: usize| {
            let may = bytes == 0 || may_hold(held, bytes, max.saturating_sub(used));
            may.then_some(used.saturating_add(bytes))
        };
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        if taken.is_ok() {
            of_host.fetch_add(bytes, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    pub(crate) fn give_back(&self, bytes: usize, of_host: &AtomicUsize) {
        of_host.fetch_sub(bytes, Ordering::Relaxed);
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "more given back than taken");
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// How many of `slots` a client should go on using: all up to half of the budget, then fewer and fewer, one at
    /// the end.
    pub(crate) fn slots_worth(&self, slots: u32) -> u32 {
        let used = self.used();
        let half = self.max / 2;
        if used <= half || self.max == 0 {
            return slots;
        }
        let left = self.max.saturating_sub(used) as u64;
        let share = u64::from(slots).saturating_mul(left) / (self.max - half) as u64;
        u32::try_from(share).unwrap_or(slots).clamp(1, slots.max(1))
    }
}

/// Bytes of a session's kept replies that it has for sure.
pub(crate) const fn is_assured(held: usize, more: usize) -> bool {
    held.saturating_add(more) <= limits::SESSION_REPLY_BYTES_ASSURED
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Digest = Digest(1);
    const TWO: Digest = Digest(2);

    fn begin(slot: &mut Slot, seq: u32, digest: Digest) -> Result<Verdict, Error> {
        slot.begin(seq, digest, || Ok(()))
    }

    fn done(bytes: &[u8]) -> Replay {
        Replay::Reply(bytes.into())
    }

    #[test]
    fn sequences_mean_what_the_rfc_says() {
        let mut slot = Slot::default();
        for wrong in [0, 2, u32::MAX] {
            assert_eq!(begin(&mut slot, wrong, ONE), Err(Error::SeqMisordered));
        }
        assert_eq!(begin(&mut slot, 1, ONE), Ok(Verdict::New));
        assert_eq!(begin(&mut slot, 1, ONE), Err(Error::Delay));
        assert_eq!(begin(&mut slot, 2, ONE), Err(Error::SeqMisordered));
        slot.finish(done(b"reply"));
        assert_eq!(begin(&mut slot, 1, ONE), Ok(Verdict::Again(done(b"reply"))));
        assert_eq!(begin(&mut slot, 1, TWO), Err(Error::SeqFalseRetry));
        for wrong in [0, 3, u32::MAX] {
            assert_eq!(begin(&mut slot, wrong, ONE), Err(Error::SeqMisordered));
        }
        assert_eq!(begin(&mut slot, 2, TWO), Ok(Verdict::New));
    }

    #[test]
    fn a_refusal_for_want_of_room_leaves_the_slot_as_it_was() {
        let mut slot = Slot::default();
        let full = slot.begin(1, ONE, || Err(Error::Delay));
        assert_eq!(full, Err(Error::Delay));
        assert!(!slot.is_busy());
        assert_eq!(begin(&mut slot, 1, ONE), Ok(Verdict::New));
    }

    #[test]
    fn a_slot_that_was_given_back_begins_at_one_or_goes_on() {
        for next in [1, 3] {
            let mut slot = Slot::default();
            for seq in [1, 2] {
                assert_eq!(begin(&mut slot, seq, ONE), Ok(Verdict::New));
                assert_eq!(slot.forget(), 0, "a busy slot keeps what it has");
                slot.finish(done(b"abc"));
            }
            assert_eq!(slot.forget(), 3);
            assert_eq!(begin(&mut slot, 2, ONE), Err(Error::SeqMisordered));
            assert_eq!(begin(&mut slot, next, TWO), Ok(Verdict::New));
        }
    }

    #[test]
    fn sequences_wrap_past_zero() {
        let mut slot = Slot::Idle {
            seq: u32::MAX,
            digest: ONE,
            kept: Kept::Replay(Replay::Uncached),
            misordered_since: None,
        };
        assert_eq!(begin(&mut slot, 0, ONE), Ok(Verdict::New));
        slot.finish(Replay::Uncached);
        assert_eq!(
            begin(&mut slot, 0, ONE),
            Ok(Verdict::Again(Replay::Uncached))
        );
    }

    #[test]
    fn wrong_sequences_for_long_say_that_the_session_is_lost() {
        let mut slot = Slot::default();
        assert!(!slot.misordered(Millis(1000), 500));
        assert!(!slot.misordered(Millis(1500), 500));
        assert!(slot.misordered(Millis(1501), 500));
        assert_eq!(begin(&mut slot, 1, ONE), Ok(Verdict::New));
        slot.finish(Replay::Uncached);
        assert!(!slot.misordered(Millis(9000), 500));
    }

    #[test]
    fn slots_are_asked_back_as_memory_runs_out() {
        crate::sync::alone(|| {
            let budget = ReplyBudget::new(1000);
            let [one, two, three] = [(); 3].map(|()| AtomicUsize::new(0));
            assert!(budget.take(500, false, &one));
            assert_eq!(budget.slots_worth(64), 64);
            assert!(budget.take(250, false, &two));
            assert_eq!(budget.slots_worth(64), 32);
            assert!(
                !budget.take(1, false, &one),
                "it has more than it leaves free"
            );
            assert!(!budget.take(251, false, &three));
            assert!(budget.take(251, true, &three));
            assert_eq!(budget.slots_worth(64), 1);
            for (bytes, host) in [(500, &one), (250, &two), (251, &three)] {
                budget.give_back(bytes, host);
            }
            assert_eq!(budget.used(), 0);
        });
    }
}
