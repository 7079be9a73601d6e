//! One file moved with the client library and nothing else: a reader that drops what it gets, a writer that gives the
//! same warm buffer again and again.
//!
//! What `penstock cat` and `penstock put` add to it is a pipe or a file at the other end, which plain TCP has not.

use anyhow::{Context, Result};
use bytes::Bytes;
use nfs_client::{Client, Depth, MountOptions, NfsUrl};

/// Length in bytes of the buffer that is written again and again.
const PIECE_BYTES: usize = 1 << 20;

/// One file to move with the client library, and the settings for it.
#[derive(Clone, Debug)]
pub struct Move {
    /// The file on the server.
    pub url: NfsUrl,
    /// Number of bytes to write; `None` reads the whole file instead.
    pub write_bytes: Option<u64>,
    /// Fixed depth of the READ and the WRITE window; `None` lets the client find it.
    pub window: Option<u32>,
    /// Largest READ or WRITE in bytes; `None` takes the client's default.
    pub transfer: Option<u32>,
}

/// Moves the file; returns the number of payload bytes.
///
/// # Errors
/// Those of the client.
pub fn run(job: &Move) -> Result<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")?;
    runtime.block_on(async {
        let mut options = MountOptions::default();
        if let Some(window) = job.window {
            options.windows.read = Depth::Fixed(window);
            options.windows.write = Depth::Fixed(window);
        }
        if let Some(transfer) = job.transfer {
            options.windows.transfer_bytes_max = transfer;
        }
        let (client, path) = Client::mount_with(&job.url, &options).await?;
        match job.write_bytes {
            Some(bytes) => write(&client, &path, bytes).await,
            None => read(&client, &path).await,
        }
    })
}

async fn read(client: &Client, path: &[u8]) -> Result<u64> {
    let file = client.open(path).await?;
    let mut stream = file.stream(0);
    let mut bytes = 0;
    while let Some(data) = stream.next().await? {
        bytes += data.len() as u64;
    }
    Ok(bytes)
}

async fn write(client: &Client, path: &[u8], bytes: u64) -> Result<u64> {
    let file = client.create(path, 0o644).await?;
    let warm = Bytes::from(vec![0x5a; PIECE_BYTES]);
    let mut offset = 0;
    while offset < bytes {
        let part = usize::try_from((bytes - offset).min(warm.len() as u64))?;
        file.write_at(offset, warm.slice(..part)).await?;
        offset += part as u64;
    }
    file.close().await?;
    Ok(offset)
}
