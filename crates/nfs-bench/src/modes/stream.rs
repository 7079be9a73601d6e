//! The measured loop for data: one connection, or one for each of several clients of a file, a fixed number of calls in
//! flight on it, every reply looked at.
//!
//! A call of the application goes out as one or more READs or WRITEs of the size that the server takes, all at once,
//! as a client's file system does it; its latency ends with the last of their replies. Payloads of READ are left in
//! the kernel but for their first bytes and for each `CHECKED_EVERY`th call, which is compared whole.
//! Payloads of WRITE are composed in one reused buffer right before they are sent.

use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use hdrhistogram::Histogram;
use nfs_wire::nfs3::{Procedure, ReadArgs, StableHow, WriteArgs};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use serde::Serialize;

use super::session::Session;
use super::work::{Direction, Places, Work};
use crate::calls::{first_xid, nfs_call};
use crate::content::{Content, Data};
use crate::limits;
use crate::servers::Place;
use nfs_load::input::Input;

/// When contents are checked, each of this many READ calls of the application is compared whole, and the
/// others at their beginning.
const CHECKED_EVERY: u64 = 16;
/// Bytes to read ahead where a reply's payload is to stay in the kernel: its head and some of the payload.
const HEAD_BYTES: usize = 192;
/// Bytes to read ahead where replies are small and many.
const AHEAD_BYTES: usize = 256 << 10;
/// Payloads up to this come with the head: discarding them would cost more calls than copying them.
const SMALL_BYTES: u32 = 16 << 10;

/// One load for data: what is moved, in which pieces and for how long.
#[derive(Clone, Debug)]
pub struct Job {
    /// The workload, which gives the direction, the length of a call and the order.
    pub work: Work,
    /// Number of clients, 1 to [`limits::CLIENTS_MAX`], each with a connection of its own. They take turns in the
    /// file: of `n` clients the first has the calls 0, n, 2n and so on.
    pub clients: usize,
    /// Number of the application's calls in flight on each connection, 1 to [`limits::DEPTH_MAX`].
    pub depth: usize,
    /// Name of the file in the export's root.
    pub name: String,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// How long new calls are sent; `None` goes through the whole file.
    pub at_most: Option<Duration>,
    /// Seed of the offsets of a random workload, and of a shuffled one; others ignore it.
    pub seed: u64,
    /// How many calls that follow each other go out in a random order; 1 for the order of the file.
    pub shuffled: u64,
    /// Contents that the file has, or is to have.
    pub data: Data,
    /// How much of what is read has to be what [`Content`] says.
    pub checked: Checked,
}

/// How much of what a load reads is compared with what the file has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// Nothing: the server has no such file.
    Nothing,
    /// The beginning of each call's data, and all of each `CHECKED_EVERY`th.
    Some,
    /// Every byte.
    All,
}

/// The figures of one load as the client sees them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Outcome {
    /// Number of payload bytes that were moved.
    pub bytes: u64,
    /// Number of the application's calls that were answered.
    pub calls: u64,
    /// Seconds from the first call to the last reply, that of COMMIT included.
    pub seconds: f64,
    /// Seconds from the last client's last reply to a READ or WRITE to the end, which is COMMIT; part of
    /// [`Outcome::seconds`].
    pub commit_seconds: f64,
    /// Median latency of the application's calls, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the latency of the application's calls, in microseconds.
    pub p99_us: f64,
    /// 99.9th percentile of the latency of the application's calls, in microseconds.
    pub p999_us: f64,
    /// Longest latency of the application's calls, in microseconds.
    pub max_us: f64,
    /// Bytes that were compared with what they ought to be.
    pub checked_bytes: u64,
}

impl Outcome {
    /// Throughput of the load in MiB/s.
    pub fn mib_per_second(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20) / self.seconds
    }
}

