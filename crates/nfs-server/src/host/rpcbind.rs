//! Registers NFS, and for NFSv3 MOUNT and the lock manager, with the local rpcbind, so that clients which are not given
//! a port find them; and for locks no client can be given one. Where there is no rpcbind nothing happens: a client that is given the port needs none.
//!
//! The unix socket is tried first, as rpcbind lets every local user register there; over TCP it mostly
//! refuses callers from ports above 1023, as ours is. What is registered is removed again at the end, and only that: an entry of
//! somebody else (the kernel's NFS server, say) stays, and is said to be there.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nfs_wire::auth::OpaqueAuth;
use nfs_wire::nlm4;
use nfs_wire::record::{FragmentHeader, RecordCutter, RecordLimits};
use nfs_wire::rpc::{AcceptStat, CallHeader, ReplyBody, ReplyHeader};
use nfs_wire::rpcbind::{
    self, NETID_TCP, NETID_TCP6, Rpcb, UniversalAddress, to_universal_address,
};
use nfs_wire::xdr::{Decode as _, Decoder, Encode as _, Encoder};

use crate::limits;

/// Where rpcbind listens for local callers.
const UNIX_SOCKETS: &[&str] = &["/run/rpcbind.sock", "/var/run/rpcbind.sock"];

/// What has been registered; to be given back with [`Registration::remove`].
#[derive(Debug, Default)]
pub struct Registration {
    entries: Vec<Entry>,
}

/// One program on one network.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    program: u32,
    version: u32,
    address: SocketAddr,
}

impl Registration {
    /// Registers each of `programs` (with its version) on the first address of each family. Blocks, for a few seconds at
    /// worst. What goes wrong is logged; it is never a reason not to serve.
    #[must_use]
    pub fn new(listeners: &[SocketAddr], programs: &[(u32, u32)]) -> Self {
        match Connection::open() {
            Some(mut rpcbind) => Self::register(&mut rpcbind, listeners, programs),
            None => {
                tracing::debug!("no rpcbind on this machine; clients must be given the port");
                Self::default()
            }
        }
    }

    fn register(
        rpcbind: &mut Connection,
        listeners: &[SocketAddr],
        programs: &[(u32, u32)],
    ) -> Self {
        let mut entries = Vec::new();
        let first = |v4: bool| listeners.iter().find(|address| address.is_ipv4() == v4);
        for address in [first(true), first(false)].into_iter().flatten() {
            for &(program, version) in programs {
                let entry = Entry {
                    program,
                    version,
                    address: *address,
                };
                match rpcbind.tell(rpcbind::Procedure::Set, &entry) {
                    Ok(true) => entries.push(entry),
                    Ok(false) => tracing::warn!(program, version, %address, "{}", refused(program)),
                    Err(error) => {
                        tracing::warn!(%error, "rpcbind does not answer; clients must be given the port");
                        return Self { entries };
                    }
                }
            }
        }
        if !entries.is_empty() {
            tracing::info!("registered with rpcbind");
        }
        Self { entries }
    }

    /// Removes what was registered. Blocks like [`Registration::new`].
    pub fn remove(self) {
        if self.entries.is_empty() {
            return;
        }
        let Some(mut rpcbind) = Connection::open() else {
            return;
        };
        for entry in &self.entries {
            if let Err(error) = rpcbind.tell(rpcbind::Procedure::Unset, entry) {
                tracing::warn!(%error, "cannot take our entry out of rpcbind");
                return;
            }
        }
    }
}

/// What an entry that rpcbind does not take means, and the cure.
const fn refused(program: u32) -> &'static str {
    match program {
        nlm4::PROGRAM => {
            "rpcbind does not take our entry for file locks, most often because the kernel's lock \
             manager has one, as on a machine with NFS mounts; clients that lock files of ours must \
             mount with nolock"
        }
        _ => {
            "rpcbind does not take our entry, most often because another server has this program; \
             clients must be given our port"
        }
    }
}

/// A conversation with an rpcbind.
struct Connection {
    stream: Box<dyn Stream>,
    xid: u32,
}

/// The two transports that rpcbind is reached by.
trait Stream: Read + Write + Send {}
impl Stream for UnixStream {}
impl Stream for TcpStream {}

impl Connection {
    /// Connects to the local rpcbind, if there is one.
    fn open() -> Option<Self> {
        let unix = UNIX_SOCKETS
            .iter()
            .find_map(|path| Self::unix(Path::new(path)).ok());
        unix.or_else(|| Self::tcp(rpcbind::PORT).ok())
    }

    fn unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(answer_time()))?;
        stream.set_write_timeout(Some(answer_time()))?;
        Ok(Self {
            stream: Box::new(stream),
            xid: 1,
        })
    }

    fn tcp(port: u16) -> io::Result<Self> {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let stream = TcpStream::connect_timeout(&address, answer_time())?;
        stream.set_read_timeout(Some(answer_time()))?;
        stream.set_write_timeout(Some(answer_time()))?;
        Ok(Self {
            stream: Box::new(stream),
            xid: 1,
        })
    }

    /// SET or UNSET of one entry: was it done?
    fn tell(&mut self, procedure: rpcbind::Procedure, entry: &Entry) -> io::Result<bool> {
        self.xid = self.xid.wrapping_add(1);
        let record = call(self.xid, procedure, entry);
        let length = u32::try_from(record.len()).map_err(io::Error::other)?;
        let head = FragmentHeader {
            last: true,
            len: length,
        }
        .to_bytes();
        self.stream
            .write_all(&[head.as_slice(), &record].concat())?;
        let reply = self.receive()?;
        read_bool(&reply, self.xid)
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let bounds = RecordLimits::whole(limits::PORTMAP_RECORD_BYTES_MAX);
        let mut cutter = RecordCutter::new(bounds);
        let mut buffer = [0; 1024];
        loop {
            let length = self.stream.read(&mut buffer)?;
            let mut bytes = buffer.get(..length).unwrap_or_default();
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let record = cutter.feed_whole(&mut bytes).map_err(io::Error::other)?;
            if let Some(record) = record {
                return Ok(record.into_owned());
            }
        }
    }
}

