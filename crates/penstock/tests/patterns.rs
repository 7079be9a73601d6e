//! Patterns in addresses: what they stand for, and what they do not.

mod support;

use std::fs;

use support::server::Served;

/// A server with names to match.
fn served() -> Served {
    let server = Served::new();
    for dir in ["logs/a", "logs/b", "logs/.c", "empty"] {
        fs::create_dir_all(server.path(dir)).unwrap();
    }
    for file in [
        "logs/a/1.log",
        "logs/a/2.log",
        "logs/a/x.txt",
        "logs/b/1.log",
        "logs/.c/1.log",
        "logs/.hidden.log",
        "logs/9.log",
        "star*",
        "starred",
        "back\\slash",
        "set[1]",
        "[ab]",
    ] {
        fs::write(server.path(file), file).unwrap();
    }
    std::os::unix::fs::symlink("nowhere", server.path("logs/a/3.log")).unwrap();
    server
}

/// What `penstock ls -d` prints, each without its server and options.
fn listed(server: &Served, pattern: &str) -> Vec<String> {
    let ran = server.run(&["ls", "-d", pattern]);
    assert_eq!(ran.code(), 0, "{pattern}: {}", ran.errors());
    let root = server.url("");
    let (root, options) = root.split_once('?').unwrap_or((&root, ""));
    let lines = ran.output();
    let lines = lines.lines().map(|line| {
        let path = line.strip_prefix(root).unwrap_or(line);
        path.strip_suffix(&format!("?{options}"))
            .unwrap_or(path)
            .to_owned()
    });
    lines.collect()
}

#[test]
fn patterns_match_names() {
    let server = served();
    let table: &[(&str, &[&str])] = &[
        ("@logs/a/*.log", &["1.log", "2.log", "3.log"]),
        ("@logs/*/1.log", &["logs/a/1.log", "logs/b/1.log"]),
        ("@logs/[!a]/*", &["1.log"]),
        (
            "@l*/[ab]/*.log",
            &[
                "logs/a/1.log",
                "logs/a/2.log",
                "logs/a/3.log",
                "logs/b/1.log",
            ],
        ),
        ("@logs/.*", &[".c", ".hidden.log"]),
        ("@logs/*/", &["a", "b"]),
        ("@star*", &["star*", "starred"]),
        ("@star%2A", &["star*"]),
        ("@star\\*", &["star*"]),
        ("@set[[]1]", &["set[1]"]),
        ("@set[1]", &["set[1]"]),
        ("@set%5B1]", &["set[1]"]),
        ("@back*", &["back\\slash"]),
        (
            "@[[:lower:]]*[!y]",
            &["back\\slash", "logs", "set[1]", "star*", "starred"],
        ),
    ];
    for (pattern, expected) in table {
        assert_eq!(listed(&server, pattern), *expected, "{pattern}");
    }
    // Nothing has the name that matches: it is itself.
    assert_eq!(listed(&server, "@[ab]"), ["[ab]"]);
}

#[test]
fn what_matches_nothing_is_an_error() {
    let server = served();
    for command in ["ls", "stat", "cat", "du", "df", "find", "rm"] {
        server.fails(&[command, "@logs/*.none"], 1, "*.none");
        server.fails(&[command, "@logs/*.none"], 1, "nothing matches");
    }
    server.fails(&["chmod", "644", "@empty/*"], 1, "nothing matches");
    server.fails(&["cp", "@empty/*", "/tmp"], 1, "nothing matches");
    server.fails(&["ls", "@none/*"], 1, "no such file or directory");
    server.fails(&["ls", "@logs/9.log/*"], 1, "nothing matches");
    server.fails(&["ls", "@[[:nope:]]"], 2, "is no class of characters");
    assert_eq!(server.run(&["rm", "-f", "@empty/*"]).code(), 0);
    // One that does not keeps no other from being listed.
    let ran = server.run(&["ls", "@empty/*", "@logs/9*"]);
    assert_eq!((ran.code(), ran.output().as_str()), (1, "9.log\n"));
}

#[test]
fn what_matches_is_copied_and_removed() {
    let server = served();
    let scratch = tempfile::tempdir().unwrap();
    let to = |name: &str| scratch.path().join(name);
    let here = scratch.path().to_str().unwrap();
    assert_eq!(
        server
            .run(&["cp", "@logs/a/[12].log", "@star*", here])
            .code(),
        0
    );
    for name in ["1.log", "2.log", "star*", "starred"] {
        assert!(to(name).is_file(), "{name}");
    }
    // The destination is what it is called.
    assert_eq!(server.run(&["cp", "@logs/9.log", "@new*"]).code(), 0);
    assert_eq!(fs::read(server.path("new*")).unwrap(), b"logs/9.log");
    let mirror = to("mirror");
    let mirror = mirror.to_str().unwrap();
    assert_eq!(server.run(&["sync", "@l*", mirror]).code(), 0);
    assert!(to("mirror/.hidden.log").is_file());
    server.fails(
        &["sync", "@[ls]*", mirror],
        2,
        "the pattern stands for 4 sources",
    );
    assert_eq!(server.run(&["rm", "-r", "@logs/*", "@star\\*"]).code(), 0);
    assert!(server.path("logs/.hidden.log").exists());
    assert!(!server.path("logs/a").exists() && !server.path("star*").exists());
    assert!(server.path("starred").exists());
}

#[test]
fn a_directory_that_may_not_be_read_is_told() {
    let server = served();
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(server.path("logs/b"), fs::Permissions::from_mode(0o700)).unwrap();
    let ran = server.run(&["ls", &server.url_with("logs/*/*.log", "uid=1000&gid=1000")]);
    assert_eq!(ran.code(), 1);
    assert!(ran.errors().contains("logs/b"), "{}", ran.errors());
    assert_eq!(ran.output(), "1.log\n2.log\n3.log\n");
}
