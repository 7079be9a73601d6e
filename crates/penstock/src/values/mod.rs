//! What people write for modes, sizes, owners and names, and how sizes are written for people. Pure
//! functions; the one that reads a file (`owner`) says so.

pub(crate) mod mode;
pub(crate) mod owner;
pub(crate) mod size;
pub(crate) mod time;
