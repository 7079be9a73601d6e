//! `penstock cp`, `put` and `get` against the real server: bytes, holes and metadata compared.

mod support;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use support::copy::{fails, noise, succeeds};
use support::server::{Served, path_of};
use support::{penstock, text};

/// A tree with all that is odd.
fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("sub/deep/er")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    let odd: [&[u8]; 7] = [
        b"new\nline",
        b"\xff\xfe not text",
        b" space ",
        b"-r",
        b"star*?[x]",
        b"back\\slash'\"$(x)",
        &[b'n'; 255],
    ];
    for (index, name) in odd.into_iter().enumerate() {
        let name = OsString::from_vec(name.to_vec());
        fs::write(root.join(&name), noise(index as u64, index * 1000)).unwrap();
        fs::create_dir(root.join("sub").join(&name)).unwrap();
        fs::write(root.join("sub").join(&name).join(&name), &b"x"[..]).unwrap();
    }
    for index in 0..200 {
        let path = root.join("sub/deep").join(format!("f{index}"));
        fs::write(path, noise(index, 4096)).unwrap();
    }
    fs::write(root.join("sub/deep/er/large"), noise(77, 3_500_001)).unwrap();
    fs::hard_link(root.join("sub/deep/er/large"), root.join("other name")).unwrap();
    symlink("sub/deep/../nowhere", root.join("dangling")).unwrap();
    symlink("sub", root.join("to a directory")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o640),
        0,
    )
    .unwrap();
    make_sparse(&root.join("sparse"));
    for (path, mode) in [
        ("sub/deep/f0", 0o600),
        ("sub/deep/f1", 0o4755),
        ("sub/deep/f2", 0o444),
        ("sub/deep/er", 0o750),
        ("empty", 0o1777),
        ("sub/deep", 0o555),
    ] {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(root.join(path), mode).unwrap();
    }
    let past = SystemTime::UNIX_EPOCH + Duration::new(981_173_106, 123_456_789);
    for path in ["sub/deep/f3", "sub/deep", "empty"] {
        let file = fs::File::open(root.join(path)).unwrap();
        file.set_modified(past).unwrap();
    }
}

/// Data at 1 MiB and at 5 MiB, and a hole at the end.
fn make_sparse(path: &Path) {
    let file = fs::File::create(path).unwrap();
    file.write_all_at(&noise(5, 300_000), 1 << 20).unwrap();
    file.write_all_at(b"x", 5 << 20).unwrap();
    file.set_len(8 << 20).unwrap();
}

/// What is compared of one name.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    mode: u32,
    owner: (u32, u32),
    /// The modification time; of a symbolic link that of the link itself.
    modified: Option<SystemTime>,
    links: u64,
    content: Vec<u8>,
}

/// All of a tree. Links and times of directories only where they are to be the same.
fn look(root: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut found = BTreeMap::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(path) = todo.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let kind = metadata.file_type();
        if kind.is_dir() {
            todo.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
        let content = if kind.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_vec()
        } else if kind.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        let seen = Seen {
            mode: metadata.mode(),
            owner: (metadata.uid(), metadata.gid()),
            modified: Some(metadata.modified().unwrap()),
            links: if kind.is_dir() { 0 } else { metadata.nlink() },
            content,
        };
        found.insert(path.strip_prefix(root).unwrap().to_path_buf(), seen);
    }
    found
}

#[track_caller]
fn assert_same_tree(a: &Path, b: &Path) {
    let (a, b) = (look(a), look(b));
    let names = |tree: &BTreeMap<PathBuf, Seen>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&a), names(&b));
    for (path, seen) in &a {
        assert!(seen == &b[path], "{path:?} differs");
    }
}

fn blocks(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks()
}

