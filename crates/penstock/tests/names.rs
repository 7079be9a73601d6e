//! Clients by name: hosts and netgroups of this machine's databases, with a hosts file, a netgroup file and a name server
//! of the test's own. The server is confined as by default.

mod support;

use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::Value;
use support::{penstock, text};
use tempfile::TempDir;

/// Where the name server listens: an address that nobody else has.
const NAME_SERVER: &str = "127.53.53.53:53";
/// How long a name may take to become what it is: a look-up that fails is tried again after ten seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server in a mount namespace with an `/etc` of its own; killed when the test ends.
struct Named {
    child: Child,
    scratch: TempDir,
    address: String,
}

impl Named {
    fn start(clients: &[&str]) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let etc = scratch.path().join("etc");
        let copied = Command::new("cp").args(["-a", "/etc"]).arg(&etc).status();
        assert!(copied.unwrap().success());
        let write = |name: &str, text: &str| {
            // It may be a link to somewhere else.
            let _ = fs::remove_file(etc.join(name));
            fs::write(etc.join(name), text).unwrap();
        };
        write(
            "nsswitch.conf",
            "hosts: files dns\nnetgroup: files\npasswd: files\ngroup: files\n",
        );
        write(
            "resolv.conf",
            "nameserver 127.53.53.53\noptions timeout:1 attempts:1\n",
        );
        write("hosts", "");
        write("netgroup", "");
        let data = scratch.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("file"), "for those with a name").unwrap();
        let config = format!(
            "[[export]]\npath = {data:?}\npseudo = \"/\"\nsquash = \"none\"\nclients = {clients:?}\n"
        );
        fs::write(scratch.path().join("penstock.toml"), config).unwrap();
        let mut child = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c"])
            .arg("mount --bind \"$1\" /etc && shift && exec \"$@\"")
            .arg("sh")
            .arg(&etc)
            .arg(env!("CARGO_BIN_EXE_penstock"))
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--no-rpcbind",
                "--config",
            ])
            .arg(scratch.path().join("penstock.toml"))
            .arg("--state-dir")
            .arg(scratch.path().join("state"))
            .stdout(Stdio::piped())
            .stderr(fs::File::create(scratch.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address =
            lines.find_map(|line| Some(line.unwrap().strip_prefix("listening ")?.to_owned()));
        let address = address.unwrap_or_else(|| {
            panic!(
                "{}",
                fs::read_to_string(scratch.path().join("log")).unwrap()
            )
        });
        Self {
            child,
            scratch,
            address,
        }
    }

    fn etc(&self, name: &str, text: &str) {
        fs::write(self.scratch.path().join("etc").join(name), text).unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.scratch.path().join("log")).unwrap()
    }

    fn ctl(&self, arguments: &[&str]) -> String {
        let state: PathBuf = self.scratch.path().join("state");
        let mut command = penstock();
        let told = command
            .arg("ctl")
            .arg("--state-dir")
            .arg(state)
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
        text(&told.stdout)
    }

    /// Has all names looked up anew, and waits until this one is in that state.
    fn until(&self, name: &str, state: &str) -> Value {
        self.ctl(&["reload"]);
        let end = Instant::now() + PATIENCE;
        loop {
            let exports: Value = serde_json::from_str(&self.ctl(&["exports", "--json"])).unwrap();
            let rules = exports[0]["rules"].as_array().unwrap();
            let rule = rules.iter().find(|rule| rule["net"] == name).unwrap();
            if rule["name"]["state"] == state {
                return rule["name"].clone();
            }
            assert!(
                Instant::now() < end,
                "{name} is not {state}: {rule}\n{}",
                self.log()
            );
        }
    }

    fn may_read(&self) -> bool {
        let url = format!("nfs://{}/file", self.address);
        let read = penstock().arg("cat").arg(url).output().unwrap();
        read.status.success() && read.stdout == b"for those with a name"
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Answers that every name that begins with `dns` is 127.0.0.1, and that there is no other; nothing while it is silent.
fn name_server(socket: UdpSocket, is_silent: Arc<AtomicBool>) {
    let mut query = [0; 512];
    while let Ok((len, asker)) = socket.recv_from(&mut query) {
        if is_silent.load(Ordering::Relaxed) || len < 17 {
            continue;
        }
        let is_known = query[13..16].eq_ignore_ascii_case(b"dns");
        let end = 12 + query[12..len].iter().position(|byte| *byte == 0).unwrap() + 5;
        let is_v4 = query[end - 4..end - 2] == [0, 1];
        let mut answer = query[..end].to_vec();
        // A response, recursion available; NXDOMAIN for what is not known. No other sections than the question.
        answer[2..4].copy_from_slice(&[0x81, if is_known { 0x80 } else { 0x83 }]);
        answer[6..12].fill(0);
        if is_known && is_v4 {
            answer[7] = 1;
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
        }
        socket.send_to(&answer, asker).unwrap();
    }
}

fn counter(server: &Named, name: &str) -> u64 {
    let status: Value = serde_json::from_str(&server.ctl(&["status", "--json"])).unwrap();
    status["counters"][name].as_u64().unwrap()
}

#[test]
fn clients_are_let_in_by_the_names_that_they_have_now() {
    if !rustix::process::geteuid().is_root() {
        return nfs_lab::skipped("a mount namespace and port 53 need root");
    }
    let socket = match UdpSocket::bind(NAME_SERVER) {
        Ok(socket) => socket,
        Err(error) => {
            return nfs_lab::skipped(&format!("no name server at {NAME_SERVER}: {error}"));
        }
    };
    let is_silent = Arc::new(AtomicBool::new(false));
    let silent = Arc::clone(&is_silent);
    thread::spawn(move || name_server(socket, silent));

    let server = Named::start(&["box.test", "@crew", "dns.test"]);
    server.etc("hosts", "192.0.2.1 box.test\n");
    assert_eq!(
        server.until("box.test", "known")["addresses"][0],
        "192.0.2.1"
    );
    assert_eq!(
        server.until("dns.test", "known")["addresses"][0],
        "127.0.0.1"
    );
    assert!(server.may_read(), "by the name server: {}", server.log());
    // Nothing that a look-up takes is refused by the confinement, and the netgroup that is not there is told of once.
    assert_eq!(
        counter(&server, "system_calls_refused"),
        0,
        "{}",
        server.log()
    );
    assert_eq!(counter(&server, "client_names"), 3);
    assert_eq!(counter(&server, "client_names_unresolved"), 1);
    let told = server.log().matches("client @crew matches nobody").count();
    assert_eq!(told, 1, "{}", server.log());

    // Whoever has no name any more is let in no more, over the connection of before or another.
    is_silent.store(true, Ordering::Relaxed);
    server.until("dns.test", "kept");
    assert!(
        server.may_read(),
        "the name server is silent for a moment: {}",
        server.log()
    );
    is_silent.store(false, Ordering::Relaxed);
    server.etc("hosts", "192.0.2.9 dns.test\n");
    let end = Instant::now() + PATIENCE;
    while server.until("dns.test", "known")["addresses"][0] != "192.0.2.9" {
        assert!(Instant::now() < end, "{}", server.log());
    }
    assert!(!server.may_read());

    server.etc("hosts", "127.0.0.1 member.test\n192.0.2.9 dns.test\n");
    server.etc(
        "netgroup",
        "crew more (member.test,,)\nmore (192.0.2.4,,) (-,root,)\n",
    );
    let crew = server.until("@crew", "known");
    assert_eq!(crew["addresses"].as_array().unwrap().len(), 2, "{crew}");
    assert!(server.may_read(), "{}", server.log());
    let shown = server.ctl(&["exports"]);
    assert!(
        shown.contains("@crew  rw, squash none\n    is 127.0.0.1 192.0.2.4"),
        "{shown}"
    );
}

#[test]
fn check_tells_what_names_stand_for_and_which_nobody_has() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("p.toml");
    let config = "[[export]]\npath = \"/\"\npseudo = \"/a\"\nclients = [\"localhost\", \"no-such-host.invalid\"]\n";
    fs::write(&file, config).unwrap();
    let check = |more: &[&str]| {
        let mut command = penstock();
        command
            .arg("check")
            .arg(&file as &Path)
            .args(more)
            .output()
            .unwrap()
    };
    let told = check(&[]);
    let (out, warnings) = (text(&told.stdout), text(&told.stderr));
    assert!(told.status.success(), "{warnings}");
    assert!(
        out.contains("localhost (127.0.0.1") || out.contains("localhost (::1"),
        "{out}"
    );
    assert!(out.contains("no-such-host.invalid (nobody"), "{out}");
    assert!(
        warnings.contains("client no-such-host.invalid: it matches nobody"),
        "{warnings}"
    );
    let told: Value = serde_json::from_slice(&check(&["--json"]).stdout).unwrap();
    let name = &told["exports"][0]["clients"][1]["name"];
    assert_eq!(name["state"], "nobody", "{told}");
    let told = check(&["--as", "192.0.2.1"]);
    assert_eq!(told.status.code(), Some(1), "{}", text(&told.stdout));
}
