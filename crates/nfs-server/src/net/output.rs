//! Replies on their way out: in order of completion, READ data from the buffer it was read into, or from the page cache.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::AsFd as _;

use nfs_io::{Budget, Pages, Reservation, Share, Sharer, Shares, socket};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::limits;
use crate::operate::calls::CallRecord;
use crate::rpc::reply::{Piece, Reply};

/// Records of calls whose replies wait, with how many replies are to be sent as a whole until then.
type Records = VecDeque<(u64, Box<CallRecord>)>;

/// Places for replies that no connection of a shard has. One is written to after the other, so one lot is mostly enough.
#[derive(Default)]
pub(super) struct Spare(Cell<(VecDeque<Reply>, Records)>);

/// What waits to be sent on one connection.
#[derive(Default)]
pub(super) struct Output {
    replies: VecDeque<Reply>,
    /// Bytes of the first reply that were sent already.
    sent: usize,
    bytes: usize,
    /// Bytes of replies that hold no memory of the budget for themselves.
    loose: usize,
    /// What many loose bytes are held with.
    reservation: Option<(Reservation, Share)>,
    /// How many replies were sent as a whole.
    completed: u64,
    records: Records,
}

/// How far replies were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// Nothing is left.
    All,
    /// The socket takes no more for now.
    UntilFull,
    /// As much as may be sent at once; the socket may take more.
    Some,
}

/// Slices handed to the kernel at once.
const SLICES: usize = 64;

/// What is to be sent next.
struct Next<'a> {
    /// How many slices there are, which come first.
    slices: usize,
    pages: Option<&'a Pages>,
}

impl Output {
    /// Takes the shard's spare places, where the connection has none.
    pub(super) fn take_places(&mut self, spare: &Spare) {
        if self.replies.capacity() == 0 {
            (self.replies, self.records) = spare.0.take();
        }
    }

    /// Gives the places back, where all was sent: an idle connection keeps none.
    pub(super) fn give_places(&mut self, spare: &Spare) {
        if self.replies.capacity() == 0 || !self.replies.is_empty() || !self.records.is_empty() {
            return;
        }
        let mut replies = std::mem::take(&mut self.replies);
        let mut records = std::mem::take(&mut self.records);
        replies.shrink_to(limits::UNSENT_PLACES_SPARE);
        records.shrink_to(limits::UNSENT_PLACES_SPARE);
        spare.0.set((replies, records));
    }

    pub(super) fn push(&mut self, reply: Reply) {
        self.bytes += reply.len();
        self.loose += reply.loose_bytes();
        self.replies.push_back(reply);
    }

    /// The record of the call whose reply was pushed last: it ends when that is sent.
    pub(super) fn record(&mut self, record: Box<CallRecord>) {
        if self.records.len() >= limits::UNSENT_RECORDS_MAX {
            record.end();
            return;
        }
        let sent_by = self.completed + self.replies.len() as u64;
        self.records.push_back((sent_by, record));
    }

    /// May more calls begin before some of this is sent?
    pub(super) fn has_room(&self) -> bool {
        self.bytes < limits::UNSENT_BYTES_MAX && self.loose < limits::UNSENT_LOOSE_BYTES_MAX
    }

    /// What waits is within the budget: little, or reserved for by now.
    pub(super) fn is_accounted(
        &mut self,
        budget: &Budget,
        shares: &Shares,
        client: Sharer,
    ) -> bool {
        if self.loose > limits::UNSENT_BYTES_UNACCOUNTED_MAX && self.reservation.is_none() {
            let bytes = limits::UNSENT_LOOSE_BYTES_MAX as u64;
            let share = shares.try_take(client, bytes);
            self.reservation = share.and_then(|share| Some((budget.try_reserve(bytes)?, share)));
            return self.reservation.is_some();
        }
        true
    }

    /// How many replies were sent as a whole since the connection was made.
    pub(super) fn completed(&self) -> u64 {
        self.completed
    }

