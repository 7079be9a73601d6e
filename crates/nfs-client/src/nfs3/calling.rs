//! How every procedure is called: over which connection, how often, until when.

use bytes::Bytes;
use nfs_wire::nfs3::{Failure, Nfsstat3, Procedure};
use nfs_wire::{Decode, Encode};
use tokio::time::Instant;

use super::read_into::read_data;
use super::{Nfs3, number};
use crate::connection::retry::jukebox_pause;
use crate::connection::{self, Extra, Kind, Reply, ReplyMemory, Times};
use crate::error::RpcError;

/// What a procedure answered, and how it was asked.
pub(crate) struct Answer<O, F> {
    pub(crate) outcome: Result<O, Failure<F>>,
    /// The call went out more than once.
    pub(crate) resent: bool,
}

impl<O, F> Answer<O, F> {
    /// The status of a failure.
    pub(crate) fn status(&self) -> Option<Nfsstat3> {
        self.outcome.as_ref().err().map(|failure| failure.status)
    }
}

impl Nfs3 {
    /// A procedure's results, and whether its call went out more than once.
    pub(crate) async fn ask<A, O, F>(
        &self,
        procedure: Procedure,
        args: &A,
    ) -> Result<Answer<O, F>, RpcError>
    where
        A: Encode + ?Sized,
        Result<O, Failure<F>>: for<'a> Decode<'a>,
    {
        let reply = self.patient(procedure, args, Extra::None).await?;
        Ok(Answer {
            outcome: connection::decode_results(&reply.results)?,
            resent: reply.resent,
        })
    }

    pub(super) async fn typed<A, T>(&self, procedure: Procedure, args: &A) -> Result<T, RpcError>
    where
        A: Encode + ?Sized,
        T: for<'a> Decode<'a>,
    {
        connection::decode_results(&self.results(procedure, args).await?)
    }

    pub(super) async fn results<A: Encode + ?Sized>(
        &self,
        procedure: Procedure,
        args: &A,
    ) -> Result<Bytes, RpcError> {
        Ok(self.patient(procedure, args, Extra::None).await?.results)
    }

    /// Calls, and calls again while the server answers `NFS3ERR_JUKEBOX` and there is time.
    pub(super) async fn patient<A: Encode + ?Sized>(
        &self,
        procedure: Procedure,
        args: &A,
        mut extra: Extra,
    ) -> Result<Reply, RpcError> {
        if let (true, Some(words)) = (self.read_only, words_of_refusal(procedure)) {
            let status = (Nfsstat3::Rofs as u32).to_be_bytes();
            return Ok(Reply {
                results: [&status[..], &[0; 4].repeat(words)].concat().into(),
                memory: ReplyMemory::Nothing,
                resent: false,
            });
        }
        let (number, kind) = (number(procedure), Kind::Nfs3(procedure));
        let timeout = self.connection().options().call_timeout;
        let mut times = Times::from_now(timeout);
        let mut resent = false;
        for count in 1.. {
            let again = match &extra {
                Extra::Payload(payload) => Extra::Payload(payload.clone()),
                Extra::None | Extra::Memory { .. } => Extra::None,
            };
            let connection = self.connections.least_busy();
            let call = connection.call_until(number, kind, &self.identity, args, extra, times);
            let mut reply = call.await?;
            // If an earlier one was, this one may find what that one did.
            resent |= reply.resent;
            reply.resent = resent;
            if !is_jukebox(&reply.results) {
                return Ok(reply);
            }
            let left = times.deadline.saturating_duration_since(Instant::now());
            let Some(pause) = jukebox_pause(count, left) else {
                return Ok(reply);
            };
            connection.waits_for_jukebox(pause);
            tokio::time::sleep(pause).await;
            times.now = Instant::now();
            times.begun = times.now;
            extra = match reply.memory {
                ReplyMemory::Unused(buf) => Extra::Memory {
                    buf,
                    cut: read_data,
                },
                ReplyMemory::Nothing | ReplyMemory::Filled(_) => again,
            };
        }
        Err(RpcError::Timeout { after: timeout })
    }
}

fn is_jukebox(results: &[u8]) -> bool {
    let status = results.first_chunk().map(|word| u32::from_be_bytes(*word));
    status == Some(Nfsstat3::Jukebox as u32)
}

/// For a procedure that changes something on the server, how many words of zero its failure has that
/// tells nothing but the status: two for `wcc_data`, one for `post_op_attr`.
fn words_of_refusal(procedure: Procedure) -> Option<usize> {
    match procedure {
        Procedure::Setattr
        | Procedure::Write
        | Procedure::Create
        | Procedure::Mkdir
        | Procedure::Symlink
        | Procedure::Mknod
        | Procedure::Remove
        | Procedure::Rmdir => Some(2),
        Procedure::Rename => Some(4),
        Procedure::Link => Some(3),
        Procedure::Null
        | Procedure::Getattr
        | Procedure::Lookup
        | Procedure::Access
        | Procedure::Readlink
        | Procedure::Read
        | Procedure::Readdir
        | Procedure::Readdirplus
        | Procedure::Fsstat
        | Procedure::Fsinfo
        | Procedure::Pathconf
        | Procedure::Commit => None,
    }
}
