//! Read-ahead of direct READs, over real connections: that it happens, and that no READ is answered with bytes
//! that the file does not hold, whoever changed it.

mod support;

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use nfs_client::Nfs3;
use nfs_io::Errno;
use nfs_io::faults::{Call, Fault, Rule};
use nfs_server::exports::config::EngineChoice;
use nfs_server::exports::policy::{IoPolicy, Mode};
use nfs_server::operate::control::{AheadStatus, Asker, IoOrder};
use nfs_wire::nfs3::{FileHandle, Sattr3, StableHow};
use support::{Served, block_on, lookup, ok};

const ENGINES: [EngineChoice; 2] = [EngineChoice::Auto, EngineChoice::Threads];
const MIB: u64 = 1 << 20;
const SIZE: u64 = 16 * MIB;
/// How long a test tries until the machine lets it meet what it is about. A loaded one may need many rounds, and
/// each takes half a minute on a disk that has much else to write.
const PATIENCE: Duration = Duration::from_secs(900);

fn served(engine: EngineChoice, read_ahead: u64, memory_bytes: u64) -> Served {
    Served::with(|config| {
        config.server.engine = engine;
        config.server.memory_bytes = memory_bytes;
        config.exports[0].io = IoPolicy {
            read: Mode::Direct.into(),
            write: Mode::Direct.into(),
            read_ahead,
            ..IoPolicy::default()
        };
    })
}

/// A file of one generation of bytes: each byte says where it is, and which generation it is of.
fn pattern(generation: u8, offset: u64, len: usize) -> Vec<u8> {
    let byte = |at: u64| (at / 4096).wrapping_mul(31) as u8 ^ generation;
    (offset..offset + len as u64).map(byte).collect()
}

struct Bed {
    served: Served,
    local: File,
}

impl Bed {
    /// `None`, said aloud, where there is no direct I/O: then nothing is read ahead.
    fn new(engine: EngineChoice, size: u64) -> Option<Self> {
        Self::of(served(engine, 4 * MIB, 256 * MIB), size)
    }

    fn of(served: Served, size: u64) -> Option<Self> {
        let path = served.path().join("f");
        std::fs::write(&path, pattern(0, 0, size as usize)).unwrap();
        let local = File::options().read(true).write(true).open(path).unwrap();
        if nfs_io::fs::statx(local.as_fd()).unwrap().dio_offset_align == 0 {
            nfs_lab::skipped("no direct I/O on the temporary directory");
            return None;
        }
        Some(Self { served, local })
    }

    async fn open(&self) -> (Nfs3, FileHandle) {
        let client = self.served.client().await;
        let root = self.served.root(&client).await;
        let file = lookup(&client, &root, b"f").await;
        (client, file)
    }

    /// Waits until the file was left alone for so long that it may be read ahead.
    fn settle(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let stat = nfs_io::fs::statx(self.local.as_fd()).unwrap();
            let at = Duration::new(stat.ctime.sec as u64, stat.ctime.nsec);
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let coarse = u64::from(stat.ctime.nsec == 0) * 1000;
            let quiet = Duration::from_millis(120 + coarse);
            if now.unwrap().saturating_sub(at) >= quiet {
                return;
            }
            assert!(Instant::now() < until, "the clock stands still");
            // SLEEP: the age of the file's times is what is waited for.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ahead(&self) -> AheadStatus {
        let rows = self.served.server.status().io;
        let mut ahead = rows.into_iter().filter_map(|row| row.ahead);
        ahead.next().unwrap_or_default()
    }

    fn dropped(&self, why: &str) -> u64 {
        let dropped = self.ahead().dropped_bytes;
        dropped.get(why).copied().unwrap_or(0)
    }

