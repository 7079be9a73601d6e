//! `penstock mount` over `penstock serve`: what programs see, do and are told, compared with the
//! directory underneath.

mod mounting;
mod support;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use mounting::model::Model;
use mounting::{Server, fuse_is_here, root_is_here, socket_of};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;
use support::program_for_all;

/// Type, mode, links, owner, size and times: what `stat` shows of a file.
fn shown(path: &Path) -> (u32, u64, u32, u32, u64, [i64; 6], u64) {
    let a = fs::symlink_metadata(path).unwrap();
    // A directory's size is the server's file system's affair, but it is the same one.
    let times = [
        a.atime(),
        a.atime_nsec(),
        a.mtime(),
        a.mtime_nsec(),
        a.ctime(),
        a.ctime_nsec(),
    ];
    (
        a.mode(),
        a.nlink(),
        a.uid(),
        a.gid(),
        a.size(),
        times,
        a.ino(),
    )
}

fn number(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap()
}

/// What is below a directory: names, and the kind of each.
fn tree(path: &Path) -> BTreeMap<Vec<u8>, (char, u64)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        let letter = match () {
            () if kind.is_dir() => 'd',
            () if kind.is_symlink() => 'l',
            () if kind.is_fifo() => 'p',
            () if kind.is_socket() => 's',
            () => '-',
        };
        let number = std::os::unix::fs::DirEntryExt::ino(&entry);
        let before = all.insert(entry.file_name().as_bytes().to_vec(), (letter, number));
        assert_eq!(before, None, "listed twice");
    }
    all
}

#[test]
fn operations_do_what_they_do_on_the_directory_underneath() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    let mount = server.mount(&["-o", "attr_timeout=0"]);
    let (here, there) = (
        |name: &str| mount.at(name),
        |name: &str| server.data().join(name),
    );
    let same = |name: &str| assert_eq!(shown(&here(name)), shown(&there(name)), "{name}");

    fs::write(here("file"), b"some bytes").unwrap();
    assert_eq!(fs::read(there("file")).unwrap(), b"some bytes");
    same("file");
    for mode in [0o600, 0o755, 0o4711, 0o2750, 0o1777, 0o000] {
        fs::set_permissions(here("file"), Permissions::from_mode(mode)).unwrap();
        assert_eq!(fs::metadata(there("file")).unwrap().mode() & 0o7777, mode);
        same("file");
    }
    fs::set_permissions(here("file"), Permissions::from_mode(0o644)).unwrap();

    let at = |seconds, nanos| Timespec {
        tv_sec: seconds,
        tv_nsec: nanos,
    };
    let omit = at(0, rustix::fs::UTIME_OMIT);
    for (access, modify) in [
        (at(1, 2), at(3, 4)),
        (omit, at(2_000_000_000, 999_999_999)),
        (at(1_700_000_000, 123_456_789), omit),
        (at(0, rustix::fs::UTIME_NOW), omit),
    ] {
        let times = Timestamps {
            last_access: access,
            last_modification: modify,
        };
        rustix::fs::utimensat(CWD, here("file"), &times, AtFlags::empty()).unwrap();
        same("file");
    }
    assert_eq!(fs::metadata(there("file")).unwrap().mtime(), 2_000_000_000);

    let file = OpenOptions::new().write(true).open(here("file")).unwrap();
    for len in [4, 0, 5_000_000_000, 3] {
        file.set_len(len).unwrap();
        assert_eq!(fs::metadata(there("file")).unwrap().len(), len);
        same("file");
    }
    drop(file);

    fs::create_dir(here("dir")).unwrap();
    fs::hard_link(here("file"), here("dir/other")).unwrap();
    same("file");
    same("dir/other");
    assert_eq!(fs::metadata(here("file")).unwrap().nlink(), 2);
    symlink("anything\u{fe}/../else", here("link")).unwrap();
    assert_eq!(
        fs::read_link(here("link")).unwrap(),
        fs::read_link(there("link")).unwrap()
    );
    same("link");
    rustix::fs::mknodat(CWD, here("fifo"), FileType::Fifo, Mode::from(0o640), 0).unwrap();
    assert!(fs::metadata(there("fifo")).unwrap().file_type().is_fifo());
    same("fifo");
    rustix::fs::mknodat(CWD, here("socket"), FileType::Socket, Mode::from(0o600), 0).unwrap();
    assert!(
        fs::metadata(there("socket"))
            .unwrap()
            .file_type()
            .is_socket()
    );
    assert_eq!(tree(mount.point()), tree(&server.data()));
    // The root's own number, which FUSE calls 1.
    assert_eq!(shown(mount.point()).6, shown(&server.data()).6);

    fs::rename(here("file"), here("dir/renamed")).unwrap();
    fs::write(here("victim"), b"gone soon").unwrap();
    fs::rename(here("dir/renamed"), here("victim")).unwrap();
    same("victim");
    assert_eq!(fs::metadata(here("victim")).unwrap().len(), 3);
    // NFSv3 has no such renames; the kernel answers where the name is taken.
    for (flags, to) in [
        (RenameFlags::NOREPLACE, "free"),
        (RenameFlags::EXCHANGE, "link"),
    ] {
        let refused = rustix::fs::renameat_with(CWD, here("victim"), CWD, here(to), flags);
        assert_eq!(refused, Err(Errno::INVAL));
    }

    assert_eq!(
        number(fs::remove_dir(here("dir")).unwrap_err()),
        Errno::NOTEMPTY
    );
    assert_eq!(
        number(fs::remove_file(here("none")).unwrap_err()),
        Errno::NOENT
    );
    assert_eq!(
        number(fs::create_dir(here("dir")).unwrap_err()),
        Errno::EXIST
    );
    assert_eq!(
        number(fs::read_dir(here("victim")).unwrap_err()),
        Errno::NOTDIR
    );
    assert_eq!(
        number(fs::remove_dir(here("victim")).unwrap_err()),
        Errno::NOTDIR
    );
    assert_eq!(
        number(File::create(here("x".repeat(256).as_str())).unwrap_err()),
        Errno::NAMETOOLONG
    );
    fs::remove_file(here("dir/other")).unwrap();
    fs::remove_dir(here("dir")).unwrap();
    for name in ["victim", "link", "fifo", "socket"] {
        fs::remove_file(here(name)).unwrap();
    }
    assert!(tree(&server.data()).is_empty());
    let (code, said) = mount.interrupt();
    assert_eq!((code, said.as_str()), (Some(0), ""));
}

