//! `cargo xtask check`: what the compiler cannot check, as code.
//!
//! Each rule says where it was broken, what it asks and what to do about it. A rule that only a reviewer
//! remembers is broken within a month; one that fails the build is kept.

mod boundaries;
mod documents;
mod library;
mod manifests;
mod markers;
mod modules;
mod promises;
mod shape;
mod source;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use self::source::Source;
use crate::run;

/// Runs the house's rules alone; an error if one is broken.
pub(crate) fn check_rules(root: &Path) -> Result<()> {
    if rules(root)? {
        return Ok(());
    }
    bail!("check failed: house rules")
}

/// Runs rustfmt, clippy, rustdoc and the house's rules; an error if any of them found something.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut failed = Vec::new();
    let mut step = |name: &'static str, ok: bool| {
        if !ok {
            failed.push(name);
        }
    };
    step("house rules", rules(root)?);
    step(
        "rustfmt",
        run::streams("rustfmt", cargo(root).args(["fmt", "--all", "--check"]))?,
    );
    step("clippy", run::streams("clippy", &mut clippy(root))?);
    step("rustdoc", rustdoc(root)?);
    step("features of nfs-client", library::build_features(root)?);
    step("nfs-wire for wasm32", wire_for_wasm(root)?);
    step("cargo deny", deny(root)?);
    if failed.is_empty() {
        println!("check: all rules hold");
        return Ok(());
    }
    bail!("check failed: {}", failed.join(", "))
}

/// Everything the rules look at, read once.
pub(crate) struct Tree {
    /// Path of the workspace's root.
    pub(crate) root: PathBuf,
    /// Rust files of the project, scanned.
    pub(crate) sources: Vec<Source>,
    /// All tracked text files: path and content.
    pub(crate) texts: Vec<(String, String)>,
}

impl Tree {
    /// Reads the files that git tracks or would track (new files that are not ignored).
    fn read(root: &Path) -> Result<Self> {
        let mut tree = Self {
            root: root.to_owned(),
            sources: Vec::new(),
            texts: Vec::new(),
        };
        for path in tracked(root)? {
            let Ok(bytes) = std::fs::read(root.join(&path)) else {
                continue;
            };
            let Ok(text) = String::from_utf8(bytes) else {
                continue;
            };
            if path.ends_with(".rs") {
                tree.sources.push(Source::parse(&path, &text));
            }
            tree.texts.push((path, text));
        }
        Ok(tree)
    }

    /// The content of one tracked file.
    fn text(&self, path: &str) -> Option<&str> {
        self.texts
            .iter()
            .find(|(p, _)| p == path)
            .map(|(_, text)| text.as_str())
    }
}

/// One place where a rule is broken, with its cure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Path of the file from the workspace's root.
    pub(crate) path: String,
    /// Line, from 1; 0 means the file as a whole.
    pub(crate) line: usize,
    /// The rule that is broken: what is asked of the code.
    pub(crate) rule: &'static str,
    /// What to do about the finding.
    pub(crate) cure: String,
    /// A warning is printed and does not fail the check.
    pub(crate) warning: bool,
}

impl Finding {
    /// A broken rule that fails the check.
    pub(crate) fn new(
        path: &str,
        line: usize,
        rule: &'static str,
        cure: impl Into<String>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            line,
            rule,
            cure: cure.into(),
            warning: false,
        }
    }

    /// This finding as a warning, which does not fail the check.
    pub(crate) fn warning(mut self) -> Self {
        self.warning = true;
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.warning { "warning" } else { "error" };
        write!(
            f,
            "{}:{}: {kind}: {}\n    cure: {}",
            self.path, self.line, self.rule, self.cure
        )
    }
}

/// All rules over the tree at `root`; true if none is broken.
fn rules(root: &Path) -> Result<bool> {
    let tree = Tree::read(root)?;
    let mut findings = Vec::new();
    for source in &tree.sources {
        boundaries::check(source, &mut findings);
        markers::check_source(source, &mut findings);
        shape::check(source, &mut findings);
    }
    boundaries::check_limits_files(&tree, &mut findings);
    boundaries::check_exceptions_used(&tree, &mut findings);
    markers::check_workplaces(&tree, &mut findings);
    manifests::check(&tree, &mut findings)?;
    library::check(&tree, &mut findings)?;
    modules::check(&tree, &mut findings);
    documents::check(&tree, &mut findings);
    promises::check(&tree, &mut findings);
    for finding in &findings {
        eprintln!("{finding}");
    }
    let errors = findings.iter().filter(|f| !f.warning).count();
    let warnings = findings.len() - errors;
    println!(
        "house rules: {} files, {errors} errors, {warnings} warnings",
        tree.texts.len()
    );
    Ok(errors == 0)
}

fn tracked(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .context("git ls-files: is git installed?")?;
    if !output.status.success() {
        bail!(
            "git ls-files failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(list
        .split('\0')
        .filter(|p| !p.is_empty())
        .map(str::to_owned)
        .collect())
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(run::cargo());
    command.current_dir(root);
    command
}

fn clippy(root: &Path) -> Command {
    let mut command = cargo(root);
    command.args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]);
    command
}

/// The documentation of all crates, whose links have to lead somewhere; of the client library with all that programs
/// may ask for.
fn rustdoc(root: &Path) -> Result<bool> {
    let document = |arguments: &[&str]| {
        let mut command = cargo(root);
        command
            .args(["doc", "--no-deps", "--quiet"])
            .args(arguments)
            .env("RUSTDOCFLAGS", "-D warnings");
        run::streams("rustdoc", &mut command)
    };
    let others = document(&["--workspace", "--exclude", "nfs-client"])?;
    Ok(document(&["-p", "nfs-client", "--all-features"])? && others)
}

/// nfs-wire takes nothing from its surroundings: where the target is installed, it builds without them.
/// Elsewhere the rule on `std::{net, fs, time}` stands alone.
fn wire_for_wasm(root: &Path) -> Result<bool> {
    const TARGET: &str = "wasm32-unknown-unknown";
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .context("rustc")?;
    let sysroot = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !Path::new(&sysroot)
        .join("lib/rustlib")
        .join(TARGET)
        .exists()
    {
        println!("nfs-wire for wasm32: {TARGET} is not installed; its source was checked instead");
        return Ok(true);
    }
    let mut command = cargo(root);
    run::streams(
        "nfs-wire for wasm32",
        command.args(["check", "-p", "nfs-wire", "--target", TARGET]),
    )
}

fn deny(root: &Path) -> Result<bool> {
    if !run::exists("cargo-deny") {
        println!(
            "cargo deny: not installed; deny.toml was only parsed (cure: cargo install cargo-deny)"
        );
        return Ok(true);
    }
    run::streams("cargo deny", cargo(root).args(["deny", "check"]))
}
