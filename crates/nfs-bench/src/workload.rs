//! The everyday calls, prepared: each workload is a list of encoded calls per slot, and the files they need.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use nfs_wire::auth::{AUTH_SYS, AuthSys, GidList, OpaqueAuth};
use nfs_wire::mount3::{self, Dirpath, MntRes};
use nfs_wire::nfs3::{
    self, ACCESS3_EXTEND, ACCESS3_MODIFY, ACCESS3_READ, AccessArgs, CreateArgs, CreateHow,
    CreateOk, DirOpArgs, Failure, FileHandle, Filename, GetattrArgs, LookupArgs, Procedure,
    ReadArgs, RemoveArgs, Sattr3, StableHow, WccData, WriteArgs, WriteOk,
};
use nfs_wire::record::FragmentHeader;
use nfs_wire::rpc::{AcceptStat, CallHeader, ReplyBody, ReplyHeader};
use nfs_wire::{Decode, Decoder, Encode, Encoder, encode_to_vec};
use serde::Serialize;

use crate::load::{Load, call_once};

/// Bytes of one READ or WRITE.
const BLOCK_BYTES: u32 = 4096;
/// The file that most workloads use.
const FILE_NAME: &[u8] = b"bench-file";

/// Encoded calls with their record marks: for each slot those that it sends in turn.
pub type Slots = Vec<Vec<Vec<u8>>>;

/// What is asked of a server.
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
    /// In the order of the report.
    pub const ALL: [Self; 7] = [
        Self::Null,
        Self::Getattr,
        Self::Lookup,
        Self::Access,
        Self::ReadCached,
        Self::CreateRemove,
        Self::WriteFileSync,
    ];

    /// As on the command line.
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

/// Mounts the export, makes what the workload needs and encodes its calls.
pub(crate) fn prepare(load: &Load, stream: &mut TcpStream) -> Result<Slots> {
    let (root, file) = match load.handles.as_deref().filter(|path| path.exists()) {
        Some(path) => recall(path)?,
        None => {
            let root = mount(load.mount, &load.export)?;
            let file = make_file(stream, root, load.depth)?;
            if let Some(path) = &load.handles {
                remember(path, [root, file])?;
            }
            (root, file)
        }
    };
    let depth = u64::try_from(load.depth)?;
    let data = block();
    Ok((0..depth)
        .map(|slot| calls(load.workload, root, file, slot, &data))
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

/// The handle of the directory exported as `export` by the MOUNT program at `address`.
pub(crate) fn mount(address: SocketAddr, export: &str) -> Result<FileHandle> {
    let mut stream =
        TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
    let program = (
        mount3::PROGRAM,
        mount3::VERSION,
        mount3::Procedure::Mnt as u32,
    );
    let reply = call_once(&mut stream, &call(program, &Dirpath(export.as_bytes())))?;
    match results::<MntRes>(&reply)? {
        Ok(mounted) => Ok(mounted.fhandle),
        Err(status) => bail!("mounting {export}: {status:?}"),
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
    let reply = call_once(stream, &nfs_call(Procedure::Create, &create))?;
    let made = results::<Result<CreateOk, Failure<WccData>>>(&reply)?;
    let file = match made {
        Ok(made) => made.obj.context("CREATE gave no handle")?,
        Err(failure) => bail!("CREATE: {:?}", failure.status),
    };
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
        let reply = call_once(stream, &nfs_call(Procedure::Write, &write))?;
        if let Err(failure) = results::<Result<WriteOk, Failure<WccData>>>(&reply)? {
            bail!("WRITE: {:?}", failure.status);
        }
    }
    Ok(file)
}

/// The contents of one block.
fn block() -> Vec<u8> {
    (0..BLOCK_BYTES).map(|i| i.to_le_bytes()[0]).collect()
}

/// Attributes of a new object: its permissions.
pub(crate) fn mode(mode: u32) -> Sattr3 {
    Sattr3 {
        mode: Some(mode),
        ..Sattr3::default()
    }
}

/// A call of the NFS program with its record mark, as root of this machine.
pub(crate) fn nfs_call(procedure: Procedure, arguments: &impl Encode) -> Vec<u8> {
    call((nfs3::PROGRAM, nfs3::VERSION, procedure as u32), arguments)
}

/// A call with its record mark, as root of this machine.
fn call((program, version, procedure): (u32, u32, u32), arguments: &impl Encode) -> Vec<u8> {
    let credential = encode_to_vec(&auth_body());
    let header = CallHeader {
        xid: first_xid(),
        program,
        version,
        procedure,
        credential: OpaqueAuth {
            flavor: AUTH_SYS,
            body: &credential,
        },
        verifier: OpaqueAuth::NONE,
    };
    let mut record = vec![0; 4];
    let mut encoder = Encoder::new(&mut record);
    header.encode(&mut encoder);
    arguments.encode(&mut encoder);
    let len = u32::try_from(record.len() - 4).unwrap_or(u32::MAX);
    record[..4].copy_from_slice(&FragmentHeader { last: true, len }.to_bytes());
    record
}

fn auth_body() -> AuthSys<'static> {
    AuthSys {
        stamp: 0,
        machine_name: b"bench",
        uid: 0,
        gid: 0,
        gids: GidList::EMPTY,
    }
}

/// Differs from run to run, so that no server's reply cache takes a call for an old one.
pub(crate) fn first_xid() -> u32 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let mixed = now.as_micros() & u128::from(u32::MAX);
    u32::try_from(mixed).unwrap_or_default()
}

/// The results in a reply without its record mark, of a call that was accepted and run.
pub(crate) fn results<'a, T: Decode<'a>>(reply: &'a [u8]) -> Result<T> {
    let mut decoder = Decoder::new(reply);
    let header = ReplyHeader::decode(&mut decoder)?;
    match header.body {
        ReplyBody::Accepted {
            stat: AcceptStat::Success,
            ..
        } => Ok(T::decode(&mut decoder)?),
        other => bail!("the server did not run the call: {other:?}"),
    }
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
