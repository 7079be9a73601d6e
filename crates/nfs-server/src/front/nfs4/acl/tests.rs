//! The mapping against what Linux does with POSIX ACLs, and against the entries read one by one.

use nfs_wire::nfs4::{ACE4_SYSTEM_AUDIT_ACE_TYPE, ACE4_WRITE_OWNER};
use proptest::prelude::*;

use super::super::owners;
use super::*;

/// Who wants something: users and groups have the numbers 0 to 3, and an object is of the first ones.
#[derive(Clone, Debug)]
struct Caller {
    user: u32,
    groups: Vec<u32>,
}

impl Caller {
    fn is(&self, who: Who) -> bool {
        match who {
            Who::Owner => self.user == 0,
            Who::OwningGroup => self.groups.contains(&0),
            Who::Everyone => true,
            Who::User(id) => self.user == id,
            Who::Group(id) => self.groups.contains(&id),
        }
    }
}

/// RFC 8881 §6.2.1: the first entry about the caller that has a bit decides about it; what none has is denied.
fn says(aces: &[Ace], caller: &Caller, bit: u32) -> bool {
    let mut about = aces
        .iter()
        .filter(|ace| caller.is(ace.who) && ace.mask & bit != 0);
    about.next().is_some_and(|ace| ace.allows)
}

/// Whether the kernel lets the caller do all of `wanted` (acl(5), access check algorithm).
fn grants(acl: &PosixAcl, caller: &Caller, wanted: Perms) -> bool {
    let left = |perms: Perms| perms.and(acl.mask.unwrap_or(Perms::ALL));
    if caller.user == 0 {
        return acl.owner.has(wanted);
    }
    if let Some((_, perms)) = acl.users.iter().find(|(id, _)| *id == caller.user) {
        return left(*perms).has(wanted);
    }
    let own = caller.groups.contains(&0).then_some(acl.group);
    let named = acl.groups.iter();
    let named = named.filter(|(id, _)| caller.groups.contains(id));
    let mut of_groups = own.into_iter().chain(named.map(|(_, perms)| *perms));
    let mut any = false;
    if of_groups.any(|perms| {
        any = true;
        left(perms).has(wanted)
    }) {
        return true;
    }
    !any && acl.other.has(wanted)
}

fn each_bit(mask: u32) -> impl Iterator<Item = u32> {
    (0..32)
        .map(|bit| 1 << bit)
        .filter(move |bit| mask & bit != 0)
}

/// Who the kernel takes a caller for, if by none of the entries that name somebody.
fn own_class(acl: &PosixAcl, caller: &Caller) -> Option<Who> {
    let named =
        |entries: &[(u32, Perms)], ids: &[u32]| entries.iter().any(|(id, _)| ids.contains(id));
    if caller.user == 0 {
        Some(Who::Owner)
    } else if named(&acl.users, &[caller.user]) {
        None
    } else if caller.groups.contains(&0) {
        Some(Who::OwningGroup)
    } else {
        (!named(&acl.groups, &caller.groups)).then_some(Who::Everyone)
    }
}

fn perms() -> impl Strategy<Value = Perms> {
    (0u32..8).prop_map(Perms::of_bits)
}

fn named() -> impl Strategy<Value = Vec<(u32, Perms)>> {
    let named = proptest::collection::btree_map(0u32..4, perms(), 0..4);
    named.prop_map(|named| named.into_iter().collect())
}

fn posix() -> impl Strategy<Value = PosixAcl> {
    let base = (perms(), perms(), perms());
    let some = (named(), named(), proptest::option::of(perms()), perms());
    (base, some).prop_map(|((owner, group, other), (users, groups, mask, needed))| {
        let names_somebody = !users.is_empty() || !groups.is_empty();
        PosixAcl {
            owner,
            users,
            group,
            groups,
            mask: mask.or(names_somebody.then_some(needed)),
            other,
        }
    })
}

