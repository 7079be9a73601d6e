//! `mount -t fuse.penstock` and fstab(5): this program as the helper of mount(8), on real mounts.

mod mounting;
mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use mounting::{Server, eventually, fuse_is_here, root_is_here};
use rustix::process::{Pid, Signal, kill_process};
use support::{penstock, text};

/// The program under the name that mount(8) looks for.
fn helper(server: &Server) -> PathBuf {
    let link = server.scratch().join("mount.fuse.penstock");
    if !link.exists() {
        symlink(env!("CARGO_BIN_EXE_penstock"), &link).unwrap();
    }
    link
}

/// Runs a command whose children go on in the background: its output goes to files, so that nobody waits for them.
fn ran(command: &mut Command, scratch: &Path) -> Output {
    let file = |name: &str| fs::File::create(scratch.join(name)).unwrap();
    let status = command
        .stdin(Stdio::null())
        .stdout(file("out"))
        .stderr(file("errors"))
        .status()
        .unwrap();
    let read = |name: &str| fs::read(scratch.join(name)).unwrap();
    Output {
        status,
        stdout: read("out"),
        stderr: read("errors"),
    }
}

/// Options of the mount on `point`; nothing if there is none.
fn mounted(point: &Path) -> Option<String> {
    let mounts = nfs_io::mounts::mounts().unwrap();
    let found = mounts
        .into_iter()
        .rev()
        .find(|mount| mount.mount_point == point && mount.fs_type == "fuse.penstock");
    found.map(|mount| format!("{} {}", mount.options, mount.super_options))
}

/// Unmounts when the test ends, however it does.
struct Point(PathBuf);

impl Point {
    fn unmount(&self) {
        let done = Command::new("fusermount3")
            .arg("-u")
            .arg(&self.0)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", text(&done.stderr));
        assert_eq!(mounted(&self.0), None);
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        if mounted(&self.0).is_some() {
            let _ = Command::new("fusermount3")
                .args(["-u", "-z", "-q"])
                .arg(&self.0)
                .status();
        }
    }
}

#[test]
fn the_helper_mounts_in_the_background_and_says_nothing() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    fs::write(server.data().join("file"), "content").unwrap();
    let point = Point(server.point());
    let options = "rw,nosuid,noexec,hard,vers=3,nolock,_netdev,nofail,noatime,x-systemd.automount";
    let mount = |options: &str| {
        let mut command = Command::new(helper(&server));
        command
            .arg(server.url())
            .arg(&point.0)
            .args(["-o", options, "-t", "fuse.penstock"]);
        ran(&mut command, server.scratch())
    };
    let done = mount(options);
    let said = (text(&done.stdout), text(&done.stderr));
    assert_eq!((done.status.code(), said), (Some(0), Default::default()));
    assert_eq!(fs::read(point.0.join("file")).unwrap(), b"content");
    fs::write(point.0.join("new"), "from here").unwrap();
    let flags = mounted(&point.0).unwrap();
    assert!(
        flags.contains("noexec") && flags.contains("nosuid"),
        "{flags}"
    );
    // Once more on the same directory: not even if the server says nothing any more.
    let again = mount("ro");
    let told = text(&again.stderr);
    assert_eq!(again.status.code(), Some(1), "{told}");
    assert!(
        told.contains("is mounted here already; unmount it first: fusermount3 -u"),
        "{told}"
    );
    let direct = penstock()
        .args(["mount", &server.url()])
        .arg(&point.0)
        .output()
        .unwrap();
    assert_eq!(direct.status.code(), Some(2), "{}", text(&direct.stderr));
    point.unmount();
    assert_eq!(fs::read(server.data().join("new")).unwrap(), b"from here");
    assert_eq!(mount("ro").status.code(), Some(0));
    assert!(mounted(&point.0).unwrap().starts_with("ro"));
    point.unmount();
}

#[test]
fn what_goes_wrong_has_the_codes_of_mount() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    let point = server.point();
    let url = server.url();
    for (source, options, code, expected) in [
        (url.as_str(), "vers=4.2", 1, "vers=4.2: only NFSv3"),
        (&url, "lock", 1, "write nolock"),
        (&url, "frobnicate", 1, "there is no such option"),
        ("nfs://127.0.0.1:1/", "rw", 32, "is the server running"),
        (&format!("{url}?version=4"), "rw", 32, "only NFSv3"),
        ("http://h/", "rw", 1, "not an NFS URL"),
    ] {
        let mut command = Command::new(helper(&server));
        command.arg(source).arg(&point).args(["-o", options]);
        let done = ran(&mut command, server.scratch());
        let told = text(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{options}: {told}");
        assert!(told.contains(expected), "{options}: {told}");
    }
    // What is not known is left out for who asks for it, and nothing is mounted for who tries only.
    let mut command = Command::new(helper(&server));
    command
        .arg(&url)
        .arg(&point)
        .args(["-sf", "-o", "rw,frobnicate"]);
    let done = ran(&mut command, server.scratch());
    assert_eq!(done.status.code(), Some(0));
    assert!(text(&done.stderr).contains("frobnicate: there is no such option"));
    assert_eq!(mounted(&point), None);
}

