//! The order of WRITEs: one stream of 64 KiB WRITEs as k senders would send it, shuffled within each k, in each I/O
//! mode, with and without space taken ahead; its throughput, and in how many pieces the file lies afterwards.

pub mod measure;
pub mod page;
pub mod run;
pub mod table;
