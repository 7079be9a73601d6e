//! Calls as the bytes they are, over connections from any address of this machine.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use nfs_client::{Identity, RawConnection};
use nfs_wire::nfs3::{Nfsstat3, Procedure};
use nfs_wire::record::FragmentHeader;
use nfs_wire::rpc::{AcceptStat, ReplyBody, ReplyHeader};
use nfs_wire::{Decode as _, Decoder, Encode};
use tokio::net::{TcpSocket, TcpStream};

/// Longer than anything here takes; what has not come by then is a failure.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A call of the superuser, without its record mark.
pub(crate) fn call(xid: u32, procedure: Procedure, args: &impl Encode) -> Vec<u8> {
    call_as(&Identity::sys(0, 0, &[]), xid, procedure, args)
}

/// A call with this credential, without its record mark.
pub(crate) fn call_as(
    identity: &Identity,
    xid: u32,
    procedure: Procedure,
    args: &impl Encode,
) -> Vec<u8> {
    RawConnection::call_body(xid, nfs_client::nfs3::number(procedure), identity, args)
}

/// These bytes as one record of one fragment.
pub(crate) fn marked(body: &[u8]) -> Vec<u8> {
    let len = body.len() as u32;
    let mark = FragmentHeader { last: true, len }.to_bytes();
    [&mark[..], body].concat()
}

/// A call of the superuser, as it is sent.
pub(crate) fn record(xid: u32, procedure: Procedure, args: &impl Encode) -> Vec<u8> {
    marked(&call(xid, procedure, args))
}

/// The xid of a successful reply and the status in its results.
pub(crate) fn answer(reply: &[u8]) -> (u32, Nfsstat3) {
    let mut decoder = Decoder::new(reply);
    let header = ReplyHeader::decode(&mut decoder).unwrap();
    let accepted = AcceptStat::Success;
    assert!(matches!(header.body, ReplyBody::Accepted { stat, .. } if stat == accepted));
    (header.xid, Nfsstat3::decode(&mut decoder).unwrap())
}

/// A connection from this address of this machine, which is the client of its calls.
pub(crate) async fn connect_from(own: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((own, 0).into()).unwrap();
    socket.connect(to).await
}

/// Looks now and then until this is true.
pub(crate) async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let looked = async {
        while !is_true() {
            // SLEEP: a rest between two looks.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let looked = tokio::time::timeout(DEADLINE, looked).await;
    assert!(looked.is_ok(), "not within {DEADLINE:?}: {what}");
}
