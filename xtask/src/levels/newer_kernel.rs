//! Set-up of a newer Linux for guests: User Mode Linux of Debian 13, beside the machine's own packages.
//!
//! Debian 12, on which the tests run, has Linux 6.1 for guests. The client of Linux 6.12 is another one in many
//! places. Its package is fetched with the machine's own `apt-get` from the machine's own mirror, with lists and a
//! cache of their own, so that nothing of the machine changes, and with the C library that it needs. Both are
//! unpacked, not installed, into a directory below the user's cache, where they stay for the next run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::Tally;
use super::setup::PATIENCE;
use crate::run;

/// The environment variable by which the scenarios learn of the directory: `NEWER_DIRECTORY` of the laboratory's
/// `Kernel`.
pub(super) const VARIABLE: &str = "PENSTOCK_NEWER_KERNEL";
/// The Debian release whose User Mode Linux it is.
const RELEASE: &str = "trixie";
/// What the kernel says of itself begins with this.
const VERSION: &str = "6.12.";
/// The kernel's package, and the one of the C library that it is linked with.
const PACKAGES: [&str; 2] = ["user-mode-linux", "libc6"];
/// The program that is the kernel, and the directory of the C library, below the directory.
const PROGRAM: &str = "usr/bin/linux.uml";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// Where the kernel is, or will be; `None` for a user without a home.
pub(super) fn directory() -> Option<PathBuf> {
    let absolute = |variable: &str| {
        let path = PathBuf::from(std::env::var_os(variable)?);
        path.is_absolute().then_some(path)
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("penstock-tests/linux-6.12"))
}

/// Fetches the kernel unless it is there, or says aloud why it cannot be had.
pub(super) fn set_up() -> Tally {
    // Only root's scenarios have guests, and what set-up says of a missing right is said once.
    if !run::is_root() || !run::exists("apt-get") {
        return Tally::default();
    }
    let Some(directory) = directory() else {
        return skip("neither HOME nor XDG_CACHE_HOME is set, so there is no place for it");
    };
    if let Ok(version) = version(&directory) {
        eprintln!(
            "==> Linux {version} for guests is in {}",
            directory.display()
        );
        return Tally::one(true);
    }
    match fetch(&directory) {
        Ok(version) => {
            eprintln!(
                "==> Linux {version} for guests is now in {}",
                directory.display()
            );
            Tally::one(true)
        }
        Err(error) => skip(&format!("{error:#}")),
    }
}

fn skip(reason: &str) -> Tally {
    let line = format!(
        "set-up: no Linux {VERSION}x for guests, the scenarios that need it skip: {reason}"
    );
    eprintln!("SKIP: {line}");
    let mut tally = Tally::skip();
    tally.say(&line);
    tally
}

/// The version that the kernel in `directory` says it has.
fn version(directory: &Path) -> Result<String> {
    let program = directory.join(PROGRAM);
    let version = output(Command::new(&program).arg("--version"))?;
    let version = version.trim();
    ensure!(
        version.starts_with(VERSION),
        "{} is Linux {version}",
        program.display()
    );
    let modules = directory.join("usr/lib/uml/modules").join(version);
    ensure!(modules.is_dir(), "no {}", modules.display());
    Ok(version.to_owned())
}

/// Fetches the packages, and unpacks them to `directory` in one step: what is there is whole.
fn fetch(directory: &Path) -> Result<String> {
    let work = directory.with_extension(format!("part-{}", std::process::id()));
    let fetched = fetch_to(&work, directory).and_then(|()| {
        if directory.exists() {
            fs::remove_dir_all(directory).context("removing what does not run")?;
        }
        fs::rename(work.join("root"), directory).context("putting it in its place")?;
        version(directory)
    });
    if work.exists() {
        fs::remove_dir_all(&work).with_context(|| format!("removing {}", work.display()))?;
    }
    fetched
}

fn fetch_to(work: &Path, directory: &Path) -> Result<()> {
    let root = work.join("root");
    for part in [
        "lists/partial",
        "cache/archives/partial",
        "packages",
        "root",
    ] {
        fs::create_dir_all(work.join(part)).with_context(|| work.display().to_string())?;
    }
    let sources = work.join("sources.list");
    fs::write(&sources, format!("deb {} {RELEASE} main\n", mirror()?))?;
    let settings = [
        format!("-oDir::Etc::sourcelist={}", sources.display()),
        "-oDir::Etc::sourceparts=-".to_owned(),
        format!("-oDir::State::lists={}", work.join("lists").display()),
        format!("-oDir::Cache={}", work.join("cache").display()),
        // What nobody reads here: translations, and lists for shops of programs.
        "-oAcquire::Languages=none".to_owned(),
        "-oAcquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
        "-oAPT::Sandbox::User=root".to_owned(),
    ];
    apt(&settings, work, &["update", "-q"])?;
    apt(
        &settings,
        &work.join("packages"),
        &[&["download", "-q"], &PACKAGES[..]].concat(),
    )?;
    for package in fs::read_dir(work.join("packages"))? {
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("-x").arg(package?.path()).arg(&root);
        output(&mut unpack)?;
    }
    // The kernel starts itself anew while it boots, by its own name: what it is linked with has to be in the file.
    let libraries = directory.join(LIBRARIES);
    let mut link = Command::new("patchelf");
    link.arg("--set-interpreter")
        .arg(libraries.join("ld-linux-x86-64.so.2"))
        .arg("--set-rpath")
        .arg(&libraries)
        .arg(root.join(PROGRAM));
    output(&mut link).map(drop)
}

/// The mirror from which the machine has Debian's own packages.
fn mirror() -> Result<String> {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(LABEL)|$(COMPONENT)|$(SITE)"]);
    mirror_among(&output(&mut targets)?)
        .context("the machine's apt has no mirror of Debian (apt-get indextargets)")
}

fn mirror_among(targets: &str) -> Option<String> {
    let mut lines = targets.lines();
    lines.find_map(|line| Some(line.strip_prefix("Debian|main|")?.to_owned()))
}

/// Runs `apt-get` in `at`, where it puts what it downloads.
fn apt(settings: &[String], at: &Path, arguments: &[&str]) -> Result<()> {
    eprintln!(
        "==> apt-get {} ({RELEASE}, apart from the machine's own)",
        arguments.join(" ")
    );
    let mut command = Command::new("apt-get");
    command
        .current_dir(at)
        .args(PATIENCE)
        .args(settings)
        .args(arguments);
    output(&mut command).map(drop)
}

/// What `command` prints; its errors are in the error if it fails.
fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().display().to_string();
    let output = command
        .stdin(Stdio::null())
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{program}: {}: {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_debians_own_and_no_other() {
        let targets = "Google|main|https://example.org/apt\n\
                       Debian-Security|main|http://mirror/debian-security\n\
                       Debian|contrib|http://other/debian\n\
                       Debian|main|http://mirror/debian\n\
                       Debian|main|http://second/debian\n";
        assert_eq!(mirror_among(targets).unwrap(), "http://mirror/debian");
        assert_eq!(mirror_among("Ubuntu|main|http://mirror/ubuntu\n"), None);
    }
}
