//! The examination of any NFS server: what answers, what it says of itself, and whether it keeps what NFS
//! promises, as far as that can be seen from outside.
//!
//! [`examine`] asks and measures, and gives [`facts`]; [`judge::diagnose`] makes findings of them, and asks
//! nothing. So a judgement is tested with measurements that were made up.
//!
//! An examination makes one call at a time, about 1,000 in all, writes less than 1 MiB, and ends within
//! [`DOCTOR_TIME_MAX`](crate::limits::DOCTOR_TIME_MAX). It changes nothing outside a directory of its own,
//! which it removes.

pub mod facts;
pub mod judge;
mod probe;

pub use self::facts::Facts;
pub use self::judge::{Diagnosis, Finding, Level, Section, Verdict, diagnose};
pub use self::probe::examine;
