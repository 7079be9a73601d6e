//! File handles of all versions of NFS: what a server calls an object, bytes that mean nothing to a client.

use core::fmt;
use core::hash::{Hash, Hasher};

use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// A file handle of up to `BYTES_MAX` bytes (at most 255), held without an allocation.
#[derive(Clone, Copy)]
pub struct Handle<const BYTES_MAX: usize> {
    len: u8,
    bytes: [u8; BYTES_MAX],
}

/// A file handle of more bytes than its version of NFS allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a file handle has at most {max} bytes in this version of NFS")]
pub struct FileHandleTooLong {
    /// The most bytes that it may have.
    pub max: usize,
}

impl<const BYTES_MAX: usize> Handle<BYTES_MAX> {
    /// A handle of these bytes.
    ///
    /// # Errors
    /// When there are more than `BYTES_MAX`.
    pub fn new(handle: &[u8]) -> Result<Self, FileHandleTooLong> {
        const { assert!(BYTES_MAX <= 255, "the length is one byte") };
        let error = FileHandleTooLong { max: BYTES_MAX };
        let mut bytes = [0; BYTES_MAX];
        let place = bytes.get_mut(..handle.len()).ok_or(error)?;
        place.copy_from_slice(handle);
        let len = u8::try_from(handle.len()).map_err(|_| error)?;
        Ok(Self { len, bytes })
    }
}

impl<const BYTES_MAX: usize> AsRef<[u8]> for Handle<BYTES_MAX> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl<const BYTES_MAX: usize> PartialEq for Handle<BYTES_MAX> {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl<const BYTES_MAX: usize> Eq for Handle<BYTES_MAX> {}

impl<const BYTES_MAX: usize> Hash for Handle<BYTES_MAX> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

impl<const BYTES_MAX: usize> fmt::Debug for Handle<BYTES_MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<const BYTES_MAX: usize> Decode<'_> for Handle<BYTES_MAX> {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        const FIELD: &str = "nfs_fh";
        let bytes = d.opaque(BYTES_MAX, FIELD)?;
        Self::new(bytes).map_err(|_| DecodeError::Missing { field: FIELD })
    }
}

impl<const BYTES_MAX: usize> Encode for Handle<BYTES_MAX> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.opaque(self.as_ref());
    }
}
