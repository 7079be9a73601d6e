//! What is served, to whom, as whom and in which I/O modes: the configuration, the export table made
//! from it, the I/O policy of each export, and the exchange of all three while the server runs.
//!
//! Each module uses only those before it: `values`, `policy`, `config`, `table`, `reload`.

pub mod config;
pub mod policy;
pub mod reload;
mod table;
mod values;

pub use config::export_id;
pub(crate) use table::PRIVILEGED_PORT;
pub use table::{ClientRule, Export, ExportTable, Refused, Squash, WireGid, WireUid};
