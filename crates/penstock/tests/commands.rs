//! The commands that look at a server, and those that change one thing, against a real server.

mod support;

use std::os::unix::fs::{MetadataExt as _, symlink};

use serde_json::Value;
use support::server::{Served, mode};
use support::{penstock, run, text};

/// Bad usage of each command: nothing is asked of any server.
#[test]
fn wrong_usage_ends_with_2() {
    let url = "nfs://127.0.0.1:1/x";
    let wrong: &[&[&str]] = &[
        &["ls"],
        &["ls", "/tmp"],
        &["ls", "--color", "mauve", url],
        &["ls", "-t", "-S", url],
        &["ls", "--timeout", "0", url],
        &["stat"],
        &["stat", "nfs://h/x?colour=red"],
        &["rm"],
        &["rm", "-rf"],
        &["mkdir", "-m", "9", url],
        &["mv", url],
        &["mv", "-T", url, url, url],
        &["ln", url],
        &["ln", "plain-text", url],
        &["ln", "-s", "", url],
        &["chmod", "u+q", url],
        &["chmod", "644"],
        &["chown", "no-such-user-here", url],
        &["chown", ":", url],
        &["touch", "-d", "yesterday", url],
        &["touch", "-a", "-m", url],
        &["truncate", url],
        &["truncate", "-s", "4X", url],
        &["du", "-s", "-d", "1", url],
        &["find", "--type", "x", url],
        &["find", "--size", "1q", url],
        &["find", "--name", "[a", url],
        &["find", "--perm", "9", url],
        &["cp", "--limit", "0", url, "x"],
        &["cp", "--exclude", "a//b", url, "x"],
        &["cp", "--include", "a", url, "x"],
        &["find", "--mtime", "x", url],
        &["df", "--json", "-h", url],
        &["showmount"],
        &["showmount", "-e", "-a", "h"],
        &["ping", "-c", "0", "h"],
        &["ping", "-i", "-1", "h"],
        &["ping", "--program", "nlm", "h"],
    ];
    for arguments in wrong {
        let output = run(arguments);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(!errors.is_empty(), "{arguments:?} says nothing");
        assert!(output.stdout.is_empty(), "{arguments:?} prints");
    }
}

/// A full disk behind standard output is told as such.
#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let server = Served::new();
    server.lines(&["touch", "@f"]);
    std::fs::write(server.path("g"), b"x").unwrap();
    for arguments in [
        &["ls", "-l", &server.url("")][..],
        &["find", &server.url("")],
        &["cat", &server.url("g")],
        &["get", &server.url("g")],
    ] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let ran = penstock().args(arguments).stdout(full).output().unwrap();
        let errors = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{arguments:?}: {errors}");
        let said = "penstock: cannot write to standard output: No space left";
        assert!(errors.starts_with(said), "{arguments:?}: {errors}");
    }
}

/// What lies deeper than PATH_MAX is found, and reached by the URL that was found.
#[test]
fn paths_longer_than_path_max() {
    let server = Served::new();
    let url = server.url(&vec!["d".repeat(200); 30].join("/"));
    server.lines(&["mkdir", "-p", &url]);
    server.lines(&["touch", &format!("{url}/leaf")]);
    let found = server.lines(&["find", "@", "--name", "leaf"]);
    assert_eq!(found, [format!("{url}/leaf")]);
    assert_eq!(server.json(&["stat", "--json", &found[0]])[0]["size"], 0);
    server.lines(&["cp", "/etc/passwd", &found[0]]);
    assert_eq!(
        server.run(&["cat", &found[0]]).bytes(),
        std::fs::read("/etc/passwd").unwrap()
    );
    server.lines(&["rm", "-r", &server.url(&"d".repeat(200))]);
}

