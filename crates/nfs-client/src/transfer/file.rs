//! One regular file, from either side to either side.

use std::fs::File as LocalFile;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use nfs_wire::nfs3::{ACCESS3_EXTEND, ACCESS3_MODIFY, Fattr3, Ftype3, Nfsstat3, Sattr3};

use super::content::{self, LocalRead, Opened, Pumped, Reader, Writer};
use super::decide::{self, Onto};
use super::dir::{Dir, Made, Side, is_taken};
use super::disk::Disk;
use super::error::TransferError;
use super::item::{Item, type_name};
use super::job::{Context, Destination, Job, piece_bytes, small_bytes};
use super::local;
use super::mirror::partial_name;
use super::options::{Compare, Existing, Sparse};
use super::piece::Piece;
use super::place::Location;
use super::stream::{self, Piecing};
use super::threads::blocking;
use super::verify;
use super::watch::{Done, What};
use crate::error::{ClientError, refused};
use crate::limits::{RESUME_ALIGN_BYTES, UNSTEADY_MAX};
use crate::nfs3::Node;

/// The set-user-ID and set-group-ID bits of a mode.
const SET_ID: u32 = 0o6000;

/// Copies one regular file, as the options say.
pub(super) async fn copy(context: &Context, job: &Job) -> Result<Done, TransferError> {
    match &context.options.mirror {
        Some(mirror) => mirrored(context, job, mirror.compare).await,
        None => copy_onto(context, job, context.options.existing).await,
    }
}

/// Makes the destination like the source: the content under another name first, which a later run goes on with.
async fn mirrored(context: &Context, job: &Job, compare: Compare) -> Result<Done, TransferError> {
    let there = match &job.there {
        Destination::Unknown => look(job).await?,
        known => known.clone(),
    };
    let size = job.item.attributes.size;
    let mut what = What::Copied;
    if let Destination::Taken(item) = &there {
        if is_same_file(&job.from, &job.item, &job.to, item) {
            return Err(same_file(job));
        }
        if item.attributes.ftype == Ftype3::Dir {
            return Err(TransferError::InTheWay {
                place: Box::new(job.to.location.join(&job.name)),
                is: "directory",
                by: "regular file",
            });
        }
        let known = decide::is_mirrored(&job.item.attributes, &item.attributes, compare);
        let is_same = match known {
            Some(known) => known,
            None => verify::is_same(context, job, item).await?,
        };
        if is_same {
            context.watch.left(size);
            return Ok(job.done(dress(context, job, item).await?, size));
        }
        what = What::Replaced;
    }
    if context.options.dry_run {
        context.watch.moved(size);
        return Ok(job.done(what, size));
    }
    let partial = Job {
        name: partial_name(&job.from, &job.item.name),
        there: match (&job.partial, &job.there) {
            (Some(item), _) => Destination::Taken(item.clone()),
            (None, Destination::Unknown) => Destination::Unknown,
            // Who knows the one name knows the other.
            (None, Destination::Free | Destination::Taken(_) | Destination::Stream(_)) => {
                Destination::Free
            }
        },
        ..job.clone()
    };
    let done = copy_onto(context, &partial, Existing::Resume).await?;
    job.to.rename(&partial.name, &job.name).await?;
    Ok(Done {
        destination: job.to.location.join(&job.name),
        what: match done.what {
            What::Resumed { from } => What::Resumed { from },
            _ => what,
        },
        ..done
    })
}

/// Sets the attributes of a file whose content is as it is to be, where they are not.
async fn dress(context: &Context, job: &Job, there: &Item) -> Result<What, TransferError> {
    let source = &job.item.attributes;
    let set = decide::last_attributes(source, &there.attributes, false, &context.options);
    let Some(set) = set.filter(|set| !decide::is_dressed(set, &there.attributes)) else {
        return Ok(What::Complete);
    };
    if context.options.dry_run {
        return Ok(What::Attributes);
    }
    let opened = match &job.to.side {
        Side::Local(dir) => {
            let item = there.clone();
            let opened = job.to.local(dir, &job.name, "open", move |dir, _| {
                local::open_read(dir, &item)
            });
            Opened::Local(context.disk(opened.await?))
        }
        Side::Remote { client, .. } => {
            let place = job.to.location.join(&job.name);
            Opened::Remote(client.open_node(node_of(&job.to, there)?, &place.name())?)
        }
    };
    let target = Target {
        opened,
        attributes: there.attributes,
        new: false,
        from: 0,
    };
    set_last(context, job, &target, &set).await?;
    Ok(What::Attributes)
}