    /// How many bytes of replies wait to be sent.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many replies wait to be sent, the one among them of which a part was.
    pub(super) fn replies(&self) -> usize {
        self.replies.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Sends as much as the socket takes, `most` bytes at most.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(super) fn flush(&mut self, stream: &TcpStream, most: usize) -> io::Result<Flushed> {
        let before = self.bytes;
        while !self.replies.is_empty() {
            let left = most.saturating_sub(before - self.bytes);
            if left == 0 {
                return Ok(Flushed::Some);
            }
            let mut slices = [IoSlice::new(&[]); SLICES];
            let next = self.next(&mut slices, left);
            let slices = slices.get(..next.slices).unwrap_or_default();
            let sent = match (next.pages, slices) {
                (Some(pages), []) => {
                    let is_more = pages.left() < self.bytes.min(left);
                    let send = || Ok(pages.send(stream.as_fd(), left, is_more)?);
                    stream.try_io(Interest::WRITABLE, send)
                }
                (Some(_), slices) => stream.try_io(Interest::WRITABLE, || {
                    Ok(socket::send_before_more(stream.as_fd(), slices)?)
                }),
                (None, slices) => stream.try_write_vectored(slices),
            };
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    self.advance(sent);
                    self.end_records();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Flushed::UntilFull);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Flushed::All)
    }

    /// What is to be sent next, `most` bytes at most: slices, which it fills in, and pages behind them.
    fn next<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES], most: usize) -> Next<'a> {
        let mut next = Next {
            slices: 0,
            pages: None,
        };
        let mut bytes = 0;
        let mut skip = self.sent;
        for piece in self.replies.iter().flat_map(Reply::pieces) {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            if skipped == piece.len() {
                continue;
            }
            if bytes == most {
                return next;
            }
            let piece = match piece {
                Piece::Bytes(piece) => piece,
                Piece::Pages(pages) => {
                    next.pages = Some(pages);
                    return next;
                }
            };
            let Some(slice) = slices.get_mut(next.slices) else {
                return next;
            };
            let rest = piece.get(skipped..).unwrap_or_default();
            let rest = rest.get(..most - bytes).unwrap_or(rest);
            *slice = IoSlice::new(rest);
            bytes += rest.len();
            next.slices += 1;
        }
        next
    }

    fn advance(&mut self, sent: usize) {
        self.bytes -= sent;
        self.sent += sent;
        while let Some(first) = self.replies.front() {
            let first_len = first.len();
            if self.sent < first_len {
                return;
            }
            self.sent -= first_len;
            self.loose -= first.loose_bytes();
            self.replies.pop_front();
            self.completed += 1;
        }
        self.reservation = None;
    }

    /// Ends the records of the calls whose replies were sent as a whole.
    fn end_records(&mut self) {
        let completed = self.completed;
        let sent = self.records.partition_point(|(by, _)| *by <= completed);
        if sent > 0 {
            let records = self.records.drain(..sent);
            CallRecord::end_all(records.map(|(_, record)| record));
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        CallRecord::end_all(self.records.drain(..).map(|(_, record)| record));
    }
}

#[cfg(test)]
mod tests {
    use nfs_io::turns::Rule;
    use nfs_io::{Budget, BufferPool, FileData};
    use nfs_wire::rpc::{AcceptStat, ReplyHeader};

    use super::*;
    use crate::rpc::reply::Draft;

    #[test]
    fn places_for_replies_are_the_shards_when_all_is_sent() {
        let pool = BufferPool::new(Budget::new(1 << 20));
        let (mut output, spare) = (Output::default(), Spare::default());
        let most = limits::UNSENT_PLACES_SPARE;
        let all: usize = (0..2 * most)
            .map(|number| {
                output.take_places(&spare);
                let one = reply(&pool, number as u8, 10, &[]);
                let len = one.len();
                output.push(one);
                len
            })
            .sum();
        output.advance(all - 1);
        output.give_places(&spare);
        assert!(output.replies.capacity() >= 2 * most, "it still sends");
        output.advance(1);
        assert!(output.is_empty());
        output.give_places(&spare);
        assert_eq!(output.replies.capacity(), 0);
        let mut next = Output::default();
        next.take_places(&spare);
        assert!((most / 2..=most).contains(&next.replies.capacity()));
        // Another one beside it makes places of its own.
        output.take_places(&spare);
        output.push(reply(&pool, 1, 10, &[]));
        assert_eq!((next.bytes(), output.replies.len()), (0, 1));
    }

