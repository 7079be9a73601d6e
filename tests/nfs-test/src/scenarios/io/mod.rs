//! The I/O modes: that each moves exactly the bytes it should, alone and against the others, while
//! disks fill up and fail, and while an operator changes the rules.
//!
//! Every scenario here serves one directory as several exports, one for each mode, from one server.

mod ahead;
mod bed;
mod behind;
mod cells;
mod coherence;
mod counted;
mod cut;
mod faults;
mod figures;
mod large;
mod live;
mod matrix;
mod records;

pub(super) use ahead::run as ahead;
pub(super) use behind::behind;
pub(super) use coherence::run as coherence;
pub(super) use counted::run as counted;
pub(super) use faults::{fill_up, run as faults};
pub(super) use live::run as live;
pub(super) use matrix::run as matrix;
