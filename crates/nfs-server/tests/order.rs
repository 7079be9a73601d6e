//! WRITEs that come out of order wait a moment for those before them: on a real server, in every mode.

mod support;

use bytes::Bytes;
use nfs_client::Nfs3;
use nfs_server::exports::config::EngineChoice;
use nfs_server::exports::policy::{IoPolicy, Mode};
use nfs_wire::nfs3::{FileHandle, Sattr3, StableHow};
use support::{Served, block_on, create, ok};
use tokio::task::JoinSet;

const PIECE: u64 = 64 << 10;
/// WRITEs that are on their way at once, in a random order.
const TOGETHER: u64 = 32;
const PIECES: u64 = 4 * TOGETHER;
const ENGINES: [EngineChoice; 2] = [EngineChoice::Auto, EngineChoice::Threads];
const MODES: [Mode; 3] = [Mode::Buffered, Mode::DontCache, Mode::Direct];

fn served(mode: Mode, engine: EngineChoice, order: bool) -> Served {
    Served::with(|config| {
        config.server.engine = engine;
        config.exports[0].io = IoPolicy {
            write: mode.into(),
            order,
            reserve: true,
            ..IoPolicy::default()
        };
    })
}

fn piece(number: u64) -> Bytes {
    let byte = |at: u64| (1 + number * 13 + at % 197) as u8;
    (0..PIECE).map(byte).collect::<Vec<u8>>().into()
}

/// Writes all pieces, those of each group at once and in another order for each `seed`.
async fn shuffled(client: &Nfs3, file: &FileHandle, stable: StableHow, seed: u64) {
    for group in 0..PIECES / TOGETHER {
        let mut random = seed * 977 + group + 1;
        let mut numbers: Vec<u64> = (group * TOGETHER..(group + 1) * TOGETHER).collect();
        for at in (1..numbers.len()).rev() {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            numbers.swap(at, (random >> 33) as usize % (at + 1));
        }
        let mut writes = JoinSet::new();
        for number in numbers {
            let (client, file) = (client.clone(), *file);
            writes.spawn(async move {
                let write = client.write(&file, number * PIECE, stable, piece(number));
                assert_eq!(u64::from(ok(write.await).count), PIECE);
            });
        }
        while let Some(done) = writes.join_next().await {
            done.unwrap();
        }
    }
}

fn assert_whole(served: &Served) {
    let content = std::fs::read(served.path().join("f")).unwrap();
    assert_eq!(content.len() as u64, PIECES * PIECE);
    for (number, bytes) in (0..).zip(content.chunks(PIECE as usize)) {
        assert!(bytes == &piece(number)[..], "piece {number}");
    }
}

#[test]
fn a_shuffled_stream_is_whole_and_some_of_it_is_put_in_order() {
    for engine in ENGINES {
        for mode in MODES {
            let served = served(mode, engine, true);
            block_on(async {
                let client = served.client().await;
                let root = served.root(&client).await;
                let file = create(&client, &root, b"f").await;
                let cut = Sattr3 {
                    size: Some(0),
                    ..Sattr3::default()
                };
                for seed in 0..50 {
                    ok(client.setattr(&file, &cut, None).await);
                    let stable = [StableHow::Unstable, StableHow::DataSync][seed as usize % 2];
                    shuffled(&client, &file, stable, seed).await;
                    ok(client.commit(&file, 0, 0).await);
                    assert_whole(&served);
                    // How many come late, and how soon after each other, is the machine's to say.
                    if served.counter("writes_put_in_order") > 0 {
                        break;
                    }
                }
            });
            let (seen, put) = (
                served.counter("writes_out_of_order"),
                served.counter("writes_put_in_order"),
            );
            assert!(
                put > 0 && put <= seen,
                "{engine:?} {mode:?}: {put} of {seen}"
            );
        }
    }
}

#[test]
fn where_a_piece_never_comes_the_others_are_written_all_the_same() {
    for engine in ENGINES {
        let served = served(Mode::Direct, engine, true);
        block_on(async {
            let client = served.client().await;
            let root = served.root(&client).await;
            let file = create(&client, &root, b"f").await;
            // After 0, 2, 1 others are expected to come late; 3 never does.
            for number in [0, 2, 1, 6, 4, 5] {
                let write = client.write(&file, number * PIECE, StableHow::Unstable, piece(number));
                assert_eq!(u64::from(ok(write.await).count), PIECE);
            }
            let content = std::fs::read(served.path().join("f")).unwrap();
            for (number, bytes) in (0..).zip(content.chunks(PIECE as usize)) {
                let expected = match number {
                    3 => vec![0; PIECE as usize].into(),
                    number => piece(number),
                };
                assert!(bytes == &expected[..], "{engine:?}: piece {number}");
            }
        });
        assert!(served.counter("writes_out_of_order") >= 2);
    }
}

#[test]
fn nothing_is_held_or_counted_where_it_was_not_asked_for() {
    let served = served(Mode::Buffered, EngineChoice::Auto, false);
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        shuffled(&client, &file, StableHow::Unstable, 1).await;
    });
    assert_whole(&served);
    assert_eq!(served.counter("writes_out_of_order"), 0);
}
