//! The audit of a real server, which has confined itself, as it is followed and as it is kept.

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use support::{penstock, run, text};

/// A child that is killed if the test ends before it.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail for one that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn changes_are_followed_and_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let base = scratch.path();
    let state = base.join("state");
    fs::create_dir(base.join("data")).unwrap();
    let file = base.join("penstock.toml");
    let data = base.join("data");
    let config = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\nrpcbind = false\n\
         [[export]]\npath = {data:?}\npseudo = \"/\"\nsquash = \"none\"\naudit = \"changes\"\n"
    );
    fs::write(&file, config).unwrap();
    let mut command = penstock();
    command
        .arg("serve")
        .arg("--config")
        .arg(&file)
        .arg("--state-dir")
        .arg(&state);
    let mut server = Running::start(&mut command);
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let listening = lines.nth(1).unwrap().unwrap();
    let address = listening.strip_prefix("listening ").unwrap();

    let mut command = penstock();
    command
        .arg("ctl")
        .arg("--state-dir")
        .arg(&state)
        .args(["--json", "audit", "follow"]);
    let mut follower = Running::start(&mut command);
    let mut told = BufReader::new(follower.0.stderr.take().unwrap()).lines();
    assert!(told.next().unwrap().unwrap().contains("following"));
    let made = run(&["mkdir", &format!("nfs://{address}/dir")]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let mut lines = BufReader::new(follower.0.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(event["operation"], "mkdir");
    assert_eq!(event["name"], "dir");
    assert_eq!(event["status"], "NFS3_OK");
    assert_eq!(event["uid"], rustix::process::geteuid().as_raw());

    let pid = rustix::process::Pid::from_child(&server.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.0.wait().unwrap().success());
    let kept = fs::read_to_string(state.join("audit.jsonl")).unwrap();
    assert_eq!(kept.lines().next(), Some(line.as_str()));
}
