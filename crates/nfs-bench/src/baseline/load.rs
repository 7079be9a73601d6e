//! The measured loop: one connection, a fixed number of calls in flight, a clock.
//!
//! Each of `depth` slots has prepared calls that it sends in turn; only the xid changes. The slot of a reply is in
//! its xid, so replies may come in any order. Calls that are due leave together in one write.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use nfs_io::BusyPoll;
use nfs_wire::record::{RecordCutter, RecordLimits};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::workload::{Slots, Target, Workload, prepare};
use crate::calls::{connect, first_xid};
use crate::limits;
use crate::pin::pin_thread;
use crate::sample::Sample;

/// What ends a load: the time or a number of calls.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    /// Send no new calls after this long.
    For(Duration),
    /// Stop after this number of calls.
    Calls(u64),
}

/// A load: which calls are sent, to which server, how many and from which core.
#[derive(Clone, Debug)]
pub struct Load {
    /// The calls that are sent.
    pub workload: Workload,
    /// Number of calls in flight, 1 to [`limits::DEPTH_MAX`].
    pub depth: usize,
    /// Address of the NFS program.
    pub nfs: SocketAddr,
    /// Address of the MOUNT program.
    pub mount: SocketAddr,
    /// Path of the export, as MOUNT takes it.
    pub export: String,
    /// The time, or the number of calls, that ends the load.
    pub amount: Amount,
    /// Handles of an earlier run; written if the file is not there yet.
    pub handles: Option<PathBuf>,
    /// The core that the thread binds itself to; `None` leaves it to the kernel.
    pub cpu: Option<usize>,
    /// The address of this machine that the calls come from; `None` leaves it to the kernel.
    pub from: Option<Ipv4Addr>,
    /// How long the load looks for a reply before it sleeps.
    pub busy_poll: BusyPoll,
}

/// Runs a load: mounts, prepares the files it needs, then measures.
///
/// # Errors
/// The server cannot be reached, or answers a call with anything but success.
pub fn run(load: &Load) -> Result<Sample> {
    if load.depth == 0 || load.depth > limits::DEPTH_MAX {
        bail!("the depth is 1 to {}", limits::DEPTH_MAX);
    }
    if let Some(cpu) = load.cpu {
        pin_thread(cpu)?;
    }
    let mut stream = connect(load.from, load.nfs)?;
    stream.set_nodelay(true)?;
    // A lost reply must end the run with a message, not hang it.
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let target = Target {
        from: load.from,
        mount: load.mount,
        export: &load.export,
        handles: load.handles.as_deref(),
    };
    let (slots, session) = prepare(load.workload, load.depth, &target, &mut stream)?;
    let sample = measure(&mut stream, slots, load)?;
    if let Some(session) = session {
        session.end(&mut stream)?;
    }
    Ok(sample)
}

struct Loop {
    slots: Slots,
    sent_at: Vec<Instant>,
    /// Number of calls that each slot has sent so far.
    turns: Vec<u32>,
    /// Start of the turns in an xid; it differs from run to run, so that a reply cache never knows an xid.
    first: u32,
    out: Vec<u8>,
}

fn measure(stream: &mut TcpStream, slots: Slots, load: &Load) -> Result<Sample> {
    let depth = slots.len();
    let mut state = Loop {
        slots,
        sent_at: vec![Instant::now(); depth],
        turns: vec![0; depth],
        first: first_xid(),
        out: Vec::new(),
    };
    let mut latencies = Histogram::<u64>::new(3)?;
    let mut input = Input::new(load.busy_poll);
    let start = Instant::now();
    let (deadline, mut left) = match load.amount {
        Amount::For(duration) => (Some(start + duration), u64::MAX),
        Amount::Calls(calls) => (None, calls),
    };
    let mut in_flight = 0usize;
    for slot in 0..depth {
        if left > 0 {
            state.queue(slot, start)?;
            (left, in_flight) = (left - 1, in_flight + 1);
        }
    }
    let mut end = start;
    while in_flight > 0 {
        stream.write_all(&state.out)?;
        state.out.clear();
        input.fill(stream)?;
        let now = Instant::now();
        let more = deadline.is_none_or(|deadline| now < deadline);
        while let Some(record) = input.next_record()? {
            let slot = state.answered(&record)?;
            latencies.record(u64::try_from((now - state.sent_at[slot]).as_nanos())?)?;
            in_flight -= 1;
            if more && left > 0 {
                state.queue(slot, now)?;
                (left, in_flight) = (left - 1, in_flight + 1);
            }
        }
        end = now;
    }
    Ok(Sample::new(&latencies, (end - start).as_secs_f64()))
}

