use proptest::prelude::*;

use super::*;
use crate::auth::AUTH_SYS;
use crate::test_support::{bytes, check_message, check_message_with, hex};
use crate::{decode_all, encode_to_vec};

fn opaque_auth() -> impl Strategy<Value = OpaqueAuth<'static>> {
    (any::<u32>(), bytes(400)).prop_map(|(flavor, body)| OpaqueAuth { flavor, body })
}

fn accept_stat() -> impl Strategy<Value = AcceptStat> {
    prop_oneof![
        Just(AcceptStat::Success),
        Just(AcceptStat::ProgUnavail),
        any::<(u32, u32)>().prop_map(|(low, high)| AcceptStat::ProgMismatch { low, high }),
        Just(AcceptStat::ProcUnavail),
        Just(AcceptStat::GarbageArgs),
        Just(AcceptStat::SystemErr),
    ]
}

fn rejected() -> impl Strategy<Value = Rejected> {
    prop_oneof![
        any::<(u32, u32)>().prop_map(|(low, high)| Rejected::RpcMismatch { low, high }),
        (1_u32..=14).prop_map(|stat| {
            Rejected::AuthError(decode_all(&stat.to_be_bytes()).expect("a known auth_stat"))
        }),
    ]
}

fn decode_call<'a>(d: &mut Decoder<'a>) -> Result<CallHeader<'a>, DecodeError> {
    CallHeader::decode(d).map_err(|error| match error {
        CallError::Malformed(error) => error,
        other => panic!("{other}"),
    })
}

proptest! {
    #[test]
    fn call_round_trips(
        (xid, program, version, procedure) in any::<(u32, u32, u32, u32)>(),
        credential in opaque_auth(),
        verifier in opaque_auth(),
    ) {
        let call = CallHeader { xid, program, version, procedure, credential, verifier };
        check_message_with(&call, decode_call);
        let record = encode_to_vec(&call);
        prop_assert_eq!(call.detach().attach(&record), call);
    }

    #[test]
    fn accepted_reply_round_trips(
        xid: u32,
        verifier in opaque_auth(),
        stat in accept_stat(),
    ) {
        check_message(&ReplyHeader { xid, body: ReplyBody::Accepted { verifier, stat } });
    }

    #[test]
    fn denied_reply_round_trips(xid: u32, rejected in rejected()) {
        check_message(&ReplyHeader { xid, body: ReplyBody::Denied(rejected) });
    }
}

/// A NULL call of NFSv3 as AUTH_NONE, up to the credential.
const CALL_HEAD: &str = "12345678 00000000 00000002 000186a3 00000003 00000000";

#[test]
fn call_matches_the_rfc() {
    let bytes = hex(&format!("{CALL_HEAD} 00000000 00000000 00000000 00000000"));
    let call = CallHeader {
        xid: 0x1234_5678,
        program: 100_003,
        version: 3,
        procedure: 0,
        credential: OpaqueAuth::NONE,
        verifier: OpaqueAuth::NONE,
    };
    assert_eq!(CallHeader::decode(&mut Decoder::new(&bytes)), Ok(call));
    assert_eq!(encode_to_vec(&call), bytes);
}

#[test]
fn call_leaves_the_decoder_at_the_arguments() {
    let bytes = hex(&format!(
        "{CALL_HEAD} 00000000 00000000 00000000 00000000 cafe"
    ));
    let mut d = Decoder::new(&bytes);
    CallHeader::decode(&mut d).unwrap();
    assert_eq!(d.rest(), [0xca, 0xfe]);
}

#[test]
fn rpc_version_3_is_answered_with_a_mismatch() {
    // Nothing after the version: its meaning is unknown, so it cannot be demanded.
    let bytes = hex("12345678 00000000 00000003");
    let error = CallHeader::decode(&mut Decoder::new(&bytes)).unwrap_err();
    assert_eq!(
        error,
        CallError::RpcVersion {
            xid: 0x1234_5678,
            version: 3
        }
    );
    assert_eq!(
        encode_to_vec(&error.reply().unwrap()),
        hex("12345678 00000001 00000001 00000000 00000002 00000002")
    );
}