/// Port 1 of this machine: nothing listens there.
#[test]
fn a_server_that_is_not_there_is_a_failure() {
    let url = "nfs://127.0.0.1:1/x";
    for arguments in [
        &["ls", url][..],
        &["stat", url],
        &["rm", "-rf", url],
        &["mkdir", "-p", url],
        &["mv", url, url],
        &["ln", "-s", "x", url],
        &["chmod", "-R", "0", url],
        &["touch", url],
        &["truncate", "-s", "0", url],
        &["du", url],
        &["find", url],
        &["df", url],
        &["ping", "-c", "1", url],
        &["showmount", "nfs://127.0.0.1:1/?mountport=1"],
    ] {
        let output = run(arguments);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(errors.contains("cannot connect"), "{arguments:?}: {errors}");
        assert!(
            errors.starts_with("penstock: nfs://127.0.0.1:1/"),
            "{errors}"
        );
    }
}

#[test]
fn ls_lists_sorts_and_goes_down() {
    let server = Served::new();
    std::fs::create_dir_all(server.path("dir/inner")).unwrap();
    std::fs::write(server.path("big"), vec![1; 5000]).unwrap();
    std::fs::write(server.path("small"), b"1").unwrap();
    std::fs::write(server.path("dir/inner/deep"), b"").unwrap();
    symlink("dir", server.path("link")).unwrap();
    let old = std::fs::File::options()
        .write(true)
        .open(server.path("big"))
        .unwrap();
    old.set_modified(std::time::UNIX_EPOCH).unwrap();

    let plain = server.run(&["ls", "@"]);
    assert_eq!(plain.output(), "big\ndir\nlink\nsmall\n");
    let names = |arguments: &[&str]| server.run(arguments).output();
    assert_eq!(names(&["ls", "-r", "@"]), "small\nlink\ndir\nbig\n");
    let by_size = names(&["ls", "-S", "@"]);
    assert!(by_size.find("big") < by_size.find("small"), "{by_size}");
    assert!(names(&["ls", "-t", "@"]).ends_with("big\n"));
    assert_eq!(names(&["ls", "@link"]), "inner\n", "what the link leads to");
    assert_eq!(names(&["ls", "-d", "@link"]), "link\n");
    assert!(names(&["ls", "-l", "@link"]).ends_with("link -> dir\n"));
    assert_eq!(names(&["ls", "@small"]), "small\n");
    assert!(names(&["ls", "-a", "@dir"]).contains("..\n"));
    assert!(names(&["ls", "-lh", "@big"]).contains("  4.9K "));

    let down = names(&["ls", "-R", "@"]);
    let expected = format!("\n{}:\ndeep\n", server.url("dir/inner"));
    assert!(down.ends_with(&expected), "{down}");

    let objects = server.json(&["ls", "--json", "-R", "@"]);
    let deep = objects
        .iter()
        .find(|object| object["name"] == "deep")
        .unwrap();
    assert_eq!(deep["url"], server.url("dir/inner/deep"));
    assert_eq!(deep["type"], "file");

    // One that fails does not keep the others from being listed.
    let mixed = server.run(&["ls", "@none", "@dir"]);
    assert_eq!(mixed.code(), 1);
    assert!(mixed.output().contains("inner"));
    let expected = format!("penstock: {}: LOOKUP: no such file", server.url("none"));
    assert!(mixed.errors().starts_with(&expected), "{}", mixed.errors());
}

