//! What a crate may depend on, and why a dependency is there at all.

use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Finding, Tree};
use crate::run;

/// The arrows of ARCHITECTURE.md: a crate may use those named beside it and no other of ours.
const ARROWS: &[(&str, &[&str])] = &[
    ("nfs-wire", &[]),
    ("nfs-io", &[]),
    ("nfs-server", &["nfs-io", "nfs-wire"]),
    ("nfs-client", &["nfs-io", "nfs-wire"]),
    ("nfs-fuse", &["nfs-client"]),
    ("nfs-bench", &["nfs-client", "nfs-io", "nfs-wire"]),
    (
        "penstock",
        &[
            "nfs-bench",
            "nfs-client",
            "nfs-fuse",
            "nfs-io",
            "nfs-server",
            "nfs-wire",
        ],
    ),
    // The test crate uses what it tests with; the servers it tests are real processes.
    ("nfs-test", &["nfs-client", "nfs-io", "nfs-wire"]),
    ("xtask", &[]),
];

/// What tests of a crate may use besides: the client is the traffic source of the server's tests.
const TEST_ARROWS: &[(&str, &[&str])] = &[("nfs-server", &["nfs-client"])];

/// Rules on the manifests of the workspace.
pub(crate) fn check(tree: &Tree, findings: &mut Vec<Finding>) -> Result<()> {
    if let Some(manifest) = tree.text("Cargo.toml") {
        reasons(manifest, findings);
    }
    members_share(tree, findings);
    files_present(tree, findings);
    parse_toml(tree, findings);
    for arrow in arrows(&metadata(tree)?) {
        findings.extend(forbidden(&arrow));
    }
    Ok(())
}

/// "`from` depends on `to`", both of the workspace.
#[derive(Debug, PartialEq, Eq)]
struct Arrow {
    from: String,
    to: String,
    /// Only for tests.
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
        let member = path.ends_with("/Cargo.toml") && !path.starts_with("fuzz/");
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

    #[test]
    fn a_dependency_without_a_reason_is_caught() {
        let manifest = "[workspace.dependencies]\nnfs-io = { path = \"x\" }\nlibc = \"0.2\" # calls\n\
                        # latency\nhdrhistogram = \"7\"\nrand = \"0.9\"\n[profile.dev]\nopt-level = 1\n";
        let mut findings = Vec::new();
        reasons(manifest, &mut findings);
        assert_eq!(findings.iter().map(|f| f.line).collect::<Vec<_>>(), [6]);
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
            { "name": "nfs-client", "dependencies": [{ "name": "nfs-server", "kind": "dev" }] },
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
