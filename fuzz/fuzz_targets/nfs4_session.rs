//! Calls over one session of NFSv4 to a whole server, from a record's bytes to the reply's.
//!
//! Input: steps, each `[how][slot][operations][n, 2 bytes][n bytes]`. A step is a COMPOUND of a SEQUENCE that is right
//! for its slot, PUTROOTFH, LOOKUP of `f` where `how` says so, and the `n` bytes as so many operations more. `how` also
//! says whether its reply is to be kept, which minor version it is of, and whether it is sent twice.
//!
//! Whatever is asked: a reply that is no refusal of RPC's own is a COMPOUND's results, a call that comes again has the
//! reply of the first or none, and the session works on behind it, or the server says that there is none; then the next
//! step has a new one. Each input begins with an empty tree and a client that holds nothing.
#![no_main]

use std::cell::RefCell;
use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use nfs_server::exports::Versions;
use nfs_server::exports::config::{Config, Durability, ExportConfig, ServerConfig, SquashKind};
use nfs_server::fuzzing::Dispatch;
use nfs_server::host::state_dir::StateDir;
use nfs_wire::auth::OpaqueAuth;
use nfs_wire::nfs4::ops::{
    ChannelAttrs4, ClientOwner4, CreateSessionArgs, ExchangeIdArgs, LookupArgs,
    ReclaimCompleteArgs, SequenceArgs, StateProtect4A,
};
use nfs_wire::nfs4::{
    ArgOp, Component4, CompoundArgs, CompoundRes, Nfsstat4, Opaque4, ResOp, Sessionid4, Tag,
    Verifier4,
};
use nfs_wire::record::FragmentHeader;
use nfs_wire::rpc::{AcceptStat, CallHeader, ReplyBody, ReplyHeader};
use nfs_wire::{Decode, Decoder, decode_all, encode_to_vec, nfs4};
use tempfile::TempDir;

const NOBODY: u32 = 65534;
/// Slots of the session.
const SLOTS: usize = 4;
/// Steps of one input.
const STEPS: usize = 24;

const KEPT: u8 = 1;
const SECOND: u8 = 2;
const OF_FILE: u8 = 4;
const TWICE: u8 = 8;

struct Fuzzed {
    server: Dispatch,
    place: TempDir,
    /// Which client this is: each input has another.
    life: u64,
    session: Sessionid4,
    sequence: [u32; SLOTS],
}

thread_local! {
    static FUZZED: RefCell<Option<Fuzzed>> = const { RefCell::new(None) };
}

fuzz_target!(|data: &[u8]| {
    FUZZED.with_borrow_mut(|fuzzed| fuzzed.get_or_insert_with(Fuzzed::new).run(data));
});

