//! What a reply record means for its call. No I/O.

use bytes::{Buf, Bytes};
use nfs_wire::record::FragmentHeader;
use nfs_wire::rpc::{AcceptStat, CallHeader, Rejected, ReplyBody, ReplyHeader};
use nfs_wire::xdr::padding;
use nfs_wire::{Decode, DecodeError, Decoder, encode_to_vec};

use super::incoming::{Destination, Judged, Record};
use super::table::{Arrived, Table};
use super::{Cut, DataAt};
use crate::error::{BadReply, RpcError};

impl Record<'_> {
    /// Its bytes, or those before its data where this lies apart.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Record::InBuffer(bytes) => bytes,
            Record::Own(bytes) => bytes,
            Record::Placed(placed) => &placed.head,
        }
    }

    /// How many bytes it has, those of its data too; padding behind data that lies apart is left out.
    fn len(&self) -> usize {
        let apart = match self {
            Record::InBuffer(_) | Record::Own(_) => 0,
            Record::Placed(placed) => placed.memory.len(),
        };
        self.bytes().len() + apart
    }
}

pub(super) fn xid_of(record: &Record<'_>) -> Option<u32> {
    first_word(record.bytes())
}

/// The answer to a call that came from the server, with its record mark; `None` where the record is no call
/// that can be answered. Calls may travel both ways on a connection, and have xids of their own in each
/// direction; no program is served on this side.
pub(super) fn answer_to_call(record: &[u8]) -> Option<Vec<u8>> {
    let header = match CallHeader::decode(&mut Decoder::new(record)) {
        Ok(call) => ReplyHeader::accepted(call.xid, AcceptStat::ProgUnavail),
        Err(error) => error.reply()?,
    };
    let body = encode_to_vec(&header);
    let len = u32::try_from(body.len()).ok()?;
    let mut answer = FragmentHeader { last: true, len }.to_bytes().to_vec();
    answer.extend_from_slice(&body);
    Some(answer)
}

/// Whether a record is a call: its second word tells the direction (RFC 5531 §9).
pub(super) fn is_call(record: &[u8]) -> bool {
    record.get(4..8) == Some(&[0; 4])
}

fn first_word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Whether the data of a record of `len` bytes that begins with `head` goes into its call's memory,
/// which is then taken out of the table.
pub(super) fn judge(table: &mut Table, head: &[u8], len: usize) -> Judged {
    let Some(xid) = first_word(head) else {
        return Judged::More;
    };
    // None: nobody waits for it. A reply that comes twice finds the memory gone.
    let Some(place) = table.memory(xid) else {
        return Judged::Whole;
    };
    let Some(memory) = place else {
        return Judged::Whole;
    };
    match data_in(head, len, memory.cut, memory.buf.len()) {
        Err(DecodeError::Missing { .. }) => Judged::More,
        Ok(Some(at)) if at.head_len <= head.len() => match place.take() {
            Some(memory) => Judged::Into(Destination {
                xid,
                head_len: at.head_len,
                data_len: at.data_len,
                memory,
            }),
            None => Judged::Whole,
        },
        Ok(_) | Err(_) => Judged::Whole,
    }
}

/// Where the data is in a record of `len` bytes, if it has some that ends it and fits `room` bytes.
fn data_in(head: &[u8], len: usize, cut: Cut, room: usize) -> Result<Option<DataAt>, DecodeError> {
    let mut decoder = Decoder::new(head);
    let ReplyBody::Accepted {
        stat: AcceptStat::Success,
        ..
    } = ReplyHeader::decode(&mut decoder)?.body
    else {
        return Ok(None);
    };
    let Some(at) = cut(decoder.rest())? else {
        return Ok(None);
    };
    let head_len = decoder.position().saturating_add(at.head_len);
    let end = head_len.saturating_add(at.data_len);
    let fits = at.data_len <= room && end.saturating_add(padding(at.data_len)) == len;
    Ok(fits.then_some(DataAt {
        head_len,
        data_len: at.data_len,
    }))
}

/// What a reply record brings its call, which waits for it.
pub(super) fn read_reply(table: &mut Table, record: Record<'_>) -> Result<Arrived, RpcError> {
    let mut decoder = Decoder::new(record.bytes());
    let header = ReplyHeader::decode(&mut decoder)
        .map_err(|error| RpcError::BadReply(BadReply::Decode(error)))?;
    let start = decoder.position();
    match header.body {
        ReplyBody::Accepted {
            stat: AcceptStat::Success,
            ..
        } => Ok(arrived(table, header.xid, start, record)),
        ReplyBody::Accepted { stat, .. } => Err(match stat {
            AcceptStat::ProgMismatch { low, high } => RpcError::ProgMismatch { low, high },
            AcceptStat::ProcUnavail => RpcError::ProcUnavail,
            AcceptStat::GarbageArgs => RpcError::GarbageArgs,
            AcceptStat::SystemErr => RpcError::SystemErr,
            // The number is filled in where the call is known.
            AcceptStat::ProgUnavail | AcceptStat::Success => RpcError::ProgUnavail { program: 0 },
        }),
        ReplyBody::Denied(Rejected::RpcMismatch { low, high }) => {
            Err(RpcError::RpcMismatch { low, high })
        }
        ReplyBody::Denied(Rejected::AuthError(stat)) => Err(RpcError::Denied { stat }),
    }
}

/// The results of a record whose header ends at `start`.
fn arrived(table: &mut Table, xid: u32, start: usize, record: Record<'_>) -> Arrived {
    let record_len = record.len();
    let (results, filled) = match record {
        Record::Placed(placed) => (own(placed.head, start), Some(placed.memory)),
        Record::Own(bytes) => (own(bytes, start), None),
        Record::InBuffer(bytes) => match short_data(table, xid, bytes) {
            Some((at, memory)) => {
                let head = bytes.get(start..at.head_len).unwrap_or_default();
                (Bytes::copy_from_slice(head), Some(memory))
            }
            None => {
                let results = bytes.get(start..).unwrap_or_default();
                (Bytes::copy_from_slice(results), None)
            }
        },
    };
    Arrived {
        record_len,
        results,
        filled,
    }
}

fn own(record: Vec<u8>, start: usize) -> Bytes {
    let mut bytes = Bytes::from(record);
    bytes.advance(start.min(bytes.len()));
    bytes
}

/// The data of a record that lies in the read buffer, copied to its call's memory.
fn short_data(table: &mut Table, xid: u32, record: &[u8]) -> Option<(DataAt, nfs_io::Buf)> {
    let place = table.memory(xid)?;
    let memory = place.as_ref()?;
    let at = data_in(record, record.len(), memory.cut, memory.buf.len()).ok()??;
    let data = record.get(at.head_len..at.head_len + at.data_len)?;
    let mut buf = place.take()?.buf;
    buf.truncate(at.data_len);
    buf.copy_from_slice(data);
    table.stats.copied_bytes += u64::try_from(at.data_len).unwrap_or(u64::MAX);
    Some((at, buf))
}
