//! One COMPOUND under way: where it is, what it holds, and what its operations share.
//!
//! It lives for one call and belongs to nobody else. It has a current and a saved object, each found once
//! ([`Place`]) and with its stateid (RFC 8881 §16.2.3.1); the session that it came in; and the memory that its reply
//! takes.

use std::time::Duration;

use nfs_io::{FileData, Reservation, Share};
use nfs_wire::nfs4::ops::RESOP_LEN_MIN;
use nfs_wire::nfs4::{ArgOp, MinorVersion, Needs, Nfsstat4, Stateid4};
use nfs_wire::xdr::padding;
use nfs_wire::{Encode, Encoder};
use smallvec::SmallVec;

use super::place::Place;
use super::session::InSession;
use super::status::status;
use crate::front::context::Context;
use crate::limits;
use crate::rpc::reply::Draft;
use crate::vfs::Payload;

/// How an operation ended. What it has to tell beside its status it has appended to the reply.
pub(super) type Done = Result<(), Nfsstat4>;

/// One COMPOUND, between its operations.
pub(super) struct Compound<'c> {
    pub(super) cx: &'c Context,
    pub(super) minor: MinorVersion,
    /// The session that it came in; none of those operations that make one.
    pub(super) session: Option<InSession>,
    current: At,
    saved: At,
    /// Bytes that the result of the operation under way may have, its number and status included.
    room: usize,
    /// Where an operation puts what its result has beside its status; kept for the next one.
    scratch: Vec<u8>,
    /// The data of a WRITE that was received apart from the record.
    pub(super) apart: Option<Payload>,
    /// Data to be sent among what the operation has appended, in order: each behind so many bytes of that.
    data: SmallVec<[(usize, FileData, Share); 1]>,
    /// The record is so long that it holds memory of the budget.
    pub(super) holds_record: bool,
    /// An operation of it was told to those who record.
    pub(super) has_recorded: bool,
    /// Results of earlier operations hold memory of the budget for replies.
    holds_memory: bool,
    /// Memory that the reply holds until it is sent.
    held: Vec<(Reservation, Share)>,
}

/// An object with the state that operations on it go by.
#[derive(Clone, Default)]
struct At {
    place: Option<Place>,
    stateid: Stateid4,
}

impl<'c> Compound<'c> {
    pub(super) fn new(
        cx: &'c Context,
        minor: MinorVersion,
        session: Option<InSession>,
        apart: Option<Payload>,
    ) -> Self {
        Self {
            cx,
            minor,
            session,
            current: At::default(),
            saved: At::default(),
            room: 0,
            scratch: Vec::with_capacity(limits::OPERATION_RESULT_BYTES_AT_FIRST),
            apart,
            data: SmallVec::new(),
            holds_record: false,
            has_recorded: false,
            holds_memory: false,
            held: Vec::new(),
        }
    }

    /// Whether an operation has the handles that it needs.
    ///
    /// # Errors
    /// NFS4ERR_NOFILEHANDLE.
    pub(super) fn may_begin(&self, op: &ArgOp<'_>) -> Done {
        match op.opnum().needs() {
            Needs::Nothing => Ok(()),
            Needs::Current => self.current().map(drop),
            Needs::Saved => self.saved().map(drop),
            Needs::Both => self.current().and(self.saved()).map(drop),
        }
    }

    /// The result of an operation begins, which may have so many bytes.
    pub(super) const fn begin_result(&mut self, room: usize) {
        self.room = room;
    }

