use nfs_wire::auth::OpaqueAuth;
use nfs_wire::rpc::ReplyBody;
use nfs_wire::xdr::Decode as _;
use nfs_wire::{mount3, nfs3, nlm4};

use super::*;

const PROGRAMS: [(u32, u32); 3] = [
    (nfs3::PROGRAM, nfs3::VERSION),
    (mount3::PROGRAM, mount3::VERSION),
    (nlm4::PROGRAM, nlm4::VERSION),
];
const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9));

fn book() -> Book {
    let listeners = ["0.0.0.0:2049", "[::]:2050"].map(|address| address.parse().unwrap());
    Book::new(&listeners, &PROGRAMS, &["0.0.0.0:111".parse().unwrap()])
}

fn call(program: u32, version: u32, procedure: u32, arguments: &impl Encode) -> Vec<u8> {
    let (credential, verifier) = (OpaqueAuth::NONE, OpaqueAuth::NONE);
    let header = CallHeader {
        xid: 77,
        program,
        version,
        procedure,
        credential,
        verifier,
    };
    let mut bytes = Vec::new();
    let mut e = Encoder::new(&mut bytes);
    header.encode(&mut e);
    arguments.encode(&mut e);
    bytes
}

/// The state and the results of the reply to `call`.
fn answer(call: &[u8], transport: Transport) -> (AcceptStat, Vec<u8>) {
    let reply = book().answer(call, transport, LOCAL).unwrap();
    let mut d = Decoder::new(&reply);
    let header = ReplyHeader::decode(&mut d).unwrap();
    assert_eq!(header.xid, 77);
    match header.body {
        ReplyBody::Accepted { stat, .. } => (stat, d.rest().to_vec()),
        ReplyBody::Denied(rejected) => panic!("denied: {rejected:?}"),
    }
}

fn getport(program: u32, version: u32, protocol: u32) -> u32 {
    let asked = portmap::Call::Getport(Mapping {
        program,
        version,
        protocol,
        port: 0,
    });
    let bytes = call(portmap::PROGRAM, 2, asked.procedure() as u32, &asked);
    let (stat, results) = answer(&bytes, Transport::Udp);
    assert_eq!(stat, AcceptStat::Success);
    Decoder::new(&results).u32("port").unwrap()
}

#[test]
fn version_2_gives_ports() {
    assert_eq!(getport(nfs3::PROGRAM, 3, IPPROTO_TCP), 2049);
    assert_eq!(getport(mount3::PROGRAM, 3, IPPROTO_TCP), 2049);
    assert_eq!(getport(nlm4::PROGRAM, 4, IPPROTO_TCP), 2049);
    assert_eq!(getport(portmap::PROGRAM, 2, IPPROTO_UDP), 111);
    // What is not served has port 0: NFS over UDP, NFS version 4, locks of NFSv2, strangers.
    assert_eq!(getport(nfs3::PROGRAM, 3, IPPROTO_UDP), 0);
    assert_eq!(getport(nfs3::PROGRAM, 4, IPPROTO_TCP), 0);
    assert_eq!(getport(nlm4::PROGRAM, 1, IPPROTO_TCP), 0);
    assert_eq!(getport(100_024, 1, IPPROTO_TCP), 0);
}

fn asked(version: u32, netid: &[u8]) -> Rpcb<'_> {
    let address = UniversalAddress(b"");
    Rpcb {
        program: nfs3::PROGRAM,
        version,
        netid,
        address,
        owner: b"",
    }
}

fn address(of: u32, by: &rpcbind::Call<'_>) -> String {
    let bytes = call(portmap::PROGRAM, of, by.procedure() as u32, by);
    let (stat, results) = answer(&bytes, Transport::Tcp);
    assert_eq!(stat, AcceptStat::Success);
    let address = UniversalAddress::decode(&mut Decoder::new(&results)).unwrap();
    String::from_utf8(address.0.to_vec()).unwrap()
}

