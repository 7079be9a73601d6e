use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::test_support::{bytes, check_message, check_message_with, file_handle, hex};
use crate::{decode_all, encode_to_vec};

fn name() -> impl Strategy<Value = Name<'static>> {
    bytes(40).prop_map(Name)
}

fn dirpath() -> impl Strategy<Value = Dirpath<'static>> {
    bytes(80).prop_map(Dirpath)
}

fn call() -> impl Strategy<Value = Call<'static>> {
    prop_oneof![
        Just(Call::Null(())),
        dirpath().prop_map(Call::Mnt),
        Just(Call::Dump(())),
        dirpath().prop_map(Call::Umnt),
        Just(Call::Umntall(())),
        Just(Call::Export(())),
    ]
}

const STATUSES: [Mountstat3; 9] = [
    Mountstat3::Perm,
    Mountstat3::Noent,
    Mountstat3::Io,
    Mountstat3::Acces,
    Mountstat3::Notdir,
    Mountstat3::Inval,
    Mountstat3::Nametoolong,
    Mountstat3::Notsupp,
    Mountstat3::Serverfault,
];

proptest! {
    #[test]
    fn calls_round_trip(call in call()) {
        check_message_with(&call, |d| Call::decode(call.procedure(), d));
    }

    #[test]
    fn mount_ok_round_trips(
        fhandle in file_handle(),
        auth_flavors in vec(any::<u32>(), 0..=AUTH_FLAVORS_MAX),
    ) {
        check_message(&MntRes::Ok(MountOk { fhandle, auth_flavors }));
    }

    #[test]
    fn mount_list_round_trips(entries in vec((name(), dirpath()), 0..5)) {
        let entries = entries
            .into_iter()
            .map(|(hostname, directory)| MountEntry { hostname, directory });
        check_message(&MountList(entries.collect()));
    }

    #[test]
    fn export_list_round_trips(entries in vec((dirpath(), vec(name(), 0..4)), 0..5)) {
        let entries = entries
            .into_iter()
            .map(|(directory, groups)| ExportEntry { directory, groups });
        check_message(&ExportList(entries.collect()));
    }
}

#[test]
fn failures_round_trip() {
    for status in STATUSES {
        check_message(&MntRes::Err(status));
    }
}

#[test]
fn unknown_mountstat3_is_an_error() {
    let known: Vec<u32> = STATUSES.iter().map(|status| *status as u32).collect();
    for value in (1_u32..100).chain(10_000..10_010) {
        let decoded = decode_all::<MntRes>(&value.to_be_bytes()).is_ok();
        assert_eq!(decoded, known.contains(&value), "{value}");
    }
}

#[test]
fn procedures_are_0_to_5() {
    for value in 0..10 {
        match Procedure::try_from(value) {
            Ok(procedure) => assert_eq!(procedure as u32, value),
            Err(_) => assert!(value > 5, "{value}"),
        }
    }
    let names: Vec<&str> = Procedure::ALL.iter().map(|known| known.name()).collect();
    assert_eq!(names, ["NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"]);
}

#[test]
fn mnt_matches_the_rfc() {
    let bytes = hex("00000005 2f646174 61000000");
    let call = Call::decode(Procedure::Mnt, &mut Decoder::new(&bytes));
    assert_eq!(call, Ok(Call::Mnt(Dirpath(b"/data"))));

    let bytes = hex("00000000 00000003 aabbcc00 00000002 00000001 00000000");
    let result = MntRes::Ok(MountOk {
        fhandle: FileHandle::new(&[0xaa, 0xbb, 0xcc]).unwrap(),
        auth_flavors: vec![1, 0],
    });
    assert_eq!(decode_all(&bytes), Ok(result.clone()));
    assert_eq!(encode_to_vec(&result), bytes);
}

#[test]
fn export_matches_the_rfc() {
    let bytes = hex("00000001 00000002 2f610000 00000001 00000001 2a000000 00000000 00000000");
    let list = ExportList(vec![ExportEntry {
        directory: Dirpath(b"/a"),
        groups: vec![Name(b"*")],
    }]);
    assert_eq!(decode_all(&bytes), Ok(list.clone()));
    assert_eq!(encode_to_vec(&list), bytes);
}

#[test]
fn lengths_beyond_the_limits_are_errors() {
    fn too_long<'a, T: Decode<'a>>(head: &'a [u8]) -> bool {
        matches!(decode_all::<T>(head), Err(DecodeError::TooLong { .. }))
    }
    assert!(too_long::<Dirpath<'_>>(&1025_u32.to_be_bytes()));
    assert!(too_long::<Name<'_>>(&256_u32.to_be_bytes()));
    assert!(too_long::<MntRes>(&hex("00000000 00000041")));
    assert!(too_long::<MntRes>(&hex("00000000 00000000 00000041")));
    check_message(&Dirpath(&[b'x'; 1024]));
    check_message(&Name(&[b'x'; 255]));
}
