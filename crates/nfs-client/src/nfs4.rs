//! NFS versions 4.1 and 4.2 (RFC 8881, RFC 7862): a session, and operations on files through it.
//!
//! [`Nfs4`] is a session over one connection or several. Each function is one COMPOUND; [`Nfs4::compound`] takes any.
//! A reply that was lost comes again from the slot that its request was in, so that nothing is carried
//! out twice; where the server has lost the session, another one is made. What was open then is not
//! opened again: its stateids are refused, and the caller is told so.
//!
//! After NFS4ERR_DELAY and NFS4ERR_GRACE the operations are sent again, with growing pauses, until the call's
//! time is over.

mod data;
mod files;
mod opens;
mod session;
mod slots;

use std::sync::Arc;

use bytes::Bytes;
use nfs_wire::nfs4::{ArgOp, CompoundRes, Opnum};

pub(crate) use self::files::{ASKED, fattr, getattr, putfh, stat_from};
pub use self::files::{Entry4, Node4, OpenFile4, OpenHow, Read4, Stat4, Written4};
pub(crate) use self::opens::{Hold, is_lost};
pub use nfs_wire::nfs4::{FileHandle, Ftype4, MinorVersion, Nfsstat4, StableHow4, Stateid4};

use self::session::{Beside, Ran, Shared};
use crate::connection::{Connections, decode_results};
pub use crate::error::Nfs4Error;
use crate::error::RpcError;
use crate::identity::Identity;

/// A session of NFSv4.1 or 4.2, as one identity. Clones share it.
#[derive(Clone, Debug)]
pub struct Nfs4 {
    shared: Arc<Shared>,
    identity: Identity,
}

/// The results of a COMPOUND, in the bytes that they came in.
#[derive(Clone, Debug)]
pub struct Results {
    bytes: Bytes,
}

impl Nfs4 {
    /// Begins a session over these connections.
    ///
    /// # Errors
    /// [`Nfs4Error`]; with a server that does not have the minor version, NFS4ERR_MINOR_VERS_MISMATCH.
    pub async fn begin(
        connections: impl Into<Connections>,
        identity: Identity,
        minor: MinorVersion,
    ) -> Result<Self, Nfs4Error> {
        let shared = Shared::begin(connections.into(), identity.clone(), minor).await?;
        Ok(Self {
            shared: Arc::new(shared),
            identity,
        })
    }

    /// The same session, with calls made as `identity`. What each has open is its own.
    #[must_use]
    pub fn with_identity(&self, identity: Identity) -> Self {
        Self {
            identity,
            ..self.clone()
        }
    }

    /// Who the calls are made as.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Carries out operations behind a SEQUENCE.
    ///
    /// # Errors
    /// [`Nfs4Error::Rpc`], [`Nfs4Error::SlotsGivenUp`] and [`Nfs4Error::Ended`]. That an operation failed is
    /// told by the results.
    pub async fn compound(&self, ops: &[ArgOp<'_>]) -> Result<Results, Nfs4Error> {
        let ran = self.shared.run(&self.identity, ops, Beside::Nothing).await;
        Ok(ran?.results)
    }

    /// The most bytes of a READ or WRITE that the session's messages have room for.
    #[must_use]
    pub fn data_bytes_max(&self) -> u32 {
        let attrs = self.shared.current().attrs;
        let message = attrs.maxrequestsize.min(attrs.maxresponsesize);
        message
            .saturating_sub(crate::limits::NFS4_OVERHEAD_BYTES)
            .max(1)
    }

    /// The connections that the session is over.
    #[must_use]
    pub fn connections(&self) -> &Connections {
        self.shared.connections()
    }

    /// Closes what was opened on the way, ends the session and has the server forget the client. Without it the
    /// server does so when the lease has run out.
    ///
    /// # Errors
    /// [`Nfs4Error`]; NFS4ERR_CLIENTID_BUSY where files are open that [`Nfs4::open`] opened.
    pub async fn end(self) -> Result<(), Nfs4Error> {
        self.close_all().await;
        self.shared.end().await
    }

    /// Carries out operations that change something and must all succeed; tells as well whether they went out in
    /// more than one session, so that a failure may be their own doing.
    pub(crate) async fn changed(
        &self,
        ops: &[ArgOp<'_>],
    ) -> Result<(Result<Results, Nfs4Error>, bool), Nfs4Error> {
        let ran = self.shared.run(&self.identity, ops, Beside::Nothing).await;
        let Ran { results, anew, .. } = ran?;
        Ok(match results.status()? {
            Nfsstat4::Ok => (Ok(results), anew),
            status => (Err(results.failure(status)), anew),
        })
    }

    /// Carries out operations that must all succeed.
    pub(crate) async fn all(&self, ops: &[ArgOp<'_>]) -> Result<Results, Nfs4Error> {
        let results = self.compound(ops).await?;
        match results.status()? {
            Nfsstat4::Ok => Ok(results),
            status => Err(results.failure(status)),
        }
    }
}

impl Results {
    fn new(bytes: Bytes) -> Result<Self, Nfs4Error> {
        let results = Self { bytes };
        results.decode()?;
        Ok(results)
    }

    /// The results, that of SEQUENCE first.
    ///
    /// # Errors
    /// [`RpcError::BadReply`].
    pub fn decode(&self) -> Result<CompoundRes<'_>, RpcError> {
        decode_results(&self.bytes)
    }

    /// How the COMPOUND ended.
    ///
    /// # Errors
    /// [`RpcError::BadReply`].
    pub fn status(&self) -> Result<Nfsstat4, RpcError> {
        Ok(self.decode()?.status)
    }

    /// The operation that ended it.
    fn failure(&self, status: Nfsstat4) -> Nfs4Error {
        let last = self.decode().ok();
        let last = last.and_then(|res| res.resarray.last().map(|result| result.opnum()));
        Nfs4Error::Status {
            opnum: last.unwrap_or(Opnum::Illegal),
            status,
        }
    }
}
