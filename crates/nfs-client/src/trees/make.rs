//! Making a directory, and those above it that are missing, as mkdir(1) does.

use nfs_wire::nfs3::{FileHandle, Ftype3, Nfsstat3, Sattr3};

use crate::client::Client;
use crate::error::{ClientError, printable};
use crate::nfs3::Node;
use crate::url::components;

/// The permission bits, 0 to 0o7777, that [`make_dirs`] gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirModes {
    /// The mode of the directory that the path names.
    pub last: u32,
    /// The mode of missing directories above it. Their owner gets the right to write and search in any case:
    /// whoever makes a directory on the way must be able to go on in it.
    pub above: u32,
}

/// Makes the directory `path` and the missing ones above it. Tells `made` the path of each that was
/// made, below the export's root and without a `/` in front. A directory that is there is no error.
///
/// # Errors
/// [`ClientError::InTheWay`] where something else than a directory has one of the names.
pub async fn make_dirs(
    client: &Client,
    path: &[u8],
    modes: DirModes,
    mut made: impl FnMut(&[u8]),
) -> Result<(), ClientError> {
    let names: Vec<&[u8]> = components(path).collect();
    for index in 0..names.len() {
        let upto = names.get(..=index).unwrap_or_default().join(&b'/');
        match client.resolve(&upto).await {
            Ok(node) if node.attributes.ftype == Ftype3::Dir => continue,
            Ok(_) => {
                let path = printable(&upto);
                return Err(ClientError::InTheWay { path });
            }
            Err(error) if error.status() == Some(Nfsstat3::Noent) => {}
            Err(error) => return Err(error),
        }
        let is_last = index + 1 == names.len();
        let mode = if is_last {
            modes.last
        } else {
            modes.above | 0o300
        };
        let (dir, name) = client.parent(&upto).await?;
        match make_dir(client, &dir, name, mode).await {
            Ok(_) => made(&upto),
            // Somebody else made it at the same time.
            Err(error) if error.status() == Some(Nfsstat3::Exist) => {
                let node = client.resolve(&upto).await?;
                if node.attributes.ftype != Ftype3::Dir {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes the directory `name` in `dir` with the permission bits `mode`. Its set-ID and sticky bits may
/// be left out by the server's mkdir(2), so they are set afterwards.
pub async fn make_dir(
    client: &Client,
    dir: &FileHandle,
    name: &[u8],
    mode: u32,
) -> Result<Node, ClientError> {
    let with = |mode| Sattr3 {
        mode: Some(mode),
        ..Sattr3::default()
    };
    let node = client.mkdir_in(dir, name, &with(mode & 0o777)).await?;
    if mode & 0o7000 != 0 {
        client.setattr_handle(&node.handle, &with(mode)).await?;
    }
    Ok(node)
}