#[test]
fn files_are_opened_as_asked() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    for cached in [&[][..], &["--cached"]] {
        let mount = server.mount(cached);
        let path = mount.at("file");
        let below = server.data().join("file");
        let new = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o640)
            .open(&path);
        new.unwrap().write_all(b"0123456789").unwrap();
        assert_eq!(fs::metadata(&below).unwrap().mode() & 0o7777, 0o640);
        let again = OpenOptions::new().write(true).create_new(true).open(&path);
        assert_eq!(number(again.unwrap_err()), Errno::EXIST);

        let mut end = OpenOptions::new()
            .append(true)
            .read(true)
            .open(&path)
            .unwrap();
        end.write_all(b"abc").unwrap();
        end.write_all(b"def").unwrap();
        assert_eq!(end.stream_position().unwrap(), 16);
        assert_eq!(end.seek(SeekFrom::End(-4)).unwrap(), 12);
        let mut tail = String::new();
        end.read_to_string(&mut tail).unwrap();
        assert_eq!(tail, "cdef");
        drop(end);
        assert_eq!(fs::read(&below).unwrap(), b"0123456789abcdef");

        let direct = OFlags::DIRECT.bits().cast_signed();
        let both = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(direct)
            .open(&path);
        both.unwrap().write_all_at(&[7; 4096], 4096).unwrap();
        assert_eq!(fs::metadata(&below).unwrap().len(), 8192);

        let sync = OFlags::DSYNC.bits().cast_signed();
        let synced = OpenOptions::new()
            .write(true)
            .custom_flags(sync)
            .open(&path)
            .unwrap();
        synced.write_all_at(b"now", 0).unwrap();
        assert_eq!(&fs::read(&below).unwrap()[..4], b"now3");
        drop(synced);

        OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        assert_eq!(fs::metadata(&below).unwrap().len(), 0);
        fs::remove_file(&path).unwrap();
        assert_eq!(mount.interrupt().0, Some(0));
    }
}

