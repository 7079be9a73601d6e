//! How many bytes per second a client takes in: READs of 1 MiB into given memory, at a depth.
//!
//!     cargo run --release -p nfs-client --example read_rate -- [DEPTH] [CONNECTIONS] [SECONDS]
//!
//! Responders in threads of their own answer; they do nothing but that. Beside the rate: the system
//! calls that a READ took, and how much of its data was copied.

use std::io::{IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nfs_client::nfs3::FileHandle;
use nfs_client::{ConnectOptions, Connection, Connections, Identity, Nfs3};
use nfs_io::{Budget, BufferPool};

const LEN: usize = 1 << 20;
/// Of the reply: mark, RPC header, status, no attributes, count, no end of file, length.
const HEAD_WORDS: usize = 12;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).map(|text| text.parse::<u32>());
    let depth = args.next().unwrap_or(Ok(4))?;
    let connections = args.next().unwrap_or(Ok(1))?;
    let seconds = args.next().unwrap_or(Ok(3))?;
    let address = spawn_responder()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let time = Duration::from_secs(seconds.into());
    runtime.block_on(measure(address, depth, connections, time))
}

async fn measure(
    address: SocketAddr,
    depth: u32,
    connections: u32,
    time: Duration,
) -> Result<(), Box<dyn std::error::Error>> {
    let first = Connection::connect(address.into(), ConnectOptions::default()).await?;
    let connections = Connections::more(first, connections).await;
    let nfs = Nfs3::new(connections, Identity::current());
    let pool = BufferPool::new(Budget::new(u64::from(depth + 1) * (2 << 20)));
    let begin = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..depth {
        let (nfs, pool, file) = (nfs.clone(), pool.clone(), FileHandle::new(b"file")?);
        workers.spawn(async move {
            let mut reads = 0_u64;
            while begin.elapsed() < time {
                let memory = pool.take(LEN).await.expect("the budget is large enough");
                let read = nfs.read_into(&file, 0, memory).await;
                let ok = read.expect("the responder answers").expect("it can");
                assert_eq!(ok.data.len(), LEN);
                reads += 1;
            }
            reads
        });
    }
    let reads: u64 = workers.join_all().await.iter().sum();
    let rate = reads as f64 * LEN as f64 / begin.elapsed().as_secs_f64() / 1e9;
    let stats = nfs.connections().stats();
    let per_read = |count: u64| count as f64 / reads as f64;
    println!(
        "depth {depth}: {rate:.2} GB/s; per READ {:.1} receives, {:.1} sends, {:.0} bytes copied",
        per_read(stats.receives),
        per_read(stats.sends),
        per_read(stats.copied_bytes),
    );
    Ok(())
}

/// Answers every record of every connection with 1 MiB of zeros.
fn spawn_responder() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || respond(stream));
        }
    });
    Ok(address)
}

fn respond(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let data = vec![0; LEN];
    let mut call = [0; 8];
    let mut rest = [0; 4096];
    loop {
        stream.read_exact(&mut call)?;
        let [a, b, c, d, xid @ ..] = call;
        let len = (u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff) as usize;
        stream.read_exact(&mut rest[..len - 4])?;
        let size = LEN as u32;
        let record = (4 * (HEAD_WORDS - 1) + LEN) as u32;
        let xid = u32::from_be_bytes(xid);
        let words: [u32; HEAD_WORDS] = [1 << 31 | record, xid, 1, 0, 0, 0, 0, 0, 0, size, 0, size];
        let head = words.map(u32::to_be_bytes).concat();
        let mut sent = stream.write_vectored(&[IoSlice::new(&head), IoSlice::new(&data)])?;
        sent = sent.saturating_sub(head.len());
        stream.write_all(&data[sent..])?;
    }
}
