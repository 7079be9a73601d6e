//! The ceiling: what loopback TCP carries here between two plain threads, each on its own core, from one warm buffer
//! into another.
//!
//! No client can be faster than this, whatever it does: the kernel's copies into the socket and out of it, on both cores.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::pin::pin_thread;

/// Length in bytes of one write to the socket and of one read from it: what a client moves with one call.
const PIECE_BYTES: usize = 1 << 20;

/// One measurement of what loopback TCP carries.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ceiling {
    /// Number of payload bytes that were moved.
    pub bytes: u64,
    /// Seconds that the receiver took, from its connection to the end of the data.
    pub seconds: f64,
    /// CPU seconds that the sending thread used.
    pub sender_seconds: f64,
    /// CPU seconds that the receiving thread used.
    pub receiver_seconds: f64,
}

impl Ceiling {
    /// Throughput of the measurement in MiB/s.
    pub fn mib_per_second(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20) / self.seconds
    }
}

/// Moves `bytes` from a thread on core `cpus.1` to one on `cpus.0`.
///
/// # Errors
/// The loopback interface is down, or a core is not ours.
pub fn measure(bytes: u64, cpus: (usize, usize)) -> Result<Ceiling> {
    let listener = TcpListener::bind("127.0.0.1:0").context("listening on loopback")?;
    let address = listener.local_addr()?;
    let died = |_| anyhow!("a measuring thread panicked");
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || send(&listener, bytes, cpus.1));
        let receiver = scope.spawn(move || receive(TcpStream::connect(address)?, cpus.0));
        let (seconds, received, receiver_seconds) = receiver.join().map_err(died)??;
        Ok(Ceiling {
            bytes: received,
            seconds,
            sender_seconds: sender.join().map_err(died)??,
            receiver_seconds,
        })
    })
}

fn send(listener: &TcpListener, bytes: u64, cpu: usize) -> Result<f64> {
    pin_thread(cpu)?;
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let data = vec![0x5a; PIECE_BYTES];
    let before = thread_seconds();
    let mut left = bytes;
    while left > 0 {
        let part = usize::try_from(left.min(data.len() as u64))?;
        stream.write_all(&data[..part])?;
        left -= part as u64;
    }
    Ok(thread_seconds() - before)
}

/// Reads until the sender is done; returns the seconds that took, the bytes that came and the thread's CPU
/// seconds.
fn receive(mut stream: TcpStream, cpu: usize) -> Result<(f64, u64, f64)> {
    pin_thread(cpu)?;
    let mut data = vec![0; PIECE_BYTES];
    let mut received = 0;
    let (start, before) = (Instant::now(), thread_seconds());
    loop {
        let count = stream.read(&mut data)?;
        if count == 0 {
            let seconds = start.elapsed().as_secs_f64();
            return Ok((seconds, received, thread_seconds() - before));
        }
        received += count as u64;
    }
}

fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_arrives() {
        let cores = crate::pin::cores();
        let bytes = (5 << 20) + 7;
        let ceiling = measure(bytes, cores).unwrap();
        assert_eq!(ceiling.bytes, bytes);
        assert!(ceiling.mib_per_second() > 0.0);
    }
}
