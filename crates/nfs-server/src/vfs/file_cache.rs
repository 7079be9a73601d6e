//! The open-file cache: handle → [`Object`], under a budget of descriptors.
//!
//! A hit takes a read lock on one stripe and no system call. When the budget is used up, a clock
//! hand per stripe looks for an object that nobody touched since its last round. Objects in use by
//! a call stay alive through their `Arc`; their descriptors count until they close.
//!
//! The cache holds one object per inode: a second index by inode lets LOOKUP find the handle of an
//! object it just reached by name without asking the kernel for it again. The cached descriptor
//! pins the inode, so its number cannot be used again for another file while it is indexed.
//!
//! An object with unsynced writes, or with space to give back, never leaves to make room: the kernel tells of a lost write only to
//! descriptors that were open. It is handed out for that first ([`FileCache::insert`],
//! [`FileCache::find_room`], [`FileCache::take_idle`]) and leaves another time.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::vfs::fh::Handle;
use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};

use crate::limits;
use crate::vfs::Object;

/// The key of an inode, unique among all exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InodeId {
    /// The export and the file system in it, as in the handle.
    pub(crate) fsid: u64,
    /// A btrfs subvolume has its own, and its own inode numbers, within one mount.
    pub(crate) dev: u64,
    pub(crate) ino: u64,
}

/// The cache of open objects, by handle and by inode, under a budget of descriptors.
pub(crate) struct FileCache {
    stripes: Box<[RwLock<Stripe>; STRIPES]>,
    inodes: Box<[RwLock<Inodes>; STRIPES]>,
    hasher: RandomState,
    budget: FdBudget,
    clock: Clock,
    /// The number of the stripe in which room is looked for next.
    turn: AtomicUsize,
    /// When the operator was last told that the budget is used up.
    said_full: Mutex<Option<Instant>>,
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
}

type Inodes = HashMap<InodeId, Arc<Object>, RandomState>;

/// The seconds since the cache was made, for those who use an object and have no time to ask for it.
struct Clock {
    start: Instant,
    /// What it was when somebody looked last.
    second: AtomicU32,
}

#[derive(Default)]
struct Stripe {
    objects: HashMap<Handle, Placed, RandomState>,
    /// The clock's face: every cached handle once, in no order.
    clock: Vec<Handle>,
    hand: usize,
}

/// An object and where its handle is on the clock's face.
struct Placed {
    object: Arc<Object>,
    at: usize,
}

impl Stripe {
    fn insert(&mut self, handle: Handle, object: Arc<Object>) -> Option<Arc<Object>> {
        if let Some(placed) = self.objects.get_mut(&handle) {
            return Some(std::mem::replace(&mut placed.object, object));
        }
        let at = self.clock.len();
        self.clock.push(handle);
        self.objects.insert(handle, Placed { object, at });
        None
    }

    fn remove(&mut self, handle: &Handle) -> Option<Arc<Object>> {
        let Placed { object, at } = self.objects.remove(handle)?;
        self.clock.swap_remove(at);
        if let Some(moved) = self
            .clock
            .get(at)
            .and_then(|moved| self.objects.get_mut(moved))
        {
            moved.at = at;
        }
        Some(object)
    }
}

/// What left the cache, and what must be synced before it may.
#[derive(Default)]
pub(crate) struct Leaving {
    /// The caller drops these outside every lock.
    pub(crate) out: Vec<Arc<Object>>,
    /// The caller has these synced; they are still in the cache.
    pub(crate) to_sync: Vec<Arc<Object>>,
}

impl Leaving {
    pub(crate) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.to_sync.is_empty()
    }
}

/// How far a walk through the whole cache has come, which is made in several parts.
#[derive(Default)]
pub(crate) struct Cursor {
    stripe: usize,
    /// Where on that stripe's clock the walk goes on.
    at: usize,
}

impl Cursor {
    /// The walk begins, or has come to the end and begins anew.
    pub(crate) const fn is_at_start(&self) -> bool {
        self.stripe == 0 && self.at == 0
    }
}

const STRIPES: usize = 16;

/// The cache's figures at one moment.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(crate) struct FileCacheStats {
    /// Objects that the cache holds now.
    pub(crate) objects: usize,
    /// Descriptors in use by objects, cached or not.
    pub(crate) fds: usize,
    /// The budget of descriptors for objects.
    pub(crate) fds_max: usize,
    /// Look-ups that found the object.
    pub(crate) hits: u64,
    /// Look-ups that did not find the object.
    pub(crate) misses: u64,
    /// Objects put out to make room.
    pub(crate) evictions: u64,
}

