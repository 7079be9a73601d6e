//! Peers that mean harm, or are broken: the server stays up, its memory stays within its budget,
//! and a well-behaved client is served all along.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use fastrand::Rng;
use nfs_client::{Identity, RawConnection};
use nfs_lab::pattern;
use nfs_lab::{Server, ServerOptions};
use nfs_wire::nfs3::{FileHandle, GetattrArgs, Procedure, ReadArgs, WriteArgs};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketType};

use crate::host::Context;
use crate::host::wire::{block_on, mount, ok, walk};

/// The server's budget for buffers in this scenario.
const MEMORY: &str = "64MiB";
const MEMORY_BYTES: u64 = 64 << 20;
/// What the server may use besides: its program, caches and threads (32 MiB at rest), and 4 KiB for
/// each of the half-open connections.
const BASE_BYTES: u64 = (32 << 20) + HALF_OPEN as u64 * 4096;
/// What the server may keep of what attackers made it take: buffers that it will use again, of which half of its
/// budget may be idle.
const KEPT_BYTES: u64 = MEMORY_BYTES / 2;
/// Connections that send half a header and no more.
const HALF_OPEN: usize = 10_000;
/// Calls that the well-behaved client has to get through during each attack.
const SERVED_MIN: u64 = 50;
/// Hosts that attack.
const ATTACKERS: u64 = 8;
/// How long an attacker waits for a reaction of the server.
const DEADLINE: Duration = Duration::from_secs(60);

/// The function that carries out one kind of attack.
type Run = fn(&Attack) -> Result<()>;

/// The attacks, with their names in messages.
const ATTACKS: [(&str, Run); 7] = [
    ("connections of strangers", strangers),
    ("half-open connections", half_open),
    ("slow senders", slow_senders),
    ("records of 2^31-1 bytes", huge_records),
    ("fragments without end", endless_fragments),
    ("garbage", garbage),
    ("replies that nobody reads", unread_replies),
];

pub(super) fn run(context: &Context) -> Result<String> {
    raise_descriptor_limit(HALF_OPEN as u64 + 500)?;
    let export = context.lab.dir.join("export");
    fs::create_dir(&export)?;
    fs::write(export.join("file"), pattern::bytes(1, 0, 4 << 20))?;
    // Loopback is trusted, so that each of its addresses is a host of its own.
    let config = context.lab.dir.join("penstock.toml");
    let text = format!(
        "[server]\ntrust_loopback = true\n[[export]]\npath = {export:?}\npseudo = \"/\"\n\
         squash = \"none\"\nclients = [\"127.0.0.0/16\"]\n"
    );
    fs::write(&config, text)?;
    let options = ServerOptions {
        memory: Some(MEMORY),
        config: Some(config),
        ..ServerOptions::default()
    };
    let mut server = Server::start(
        &context.lab,
        &export,
        &context.lab.dir.join("state"),
        &options,
    )?;
    let at_rest = server.resident_max()?;
    let attack = Attack::new(server.address(), context)?;
    let witness = Witness::start(server.address())?;
    let mut seconds = Vec::new();
    for (name, run) in ATTACKS
        .iter()
        .chain(&[("all of these at once", all_at_once as Run)])
    {
        let start = Instant::now();
        let served = witness.served();
        run(&attack).with_context(|| (*name).to_owned())?;
        witness
            .wait_for(served + SERVED_MIN)
            .with_context(|| format!("during {name}"))?;
        server.alive().with_context(|| format!("after {name}"))?;
        let resident = server.resident_max()?;
        ensure!(
            resident <= MEMORY_BYTES + BASE_BYTES,
            "after {name} the server had used {} MiB of {} + {}",
            resident >> 20,
            MEMORY_BYTES >> 20,
            BASE_BYTES >> 20
        );
        seconds.push(format!("{name} {:.1} s", start.elapsed().as_secs_f64()));
    }
    let served = witness.stop()?;
    // A new client is welcome.
    block_on(async {
        let (nfs, root) = mount(server.address()).await?;
        ok("GETATTR", nfs.getattr(&root)).await.map(drop)
    })?;
    let resident = server.resident_max()? >> 20;
    let after = until_memory_is_back(&server, at_rest)?;
    server.stop()?;
    Ok(format!(
        "{served} calls served meanwhile, memory {} MiB at rest, {resident} MiB at most, {} MiB afterwards; {}",
        at_rest >> 20,
        after >> 20,
        seconds.join(", ")
    ))
}

