//! What the client commands print with `--json`, held against docs/json.md: every line of every command, and every
//! example of the page, has the members that the page has, of the kinds that it says, and no others.

mod support;

use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::process::Stdio;

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;
use support::penstock;
use support::server::Served;

/// A number of 64 bits in a string.
#[derive(Debug)]
struct Id;

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        text.parse::<u64>().map(|_| Self).map_err(D::Error::custom)
    }
}

/// A time of RFC 3339, in UTC, with nanoseconds.
#[derive(Debug)]
struct Time;

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        let time = text.parse::<jiff::Timestamp>().map_err(D::Error::custom)?;
        match format!("{time:.9}") == text {
            true => Ok(Self),
            false => Err(D::Error::custom(format!("{text} is not as others are"))),
        }
    }
}

/// An address that the commands take back.
#[derive(Debug)]
struct Url;

impl<'de> Deserialize<'de> for Url {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        let url: nfs_client::NfsUrl = text.parse().map_err(D::Error::custom)?;
        match url.to_string() == text {
            true => Ok(Self),
            false => Err(D::Error::custom(format!("{text} is not as it is printed"))),
        }
    }
}

/// Objects with these members, and no others: those in brackets may be missing.
macro_rules! objects {
    ($( $name:ident { $( $member:ident: $kind:ty, )* [ $( $maybe:ident: $its:ty, )* ] } )*) => { $(
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code, reason = "only read from JSON")]
        struct $name {
            $( $member: $kind, )*
            $( #[serde(default)] $maybe: Option<$its>, )*
        }
    )* };
}

objects! {
    Failed { error: Failure, [] }
    Failure { message: String, status: Option<String>, code: Option<u32>, [url: Url, path: String, path_hex: String,] }
    Checked { file: String, ok: bool, exports: Vec<CheckedExport>, problems: Vec<Problem>, warnings: Vec<String>, [] }
    CheckedExport { pseudo: String, path: String, clients: Vec<Client>, io: Value, [] }
    Client {
        net: String, access: String, squash: String, anonuid: u32, anongid: u32, privileged_port: bool,
        [name: Name,]
    }
    Name { addresses: Vec<IpAddr>, state: String, [trouble: String,] }
    Problem { line: Option<u32>, message: String, [] }
    Imported { file: String, toml: String, left: Vec<Problem>, [] }
    Looked { status: Value, metrics: Snapshot, [] }
    Snapshot { at: Time, families: Vec<Value>, [] }
    Entry {
        url: Url,
        [
            name: String, name_hex: String, path: String, path_hex: String, target: String, target_hex: String,
            r#type: String, mode: String, nlink: u32, uid: u32, gid: u32, size: u64, used: u64, rdev: Rdev,
            fsid: Id, fileid: Id, atime: Time, mtime: Time, ctime: Time, done: String,
        ]
    }
    Rdev { major: u32, minor: u32, [] }
    Tree { url: Url, bytes: u64, files: u64, [] }
    Total { total: Sum, [] }
    Sum { bytes: u64, files: u64, [] }
    Space {
        url: Url, size: u64, used: u64, free: u64, available: u64, inodes: u64, inodes_free: u64,
        inodes_available: u64, []
    }
    Export { directory: String, groups: Vec<String>, [] }
    Mounted { directory: String, [host: String,] }
    Ping {
        server: String, sent: u64, answered: u64,
        [min_ns: u64, avg_ns: u64, p50_ns: u64, p99_ns: u64, max_ns: u64, histogram: Vec<Class>,]
    }
    Class { below_ns: u64, count: u64, [] }
    Copied {
        done: String, bytes: u64,
        [
            source: String, source_hex: String, destination: String, destination_hex: String, from: u64,
            blake3: String,
        ]
    }
    Summary { summary: Figures, [] }
    Figures {
        files: u64, bytes: u64, files_left: u64, bytes_left: u64, removed: u64, failed: u64, owners_not_kept: u64,
        times_not_kept: u64, local_refused: u64, seconds: f64, dry_run: bool, interrupted: bool, []
    }
    Removed { url: Url, files: u64, directories: u64, failed: u64, [] }
    Changed {
        url: Url, done: String,
        [source: Url, target: String, target_hex: String, size: u64, bytes: u64, seconds: f64,]
    }
    OnDirectory { url: Url, directory: String, done: String, [] }
    Renamed { source: Url, destination: Url, done: String, [] }
}

