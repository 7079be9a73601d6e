//! `penstock doctor` from outside: exit codes, JSON, what it leaves behind.

mod support;

use std::path::Path;

use serde_json::Value;
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
    assert_eq!(objects[0]["path"], "/nonexistent");
    assert!(objects[0]["error"].as_str().unwrap().contains("no such"));
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
