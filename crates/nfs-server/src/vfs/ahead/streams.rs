//! Which READs of one file follow each other, and what is to be read ahead of them.
//!
//! Pure: it is told of each READ when it begins and when it ends, and says which bytes of the file are worth
//! reading before somebody asks. It knows no memory, no clock and no file. A stream is READs of one client
//! that go on where earlier ones ended. READs that overtake each other on their way belong to it, as long as
//! the gaps are filled.

use std::ops::Range;

use crate::limits;
use crate::vfs::Author;

/// The streams of one file, [`limits::READ_STREAMS_PER_FILE_MAX`] at most.
#[derive(Default)]
pub(super) struct Streams {
    streams: Vec<Stream>,
    next_id: u64,
    /// Counts READs: when a stream was used last.
    reads: u64,
}

/// Names a stream of one file; no later one has the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamId(u64);

/// A READ that begins.
#[derive(Clone, Debug)]
pub(super) struct ReadCall {
    pub(super) client: Author,
    /// What it asks for of the file; not empty.
    pub(super) range: Range<u64>,
    /// How long the file is.
    pub(super) size: u64,
    /// Most bytes to be read ahead.
    pub(super) window: u64,
    /// What offset and length of a piece are multiples of.
    pub(super) grain: u64,
    /// Whether pieces may be begun now.
    pub(super) may_begin: bool,
}

/// What a READ means.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Noted {
    pub(super) stream: StreamId,
    /// What to read ahead, and in pieces of how many bytes. It counts as begun.
    pub(super) ahead: Range<u64>,
    pub(super) piece_bytes: u64,
    /// Something would have been read ahead, had pieces been allowed to begin.
    pub(super) held_back: bool,
    /// A stream of which nothing that was read ahead will be asked for any more: it ended, or jumped.
    pub(super) left: Option<StreamId>,
}

struct Stream {
    id: StreamId,
    client: Author,
    /// A READ of it was seen.
    has_begun: bool,
    /// Up to here everything was asked for, from where the stream began.
    next: u64,
    /// What was asked for beyond a gap, in ascending order.
    early: Vec<Range<u64>>,
    /// How many READs went on where those before had ended.
    sequential: u32,
    /// How many must do so before anything is read ahead again.
    debt: u32,
    /// Up to here it is read ahead.
    planned: u64,
    /// What offset and length of a piece are multiples of, as the last READ said.
    grain: u64,
    /// READs that were begun and have not ended.
    running: u32,
    used: u64,
}

impl Streams {
    /// A READ begins. [`Streams::ended`] is told of its end.
    pub(super) fn note(&mut self, call: &ReadCall) -> Noted {
        self.reads += 1;
        let reads = self.reads;
        let (at, mut left) = self.find_or_begin(call);
        let Some(stream) = self.streams.get_mut(at) else {
            unreachable!("it was found or made");
        };
        stream.used = reads;
        stream.running = stream.running.saturating_add(1);
        stream.grain = call.grain.max(1);
        if stream.follow(&call.range) == Followed::Jumped {
            left = Some(stream.id);
        }
        let piece_bytes = piece_bytes(call);
        let mut ahead = stream.plan(call, piece_bytes);
        let held_back = !call.may_begin && !ahead.is_empty();
        if held_back {
            ahead = ahead.start..ahead.start;
        }
        stream.planned = stream.planned.max(ahead.end);
        Noted {
            stream: stream.id,
            ahead,
            piece_bytes,
            held_back,
            left,
        }
    }

    /// A READ of a stream has ended.
    pub(super) fn ended(&mut self, id: StreamId) {
        if let Some(stream) = self.of(id) {
            stream.running = stream.running.saturating_sub(1);
        }
    }

