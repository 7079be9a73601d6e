//! A file by its URL: written, brought to stable storage, read back, and the directory that it is in.
//!
//!     cargo run -p nfs-client --example file -- nfs://HOST[:PORT]/EXPORT/NEW-FILE
//!
//! A server to try it on: `penstock serve DIR`, which prints its URL.

use nfs_client::{Client, NfsUrl};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url: NfsUrl = std::env::args().nth(1).ok_or("give a URL")?.parse()?;
    // The export is found in the server's list; what is left of the URL's path is below it.
    let (client, path) = Client::mount(&url).await?;

    let file = client.create_new(&path, 0o644).await?;
    for number in 0..1000 {
        // Taken over at once and sent behind: many of these become one WRITE.
        file.append(format!("line {number}\n")).await?;
    }
    // `sync` and `close` tell whether what was written is safe; nothing else does.
    file.sync().await?;
    println!("{} bytes are on stable storage", file.committed());

    let mut lines = 0;
    let mut stream = file.stream(0);
    while let Some(data) = stream.next().await? {
        lines += data.iter().filter(|&&byte| byte == b'\n').count();
    }
    println!("{lines} lines came back");
    file.close().await?;

    let (dir, name) = client.parent(&path).await?;
    for entry in client.read_dir(&dir, true).await? {
        let size = entry.attributes.map(|attributes| attributes.size);
        let own = if entry.name == name {
            " <- this one"
        } else {
            ""
        };
        println!("{:?} {size:?}{own}", String::from_utf8_lossy(&entry.name));
    }
    client.remove(&path).await?;
    client.unmount().await?;
    Ok(())
}
