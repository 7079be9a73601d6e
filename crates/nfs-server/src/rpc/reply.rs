//! A reply on its way out: its bytes in parts, so that what was read from a file is sent from where it
//! was read to.

use std::borrow::Cow;

use nfs_io::{FileData, Pages, Reservation, Share};
use nfs_wire::record::{FragmentHeader, MARK_BYTES};
use nfs_wire::rpc::ReplyHeader;
use nfs_wire::xdr::padding;
use nfs_wire::{Encode, Encoder};
use smallvec::SmallVec;

/// One record with its mark, in the order of its parts.
pub(crate) struct Reply {
    parts: Draft,
    len: usize,
}

/// A reply that is being put together. Encoded parts and data may alternate: a reply has as many READs in it
/// as its call asked for.
pub(crate) struct Draft {
    /// The mark, the header, and what is encoded before the first data: all of most replies.
    first: Vec<u8>,
    /// The parts behind that, in order. The reply of one READ has one, which needs no allocation. Every
    /// reply is moved several times on its way out, so that more room here would cost each of them.
    rest: SmallVec<[Part; 1]>,
    /// What long encoded parts are held with.
    reservation: Option<Box<Reservation>>,
    /// What of its client's share of the memory it takes.
    share: Option<Share>,
    /// The same of further data: a reply may have more than one READ in it.
    more: Option<Box<More>>,
}

/// What the data of a reply is held with beyond the first.
#[derive(Default)]
struct More {
    reservations: Vec<Reservation>,
    shares: Vec<Share>,
}

/// Bytes of a reply that lie together.
enum Part {
    Encoded(Vec<u8>),
    /// Opaque data, which is sent with its padding from the buffer that it was read into, or from the page cache.
    Data(FileData),
}

/// What of a reply is sent in one way.
pub(crate) enum Piece<'r> {
    Bytes(&'r [u8]),
    /// What of them is still to be sent is known to the pages.
    Pages(&'r Pages),
}

impl<'r> Piece<'r> {
    /// Bytes of the whole piece.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Pages(pages) => pages.len(),
        }
    }
}

static ZEROS: [u8; 3] = [0; 3];

impl Draft {
    /// The mark's place and the header; results are appended.
    pub(crate) fn begin(header: &ReplyHeader<'_>) -> Self {
        Self::begin_with_room(header, 256)
    }

    /// The same for a reply that will have about so many bytes before its data.
    pub(crate) fn begin_with_room(header: &ReplyHeader<'_>, bytes: usize) -> Self {
        let mut first = Vec::with_capacity(bytes);
        first.extend_from_slice(&[0; MARK_BYTES]);
        header.encode(&mut Encoder::new(&mut first));
        Self {
            first,
            rest: SmallVec::new(),
            reservation: None,
            share: None,
            more: None,
        }
    }

    /// Where to append what is encoded next.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        if self.rest.is_empty() {
            return &mut self.first;
        }
        if !matches!(self.rest.last(), Some(Part::Encoded(_))) {
            self.rest.push(Part::Encoded(Vec::new()));
        }
        match self.rest.last_mut() {
            Some(Part::Encoded(bytes)) => bytes,
            Some(Part::Data(_)) | None => unreachable!("an encoded part was made just above"),
        }
    }

    /// Appends opaque data, of which the length was encoded just before, with its padding.
    pub(crate) fn put_data(&mut self, data: FileData) {
        self.rest.push(Part::Data(data));
    }

    /// The encoded bytes up to the first data, the mark's place among them: for numbers that are known only at the end.
    pub(crate) fn first_mut(&mut self) -> &mut [u8] {
        &mut self.first
    }

    /// All of it so far, data and padding included; copied, where it does not lie together. `None` where some of it is in
    /// the page cache.
    pub(crate) fn to_bytes(&self) -> Option<Cow<'_, [u8]>> {
        if self.rest.is_empty() {
            return Some(Cow::Borrowed(&self.first));
        }
        // Piece by piece, since byte by byte is slow.
        let mut bytes = Vec::with_capacity(self.len());
        for piece in self.pieces() {
            match piece {
                Piece::Bytes(piece) => bytes.extend_from_slice(piece),
                Piece::Pages(_) => return None,
            }
        }
        Some(Cow::Owned(bytes))
    }

    /// Holds memory of the budget, for long encoded parts, until the reply is sent.
    pub(crate) fn hold(&mut self, reservation: Reservation) {
        let before = self.reservation.replace(Box::new(reservation));
        if let Some(before) = before {
            let more = self.more.get_or_insert_default();
            more.reservations.push(*before);
        }
    }

    /// Takes of its client's share what the reply does, until it is sent.
    pub(crate) fn count_in(&mut self, share: Share) {
        let before = self.share.replace(share);
        if let Some(before) = before {
            self.more.get_or_insert_default().shares.push(before);
        }
    }

    /// Ends the reply: writes the mark of the record, which is one fragment.
    pub(crate) fn finish(mut self) -> Reply {
        let len = self.len();
        if let Some(place) = self.first.first_chunk_mut() {
            // Far below 2^31: replies are bounded by io_bytes_max, READDIR_BYTES_MAX, and the length of
            // the configuration (MOUNT's EXPORT).
            let len = u32::try_from(len - MARK_BYTES).unwrap_or(FragmentHeader::LEN_MAX);
            *place = FragmentHeader { last: true, len }.to_bytes();
        }
        Reply { parts: self, len }
    }

    fn len(&self) -> usize {
        let rest = self.rest.iter().map(|part| match part {
            Part::Encoded(bytes) => bytes.len(),
            Part::Data(data) => data.len() + padding(data.len()),
        });
        self.first.len() + rest.sum::<usize>()
    }

    fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let rest = self.rest.iter().flat_map(|part| match part {
            Part::Encoded(bytes) => [Piece::Bytes(bytes), Piece::Bytes(&[])],
            Part::Data(data) => {
                let padding = ZEROS.get(..padding(data.len())).unwrap_or_default();
                let data = match data {
                    FileData::Copied(data) => Piece::Bytes(data),
                    FileData::Pages(pages) => Piece::Pages(pages),
                };
                [data, Piece::Bytes(padding)]
            }
        });
        std::iter::once(Piece::Bytes(&self.first)).chain(rest)
    }
}

