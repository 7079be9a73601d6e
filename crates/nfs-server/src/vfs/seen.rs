//! Attributes that were asked for once, for calls that came together.
//!
//! Calls that change nothing ask for attributes from no sooner than they came. Those that one read of a connection
//! brought came before the first of them was begun, so one look is good for all of them that are about one object, such
//! as the directory of many LOOKUPs ([`Latest`]).
//!
//! WRITEs of one file mostly come many at a time, are carried out together and answered together. Each of them needs
//! attributes from no sooner than it came, and, for its reply, from no sooner than it was done. One look can be both
//! for all of them. Nothing is remembered beyond that: a look is no answer to a call that comes after it.

use std::cell::RefCell;
use std::time::Instant;

use nfs_io::fs::Stat;
use parking_lot::Mutex;

use crate::limits;
use crate::vfs::file_cache::InodeId;

/// The latest looks of this thread at some objects, for calls that change nothing.
#[derive(Default)]
pub(super) struct Latest([Option<LookFor>; limits::LATEST_LOOKS_MAX]);

/// A look that was made for a call.
#[derive(Clone, Copy)]
struct LookFor {
    inode: InodeId,
    /// When that call came: the look is from later.
    came: Instant,
    stat: Stat,
}

thread_local! {
    static LATEST: RefCell<Latest> = RefCell::default();
}

impl Latest {
    /// The attributes of an object from no sooner than a call came that this thread runs, if they are known.
    pub(super) fn since(came: Instant, inode: InodeId) -> Option<Stat> {
        LATEST.with_borrow(|latest| latest.find(came, inode))
    }

    /// Attributes that were asked for now, for a call that came then.
    pub(super) fn note(came: Instant, inode: InodeId, stat: Stat) {
        LATEST.with_borrow_mut(|latest| latest.keep(LookFor { inode, came, stat }));
    }

    /// A change ends that this thread runs: nobody is told attributes from before it any more.
    pub(super) fn forget() {
        LATEST.with_borrow_mut(|latest| latest.0.fill(None));
    }

    fn find(&self, came: Instant, inode: InodeId) -> Option<Stat> {
        let look = self.0.get(Self::place(inode)?)?.as_ref()?;
        // Whether a file without a name is still somebody's is not told by its attributes.
        let is_good = look.inode == inode && look.came >= came && look.stat.nlink > 0;
        is_good.then_some(look.stat)
    }

    fn keep(&mut self, look: LookFor) {
        let place = Self::place(look.inode);
        if let Some(place) = place.and_then(|place| self.0.get_mut(place)) {
            *place = Some(look);
        }
    }

    fn place(inode: InodeId) -> Option<usize> {
        usize::try_from(inode.ino % limits::LATEST_LOOKS_MAX as u64).ok()
    }
}

/// The last look at a file's attributes.
#[derive(Default)]
pub(super) struct Seen(Mutex<Option<Look>>);

/// A look at the attributes of a file.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) stat: Stat,
    /// Whether the times were asked for.
    pub(super) is_timed: bool,
    /// When it began.
    pub(super) at: Instant,
    /// How many of the server's changes of the file's bytes had ended by then.
    pub(super) changes: u64,
}

impl Seen {
    pub(super) fn note(&self, look: Look) {
        *self.0.lock() = Some(look);
    }

    /// Attributes from then or later, which have so many changes of the file's bytes in them, with times if they
    /// are needed.
    pub(super) fn since(&self, then: Instant, changes: u64, timed: bool) -> Option<Stat> {
        let look = (*self.0.lock())?;
        let is_good = look.at >= then && look.changes == changes && (look.is_timed || !timed);
        // Whether a file without a name is still somebody's is not told by its attributes.
        (is_good && look.stat.nlink > 0).then_some(look.stat)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use nfs_io::fs;

    use super::*;

    #[test]
    fn calls_that_came_before_a_look_share_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stat = fs::statx(file.as_file().as_fd()).unwrap();
        let inode = |ino| InodeId {
            fsid: 1,
            dev: 2,
            ino,
        };
        let came = Instant::now();
        let (earlier, later) = (
            came - Duration::from_secs(1),
            came + Duration::from_nanos(1),
        );
        assert_eq!(Latest::since(earlier, inode(7)), None, "nobody looked");
        Latest::note(came, inode(7), stat);
        assert_eq!(Latest::since(came, inode(7)), Some(stat));
        assert_eq!(Latest::since(earlier, inode(7)), Some(stat));
        assert_eq!(Latest::since(later, inode(7)), None, "it came after it");
        // Another object in its place, and one that has a place of its own.
        let other = inode(7 + limits::LATEST_LOOKS_MAX as u64);
        assert_eq!(Latest::since(came, other), None);
        Latest::note(came, inode(8), stat);
        assert_eq!(Latest::since(came, inode(7)), Some(stat));
        Latest::note(came, other, stat);
        assert_eq!(Latest::since(came, inode(7)), None);
        Latest::forget();
        assert_eq!(Latest::since(came, other), None, "a change has ended");
        Latest::note(came, other, Stat { nlink: 0, ..stat });
        assert_eq!(Latest::since(came, other), None, "it may be gone");
    }

    #[test]
    fn a_look_is_shared_by_what_came_before_it_and_changed_nothing_since() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stat = fs::statx(file.as_file().as_fd()).unwrap();
        let (seen, came) = (Seen::default(), Instant::now());
        assert_eq!(seen.since(came, 0, false), None, "nobody looked");
        let look = Look {
            stat,
            is_timed: false,
            at: came,
            changes: 3,
        };
        seen.note(look);
        assert_eq!(seen.since(came, 3, false), Some(stat));
        assert_eq!(seen.since(came, 3, true), None, "no times were asked for");
        assert_eq!(seen.since(came, 4, false), None, "a change has ended since");
        let later = came + Duration::from_nanos(1);
        assert_eq!(seen.since(later, 3, false), None, "it came after the look");
        seen.note(Look {
            is_timed: true,
            ..look
        });
        assert_eq!(seen.since(came, 3, true), Some(stat));
        seen.note(Look {
            stat: Stat { nlink: 0, ..stat },
            ..look
        });
        assert_eq!(seen.since(came, 3, false), None, "it may be gone");
    }
}