#[test]
fn names_are_any_bytes() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    let mount = server.mount(&[]);
    let long = vec![b'n'; 255];
    let names: [&[u8]; 9] = [
        b" ",
        b"...",
        b".hidden",
        b"new\nline",
        b"\xff\xfe not utf-8",
        "gr\u{fc}n".as_bytes(),
        b"\\back\"quote'",
        b"-rf *",
        &long,
    ];
    for name in names {
        let name = OsStr::from_bytes(name);
        fs::write(mount.point().join(name), name.as_bytes()).unwrap();
        assert_eq!(fs::read(server.data().join(name)).unwrap(), name.as_bytes());
    }
    assert_eq!(tree(mount.point()), tree(&server.data()));
    for name in names {
        fs::remove_file(mount.point().join(OsStr::from_bytes(name))).unwrap();
    }
    assert!(tree(&server.data()).is_empty());
}

#[test]
fn a_large_directory_is_listed_once_and_from_any_place() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    for number in 0..1000 {
        fs::write(
            server
                .data()
                .join(format!("a name of some length {number}")),
            b"",
        )
        .unwrap();
    }
    let mount = server.mount(&[]);
    assert_eq!(tree(mount.point()), tree(&server.data()));
    let dir = File::open(mount.point()).unwrap();
    let mut dir = rustix::fs::Dir::new(dir).unwrap();
    let names: Vec<_> = dir
        .by_ref()
        .map(|entry| entry.unwrap().file_name().to_owned())
        .collect();
    assert_eq!(names.len(), 1002);
    dir.rewind();
    assert_eq!(
        dir.next().unwrap().unwrap().file_name(),
        names[0].as_c_str()
    );
    // Removed while it is listed: each name is met.
    for name in names
        .iter()
        .filter(|name| name.as_bytes().starts_with(b"a"))
    {
        fs::remove_file(mount.point().join(OsStr::from_bytes(name.as_bytes()))).unwrap();
    }
    assert!(tree(mount.point()).is_empty());
}

#[test]
fn a_file_that_is_open_outlives_its_name() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    let mount = server.mount(&["-o", "attr_timeout=0"]);
    let hidden = || {
        tree(&server.data())
            .into_keys()
            .filter(|n| n.starts_with(b".nfs"))
            .count()
    };
    let open = |name: &str| {
        fs::write(mount.at(name), b"content").unwrap();
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(mount.at(name))
            .unwrap()
    };

    let removed = open("removed");
    fs::remove_file(mount.at("removed")).unwrap();
    assert_eq!(
        number(fs::metadata(mount.at("removed")).unwrap_err()),
        Errno::NOENT
    );
    assert_eq!((removed.metadata().unwrap().nlink(), hidden()), (0, 1));
    removed.write_all_at(b"more", 7).unwrap();
    let mut all = [0; 11];
    removed.read_exact_at(&mut all, 0).unwrap();
    assert_eq!(&all, b"contentmore");
    let name = tree(mount.point()).into_keys().next().unwrap();
    let refused = fs::remove_file(mount.point().join(OsStr::from_bytes(&name)));
    assert_eq!(number(refused.unwrap_err()), Errno::BUSY);

    let replaced = open("replaced");
    fs::write(mount.at("new"), b"new content").unwrap();
    fs::rename(mount.at("new"), mount.at("replaced")).unwrap();
    assert_eq!(fs::read(mount.at("replaced")).unwrap(), b"new content");
    replaced.read_exact_at(&mut all[..7], 0).unwrap();
    assert_eq!((&all[..7], hidden()), (&b"content"[..], 2));

    // Another name is left: nothing has to be hidden.
    let linked = open("linked");
    fs::hard_link(mount.at("linked"), mount.at("second")).unwrap();
    fs::remove_file(mount.at("linked")).unwrap();
    assert_eq!((linked.metadata().unwrap().nlink(), hidden()), (1, 2));

    drop((removed, replaced));
    mounting::eventually("the hidden names go with the last close", || {
        (hidden() == 0).then_some(())
    });
    // Nor are they left behind by a mount that ends while files are open.
    fs::remove_file(mount.at("second")).unwrap();
    assert_eq!(hidden(), 1);
    mount.signal(rustix::process::Signal::INT);
    let mut mount = mount;
    assert!(mount.error_line().contains("programs still use it"));
    drop(linked);
    assert_eq!(mount.end().0, Some(0));
    assert_eq!(hidden(), 0);
}

/// Steps of one random run: seconds, not minutes.
const STEPS: u32 = 400;

