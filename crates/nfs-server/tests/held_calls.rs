//! Calls that a file system holds back, by the hundred and the thousand: what becomes of them when their
//! connection goes, and what others get meanwhile.

mod support;

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::Bytes;
use nfs_client::{Identity, RawConnection};
use nfs_lab::Engine;
use nfs_lab::held_fs::{self, HeldFs};
use nfs_lab::needs::{Need, missing};
use nfs_server::exports::config::Config;
use nfs_server::exports::{ExportTable, Versions};
use nfs_server::limits;
use nfs_wire::limits::TAG_BYTES_MAX;
use nfs_wire::nfs3::{
    Fattr3, FileHandle, Nfsstat3, Procedure, ReadArgs, ReaddirplusArgs, StableHow, WccData,
    WriteArgs,
};
use nfs_wire::nfs4::ops::SequenceArgs;
use nfs_wire::nfs4::{self, ArgOp, CompoundArgs, Nfsstat4, Stateid4, Tag};
use nfs_wire::rpc::ReplyHeader;
use nfs_wire::{Decode as _, Decoder, Payload};
use support::v4::{Client, putfh};
use support::wire::{DEADLINE, answer, connect_from, marked, record, until};
use support::{Served, block_on, lookup, ok, scratch};
use tempfile::TempDir;
use tokio::net::TcpStream;

/// Another client than those of 127.0.0.1, whose calls are held back.
const GREEDY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Size of the file in bytes.
const SIZE: usize = 4 << 20;
/// Bytes of each READ and WRITE.
const BLOCK: usize = 4096;
/// Calls of one connection: more than a lane has places, and fewer than a connection may have.
const CALLS: u32 = 300;
/// What a WRITE writes that is held back.
const HELD: [u8; BLOCK] = [9; BLOCK];

/// A server over a file system that holds back what it is told to. All goes on when it is dropped, before the
/// server ends.
struct Holding {
    served: Served,
    held: HeldFs,
    _point: TempDir,
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.held.let_all_go();
    }
}

impl Holding {
    /// `None`, said aloud, where this machine or user cannot have such a file system.
    fn start() -> Option<Self> {
        Self::within(nfs_io::fs::raise_nofile(u64::MAX), |_config| {})
    }

    fn within(fds: u64, change: impl FnOnce(&mut Config)) -> Option<Self> {
        for need in [Need::Root, Need::Fuse] {
            if let Some(missing) = missing(need, Engine::Threads) {
                nfs_lab::skipped(&missing);
                return None;
            }
        }
        let point = scratch(0o755);
        let held = HeldFs::mount(point.path(), vec![1; SIZE]).unwrap();
        let served = Served::within(fds, scratch(0o755), None, |config| {
            config.exports[0].path = point.path().to_owned();
            change(config);
        });
        Some(Self {
            served,
            held,
            _point: point,
        })
    }

    /// The directory, and the file in it whose reads and writes are held.
    async fn objects(&self) -> (FileHandle, FileHandle) {
        let client = self.served.client().await;
        let root = self.served.root(&client).await;
        (root, lookup(&client, &root, held_fs::FILE.as_bytes()).await)
    }

    async fn connect(&self, own: Ipv4Addr) -> RawConnection {
        let stream = connect_from(own, self.served.addr).await;
        RawConnection::from_stream(stream.unwrap())
    }

    fn running(&self) -> u64 {
        self.served.counter("calls_running")
    }

    async fn until_running(&self, count: u64) {
        until("so many calls run", || self.running() == count).await;
    }

    /// Waits until the server has seen the end of all connections from this address.
    async fn until_gone(&self, own: Ipv4Addr) {
        let prefix = format!("{own}:");
        until("the server sees the end", || {
            let clients = self.served.server.clients();
            !clients.iter().any(|it| it.address.starts_with(&prefix))
        })
        .await;
    }
}

fn read(xid: u32, file: FileHandle) -> Vec<u8> {
    let args = ReadArgs {
        file,
        offset: u64::from(xid) * BLOCK as u64 % SIZE as u64,
        count: BLOCK as u32,
    };
    record(xid, Procedure::Read, &args)
}

fn reads(file: FileHandle, count: u32) -> Vec<u8> {
    (0..count).flat_map(|xid| read(xid, file)).collect()
}

/// Writes the block of its number.
fn write(xid: u32, file: FileHandle, data: &[u8]) -> Vec<u8> {
    let args = WriteArgs {
        file,
        offset: u64::from(xid) * BLOCK as u64,
        count: data.len() as u32,
        stable: StableHow::Unstable,
        data,
    };
    record(xid, Procedure::Write, &args)
}

