use super::*;

/// Checks `text` as `p.toml`, with `DIR` replaced by an existing directory.
fn parse(text: &str) -> Result<Config, ConfigErrors> {
    let directory = tempfile::tempdir().unwrap();
    let text = text.replace("DIR", directory.path().to_str().unwrap());
    Config::parse(Path::new("p.toml"), &text)
}

fn complaint(text: &str) -> String {
    parse(text)
        .expect_err("this configuration is wrong")
        .to_string()
}

#[test]
fn a_minimal_file_takes_every_default() {
    let config = parse("[[export]]\npath = \"DIR\"\n").unwrap();
    assert_eq!(config.server, ServerConfig::default());
    let export = &config.exports[0];
    assert_eq!(export.pseudo, export.path.to_str().unwrap());
    assert_eq!(
        export
            .clients
            .iter()
            .map(|c| c.net.clone())
            .collect::<Vec<_>>(),
        loopback_nets().map(Who::from)
    );
    assert!(export.clients.iter().all(|c| c.squash == SquashKind::Root));
    assert_eq!(export.durability, Durability::Sync);
    assert!(export.stable_write_attributes);
}

#[test]
fn every_key_is_read() {
    let config = parse(
        r#"
[server]
listen = ["0.0.0.0:2049", "[::1]:0"]
state_dir = "/var/lib/penstock/x"
engine = "threads"
memory = "64 MiB"
shards = 3
busy_poll = "50us"
congestion_control = "cubic"
helper_threads = 0x10
versions = ["3", "4.1"]
lease_seconds = 30
grace_seconds = 45
portmap = true
rpcbind = false
server_groups = true
idmap_domain = "example.org"
trust_loopback = true
log = "debug"
log_json = true

[[export]]
path = "DIR"
pseudo = "/a"
clients = ["10.0.0.0/8", "::ffff:192.168.0.0/112"]
access = "ro"
squash = "all"
anonuid = 7
anongid = 8
privileged_port = true
versions = ["4.1"]
weight = 3
calls_per_second = 500
durability = "async"
stable_write_attributes = false
crossmnt = true
read = "direct"
write = 3
stable = "file-sync"
splice = true
[[export.client]]
net = "10.1.0.0/16"
access = "rw"
squash = "none"
privileged_port = false
weight = 7
bytes_per_second = "2MiB"
[[export.rule]]
op = "write"
min_size = "64KiB"
max_size = 1048576
clients = ["10.1.0.0/16", "::1"]
name = "*.ckpt"
mode = "dontcache"
[[export.rule]]
splice = false
mode = 2
"#,
    )
    .unwrap();
    assert_eq!(config.server.listen[1], "[::1]:0".parse().unwrap());
    assert_eq!(config.server.memory_bytes, 64 << 20);
    assert_eq!(
        (config.server.shards, config.server.helper_threads),
        (Some(3), Some(16))
    );
    assert_eq!(config.server.busy_poll.microseconds(), 50);
    assert_eq!(config.server.congestion_control.as_deref(), Some("cubic"));
    assert_eq!(config.server.engine, EngineChoice::Threads);
    assert_eq!(config.server.log, LogLevel::Debug);
    assert!(config.server.portmap && !config.server.rpcbind && config.server.server_groups);
    assert_eq!(config.server.idmap_domain.as_deref(), Some("example.org"));
    assert!(config.server.trust_loopback);
    assert_eq!(config.server.versions.to_string(), "3, 4.1");
    assert!(config.server.log_json);
    let server = &config.server;
    assert_eq!((server.lease_seconds, server.grace_seconds), (30, 45));
    let export = &config.exports[0];
    assert!(export.crossmnt && !export.stable_write_attributes);
    assert_eq!(export.durability, Durability::Async);
    let [special, ten, mapped] = export.clients.as_slice() else {
        panic!("three rules")
    };
    assert_eq!(special.net, "10.1.0.0/16".parse().unwrap());
    assert_eq!(
        (special.access, special.squash),
        (Access::ReadWrite, SquashKind::None)
    );
    assert!(!special.privileged_port && ten.privileged_port);
    assert_eq!(special.versions.to_string(), "4.1");
    assert_eq!((special.anonuid, special.anongid), (7, 8));
    let held = |rule: &ClientConfig| {
        let allowance = rule.allowance;
        (
            allowance.weight,
            allowance.bytes_per_second,
            allowance.calls_per_second,
        )
    };
    assert_eq!(held(special), (7, Some(2 << 20), Some(500)));
    assert_eq!(held(ten), (3, None, Some(500)));
    assert_eq!(
        (ten.access, ten.squash),
        (Access::ReadOnly, SquashKind::All)
    );
    assert_eq!(
        export.io.to_string(),
        "read=direct write=direct stable=file-sync splice=on rules=[op=write,min=64KiB,max=1MiB,\
         client=10.1.0.0/16,client=::1/128,name=*.ckpt,mode=dontcache; splice=off,mode=direct]"
    );
    assert_eq!(mapped.net, "192.168.0.0/16".parse().unwrap());
    assert_eq!(config.warnings().len(), 2, "{:?}", config.warnings());
}

