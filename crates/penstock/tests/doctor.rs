//! `penstock doctor` from outside: exit codes, JSON, what it leaves behind.

mod support;

use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal};
use serde_json::Value;
use support::server::Served;
use support::{penstock, run, text};

fn objects(output: &std::process::Output) -> Vec<Value> {
    let lines = text(&output.stdout);
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_directory_is_probed_and_left_empty() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let output = run(&["doctor", "--json", path]);
    let code = output.status.code().unwrap();
    assert!(code == 0 || code == 1, "{}", text(&output.stderr));
    let objects = objects(&output);
    assert_eq!(objects.len(), 1);
    let report = &objects[0];
    assert_eq!(
        (&report["path"], &report["error"]),
        (&path.into(), &Value::Null)
    );
    let findings = report["findings"].as_array().unwrap();
    let missing = findings.iter().any(|finding| finding["level"] == "missing");
    assert_eq!(code, i32::from(missing));
    for mode in ["buffered", "dontcache", "direct"] {
        for operation in ["read", "write", "commit"] {
            assert!(report["modes"][mode][operation].is_string(), "{report}");
        }
    }
    let modes = ["buffered", "dontcache", "direct"].map(Value::from);
    assert!(modes.contains(&report["recommendation"]["read"]));
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
}

#[test]
fn the_page_has_its_sections_and_no_colours_in_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let page = text(&run(&["doctor", path]).stdout);
    for heading in [
        "place",
        "modes",
        "server",
        "what a mode does here",
        "recommended",
    ] {
        assert!(page.lines().any(|line| line == heading), "{page}");
    }
    assert!(!page.contains('\x1b'));
    let coloured = |variables: &[(&str, &str)]| {
        let mut command = penstock();
        command
            .args(["doctor", path])
            .envs(variables.iter().copied());
        command.output().unwrap().stdout.contains(&0x1b)
    };
    assert!(coloured(&[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}

#[test]
fn odd_directories_end_with_2_and_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let gone = dir.path().join("gone");
    for (path, reason) in [
        (file.as_path(), "not a directory"),
        (gone.as_path(), "no such directory"),
    ] {
        let output = run(&["doctor", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        assert!(
            said.contains(reason) && said.contains(path.to_str().unwrap()),
            "{said}"
        );
    }
    for path in ["/proc", "/sys", "/proc/self"] {
        let output = run(&["doctor", path]);
        assert_eq!(output.status.code(), Some(2), "{path}");
        assert!(text(&output.stdout).contains("nothing could be tried"));
    }
    assert_eq!(run(&["doctor"]).status.code(), Some(2));
}

#[test]
fn of_several_directories_each_is_told_and_the_worst_decides() {
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().to_str().unwrap();
    let output = run(&["doctor", "--json", "/nonexistent", good]);
    assert_eq!(output.status.code(), Some(2));
    let objects = objects(&output);
    assert_eq!(objects.len(), 2);
    let error = &objects[0]["error"];
    assert_eq!(error["path"], "/nonexistent");
    assert!(error["message"].as_str().unwrap().contains("no such"));
    assert!(objects[1]["error"].is_null());
    let page = text(&run(&["doctor", good, good]).stdout);
    let titles = page.lines().filter(|line| line.starts_with(good));
    assert_eq!(titles.count(), 2);
}

#[test]
fn a_tmpfs_is_told_from_a_disk() {
    let memory = Path::new("/dev/shm");
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    if !mounts.lines().any(|line| line.contains(" /dev/shm tmpfs ")) {
        nfs_lab::skipped("no tmpfs at /dev/shm");
        return;
    }
    let output = run(&["doctor", "--json", memory.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "dontcache is missing there");
    let report = &objects(&output)[0];
    assert_eq!(report["file_system"]["type"], "tmpfs");
    assert_eq!(report["trials"]["dontcache_read"]["is"], "refused");
    assert_eq!(report["recommendation"]["read"], "buffered");
}

/// The names in the served directory that an examination makes.
fn left(server: &Served) -> usize {
    let names = server.path("").read_dir().unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.starts_with(".penstock-doctor-"))
        .count()
}

fn about<'a>(report: &'a Value, subject: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    let of = findings.iter().find(|one| one["subject"] == subject);
    of.unwrap_or_else(|| panic!("nothing about {subject}: {report:#}"))
}

fn url(server: &Served, version: &str) -> String {
    format!("nfs://{}/?version={version}", server.address())
}

#[test]
fn a_server_is_examined_over_each_version_and_left_as_it_was() {
    let server = Served::serving(&["3", "4.1", "4.2"]);
    for version in ["3", "4.1", "4.2"] {
        let output = run(&["doctor", "--json", &url(&server, version)]);
        let report = &objects(&output)[0];
        assert_eq!(output.status.code(), Some(0), "{report:#}");
        let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
        let expected = [
            "calls",
            "error",
            "findings",
            "fsinfo",
            "latency",
            "own_directory",
            "path",
            "pathconf",
            "server",
            "services",
            "stable",
            "trials",
            "url",
            "verdict",
            "version",
            "worst",
        ];
        let mut sorted = keys.clone();
        sorted.sort();
        assert_eq!(sorted, expected);
        assert_eq!(report["version"], version);
        assert_eq!(report["error"], Value::Null);
        for other in ["3", "4.1", "4.2"] {
            assert_eq!(
                report["services"]["nfs"][other]["answers"], true,
                "{report:#}"
            );
        }
        let trials = &report["trials"];
        assert_eq!(trials["verifier"]["changes"], 0);
        assert_eq!(trials["verifier"]["same_over_another_connection"], true);
        for step in [
            "another_connection",
            "renamed",
            "moved",
            "directory_renamed",
        ] {
            assert_eq!(trials["handles"][step], "ok", "{trials:#}");
        }
        let listing = &trials["listing"];
        assert_eq!(
            (&listing["lost"], &listing["twice"]),
            (&0.into(), &0.into())
        );
        assert_eq!(listing["entries"], 62);
        assert!(listing["pages"].as_u64().unwrap() > 2, "{listing}");
        assert_eq!(listing["wrong_verifier"], "NFS3ERR_BAD_COOKIE");
        assert_eq!(trials["exclusive"]["again"], true);
        assert_eq!(trials["exclusive"]["other"], "NFS3ERR_EXIST");
        assert_eq!(trials["identities"]["stranger_uid"], 2_140_000_017);
        if version == "3" {
            for change in ["WRITE", "SETATTR", "CREATE", "REMOVE"] {
                assert_eq!(trials["wcc"][change]["before"], true, "{trials:#}");
            }
            assert_eq!(trials["handles"]["removed"], "NFS3ERR_STALE");
        } else {
            assert_eq!(trials["wcc"]["atomic"], true);
        }
        for times in ["write_unstable", "commit", "commit_idle", "write_file_sync"] {
            assert!(report["stable"][times]["p50_ns"].as_u64().unwrap() > 0);
        }
        assert_eq!(report["own_directory"]["removed"], true);
        assert_eq!(server.path("").read_dir().unwrap().count(), 0);
    }
    let page = text(&run(&["doctor", &server.url("")]).stdout);
    for heading in [
        "services",
        "abilities",
        "stability",
        "consistency",
        "identity",
        "examination",
    ] {
        assert!(page.lines().any(|line| line == heading), "{page}");
    }
    assert!(
        page.lines().all(|line| line.chars().count() <= 100),
        "{page}"
    );
}

#[test]
fn an_examination_that_only_reads_writes_nothing() {
    let server = Served::serving(&["3"]);
    std::fs::write(server.path("file"), "something to read").unwrap();
    let changed = || {
        std::fs::metadata(server.path(""))
            .unwrap()
            .modified()
            .unwrap()
    };
    let before = changed();
    let output = run(&["doctor", "--json", "--read-only", &server.url("")]);
    let report = &objects(&output)[0];
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(changed(), before);
    assert!(report["trials"].is_null() && report["own_directory"].is_null());
    assert_eq!(report["latency"]["read"]["calls"], 200, "{report:#}");
    assert_eq!(about(report, "writing")["level"], "note");
}

#[test]
fn a_server_that_is_not_there_and_a_place_that_is_no_directory_end_with_2() {
    let output = run(&["doctor", "--json", "nfs://127.0.0.1:1/"]);
    assert_eq!(output.status.code(), Some(2));
    let report = &objects(&output)[0];
    assert_eq!(report["verdict"], "unexamined");
    assert!(
        report["error"]["message"]
            .as_str()
            .unwrap()
            .contains("is the server running")
    );
    let server = Served::serving(&["3"]);
    std::fs::write(server.path("file"), "").unwrap();
    let output = run(&["doctor", "--json", &server.url("file")]);
    assert_eq!(output.status.code(), Some(2));
    let report = &objects(&output)[0];
    assert!(
        about(report, "directory")["fact"]
            .as_str()
            .unwrap()
            .contains("is no directory")
    );
    assert_eq!(run(&["doctor", "nfs://"]).status.code(), Some(2));
}

#[test]
fn whoever_may_not_write_is_told_and_the_rest_is_examined() {
    let server = Served::serving(&["3"]);
    let place = server.url_with("", "uid=4321");
    let output = run(&["doctor", "--json", &place]);
    let report = &objects(&output)[0];
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    let writing = about(report, "writing");
    assert_eq!(writing["level"], "warning");
    assert!(writing["fact"].as_str().unwrap().contains("NFS3ERR_ACCES"));
    assert_eq!(report["latency"]["getattr"]["calls"], 200);
}

/// An examination whose server is stopped in the middle, with its directory made.
fn half_way(server: &Served, arguments: &[&str]) -> Child {
    let child = penstock()
        .args(["doctor", "--json"])
        .args(arguments)
        .arg(server.url(""))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    while left(server) == 0 {
        std::thread::yield_now();
    }
    signal(server.child(), Signal::STOP);
    assert_eq!(
        left(server),
        1,
        "the examination was over before the server stopped"
    );
    child
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn an_interrupted_examination_removes_what_it_made() {
    let server = Served::serving(&["3"]);
    let child = half_way(&server, &[]);
    signal(&child, Signal::INT);
    signal(server.child(), Signal::CONT);
    let output = child.wait_with_output().unwrap();
    let report = &objects(&output)[0];
    assert_eq!(output.status.code(), Some(130), "{report:#}");
    assert_eq!(report["own_directory"]["removed"], true, "{report:#}");
    assert_eq!(about(report, "extent")["level"], "warning");
    assert_eq!(left(&server), 0);
}

#[test]
fn what_cannot_be_removed_is_told() {
    let server = Served::serving(&["3"]);
    let child = half_way(&server, &["--timeout", "1"]);
    signal(server.child(), Signal::KILL);
    let output = child.wait_with_output().unwrap();
    let report = &objects(&output)[0];
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    assert_eq!(report["own_directory"]["removed"], false);
    let told = about(report, "own directory");
    assert_eq!(told["level"], "problem");
    assert!(
        told["fact"]
            .as_str()
            .unwrap()
            .contains("/.penstock-doctor-"),
        "{told}"
    );
}
