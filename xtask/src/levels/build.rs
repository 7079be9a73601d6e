//! The builds that the levels run: the workspace with its tests, and the server that the scenarios start.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::Tally;
use crate::cargo::{self, cargo, target_directory};
use crate::run;

/// The server of the scenarios: optimised like a release, with overflow checks and debug assertions on. Its panics
/// abort, as a user's would. The tests are built for development: theirs have to unwind to be reported.
const SERVER_PROFILE: &str = "checked";

/// What the server is built with besides: bytes that are not a file's can be told from a file's, and the disk's
/// errors can be had.
const SERVER_FEATURES: &str = "penstock/poison,penstock/faults";

/// Which server the scenarios are to start.
#[derive(Clone, Copy)]
pub(super) enum Server {
    /// The server that is built with [`SERVER_PROFILE`].
    Checked,
    /// The one that the unit tests' build has made, or nearly.
    Development,
}

/// Where the programs are that the levels run.
pub(super) struct Built {
    target: PathBuf,
    server: Server,
}

impl Built {
    /// Builds the workspace's tests, `nfs-test` and the server; `None` where one of them does not build.
    pub(super) fn make(root: &Path, server: Server) -> Result<Option<Self>> {
        let mut tests = cargo(root);
        tests.args(["test", "--workspace", "--no-run"]);
        let mut programs = cargo(root);
        programs.args(["build", "-p", "nfs-test", "-p", "xtask"]);
        let mut checked = cargo(root);
        checked.args(["build", "--profile", SERVER_PROFILE, "-p", "penstock"]);
        checked.args(["--features", SERVER_FEATURES]);
        let built = match server {
            Server::Development => {
                programs.args(["-p", "penstock"]);
                true
            }
            Server::Checked => {
                run::streams("build penstock, optimised", &mut checked)? && build_static(root)?
            }
        };
        let built = built
            && run::streams("build the tests", &mut tests)?
            && run::streams("build what the scenarios run", &mut programs)?;
        let target = target_directory(root)?;
        Ok(built.then_some(Self { target, server }))
    }

    /// The program that runs the scenarios.
    pub(super) fn scenarios(&self) -> PathBuf {
        self.target.join("debug/nfs-test")
    }

    /// The server that they are to start.
    pub(super) fn server(&self) -> PathBuf {
        let profile = match self.server {
            Server::Checked => SERVER_PROFILE,
            Server::Development => "debug",
        };
        self.target.join(profile).join("penstock")
    }
}

/// Builds the program as it is packaged for machines with other libraries, without optimisation. Where its standard
/// library is not to be had, the scenario that wants it says so.
fn build_static(root: &Path) -> Result<bool> {
    let target = cargo::static_target();
    if let Err(error) = cargo::install_target(&target) {
        eprintln!("    {error:#}");
        return Ok(true);
    }
    let mut command = cargo(root);
    command.args(["build", "-p", "penstock", "--target", &target]);
    run::streams("build penstock, static", &mut command)
}

/// What the level `build` counts: nothing if all was built, else a failure.
pub(super) fn tally(built: Option<&Built>) -> Tally {
    match built {
        Some(_) => Tally::default(),
        None => Tally::failure("build: the workspace or its tests do not build"),
    }
}
