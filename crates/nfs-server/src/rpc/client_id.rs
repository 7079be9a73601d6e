//! Which client a call comes from, where only sameness matters: in wcc_data, which must not tell one
//! client another's change as its own, and in the books of who has to hear of a lost write.
//!
//! A client is an address together with the machine name in the call's AUTH_SYS credential: behind one
//! address there may be many machines (NAT, containers), while the connections of one machine are one
//! client, however many it has. Where nothing tells machines apart (AUTH_NONE; a name that every machine
//! has which was given none), each connection is a client of its own: to take one client for two costs it a
//! cache, to take two for one makes their caches wrong.
//!
//! NFSv4 clients say themselves who they are: such a client is its client id, whatever addresses and connections
//! it uses.
//!
//! The name is the client's own word. It gives no right to anything, and whoever uses another's
//! name can only spoil wcc_data for machines behind its own address.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use nfs_wire::DecodeError;
use nfs_wire::auth::{AUTH_SYS, OpaqueAuth};

use crate::limits;
use crate::operate::call_counters::{CallCounters, Ended};
use crate::rpc::caller::Claimed;
use crate::rpc::line::Line;

/// Stands for one client: an address with a machine name, a connection where nothing tells machines apart, or
/// the client id of NFSv4.
/// Two ids of the same hasher are equal where the clients are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientId(u64);

impl ClientId {
    /// The machine that calls itself `name` at `addr`: the same number for as long as the hasher's keys are
    /// the same. `None` where the name tells no machine from another.
    pub(crate) fn of_machine(hasher: &impl BuildHasher, addr: IpAddr, name: &[u8]) -> Option<Self> {
        let named = !NAMES_OF_NOBODY
            .iter()
            .any(|nobody| name.eq_ignore_ascii_case(nobody));
        named.then(|| Self(hasher.hash_one((Kind::Machine, addr, name))))
    }

    /// The connection with this number, for calls that name no machine.
    pub(crate) fn of_connection(hasher: &impl BuildHasher, connection: u64) -> Self {
        Self(hasher.hash_one((Kind::Connection, connection)))
    }

    /// The NFSv4 client to which the server gave this id.
    pub(crate) fn of_v4(hasher: &impl BuildHasher, clientid: u64) -> Self {
        Self(hasher.hash_one((Kind::V4, clientid)))
    }

    /// The number that stands for the client.
    pub(crate) const fn number(self) -> u64 {
        self.0
    }

    #[cfg(test)]
    pub(crate) const fn of_number(number: u64) -> Self {
        Self(number)
    }
}

/// Keeps what is hashed of the one from looking like what is hashed of the other.
#[derive(Hash)]
enum Kind {
    Machine,
    Connection,
    V4,
}

/// What a host is called that nobody gave a name, Linux's kernel (`(none)`) and clients that could not
/// find theirs out.
const NAMES_OF_NOBODY: [&[u8]; 6] = [
    b"",
    b"(none)",
    b"localhost",
    b"localhost.localdomain",
    b"localhost4",
    b"localhost6",
];

/// Who is at the other end of a connection: tells the client of each of its calls, and remembers the last
/// credential, as most calls that come together carry one and the same.
pub(crate) struct Peer {
    hasher: RandomState,
    addr: IpAddr,
    connection: u64,
    /// Calls of the server to it.
    line: Arc<Line>,
    unnamed: ClientId,
    /// What is to be done when the connection has ended.
    at_end: RefCell<Vec<Box<dyn FnOnce() + Send>>>,
    last: RefCell<Option<Claim>>,
    /// The same of NFSv4's clients.
    last_v4: Cell<Option<(u64, ClientId)>>,
    /// Ids and figures of the exports that this connection used.
    used: RefCell<Vec<(u32, Arc<CallCounters>)>>,
    /// The weight that the rule gives which let the last call in.
    weight: Cell<u32>,
    /// The connection is not read before, for its client's rate.
    resume: Cell<Option<Instant>>,
}

/// What an AUTH_SYS credential with this body says: which client it is of, and the ids.
struct Claim {
    body: Box<[u8]>,
    client: ClientId,
    claimed: Arc<Claimed>,
}

