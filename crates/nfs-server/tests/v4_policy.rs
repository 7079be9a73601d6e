//! The I/O policy and NFSv4's opens: rules that ask how a file is open, and what clients advise (IO_ADVISE).

mod support;

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nfs_io::fs;
use nfs_server::exports::Versions;
use nfs_server::exports::policy::{IoPolicy, Mode, Way, parse_rule};
use nfs_wire::nfs4::ops::{CloseArgs, IoAdviseArgs, IoAdviseType4, Openflag4};
use nfs_wire::nfs4::{ArgOp, Bitmap4, FileHandle, Nfsstat4, ResOp, Stateid4};
use support::page_cache::TRIES;
use support::v4::{Client, open_args, putfh};
use support::{Served, block_on, skip};

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
    stateid: Stateid4,
    kinds: &[IoAdviseType4],
) -> Result<Bitmap4, Nfsstat4> {
    advise_range(client, file, stateid, 0..0, kinds).await
}

async fn advise_range(
    client: &mut Client,
    file: &FileHandle,
    stateid: Stateid4,
    range: Range<u64>,
    kinds: &[IoAdviseType4],
) -> Result<Bitmap4, Nfsstat4> {
    let args = IoAdviseArgs {
        stateid,
        offset: range.start,
        count: range.end - range.start,
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
        let hints = [Sequential, Noreuse];
        let of_all = advise(&mut client, &file, stateid, &hints).await;
        assert_eq!(of_all, Ok(bits(&[Noreuse])));
        read(&mut client, &file, stateid).await;
        assert_eq!(chosen(), [0, 1]);

        let close = ArgOp::Close(CloseArgs {
            seqid: 0,
            open_stateid: stateid,
        });
        client.ok(vec![putfh(&file), close]).await;
        let of_none = advise(&mut client, &file, stateid, &hints).await;
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
        let followed = advise(&mut client, &file, stateid, &hints).await;
        assert_eq!(followed, Ok(Bitmap4::EMPTY));
    });
}

/// How many bytes of a range of the served file are in the page cache; `None` where the kernel does not say.
fn cached(served: &Served, range: Range<u64>) -> Option<u64> {
    let file = File::open(served.path().join("f")).unwrap();
    let found = fs::cachestat(file.as_fd(), range.start, range.end - range.start).ok()?;
    Some(found.cached * 4096)
}

/// Takes the served file out of the page cache; false where it cannot go (a file system in memory).
fn is_out_of_cache(served: &Served) -> bool {
    let file = File::open(served.path().join("f")).unwrap();
    (0..TRIES).any(|_| {
        file.sync_all().unwrap();
        fs::drop_cached(file.as_fd()).unwrap();
        cached(served, 0..LEN as u64) == Some(0)
    })
}

#[test]
fn what_is_said_of_a_range_is_done_to_the_page_cache() {
    use IoAdviseType4::{Dontneed, Willneed};
    const RANGE: Range<u64> = 256 << 10..320 << 10;
    let served = serve(IoPolicy {
        read: Mode::Buffered.into(),
        write: Mode::Buffered.into(),
        ..IoPolicy::default()
    });
    if !is_out_of_cache(&served) {
        skip!("a file system of which pages can be let go, and cachestat(2)");
    }
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let open = open_args(b"f", READ, Openflag4::Nocreate);
        let (file, stateid) = client.open(&root, open).await.unwrap();
        let kinds = [Willneed];
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            // Again each time: where memory is short, what was read may have gone before it is looked at.
            let followed = advise_range(&mut client, &file, stateid, RANGE, &kinds).await;
            assert_eq!(followed, Ok(bits(&[Willneed])));
            if cached(&served, RANGE) == Some(RANGE.end - RANGE.start) {
                break;
            }
            assert!(Instant::now() < end, "{:?}", cached(&served, RANGE));
            // SLEEP: the kernel reads by itself.
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(
            cached(&served, RANGE.end..LEN as u64),
            Some(0),
            "no more than asked for"
        );
        let absurd = u64::MAX - 1..u64::MAX;
        let followed = advise_range(&mut client, &file, stateid, absurd, &kinds).await;
        assert!(followed.is_ok());

        // As long as somebody else has it open, whose pages they are as well.
        let mut other = Client::new(&served, 2, b"other").await;
        let open = open_args(b"f", READ, Openflag4::Nocreate);
        let (_, others) = other.open(&root, open).await.unwrap();
        let kinds = [Dontneed];
        let followed = advise_range(&mut client, &file, stateid, RANGE, &kinds).await;
        assert_eq!(followed, Ok(Bitmap4::EMPTY));
        let close = ArgOp::Close(CloseArgs {
            seqid: 0,
            open_stateid: others,
        });
        other.ok(vec![putfh(&file), close]).await;
        let mut left = Vec::new();
        for _ in 0..TRIES {
            let followed = advise_range(&mut client, &file, stateid, RANGE, &kinds).await;
            assert_eq!(followed, Ok(bits(&[Dontneed])));
            left.push(cached(&served, RANGE));
        }
        assert!(left.contains(&Some(0)), "{left:?}");
    });
}

#[test]
fn the_page_cache_is_left_alone_where_reads_pass_it_by() {
    let served = serve(IoPolicy {
        read: Mode::Direct.into(),
        ..IoPolicy::default()
    });
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let open = open_args(b"f", READ, Openflag4::Nocreate);
        let (file, stateid) = client.open(&root, open).await.unwrap();
        for kind in [IoAdviseType4::Willneed, IoAdviseType4::Dontneed] {
            let followed = advise_range(&mut client, &file, stateid, 0..4096, &[kind]).await;
            assert_eq!(followed, Ok(Bitmap4::EMPTY));
        }
    });
}

#[test]
fn a_range_has_a_hint_of_its_own() {
    use IoAdviseType4::{Noreuse, Normal};
    let served = serve(IoPolicy {
        read: Way::Auto,
        ..IoPolicy::default()
    });
    let chosen = || chosen(&served, ["buffered", "direct"]);
    block_on(async {
        let mut client = Client::new(&served, 2, b"reader").await;
        let root = client.root().await;
        let open = open_args(b"f", READ, Openflag4::Nocreate);
        let (file, stateid) = client.open(&root, open).await.unwrap();
        // Of a range that is not read: the file's READs go as ever.
        let far = 1 << 40..1 << 41;
        let followed = advise_range(&mut client, &file, stateid, far, &[Noreuse]).await;
        assert_eq!(followed, Ok(bits(&[Noreuse])));
        read(&mut client, &file, stateid).await;
        assert_eq!(chosen(), [1, 0]);
        let all = 0..LEN as u64;
        let followed = advise_range(&mut client, &file, stateid, all, &[Noreuse, Normal]).await;
        assert_eq!(followed, Ok(bits(&[Noreuse])));
        let mut reads = 0;
        while chosen()[1] == 0 && reads < 200 {
            read(&mut client, &file, stateid).await;
            reads += 1;
        }
        assert!(chosen()[1] > 0, "not as advised after {reads} READs");
    });
}
