//! Every procedure's arguments and results, back and forth.

mod strategies;

use proptest::prelude::*;

use super::*;
use crate::test_support::{bytes, check_message, check_message_with, file_handle, hex};
use crate::xdr::padding;
use crate::{Decode, DecodeError, Decoder, Encode, Encoder, decode_all, encode_to_vec};
use strategies as any_of;

/// Checks a procedure's two results: what it gives, and its failure with each status.
fn check_results<'a, O, F>(ok: O, body: F)
where
    O: Decode<'a> + Encode + PartialEq + std::fmt::Debug,
    F: Decode<'a> + Encode + PartialEq + std::fmt::Debug + Clone,
{
    check_message(&Result::<O, Failure<F>>::Ok(ok));
    for status in &Nfsstat3::ALL[1..] {
        let (status, body) = (*status, body.clone());
        check_message(&Result::<O, Failure<F>>::Err(Failure { status, body }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn calls_round_trip(calls in any_of::a_call_of_each_procedure()) {
        for call in calls {
            check_message_with(&call, |d| Call::decode(call.procedure(), d));
        }
    }

    #[test]
    fn getattr_results_round_trip(obj_attributes in any_of::fattr3()) {
        check_results(GetattrOk { obj_attributes }, ());
    }

    #[test]
    fn setattr_remove_and_rmdir_results_round_trip(wcc in any_of::wcc_data()) {
        check_results(RemoveOk { wcc }, wcc);
    }

    #[test]
    fn lookup_results_round_trip(
        object in file_handle(),
        obj_attributes in any_of::post_op_attr(),
        dir_attributes in any_of::post_op_attr(),
    ) {
        check_results(LookupOk { object, obj_attributes, dir_attributes }, dir_attributes);
    }

    #[test]
    fn access_results_round_trip(obj_attributes in any_of::post_op_attr(), access: u32) {
        check_results(AccessOk { obj_attributes, access }, obj_attributes);
    }

    #[test]
    fn readlink_results_round_trip(
        symlink_attributes in any_of::post_op_attr(),
        data in bytes(60).prop_map(Nfspath3),
    ) {
        check_results(ReadlinkOk { symlink_attributes, data }, symlink_attributes);
    }

    #[test]
    fn read_results_round_trip(
        file_attributes in any_of::post_op_attr(),
        eof: bool,
        data in bytes(90),
    ) {
        let count = u32::try_from(data.len()).unwrap();
        check_results(ReadOk { file_attributes, count, eof, data }, file_attributes);
    }

    #[test]
    fn write_results_round_trip(
        file_wcc in any_of::wcc_data(),
        count: u32,
        committed in any_of::stable_how(),
        verf: [u8; 8],
    ) {
        check_results(WriteOk { file_wcc, count, committed, verf }, file_wcc);
    }

    #[test]
    fn create_mkdir_symlink_and_mknod_results_round_trip(
        obj in proptest::option::of(file_handle()),
        obj_attributes in any_of::post_op_attr(),
        dir_wcc in any_of::wcc_data(),
    ) {
        check_results(CreateOk { obj, obj_attributes, dir_wcc }, dir_wcc);
    }

    #[test]
    fn rename_results_round_trip(
        fromdir_wcc in any_of::wcc_data(),
        todir_wcc in any_of::wcc_data(),
    ) {
        let body = RenameBody { fromdir_wcc, todir_wcc };
        check_results(body, body);
    }

    #[test]
    fn link_results_round_trip(
        file_attributes in any_of::post_op_attr(),
        linkdir_wcc in any_of::wcc_data(),
    ) {
        let body = LinkBody { file_attributes, linkdir_wcc };
        check_results(body, body);
    }

    #[test]
    fn readdir_results_round_trip(
        dir_attributes in any_of::post_op_attr(),
        cookieverf: [u8; 8],
        entries in proptest::collection::vec(any_of::entry3(), 0..4),
        eof: bool,
    ) {
        check_results(ReaddirOk { dir_attributes, cookieverf, entries, eof }, dir_attributes);
    }

    #[test]
    fn readdirplus_results_round_trip(
        dir_attributes in any_of::post_op_attr(),
        cookieverf: [u8; 8],
        entries in proptest::collection::vec(any_of::entry_plus3(), 0..3),
        eof: bool,
    ) {
        check_results(ReaddirplusOk { dir_attributes, cookieverf, entries, eof }, dir_attributes);
    }

    #[test]
    fn fsstat_results_round_trip(
        obj_attributes in any_of::post_op_attr(),
        [tbytes, fbytes, abytes, tfiles, ffiles, afiles]: [u64; 6],
        invarsec: u32,
    ) {
        let ok = FsstatOk {
            obj_attributes, tbytes, fbytes, abytes, tfiles, ffiles, afiles, invarsec,
        };
        check_results(ok, obj_attributes);
    }

    #[test]
    fn fsinfo_results_round_trip(
        obj_attributes in any_of::post_op_attr(),
        [rtmax, rtpref, rtmult, wtmax, wtpref, wtmult, dtpref]: [u32; 7],
        maxfilesize: u64,
        time_delta in any_of::nfstime3(),
        properties: u32,
    ) {
        let ok = FsinfoOk {
            obj_attributes, rtmax, rtpref, rtmult, wtmax, wtpref, wtmult, dtpref, maxfilesize,
            time_delta, properties,
        };
        check_results(ok, obj_attributes);
    }

    #[test]
    fn pathconf_results_round_trip(
        obj_attributes in any_of::post_op_attr(),
        [linkmax, name_max]: [u32; 2],
        [no_trunc, chown_restricted, case_insensitive, case_preserving]: [bool; 4],
    ) {
        let ok = PathconfOk {
            obj_attributes, linkmax, name_max, no_trunc, chown_restricted, case_insensitive,
            case_preserving,
        };
        check_results(ok, obj_attributes);
    }

    #[test]
    fn commit_results_round_trip(file_wcc in any_of::wcc_data(), verf: [u8; 8]) {
        check_results(CommitOk { file_wcc, verf }, file_wcc);
    }

    #[test]
    fn read_head_is_the_front_of_a_read(
        file_attributes in any_of::post_op_attr(),
        eof: bool,
        data in bytes(90),
    ) {
        let data_len = u32::try_from(data.len()).unwrap();
        let mut sent = encode_to_vec(&ReadOkHead { file_attributes, eof, data_len });
        sent.extend_from_slice(data);
        sent.resize(sent.len() + padding(data.len()), 0);
        let whole = encode_to_vec(&ReadOk { file_attributes, count: data_len, eof, data });
        prop_assert_eq!(sent, whole);
    }

    #[test]
    fn write_head_is_the_front_of_a_write(write in any_of::write_args()) {
        let whole = encode_to_vec(&write);
        let mut d = Decoder::new(&whole);
        let head = WriteHead::decode(&mut d).unwrap();
        prop_assert_eq!(head.tail_len(), d.remaining());
        prop_assert_eq!(
            (head.file, head.offset, head.count, head.stable),
            (write.file, write.offset, write.count, write.stable)
        );
        prop_assert_eq!(usize::try_from(head.data_len).unwrap(), write.data.len());
        check_message(&head);
    }

    #[test]
    fn entry_lengths_are_exact(entry in any_of::entry3(), plus in any_of::entry_plus3()) {
        // Each entry of a list stands behind a boolean of four bytes.
        let encoded = 4 + encode_to_vec(&entry).len();
        prop_assert_eq!(encoded, Entry3::encoded_len(entry.name.0.len()));
        let encoded = 4 + encode_to_vec(&plus).len();
        prop_assert!(encoded <= EntryPlus3::encoded_len_max(plus.entry.name.0.len()));
    }

    #[test]
    fn any_bytes_decode_or_not(message in bytes(300)) {
        for procedure in Procedure::ALL {
            let mut d = Decoder::new(message);
            if let Ok(call) = Call::decode(*procedure, &mut d) {
                check_message_with(&call, |d| Call::decode(*procedure, d));
            }
        }
    }
}

#[test]
fn readdir_fixed_length_is_that_of_no_entries() {
    let attributes = decode_all::<Fattr3>(&[[0, 0, 0, 1].as_slice(), &[0; 80]].concat()).unwrap();
    let ok = ReaddirOk {
        dir_attributes: Some(attributes),
        cookieverf: [0; 8],
        entries: Vec::new(),
        eof: true,
    };
    assert_eq!(encode_to_vec(&attributes).len(), Fattr3::ENCODED_LEN);
    assert_eq!(encode_to_vec(&ok).len(), READDIR_OK_FIXED_LEN);
}

#[test]
fn longest_entry_plus_is_as_long_as_said() {
    let plus = EntryPlus3 {
        entry: Entry3 {
            fileid: 1,
            name: Filename(b"abcde"),
            cookie: 2,
        },
        name_attributes: decode_all(&[[0, 0, 0, 2].as_slice(), &[0; 80]].concat()).ok(),
        name_handle: FileHandle::new(&[7; 64]).ok(),
    };
    assert!(plus.name_attributes.is_some());
    let encoded = 4 + encode_to_vec(&plus).len();
    assert_eq!(encoded, EntryPlus3::encoded_len_max(5));
}

#[test]
fn procedures_are_0_to_21() {
    for value in 0..30 {
        match Procedure::try_from(value) {
            Ok(procedure) => assert_eq!(procedure as u32, value),
            Err(_) => assert!(value > 21, "{value}"),
        }
    }
}

#[test]
fn statuses_are_those_of_the_rfc() {
    let known = [
        0, 1, 2, 5, 6, 13, 17, 18, 19, 20, 21, 22, 27, 28, 30, 31, 63, 66, 69, 70, 71, 10_001,
        10_002, 10_003, 10_004, 10_005, 10_006, 10_007, 10_008,
    ];
    let all: Vec<u32> = Nfsstat3::ALL.iter().map(|status| *status as u32).collect();
    assert_eq!(all, known);
    for value in (0..200).chain(9_990..10_020).chain([u32::MAX]) {
        assert_eq!(
            Nfsstat3::try_from(value).is_ok(),
            known.contains(&value),
            "{value}"
        );
    }
}

#[test]
fn file_handle_of_65_bytes_is_too_long() {
    assert!(FileHandle::new(&[0; 64]).is_ok());
    assert_eq!(
        FileHandle::new(&[0; 65]),
        Err(FileHandleTooLong { max: 64 })
    );
    let mut message = hex("00000041");
    message.resize(4 + 68, 0);
    assert_eq!(
        decode_all::<FileHandle>(&message),
        Err(DecodeError::TooLong {
            field: "nfs_fh",
            len: 65,
            max: 64
        })
    );
}

#[test]
fn file_handles_of_different_length_differ() {
    let short = FileHandle::new(&[0; 8]).unwrap();
    let long = FileHandle::new(&[0; 9]).unwrap();
    assert_ne!(short, long);
}

#[test]
fn padding_may_hold_anything() {
    let message = hex("00000001 61ffffff");
    assert_eq!(decode_all(&message), Ok(Filename(b"a")));
}

#[test]
fn discriminants_out_of_range_are_errors() {
    fn bad<'a, T: Decode<'a> + std::fmt::Debug>(message: &'a [u8]) {
        let error = decode_all::<T>(message).unwrap_err();
        assert!(matches!(error, DecodeError::BadValue { .. }), "{error:?}");
    }
    bad::<Ftype3>(&[0, 0, 0, 0]);
    bad::<Ftype3>(&[0, 0, 0, 8]);
    bad::<StableHow>(&[0, 0, 0, 3]);
    bad::<SetTime>(&[0, 0, 0, 3]);
    bad::<CreateHow>(&[0, 0, 0, 3]);
    bad::<Option<u32>>(&[0, 0, 0, 2]);
    bad::<Option<u32>>(&[1, 0, 0, 1]);
}

#[test]
fn count_need_not_match_the_data() {
    // That is for the server to answer: it is well-formed XDR.
    let write = WriteArgs {
        file: FileHandle::new(b"abc").unwrap(),
        offset: u64::MAX,
        count: 1000,
        stable: StableHow::DataSync,
        data: b"short",
    };
    check_message(&write);
}

#[test]
fn lookup_matches_the_rfc() {
    let message = hex("00000004 01020304 00000005 68656c6c 6f000000");
    let args = LookupArgs {
        what: DirOpArgs {
            dir: FileHandle::new(&[1, 2, 3, 4]).unwrap(),
            name: Filename(b"hello"),
        },
    };
    assert_eq!(decode_all(&message), Ok(args));
    assert_eq!(encode_to_vec(&args), message);
}

#[test]
fn setattr_matches_the_rfc() {
    let message = hex("00000002 abcd0000
         00000001 000001a4  00000000  00000000  00000001 00000000 00001000
         00000001  00000002 00000005 00000006
         00000001 00000007 00000008");
    let time = |seconds, nseconds| Nfstime3 { seconds, nseconds };
    let args = SetattrArgs {
        object: FileHandle::new(&[0xab, 0xcd]).unwrap(),
        new_attributes: Sattr3 {
            mode: Some(0o644),
            uid: None,
            gid: None,
            size: Some(4096),
            atime: SetTime::ServerTime,
            mtime: SetTime::ClientTime(time(5, 6)),
        },
        guard: Some(time(7, 8)),
    };
    assert_eq!(decode_all(&message), Ok(args));
    assert_eq!(encode_to_vec(&args), message);
}

#[test]
fn times_are_unsigned_and_never_wrap() {
    let at = |seconds, nseconds| Nfstime3 { seconds, nseconds };
    let table = [
        (i64::MIN, 7, at(0, 0), false),
        (-1, 999_999_999, at(0, 0), false),
        (0, 7, at(0, 7), true),
        (0x7fff_ffff, 7, at(0x7fff_ffff, 7), true),
        // 2038-01-19 03:14:08, the first that 32 signed bits cannot say.
        (0x8000_0000, 7, at(0x8000_0000, 7), true),
        (0xffff_ffff, 7, at(u32::MAX, 7), true),
        (0x1_0000_0000, 7, Nfstime3::MAX, false),
        (i64::MAX, 0, Nfstime3::MAX, false),
    ];
    for (seconds, nseconds, expected, said) in table {
        assert_eq!(Nfstime3::nearest(seconds, nseconds), expected, "{seconds}");
        assert_eq!(Nfstime3::can_say(seconds), said, "{seconds}");
    }
}

#[test]
fn encoder_appends() {
    let mut out = vec![9];
    Nfsstat3::Stale.encode(&mut Encoder::new(&mut out));
    assert_eq!(out, [9, 0, 0, 0, 70]);
}
