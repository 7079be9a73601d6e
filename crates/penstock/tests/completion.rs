//! Completion in shells: addresses of a real server, in real shells.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use support::server::{Served, path_of};
use support::{penstock, text};

fn served() -> Served {
    let server = Served::new();
    for dir in ["photos/2026", "with space", ".hidden"] {
        fs::create_dir_all(server.path(dir)).unwrap();
    }
    for file in ["plain", "photos/one.jpg"] {
        fs::write(server.path(file), "").unwrap();
    }
    server
}

/// The address of `path`, without options: none can be typed before the path is.
fn address(server: &Served, path: &str) -> String {
    path_of(&server.url(path)).to_owned()
}

fn lines(bytes: &[u8]) -> Vec<String> {
    text(bytes).lines().map(str::to_owned).collect()
}

fn completed(word: &str) -> Vec<String> {
    let output = penstock().args(["complete", "--", word]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{word}");
    assert_eq!(text(&output.stderr), "", "{word}");
    lines(&output.stdout)
}

#[test]
fn exports_and_names_are_offered() {
    let server = served();
    let at = |path: &str| address(&server, path);
    let root = [at("photos/"), at("plain"), at("with%20space/")];
    assert_eq!(completed(&at("")), root);
    assert_eq!(completed(&at("p")), root[..2]);
    assert_eq!(
        completed(&at("photos/")),
        [at("photos/2026/"), at("photos/one.jpg")]
    );
    assert_eq!(completed(&at(".")), [at(".hidden/")]);
    for word in [
        at("none/x"),
        at("x"),
        format!("{}?uid=0", at("p")),
        "nfs://".to_owned(),
        "-v".to_owned(),
    ] {
        assert_eq!(completed(&word), [""; 0], "{word}");
    }
    let exports = Served::exporting(&["3", "4.1"], &["/srv/one", "/srv/two", "/top"]);
    let at = |path: &str| address(&exports, path);
    assert_eq!(completed(&at("")), [at("srv/"), at("top/")]);
    assert_eq!(completed(&at("srv/t")), [at("srv/two/")]);
}

#[test]
fn a_server_that_says_nothing_holds_nobody_up() {
    let server = served();
    let pid = Pid::from_child(server.child());
    kill_process(pid, Signal::STOP).unwrap();
    // It would wait for five minutes, and the test with it.
    assert_eq!(completed(&address(&server, "p")), [""; 0]);
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!(completed("nfs://127.0.0.1:1/x"), [""; 0]);
}

/// A completion script, and the path with this program in it.
fn script(shell: &str, into: &Path) -> (String, String) {
    let output = penstock().args(["completion", shell]).output().unwrap();
    let path = into.join(format!("penstock.{shell}"));
    fs::write(&path, output.stdout).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_penstock")).parent().unwrap();
    let search = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    (path.to_str().unwrap().to_owned(), search)
}

#[test]
fn bash_completes_addresses_behind_their_colons() {
    let server = served();
    let scratch = tempfile::tempdir().unwrap();
    let (script, path) = script("bash", scratch.path());
    let offered = |word: &str| {
        // As bash calls it: COMP_WORDS are cut at colons, and so is what is replaced.
        let program = "source \"$1\"; COMP_LINE=\"penstock ls $2\" COMP_POINT=${#COMP_LINE}; COMP_POINT=${#COMP_LINE}
             COMP_WORDS=(penstock ls \"$2\") COMP_CWORD=2; _penstock_or_address penstock \"$2\" ls 2>&1
             printf '%s\\n' \"${COMPREPLY[@]}\"";
        let output = Command::new("bash")
            .args(["--norc", "-c", program, "bash", &script, word])
            .env("PATH", &path)
            .output()
            .unwrap();
        assert_eq!(text(&output.stderr), "");
        lines(&output.stdout)
    };
    let (_, port) = server.address().rsplit_once(':').unwrap();
    let at = |path: &str| format!("{port}/{path}");
    assert_eq!(
        offered(&address(&server, "p")),
        [at("photos/"), at("plain")]
    );
    assert_eq!(
        offered(&address(&server, "photos/o")),
        [at("photos/one.jpg")]
    );
    assert_eq!(offered("--recu"), ["--recursive"]);
}

#[test]
fn fish_and_zsh_complete_addresses() {
    let server = served();
    let scratch = tempfile::tempdir().unwrap();
    let expected = [address(&server, "photos/"), address(&server, "plain")];
    let fish = "source $argv[1]; complete -C \"penstock ls $argv[2]\"";
    // What zsh's own functions would get: there is no line to edit here.
    let zsh = "compdef() { : }; _call_program() { shift; eval $@ }; compadd() { print -rl -- ${@[$@[(i)--]+1,-1]} }
               source $1; PREFIX=$2; words=(penstock ls $2); _penstock_or_address";
    for (shell, arguments) in [
        ("fish", vec!["-N", "-c", fish]),
        ("zsh", vec!["-f", "-c", zsh, "zsh"]),
    ] {
        if Command::new(shell).arg("--version").output().is_err() {
            nfs_lab::skipped(&format!(
                "completion in {shell} is not tested: {shell} is not here"
            ));
            continue;
        }
        let (script, path) = script(shell, scratch.path());
        let output = Command::new(shell)
            .args(arguments)
            .args([&script, &address(&server, "p")])
            .env("PATH", path)
            .output()
            .unwrap();
        assert_eq!(
            lines(&output.stdout),
            expected,
            "{shell}: {}",
            text(&output.stderr)
        );
    }
}
