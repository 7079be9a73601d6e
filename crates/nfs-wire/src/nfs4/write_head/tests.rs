//! Heads of WRITEs say what the whole says, and are found where clients put them.

use super::*;
use crate::nfs4::ops::{GetattrArgs, PutfhArgs, WriteArgs};
use crate::nfs4::{ArgOp, Attribute, CompoundArgs, Sessionid4, Tag};
use crate::{Payload, encode_to_vec};

const DATA: [u8; 997] = [0x61; 997];

fn sequence() -> SequenceArgs {
    SequenceArgs {
        sessionid: Sessionid4([5; 16]),
        sequenceid: 7,
        slotid: 1,
        highest_slotid: 2,
        cachethis: true,
    }
}

fn putfh() -> ArgOp<'static> {
    ArgOp::Putfh(PutfhArgs {
        object: FileHandle::new(&[9; 33]).unwrap(),
    })
}

fn write() -> ArgOp<'static> {
    ArgOp::Write(WriteArgs {
        stateid: Stateid4::READ_BYPASS,
        offset: 12_345,
        stable: StableHow4::DataSync,
        data: Payload::Here(&DATA),
    })
}

fn getattr() -> ArgOp<'static> {
    ArgOp::Getattr(GetattrArgs {
        attr_request: Attribute::Change.bit(),
    })
}

fn record(minorversion: u32, argarray: Vec<ArgOp<'_>>) -> Vec<u8> {
    encode_to_vec(&CompoundArgs {
        tag: Tag(b""),
        minorversion,
        argarray,
    })
}

fn find(bytes: &[u8], total: Option<usize>) -> Result<Option<(WriteHead, usize)>, DecodeError> {
    let mut d = Decoder::new(bytes);
    let head = WriteHead::find(&mut d, total)?;
    Ok(head.map(|head| (head, d.position())))
}

#[test]
fn the_head_of_what_linux_sends_is_found_as_soon_as_it_is_here() {
    for minorversion in [1, 2] {
        let ops = vec![ArgOp::Sequence(sequence()), putfh(), write(), getattr()];
        let bytes = record(minorversion, ops);
        let at = bytes.len() - 16 - DATA.len() - 3 + 4;
        let total = Some(bytes.len());
        let (head, position) = find(&bytes, total).unwrap().unwrap();
        assert_eq!(bytes[position..position + DATA.len()], DATA);
        assert_eq!(position, at);
        assert_eq!(head.minor as u32, minorversion);
        assert_eq!(head.sequence, Some(sequence()));
        assert_eq!(head.file.as_ref(), [9; 33]);
        assert_eq!(head.stateid, Stateid4::READ_BYPASS);
        assert_eq!((head.offset, head.stable), (12_345, StableHow4::DataSync));
        assert_eq!((head.data_len, head.tail_len()), (997, 1000));
        for cut in 0..position {
            let error = find(&bytes[..cut], total).unwrap_err();
            assert!(matches!(error, DecodeError::Missing { .. }), "{cut}");
        }
        for cut in position..bytes.len() {
            assert_eq!(find(&bytes[..cut], total), Ok(Some((head, position))));
            assert_eq!(find(&bytes[..cut], None), Ok(Some((head, position))));
        }
    }
}

#[test]
fn minor_version_0_has_no_sequence() {
    let bytes = record(0, vec![putfh(), write(), getattr()]);
    let (head, _) = find(&bytes, Some(bytes.len())).unwrap().unwrap();
    assert_eq!((head.minor, head.sequence), (MinorVersion::V0, None));
    let bytes = record(1, vec![putfh(), write(), getattr()]);
    assert_eq!(find(&bytes, Some(bytes.len())), Ok(None));
}

#[test]
fn other_compounds_are_received_whole() {
    let sequence = || ArgOp::Sequence(sequence());
    for ops in [
        vec![],
        vec![sequence()],
        vec![sequence(), putfh(), getattr()],
        vec![sequence(), ArgOp::Putrootfh(()), write()],
        vec![sequence(), putfh(), getattr(), write()],
        vec![putfh(), sequence(), write()],
    ] {
        let mut bytes = record(1, ops);
        bytes.extend([0; 64]);
        assert_eq!(find(&bytes, Some(bytes.len())), Ok(None));
    }
    let bytes = record(3, vec![sequence(), putfh(), write()]);
    assert_eq!(find(&bytes, Some(bytes.len())), Ok(None));
}

#[test]
fn a_write_beyond_what_was_announced_is_none() {
    let mut bytes = record(1, vec![ArgOp::Sequence(sequence()), putfh(), write()]);
    bytes[11] = 2;
    assert_eq!(find(&bytes, Some(bytes.len())), Ok(None));
}

#[test]
fn data_that_the_record_does_not_have_is_not_waited_for() {
    let bytes = record(1, vec![ArgOp::Sequence(sequence()), putfh(), write()]);
    assert!(find(&bytes, Some(bytes.len())).unwrap().is_some());
    assert_eq!(find(&bytes, Some(bytes.len() - 1)), Ok(None));
}

#[test]
fn a_long_rest_behind_the_data_is_received_whole() {
    let bytes = record(1, vec![ArgOp::Sequence(sequence()), putfh(), write()]);
    let longest = bytes.len() + WRITE_TAIL_BYTES_MAX;
    assert!(find(&bytes, Some(longest)).unwrap().is_some());
    assert_eq!(find(&bytes, Some(longest + 1)), Ok(None));
}
