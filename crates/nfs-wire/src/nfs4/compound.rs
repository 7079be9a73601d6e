//! COMPOUND: a list of operations, looked through before any is carried out.

use super::ops::SequenceArgs;
use super::{ArgOp, Available, MinorVersion, Nfsstat4, Opnum, ResOp, Tag};
use crate::limits::COMPOUND_OPS_MAX;
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

/// `COMPOUND4args` up to its operations, which are read one after the other.
#[derive(Clone, Debug)]
pub struct Compound<'a> {
    /// What it is for; comes back in the reply.
    pub tag: Tag<'a>,
    /// The minor version that it is in, as a number: an unknown one is NFS4ERR_MINOR_VERS_MISMATCH.
    pub minorversion: u32,
    /// How many operations there are said to be.
    pub announced: u32,
    operations: Decoder<'a>,
}

/// The operations of a COMPOUND in order. It ends behind the first bad one.
#[derive(Clone, Debug)]
pub struct Ops<'a> {
    minor: MinorVersion,
    left: u32,
    budget: usize,
    d: Decoder<'a>,
}

/// An operation that cannot be carried out, and behind which nothing can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadOp {
    /// There is no operation of this number: NFS4ERR_OP_ILLEGAL.
    Illegal {
        /// The number.
        number: u32,
    },
    /// The minor version is not to have it: NFS4ERR_NOTSUPP.
    NotSupported {
        /// The operation.
        opnum: Opnum,
    },
    /// Its arguments cannot be decoded: NFS4ERR_BADXDR.
    BadXdr {
        /// The operation; none where its number is missing.
        opnum: Option<Opnum>,
        /// What is wrong.
        error: DecodeError,
    },
    /// There are more than are looked at: NFS4ERR_TOO_MANY_OPS, or NFS4ERR_RESOURCE in minor version 0.
    TooMany {
        /// The minor version.
        minor: MinorVersion,
    },
}

/// What is known of a COMPOUND before it is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// How many operations come before a bad one, or in all.
    pub good: u32,
    /// The bad operation, whose index is `good`.
    pub bad: Option<BadOp>,
    /// The first operation, if that is good.
    pub first: Option<Opnum>,
    /// Bytes of the first operation with its number, if that is good.
    pub first_len: usize,
    /// The arguments of SEQUENCE, if that is the first operation.
    pub sequence: Option<SequenceArgs>,
    /// An operation changes something.
    pub changes: bool,
    /// Bytes behind the last operation, where none is bad: RPC has no use for them.
    pub trailing: usize,
}

impl<'a> Compound<'a> {
    /// Reads the arguments of COMPOUND up to the operations. The decoder is left at the first.
    ///
    /// # Errors
    /// [`DecodeError`], which becomes GARBAGE_ARGS: there is nothing that an answer could begin with.
    pub fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            tag: Decode::decode(d)?,
            minorversion: d.u32("minorversion")?,
            announced: d.u32("argarray")?,
            operations: d.clone(),
        })
    }

    /// The operations, as this minor version has them.
    #[must_use]
    pub fn ops(&self, minor: MinorVersion) -> Ops<'a> {
        Ops {
            minor,
            left: self.announced,
            budget: COMPOUND_OPS_MAX,
            d: self.operations.clone(),
        }
    }

    /// The operations behind the first, which a scan has read already; from the first on where that is bad.
    #[must_use]
    pub fn ops_behind_first(&self, minor: MinorVersion, scan: &Scan) -> Ops<'a> {
        let mut ops = self.ops(minor);
        if scan.good > 0 && ops.d.take(scan.first_len, "argarray").is_ok() {
            ops.left = ops.left.saturating_sub(1);
            ops.budget = ops.budget.saturating_sub(1);
        }
        ops
    }

    /// Looks all operations through.
    #[must_use]
    pub fn scan(&self, minor: MinorVersion) -> Scan {
        let mut scan = Scan::default();
        let mut ops = self.ops(minor);
        let begin = ops.position();
        if let Some(first) = ops.next() {
            match first {
                Ok(op) => {
                    scan.first = Some(op.opnum());
                    scan.first_len = ops.position().saturating_sub(begin);
                    if let ArgOp::Sequence(args) = op {
                        scan.sequence = Some(args);
                    }
                    scan.add(op.opnum());
                }
                Err(bad) => scan.bad = Some(bad),
            }
        }
        while let Some(passed) = ops.step(Ops::pass) {
            match passed {
                Ok(opnum) => scan.add(opnum),
                Err(bad) => scan.bad = Some(bad),
            }
        }
        if scan.bad.is_none() {
            scan.trailing = ops.d.remaining();
        }
        scan
    }
}

impl Scan {
    fn add(&mut self, op: Opnum) {
        self.good += 1;
        self.changes |= op.changes();
    }
}

