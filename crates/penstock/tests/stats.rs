//! `penstock stats` of real mounts, and `--stats` of what copies: counts after what is known to have been done, by
//! whom they may be seen, and what is said where there is nothing to see.

mod mounting;
mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use mounting::{Server, eventually, fuse_is_here, root_is_here};
use rustix::process::Signal;
use serde_json::Value;
use support::{penstock, program_for_all, run, text};

fn stats(arguments: &[&str], dir: &Path) -> Output {
    let mut command = penstock();
    command.arg("stats").args(arguments).arg(dir);
    command.output().unwrap()
}

fn json(output: &Output) -> Value {
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A count of one operation; 0 where it is not told of.
fn count(value: &Value, name: &str, member: &str) -> u64 {
    let operations = value["operations"].as_array().unwrap();
    let found = operations.iter().find(|one| one["name"] == name);
    found.map_or(0, |one| one[member].as_u64().unwrap())
}

/// A user without any rights.
const NOBODY: u32 = 65534;

/// The program as that user, with a directory for what is gone after a reboot or without.
fn as_nobody(program: &Path, runtime: Option<&Path>) -> Command {
    let mut command = Command::new("setpriv");
    let id = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
    command.args(id).arg("--clear-groups").arg(program);
    command.env_remove("XDG_RUNTIME_DIR");
    if let Some(runtime) = runtime {
        command.env("XDG_RUNTIME_DIR", runtime);
    }
    command
}

/// What is said where there is nothing to show.
fn refused(output: &Output) -> String {
    assert!(output.stdout.is_empty(), "{output:?}");
    failed(output)
}

fn failed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    text(&output.stderr)
}

#[test]
fn a_mount_tells_what_was_done_from_any_path_in_it() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    let mount = server.mount(&[]);
    let before = json(&stats(&["--json"], mount.point()));
    for number in 0..5 {
        fs::create_dir(mount.at(&format!("dir{number}"))).unwrap();
    }
    fs::write(mount.at("dir0/file"), vec![7; 3_000_000]).unwrap();
    assert_eq!(fs::read(mount.at("dir0/file")).unwrap().len(), 3_000_000);
    assert!(fs::metadata(mount.at("missing")).is_err());
    let link = server.scratch().join("link");
    std::os::unix::fs::symlink(mount.point(), &link).unwrap();
    let paths = [
        mount.at("dir0/file"),
        link.join("dir0"),
        link,
        mount.at("dir0/../dir1"),
    ];
    for path in paths {
        let after = json(&stats(&["--json"], &path));
        let new = |name| count(&after, name, "ops") - count(&before, name, "ops");
        assert_eq!((new("MKDIR"), new("CREATE")), (5, 1), "{}", path.display());
        assert!(count(&after, "WRITE", "bytes_sent") >= 3_000_000);
        assert!(count(&after, "READ", "bytes_received") >= 3_000_000);
        assert!(count(&after, "LOOKUP", "errors") >= 1);
        let served = |from: &str| after["cache"][from].as_u64().unwrap();
        let served = served("data_ahead") + served("data_coming") + served("data_asked");
        assert!(served > 0, "{after}");
        let told = (&after["v"], &after["url"], &after["mount"]["dir"]);
        let point = mount.point().to_str().unwrap();
        assert_eq!(told, (&1.into(), &server.url().into(), &point.into()));
    }
    let page = stats(&[], mount.point());
    let page = text(&page.stdout);
    for word in [
        "MKDIR",
        "avg RTT",
        "avg queue",
        "avg exe",
        "retrans",
        "kB/op",
        "NFS3ERR_NOENT",
    ] {
        assert!(page.contains(word), "{word} is not in {page}");
    }
    assert!(!page.contains('\u{1b}'), "a colour: {page}");
    let wide: Vec<_> = page
        .lines()
        .skip(1)
        .filter(|line| line.chars().count() > 80)
        .collect();
    assert!(wide.is_empty(), "{wide:?}");
    assert_eq!(mount.interrupt(), (Some(0), String::new()));
}

