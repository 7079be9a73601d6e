//! What is handed to people who do not build it: each kind of package is made, installed in a copy of this machine,
//! used as somebody new to it would, and removed again.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nfs_lab::{needs, output_within};

use super::machine_copy::MachineCopy;
use crate::host::Context;

/// How long it may take to compress a program with all its symbols, or to use a package.
const DEADLINE: Duration = Duration::from_secs(300);

/// What a Debian package may leave where it was installed and purged: the notes of the tools that did it.
const OF_DPKG: [&str; 6] = [
    "var/lib/dpkg/",
    "var/log/",
    "var/cache/",
    "etc/group",
    "etc/gshadow",
    "etc/.pwd.lock",
];

/// The Debian package: installed, served from, mounted, copied to and from, purged.
pub(super) fn debian(context: &Context) -> Result<String> {
    let made = package(context, "deb", &context.lab.program)?;
    let package = made.iter().find(|path| is_named(path, "penstock_"));
    let package = package.context("no package penstock")?;
    let copy = MachineCopy::new(context, "memory")?;
    std::fs::copy(package, copy.put("penstock.deb"))?;
    copy.run(include_str!("debian.sh"), DEADLINE)?;
    let left = copy.left(&OF_DPKG)?;
    ensure!(left == ["srv/files/kept"], "left behind: {left:?}");
    let size = package.metadata()?.len() >> 20;
    Ok(format!("{size} MiB, nothing left but the data"))
}

/// The tarball, with the static program.
pub(super) fn without_libraries(context: &Context) -> Result<String> {
    let program = needs::static_program().context("no static program")?;
    let made = package(context, "tarball", &program)?;
    let archive = made.iter().find(|path| !is_named(path, "debug"));
    let archive = archive.context("no tarball")?;
    let copy = MachineCopy::new(context, "memory")?;
    std::fs::copy(archive, copy.put("penstock.tar.gz"))?;
    copy.run(include_str!("tarball.sh"), DEADLINE)?;
    let left = copy.left(&["var/cache/"])?;
    ensure!(left == ["srv/files/kept"], "left behind: {left:?}");
    let size = archive.metadata()?.len() >> 20;
    Ok(format!("{size} MiB, nothing left but the data"))
}

/// The container image: built of its directory, and its command run twice, with the same volumes.
pub(super) fn image(context: &Context) -> Result<String> {
    let program = needs::static_program().context("no static program")?;
    let made = package(context, "container", &program)?;
    let directory = made.iter().find(|path| path.is_dir());
    let directory = directory.context("no directory")?;
    let work = context.lab.dir.join("work");
    std::fs::create_dir(&work)?;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--net", "--pid", "--mount-proc"]);
    unshare.args(["--fork", "--kill-child", "sh", "-eu", "-c"]);
    unshare.args([include_str!("image.sh"), "sh"]);
    output_within(unshare.arg(directory).arg(&work), DEADLINE)?;
    Ok("built, started, a mount's open file read after its replacement".to_owned())
}

/// Makes a package of this kind of a program; where its files are.
fn package(context: &Context, kind: &str, program: &Path) -> Result<Vec<PathBuf>> {
    let own = std::env::current_exe()?;
    let xtask = own.with_file_name("xtask");
    ensure!(
        xtask.is_file(),
        "no {}: cargo build -p xtask",
        xtask.display()
    );
    let to = context.lab.dir.join(kind);
    let mut command = Command::new(xtask);
    command.args(["package", kind, "--program"]).arg(program);
    let printed = output_within(command.arg("--output").arg(to), DEADLINE)?;
    let printed = String::from_utf8(printed)?;
    let made: Vec<PathBuf> = printed.lines().map(PathBuf::from).collect();
    ensure!(made.len() == 2, "{made:?}");
    Ok(made)
}

fn is_named(path: &Path, part: &str) -> bool {
    path.file_name()
        .and_then(OsStr::to_str)
        .is_some_and(|name| name.contains(part))
}