/// A wrong file, and what must be in the complaint about it.
const WRONG: &[(&str, &str)] = &[
    ("", "p.toml: nothing is exported; add a section [[export]]"),
    ("[server\n", "p.toml:1: this is not TOML"),
    (
        "[sever]\n",
        "p.toml:1: unknown key \"sever\" in the file; did you mean \"server\"?",
    ),
    (
        "[[export]]\npath = \"DIR\"\nsquach = \"all\"\n",
        "p.toml:3: unknown key \"squach\" in [[export]]; did you mean \"squash\"?",
    ),
    (
        "[[export]]\npath = \"DIR\"\nxyzzy = 1\n",
        "known keys are path, pseudo, clients",
    ),
    (
        "[[export]]\n\npseudo = \"/a\"\n",
        "p.toml:1: [[export]] has no path; add",
    ),
    (
        "[export]\npath = \"DIR\"\n",
        "p.toml:1: \"export\" in the file is a table; write each one",
    ),
    (
        "[[export]]\npath = \"srv\"\n",
        "p.toml:2: path \"srv\" is relative; write",
    ),
    (
        "[[export]]\npath = 5\n",
        "p.toml:2: \"path\" in [[export]] is an integer; write text",
    ),
    (
        "[[export]]\npath = \"DIR/none\"\n",
        "does not exist; create it with: mkdir -p",
    ),
    (
        "[[export]]\npath = \"/proc/version\"\n",
        "p.toml:2: path \"/proc/version\" is not a dir",
    ),
    (
        "[[export]]\npath = \"DIR\"\npseudo = \"a\"\n",
        "p.toml:3: pseudo path \"a\" is not absolute",
    ),
    (
        "[[export]]\npath = \"DIR\"\npseudo = \"/a//b/\"\n",
        "not in normal form; write \"/a/b\"",
    ),
    (
        "[[export]]\npath = \"DIR\"\npseudo = \"/a/../b\"\n",
        "holds \"..\"; write where it leads",
    ),
    (
        "[[export]]\npath = \"DIR\"\npseudo = \"/a\"\n[[export]]\npath = \"DIR\"\npseudo = \"/a\"\n",
        "p.toml:6: pseudo path \"/a\" is taken by line 3; choose another",
    ),
    (
        "[[export]]\npath = \"DIR\"\nclients = [\n  \"10.0.0.0/8\",\n  \"10.0.0.0/99\",\n]\n",
        "p.toml:5: \"10.0.0.0/99\" is not a network; write",
    ),
    (
        "[[export]]\npath = \"DIR\"\nclients = [\n  \"*.example.org\"]\n",
        "p.toml:4: \"*.example.org\" is a pattern of names, and an address tells its name only by a reverse look-up",
    ),
    (
        "[[export]]\npath = \"DIR\"\nclients = [\"@\"]\n",
        "\"@\" is no name of a netgroup; write",
    ),
    (
        "[[export]]\npath = \"DIR\"\nclients = [\"@a(b\"]\n",
        "is no name of a netgroup",
    ),
    (
        "[[export]]\npath = \"DIR\"\nclients = [\"a host\"]\n",
        "\"a host\" is neither an address nor the name of a host; write",
    ),
    (
        "[[export]]\npath = \"DIR\"\nclients = [\"10.1\"]\n",
        "\"10.1\" is not an address",
    ),
    (
        "[[export]]\npath = \"DIR\"\nclients = [\"0x0a000001\"]\n",
        "is not an address",
    ),
    (
        "[[export]]\npath = \"DIR\"\nclients = [\"10.0.0.0-5\"]\n",
        "is not an address",
    ),
    (
        "[[export]]\npath = \"DIR\"\n[[export.rule]]\nclients = [\"host\"]\nmode = 2\n",
        "names are not looked up here",
    ),
    (
        "[[export]]\npath = \"DIR\"\nclients = [\"*\"]\n",
        "write \"0.0.0.0/0\" and \"::/0\"",
    ),
    (
        "[[export]]\npath = \"DIR\"\nclients = []\n",
        "p.toml:3: \"clients\" is empty",
    ),
    (
        "[[export]]\npath = \"DIR\"\nclients = \"::1\"\n",
        "is a string; write a list",
    ),
    (
        "[[export]]\npath = \"DIR\"\nclients = [\"10.1.2.3/8\"]\n",
        "write \"10.0.0.0/8\" for the network or \"10.1.2.3\" for the one address",
    ),
    (
        "[[export]]\npath = \"DIR\"\n[[export.client]]\naccess = \"ro\"\n",
        "p.toml:3: [[export.client]] has no net",
    ),
    (
        "[[export]]\npath = \"DIR\"\naccess = \"r\"\n",
        "\"r\" is not a choice; write \"rw\" or \"ro\"",
    ),
    (
        "[[export]]\npath = \"DIR\"\ncrossmnt = \"yes\"\n",
        "is a string; write true or false",
    ),
    (
        "[[export]]\npath = \"DIR\"\nauto = \"off\"\n",
        "\"off\" is not a choice; write \"on\" or \"dry-run\"",
    ),
    (
        "[[export]]\npath = \"DIR\"\nwrite = \"fast\"\n",
        "write \"buffered\"",
    ),
    (
        "[[export]]\npath = \"DIR\"\nread = 3\n",
        "p.toml:3: read: mode 3 is of WRITE alone (3 is direct with stable = \"data-sync\", 4 with \
         \"file-sync\"); write \"direct\" or 2 here",
    ),
    (
        "[[export]]\npath = \"DIR\"\nwrite = 5\n",
        "write: \"5\" is no I/O mode; write \"buffered\", \"dontcache\", \"direct\" or \"auto\", or the kernel's numbers 0 to 4",
    ),
    (
        "[[export]]\npath = \"DIR\"\nwrite = true\n",
        "\"write\" in [[export]] is a boolean; write a mode, as \"direct\"",
    ),
    (
        "[[export]]\npath = \"DIR\"\nwrite = 4\nstable = \"data-sync\"\n",
        "p.toml:4: stable \"data-sync\" contradicts WRITE mode 4, which is direct with stable \"file-sync\"; leave",
    ),
    (
        "[[export]]\npath = \"DIR\"\nstable = \"sync\"\n",
        "write \"asked\" or \"data-sync\" or \"file-sync\"",
    ),
    (
        "[[export]]\npath = \"DIR\"\n[[export.rule]]\nop = \"read\"\n",
        "p.toml:3: [[export.rule]] has no mode; add mode = \"direct\"",
    ),
    (
        "[[export]]\npath = \"DIR\"\nsplice = \"on\"\n",
        "p.toml:3: \"splice\" in [[export]] is a string; write true or false",
    ),
    (
        "[[export]]\npath = \"DIR\"\n[[export.rule]]\nop = \"write\"\nsplice = false\nmode = 2\n",
        "p.toml:3: [[export.rule]] splice is of READs alone; leave it out, or write op=read",
    ),
    (
        "[[export]]\npath = \"DIR\"\n[[export.rule]]\nmode = 4\n",
        "p.toml:3: [[export.rule]] mode 4 is of WRITE alone; add op = \"write\"",
    ),
    (
        "[[export]]\npath = \"DIR\"\n[[export.rule]]\nmode = \"auto\"\nhint = \"often\"\n",
        "\"often\" is not a choice; write \"normal\"",
    ),
    (
        "[[export]]\npath = \"DIR\"\n[[export.rule]]\nmin_size = \"1MiB\"\nmax_size = 4096\nmode = 2\n",
        "p.toml:3: [[export.rule]] min 1MiB is more than max 4KiB, so it would never match; exchange them",
    ),
    (
        "[[export]]\npath = \"DIR\"\n[[export.rule]]\nmin = \"1MiB\"\nmode = 2\n",
        "p.toml:4: unknown key \"min\" in [[export.rule]]; known keys are op, min_size, max_size",
    ),
    (
        "[[export]]\npath = \"DIR\"\n[[export.rule]]\nclients = []\nmode = 2\n",
        "p.toml:4: \"clients\" of [[export.rule]] is empty, so it would match nobody; leave it out",
    ),
    (
        "[[export]]\npath = \"DIR\"\n[[export.rule]]\nmode = 2\nname = \"a/*.db\"\n",
        "p.toml:5: name pattern \"a/*.db\" holds a slash",
    ),
    (
        "[[export]]\npath = \"DIR\"\n[[export.rule]]\nmode = 2\nname = \"a[bc\"\n",
        "has a \"[\" without its \"]\"; close it",
    ),
    (
        "[[export]]\npath = \"DIR\"\nanonuid = 4294967295\n",
        "write a number from 0 to 4294967294",
    ),
    (
        "[[export]]\npath = \"DIR\"\nanonuid = -2\n",
        "\"anonuid\" is -2; write a number from 0",
    ),
    (
        "[server]\nlisten = [\"127.0.0.1\"]\n",
        "p.toml:2: \"127.0.0.1\" is not an address with a port; write \"127.0.0.1:2049\"",
    ),
    ("[server]\nlisten = []\n", "\"listen\" is empty"),
    (
        "[server]\nlisten = [\"[::1]:1\",\n\"[::1]:1\"]\n",
        "p.toml:3: [::1]:1 is listed twice",
    ),
    (
        "[server]\nlisten = [\"0.0.0.0:1\", \"127.0.0.1:1\"]\n",
        "takes the port of 127.0.0.1:1",
    ),
    (
        "[server]\nmemory = \"256 parsecs\"\n",
        "is not a size; write a whole number and a unit",
    ),
    (
        "[server]\nmemory = \"1KiB\"\n",
        "memory of 1024 bytes is too little; write at least \"16MiB\"",
    ),
    (
        "[server]\nmemory = \"99999999999TiB\"\n",
        "is more bytes than any file or memory has; write a smaller size",
    ),
    (
        "[server]\nlease_seconds = 4\n",
        "p.toml:2: \"lease_seconds\" is 4; write a number from 5 to 3600",
    ),
    (
        "[server]\nlease_seconds = 90\n\ngrace_seconds = 89\n",
        "p.toml:4: \"grace_seconds\" is 89, less than the lease of 90",
    ),
    (
        "[server]\ngrace_seconds = 59\n",
        "less than the lease of 60: a client that renews in time would come back too late to reclaim; write 60 or more",
    ),
    (
        "[server]\nshards = 0\n",
        "\"shards\" is 0; write a number from 1 to 256",
    ),
    (
        "[server]\n\nbusy_poll = \"50\"\n",
        "p.toml:3: busy_poll: \"50\" is no time to poll for; write \"50us\", \"1ms\", \"auto\" for",
    ),
    (
        "[server]\nbusy_poll = \"6ms\"\n",
        "busy_poll: \"6ms\" is too long to poll for",
    ),
    (
        "[server]\nbusy_poll = true\n",
        "write a time in quotes, for example \"50us\", or \"auto\", or 0",
    ),
    (
        "[server]\nversions = [\"3\",\n\"4.0\"]\n",
        "p.toml:3: \"4.0\" is not a choice; write \"3\" or \"4.1\" or \"4.2\"",
    ),
    (
        "[server]\nversions = []\n",
        "p.toml:2: \"versions\" is empty; write",
    ),
    (
        "[server]\nstate_dir = \"x\"\n",
        "state_dir \"x\" is relative",
    ),
    (
        "[server]\nengine = \"magic\"\n",
        "write \"auto\" or \"uring\" or \"threads\"",
    ),
];

