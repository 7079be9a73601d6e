//! Names of things: epochs, clients, sessions, stateids. Plain values that anybody may hold; what they
//! name is looked up, and may be gone.
//!
//! Nothing here comes from a clock. The epoch is counted on disk, one more at each start, and is in every
//! name, so that a name of another life of the server is known without a table and is never given
//! out twice.
//!
//! ```text
//! ClientId       epoch:32 | index:32 (28 in use)
//! SessionId      epoch:32 | index:32 | counter:32 | nonce:32
//! stateid.other  epoch:32 | index:28 kind:4 | counter:32
//! ```

use std::marker::PhantomData;
use std::sync::Arc;

use crate::error::Error;
use crate::limits;

/// A life of the server, counted durably: it is on disk before the first answer of that life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

/// A client (`clientid4`): which life of the server, and a number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId {
    /// The life of the server that gave it out.
    pub epoch: Epoch,
    /// The number in that life, below 2^28.
    pub index: u32,
}

impl ClientId {
    /// As it is on the wire.
    #[must_use]
    pub const fn to_wire(self) -> u64 {
        ((self.epoch.0 as u64) << 32) | self.index as u64
    }

    /// What a peer sent. Any value is a name; most name nothing.
    #[must_use]
    pub const fn from_wire(wire: u64) -> Self {
        let bytes = wire.to_be_bytes();
        let [a, b, c, d, e, f, g, h] = bytes;
        Self {
            epoch: Epoch(u32::from_be_bytes([a, b, c, d])),
            index: u32::from_be_bytes([e, f, g, h]),
        }
    }
}

/// A session (`sessionid4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub [u8; 16]);

impl SessionId {
    pub(crate) fn new(client: ClientId, counter: u32, nonce: u32) -> Self {
        let mut bytes = [0; 16];
        let parts = [client.epoch.0, client.index, counter, nonce];
        for (to, part) in bytes.chunks_exact_mut(4).zip(parts) {
            to.copy_from_slice(&part.to_be_bytes());
        }
        Self(bytes)
    }

    /// The client that the session is of, if it is one of ours.
    #[must_use]
    pub fn client(self) -> ClientId {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        ClientId::from_wire(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }
}

/// A connection, as the driver numbers them. A number is never used for a second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// A stateid as it is on the wire (`stateid4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateId {
    /// Counts the changes of the state. 0 means "whatever it is now" (RFC 8881 §8.2.2).
    pub seqid: u32,
    /// Which state.
    pub other: [u8; 12],
}

impl StateId {
    /// Names nothing: what CLOSE answers with (RFC 8881 §8.2.3, §18.2.4).
    pub const INVALID: Self = Self {
        seqid: u32::MAX,
        other: ZEROS,
    };
}

/// A stateid that a request carries: one of the special ones, or the name of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateRef {
    /// All zeros: whoever asks, without an open.
    Anonymous,
    /// All ones: like [`StateRef::Anonymous`], and for READ past share reservations. Nothing but READ takes it.
    ReadBypass,
    /// The current stateid of the COMPOUND; the front puts in what it is.
    Current,
    /// Named a state when it was given out, perhaps.
    Named(StateId),
}

impl StateRef {
    /// What a peer sent. The value that is reserved for "invalid", and any other with a special `other` is
    /// refused with [`Error::BadStateId`] (RFC 8881 §8.2.3).
    pub fn parse(id: StateId) -> Result<Self, Error> {
        match (id.seqid, id.other) {
            (0, ZEROS) => Ok(Self::Anonymous),
            (1, ZEROS) => Ok(Self::Current),
            (u32::MAX, ONES) => Ok(Self::ReadBypass),
            (_, ZEROS | ONES) => Err(Error::BadStateId),
            _ => Ok(Self::Named(id)),
        }
    }
}

const ZEROS: [u8; 12] = [0; 12];
const ONES: [u8; 12] = [0xff; 12];

/// A kind of state, as a type.
pub trait Kind: Copy + std::fmt::Debug {
    /// The same as a value.
    const KIND: StateKind;
}

/// A kind of state, as a value: four bits of a stateid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// An open.
    Open,
    /// The byte-range locks of one owner in one file.
    Lock,
    /// A delegation. None is given out yet; the number is kept.
    Deleg,
}

/// An open, as a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {}
/// The byte-range locks of one owner in one file, as a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {}
/// A delegation, as a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleg {}

impl Kind for Open {
    const KIND: StateKind = StateKind::Open;
}
impl Kind for Lock {
    const KIND: StateKind = StateKind::Lock;
}
impl Kind for Deleg {
    const KIND: StateKind = StateKind::Deleg;
}

impl StateKind {
    const fn bits(self) -> u32 {
        match self {
            Self::Open => 1,
            Self::Lock => 2,
            Self::Deleg => 3,
        }
    }

    const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            1 => Some(Self::Open),
            2 => Some(Self::Lock),
            3 => Some(Self::Deleg),
            _ => None,
        }
    }
}

/// A stateid of which it is known that it is this client's and of this kind. Whether the state is there is
/// another question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateIdOf<K> {
    pub(crate) client: ClientId,
    pub(crate) counter: u32,
    pub(crate) seqid: u32,
    kind: PhantomData<K>,
}

impl<K: Kind> StateIdOf<K> {
    pub(crate) const fn new(client: ClientId, counter: u32, seqid: u32) -> Self {
        Self {
            client,
            counter,
            seqid,
            kind: PhantomData,
        }
    }

    /// As it is on the wire.
    #[must_use]
    pub fn to_wire(self) -> StateId {
        let place = (self.client.index << 4) | K::KIND.bits();
        let mut other = [0; 12];
        let parts = [self.client.epoch.0, place, self.counter];
        for (to, part) in other.chunks_exact_mut(4).zip(parts) {
            to.copy_from_slice(&part.to_be_bytes());
        }
        StateId {
            seqid: self.seqid,
            other,
        }
    }

