//! Connections on which nothing goes on: each has had one NULL call answered, and is then left alone.
//!
//! A client that has mounted a server and does nothing is one. They are opened one after the other and closed with the
//! value. Nothing here panics.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use nfs_client::Version;
use nfs_wire::nfs3;
use rustix::net::{RecvFlags, recv};

use crate::error::LoadError;
use crate::limits::NULL_ANSWER_BYTES_MAX;
use crate::place::Place;

/// NFS without a port in the address.
const NFS_PORT: u16 = 2049;
/// How long a server may take to answer the NULL call of a new connection.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Descriptors that this process has for all else.
const FDS_BESIDE: usize = 1024;

/// Idle connections to one server.
#[derive(Debug)]
pub(crate) struct Idle(Vec<TcpStream>);

impl Idle {
    /// Opens so many connections to the server of a place; none to this host's file system.
    pub(crate) fn open(place: &Place, count: usize) -> Result<Self, LoadError> {
        let mut idle = Self(Vec::new());
        idle.open_more(place, count).map(|()| idle)
    }

    /// Makes about so many more NULL calls, in turn on all of them.
    pub(crate) fn ask_again(&mut self, place: &Place, calls: usize) -> Result<(), LoadError> {
        let Place::Nfs { url, .. } = place else {
            return Ok(());
        };
        let version = null_version(url.version);
        for _ in 0..calls.div_ceil(self.0.len().max(1)) {
            for (number, stream) in (1..).zip(&mut self.0) {
                let asked = ask_nothing(stream, version);
                asked.map_err(|error| LoadError::Idle { number, error })?;
            }
        }
        Ok(())
    }

    /// Opens so many more.
    pub(crate) fn open_more(&mut self, place: &Place, count: usize) -> Result<(), LoadError> {
        let Place::Nfs { url, .. } = place else {
            return Ok(());
        };
        let (before, all) = (self.0.len(), self.0.len().saturating_add(count));
        let needed = all.saturating_add(FDS_BESIDE) as u64;
        if count > 0 && nfs_io::fs::raise_nofile(needed) < needed {
            return Err(LoadError::Setting(format!(
                "--idle: {all} connections take {needed} descriptors, and this process may have fewer: raise \
                 `ulimit -n`, or give fewer"
            )));
        }
        let version = null_version(url.version);
        let address = (url.host.as_str(), url.port.unwrap_or(NFS_PORT));
        for number in before + 1..=all {
            let asked = TcpStream::connect(address).and_then(|mut stream| {
                stream.set_read_timeout(Some(ANSWER_WITHIN))?;
                ask_nothing(&mut stream, version).map(|()| stream)
            });
            self.0
                .push(asked.map_err(|error| LoadError::Idle { number, error })?);
        }
        Ok(())
    }

    /// Whether all of them are still there.
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        let is_gone = |stream: &&TcpStream| {
            let looked = recv(
                stream,
                &mut [0; 1][..],
                RecvFlags::PEEK | RecvFlags::DONTWAIT,
            );
            looked != Err(rustix::io::Errno::AGAIN)
        };
        match self.0.iter().filter(is_gone).count() {
            0 => Ok(()),
            closed => Err(LoadError::IdleClosed {
                closed,
                of: self.0.len(),
            }),
        }
    }
}

/// The version of the program that NULL is asked of.
fn null_version(version: Version) -> u32 {
    match version {
        Version::V3 => nfs3::VERSION,
        Version::V4 | Version::V41 | Version::V42 => 4,
    }
}

/// One NULL call, and its answer, which is not looked at.
fn ask_nothing(stream: &mut TcpStream, version: u32) -> io::Result<()> {
    // The mark of a record of 40 bytes; then the xid, CALL, RPC's version, program, version, procedure, and neither
    // credential nor verifier: RFC 5531 §9.
    let words = [1 << 31 | 40, 1, 0, 2, nfs3::PROGRAM, version, 0, 0, 0, 0, 0];
    stream.write_all(&words.map(u32::to_be_bytes).concat())?;
    let mut mark = [0; 4];
    stream.read_exact(&mut mark)?;
    let len = usize::try_from(u32::from_be_bytes(mark) & (u32::MAX >> 1)).unwrap_or(usize::MAX);
    if len > NULL_ANSWER_BYTES_MAX {
        let text = "the answer to NULL is longer than it can be";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    stream.read_exact(&mut vec![0; len])
}
