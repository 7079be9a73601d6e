//! Replies decode as what was put in, within their limits.

use super::*;
use crate::nfs4::ops::{ReadArgs, ReadOk, SetattrRes};
use crate::nfs4::{Bitmap4, CompoundRes, Stateid4};
use crate::{Decode, Decoder, Payload};

const WIDE: ReplyLimits = ReplyLimits {
    message: 1000,
    cached: None,
};

fn begin(out: &mut Vec<u8>, limits: ReplyLimits) -> CompoundReply {
    out.extend([0xee; 28]);
    CompoundReply::begin(out, 4, &Tag(b"tag"), limits)
}

fn decode(out: &[u8]) -> CompoundRes<'_> {
    let mut d = Decoder::new(&out[28..]);
    let res = CompoundRes::decode(&mut d).unwrap();
    d.finish().unwrap();
    res
}

#[test]
fn a_reply_says_how_many_results_it_has_and_how_the_last_ended() {
    let mut out = Vec::new();
    let mut reply = begin(&mut out, WIDE);
    assert_eq!(reply.put(&mut out, &ResOp::Putrootfh(Ok(()))), Ok(()));
    let noent = ResOp::Lookup(Err(Nfsstat4::Noent));
    assert_eq!(reply.put(&mut out, &noent), Err(Nfsstat4::Noent));
    assert_eq!(reply.message_len(), out.len() - 4);
    reply.finish(&mut out);
    let res = decode(&out);
    assert_eq!((res.status, res.tag), (Nfsstat4::Noent, Tag(b"tag")));
    assert_eq!(res.resarray, [ResOp::Putrootfh(Ok(())), noent]);
    assert_eq!(out[..28], [0xee; 28]);
}

#[test]
fn a_compound_may_fail_without_a_result() {
    let mut out = Vec::new();
    let mut reply = begin(&mut out, WIDE);
    reply.fail_whole(Nfsstat4::MinorVersMismatch);
    reply.finish(&mut out);
    let res = decode(&out);
    assert_eq!(res.status, Nfsstat4::MinorVersMismatch);
    assert!(res.resarray.is_empty());
}

#[test]
fn data_that_is_sent_from_elsewhere_counts_with_its_padding() {
    let mut out = Vec::new();
    let mut reply = begin(&mut out, WIDE);
    let before = reply.message_len();
    let head = ResOp::Read(Ok(ReadOk {
        eof: true,
        data: Payload::Apart { len: 5 },
    }));
    let put = reply.put_with(&mut out, Opnum::Read, 5, |e| {
        head.encode(e);
        head.status()
    });
    assert_eq!(put, Ok(()));
    assert_eq!(reply.message_len() - before, 16 + 8);
    // The caller puts the data there, and goes on behind it.
    out.extend(b"abcde\0\0\0");
    reply.put(&mut out, &ResOp::Savefh(Ok(()))).unwrap();
    assert_eq!(reply.message_len(), out.len() - 4);
    reply.finish(&mut out);
    let data = Payload::Here(b"abcde");
    let read = ResOp::Read(Ok(ReadOk { eof: true, data }));
    assert_eq!(decode(&out).resarray, [read, ResOp::Savefh(Ok(()))]);
}

#[test]
fn a_result_that_does_not_fit_is_replaced_by_that_it_does_not() {
    for (message, cached, expected) in [
        (80, None, Nfsstat4::RepTooBig),
        (1000, Some(80), Nfsstat4::RepTooBigToCache),
        (80, Some(80), Nfsstat4::RepTooBig),
    ] {
        let mut out = Vec::new();
        let mut reply = begin(&mut out, ReplyLimits { message, cached });
        let long = ResOp::Getxattr(Ok(crate::nfs4::Xattrvalue4(&[7; 100])));
        assert_eq!(reply.put(&mut out, &long), Err(expected));
        reply.finish(&mut out);
        let res = decode(&out);
        assert_eq!(res.status, expected);
        assert_eq!(res.resarray, [ResOp::Getxattr(Err(expected))]);
    }
}

#[test]
fn data_that_would_not_fit_is_not_sent_either() {
    let mut out = Vec::new();
    let limits = ReplyLimits {
        message: 100,
        cached: None,
    };
    let mut reply = begin(&mut out, limits);
    let put = reply.put_with(&mut out, Opnum::Read, usize::MAX, |_| Nfsstat4::Ok);
    assert_eq!(put, Err(Nfsstat4::RepTooBig));
    assert!(reply.message_len() < 100);
}

#[test]
fn a_change_begins_only_if_its_result_fits_for_certain() {
    let mut out = Vec::new();
    let limits = ReplyLimits {
        message: 24 + 12 + 40,
        cached: None,
    };
    let reply = begin(&mut out, limits);
    let room = reply.room();
    assert_eq!(room, limits.message - reply.message_len());
    let commit = ArgOp::Commit(crate::nfs4::ops::CommitArgs {
        offset: 0,
        count: 0,
    });
    assert_eq!(reply.check_before(&commit), Ok(()));
    let remove = ArgOp::Remove(crate::nfs4::ops::RemoveArgs {
        target: crate::nfs4::Component4(b"x"),
    });
    assert_eq!(remove.reply_len_max(), 28);
    assert_eq!(reply.check_before(&remove).is_ok(), room >= 28);
    let open_downgrade = ArgOp::OpenDowngrade(crate::nfs4::ops::OpenDowngradeArgs {
        open_stateid: Stateid4::CURRENT,
        seqid: 0,
        share_access: 1,
        share_deny: 0,
    });
    let mut narrow = reply.clone();
    narrow.limit(ReplyLimits {
        message: 1000,
        cached: Some(reply.message_len() + 20),
    });
    let error = Err(Nfsstat4::RepTooBigToCache);
    assert_eq!(narrow.check_before(&open_downgrade), error);
    assert_eq!(narrow.room(), 20);
    // What changes nothing may begin, and is looked at when it is there.
    let read = ArgOp::Read(ReadArgs {
        stateid: Stateid4::ANONYMOUS,
        offset: 0,
        count: 4096,
    });
    assert_eq!(narrow.check_before(&read), Ok(()));
}

#[test]
fn a_setattr_that_fails_says_what_it_set() {
    let mut out = Vec::new();
    let mut reply = begin(&mut out, WIDE);
    let status = Nfsstat4::Perm;
    assert_eq!(
        reply.put_failure(&mut out, Opnum::Setattr, status),
        Err(status)
    );
    reply.finish(&mut out);
    let attrsset = Bitmap4::EMPTY;
    let expected = ResOp::Setattr(SetattrRes { status, attrsset });
    assert_eq!(decode(&out).resarray, [expected]);
}
