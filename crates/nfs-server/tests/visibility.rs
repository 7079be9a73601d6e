//! What hosts are told that an export lets in, and what those are told that none does; and that each is counted.

mod support;

use std::net::IpAddr;
use std::time::Duration;

use nfs_client::connection::Reconnect;
use nfs_client::mount3::Mount3;
use nfs_client::{ConnectOptions, Connection, Identity, Nfs3, RpcError, Target};
use nfs_server::exports::ExportTable;
use nfs_server::exports::config::{ClientConfig, Config, ExportConfig};
use nfs_server::operate::control::{Asker, BlockOrder};
use nfs_wire::mount3::Mountstat3;
use nfs_wire::nfs3::{FileHandle, Nfsstat3};
use support::{Served, block_on, mount, ok, status};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpSocket;

/// Serves one directory as several exports, each to the clients of one network.
fn served(exports: &[(&str, &str)]) -> Served {
    Served::with(|config| {
        config.server.trust_loopback = true;
        let path = config.exports[0].path.clone();
        config.exports = exports
            .iter()
            .map(|(pseudo, net)| ExportConfig {
                clients: vec![ClientConfig {
                    net: net.parse().unwrap(),
                    privileged_port: *pseudo == "/port",
                    ..ClientConfig::default()
                }],
                ..ExportConfig::new(&path, *pseudo)
            })
            .collect();
    })
}

/// A client at this address of this machine, which is another host to the server: it trusts loopback.
async fn client_at(served: &Served, source: &str) -> Nfs3 {
    connected(served, source, Reconnect::Resend).await
}

async fn connected(served: &Served, source: &str, reconnect: Reconnect) -> Nfs3 {
    try_connected(served, source, reconnect).await.unwrap()
}

async fn try_connected(
    served: &Served,
    source: &str,
    reconnect: Reconnect,
) -> Result<Nfs3, RpcError> {
    let target = Target::new(served.addr.ip().to_string(), served.addr.port());
    let options = ConnectOptions {
        source: Some(source.parse::<IpAddr>().unwrap()),
        reconnect,
        ..ConnectOptions::default()
    };
    let connection = Connection::connect(target, options).await?;
    Ok(Nfs3::new(connection, Identity::sys(0, 0, &[])))
}

fn mount_program(client: &Nfs3) -> Mount3 {
    Mount3::new(client.connection().clone(), client.identity().clone())
}

/// The list of exports: path and networks.
async fn exports(client: &Nfs3) -> Vec<(String, Vec<String>)> {
    let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).unwrap();
    let list = mount_program(client).export().await.unwrap();
    list.iter()
        .map(|entry| {
            (
                text(&entry.directory),
                entry.groups.iter().map(text).collect(),
            )
        })
        .collect()
}

#[test]
fn a_host_is_told_of_the_exports_that_list_it_and_of_its_own_rule() {
    let served = served(&[
        ("/all", "127.0.0.0/8"),
        ("/one", "127.0.0.2/32"),
        ("/port", "127.0.0.3/32"),
        ("/else", "10.0.0.0/8"),
    ]);
    block_on(async {
        let own = |pseudo: &str, net: &str| (pseudo.to_owned(), vec![net.to_owned()]);
        let all = own("/all", "127.0.0.0/8");
        for (source, also) in [
            ("127.0.0.1", vec![]),
            ("127.0.0.2", vec![own("/one", "127.0.0.2/32")]),
            // Listed, whatever port it has to come from.
            ("127.0.0.3", vec![own("/port", "127.0.0.3/32")]),
        ] {
            let client = client_at(&served, source).await;
            let expected = [vec![all.clone()], also].concat();
            assert_eq!(exports(&client).await, expected, "{source}");
        }
    });
}

