//! Permission checks of one object, remembered for as long as its ctime stays.

use std::time::{SystemTime, UNIX_EPOCH};

use nfs_io::fs::{Stat, Timestamp};
use nfs_io::{Creds, Errno};

use super::{Access, Error, Result};
use crate::limits;

/// Permission checks that were made, valid for one ctime.
#[derive(Default)]
pub(super) struct Permits {
    ctime: Timestamp,
    entries: Vec<Permit>,
    next: usize,
}

struct Permit {
    creds: Creds,
    granted: Access,
    refused: Access,
}

impl Permits {
    pub(super) fn recall(&self, creds: &Creds, access: Access, stat: &Stat) -> Option<Result<()>> {
        if self.ctime != stat.ctime {
            return None;
        }
        let permit = self.entries.iter().find(|permit| permit.creds == *creds)?;
        if permit.granted.contains(access) {
            Some(Ok(()))
        } else if access.each().any(|one| permit.refused.contains(one)) {
            Some(Err(Error::Errno(Errno::ACCESS)))
        } else {
            None
        }
    }

    pub(super) fn remember(&mut self, creds: &Creds, access: Access, stat: &Stat, granted: bool) {
        // A change within the same tick of the kernel's clock would not move the ctime.
        if !is_settled(stat.ctime) {
            return;
        }
        if self.ctime != stat.ctime {
            self.ctime = stat.ctime;
            self.entries.clear();
        }
        match self
            .entries
            .iter_mut()
            .find(|permit| permit.creds == *creds)
        {
            Some(permit) => permit.note(access, granted),
            None => {
                let mut permit = Permit {
                    creds: creds.clone(),
                    granted: Access::NONE,
                    refused: Access::NONE,
                };
                permit.note(access, granted);
                self.put(permit);
            }
        }
    }

    /// Keeps one more, in the place of another where there are as many as may be.
    fn put(&mut self, permit: Permit) {
        if self.entries.len() < limits::PERMITS_PER_OBJECT_MAX {
            self.entries.push(permit);
            return;
        }
        self.next = (self.next + 1) % self.entries.len();
        if let Some(place) = self.entries.get_mut(self.next) {
            *place = permit;
        }
    }
}

impl Permit {
    /// Notes the kernel's answer. Which part of a larger set was refused, it does not say.
    fn note(&mut self, access: Access, granted: bool) {
        if granted {
            self.granted |= access;
        } else if access.each().count() == 1 {
            self.refused |= access;
        }
    }
}

/// Is this time further back than the coarsest clock tick of a file system?
fn is_settled(time: Timestamp) -> bool {
    // Some file systems keep whole seconds (ext4 with small inodes), FAT every other one.
    let tick_ns: i128 = if time.nsec == 0 {
        2_000_000_000
    } else {
        20_000_000
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let time_ns = i128::from(time.sec) * 1_000_000_000 + i128::from(time.nsec);
    i128::try_from(now.as_nanos()).unwrap_or(0) - time_ns > tick_ns
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use nfs_io::{LocalGid, LocalUid, fs};

    use super::*;

    #[test]
    fn so_many_users_of_a_file_are_remembered_and_one_more_takes_the_place_of_one() {
        let file = std::fs::File::open("/").unwrap();
        let mut stat = fs::statx(file.as_fd()).unwrap();
        // Long ago: else nothing is remembered.
        stat.ctime = Timestamp { sec: 1, nsec: 1 };
        let user = |uid: u32| Creds::new(LocalUid(uid), LocalGid(uid), &[]);
        let mut permits = Permits::default();
        let most = limits::PERMITS_PER_OBJECT_MAX;
        let users = 3 * most as u32;
        for uid in 0..users {
            permits.remember(&user(uid), Access::READ, &stat, true);
            assert_eq!(
                permits.recall(&user(uid), Access::READ, &stat),
                Some(Ok(()))
            );
        }
        let known = (0..users).filter(|&uid| {
            let recalled = permits.recall(&user(uid), Access::READ, &stat);
            recalled.is_some()
        });
        assert_eq!(known.count(), most);
        assert_eq!(permits.entries.len(), most);
    }
}
