//! What a builder of container images makes one from.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::build::Program;
use super::staging;

/// Makes the directory `container`: a Containerfile, and the static program beside it.
///
/// # Errors
/// `objcopy` is missing, or a file cannot be written.
pub(super) fn make(root: &Path, program: &Program, output: &Path) -> Result<Vec<PathBuf>> {
    let directory = output.join("container");
    staging::empty(&directory)?;
    let containerfile = std::fs::read(root.join("packaging/Containerfile"))?;
    staging::write(&directory.join("Containerfile"), &containerfile)?;
    let symbols = output.join("penstock-container.debug");
    program.split(&directory.join("penstock"), &symbols)?;
    Ok(vec![directory, symbols])
}
