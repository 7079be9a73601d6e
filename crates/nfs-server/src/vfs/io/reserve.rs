//! Space taken ahead of a stream of WRITEs that extends a file, and given back when the stream is over.
//!
//! What there is to take is decided by [`Stream`](super::stream::Stream), which is pure; here it is taken
//! (`fallocate`, on a helper thread), accounted, and given back: after the COMMIT that leaves nothing to wait
//! for, when the file was not written to for a second or two, before it leaves the file cache, and at the end
//! of the server. Space is a matter of speed: whatever fails here fails no WRITE, and is counted.
//!
//! How much the server may hold so is bounded for each file system, by what is free there
//! ([`limits::RESERVE_FREE_DIVISOR`]). Nobody can have all of that: whoever asks gets a part of what is left.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nfs_io::fs::Stat;
use nfs_io::{Errno, fs};
use parking_lot::Mutex;

use super::super::{Error, Mount, Object};
use super::decide::Decision;
use super::stream::{Stream, Wanted};
use crate::limits;
use crate::operate::counters::count;
use crate::vfs::{Target, Vfs};

/// What was taken ahead of the WRITEs of one file.
#[derive(Default)]
pub(crate) struct Reserve {
    /// Blocks may have been taken that were not given back.
    held: AtomicBool,
    state: Mutex<State>,
    /// Held by the call that takes space: those that are to write there wait for it.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    stream: Stream,
    beyond: Option<Beyond>,
}

/// What one file counts for in the sum of its file system; given back when dropped.
struct Beyond {
    mount: Arc<Mount>,
    bytes: u64,
}

impl Drop for Beyond {
    fn drop(&mut self) {
        self.mount.reserved.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What was taken, and what came of it. Every number only grows.
#[derive(Default)]
pub(crate) struct ReserveCounters {
    /// Times that space was taken ahead of a stream.
    taken: AtomicU64,
    /// Times that a file's space was given back.
    given_back: AtomicU64,
    /// Files that left the cache with space that could not be given back.
    kept: AtomicU64,
    /// Refusals: the file system cannot.
    unsupported: AtomicU64,
    /// Refusals: the file system or a quota is full (ENOSPC, EDQUOT).
    full: AtomicU64,
    /// Refusals: so little is free that none was asked for.
    nearly_full: AtomicU64,
    /// Refusals: anything else.
    failed: AtomicU64,
}

impl ReserveCounters {
    /// Everything by the name under which `ctl status` shows it.
    pub(crate) fn named(&self) -> [(&'static str, u64); 7] {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("reserve_taken", load(&self.taken)),
            ("reserve_given_back", load(&self.given_back)),
            ("reserve_kept", load(&self.kept)),
            ("reserve_refused_unsupported", load(&self.unsupported)),
            ("reserve_refused_full", load(&self.full)),
            ("reserve_refused_nearly_full", load(&self.nearly_full)),
            ("reserve_refused_failed", load(&self.failed)),
        ]
    }
}

/// What came of giving a file's space back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vfs) enum GivenBack {
    /// Nothing is left to be given back.
    All,
    /// A call uses the file now.
    InUse,
    /// The kernel refused: a program of this host has the file open, as a rule.
    Refused,
}

/// Why no space was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    NearlyFull,
    Kernel(Errno),
    /// Somebody else took space there, and with ours that would be given back.
    NotOurs,
    /// Too much waits for the file system: the next WRITE may have more luck.
    Busy,
}

impl Reserve {
    /// Blocks may have been taken that were not given back.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Nothing is held any more, and the next WRITE that extends the file begins a stream.
    fn forget(&self) {
        let mut state = self.state.lock();
        *state = State::default();
        self.held.store(false, Ordering::Release);
    }

    /// The file was truncated from a length to another. What goes with the bytes need not be given back.
    pub(crate) fn truncated(&self, from: u64, to: u64) {
        if to <= from {
            self.forget();
        }
    }

    /// A WRITE failed: where the stream is cannot be said any more, and the disk may be full.
    pub(super) fn write_failed(&self) {
        self.state.lock().stream.refused();
    }
}

impl Vfs {
    /// Takes space ahead of a WRITE, if it is one of a stream that wants some, or waits until what another WRITE
    /// of the stream takes for it is there.
    pub(super) async fn reserve_ahead(
        self: &Arc<Self>,
        target: &Target,
        file: &Arc<OwnedFd>,
        before: &Stat,
        decision: &Decision,
    ) {
        let object = &target.object;
        let reserve = &object.io.reserve;
        if !decision.reserves() || !object.mount.takes_space_ahead() {
            return;
        }
        let range = decision.asked();
        let (wanted, turn) = {
            let mut state = reserve.state.lock();
            let wanted = state.stream.arrived(before.size, &range);
            // Under the lock: who looks after this sees the turn taken, or the space.
            (wanted, reserve.turn.try_lock())
        };
        match (wanted, turn) {
            (Some(wanted), Ok(_turn)) => {
                // Before anything is taken: if this call is given up on its way, it is given back all the same.
                let held_before = reserve.held.swap(true, Ordering::AcqRel);
                let took = self.take_space(target, file, before, &wanted).await;
                self.note_taken(object, &wanted, took, held_before);
            }
            (_, Err(_somebody_takes)) => {
                let (extends, has) = {
                    let state = reserve.state.lock();
                    let stream = &state.stream;
                    (stream.is_extended_by(&range), stream.has_taken(&range))
                };
                if extends && !has {
                    drop(reserve.turn.lock().await);
                }
            }
            (None, Ok(_nobody_takes)) => {}
        }
    }

