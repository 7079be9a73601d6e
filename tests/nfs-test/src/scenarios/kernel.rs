//! The Linux kernel's NFSv3 client on our server, in a User Mode Linux guest: the suites of
//! [`crate::guest`], all in one boot, and the host's own look at what they left on the disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nfs_lab::pattern::{DIGEST_START, digest};
use nfs_lab::{
    FsKind, Guest, GuestOutcome, Kernel, LoopFs, Mount, Netns, Server, ServerOptions, output,
};

use crate::guest;
use crate::host::Context;
use crate::manifest::{self, Entry};

/// How long a guest may run in all.
const GUEST_DEADLINE: Duration = Duration::from_secs(900);
/// How many source packages of the registry go into the tree, at most.
const PACKAGES_MAX: usize = 60;
/// The tree gets packages until it has this many entries.
const TREE_ENTRIES: usize = 2000;

pub(super) fn run(context: &Context) -> Result<String> {
    run_on(context, Kernel::Installed)
}

pub(super) fn newer(context: &Context) -> Result<String> {
    run_on(context, Kernel::Newer)
}

fn run_on(context: &Context, kernel: Kernel) -> Result<String> {
    let export = context.lab.dir.join("export");
    // On a disk in memory: ten thousands of names are put on stable storage here, one by one.
    let mut disk = LoopFs::new(FsKind::Xfs, 2048, &export)?;
    let archive = context.lab.dir.join("tree.tar");
    let original = context.lab.dir.join("original");
    let tree = source_tree(&original, &archive).context("make a source tree")?;
    fs::write(
        context.lab.dir.join("tree.json"),
        serde_json::to_vec(&tree)?,
    )?;

    let netns = Netns::new()?;
    let options = ServerOptions {
        listen: format!("{}:2049", Netns::HOST),
        netns: Some(&netns),
        more: &["--allow", Netns::NETWORK, "--squash", "none"],
        ..ServerOptions::default()
    };
    let state = context.lab.dir.join("state");
    let server = Server::start(&context.lab, &export, &state, &options)?;
    let operations = if context.quick { 2_000 } else { 20_000 };
    let guest = Guest {
        kernel,
        netns: &netns,
        port: server.address().port(),
        mounts: &[
            Mount::new("nfs", "/", "hard"),
            Mount::new("uncached-1", "/", "nosharecache,noac"),
            Mount::new(
                "uncached-2",
                "/",
                "nosharecache,noac,rsize=65536,wsize=32768",
            ),
            Mount::new("cached-1", "/", "nosharecache"),
            Mount::new("cached-2", "/", "nosharecache,rsize=4096,wsize=8192"),
        ],
        script: &format!(
            "mkdir /mnt/nfs/calls /mnt/nfs/tree /mnt/nfs/sharing\n\
             $T guest --results $R calls /mnt/nfs/calls\n\
             $T guest --results $R tree /mnt/nfs/tree $W/tree.tar $W/tree.json\n\
             $T guest --results $R fsx /mnt/nfs --seed {seed} --operations {operations}\n\
             $T guest --results $R sharing /mnt/uncached-1 /mnt/uncached-2 \
               /mnt/cached-1 /mnt/cached-2",
            seed = context.seed,
        ),
        within: GUEST_DEADLINE,
    };
    let outcome = guest.run(&context.lab, |_| Ok(()))?;
    server.stop()?;

    let mut wrong = failures(&outcome);
    wrong.extend(compare_calls(&outcome, "calls", &export.join("calls"))?);
    wrong.extend(compare_fsx(&outcome, "fsx", &export.join("fsx"))?);
    let on_disk = manifest::of_tree(&export.join("tree/tree"))?;
    for line in manifest::differences(&tree, &on_disk).into_iter().take(5) {
        wrong.push(format!("tree on the server's disk: {line}"));
    }
    let passed = verdicts(&outcome);
    let expected = guest::CALLS.len() + guest::SHARING + 4 + 1;
    disk.unmount()?;
    ensure!(
        wrong.is_empty(),
        "{} wrong: {}",
        wrong.len(),
        wrong.join(" | ")
    );
    ensure!(
        passed == expected,
        "{passed} verdicts, should be {expected}"
    );
    Ok(format!(
        "{passed} tests, {} entries in the tree, fsx {operations} operations",
        tree.len()
    ))
}