#[test]
fn ls_signs_numbers_zones_and_names() {
    let server = Served::new();
    std::fs::create_dir(server.path("dir")).unwrap();
    std::fs::write(server.path("file"), "1").unwrap();
    symlink("dir", server.path("link")).unwrap();
    let file = std::fs::File::options()
        .write(true)
        .open(server.path("file"))
        .unwrap();
    let late = std::time::Duration::from_secs(1_735_689_599);
    file.set_modified(std::time::UNIX_EPOCH + late).unwrap();
    let names = |arguments: &[&str]| server.run(arguments).output();
    assert_eq!(names(&["ls", "-1AF", "@"]), "dir/\nfile\nlink@\n");
    let fileid =
        std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(server.path("file")).unwrap());
    assert_eq!(names(&["ls", "-i", "@file"]), format!("{fileid:>8} file\n"));
    let zoned = |zone: &str, options: &str| {
        let mut command = penstock();
        command
            .args(["ls", options, &server.url("file")])
            .env("TZ", zone);
        text(&command.output().unwrap().stdout)
    };
    let utc = zoned("UTC", "-l");
    assert!(utc.contains(" 2024-12-31 23:59:59 +0000 file\n"), "{utc}");
    // POSIX writes zones west of Greenwich with a plus.
    let east = zoned("XYZ-5:30", "-l");
    assert!(east.contains(" 2025-01-01 05:29:59 +0530 file\n"), "{east}");
    let owner = std::os::unix::fs::MetadataExt::uid(&file.metadata().unwrap());
    let numbers = zoned("UTC", "-ln");
    assert!(numbers.contains(&format!("  1 {owner:>8} ")), "{numbers}");
    if owner == 0 {
        assert!(utc.contains("  1     root     root "), "{utc}");
    }
}

#[test]
fn exports_are_listed_where_there_is_nothing_else_and_named_in_errors() {
    let server = Served::exporting(&["3", "4.1"], &["/srv/one", "/srv/two", "/top"]);
    std::fs::write(server.path("file"), "1").unwrap();
    let host = server.address();
    // An address without a path is that of the root.
    let root = run(&["ls", &format!("nfs://{host}")]);
    assert_eq!(text(&root.stdout), "srv\ntop\n", "{}", text(&root.stderr));
    let below = server.run(&["ls", "--json", "@srv"]);
    let export = |name: &str| {
        let url = server.url(&format!("srv/{name}"));
        format!("{{\"name\":\"{name}\",\"url\":\"{url}\"}}\n")
    };
    assert_eq!(below.output(), export("one") + &export("two"));
    assert_eq!(server.run(&["ls", "@srv/one"]).output(), "file\n");
    for (command, path) in [("ls", "@srv/three"), ("cat", "@srv")] {
        let ran = server.run(&[command, path]);
        assert_eq!(ran.code(), 1);
        let expected = "; the server exports /srv/one, /srv/two, /top";
        assert!(
            ran.errors().contains(expected),
            "{command}: {}",
            ran.errors()
        );
    }
}

#[test]
fn colours_are_for_terminals() {
    let server = Served::new();
    std::fs::create_dir(server.path("dir")).unwrap();
    std::fs::write(server.path("plain"), b"").unwrap();
    let output = |arguments: &[&str]| server.run(arguments).output();
    assert_eq!(output(&["ls", "@"]), "dir\nplain\n", "a pipe gets colours");
    let always = output(&["ls", "--color", "always", "@"]);
    assert_eq!(always, "\x1b[1m\x1b[34mdir\x1b[0m\nplain\n");
    assert_eq!(output(&["ls", "--color", "never", "@"]), "dir\nplain\n");
}

#[test]
fn stat_shows_several() {
    let server = Served::new();
    std::fs::write(server.path("file"), b"12345").unwrap();
    symlink("file", server.path("link")).unwrap();
    let objects = server.json(&["stat", "--json", "@file", "@link"]);
    assert_eq!(objects.len(), 2);
    assert_eq!(objects[0]["size"], 5);
    assert_eq!(objects[1]["target"], "file");
    let followed = server.json(&["stat", "-L", "--json", "@link"]);
    assert_eq!(followed[0]["type"], "file");
    let mixed = server.run(&["stat", "@none", "@file"]);
    assert_eq!(mixed.code(), 1);
    assert!(mixed.output().contains("size: 5 bytes"));
    server.fails(&["stat", "@file/x"], 1, "not a directory");
}

