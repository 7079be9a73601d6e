//! READ into memory that the caller gives.

use nfs_io::Buf;
use nfs_wire::limits::DATA_BYTES_MAX;
use nfs_wire::nfs3::{Failure, FileHandle, Nfsstat3, PostOpAttr, Procedure, ReadArgs};
use nfs_wire::{Decode, DecodeError, Decoder};

use super::{Nfs3, Outcome};
use crate::connection::{self, DataAt, Extra, ReplyMemory};
use crate::error::{BadReply, RpcError};

/// READ results (RFC 1813 §3.3.6) with the data in memory that the caller gave.
#[derive(Debug)]
pub struct ReadInto {
    /// The file's attributes after the read.
    pub file_attributes: PostOpAttr,
    /// The read reached the end of the file.
    pub eof: bool,
    /// The bytes read: the memory that was given, from its start, as long as the data.
    pub data: Buf,
}

impl Nfs3 {
    /// READ into `memory`: as many bytes from `offset` as it is long, or fewer. As [`Self::read`], but
    /// the data of a long reply goes from the socket straight to its place, and no memory is allocated
    /// for it. With an error, the memory is gone back to its pool.
    pub async fn read_into(
        &self,
        file: &FileHandle,
        offset: u64,
        memory: Buf,
    ) -> Outcome<ReadInto, PostOpAttr> {
        let Ok(count) = u32::try_from(memory.len()) else {
            return Err(RpcError::CallTooLarge {
                len: memory.len(),
                max: DATA_BYTES_MAX,
            });
        };
        let args = ReadArgs {
            file: *file,
            offset,
            count,
        };
        let extra = Extra::Memory {
            buf: memory,
            cut: read_data,
        };
        let reply = self.patient(Procedure::Read, &args, extra).await?;
        let (head, data) = match reply.memory {
            ReplyMemory::Filled(data) => (read_head(&reply.results), Some(data)),
            ReplyMemory::Unused(memory) => {
                // A failure, or a reply in an unusual form: its data is copied.
                let answer: Result<nfs_wire::nfs3::ReadOk<'_>, Failure<PostOpAttr>> =
                    connection::decode_results(&reply.results)?;
                match answer {
                    Err(failure) => return Ok(Err(failure)),
                    Ok(ok) => (read_head(&reply.results), copy_into(memory, ok.data)),
                }
            }
            ReplyMemory::Nothing => (read_head(&reply.results), None),
        };
        let head = head.map_err(|error| RpcError::BadReply(BadReply::Decode(error)))?;
        let len = usize::try_from(head.data_len).unwrap_or(usize::MAX);
        match data {
            Some(data) if head.count == head.data_len && head.count <= count => Ok(Ok(ReadInto {
                file_attributes: head.file_attributes,
                eof: head.eof,
                data,
            })),
            _ => Err(RpcError::BadReply(BadReply::ReadCount {
                asked: count,
                count: head.count,
                len,
            })),
        }
    }
}

/// `READ3resok` up to its data, as a server that may be wrong sends it.
struct ReadHead {
    file_attributes: PostOpAttr,
    count: u32,
    eof: bool,
    data_len: u32,
}

impl Decode<'_> for ReadHead {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            file_attributes: Decode::decode(d)?,
            count: d.u32("count")?,
            eof: d.bool("eof")?,
            data_len: d.u32("data")?,
        })
    }
}

/// Where the data is in READ's results that begin with `results`.
pub(super) fn read_data(results: &[u8]) -> Result<Option<DataAt>, DecodeError> {
    let mut d = Decoder::new(results);
    if Nfsstat3::decode(&mut d)? != Nfsstat3::Ok {
        return Ok(None);
    }
    let head = ReadHead::decode(&mut d)?;
    let data_len = usize::try_from(head.data_len).unwrap_or(usize::MAX);
    Ok(Some(DataAt {
        head_len: d.position(),
        data_len,
    }))
}

/// The head of READ's results, which are known not to be a failure's.
fn read_head(results: &[u8]) -> Result<ReadHead, DecodeError> {
    let mut d = Decoder::new(results);
    d.u32("status")?;
    ReadHead::decode(&mut d)
}

/// `memory` with `data` in it; `None` if there is more than it holds.
fn copy_into(mut memory: Buf, data: &[u8]) -> Option<Buf> {
    memory.get_mut(..data.len())?.copy_from_slice(data);
    memory.truncate(data.len());
    Some(memory)
}
