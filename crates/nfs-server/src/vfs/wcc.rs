//! The attributes of an object before and after a change (wcc_data), when changes of one object overlap.

use std::sync::Arc;

use nfs_io::fs::Stat;
use parking_lot::Mutex;

use super::seen::Latest;
use super::{Attributes, Author, Object, Result};

/// The attributes of an object before and after a change, as far as they could be had.
/// `before` is missing when another client's change overlapped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wcc {
    pub(crate) before: Option<Stat>,
    pub(crate) after: Option<Attributes>,
}

/// An operation's result, and the attributes around it, which are told whether it failed or not.
pub(crate) type WithWcc<T> = (Result<T>, Wcc);

/// Changes of one object that overlap. wcc_data says to a client: between these two sets of
/// attributes lies your change and nothing else. When another client's change overlapped, that is
/// not so, and the attributes from before are left out.
///
/// One client's own changes overlap whenever it has several WRITEs on their way. It then goes by the
/// replies: the attributes from before have to be those that it was told last, or it takes what it
/// wrote itself for somebody else's and throws its cache away. So the replies of a run of overlapping
/// changes are chained, in the order in which they are made.
///
/// A reply in the middle of such a run may be without attributes, which RFC 1813 leaves to the server: the
/// one behind it goes on from what was told last. That is worth much for WRITEs that are stable: attributes
/// that were told make each next change a change of the inode ([`nfs_io::fs::statx_untimed`]).
#[derive(Default)]
pub(super) struct WccChain(Mutex<Changes>);

#[derive(Default)]
struct Changes {
    running: u32,
    /// Those of the running whose replies are to tell attributes, as far as is known.
    tellers: u32,
    /// The client whose changes run, while any do.
    author: Option<Author>,
    mixed: bool,
    /// What was told last in this run; at its start, the attributes from before it.
    told: Option<Stat>,
}

impl Changes {
    fn begin(&mut self, author: Author, tells: bool) {
        if self.running == 0 {
            self.author = Some(author);
            self.mixed = false;
            self.told = None;
        } else if self.author != Some(author) {
            self.mixed = true;
        }
        self.running += 1;
        self.tellers += u32::from(tells);
    }

    /// One that was to tell attributes is about to be answered: may its reply do without, as another's of
    /// the same client is still to come?
    fn may_be_silent(&mut self) -> bool {
        self.tellers -= 1;
        !self.mixed && self.tellers > 0
    }

    /// The attributes before and after for a reply that is made now, of a change that found `after`.
    fn chain(&mut self, before: Option<Stat>, after: Stat) -> (Option<Stat>, Stat) {
        let Some(told) = self.told.or(before).filter(|_| !self.mixed) else {
            return (None, after);
        };
        // Who was faster had looked later: what it saw has this change in it.
        let after = if after.ctime < told.ctime {
            told
        } else {
            after
        };
        self.told = Some(after);
        (Some(told), after)
    }

    /// One ends; `tells`: it was to tell attributes, and was not answered so far.
    fn end(&mut self, tells: bool) {
        self.running -= 1;
        self.tellers -= u32::from(tells);
    }
}

/// A change that is going on; ends when dropped.
pub(crate) struct Change {
    object: Arc<Object>,
    /// It is one of [`Changes::tellers`].
    tells: bool,
}

impl Change {
    /// True while only one client's changes overlapped this one.
    pub(crate) fn is_unmixed(&self) -> bool {
        !self.object.wcc.0.lock().mixed
    }

    /// Does somebody have to say by [`Change::found`] what the file was before?
    pub(super) fn needs_before(&self) -> bool {
        let changes = self.object.wcc.0.lock();
        self.tells && !changes.mixed && changes.told.is_none()
    }

    /// Notes the attributes from before the change. To be called before anything is changed.
    pub(super) fn found(&self, before: &Stat) {
        self.object.wcc.0.lock().told.get_or_insert(*before);
    }

    /// May the reply to this change leave the attributes to another's? To be asked once, when the change is made
    /// and before the attributes are asked for.
    pub(super) fn may_be_silent(&mut self) -> bool {
        std::mem::take(&mut self.tells) && self.object.wcc.0.lock().may_be_silent()
    }

    /// The attributes for the reply, which is to be sent next: `before` as found, if that was needed, `after`
    /// as they are now.
    pub(super) fn wcc(&self, before: Option<Stat>, after: Option<Attributes>) -> Wcc {
        let Some(mut after) = after else {
            return Wcc::default();
        };
        let (before, stat) = self.object.wcc.0.lock().chain(before, after.stat);
        after.stat = stat;
        Wcc {
            before,
            after: Some(after),
        }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        // What this connection is told next is not older than the reply to this.
        Latest::forget();
        self.object.wcc.0.lock().end(self.tells);
    }
}

impl Object {
    /// Starts a change by `author`; the ticket tells at its end whether the attributes from
    /// before may be told to that author.
    pub(crate) fn begin_change(self: &Arc<Self>, author: Author) -> Change {
        self.begin(author, false)
    }

    /// [`Object::begin_change`] for a change whose reply tells attributes by [`Change::wcc`].
    pub(super) fn begin_told_change(self: &Arc<Self>, author: Author) -> Change {
        self.begin(author, true)
    }

