//! Addresses on loopback that nobody else uses: a port of theirs that is closed stays closed, and can be
//! listened on again.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};

/// An address with port 0, to listen on. Of 127.0.0.1 any process may be given a port just closed, and a
/// connection to a port where nobody listens may become one to itself; connections to these come from
/// 127.0.0.1.
pub(crate) fn own_address() -> SocketAddr {
    static LAST: AtomicU8 = AtomicU8::new(0);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let last = LAST.fetch_add(1, Ordering::Relaxed);
    (Ipv4Addr::new(127, 1 + high % 128, low, last), 0).into()
}
