//! What is installed, and where: one table for the tarball and the Debian package.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::build::Program;

/// What packages say of the sources that they were made from.
pub(super) struct Facts {
    pub(super) version: String,
    /// Seconds since 1970 of the last commit: what files in packages have as their time.
    pub(super) time: u64,
}

impl Facts {
    /// Of the sources at `root`.
    ///
    /// # Errors
    /// No version in Cargo.toml.
    pub(super) fn of(root: &Path) -> Result<Self> {
        let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
        let manifest: toml::Table = manifest.parse()?;
        let version = manifest
            .get("workspace")
            .and_then(|workspace| workspace.get("package")?.get("version")?.as_str())
            .context("Cargo.toml has no workspace.package.version")?
            .to_owned();
        Ok(Self {
            version,
            time: time(root),
        })
    }
}

/// As every tool for reproducible builds has it: SOURCE_DATE_EPOCH, or else the time of the last commit. Sources that
/// came without their history have the beginning of time.
fn time(root: &Path) -> u64 {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok();
    let committed = || {
        let mut command = Command::new("git");
        command
            .current_dir(root)
            .args(["log", "-1", "--format=%ct"]);
        let output = command.output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let seconds = given
        .or_else(committed)
        .and_then(|text| text.trim().parse().ok());
    seconds.unwrap_or_default()
}

/// Where a package's files go, below the directory that it is put together in.
pub(super) struct Layout {
    /// The directory that stands for the root of the file system, or for what the tarball is unpacked into.
    pub(super) top: PathBuf,
    /// `usr/`, or nothing where the one who unpacks it says where.
    pub(super) prefix: &'static str,
    /// Where the program is when it is installed: what the units start.
    pub(super) program: &'static str,
}

/// A file of the sources, and where it goes below the prefix.
const DOCUMENTS: [(&str, &str); 8] = [
    ("README.md", "share/doc/penstock/README.md"),
    ("CHANGELOG.md", "share/doc/penstock/CHANGELOG.md"),
    ("LICENSE-APACHE", "share/doc/penstock/LICENSE-APACHE"),
    ("LICENSE-MIT", "share/doc/penstock/LICENSE-MIT"),
    (
        "docs/examples/penstock.toml",
        "share/doc/penstock/examples/penstock.toml",
    ),
    (
        "docs/examples/grafana.json",
        "share/doc/penstock/examples/grafana.json",
    ),
    (
        "docs/examples/alerts.yml",
        "share/doc/penstock/examples/alerts.yml",
    ),
    ("packaging/sysusers.conf", "lib/sysusers.d/penstock.conf"),
];

const UNITS: [&str; 2] = ["penstock.service", "penstock.socket"];

/// A shell, and where it looks for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/penstock"),
    ("zsh", "share/zsh/vendor-completions/_penstock"),
    ("fish", "share/fish/vendor_completions.d/penstock.fish"),
];

impl Layout {
    /// Where this file, named below the prefix, is put together.
    pub(super) fn at(&self, below_prefix: &str) -> PathBuf {
        self.top.join(self.prefix).join(below_prefix)
    }

    /// Puts everything in its place but the program itself.
    ///
    /// # Errors
    /// A file cannot be written, or the program does not run.
    pub(super) fn fill(&self, root: &Path, program: &Program) -> Result<()> {
        for (from, to) in DOCUMENTS {
            let bytes = std::fs::read(root.join(from)).with_context(|| from.to_owned())?;
            write(&self.at(to), &bytes)?;
        }
        for unit in UNITS {
            let text = std::fs::read_to_string(root.join("docs/examples").join(unit))?;
            let text = text.replace("/usr/bin/penstock", self.program);
            write(&self.at("lib/systemd/system").join(unit), text.as_bytes())?;
        }
        for (shell, to) in COMPLETIONS {
            write(&self.at(to), &program.prints(&["completions", shell])?)?;
        }
        self.manual(program)
    }

    /// The manual pages, compressed as manuals are.
    fn manual(&self, program: &Program) -> Result<()> {
        let directory = self.at("share/man/man1");
        std::fs::create_dir_all(&directory)?;
        program.prints(&["man", &directory.display().to_string()])?;
        let mut gzip = Command::new("gzip");
        gzip.args(["-9", "-n"]);
        for entry in std::fs::read_dir(&directory)? {
            gzip.arg(entry?.path());
        }
        let status = gzip.status().context("gzip")?;
        ensure!(status.success(), "gzip: {status}");
        Ok(())
    }
}

/// Writes a file that all may read, and the directories above it.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let told = || path.display().to_string();
    let directory = path.parent().with_context(told)?;
    std::fs::create_dir_all(directory).with_context(told)?;
    std::fs::write(path, bytes).with_context(told)?;
    set_mode(path, 0o644)
}

/// Sets the permission bits of a file.
pub(super) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, permissions).with_context(|| path.display().to_string())
}

/// An empty directory at `path`, whatever was there.
pub(super) fn empty(path: &Path) -> Result<()> {
    if path.exists() {
        std::fs::remove_dir_all(path).with_context(|| path.display().to_string())?;
    }
    std::fs::create_dir_all(path).with_context(|| path.display().to_string())
}
