//! The state of an NFSv4.1 server: clients, sessions, opens, byte-range locks, leases, grace.
//!
//! No I/O, no clock, no threads, no randomness: time and nonces are arguments, what is to be done outside is a
//! return value, and what has been done outside comes back as a proof. So every history can be run in a test,
//! thousands of times a second.
//!
//! [`State`] is shared by all threads. What depends on an order is a type that is only to be had in that
//! order:
//!
//! | value | made by | says |
//! |---|---|---|
//! | [`Sequenced`] | [`State::begin`] | this request is in its slot, and its client stays; dropped, the slot is free again |
//! | [`NewPermit`] | [`State::permit_new`], [`RecordWrite::on_disk`] | no grace period, nothing left to reclaim, record on the disk |
//! | [`ReclaimPermit`] | [`State::permit_reclaim`] | had state before the restart; the grace period waits for it |
//! | [`Reservation`] | [`State::lock`] | the range is nobody else's; the host is to be asked |
//! | [`HostTurn`] | [`FileState::host_turn`] | nobody else changes the host's lock of this file now |
//! | [`OpenRight`] | [`State::io_right`] | open for this, to this client and principal |
//! | [`Expiring`] | [`State::expire`] | no request of this client is let in; its record is to be removed |
//! | [`GraceEnding`] | [`State::end_grace`] | no reclaim is in progress or begins; old records are to be removed |
//!
//! # A driver, in short
//!
//! ```
//! use std::sync::Arc;
//! use nfs_state::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let channel = Channel { request_bytes_max: 1 << 20, response_bytes_max: 1 << 20,
//! #     cached_bytes_max: 4096, operations_max: 16, slots_max: 64 };
//! # let (disk_says, now) = (Vec::new(), Millis(0));
//! // At the start, with what the disk says: the epoch is one more than the last, and on the disk.
//! let config = Config { lease_ms: 60_000, grace_ms: 60_000, reply_bytes_max: 64 << 20, fore: channel, back: channel,
//!     bounds: Bounds::DEFAULT };
//! let recovered = Recovered { epoch: Epoch(7), records: disk_says };
//! let state: State<&'static str> = State::new(config, recovered, now);
//!
//! // EXCHANGE_ID and CREATE_SESSION.
//! let (owner, root) = (OwnerBytes::new(b"a client")?, Principal::new(b"sys:0")?);
//! let from = Origin { host: Host(1), address: [192, 0, 2, 1].into(), minor: 1 };
//! let asked = ExchangeId { owner: &owner, verifier: Verifier([1; 8]), principal: &root, update: false, from };
//! let exchanged = state.exchange_id(&asked, now)?;
//! let asked = CreateSession { client: exchanged.client, sequence: exchanged.sequence, principal: &root,
//!     fore: channel, back: None, binds_back: false, connection: ConnId(1), nonce: 4711 };
//! let made = state.create_session(&asked, now)?.made;
//!
//! // A COMPOUND. The connection keeps the session.
//! let session = state.session(made.session)?;
//! let call = SequenceCall { slot: 0, sequence: 1, highest_slot: 0, cache_this: true,
//!     digest: Digest(0), connection: None };
//! let Begun::Run(request) = state.begin(&session, &call, now)? else { unreachable!("it is new") };
//!
//! // RECLAIM_COMPLETE, then OPEN: the record is on the disk before anything is granted.
//! assert!(matches!(state.reclaim_complete(&request, now)?, Completion::Done { .. }));
//! let permit = match state.permit_new(&request)? {
//!     Admission::Granted(permit) => permit,
//!     Admission::Record(write) => {
//!         let record = write.record();
//!         let (_key, _value) = (record.owner.as_bytes(), record.encode()); // ... written and synced
//!         write.on_disk()
//!     }
//! };
//! let file = Arc::new(FileState::new()); // hangs from the object
//! let args = OpenArgs { owner: OwnerBytes::new(b"opener")?, principal: root.clone(), file: Arc::clone(&file),
//!     pin: "the object", share: Share::new(Bits::BOTH, Bits::NONE)? };
//! let open = match state.open(&request, Claim::New(&permit), args, now) {
//!     Ok(open) => open,
//!     Err(Refused::Expirable(_client)) => unreachable!("expire it, try again: see State::expire"),
//!     Err(Refused::Status(error)) => return Err(error.into()),
//! };
//!
//! // LOCK: reserve, ask the host, confirm.
//! let lock_owner = OwnerBytes::new(b"locker")?;
//! let args = LockArgs { locker: Locker::New { open: open.stateid().to_wire(), owner: &lock_owner }, file: &file,
//!     range: Range::new(0, 100)?, kind: LockKind::Write, wait: false };
//! if let Ok(reservation) = state.lock(&request, Claim::New(&permit), &args, now) {
//!     if let HostWork::Turn(mut turn) = file.host_turn() {
//!         while let Some(_step) = turn.next_step() { // fcntl(F_OFD_SETLK)
//!             turn.succeeded();
//!         }
//!     }
//!     let (_stateid, _notify) = reservation.confirm(now)?;
//! }
//!
//! // READ or WRITE.
//! let named = StateRef::parse(open.stateid().to_wire())?;
//! let right: IoRight<Write, _> = match state.io_right(&request, &root, named, &file, now) {
//!     Ok(right) => right,
//!     Err(_) => unreachable!("it is open for writing"),
//! };
//! assert!(matches!(right, IoRight::Open(_)));
//! request.finish(b"the reply");
//! # Ok(()) }
//! ```
//!
//! Once a second the driver asks [`State::tick`] what is due.
//!
//! **Locks.** Clients by name and number, then one client, then one file: in this order, one of each, never across a
//! return. Builds with debug assertions check it. The path of a READ or WRITE takes a slot, and one client for
//! reading.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        clippy::too_many_lines
    )
)]

mod client;
mod counters;
mod directory;
mod effects;
mod error;
mod exchange;
mod file;
mod gate;
mod grace;
mod host;
mod id;
#[cfg(test)]
mod interleavings;
pub mod limits;
mod range;
mod rank;
pub mod record;
mod share;
mod slot;
mod state;
mod sync;
mod time;

pub use client::{
    BackChannel, Begun, Callback, CallbackAuth, CallbackEnd, Channel, Client, Direction, Holds,
    OpenState, SequenceCall, SequenceStatus, Sequenced, Session,
};
pub use counters::{Count, Counters};
pub use directory::SessionMade;
pub use effects::{Released, StatusFlags};
pub use error::Error;
pub use file::{FileState, HostTurn, HostWork, LockOwner, Notify, Wait};
pub use grace::{GraceEnding, GraceStatus};
pub use host::{Bounds, Host, Origin};
pub use id::{
    ClientId, ConnId, Deleg, Epoch, Kind, Lock, Open, OwnerBytes, Principal, SessionId, StateId,
    StateIdOf, StateKind, StateRef, Verifier,
};
pub use range::{LockKind, Range, Step};
pub use record::{Record, RecordRemoval};
pub use share::{Bits, Share};
pub use slot::{Digest, Replay};
pub use state::*;
pub use time::Millis;