/// The xid and the status of the next reply.
async fn next_answer(connection: &mut RawConnection) -> (u32, Nfsstat3) {
    let reply = tokio::time::timeout(DEADLINE, connection.receive_record()).await;
    answer(&reply.expect("no answer").unwrap().expect("closed"))
}

#[test]
fn reads_that_have_not_begun_end_with_their_connection() {
    let Some(it) = Holding::start() else { return };
    block_on(async {
        let (_, file) = it.objects().await;
        let mut polite = it.connect(GREEDY).await;
        it.held.hold_reads();
        let mut greedy = it.connect(GREEDY).await;
        greedy.send(&reads(file, CALLS)).await.unwrap();
        it.until_running(CALLS.into()).await;
        drop(greedy);
        it.until_running(0).await;
        it.held.let_all_go();
        // Those of the dead that have not begun would each have a turn between two of these.
        for xid in 0..CALLS {
            polite.send(&read(xid, file)).await.unwrap();
            assert_eq!(next_answer(&mut polite).await, (xid, Nfsstat3::Ok));
        }
        let of_the_dead = it.held.came() - CALLS as usize;
        assert!(of_the_dead < CALLS as usize / 2, "{of_the_dead} READs");
    });
}

/// The next reply would make a client drop its cache if it began elsewhere: docs/durability.md.
#[test]
fn of_stable_writes_on_their_way_together_the_last_to_end_tells_attributes() {
    let Some(it) = Holding::start() else { return };
    block_on(async {
        let client = it.served.client().await;
        let (_, file) = it.objects().await;
        let block = |byte| Bytes::from(vec![byte; BLOCK]);
        let write = |number: u64, byte, stable| {
            let (client, at) = (client.clone(), number * BLOCK as u64);
            let written = async move { client.write(&file, at, stable, block(byte)).await };
            async { ok(written.await).file_wcc }
        };
        let alone = write(0, 1, StableHow::FileSync).await;
        assert!(alone.before.is_some() && alone.after.is_some());
        it.held.hold_writes_of(&HELD);
        let last = tokio::spawn(write(1, HELD[0], StableHow::FileSync));
        it.held.wait_for_one().await.unwrap();
        for stable in [StableHow::DataSync, StableHow::FileSync] {
            assert_eq!(write(2, 1, stable).await, WccData::default());
        }
        let unstable = write(2, 1, StableHow::Unstable).await;
        it.held.let_all_go();
        let last = last.await.unwrap();
        let state = |of: &Fattr3| (of.size, of.ctime);
        let before = |wcc: &WccData| wcc.before.map(|of| (of.size, of.ctime));
        assert_eq!(before(&unstable), alone.after.as_ref().map(state));
        assert_eq!(before(&last), unstable.after.as_ref().map(state));
        assert!(last.after.is_some());
    });
}

#[test]
fn listings_that_have_not_begun_end_with_their_connection() {
    let Some(it) = Holding::start() else { return };
    block_on(async {
        let (dir, _) = it.objects().await;
        let args = ReaddirplusArgs {
            dir,
            cookie: 0,
            cookieverf: [0; 8],
            dircount: 4096,
            maxcount: 4096,
        };
        let listing = |xid| record(xid, Procedure::Readdirplus, &args);
        let mut polite = it.connect(GREEDY).await;
        it.held.hold_listings();
        let mut greedy = it.connect(GREEDY).await;
        let burst: Vec<u8> = (0..CALLS).flat_map(listing).collect();
        greedy.send(&burst).await.unwrap();
        it.until_running(CALLS.into()).await;
        it.held.wait_for_one().await.unwrap();
        drop(greedy);
        it.until_running(0).await;
        it.held.let_all_go();
        for xid in 0..CALLS {
            polite.send(&listing(xid)).await.unwrap();
            assert_eq!(next_answer(&mut polite).await, (xid, Nfsstat3::Ok));
        }
    });
    // Each asks the file system twice: for entries, and for what comes behind them.
    let listings = it.held.came() / 2;
    let of_the_dead = listings - CALLS as usize;
    assert!(of_the_dead < CALLS as usize / 2, "{of_the_dead} listings");
}