    /// Whether a piece that was planned is to be begun now: who asked for it, or has many READs on their way, did so
    /// since.
    pub(super) fn is_still_ahead(&self, id: StreamId, piece: &Range<u64>) -> bool {
        let mut streams = self.streams.iter();
        streams
            .find(|stream| stream.id == id)
            .is_some_and(|stream| {
                let overlaps =
                    |asked: &Range<u64>| asked.start < piece.end && piece.start < asked.end;
                stream.running <= limits::READ_AHEAD_CALLS_MAX
                    && piece.end > stream.next
                    && stream.begins_at(piece.start)
                    && !stream.early.iter().any(overlaps)
            })
    }

    /// From here on nothing was begun of what was to be read ahead.
    pub(super) fn not_begun(&mut self, id: StreamId, from: u64) {
        if let Some(stream) = self.of(id) {
            stream.planned = stream.planned.min(from);
        }
    }

    /// What was read ahead is of no use, since the file was changed, or the bytes could not be read. The stream has
    /// to show itself again, each time for longer.
    pub(super) fn lost(&mut self, id: StreamId) {
        if let Some(stream) = self.of(id) {
            stream.planned = 0;
            stream.sequential = 0;
            stream.debt = (stream.debt * 2 + 2).min(limits::READ_AHEAD_DEBT_MAX);
        }
    }

    /// What was read ahead is gone, by no fault of the stream.
    pub(super) fn dropped(&mut self, id: StreamId) {
        if let Some(stream) = self.of(id) {
            stream.planned = 0;
        }
    }

    /// A READ was answered from what was read ahead.
    pub(super) fn answered(&mut self, id: StreamId) {
        if let Some(stream) = self.of(id) {
            stream.debt = 0;
        }
    }

    fn of(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.streams.iter_mut().find(|stream| stream.id == id)
    }

    /// The place of the stream that a READ belongs to, and of a new one if it belongs to none: then also which
    /// stream had to go for it.
    fn find_or_begin(&mut self, call: &ReadCall) -> (usize, Option<StreamId>) {
        let found = |how: fn(&Stream, &Range<u64>) -> bool| {
            let mut streams = self.streams.iter();
            streams.position(|stream| stream.client == call.client && how(stream, &call.range))
        };
        // What goes on exactly comes first: two streams may be close to each other.
        let exact = found(|stream, range| stream.next == range.start);
        if let Some(at) = exact.or_else(|| found(Stream::is_near)) {
            return (at, None);
        }
        let left = self.make_room(call.client);
        let id = StreamId(self.next_id);
        self.next_id += 1;
        self.streams.push(Stream {
            id,
            client: call.client,
            has_begun: false,
            next: call.range.start,
            early: Vec::new(),
            sequential: 0,
            debt: 0,
            planned: 0,
            grain: 1,
            running: 0,
            used: self.reads,
        });
        (self.streams.len() - 1, left)
    }

    /// Ends a stream if `client` may have no more, or there are no more: of the client that has most the one
    /// that was used longest ago.
    fn make_room(&mut self, client: Author) -> Option<StreamId> {
        let of = |client: Author| {
            self.streams
                .iter()
                .filter(|one| one.client == client)
                .count()
        };
        let is_full = self.streams.len() >= limits::READ_STREAMS_PER_FILE_MAX;
        let from = if of(client) >= limits::READ_STREAMS_PER_CLIENT_MAX {
            client
        } else if is_full {
            let clients = self.streams.iter().map(|stream| stream.client);
            clients.max_by_key(|client| of(*client))?
        } else {
            return None;
        };
        let streams = self.streams.iter().enumerate();
        let theirs = streams.filter(|(_, stream)| stream.client == from);
        let (at, _) = theirs.min_by_key(|(_, stream)| stream.used)?;
        Some(self.streams.swap_remove(at).id)
    }
}

#[derive(PartialEq, Eq)]
enum Followed {
    On,
    /// Too much beyond the gap: it will not be filled any more.
    Jumped,
}

impl Stream {
    /// Is this about where the stream is, so that it may be one of its READs that overtook others, or was
    /// overtaken, or is asked for again?
    fn is_near(&self, range: &Range<u64>) -> bool {
        let len = range.end.saturating_sub(range.start);
        let reach = len.saturating_mul(limits::READS_OUT_OF_ORDER_MAX as u64 + 1);
        range.start <= self.next.saturating_add(reach)
            && range.start >= self.next.saturating_sub(reach)
    }

