//! Numbers that another process, or this one started anew, does not come upon again: the first xid of a
//! connection, the stamp of AUTH_SYS, the verifier of an exclusive CREATE. A server's reply cache must
//! never take a new call for an old one.
//!
//! They come from the standard library's hash keys, which the system's randomness makes once per thread
//! and which differ from call to call, and from the process's number: a forked child begins with its parent's
//! keys. That cannot fail, unlike asking the system for randomness each time. They are no secrets.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::process;

/// A random number of 32 bits.
pub(crate) fn number() -> u32 {
    let [a, b, c, d, ..] = bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// 64 random bits, as the verifier of an exclusive CREATE carries them.
pub(crate) fn bytes() -> [u8; 8] {
    of(&RandomState::new(), process::id())
}

/// What `keys` give in the process of this number.
fn of(keys: &RandomState, process: u32) -> [u8; 8] {
    let mut hasher = keys.build_hasher();
    hasher.write_u32(process);
    hasher.finish().to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_has_other_numbers_than_its_parent_from_the_same_keys() {
        let keys = RandomState::new();
        assert_ne!(of(&keys, 100), of(&keys, 101));
        assert_eq!(of(&keys, 100), of(&keys, 100));
        assert_ne!(bytes(), bytes());
    }
}