#[test]
fn a_host_is_shown_its_own_mounts_and_nobody_elses() {
    let served = served(&[("/a", "127.0.0.0/8"), ("/b", "127.0.0.0/8")]);
    block_on(async {
        let one = client_at(&served, "127.0.0.1").await;
        let two = client_at(&served, "127.0.0.2").await;
        mount(&one, b"/a").await.unwrap();
        mount(&two, b"/b").await.unwrap();
        for (client, host, path) in [(&one, "127.0.0.1", "/a"), (&two, "127.0.0.2", "/b")] {
            let listed = mount_program(client).dump().await.unwrap();
            assert_eq!(listed.len(), 1);
            assert_eq!(listed[0].hostname, host.as_bytes());
            assert_eq!(listed[0].directory, path.as_bytes());
        }
    });
    assert_eq!(served.counter("mounts_granted"), 2);
}

#[test]
fn a_mount_is_refused_for_its_own_reason_and_counted_as_such() {
    let served = served(&[
        ("/all", "127.0.0.0/8"),
        ("/port", "127.0.0.0/8"),
        ("/else", "10.0.0.0/8"),
    ]);
    block_on(async {
        let client = client_at(&served, "127.0.0.1").await;
        for (path, expected, counter) in [
            ("/port", Mountstat3::Acces, "mounts_refused_port"),
            ("/else", Mountstat3::Acces, "mounts_refused_host"),
            ("/nowhere", Mountstat3::Noent, "mounts_of_no_path"),
            ("/all/nothing", Mountstat3::Noent, "mounts_of_no_path"),
        ] {
            let before = served.counter(counter);
            assert_eq!(
                mount(&client, path.as_bytes()).await,
                Err(expected),
                "{path}"
            );
            assert_eq!(served.counter(counter), before + 1, "{path}");
        }
    });
    assert_eq!(served.counter("mounts_granted"), 0);
}

#[test]
fn a_client_is_noted_when_it_uses_an_export_for_the_first_time_without_a_mount_too() {
    let exports = [("/a", "127.0.0.0/8"), ("/b", "127.0.0.0/8")];
    let before = served(&exports);
    let handles = block_on(async {
        let client = client_at(&before, "127.0.0.1").await;
        let (a, b) = (mount(&client, b"/a").await, mount(&client, b"/b").await);
        (a.unwrap(), b.unwrap())
    });
    assert_eq!(before.counter("first_uses"), 0);
    let config = before.config.clone();
    let (files, state) = before.stop();
    // The handles outlive the server.
    let after = Served::over(files, Some(state), |fresh| *fresh = config);
    block_on(async {
        for (source, expected) in [("127.0.0.1", [1, 2]), ("127.0.0.2", [3, 4])] {
            for _connection in 0..2 {
                let client = client_at(&after, source).await;
                ok(client.getattr(&handles.0).await);
                ok(client.getattr(&handles.1).await);
                ok(client.getattr(&handles.0).await);
            }
            assert_eq!(after.counter("first_uses"), expected[1]);
        }
    });
    assert_eq!(after.counter("mounts_granted"), 0);
}

#[test]
fn a_host_of_another_export_gets_nothing_of_this_one() {
    let served = served(&[("/a", "127.0.0.1/32"), ("/b", "127.0.0.2/32")]);
    block_on(async {
        let one = client_at(&served, "127.0.0.1").await;
        let root = mount(&one, b"/a").await.unwrap();
        let two = client_at(&served, "127.0.0.2").await;
        mount(&two, b"/b").await.unwrap();
        assert_eq!(mount(&two, b"/a").await, Err(Mountstat3::Acces));
        assert_eq!(status(two.getattr(&root).await), Nfsstat3::Acces);
        assert_eq!(exports(&two).await.len(), 1);
    });
    assert_eq!(served.counter("calls_refused_host"), 1);
}

/// Somebody whose network was taken out of the configuration is a stranger from then on.
#[test]
fn a_stranger_learns_nothing_and_its_handles_are_worth_nothing() {
    let served = served(&[("/a", "127.0.0.0/8")]);
    block_on(async {
        let client = client_at(&served, "127.0.0.1").await;
        let root = mount(&client, b"/a").await.unwrap();
        let mut config: Config = served.config.clone();
        config.exports[0].clients[0].net = "10.0.0.0/8".parse().unwrap();
        served
            .server
            .apply(ExportTable::new(&config).unwrap())
            .unwrap();
        assert_eq!(exports(&client).await, []);
        assert_eq!(mount_program(&client).dump().await.unwrap().len(), 0);
        // What is exported and what is not looks the same.
        for path in ["/a", "/nowhere", "/"] {
            let got = mount(&client, path.as_bytes()).await;
            assert_eq!(got, Err(Mountstat3::Acces), "{path}");
        }
        assert_eq!(status(client.getattr(&root).await), Nfsstat3::Acces);
    });
    assert_eq!(served.counter("mounts_refused_host"), 3);
    assert_eq!(served.counter("calls_refused_host"), 1);
}

