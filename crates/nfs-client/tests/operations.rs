//! What the client counts of its operations, held against what the server has seen.

mod double;

use std::collections::BTreeMap;

use double::Double;
use double::faults::{Fault, Profile};
use nfs_client::connection::{Kind, Operation};
use nfs_client::nfs3::Nfsstat3;
use nfs_client::{Client, Statistics};
use nfs_wire::nfs3::Procedure;

/// The operations of NFSv3 by their names.
fn counted(statistics: &Statistics) -> BTreeMap<&'static str, Operation> {
    let operations = statistics.operations.iter();
    let ours = operations.filter(|one| matches!(one.kind, Kind::Nfs3(_)));
    ours.map(|one| (one.kind.name(), one.clone())).collect()
}

async fn client(seed: u64) -> (Double, Client) {
    let double = Double::start(seed).await;
    let (client, _) = Client::mount(&double.url("")).await.unwrap();
    (double, client)
}

#[tokio::test]
async fn each_operation_is_counted_once() {
    let (double, client) = client(1).await;
    let before = client.statistics();
    assert!(!counted(&before).contains_key("CREATE"));
    let file = client.create(b"file", 0o600).await.unwrap();
    file.write_at(0, vec![7_u8; 10_000]).await.unwrap();
    file.close().await.unwrap();
    for _ in 0..5 {
        client.stat(b"file").await.unwrap();
    }
    for _ in 0..3 {
        let error = client.stat(b"missing").await.unwrap_err();
        assert_eq!(error.status(), Some(Nfsstat3::Noent));
    }
    let file = client.open(b"file").await.unwrap();
    let read = file.read_at(0, 10_000).await.unwrap();
    assert_eq!(read.data.len(), 10_000);
    let statistics = client.statistics();
    let after = counted(&statistics);
    let known = |name: &str| Procedure::ALL.iter().find(|one| one.name() == name);
    for (name, one) in &after {
        assert_eq!(one.ops, double.calls(*known(name).unwrap()), "{name}");
        assert_eq!((one.calls, one.transmissions), (one.ops, one.ops), "{name}");
        let failed = [one.refused, one.timeouts, one.disconnected, one.given_up];
        assert_eq!(
            (one.resent, one.in_flight, failed),
            (0, 0, [0; 4]),
            "{name}"
        );
        for times in [&one.queue, &one.rtt, &one.execute] {
            let classes = times.classes().map(|(_, count)| count);
            assert_eq!(classes.sum::<u64>(), one.ops, "{name}");
        }
        assert_eq!(one.execute.total(), one.queue.total() + one.rtt.total());
        assert!(one.rtt.quantile(0.5) <= one.rtt.quantile(0.99));
        assert!(one.rtt.quantile(0.99) <= one.rtt.max());
    }
    assert_eq!(after["CREATE"].ops, 1);
    assert_eq!(after["LOOKUP"].statuses, [(Nfsstat3::Noent as u32, 3)]);
    let bytes = |name: &str| (after[name].bytes_sent, after[name].bytes_received);
    assert!((10_000..10_400).contains(&bytes("WRITE").0));
    assert!((10_000..10_400).contains(&bytes("READ").1));
    assert_eq!(after["WRITE"].errors, 0);
    assert_eq!(statistics.connections_up, 1);
    let calls: u64 = statistics.operations.iter().map(|one| one.ops).sum();
    assert_eq!(statistics.transport.replies, calls);
    let new = statistics.since(&before).unwrap();
    assert_eq!(counted(&new)["CREATE"].ops, 1);
    assert_eq!(before.since(&statistics), None);
}

#[tokio::test]
async fn what_is_sent_again_is_counted_again() {
    let (double, client) = client(2).await;
    double.misbehave(Profile {
        faults: vec![(Fault::CloseAfter, 4)],
        remembers: true,
    });
    let (earlier, before) = (double.calls(Procedure::Getattr), client.statistics());
    for _ in 0..40 {
        client.nfs().getattr(client.root()).await.unwrap().unwrap();
    }
    double.behave();
    let new = client.statistics().since(&before).unwrap();
    let getattr = &counted(&new)["GETATTR"];
    let lost = double.count(Fault::CloseAfter);
    assert!(lost > 0);
    assert_eq!((getattr.ops, getattr.resent), (40, lost));
    assert_eq!(
        getattr.transmissions,
        double.calls(Procedure::Getattr) - earlier
    );
    assert_eq!(
        (new.transport.resent_calls, new.transport.reconnects),
        (lost, lost)
    );
}

#[tokio::test]
async fn a_server_that_is_not_ready_is_counted_by_its_status_and_waited_for() {
    let (double, client) = client(3).await;
    double.misbehave(Profile {
        faults: vec![(Fault::Jukebox, 5)],
        remembers: true,
    });
    for _ in 0..20 {
        client.nfs().getattr(client.root()).await.unwrap().unwrap();
    }
    double.behave();
    let waits = double.count(Fault::Jukebox);
    assert!(waits > 0);
    let statistics = client.statistics();
    let getattr = &counted(&statistics)["GETATTR"];
    assert_eq!(getattr.statuses, [(Nfsstat3::Jukebox as u32, waits)]);
    assert_eq!(statistics.transport.jukebox_waits, waits);
    assert!(!statistics.transport.jukebox_waited.is_zero());
}

#[tokio::test]
async fn reads_tell_whether_they_were_read_ahead_and_windows_where_they_are() {
    let (_double, client) = client(4).await;
    let file = client.create(b"file", 0o600).await.unwrap();
    file.write_at(0, vec![7_u8; 8 << 20]).await.unwrap();
    file.sync().await.unwrap();
    let mut stream = file.stream(0);
    let mut pieces = 0;
    while stream.next().await.unwrap().is_some() {
        pieces += 1;
    }
    for _ in 0..5 {
        file.stat().await.unwrap();
    }
    let statistics = client.statistics();
    let cache = statistics.cache;
    assert!(cache.data_ahead + cache.data_coming > 0, "{cache:?}");
    let served = cache.data_ahead + cache.data_coming + cache.data_asked;
    assert!(served >= pieces, "{cache:?} for {pieces} pieces");
    assert_eq!(cache.attributes_known + cache.attributes_asked, 5);
    assert!(cache.attributes_known >= 4, "{cache:?}");
    let windows = statistics.windows;
    assert_eq!(windows.files, 1);
    assert!(windows.memory_bytes_peak >= u64::from(client.transfer_sizes().read));
    assert!(windows.memory_bytes <= windows.memory_bytes_peak);
}
