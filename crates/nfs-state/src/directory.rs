//! Who there is: clients and candidates by number and by name. Taken for EXCHANGE_ID, CREATE_SESSION and the end of a
//! client, and to look a session up that the connection does not know; never for an operation on a file.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::client::{Candidate, Channel, Client};
use crate::error::Error;
use crate::exchange::{Known, NameWatch, Seen};
use crate::host::{Holdings, Host, Origin, Totals, What};
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
    /// The same by host, without hosts that have none.
    candidates_of: BTreeMap<Host, BTreeSet<(Millis, u32)>>,
    hosts: BTreeMap<Host, AtHost>,
    totals: Arc<Totals>,
}

/// What there is of one host. Kept for as long as it has clients or candidates.
#[derive(Debug)]
struct AtHost {
    holdings: Arc<Holdings>,
    clients: BTreeSet<u32>,
    /// The last client that was looked at for one to give way.
    looked_at: u32,
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
    /// `csr_back_chan_attrs`, if the server can call.
    pub back: Option<Channel>,
    /// CREATE_SESSION4_FLAG_CONN_BACK_CHAN is in `csr_flags`.
    pub is_bound_back: bool,
}

impl<P> Directory<P> {
    pub(crate) const fn new(epoch: Epoch, totals: Arc<Totals>) -> Self {
        Self {
            epoch,
            next_index: 1,
            entries: BTreeMap::new(),
            names: BTreeMap::new(),
            candidates: BTreeSet::new(),
            candidates_of: BTreeMap::new(),
            hosts: BTreeMap::new(),
            totals,
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

    /// Whether anybody waits for a lock.
    pub(crate) fn has_waiters(&self) -> bool {
        self.totals.has_any(What::Waiter)
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

    /// Notes the verifier that came under a name. The address of the other one, if it is clear now that two machines share
    /// it.
    pub(crate) fn watch(&mut self, owner: &OwnerBytes, seen: Seen, now: Millis) -> Option<IpAddr> {
        self.names.get_mut(owner)?.watch.saw(seen, now)
    }

    /// The addresses of two machines that share a name.
    pub(crate) fn shared_by(&self, owner: &OwnerBytes, now: Millis) -> Option<[IpAddr; 2]> {
        self.names.get(owner)?.watch.shared_by(now)
    }

    /// Whether the host of this candidate may have one more client.
    pub(crate) fn has_room(&self, candidate: &Candidate) -> bool {
        let host = self.hosts.get(&candidate.from.host);
        host.is_some_and(|host| host.holdings.has_room(What::Client))
    }

    /// A client that may go for another one to be confirmed.
    pub(crate) fn who_gives_way(
        &mut self,
        to: ClientId,
        now: Millis,
        lease_ms: u64,
    ) -> Option<ClientId> {
        let Who::Candidate(candidate) = &self.entry(to)?.who else {
            return None;
        };
        let own = candidate.from.host;
        let is_own = self
            .hosts
            .get(&own)
            .is_some_and(|host| !host.clients.is_empty());
        let host = match is_own {
            true => own,
            // All together are too many.
            false => {
                let most = self.hosts.iter().max_by_key(|(_, at)| at.clients.len());
                *most?.0
            }
        };
        let at = self.hosts.get_mut(&host)?;
        let behind = at.clients.range(at.looked_at.saturating_add(1)..);
        let around = behind.chain(at.clients.range(..=at.looked_at));
        let some: Vec<u32> = around
            .copied()
            .take(limits::GIVING_WAY_LOOKED_AT_MAX)
            .collect();
        at.looked_at = some.last().copied().unwrap_or(0);
        let clients = some
            .iter()
            .filter_map(|index| match &self.entries.get(index)?.who {
                Who::Client(client) => Some(client),
                Who::Candidate(_) => None,
            });
        let silent = clients.filter(|client| {
            let ms = client.silent_ms(now);
            let holds_nothing = || !client.inner.read().holds_state();
            ms > lease_ms || (ms >= limits::GIVING_WAY_SILENT_MS_MIN && holds_nothing())
        });
        let longest = silent.max_by_key(|client| client.silent_ms(now));
        longest.map(|client| client.id)
    }

    /// Makes a candidate, in place of an earlier one of its name.
    pub(crate) fn add_candidate(
        &mut self,
        owner: &OwnerBytes,
        verifier: Verifier,
        (principal, from): (&Principal, Origin),
        now: Millis,
    ) -> ClientId {
        if let Some(earlier) = self.names.get(owner).and_then(|name| name.candidate) {
            self.remove(earlier);
        }
        while self.candidates.len() >= limits::UNCONFIRMED_MAX
            && let Some(one) = self.candidate_too_many(from.host)
        {
            self.remove(one);
        }
        let id = self.new_id();
        let candidate = Candidate {
            id,
            owner: owner.clone(),
            verifier,
            principal: principal.clone(),
            from,
            since: now,
        };
        let name = self.names.entry(owner.clone()).or_insert_with(|| Name {
            client: None,
            candidate: None,
            watch: NameWatch::new((verifier, from.address), now),
        });
        name.candidate = Some(id.index);
        self.candidates.insert((now, id.index));
        let of_host = self.candidates_of.entry(from.host).or_default();
        of_host.insert((now, id.index));
        let _there_from_now_on = self.at_host(from.host);
        let creation = Creation::default();
        let who = Who::Candidate(candidate);
        self.entries.insert(id.index, Entry { who, creation });
        id
    }

    fn at_host(&mut self, host: Host) -> &mut AtHost {
        let totals = &self.totals;
        self.hosts.entry(host).or_insert_with(|| AtHost {
            holdings: Arc::new(Holdings::new(Arc::clone(totals))),
            clients: BTreeSet::new(),
            looked_at: 0,
        })
    }

    /// The candidate that goes for one more of this host.
    fn candidate_too_many(&self, host: Host) -> Option<u32> {
        let own = self.candidates_of.get(&host).map_or(0, BTreeSet::len);
        let has_share = own * self.candidates_of.len() >= limits::UNCONFIRMED_MAX;
        let gives_way = match has_share {
            true => self.candidates_of.get(&host)?,
            false => self
                .candidates_of
                .values()
                .max_by_key(|of_host| of_host.len())?,
        };
        gives_way.first().map(|(_, index)| *index)
    }

    /// Makes a client of a candidate. The one that had the name before is to be removed first.
    pub(crate) fn confirm(&mut self, candidate: &Candidate, now: Millis) -> Arc<Client<P>> {
        let (index, from) = (candidate.id.index, candidate.from);
        let at = self.at_host(from.host);
        at.clients.insert(index);
        let client = Arc::new(candidate.clone().confirm(&at.holdings, now));
        self.remove_from_candidates(candidate);
        if let Some(entry) = self.entries.get_mut(&index) {
            entry.who = Who::Client(Arc::clone(&client));
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
        let (owner, host) = match &entry.who {
            Who::Candidate(candidate) => {
                self.remove_from_candidates(candidate);
                (&candidate.owner, candidate.from.host)
            }
            Who::Client(client) => (&client.owner, client.from().host),
        };
        if let Some(at) = self.hosts.get_mut(&host) {
            at.clients.remove(&index);
            if at.clients.is_empty() && !self.candidates_of.contains_key(&host) {
                self.hosts.remove(&host);
            }
        }
        if let Some(name) = self.names.get_mut(owner) {
            name.client = name.client.filter(|client| *client != index);
            name.candidate = name.candidate.filter(|candidate| *candidate != index);
            if name.client.is_none() && name.candidate.is_none() {
                self.names.remove(owner);
            }
        }
    }

    fn remove_from_candidates(&mut self, candidate: &Candidate) {
        let (place, host) = ((candidate.since, candidate.id.index), candidate.from.host);
        self.candidates.remove(&place);
        if let Some(of_host) = self.candidates_of.get_mut(&host) {
            of_host.remove(&place);
            if of_host.is_empty() {
                self.candidates_of.remove(&host);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_anew_without_those_in_use() {
        crate::sync::alone(|| {
            let totals = Arc::new(Totals::new(crate::Bounds::DEFAULT));
            let mut directory: Directory<()> = Directory::new(Epoch(7), totals);
            let from = Origin {
                host: Host(1),
                address: [192, 0, 2, 1].into(),
                minor: 1,
            };
            let principal = Principal::new(b"sys:0").unwrap();
            let add = |directory: &mut Directory<()>, name: &str| {
                let owner = OwnerBytes::new(name.as_bytes()).unwrap();
                let who = (&principal, from);
                directory.add_candidate(&owner, Verifier([1; 8]), who, Millis(0))
            };
            let index = |id: ClientId| id.index;
            assert_eq!(index(add(&mut directory, "one")), 1);
            assert_eq!(index(add(&mut directory, "two")), 2);
            directory.remove(2);
            directory.next_index = limits::CLIENT_INDEX_MAX;
            assert_eq!(index(add(&mut directory, "last")), limits::CLIENT_INDEX_MAX);
            // 1 is in use, 2 was given back.
            assert_eq!(index(add(&mut directory, "again")), 2);
        });
    }
}
