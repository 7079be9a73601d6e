//! From a URL to a mounted export.

use std::sync::Arc;

use nfs_wire::mount3::Mountstat3;
use nfs_wire::nfs3::FileHandle;

use super::Client;
use crate::connection::{ConnectOptions, Connection, Connections, Reconnect, SourcePort, Target};
use crate::error::{ClientError, Listed, RpcError, printable};
use crate::file::{Files, TransferSizes, Windows};
use crate::hint::Hint;
use crate::identity::Identity;
use crate::limits::{
    EXPORTS_TOLD_MAX, MOUNT_PATH_BYTES_MAX, READ_BYTES_MAX, READDIR_BYTES, SOFT_TIMEOUT_DEFAULT,
    TRANSFER_BYTES_MAX, TRANSFER_BYTES_MIN,
};
use crate::mount3::{self, Mount3};
use crate::nfs::{Nfs, V4};
use crate::nfs3::{self, Nfs3};
use crate::nfs4::Nfs4;
use crate::portmap::{self, Portmap};
use crate::url::{NFS_PORT, NfsUrl, Version, components};

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
    /// What is said of each file as it is opened, unless the URL says so.
    pub hint: Hint,
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
            hint: Hint::Normal,
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

    /// Mounts the export that holds the URL's path as `options` say, where the URL says nothing else;
    /// see [`Self::mount`].
    pub async fn mount_with(
        url: &NfsUrl,
        options: &MountOptions,
    ) -> Result<(Self, Vec<u8>), ClientError> {
        if url.version != Version::V3 {
            return Self::mount_v4(url, options).await;
        }
        let identity = identity_of(url, options);
        let connection = connect_nfs(url, &options.connect).await?;
        let mount = connect_mount(url, &connection, &identity).await?;
        let (export, root) = find_export(&mount, &url.path).await?;
        let hint = url.hint.unwrap_or(options.hint);
        let nconnect = url.nconnect.map_or(options.nconnect, u32::from);
        let mut nfs = Nfs3::new(Connections::more(connection, nconnect).await, identity);
        if url.read_only {
            nfs = nfs.read_only();
        }
        let nfs = Nfs::from(nfs);
        let most = asked_sizes(url, largest(options.windows));
        let transfer = transfer_sizes(&nfs, &root, most).await?;
        let rest = rest_below(&url.path, &export).unwrap_or_default();
        Ok((
            Self {
                nfs,
                mount: Some(mount),
                export,
                root,
                files: Arc::new(Files::new(transfer, options.windows).hinted(hint)),
            },
            rest,
        ))
    }

    /// Begins a session of NFSv4. All of the server's name space is one export, and the rest is the whole path.
    async fn mount_v4(
        url: &NfsUrl,
        options: &MountOptions,
    ) -> Result<(Self, Vec<u8>), ClientError> {
        let session = Nfs4::of_url(url, options).await?;
        let nfs = V4::new(session, url.read_only);
        let root = nfs.root().await?;
        let nfs = Nfs::V4(nfs);
        let most = asked_sizes(url, largest(options.windows));
        let transfer = transfer_sizes(&nfs, &root, most).await?;
        let hint = url.hint.unwrap_or(options.hint);
        let export = b"/".to_vec();
        let rest = rest_below(&url.path, &export).unwrap_or_default();
        Ok((
            Self {
                nfs,
                mount: None,
                export,
                root,
                files: Arc::new(Files::new(transfer, options.windows).hinted(hint)),
            },
            rest,
        ))
    }

    /// Uses a connection and a root handle that are there already. `mount` is told of the end
    /// ([`Self::unmount`]); NFSv4 has none.
    pub async fn from_root(
        nfs: impl Into<Nfs>,
        mount: impl Into<Option<Mount3>>,
        root: FileHandle,
    ) -> Result<Self, ClientError> {
        let windows = Windows::default();
        let nfs = nfs.into();
        let transfer = transfer_sizes(&nfs, &root, largest(windows)).await?;
        Ok(Self {
            nfs,
            mount: mount.into(),
            export: b"/".to_vec(),
            root,
            files: Arc::new(Files::new(transfer, windows)),
        })
    }
}

/// Who the calls are made as.
pub(super) fn identity_of(url: &NfsUrl, options: &MountOptions) -> Identity {
    match (url.uid, url.gid) {
        (None, None) => options.identity.clone(),
        (uid, gid) => Identity::sys(uid.unwrap_or(0), gid.unwrap_or(uid.unwrap_or(0)), &[]),
    }
}

