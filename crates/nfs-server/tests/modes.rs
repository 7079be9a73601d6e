//! READ and WRITE in every mode over a real connection, compared with a model in memory, byte for
//! byte. Every buffer of the server is full of other bytes before it is used.

mod support;

use bytes::Bytes;
use nfs_client::Nfs3;
use nfs_server::exports::policy::{IoPolicy, Mode, StableFloor};
use nfs_wire::nfs3::{FileHandle, Sattr3, StableHow};
use support::{Served, block_on, create, ok};

const MODES: [Mode; 3] = [Mode::Buffered, Mode::DontCache, Mode::Direct];
const BLOCK: u64 = 4096;

fn served(read: Mode, write: Mode) -> Served {
    Served::with(|config| {
        config.exports[0].io = IoPolicy {
            read: read.into(),
            write: write.into(),
            ..IoPolicy::default()
        };
    })
}

/// A file and what it should hold.
struct Model<'c> {
    client: &'c Nfs3,
    file: FileHandle,
    bytes: Vec<u8>,
    /// Stands for the writer that wrote a byte last; never the byte that forgotten memory is filled with.
    round: u8,
}

impl<'c> Model<'c> {
    async fn new(served: &Served, client: &'c Nfs3, name: &[u8]) -> Self {
        let root = served.root(client).await;
        Self {
            client,
            file: create(client, &root, name).await,
            bytes: Vec::new(),
            round: 0,
        }
    }

    fn pattern(&mut self, offset: u64, len: usize) -> Vec<u8> {
        self.round = (self.round + 1) % 200;
        let round = usize::from(self.round);
        (0..len)
            .map(|at| 1 + ((offset as usize + at) * 7 + round) as u8 % 199)
            .collect()
    }

    async fn write(&mut self, offset: u64, len: usize, stable: StableHow) {
        let data = self.pattern(offset, len);
        let done = ok(self
            .client
            .write(&self.file, offset, stable, Bytes::from(data.clone()))
            .await);
        assert_eq!(done.count as usize, len, "at {offset}");
        assert!(done.committed as u32 >= stable as u32);
        self.wrote(offset, &data);
        let size = done.file_wcc.after.unwrap().size;
        assert_eq!(size, self.bytes.len() as u64, "{len} at {offset}");
    }

    fn wrote(&mut self, offset: u64, data: &[u8]) {
        let end = offset as usize + data.len();
        if !data.is_empty() && end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        if !data.is_empty() {
            self.bytes[offset as usize..end].copy_from_slice(data);
        }
    }

    async fn truncate(&mut self, size: usize) {
        let set = Sattr3 {
            size: Some(size as u64),
            ..Sattr3::default()
        };
        ok(self.client.setattr(&self.file, &set, None).await);
        self.bytes.resize(size, 0);
    }

    async fn check(&self, offset: u64, len: u32) {
        let read = ok(self.client.read(&self.file, offset, len).await);
        let size = self.bytes.len();
        let start = (offset as usize).min(size);
        let end = (start + len as usize).min(size);
        assert!(
            read.data.len() == end - start,
            "{len} at {offset} of {size}"
        );
        assert!(
            read.data[..] == self.bytes[start..end],
            "{len} at {offset} of {size}"
        );
        assert_eq!(read.eof, offset + read.data.len() as u64 >= size as u64);
        assert_eq!(read.file_attributes.unwrap().size, size as u64);
    }
}

/// Offsets and lengths around every 512 bytes of three blocks.
fn edges() -> Vec<u64> {
    let mut edges: Vec<u64> = (0..=3 * BLOCK / 512)
        .flat_map(|part| [part * 512, part * 512 + 1, (part * 512).saturating_sub(1)])
        .filter(|at| *at <= 3 * BLOCK)
        .collect();
    edges.sort_unstable();
    edges.dedup();
    edges
}

