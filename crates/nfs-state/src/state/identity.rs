//! EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION, DESTROY_CLIENTID: who is there, and how it comes and goes.

use core::net::IpAddr;
use std::sync::Arc;

use super::State;
use crate::client::{BackChannel, Channel, Client, Direction, Sequenced, Session, SessionParts};
use crate::counters::Count;
use crate::directory::{Creation, Directory, SessionMade, Who};
use crate::effects::Released;
use crate::error::Error;
use crate::exchange::Case;
use crate::host::{Origin, What};
use crate::id::{ClientId, ConnId, OwnerBytes, Principal, SessionId, Verifier};
use crate::limits;
use crate::record::RecordRemoval;
use crate::time::Millis;

/// The arguments of EXCHANGE_ID that are the state's.
#[derive(Clone, Debug)]
pub struct ExchangeId<'a> {
    /// `co_ownerid`.
    pub owner: &'a OwnerBytes,
    /// `co_verifier`.
    pub verifier: Verifier,
    /// Who sent it.
    pub principal: &'a Principal,
    /// EXCHGID4_FLAG_UPD_CONFIRMED_REC_A.
    pub update: bool,
    /// Where it came from.
    pub from: Origin,
}

/// The results of EXCHANGE_ID that are the state's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// `eir_clientid`.
    pub client: ClientId,
    /// `eir_sequenceid`: that of the CREATE_SESSION to come.
    pub sequence: u32,
    /// EXCHGID4_FLAG_CONFIRMED_R.
    pub is_confirmed: bool,
    /// Two machines take turns under this name and throw each other out: the address of the other one. Told once a
    /// minute; the cure is a name of its own for each (`nfs4_unique_id` of Linux's nfs module).
    pub shared_with: Option<IpAddr>,
}

/// The arguments of CREATE_SESSION, and what the driver adds.
#[derive(Clone, Debug)]
pub struct CreateSession<'a> {
    /// `csa_clientid`.
    pub client: ClientId,
    /// `csa_sequence`.
    pub sequence: u32,
    /// Who sent it.
    pub principal: &'a Principal,
    /// `csa_fore_chan_attrs`.
    pub fore: Channel,
    /// `csa_back_chan_attrs`, `csa_cb_program` and one of `csa_sec_parms`, if the server can call so.
    pub back: Option<BackChannel>,
    /// The connection is for calls of the server, too (CREATE_SESSION4_FLAG_CONN_BACK_CHAN). Of no effect without `back`.
    pub binds_back: bool,
    /// The connection it came over: it is bound.
    pub connection: ConnId,
    /// Bits that nobody can guess, for the session's name.
    pub nonce: u32,
}

/// What CREATE_SESSION made.
#[derive(Debug)]
pub struct Created<P> {
    /// The results.
    pub made: SessionMade,
    /// The session, unless this was a retry.
    pub session: Option<Arc<Session<P>>>,
    /// What an earlier life of the client held.
    pub released: Released<P>,
}

impl<P> State<P> {
    /// EXCHANGE_ID, all nine cases (RFC 8881 §18.35.4): [`Error::ClidInUse`], [`Error::NoEnt`], [`Error::NotSame`],
    /// [`Error::Perm`].
    pub fn exchange_id(&self, asked: &ExchangeId<'_>, now: Millis) -> Result<Exchanged, Error> {
        let mut directory = self.directory.write();
        directory.drop_candidates(now, self.config.lease_ms);
        let lease_ms = self.config.lease_ms;
        let is_alive = |client: &Client<P>| {
            !client.lease_is_over(now, lease_ms) && client.inner.read().holds_state()
        };
        let known = directory.known(asked.owner, asked.verifier, asked.principal, is_alive);
        match Case::of(known, asked.update) {
            Case::NewOwner | Case::ReplaceCandidate | Case::ClientRestart => {
                Ok(self.new_candidate(&mut directory, asked, now))
            }
            Case::CollisionWithNobody => {
                self.make_way(&mut directory, asked.owner)?;
                Ok(self.new_candidate(&mut directory, asked, now))
            }
            Case::ExistingClient | Case::Update => {
                let client = directory.named(asked.owner).ok_or(Error::NoEnt)?.id;
                let entry = directory.entry(client).ok_or(Error::NoEnt)?;
                Ok(Exchanged {
                    client,
                    sequence: entry.creation.sequence.wrapping_add(1),
                    is_confirmed: true,
                    shared_with: None,
                })
            }
            Case::Collision => Err(Error::ClidInUse),
            Case::UpdateOfNothing => Err(Error::NoEnt),
            Case::UpdateByAnotherLife => Err(Error::NotSame),
            Case::UpdateByAnotherPrincipal => Err(Error::Perm),
        }
    }

