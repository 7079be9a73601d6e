//! The entries of a directory of either side, a part at a time: a directory of any size costs the
//! memory of one part.

use std::collections::VecDeque;

use super::dir::{Dir, Side};
use super::error::TransferError;
use super::item::Item;
use super::local;
use super::threads::blocking;
use crate::client::{DirEntry, DirStream};

/// A directory on its way through. `.` and `..` are left out.
#[derive(Debug)]
pub(super) struct Listing {
    dir: Dir,
    /// The listing of a directory on a server; `None` for one of this host.
    stream: Option<Box<DirStream>>,
    ready: VecDeque<Result<Item, TransferError>>,
    ended: bool,
}

impl Listing {
    pub(super) fn new(dir: Dir) -> Self {
        let stream = match &dir.side {
            Side::Local(_) => None,
            Side::Remote { client, handle } => Some(Box::new(client.list(handle, true))),
        };
        Self {
            dir,
            stream,
            ready: VecDeque::new(),
            ended: false,
        }
    }

    /// The next entry; `None` at the end. An error about one entry is followed by more; one about the
    /// directory is the last.
    pub(super) async fn next(&mut self) -> Option<Result<Item, TransferError>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            if self.ended {
                return None;
            }
            if let Err(error) = self.fill().await {
                self.ended = true;
                return Some(Err(error));
            }
        }
    }

    async fn fill(&mut self) -> Result<(), TransferError> {
        let location = &self.dir.location;
        if let Some(stream) = &mut self.stream {
            let page = stream.next().await;
            match page.map_err(|error| error.of(&location.name()))? {
                None => self.ended = true,
                Some(page) => {
                    for entry in page.into_iter().filter(|entry| !entry.is_dot()) {
                        self.ready.extend(listed(&self.dir, entry).await);
                    }
                }
            }
            return Ok(());
        }
        let Side::Local(fd) = &self.dir.side else {
            self.ended = true;
            return Ok(());
        };
        let fd = fd.clone();
        let listed = blocking(move || local::list(&fd)).await;
        let items = listed.map_err(|error| TransferError::local(location, "readdir", error))?;
        self.ended = items.is_empty();
        self.ready.extend(items.into_iter().map(|item| {
            item.map_err(|(name, error)| TransferError::local(&location.join(&name), "stat", error))
        }));
        Ok(())
    }
}

/// An entry of a server's listing. One that came without attributes, and that the listing could not look
/// up either, is looked up once more: only what is gone by now is left out, and what cannot be looked at
/// is an error, not a name less in the copy.
async fn listed(dir: &Dir, entry: DirEntry) -> Option<Result<Item, TransferError>> {
    let (Some(attributes), Some(handle)) = (entry.attributes, entry.handle) else {
        return dir.look_up(&entry.name).await.transpose();
    };
    Some(Ok(Item {
        attributes,
        handle: Some(handle),
        name: entry.name,
        follow: false,
        times_cut: false,
    }))
}
