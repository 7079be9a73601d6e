//! The commands that go down trees, against a real server.

mod support;

use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use rustix::fs::FileType;
use support::server::{Served, mode, path_of};

/// A tree with a bit of everything, and something outside of it that nothing may touch.
fn tree(server: &Served) {
    std::fs::create_dir_all(server.path("tree/a/b/c")).unwrap();
    std::fs::create_dir_all(server.path("tree/empty")).unwrap();
    std::fs::write(server.path("tree/a/file"), vec![7; 10_000]).unwrap();
    std::fs::write(server.path("tree/a/b/c/Deep.TXT"), b"deep").unwrap();
    std::fs::hard_link(server.path("tree/a/file"), server.path("tree/a/b/again")).unwrap();
    std::fs::create_dir(server.path("outside")).unwrap();
    std::fs::write(server.path("outside/kept"), b"kept").unwrap();
    symlink("../outside", server.path("tree/out")).unwrap();
    symlink("/outside/kept", server.path("tree/a/kept")).unwrap();
    symlink("nowhere", server.path("tree/a/b/dangling")).unwrap();
    let odd = std::ffi::OsString::from_vec(b"odd \xff\n%41".to_vec());
    std::fs::write(server.path("tree").join(odd), b"odd").unwrap();
}

fn outside_is_as_it_was(server: &Served) {
    let kept = server.path("outside/kept");
    assert_eq!(std::fs::read(&kept).unwrap(), b"kept");
    assert_eq!(mode(&kept), 0o644);
    assert_eq!(mode(&server.path("outside")), 0o755);
}

#[test]
fn rm_removes_what_it_is_told_and_no_more() {
    let server = Served::new();
    tree(&server);
    server.fails(&["rm", "@tree"], 1, "is a directory: give -r");
    server.fails(&["rm", "@none"], 1, "no such file");
    server.fails(&["rm", "@tree/a/file/"], 1, "not a directory");
    server.fails(&["rm", "-d", "@tree"], 1, "not empty");
    for root in ["@", "@/", "@tree/..", "@tree/.", "@.."] {
        server.fails(&["rm", "-rf", root], 1, "penstock: nfs://");
    }
    assert!(server.path("tree/a/b/c/Deep.TXT").exists());
    server.lines(&["rm", "-f", "@none"]);
    server.lines(&["rm", "-d", "@tree/empty"]);
    server.lines(&["rm", "@tree/out"]);
    outside_is_as_it_was(&server);
    symlink("../outside", server.path("tree/out")).unwrap();

    let removed = server.json(&["rm", "-r", "--json", "@tree", "@outside/kept"]);
    let tree = removed
        .iter()
        .find(|object| object["url"] == server.url("tree"));
    let counts = ["files", "directories", "failed"].map(|key| tree.unwrap()[key].as_u64());
    assert_eq!(counts, [Some(7), Some(4), Some(0)]);
    assert_eq!(server.lines(&["ls", "@"]), ["outside"]);
    assert_eq!(server.lines(&["ls", "@outside"]), [""; 0]);
}

#[test]
fn rm_follows_no_link_and_goes_on_behind_what_stays() {
    let server = Served::new();
    tree(&server);
    let ran = server.run(&["rm", "-r", "@none", "@tree"]);
    assert_eq!(
        (ran.code(), ran.errors().lines().count()),
        (1, 1),
        "{}",
        ran.errors()
    );
    assert!(!server.path("tree").exists());
    outside_is_as_it_was(&server);
}

#[test]
fn rm_takes_a_wide_directory() {
    let server = Served::new();
    let wide = server.path("wide");
    std::fs::create_dir(&wide).unwrap();
    for number in 0..3000 {
        std::fs::write(wide.join(format!("file-{number:05}")), b"").unwrap();
    }
    for number in 0..100 {
        std::fs::create_dir_all(wide.join(format!("dir-{number}/inner"))).unwrap();
    }
    let removed = server.json(&["rm", "-r", "--json", "@wide"]);
    assert_eq!(
        (&removed[0]["files"], &removed[0]["directories"]),
        (&3000.into(), &201.into())
    );
    assert!(!wide.exists());
}

