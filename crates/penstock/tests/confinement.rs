//! What a server's process gives up once it has started, and that what it serves goes on.

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use bytes::Bytes;
use nfs_client::nfs_wire::nfs3::{FileHandle, StableHow};
use nfs_client::{ConnectOptions, Connection, Identity, Nfs3, Target, mount3::Mount3};
use nfs_lab::{FsKind, LoopFs};
use support::{penstock, program_for_all, text};
use tempfile::TempDir;

const NOBODY: u32 = 65534;

/// The capabilities that a server keeps at most, by their numbers in linux/capability.h: CHOWN,
/// DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, SETGID, SETUID, MKNOD.
const KEPT: u64 = 0b1101_1111 | 1 << 27;

/// A server; killed if the test ends before it.
struct Server {
    child: Child,
    state: PathBuf,
    port: u16,
}

impl Server {
    fn start(command: Command, state: &Path, arguments: &[&str]) -> Self {
        Self::try_start(command, state, arguments).unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn try_start(mut command: Command, state: &Path, arguments: &[&str]) -> Result<Self, String> {
        let mut child = command
            .arg("serve")
            .args(arguments)
            .args(["--listen", "127.0.0.1:0", "--no-rpcbind", "--state-dir"])
            .arg(state)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let Some(Ok(listening)) = lines.nth(1) else {
            return Err(text(&child.wait_with_output().unwrap().stderr));
        };
        let port = listening.rsplit(':').next().unwrap().parse().unwrap();
        // Nobody reads on, and what the server logs is little.
        let state = state.to_owned();
        Ok(Self { child, state, port })
    }

    fn ctl(&self, arguments: &[&str]) -> Output {
        let mut command = penstock();
        command.arg("ctl").arg("--state-dir").arg(&self.state);
        command.args(arguments).output().unwrap()
    }

    /// The state of a part of the confinement, and what is said of it.
    fn part(&self, name: &str) -> Option<(String, String)> {
        let status = self.ctl(&["status", "--json"]).stdout;
        let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
        let parts = status["confinement"].as_array().unwrap();
        let part = parts.iter().find(|part| part["part"] == name)?;
        let word = |field: &str| part[field].as_str().unwrap().to_owned();
        Some((word("state"), word("detail")))
    }

    /// A field of /proc/PID/status, for each thread.
    fn threads(&self, field: &str) -> Vec<u64> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let values = tasks.map(|task| {
            let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
        });
        values.collect()
    }

