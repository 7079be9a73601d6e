//! Something in a directory of either side.

use nfs_wire::nfs3::{Fattr3, FileHandle, Ftype3};

use crate::nfs3::Node;

/// One entry of a directory, with its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) name: Vec<u8>,
    pub(super) attributes: Fattr3,
    /// On a server, what it is known by.
    pub(super) handle: Option<FileHandle>,
    /// On this host, the name may be a symbolic link's, which is followed.
    pub(super) follow: bool,
    /// On this host, it has times that NFSv3 cannot say: `attributes` has the nearest.
    pub(super) times_cut: bool,
}

impl Item {
    pub(super) fn node(&self) -> Option<Node> {
        self.handle.map(|handle| Node {
            handle,
            attributes: self.attributes,
        })
    }

    pub(super) fn of(name: &[u8], node: Node) -> Self {
        Self {
            name: name.to_vec(),
            attributes: node.attributes,
            handle: Some(node.handle),
            follow: false,
            times_cut: false,
        }
    }
}

/// The word for a file type.
pub(super) fn type_name(ftype: Ftype3) -> &'static str {
    match ftype {
        Ftype3::Reg => "regular file",
        Ftype3::Dir => "directory",
        Ftype3::Lnk => "symbolic link",
        Ftype3::Blk => "block device",
        Ftype3::Chr => "character device",
        Ftype3::Sock => "socket",
        Ftype3::Fifo => "fifo",
    }
}
