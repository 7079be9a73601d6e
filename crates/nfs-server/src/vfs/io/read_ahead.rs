//! Begins pieces that are read ahead of a READ, and counts those that answer one. What is to be read ahead, and
//! what of it may be served, is decided in [`ahead`](crate::vfs::ahead).

use std::ops::Range;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use nfs_io::engine::{Completion, Engine};
use nfs_io::fs::Stat;
use nfs_io::op::Op;
use nfs_io::plan::Alignment;
use nfs_io::{Buf, BufferPool, Keep, Mode, Share};

use super::decide::Decision;
use super::transfer::Transfer;
use crate::exports::policy::Io;
use crate::operate::io_counters::HeldBack;
use crate::operate::trace::Event;
use crate::vfs::ahead::{Asked, Bytes, Filler, Reading, Stamp};
use crate::vfs::{Target, Vfs};

/// Offset and length of a piece are multiples of this, and of what the file asks for if that is more.
const GRAIN: u64 = 4096;

/// Memory for a piece, and the parts of what its client, all pieces, and its file system may have.
struct Room {
    data: Buf,
    share: Share,
    of_ahead: Share,
    of_mount: Share,
}

impl Vfs {
    /// Takes note of a READ that may be one of a stream. `None` where nothing is read ahead: it is not direct, or
    /// that is switched off, or what the file system says of a file does not tell its changes at once.
    pub(super) fn reading(
        &self,
        target: &Target,
        decision: &Decision,
        stat: &Stat,
    ) -> Option<Reading> {
        let object = &target.object;
        let segment = decision.segments().next()?;
        let window = decision.choice.read_ahead;
        if window == 0 || segment.mode != Mode::Direct || !object.mount.local {
            return None;
        }
        let gate = object.gate(&self.gates);
        let stamp = Stamp::of(gate, stat);
        let asked = Asked {
            client: target.actor.author,
            range: decision.asked(),
            window,
            grain: grain(&stat.alignment(object.mount.block_bytes)),
            may_begin: stamp.has_settled(SystemTime::now()) && gate.is_quiet(),
        };
        let file = object.io.ahead.get_or_init(Arc::default);
        let reading = Reading::begin(file, stamp, &asked, Instant::now());
        if reading.held_back {
            target.tree.io.held_back_ahead(HeldBack::ChangedLately);
        }
        Some(reading)
    }

    /// Begins to read what is to be read ahead because of a READ, as far as there is memory that nobody else
    /// wants.
    pub(super) fn read_ahead(&self, engine: &Engine, target: &Target, ahead: &mut Reading) {
        let counters = &target.tree.io;
        while let Some(piece) = ahead.next_piece() {
            let Some(fd) = target.object.direct_fd_if_open(Io::Read) else {
                return ahead.give_up(&piece);
            };
            let Some(room) = self.room_for_piece(target, &piece) else {
                counters.held_back_ahead(HeldBack::NoMemory);
                return ahead.give_up(&piece);
            };
            let gate = target.object.gate(&self.gates);
            let Some(filler) = ahead.add(&self.ahead, gate, &piece, counters) else {
                return ahead.give_up(&piece);
            };
            let len = room.data.len();
            let op = Op::Read {
                file: fd,
                offset: piece.start,
                range: 0..len,
                buf: room.data,
                mode: Mode::Direct,
                may_wait: target.object.mount.read_waits.may_wait(
                    Mode::Direct,
                    // It is no small file.
                    u64::MAX,
                    target.object.mount.block_bytes,
                ),
                keep: Keep::new(room.of_mount),
            };
            let about = target.about();
            self.trace
                .io(Event::ReadAhead, about, piece.start, len as u64);
            let done = engine.submit(op, &target.actor.creds, target.queue());
            let counters = Arc::clone(counters);
            let shares = (room.share, room.of_ahead);
            tokio::task::spawn_local(fill(filler, done, shares, move |read| {
                counters.read_ahead(read);
            }));
        }
    }

    /// A READ was answered with `bytes` that were read ahead.
    pub(super) fn answered_ahead(&self, target: &Target, transfer: &Transfer<'_>, bytes: usize) {
        let (offset, bytes) = (transfer.decision.asked().start, bytes as u64);
        target.tree.io.answered_ahead(bytes);
        self.trace
            .io(Event::ReadFromAhead, target.about(), offset, bytes);
    }

    /// Memory for a piece, if there is some that nobody else waits for.
    fn room_for_piece(&self, target: &Target, piece: &Range<u64>) -> Option<Room> {
        let len = usize::try_from(piece.end - piece.start).ok()?;
        let (client, bytes) = (target.sharer(), BufferPool::bytes_of(len));
        let budget = self.read_buffers.budget();
        if self.read_shares.has_waiters() || budget.has_waiters() {
            return None;
        }
        let of_mount = target.object.mount.read_share(budget.total());
        Some(Room {
            of_ahead: self.ahead.shares.try_take(client, bytes)?,
            share: self.read_shares.try_take(client, bytes)?,
            of_mount: of_mount.try_take(client, bytes)?,
            data: self.read_buffers.try_take_spare(len)?,
        })
    }
}

/// Waits for a piece and hands it to whoever will ask for it.
async fn fill(
    filler: Filler,
    done: Completion,
    (share, of_ahead): (Share, Share),
    count: impl FnOnce(usize),
) {
    let done = done.await;
    // A READ that asks for what could not be read will find out why by itself.
    if let (Ok(read), Some(mut data)) = (done.result, done.buf) {
        count(read);
        data.truncate(read);
        filler.fill(Bytes {
            data,
            share,
            _ahead: of_ahead,
        });
    }
}

fn grain(alignment: &Alignment) -> u64 {
    let asked = match alignment.read_offset {
        0 => alignment.offset,
        own => own,
    };
    let asked = u64::from(asked.max(alignment.memory));
    asked
        .checked_next_power_of_two()
        .map_or(GRAIN, |grain| grain.max(GRAIN))
}