fn answer_time() -> Duration {
    Duration::from_secs(limits::RPCBIND_ANSWER_SECONDS_MAX)
}

/// The record of one call. Version 3 is the oldest that knows networks and is known everywhere.
fn call(xid: u32, procedure: rpcbind::Procedure, entry: &Entry) -> Vec<u8> {
    let mut record = Vec::new();
    let mut e = Encoder::new(&mut record);
    let header = CallHeader {
        xid,
        program: rpcbind::PROGRAM,
        version: rpcbind::VERSION_3,
        procedure: procedure as u32,
        credential: OpaqueAuth::NONE,
        verifier: OpaqueAuth::NONE,
    };
    header.encode(&mut e);
    let address = to_universal_address(entry.address);
    let netid = if entry.address.is_ipv4() {
        NETID_TCP
    } else {
        NETID_TCP6
    };
    let service = Rpcb {
        program: entry.program,
        version: entry.version,
        netid,
        address: UniversalAddress(address.as_bytes()),
        // rpcbind puts in who we are.
        owner: b"",
    };
    service.encode(&mut e);
    record
}

/// The boolean that SET and UNSET answer with.
fn read_bool(reply: &[u8], xid: u32) -> io::Result<bool> {
    let mut d = Decoder::new(reply);
    let header = ReplyHeader::decode(&mut d).map_err(io::Error::other)?;
    if header.xid != xid {
        return Err(io::Error::other("the answer is to another question"));
    }
    match header.body {
        ReplyBody::Accepted {
            stat: AcceptStat::Success,
            ..
        } => d.bool("result").map_err(io::Error::other),
        body => Err(io::Error::other(format!("refused: {body:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use nfs_wire::{mount3, nfs3};

    use super::*;

    /// An rpcbind that says `answers` to the calls of one connection, and returns the calls.
    fn with_rpcbind(
        answers: &'static [bool],
        ask: impl FnOnce(&mut Connection) -> Registration,
    ) -> (Registration, Vec<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut peer = Connection {
                stream: Box::new(stream),
                xid: 0,
            };
            let mut calls = Vec::new();
            for answer in answers {
                let record = peer.receive().unwrap();
                let xid = CallHeader::decode(&mut Decoder::new(&record)).unwrap().xid;
                let mut reply = Vec::new();
                let mut e = Encoder::new(&mut reply);
                ReplyHeader::accepted(xid, AcceptStat::Success).encode(&mut e);
                e.bool(*answer);
                let len = u32::try_from(reply.len()).unwrap();
                let head = FragmentHeader { last: true, len }.to_bytes();
                peer.stream
                    .write_all(&[head.as_slice(), &reply].concat())
                    .unwrap();
                calls.push(record);
            }
            calls
        });
        let registration = ask(&mut Connection::tcp(port).unwrap());
        (registration, server.join().unwrap())
    }

    const PROGRAMS: [(u32, u32); 3] = [
        (nfs3::PROGRAM, nfs3::VERSION),
        (mount3::PROGRAM, mount3::VERSION),
        (nlm4::PROGRAM, nlm4::VERSION),
    ];

    #[test]
    fn each_program_is_registered_on_the_first_address_of_each_family() {
        let listeners = ["10.0.0.1:2049", "10.0.0.2:2050", "[::1]:2049"];
        let listeners = listeners.map(|address| address.parse().unwrap());
        let (registration, calls) =
            with_rpcbind(&[true, false, true, true, true, false], |rpcbind| {
                Registration::register(rpcbind, &listeners, &PROGRAMS)
            });
        // What was refused is not ours to remove.
        let kept: Vec<_> = registration
            .entries
            .iter()
            .map(|e| (e.program, e.address))
            .collect();
        let expected = [
            (nfs3::PROGRAM, listeners[0]),
            (nlm4::PROGRAM, listeners[0]),
            (nfs3::PROGRAM, listeners[2]),
            (mount3::PROGRAM, listeners[2]),
        ];
        assert_eq!(kept, expected);
        let mut d = Decoder::new(&calls[0]);
        let header = CallHeader::decode(&mut d).unwrap();
        assert_eq!(
            (header.program, header.version, header.procedure),
            (100_000, 3, 1)
        );
        let service = Rpcb::decode(&mut d).unwrap();
        assert_eq!(
            (service.netid, service.address.0),
            (NETID_TCP, &b"10.0.0.1.8.1"[..])
        );
        d.finish().unwrap();
    }

    #[test]
    fn an_rpcbind_that_hangs_up_is_no_reason_to_stop() {
        let listeners = ["10.0.0.1:2049".parse().unwrap()];
        let (registration, _) = with_rpcbind(&[true], |rpcbind| {
            Registration::register(rpcbind, &listeners, &PROGRAMS)
        });
        assert_eq!(registration.entries.len(), 1);
    }

    #[test]
    fn an_answer_that_is_none_is_an_error() {
        let mut reply = Vec::new();
        let mut e = Encoder::new(&mut reply);
        ReplyHeader::accepted(7, AcceptStat::ProgUnavail).encode(&mut e);
        assert!(read_bool(&reply, 7).is_err());
        assert!(read_bool(&reply, 8).is_err());
        for end in 0..reply.len() {
            assert!(read_bool(&reply[..end], 7).is_err());
        }
    }
}
