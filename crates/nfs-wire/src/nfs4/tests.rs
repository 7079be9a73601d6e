//! Every operation's arguments and results, back and forth, and the tables against the RFCs.

pub(crate) mod samples;

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::ops::*;
use super::*;
use crate::test_support::check_message;
use crate::{Payload, encode_to_vec};
use samples::Draw;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn arguments_round_trip(seed: u64) {
        for op in samples::args(&mut Draw(seed)) {
            check_message(&op);
        }
    }

    #[test]
    fn results_round_trip(seed: u64) {
        for result in samples::results(&mut Draw(seed)) {
            check_message(&result);
        }
    }

    #[test]
    fn callbacks_round_trip(seed: u64) {
        let mut draw = Draw(seed);
        for op in samples::cb_args(&mut draw) {
            check_message(&op);
        }
        for result in samples::cb_results(&mut draw) {
            check_message(&result);
        }
    }
}

#[test]
fn every_operation_is_among_the_samples() {
    let all: BTreeSet<_> = Opnum::ALL.iter().copied().collect();
    let mut draw = Draw(7);
    let args = samples::args(&mut draw);
    assert_eq!(args.iter().map(ArgOp::opnum).collect::<BTreeSet<_>>(), all);
    let results = samples::results(&mut draw);
    let good = results.iter().filter(|res| res.status() == Nfsstat4::Ok);
    assert_eq!(good.map(ResOp::opnum).collect::<BTreeSet<_>>(), all);
    let all: BTreeSet<_> = CbOpnum::ALL.iter().copied().collect();
    let args = samples::cb_args(&mut draw);
    assert_eq!(
        args.iter().map(CbArgOp::opnum).collect::<BTreeSet<_>>(),
        all
    );
}

/// The operations as the XDR of RFC 7863 and RFC 8276 §8.6 numbers them.
const NUMBERS: &str = "
    ACCESS 3 CLOSE 4 COMMIT 5 CREATE 6 DELEGPURGE 7 DELEGRETURN 8 GETATTR 9 GETFH 10 LINK 11 LOCK 12
    LOCKT 13 LOCKU 14 LOOKUP 15 LOOKUPP 16 NVERIFY 17 OPEN 18 OPENATTR 19 OPEN_CONFIRM 20
    OPEN_DOWNGRADE 21 PUTFH 22 PUTPUBFH 23 PUTROOTFH 24 READ 25 READDIR 26 READLINK 27 REMOVE 28
    RENAME 29 RENEW 30 RESTOREFH 31 SAVEFH 32 SECINFO 33 SETATTR 34 SETCLIENTID 35
    SETCLIENTID_CONFIRM 36 VERIFY 37 WRITE 38 RELEASE_LOCKOWNER 39
    BACKCHANNEL_CTL 40 BIND_CONN_TO_SESSION 41 EXCHANGE_ID 42 CREATE_SESSION 43 DESTROY_SESSION 44
    FREE_STATEID 45 GET_DIR_DELEGATION 46 GETDEVICEINFO 47 GETDEVICELIST 48 LAYOUTCOMMIT 49
    LAYOUTGET 50 LAYOUTRETURN 51 SECINFO_NO_NAME 52 SEQUENCE 53 SET_SSV 54 TEST_STATEID 55
    WANT_DELEGATION 56 DESTROY_CLIENTID 57 RECLAIM_COMPLETE 58
    ALLOCATE 59 COPY 60 COPY_NOTIFY 61 DEALLOCATE 62 IO_ADVISE 63 LAYOUTERROR 64 LAYOUTSTATS 65
    OFFLOAD_CANCEL 66 OFFLOAD_STATUS 67 READ_PLUS 68 SEEK 69 WRITE_SAME 70 CLONE 71
    GETXATTR 72 SETXATTR 73 LISTXATTRS 74 REMOVEXATTR 75 ILLEGAL 10044";

const CB_NUMBERS: &str = "
    CB_GETATTR 3 CB_RECALL 4 CB_LAYOUTRECALL 5 CB_NOTIFY 6 CB_PUSH_DELEG 7 CB_RECALL_ANY 8
    CB_RECALLABLE_OBJ_AVAIL 9 CB_RECALL_SLOT 10 CB_SEQUENCE 11 CB_WANTS_CANCELLED 12
    CB_NOTIFY_LOCK 13 CB_NOTIFY_DEVICEID 14 CB_OFFLOAD 15 CB_ILLEGAL 10044";