    /// A reply with `more` bytes behind its header and then data of these lengths, with a byte before each.
    fn reply(pool: &BufferPool, number: u8, more: usize, data_lens: &[usize]) -> Reply {
        let header = ReplyHeader::accepted(number.into(), AcceptStat::Success);
        let mut reply = Draft::begin(&header);
        reply.out().extend(std::iter::repeat_n(number ^ 0x80, more));
        for len in data_lens {
            let mut data = pool.try_take(*len).unwrap();
            data.fill(number);
            reply.out().push(0xee);
            reply.put_data(FileData::Copied(data));
        }
        reply.finish()
    }

    /// Replies with and without data, with every padding, more than go out at once.
    fn fill(pool: &BufferPool) -> (Output, Vec<u8>) {
        let mut output = Output::default();
        let mut expected = Vec::new();
        for number in 1..60_u8 {
            let len = usize::from(number) % 9;
            let data_lens = [len, 8 - len, 3];
            let data_lens = &data_lens[..usize::from(number) % 4];
            let reply = reply(pool, number, 1 + usize::from(number) % 5, data_lens);
            expected.extend(reply.bytes());
            output.push(reply);
        }
        (output, expected)
    }

    #[test]
    fn what_a_socket_takes_in_pieces_of_any_size_is_the_replies_in_order() {
        let pool = BufferPool::new(Budget::new(1 << 20));
        for piece in (1..80).chain([1000]) {
            let (mut output, expected) = fill(&pool);
            assert_eq!(output.bytes(), expected.len());
            let mut taken = Vec::new();
            while !output.is_empty() {
                let mut slices = [IoSlice::new(&[]); SLICES];
                let used = output.next(&mut slices, usize::MAX).slices;
                let offered: Vec<u8> = slices[..used].iter().flat_map(|s| s.to_vec()).collect();
                let sent = piece.min(offered.len());
                assert!(sent > 0, "nothing is offered though something is left");
                taken.extend_from_slice(&offered[..sent]);
                output.advance(sent);
                assert_eq!(output.bytes(), expected.len() - taken.len());
            }
            assert!(taken == expected, "pieces of {piece}");
            assert_eq!(output.loose, 0);
            assert_eq!(
                pool.budget().in_use(),
                pool.idle_bytes(),
                "buffers come back"
            );
        }
    }

    #[test]
    fn many_small_replies_that_lie_are_within_the_budget() {
        let budget = Budget::new(limits::UNSENT_LOOSE_BYTES_MAX as u64 * 3 / 2);
        let shares = Shares::new(budget.total(), Rule::TimesFree(100));
        let client = |number: u32| Sharer::of(std::net::Ipv4Addr::from(number).into());
        let pool = BufferPool::new(Budget::new(1 << 20));
        let mut outputs = [Output::default(), Output::default()];
        for output in &mut outputs {
            while output.has_room() {
                output.push(reply(&pool, 1, 100, &[]));
            }
            assert!(output.loose < limits::UNSENT_LOOSE_BYTES_MAX + 1024);
        }
        let [first, second] = &mut outputs;
        let is_accounted =
            |output: &mut Output, number| output.is_accounted(&budget, &shares, client(number));
        assert!(is_accounted(first, 1) && is_accounted(first, 1));
        assert!(!is_accounted(second, 2), "no memory is left for it");
        first.advance(first.bytes());
        assert_eq!(budget.in_use(), 0);
        assert!(first.has_room() && is_accounted(second, 2));
    }
}
