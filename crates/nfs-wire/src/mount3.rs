//! MOUNT version 3: from a path to the first file handle (RFC 1813 §5, appendix I).
//!
//! Lists are bounded by the record they come in: an entry needs at least 12 bytes of it.

use crate::limits::{AUTH_FLAVORS_MAX, MOUNT_NAME_BYTES_MAX, MOUNT_PATH_BYTES_MAX};
use crate::nfs3::FileHandle;
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// The MOUNT program.
pub const PROGRAM: u32 = 100_005;
/// The version that belongs to NFSv3.
pub const VERSION: u32 = 3;

/// The procedures of MOUNT version 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Procedure {
    /// Does nothing (RFC 1813 §5.2.0).
    Null = 0,
    /// Adds a mount entry (§5.2.1).
    Mnt = 1,
    /// Returns the mount entries (§5.2.2).
    Dump = 2,
    /// Removes a mount entry (§5.2.3).
    Umnt = 3,
    /// Removes all mount entries of the caller (§5.2.4).
    Umntall = 4,
    /// Returns the export list (§5.2.5).
    Export = 5,
}

/// A call's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// Without arguments.
    Null,
    /// The directory to mount.
    Mnt(Dirpath<'a>),
    /// Without arguments.
    Dump,
    /// The directory that was mounted.
    Umnt(Dirpath<'a>),
    /// Without arguments.
    Umntall,
    /// Without arguments.
    Export,
}

/// A path on the server: `dirpath`, at most [`MOUNT_PATH_BYTES_MAX`] bytes of no given encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dirpath<'a>(pub &'a [u8]);

/// The name of a host or a group of hosts: `name`, at most [`MOUNT_NAME_BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name<'a>(pub &'a [u8]);

/// The result of MNT: `mountres3`.
pub type MntRes = Result<MountOk, Mountstat3>;

/// What MNT gives: `mountres3_ok`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOk {
    /// The handle of the directory.
    pub fhandle: FileHandle,
    /// The flavors of RPC authentication that the export takes, best first; at most
    /// [`AUTH_FLAVORS_MAX`].
    pub auth_flavors: Vec<u32>,
}

/// Why MNT failed: `mountstat3` without its MNT3_OK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Mountstat3 {
    /// Not owner.
    Perm = 1,
    /// No such file or directory.
    Noent = 2,
    /// I/O error.
    Io = 5,
    /// Permission denied.
    Acces = 13,
    /// Not a directory.
    Notdir = 20,
    /// Invalid argument.
    Inval = 22,
    /// Path too long.
    Nametoolong = 63,
    /// Operation not supported.
    Notsupp = 10_004,
    /// A failure on the server.
    Serverfault = 10_006,
}

/// The result of DUMP: `mountlist`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountList<'a>(pub Vec<MountEntry<'a>>);

/// A client that has a directory mounted, as far as the server knows: `mountbody`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountEntry<'a> {
    /// The client.
    pub hostname: Name<'a>,
    /// The directory.
    pub directory: Dirpath<'a>,
}

/// The result of EXPORT: `exports`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportList<'a>(pub Vec<ExportEntry<'a>>);

/// A directory that may be mounted: `exportnode`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportEntry<'a> {
    /// The directory.
    pub directory: Dirpath<'a>,
    /// Who may mount it, in words for people; empty for everyone.
    pub groups: Vec<Name<'a>>,
}

impl Procedure {
    /// Every procedure, in the RFC's order.
    pub const ALL: &[Self] = &[
        Self::Null,
        Self::Mnt,
        Self::Dump,
        Self::Umnt,
        Self::Umntall,
        Self::Export,
    ];

    /// The RFC's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Mnt => "MNT",
            Self::Dump => "DUMP",
            Self::Umnt => "UMNT",
            Self::Umntall => "UMNTALL",
            Self::Export => "EXPORT",
        }
    }
}

impl TryFrom<u32> for Procedure {
    type Error = DecodeError;

    fn try_from(value: u32) -> Result<Self, DecodeError> {
        let found = Self::ALL.iter().find(|known| **known as u32 == value);
        found.copied().ok_or(DecodeError::BadValue {
            field: "procedure",
            value,
        })
    }
}

