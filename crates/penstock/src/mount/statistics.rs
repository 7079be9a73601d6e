//! What a mount tells about itself while it is there: `penstock stats` reads it.

use std::io;
use std::path::Path;

use nfs_client::{Client, NfsUrl};
use nfs_fuse::FS_TYPE;

use crate::statistics;
use crate::statistics::figures::{About, Mounted};
use crate::statistics::socket::{MountSocket, Telling, name, own_directory};

/// Tells what `client` does, over the socket of the mount on `point`; `None` where a user has no place for such
/// sockets.
///
/// # Errors
/// It cannot be made. The mount is as good without.
pub(super) fn tell(
    client: &Client,
    url: &NfsUrl,
    point: &Path,
    cached: bool,
) -> io::Result<Option<Telling>> {
    let Ok(directory) = own_directory() else {
        return Ok(None);
    };
    // Not asked of the mount itself: its root's attributes are the server's.
    let mounts = nfs_io::mounts::mounts()?;
    let ours =
        |mount: &&nfs_io::mounts::Mount| mount.mount_point == point && mount.fs_type == FS_TYPE;
    let mount = mounts.iter().rfind(ours);
    let mount = mount.ok_or_else(|| io::Error::other("/proc/self/mountinfo does not list it"))?;
    let socket = MountSocket::bind(&directory, &name(mount.dev))?;
    let (major, minor) = mount.dev;
    let about = About {
        url: url.to_string(),
        mount: Some(Mounted {
            dir: point.display().to_string(),
            device: format!("{major}:{minor}"),
            pid: std::process::id(),
            cached,
        }),
    };
    let client = client.clone();
    let told = move || {
        // All of it are numbers and texts.
        serde_json::to_vec(&statistics::of(&client, about.clone())).unwrap_or_default()
    };
    Ok(Some(socket.serve(told)))
}
