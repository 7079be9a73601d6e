//! The client commands over NFSv4.1 and 4.2, against a real server.

mod support;

use std::os::unix::fs::MetadataExt as _;

use support::server::{Served, mode};

const VERSIONS: [&str; 2] = ["4.1", "4.2"];

fn served() -> Served {
    Served::serving(&["4.1", "4.2"])
}

fn content(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i.wrapping_mul(7) >> 5).to_le_bytes()[0])
        .collect()
}

fn url(server: &Served, path: &str, version: &str) -> String {
    format!("{}?version={version}", server.url(path))
}

#[test]
fn directories_are_listed_as_over_nfsv3() {
    let server = Served::serving(&["3", "4.1", "4.2"]);
    std::fs::create_dir(server.path("dir")).unwrap();
    std::fs::write(server.path("dir/file"), content(1234)).unwrap();
    std::fs::write(server.path("other"), "x").unwrap();
    std::os::unix::fs::symlink("dir/file", server.path("link")).unwrap();
    for arguments in [
        &["ls"][..],
        &["ls", "-l"],
        &["ls", "-R"],
        &["ls", "-d"],
        &["ls", "-S", "-r"],
    ] {
        for path in ["", "dir", "dir/file", "link"] {
            let run = |url: String| {
                let ran = server.run(&[arguments, &[url.as_str()]].concat());
                assert_eq!((ran.code(), ran.errors()), (0, String::new()), "{url}");
                ran.output()
            };
            let expected = run(server.url(path));
            for version in VERSIONS {
                // Headings are URLs, with the version in them.
                let found = run(url(&server, path, version));
                let found = found.replace(&format!("?version={version}"), "");
                assert_eq!(found, expected, "{arguments:?} {path} over {version}");
            }
        }
    }
}

#[test]
fn json_has_the_attributes() {
    let server = served();
    std::fs::write(server.path("file"), content(77)).unwrap();
    let ran = server.run(&["ls", "--json", &url(&server, "", "4.1")]);
    assert_eq!((ran.code(), ran.errors()), (0, String::new()));
    let line: serde_json::Value = serde_json::from_str(ran.output().trim()).unwrap();
    assert_eq!(line["name"], "file");
    assert_eq!(line["size"], 77);
    assert_eq!(line["type"], "file");
}

#[test]
fn files_and_parts_of_them_are_written_out() {
    let server = served();
    let whole = content(9_000_001);
    std::fs::write(server.path("f"), &whole).unwrap();
    std::fs::write(server.path("empty"), "").unwrap();
    std::os::unix::fs::symlink("/f", server.path("link")).unwrap();
    for version in VERSIONS {
        let [f, link, empty, none] =
            ["f", "link", "empty", "none"].map(|path| url(&server, path, version));
        let ran = server.run(&["cat", &f, &none, &empty, &link]);
        assert_eq!(ran.code(), 1);
        assert!(ran.bytes() == [&whole[..], &whole].concat(), "{version}");
        let errors = ran.errors();
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.contains("/none"), "{errors}");
        assert!(errors.contains("LOOKUP: no such file"), "{errors}");
        let part = ["cat", "--offset", "1000001", "--length", "3000000", &f];
        let part = server.run(&part);
        assert!(part.bytes() == &whole[1_000_001..4_000_001], "{version}");
        let small = server.run(&["cat", "--transfer", "64KiB", &f]);
        assert!(small.bytes() == whole, "{version}");
        let past = server.run(&["cat", "--offset", "1GiB", &f]);
        assert_eq!((past.code(), past.bytes().len()), (0, 0));
    }
}

#[test]
fn one_file_is_copied_up_and_down() {
    let server = served();
    let here = tempfile::tempdir().unwrap();
    let whole = content(5_000_003);
    let source = here.path().join("source");
    std::fs::write(&source, &whole).unwrap();
    std::fs::create_dir(server.path("dir")).unwrap();
    let source = source.to_str().unwrap();
    for version in VERSIONS {
        // Over a longer one, too.
        std::fs::write(server.path("new"), content(6_000_000)).unwrap();
        for (to, at) in [("new", "new"), ("dir", "dir/source")] {
            let ran = server.run(&["cp", source, &url(&server, to, version)]);
            assert_eq!((ran.code(), ran.errors()), (0, String::new()), "{to}");
            assert!(std::fs::read(server.path(at)).unwrap() == whole, "{to}");
        }
        let down = here.path().join("down");
        let ran = server.run(&["cp", &url(&server, "new", version), down.to_str().unwrap()]);
        assert_eq!((ran.code(), ran.errors()), (0, String::new()));
        assert!(std::fs::read(&down).unwrap() == whole);
        let into = here.path().to_str().unwrap();
        let ran = server.run(&["cp", &url(&server, "dir/source", version), into]);
        assert_eq!((ran.code(), ran.errors()), (0, String::new()));
        let missing = server.run(&["cp", &url(&server, "none", version), into]);
        assert_eq!(missing.code(), 1);
        assert!(
            missing.errors().contains("no such file"),
            "{}",
            missing.errors()
        );
        assert!(!here.path().join("none").exists());
    }
}

