//! The table of attributes against the RFCs, and sets of values back and forth.

use proptest::prelude::*;

use super::*;
use crate::nfs4::{
    Attrlist4, Changeid4, FileHandle, Fsid4, Ftype4, Nfsace4, Nfstime4, Specdata4, Utf8str,
};
use crate::test_support::hex;
use crate::{Decode, decode_all, encode_to_vec};

fn all() -> Bitmap4 {
    Attribute::those(|_| true)
}

fn set_of(attributes: &[Attribute]) -> Bitmap4 {
    attributes
        .iter()
        .map(|attribute| attribute.number())
        .collect()
}

/// A `fattr4` as it comes off the wire.
fn fattr<'a>(attributes: &[Attribute], values: &'a [u8]) -> Fattr4<'a> {
    Fattr4 {
        attrmask: set_of(attributes),
        attr_vals: Attrlist4(values),
    }
}

#[test]
fn the_numbers_have_no_gap() {
    let numbers: Vec<u32> = Attribute::ALL.iter().map(|one| one.number()).collect();
    assert_eq!(numbers, (0..=86).collect::<Vec<_>>());
    for attribute in Attribute::ALL {
        assert_eq!(Attribute::try_from(attribute.number()), Ok(*attribute));
    }
    assert!(Attribute::try_from(87).is_err());
}

#[test]
fn each_minor_version_has_those_that_its_rfc_defines() {
    let numbers = |minor| Attribute::of_minor(minor).iter().collect::<Vec<_>>();
    assert_eq!(numbers(MinorVersion::V0), (0..=55).collect::<Vec<_>>());
    assert_eq!(numbers(MinorVersion::V1), (0..=76).collect::<Vec<_>>());
    assert_eq!(numbers(MinorVersion::V2), (0..=86).collect::<Vec<_>>());
}

#[test]
fn those_that_can_only_be_set_are_those_of_the_rfcs() {
    use Attribute as A;
    // RFC 8881 §5.5, RFC 8275 §5.
    let only_set = set_of(&[
        A::TimeAccessSet,
        A::TimeModifySet,
        A::LayoutHint,
        A::RetentionSet,
        A::RetentevtSet,
        A::ModeSetMasked,
        A::ModeUmask,
    ]);
    assert_eq!(all().minus(&Attribute::readable()), only_set);
    let both = Attribute::settable().and(&Attribute::readable());
    let expected = set_of(&[
        A::Size,
        A::Acl,
        A::Archive,
        A::Hidden,
        A::Mimetype,
        A::Mode,
        A::Owner,
        A::OwnerGroup,
        A::System,
        A::TimeBackup,
        A::TimeCreate,
        A::Dacl,
        A::Sacl,
        A::RetentionHold,
        A::SecLabel,
        A::TimeDelegAccess,
        A::TimeDelegModify,
    ]);
    assert_eq!(both, expected);
}

#[test]
fn an_exclusive_create_leaves_out_the_times_that_hold_its_verifier() {
    let left_out = Attribute::settable().minus(&Attribute::settable_at_exclusive_create());
    use Attribute as A;
    let times = set_of(&[
        A::TimeAccessSet,
        A::TimeModifySet,
        A::TimeDelegAccess,
        A::TimeDelegModify,
    ]);
    assert_eq!(left_out, times);
    assert!(Attribute::settable_at_exclusive_create().is_within(&Attribute::settable()));
}

