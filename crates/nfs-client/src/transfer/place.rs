//! Places: one side of a copy, and what messages call it.

use std::ffi::OsStr;
use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::client::{Client, MountOptions};
use crate::error::{ClientError, printable};
use crate::url::NfsUrl;

/// One side of a copy: something on this host, or something in an export.
#[derive(Clone, Debug)]
pub enum Place {
    /// A path of this host.
    Local(PathBuf),
    /// A path in an export.
    Remote(Box<Remote>),
    /// Bytes that come or go in order through a descriptor of this process.
    Open(Open),
}

/// A descriptor that is open already, such as standard input. Its bytes come or go once, from where it stands.
#[derive(Clone, Debug)]
pub struct Open {
    /// The descriptor, open for reading as a source and for writing as a destination.
    pub fd: Arc<OwnedFd>,
    /// What messages call it, such as `/dev/stdin`; in a directory, a copy of it gets the last name of it.
    pub name: PathBuf,
}

/// A path in an export.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The client of the mounted export.
    pub client: Client,
    /// The path below the export, bytes.
    pub path: Vec<u8>,
    /// The whole of it, for messages and reports.
    pub url: NfsUrl,
}

impl Place {
    /// A path of this host.
    pub fn local(path: impl Into<PathBuf>) -> Self {
        Self::Local(path.into())
    }

    /// What `url` names; mounts its export.
    pub async fn mount(url: &NfsUrl, options: &MountOptions) -> Result<Self, ClientError> {
        let (client, path) = Client::mount_with(url, options).await?;
        let url = url.clone();
        Ok(Self::Remote(Box::new(Remote { client, path, url })))
    }

    /// The name that messages call the place by.
    pub fn location(&self) -> Location {
        match self {
            Self::Local(path) => Location::Local(path.clone()),
            Self::Remote(remote) => Location::Remote(remote.url.clone()),
            Self::Open(open) => Location::Local(open.name.clone()),
        }
    }

    /// Whether it ends in `/`: then only a directory will do.
    pub(super) fn wants_directory(&self) -> bool {
        let path = match self {
            Self::Local(path) => path.as_os_str().as_bytes(),
            Self::Remote(remote) => &remote.path,
            Self::Open(_) => return false,
        };
        path.ends_with(b"/")
    }
}

/// The name of a place: a path of this host, or an URL. As text, an URL can be given to another
/// command as it is; a path has what a terminal could misread escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A path of this host.
    Local(PathBuf),
    /// An address of an NFS server.
    Remote(NfsUrl),
}

impl Location {
    /// The place `name` in this directory.
    #[must_use]
    pub fn join(&self, name: &[u8]) -> Self {
        match self {
            Self::Local(path) => Self::Local(path.join(OsStr::from_bytes(name))),
            Self::Remote(url) => {
                let mut path = url.path.clone();
                if !path.ends_with(b"/") {
                    path.push(b'/');
                }
                path.extend_from_slice(name);
                Self::Remote(url.with_path(path))
            }
        }
    }

    /// The directory that holds it.
    #[must_use]
    pub(super) fn parent(&self) -> Self {
        match self {
            Self::Local(path) => match path.parent() {
                Some(parent) => Self::Local(parent.to_path_buf()),
                None => self.clone(),
            },
            Self::Remote(url) => {
                let trimmed = url.path.trim_ascii_end();
                let end = trimmed.iter().rposition(|&byte| byte != b'/');
                let cut = trimmed.get(..end.map_or(0, |end| end + 1));
                let cut = cut.unwrap_or_default();
                let at = cut.iter().rposition(|&byte| byte == b'/');
                let parent = cut.get(..=at.unwrap_or(0)).unwrap_or_default();
                Self::Remote(url.with_path(parent))
            }
        }
    }

    /// Its bytes as a path: what a [`crate::File`] calls itself in errors.
    pub(super) fn name(&self) -> Vec<u8> {
        match self {
            Self::Local(path) => path.clone().into_os_string().into_vec(),
            Self::Remote(url) => url.to_string().into_bytes(),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => f.write_str(&shown(path)),
            Self::Remote(url) => url.fmt(f),
        }
    }
}

/// A path of this host for a message: UTF-8 as it is, anything odd escaped.
pub(super) fn shown(path: &Path) -> String {
    match path.to_str() {
        Some(text) if !text.contains(char::is_control) => text.to_owned(),
        _ => printable(path.as_os_str().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_joined_and_cut() {
        let url: NfsUrl = "nfs://host:99/a/b?uid=7".parse().unwrap();
        let remote = Location::Remote(url);
        let inner = remote.join(b"x\n\xff");
        assert_eq!(inner.to_string(), "nfs://host:99/a/b/x%0A%FF?uid=7");
        assert_eq!(inner.parent().to_string(), "nfs://host:99/a/b/?uid=7");
        let local = Location::Local("/t".into());
        assert_eq!(local.join(b"x\n").to_string(), "/t/x\\n");
        assert_eq!(local.join(b"x").parent(), local);
    }
}
