//! IOR's "hard" pattern: clients that take turns in one file with records of 47008 bytes, which are aligned to nothing,
//! held against the same with records of 48 KiB. It is run as one of the comparisons of modes
//! ([`About::IorHard`](crate::modes::run::About)); here is what is shown of it.

pub mod page;
pub mod table;
