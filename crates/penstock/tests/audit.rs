//! The audit of a real server, which has confined itself, as it is followed, kept and read.

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use nfs_client::nfs_wire::nfs3::FileHandle;
use nfs_client::{ConnectOptions, Connection, Identity, Nfs3, Target, mount3::Mount3};
use nfs_lab::Mounted;
use serde_json::Value;
use support::{penstock, run, text};

/// A child that is killed if the test ends before it.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail for one that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server of one directory, whose changes are audited.
struct Server {
    process: Running,
    state: PathBuf,
    port: u16,
}

impl Server {
    /// `settings` are further lines of the `[server]` section. `program` runs the server: `penstock`, or
    /// what ends in running it.
    fn start(base: &Path, mut program: Command, settings: &str) -> Self {
        let (data, state) = (base.join("data"), base.join("state"));
        fs::create_dir_all(&data).unwrap();
        let file = base.join("penstock.toml");
        let config = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\nrpcbind = false\n{settings}\n\
             [[export]]\npath = {data:?}\npseudo = \"/\"\nsquash = \"none\"\naudit = \"changes\"\n"
        );
        fs::write(&file, config).unwrap();
        program.arg("serve").arg("--config").arg(&file);
        program.arg("--state-dir").arg(&state);
        let mut process = Running::start(&mut program);
        let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
        let Some(Ok(listening)) = lines.nth(1) else {
            let mut errors = String::new();
            let stderr = process.0.stderr.as_mut().unwrap();
            stderr.read_to_string(&mut errors).unwrap();
            panic!("no start: {errors}");
        };
        let port = listening.rsplit(':').next().unwrap().parse().unwrap();
        Self {
            process,
            state,
            port,
        }
    }

    async fn client(&self) -> (Nfs3, FileHandle) {
        let target = Target::new("127.0.0.1".to_owned(), self.port);
        let connection = Connection::connect(target, ConnectOptions::default());
        let client = Nfs3::new(connection.await.unwrap(), Identity::current());
        let mount = Mount3::new(client.connection().clone(), client.identity().clone());
        let root = mount.mnt(b"/").await.unwrap().unwrap().fhandle;
        (client, root)
    }

    fn counter(&self, name: &str) -> u64 {
        let mut command = penstock();
        command.arg("ctl").arg("--state-dir").arg(&self.state);
        let status = command.args(["--json", "status"]).output().unwrap();
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        status["counters"][name].as_u64().unwrap()
    }

    /// Follows the audit, and returns when it does.
    fn follower(&self, arguments: &[&str]) -> (Running, BufReader<ChildStdout>) {
        let mut command = penstock();
        command.args(["audit", "--follow", "--json", "--state-dir"]);
        let mut follower = Running::start(command.arg(&self.state).args(arguments));
        let mut told = BufReader::new(follower.0.stderr.take().unwrap()).lines();
        assert!(told.next().unwrap().unwrap().contains("following"));
        let lines = BufReader::new(follower.0.stdout.take().unwrap());
        (follower, lines)
    }

    /// Ends the server; what it has logged.
    fn end(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.process.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut log = String::new();
        let stderr = self.process.0.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut log).unwrap();
        assert!(self.process.0.wait().unwrap().success(), "{log}");
        log
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap().block_on(future)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn audit(state: &Path, arguments: &[&str]) -> Output {
    let mut command = penstock();
    command.arg("audit").arg("--state-dir").arg(state);
    command.args(arguments).output().unwrap()
}

#[test]
fn changes_are_followed_and_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let server = Server::start(scratch.path(), penstock(), "");
    let (_follower, mut lines) = server.follower(&["--name", "d*"]);
    let (_also, mut others) = server.follower(&["--procedure", "rmdir"]);
    let url = |name: &str| format!("nfs://127.0.0.1:{}/{name}", server.port);
    for (command, name) in [("mkdir", "other"), ("mkdir", "dir"), ("rmdir", "dir")] {
        let done = run(&[command, &url(name)]);
        assert!(done.status.success(), "{}", text(&done.stderr));
    }
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let event: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(event["operation"], "mkdir");
    assert_eq!(event["name"], "dir");
    assert_eq!(event["path"], "/");
    assert_eq!(event["status"], "NFS3_OK");
    assert_eq!(event["uid"], rustix::process::geteuid().as_raw());
    let mut removed = String::new();
    others.read_line(&mut removed).unwrap();
    assert!(removed.contains("\"operation\":\"rmdir\""), "{removed}");
    let state = server.state.clone();
    server.end();
    let kept = fs::read_to_string(state.join("audit.jsonl")).unwrap();
    assert_eq!(kept.lines().nth(1), Some(line.trim_end()));
    let shown = text(&audit(&state, &["--json"]).stdout);
    assert_eq!(shown, kept);
}

