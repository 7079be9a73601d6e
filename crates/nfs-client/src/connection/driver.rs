//! The task that moves a connection's bytes, and makes the connection again when it is lost.
//!
//! Lives from `Connection::connect` until the last clone is dropped or, if the options forbid to
//! connect again, until the connection is lost. Ends every waiting call before it ends itself.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice, IoSliceMut};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use nfs_wire::rpc::ReplyHeader;
use nfs_wire::{Decode, Decoder};
use tokio::io::{AsyncWrite, Interest};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::foreign::foreign;
use super::incoming::{Incoming, Record};
use super::reply::{answer_to_call, is_call, judge, read_reply, xid_of};
use super::retry::{Patience, Pause};
use super::table::Table;
use super::{Reconnect, Shared, connect};
use crate::error::{Lost, RpcError};
use crate::limits::{ANSWERS_BYTES_MAX, BATCH_BYTES, WRITE_PIECES_MAX};

/// Receives in a row before other tasks get their turn.
const RECEIVES_PER_TURN: usize = 16;
/// Bytes received before other tasks get their turn: who waits for them may have the next call to make,
/// and the server nothing to do until then.
const BYTES_PER_TURN: usize = 256 * 1024;

pub(super) struct Driver {
    shared: Arc<Shared>,
    incoming: Incoming,
    outgoing: Outgoing,
    /// Answers to calls of the server that are to be sent, with their marks.
    answers: Vec<u8>,
    timer: Pin<Box<Sleep>>,
    armed: Option<Instant>,
    /// Reads and writes that are not counted in the statistics yet.
    receives: u64,
    sends: u64,
    /// A record has come over the present connection.
    heard: bool,
    /// When the last bytes came, or the connection was made.
    heard_at: Instant,
    live: bool,
    patience: Patience,
    pause: Pause,
}

