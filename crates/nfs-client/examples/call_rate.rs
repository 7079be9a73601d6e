//! How many small calls per second the connection carries: NULL at a depth, for some seconds.
//!
//!     cargo run --release -p nfs-client --example call_rate -- [ADDRESS:PORT] [DEPTH] [SECONDS]
//!
//! Without an address, a responder in a thread of its own answers; it does nothing but that.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nfs_client::{ConnectOptions, Connection, Identity, Nfs3, RpcError};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let address: SocketAddr = match args.next() {
        Some(text) => text.parse()?,
        None => spawn_responder()?,
    };
    let depth: usize = args.next().map_or(Ok(32), |text| text.parse())?;
    let seconds: u64 = args.next().map_or(Ok(3), |text| text.parse())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(measure(address, depth, Duration::from_secs(seconds)))?;
    Ok(())
}

async fn measure(address: SocketAddr, depth: usize, time: Duration) -> Result<(), RpcError> {
    let connection = Connection::connect(address.into(), ConnectOptions::default()).await?;
    let nfs = Nfs3::new(connection, Identity::current());
    let (calls, stop) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let begin = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..depth {
        let (nfs, calls, stop) = (nfs.clone(), calls.clone(), stop.clone());
        workers.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                nfs.null().await?;
                calls.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), RpcError>(())
        });
    }
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    while let Some(result) = workers.join_next().await {
        result.expect("workers do not panic")?;
    }
    let calls = calls.load(Ordering::Relaxed);
    let rate = calls as f64 / begin.elapsed().as_secs_f64();
    println!("{calls} calls at depth {depth}: {rate:.0} per second");
    Ok(())
}

/// Answers every record with a successful, empty reply.
fn spawn_responder() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut buffer = vec![0; 256 * 1024];
        let mut have = 0;
        loop {
            have += match stream.read(&mut buffer[have..])? {
                0 => return Ok(()),
                count => count,
            };
            let (mut taken, mut replies) = (0, Vec::new());
            while let Some(head) = buffer[taken..have].first_chunk::<8>() {
                let [a, b, c, d, xid @ ..] = *head;
                let len = (u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff) as usize;
                if have - taken < 4 + len {
                    break;
                }
                taken += 4 + len;
                replies.extend_from_slice(&(1_u32 << 31 | 24).to_be_bytes());
                replies.extend_from_slice(&xid);
                replies.extend_from_slice(&[0, 0, 0, 1]);
                replies.extend_from_slice(&[0; 16]);
            }
            buffer.copy_within(taken..have, 0);
            have -= taken;
            stream.write_all(&replies)?;
        }
    });
    Ok(address)
}
