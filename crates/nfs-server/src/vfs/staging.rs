//! Ends of direct WRITEs that are held in memory until a neighbour completes their block
//! ([`nfs_io::staging`]): which files hold some, who waits for them, and how they get into the file.
//!
//! What is held was accepted UNSTABLE, and is in no file and no page cache: a crash loses it, as it may, and the
//! write verifier is another one afterwards. It goes into the file as soon as anybody asks for it
//! ([`Vfs::settle`]), and after [`limits::STAGED_MILLISECONDS_MAX`] whoever asks or not ([`Vfs::flush_aged`]). It
//! is kept by inode, as two exports may hold one file. A part keeps its file in the cache and open for writing.
//!
//! Memory is taken from that for the data of WRITEs and counts against the client that sent it. Where there is
//! none a WRITE is done as without staging; nobody waits for it.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut, Range};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use nfs_io::engine::execute;
use nfs_io::fs::Stat;
use nfs_io::staging::{Obstacle, Placed, Staging, Taken, Which};
use nfs_io::turns::Rule;
use nfs_io::{
    Budget, Buf, BufferPool, Creds, Errno, Keep, Mode, Op, Queue, Share, Sharer, Shares, WriteSync,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::gate::{Group, Pass};
use super::{Author, Error, Object, Result};
use crate::limits;
use crate::operate::counters::count;
use crate::vfs::Vfs;

/// A device and an inode number. Whoever holds bytes of a file has it open, so that they mean no other.
type Inode = (u64, u64);

/// Every byte of a file.
pub(super) const WHOLE: Range<u64> = 0..u64::MAX;

/// The files that hold ends of WRITEs, and what these may use.
pub(crate) struct Stages {
    files: Mutex<HashMap<Inode, Listed>>,
    /// How many files there are, for those who only want to know whether there is one.
    listed: AtomicUsize,
    buffers: BufferPool,
    shares: Shares,
    began: Instant,
    counters: StagedCounters,
}

/// A file stays listed for a sweep longer than it holds something: who asked for its attributes shortly before
/// that ended still finds it.
struct Listed {
    file: Arc<StagedFile>,
    was_idle: bool,
}

/// Why held bytes went into the file before their block was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Commit,
    Read,
    SetAttributes,
    Write,
    Time,
    End,
}

/// What staging did. Every number only grows but the last.
#[derive(Default)]
struct StagedCounters {
    writes: AtomicU64,
    refused: AtomicU64,
    completed: AtomicU64,
    flushed: [AtomicU64; Why::ALL.len()],
    lost: AtomicU64,
    read_modify_writes: AtomicU64,
    held_bytes: Arc<AtomicU64>,
}

impl Why {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Commit, "staged_flushed_commit"),
        (Self::Read, "staged_flushed_read"),
        (Self::SetAttributes, "staged_flushed_setattr"),
        (Self::Write, "staged_flushed_write"),
        (Self::Time, "staged_flushed_time"),
        (Self::End, "staged_flushed_end"),
    ];
}

/// The memory of one block, counted.
pub(super) struct Memory {
    /// `None` only while it is with the kernel.
    buf: Option<Buf>,
    _share: Share,
    held_bytes: Arc<AtomicU64>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        let bytes = limits::STAGED_BLOCK_BYTES as u64;
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buf.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.buf.as_deref_mut().unwrap_or_default()
    }
}

/// Who sent bytes that are held, and how they get into the file.
pub(super) struct Sender {
    pub(super) object: Arc<Object>,
    /// The descriptor for the page cache, which stays open: it hears of errors.
    pub(super) file: Arc<OwnedFd>,
    pub(super) creds: Creds,
    pub(super) author: Author,
    pub(super) queue: Queue,
}

type Held = Taken<Memory, Arc<Sender>>;

/// One file that holds ends of WRITEs.
pub(super) struct StagedFile {
    state: Mutex<Staging<Memory, Arc<Sender>>>,
    /// Something that was under way is over, or nothing is held up any more.
    changed: Notify,
}

impl Stages {
    /// May use a part of `budget`, which is that of the data of WRITEs.
    pub(super) fn new(budget: Budget) -> Self {
        let most = budget.total() / limits::STAGED_BUDGET_DIVISOR;
        Self {
            files: Mutex::default(),
            listed: AtomicUsize::new(0),
            buffers: BufferPool::keeping(budget, most),
            shares: Shares::new(most, Rule::TimesFree(limits::STAGED_TIMES_FREE_MAX)),
            began: Instant::now(),
            counters: StagedCounters::default(),
        }
    }

    /// Does any file hold something, or did a moment ago?
    pub(super) fn has_files(&self) -> bool {
        self.listed.load(Ordering::SeqCst) > 0
    }