async fn copy_onto(
    context: &Context,
    job: &Job,
    existing: Existing,
) -> Result<Done, TransferError> {
    let mut there = job.there.clone();
    let looks_first = existing != Existing::Replace || context.options.dry_run;
    if looks_first && matches!(there, Destination::Unknown) {
        there = look(job).await?;
    }
    let mut content = None;
    for _ in 0..UNSTEADY_MAX {
        let mut onto = match &there {
            Destination::Taken(item) if is_lookalike(job, item) => {
                if !verify::is_same(context, job, item).await? {
                    return Err(same_file(job));
                }
                Some((Onto::Leave(What::Complete), item.clone()))
            }
            Destination::Taken(item) => Some((
                decide_onto(context, job, item, existing).await?,
                item.clone(),
            )),
            Destination::Free | Destination::Unknown | Destination::Stream(_) => None,
        };
        if let Some((Onto::Leave(what), _)) = onto {
            context.watch.left(job.item.attributes.size);
            return Ok(job.done(what, job.item.attributes.size));
        }
        if context.options.dry_run {
            return Ok(would_do(context, job, onto.map(|(onto, _)| onto)));
        }
        let is_shut = match &onto {
            Some((Onto::Remove, _)) => true,
            Some((_, item)) if context.options.force => !is_writable(job, item).await?,
            _ => false,
        };
        if is_shut {
            job.to.remove(&job.name).await?;
            there = Destination::Unknown;
            continue;
        }
        if let Some((Onto::Resume(from), item)) = &onto
            && !is_same_start(context, job, item, *from).await?
        {
            onto = Some((Onto::Replace, item.clone()));
        }
        // The source first: one that cannot be read must not cost the destination its content.
        let content = match &mut content {
            Some(content) => content,
            none => none.insert(open_source(context, job).await?),
        };
        let put = match onto {
            None => put_new(context, job, content).await?,
            Some((onto, item)) => Some(put_onto(context, job, content, onto, &item).await?),
        };
        if let Some(mut done) = put {
            if context.options.verify {
                done.checksum = Some(verify::compare(context, job).await?);
            }
            return Ok(done);
        }
        there = look(job).await?;
    }
    Err(TransferError::Unsteady {
        place: Box::new(job.to.location.join(&job.name)),
    })
}

async fn look(job: &Job) -> Result<Destination, TransferError> {
    let found = job.to.look_up(&job.name).await?;
    Ok(found.map_or(Destination::Unknown, Destination::Taken))
}

async fn decide_onto(
    context: &Context,
    job: &Job,
    there: &Item,
    existing: Existing,
) -> Result<Onto, TransferError> {
    if is_same_file(&job.from, &job.item, &job.to, there) {
        return Err(same_file(job));
    }
    if existing == Existing::Ask
        && there.attributes.ftype != Ftype3::Dir
        && !may_replace(context, job.to.location.join(&job.name)).await?
    {
        return Ok(Onto::Leave(What::Exists));
    }
    let keep = context.options.preserve;
    let set_last = keep.mode || keep.times || keep.owner;
    // One with holes may take several, and come in any order.
    let in_one = !set_last && !may_have_holes(context, &job.item.attributes);
    let one_write = in_one.then(|| small_bytes(job) as u64);
    match decide::onto(&job.item.attributes, &there.attributes, existing, one_write) {
        Onto::InTheWay => Err(TransferError::InTheWay {
            place: Box::new(job.to.location.join(&job.name)),
            is: type_name(there.attributes.ftype),
            by: "regular file",
        }),
        Onto::Compare if is_there(context, job, there).await? => Ok(Onto::Leave(What::Complete)),
        Onto::Compare => Ok(Onto::Replace),
        onto => Ok(onto),
    }
}

/// Whether who watches lets what is at `place` be replaced. A copy that is stopped waits for no answer.
pub(super) async fn may_replace(context: &Context, place: Location) -> Result<bool, TransferError> {
    if context.options.dry_run {
        return Ok(true);
    }
    let (watch, asked) = (context.watch.clone(), place.clone());
    tokio::select! {
        answer = blocking(move || watch.may_replace(&asked)) => Ok(answer),
        () = context.watch.stop_asked() => Err(TransferError::Stopped {
            place: Box::new(place.clone()),
            other: Box::new(place),
            committed: 0,
        }),
    }
}

