//! Which number the kernel knows which object by, and for how long. Pure.
//!
//! The number is the server's fileid where that is unique: on the file system of the mount's root, and
//! not in use for another handle (a file that was removed while the kernel remembered it, and another
//! that got its number). Everything else gets a number of its own from the upper half, which no file
//! system counts up to.

use std::collections::HashMap;

use nfs_client::nfs3::{Fattr3, FileHandle};

/// The kernel's number of the mount's root.
pub(crate) const ROOT: u64 = 1;

/// The first of the numbers that are not fileids.
const OWN_FIRST: u64 = 1 << 63;

/// The table of objects is full, and nothing was added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Objects that the kernel knows, with what is kept beside each.
#[derive(Debug)]
pub(crate) struct Inodes<T> {
    by_number: HashMap<u64, Inode<T>>,
    by_handle: HashMap<FileHandle, u64>,
    fsid: u64,
    next_own: u64,
    cap: usize,
}

#[derive(Debug)]
struct Inode<T> {
    handle: FileHandle,
    /// How often the kernel was told of it, less what it has forgotten.
    lookups: u64,
    /// Open files, which outlive what the kernel forgets.
    opens: u64,
    beside: T,
}

impl<T: Default> Inodes<T> {
    /// A table of at most `cap` objects whose root is `handle` on the file system `fsid`.
    pub(crate) fn new(handle: FileHandle, fsid: u64, cap: usize) -> Self {
        let root = Inode {
            handle,
            // Never forgotten.
            lookups: 1,
            opens: 1,
            beside: T::default(),
        };
        Self {
            by_number: HashMap::from([(ROOT, root)]),
            by_handle: HashMap::from([(handle, ROOT)]),
            fsid,
            next_own: OWN_FIRST,
            cap,
        }
    }

    /// The number of `handle`, which the kernel is told of once more.
    pub(crate) fn look_up(
        &mut self,
        handle: &FileHandle,
        attributes: &Fattr3,
    ) -> Result<u64, Full> {
        if let Some(number) = self.by_handle.get(handle) {
            if let Some(inode) = self.by_number.get_mut(number) {
                inode.lookups += 1;
            }
            return Ok(*number);
        }
        if self.by_number.len() >= self.cap {
            return Err(Full);
        }
        let number = self.free_number(attributes);
        let inode = Inode {
            handle: *handle,
            lookups: 1,
            opens: 0,
            beside: T::default(),
        };
        self.by_number.insert(number, inode);
        self.by_handle.insert(*handle, number);
        Ok(number)
    }

    fn free_number(&mut self, attributes: &Fattr3) -> u64 {
        let fileid = attributes.fileid;
        let usable = fileid > ROOT && fileid < OWN_FIRST && attributes.fsid == self.fsid;
        if usable && !self.by_number.contains_key(&fileid) {
            return fileid;
        }
        loop {
            let number = self.next_own;
            self.next_own = number.checked_add(1).unwrap_or(OWN_FIRST);
            if !self.by_number.contains_key(&number) {
                return number;
            }
        }
    }

    /// The kernel has forgotten the object `lookups` times.
    pub(crate) fn forget(&mut self, number: u64, lookups: u64) {
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.lookups = inode.lookups.saturating_sub(lookups);
        }
        self.drop_unused(number);
    }

    /// A file is open once more: it stays, whatever the kernel forgets.
    pub(crate) fn opened(&mut self, number: u64) {
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.opens += 1;
        }
    }

    /// A file is closed. With the last one, `last` takes what has to be ended with it.
    pub(crate) fn released<R>(&mut self, number: u64, last: impl FnOnce(&mut T) -> R) -> Option<R> {
        let inode = self.by_number.get_mut(&number)?;
        inode.opens = inode.opens.saturating_sub(1);
        if inode.opens > 0 {
            return None;
        }
        let taken = last(&mut inode.beside);
        self.drop_unused(number);
        Some(taken)
    }

    fn drop_unused(&mut self, number: u64) {
        let unused = |inode: &Inode<T>| inode.lookups == 0 && inode.opens == 0;
        if number != ROOT
            && self.by_number.get(&number).is_some_and(unused)
            && let Some(inode) = self.by_number.remove(&number)
        {
            self.by_handle.remove(&inode.handle);
        }
    }

    /// The server's name of the object.
    pub(crate) fn handle(&self, number: u64) -> Option<FileHandle> {
        Some(self.by_number.get(&number)?.handle)
    }

    /// The number of `handle`, if the kernel knows it.
    pub(crate) fn number(&self, handle: &FileHandle) -> Option<u64> {
        self.by_handle.get(handle).copied()
    }

    /// What is kept beside the object.
    pub(crate) fn beside(&mut self, number: u64) -> Option<&mut T> {
        Some(&mut self.by_number.get_mut(&number)?.beside)
    }

    /// Open files of the object.
    pub(crate) fn opens(&self, number: u64) -> u64 {
        self.by_number.get(&number).map_or(0, |inode| inode.opens)
    }

    /// All that are open, the root left out, with what is kept beside them.
    pub(crate) fn all_open(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.by_number
            .iter_mut()
            .filter(|(number, inode)| **number != ROOT && inode.opens > 0)
            .map(|(number, inode)| (*number, &mut inode.beside))
    }
}