#[test]
fn writes_that_were_received_whole_are_carried_out_though_their_connection_has_gone() {
    let Some(it) = Holding::start() else { return };
    block_on(async {
        let (_, file) = it.objects().await;
        it.held.hold_writes_of(&HELD);
        let mut greedy = it.connect(GREEDY).await;
        let burst: Vec<u8> = (0..CALLS).flat_map(|xid| write(xid, file, &HELD)).collect();
        greedy.send(&burst).await.unwrap();
        let cut_off = write(CALLS, file, &HELD);
        greedy.send(&cut_off[..BLOCK / 2]).await.unwrap();
        it.until_running(CALLS.into()).await;
        drop(greedy);
        it.until_gone(GREEDY).await;
        assert_eq!(it.running(), u64::from(CALLS));
        it.held.let_all_go();
        it.until_running(0).await;
    });
    let written = CALLS as usize * BLOCK;
    let content = it.held.content(0, written + BLOCK);
    assert!(content[..written].iter().all(|&byte| byte == HELD[0]));
    let cut_off = &content[written..];
    assert!(cut_off.iter().all(|&byte| byte == 1), "half a WRITE");
}

/// Requests of NFSv4.1, each in a slot of its own, of as many sessions as they take.
struct Slots {
    sessions: Vec<Client>,
    /// The tag of each.
    tag: &'static [u8],
}

impl Slots {
    /// Slots of one session that are used.
    const OF_EACH: u32 = 60;

    async fn for_calls(served: &Served) -> Self {
        let mut sessions = Vec::new();
        for number in 0..CALLS.div_ceil(Self::OF_EACH) {
            let owner = format!("client {number}");
            sessions.push(Client::new(served, 1, owner.as_bytes()).await);
        }
        Self { sessions, tag: b"" }
    }

    /// The first request of a slot, or a later one.
    fn request(
        &self,
        number: u32,
        sequenceid: u32,
        cachethis: bool,
        op: ArgOp<'_>,
        file: &FileHandle,
    ) -> Vec<u8> {
        let session = &self.sessions[(number / Self::OF_EACH) as usize];
        // The first slot was used for RECLAIM_COMPLETE.
        let slotid = number % Self::OF_EACH + 1;
        let sequence = ArgOp::Sequence(SequenceArgs {
            sessionid: session.session,
            sequenceid,
            slotid,
            highest_slotid: Self::OF_EACH,
            cachethis,
        });
        let object = nfs4::FileHandle::new(file.as_ref()).unwrap();
        let args = CompoundArgs {
            tag: Tag(self.tag),
            minorversion: 1,
            argarray: vec![sequence, putfh(&object), op],
        };
        let procedure = nfs_client::Procedure {
            program: nfs4::PROGRAM,
            version: nfs4::VERSION,
            number: nfs4::PROC_COMPOUND,
        };
        let identity = Identity::sys(0, 0, &[]);
        marked(&RawConnection::call_body(
            number, procedure, &identity, &args,
        ))
    }

    fn read(&self, number: u32, sequenceid: u32, file: &FileHandle) -> Vec<u8> {
        let read = ArgOp::Read(nfs4::ops::ReadArgs {
            stateid: Stateid4::ANONYMOUS,
            offset: u64::from(number) * BLOCK as u64,
            count: BLOCK as u32,
        });
        self.request(number, sequenceid, false, read, file)
    }

    fn write(&self, number: u32, file: &FileHandle) -> Vec<u8> {
        let write = ArgOp::Write(nfs4::ops::WriteArgs {
            stateid: Stateid4::ANONYMOUS,
            offset: u64::from(number) * BLOCK as u64,
            stable: nfs4::StableHow4::Unstable,
            data: Payload::Here(&HELD),
        });
        self.request(number, 1, true, write, file)
    }
}

/// The xid and the status of the next reply to a COMPOUND.
async fn next_status(connection: &mut RawConnection) -> (u32, Nfsstat4) {
    let reply = tokio::time::timeout(DEADLINE, connection.receive_record()).await;
    let reply = reply.expect("no answer").unwrap().expect("closed");
    let mut decoder = Decoder::new(&reply);
    let header = ReplyHeader::decode(&mut decoder).unwrap();
    (header.xid, Nfsstat4::decode(&mut decoder).unwrap())
}

fn of_all_versions(config: &mut Config) {
    config.server.versions = Versions::ALL;
}

