//! NFSv4: from a URL to a session, and from a path to an object.

use std::collections::VecDeque;

use nfs_wire::nfs3::{Fattr3, Ftype3, Nfstime3, Specdata3};
use nfs_wire::nfs4::{Ftype4, Nfstime4};

use super::MountOptions;
use super::mount::{connect_nfs, identity_of};
use crate::connection::Connections;
use crate::error::{ClientError, printable};
use crate::limits::{SYMLINKS_MAX, WALK_NAMES_MAX};
use crate::nfs4::{MinorVersion, Nfs4, Node4, Stat4};
use crate::url::{NfsUrl, components};

/// The owner that is told where a server names one by another word than a number.
const NOBODY: u32 = 65_534;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found4 {
    /// The directory that it is in; the root where the root itself was asked for.
    pub dir: Node4,
    /// Its name in that directory; empty for the root.
    pub name: Vec<u8>,
    /// The object.
    pub node: Node4,
}

impl Nfs4 {
    /// Begins a session with a URL's server, as this process or as the URL's `uid` and `gid`, of the minor version
    /// that the URL names; of 4.1 where it names NFSv3.
    ///
    /// # Errors
    /// [`ClientError::Rpc`] where nobody answers, and [`ClientError::Nfs4`] where the server does not have the version.
    pub async fn of_url(url: &NfsUrl, options: &MountOptions) -> Result<Self, ClientError> {
        let minor = url.version.minor().unwrap_or(MinorVersion::V1);
        let connection = connect_nfs(url, &options.connect).await?;
        let nconnect = url.nconnect.map_or(options.nconnect, u32::from);
        let connections = Connections::more(connection, nconnect).await;
        let begun = Self::begin(connections, identity_of(url, options), minor).await;
        Ok(begun?)
    }

    /// What a path of the server's name space leads to; symbolic links are followed, that in the last place only
    /// if `follow_last`. Absolute links are taken as paths of that name space; `..` at the root stays there.
    ///
    /// # Errors
    /// [`ClientError::Nfs4`], [`ClientError::SymlinkLoop`] and [`ClientError::TooManyNames`].
    pub async fn find(&self, path: &[u8], follow_last: bool) -> Result<Found4, ClientError> {
        let root = self.root().await?;
        let mut todo: VecDeque<Vec<u8>> = components(path).map(<[u8]>::to_vec).collect();
        // The objects passed, below the root, with their names.
        let mut passed: Vec<(Vec<u8>, Node4)> = Vec::new();
        let mut links = 0;
        while let Some(name) = todo.pop_front() {
            if name == b".." {
                passed.pop();
                continue;
            }
            let dir = passed.last().map_or(&root, |(_, node)| node);
            let node = self.walk(dir, &name).await?;
            if node.stat.ftype != Ftype4::Lnk || (todo.is_empty() && !follow_last) {
                passed.push((name, node));
                continue;
            }
            links += 1;
            if links > SYMLINKS_MAX {
                let path = printable(path);
                return Err(ClientError::SymlinkLoop { path });
            }
            let target = self.readlink(&node.handle).await?;
            if target.starts_with(b"/") {
                passed.clear();
            }
            let names: Vec<&[u8]> = components(&target).collect();
            if names.len() + todo.len() > WALK_NAMES_MAX {
                let path = printable(path);
                return Err(ClientError::TooManyNames { path });
            }
            for name in names.into_iter().rev() {
                todo.push_front(name.to_vec());
            }
        }
        let (name, node) = passed.pop().unwrap_or_else(|| (Vec::new(), root.clone()));
        let dir = passed.pop().map_or(root, |(_, dir)| dir);
        Ok(Found4 { dir, name, node })
    }
}

impl Stat4 {
    /// The attributes in NFSv3's words. Owners that are no numbers become 65534, times before 1970 and after 2106 the
    /// nearest that there is; the numbers of a device are not known.
    #[must_use]
    pub fn as_nfs3(&self) -> Fattr3 {
        Fattr3 {
            ftype: kind(self.ftype),
            mode: self.mode,
            nlink: self.numlinks,
            uid: number(&self.owner),
            gid: number(&self.owner_group),
            size: self.size,
            used: self.space_used,
            rdev: Specdata3::default(),
            fsid: self.fsid.major ^ self.fsid.minor.rotate_left(32),
            fileid: self.fileid,
            atime: time(self.time_access),
            mtime: time(self.time_modify),
            ctime: time(self.time_metadata),
        }
    }
}

fn kind(ftype: Ftype4) -> Ftype3 {
    match ftype {
        Ftype4::Reg | Ftype4::NamedAttr => Ftype3::Reg,
        Ftype4::Dir | Ftype4::AttrDir => Ftype3::Dir,
        Ftype4::Blk => Ftype3::Blk,
        Ftype4::Chr => Ftype3::Chr,
        Ftype4::Lnk => Ftype3::Lnk,
        Ftype4::Sock => Ftype3::Sock,
        Ftype4::Fifo => Ftype3::Fifo,
    }
}

fn number(owner: &[u8]) -> u32 {
    let text = std::str::from_utf8(owner).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(NOBODY)
}

fn time(time: Nfstime4) -> Nfstime3 {
    let nearest = if time.seconds < 0 { 0 } else { u32::MAX };
    Nfstime3 {
        seconds: u32::try_from(time.seconds).unwrap_or(nearest),
        nseconds: time.nseconds,
    }
}