impl<'a> Call<'a> {
    /// Reads the arguments of `procedure`.
    ///
    /// # Errors
    /// [`DecodeError`], a path beyond [`MOUNT_PATH_BYTES_MAX`] included.
    pub fn decode(procedure: Procedure, d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(match procedure {
            Procedure::Null => Self::Null,
            Procedure::Mnt => Self::Mnt(Dirpath::decode(d)?),
            Procedure::Dump => Self::Dump,
            Procedure::Umnt => Self::Umnt(Dirpath::decode(d)?),
            Procedure::Umntall => Self::Umntall,
            Procedure::Export => Self::Export,
        })
    }

    /// The procedure that takes these arguments.
    #[must_use]
    pub const fn procedure(&self) -> Procedure {
        match self {
            Self::Null => Procedure::Null,
            Self::Mnt(_) => Procedure::Mnt,
            Self::Dump => Procedure::Dump,
            Self::Umnt(_) => Procedure::Umnt,
            Self::Umntall => Procedure::Umntall,
            Self::Export => Procedure::Export,
        }
    }
}

impl Encode for Call<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Self::Mnt(path) | Self::Umnt(path) => path.encode(e),
            Self::Null | Self::Dump | Self::Umntall | Self::Export => {}
        }
    }
}

impl<'a> Decode<'a> for Dirpath<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        d.opaque(MOUNT_PATH_BYTES_MAX, "dirpath").map(Self)
    }
}

impl Encode for Dirpath<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.opaque(self.0);
    }
}

impl<'a> Decode<'a> for Name<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        d.opaque(MOUNT_NAME_BYTES_MAX, "name").map(Self)
    }
}

impl Encode for Name<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.opaque(self.0);
    }
}

impl Decode<'_> for MntRes {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match d.u32("mountstat3")? {
            0 => Ok(MountOk::decode(d)?),
            value => Err(Mountstat3::from_wire(value)?),
        })
    }
}

impl Encode for MntRes {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Ok(ok) => {
                e.u32(0);
                ok.encode(e);
            }
            Err(status) => e.u32(*status as u32),
        }
    }
}

impl Decode<'_> for MountOk {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let fhandle = FileHandle::decode(d)?;
        let len = d.len(AUTH_FLAVORS_MAX, "auth_flavors")?;
        let auth_flavors = (0..len)
            .map(|_| d.u32("auth_flavors"))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            fhandle,
            auth_flavors,
        })
    }
}

impl Encode for MountOk {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.fhandle.encode(e);
        e.len(self.auth_flavors.len());
        for flavor in &self.auth_flavors {
            e.u32(*flavor);
        }
    }
}

impl Mountstat3 {
    fn from_wire(value: u32) -> Result<Self, DecodeError> {
        Ok(match value {
            1 => Self::Perm,
            2 => Self::Noent,
            5 => Self::Io,
            13 => Self::Acces,
            20 => Self::Notdir,
            22 => Self::Inval,
            63 => Self::Nametoolong,
            10_004 => Self::Notsupp,
            10_006 => Self::Serverfault,
            value => {
                return Err(DecodeError::BadValue {
                    field: "mountstat3",
                    value,
                });
            }
        })
    }
}

impl<'a> Decode<'a> for MountList<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        d.list("mountlist").map(Self)
    }
}

impl Encode for MountList<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.list(&self.0);
    }
}

impl<'a> Decode<'a> for MountEntry<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            hostname: Name::decode(d)?,
            directory: Dirpath::decode(d)?,
        })
    }
}

impl Encode for MountEntry<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.hostname.encode(e);
        self.directory.encode(e);
    }
}

impl<'a> Decode<'a> for ExportList<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        d.list("exports").map(Self)
    }
}

impl Encode for ExportList<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.list(&self.0);
    }
}

impl<'a> Decode<'a> for ExportEntry<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            directory: Dirpath::decode(d)?,
            groups: d.list("groups")?,
        })
    }
}

impl Encode for ExportEntry<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.directory.encode(e);
        e.list(&self.groups);
    }
}

#[cfg(test)]
mod tests;
