//! Whom the other end of a TCP connection belongs to, where it is a program of this machine.
//!
//! A client's AUTH_SYS says who it is and proves nothing. For a program of this machine the kernel
//! knows better: every socket has an owner, and sock_diag(7) tells whose the socket at the other end
//! of a connection is. One question is one message to the kernel, which is answered before it
//! returns: nobody waits for another program or for the network.
//!
//! What is told is who *made* the socket (its file-system uid then). A program that hands a connected
//! socket to another user's program, or passes on what another one sends (a proxy), lends that one
//! its name.
//!
//! The answers are careful about time. A socket whose program closed it has no owner any more, and
//! the kernel reports user 0 for some of those; and a port that became free may be root's a moment
//! later. So an answer counts only for a socket that a program holds, that is connected to ours,
//! and only if our own end is still connected after the answer: while it is, nobody else can have a
//! connected socket with the same two addresses.
//!
//! Nothing here panics on what the kernel sends.

mod netlink;
mod network;

use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream, UdpSocket,
};
use std::os::fd::AsFd as _;

use rustix::net::netlink as protocol;

use crate::identity::LocalUid;
use crate::{Errno, Result};
use netlink::Netlink;

/// The user whose socket is at the other end of a connection, as far as the kernel knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The other end is on another machine, or in a network namespace with addresses of its own.
    Elsewhere,
    /// The other end belongs to this user of this machine, numbered as in the user namespace of the caller.
    User(LocalUid),
    /// The other end belongs to a program of this machine, and the kernel does not say whose (any more).
    Untold,
}

/// Asks the kernel, about connections of the network namespace it was made in.
#[derive(Debug)]
pub struct Asker {
    sockets: Result<Netlink>,
    routes: Result<Netlink>,
    /// What the kernel says for users without a number in our user namespace; `None` where all have one.
    overflow_uid: Option<u32>,
}

/// Both ends of a connection, IPv4-mapped IPv6 addresses as IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    peer: SocketAddr,
    own: SocketAddr,
}

/// What the kernel says of one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Socket {
    ends: Ends,
    state: u8,
    uid: u32,
    /// Inode number of the socket; 0 where no program holds it.
    inode: u32,
}

impl Asker {
    /// Makes one for the network namespace of the calling thread. Where the kernel does not let us
    /// ask (a sandbox without netlink sockets), the answers will be careful.
    #[must_use]
    pub fn new() -> Self {
        Self {
            sockets: Netlink::open(Some(protocol::SOCK_DIAG)),
            // NETLINK_ROUTE is the protocol 0.
            routes: Netlink::open(None),
            overflow_uid: overflow_uid(),
        }
    }

    /// Makes one for the connections of `listener`, which may be of another network namespace: a service
    /// manager can hand it over. Where that namespace cannot be entered to ask there, nobody is asked: a
    /// socket with the same two addresses here would be somebody else's.
    #[must_use]
    pub fn for_listener(listener: &TcpListener) -> Self {
        let here = Self::new();
        let Ok(sockets) = &here.sockets else {
            return here;
        };
        if network::is_shared(sockets.socket(), listener.as_fd()) {
            return here;
        }
        let there = network::within_that_of(listener.as_fd(), Self::new);
        there.unwrap_or_else(|error| Self {
            sockets: Err(error),
            routes: Err(error),
            ..here
        })
    }

    /// Whether an asker for `listener` has to ask in another network namespace than the calling thread's,
    /// as for a socket that a service manager made elsewhere. That takes `CAP_SYS_ADMIN` and
    /// `CAP_NET_ADMIN`.
    #[must_use]
    pub fn asks_elsewhere(listener: &TcpListener) -> bool {
        let here = Self::new();
        let own = here.sockets.as_ref();
        own.is_ok_and(|own| !network::is_shared(own.socket(), listener.as_fd()))
    }

    /// Finds out who owns the other end of `connection`. To be asked about an accepted connection before the
    /// first byte from it is believed.
    pub fn owner(&mut self, connection: &TcpStream) -> Owner {
        let ends = connection.peer_addr().and_then(|peer| {
            let own = connection.local_addr()?;
            Ok(Ends::new(peer, own))
        });
        // Without a peer it is over already.
        let Ok(ends) = ends else {
            return Owner::Untold;
        };
        match self.owner_of(ends) {
            // See the module: the answer is about our peer only if our end still has one.
            Owner::User(_) if connection.peer_addr().is_err() => Owner::Untold,
            owner => owner,
        }
    }

