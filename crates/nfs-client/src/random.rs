//! Numbers that another process, or this one started anew, does not come upon again: the first xid of a
//! connection, the stamp of AUTH_SYS, the verifier of an exclusive CREATE. A server's reply cache must
//! never take a new call for an old one.
//!
//! They come from the standard library's hash keys, which the system's randomness makes once per thread
//! and which differ from call to call. That cannot fail and costs no system call, unlike asking the
//! system each time. They are no secrets.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A random number of 32 bits.
pub(crate) fn number() -> u32 {
    let [a, b, c, d, ..] = bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// 64 random bits, as the verifier of an exclusive CREATE carries them.
pub(crate) fn bytes() -> [u8; 8] {
    RandomState::new().build_hasher().finish().to_ne_bytes()
}