/// The same rights without what the mask takes away, which is what entries of NFSv4 can say.
fn without_mask(acl: &PosixAcl) -> PosixAcl {
    let left = |perms: Perms| perms.and(acl.mask.unwrap_or(Perms::ALL));
    let all = |entries: &[(u32, Perms)]| {
        let left = entries.iter().map(|(id, perms)| (*id, left(*perms)));
        left.collect::<Vec<_>>()
    };
    let mut same = PosixAcl {
        users: all(&acl.users),
        group: left(acl.group),
        groups: all(&acl.groups),
        mask: None,
        ..acl.clone()
    };
    if !same.users.is_empty() || !same.groups.is_empty() {
        let named = same.users.iter().chain(&same.groups);
        same.mask = Some(named.fold(same.group, |all, (_, perms)| all.or(*perms)));
    }
    same
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        Just(Who::Owner),
        Just(Who::OwningGroup),
        Just(Who::Everyone),
        (0u32..4).prop_map(Who::User),
        (0u32..4).prop_map(Who::Group),
    ]
}

/// Entries of which most can be kept: denials of what nobody can be denied are few.
fn ace() -> impl Strategy<Value = Ace> {
    let mask = prop_oneof![
        4 => (perms(), any::<bool>()).prop_map(|(perms, directory)| mask_of(perms, directory)),
        2 => any::<u32>().prop_map(|mask| mask & (writing(true) | ACE4_READ_DATA | ACE4_EXECUTE)),
        1 => any::<u32>(),
    ];
    let inheritance = prop_oneof![
        4 => Just(0),
        1 => Just(PASSED_ON),
        1 => Just(ACE4_FILE_INHERIT_ACE),
        1 => Just(PASSED_ON | ACE4_INHERIT_ONLY_ACE),
        1 => Just(ACE4_DIRECTORY_INHERIT_ACE | ACE4_INHERIT_ONLY_ACE),
    ];
    (any::<bool>(), inheritance, mask, who()).prop_map(|(allows, inheritance, mask, who)| Ace {
        allows,
        inheritance,
        mask: if allows { mask } else { mask & !NEVER_DENIED },
        who,
    })
}

fn aces() -> impl Strategy<Value = Vec<Ace>> {
    proptest::collection::vec(ace(), 0..10)
}