#[test]
fn random_reads_and_writes_match_a_model() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    for (seed, arguments) in [
        (1, &[][..]),
        (2, &["--cached"]),
        (3, &["-o", "nconnect=4"]),
        (5, &["-o", "hint=sequential"]),
        (6, &["-o", "hint=willneed"]),
    ] {
        let mount = server.mount(arguments);
        let mut model = Model::new(&[&mount.at("file")], seed);
        (0..STEPS).for_each(|_| model.step());
        model.compare();
        drop(model);
        assert_eq!(mount.interrupt(), (Some(0), String::new()));
    }
}

#[test]
fn two_mounts_see_what_the_other_has_closed() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    let direct = server.mount(&[]);
    let cached = server.mount(&["--cached"]);
    let other = server.mount(&["--cached"]);
    let paths = [direct.at("file"), cached.at("file"), other.at("file")];
    let paths: Vec<&Path> = paths.iter().map(|path| path.as_path()).collect();
    let mut model = Model::new(&paths, 4);
    (0..STEPS).for_each(|_| model.step());
    model.compare();
}

#[test]
fn a_server_that_stays_away_is_an_error_not_a_wait_for_ever() {
    if !fuse_is_here() {
        return;
    }
    let mut server = Server::new();
    let mount = server.mount(&["-o", "timeout=5,attr_timeout=0,entry_timeout=0"]);
    let file = File::create(mount.at("file")).unwrap();
    server.kill();
    assert_eq!(
        number(fs::metadata(mount.at("file")).unwrap_err()),
        Errno::TIMEDOUT
    );
    file.write_all_at(b"lost", 0).map_or_else(
        |error| assert_eq!(number(error), Errno::TIMEDOUT),
        // Accepted, but not claimed to be safe.
        |()| assert_eq!(number(file.sync_all().unwrap_err()), Errno::TIMEDOUT),
    );
    // What is not safe is told again at the end.
    mount.signal(rustix::process::Signal::INT);
    drop(file);
    let (code, said) = mount.end();
    assert!(
        code == Some(0) || said.contains("not all that was written is safe"),
        "{said}"
    );
}

#[test]
fn programs_that_use_it_are_not_cut_off() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    let mut mount = server.mount(&[]);
    let mut file = File::create(mount.at("file")).unwrap();
    file.write_all(b"before").unwrap();
    mount.signal(rustix::process::Signal::TERM);
    let said = mount.error_line();
    assert!(said.contains("programs still use it"), "{said}");
    mounting::eventually("it is taken off the tree", || {
        tree(mount.point()).is_empty().then_some(())
    });
    file.write_all(b" and after").unwrap();
    drop(file);
    assert_eq!(mount.end(), (Some(0), String::new()));
    assert_eq!(
        fs::read(server.data().join("file")).unwrap(),
        b"before and after"
    );
}

#[test]
fn a_copy_in_another_namespace_is_told_and_ends_with_the_second_signal() {
    if !fuse_is_here() || !root_is_here() {
        return;
    }
    let server = Server::new();
    let mut mount = server.mount(&[]);
    let mut elsewhere = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg("echo made; cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut made = [0; 5];
    let output = elsewhere.stdout.as_mut().unwrap();
    output.read_exact(&mut made).unwrap();
    mount.signal(rustix::process::Signal::TERM);
    let said = mount.error_line();
    assert!(said.contains("another mount namespace"), "{said}");
    let (code, said) = mount.interrupt();
    assert_eq!(code, Some(1));
    assert!(said.contains("ended at once"), "{said}");
    drop(elsewhere.stdin.take());
    assert!(elsewhere.wait().unwrap().success());
}

#[test]
fn a_second_signal_ends_it_at_once() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    let mut mount = server.mount(&[]);
    let socket = socket_of(mount.point());
    assert!(socket.exists(), "{}", socket.display());
    let file = File::create(mount.at("file")).unwrap();
    mount.signal(rustix::process::Signal::TERM);
    assert!(mount.error_line().contains("a second signal"));
    let (code, said) = mount.interrupt();
    assert_eq!(code, Some(1));
    assert!(said.contains("ended at once"), "{said}");
    assert!(!socket.exists(), "{} is left", socket.display());
    assert_eq!(number(file.metadata().unwrap_err()), Errno::NOTCONN);
}

