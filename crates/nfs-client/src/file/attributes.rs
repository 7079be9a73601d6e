//! The attributes of one open file, as long as they count as fresh.
//!
//! All that is cached of a file besides its data in the windows. Attributes come with most replies;
//! they are good for [`ATTRIBUTES_AGE_MAX`] as long as only this client changes the file, as far as
//! [`super::wcc`] can tell.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nfs_wire::nfs3::{Fattr3, Nfstime3, WccAttr, WccData};
use tokio::time::Instant;

use super::wcc::{Change, Look, Verdict, Wcc, state};
use crate::limits::ATTRIBUTES_AGE_MAX;

/// The attributes of one open file, cached as the module's documentation says.
#[derive(Debug)]
pub(super) struct Attributes {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    wcc: Wcc,
    held: Option<Held>,
    /// Nothing is held, and of what was seen with this ctime or an older one it cannot be said whether it
    /// is the newest.
    unsure: Option<Nfstime3>,
    foreign_changes: u64,
}

/// What is known about when attributes were seen.
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// Nothing of ours was on its way meanwhile: they are the newest.
    Alone,
    /// Just after a change that began from this state, if the reply told it.
    After(Option<WccAttr>),
    /// At some time since the call was sent.
    Sometime,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    attributes: Fattr3,
    at: Instant,
}

impl Attributes {
    /// The cache of a file that was just seen with these attributes.
    pub(super) fn new(attributes: Fattr3, at: Instant) -> Self {
        let inner = Inner {
            wcc: Wcc::new(state(&attributes)),
            held: Some(Held { attributes, at }),
            unsure: None,
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
        let seen = match inner.wcc.was_alone(change) {
            true => Seen::Alone,
            false => Seen::After(wcc.before),
        };
        inner.take(verdict, wcc.after.map(|after| (after, seen)), now)
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
        let when = match inner.wcc.looked_alone(look) {
            true => Seen::Alone,
            false => Seen::Sometime,
        };
        // The first look after something was left out says nothing about what was read before.
        inner.take(verdict, Some((*seen, when)), now)
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
    fn take(&mut self, verdict: Verdict, seen: Option<(Fattr3, Seen)>, now: Instant) -> bool {
        match verdict {
            Verdict::Ours => {}
            Verdict::Foreign => {
                self.foreign_changes += 1;
                self.let_go();
            }
            Verdict::Unknown => self.let_go(),
        }
        if let Some((attributes, seen)) = seen {
            self.hold(attributes, seen, now);
        }
        verdict == Verdict::Ours
    }

    /// Holds `attributes` if they are surely the newest that were seen.
    ///
    /// Replies overtake each other, and the times of many servers' clocks are too coarse to order changes
    /// that follow each other at once. A size that is too small, taken for the present one, would have the
    /// next append overwrite our own data: where it cannot be told, nothing is held, and the server asked.
    fn hold(&mut self, attributes: Fattr3, seen: Seen, now: Instant) {
        let newest = match (seen, self.held) {
            (Seen::Alone, _) => true,
            (_, None) => self.unsure.is_none_or(|unsure| attributes.ctime > unsure),
            (seen, Some(held)) => {
                let (old, new) = (state(&held.attributes), state(&attributes));
                let follows = matches!(seen, Seen::After(Some(before)) if before == old);
                if !follows && new != old && new.ctime == old.ctime {
                    self.let_go();
                    return;
                }
                follows || new.ctime >= old.ctime
            }
        };
        if newest {
            self.held = Some(Held {
                attributes,
                at: now,
            });
            self.unsure = None;
        }
    }

    fn let_go(&mut self) {
        if let Some(held) = self.held.take() {
            self.unsure = self.unsure.max(Some(held.attributes.ctime));
        }
    }
}

#[cfg(test)]
mod tests {
    use nfs_wire::nfs3::{Ftype3, Specdata3};

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

    /// Sizes of one moment of a coarse clock, as a file that is written from its start has them.
    fn sizes(count: u32) -> Vec<Fattr3> {
        (0..count)
            .map(|i| attributes(5, u64::from(i) * 10))
            .collect()
    }

    #[test]
    fn a_coarse_clock_does_not_make_an_overtaken_reply_the_newest() {
        let now = Instant::now();
        let states = sizes(4);
        // Each order of three replies to changes on their way together.
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            let cache = Attributes::new(states[0], now);
            let changes: Vec<Change> = (0..3).map(|_| cache.change_began()).collect();
            for index in order {
                let told = wcc(states[index], states[index + 1]);
                cache.change_ended(&changes[index], &told, now);
            }
            let fresh = cache.fresh(now);
            assert!(
                fresh.is_none_or(|fresh| fresh == states[3]),
                "{order:?}: {fresh:?}"
            );
            assert_eq!(fresh.is_some(), order == [0, 1, 2], "{order:?}");
            // The server knows.
            let look = cache.look();
            cache.looked(look, &states[3], now);
            assert_eq!(cache.fresh(now), Some(states[3]));
        }
    }

    #[test]
    fn a_look_among_changes_may_be_older_than_their_replies() {
        let now = Instant::now();
        let states = sizes(2);
        let cache = Attributes::new(attributes(4, 0), now);
        let (look, change) = (cache.look(), cache.change_began());
        cache.change_ended(&change, &wcc(attributes(4, 0), states[1]), now);
        assert_eq!(cache.fresh(now), Some(states[1]));
        cache.looked(look, &states[0], now);
        assert_eq!(cache.fresh(now), None);
    }

    #[test]
    fn without_states_before_only_a_change_alone_is_trusted() {
        let now = Instant::now();
        let after = |size| WccData {
            before: None,
            after: Some(attributes(u32::try_from(size).unwrap(), size)),
        };
        let cache = Attributes::new(attributes(0, 0), now);
        let change = cache.change_began();
        cache.change_ended(&change, &after(10), now);
        assert_eq!(cache.fresh(now).map(|fresh| fresh.size), Some(10));
        let (first, second) = (cache.change_began(), cache.change_began());
        cache.change_ended(&second, &after(30), now);
        cache.change_ended(&first, &after(20), now);
        assert_eq!(cache.fresh(now), None);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_stop_the_attributes() {
        let now = Instant::now();
        let (old, new) = (attributes(100, 10), attributes(50, 20));
        let cache = Attributes::new(old, now);
        let change = cache.change_began();
        cache.change_ended(&change, &wcc(old, new), now);
        assert_eq!(cache.fresh(now), Some(new));
    }
}
