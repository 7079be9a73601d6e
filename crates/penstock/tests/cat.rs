//! `penstock cat` against a real server: bytes in order, parts of files, readers that stop, interrupts.

mod support;

use std::io::Read as _;
use std::process::Stdio;

use rustix::process::{Pid, Signal};
use support::penstock;
use support::server::Served;

fn content(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i.wrapping_mul(seed * 2 + 1) >> 7).to_le_bytes()[0])
        .collect()
}

#[test]
fn files_come_in_order_and_a_missing_one_is_told() {
    let server = Served::new();
    let (first, second) = (content(3_000_001, 1), content(10, 2));
    std::fs::write(server.path("first"), &first).unwrap();
    std::fs::write(server.path("second"), &second).unwrap();
    std::fs::write(server.path("empty"), b"").unwrap();
    let ran = server.run(&["cat", "@first", "@none", "@empty", "@second", "@first"]);
    assert_eq!(ran.code(), 1);
    assert!(ran.bytes() == [&first[..], &second, &first].concat());
    let errors = ran.errors();
    assert_eq!(errors.lines().count(), 1, "{errors}");
    let expected = format!("{}: LOOKUP: no such file", server.url("none"));
    assert!(errors.contains(&expected), "{errors}");
    // Into a file there is no thread in between.
    let out = server.path("out");
    let status = penstock()
        .args([
            "cat",
            &server.url("first"),
            "--window",
            "3",
            "--transfer",
            "64KiB",
        ])
        .stdout(std::fs::File::create(&out).unwrap())
        .status();
    assert!(status.unwrap().success());
    assert!(std::fs::read(out).unwrap() == first);
}

#[test]
fn whatever_is_said_of_a_file_its_bytes_are_the_same() {
    let server = Served::new();
    let whole = content(3_000_001, 4);
    std::fs::write(server.path("f"), &whole).unwrap();
    for hint in ["sequential", "random", "noreuse", "willneed", "normal"] {
        let url = server.url_with("f", &format!("hint={hint}"));
        let ran = server.run(&["cat", &url]);
        assert_eq!((ran.code(), ran.errors()), (0, String::new()), "{hint}");
        assert!(ran.bytes() == whole, "{hint}");
    }
    let ran = server.run(&["cat", &server.url_with("f", "hint=dontneed")]);
    assert_eq!(ran.code(), 2);
    let cure = "give sequential, random, noreuse, willneed or normal";
    assert!(ran.errors().contains(cure), "{}", ran.errors());
}

#[test]
fn parts_of_files() {
    let server = Served::new();
    let whole = content(2_500_000, 3);
    std::fs::write(server.path("f"), &whole).unwrap();
    let part = |offset: &str, length: &str| {
        let ran = server.run(&["cat", "--offset", offset, "--length", length, "@f"]);
        assert_eq!((ran.code(), ran.errors()), (0, String::new()));
        ran.bytes().to_vec()
    };
    assert!(part("0", "1MiB") == whole[..1 << 20]);
    assert!(part("1000001", "1200000") == whole[1_000_001..2_200_001]);
    assert!(part("2499999", "4GiB") == whole[2_499_999..]);
    assert!(part("9GiB", "1").is_empty());
    assert!(part("7", "0").is_empty());
}

#[test]
fn a_reader_that_stops_is_no_error_and_an_interrupt_is_heeded() {
    let server = Served::new();
    std::fs::File::create(server.path("long"))
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    let spawn = || {
        let mut child = penstock()
            .args(["cat", &server.url("long")])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0; 10]).unwrap();
        (child, out)
    };
    let (child, out) = spawn();
    drop(out);
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr), (Some(0), Vec::new()));
    // The pipe is full and nobody reads: the interrupt ends it all the same.
    let (child, _out) = spawn();
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let server = Served::new();
    std::fs::write(server.path("f"), content(5000, 1)).unwrap();
    let full = std::fs::File::options().write(true).open("/dev/full");
    let output = penstock()
        .args(["cat", &server.url("f")])
        .stdout(full.unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = support::text(&output.stderr);
    assert!(errors.contains("No space left on device"), "{errors}");
}