/// Waits until the server has given back what the attackers made it take, and says what it has then.
fn until_memory_is_back(server: &Server, at_rest: u64) -> Result<u64> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let resident = server.resident()?;
        if resident <= at_rest + KEPT_BYTES {
            return Ok(resident);
        }
        ensure!(
            Instant::now() < deadline,
            "{} MiB stay of what attackers took, {} MiB at rest",
            resident >> 20,
            at_rest >> 20
        );
        // SLEEP: a rest between two looks.
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Raises the limit of open descriptors to `wanted`, if the system permits it.
pub(super) fn raise_descriptor_limit(wanted: u64) -> Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= wanted);
    if enough(now.current) {
        return Ok(());
    }
    let maximum = if enough(now.maximum) {
        now.maximum
    } else {
        Some(wanted)
    };
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(wanted),
            maximum,
        },
    )
    .with_context(|| format!("{wanted} open files at once (raise `ulimit -Hn`)"))
}

/// A client like any other, on a connection of its own: its calls are answered all along.
struct Witness {
    served: Arc<AtomicU64>,
    end: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl Witness {
    fn start(address: SocketAddr) -> Result<Self> {
        let (served, end) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (count, stop) = (Arc::clone(&served), Arc::clone(&end));
        let thread = std::thread::Builder::new()
            .name("witness".to_owned())
            .spawn(move || {
                block_on(async {
                    let (nfs, root) = mount(address).await?;
                    let file = walk(&nfs, &root, "file").await?;
                    let mut random = Rng::with_seed(1);
                    while !stop.load(Ordering::Relaxed) {
                        ok("GETATTR", nfs.getattr(&root)).await?;
                        let offset = random.u64(..4 << 20) & !4095;
                        let reply = ok("READ", nfs.read(&file, offset, 4096)).await?;
                        let wrong = pattern::first_difference(1, offset, &reply.data);
                        ensure!(
                            wrong.is_none() && reply.data.len() == 4096,
                            "READ: wrong bytes"
                        );
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })?;
        Ok(Self {
            served,
            end,
            thread,
        })
    }

    fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    fn wait_for(&self, served: u64) -> Result<()> {
        let deadline = Instant::now() + DEADLINE;
        while self.served() < served {
            ensure!(
                !self.thread.is_finished(),
                "the well-behaved client has failed"
            );
            ensure!(
                Instant::now() < deadline,
                "the well-behaved client is starved"
            );
            std::thread::yield_now();
        }
        Ok(())
    }

    fn stop(self) -> Result<u64> {
        self.end.store(true, Ordering::Relaxed);
        let outcome = self
            .thread
            .join()
            .map_err(|_| anyhow!("the well-behaved client panicked"));
        outcome?.context("the well-behaved client")?;
        Ok(self.served.load(Ordering::Relaxed))
    }
}

/// What an attack needs to know about the server and the run.
struct Attack {
    address: SocketAddr,
    root: FileHandle,
    file: FileHandle,
    seed: u64,
    quick: bool,
    turn: AtomicU64,
}

impl Attack {
    fn new(address: SocketAddr, context: &Context) -> Result<Self> {
        let (root, file) = block_on(async {
            let (nfs, root) = mount(address).await?;
            Ok((root, walk(&nfs, &root, "file").await?))
        })?;
        Ok(Self {
            address,
            root,
            file,
            seed: context.seed,
            quick: context.quick,
            turn: AtomicU64::new(0),
        })
    }

    /// The same with fewer connections and bytes.
    fn short(&self) -> Self {
        Self {
            quick: true,
            turn: AtomicU64::new(0),
            ..*self
        }
    }

    /// A connection from one of the attackers' addresses, another one each time.
    fn connect(&self) -> Result<TcpStream> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let host = 1 + turn % ATTACKERS;
        self.connect_from(Ipv4Addr::new(127, 0, 1, host as u8))
            .context("connect")
    }

    fn connect_from(&self, own: Ipv4Addr) -> Result<TcpStream> {
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        net::bind(&socket, &SocketAddr::from((own, 0)))?;
        net::connect(&socket, &self.address)?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// A whole record with a GETATTR of the export's root.
    fn getattr(&self, xid: u32) -> Vec<u8> {
        let args = GetattrArgs { object: self.root };
        record(&call(xid, Procedure::Getattr, &args))
    }
}

fn call(xid: u32, procedure: Procedure, args: &impl nfs_wire::Encode) -> Vec<u8> {
    let number = nfs_client::nfs3::number(procedure);
    RawConnection::call_body(xid, number, &Identity::sys(0, 0, &[]), args)
}

fn record(body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32 | 0x8000_0000).to_be_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// Whether the server has closed the connection; replies are thrown away.
fn closed(stream: &mut TcpStream) -> Result<bool> {
    let mut sink = [0; 4096];
    loop {
        match stream.read(&mut sink) {
            Ok(0) => return Ok(true),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if is_reset(error.kind()) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

const fn is_reset(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
    )
}

fn is_reset_error(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Errno>() == Some(&Errno::CONNRESET)
}

/// Each of [`ATTACKS`] in its short form, at the same time.
fn all_at_once(attack: &Attack) -> Result<()> {
    let short = attack.short();
    std::thread::scope(|scope| {
        let attackers = ATTACKS.map(|(name, run)| {
            let short = &short;
            scope.spawn(move || run(short).with_context(|| format!("{name}, among all")))
        });
        attackers.into_iter().try_for_each(|attacker| {
            attacker
                .join()
                .unwrap_or_else(|_| Err(anyhow!("an attacker panicked")))
        })
    })
}

/// Ten thousand connections of hosts that no export names, which are not kept, and leave every place to others.
fn strangers(attack: &Attack) -> Result<()> {
    let count = if attack.quick {
        HALF_OPEN / 10
    } else {
        HALF_OPEN
    };
    let mut held = Vec::with_capacity(count);
    for i in 0..count {
        let [high, low] = (i as u16 % 1000).to_be_bytes();
        match attack.connect_from(Ipv4Addr::new(127, 1, high, low)) {
            Ok(stream) => held.push(stream),
            Err(error) if is_reset_error(&error) => {}
            Err(error) => return Err(error).with_context(|| format!("connection {i}")),
        }
    }
    for (i, stream) in held.iter_mut().enumerate() {
        ensure!(closed(stream)?, "connection {i} of a stranger is kept open");
    }
    Ok(())
}

/// Ten thousand connections that send half a header and then nothing.
fn half_open(attack: &Attack) -> Result<()> {
    let count = if attack.quick {
        HALF_OPEN / 10
    } else {
        HALF_OPEN
    };
    let mut held = Vec::with_capacity(count);
    for i in 0..count {
        let mut stream = attack
            .connect()
            .with_context(|| format!("connection {i}"))?;
        match stream.write_all(&[0x80, 0]) {
            Ok(()) => held.push(stream),
            // Turned away: a server may have a cap.
            Err(error) if is_reset(error.kind()) => {}
            Err(error) => return Err(error).with_context(|| format!("connection {i}")),
        }
    }
    ensure!(
        held.len() > count / 2,
        "only {} of {count} connections were taken",
        held.len()
    );
    Ok(())
}

/// Calls that come one byte at a time, on many connections: each is answered in the end.
fn slow_senders(attack: &Attack) -> Result<()> {
    let count = if attack.quick { 20 } else { 200 };
    let mut streams = (0..count)
        .map(|_| attack.connect())
        .collect::<Result<Vec<TcpStream>>>()?;
    let length = attack.getattr(0).len();
    for at in 0..length {
        for (xid, stream) in (0..).zip(&mut streams) {
            stream
                .write_all(&attack.getattr(xid)[at..=at])
                .context("send a byte")?;
        }
    }
    for (xid, stream) in (0_u32..).zip(&mut streams) {
        let mut head = [0; 8];
        stream
            .read_exact(&mut head)
            .with_context(|| format!("reply to {xid}"))?;
        ensure!(head[4..] == xid.to_be_bytes(), "a reply with another xid");
    }
    Ok(())
}

/// A header that announces 2^31-1 bytes, and then as many as the server takes.
fn huge_records(attack: &Attack) -> Result<()> {
    let piece = vec![0x5a; 64 << 10];
    for header in [0xffff_ffff_u32, 0x7fff_ffff] {
        for _ in 0..16 {
            let mut stream = attack.connect()?;
            stream.write_all(&header.to_be_bytes())?;
            until_closed(&mut stream, &piece, 64 << 20)
                .with_context(|| format!("header {header:#x}"))?;
        }
    }
    Ok(())
}

/// Fragments of which none is the last: empty ones, of one byte, of 32 KiB.
fn endless_fragments(attack: &Attack) -> Result<()> {
    for length in [0_u32, 1, 32 << 10] {
        let mut fragment = length.to_be_bytes().to_vec();
        fragment.resize(4 + length as usize, 0x5a);
        let piece = fragment.repeat((64 << 10) / fragment.len() + 1);
        let mut stream = attack.connect()?;
        until_closed(&mut stream, &piece, 64 << 20)
            .with_context(|| format!("fragments of {length} bytes"))?;
    }
    Ok(())
}

/// Sends `piece` again and again until the server closes the connection, which it has to do before
/// `most` bytes.
fn until_closed(stream: &mut TcpStream, piece: &[u8], most: usize) -> Result<()> {
    let mut sent = 0;
    while sent < most {
        match stream.write(piece) {
            Ok(n) => sent += n,
            Err(error) if is_reset(error.kind()) => return Ok(()),
            // It reads no more; what it does with the connection is seen by reading.
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error.into()),
        }
    }
    ensure!(
        sent < most,
        "the server took {sent} bytes and still listens"
    );
    ensure!(closed(stream)?, "the server keeps the connection open");
    Ok(())
}

/// A gibibyte over several connections: noise, records of noise, damaged calls, and WRITEs to forged
/// handles, which make up for what the server cut off of the others.
fn garbage(attack: &Attack) -> Result<()> {
    let total: u64 = if attack.quick { 64 << 20 } else { 1 << 30 };
    let kinds: [fn(&mut Rng, &Attack) -> Vec<u8>; 4] = [noise, noise_record, forged, damaged];
    let each = total / kinds.len() as u64;
    let sent: u64 = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..)
            .zip(kinds)
            .map(|(i, make)| {
                scope.spawn(move || {
                    pour(attack, &mut Rng::with_seed(attack.seed + i), each, make)
                        .with_context(|| format!("garbage of kind {i}"))
                })
            })
            .collect();
        let join = |sender: std::thread::ScopedJoinHandle<'_, Result<u64>>| {
            sender
                .join()
                .unwrap_or_else(|_| Err(anyhow!("a sender panicked")))
        };
        senders.into_iter().map(join).sum::<Result<u64>>()
    })?;
    let rest = total.saturating_sub(sent);
    let more = pour(attack, &mut Rng::with_seed(attack.seed), rest, forged)?;
    ensure!(
        sent + more >= total,
        "only {} bytes of garbage were taken",
        sent + more
    );
    Ok(())
}

/// Sends `total` bytes of what `make` makes, and returns how many were sent; connects anew whenever the server has had enough.
/// Noise is mostly cut off at its first header, so the number of connections is limited as well.
fn pour(
    attack: &Attack,
    random: &mut Rng,
    total: u64,
    make: fn(&mut Rng, &Attack) -> Vec<u8>,
) -> Result<u64> {
    let mut sent = 0;
    for _ in 0..2000 {
        let mut stream = attack.connect()?;
        let mut replies = stream.try_clone()?;
        // Replies have to be read, or the server rightly stops reading.
        let reader = std::thread::spawn(move || std::io::copy(&mut replies, &mut std::io::sink()));
        let outcome = loop {
            let piece = make(random, attack);
            match stream.write_all(&piece) {
                Ok(()) => sent += piece.len() as u64,
                Err(error) if is_reset(error.kind()) => break Ok(()),
                Err(error) => break Err(error).context("the server neither reads nor closes"),
            }
            if sent >= total {
                break Ok(());
            }
        };
        let _closed_already = stream.shutdown(Shutdown::Both);
        let _reset = reader.join();
        outcome?;
        if sent >= total {
            break;
        }
    }
    Ok(sent)
}

fn noise(random: &mut Rng, _attack: &Attack) -> Vec<u8> {
    (0..8192)
        .flat_map(|_| random.u64(..).to_le_bytes())
        .collect()
}

fn noise_record(random: &mut Rng, attack: &Attack) -> Vec<u8> {
    let mut body = noise(random, attack);
    body.truncate(1 + random.usize(..60_000));
    record(&body)
}

/// A WRITE of 1 MiB to a handle that nobody ever gave out.
fn forged(random: &mut Rng, attack: &Attack) -> Vec<u8> {
    let mut handle = attack.file.as_ref().to_vec();
    let at = random.usize(..handle.len());
    handle[at] ^= 1 << random.u64(..8);
    let file = FileHandle::new(&handle).unwrap_or(attack.file);
    let data = vec![0x5a; 1 << 20];
    let (count, stable) = (1 << 20, nfs_wire::nfs3::StableHow::Unstable);
    let args = WriteArgs {
        file,
        offset: 0,
        count,
        stable,
        data: &data,
    };
    record(&call(random.u64(..) as u32, Procedure::Write, &args))
}

/// A READ or a WRITE with some bytes changed, in a record of the right length.
fn damaged(random: &mut Rng, attack: &Attack) -> Vec<u8> {
    let xid = random.u64(..) as u32;
    let mut body = if random.u64(..2) == 0 {
        let args = ReadArgs {
            file: attack.file,
            offset: random.u64(..),
            count: 1 << 20,
        };
        call(xid, Procedure::Read, &args)
    } else {
        let data = vec![0x5a; random.usize(..100_000)];
        let stable = nfs_wire::nfs3::StableHow::Unstable;
        // A handle that is no longer one: nothing here may change the file.
        let file = FileHandle::new(&[7; 32]).unwrap_or(attack.file);
        let count = data.len() as u32;
        call(
            xid,
            Procedure::Write,
            &WriteArgs {
                file,
                offset: 0,
                count,
                stable,
                data: &data,
            },
        )
    };
    let head = body.len().min(250);
    for _ in 0..1 + random.usize(..4) {
        body[random.usize(..head)] = random.u64(..) as u8;
    }
    record(&body)
}

/// Many READs of 1 MiB, and nobody takes the replies.
fn unread_replies(attack: &Attack) -> Result<()> {
    let count = if attack.quick { 16 } else { 64 };
    let mut held = Vec::new();
    for i in 0..count {
        let mut stream = attack.connect()?;
        for xid in 0..200 {
            let args = ReadArgs {
                file: attack.file,
                offset: 0,
                count: 1 << 20,
            };
            let bytes = record(&call(i * 1000 + xid, Procedure::Read, &args));
            match stream.write_all(&bytes) {
                Ok(()) => {}
                Err(error) if is_reset(error.kind()) => break,
                Err(error) => bail!("connection {i}: {error}"),
            }
        }
        held.push(stream);
    }
    // One of them changes its mind and reads: its replies are all right.
    let Some(stream) = held.first_mut() else {
        bail!("no connection")
    };
    let mut head = [0; 8];
    stream
        .read_exact(&mut head)
        .context("the first of many replies")?;
    Ok(())
}
