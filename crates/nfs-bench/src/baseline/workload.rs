//! The everyday calls, prepared: each workload is a list of encoded calls per slot, and the files they need.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use nfs_wire::nfs3::{
    self, ACCESS3_EXTEND, ACCESS3_MODIFY, ACCESS3_READ, AccessArgs, CommitArgs, CommitOk,
    CreateArgs, CreateHow, CreateOk, DirOpArgs, FileHandle, Filename, GetattrArgs, LookupArgs,
    LookupOk, PostOpAttr, Procedure, ReadArgs, RemoveArgs, StableHow, WccData, WriteArgs, WriteOk,
};
use nfs_wire::nfs4::ops::{
    AccessArgs as AccessArgs4, CloseArgs, GetattrArgs as GetattrArgs4, LookupArgs as LookupArgs4,
    ReadArgs as ReadArgs4, WriteArgs as WriteArgs4,
};
use nfs_wire::nfs4::{ArgOp, Bitmap4, Component4, FileHandle as FileHandle4, StableHow4, Stateid4};
use nfs_wire::{Payload, encode_to_vec};
use serde::Serialize;

use super::session::{self, Session, putfh};
use crate::calls::{ask, auth_body, mode, mount, nfs_call};

/// Length of one small READ or WRITE in bytes.
const BLOCK_BYTES: u32 = 4096;
/// Length of one READ of middle size in bytes.
const MIDDLE_BYTES: u32 = 64 << 10;
/// Size of the file that READs of middle size go through, in bytes: far more than a processor's caches hold.
const MIDDLE_FILE_BYTES: u64 = 256 << 20;
/// Length of one large READ or WRITE in bytes.
const LARGE_BYTES: u32 = 1 << 20;
/// The attributes that NFSv3 has, by their numbers: type, change, size, fsid, fileid, mode, number of links, owner,
/// group, raw device, space used, the three times.
const ATTRIBUTES: [u32; 14] = [1, 3, 4, 8, 20, 33, 35, 36, 37, 41, 45, 47, 52, 53];
/// Name of the file that most workloads use.
const FILE_NAME: &[u8] = b"bench-file";

/// Calls for each slot, which it sends in turn.
pub(crate) type Slots = Vec<Vec<Prepared>>;

/// An encoded call with its record mark.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The bytes; each time it is sent, its xid is another.
    pub(crate) record: Vec<u8>,
    /// Where NFSv4's sequence stands in it, which counts the calls of the slot.
    pub(crate) sequence_at: Option<usize>,
}

/// The calls that one measurement sends to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// NULL: what the path to the server and back costs.
    Null,
    /// GETATTR of one file.
    Getattr,
    /// The same in a COMPOUND of NFSv4.1, with the attributes that NFSv3's GETATTR has.
    #[value(name = "getattr-v4.1")]
    #[serde(rename = "getattr-v4.1")]
    Getattr4,
    /// LOOKUP of one name.
    Lookup,
    /// LOOKUP, GETFH and GETATTR in a COMPOUND of NFSv4.1.
    #[value(name = "lookup-v4.1")]
    #[serde(rename = "lookup-v4.1")]
    Lookup4,
    /// ACCESS to one file.
    Access,
    /// ACCESS and GETATTR in a COMPOUND of NFSv4.1.
    #[value(name = "access-v4.1")]
    #[serde(rename = "access-v4.1")]
    Access4,
    /// OPEN by name and CLOSE in a COMPOUND of NFSv4.1.
    #[value(name = "open-close-v4.1")]
    #[serde(rename = "open-close-v4.1")]
    OpenClose4,
    /// READ of 4 KiB that are in the page cache.
    ReadCached,
    /// The same in a COMPOUND of NFSv4.1.
    #[value(name = "read-cached-v4.1")]
    #[serde(rename = "read-cached-v4.1")]
    ReadCached4,
    /// READ of 64 KiB that are in the page cache, all over 256 MiB.
    #[value(name = "read-64k")]
    #[serde(rename = "read-64k")]
    ReadMiddle,
    /// READ of 1 MiB that is in the page cache.
    ReadLarge,
    /// The same in a COMPOUND of NFSv4.1.
    #[value(name = "read-large-v4.1")]
    #[serde(rename = "read-large-v4.1")]
    ReadLarge4,
    /// CREATE, then REMOVE of the same name.
    CreateRemove,
    /// WRITE of 4 KiB, UNSTABLE.
    WriteUnstable,
    /// The same in a COMPOUND of NFSv4.1.
    #[value(name = "write-unstable-v4.1")]
    #[serde(rename = "write-unstable-v4.1")]
    WriteUnstable4,
    /// WRITE of 1 MiB, UNSTABLE.
    WriteLarge,
    /// The same in a COMPOUND of NFSv4.1.
    #[value(name = "write-large-v4.1")]
    #[serde(rename = "write-large-v4.1")]
    WriteLarge4,
    /// WRITE of 4 KiB, FILE_SYNC.
    WriteFileSync,
    /// The same in a COMPOUND of NFSv4.1.
    #[value(name = "write-file-sync-v4.1")]
    #[serde(rename = "write-file-sync-v4.1")]
    WriteFileSync4,
}

