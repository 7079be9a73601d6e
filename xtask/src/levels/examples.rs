//! The level of the examples that are workspaces of their own, since they bring crates that nothing else here needs.

use std::path::Path;

use anyhow::Result;

use super::Tally;
use super::build::Built;
use crate::cargo::cargo;
use crate::run::{self, Patience};

/// How long the example's build and tests may take: a minute on two idle cores.
const PATIENCE: Patience = Patience::seconds(600);

/// Tests the library's example of an object store against the server that was built.
pub(super) fn run(root: &Path, built: &Built) -> Result<Tally> {
    let mut command = cargo(&root.join("examples/object-store"));
    command
        .args(["test", "--locked", "--quiet"])
        .env("PENSTOCK_SERVER", built.server());
    let tested = run::build_within("test examples/object-store", &mut command, PATIENCE)?;
    Ok(match tested {
        Ok(()) => Tally::one(true),
        Err(last) => Tally::build_failure("examples: the object store does not hold", &last),
    })
}