/// Whether the caller may write to the file that is there.
async fn is_writable(job: &Job, there: &Item) -> Result<bool, TransferError> {
    match &job.to.side {
        Side::Local(dir) => {
            let follow = there.follow;
            let opened = job.to.local(dir, &job.name, "open", move |dir, name| {
                Ok(local::open_write(dir, name, follow).is_ok())
            });
            opened.await
        }
        Side::Remote { client, .. } => {
            let node = node_of(&job.to, there)?;
            let wanted = ACCESS3_MODIFY | ACCESS3_EXTEND;
            let granted = client.access(&node.handle, wanted).await;
            let path = job.to.location.join(&job.name).name();
            Ok(granted.map_err(|error| error.of(&path))? & wanted == wanted)
        }
    }
}

/// Whether `there` has the source's content, on stable storage where it is a server's: an earlier run that
/// was cut off may not have come to its COMMIT.
async fn is_there(context: &Context, job: &Job, there: &Item) -> Result<bool, TransferError> {
    if let Side::Remote { client, .. } = &job.to.side {
        let node = node_of(&job.to, there)?;
        let path = job.to.location.join(&job.name).name();
        // Before the look: what is seen after it stays.
        let committed = client.nfs().commit(&node.handle, 0, 0).await;
        if let Err(failure) = committed.map_err(ClientError::from)? {
            return Err(refused("COMMIT", &path, failure.status).into());
        }
    }
    verify::is_same(context, job, there).await
}

/// Whether two things are one.
pub(super) fn is_same_file(from: &Dir, item: &Item, to: &Dir, there: &Item) -> bool {
    let (a, b) = (&item.attributes, &there.attributes);
    let same_number = (a.fsid, a.fileid) == (b.fsid, b.fileid);
    from.is_same_side(to) && (same_number || (item.handle.is_some() && item.handle == there.handle))
}

/// Whether source and destination, on two sides, are likely one file reached in two ways: a server by two
/// names, or an export of this host. To cut it to nothing would lose it. A clone of it has the content
/// already; a file that has not (numbers and times of an image can be those of another) is not touched.
fn is_lookalike(job: &Job, there: &Item) -> bool {
    let same = |a: &Fattr3| (a.ftype, a.fileid, a.size, a.mtime, a.ctime);
    !job.from.is_same_side(&job.to) && same(&job.item.attributes) == same(&there.attributes)
}

fn same_file(job: &Job) -> TransferError {
    TransferError::SameFile {
        place: Box::new(job.from.location.join(&job.item.name)),
        other: Box::new(job.to.location.join(&job.name)),
    }
}

/// What a dry run tells of a file, and counts.
fn would_do(context: &Context, job: &Job, onto: Option<Onto>) -> Done {
    let (what, size) = (would(onto), job.item.attributes.size);
    let from = match what {
        What::Resumed { from } => from.min(size),
        _ => 0,
    };
    context.watch.left(from);
    context.watch.moved(size - from);
    job.done(what, size)
}

fn would(onto: Option<Onto>) -> What {
    match onto {
        None | Some(Onto::Remove) => What::Copied,
        Some(Onto::Resume(from)) => What::Resumed { from },
        Some(Onto::Replace | Onto::Compare | Onto::InTheWay) => What::Replaced,
        Some(Onto::Leave(what)) => what,
    }
}

/// A source that is open.
pub(super) enum Content {
    /// The whole of a small file.
    Small(Bytes),
    Large(Opened),
    /// Bytes that come once, in order.
    Stream(Arc<LocalFile>),
}

