//! The server's own group lists, for users with more groups than the 16 that AUTH_SYS carries.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::limits;

/// Group lists by uid, remembered for [`limits::GROUP_LIST_SECONDS`].
#[derive(Default)]
pub(crate) struct GroupLists {
    lists: Mutex<HashMap<u32, (Instant, Vec<u32>)>>,
}

impl GroupLists {
    /// The remembered list of a user, if it is recent.
    pub(crate) fn recent(&self, uid: u32) -> Option<Vec<u32>> {
        let lists = self.lists.lock();
        let (when, gids) = lists.get(&uid)?;
        let recent = when.elapsed() < Duration::from_secs(limits::GROUP_LIST_SECONDS);
        recent.then(|| gids.clone())
    }

    /// Asks the system's user database; may wait for a directory server. A user that it does not
    /// know has no groups beyond the one the call names.
    pub(crate) fn ask(&self, uid: u32) -> Vec<u32> {
        let gids = nfs_io::groups::group_list(uid).unwrap_or_default();
        let mut lists = self.lists.lock();
        if lists.len() >= limits::GROUP_LISTS_MAX {
            lists.clear();
        }
        lists.insert(uid, (Instant::now(), gids.clone()));
        gids
    }
}