    fn begin(self: &Arc<Self>, author: Author, tells: bool) -> Change {
        self.wcc.0.lock().begin(author, tells);
        Change {
            object: Arc::clone(self),
            tells,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Instant;

    use nfs_io::fs::{self, Timestamp};

    use super::*;
    use crate::vfs::room::tests::{new_file, over};

    fn client(number: u64) -> Author {
        Author(number)
    }

    /// Attributes that differ in their ctime.
    fn stats() -> impl Fn(i64) -> Stat {
        let file = tempfile::tempfile().unwrap();
        let stat = fs::statx(file.as_fd()).unwrap();
        move |sec| Stat {
            ctime: Timestamp { sec, nsec: 0 },
            ..stat
        }
    }

    #[test]
    fn what_was_seen_before_a_change_is_not_told_behind_it() {
        let (directory, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let vfs = over(&directory, &state);
        let object = new_file(&vfs, &directory.path().join("f"), 1);
        let (came, inode) = (Instant::now(), object.inode_id());
        let change = object.begin_change(client(1));
        Latest::note(came, inode, object.stat().unwrap());
        assert!(Latest::since(came, inode).is_some(), "it goes on");
        drop(change);
        assert_eq!(Latest::since(came, inode), None);
    }

    #[test]
    fn only_changes_of_one_client_are_unmixed() {
        let mut changes = Changes::default();
        changes.begin(client(1), true);
        changes.begin(client(1), true);
        assert!(!changes.mixed, "a client's own changes may overlap");
        changes.begin(client(2), true);
        assert!(changes.mixed);
        changes.end(true);
        changes.end(true);
        assert!(
            changes.mixed,
            "the one still running overlapped the other's"
        );
        changes.end(true);
        changes.begin(client(2), true);
        assert!(!changes.mixed, "nothing of before runs any more");
    }

    #[test]
    fn replies_to_changes_that_overlap_are_chained() {
        let at = stats();
        let mut changes = Changes::default();
        changes.begin(client(1), true);
        changes.begin(client(1), true);
        changes.told = Some(at(0));
        // Both had looked before either wrote; the second to be answered had looked first.
        assert_eq!(changes.chain(Some(at(0)), at(2)), (Some(at(0)), at(2)));
        changes.end(true);
        assert_eq!(changes.chain(Some(at(0)), at(1)), (Some(at(2)), at(2)));
        changes.end(true);
        // Somebody else, in between.
        changes.begin(client(1), true);
        assert_eq!(changes.chain(Some(at(5)), at(6)), (Some(at(5)), at(6)));
        changes.begin(client(2), true);
        assert_eq!(changes.chain(Some(at(6)), at(7)), (None, at(7)));
    }

    #[test]
    fn of_one_clients_changes_that_overlap_the_last_one_to_end_tells() {
        let at = stats();
        let mut changes = Changes::default();
        changes.begin(client(1), true);
        // Its reply has no attributes whatever becomes of it.
        changes.begin(client(1), false);
        assert!(!changes.may_be_silent(), "nobody else is going to tell");
        assert_eq!(changes.chain(Some(at(0)), at(1)), (Some(at(0)), at(1)));
        changes.end(false);
        // Three, of which one is given up.
        for _ in 0..3 {
            changes.begin(client(1), true);
        }
        assert!(changes.may_be_silent());
        changes.end(false);
        changes.end(true);
        assert!(!changes.may_be_silent(), "the last");
        // It goes on from what was told last, whatever came in between without a word.
        assert_eq!(changes.chain(None, at(4)), (Some(at(1)), at(4)));
    }

    #[test]
    fn nobody_is_silent_beside_another_client() {
        let mut changes = Changes::default();
        changes.begin(client(1), true);
        changes.begin(client(1), true);
        changes.begin(client(2), true);
        assert!(!changes.may_be_silent());
    }

    /// What wcc_data can and cannot tell of a program of the server's host beside one client's changes that
    /// overlap. docs/client.md says so too.
    #[test]
    fn a_local_writer_shows_between_runs_and_in_what_comes_after_them() {
        let at = stats();
        let mut changes = Changes::default();
        // Two WRITEs overlap, at 1 and 3; at 2, the program writes.
        changes.begin(client(1), true);
        changes.begin(client(1), true);
        changes.told.get_or_insert(at(0));
        assert_eq!(changes.chain(Some(at(0)), at(1)), (Some(at(0)), at(1)));
        changes.end(true);
        // Hidden: the second found 0 before itself, its reply tells 1, what is after it holds the change of 2.
        assert_eq!(changes.chain(Some(at(0)), at(3)), (Some(at(1)), at(3)));
        changes.end(true);
        // At 4 the program writes again, and nothing of the client's is going on: a client that knows 3 is
        // told 4, and sees that somebody else was there.
        changes.begin(client(1), true);
        changes.told.get_or_insert(at(4));
        assert_eq!(changes.chain(Some(at(4)), at(5)), (Some(at(4)), at(5)));
        // At 6, after the last reply of a run that goes on: what a client asks for next is later than 5.
        changes.begin(client(1), true);
        assert_eq!(changes.chain(Some(at(4)), at(7)), (Some(at(5)), at(7)));
    }
}