    /// Whether what begins there was not asked for, but for what a piece holds before it for its alignment.
    fn begins_at(&self, start: u64) -> bool {
        start >= self.next - self.next % self.grain
    }

    fn follow(&mut self, range: &Range<u64>) -> Followed {
        if range.start > self.next {
            let at = self.early.partition_point(|one| one.start < range.start);
            self.early.insert(at, range.clone());
            if self.early.len() <= limits::READS_OUT_OF_ORDER_MAX {
                return Followed::On;
            }
            self.early.clear();
            self.next = range.end;
            self.sequential = 0;
            self.planned = 0;
            return Followed::Jumped;
        }
        self.go_on(range);
        while let Some(first) = self.early.first()
            && first.start <= self.next
        {
            let first = self.early.remove(0);
            self.go_on(&first);
        }
        Followed::On
    }

    /// Takes a READ into account that leaves no gap. One that overlaps goes on as well, and shows nothing:
    /// random ones do.
    fn go_on(&mut self, range: &Range<u64>) {
        // The READ with which a stream begins goes on from nowhere.
        if std::mem::replace(&mut self.has_begun, true) && range.start == self.next {
            self.sequential = self.sequential.saturating_add(1);
        }
        self.next = self.next.max(range.end);
    }

    /// What is to be read ahead now: nothing, or whole pieces, the last of which may end with the file.
    fn plan(&self, call: &ReadCall, piece_bytes: u64) -> Range<u64> {
        let grain = self.grain;
        let from = self.planned.max(self.next - self.next % grain);
        let nothing = from..from;
        let len = call.range.end.saturating_sub(call.range.start);
        let small = u32::from(len < limits::READ_AHEAD_BYTES_MIN);
        let is_shown = self.sequential > self.debt + small * limits::READ_AHEAD_SMALL_READS_MIN;
        let few = self.running <= limits::READ_AHEAD_CALLS_MAX;
        if !is_shown || !few || call.window < len.max(grain) {
            return nothing;
        }
        // It opens quickly: a stream of two READs may be one of three.
        let opened = len.saturating_mul(1 << (self.sequential + 1).min(16));
        let window = call.window.min(opened).max(piece_bytes.min(call.window));
        let reach = self.next.saturating_add(window);
        let last = call.size.checked_next_multiple_of(grain);
        let last = last.unwrap_or(call.size);
        if from >= call.size || from >= reach {
            return nothing;
        }
        if reach >= last {
            return from..last;
        }
        let pieces = (reach - from) / piece_bytes;
        from..from + pieces * piece_bytes
    }
}

