//! The client comparison: our commands and library, libnfs's utilities and, if asked for, the kernel's client, on our
//! server, on NFS-Ganesha and on a responder that does no I/O, in turn in one run.

pub mod ceiling;
pub mod guest;
pub mod mover;
pub mod page;
pub mod plan;
pub mod run;
pub mod serve;
pub mod table;
pub mod tool;
pub mod verdict;
pub mod watch;
