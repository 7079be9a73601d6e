//! The baseline: the everyday calls, ours with each engine and Ganesha in turn, in one run.

pub mod load;
pub mod pingpong;
pub mod report;
pub mod run;
mod session;
pub mod workload;