fn numbered(text: &str) -> Vec<(&str, u32)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.chunks(2);
    pairs
        .map(|pair| (pair[0], pair[1].parse().unwrap()))
        .collect()
}

#[test]
fn operations_have_the_numbers_of_the_rfcs() {
    let ours: Vec<_> = Opnum::ALL
        .iter()
        .map(|op| (op.name(), op.number()))
        .collect();
    assert_eq!(ours, numbered(NUMBERS));
    let ours: Vec<_> = CbOpnum::ALL
        .iter()
        .map(|op| (op.name(), op.number()))
        .collect();
    assert_eq!(ours, numbered(CB_NUMBERS));
    for number in (0..200).chain(10_000..10_100) {
        let known = Opnum::ALL.iter().find(|op| op.number() == number);
        assert_eq!(Opnum::try_from(number).ok(), known.copied());
    }
}

#[test]
fn each_minor_version_has_the_operations_of_its_rfc() {
    use MinorVersion::{V0, V1, V2};
    let only_0 = [20, 30, 35, 36, 39];
    for op in Opnum::ALL {
        let number = op.number();
        let expected = |minor| match (number, minor) {
            (10044, _) => Available::Yes,
            _ if only_0.contains(&number) && minor != V0 => Available::NotSupported,
            (..=39, _) | (..=58, V1 | V2) | (_, V2) => Available::Yes,
            _ => Available::Unknown,
        };
        for minor in [V0, V1, V2] {
            assert_eq!(
                op.minors().available_in(minor),
                expected(minor),
                "{op} {minor:?}"
            );
        }
    }
}

#[test]
fn statuses_have_each_their_number_and_word() {
    let numbers: BTreeSet<u32> = Nfsstat4::ALL.iter().map(|status| *status as u32).collect();
    let words: BTreeSet<&str> = Nfsstat4::ALL.iter().map(|status| status.word()).collect();
    assert_eq!(numbers.len(), Nfsstat4::ALL.len());
    assert_eq!(words.len(), Nfsstat4::ALL.len());
    // RFC 7530 §13.1, RFC 8881 §15.1, RFC 7862 §11.1, RFC 8276 §8.5.
    for number in (10001..=10096).filter(|n| ![10002, 10073].contains(n)) {
        assert!(numbers.contains(&number), "{number}");
    }
    for number in [19, 10002, 10073, 10097] {
        assert!(Nfsstat4::try_from(number).is_err(), "{number}");
    }
    for status in Nfsstat4::ALL {
        check_message(status);
    }
}

#[test]
fn which_operations_may_stand_without_a_session_is_what_the_rfc_says() {
    let alone = Opnum::ALL.iter().filter(|op| op.place() == Place::Alone);
    let expected = [
        Opnum::BindConnToSession,
        Opnum::ExchangeId,
        Opnum::CreateSession,
        Opnum::DestroySession,
        Opnum::DestroyClientid,
    ];
    assert!(alone.eq(expected.iter()));
    let first = Opnum::ALL.iter().filter(|op| op.place() == Place::First);
    assert!(first.eq([Opnum::Sequence].iter()));
}

/// Results as the server makes them: names of owners that are short, no secret state verifiers, no lists
/// without a limit.
fn is_ours(result: &ResOp<'_>) -> bool {
    match result {
        ResOp::ExchangeId(Ok(ok)) => !matches!(ok.state_protect, ops::StateProtect4R::Ssv(_)),
        _ => true,
    }
}

proptest! {
    #[test]
    fn no_result_of_a_change_is_longer_than_the_table_says(seed: u64) {
        for result in samples::results(&mut Draw(seed)) {
            if result.opnum().changes() && is_ours(&result) && result.opnum() != Opnum::Layoutget {
                let len = encode_to_vec(&result).len();
                prop_assert!(len <= result.opnum().reply_len_base(), "{} {len}", result.opnum());
            }
        }
    }
}

#[test]
fn what_a_read_asks_for_counts_with_its_padding() {
    let read = ArgOp::Read(ReadArgs {
        stateid: Stateid4::ANONYMOUS,
        offset: 0,
        count: 5,
    });
    let data = Payload::Here(b"abcde");
    let result = ResOp::Read(Ok(ReadOk { eof: true, data }));
    assert_eq!(read.reply_len_max(), encode_to_vec(&result).len());
}
