//! Names of one file: the first is copied, the others become links to the copy.

use std::collections::HashMap;
use std::path::PathBuf;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::limits::HARD_LINKS_MAX;
use crate::nfs3::FileHandle;

/// The files with several names that were seen, by file system and number. Bounded: names of files
/// beyond the cap are copied as files of their own.
#[derive(Debug, Default)]
pub(super) struct Links {
    seen: Mutex<HashMap<(u64, u64), First>>,
}

/// Tells when the first name has been copied.
type First = watch::Receiver<Option<Copy>>;

/// A copy that further names can be given to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Copy {
    Local(PathBuf),
    Remote(FileHandle),
}

/// What a name is.
#[derive(Debug)]
pub(super) enum Name {
    /// The first one seen: to be copied, and told when there is a copy.
    First(watch::Sender<Option<Copy>>),
    /// A further one, of this copy.
    Further(Copy),
    /// Further, but the first was not copied; or there are too many files to remember.
    Alone,
}

impl Links {
    /// What a name of the file is. Waits while the first is being made.
    pub(super) async fn name_of(&self, fsid: u64, fileid: u64) -> Name {
        let mut first = {
            let mut seen = self.seen.lock();
            match seen.get(&(fsid, fileid)) {
                Some(first) => first.clone(),
                None if seen.len() >= HARD_LINKS_MAX => return Name::Alone,
                None => {
                    let (sender, receiver) = watch::channel(None);
                    seen.insert((fsid, fileid), receiver);
                    return Name::First(sender);
                }
            }
        };
        match first.wait_for(Option::is_some).await {
            Ok(copy) => copy.clone().map_or(Name::Alone, Name::Further),
            // Dropped without a copy.
            Err(_) => Name::Alone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_name_is_waited_for() {
        let links = Links::default();
        let Name::First(first) = links.name_of(1, 2).await else {
            panic!("nobody was here before");
        };
        let Name::First(lost) = links.name_of(1, 3).await else {
            panic!("another file");
        };
        let copy = Copy::Local("x".into());
        let (further, ()) = tokio::join!(links.name_of(1, 2), async {
            first.send(Some(copy.clone())).unwrap();
        });
        assert!(matches!(further, Name::Further(found) if found == copy));
        // A first name that failed leaves the others alone.
        drop(lost);
        assert!(matches!(links.name_of(1, 3).await, Name::Alone));
    }
}