#[test]
fn a_complaint_names_line_and_cure() {
    for (text, expected) in WRONG {
        let found = complaint(text);
        assert!(
            found.contains(expected),
            "{text}\n  gave: {found}\n  want: {expected}"
        );
        assert!(
            found.lines().all(|line| line.starts_with("p.toml:")),
            "{found}"
        );
        assert!(found.contains(';'), "no cure in {found}");
    }
}

#[test]
fn all_complaints_come_at_once_in_the_order_of_the_file() {
    let found = complaint(
        "[server]\nengine = \"x\"\nmemory = true\n[[export]]\npath = \"/none/such\"\nlog = 1\n",
    );
    let lines: Vec<&str> = found
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        lines,
        ["p.toml:2:", "p.toml:3:", "p.toml:5:", "p.toml:6:"],
        "{found}"
    );
}

#[test]
fn the_number_of_complaints_is_bounded() {
    let mut text = String::from("[server]\n");
    for key in 0..500 {
        text.push_str(&format!("k{key} = 1\n"));
    }
    assert_eq!(
        complaint(&text).lines().count(),
        limits::CONFIG_PROBLEMS_MAX + 1
    );
}

#[test]
fn a_file_that_cannot_be_read_is_a_complaint() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing.toml");
    let error = Config::load(&missing).unwrap_err().to_string();
    assert!(
        error.contains("missing.toml: there is no such file; check the path"),
        "{error}"
    );
    let binary = directory.path().join("binary.toml");
    std::fs::write(&binary, [0xff, 0xfe]).unwrap();
    assert!(
        Config::load(&binary)
            .unwrap_err()
            .to_string()
            .contains("not UTF-8")
    );
    let large = directory.path().join("large.toml");
    let length = usize::try_from(limits::CONFIG_BYTES_MAX).unwrap() + 1;
    std::fs::write(&large, vec![b'#'; length]).unwrap();
    assert!(
        Config::load(&large)
            .unwrap_err()
            .to_string()
            .contains("is larger than")
    );
}

