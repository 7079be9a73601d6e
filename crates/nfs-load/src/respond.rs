//! A responder that touches no file: it reads calls, throws their data away and answers from one buffer.
//!
//! What a load or a client reaches against it is what that side, loopback and one server core can carry at most: a
//! server's figure near it says more about the load than about the server, and a client's distance from what bare TCP
//! carries says what the client costs. Every name is a file of one size, whether it is looked up or made; but names that
//! begin with `new` are not there until they are made, and then are empty files, and those that begin with `dir` are
//! directories. It remembers nothing: what was written is gone.
//!
//! Given [`Files`], it is the plain program that a server is held against: names, READs and WRITEs are those of a
//! directory then, and each call is done, by one system call, before the next is looked at.

use std::io::{self, IoSlice, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use nfs_io::{Budget, Buf, BufferPool, BusyPoll};
use nfs_wire::mount3;
use nfs_wire::nfs3::{self, Ftype3, Nfsstat3, Procedure};

use crate::input::{Input, InputError};
use crate::limits::{NAME_BYTES_MAX, RESPONDER_PIECES_MAX, RESPONDER_REPLIES_MAX};

mod files;

pub use files::Files;

/// The path that the responder names as its export.
pub const EXPORT: &str = "/export";
/// The longest READ and WRITE that the responder answers, in bytes.
const DATA_BYTES: usize = 1 << 20;
/// Bytes that the responder reads ahead from the socket: a dozen calls, and no more of a WRITE's data than is soon copied.
const AHEAD_BYTES: usize = 2048;
/// From so many bytes of data on, replies leave without waiting for those to the calls behind them.
const SENT_AT_BYTES: usize = 64 << 10;
/// What the data of one reply, read past the page cache, begins at a multiple of in memory.
const ALIGNMENT: usize = 4096;

/// Bytes, and files, that the responder says it has room for.
const ROOM: u64 = 1 << 60;

/// How the responder answers, which is the same for all connections.
#[derive(Clone, Copy, Debug)]
pub struct Answers {
    /// Size of every file in bytes.
    pub file_bytes: u64,
    /// How long after its call a reply goes out at the earliest, as if a network or a disk were that far
    /// away.
    pub delay: Duration,
    /// Whether a WRITE's data is copied out of the kernel, into one buffer, as a program has to that looks at it.
    /// Otherwise the kernel discards it.
    pub copied: bool,
    /// How long the thread of a connection looks for the next call before it sleeps.
    pub busy_poll: BusyPoll,
}

/// Answers connections on `port` of loopback until the process is ended.
///
/// # Errors
/// The port is taken.
pub fn serve(port: u16, answers: Answers) -> io::Result<()> {
    accept(&TcpListener::bind((Ipv4Addr::LOCALHOST, port))?, answers)
}

/// Answers connections on `port` of loopback out of these files until the process is ended: the plain program.
///
/// # Errors
/// The port is taken.
pub fn serve_files(port: u16, files: Files, busy_poll: BusyPoll) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    accept_files(&listener, files, busy_poll)
}

/// Answers the connections of `listener` out of these files until the process is ended.
///
/// # Errors
/// No connection can be taken any more.
pub fn accept_files(listener: &TcpListener, files: Files, busy_poll: BusyPoll) -> io::Result<()> {
    let answers = Answers {
        file_bytes: 0,
        delay: Duration::ZERO,
        copied: true,
        busy_poll,
    };
    accept_with(listener, answers, Some(&Arc::new(files)))
}

/// Answers connections in threads of this process, at a free port of loopback, until the process ends. Connections that
/// are closed end their threads.
///
/// # Errors
/// There is no loopback.
pub fn begin(answers: Answers) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || accept(&listener, answers));
    Ok(address)
}

/// Answers the connections of `listener` until the process is ended.
///
/// # Errors
/// No connection can be taken any more.
pub fn accept(listener: &TcpListener, answers: Answers) -> io::Result<()> {
    accept_with(listener, answers, None)
}

fn accept_with(
    listener: &TcpListener,
    answers: Answers,
    files: Option<&Arc<Files>>,
) -> io::Result<()> {
    for stream in listener.incoming() {
        // A connection at a time would starve MOUNT, which the load makes beside its own.
        let (stream, files) = (stream?, files.cloned());
        std::thread::spawn(move || answer(stream, answers, files));
    }
    Ok(())
}

/// A reply's head, and how many bytes of data follow it.
struct Reply {
    head: Vec<u8>,
    len: usize,
}

