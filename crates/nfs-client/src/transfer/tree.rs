//! Trees: directories are walked, made and finished; files are handed out.
//!
//! A few walkers read directories at once; each goes down first, so that what is held in memory is
//! one part of a listing for each directory on the way down. The files they find wait in a short
//! queue. A directory is finished (mode, times, owner) when the last thing in it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nfs_wire::nfs3::{Fattr3, Ftype3};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

use super::decide;
use super::dir::{Dir, Made, Side};
use super::error::TransferError;
use super::file;
use super::item::{Item, type_name};
use super::job::{Context, Destination, Job};
use super::links::{Copy, Name, Origin};
use super::listing::Listing;
use super::local;
use super::mirror::{self, Extra};
use super::options::{Follow, Options};
use super::place::Location;
use super::special;
use super::stream;
use super::threads::blocking;
use super::watch::{Done, What};
use crate::limits::{
    RETRY_PAUSE_FIRST, RETRY_PAUSE_MAX, TREE_DEPTH_MAX, WALKERS_MAX, WORK_QUEUE_MAX,
};

/// Something to be done by a task of its own.
pub(super) enum Work {
    File(Box<Job>, Option<Arc<Level>>, OwnedSemaphorePermit),
    Walk(Box<Walker>, OwnedSemaphorePermit),
}

/// A directory that is being filled.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) to: Dir,
    pub(super) from: Dir,
    pub(super) source: Fattr3,
    /// The destination as it was made or found.
    pub(super) there: Fattr3,
    pub(super) new: bool,
    pub(super) parent: Option<Arc<Self>>,
    /// Names below the source, for [`Options::filter`]; empty for the source.
    pub(super) path: Vec<u8>,
    pub(super) depth: usize,
    /// Something was done in it, so that its time is another.
    pub(super) touched: AtomicBool,
}

/// One of the tasks that read directories, with those it is in.
pub(super) struct Walker {
    frames: Vec<Frame>,
    queue: WorkQueue,
}

/// A directory that is being read.
struct Frame {
    listing: Listing,
    level: Arc<Level>,
    /// Of a mirror: what the destination has and has not been come to in the source.
    extra: Option<Extra>,
}

impl Frame {
    async fn new(context: &Context, level: Arc<Level>) -> Result<Self, TransferError> {
        Ok(Self {
            listing: Listing::new(level.from.clone()),
            extra: mirror::extra_of(context, &level).await?,
            level,
        })
    }
}

/// The work that was found and is not done yet. Held by all who may find more; a clone is another handle.
#[derive(Clone)]
pub(super) struct WorkQueue {
    pub(super) context: Arc<Context>,
    work: mpsc::Sender<Work>,
    files: Arc<Semaphore>,
    walkers: Arc<Semaphore>,
    /// The directories that the copy goes to; none of them is copied into itself.
    tops: Arc<parking_lot::Mutex<Vec<(Dir, Item)>>>,
}