    fn owner_of(&mut self, ends: Ends) -> Owner {
        let found = match &mut self.sockets {
            Ok(sockets) => socket(sockets, ends),
            Err(error) => Err(*error),
        };
        match found {
            // Another than was asked for is a listener that would take connections of that address.
            Ok(Some(socket)) if socket.ends == ends => socket.owner(self.overflow_uid),
            Ok(_) | Err(_) if self.is_of_this_machine(ends) => Owner::Untold,
            Ok(_) | Err(_) => Owner::Elsewhere,
        }
    }

    /// Tries it, on a connection of this process to itself over loopback. The kernel may load a module
    /// for it, so that later questions need not wait for that.
    ///
    /// # Errors
    /// Why owners cannot be told, in words.
    pub fn probe(&mut self) -> core::result::Result<(), String> {
        if let Err(error) = &self.sockets {
            return Err(format!("a netlink socket cannot be made: {error}"));
        }
        let connect = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let client = TcpStream::connect(listener.local_addr()?)?;
            Ok::<_, std::io::Error>((listener.accept()?.0, client))
        };
        let (accepted, _client) =
            connect().map_err(|error| format!("loopback cannot be used: {error}"))?;
        match self.owner(&accepted) {
            Owner::User(_) => Ok(()),
            Owner::Untold | Owner::Elsewhere => Err(
                "the kernel does not tell the owner of a socket (is its module tcp_diag missing, or \
                 does this user have no number in the server's user namespace?)"
                    .to_owned(),
            ),
        }
    }

    /// Whether the peer's address is one that leads back to this machine. It need not be a loopback
    /// address, nor the one that the peer connected to.
    fn is_of_this_machine(&mut self, ends: Ends) -> bool {
        let address = ends.peer.ip();
        if address.is_loopback() || address == ends.own.ip() {
            return true;
        }
        let routed = match &mut self.routes {
            Ok(routes) => leads_here(routes, ends.peer),
            Err(error) => Err(*error),
        };
        // Only addresses of this machine can be bound to, unless the administrator changed that
        // (ip_nonlocal_bind), which is why this is not asked first.
        routed.unwrap_or_else(|_| UdpSocket::bind((address, 0)).is_ok())
    }
}

impl Default for Asker {
    fn default() -> Self {
        Self::new()
    }
}

impl Ends {
    fn new(peer: SocketAddr, own: SocketAddr) -> Self {
        Self {
            peer: plain(peer),
            own: plain(own),
        }
    }
}

impl Socket {
    /// The owner of this socket, if it is the peer's.
    fn owner(&self, overflow_uid: Option<u32>) -> Owner {
        let is_connected = matches!(self.state, ESTABLISHED | FIN_WAIT1 | FIN_WAIT2);
        let is_held = self.inode != 0;
        if is_connected && is_held && Some(self.uid) != overflow_uid && self.uid != u32::MAX {
            Owner::User(LocalUid(self.uid))
        } else {
            Owner::Untold
        }
    }
}

/// An address without what the comparison must not see: the flow label, and the scope, which one end may
/// lack.
fn plain(address: SocketAddr) -> SocketAddr {
    match (address.ip().to_canonical(), address) {
        (IpAddr::V6(ip), SocketAddr::V6(v6)) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, address.port(), 0, v6.scope_id()).into()
        }
        (ip, _) => SocketAddr::new(ip, address.port()),
    }
}

