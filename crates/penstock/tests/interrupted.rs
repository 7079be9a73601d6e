//! `penstock cp` that is killed or asked to end in the middle of a file, and goes on.

mod support;

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal};
use support::copy::{noise, succeeds};
use support::server::Served;
use support::{penstock, text};

/// Waits until `path` is at least `len` bytes long, or the process has ended. How long it is.
fn wait_for_len(path: &Path, len: u64, child: &mut Child) -> u64 {
    loop {
        let found = fs::metadata(path).map_or(0, |metadata| metadata.len());
        if found >= len || child.try_wait().unwrap().is_some() {
            return found;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_copy_that_was_killed_goes_on() {
    const MIB: u64 = 1 << 20;
    let server = Served::new();
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("large");
    fs::write(&source, noise(9, 100 << 20)).unwrap();
    let content = fs::read(&source).unwrap();
    for (round, at) in [1, 70 * MIB, 99 * MIB].into_iter().enumerate() {
        let name = format!("large{round}");
        let down = here.path().join(&name);
        // Up, then down; what a killed one left is gone on with.
        let directions: [(&dyn AsRef<OsStr>, &dyn AsRef<OsStr>, PathBuf); 2] = [
            (&source, &server.url(&name), server.path(&name)),
            (&server.url(&name), &down, down.clone()),
        ];
        for (from, to, result) in directions {
            let mut command = penstock();
            let mut child = command
                .arg("cp")
                .arg(from)
                .arg(to)
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let len = wait_for_len(&result, at, &mut child);
            child.kill().unwrap();
            child.wait().unwrap();
            let told = succeeds(&[&"--resume", &"--json", from, to]);
            let line: serde_json::Value =
                serde_json::from_str(told.lines().next().unwrap()).unwrap();
            if len > 66 * MIB && len < 100 * MIB {
                assert_eq!(line["done"], "resumed", "{line} of {len}");
                assert!(
                    line["from"].as_u64().unwrap() >= len - 65 * MIB - len % MIB,
                    "{line}"
                );
            }
            assert!(
                fs::read(&result).unwrap() == content,
                "{result:?} from {len}"
            );
        }
    }
    // What is there, but is another file, is not gone on with: the source is looked at first.
    let other = server.path("other");
    fs::write(&other, vec![7; 90 << 20]).unwrap();
    let told = succeeds(&[&"--resume", &"--json", &source, &server.url("other")]);
    assert!(told.contains("\"replaced\""), "{told}");
    assert!(fs::read(&other).unwrap() == content);
}

/// A proxy that lets no more than so many bytes of a connection go to the server, until it is opened: a copy
/// through it is in the middle for as long as a test wants.
struct Gate {
    address: String,
    open: Arc<AtomicBool>,
}

impl Gate {
    fn new(server: &Served, most: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (open, opened) = (
            Arc::new(AtomicBool::new(false)),
            server.address().to_owned(),
        );
        let gate = open.clone();
        // They end with the test's process, or with their connection.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect(&opened).unwrap();
                let (up, down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let gate = gate.clone();
                std::thread::spawn(move || pass(up, server, Some((most, gate))));
                std::thread::spawn(move || pass(down, client, None));
            }
        });
        Self { address, open }
    }

    fn open(&self) {
        self.open.store(true, Ordering::Release);
    }
}

/// Waits until the process has no signal before it any more: it has taken it.
fn until_taken(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    let waits = |line: &str| {
        let pending = line.strip_prefix("ShdPnd:");
        pending.is_some_and(|bits| bits.trim().bytes().any(|digit| digit != b'0'))
    };
    while fs::read_to_string(&status).unwrap().lines().any(waits) {
        std::thread::yield_now();
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, gate: Option<(usize, Arc<AtomicBool>)>) {
    let (mut buffer, mut passed) = (vec![0; 16 << 10], 0);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if let Some((most, open)) = &gate {
            while passed + count > *most && !open.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
        passed += count;
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // Whoever waits at the other end learns that it is over.
    let _ended_before = to.shutdown(Shutdown::Both);
    let _ended_before = from.shutdown(Shutdown::Both);
}

#[test]
fn ctrl_c_says_what_is_there_and_how_to_go_on() {
    let server = Served::new();
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("it's large");
    fs::write(&source, noise(3, 32 << 20)).unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        let gate = Gate::new(&server, 1_000_000);
        let url = format!("nfs://{}/slow", gate.address);
        let mut child = penstock()
            .args(["cp", "--window=1", "--transfer=4KiB"])
            .arg(&source)
            .arg(&url)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for_len(&server.path("slow"), 100_000, &mut child);
        rustix::process::kill_process(Pid::from_child(&child), signal).unwrap();
        until_taken(&child);
        gate.open();
        let mut errors = String::new();
        let mut pipe = child.stderr.take().unwrap();
        pipe.read_to_string(&mut errors).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{errors}");
        let there = fs::metadata(server.path("slow")).unwrap().len();
        assert!(there < 32 << 20, "the gate lets everything pass");
        let said = errors
            .lines()
            .find_map(|line| line.split_once("stopped; "))
            .expect(&errors)
            .1;
        assert_eq!(said, format!("{there} bytes of {url} are there"));
        let again = errors
            .lines()
            .find_map(|line| line.strip_prefix("penstock: to go on: "));
        let again = again.expect(&errors).strip_prefix("penstock ").unwrap();
        let shell = format!("{} {again}", env!("CARGO_BIN_EXE_penstock"));
        let shell = shell.replace("--window=1 --transfer=4096", "");
        let went_on = Command::new("sh").args(["-c", &shell]).output().unwrap();
        assert_eq!(went_on.status.code(), Some(0), "{}", text(&went_on.stderr));
        assert!(fs::read(&source).unwrap() == fs::read(server.path("slow")).unwrap());
        fs::remove_file(server.path("slow")).unwrap();
    }
}
