//! The real binary as a server: what scripts, signals, `ctl` and systemd rely on.

mod support;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nfs_client::Client;
use nfs_client::nfs_wire::nfs3::{CreateHow, StableHow};
use rustix::process::{Pid, Signal};
use support::{penstock, run, text};

/// A server of a directory of its own; killed if the test ends before it.
struct Server {
    child: Child,
    directory: tempfile::TempDir,
    address: String,
}

impl Server {
    /// `arguments` follow `serve`; in them `DIR` is the scratch directory.
    fn start(directory: tempfile::TempDir, arguments: &[&str]) -> Self {
        let scratch = directory.path().to_str().unwrap().to_owned();
        let arguments = arguments
            .iter()
            .map(|argument| argument.replace("DIR", &scratch));
        let mut child = penstock()
            .arg("serve")
            .args(arguments)
            .args(["--state-dir", &format!("{scratch}/state")])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let ready = two_lines(&mut child);
        let address = ready
            .strip_prefix("ready\nlistening ")
            .map(str::trim_end)
            .map(str::to_owned);
        let address = address.unwrap_or_else(|| {
            let mut errors = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut errors)
                .unwrap();
            panic!("the server said {ready:?} and {errors}");
        });
        Self {
            child,
            directory,
            address,
        }
    }

    fn new(arguments: &[&str]) -> Self {
        Self::start(tempfile::tempdir().unwrap(), arguments)
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn ctl(&self, arguments: &[&str]) -> Output {
        penstock()
            .arg("ctl")
            .arg("--state-dir")
            .arg(self.state())
            .args(arguments)
            .output()
            .unwrap()
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end: exit code and all of standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let mut errors = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut errors)
            .unwrap();
        (self.child.wait().unwrap().code(), errors)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail for one that has ended, as it should have.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn serve_creates_serves_tells_and_drains() {
    let server = Server::new(&["DIR/data", "--listen", "127.0.0.1:0"]);
    assert!(server.directory.path().join("data").is_dir());
    std::net::TcpStream::connect(&server.address).unwrap();
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    server.signal(Signal::TERM);
    let state = server.state();
    let (code, told) = server.end();
    assert_eq!(code, Some(0), "{told}");
    assert!(!state.join("control.sock").exists());
    for expected in [
        "created ",
        "squash none",
        &format!("mount it:\n  mount -t nfs -o port={port} 127.0.0.1:/ /mnt\nor, over NFSv3:\n"),
        &format!("port={port},mountport={port},nolock 127.0.0.1:/ /mnt"),
        &format!("penstock ls nfs://127.0.0.1:{port}/"),
        "SIGTERM: draining",
    ] {
        assert!(told.contains(expected), "no {expected:?} in {told}");
    }
    assert!(!told.contains('\u{1b}'), "colours in a pipe: {told}");
}

#[test]
fn the_flags_make_the_rules() {
    let arguments = [
        "DIR/data",
        "--listen",
        "127.0.0.1:0",
        "--read-only",
        "--allow",
        "10.0.0.0/8",
        "--async",
    ];
    let server = Server::new(&arguments);
    let output = server.ctl(&["--json", "exports"]);
    let exports: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(exports[0]["pseudo"], "/");
    assert_eq!(exports[0]["durability"], "async");
    let rules = exports[0]["rules"].as_array().unwrap();
    assert!(rules.iter().all(|rule| rule["access"] == "ro"));
    let squash: Vec<_> = rules
        .iter()
        .map(|rule| rule["squash"].as_str().unwrap())
        .collect();
    assert_eq!(squash, ["none", "none", "root"]);
}

#[tokio::test]
async fn a_flag_leaves_attributes_out_of_replies_to_stable_writes() {
    let flag = "--no-stable-write-attributes";
    let server = Server::new(&["DIR/data", "--listen", "127.0.0.1:0", flag]);
    let url = format!("nfs://{}/?version=3", server.address);
    let (client, _) = Client::mount(&url.parse().unwrap()).await.unwrap();
    let (root, nfs) = (client.resolve("/").await.unwrap().handle, client.nfs());
    let how = CreateHow::Unchecked(Default::default());
    let file = client.create_in(&root, b"file", &how).await.unwrap().handle;
    for (how, is_told) in [(StableHow::Unstable, true), (StableHow::FileSync, false)] {
        let written = nfs.v3().unwrap().write(&file, 0, how, "data".into()).await;
        let after = written.unwrap().unwrap().file_wcc.after;
        assert_eq!(after.is_some(), is_told, "{how:?}");
    }
    let told = String::from_utf8(server.ctl(&["--json", "exports"]).stdout).unwrap();
    assert!(told.contains("_attributes\":false"), "{told}");
}

#[test]
fn ctl_tells_what_clients_of_nfsv4_hold() {
    let directory = tempfile::tempdir().unwrap();
    let scratch = directory.path().to_str().unwrap();
    std::fs::create_dir(directory.path().join("data")).unwrap();
    let config = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\nversions = [\"3\", \"4.1\"]\nlease_seconds = 30\n\
         [[export]]\npath = \"{scratch}/data\"\npseudo = \"/\"\n"
    );
    std::fs::write(directory.path().join("p.toml"), config).unwrap();
    let server = Server::start(directory, &["--config", "DIR/p.toml"]);
    for (arguments, expected) in [
        (&["grace"][..], "no grace period is running\n"),
        (&["opens"], "nothing is open\n"),
        (&["locks"], "nothing is locked\n"),
        (&["clients"], "no client is connected\n"),
        (&["clients", "nfs4"], "no NFSv4 client\n"),
        (&["--json", "opens"], "{\"rows\":[],\"total\":0}\n"),
        (&["--json", "locks"], "{\"rows\":[],\"total\":0}\n"),
        (
            &["--json", "clients", "nfs4"],
            "{\"rows\":[],\"total\":0}\n",
        ),
        (&["--json", "clients"], "[]\n"),
    ] {
        let output = server.ctl(arguments);
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(out, expected, "{arguments:?}: {error}");
    }
    for (arguments, expected) in [
        (&["grace", "end"][..], "no grace period is running"),
        (&["expire", "x"], "no NFSv4 client has the id or name x"),
        (
            &["opens", "--client", "x"],
            "no NFSv4 client has the id or name x",
        ),
    ] {
        let output = server.ctl(arguments);
        let error = text(&output.stderr);
        assert!(error.contains(expected), "{arguments:?}: {error}");
        assert_ne!(output.status.code(), Some(0));
    }
    server.signal(Signal::TERM);
    let (code, told) = server.end();
    assert_eq!(code, Some(0), "{told}");
    let mount = told.find("mount -t nfs -o vers=4.1,port=");
    assert!(mount.is_some() && mount < told.find("vers=3,"), "{told}");
}

#[test]
fn ctl_without_nfsv4_says_so() {
    let server = Server::new(&["DIR/data", "--listen", "127.0.0.1:0", "--versions", "3"]);
    for arguments in [&["grace"][..], &["opens"], &["locks"], &["expire", "x"]] {
        let error = text(&server.ctl(arguments).stderr);
        assert!(
            error.contains("no minor version of NFSv4 is served"),
            "{error}"
        );
    }
    let clients = server.ctl(&["clients"]);
    assert_eq!(text(&clients.stdout), "no client is connected\n");
}

#[test]
fn ctl_asks_and_tells() {
    let server = Server::new(&["DIR/data", "--listen", "127.0.0.1:0"]);
    let status = server.ctl(&["status"]);
    let shown = text(&status.stdout);
    assert_eq!(status.status.code(), Some(0), "{}", text(&status.stderr));
    assert!(
        shown.contains("serving") && shown.contains(&server.address),
        "{shown}"
    );
    assert!(text(&server.ctl(&["exports"]).stdout).contains("127.0.0.0/8  rw, squash none"));
    assert_eq!(server.ctl(&["clients"]).status.code(), Some(0));
    assert_eq!(server.ctl(&["log-level", "debug"]).status.code(), Some(0));
    assert_eq!(text(&server.ctl(&["log-level"]).stdout), "debug\n");
    assert!(text(&server.ctl(&["reload"]).stdout).contains("from flags alone"));
    assert_eq!(text(&server.ctl(&["drain"]).stdout), "draining\n");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn io_modes_are_flags_and_change_live() {
    let arguments = [
        "DIR/data",
        "--listen=127.0.0.1:0",
        "--read=dontcache",
        "--write=3",
        "--staging",
        "--splice",
    ];
    let server = Server::new(&arguments);
    let shown = |arguments: &[&str]| {
        let output = server.ctl(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let refused = |arguments: &[&str], code| {
        let output = server.ctl(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        text(&output.stderr)
    };
    assert!(shown(&["io"]).contains("read dontcache, write direct, staged, at least data-sync"));
    let rule = "op=read,max=16KiB,name=*.idx,mode=buffered";
    let change = [
        "io",
        "/",
        "--read=2",
        "--splice=off",
        "--rule",
        rule,
        "--rule",
        "op=write,mode=0",
    ];
    let changed = shown(&change);
    for expected in [
        "/: before\n  read dontcache,",
        "\n  large READs are sent from the page cache without a copy\nnow\n",
        "now\n  read direct, write direct, staged, at least data-sync\n",
        &format!("rule 1: {rule}\n  rule 2: op=write,mode=buffered\n"),
        "this lasts until the next reload or restart",
    ] {
        assert!(changed.contains(expected), "no {expected:?} in {changed}");
    }
    assert!(shown(&["io"]).contains("changed live; a reload or restart goes back"));
    let json: serde_json::Value = serde_json::from_str(&shown(&["--json", "io"])).unwrap();
    assert_eq!(json[0]["now"]["rules"][1], "op=write,mode=buffered");
    assert_eq!(json[0]["configured"]["stable"], "data-sync");
    assert_eq!(json[0]["configured"]["splice"], true);
    let file = server.directory.path().join("data/a.idx");
    std::fs::write(&file, [1; 5000]).unwrap();
    let file = file.to_str().unwrap();
    let why = shown(&["io", "--why", file, "--offset", "1KiB", "--size", "4KiB"]);
    for expected in [
        "READ of 4KiB at 1024 by 127.0.0.1\nfile        ",
        "a.idx, 5000 bytes, in export /\n",
        "mode        buffered: rule 1 is the first that matches",
        ": decides\n",
        "name        a.idx",
        "splice      off: the export's \"splice\"",
        "moved       1024..5000  3976B  buffered",
        "note        the file ends at 5000",
    ] {
        assert!(why.contains(expected), "no {expected:?} in {why}");
    }
    let write = [
        "--json",
        "io",
        "--why",
        "/a.idx",
        "--op",
        "write",
        "--stable",
        "file-sync",
    ];
    let json: serde_json::Value = serde_json::from_str(&shown(&write)).unwrap();
    assert_eq!(json["stable"]["committed"], "file-sync");
    assert_eq!(json["because"], "rule 2 is the first that matches");
    // Mistakes in the command are the command's (2), those that the server finds are its (1).
    assert!(refused(&["io", "--read", "fast"], 2).contains("is no I/O mode"));
    assert!(refused(&["io", "--rule", "mode=4"], 2).contains("add op"));
    assert!(refused(&["io", "--write", "4", "--stable", "asked"], 2).contains("contradicts"));
    assert!(refused(&["io", "--why", file, "--read", "2"], 2).contains("--read"));
    assert!(refused(&["io", "--offset", "1"], 2).contains("--why"));
    assert!(refused(&["io", "/nowhere"], 1).contains("there are: /"));
    assert!(refused(&["io", "--why", "/nowhere"], 1).contains("no such file"));
    assert!(shown(&["io", "--no-rules", "--stable", "asked"]).contains("as stable as asked"));
    let tried = shown(&["io", "--read", "auto", "--auto", "dry-run"]);
    assert!(tried.contains("read auto, write"), "{tried}");
    assert!(tried.contains("auto is tried and not taken"), "{tried}");
    let why = shown(&["io", "--why", file]);
    assert!(
        why.contains("auto        buffered (dry run: not taken): "),
        "{why}"
    );
    assert!(why.contains("calls-since-change 0"), "{why}");
    server.signal(Signal::TERM);
    let log = server.end().1;
    assert_eq!(log.matches("I/O modes changed").count(), 3, "{log}");
    let me = format!("by=user {}", rustix::process::getuid().as_raw());
    assert!(
        log.contains(&me) && log.contains("before=read=dontcache"),
        "{log}"
    );
}

#[test]
fn one_state_directory_serves_one_server() {
    let server = Server::new(&["DIR/data", "--listen", "127.0.0.1:0"]);
    let other = server.directory.path().join("other");
    let output = penstock()
        .args([
            Path::new("serve"),
            &other,
            Path::new("--listen"),
            Path::new("127.0.0.1:0"),
        ])
        .args([Path::new("--state-dir"), &server.state()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    let expected = format!("another server (process {})", server.child.id());
    assert!(told.contains(&expected), "{told}");
}

#[test]
fn a_taken_port_is_an_error_when_it_was_asked_for() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = tempfile::tempdir().unwrap();
    let scratch = directory.path().to_str().unwrap();
    let output = run(&[
        "serve",
        scratch,
        "--listen",
        &address,
        "--state-dir",
        &format!("{scratch}/s"),
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("choose another port"),
        "{}",
        text(&output.stderr)
    );
}

fn export(pseudo: &str) -> String {
    format!("[[export]]\npath = \"/\"\npseudo = \"{pseudo}\"\n")
}

/// A server of a configuration file that exports `/` as `/a`.
fn server_of_file() -> (Server, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("p.toml");
    std::fs::write(&file, export("/a")).unwrap();
    let server = Server::start(
        directory,
        &["--config", "DIR/p.toml", "--listen", "127.0.0.1:0"],
    );
    (server, file)
}

#[test]
fn reload_swaps_a_valid_file_and_keeps_the_old_for_a_wrong_one() {
    let (server, file) = server_of_file();
    let pseudos = || {
        let output = server.ctl(&["--json", "exports"]);
        let exports: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let exports = exports.as_array().unwrap().iter();
        exports
            .map(|export| export["pseudo"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    std::fs::write(&file, export("/a") + &export("/b")).unwrap();
    let output = server.ctl(&["reload"]);
    assert!(
        text(&output.stdout).contains("added: /b"),
        "{}",
        text(&output.stdout)
    );
    assert_eq!(pseudos(), ["/a", "/b"]);
    std::fs::write(&file, export("/c") + "sqash = 1\n").unwrap();
    let output = server.ctl(&["reload"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("p.toml:4: unknown key"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(pseudos(), ["/a", "/b"]);
    server.signal(Signal::TERM);
    let (code, log) = server.end();
    assert_eq!(code, Some(0));
    assert!(log.contains("p.toml:4: unknown key \"sqash\""), "{log}");
}

#[test]
fn the_log_says_who_mounts_what_and_why_somebody_may_not() {
    let directory = tempfile::tempdir().unwrap();
    let others = export("/others") + "clients = [\"192.0.2.0/24\"]\n";
    std::fs::write(directory.path().join("p.toml"), export("/a") + &others).unwrap();
    let server = Server::start(
        directory,
        &["--config", "DIR/p.toml", "--listen", "127.0.0.1:0"],
    );
    let ls = |path: &str| run(&["ls", &format!("nfs://{}{path}", server.address)]);
    assert!(ls("/a").status.success());
    assert!(!ls("/others").status.success());
    server.signal(Signal::TERM);
    let (code, log) = server.end();
    assert_eq!(code, Some(0));
    let lines = |what: &str| log.lines().filter(|line| line.contains(what)).count();
    assert_eq!(lines("mount of /a by 127.0.0.1 port "), 1, "{log}");
    let terms = "granted: rw, squash root, by the rule for 127.0.0.0/8";
    assert_eq!(lines(terms), 1, "{log}");
    assert_eq!(lines("first use of /a by 127.0.0.1 port "), 1, "{log}");
    let refused =
        "refused: of export /others: its address is in no network of the export's clients";
    assert_eq!(lines("mount of /others by 127.0.0.1"), 1, "{log}");
    assert_eq!(lines(refused), 1, "{log}");
}

#[test]
fn sighup_reloads() {
    let (mut server, file) = server_of_file();
    std::fs::write(&file, export("/a") + "wrong = 1\n").unwrap();
    server.signal(Signal::HUP);
    // The log line says that it was done; no need to guess how long it takes.
    let mut log = BufReader::new(server.child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("p.toml:4: unknown key \"wrong\"") {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "the log ended");
    }
    std::fs::write(&file, export("/b")).unwrap();
    server.signal(Signal::HUP);
    while !line.contains("configuration reloaded") {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "the log ended");
    }
    assert!(text(&server.ctl(&["exports"]).stdout).starts_with("/b is /"));
}

#[test]
fn json_logs_are_json_only() {
    let server = Server::new(&["DIR/data", "--listen", "127.0.0.1:0", "--log-json"]);
    server.signal(Signal::INT);
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    for line in log.lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect(line);
        assert!(event["level"].is_string(), "{line}");
    }
    let told = |word: &str| log.lines().find(|line| line.contains(word)).unwrap();
    assert!(told("\"message\":\"serving\"").contains("\"exports\":1"));
    assert!(told("\"message\":\"export\"").contains("\"net\":\"127.0.0.0/8\""));
}

#[test]
fn systemd_is_told_and_may_pass_the_socket() {
    let directory = tempfile::tempdir().unwrap();
    let scratch = directory.path().to_str().unwrap();
    let notify = directory.path().join("notify");
    let told = std::os::unix::net::UnixDatagram::bind(&notify).unwrap();
    let passed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = passed.local_addr().unwrap().to_string();
    // The protocol wants the socket as descriptor 3 and the process's own id in the environment.
    let script = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
    let mut child = Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_penstock"), "serve"])
        .args([
            &format!("{scratch}/data"),
            "--state-dir",
            &format!("{scratch}/state"),
        ])
        .env("NOTIFY_SOCKET", &notify)
        .stdin(std::os::fd::OwnedFd::from(passed))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ready = two_lines(&mut child);
    assert_eq!(ready, format!("ready\nlistening {address}\n"));
    let mut said = [0; 512];
    let mut hear = || {
        let length = told.recv(&mut said).unwrap();
        text(&said[..length])
    };
    assert!(hear().contains("READY=1"));
    let pid = Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
    assert!(hear().contains("RELOADING=1"));
    assert!(hear().contains("READY=1"));
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert!(hear().contains("STOPPING=1"));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn flags_beside_a_file_hold_over_reloads() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("p.toml");
    let with = |text: &str| format!("[server]\n{text}\n") + &export("/a");
    std::fs::write(&file, with("log = \"error\"")).unwrap();
    let arguments = [
        "--config",
        "DIR/p.toml",
        "--listen",
        "127.0.0.1:0",
        "--log-level",
        "info",
        "--busy-poll=50us",
    ];
    let server = Server::start(directory, &arguments);
    std::fs::write(
        &file,
        with("log = \"error\"\nmemory = \"64MiB\"\nbusy_poll = \"1ms\""),
    )
    .unwrap();
    let output = text(&server.ctl(&["reload"]).stdout);
    assert!(
        output.contains("after a restart only: memory, busy_poll\n"),
        "{output}"
    );
    let status = text(&server.ctl(&["status"]).stdout);
    let polls = ", each polls for 50 us before it sleeps\n";
    assert!(status.contains(polls), "{status}");
    server.signal(Signal::TERM);
    // At the level of the file this would not be logged.
    assert!(server.end().1.contains("SIGTERM: draining"));
}

#[test]
fn trace_events_are_followed_until_the_follower_goes() {
    let server = Server::new(&["DIR/data", "--listen", "127.0.0.1:0"]);
    let file = server.directory.path().join("data/f");
    std::fs::write(file, [7; 5000]).unwrap();
    let mut follower = penstock()
        .arg("ctl")
        .arg("--state-dir")
        .arg(server.state())
        .args(["trace", "follow", "read_start,read_done", "--json"])
        .args(["--export", "/", "--client", "127.0.0.1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut begun = String::new();
    let mut told = BufReader::new(follower.stderr.take().unwrap());
    told.read_line(&mut begun).unwrap();
    assert_eq!(begun, "following; interrupt to end\n");
    let url = format!("nfs://{}/f", server.address);
    assert_eq!(run(&["cat", &url]).stdout.len(), 5000);
    // `cat` reads on behind the end while its first READ is under way: that one is looked for.
    let lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut events = lines
        .map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap())
        .filter(|event| event["offset"] == 0);
    let (start, done) = (events.next().unwrap(), events.next().unwrap());
    assert_eq!(start["event"], "read_start");
    assert_eq!(
        (&done["event"], &done["len"]),
        (&"read_done".into(), &5000.into())
    );
    assert_eq!(start["xid"], done["xid"]);
    let followed = || {
        let listed = text(&server.ctl(&["trace", "list"]).stdout);
        listed
            .lines()
            .filter(|line| line.contains("followed 1"))
            .count()
    };
    assert_eq!(followed(), 2);
    let pid = Pid::from_child(&follower);
    // Not SIGINT: where this runs in the background of a script, programs start with that one ignored.
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(
        follower.wait().unwrap().code(),
        None,
        "it ends by the signal"
    );
    // The server sees it a moment later.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while followed() > 0 {
        assert!(std::time::Instant::now() < deadline, "events stay on");
    }
    let counted = text(&server.ctl(&["io", "--counters", "/"]).stdout);
    assert!(counted.contains("READ   buffered"), "{counted}");
    let counted = server.ctl(&["io", "--counters", "--json"]);
    let rows: serde_json::Value = serde_json::from_slice(&counted.stdout).unwrap();
    assert_eq!(
        (&rows[0]["operation"], &rows[0]["bytes"]),
        (&"read".into(), &5000.into())
    );
    let other = server.ctl(&["io", "--counters", "/other"]);
    assert!(text(&other.stderr).contains("served are: /"));
    let wrong = server.ctl(&["trace", "follow", "read_dona"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("read_start, read_vector, "));
}

#[test]
fn calls_are_shown_step_by_step() {
    let server = Server::new(&["DIR/data", "--listen", "127.0.0.1:0"]);
    let file = server.directory.path().join("data/f");
    std::fs::write(&file, [7; 5000]).unwrap();
    let mut follower = penstock()
        .args(["trace", "READ", "-n", "1", "--file"])
        .arg(&file)
        .arg("--state-dir")
        .arg(server.state())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut begun = String::new();
    let mut told = BufReader::new(follower.stderr.take().unwrap());
    told.read_line(&mut begun).unwrap();
    assert_eq!(begun, "following; interrupt to end\n");
    let url = format!("nfs://{}/f", server.address);
    assert_eq!(run(&["cat", &url]).stdout.len(), 5000);
    let output = follower.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let listing = text(&output.stdout);
    assert!(listing.contains("NFSv3 READ xid=0x"), "{listing}");
    for step in [
        "READ() {",
        "handle_check() {",
        "file_cache();",
        "attributes();",
        "send();",
    ] {
        assert!(listing.contains(step), "no {step} in {listing}");
    }
    let dump = server.ctl(&["trace", "dump", "--json"]);
    let calls = text(&dump.stdout);
    let calls = calls
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let calls: Vec<serde_json::Value> = calls.collect();
    assert!(
        calls
            .iter()
            .any(|call| call["call"] == "READ" && call["status"] == "NFS3_OK")
    );
    let chrome = server.directory.path().join("trace.json");
    let arguments = ["trace", "tree", "--recorded", "--slowest", "2", "--chrome"];
    let written = server.ctl(&[&arguments[..], &[chrome.to_str().unwrap()]].concat());
    assert_eq!(written.status.code(), Some(0), "{}", text(&written.stderr));
    let events: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&chrome).unwrap()).unwrap();
    let events = events.as_array().unwrap();
    assert_eq!(
        events
            .iter()
            .filter(|event| event["args"]["xid"].is_string())
            .count(),
        2
    );
    let level = server.ctl(&["trace", "recorder", "off", "--json"]);
    assert_eq!(text(&level.stdout), "\"off\"\n");
}

#[test]
fn a_crash_leaves_a_file_that_says_what_the_last_calls_were() {
    use std::os::unix::process::ExitStatusExt as _;
    for signal in [Signal::ABORT, Signal::SEGV] {
        let mut server = Server::new(&["DIR/data", "--listen", "127.0.0.1:0"]);
        std::fs::write(server.directory.path().join("data/f"), [7; 5000]).unwrap();
        let url = format!("nfs://{}/f", server.address);
        assert_eq!(run(&["cat", &url]).stdout.len(), 5000);
        // Its reply is here before the server has noted that it was sent.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !text(&server.ctl(&["trace", "dump"]).stdout).contains("NFSv3 READ ") {
            assert!(std::time::Instant::now() < deadline, "it notes nothing");
        }
        server.signal(signal);
        // Sent by a process it comes once: what a fault would repeat is done by hand.
        let status = loop {
            if let Some(status) = server.child.try_wait().unwrap() {
                break status;
            }
            assert!(std::time::Instant::now() < deadline, "it goes on");
            // SLEEP: between two looks.
            std::thread::sleep(std::time::Duration::from_millis(50));
            server.signal(signal);
        };
        assert_eq!(status.signal(), Some(signal.as_raw()));
        let files = std::fs::read_dir(server.state()).unwrap();
        let paths: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
        let is_told = |path: &&PathBuf| path.to_str().unwrap().contains("/crash-");
        let path = paths.iter().find(is_told);
        let told = std::fs::read_to_string(path.unwrap_or_else(|| panic!("{paths:?}"))).unwrap();
        let by = format!("ended by signal {}", signal.as_raw());
        let read = "NFSv3 READ xid=0x";
        for part in [&*by, read, "page_cache();", "0 calls under way"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}

#[test]
fn trace_events_go_to_the_log_in_its_own_form_at_any_level() {
    for json in [false, true] {
        let mut arguments = vec![
            "DIR/data",
            "--listen",
            "127.0.0.1:0",
            "--log-level",
            "error",
        ];
        arguments.extend(json.then_some("--log-json"));
        let server = Server::new(&arguments);
        std::fs::write(server.directory.path().join("data/f"), [7; 5000]).unwrap();
        let on = text(&server.ctl(&["trace", "on", "read_done,read_err"]).stdout);
        assert_eq!(on, "to the log go: read_err read_done\n");
        let url = format!("nfs://{}/f", server.address);
        assert_eq!(run(&["cat", &url]).stdout.len(), 5000);
        let off = text(&server.ctl(&["trace", "off", "read_err"]).stdout);
        assert_eq!(off, "to the log go: read_done\n");
        server.signal(Signal::TERM);
        let (code, log) = server.end();
        assert_eq!(code, Some(0));
        // `cat` reads on behind the end at the same time.
        let len = if json { "\"len\":5000" } else { "len=5000" };
        let logged = log.lines().find(|line| line.contains(len));
        let line = logged.unwrap_or_else(|| panic!("no event in {log}"));
        if json {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            let fields = &event["fields"];
            assert_eq!(
                (&fields["message"], &fields["len"]),
                (&"read_done".into(), &5000.into())
            );
        } else {
            assert!(line.contains("read_done xid=0x"), "{line}");
            assert!(line.contains(" offset=0 len=5000 took_us="), "{line}");
        }
    }
}

/// What the server says on standard output when it is ready.
fn two_lines(child: &mut std::process::Child) -> String {
    let mut lines = String::new();
    let mut out = BufReader::new(child.stdout.as_mut().unwrap());
    out.read_line(&mut lines).unwrap();
    out.read_line(&mut lines).unwrap();
    lines
}