impl FileCache {
    /// `fds_max`: how many descriptors objects may hold.
    pub(crate) fn new(fds_max: usize) -> Self {
        Self {
            stripes: Box::default(),
            inodes: Box::default(),
            hasher: RandomState::default(),
            budget: FdBudget {
                used: Arc::default(),
                max: fds_max,
            },
            clock: Clock {
                start: Instant::now(),
                second: AtomicU32::new(0),
            },
            turn: AtomicUsize::new(0),
            said_full: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        }
    }

    /// The object of a handle, if it is here.
    pub(crate) fn by_handle(&self, handle: &Handle) -> Option<Arc<Object>> {
        let found = self.glimpse(handle);
        match &found {
            Some(object) => {
                object.touch(self.clock.second.load(Ordering::Relaxed));
                self.hits.fetch_add(1, Ordering::Relaxed);
            }
            None => {
                self.misses.fetch_add(1, Ordering::Relaxed);
            }
        }
        found
    }

    /// The object of a handle, if it is here. Neither counted nor a use of it.
    pub(crate) fn glimpse(&self, handle: &Handle) -> Option<Arc<Object>> {
        let stripe = self.stripe(handle).read();
        let placed = stripe.objects.get(handle);
        placed.map(|placed| Arc::clone(&placed.object))
    }

    /// The object of an inode, if it is here.
    pub(crate) fn by_inode(&self, id: InodeId) -> Option<Arc<Object>> {
        let found = self.glimpse_inode(id);
        if let Some(object) = &found {
            object.touch(self.clock.second.load(Ordering::Relaxed));
        }
        found
    }

    /// The object of an inode, if it is here. No use of it.
    pub(crate) fn glimpse_inode(&self, id: InodeId) -> Option<Arc<Object>> {
        let found = self.inode_stripe(&id).read().get(&id).cloned();
        found.filter(|object| !object.mount.is_retired())
    }

    /// Sets the clock by which objects note when they were used, and says what second it is since the cache was made.
    pub(crate) fn set_clock(&self) -> u32 {
        let second = u32::try_from(self.clock.start.elapsed().as_secs()).unwrap_or(u32::MAX);
        self.clock.second.store(second, Ordering::Relaxed);
        second
    }

    /// Calls `look` with every object, in no order. Whoever wants to put one in or take one out of the part that is
    /// looked at waits meanwhile, so `look` may not.
    pub(crate) fn for_each(&self, mut look: impl FnMut(&Arc<Object>)) {
        for stripe in self.stripes.iter() {
            for placed in stripe.read().objects.values() {
                look(&placed.object);
            }
        }
    }

    /// Takes an object out if nobody holds it but the cache and the caller, and nothing is left to be done for it.
    pub(crate) fn take_out(&self, object: Arc<Object>) -> Option<Arc<Object>> {
        let mut stripe = self.stripe(&object.handle).write();
        let present = stripe.objects.get(&object.handle);
        if object.is_root() || !present.is_some_and(|it| Arc::ptr_eq(&it.object, &object)) {
            return None;
        }
        self.take_unused(&mut stripe, object)
    }

    /// Puts an object in, unless its inode or handle is here already: then the one that is here is returned.
    /// `leaving` receives what is put out to make room.
    pub(crate) fn insert(&self, object: Object, leaving: &mut Leaving) -> Arc<Object> {
        let id = object.inode_id();
        let handle = object.handle;
        object.used_in(self.clock.second.load(Ordering::Relaxed));
        let object = Arc::new(object);
        {
            let mut inodes = self.inode_stripe(&id).write();
            if let Some(present) = inodes.get(&id)
                && !present.mount.is_retired()
            {
                return Arc::clone(present);
            }
            inodes.insert(id, Arc::clone(&object));
        }
        let replaced = self
            .stripe(&handle)
            .write()
            .insert(handle, Arc::clone(&object));
        leaving.out.extend(replaced);
        self.make_room(&handle, leaving);
        object
    }

    /// Takes an object out: its last name is gone, or its handle went stale.
    pub(crate) fn remove(&self, object: &Object) {
        let removed = self.stripe(&object.handle).write().remove(&object.handle);
        self.forget_inode(object);
        drop(removed);
    }

