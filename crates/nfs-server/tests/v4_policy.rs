//! The I/O policy and NFSv4's opens: rules that ask how a file is open, and what clients advise (IO_ADVISE).

mod support;

use nfs_server::exports::Versions;
use nfs_server::exports::policy::{IoPolicy, Mode, Way, parse_rule};
use nfs_wire::nfs4::ops::{CloseArgs, IoAdviseArgs, IoAdviseType4, Openflag4};
use nfs_wire::nfs4::{ArgOp, Bitmap4, FileHandle, Nfsstat4, ResOp, Stateid4};
use support::v4::{Client, open_args, putfh};
use support::{Served, block_on};

const READ: u32 = 1;
const BOTH: u32 = 3;
const DENY_WRITE: u32 = 2;
const LEN: usize = 1 << 20;

fn serve(io: IoPolicy) -> Served {
    let served = Served::with(|config| {
        config.server.versions = Versions::ALL;
        config.exports[0].io = io;
    });
    std::fs::write(served.path().join("f"), vec![7; LEN]).unwrap();
    served
}

/// How many READs were chosen to go in each of these modes.
fn chosen<const N: usize>(served: &Served, modes: [&str; N]) -> [u64; N] {
    let rows = served.server.io();
    modes.map(|mode| {
        let of_mode = rows
            .iter()
            .filter(|row| row.operation == "read" && row.mode == mode);
        of_mode.map(|row| row.calls).sum()
    })
}

async fn advise(
    client: &mut Client,
    file: &FileHandle,
    (stateid, offset): (Stateid4, u64),
    kinds: &[IoAdviseType4],
) -> Result<Bitmap4, Nfsstat4> {
    let args = IoAdviseArgs {
        stateid,
        offset,
        count: 0,
        hints: bits(kinds),
    };
    client
        .call(
            vec![putfh(file), ArgOp::IoAdvise(args)],
            |status, results| match results {
                [_, ResOp::IoAdvise(Ok(ok))] => Ok(ok.hints),
                _ => Err(status),
            },
        )
        .await
}

fn bits(kinds: &[IoAdviseType4]) -> Bitmap4 {
    let numbers: Vec<u32> = kinds.iter().map(|kind| *kind as u32).collect();
    Bitmap4::of(&numbers)
}

async fn read(client: &mut Client, file: &FileHandle, stateid: Stateid4) {
    let (data, eof) = client.read(file, stateid, (0, LEN as u32)).await.unwrap();
    assert!(eof && data == [7; LEN]);
}

#[test]
fn rules_see_how_a_file_is_open() {
    let rules = [
        "open=read,deny=write,mode=direct",
        "open=read,mode=dontcache",
    ];
    let served = serve(IoPolicy {
        rules: rules.map(|rule| parse_rule(rule).unwrap()).to_vec(),
        ..IoPolicy::default()
    });
    let chosen = || chosen(&served, ["buffered", "dontcache", "direct"]);
    block_on(async {
        let mut client = Client::new(&served, 2, b"reader").await;
        let root = client.root().await;
        let open = open_args(b"f", READ, Openflag4::Nocreate);
        let (file, plain) = client.open(&root, open).await.unwrap();
        read(&mut client, &file, plain).await;
        assert_eq!(chosen(), [0, 1, 0]);
        read(&mut client, &file, Stateid4::ANONYMOUS).await;
        assert_eq!(chosen(), [1, 1, 0]);

        // The same owner opens it again, and denies something.
        let mut open = open_args(b"f", READ, Openflag4::Nocreate);
        open.share_deny = DENY_WRITE;
        let (_, denying) = client.open(&root, open).await.unwrap();
        read(&mut client, &file, denying).await;
        assert_eq!(chosen(), [1, 1, 1]);

        let open = open_args(b"f", BOTH, Openflag4::Nocreate);
        let (_, both) = client.open(&root, open).await.unwrap();
        read(&mut client, &file, both).await;
        assert_eq!(chosen(), [2, 1, 1]);
    });
}

#[test]
fn what_a_client_advises_counts_until_it_closes_the_file() {
    use IoAdviseType4::{Noreuse, Sequential};
    let served = serve(IoPolicy {
        read: Way::Auto,
        ..IoPolicy::default()
    });
    let chosen = || chosen(&served, ["buffered", "direct"]);
    block_on(async {
        let mut client = Client::new(&served, 2, b"reader").await;
        let root = client.root().await;
        let open = || open_args(b"f", READ, Openflag4::Nocreate);
        let (file, stateid) = client.open(&root, open()).await.unwrap();
        // Of a part of the file nothing is kept.
        let of_a_part = advise(&mut client, &file, (stateid, 4096), &[Noreuse]).await;
        assert_eq!(of_a_part, Ok(Bitmap4::EMPTY));
        let hints = [Sequential, Noreuse];
        let of_all = advise(&mut client, &file, (stateid, 0), &hints).await;
        assert_eq!(of_all, Ok(bits(&[Noreuse])));
        read(&mut client, &file, stateid).await;
        assert_eq!(chosen(), [0, 1]);

        let close = ArgOp::Close(CloseArgs {
            seqid: 0,
            open_stateid: stateid,
        });
        client.ok(vec![putfh(&file), close]).await;
        let of_none = advise(&mut client, &file, (stateid, 0), &hints).await;
        assert_eq!(of_none, Err(Nfsstat4::BadStateid));
        // What was chosen holds for a while; then the file is small enough for memory again.
        let (_, stateid) = client.open(&root, open()).await.unwrap();
        let mut reads = 0;
        while chosen()[0] == 0 && reads < 200 {
            read(&mut client, &file, stateid).await;
            reads += 1;
        }
        assert!(chosen()[0] > 0, "still as advised after {reads} READs");
    });
}

#[test]
fn no_advice_is_followed_where_modes_are_fixed() {
    let served = serve(IoPolicy {
        read: Mode::Buffered.into(),
        write: Mode::Buffered.into(),
        ..IoPolicy::default()
    });
    block_on(async {
        let mut client = Client::new(&served, 2, b"reader").await;
        let root = client.root().await;
        let open = open_args(b"f", READ, Openflag4::Nocreate);
        let (file, stateid) = client.open(&root, open).await.unwrap();
        let hints = [IoAdviseType4::Noreuse];
        let followed = advise(&mut client, &file, (stateid, 0), &hints).await;
        assert_eq!(followed, Ok(Bitmap4::EMPTY));
    });
}
