//! The whole server, from the socket to the files of an export and back.
//!
//! It runs in this process, so that its branches are counted, and is reached over loopback as by any peer. The
//! first byte of an input says whether the rest is a stream of bytes, sent as it is, or a list of calls: procedure,
//! object, length, arguments behind the object's handle. The word `HNDL` in arguments stands for the root's
//! handle, since nobody can guess one.
//!
//! What must hold: no panic (this build aborts), every reply is one, and the server goes on answering,
//! this connection and another.
#![no_main]

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use nfs_server::config::{
    Config, Durability, EngineChoice, ExportConfig, ServerConfig, SquashKind,
};
use nfs_server::state_dir::StateDir;
use nfs_server::{Server, ServerOptions};
use nfs_wire::auth::{AUTH_SYS, AuthSys, GidList, OpaqueAuth};
use nfs_wire::mount3::{self, Dirpath, MntRes};
use nfs_wire::nfs3::{
    self, DirOpArgs, Failure, FileHandle, Filename, LookupArgs, LookupOk, PostOpAttr, Procedure,
};
use nfs_wire::record::FragmentHeader;
use nfs_wire::rpc::{CallHeader, ReplyHeader};
use nfs_wire::{Decode, Decoder, Encode, Encoder, encode_to_vec};

/// What an export holds at the start, and what inputs may act on.
const FIXTURES: [&str; 3] = ["file", "directory", "link"];
/// Whatever inputs made is removed after this many.
const RUNS_BETWEEN_SWEEPS: u64 = 2048;
/// The xid of the call that ends a run; calls of inputs have small ones.
const LAST_XID: u32 = u32::MAX;
/// No answer within this time is a hang.
const PATIENCE: Duration = Duration::from_secs(20);

fuzz_target!(|data: &[u8]| {
    let world = world();
    let Some((&mode, rest)) = data.split_first() else {
        return;
    };
    let mut stream = connect(world.address);
    if mode & 1 == 0 {
        let mut bytes = calls(world, rest);
        bytes.extend(call(LAST_XID, (nfs3::PROGRAM, 3, 0), &()));
        // A server that hangs up on a bad record is within its rights.
        let _ = stream.write_all(&bytes);
        answers(&mut stream);
    } else {
        let _ = stream.write_all(rest);
        let _ = stream.shutdown(Shutdown::Write);
        answers(&mut stream);
    }
    world.others_are_served();
});

/// The server and what is known of it.
struct World {
    address: SocketAddr,
    export: PathBuf,
    root: FileHandle,
    objects: Vec<FileHandle>,
    other: Mutex<(TcpStream, u64)>,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(World::new)
}

impl World {
    fn new() -> Self {
        let scratch = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/scratch/server");
        let _ = fs::remove_dir_all(&scratch);
        let export = scratch.join("export");
        fs::create_dir_all(export.join("directory")).expect("a scratch directory");
        fs::write(export.join("file"), b"contents").expect("a file");
        std::os::unix::fs::symlink("file", export.join("link")).expect("a link");
        give_to_nobody(&export);
        let address = start(&scratch, &export);
        let root = mount(address);
        let mut objects = vec![root];
        objects.extend(FIXTURES.map(|name| lookup(address, root, name)));
        let other = Mutex::new((connect(address), 0));
        Self {
            address,
            export,
            root,
            objects,
            other,
        }
    }

    /// Another connection gets an answer; now and then, what inputs made is removed.
    fn others_are_served(&self) {
        let mut other = self.other.lock().expect("one run at a time");
        let reply = ask(&mut other.0, &call(LAST_XID, (nfs3::PROGRAM, 3, 0), &()));
        assert!(ReplyHeader::decode(&mut Decoder::new(&reply)).is_ok());
        other.1 += 1;
        if other.1 % RUNS_BETWEEN_SWEEPS == 0 {
            sweep(&self.export);
        }
    }
}

/// Requests run as nobody, who owns the export: a mistake of the server must not cost the machine anything.
fn give_to_nobody(export: &Path) {
    const NOBODY: Option<u32> = Some(65534);
    for path in [
        export.to_owned(),
        export.join("file"),
        export.join("directory"),
    ] {
        // Refused to whoever is not root; then everybody is the one who runs this.
        let _ = std::os::unix::fs::chown(path, NOBODY, NOBODY);
    }
}

fn sweep(export: &Path) {
    for entry in fs::read_dir(export).into_iter().flatten().flatten() {
        if FIXTURES.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let _ = fs::remove_file(entry.path());
        let _ = fs::remove_dir_all(entry.path());
    }
}

fn start(scratch: &Path, export: &Path) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.set_nonblocking(true).expect("non-blocking");
    let address = listener.local_addr().expect("an address");
    let server = ServerConfig {
        engine: EngineChoice::Threads,
        rpcbind: false,
        shards: Some(1),
        ..ServerConfig::default()
    };
    let mut served = ExportConfig::new(export, "/");
    // A flush for each CREATE would leave no time for anything else.
    served.durability = Durability::Async;
    for client in &mut served.clients {
        client.squash = SquashKind::All;
    }
    let state_dir = StateDir::open(&scratch.join("state")).expect("a state directory");
    let config = Config::from_flags(server, vec![served]);
    let options = ServerOptions {
        config,
        state_dir,
        listeners: vec![listener],
    };
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let ended = runtime.expect("a runtime").block_on(async {
            let server = Server::start(options).expect("a server");
            server.run_until(std::future::pending()).await
        });
        panic!("the server ended: {ended:?}");
    });
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server accepts");
    stream.set_nodelay(true).expect("nodelay");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