/// How connections are made, with what the URL says about it.
pub(super) fn connect_options(url: &NfsUrl, options: &ConnectOptions) -> ConnectOptions {
    let mut options = options.clone();
    options.retry_after = url.retry_after.unwrap_or(options.retry_after);
    options.reconnect = url.reconnect.unwrap_or(options.reconnect);
    if url.reconnect == Some(Reconnect::ForNewCalls) {
        options.call_timeout = url.retry_after.unwrap_or(SOFT_TIMEOUT_DEFAULT);
    }
    options.call_timeout = url.call_timeout.unwrap_or(options.call_timeout);
    options.interface = url.interface.clone().or(options.interface);
    options
}

/// Connects to NFS, with what the URL says about it.
pub(super) async fn connect_nfs(
    url: &NfsUrl,
    options: &ConnectOptions,
) -> Result<Connection, ClientError> {
    let options = &connect_options(url, options);
    let target = Target::new(url.host.as_str(), url.nfs_port());
    let failure = match Connection::connect(target.clone(), options.clone()).await {
        Ok(connection) => return Ok(connection),
        Err(error) if url.port.is_some() => return Err(error.into()),
        Err(error) => error,
    };
    // Nothing on 2049, and no port given: the portmapper may know. If there is none either, the first
    // failure is the one to tell.
    match registered_port(
        &target,
        options,
        nfs3::PROGRAM,
        url.version.program_version(),
    )
    .await
    {
        Ok(Some(port)) if port != NFS_PORT => {
            Ok(Connection::connect(target.with_port(port), options.clone()).await?)
        }
        _ => Err(failure.into()),
    }
}

async fn connect_mount(
    url: &NfsUrl,
    nfs: &Connection,
    identity: &Identity,
) -> Result<Mount3, ClientError> {
    let (target, options) = (nfs.target(), nfs.options());
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
    let (exports, unlisted) = match mount.export().await {
        Ok(exports) => (exports, Listed::No),
        Err(RpcError::Timeout { after }) => return Err(RpcError::Timeout { after }.into()),
        Err(_) => (Vec::new(), Listed::Unknown),
    };
    let source_port = mount.connection().source_port();
    let directories = exports.into_iter().map(|export| export.directory);
    let directories: Vec<Vec<u8>> = directories.collect();
    let longest = directories
        .iter()
        .filter(|directory| rest_below(path, directory).is_some())
        .max_by_key(|directory| components(directory).count());
    if let Some(directory) = longest {
        return match mount.mnt(directory).await? {
            Ok(ok) => Ok((directory.clone(), ok.fhandle)),
            Err(status) => Err(ClientError::Mount {
                path: printable(directory),
                status,
                listed: Listed::Yes,
                source_port,
                exports: Vec::new(),
            }),
        };
    }
    let names: Vec<&[u8]> = components(path).collect();
    let mut first_refusal = None;
    for count in (0..=names.len()).rev() {
        let names = names.get(..count).unwrap_or_default();
        let directory = [b"/", names.join(&b'/').as_slice()].concat();
        if directory.len() > MOUNT_PATH_BYTES_MAX {
            continue;
        }
        match mount.mnt(&directory).await? {
            Ok(ok) => return Ok((directory, ok.fhandle)),
            Err(status) => first_refusal.get_or_insert(status),
        };
    }
    let status = first_refusal.unwrap_or(Mountstat3::Noent);
    Err(ClientError::Mount {
        path: printable(path),
        status,
        listed: unlisted,
        source_port,
        exports: told(&directories),
    })
}

