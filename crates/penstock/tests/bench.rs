//! `penstock bench`: whole runs on our own server, their reports, and comparisons of these.

mod support;

use std::fs;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::server::Served;
use support::{penstock, run, text};

#[test]
fn our_server_is_measured_in_each_mode_and_gone_afterwards() {
    let (files, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = penstock();
    command.args([
        "bench",
        "metadata",
        "--self",
        "--local=buffered",
        "--names=20",
    ]);
    command
        .args(["--repetitions=1", "--directory"])
        .arg(files.path());
    let ended = command.arg("--report").arg(out.path()).output().unwrap();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let shown = text(&ended.stdout);
    let json = fs::read_to_string(out.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&json).unwrap();
    let rows = report["rows"].as_array().unwrap();
    for mode in ["buffered", "dontcache", "direct", "auto"] {
        let name = format!("penstock {mode}");
        let steps: Vec<_> = rows
            .iter()
            .filter(|row| row["target"] == name.as_str())
            .map(|row| row["step"].as_str().unwrap())
            .collect();
        assert_eq!(steps, ["create", "stat", "readdir", "rename", "remove"]);
        assert!(shown.contains(&name), "{shown}");
    }
    for name in ["report.html", "report.md"] {
        let page = fs::read_to_string(out.path().join(name)).unwrap();
        assert!(page.contains("penstock direct"), "{name}");
    }
    assert_eq!(fs::read_dir(files.path()).unwrap().count(), 0);
}

#[test]
fn data_comes_back_from_each_version_of_nfs() {
    let server = Served::serving(&["3", "4.1", "4.2"]);
    for version in ["3", "4.1", "4.2"] {
        let url = server.url_with("", &format!("version={version}"));
        let mut command = penstock();
        command.args([
            "bench",
            "ior-hard",
            "--size=1MiB",
            "--repetitions=1",
            "--json",
        ]);
        let ended = command.args(["--server", &url]).output().unwrap();
        assert!(ended.status.success(), "{version}: {}", text(&ended.stderr));
        let report: Value = serde_json::from_slice(&ended.stdout).unwrap();
        let moved = |row: &Value| row["samples"][0]["bytes"].as_u64().unwrap();
        let whole = (1 << 20) / 47_008 * 47_008;
        assert!(
            report["rows"]
                .as_array()
                .unwrap()
                .iter()
                .all(|row| moved(row) == whole)
        );
    }
    assert_eq!(fs::read_dir(server.path("")).unwrap().count(), 0);
}

#[test]
fn compare_tells_worse_by_its_exit_code_and_refuses_the_rest() {
    let base = tempfile::tempdir().unwrap();
    let made = penstock()
        .args([
            "bench",
            "seq-write",
            "--local=buffered",
            "--size=1MiB",
            "--repetitions=2",
        ])
        .arg("--directory")
        .arg(base.path())
        .arg("--report")
        .arg(base.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    let json = fs::read_to_string(base.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&json).unwrap();
    let write = |name: &str, change: fn(&mut Value)| {
        let mut changed = report.clone();
        change(&mut changed);
        let path = base.path().join(name);
        fs::write(&path, changed.to_string()).unwrap();
        path.display().to_string()
    };
    let same = write("same", |_| {});
    let slow = write("slow", |report| {
        for figure in ["median", "min", "max"] {
            report["rows"][0]["figures"]["throughput"][figure] = 0.001.into();
        }
    });
    let other = write("other", |report| report["workload"] = "seq-read".into());
    let torn = write("torn", |report| *report = Value::Null);
    let compare = |new: &str| run(&["bench", "compare", &same, new]);
    assert_eq!(compare(&same).status.code(), Some(0));
    let worse = compare(&slow);
    assert_eq!(worse.status.code(), Some(1));
    assert!(text(&worse.stdout).contains("WORSE"));
    let refused = compare(&other);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("different workloads: seq-write and seq-read"));
    assert_eq!(compare(&torn).status.code(), Some(2));
    assert_eq!(compare("/nowhere").status.code(), Some(1));
}

#[test]
fn numbers_that_a_workload_does_not_use_are_refused() {
    let refused = |arguments: &[&str], word: &str| {
        let ended = run(&[&["bench"], arguments].concat());
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        assert!(
            text(&ended.stderr).contains(word),
            "{}",
            text(&ended.stderr)
        );
    };
    refused(
        &["seq-read", "--names=3"],
        "--names changes nothing of seq-read",
    );
    refused(&["metadata", "--size=1MiB"], "--size");
    refused(&["seq-read", "--depth=0"], "depth");
    refused(&["seq-read", "--repetitions=0"], "--repetitions");
    refused(&["seq-read", "--self=fast"], "dontcache");
    refused(&["seq-read", "--self=auto,auto"], "named twice");
}

#[test]
fn ctrl_c_ends_the_run_with_its_server_and_files() {
    let files = tempfile::tempdir().unwrap();
    let child = penstock()
        .args([
            "bench",
            "random-4k",
            "--self=buffered",
            "--size=1MiB",
            "--seconds=600",
        ])
        .arg("--directory")
        .arg(files.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let state = || found(files.path());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !state() {
        assert!(
            std::time::Instant::now() < deadline,
            "no file of the run appears"
        );
        // SLEEP: a poll for the files of another process.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    assert_eq!(fs::read_dir(files.path()).unwrap().count(), 0);
}

/// Whether the run's server has made the file of the measurement.
fn found(files: &Path) -> bool {
    let runs = fs::read_dir(files).unwrap();
    runs.flatten()
        .any(|run| run.path().join("buffered/export/data").exists())
}
