//! Scanning and running agree, and a bad operation ends a COMPOUND where it stands.

use proptest::prelude::*;

use super::*;
use crate::limits::COMPOUND_OPS_MAX;
use crate::nfs4::ops::{PutfhArgs, WriteArgs};
use crate::nfs4::tests::samples::{self, Draw};
use crate::nfs4::{Nfsstat4 as Status, StableHow4, Stateid4};
use crate::test_support::{check_message, hex};
use crate::{Payload, encode_to_vec};
use MinorVersion::{V0, V1, V2};

fn compound(bytes: &[u8]) -> Compound<'_> {
    Compound::decode(&mut Decoder::new(bytes)).unwrap()
}

fn encoded(minor: u32, ops: &[ArgOp<'_>]) -> Vec<u8> {
    encode_to_vec(&CompoundArgs {
        tag: Tag(b"a tag"),
        minorversion: minor,
        argarray: ops.to_vec(),
    })
}

fn sequence() -> SequenceArgs {
    SequenceArgs {
        sessionid: crate::nfs4::Sessionid4([5; 16]),
        sequenceid: 7,
        slotid: 1,
        highest_slotid: 2,
        cachethis: true,
    }
}

#[test]
fn a_compound_comes_back_operation_by_operation() {
    let ops = [
        ArgOp::Sequence(sequence()),
        ArgOp::Putrootfh(()),
        ArgOp::Getfh(()),
    ];
    let bytes = encoded(1, &ops);
    let compound = compound(&bytes);
    assert_eq!(compound.tag, Tag(b"a tag"));
    assert_eq!((compound.minorversion, compound.announced), (1, 3));
    assert!(compound.ops(V1).eq(ops.iter().cloned().map(Ok)));
    let scan = compound.scan(V1);
    assert_eq!(scan.good, 3);
    assert_eq!(scan.first, Some(Opnum::Sequence));
    assert_eq!(scan.sequence, Some(sequence()));
    assert_eq!((scan.bad, scan.trailing, scan.changes), (None, 0, false));
    let results: usize = ops.iter().map(ArgOp::reply_len_max).sum();
    assert_eq!(results, 44 + 8 + 140);
}

#[test]
fn the_first_operation_is_not_read_twice() {
    let first = ArgOp::Sequence(sequence());
    for rest in [0, 1, COMPOUND_OPS_MAX - 1, COMPOUND_OPS_MAX] {
        let mut ops = vec![first.clone()];
        ops.extend((0..rest).map(|_| ArgOp::Putrootfh(())));
        let bytes = encoded(1, &ops);
        let compound = compound(&bytes);
        let behind = compound.ops_behind_first(V1, &compound.scan(V1));
        assert!(behind.eq(compound.ops(V1).skip(1)), "{rest} behind it");
    }
    let none = encoded(1, &[]);
    let none = compound(&none);
    assert_eq!(none.ops_behind_first(V1, &none.scan(V1)).count(), 0);
    let bad = hex("00000000 00000001 00000001 ffffffff");
    let bad = compound(&bad);
    let ops: Vec<_> = bad.ops_behind_first(V1, &bad.scan(V1)).collect();
    assert_eq!(ops, [Err(BadOp::Illegal { number: u32::MAX })]);
}

#[test]
fn what_is_behind_the_last_operation_is_counted() {
    let mut bytes = encoded(1, &[ArgOp::Putrootfh(())]);
    bytes.extend([0; 5]);
    assert_eq!(compound(&bytes).scan(V1).trailing, 5);
}

#[test]
fn an_unknown_operation_is_illegal_and_those_before_it_are_carried_out() {
    for number in [0, 1, 2, 76, 10043, 10044, u32::MAX] {
        let mut bytes = hex("00000000 00000001 00000003 00000018");
        bytes.extend(number.to_be_bytes());
        let compound = compound(&bytes);
        let ops: Vec<_> = compound.ops(V1).collect();
        let bad = BadOp::Illegal { number };
        assert_eq!(ops, [Ok(ArgOp::Putrootfh(())), Err(bad)]);
        assert_eq!(bad.status(), Status::OpIllegal);
        assert_eq!(bad.opnum(), Opnum::Illegal);
        let scan = compound.scan(V1);
        assert_eq!((scan.good, scan.bad), (1, Some(bad)));
    }
}

#[test]
fn a_minor_version_does_not_know_the_operations_of_later_ones() {
    let sequence = encoded(0, &[ArgOp::Sequence(sequence())]);
    let illegal = BadOp::Illegal { number: 53 };
    assert_eq!(compound(&sequence).scan(V0).bad, Some(illegal));
    let seek = encoded(
        1,
        &[ArgOp::Listxattrs(crate::nfs4::ops::ListxattrsArgs {
            cookie: 0,
            maxcount: 0,
        })],
    );
    let illegal = BadOp::Illegal { number: 74 };
    assert_eq!(compound(&seek).scan(V1).bad, Some(illegal));
    assert_eq!(compound(&seek).scan(V2).bad, None);
    let renew = encoded(
        1,
        &[ArgOp::Renew(crate::nfs4::ops::RenewArgs {
            clientid: crate::nfs4::Clientid4 { id: 1 },
        })],
    );
    let bad = compound(&renew).scan(V1).bad.unwrap();
    assert_eq!((bad.status(), bad.opnum()), (Status::Notsupp, Opnum::Renew));
    assert_eq!(compound(&renew).scan(V0).bad, None);
}

#[test]
fn arguments_that_end_too_soon_are_bad_xdr_of_their_operation() {
    let putfh = encoded(
        1,
        &[
            ArgOp::Putrootfh(()),
            ArgOp::Putfh(PutfhArgs {
                object: crate::nfs4::FileHandle::new(&[1; 20]).unwrap(),
            }),
        ],
    );
    for cut in 1..24 {
        let bytes = &putfh[..putfh.len() - cut];
        let compound = compound(bytes);
        let scan = compound.scan(V1);
        let bad = scan.bad.unwrap();
        assert_eq!((scan.good, bad.status()), (1, Status::Badxdr));
        assert_eq!(bad.opnum(), Opnum::Putfh);
    }
    // Not even the number of the second operation is whole.
    let bytes = &putfh[..putfh.len() - 26];
    let bad = compound(bytes).scan(V1).bad.unwrap();
    assert_eq!(
        (bad.status(), bad.opnum()),
        (Status::Badxdr, Opnum::Illegal)
    );
}

#[test]
fn no_more_operations_are_looked_at_than_there_may_be() {
    let mut bytes = hex("00000000 00000001 ffffffff");
    for _ in 0..=COMPOUND_OPS_MAX {
        bytes.extend(hex("00000018"));
    }
    let scan = compound(&bytes).scan(V1);
    assert_eq!(scan.good as usize, COMPOUND_OPS_MAX);
    assert_eq!(scan.bad.unwrap().status(), Status::TooManyOps);
    let scan = compound(&bytes).scan(V0);
    assert_eq!(scan.bad.unwrap().status(), Status::Resource);
}

#[test]
fn a_tag_beyond_its_limit_is_garbage() {
    let mut bytes = hex("00000401");
    bytes.extend([0; 2000]);
    assert!(Compound::decode(&mut Decoder::new(&bytes)).is_err());
}

#[test]
fn an_operation_behind_data_that_was_received_apart_is_found() {
    let write = |data| {
        ArgOp::Write(WriteArgs {
            stateid: Stateid4::CURRENT,
            offset: 9,
            stable: StableHow4::Unstable,
            data,
        })
    };
    let len = 4097;
    let ops = [write(Payload::Apart { len }), ArgOp::Getfh(())];
    let bytes = encoded(1, &ops);
    let at = bytes.len() - 4;
    let mut d = Decoder::with_hole(&bytes, at);
    let compound = Compound::decode(&mut d).unwrap();
    assert!(compound.ops(V1).eq(ops.map(Ok)));
    let scan = compound.scan(V1);
    assert_eq!((scan.good, scan.trailing, scan.changes), (2, 0, true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn whole_compounds_round_trip(seed: u64) {
        let mut draw = Draw(seed);
        let mut argarray = samples::args(&mut draw);
        argarray.truncate(1 + draw.below(6));
        check_message(&CompoundArgs { tag: Tag(b""), minorversion: 2, argarray });
        let mut resarray = samples::results(&mut draw);
        resarray.truncate(1 + draw.below(6));
        check_message(&CompoundRes { status: draw.status(), tag: Tag(b"xyz"), resarray });
    }

    /// What the scan says is what running finds, wherever the bytes end.
    #[test]
    fn scanning_and_running_agree(seed: u64) {
        let mut draw = Draw(seed);
        let mut argarray = samples::args(&mut draw);
        let from = draw.below(argarray.len());
        argarray.rotate_left(from);
        argarray.truncate(1 + draw.below(5));
        let bytes = encoded(2, &argarray);
        for minor in [V0, V1, V2] {
            for cut in 20..=bytes.len() {
                let compound = compound(&bytes[..cut]);
                let scan = compound.scan(minor);
                let ran: Vec<_> = compound.ops(minor).collect();
                let good = ran.iter().filter(|op| op.is_ok()).count();
                prop_assert_eq!(good, scan.good as usize);
                prop_assert_eq!(ran.last().and_then(|op| op.clone().err()), scan.bad);
                prop_assert_eq!(scan.bad.is_none(), good == argarray.len());
            }
        }
    }
}
