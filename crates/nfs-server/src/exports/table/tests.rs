use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::exports::config::ServerConfig;

fn client(net: &str) -> ClientConfig {
    ClientConfig {
        net: net.parse().unwrap(),
        ..ClientConfig::default()
    }
}

fn export_of(clients: Vec<ClientConfig>) -> Export {
    let config = ExportConfig {
        clients,
        ..ExportConfig::new("/srv", "/srv")
    };
    Export::new(&config, &mut BTreeMap::new())
}

fn table_of(pseudos: &[&str]) -> ExportTable {
    let exports = pseudos
        .iter()
        .map(|pseudo| ExportConfig::new("/srv", *pseudo))
        .collect();
    ExportTable::new(&Config::from_flags(ServerConfig::default(), exports)).unwrap()
}

#[test]
fn a_mount_path_finds_the_longest_export_and_what_is_left() {
    let table = table_of(&["/", "/a", "/a/b"]);
    let find = |path: &'static str| {
        let (export, rest) = table.find_by_pseudo(path.as_bytes())?;
        let rest = rest
            .iter()
            .map(|name| String::from_utf8_lossy(name))
            .collect::<Vec<_>>();
        Some((export.pseudo.clone(), rest.join(",")))
    };
    let found = |pseudo: &str, rest: &str| Some((pseudo.to_owned(), rest.to_owned()));
    assert_eq!(find("/"), found("/", ""));
    assert_eq!(find("/x/y"), found("/", "x,y"));
    assert_eq!(find("/a"), found("/a", ""));
    assert_eq!(find("//a/./c/"), found("/a", "c"));
    assert_eq!(find("/ab"), found("/", "ab"));
    assert_eq!(find("/a/b/c/d"), found("/a/b", "c,d"));
    for refused in ["", "a", "/a/../x", "/..", "/a\0"] {
        assert_eq!(find(refused), None, "{refused:?}");
    }
    assert!(table_of(&["/a"]).find_by_pseudo(b"/").is_none());
}

#[test]
fn an_address_is_admitted_where_any_rule_of_any_export_names_it() {
    let export = |nets: &[&str], pseudo: &str| ExportConfig {
        clients: nets.iter().map(|net| client(net)).collect(),
        ..ExportConfig::new("/srv", pseudo)
    };
    let exports = vec![
        export(&["10.1.0.0/16", "10.1.2.0/24", "192.0.2.7"], "/a"),
        export(&["10.0.0.0/16", "fd00::/8", "192.0.2.8/31"], "/b"),
        export(&[], "/c"),
    ];
    let config = Config::from_flags(ServerConfig::default(), exports);
    let table = ExportTable::new(&config).unwrap();
    let admits = |address: &str| table.admits(address.parse().unwrap());
    for named in [
        "10.0.0.0",
        "10.1.255.255",
        "10.1.2.3",
        "::ffff:10.1.2.3",
        "192.0.2.7",
        "192.0.2.8",
        "fdff::1",
    ] {
        assert!(admits(named), "{named}");
    }
    for stranger in [
        "9.255.255.255",
        "10.2.0.0",
        "127.0.0.1",
        "192.0.2.6",
        "192.0.2.10",
        "::1",
        "fe00::",
        "::",
    ] {
        assert!(!admits(stranger), "{stranger}");
    }
    assert!(!table_of(&[]).admits(Ipv4Addr::LOCALHOST.into()));
    assert!(table_of(&["/"]).admits(Ipv6Addr::LOCALHOST.into()));
}

proptest! {
    #[test]
    fn an_address_is_admitted_where_one_of_its_rules_is_found(
        rules in prop::collection::vec((any::<u8>(), 24_u8..=32), 0..12),
        last in any::<u8>(),
    ) {
        let nets = rules.iter().map(|(last, len)| ClientConfig {
            net: IpNet::new(Ipv4Addr::new(10, 0, 0, *last).into(), *len).unwrap().into(),
            ..ClientConfig::default()
        });
        let exports = nets.enumerate().map(|(number, net)| ExportConfig {
            clients: vec![net],
            ..ExportConfig::new("/srv", format!("/{number}"))
        });
        let config = Config::from_flags(ServerConfig::default(), exports.collect());
        let table = ExportTable::new(&config).unwrap();
        let address = Ipv4Addr::new(10, 0, 0, last).into();
        let named = table.exports().iter().any(|it| it.client_rule(address, 1).is_ok());
        prop_assert_eq!(table.admits(address), named);
    }
}

#[test]
fn an_id_is_stable_and_finds_its_export() {
    // These are in handles that clients hold: the values must never change.
    assert_eq!(export_id("/"), 0x2a0c_975e);
    // A test vector of the hash's authors.
    assert_eq!(export_id("a"), 0xe40c_292c);
    assert_eq!(export_id(""), 0x811c_9dc5);
    let table = table_of(&["/a", "/b"]);
    assert_eq!(table.by_id(export_id("/b")).unwrap().pseudo, "/b");
    assert!(table.by_id(export_id("/c")).is_none());
}

