//! What the fuzz targets share.

use std::fmt::Debug;

use nfs_wire::nfs3::{self, Failure, Procedure, WccData};
use nfs_wire::nfs4::ops::RESOP_LEN_MIN;
use nfs_wire::nfs4::{ArgOp, Compound, CompoundArgs, MinorVersion, WriteHead};
use nfs_wire::{Decode, DecodeError, Decoder, Encode, Payload, encode_to_vec};

/// Decodes a message from the front of `bytes`, if there is one, and checks that it keeps its length
/// and its meaning when it is encoded again. Only the bytes of padding may change.
pub fn round_trip<'a, T: Encode + PartialEq + Debug>(
    bytes: &'a [u8],
    decode: impl Fn(&mut Decoder<'a>) -> Result<T, DecodeError>,
    decode_again: impl for<'b> Fn(&T, &'b [u8]) -> bool,
) {
    let mut d = Decoder::new(bytes);
    let Ok(value) = decode(&mut d) else { return };
    let encoded = encode_to_vec(&value);
    assert_eq!(encoded.len(), d.position(), "{value:?}");
    assert!(decode_again(&value, &encoded), "{value:?}");
}

/// [`round_trip`] of a type: `round_trip_of!(bytes, Type)`, or of what decodes it:
/// `round_trip_of!(bytes, |d| decode(d))`.
#[macro_export]
macro_rules! round_trip_of {
    ($bytes:expr, |$d:ident| $decode:expr) => {
        $crate::round_trip(
            $bytes,
            |$d| $decode,
            |value, bytes| {
                let mut again = nfs_wire::Decoder::new(bytes);
                let $d = &mut again;
                let decoded = $decode.expect("what was encoded decodes");
                again.remaining() == 0 && decoded == *value
            },
        )
    };
    ($bytes:expr, $type:ty) => {
        $crate::round_trip_of!($bytes, |d| <$type as nfs_wire::Decode>::decode(d))
    };
}

type Res<Ok, Fail> = Result<Ok, Failure<Fail>>;

/// Checks `bytes` as the arguments of a call of NFSv3.
pub fn nfs3_args(procedure: Procedure, bytes: &[u8]) {
    round_trip_of!(bytes, |d| nfs3::Call::decode(procedure, d));
    if procedure == Procedure::Write {
        write_head(bytes);
    }
}

/// The head of a WRITE must say the same as the whole.
fn write_head(bytes: &[u8]) {
    let mut d = Decoder::new(bytes);
    let head = nfs3::WriteHead::decode(&mut d);
    let tail_len = d.remaining();
    let Ok(whole) = nfs3::WriteArgs::decode(&mut Decoder::new(bytes)) else {
        return;
    };
    let head = head.expect("a whole WRITE has a head");
    assert_eq!((head.file, head.offset), (whole.file, whole.offset));
    assert_eq!((head.count, head.stable), (whole.count, whole.stable));
    assert_eq!(head.data_len as usize, whole.data.len());
    assert!(head.tail_len() <= tail_len);
}

