//! Writes a file over NFSv4.1, reads it back and lists the directory.
//!
//!     cargo run -p nfs-client --example nfs4 -- HOST[:PORT] [DIRECTORY]

use nfs_client::nfs4::{MinorVersion, Nfs4, OpenHow, StableHow4};
use nfs_client::{ConnectOptions, Connection, Identity, Target};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let host = words.next().ok_or("which host?")?;
    let path = words.next().unwrap_or_default();
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) => (host.to_owned(), port.parse()?),
        None => (host, 2049),
    };
    let connection =
        Connection::connect(Target::new(host, port), ConnectOptions::default()).await?;
    let nfs = Nfs4::begin(connection, Identity::current(), MinorVersion::V1).await?;
    println!("up to {} bytes at once", nfs.data_bytes_max());

    let directory = nfs.walk(&nfs.root().await?, path.as_bytes()).await?.handle;
    let how = OpenHow::Write {
        mode: 0o644,
        truncate: true,
    };
    let file = nfs.open(&directory, b"hello", how).await?;
    let data = b"written over NFSv4.1\n";
    let written = nfs.write(&file, 0, StableHow4::Unstable, data).await?;
    assert_eq!(
        written.verifier,
        nfs.commit(&file).await?,
        "the data is stable"
    );
    let read = nfs.read(&file, 0, 1000).await?;
    print!("{}", read.data.escape_ascii());
    nfs.close(file).await?;

    for entry in nfs.list(&directory).await? {
        let size = entry.stat.map_or(0, |stat| stat.size);
        println!("{size:12} {}", entry.name.escape_ascii());
    }
    nfs.end().await?;
    Ok(())
}