#[test]
fn chmod_changes_one_and_all() {
    let server = Served::new();
    tree(&server);
    server.lines(&["chmod", "600", "@tree/a/b/c/Deep.TXT"]);
    assert_eq!(mode(&server.path("tree/a/b/c/Deep.TXT")), 0o600);
    server.lines(&["chmod", "-R", "-w", "@tree"]);
    server.lines(&["chmod", "-R", "u+rwX,g=u,o=", "@tree"]);
    assert_eq!(mode(&server.path("tree/a/b/c/Deep.TXT")), 0o660);
    assert_eq!(mode(&server.path("tree/a/b")), 0o770);
    outside_is_as_it_was(&server);
    let changed = server.lines(&["chmod", "-Rv", "a+r", "@tree/a/b"]);
    // The directory and the two in it, a file with two names, and no link.
    assert_eq!(changed.len(), 4, "{changed:?}");
    server.fails(&["chmod", "644", "@tree/a/b/dangling"], 1, "no such file");
    let ran = server.run(&["chmod", "755", "@none", "@tree"]);
    assert_eq!((ran.code(), mode(&server.path("tree"))), (1, 0o755));
    // An operand that is a link is followed.
    server.lines(&["chmod", "700", "@tree/out"]);
    assert_eq!(mode(&server.path("outside")), 0o700);
}

#[test]
fn chown_changes_one_and_all() {
    if !rustix::process::geteuid().is_root() {
        nfs_lab::skipped("only root can give files away");
        return;
    }
    let server = Served::new();
    tree(&server);
    let owner = |name: &str| {
        let about = std::fs::symlink_metadata(server.path(name)).unwrap();
        (about.uid(), about.gid())
    };
    server.lines(&["chown", "1234:5678", "@tree/a/file"]);
    assert_eq!(owner("tree/a/file"), (1234, 5678));
    server.lines(&["chown", ":99", "@tree/a/file"]);
    assert_eq!(owner("tree/a/file"), (1234, 99));
    server.lines(&["chown", "-h", "7", "@tree/out"]);
    assert_eq!((owner("tree/out"), owner("outside")), ((7, 0), (0, 0)));
    server.lines(&["chown", "-R", "8:9", "@tree"]);
    assert_eq!(
        (owner("tree"), owner("tree/a/b/c/Deep.TXT")),
        ((8, 9), (8, 9))
    );
    assert_eq!(
        (owner("tree/a/kept"), owner("outside/kept")),
        ((8, 9), (0, 0))
    );
    server.lines(&["chown", "5", "@tree/out"]);
    assert_eq!(owner("outside"), (5, 0));
}

