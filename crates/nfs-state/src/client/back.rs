//! The way back of a session: how the server may call the client, over which connections, and what number its next
//! call has.
//!
//! One call is in flight at a time, in one slot. Who gets no answer does not know whether the client has seen the call:
//! the next one then has the same number, and a client that answers that it saw that number before is believed (RFC 8881
//! §2.10.6.2). A client that counts differently costs the slot: the next one is taken, and after
//! [`limits::BACK_SLOTS_MAX`] of them the session has no way back any more, which costs it hints only.

use std::sync::Arc;

use super::session::Channel;
use crate::id::{ConnId, SessionId};
use crate::limits;

/// How the server is to say who it is when it calls (one of `csa_sec_parms`), in the words of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackAuth {
    /// The flavor of the credential.
    pub flavor: u32,
    /// Its body, as the client gave it; the driver bounds its length.
    pub body: Arc<[u8]>,
}

/// The way back to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackChannel {
    /// The program that the client answers to (`csa_cb_program`).
    pub program: u32,
    /// How the server says who it is there.
    pub auth: CallbackAuth,
    /// What was agreed.
    pub channel: Channel,
}

/// What a connection is used for (`channel_dir_from_server4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Calls of the client.
    Fore,
    /// Calls of the server.
    Back,
    /// Both.
    Both,
}

impl Direction {
    const fn has_back(self) -> bool {
        matches!(self, Self::Back | Self::Both)
    }

    const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Fore, Self::Fore) => Self::Fore,
            (Self::Back, Self::Back) => Self::Back,
            _ => Self::Both,
        }
    }
}

/// A call of the server that may be sent now: the only one of its session until [`Session::called_back`](super::Session::called_back)
/// says how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// `csa_sessionid`.
    pub session: SessionId,
    /// `csa_slotid`, which is the highest in use as well.
    pub slot: u32,
    /// `csa_sequenceid`.
    pub sequence: u32,
    /// Where the client answers, and what it takes.
    pub to: BackChannel,
    /// The connection to send it over.
    pub over: ConnId,
}

/// How a call of the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackEnd {
    /// The client carried it out, or refused what stands behind CB_SEQUENCE.
    Done,
    /// The client has seen a call of this number before (NFS4ERR_RETRY_UNCACHED_REP, NFS4ERR_SEQ_FALSE_RETRY).
    SeenBefore,
    /// The client cannot now (NFS4ERR_DELAY); it has not taken the number.
    NotNow,
    /// The client counts differently, or has no such slot.
    OutOfOrder,
    /// The client does not take calls so, and has not looked at the number: another program, another credential, no such
    /// session.
    NotTaken,
    /// The connection is gone, and the call was not sent.
    NotSent,
    /// The connection went while the call was under way.
    Lost,
    /// No answer came in time, or one that is none.
    Unanswered,
}

/// The connections of a session, and its way back.
#[derive(Debug)]
pub(super) struct Paths {
    connections: Vec<(ConnId, Direction)>,
    agreed: Option<BackChannel>,
    /// The slot in use.
    slot: u32,
    /// The last number in it that the client has seen for sure.
    last: u32,
    /// The client may have seen the number behind that.
    unsure: bool,
    in_flight: bool,
    /// A call failed: nobody is called until a connection is bound anew.
    failed: bool,
    /// Some connection was bound for calls of the server.
    was_bound: bool,
}

impl Paths {
    pub(super) const fn new(agreed: Option<BackChannel>) -> Self {
        Self {
            connections: Vec::new(),
            agreed,
            slot: 0,
            last: 0,
            unsure: false,
            in_flight: false,
            failed: false,
            was_bound: false,
        }
    }

    pub(super) const fn agreed(&self) -> Option<&BackChannel> {
        self.agreed.as_ref()
    }

    /// Another program, another credential (BACKCHANNEL_CTL).
    pub(super) fn change(&mut self, program: u32, auth: CallbackAuth) {
        if let Some(agreed) = &mut self.agreed {
            agreed.program = program;
            agreed.auth = auth;
            self.failed = false;
        }
    }

