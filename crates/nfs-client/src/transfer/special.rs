//! What is neither a regular file nor a directory: symbolic links, fifos, sockets and devices are made anew.

use nfs_wire::nfs3::{Ftype3, Sattr3};

use super::decide;
use super::dir::Made;
use super::error::TransferError;
use super::file;
use super::item::{Item, type_name};
use super::job::{Context, Destination, Job};
use super::options::Existing;
use super::watch::{Done, What};
use crate::limits::UNSTEADY_MAX;

/// Copies a symbolic link, fifo, socket or device.
pub(super) async fn copy(context: &Context, job: &Job, what: What) -> Result<Done, TransferError> {
    let options = &context.options;
    let there = match &job.there {
        Destination::Taken(there) => Some(there.clone()),
        // A stream is no place for what is made anew; it was refused before.
        Destination::Free | Destination::Stream(_) => None,
        Destination::Unknown if options.dry_run || options.existing != Existing::Replace => {
            job.to.look_up(&job.name).await?
        }
        Destination::Unknown => None,
    };
    let mut there = there;
    for _ in 0..UNSTEADY_MAX {
        if let Some(there) = &there {
            let place = || job.to.location.join(&job.name);
            if options.existing == Existing::Keep
                || options.existing == Existing::Ask && !file::may_replace(context, place()).await?
            {
                return Ok(job.done(What::Exists, 0));
            }
            if there.attributes.ftype == Ftype3::Dir {
                return Err(TransferError::InTheWay {
                    place: Box::new(job.to.location.join(&job.name)),
                    is: "directory",
                    by: type_name(job.item.attributes.ftype),
                });
            }
            if file::is_same_file(&job.from, &job.item, &job.to, there) {
                return Err(TransferError::SameFile {
                    place: Box::new(job.from.location.join(&job.item.name)),
                    other: Box::new(job.to.location.join(&job.name)),
                });
            }
        }
        if options.mirror.is_some()
            && let Some(there) = &there
            && is_alike(job, there).await?
        {
            return Ok(job.done(What::Complete, 0));
        }
        if options.dry_run {
            return Ok(job.done(what, 0));
        }
        // The source first: one that cannot be read must not cost what is there.
        let target = match what {
            What::Symlink => Some(job.from.read_link(&job.item).await?),
            _ => None,
        };
        if there.is_some() {
            job.to.remove(&job.name).await?;
        }
        let made = match target {
            Some(target) => job.to.make_symlink(&job.name, target).await?,
            None => {
                let mode = decide::first_mode(&job.item.attributes, options);
                let like = &job.item.attributes;
                job.to.make_special(&job.name, like, mode).await?
            }
        };
        match made {
            Made::New(item) => {
                dress(context, job, &item).await?;
                return Ok(job.done(what, 0));
            }
            Made::Exists => there = job.to.look_up(&job.name).await?,
        }
    }
    Err(TransferError::Unsteady {
        place: Box::new(job.to.location.join(&job.name)),
    })
}

/// Whether `there` is a link to the same place, or a fifo, socket or device like the source.
async fn is_alike(job: &Job, there: &Item) -> Result<bool, TransferError> {
    let (source, copy) = (&job.item.attributes, &there.attributes);
    if source.ftype != copy.ftype {
        return Ok(false);
    }
    match source.ftype {
        Ftype3::Lnk => {
            let (ours, theirs) = (
                job.from.read_link(&job.item).await?,
                job.to.read_link(there).await?,
            );
            Ok(ours == theirs)
        }
        Ftype3::Blk | Ftype3::Chr => Ok(source.rdev == copy.rdev),
        Ftype3::Fifo | Ftype3::Sock => Ok(true),
        Ftype3::Reg | Ftype3::Dir => Ok(false),
    }
}

/// Owner, mode and times of what is neither file nor directory. A symbolic link has no mode.
async fn dress(context: &Context, job: &Job, item: &Item) -> Result<(), TransferError> {
    let source = &job.item.attributes;
    let Some(mut set) = decide::last_attributes(source, &item.attributes, true, &context.options)
    else {
        return Ok(());
    };
    if source.ftype == Ftype3::Lnk {
        set.mode = None;
    }
    if set == Sattr3::default() {
        return Ok(());
    }
    match job.to.set_attributes_of(item, &set).await {
        Err(error) if file::names_owner(&set) && error.is_not_permitted() => {
            context.watch.owner_not_kept();
            let set = decide::without_owner(&set);
            job.to.set_attributes_of(item, &set).await
        }
        set => set,
    }
}
