//! The Python package `python/`: an environment to build and test it in, and its wheel.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::run;

/// The oldest Python that the package runs on, as its pyproject.toml says.
const PYTHON_MIN: &str = "(3, 11)";

/// An environment of Python's own, below `target/`, so that nothing of the machine's changes.
pub(crate) struct Environment {
    directory: PathBuf,
    project: PathBuf,
}

impl Environment {
    /// Makes it, with `pip` and nothing else in it, or takes the one that is there.
    ///
    /// # Errors
    /// There is no Python that is new enough and can make one: the error names the cure.
    pub(crate) fn make(root: &Path) -> Result<Self> {
        let environment = Self {
            directory: root.join("target/python"),
            project: root.join("python"),
        };
        if environment.program("pip").exists() {
            return Ok(environment);
        }
        let new_enough = format!("import sys; sys.exit(sys.version_info < {PYTHON_MIN})");
        let mut look = Command::new("python3");
        let found = look.args(["-c", &new_enough]).status();
        ensure!(
            found.is_ok_and(|status| status.success()),
            "no Python 3.11 or newer: install python3"
        );
        let mut make = Command::new("python3");
        make.args(["-m", "venv"]).arg(&environment.directory);
        let made = run::streams("make an environment of Python", &mut make)?;
        ensure!(made, "python3 makes no environment: install python3-venv");
        Ok(environment)
    }

    /// A program of the environment.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.directory.join("bin").join(name)
    }

    /// Installs what the package's tests ask for (`maturin` alone if `all` is false), in the pinned versions.
    ///
    /// # Errors
    /// It cannot be had, most likely because there is no network.
    pub(crate) fn install(&self, all: bool) -> Result<()> {
        let path = self.project.join("pyproject.toml");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let mut wanted = requirements(&text)?;
        wanted.retain(|wanted| all || wanted.starts_with("maturin"));
        let mut install = self.pip();
        install.args(&wanted);
        if run::streams(&format!("pip install {}", wanted.join(" ")), &mut install)? {
            return Ok(());
        }
        bail!("pip cannot install {}: no network?", wanted.join(" "))
    }

    /// Builds the wheel; where it is, or what the build said last if it failed. `maturin` has to be installed.
    ///
    /// # Errors
    /// It cannot be started, or what it made is not there.
    pub(crate) fn wheel(
        &self,
        profile: &str,
        output: &Path,
    ) -> Result<Result<PathBuf, Vec<String>>> {
        let wheels = || -> Result<Vec<PathBuf>> {
            let entries = std::fs::read_dir(output).into_iter().flatten();
            let paths: std::io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
            let mut paths = paths.with_context(|| output.display().to_string())?;
            paths.retain(|path| path.extension().is_some_and(|extension| extension == "whl"));
            Ok(paths)
        };
        for old in wheels()? {
            std::fs::remove_file(&old).with_context(|| old.display().to_string())?;
        }
        let mut build = Command::new(self.program("maturin"));
        build.current_dir(&self.project);
        build.args(["build", "--locked", "--profile", profile, "--out"]);
        build.arg(output).arg("--interpreter");
        build.arg(self.program("python"));
        if let Err(last) = run::build("build the wheel", &mut build)? {
            return Ok(Err(last));
        }
        Ok(Ok(wheels()?.pop().context("maturin made no wheel")?))
    }

    /// Installs a wheel in place of the one before it.
    ///
    /// # Errors
    /// It cannot be installed.
    pub(crate) fn install_wheel(&self, wheel: &Path) -> Result<()> {
        let mut install = self.pip();
        install.args(["--force-reinstall", "--no-deps", "--no-index"]);
        let installed = run::streams("pip install the wheel", install.arg(wheel))?;
        ensure!(installed, "the wheel cannot be installed");
        Ok(())
    }

    fn pip(&self) -> Command {
        let mut pip = Command::new(self.program("pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check"]);
        // Standard output belongs to the tests' closing line.
        pip.stdout(std::io::stderr());
        pip
    }
}

/// What the package's tests run on, from its pyproject.toml.
fn requirements(pyproject: &str) -> Result<Vec<String>> {
    let table: toml::Table = pyproject.parse().context("python/pyproject.toml")?;
    let project = table.get("project");
    let test = project
        .and_then(|project| {
            project
                .get("optional-dependencies")?
                .get("test")?
                .as_array()
        })
        .context("python/pyproject.toml has no project.optional-dependencies.test")?;
    let texts: Option<Vec<_>> = test
        .iter()
        .map(|one| one.as_str().map(str::to_owned))
        .collect();
    texts.context("a requirement in python/pyproject.toml is no text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tests_run_on_is_pinned() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/pyproject.toml");
        let wanted = requirements(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(wanted.iter().any(|one| one.starts_with("maturin==")));
        for one in wanted {
            assert!(one.contains("=="), "{one}");
        }
        assert!(requirements("[project]\nname = \"x\"\n").is_err());
    }
}