#[test]
fn what_is_no_call_is_not_answered() {
    let reply = encode_to_vec(&ReplyHeader::accepted(7, AcceptStat::Success));
    let error = CallHeader::decode(&mut Decoder::new(&reply)).unwrap_err();
    assert_eq!(error, CallError::Reply { xid: 7 });
    assert_eq!(error.reply(), None);
    for msg_type in [2, u32::MAX] {
        let mut bytes = hex("12345678");
        bytes.extend(msg_type.to_be_bytes());
        let error = CallHeader::decode(&mut Decoder::new(&bytes)).unwrap_err();
        let xid = 0x1234_5678;
        assert_eq!(error, CallError::NotACall { xid, msg_type });
        assert_eq!(error.reply(), None);
    }
}

#[test]
fn unknown_flavor_decodes() {
    let bytes = hex(&format!("{CALL_HEAD} 0000cafe 00000000 00000000 00000000"));
    let call = CallHeader::decode(&mut Decoder::new(&bytes)).unwrap();
    assert_eq!(call.credential.flavor, 0xcafe);
}

#[test]
fn credential_of_401_bytes_is_answered_as_bad() {
    let mut bytes = hex(&format!("{CALL_HEAD} 00000001 00000191"));
    bytes.resize(bytes.len() + 404 + 8, 0);
    let error = CallHeader::decode(&mut Decoder::new(&bytes)).unwrap_err();
    assert_eq!(
        encode_to_vec(&error.reply().unwrap()),
        hex("12345678 00000001 00000001 00000001 00000001")
    );
}

#[test]
fn verifier_of_401_bytes_is_answered_as_bad() {
    let mut bytes = hex(&format!("{CALL_HEAD} 00000000 00000000 00000000 00000191"));
    bytes.resize(bytes.len() + 404, 0);
    let error = CallHeader::decode(&mut Decoder::new(&bytes)).unwrap_err();
    assert_eq!(
        encode_to_vec(&error.reply().unwrap()),
        hex("12345678 00000001 00000001 00000001 00000003")
    );
}

#[test]
fn longest_credential_is_taken() {
    let call = CallHeader {
        xid: 1,
        program: 100_003,
        version: 3,
        procedure: 1,
        credential: OpaqueAuth {
            flavor: AUTH_SYS,
            body: &[7; 400],
        },
        verifier: OpaqueAuth::NONE,
    };
    check_message_with(&call, decode_call);
}

#[test]
fn replies_match_the_rfc() {
    let accepted = |stat| encode_to_vec(&ReplyHeader::accepted(1, stat));
    let head = "00000001 00000001 00000000 00000000 00000000";
    assert_eq!(
        accepted(AcceptStat::Success),
        hex(&format!("{head} 00000000"))
    );
    assert_eq!(
        accepted(AcceptStat::ProgUnavail),
        hex(&format!("{head} 00000001"))
    );
    assert_eq!(
        accepted(AcceptStat::ProgMismatch { low: 3, high: 4 }),
        hex(&format!("{head} 00000002 00000003 00000004"))
    );
    assert_eq!(
        accepted(AcceptStat::ProcUnavail),
        hex(&format!("{head} 00000003"))
    );
    assert_eq!(
        accepted(AcceptStat::GarbageArgs),
        hex(&format!("{head} 00000004"))
    );
    assert_eq!(
        accepted(AcceptStat::SystemErr),
        hex(&format!("{head} 00000005"))
    );
}

#[test]
fn replies_with_unknown_values_are_errors() {
    for (text, field) in [
        ("00000001 00000000 00000000", "msg_type"),
        ("00000001 00000001 00000002", "reply_stat"),
        (
            "00000001 00000001 00000000 00000000 00000000 00000006",
            "accept_stat",
        ),
        ("00000001 00000001 00000001 00000002", "reject_stat"),
        ("00000001 00000001 00000001 00000001 00000000", "auth_stat"),
    ] {
        let error = decode_all::<ReplyHeader<'_>>(&hex(text)).unwrap_err();
        assert!(
            matches!(error, DecodeError::BadValue { field: named, .. } if named == field),
            "{error:?} for {text}"
        );
    }
}
