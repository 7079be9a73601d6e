//! Who there is: clients and candidates by number and by name. Taken for EXCHANGE_ID, CREATE_SESSION and the end of a
//! client, and to look a session up that the connection does not know; never for an operation on a file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::client::{Candidate, Channel, Client};
use crate::error::Error;
use crate::exchange::{Known, NameWatch};
use crate::id::{ClientId, Epoch, OwnerBytes, Principal, SessionId, Verifier};
use crate::limits;
use crate::time::Millis;

#[derive(Debug)]
pub(crate) struct Directory<P> {
    epoch: Epoch,
    next_index: u32,
    entries: BTreeMap<u32, Entry<P>>,
    names: BTreeMap<OwnerBytes, Name>,
    /// The candidates, the one that was asked for longest ago first.
    candidates: BTreeSet<(Millis, u32)>,
    clients: usize,
}

#[derive(Debug)]
pub(crate) struct Entry<P> {
    pub(crate) who: Who<P>,
    pub(crate) creation: Creation,
}

#[derive(Debug)]
pub(crate) enum Who<P> {
    Candidate(Candidate),
    Client(Arc<Client<P>>),
}

/// What goes by one name.
#[derive(Debug)]
struct Name {
    client: Option<u32>,
    candidate: Option<u32>,
    watch: NameWatch,
}

/// The one-entry reply cache of CREATE_SESSION (RFC 8881 §2.10.6.1.3.1). It is read and written while the directory is
/// locked, as the session is made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Creation {
    pub(crate) sequence: u32,
    pub(crate) reply: Option<Result<SessionMade, Error>>,
}

/// The results of CREATE_SESSION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionMade {
    /// `csr_sessionid`.
    pub session: SessionId,
    /// `csr_sequence`: that of the request.
    pub sequence: u32,
    /// `csr_fore_chan_attrs`.
    pub fore: Channel,
    /// `csr_back_chan_attrs`, and whether CREATE_SESSION4_FLAG_CONN_BACK_CHAN is in `csr_flags`.
    pub back: Option<Channel>,
}

