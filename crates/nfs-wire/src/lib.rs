//! NFS on the wire: bytes to types and back.
//!
//! XDR (RFC 4506), record marking and ONC RPC v2 (RFC 5531), AUTH_SYS, MOUNT v3 and NFSv3
//! (RFC 1813), NFSv4.0 to 4.2 with extended attributes and callbacks (RFC 7530, 8881, 7862, 8276), the lock
//! manager's NLM v4, portmap v2 and rpcbind v3/v4 (RFC 1833). Every message in both directions, for server
//! and client alike. No I/O, no clock, no unsafe code.
//!
//! Decoding borrows from the bytes it is given and never allocates more than those bytes justify; it
//! returns errors and never panics, whatever a peer sends. Encoding appends to a vector and cannot fail.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        clippy::too_many_lines
    )
)]

pub mod auth;
pub mod handle;
pub mod limits;
pub mod mount3;
pub mod nfs3;
pub mod nfs4;
pub mod nlm4;
pub mod portmap;
pub mod record;
pub mod rpc;
pub mod rpcbind;
#[cfg(test)]
mod test_support;
pub mod xdr;

pub use xdr::{Decode, DecodeError, Decoder, Encode, Encoder, Payload, decode_all, encode_to_vec};

/// The examples of the crate's README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