#[test]
fn intervals_tell_what_is_new() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    let mount = server.mount(&[]);
    fs::create_dir(mount.at("before")).unwrap();
    let mut command = penstock();
    let dir = mount.point().to_str().unwrap();
    command.args(["stats", "--json", dir, "0.05", "4"]);
    let output = command.output().unwrap();
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let seen: Vec<u64> = lines.iter().map(|one| count(one, "MKDIR", "ops")).collect();
    assert_eq!(seen, [1, 0, 0, 0]);
    // It goes on until the mount is gone, and says so.
    let mut command = penstock();
    command.args(["stats", dir, "0.05"]);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    assert_eq!(mount.interrupt(), (Some(0), String::new()));
    let said = failed(&child.wait_with_output().unwrap());
    let gone = said.contains("not mounted any more") || said.contains("no mount of penstock");
    assert!(gone, "{said}");
}

#[test]
fn a_server_that_is_away_holds_nobody_up_and_is_seen() {
    if !fuse_is_here() {
        return;
    }
    let mut server = Server::new();
    let mount = server.mount(&[]);
    fs::write(mount.at("file"), "content").unwrap();
    server.kill();
    let reader = {
        let path = mount.at("other");
        std::thread::spawn(move || fs::metadata(path).map(drop))
    };
    let waiting = eventually("a LOOKUP that waits", || {
        let now = json(&stats(&["--json"], &mount.at("file")));
        (count(&now, "LOOKUP", "in_flight") > 0).then_some(now)
    });
    assert_eq!(waiting["connections"]["reconnects"], 0);
    server.start();
    assert!(reader.join().unwrap().is_err());
    let after = json(&stats(&["--json"], mount.point()));
    assert!(after["connections"]["reconnects"].as_u64() >= Some(1));
    assert_eq!(count(&after, "LOOKUP", "in_flight"), 0);
}

#[test]
fn a_mount_that_is_not_served_any_more_is_named() {
    if !fuse_is_here() {
        return;
    }
    let server = Server::new();
    let mount = server.mount(&[]);
    mount.signal(Signal::KILL);
    let said = eventually("a mount without its process", || {
        let output = stats(&[], mount.point());
        let said = text(&output.stderr);
        said.contains("nobody serves this mount any more")
            .then_some(said)
    });
    assert!(said.contains("fusermount3 -u"), "{said}");
    let nowhere = refused(&stats(&[], server.scratch()));
    assert!(nowhere.contains("no mount of penstock"), "{nowhere}");
}

#[test]
fn another_user_s_mount_is_not_told_of() {
    if !fuse_is_here() || !root_is_here() {
        return;
    }
    let server = Server::new();
    server.open_to_all();
    let mount = server.mount(&["-o", "allow_other"]);
    let mut command = as_nobody(&program_for_all(server.scratch()), None);
    command.arg("stats").arg(mount.point());
    let said = refused(&command.output().unwrap());
    assert!(said.contains("user 0 has mounted it"), "{said}");
    drop(mount);
}

#[test]
fn anybody_may_look_at_a_mount_of_their_own() {
    if !fuse_is_here() || !root_is_here() {
        return;
    }
    if !mounting::everybody_may_use_fuse() {
        mounting::again_where_everybody_may("anybody_may_look_at_a_mount_of_their_own");
        return;
    }
    let server = Server::new();
    server.open_to_all();
    let program = program_for_all(server.scratch());
    let (point, runtime) = (server.point(), server.scratch().join("runtime"));
    fs::create_dir(&runtime).unwrap();
    for path in [&point, &runtime] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let command = as_nobody(&program, Some(&runtime));
    let mount = mounting::Mounted::start(command, &[], &server.url(), point);
    let stats = |runtime: Option<&Path>| {
        let mut command = as_nobody(&program, runtime);
        command.args(["stats", "--json"]).arg(mount.point());
        command.output().unwrap()
    };
    assert!(count(&json(&stats(Some(&runtime))), "FSINFO", "ops") >= 1);
    // Who does not know where it is, is told what to look at.
    let said = refused(&stats(None));
    assert!(said.contains("XDG_RUNTIME_DIR"), "{said}");
    let said = refused(&self::stats(&[], mount.point()));
    assert!(said.contains("XDG_RUNTIME_DIR"), "{said}");
    assert_eq!(mount.interrupt(), (Some(0), String::new()));
    assert_eq!(fs::read_dir(runtime.join("penstock")).unwrap().count(), 0);
}

