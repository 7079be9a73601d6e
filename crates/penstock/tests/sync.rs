//! `penstock sync` against the real server: up, down and between servers, through a kill, and what it says.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::copy::noise;
use support::server::Served;
use support::{penstock, text};

fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("dir/deep")).unwrap();
    for index in 0..50 {
        fs::write(root.join(format!("dir/f{index}")), noise(index, 3000)).unwrap();
    }
    fs::write(root.join("dir/deep/large"), noise(7, 5_000_000)).unwrap();
    fs::write(root.join("odd \n name"), "odd").unwrap();
    symlink("dir", root.join("link")).unwrap();
    fs::hard_link(root.join("dir/f1"), root.join("second name")).unwrap();
}

/// What of a name has to be the same: type and mode, content, time, names of one file.
type Seen = (PathBuf, u32, Vec<u8>, Option<(i64, i64)>, u64);

fn look(root: &Path) -> Vec<Seen> {
    let mut found = Vec::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(path) = todo.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_symlink() {
            fs::read_link(&path)
                .unwrap()
                .into_os_string()
                .into_encoded_bytes()
        } else if metadata.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            todo.extend(entries.map(|entry| entry.unwrap().path()));
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        let time = (!metadata.is_symlink()).then(|| (metadata.mtime(), metadata.mtime_nsec()));
        let links = if metadata.is_dir() {
            0
        } else {
            metadata.nlink()
        };
        let path = path.strip_prefix(root).unwrap().to_path_buf();
        found.push((path, metadata.mode(), content, time, links));
    }
    found.sort();
    found
}

fn sync(arguments: &[&str]) -> Output {
    penstock().arg("sync").args(arguments).output().unwrap()
}

#[track_caller]
fn succeeds(arguments: &[&str]) -> Output {
    let output = sync(arguments);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{arguments:?}: {}",
        text(&output.stderr)
    );
    output
}

/// The summary of a run with `--json`.
fn summary(arguments: &[&str]) -> Value {
    let output = succeeds(&[&["--json"], arguments].concat());
    let told = text(&output.stdout);
    let last: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    last["summary"].clone()
}

#[test]
fn up_between_servers_and_down_again() {
    let (one, two) = (Served::new(), Served::new());
    let scratch = tempfile::tempdir().unwrap();
    let (source, back) = (scratch.path().join("source"), scratch.path().join("back"));
    make_tree(&source);
    let (here, there) = (source.to_str().unwrap(), back.to_str().unwrap());
    let (first, second) = (one.url("copy"), two.url("copy"));
    for (from, to) in [(here, first.as_str()), (&first, &second), (&second, there)] {
        succeeds(&["--delete", from, to]);
    }
    let expected = look(&source);
    for copy in [one.path("copy"), two.path("copy"), back.clone()] {
        assert_eq!(look(&copy), expected, "{}", copy.display());
    }
    // Nothing is left to do, and it says so.
    let figures = summary(&["--delete", here, &first]);
    assert_eq!(
        (&figures["files"], &figures["bytes"]),
        (&0.into(), &0.into()),
        "{figures}"
    );
    let checked = succeeds(&["--check", "--compare", "checksum", &first, &second]);
    assert_eq!(text(&checked.stdout), "");
    // What is removed, what would be, and what may not be.
    fs::remove_dir_all(source.join("dir")).unwrap();
    fs::remove_file(source.join("second name")).unwrap();
    let dry = summary(&["--delete", "-n", here, &first]);
    // 50 files, a large one, two directories and a second name.
    assert_eq!(
        (&dry["removed"], &dry["dry_run"]),
        (&54.into(), &true.into()),
        "{dry}"
    );
    let refused = sync(&["--delete", "--max-delete", "53", here, &first]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("more than 53 files"),
        "{}",
        text(&refused.stderr)
    );
    assert!(one.path("copy/dir/deep/large").exists());
    let differs = sync(&["--check", here, &first]);
    assert_eq!(differs.status.code(), Some(1));
    let extra = format!("{}: is not at the source\n", one.url("copy/dir/deep/large"));
    assert!(
        text(&differs.stdout).contains(&extra),
        "{}",
        text(&differs.stdout)
    );
    succeeds(&["--delete", "--max-delete", "54", here, &first]);
    assert_eq!(look(&one.path("copy")), look(&source));
}

