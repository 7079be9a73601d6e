//! What a crate may depend on, and why a dependency is there at all.

use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::source::has_word;
use super::{Finding, Tree};
use crate::run;

/// The arrows of ARCHITECTURE.md: a crate may use those named beside it and no other of ours.
const ARROWS: &[(&str, &[&str])] = &[
    ("nfs-wire", &[]),
    ("nfs-state", &[]),
    ("nfs-io", &[]),
    ("nfs-server", &["nfs-io", "nfs-state", "nfs-wire"]),
    ("nfs-client", &["nfs-io", "nfs-wire"]),
    ("nfs-fuse", &["nfs-client"]),
    ("nfs-load", &["nfs-client", "nfs-io", "nfs-wire"]),
    (
        "nfs-bench",
        &["nfs-client", "nfs-io", "nfs-lab", "nfs-load", "nfs-wire"],
    ),
    (
        "penstock",
        &["nfs-client", "nfs-fuse", "nfs-io", "nfs-load", "nfs-server"],
    ),
    // It starts programs and knows no protocol, so that every crate's tests may use it.
    ("nfs-lab", &[]),
    ("nfs-deadline", &[]),
    // The test crate uses what it tests with; the servers it tests are real processes.
    (
        "nfs-test",
        &[
            "nfs-client",
            "nfs-deadline",
            "nfs-lab",
            "nfs-load",
            "nfs-wire",
        ],
    ),
    ("xtask", &["nfs-deadline"]),
];

/// What tests of a crate may use besides: the client is the traffic source of the server's tests, the
/// laboratory has processes and mounts.
const TEST_ARROWS: &[(&str, &[&str])] = &[
    // Itself, with all of its features; its examples have a real server.
    ("nfs-client", &["nfs-client", "nfs-server"]),
    ("nfs-server", &["nfs-client", "nfs-lab"]),
    // The server of the file system's tests is the client's, which speaks the wire's words.
    ("nfs-fuse", &["nfs-wire"]),
    ("penstock", &["nfs-lab"]),
];

/// Rules on the manifests of the workspace.
pub(crate) fn check(tree: &Tree, findings: &mut Vec<Finding>) -> Result<()> {
    if let Some(manifest) = tree.text("Cargo.toml") {
        reasons(manifest, findings);
    }
    members_share(tree, findings);
    files_present(tree, findings);
    parse_toml(tree, findings);
    unused(tree, findings);
    let arrows = arrows(&metadata(tree)?);
    findings.extend(arrows.iter().filter_map(forbidden));
    findings.extend(missing_arrows(&arrows));
    Ok(())
}

/// "`from` depends on `to`", both of the workspace.
#[derive(Debug, PartialEq, Eq)]
struct Arrow {
    from: String,
    to: String,
    /// Whether the dependency is one of the tests only (`dev-dependencies`).
    dev: bool,
}

fn metadata(tree: &Tree) -> Result<Value> {
    let output = Command::new(run::cargo())
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(&tree.root)
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata did not print JSON")
}

