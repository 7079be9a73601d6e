//! The programs that clients call: from a record to an operation on a file, and from its outcome to
//! the words of the protocol. `dispatch` is the one path of every call.
// A peer's bytes come through here.

mod access_log;
pub(crate) mod context;
pub(crate) mod dispatch;
mod exclusive;
pub(crate) mod first_uses;
#[cfg(test)]
mod lines;
pub(crate) mod mount3;
pub(crate) mod nfs3;
pub(crate) mod nfs4;
mod nlm4;
pub(crate) mod pace;
pub(crate) mod service;
mod told;