#[test]
fn du_adds_up() {
    let server = Served::new();
    tree(&server);
    let sums = server.json(&["du", "--json", "--apparent-size", "@tree/a"]);
    let whole = sums
        .iter()
        .find(|sum| sum["url"] == server.url("tree/a"))
        .unwrap();
    let directories: u64 = ["a", "a/b", "a/b/c"]
        .iter()
        .map(|name| {
            std::fs::metadata(server.path("tree").join(name))
                .unwrap()
                .len()
        })
        .sum();
    // The file of two names once, four bytes, and two links by the length of their targets.
    let expected = directories + 10_000 + 4 + 13 + 7;
    assert_eq!(whole["bytes"].as_u64(), Some(expected));
    assert_eq!(whole["files"].as_u64(), Some(3 + 1 + 1 + 2));
    assert_eq!(sums.len(), 3, "one line for each directory");

    assert_eq!(server.lines(&["du", "-s", "@tree", "@outside"]).len(), 2);
    assert_eq!(server.lines(&["du", "-d", "1", "@tree"]).len(), 3);
    assert!(
        server
            .lines(&["du", "-ahc", "@tree"])
            .iter()
            .any(|line| line.ends_with("\ttotal"))
    );
    let file = server.lines(&["du", "--apparent-size", "@tree/a/file"]);
    assert_eq!(file, [format!("10\t{}", server.url("tree/a/file"))]);
    let sparse = std::fs::File::create(server.path("sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    let holes = server.json(&["du", "--json", "@sparse"]);
    assert_eq!(holes[0]["bytes"], 0, "a hole takes space");
    let ran = server.run(&["du", "@none", "@outside"]);
    assert_eq!((ran.code(), ran.output().lines().count()), (1, 1));
}

#[test]
fn find_finds() {
    let server = Served::new();
    tree(&server);
    let found = |tests: &[&str]| {
        let arguments = [&["find", "@tree"], tests].concat();
        let lines = server.lines(&arguments);
        let root = server.url("tree");
        let root = path_of(&root);
        let below = lines
            .iter()
            .map(|line| path_of(line).strip_prefix(root).unwrap().to_owned());
        let mut below = below.collect::<Vec<_>>();
        below.sort();
        below
    };
    assert_eq!(found(&[]).len(), 12);
    assert_eq!(found(&["--name", "*.TXT"]), ["/a/b/c/Deep.TXT"]);
    assert_eq!(found(&["--iname", "deep.*"]), ["/a/b/c/Deep.TXT"]);
    assert_eq!(
        found(&["--path", "*/b/*", "--type", "f"]),
        ["/a/b/again", "/a/b/c/Deep.TXT"]
    );
    assert_eq!(
        found(&["--type", "d,l", "--maxdepth", "1"]),
        ["", "/a", "/empty", "/out"]
    );
    assert_eq!(
        found(&["--type", "d", "--mindepth", "2"]),
        ["/a/b", "/a/b/c"]
    );
    assert_eq!(
        found(&["--size", "+9k", "--type", "f"]),
        ["/a/b/again", "/a/file"]
    );
    assert_eq!(found(&["--size", "4c"]), ["/a/b/c/Deep.TXT"]);
    assert_eq!(found(&["--mtime", "+1"]), [""; 0]);
    assert_eq!(found(&["--mmin", "-60"]).len(), 12);
    assert_eq!(found(&["--uid", "4000000"]), [""; 0]);

    let old = std::fs::File::open(server.path("tree/a/file")).unwrap();
    old.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(found(&["--mtime", "+7"]), ["/a/b/again", "/a/file"]);
    assert_eq!(found(&["--newer", &server.url("tree/a/file")]).len(), 10);
    let local = server.path("tree/a/file");
    assert_eq!(found(&["--newer", local.to_str().unwrap()]).len(), 10);

    // Odd names come as URLs that name them, and lead to them again.
    let odd = found(&["--name", "odd*"]);
    assert_eq!(odd, ["/odd%20%FF%0A%2541"]);
    let object = &server.json(&["find", "--json", "@tree", "--name", "odd*"])[0];
    assert!(object["path_hex"].is_string() && object["size"] == 3);
    server.lines(&["rm", object["url"].as_str().unwrap()]);
    assert_eq!(found(&["--name", "odd*"]), [""; 0]);

    assert_eq!(found(&["--name", "-*"]), [""; 0]);
    assert_eq!(found(&["--empty"]), ["/empty"]);
    assert_eq!(found(&["--empty", "--maxdepth", "1"]), ["/empty"]);
    // A pipe has no length; only of files and directories is it said that they are empty.
    let pipe = server.path("tree/pipe");
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
    assert_eq!(found(&["--type", "p"]), ["/pipe"]);
    assert_eq!(found(&["--empty"]), ["/empty"]);
    std::fs::remove_file(&pipe).unwrap();
    server.lines(&["touch", "@tree/empty/new"]);
    assert_eq!(found(&["--empty"]), ["/empty/new"]);
    server.lines(&["chmod", "4711", "@tree/empty/new"]);
    assert_eq!(found(&["--perm", "4711"]), ["/empty/new"]);
    assert_eq!(found(&["--perm", "-u+s"]), ["/empty/new"]);
    assert_eq!(found(&["--perm", "/7000", "--type", "f"]), ["/empty/new"]);
    server.lines(&["rm", "@tree/empty/new"]);

    let nul = server.run(&["find", "@tree", "--print0", "--type", "l"]);
    assert_eq!(nul.bytes().iter().filter(|byte| **byte == 0).count(), 3);
    let ran = server.run(&["find", "@none", "@outside"]);
    assert_eq!((ran.code(), ran.output().lines().count()), (1, 2));
    server.fails(
        &["find", "@tree", "--newer", &server.url("none")],
        1,
        "no such file",
    );
    server.fails(&["find", "@tree", "--newer", "/none/such"], 1, "/none/such");
}

#[test]
fn find_removes_what_it_found_and_no_more() {
    let server = Served::new();
    tree(&server);
    let all = || server.lines(&["find", "@tree"]).len();
    let before = all();
    // Without a test it would be everything.
    server.fails(&["find", "--delete", "@tree"], 2, "a test");
    server.fails(&["find", "-v", "@tree"], 2, "--delete");
    server.fails(
        &["find", "--delete", "--type", "f", "@tree/a/.."],
        1,
        "ends in . or ..",
    );
    assert_eq!(all(), before);

    let quiet = server.lines(&["find", "--delete", "--name", "Deep.TXT", "@tree"]);
    assert_eq!((quiet.len(), all()), (0, before - 1));
    let told = server.lines(&["find", "--delete", "-v", "--type", "l", "@tree"]);
    assert_eq!((told.len(), all()), (3, before - 4));
    outside_is_as_it_was(&server);
    // What is in a directory that does not go keeps it.
    server.fails(
        &["find", "--delete", "--type", "d", "--name", "b", "@tree"],
        1,
        "not empty",
    );
    // A directory that is empty only now is.
    let told = server.lines(&["find", "--delete", "-v", "--type", "d", "--empty", "@tree"]);
    assert_eq!(told, [server.url("tree/a/b/c"), server.url("tree/empty")]);
    let root = server.lines(&["find", "--delete", "--mindepth", "1", "@tree"]);
    assert_eq!((root.len(), all()), (0, 1));
    server.lines(&["find", "--delete", "--empty", "@tree"]);
    assert!(!server.path("tree").exists());

    // Many in one directory, by many calls at once; it goes when they all have gone.
    std::fs::create_dir(server.path("wide")).unwrap();
    for number in 0..1000 {
        std::fs::write(server.path(&format!("file-{number}")), b"x").unwrap();
        std::fs::write(server.path(&format!("wide/{number}")), b"x").unwrap();
    }
    server.lines(&["find", "@wide", "--delete", "--name", "*"]);
    assert!(!server.path("wide").exists());
    server.lines(&[
        "find", "@", "--delete", "--type", "f,d", "--name", "*", "--path", "/file*",
    ]);
    assert_eq!(server.lines(&["find", "@", "--name", "file*"]), [""; 0]);
    outside_is_as_it_was(&server);

    // The root of the export stays, whatever the tests say.
    server.lines(&["find", "@", "--delete", "--path", "*"]);
    assert_eq!(server.lines(&["find", "@"]), [server.url("")]);
}

#[test]
fn what_cannot_be_read_is_told_and_left_out() {
    if !rustix::process::geteuid().is_root() {
        nfs_lab::skipped("calls as another user need root");
        return;
    }
    let server = Served::new();
    tree(&server);
    let closed = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(server.path("tree/a/b"), closed).unwrap();
    let url = server.url_with("tree", "uid=4000&gid=4000");
    for arguments in [
        &["find", &url][..],
        &["du", "-a", &url],
        &["ls", "-R", &url],
    ] {
        let ran = server.run(arguments);
        assert_eq!(
            (ran.code(), ran.errors().lines().count()),
            (1, 1),
            "{}",
            ran.errors()
        );
        assert!(ran.errors().contains("/tree/a/b"), "{}", ran.errors());
        assert!(
            ran.errors().contains("permission denied"),
            "{}",
            ran.errors()
        );
        assert!(ran.output().contains("kept") && ran.output().contains("empty"));
    }
    // Whoever may not remove anything is told of everything, and nothing is gone.
    let ran = server.run(&["rm", "-r", &url]);
    assert_eq!(ran.code(), 1);
    assert!(ran.errors().lines().count() >= 5, "{}", ran.errors());
    assert!(server.path("tree/a/b/c/Deep.TXT").exists() && server.path("tree/empty").exists());
}
