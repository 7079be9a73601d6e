//! Accepting connections: whom the server listens to at all, before a byte of it is read.
//!
//! A host that no rule of any export names costs a system call or two: its connection is reset at once and
//! counted. Programs of the server's own machine that are root's, or of the user as whom the server runs, are let
//! in also where no rule names their address, for `showmount`, `penstock ping` and the like; the exports'
//! rules hold for their calls. Then a place is looked for ([`slots`](crate::slots)), and the connection goes to a
//! shard.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs_io::LocalUid;
use nfs_io::identity::ServerIdentity;
use tokio::net::{TcpListener, TcpStream};

use super::clients::{Clients, NoPlace};
use super::shards::Shards;
use crate::front::service::Service;
use crate::limits;
use crate::operate::counters::count;
use crate::operate::notices::Topic;
use crate::rpc::standing::{Door, Standing};

/// What is needed to accept connections, shared by all listeners.
pub(crate) struct Entrance {
    pub(crate) service: Arc<Service>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) trust_loopback: bool,
    pub(crate) shards: Arc<Shards>,
}

/// Why a connection is not served.
enum Refused {
    /// No export's rules name its address.
    Stranger,
    /// The operator shut its host out.
    Blocked,
    NoPlace(NoPlace),
    /// It is over already, or no descriptor is left.
    Broken,
    ShardEnded,
}

/// Accepts connections until a shard has ended by itself.
///
/// # Errors
/// When the listeners cannot be used.
pub(crate) async fn accept(
    entrance: Arc<Entrance>,
    listeners: &[std::net::TcpListener],
) -> io::Result<()> {
    let mut listening = tokio::task::JoinSet::new();
    for listener in listeners {
        let listener = listener.try_clone()?;
        rustix::net::listen(&listener, limits::LISTEN_BACKLOG_MAX)?;
        let door = Door::new(&listener, entrance.trust_loopback);
        let listener = TcpListener::from_std(listener)?;
        listening.spawn(listen(listener, door, Arc::clone(&entrance)));
    }
    listening.join_next().await;
    Ok(())
}

async fn listen(listener: TcpListener, mut door: Door, entrance: Arc<Entrance>) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Of one connection, or no descriptor left: others will come. Not at once, so that a
            // lack of descriptors does not burn the processor.
            // SLEEP: there is nothing to wait for.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        match entrance.admit(stream, peer, &mut door) {
            Ok(()) | Err(Refused::Broken | Refused::Blocked) => {}
            Err(Refused::Stranger) => entrance.tell_of_stranger(peer.ip()),
            Err(Refused::NoPlace(why)) => {
                count(&entrance.service.counters.connections_refused);
                entrance.tell_of_crowd(peer.ip(), why.outcome());
            }
            Err(Refused::ShardEnded) => return,
        }
    }
}

impl Entrance {
    fn admit(&self, stream: TcpStream, peer: SocketAddr, door: &mut Door) -> Result<(), Refused> {
        if self.service.is_blocked(peer.ip()) {
            reset(&stream);
            return Err(Refused::Blocked);
        }
        let is_named = self.service.admits(peer.ip());
        let may_be_local = || {
            let own = stream.local_addr();
            peer.ip().is_loopback() || own.is_ok_and(|own| own.ip() == peer.ip())
        };
        if !is_named && !may_be_local() {
            reset(&stream);
            return Err(Refused::Stranger);
        }
        let stream = self.prepared(stream).map_err(|_| Refused::Broken)?;
        let standing = door.standing(&stream);
        if !is_named && !is_operators(standing) {
            reset(&stream);
            return Err(Refused::Stranger);
        }
        let counters = &self.service.counters;
        let (entered, replaces) = match self.clients.enter(peer, standing) {
            Ok(entered) => entered,
            Err(why) => {
                reset(&stream);
                return Err(Refused::NoPlace(why));
            }
        };
        if replaces {
            count(&counters.connections_displaced);
            self.tell_of_crowd(
                peer.ip(),
                "takes the place of one that was idle for longest",
            );
        }
        count(&counters.connections_accepted);
        self.note(peer.ip(), standing);
        count(&counters.connections);
        let is_taken = self.shards.give(stream, entered);
        is_taken.then_some(()).ok_or(Refused::ShardEnded)
    }

    fn prepared(&self, stream: TcpStream) -> io::Result<std::net::TcpStream> {
        stream.set_nodelay(true)?;
        stream.into_std()
    }

    /// Counts a connection of a program of this machine that is not served as any user of it.
    fn note(&self, addr: IpAddr, standing: Standing) {
        match standing {
            Standing::Distant | Standing::Root | Standing::User(_) => {}
            Standing::Untold => count(&self.service.counters.local_untold),
            Standing::Barred => {
                count(&self.service.counters.local_barred);
                let mut notices = self.service.notices.lock();
                if let Some(leave) = notices.note(Topic::LocalBarred, addr, Instant::now()) {
                    tracing::warn!(
                        "a program of another user of this machine connected and is refused: the \
                         server would act for it as its own user; run the server as root to serve \
                         several users, or let all in with --trust-loopback{leave}"
                    );
                }
            }
        }
    }

    fn tell_of_stranger(&self, addr: IpAddr) {
        count(&self.service.counters.connections_not_admitted);
        let mut notices = self.service.notices.lock();
        if let Some(leave) = notices.note(Topic::ConnectionRefused, addr, Instant::now()) {
            tracing::warn!(
                "{} connected and is refused: no export names its address (`clients` in the \
                 configuration){leave}",
                addr.to_canonical(),
            );
        }
    }

    fn tell_of_crowd(&self, addr: IpAddr, outcome: &str) {
        let mut notices = self.service.notices.lock();
        if let Some(leave) = notices.note(Topic::ConnectionsFull, addr, Instant::now()) {
            tracing::warn!(
                "there are as many connections as there may be: one from {} {outcome}; `penstock ctl \
                 clients` shows who has them, and LimitNOFILE= of the unit (`ulimit -n`) bounds \
                 them{leave}",
                addr.to_canonical(),
            );
        }
    }
}

impl NoPlace {
    const fn outcome(self) -> &'static str {
        match self {
            Self::HolderFull => "is refused, as all that one host may have are busy",
            Self::Full => "is refused, as none that others have too many of is idle",
        }
    }
}

/// Whether the kernel says that this is who runs the server, or root.
fn is_operators(standing: Standing) -> bool {
    match standing {
        Standing::Root => true,
        Standing::User(LocalUid(uid)) => uid == ServerIdentity::current().creds().uid().0,
        Standing::Distant | Standing::Untold | Standing::Barred => false,
    }
}

/// Has the connection end with a reset when it is dropped, so that nothing of it stays in the kernel and the peer
/// knows at once.
fn reset(stream: impl std::os::fd::AsFd) {
    if let Err(error) = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)) {
        tracing::trace!(%error, "a connection is closed in order instead of reset");
    }
}
