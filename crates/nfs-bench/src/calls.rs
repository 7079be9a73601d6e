//! Calls one by one, as set-up makes them, where time does not matter: encoded, sent, and their replies
//! awaited.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use nfs_wire::auth::{AUTH_SYS, AuthSys, GidList, OpaqueAuth};
use nfs_wire::mount3::{self, Dirpath, MntRes};
use nfs_wire::nfs3::{self, Failure, FileHandle, Procedure, Sattr3};
use nfs_wire::record::{FragmentHeader, RecordCutter, RecordLimits};
use nfs_wire::rpc::{AcceptStat, CallHeader, ReplyBody, ReplyHeader};
use nfs_wire::{Decode, Decoder, Encode, Encoder, encode_to_vec};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use crate::limits;

/// How long MNT may take: ours waits a minute for a file system where too much waits already.
const MOUNT_PATIENCE: Duration = Duration::from_secs(90);

/// Connects to `to`, from the address `from` of this machine where one is given.
///
/// # Errors
/// The server does not accept connections, or `from` is not this machine's.
pub(crate) fn connect(from: Option<Ipv4Addr>, to: SocketAddr) -> Result<TcpStream> {
    let connecting = || format!("connecting to {to}");
    let Some(from) = from else {
        return TcpStream::connect(to).with_context(connecting);
    };
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    bind(&socket, &SocketAddr::from((from, 0)))?;
    rustix::net::connect(&socket, &to).with_context(connecting)?;
    Ok(TcpStream::from(socket))
}

/// The handle of the directory exported as `export` by the MOUNT program at `address`.
pub(crate) fn mount(
    from: Option<Ipv4Addr>,
    address: SocketAddr,
    export: &str,
) -> Result<FileHandle> {
    let mut stream = connect(from, address)?;
    stream.set_read_timeout(Some(MOUNT_PATIENCE))?;
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

/// What the server answers to a call that has to succeed.
///
/// # Errors
/// The connection broke, or the call failed.
pub(crate) fn ask<O, F>(
    stream: &mut TcpStream,
    procedure: Procedure,
    arguments: &impl Encode,
) -> Result<O>
where
    for<'a> Result<O, Failure<F>>: Decode<'a>,
{
    let reply = call_once(stream, &nfs_call(procedure, arguments))?;
    match results::<Result<O, Failure<F>>>(&reply)? {
        Ok(done) => Ok(done),
        Err(failure) => bail!("{procedure:?}: {:?}", failure.status),
    }
}

/// Attributes for a new object that set its permissions and leave the rest to the server.
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
pub(crate) fn call(
    (program, version, procedure): (u32, u32, u32),
    arguments: &impl Encode,
) -> Vec<u8> {
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

/// The credential of every call: root of this machine, in no further groups.
pub(crate) fn auth_body() -> AuthSys<'static> {
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

/// Sends one call, with its record mark, and returns the reply without one.
///
/// # Errors
/// The connection broke.
pub(crate) fn call_once(stream: &mut TcpStream, record: &[u8]) -> Result<Vec<u8>> {
    stream.write_all(record)?;
    let mut cutter = RecordCutter::new(RecordLimits::whole(limits::REPLY_BYTES_MAX));
    let mut buffer = [0; 8192];
    loop {
        let received = stream.read(&mut buffer).context("waiting for a reply")?;
        if received == 0 {
            bail!("the server closed the connection");
        }
        if let Some(reply) = cutter.feed_whole(&mut &buffer[..received])? {
            return Ok(reply.into_owned());
        }
    }
}
