//! File handles: the only place where a handle's bytes become something the server acts on.
//!
//! A handle is what a client holds for weeks and sends back at will, so every handle carries a
//! keyed MAC: bytes that this server (or an earlier run of it with the same state directory) did
//! not make are refused before anything is looked up. What is inside depends on the server's
//! rights: the kernel's own handle where `open_by_handle_at` is allowed, an id of the persistent
//! [handle table](crate::vfs::handle_table) where it is not.
//!
//! ```text
//! byte 0      version (1)
//! byte 1      kind: 1 kernel handle, 2 table id (8 bytes of number, 8 of nonce), 3 directory above exports (no
//!             body; its number in place of the export's id, and no place)
//! byte 2      length of the body, n
//! byte 3      type of the kernel handle (0 for a table id)
//! bytes 4-7   export id
//! bytes 8-11  mount key: 0 is the export's own file system
//! n bytes     body
//! 16 bytes    SipHash-2-4-128 of all before it and of the export's place, under the key in the
//!             state directory
//! ```
//!
//! The export id stands for the path that clients mount. What lies there is the export's [`PlaceMark`]:
//! when another directory is served under the same path, handles into the old one are refused.
//!
//! What has not the form of a handle is NFS3ERR_BADHANDLE. What has it, but not the right MAC, is
//! NFS3ERR_STALE, whose words in RFC 1813 §2.6 are "no longer exists or access to it has been
//! revoked": a replaced key or directory does that to honest clients, programs understand the
//! error, and a forger learns nothing from it.
//!
//! Nothing here panics on a peer's bytes.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nfs_io::fs::handle::KernelHandle;
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::limits;
use crate::vfs::handle_table::TableId;

/// What a client calls an object: up to 64 bytes, which mean nothing to it.
#[derive(Clone, Copy)]
pub(crate) struct Handle {
    len: u8,
    bytes: [u8; limits::HANDLE_BYTES_MAX],
}

impl Handle {
    /// A handle of these bytes, from a client or made here; nothing of them is checked but their number.
    ///
    /// # Errors
    /// When there are more than [`limits::HANDLE_BYTES_MAX`].
    pub(crate) fn new(handle: &[u8]) -> Result<Self, HandleTooLong> {
        let mut bytes = [0; limits::HANDLE_BYTES_MAX];
        let place = bytes.get_mut(..handle.len()).ok_or(HandleTooLong)?;
        place.copy_from_slice(handle);
        let len = u8::try_from(handle.len()).map_err(|_| HandleTooLong)?;
        Ok(Self { len, bytes })
    }
}

impl AsRef<[u8]> for Handle {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl PartialEq for Handle {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl Eq for Handle {}

impl Hash for Handle {
    /// By the end of its MAC, which is as good as random: whoever forges another can look for it, and no more.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let end = self.as_ref().last_chunk().copied();
        state.write_u64(u64::from_ne_bytes(end.unwrap_or_default()));
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

const VERSION: u8 = 1;
const KIND_KERNEL: u8 = 1;
const KIND_TABLE: u8 = 2;
const KIND_NODE: u8 = 3;
const HEAD_LEN: usize = 12;
const MAC_LEN: usize = 16;
const _: () =
    assert!(HEAD_LEN + limits::KERNEL_HANDLE_BYTES_MAX + MAC_LEN == limits::HANDLE_BYTES_MAX);

/// Which file system below an export a handle belongs to: 0 is the export's own, others are
/// derived from the mount point's path below the export, which outlives a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MountKey(pub(crate) u32);

impl MountKey {
    /// The file system of the export's root.
    pub(crate) const ROOT: Self = Self(0);
}

/// Which directory an export's root is: device-independent, the same after a restart, another for
/// another directory, also of another file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaceMark(pub(crate) [u8; 28]);

/// The place of what lies in no export.
const NO_PLACE: PlaceMark = PlaceMark([0; 28]);

/// What a valid handle says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandleParts {
    /// The export's id, stable over restarts.
    pub(crate) export: u32,
    /// The file system below the export.
    pub(crate) mount: MountKey,
    /// The object in that file system.
    pub(crate) body: HandleBody,
}

/// What names the object in a handle: the kernel's handle, or an id of the server's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HandleBody {
    /// The kernel's handle of the object.
    Kernel(KernelHandle),
    /// The object's id in the persistent table of an unprivileged server.
    Table(TableId),
}

/// Why bytes are not a handle of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandleError {
    /// The frame is not ours: length, version or kind.
    #[error("the handle has not the form of a handle of this server")]
    Malformed,
    /// The MAC does not fit: forged, or made under another key or for another directory.
    #[error("the handle was not made by this server, or its key was replaced")]
    Forged,
    /// Made by an earlier version, whose table ids had no nonce.
    #[error("the handle was made by an earlier version of this server")]
    Outdated,
    /// No such export is served (any more).
    #[error("the handle's export is not served")]
    NoExport,
}