/// Pieces as large as large READs are, if these lie as pieces must: each then is an answer by itself.
fn piece_bytes(call: &ReadCall) -> u64 {
    let grain = call.grain.max(1);
    let len = call.range.end.saturating_sub(call.range.start);
    let is_aligned = call.range.start.is_multiple_of(grain) && len.is_multiple_of(grain);
    let bytes = if is_aligned && len >= limits::READ_AHEAD_WHOLE_BYTES_MIN {
        len
    } else {
        let least = len.checked_next_multiple_of(grain).unwrap_or(len);
        limits::READ_AHEAD_PIECE_BYTES.max(least)
    };
    let most = call.window - call.window % grain;
    bytes.min(most).next_multiple_of(grain).max(grain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    fn call(client: u64, offset: u64, len: u64) -> ReadCall {
        ReadCall {
            client: Author(client),
            range: offset..offset + len,
            size: 100 * MIB,
            window: 4 * MIB,
            grain: 4 * KIB,
            may_begin: true,
        }
    }

    impl Streams {
        /// A READ that ends before the next begins; what is read ahead because of it.
        fn read(&mut self, call: &ReadCall) -> Range<u64> {
            let noted = self.note(call);
            self.ended(noted.stream);
            noted.ahead
        }

        fn read_at(&mut self, offset: u64, len: u64) -> Range<u64> {
            self.read(&call(1, offset, len))
        }
    }

    #[test]
    fn the_second_read_in_a_row_is_read_ahead_of_and_each_later_one_by_as_much_as_it_takes() {
        let mut streams = Streams::default();
        assert!(streams.read_at(0, MIB).is_empty(), "one is no stream");
        assert_eq!(streams.read_at(MIB, MIB), 2 * MIB..6 * MIB);
        for number in 2..95 {
            let ahead = (number + 4) * MIB..(number + 5) * MIB;
            assert_eq!(streams.read_at(number * MIB, MIB), ahead);
        }
        assert_eq!(streams.read_at(95 * MIB, MIB), 99 * MIB..100 * MIB);
        assert!(
            streams.read_at(96 * MIB, MIB).is_empty(),
            "all is read ahead"
        );
    }

    #[test]
    fn small_reads_open_the_window_and_are_read_ahead_of_in_larger_pieces() {
        let mut streams = Streams::default();
        let len = 128 * KIB;
        let mut planned = 0;
        for number in 0..64 {
            let noted = streams.note(&call(1, number * len, len));
            streams.ended(noted.stream);
            assert_eq!(noted.piece_bytes, 512 * KIB);
            let (ahead, next) = (noted.ahead, (number + 1) * len);
            if number == 0 {
                assert!(ahead.is_empty());
                continue;
            }
            if !ahead.is_empty() {
                assert_eq!((ahead.end - ahead.start) % (512 * KIB), 0);
                assert!(planned == 0 || ahead.start == planned, "without a gap");
                planned = ahead.end;
            }
            assert!(
                planned >= next + len,
                "the next READ finds all that it asks for"
            );
            assert!(planned <= next + 4 * MIB);
        }
        assert!(planned > 64 * len + 3 * MIB);
    }

    #[test]
    fn random_reads_and_reads_of_the_same_range_are_no_stream() {
        let mut streams = Streams::default();
        for number in 0..1000_u64 {
            let offset = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (90 * MIB);
            assert!(streams.read_at(offset, 64 * KIB).is_empty());
        }
        assert!(streams.streams.len() <= limits::READ_STREAMS_PER_CLIENT_MAX);
        let mut streams = Streams::default();
        for _ in 0..10 {
            assert!(streams.read_at(MIB, 64 * KIB).is_empty());
        }
    }

    #[test]
    fn reads_that_overtake_each_other_are_one_stream() {
        let mut streams = Streams::default();
        let order = [1, 0, 3, 2, 4, 6, 5, 7];
        let mut begun = Vec::new();
        for number in order {
            begun.push(streams.note(&call(1, number * MIB, MIB)));
            if begun.len() == 2 {
                for noted in begun.drain(..) {
                    streams.ended(noted.stream);
                }
            }
        }
        assert_eq!(streams.streams.len(), 1);
        let stream = &streams.streams[0];
        assert_eq!((stream.next, stream.running), (8 * MIB, 0));
        assert!(stream.early.is_empty() && stream.planned > 8 * MIB);
    }

    #[test]
    fn who_has_many_reads_on_their_way_needs_nothing_read_ahead() {
        let mut streams = Streams::default();
        for number in 0..u64::from(limits::READ_AHEAD_CALLS_MAX) {
            streams.note(&call(1, number * MIB, MIB));
        }
        let planned = streams.streams[0].planned;
        let one_more = streams.note(&call(1, 4 * MIB, MIB));
        assert!(one_more.ahead.is_empty());
        for _ in 0..5 {
            streams.ended(one_more.stream);
        }
        let after = streams.read_at(5 * MIB, MIB);
        assert_eq!(after, planned.max(6 * MIB)..10 * MIB);
    }

    #[test]
    fn a_stream_that_jumps_is_left_and_has_to_begin_again() {
        let mut streams = Streams::default();
        streams.read_at(0, MIB);
        let first = streams.note(&call(1, MIB, MIB)).stream;
        streams.ended(first);
        // Behind a gap that is never filled: at last it is taken to have moved on.
        let mut left = None;
        for number in 0..=limits::READS_OUT_OF_ORDER_MAX as u64 {
            let noted = streams.note(&call(1, (3 + number) * MIB, MIB));
            streams.ended(noted.stream);
            assert!(noted.ahead.is_empty() || noted.left.is_none());
            left = left.or(noted.left);
        }
        assert_eq!(left, Some(first));
        let stream = &streams.streams[0];
        assert_eq!((stream.next, stream.sequential), (12 * MIB, 0));
        assert_eq!(streams.read_at(12 * MIB, MIB), 13 * MIB..17 * MIB);
    }

    #[test]
    fn two_streams_of_one_client_and_two_clients_are_told_apart() {
        let mut streams = Streams::default();
        for number in 0..3 {
            for (client, base) in [(1, 0), (1, 50 * MIB), (2, 0)] {
                let ahead = streams.read(&call(client, base + number * MIB, MIB));
                assert_eq!(ahead.is_empty(), number == 0, "{client} at {number}");
            }
        }
        assert_eq!(streams.streams.len(), 3);
    }

    #[test]
    fn streams_are_bounded_and_who_has_most_gives_way() {
        let mut streams = Streams::default();
        let per_client = limits::READ_STREAMS_PER_CLIENT_MAX as u64;
        for client in 0..100 {
            for number in 0..per_client * 2 {
                streams.read(&call(client, number * 10 * MIB, KIB));
                let theirs = streams.streams.iter();
                let theirs = theirs.filter(|one| one.client == Author(client));
                assert!(theirs.count() as u64 <= per_client);
            }
        }
        assert_eq!(streams.streams.len(), limits::READ_STREAMS_PER_FILE_MAX);
        let mut streams = Streams::default();
        streams.read(&call(9, 0, KIB));
        for client in 0..20 {
            for number in 0..per_client {
                streams.read(&call(client + 10, number * 10 * MIB, KIB));
            }
            let modest = streams.streams.iter().filter(|one| one.client == Author(9));
            assert_eq!(modest.count(), 1, "a client with one stream keeps it");
        }
    }

    #[test]
    fn what_was_lost_to_changes_has_to_be_earned_again_for_longer() {
        let mut streams = Streams::default();
        let mut at = 0;
        let mut needed = Vec::new();
        for _ in 0..4 {
            let mut reads = 0;
            let stream = loop {
                let noted = streams.note(&call(1, at, MIB));
                streams.ended(noted.stream);
                (at, reads) = (at + MIB, reads + 1);
                if !noted.ahead.is_empty() {
                    break noted.stream;
                }
            };
            needed.push(reads);
            streams.lost(stream);
        }
        assert_eq!(needed, [2, 3, 7, 15]);
        let stream = streams.streams[0].id;
        streams.answered(stream);
        assert_eq!(streams.read_at(at, MIB), at + MIB..at + 5 * MIB);
    }

    #[test]
    fn nothing_is_read_ahead_beyond_the_end_or_where_it_must_not() {
        let mut streams = Streams::default();
        let short = |offset, may_begin| ReadCall {
            size: 3 * MIB + 100,
            may_begin,
            ..call(1, offset, MIB)
        };
        streams.read(&short(0, true));
        let held_back = streams.note(&short(MIB, false));
        streams.ended(held_back.stream);
        assert!(held_back.ahead.is_empty() && held_back.held_back);
        assert_eq!(
            streams.read(&short(2 * MIB, true)),
            3 * MIB..3 * MIB + 4 * KIB
        );
        assert!(streams.read(&short(3 * MIB, true)).is_empty());
        let mut streams = Streams::default();
        let off = |offset, window| ReadCall {
            window,
            ..call(1, offset, MIB)
        };
        streams.read(&off(0, 0));
        assert!(streams.read(&off(MIB, 0)).is_empty());
        assert!(
            streams.read(&off(2 * MIB, 64 * KIB)).is_empty(),
            "less than one READ"
        );
        assert_eq!(streams.read(&off(3 * MIB, MIB)), 4 * MIB..5 * MIB);
    }

    #[test]
    fn what_could_not_be_begun_is_planned_again() {
        let mut streams = Streams::default();
        streams.read_at(0, MIB);
        let noted = streams.note(&call(1, MIB, MIB));
        streams.ended(noted.stream);
        streams.not_begun(noted.stream, 3 * MIB);
        assert_eq!(streams.read_at(2 * MIB, MIB), 3 * MIB..7 * MIB);
    }

    #[test]
    fn what_was_asked_for_meanwhile_is_not_read_ahead() {
        let mut streams = Streams::default();
        streams.read_at(0, MIB);
        let stream = streams.note(&call(1, MIB, MIB)).stream;
        let piece = |mib: u64| mib * MIB..(mib + 1) * MIB;
        assert!(streams.is_still_ahead(stream, &piece(2)));
        streams.note(&call(1, 2 * MIB, MIB));
        assert!(!streams.is_still_ahead(stream, &piece(2)));
        assert!(streams.is_still_ahead(stream, &piece(3)));
        streams.note(&call(1, 4 * MIB, MIB));
        assert!(streams.is_still_ahead(stream, &piece(3)));
        assert!(
            !streams.is_still_ahead(stream, &piece(4)),
            "it overtook another"
        );
        streams.note(&call(1, 5 * MIB, MIB));
        streams.note(&call(1, 6 * MIB, MIB));
        assert!(!streams.is_still_ahead(stream, &piece(8)), "there are many");
    }

    #[test]
    fn records_of_odd_sizes_are_read_ahead_of_in_aligned_pieces() {
        let mut streams = Streams::default();
        let mut planned = 0;
        for number in 0..200_u64 {
            let noted = streams.note(&call(1, number * 47_008, 47_008));
            streams.ended(noted.stream);
            if !noted.ahead.is_empty() {
                assert_eq!((noted.ahead.start % 4096, noted.ahead.end % 4096), (0, 0));
                assert!(planned == 0 || noted.ahead.start == planned);
                planned = noted.ahead.end;
            }
            assert!(number <= 4 || planned >= (number + 2) * 47_008, "{number}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_asked_for_plans_stay_within_the_file_and_the_window(
            calls in proptest::collection::vec((0..3_u64, 0..64_u64, 1..40_u64, 0..5_u8), 1..300),
            grain in proptest::sample::select(vec![512_u64, 4096, 65536]),
            window in proptest::sample::select(vec![0_u64, 65536, 1 << 20, 4 << 20]),
        ) {
            let mut streams = Streams::default();
            let mut running = Vec::new();
            for (client, offset, len, what) in calls {
                let call = ReadCall {
                    range: offset * 30_000..(offset + len) * 30_000,
                    size: 2_500_001,
                    window,
                    grain,
                    may_begin: what != 0,
                    client: Author(client),
                };
                let noted = streams.note(&call);
                let ahead = noted.ahead.clone();
                running.push(noted.stream);
                if !ahead.is_empty() {
                    proptest::prop_assert!(ahead.start % grain == 0 && ahead.end % grain == 0);
                    proptest::prop_assert!(ahead.end < call.size + grain);
                    proptest::prop_assert!(ahead.end - ahead.start <= window + grain);
                    proptest::prop_assert!(noted.piece_bytes % grain == 0);
                }
                match what {
                    1 => streams.lost(noted.stream),
                    2 => streams.not_begun(noted.stream, ahead.start),
                    3 => running.drain(..).for_each(|stream| streams.ended(stream)),
                    _ => {}
                }
                proptest::prop_assert!(streams.streams.len() <= limits::READ_STREAMS_PER_FILE_MAX);
                let bounded = |one: &Stream| one.early.len() <= limits::READS_OUT_OF_ORDER_MAX;
                proptest::prop_assert!(streams.streams.iter().all(bounded));
            }
        }
    }
}
