//! The connections that are open: how many of whom, for the cap, and their figures for `penstock ctl clients`.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::client_figures::{ClientFigures, Totals};
use super::receive_shares::{ReceiveShare, ReceiveShares};
use crate::network::Network;
use crate::operate::control::ClientStatus;
use crate::operate::metrics::{
    Builder, CLIENT_BYTES, CLIENT_BYTES_IN_FLIGHT, CLIENT_CALLS_IN_FLIGHT, CLIENT_CONNECTIONS,
    CLIENT_OPERATIONS, CLIENT_THROTTLED, OTHERS,
};
use crate::rpc::standing::Standing;
use crate::slots::{Doing, Slots, Verdict};

/// Every open connection; bounded by the cap of connections.
pub(crate) struct Clients {
    began: Instant,
    shares: Arc<ReceiveShares>,
    table: Mutex<Table>,
}

struct Table {
    connections: HashMap<u64, Arc<Figures>>,
    slots: Slots<Holder>,
    /// Of whoever has connections.
    shares: HashMap<Holder, Arc<ReceiveShare>>,
    /// Of whoever had connections.
    figures: ClientFigures<Holder>,
    /// Numbers connections in the order of their coming.
    next: u64,
}

/// What one connection has done since it was accepted, and what it is doing.
pub(crate) struct Figures {
    /// No other connection of the server's life has it.
    pub(super) number: u64,
    /// Its client has figures of its own, and is not one of the others.
    is_named: bool,
    pub(super) peer: SocketAddr,
    pub(super) standing: Standing,
    /// What its client may have of the memory for calls on their way.
    pub(super) share: Arc<ReceiveShare>,
    since: Instant,
    pub(super) calls: AtomicU64,
    pub(super) in_flight: AtomicU64,
    pub(super) received_bytes: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
    /// Time in which it was not read for its client's rate.
    pub(super) throttled_nanoseconds: AtomicU64,
    /// When bytes came or went last, in milliseconds since `began` of [`Clients`].
    moved: AtomicU64,
    /// Replies wait until the peer takes them.
    pub(super) unsent: AtomicBool,
    /// A call of it waits until there is memory or room for it.
    pub(super) held_up: AtomicBool,
    /// Told when the connection's place is another's, or the operator ends it.
    pub(super) to_close: Notify,
}

/// The place of a connection, which is free again when this is dropped.
pub(crate) struct Entered {
    clients: Arc<Clients>,
    pub(super) figures: Arc<Figures>,
}

/// Whose connections are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Holder {
    /// A host, or all hosts of an IPv6 /64.
    Host(Network),
    /// A user of the server's own machine, who could have any number of loopback addresses.
    User(u32),
    /// All programs of the server's own machine that are no known user's, or that may use nothing.
    Nobody,
}

impl Holder {
    fn of(addr: IpAddr, standing: Standing) -> Self {
        match standing {
            Standing::Distant => Self::Host(Network::of(addr)),
            Standing::Root => Self::User(0),
            Standing::User(uid) => Self::User(uid.0),
            Standing::Untold | Standing::Barred => Self::Nobody,
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(network) => network.fmt(f),
            Self::User(uid) => write!(f, "local user {uid}"),
            Self::Nobody => f.write_str("local programs of unknown users"),
        }
    }
}

/// Why a connection has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// Its holder has as many as one may have, all busy.
    HolderFull,
    /// There are as many as the server may have, and it can have none of theirs.
    Full,
}

impl Clients {
    /// Keeps the books of at most `connections_max` connections, which share `receive_bytes_max` bytes for calls
    /// on their way in.
    pub(crate) fn new(connections_max: usize, receive_bytes_max: u64) -> Self {
        let table = Table {
            connections: HashMap::new(),
            slots: Slots::new(connections_max),
            shares: HashMap::new(),
            figures: ClientFigures::default(),
            next: 0,
        };
        Self {
            began: Instant::now(),
            shares: ReceiveShares::new(receive_bytes_max),
            table: Mutex::new(table),
        }
    }