    /// Every object, for the end of the server.
    pub(crate) fn drain(&self) -> Vec<Arc<Object>> {
        let mut all = Vec::new();
        for stripe in self.stripes.iter() {
            let mut stripe = stripe.write();
            stripe.clock.clear();
            all.extend(stripe.objects.drain().map(|(_, placed)| placed.object));
        }
        for inodes in self.inodes.iter() {
            inodes.write().clear();
        }
        all
    }

    pub(crate) fn budget(&self) -> &FdBudget {
        &self.budget
    }

    pub(crate) fn stats(&self) -> FileCacheStats {
        FileCacheStats {
            objects: self
                .stripes
                .iter()
                .map(|stripe| stripe.read().objects.len())
                .sum(),
            fds: self.budget.used(),
            fds_max: self.budget.max,
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
        }
    }

    /// True when one more descriptor would be over the budget.
    pub(crate) fn is_full(&self) -> bool {
        self.budget.used() >= self.budget.max
    }

    /// True when the budget is exceeded by more than what comes and goes.
    pub(crate) fn is_overfull(&self) -> bool {
        self.budget.used() > self.budget.max + limits::FILE_CACHE_OVER_MAX
    }

    /// The budget of descriptors for objects: how many they may hold.
    pub(crate) fn fds_max(&self) -> usize {
        self.budget.max
    }

    /// Tells the operator that there are too few descriptors, not more often than
    /// [`limits::FILE_CACHE_FULL_SECONDS`] allows.
    pub(crate) fn say_that_it_is_full(&self) {
        let Some(mut said) = self.said_full.try_lock() else {
            return;
        };
        let pause = Duration::from_secs(limits::FILE_CACHE_FULL_SECONDS);
        if said.is_none_or(|at| at.elapsed() >= pause) {
            *said = Some(Instant::now());
            tracing::warn!(
                "the {} descriptors for open files are used up: files are synced and closed early, and clients \
                 may be told to come again; raise LimitNOFILE= of the systemd unit, or ulimit -n",
                self.budget.max
            );
        }
    }

    /// Puts objects out, this stripe's first, until the budget fits again; spares `keep`.
    fn make_room(&self, keep: &Handle, leaving: &mut Leaving) {
        let over = self.budget.used().saturating_sub(self.budget.max);
        let most = over.min(limits::EVICTIONS_PER_INSERT_MAX);
        self.search(self.stripe_index(keep), Some(keep), most, leaving);
    }

    /// Puts one object out or finds one to be synced, in any stripe.
    pub(crate) fn find_room(&self, leaving: &mut Leaving) {
        let start = self.turn.fetch_add(1, Ordering::Relaxed);
        self.search(start, None, 1, leaving);
    }

    fn search(&self, start: usize, keep: Option<&Handle>, most: usize, leaving: &mut Leaving) {
        for step in 0..STRIPES {
            if leaving.out.len() + leaving.to_sync.len() >= most {
                return;
            }
            let stripe = self.stripe_at(start.wrapping_add(step));
            self.evict(&mut stripe.write(), keep, leaving);
        }
    }

    /// The next objects from the cursor on, `most` at most and each once; it begins anew behind the last.
    /// What comes and goes meanwhile may be passed over until then.
    pub(crate) fn some(&self, cursor: &mut Cursor, most: usize) -> Vec<Arc<Object>> {
        let mut found = Vec::new();
        for _ in 0..=STRIPES {
            let stripe = self.stripe_at(cursor.stripe).read();
            let left = stripe.clock.get(cursor.at..).unwrap_or_default();
            let next = left.iter().take(most - found.len());
            cursor.at += next.len();
            let next = next.filter_map(|handle| stripe.objects.get(handle));
            found.extend(next.map(|placed| Arc::clone(&placed.object)));
            if cursor.at < stripe.clock.len() {
                break;
            }
            *cursor = Cursor {
                stripe: (cursor.stripe + 1) % STRIPES,
                at: 0,
            };
            if cursor.stripe == 0 {
                break;
            }
        }
        found
    }

