//! The open connections of a small service beside NFS, each with its place in the [`Slots`](super::Slots).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Doing, Slots, Verdict};
use crate::network::Network;

/// The connections that are open.
pub(crate) struct Peers {
    began: Instant,
    table: Mutex<Table>,
}

struct Table {
    slots: Slots<Network>,
    open: HashMap<u64, Arc<Peer>>,
    next: u64,
}

/// One connection.
struct Peer {
    /// When bytes came or went last, in milliseconds since `began` of [`Peers`].
    moved: AtomicU64,
    /// Told when its place is another's.
    to_close: Notify,
}

/// A connection's place, which is free again when this is dropped.
pub(crate) struct Entered {
    peers: Arc<Peers>,
    peer: Arc<Peer>,
    number: u64,
}

impl Peers {
    /// Has room for `connections_max` connections.
    pub(crate) fn new(connections_max: usize) -> Self {
        let table = Table {
            slots: Slots::new(connections_max),
            open: HashMap::new(),
            next: 0,
        };
        Self {
            began: Instant::now(),
            table: Mutex::new(table),
        }
    }

    /// A place for a connection from this address, if there is one or another was idle for long enough.
    pub(crate) fn enter(self: &Arc<Self>, addr: IpAddr) -> Option<Entered> {
        let now = self.now();
        let mut table = self.table.lock();
        let Table { slots, open, next } = &mut *table;
        let number = *next;
        let moved = |peer: &Arc<Peer>| Doing::IdleSince(peer.moved.load(Ordering::Relaxed));
        let doing = |number| open.get(&number).map_or(Doing::Busy, moved);
        match slots.enter(Network::of(addr), number, now, doing) {
            Verdict::Taken => {}
            Verdict::TakenFrom(other) => {
                if let Some(other) = open.get(&other) {
                    other.to_close.notify_one();
                }
            }
            Verdict::HolderFull | Verdict::Full => return None,
        }
        *next += 1;
        let peer = Arc::new(Peer {
            moved: AtomicU64::new(now),
            to_close: Notify::new(),
        });
        open.insert(number, Arc::clone(&peer));
        let peers = Arc::clone(self);
        Some(Entered {
            peers,
            peer,
            number,
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Entered {
    /// Bytes of the connection came or went now.
    pub(crate) fn moved(&self) {
        self.peer.moved.store(self.peers.now(), Ordering::Relaxed);
    }

    /// Waits until the place is another connection's, and this one is to be closed.
    pub(crate) async fn displaced(&self) {
        self.peer.to_close.notified().await;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut table = self.peers.table.lock();
        table.open.remove(&self.number);
        table.slots.leave(self.number);
    }
}
