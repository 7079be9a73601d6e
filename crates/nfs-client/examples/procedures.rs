//! The procedures, one by one: MNT gives a handle, LOOKUP another, READ the bytes. What a server says is the result's error;
//! what kept it from saying anything is the call's.
//!
//!     cargo run -p nfs-client --example procedures -- HOST:PORT EXPORT NAME
//!
//! HOST:PORT is where both NFS and MOUNT are served, as Penstock does it (`penstock serve DIR` prints it); NAME is a file in
//! the export's root.

use nfs_client::mount3::Mount3;
use nfs_client::{ConnectOptions, Connection, Identity, Nfs3, Target};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [server, export, name] = words.as_slice() else {
        return Err("give HOST:PORT EXPORT NAME".into());
    };
    let (host, port) = server.rsplit_once(':').ok_or("give HOST:PORT")?;
    let target = Target::new(host, port.parse()?);
    let connection = Connection::connect(target, ConnectOptions::default()).await?;

    let mount = Mount3::new(connection.clone(), Identity::current());
    let root = mount.mnt(export.as_bytes()).await?;
    let root = root.map_err(|status| format!("{export}: {status:?}"))?;

    let nfs = Nfs3::new(connection, Identity::current());
    let found = nfs.lookup(&root.fhandle, name.as_bytes()).await?;
    let found = found.map_err(|failure| format!("{name}: {:?}", failure.status))?;
    let mut offset = 0;
    loop {
        let read = nfs.read(&found.object, offset, 64 << 10).await?;
        let read = read.map_err(|failure| format!("{name}: {:?}", failure.status))?;
        offset += read.data.len() as u64;
        // A server may answer in part; only `eof` tells the end, and a READ without data makes no way.
        if read.eof || read.data.is_empty() {
            break;
        }
    }
    println!("{name}: {offset} bytes in {:?}", found.object);
    println!("{:?}", nfs.connection().stats());
    Ok(())
}