fn answer(
    stream: TcpStream,
    answers: Answers,
    files: Option<Arc<Files>>,
) -> Result<(), InputError> {
    stream.set_nodelay(true)?;
    let mut caller = Caller {
        input: Input::new(stream.try_clone()?, AHEAD_BYTES).polling(answers.busy_poll),
        payload: memory(DATA_BYTES)?,
        answers,
        files,
    };
    let mut out = Out::new(stream)?;
    if answers.delay.is_zero() {
        let mut head = Vec::new();
        loop {
            head.clear();
            let len = caller.next(&mut head, out.room())?;
            out.put(&mut head, len)?;
            // Replies leave together where calls came together. What is left of a call that has begun comes by itself.
            if !caller.input.has_bytes() || out.is_full() {
                out.flush()?;
            }
        }
    }
    let (later, due): (SyncSender<(Instant, Reply)>, _) = sync_channel(RESPONDER_REPLIES_MAX);
    let sender = std::thread::spawn(move || send_when_due(&due, &mut out));
    loop {
        let mut head = Vec::new();
        let Ok(len) = caller.next(&mut head, &mut []) else {
            break;
        };
        if later
            .send((Instant::now() + answers.delay, Reply { head, len }))
            .is_err()
        {
            break;
        }
    }
    drop(later);
    match sender.join() {
        Ok(sent) => sent,
        Err(_) => Err(io::Error::other("the sending thread panicked").into()),
    }
}

fn send_when_due(due: &Receiver<(Instant, Reply)>, out: &mut Out) -> Result<(), InputError> {
    while let Ok((at, mut reply)) = due.recv() {
        // SLEEP: the delay is what is asked for.
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        out.put(&mut reply.head, reply.len)?;
        out.flush()?;
    }
    Ok(())
}

/// Memory that files can be read into past the page cache.
fn memory(len: usize) -> io::Result<Buf> {
    let pool = BufferPool::new(Budget::new(BufferPool::bytes_of(len)));
    pool.try_take(len)
        .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Replies that have not been sent.
struct Out {
    stream: TcpStream,
    /// Their heads, one behind the other.
    heads: Vec<u8>,
    /// Where in `heads` the head of each reply ends that has data, and where in `data` that is.
    pieces: Vec<(usize, std::ops::Range<usize>)>,
    data: Buf,
    /// Bytes of `data` that belong to these replies.
    filled: usize,
}

impl Out {
    fn new(stream: TcpStream) -> io::Result<Self> {
        let mut data = memory(DATA_BYTES + SENT_AT_BYTES)?;
        data.fill(0x5a);
        Ok(Self {
            stream,
            heads: Vec::new(),
            pieces: Vec::new(),
            data,
            filled: 0,
        })
    }

    /// Where the data of the next reply goes: room for [`DATA_BYTES`] of it, if full replies are sent first.
    fn room(&mut self) -> &mut [u8] {
        &mut self.data[self.filled..]
    }

    /// Whether the replies have to be sent before the next is made.
    fn is_full(&self) -> bool {
        self.filled >= SENT_AT_BYTES || self.pieces.len() >= RESPONDER_PIECES_MAX
    }

    /// Takes a reply whose head has room for the record mark in front, and `len` bytes of data where [`Self::room`] said;
    /// it leaves with [`Self::flush`].
    fn put(&mut self, head: &mut [u8], len: usize) -> Result<(), InputError> {
        // Padded with whatever follows in the buffer: nobody may look at it.
        let padded = len.next_multiple_of(4);
        let mark = u32::try_from(head.len() - 4 + padded)? | 1 << 31;
        head[..4].copy_from_slice(&mark.to_be_bytes());
        self.heads.extend_from_slice(head);
        if padded > 0 {
            let data = self.filled..self.filled + padded;
            self.filled = data.end.next_multiple_of(ALIGNMENT);
            self.pieces.push((self.heads.len(), data));
        }
        Ok(())
    }

    /// Sends the replies.
    fn flush(&mut self) -> Result<(), InputError> {
        let (mut slices, mut sent) = (Vec::with_capacity(2 * self.pieces.len() + 1), 0);
        for (end, data) in &self.pieces {
            slices.push(IoSlice::new(&self.heads[sent..*end]));
            slices.push(IoSlice::new(&self.data[data.clone()]));
            sent = *end;
        }
        slices.push(IoSlice::new(&self.heads[sent..]));
        let mut slices = &mut slices[..];
        // Empty ones go at once.
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            let written = self.stream.write_vectored(slices)?;
            IoSlice::advance_slices(&mut slices, written);
        }
        self.heads.clear();
        self.pieces.clear();
        self.filled = 0;
        Ok(())
    }
}

/// The kinds of object that a handle of the responder names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A file of the size that [`Answers::file_bytes`] says.
    File = 1,
    Directory = 2,
    /// A file that was made with a name that begins with `new`: it is empty.
    Made = 3,
}

/// What a handle of the responder names.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Object {
    kind: Kind,
    /// Which of the [`Files`] it is; zero without those.
    id: u32,
}

impl Object {
    /// What the handle of the export names.
    const ROOT: Self = Self::of(Kind::Directory);