/// The exports that an error names.
fn told(directories: &[Vec<u8>]) -> Vec<String> {
    let first = directories.iter().take(EXPORTS_TOLD_MAX);
    let mut told: Vec<String> = first.map(|directory| printable(directory)).collect();
    if let Some(more) = directories
        .len()
        .checked_sub(EXPORTS_TOLD_MAX)
        .filter(|more| *more > 0)
    {
        told.push(format!("and {more} more"));
    }
    told
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

/// The largest transfers that the windows allow.
fn largest(windows: Windows) -> TransferSizes {
    TransferSizes {
        read: windows.transfer_bytes_max,
        read_max: windows.transfer_bytes_max,
        write: windows.transfer_bytes_max,
        directory: READDIR_BYTES,
    }
}

/// The sizes to use at most, bytes: `most`, or what the URL asks for below that.
fn asked_sizes(url: &NfsUrl, most: TransferSizes) -> TransferSizes {
    let or = |asked: Option<u32>, most: u32| asked.map_or(most, |asked| asked.min(most));
    TransferSizes {
        read: or(url.read_bytes, most.read),
        read_max: or(url.read_bytes, most.read_max),
        write: or(url.write_bytes, most.write),
        directory: or(url.directory_bytes, most.directory),
    }
}

async fn transfer_sizes(
    nfs: &Nfs,
    root: &FileHandle,
    most: TransferSizes,
) -> Result<TransferSizes, ClientError> {
    let most = TransferSizes {
        read: most.read.clamp(1, TRANSFER_BYTES_MAX),
        read_max: most.read_max.clamp(1, READ_BYTES_MAX),
        write: most.write.clamp(1, TRANSFER_BYTES_MAX),
        directory: most.directory,
    };
    Ok(match nfs.fsinfo(root).await? {
        Ok(info) => TransferSizes {
            read: transfer_size(info.rtpref, info.rtmax, most.read),
            read_max: transfer_size(info.rtmax, info.rtmax, most.read_max),
            write: transfer_size(info.wtpref, info.wtmax, most.write),
            directory: most.directory,
        },
        // Whatever it is that the server has against FSINFO, these sizes every server takes.
        Err(_) => TransferSizes {
            read: most.read.min(8192),
            read_max: most.read.min(8192),
            write: most.write.min(8192),
            directory: most.directory.min(8192),
        },
    })
}

/// Bytes per READ or WRITE: what the server prefers, within its maximum and ours, which may be less than
/// the server is believed.
fn transfer_size(preferred: u32, max: u32, most: u32) -> u32 {
    let said = match (preferred, max) {
        (0, 0) => 4096,
        (0, max) => max,
        // A server's zero maximum is not believed.
        (preferred, 0) => preferred,
        (preferred, max) => preferred.min(max),
    };
    said.max(TRANSFER_BYTES_MIN).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options_of(text: &str) -> ConnectOptions {
        connect_options(&text.parse().unwrap(), &ConnectOptions::default())
    }

    #[test]
    fn the_url_s_times_are_used() {
        let times = |options: &ConnectOptions| {
            let (retry, call) = (options.retry_after, options.call_timeout);
            (options.reconnect, retry.as_millis(), call.as_secs())
        };
        let resend = Reconnect::Resend;
        let table = [
            ("nfs://h/", (resend, 15_000, 300)),
            ("nfs://h/?timeo=25", (resend, 2_500, 300)),
            ("nfs://h/?timeout=7", (resend, 15_000, 7)),
            ("nfs://h/?retrans=5", (resend, 15_000, 300)),
            ("nfs://h/?retrans=0", (Reconnect::ForNewCalls, 15_000, 60)),
            (
                "nfs://h/?retrans=0&timeo=20",
                (Reconnect::ForNewCalls, 2_000, 2),
            ),
            (
                "nfs://h/?retrans=0&timeout=9",
                (Reconnect::ForNewCalls, 15_000, 9),
            ),
            ("nfs://h/?autoreconnect=0", (Reconnect::Never, 15_000, 300)),
        ];
        for (text, expected) in table {
            assert_eq!(times(&options_of(text)), expected, "{text}");
        }
        assert_eq!(
            options_of("nfs://h/?if=lo").interface.as_deref(),
            Some("lo")
        );
    }

    #[test]
    fn sizes() {
        let table = [
            // Preferred, maximum, ours: what is used.
            (65536, 1 << 20, 1 << 20, 65536),
            (1 << 20, 1 << 20, 4096, 4096),
            (1 << 20, 65536, 1 << 20, 65536),
            (0, 65536, 1 << 20, 65536),
            (65536, 0, 1 << 20, 65536),
            (0, 0, 1 << 20, 4096),
            (u32::MAX, u32::MAX, 1 << 20, 1 << 20),
            // A server that takes next to nothing is not believed; what this side asks for is.
            (1, 7, 1 << 20, 1024),
            (0, 1, 1 << 20, 1024),
            (512, 1 << 20, 1 << 20, 1024),
            (1 << 20, 1 << 20, 100, 100),
        ];
        for (preferred, max, most, expected) in table {
            let case = format!("{preferred} {max} {most}");
            assert_eq!(transfer_size(preferred, max, most), expected, "{case}");
        }
        let most = TransferSizes {
            read: 1 << 20,
            read_max: 1 << 20,
            write: 1 << 20,
            directory: 65536,
        };
        let url = "nfs://h/?rsize=4096&wsize=9999999&readdir-buffer=512";
        let asked = asked_sizes(&url.parse().unwrap(), most);
        let expected = TransferSizes {
            read: 4096,
            read_max: 4096,
            write: 1 << 20,
            directory: 512,
        };
        assert_eq!(asked, expected);
    }

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
