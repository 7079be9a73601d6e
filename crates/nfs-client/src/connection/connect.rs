//! Making the TCP connection: name look-up, local port, time limit.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout, timeout_at};

use super::{ConnectOptions, SourcePort};
use crate::error::RpcError;

/// Where a connection goes: a host name or address, and a port.
///
/// A name is looked up at each connect, so that a server may move.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Host name or address; an IPv6 address without brackets.
    pub host: String,
    /// The TCP port that is connected to.
    pub port: u16,
}

impl Target {
    /// A target of the host name or address `host` and the TCP port `port`.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// The TCP port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// This target's host with another port.
    pub fn with_port(&self, port: u16) -> Self {
        Self {
            host: self.host.clone(),
            port,
        }
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.ip().to_string(), address.port())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Connects to the first address of `target` that answers.
pub(super) async fn open(target: &Target, options: &ConnectOptions) -> Result<TcpStream, RpcError> {
    let ends = Instant::now() + options.connect_timeout;
    let attempt = async {
        let looked_up = tokio::net::lookup_host((target.host.as_str(), target.port));
        let addresses: Vec<_> = timeout_at(ends, looked_up).await??.collect();
        open_any(&addresses, options, ends).await
    };
    attempt.await.map_err(|cause: io::Error| RpcError::Connect {
        place: target.to_string(),
        cause: Arc::new(cause),
    })
}

/// Tries one address after the other. Each has an equal part of the time that is left: one that nobody
/// answers at (a host with an IPv6 address and no way to it) must not take it all.
async fn open_any(
    addresses: &[SocketAddr],
    options: &ConnectOptions,
    ends: Instant,
) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for &address in addresses {
        let time = ends.saturating_duration_since(Instant::now()) / left.max(1);
        left = left.saturating_sub(1);
        match timeout(time, open_one(address, options)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(error)) => failure = error,
            Err(_) => failure = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failure)
}

async fn open_one(to: SocketAddr, options: &ConnectOptions) -> io::Result<TcpStream> {
    let ports = match options.source_port {
        SourcePort::Any => return open_from(to, options, 0).await,
        SourcePort::Privileged | SourcePort::PrivilegedIfAllowed => (512..=1023_u16).rev(),
    };
    let mut failure = io::Error::from(io::ErrorKind::AddrInUse);
    for port in ports {
        match open_from(to, options, port).await {
            Ok(stream) => return Ok(stream),
            // Taken, or taken by an earlier connection to the same server that is still closing.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable
                ) =>
            {
                failure = error;
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                if options.source_port == SourcePort::PrivilegedIfAllowed {
                    return open_from(to, options, 0).await;
                }
                return Err(error);
            }
            Err(error) => return Err(error),
        }
    }
    if options.source_port == SourcePort::PrivilegedIfAllowed {
        // All in use, or left by connections that ended within the last minute.
        return open_from(to, options, 0).await;
    }
    Err(failure)
}

async fn open_from(to: SocketAddr, options: &ConnectOptions, port: u16) -> io::Result<TcpStream> {
    let from = options.source;
    let socket = if to.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    if let Some(interface) = &options.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    if from.is_some() || port != 0 {
        let any = || match to {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        socket.set_reuseaddr(port != 0)?;
        socket.bind(SocketAddr::new(from.unwrap_or_else(any), port))?;
    }
    socket.connect(to).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket that listens and has no room for more: who connects is not answered.
    async fn full() -> (tokio::net::TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        let room = std::time::Duration::from_millis(500);
        while let Ok(connected) = timeout(room, TcpStream::connect(address)).await {
            waiting.push(connected.unwrap());
            assert!(waiting.len() < 100, "there is always room");
        }
        (listener, waiting)
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_does_not_answer_leaves_time_for_the_next() {
        let (silent, _waiting) = full().await;
        let good = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses = [&silent, &good].map(|listener| listener.local_addr().unwrap());
        let options = ConnectOptions::default();
        let ends = Instant::now() + std::time::Duration::from_secs(2);
        let stream = open_any(&addresses, &options, ends).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), addresses[1]);
        assert!(Instant::now() < ends, "nothing was left");
    }
}