    /// Runs rounds until `is_met`, each on a file that has settled.
    fn rounds(&self, what: &str, mut round: impl FnMut(u8), is_met: impl Fn(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        for number in (1..=250).cycle() {
            self.settle();
            round(number);
            if is_met(self) {
                return;
            }
            assert!(
                Instant::now() < until,
                "{what} was not met: {:?}",
                self.ahead()
            );
        }
    }
}

/// Reads `count` READs of `len` bytes one after the other, compared with what `expected` says of a range.
async fn stream(
    (client, file): (&Nfs3, &FileHandle),
    from: u64,
    (count, len): (u64, u64),
    expected: impl Fn(u64, usize) -> Vec<u8>,
) {
    for number in 0..count {
        let offset = from + number * len;
        let read = ok(client.read(file, offset, len as u32).await);
        let expected = expected(offset, len as usize);
        assert!(read.data[..] == expected[..], "{len} at {offset}");
    }
}

async fn write(client: &Nfs3, file: &FileHandle, offset: u64, data: Vec<u8>) {
    let (len, data) = (data.len(), Bytes::from(data));
    let done = ok(client.write(file, offset, StableHow::Unstable, data).await);
    assert_eq!(done.count as usize, len);
}

fn first(offset: u64, len: usize) -> Vec<u8> {
    pattern(0, offset, len)
}

#[test]
fn a_stream_is_answered_from_what_was_read_ahead_and_right() {
    for engine in ENGINES {
        for len in [MIB, 128 << 10, 300_000, 47_008] {
            let Some(bed) = Bed::new(engine, SIZE) else {
                return;
            };
            let round = |_| {
                block_on(async {
                    let (client, file) = bed.open().await;
                    stream((&client, &file), 0, (SIZE / len, len), first).await;
                });
            };
            bed.rounds("an answer", round, |bed| bed.ahead().answered > 0);
            let ahead = bed.ahead();
            assert!(ahead.pieces > 0 && ahead.answered_bytes >= len, "{ahead:?}");
            let row = bed.served.server.status().io.remove(0);
            assert!(row.moved_bytes["direct"] >= row.bytes - ahead.answered_bytes);
        }
    }
}

#[test]
fn the_end_of_the_file_is_where_it_is() {
    for engine in ENGINES {
        for size in [3 * MIB + 1, 2 * MIB + 4095, 5 * MIB] {
            let Some(bed) = Bed::new(engine, size) else {
                return;
            };
            for len in [MIB, 200_000] {
                let round = |_| {
                    block_on(async {
                        let (client, file) = bed.open().await;
                        let (mut at, mut eof) = (0, false);
                        while !eof {
                            let read = ok(client.read(&file, at, len as u32).await);
                            assert!(read.data[..] == first(at, read.data.len()));
                            assert!(read.data.len() as u64 == len.min(size - at));
                            at += read.data.len() as u64;
                            eof = read.eof;
                        }
                        assert_eq!(at, size);
                        let behind = ok(client.read(&file, at, len as u32).await);
                        assert!(behind.eof && behind.data.is_empty());
                    });
                };
                let before = bed.ahead().answered;
                bed.rounds("an answer", round, |bed| bed.ahead().answered > before);
            }
        }
    }
}

#[test]
fn what_another_client_wrote_is_read_as_soon_as_it_was_acknowledged() {
    for engine in ENGINES {
        // Staged ends of a WRITE are in the server's memory alone when it is acknowledged.
        for staging in [false, true] {
            let served = Served::with(|config| {
                config.server.engine = engine;
                config.exports[0].io = IoPolicy {
                    read: Mode::Direct.into(),
                    write: Mode::Direct.into(),
                    staging,
                    ..IoPolicy::default()
                };
            });
            let Some(bed) = Bed::of(served, SIZE) else {
                return;
            };
            let mut now = first(0, SIZE as usize);
            let round = |generation: u8| {
                block_on(async {
                    let (reader, file) = bed.open().await;
                    let (writer, same) = bed.open().await;
                    let at = |offset: u64, len: usize| now[offset as usize..][..len].to_vec();
                    stream((&reader, &file), 0, (3, MIB), at).await;
                    // What follows is on its way now, or here.
                    for mib in [3, 5] {
                        let (offset, len) = (mib * MIB + 100, MIB as usize - 300);
                        let data = pattern(generation, offset, len);
                        now[offset as usize..][..len].copy_from_slice(&data);
                        write(&writer, &same, offset, data).await;
                    }
                    let at = |offset: u64, len: usize| now[offset as usize..][..len].to_vec();
                    stream((&reader, &file), 3 * MIB, (10, MIB), at).await;
                });
            };
            bed.rounds("a WRITE beside", round, |bed| bed.dropped("written") > 0);
        }
    }
}

#[test]
fn a_file_that_is_cut_and_grows_again_has_zeros_where_it_was_cut() {
    for engine in ENGINES {
        let Some(bed) = Bed::new(engine, SIZE) else {
            return;
        };
        let round = |_| {
            bed.local.write_all_at(&first(0, SIZE as usize), 0).unwrap();
            bed.settle();
            block_on(async {
                let (reader, file) = bed.open().await;
                let (other, same) = bed.open().await;
                stream((&reader, &file), 0, (3, MIB), first).await;
                let cut = 4 * MIB + 1000;
                for size in [cut, SIZE] {
                    let set = Sattr3 {
                        size: Some(size),
                        ..Sattr3::default()
                    };
                    ok(other.setattr(&same, &set, None).await);
                    let read = ok(reader.read(&file, 4 * MIB, MIB as u32).await);
                    let mut expected = first(4 * MIB, 1000);
                    if size == SIZE {
                        expected.resize(MIB as usize, 0);
                    }
                    assert!(read.data[..] == expected[..], "of {size}");
                    assert_eq!(read.eof, size == cut);
                }
            });
        };
        bed.rounds("SETATTR", round, |bed| bed.dropped("written") > 0);
    }
}

#[test]
fn what_a_local_program_wrote_is_read_at_once() {
    for engine in ENGINES {
        let Some(bed) = Bed::new(engine, SIZE) else {
            return;
        };
        let mut now = 0;
        let round = |generation: u8| {
            block_on(async {
                let (reader, file) = bed.open().await;
                let before = |offset: u64, len: usize| pattern(now, offset, len);
                stream((&reader, &file), 0, (3, MIB), before).await;
                let data = pattern(generation, 0, SIZE as usize);
                bed.local.write_all_at(&data, 0).unwrap();
                now = generation;
                let after = |offset: u64, len: usize| pattern(generation, offset, len);
                stream((&reader, &file), 3 * MIB, (10, MIB), after).await;
            });
        };
        let met = |bed: &Bed| bed.dropped("changed-locally") > 0;
        bed.rounds("a local writer", round, met);
    }
}

#[test]
fn two_clients_have_streams_of_their_own() {
    for engine in ENGINES {
        let Some(bed) = Bed::new(engine, SIZE) else {
            return;
        };
        let round = |_| {
            block_on(async {
                let (one, file) = bed.open().await;
                let (other, same) = bed.open().await;
                for number in 0..SIZE / MIB {
                    stream((&one, &file), number * MIB, (1, MIB), first).await;
                    // From the middle on, and around.
                    let at = (number * MIB + SIZE / 2) % SIZE;
                    stream((&other, &same), at, (1, MIB), first).await;
                }
            });
        };
        bed.rounds("answers", round, |bed| {
            bed.ahead().answered > SIZE / MIB / 2
        });
    }
}

#[test]
fn it_is_switched_off_and_on_while_a_client_reads() {
    let Some(bed) = Bed::of(served(EngineChoice::Auto, 0, 256 * MIB), SIZE) else {
        return;
    };
    let set = |bytes: &str| {
        let order = IoOrder {
            read_ahead: Some(bytes.to_owned()),
            ..IoOrder::default()
        };
        let asker = Asker { uid: 0, pid: None };
        bed.served.server.set_io_policy(&order, asker).unwrap()
    };
    let read = || {
        block_on(async {
            let (client, file) = bed.open().await;
            stream((&client, &file), 0, (SIZE / MIB, MIB), first).await;
        });
    };
    bed.settle();
    read();
    assert_eq!(bed.ahead(), AheadStatus::default());
    assert_eq!(set("8MiB").now.read_ahead_bytes, 8 * MIB);
    bed.rounds("an answer", |_| read(), |bed| bed.ahead().answered > 0);
    set("0");
    let before = bed.ahead();
    read();
    let after = bed.ahead();
    assert_eq!(
        (after.pieces, after.answered),
        (before.pieces, before.answered)
    );
}

#[test]
fn a_piece_that_cannot_be_read_is_read_when_it_is_asked_for() {
    for engine in ENGINES {
        let Some(bed) = Bed::new(engine, SIZE) else {
            return;
        };
        let round = |_| {
            block_on(async {
                let (client, file) = bed.open().await;
                stream((&client, &file), 0, (2, MIB), first).await;
                let rule = Rule::new(Call::Read, Fault::Fail(Errno::IO))
                    .in_mode(nfs_io::Mode::Direct)
                    .of_file(&bed.local)
                    .inject();
                stream((&client, &file), 2 * MIB, (4, MIB), first).await;
                drop(rule);
                stream((&client, &file), 6 * MIB, (10, MIB), first).await;
            });
        };
        bed.rounds("a failed piece", round, |bed| bed.dropped("failed") > 0);
    }
}

#[test]
fn what_is_read_ahead_leaves_memory_to_who_asks_for_it() {
    for engine in ENGINES {
        // Less than 16 large replies.
        let Some(bed) = Bed::of(served(engine, 64 * MIB, 16 * MIB), SIZE) else {
            return;
        };
        bed.settle();
        block_on(async {
            let mut clients = Vec::new();
            for _ in 0..4 {
                clients.push(bed.open().await);
            }
            for number in 0..SIZE / MIB {
                for (client, file) in &clients {
                    stream((client, file), number * MIB, (1, MIB), first).await;
                }
            }
        });
        let memory = bed.served.server.status().memory;
        assert!(memory.peak_bytes <= 16 * MIB, "{memory:?}");
    }
}