/// The kernel's handle does not fit into the 64 bytes that NFSv3 allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file system's own handles are too long for NFSv3 (RFC 1813 §2.3.3: 64 bytes)")]
pub(crate) struct HandleTooLong;

/// The export that the bytes of a handle say it is of, where they have the form of a handle. Nothing of it is
/// checked: it is good for a line of a trace, and never to act on.
pub(crate) fn claimed_export(bytes: &[u8]) -> Option<u32> {
    let is_ours = bytes.first() == Some(&VERSION);
    let id = bytes.get(4..8).filter(|_| is_ours)?;
    id.try_into().ok().map(u32::from_be_bytes)
}

/// The secret under which handles are made.
pub(crate) struct HandleKey {
    key: [u8; 16],
}

impl HandleKey {
    /// Reads the key `handle.key` of a state directory, or makes one (mode 0600, synced) if there is none.
    ///
    /// # Errors
    /// When the file cannot be read or written, has another length, or can be read by others.
    pub(crate) fn load_or_create(state_dir: &Path) -> std::io::Result<Self> {
        let path = state_dir.join("handle.key");
        match File::open(&path) {
            Ok(file) => Self::load(file, &path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Self::create(state_dir, &path)
            }
            Err(error) => Err(error),
        }
    }

    fn load(mut file: File, path: &Path) -> std::io::Result<Self> {
        let mode = file.metadata()?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(std::io::Error::other(format!(
                "{} may be read by others (mode {:04o}): whoever reads it can forge handles; \
                 chmod 0600 it, or remove it so that a new key is made (clients must mount again)",
                path.display(),
                mode & 0o7777
            )));
        }
        let mut bytes = Vec::with_capacity(17);
        Read::by_ref(&mut file).take(17).read_to_end(&mut bytes)?;
        let key = <[u8; 16]>::try_from(bytes.as_slice()).map_err(|_| {
            std::io::Error::other(format!(
                "{} is damaged: it must be 16 bytes long; remove it so that a new key is made \
                 (clients must mount again)",
                path.display()
            ))
        })?;
        Ok(Self { key })
    }

    /// The key is written beside its place and renamed, so that a crash leaves no half of it.
    fn create(state_dir: &Path, path: &Path) -> std::io::Result<Self> {
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(|error| std::io::Error::other(error.to_string()))?;
        let draft = state_dir.join("handle.key.new");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)?;
        file.write_all(&key)?;
        file.sync_all()?;
        std::fs::rename(&draft, path)?;
        File::open(state_dir)?.sync_all()?;
        Ok(Self { key })
    }

    /// Makes the handle of an object of the export at `place`.
    ///
    /// # Errors
    /// When the kernel's handle is longer than what is left of 64 bytes.
    pub(crate) fn seal(
        &self,
        parts: &HandleParts,
        place: &PlaceMark,
    ) -> Result<Handle, HandleTooLong> {
        let id;
        let (kind, handle_type, body) = match &parts.body {
            HandleBody::Kernel(handle) => {
                let handle_type = u8::try_from(handle.kind()).map_err(|_| HandleTooLong)?;
                (KIND_KERNEL, handle_type, handle.bytes())
            }
            HandleBody::Table(table_id) => {
                id = bytes_of(*table_id);
                (KIND_TABLE, 0, id.as_slice())
            }
        };
        let len = u8::try_from(body.len()).map_err(|_| HandleTooLong)?;
        let mut bytes = Vec::with_capacity(HEAD_LEN + body.len() + MAC_LEN);
        bytes.extend_from_slice(&[VERSION, kind, len, handle_type]);
        bytes.extend_from_slice(&parts.export.to_be_bytes());
        bytes.extend_from_slice(&parts.mount.0.to_be_bytes());
        bytes.extend_from_slice(body);
        let mac = self.mac(&bytes, place);
        bytes.extend_from_slice(&mac);
        Handle::new(&bytes).map_err(|_| HandleTooLong)
    }

    /// Takes a client's handle apart, if this server made it. `place_of` says where the export is
    /// that the handle claims to belong to.
    ///
    /// # Errors
    /// [`HandleError`] says why it is none of ours.
    pub(crate) fn open(
        &self,
        handle: &Handle,
        place_of: impl FnOnce(u32) -> Option<PlaceMark>,
    ) -> Result<HandleParts, HandleError> {
        let bytes = handle.as_ref();
        let signed_len = bytes
            .len()
            .checked_sub(MAC_LEN)
            .ok_or(HandleError::Malformed)?;
        let (signed, mac) = bytes
            .split_at_checked(signed_len)
            .ok_or(HandleError::Malformed)?;
        let (head, body) = signed
            .split_first_chunk::<HEAD_LEN>()
            .ok_or(HandleError::Malformed)?;
        let [
            version,
            kind,
            len,
            handle_type,
            e0,
            e1,
            e2,
            e3,
            m0,
            m1,
            m2,
            m3,
        ] = *head;
        if version != VERSION || usize::from(len) != body.len() {
            return Err(HandleError::Malformed);
        }
        let export = u32::from_be_bytes([e0, e1, e2, e3]);
        let place = place_of(export).ok_or(HandleError::NoExport)?;
        if !same_bytes(mac, &self.mac(signed, &place)) {
            return Err(HandleError::Forged);
        }
        let body = match kind {
            KIND_KERNEL => HandleBody::Kernel(
                KernelHandle::new(i32::from(handle_type), body)
                    .map_err(|_| HandleError::Malformed)?,
            ),
            KIND_TABLE => HandleBody::Table(table_id(body).ok_or(HandleError::Outdated)?),
            _ => return Err(HandleError::Malformed),
        };
        Ok(HandleParts {
            export,
            mount: MountKey(u32::from_be_bytes([m0, m1, m2, m3])),
            body,
        })
    }

    /// Makes the handle of a directory above the exports, which has this number.
    ///
    /// # Errors
    /// None: such a handle is short.
    pub(crate) fn seal_node(&self, node: u32) -> Result<Handle, HandleTooLong> {
        let mut bytes = vec![VERSION, KIND_NODE, 0, 0];
        bytes.extend_from_slice(&node.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        let mac = self.mac(&bytes, &NO_PLACE);
        bytes.extend_from_slice(&mac);
        Handle::new(&bytes)
    }

    /// The number of the directory above the exports that a handle names; `None` for handles of files, and for
    /// those that this server did not make.
    pub(crate) fn open_node(&self, handle: &Handle) -> Option<u32> {
        let (signed, mac) = handle.as_ref().split_first_chunk::<HEAD_LEN>()?;
        let [VERSION, KIND_NODE, 0, 0, rest @ ..] = signed else {
            return None;
        };
        let node = rest.first_chunk().copied().map(u32::from_be_bytes);
        node.filter(|_| same_bytes(mac, &self.mac(signed, &NO_PLACE)))
    }

    /// A cookie verifier for a directory: the same for as long as the handle lives.
    pub(crate) fn cookie_verifier(&self, directory: &Handle) -> [u8; 8] {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(b"cookie verifier");
        hasher.write(directory.as_ref());
        hasher.finish128().h1.to_be_bytes()
    }

    fn mac(&self, signed: &[u8], place: &PlaceMark) -> [u8; MAC_LEN] {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(signed);
        // Of a fixed length: what is signed and what is the mark cannot be shifted.
        hasher.write(&place.0);
        hasher.finish128().as_bytes()
    }
}