#[test]
fn reads_of_nfsv4_that_have_not_begun_end_with_their_connection_and_are_asked_for_anew() {
    let fds = nfs_io::fs::raise_nofile(u64::MAX);
    let Some(it) = Holding::within(fds, of_all_versions) else {
        return;
    };
    block_on(async {
        let (_, file) = it.objects().await;
        let slots = Slots::for_calls(&it.served).await;
        let mut polite = it.connect(GREEDY).await;
        it.held.hold_reads();
        let mut greedy = it.connect(GREEDY).await;
        let burst: Vec<u8> = (0..CALLS)
            .flat_map(|xid| slots.read(xid, 1, &file))
            .collect();
        greedy.send(&burst).await.unwrap();
        it.until_running(CALLS.into()).await;
        drop(greedy);
        it.until_running(0).await;
        it.held.let_all_go();
        // Those of the dead that have not begun would each have a turn between two of these.
        for xid in 0..CALLS {
            polite.send(&slots.read(xid, 1, &file)).await.unwrap();
            let again = next_status(&mut polite).await;
            assert_eq!(again, (xid, Nfsstat4::RetryUncachedRep));
            polite.send(&slots.read(xid, 2, &file)).await.unwrap();
            assert_eq!(next_status(&mut polite).await, (xid, Nfsstat4::Ok));
        }
        let of_the_dead = it.held.came() - CALLS as usize;
        assert!(of_the_dead < CALLS as usize / 2, "{of_the_dead} READs");
    });
}

#[test]
fn writes_of_nfsv4_are_carried_out_though_their_connection_has_gone_and_answered_over_another() {
    let fds = nfs_io::fs::raise_nofile(u64::MAX);
    let Some(it) = Holding::within(fds, of_all_versions) else {
        return;
    };
    block_on(async {
        let (_, file) = it.objects().await;
        let slots = Slots::for_calls(&it.served).await;
        let mut polite = it.connect(GREEDY).await;
        it.held.hold_writes_of(&HELD);
        let mut greedy = it.connect(GREEDY).await;
        let burst: Vec<u8> = (0..CALLS).flat_map(|xid| slots.write(xid, &file)).collect();
        greedy.send(&burst).await.unwrap();
        it.until_running(CALLS.into()).await;
        drop(greedy);
        // What is left: the sessions' connections, and the polite one.
        until("the server sees the end", || {
            it.served.server.clients().len() == slots.sessions.len() + 1
        })
        .await;
        assert_eq!(it.running(), u64::from(CALLS));
        it.held.let_all_go();
        it.until_running(0).await;
        let came = it.held.came();
        for xid in 0..CALLS {
            polite.send(&slots.write(xid, &file)).await.unwrap();
            assert_eq!(next_status(&mut polite).await, (xid, Nfsstat4::Ok));
        }
        assert_eq!(it.held.came(), came, "a WRITE was carried out twice");
    });
    let content = it.held.content(0, CALLS as usize * BLOCK);
    assert!(content.iter().all(|&byte| byte == HELD[0]));
}

#[test]
fn a_write_of_nfsv4_that_comes_again_while_it_runs_is_put_off_and_carried_out_once() {
    let fds = nfs_io::fs::raise_nofile(u64::MAX);
    let Some(it) = Holding::within(fds, of_all_versions) else {
        return;
    };
    block_on(async {
        let (_, file) = it.objects().await;
        let slots = Slots::for_calls(&it.served).await;
        it.held.hold_writes_of(&HELD);
        let mut first = it.connect(GREEDY).await;
        first.send(&slots.write(0, &file)).await.unwrap();
        it.held.wait_for_one().await.unwrap();
        let mut again = it.connect(GREEDY).await;
        for connection in [&mut again, &mut first] {
            connection.send(&slots.write(0, &file)).await.unwrap();
            assert_eq!(next_status(connection).await, (0, Nfsstat4::Delay));
        }
        it.held.let_all_go();
        assert_eq!(next_status(&mut first).await, (0, Nfsstat4::Ok));
        for connection in [&mut again, &mut first] {
            connection.send(&slots.write(0, &file)).await.unwrap();
            assert_eq!(next_status(connection).await, (0, Nfsstat4::Ok));
        }
        assert_eq!(it.held.came(), 1, "a WRITE was carried out twice");
        assert_eq!(it.served.counter("nfs4_replayed"), 2);
    });
}