    pub(super) fn bind(&mut self, connection: ConnId, direction: Direction) -> Direction {
        if direction.has_back() {
            self.failed = false;
        }
        let mut known = self.connections.iter_mut();
        if let Some((_, known)) = known.find(|(id, _)| *id == connection) {
            *known = known.and(direction);
            self.was_bound |= direction.has_back();
            return *known;
        }
        if self.connections.len() >= limits::CONNECTIONS_PER_SESSION_MAX {
            return Direction::Fore;
        }
        self.connections.push((connection, direction));
        self.was_bound |= direction.has_back();
        direction
    }

    pub(super) fn unbind(&mut self, connection: ConnId) {
        self.connections.retain(|(id, _)| *id != connection);
    }

    pub(super) fn is_bound(&self, connection: ConnId) -> bool {
        self.connections.iter().any(|(id, _)| *id == connection)
    }

    pub(super) fn back_connections(&self) -> impl Iterator<Item = ConnId> {
        let back = self.connections.iter().filter(|(_, it)| it.has_back());
        back.map(|(id, _)| *id)
    }

    /// Whether there is a way back that was used at some time, and is not there now.
    pub(super) fn is_down(&self) -> bool {
        self.was_bound && self.has_slot() && self.path().is_none()
    }

    /// Whether the client can be called, as far as is known.
    pub(super) fn is_up(&self) -> bool {
        self.has_slot() && self.path().is_some()
    }

    /// The client and the server still agree about some slot.
    fn has_slot(&self) -> bool {
        let slots = self.agreed.as_ref().map_or(0, |it| it.channel.slots_max);
        self.slot < slots.min(limits::BACK_SLOTS_MAX)
    }

    /// The connection to call over: the one that was bound last, as a client that lost one binds another.
    fn path(&self) -> Option<ConnId> {
        match self.failed {
            true => None,
            false => self.back_connections().last(),
        }
    }

    /// Begins a call, if none is in flight and there is a way.
    pub(super) fn begin(&mut self, session: SessionId) -> Option<Callback> {
        if self.in_flight || !self.has_slot() {
            return None;
        }
        let callback = Callback {
            session,
            slot: self.slot,
            // Behind the last number comes 0 (RFC 8881 §2.10.6.1).
            sequence: self.last.wrapping_add(1),
            over: self.path()?,
            to: self.agreed.clone()?,
        };
        self.in_flight = true;
        Some(callback)
    }

