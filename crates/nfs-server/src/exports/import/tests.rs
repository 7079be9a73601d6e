use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::exports::config::Config;

/// Directories that the files of the tests export: below the one that stands for `ROOT` in them.
const DIRECTORIES: [&str; 6] = ["a", "b", "c", "d", "srv/nfs/my files", "other place"];

/// What the import says, taken by our own reader: it has to be good.
fn imported(text: &str) -> (Config, Vec<String>) {
    let root = tempfile::tempdir().unwrap();
    for directory in DIRECTORIES {
        std::fs::create_dir_all(root.path().join(directory)).unwrap();
    }
    let root = root.path().to_str().unwrap();
    let Imported { toml, left } = import(&text.replace("ROOT", root));
    let config = Config::parse(Path::new("imported.toml"), &toml);
    let config = config.unwrap_or_else(|errors| panic!("{errors}\n{toml}"));
    let left = left
        .into_iter()
        .map(|left| format!("{}: {}", left.line, left.what));
    let mut config = config;
    for export in &mut config.exports {
        export.pseudo = export.pseudo.replace(root, "");
    }
    (config, left.map(|left| left.replace(root, "")).collect())
}

/// Clients of an export, in the order in which they are tried: network, access, squash, ids, port.
fn clients(config: &Config, export: usize) -> Vec<String> {
    let clients = config.exports[export].clients.iter();
    let told = clients.map(|client| {
        let access = word_of(client.access, Access::WORDS);
        let squash = word_of(client.squash, SquashKind::WORDS);
        let port = if client.privileged_port { "low" } else { "any" };
        format!(
            "{} {access} {squash} {}:{} {port}",
            client.net, client.anonuid, client.anongid
        )
    });
    told.collect()
}