/// Opens the source of `job`, and reads it if it is small.
pub(super) async fn open_source(context: &Context, job: &Job) -> Result<Content, TransferError> {
    if let Some(from) = &job.stream {
        let opened = stream::open_source(context, job, from);
        return Ok(Content::Stream(opened.await?));
    }
    let attributes = &job.item.attributes;
    let place = job.from.location.join(&job.item.name);
    let small = small_bytes(job);
    let is_small = attributes.size <= small as u64 && !may_have_holes(context, attributes);
    if is_small {
        context.pace().wait(attributes.size).await;
    }
    match &job.from.side {
        Side::Local(dir) => {
            let (item, pool) = (job.item.clone(), context.pool.clone());
            let (how, watch) = (context.options.local, context.watch.clone());
            let opened = job.from.local(dir, &job.item.name, "open", move |dir, _| {
                let file = Disk::new(local::open_read(dir, &item)?, how, &watch);
                if !is_small {
                    return Ok(Content::Large(Opened::Local(Arc::new(file))));
                }
                // One byte more than it had: a file that grew meanwhile is seen.
                let size = usize::try_from(item.attributes.size).unwrap_or(small);
                let data = file.read(0, size + 1, &pool)?;
                Ok(if data.len() > size {
                    Content::Large(Opened::Local(Arc::new(file)))
                } else {
                    Content::Small(data)
                })
            });
            opened.await
        }
        Side::Remote { client, .. } => {
            let node = node_of(&job.from, &job.item)?;
            let file = client.open_node(node, &place.name())?;
            if !is_small {
                return Ok(Content::Large(Opened::Remote(file)));
            }
            let size = usize::try_from(attributes.size).unwrap_or(small);
            if size == 0 {
                return Ok(Content::Small(Bytes::new()));
            }
            let read = file.read_at(0, size).await?;
            Ok(if read.eof {
                Content::Small(read.data)
            } else {
                Content::Large(Opened::Remote(file))
            })
        }
    }
}

fn may_have_holes(context: &Context, source: &Fattr3) -> bool {
    match context.options.sparse {
        Sparse::Always => true,
        Sparse::Auto => source.used < source.size,
        Sparse::Never => false,
    }
}

fn node_of(dir: &Dir, item: &Item) -> Result<Node, ClientError> {
    let missing = || {
        let path = dir.location.join(&item.name).name();
        refused("LOOKUP", &path, Nfsstat3::Noent)
    };
    item.node().ok_or_else(missing)
}

/// Makes the file; `None` if its name is taken.
async fn put_new(
    context: &Context,
    job: &Job,
    content: &Content,
) -> Result<Option<Done>, TransferError> {
    let mode = decide::first_mode(&job.item.attributes, &context.options);
    let target = match (&job.to.side, content) {
        (Side::Local(dir), Content::Small(data)) => {
            return put_small_here(context, job, dir, mode, data).await;
        }
        (Side::Local(dir), Content::Large(_) | Content::Stream(_)) => {
            let made = job.to.local(dir, &job.name, "create", move |dir, name| {
                let Some(file) = is_taken(local::create(dir, name, mode))? else {
                    return Ok(None);
                };
                let attributes = local::attributes_of(&file)?;
                Ok(Some((file, attributes)))
            });
            let Some((file, attributes)) = made.await? else {
                return Ok(None);
            };
            Target {
                opened: Opened::Local(context.disk(file)),
                attributes,
                new: true,
                from: 0,
            }
        }
        (Side::Remote { client, handle }, _) => {
            let made = job
                .to
                .create_remote(client, handle, &job.name, mode)
                .await?;
            let Made::New(node) = made else {
                return Ok(None);
            };
            let place = job.to.location.join(&job.name);
            Target {
                opened: Opened::Remote(client.open_node(node, &place.name())?),
                attributes: node.attributes,
                new: true,
                from: 0,
            }
        }
    };
    let bytes = fill(context, job, content, &target).await?;
    close(job, target).await?;
    Ok(Some(job.done(What::Copied, bytes)))
}

/// All of a small new file of this host in one go on one thread.
async fn put_small_here(
    context: &Context,
    job: &Job,
    dir: &Arc<OwnedFd>,
    mode: u32,
    data: &Bytes,
) -> Result<Option<Done>, TransferError> {
    let (options, pool) = (context.options.clone(), context.pool.clone());
    let (data, source) = (data.clone(), job.item.attributes);
    let len = data.len() as u64;
    let watch = context.watch.clone();
    let put = job.to.local(dir, &job.name, "create", move |dir, name| {
        let Some(file) = is_taken(local::create(dir, name, mode))? else {
            return Ok(None);
        };
        let file = Disk::new(file, options.local, &watch);
        file.write(&[Piece { offset: 0, data }], &pool)?;
        let there = local::attributes_of(file.file())?;
        let set = decide::last_attributes(&source, &there, true, &options);
        let kept = set.map_or(Ok(true), |set| set_here(file.file(), &set))?;
        if options.fsync {
            file.file().sync_all()?;
        }
        file.close()?;
        Ok(Some(kept))
    });
    let Some(owner_kept) = put.await? else {
        return Ok(None);
    };
    if !owner_kept {
        context.watch.owner_not_kept();
    }
    context.watch.moved(len);
    Ok(Some(job.done(What::Copied, len)))
}

