//! `penstock cp` through fifos, devices and standard input and output, and how it deals with files that are there.

mod support;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use support::copy::{fails, noise, succeeds};
use support::server::Served;
use support::{penstock, text};

fn fifo(path: &Path) -> PathBuf {
    let mode = rustix::fs::Mode::from_raw_mode(0o640);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
    path.to_path_buf()
}

/// Runs `penstock cp` with `input` as standard input.
fn fed(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = penstock()
        .arg("cp")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // What does not want it all may end before.
    let feeding = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    output
}

#[test]
fn a_file_goes_to_devices_fifos_and_standard_output() {
    let server = Served::new();
    let scratch = tempfile::tempdir().unwrap();
    let content = noise(1, 5_000_001);
    fs::write(server.path("file"), &content).unwrap();
    let url = server.url("file");
    succeeds(&[&url, &"/dev/null"]);
    assert!(
        fs::metadata("/dev/null")
            .unwrap()
            .file_type()
            .is_char_device()
    );
    for out in ["-", "/dev/stdout", "/dev/fd/1"] {
        let output = fed(&[&url, out], b"");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(output.stdout == content, "to {out}");
    }
    // A file that standard output goes to keeps what was written before.
    let path = scratch.path().join("out");
    let mut out = fs::File::create(&path).unwrap();
    out.write_all(b"before").unwrap();
    let ended = penstock()
        .args(["cp", &url, "-"])
        .stdout(out)
        .status()
        .unwrap();
    assert_eq!(ended.code(), Some(0));
    assert!(fs::read(&path).unwrap() == [b"before", content.as_slice()].concat());
    let pipe = fifo(&scratch.path().join("pipe"));
    let reading = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    succeeds(&[&url, &pipe]);
    assert!(reading.join().unwrap() == content);
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn holes_go_as_zeros() {
    let server = Served::new();
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("sparse");
    let file = fs::File::create(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"x", 3 << 20).unwrap();
    file.set_len(5 << 20).unwrap();
    succeeds(&[&path, &server.url("sparse")]);
    let expected = fs::read(&path).unwrap();
    for source in [path.to_str().unwrap(), &server.url("sparse")] {
        let output = fed(&["--sparse=always", source, "-"], b"");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(output.stdout == expected, "from {source}");
    }
}

#[test]
fn streams_are_copied_to_their_end() {
    let server = Served::new();
    let scratch = tempfile::tempdir().unwrap();
    let content = noise(2, 3_000_003);
    for (source, name) in [("-", "a"), ("/dev/stdin", "b"), ("/dev/fd/0", "c")] {
        let output = fed(&["--json", source, &server.url(name)], &content);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(fs::read(server.path(name)).unwrap() == content, "{source}");
        let told = text(&output.stdout);
        assert!(told.contains("\"bytes\":3000003"), "{told}");
    }
    // One that is there and longer is cut.
    let output = fed(&["-", &server.url("a")], b"short");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(fs::read(server.path("a")).unwrap(), b"short");
    // Nothing at all is an empty file.
    fed(&["-", &server.url("empty")], b"");
    assert_eq!(fs::read(server.path("empty")).unwrap(), b"");
    let output = fed(&["-", "-"], &content);
    assert!(output.stdout == content, "{}", text(&output.stderr));
    // From a file, what it has from where it stands.
    let path = scratch.path().join("file");
    fs::write(&path, &content).unwrap();
    let mut file = fs::File::open(&path).unwrap();
    file.read_exact(&mut [0; 1000]).unwrap();
    let url = server.url("rest");
    let ended = penstock()
        .args(["cp", "-", &url])
        .stdin(file)
        .status()
        .unwrap();
    assert_eq!(ended.code(), Some(0));
    assert!(fs::read(server.path("rest")).unwrap() == content[1000..]);
    let pipe = fifo(&scratch.path().join("pipe"));
    let writing = std::thread::spawn({
        let (pipe, content) = (pipe.clone(), content.clone());
        move || fs::write(pipe, content).unwrap()
    });
    fs::create_dir(server.path("dir")).unwrap();
    succeeds(&[&pipe, &server.url("dir")]);
    writing.join().unwrap();
    assert!(fs::read(server.path("dir/pipe")).unwrap() == content);
    let mode = fs::metadata(server.path("dir/pipe")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o640);
    // With -r, another fifo is made.
    succeeds(&[&"-r", &pipe, &server.url("other")]);
    let made = fs::symlink_metadata(server.path("other")).unwrap();
    assert!(made.file_type().is_fifo());
}

#[test]
fn what_cannot_be_done_with_a_stream_is_refused() {
    let server = Served::new();
    let scratch = tempfile::tempdir().unwrap();
    fs::write(server.path("file"), "x").unwrap();
    fs::create_dir(server.path("dir")).unwrap();
    let (file, dir) = (server.url("file"), server.url("dir"));
    fails(&[&"--verify", &file, &"/dev/null"], "leave out --verify");
    fails(&[&"--resume", &file, &"/dev/null"], "leave out --verify");
    fails(
        &[&"-r", &dir, &"/dev/null"],
        "/dev/null: is a stream: cannot be replaced by a directory",
    );
    fails(&[&"-t", &"/dev/null", &file], "is not a directory");
    fails(&[&file, &dir, &"-"], "it takes one source");
    // No message of ours gets into the data, and no answer is taken out of it.
    for words in [
        &["-v", &file, "-"],
        &["--json", &file, "-"],
        &["-i", "-", &file],
    ] {
        let output = fed(words, b"");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    }
    let pipe = fifo(&scratch.path().join("pipe"));
    fails(
        &[&"--verify", &pipe, &server.url("new")],
        "leave out --verify",
    );
    assert!(!server.path("new").exists());
}

#[test]
fn a_reader_that_goes_away_is_told() {
    let server = Served::new();
    fs::write(server.path("file"), noise(3, 4_000_000)).unwrap();
    let mut child = penstock()
        .args(["cp", &server.url("file"), "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut begin = [0; 1000];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut begin).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("/dev/stdout: whoever reads it closed it"),
        "{errors}"
    );
}

#[test]
fn an_interrupt_ends_what_waits_for_another_program() {
    let server = Served::new();
    let scratch = tempfile::tempdir().unwrap();
    let pipe = fifo(&scratch.path().join("pipe"));
    let url = server.url("file");
    let child = penstock()
        .args(["cp", "-", &url])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = child;
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&noise(4, 2 << 20)).unwrap();
    // The file is there, so the signals are taken.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !server.path("file").exists() {
        assert!(std::time::Instant::now() < end, "nothing is copied");
        // SLEEP: between two looks.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{errors}");
    assert!(errors.contains("bytes of"), "{errors}");
    drop((stdin, pipe));
}

#[test]
fn files_that_cannot_be_written_to_are_made_anew_if_forced() {
    let server = Served::new();
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("source");
    fs::write(&source, "new").unwrap();
    let dir = server.path("dir");
    fs::create_dir(&dir).unwrap();
    std::os::unix::fs::chown(&dir, Some(1000), Some(1000)).unwrap();
    let there = dir.join("file");
    fs::write(&there, "old content").unwrap();
    fs::set_permissions(&there, fs::Permissions::from_mode(0o444)).unwrap();
    let kept = dir.join("kept");
    fs::hard_link(&there, &kept).unwrap();
    let url = server.url_with("dir/file", "uid=1000&gid=1000");
    fails(&[&source, &url], "dir/file");
    assert_eq!(fs::read(&there).unwrap(), b"old content");
    // Asked first: nothing is removed.
    fails(
        &[&"-nf", &source, &server.url_with("dir/none/x", "uid=1000")],
        "none",
    );
    succeeds(&[&"-f", &source, &url]);
    assert_eq!(fs::read(&there).unwrap(), b"new");
    // It is another file.
    assert_eq!(fs::read(&kept).unwrap(), b"old content");
    // What can be written to stays the file that it is.
    let second = dir.join("second");
    fs::hard_link(&there, &second).unwrap();
    fs::write(&source, "newer").unwrap();
    succeeds(&[&"-f", &source, &url]);
    assert_eq!(fs::read(&second).unwrap(), b"newer");
}

#[test]
fn who_is_asked_decides() {
    let server = Served::new();
    let scratch = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        fs::write(scratch.path().join(name), "new").unwrap();
    }
    let (a, b) = (scratch.path().join("a"), scratch.path().join("b"));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let root = server.url("");
    // Nothing is there: nobody is asked.
    let output = fed(&["-i", a, b, &root], b"");
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(0), String::new())
    );
    fs::write(server.path("a"), "old").unwrap();
    fs::write(server.path("b"), "old").unwrap();
    let output = fed(&["-i", "-j1", a, b, &root], b"yes\nno\n");
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.starts_with("penstock: overwrite nfs://"), "{errors}");
    assert_eq!(fs::read(server.path("a")).unwrap(), b"new");
    assert_eq!(fs::read(server.path("b")).unwrap(), b"old");
    let output = fed(&["-i", b, &root], b"");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read(server.path("b")).unwrap(), b"old");
    succeeds(&[&"-t", &root, &a, &b]);
    assert_eq!(fs::read(server.path("b")).unwrap(), b"new");
    fails(
        &[&"-t", &server.url("missing"), &a],
        ": is not a directory: make it first",
    );
}
