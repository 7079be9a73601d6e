//! Attributes, permissions, symbolic links' targets, space.

use fuser::{AccessFlags, Errno, FileAttr, INodeNo};
use nfs_client::nfs3::{
    ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ,
    Fattr3, FileHandle, FsstatOk, Sattr3,
};
use nfs_client::{Client, ClientError};

use super::{Answer, Tree, refuse};
use crate::attributes::Changes;
use crate::callers::Caller;
use crate::errno;
use crate::inodes::ROOT;

/// Longest name where the server does not say, bytes.
const NAME_BYTES_USUAL: u32 = 255;

impl Tree {
    /// The attributes of the object `number` at this moment.
    pub(crate) async fn getattr(&self, caller: Caller, number: u64) -> Answer<FileAttr> {
        let attributes = self.present(&self.client(caller), number).await?;
        let mut shown = self.attributes_of(number, &attributes);
        if number == ROOT {
            // The kernel calls the root 1; programs see its fileid.
            shown.ino = INodeNo(attributes.fileid);
        }
        Ok(shown)
    }

    /// The present attributes. Those of an open file are told when what was written is at the server:
    /// a time that changes after the last write has returned would be taken for somebody else's change.
    pub(super) async fn present(&self, client: &Client, number: u64) -> Answer<Fattr3> {
        let handle = self.handle(number)?;
        let attributes = match self.data(number) {
            // Kept for no time by the kernel, they are not kept here either.
            Some(file) if self.options.attr_timeout.is_zero() => {
                file.settled().await.map_err(|error| refuse(&error))?;
                file.refresh().await
            }
            Some(file) => file.settled().await,
            None => client.stat_handle(&handle).await,
        };
        attributes.map_err(|error| refuse(&error))
    }

    /// Changes attributes. `open` is what the caller has open, which tells that it may set the size.
    pub(crate) async fn setattr(
        &self,
        caller: Caller,
        number: u64,
        open: Option<u64>,
        changes: Changes,
    ) -> Answer<FileAttr> {
        let client = self.client(caller);
        let handle = self.handle(number)?;
        let mut new = changes.sattr();
        if let (Some(size), Some(open)) = (changes.size, open) {
            self.pages_differ(number);
            self.set_len(open, size).await?;
            new.size = None;
        }
        // In order with what was written before, if the file is open.
        let after = match new == Sattr3::default() {
            true => None,
            false => set(&client, &handle, &new).await?,
        };
        if new.size.is_some() {
            self.pages_differ(number);
        }
        let attributes = match after {
            Some(attributes) => attributes,
            None => self.present(&client, number).await?,
        };
        Ok(self.attributes_of(number, &attributes))
    }

    /// Whether the caller may do what `mask` says, in the server's opinion.
    pub(crate) async fn access(
        &self,
        caller: Caller,
        number: u64,
        mask: AccessFlags,
    ) -> Answer<()> {
        let client = self.client(caller);
        let handle = self.handle(number)?;
        let mut bits = 0;
        if mask.contains(AccessFlags::R_OK) {
            bits |= ACCESS3_READ;
        }
        if mask.contains(AccessFlags::W_OK) {
            bits |= ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE;
        }
        if mask.contains(AccessFlags::X_OK) {
            bits |= ACCESS3_EXECUTE | ACCESS3_LOOKUP;
        }
        let granted = self.granted(&client, &handle, bits).await?.0;
        let may = |bit: i32, any: u32| mask.bits() & bit == 0 || granted & any != 0;
        // A directory has no EXECUTE, a file no LOOKUP, and only a directory has DELETE.
        let allowed = may(AccessFlags::R_OK.bits(), ACCESS3_READ)
            && may(AccessFlags::W_OK.bits(), ACCESS3_MODIFY | ACCESS3_EXTEND)
            && may(AccessFlags::X_OK.bits(), ACCESS3_EXECUTE | ACCESS3_LOOKUP);
        if allowed { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// Which of the `ACCESS3_*` bits the client's identity has, and the attributes if the server told
    /// them.
    pub(super) async fn granted(
        &self,
        client: &Client,
        handle: &FileHandle,
        bits: u32,
    ) -> Answer<(u32, Option<Fattr3>)> {
        match client.nfs().access(handle, bits).await {
            Ok(Ok(ok)) => Ok((ok.access, ok.obj_attributes)),
            Ok(Err(failure)) => Err(errno::of_status(failure.status)),
            Err(error) => Err(refuse(&ClientError::Rpc(error))),
        }
    }

    /// Where a symbolic link points.
    pub(crate) async fn readlink(&self, caller: Caller, number: u64) -> Answer<Vec<u8>> {
        let handle = self.handle(number)?;
        let target = self.client(caller).readlink(&handle).await;
        target.map_err(|error| refuse(&error))
    }

    /// Space and inodes, and the length of the longest name, bytes.
    pub(crate) async fn statfs(&self, caller: Caller, number: u64) -> Answer<(FsstatOk, u32)> {
        let client = self.client(caller);
        let handle = self.handle(number)?;
        let space = client.statfs(&handle).await;
        let space = space.map_err(|error| refuse(&error))?;
        let names = client.pathconf(&handle).await;
        Ok((space, names.map_or(NAME_BYTES_USUAL, |ok| ok.name_max)))
    }
}

async fn set(client: &Client, handle: &FileHandle, new: &Sattr3) -> Answer<Option<Fattr3>> {
    let changed = client.setattr_handle(handle, new).await;
    changed.map_err(|error| refuse(&error))
}