#[test]
fn mount_fuse3_starts_it() {
    if !fuse_is_here() || !root_is_here() {
        return;
    }
    if !Path::new("/sbin/mount.fuse3").exists() {
        nfs_lab::skipped("mount.fuse3 is not here (package fuse3)");
        return;
    }
    let server = Server::new();
    fs::write(server.data().join("file"), "content").unwrap();
    let point = Point(server.point());
    let program = Path::new(env!("CARGO_BIN_EXE_penstock")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("/sbin/mount.fuse3");
    command
        .arg(server.url())
        .arg(&point.0)
        .args(["-t", "fuse.penstock", "-o", "ro,noatime,vers=3"])
        .env("PATH", &path);
    let done = ran(&mut command, server.scratch());
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert_eq!(fs::read(point.0.join("file")).unwrap(), b"content");
    point.unmount();
}

/// Set for the run of a test that is in a namespace of its own, where this program is installed.
const INSTALLED: &str = "PENSTOCK_TEST_IS_INSTALLED";

/// Runs the test `name` again, where `/sbin/mount.fuse.penstock` is this program: in a mount namespace of its own, with
/// a layer over the directory. Whether it could be.
fn again_where_it_is_installed(name: &str) -> bool {
    let scratch = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs tmpfs \"$1\" && mkdir \"$1/upper\" \"$1/work\" && mount -t overlay overlay -o \
                  lowerdir=\"$2\",upperdir=\"$1/upper\",workdir=\"$1/work\" \"$2\" && ln -sf \"$3\" \
                  \"$2/mount.fuse.penstock\" || exit 77; exec \"$4\" --exact \"$5\" --nocapture";
    let sbin = fs::canonicalize("/sbin").unwrap();
    let ran = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(scratch.path())
        .arg(sbin)
        .arg(env!("CARGO_BIN_EXE_penstock"))
        .arg(std::env::current_exe().unwrap())
        .arg(name)
        .env(INSTALLED, "1")
        // What went wrong is said on the other stream; one test is one test.
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(
        ran.success() || ran.code() == Some(77),
        "{name}, in a namespace of its own: {ran}"
    );
    ran.success()
}

#[test]
fn mount_and_a_line_of_fstab_find_it() {
    if !fuse_is_here() || !root_is_here() {
        return;
    }
    if std::env::var_os(INSTALLED).is_none() {
        if !again_where_it_is_installed("mount_and_a_line_of_fstab_find_it") {
            nfs_lab::skipped(
                "no layer (overlayfs) over /sbin can be made for mount(8) to find this program",
            );
        }
        return;
    }
    let server = Server::new();
    fs::write(server.data().join("file"), "content").unwrap();
    let point = Point(server.point());
    let mount = |arguments: &[&str]| ran(Command::new("mount").args(arguments), server.scratch());
    let (url, dir) = (server.url(), point.0.to_str().unwrap());
    let done = mount(&["-t", "fuse.penstock", &url, dir, "-o", "ro,noatime,vers=3"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert_eq!(fs::read(point.0.join("file")).unwrap(), b"content");
    point.unmount();
    let done = mount(&["-t", "fuse.penstock", &url, dir, "-o", "vers=4"]);
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    // The line of docs/client.md, with this server and directory.
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/client.md");
    let page = fs::read_to_string(page).unwrap();
    let line = page
        .lines()
        .find(|line| line.contains("  fuse.penstock  "))
        .unwrap();
    let line = line
        .replace("nfs://server/export", &url)
        .replace("/mnt/data", dir);
    let fstab = server.scratch().join("fstab");
    fs::write(&fstab, format!("{line}\n")).unwrap();
    let fstab = fstab.to_str().unwrap();
    for _ in 0..2 {
        // The second time, mount(8) sees that it is there.
        let done = mount(&["-a", "-T", fstab]);
        assert_eq!(
            done.status.code(),
            Some(0),
            "{line}: {}",
            text(&done.stderr)
        );
        assert!(mounted(&point.0).unwrap().contains("allow_other"), "{line}");
    }
    let mounts = nfs_io::mounts::mounts().unwrap();
    let count = mounts
        .iter()
        .filter(|mount| mount.mount_point == point.0)
        .count();
    assert_eq!(count, 1);
    let done = Command::new("umount").arg(dir).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
}

#[test]
fn a_server_that_says_nothing_is_told_while_the_mount_waits() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    let point = Point(server.point());
    server.signal(Signal::STOP);
    let mut command = penstock();
    command
        .args(["mount", "--json", "-o", "hard", &server.url()])
        .arg(&point.0);
    let out = server.scratch().join("told");
    let errors = fs::File::create(&out).unwrap();
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .unwrap();
    eventually("a silent server is told", || {
        let told = fs::read_to_string(&out).unwrap();
        told.contains("does not answer, still trying").then_some(())
    });
    server.signal(Signal::CONT);
    let mut ready = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut ready).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    let expected =
        serde_json::json!({"url": server.url(), "directory": point.0, "done": "mounted"});
    assert_eq!(ready, expected);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // Given up while it waits.
    server.signal(Signal::STOP);
    fs::write(&out, "").unwrap();
    let mut command = penstock();
    command.args(["mount", &server.url()]).arg(&point.0);
    let errors = fs::File::create(&out).unwrap();
    let mut child = command
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .unwrap();
    eventually("a silent server is told", || {
        let told = fs::read_to_string(&out).unwrap();
        told.contains("does not answer, still trying").then_some(())
    });
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    server.signal(Signal::CONT);
}
