//! Hostile and greedy peers beside a polite one: how long the polite client waits, and what the server's memory
//! comes to, ours with each engine and Ganesha in turn.

pub mod attacker;
pub mod failures;
pub mod kind;
pub mod polite;
pub mod report;
pub mod run;
pub mod storm;
pub mod storm_report;
