//! What the server counts, as one moment's figures: for Prometheus, `penstock status`, `penstock ctl metrics` and
//! whoever draws them.
//!
//! [`TABLE`] says which metrics there are: name, kind, unit, labels, help, and under which name `penstock ctl
//! status` shows the same number. A [`Snapshot`] has their values; [`prometheus`] writes it down. The module
//! counts nothing itself and keeps nothing between two snapshots.

mod snapshot;
mod table;
mod text;

pub use snapshot::{Builder, Family, Histogram, Labels, Number, Sample, Snapshot, Value};
pub use table::*;
pub use text::{CONTENT_TYPE, prometheus};