#[test]
fn the_socket_is_its_owner_s_and_goes_with_the_mount() {
    if !fuse_is_here() || !root_is_here() {
        return;
    }
    use std::os::unix::fs::MetadataExt as _;
    let server = Server::new();
    let mount = server.mount(&[]);
    let now = json(&stats(&["--json"], mount.point()));
    let device = now["mount"]["device"].as_str().unwrap();
    let socket = Path::new("/run/penstock").join(format!("mount-{device}.sock"));
    let found = fs::symlink_metadata(&socket).unwrap();
    assert_eq!(found.mode() & 0o7777, 0o600);
    assert_eq!(mount.interrupt(), (Some(0), String::new()));
    // Another test's mount may have the number already, and a socket of its own there.
    let same = |new: &fs::Metadata| {
        let is = |one: &fs::Metadata| (one.ino(), one.ctime(), one.ctime_nsec());
        is(new) == is(&found)
    };
    assert!(!fs::symlink_metadata(&socket).is_ok_and(|new| same(&new)));
}

#[test]
fn what_copies_tells_at_the_end_what_its_calls_came_to() {
    let server = Server::new();
    let here = server.scratch().join("tree");
    fs::create_dir(&here).unwrap();
    for number in 0..7 {
        fs::write(here.join(format!("file{number}")), vec![7; 5000]).unwrap();
    }
    for version in ["3", "4.1", "4.2"] {
        let to = format!("{}?version={version}", server.url().replacen("/?", "?", 1));
        let to = to.replace("?version", &format!("copy{version}?version"));
        let source = here.to_str().unwrap();
        let output = run(&["cp", "-r", "--json", "--stats", source, &to]);
        let lines: Vec<Value> = text(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let told: Vec<_> = lines
            .iter()
            .filter_map(|line| line.get("statistics"))
            .collect();
        let [told] = told.as_slice() else {
            panic!("{version}: {output:?}");
        };
        let made = if version == "3" { "CREATE" } else { "OPEN" };
        assert_eq!(count(told, made, "ops"), 7, "{version}: {told}");
        assert_eq!(count(told, "WRITE", "ops"), 7, "{version}");
        assert_eq!(count(told, "WRITE", "retrans"), 0, "{version}");
        let protocol = if version == "3" { "NFSv3" } else { "NFSv4" };
        let operations = told["operations"].as_array().unwrap();
        assert!(operations.iter().any(|one| one["protocol"] == protocol));
        let page = run(&["sync", "--stats", source, &to]);
        let page = text(&page.stderr);
        assert!(page.contains("avg RTT"), "{version}: {page}");
        let file = to.replacen("?", "/file0?", 1);
        let got = run(&["get", "--stats", &file]);
        assert_eq!(got.stdout, vec![7; 5000]);
        assert!(
            text(&got.stderr)
                .lines()
                .any(|line| line.starts_with("READ "))
        );
        let quiet = run(&["get", &file]);
        assert!(quiet.stderr.is_empty(), "{quiet:?}");
        let logged = run(&["get", "--stats", "--log-json", &file]);
        let logged: Value = serde_json::from_slice(&logged.stderr).unwrap();
        assert!(count(&logged["statistics"], "READ", "ops") >= 1);
    }
}
