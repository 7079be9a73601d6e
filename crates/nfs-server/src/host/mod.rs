//! What the server has to do with the machine it runs on: its state directory, the service manager,
//! what its process gives up, by which rules the kernel sends for it, the notes of calls that outlive a kill, rpcbind and its own port 111, and the machine's user database.

pub(crate) mod accounts;
pub(crate) mod call_notes;
pub mod confinement;
pub(crate) mod congestion;
pub mod portmap;
pub mod rpcbind;
pub mod state_dir;
pub mod systemd;