#[test]
fn a_second_signal_leaves_no_dead_mount() {
    if !fuse_is_here() {
        return;
    }
    for cached in ["attr_timeout=1", "cached"] {
        let mut server = Server::new();
        let mount = server.mount(&["-o", cached]);
        let point = mount.point().to_owned();
        let mut file = File::create(mount.at("file")).unwrap();
        server.kill();
        file.write_all(b"for a server that is away").unwrap();
        // The first waits for the server.
        mount.signal(rustix::process::Signal::INT);
        mount.signal(rustix::process::Signal::TERM);
        let (code, said) = mount.end();
        assert_eq!(code, Some(1), "{cached}: {said}");
        assert!(said.contains("ended at once"), "{cached}: {said}");
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let point = point.to_str().unwrap();
        assert!(!mounts.contains(point), "{cached}: {mounts}");
    }
}

/// Runs a shell as another user; what it said and whether it succeeded.
fn as_user(groups: &str, script: &str, at: &Path) -> (bool, String) {
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", groups, "sh", "-c", script])
        .env("LC_ALL", "C")
        .env("AT", at)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), support::text(&said))
}

const NO_GROUPS: &str = "--clear-groups";

#[test]
fn each_user_is_who_the_server_takes_them_for() {
    if !fuse_is_here() || !root_is_here() {
        return;
    }
    let server = Server::new();
    server.open_to_all();
    fs::set_permissions(server.data(), Permissions::from_mode(0o777)).unwrap();
    for options in ["allow_other", "allow_other,no_default_permissions"] {
        let mount = server.mount(&["-o", options]);
        let below = |name: &str| server.data().join(name);
        let (done, said) = as_user(NO_GROUPS, "echo mine > $AT/theirs", mount.point());
        assert!(done, "{said}");
        let owner = fs::metadata(below("theirs")).unwrap();
        assert_eq!((owner.uid(), owner.gid()), (65534, 65534));

        fs::write(mount.at("secret"), b"secret").unwrap();
        fs::set_permissions(mount.at("secret"), Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::chown(mount.at("secret"), None, Some(2000)).unwrap();
        let read = "cat $AT/secret";
        let (done, said) = as_user(NO_GROUPS, read, mount.point());
        assert!(!done && said.contains("Permission denied"), "{said}");
        assert_eq!(
            as_user("--groups=2000", read, mount.point()),
            (true, "secret".to_owned())
        );

        // One file for all who have it open, whoever they are.
        let mut file = File::create(mount.at("shared")).unwrap();
        fs::set_permissions(mount.at("shared"), Permissions::from_mode(0o666)).unwrap();
        file.write_all(b"not closed yet").unwrap();
        let said = as_user(NO_GROUPS, "cat $AT/shared", mount.point());
        assert_eq!(said, (true, "not closed yet".to_owned()));
        let (done, said) = as_user(NO_GROUPS, "echo short > $AT/shared", mount.point());
        assert!(done, "{said}");
        let mut all = [0; 20];
        let mut again = OpenOptions::new()
            .read(true)
            .open(mount.at("shared"))
            .unwrap();
        assert_eq!(again.read(&mut all).unwrap(), 6);
        assert_eq!(file.metadata().unwrap().len(), 6);
        drop((file, again));
        assert_eq!(mount.interrupt(), (Some(0), String::new()));
        for name in ["theirs", "secret", "shared"] {
            fs::remove_file(below(name)).unwrap();
        }
    }
}

#[test]
fn anybody_can_mount_for_themselves() {
    if !fuse_is_here() || !root_is_here() {
        return;
    }
    if !mounting::everybody_may_use_fuse() {
        mounting::again_where_everybody_may("anybody_can_mount_for_themselves");
        return;
    }
    let server = Server::new();
    server.open_to_all();
    fs::set_permissions(server.data(), Permissions::from_mode(0o777)).unwrap();
    let program = program_for_all(server.scratch());
    let point = server.point();
    std::os::unix::fs::chown(&point, Some(65534), Some(65534)).unwrap();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", NO_GROUPS])
        .arg(&program);
    let mount = mounting::Mounted::start(command, &[], &server.url(), point);
    let (done, said) = as_user(
        NO_GROUPS,
        "echo mine > $AT/file && cat $AT/file",
        mount.point(),
    );
    assert_eq!((done, said.as_str()), (true, "mine\n"));
    assert_eq!(
        fs::metadata(server.data().join("file")).unwrap().uid(),
        65534
    );
    // Nobody else can use it, not even root.
    assert_eq!(
        number(fs::metadata(mount.at("file")).unwrap_err()),
        Errno::ACCESS
    );
    let (done, said) = as_user(NO_GROUPS, "fusermount3 -u $AT", mount.point());
    assert!(done, "{said}");
    assert_eq!(mount.end(), (Some(0), String::new()));
}

#[test]
fn a_mount_in_the_background_outlives_the_command() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    let point = server.point();
    let log = server.scratch().join("mount.log");
    // Its pipes are at their end when the command is: the background holds none of them.
    let output = support::penstock()
        .args(["mount", "--background", "--log"])
        .arg(&log)
        .arg(server.url())
        .arg(&point)
        .output()
        .unwrap();
    let said = support::text(&output.stdout);
    assert_eq!(
        said,
        format!("mounted {} on {}\n", server.url(), point.display())
    );
    fs::write(point.join("file"), b"content").unwrap();
    assert_eq!(fs::read(server.data().join("file")).unwrap(), b"content");
    let unmount = Command::new("fusermount3").arg("-u").arg(&point).status();
    assert!(unmount.unwrap().success());
    assert_eq!(fs::read_to_string(&log).unwrap(), "");
}

