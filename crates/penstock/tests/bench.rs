//! `penstock bench`: whole runs on our own server, their reports, and comparisons of these.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

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

/// The report of a run that has to succeed.
fn report_of(arguments: &[&str], out: &Path) -> Value {
    let mut command = penstock();
    command.arg("bench").args(arguments);
    let ended = command.arg("--report").arg(out).output().unwrap();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let json = fs::read_to_string(out.join("report.json")).unwrap();
    serde_json::from_str(&json).unwrap()
}

#[test]
fn the_generator_is_measured_by_itself() {
    let out = tempfile::tempdir().unwrap();
    // Where this machine stands still no call ends in a moment: then each is measured for longer.
    let report = [0.02, 0.2, 2.0].iter().find_map(|seconds| {
        // More connections than there are threads for them.
        let seconds = format!("--seconds={seconds}");
        let arguments = ["ceiling", "--repetitions=1", "--connections=20", &seconds];
        let report = report_of(&arguments, out.path());
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 16);
        assert!(rows.iter().all(|row| row["target"] == "responder"));
        let calls = |row: &Value| row["samples"][0]["calls"].as_u64();
        rows.iter()
            .all(|row| calls(row) > Some(0))
            .then_some(report)
    });
    let report = report.expect("each row has calls");
    assert_eq!(report["ceiling"], Value::Array(Vec::new()));
    let page = fs::read_to_string(out.path().join("report.html")).unwrap();
    assert!(page.contains("READ 1 MiB, 32 in flight"));
}

#[test]
fn connections_that_share_threads_do_all_of_the_work() {
    let (files, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let directory = format!("--directory={}", files.path().display());
    // More of them than there are threads, and more of one thread than of another.
    let arguments = ["ior-easy", "--self=buffered", "--connections=37"];
    let sizes = ["--size=128KiB", "--record=64KiB", "--repetitions=1"];
    let report = report_of(
        &[&arguments[..], &sizes, &[&directory]].concat(),
        out.path(),
    );
    for row in report["rows"].as_array().unwrap() {
        let sample = &row["samples"][0];
        assert_eq!(
            (&sample["bytes"], &sample["calls"]),
            (&(37 * (128 << 10)).into(), &74.into())
        );
    }
}

#[test]
fn small_calls_and_connections_are_measured_and_idle_ones_are_weighed() {
    let (files, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let directory = format!("--directory={}", files.path().display());
    let common = ["--self=buffered", "--repetitions=1", "--seconds=0.02"];
    let common = [&common[..], &["--size=1MiB", &directory]].concat();
    let steps = |report: &Value| -> Vec<String> {
        let rows = report["rows"].as_array().unwrap();
        let steps = rows.iter().map(|row| row["step"].as_str().unwrap());
        steps.map(str::to_owned).collect()
    };
    let polling = ["small-calls", "--busy-poll=60us"];
    let report = report_of(&[&polling[..], &common].concat(), out.path());
    let page = fs::read_to_string(out.path().join("report.md")).unwrap();
    assert!(page.contains("the generator polls for 60 µs"), "{page}");
    let wanted = [
        "NULL",
        "GETATTR",
        "LOOKUP",
        "ACCESS",
        "NULL beside FILE_SYNC",
        "FILE_SYNC beside NULL",
    ];
    assert_eq!(steps(&report), wanted);
    assert_eq!(report["ceiling"].as_array().unwrap().len(), 5);
    let report = report_of(
        &[&["connections", "--idle=200"], &common[..]].concat(),
        out.path(),
    );
    let wanted = [
        "1 connection",
        "4 connections",
        "16 connections",
        "256 connections",
        "16 beside 200 idle ones",
    ];
    assert_eq!(steps(&report), wanted);
    let idle = &report["idle"][0];
    assert_eq!(
        (&idle["open_before"], &idle["connections"]),
        (&50.into(), &150.into())
    );
    assert!(
        idle["after_bytes"].as_u64() > idle["before_bytes"].as_u64(),
        "{idle}"
    );
}

#[test]
fn idle_connections_that_a_server_closes_are_told() {
    // Of so many descriptors, half are for connections, and a quarter of those for one host: 300.
    told_of_closed_connections(2400, "--idle=400", "idle connections, penstock buffered: ");
}

#[test]
fn more_connections_than_a_server_gives_are_told_and_not_made_for_ever() {
    told_of_closed_connections(2040, "--idle=0", "256 connections, penstock buffered: ");
}

/// Measures connections to a server that has so many descriptors, and expects that this is told to be not measured.
fn told_of_closed_connections(fds: u32, idle: &str, expected: &str) {
    let files = tempfile::tempdir().unwrap();
    let directory = format!("--directory={}", files.path().display());
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -n \"$1\"; shift; exec \"$@\"",
        "sh",
        &fds.to_string(),
    ]);
    command.arg(env!("CARGO_BIN_EXE_penstock"));
    command.args(["bench", "connections", idle, "--self=buffered"]);
    command.args([
        "--repetitions=1",
        "--seconds=0.02",
        "--size=1MiB",
        &directory,
    ]);
    let ended = command.output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let shown = text(&ended.stdout);
    assert!(
        shown.contains(&format!("note: Not measured: {expected}")),
        "{shown}{}",
        text(&ended.stderr)
    );
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
    refused(&["seq-read", "--self=buffered+staging"], "direct+staging");
    refused(&["seq-read", "--memory=1MiB"], "at least 64 MiB");
    refused(&["connections", "--connections=2"], "changes nothing");
    refused(&["seq-read", "--idle=2"], "changes nothing");
    refused(&["small-calls", "--local"], "no connections and no NULL");
    refused(&["small-calls", "--busy-poll=1s"], "\"50us\", \"1ms\"");
    refused(&["ceiling", "--connections=9999"], "--connections");
    refused(
        &["seq-read", "--local", "--memory=64MiB"],
        "--local=direct may stay",
    );
}