#[test]
fn sizes() {
    for (text, bytes) in [
        ("0", 0),
        ("4096", 4096),
        ("1k", 1024),
        ("2 GiB", 2 << 30),
        ("3MB", 3_000_000),
    ] {
        assert_eq!(parse_size(text), Ok(bytes), "{text}");
    }
    for text in [
        "",
        "MiB",
        "1.5GiB",
        "-1",
        "1 MiB x",
        "18446744073709551615k",
    ] {
        assert!(parse_size(text).is_err(), "{text}");
    }
}

#[test]
fn a_rule_that_never_matches_is_a_warning_with_its_line() {
    let config = parse(
        "[[export]]\npath = \"DIR\"\n[[export.rule]]\nop = \"read\"\nmode = 2\n\
         [[export.rule]]\nop = \"read\"\nmin_size = 4096\nmode = 0\n",
    )
    .unwrap();
    assert_eq!(
        config.warnings(),
        [
            "line 6: this [[export.rule]] can never match: rule 1 before it takes all its calls; put \
          it before rule 1 or remove it"
        ]
    );
    let many = "[[export.rule]]\nmode = 2\n".repeat(limits::IO_RULES_PER_EXPORT_MAX + 1);
    let found = complaint(&format!("[[export]]\npath = \"DIR\"\n{many}"));
    assert!(
        found.contains("p.toml:1: 65 I/O rules; at most 64 are tried"),
        "{found}"
    );
}