impl Workload {
    /// Every workload, in the order of the report.
    pub const ALL: [Self; 20] = [
        Self::Null,
        Self::Getattr,
        Self::Getattr4,
        Self::Lookup,
        Self::Lookup4,
        Self::Access,
        Self::Access4,
        Self::OpenClose4,
        Self::ReadCached,
        Self::ReadCached4,
        Self::ReadMiddle,
        Self::ReadLarge,
        Self::ReadLarge4,
        Self::CreateRemove,
        Self::WriteUnstable,
        Self::WriteUnstable4,
        Self::WriteLarge,
        Self::WriteLarge4,
        Self::WriteFileSync,
        Self::WriteFileSync4,
    ];

    /// The workload's name on the command line and in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Getattr => "getattr",
            Self::Getattr4 => "getattr-v4.1",
            Self::Lookup => "lookup",
            Self::Lookup4 => "lookup-v4.1",
            Self::Access => "access",
            Self::Access4 => "access-v4.1",
            Self::OpenClose4 => "open-close-v4.1",
            Self::ReadCached => "read-cached",
            Self::ReadCached4 => "read-cached-v4.1",
            Self::ReadMiddle => "read-64k",
            Self::ReadLarge => "read-large",
            Self::ReadLarge4 => "read-large-v4.1",
            Self::CreateRemove => "create-remove",
            Self::WriteUnstable => "write-unstable",
            Self::WriteUnstable4 => "write-unstable-v4.1",
            Self::WriteLarge => "write-large",
            Self::WriteLarge4 => "write-large-v4.1",
            Self::WriteFileSync => "write-file-sync",
            Self::WriteFileSync4 => "write-file-sync-v4.1",
        }
    }

    /// Its calls are NFSv4.1's.
    pub(super) fn is_v4(self) -> bool {
        self.name().ends_with("v4.1")
    }

    /// Its calls are READs or WRITEs.
    pub(super) fn moves_data(self) -> bool {
        self.name().starts_with("read") || self.name().starts_with("write")
    }

    /// Length of one READ or WRITE in bytes.
    fn block_bytes(self) -> u32 {
        match self {
            Self::ReadLarge | Self::ReadLarge4 | Self::WriteLarge | Self::WriteLarge4 => {
                LARGE_BYTES
            }
            Self::ReadMiddle => MIDDLE_BYTES,
            _ => BLOCK_BYTES,
        }
    }

    /// How many READs or WRITEs each of `depth` slots makes before it begins anew.
    fn rounds(self, depth: u64) -> u64 {
        match self {
            Self::ReadMiddle => MIDDLE_FILE_BYTES / u64::from(MIDDLE_BYTES) / depth.max(1),
            _ => 1,
        }
    }

    /// Its reply is to be kept, as Linux's client has it for what changes something.
    fn is_kept(self) -> bool {
        matches!(
            self,
            Self::OpenClose4 | Self::WriteUnstable4 | Self::WriteLarge4 | Self::WriteFileSync4
        )
    }

    fn stable(self) -> StableHow {
        match self {
            Self::WriteFileSync | Self::WriteFileSync4 => StableHow::FileSync,
            _ => StableHow::Unstable,
        }
    }

    /// Bytes of a call and of its reply with their record marks, for the calls whose ping-pong is measured:
    /// AUTH_SYS without groups, and a handle of 40 bytes.
    pub fn message_bytes(self) -> (usize, usize) {
        let credential = encode_to_vec(&auth_body()).len();
        let call = 4 + 24 + (8 + credential) + 8;
        let reply = 4 + 24;
        match self {
            Self::Null => (call, reply),
            _ => (call + 44, reply + 4 + nfs3::Fattr3::ENCODED_LEN),
        }
    }
}

