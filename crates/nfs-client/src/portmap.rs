//! The portmapper's client: where a program listens (portmap version 2, RFC 1833 §3), over TCP.

use nfs_wire::portmap::{MappingList, Procedure};

pub use nfs_wire::portmap::{IPPROTO_TCP, Mapping, PORT, PROGRAM, VERSION};

use crate::connection::{self, ConnectOptions, Connection, Target};
use crate::error::RpcError;
use crate::identity::Identity;

/// A connection to a host's portmapper. Clones share it.
#[derive(Clone, Debug)]
pub struct Portmap {
    connection: Connection,
}

impl Portmap {
    /// Connects; the target's port is usually [`PORT`].
    pub async fn connect(target: Target, options: ConnectOptions) -> Result<Self, RpcError> {
        Ok(Self {
            connection: Connection::connect(target, options).await?,
        })
    }

    /// GETPORT: the TCP port of a program, if it is registered (RFC 1833 §3.2).
    pub async fn getport(&self, program: u32, version: u32) -> Result<Option<u16>, RpcError> {
        let mapping = Mapping {
            program,
            version,
            protocol: IPPROTO_TCP,
            port: 0,
        };
        let getport = connection::Procedure {
            program: PROGRAM,
            version: VERSION,
            number: Procedure::Getport as u32,
        };
        let nobody = Identity::none();
        let results = self.connection.call(getport, &nobody, &mapping).await?;
        let port: u32 = connection::decode_results(&results)?;
        // 0 means not registered; what is no port is as good as that.
        Ok(u16::try_from(port).ok().filter(|&port| port != 0))
    }

    /// DUMP: all that is registered (RFC 1833 §3.2).
    pub async fn dump(&self) -> Result<Vec<Mapping>, RpcError> {
        let dump = connection::Procedure {
            program: PROGRAM,
            version: VERSION,
            number: Procedure::Dump as u32,
        };
        let results = self.connection.call(dump, &Identity::none(), &()).await?;
        let list: MappingList = connection::decode_results(&results)?;
        Ok(list.0)
    }
}