fn mount(address: SocketAddr) -> FileHandle {
    let mnt = (mount3::PROGRAM, 3, mount3::Procedure::Mnt as u32);
    let reply = ask(&mut connect(address), &call(1, mnt, &Dirpath(b"/")));
    results::<MntRes>(&reply)
        .expect("the export can be mounted")
        .fhandle
}

fn lookup(address: SocketAddr, dir: FileHandle, name: &str) -> FileHandle {
    let what = DirOpArgs {
        dir,
        name: Filename(name.as_bytes()),
    };
    let lookup = (nfs3::PROGRAM, 3, Procedure::Lookup as u32);
    let reply = ask(
        &mut connect(address),
        &call(1, lookup, &LookupArgs { what }),
    );
    let found: Result<LookupOk, Failure<PostOpAttr>> = results(&reply);
    found.expect("the fixture is there").object
}

fn results<'a, T: Decode<'a>>(reply: &'a [u8]) -> T {
    let mut decoder = Decoder::new(reply);
    ReplyHeader::decode(&mut decoder).expect("a reply");
    T::decode(&mut decoder).expect("results")
}

/// The calls that an input describes.
fn calls(world: &World, mut input: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut xid = 0;
    while let Some((&[procedure, object, len], rest)) = input.split_first_chunk::<3>() {
        let (arguments, rest) = rest.split_at(rest.len().min(len.into()));
        let handle = world.objects[usize::from(object) % world.objects.len()];
        let mut arguments = with_handles(arguments, &world.root);
        arguments.splice(0..0, encode_to_vec(&handle));
        let procedure = u32::from(procedure % 23);
        bytes.extend(call(xid, (nfs3::PROGRAM, 3, procedure), &Raw(&arguments)));
        (xid, input) = (xid + 1, rest);
    }
    bytes
}

fn with_handles(arguments: &[u8], root: &FileHandle) -> Vec<u8> {
    const WORD: &[u8] = b"HNDL";
    let mut out = Vec::new();
    let mut rest = arguments;
    while let Some(at) = rest.windows(WORD.len()).position(|bytes| bytes == WORD) {
        out.extend_from_slice(&rest[..at]);
        out.extend(encode_to_vec(root));
        rest = &rest[at + WORD.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// Arguments that are encoded already.
struct Raw<'a>(&'a [u8]);

impl Encode for Raw<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        for byte in self.0 {
            e.opaque_fixed(std::slice::from_ref(byte));
        }
    }
}

fn call(
    xid: u32,
    (program, version, procedure): (u32, u32, u32),
    arguments: &impl Encode,
) -> Vec<u8> {
    let sys = AuthSys {
        stamp: 0,
        machine_name: b"fuzz",
        uid: 1000,
        gid: 1000,
        gids: GidList::EMPTY,
    };
    let credential = encode_to_vec(&sys);
    let credential = OpaqueAuth {
        flavor: AUTH_SYS,
        body: &credential,
    };
    let header = CallHeader {
        xid,
        program,
        version,
        procedure,
        credential,
        verifier: OpaqueAuth::NONE,
    };
    let mut record = vec![0; 4];
    let mut encoder = Encoder::new(&mut record);
    header.encode(&mut encoder);
    arguments.encode(&mut encoder);
    let len = u32::try_from(record.len() - 4).expect("a small call");
    record[..4].copy_from_slice(&FragmentHeader { last: true, len }.to_bytes());
    record
}

/// One call, one reply.
fn ask(stream: &mut TcpStream, call: &[u8]) -> Vec<u8> {
    stream.write_all(call).expect("the server reads");
    next_reply(stream).expect("the server answers")
}

/// Reads replies up to that of the last call, or until the server closes the connection.
fn answers(stream: &mut TcpStream) {
    while let Some(reply) = next_reply(stream) {
        let header = ReplyHeader::decode(&mut Decoder::new(&reply)).expect("a reply");
        if header.xid == LAST_XID {
            return;
        }
    }
}

/// `None` when the connection is closed; a server that says nothing at all is a finding.
fn next_reply(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut mark = [0; 4];
    read(stream, &mut mark)?;
    let mark = FragmentHeader::parse(mark);
    assert!(
        mark.last && mark.len < 1 << 24,
        "a reply in fragments, or of {} bytes",
        mark.len
    );
    let mut reply = vec![0; usize::try_from(mark.len).expect("32 bits")];
    read(stream, &mut reply)?;
    Some(reply)
}

fn read(stream: &mut TcpStream, into: &mut [u8]) -> Option<()> {
    match stream.read_exact(into) {
        Ok(()) => Some(()),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            panic!("no answer within {PATIENCE:?}")
        }
        Err(_) => None,
    }
}