#[test]
fn a_sync_that_was_killed_goes_on_and_nothing_has_a_name_before_it_is_complete() {
    let server = Served::new();
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("source");
    fs::create_dir(&source).unwrap();
    let content = noise(3, 160 << 20);
    fs::write(source.join("large"), &content).unwrap();
    fs::create_dir(server.path("copy")).unwrap();
    fs::write(server.path("copy/large"), "old").unwrap();
    let (here, there) = (source.to_str().unwrap(), server.url("copy"));
    // Slow enough to be met in the middle.
    let mut child = penstock()
        .args(["sync", "--limit", "60MiB", here, &there])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let partial = || {
        let names = fs::read_dir(server.path("copy")).unwrap();
        let mut names = names.map(|entry| entry.unwrap());
        names.find(|entry| {
            entry
                .file_name()
                .to_str()
                .unwrap()
                .starts_with(".large.penstock-")
        })
    };
    // A disk that has much else to write is slower than the limit by far.
    let deadline = Instant::now() + Duration::from_secs(600);
    let len = || partial().map_or(0, |entry| entry.metadata().unwrap().len());
    while len() <= 100 << 20 {
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before it was met"
        );
        assert!(Instant::now() < deadline, "it does not get on");
        // SLEEP: a rest between two looks.
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read(server.path("copy/large")).unwrap(), b"old");
    let figures = summary(&["--delete", here, &there]);
    // What was on stable storage was not sent again.
    assert!(
        figures["bytes_left"].as_u64().unwrap() >= 36 << 20,
        "{figures}"
    );
    assert!(fs::read(server.path("copy/large")).unwrap() == content);
    assert_eq!(look(&server.path("copy")), look(&source));
}

#[test]
fn lists_come_from_files_and_standard_input() {
    let server = Served::new();
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("source");
    make_tree(&source);
    let list = scratch.path().join("list");
    fs::write(&list, "dir/f1\ndir/deep\n").unwrap();
    let (here, there) = (source.to_str().unwrap(), server.url("copy"));
    let figures = summary(&["--files-from", list.to_str().unwrap(), here, &there]);
    assert_eq!(figures["files"], 2, "{figures}");
    assert!(server.path("copy/dir/deep/large").exists() && !server.path("copy/dir/f2").exists());
    for (content, code, expected) in [
        (&b"odd \n name\0"[..], 0, ""),
        (b"../etc\0", 2, "leads out of the source"),
        (b"\0", 2, "lists nothing"),
        (b"nowhere\0", 1, "is not there, and the list names it"),
    ] {
        fs::write(&list, content).unwrap();
        let mut command = penstock();
        command.args(["sync", "--null", "--files-from", "-", here, &there]);
        let output = command
            .stdin(fs::File::open(&list).unwrap())
            .output()
            .unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{errors}");
        assert!(errors.contains(expected), "{errors}");
    }
    assert!(server.path("copy/odd \n name").exists());
}

#[test]
fn wrong_usage() {
    for arguments in [
        &["a"][..],
        &["--max-delete", "3", "a", "b"],
        &["--check", "--delete", "a", "b"],
        &["-0", "a", "b"],
    ] {
        assert_eq!(sync(arguments).status.code(), Some(2), "{arguments:?}");
    }
    // A source that is not there costs nothing.
    let scratch = tempfile::tempdir().unwrap();
    let copy = scratch.path().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("kept"), "kept").unwrap();
    let source = scratch.path().join("gone");
    let output = sync(&["--delete", source.to_str().unwrap(), copy.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(copy.join("kept").exists());
}
