//! Our own answer on port 111, for clients that ask there first and machines without an rpcbind:
//! portmap version 2 and rpcbind versions 3 and 4 (RFC 1833), for looking up only.
//!
//! It knows MOUNT, NFS, the lock manager and itself, from the server's own listeners, and listens on their addresses alone.
//! SET and UNSET are answered "not done". DUMP is answered over TCP only: over UDP, whose senders can be
//! forged, every reply is about as small as its call, so that nobody is flooded through us.
//! Calls are bounded in length, connections in number, of one host and in all (`slots.rs`), and in
//! the time without a call or in which a reply is not taken.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nfs_wire::auth::{AUTH_NONE, AUTH_SYS, AuthStat};
use nfs_wire::portmap::{self, IPPROTO_TCP, IPPROTO_UDP, Mapping, MappingList};
use nfs_wire::record::{FragmentHeader, RecordCutter, RecordLimits};
use nfs_wire::rpc::{AcceptStat, CallHeader, Rejected, ReplyHeader};
use nfs_wire::rpcbind::{
    self, NETID_TCP, NETID_TCP6, NETID_UDP, NETID_UDP6, Rpcb, RpcbList, UniversalAddress,
    to_universal_address,
};
use nfs_wire::xdr::{DecodeError, Decoder, Encode, Encoder};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use crate::limits;
use crate::slots::peers::{Entered, Peers};

/// Versions of the program that are answered.
const VERSIONS: [u32; 3] = [portmap::VERSION, rpcbind::VERSION_3, rpcbind::VERSION_4];

/// The sockets of port 111, bound and not served yet.
#[derive(Debug)]
pub struct Portmap {
    tcp: Vec<TcpListener>,
    udp: Vec<UdpSocket>,
    book: Arc<Book>,
}

/// The transport by which a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Tcp,
    Udp,
}

/// What there is to look up: immutable.
#[derive(Debug)]
struct Book {
    services: Vec<Service>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Service {
    program: u32,
    version: u32,
    transport: Transport,
    address: SocketAddr,
}

impl Portmap {
    /// Binds port `port` (111 but in tests), TCP and UDP, on each address that `listeners` have, to say there where each of
    /// `programs` (with its version) is. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// What the system says, with the address: most often that an rpcbind runs already.
    pub async fn bind(
        listeners: &[SocketAddr],
        programs: &[(u32, u32)],
        port: u16,
    ) -> io::Result<Self> {
        let addresses: BTreeSet<IpAddr> = listeners.iter().map(SocketAddr::ip).collect();
        let (mut tcp, mut udp) = (Vec::new(), Vec::new());
        let mut own = Vec::new();
        for ip in addresses {
            let failed = |error: io::Error| {
                let address = SocketAddr::new(ip, port);
                let message = format!("portmap cannot listen on {address}: {error}");
                io::Error::new(error.kind(), message)
            };
            let listener = TcpListener::bind((ip, port)).await.map_err(failed)?;
            let address = listener.local_addr()?;
            // The same number for both, where any would do.
            udp.push(UdpSocket::bind(address).await.map_err(failed)?);
            tcp.push(listener);
            own.push(address);
        }
        Ok(Self {
            tcp,
            udp,
            book: Arc::new(Book::new(listeners, programs, &own)),
        })
    }

    /// Where it listens, TCP and UDP alike.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        self.tcp.iter().map(TcpListener::local_addr).collect()
    }

    /// Answers calls until the future is dropped.
    pub async fn serve(self) {
        let peers = Arc::new(Peers::new(limits::PORTMAP_CONNECTIONS_MAX));
        let mut tasks = JoinSet::new();
        for listener in self.tcp {
            tasks.spawn(accept(listener, Arc::clone(&peers), Arc::clone(&self.book)));
        }
        for socket in self.udp {
            tasks.spawn(answer_datagrams(socket, Arc::clone(&self.book)));
        }
        while tasks.join_next().await.is_some() {}
    }
}

async fn accept(listener: TcpListener, peers: Arc<Peers>, book: Arc<Book>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Some(entered) = peers.enter(peer.ip()) else {
                    continue;
                };
                let book = Arc::clone(&book);
                tokio::spawn(async move {
                    // How a stranger's connection ends is not worth a word.
                    tokio::select! {
                        _ = converse(stream, &entered, &book) => {}
                        () = entered.displaced() => {}
                    }
                });
            }
            // Out of descriptors, for the most part: to try again at once would spin.
            Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

