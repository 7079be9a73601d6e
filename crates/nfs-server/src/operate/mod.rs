//! What the operator sees and does while the server runs: the control socket, the audit, trace events, metrics.

pub(crate) mod access_counters;
pub(crate) mod audit;
pub(crate) mod blocks;
pub(crate) mod call_counters;
pub(crate) mod calls;
pub mod control;
#[cfg(test)]
mod cost;
pub(crate) mod counters;
pub mod http;
pub(crate) mod io_counters;
mod latency;
pub mod live;
pub mod metrics;
pub(crate) mod notices;
pub(crate) mod stripes;
pub(crate) mod trace;