impl<'a> Ops<'a> {
    fn read(&mut self) -> Result<ArgOp<'a>, BadOp> {
        let opnum = self.opnum()?;
        ArgOp::decode_args(opnum, &mut self.d).map_err(bad_args(opnum))
    }

    /// Reads an operation, and keeps nothing of it but which one it is.
    fn pass(&mut self) -> Result<Opnum, BadOp> {
        let opnum = self.opnum()?;
        opnum.pass_args(&mut self.d).map_err(bad_args(opnum))?;
        Ok(opnum)
    }

    /// Reads which operation is next; its arguments follow.
    fn opnum(&mut self) -> Result<Opnum, BadOp> {
        let minor = self.minor;
        self.budget = self.budget.checked_sub(1).ok_or(BadOp::TooMany { minor })?;
        let number = self
            .d
            .u32("nfs_opnum4")
            .map_err(|error| BadOp::BadXdr { opnum: None, error })?;
        let illegal = BadOp::Illegal { number };
        let opnum = Opnum::try_from(number).map_err(|_| illegal)?;
        match opnum.minors().available_in(minor) {
            Available::Yes if opnum != Opnum::Illegal => {}
            Available::Yes | Available::Unknown => return Err(illegal),
            Available::NotSupported => return Err(BadOp::NotSupported { opnum }),
        }
        Ok(opnum)
    }

    /// Goes on by one operation, which `read` reads; by none where there is none, or the one before was bad.
    fn step<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, BadOp>,
    ) -> Option<Result<T, BadOp>> {
        self.left = self.left.checked_sub(1)?;
        let op = read(self);
        if op.is_err() {
            self.left = 0;
        }
        Some(op)
    }

    /// How many bytes of the record lie before the next operation.
    #[must_use]
    pub fn position(&self) -> usize {
        self.d.position()
    }
}

impl<'a> Iterator for Ops<'a> {
    type Item = Result<ArgOp<'a>, BadOp>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Self::read)
    }
}

/// What an operation is whose arguments cannot be decoded.
fn bad_args(opnum: Opnum) -> impl FnOnce(DecodeError) -> BadOp {
    move |error| BadOp::BadXdr {
        opnum: Some(opnum),
        error,
    }
}

impl BadOp {
    /// What the operation is answered with.
    #[must_use]
    pub const fn status(&self) -> Nfsstat4 {
        match self {
            Self::Illegal { .. } => Nfsstat4::OpIllegal,
            Self::NotSupported { .. } => Nfsstat4::Notsupp,
            Self::BadXdr { .. } => Nfsstat4::Badxdr,
            Self::TooMany {
                minor: MinorVersion::V0,
            } => Nfsstat4::Resource,
            Self::TooMany {
                minor: MinorVersion::V1 | MinorVersion::V2,
            } => Nfsstat4::TooManyOps,
        }
    }

    /// The operation that the answer names: where there is none, OP_ILLEGAL.
    #[must_use]
    pub const fn opnum(&self) -> Opnum {
        match self {
            Self::NotSupported { opnum }
            | Self::BadXdr {
                opnum: Some(opnum), ..
            } => *opnum,
            Self::Illegal { .. } | Self::BadXdr { opnum: None, .. } | Self::TooMany { .. } => {
                Opnum::Illegal
            }
        }
    }
}

/// `COMPOUND4args` as a whole, as a client makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompoundArgs<'a> {
    /// What it is for; comes back in the reply.
    pub tag: Tag<'a>,
    /// The minor version that it is in.
    pub minorversion: u32,
    /// The operations.
    pub argarray: Vec<ArgOp<'a>>,
}

impl<'a> Decode<'a> for CompoundArgs<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            tag: Decode::decode(d)?,
            minorversion: d.u32("minorversion")?,
            argarray: d.array_of(COMPOUND_OPS_MAX, "argarray")?,
        })
    }
}

impl Encode for CompoundArgs<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.tag.encode(e);
        e.u32(self.minorversion);
        e.array_of(&self.argarray);
    }
}

/// `COMPOUND4res`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompoundRes<'a> {
    /// The status of the last operation that was carried out.
    pub status: Nfsstat4,
    /// The tag of the call.
    pub tag: Tag<'a>,
    /// The results, up to the first that is no success.
    pub resarray: Vec<ResOp<'a>>,
}

impl<'a> Decode<'a> for CompoundRes<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            status: Decode::decode(d)?,
            tag: Decode::decode(d)?,
            resarray: d.array_of(COMPOUND_OPS_MAX, "resarray")?,
        })
    }
}

impl Encode for CompoundRes<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.status.encode(e);
        self.tag.encode(e);
        e.array_of(&self.resarray);
    }
}

#[cfg(test)]
mod tests;