#[test]
fn mkdir_and_rmdir() {
    let server = Served::new();
    server.lines(&["mkdir", "@a", "@b"]);
    assert!(server.path("a").is_dir() && server.path("b").is_dir());
    server.fails(&["mkdir", "@a"], 1, "exists already");
    server.fails(&["mkdir", "@x/y"], 1, "no such file");
    server.fails(&["mkdir", "@"], 1, "names no entry");
    server.lines(&["mkdir", "-p", "@a", "@"]);
    let made = server.lines(&["mkdir", "-pv", "-m", "u=rwx,go=", "@x/y/z"]);
    assert_eq!(
        made,
        [server.url("x"), server.url("x/y"), server.url("x/y/z")]
    );
    assert_eq!(mode(&server.path("x/y/z")), 0o700);
    server.lines(&["mkdir", "-m", "2775", "@set"]);
    assert_eq!(mode(&server.path("set")), 0o2775);
    std::fs::write(server.path("file"), b"").unwrap();
    server.fails(&["mkdir", "-p", "@file/x"], 1, "not a directory");
    // As mkdir -p does: through a link to a directory.
    symlink("x", server.path("link")).unwrap();
    server.lines(&["mkdir", "-p", "@link/new"]);
    assert!(server.path("x/new").is_dir());

    server.fails(&["rmdir", "@x"], 1, "not empty");
    server.fails(&["rmdir", "@file"], 1, "not a directory");
    server.fails(&["rmdir", "@none"], 1, "no such file");
    server.lines(&["rmdir", "@x/new", "@b"]);
    server.lines(&["rmdir", "-p", "@x/y/z"]);
    assert!(!server.path("x").exists() && !server.path("b").exists());
}

#[test]
fn mv_renames_within_an_export() {
    let server = Served::new();
    for name in ["a", "b", "c"] {
        std::fs::write(server.path(name), name).unwrap();
    }
    std::fs::create_dir_all(server.path("dir/sub")).unwrap();
    let read = |name: &str| std::fs::read_to_string(server.path(name)).unwrap();
    server.lines(&["mv", "@a", "@a2"]);
    assert_eq!(read("a2"), "a");
    server.lines(&["mv", "-n", "@a2", "@b"]);
    assert_eq!(
        (read("a2"), read("b")),
        ("a".into(), "b".into()),
        "-n replaces"
    );
    server.lines(&["mv", "@a2", "@b"]);
    assert_eq!(read("b"), "a");
    server.lines(&["mv", "@b", "@c", "@dir"]);
    assert_eq!((read("dir/b"), read("dir/c")), ("a".into(), "c".into()));
    server.lines(&["mv", "@dir/sub", "@sub2"]);
    assert!(server.path("sub2").is_dir());
    // With -T a directory is a name like any other, and an empty one is replaced.
    server.lines(&["mv", "-T", "@dir", "@sub2"]);
    assert_eq!(read("sub2/c"), "c");

    server.fails(&["mv", "@none", "@x"], 1, "no such file");
    server.fails(&["mv", "@sub2/b", "@sub2/b"], 1, "are the same");
    server.fails(&["mv", "@sub2", "@sub2/inner"], 1, "into itself");
    server.fails(
        &["mv", "@sub2/b", "@sub2/c", "@new"],
        1,
        "is not a directory",
    );
    assert_eq!(server.lines(&["ls", "@sub2"]), ["b", "c"]);

    // Two names of one file: the old one goes, as mv(1) does, although rename(2) would leave both.
    std::fs::hard_link(server.path("sub2/b"), server.path("b2")).unwrap();
    server.lines(&["mv", "@b2", "@sub2/b"]);
    assert!(!server.path("b2").exists() && server.path("sub2/b").exists());

    let other = Served::new();
    let target = other.url("x");
    server.fails(&["mv", "@sub2/b", &target], 1, "penstock cp -a");
    assert!(server.path("sub2/b").exists());
}

