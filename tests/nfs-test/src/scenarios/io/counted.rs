//! Not yet.
use crate::host::Context;
use anyhow::Result;
pub(in crate::scenarios) fn run(_context: &Context) -> Result<String> {
    anyhow::bail!("not yet")
}