/// Why the driver stopped doing what it did.
enum End {
    /// The last clone of the connection is gone.
    Closed,
    Lost(Lost),
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let options = &shared.options;
        let patience = match options.reconnect {
            Reconnect::Resend => options.retry_after.min(options.call_timeout),
            Reconnect::Never | Reconnect::ForNewCalls => options.call_timeout,
        };
        Self {
            incoming: Incoming::new(shared.options.reply_bytes_max),
            outgoing: Outgoing::default(),
            answers: Vec::new(),
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            armed: None,
            receives: 0,
            sends: 0,
            heard: false,
            heard_at: Instant::now(),
            live: false,
            patience: Patience::new(patience),
            pause: Pause::default(),
            shared,
        }
    }

    pub(super) async fn run(mut self, mut stream: Option<TcpStream>) {
        loop {
            if let Some(mut connected) = stream.take() {
                self.live = true;
                self.heard_at = Instant::now();
                let lost = match poll_fn(|cx| self.poll_live(cx, &mut connected)).await {
                    End::Closed => return,
                    End::Lost(lost) => lost,
                };
                self.live = false;
                self.shared.up.store(false, Ordering::Relaxed);
                if self.heard {
                    self.pause.heard();
                }
                self.lost(&lost);
                if self.shared.options.reconnect == Reconnect::Never {
                    return;
                }
            }
            let pause = self.pause.next();
            let pause = async { tokio::time::sleep(pause).await };
            if self.until_needed().await.is_none() || self.guarded(pause).await.is_none() {
                return;
            }
            let shared = self.shared.clone();
            match self
                .guarded(connect::open(&shared.target, &shared.options))
                .await
            {
                None => return,
                Some(Ok(made)) => {
                    self.shared.lock().table.stats.reconnects += 1;
                    self.shared.remade.fetch_add(1, Ordering::Release);
                    self.shared.up.store(true, Ordering::Relaxed);
                    let port = super::source_port_of(&made);
                    self.shared.source_port.store(port, Ordering::Relaxed);
                    stream = Some(made);
                }
                // The calls that wait for it end with their timeouts.
                Some(Err(_)) => {}
            }
        }
    }

    /// Runs `future` while calls time out and the handle may go away; `None` if it went.
    async fn guarded<F: Future>(&mut self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if self.poll_upkeep(cx).is_ready() {
                return Poll::Ready(None);
            }
            future.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// Waits until the connection is wanted, by a call or by who chooses among several.
    async fn until_needed(&mut self) -> Option<()> {
        let shared = self.shared.clone();
        self.guarded(poll_fn(|_| {
            let mut inner = shared.lock();
            if std::mem::take(&mut inner.wanted) || inner.table.waiting() > 0 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        }))
        .await
    }

    /// Expires calls, keeps the waker known; ready when the handle is gone or the connection silent.
    fn poll_upkeep(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        loop {
            let mut inner = self.shared.lock();
            if inner.closed {
                return Poll::Ready(End::Closed);
            }
            match &mut inner.driver {
                Some(waker) => waker.clone_from(cx.waker()),
                None => inner.driver = Some(cx.waker().clone()),
            }
            inner.driver_asleep = true;
            let next = [inner.table.earliest(), self.silent_at(&inner.table)];
            drop(inner);
            // Woken too early, it looks again: that costs less than setting it for each call.
            if let Some(at) = next.into_iter().flatten().min()
                && self.armed.is_none_or(|armed| at < armed)
            {
                self.timer.as_mut().reset(at);
                self.armed = Some(at);
            }
            if self.armed.is_none() || self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.armed = None;
            let now = Instant::now();
            let mut inner = self.shared.lock();
            let silent = self.silent_at(&inner.table).is_some_and(|at| at <= now);
            let wakers = inner.table.expire(now);
            drop(inner);
            wakers.iter().for_each(Waker::wake_by_ref);
            if silent {
                self.patience.silent();
                return Poll::Ready(End::Lost(Lost::Silent));
            }
        }
    }

    /// When the connection counts as lost if nothing comes over it.
    fn silent_at(&self, table: &Table) -> Option<Instant> {
        let busy_since = table.busy_since().filter(|_| self.live)?;
        Some(self.patience.ends(self.heard_at, busy_since))
    }

    fn poll_live(&mut self, cx: &mut Context<'_>, stream: &mut TcpStream) -> Poll<End> {
        if let Poll::Ready(end) = self.poll_upkeep(cx) {
            return Poll::Ready(end);
        }
        // New calls first: the server works on them while their predecessors' data is received.
        let unsent = match self.poll_send(cx, stream) {
            Poll::Ready(Err(error)) => Some(Lost::Io(Arc::new(error))),
            Poll::Ready(Ok(())) | Poll::Pending => None,
        };
        let mut bytes = 0;
        for _ in 0..RECEIVES_PER_TURN {
            match self.poll_receive(cx, stream) {
                Poll::Ready(Ok(received)) => bytes += received,
                Poll::Ready(Err(lost)) => return Poll::Ready(End::Lost(lost)),
                // What had come before the connection broke is received; the rest is lost.
                Poll::Pending => {
                    if !self.answers.is_empty() && self.outgoing.is_empty() {
                        // They came with what was received just now.
                        cx.waker().wake_by_ref();
                    }
                    return unsent.map_or(Poll::Pending, |lost| Poll::Ready(End::Lost(lost)));
                }
            }
            if bytes >= BYTES_PER_TURN {
                break;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Receives once, and ends the calls whose replies are complete; how many bytes came.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut TcpStream,
    ) -> Poll<Result<usize, Lost>> {
        loop {
            if let Err(error) = ready!(stream.poll_read_ready(cx)) {
                return Poll::Ready(Err(Lost::Io(Arc::new(error))));
            }
            self.receives += 1;
            let received = self.incoming.receive(
                |places| read_and_note(stream, places),
                |into| stream.try_read_buf(into),
            );
            match received {
                Ok(0) => return Poll::Ready(Err(Lost::ByServer)),
                Ok(bytes) => return Poll::Ready(self.take_records().map(|()| bytes)),
                // Then it is not ready, and told so by the next look.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(Lost::Io(Arc::new(error)))),
            }
        }
    }

    /// Ends the calls whose replies are complete.
    fn take_records(&mut self) -> Result<(), Lost> {
        self.heard_at = Instant::now();
        let mut inner = self.shared.lock();
        inner.heard_at = Some(self.heard_at);
        // Woken after the lock is dropped; a batch is rarely more than a few dozen replies.
        let mut wakers = Vec::new();
        let mut heard = false;
        let result = loop {
            let table = &mut inner.table;
            match self.incoming.next(|head, len| judge(table, head, len)) {
                Ok(Some(record)) => {
                    heard = true;
                    if is_call(record.bytes()) {
                        let answer = answer_to_call(record.bytes());
                        let stats = &mut inner.table.stats;
                        match answer {
                            Some(_) => stats.server_calls += 1,
                            None => stats.garbage_records += 1,
                        }
                        let answer = answer.unwrap_or_default();
                        if self.answers.len() + answer.len() <= ANSWERS_BYTES_MAX {
                            self.answers.extend_from_slice(&answer);
                        }
                        continue;
                    }
                    let xid = xid_of(&record);
                    if !xid.is_some_and(|xid| inner.table.is_waiting(xid)) {
                        inner.count_stray(&record);
                        continue;
                    }
                    let arrived = read_reply(&mut inner.table, record);
                    wakers.extend(
                        xid.and_then(|xid| inner.table.finish(xid, arrived, self.heard_at)),
                    );
                }
                Ok(None) => break Ok(()),
                // What answers something else does so from its first bytes on.
                Err(framing) => {
                    let first = self.incoming.unused();
                    let known = foreign(first).filter(|_| !self.heard && !heard);
                    break Err(match known {
                        Some(foreign) => Lost::Foreign(foreign),
                        None => Lost::Framing(framing),
                    });
                }
            }
        };
        let stats = &mut inner.table.stats;
        stats.receives += std::mem::take(&mut self.receives);
        stats.sends += std::mem::take(&mut self.sends);
        stats.copied_bytes += self.incoming.take_copied();
        drop(inner);
        if heard {
            self.heard = true;
            self.patience.heard();
        }
        wakers.iter().for_each(Waker::wake_by_ref);
        result
    }

    /// Sends what is queued; ready when nothing is left to send.
    fn poll_send(&mut self, cx: &mut Context<'_>, stream: &mut TcpStream) -> Poll<io::Result<()>> {
        loop {
            if self.outgoing.is_empty() {
                self.outgoing
                    .fill(&self.shared, &self.patience, &mut self.answers);
                if self.outgoing.is_empty() {
                    return Poll::Ready(Ok(()));
                }
            }
            let written = ready!(self.outgoing.poll_write(cx, stream))?;
            self.sends += 1;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.outgoing.advance(written);
        }
    }

    fn lost(&mut self, lost: &Lost) {
        let memory = self.incoming.reset();
        self.outgoing = Outgoing::default();
        self.answers.clear();
        self.heard = false;
        let mut inner = self.shared.lock();
        if let Some((xid, memory)) = memory {
            inner.table.give_back(xid, memory);
        }
        let wakers = match (self.shared.options.reconnect, lost) {
            (Reconnect::Never, _) => inner.table.close(&RpcError::Disconnected(lost.clone())),
            // A server that breaks record marking would do so again for the same call.
            (_, Lost::Framing(_) | Lost::Foreign(_)) | (Reconnect::ForNewCalls, _) => {
                inner.table.lost(lost, false)
            }
            (Reconnect::Resend, _) => inner.table.lost(lost, true),
        };
        drop(inner);
        wakers.iter().for_each(Waker::wake_by_ref);
    }
}

impl Drop for Driver {
    /// Also when the runtime is shut down under it: no call waits for a driver that is gone.
    fn drop(&mut self) {
        let wakers = self
            .shared
            .lock()
            .table
            .close(&RpcError::Disconnected(Lost::Here));
        wakers.iter().for_each(Waker::wake_by_ref);
    }
}

impl super::Inner {
    fn count_stray(&mut self, record: &Record<'_>) {
        if ReplyHeader::decode(&mut Decoder::new(record.bytes())).is_ok() {
            self.table.stats.stray_replies += 1;
        } else {
            self.table.stats.garbage_records += 1;
        }
    }
}

/// Reads, and where that did not fill its room, notes that the socket is empty: the next wait is for new
/// bytes, without another read to be told so.
///
/// The read has to be inside `try_io`: what is noted is then about the readiness from before the read.
/// Bytes that came since are announced (edge-triggered) maybe by another thread, and maybe before this
/// one is back; that must not be overwritten.
fn read_and_note(stream: &TcpStream, places: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let room: usize = places.iter().map(|place| place.len()).sum();
    let mut read = None;
    let outcome = stream.try_io(Interest::READABLE, || {
        let bytes = rustix::io::readv(stream, places)?;
        read = Some(bytes);
        if bytes > 0 && bytes < room {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    });
    match (read, outcome) {
        (Some(bytes), _) => Ok(bytes),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// What is being written: small calls side by side in one buffer, large payloads by reference.
#[derive(Default)]
struct Outgoing {
    batch: Vec<u8>,
    pieces: VecDeque<Piece>,
}

enum Piece {
    /// Bytes `start..end` of the batch.
    Batch {
        start: usize,
        end: usize,
    },
    Payload(Bytes),
}

impl Outgoing {
    fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Takes the answers, and calls from the queue until a good write is together.
    fn fill(&mut self, shared: &Shared, patience: &Patience, answers: &mut Vec<u8>) {
        self.batch.clear();
        self.batch.append(answers);
        let mut inner = shared.lock();
        let mut start = 0;
        // Asking for the time costs as much as all that is counted of a call: once for a batch, and not for none.
        let now = inner.table.has_queued().then(Instant::now);
        while let Some(now) = now
            && self.batch.len() < BATCH_BYTES
            && self.pieces.len() + 2 < WRITE_PIECES_MAX
        {
            let again_at = || patience.ends(now, now);
            let Some(call) = inner.table.next_to_send(now, again_at) else {
                break;
            };
            self.batch.extend_from_slice(&call.head);
            if let Some(payload) = &call.payload {
                self.pieces.push_back(Piece::Batch {
                    start,
                    end: self.batch.len(),
                });
                start = self.batch.len();
                if !payload.is_empty() {
                    self.pieces.push_back(Piece::Payload(payload.clone()));
                }
                self.batch.extend(std::iter::repeat_n(0, call.padding));
            }
        }
        if start < self.batch.len() {
            self.pieces.push_back(Piece::Batch {
                start,
                end: self.batch.len(),
            });
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, stream: &mut TcpStream) -> Poll<io::Result<usize>> {
        let stream = Pin::new(stream);
        if self.pieces.len() == 1 {
            return stream.poll_write(cx, self.bytes(0));
        }
        let mut slices = [IoSlice::new(&[]); WRITE_PIECES_MAX];
        let mut used = 0;
        for (slice, index) in slices.iter_mut().zip(0..self.pieces.len()) {
            *slice = IoSlice::new(self.bytes(index));
            used += 1;
        }
        stream.poll_write_vectored(cx, slices.get(..used).unwrap_or_default())
    }

    fn bytes(&self, index: usize) -> &[u8] {
        match self.pieces.get(index) {
            Some(&Piece::Batch { start, end }) => self.batch.get(start..end).unwrap_or_default(),
            Some(Piece::Payload(bytes)) => bytes,
            None => &[],
        }
    }

    /// `written` bytes, counted from the front, are on their way.
    fn advance(&mut self, mut written: usize) {
        while let Some(piece) = self.pieces.front_mut() {
            let len = match piece {
                Piece::Batch { start, end } => *end - *start,
                Piece::Payload(bytes) => bytes.len(),
            };
            if written < len {
                match piece {
                    Piece::Batch { start, .. } => *start += written,
                    Piece::Payload(bytes) => bytes.advance(written),
                }
                return;
            }
            written -= len;
            self.pieces.pop_front();
        }
    }
}