/// Whether a line is an object of one kind; what it has wrong if not.
type Kind = fn(&str) -> Result<(), String>;

/// Whether the line is an object of one of these.
fn is_one_of(line: &str, kinds: &[Kind]) -> Result<(), String> {
    let mut wrong = Vec::new();
    for kind in kinds {
        match kind(line) {
            Ok(()) => return Ok(()),
            Err(error) => wrong.push(error),
        }
    }
    Err(format!("{line}: {}", wrong.join("; ")))
}

fn is<T: for<'a> Deserialize<'a>>(line: &str) -> Result<(), String> {
    let read = serde_json::from_str::<T>(line);
    read.map(drop).map_err(|error| error.to_string())
}

/// What a line of the command is.
fn check(command: &str, line: &str) -> Result<(), String> {
    match command {
        "Errors" => is_one_of(line, &[is::<Failed>]),
        "check" => is_one_of(line, &[is::<Failed>, is::<Checked>, is::<Imported>]),
        "status" => is_one_of(line, &[is::<Failed>, is::<Looked>]),
        "ls" | "stat" | "find" => is_one_of(line, &[is::<Failed>, is::<Entry>]),
        "du" => is_one_of(line, &[is::<Failed>, is::<Tree>, is::<Total>]),
        "df" => is_one_of(line, &[is::<Failed>, is::<Space>]),
        "showmount" => is_one_of(line, &[is::<Failed>, is::<Export>, is::<Mounted>]),
        "ping" => is_one_of(line, &[is::<Failed>, is::<Ping>]),
        "cp" | "sync" => is_one_of(line, &[is::<Failed>, is::<Copied>, is::<Summary>]),
        "rm" => is_one_of(line, &[is::<Failed>, is::<Removed>]),
        "mount" => is_one_of(line, &[is::<OnDirectory>]),
        "mv" => is_one_of(line, &[is::<Failed>, is::<Renamed>]),
        "mkdir" | "rmdir" | "ln" | "chmod" | "chown" | "touch" | "truncate" | "put" => {
            is_one_of(line, &[is::<Failed>, is::<Changed>])
        }
        other => Err(format!("{other} is not on the page")),
    }
}

/// The page, cut at its headings: commands, and what is said of them.
fn page() -> Vec<(Vec<String>, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
    let page = fs::read_to_string(path).unwrap();
    let sections = page.split("\n## ").skip(1).map(|section| {
        let (title, text) = section.split_once('\n').unwrap();
        (
            title.split(", ").map(str::to_owned).collect(),
            text.to_owned(),
        )
    });
    sections.collect()
}

#[test]
fn the_examples_of_the_page_are_as_it_says() {
    for (commands, text) in page() {
        let mut blocks = text.split("```jsonl\n").skip(1).peekable();
        assert!(blocks.peek().is_some(), "{commands:?} has no example");
        for block in blocks {
            for line in block.split("```").next().unwrap().lines() {
                check(&commands[0], line).unwrap();
            }
        }
    }
}

/// All names of members in a value, however deep.
fn members(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                found.push(name.trim_end_matches("_hex").to_owned());
                members(value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| members(value, found)),
        _ => {}
    }
}

/// Runs a command with `--json`, holds what it prints against the page, and gives it.
fn run(server: &Served, arguments: &[&str], code: i32) -> Vec<Value> {
    run_fed(server, arguments, code, b"")
}

