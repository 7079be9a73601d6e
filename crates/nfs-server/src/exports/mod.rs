//! What is served, to whom, as whom and in which I/O modes: the configuration, the export table made
//! from it, the I/O policy of each export, and the exchange of all three while the server runs.
//!
//! Each module uses only those before it: `names`, `values`, `versions`, `policy`, `config`,
//! `pseudo`, `table`, `order`, `reload`; `import` reads what other servers are configured with.

pub mod config;
pub mod import;
mod names;
mod order;
pub mod policy;
mod pseudo;
pub mod reload;
mod table;
mod values;
mod versions;

pub use config::export_id;
pub use names::{ClientName, Found, LiveName, NameState, Names, Question, Resolved};
pub use order::{ExportOrder, ExportsChanged};
pub use pseudo::{Junction, Node, Place, PseudoTree};
pub(crate) use table::PRIVILEGED_PORT;
pub use table::{ClientRule, Clients, Export, ExportTable, Refused, Squash, WireGid, WireUid};
pub use versions::{NfsVersion, Versions};