#[test]
fn versions_3_and_4_give_addresses_that_the_caller_can_reach() {
    for version in [3, 4] {
        let getaddr = |nfs, netid| address(version, &rpcbind::Call::Getaddr(asked(nfs, netid)));
        assert_eq!(getaddr(3, b"tcp"), "10.0.0.9.8.1");
        assert_eq!(getaddr(3, b""), "10.0.0.9.8.1");
        assert_eq!(getaddr(3, b"tcp6"), "::.8.2");
        assert_eq!(getaddr(3, b"udp"), "");
        // Any version leads to the program, whose PROG_MISMATCH tells the rest.
        assert_eq!(getaddr(4, b"tcp"), "10.0.0.9.8.1");
    }
    let versioned = |nfs| address(4, &rpcbind::Call::Getversaddr(asked(nfs, b"tcp")));
    assert_eq!(
        (versioned(3).as_str(), versioned(4).as_str()),
        ("10.0.0.9.8.1", "")
    );
}

#[test]
fn dump_lists_everything_over_tcp_and_nothing_over_udp() {
    let bytes = call(
        portmap::PROGRAM,
        2,
        portmap::Procedure::Dump as u32,
        &portmap::Call::Dump(()),
    );
    let (_, results) = answer(&bytes, Transport::Tcp);
    let list = MappingList::decode(&mut Decoder::new(&results)).unwrap();
    assert_eq!(list.0.len(), 3 + 3 * 2);
    assert_eq!(answer(&bytes, Transport::Udp).0, AcceptStat::ProcUnavail);
    for version in [3, 4] {
        let procedure = rpcbind::Procedure::Dump as u32;
        let bytes = call(
            portmap::PROGRAM,
            version,
            procedure,
            &rpcbind::Call::Dump(()),
        );
        let (_, results) = answer(&bytes, Transport::Tcp);
        let list = RpcbList::decode(&mut Decoder::new(&results)).unwrap();
        assert_eq!(list.0.len(), 6 + 3 * 2);
        assert_eq!(answer(&bytes, Transport::Udp).0, AcceptStat::ProcUnavail);
    }
}

#[test]
fn nobody_can_change_anything() {
    let mapping = Mapping {
        program: 1,
        version: 1,
        protocol: IPPROTO_TCP,
        port: 1,
    };
    for asked in [portmap::Call::Set(mapping), portmap::Call::Unset(mapping)] {
        let bytes = call(portmap::PROGRAM, 2, asked.procedure() as u32, &asked);
        assert_eq!(
            answer(&bytes, Transport::Tcp),
            (AcceptStat::Success, vec![0; 4])
        );
    }
    let asked = rpcbind::Call::Set(asked(3, b"tcp"));
    let bytes = call(portmap::PROGRAM, 3, asked.procedure() as u32, &asked);
    assert_eq!(
        answer(&bytes, Transport::Tcp),
        (AcceptStat::Success, vec![0; 4])
    );
}

#[test]
fn what_is_not_served_is_said_so() {
    let null = portmap::Call::Null(());
    let stat = |bytes: &[u8]| answer(bytes, Transport::Tcp).0;
    assert_eq!(
        stat(&call(portmap::PROGRAM, 2, 0, &null)),
        AcceptStat::Success
    );
    assert_eq!(
        stat(&call(nfs3::PROGRAM, 3, 0, &null)),
        AcceptStat::ProgUnavail
    );
    let mismatch = AcceptStat::ProgMismatch { low: 2, high: 4 };
    assert_eq!(stat(&call(portmap::PROGRAM, 1, 0, &null)), mismatch);
    assert_eq!(stat(&call(portmap::PROGRAM, 5, 0, &null)), mismatch);
    // CALLIT (5), through which others were flooded once, and what does not exist.
    for procedure in [5, 99] {
        assert_eq!(
            stat(&call(portmap::PROGRAM, 2, procedure, &null)),
            AcceptStat::ProcUnavail
        );
        let version_3 = call(portmap::PROGRAM, 3, procedure, &null);
        assert_eq!(stat(&version_3), AcceptStat::ProcUnavail);
    }
    let getversaddr = rpcbind::Procedure::Getversaddr as u32;
    let in_version_3 = call(
        portmap::PROGRAM,
        3,
        getversaddr,
        &rpcbind::Call::Getaddr(asked(3, b"")),
    );
    assert_eq!(stat(&in_version_3), AcceptStat::ProcUnavail);
    assert_eq!(
        stat(&call(portmap::PROGRAM, 2, 3, &null)),
        AcceptStat::GarbageArgs
    );
    let mut too_long = call(portmap::PROGRAM, 2, 0, &null);
    too_long.extend_from_slice(&[0; 4]);
    assert_eq!(stat(&too_long), AcceptStat::GarbageArgs);
}