#[test]
fn ln_makes_names_and_links() {
    let server = Served::new();
    std::fs::write(server.path("file"), b"x").unwrap();
    std::fs::create_dir(server.path("dir")).unwrap();
    server.lines(&["ln", "@file", "@again"]);
    server.lines(&["ln", "@file", "@dir"]);
    let number = |name: &str| std::fs::metadata(server.path(name)).unwrap().ino();
    assert_eq!(number("file"), number("again"));
    assert_eq!(number("file"), number("dir/file"));
    server.lines(&["ln", "-s", "../any text\u{e4}", "@dir/link"]);
    let target = |name: &str| std::fs::read_link(server.path(name)).unwrap();
    assert_eq!(target("dir/link").to_str(), Some("../any text\u{e4}"));
    server.lines(&["ln", "-s", "../again", "@dir/"]);
    assert_eq!(target("dir/again").to_str(), Some("../again"));

    server.fails(&["ln", "@file", "@again"], 1, "exists already");
    server.fails(&["ln", "@none", "@x"], 1, "no such file");
    server.fails(
        &["ln", "@dir", "@x"],
        1,
        "is a directory: only -s leads there",
    );
    server.fails(&["ln", "-s", "..", "@dir"], 1, "no name to take");
    server.lines(&["ln", "-sf", "v1", "@latest"]);
    server.lines(&["ln", "-sf", "v2", "@latest"]);
    assert_eq!(target("latest").to_str(), Some("v2"));
    server.lines(&["ln", "-f", "@file", "@latest"]);
    assert_eq!(number("file"), number("latest"));
    server.lines(&["ln", "-f", "@file", "@again"]);
    server.fails(&["ln", "-sfT", "x", "@dir"], 1, "is a directory");
    let left = server.lines(&["ls", "@"]);
    assert_eq!(
        left,
        ["again", "dir", "file", "latest"],
        "a temporary name is left"
    );
}

#[test]
fn touch_and_truncate() {
    let server = Served::new();
    let about = |name: &str| std::fs::metadata(server.path(name)).unwrap();
    server.lines(&["touch", "@new"]);
    assert_eq!(about("new").len(), 0);
    server.lines(&["touch", "-c", "@none"]);
    assert!(!server.path("none").exists());
    server.lines(&["touch", "-d", "2001-09-09T01:46:40", "@new"]);
    assert_eq!(
        (about("new").mtime(), about("new").atime()),
        (1_000_000_000, 1_000_000_000)
    );
    server.lines(&["touch", "-m", "--date=@5.25", "@new"]);
    assert_eq!(
        (about("new").mtime(), about("new").mtime_nsec()),
        (5, 250_000_000)
    );
    assert_eq!(about("new").atime(), 1_000_000_000);
    server.lines(&["touch", "@new"]);
    assert!(about("new").mtime() > 1_000_000_000);
    server.fails(&["touch", "@x/y"], 1, "no such file");

    server.lines(&["truncate", "-s", "4K", "@new", "@other"]);
    assert_eq!((about("new").len(), about("other").len()), (4096, 4096));
    server.lines(&["truncate", "-s", "+1KB", "@new"]);
    server.lines(&["truncate", "-s", "-96", "@other"]);
    assert_eq!((about("new").len(), about("other").len()), (5096, 4000));
    server.lines(&["truncate", "-s", "<1K", "@new"]);
    server.lines(&["truncate", "-s", "%1K", "@other"]);
    assert_eq!((about("new").len(), about("other").len()), (1024, 4096));
    server.lines(&["truncate", "-c", "-s", "0", "@none"]);
    assert!(!server.path("none").exists());
    server.fails(
        &["truncate", "-s", "+16383P", "@new"],
        1,
        "penstock: nfs://",
    );
    std::fs::create_dir(server.path("dir")).unwrap();
    server.fails(&["truncate", "-s", "0", "@dir"], 1, "is a directory");
}