fn stability(number: usize) -> StableHow {
    let stabilities = [
        StableHow::Unstable,
        StableHow::Unstable,
        StableHow::Unstable,
        StableHow::DataSync,
        StableHow::Unstable,
        StableHow::FileSync,
    ];
    stabilities[number % stabilities.len()]
}

#[test]
fn every_range_around_blocks_reads_as_it_was_written() {
    for mode in MODES {
        let served = served(mode, mode);
        block_on(async {
            let client = served.client().await;
            let mut model = Model::new(&served, &client, b"f").await;
            for (number, offset) in edges().into_iter().enumerate() {
                for len in edges().into_iter().skip(number % 4).step_by(4) {
                    model.write(offset, len as usize, StableHow::Unstable).await;
                    model.check(offset, len as u32).await;
                    model.check(offset.saturating_sub(1), len as u32 + 2).await;
                }
            }
            model.check(0, 1 << 20).await;
        });
    }
}

#[test]
fn files_with_holes_and_ends_inside_blocks_grow_and_shrink() {
    for mode in MODES {
        let served = served(mode, mode);
        block_on(async {
            let client = served.client().await;
            let mut model = Model::new(&served, &client, b"f").await;
            for (number, size) in edges().into_iter().rev().step_by(3).enumerate() {
                let size = size as usize;
                // Cut, with what was written before it in the page cache or past it.
                model.truncate(size).await;
                model.check(0, 4 * BLOCK as u32).await;
                model.check(size.saturating_sub(3) as u64, 5).await;
                // A hole, then data that ends inside a block.
                let behind = size as u64 + BLOCK * (number as u64 % 3) + 77;
                model.write(behind, 9000 + number, stability(number)).await;
                model.check(0, 8 * BLOCK as u32).await;
                model.truncate(behind as usize + 20_000).await;
                model.check(behind, 30_000).await;
            }
        });
    }
}

#[test]
fn odd_records_beyond_4_gib_are_written_in_any_order() {
    const RECORD: usize = 47_008;
    const FAR: u64 = (4 << 30) + 12_345;
    for mode in MODES {
        let served = served(mode, mode);
        block_on(async {
            let client = served.client().await;
            let root = served.root(&client).await;
            let file = create(&client, &root, b"far").await;
            let record = |number: usize| vec![1 + number as u8; RECORD];
            let writes = (0..40).map(|number| {
                let place = FAR + (number * 23 % 40 * RECORD) as u64;
                let data = Bytes::from(record(number * 23 % 40));
                client.write(&file, place, stability(number), data)
            });
            for done in futures_joined(writes.collect()).await {
                assert_eq!(ok(done).count as usize, RECORD);
            }
            ok(client.commit(&file, 0, 0).await);
            let before = ok(client.read(&file, FAR - 100, 100).await);
            assert!(before.data[..] == [0; 100]);
            for number in 0..40 {
                let place = FAR + (number * RECORD) as u64;
                let read = ok(client.read(&file, place, RECORD as u32).await);
                assert!(read.data[..] == record(number)[..], "record {number}");
                assert_eq!(read.eof, number == 39);
            }
        });
    }
}

#[test]
fn large_payloads_are_not_copied_but_for_what_comes_with_the_first_head() {
    for mode in MODES {
        let served = served(mode, mode);
        block_on(async {
            let client = served.client().await;
            let root = served.root(&client).await;
            let file = create(&client, &root, b"f").await;
            for number in 0..20_u64 {
                let data = Bytes::from(vec![number as u8; 1 << 20]);
                let offset = (number << 20) + 77;
                ok(client.write(&file, offset, StableHow::Unstable, data).await);
            }
            for number in 0..20_u64 {
                let read = ok(client.read(&file, (number << 20) + 77, 1 << 20).await);
                assert!(read.data[..] == [number as u8; 1 << 20]);
            }
        });
        let rows = served.server.status().io;
        let row = |word: &str| rows.iter().find(|row| row.operation == word).unwrap();
        assert_eq!(row("read").copied_bytes, 0);
        // One read of the socket, when no WRITE was expected yet.
        assert!(row("write").copied_bytes <= 256 << 10, "{mode}");
        assert_eq!(row("write").bytes, 20 << 20);
    }
}