#[test]
fn names_are_made_changed_and_removed() {
    let server = served();
    let at = |path: &str| url(&server, path, "4.1");
    let runs = |arguments: &[&str]| {
        let ran = server.run(arguments);
        assert_eq!(ran.code(), 0, "{arguments:?}: {}", ran.errors());
        ran.output()
    };
    runs(&["mkdir", "-p", &at("dir/inner")]);
    runs(&["touch", &at("dir/file")]);
    runs(&["truncate", "-s", "70000", &at("dir/file")]);
    runs(&["chmod", "640", &at("dir/file")]);
    runs(&["mv", &at("dir/file"), &at("dir/inner/moved")]);
    runs(&["ln", &at("dir/inner/moved"), &at("again")]);
    runs(&["ln", "-s", "dir/inner", &at("link")]);
    let moved = std::fs::metadata(server.path("link/moved")).unwrap();
    assert_eq!((moved.len(), moved.nlink()), (70_000, 2));
    assert_eq!(mode(&server.path("again")), 0o640);
    let told: serde_json::Value =
        serde_json::from_str(runs(&["stat", "--json", &at("again")]).trim()).unwrap();
    assert_eq!(
        (&told["size"], &told["type"]),
        (&70_000.into(), &"file".into())
    );
    assert!(runs(&["df", &at("")]).contains("version=4.1"));
    // REMOVE of NFSv4 takes files and directories alike; the commands do not.
    for (command, path, error) in [
        ("rmdir", "again", "not a directory"),
        ("rmdir", "dir", "not empty"),
        ("rm", "dir", "is a directory"),
    ] {
        let ran = server.run(&[command, &at(path)]);
        assert_eq!(ran.code(), 1, "{command} {path}");
        assert!(ran.errors().contains(error), "{}", ran.errors());
    }
    runs(&["rm", &at("again"), &at("link")]);
    runs(&["rm", "-r", &at("dir")]);
    assert_eq!(std::fs::read_dir(server.path("")).unwrap().count(), 0);
}

#[test]
fn a_session_leaves_nothing_open() {
    let server = served();
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("source");
    std::fs::write(&source, content(3_000_000)).unwrap();
    let source = source.to_str().unwrap();
    for arguments in [
        &["cp", source, &url(&server, "file", "4.2")][..],
        &["cat", &url(&server, "file", "4.2")],
        &["get", &url(&server, "file", "4.2")],
        &["touch", &url(&server, "other", "4.2")],
    ] {
        let ran = server.run(arguments);
        assert_eq!(ran.code(), 0, "{arguments:?}: {}", ran.errors());
    }
    let held = server.ctl(&["clients", "nfs4", "--json"]);
    assert!(
        held.contains("\"total\":0"),
        "nobody is a client any more: {held}"
    );
}

#[test]
fn the_newest_version_that_both_speak() {
    for versions in [&["3", "4.1"][..], &["4.1", "4.2"]] {
        let server = Served::serving(versions);
        std::fs::write(server.path("file"), "x").unwrap();
        let ran = server.run(&["ls", &url(&server, "", "4")]);
        assert_eq!((ran.code(), ran.output().as_str()), (0, "file\n"));
    }
}

#[test]
fn what_is_not_possible_is_said() {
    let server = served();
    let place = url(&server, "x", "4.2");
    let here = tempfile::NamedTempFile::new().unwrap();
    let source = here.path().to_str().unwrap();
    let read_only = format!("{place}&readonly");
    let ran = server.run(&["cp", source, &read_only]);
    assert_eq!(ran.code(), 1);
    assert!(ran.errors().contains("read-only"), "{}", ran.errors());
    for command in [
        &["showmount", "-e", &place][..],
        &["mount", &place, "/nowhere"],
    ] {
        let ran = server.run(command);
        assert_eq!(ran.code(), 1, "{command:?}: {}", ran.errors());
        let cure = "only NFSv3 can do this so far: leave version=4.2 out of the URL";
        assert!(ran.errors().contains(cure), "{command:?}: {}", ran.errors());
    }
    let ran = server.run(&["ls", &url(&server, "", "4.0")]);
    assert_eq!(ran.code(), 2);
    assert!(
        ran.errors().contains("give 3, 4, 4.1 or 4.2"),
        "{}",
        ran.errors()
    );
    // A server that does not speak it says so.
    let old = Served::serving(&["3"]);
    let ran = old.run(&["ls", &url(&old, "", "4.1")]);
    assert_eq!(ran.code(), 1);
    assert!(!ran.errors().is_empty());
}

#[test]
fn a_server_of_nfsv4_is_pinged() {
    let server = served();
    let ran = server.run(&["ping", "-q", "-c", "3", "-i", "0", &url(&server, "", "4.1")]);
    assert_eq!(ran.code(), 0, "{}", ran.errors());
    assert!(
        ran.output().contains("3 sent, 3 answered"),
        "{}",
        ran.output()
    );
}