fn caller() -> impl Strategy<Value = Caller> {
    let groups = proptest::collection::btree_set(0u32..5, 0..4);
    (0u32..5, groups).prop_map(|(user, groups)| Caller {
        user,
        groups: groups.into_iter().collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_posix_acl_comes_back_as_it_was_less_its_mask(
        access in posix(),
        default in proptest::option::of(posix()),
        is_directory: bool,
    ) {
        let default = default.filter(|_| is_directory);
        let aces = of_posix(&Acls { access: access.clone(), default: default.clone() }, is_directory);
        let expected = Acls {
            access: without_mask(&access),
            default: default.as_ref().map(without_mask),
        };
        prop_assert_eq!(to_posix(&aces, is_directory), Ok(expected.clone()));
        // What a mask has taken away once it takes away no more: then nothing is lost on the way.
        prop_assert_eq!(of_posix(&expected, is_directory), aces);
    }

    #[test]
    fn the_entries_of_a_posix_acl_say_what_the_kernel_does(
        access in posix(),
        caller in caller(),
        is_directory: bool,
    ) {
        let aces = of_posix(&Acls { access: access.clone(), default: None }, is_directory);
        for perms in [Perms::READ, Perms::WRITE, Perms::EXECUTE] {
            let granted = grants(&access, &caller, perms);
            for bit in each_bit(mask_of(perms, is_directory)) {
                prop_assert_eq!(says(&aces, &caller, bit), granted, "{:?} {:?}", aces, perms);
            }
        }
        prop_assert!(says(&aces, &caller, ACE4_READ_ATTRIBUTES));
        prop_assert_eq!(says(&aces, &caller, ACE4_WRITE_ACL), caller.user == 0);
    }

    #[test]
    fn nobody_is_granted_more_than_the_entries_say(
        aces in aces(),
        caller in caller(),
        wanted in perms(),
        is_directory: bool,
    ) {
        let Ok(acls) = to_posix(&aces, is_directory) else {
            return Ok(());
        };
        let own = aces.iter().copied();
        let own: Vec<_> = own.filter(|ace| ace.inheritance & ACE4_INHERIT_ONLY_ACE == 0).collect();
        if grants(&acls.access, &caller, wanted) {
            for bit in each_bit(mask_of(wanted, is_directory)) {
                prop_assert!(says(&own, &caller, bit), "{:?} {:?}", acls.access, bit);
            }
        }
        let mut passed_on: Vec<_> =
            aces.iter().copied().filter(|ace| ace.inheritance & PASSED_ON != 0).collect();
        let Some(default) = acls.default else {
            prop_assert!(passed_on.is_empty());
            return Ok(());
        };
        prop_assert!(!passed_on.is_empty());
        // Of whom nothing is said, the directory's own ACL says it.
        if let Some(who) = own_class(&default, &caller)
            && !passed_on.iter().any(|ace| ace.who == who || ace.who == Who::Everyone)
        {
            let perms = match who {
                Who::Owner => acls.access.owner,
                Who::OwningGroup => acls.access.group,
                _ => acls.access.other,
            };
            passed_on.push(Ace {
                allows: true,
                inheritance: PASSED_ON,
                mask: mask_of(perms, is_directory),
                who,
            });
        }
        if grants(&default, &caller, wanted) {
            for bit in each_bit(mask_of(wanted, is_directory)) {
                prop_assert!(says(&passed_on, &caller, bit), "{:?} {:?}", default, bit);
            }
        }
    }

    #[test]
    fn whatever_a_client_sends_is_an_acl_or_an_error(
        entries in proptest::collection::vec(
            (0u32..5, any::<u32>(), any::<u32>(), "[0-9@A-Z]{0,12}", any::<bool>()),
            0..8,
        ),
        is_directory: bool,
    ) {
        let sent = entries.iter().map(|(acetype, flag, access_mask, who, is_plain)| Nfsace4 {
            acetype: *acetype,
            flag: if *is_plain { flag & 0x4b } else { *flag },
            access_mask: *access_mask,
            who: Utf8str(who.as_bytes()),
        });
        if let Ok(aces) = decode_numbers(&sent.collect::<Vec<_>>())
            && let Ok(acls) = to_posix(&aces, is_directory)
        {
            prop_assert_eq!(PosixAcl::from_xattr(&acls.access.to_xattr()), Ok(acls.access));
            prop_assert!(is_directory || acls.default.is_none());
        }
    }

    #[test]
    fn entries_are_sent_and_taken_as_they_are(aces in aces()) {
        let named = Named::new(aces.clone(), |_kind, id| id.to_string());
        prop_assert_eq!(decode_numbers(&named.encode()), Ok(aces));
    }
}

/// Takes entries of a server without a domain of names.
fn decode_numbers(aces: &[Nfsace4<'_>]) -> Result<Vec<Ace>> {
    decode(aces, |_kind, who| owners::number(who))
}

fn wire(acetype: u32, flag: u32, who: &[u8]) -> Nfsace4<'_> {
    Nfsace4 {
        acetype,
        flag,
        access_mask: ACE4_READ_DATA,
        who: Utf8str(who),
    }
}

#[test]
fn what_a_posix_acl_cannot_have_is_refused() {
    let audit = wire(ACE4_SYSTEM_AUDIT_ACE_TYPE, 0, EVERYONE);
    assert_eq!(decode_numbers(&[audit]), Err(Nfsstat4::Attrnotsupp));
    // NO_PROPAGATE, SUCCESSFUL_ACCESS, FAILED_ACCESS, INHERITED, none; and what would pass on to nobody.
    for flag in [0x4, 0x10, 0x20, 0x80, 0x100, 0x8] {
        let with_flag = decode_numbers(&[wire(0, flag, EVERYONE)]);
        assert_eq!(with_flag, Err(Nfsstat4::Attrnotsupp), "{flag:#x}");
    }
    let passes_on = decode_numbers(&[wire(0, ACE4_FILE_INHERIT_ACE, EVERYONE)]).unwrap();
    assert_eq!(to_posix(&passes_on, false), Err(Nfsstat4::Attrnotsupp));
    assert!(to_posix(&passes_on, true).unwrap().default.is_some());
}

#[test]
fn names_are_numbers_or_one_of_three() {
    let is_taken = |who: &[u8]| decode_numbers(&[wire(0, 0, who)]).map(drop);
    for who in [&b"OWNER@"[..], b"GROUP@", b"EVERYONE@", b"0", b"4294967294"] {
        assert_eq!(is_taken(who), Ok(()));
    }
    for who in [
        &b""[..],
        b"root",
        b"root@example.org",
        b"INTERACTIVE@",
        b"owner@",
        b"4294967295",
        b"00000000001",
    ] {
        assert_eq!(is_taken(who), Err(Nfsstat4::Badowner), "{who:?}");
    }
    let group = decode_numbers(&[wire(1, ACE4_IDENTIFIER_GROUP, b"5")]).unwrap();
    assert_eq!(group.first().map(|ace| ace.who), Some(Who::Group(5)));
    let mut most = vec![wire(0, 0, b"7"); limits::ACES_MAX];
    assert!(decode_numbers(&most).is_ok());
    most.push(wire(0, 0, b"7"));
    assert_eq!(decode_numbers(&most), Err(Nfsstat4::Fbig));
}

fn ace_of(allows: bool, who: Who, mask: u32) -> Ace {
    Ace {
        allows,
        inheritance: 0,
        mask,
        who,
    }
}

#[test]
fn what_nobody_can_be_denied_is_refused_and_the_rest_is_passed_over() {
    for (who, mask, expected) in [
        (Who::Everyone, ACE4_READ_ATTRIBUTES, false),
        (Who::User(1), ACE4_READ_ACL, false),
        (Who::Owner, ACE4_WRITE_ACL, false),
        (Who::User(1), ACE4_WRITE_ATTRIBUTES, false),
        (Who::Everyone, ACE4_WRITE_OWNER, true),
        (Who::Owner, ACE4_WRITE_DATA, true),
    ] {
        let denied = to_posix(&[ace_of(false, who, mask)], false);
        assert_eq!(denied.is_ok(), expected, "{who:?} {mask:#x}");
    }
}

#[test]
fn no_entries_let_nobody_do_anything() {
    let acls = to_posix(&[], true).unwrap();
    assert_eq!(acls.access, PosixAcl::of_mode(0));
    assert_eq!(acls.default, None);
}

#[test]
fn an_entry_that_passes_on_alone_leaves_the_owner_what_the_directory_does() {
    let rx = Perms::READ.or(Perms::EXECUTE);
    let mut aces = of_posix(
        &Acls {
            access: PosixAcl::of_mode(0o750),
            default: None,
        },
        true,
    );
    let of_user = ace_of(true, Who::User(7), mask_of(rx, true));
    aces.insert(
        0,
        Ace {
            inheritance: PASSED_ON,
            ..of_user
        },
    );
    let acls = to_posix(&aces, true).unwrap();
    let expected = PosixAcl {
        users: vec![(7, rx)],
        mask: Some(rx),
        ..PosixAcl::of_mode(0o750)
    };
    assert_eq!(acls.access, expected);
    assert_eq!(acls.default, Some(expected));
}

#[test]
fn what_is_denied_to_somebody_who_may_be_the_owner_the_owner_is_not_left_either() {
    let [read, write] = [Perms::READ, Perms::WRITE].map(|perms| mask_of(perms, true));
    let passed_on = Ace {
        inheritance: PASSED_ON | ACE4_INHERIT_ONLY_ACE,
        ..ace_of(false, Who::User(7), write)
    };
    let aces = [passed_on, ace_of(true, Who::Owner, read | write)];
    let acls = to_posix(&aces, true).unwrap();
    let both = Perms::READ.or(Perms::WRITE);
    assert_eq!(acls.access.owner, both);
    assert_eq!(acls.default.map(|acl| acl.owner), Some(Perms::READ));
}

#[test]
fn what_was_allowed_before_is_denied_to_nobody() {
    let read = mask_of(Perms::READ, false);
    let aces = [
        ace_of(true, Who::User(7), read),
        ace_of(false, Who::User(7), read),
        ace_of(true, Who::Owner, read),
    ];
    let acl = to_posix(&aces, false).unwrap().access;
    assert_eq!(acl.users, [(7, Perms::READ)]);
    assert_eq!(acl.owner, Perms::READ);
}