impl Loop {
    /// Puts the slot's next call into the output.
    fn queue(&mut self, slot: usize, now: Instant) -> Result<()> {
        let calls = &self.slots[slot];
        let turn = self.turns[slot];
        let at = self.out.len();
        let call = &calls[turn as usize % calls.len()];
        self.out.extend_from_slice(&call.record);
        if let Some(sequence_at) = call.sequence_at {
            // The first of a slot is 1.
            let sequence = turn.wrapping_add(1).to_be_bytes();
            let from = at + sequence_at;
            self.out[from..from + 4].copy_from_slice(&sequence);
        }
        // Behind the record mark; the high half counts, so that no xid comes twice within a reply cache's memory.
        let xid = (self.first.wrapping_add(turn) << 8) | u32::try_from(slot)?;
        self.out[at + 4..at + 8].copy_from_slice(&xid.to_be_bytes());
        self.turns[slot] = turn.wrapping_add(1);
        self.sent_at[slot] = now;
        Ok(())
    }

    /// The slot whose call the reply `record` answers; an error if it does not report success.
    fn answered(&self, record: &[u8]) -> Result<usize> {
        let word = |index: usize| -> Option<u32> {
            Some(u32::from_be_bytes(
                record.get(index * 4..index * 4 + 4)?.try_into().ok()?,
            ))
        };
        let xid = word(0).context("a reply without an xid")?;
        let slot = usize::try_from(xid & 0xff)?;
        if slot >= self.slots.len() {
            bail!("a reply to no call of ours: xid {xid:#x}");
        }
        // xid, REPLY, MSG_ACCEPTED, verifier (flavor, length, body), accept_stat, then the procedure's status.
        let verifier_words = word(4).context("a short reply")?.div_ceil(4) as usize;
        let success =
            word(1) == Some(1) && word(2) == Some(0) && word(5 + verifier_words) == Some(0);
        // NULL has no status.
        let status = word(6 + verifier_words).unwrap_or(0);
        if !success || status != 0 {
            bail!("the server answered a call with status {status}");
        }
        Ok(slot)
    }
}

/// Bytes that have been read from the socket and not yet been looked at.
struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    cutter: RecordCutter,
    busy_poll: BusyPoll,
}

impl Input {
    fn new(busy_poll: BusyPoll) -> Self {
        Self {
            bytes: vec![0; 2 * limits::REPLY_BYTES_MAX],
            start: 0,
            end: 0,
            cutter: RecordCutter::new(RecordLimits::whole(limits::REPLY_BYTES_MAX)),
            busy_poll,
        }
    }

    /// Reads what is there, at least one byte. To be called when [`Input::next_record`] has no more.
    fn fill(&mut self, stream: &mut TcpStream) -> Result<()> {
        let bytes = &mut self.bytes[..];
        let polled =
            self.busy_poll
                .look(|| match recv(&*stream, &mut *bytes, RecvFlags::DONTWAIT) {
                    Err(Errno::AGAIN) => None,
                    received => Some(received.map(|(n, _)| n).map_err(Into::into)),
                });
        let received = polled.unwrap_or_else(|| stream.read(bytes));
        let n = received.context("waiting for a reply")?;
        if n == 0 {
            bail!("the server closed the connection");
        }
        (self.start, self.end) = (0, n);
        Ok(())
    }

    /// The next whole reply, without its record mark.
    fn next_record(&mut self) -> Result<Option<Cow<'_, [u8]>>> {
        let mut ready = &self.bytes[self.start..self.end];
        let record = self.cutter.feed_whole(&mut ready)?;
        self.start = self.end - ready.len();
        Ok(record)
    }
}