impl Reply {
    /// A whole reply that is nothing but its header.
    pub(crate) fn of(header: &ReplyHeader<'_>) -> Self {
        Draft::begin(header).finish()
    }

    /// A reply that was made before, mark and all.
    pub(crate) fn again(bytes: Vec<u8>) -> Self {
        Self {
            len: bytes.len(),
            parts: Draft {
                first: bytes,
                rest: SmallVec::new(),
                reservation: None,
                share: None,
                more: None,
            },
        }
    }

    /// The encoded bytes up to the first data: all of the reply, where it has none.
    pub(crate) fn head(&self) -> &[u8] {
        &self.parts.first
    }

    /// All of it in order; some pieces are empty.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        self.parts.pieces()
    }

    /// All bytes of a reply that has no pages.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.parts.to_bytes().unwrap_or_default().into_owned()
    }

    /// How many bytes it is, mark and padding included.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What it takes beside the memory budget, with what it costs to keep it, bytes.
    pub(crate) fn loose_bytes(&self) -> usize {
        if self.parts.reservation.is_some() {
            return 0;
        }
        let encoded = self.parts.rest.iter().map(|part| match part {
            Part::Encoded(bytes) => bytes.capacity(),
            Part::Data(_) => 0,
        });
        self.parts.first.capacity() + encoded.sum::<usize>() + size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use nfs_io::{Budget, BufferPool};
    use nfs_wire::rpc::AcceptStat;

    use super::*;

    #[test]
    fn data_may_stand_between_encoded_parts_as_often_as_there_are_reads() {
        let pool = BufferPool::new(Budget::new(1 << 20));
        let header = ReplyHeader::accepted(7, AcceptStat::Success);
        let mut expected = Reply::of(&header).head().to_vec();
        let mut reply = Draft::begin(&header);
        for len in [5_usize, 8, 1, 0, 4095] {
            let mut data = pool.try_take(len).unwrap();
            data.fill(0x11);
            reply.out().extend_from_slice(b"head");
            reply.put_data(FileData::Copied(data));
            expected.extend_from_slice(b"head");
            expected.extend(std::iter::repeat_n(0x11, len));
            expected.extend(std::iter::repeat_n(0, padding(len)));
        }
        reply.out().extend_from_slice(b"tail");
        expected.extend_from_slice(b"tail");
        let reply = reply.finish();
        let len = u32::try_from(expected.len() - MARK_BYTES).unwrap();
        let mark = FragmentHeader { last: true, len }.to_bytes();
        expected[..MARK_BYTES].copy_from_slice(&mark);
        assert!(reply.bytes() == expected);
        assert_eq!(reply.len(), expected.len());
    }

    #[test]
    fn the_reply_of_one_read_needs_no_list_of_its_own() {
        let pool = BufferPool::new(Budget::new(1 << 20));
        let mut reply = Draft::begin(&ReplyHeader::accepted(7, AcceptStat::Success));
        reply.put_data(FileData::Copied(pool.try_take(100).unwrap()));
        assert!(!reply.rest.spilled());
    }
}
