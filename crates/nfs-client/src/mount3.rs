//! MOUNT version 3 (RFC 1813 §5): from an export's path to its root handle.

use nfs_wire::mount3::{Dirpath, ExportList, MntRes, MountList, Procedure};
use nfs_wire::{Decode, Encode};

pub use nfs_wire::mount3::{MountOk, Mountstat3, PROGRAM, VERSION};

use crate::connection::{self, Connection};
use crate::error::RpcError;
use crate::identity::Identity;

/// The procedures of MOUNT version 3 over one connection, called as one identity. Clones share the
/// connection.
#[derive(Clone, Debug)]
pub struct Mount3 {
    connection: Connection,
    identity: Identity,
}

/// One entry of the server's list of mounts (RFC 1813 §5.2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// The client's name or address, as the server noted it.
    pub hostname: Vec<u8>,
    /// The path that was mounted.
    pub directory: Vec<u8>,
}

/// One entry of the server's list of exports (RFC 1813 §5.2.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportEntry {
    /// The path that is exported, in the server's name space.
    pub directory: Vec<u8>,
    /// Who may mount it, in the server's words; empty means anybody.
    pub groups: Vec<Vec<u8>>,
}

impl Mount3 {
    /// Calls over `connection` as `identity`.
    pub fn new(connection: Connection, identity: Identity) -> Self {
        Self {
            connection,
            identity,
        }
    }

    /// These procedures over the same connection, called as `identity`.
    pub fn with_identity(&self, identity: Identity) -> Self {
        Self {
            connection: self.connection.clone(),
            identity,
        }
    }

    /// The connection that the calls go over.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// NULL: does nothing (RFC 1813 §5.2.0).
    pub async fn null(&self) -> Result<(), RpcError> {
        self.typed(Procedure::Null, &()).await
    }

    /// MNT: the root handle of the export `path`, and the flavors it takes (RFC 1813 §5.2.1).
    pub async fn mnt(&self, path: &[u8]) -> Result<Result<MountOk, Mountstat3>, RpcError> {
        self.typed::<_, MntRes>(Procedure::Mnt, &Dirpath(path))
            .await
    }

    /// DUMP: who has mounted what, as far as the server remembers (RFC 1813 §5.2.2).
    pub async fn dump(&self) -> Result<Vec<MountEntry>, RpcError> {
        let results = self.call(Procedure::Dump, &()).await?;
        let list: MountList<'_> = connection::decode_results(&results)?;
        let own = |entry: &nfs_wire::mount3::MountEntry<'_>| MountEntry {
            hostname: entry.hostname.0.to_vec(),
            directory: entry.directory.0.to_vec(),
        };
        Ok(list.0.iter().map(own).collect())
    }

    /// UMNT: takes this host's mount of `path` off the server's list (RFC 1813 §5.2.3).
    pub async fn umnt(&self, path: &[u8]) -> Result<(), RpcError> {
        self.typed(Procedure::Umnt, &Dirpath(path)).await
    }

    /// UMNTALL: takes all of this host's mounts off the server's list (RFC 1813 §5.2.4).
    pub async fn umntall(&self) -> Result<(), RpcError> {
        self.typed(Procedure::Umntall, &()).await
    }

    /// EXPORT: what the server exports, to whom (RFC 1813 §5.2.5).
    pub async fn export(&self) -> Result<Vec<ExportEntry>, RpcError> {
        let results = self.call(Procedure::Export, &()).await?;
        let list: ExportList<'_> = connection::decode_results(&results)?;
        let own = |entry: &nfs_wire::mount3::ExportEntry<'_>| ExportEntry {
            directory: entry.directory.0.to_vec(),
            groups: entry.groups.iter().map(|group| group.0.to_vec()).collect(),
        };
        Ok(list.0.iter().map(own).collect())
    }

    async fn call<A: Encode + ?Sized>(
        &self,
        procedure: Procedure,
        args: &A,
    ) -> Result<bytes::Bytes, RpcError> {
        self.connection
            .call(number(procedure), &self.identity, args)
            .await
    }

    async fn typed<A, T>(&self, procedure: Procedure, args: &A) -> Result<T, RpcError>
    where
        A: Encode + ?Sized,
        T: for<'a> Decode<'a>,
    {
        connection::decode_results(&self.call(procedure, args).await?)
    }
}

/// The number of a MOUNT procedure, for [`Connection::call_raw`].
pub fn number(procedure: Procedure) -> connection::Procedure {
    connection::Procedure {
        program: PROGRAM,
        version: VERSION,
        number: procedure as u32,
    }
}
