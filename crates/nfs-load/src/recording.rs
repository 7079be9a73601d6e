//! Recordings of a load: the file that `penstock trace record` writes and `penstock bench replay` reads.
//!
//! A file is a header and then records. The header is 8 bytes that say what it is ([`MAGIC`]), the version of the form
//! and the length of the rest, little-endian 16 bits each; the rest is the time of the beginning (nanoseconds since
//! 1970, 64 bits) and the version of the server (a byte with its length, and text). What a later version of the program
//! puts behind that is passed over.
//!
//! A record is a byte with its length, a byte with its kind, and fields: numbers in LEB128, or in little-endian where
//! all their bits are random. Kinds that are not known, and what a known kind has behind the fields that are known, are
//! passed over, so that both can be added to within a version. A file that was cut off is good up to its last whole
//! record. The format has no place for names, addresses or data: what would be one is a number whose key is not in the
//! file.

mod codec;
mod read;
mod write;

use nfs_wire::nfs3;
use nfs_wire::nfs4::Opnum;

pub use read::{Reader, RecordingError};
pub use write::Writer;

/// How a recording begins. The last byte is no text, so that nobody takes it for some.
pub const MAGIC: [u8; 8] = *b"PNSTREC\x01";
/// The version of the form that is written, and the newest that is read.
pub const VERSION: u16 = 1;

/// What is known of a recording as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// When it began, in nanoseconds since 1970.
    pub began_ns: u64,
    /// The version of the server that was recorded: at most 255 bytes.
    pub server: String,
}

/// One procedure of NFSv3 or operation of NFSv4 that a server carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// When it began, in nanoseconds since the first call of the file; one that began earlier and ended later is before it.
    pub at_ns: i64,
    /// Nanoseconds until it was answered.
    pub took_ns: u64,
    /// Version of NFS, 3 or 4.
    pub version: u8,
    /// The number that the RFC gives the procedure or operation.
    pub number: u32,
    /// It is part of the same COMPOUND as the one before it on its connection.
    pub follows: bool,
    /// Which client it came from.
    pub client: u32,
    /// Which connection it came over.
    pub connection: u32,
    /// The object that it is on: for one that is about a name, the directory.
    pub on: Option<u64>,
    /// The name in that directory.
    pub name: Option<u64>,
    /// The object that it found or made; of RENAME and LINK the directory that the new name is in.
    pub to: Option<u64>,
    /// The name in that one.
    pub to_name: Option<u64>,
    /// Offset and length in bytes; of READDIR the cookie and the most bytes, of what sets a file's size that size and 0.
    pub range: Option<(u64, u64)>,
    /// Of WRITE its stable_how, of NFSv3's CREATE its createmode3, of OPEN 1 if the file may be made, of NFSv4's CREATE
    /// the type.
    pub how: Option<u32>,
    /// The status that it was answered with; 0 where it went well.
    pub status: u32,
    /// Bytes that were read or written.
    pub moved: Option<u64>,
}

/// Why a recording has no more calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Whoever recorded ended it, or its time was over.
    Asked,
    /// The file had the size that it may have.
    Full,
    /// The server ended.
    Server,
    /// The file ends without saying so: it was cut off, or is still written.
    Cut,
}

/// One record of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A call.
    Call(Call),
    /// So many calls are missing here, as they came faster than they were written.
    Lost(u64),
}

/// What a procedure or operation is, in the words of both versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the procedure of that name")]
pub enum Kind {
    Null,
    Getattr,
    Setattr,
    Lookup,
    Access,
    Readlink,
    Read,
    Write,
    Create,
    Mkdir,
    Open,
    Close,
    Remove,
    Rmdir,
    Rename,
    Symlink,
    Link,
    Readdir,
    Fsstat,
    Fsinfo,
    Pathconf,
    Commit,
    /// What is recorded and not told apart any further.
    Other,
}

impl Call {
    /// What it is called in its RFC.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.version {
            3 => nfs3::Procedure::try_from(self.number).map_or("?", nfs3::Procedure::name),
            4 => Opnum::try_from(self.number).map_or("?", Opnum::name),
            _ => "?",
        }
    }

    /// What it is, whatever its version.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.version {
            3 => nfs3::Procedure::try_from(self.number).map_or(Kind::Other, of_nfs3),
            4 => Opnum::try_from(self.number).map_or(Kind::Other, |operation| {
                of_nfs4(operation, self.how.unwrap_or_default())
            }),
            _ => Kind::Other,
        }
    }
}

const fn of_nfs3(procedure: nfs3::Procedure) -> Kind {
    use nfs3::Procedure;
    match procedure {
        Procedure::Null => Kind::Null,
        Procedure::Getattr => Kind::Getattr,
        Procedure::Setattr => Kind::Setattr,
        Procedure::Lookup => Kind::Lookup,
        Procedure::Access => Kind::Access,
        Procedure::Readlink => Kind::Readlink,
        Procedure::Read => Kind::Read,
        Procedure::Write => Kind::Write,
        Procedure::Create => Kind::Create,
        Procedure::Mkdir => Kind::Mkdir,
        Procedure::Remove => Kind::Remove,
        Procedure::Rmdir => Kind::Rmdir,
        Procedure::Rename => Kind::Rename,
        Procedure::Readdir | Procedure::Readdirplus => Kind::Readdir,
        Procedure::Fsstat => Kind::Fsstat,
        Procedure::Fsinfo => Kind::Fsinfo,
        Procedure::Pathconf => Kind::Pathconf,
        Procedure::Commit => Kind::Commit,
        Procedure::Symlink => Kind::Symlink,
        Procedure::Link => Kind::Link,
        Procedure::Mknod => Kind::Other,
    }
}

const fn of_nfs4(operation: Opnum, how: u32) -> Kind {
    /// The type of a directory: NF4DIR (RFC 8881 §3.3.9).
    const DIRECTORY: u32 = 2;
    /// The type of a symbolic link: NF4LNK.
    const LINK: u32 = 5;
    match operation {
        Opnum::Getattr => Kind::Getattr,
        Opnum::Setattr => Kind::Setattr,
        Opnum::Lookup => Kind::Lookup,
        Opnum::Access => Kind::Access,
        Opnum::Readlink => Kind::Readlink,
        Opnum::Read => Kind::Read,
        Opnum::Write => Kind::Write,
        Opnum::Create if how == DIRECTORY => Kind::Mkdir,
        Opnum::Create if how == LINK => Kind::Symlink,
        Opnum::Link => Kind::Link,
        Opnum::Open => Kind::Open,
        Opnum::Close => Kind::Close,
        Opnum::Remove => Kind::Remove,
        Opnum::Rename => Kind::Rename,
        Opnum::Readdir => Kind::Readdir,
        Opnum::Commit => Kind::Commit,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests;
