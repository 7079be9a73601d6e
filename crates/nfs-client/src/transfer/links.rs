//! Names of one file: the first is copied, the others become links to the copy.

use std::collections::HashMap;
use std::path::PathBuf;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::connection::Target;
use crate::limits::HARD_LINKS_MAX;
use crate::nfs3::{Fattr3, FileHandle};

/// The files with several names that were seen, by where they are, file system and number. Bounded:
/// names of files beyond the cap are copied as files of their own.
#[derive(Debug, Default)]
pub(super) struct Links {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Few: no more than there are sources.
    origins: Vec<Origin>,
    /// By place among the origins, file system, and number.
    files: HashMap<(usize, u64, u64), First>,
}

/// Where a file system and a file's number in it mean the same file: on this host, or in one export of
/// one server. Two servers may well use the same numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Here,
    Export(Target, FileHandle),
}

/// Tells when the first name has been copied.
type First = watch::Receiver<Option<Copy>>;

/// A copy that further names can be given to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Copy {
    Local(PathBuf),
    Remote(FileHandle),
}

/// What is known of one of a file's names.
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
    pub(super) async fn name_of(&self, origin: Origin, file: &Fattr3) -> Name {
        let mut first = {
            let mut seen = self.seen.lock();
            let key = (seen.place(origin), file.fsid, file.fileid);
            match seen.files.get(&key) {
                Some(first) => first.clone(),
                None if seen.files.len() >= HARD_LINKS_MAX => return Name::Alone,
                None => {
                    let (sender, receiver) = watch::channel(None);
                    seen.files.insert(key, receiver);
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

impl Seen {
    fn place(&mut self, origin: Origin) -> usize {
        match self.origins.iter().position(|known| *known == origin) {
            Some(place) => place,
            None => {
                self.origins.push(origin);
                self.origins.len() - 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nfs_wire::nfs3::{Ftype3, Nfstime3, Specdata3};

    use super::*;

    fn file(fileid: u64) -> Fattr3 {
        let time = Nfstime3::default();
        Fattr3 {
            ftype: Ftype3::Reg,
            mode: 0o644,
            nlink: 2,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            rdev: Specdata3::default(),
            fsid: 1,
            fileid,
            atime: time,
            mtime: time,
            ctime: time,
        }
    }

    #[tokio::test]
    async fn the_first_name_is_waited_for() {
        let links = Links::default();
        let (two, three) = (file(2), file(3));
        let Name::First(first) = links.name_of(Origin::Here, &two).await else {
            panic!("nobody was here before");
        };
        let Name::First(lost) = links.name_of(Origin::Here, &three).await else {
            panic!("another file");
        };
        let copy = Copy::Local("x".into());
        let (further, ()) = tokio::join!(links.name_of(Origin::Here, &two), async {
            first.send(Some(copy.clone())).unwrap();
        });
        assert!(matches!(further, Name::Further(found) if found == copy));
        // A first name that failed leaves the others alone.
        drop(lost);
        let further = links.name_of(Origin::Here, &three).await;
        assert!(matches!(further, Name::Alone));
    }

    #[tokio::test]
    async fn the_same_number_elsewhere_is_another_file() {
        let links = Links::default();
        let root = |name: &[u8]| FileHandle::new(name).unwrap();
        let origins = [
            Origin::Here,
            Origin::Export(Target::new("one", 2049), root(b"root")),
            Origin::Export(Target::new("two", 2049), root(b"root")),
            Origin::Export(Target::new("one", 2049), root(b"other")),
        ];
        let mut firsts = Vec::new();
        for origin in origins {
            let Name::First(first) = links.name_of(origin.clone(), &file(2)).await else {
                panic!("the first of {origin:?}");
            };
            firsts.push(first);
        }
    }
}
