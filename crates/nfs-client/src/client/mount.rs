//! From a URL to a mounted export.

use std::sync::Arc;

use nfs_wire::mount3::Mountstat3;
use nfs_wire::nfs3::FileHandle;

use super::error::printable;
use super::{Client, ClientError, TransferSizes};
use crate::connection::{ConnectOptions, Connection, Connections, SourcePort, Target};
use crate::error::RpcError;
use crate::file::{Memory, Windows};
use crate::identity::Identity;
use crate::limits::{READDIR_BYTES, TRANSFER_BYTES_MAX};
use crate::mount3::{self, Mount3};
use crate::nfs3::{self, Nfs3};
use crate::portmap::{self, Portmap};
use crate::url::{NFS_PORT, NfsUrl, components};

/// How an export is mounted.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// How connections are made. The default comes from a port below 1024 where this process may,
    /// because servers may ask for one.
    pub connect: ConnectOptions,
    /// Who the calls are made as, unless the URL says so. The default is this process.
    pub identity: Identity,
    /// Connections to the server, 1 to [`crate::limits::NCONNECT_MAX`], unless the URL says so.
    pub nconnect: u32,
    /// How much may be on its way.
    pub windows: Windows,
}

impl Default for MountOptions {
    fn default() -> Self {
        let source_port = SourcePort::PrivilegedIfAllowed;
        let connect = ConnectOptions {
            source_port,
            ..ConnectOptions::default()
        };
        Self {
            connect,
            identity: Identity::current(),
            nconnect: 1,
            windows: Windows::default(),
        }
    }
}

impl Client {
    /// Mounts the export that holds the URL's path, as this process or as the URL's `uid` and `gid`.
    /// Returns the client and the rest of the path, below the export.
    ///
    /// The export is the longest one of the server's list (EXPORT) that the path begins with; if none
    /// does, the path itself and then the directories above it are tried.
    pub async fn mount(url: &NfsUrl) -> Result<(Self, Vec<u8>), ClientError> {
        Self::mount_with(url, &MountOptions::default()).await
    }

    /// As [`Self::mount`], with options.
    pub async fn mount_with(
        url: &NfsUrl,
        options: &MountOptions,
    ) -> Result<(Self, Vec<u8>), ClientError> {
        let identity = match (url.uid, url.gid) {
            (None, None) => options.identity.clone(),
            (uid, gid) => Identity::sys(uid.unwrap_or(0), gid.unwrap_or(uid.unwrap_or(0)), &[]),
        };
        let connection = connect_nfs(url, &options.connect).await?;
        let mount = connect_mount(url, &options.connect, &connection, &identity).await?;
        let (export, root) = find_export(&mount, &url.path).await?;
        let nconnect = url.nconnect.map_or(options.nconnect, u32::from);
        let nfs = Nfs3::new(Connections::more(connection, nconnect).await, identity);
        let transfer = transfer_sizes(&nfs, &root).await?;
        let rest = rest_below(&url.path, &export).unwrap_or_default();
        Ok((
            Self {
                nfs,
                mount,
                export,
                root,
                transfer,
                windows: options.windows,
                memory: Memory::new(options.windows.memory_bytes_max),
                open_files: Arc::default(),
            },
            rest,
        ))
    }

    /// Uses a connection and a root handle that are there already.
    pub async fn from_root(
        nfs: Nfs3,
        mount: Mount3,
        root: FileHandle,
    ) -> Result<Self, ClientError> {
        let transfer = transfer_sizes(&nfs, &root).await?;
        let windows = Windows::default();
        Ok(Self {
            nfs,
            mount,
            export: b"/".to_vec(),
            root,
            transfer,
            windows,
            memory: Memory::new(windows.memory_bytes_max),
            open_files: Arc::default(),
        })
    }
}

pub(super) async fn connect_nfs(
    url: &NfsUrl,
    options: &ConnectOptions,
) -> Result<Connection, ClientError> {
    let target = Target::new(url.host.as_str(), url.nfs_port());
    let failure = match Connection::connect(target.clone(), options.clone()).await {
        Ok(connection) => return Ok(connection),
        Err(error) if url.port.is_some() => return Err(error.into()),
        Err(error) => error,
    };
    // Nothing on 2049, and no port given: the portmapper may know. If there is none either, the first
    // failure is the one to tell.
    match registered_port(&target, options, nfs3::PROGRAM, nfs3::VERSION).await {
        Ok(Some(port)) if port != NFS_PORT => {
            Ok(Connection::connect(target.with_port(port), options.clone()).await?)
        }
        _ => Err(failure.into()),
    }
}

