//! The order of WRITEs: one stream of 64 KiB WRITEs as k senders would send it, shuffled within each k, in each I/O
//! mode, with space taken ahead, with WRITEs that wait for each other, with both and with neither; its throughput, and in how many pieces the file lies afterwards.

pub mod measure;
pub mod page;
pub mod run;
pub mod table;
