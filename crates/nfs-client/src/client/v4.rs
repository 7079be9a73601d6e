//! NFSv4: from a URL to a session.

use nfs_wire::nfs4::Nfsstat4;

use super::MountOptions;
use super::mount::{connect_nfs, identity_of};
use crate::connection::Connections;
use crate::error::{ClientError, Nfs4Error};
use crate::nfs4::{MinorVersion, Nfs4};
use crate::url::{NfsUrl, Version};

impl Nfs4 {
    /// Begins a session with a URL's server, as this process or as the URL's `uid` and `gid`, of the minor version
    /// that the URL names; of the newest that both speak where it names none.
    ///
    /// # Errors
    /// [`ClientError::Rpc`] where nobody answers, and [`ClientError::Nfs4`] where the server does not have the version.
    pub async fn of_url(url: &NfsUrl, options: &MountOptions) -> Result<Self, ClientError> {
        let connection = connect_nfs(url, &options.connect).await?;
        let nconnect = url.nconnect.map_or(options.nconnect, u32::from);
        let connections = Connections::more(connection, nconnect).await;
        let identity = identity_of(url, options);
        let begin = async |minor| Self::begin(connections.clone(), identity.clone(), minor).await;
        let begun = match url.version {
            Version::V41 => begin(MinorVersion::V1).await,
            Version::V42 => begin(MinorVersion::V2).await,
            Version::V3 | Version::V4 => match begin(MinorVersion::V2).await {
                Err(Nfs4Error::Status {
                    status: Nfsstat4::MinorVersMismatch,
                    ..
                }) => begin(MinorVersion::V1).await,
                begun => begun,
            },
        };
        Ok(begun?)
    }
}
