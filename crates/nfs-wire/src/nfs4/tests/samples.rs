//! Messages of every kind with values drawn from a seed: every operation, every arm of every union.

mod args;
mod callbacks;
mod draw;
mod results;

pub(crate) use args::args;
pub(crate) use callbacks::{cb_args, cb_results};
pub(crate) use draw::Draw;
pub(crate) use results::results;
