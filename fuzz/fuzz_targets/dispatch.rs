//! Calls to a whole server, from a connection's bytes to the reply's, over a small tree in a temporary
//! directory.
//!
//! Input: first byte: length of the reads; then calls, each `[procedure][object][n, 2 bytes][n bytes]`.
//! A procedure of NFSv3 gets the handle of an object that is known by then (the tree's, and what
//! calls made or found) and the `n` bytes behind it as the rest of its arguments; in them `FH` and a
//! byte stand for a handle too. Other numbers send the `n` bytes as they are: to MOUNT, as a
//! whole record, or as a piece of the stream.
//!
//! Everything runs as an unprivileged user, below a directory that nobody else may enter, and is
//! emptied before each input. A secret lies beside it, and a link to it inside: no reply may show it.
#![no_main]

use std::cell::{Cell, RefCell};
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use nfs_server::exports::config::{Config, Durability, ExportConfig, ServerConfig, SquashKind};
use nfs_server::fuzzing::Dispatch;
use nfs_server::host::state_dir::StateDir;
use nfs_wire::auth::OpaqueAuth;
use nfs_wire::nfs3::{
    self, CreateOk, Failure, FileHandle, LookupOk, PostOpAttr, Procedure, WccData,
};
use nfs_wire::record::FragmentHeader;
use nfs_wire::rpc::{AcceptStat, CallHeader, ReplyBody, ReplyHeader};
use nfs_wire::{Decode, Decoder, decode_all, encode_to_vec, mount3};
use penstock_fuzz::nfs3_results_decode;
use tempfile::TempDir;

const NOBODY: u32 = 65534;
const SECRET: &[u8] = b"a secret that lies beside the export";
/// Known handles; what comes later takes the place of the first.
const HANDLES: usize = 16;
/// Room for directories that calls make, and no more: each needs a handle to go deeper.
const CALLS: usize = 32;

struct Fuzzed {
    server: Dispatch,
    place: TempDir,
    root: FileHandle,
    /// Counted up: a repeated one is answered from the reply cache.
    xid: Cell<u32>,
}

thread_local! {
    static FUZZED: RefCell<Option<Fuzzed>> = const { RefCell::new(None) };
}

fuzz_target!(|data: &[u8]| {
    FUZZED.with_borrow_mut(|fuzzed| fuzzed.get_or_insert_with(Fuzzed::new).run(data));
});

impl Fuzzed {
    fn new() -> Self {
        // In memory if possible: thousands of calls a second make and remove files.
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let mut builder = tempfile::Builder::new();
        let place = builder
            .prefix("penstock-fuzz-")
            .permissions(Permissions::from_mode(0o700));
        let place = place.tempdir_in(parent).unwrap();
        std::fs::write(place.path().join("secret"), SECRET).unwrap();
        let files = files(&place);
        std::fs::create_dir(&files).unwrap();
        let mut export = ExportConfig::new(&files, "/");
        export.durability = Durability::Async;
        for client in &mut export.clients {
            client.squash = SquashKind::All;
            client.anonuid = NOBODY;
            client.anongid = NOBODY;
        }
        let server = ServerConfig {
            memory_bytes: 64 << 20,
            ..ServerConfig::default()
        };
        let config = Config::from_flags(server, vec![export]);
        let state_dir = StateDir::open(&place.path().join("state")).unwrap();
        let server = Dispatch::new(&config, state_dir).unwrap();
        own(&files);
        let mut fuzzed = Self {
            server,
            root: FileHandle::new(b"").unwrap(),
            xid: Cell::new(0),
            place,
        };
        let mount = fuzzed.answers(
            &fuzzed.call(
                mount3::PROGRAM,
                mount3::Procedure::Mnt as u32,
                &[0, 0, 0, 1, b'/', 0, 0, 0],
            ),
            4096,
        );
        let reply = mount[0].as_deref().unwrap();
        fuzzed.root = decode_all::<mount3::MntRes>(results(reply).unwrap())
            .unwrap()
            .unwrap()
            .fhandle;
        fuzzed
    }

    fn run(&mut self, data: &[u8]) {
        let Some((read_len, mut rest)) = data.split_first() else {
            return;
        };
        let read_len = usize::from(*read_len) * usize::from(*read_len) / 4 + 1;
        self.plant();
        let mut handles = vec![self.root];
        for name in [&b"file"[..], b"dir", b"link"] {
            let mut args = encode_to_vec(&self.root);
            args.extend_from_slice(&(name.len() as u32).to_be_bytes());
            args.extend_from_slice(name);
            args.resize(args.len().next_multiple_of(4), 0);
            self.nfs(Procedure::Lookup, &args, 4096, &mut handles);
        }
        assert!(handles.len() == 4, "the tree is there");
        for _ in 0..CALLS {
            let [number, object, n0, n1, behind @ ..] = rest else {
                break;
            };
            let len = usize::from(u16::from_be_bytes([*n0, *n1])).min(behind.len());
            let (args, after) = behind.split_at(len);
            rest = after;
            self.one(*number, *object, args, read_len, &mut handles);
        }
        let secret = std::fs::read(self.place.path().join("secret")).unwrap();
        assert_eq!(secret, SECRET);
        let beside = std::fs::read_dir(self.place.path()).unwrap().count();
        assert_eq!(beside, 3, "secret, state, files");
    }

