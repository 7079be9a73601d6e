//! Who counts as one client: what wcc_data says when changes by several of them overlap.
//!
//! The attributes from before a change say to a client: between these and the ones after lies your change
//! and nothing else (RFC 1813 §2.6). Whoever is told another's change as its own keeps a stale cache.

mod support;

use std::os::unix::fs::PermissionsExt;

use bytes::Bytes;
use nfs_client::{Identity, Nfs3};
use nfs_server::exports::config::EngineChoice;
use nfs_server::exports::policy::{IoPolicy, Mode};
use nfs_wire::nfs3::{CreateHow, FileHandle, Nfstime3, Sattr3, StableHow, WccData};
use support::{Served, block_on, connect, create, mkdir, mode, ok};
use tokio::task::JoinSet;

const MODES: [Mode; 3] = [Mode::Buffered, Mode::DontCache, Mode::Direct];
const ENGINES: [EngineChoice; 2] = [EngineChoice::Auto, EngineChoice::Threads];
/// Today's faults of this kind showed in every tenth trial or so.
const TRIALS: u64 = 40;
const BLOCK: u64 = 4096;

/// Two shards, so that the two clients' calls run at the same time.
fn served(mode: Mode, engine: EngineChoice) -> Served {
    Served::with(|config| {
        config.server.shards = Some(2);
        config.server.engine = engine;
        config.exports[0].io = IoPolicy {
            write: mode.into(),
            ..IoPolicy::default()
        };
    })
}

/// A connection of its own, from this address, as the superuser of a machine of this name.
async fn machine(served: &Served, name: &[u8]) -> Nfs3 {
    connect(served.addr, Identity::sys_unchecked(name, 0, 0, &[])).await
}

/// What was told of one change, if anything was: the ctime before, if told, and after it, and whether the size changed.
struct Told {
    before: Option<Nfstime3>,
    after: Nfstime3,
    grew: bool,
}

fn told(wcc: &WccData) -> Option<Told> {
    let after = wcc.after.as_ref()?;
    Some(Told {
        before: wcc.before.map(|before| before.ctime),
        after: after.ctime,
        grew: wcc.before.is_some_and(|before| before.size != after.size),
    })
}

/// Do two such times, of different clients' changes, hold a change in common? Every change moves the ctime,
/// and only these two clients make any.
fn share_a_change(one: &Told, other: &Told) -> bool {
    let time = |time: Nfstime3| (time.seconds, time.nseconds);
    let (Some(one_before), Some(other_before)) = (one.before, other.before) else {
        return false;
    };
    let began = time(one_before).max(time(other_before));
    began < time(one.after).min(time(other.after))
}

/// `first` overwrites blocks of the file while `second` appends a block: all of it at once, and all of
/// it answered.
async fn write_at_once(
    file: &FileHandle,
    size: u64,
    stable: StableHow,
    first: &Nfs3,
    second: &Nfs3,
) -> (Vec<Told>, Vec<Told>) {
    const OVERWRITTEN: u64 = 4;
    let mut calls = JoinSet::new();
    for number in 0..=OVERWRITTEN {
        let appends = number == OVERWRITTEN / 2;
        let client = if appends { second } else { first }.clone();
        let offset = if appends { size } else { number * BLOCK };
        let file = *file;
        calls.spawn(async move {
            let data = Bytes::from(vec![1; BLOCK as usize]);
            let wcc = ok(client.write(&file, offset, stable, data).await).file_wcc;
            (appends, told(&wcc))
        });
    }
    let (appended, overwrote): (Vec<_>, Vec<_>) =
        calls.join_all().await.into_iter().partition(|call| call.0);
    let told = |calls: Vec<(bool, _)>| calls.into_iter().filter_map(|call| call.1).collect();
    (told(overwrote), told(appended))
}

/// Makes the file longer than the blocks that are overwritten, so that those do not.
fn lengthen(served: &Served) {
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(served.path().join("f"))
        .unwrap();
    file.set_len(7 * BLOCK).unwrap();
}

/// How many of the trials told one client the other's change as its own.
async fn misjudged(served: &Served, first: &Nfs3, second: &Nfs3, stable: StableHow) -> u64 {
    let root = served.root(&served.client().await).await;
    let file = create(&served.client().await, &root, b"f").await;
    lengthen(served);
    let path = served.path().join("f");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let mut misjudged = 0;
    for trial in 0..TRIALS {
        let (first, second) = if trial % 2 == 0 {
            (first, second)
        } else {
            (second, first)
        };
        let size = (trial + 8) * BLOCK;
        let (overwrote, appended) = write_at_once(&file, size, stable, first, second).await;
        let wrong = overwrote
            .iter()
            .any(|one| one.grew || appended.iter().any(|other| share_a_change(one, other)));
        misjudged += u64::from(wrong);
    }
    misjudged
}

