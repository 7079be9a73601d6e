//! The program to be packaged: built, and split into what runs and what a debugger wants.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo::{cargo, install_target, static_target, target_directory};
use crate::run;

/// Which C library the program is linked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    /// The one of the machine that builds.
    System,
    /// musl, as a part of the program: it runs on any Linux, and asks /etc/passwd and nscd for names.
    Static,
}

/// A program that was built.
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// The machine's word for its processor, as Rust has it: `x86_64`.
    pub(super) processor: String,
}

impl Build {
    /// Builds `penstock` with this profile.
    ///
    /// # Errors
    /// It does not build.
    pub(super) fn make(self, root: &Path, profile: &str) -> Result<Program> {
        let mut command = cargo(root);
        command.args(["build", "-p", "penstock", "--profile", profile]);
        let mut directory = target_directory(root)?;
        if self == Self::Static {
            let target = static_target();
            install_target(&target)?;
            command.args(["--target", &target]);
            directory.push(target);
        }
        // Cargo's own name for the directory.
        let folder = if profile == "dev" { "debug" } else { profile };
        let built = run::streams(
            &format!("build penstock ({profile}, {self:?})"),
            &mut command,
        )?;
        ensure!(built, "penstock does not build");
        Program::given(&directory.join(folder).join("penstock"))
    }
}

impl Program {
    /// A program that is there.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn given(path: &Path) -> Result<Self> {
        let path = path
            .canonicalize()
            .with_context(|| path.display().to_string())?;
        let processor = std::env::consts::ARCH.to_owned();
        Ok(Self { path, processor })
    }

    /// Puts the program without its symbols at `to`, and the symbols at `symbols`, with a link from the one to the
    /// other.
    ///
    /// # Errors
    /// `objcopy` is missing or fails.
    pub(super) fn split(&self, to: &Path, symbols: &Path) -> Result<()> {
        for path in [to, symbols] {
            let directory = path.parent().context("a file in no directory")?;
            std::fs::create_dir_all(directory)?;
        }
        objcopy(&[&"--only-keep-debug", &self.path, &symbols])?;
        let link = format!("--add-gnu-debuglink={}", symbols.display());
        objcopy(&[&"--strip-all", &link, &self.path, &to])
    }

    /// The identity that the linker gave the program, in hexadecimal digits, by which debuggers find its symbols.
    ///
    /// # Errors
    /// It has none.
    pub(super) fn build_id(&self) -> Result<String> {
        let mut command = Command::new("readelf");
        let output = command.arg("-n").arg(&self.path).output();
        let output = output.context("readelf (package binutils)")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let id = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("Build ID: "));
        Ok(id.context("the program has no build id")?.to_owned())
    }

    /// Runs the program and returns what it prints.
    ///
    /// # Errors
    /// It fails.
    pub(super) fn prints(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let mut command = Command::new(&self.path);
        let output = command.args(arguments).output();
        let output = output.with_context(|| self.path.display().to_string())?;
        ensure!(
            output.status.success(),
            "penstock {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(output.stdout)
    }
}

fn objcopy(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Result<()> {
    let mut command = Command::new("objcopy");
    for argument in arguments {
        command.arg(argument);
    }
    let status = command.status().context("objcopy (package binutils)")?;
    ensure!(status.success(), "objcopy: {status}");
    Ok(())
}