    fn new_candidate(
        &self,
        directory: &mut Directory<P>,
        asked: &ExchangeId<'_>,
        now: Millis,
    ) -> Exchanged {
        let seen = (asked.verifier, asked.from.address);
        let shared_with = directory.watch(asked.owner, seen, now);
        if shared_with.is_some() {
            self.counters.add(Count::SharedNames);
        }
        let client = directory.add_candidate(
            asked.owner,
            asked.verifier,
            (asked.principal, asked.from),
            now,
        );
        Exchanged {
            client,
            sequence: 1,
            is_confirmed: false,
            shared_with,
        }
    }

    /// Removes a client that holds nothing, for another principal of the same name.
    fn make_way(&self, directory: &mut Directory<P>, owner: &OwnerBytes) -> Result<(), Error> {
        let Some(client) = directory.named(owner).cloned() else {
            return Ok(());
        };
        if client.inner.read().holds_state() || !client.gate.close_if_empty() {
            return Err(Error::ClidInUse);
        }
        client.gate.seal();
        directory.remove(client.id.index);
        client.end_sessions();
        Ok(())
    }

    /// CREATE_SESSION, and with the first of a client its confirmation: what an earlier life of it held is released
    /// (RFC 8881 §18.36.4). [`Error::StaleClientId`], [`Error::SeqMisordered`], [`Error::ClidInUse`],
    /// [`Error::TooSmall`]; [`Error::Delay`] and [`Error::Resource`] leave the sequence unused.
    pub fn create_session(
        &self,
        asked: &CreateSession<'_>,
        now: Millis,
    ) -> Result<Created<P>, Error> {
        let mut directory = self.directory.write();
        let entry = directory.entry(asked.client).ok_or(Error::StaleClientId)?;
        let last = entry.creation.sequence;
        if asked.sequence == last
            && let Some(reply) = &entry.creation.reply
        {
            self.counters.add(Count::Replayed);
            return reply.map(Created::again);
        }
        if asked.sequence != last.wrapping_add(1) {
            return Err(Error::SeqMisordered);
        }
        let result = self.make_session(&mut directory, asked, now);
        let reply = match &result {
            Err(Error::Delay | Error::Resource) => return result,
            Err(error) => Err(*error),
            Ok(created) => Ok(created.made),
        };
        if let Some(entry) = directory.entry_mut(asked.client) {
            entry.creation = Creation {
                sequence: asked.sequence,
                reply: Some(reply),
            };
        }
        result
    }

    fn make_session(
        &self,
        directory: &mut Directory<P>,
        asked: &CreateSession<'_>,
        now: Millis,
    ) -> Result<Created<P>, Error> {
        let fore = asked.fore.agreed(self.config.fore)?;
        let back = match &asked.back {
            Some(back) => Some(BackChannel {
                channel: back.channel.agreed(self.config.back)?,
                ..back.clone()
            }),
            None => None,
        };
        let back_agreed = back.as_ref().map(|back| back.channel);
        let (client, released) = self.confirmed(directory, asked, now)?;
        let mut inner = client.inner.write();
        if inner.sessions.len() >= limits::SESSIONS_PER_CLIENT_MAX {
            return Err(self.over_limit(Count::SessionsFull));
        }
        let Some(counted) = client.holdings.take(What::Session) else {
            return Err(self.over_limit(Count::SessionsFull));
        };
        let id = SessionId::new(client.id, inner.next_session, asked.nonce);
        inner.next_session = inner.next_session.wrapping_add(1);
        let session = Arc::new(Session::new(SessionParts {
            id,
            client_id: client.id,
            client: Arc::downgrade(&client),
            channel: fore,
            back,
            budget: Arc::clone(&self.budget),
            holdings: Arc::clone(&client.holdings),
            counted,
        }));
        let is_bound_back = asked.binds_back && back_agreed.is_some();
        let direction = if is_bound_back {
            Direction::Both
        } else {
            Direction::Fore
        };
        session.bind(asked.connection, direction);
        inner.sessions.push(Arc::clone(&session));
        drop(inner);
        client.renewed.advance(now);
        Ok(Created {
            made: SessionMade {
                session: id,
                sequence: asked.sequence,
                fore,
                back: back_agreed,
                is_bound_back,
            },
            session: Some(session),
            released,
        })
    }

