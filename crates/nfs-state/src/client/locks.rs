//! The lock stateids of one client: one for each lock-owner and file.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use super::opens::{CounterHasher, OpenState};
use crate::error::Error;
use crate::file::{FileState, LockOwner};
use crate::host::Counted;
use crate::id::{ClientId, Lock, OwnerBytes, StateIdOf, check_seqid, next_seqid};

/// The locks of one owner in one file, under the open that they were first asked for through. Which ranges they are
/// is the file's to know.
#[derive(Debug)]
pub(crate) struct LockState<P> {
    pub(crate) counter: u32,
    pub(crate) owner: OwnerBytes,
    pub(crate) open: Arc<OpenState<P>>,
    seqid: u32,
    _counted: Counted,
}

impl<P> LockState<P> {
    pub(crate) fn stateid(&self) -> StateIdOf<Lock> {
        StateIdOf::new(self.open.client(), self.counter, self.seqid)
    }

    pub(crate) fn lock_owner(&self) -> LockOwner {
        lock_owner(self.open.client(), &self.owner)
    }
}

pub(crate) fn lock_owner(client: ClientId, owner: &OwnerBytes) -> LockOwner {
    LockOwner::V4 {
        client,
        owner: owner.clone(),
    }
}

#[derive(Debug)]
pub(crate) struct Locks<P> {
    by_counter: HashMap<u32, LockState<P>, BuildHasherDefault<CounterHasher>>,
    by_owner: BTreeMap<(OwnerBytes, u64), u32>,
    /// Counters of opens, with those of the locks that were first asked for through them.
    by_open: BTreeSet<(u32, u32)>,
}

impl<P> Default for Locks<P> {
    fn default() -> Self {
        Self {
            by_counter: HashMap::default(),
            by_owner: BTreeMap::new(),
            by_open: BTreeSet::new(),
        }
    }
}

impl<P> Locks<P> {
    /// What a stateid of a request names, in its present version.
    pub(crate) fn check(&self, id: StateIdOf<Lock>) -> Result<&LockState<P>, Error> {
        let state = self.by_counter.get(&id.counter).ok_or(Error::BadStateId)?;
        check_seqid(id.seqid, state.seqid)?;
        Ok(state)
    }

    pub(crate) fn find(&self, owner: &OwnerBytes, file: &FileState) -> Option<&LockState<P>> {
        let counter = self.by_owner.get(&(owner.clone(), file.number()))?;
        self.by_counter.get(counter)
    }

    /// Makes the stateid of a new owner in a file.
    pub(crate) fn insert(
        &mut self,
        counter: u32,
        owner: OwnerBytes,
        open: Arc<OpenState<P>>,
        counted: Counted,
    ) {
        let place = (owner.clone(), open.file().number());
        self.by_owner.insert(place, counter);
        self.by_open.insert((open.key.1, counter));
        let state = LockState {
            counter,
            owner,
            open,
            seqid: 0,
            _counted: counted,
        };
        self.by_counter.insert(counter, state);
    }

    /// Counts a change of the state. The stateid from now on.
    pub(crate) fn changed(&mut self, counter: u32) -> Option<StateIdOf<Lock>> {
        let state = self.by_counter.get_mut(&counter)?;
        state.seqid = next_seqid(state.seqid);
        Some(state.stateid())
    }

    pub(crate) fn remove(&mut self, counter: u32) {
        if let Some(state) = self.by_counter.remove(&counter) {
            let place = (state.owner, state.open.file().number());
            self.by_owner.remove(&place);
            self.by_open.remove(&(state.open.key.1, counter));
        }
    }

    /// Those that were first asked for through `open`.
    pub(crate) fn under(&self, open: &OpenState<P>) -> Vec<u32> {
        let of_open = (open.key.1, 0)..=(open.key.1, u32::MAX);
        self.by_open.range(of_open).map(|(_, lock)| *lock).collect()
    }

    pub(crate) fn get(&self, counter: u32) -> Option<&LockState<P>> {
        self.by_counter.get(&counter)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LockState<P>> {
        self.by_counter.values()
    }

    pub(crate) fn clear(&mut self) {
        self.by_counter.clear();
        self.by_owner.clear();
        self.by_open.clear();
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