#[test]
fn what_cannot_be_mounted_is_told() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    fs::write(server.data().join("file"), b"").unwrap();
    let point = server.point().to_str().unwrap().to_owned();
    let file = format!("{}file", server.url());
    let none = format!("{}none", server.url());
    let missing = format!("{point}/missing");
    for (arguments, code, expected) in [
        (
            ["-o", "rw", server.url().as_str(), missing.as_str()],
            2,
            "No such file or directory",
        ),
        (
            ["-o", "rw", file.as_str(), point.as_str()],
            2,
            "only a directory can be mounted",
        ),
        (
            ["-o", "rw", none.as_str(), point.as_str()],
            1,
            "no such file or directory",
        ),
        (
            ["-o", "nosuch", none.as_str(), point.as_str()],
            2,
            "there is no such option",
        ),
    ] {
        let output = support::penstock()
            .arg("mount")
            .args(arguments)
            .output()
            .unwrap();
        let said = support::text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(expected), "no {expected:?} in {said}");
    }
    // A mount whose process was killed, and the way out of it.
    let mount = server.mount(&[]);
    mount.signal(rustix::process::Signal::KILL);
    let place = mount.point().to_str().unwrap().to_owned();
    mounting::eventually("its files are gone", || fs::metadata(&place).err());
    let output = support::penstock()
        .args(["mount", &server.url(), &place])
        .output()
        .unwrap();
    let said = support::text(&output.stderr);
    assert!(said.contains(&format!("fusermount3 -u {place}")), "{said}");
    let unmount = Command::new("fusermount3").args(["-u", &place]).status();
    assert!(unmount.unwrap().success());
}

/// The writer is a process of its own: one that has a file of the mount open waits, when it starts another
/// program, for the mount to take what it has written (its copies of the descriptors are closed), and so
/// would never start the server again.
#[test]
fn a_server_that_crashes_and_comes_back_loses_nothing() {
    if !fuse_is_here() {
        return;
    }
    let mut server = Server::new();
    let mount = server.mount(&["-o", "attr_timeout=0"]);
    let mut writer = Command::new("dd")
        .args(["bs=300000", "iflag=fullblock", "conv=fsync", "status=none"])
        .arg(format!("of={}", mount.at("file").display()))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = writer.stdin.take().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let feeder = std::thread::spawn(move || {
        for part in 0..200_u8 {
            pipe.write_all(&vec![part; 300_000]).unwrap();
            tell.send(part).unwrap();
        }
    });
    for stop in [20, 90, 150] {
        while told.recv().unwrap() < stop {}
        server.kill();
        server.start();
    }
    feeder.join().unwrap();
    assert!(writer.wait().unwrap().success());
    let all = fs::read(server.data().join("file")).unwrap();
    assert_eq!(all.len(), 200 * 300_000);
    for (part, data) in all.chunks(300_000).enumerate() {
        assert!(
            data.iter().all(|byte| usize::from(*byte) == part),
            "part {part}"
        );
    }
    assert_eq!(mount.interrupt().0, Some(0));
}