#[test]
fn an_export_inside_another_is_allowed_with_a_warning() {
    let config = parse(
        "[[export]]\npath = \"/\"\npseudo = \"/\"\n[[export]]\npath = \"DIR\"\npseudo = \"/d\"\n",
    )
    .unwrap();
    let warnings = config.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].contains("lies inside that of /"),
        "{warnings:?}"
    );
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "[\\[\\]a-z=\"0-9 \n/.#:]{0,200}") {
        let _ = Config::parse(Path::new("p.toml"), &text);
    }

    #[test]
    fn a_problem_names_a_line_of_the_file(key in "[a-z]{1,12}", before in 0usize..40) {
        let text = format!("{}[server]\n{key}_ = 1\n", "#\n".repeat(before));
        let errors = Config::parse(Path::new("p.toml"), &text).unwrap_err();
        proptest::prop_assert_eq!(errors.problems[0].line, Some(before + 2));
    }
}

#[test]
fn a_rule_whose_versions_are_not_answered_is_worth_a_word() {
    let text = "[[export]]\npath = \"DIR\"\npseudo = \"/a\"\nclients = [\"10.0.0.0/8\"]\nversions = [\"4.1\"]\n";
    let without = format!("[server]\nversions = [\"3\"]\n{text}");
    let warnings = parse(&without).unwrap().warnings();
    let [warning] = warnings.as_slice() else {
        panic!("{warnings:?}")
    };
    assert!(
        warning.starts_with("/a: 10.0.0.0/8 may use only NFS 4.1"),
        "{warning}"
    );
    let served = format!("[server]\nversions = [\"4.1\"]\n{text}");
    assert_eq!(parse(&served).unwrap().warnings(), [""; 0]);
}