/// The addresses and the path that the calls of a workload go to.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    /// The address of this machine that MOUNT is asked from; `None` leaves it to the kernel.
    pub(crate) from: Option<Ipv4Addr>,
    /// Address of the MOUNT program.
    pub(crate) mount: SocketAddr,
    /// Path of the export, as MOUNT takes it.
    pub(crate) export: &'a str,
    /// Handles of an earlier run, taken instead of a mount; written if the file is not there yet.
    pub(crate) handles: Option<&'a Path>,
}

/// Mounts the export, makes what the workload needs and encodes the calls of `depth` slots. The session of NFSv4's
/// calls is to be ended behind them.
pub(crate) fn prepare(
    workload: Workload,
    depth: usize,
    target: &Target<'_>,
    stream: &mut TcpStream,
) -> Result<(Slots, Option<Session>)> {
    let block = block(workload.block_bytes());
    let known = target.handles.filter(|path| path.exists());
    let (root, file) = match known {
        Some(path) => recall(path)?,
        None => {
            let root = mount(target.from, target.mount, target.export)?;
            let blocks = u64::try_from(depth)? * workload.rounds(u64::try_from(depth)?);
            let file = make_file(stream, root, blocks, &block)?;
            if let Some(path) = target.handles {
                remember(path, [root, file])?;
            }
            (root, file)
        }
    };
    let slots = 0..u64::try_from(depth)?;
    if !workload.is_v4() {
        let prepared = |record| Prepared {
            record,
            sequence_at: None,
        };
        let depth = slots.end;
        let of_slot = |slot| calls(workload, (root, file), (slot, depth), &block).into_iter();
        let slots = slots.map(|slot| of_slot(slot).map(prepared).collect());
        return Ok((slots.collect(), None));
    }
    let mut session = Session::begin(stream, depth)?;
    let opened = match known {
        // Where names cannot be looked up, the handles of NFSv3 do for a server that has the same ones in both.
        Some(_) => {
            let same = |handle: FileHandle| FileHandle4::new(handle.as_ref());
            (same(root)?, same(file)?, Stateid4::ANONYMOUS)
        }
        None => session.open(stream, FILE_NAME)?,
    };
    let compound = |slot: u64| {
        // Each slot's opens are another owner's: one open more of the same owner would be closed with the first.
        let owner = slot.to_be_bytes();
        let ops = compound(workload, &opened, (slot, &owner), &block);
        session.prepared(slot, workload.is_kept(), ops)
    };
    let slots = slots.map(|slot| vec![compound(slot)]).collect();
    Ok((slots, Some(session)))
}

