//! A connection without rules: for tests that send what no client should.

use std::io;
use std::net::SocketAddr;

use nfs_wire::record::{FragmentHeader, Fragments, MARK_BYTES, Position};
use nfs_wire::{Encode, Encoder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Procedure, call_header};
use crate::identity::Identity;
use crate::limits::{REPLY_BYTES_MAX, REPLY_FRAGMENTS_MAX};

/// A bare TCP connection that writes any bytes and reads records.
///
/// No xid table, no time limit, no reconnect: the test is in charge. Wrap receives in
/// `tokio::time::timeout` where the server may stay silent.
#[derive(Debug)]
pub struct RawConnection {
    stream: TcpStream,
}

impl RawConnection {
    /// Connects to the server at `address`.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream })
    }

    /// Uses a connection that exists already.
    pub fn from_stream(stream: TcpStream) -> Self {
        Self { stream }
    }

    /// Writes `bytes` as they are.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Writes `body` as one record of one fragment.
    pub async fn send_record(&mut self, body: &[u8]) -> io::Result<()> {
        let len = u32::try_from(body.len()).map_err(io::Error::other)?;
        let mut bytes = FragmentHeader { last: true, len }.to_bytes().to_vec();
        bytes.extend_from_slice(body);
        self.send(&bytes).await
    }

    /// Receives one record, put together from its fragments; `None` when the peer closed instead.
    ///
    /// # Errors
    /// `UnexpectedEof` if the peer closes inside a record, `InvalidData` if the record is longer than
    /// any reply may be.
    pub async fn receive_record(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut fragments = Fragments::new(REPLY_BYTES_MAX, REPLY_FRAGMENTS_MAX);
        let mut record = Vec::new();
        let mut mark = [0; MARK_BYTES];
        let mut mark_len = 0;
        loop {
            let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
            let mut bytes = mark.get(..mark_len).unwrap_or_default();
            mark_len = 0;
            match fragments.next(&mut bytes).map_err(invalid)? {
                Position::Mark { .. } => {
                    match self.stream.read(&mut mark[..1]).await? {
                        0 if fragments.is_between_records() => return Ok(None),
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        _ => self.stream.read_exact(&mut mark[1..]).await?,
                    };
                    mark_len = MARK_BYTES;
                }
                Position::Fragment { left, .. } => {
                    let start = record.len();
                    record.resize(start + left, 0);
                    let fragment = record.get_mut(start..).unwrap_or_default();
                    self.stream.read_exact(fragment).await?;
                    fragments.take(left);
                }
                Position::End => return Ok(Some(record)),
            }
        }
    }

    /// Sends `body` as a record and receives the next one, whatever it answers.
    pub async fn exchange(&mut self, body: &[u8]) -> io::Result<Option<Vec<u8>>> {
        self.send_record(body).await?;
        self.receive_record().await
    }

    /// Says that nothing more will be sent; replies can still be received.
    pub async fn finish_sending(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    /// The socket, for what no method here does.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// The body of a well-formed call record: header with this `xid`, then `args`. A starting point to
    /// change bytes in, or to send twice.
    pub fn call_body<A: Encode + ?Sized>(
        xid: u32,
        procedure: Procedure,
        identity: &Identity,
        args: &A,
    ) -> Vec<u8> {
        let mut body = Vec::new();
        let mut e = Encoder::new(&mut body);
        call_header(xid, procedure, identity).encode(&mut e);
        args.encode(&mut e);
        body
    }
}
