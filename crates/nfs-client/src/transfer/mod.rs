//! Whole files and trees, between this host and servers, and between servers.
//!
//! [`copy`] does what cp(1) does, many files at once: sources and destination are [`Place`]s, what is
//! kept, skipped or gone on with is in the [`Options`], and a [`Watch`] tells how far it has come,
//! gets a report for each file, and stops it.
//!
//! ```
//! use nfs_client::transfer::{self, Options, Place, Preserve, Watch};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let scratch = tempfile::tempdir()?;
//! # let (here, there) = (scratch.path().join("photos"), scratch.path().join("backup"));
//! # std::fs::create_dir(&here)?;
//! # std::fs::write(here.join("one"), "of two")?;
//! // Either may be on a server: Place::mount(&"nfs://server/export/photos".parse()?, &options).await?
//! let (photos, backup) = (Place::local(&here), Place::local(&there));
//! let options = Options {
//!     recursive: true,
//!     preserve: Preserve::ALL,
//!     ..Options::default()
//! };
//! let watch = Watch::default();
//! let figures = transfer::copy(&[photos], &backup, &options, &watch).await?;
//! assert_eq!((figures.files_done, figures.bytes_done, figures.failed), (1, 6, 0));
//! assert_eq!(std::fs::read(there.join("one"))?, b"of two");
//! # Ok(())
//! # }
//! ```
//!
//! A file on a server that was reported as done is on stable storage. One of this host is handed to
//! its file system, as cp(1) leaves it, and on stable storage with [`Options::fsync`].
//!
//! Files are written in place, in order, and at most
//! [`TRANSFER_UNCOMMITTED_BYTES_MAX`](crate::limits::TRANSFER_UNCOMMITTED_BYTES_MAX) reach beyond what
//! is on stable storage. So a copy that was cut off, however it was, can go on
//! ([`Existing::Resume`]): it trusts what lies below that, after a look at its beginning and end.
//!
//! A small file costs one READ from a server, and CREATE and WRITE to one; SETATTR only where times,
//! owner or mode are kept.

mod content;
mod decide;
mod dir;
mod disk;
mod ends;
mod error;
mod file;
mod filter;
mod item;
mod job;
mod links;
mod listing;
mod local;
mod mirror;
mod options;
mod piece;
mod place;
mod special;
mod stream;
mod threads;
mod tree;
mod verify;
mod watch;

use std::collections::HashSet;
use std::sync::Arc;

use nfs_wire::nfs3::Ftype3;

pub use self::error::TransferError;
pub use self::filter::{Filter, Pattern};
pub use self::options::{Compare, Delete, Existing, Follow, Mirror, Options, Preserve, Sparse};
pub use self::place::{Location, Open, Place, Remote};
pub use self::stream::read_piece;
pub use self::watch::{Done, Event, Figures, Watch, What};

use self::ends::{End, Start};
use self::job::{Context, Destination, Job};
use self::tree::{Level, WorkQueue};

/// Copies `sources` to `destination`: into it if it is a directory, else to its name.
///
/// Everything that can be copied is; what failed was told to `watch`, and is counted in the result.
/// Dropping the future gives up what is on its way at once; [`Watch::stop`] brings it to an end.
///
/// # Errors
/// Only when nothing can be done at all: the destination cannot be had, or is no directory for
/// several sources.
pub async fn copy(
    sources: &[Place],
    destination: &Place,
    options: &Options,
    watch: &Watch,
) -> Result<Figures, TransferError> {
    let end = ends::end(destination, sources.len(), options).await?;
    let context = Arc::new(Context::new(options.clone(), watch.clone()));
    run(&context, sources, end).await;
    Ok(watch.figures())
}