#[test]
fn a_call_cut_short_anywhere_is_answered_with_an_error_or_not_at_all() {
    let asked = rpcbind::Call::Getaddr(asked(3, b"tcp"));
    let whole = call(portmap::PROGRAM, 3, asked.procedure() as u32, &asked);
    for end in 0..whole.len() {
        let Some(reply) = book().answer(&whole[..end], Transport::Udp, LOCAL) else {
            continue;
        };
        let header = ReplyHeader::decode(&mut Decoder::new(&reply)).unwrap();
        let success = ReplyHeader::accepted(77, AcceptStat::Success);
        assert_ne!(header, success, "{end} bytes of {} are a call", whole.len());
    }
}

#[tokio::test]
async fn it_answers_over_tcp_and_udp() {
    let listeners = ["127.0.0.1:2049".parse().unwrap()];
    let portmap = Portmap::bind(&listeners, &PROGRAMS, 0).await.unwrap();
    let address = portmap.local_addrs().unwrap()[0];
    let server = tokio::spawn(portmap.serve());
    let mapping = Mapping {
        program: nfs3::PROGRAM,
        version: 3,
        protocol: IPPROTO_TCP,
        port: 0,
    };
    let asked = portmap::Call::Getport(mapping);
    let bytes = call(portmap::PROGRAM, 2, asked.procedure() as u32, &asked);

    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(b"garbage", address).await.unwrap();
    socket.send_to(&bytes, address).await.unwrap();
    let mut reply = [0; 100];
    let length = socket.recv(&mut reply).await.unwrap();
    assert_eq!(reply[length - 4..length], 2049u32.to_be_bytes());

    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = FragmentHeader {
        last: true,
        len: u32::try_from(bytes.len()).unwrap(),
    };
    let record = [head.to_bytes().as_slice(), &bytes].concat();
    stream.write_all(&record).await.unwrap();
    stream.read_exact(&mut reply[..length + 4]).await.unwrap();
    assert_eq!(reply[length..length + 4], 2049u32.to_be_bytes());
    // A record beyond the limit ends the connection.
    let head = FragmentHeader {
        last: true,
        len: FragmentHeader::LEN_MAX,
    };
    stream.write_all(&head.to_bytes()).await.unwrap();
    assert_eq!(stream.read(&mut reply).await.unwrap_or(0), 0);
    server.abort();
}

#[test]
fn a_flavor_that_is_not_offered_is_refused() {
    let mut bytes = call(portmap::PROGRAM, 2, 0, &portmap::Call::Null(()));
    // The credential's flavor stands behind xid, type, RPC version, program, version and procedure.
    for (flavor, is_taken) in [(0, true), (1, true), (2, false), (6, false), (7, false)] {
        bytes[24..28].copy_from_slice(&u32::to_be_bytes(flavor));
        let reply = book().answer(&bytes, Transport::Udp, LOCAL).unwrap();
        let header = ReplyHeader::decode(&mut Decoder::new(&reply)).unwrap();
        let denied = ReplyBody::Denied(Rejected::AuthError(AuthStat::RejectedCred));
        assert_eq!(header.body != denied, is_taken, "{flavor}: {header:?}");
    }
}

/// A connection from this loopback address on which a NULL call is answered; `None` where it was closed.
async fn answered_from(address: SocketAddr, last: u8) -> Option<TcpStream> {
    let mut stream = connect_from(address, last).await?;
    let call = call(portmap::PROGRAM, 2, 0, &());
    let len = u32::try_from(call.len()).unwrap();
    let mark = FragmentHeader { last: true, len }.to_bytes();
    stream.write_all(&[&mark[..], &call].concat()).await.ok()?;
    stream.read_exact(&mut [0; 28]).await.ok()?;
    Some(stream)
}

async fn connect_from(address: SocketAddr, last: u8) -> Option<TcpStream> {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    let own = std::net::Ipv4Addr::new(127, 0, 0, last);
    socket.bind((own, 0).into()).unwrap();
    socket.connect(address).await.ok()
}

