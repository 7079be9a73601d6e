//! Cargo and what it builds for: the commands that call it, and the targets that it can link.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run;

/// Where cargo puts what it builds for the package or workspace at `root`.
pub(crate) fn target_directory(root: &Path) -> Result<PathBuf> {
    let mut command = cargo(root);
    command.args([
        "metadata",
        "--no-deps",
        "--format-version",
        "1",
        "--offline",
    ]);
    let output = command.output().context("cargo metadata")?;
    anyhow::ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let directory = metadata["target_directory"]
        .as_str()
        .context("no target_directory")?;
    Ok(directory.into())
}

/// A command that calls cargo in `root`.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(run::cargo());
    command.current_dir(root);
    command
}

/// The target whose programs need no library of the machine that they run on.
pub(crate) fn static_target() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// Makes the standard library of the target available, where rustup manages the compiler.
///
/// # Errors
/// It is not to be had.
pub(crate) fn install_target(target: &str) -> Result<()> {
    if has_target(target) {
        return Ok(());
    }
    let mut install = Command::new("rustup");
    install.args(["target", "add", target]);
    let installed = run::streams(&format!("rustup target add {target}"), &mut install);
    if installed.unwrap_or(false) {
        return Ok(());
    }
    bail!(
        "Rust's standard library for {target} is missing: `rustup target add {target}`, or package only `deb`, which \
         does not need it"
    )
}

/// Whether the compiler can link programs for this target.
fn has_target(target: &str) -> bool {
    let mut command = Command::new("rustc");
    command.args(["--print", "target-libdir", "--target", target]);
    let Ok(output) = command.output() else {
        return false;
    };
    let directory = String::from_utf8_lossy(&output.stdout);
    output.status.success() && Path::new(directory.trim()).is_dir()
}