    /// The file, if it holds something or did a moment ago.
    pub(super) fn of(&self, inode: Inode) -> Option<Arc<StagedFile>> {
        if !self.has_files() {
            return None;
        }
        let files = self.files.lock();
        files.get(&inode).map(|listed| Arc::clone(&listed.file))
    }

    /// The file, which may hold something from now on. `None` where too many files do.
    fn open(&self, inode: Inode) -> Option<Arc<StagedFile>> {
        let mut files = self.files.lock();
        if let Some(listed) = files.get_mut(&inode) {
            listed.was_idle = false;
            return Some(Arc::clone(&listed.file));
        }
        if files.len() >= limits::STAGED_FILES_MAX {
            return None;
        }
        let file = Arc::new(StagedFile {
            state: Mutex::new(Staging::new(limits::STAGED_BLOCK_BYTES)),
            changed: Notify::new(),
        });
        let listed = Listed {
            file: Arc::clone(&file),
            was_idle: false,
        };
        files.insert(inode, listed);
        self.listed.store(files.len(), Ordering::SeqCst);
        Some(file)
    }

    /// All files. Those are forgotten that held nothing at the sweep before either, and that nobody uses.
    fn sweep(&self) -> Vec<Arc<StagedFile>> {
        let mut files = self.files.lock();
        files.retain(|_, listed| {
            let idle = Arc::strong_count(&listed.file) == 1 && listed.file.state.lock().is_idle();
            let forget = idle && listed.was_idle;
            listed.was_idle = idle;
            !forget
        });
        self.listed.store(files.len(), Ordering::SeqCst);
        let files = files.values();
        files.map(|listed| Arc::clone(&listed.file)).collect()
    }

    /// Attributes as `ask` finds them, with the end of the file where clients were told that it is.
    pub(super) fn stat(&self, inode: Inode, ask: impl Fn() -> Result<Stat>) -> Result<Stat> {
        let Some(file) = self.of(inode) else {
            return ask();
        };
        let mut tries = 0;
        loop {
            let (_, before) = file.state.lock().end();
            let mut stat = ask()?;
            let (end, after) = file.state.lock().end();
            tries += 1;
            // In between, what was held may have gone into the file, and somebody may have cut the file.
            if before == after || tries >= limits::STAGED_SIZE_TRIES_MAX {
                stat.size = stat.size.max(end);
                return Ok(stat);
            }
        }
    }

    /// Milliseconds since the start of the server.
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn memory(&self, sharer: Sharer) -> Option<Memory> {
        let bytes = limits::STAGED_BLOCK_BYTES;
        let share = self.shares.try_take(sharer, bytes as u64)?;
        let buf = self.buffers.try_take(bytes)?;
        let held_bytes = Arc::clone(&self.counters.held_bytes);
        held_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Some(Memory {
            buf: Some(buf),
            _share: share,
            held_bytes,
        })
    }

    /// Takes note that a part of a block of a direct WRITE goes through the page cache: the kernel reads the
    /// block, if it has not got it, and writes it back.
    pub(super) fn note_partial_block(&self) {
        count(&self.counters.read_modify_writes);
    }

    /// The figures with their names.
    pub(crate) fn named(&self) -> Vec<(&'static str, u64)> {
        let of = &self.counters;
        let flushed = Why::ALL.iter().zip(&of.flushed);
        let flushed = flushed.map(|((_, name), counter)| (*name, counter));
        let others = [
            ("staged_writes", &of.writes),
            ("staged_refused", &of.refused),
            ("staged_blocks_completed", &of.completed),
            ("staged_blocks_lost", &of.lost),
            ("staged_bytes_held", &*of.held_bytes),
            ("read_modify_writes", &of.read_modify_writes),
        ];
        let all = others.into_iter().chain(flushed);
        all.map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
            .collect()
    }
}

/// A WRITE that was taken in by its file's staging.
pub(super) struct Staged {
    file: Arc<StagedFile>,
    number: u64,
    under_way: Option<Arc<UnderWay>>,
    asked: Range<u64>,
}

impl Staged {
    /// The range that the client asked for.
    pub(super) fn asked(&self) -> Range<u64> {
        self.asked.clone()
    }

    /// What must live until the kernel works no more on the WRITE's segments.
    pub(super) fn kept(&self) -> Option<Arc<UnderWay>> {
        self.under_way.clone()
    }

    /// The WRITE went well up to `end`, or up to its own end.
    pub(super) fn ended(self, end: u64) {
        let mut state = self.file.state.lock();
        if end < self.asked.end {
            let kept = if end > self.asked.start {
                self.asked.end..self.asked.end
            } else {
                self.asked.clone()
            };
            state.retract(self.number, &kept);
            return;
        }
        state.accepted(end);
        drop(state);
        if let Some(under_way) = &self.under_way {
            under_way.in_file.store(true, Ordering::Release);
        }
    }
}