#[cfg(test)]
mod tests {
    use nfs_client::nfs3::{Ftype3, Nfstime3, Specdata3};

    use super::*;

    fn handle(name: &str) -> FileHandle {
        FileHandle::new(name.as_bytes()).unwrap()
    }

    fn attributes(fsid: u64, fileid: u64) -> Fattr3 {
        let time = Nfstime3::default();
        Fattr3 {
            ftype: Ftype3::Reg,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            rdev: Specdata3 { major: 0, minor: 0 },
            fsid,
            fileid,
            atime: time,
            mtime: time,
            ctime: time,
        }
    }

    fn table(cap: usize) -> Inodes<u32> {
        Inodes::new(handle("root"), 7, cap)
    }

    #[test]
    fn the_number_is_the_fileid_where_that_is_unique() {
        let mut inodes = table(100);
        assert_eq!(inodes.look_up(&handle("a"), &attributes(7, 40)), Ok(40));
        assert_eq!(inodes.look_up(&handle("a"), &attributes(7, 40)), Ok(40));
        // Another handle with the same fileid, another file system, and fileids that mean something else.
        for (name, fsid, fileid) in [
            ("b", 7, 40),
            ("c", 8, 41),
            ("d", 7, ROOT),
            ("e", 7, 0),
            ("f", 7, OWN_FIRST),
        ] {
            let number = inodes.look_up(&handle(name), &attributes(fsid, fileid));
            assert!(number.unwrap() >= OWN_FIRST, "{name}");
            assert_eq!(inodes.handle(number.unwrap()), Some(handle(name)));
            assert_eq!(inodes.number(&handle(name)), number.ok());
        }
    }

    #[test]
    fn what_is_told_of_or_open_stays() {
        let mut inodes = table(100);
        let number = inodes.look_up(&handle("a"), &attributes(7, 40)).unwrap();
        inodes.look_up(&handle("a"), &attributes(7, 40)).unwrap();
        *inodes.beside(number).unwrap() = 5;
        inodes.forget(number, 1);
        inodes.opened(number);
        inodes.opened(number);
        inodes.forget(number, 1);
        assert_eq!(inodes.handle(number), Some(handle("a")), "it is open");
        assert_eq!(inodes.all_open().map(|(n, _)| n).collect::<Vec<_>>(), [40]);
        assert_eq!(inodes.released(number, |kept| *kept), None, "still open");
        assert_eq!(inodes.released(number, |kept| *kept), Some(5));
        assert_eq!((inodes.handle(number), inodes.opens(number)), (None, 0));
        assert_eq!(inodes.number(&handle("a")), None);
        // The kernel may say more than it was told.
        inodes.forget(ROOT, 1000);
        assert_eq!(inodes.handle(ROOT), Some(handle("root")));
    }

    #[test]
    fn the_table_has_a_cap() {
        let mut inodes = table(2);
        assert_eq!(inodes.look_up(&handle("a"), &attributes(7, 40)), Ok(40));
        assert_eq!(inodes.look_up(&handle("b"), &attributes(7, 41)), Err(Full));
        assert_eq!(inodes.look_up(&handle("a"), &attributes(7, 40)), Ok(40));
        inodes.forget(40, 2);
        assert_eq!(inodes.look_up(&handle("b"), &attributes(7, 41)), Ok(41));
    }
}