fn run_fed(server: &Served, arguments: &[&str], code: i32, input: &[u8]) -> Vec<Value> {
    let (command, rest) = arguments.split_first().unwrap();
    let rest = rest.iter().map(|word| match word.strip_prefix('@') {
        Some(path) => server.url(path),
        None => (*word).to_owned(),
    });
    let mut child = penstock()
        .args([command, "--json"])
        .args(rest)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // What does not read it ends before.
    drop(child.stdin.take().unwrap().write_all(input));
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let page = page();
    let errors_on_page = &page[0].1;
    let (_, on_page) = page
        .iter()
        .find(|(commands, _)| commands.iter().any(|one| one == command))
        .unwrap_or_else(|| panic!("{command} is not on the page"));
    let lines = text.lines().map(|line| {
        check(command, line).unwrap();
        let value: Value = serde_json::from_str(line).unwrap();
        let mut found = Vec::new();
        members(&value, &mut found);
        for name in found {
            let told = format!("`{name}`");
            let is_told = on_page.contains(&told) || errors_on_page.contains(&told);
            assert!(is_told, "{command}: {name} is not on the page");
        }
        value
    });
    let lines: Vec<Value> = lines.collect();
    assert!(!lines.is_empty(), "{arguments:?} says nothing");
    // Each failure is a line, too; a difference is none.
    let failed = lines
        .iter()
        .filter(|line| line["error"].is_object())
        .count();
    let fails = code == 1 && !arguments.contains(&"--check");
    assert_eq!(failed > 0, fails, "{arguments:?}: {lines:?}");
    lines
}

#[test]
fn every_command_prints_what_the_page_says() {
    use std::os::unix::ffi::OsStrExt as _;
    let server = Served::new();
    fs::create_dir_all(server.path("dir/deep")).unwrap();
    fs::write(server.path("dir/file"), "12345").unwrap();
    fs::write(
        server
            .path("dir")
            .join(std::ffi::OsStr::from_bytes(b"\xff")),
        "",
    )
    .unwrap();
    std::os::unix::fs::symlink("a\nb", server.path("dir/link")).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let here = scratch.path().to_str().unwrap();
    let entries = run(&server, &["ls", "@dir"], 0);
    assert_eq!(entries.len(), 4);
    assert_eq!(entries[3]["name_hex"], "ff");
    let mixed = run(&server, &["ls", "-R", "@none", "@"], 1);
    assert_eq!(mixed[0]["error"]["status"], "NFS3ERR_NOENT");
    assert_eq!(mixed[0]["error"]["code"], 2);
    assert_eq!(mixed[0]["error"]["path"], "/none");
    run(&server, &["stat", "@dir/link", "@dir/%FF", "@none"], 1);
    run(&server, &["find", "@", "@none"], 1);
    run(&server, &["du", "-a", "-c", "@dir", "@none"], 1);
    run(&server, &["df", "@", "@none"], 1);
    run(&server, &["ping", "-c", "2", "-i", "0", "@"], 0);
    run(&server, &["cp", "-r", "--verify", "@dir", here], 0);
    let refused = run(&server, &["cp", "@dir", "@dir/file", here], 1);
    assert!(refused.iter().any(|line| line["error"]["status"].is_null()));
    let local = run(&server, &["cp", "/nonexistent/file", "@dir"], 1);
    assert_eq!(local[0]["error"]["status"], "ENOENT");
    let made = run(&server, &["sync", "--delete", "@dir", "@copy"], 0);
    assert!(made.last().unwrap()["summary"].is_object());
    run(&server, &["sync", "--check", here, "@copy"], 1);
}