    async fn client(&self) -> (Nfs3, FileHandle) {
        let target = Target::new("127.0.0.1".to_owned(), self.port);
        let connection = Connection::connect(target, ConnectOptions::default());
        let client = Nfs3::new(connection.await.unwrap(), Identity::current());
        let mount = Mount3::new(client.connection().clone(), client.identity().clone());
        let root = mount.mnt(b"/").await.unwrap().unwrap().fhandle;
        (client, root)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap().block_on(future)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn scratch() -> TempDir {
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    scratch
}

#[test]
fn every_thread_of_a_server_has_given_up_what_it_does_not_need() {
    for engine in ["uring", "threads"] {
        let scratch = scratch();
        let data = scratch.path().join("data");
        let arguments = [data.to_str().unwrap(), "--engine", engine];
        let state = scratch.path().join("state");
        let server = match Server::try_start(penstock(), &state, &arguments) {
            Ok(server) => server,
            Err(errors) if errors.contains("io_uring") => {
                nfs_lab::skipped(&errors);
                continue;
            }
            Err(errors) => panic!("{errors}"),
        };
        block_on(async {
            let (client, root) = server.client().await;
            let made = client.mkdir(&root, b"d", &Default::default()).await;
            made.unwrap().unwrap();
        });
        for part in ["capabilities", "no-new-privileges", "system-calls"] {
            let (state, detail) = server.part(part).unwrap();
            assert_eq!(state, "in force", "{part}: {detail}");
        }
        let effective = server.threads("CapEff:");
        assert!(effective.len() > 1, "threads besides the first");
        for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
            let all = server.threads(set);
            assert!(all.iter().all(|held| held & !KEPT == 0), "{set} {all:x?}");
        }
        if is_root() {
            let all = server.threads("CapBnd:");
            assert!(all.iter().all(|held| held & !KEPT == 0), "{all:x?}");
        }
        assert!(server.threads("NoNewPrivs:").iter().all(|&set| set == 1));
        // SECCOMP_MODE_FILTER.
        assert!(server.threads("Seccomp:").iter().all(|&mode| mode == 2));
        let shown = text(&server.ctl(&["status"]).stdout);
        for expected in [
            "confinement: capabilities in force: ",
            "confinement: system-calls in force: ",
            "system_calls_refused",
        ] {
            assert!(shown.contains(expected), "no {expected} in {shown}");
        }
        let refused = shown
            .lines()
            .find(|line| line.contains("system_calls_refused"));
        assert!(refused.unwrap().ends_with(" 0"), "{refused:?}");
    }
}

#[test]
fn a_server_that_is_told_not_to_gives_up_nothing() {
    let scratch = scratch();
    let (data, state) = (scratch.path().join("data"), scratch.path().join("state"));
    let server = Server::start(
        penstock(),
        &state,
        &[data.to_str().unwrap(), "--confine", "off"],
    );
    assert_eq!(server.part("capabilities"), None);
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    let own: u64 = own.unwrap().trim().parse().unwrap();
    assert!(server.threads("Seccomp:").iter().all(|&mode| mode == own));
}

/// After a restart the kernel has files by their handles that it knows no directory of.
#[test]
fn files_of_handles_are_served_within_a_mount_point() {
    if !is_root() {
        return nfs_lab::skipped("mounting needs root");
    }
    let scratch = scratch();
    let (point, state) = (scratch.path().join("mnt"), scratch.path().join("state"));
    let mut volume = match LoopFs::new(FsKind::Ext4, 64, &point) {
        Ok(volume) => volume,
        Err(error) => return nfs_lab::skipped(&format!("{error:#}")),
    };
    fs::create_dir(point.join("dir")).unwrap();
    fs::write(point.join("dir/file"), "as it was").unwrap();
    let serve = || Server::start(penstock(), &state, &[point.to_str().unwrap()]);
    let first = serve();
    let (in_force, detail) = first.part("places").unwrap();
    if in_force != "in force" {
        return nfs_lab::skipped(&detail);
    }
    let (dir, file) = block_on(async {
        let (client, root) = first.client().await;
        let dir = client.lookup(&root, b"dir").await.unwrap().unwrap().object;
        let file = client.lookup(&dir, b"file").await.unwrap().unwrap().object;
        (dir, file)
    });
    drop(first);
    volume.unmount().unwrap();
    volume.mount().unwrap();
    let second = serve();
    block_on(async {
        let (client, root) = second.client().await;
        let read = client.read(&file, 0, 100).await.unwrap().unwrap();
        assert_eq!(&read.data[..], b"as it was");
        let data = Bytes::from_static(b"as it is");
        let written = client.write(&file, 0, StableHow::FileSync, data).await;
        assert_eq!(written.unwrap().unwrap().count, 8);
        client.link(&file, &root, b"linked").await.unwrap().unwrap();
        let renamed = client.rename(&dir, b"file", &root, b"renamed").await;
        renamed.unwrap().unwrap();
        client.remove(&root, b"linked").await.unwrap().unwrap();
        client.rmdir(&root, b"dir").await.unwrap().unwrap();
    });
    drop(second);
    assert_eq!(fs::read(point.join("renamed")).unwrap(), b"as it iss");
}

/// A server of a user without privileges, whose handles are in a table.
fn as_nobody(scratch: &Path) -> Command {
    let mut command = Command::new(program_for_all(scratch));
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn give_to_nobody(path: &Path) {
    if is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

#[test]
fn reloads_stay_in_the_places_that_were_named() {
    let scratch = scratch();
    let base = scratch.path();
    for name in [
        "data",
        "data/a",
        "data/b",
        "state",
        "outside",
        "conf",
        "elsewhere",
    ] {
        fs::create_dir(base.join(name)).unwrap();
        give_to_nobody(&base.join(name));
    }
    let shown = base.display();
    let config = |export: &str| {
        format!(
            "[server]\nconfine_beneath = [\"{shown}/data\"]\nconfine = \"required\"\n\
             [[export]]\npath = \"{shown}/{export}\"\npseudo = \"/\"\n"
        )
    };
    let file = base.join("conf/penstock.toml");
    fs::write(&file, config("data/a")).unwrap();
    let arguments = ["--config", file.to_str().unwrap()];
    let server = match Server::try_start(as_nobody(base), &base.join("state"), &arguments) {
        Ok(server) => server,
        Err(errors) if errors.contains("landlock") => return nfs_lab::skipped(&errors),
        Err(errors) => panic!("{errors}"),
    };
    assert_eq!(server.part("places").unwrap().0, "in force");
    let make = |name: &'static [u8]| {
        block_on(async {
            let (client, root) = server.client().await;
            let made = client.mkdir(&root, name, &Default::default()).await;
            made.unwrap().unwrap();
        });
    };
    make(b"one");
    fs::write(&file, config("data/b")).unwrap();
    let reloaded = server.ctl(&["reload"]);
    assert!(reloaded.status.success(), "{}", text(&reloaded.stderr));
    make(b"two");
    assert!(base.join("data/a/one").is_dir() && base.join("data/b/two").is_dir());

    fs::write(&file, config("outside")).unwrap();
    let refused = server.ctl(&["reload"]);
    assert!(
        text(&refused.stderr).contains("confine_beneath"),
        "{}",
        text(&refused.stderr)
    );
    // The kernel keeps it too: a file that anybody may read, at a place that nobody named.
    fs::write(base.join("elsewhere/penstock.toml"), config("data/a")).unwrap();
    fs::remove_file(&file).unwrap();
    symlink(base.join("elsewhere/penstock.toml"), &file).unwrap();
    let refused = server.ctl(&["reload"]);
    assert!(
        text(&refused.stderr).contains("ermission denied"),
        "{}",
        text(&refused.stderr)
    );
    make(b"three");
}

#[test]
fn a_confinement_that_is_required_and_not_to_be_had_is_no_start() {
    let scratch = scratch();
    let (data, state) = (scratch.path().join("data"), scratch.path().join("state"));
    let file = scratch.path().join("penstock.toml");
    fs::create_dir(&data).unwrap();
    let text = format!(
        "[server]\nconfine = \"required\"\nconfine_beneath = [\"{}/missing\"]\n\
         [[export]]\npath = \"{}\"\n",
        scratch.path().display(),
        data.display()
    );
    fs::write(&file, text).unwrap();
    let started = Server::try_start(penstock(), &state, &["--config", file.to_str().unwrap()]);
    let errors = started.err().expect("no start");
    assert!(errors.contains("confinement is required"), "{errors}");
}
