//! What the client commands do over NFSv4.1 and 4.2: list, write out, and copy one file. Each operand has a session
//! of its own, which ends with it.

use nfs_client::client::Found4;
use nfs_client::nfs4::{Entry4, Node4, OpenFile4, OpenHow, ReadStream4};
use nfs_client::{ClientError, MountOptions, Nfs4, NfsUrl};

/// Begins a session with the URL's server, does `work` in it, and ends it.
pub(crate) async fn in_session<T>(
    url: &NfsUrl,
    options: &MountOptions,
    work: impl AsyncFnOnce(&Nfs4) -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let nfs = Nfs4::of_url(url, options).await?;
    let outcome = work(&nfs).await;
    // What cannot be ended now ends with the client's lease.
    let _ended_later = nfs.end().await;
    outcome
}

/// Whether the URL asks for NFSv4.
pub(crate) fn is_v4(url: &NfsUrl) -> bool {
    url.version.minor().is_some()
}

/// Opens the regular file that the URL's path leads to, to be read.
pub(crate) async fn open(nfs: &Nfs4, url: &NfsUrl) -> Result<OpenFile4, ClientError> {
    let found = nfs.find(&url.path, true).await?;
    a_file(&found, url)?;
    Ok(nfs
        .open(&found.dir.handle, &found.name, OpenHow::Read)
        .await?)
}

/// The bytes of an open file from `start` up to `end` in order, with READs as large as the user allows.
pub(crate) fn stream(
    nfs: &Nfs4,
    url: &NfsUrl,
    options: &MountOptions,
    file: &OpenFile4,
    (start, end): (u64, u64),
) -> ReadStream4 {
    let most = options.windows.transfer_bytes_max;
    let count = url.read_bytes.map_or(most, |bytes| bytes.min(most));
    nfs.stream(file, start, end, count)
}

fn a_file(found: &Found4, url: &NfsUrl) -> Result<(), ClientError> {
    use nfs_client::nfs3::Ftype3;
    match found.node.stat.as_nfs3().ftype {
        Ftype3::Reg => Ok(()),
        other => Err(ClientError::NotAFile {
            path: url.to_string(),
            what: crate::show::type_name(other),
        }),
    }
}

/// What a symbolic link in a directory holds. One that is gone meanwhile holds nothing.
pub(crate) async fn target(nfs: &Nfs4, dir: &Node4, entry: &Entry4) -> Option<Vec<u8>> {
    let node = nfs.walk(dir, &entry.name).await.ok()?;
    nfs.readlink(&node.handle).await.ok()
}