impl Claim {
    fn machine_name(&self) -> &[u8] {
        let credential = OpaqueAuth {
            flavor: AUTH_SYS,
            body: &self.body,
        };
        // It was decoded before it was kept.
        credential
            .auth_sys()
            .map_or(&[][..], |sys| sys.machine_name)
    }
}

impl Peer {
    /// `hasher` is the same for all connections of a server, `connection` a number that no other has.
    pub(crate) fn new(hasher: RandomState, addr: IpAddr, connection: u64) -> Self {
        Self {
            unnamed: ClientId::of_connection(&hasher, connection),
            hasher,
            addr,
            connection,
            line: Line::new(connection),
            at_end: RefCell::default(),
            last: RefCell::default(),
            last_v4: Cell::default(),
            used: RefCell::default(),
            weight: Cell::new(1),
            resume: Cell::default(),
        }
    }

    /// The number of the connection, which no other has.
    pub(crate) const fn connection(&self) -> u64 {
        self.connection
    }

    /// Where the server calls the peer over this connection.
    pub(crate) const fn line(&self) -> &Arc<Line> {
        &self.line
    }

    /// Has something done when the connection has ended and its last call too. For a connection that asks for very much
    /// of that, it is not done.
    pub(crate) fn at_end(&self, what: impl FnOnce() + Send + 'static) {
        let mut at_end = self.at_end.borrow_mut();
        if at_end.len() < limits::ENDINGS_PER_CONNECTION_MAX {
            at_end.push(Box::new(what));
        }
    }

    /// Which client an AUTH_SYS credential is of, and the ids that it claims.
    ///
    /// # Errors
    /// The credential is malformed, as the decoder says.
    pub(crate) fn claim(
        &self,
        credential: &OpaqueAuth<'_>,
    ) -> Result<(ClientId, Arc<Claimed>), DecodeError> {
        let mut last = self.last.borrow_mut();
        if let Some(claim) = &*last
            && *claim.body == *credential.body
        {
            return Ok((claim.client, Arc::clone(&claim.claimed)));
        }
        let sys = credential.auth_sys()?;
        let client = match &*last {
            Some(claim) if claim.machine_name() == sys.machine_name => claim.client,
            _ => {
                let named = ClientId::of_machine(&self.hasher, self.addr, sys.machine_name);
                named.unwrap_or(self.unnamed)
            }
        };
        let claimed = Arc::new(Claimed::new(sys.uid, sys.gid, sys.gids.as_slice()));
        // No longer than a credential lets it be: 400 bytes.
        let body = credential.body.into();
        *last = Some(Claim {
            body,
            client,
            claimed: Arc::clone(&claimed),
        });
        Ok((client, claimed))
    }

    /// The NFSv4 client to which the server gave this id, whatever connection its calls come over.
    pub(crate) fn v4_client(&self, clientid: u64) -> ClientId {
        if let Some((id, client)) = self.last_v4.get()
            && id == clientid
        {
            return client;
        }
        let client = ClientId::of_v4(&self.hasher, clientid);
        self.last_v4.set(Some((clientid, client)));
        client
    }

    /// Whether this connection uses the export with this id for the first time, as far as it remembers: a
    /// connection that uses very many forgets. Its calls are counted in `calls`.
    pub(crate) fn is_new_use(&self, export: u32, calls: &Arc<CallCounters>) -> bool {
        let mut used = self.used.borrow_mut();
        if let Some((_, known)) = used.iter_mut().find(|(id, _)| *id == export) {
            // The export went meanwhile, and came back.
            if !Arc::ptr_eq(known, calls) {
                *known = Arc::clone(calls);
            }
            return false;
        }
        if used.len() >= limits::EXPORTS_PER_CONNECTION_NOTED_MAX {
            used.remove(0);
        }
        used.push((export, Arc::clone(calls)));
        true
    }

    /// Counts a call for the export with this id; false where the connection does not remember it.
    pub(crate) fn count(&self, export: u32, ended: &Ended) -> bool {
        let used = self.used.borrow();
        let calls = used.iter().find(|(id, _)| *id == export);
        calls.map(|(_, calls)| calls.record(ended)).is_some()
    }