/// Runs `find`, which hands out work, and all the work that comes of it.
pub(super) async fn run<F>(context: Arc<Context>, find: impl FnOnce(WorkQueue) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (work, mut found) = mpsc::channel(WORK_QUEUE_MAX);
    let jobs = context.options.jobs.clamp(1, crate::limits::JOBS_MAX);
    let queue = WorkQueue {
        context: context.clone(),
        work,
        files: Arc::new(Semaphore::new(usize::try_from(jobs).unwrap_or(1))),
        walkers: Arc::new(Semaphore::new(WALKERS_MAX)),
        tops: Arc::default(),
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(find(queue));
    let mut open = true;
    loop {
        tokio::select! {
            next = found.recv(), if open => match next {
                Some(Work::File(job, level, permit)) => {
                    let context = context.clone();
                    tasks.spawn(async move {
                        let changed = one(&context, *job).await;
                        if changed && let Some(level) = &level {
                            level.touched.store(true, Ordering::Relaxed);
                        }
                        release(&context, level).await;
                        drop(permit);
                    });
                }
                Some(Work::Walk(walker, permit)) => {
                    tasks.spawn(async move {
                        walker.walk().await;
                        drop(permit);
                    });
                }
                None => {
                    open = false;
                    context.watch.walked();
                }
            },
            ended = tasks.join_next(), if !tasks.is_empty() => {
                if let Some(Err(error)) = ended && error.is_panic() {
                    std::panic::resume_unwind(error.into_panic());
                }
            }
            else => return,
        }
    }
}

impl WorkQueue {
    /// Queues one file to be copied, once fewer files than jobs are on their way.
    pub(super) async fn file(&self, job: Job, level: Option<Arc<Level>>) {
        let bytes = match job.item.attributes.ftype {
            Ftype3::Reg => job.item.attributes.size,
            _ => 0,
        };
        self.context.watch.found(bytes);
        if job.stream.is_some() && job.item.attributes.ftype != Ftype3::Reg {
            self.context.watch.found_stream();
        }
        self.context.look_at_times(&job.item);
        // Neither is ever closed while somebody holds this queue; a copy that is given up drops both.
        if let Ok(permit) = self.files.clone().acquire_owned().await {
            drop(
                self.work
                    .send(Work::File(Box::new(job), level, permit))
                    .await,
            );
        }
    }

    /// Queues all files of the tree at `level` to be copied.
    pub(super) async fn tree(&self, level: Arc<Level>) {
        if let Some(item) = super::ends::itself(&level.to).await {
            self.tops.lock().push((level.to.clone(), item));
        }
        let frame = match Frame::new(&self.context, level).await {
            Ok(frame) => frame,
            Err(error) => return self.context.watch.failed(&error),
        };
        let walker = Walker {
            frames: vec![frame],
            queue: self.clone(),
        };
        if let Ok(permit) = self.walkers.clone().acquire_owned().await {
            drop(self.work.send(Work::Walk(Box::new(walker), permit)).await);
        }
    }

    fn is_top(&self, dir: &Dir, item: &Item) -> Option<Location> {
        let tops = self.tops.lock();
        let top = tops
            .iter()
            .find(|(top, there)| file::is_same_file(dir, item, top, there));
        top.map(|(top, _)| top.location.clone())
    }
}

impl Walker {
    async fn walk(mut self) {
        let context = self.queue.context.clone();
        while let Some(frame) = self.frames.last_mut() {
            if context.watch.is_stopped() {
                break;
            }
            let found = match frame.listing.next().await {
                Some(Ok(item)) => item,
                Some(Err(error)) => {
                    context.watch.failed(&error);
                    continue;
                }
                None => {
                    if let Some(frame) = self.frames.pop() {
                        if let Some(extra) = frame.extra {
                            context.extras.add(&context, &frame.level, extra);
                        }
                        release(&context, Some(frame.level)).await;
                    }
                    continue;
                }
            };
            let level = frame.level.clone();
            let known = frame.extra.as_mut().map(|extra| Known {
                there: extra.take(&found.name),
                partial: extra.take(&mirror::partial_name(&level.from, &found.name)),
            });
            if let Err(error) = self.take(&level, found, known).await {
                context.watch.failed(&error);
            }
            release(&context, Some(level)).await;
        }
    }

    async fn take(
        &mut self,
        level: &Arc<Level>,
        found: Item,
        known: Option<Known>,
    ) -> Result<(), TransferError> {
        let context = self.queue.context.clone();
        let is_link = found.attributes.ftype == Ftype3::Lnk;
        // A link that is followed is what it leads to: a directory, perhaps.
        let is_followed = is_link && self.follows_all();
        if !is_followed && !is_taken(&context, level, &found) {
            return Ok(());
        }
        let item = match self.queue.context.options.follow {
            Follow::Always if found.attributes.ftype == Ftype3::Lnk => {
                level.from.followed(&found).await?
            }
            _ => found,
        };
        if is_followed && !is_taken(&context, level, &item) {
            return Ok(());
        }
        let is_dir = item.attributes.ftype == Ftype3::Dir;
        let (known, partial) = match known {
            Some(known) => (Some(known.there), known.partial),
            None => (None, None),
        };
        let known = match known {
            Some(Some(there)) => {
                let stays = mirror::clear_way(&context, &level.to, &there, is_dir).await?;
                Some(stays.then_some(there))
            }
            known => known,
        };
        if !is_dir {
            let there = match known {
                None if level.new => Destination::Free,
                None => Destination::Unknown,
                Some(None) => Destination::Free,
                Some(Some(there)) => Destination::Taken(there),
            };
            let job = Job {
                from: level.from.clone(),
                name: item.name.clone(),
                item,
                stream: None,
                to: level.to.clone(),
                there,
                partial,
            };
            self.queue.file(job, Some(level.clone())).await;
            return Ok(());
        }
        let below = self.enter(level, &item, known.flatten()).await?;
        let frame = Frame::new(&context, below).await?;
        match self.queue.walkers.clone().try_acquire_owned() {
            Ok(permit) => {
                let walker = Self {
                    frames: vec![frame],
                    queue: self.queue.clone(),
                };
                let work = Work::Walk(Box::new(walker), permit);
                drop(self.queue.work.send(work).await);
            }
            Err(_) => self.frames.push(frame),
        }
        Ok(())
    }

    fn follows_all(&self) -> bool {
        self.queue.context.options.follow == Follow::Always
    }

    /// Makes the directory `item` of `level` at the destination, and opens both.
    async fn enter(
        &self,
        level: &Arc<Level>,
        item: &Item,
        there: Option<Item>,
    ) -> Result<Arc<Level>, TransferError> {
        let place = || Box::new(level.from.location.join(&item.name));
        if level.depth >= TREE_DEPTH_MAX {
            return Err(TransferError::TooDeep { place: place() });
        }
        if let Some(other) = self.queue.is_top(&level.from, item) {
            return Err(TransferError::IntoItself {
                place: place(),
                other: Box::new(other),
            });
        }
        if item.follow && is_ancestor(level, item) {
            return Err(TransferError::IntoItself {
                place: place(),
                other: Box::new(level.from.location.clone()),
            });
        }
        let from = level.from.open_dir(item).await?;
        let context = &self.queue.context;
        let made = match there {
            Some(there) if there.attributes.ftype == Ftype3::Dir => {
                context.look_at_times(item);
                MadeDir {
                    dir: level.to.open_dir(&there).await?,
                    attributes: there.attributes,
                    new: false,
                }
            }
            _ => make(context, &level.to, &item.name, item, level.new, &from).await?,
        };
        if made.new {
            level.touched.store(true, Ordering::Relaxed);
        }
        Ok(Arc::new(Level {
            to: made.dir,
            from,
            source: item.attributes,
            there: made.attributes,
            new: made.new,
            parent: Some(level.clone()),
            path: mirror::below(&level.path, &item.name),
            depth: level.depth + 1,
            touched: AtomicBool::new(false),
        }))
    }
}

/// What a mirror knows of a name before it comes to it.
struct Known {
    there: Option<Item>,
    /// What an earlier run left of it.
    partial: Option<Item>,
}

/// Whether the options take `item` of the directory at `level`.
pub(super) fn is_taken(context: &Context, level: &Level, item: &Item) -> bool {
    let options = &context.options;
    if options.filter.is_empty() && options.only.is_empty() {
        return true;
    }
    let is_dir = item.attributes.ftype == Ftype3::Dir;
    let path = mirror::below(&level.path, &item.name);
    let listed = options.only.is_empty() || context.only.takes(&path, is_dir);
    listed && options.filter.takes(&path, is_dir)
}

fn is_ancestor(level: &Arc<Level>, item: &Item) -> bool {
    let same = |source: &Fattr3| {
        (source.fsid, source.fileid) == (item.attributes.fsid, item.attributes.fileid)
    };
    let mut at = Some(level);
    while let Some(level) = at {
        if same(&level.source) {
            return true;
        }
        at = level.parent.as_ref();
    }
    false
}

/// A directory of the destination, made or found.
pub(super) struct MadeDir {
    pub(super) dir: Dir,
    pub(super) attributes: Fattr3,
    pub(super) new: bool,
}

/// Makes the directory `name` in `to` like `item`, or takes the one that is there. `parent_new`: nothing
/// can be there.
pub(super) async fn make(
    context: &Context,
    to: &Dir,
    name: &[u8],
    item: &Item,
    parent_new: bool,
    from: &Dir,
) -> Result<MadeDir, TransferError> {
    let options = &context.options;
    context.look_at_times(item);
    let report = |dir: &Dir| {
        context.watch.done(&Done {
            source: from.location.clone(),
            destination: dir.location.clone(),
            what: What::Directory,
            bytes: 0,
            checksum: None,
        });
    };
    if !options.dry_run {
        let mode = decide::first_dir_mode(&item.attributes, options);
        if let Made::New((dir, attributes)) = to.make_dir(name, mode).await? {
            report(&dir);
            return Ok(MadeDir {
                dir,
                attributes,
                new: true,
            });
        }
    }
    let there = match options.dry_run && parent_new {
        true => None,
        false => to.look_up(name).await?,
    };
    match there {
        Some(there) if there.attributes.ftype == Ftype3::Dir => Ok(MadeDir {
            dir: to.open_dir(&there).await?,
            attributes: there.attributes,
            new: false,
        }),
        Some(there) => Err(TransferError::InTheWay {
            place: Box::new(to.location.join(name)),
            is: type_name(there.attributes.ftype),
            by: "directory",
        }),
        None if options.dry_run => {
            // It is not there, and is not made: nothing below asks for it.
            let dir = Dir {
                side: to.side.clone(),
                location: to.location.join(name),
            };
            report(&dir);
            Ok(MadeDir {
                dir,
                attributes: item.attributes,
                new: true,
            })
        }
        None => Err(TransferError::Unsteady {
            place: Box::new(to.location.join(name)),
        }),
    }
}

/// Lets go of a directory; who is the last finishes it, and so on upwards.
pub(super) async fn release(context: &Context, mut level: Option<Arc<Level>>) {
    while let Some(last) = level.and_then(Arc::into_inner) {
        // One that was not filled gets its mode from the copy that goes on.
        if !context.watch.is_stopped()
            && !context.options.dry_run
            && let Err(error) = finish(context, &last).await
        {
            context.watch.failed(&error);
        }
        level = last.parent;
    }
}

async fn finish(context: &Context, level: &Level) -> Result<(), TransferError> {
    let options = &context.options;
    let set = decide::last_attributes(&level.source, &level.there, level.new, options);
    let is_untouched = options.mirror.is_some() && !level.touched.load(Ordering::Relaxed);
    if let Some(set) = set
        && !(is_untouched && decide::is_dressed(&set, &level.there))
    {
        match level.to.set_attributes(&set).await {
            Err(error) if file::names_owner(&set) && error.is_not_permitted() => {
                level
                    .to
                    .set_attributes(&decide::without_owner(&set))
                    .await?;
                context.watch.owner_not_kept();
            }
            set => set?,
        }
    }
    sync_dir(options, &level.to).await
}

/// Brings a directory of this host to stable storage, if that is asked for.
async fn sync_dir(options: &Options, dir: &Dir) -> Result<(), TransferError> {
    let Side::Local(fd) = &dir.side else {
        return Ok(());
    };
    if !options.fsync || options.dry_run {
        return Ok(());
    }
    let fd = fd.clone();
    let synced = blocking(move || rustix::fs::fsync(&*fd)).await;
    synced.map_err(|error| TransferError::local(&dir.location, "fsync", error.into()))
}

/// Copies one thing that is not a directory, and reports it; whether something may be another now.
async fn one(context: &Context, mut job: Job) -> bool {
    let mut pause = RETRY_PAUSE_FIRST;
    for attempt in 0..=context.options.retries {
        if context.watch.is_stopped() {
            return true;
        }
        let copied = async {
            let done = named(context, &job).await?;
            // In a tree, the directory is flushed when it is finished.
            if !matches!(job.there, Destination::Free | Destination::Stream(_)) {
                sync_dir(&context.options, &job.to).await?;
            }
            Ok::<_, TransferError>(done)
        };
        match copied.await {
            Ok(done) => {
                context.watch.done(&done);
                return !done.what.is_left();
            }
            Err(error)
                if attempt < context.options.retries && error.may_pass() && !job.is_once() =>
            {
                context.pace().pause(pause).await;
                pause = (pause * 2).min(RETRY_PAUSE_MAX);
                job = looked_at_again(job).await;
            }
            Err(error) => {
                context.watch.failed(&error);
                return true;
            }
        }
    }
    true
}

/// A job with its source as it is now, and nothing known of its destination.
async fn looked_at_again(job: Job) -> Job {
    let now = match job.item.follow {
        true => None,
        false => job.from.look_up(&job.item.name).await.ok().flatten(),
    };
    Job {
        item: now.unwrap_or_else(|| job.item.clone()),
        there: match job.there {
            Destination::Taken(there) if there.follow => Destination::Taken(there),
            _ => Destination::Unknown,
        },
        partial: None,
        ..job
    }
}

/// As [`any`], or as a further name of what was copied before.
async fn named(context: &Context, job: &Job) -> Result<Done, TransferError> {
    let attributes = &job.item.attributes;
    let keeps = context.options.preserve.links && !context.options.dry_run;
    if !keeps || attributes.nlink < 2 || job.is_once() {
        return any(context, job).await;
    }
    let links = &context.links;
    match links.name_of(job.from.origin(), attributes).await {
        Name::Alone => any(context, job).await,
        Name::First(first) => {
            let done = any(context, job).await?;
            let copy = match &job.to.side {
                Side::Local(_) => match &done.destination {
                    Location::Local(path) => Some(Copy::Local(path.clone())),
                    Location::Remote(_) => None,
                },
                Side::Remote { .. } => {
                    let item = job.to.look_up(&job.name).await?;
                    item.and_then(|item| item.handle).map(Copy::Remote)
                }
            };
            // Nobody may be waiting.
            drop(first.send(copy));
            Ok(done)
        }
        Name::Further(copy) => {
            let what = link(job, &copy).await?;
            context.watch.left(attributes.size);
            Ok(job.done(what, 0))
        }
    }
}

/// Gives the copy this further name; [`What::Complete`] if it has it already.
async fn link(job: &Job, copy: &Copy) -> Result<What, TransferError> {
    if let Made::New(()) = job.to.link(&job.name, copy).await? {
        return Ok(What::Linked);
    }
    let there = job.to.look_up(&job.name).await?;
    let is_copy = match (copy, &there) {
        (Copy::Remote(handle), Some(there)) => there.handle == Some(*handle),
        (Copy::Local(path), Some(there)) => {
            let path = path.clone();
            let found = blocking(move || std::fs::symlink_metadata(path)).await;
            found.is_ok_and(|found| {
                std::os::unix::fs::MetadataExt::ino(&found) == there.attributes.fileid
            })
        }
        (_, None) => false,
    };
    if is_copy {
        return Ok(What::Complete);
    }
    job.to.remove(&job.name).await?;
    match job.to.link(&job.name, copy).await? {
        Made::New(()) => Ok(What::Linked),
        Made::Exists => Err(TransferError::Unsteady {
            place: Box::new(job.to.location.join(&job.name)),
        }),
    }
}

async fn any(context: &Context, job: &Job) -> Result<Done, TransferError> {
    if let Destination::Stream(to) = &job.there {
        return stream::copy_into(context, job, to).await;
    }
    if job.stream.is_some() {
        stream::check(context, job, None)?;
        return file::copy(context, job).await;
    }
    match job.item.attributes.ftype {
        Ftype3::Reg => file::copy(context, job).await,
        Ftype3::Lnk => special::copy(context, job, What::Symlink).await,
        Ftype3::Fifo | Ftype3::Sock | Ftype3::Chr | Ftype3::Blk if context.options.recursive => {
            special::copy(context, job, What::Special).await
        }
        special => Err(TransferError::Special {
            place: Box::new(job.from.location.join(&job.item.name)),
            is: type_name(special),
        }),
    }
}

/// Opens a source directory that was named.
pub(super) async fn open_named(dir: &Dir, item: &Item) -> Result<Dir, TransferError> {
    if item.name == b"." && matches!(dir.side, Side::Local(_)) {
        return Ok(dir.clone());
    }
    let mut opened = dir.open_dir(item).await?;
    if item.name == b"." {
        opened.location = dir.location.clone();
    }
    Ok(opened)
}

impl Dir {
    /// Where its files' numbers are no others'.
    fn origin(&self) -> Origin {
        match &self.side {
            Side::Local(_) => Origin::Here,
            Side::Remote { client, .. } => {
                let target = client.nfs().connection().target();
                Origin::Export(target.clone(), *client.root())
            }
        }
    }

    /// What the symbolic link `link` in this directory leads to.
    async fn followed(&self, link: &Item) -> Result<Item, TransferError> {
        match &self.side {
            Side::Local(fd) => {
                let found = self.local(fd, &link.name, "stat", |fd, name| {
                    local::look_up(fd, name, true)
                });
                found.await
            }
            Side::Remote { client, .. } => {
                let Location::Remote(url) = self.location.join(&link.name) else {
                    return Ok(link.clone());
                };
                let above = crate::url::components(client.export()).count();
                let path: Vec<&[u8]> = url.components().skip(above).collect();
                let node = client.resolve(&path.join(&b'/')).await?;
                Ok(Item {
                    name: link.name.clone(),
                    attributes: node.attributes,
                    handle: Some(node.handle),
                    follow: true,
                    times_cut: false,
                })
            }
        }
    }

    /// Gives `copy` the further name `name` in this directory.
    async fn link(&self, name: &[u8], copy: &Copy) -> Result<Made<()>, TransferError> {
        match (&self.side, copy) {
            (Side::Local(fd), Copy::Local(existing)) => {
                let existing = existing.clone();
                let made = self.local(fd, name, "link", move |fd, name| {
                    super::dir::is_taken(local::link(&existing, fd, name))
                });
                Ok(made.await?.map_or(Made::Exists, Made::New))
            }
            (Side::Remote { client, handle }, Copy::Remote(file)) => {
                match client.link_in(file, handle, name).await {
                    Ok(()) => Ok(Made::New(())),
                    Err(error) if error.status() == Some(crate::nfs3::Nfsstat3::Exist) => {
                        Ok(Made::Exists)
                    }
                    Err(error) => Err(error.of(&self.location.join(name).name()).into()),
                }
            }
            // Copies are made on one side.
            (Side::Local(_), Copy::Remote(_)) | (Side::Remote { .. }, Copy::Local(_)) => {
                Ok(Made::Exists)
            }
        }
    }
}