#[test]
fn machines_behind_one_address_are_not_told_each_others_writes_as_their_own() {
    for engine in ENGINES {
        for mode in MODES {
            for stable in [StableHow::Unstable, StableHow::FileSync] {
                let served = served(mode, engine);
                block_on(async {
                    let one = machine(&served, b"one").await;
                    let other = machine(&served, b"other").await;
                    let wrong = misjudged(&served, &one, &other, stable).await;
                    assert_eq!(wrong, 0, "of {TRIALS}: {mode:?} {engine:?} {stable:?}");
                });
            }
        }
    }
}

/// CREATE of a file that is there sets its size, and is answered without the file's wcc_data.
#[test]
fn a_size_that_another_machines_create_sets_is_not_told_as_ones_own() {
    for engine in ENGINES {
        let served = served(Mode::Buffered, engine);
        block_on(async {
            let one = machine(&served, b"one").await;
            let other = machine(&served, b"other").await;
            let root = served.root(&one).await;
            let file = create(&one, &root, b"f").await;
            lengthen(&served);
            let mut wrong = 0;
            for trial in 0..TRIALS {
                let mut calls = JoinSet::new();
                for number in 0..4 {
                    let one = one.clone();
                    calls.spawn(async move {
                        let data = Bytes::from(vec![1; BLOCK as usize]);
                        let stable = StableHow::FileSync;
                        let done = one.write(&file, number * BLOCK, stable, data).await;
                        told(&ok(done).file_wcc).is_some_and(|told| told.grew)
                    });
                }
                let set = Sattr3 {
                    size: Some((trial + 8) * BLOCK),
                    ..Sattr3::default()
                };
                ok(other.create(&root, b"f", &CreateHow::Unchecked(set)).await);
                let grew = calls.join_all().await.into_iter().any(|grew| grew);
                wrong += u64::from(grew);
            }
            assert_eq!(wrong, 0, "of {TRIALS}: {engine:?}");
        });
    }
}

#[test]
fn where_nothing_tells_machines_apart_each_connection_is_a_client() {
    let served = served(Mode::Buffered, EngineChoice::Auto);
    let nobody_in_particular = [
        Identity::none(),
        Identity::sys_unchecked(b"", 0, 0, &[]),
        Identity::sys_unchecked(b"localhost", 0, 0, &[]),
    ];
    for identity in nobody_in_particular {
        block_on(async {
            let one = connect(served.addr, identity.clone()).await;
            let other = connect(served.addr, identity).await;
            for stable in [StableHow::Unstable, StableHow::FileSync] {
                let wrong = misjudged(&served, &one, &other, stable).await;
                assert_eq!(wrong, 0, "of {TRIALS}: {stable:?}");
                std::fs::remove_file(served.path().join("f")).unwrap();
            }
        });
    }
}

#[test]
fn the_connections_of_one_machine_are_one_client() {
    for engine in ENGINES {
        let served = served(Mode::Buffered, engine);
        block_on(async {
            let one = machine(&served, b"one").await;
            let same = machine(&served, b"one").await;
            let root = served.root(&one).await;
            let file = create(&one, &root, b"f").await;
            for stable in [StableHow::Unstable, StableHow::FileSync] {
                for trial in 0..TRIALS {
                    let size = (trial + 8) * BLOCK;
                    let (mut all, appended) = write_at_once(&file, size, stable, &one, &same).await;
                    all.extend(appended);
                    let after: Vec<Nfstime3> = all.iter().map(|one| one.after).collect();
                    // Chained: what each reply begins from is what another one told, but for the first.
                    let first = all.iter().filter(|one| {
                        let before = one.before.expect("told, as nobody else was there");
                        !after.contains(&before)
                    });
                    assert_eq!(first.count(), 1, "trial {trial}, {stable:?}");
                }
            }
        });
    }
}

#[test]
fn machines_behind_one_address_are_not_told_each_others_names_as_their_own() {
    for engine in ENGINES {
        let served = served(Mode::Buffered, engine);
        block_on(async {
            let machines = [
                machine(&served, b"one").await,
                machine(&served, b"other").await,
            ];
            let root = served.root(&machines[0]).await;
            let mut wrong = 0;
            for trial in 0..TRIALS {
                let dir = mkdir(&machines[0], &root, format!("d{trial}").as_bytes()).await;
                let mut calls = JoinSet::new();
                for number in 0..8 {
                    let client = machines[number % 2].clone();
                    calls.spawn(async move {
                        let name = format!("f{number}");
                        let made = client.mkdir(&dir, name.as_bytes(), &mode(0o755)).await;
                        (number % 2, told(&ok(made).dir_wcc).unwrap())
                    });
                }
                let (one, other): (Vec<_>, Vec<_>) = calls
                    .join_all()
                    .await
                    .into_iter()
                    .partition(|call| call.0 == 0);
                let mixed = one
                    .iter()
                    .any(|one| other.iter().any(|other| share_a_change(&one.1, &other.1)));
                wrong += u64::from(mixed);
            }
            assert_eq!(wrong, 0, "of {TRIALS}: {engine:?}");
        });
    }
}
