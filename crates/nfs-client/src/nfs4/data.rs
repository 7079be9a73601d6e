//! READ and WRITE of files that are known by their handles, with the data where it belongs at once.

use bytes::Bytes;
use nfs_io::Buf;
use nfs_wire::nfs4::ops::{OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WRITE, ReadArgs, WriteArgs};
use nfs_wire::nfs4::{ArgOp, FileHandle, Nfsstat4, Opnum, ResOp, StableHow4, Stateid4, Tag};
use nfs_wire::{Decode, DecodeError, Decoder, Payload};

use super::files::{getattr, putfh, stat_from};
use super::session::{Beside, Ran};
use super::{Nfs4, Nfs4Error, Read4, Results, Stat4, Written4};
use crate::connection::{DataAt, ReplyMemory};
use crate::error::{BadReply, RpcError};
use crate::limits::NFS4_READ_RESULTS;

/// What a READ brought into memory that was given.
#[derive(Debug)]
pub(crate) struct ReadInto4 {
    /// The attributes just before.
    pub(crate) stat: Stat4,
    pub(crate) eof: bool,
    /// The memory, as long as the data.
    pub(crate) data: Buf,
}

impl Nfs4 {
    /// Reads as many bytes from `offset` as `memory` is long, or fewer. With an error the memory is gone.
    pub(crate) async fn read_into(
        &self,
        handle: &FileHandle,
        offset: u64,
        mut memory: Buf,
    ) -> Result<ReadInto4, Nfs4Error> {
        let count = u32::try_from(memory.len()).unwrap_or(u32::MAX);
        let mut opening = self.opening(handle, OPEN4_SHARE_ACCESS_READ);
        loop {
            let stateid = opening.stateid().await?;
            let ops = read_ops(handle, stateid, offset, count);
            let beside = Beside::Memory(memory, read_data);
            let Ran { results, data, .. } = self.shared.run(&self.identity, &ops, beside).await?;
            let buf = match data {
                ReplyMemory::Filled(data) => return read_filled(&results, data),
                ReplyMemory::Unused(buf) => buf,
                ReplyMemory::Nothing => return Err(Nfs4Error::Unexpected(Opnum::Read)),
            };
            let done = match results.status()? {
                Nfsstat4::Ok => return read_copied(&results, count, buf),
                status => Err::<(), _>(results.failure(status)),
            };
            if opening.is_over(&done) {
                done?;
            }
            memory = buf;
        }
    }

    /// Reads up to `count` bytes from `offset`; with the attributes just before.
    pub(crate) async fn read_at(
        &self,
        handle: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<(Stat4, Read4), Nfs4Error> {
        let mut opening = self.opening(handle, OPEN4_SHARE_ACCESS_READ);
        loop {
            let stateid = opening.stateid().await?;
            let done = self.all(&read_ops(handle, stateid, offset, count)).await;
            if opening.is_over(&done) {
                return done?.read(count);
            }
        }
    }

    /// Writes `data` at `offset`; it is sent from where it is.
    pub(crate) async fn write_at(
        &self,
        handle: &FileHandle,
        offset: u64,
        stable: StableHow4,
        data: Bytes,
    ) -> Result<Written4, Nfs4Error> {
        let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let mut opening = self.opening(handle, OPEN4_SHARE_ACCESS_WRITE);
        loop {
            let write = ArgOp::Write(WriteArgs {
                stateid: opening.stateid().await?,
                offset,
                stable,
                data: Payload::Apart { len },
            });
            let beside = Beside::Payload(data.clone());
            let ops = [putfh(handle), write];
            let Ran { results, .. } = self.shared.run(&self.identity, &ops, beside).await?;
            let done = written(&results, len);
            if opening.is_over(&done) {
                return done;
            }
        }
    }
}

/// A READ whose data is in its place already.
fn read_filled(results: &Results, data: Buf) -> Result<ReadInto4, Nfs4Error> {
    let head = read_head(&results.bytes);
    let head = head.map_err(|error| RpcError::BadReply(BadReply::Decode(error)))?;
    Ok(ReadInto4 {
        stat: head.stat.ok_or(Nfs4Error::Attributes)?,
        eof: head.eof,
        data,
    })
}

/// A READ with a short reply, or one in an unusual form.
fn read_copied(results: &Results, count: u32, mut buf: Buf) -> Result<ReadInto4, Nfs4Error> {
    let (stat, Read4 { data, eof }) = results.read(count)?;
    let place = buf.get_mut(..data.len());
    let place = place.ok_or(Nfs4Error::Unexpected(Opnum::Read))?;
    place.copy_from_slice(&data);
    buf.truncate(data.len());
    Ok(ReadInto4 {
        stat,
        eof,
        data: buf,
    })
}

fn written(results: &Results, len: u32) -> Result<Written4, Nfs4Error> {
    let res = results.decode()?;
    match res.resarray.last() {
        Some(ResOp::Write(Ok(ok))) if ok.count <= len => Ok(Written4 {
            count: ok.count,
            committed: ok.committed,
            verifier: ok.writeverf,
        }),
        _ if res.status != Nfsstat4::Ok => Err(results.failure(res.status)),
        _ => Err(Nfs4Error::Unexpected(Opnum::Write)),
    }
}

/// The attributes are asked for before the data: what has changed in between is then seen as a change later, and
/// old data is never taken for that of newer attributes. And the data ends the reply.
fn read_ops(
    handle: &FileHandle,
    stateid: Stateid4,
    offset: u64,
    count: u32,
) -> [ArgOp<'static>; 3] {
    let read = ArgOp::Read(ReadArgs {
        stateid,
        offset,
        count,
    });
    [putfh(handle), getattr(), read]
}

/// The results of [`read_ops`] up to the data.
struct ReadHead {
    stat: Option<Stat4>,
    eof: bool,
    data_at: DataAt,
}

/// Where the data is in results that begin with `results`.
fn read_data(results: &[u8]) -> Result<Option<DataAt>, DecodeError> {
    if Nfsstat4::decode(&mut Decoder::new(results))? != Nfsstat4::Ok {
        return Ok(None);
    }
    Ok(Some(read_head(results)?.data_at))
}

fn read_head(results: &[u8]) -> Result<ReadHead, DecodeError> {
    let bad = |field, value| DecodeError::BadValue { field, value };
    let mut d = Decoder::new(results);
    Nfsstat4::decode(&mut d)?;
    Tag::decode(&mut d)?;
    let count = d.u32("resarray")?;
    if count != NFS4_READ_RESULTS {
        return Err(bad("resarray", count));
    }
    let mut stat = None;
    for _ in 1..NFS4_READ_RESULTS {
        if let ResOp::Getattr(Ok(ok)) = ResOp::decode(&mut d)? {
            stat = stat_from(&ok.obj_attributes).ok();
        }
    }
    let opnum = d.u32("resop")?;
    if opnum != Opnum::Read as u32 {
        return Err(bad("resop", opnum));
    }
    let status = d.u32("status")?;
    if status != Nfsstat4::Ok as u32 {
        return Err(bad("status", status));
    }
    let eof = d.bool("eof")?;
    let data_len = usize::try_from(d.u32("data")?).unwrap_or(usize::MAX);
    Ok(ReadHead {
        stat,
        eof,
        data_at: DataAt {
            head_len: d.position(),
            data_len,
        },
    })
}