/// Makes `destination` like `source`: what the source, a directory, holds is in it when it is done, or the file
/// that it is has its name.
///
/// A file that is as it is to be ([`Compare`]) keeps its content; of any other, the content is written under a
/// name of its own beside it, gets its attributes, and takes the place of what was there when it is complete.
/// After an interruption of whatever kind the next mirror goes on with it, by the rules of
/// [`Existing::Resume`]. With [`Mirror::delete`], what the source does not have is removed in the end; nothing
/// is if anything failed before. What the [`Filter`] leaves out stays on both sides.
///
/// # Errors
/// Only when nothing can be done at all. What failed of the rest was told to `watch`, and is counted in the
/// result, also that nothing was removed ([`TransferError::NotRemoved`]).
pub async fn mirror(
    source: &Place,
    destination: &Place,
    options: &Options,
    watch: &Watch,
) -> Result<Figures, TransferError> {
    let mut options = options.clone();
    options.recursive = true;
    options.onto = true;
    options.mirror.get_or_insert_default();
    let end = ends::end(destination, 1, &options).await?;
    let context = Arc::new(Context::new(options, watch.clone()));
    run(&context, std::slice::from_ref(source), end).await;
    for path in context.only.missing() {
        if !watch.is_stopped() {
            let place = Box::new(source.location().join(&path));
            watch.failed(&TransferError::NotThere { place });
        }
    }
    let removed = match ends::end(destination, 1, &context.options).await? {
        End::Onto(named) => match named.opened() {
            Some(root) => mirror::remove_extras(&context, root).await,
            // A file, or in a dry run a directory that is to be made.
            None => Ok(()),
        },
        End::Into(_) | End::Stream(_) => Ok(()),
    };
    if let Err(error) = removed {
        watch.failed(&error);
    }
    Ok(watch.figures())
}

/// Copies all of `sources`.
async fn run(context: &Arc<Context>, sources: &[Place], end: End) {
    let sources = sources.to_vec();
    tree::run(context.clone(), move |queue| async move {
        let mut names = HashSet::new();
        for source in &sources {
            if queue.context.watch.is_stopped() {
                return;
            }
            if let Err(error) = begin(&queue, source, &end, &mut names).await {
                queue.context.watch.failed(&error);
            }
        }
    })
    .await;
}

/// Finds a source, and hands it out.
async fn begin(
    queue: &WorkQueue,
    source: &Place,
    end: &End,
    names: &mut HashSet<Vec<u8>>,
) -> Result<(), TransferError> {
    let context = &queue.context;
    let start = ends::start(source, &context.options).await?;
    if !start.nameless && matches!(end, End::Into(_)) && !names.insert(start.item.name.clone()) {
        return Err(TransferError::Twice {
            place: Box::new(source.location()),
        });
    }
    if start.item.attributes.ftype == Ftype3::Dir {
        return begin_tree(queue, source, end, &start).await;
    }
    let (to, name, there) = end.of(&start);
    let job = Job {
        from: start.dir,
        item: start.item,
        stream: start.stream,
        to,
        name,
        there,
        partial: None,
    };
    queue.file(job, None).await;
    Ok(())
}

async fn begin_tree(
    queue: &WorkQueue,
    source: &Place,
    end: &End,
    start: &Start,
) -> Result<(), TransferError> {
    let context = &queue.context;
    if !context.options.recursive {
        return Err(TransferError::IsDirectory {
            place: Box::new(source.location()),
        });
    }
    let from = tree::open_named(&start.dir, &start.item).await?;
    let (to, name, there) = end.of(start);
    if matches!(there, Destination::Stream(_)) {
        return Err(TransferError::InTheWay {
            place: Box::new(to.location.join(&name)),
            is: "stream",
            by: "directory",
        });
    }
    let merged = end.merged(start);
    if ends::is_inside(merged.as_ref().unwrap_or(&to), start).await {
        return Err(TransferError::IntoItself {
            place: Box::new(source.location()),
            other: Box::new(to.location.join(&name)),
        });
    }
    let made = match merged {
        Some(dir) => tree::MadeDir {
            attributes: match ends::itself(&dir).await {
                Some(item) => item.attributes,
                None => start.item.attributes,
            },
            dir,
            new: false,
        },
        None => tree::make(context, &to, &name, &start.item, false, &from).await?,
    };
    let level = Level {
        to: made.dir,
        from,
        source: start.item.attributes,
        there: made.attributes,
        new: made.new,
        parent: None,
        path: Vec::new(),
        depth: 0,
        touched: std::sync::atomic::AtomicBool::new(made.new),
    };
    queue.tree(Arc::new(level)).await;
    Ok(())
}
