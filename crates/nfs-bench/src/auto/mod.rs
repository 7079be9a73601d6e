//! The mode that the server chooses for itself beside each fixed one: a dozen workloads as they are met, with little
//! memory, in turn.

pub mod measure;
pub mod page;
pub mod run;
pub mod table;
pub mod workload;