    /// Finds a place for a connection that was just accepted. The second value tells whether another connection
    /// is closed for it.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn enter(
        self: &Arc<Self>,
        peer: SocketAddr,
        standing: Standing,
    ) -> Result<(Entered, bool), NoPlace> {
        let since = Instant::now();
        let now = self.milliseconds(since);
        let mut table = self.table.lock();
        let Table {
            connections,
            slots,
            shares,
            figures: of_clients,
            next,
        } = &mut *table;
        let doing = |number| {
            connections
                .get(&number)
                .map_or(Doing::Busy, |it| it.doing())
        };
        let holder = Holder::of(peer.ip(), standing);
        let verdict = slots.enter(holder, *next, now, doing);
        let replaces = match verdict {
            Verdict::Taken => false,
            Verdict::TakenFrom(number) => {
                if let Some(figures) = connections.get(&number) {
                    figures.to_close.notify_one();
                }
                true
            }
            Verdict::HolderFull => return Err(NoPlace::HolderFull),
            Verdict::Full => return Err(NoPlace::Full),
        };
        let share = shares.entry(holder).or_insert_with(|| self.shares.share());
        let figures = Arc::new(Figures {
            share: Arc::clone(share),
            number: *next,
            is_named: of_clients.enter(holder),
            peer,
            standing,
            since,
            calls: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            throttled_nanoseconds: AtomicU64::new(0),
            moved: AtomicU64::new(now),
            unsent: AtomicBool::new(false),
            held_up: AtomicBool::new(false),
            to_close: Notify::new(),
        });
        connections.insert(*next, Arc::clone(&figures));
        *next += 1;
        let clients = Arc::clone(self);
        Ok((Entered { clients, figures }, replaces))
    }

    /// Bytes of this connection came or went at `now`.
    pub(super) fn moved(&self, figures: &Figures, now: Instant) {
        figures
            .moved
            .store(self.milliseconds(now), Ordering::Relaxed);
    }

    fn milliseconds(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.began).as_millis();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    pub(crate) fn list(&self) -> Vec<ClientStatus> {
        let figures: Vec<Arc<Figures>> = self.table.lock().connections.values().cloned().collect();
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut clients: Vec<ClientStatus> = figures
            .iter()
            .map(|figures| ClientStatus {
                address: figures.peer.to_string(),
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

impl Figures {
    fn holder(&self) -> Holder {
        Holder::of(self.peer.ip(), self.standing)
    }

    fn totals(&self) -> Totals {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            operations: load(&self.calls),
            received_bytes: load(&self.received_bytes),
            sent_bytes: load(&self.sent_bytes),
            throttled_nanoseconds: load(&self.throttled_nanoseconds),
        }
    }

    /// The connection was not read for so long, for its client's rate.
    pub(super) fn throttled_for(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.throttled_nanoseconds
            .fetch_add(nanoseconds, Ordering::Relaxed);
    }

    fn doing(&self) -> Doing {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if self.in_flight.load(Ordering::Relaxed) > 0 || is(&self.unsent) || is(&self.held_up) {
            Doing::Busy
        } else {
            Doing::IdleSince(self.moved.load(Ordering::Relaxed))
        }
    }
}

/// What is told of one client.
#[derive(Clone, Copy, Default)]
struct Told {
    totals: Totals,
    connections: u64,
    calls_in_flight: u64,
    bytes_in_flight: u64,
}

impl Clients {
    /// Adds what each client has done and is doing.
    pub(crate) fn measure(&self, into: &mut Builder) {
        // `None` stands for the others.
        let mut told: HashMap<Option<Holder>, Told> = HashMap::new();
        let connections: Vec<Arc<Figures>> = {
            let table = self.table.lock();
            let named = table.figures.named();
            let named = named.map(|(holder, totals)| (Some(holder), totals));
            for (client, totals) in named.chain([(None, table.figures.others())]) {
                told.entry(client).or_default().totals = totals;
            }
            for (holder, share) in &table.shares {
                let client = Some(*holder).filter(|holder| told.contains_key(&Some(*holder)));
                told.entry(client).or_default().bytes_in_flight += share.held();
            }
            table.connections.values().cloned().collect()
        };
        for figures in connections {
            let client = figures.is_named.then(|| figures.holder());
            let told = told.entry(client).or_default();
            told.totals += figures.totals();
            told.connections += 1;
            told.calls_in_flight += figures.in_flight.load(Ordering::Relaxed);
        }
        for (client, told) in told {
            let client = client.map_or_else(|| OTHERS.to_owned(), |holder| holder.to_string());
            told.measure(&client, into);
        }
    }
}

impl Told {
    fn measure(&self, client: &str, into: &mut Builder) {
        let throttled = self.totals.throttled_nanoseconds as f64 / 1e9;
        into.number(&CLIENT_CONNECTIONS, &[client], self.connections);
        into.number(&CLIENT_OPERATIONS, &[client], self.totals.operations);
        into.number(
            &CLIENT_BYTES,
            &[client, "received"],
            self.totals.received_bytes,
        );
        into.number(&CLIENT_BYTES, &[client, "sent"], self.totals.sent_bytes);
        into.number(&CLIENT_CALLS_IN_FLIGHT, &[client], self.calls_in_flight);
        into.number(&CLIENT_BYTES_IN_FLIGHT, &[client], self.bytes_in_flight);
        into.number(&CLIENT_THROTTLED, &[client], throttled);
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut table = self.clients.table.lock();
        table.connections.remove(&self.figures.number);
        table.slots.leave(self.figures.number);
        let holder = self.figures.holder();
        let totals = self.figures.totals();
        table.figures.leave(holder, self.figures.is_named, totals);
        if table.slots.held_by(holder) == 0 {
            table.shares.remove(&holder);
        }
    }
}

impl Clients {
    /// Has the connections end whose peers are wanted, addresses in IPv4 form where they have one, and says
    /// how many they are.
    pub(crate) fn close(&self, wanted: impl Fn(SocketAddr) -> bool) -> usize {
        let figures: Vec<Arc<Figures>> = self.table.lock().connections.values().cloned().collect();
        let canonical = |peer: SocketAddr| SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let wanted = figures
            .iter()
            .filter(|figures| wanted(canonical(figures.peer)));
        wanted.map(|figures| figures.to_close.notify_one()).count()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn local_users_are_counted_by_who_they_are_and_not_by_their_address() {
        let of = |last, standing| Holder::of(Ipv4Addr::new(127, 0, 0, last).into(), standing);
        let user = |uid| Standing::User(nfs_io::LocalUid(uid));
        assert_eq!(of(1, user(7)), of(2, user(7)));
        assert_ne!(of(1, user(7)), of(1, user(8)));
        assert_eq!(of(1, Standing::Barred), of(9, Standing::Untold));
        assert_ne!(of(1, Standing::Distant), of(2, Standing::Distant));
    }
}