    /// Ends the call that is in flight. True if it is worth being made again, now.
    pub(super) fn end(&mut self, callback: &Callback, how: CallbackEnd) -> bool {
        self.in_flight = false;
        let was_unsure = self.unsure;
        match how {
            CallbackEnd::Done => {
                self.last = callback.sequence;
                self.unsure = false;
                false
            }
            CallbackEnd::SeenBefore if was_unsure => {
                self.last = callback.sequence;
                self.unsure = false;
                true
            }
            CallbackEnd::SeenBefore | CallbackEnd::OutOfOrder => {
                (self.slot, self.last, self.unsure) = (self.slot.saturating_add(1), 0, false);
                true
            }
            CallbackEnd::NotNow => false,
            CallbackEnd::NotTaken => {
                self.failed = true;
                false
            }
            CallbackEnd::NotSent => {
                self.unbind(callback.over);
                true
            }
            CallbackEnd::Lost => {
                self.unsure = true;
                self.unbind(callback.over);
                true
            }
            CallbackEnd::Unanswered => {
                (self.unsure, self.failed) = (true, true);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ClientId, Epoch};

    fn session() -> SessionId {
        let (epoch, index) = (Epoch(1), 1);
        SessionId::new(ClientId { epoch, index }, 1, 0)
    }

    fn paths(slots_max: u32) -> Paths {
        let auth = CallbackAuth {
            flavor: 0,
            body: Arc::default(),
        };
        let channel = Channel {
            request_bytes_max: 4096,
            response_bytes_max: 4096,
            cached_bytes_max: 0,
            operations_max: 2,
            slots_max,
        };
        let mut paths = Paths::new(Some(BackChannel {
            program: 1,
            auth,
            channel,
        }));
        assert!(paths.begin(session()).is_none(), "no connection is bound");
        assert!(!paths.is_down(), "none was");
        paths.bind(ConnId(1), Direction::Both);
        paths
    }

    /// Makes a call that ends like this: its slot and number, and whether it is to be made again.
    fn call(paths: &mut Paths, how: CallbackEnd) -> (u32, u32, bool) {
        let callback = paths.begin(session()).expect("there is a way");
        assert!(paths.begin(session()).is_none(), "one at a time");
        let again = paths.end(&callback, how);
        (callback.slot, callback.sequence, again)
    }

    #[test]
    fn each_call_has_the_number_behind_the_last_that_was_seen() {
        let mut paths = paths(1);
        assert_eq!(call(&mut paths, CallbackEnd::Done), (0, 1, false));
        assert_eq!(call(&mut paths, CallbackEnd::NotNow), (0, 2, false));
        assert_eq!(call(&mut paths, CallbackEnd::Done), (0, 2, false));
        paths.last = u32::MAX;
        assert_eq!(call(&mut paths, CallbackEnd::Done), (0, 0, false));
        assert_eq!(call(&mut paths, CallbackEnd::Done), (0, 1, false));
    }

    #[test]
    fn what_was_not_answered_is_numbered_as_before_once_there_is_a_way_again() {
        for how in [CallbackEnd::Done, CallbackEnd::SeenBefore] {
            let mut paths = paths(1);
            assert_eq!(call(&mut paths, CallbackEnd::Done), (0, 1, false));
            assert_eq!(call(&mut paths, CallbackEnd::Unanswered), (0, 2, false));
            assert!(paths.is_down() && paths.begin(session()).is_none());
            paths.bind(ConnId(1), Direction::Both);
            assert!(!paths.is_down());
            let seen = how == CallbackEnd::SeenBefore;
            assert_eq!(call(&mut paths, how), (0, 2, seen));
            assert_eq!(call(&mut paths, CallbackEnd::Done), (0, 3, false));
        }
    }

    #[test]
    fn a_connection_that_went_gives_way_to_another_one() {
        let mut paths = paths(1);
        paths.bind(ConnId(2), Direction::Fore);
        paths.bind(ConnId(3), Direction::Back);
        let callback = paths.begin(session()).expect("there is a way");
        assert_eq!(callback.over, ConnId(3), "the last that was bound");
        assert!(paths.end(&callback, CallbackEnd::Lost));
        let again = paths.begin(session()).expect("there is another way");
        assert_eq!((again.over, again.sequence), (ConnId(1), 1));
        assert!(paths.end(&again, CallbackEnd::NotSent));
        assert!(paths.is_down() && paths.begin(session()).is_none());
        assert!(paths.is_bound(ConnId(2)), "the client calls over that");
    }

    #[test]
    fn a_client_that_counts_differently_loses_slots_and_in_the_end_the_way_back() {
        let mut paths = paths(2);
        assert_eq!(call(&mut paths, CallbackEnd::Done), (0, 1, false));
        assert_eq!(call(&mut paths, CallbackEnd::SeenBefore), (0, 2, true));
        assert_eq!(call(&mut paths, CallbackEnd::OutOfOrder), (1, 1, true));
        assert!(paths.begin(session()).is_none());
        assert!(
            !paths.is_down(),
            "binding it again would change nothing, so that nobody is asked to"
        );
    }

    #[test]
    fn who_does_not_take_calls_is_asked_again_when_it_says_how() {
        let mut paths = paths(1);
        assert_eq!(call(&mut paths, CallbackEnd::NotTaken), (0, 1, false));
        assert!(paths.is_down());
        let auth = CallbackAuth {
            flavor: 1,
            body: vec![7].into(),
        };
        paths.change(2, auth.clone());
        let callback = paths.begin(session()).expect("there is a way");
        assert_eq!((callback.to.program, callback.to.auth), (2, auth));
        assert_eq!(callback.sequence, 1);
    }
}