#[test]
fn two_exports_of_one_id_are_refused() {
    let exports = vec![ExportConfig::new("/x", "/a"), ExportConfig::new("/y", "/a")];
    let config = Config::from_flags(ServerConfig::default(), exports);
    let error = ExportTable::new(&config).unwrap_err().to_string();
    assert!(
        error.contains("get the same export id; change one"),
        "{error}"
    );
}

#[test]
fn the_first_matching_rule_decides() {
    let mut narrow = client("10.1.0.0/16");
    narrow.access = Access::ReadOnly;
    narrow.privileged_port = true;
    let export = export_of(vec![narrow, client("10.0.0.0/8"), client("::1")]);
    let from = |address: &str, port| export.client_rule(address.parse().unwrap(), port);
    assert_eq!(from("10.2.0.1", 5000).unwrap().access, Access::ReadWrite);
    assert_eq!(from("10.1.0.1", 1023).unwrap().access, Access::ReadOnly);
    // No falling through to the wider rule: the narrow one is meant to hold.
    assert_eq!(
        from("10.1.0.1", 1024).unwrap_err(),
        Refused::PortNotPrivileged
    );
    assert_eq!(
        from("::ffff:10.2.0.1", 5000).unwrap().access,
        Access::ReadWrite
    );
    assert_eq!(from("11.0.0.1", 1).unwrap_err(), Refused::NotListed);
    assert!(from("::1", 1).is_ok());
    assert_eq!(from("::2", 1).unwrap_err(), Refused::NotListed);
}

#[test]
fn a_rule_may_let_in_over_some_versions_only() {
    let mut four = client("10.1.0.0/16");
    four.versions = Versions::NONE.with(NfsVersion::V41);
    let export = export_of(vec![four, client("10.0.0.0/8")]);
    let over = |address: &str, version| {
        let rule = export.rule_for(address.parse().unwrap(), 1, version);
        rule.map(|rule| rule.clients.to_string())
    };
    assert_eq!(over("10.1.0.1", NfsVersion::V3), Err(Refused::Version));
    assert_eq!(over("10.1.0.1", NfsVersion::V42), Err(Refused::Version));
    let let_in = Ok("10.1.0.0/16".to_owned());
    assert_eq!(over("10.1.0.1", NfsVersion::V41), let_in);
    assert!(over("10.2.0.1", NfsVersion::V3).is_ok());
    assert_eq!(over("11.0.0.1", NfsVersion::V3), Err(Refused::NotListed));
}

fn squash(kind: SquashKind) -> Squash {
    Squash::new(kind, 1000, 2000)
}

#[test]
fn root_squash_takes_group_zero_out_of_every_list() {
    let creds = squash(SquashKind::Root).creds(WireUid(5), WireGid(0), &[0, 7]);
    assert_eq!(
        (creds.uid().0, creds.gid().0, creds.groups().to_vec()),
        (5, 2000, vec![7, 2000])
    );
    let creds = squash(SquashKind::Root).creds(WireUid(0), WireGid(5), &[]);
    assert_eq!((creds.uid().0, creds.gid().0), (1000, 5));
}

#[test]
fn no_squash_leaves_root_alone() {
    let creds = squash(SquashKind::None).creds(WireUid(0), WireGid(0), &[0]);
    assert_eq!(
        (creds.uid().0, creds.gid().0, creds.groups().to_vec()),
        (0, 0, vec![0])
    );
}

/// Whether `left` and `right` share their first `prefix` bits, bit by bit.
fn shares_prefix(left: &[u8], right: &[u8], prefix: usize) -> bool {
    let bit = |bytes: &[u8], index: usize| bytes[index / 8] >> (7 - index % 8) & 1;
    (0..prefix).all(|index| bit(left, index) == bit(right, index))
}

fn any_kind() -> impl Strategy<Value = SquashKind> {
    prop_oneof![
        Just(SquashKind::Root),
        Just(SquashKind::All),
        Just(SquashKind::None)
    ]
}

/// Ids of which the interesting ones are frequent.
fn any_id() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0u32), Just(u32::MAX), any::<u32>()]
}

