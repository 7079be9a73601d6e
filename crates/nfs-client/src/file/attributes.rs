//! The attributes of one open file, as long as they count as fresh.
//!
//! All that is cached of a file besides its data in the windows. Attributes come with most replies;
//! they are good for [`ATTRIBUTES_AGE_MAX`] as long as only this client changes the file, as far as
//! [`super::wcc`] can tell.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nfs_wire::nfs3::{Fattr3, WccData};
use tokio::time::Instant;

use super::wcc::{Change, Look, Verdict, Wcc, state};
use crate::limits::ATTRIBUTES_AGE_MAX;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Attributes {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    wcc: Wcc,
    held: Option<Held>,
    foreign_changes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    attributes: Fattr3,
    at: Instant,
}

impl Attributes {
    /// Of a file that was just seen with these attributes.
    pub(super) fn new(attributes: Fattr3, at: Instant) -> Self {
        let inner = Inner {
            wcc: Wcc::new(state(&attributes)),
            held: Some(Held { attributes, at }),
            foreign_changes: 0,
        };
        Self {
            inner: Mutex::new(inner),
        }
    }

    /// A call that changes the file is sent.
    pub(super) fn change_began(&self) -> Change {
        self.lock().wcc.change_began()
    }

    /// It was answered. Returns whether what was read ahead is still good.
    pub(super) fn change_ended(&self, change: &Change, wcc: &WccData, now: Instant) -> bool {
        let mut inner = self.lock();
        let verdict = inner.wcc.change_ended(change, wcc);
        inner.take(verdict, wcc.after, now)
    }

    /// No reply came. Returns whether what was read ahead is still good: no.
    pub(super) fn change_lost(&self, change: &Change, now: Instant) -> bool {
        let mut inner = self.lock();
        let verdict = inner.wcc.change_lost(change);
        inner.take(verdict, None, now)
    }

    /// A call that brings attributes and changes nothing is sent.
    pub(super) fn look(&self) -> Look {
        self.lock().wcc.look()
    }

    /// It brought them. Returns whether what was read ahead before is still good.
    pub(super) fn looked(&self, look: Look, seen: &Fattr3, now: Instant) -> bool {
        let mut inner = self.lock();
        let verdict = inner.wcc.looked(look, seen);
        // The first look after something was left out says nothing about what was read before.
        inner.take(verdict, Some(*seen), now)
    }

    /// Somebody saw the file like this, we do not know when. Returns whether what was read ahead before
    /// is still good.
    pub(super) fn seen(&self, seen: &Fattr3) -> bool {
        let mut inner = self.lock();
        let verdict = inner.wcc.seen(seen);
        inner.take(verdict, None, Instant::now())
    }

    /// The attributes, if they are fresh.
    pub(super) fn fresh(&self, now: Instant) -> Option<Fattr3> {
        let inner = self.lock();
        let held = inner.held.filter(|_| inner.wcc.is_trusted())?;
        let age = now.saturating_duration_since(held.at);
        (age < ATTRIBUTES_AGE_MAX).then_some(held.attributes)
    }

    /// How often somebody else's change was seen.
    pub(super) fn foreign_changes(&self) -> u64 {
        self.lock().foreign_changes
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn take(&mut self, verdict: Verdict, seen: Option<Fattr3>, now: Instant) -> bool {
        match verdict {
            Verdict::Ours => {}
            Verdict::Foreign => {
                self.foreign_changes += 1;
                self.held = None;
            }
            Verdict::Unknown => self.held = None,
        }
        // Replies overtake each other: the newest is the one that was changed last.
        if let Some(attributes) = seen
            && self
                .held
                .is_none_or(|held| held.attributes.ctime <= attributes.ctime)
        {
            self.held = Some(Held {
                attributes,
                at: now,
            });
        }
        verdict == Verdict::Ours
    }
}

#[cfg(test)]
mod tests {
    use nfs_wire::nfs3::{Ftype3, Nfstime3, Specdata3, WccAttr};

    use super::*;

    fn attributes(changes: u32, size: u64) -> Fattr3 {
        let time = Nfstime3 {
            seconds: changes,
            nseconds: 0,
        };
        Fattr3 {
            ftype: Ftype3::Reg,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            size,
            used: 0,
            rdev: Specdata3 { major: 0, minor: 0 },
            fsid: 1,
            fileid: 2,
            atime: time,
            mtime: time,
            ctime: time,
        }
    }

    fn wcc(before: Fattr3, after: Fattr3) -> WccData {
        WccData {
            before: Some(state(&before)),
            after: Some(after),
        }
    }

    #[test]
    fn attributes_are_good_for_their_time_and_while_we_are_alone() {
        let start = Instant::now();
        let states: Vec<Fattr3> = (0..6).map(|i| attributes(i, u64::from(i) * 10)).collect();
        let cache = Attributes::new(states[0], start);
        assert_eq!(cache.fresh(start), Some(states[0]));
        assert_eq!(cache.fresh(start + ATTRIBUTES_AGE_MAX), None);
        // Replies in the wrong order: the newest state counts, once all are accounted for.
        let (first, second) = (cache.change_began(), cache.change_began());
        assert!(cache.change_ended(&second, &wcc(states[1], states[2]), start));
        assert_eq!(cache.fresh(start), None);
        assert!(cache.change_ended(&first, &wcc(states[0], states[1]), start));
        assert_eq!(cache.fresh(start), Some(states[2]));
        // Somebody else's change.
        let change = cache.change_began();
        assert!(!cache.change_ended(&change, &wcc(states[3], states[4]), start));
        assert_eq!(cache.foreign_changes(), 1);
        assert_eq!(cache.fresh(start), Some(states[4]));
        let look = cache.look();
        assert!(!cache.looked(look, &states[5], start));
        assert_eq!(cache.foreign_changes(), 2);
        // A reply that does not come: nothing is sure until the next look.
        let change = cache.change_began();
        assert!(!cache.change_lost(&change, start));
        assert_eq!(cache.fresh(start), None);
        let look = cache.look();
        assert!(!cache.looked(look, &states[5], start));
        assert_eq!(cache.fresh(start), Some(states[5]));
    }

    #[test]
    fn without_wcc_data_nothing_is_trusted() {
        let now = Instant::now();
        let cache = Attributes::new(attributes(0, 0), now);
        let change = cache.change_began();
        let before: Option<WccAttr> = None;
        let after = None;
        assert!(!cache.change_ended(&change, &WccData { before, after }, now));
        assert_eq!((cache.fresh(now), cache.foreign_changes()), (None, 0));
    }
}
