//! `penstock ctl exports add` and `remove`: exports of a running server, until its configuration is read again.

mod support;

use std::process::Output;

use serde_json::Value;
use support::server::Served;
use support::{penstock, text};

/// Runs `penstock ctl` for this server, whatever comes of it.
fn ctl(server: &Served, arguments: &[&str]) -> Output {
    let mut command = penstock();
    command.arg("ctl").args(arguments);
    command.arg("--state-dir").arg(server.path("../state"));
    command.output().unwrap()
}

#[test]
fn an_export_is_added_and_removed_under_a_running_server() {
    let server = Served::exporting(&["3", "4.1", "4.2"], &["/a"]);
    let more = server.path("more");
    std::fs::create_dir(&more).unwrap();
    std::fs::write(more.join("file"), "added").unwrap();
    let more = more.to_str().unwrap();
    server.ctl(&["io", "/a", "--read", "direct"]);

    let added = server.ctl(&[
        "exports",
        "add",
        more,
        "--pseudo",
        "/b",
        "--clients",
        "127.0.0.1",
        "--access",
        "ro",
    ]);
    assert!(
        added.starts_with(&format!(
            "/b is {more} from now on, until the next reload or start"
        )),
        "{added}"
    );
    for version in ["3", "4"] {
        let url = format!("nfs://{}/b/file?version={version}", server.address());
        assert_eq!(server.run(&["cat", &url]).output(), "added");
    }
    // What the others were told since they were configured stays.
    let modes: Value = serde_json::from_str(&server.ctl(&["io", "/a", "--json"])).unwrap();
    assert_eq!(modes[0]["now"]["read"], "direct", "{modes}");

    // A wrong one is told as a file's is, and changes nothing.
    for (wrong, expected) in [
        (
            vec!["exports", "add", "/none/such"],
            "path \"/none/such\" does not exist; create it with",
        ),
        (
            vec!["exports", "add", more, "--pseudo", "/b"],
            "pseudo path \"/b\" is taken; choose another",
        ),
        (
            vec![
                "exports",
                "add",
                more,
                "--pseudo",
                "/c",
                "--clients",
                "*.example.org",
            ],
            "is a pattern of names",
        ),
        (
            vec!["exports", "remove", "/c"],
            "there is no export \"/c\"; there are: /a /b",
        ),
    ] {
        let told = ctl(&server, &wrong);
        assert_eq!(told.status.code(), Some(1), "{wrong:?}");
        assert!(
            text(&told.stderr).contains(expected),
            "{}",
            text(&told.stderr)
        );
    }

    let removed = server.ctl(&["exports", "remove", "/b"]);
    assert!(
        removed.contains("/b is served no more") && removed.contains("stale"),
        "{removed}"
    );
    server.fails(
        &["cat", &format!("nfs://{}/b/file", server.address())],
        1,
        "/b/file",
    );
    let told = ctl(&server, &["exports", "remove", "/a"]);
    assert!(
        text(&told.stderr).contains("is the only export"),
        "{}",
        text(&told.stderr)
    );

    // The file is the truth again.
    let answer: Value =
        serde_json::from_str(&server.ctl(&["exports", "add", more, "--json"])).unwrap();
    assert_eq!(
        (&answer["pseudo"], &answer["exports"]),
        (&Value::from(more), &Value::from(2))
    );
    let reloaded = server.ctl(&["reload"]);
    assert!(reloaded.contains(&format!("removed: {more}")), "{reloaded}");
}

#[test]
fn a_server_of_one_directory_takes_exports_beneath_it_alone() {
    let server = Served::serving(&["3"]);
    std::fs::create_dir(server.path("below")).unwrap();
    let told = ctl(&server, &["exports", "add", "/usr", "--pseudo", "/usr"]);
    assert!(
        text(&told.stderr).contains("is not beneath confine_beneath"),
        "{}",
        text(&told.stderr)
    );
    let below = server.path("below");
    let added = server.ctl(&[
        "exports",
        "add",
        below.to_str().unwrap(),
        "--pseudo",
        "/below",
    ]);
    assert!(
        added.contains("until the server ends: it was started from flags"),
        "{added}"
    );
}