    /// How much the client gets beside others.
    pub(crate) fn weight(&self) -> u32 {
        self.weight.get()
    }

    pub(crate) fn set_weight(&self, weight: u32) {
        self.weight.set(weight);
    }

    /// When the connection may be read again, if that is not now.
    pub(crate) fn resume(&self) -> Option<Instant> {
        self.resume.get()
    }

    /// Lets the connection be read only from then on.
    pub(crate) fn pause_until(&self, resume: Instant) {
        self.resume.set(self.resume.get().max(Some(resume)));
    }

    /// A pause that was to end at this time is over.
    pub(crate) fn resumed(&self, resume: Instant) {
        if self.resume.get() == Some(resume) {
            self.resume.set(None);
        }
    }

    /// The client of a call that names no machine.
    pub(crate) const fn unnamed(&self) -> ClientId {
        self.unnamed
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        for end in self.at_end.take() {
            end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use nfs_wire::auth::{AuthSys, GidList};
    use nfs_wire::{Encode, Encoder};

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn claim(
        peer: &Peer,
        machine_name: &[u8],
        (uid, gids): (u32, &[u32]),
    ) -> (ClientId, Arc<Claimed>) {
        let mut body = Vec::new();
        let sys = AuthSys {
            stamp: 7,
            machine_name,
            uid,
            gid: uid,
            gids: GidList::new(gids).unwrap(),
        };
        sys.encode(&mut Encoder::new(&mut body));
        let flavor = AUTH_SYS;
        peer.claim(&OpaqueAuth {
            flavor,
            body: &body,
        })
        .unwrap()
    }

    fn client(peer: &Peer, machine_name: &[u8]) -> ClientId {
        claim(peer, machine_name, (1, &[])).0
    }

    #[test]
    fn a_credential_that_comes_again_says_the_same_and_another_says_its_own() {
        let peer = Peer::new(RandomState::new(), HERE, 1);
        let (machine, first) = claim(&peer, b"a", (1, &[4, 5]));
        let (_, again) = claim(&peer, b"a", (1, &[4, 5]));
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(*first, Claimed::new(1, 1, &[4, 5]));
        for (name, uid, gids) in [
            (b"a", 2, &[4, 5][..]),
            (b"a", 1, &[4]),
            (b"a", 1, &[4, 6]),
            (b"b", 1, &[4, 5]),
        ] {
            let (client, claimed) = claim(&peer, name, (uid, gids));
            assert_eq!(*claimed, Claimed::new(uid, uid, gids));
            assert_eq!(client == machine, name == b"a");
        }
        let cut = OpaqueAuth {
            flavor: AUTH_SYS,
            body: &[0; 7],
        };
        assert!(peer.claim(&cut).is_err());
        assert_eq!(*claim(&peer, b"a", (1, &[4, 5])).1, *first);
    }

    #[test]
    fn a_client_is_an_address_and_a_machine_name() {
        let hasher = RandomState::new();
        let one = Peer::new(hasher.clone(), HERE, 1);
        let same = Peer::new(hasher.clone(), HERE, 2);
        let elsewhere = Peer::new(hasher, THERE, 3);
        assert_eq!(client(&one, b"a"), client(&same, b"a"), "its connections");
        assert_ne!(client(&one, b"a"), client(&one, b"b"));
        assert_eq!(
            client(&one, b"a"),
            client(&same, b"a"),
            "after another name"
        );
        assert_ne!(client(&one, b"a"), client(&elsewhere, b"a"));
        assert_ne!(client(&one, b"a"), one.unnamed());
    }

    #[test]
    fn a_connection_is_a_client_where_no_name_tells_machines_apart() {
        let hasher = RandomState::new();
        let one = Peer::new(hasher.clone(), HERE, 1);
        let other = Peer::new(hasher, HERE, 2);
        assert_ne!(one.unnamed(), other.unnamed());
        for name in [&b""[..], b"(none)", b"localhost", b"LocalHost.localdomain"] {
            assert_eq!(client(&one, name), one.unnamed());
            assert_eq!(client(&other, name), other.unnamed());
        }
    }
}