    /// An empty vector for what a result has beside its status.
    pub(super) fn take_scratch(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.scratch)
    }

    pub(super) fn give_back_scratch(&mut self, mut scratch: Vec<u8>) {
        scratch.clear();
        self.scratch = scratch;
    }

    /// # Errors
    /// NFS4ERR_NOFILEHANDLE.
    pub(super) fn current(&self) -> Result<&Place, Nfsstat4> {
        self.current.place.as_ref().ok_or(Nfsstat4::Nofilehandle)
    }

    /// # Errors
    /// NFS4ERR_NOFILEHANDLE.
    pub(super) fn saved(&self) -> Result<&Place, Nfsstat4> {
        self.saved.place.as_ref().ok_or(Nfsstat4::Nofilehandle)
    }

    /// Another object is the current one, of which there is no state yet.
    pub(super) fn go_to(&mut self, place: Place) {
        self.current = At {
            place: Some(place),
            stateid: Stateid4::ANONYMOUS,
        };
    }

    /// There is no current object any more.
    pub(super) fn leave(&mut self) {
        self.current = At::default();
    }

    pub(super) fn save(&mut self) -> Done {
        self.current()?;
        self.saved = self.current.clone();
        Ok(())
    }

    pub(super) fn restore(&mut self) -> Done {
        self.saved()?;
        self.current = self.saved.clone();
        Ok(())
    }

    /// The state that the last operation gave, to which the special stateid "current" refers from now on.
    pub(super) fn set_stateid(&mut self, stateid: Stateid4) {
        self.current.stateid = stateid;
    }

    /// The state that "current" refers to.
    pub(super) const fn stateid(&self) -> Stateid4 {
        self.current.stateid
    }

    /// Bytes that the result under way may still have beside its status and `out`.
    pub(super) const fn room(&self, out: &[u8]) -> usize {
        self.room.saturating_sub(RESOP_LEN_MIN + out.len())
    }

    /// Whether results of earlier operations hold memory that others may wait for.
    pub(super) const fn holds_memory(&self) -> bool {
        self.holds_memory
    }

    /// Sends data, with its padding, behind what this operation has appended so far.
    pub(super) fn send(&mut self, out: &[u8], data: FileData, share: Share) {
        self.data.push((out.len(), data, share));
    }

    /// Bytes of data that the operation under way sends, with their padding.
    pub(super) fn data_len(&self) -> usize {
        let lens = self.data.iter().map(|(_, data, _)| data.len());
        lens.map(|len| len + padding(len)).sum()
    }

    /// What the operation under way was to send is not sent.
    pub(super) fn drop_data(&mut self) {
        self.data.clear();
    }

    /// Keeps memory until the reply is sent.
    pub(super) fn hold(&mut self, memory: Reservation, share: Share) {
        self.held.push((memory, share));
    }

    /// Puts what the last operation left into the reply, which ends with the `body_len` bytes that it appended.
    pub(super) fn hand_over(&mut self, body_len: usize, reply: &mut Draft) {
        let mut done = 0;
        for (behind, data, share) in self.data.drain(..) {
            self.holds_memory = true;
            let encoded = reply.out();
            let left = body_len - done;
            let rest = encoded.split_off(encoded.len() - left + (behind - done));
            done = behind;
            reply.put_data(data);
            reply.count_in(share);
            if !rest.is_empty() {
                reply.out().extend_from_slice(&rest);
            }
        }
        for (memory, share) in self.held.drain(..) {
            self.holds_memory = true;
            reply.hold(memory);
            reply.count_in(share);
        }
    }

    /// What comes of a READ that may wait for memory, while this COMPOUND holds some.
    ///
    /// # Errors
    /// NFS4ERR_DELAY where it takes long: then the client asks again, and what others wait for is given back.
    pub(super) async fn at_once<T>(
        &self,
        read: impl Future<Output = crate::vfs::Result<T>>,
    ) -> Result<T, Nfsstat4> {
        let patience = Duration::from_secs(limits::COMPOUND_DATA_WAITS_SECONDS_MAX);
        match tokio::time::timeout(patience, read).await {
            Ok(done) => done.map_err(status),
            Err(_late) => Err(Nfsstat4::Delay),
        }
    }
}

/// Appends a value to a reply.
pub(super) fn put(out: &mut Vec<u8>, value: &impl Encode) {
    value.encode(&mut Encoder::new(out));
}