#[test]
fn df_shows_space() {
    let server = Served::new();
    let object = &server.json(&["df", "--json", "@"])[0];
    let number = |key: &str| object[key].as_u64().unwrap();
    assert!(number("size") >= number("used") && number("size") > 0);
    assert_eq!(object["url"], server.url(""));
    for option in ["-h", "-i", "--timeout=30"] {
        let ran = server.run(&["df", option, "@"]);
        assert_eq!(ran.code(), 0, "{}", ran.errors());
        let output = ran.output();
        let lines: Vec<&str> = output.lines().collect();
        assert!(lines[0].ends_with("avail  use%  URL") && lines[1].ends_with(&server.url("")));
    }
    server.fails(&["df", "@none"], 1, "no such file");
}

#[test]
fn showmount_tells_exports_and_clients() {
    let server = Served::new();
    let address = server.address().to_owned();
    assert_eq!(server.lines(&["showmount", &address]).len(), 1);
    let exports = server.json(&["showmount", "-e", "--json", "@"]);
    assert_eq!(exports[0]["directory"], "/");
    assert!(exports[0]["groups"].is_array());
    server.lines(&["ls", "@"]);
    assert_eq!(
        server.lines(&["showmount", "-a", &address]),
        ["127.0.0.1:/"]
    );
    assert_eq!(server.lines(&["showmount", "-d", "@"]), ["/"]);
    let mounts = server.json(&["showmount", "-a", "--json", "@"]);
    assert_eq!(mounts[0]["host"], "127.0.0.1");
}

#[test]
fn ping_counts_and_measures() {
    let server = Served::new();
    let ran = server.run(&["ping", "-c", "3", "-i", "0", "@"]);
    assert_eq!(ran.code(), 0, "{}", ran.errors());
    let output = ran.output();
    assert!(output.contains(": seq=3 time="), "{output}");
    assert!(output.contains("3 sent, 3 answered\nmin "), "{output}");
    assert!(output.contains(" #"), "no histogram: {output}");
    for program in ["nfs", "mount"] {
        let arguments = [
            "ping",
            "--json",
            "-c",
            "20",
            "-i",
            "0",
            "--program",
            program,
            "@",
        ];
        let object = &server.json(&arguments)[0];
        assert_eq!(
            (&object["sent"], &object["answered"]),
            (&20.into(), &20.into())
        );
        let times: Vec<u64> = ["min_ns", "p50_ns", "p99_ns", "max_ns"]
            .iter()
            .map(|key| object[key].as_u64().unwrap())
            .collect();
        assert!(times.is_sorted() && times[0] > 0, "{times:?}");
        let classes = object["histogram"].as_array().unwrap();
        let counted: u64 = classes
            .iter()
            .filter_map(|class| class["count"].as_u64())
            .sum();
        assert_eq!(counted, 20);
    }
}

#[test]
fn ping_without_an_answer_fails() {
    // It takes connections into its queue, and never a call.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let output = penstock()
        .args([
            "ping",
            "--json",
            "-c",
            "2",
            "-i",
            "0",
            "--timeout",
            "1",
            &address,
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stdout);
    let objects = told.lines().map(|line| serde_json::from_str(line).unwrap());
    let objects: Vec<Value> = objects.collect();
    // Each call that was lost, and the whole.
    let [first, _, object] = objects.as_slice() else {
        panic!("{told}");
    };
    assert_eq!(first["error"]["status"], "ETIMEDOUT");
    assert_eq!(
        (&object["sent"], &object["answered"]),
        (&2.into(), &0.into())
    );
    assert!(text(&output.stderr).contains("seq=2: no reply within"));
}

#[test]
fn an_interrupted_ping_prints_its_summary() {
    use std::io::{BufRead as _, BufReader, Read as _};
    let server = Served::new();
    let mut child = penstock()
        .args(["ping", "-i", "1000", &server.url("")])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    output.read_line(&mut first).unwrap();
    assert!(first.contains("seq=1"), "{first}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("1 sent, 1 answered\nmin "), "{rest}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
