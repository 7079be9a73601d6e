//! A server's programs without mounting anything: for `showmount` and `ping`.

use super::{Client, ClientError, MountOptions, mount};
use crate::connection::{Connection, Target};
use crate::error::RpcError;
use crate::mount3::{self, Mount3};
use crate::url::{NFS_PORT, NfsUrl, Version};

impl Client {
    /// The server's MOUNT program: at `mountport=` of the URL; else at its port, or 2049, if MOUNT is
    /// served there too; else where the host's portmapper says. The URL's path does not matter.
    pub async fn mount_program(
        url: &NfsUrl,
        options: &MountOptions,
    ) -> Result<Mount3, ClientError> {
        if url.version != Version::V3 {
            let version = url.version.word();
            return Err(ClientError::OnlyV3 { version });
        }
        let target = Target::new(url.host.as_str(), url.nfs_port());
        let connect = async |port: u16| {
            let connect = mount::connect_options(url, &options.connect);
            let connection = Connection::connect(target.with_port(port), connect).await?;
            Ok::<_, RpcError>(Mount3::new(connection, options.identity.clone()))
        };
        if let Some(port) = url.mount_port {
            return Ok(connect(port).await?);
        }
        let there = async {
            let mount = connect(url.port.unwrap_or(NFS_PORT)).await?;
            mount.null().await.map(|()| mount)
        };
        let failure = match there.await {
            Ok(mount) => return Ok(mount),
            Err(failure) => failure,
        };
        let (program, version) = (mount3::PROGRAM, mount3::VERSION);
        match mount::registered_port(&target, &options.connect, program, version).await {
            Ok(Some(port)) => Ok(connect(port).await?),
            Ok(None) => Err(ClientError::NotRegistered { program: "MOUNT" }),
            Err(_) => Err(failure.into()),
        }
    }

    /// A connection to the server's NFS program: at the URL's port; without one, at 2049, or where the
    /// host's portmapper says. The URL's path does not matter.
    pub async fn nfs_program(
        url: &NfsUrl,
        options: &MountOptions,
    ) -> Result<Connection, ClientError> {
        mount::connect_nfs(url, &options.connect).await
    }
}
