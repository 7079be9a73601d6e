//! Calls as somebody else: without credentials, as root, as a user whom nobody knows.

use nfs_wire::nfs3::{CreateHow, FileHandle};

use super::own::Own;
use super::{Ground, create, flat, mode};
use crate::doctor::facts::{Answered, IdentityTrial};
use crate::identity::Identity;

impl Ground<'_> {
    /// Whether the server takes AUTH_NONE, and whose a file is that uid 0 or a stranger made.
    pub(super) async fn identities(&self, own: &Own) -> Answered<IdentityTrial> {
        let dir = self.mkdir(&own.handle, b"everybody", 0o777).await?;
        // What MKDIR makes of the mode is the server's affair.
        flat(self.nfs.setattr(&dir, &mode(0o777), None).await)?;
        let nobody = self.nfs.with_identity(Identity::none());
        let nobody = flat(nobody.getattr(&self.directory).await).map(|_| ());
        Ok(IdentityTrial {
            nobody,
            root: self.owner_of_file_by(0, &dir, b"by-root").await,
            stranger: self
                .owner_of_file_by(IdentityTrial::STRANGER, &dir, b"by-stranger")
                .await,
        })
    }

    async fn owner_of_file_by(&self, uid: u32, dir: &FileHandle, name: &[u8]) -> Answered<u32> {
        let nfs = self.nfs.with_identity(Identity::sys(uid, uid, &[]));
        let made = create(&nfs, dir, name, CreateHow::Guarded(mode(0o600))).await?;
        match made.attributes {
            Some(attributes) => Ok(attributes.uid),
            None => Ok(self.stat(&made.handle).await?.uid),
        }
    }
}