/// The table id in a handle that this server made itself (nothing is verified here).
pub(crate) fn own_table_id(handle: &Handle) -> Option<TableId> {
    let (head, rest) = handle.as_ref().split_first_chunk::<HEAD_LEN>()?;
    let body = rest.get(..rest.len().checked_sub(MAC_LEN)?)?;
    table_id(body).filter(|_| head.get(1) == Some(&KIND_TABLE))
}

fn bytes_of(id: TableId) -> [u8; 16] {
    (u128::from(id.number) << 64 | u128::from(id.nonce)).to_be_bytes()
}

fn table_id(body: &[u8]) -> Option<TableId> {
    let (number, nonce) = body.split_first_chunk::<8>()?;
    Some(TableId {
        number: u64::from_be_bytes(*number),
        nonce: u64::from_be_bytes(nonce.try_into().ok()?),
    })
}

/// Compares without telling by its duration where the first difference is.
fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (x, y)| differ | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> HandleKey {
        HandleKey {
            key: *b"0123456789abcdef",
        }
    }

    #[test]
    fn a_handle_says_which_export_it_is_of() {
        assert_eq!(
            claimed_export(&[VERSION, 1, 0, 0, 1, 2, 3, 4]),
            Some(0x0102_0304)
        );
        assert_eq!(claimed_export(&[9, 1, 0, 0, 1, 2, 3, 4]), None);
        assert_eq!(claimed_export(&[VERSION, 1, 0, 0, 1, 2, 3]), None);
        assert_eq!(claimed_export(&[]), None);
    }

    const HERE: PlaceMark = PlaceMark([1; 28]);

    fn here(_export: u32) -> Option<PlaceMark> {
        Some(HERE)
    }

    fn parts() -> HandleParts {
        HandleParts {
            export: 7,
            mount: MountKey(9),
            body: HandleBody::Kernel(KernelHandle::new(1, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap()),
        }
    }

    #[test]
    fn a_directory_above_the_exports_has_a_handle_that_nobody_can_forge() {
        let handle = key().seal_node(7).unwrap();
        assert_eq!(key().open_node(&handle), Some(7));
        assert_eq!(
            key().open(&handle, here),
            Err(HandleError::Forged),
            "it names no file"
        );
        let of_file = key().seal(&parts(), &HERE).unwrap();
        assert_eq!(key().open_node(&of_file), None);
        let mut forged = handle.as_ref().to_vec();
        for bit in 0..forged.len() * 8 {
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key().open_node(&Handle::new(&forged).unwrap()), None);
            forged[bit / 8] ^= 1 << (bit % 8);
        }
        for len in 0..forged.len() {
            assert_eq!(key().open_node(&Handle::new(&forged[..len]).unwrap()), None);
        }
    }

    const TABLE_ID: TableId = TableId {
        number: 42,
        nonce: 0xfeed_f00d_0bad_cafe,
    };

    #[test]
    fn a_handle_says_what_was_put_in() {
        let table = HandleParts {
            export: 1,
            mount: MountKey::ROOT,
            body: HandleBody::Table(TABLE_ID),
        };
        for parts in [parts(), table] {
            assert_eq!(
                key().open(&key().seal(&parts, &HERE).unwrap(), here),
                Ok(parts)
            );
        }
    }

    #[test]
    fn every_changed_bit_is_refused() {
        let handle = key().seal(&parts(), &HERE).unwrap();
        for bit in 0..handle.as_ref().len() * 8 {
            let mut bytes = handle.as_ref().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(
                key().open(&Handle::new(&bytes).unwrap(), here).is_err(),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn every_truncation_is_refused() {
        let handle = key().seal(&parts(), &HERE).unwrap();
        for len in 0..handle.as_ref().len() {
            assert!(
                key()
                    .open(&Handle::new(&handle.as_ref()[..len]).unwrap(), here)
                    .is_err()
            );
        }
    }

    #[test]
    fn another_key_refuses() {
        let handle = key().seal(&parts(), &HERE).unwrap();
        assert_eq!(
            HandleKey { key: [0; 16] }.open(&handle, here),
            Err(HandleError::Forged)
        );
    }

    #[test]
    fn another_directory_under_the_same_path_refuses() {
        let handle = key().seal(&parts(), &HERE).unwrap();
        let there = key().open(&handle, |_| Some(PlaceMark([2; 28])));
        assert_eq!(there, Err(HandleError::Forged));
        let nowhere = key().open(&handle, |_| None);
        assert_eq!(nowhere, Err(HandleError::NoExport));
    }

    #[test]
    fn the_table_id_of_an_own_handle_is_its_body() {
        let parts = HandleParts {
            body: HandleBody::Table(TABLE_ID),
            ..parts()
        };
        let handle = key().seal(&parts, &HERE).unwrap();
        assert_eq!(own_table_id(&handle), Some(TABLE_ID));
        let kernel = key().seal(&self::parts(), &HERE).unwrap();
        assert_eq!(own_table_id(&kernel), None);
    }

    #[test]
    fn a_genuine_handle_of_the_first_version_is_told_from_a_forged_one() {
        let mut bytes = vec![VERSION, KIND_TABLE, 8, 0, 0, 0, 0, 7, 0, 0, 0, 0];
        bytes.extend_from_slice(&42_u64.to_be_bytes());
        let mac = key().mac(&bytes, &HERE);
        bytes.extend_from_slice(&mac);
        let open = |bytes: &[u8]| key().open(&Handle::new(bytes).unwrap(), here);
        assert_eq!(open(&bytes), Err(HandleError::Outdated));
        *bytes.last_mut().unwrap() ^= 1;
        assert_eq!(open(&bytes), Err(HandleError::Forged));
    }

    #[test]
    fn a_kernel_handle_that_does_not_fit_is_an_error() {
        let long = KernelHandle::new(1, &[0; 37]).unwrap();
        let parts = HandleParts {
            body: HandleBody::Kernel(long),
            ..parts()
        };
        assert_eq!(key().seal(&parts, &HERE), Err(HandleTooLong));
    }

    #[test]
    fn the_key_is_kept_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let first = HandleKey::load_or_create(dir.path()).unwrap();
        let second = HandleKey::load_or_create(dir.path()).unwrap();
        assert_eq!(first.key, second.key);
        let path = dir.path().join("handle.key");
        assert_eq!(
            path.metadata().unwrap().permissions().mode() & 0o7777,
            0o600
        );
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(HandleKey::load_or_create(dir.path()).is_err());
    }
}
