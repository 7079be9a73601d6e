//! The opens of one client.

use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::error::Error;
use crate::file::FileState;
use crate::host::Counted;
use crate::id::{ClientId, Open, OwnerBytes, Principal, StateIdOf, check_seqid, next_seqid};
use crate::rank::{Rank, RankedMutex};
use crate::share::{Bits, Combinations, OpenKey};

/// A file as one open-owner of a client has it open. It pins the driver's object, and owns no descriptor.
#[derive(Debug)]
pub struct OpenState<P> {
    pub(crate) key: OpenKey,
    pub(crate) owner: OwnerBytes,
    principal: Principal,
    file: Arc<FileState>,
    pin: P,
    /// Several principals opened it under one owner: it is no one's right then.
    is_shared: AtomicBool,
    seqid: AtomicU32,
    /// The two bits of access, for I/O: the same as in `combinations`.
    access: AtomicU32,
    combinations: RankedMutex<Combinations>,
    _counted: Counted,
}

impl<P> OpenState<P> {
    pub(crate) fn new(
        key: OpenKey,
        owner: OwnerBytes,
        principal: Principal,
        file: Arc<FileState>,
        pin: P,
        combinations: Combinations,
        counted: Counted,
    ) -> Self {
        Self {
            key,
            owner,
            principal,
            file,
            pin,
            is_shared: AtomicBool::new(false),
            seqid: AtomicU32::new(1),
            access: AtomicU32::new(combinations.union.access.to_wire()),
            combinations: RankedMutex::new(Rank::Leaf, combinations),
            _counted: counted,
        }
    }

    /// What the driver pinned.
    pub const fn pin(&self) -> &P {
        &self.pin
    }

    /// The state of the file that is open.
    #[must_use]
    pub const fn file(&self) -> &Arc<FileState> {
        &self.file
    }

    /// Who opened it.
    #[must_use]
    pub const fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The open-owner, as its client names it.
    #[must_use]
    pub const fn owner(&self) -> &OwnerBytes {
        &self.owner
    }

    /// The client that has it open.
    #[must_use]
    pub const fn client(&self) -> ClientId {
        self.key.0
    }

    /// What it is open for.
    #[must_use]
    pub fn access(&self) -> Bits {
        Bits::from_wire(self.access.load(Ordering::Acquire)).unwrap_or(Bits::NONE)
    }

    /// What it denies to others.
    #[must_use]
    pub fn deny(&self) -> Bits {
        self.combinations().union.deny
    }

    /// The stateid as it is now.
    #[must_use]
    pub fn stateid(&self) -> StateIdOf<Open> {
        StateIdOf::new(self.key.0, self.key.1, self.seqid.load(Ordering::Acquire))
    }

    pub(crate) fn combinations(&self) -> Combinations {
        *self.combinations.lock()
    }

    /// Whether `principal` opened it, and nobody else did.
    pub(crate) fn is_of(&self, principal: &Principal) -> bool {
        self.principal == *principal && !self.is_shared.load(Ordering::Acquire)
    }

    /// Changes what it is open for, on behalf of `by`. Only under the client's lock.
    pub(crate) fn change(&self, to: Combinations, by: &Principal) {
        if self.principal != *by {
            self.is_shared.store(true, Ordering::Release);
        }
        *self.combinations.lock() = to;
        self.access
            .store(to.union.access.to_wire(), Ordering::Release);
        let next = next_seqid(self.seqid.load(Ordering::Acquire));
        self.seqid.store(next, Ordering::Release);
    }
}

/// The opens of one client, by stateid and by owner and file.
#[derive(Debug)]
pub(crate) struct Opens<P> {
    by_counter: HashMap<u32, Arc<OpenState<P>>, BuildHasherDefault<CounterHasher>>,
    /// For each open-owner, the files it has open, by [`FileState::number`].
    by_owner: BTreeMap<OwnerBytes, BTreeMap<u64, u32>>,
}

impl<P> Default for Opens<P> {
    fn default() -> Self {
        Self {
            by_counter: HashMap::default(),
            by_owner: BTreeMap::new(),
        }
    }
}

impl<P> Opens<P> {
    pub(crate) fn find(&self, owner: &OwnerBytes, file: &FileState) -> Option<&Arc<OpenState<P>>> {
        let counter = self.by_owner.get(owner)?.get(&file.number())?;
        self.by_counter.get(counter)
    }

    /// The open that a stateid of a request names, in its present version.
    pub(crate) fn check(&self, id: StateIdOf<Open>) -> Result<&Arc<OpenState<P>>, Error> {
        let open = self.by_counter.get(&id.counter).ok_or(Error::BadStateId)?;
        check_seqid(id.seqid, open.stateid().seqid)?;
        Ok(open)
    }

    pub(crate) fn get(&self, counter: u32) -> Option<&Arc<OpenState<P>>> {
        self.by_counter.get(&counter)
    }

    pub(crate) fn insert(&mut self, open: Arc<OpenState<P>>) {
        let files = self.by_owner.entry(open.owner.clone()).or_default();
        files.insert(open.file.number(), open.key.1);
        self.by_counter.insert(open.key.1, open);
    }

    pub(crate) fn remove(&mut self, open: &OpenState<P>) {
        self.by_counter.remove(&open.key.1);
        if let Some(files) = self.by_owner.get_mut(&open.owner) {
            files.remove(&open.file.number());
            if files.is_empty() {
                self.by_owner.remove(&open.owner);
            }
        }
    }

    pub(crate) fn take_all(&mut self) -> Vec<Arc<OpenState<P>>> {
        self.by_owner.clear();
        self.by_counter.drain().map(|(_, open)| open).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<OpenState<P>>> {
        self.by_counter.values()
    }

    pub(crate) fn has(&self, counter: u32) -> bool {
        self.by_counter.contains_key(&counter)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_counter.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_counter.is_empty()
    }
}

/// Spreads counters. They are ours, one after the other, so that no peer can make them collide.
#[derive(Debug, Default)]
pub(crate) struct CounterHasher(u64);

impl Hasher for CounterHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, counter: u32) {
        // The golden ratio in 64 bits: it brings low bits high, where the table takes its tags from.
        self.0 = (self.0 ^ u64::from(counter)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