    /// The client that a session is made for, confirmed now if it was not.
    fn confirmed(
        &self,
        directory: &mut Directory<P>,
        asked: &CreateSession<'_>,
        now: Millis,
    ) -> Result<(Arc<Client<P>>, Released<P>), Error> {
        let entry = directory.entry(asked.client).ok_or(Error::StaleClientId)?;
        let candidate = match &entry.who {
            // Any principal may make further sessions of a confirmed client (RFC 8881 §18.36.3, SP4_NONE).
            Who::Client(client) if client.gate.is_open() => {
                return Ok((Arc::clone(client), Released::default()));
            }
            Who::Client(_) => return Err(Error::Delay),
            Who::Candidate(candidate) => candidate.clone(),
        };
        if candidate.principal != *asked.principal {
            return Err(Error::ClidInUse);
        }
        let earlier = directory.named(&candidate.owner).cloned();
        let mut released = Released::default();
        match earlier {
            Some(earlier) => {
                if !earlier.gate.close_if_empty() {
                    return Err(Error::Delay);
                }
                earlier.gate.seal();
                directory.remove(earlier.id.index);
                released = earlier.release_all(now);
                self.counters.add(Count::Replaced);
            }
            None if !directory.has_room(&candidate) => {
                return Err(self.over_limit(Count::SessionsFull));
            }
            None => {}
        }
        Ok((directory.confirm(&candidate, now), released))
    }

    /// Whom to expire ([`Why::Room`](super::Why::Room)), for a client to be confirmed for which CREATE_SESSION found no
    /// room: another client of its host, or, where all together are too many, of the host that has most. One whose lease
    /// is over, else one that holds nothing and is silent. A few are looked at, each time the next ones.
    pub fn who_gives_way(&self, to: ClientId, now: Millis) -> Option<ClientId> {
        let mut directory = self.directory.write();
        directory.who_gives_way(to, now, self.config.lease_ms)
    }

    /// DESTROY_SESSION. `by` is the request it is part of, if it began with SEQUENCE. [`Error::BadSession`];
    /// [`Error::WrongCred`] for another principal than the client's; [`Error::Delay`] while other requests of the
    /// session are in progress.
    pub fn destroy_session(
        &self,
        id: SessionId,
        by: Option<&Sequenced<P>>,
        principal: &Principal,
    ) -> Result<(), Error> {
        let client = self.client(id.client()).ok_or(Error::BadSession)?;
        let mut inner = client.inner.write();
        let at = inner.sessions.iter().position(|s| s.id() == id);
        let at = at.ok_or(Error::BadSession)?;
        if client.principal != *principal {
            return Err(Error::WrongCred);
        }
        let own = by.is_some_and(|by| by.session().id() == id);
        let session = inner.sessions.get(at).ok_or(Error::BadSession)?;
        if !session.close(own) {
            return Err(Error::Delay);
        }
        inner.sessions.swap_remove(at);
        Ok(())
    }

    /// DESTROY_CLIENTID. The record to be removed, if there is one; that need not have happened before the reply.
    /// [`Error::StaleClientId`]; [`Error::ClientIdBusy`] with sessions or state; [`Error::WrongCred`].
    pub fn destroy_client_id(
        &self,
        id: ClientId,
        principal: &Principal,
    ) -> Result<Option<RecordRemoval>, Error> {
        let mut directory = self.directory.write();
        let entry = directory.entry(id).ok_or(Error::StaleClientId)?;
        let removal = match &entry.who {
            Who::Candidate(candidate) if candidate.principal != *principal => {
                return Err(Error::WrongCred);
            }
            Who::Candidate(_) => None,
            Who::Client(client) => {
                if client.principal != *principal {
                    return Err(Error::WrongCred);
                }
                let inner = client.inner.write();
                let busy = !inner.sessions.is_empty() || inner.holds_state();
                if busy || !client.gate.close_if_empty() {
                    return Err(Error::ClientIdBusy);
                }
                client.gate.seal();
                client.removal()
            }
        };
        directory.remove(id.index);
        Ok(removal)
    }
}

impl<P> Created<P> {
    fn again(made: SessionMade) -> Self {
        Self {
            made,
            session: None,
            released: Released::default(),
        }
    }
}