/// The operations behind SEQUENCE.
fn compound<'a>(
    workload: Workload,
    (root, file, stateid): &(FileHandle4, FileHandle4, Stateid4),
    (slot, owner): (u64, &'a [u8]),
    data: &'a [u8],
) -> Vec<ArgOp<'a>> {
    let (root, file, stateid) = (putfh(*root), putfh(*file), *stateid);
    let offset = slot * u64::from(workload.block_bytes());
    let name = Component4(FILE_NAME);
    let getattr = ArgOp::Getattr(GetattrArgs4 {
        attr_request: Bitmap4::of(&ATTRIBUTES),
    });
    match workload {
        Workload::Lookup4 => {
            let lookup = ArgOp::Lookup(LookupArgs4 { objname: name });
            vec![root, lookup, ArgOp::Getfh(()), getattr]
        }
        Workload::Access4 => {
            let access = ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND;
            let access = ArgOp::Access(AccessArgs4 { access });
            vec![file, access, getattr]
        }
        Workload::OpenClose4 => {
            let close = ArgOp::Close(CloseArgs {
                seqid: 0,
                open_stateid: Stateid4::CURRENT,
            });
            vec![root, session::open(FILE_NAME, owner), close]
        }
        Workload::ReadCached4 | Workload::ReadLarge4 => {
            let read = ArgOp::Read(ReadArgs4 {
                stateid,
                offset,
                count: workload.block_bytes(),
            });
            vec![file, read]
        }
        Workload::WriteUnstable4 | Workload::WriteLarge4 | Workload::WriteFileSync4 => {
            let write = ArgOp::Write(WriteArgs4 {
                stateid,
                offset,
                stable: match workload.stable() {
                    StableHow::Unstable => StableHow4::Unstable,
                    StableHow::DataSync => StableHow4::DataSync,
                    StableHow::FileSync => StableHow4::FileSync,
                },
                data: Payload::Here(data),
            });
            vec![file, write, getattr]
        }
        _ => vec![file, getattr],
    }
}

/// Handles outlive the server that gave them, so a later run may skip MOUNT and CREATE.
fn remember(path: &Path, handles: [FileHandle; 2]) -> Result<()> {
    let hex = |handle: FileHandle| {
        handle
            .as_ref()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect::<String>()
    };
    let lines: Vec<String> = handles.into_iter().map(hex).collect();
    std::fs::write(path, lines.join("\n")).with_context(|| path.display().to_string())
}

fn recall(path: &Path) -> Result<(FileHandle, FileHandle)> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut handles = text.lines().map(|line| {
        let digits: Vec<char> = line.chars().collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16);
        let bytes = digits.chunks(2).map(byte).collect::<Result<Vec<u8>, _>>()?;
        Ok::<_, anyhow::Error>(FileHandle::new(&bytes)?)
    });
    let mut next = || handles.next().context("two handles are expected")?;
    Ok((next()?, next()?))
}

