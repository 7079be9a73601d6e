//! The level of the examples that are workspaces of their own, since they bring crates that nothing else here needs.

use std::path::Path;

use anyhow::Result;

use super::Tally;
use super::build::Built;
use crate::cargo::cargo;
use crate::run;

/// Tests the library's example of an object store against the server that was built.
pub(super) fn run(root: &Path, built: &Built) -> Result<Tally> {
    let mut command = cargo(&root.join("examples/object-store"));
    command
        .args(["test", "--locked", "--quiet"])
        .env("PENSTOCK_SERVER", built.server());
    Ok(
        match run::build("test examples/object-store", &mut command)? {
            Ok(()) => Tally::one(true),
            Err(last) => Tally::build_failure("examples: the object store does not hold", &last),
        },
    )
}