/// Checks `bytes` as the arguments of COMPOUND.
pub fn nfs4_compound(minor: MinorVersion, bytes: &[u8]) {
    round_trip_of!(bytes, CompoundArgs<'_>);
    let mut d = Decoder::new(bytes);
    let Ok(compound) = Compound::decode(&mut d) else {
        return;
    };
    let scan = compound.scan(minor);
    let ran: Vec<_> = compound.ops(minor).collect();
    let good = ran.iter().filter(|op| op.is_ok()).count();
    assert_eq!(scan.good as usize, good);
    assert_eq!(
        scan.bad,
        ran.last().and_then(|op| op.as_ref().err()).copied()
    );
    assert!(scan.trailing <= d.remaining());
    let behind_first = ran.iter().skip(usize::from(scan.good > 0)).cloned();
    assert!(compound.ops_behind_first(minor, &scan).eq(behind_first));
    for op in ran.iter().flatten() {
        assert!(op.reply_len_max() >= RESOP_LEN_MIN);
    }
    write_head4(bytes, &ran);
}

/// The head of a WRITE must say the same as the whole, and a record without its data the same as one with it.
fn write_head4<E: Debug + PartialEq>(bytes: &[u8], ran: &[Result<ArgOp<'_>, E>]) {
    let mut d = Decoder::new(bytes);
    let Ok(Some(head)) = WriteHead::find(&mut d, Some(bytes.len())) else {
        return;
    };
    let at = d.position();
    let write = ran.iter().flatten().find_map(|op| match op {
        ArgOp::Write(write) => Some(write),
        _ => None,
    });
    // Operations are read in the minor version that was picked, which may be another one.
    if let Some(write) = write {
        assert_eq!(write.stateid, head.stateid);
        assert_eq!((write.offset, write.stable), (head.offset, head.stable));
        assert_eq!(write.data.len(), head.data_len as usize);
    }
    let (front, data) = bytes.split_at(at);
    let holed = [front, &data[head.tail_len()..]].concat();
    let mut d = Decoder::with_hole(&holed, at);
    let compound = Compound::decode(&mut d).expect("the front is the same");
    let whole = Compound::decode(&mut Decoder::new(bytes)).expect("it was decoded before");
    let apart = compound.ops(head.minor).map(|op| op.map(without_data));
    let here = whole.ops(head.minor).map(|op| op.map(without_data));
    assert!(apart.eq(here));
}

fn without_data(op: ArgOp<'_>) -> ArgOp<'_> {
    match op {
        ArgOp::Write(mut write) => {
            write.data = Payload::Here(&[]);
            ArgOp::Write(write)
        }
        op => op,
    }
}

/// Checks `bytes` as the results of a procedure of NFSv3.
pub fn nfs3_results(procedure: Procedure, bytes: &[u8]) {
    match procedure {
        Procedure::Null => {}
        Procedure::Getattr => round_trip_of!(bytes, Res<nfs3::GetattrOk, ()>),
        Procedure::Setattr | Procedure::Remove | Procedure::Rmdir => {
            round_trip_of!(bytes, Res<nfs3::RemoveOk, WccData>);
        }
        Procedure::Lookup => round_trip_of!(bytes, Res<nfs3::LookupOk, nfs3::PostOpAttr>),
        Procedure::Access => round_trip_of!(bytes, Res<nfs3::AccessOk, nfs3::PostOpAttr>),
        Procedure::Readlink => {
            round_trip_of!(bytes, Res<nfs3::ReadlinkOk<'_>, nfs3::PostOpAttr>);
        }
        Procedure::Read => round_trip_of!(bytes, Res<nfs3::ReadOk<'_>, nfs3::PostOpAttr>),
        Procedure::Write => round_trip_of!(bytes, Res<nfs3::WriteOk, WccData>),
        Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod => {
            round_trip_of!(bytes, Res<nfs3::CreateOk, WccData>);
        }
        Procedure::Rename => round_trip_of!(bytes, Res<nfs3::RenameBody, nfs3::RenameBody>),
        Procedure::Link => round_trip_of!(bytes, Res<nfs3::LinkBody, nfs3::LinkBody>),
        Procedure::Readdir => {
            round_trip_of!(bytes, Res<nfs3::ReaddirOk<'_>, nfs3::PostOpAttr>);
        }
        Procedure::Readdirplus => {
            round_trip_of!(bytes, Res<nfs3::ReaddirplusOk<'_>, nfs3::PostOpAttr>);
        }
        Procedure::Fsstat => round_trip_of!(bytes, Res<nfs3::FsstatOk, nfs3::PostOpAttr>),
        Procedure::Fsinfo => round_trip_of!(bytes, Res<nfs3::FsinfoOk, nfs3::PostOpAttr>),
        Procedure::Pathconf => round_trip_of!(bytes, Res<nfs3::PathconfOk, nfs3::PostOpAttr>),
        Procedure::Commit => round_trip_of!(bytes, Res<nfs3::CommitOk, WccData>),
    }
}

/// Are these whole results of the procedure?
pub fn nfs3_results_decode(procedure: Procedure, bytes: &[u8]) -> bool {
    fn whole<'a, Ok: Decode<'a>, Fail: Decode<'a>>(bytes: &'a [u8]) -> bool
    where
        Res<Ok, Fail>: Decode<'a>,
    {
        nfs_wire::decode_all::<Res<Ok, Fail>>(bytes).is_ok()
    }
    type Attr = nfs3::PostOpAttr;
    match procedure {
        Procedure::Null => bytes.is_empty(),
        Procedure::Getattr => whole::<nfs3::GetattrOk, ()>(bytes),
        Procedure::Setattr | Procedure::Remove | Procedure::Rmdir => {
            whole::<nfs3::RemoveOk, WccData>(bytes)
        }
        Procedure::Lookup => whole::<nfs3::LookupOk, Attr>(bytes),
        Procedure::Access => whole::<nfs3::AccessOk, Attr>(bytes),
        Procedure::Readlink => whole::<nfs3::ReadlinkOk<'_>, Attr>(bytes),
        Procedure::Read => whole::<nfs3::ReadOk<'_>, Attr>(bytes),
        Procedure::Write => whole::<nfs3::WriteOk, WccData>(bytes),
        Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod => {
            whole::<nfs3::CreateOk, WccData>(bytes)
        }
        Procedure::Rename => whole::<nfs3::RenameBody, nfs3::RenameBody>(bytes),
        Procedure::Link => whole::<nfs3::LinkBody, nfs3::LinkBody>(bytes),
        Procedure::Readdir => whole::<nfs3::ReaddirOk<'_>, Attr>(bytes),
        Procedure::Readdirplus => whole::<nfs3::ReaddirplusOk<'_>, Attr>(bytes),
        Procedure::Fsstat => whole::<nfs3::FsstatOk, Attr>(bytes),
        Procedure::Fsinfo => whole::<nfs3::FsinfoOk, Attr>(bytes),
        Procedure::Pathconf => whole::<nfs3::PathconfOk, Attr>(bytes),
        Procedure::Commit => whole::<nfs3::CommitOk, WccData>(bytes),
    }
}
