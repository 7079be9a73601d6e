//! The connections that are open, for `penstock ctl clients`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::operate::control::ClientStatus;
use crate::rpc::standing::Standing;

/// Every open connection by its peer; bounded by the cap of connections.
#[derive(Default)]
pub(crate) struct Clients {
    connections: Mutex<HashMap<SocketAddr, Arc<Figures>>>,
    /// Numbers connections in the order of their coming.
    next: AtomicU64,
}

/// What one connection has done since it was accepted, for `penstock ctl clients`.
pub(crate) struct Figures {
    /// No other connection of the server's life has it.
    pub(super) number: u64,
    since: Instant,
    standing: Standing,
    pub(super) calls: AtomicU64,
    pub(super) in_flight: AtomicU64,
    pub(super) received_bytes: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
}

impl Clients {
    pub(super) fn enter(&self, peer: SocketAddr, standing: Standing) -> Arc<Figures> {
        let figures = Arc::new(Figures {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            since: Instant::now(),
            standing,
            calls: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
        });
        self.connections.lock().insert(peer, Arc::clone(&figures));
        figures
    }

    /// Takes a connection out, unless a later one of the same address took its place.
    pub(super) fn leave(&self, peer: SocketAddr, figures: &Arc<Figures>) {
        let mut connections = self.connections.lock();
        let present = connections.get(&peer);
        if present.is_some_and(|present| Arc::ptr_eq(present, figures)) {
            connections.remove(&peer);
        }
    }

    pub(crate) fn list(&self) -> Vec<ClientStatus> {
        let connections = self.connections.lock();
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut clients: Vec<ClientStatus> = connections
            .iter()
            .map(|(peer, figures)| ClientStatus {
                address: peer.to_string(),
                user: figures.standing.user(),
                connected_seconds: figures.since.elapsed().as_secs(),
                calls: load(&figures.calls),
                in_flight: load(&figures.in_flight),
                received_bytes: load(&figures.received_bytes),
                sent_bytes: load(&figures.sent_bytes),
            })
            .collect();
        clients.sort_by(|a, b| a.address.cmp(&b.address));
        clients
    }
}