/// What a COMPOUND works on is there to its end, though its export is not served any more (CVE-2026-31404,
/// CVE-2026-31403).
#[test]
fn a_compound_in_progress_ends_well_though_its_export_goes() {
    let fds = nfs_io::fs::raise_nofile(u64::MAX);
    let Some(it) = Holding::within(fds, of_all_versions) else {
        return;
    };
    block_on(async {
        let (_, file) = it.objects().await;
        let slots = Slots::for_calls(&it.served).await;
        it.held.hold_writes_of(&HELD);
        let mut client = it.connect(GREEDY).await;
        client.send(&slots.write(0, &file)).await.unwrap();
        it.held.wait_for_one().await.unwrap();
        let elsewhere = scratch(0o755);
        let mut config = it.served.config.clone();
        config.exports[0].path = elsewhere.path().to_owned();
        let table = ExportTable::new(&config).unwrap();
        it.served.server.apply(table).unwrap();
        client.send(&slots.write(1, &file)).await.unwrap();
        assert_eq!(next_status(&mut client).await, (1, Nfsstat4::Stale));
        it.held.let_all_go();
        assert_eq!(next_status(&mut client).await, (0, Nfsstat4::Ok));
        assert_eq!(it.held.content(0, BLOCK), HELD);
        // Sessions are the server's, and not the export's.
        client.send(&slots.write(0, &file)).await.unwrap();
        assert_eq!(next_status(&mut client).await, (0, Nfsstat4::Ok));
    });
}

#[test]
fn one_address_has_half_of_the_places_and_the_next_one_finds_some() {
    const CONNECTIONS: u64 = 8;
    const OF_EACH: u32 = 600;
    const POLITE: u64 = 100;
    let half = limits::IN_FLIGHT_PER_SHARD_MAX as u64 / 2;
    let Some(it) = Holding::start() else { return };
    block_on(async {
        let (_, file) = it.objects().await;
        it.held.hold_reads();
        let mut greedy = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut connection = it.connect(GREEDY).await;
            connection.send(&reads(file, OF_EACH)).await.unwrap();
            greedy.push(connection);
        }
        until("the places are taken", || it.running() >= half).await;
        let mut polite = it.connect(Ipv4Addr::new(127, 0, 0, 3)).await;
        polite.send(&reads(file, POLITE as u32)).await.unwrap();
        until("the next client's calls run", || {
            let clients = it.served.server.clients();
            let polite = clients
                .iter()
                .find(|it| it.address.starts_with("127.0.0.3:"));
            polite.is_some_and(|it| it.in_flight == POLITE)
        })
        .await;
        // Each connection may have one call, whatever its client has elsewhere.
        let most = half + CONNECTIONS + POLITE;
        assert!(it.running() <= most, "{} of {most}", it.running());
        it.held.let_all_go();
        for connection in &mut greedy {
            for _ in 0..OF_EACH {
                assert_eq!(next_answer(connection).await.1, Nfsstat3::Ok);
            }
        }
    });
}

#[test]
fn calls_with_long_records_take_as_many_places_as_they_have_kibibytes() {
    let fds = nfs_io::fs::raise_nofile(u64::MAX);
    let it = Holding::within(fds, |config| {
        of_all_versions(config);
        config.server.memory_bytes = limits::MEMORY_BYTES_MIN;
    });
    let Some(it) = it else { return };
    block_on(async {
        let (_, file) = it.objects().await;
        let mut slots = Slots::for_calls(&it.served).await;
        slots.tag = &[b'x'; TAG_BYTES_MAX];
        let len = slots.read(0, 1, &file).len() - 4;
        assert_eq!(len.div_ceil(limits::RECORD_BYTES_PER_PLACE), 2, "{len}");
        // A shard has places for so many calls at least, of which one host has half.
        let most = limits::IN_FLIGHT_PER_CONNECTION_MAX as u64 / 2 / 2;
        assert!(most < u64::from(CALLS));
        it.held.hold_reads();
        let mut greedy = it.connect(GREEDY).await;
        let burst: Vec<u8> = (0..CALLS)
            .flat_map(|xid| slots.read(xid, 1, &file))
            .collect();
        greedy.send(&burst).await.unwrap();
        it.until_running(most).await;
        // Another's calls come and go meanwhile, and no more of these have begun.
        let mut polite = it.connect(Ipv4Addr::new(127, 0, 0, 3)).await;
        for xid in 0..CALLS {
            polite
                .send(&record(xid, Procedure::Null, &()))
                .await
                .unwrap();
            polite.receive_record().await.unwrap().unwrap();
        }
        assert_eq!(it.running(), most);
        it.held.let_all_go();
        for _ in 0..CALLS {
            assert_eq!(next_status(&mut greedy).await.1, Nfsstat4::Ok);
        }
    });
}

