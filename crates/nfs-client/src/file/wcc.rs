//! Tells our own changes of a file from somebody else's (weak cache consistency, RFC 1813 §2.6). Pure.
//!
//! The reply to a change carries the file's size and times just before and just after it. As long as
//! every *before* is a state that we know (seen at rest, or the *after* of a change of ours), nobody
//! else changed the file in between. Changes go out at the same time and their replies come in any
//! order: a state that is not known yet is in doubt until every change that was on its way by then
//! has been answered; if none of them made it, somebody else did.
//!
//! What cannot be seen: a change that leaves size and times as they were (a server whose clock is
//! coarse), and one that no later reply of ours follows; the next look at the attributes shows that.

use std::collections::{BTreeSet, VecDeque};

use nfs_wire::nfs3::{Fattr3, WccAttr, WccData};

use crate::limits::WCC_STATES_MAX;

/// The states of one file that are known. See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Wcc {
    /// As seen, or as made by us; newest last.
    known: VecDeque<WccAttr>,
    /// Counts our changes as they are sent.
    begun: u64,
    /// Those that were not answered yet.
    pending: BTreeSet<u64>,
    /// States that were seen and are not known yet.
    doubts: Vec<Doubt>,
    /// Changes up to this one may begin from a state that nobody told us.
    untold: u64,
}

#[derive(Debug)]
struct Doubt {
    state: WccAttr,
    /// Settled when the changes up to this one are answered.
    until: u64,
}

/// A change of ours that is on its way.
#[must_use]
#[derive(Debug)]
pub(super) struct Change {
    number: u64,
    /// No other change was on its way when it was sent.
    quiet: bool,
}

/// A call of ours on its way that changes nothing and brings attributes.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// No change was on its way when it was sent.
    quiet: bool,
    begun: u64,
}

/// What a reply says about others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nobody else changed the file, or it cannot be said before more replies come.
    Ours,
    /// Somebody else has changed the file.
    Foreign,
    /// It cannot be told: the server left something out, or a reply did not come.
    Unknown,
}

impl Wcc {
    /// A file that was seen in `state`.
    pub(super) fn new(state: WccAttr) -> Self {
        Self {
            known: VecDeque::from([state]),
            ..Self::default()
        }
    }

    /// A change (WRITE, SETATTR; also COMMIT, which tells both states) is sent.
    pub(super) fn change_began(&mut self) -> Change {
        let quiet = self.pending.is_empty();
        self.begun += 1;
        self.pending.insert(self.begun);
        let number = self.begun;
        Change { number, quiet }
    }

    /// Whether no other change of ours was on its way at any time between the change and its reply: then
    /// the reply shows the file as it is now, as far as we changed it.
    pub(super) fn was_alone(&self, change: &Change) -> bool {
        change.quiet && change.number == self.begun
    }

    /// As [`Self::was_alone`], for a call that changes nothing.
    pub(super) fn looked_alone(&self, look: Look) -> bool {
        look.quiet && look.begun == self.begun
    }

    /// Takes in what the answer to `change` says of the file.
    pub(super) fn change_ended(&mut self, change: &Change, wcc: &WccData) -> Verdict {
        self.pending.remove(&change.number);
        let after = wcc.after.as_ref().map(state);
        let (Some(before), Some(after)) = (wcc.before, after) else {
            // Of changes on their way together, the reply that comes last need not be about the last.
            let alone = self.was_alone(change);
            return self.lose_track(after.filter(|_| alone));
        };
        if !self.known.contains(&before) {
            if change.number <= self.untold || self.known.is_empty() {
                self.know(before);
            } else {
                self.doubt(before);
            }
        }
        self.know(after);
        self.settle()
    }

    /// No reply came: the server may have executed the change, or may still do so.
    pub(super) fn change_lost(&mut self, change: &Change) -> Verdict {
        self.pending.remove(&change.number);
        self.lose_track(None)
    }

    /// A call is sent that changes nothing.
    pub(super) fn look(&self) -> Look {
        Look {
            quiet: self.pending.is_empty(),
            begun: self.begun,
        }
    }

    /// Somebody saw the file like this, at a time that is not known.
    pub(super) fn seen(&mut self, seen: &Fattr3) -> Verdict {
        let (quiet, begun) = (false, self.begun);
        self.looked(Look { quiet, begun }, seen)
    }

    /// Takes in the attributes `seen` that the look brought.
    pub(super) fn looked(&mut self, look: Look, seen: &Fattr3) -> Verdict {
        let seen = state(seen);
        if self.known.contains(&seen) {
            return Verdict::Ours;
        }
        let alone = self.looked_alone(look);
        if self.known.is_empty() {
            if alone {
                self.know(seen);
            }
            return Verdict::Unknown;
        }
        if alone {
            self.know(seen);
            return Verdict::Foreign;
        }
        self.doubt(seen);
        self.settle()
    }

    /// Every state that was seen is accounted for, and none is missing.
    pub(super) fn is_trusted(&self) -> bool {
        self.doubts.is_empty() && !self.known.is_empty()
    }

    fn know(&mut self, state: WccAttr) {
        if !self.known.contains(&state) {
            self.known.push_back(state);
        }
        if self.known.len() > WCC_STATES_MAX {
            self.known.pop_front();
        }
    }

    fn doubt(&mut self, state: WccAttr) {
        let until = self.begun;
        self.doubts.push(Doubt { state, until });
    }

    fn settle(&mut self) -> Verdict {
        if self.doubts.len() > WCC_STATES_MAX {
            return self.lose_track(None);
        }
        let oldest = self.pending.first().copied().unwrap_or(u64::MAX);
        let known = &self.known;
        self.doubts.retain(|doubt| !known.contains(&doubt.state));
        let before = self.doubts.len();
        self.doubts.retain(|doubt| doubt.until >= oldest);
        if self.doubts.len() == before {
            Verdict::Ours
        } else {
            Verdict::Foreign
        }
    }

    /// Begins anew from `state`, if one was told.
    fn lose_track(&mut self, state: Option<WccAttr>) -> Verdict {
        self.doubts.clear();
        self.known.clear();
        self.known.extend(state);
        self.untold = self.begun;
        Verdict::Unknown
    }
}

/// What of the attributes changes with every change.
pub(super) fn state(attributes: &Fattr3) -> WccAttr {
    WccAttr {
        size: attributes.size,
        mtime: attributes.mtime,
        ctime: attributes.ctime,
    }
}

#[cfg(test)]
mod tests;