// States of a TCP socket: `include/net/tcp_states.h`. The peer's is one of these while it holds its
// end of the connection and we hold ours; FIN_WAIT is one that will send no more.
const ESTABLISHED: u8 = 1;
const FIN_WAIT1: u8 = 4;
const FIN_WAIT2: u8 = 5;

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`: the kind of question and of answer.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Length in bytes of `struct inet_diag_msg` (`linux/inet_diag.h`).
const INET_DIAG_BYTES: usize = 72;

/// The peer's socket, or `None` where the namespace has no such socket. sock_diag(7), `inet_diag_req_v2`.
fn socket(kernel: &mut Netlink, ends: Ends) -> Result<Option<Socket>> {
    let mut question = Vec::with_capacity(56);
    question.extend([family(ends.peer.ip()), libc::IPPROTO_TCP as u8, 0, 0]);
    // Any state; ignored for a question about one socket.
    question.extend(u32::MAX.to_ne_bytes());
    // The peer's own side comes first: it is the peer's socket that we want.
    question.extend(ends.peer.port().to_be_bytes());
    question.extend(ends.own.port().to_be_bytes());
    question.extend(sixteen(ends.peer.ip()));
    question.extend(sixteen(ends.own.ip()));
    question.extend(scope(ends.peer).to_ne_bytes());
    // No cookie: whichever socket it is.
    question.extend([0xff; 8]);
    match kernel.ask(SOCK_DIAG_BY_FAMILY, &question) {
        Ok(answer) => Ok(Some(read_socket(&answer).ok_or(Errno::BADMSG)?)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads an `inet_diag_msg`. `None` for what is none.
fn read_socket(answer: &netlink::Answer) -> Option<Socket> {
    if answer.kind != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let body = answer.body.first_chunk::<INET_DIAG_BYTES>()?;
    let is_v6 = match i32::from(body[0]) {
        libc::AF_INET => false,
        libc::AF_INET6 => true,
        _ => return None,
    };
    let number =
        |at: usize| u32::from_ne_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
    let scope = number(40);
    let end = |port: usize, address: usize| {
        let port = u16::from_be_bytes([body[port], body[port + 1]]);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&body[address..address + 16]);
        let address: SocketAddr = if is_v6 {
            SocketAddrV6::new(Ipv6Addr::from(bytes), port, 0, scope).into()
        } else {
            let [a, b, c, d, ..] = bytes;
            (Ipv4Addr::new(a, b, c, d), port).into()
        };
        address
    };
    Some(Socket {
        ends: Ends::new(end(4, 8), end(6, 24)),
        state: body[1],
        uid: number(64),
        inode: number(68),
    })
}

/// `RTM_GETROUTE` and its answer, of `linux/rtnetlink.h`.
const RTM_GETROUTE: u16 = 26;
const RTM_NEWROUTE: u16 = 24;
/// Attributes: the destination, and the interface to leave by.
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
/// The kind of a route whose end is this machine.
const RTN_LOCAL: u8 = 2;

/// Whether what is sent to `address` stays on this machine. rtnetlink(7).
fn leads_here(kernel: &mut Netlink, address: SocketAddr) -> Result<bool> {
    let bytes = sixteen(address.ip());
    let bytes = if address.is_ipv4() {
        &bytes[..4]
    } else {
        &bytes[..]
    };
    let mut question = vec![family(address.ip()), (bytes.len() * 8) as u8];
    question.resize(12, 0);
    netlink::attribute(&mut question, RTA_DST, bytes);
    if scope(address) != 0 {
        netlink::attribute(&mut question, RTA_OIF, &scope(address).to_ne_bytes());
    }
    match kernel.ask(RTM_GETROUTE, &question) {
        Ok(answer) => is_local_route(&answer).ok_or(Errno::BADMSG),
        // No way leads there, so none leads here.
        Err(Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NOENT | Errno::NODEV) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_local_route(answer: &netlink::Answer) -> Option<bool> {
    let route = answer.body.first_chunk::<12>()?;
    (answer.kind == RTM_NEWROUTE).then(|| route[7] == RTN_LOCAL)
}

fn family(address: IpAddr) -> u8 {
    // Both fit: 2 and 10.
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

/// An address in the place that has room for an IPv6 one.
fn sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.octets());
            bytes
        }
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// The interface of a link-local address, 0 for others.
fn scope(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(v6) => v6.scope_id(),
    }
}

fn overflow_uid() -> Option<u32> {
    const USUAL: u32 = 65534;
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if is_whole(&map) {
        return None;
    }
    let text = std::fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    Some(text.trim().parse().unwrap_or(USUAL))
}

/// Whether this is the map of a user namespace in which every user has a number, as in the first one.
/// user_namespaces(7): first number inside, first outside, how many.
fn is_whole(map: &str) -> bool {
    let mut numbers = map.split_whitespace();
    numbers.nth(2) == Some("4294967295")
}

#[cfg(test)]
mod tests;