proptest! {
    #[test]
    fn an_ipv4_rule_matches_by_its_prefix_bits(
        net in any::<u32>(), prefix in 0u8..=32, flip in 0u32..33, noise in any::<u32>(),
    ) {
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        let network = Ipv4Addr::from(net & mask);
        let export = export_of(vec![client(&format!("{network}/{prefix}"))]);
        // Mostly inside the network, with at most one bit of the prefix flipped.
        let address = (net & mask | noise & !mask) ^ 1u32.checked_shl(flip).unwrap_or(0);
        let address = Ipv4Addr::from(address);
        let expected = shares_prefix(&network.octets(), &address.octets(), usize::from(prefix));
        prop_assert_eq!(export.client_rule(address.into(), 1).is_ok(), expected);
        let mapped = IpAddr::from(address.to_ipv6_mapped());
        prop_assert_eq!(export.client_rule(mapped, 1).is_ok(), expected);
    }

    #[test]
    fn an_ipv6_rule_matches_by_its_prefix_bits(
        net in any::<u128>(), prefix in 0u8..=128, flip in 0u32..129,
    ) {
        let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
        let network = Ipv6Addr::from(net & mask);
        prop_assume!(network.to_ipv4_mapped().is_none());
        let address = Ipv6Addr::from(net ^ 1u128.checked_shl(flip).unwrap_or(0));
        prop_assume!(address.to_ipv4_mapped().is_none());
        let export = export_of(vec![client(&format!("{network}/{prefix}"))]);
        let expected = shares_prefix(&network.octets(), &address.octets(), usize::from(prefix));
        prop_assert_eq!(export.client_rule(address.into(), 1).is_ok(), expected);
    }

    #[test]
    fn squash_never_lets_through_what_it_squashes(
        kind in any_kind(), uid in any_id(), gid in any_id(),
        gids in proptest::collection::vec(any_id(), 0..=16),
    ) {
        let creds = squash(kind).creds(WireUid(uid), WireGid(gid), &gids);
        let groups = creds.groups().to_vec();
        let mut all = vec![creds.gid().0];
        all.extend(&groups);
        prop_assert!(creds.uid().0 != u32::MAX && !all.contains(&u32::MAX));
        match kind {
            SquashKind::All => prop_assert!(creds == *squash(kind).anonymous()),
            SquashKind::Root => prop_assert!(creds.uid().0 != 0 && !all.contains(&0)),
            SquashKind::None => prop_assert!(uid == u32::MAX || creds.uid().0 == uid),
        }
        if kind != SquashKind::All {
            let kept = |id: &u32| groups.contains(id) || groups.contains(&2000);
            prop_assert!(gids.iter().all(kept), "a group was lost");
            let given = |id: &u32| gids.contains(id) || *id == 2000;
            prop_assert!(groups.iter().all(given), "a group was made up");
        }
    }

    #[test]
    fn no_mount_path_leads_above_an_export(path in proptest::collection::vec(
        prop_oneof![Just(b'/'), Just(b'.'), Just(b'a'), any::<u8>()], 0..40,
    )) {
        let table = table_of(&["/a"]);
        if let Some((_, rest)) = table.find_by_pseudo(&path) {
            for name in rest {
                prop_assert!(!name.is_empty() && name != b".." && name != b".");
                prop_assert!(!name.contains(&b'/') && !name.contains(&0));
            }
        }
    }
}

#[test]
fn a_name_matches_the_addresses_that_it_has_and_the_first_rule_still_decides() {
    let rules = [
        ("10.0.0.9", Access::ReadOnly),
        ("build7", Access::ReadWrite),
        ("10.0.0.0/8", Access::ReadOnly),
    ];
    let table = |rules: &[(&str, Access)]| {
        let clients = rules.iter().map(|&(net, access)| ClientConfig {
            access,
            ..client(net)
        });
        let export = ExportConfig {
            clients: clients.collect(),
            ..ExportConfig::new("/srv/a", "/a")
        };
        ExportTable::new(&Config::from_flags(ServerConfig::default(), vec![export])).unwrap()
    };
    let by_rule = |table: &ExportTable, address: &str| {
        let rule = table.exports()[0].client_rule(address.parse().unwrap(), 1);
        rule.map(|rule| rule.clients.to_string()).ok()
    };
    let old = table(&rules);
    // Nobody, until it has been looked up.
    assert_eq!(by_rule(&old, "10.0.0.7").as_deref(), Some("10.0.0.0/8"));
    assert!(!old.admits("192.0.2.7".parse().unwrap()));
    let mut addresses: Vec<IpAddr> = ["10.0.0.7", "10.0.0.9", "192.0.2.7"]
        .map(|it| it.parse().unwrap())
        .into();
    addresses.sort_unstable();
    let resolved = |_: &ClientName| Resolved {
        addresses: addresses.clone(),
        ..Resolved::default()
    };
    assert_eq!(old.set_names(resolved).len(), 1);
    assert!(old.set_names(resolved).is_empty());
    // A table that follows it knows what it knew, and a name that is gone lets nobody in.
    let next = table(&rules);
    next.go_on_from(&old);
    for table in [&old, &next] {
        assert_eq!(by_rule(table, "10.0.0.7").as_deref(), Some("build7"));
        assert_eq!(by_rule(table, "::ffff:10.0.0.7").as_deref(), Some("build7"));
        assert_eq!(by_rule(table, "10.0.0.9").as_deref(), Some("10.0.0.9/32"));
        assert_eq!(by_rule(table, "192.0.2.7").as_deref(), Some("build7"));
        assert!(table.admits("192.0.2.7".parse().unwrap()));
    }
    next.set_names(|_| Resolved::default());
    assert_eq!(by_rule(&next, "192.0.2.7"), None);
    assert!(!next.admits("192.0.2.7".parse().unwrap()));
    // What an address became is no other setting.
    assert_eq!(next.exports()[0], old.exports()[0]);
}
