//! The portmapper's client: portmap version 2 and rpcbind versions 3 and 4 (RFC 1833), over TCP.

use std::net::SocketAddr;

use nfs_wire::portmap::{IPPROTO_TCP, MappingList, Procedure};
use nfs_wire::rpcbind::{self, Rpcb, RpcbList, UniversalAddress};
use nfs_wire::{Decode, Encode};

pub use nfs_wire::portmap::{Mapping, PORT, PROGRAM, VERSION};

use crate::connection::{self, ConnectOptions, Connection, Target};
use crate::error::RpcError;
use crate::identity::Identity;

/// A connection to a host's portmapper. Clones share it.
#[derive(Clone, Debug)]
pub struct Portmap {
    connection: Connection,
}

/// Which version of rpcbind to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcbindVersion {
    /// Version 3 (RFC 1833 §2.2.1).
    V3,
    /// Version 4 (RFC 1833 §2.2.2).
    V4,
}

/// One registration as rpcbind lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Program number.
    pub program: u32,
    /// Program version.
    pub version: u32,
    /// Transport: `tcp`, `udp6`, `local`, ...
    pub netid: Vec<u8>,
    /// Universal address, or a path for `local`.
    pub address: Vec<u8>,
    /// Who registered it.
    pub owner: Vec<u8>,
}

impl Portmap {
    /// Connects; the target's port is usually [`PORT`].
    pub async fn connect(target: Target, options: ConnectOptions) -> Result<Self, RpcError> {
        Ok(Self {
            connection: Connection::connect(target, options).await?,
        })
    }

    /// Uses a connection that is there already.
    pub fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// NULL: does nothing.
    pub async fn null(&self) -> Result<(), RpcError> {
        self.typed(Procedure::Null, &()).await
    }

    /// GETPORT: the TCP port of a program, if it is registered (RFC 1833 §3.2).
    pub async fn getport(&self, program: u32, version: u32) -> Result<Option<u16>, RpcError> {
        let mapping = Mapping {
            program,
            version,
            protocol: IPPROTO_TCP,
            port: 0,
        };
        let port: u32 = self.typed(Procedure::Getport, &mapping).await?;
        // 0 means not registered; what is no port is as good as that.
        Ok(u16::try_from(port).ok().filter(|&port| port != 0))
    }

    /// DUMP: all registrations (RFC 1833 §3.2).
    pub async fn dump(&self) -> Result<Vec<Mapping>, RpcError> {
        let list: MappingList = self.typed(Procedure::Dump, &()).await?;
        Ok(list.0)
    }

    /// SET: registers a program; true if the portmapper took it. Most take it from their own host
    /// only (RFC 1833 §3.2).
    pub async fn set(&self, mapping: &Mapping) -> Result<bool, RpcError> {
        self.typed::<_, Bool>(Procedure::Set, mapping)
            .await
            .map(|taken| taken.0)
    }

    /// UNSET: removes all registrations of a program's version; true if there were any (RFC 1833
    /// §3.2).
    pub async fn unset(&self, program: u32, version: u32) -> Result<bool, RpcError> {
        let mapping = Mapping {
            program,
            version,
            protocol: 0,
            port: 0,
        };
        self.typed::<_, Bool>(Procedure::Unset, &mapping)
            .await
            .map(|removed| removed.0)
    }

    /// GETADDR: the address of a program on the transport `netid` (`tcp`, `tcp6`), if it is
    /// registered there (RFC 1833 §2.2.1).
    pub async fn getaddr(
        &self,
        rpcbind: RpcbindVersion,
        program: u32,
        version: u32,
        netid: &[u8],
    ) -> Result<Option<SocketAddr>, RpcError> {
        let address = UniversalAddress(b"");
        let args = Rpcb {
            program,
            version,
            netid,
            address,
            owner: b"",
        };
        let results = self
            .rpcbind(rpcbind, rpcbind::Procedure::Getaddr, &args)
            .await?;
        let address: UniversalAddress<'_> = connection::decode_results(&results)?;
        // An empty string means not registered (RFC 1833 §2.2.1, RPCBPROC_GETADDR).
        Ok(address.socket_addr())
    }

    /// DUMP of rpcbind: all registrations, with their transports (RFC 1833 §2.2.1).
    pub async fn dump_rpcbind(
        &self,
        rpcbind: RpcbindVersion,
    ) -> Result<Vec<Registration>, RpcError> {
        let results = self.rpcbind(rpcbind, rpcbind::Procedure::Dump, &()).await?;
        let list: RpcbList<'_> = connection::decode_results(&results)?;
        let own = |entry: &Rpcb<'_>| Registration {
            program: entry.program,
            version: entry.version,
            netid: entry.netid.to_vec(),
            address: entry.address.0.to_vec(),
            owner: entry.owner.to_vec(),
        };
        Ok(list.0.iter().map(own).collect())
    }

    async fn rpcbind<A: Encode + ?Sized>(
        &self,
        rpcbind: RpcbindVersion,
        procedure: rpcbind::Procedure,
        args: &A,
    ) -> Result<bytes::Bytes, RpcError> {
        let version = match rpcbind {
            RpcbindVersion::V3 => rpcbind::VERSION_3,
            RpcbindVersion::V4 => rpcbind::VERSION_4,
        };
        let number = procedure as u32;
        let procedure = connection::Procedure {
            program: PROGRAM,
            version,
            number,
        };
        self.connection
            .call(procedure, &Identity::none(), args)
            .await
    }

    async fn typed<A, T>(&self, procedure: Procedure, args: &A) -> Result<T, RpcError>
    where
        A: Encode + ?Sized,
        T: for<'a> Decode<'a>,
    {
        let number = procedure as u32;
        let procedure = connection::Procedure {
            program: PROGRAM,
            version: VERSION,
            number,
        };
        let results = self
            .connection
            .call(procedure, &Identity::none(), args)
            .await?;
        connection::decode_results(&results)
    }
}

/// XDR's bool as a whole result.
struct Bool(bool);

impl Decode<'_> for Bool {
    fn decode(d: &mut nfs_wire::Decoder<'_>) -> Result<Self, nfs_wire::DecodeError> {
        d.bool("result").map(Self)
    }
}
