//! The everyday calls, prepared: each workload is a list of encoded calls per slot, and the files they need.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use nfs_wire::encode_to_vec;
use nfs_wire::nfs3::{
    self, ACCESS3_EXTEND, ACCESS3_MODIFY, ACCESS3_READ, AccessArgs, CreateArgs, CreateHow,
    CreateOk, DirOpArgs, FileHandle, Filename, GetattrArgs, LookupArgs, Procedure, ReadArgs,
    RemoveArgs, StableHow, WccData, WriteArgs, WriteOk,
};
use serde::Serialize;

use crate::calls::{ask, auth_body, mode, mount, nfs_call};

/// Length of one READ or WRITE in bytes.
const BLOCK_BYTES: u32 = 4096;
/// Name of the file that most workloads use.
const FILE_NAME: &[u8] = b"bench-file";

/// Encoded calls with their record marks: for each slot those that it sends in turn.
pub type Slots = Vec<Vec<Vec<u8>>>;

/// The calls that one measurement sends to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// NULL: what the path to the server and back costs.
    Null,
    /// GETATTR of one file.
    Getattr,
    /// LOOKUP of one name.
    Lookup,
    /// ACCESS to one file.
    Access,
    /// READ of 4 KiB that are in the page cache.
    ReadCached,
    /// CREATE, then REMOVE of the same name.
    CreateRemove,
    /// WRITE of 4 KiB, FILE_SYNC.
    WriteFileSync,
}

impl Workload {
    /// Every workload, in the order of the report.
    pub const ALL: [Self; 7] = [
        Self::Null,
        Self::Getattr,
        Self::Lookup,
        Self::Access,
        Self::ReadCached,
        Self::CreateRemove,
        Self::WriteFileSync,
    ];

    /// The workload's name on the command line and in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Getattr => "getattr",
            Self::Lookup => "lookup",
            Self::Access => "access",
            Self::ReadCached => "read-cached",
            Self::CreateRemove => "create-remove",
            Self::WriteFileSync => "write-file-sync",
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

/// Mounts the export, makes what the workload needs and encodes the calls of `depth` slots.
pub(crate) fn prepare(
    workload: Workload,
    depth: usize,
    target: &Target<'_>,
    stream: &mut TcpStream,
) -> Result<Slots> {
    let (root, file) = match target.handles.filter(|path| path.exists()) {
        Some(path) => recall(path)?,
        None => {
            let root = mount(target.from, target.mount, target.export)?;
            let file = make_file(stream, root, depth)?;
            if let Some(path) = target.handles {
                remember(path, [root, file])?;
            }
            (root, file)
        }
    };
    let data = block();
    Ok((0..u64::try_from(depth)?)
        .map(|slot| calls(workload, root, file, slot, &data))
        .collect())
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
    root: FileHandle,
    file: FileHandle,
    slot: u64,
    data: &[u8],
) -> Vec<Vec<u8>> {
    let offset = slot * u64::from(BLOCK_BYTES);
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
        Workload::ReadCached => {
            vec![nfs_call(
                Procedure::Read,
                &ReadArgs {
                    file,
                    offset,
                    count: BLOCK_BYTES,
                },
            )]
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
        Workload::WriteFileSync => {
            let stable = StableHow::FileSync;
            vec![nfs_call(
                Procedure::Write,
                &WriteArgs {
                    file,
                    offset,
                    count: BLOCK_BYTES,
                    stable,
                    data,
                },
            )]
        }
    }
}

/// A file with a block for each slot.
fn make_file(stream: &mut TcpStream, root: FileHandle, blocks: usize) -> Result<FileHandle> {
    let where_ = DirOpArgs {
        dir: root,
        name: Filename(FILE_NAME),
    };
    let create = CreateArgs {
        where_,
        how: CreateHow::Unchecked(mode(0o644)),
    };
    let made = ask::<CreateOk, WccData>(stream, Procedure::Create, &create)?;
    let file = made.obj.context("CREATE gave no handle")?;
    let data = block();
    for block in 0..u64::try_from(blocks)? {
        let offset = block * u64::from(BLOCK_BYTES);
        let write = WriteArgs {
            file,
            offset,
            count: BLOCK_BYTES,
            stable: StableHow::FileSync,
            data: &data,
        };
        ask::<WriteOk, WccData>(stream, Procedure::Write, &write)?;
    }
    Ok(file)
}

/// The data of one WRITE: [`BLOCK_BYTES`] bytes that count up from 0 and wrap around.
fn block() -> Vec<u8> {
    (0..BLOCK_BYTES).map(|i| i.to_le_bytes()[0]).collect()
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
