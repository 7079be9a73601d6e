//! The reply to a COMPOUND while it is put together, result by result.
//!
//! It owns no bytes: results are appended to the vector that it is given each time, and between two of them
//! the caller may put data there that is sent from elsewhere. Status and number of results stand at the
//! reply's beginning and are written in at the end.

use super::{ArgOp, Nfsstat4, Opnum, ResOp, Tag};
use crate::xdr::{padding, patch};
use crate::{Encode, Encoder};

/// How long a reply may become, bytes of the whole RPC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    /// The longest reply: `ca_maxresponsesize`.
    pub message: usize,
    /// The longest reply that is kept for a repetition, where this one is to be:
    /// `ca_maxresponsesize_cached`.
    pub cached: Option<usize>,
}

/// What is known of a reply that is being put together.
#[derive(Clone, Debug)]
pub struct CompoundReply {
    limits: ReplyLimits,
    status_at: usize,
    count_at: usize,
    status: Nfsstat4,
    count: u32,
    /// Bytes of the message so far, data that is sent from elsewhere included.
    len: usize,
}

impl CompoundReply {
    /// Writes the beginning of `COMPOUND4res` behind the RPC header. The message began at `message_at`.
    pub fn begin(out: &mut Vec<u8>, message_at: usize, tag: &Tag<'_>, limits: ReplyLimits) -> Self {
        let status_at = out.len();
        let mut e = Encoder::new(out);
        Nfsstat4::Ok.encode(&mut e);
        tag.encode(&mut e);
        let count_at = e.position();
        e.u32(0);
        Self {
            limits,
            status_at,
            count_at,
            status: Nfsstat4::Ok,
            count: 0,
            len: out.len().saturating_sub(message_at),
        }
    }

    /// Changes the limits: the reply's own are known only when SEQUENCE has been looked up.
    pub fn limit(&mut self, limits: ReplyLimits) {
        self.limits = limits;
    }

    /// Whether a result of so many bytes would fit.
    ///
    /// # Errors
    /// NFS4ERR_REP_TOO_BIG, or NFS4ERR_REP_TOO_BIG_TO_CACHE where the reply could be sent but not kept (RFC
    /// 8881 §2.10.6.4).
    pub fn check_room(&self, result_len: usize) -> Result<(), Nfsstat4> {
        let len = self.len.saturating_add(result_len);
        if len > self.limits.message {
            return Err(Nfsstat4::RepTooBig);
        }
        match self.limits.cached {
            Some(cached) if len > cached => Err(Nfsstat4::RepTooBigToCache),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether an operation may begin: the result of one that changes something has to fit for certain. Other
    /// results are looked at when they are there.
    ///
    /// # Errors
    /// As [`CompoundReply::check_room`].
    pub fn check_before(&self, op: &ArgOp<'_>) -> Result<(), Nfsstat4> {
        if op.opnum().changes() {
            self.check_room(op.reply_len_max())
        } else {
            Ok(())
        }
    }

    /// Bytes that are left of both limits.
    #[must_use]
    pub fn room(&self) -> usize {
        let limit = self.limits.cached.map_or(self.limits.message, |cached| {
            cached.min(self.limits.message)
        });
        limit.saturating_sub(self.len)
    }

    /// Appends a result. Where it does not fit, that it does not is its result.
    ///
    /// # Errors
    /// The status that the compound ends with.
    pub fn put(&mut self, out: &mut Vec<u8>, result: &ResOp<'_>) -> Result<(), Nfsstat4> {
        self.put_with(out, result.opnum(), 0, |e| {
            result.encode(e);
            result.status()
        })
    }

    /// Appends what `write` writes, which is a whole `nfs_resop4` but for `data_len` bytes of data (and their
    /// padding), which the caller puts behind it if this succeeds; `write` returns the result's status. Where it
    /// does not fit, that it does not is its result.
    ///
    /// # Errors
    /// The status that the compound ends with.
    pub fn put_with(
        &mut self,
        out: &mut Vec<u8>,
        opnum: Opnum,
        data_len: usize,
        write: impl FnOnce(&mut Encoder<'_>) -> Nfsstat4,
    ) -> Result<(), Nfsstat4> {
        let from = out.len();
        let status = write(&mut Encoder::new(out));
        let data_len = data_len.saturating_add(padding(data_len));
        let len = out.len().saturating_sub(from).saturating_add(data_len);
        if let Err(status) = self.check_room(len) {
            out.truncate(from);
            return self.put_failure(out, opnum, status);
        }
        self.count(status, len);
        self.end()
    }

    /// Appends the result of an operation that failed with nothing to say but its status.
    ///
    /// # Errors
    /// That status.
    pub fn put_failure(
        &mut self,
        out: &mut Vec<u8>,
        opnum: Opnum,
        status: Nfsstat4,
    ) -> Result<(), Nfsstat4> {
        let from = out.len();
        opnum.encode_failure(status, &mut Encoder::new(out));
        self.count(status, out.len().saturating_sub(from));
        self.end()
    }

    fn count(&mut self, status: Nfsstat4, len: usize) {
        self.status = status;
        self.count = self.count.saturating_add(1);
        self.len = self.len.saturating_add(len);
    }

    fn end(&self) -> Result<(), Nfsstat4> {
        match self.status {
            Nfsstat4::Ok => Ok(()),
            status => Err(status),
        }
    }

    /// Ends the compound with a status that no operation gave, such as NFS4ERR_MINOR_VERS_MISMATCH.
    pub fn fail_whole(&mut self, status: Nfsstat4) {
        self.status = status;
    }

    /// The status so far.
    #[must_use]
    pub const fn status(&self) -> Nfsstat4 {
        self.status
    }

    /// How many results there are.
    #[must_use]
    pub const fn results(&self) -> u32 {
        self.count
    }

    /// Bytes of the message so far, data that is sent from elsewhere included.
    #[must_use]
    pub const fn message_len(&self) -> usize {
        self.len
    }

    /// Writes status and number of results to the reply's beginning: `out` is the vector that
    /// [`CompoundReply::begin`] was given.
    pub fn finish(&self, out: &mut [u8]) {
        patch(out, self.status_at, self.status as u32);
        patch(out, self.count_at, self.count);
    }
}

#[cfg(test)]
mod tests;
