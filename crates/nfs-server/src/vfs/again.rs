//! Changes of names that an earlier run of the server may have made already: what such a call notes
//! before and after, and what it takes for its own when it comes again. See [`call_notes`](crate::host::call_notes).

use std::os::fd::{AsFd, OwnedFd};

use nfs_io::fs::{self, ResolveFlags, Stat};

use super::create::NewNode;
use super::lookup::open_entry;
use super::{FileKind, Object, SetAttributes};
use crate::host::call_notes::{Before, CallNotes, Change, Known, NotedCall};
use crate::vfs::Target;

/// One change of names, noted; without notes it does nothing and knows nothing.
pub(super) struct Noted<'t>(Option<(&'t NotedCall, &'t CallNotes, Before)>);

impl Target {
    /// Notes what `name` in this directory leads to, before it is made or taken away.
    pub(super) fn noted(&self, change: Change, name: &[u8]) -> Noted<'_> {
        self.note(change, || look(self, name), (self, name))
    }

    /// [`Target::noted`] where it is known already: `found` is what the name leads to.
    pub(super) fn noted_found(
        &self,
        change: Change,
        name: &[u8],
        found: Option<&Stat>,
    ) -> Noted<'_> {
        self.note(change, || found.copied(), (self, name))
    }

    /// Notes what a name in this directory leads to, before it is moved to another.
    pub(super) fn noted_move(&self, found: Option<&Stat>, to: (&Self, &[u8])) -> Noted<'_> {
        self.note(Change::Make, || found.copied(), to)
    }

    fn note(
        &self,
        change: Change,
        found: impl FnOnce() -> Option<Stat>,
        to: (&Self, &[u8]),
    ) -> Noted<'_> {
        let call = self.actor.call_note.as_deref();
        Noted(call.and_then(|call| {
            let notes = call.notes()?;
            let before = Before {
                change,
                place: notes.place(to.0.object.handle.as_ref(), to.1),
                found: found().map_or(Known::NOTHING, |stat| known(notes, &stat)),
            };
            call.begin(before);
            Some((call, notes, before))
        }))
    }
}

impl Noted<'_> {
    /// The call has made this object, or a name of it.
    pub(super) fn made_it(&self, stat: &Stat) {
        if let Some((call, notes, before)) = self.0 {
            call.done(before, known(notes, stat));
        }
    }

    /// The call has given this object another name.
    pub(super) fn made_name_of(&self, object: &Object) {
        if self.0.is_some()
            && let Ok(stat) = fs::statx(object.path())
        {
            self.made_it(&stat);
        }
    }

    /// The call has removed or moved what the name led to.
    pub(super) fn took_it(&self) {
        if let Some((call, _, before)) = self.0 {
            call.done(before, before.found);
        }
    }

    /// What is at `name`, where an earlier run of this call has made it, and it is as this call would make
    /// it.
    pub(super) fn made(
        &self,
        directory: &Target,
        name: &[u8],
        node: &NewNode,
    ) -> Option<(OwnedFd, Stat)> {
        let (call, notes, _) = self.0?;
        let (fd, stat) = open_entry(directory, name, ResolveFlags::empty()).ok()?;
        let fits = match node {
            NewNode::File(_) => stat.kind() == FileKind::Regular,
            NewNode::Directory => stat.kind() == FileKind::Directory,
            NewNode::Symlink { target } => {
                stat.kind() == FileKind::Symlink
                    && fs::readlink(fd.as_fd()).is_ok_and(|found| found == *target)
            }
            NewNode::Fifo => stat.kind() == FileKind::Fifo,
            NewNode::Socket => stat.kind() == FileKind::Socket,
            NewNode::CharacterDevice { major, minor } => {
                stat.kind() == FileKind::CharDevice && stat.rdev == (*major, *minor)
            }
            NewNode::BlockDevice { major, minor } => {
                stat.kind() == FileKind::BlockDevice && stat.rdev == (*major, *minor)
            }
        };
        (fits && call.has_made(known(notes, &stat))).then_some((fd, stat))
    }

    /// Has an earlier run of this call given `object` that name?
    pub(super) fn linked(&self, directory: &Target, name: &[u8], object: &Object) -> bool {
        self.0.is_some_and(|(call, notes, _)| {
            call.came_before() && {
                let there = entry(notes, directory, name);
                let same = object.stat().is_ok_and(|stat| known(notes, &stat) == there);
                same && call.has_made(there)
            }
        })
    }

    /// Has an earlier run of this call removed what was at the name?
    pub(super) fn removed(&self) -> bool {
        self.0
            .is_some_and(|(call, _, now)| call.has_taken(now.found).is_some())
    }

    /// Has an earlier run of this call moved what was at the old name to this one?
    pub(super) fn moved(&self, to: &Target, name: &[u8]) -> bool {
        self.0.is_some_and(|(call, notes, now)| {
            let taken = call.has_taken(now.found);
            taken.is_some_and(|taken| taken == entry(notes, to, name))
        })
    }

    /// Whether nothing was at the name when the call looked; true also for a call that is not noted.
    pub(super) fn is_free(&self) -> bool {
        self.0.is_none_or(|(_, _, now)| now.found == Known::NOTHING)
    }
}

/// What an earlier run of the call may have left to be set of the file that it made, which has `size` bytes
/// now. Others may have written to it since, and that stays: it is never made shorter, and
/// where its size is not the call's doing, nothing is left.
pub(super) fn left_to_set(wanted: &SetAttributes, size: u64) -> SetAttributes {
    let without_size = SetAttributes {
        size: None,
        ..*wanted
    };
    match wanted.size {
        Some(_) if size == 0 && wanted.size != Some(0) => *wanted,
        _ if size == wanted.size.unwrap_or(0) => without_size,
        _ => SetAttributes::default(),
    }
}

/// The object that a name leads to now; [`Known::NOTHING`] where there is none.
fn entry(notes: &CallNotes, directory: &Target, name: &[u8]) -> Known {
    look(directory, name).map_or(Known::NOTHING, |stat| known(notes, &stat))
}

fn look(directory: &Target, name: &[u8]) -> Option<Stat> {
    fs::statx_at(directory.object.path(), name).ok()
}

fn known(notes: &CallNotes, stat: &Stat) -> Known {
    let birth = stat.btime.unwrap_or_default();
    notes.known(stat.ino, (birth.sec, birth.nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_set_makes_no_file_shorter() {
        let left = |wanted: Option<u64>, size| {
            let wanted = SetAttributes {
                mode: Some(0o640),
                size: wanted,
                ..SetAttributes::default()
            };
            let left = left_to_set(&wanted, size);
            (left.mode.is_some(), left.size)
        };
        assert_eq!(left(None, 0), (true, None));
        assert_eq!(left(Some(0), 0), (true, None));
        assert_eq!(left(Some(5), 0), (true, Some(5)), "it was cut off before");
        assert_eq!(left(Some(5), 5), (true, None));
        for (wanted, size) in [(None, 3), (Some(0), 3), (Some(5), 3), (Some(5), 9)] {
            assert_eq!(left(wanted, size), (false, None), "somebody wrote");
        }
    }
}