/// Runs a job against a server; `progress` counts the bytes answered so far, for whoever watches.
///
/// # Errors
/// The server cannot be reached, answers with an error or short, or gives bytes that are not the file's.
pub fn run(place: &Place, job: &Job, progress: &AtomicU64) -> Result<Outcome> {
    if job.clients == 0 || job.clients > limits::CLIENTS_MAX {
        bail!("there are 1 to {} clients", limits::CLIENTS_MAX);
    }
    let direction = job.work.direction();
    let mut clients = Vec::with_capacity(job.clients);
    for client in 0..job.clients {
        let is_made = job.work.makes_file() && client == 0;
        let session = Session::open(place, &job.name, direction, is_made)?;
        clients.push(Streaming::new(session, job, client as u64, progress)?);
    }
    let start = Instant::now();
    let done: Vec<Done> = std::thread::scope(|scope| {
        let clients = clients.into_iter();
        let threads: Vec<_> = clients
            .map(|client| scope.spawn(move || client.run(start)))
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .map(|ended| ended.map_err(|_| anyhow!("a client of the load panicked"))?)
            .collect::<Result<_>>()
    })?;
    outcome(start, &done)
}

/// What one client has done.
struct Done {
    moved_at: Instant,
    ended_at: Instant,
    latencies: Histogram<u64>,
    bytes: u64,
    checked_bytes: u64,
    /// That of the COMMIT; `None` after READs.
    verifier: Option<[u8; 8]>,
}

/// What all clients have done together.
fn outcome(start: Instant, done: &[Done]) -> Result<Outcome> {
    if done
        .windows(2)
        .any(|two| two[0].verifier != two[1].verifier)
    {
        bail!("the write verifier changed: what was written may be lost");
    }
    let mut latencies = Histogram::new(3)?;
    for client in done {
        latencies.add(&client.latencies)?;
    }
    let last = |at: fn(&Done) -> Instant| done.iter().map(at).max().unwrap_or(start);
    let (moved_at, ended_at) = (last(|done| done.moved_at), last(|done| done.ended_at));
    let us = |quantile| latencies.value_at_quantile(quantile) as f64 / 1000.0;
    Ok(Outcome {
        bytes: done.iter().map(|done| done.bytes).sum(),
        calls: latencies.len(),
        seconds: (ended_at - start).as_secs_f64(),
        commit_seconds: (ended_at - moved_at).as_secs_f64(),
        p50_us: us(0.5),
        p99_us: us(0.99),
        p999_us: us(0.999),
        max_us: us(1.0),
        checked_bytes: done.iter().map(|done| done.checked_bytes).sum(),
    })
}

/// A call of the application that is in flight.
#[derive(Clone, Copy)]
struct Call {
    sent_at: Instant,
    offset: u64,
    pieces_left: u32,
    /// Whether all of the call's data is compared, instead of only its beginning.
    whole: bool,
}

/// A WRITE whose data is being sent.
struct Outgoing {
    offset: u64,
    len: usize,
    sent: usize,
}

struct Streaming<'a> {
    job: &'a Job,
    progress: &'a AtomicU64,
    session: Session,
    input: Input,
    content: Content,
    places: Places,
    deadline: Option<Instant>,
    calls: Vec<Call>,
    in_flight: usize,
    turns: u64,
    /// One encoded READ or WRITE without its data; xid, offset and count are patched.
    template: Vec<u8>,
    /// Xid of the next call; each is used once, so that no reply cache takes a call for an old one.
    xid: u32,
    /// The xid, slot and piece of each call that awaits its reply, indexed by the low 16 bits of the xid.
    awaited: Vec<Option<(u32, usize, u32)>>,
    out: Vec<u8>,
    /// Buffer for the bytes of READ replies that are compared.
    payload: Vec<u8>,
    verifier: Option<[u8; 8]>,
    latencies: Histogram<u64>,
    bytes: u64,
    checked_bytes: u64,
}

impl<'a> Streaming<'a> {
    fn new(session: Session, job: &'a Job, client: u64, progress: &'a AtomicU64) -> Result<Self> {
        if job.depth == 0 || job.depth > limits::DEPTH_MAX {
            bail!("the depth is 1 to {}", limits::DEPTH_MAX);
        }
        let call_bytes = job.work.call_bytes();
        if call_bytes.div_ceil(session.piece_bytes) > limits::PIECES_MAX {
            bail!("the server takes only {} bytes a call", session.piece_bytes);
        }
        let reads_large = job.work.direction() == Direction::Read && call_bytes > SMALL_BYTES;
        let ahead = if reads_large { HEAD_BYTES } else { AHEAD_BYTES };
        let seed = job.work.is_random().then_some(job.seed + client);
        let places = Places::new(call_bytes, job.file_bytes, seed);
        let idle = Call {
            sent_at: Instant::now(),
            offset: 0,
            pieces_left: 0,
            whole: false,
        };
        Ok(Self {
            input: Input::new(session.stream.try_clone()?, ahead),
            content: Content::new(job.data, usize::try_from(call_bytes)?),
            places: places
                .shuffled(job.shuffled, job.seed)
                .of_client(client, job.clients as u64),
            template: template(&session, job.work),
            session,
            job,
            progress,
            deadline: None,
            calls: vec![idle; job.depth],
            in_flight: 0,
            turns: 0,
            xid: first_xid(),
            awaited: vec![None; 1 << 16],
            out: Vec::new(),
            payload: vec![0; usize::try_from(call_bytes)?],
            verifier: None,
            latencies: Histogram::new(3)?,
            bytes: 0,
            checked_bytes: 0,
        })
    }

