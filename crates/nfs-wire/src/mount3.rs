//! MOUNT version 3: from a path to the first file handle (RFC 1813 §5, appendix I).
//!
//! Lists are bounded by the record they come in: an entry needs at least 12 bytes of it.

use crate::limits::{AUTH_FLAVORS_MAX, MOUNT_NAME_BYTES_MAX, MOUNT_PATH_BYTES_MAX};
use crate::nfs3::FileHandle;
use crate::xdr::define::{procedures, xdr_enum, xdr_struct};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// The number of the MOUNT program.
pub const PROGRAM: u32 = 100_005;
/// The version that belongs to NFSv3.
pub const VERSION: u32 = 3;

procedures! {
    /// The procedures of MOUNT version 3.
    pub enum Procedure;

    /// A call of any procedure, with its arguments.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Call<'a>;

    /// Does nothing (RFC 1813 §5.2.0).
    Null = 0 "NULL" (()),
    /// Adds a mount entry, for the directory that is to be mounted (§5.2.1). Gives a [`MntRes`].
    Mnt = 1 "MNT" (Dirpath<'a>),
    /// Returns the mount entries (§5.2.2): a [`MountList`].
    Dump = 2 "DUMP" (()),
    /// Removes a mount entry, for the directory that was mounted (§5.2.3). Without results.
    Umnt = 3 "UMNT" (Dirpath<'a>),
    /// Removes all mount entries of the caller (§5.2.4). Without results.
    Umntall = 4 "UMNTALL" (()),
    /// Returns the export list (§5.2.5): an [`ExportList`].
    Export = 5 "EXPORT" (()),
}

/// A path on the server: `dirpath`, at most [`MOUNT_PATH_BYTES_MAX`] bytes of no given encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dirpath<'a>(pub &'a [u8]);

/// The name of a host or a group of hosts: `name`, at most [`MOUNT_NAME_BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name<'a>(pub &'a [u8]);

/// The result of MNT: `mountres3`.
pub type MntRes = Result<MountOk, Mountstat3>;

/// What a successful MNT gives: `mountres3_ok`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOk {
    /// The handle of the directory.
    pub fhandle: FileHandle,
    /// The flavors of RPC authentication that the export takes, best first; at most
    /// [`AUTH_FLAVORS_MAX`].
    pub auth_flavors: Vec<u32>,
}

xdr_enum! {
    /// Why MNT failed: `mountstat3` without its MNT3_OK.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Mountstat3 as "mountstat3" {
        /// The caller is not the owner: MNT3ERR_PERM.
        Perm = 1,
        /// No such file or directory.
        Noent = 2,
        /// The server had an I/O error: MNT3ERR_IO.
        Io = 5,
        /// The export's rules do not let the caller in: MNT3ERR_ACCES.
        Acces = 13,
        /// The path does not lead to a directory: MNT3ERR_NOTDIR.
        Notdir = 20,
        /// The path makes no sense: MNT3ERR_INVAL.
        Inval = 22,
        /// The path or a name in it is too long: MNT3ERR_NAMETOOLONG.
        Nametoolong = 63,
        /// The server does not offer this: MNT3ERR_NOTSUPP.
        Notsupp = 10_004,
        /// A failure on the server.
        Serverfault = 10_006,
    }
}

/// The result of DUMP: `mountlist`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountList<'a>(pub Vec<MountEntry<'a>>);

xdr_struct! {
    /// A client that has a directory mounted, as far as the server knows: `mountbody`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MountEntry<'a> {
        /// The name or address of the client that mounted it.
        pub hostname: Name<'a>,
        /// The directory that it said it mounted.
        pub directory: Dirpath<'a>,
    }
}

/// The result of EXPORT: `exports`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportList<'a>(pub Vec<ExportEntry<'a>>);

/// A directory that may be mounted: `exportnode`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportEntry<'a> {
    /// The directory that is exported, as a client would ask for it.
    pub directory: Dirpath<'a>,
    /// Who may mount it, in words for people; empty for everyone.
    pub groups: Vec<Name<'a>>,
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
            value => Err(value.try_into()?),
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
            Err(status) => status.encode(e),
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