fn calls(
    workload: Workload,
    (root, file): (FileHandle, FileHandle),
    (slot, depth): (u64, u64),
    data: &[u8],
) -> Vec<Vec<u8>> {
    let offset = slot * u64::from(workload.block_bytes());
    let access = ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND;
    match workload {
        Workload::Null => vec![nfs_call(Procedure::Null, &())],
        Workload::Getattr => vec![nfs_call(Procedure::Getattr, &GetattrArgs { object: file })],
        Workload::Lookup => {
            let what = DirOpArgs {
                dir: root,
                name: Filename(FILE_NAME),
            };
            vec![nfs_call(Procedure::Lookup, &LookupArgs { what })]
        }
        Workload::Access => vec![nfs_call(
            Procedure::Access,
            &AccessArgs {
                object: file,
                access,
            },
        )],
        Workload::ReadCached | Workload::ReadMiddle | Workload::ReadLarge => {
            let count = workload.block_bytes();
            // The slots go through the file side by side.
            let read = |round| ReadArgs {
                file,
                offset: (round * depth + slot) * u64::from(count),
                count,
            };
            let rounds = 0..workload.rounds(depth);
            let call = |round| nfs_call(Procedure::Read, &read(round));
            rounds.map(call).collect()
        }
        Workload::CreateRemove => {
            let name = format!("bench-{}-{slot}", std::process::id());
            let object = DirOpArgs {
                dir: root,
                name: Filename(name.as_bytes()),
            };
            let create = CreateArgs {
                where_: object,
                how: CreateHow::Guarded(mode(0o644)),
            };
            vec![
                nfs_call(Procedure::Create, &create),
                nfs_call(Procedure::Remove, &RemoveArgs { object }),
            ]
        }
        Workload::WriteUnstable | Workload::WriteLarge | Workload::WriteFileSync => {
            vec![nfs_call(
                Procedure::Write,
                &WriteArgs {
                    file,
                    offset,
                    count: workload.block_bytes(),
                    stable: workload.stable(),
                    data,
                },
            )]
        }
        // These are COMPOUNDs.
        Workload::Getattr4
        | Workload::Lookup4
        | Workload::Access4
        | Workload::OpenClose4
        | Workload::ReadCached4
        | Workload::ReadLarge4
        | Workload::WriteUnstable4
        | Workload::WriteLarge4
        | Workload::WriteFileSync4 => Vec::new(),
    }
}

/// A file of so many blocks.
fn make_file(
    stream: &mut TcpStream,
    root: FileHandle,
    blocks: u64,
    data: &[u8],
) -> Result<FileHandle> {
    let where_ = DirOpArgs {
        dir: root,
        name: Filename(FILE_NAME),
    };
    let create = CreateArgs {
        where_,
        how: CreateHow::Unchecked(mode(0o644)),
    };
    ask::<CreateOk, WccData>(stream, Procedure::Create, &create)?;
    // By its name: to the responder, which keeps nothing, what CREATE made is an empty file, and what LOOKUP finds is full.
    let lookup = LookupArgs { what: where_ };
    let file = ask::<LookupOk, PostOpAttr>(stream, Procedure::Lookup, &lookup)?.object;
    let count = u32::try_from(data.len())?;
    for block in 0..blocks {
        let write = WriteArgs {
            file,
            offset: block * u64::from(count),
            count,
            stable: StableHow::Unstable,
            data,
        };
        ask::<WriteOk, WccData>(stream, Procedure::Write, &write)?;
    }
    // Nothing of it is left to be written while something is measured.
    let commit = CommitArgs {
        file,
        offset: 0,
        count: 0,
    };
    ask::<CommitOk, WccData>(stream, Procedure::Commit, &commit)?;
    Ok(file)
}

/// The data of one WRITE: bytes that count up from 0 and wrap around.
fn block(len: u32) -> Vec<u8> {
    (0..len).map(|i| i.to_le_bytes()[0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_sizes_are_those_of_the_encoded_calls() {
        let handle = FileHandle::new(&[0; 40]).unwrap();
        assert_eq!(
            nfs_call(Procedure::Null, &()).len(),
            Workload::Null.message_bytes().0
        );
        let getattr = nfs_call(Procedure::Getattr, &GetattrArgs { object: handle });
        assert_eq!(getattr.len(), Workload::Getattr.message_bytes().0);
    }

    #[test]
    fn handles_are_recalled_as_they_were() {
        let path = std::env::temp_dir().join(format!("nfs-bench-handles-{}", std::process::id()));
        let (root, file) = (
            FileHandle::new(&[1, 2, 255]).unwrap(),
            FileHandle::new(&[0; 64]).unwrap(),
        );
        remember(&path, [root, file]).unwrap();
        let recalled = recall(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(recalled.unwrap(), (root, file));
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for workload in Workload::ALL {
            assert_eq!(Workload::from_str(workload.name(), false), Ok(workload));
        }
    }
}
