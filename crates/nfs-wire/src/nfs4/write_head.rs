//! The head of a WRITE whose data is still to come, so that it can be received to where it belongs.

use super::ops::SequenceArgs;
use super::{Compound, FileHandle, MinorVersion, Opnum, StableHow4, Stateid4};
use crate::limits::{DATA_BYTES_MAX, WRITE_TAIL_BYTES_MAX};
use crate::xdr::padding;
use crate::{Decode, DecodeError, Decoder};

/// A COMPOUND that begins with SEQUENCE (from minor version 1 on), PUTFH and WRITE, up to the WRITE's data.
/// That is what clients send: Linux's goes on with a GETATTR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteHead {
    /// The minor version.
    pub minor: MinorVersion,
    /// The arguments of SEQUENCE; none in minor version 0.
    pub sequence: Option<SequenceArgs>,
    /// The handle of the file to write.
    pub file: FileHandle,
    /// The open, lock or delegation by which it is written.
    pub stateid: Stateid4,
    /// Where in the file to begin, bytes.
    pub offset: u64,
    /// What the reply has to promise at least.
    pub stable: StableHow4,
    /// How many bytes of data follow, before their padding.
    pub data_len: u32,
}

impl WriteHead {
    /// Looks for the head at the front of COMPOUND's arguments, and leaves the decoder at the data. `None`: it is
    /// another COMPOUND, or its record is one to be received whole. `total` are the bytes of the whole
    /// record, of which the decoder has read the RPC header, where that is known.
    ///
    /// # Errors
    /// [`DecodeError::Missing`] where more bytes are needed to tell; any other where the record is malformed,
    /// which is told once it is whole.
    pub fn find(d: &mut Decoder<'_>, total: Option<usize>) -> Result<Option<Self>, DecodeError> {
        let compound = Compound::decode(d)?;
        let Ok(minor) = MinorVersion::try_from(compound.minorversion) else {
            return Ok(None);
        };
        let sequence = match minor {
            MinorVersion::V0 => None,
            MinorVersion::V1 | MinorVersion::V2 if is_next(d, Opnum::Sequence)? => {
                Some(SequenceArgs::decode(d)?)
            }
            MinorVersion::V1 | MinorVersion::V2 => return Ok(None),
        };
        let operations = if sequence.is_some() { 3 } else { 2 };
        if compound.announced < operations || !is_next(d, Opnum::Putfh)? {
            return Ok(None);
        }
        let file = FileHandle::decode(d)?;
        if !is_next(d, Opnum::Write)? {
            return Ok(None);
        }
        let head = Self {
            minor,
            sequence,
            file,
            stateid: Decode::decode(d)?,
            offset: d.u64("offset")?,
            stable: Decode::decode(d)?,
            data_len: {
                d.clone().len(DATA_BYTES_MAX, "data")?;
                d.u32("data")?
            },
        };
        // Behind the data come operations that are kept beside it.
        let behind = total.map(|total| total.checked_sub(d.position() + head.tail_len()));
        Ok(match behind {
            None | Some(Some(..=WRITE_TAIL_BYTES_MAX)) => Some(head),
            Some(Some(_) | None) => None,
        })
    }

    /// How many bytes the data has, its padding included.
    #[must_use]
    pub fn tail_len(&self) -> usize {
        let len = usize::try_from(self.data_len).unwrap_or(usize::MAX);
        len.saturating_add(padding(len))
    }
}

fn is_next(d: &mut Decoder<'_>, opnum: Opnum) -> Result<bool, DecodeError> {
    Ok(d.u32("nfs_opnum4")? == opnum.number())
}

#[cfg(test)]
mod tests;