#[test]
fn every_change_is_a_line() {
    let server = Served::new();
    let done = |arguments: &[&str]| {
        let lines = run(&server, arguments, 0);
        lines[0]["done"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(run(&server, &["mkdir", "-p", "@a/b/c"], 0).len(), 3);
    run(&server, &["mkdir", "@a"], 1);
    assert_eq!(done(&["touch", "@file"]), "made");
    assert_eq!(done(&["touch", "@file"]), "touched");
    assert_eq!(done(&["truncate", "-s", "7", "@file"]), "truncated");
    assert_eq!(done(&["chmod", "-R", "u+x", "@a"]), "changed");
    assert_eq!(done(&["chown", "0:0", "@file"]), "changed");
    assert_eq!(done(&["ln", "@file", "@a"]), "linked");
    assert_eq!(done(&["ln", "-sf", "file", "@link"]), "symlink");
    let renamed = run(&server, &["mv", "@file", "@a/b"], 0);
    assert_eq!(renamed[0]["destination"], server.url("a/b/file"));
    assert_eq!(
        run(&server, &["rmdir", "-p", "@a/b/c"], 1)[0]["done"],
        "removed"
    );
    assert_eq!(
        run_fed(&server, &["put", "@new"], 0, b"12345")[0]["bytes"],
        5
    );
    assert_eq!(
        run(&server, &["find", "--delete", "--name", "new", "@"], 0)[0]["done"],
        "removed"
    );
    run(&server, &["rm", "-r", "@a", "@none"], 1);
    // What ends a command is an object, too.
    let unreachable = run_fed(&server, &["put", "nfs://127.0.0.1:1/x"], 1, b"");
    assert_eq!(unreachable[0]["error"]["status"], "ECONNREFUSED");
}

#[test]
fn what_looks_at_a_server_prints_objects_and_errors_are_objects_too() {
    let server = Served::exporting(&["3", "4.1", "4.2"], &["/a", "/b"]);
    let state = server.path("../state");
    let state = state.to_str().unwrap();
    let config = server.path("../penstock.toml");
    let config = config.to_str().unwrap();
    let lines = |arguments: &[&str], code: i32| -> Vec<Value> {
        let ran = support::run(arguments);
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{arguments:?}: {errors}");
        let lines = std::str::from_utf8(&ran.stdout).unwrap().lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let is_as_said = |command: &str, lines: &[Value]| {
        for line in lines {
            check(command, &line.to_string()).unwrap();
        }
    };
    let checked = lines(&["check", "--json", config], 0);
    is_as_said("check", &checked);
    let exports = server.path("../exports");
    fs::write(&exports, "/usr 10.0.0.0/8(rw)\n").unwrap();
    let exports = exports.to_str().unwrap();
    is_as_said(
        "check",
        &lines(&["check", "--import", "--json", exports], 0),
    );
    is_as_said(
        "status",
        &lines(&["status", "--json", "--state-dir", state], 0),
    );
    let metrics = lines(&["ctl", "metrics", "--json", "--state-dir", state], 0);
    assert!(
        is::<Snapshot>(&metrics[0].to_string()).is_ok(),
        "{metrics:?}"
    );
    // Behind the subcommand or before it.
    let shown = lines(&["ctl", "--state-dir", state, "exports", "--json"], 0);
    assert_eq!(shown[0].as_array().unwrap().len(), 2);
    for wrong in [
        &["ctl", "--json", "--state-dir", "/none", "status"][..],
        &["status", "--json", "--state-dir", "/none"],
        &[
            "ctl",
            "--json",
            "exports",
            "remove",
            "/c",
            "--state-dir",
            state,
        ],
        &["check", "--import", "--json", "/none"],
    ] {
        let told = lines(wrong, 1);
        assert_eq!(told.len(), 1, "{wrong:?}");
        is_as_said("Errors", &told);
    }
}

#[test]
fn exports_and_mounts_are_lines() {
    let server = Served::serving(&["3"]);
    run(&server, &["showmount", "@"], 0);
    run(&server, &["showmount", "nfs://127.0.0.1:1/"], 1);
}

#[test]
fn all_commands_have_it_but_those_that_print_contents() {
    let told = support::run(&["--help"]);
    let told = String::from_utf8(told.stdout).unwrap();
    let groups = ["What looks:", "What copies:", "What changes:"];
    let lines = told.lines().map(str::trim_start).filter_map(|line| {
        let group = groups.iter().find(|group| line.starts_with(**group))?;
        line.strip_prefix(group)
    });
    let commands: Vec<&str> = lines
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .collect();
    assert!(commands.len() > 18, "{commands:?}");
    let page = page();
    for command in commands {
        let help = support::run(&[command, "--help"]);
        let help = String::from_utf8(help.stdout).unwrap();
        let has = help.lines().any(|line| line.trim() == "--json");
        let prints_contents = ["cat", "get"].contains(&command);
        assert_eq!(has, !prints_contents, "{command}");
        if prints_contents {
            let refused = support::run(&[command, "--json", "nfs://127.0.0.1:1/x"]);
            assert_eq!(refused.status.code(), Some(2));
            continue;
        }
        let on_page = page
            .iter()
            .any(|(commands, _)| commands.iter().any(|one| one == command));
        assert!(on_page, "{command} is not on the page");
    }
}
