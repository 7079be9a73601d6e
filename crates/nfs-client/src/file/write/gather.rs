//! Small neighbouring writes put together, up to the next multiple of the transfer size.

use bytes::Bytes;
use nfs_io::{Buf, Reservation};

use crate::file::commit::Writer;
use crate::file::memory::{Beyond, Memory};
use crate::limits::GATHER_FRACTION;

/// The right to keep data: room in the client's memory, or the file's one transfer beyond it.
#[must_use]
#[derive(Debug)]
pub(super) enum Right {
    Reserved {
        /// Given back when the data is dropped.
        _bytes: Reservation,
    },
    Beyond {
        /// Held until the data is on stable storage: kept data beyond the memory is never more than
        /// one transfer.
        _one: Beyond,
    },
}

/// Data that holds its right until the last reference to it is gone.
struct Counted<D> {
    data: D,
    _right: Option<Right>,
}

impl<D: AsRef<[u8]>> AsRef<[u8]> for Counted<D> {
    fn as_ref(&self) -> &[u8] {
        self.data.as_ref()
    }
}

/// `data`, which holds `right` from now on. Nothing is copied.
pub(super) fn counted(data: Bytes, right: Right) -> Bytes {
    let _right = Some(right);
    Bytes::from_owner(Counted { data, _right })
}

/// Written data that a neighbour may still be put to. It ends before the next multiple of the transfer
/// size, where its WRITE has to end.
#[derive(Debug)]
pub(super) struct Tail {
    offset: u64,
    content: Content,
    /// Names this tail and no other.
    id: u64,
    writer: Writer,
}

#[derive(Debug)]
enum Content {
    /// The first piece, where the caller has it.
    Lone(Bytes),
    /// Pieces, copied one behind the other.
    Gathered(Buf, Option<Right>),
}

/// What a small piece needs before it can be taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// A right of its own length: it begins a new tail.
    Right,
    /// A buffer of so many bytes: it is the second piece of the tail with this name.
    Buffer { id: u64, len: usize },
}

impl Tail {
    pub(super) fn new(id: u64, offset: u64, piece: Bytes, writer: Writer) -> Self {
        Self {
            offset,
            content: Content::Lone(piece),
            id,
            writer,
        }
    }

    pub(super) fn writer(&self) -> Writer {
        self.writer
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn end(&self) -> u64 {
        self.offset + u64::try_from(self.bytes().len()).unwrap_or(u64::MAX)
    }

    fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Lone(data) => data,
            Content::Gathered(buf, _) => buf,
        }
    }

    /// Whether a piece of `writer` at `offset` follows, in the same transfer.
    pub(super) fn is_followed_by(&self, offset: u64, writer: Writer, transfer: u64) -> bool {
        self.writer == writer && self.end() == offset && !offset.is_multiple_of(transfer)
    }

    /// Puts `piece`, which follows, to it; or says what is needed for that.
    pub(super) fn append(&mut self, piece: &[u8], transfer: u64) -> Result<(), Need> {
        match &mut self.content {
            Content::Lone(_) => {
                let len = transfer - self.offset % transfer;
                Err(Need::Buffer {
                    id: self.id,
                    len: usize::try_from(len).unwrap_or(usize::MAX),
                })
            }
            Content::Gathered(buf, _) => {
                push(buf, piece);
                Ok(())
            }
        }
    }

    /// Moves the lone first piece into `buf`, if this is the tail with the name `id`.
    pub(super) fn gather(&mut self, id: u64, mut buf: Buf, right: Option<Right>) {
        if let (true, Content::Lone(first)) = (self.id == id, &self.content) {
            buf.truncate(0);
            push(&mut buf, first);
            self.content = Content::Gathered(buf, right);
        }
    }

    /// The data of its WRITE. A buffer that is mostly empty is exchanged for one that fits.
    pub(super) fn into_data(self, memory: &Memory) -> Bytes {
        let (buf, right) = match self.content {
            Content::Lone(data) => return data,
            Content::Gathered(buf, right) => (buf, right),
        };
        if buf.len() < buf.capacity() / GATHER_FRACTION
            && let Some(mut fitting) = memory.try_buffer(buf.len())
        {
            fitting.copy_from_slice(&buf);
            return whole(fitting, None);
        }
        whole(buf, right)
    }
}

fn whole(data: Buf, _right: Option<Right>) -> Bytes {
    Bytes::from_owner(Counted { data, _right })
}

fn push(buf: &mut Buf, piece: &[u8]) {
    let filled = buf.len();
    buf.set_len(filled + piece.len());
    if let Some(place) = buf.get_mut(filled..) {
        place.copy_from_slice(piece);
    }
}