#[test]
fn direct_transfers_leave_nothing_in_the_page_cache_once_committed() {
    const RECORD: usize = 47_008;
    /// A page that the kernel itself is looking at when the server drops it stays, that time.
    const TRIES: u32 = 8;
    for (read, kept) in [(Mode::Direct, false), (Mode::Buffered, true)] {
        let served = served(read, Mode::Direct);
        let transfer = |name: &str| {
            block_on(async {
                let client = served.client().await;
                let root = served.root(&client).await;
                let file = create(&client, &root, name.as_bytes()).await;
                for number in 0..30_usize {
                    let offset = (number * RECORD) as u64;
                    let data = Bytes::from(vec![7; RECORD]);
                    let done = ok(client.write(&file, offset, StableHow::Unstable, data).await);
                    assert_eq!(done.count as usize, RECORD);
                }
                ok(client.commit(&file, 0, 0).await);
            });
            std::fs::File::open(served.path().join(name)).unwrap()
        };
        let mut cached = Vec::new();
        for number in 0..TRIES {
            let file = transfer(&format!("f{number}"));
            let file = std::os::fd::AsFd::as_fd(&file);
            if nfs_io::fs::statx(file).unwrap().dio_offset_align == 0 {
                support::skip!("no direct I/O on the temporary directory");
            }
            match nfs_io::fs::cachestat(file, 0, 0) {
                Ok(stat) => cached.push(stat.cached),
                Err(error) => support::skip!("{error}"),
            }
        }
        if kept {
            assert!(cached.iter().any(|&pages| pages > 0), "{read}: {cached:?}");
        } else {
            assert!(cached.contains(&0), "{read}: {cached:?}");
        }
    }
}

/// Waits for all of them, all under way at once.
async fn futures_joined<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut results: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, result) in futures.iter_mut().zip(&mut results) {
            if result.is_none()
                && let std::task::Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *result = Some(ready);
            }
        }
        if results.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    results.into_iter().flatten().collect()
}

#[test]
fn large_transfers_at_odd_offsets_read_in_another_mode_as_written() {
    for write in MODES {
        for read in MODES {
            let served = served(read, write);
            block_on(async {
                let client = served.client().await;
                let mut model = Model::new(&served, &client, b"f").await;
                for (number, offset) in [0, 1, 511, 4095, 70_001, 1 << 20].into_iter().enumerate() {
                    for len in [8193, 65_536, 300_001, 1 << 20] {
                        model.write(offset, len, stability(number)).await;
                        model.check(offset, 1 << 20).await;
                        model.check(offset + 3, 100_000).await;
                    }
                }
            });
        }
    }
}

#[test]
fn the_floor_raises_what_is_asked_and_the_reply_says_so() {
    let asked = [
        StableHow::Unstable,
        StableHow::DataSync,
        StableHow::FileSync,
    ];
    for (floor, least) in [
        (StableFloor::Asked, 0),
        (StableFloor::DataSync, 1),
        (StableFloor::FileSync, 2),
    ] {
        for mode in MODES {
            let served = Served::with(|config| {
                config.exports[0].io = IoPolicy {
                    write: mode.into(),
                    stable: floor,
                    ..IoPolicy::default()
                };
            });
            block_on(async {
                let client = served.client().await;
                let root = served.root(&client).await;
                let file = create(&client, &root, b"f").await;
                for (number, stable) in asked.into_iter().enumerate() {
                    for (offset, len) in [(0, 10), (4096, 8192), (5000, 30_000)] {
                        let data = Bytes::from(vec![1; len]);
                        let done = ok(client.write(&file, offset, stable, data).await);
                        assert_eq!(done.count as usize, len);
                        assert_eq!(done.committed, asked[number.max(least)], "{mode} {floor:?}");
                    }
                }
            });
        }
    }
}