    /// [`Error::BadStateId`] unless `id` is of this kind and of `client`. One of another life of the server is
    /// no better: with sessions, a client learns of a restart from its session (RFC 8881 §8.4.2.1).
    pub(crate) fn of(id: StateId, client: ClientId) -> Result<Self, Error> {
        match id.kind_for(client) {
            Some((kind, counter)) if kind == K::KIND => Ok(Self::new(client, counter, id.seqid)),
            _ => Err(Error::BadStateId),
        }
    }
}

impl StateId {
    /// Kind and counter, if it was given to `client`.
    pub(crate) fn kind_for(self, client: ClientId) -> Option<(StateKind, u32)> {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.other;
        let epoch = Epoch(u32::from_be_bytes([a, b, c, d]));
        let place = u32::from_be_bytes([e, f, g, h]);
        let index = place >> 4;
        let ours = ClientId { epoch, index } == client;
        let kind = StateKind::from_bits(place & 0xf)?;
        ours.then_some((kind, u32::from_be_bytes([i, j, k, l])))
    }
}

/// Holds `seqid` of a request against that of the state: 0 is whatever it is now, a lower one is
/// [`Error::OldStateId`], one that was never given out [`Error::BadStateId`] (RFC 8881 §8.2.2). It wraps past
/// 0, so that "lower" is within half the circle.
pub(crate) const fn check_seqid(asked: u32, current: u32) -> Result<(), Error> {
    match current.wrapping_sub(asked) {
        _ if asked == 0 => Ok(()),
        0 => Ok(()),
        behind if behind < u32::MAX / 2 => Err(Error::OldStateId),
        _ => Err(Error::BadStateId),
    }
}

/// The seqid after `seqid`: never 0, which means something else.
pub(crate) const fn next_seqid(seqid: u32) -> u32 {
    match seqid.wrapping_add(1) {
        0 => 1,
        next => next,
    }
}

/// Bytes by which a peer names an owner: a client (`co_ownerid`), an opener or a locker. At most
/// [`limits::OWNER_BYTES_MAX`]; shared, not copied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerBytes(Arc<[u8]>);

impl OwnerBytes {
    /// [`Error::Inval`] for more than [`limits::OWNER_BYTES_MAX`] bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > limits::OWNER_BYTES_MAX {
            return Err(Error::Inval);
        }
        Ok(Self(bytes.into()))
    }

    /// The bytes that the client chose for its owner.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Who a request comes from, as far as it matters whether two requests are the same one's: the driver
/// puts flavour and user, or a name, into bytes. At most [`limits::PRINCIPAL_BYTES_MAX`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(Arc<[u8]>);

impl Principal {
    /// [`Error::Inval`] for more than [`limits::PRINCIPAL_BYTES_MAX`] bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > limits::PRINCIPAL_BYTES_MAX {
            return Err(Error::Inval);
        }
        Ok(Self(bytes.into()))
    }

    /// The bytes that the driver made of flavour and user.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What a client chose anew at its last start (`co_verifier`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verifier(pub [u8; 8]);

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientId = ClientId {
        epoch: Epoch(7),
        index: 0x0abc_def1,
    };

    #[test]
    fn names_survive_the_wire() {
        assert_eq!(ClientId::from_wire(CLIENT.to_wire()), CLIENT);
        assert_eq!(SessionId::new(CLIENT, 3, 9).client(), CLIENT);
        let lock = StateIdOf::<Lock>::new(CLIENT, 0xdead_beef, 5);
        assert_eq!(StateIdOf::<Lock>::of(lock.to_wire(), CLIENT), Ok(lock));
    }

    #[test]
    fn a_stateid_of_another_kind_client_or_life_is_bad() {
        let wire = StateIdOf::<Lock>::new(CLIENT, 1, 1).to_wire();
        let bad = Err(Error::BadStateId);
        assert_eq!(StateIdOf::<Open>::of(wire, CLIENT), bad);
        let (mut other, mut life) = (CLIENT, CLIENT);
        other.index += 1;
        life.epoch = Epoch(8);
        for client in [other, life] {
            assert_eq!(StateIdOf::<Lock>::of(wire, client), Err(Error::BadStateId));
        }
    }

    #[test]
    fn special_stateids_are_told_from_names() {
        let parse = |seqid, byte| {
            StateRef::parse(StateId {
                seqid,
                other: [byte; 12],
            })
        };
        assert_eq!(parse(0, 0), Ok(StateRef::Anonymous));
        assert_eq!(parse(1, 0), Ok(StateRef::Current));
        assert_eq!(parse(u32::MAX, 0xff), Ok(StateRef::ReadBypass));
        for (seqid, byte) in [(2, 0), (u32::MAX, 0), (0, 0xff), (1, 0xff)] {
            assert_eq!(parse(seqid, byte), Err(Error::BadStateId));
        }
        assert!(matches!(parse(0, 1), Ok(StateRef::Named(_))));
    }

    #[test]
    fn seqids_are_old_current_or_from_nowhere() {
        for (asked, current, expected) in [
            (0, 9, Ok(())),
            (9, 9, Ok(())),
            (8, 9, Err(Error::OldStateId)),
            (10, 9, Err(Error::BadStateId)),
            (u32::MAX, 1, Err(Error::OldStateId)),
            (1, u32::MAX, Err(Error::BadStateId)),
        ] {
            assert_eq!(
                check_seqid(asked, current),
                expected,
                "{asked} of {current}"
            );
        }
        assert_eq!(next_seqid(u32::MAX), 1);
    }
}
