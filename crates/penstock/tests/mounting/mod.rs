//! A server and mounts of it, as real processes.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod model;

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use nfs_lab::needs::{Need, missing};
use nfs_lab::skipped;

use crate::support::{penstock, text};

/// How long something may take that is over at once on an idle machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Whether FUSE is there, with the program that unmounts for everybody. Says so where it is not: nothing of this file is
/// tested then.
pub(crate) fn fuse_is_here() -> bool {
    let lacking = missing(Need::Fuse, nfs_lab::Engine::Threads);
    if let Some(what) = &lacking {
        skipped(&format!("`penstock mount` is not tested here: {what}"));
    }
    lacking.is_none()
}

/// Whether this is root, whom some mounts take. Says so where it is not.
pub(crate) fn root_is_here() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skipped("not root, so mounts that only root can make are not tested here");
    }
    root
}

/// Where a mount of this user tells its statistics.
pub(crate) fn socket_of(point: &Path) -> PathBuf {
    // Not by stat(2), which would have the kernel keep attributes of the mount.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let fields = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = fields
        .into_iter()
        .find(|fields| Path::new(fields[4]) == point);
    let numbers = mount.unwrap()[2].to_owned();
    let uid = rustix::process::geteuid().as_raw();
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let base = match uid {
        0 => "/run".into(),
        uid => session.unwrap_or_else(|| format!("/run/user/{uid}").into()),
    };
    base.join(format!("penstock/mount-{numbers}.sock"))
}

/// Whether others than root may open the device.
pub(crate) fn everybody_may_use_fuse() -> bool {
    let mode = std::fs::metadata("/dev/fuse").unwrap().permissions().mode();
    mode & 0o006 == 0o006
}

/// Runs the test `name` again, where everybody may open the device: in a mount namespace of its own, with
/// a node like the one that udev makes in front of the machine's.
pub(crate) fn again_where_everybody_may(name: &str) {
    let scratch = TempDir::new().unwrap();
    let rdev = std::fs::metadata("/dev/fuse").unwrap().rdev();
    let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
    let script = format!(
        "mknod -m 666 \"$1\" c {major} {minor} && mount --bind \"$1\" /dev/fuse && exec \"$2\" --exact \"$3\" --nocapture"
    );
    let ran = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script, "sh"])
        .arg(scratch.path().join("fuse"))
        .arg(std::env::current_exe().unwrap())
        .arg(name)
        // What went wrong is said on the other stream; one test is one test.
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(ran.success(), "{name}, in a namespace of its own: {ran}");
}

/// An address on loopback that no other process uses: while the server is away, nobody is given its port.
fn own_address() -> String {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    format!("127.{}.{low}.1:0", 1 + high % 128)
}

/// A server of a directory of its own; killed if the test ends before it.
pub(crate) struct Server {
    child: Option<Child>,
    scratch: TempDir,
    address: String,
}

impl Server {
    pub(crate) fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("data")).unwrap();
        let mut server = Self {
            child: None,
            scratch,
            address: own_address(),
        };
        server.start();
        server
    }

    /// Starts it, again where it was before.
    pub(crate) fn start(&mut self) {
        let log = self.scratch.path().join("serve.log");
        let mut child = penstock()
            .arg("serve")
            .arg(self.data())
            .arg("--state-dir")
            .arg(self.scratch.path().join("state"))
            .args(["--listen", &self.address])
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        out.read_line(&mut ready).unwrap();
        out.read_line(&mut ready).unwrap();
        let Some(address) = ready.strip_prefix("ready\nlistening ") else {
            let said = std::fs::read_to_string(&log).unwrap();
            panic!("the server said {ready:?} and {said}");
        };
        self.address = address.trim_end().to_owned();
        self.child = Some(child);
    }

    /// Ends the mounting process as a crash does, with SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Sends the server's process a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().unwrap();
        rustix::process::kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// The directory on this machine that the server serves.
    pub(crate) fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    pub(crate) fn url(&self) -> String {
        format!("nfs://{}/", self.address)
    }

    /// A new directory beside the one that is served.
    pub(crate) fn point(&self) -> PathBuf {
        let point = tempfile::Builder::new()
            .prefix("mnt")
            .tempdir_in(self.scratch.path());
        point.unwrap().keep().canonicalize().unwrap()
    }

    pub(crate) fn mount(&self, arguments: &[&str]) -> Mounted {
        Mounted::start(penstock(), arguments, &self.url(), self.point())
    }

    /// Lets everybody reach the directories in it.
    pub(crate) fn open_to_all(&self) {
        use std::os::unix::fs::PermissionsExt as _;
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.scratch.path(), all).unwrap();
    }

    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A mount; unmounted if the test ends before it.
pub(crate) struct Mounted {
    child: Child,
    point: PathBuf,
}

impl Mounted {
    pub(crate) fn start(
        mut penstock: Command,
        arguments: &[&str],
        url: &str,
        point: PathBuf,
    ) -> Self {
        let mut child = penstock
            .arg("mount")
            .args(arguments)
            .arg(url)
            .arg(&point)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut ready).unwrap();
        assert_eq!(
            ready,
            format!("mounted {url} on {}\n", point.display()),
            "{}",
            errors_if_ended(&mut child, &ready)
        );
        Self { child, point }
    }

    /// The path of `name` below the mount point.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }

    pub(crate) fn point(&self) -> &Path {
        &self.point
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The next line of standard error.
    pub(crate) fn error_line(&mut self) -> String {
        let mut line = String::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        let mut byte = [0];
        while stderr.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(char::from(byte[0]));
        }
        line
    }

    /// Ends it by a signal; exit code and what is left of standard error.
    pub(crate) fn interrupt(self) -> (Option<i32>, String) {
        self.signal(Signal::INT);
        self.end()
    }

    /// Waits for its end; exit code and what is left of standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let said = errors(&mut self.child);
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_some() {
            return;
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = Command::new("fusermount3")
            .args(["-u", "-z", "-q"])
            .arg(&self.point)
            .status();
    }
}

fn errors(child: &mut Child) -> String {
    let mut said = Vec::new();
    let stderr = child.stderr.as_mut().unwrap();
    stderr.read_to_end(&mut said).unwrap();
    text(&said)
}

fn errors_if_ended(child: &mut Child, ready: &str) -> String {
    if ready.is_empty() {
        errors(child)
    } else {
        String::new()
    }
}

/// Waits until `done` brings something: for what another process does in its own time.
pub(crate) fn eventually<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    while Instant::now() < end {
        if let Some(done) = done() {
            return done;
        }
        std::thread::yield_now();
    }
    panic!("{what}: not within {DEADLINE:?}");
}