    /// Takes what is wanted, or less where little is left. Returns how much of it lies beyond the data.
    async fn take_space(
        self: &Arc<Self>,
        target: &Target,
        file: &Arc<OwnedFd>,
        before: &Stat,
        wanted: &Wanted,
    ) -> core::result::Result<u64, Refusal> {
        let (file, wanted) = (Arc::clone(file), wanted.clone());
        let mount = Arc::clone(&target.object.mount);
        let is_others = has_much_beyond(before);
        let job = move || {
            if is_others {
                return Err(Refusal::NotOurs);
            }
            let ahead = mount
                .may_take_ahead(wanted.ahead)
                .ok_or(Refusal::NearlyFull)?;
            let to = wanted.end.saturating_add(ahead);
            let len = to.saturating_sub(wanted.from);
            fs::allocate_ahead(file.as_fd(), wanted.from, len).map_err(Refusal::Kernel)?;
            Ok(ahead)
        };
        let taken = self.blocking(target.queue(), job).await;
        taken.unwrap_or(Err(Refusal::Busy))
    }

    fn note_taken(
        &self,
        object: &Arc<Object>,
        wanted: &Wanted,
        took: core::result::Result<u64, Refusal>,
        held_before: bool,
    ) {
        let counters = &self.counters.reserve;
        let reserve = &object.io.reserve;
        let mut state = reserve.state.lock();
        // A full disk may have given a part. The file may have been truncated meanwhile, before it was taken.
        let may_hold = matches!(
            took,
            Ok(_) | Err(Refusal::Kernel(Errno::NOSPC | Errno::DQUOT))
        );
        reserve
            .held
            .store(held_before || may_hold, Ordering::Release);
        match took {
            Ok(ahead) => {
                count(&counters.taken);
                state.stream.took(wanted.end.saturating_add(ahead), ahead);
                let bytes = state.stream.beyond();
                object.mount.reserved.fetch_add(bytes, Ordering::Relaxed);
                state.beyond = Some(Beyond {
                    mount: Arc::clone(&object.mount),
                    bytes,
                });
                return;
            }
            Err(Refusal::Busy) => return,
            Err(Refusal::NearlyFull) => count(&counters.nearly_full),
            Err(Refusal::Kernel(Errno::NOSPC | Errno::DQUOT)) => count(&counters.full),
            Err(Refusal::Kernel(Errno::OPNOTSUPP | Errno::NOSYS)) => {
                count(&counters.unsupported);
                object.mount.note_no_space_ahead();
            }
            Err(Refusal::Kernel(_) | Refusal::NotOurs) => count(&counters.failed),
        }
        state.stream.refused();
    }

    /// Gives a file's space back, if that may be done now, on a thread that may wait for the disk.
    pub(in crate::vfs) fn give_space_back(&self, object: &Object) -> GivenBack {
        let reserve = &object.io.reserve;
        if !reserve.is_held() {
            return GivenBack::All;
        }
        if object.stat() == Err(Error::Stale) {
            reserve.forget();
            return GivenBack::All;
        }
        let given = object.alone(|file| {
            // Nobody writes meanwhile, so that the stream stays as it is.
            let gaps: Vec<(u64, u64)> = {
                let state = reserve.state.lock();
                let gaps = state.stream.gaps().iter();
                gaps.map(|gap| (gap.start, gap.end)).collect()
            };
            fs::give_back(file, &gaps)?;
            reserve.forget();
            Ok(())
        });
        match given {
            Some(Ok(())) => {
                count(&self.counters.reserve.given_back);
                GivenBack::All
            }
            Some(Err(error)) => {
                tracing::trace!(%error, "space ahead is not given back yet");
                GivenBack::Refused
            }
            None => GivenBack::InUse,
        }
    }

    /// Gives a file's space back before it leaves the cache. Where that cannot be, it stays with the
    /// file until somebody truncates it, and is counted.
    pub(in crate::vfs) fn give_space_back_at_last(&self, object: &Object) {
        // One that a call uses does not leave.
        if self.give_space_back(object) == GivenBack::Refused {
            count(&self.counters.reserve.kept);
            object.io.reserve.forget();
        }
    }

    /// Gives a file's space back before the reply to the call that was the last to write it, if it is.
    pub(in crate::vfs) async fn give_space_back_if_written(self: &Arc<Self>, target: &Target) {
        let object = &target.object;
        if !object.io.reserve.is_held() || object.is_written() || object.io.has_unstable() {
            return;
        }
        let (vfs, object) = (Arc::clone(self), Arc::clone(object));
        let job = move || vfs.give_space_back(&object);
        // Where too much waits, the sweep does it.
        let _later = self.blocking(target.queue(), job).await;
    }
}

/// Does a file have so many more blocks than its length asks for that somebody must have put them there? The
/// file systems themselves take some ahead of a growing file, about as much as it has.
fn has_much_beyond(stat: &Stat) -> bool {
    let usual = stat
        .size
        .saturating_mul(2)
        .saturating_add(limits::RESERVE_BYTES_MAX)
        .saturating_add(limits::RESERVE_WINDOW_BYTES_MAX);
    stat.blocks.saturating_mul(512) > usual
}
