//! Writing: data is taken over at once and sent in the background, a window of WRITEs at a time.
//!
//! [`Writing`] is one file's: what waits, flies and is kept ([`super::commit`]), small pieces that are
//! being put together ([`gather`]), and the tasks that carry calls out ([`behind`]). The tasks hold no
//! reference that would keep it alive. With the last [`super::File`] it gives up what it has, and stays
//! only until the WRITEs that are on their way are answered: whoever opens the file before gets it again.
//!
//! Order: writes are sent in the order they were accepted, and two that overlap never at the same time.
//! What has to see everything written before it, and nothing after (a change of the length, an
//! append), takes the file's turn.

mod behind;
mod gather;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use nfs_io::budget::Reclaim;
use nfs_wire::nfs3::{Fattr3, FileHandle, Nfsstat3, Sattr3, SetTime};
use tokio::sync::{Notify, RwLock};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::behind::Underway;
use self::gather::{Need, Right, Tail, counted};
use super::Files;
use super::ahead::Reading;
use super::attributes::Attributes;
use super::commit::{Kept, Policy, Writer};
use super::memory::{Direction, Lane, Memory, Share};
use super::window::Window;
use crate::connection::Connections;
use crate::error::{ClientError, Lost, RpcError, refused};
use crate::limits::{FILE_UNCOMMITTED_BYTES_MAX, GATHER_FRACTION, WRITE_BEHIND_TRANSFERS_MAX};
use crate::nfs::Nfs;
use crate::nfs3::Node;

/// The written and not yet stable data of one file. See the module's documentation.
#[derive(Debug)]
pub(super) struct Writing {
    me: Weak<Self>,
    files: Arc<Files>,
    handle: FileHandle,
    path: Vec<u8>,
    /// Bytes of a full WRITE.
    transfer: usize,
    connections: Connections,
    memory: Memory,
    lane: Lane,
    attributes: Arc<Attributes>,
    /// What has to know of changes: the reads of each identity.
    readings: Mutex<Vec<Weak<Reading>>>,
    /// Writes share it; what is ordered against all of them has it alone.
    turn: Arc<RwLock<()>>,
    /// Wakes those who wait for a call's answer.
    changed: Notify,
    /// A task ended whose call's answer nobody takes in.
    cut_off: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The identities that have the file open, once each; their data names them by their place.
    writers: Vec<Nfs>,
    kept: Kept,
    /// What [`Connections::remade`] was when a call was sent that the server has answered with its
    /// present verifier.
    confirmed: u64,
    tail: Option<Tail>,
    tails: u64,
    window: Window,
    /// Held while anything is kept.
    share: Option<Share>,
    tasks: JoinSet<()>,
    /// A task waits to send what has lingered.
    lingering: bool,
    registered: bool,
    /// Whoever has the file open and shares it: one, or for a moment one that goes and one that comes.
    opens: usize,
    /// A task waits for the WRITEs that the last open left on their way.
    leaving: bool,
    failures: u64,
    failure: Option<ClientError>,
}

/// What was known of the server when a read began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// What [`Connections::remade`] was at that time.
    remade: u64,
    /// There was data that the server may lose.
    at_risk: bool,
}

/// What one opened [`super::File`] was told of failures.
#[derive(Debug)]
pub(super) struct Opened {
    writer: Writer,
    /// Failures before it was opened.
    base: u64,
    told: AtomicU64,
}