/// Sets attributes, without the owner where that is not permitted; whether the owner is kept.
fn set_here(file: &LocalFile, set: &Sattr3) -> io::Result<bool> {
    match local::set_attributes(file, set) {
        Err(error) if names_owner(set) && error.kind() == io::ErrorKind::PermissionDenied => {
            local::set_attributes(file, &decide::without_owner(set))?;
            Ok(false)
        }
        set => set.map(|()| true),
    }
}

pub(super) fn names_owner(set: &Sattr3) -> bool {
    set.uid.is_some() || set.gid.is_some()
}

/// A destination that is open for writing.
#[derive(Debug)]
struct Target {
    opened: Opened,
    /// As it was made or found.
    attributes: Fattr3,
    new: bool,
    /// What lies below stays, bytes.
    from: u64,
}

/// Writes onto a file that is there.
async fn put_onto(
    context: &Context,
    job: &Job,
    content: &Content,
    onto: Onto,
    there: &Item,
) -> Result<Done, TransferError> {
    let from = match onto {
        Onto::Resume(from) => from,
        _ => 0,
    };
    let opened = match &job.to.side {
        Side::Local(dir) => {
            let follow = there.follow;
            let opened = job.to.local(dir, &job.name, "open", move |dir, name| {
                let file = local::open_write(dir, name, follow)?;
                file.set_len(from)?;
                Ok(file)
            });
            Opened::Local(context.disk(opened.await?))
        }
        Side::Remote { client, .. } => {
            let place = job.to.location.join(&job.name);
            let file = client.open_node(node_of(&job.to, there)?, &place.name())?;
            if there.attributes.size != from {
                file.set_len(from).await?;
            }
            Opened::Remote(file)
        }
    };
    let target = Target {
        opened,
        attributes: there.attributes,
        new: false,
        from,
    };
    context.watch.left(from);
    let bytes = fill(context, job, content, &target).await?;
    close(job, target).await?;
    let what = match from {
        0 => What::Replaced,
        from => What::Resumed { from },
    };
    Ok(job.done(what, bytes))
}

/// Lets go of a file of this host that is complete; one of a server was closed after its last write.
async fn close(job: &Job, target: Target) -> Result<(), TransferError> {
    let Opened::Local(file) = target.opened else {
        return Ok(());
    };
    // The thread that wrote it has ended: nobody else has it.
    let Some(file) = Arc::into_inner(file) else {
        return Ok(());
    };
    let closed = blocking(move || file.close()).await;
    closed.map_err(|error| TransferError::local(&job.to.location.join(&job.name), "close", error))
}

/// Moves the content and sets the attributes. The file's length, bytes.
async fn fill(
    context: &Context,
    job: &Job,
    content: &Content,
    target: &Target,
) -> Result<u64, TransferError> {
    let len = match content {
        Content::Small(data) => {
            let mut writer = writer(context, job, target);
            if !data.is_empty() {
                let data = data.clone();
                writer.write(Piece { offset: 0, data }).await?;
            }
            context.watch.moved(data.len() as u64);
            writer.finish(context.options.fsync).await?;
            data.len() as u64
        }
        Content::Large(source) => {
            let skip_holes = context.options.sparse != Sparse::Never;
            let mut reader = reader(context, job, source, target.from, skip_holes);
            let is_remote = matches!(source, Opened::Remote(_));
            let zeros =
                decide::looks_for_zeros(context.options.sparse, &job.item.attributes, is_remote);
            move_all(context, job, &mut reader, zeros, target).await?
        }
        Content::Stream(source) => {
            let mut reader = stream::reader(context, job, source, Piecing::Full);
            let zeros = context.options.sparse == Sparse::Always;
            move_all(context, job, &mut reader, zeros, target).await?
        }
    };
    let set = decide::last_attributes(
        &job.item.attributes,
        &target.attributes,
        target.new,
        &context.options,
    );
    if let Some(set) = set {
        set_last(context, job, target, &set).await?;
    }
    Ok(len)
}

fn writer(context: &Context, job: &Job, target: &Target) -> Writer {
    let place = job.to.location.join(&job.name);
    match &target.opened {
        Opened::Local(file) => Writer::local(file.clone(), place, &context.pool),
        Opened::Remote(file) => Writer::Remote(file.clone()),
    }
}