    /// Two rounds of the clock at most: the first object that was not used since the last round
    /// and that no call holds.
    fn evict(&self, stripe: &mut Stripe, keep: Option<&Handle>, leaving: &mut Leaving) {
        for _ in 0..stripe.clock.len() * 2 {
            stripe.hand = (stripe.hand + 1) % stripe.clock.len();
            let Some(handle) = stripe.clock.get(stripe.hand).copied() else {
                return;
            };
            let Some(placed) = stripe.objects.get(&handle) else {
                continue;
            };
            let object = &placed.object;
            if keep == Some(&handle)
                || object.used.swap(false, Ordering::Relaxed)
                || object.is_root()
            {
                continue;
            }
            let object = Arc::clone(object);
            if object.io.must_stay() {
                if !object.cleaning.swap(true, Ordering::Relaxed) {
                    leaving.to_sync.push(object);
                    return;
                }
            } else if let Some(object) = self.take_unused(stripe, object) {
                self.evictions.fetch_add(1, Ordering::Relaxed);
                leaving.out.push(object);
                return;
            }
        }
    }

    /// Takes an object out if nobody but the cache and the caller holds it. Both indexes are
    /// locked meanwhile, so nobody can come to hold it: no inode ever has two objects in use.
    fn take_unused(&self, stripe: &mut Stripe, object: Arc<Object>) -> Option<Arc<Object>> {
        const STRIPE_AND_CALLER: usize = 2;
        let id = object.inode_id();
        let mut inodes = self.inode_stripe(&id).write();
        let indexed = inodes
            .get(&id)
            .is_some_and(|present| Arc::ptr_eq(present, &object));
        // Looked at once more: its last writer may have gone since.
        if Arc::strong_count(&object) != STRIPE_AND_CALLER + usize::from(indexed)
            || object.io.must_stay()
        {
            return None;
        }
        if indexed {
            inodes.remove(&id);
        }
        stripe.remove(&object.handle);
        Some(object)
    }

    /// Takes out every object that was not touched since the last call of this function and that
    /// no call holds.
    pub(crate) fn take_idle(&self) -> Leaving {
        let mut leaving = Leaving::default();
        for stripe in self.stripes.iter() {
            let mut stripe = stripe.write();
            let unused: Vec<Arc<Object>> = stripe
                .objects
                .values()
                .map(|placed| &placed.object)
                .filter(|object| !object.used.swap(false, Ordering::Relaxed) && !object.is_root())
                .cloned()
                .collect();
            for object in unused {
                if object.io.must_stay() {
                    if !object.cleaning.swap(true, Ordering::Relaxed) {
                        leaving.to_sync.push(object);
                    }
                } else {
                    leaving.out.extend(self.take_unused(&mut stripe, object));
                }
            }
        }
        leaving
    }

    fn forget_inode(&self, object: &Object) {
        let id = object.inode_id();
        let mut inodes = self.inode_stripe(&id).write();
        let same = |present: &Arc<Object>| std::ptr::eq(Arc::as_ptr(present), object);
        if inodes.get(&id).is_some_and(same) {
            let removed = inodes.remove(&id);
            drop(inodes);
            drop(removed);
        }
    }

    fn stripe(&self, handle: &Handle) -> &RwLock<Stripe> {
        self.stripe_at(self.stripe_index(handle))
    }

    fn stripe_index(&self, handle: &Handle) -> usize {
        self.hash(handle)
    }

    /// The stripe of this number; numbers beyond the last begin again with the first.
    #[expect(
        clippy::indexing_slicing,
        reason = "a remainder of the array's own length"
    )]
    fn stripe_at(&self, number: usize) -> &RwLock<Stripe> {
        &self.stripes[number % STRIPES]
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "a remainder of the array's own length"
    )]
    fn inode_stripe(&self, id: &InodeId) -> &RwLock<Inodes> {
        &self.inodes[self.hash(id) % STRIPES]
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "any part of a hash will do"
    )]
    fn hash(&self, value: &impl Hash) -> usize {
        self.hasher.hash_one(value) as usize
    }
}

/// How many descriptors objects hold, and may hold.
#[derive(Clone)]
pub(crate) struct FdBudget {
    used: Arc<AtomicUsize>,
    max: usize,
}

impl FdBudget {
    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether so many are left that a descriptor may be kept which is only likely to be wanted.
    pub(super) fn has_plenty(&self) -> bool {
        self.used() < self.max / 2
    }

    /// Counts one descriptor. The budget is kept by eviction, not by refusal: a call that runs
    /// always gets its descriptor.
    pub(crate) fn take(&self) -> FdSlot {
        self.used.fetch_add(1, Ordering::Relaxed);
        FdSlot(Arc::clone(&self.used))
    }
}

/// One descriptor's place in the budget, given back when dropped.
pub(crate) struct FdSlot(Arc<AtomicUsize>);

impl Drop for FdSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