/// Calls until the connection is closed: a call that was on its way may still be answered.
async fn until_closed(client: &Nfs3, root: &FileHandle) {
    let called = async { while client.getattr(root).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, called).await.unwrap();
}

const PATIENCE: Duration = Duration::from_secs(20);

const ROOT: Asker = Asker { uid: 0, pid: None };

#[test]
fn a_blocked_host_is_shut_out_and_waits_until_it_is_let_in_again() {
    let served = served(&[("/a", "127.0.0.0/8")]);
    block_on(async {
        let other = connected(&served, "127.0.0.1", Reconnect::Never).await;
        let root = mount(&other, b"/a").await.unwrap();
        let once = connected(&served, "127.0.0.2", Reconnect::Never).await;
        let patient = client_at(&served, "127.0.0.2").await;
        ok(once.getattr(&root).await);
        ok(patient.getattr(&root).await);
        let idle = TcpSocket::new_v4().unwrap();
        idle.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let mut idle = idle.connect(served.addr).await.unwrap();
        let order = BlockOrder {
            net: "127.0.0.2".to_owned(),
            minutes: None,
        };
        let blocked = served.server.block(&order, ROOT).unwrap();
        assert_eq!(blocked[0].net, "127.0.0.2/32");
        // The connections that it had end, also one over which nothing comes, and new ones bring it nothing.
        until_closed(&once, &root).await;
        let ended = tokio::time::timeout(PATIENCE, idle.read(&mut [0])).await;
        assert!(matches!(ended.unwrap(), Ok(0) | Err(_)));
        // Refused at once or, where the refusal comes later, at its first call.
        if let Ok(new) = try_connected(&served, "127.0.0.2", Reconnect::Never).await {
            assert!(new.null().await.is_err());
        }
        assert!(served.counter("connections_blocked") > 0);
        assert_eq!(served.server.status().blocked[0].net, "127.0.0.2/32");
        // Nobody else notices anything.
        ok(other.getattr(&root).await);
        let waits = async { ok(patient.getattr(&root).await) };
        let lifts = async {
            let error = served.server.unblock("127.0.0.0/8", ROOT).unwrap_err();
            assert!(
                error.contains("name the network that is: 127.0.0.2/32"),
                "{error}"
            );
            assert_eq!(served.server.unblock("127.0.0.2", ROOT), Ok(vec![]));
        };
        tokio::join!(waits, lifts);
    });
}

#[test]
fn a_connection_is_closed_by_its_address_or_by_address_and_port() {
    let served = served(&[("/a", "127.0.0.0/8")]);
    block_on(async {
        let clients = async |source: &str| {
            let client = connected(&served, source, Reconnect::Never).await;
            let root = mount(&client, b"/a").await.unwrap();
            (client, root)
        };
        let (one, two, other) = (
            clients("127.0.0.2").await,
            clients("127.0.0.2").await,
            clients("127.0.0.3").await,
        );
        let port = one.0.connection().source_port().unwrap();
        let exactly = format!("127.0.0.2:{port}");
        assert_eq!(served.server.disconnect(&exactly, ROOT), Ok(1));
        until_closed(&one.0, &one.1).await;
        ok(two.0.getattr(&two.1).await);
        assert_eq!(served.server.disconnect("127.0.0.2", ROOT), Ok(1));
        until_closed(&two.0, &two.1).await;
        ok(other.0.getattr(&other.1).await);
        for (wrong, cure) in [
            ("127.0.0.2", "has no connection"),
            ("here", "is no address"),
        ] {
            let error = served.server.disconnect(wrong, ROOT).unwrap_err();
            assert!(error.contains(cure), "{error}");
        }
        // It may come again.
        clients("127.0.0.2").await;
    });
}
