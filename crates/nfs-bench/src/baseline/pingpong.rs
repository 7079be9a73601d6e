//! The floor: a bare TCP ping-pong of the same message sizes, with nothing behind it.
//!
//! What a depth-1 call costs on an idle machine is mostly two wake-ups. Without this figure beside it, a latency
//! says more about the machine than about the server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;

use crate::pin::pin_thread;
use crate::sample::Sample;

/// Sends `request_bytes` and waits for `reply_bytes`, over and over for `duration`; both ends on their own core.
///
/// # Errors
/// The loopback interface is down, or a core is not ours.
pub fn run(
    request_bytes: usize,
    reply_bytes: usize,
    cpus: (usize, usize),
    duration: Duration,
) -> Result<Sample> {
    let listener = TcpListener::bind("127.0.0.1:0").context("listening on loopback")?;
    let address = listener.local_addr()?;
    std::thread::scope(|scope| {
        let echo = scope.spawn(move || answer(&listener, request_bytes, reply_bytes, cpus.1));
        // A thread of its own: whoever pins itself stays pinned.
        let asker = scope.spawn(move || {
            let stream = TcpStream::connect(address)?;
            ask(stream, request_bytes, reply_bytes, cpus.0, duration)
        });
        let sample = asker
            .join()
            .map_err(|_| anyhow::anyhow!("the asking thread panicked"))?;
        // The stream is closed now, which ends the answering thread.
        echo.join()
            .map_err(|_| anyhow::anyhow!("the answering thread panicked"))??;
        sample
    })
}

fn ask(
    mut stream: TcpStream,
    request_bytes: usize,
    reply_bytes: usize,
    cpu: usize,
    duration: Duration,
) -> Result<Sample> {
    pin_thread(cpu)?;
    stream.set_nodelay(true)?;
    let (request, mut reply) = (vec![0u8; request_bytes], vec![0u8; reply_bytes]);
    let mut latencies = Histogram::<u64>::new(3)?;
    let start = Instant::now();
    while start.elapsed() < duration {
        let sent = Instant::now();
        stream.write_all(&request)?;
        stream.read_exact(&mut reply)?;
        latencies.record(u64::try_from(sent.elapsed().as_nanos())?)?;
    }
    Ok(Sample::new(&latencies, start.elapsed().as_secs_f64()))
}

fn answer(
    listener: &TcpListener,
    request_bytes: usize,
    reply_bytes: usize,
    cpu: usize,
) -> Result<()> {
    pin_thread(cpu)?;
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let (mut request, reply) = (vec![0u8; request_bytes], vec![0u8; reply_bytes]);
    // The asker closes the connection when its time is over.
    while stream.read_exact(&mut request).is_ok() {
        stream.write_all(&reply)?;
    }
    Ok(())
}