impl Writing {
    pub(super) fn new(
        files: &Arc<Files>,
        nfs: &Nfs,
        node: &Node,
        path: &[u8],
        attributes: Arc<Attributes>,
    ) -> Arc<Self> {
        let windows = files.windows;
        let transfer = files.transfer.write.min(windows.transfer_bytes_max);
        let state = State {
            writers: Vec::new(),
            kept: Kept::of_size(node.attributes.size),
            confirmed: nfs.connections().remade(),
            tail: None,
            tails: 0,
            window: Window::new(
                windows.write,
                files.memory.found(Direction::Write),
                WRITE_BEHIND_TRANSFERS_MAX,
            ),
            share: None,
            tasks: JoinSet::new(),
            lingering: false,
            registered: false,
            opens: 0,
            leaving: false,
            failures: 0,
            failure: None,
        };
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            files: files.clone(),
            handle: node.handle,
            path: path.to_vec(),
            transfer: usize::try_from(transfer.max(1)).unwrap_or(usize::MAX),
            connections: nfs.connections().clone(),
            memory: files.memory.clone(),
            lane: Lane::new(),
            attributes,
            readings: Mutex::default(),
            turn: Arc::new(RwLock::new(())),
            changed: Notify::new(),
            cut_off: AtomicBool::new(false),
            state: Mutex::new(state),
        })
    }

    /// The memory of all files of the client.
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The files of the client.
    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    pub(super) fn attributes(&self) -> &Arc<Attributes> {
        &self.attributes
    }

    /// Somebody has the file open, until [`Self::left`].
    pub(super) fn entered(&self) {
        self.lock().opens += 1;
    }

    /// Nobody has it open any more, unless somebody came meanwhile. What is not on its way is given up.
    /// What is, the server may still execute, and it would come out on top of what is done to the file
    /// later: this stays until all of it is answered, which its connection sees to, one way or the other.
    pub(super) fn left(self: &Arc<Self>) {
        let mut state = self.lock();
        state.opens = state.opens.saturating_sub(1);
        if state.opens > 0 {
            return;
        }
        let tail = state.tail.take();
        state.kept.abandon();
        let stays = state.kept.flies() && !state.leaving;
        state.leaving |= stays;
        drop(state);
        drop(tail);
        if stays {
            let this = self.clone();
            let answered = async move {
                this.until(|state| {
                    state.leaving = state.kept.flies();
                    (!state.leaving).then_some(())
                })
                .await;
            };
            // The end of the runtime ends it, and the calls as well.
            drop(self.connections.first().runtime().spawn(answered));
        }
    }

    /// What a file begins with that is newly opened as the identity of `nfs`.
    pub(super) fn opened(&self, nfs: &Nfs) -> Opened {
        let mut state = self.lock();
        let same = |writer: &Nfs| writer.identity() == nfs.identity();
        let place = state.writers.iter().position(same);
        let place = place.unwrap_or_else(|| {
            state.writers.push(nfs.clone());
            state.writers.len() - 1
        });
        let base = state.failures;
        Opened {
            writer: Writer(place),
            base,
            told: AtomicU64::new(base),
        }
    }

    pub(super) async fn write_at(
        &self,
        opened: &Opened,
        offset: u64,
        data: Bytes,
    ) -> Result<(), ClientError> {
        let _turn = self.turn.read().await;
        self.tell_new(opened)?;
        self.accept_all(opened, offset, data).await
    }

    /// Writes at the end, and returns where that was. `server_size` is asked for the size that the
    /// server knows, when it is our turn.
    pub(super) async fn append(
        &self,
        opened: &Opened,
        data: Bytes,
        server_size: impl AsyncFnOnce() -> Result<u64, ClientError>,
    ) -> Result<u64, ClientError> {
        let _turn = self.turn.write().await;
        self.tell_new(opened)?;
        // Asked first: what was on its way when the server looked may be there when its answer comes.
        let written = self.end();
        let end = server_size().await?.max(written).max(self.end());
        self.accept_all(opened, end, data).await?;
        Ok(end)
    }

    /// Waits until all that was accepted is at the server.
    pub(super) async fn flush(&self, opened: &Opened) -> Result<(), ClientError> {
        self.arrived().await;
        self.tell(opened)
    }

    /// As [`Self::flush`], without a word of what failed.
    pub(super) async fn arrived(&self) {
        let number = {
            let mut state = self.lock();
            self.send_all(&mut state);
            state.kept.next_number()
        };
        self.until(|state| state.kept.is_written(number).then_some(()))
            .await;
    }

    /// Waits until all that was accepted is on stable storage.
    pub(super) async fn sync(&self, opened: &Opened) -> Result<(), ClientError> {
        let number = self.press(&mut self.lock());
        self.until(|state| state.kept.is_stable(number).then_some(()))
            .await;
        self.tell(opened)
    }

    /// Waits until a read of `start..end` sees what was accepted.
    ///
    /// What the server took and did not commit, a restart loses, and a READ may be answered by the new
    /// server before any WRITE or COMMIT has shown its verifier. So once a connection was made again, the
    /// server is asked (COMMIT) whether it is the one that took the data, and the data sent again if not.
    pub(super) async fn visible(&self, start: u64, end: u64) -> Seen {
        let looked = |state: &mut State| {
            // First of all: what is made again from here on is seen by `still_good`.
            let remade = self.connections.remade();
            let at_risk = state.kept.is_at_risk(start);
            if at_risk && state.confirmed < remade {
                self.press(state);
                return None;
            }
            let grows = end > state.kept.answered_end();
            let hides = |tail: &Tail| tail.end() > start && (grows || tail.offset() < end);
            if state.tail.as_ref().is_some_and(hides) {
                self.send_all(state);
            }
            let visible = state.kept.is_visible(start, end);
            if !visible {
                state.kept.release();
                self.pump(state);
            }
            visible.then_some(Seen { remade, at_risk })
        };
        self.until(looked).await
    }

    /// Whether a read that was sent after [`Self::visible`] has surely seen what was accepted before. If
    /// not, it has to be sent again.
    pub(super) fn still_good(&self, seen: Seen) -> bool {
        let good = !seen.at_risk || self.connections.remade() == seen.remade;
        if !good {
            self.each_reading(Reading::invalidate_all);
        }
        good
    }

    /// Changes attributes (SETATTR), after all that was accepted before, and before all that comes
    /// later; a time of modification after all of it is on stable storage. Goes on when the caller does not wait for it: half a change of the length would leave
    /// data to be sent that belongs to nobody.
    pub(super) async fn set_attributes(
        self: &Arc<Self>,
        nfs: &Nfs,
        new: Sattr3,
    ) -> Result<Option<Fattr3>, ClientError> {
        let turn = self.turn.clone().write_owned().await;
        let (this, nfs) = (self.clone(), nfs.clone());
        let underway = Underway::new(self.me.clone());
        let change = self.connections.first().runtime().spawn(async move {
            let _turn = turn;
            // What has to be sent again after a restart changes the time once more.
            if matches!(new.mtime, SetTime::ClientTime(_)) {
                let number = this.press(&mut this.lock());
                this.until(|state| state.kept.is_stable(number).then_some(()))
                    .await;
            }
            this.until(|state| {
                this.send_all(state);
                state.kept.try_hold().then_some(())
            })
            .await;
            let changed = this.change_held(&nfs, &new).await;
            underway.over();
            changed
        });
        // Only the end of the runtime ends it early.
        let lost_here = Err(ClientError::Rpc(RpcError::Disconnected(Lost::Here)));
        change.await.unwrap_or(lost_here)
    }

    async fn change_held(&self, nfs: &Nfs, new: &Sattr3) -> Result<Option<Fattr3>, ClientError> {
        let change = self.attributes.change_began();
        let answer = nfs.setattr(&self.handle, new, None).await;
        let now = Instant::now();
        let (wcc, result) = match answer {
            Ok(Ok(wcc)) => (Some(wcc), Ok(wcc.after)),
            Ok(Err(failure)) => {
                let error = refused("SETATTR", &self.path, failure.status);
                (Some(failure.body), Err(error))
            }
            Err(error) => (None, Err(ClientError::from(error).of(&self.path))),
        };
        self.settle(&change, wcc.as_ref(), now, None);
        let mut state = self.lock();
        if let (Some(len), Ok(_)) = (new.size, &result) {
            state.kept.cut(len);
        }
        state.kept.unhold();
        self.pump(&mut state);
        drop(state);
        self.changed.notify_waiters();
        result
    }

    /// All bytes below this that were ever accepted are on stable storage.
    pub(super) fn committed(&self) -> u64 {
        let state = self.lock();
        let tail = state.tail.as_ref().map_or(u64::MAX, Tail::offset);
        state.kept.stable_end().min(tail)
    }

    /// Where the data ends that is not yet on stable storage, bytes; 0 if there is none.
    pub(super) fn end(&self) -> u64 {
        let state = self.lock();
        let tail = state.tail.as_ref().map_or(0, Tail::end);
        state.kept.end().max(tail)
    }

    /// Tells a failure that `opened` was not told yet.
    pub(super) fn tell_new(&self, opened: &Opened) -> Result<(), ClientError> {
        let told = opened.told.load(Ordering::Relaxed);
        self.tell_since(opened, told)
    }

    /// Tells a failure that came since the file was opened.
    fn tell(&self, opened: &Opened) -> Result<(), ClientError> {
        self.tell_since(opened, opened.base)
    }

    fn tell_since(&self, opened: &Opened, since: u64) -> Result<(), ClientError> {
        let state = self.lock();
        match &state.failure {
            Some(failure) if state.failures > since => {
                opened.told.store(state.failures, Ordering::Relaxed);
                Err(failure.clone())
            }
            _ => Ok(()),
        }
    }

    async fn accept_all(
        &self,
        opened: &Opened,
        mut offset: u64,
        mut data: Bytes,
    ) -> Result<(), ClientError> {
        let len = bytes(data.len());
        if offset.checked_add(len).is_none() {
            return Err(refused("WRITE", &self.path, Nfsstat3::Fbig));
        }
        while !data.is_empty() {
            let left = bytes(self.transfer) - offset % bytes(self.transfer);
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            let piece = data.split_to(left.min(data.len()));
            let end = offset + bytes(piece.len());
            self.room().await;
            self.tell_new(opened)?;
            if piece.len() < self.transfer / GATHER_FRACTION {
                self.accept_small(opened.writer, offset, piece).await;
            } else {
                let right = self.right(piece.len()).await;
                let mut state = self.lock();
                self.seal(&mut state);
                self.keep(&mut state, offset, counted(piece, right), opened.writer);
                self.pump(&mut state);
            }
            offset = end;
        }
        Ok(())
    }

    /// Waits until there is room in the window.
    async fn room(&self) {
        self.until(|state| {
            let policy = self.policy(state);
            state.kept.has_room(policy).then_some(())
        })
        .await;
    }

    /// Puts a small piece to the tail, or begins a new one with it.
    async fn accept_small(&self, writer: Writer, offset: u64, piece: Bytes) {
        let transfer = bytes(self.transfer);
        let mut right = None;
        loop {
            let need = {
                let mut state = self.lock();
                let tail = state.tail.as_mut();
                let tail = tail.filter(|tail| tail.is_followed_by(offset, writer, transfer));
                match tail.map(|tail| tail.append(&piece, transfer)) {
                    Some(Ok(())) => {
                        self.filled(&mut state);
                        return;
                    }
                    Some(Err(need)) => need,
                    None => {
                        self.seal(&mut state);
                        if let Some(right) = right.take() {
                            let piece = counted(piece, right);
                            self.begin_tail(&mut state, offset, piece, writer);
                            return;
                        }
                        self.pump(&mut state);
                        Need::Right
                    }
                }
            };
            // Nothing is locked while memory is waited for: what has the memory may be this very tail.
            match need {
                Need::Right => right = Some(self.right(piece.len()).await),
                Need::Buffer { id, len } => {
                    drop(right.take());
                    self.gather(id, len).await;
                }
            }
        }
    }

    /// Gives the tail `id` a buffer, if it is still there.
    async fn gather(&self, id: u64, len: usize) {
        let buf = match self.memory.try_buffer(len) {
            Some(buf) => Some((buf, None)),
            None => {
                self.press(&mut self.lock());
                self.memory.buffer(len, &self.lane).await
            }
        };
        let mut state = self.lock();
        match (buf, &mut state.tail) {
            (Some((buf, beyond)), Some(tail)) => {
                tail.gather(id, buf, beyond.map(|_one| Right::Beyond { _one }));
            }
            // No such buffer can be had: the pieces go one by one.
            (None, Some(_)) => self.seal(&mut state),
            (_, None) => {}
        }
    }

    /// The right to keep `len` more bytes, waiting for it. Memory that is short is what our own data
    /// waits for to be committed, too.
    async fn right(&self, len: usize) -> Right {
        let len = bytes(len);
        if let Some(_bytes) = self.memory.try_reserve(len) {
            return Right::Reserved { _bytes };
        }
        self.press(&mut self.lock());
        match self.memory.reserve(len, &self.lane).await {
            Ok(_bytes) => Right::Reserved { _bytes },
            Err(_one) => Right::Beyond { _one },
        }
    }

    fn begin_tail(&self, state: &mut State, offset: u64, data: Bytes, writer: Writer) {
        self.note_use(state);
        state.tails += 1;
        state.tail = Some(Tail::new(state.tails, offset, data, writer));
        self.filled(state);
    }

    /// Sends the tail if it has become a whole transfer, and sees that it does not linger.
    fn filled(&self, state: &mut State) {
        let end = state.tail.as_ref().map(Tail::end);
        if end.is_some_and(|end| end.is_multiple_of(bytes(self.transfer))) {
            self.seal(state);
        }
        self.pump(state);
    }

    /// Ends the tail: nothing more is put to it.
    fn seal(&self, state: &mut State) {
        if let Some(tail) = state.tail.take() {
            let (offset, writer) = (tail.offset(), tail.writer());
            let data = tail.into_data(&self.memory);
            self.keep(state, offset, data, writer);
        }
    }

    fn keep(&self, state: &mut State, offset: u64, data: Bytes, writer: Writer) {
        self.note_use(state);
        // What was read ahead of it is old; so is what is read until its WRITE is answered.
        let range = offset..offset + bytes(data.len());
        self.each_reading(|reading| reading.invalidate(range.clone()));
        state.kept.accept(offset, data, writer);
    }

    fn note_use(&self, state: &mut State) {
        if state.share.is_none() {
            state.share = Some(self.memory.share());
        }
        if !state.registered
            && let Some(me) = self.me.upgrade()
        {
            state.registered = true;
            self.memory.register(&me);
        }
    }

    /// Sends all that was accepted.
    fn send_all(&self, state: &mut State) {
        self.seal(state);
        state.kept.release();
        self.pump(state);
    }

    /// Wants all that was accepted on stable storage; returns what to ask [`Kept::is_stable`].
    fn press(&self, state: &mut State) -> u64 {
        self.seal(state);
        let number = state.kept.want_stable();
        self.pump(state);
        number
    }

    /// Adds reads that have to know of every change.
    pub(super) fn add_reading(&self, reading: &Arc<Reading>) {
        let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        readings.retain(|reading| reading.strong_count() > 0);
        readings.push(Arc::downgrade(reading));
    }

    pub(super) fn each_reading(&self, tell: impl Fn(&Reading)) {
        let readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        // Not told under the lock: the last reference to one may end here.
        let all: Vec<_> = readings.iter().filter_map(Weak::upgrade).collect();
        drop(readings);
        all.iter().for_each(|reading| tell(reading));
    }

    fn policy(&self, state: &State) -> Policy {
        let transfer = u32::try_from(self.transfer).unwrap_or(u32::MAX);
        // Half of the file's share is for what is on its way, half for what is written.
        let half_share = u64::from(self.memory.transfers_max(2));
        let depth_max = (self.memory.transfers_max(transfer) / 2).max(1);
        let depth = state.window.depth().min(depth_max);
        Policy {
            depth: usize::try_from(depth).unwrap_or(usize::MAX),
            commit_bytes: half_share.min(FILE_UNCOMMITTED_BYTES_MAX),
        }
    }

    /// Waits until `done` brings something. It is asked now and after every answer.
    async fn until<T>(&self, mut done: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let value = {
                let mut state = self.lock();
                self.take_cut_off(&mut state);
                done(&mut state)
            };
            if let Some(value) = value {
                return value;
            }
            changed.await;
        }
    }

    /// Gives up what a task that ended before its time leaves behind: what became of its call is not
    /// known, and nothing would ever say so.
    fn take_cut_off(&self, state: &mut State) {
        if self.cut_off.swap(false, Ordering::Acquire) {
            state.kept.cut_off();
            state.failures += 1;
            state.failure = Some(RpcError::Disconnected(Lost::Here).into());
        }
    }

    /// A panic while the lock was held would be a bug here.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.files.forget(&self.handle);
    }
}

impl Reclaim for Writing {
    /// What is kept is given back by a COMMIT: asked for here, without waiting for anything. The tail is
    /// left alone: to send it is to tell the reading of it, whose lock may be held by who asks.
    fn reclaim(&self, _bytes: u64) {
        if let Ok(mut state) = self.state.try_lock() {
            state.kept.want_stable();
            self.pump(&mut state);
        }
    }
}

fn bytes(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