    const fn of(kind: Kind) -> Self {
        Self { kind, id: 0 }
    }
}

struct Caller {
    input: Input,
    /// Where the data of WRITEs goes if it is copied out of the kernel.
    payload: Buf,
    answers: Answers,
    files: Option<Arc<Files>>,
}

impl Caller {
    /// Takes one call and composes the head of its reply behind room for the record mark; gives the length of
    /// the data that follows. What of it is a file's goes into `room`.
    fn next(&mut self, out: &mut Vec<u8>, room: &mut [u8]) -> Result<usize, InputError> {
        let xid = self.input.word()?;
        let (_call, _rpc) = (self.input.word()?, self.input.word()?);
        let program = self.input.word()?;
        let (_version, procedure) = (self.input.word()?, self.input.word()?);
        for _credential_and_verifier in 0..2 {
            let (_flavor, len) = (self.input.word()?, self.input.word()?);
            self.input.skip(usize::try_from(len.div_ceil(4) * 4)?)?;
        }
        // The mark's place, then REPLY, MSG_ACCEPTED, AUTH_NONE, SUCCESS.
        words(out, &[0, xid, 1, 0, 0, 0, 0]);
        let data = match program {
            mount3::PROGRAM => {
                mount_results(procedure, out)?;
                0
            }
            nfs3::PROGRAM => match Procedure::try_from(procedure) {
                Ok(procedure) => match self.file_results(procedure, out, room)? {
                    Some(len) => len,
                    None => self.results(procedure, out)?,
                },
                Err(_) => refuse(out, PROC_UNAVAIL),
            },
            _ => refuse(out, PROG_UNAVAIL),
        };
        self.input.finish_record()?;
        Ok(data)
    }

    fn results(&mut self, procedure: Procedure, out: &mut Vec<u8>) -> Result<usize, InputError> {
        match procedure {
            Procedure::Null => {}
            Procedure::Getattr => {
                let object = self.handle()?;
                words(out, &[0]);
                attributes(object, self.size(object.kind), out);
            }
            Procedure::Lookup => {
                let _dir = self.handle()?;
                let name = self.name()?;
                if name.starts_with(b"new") {
                    words(out, &[Nfsstat3::Noent as u32, 0]);
                    return Ok(0);
                }
                let kind = if name.starts_with(b"dir") {
                    Kind::Directory
                } else {
                    Kind::File
                };
                words(out, &[0]);
                handle(Object::of(kind), out);
                self.optional_attributes(kind, out);
                words(out, &[0]);
            }
            Procedure::Access => {
                let _object = self.handle()?;
                let bits = self.input.word()?;
                words(out, &[0, 0, bits]);
            }
            Procedure::Create | Procedure::Mkdir | Procedure::Symlink => {
                let _dir = self.handle()?;
                let is_new = self.name()?.starts_with(b"new");
                let kind = match procedure {
                    Procedure::Mkdir => Kind::Directory,
                    Procedure::Create if !is_new => Kind::File,
                    _ => Kind::Made,
                };
                words(out, &[0, 1]);
                handle(Object::of(kind), out);
                self.optional_attributes(kind, out);
                words(out, &[0, 0]);
            }
            Procedure::Fsinfo => {
                let most = u32::try_from(DATA_BYTES)?;
                // No attributes; READ and WRITE sizes; READDIR; the largest file; the clock's step; properties.
                words(out, &[0, 0, most, most, 1, most, most, 1, 4096]);
                words(out, &[u32::MAX >> 1, u32::MAX, 0, 1, 0x1b]);
            }
            // No attributes; a target of eight bytes.
            Procedure::Readlink => {
                words(out, &[0, 0, 8]);
                out.extend_from_slice(b"a/target");
            }
            // No attributes of the file, and none of the directory.
            Procedure::Link => words(out, &[0, 0, 0, 0]),
            Procedure::Fsstat => {
                words(out, &[0, 0]);
                // Bytes and files: all of them, those that are free, and those that the caller may have; no more is known.
                for _each in 0..6 {
                    out.extend_from_slice(&ROOM.to_be_bytes());
                }
                words(out, &[0]);
            }
            // No attributes; links and bytes of a name; long names are refused, owners kept, and case told apart and kept.
            Procedure::Pathconf => words(out, &[0, 0, u32::MAX, 255, 1, 1, 0, 1]),
            Procedure::Read => return self.read(out),
            Procedure::Write => self.write(out)?,
            Procedure::Commit => words(out, &[0, 0, 0, 0, 0]),
            Procedure::Setattr | Procedure::Remove | Procedure::Rmdir => words(out, &[0, 0, 0]),
            // Both directories as they are after it, without attributes.
            Procedure::Rename => words(out, &[0, 0, 0, 0, 0]),
            Procedure::Readdir | Procedure::Readdirplus => words(out, &[0, 0, 0, 0, 0, 1]),
            _ => return Ok(refuse(out, PROC_UNAVAIL)),
        }
        Ok(0)
    }

