//! Hosts that nobody let in, and hosts that take more than their share of the connections.

mod support;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use nfs_client::{Identity, RawConnection};
use nfs_server::exports::ExportTable;
use nfs_wire::nfs3::Procedure;
use nfs_wire::record::FragmentHeader;
use support::{Served, block_on, scratch};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// Longer than anything here takes; an answer that does not come is a failure.
const DEADLINE: Duration = Duration::from_secs(60);

/// A connection from this loopback address; `None` when it was reset already.
async fn connect_from(served: &Served, last: u8) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    let own = Ipv4Addr::new(127, 0, 0, last);
    socket.bind(SocketAddr::from((own, 0))).unwrap();
    match socket.connect(served.addr).await {
        Ok(stream) => Some(stream),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            None
        }
    }
}

/// A connection from this loopback address over which a call is answered; `None` when the server closed it.
async fn served_from(served: &Served, last: u8) -> Option<TcpStream> {
    let mut stream = connect_from(served, last).await?;
    is_served(&mut stream).await.then_some(stream)
}

/// Whether a NULL call over this connection is answered; if not, the server has closed it.
async fn is_served(stream: &mut TcpStream) -> bool {
    let number = nfs_client::nfs3::number(Procedure::Null);
    let body = RawConnection::call_body(1, number, &Identity::sys(0, 0, &[]), &());
    let len = body.len() as u32;
    let mark = FragmentHeader { last: true, len }.to_bytes();
    let asked = async {
        stream.write_all(&[&mark[..], &body].concat()).await?;
        stream.read_exact(&mut [0; 4]).await
    };
    let asked = tokio::time::timeout(DEADLINE, asked).await;
    match asked.expect("neither served nor closed") {
        Ok(_) => {
            let mut rest = [0; 24];
            stream.read_exact(&mut rest).await.unwrap();
            true
        }
        Err(error) => {
            let kinds = [
                ErrorKind::ConnectionReset,
                ErrorKind::BrokenPipe,
                ErrorKind::UnexpectedEof,
            ];
            assert!(kinds.contains(&error.kind()), "{error}");
            false
        }
    }
}

#[test]
fn a_host_that_no_export_names_is_not_listened_to_until_a_reload_names_it() {
    let served = Served::with(|config| {
        config.server.trust_loopback = true;
        config.exports[0].clients[0].net = "127.0.0.1/32".parse().unwrap();
    });
    block_on(async {
        for _ in 0..100 {
            assert!(served_from(&served, 2).await.is_none());
        }
        assert!(served_from(&served, 1).await.is_some());
        assert_eq!(served.counter("connections_not_admitted"), 100);
        assert_eq!(served.counter("connections_accepted"), 1);

        let mut config = served.config.clone();
        config.exports[0].clients[0].net = "127.0.0.2/32".parse().unwrap();
        served
            .server
            .apply(ExportTable::new(&config).unwrap())
            .unwrap();
        assert!(served_from(&served, 2).await.is_some());
        assert!(served_from(&served, 1).await.is_none());
    });
}

#[test]
fn who_runs_the_server_may_look_at_it_from_its_own_machine() {
    let served = Served::with(|config| config.exports[0].clients.clear());
    block_on(async {
        assert!(served_from(&served, 1).await.is_some());
        let client = served.client().await;
        let refused = nfs_wire::mount3::Mountstat3::Acces;
        assert_eq!(support::mount(&client, b"/").await, Err(refused));
    });
}

/// A server with room for 32 connections, 8 of each host.
fn small() -> Served {
    let change = |config: &mut nfs_server::exports::config::Config| {
        config.server.trust_loopback = true;
        config.exports[0].clients[0].net = "127.0.0.0/8".parse().unwrap();
    };
    Served::within(64, scratch(0o755), None, change)
}

/// Connects until the server takes the connection, which is when another one was idle for long enough.
async fn connect_until_served(served: &Served, last: u8) -> TcpStream {
    let connect = async {
        loop {
            if let Some(stream) = served_from(served, last).await {
                return stream;
            }
            // SLEEP: time itself is what is waited for.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(DEADLINE, connect)
        .await
        .expect("never served")
}

#[test]
fn one_host_has_its_part_of_the_connections_and_its_idlest_one_goes_first() {
    let served = small();
    block_on(async {
        let mut held = Vec::new();
        for _ in 0..8 {
            held.push(served_from(&served, 1).await.unwrap());
        }
        // The first one came first, and spoke last.
        assert!(is_served(&mut held[0]).await);
        let mut other = served_from(&served, 2)
            .await
            .expect("another host has room");
        let mut newcomer = connect_until_served(&served, 1).await;
        assert_eq!(served.counter("connections_displaced"), 1);
        let mut displaced = held.remove(1);
        assert!(!is_served(&mut displaced).await, "it was idle for longest");
        for stream in held.iter_mut().chain([&mut other, &mut newcomer]) {
            assert!(is_served(stream).await);
        }
    });
}

#[test]
fn idle_connections_of_a_few_hosts_do_not_lock_others_out() {
    let served = small();
    block_on(async {
        let mut held = Vec::new();
        for attacker in 1..=4 {
            for _ in 0..8 {
                let mut stream = connect_from(&served, attacker).await.unwrap();
                // Half a mark: in the middle of a call that never comes.
                stream.write_all(&[0x80, 0]).await.unwrap();
                held.push(stream);
            }
        }
        let mut polite = connect_until_served(&served, 9).await;
        // They come again and again, and cost each other their places.
        for _ in 0..20 {
            for attacker in 1..=4 {
                if let Some(mut stream) = connect_from(&served, attacker).await {
                    let _either = stream.write_all(&[0x80, 0]).await;
                    held.push(stream);
                }
            }
            assert!(is_served(&mut polite).await);
        }
        let mut second = connect_until_served(&served, 10).await;
        for stream in [&mut polite, &mut second] {
            assert!(is_served(stream).await);
        }
    });
}
