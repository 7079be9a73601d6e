//! The attributes of an object before and after a change (wcc_data), when changes of one object overlap.

use std::sync::Arc;

use nfs_io::fs::Stat;
use parking_lot::Mutex;

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
#[derive(Default)]
pub(super) struct WccChain(Mutex<Changes>);

#[derive(Default)]
struct Changes {
    running: u32,
    /// The client whose changes run, while any do.
    author: Option<Author>,
    mixed: bool,
    /// What was told last in this run; at its start, the attributes from before it.
    told: Option<Stat>,
}

impl Changes {
    fn begin(&mut self, author: Author) {
        if self.running == 0 {
            self.author = Some(author);
            self.mixed = false;
            self.told = None;
        } else if self.author != Some(author) {
            self.mixed = true;
        }
        self.running += 1;
    }

    /// The attributes before and after for a reply that is made now, of a change that found `after`.
    fn chain(&mut self, before: Stat, after: Stat) -> (Option<Stat>, Stat) {
        if self.mixed {
            return (None, after);
        }
        let told = self.told.unwrap_or(before);
        // Who was faster had looked later: what it saw has this change in it.
        let after = if after.ctime < told.ctime {
            told
        } else {
            after
        };
        self.told = Some(after);
        (Some(told), after)
    }

    fn end(&mut self) {
        self.running -= 1;
    }
}

/// A change that is going on; ends when dropped.
pub(crate) struct Change {
    object: Arc<Object>,
}

impl Change {
    /// True while only one client's changes overlapped this one.
    pub(crate) fn is_unmixed(&self) -> bool {
        !self.object.wcc.0.lock().mixed
    }

    /// Notes the attributes from before the change. To be called before anything is changed.
    pub(super) fn found(&self, before: &Stat) {
        self.object.wcc.0.lock().told.get_or_insert(*before);
    }

    /// The attributes for the reply, which is to be sent next: `before` as found, `after` as they are now.
    pub(super) fn wcc(&self, before: Stat, after: Option<Attributes>) -> Wcc {
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
        self.object.wcc.0.lock().end();
    }
}

impl Object {
    /// Starts a change by `author`; the ticket tells at its end whether the attributes from
    /// before may be told to that author.
    pub(crate) fn begin_change(self: &Arc<Self>, author: Author) -> Change {
        self.wcc.0.lock().begin(author);
        Change {
            object: Arc::clone(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nfs_io::fs::{self, Timestamp};

    use super::*;

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
    fn only_changes_of_one_client_are_unmixed() {
        let mut changes = Changes::default();
        changes.begin(client(1));
        changes.begin(client(1));
        assert!(!changes.mixed, "a client's own changes may overlap");
        changes.begin(client(2));
        assert!(changes.mixed);
        changes.end();
        changes.end();
        assert!(
            changes.mixed,
            "the one still running overlapped the other's"
        );
        changes.end();
        changes.begin(client(2));
        assert!(!changes.mixed, "nothing of before runs any more");
    }

    #[test]
    fn replies_to_changes_that_overlap_are_chained() {
        let at = stats();
        let mut changes = Changes::default();
        changes.begin(client(1));
        changes.begin(client(1));
        changes.told = Some(at(0));
        // Both had looked before either wrote; the second to be answered had looked first.
        assert_eq!(changes.chain(at(0), at(2)), (Some(at(0)), at(2)));
        changes.end();
        assert_eq!(changes.chain(at(0), at(1)), (Some(at(2)), at(2)));
        changes.end();
        // Somebody else, in between.
        changes.begin(client(1));
        assert_eq!(changes.chain(at(5), at(6)), (Some(at(5)), at(6)));
        changes.begin(client(2));
        assert_eq!(changes.chain(at(6), at(7)), (None, at(7)));
    }

    /// What wcc_data can and cannot tell of a program of the server's host beside one client's changes that
    /// overlap. docs/client.md says so too.
    #[test]
    fn a_local_writer_shows_between_runs_and_in_what_comes_after_them() {
        let at = stats();
        let mut changes = Changes::default();
        // Two WRITEs overlap, at 1 and 3; at 2, the program writes.
        changes.begin(client(1));
        changes.begin(client(1));
        changes.told.get_or_insert(at(0));
        assert_eq!(changes.chain(at(0), at(1)), (Some(at(0)), at(1)));
        changes.end();
        // Hidden: the second found 0 before itself, its reply tells 1, what is after it holds the change of 2.
        assert_eq!(changes.chain(at(0), at(3)), (Some(at(1)), at(3)));
        changes.end();
        // At 4 the program writes again, and nothing of the client's is going on: a client that knows 3 is
        // told 4, and sees that somebody else was there.
        changes.begin(client(1));
        changes.told.get_or_insert(at(4));
        assert_eq!(changes.chain(at(4), at(5)), (Some(at(4)), at(5)));
        // At 6, after the last reply of a run that goes on: what a client asks for next is later than 5.
        changes.begin(client(1));
        assert_eq!(changes.chain(at(4), at(7)), (Some(at(5)), at(7)));
    }
}
