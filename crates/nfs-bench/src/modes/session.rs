//! What happens before the clock runs: mounting, finding or making the file, asking what sizes the server takes;
//! and the COMMIT at the end.

use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nfs_wire::nfs3::{
    CommitArgs, CommitOk, CreateArgs, CreateHow, CreateOk, DirOpArgs, FileHandle, Filename,
    FsinfoArgs, FsinfoOk, LookupArgs, LookupOk, PostOpAttr, Procedure, WccData,
};

use super::work::Direction;
use crate::calls::{ask, mode, mount};
use crate::limits;
use crate::servers::Place;

/// How long a read from the socket may wait: a lost reply must end the run with a message, but a COMMIT of
/// gigabytes may take its time.
const PATIENCE: Duration = Duration::from_secs(120);

/// A mounted export and one file of it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) stream: TcpStream,
    pub(crate) file: FileHandle,
    /// Largest READ or WRITE that the server takes and that is asked for, in bytes.
    pub(crate) piece_bytes: u32,
}

impl Session {
    /// Mounts and opens `name`, which must be there or is made. `direction`: what is to be done with it.
    pub(crate) fn open(
        place: &Place,
        name: &str,
        direction: Direction,
        is_made: bool,
    ) -> Result<Self> {
        let mut stream = TcpStream::connect(place.nfs)
            .with_context(|| format!("connecting to {}", place.nfs))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let root = mount(None, place.mount, &place.export)?;
        let fsinfo = FsinfoArgs { fsroot: root };
        let info = ask::<FsinfoOk, PostOpAttr>(&mut stream, Procedure::Fsinfo, &fsinfo)?;
        let file = if is_made {
            create(&mut stream, root, name)?
        } else {
            lookup(&mut stream, root, name)?
        };
        let largest = match direction {
            Direction::Read => info.rtmax,
            Direction::Write => info.wtmax,
        };
        if largest == 0 || largest % 4 != 0 {
            bail!("the server takes transfers of {largest} bytes, which is no use");
        }
        Ok(Self {
            stream,
            file,
            piece_bytes: largest.min(limits::PIECE_BYTES_MAX),
        })
    }

    /// Makes what was written stable; gives the write verifier.
    pub(crate) fn commit(&mut self) -> Result<[u8; 8]> {
        let call = CommitArgs {
            file: self.file,
            offset: 0,
            count: 0,
        };
        let done = ask::<CommitOk, WccData>(&mut self.stream, Procedure::Commit, &call)?;
        Ok(done.verf)
    }
}

fn lookup(stream: &mut TcpStream, dir: FileHandle, name: &str) -> Result<FileHandle> {
    let what = DirOpArgs {
        dir,
        name: Filename(name.as_bytes()),
    };
    let found = ask::<LookupOk, PostOpAttr>(stream, Procedure::Lookup, &LookupArgs { what });
    Ok(found.with_context(|| name.to_owned())?.object)
}

fn create(stream: &mut TcpStream, dir: FileHandle, name: &str) -> Result<FileHandle> {
    let create = CreateArgs {
        where_: DirOpArgs {
            dir,
            name: Filename(name.as_bytes()),
        },
        how: CreateHow::Guarded(mode(0o644)),
    };
    let made = ask::<CreateOk, WccData>(stream, Procedure::Create, &create);
    let made = made.with_context(|| name.to_owned())?;
    made.obj.context("CREATE gave no handle")
}