#[test]
fn trees_go_up_between_servers_and_down_again() {
    let (one, two) = (Served::new(), Served::new());
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("tree");
    make_tree(&source);
    // Into a directory that is there, under its name.
    succeeds(&[&"-a", &source, &one.url("")]);
    assert_same_tree(&source, &one.path("tree"));
    // To a name that is not there.
    succeeds(&[&"-a", &"--verify", &one.url("tree"), &two.url("copy")]);
    assert_same_tree(&source, &two.path("copy"));
    let back = here.path().join("back");
    succeeds(&[&"-a", &"--jobs=3", &two.url("copy/"), &back]);
    assert_same_tree(&source, &back);
    for copy in [
        one.path("tree/sparse"),
        two.path("copy/sparse"),
        back.join("sparse"),
    ] {
        assert_eq!(blocks(&copy), blocks(&source.join("sparse")), "{copy:?}");
    }
    // The same again finds all of it done: nothing is moved.
    let done = succeeds(&[
        &"-a",
        &"--resume",
        &"--json",
        &two.url("copy/"),
        &"-T",
        &back,
    ]);
    let moved = done.lines().filter(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let what = line["done"].as_str().unwrap_or("complete");
        !["complete", "linked", "symlink", "special", "resumed"].contains(&what)
    });
    assert_eq!(moved.collect::<Vec<_>>(), Vec::<&str>::new());
    // Rights are given back, so that the directory can be removed by anybody.
    for root in [&source, &back, &one.path("tree"), &two.path("copy")] {
        fs::set_permissions(root.join("sub/deep"), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn holes_as_they_are_asked_for() {
    let server = Served::new();
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("sparse");
    make_sparse(&source);
    let content = fs::read(&source).unwrap();
    let full = (8 << 20) / 512;
    for (sparse, expected) in [("auto", blocks(&source)), ("never", full)] {
        let up = server.path(sparse);
        succeeds(&[&format!("--sparse={sparse}"), &source, &server.url(sparse)]);
        assert_eq!(blocks(&up), expected, "up, {sparse}");
        let down = here.path().join(sparse);
        succeeds(&[&format!("--sparse={sparse}"), &server.url("auto"), &down]);
        assert_eq!(blocks(&down), expected, "down, {sparse}");
        assert!(fs::read(&up).unwrap() == content && fs::read(&down).unwrap() == content);
    }
    // Zeros that were written become holes only when all are to.
    let zeros = here.path().join("zeros");
    fs::write(&zeros, [vec![0; 1 << 20], b"end".to_vec()].concat()).unwrap();
    succeeds(&[&zeros, &server.url("kept")]);
    succeeds(&[&"--sparse=always", &zeros, &server.url("holes")]);
    assert_eq!(blocks(&server.path("kept")), blocks(&zeros));
    assert_eq!(blocks(&server.path("holes")), 8);
    // Onto a longer file with data where the holes are to be.
    fs::write(server.path("holes"), vec![7; 9 << 20]).unwrap();
    succeeds(&[&source, &server.url("holes")]);
    assert_eq!(blocks(&server.path("holes")), blocks(&source));
    assert!(fs::read(server.path("holes")).unwrap() == content);
}

#[test]
fn destinations_are_those_of_cp() {
    let server = Served::new();
    let here = tempfile::tempdir().unwrap();
    let (a, b) = (here.path().join("a"), here.path().join("b"));
    fs::write(&a, "content of a").unwrap();
    fs::write(&b, "b").unwrap();
    fs::create_dir(server.path("dir")).unwrap();
    let there = |path: &str| fs::read_to_string(server.path(path)).unwrap();
    succeeds(&[&a, &server.url("dir")]);
    succeeds(&[&a, &server.url("named")]);
    succeeds(&[&b, &server.url("named")]);
    assert_eq!(
        (there("dir/a").as_str(), there("named").as_str()),
        ("content of a", "b")
    );
    succeeds(&[&a, &b, &server.url("dir/")]);
    assert_eq!(there("dir/b"), "b");
    fails(&[&a, &b, &server.url("named")], "not a directory");
    fails(&[&a, &server.url("missing/")], "not a directory");
    fails(&[&a, &server.url("missing/x")], "no such file or directory");
    fails(&[&server.url("missing"), &a], "no such file or directory");
    fails(
        &[&"-T", &a, &server.url("dir")],
        "is a directory: cannot be replaced",
    );
    fails(&[&server.url("dir"), &a], "give -r");
    // Left alone: because it is there, because it is not older.
    succeeds(&[&"-n", &a, &server.url("named")]);
    succeeds(&[&"-u", &a, &server.url("named")]);
    assert_eq!(there("named"), "b");
    let later = SystemTime::now() + Duration::from_secs(100);
    fs::File::open(&a).unwrap().set_modified(later).unwrap();
    succeeds(&[&"-u", &a, &server.url("named")]);
    assert_eq!(there("named"), "content of a");
    // A shorter file over a longer one leaves nothing of it.
    succeeds(&[&b, &server.url("named")]);
    assert_eq!(there("named"), "b");
    // The same file, by the same and by another name; a directory into itself.
    fails(
        &[&server.url("named"), &server.url("named")],
        "the same file",
    );
    fs::hard_link(server.path("named"), server.path("again")).unwrap();
    fails(
        &[&server.url("named"), &server.url("again")],
        "the same file",
    );
    fails(
        &[&"-r", &server.url("dir"), &server.url("dir/in")],
        "into itself",
    );
    fails(
        &[&"-r", &server.url("dir"), &server.url("dir")],
        "into itself",
    );
    assert!(!server.path("dir/in").exists());
    // One that cannot be read costs only itself.
    fails(
        &[&a, &here.path().join("missing"), &server.url("dir")],
        "missing",
    );
    // -T merges a directory into one that is there.
    succeeds(&[&"-rT", &server.url("dir"), &here.path().join("new")]);
    succeeds(&[&"-rT", &server.url("dir"), &here.path().join("new")]);
    assert_eq!(fs::read(here.path().join("new/b")).unwrap(), b"b");
    assert!(!here.path().join("new/dir").exists());
}

#[test]
fn a_file_reached_in_two_ways_is_not_lost() {
    let server = Served::new();
    let content = noise(8, 3_000_000);
    fs::write(server.path("file"), &content).unwrap();
    let other = server.url("file").replace("127.0.0.1", "localhost");
    let here = server.path("file");
    let ways: [(&dyn AsRef<OsStr>, &dyn AsRef<OsStr>); 4] = [
        (&here, &server.url("file")),
        (&server.url("file"), &here),
        (&server.url("file"), &other),
        (&here, &other),
    ];
    for (from, to) in ways {
        let told = succeeds(&[&"-v", from, to]);
        assert!(told.contains("left alone"), "{told}");
        assert!(fs::read(server.path("file")).unwrap() == content);
    }
}

#[test]
fn a_symbolic_link_in_the_destination_tree_is_not_written_through() {
    let server = Served::new();
    let here = tempfile::tempdir().unwrap();
    fs::create_dir(here.path().join("tree")).unwrap();
    fs::write(here.path().join("tree/file"), "new").unwrap();
    fs::write(server.path("victim"), "old").unwrap();
    fs::create_dir(server.path("tree")).unwrap();
    symlink("../victim", server.path("tree/file")).unwrap();
    succeeds(&[&"-r", &here.path().join("tree"), &server.url("")]);
    assert_eq!(fs::read_to_string(server.path("victim")).unwrap(), "old");
    assert_eq!(fs::read_to_string(server.path("tree/file")).unwrap(), "new");
    // One that was named is followed, as by cp.
    symlink("victim", server.path("named")).unwrap();
    succeeds(&[&here.path().join("tree/file"), &server.url("named")]);
    assert_eq!(fs::read_to_string(server.path("victim")).unwrap(), "new");
    // And in a source tree, it is a link, unless all are followed.
    succeeds(&[&"-r", &server.url(""), &here.path().join("kept")]);
    assert!(here.path().join("kept/named").is_symlink());
    succeeds(&[&"-rL", &server.url(""), &here.path().join("followed")]);
    assert!(!here.path().join("followed/named").is_symlink());
    assert_eq!(
        fs::read_to_string(here.path().join("followed/named")).unwrap(),
        "new"
    );
}

#[test]
fn a_dry_run_changes_nothing() {
    let server = Served::new();
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("tree");
    make_tree(&source);
    let told = succeeds(&[&"-a", &"--dry-run", &source, &server.url("")]);
    assert_eq!(fs::read_dir(server.path("")).unwrap().count(), 0);
    assert_eq!(told.lines().count(), look(&source).len());
    let one = |line: &str| line.contains("/sub/deep/f17") && line.ends_with(": would be copied");
    assert!(told.lines().any(one), "{told}");
    succeeds(&[&"-a", &source, &server.url("")]);
    let before = look(&server.path(""));
    let told = succeeds(&[&"-a", &"--dry-run", &"--resume", &source, &server.url("")]);
    assert!(told.contains("left alone"), "{told}");
    assert!(before == look(&server.path("")));
    for root in [&source, &server.path("tree")] {
        fs::set_permissions(root.join("sub/deep"), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn standard_streams_go_to_files_and_back() {
    let server = Served::new();
    let content = noise(4, 5_000_003);
    let put = |arguments: &[&str], content: &[u8]| {
        let mut child = penstock()
            .arg("put")
            .args(arguments)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // One that fails does not read it.
        drop(child.stdin.take().unwrap().write_all(content));
        child.wait_with_output().unwrap()
    };
    let url = server.url("stream");
    assert!(put(&["--mode=600", &url], &content).status.success());
    let metadata = fs::metadata(server.path("stream")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
    assert!(fs::read(server.path("stream")).unwrap() == content);
    let get = |arguments: &[&str]| {
        let output = penstock().arg("get").args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        output.stdout
    };
    assert!(get(&[&url]) == content);
    assert!(get(&["--offset=4999999", &url]) == content[4_999_999..]);
    let refused = put(&["-n", &url], b"other");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("exists already"));
    assert!(put(&[&url], b"short").status.success());
    assert_eq!(fs::read(server.path("stream")).unwrap(), b"short");
    assert!(put(&[&server.url("empty")], b"").status.success());
    assert_eq!(fs::metadata(server.path("empty")).unwrap().len(), 0);
}

#[test]
fn trees_without_what_is_left_out() {
    let server = Served::new();
    let here = tempfile::tempdir().unwrap();
    let from = here.path().join("src");
    for dir in ["sub/cache", "sub/deep", "cache.d"] {
        fs::create_dir_all(from.join(dir)).unwrap();
    }
    for file in [
        "a.c",
        "a.o",
        "top.log",
        "sub/top.log",
        "sub/b.o",
        "sub/cache/x",
        "-x",
        "sub/deep/k.c",
    ] {
        fs::write(from.join(file), file).unwrap();
    }
    let names = |root: PathBuf| {
        let mut names: Vec<String> = look(&root)
            .into_keys()
            .map(|path| path.to_str().unwrap().to_owned())
            .filter(|path| !path.is_empty())
            .collect();
        names.sort();
        names
    };
    let to = server.url("less");
    succeeds(&[
        &"-r",
        &"--exclude",
        &"*.o",
        &"--exclude=cache/",
        &"--exclude",
        &"/top.log",
        &"--exclude",
        &"-x",
        &from,
        &to,
    ]);
    let expected = [
        "a.c",
        "cache.d",
        "sub",
        "sub/deep",
        "sub/deep/k.c",
        "sub/top.log",
    ];
    assert_eq!(names(server.path("less")), expected);
    // Down again, and only some of it.
    let down = here.path().join("down");
    let include = [
        &"--exclude",
        &"*",
        &"--include",
        &"*/",
        &"--include",
        &"*.c",
    ];
    let mut arguments: Vec<&dyn AsRef<OsStr>> = vec![&"-r"];
    arguments.extend(include.iter().map(|word| *word as &dyn AsRef<OsStr>));
    arguments.extend([&to as &dyn AsRef<OsStr>, &down]);
    succeeds(&arguments);
    assert_eq!(
        names(down),
        ["a.c", "cache.d", "sub", "sub/deep", "sub/deep/k.c"]
    );
    // What is named is copied.
    succeeds(&[
        &"--exclude",
        &"*.o",
        &from.join("a.o"),
        &server.url("named.o"),
    ]);
    assert!(server.path("named.o").exists());
}

/// How long it takes is not asserted but downwards: a limit that lets more through is none.
#[test]
fn a_limit_holds_a_copy_back() {
    let server = Served::new();
    let here = tempfile::tempdir().unwrap();
    let (up, down) = (here.path().join("up"), here.path().join("down"));
    fs::create_dir(&up).unwrap();
    fs::write(up.join("large"), noise(1, 300_000)).unwrap();
    fs::write(up.join("small"), noise(2, 50_000)).unwrap();
    // The last piece goes without waiting: 64 KiB of 350,000 bytes at most, and one small file.
    let at_least = Duration::from_secs_f64((350_000.0 - 65_536.0 - 50_000.0) / 600_000.0);
    let begun = std::time::Instant::now();
    succeeds(&[&"-a", &"--limit", &"600000", &up, &server.url("there")]);
    assert!(begun.elapsed() >= at_least, "up in {:?}", begun.elapsed());
    let begun = std::time::Instant::now();
    succeeds(&[&"-a", &"--limit=600000", &server.url("there"), &down]);
    assert!(begun.elapsed() >= at_least, "down in {:?}", begun.elapsed());
    assert_same_tree(&up, &down);

    let begun = std::time::Instant::now();
    let got = penstock()
        .args(["get", "--limit", "600000", &server.url("there/large")])
        .output()
        .unwrap();
    assert_eq!(got.stdout, noise(1, 300_000));
    let mut put = penstock()
        .args(["put", "--limit", "600000", &server.url("again")])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    put.stdin.take().unwrap().write_all(&got.stdout).unwrap();
    assert!(put.wait().unwrap().success());
    assert_eq!(fs::read(server.path("again")).unwrap(), got.stdout);
    let at_least = Duration::from_secs_f64(2.0 * (300_000.0 - 65_536.0) / 600_000.0);
    assert!(begun.elapsed() >= at_least, "both in {:?}", begun.elapsed());
}

/// Each says which server and which file it is about.
#[test]
fn errors_name_the_whole_url() {
    let server = Served::new();
    fs::create_dir(server.path("dir")).unwrap();
    let (none, below) = (server.url("none"), server.url("none/x"));
    let said = |url: &str, what: &str| format!("penstock: {url}: {what}");
    fails(&[&none, &"/tmp"], &said(&none, "LOOKUP: no such file"));
    fails(
        &[&"/etc/passwd", &below],
        &said(&server.url("none/"), "LOOKUP: no such file"),
    );
    fails(
        &[&"/etc/passwd", &"nfs://127.0.0.1:1/x"],
        &said("nfs://127.0.0.1:1/x", "cannot connect"),
    );
    let run = |words: &[&str]| {
        let ran = penstock()
            .args(words)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(1), "{words:?}");
        text(&ran.stderr)
    };
    assert!(run(&["get", &none]).starts_with(&said(&none, "LOOKUP: no such file")));
    assert!(run(&["put", &below]).starts_with(&said(&below, "LOOKUP: no such file")));
    let dir = server.url("dir");
    assert!(run(&["put", &dir]).starts_with(&said(&dir, "is a directory")));
    assert!(run(&["get", &dir]).starts_with(&said(&dir, "is a directory")));
    assert!(run(&["get", "nfs://127.0.0.1:1/x"]).starts_with("penstock: nfs://127.0.0.1:1/x: "));
}

#[test]
fn past_the_page_cache_of_this_host() {
    let server = Served::new();
    // Not in memory: a file system on memory may have no direct I/O, and then it is buffered.
    let here = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for len in [0, 1, 4095, 4096, 1_000_000, 3 << 20, (3 << 20) + 77] {
        let (up, down) = (here.path().join("up"), here.path().join("down"));
        fs::write(&up, noise(len as u64, len)).unwrap();
        succeeds(&[&"--local=direct", &"--fsync", &up, &server.url("file")]);
        succeeds(&[&"--local=direct", &"--fsync", &server.url("file"), &down]);
        assert!(
            fs::read(&up).unwrap() == fs::read(&down).unwrap(),
            "{len} bytes"
        );
    }
}

#[test]
fn one_object_per_file_and_a_summary() {
    let server = Served::new();
    let here = tempfile::tempdir().unwrap();
    let tree = here.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("a"), "abc").unwrap();
    fs::write(tree.join(OsStr::from_bytes(b"\xff")), "").unwrap();
    let told = succeeds(&[&"-r", &"--verify", &"--json", &tree, &server.url("")]);
    let lines: Vec<serde_json::Value> = told
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |end: &str| {
        let found = lines.iter().find(|line| {
            line["destination"]
                .as_str()
                .is_some_and(|url| path_of(url).ends_with(end))
        });
        found.unwrap_or_else(|| panic!("no {end} in {told}"))
    };
    assert_eq!(of("/tree")["done"], "directory");
    assert_eq!(of("/tree/%FF")["bytes"], 0);
    assert!(
        of("/tree/%FF")["source_hex"]
            .as_str()
            .unwrap()
            .ends_with("ff")
    );
    // As b3sum prints it.
    let expected = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
    assert_eq!(of("/tree/a")["blake3"], expected);
    let summary = &lines.last().unwrap()["summary"];
    assert_eq!(
        (&summary["files"], &summary["bytes"]),
        (&2.into(), &3.into())
    );
    assert_eq!(
        (&summary["failed"], &summary["interrupted"]),
        (&0.into(), &false.into())
    );
}
