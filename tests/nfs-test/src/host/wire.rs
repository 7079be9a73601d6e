//! Our own NFS client, as the tests use it: it never reconnects, and no call waits for ever.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use nfs_client::mount3::Mount3;
use nfs_client::nfs3::Outcome;
use nfs_client::{ConnectOptions, Connection, Identity, Nfs3, Reconnect, Target};
use nfs_wire::nfs3::FileHandle;

/// How long a call may take before the test calls it a hang.
pub(crate) const CALL_DEADLINE: Duration = Duration::from_secs(60);

/// A connection as root, and the export's root.
///
/// # Errors
/// When the server does not answer, or refuses to mount `/`.
pub(crate) async fn mount(address: SocketAddr) -> Result<(Nfs3, FileHandle)> {
    let nfs = connect(address).await?;
    let root = mount_path(&nfs, "/").await?;
    Ok((nfs, root))
}

/// The root of the export `path`.
///
/// # Errors
/// When the server refuses to mount it.
pub(crate) async fn mount_path(nfs: &Nfs3, path: &str) -> Result<FileHandle> {
    let mount = Mount3::new(nfs.connection().clone(), nfs.identity().clone());
    let root = mount
        .mnt(path.as_bytes())
        .await?
        .map_err(|status| anyhow!("MNT {path}: {status:?}"))?;
    Ok(root.fhandle)
}

/// A connection as root.
///
/// # Errors
/// When the server does not answer.
pub(crate) async fn connect(address: SocketAddr) -> Result<Nfs3> {
    connect_with(address, CALL_DEADLINE).await
}

/// A connection as root on which calls may take as long as `deadline`, also many at once.
///
/// # Errors
/// When the server does not answer.
pub(crate) async fn connect_with(address: SocketAddr, deadline: Duration) -> Result<Nfs3> {
    connect_from(None, address, deadline).await
}

/// Connects as root from the local address `source`, if one is given: to the server, a connection from there
/// is another client. Calls may take as long as `deadline`, also many at once.
///
/// # Errors
/// When the server does not answer.
pub(crate) async fn connect_from(
    source: Option<IpAddr>,
    address: SocketAddr,
    deadline: Duration,
) -> Result<Nfs3> {
    let options = ConnectOptions {
        source,
        // Not to wait in the client: what is tested is the server.
        in_flight_max: 4096,
        call_timeout: deadline,
        reconnect: Reconnect::Never,
        ..ConnectOptions::default()
    };
    let target = Target::new(address.ip().to_string(), address.port());
    let connection = Connection::connect(target, options).await?;
    Ok(Nfs3::new(connection, Identity::sys(0, 0, &[])))
}

/// The results of a call that has to succeed.
///
/// # Errors
/// When it does not.
pub(crate) async fn ok<T, F>(what: &str, call: impl Future<Output = Outcome<T, F>>) -> Result<T> {
    call.await
        .with_context(|| what.to_owned())?
        .map_err(|failure| anyhow!("{what}: {:?}", failure.status))
}

/// Looks up the handle of a path below `root`.
///
/// # Errors
/// When a name is not there.
pub(crate) async fn walk(nfs: &Nfs3, root: &FileHandle, path: &str) -> Result<FileHandle> {
    let mut at = *root;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        at = ok(&format!("LOOKUP {name}"), nfs.lookup(&at, name.as_bytes()))
            .await?
            .object;
    }
    Ok(at)
}

/// Runs `work` to its end on a runtime of this thread.
///
/// # Errors
/// Those of `work`.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tokio::task::LocalSet::new().block_on(&runtime, work)
}