    fn one(
        &self,
        number: u8,
        object: u8,
        args: &[u8],
        read_len: usize,
        handles: &mut Vec<FileHandle>,
    ) {
        let args = with_handles(args, handles);
        if object < 0x80 {
            self.xid.set(self.xid.get().wrapping_add(1));
        }
        if let Ok(procedure) = Procedure::try_from(u32::from(number)) {
            let mut whole = Vec::new();
            if procedure != Procedure::Null {
                whole = encode_to_vec(&handles[usize::from(object) % handles.len()]);
            }
            whole.extend_from_slice(&args);
            self.nfs(procedure, &whole, read_len, handles);
        } else if number < 32 {
            self.answers(
                &self.call(mount3::PROGRAM, u32::from(number - 22), &args),
                read_len,
            );
        } else if number < 128 {
            self.answers(&args, read_len);
        } else {
            self.checked(&args, read_len);
        }
    }

    /// One call of NFSv3, whose reply must be a reply to it.
    fn nfs(
        &self,
        procedure: Procedure,
        args: &[u8],
        read_len: usize,
        handles: &mut Vec<FileHandle>,
    ) {
        let answers = self.answers(&self.call(nfs3::PROGRAM, procedure as u32, args), read_len);
        let Some(Some(reply)) = answers.first() else {
            // Repeated within one input: still the same call, answered from the reply cache or not.
            return;
        };
        let Some(results) = results(reply) else {
            return;
        };
        assert!(
            nfs3_results_decode(procedure, results),
            "{procedure:?}: {results:02x?}"
        );
        let made = match procedure {
            Procedure::Lookup => decode_all::<Result<LookupOk, Failure<PostOpAttr>>>(results)
                .is_ok_and(|result| learn(handles, result.ok().map(|ok| ok.object))),
            Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod => {
                decode_all::<Result<CreateOk, Failure<WccData>>>(results)
                    .is_ok_and(|result| learn(handles, result.ok().and_then(|ok| ok.obj)))
            }
            _ => false,
        };
        assert!(!made || !handles.is_empty());
    }

    fn answers(&self, record: &[u8], read_len: usize) -> Vec<Option<Vec<u8>>> {
        let len = record.len() as u32;
        let mut bytes = FragmentHeader { last: true, len }.to_bytes().to_vec();
        bytes.extend_from_slice(record);
        self.checked(&bytes, read_len)
    }

    /// Whatever was sent: what comes back are records, each a reply, and none tells the secret.
    fn checked(&self, bytes: &[u8], read_len: usize) -> Vec<Option<Vec<u8>>> {
        let answers = self.server.receive(bytes, read_len);
        for reply in answers.iter().flatten() {
            let (mark, body) = reply.split_first_chunk::<4>().expect("a mark");
            let mark = FragmentHeader::parse(*mark);
            assert!(mark.last && mark.len as usize == body.len());
            assert!(ReplyHeader::decode(&mut Decoder::new(body)).is_ok());
            assert!(!body.windows(SECRET.len()).any(|window| window == SECRET));
        }
        answers
    }

    fn call(&self, program: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
        let mut call = encode_to_vec(&CallHeader {
            xid: self.xid.get(),
            program,
            version: 3,
            procedure,
            credential: OpaqueAuth::NONE,
            verifier: OpaqueAuth::NONE,
        });
        call.extend_from_slice(args);
        call
    }

    /// The tree that each input finds.
    fn plant(&self) {
        let files = files(&self.place);
        for entry in std::fs::read_dir(&files).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                std::fs::remove_dir_all(entry.path()).unwrap();
            } else {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        own(&files);
        std::fs::create_dir(files.join("dir")).unwrap();
        std::fs::write(files.join("file"), b"contents").unwrap();
        symlink("../secret", files.join("link")).unwrap();
        own(&files.join("dir"));
        own(&files.join("file"));
    }
}

fn files(place: &TempDir) -> PathBuf {
    place.path().join("files")
}

/// Gives it to the user that calls run as.
fn own(path: &Path) {
    if nfs_io::identity::can_switch() {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

fn learn(handles: &mut Vec<FileHandle>, handle: Option<FileHandle>) -> bool {
    let Some(handle) = handle else {
        return false;
    };
    if !handles.contains(&handle) {
        if handles.len() >= HANDLES {
            // The root stays.
            handles.remove(1);
        }
        handles.push(handle);
    }
    true
}

/// Puts a handle, with its length, where the bytes say `FH` and a number.
fn with_handles(bytes: &[u8], handles: &[FileHandle]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 64);
    let mut rest = bytes;
    loop {
        match rest {
            [b'F', b'H', number, after @ ..] => {
                out.extend(encode_to_vec(
                    &handles[usize::from(*number) % handles.len()],
                ));
                rest = after;
            }
            [byte, after @ ..] => {
                out.push(*byte);
                rest = after;
            }
            [] => return out,
        }
    }
}

/// The results of a successful reply.
fn results(reply: &[u8]) -> Option<&[u8]> {
    let mut decoder = Decoder::new(reply.get(4..)?);
    let header = ReplyHeader::decode(&mut decoder).ok()?;
    let success = AcceptStat::Success;
    matches!(header.body, ReplyBody::Accepted { stat, .. } if stat == success)
        .then(|| decoder.rest())
}
