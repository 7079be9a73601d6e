//! A WRITE that comes twice: what was acknowledged after its first reply stands.
//!
//! A client that hears nothing sends its WRITE (A) again, with the same xid. Once it has the first reply it may
//! write the same bytes anew (B), and be told that they are on stable storage: from then on the repetition
//! must not run any more.
//!
//! Two ways to have both runs of A under way at once: a file system of our own, on which a second A waits
//! until B has been acknowledged, so that no chance is left to it; and XFS and ext4 that are frozen
//! for a moment, where it is chance which of them ends last.

mod frozen;
mod held;
mod lane;

use anyhow::{Context as _, Result};
use fastrand::Rng;

use crate::host::Context;

pub(super) fn run(context: &Context) -> Result<String> {
    let mut random = Rng::with_seed(context.seed.wrapping_add(context.lab.engine as u64));
    let seed = || format!("seed {}", context.seed);
    let held = held::run(context, &mut random.fork()).with_context(seed)?;
    let frozen = frozen::run(context, &mut random).with_context(seed)?;
    Ok(format!("WRITEs sent twice: {held} held, {frozen} frozen"))
}