impl<P> Directory<P> {
    pub(crate) const fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            next_index: 1,
            entries: BTreeMap::new(),
            names: BTreeMap::new(),
            candidates: BTreeSet::new(),
            clients: 0,
        }
    }

    pub(crate) fn client(&self, id: ClientId) -> Option<&Arc<Client<P>>> {
        match &self.entry(id)?.who {
            Who::Client(client) => Some(client),
            Who::Candidate(_) => None,
        }
    }

    pub(crate) fn clients(&self) -> impl Iterator<Item = &Arc<Client<P>>> {
        self.entries.values().filter_map(|entry| match &entry.who {
            Who::Client(client) => Some(client),
            Who::Candidate(_) => None,
        })
    }

    pub(crate) const fn client_count(&self) -> usize {
        self.clients
    }

    pub(crate) fn candidate_count(&self) -> usize {
        self.candidates.len()
    }

    pub(crate) fn entry(&self, id: ClientId) -> Option<&Entry<P>> {
        let ours = id.epoch == self.epoch;
        ours.then(|| self.entries.get(&id.index)).flatten()
    }

    pub(crate) fn entry_mut(&mut self, id: ClientId) -> Option<&mut Entry<P>> {
        let ours = id.epoch == self.epoch;
        ours.then(|| self.entries.get_mut(&id.index)).flatten()
    }

    /// The confirmed client of a name.
    pub(crate) fn named(&self, owner: &OwnerBytes) -> Option<&Arc<Client<P>>> {
        let index = self.names.get(owner)?.client?;
        match &self.entries.get(&index)?.who {
            Who::Client(client) => Some(client),
            Who::Candidate(_) => None,
        }
    }

    /// What is known about a name, as EXCHANGE_ID asks.
    pub(crate) fn known(
        &self,
        owner: &OwnerBytes,
        verifier: Verifier,
        principal: &Principal,
        is_alive: impl FnOnce(&Client<P>) -> bool,
    ) -> Known {
        match (self.named(owner), self.names.get(owner)) {
            (Some(client), _) => Known::Confirmed {
                same_verifier: client.verifier == verifier,
                same_principal: client.principal == *principal,
                is_alive: is_alive(client),
            },
            (
                None,
                Some(Name {
                    candidate: Some(_), ..
                }),
            ) => Known::Candidate,
            (None, _) => Known::Nothing,
        }
    }

    /// Notes the verifier that came under a name. Whether it is clear now that two machines share it.
    pub(crate) fn watch(&mut self, owner: &OwnerBytes, verifier: Verifier, now: Millis) -> bool {
        let name = self.names.get_mut(owner);
        name.is_some_and(|name| name.watch.saw(verifier, now))
    }

    /// Makes a candidate, in place of an earlier one of its name.
    pub(crate) fn add_candidate(
        &mut self,
        owner: &OwnerBytes,
        verifier: Verifier,
        principal: &Principal,
        now: Millis,
    ) -> ClientId {
        if let Some(earlier) = self.names.get(owner).and_then(|name| name.candidate) {
            self.remove(earlier);
        }
        while self.candidates.len() >= limits::UNCONFIRMED_MAX
            && let Some((_, oldest)) = self.candidates.first().copied()
        {
            self.remove(oldest);
        }
        let id = self.new_id();
        let candidate = Candidate {
            id,
            owner: owner.clone(),
            verifier,
            principal: principal.clone(),
            since: now,
        };
        let name = self.names.entry(owner.clone()).or_insert_with(|| Name {
            client: None,
            candidate: None,
            watch: NameWatch::new(verifier, now),
        });
        name.candidate = Some(id.index);
        self.candidates.insert((now, id.index));
        let creation = Creation::default();
        let who = Who::Candidate(candidate);
        self.entries.insert(id.index, Entry { who, creation });
        id
    }

    /// Makes a client of a candidate. The one that had the name before is to be removed first.
    pub(crate) fn confirm(&mut self, candidate: &Candidate, now: Millis) -> Arc<Client<P>> {
        let client = Arc::new(candidate.clone().confirm(now));
        self.candidates
            .remove(&(candidate.since, candidate.id.index));
        if let Some(entry) = self.entries.get_mut(&candidate.id.index) {
            entry.who = Who::Client(Arc::clone(&client));
            self.clients += 1;
        }
        if let Some(name) = self.names.get_mut(&candidate.owner) {
            name.candidate = None;
            name.client = Some(candidate.id.index);
        }
        client
    }

    /// Forgets a client or candidate. What it holds is the caller's to release.
    pub(crate) fn remove(&mut self, index: u32) {
        let Some(entry) = self.entries.remove(&index) else {
            return;
        };
        let owner = match &entry.who {
            Who::Candidate(candidate) => {
                self.candidates.remove(&(candidate.since, index));
                &candidate.owner
            }
            Who::Client(client) => {
                self.clients -= 1;
                &client.owner
            }
        };
        if let Some(name) = self.names.get_mut(owner) {
            name.client = name.client.filter(|client| *client != index);
            name.candidate = name.candidate.filter(|candidate| *candidate != index);
            if name.client.is_none() && name.candidate.is_none() {
                self.names.remove(owner);
            }
        }
    }

    /// Forgets candidates that did not confirm within `ms`.
    pub(crate) fn drop_candidates(&mut self, now: Millis, ms: u64) {
        while let Some((since, index)) = self.candidates.first().copied()
            && now.since(since) > ms
        {
            self.remove(index);
        }
    }

    fn new_id(&mut self) -> ClientId {
        loop {
            let index = self.next_index;
            self.next_index = if index >= limits::CLIENT_INDEX_MAX {
                1
            } else {
                index + 1
            };
            if !self.entries.contains_key(&index) {
                let epoch = self.epoch;
                return ClientId { epoch, index };
            }
        }
    }
}