#[test]
fn what_is_kept_is_shown_as_it_is_asked_for() {
    let scratch = tempfile::tempdir().unwrap();
    let state = scratch.path();
    let line = |time: &str, operation: &str, client: &str, name: &str, status: &str| {
        format!(
            "{{\"time\":\"2026-05-0{time}T09:12:33.120031Z\",\"operation\":\"{operation}\",\
             \"client\":\"{client}:700\",\"uid\":7,\"export\":\"/e\",\"handle\":\"01\",\"path\":\"/a\",\
             \"name\":\"{name}\",\"status\":\"{status}\"}}\n"
        )
    };
    let (old, new) = (state.join("audit.jsonl.1"), state.join("audit.jsonl"));
    fs::write(old, line("1", "mkdir", "10.0.0.1", "old", "NFS3_OK")).unwrap();
    let lines = [
        line("2", "rmdir", "10.0.0.2", "full", "NFS3ERR_NOTEMPTY"),
        "{\"lost\":7}\n".to_owned(),
        line("3", "mkdir", "10.0.0.1", "new", "NFS3_OK"),
    ];
    fs::write(&new, lines.concat()).unwrap();
    let shown = |arguments: &[&str]| {
        let output = audit(state, arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let heading =
        "TIME (UTC)           CLIENT           UID    PROCEDURE  STATUS            WHAT\n";
    let all = shown(&[]);
    let expected = [
        "2026-05-01 09:12:33  10.0.0.1         7      mkdir      ok                /e/a/old\n",
        "2026-05-02 09:12:33  10.0.0.2         7      rmdir      NFS3ERR_NOTEMPTY  /e/a/full\n",
        "7 calls are not told of: they came faster than they were read\n",
        "2026-05-03 09:12:33  10.0.0.1         7      mkdir      ok                /e/a/new\n",
    ];
    assert_eq!(all, [&[heading], &expected[..]].concat().concat());
    for (arguments, chosen) in [
        (&["--since", "2026-05-03"][..], &expected[3..]),
        (&["--client", "10.0.0.2"], &expected[1..3]),
        (&["--name", "new"], &expected[2..]),
        (&["--procedure", "rmdir", "--uid", "7"], &expected[1..3]),
        (&["--uid", "8"], &expected[2..3]),
    ] {
        let expected = [&[heading], chosen].concat().concat();
        assert_eq!(shown(arguments), expected, "{arguments:?}");
    }
    assert!(!all.contains('\x1b'));
    let coloured = shown(&["--color", "always"]);
    assert!(coloured.contains("\x1b[31m2026-05-02"), "{coloured}");
    assert_eq!(shown(&["--json"]).lines().count(), 4);
}

#[test]
fn what_cannot_be_read_is_told_with_its_cure() {
    let scratch = tempfile::tempdir().unwrap();
    let none = audit(scratch.path(), &[]);
    assert_eq!(none.status.code(), Some(1));
    let told = text(&none.stderr);
    for cure in ["audit = \"changes\"", "journalctl -o cat"] {
        assert!(told.contains(cure), "{told}");
    }
    let no_server = audit(scratch.path(), &["--follow"]);
    assert_eq!(no_server.status.code(), Some(1));
    assert!(text(&no_server.stderr).contains("is it running"));
    for wrong in [
        &["--procedure", "dance"][..],
        &["--since", "yesterday"],
        &["--client", "here"],
        &["--follow", "--since", "1h"],
        &["--name", "[a"],
    ] {
        assert_eq!(
            audit(scratch.path(), wrong).status.code(),
            Some(2),
            "{wrong:?}"
        );
    }
    // Of a file that is no audit every line is named, and the others are shown.
    let mut reader = penstock();
    reader.args(["audit", "--json", "--file", "-"]);
    reader.stdin(Stdio::piped());
    let mut reader = Running::start(&mut reader);
    let mut stdin = reader.0.stdin.take().unwrap();
    stdin.write_all(b"no line\n{\"lost\":3}\n").unwrap();
    drop(stdin);
    let mut shown = String::new();
    let stdout = reader.0.stdout.as_mut().unwrap();
    stdout.read_to_string(&mut shown).unwrap();
    assert_eq!(shown, "{\"lost\":3}\n");
    let mut told = String::new();
    let stderr = reader.0.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut told).unwrap();
    assert!(told.contains("standard input:1:"), "{told}");
    assert_eq!(reader.0.wait().unwrap().code(), Some(1));
}

/// Asks for so many calls that come to nothing, and waits for all answers.
async fn call(client: &Nfs3, root: &FileHandle, times: usize) {
    for _ in 0..times {
        assert!(client.remove(root, b"nothing").await.unwrap().is_err());
    }
}

#[test]
fn who_follows_and_does_not_read_holds_up_nobody_and_is_told_what_was_lost() {
    let scratch = tempfile::tempdir().unwrap();
    let server = Server::start(scratch.path(), penstock(), "");
    let (_follower, mut lines) = server.follower(&[]);
    // More than wait for it: those in the queue, and what pipe and socket hold.
    let calls = 12_000;
    block_on(async {
        let (client, root) = server.client().await;
        call(&client, &root, calls).await;
    });
    let (mut told, mut lost) = (0, 0);
    while told + lost < calls as u64 {
        let mut line = String::new();
        assert!(
            lines.read_line(&mut line).unwrap() > 0,
            "{told} told, {lost} lost"
        );
        let line: Value = serde_json::from_str(&line).unwrap();
        match line["lost"].as_u64() {
            Some(more) => lost += more,
            None => told += 1,
        }
    }
    assert!(lost > 0 && told + lost == calls as u64, "{told}, {lost}");
    assert_eq!(server.counter("audit_records_lost"), lost);
}

#[test]
fn a_full_disk_holds_up_no_call_is_counted_and_said_once() {
    if !is_root() {
        return nfs_lab::skipped("mounting needs root");
    }
    let scratch = tempfile::tempdir().unwrap();
    let state = scratch.path().join("state");
    let _disk = match Mounted::tmpfs(32, &state) {
        Ok(disk) => disk,
        Err(error) => return nfs_lab::skipped(&format!("{error:#}")),
    };
    fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let server = Server::start(scratch.path(), penstock(), "");
    let filler = state.join("filler");
    let mut filling = fs::File::create(&filler).unwrap();
    while filling.write_all(&[1; 4096]).is_ok() {}
    drop(filling);
    block_on(async {
        let (client, root) = server.client().await;
        // All are answered. Some lines find room in the last block of the file.
        for rounds in 0.. {
            assert!(rounds < 100, "nothing is counted");
            call(&client, &root, 10).await;
            if server.counter("audit_records_unwritten") >= 20 {
                break;
            }
        }
        fs::remove_file(&filler).unwrap();
        client
            .mkdir(&root, b"kept", &Default::default())
            .await
            .unwrap()
            .unwrap();
    });
    let log = server.end();
    assert_eq!(
        log.matches("the audit cannot be written").count(),
        1,
        "{log}"
    );
    assert!(log.contains("audit_records_unwritten"), "{log}");
    assert_eq!(
        log.matches("the audit is written again").count(),
        1,
        "{log}"
    );
    let kept = audit(&state, &["--json", "--name", "kept"]);
    assert_eq!(
        kept.status.code(),
        Some(0),
        "a line is cut: {}",
        text(&kept.stderr)
    );
    assert_eq!(text(&kept.stdout).lines().count(), 1);
}

#[test]
fn the_journal_gets_every_line_where_it_is_to_go_there() {
    if !is_root() {
        return nfs_lab::skipped("a mount namespace needs root");
    }
    let scratch = tempfile::tempdir().unwrap();
    let journal = scratch.path().join("run/systemd/journal");
    fs::create_dir_all(&journal).unwrap();
    let journal = UnixDatagram::bind(journal.join("socket")).unwrap();
    journal
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut program = Command::new("unshare");
    program
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg("mount --bind \"$1\" /run && shift && exec \"$@\"")
        .arg("sh")
        .arg(scratch.path().join("run"))
        .arg(env!("CARGO_BIN_EXE_penstock"));
    let server = Server::start(scratch.path(), program, "audit_to = \"journal\"");
    block_on(async {
        let (client, root) = server.client().await;
        call(&client, &root, 2).await;
    });
    for _ in 0..2 {
        let mut entry = [0; 4096];
        let len = journal.recv(&mut entry).unwrap();
        let entry = text(&entry[..len]);
        let mut fields = entry.lines();
        let message = fields.next().unwrap().strip_prefix("MESSAGE=").unwrap();
        let event: Value = serde_json::from_str(message).unwrap();
        assert_eq!(event["name"], "nothing");
        let rest: Vec<&str> = fields.collect();
        assert_eq!(rest, ["PRIORITY=6", "SYSLOG_IDENTIFIER=penstock-audit"]);
    }
    assert!(!server.state.join("audit.jsonl").exists());
}
