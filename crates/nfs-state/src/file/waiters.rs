//! Who waits for a range, in the order in which they came.
//!
//! When something becomes free, each waiter that could have its range now, with nobody before it in the queue
//! who wants it too, is told, and for a moment the range is promised to it
//! ([`limits::CLAIM_MS_MAX`]). A promise that is not taken up lapses: nobody tells the server when a
//! process that waited is killed.

use std::collections::VecDeque;

use super::LockOwner;
use crate::host::Place;
use crate::id::ClientId;
use crate::limits;
use crate::range::{LockKind, Locked, Range};
use crate::share::OpenKey;
use crate::time::Millis;

/// A request that was denied and is to be told when it may be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Who waits.
    pub owner: LockOwner,
    /// For what.
    pub range: Range,
    /// As what.
    pub kind: LockKind,
    /// The counter of the open through which a client asked; it leads to the file.
    pub(crate) open: Option<u32>,
}

/// Tell this owner that the range may be had now (CB_NOTIFY_LOCK, or a grant of the lock manager). A hint: nothing
/// rests on its coming.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify(pub Wait);

#[derive(Debug, Default)]
pub(super) struct Waiters(VecDeque<Waiter>);

#[derive(Debug)]
struct Waiter {
    wait: Wait,
    /// When it last asked.
    asked: Millis,
    /// Until when the range is promised to it.
    promised_until: Option<Millis>,
    /// A local program has what it wants, as far as is known: no client's unlock helps it, and it stands in nobody's way.
    is_of_host: bool,
    _place: Place,
}

impl Waiter {
    fn is_in_the_way(&self, owner: &LockOwner, range: Range, kind: LockKind) -> bool {
        let wait = &self.wait;
        wait.owner != *owner && wait.range.overlaps(range) && wait.kind.conflicts(kind)
    }
}

impl Waiters {
    /// Adds a waiter, if there is a `place` for it, or notes that one that is there has asked again: it keeps its place, and
    /// is to be told anew if it was.
    pub(super) fn add(
        &mut self,
        wait: Wait,
        now: Millis,
        place: impl FnOnce() -> Option<Place>,
    ) -> bool {
        if let Some(waiter) = self.0.iter_mut().find(|w| w.wait == wait) {
            waiter.asked = now;
            waiter.promised_until = None;
            waiter.is_of_host = false;
            return true;
        }
        if self.0.len() >= limits::WAITERS_PER_FILE_MAX {
            return false;
        }
        let Some(place) = place() else {
            return false;
        };
        self.0.push_back(Waiter {
            wait,
            asked: now,
            promised_until: None,
            is_of_host: false,
            _place: place,
        });
        true
    }

    /// A local program has what this one waits for.
    pub(super) fn stands_behind_host(&mut self, wait: &Wait) {
        for waiter in self.0.iter_mut().filter(|w| w.wait == *wait) {
            waiter.is_of_host = true;
        }
    }

    /// No local program has these any more.
    pub(super) fn host_let_go(&mut self, free: &[(Range, LockKind)]) {
        let is_free = |w: &Waiter| free.contains(&(w.wait.range, w.wait.kind));
        for waiter in self.0.iter_mut().filter(|w| is_free(w)) {
            waiter.is_of_host = false;
        }
    }

    /// Forgets promises that nobody took up, and who has not asked for long.
    pub(super) fn lapse(&mut self, now: Millis) {
        self.0.retain(|w| {
            w.promised_until.is_none_or(|until| now < until)
                && now.since(w.asked) <= limits::WAITER_MS_MAX
        });
    }

    /// What is promised to somebody else and stands against this request.
    pub(super) fn promised(
        &self,
        owner: &LockOwner,
        range: Range,
        kind: LockKind,
    ) -> Option<Locked<LockOwner>> {
        let mut promised = self.0.iter().filter(|w| w.promised_until.is_some());
        let found = promised.find(|w| w.is_in_the_way(owner, range, kind))?;
        Some(Locked {
            range: found.wait.range,
            kind: found.wait.kind,
            owner: found.wait.owner.clone(),
        })
    }

    /// Who may try now, of those not told yet.
    pub(super) fn wake(&mut self, now: Millis, is_free: impl Fn(&Wait) -> bool) -> Vec<Notify> {
        self.lapse(now);
        let mut notices = Vec::new();
        for at in 0..self.0.len() {
            let Some(waiter) = self.0.get(at) else {
                break;
            };
            let wait = &waiter.wait;
            let mut before = self.0.iter().take(at);
            let behind = before
                .any(|w| !w.is_of_host && w.is_in_the_way(&wait.owner, wait.range, wait.kind));
            if behind || waiter.is_of_host || waiter.promised_until.is_some() || !is_free(wait) {
                continue;
            }
            if let Some(waiter) = self.0.get_mut(at) {
                waiter.promised_until = Some(now.plus(limits::CLAIM_MS_MAX));
                notices.push(Notify(waiter.wait.clone()));
            }
        }
        notices
    }

    /// `owner` got `range`: it waits for nothing there any more.
    pub(super) fn served(&mut self, owner: &LockOwner, range: Range) {
        self.0
            .retain(|w| w.wait.owner != *owner || !w.wait.range.overlaps(range));
    }

    pub(super) fn remove(&mut self, gone: impl Fn(&LockOwner) -> bool) {
        self.0.retain(|w| !gone(&w.wait.owner));
    }

    /// Forgets who waits through this open. Whether there was anybody.
    pub(super) fn leave(&mut self, key: OpenKey) -> bool {
        let before = self.0.len();
        self.0.retain(|w| {
            let wait = &w.wait;
            wait.owner.client() != Some(key.0) || wait.open != Some(key.1)
        });
        self.0.len() < before
    }

    /// Forgets one waiter.
    pub(super) fn forget(&mut self, wait: &Wait) {
        self.0.retain(|w| w.wait != *wait);
    }

    pub(super) fn has_others(&self, client: ClientId) -> bool {
        let mut owners = self.0.iter().map(|w| &w.wait.owner);
        owners.any(|owner| owner.client() != Some(client))
    }

    pub(super) fn first(&self, most: usize) -> impl Iterator<Item = &Wait> {
        self.0.iter().take(most).map(|w| &w.wait)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