async fn connect_mount(
    url: &NfsUrl,
    options: &ConnectOptions,
    nfs: &Connection,
    identity: &Identity,
) -> Result<Mount3, ClientError> {
    let target = nfs.target();
    let connect = async |port| {
        let connection = Connection::connect(target.with_port(port), options.clone()).await?;
        Ok::<_, ClientError>(Mount3::new(connection, identity.clone()))
    };
    if let Some(port) = url.mount_port {
        return connect(port).await;
    }
    let mount = Mount3::new(nfs.clone(), identity.clone());
    match mount.null().await {
        Ok(()) => return Ok(mount),
        Err(RpcError::ProgUnavail { .. } | RpcError::ProgMismatch { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    match registered_port(target, options, mount3::PROGRAM, mount3::VERSION).await? {
        Some(port) => connect(port).await,
        None => Err(ClientError::NotRegistered { program: "MOUNT" }),
    }
}

pub(super) async fn registered_port(
    target: &Target,
    options: &ConnectOptions,
    program: u32,
    version: u32,
) -> Result<Option<u16>, RpcError> {
    let options = ConnectOptions {
        source_port: SourcePort::Any,
        ..options.clone()
    };
    let portmap = Portmap::connect(target.with_port(portmap::PORT), options).await?;
    portmap.getport(program, version).await
}

/// The path to mount for `path`, and the handle of its root.
async fn find_export(mount: &Mount3, path: &[u8]) -> Result<(Vec<u8>, FileHandle), ClientError> {
    // A server may hide its list; then the path tells.
    let exports = match mount.export().await {
        Ok(exports) => exports,
        Err(RpcError::Timeout { after }) => return Err(RpcError::Timeout { after }.into()),
        Err(_) => Vec::new(),
    };
    let longest = exports
        .into_iter()
        .map(|export| export.directory)
        .filter(|directory| rest_below(path, directory).is_some())
        .max_by_key(|directory| components(directory).count());
    if let Some(directory) = longest {
        return match mount.mnt(&directory).await? {
            Ok(ok) => Ok((directory, ok.fhandle)),
            Err(status) => Err(ClientError::Mount {
                path: printable(&directory),
                status,
            }),
        };
    }
    let names: Vec<&[u8]> = components(path).collect();
    let mut first_refusal = None;
    for count in (0..=names.len()).rev() {
        let names = names.get(..count).unwrap_or_default();
        let directory = [b"/", names.join(&b'/').as_slice()].concat();
        match mount.mnt(&directory).await? {
            Ok(ok) => return Ok((directory, ok.fhandle)),
            Err(status) => first_refusal.get_or_insert(status),
        };
    }
    let status = first_refusal.unwrap_or(Mountstat3::Noent);
    Err(ClientError::Mount {
        path: printable(path),
        status,
    })
}

/// What is left of `path` below `directory`; a trailing slash is kept.
pub(super) fn rest_below(path: &[u8], directory: &[u8]) -> Option<Vec<u8>> {
    let mut names = components(path);
    for expected in components(directory) {
        if names.next() != Some(expected) {
            return None;
        }
    }
    let mut rest = names.collect::<Vec<_>>().join(&b'/');
    if !rest.is_empty() && path.ends_with(b"/") {
        rest.push(b'/');
    }
    Some(rest)
}

async fn transfer_sizes(nfs: &Nfs3, root: &FileHandle) -> Result<TransferSizes, ClientError> {
    let capped = |preferred: u32, max: u32| match (preferred, max) {
        (0, 0) => 4096,
        (0, max) => max.min(TRANSFER_BYTES_MAX),
        // A server's zero maximum is not believed.
        (preferred, 0) => preferred.min(TRANSFER_BYTES_MAX),
        (preferred, max) => preferred.min(max).min(TRANSFER_BYTES_MAX),
    };
    Ok(match nfs.fsinfo(root).await? {
        Ok(info) => TransferSizes {
            read: capped(info.rtpref, info.rtmax),
            write: capped(info.wtpref, info.wtmax),
            directory: READDIR_BYTES,
        },
        // Whatever it is that the server has against FSINFO, these sizes every server takes.
        Err(_) => TransferSizes {
            read: 8192,
            write: 8192,
            directory: 8192,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests() {
        let rest = |path: &str, directory: &str| {
            rest_below(path.as_bytes(), directory.as_bytes())
                .map(|rest| String::from_utf8(rest).unwrap())
        };
        assert_eq!(rest("/a/b/c", "/a").as_deref(), Some("b/c"));
        assert_eq!(rest("/a/b/", "/").as_deref(), Some("a/b/"));
        assert_eq!(rest("/a/", "/a").as_deref(), Some(""));
        assert_eq!(rest("//a/./b", "/a/").as_deref(), Some("b"));
        assert_eq!(rest("/ab", "/a"), None);
        assert_eq!(rest("/", "/a"), None);
    }
}