    fn read(&mut self, out: &mut Vec<u8>) -> Result<usize, InputError> {
        let kind = self.handle()?.kind;
        let offset = self.offset()?;
        let asked = self.input.word()?;
        let size = self.size(kind);
        let most = size.saturating_sub(offset).min(DATA_BYTES as u64);
        let count = u32::try_from(u64::from(asked).min(most))?;
        let eof = offset.saturating_add(u64::from(count)) >= size;
        words(out, &[0]);
        self.optional_attributes(kind, out);
        words(out, &[count, u32::from(eof), count]);
        Ok(usize::try_from(count)?)
    }

    fn write(&mut self, out: &mut Vec<u8>) -> Result<(), InputError> {
        let _file = self.handle()?;
        let _offset = self.offset()?;
        let (count, stable) = (self.input.word()?, self.input.word()?);
        let mut left = usize::try_from(self.input.word()?)?;
        while self.answers.copied && left > 0 {
            let part = left.min(self.payload.len());
            self.input.take(&mut self.payload[..part])?;
            left -= part;
        }
        // No attributes; all of it, as stable as asked; the verifier.
        words(out, &[0, 0, 0, count, stable, 0, 0]);
        Ok(())
    }

    fn handle(&mut self) -> Result<Object, InputError> {
        let len = usize::try_from(self.input.word()?)?;
        let (kind, id) = (self.input.word()?, self.input.word()?);
        self.input.skip(len.next_multiple_of(4).saturating_sub(8))?;
        let kind = match kind {
            1 => Kind::File,
            2 => Kind::Directory,
            3 => Kind::Made,
            _ => return Err(InputError::Handle),
        };
        Ok(Object { kind, id })
    }

    fn offset(&mut self) -> Result<u64, InputError> {
        let (high, low) = (self.input.word()?, self.input.word()?);
        Ok(u64::from(high) << 32 | u64::from(low))
    }

    fn name(&mut self) -> Result<Vec<u8>, InputError> {
        let len = usize::try_from(self.input.word()?)?;
        if len > NAME_BYTES_MAX {
            return Err(InputError::Name);
        }
        let mut name = vec![0; len];
        self.input.take(&mut name)?;
        self.input.skip(len.next_multiple_of(4) - len)?;
        Ok(name)
    }

    fn size(&self, kind: Kind) -> u64 {
        match kind {
            Kind::File => self.answers.file_bytes,
            Kind::Directory => 4096,
            Kind::Made => 0,
        }
    }

    fn optional_attributes(&self, kind: Kind, out: &mut Vec<u8>) {
        words(out, &[1]);
        attributes(Object::of(kind), self.size(kind), out);
    }
}

fn attributes(object: Object, size: u64, out: &mut Vec<u8>) {
    let (ftype, mode) = match object.kind {
        Kind::Directory => (Ftype3::Dir, 0o755),
        Kind::File | Kind::Made => (Ftype3::Reg, 0o644),
    };
    // Type, mode, links, owner, group.
    words(out, &[ftype as u32, mode, 1, 0, 0]);
    let fileid = u64::from(object.id) << 2 | object.kind as u64;
    for number in [size, size, 0, 1, fileid + 1] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    // The three times.
    words(out, &[1, 0, 1, 0, 1, 0]);
}

/// `accept_stat` of RFC 5531 §9 for a program that the responder does not serve.
const PROG_UNAVAIL: u32 = 1;
const PROC_UNAVAIL: u32 = 3;

/// Puts a refusal where the reply said SUCCESS; no data follows.
fn refuse(out: &mut Vec<u8>, stat: u32) -> usize {
    out.truncate(out.len() - 4);
    words(out, &[stat]);
    0
}

fn mount_results(procedure: u32, out: &mut Vec<u8>) -> Result<(), InputError> {
    if procedure == mount3::Procedure::Mnt as u32 {
        words(out, &[0]);
        handle(Object::ROOT, out);
        // One flavor: AUTH_SYS.
        words(out, &[1, 1]);
    } else if procedure == mount3::Procedure::Export as u32 {
        // One export, for everybody.
        words(out, &[1, u32::try_from(EXPORT.len())?]);
        out.extend_from_slice(EXPORT.as_bytes());
        out.resize(out.len().next_multiple_of(4), 0);
        words(out, &[0, 0]);
    } else if procedure == mount3::Procedure::Dump as u32 {
        words(out, &[0]);
    }
    Ok(())
}

fn handle(object: Object, out: &mut Vec<u8>) {
    words(out, &[8, object.kind as u32, object.id]);
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_be_bytes());
    }
}
