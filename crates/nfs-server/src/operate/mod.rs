//! What the operator sees and does while the server runs: the control socket, the audit, trace events, counters.

pub(crate) mod access_counters;
pub(crate) mod audit;
pub(crate) mod blocks;
pub mod control;
pub(crate) mod counters;
pub(crate) mod io_counters;
mod latency;
pub(crate) mod notices;
pub(crate) mod trace;