#[test]
fn a_line_of_exports_becomes_an_export() {
    let (config, left) = imported("ROOT/srv 10.0.0.0/8(rw,sync,no_subtree_check)\n");
    assert_eq!(config.exports.len(), 1);
    assert!(config.exports[0].path.ends_with("srv"));
    assert_eq!(config.exports[0].pseudo, "/srv");
    assert_eq!(clients(&config, 0), ["10.0.0.0/8 rw root 65534:65534 low"]);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_exports_does_not_say_is_as_the_kernel_has_it() {
    let (config, _) = imported("ROOT/srv\n");
    let all = [
        "0.0.0.0/0 ro root 65534:65534 low",
        "::/0 ro root 65534:65534 low",
    ];
    assert_eq!(clients(&config, 0), all);
}

#[test]
fn nobody_crosses_mounts_who_did_not() {
    let (config, left) = imported("ROOT/srv 10.0.0.1(rw,crossmnt) 10.0.0.2(rw)\n");
    assert!(!config.exports[0].crossmnt);
    assert!(left[0].contains("crossmnt for some"), "{left:?}");
}

#[test]
fn all_of_ipv4_is_nobody_of_ipv6() {
    let (config, _) = imported("ROOT/srv 0.0.0.0/0(rw)\n");
    assert_eq!(clients(&config, 0), ["0.0.0.0/0 rw root 65534:65534 low"]);
}

#[test]
fn hosts_come_before_networks_and_narrow_ones_before_wide_ones() {
    let text = "ROOT/srv *(ro,insecure) 10.0.0.0/255.0.0.0(rw,all_squash,anonuid=7,anongid=8) \\\n  \
                10.1.0.0/16(ro) 10.0.0.9(rw,no_root_squash) [2001:db8::]/64(rw)\n";
    let (config, left) = imported(text);
    let expected = [
        "10.0.0.9/32 rw none 65534:65534 low",
        "2001:db8::/64 rw root 65534:65534 low",
        "10.1.0.0/16 ro root 65534:65534 low",
        "10.0.0.0/8 rw all 7:8 low",
        "0.0.0.0/0 ro root 65534:65534 any",
        "::/0 ro root 65534:65534 any",
    ];
    assert_eq!(clients(&config, 0), expected);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn nobody_is_let_in_who_had_to_prove_more() {
    let text = "ROOT/a 10.0.0.1(rw,sec=krb5p) 10.0.0.2(rw,sec=krb5:sys)\n\
                ROOT/b 10.0.0.1(rw,xprtsec=mtls) 10.0.0.2(ro)\n\
                ROOT/c *.example.org(rw) gss/krb5(rw) host[12](rw) 10.0.0.3(ro,anonuid=x) 10.0.0.4\n";
    let (config, left) = imported(text);
    for (export, only) in [
        (0, "10.0.0.2/32 rw"),
        (1, "10.0.0.2/32 ro"),
        (2, "10.0.0.4/32 ro"),
    ] {
        let clients = clients(&config, export);
        assert_eq!(clients.len(), 1, "{clients:?}");
        assert!(clients[0].starts_with(only), "{clients:?}");
    }
    for part in [
        "sec=krb5p",
        "xprtsec=mtls",
        "gss/krb5",
        "host[12]",
        "*.example.org",
        "anonuid=x",
    ] {
        assert!(
            left.iter().any(|left| left.contains(part)),
            "{part}: {left:?}"
        );
    }
}

#[test]
fn names_and_netgroups_come_where_the_kernel_looks_for_them() {
    let text = "ROOT/a *(ro) @staff(ro) 10.0.0.0/8(rw) Trusted.example.org(rw,no_root_squash) 10.0.0.9(ro)\n";
    let (config, left) = imported(text);
    let expected = [
        "trusted.example.org rw none 65534:65534 low",
        "10.0.0.9/32 ro root 65534:65534 low",
        "10.0.0.0/8 rw root 65534:65534 low",
        "@staff ro root 65534:65534 low",
        "0.0.0.0/0 ro root 65534:65534 low",
        "::/0 ro root 65534:65534 low",
    ];
    assert_eq!(clients(&config, 0), expected);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn nobody_gets_more_because_a_name_is_not_resolved() {
    let kept = "ROOT/srv trusted(rw,no_root_squash) 10.0.0.0/8(rw) *(ro)\n";
    let (config, _) = imported(kept);
    assert_eq!(clients(&config, 0).len(), 4);
    for lost in [
        "ROOT/srv guest(ro) 10.0.0.0/8(rw)\n",
        "ROOT/srv @guests(rw,all_squash) *(rw)\n",
        "ROOT/srv guest(rw,secure) *(rw,insecure)\n",
        "ROOT/srv 10.0.0.1(rw,sec=krb5) 10.0.0.0/8(ro)\n",
        "ROOT/srv guest(rw,sec=krb5) 10.0.0.1(ro)\n",
        "EXPORT { Path = ROOT/a; Access_Type = RW; CLIENT { Clients = guest; Access_Type = RO; } }",
        "EXPORT { Path = ROOT/a; SecType = krb5; CLIENT { Clients = 10.0.0.1; Access_Type = RW; } }",
        "EXPORT_DEFAULTS { SecType = krb5; } EXPORT { Path = ROOT/a; Access_Type = RW; }",
        "EXPORT { Path = ROOT/a; CLIENT { Clients = 10.0.0.1; Access_Type = None; }
         CLIENT { Clients = 10.0.0.0/8; Access_Type = RW; } }",
    ] {
        let imported = import(lost);
        assert!(
            !imported.toml.contains("[[export]]"),
            "{lost}: {}",
            imported.toml
        );
        let told = imported
            .left
            .iter()
            .any(|left| left.what.contains("not exported"));
        assert!(told, "{:?}", imported.left);
    }
}

#[test]
fn the_root_of_nfsv4_names_is_ours_too() {
    let text = "ROOT/srv/nfs 10.0.0.0/8(ro,fsid=0,crossmnt)\n\"ROOT/srv/nfs/my files\" 10.0.0.0/8(rw,async)\n\
                ROOT/other\\040place 10.0.0.0/8(rw) # not below it\n";
    let (config, left) = imported(text);
    let names: Vec<&str> = config
        .exports
        .iter()
        .map(|export| export.pseudo.as_str())
        .collect();
    assert_eq!(names, ["/other place", "/", "/my files"]);
    assert!(config.exports[1].crossmnt);
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn defaults_of_a_line_and_options_that_do_not_carry_over_are_told() {
    let text = "ROOT/srv -rw,insecure 10.0.0.1 10.0.0.2(ro,mp,nohide,refer=/x@y)\n";
    let (config, left) = imported(text);
    let expected = [
        "10.0.0.1/32 rw root 65534:65534 any",
        "10.0.0.2/32 ro root 65534:65534 any",
    ];
    assert_eq!(clients(&config, 0), expected);
    assert_eq!(left.len(), 3, "{left:?}");
}

const GANESHA: &str = r#"
# Served by Ganesha until now.
NFS_CORE_PARAM { Bind_addr = 10.0.0.5; NFS_Port = 2049; MNT_Port = 20048; }
NFSv4 { Lease_Lifetime = 30; Grace_Period = 45; Delegations = false; }
EXPORT_DEFAULTS { SecType = sys; Squash = All_Squash; }
EXPORT
{
    Export_Id = 1; Path = "ROOT/a"; Pseudo = /a;
    Access_Type = RO; Protocols = 4;
    CLIENT { Clients = 10.0.0.0/8, 192.168.1.7; Access_Type = RW; Squash = No_Root_Squash; }
    CLIENT { Clients = host.example.org; Access_Type = RW; }
    FSAL { Name = VFS; }
}
EXPORT { Export_Id = 2; Path = ROOT/b; Pseudo = /b; SecType = krb5; Access_Type = RW; FSAL { Name = VFS; } }
EXPORT { Export_Id = 3; Path = ROOT/c; Pseudo = /c; Access_Type = RW; FSAL { Name = CEPH; } }
EXPORT { Export_Id = 4; Path = ROOT/d; Pseudo = /d; CLIENT { Clients = 10.0.0.1; Access_Type = RW; Anonymous_Uid = -2; } FSAL { Name = XFS; } }
EXPORT { Export_Id = 5; Path = /e; Pseudo = /e; Access_Type = RW; CLIENT { Clients = 10.0.0.1; Access_Type = None; } }
"#;

#[test]
fn blocks_of_ganesha_become_exports() {
    let (config, left) = imported(GANESHA);
    let names: Vec<&str> = config
        .exports
        .iter()
        .map(|export| export.pseudo.as_str())
        .collect();
    assert_eq!(names, ["/a", "/d"], "{left:?}");
    let expected = [
        "10.0.0.0/8 rw none 65534:65534 any",
        "192.168.1.7/32 rw none 65534:65534 any",
        "host.example.org rw all 65534:65534 any",
        "0.0.0.0/0 ro all 65534:65534 any",
        "::/0 ro all 65534:65534 any",
    ];
    assert_eq!(clients(&config, 0), expected);
    assert_eq!(clients(&config, 1), ["10.0.0.1/32 rw all 65534:65534 any"]);
    assert_eq!(config.server.lease_seconds, 30);
    assert_eq!(config.server.listen[0].to_string(), "10.0.0.5:2049");
    for part in ["mnt_port", "delegations", "krb5", "CEPH", "/e:"] {
        assert!(
            left.iter().any(|left| left.contains(part)),
            "{part}: {left:?}"
        );
    }
}

proptest! {
    #[test]
    fn no_file_makes_it_fail(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..3_u8, any::<u8>()), 1..12),
        is_ganesha in any::<bool>(),
    ) {
        let exports = "/srv 10.0.0.0/8(rw,sec=sys:krb5) @x(ro) \"/q\" \\040\n";
        let mut bytes = if is_ganesha { GANESHA } else { exports }.as_bytes().to_vec();
        for (at, how, byte) in edits {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b"{}=;,\"\\#(/"[usize::from(byte) % 10]),
            }
        }
        let _imported = import(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn a_name_of_ganesha_that_would_fall_to_more_is_no_export() {
    let text = |access: &str, versions: &str| {
        format!(
            "EXPORT {{ Path = ROOT/a; Pseudo = /a; Access_Type = {access}; FSAL {{ Name = VFS; }}\n\
             CLIENT {{ Clients = @guests; Access_Type = RO; {versions} }} }}\n"
        )
    };
    assert_eq!(imported_or_none(&text("RO", "")), 1);
    assert_eq!(imported_or_none(&text("RW", "")), 0);
    // Of fewer versions than those whom it would be taken for.
    assert_eq!(imported_or_none(&text("RO", "Protocols = 4;")), 0);
}

/// How many exports the import has; none is no configuration of ours.
fn imported_or_none(text: &str) -> usize {
    import(&text.replace("ROOT", "/srv"))
        .toml
        .matches("[[export]]")
        .count()
}

#[test]
fn blocks_in_blocks_have_an_end() {
    let deep = "EXPORT {".repeat(100_000);
    assert!(!import(&deep).left.is_empty());
}