fn arrows(metadata: &Value) -> Vec<Arrow> {
    let packages = metadata["packages"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let ours: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    let mut arrows = Vec::new();
    for package in packages {
        let dependencies = package["dependencies"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        for dependency in dependencies {
            let Some(to) = dependency["name"].as_str().filter(|to| ours.contains(to)) else {
                continue;
            };
            let from = package["name"].as_str().unwrap_or_default().to_owned();
            let dev = dependency["kind"] == "dev";
            arrows.push(Arrow {
                from,
                to: to.to_owned(),
                dev,
            });
        }
    }
    arrows
}

fn forbidden(arrow: &Arrow) -> Option<Finding> {
    let allows = |table: &[(&str, &[&str])]| {
        table
            .iter()
            .any(|(from, to)| *from == arrow.from && to.contains(&arrow.to.as_str()))
    };
    if allows(ARROWS) || (arrow.dev && allows(TEST_ARROWS)) {
        return None;
    }
    let rule = "crates depend on each other only as ARCHITECTURE.md draws it";
    let cure = format!(
        "{} may not use {}: move the shared part down, or pass it in",
        arrow.from, arrow.to
    );
    Some(Finding::new(
        &format!("{}/Cargo.toml", arrow.from),
        0,
        rule,
        cure,
    ))
}

/// What may be used is what is used: an arrow that no manifest needs would let one in unseen.
fn missing_arrows(arrows: &[Arrow]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (from, all) in ARROWS.iter().chain(TEST_ARROWS) {
        for to in *all {
            if !arrows.iter().any(|a| a.from == *from && a.to == *to) {
                let rule = "the arrows that are allowed are those that there are";
                let cure = format!("{from} does not use {to}: take it out of the list");
                findings.push(Finding::new("xtask/src/check/manifests.rs", 0, rule, cure));
            }
        }
    }
    findings
}

/// Each dependency of a crate is named in its code, and in more than its tests unless it is for tests only.
fn unused(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in &tree.texts {
        let (Some(folder), Ok(manifest)) = (
            path.strip_suffix("Cargo.toml").filter(|f| !f.is_empty()),
            text.parse::<toml::Table>(),
        ) else {
            continue;
        };
        for (section, for_tests) in [("dependencies", false), ("dev-dependencies", true)] {
            let names = manifest.get(section).and_then(toml::Value::as_table);
            for name in names.into_iter().flat_map(toml::Table::keys) {
                if !is_named(tree, folder, &name.replace('-', "_"), for_tests) {
                    let rule = "a dependency is used";
                    let cure = format!("nothing names {name}, which stands in [{section}]");
                    findings.push(Finding::new(path, 0, rule, cure));
                }
            }
        }
    }
}

/// Whether code of the crate in `folder` has the word `name`.
fn is_named(tree: &Tree, folder: &str, name: &str, for_tests: bool) -> bool {
    let mut sources = tree.sources.iter().filter_map(|source| {
        let path = source.path.strip_prefix(folder)?;
        let outside = ["tests/", "examples/", "benches/"];
        let counts = for_tests || !outside.iter().any(|place| path.starts_with(place));
        // Below `tests/`, all is test to the scanner, also a crate's own program.
        let counts_whole = for_tests || folder.starts_with("tests/");
        counts.then_some((source, counts_whole))
    });
    sources.any(|(source, whole)| {
        source
            .numbered()
            .any(|(number, line)| (whole || !source.test[number - 1]) && has_word(line, name))
    })
}

/// Each dependency says why it is there: on its line, or on the line above.
fn reasons(manifest: &str, findings: &mut Vec<Finding>) {
    let mut inside = false;
    let mut above = "";
    for (index, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            inside = line.trim() == "[workspace.dependencies]";
        }
        let entry = inside && line.contains('=') && !line.trim_start().starts_with('#');
        let own_crate = line.contains("path = ");
        let explained = line.contains(" # ") || above.trim_start().starts_with("# ");
        if entry && !own_crate && !explained {
            let rule = "a dependency is a last resort and carries its reason";
            let cure = "write `# what it is for` behind it, or do without it";
            findings.push(Finding::new("Cargo.toml", index + 1, rule, cure));
        }
        // One comment above explains the next line only, not the whole block under it.
        above = line;
    }
}

/// Every member takes licence and lints from the workspace.
fn members_share(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in &tree.texts {
        // The examples, the fuzz targets and the Python package are workspaces of their own.
        let own = ["examples/", "fuzz/", "python/"];
        let member = path.ends_with("/Cargo.toml") && !own.iter().any(|own| path.starts_with(own));
        if !member {
            continue;
        }
        if !text.contains("license.workspace = true") {
            findings.push(Finding::new(
                path,
                0,
                "every crate has the workspace's licence",
                "license.workspace = true",
            ));
        }
        // nfs-io states its own lints: the workspace's, with unsafe code allowed.
        let own_lints = path == "crates/nfs-io/Cargo.toml" && text.contains("[lints.");
        if !own_lints && !text.contains("[lints]\nworkspace = true") {
            findings.push(Finding::new(
                path,
                0,
                "every crate has the workspace's lints",
                "[lints] workspace = true",
            ));
        }
    }
}

fn files_present(tree: &Tree, findings: &mut Vec<Finding>) {
    let files = [
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "deny.toml",
        ".ci/run",
    ];
    for path in files {
        if tree.text(path).is_none() {
            findings.push(Finding::new(
                path,
                0,
                "the house's papers are in the tree",
                "add the file",
            ));
        }
    }
}

fn parse_toml(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree
        .texts
        .iter()
        .filter(|(path, _)| path.ends_with(".toml"))
    {
        if let Err(error) = text.parse::<toml::Table>() {
            let line = error
                .span()
                .map_or(0, |span| text[..span.start].lines().count());
            findings.push(Finding::new(
                path,
                line,
                "TOML files parse",
                error.message(),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::source::Source;

    #[test]
    fn a_dependency_without_a_reason_is_caught() {
        let manifest = "[workspace.dependencies]\nnfs-io = { path = \"x\" }\nlibc = \"0.2\" # calls\n\
                        # latency\nhdrhistogram = \"7\"\nrand = \"0.9\"\n[profile.dev]\nopt-level = 1\n";
        let mut findings = Vec::new();
        reasons(manifest, &mut findings);
        assert_eq!(findings.iter().map(|f| f.line).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn a_dependency_that_nothing_names_is_caught() {
        let manifest = "[dependencies]\nfs-extra = \"1\"\nlibc = \"1\"\nrand = \"1\"\n\
                        [dev-dependencies]\ntempfile = \"3\"\nserde = \"1\"\n";
        let tree = Tree {
            root: ".".into(),
            sources: vec![
                Source::parse(
                    "a/src/lib.rs",
                    "use fs_extra::x; // serde\n#[cfg(test)]\nmod tests {\n    use rand::Rng;\n}\n",
                ),
                Source::parse("a/tests/b.rs", "use tempfile::tempdir;"),
                Source::parse("b/src/lib.rs", "use libc::c_int;"),
            ],
            texts: vec![("a/Cargo.toml".into(), manifest.into())],
        };
        let mut findings = Vec::new();
        unused(&tree, &mut findings);
        let cures: Vec<&str> = findings.iter().map(|f| f.cure.as_str()).collect();
        assert_eq!(cures.len(), 3, "{cures:?}");
        for (cure, name) in cures.iter().zip(["libc", "rand", "serde"]) {
            assert!(cure.contains(name), "{cure}");
        }
    }

    #[test]
    fn an_arrow_that_nobody_needs_is_caught() {
        let mut all: Vec<Arrow> = Vec::new();
        for (dev, (from, to)) in [(false, ARROWS), (true, TEST_ARROWS)]
            .into_iter()
            .flat_map(|(dev, table)| table.iter().map(move |entry| (dev, *entry)))
        {
            all.extend(to.iter().map(|to| Arrow {
                from: from.to_owned(),
                to: (*to).to_owned(),
                dev,
            }));
        }
        assert_eq!(missing_arrows(&all), []);
        all.pop();
        assert_eq!(missing_arrows(&all).len(), 1);
    }

    #[test]
    fn a_forbidden_arrow_is_caught() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "nfs-wire", "dependencies": [{ "name": "thiserror" }, { "name": "nfs-io" }] },
            { "name": "nfs-io", "dependencies": [] },
            { "name": "nfs-server", "dependencies": [
                { "name": "nfs-io", "kind": null },
                { "name": "nfs-client", "kind": "dev" },
            ]},
            { "name": "nfs-client", "dependencies": [{ "name": "nfs-server", "kind": null }] },
        ]});
        let bad: Vec<_> = arrows(&metadata).iter().filter_map(forbidden).collect();
        assert_eq!(bad.len(), 2);
        assert!(bad[0].cure.contains("nfs-wire may not use nfs-io"));
        assert!(bad[1].cure.contains("nfs-client may not use nfs-server"));
    }

    #[test]
    fn broken_toml_is_caught_with_its_line() {
        let tree = Tree {
            root: ".".into(),
            sources: Vec::new(),
            texts: vec![("a.toml".into(), "a = 1\nb = \n".into())],
        };
        let mut findings = Vec::new();
        parse_toml(&tree, &mut findings);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 2);
    }
}
