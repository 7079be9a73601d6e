//! The real binary from outside: usage, exit codes, checking, completions, manual pages.

mod support;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use support::{penstock, run, text};

/// The root of the source tree.
fn tree() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .and_then(Path::parent)
        .unwrap()
}

#[test]
fn help_tells_of_every_command() {
    let output = run(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = text(&output.stdout);
    let (head, list) = help.split_once("Commands:\n").unwrap();
    // Names stand at two spaces; what a name does is farther in, or on the next line.
    let names = list.lines().take_while(|line| !line.is_empty());
    let names: Vec<&str> = names
        .filter_map(|line| {
            line.strip_prefix("  ")
                .filter(|rest| !rest.starts_with(' '))
        })
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.len() > 20, "{help}");
    for name in names {
        let long = if name == "help" { "help" } else { "--help" };
        assert_eq!(run(&[name, long]).status.code(), Some(0), "{name}");
        let grouped = head.split([' ', ',', '\n']).any(|word| word == name);
        let general = ["help", "completions"].contains(&name);
        assert!(
            grouped || general,
            "{name} is in none of the groups: {head}"
        );
    }
    assert!(!help.contains("  man "), "a hidden command shows: {help}");
}

#[test]
fn wrong_usage_ends_with_2() {
    let wrong: &[&[&str]] = &[
        &[],
        &["dance"],
        &["serve"],
        &["serve", "/tmp", "--config", "x"],
        &["serve", "/tmp", "--memory", "1KiB"],
        &["serve", "/tmp", "--listen", "localhost"],
        &["serve", "/tmp", "--allow", "10.0.0.1/8"],
        &["serve", "/tmp", "--read", "fast"],
        &["serve", "/tmp", "--read", "3"],
        &["serve", "/tmp", "--write", "3", "--stable", "asked"],
        &["serve", "/proc/version"],
        &["serve", "--config", "/none/such.toml"],
        &["ctl", "log-level", "loud"],
    ];
    for arguments in wrong {
        let output = run(arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        assert!(!output.stderr.is_empty(), "{arguments:?} says nothing");
    }
}

#[test]
fn a_congestion_control_that_the_kernel_has_not_ends_the_start() {
    let empty = tempfile::tempdir().unwrap();
    let path = empty.path().to_str().unwrap();
    let state = format!("--state-dir={path}");
    let serve = ["serve", path, "--listen=127.0.0.1:0", "--no-rpcbind"];
    let mut command = penstock();
    command
        .args(serve)
        .args([&state, "--congestion-control=no-such"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // One that starts says `ready`, and would not end by itself.
    let mut ready = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut ready).unwrap();
    if !ready.is_empty() {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!((&*ready, output.status.code()), ("", Some(1)), "{said}");
    let why = "congestion_control \"no-such\": this kernel has no such congestion control; \
               /proc/sys/net/ipv4/tcp_available_congestion_control has ";
    assert!(said.contains(why), "{said}");
}

#[test]
fn a_server_that_is_not_there_is_a_failure() {
    let empty = tempfile::tempdir().unwrap();
    let output = run(&[
        "ctl",
        "--state-dir",
        empty.path().to_str().unwrap(),
        "status",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("is it running"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn check_names_the_line_and_the_cure() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("p.toml");
    std::fs::write(
        &file,
        "[[export]]\npath = \"/\"\nsqash = \"all\"\naccess = 1\n",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let output = run(&["check", file]);
    assert_eq!(output.status.code(), Some(2));
    let complaint = text(&output.stderr);
    let expected =
        format!("{file}:3: unknown key \"sqash\" in [[export]]; did you mean \"squash\"?");
    assert!(complaint.contains(&expected), "{complaint}");
    assert_eq!(complaint.lines().count(), 2, "{complaint}");

    let output = run(&["check", "--json", file]);
    assert_eq!(output.status.code(), Some(2));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], false);
    assert_eq!(report["problems"][0]["line"], 3);
}

#[test]
fn check_says_what_a_client_would_get_and_by_which_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("p.toml");
    let config = r#"[[export]]
path = "/"
pseudo = "/data"
clients = ["10.0.0.0/8",
  "192.0.2.0/24"]
access = "ro"
[[export.client]]
net = "10.0.0.7"
access = "rw"
squash = "none"
privileged_port = true
[[export.rule]]
clients = ["192.0.2.0/24"]
mode = "direct"
[[export.rule]]
clients = ["10.0.0.0/8"]
mode = "dontcache"
[[export]]
path = "/"
pseudo = "/here"
"#;
    std::fs::write(&file, config).unwrap();
    let file = file.to_str().unwrap();
    let ask = |arguments: &[&str], code: i32| {
        let output = run(&[&["check", file], arguments].concat());
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{shown}");
        shown
    };
    let own = ask(&["--as", "10.0.0.7"], 0);
    for expected in [
        "/data is /\n  let in by the rule for 10.0.0.7/32 in line 8: rw, sync\n",
        "squash none: nobody but AUTH_NONE runs as user 65534 and group 65534\n",
        "from a port below 1024 only (privileged_port)",
        "rule 2: client=10.0.0.0/8,mode=dontcache\n",
        "/here is /\n  refused: 10.0.0.7 is in no network of the export's clients",
    ] {
        assert!(own.contains(expected), "{own}");
    }
    assert!(!own.contains("rule 1"), "{own}");
    let other = ask(&["--as", "::ffff:192.0.2.9", "--path", "/data/a/b"], 0);
    for expected in [
        "the rule for 192.0.2.0/24 in line 5: ro, sync\n",
        "squash root: user 0",
        "from any port",
        "note: a/b below /data has to be there",
    ] {
        assert!(other.contains(expected), "{other}");
    }
    assert!(!other.contains("/here"), "{other}");
    // The networks that hold where none is written.
    assert!(ask(&["--as", "127.0.0.1"], 0).contains("the rule for 127.0.0.0/8 in line 18"));
    let stranger = ask(&["--as", "203.0.113.1"], 1);
    assert!(
        stranger.contains("note: no export lets 203.0.113.1 in"),
        "{stranger}"
    );
    let nowhere = ask(&["--as", "10.0.0.7", "--path", "/nowhere"], 1);
    assert!(
        nowhere.contains("no export has /nowhere: a mount is MNT3ERR_NOENT"),
        "{nowhere}"
    );

    let json = ask(&["--as", "10.0.0.7", "--json"], 0);
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer["admitted"], true);
    let granted = &answer["exports"][0]["granted"];
    assert_eq!(granted["line"], 8);
    assert_eq!(granted["privileged_port"], true);
    assert!(answer["exports"][1]["refused"].is_string(), "{json}");
    assert_eq!(
        run(&["check", file, "--path", "/data"]).status.code(),
        Some(2)
    );
}

#[test]
fn check_says_who_may_mount() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("penstock.toml");
    let config = "[[export]]\npath = \"/usr\"\npseudo = \"/\"\nclients = [\"10.0.0.0/8\", \"fd00::/8\"]\n\
                  access = \"ro\"\n[[export.client]]\nnet = \"10.0.0.7\"\nsquash = \"none\"\naccess = \"rw\"\n\
                  privileged_port = true\n";
    std::fs::write(&file, config).unwrap();
    let file = file.to_str().unwrap();
    let told = text(&run(&["check", file]).stdout).to_owned();
    assert!(
        told.contains("10.0.0.7/32: rw, no squash, from ports below 1024"),
        "{told}"
    );
    let others = "10.0.0.0/8, fd00::/8: ro, root squashed to 65534:65534";
    assert!(told.contains(others), "{told}");

    let told = run(&["check", "--json", file]);
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    let clients = told["exports"][0]["clients"].as_array().unwrap();
    let nets: Vec<&str> = clients
        .iter()
        .map(|client| client["net"].as_str().unwrap())
        .collect();
    assert_eq!(nets, ["10.0.0.7/32", "10.0.0.0/8", "fd00::/8"]);
    assert_eq!(clients[0]["squash"], "none");
    assert_eq!(clients[1]["access"], "ro");
}

#[test]
fn check_makes_a_configuration_of_another_servers() {
    let scratch = tempfile::tempdir().unwrap();
    let exports = scratch.path().join("exports");
    std::fs::write(
        &exports,
        "/usr 10.0.0.0/8(rw) localhost(rw) *.example.org(rw)\n",
    )
    .unwrap();
    let exports = exports.to_str().unwrap();
    let output = run(&["check", "--import", exports]);
    assert_eq!(output.status.code(), Some(0));
    let left = text(&output.stderr);
    assert!(
        left.contains(":1: client *.example.org: \"*.example.org\" is a pattern of names"),
        "{left}"
    );
    let ours = scratch.path().join("penstock.toml");
    std::fs::write(&ours, &output.stdout).unwrap();
    let told = run(&["check", ours.to_str().unwrap()]);
    assert_eq!(told.status.code(), Some(0));
    let admitted = "10.0.0.0/8: rw, root squashed to 65534:65534, from ports below 1024";
    assert!(text(&told.stdout).contains(admitted));

    let output = run(&["check", "--import", "--json", exports]);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["left"][0]["line"], 1);
    let missing = run(&["check", "--import", "/nonexistent"]);
    assert_eq!(missing.status.code(), Some(1));
}

#[test]
fn check_shows_how_bytes_will_travel_and_rules_that_never_match() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("p.toml");
    let rule = "[[export.rule]]\nop = \"read\"\nmode = 2\n";
    let text_of = format!("[[export]]\npath = \"/\"\nwrite = 4\n{rule}{rule}");
    std::fs::write(&file, text_of).unwrap();
    let output = run(&["check", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output.stdout);
    let expected = "read auto, write direct, at least file-sync\n    rule 1: op=read,mode=direct";
    assert!(shown.contains(expected), "{shown}");
    let warned = text(&output.stderr);
    assert!(
        warned.contains("line 7: this [[export.rule]] can never match"),
        "{warned}"
    );
}

/// The example, with a directory that is there, and every key that is commented out put in.
fn example_with_every_key(served: &Path) -> String {
    let example = std::fs::read_to_string(tree().join("docs/examples/penstock.toml")).unwrap();
    let is_key = |line: &str| {
        let name = line.split(" = ").next().unwrap_or("");
        line.contains(" = ")
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let mut text = String::new();
    for line in example.lines() {
        let bare = line
            .strip_prefix("# ")
            .filter(|bare| is_key(bare))
            .unwrap_or(line);
        text.push_str(&bare.replace("\"/srv\"", &format!("{served:?}")));
        text.push('\n');
    }
    text
}

#[test]
fn the_example_configuration_is_good_and_has_every_key() {
    let example = tree().join("docs/examples/penstock.toml");
    if Path::new("/srv").is_dir() {
        let output = run(&["check", example.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    let directory = tempfile::tempdir().unwrap();
    let full = example_with_every_key(directory.path());
    let file = directory.path().join("full.toml");
    std::fs::write(&file, &full).unwrap();
    let output = run(&["check", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // The complaint about an unknown key lists the known ones: each must be in the example.
    for section in [
        "[server]",
        "[[export]]",
        "[[export.rule]]",
        "[[export.client]]",
    ] {
        let wrong = full.replacen(section, &format!("{section}\nqqqqqqqqqqqq = 1"), 1);
        std::fs::write(&file, wrong).unwrap();
        let complaint = text(&run(&["check", file.to_str().unwrap()]).stderr);
        let known = complaint
            .split("known keys are ")
            .nth(1)
            .expect("a list of the known keys");
        for key in known
            .lines()
            .next()
            .unwrap()
            .split(", ")
            .filter(|key| !["client", "rule"].contains(key))
        {
            let (head, key) = (format!("\n{section}\n"), format!("{key} = "));
            let present = full.split(&head).skip(1).any(|within| {
                let mut lines = within.lines().take_while(|line| !line.starts_with('['));
                lines.any(|line| line.starts_with(&key))
            });
            assert!(present, "`{key}` of {section} is not in the example");
        }
    }
}

#[test]
fn completions_are_made_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(text(&output.stdout).contains("penstock"), "{shell}");
    }
}

#[test]
fn the_manual_pages_are_current() {
    let made = tempfile::tempdir().unwrap();
    assert_eq!(
        run(&["man", made.path().to_str().unwrap()]).status.code(),
        Some(0)
    );
    let pages = |directory: &Path| {
        let mut pages: Vec<(String, String)> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, std::fs::read_to_string(entry.path()).unwrap())
            })
            .collect();
        pages.sort();
        pages
    };
    let (kept, made) = (pages(&tree().join("docs/man")), pages(made.path()));
    let stale = made
        .iter()
        .filter(|page| !kept.contains(page))
        .map(|(name, _)| name);
    let stale: Vec<_> = stale.collect();
    assert!(
        stale.is_empty() && kept.len() == made.len(),
        "{stale:?}: run `penstock man docs/man`"
    );
}

#[test]
fn colours_only_where_they_are_wanted() {
    let coloured = |variables: &[(&str, &str)]| {
        let output = penstock()
            .arg("--help")
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        output.stdout.contains(&0x1b)
    };
    assert!(!coloured(&[]), "a pipe gets colours");
    assert!(coloured(&[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let mut child = penstock()
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