/// Reads `source` from `from` on.
pub(super) fn reader(
    context: &Context,
    job: &Job,
    source: &Opened,
    from: u64,
    skip_holes: bool,
) -> Reader {
    match source {
        Opened::Local(file) => {
            let how = LocalRead {
                from,
                piece_bytes: piece_bytes(&job.to, false).next_multiple_of(4096),
                skip_holes,
            };
            Reader::local(
                file.clone(),
                job.from.location.join(&job.item.name),
                how,
                &context.pool,
            )
        }
        Opened::Remote(file) => Reader::remote(file, from),
    }
}

async fn move_all(
    context: &Context,
    job: &Job,
    reader: &mut Reader,
    zeros: bool,
    target: &Target,
) -> Result<u64, TransferError> {
    let fsync = context.options.fsync;
    let mut writer = writer(context, job, target);
    let pumped = content::pump(reader, &mut writer, target.from, zeros, context.pace());
    match pumped.await? {
        Pumped::All { len, written } => {
            if written < len {
                set_len(job, target, &mut writer, len).await?;
            }
            writer.finish(fsync).await?;
            Ok(len)
        }
        Pumped::Stopped { at } => {
            writer.finish(fsync).await?;
            Err(TransferError::Stopped {
                place: Box::new(job.from.location.join(&job.item.name)),
                other: Box::new(job.to.location.join(&job.name)),
                committed: at,
            })
        }
    }
}

/// The length of a file that ends in a hole.
async fn set_len(
    job: &Job,
    target: &Target,
    writer: &mut Writer,
    len: u64,
) -> Result<(), TransferError> {
    match &target.opened {
        Opened::Remote(file) => Ok(file.set_len(len).await?),
        Opened::Local(file) => {
            writer.flush(false).await?;
            let file = file.clone();
            let set = blocking(move || file.file().set_len(len)).await;
            set.map_err(|error| {
                TransferError::local(&job.to.location.join(&job.name), "ftruncate", error)
            })
        }
    }
}

async fn set_last(
    context: &Context,
    job: &Job,
    target: &Target,
    set: &Sattr3,
) -> Result<(), TransferError> {
    let place = job.to.location.join(&job.name);
    let owner_kept = match &target.opened {
        Opened::Local(file) => {
            let (file, set, fsync) = (file.clone(), *set, context.options.fsync);
            let done = blocking(move || {
                let kept = set_here(file.file(), &set)?;
                if fsync {
                    file.file().sync_all()?;
                }
                Ok(kept)
            });
            done.await
                .map_err(|error| TransferError::local(&place, "set attributes", error))?
        }
        Opened::Remote(file) => {
            match file.set_attributes(set).await {
                Err(error)
                    if names_owner(set)
                        && matches!(error.status(), Some(Nfsstat3::Perm | Nfsstat3::Acces)) =>
                {
                    let set = decide::without_owner(set);
                    let set = file.set_attributes(&set).await;
                    set.map_err(|error| error.of(&place.name()))?;
                    false
                }
                done => {
                    let there = done.map_err(|error| error.of(&place.name()))?;
                    // Linux's own server takes the set-id bits away when the owner comes with them.
                    let lost = |mode: &u32| {
                        let kept = there.map_or(0, |there| there.mode);
                        mode & SET_ID & !kept != 0
                    };
                    if let Some(mode) = set.mode.filter(lost) {
                        let again = Sattr3 {
                            mode: Some(mode),
                            ..Sattr3::default()
                        };
                        let done = file.set_attributes(&again).await;
                        done.map_err(|error| error.of(&place.name()))?;
                    }
                    true
                }
            }
        }
    };
    if !owner_kept {
        context.watch.owner_not_kept();
    }
    Ok(())
}

/// Whether what is there below `from` begins and ends as the source does: if not, it is not an
/// earlier copy of it.
async fn is_same_start(
    context: &Context,
    job: &Job,
    there: &Item,
    from: u64,
) -> Result<bool, TransferError> {
    let unit = usize::try_from(RESUME_ALIGN_BYTES).unwrap_or(usize::MAX);
    let len = small_bytes(job).min(unit);
    let source = verify::open(context, &job.from, &job.item).await?;
    let copy = verify::open(context, &job.to, there).await?;
    let (source_place, copy_place) = (
        job.from.location.join(&job.item.name),
        job.to.location.join(&job.name),
    );
    for offset in content::probes(from, len as u64) {
        let ours = content::sample(&source, &source_place, offset, len, &context.pool).await?;
        let theirs = content::sample(&copy, &copy_place, offset, len, &context.pool).await?;
        if ours != theirs {
            return Ok(false);
        }
    }
    Ok(true)
}