/// How many tests the guest says went well.
pub(super) fn verdicts(outcome: &GuestOutcome) -> usize {
    let lines = outcome.lines.iter();
    lines.filter(|line| line.starts_with("ok ")).count()
}

pub(super) fn failures(outcome: &GuestOutcome) -> Vec<String> {
    let failed = outcome
        .lines
        .iter()
        .filter_map(|line| line.strip_prefix("FAIL "));
    failed.map(str::to_owned).collect()
}

/// Compares what the client showed at the end of each test of a suite of calls with what is on the server's
/// disk.
pub(super) fn compare_calls(
    outcome: &GuestOutcome,
    suite: &str,
    calls: &Path,
) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let mut manifests = BTreeMap::new();
    let start = format!("manifest {suite}/");
    for line in &outcome.lines {
        if let Some((name, json)) = line
            .strip_prefix(&start)
            .and_then(|line| line.split_once(' '))
        {
            let entries: Vec<Entry> = serde_json::from_str(json).context("a guest's manifest")?;
            manifests.insert(name, entries);
        }
    }
    for (name, shown) in manifests {
        let found = manifest::of_tree(&calls.join(name))?;
        for line in manifest::differences(&shown, &found).into_iter().take(3) {
            wrong.push(format!("{suite}/{name} on the server's disk: {line}"));
        }
    }
    Ok(wrong)
}

/// Compares `file` on the server's disk with the length and digest that the guest told under `name`; `None`
/// if they are equal or nothing was told.
pub(super) fn compare_fsx(
    outcome: &GuestOutcome,
    name: &str,
    file: &Path,
) -> Result<Option<String>> {
    let start = format!("file {name} ");
    let expected = outcome
        .lines
        .iter()
        .find_map(|line| line.strip_prefix(&start));
    let Some(expected) = expected else {
        return Ok(None);
    };
    let content = fs::read(file)?;
    let found = format!("{} {}", content.len(), digest(DIGEST_START, &content));
    Ok(
        (found != expected)
            .then(|| format!("{name} on the server's disk: {found}, not {expected}")),
    )
}

/// Copies sources (this project's, and packages of cargo's registry) to `original` and packs them;
/// returns what there is.
pub(super) fn source_tree(original: &Path, archive: &Path) -> Result<Vec<Entry>> {
    fs::create_dir(original)?;
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let own = ["crates", "tests", "xtask"].map(|part| project.join(part));
    let mut tree = Vec::new();
    for source in own
        .into_iter()
        .filter(|part| part.is_dir())
        .chain(packages())
    {
        copy(&source, original)?;
        tree = manifest::of_tree(original)?;
        if tree.len() >= TREE_ENTRIES {
            break;
        }
    }
    // The format that keeps the nanoseconds.
    let mut tar = Command::new("tar");
    tar.arg("--format=posix")
        .arg("-C")
        .arg(original)
        .arg("-cf")
        .arg(archive)
        .arg(".");
    output(&mut tar)?;
    Ok(tree)
}

fn copy(source: &Path, to: &Path) -> Result<()> {
    output(Command::new("cp").arg("-a").arg(source).arg(to)).map(drop)
}

/// Unpacked sources of the packages that cargo has fetched.
fn packages() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let list = |dir: PathBuf| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten();
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect()
    };
    let registries = home
        .map(|home| list(home.join("registry/src")))
        .unwrap_or_default();
    let mut found: Vec<_> = registries
        .into_iter()
        .flat_map(list)
        .filter(|p| p.is_dir())
        .collect();
    found.sort();
    // Windows bindings are large and of no interest.
    found.retain(|path| !path.to_string_lossy().contains("windows"));
    found.truncate(PACKAGES_MAX);
    found
}