    /// Moves everything that is this client's, and puts what it wrote on stable storage.
    fn run(mut self, start: Instant) -> Result<Done> {
        self.deadline = self.job.at_most.map(|most| start + most);
        match self.job.work.direction() {
            Direction::Read => self.read_all()?,
            Direction::Write => self.write_all()?,
        }
        let moved_at = Instant::now();
        let mut verifier = None;
        if self.job.work.direction() == Direction::Write {
            let committed = self.session.commit()?;
            if self.verifier.is_some_and(|written| written != committed) {
                bail!("the write verifier changed: what was written may be lost");
            }
            verifier = Some(committed);
        }
        Ok(Done {
            moved_at,
            ended_at: Instant::now(),
            latencies: self.latencies,
            bytes: self.bytes,
            checked_bytes: self.checked_bytes,
            verifier,
        })
    }

    /// Where the next call goes, unless it is time to stop.
    fn next_place(&mut self, now: Instant) -> Option<u64> {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return None;
        }
        self.places.next()
    }

    /// Begins the next call of the application in `slot`, at `offset` of the file.
    fn begin(&mut self, slot: usize, offset: u64, now: Instant) {
        self.calls[slot] = Call {
            sent_at: now,
            offset,
            pieces_left: self.pieces(),
            whole: match self.job.checked {
                Checked::Nothing => false,
                Checked::Some => self.turns.is_multiple_of(CHECKED_EVERY),
                Checked::All => true,
            },
        };
        self.turns += 1;
        self.in_flight += 1;
    }

    fn pieces(&self) -> u32 {
        self.job
            .work
            .call_bytes()
            .div_ceil(self.session.piece_bytes)
    }

    /// Offset and length of a piece of a call at `offset`.
    fn piece(&self, offset: u64, piece: u32) -> (u64, u32) {
        let from = piece * self.session.piece_bytes;
        let len = (self.job.work.call_bytes() - from).min(self.session.piece_bytes);
        (offset + u64::from(from), len)
    }

    /// Puts the head of a piece's call into the output; `payload` bytes of data will follow it.
    fn queue_head(&mut self, slot: usize, piece: u32, payload: u32) -> Result<()> {
        let (offset, count) = self.piece(self.calls[slot].offset, piece);
        let at = self.out.len();
        self.out.extend_from_slice(&self.template);
        let head = &mut self.out[at..];
        let xid = self.xid;
        self.xid = xid.wrapping_add(1);
        let awaited = &mut self.awaited[place_of(xid)];
        if awaited.replace((xid, slot, piece)).is_some() {
            bail!("a call was not answered while 65536 later ones were");
        }
        let mark = u32::try_from(head.len() - 4)? + payload;
        head[..4].copy_from_slice(&(mark | 1 << 31).to_be_bytes());
        head[4..8].copy_from_slice(&xid.to_be_bytes());
        let tail = match self.job.work.direction() {
            Direction::Read => 12,
            // Behind offset and count: stable_how and the data's length.
            Direction::Write => 20,
        };
        let arguments = head.len() - tail;
        head[arguments..arguments + 8].copy_from_slice(&offset.to_be_bytes());
        head[arguments + 8..arguments + 12].copy_from_slice(&count.to_be_bytes());
        if payload > 0 {
            head[arguments + 16..].copy_from_slice(&count.to_be_bytes());
        }
        Ok(())
    }

    fn read_all(&mut self) -> Result<()> {
        let now = Instant::now();
        for slot in 0..self.calls.len() {
            self.next_read(slot, now)?;
        }
        while self.in_flight > 0 {
            self.send_heads()?;
            loop {
                if let Some(slot) = self.receive_read()? {
                    let now = Instant::now();
                    self.finish(slot, now)?;
                    self.next_read(slot, now)?;
                }
                if !self.input.has_bytes() || self.in_flight == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    fn next_read(&mut self, slot: usize, now: Instant) -> Result<()> {
        let Some(offset) = self.next_place(now) else {
            return Ok(());
        };
        self.begin(slot, offset, now);
        for piece in 0..self.pieces() {
            self.queue_head(slot, piece, 0)?;
        }
        Ok(())
    }

    fn send_heads(&mut self) -> Result<()> {
        use std::io::Write as _;
        self.session.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn finish(&mut self, slot: usize, now: Instant) -> Result<()> {
        let latency = now - self.calls[slot].sent_at;
        self.latencies.record(u64::try_from(latency.as_nanos())?)?;
        self.in_flight -= 1;
        Ok(())
    }

    /// Takes one reply's head as far as its status; gives slot and piece.
    fn receive_head(&mut self) -> Result<(usize, u32)> {
        let xid = self.input.word()?;
        let (slot, piece) = match self.awaited[place_of(xid)].take() {
            Some((awaited, slot, piece)) if awaited == xid => (slot, piece),
            _ => bail!("a reply to no call of ours: xid {xid:#x}"),
        };
        // REPLY, MSG_ACCEPTED, the verifier's flavor and body, SUCCESS, then the procedure's status.
        let (reply, accepted, _flavor) =
            (self.input.word()?, self.input.word()?, self.input.word()?);
        let verifier = self.input.word()?;
        self.input
            .skip(usize::try_from(verifier.div_ceil(4) * 4)?)?;
        let (stat, status) = (self.input.word()?, self.input.word()?);
        if (reply, accepted, stat, status) != (1, 0, 0, 0) {
            bail!("the server answered a call with status {status} (accept_stat {stat})");
        }
        Ok((slot, piece))
    }

    /// Skips optional attributes of `len` bytes, if the reply has them.
    fn skip_optional(&mut self, len: usize) -> Result<()> {
        if self.input.word()? != 0 {
            self.input.skip(len)?;
        }
        Ok(())
    }

    /// Takes one reply; gives its slot if that completes the call.
    fn receive_read(&mut self) -> Result<Option<usize>> {
        let (slot, piece) = self.receive_head()?;
        self.skip_optional(ATTRIBUTES_BYTES)?;
        let (count, _eof, len) = (self.input.word()?, self.input.word()?, self.input.word()?);
        let (offset, asked) = self.piece(self.calls[slot].offset, piece);
        if count != asked || len != asked {
            bail!("READ of {asked} bytes at {offset} gave {count} of them, with data of {len}");
        }
        let whole = self.calls[slot].whole;
        let len = usize::try_from(len)?;
        let looked_at = match (self.job.checked, whole) {
            (Checked::Nothing, _) => 0,
            (_, true) => len,
            (_, false) => len.min(16),
        };
        self.input.take(&mut self.payload[..looked_at])?;
        self.content.check(offset, &self.payload[..looked_at])?;
        self.checked_bytes += looked_at as u64;
        self.input.skip(len - looked_at)?;
        self.input.finish_record()?;
        Ok(self.answered(slot, asked))
    }

    fn answered(&mut self, slot: usize, bytes: u32) -> Option<usize> {
        self.bytes += u64::from(bytes);
        self.progress.fetch_add(u64::from(bytes), Ordering::Relaxed);
        let call = &mut self.calls[slot];
        call.pieces_left -= 1;
        (call.pieces_left == 0).then_some(slot)
    }

    fn write_all(&mut self) -> Result<()> {
        let mut idle: Vec<usize> = (0..self.calls.len()).rev().collect();
        // The slot whose pieces are being sent, and which of them is next.
        let mut sending: Option<(usize, u32)> = None;
        let mut outgoing: Option<Outgoing> = None;
        loop {
            if outgoing.is_none() {
                let now = Instant::now();
                if sending.is_none()
                    && let Some(&slot) = idle.last()
                    && let Some(offset) = self.next_place(now)
                {
                    idle.pop();
                    self.begin(slot, offset, now);
                    sending = Some((slot, 0));
                }
                if let Some((slot, piece)) = sending {
                    outgoing = Some(self.begin_write(slot, piece)?);
                    sending = (piece + 1 < self.pieces()).then_some((slot, piece + 1));
                }
            }
            if outgoing.is_none() && self.in_flight == 0 {
                return Ok(());
            }
            let ready = self.wait(outgoing.is_some())?;
            if ready.contains(PollFlags::OUT)
                && let Some(write) = outgoing.take()
            {
                outgoing = self.send_some(write)?;
            }
            if ready.intersects(PollFlags::IN | PollFlags::ERR | PollFlags::HUP) {
                self.receive_writes(&mut idle)?;
            }
        }
    }

    fn begin_write(&mut self, slot: usize, piece: u32) -> Result<Outgoing> {
        let (offset, count) = self.piece(self.calls[slot].offset, piece);
        // Every size we send is a multiple of four, so the data needs no padding.
        self.out.clear();
        self.queue_head(slot, piece, count)?;
        Ok(Outgoing {
            offset,
            len: usize::try_from(count)?,
            sent: 0,
        })
    }

    fn wait(&self, wants_out: bool) -> Result<PollFlags> {
        let wanted = if wants_out {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        };
        let mut fds = [PollFd::new(&self.session.stream, wanted)];
        let patience = rustix::time::Timespec {
            tv_sec: limits::REPLY_SECONDS_MAX,
            tv_nsec: 0,
        };
        if rustix::io::retry_on_intr(|| poll(&mut fds, Some(&patience)))? == 0 {
            bail!("no reply within {} s", limits::REPLY_SECONDS_MAX);
        }
        Ok(fds[0].revents())
    }

    /// Sends as much as goes; gives the WRITE back unless all of it went.
    fn send_some(&mut self, mut write: Outgoing) -> Result<Option<Outgoing>> {
        let head = self.out.len();
        loop {
            let data = self.content.piece(write.offset, write.len);
            let slices = [
                IoSlice::new(&self.out[write.sent.min(head)..]),
                IoSlice::new(&data[write.sent.saturating_sub(head)..]),
            ];
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let mut none = SendAncillaryBuffer::default();
            match sendmsg(&self.session.stream, &slices, &mut none, flags) {
                Ok(sent) => write.sent += sent,
                Err(rustix::io::Errno::AGAIN) => return Ok(Some(write)),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if write.sent == head + write.len {
                return Ok(None);
            }
        }
    }

    fn receive_writes(&mut self, idle: &mut Vec<usize>) -> Result<()> {
        loop {
            let (slot, piece) = self.receive_head()?;
            self.skip_optional(PRE_ATTRIBUTES_BYTES)?;
            self.skip_optional(ATTRIBUTES_BYTES)?;
            let (count, _committed) = (self.input.word()?, self.input.word()?);
            let mut verifier = [0; 8];
            self.input.take(&mut verifier)?;
            self.input.finish_record()?;
            let (offset, asked) = self.piece(self.calls[slot].offset, piece);
            if count != asked {
                bail!("WRITE of {asked} bytes at {offset} took {count} of them");
            }
            if *self.verifier.get_or_insert(verifier) != verifier {
                bail!("the write verifier changed: what was written may be lost");
            }
            if self.answered(slot, asked).is_some() {
                self.finish(slot, Instant::now())?;
                idle.push(slot);
            }
            if !self.input.has_bytes() {
                return Ok(());
            }
        }
    }
}

fn place_of(xid: u32) -> usize {
    (xid & 0xffff) as usize
}

/// Length of `fattr3` on the wire, in bytes.
const ATTRIBUTES_BYTES: usize = 84;
/// Length of `wcc_attr` on the wire, in bytes.
const PRE_ATTRIBUTES_BYTES: usize = 24;

fn template(session: &Session, work: Work) -> Vec<u8> {
    let file = session.file;
    let stable = match work.is_stable() {
        true => StableHow::FileSync,
        false => StableHow::Unstable,
    };
    match work.direction() {
        Direction::Read => {
            let read = ReadArgs {
                file,
                offset: 0,
                count: 0,
            };
            nfs_call(Procedure::Read, &read)
        }
        Direction::Write => {
            let write = WriteArgs {
                file,
                offset: 0,
                count: 0,
                stable,
                data: &[],
            };
            nfs_call(Procedure::Write, &write)
        }
    }
}