/// One connection: answers call by call until the peer closes, falls silent or breaks a limit.
async fn converse(mut stream: TcpStream, entered: &Entered, book: &Book) -> io::Result<()> {
    let local = stream.local_addr()?.ip();
    let idle = Duration::from_secs(limits::PORTMAP_IDLE_SECONDS_MAX);
    let bounds = RecordLimits::whole(limits::PORTMAP_RECORD_BYTES_MAX);
    let mut cutter = RecordCutter::new(bounds);
    let mut buffer = [0; 1024];
    loop {
        let read = tokio::time::timeout(idle, stream.read(&mut buffer)).await;
        let length = read.map_err(|_| io::ErrorKind::TimedOut)??;
        let mut bytes = buffer.get(..length).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(());
        }
        entered.moved();
        while let Some(call) = cutter.feed_whole(&mut bytes).map_err(io::Error::other)? {
            let Some(reply) = book.answer(&call, Transport::Tcp, local) else {
                return Ok(());
            };
            let len = u32::try_from(reply.len()).map_err(io::Error::other)?;
            let head = FragmentHeader { last: true, len }.to_bytes();
            let record = [head.as_slice(), &reply].concat();
            let written = tokio::time::timeout(idle, stream.write_all(&record)).await;
            written.map_err(|_| io::ErrorKind::TimedOut)??;
            entered.moved();
        }
    }
}

async fn answer_datagrams(socket: UdpSocket, book: Arc<Book>) {
    let mut buffer = [0; 1500];
    loop {
        let Ok((length, peer)) = socket.recv_from(&mut buffer).await else {
            // An ICMP error of an earlier reply: nothing is wrong with the socket.
            tokio::task::yield_now().await;
            continue;
        };
        let call = buffer.get(..length).unwrap_or_default();
        let local = match socket.local_addr() {
            Ok(local) if local.ip().is_unspecified() => address_towards(peer).await,
            Ok(local) => Some(local.ip()),
            Err(_) => None,
        };
        let Some(local) = local else { continue };
        if let Some(reply) = book.answer(call, Transport::Udp, local) {
            // Lost replies are UDP's own business; the caller asks again.
            let _ = socket.send_to(&reply, peer).await;
        }
    }
}

/// Which of our addresses `peer` reaches us by: the one that the kernel would answer from.
async fn address_towards(peer: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if peer.is_ipv4() {
        std::net::Ipv4Addr::UNSPECIFIED.into()
    } else {
        std::net::Ipv6Addr::UNSPECIFIED.into()
    };
    let probe = UdpSocket::bind((any, 0)).await.ok()?;
    probe.connect(peer).await.ok()?;
    probe.local_addr().ok().map(|address| address.ip())
}

impl Book {
    fn new(listeners: &[SocketAddr], programs: &[(u32, u32)], own: &[SocketAddr]) -> Self {
        let mut services = Vec::new();
        for address in listeners {
            for &(program, version) in programs {
                let transport = Transport::Tcp;
                services.push(Service {
                    program,
                    version,
                    transport,
                    address: *address,
                });
            }
        }
        for address in own {
            for version in VERSIONS {
                for transport in [Transport::Tcp, Transport::Udp] {
                    let program = portmap::PROGRAM;
                    services.push(Service {
                        program,
                        version,
                        transport,
                        address: *address,
                    });
                }
            }
        }
        Self { services }
    }

    /// The reply to one call, which came to our address `local`; `None` where there is nothing to say.
    fn answer(&self, call: &[u8], transport: Transport, local: IpAddr) -> Option<Vec<u8>> {
        let mut d = Decoder::new(call);
        let header = match CallHeader::decode(&mut d) {
            Ok(header) => header,
            Err(error) => {
                return error
                    .reply()
                    .map(|reply| nfs_wire::xdr::encode_to_vec(&reply));
            }
        };
        // Everybody may ask, but not in a flavor that we do not understand: its arguments may mean another thing.
        if ![AUTH_NONE, AUTH_SYS].contains(&header.credential.flavor) {
            let rejected = Rejected::AuthError(AuthStat::RejectedCred);
            let reply = ReplyHeader::denied(header.xid, rejected);
            return Some(nfs_wire::xdr::encode_to_vec(&reply));
        }
        let mut results = Vec::new();
        let stat = if header.program != portmap::PROGRAM {
            AcceptStat::ProgUnavail
        } else if header.version == portmap::VERSION {
            self.portmap(header.procedure, d, transport, &mut results)
        } else if VERSIONS.contains(&header.version) {
            self.rpcbind(&header, d, transport, local, &mut results)
        } else {
            AcceptStat::ProgMismatch {
                low: portmap::VERSION,
                high: rpcbind::VERSION_4,
            }
        };
        let mut reply = Vec::new();
        ReplyHeader::accepted(header.xid, stat).encode(&mut Encoder::new(&mut reply));
        if stat == AcceptStat::Success {
            reply.extend_from_slice(&results);
        }
        Some(reply)
    }

    /// Answers a call of version 2, which knows IPv4 only.
    fn portmap(
        &self,
        procedure: u32,
        mut d: Decoder<'_>,
        transport: Transport,
        results: &mut Vec<u8>,
    ) -> AcceptStat {
        let Ok(procedure) = portmap::Procedure::try_from(procedure) else {
            return AcceptStat::ProcUnavail;
        };
        let decoded = portmap::Call::decode(procedure, &mut d);
        let Ok(call) = all_of(decoded, d) else {
            return AcceptStat::GarbageArgs;
        };
        let mut e = Encoder::new(results);
        match call {
            portmap::Call::Null(()) => {}
            portmap::Call::Set(_) | portmap::Call::Unset(_) => e.bool(false),
            portmap::Call::Getport(asked) => {
                let mut found = self.mappings().filter(|mapping| {
                    (mapping.program, mapping.version, mapping.protocol)
                        == (asked.program, asked.version, asked.protocol)
                });
                e.u32(found.next().map_or(0, |mapping| mapping.port));
            }
            portmap::Call::Dump(()) if transport == Transport::Udp => {
                return AcceptStat::ProcUnavail;
            }
            portmap::Call::Dump(()) => MappingList(self.mappings().collect()).encode(&mut e),
        }
        AcceptStat::Success
    }