/// A connection that the server takes, from this address, and a NULL call over it.
async fn taken(it: &Holding, own: Ipv4Addr) -> Option<TcpStream> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = connect_from(own, it.served.addr).await.ok()?;
    let asked = async {
        stream.write_all(&record(1, Procedure::Null, &())).await?;
        stream.read_exact(&mut [0; 28]).await
    };
    let asked = tokio::time::timeout(DEADLINE, asked).await;
    asked.expect("neither served nor closed").ok()?;
    Some(stream)
}

#[test]
fn at_the_limit_a_connection_without_calls_goes_and_none_whose_calls_wait() {
    /// What one host may have with so few descriptors.
    const OF_A_HOST: u64 = 8;
    // Room for four times as many connections.
    let it = Holding::within(8 * OF_A_HOST, |config| {
        config.server.trust_loopback = true;
        config.exports[0].clients[0].net = "127.0.0.0/8".parse().unwrap();
    });
    let Some(it) = it else { return };
    block_on(async {
        let (_, file) = it.objects().await;
        it.held.hold_reads();
        let mut busy = Vec::new();
        for _ in 1..OF_A_HOST {
            let mut connection = it.connect(GREEDY).await;
            connection.send(&read(1, file)).await.unwrap();
            busy.push(connection);
        }
        it.until_running(OF_A_HOST - 1).await;
        // It came last and spoke last, and nothing of it is under way.
        let idle = taken(&it, GREEDY).await.unwrap();
        let newcomer = async {
            loop {
                if let Some(stream) = taken(&it, GREEDY).await {
                    return stream;
                }
                // SLEEP: time itself is what is waited for: idle is who was for a second.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let newcomer = tokio::time::timeout(DEADLINE, newcomer).await;
        let _newcomer = newcomer.expect("nobody makes room");
        assert_eq!(it.served.counter("connections_displaced"), 1);
        let mut idle = RawConnection::from_stream(idle);
        let ended = tokio::time::timeout(DEADLINE, idle.receive_record()).await;
        assert!(matches!(ended, Ok(Ok(None) | Err(_))), "another one went");
        it.held.let_all_go();
        for connection in &mut busy {
            assert_eq!(next_answer(connection).await, (1, Nfsstat3::Ok));
        }
    });
}

#[test]
fn on_a_crowded_connection_a_repetition_does_not_wait_and_what_is_done_is_answered() {
    /// So many calls on a connection, and none waits there for another run of itself.
    const CROWD: u32 = limits::IN_FLIGHT_BESIDE_AWAITED_MAX as u32;
    let Some(it) = Holding::start() else { return };
    block_on(async {
        let (_, file) = it.objects().await;
        let (done, held) = (write(1000, file, &[3; BLOCK]), write(1001, file, &HELD));
        it.held.hold_writes_of(&HELD);
        let mut first = it.connect(GREEDY).await;
        first.send(&done).await.unwrap();
        assert_eq!(next_answer(&mut first).await, (1000, Nfsstat3::Ok));
        first.send(&held).await.unwrap();
        let mut crowded = it.connect(GREEDY).await;
        let crowd: Vec<u8> = (0..CROWD).flat_map(|xid| write(xid, file, &HELD)).collect();
        crowded.send(&crowd).await.unwrap();
        it.until_running(u64::from(CROWD) + 1).await;
        crowded.send(&held).await.unwrap();
        let repeated = || it.served.counter("repeated_calls_in_progress");
        until("the repetition is seen", || repeated() == 1).await;
        crowded.send(&done).await.unwrap();
        assert_eq!(next_answer(&mut crowded).await, (1000, Nfsstat3::Ok));
        assert_eq!(it.running(), u64::from(CROWD) + 1, "it was dropped");
        assert_eq!(it.served.counter("replayed_replies"), 1);

        let mut elsewhere = it.connect(GREEDY).await;
        elsewhere.send(&held).await.unwrap();
        until("the next repetition is seen", || repeated() == 2).await;
        assert_eq!(it.running(), u64::from(CROWD) + 2, "it waits");
        it.held.let_all_go();
        assert_eq!(next_answer(&mut elsewhere).await, (1001, Nfsstat3::Ok));
        let mut answered = Vec::new();
        for _ in 0..CROWD {
            let (xid, status) = next_answer(&mut crowded).await;
            assert_eq!(status, Nfsstat3::Ok);
            answered.push(xid);
        }
        answered.sort_unstable();
        assert!(answered.into_iter().eq(0..CROWD), "one reply for each");
        crowded.send(&held).await.unwrap();
        assert_eq!(next_answer(&mut crowded).await, (1001, Nfsstat3::Ok));
        assert_eq!(it.served.counter("replayed_replies"), 2);
    });
}