#[test]
fn a_server_with_little_memory_is_in_a_group_of_that_size() {
    let files = tempfile::tempdir().unwrap();
    let child = penstock()
        .args(["bench", "random-4k", "--self=buffered", "--memory=64MiB"])
        .args(["--size=1MiB", "--seconds=600", "--directory"])
        .arg(files.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    let name = format!("penstock-bench-{}-buffered", child.id());
    let groups =
        ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(|root| Path::new(root).join(&name));
    let mut limits = None;
    until("the server has made its file", || {
        // Either no group can be made here, which the command says, or it is there before the server's first file.
        found(files.path()) || ended(child.id())
    });
    if let Some(group) = groups.iter().find(|group| group.exists()) {
        let limit = ["memory.limit_in_bytes", "memory.max"]
            .map(|file| fs::read_to_string(group.join(file)).unwrap_or_default())
            .concat();
        let inside = fs::read_to_string(group.join("cgroup.procs")).unwrap();
        limits = Some((limit, inside));
        kill_process(pid, Signal::INT).unwrap();
    }
    let done = child.wait_with_output().unwrap();
    let said = text(&done.stderr);
    let Some((limit, inside)) = limits else {
        assert_eq!(done.status.code(), Some(1), "{said}");
        assert!(
            said.contains("no memory cgroup can be made: /sys/fs/cgroup"),
            "{said}"
        );
        assert!(said.contains("--server"), "{said}");
        return nfs_lab::skipped("no memory cgroup can be made here");
    };
    assert_eq!(limit.trim(), (64 << 20).to_string());
    assert_eq!(inside.lines().count(), 1, "{inside}");
    assert_eq!(done.status.code(), Some(130), "{said}");
    assert!(!groups.iter().any(|group| group.exists()));
}

#[test]
fn ganesha_is_measured_beside_ours_and_gone_afterwards() {
    let (files, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = penstock();
    command
        .args(["bench", "seq-write", "--self=direct", "--peer=ganesha"])
        .args(["--size=2MiB", "--repetitions=1", "--directory"])
        .arg(files.path());
    let ended = command.arg("--report").arg(out.path()).output().unwrap();
    let said = text(&ended.stderr);
    if ended.status.code() == Some(1) && said.contains("ganesha does not start: ") {
        let is_told = said.contains("apt install nfs-ganesha") || said.contains("by root");
        assert!(is_told, "{said}");
        return nfs_lab::skipped(&said);
    }
    assert!(ended.status.success(), "{said}");
    let json = fs::read_to_string(out.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&json).unwrap();
    let sample = |row: usize| &report["rows"][row]["samples"][0];
    assert_eq!(report["rows"][1]["target"], "ganesha");
    assert_eq!(sample(1)["bytes"], 2 << 20);
    assert_eq!(sample(1)["calls"], sample(0)["calls"]);
    let peer = report["environment"]["peers"][0].as_str().unwrap();
    assert!(peer.starts_with("NFS-Ganesha V"), "{peer}");
    assert_eq!(fs::read_dir(files.path()).unwrap().count(), 0);
    assert_eq!(processes_of(files.path()), 0);
}

#[test]
fn what_is_mounted_is_measured_by_system_calls_and_left_as_it_was() {
    let (mount, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = penstock();
    command.args(["bench", "ior-hard", "--size=1MiB", "--repetitions=1"]);
    command.arg("--mounted").arg(mount.path());
    let ended = command.arg("--report").arg(out.path()).output().unwrap();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let json = fs::read_to_string(out.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&json).unwrap();
    let name = format!("mounted {}", mount.path().display());
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["target"] == name.as_str()));
    assert_eq!(rows.len(), 2);
    let told = &report["environment"]["mounts"][0];
    assert!(
        told["kind"].is_string() && told["options"].is_string(),
        "{told}"
    );
    assert_eq!(report["ceiling"], Value::Array(Vec::new()));
    assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
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
    until("the server has made its file", || found(files.path()));
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    assert_eq!(fs::read_dir(files.path()).unwrap().count(), 0);
}

#[test]
fn a_server_that_is_gone_ends_the_run_and_is_asked_nothing_more() {
    let server = Served::serving(&["3"]);
    let child = penstock()
        .args(["bench", "random-4k", "--size=1MiB", "--seconds=600"])
        .args(["--timeout=5", "--server", &server.url("")])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the file is made and read", || {
        server
            .ctl(&["status", "--json"])
            .contains("\"calls_read\":")
    });
    // It keeps its connections and says nothing, as one that waits for its disk for ever.
    let pid = Pid::from_raw(server.child().id().cast_signed()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("no reply within 5s").count(), 2, "{said}");
    for words in [
        "does not answer, still trying",
        "read: READ: no reply within 5s",
        "not asked: the server has not answered before",
        "stays on",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn what_a_killed_run_left_is_removed_by_the_next() {
    let files = tempfile::tempdir().unwrap();
    let mut command = penstock();
    command.args(["bench", "random-4k", "--self=buffered", "--size=1MiB"]);
    command.args(["--seconds=600", "--directory"]);
    let mut child = command.arg(files.path()).spawn().unwrap();
    until("the server has made its file", || found(files.path()));
    child.kill().unwrap();
    child.wait().unwrap();
    until("its server has ended", || processes_of(files.path()) == 0);
    assert_eq!(fs::read_dir(files.path()).unwrap().count(), 1);
    let mut command = penstock();
    command.args(["bench", "seq-write", "--local=buffered", "--size=1MiB"]);
    command.args(["--repetitions=1", "--directory"]);
    let ended = command.arg(files.path()).output().unwrap();
    let said = text(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert!(said.contains("which an earlier run left"), "{said}");
    assert_eq!(fs::read_dir(files.path()).unwrap().count(), 0);
}

/// How many processes have a directory in their command line.
fn processes_of(directory: &Path) -> usize {
    let directory = directory.display().to_string();
    let has = |process: &fs::DirEntry| {
        let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
        text(&words).contains(&directory)
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter(has).count()
}

/// Whether the run's server has made the file of the measurement.
fn found(files: &Path) -> bool {
    let runs = fs::read_dir(files).unwrap();
    runs.flatten()
        .any(|run| run.path().join("buffered/export/data").exists())
}

/// Whether a child of this process has ended, waited for or not.
fn ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_none_or(|rest| rest.starts_with('Z') || rest.is_empty())
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "waited for: {what}");
        // SLEEP: a poll for what another process does.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_tip_over_is_shown_from_moment_to_moment() {
    let (files, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = penstock();
    command.args(["bench", "tip-over", "--self=direct", "--local=buffered"]);
    command.args(["--size=8MiB", "--repetitions=1", "--directory"]);
    command.arg(files.path()).arg("--report").arg(out.path());
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let json = fs::read_to_string(out.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&json).unwrap();
    for row in report["rows"].as_array().unwrap() {
        let moments = row["series"]["moments"].as_array().unwrap();
        let calls: u64 = moments.iter().filter_map(|one| one["calls"].as_u64()).sum();
        let last = moments.last().unwrap();
        // Eight records are written, and after each one call reads, or looks where there is nothing to read yet.
        assert_eq!((calls, last["written_bytes"].as_u64()), (16, Some(8 << 20)));
        assert_eq!(row["samples"][0]["calls"], 16);
        for seen in ["user_cores", "system_cores", "page_cache_bytes"] {
            assert!(last[seen].is_number(), "{seen}: {last}");
        }
    }
    let page = fs::read_to_string(out.path().join("report.html")).unwrap();
    assert!(page.contains("<path class=\"line s1\""));
}
