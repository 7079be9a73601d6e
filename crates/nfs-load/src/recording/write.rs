//! A recording on its way into a file.

use std::io::{self, Write};

use super::{Call, End, Header, MAGIC, VERSION, codec};

/// Writes a recording. What is written is whole after each call of [`Writer::flush`].
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    record: Vec<u8>,
    bytes: u64,
    bytes_max: u64,
    before_ns: i64,
    calls: u64,
    lost: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a recording that is to have about `bytes_max` bytes at most.
    ///
    /// # Errors
    /// Those of writing it.
    pub fn begin(mut out: W, header: &Header, bytes_max: u64) -> io::Result<Self> {
        let server = header.server.as_bytes();
        let server = server.get(..server.len().min(255)).unwrap_or_default();
        let mut rest = header.began_ns.to_le_bytes().to_vec();
        rest.push(u8::try_from(server.len()).unwrap_or_default());
        rest.extend_from_slice(server);
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        let len = u16::try_from(rest.len()).unwrap_or_default();
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&rest);
        out.write_all(&bytes)?;
        Ok(Self {
            out,
            record: Vec::new(),
            bytes: bytes.len() as u64,
            bytes_max,
            before_ns: 0,
            calls: 0,
            lost: 0,
        })
    }

    /// Writes a call, or gives `false` where it does not fit any more.
    ///
    /// # Errors
    /// Those of writing it.
    pub fn call(&mut self, call: &Call) -> io::Result<bool> {
        if self.calls == 0 {
            // How long the server has been up is nobody's business: the first call begins at 0, and the others with it.
            self.before_ns = call.at_ns;
        }
        self.record.clear();
        codec::put_call(&mut self.record, call, self.before_ns);
        if self.bytes + self.record.len() as u64 > self.bytes_max {
            return Ok(false);
        }
        self.put()?;
        self.before_ns = call.at_ns;
        self.calls += 1;
        Ok(true)
    }

    /// Writes that so many calls are missing.
    ///
    /// # Errors
    /// Those of writing it.
    pub fn lost(&mut self, lost: u64) -> io::Result<()> {
        self.record.clear();
        codec::put_lost(&mut self.record, lost);
        self.lost += lost;
        self.put()
    }

    /// Writes why there will be no more.
    ///
    /// # Errors
    /// Those of writing it.
    pub fn end(&mut self, end: End) -> io::Result<()> {
        self.record.clear();
        codec::put_end(&mut self.record, end);
        self.put()?;
        self.flush()
    }

    /// Hands what was written to the file.
    ///
    /// # Errors
    /// Those of writing it.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Calls that were written.
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// Calls that are missing.
    pub const fn lost_calls(&self) -> u64 {
        self.lost
    }

    /// Bytes that were written.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where it is written to.
    pub const fn get_ref(&self) -> &W {
        &self.out
    }

    fn put(&mut self) -> io::Result<()> {
        self.out.write_all(&self.record)?;
        self.bytes += self.record.len() as u64;
        Ok(())
    }
}
