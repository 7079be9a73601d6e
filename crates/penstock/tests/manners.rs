//! What the client commands say of servers that do not answer, of ports that speak something else, and of what
//! they have done.

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::server::Served;
use support::{penstock, run, text};

/// Starts a command whose standard error is read.
fn started(arguments: &[&str]) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut command = penstock();
    command.args(arguments).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let errors = BufReader::new(child.stderr.take().unwrap());
    (child, errors.lines().map(Result::unwrap))
}

#[test]
fn a_silent_server_is_told_and_so_is_that_it_answers_again() {
    let server = Served::new();
    std::fs::create_dir(server.path("dir")).unwrap();
    let stopped = server.pid();
    kill_process(stopped, Signal::STOP).unwrap();
    let url = server.url("dir");
    let address = server.address();
    let silent = format!("penstock: server {address} does not answer, still trying (");
    let (mut ls, mut lines) = started(&["ls", &url]);
    let (mut du, mut json) = started(&["du", "--log-json", &url]);
    let (mut quiet, errors) = started(&["ls", "--quiet", &url]);
    let first = lines.next().unwrap();
    assert!(
        first.starts_with(&silent) && first.ends_with(" s)"),
        "{first}"
    );
    let warned: Value = serde_json::from_str(&json.next().unwrap()).unwrap();
    assert_eq!(
        (&warned["level"], &warned["server"]),
        (&"warn".into(), &address.into())
    );
    assert!(warned["silent_seconds"].as_u64().unwrap() >= 3, "{warned}");
    kill_process(stopped, Signal::CONT).unwrap();
    // Others may come before it on a busy machine.
    let answers = format!("penstock: server {address} answers again");
    let rest: Vec<String> = lines.collect();
    assert_eq!(rest.last(), Some(&answers), "{rest:?}");
    let last: Value = serde_json::from_str(&json.last().unwrap()).unwrap();
    assert_eq!(last["message"], format!("server {address} answers again"));
    for child in [&mut ls, &mut du, &mut quiet] {
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
    assert_eq!(errors.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn a_port_that_speaks_something_else_is_named() {
    let table: [(&[u8], &str); 3] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answers HTTP"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "answers SSH"),
        (&[21, 3, 1, 0, 2, 2, 10], "answers TLS"),
    ];
    for (answer, expected) in table {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("nfs://{}/x", listener.local_addr().unwrap());
        let peer = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let mut call = [0; 4];
            peer.read_exact(&mut call).unwrap();
            peer.write_all(answer).unwrap();
            // The client hangs up.
            let _reset = peer.read_to_end(&mut Vec::new());
        });
        let output = run(&["ls", &url]);
        peer.join().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(expected), "{errors}");
    }
}

#[test]
fn what_was_left_alone_is_not_counted_as_copied() {
    let server = Served::new();
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("source");
    std::fs::create_dir(&source).unwrap();
    for (name, len) in [("a", 1000), ("b", 3000)] {
        std::fs::write(source.join(name), vec![b'x'; len]).unwrap();
    }
    let (source, url) = (source.to_str().unwrap(), server.url(""));
    let summary = |options: &[&str]| {
        let output = run(&[&["cp", "-r", "--json"], options, &[source, &url]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let told = text(&output.stdout);
        let last: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
        let figures = &last["summary"];
        let number = |key: &str| figures[key].as_u64().unwrap();
        let counted = ["files", "bytes", "files_left", "bytes_left"].map(number);
        (counted, figures["dry_run"].as_bool().unwrap())
    };
    assert_eq!(summary(&["--dry-run"]), ([2, 4000, 0, 0], true));
    assert_eq!(summary(&[]), ([2, 4000, 0, 0], false));
    assert_eq!(summary(&["-u"]), ([0, 0, 2, 4000], false));
    std::fs::write(format!("{source}/c"), "new").unwrap();
    assert_eq!(summary(&["-u", "--dry-run"]), ([1, 3, 2, 4000], true));
    let told = run(&["cp", "-r", "-u", "--dry-run", source, &url]);
    let told = text(&told.stderr);
    let expected =
        "penstock: dry run: 1 files, 3 B would be copied; 2 files, 3.91 KiB left as they were\n";
    assert_eq!(told, expected);
    // Off a terminal, totals are told to who asks how far it is; not to who wants quiet.
    let told = text(&run(&["cp", "-r", "--progress", source, &url]).stderr);
    assert!(
        told.starts_with("penstock: 3 files, 3.91 KiB copied in "),
        "{told}"
    );
    for options in [&["--progress", "--quiet"][..], &[]] {
        let told = run(&[&["cp", "-r"], options, &[source, &url]].concat());
        assert_eq!(text(&told.stderr), "", "{options:?}");
    }
}

impl Served {
    fn pid(&self) -> Pid {
        Pid::from_child(self.child())
    }
}