/// Blocks that were taken out of a file's staging. Held again when the last of those goes who have it, unless it
/// was said that they are in the file.
pub(super) struct UnderWay {
    file: Arc<StagedFile>,
    taken: Mutex<Option<Held>>,
    in_file: AtomicBool,
}

impl UnderWay {
    fn new(file: &Arc<StagedFile>, taken: Held) -> Self {
        Self {
            file: Arc::clone(file),
            taken: Mutex::new(Some(taken)),
            in_file: AtomicBool::new(false),
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.get_mut().take() {
            let mut state = self.file.state.lock();
            if self.in_file.load(Ordering::Acquire) {
                let over = state.done(taken);
                drop(state);
                // Dropped outside the lock: it may be the last to hold the file.
                drop(over);
            } else {
                state.restore(taken);
            }
        }
        self.file.changed.notify_waiters();
    }
}

/// While this lives, no WRITE to the file is staged.
pub(super) struct Pause(Arc<StagedFile>);

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.state.lock().resume();
    }
}

impl Vfs {
    /// Takes in a WRITE of `data` to `asked`, once nothing is in its way. `None` where it is not to be staged:
    /// then nothing is held of its range any more.
    ///
    /// # Errors
    /// [`Error::Busy`] when too much waits for the file system.
    pub(super) async fn take_in(
        self: &Arc<Self>,
        sender: &Arc<Sender>,
        sharer: Sharer,
        asked: &Range<u64>,
        data: &[u8],
    ) -> Result<Option<(Staged, Placed<Memory, Arc<Sender>>)>> {
        let inode = sender.object.inode();
        let Some(file) = self.stages.open(inode) else {
            return Ok(None);
        };
        let now = self.stages.now();
        loop {
            let changed = file.changed.notified();
            let placed = {
                let mut state = file.state.lock();
                let room = state.blocks() + 2 <= limits::STAGED_BLOCKS_PER_FILE_MAX;
                let memory = || room.then(|| self.stages.memory(sharer)).flatten();
                state.write(asked.start, data, sender, now, memory)
            };
            match placed {
                Ok(placed) => {
                    count(&self.stages.counters.writes);
                    let staged = Staged {
                        file: Arc::clone(&file),
                        number: placed.number,
                        under_way: None,
                        asked: asked.clone(),
                    };
                    return Ok(Some((staged, placed)));
                }
                Err(Obstacle::UnderWay) => changed.await,
                Err(Obstacle::Covers) => self.settle(inode, asked, Why::Write).await?,
                Err(Obstacle::Paused | Obstacle::NoMiddle) => {
                    self.settle(inode, asked, Why::Write).await?;
                    return Ok(None);
                }
            }
        }
    }

    /// Gives the WRITE the blocks that go out with it.
    pub(super) fn join(&self, staged: &mut Staged, taken: Held) {
        if !taken.is_empty() {
            let blocks = taken.len() as u64;
            let completed = &self.stages.counters.completed;
            completed.fetch_add(blocks, Ordering::Relaxed);
            staged.under_way = Some(Arc::new(UnderWay::new(&staged.file, taken)));
        }
    }

    pub(super) fn note_refused_part(&self) {
        count(&self.stages.counters.refused);
    }