    fn mappings(&self) -> impl Iterator<Item = Mapping> {
        let ipv4 = self
            .services
            .iter()
            .filter(|service| service.address.is_ipv4());
        ipv4.map(|service| Mapping {
            program: service.program,
            version: service.version,
            protocol: match service.transport {
                Transport::Tcp => IPPROTO_TCP,
                Transport::Udp => IPPROTO_UDP,
            },
            port: service.address.port().into(),
        })
    }

    /// Answers a call of rpcbind, versions 3 and 4.
    fn rpcbind(
        &self,
        header: &CallHeader<'_>,
        mut d: Decoder<'_>,
        transport: Transport,
        local: IpAddr,
        results: &mut Vec<u8>,
    ) -> AcceptStat {
        let procedure = match rpcbind::Procedure::try_from(header.procedure) {
            Ok(rpcbind::Procedure::Getversaddr) if header.version < rpcbind::VERSION_4 => {
                return AcceptStat::ProcUnavail;
            }
            Ok(procedure) => procedure,
            Err(_) => return AcceptStat::ProcUnavail,
        };
        let decoded = rpcbind::Call::decode(procedure, &mut d);
        let Ok(call) = all_of(decoded, d) else {
            return AcceptStat::GarbageArgs;
        };
        let mut e = Encoder::new(results);
        match call {
            rpcbind::Call::Null(()) => {}
            rpcbind::Call::Set(_) | rpcbind::Call::Unset(_) => e.bool(false),
            // RFC 1833 §2.2.1: in version 4 GETADDR takes any version of the program. Version 3 is
            // treated alike, as rpcbind does: the caller learns the version from PROG_MISMATCH.
            rpcbind::Call::Getaddr(asked) => {
                let exact = self.address(&asked, transport, local, true);
                let address = exact.or_else(|| self.address(&asked, transport, local, false));
                UniversalAddress(address.unwrap_or_default().as_bytes()).encode(&mut e);
            }
            rpcbind::Call::Getversaddr(asked) => {
                let address = self.address(&asked, transport, local, true);
                UniversalAddress(address.unwrap_or_default().as_bytes()).encode(&mut e);
            }
            rpcbind::Call::Dump(()) if transport == Transport::Udp => {
                return AcceptStat::ProcUnavail;
            }
            rpcbind::Call::Dump(()) => self.dump(&mut e),
        }
        AcceptStat::Success
    }

    /// Where a service is, as the caller can reach it. A network id that is empty means the one that
    /// the call came by: version 4 ignores the one that is sent, and callers leave it out.
    fn address(
        &self,
        asked: &Rpcb<'_>,
        transport: Transport,
        local: IpAddr,
        exact: bool,
    ) -> Option<String> {
        let own = netid(transport, local.is_ipv4());
        let netid_asked = if asked.netid.is_empty() {
            own
        } else {
            asked.netid
        };
        let found = self.services.iter().find(|service| {
            service.program == asked.program
                && (!exact || service.version == asked.version)
                && netid(service.transport, service.address.is_ipv4()) == netid_asked
        })?;
        let mut address = found.address;
        if address.ip().is_unspecified() && address.is_ipv4() == local.is_ipv4() {
            address.set_ip(local);
        }
        Some(to_universal_address(address))
    }

    fn dump(&self, e: &mut Encoder<'_>) {
        let addresses: Vec<String> = self
            .services
            .iter()
            .map(|service| to_universal_address(service.address))
            .collect();
        let entries = self
            .services
            .iter()
            .zip(&addresses)
            .map(|(service, address)| Rpcb {
                program: service.program,
                version: service.version,
                netid: netid(service.transport, service.address.is_ipv4()),
                address: UniversalAddress(address.as_bytes()),
                owner: b"superuser",
            });
        RpcbList(entries.collect()).encode(e);
    }
}

/// What was decoded, if nothing is left after it.
fn all_of<T>(decoded: Result<T, DecodeError>, d: Decoder<'_>) -> Result<T, DecodeError> {
    let value = decoded?;
    d.finish()?;
    Ok(value)
}

const fn netid(transport: Transport, is_ipv4: bool) -> &'static [u8] {
    match (transport, is_ipv4) {
        (Transport::Tcp, true) => NETID_TCP,
        (Transport::Tcp, false) => NETID_TCP6,
        (Transport::Udp, true) => NETID_UDP,
        (Transport::Udp, false) => NETID_UDP6,
    }
}

#[cfg(test)]
mod tests;