#[test]
fn values_are_written_in_the_order_of_their_numbers() {
    let values = Attributes {
        mode: Some(0o644),
        ftype: Some(Ftype4::Reg),
        owner: Some(Utf8str(b"7")),
        size: Some(9),
        ..Attributes::default()
    };
    let expected = hex("00000002 00000012 00000012 00000018
         00000001 0000000000000009 000001a4 00000001 37000000");
    assert_eq!(encode_to_vec(&values), expected);
    let mut out = Vec::new();
    values.encode_asked(&Attribute::Size.bit(), &mut Encoder::new(&mut out));
    assert_eq!(out, hex("00000001 00000010 00000008 0000000000000009"));
}

#[test]
fn what_is_asked_for_and_not_there_is_left_out() {
    let mut out = Vec::new();
    Attributes::default().encode_asked(&all(), &mut Encoder::new(&mut out));
    assert_eq!(out, hex("00000000 00000000"));
}

#[test]
fn what_is_to_be_set_is_checked_in_the_order_of_what_can_be_done_about_it() {
    use Attribute as A;
    let supported = Attribute::those(|one| one != A::Hidden);
    let judge = |attributes: &[A], values: &str| {
        let values = hex(values);
        fattr(attributes, &values)
            .decode_to_set(&supported)
            .map(|values| values.present())
    };
    assert_eq!(judge(&[A::Mode], "000001a4"), Ok(A::Mode.bit()));
    assert_eq!(judge(&[], ""), Ok(Bitmap4::EMPTY));
    // Not supported, though it could not be set either and the values are none.
    let error = Err(AttributeError::NotSupported);
    assert_eq!(judge(&[A::Hidden, A::Fileid], ""), error);
    assert_eq!(
        judge(&[A::Fileid], "0000000000000001"),
        Err(AttributeError::Inval)
    );
    for (attributes, values) in [
        (&[A::Mode][..], ""),
        (&[A::Mode], "0001"),
        (&[A::Mode], "00000001 00000002"),
        (&[], "00000001"),
        (&[A::Mode, A::Size], "0000000000000001"),
        (&[A::Archive], "00000002"),
        (&[A::TimeModifySet], "00000002"),
    ] {
        let error = judge(attributes, values).unwrap_err();
        assert_eq!(error.status(), Nfsstat4::Badxdr, "{attributes:?}");
    }
    // A second has 10^9 nanoseconds.
    let good = "00000001 0000000000000000 3b9ac9ff";
    let bad = "00000001 0000000000000000 3b9aca00";
    assert!(judge(&[A::TimeModifySet], good).is_ok());
    assert_eq!(judge(&[A::TimeModifySet], bad), Err(AttributeError::Inval));
    assert!(judge(&[A::TimeModifySet], "00000000").is_ok());
}

#[test]
fn an_attribute_that_nobody_knows_is_not_supported() {
    for number in [87, 127, 1000] {
        let unknown = Fattr4 {
            attrmask: Bitmap4::of(&[number]),
            attr_vals: Attrlist4(&[]),
        };
        let error = unknown.decode_to_set(&all()).unwrap_err();
        assert_eq!(error.status(), Nfsstat4::Attrnotsupp);
        assert!(unknown.decode_values().is_err());
        assert!(unknown.decode_to_compare(&all()).is_err());
    }
}

#[test]
fn what_can_only_be_set_cannot_be_compared() {
    use Attribute as A;
    for attribute in [A::TimeModifySet, A::RdattrError] {
        let error = fattr(&[attribute], &[]).decode_to_compare(&all());
        assert_eq!(error, Err(AttributeError::Inval));
    }
    let bytes = hex("0000000000000007");
    let values = fattr(&[A::Size], &bytes).decode_to_compare(&all());
    assert_eq!(values.map(|values| values.size), Ok(Some(7)));
}

/// A value of every attribute.
fn full<'a>(number: u64, text: &'a [u8]) -> Attributes<'a> {
    let small = u32::try_from(number & 0xffff).unwrap();
    let time = Nfstime4 {
        seconds: number.cast_signed(),
        nseconds: small,
    };
    let path = Pathname4 {
        components: vec![crate::nfs4::Component4(text)],
    };
    let acl = crate::nfs4::Nfsacl41 {
        flag: small,
        aces: vec![Nfsace4 {
            who: Utf8str(text),
            ..Nfsace4::default()
        }],
    };
    let retention = RetentionGet4 {
        duration: number,
        begin_time: Some(time),
    };
    let to_retain = RetentionSet4 {
        enable: true,
        duration: Some(number),
    };
    Attributes {
        supported_attrs: Some(all()),
        ftype: Some(Ftype4::Lnk),
        fh_expire_type: Some(small),
        change: Some(Changeid4 { value: number }),
        size: Some(number),
        link_support: Some(true),
        symlink_support: Some(false),
        named_attr: Some(true),
        fsid: Some(Fsid4 {
            major: number,
            minor: 1,
        }),
        unique_handles: Some(true),
        lease_time: Some(small),
        rdattr_error: Some(Nfsstat4::Io),
        acl: Some(acl.aces.clone()),
        aclsupport: Some(small),
        archive: Some(true),
        cansettime: Some(true),
        case_insensitive: Some(false),
        case_preserving: Some(true),
        chown_restricted: Some(true),
        filehandle: Some(FileHandle::new(text).unwrap()),
        fileid: Some(number),
        files_avail: Some(number),
        files_free: Some(number),
        files_total: Some(number),
        fs_locations: Some(FsLocations4 {
            fs_root: path.clone(),
            locations: vec![FsLocation4 {
                server: vec![Utf8str(text)],
                rootpath: path.clone(),
            }],
        }),
        hidden: Some(false),
        homogeneous: Some(true),
        maxfilesize: Some(number),
        maxlink: Some(small),
        maxname: Some(small),
        maxread: Some(number),
        maxwrite: Some(number),
        mimetype: Some(Utf8str(text)),
        mode: Some(small),
        no_trunc: Some(true),
        numlinks: Some(small),
        owner: Some(Utf8str(text)),
        owner_group: Some(Utf8str(text)),
        quota_avail_hard: Some(number),
        quota_avail_soft: Some(number),
        quota_used: Some(number),
        rawdev: Some(Specdata4 {
            major: small,
            minor: 3,
        }),
        space_avail: Some(number),
        space_free: Some(number),
        space_total: Some(number),
        space_used: Some(number),
        system: Some(false),
        time_access: Some(time),
        time_access_set: Some(Settime4::ClientTime(time)),
        time_backup: Some(time),
        time_create: Some(time),
        time_delta: Some(time),
        time_metadata: Some(time),
        time_modify: Some(time),
        time_modify_set: Some(Settime4::ServerTime),
        mounted_on_fileid: Some(number),
        dir_notif_delay: Some(time),
        dirent_notif_delay: Some(time),
        dacl: Some(acl.clone()),
        sacl: Some(acl),
        change_policy: Some(ChangePolicy4 {
            major: number,
            minor: 2,
        }),
        fs_status: Some(FsStatus4 {
            source: Utf8str(text),
            age: -5,
            ..FsStatus4::default()
        }),
        fs_layout_types: Some(vec![small]),
        layout_hint: Some(Layouthint4::default()),
        layout_types: Some(vec![]),
        layout_blksize: Some(small),
        layout_alignment: Some(small),
        fs_locations_info: Some(FsLocationsInfo4 {
            valid_for: -1,
            fs_root: path.clone(),
            items: vec![FsLocationsItem4 {
                entries: vec![FsLocationsServer4::default()],
                rootpath: path,
            }],
            ..FsLocationsInfo4::default()
        }),
        mdsthreshold: Some(vec![ThresholdItem4::default()]),
        retention_get: Some(retention),
        retention_set: Some(to_retain),
        retentevt_get: Some(retention),
        retentevt_set: Some(to_retain),
        retention_hold: Some(number),
        mode_set_masked: Some(crate::nfs4::ModeMasked4 {
            value_to_set: small,
            mask_bits: 1,
        }),
        suppattr_exclcreat: Some(Attribute::settable_at_exclusive_create()),
        fs_charset_cap: Some(small),
        clone_blksize: Some(small),
        space_freed: Some(number),
        change_attr_type: Some(ChangeAttrType4::MonotonicIncr),
        sec_label: Some(SecLabel4::default()),
        mode_umask: Some(crate::nfs4::ModeUmask4 {
            mode: small,
            umask: 2,
        }),
        xattr_support: Some(true),
        offline: Some(false),
        time_deleg_access: Some(time),
        time_deleg_modify: Some(time),
        open_arguments: Some(OpenArguments4::default()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_choice_of_values_round_trips(
        number: u64,
        text in crate::test_support::bytes(40),
        asked in proptest::collection::vec(0_u32..=86, 0..12),
        missing in proptest::collection::vec(0_u32..=86, 0..12),
    ) {
        let values = full(number, text);
        prop_assert_eq!(values.present(), all());
        let asked: Bitmap4 = asked.into_iter().collect();
        let mut bytes = Vec::new();
        values.encode_asked(&asked, &mut Encoder::new(&mut bytes));
        let fattr: Fattr4<'_> = decode_all(&bytes).unwrap();
        let again = fattr.decode_values().unwrap();
        prop_assert_eq!(again.present(), asked);
        prop_assert_eq!(encode_to_vec(&again), bytes.clone());
        // One value after the other is the same.
        let missing: Bitmap4 = missing.into_iter().collect();
        for (asked, there) in [(asked, asked), (asked.or(&missing), asked.minus(&missing))] {
            let mut all_at_once = Vec::new();
            values.encode_asked(&there, &mut Encoder::new(&mut all_at_once));
            let mut one_by_one = vec![7];
            Fattr4::encode_each(&asked, &mut Encoder::new(&mut one_by_one), |to| {
                let is_there = there.contains(to.asked().number());
                is_there.then(|| values.write(to))?
            });
            prop_assert_eq!(one_by_one.split_first(), Some((&7, &all_at_once[..])));
        }
        // Cut off anywhere, the values are malformed and nothing worse.
        let values = fattr.attr_vals.0;
        for len in 0..values.len() {
            let cut = Fattr4 { attr_vals: Attrlist4(&values[..len]), ..fattr };
            let error = cut.decode_values().unwrap_err();
            prop_assert_eq!(error.status(), Nfsstat4::Badxdr);
        }
    }

    #[test]
    fn no_value_is_longer_than_the_table_says(number: u64, text in crate::test_support::bytes(128)) {
        let values = full(number, text);
        for attribute in Attribute::ALL {
            let mut bytes = Vec::new();
            values.encode_values(&attribute.bit(), &mut Encoder::new(&mut bytes));
            prop_assert!(bytes.len() <= attribute.encoded_len_max(), "{}", attribute.name());
        }
    }
}

#[test]
fn a_set_of_nothing_but_values_decodes_as_one() {
    let bytes = encode_to_vec(&full(5, b"x"));
    let fattr = Fattr4::decode(&mut crate::Decoder::new(&bytes)).unwrap();
    assert_eq!(fattr.attrmask, all());
    assert_eq!(fattr.decode_values().unwrap(), full(5, b"x"));
}