impl Fuzzed {
    fn new() -> Self {
        let memory = std::path::Path::new("/dev/shm");
        let parent = match memory.is_dir() {
            true => memory.to_owned(),
            false => std::env::temp_dir(),
        };
        let mut builder = tempfile::Builder::new();
        let place = builder.prefix("penstock-fuzz-").tempdir_in(parent).unwrap();
        let files = place.path().join("files");
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
            versions: Versions::ALL,
            ..ServerConfig::default()
        };
        let config = Config::from_flags(server, vec![export]);
        let state_dir = StateDir::open(&place.path().join("state")).unwrap();
        Self {
            server: Dispatch::new(&config, state_dir).unwrap(),
            place,
            life: 0,
            session: Sessionid4::default(),
            sequence: [0; SLOTS],
        }
    }

    /// Becomes another life of the client, which takes the place of the one before it, with a new session.
    fn join(&mut self) {
        self.life += 1;
        let exchange = ArgOp::ExchangeId(ExchangeIdArgs {
            clientowner: ClientOwner4 {
                verifier: Verifier4(self.life.to_be_bytes()),
                ownerid: Opaque4(b"fuzzer"),
            },
            flags: 0,
            state_protect: StateProtect4A::None,
            client_impl_id: None,
        });
        let made = self.call(&compound(1, vec![exchange], &[], 0)).unwrap();
        let (clientid, sequence) = match &*results(&made).resarray {
            [ResOp::ExchangeId(Ok(ok))] => (ok.clientid, ok.sequenceid),
            other => panic!("{other:?}"),
        };
        let channel = ChannelAttrs4 {
            headerpadsize: 0,
            maxrequestsize: 1 << 20,
            maxresponsesize: 1 << 20,
            maxresponsesize_cached: 4096,
            maxoperations: 64,
            maxrequests: SLOTS as u32,
            rdma_ird: None,
        };
        let create = ArgOp::CreateSession(CreateSessionArgs {
            clientid,
            sequence,
            flags: 0,
            fore_chan_attrs: channel,
            back_chan_attrs: channel,
            cb_program: 0x4000_0000,
            sec_parms: vec![],
        });
        let made = self.call(&compound(1, vec![create], &[], 0)).unwrap();
        self.session = match &*results(&made).resarray {
            [ResOp::CreateSession(Ok(ok))] => ok.sessionid,
            other => panic!("{other:?}"),
        };
        self.sequence = [0; SLOTS];
        let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        let sequence = self.next(0, false);
        let done = self.call(&compound(1, vec![sequence, complete], &[], 0));
        assert_eq!(results(&done.unwrap()).status, Nfsstat4::Ok);
    }

    fn next(&mut self, slot: usize, cachethis: bool) -> ArgOp<'static> {
        self.sequence[slot] += 1;
        ArgOp::Sequence(SequenceArgs {
            sessionid: self.session,
            sequenceid: self.sequence[slot],
            slotid: slot as u32,
            highest_slotid: SLOTS as u32 - 1,
            cachethis,
        })
    }

    fn run(&mut self, mut rest: &[u8]) {
        self.plant();
        self.join();
        for _ in 0..STEPS {
            let [how, slot, operations, n0, n1, behind @ ..] = rest else {
                return;
            };
            let len = usize::from(u16::from_be_bytes([*n0, *n1])).min(behind.len());
            let (bytes, after) = behind.split_at(len);
            rest = after;
            self.step(*how, usize::from(*slot) % SLOTS, bytes, *operations);
        }
    }

    fn step(&mut self, how: u8, slot: usize, bytes: &[u8], operations: u8) {
        if takes_much_room(bytes) {
            return;
        }
        let mut ops = vec![self.next(slot, how & KEPT != 0), ArgOp::Putrootfh(())];
        if how & OF_FILE != 0 {
            let objname = Component4(b"f");
            ops.push(ArgOp::Lookup(LookupArgs { objname }));
        }
        let minor = 1 + u32::from(how & SECOND != 0);
        let call = compound(minor, ops, bytes, u32::from(operations % 64));
        let first = self.call(&call);
        let begun = first.as_deref().and_then(first_result);
        match begun {
            Some(ResOp::Sequence(Ok(_))) => {}
            Some(ResOp::Sequence(Err(Nfsstat4::Badsession | Nfsstat4::Deadsession))) => {
                self.join();
                return;
            }
            // It was refused before it was begun, so that the number is still to come.
            _ => {
                self.sequence[slot] -= 1;
                return;
            }
        }
        if how & TWICE == 0 {
            return;
        }
        let (Some(first), Some(again)) = (&first, self.call(&call)) else {
            panic!("refused when it came again");
        };
        let status = results(&again).status;
        let is_same = *first == again;
        let is_refused = matches!(
            status,
            Nfsstat4::RetryUncachedRep | Nfsstat4::Badsession | Nfsstat4::Deadsession
        );
        // A SEQUENCE alone is answered anew, and here it never is.
        assert!(
            is_same || is_refused,
            "{status:?}: {first:02x?} then {again:02x?}"
        );
    }

    /// One record to the server: what is behind the header of its reply; `None` where RPC refuses it, or the connection is
    /// closed on it.
    fn call(&self, args: &[u8]) -> Option<Vec<u8>> {
        let mut record = encode_to_vec(&CallHeader {
            xid: 7,
            program: nfs4::PROGRAM,
            version: nfs4::VERSION,
            procedure: nfs4::PROC_COMPOUND,
            credential: OpaqueAuth::NONE,
            verifier: OpaqueAuth::NONE,
        });
        record.extend_from_slice(args);
        let len = record.len() as u32;
        let mut bytes = FragmentHeader { last: true, len }.to_bytes().to_vec();
        bytes.extend_from_slice(&record);
        let answers = self.server.receive(&bytes, 1 << 20);
        let reply = match answers.as_slice() {
            [Some(reply)] => reply,
            [None] => return None,
            _ => panic!("{} replies", answers.len()),
        };
        let mut decoder = Decoder::new(&reply[4..]);
        let header = ReplyHeader::decode(&mut decoder).expect("a reply");
        let stat = AcceptStat::Success;
        if !matches!(header.body, ReplyBody::Accepted { stat: found, .. } if found == stat) {
            return None;
        }
        let body = decoder.rest().to_vec();
        results(&body);
        Some(body)
    }

    /// What each input finds.
    fn plant(&self) {
        let files: PathBuf = self.place.path().join("files");
        for entry in std::fs::read_dir(&files).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => std::fs::remove_dir_all(entry.path()).unwrap(),
                false => std::fs::remove_file(entry.path()).unwrap(),
            }
        }
        std::fs::write(files.join("f"), b"contents").unwrap();
        for path in [files.clone(), files.join("f")] {
            if nfs_io::identity::can_switch() {
                std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
    }
}

/// ALLOCATE and COPY may take all room there is, and the tree may be in memory: they are asked for little.
fn takes_much_room(bytes: &[u8]) -> bool {
    const ALLOCATE: u32 = 59;
    const COPY: u32 = 60;
    /// Bytes between an operation's number and how many bytes it is asked for.
    const BEFORE_LENGTH: [(u32, usize); 2] = [(ALLOCATE, 24), (COPY, 48)];
    const MOST: u64 = 1 << 20;
    // Wherever the bytes may be meant so.
    (0..bytes.len()).step_by(4).any(|at| {
        let number = bytes.get(at..).and_then(|rest| rest.first_chunk());
        let number = number.map(|bytes| u32::from_be_bytes(*bytes));
        BEFORE_LENGTH.iter().any(|(operation, before)| {
            let length = bytes
                .get(at + 4 + before..)
                .and_then(|rest| rest.first_chunk());
            let length = length.map(|bytes| u64::from_be_bytes(*bytes));
            // Of COPY, 0 is all there is.
            number == Some(*operation) && length.is_some_and(|length| length == 0 || length > MOST)
        })
    })
}

/// The arguments of a COMPOUND of these operations and of `more`, whose bytes follow.
fn compound(minorversion: u32, ops: Vec<ArgOp<'_>>, bytes: &[u8], more: u32) -> Vec<u8> {
    let count = ops.len() as u32 + more;
    let mut args = encode_to_vec(&CompoundArgs {
        tag: Tag(b""),
        minorversion,
        argarray: ops,
    });
    // Behind the tag's length and the minor version stands how many operations there are.
    args[8..12].copy_from_slice(&count.to_be_bytes());
    args.extend_from_slice(bytes);
    args.resize(args.len().next_multiple_of(4), 0);
    args
}

fn results(body: &[u8]) -> CompoundRes<'_> {
    decode_all(body).expect("results of a COMPOUND")
}

fn first_result(body: &[u8]) -> Option<ResOp<'_>> {
    results(body).resarray.into_iter().next()
}
