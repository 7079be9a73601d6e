//! What a file's handle survives: another connection, other names, other places; and that it does not
//! survive the file.

use nfs_wire::nfs3::FileHandle;

use super::own::Own;
use super::{Ground, flat};
use crate::doctor::facts::{Answered, HandleTrial};

impl Ground<'_> {
    /// Takes a file through all that can happen to its name, and asks its handle each time.
    pub(super) async fn handles(&self, own: &Own) -> Answered<HandleTrial> {
        let dir = self.mkdir(&own.handle, b"handles", 0o700).await?;
        let other = self.mkdir(&own.handle, b"handles-other", 0o700).await?;
        let file = self.new_file(&dir, b"first").await?;
        let comparable = !self.nfs.is_stand_in(&file) && !self.nfs.is_stand_in(&dir);
        let (mut elsewhere, mut same_elsewhere) = (None, None);
        if comparable {
            let (valid, same) = self.seen_elsewhere(&dir, &file).await?;
            (elsewhere, same_elsewhere) = (Some(valid), Some(same));
        }
        self.rename((&dir, b"first"), (&dir, b"second")).await?;
        let renamed = self.still_there(&file).await;
        self.rename((&dir, b"second"), (&other, b"third")).await?;
        let moved = self.still_there(&file).await;
        let parent = &own.handle;
        self.rename((parent, b"handles-other"), (parent, b"handles-renamed"))
            .await?;
        let directory_renamed = self.still_there(&file).await;
        self.remove(&other, b"third").await?;
        Ok(HandleTrial {
            elsewhere,
            same_elsewhere,
            renamed,
            moved,
            directory_renamed,
            removed: self.still_there(&file).await,
        })
    }

    async fn still_there(&self, file: &FileHandle) -> Answered<()> {
        self.stat(file).await.map(|_| ())
    }

    /// Over another connection: whether the handle is good, and whether LOOKUP gives the same.
    async fn seen_elsewhere(
        &self,
        dir: &FileHandle,
        file: &FileHandle,
    ) -> Answered<(Answered<()>, Answered<bool>)> {
        let client = self.elsewhere().await?;
        let valid = flat(client.nfs().getattr(file).await).map(|_| ());
        let found = flat(client.nfs().lookup(dir, b"first").await);
        super::leave(client).await;
        Ok((valid, found.map(|found| found.object == *file)))
    }
}