    /// Returns when the bytes of `range` that were accepted before the call are in the file, or lost. What is
    /// lost is told to its senders, each at its next COMMIT, and has changed the verifier.
    ///
    /// # Errors
    /// [`Error::Busy`] when too much waits for the file system: then some are still held.
    pub(super) async fn settle(
        self: &Arc<Self>,
        inode: Inode,
        range: &Range<u64>,
        why: Why,
    ) -> Result<()> {
        match self.settle_all(inode, range, why).await {
            Err(Error::Busy) => Err(Error::Busy),
            // Told to those whom it concerns.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// As [`Vfs::settle`], for a caller who is to hear of what is lost.
    ///
    /// # Errors
    /// Also those of the writes.
    pub(super) async fn settle_all(
        self: &Arc<Self>,
        inode: Inode,
        range: &Range<u64>,
        why: Why,
    ) -> Result<()> {
        let Some(file) = self.stages.of(inode) else {
            return Ok(());
        };
        let mut result = Ok(());
        let moment = file.state.lock().moment();
        loop {
            let changed = file.changed.notified();
            let (taken, is_under_way) = {
                let mut state = file.state.lock();
                let taken = state.take(range, Which::Before(moment));
                (taken, state.is_under_way(range, moment))
            };
            if let Some(taken) = taken {
                match self.flush_held(&file, taken, why).await {
                    Err(Error::Busy) => return Err(Error::Busy),
                    flushed => result = result.and(flushed),
                }
            } else if is_under_way {
                changed.await;
            } else {
                return result;
            }
        }
    }

    /// Has nothing staged of a file, for as long as the answer lives, and all that was held of it in the file.
    ///
    /// # Errors
    /// [`Error::Busy`] when too much waits for the file system.
    pub(super) async fn pause_staging(self: &Arc<Self>, inode: Inode) -> Result<Option<Pause>> {
        let Some(file) = self.stages.of(inode) else {
            return Ok(None);
        };
        file.state.lock().pause();
        let pause = Pause(file);
        self.settle(inode, &WHOLE, Why::SetAttributes).await?;
        Ok(Some(pause))
    }

    /// Has those bytes written that were held for long.
    pub(crate) fn flush_aged(self: &Arc<Self>) {
        let since_max = self
            .stages
            .now()
            .checked_sub(limits::STAGED_MILLISECONDS_MAX);
        for file in self.stages.sweep() {
            let due = |since| file.state.lock().take(&WHOLE, Which::HeldSince(since));
            if let Some(taken) = since_max.and_then(due) {
                let vfs = Arc::clone(self);
                // Beside each other: a file system may not answer. Where it is too busy, another time; what
                // is lost has been noted.
                tokio::spawn(async move { vfs.flush_held(&file, taken, Why::Time).await });
            }
        }
    }

    /// Has everything written, at the end of the server.
    pub(crate) async fn flush_stages(self: &Arc<Self>) {
        let inodes: Vec<Inode> = self.stages.files.lock().keys().copied().collect();
        for inode in inodes {
            // Nobody is left to be told.
            let _noted = self.settle(inode, &WHOLE, Why::End).await;
        }
    }

    async fn flush_held(
        self: &Arc<Self>,
        file: &Arc<StagedFile>,
        mut taken: Held,
        why: Why,
    ) -> Result<()> {
        let first = first_sender(&mut taken);
        let under_way = UnderWay::new(file, taken);
        // Who holds a sender last may close its file, which can take long: that is the job.
        let Some((gate, queue)) = first.map(|sender| {
            let gate = sender.object.gate(&self.gates);
            (Arc::clone(gate), sender.queue)
        }) else {
            return Ok(());
        };
        let pass = Pass::of(&gate, Group::Cached).await;
        let vfs = Arc::clone(self);
        let job = move || {
            let _pass = pass;
            vfs.write_held(under_way, why)
        };
        self.blocking(queue, job).await?
    }

    /// Writes what was taken out, through the page cache. May wait for the disk.
    fn write_held(&self, under_way: UnderWay, why: Why) -> Result<()> {
        let mut result = Ok(());
        let mut flushed = Why::ALL.iter().zip(&self.stages.counters.flushed);
        let flushed = flushed.find(|((reason, _), _)| *reason == why);
        if let Some(taken) = &mut *under_way.taken.lock() {
            if let Some((_, counter)) = flushed {
                counter.fetch_add(taken.len() as u64, Ordering::Relaxed);
            }
            for (start, block) in taken.blocks_mut() {
                let parts: Vec<_> = block
                    .parts()
                    .map(|(at, who)| (at, Arc::clone(who)))
                    .collect();
                for (at, sender) in parts {
                    self.stages.note_partial_block();
                    // At most.
                    let bytes = limits::STAGED_BLOCK_BYTES as u64;
                    match write_part(&sender, start, block.memory_mut(), at) {
                        Ok(()) => sender.object.io.note_unstable(sender.author, bytes),
                        Err(error) => {
                            count(&self.stages.counters.lost);
                            sender.object.io.note_unstable(sender.author, bytes);
                            self.lost(&sender.object);
                            result = Err(error);
                        }
                    }
                }
            }
        }
        under_way.in_file.store(true, Ordering::Release);
        result
    }
}

fn first_sender(taken: &mut Held) -> Option<Arc<Sender>> {
    let (_, block) = taken.blocks_mut().next()?;
    block.parts().next().map(|(_, sender)| Arc::clone(sender))
}

/// Writes one part of a block that begins at `start` of the file, all of it and nothing else.
fn write_part(sender: &Sender, start: u64, memory: &mut Memory, part: Range<usize>) -> Result<()> {
    let mut left = part;
    while !left.is_empty() {
        let buf = memory.buf.take().ok_or(Error::Errno(Errno::IO))?;
        let op = Op::Write {
            file: Arc::clone(&sender.file),
            offset: start + left.start as u64,
            buf,
            range: left.clone(),
            sync: WriteSync::None,
            mode: Mode::Buffered,
            may_wait: false,
            keep: Keep::none(),
        };
        let done = execute(op, &sender.creds);
        memory.buf = done.buf;
        match done.result? {
            0 => return Err(Error::Errno(Errno::NOSPC)),
            written => left.start += written,
        }
    }
    Ok(())
}
