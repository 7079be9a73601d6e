//! Files of which local programs have locked what clients wait for.
//!
//! No kernel tells when a local program lets go, so that these are looked at with each tick. There are so many at most
//! ([`limits::WATCHED_FILES_MAX`]), of which each host has a share, counted for the host whose client was the first to
//! wait in a file. Who finds no place asks again by itself.

use std::sync::Arc;

use nfs_io::turns::Rule;
use nfs_io::{Share, Sharer, Shares};
use parking_lot::Mutex;

use crate::limits;
use crate::vfs::Object;

/// What is watched. Cheap to clone; clones share.
#[derive(Clone)]
pub(super) struct Watched {
    files: Arc<Mutex<Vec<Watch>>>,
    shares: Shares,
}

struct Watch {
    object: Arc<Object>,
    /// Somebody looks at it, or is to: on a file system that does not answer, for long.
    is_looked_at: bool,
    _share: Share,
}

impl Default for Watched {
    fn default() -> Self {
        let rule = Rule::TimesFree(limits::WATCHED_TIMES_FREE_MAX);
        Self {
            files: Arc::default(),
            shares: Shares::new(limits::WATCHED_FILES_MAX as u64, rule),
        }
    }
}

impl Watched {
    /// A client of this host waits in this file, and stands among its waiters.
    pub(super) fn add(&self, object: &Arc<Object>, host: Sharer) {
        let mut files = self.files.lock();
        if files.iter().any(|it| Arc::ptr_eq(&it.object, object)) {
            return;
        }
        if let Some(share) = self.shares.try_take(host, 1) {
            files.push(Watch {
                object: Arc::clone(object),
                is_looked_at: false,
                _share: share,
            });
        }
    }

    /// All that nobody looks at. For each, [`Watched::looked_at`] is to be called.
    pub(super) fn to_look_at(&self) -> Vec<Arc<Object>> {
        let mut files = self.files.lock();
        let idle = files.iter_mut().filter(|it| !it.is_looked_at);
        let taken = idle.map(|it| {
            it.is_looked_at = true;
            Arc::clone(&it.object)
        });
        taken.collect()
    }

    /// Nobody looks at this one any more. If nobody waits in it either, it is forgotten.
    pub(super) fn looked_at(&self, object: &Arc<Object>) {
        let mut files = self.files.lock();
        let place = files.iter().position(|it| Arc::ptr_eq(&it.object, object));
        let Some(place) = place else {
            return;
        };
        // Whoever comes to wait now finds the list locked, and adds the file again.
        if object.file_state().waiters() == 0 {
            files.swap_remove(place);
        } else if let Some(watch) = files.get_mut(place) {
            watch.is_looked_at = false;
        }
    }
}