#[test]
fn peers_that_say_nothing_do_not_keep_others_from_asking() {
    let run = async {
        let listeners = ["127.0.0.1:2049".parse().unwrap()];
        let portmap = Portmap::bind(&listeners, &PROGRAMS, 0).await.unwrap();
        let address = portmap.local_addrs().unwrap()[0];
        let serving = tokio::spawn(portmap.serve());
        let mut silent = Vec::new();
        for host in 2..10 {
            for _ in 0..20 {
                silent.push(connect_from(address, host).await);
            }
        }
        // As soon as one of them was silent for long enough.
        let asked = async {
            while answered_from(address, 1).await.is_none() {
                // SLEEP: time itself is what is waited for.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let patience = Duration::from_secs(limits::PORTMAP_IDLE_SECONDS_MAX / 2);
        let asked = tokio::time::timeout(patience, asked).await;
        assert!(asked.is_ok(), "silent peers have all places");
        serving.abort();
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(run);
}

#[test]
fn a_host_with_all_its_places_silent_loses_one_to_its_next_connection() {
    let run = async {
        let listeners = ["127.0.0.1:2049".parse().unwrap()];
        let portmap = Portmap::bind(&listeners, &PROGRAMS, 0).await.unwrap();
        let address = portmap.local_addrs().unwrap()[0];
        let serving = tokio::spawn(portmap.serve());
        let mut silent = Vec::new();
        for _ in 0..limits::PORTMAP_CONNECTIONS_MAX + 6 {
            silent.push(connect_from(address, 1).await);
        }
        // Other hosts have not to wait for anything.
        assert!(answered_from(address, 2).await.is_some());
        let asked = async {
            while answered_from(address, 1).await.is_none() {
                // SLEEP: time itself is what is waited for.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let patience = Duration::from_secs(limits::PORTMAP_IDLE_SECONDS_MAX / 2);
        let asked = tokio::time::timeout(patience, asked).await;
        assert!(asked.is_ok(), "the host has shut itself out");
        serving.abort();
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(run);
}

/// Waits until the server has closed a connection of which it takes nothing: its end is told as an error of a
/// write, as it had calls left to read.
async fn until_reset(stream: &TcpStream) {
    let reset = async {
        loop {
            stream.ready(tokio::io::Interest::ERROR).await.unwrap();
            if stream.take_error().unwrap().is_some() {
                return;
            }
        }
    };
    let patience = Duration::from_secs(2 * limits::PORTMAP_IDLE_SECONDS_MAX);
    let reset = tokio::time::timeout(patience, reset).await;
    assert!(reset.is_ok(), "kept open");
}

#[test]
fn a_peer_that_takes_no_replies_or_says_nothing_is_let_go() {
    let run = async {
        let listeners = ["127.0.0.1:2049".parse().unwrap()];
        let portmap = Portmap::bind(&listeners, &PROGRAMS, 0).await.unwrap();
        let address = portmap.local_addrs().unwrap()[0];
        let serving = tokio::spawn(portmap.serve());
        let unread = connect_from(address, 1).await.unwrap();
        let dump = call(portmap::PROGRAM, 2, portmap::Procedure::Dump as u32, &());
        let len = u32::try_from(dump.len()).unwrap();
        let mark = FragmentHeader { last: true, len }.to_bytes();
        let calls = [&mark[..], &dump].concat().repeat(1000);
        // Until the server, which cannot write, reads no more.
        let mut sent = 0;
        let mut quiet = 0;
        while quiet < 20 {
            match unread.try_write(&calls[sent % calls.len()..]) {
                Ok(written) => (sent, quiet) = (sent + written, 0),
                Err(_) => {
                    quiet += 1;
                    // SLEEP: whether it reads on is seen after a while.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        let mut silent = connect_from(address, 2).await.unwrap();
        let silent = async {
            let patience = Duration::from_secs(2 * limits::PORTMAP_IDLE_SECONDS_MAX);
            let end = tokio::time::timeout(patience, silent.read(&mut [0; 1])).await;
            assert_eq!(end.expect("kept open").unwrap_or(0), 0);
        };
        tokio::join!(silent, until_reset(&unread));
        serving.abort();
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(run);
}
