//! After a copy: both sides are read again, and their checksums compared.

use std::sync::Arc;

use super::content::{LocalRead, Opened, Reader};
use super::dir::{Dir, Side};
use super::disk::Disk;
use super::error::TransferError;
use super::item::Item;
use super::job::{Context, Destination, Job, piece_bytes};
use super::local;
use super::threads::blocking;
use super::watch::Watch;
use crate::error::refused;
use crate::nfs3::Nfsstat3;

/// Reads both sides; their checksum if it is the same.
pub(super) async fn compare(context: &Context, job: &Job) -> Result<String, TransferError> {
    let copy = job.to.look_up(&job.name).await?;
    let copy = copy.unwrap_or_else(|| Item {
        name: job.name.clone(),
        handle: None,
        follow: true,
        ..job.item.clone()
    });
    let copy = followed(job, copy);
    let (ours, theirs) = tokio::join!(
        checksum(context, &job.from, &job.item),
        checksum(context, &job.to, &copy),
    );
    let (ours, theirs) = (ours?, theirs?);
    if ours == theirs {
        return Ok(ours);
    }
    Err(TransferError::Differs {
        place: Box::new(job.from.location.join(&job.item.name)),
        other: Box::new(job.to.location.join(&job.name)),
        ours,
        theirs,
    })
}

/// Whether `there`, at the destination, has the source's content.
pub(super) async fn is_same(
    context: &Context,
    job: &Job,
    there: &Item,
) -> Result<bool, TransferError> {
    let (ours, theirs) = tokio::join!(
        checksum(context, &job.from, &job.item),
        checksum(context, &job.to, there),
    );
    Ok(ours? == theirs?)
}

/// A destination that was named and is a symbolic link was written through it.
fn followed(job: &Job, found: Item) -> Item {
    match &job.there {
        Destination::Taken(there) if there.follow => Item {
            follow: there.follow,
            handle: there.handle,
            ..found
        },
        _ => found,
    }
}

/// Opens a regular file for reading.
pub(super) async fn open(
    context: &Context,
    dir: &Dir,
    item: &Item,
) -> Result<Opened, TransferError> {
    match &dir.side {
        Side::Local(fd) => {
            let item = item.clone();
            let name = item.name.clone();
            let opened = dir.local(fd, &name, "open", move |dir, _| {
                local::open_read(dir, &item)
            });
            // Whatever is refused was counted when it was copied.
            let uncounted = Watch::default();
            let disk = Disk::new(opened.await?, context.options.local, &uncounted);
            Ok(Opened::Local(Arc::new(disk)))
        }
        Side::Remote { client, .. } => {
            let path = dir.location.join(&item.name).name();
            let node = item
                .node()
                .ok_or_else(|| refused("LOOKUP", &path, Nfsstat3::Noent))?;
            Ok(Opened::Remote(client.open_node(node, &path)?))
        }
    }
}

/// BLAKE3 of a file's whole content, in hexadecimal.
async fn checksum(context: &Context, dir: &Dir, item: &Item) -> Result<String, TransferError> {
    let place = dir.location.join(&item.name);
    let mut reader = match open(context, dir, item).await? {
        Opened::Remote(file) => Reader::remote(&file, 0),
        Opened::Local(file) => {
            let how = LocalRead {
                from: 0,
                piece_bytes: piece_bytes(dir, true),
                skip_holes: false,
            };
            Reader::local(file, place.clone(), how, &context.pool)
        }
    };
    let mut hasher = blake3::Hasher::new();
    while let Some(piece) = reader.next().await? {
        context.pace().wait(piece.data.len() as u64).await;
        // Hashing is work for a processor; the connection goes on meanwhile.
        hasher = blocking(move || {
            hasher.update(&piece.data);
            hasher
        })
        .await;
    }
    Ok(hasher.finalize().to_hex().to_string())
}