#[test]
fn a_domain_of_names_is_written_as_a_hosts_name() {
    let parsed = |domain: &str| {
        parse(&format!(
            "[server]\nidmap_domain = \"{domain}\"\n[[export]]\npath = \"DIR\"\n"
        ))
    };
    for domain in ["example.org", "localdomain", "a-b.c_d.x1"] {
        let config = parsed(domain).unwrap();
        assert_eq!(config.server.idmap_domain.as_deref(), Some(domain));
    }
    let long = "a".repeat(limits::IDMAP_DOMAIN_BYTES_MAX + 1);
    for domain in ["", ".", "a..b", "a@b", "a b", "a.org.", "\u{e4}.org", &long] {
        let error = parsed(domain).unwrap_err().to_string();
        assert!(error.contains("idmapd.conf"), "{error}");
    }
}

#[test]
fn names_of_the_server_over_http_are_names_of_hosts() {
    let parsed = |names: &str| {
        parse(&format!(
            "[server]\nhttp_names = [{names}]\n[[export]]\npath = \"DIR\"\n"
        ))
    };
    let config = parsed("\"nas\", \"nas.example.org\"").unwrap();
    assert_eq!(config.server.http_names, ["nas", "nas.example.org"]);
    let long = format!("\"{}\"", "a".repeat(limits::HOST_NAME_BYTES_MAX + 1));
    for name in [
        "\"\"",
        "\"nas:80\"",
        "\"http://nas\"",
        "\"*.example.org\"",
        "\"a b\"",
        &long,
    ] {
        let error = parsed(name).unwrap_err().to_string();
        assert!(error.contains("without a port"), "{name}: {error}");
    }
    let many = vec!["\"nas\""; limits::HTTP_NAMES_MAX + 1].join(", ");
    let error = parsed(&many).unwrap_err().to_string();
    assert!(error.contains("more than 16 names"), "{error}");
}

#[test]
fn names_of_hosts_and_netgroups_are_clients() {
    let config = parse(
        "[[export]]\npath = \"DIR\"\nclients = [\"Build7.Example.org.\", \"@builders\", \"localhost\"]\n\
         [[export.client]]\nnet = \"build8\"\naccess = \"ro\"\n",
    );
    if !nfs_io::host_names::HAS_NETGROUPS {
        assert!(config.unwrap_err().to_string().contains("musl"));
        return;
    }
    let config = config.unwrap();
    let shown: Vec<String> = config.exports[0]
        .clients
        .iter()
        .map(|it| it.net.to_string())
        .collect();
    assert_eq!(
        shown,
        ["build8", "build7.example.org", "@builders", "localhost"]
    );
    // build8 may only read, and @builders might be what it falls to.
    let warnings = config.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("while build8 cannot be resolved"),
        "{warnings:?}"
    );
}

#[test]
fn a_configuration_has_only_so_many_names() {
    let names = |count: usize| {
        let names = (0..count).map(|at| format!("\"h{at}.example\""));
        let half: Vec<String> = names.collect();
        let (first, second) = half.split_at(count / 2);
        format!(
            "[[export]]\npath = \"DIR\"\npseudo = \"/a\"\nclients = [{}]\n\
             [[export]]\npath = \"DIR\"\npseudo = \"/b\"\nclients = [{}]\n",
            first.join(", "),
            second.join(", ")
        )
    };
    assert!(parse(&names(limits::CLIENT_NAMES_MAX)).is_ok());
    let found = complaint(&names(limits::CLIENT_NAMES_MAX + 1));
    assert!(
        found.contains("257 names of hosts and netgroups"),
        "{found}"
    );
}
