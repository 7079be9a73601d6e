//! Files that are removed while they are open.
//!
//! NFSv3 knows no open files: a file whose last name is removed is gone, whoever reads it. So the name
//! is not removed but changed, to one that nobody will miss, and removed when the file is closed. Other
//! clients do the same with names of the same form.

use nfs_client::nfs3::{FileHandle, Nfsstat3};
use nfs_client::{Client, ClientError};

use super::{Answer, Tree, refuse};
use crate::callers::Caller;
use crate::limits::SILLY_NAMES_MAX;
use fuser::Errno;

/// How the names begin, as those of other clients do.
const PREFIX: &str = ".nfs";

/// The name that an open file without a name has on the server.
#[derive(Debug)]
pub(super) struct Silly {
    client: Client,
    dir: FileHandle,
    name: Vec<u8>,
}

impl Silly {
    /// Removes it. If that fails there is nobody to tell: the file stays, as it does when a client
    /// crashes.
    pub(super) async fn remove(self) {
        match self.client.remove_in(&self.dir, &self.name).await {
            Err(error) if error.status() != Some(Nfsstat3::Noent) => {
                let name = self.name.escape_ascii();
                tracing::warn!(%error, "cannot remove {name}, which was removed while it was open");
            }
            _ => {}
        }
    }
}

/// What is in the way of removing or replacing a name.
pub(super) struct InTheWay {
    number: u64,
    handle: FileHandle,
    fileid: u64,
}

impl Tree {
    /// The open file that would be lost with `name`: one that has no other name.
    pub(super) async fn in_the_way(
        &self,
        client: &Client,
        dir: &FileHandle,
        name: &[u8],
    ) -> Answer<Option<InTheWay>> {
        if self.files.lock().is_empty() {
            return Ok(None);
        }
        let node = match client.lookup(dir, name).await {
            Ok(node) => node,
            Err(error) if error.status() == Some(Nfsstat3::Noent) => return Ok(None),
            Err(error) => return Err(refuse(&error)),
        };
        let mut inodes = self.inodes.lock();
        let number = inodes.number(&node.handle);
        let Some(number) = number.filter(|number| inodes.opens(*number) > 0) else {
            return Ok(None);
        };
        let silly = inodes.beside(number).and_then(|kept| kept.silly.as_ref());
        if silly.is_some_and(|silly| silly.dir == *dir && silly.name == name) {
            // It goes when the file is closed, not before.
            return Err(Errno::EBUSY);
        }
        let in_the_way = InTheWay {
            number,
            handle: node.handle,
            fileid: node.attributes.fileid,
        };
        Ok((node.attributes.nlink <= 1).then_some(in_the_way))
    }

    /// Removes `name`, which is the last of an open file, from the eyes of programs.
    pub(super) async fn hide(
        &self,
        caller: Caller,
        dir: &FileHandle,
        name: &[u8],
        file: &InTheWay,
    ) -> Answer<()> {
        let client = self.client(caller);
        let hidden = self.free_name(&client, dir, file.fileid).await?;
        let renamed = client.rename_in(dir, name, dir, &hidden).await;
        renamed.map_err(|error| refuse(&error))?;
        self.hidden(client, dir, hidden, file).await;
        Ok(())
    }

    /// Gives an open file that is about to be replaced one more name. The second is removed with the
    /// file's last close, so nobody ever sees the first one missing.
    pub(super) async fn keep(
        &self,
        client: &Client,
        dir: &FileHandle,
        file: &InTheWay,
    ) -> Answer<Option<Vec<u8>>> {
        let name = self.free_name(client, dir, file.fileid).await?;
        match client.link_in(&file.handle, dir, &name).await {
            Ok(()) => Ok(Some(name)),
            Err(ClientError::Nfs { .. }) => Ok(None),
            Err(error) => Err(refuse(&error)),
        }
    }

    /// Remembers the name, or removes it if the file has been closed meanwhile.
    pub(super) async fn hidden(
        &self,
        client: Client,
        dir: &FileHandle,
        name: Vec<u8>,
        file: &InTheWay,
    ) {
        let silly = Silly {
            client,
            dir: *dir,
            name,
        };
        let too_late = {
            let mut inodes = self.inodes.lock();
            let open = inodes.opens(file.number) > 0;
            match inodes.beside(file.number).filter(|_| open) {
                Some(kept) => kept.silly.replace(silly),
                None => Some(silly),
            }
        };
        if let Some(silly) = too_late {
            silly.remove().await;
        }
    }

    /// A name in `dir` that nobody has.
    async fn free_name(&self, client: &Client, dir: &FileHandle, fileid: u64) -> Answer<Vec<u8>> {
        for _ in 0..SILLY_NAMES_MAX {
            let mut random = [0; 4];
            getrandom::fill(&mut random).map_err(|_| Errno::EIO)?;
            let random = u32::from_ne_bytes(random);
            let name = format!("{PREFIX}{fileid:016x}{random:08x}").into_bytes();
            match client.lookup(dir, &name).await {
                Ok(_) => {}
                Err(error) if error.status() == Some(Nfsstat3::Noent) => return Ok(name),
                Err(error) => return Err(refuse(&error)),
            }
        }
        Err(Errno::EBUSY)
    }
}
