//! Stand-in for the credentials of `nfs-io`.
use std::sync::Arc;

/// A user id of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalUid(pub u32);

/// A group id of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalGid(pub u32);

/// Whom a file operation runs as.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Creds {
    /// File system user id.
    pub uid: LocalUid,
    /// File system group id.
    pub gid: LocalGid,
    /// Supplementary groups.
    pub groups: Arc<[u32]>,
}
