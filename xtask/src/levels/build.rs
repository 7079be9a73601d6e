//! The builds that the levels run: the workspace with its tests, and the server that the scenarios start.

use std::path::{Path, PathBuf};
use std::process::Command;

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
    /// One that is built for development, as the unit tests are, with [`SERVER_FEATURES`] as well.
    Development,
}

/// Where the programs are that the levels run.
pub(super) struct Built {
    target: PathBuf,
    server: Server,
}

impl Built {
    /// Builds the workspace's tests, `nfs-test` and the server; what it said last where one of them does
    /// not build.
    pub(super) fn make(root: &Path, server: Server) -> Result<Result<Self, Vec<String>>> {
        let mut tests = cargo(root);
        tests.args(["test", "--workspace", "--no-run"]);
        let mut programs = cargo(root);
        programs.arg("build");
        let mut checked = cargo(root);
        checked.args(["build", "--profile", SERVER_PROFILE, "-p", "penstock"]);
        checked.args(["--features", SERVER_FEATURES]);
        let mut builds = Vec::new();
        match server {
            Server::Development => {
                programs.args(["-p", "nfs-test", "-p", "xtask", "-p", "penstock"]);
                programs.args(["--features", SERVER_FEATURES]);
            }
            Server::Checked => {
                // With the features that the tests were built with: what they have built is used, and two programs
                // are left to link. For the packages alone, half of what is below them would be built again.
                programs.args(["--workspace", "--bins", "--tests"]);
                builds.push(("build penstock, optimised", checked));
                builds.extend(static_build(root).map(|build| ("build penstock, static", build)));
            }
        }
        builds.push(("build the tests", tests));
        builds.push(("build what the scenarios run", programs));
        for (name, mut command) in builds {
            if let Err(last) = run::build(name, &mut command)? {
                return Ok(Err(last));
            }
        }
        let target = target_directory(root)?;
        Ok(Ok(Self { target, server }))
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

/// What builds the program as it is packaged for machines with other libraries, without optimisation. Where its
/// standard library is not to be had, the scenario that wants it says so.
fn static_build(root: &Path) -> Option<Command> {
    let target = cargo::static_target();
    if let Err(error) = cargo::install_target(&target) {
        eprintln!("    {error:#}");
        return None;
    }
    let mut command = cargo(root);
    command.args(["build", "-p", "penstock", "--target", &target]);
    Some(command)
}

/// What the level `build` counts: nothing if all was built, else a failure.
pub(super) fn tally(built: &Result<Built, Vec<String>>) -> Tally {
    match built {
        Ok(_) => Tally::default(),
        Err(last) => Tally::build_failure("build: the workspace or its tests do not build", last),
    }
}
