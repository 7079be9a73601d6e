use nfs_io::{Budget, BufferPool};
use nfs_wire::auth::{AUTH_SYS, AuthSys, GidList, OpaqueAuth};
use nfs_wire::nfs3::{FileHandle, Procedure, StableHow, WriteArgs};
use nfs_wire::nfs4::{self, ArgOp};
use nfs_wire::record::FragmentHeader;
use nfs_wire::rpc::CallHeader;
use nfs_wire::{Payload, encode_to_vec};
use proptest::prelude::*;

use super::*;

const IO_BYTES_MAX: u32 = 64 << 10;

/// What came out of a receiver: a call's bytes as they were sent, whichever way they were received.
fn rejoined(call: Call) -> Vec<u8> {
    let mut bytes = call.record;
    if let Some(apart) = call.apart {
        let Apart {
            at,
            payload,
            len_in_record,
            missing,
            ..
        } = *apart;
        assert_eq!(missing, 0);
        let payload = payload.unwrap();
        assert_eq!(payload.data.address() % 4096, 11, "placed as in the file");
        let mut data = payload.data.to_vec();
        // Of a WRITE beyond wtmax the rest was dropped.
        data.resize(len_in_record.min(data.len().next_multiple_of(4)), 0);
        bytes.splice(at..at, data);
    }
    bytes
}

fn buffers() -> BufferPool {
    BufferPool::new(Budget::new(1 << 20))
}

struct Peer {
    receiver: Receiver,
    pool: BufferPool,
    budget: Budget,
    apart: usize,
}

impl Peer {
    fn new() -> Self {
        Self::of(&buffers())
    }

    fn of(pool: &BufferPool) -> Self {
        Self {
            receiver: Receiver::new(IO_BYTES_MAX, pool.clone()),
            pool: pool.clone(),
            budget: pool.budget().clone(),
            apart: 0,
        }
    }

    /// Gives the receiver these bytes as one read from a socket, as a connection does.
    fn read(&mut self, mut bytes: &[u8], calls: &mut Vec<Vec<u8>>) -> Result<(), BadRecord> {
        while let Some(place) = self.receiver.direct()
            && !bytes.is_empty()
        {
            let len = place.len().min(bytes.len());
            place[..len].copy_from_slice(&bytes[..len]);
            bytes = &bytes[len..];
            self.receiver.received(len);
            self.take(&mut &[][..], calls)?;
        }
        self.take(&mut bytes, calls)
    }

    fn take(&mut self, bytes: &mut &[u8], calls: &mut Vec<Vec<u8>>) -> Result<(), BadRecord> {
        // Each step uses bytes up or gets memory: more steps than that are a loop without end.
        for _ in 0..bytes.len() + 16 {
            match self.receiver.feed(bytes)? {
                Step::More => {
                    assert!(bytes.is_empty(), "bytes were left behind");
                    return Ok(());
                }
                Step::Call(call) => {
                    self.apart += usize::from(call.apart.is_some());
                    calls.push(rejoined(call));
                }
                Step::Memory(Wanted::Record(len)) => {
                    let reservation = self.budget.try_reserve(len as u64).unwrap();
                    self.receiver.reserved(reservation);
                }
                Step::Memory(Wanted::Data { len, start }) => {
                    self.receiver
                        .received_into(self.pool.try_take_placed(len, start).unwrap());
                }
            }
        }
        panic!("the receiver makes no progress");
    }
}

fn write_call(data_len: usize) -> Vec<u8> {
    write_call_by(OpaqueAuth::NONE, data_len)
}

fn write_call_by(credential: OpaqueAuth<'_>, data_len: usize) -> Vec<u8> {
    let mut call = encode_to_vec(&CallHeader {
        xid: 7,
        program: nfs_wire::nfs3::PROGRAM,
        version: nfs_wire::nfs3::VERSION,
        procedure: Procedure::Write as u32,
        credential,
        verifier: OpaqueAuth::NONE,
    });
    let data: Vec<u8> = (0..data_len).map(|at| (at % 251) as u8).collect();
    call.extend(encode_to_vec(&WriteArgs {
        file: FileHandle::new(&[5; 36]).unwrap(),
        offset: 11,
        count: data_len as u32,
        stable: StableHow::Unstable,
        data: &data,
    }));
    call
}

/// A WRITE as NFSv4's clients send it: in a COMPOUND, behind SEQUENCE and PUTFH, with operations behind it.
fn compound(minorversion: u32, ops: Vec<ArgOp<'_>>) -> Vec<u8> {
    let mut call = encode_to_vec(&CallHeader {
        xid: 7,
        program: nfs4::PROGRAM,
        version: nfs4::VERSION,
        procedure: nfs4::PROC_COMPOUND,
        credential: OpaqueAuth::NONE,
        verifier: OpaqueAuth::NONE,
    });
    call.extend(encode_to_vec(&nfs4::CompoundArgs {
        tag: nfs4::Tag(b""),
        minorversion,
        argarray: ops,
    }));
    call
}

fn sequence_and_putfh() -> [ArgOp<'static>; 2] {
    let object = nfs4::FileHandle::new(&[5; 36]).unwrap();
    [
        ArgOp::Sequence(nfs4::ops::SequenceArgs {
            sessionid: nfs4::Sessionid4([5; 16]),
            sequenceid: 7,
            slotid: 1,
            highest_slotid: 2,
            cachethis: true,
        }),
        ArgOp::Putfh(nfs4::ops::PutfhArgs { object }),
    ]
}

fn write_op(data: &[u8]) -> ArgOp<'_> {
    ArgOp::Write(nfs4::ops::WriteArgs {
        stateid: nfs4::Stateid4::ANONYMOUS,
        offset: 11,
        stable: nfs4::StableHow4::Unstable,
        data: Payload::Here(data),
    })
}

fn getattr() -> ArgOp<'static> {
    let attr_request = nfs4::Attribute::Change.bit();
    ArgOp::Getattr(nfs4::ops::GetattrArgs { attr_request })
}

fn data_of(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// The WRITE of a COMPOUND with these operations behind it.
fn write4(data_len: usize, behind: &[ArgOp<'_>]) -> Vec<u8> {
    let data = data_of(data_len);
    let mut ops = sequence_and_putfh().to_vec();
    ops.push(write_op(&data));
    ops.extend_from_slice(behind);
    compound(1, ops)
}

/// Where in such a record the data begins.
fn data_at() -> usize {
    write4(0, &[]).len()
}

fn other_call(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 13) as u8).collect()
}

fn fragments(call: &[u8], lens: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = call;
    for len in lens {
        let (now, after) = rest.split_at(*len);
        rest = after;
        let len = now.len() as u32;
        bytes.extend(FragmentHeader { last: false, len }.to_bytes());
        bytes.extend(now);
    }
    let len = rest.len() as u32;
    bytes.extend(FragmentHeader { last: true, len }.to_bytes());
    bytes.extend(rest);
    bytes
}

/// Calls around every boundary at which one is received in another way.
fn stream() -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut calls: Vec<Vec<u8>> = [0, 1, 3, 4, 1000, 8000, 8100, 8101, 8102, 8103, 8192, 9001]
        .into_iter()
        .map(write_call)
        .collect();
    calls.extend(
        [
            1, 4, 40, 1023, 1024, 1025, 4095, 4096, 4097, 8193, 16_384, 20_001,
        ]
        .map(other_call),
    );
    let bytes = calls.iter().flat_map(|call| fragments(call, &[])).collect();
    (bytes, calls)
}

/// The same of COMPOUNDs.
fn stream4() -> (Vec<u8>, Vec<Vec<u8>>) {
    let around = data_at() + 12;
    let calls = vec![
        write4(SPLIT_BYTES - around, &[getattr()]),
        write4(SPLIT_BYTES - around + 1, &[getattr()]),
        write4(9001, &[getattr(), write_op(&[3; 150]), getattr()]),
    ];
    let bytes = calls.iter().flat_map(|call| fragments(call, &[])).collect();
    (bytes, calls)
}

#[test]
fn compounds_come_out_as_they_went_in_wherever_the_stream_is_cut() {
    let (bytes, expected) = stream4();
    let pool = buffers();
    for cut in 0..=bytes.len() {
        let mut peer = Peer::of(&pool);
        let mut calls = Vec::new();
        peer.read(&bytes[..cut], &mut calls).unwrap();
        peer.read(&bytes[cut..], &mut calls).unwrap();
        assert!(calls == expected, "cut at {cut}");
        assert_eq!(peer.apart, 3, "cut at {cut}");
        assert!(peer.receiver.is_idle() && !peer.receiver.holds_memory());
    }
}

#[test]
fn calls_come_out_as_they_went_in_wherever_the_stream_is_cut() {
    let (bytes, expected) = stream();
    let pool = buffers();
    for cut in 0..=bytes.len() {
        let mut peer = Peer::of(&pool);
        let mut calls = Vec::new();
        peer.read(&bytes[..cut], &mut calls).unwrap();
        peer.read(&bytes[cut..], &mut calls).unwrap();
        assert!(calls == expected, "cut at {cut}");
        assert!(peer.receiver.is_idle(), "cut at {cut}");
        assert!(!peer.receiver.holds_memory(), "cut at {cut}");
    }
}

#[test]
fn calls_come_out_as_they_went_in_in_reads_of_every_size() {
    let (bytes, expected) = stream();
    for size in (1..70).chain([1023, 1024, 1025, 4096, 8191, 8192, 16_383]) {
        let mut peer = Peer::new();
        let mut calls = Vec::new();
        for read in bytes.chunks(size) {
            peer.read(read, &mut calls).unwrap();
        }
        assert!(calls == expected, "reads of {size}");
        assert!(
            peer.apart >= 3,
            "the data of large WRITEs is received apart"
        );
        drop(peer.receiver);
        assert_eq!(peer.budget.in_use(), peer.pool.idle_bytes());
    }
}

#[test]
fn a_call_in_fragments_is_one_call() {
    for call in [write_call(30_000), other_call(5000)] {
        for lens in [&[1000][..], &[0, 0, 1], &[4096, 4], &[4000, 900, 0]] {
            let mut bytes = fragments(&call, lens);
            bytes.extend(fragments(&other_call(44), &[]));
            for size in [1, 7, 1000, 4096, bytes.len()] {
                let mut peer = Peer::new();
                let mut calls = Vec::new();
                for read in bytes.chunks(size) {
                    peer.read(read, &mut calls).unwrap();
                }
                assert!(
                    calls == [call.clone(), other_call(44)],
                    "{lens:?} in reads of {size}"
                );
                // Data is received apart from fragments, too.
                assert_eq!(peer.apart, usize::from(call.len() > 8192));
            }
        }
    }
}

#[test]
fn the_data_of_a_small_write_is_copied_to_its_buffer_at_once() {
    for data_len in [1001, 4096, 7000] {
        for call in [write_call(data_len), write4(data_len, &[getattr()])] {
            let two = [fragments(&call, &[]), fragments(&call, &[])].concat();
            for size in [two.len(), 700] {
                let (mut peer, mut calls) = (Peer::new(), Vec::new());
                for read in two.chunks(size) {
                    peer.read(read, &mut calls).unwrap();
                }
                assert!(calls == [call.clone(), call.clone()], "{data_len}");
                assert_eq!(peer.apart, 2, "{data_len}");
            }
            // Where there is no memory now, the call waits for some with its record.
            let (mut peer, mut calls) = (Peer::new(), Vec::new());
            let all = peer.budget.try_reserve(1 << 20);
            assert!(all.is_some());
            peer.read(&two, &mut calls).unwrap();
            assert!(calls == [call.clone(), call.clone()], "{data_len}");
            assert_eq!(peer.apart, 0, "{data_len}");
        }
    }
    let small = write_call(500);
    let (mut peer, mut calls) = (Peer::new(), Vec::new());
    peer.read(&fragments(&small, &[]), &mut calls).unwrap();
    assert!(calls == [small]);
    assert_eq!(peer.apart, 0);
}

#[test]
fn the_longest_record_in_fragments_still_makes_progress() {
    let longest = record_limits(IO_BYTES_MAX).kept_bytes_max;
    for len in longest - 5..=longest {
        let bytes = fragments(&other_call(len), &[5000]);
        let mut calls = Vec::new();
        Peer::new().read(&bytes, &mut calls).unwrap();
        assert!(calls == [other_call(len)], "{len}");
    }
    let bytes = fragments(&other_call(longest + 1), &[5000]);
    assert!(Peer::new().read(&bytes, &mut Vec::new()).is_err());
}

#[test]
fn the_longest_mark_is_refused_before_anything_is_held() {
    let mark = FragmentHeader {
        last: true,
        len: 0x7fff_ffff,
    };
    let mut peer = Peer::new();
    let read = peer.read(&mark.to_bytes(), &mut Vec::new());
    assert!(matches!(
        read,
        Err(BadRecord::Marking(RecordError::TooLarge { .. }))
    ));
    assert_eq!(
        (peer.budget.peak(), peer.receiver.cutter.kept_capacity()),
        (0, 0)
    );
}

#[test]
fn fragments_without_end_are_refused() {
    let empty = FragmentHeader {
        last: false,
        len: 0,
    }
    .to_bytes();
    let bytes = empty.repeat(limits::FRAGMENTS_PER_RECORD_MAX as usize + 1);
    let read = Peer::new().read(&bytes, &mut Vec::new());
    assert!(matches!(
        read,
        Err(BadRecord::Marking(RecordError::TooManyFragments { .. }))
    ));
}

#[test]
fn a_half_received_call_holds_little_without_asking() {
    let call = other_call(60_000);
    let bytes = fragments(&call, &[]);
    let mut receiver = Receiver::new(IO_BYTES_MAX, buffers());
    let step = receiver.feed(&mut &bytes[..]).unwrap();
    assert!(matches!(step, Step::Memory(Wanted::Record(60_000))));
    assert!(receiver.cutter.kept_capacity() <= limits::CALL_BYTES_UNACCOUNTED_MAX);
}

#[test]
fn only_a_long_record_takes_its_reservation_along() {
    for (len, keeps) in [(5000, false), (16_384, false), (16_385, true)] {
        let bytes = fragments(&other_call(len), &[4500]);
        let mut receiver = Receiver::new(IO_BYTES_MAX, buffers());
        let budget = Budget::new(1 << 20);
        let mut rest = &bytes[..];
        let call = loop {
            match receiver.feed(&mut rest).unwrap() {
                Step::Memory(Wanted::Record(len)) => {
                    receiver.reserved(budget.try_reserve(len as u64).unwrap());
                }
                Step::Call(call) => break call,
                Step::More | Step::Memory(Wanted::Data { .. }) => panic!("{len}"),
            }
        };
        assert_eq!(call.reservation.is_some(), keeps, "{len}");
    }
}

#[test]
fn a_write_beyond_wtmax_is_cut_and_the_stream_goes_on() {
    let long = write_call(IO_BYTES_MAX as usize * 3 + 5);
    let small = write_call(100);
    let mut stream = fragments(&long, &[]);
    stream.extend(fragments(&small, &[]));
    for chunk in [1, 7, 1000, 8192, stream.len()] {
        let (mut peer, mut calls) = (Peer::new(), Vec::new());
        for bytes in stream.chunks(chunk) {
            peer.read(bytes, &mut calls).unwrap();
        }
        let [cut, whole] = calls.as_slice() else {
            panic!("two calls, not {}", calls.len())
        };
        let beginning = cut.len();
        assert_eq!(cut[..], long[..beginning], "chunks of {chunk}");
        assert!(beginning > IO_BYTES_MAX as usize && beginning < IO_BYTES_MAX as usize + 1024);
        assert_eq!(*whole, small);
    }
}

#[test]
fn of_a_compounds_write_beyond_wtmax_the_rest_is_dropped_and_what_is_behind_it_is_kept() {
    let long = write4(IO_BYTES_MAX as usize * 3 + 5, &[getattr()]);
    let stream = fragments(&long, &[]);
    for chunk in [1, 7, 1000, 8192, stream.len()] {
        let (mut peer, mut calls) = (Peer::new(), Vec::new());
        for bytes in stream.chunks(chunk) {
            peer.read(bytes, &mut calls).unwrap();
        }
        let before = data_at() + IO_BYTES_MAX as usize;
        let behind = encode_to_vec(&getattr());
        assert_eq!(calls, [[&long[..before], &behind].concat()]);
        assert_eq!(peer.apart, 1);
    }
}

#[test]
fn only_a_write_may_be_that_long() {
    let mut record = write_call(IO_BYTES_MAX as usize * 4);
    // Another procedure's number, in the place of WRITE's.
    record[20..24].copy_from_slice(&(Procedure::Setattr as u32).to_be_bytes());
    let record = fragments(&record, &[]);
    let (mut peer, mut calls) = (Peer::new(), Vec::new());
    assert!(matches!(
        peer.read(&record, &mut calls),
        Err(BadRecord::Marking(RecordError::TooLarge { .. }))
    ));
}

/// What a connection does with a socket that always has everything: reads into the WRITE's buffer and
/// as much more as the receiver allows. Returns how much of each WRITE was copied, and the reads made.
fn drained(peer: &mut Peer, mut stream: &[u8]) -> (Vec<usize>, usize) {
    let (mut copied, mut reads) = (Vec::new(), 0);
    while !stream.is_empty() {
        let place = peer.receiver.direct().map_or(0, |place| place.len());
        let limit = peer.receiver.read_limit();
        assert!(limit > 0, "a read of nothing tells that the peer is gone");
        let (now, rest) = stream.split_at(place.saturating_add(limit).min(stream.len()));
        let (direct, mut beyond) = now.split_at(place.min(now.len()));
        if let Some(place) = peer.receiver.direct() {
            place[..direct.len()].copy_from_slice(direct);
            peer.receiver.received(direct.len());
        }
        stream = rest;
        reads += 1;
        loop {
            match peer.receiver.feed(&mut beyond).unwrap() {
                Step::More => break,
                Step::Call(call) => copied.extend(call.apart.map(|apart| apart.copied())),
                Step::Memory(Wanted::Record(len)) => {
                    let reservation = peer.budget.try_reserve(len as u64).unwrap();
                    peer.receiver.reserved(reservation);
                }
                Step::Memory(Wanted::Data { len, start }) => {
                    let data = peer.pool.try_take_placed(len, start).unwrap();
                    peer.receiver.received_into(data);
                }
            }
        }
    }
    assert!(peer.receiver.is_idle());
    (copied, reads)
}

#[test]
fn of_large_writes_in_a_row_only_the_first_ones_head_brings_bytes_to_copy() {
    let mut peer = Peer::new();
    let write = fragments(&write_call(50_001), &[]);
    let (copied, _) = drained(&mut peer, &write);
    assert!(
        copied.len() == 1 && copied[0] < limits::CALL_HEAD_BYTES_MAX,
        "{copied:?}"
    );
    let (copied, reads) = drained(&mut peer, &write.repeat(20));
    assert_eq!(copied, [0; 20]);
    assert!(reads <= 22, "a read for each: {reads}");
}

#[test]
fn small_calls_between_large_writes_cost_little_copying() {
    let mut peer = Peer::new();
    drained(&mut peer, &fragments(&write_call(50_000), &[]));
    let small = fragments(&other_call(120), &[]);
    let mut stream = small.clone();
    stream.extend(fragments(&write_call(50_000), &[]));
    let (copied, _) = drained(&mut peer, &stream.repeat(20));
    assert_eq!(copied.len(), 20);
    // A head is about 150 bytes, and what is read at once grows by a factor with each small call.
    assert!(copied.iter().all(|copied| *copied < 1500), "{copied:?}");
}

#[test]
fn small_calls_in_numbers_are_read_in_numbers() {
    let small = fragments(&other_call(120), &[]).repeat(10_000);
    let mut peer = Peer::new();
    // Beside the few that find out what kind of calls these are.
    let enough = small.len() / limits::CALLS_READ_BYTES_MAX + 6;
    let (_, reads) = drained(&mut peer, &small);
    assert!(reads <= enough, "{reads} reads");
    let (copied, _) = drained(&mut peer, &fragments(&write_call(50_000), &[]));
    assert!(copied[0] <= limits::CALLS_READ_BYTES_MAX, "{copied:?}");
    let (_, reads) = drained(&mut peer, &small);
    assert!(reads <= enough, "{reads} reads");
}

#[test]
fn heads_of_other_lengths_than_the_last_are_found() {
    let mut peer = Peer::new();
    drained(&mut peer, &fragments(&write_call(50_000), &[]));
    let mut stream = Vec::new();
    let mut machine = Vec::new();
    for round in 0..60 {
        machine.resize(round * 37 % 250, b'm');
        let sys = AuthSys {
            stamp: 0,
            machine_name: &machine,
            uid: 1,
            gid: 2,
            gids: GidList::new(&vec![7; round % 17]).unwrap(),
        };
        let body = encode_to_vec(&sys);
        let credential = OpaqueAuth {
            flavor: AUTH_SYS,
            body: &body,
        };
        stream.extend(fragments(&write_call_by(credential, 9000 + round), &[]));
    }
    let (copied, _) = drained(&mut peer, &stream);
    assert_eq!(copied.len(), 60);
    assert!(copied.iter().all(|copied| *copied <= 1024), "{copied:?}");
}

#[test]
fn a_long_call_that_is_no_write_is_taken_after_one() {
    let mut peer = Peer::new();
    let mut stream = fragments(&write_call(50_000), &[]);
    stream.extend(fragments(&other_call(60_000), &[]));
    stream.extend(fragments(&write_call(50_000), &[]));
    for size in [1, 100, 1000, stream.len()] {
        let mut calls = Vec::new();
        for read in stream.chunks(size) {
            peer.read(read, &mut calls).unwrap();
        }
        assert!(calls == [write_call(50_000), other_call(60_000), write_call(50_000)]);
    }
    let (copied, _) = drained(&mut peer, &stream);
    assert_eq!(copied.len(), 2);
}

#[test]
fn data_that_is_not_wanted_is_received_into_nothing() {
    let refused = write_call(30_000);
    let next = write_call(20_000);
    let bytes = [fragments(&refused, &[]), fragments(&next, &[])].concat();
    for read_len in [1, 7, 1000, 1100, 16_384, bytes.len()] {
        let mut peer = Peer::new();
        let mut calls = Vec::new();
        let mut dropped = false;
        let mut stream = &bytes[..];
        while !stream.is_empty() {
            let most = peer.receiver.read_limit().min(read_len).min(stream.len());
            let (mut read, rest) = stream.split_at(most);
            stream = rest;
            if dropped {
                peer.read(read, &mut calls).unwrap();
                continue;
            }
            assert!(peer.receiver.direct().is_none(), "there is no buffer");
            loop {
                match peer.receiver.feed(&mut read).unwrap() {
                    Step::More => break,
                    Step::Memory(_) => peer.receiver.received_into_nothing(),
                    Step::Call(call) => {
                        let apart = call.apart.unwrap();
                        assert!(apart.payload.is_none());
                        assert_eq!((apart.at, apart.missing), (call.record.len(), 0));
                        assert_eq!(call.record[..], refused[..call.record.len()]);
                        dropped = true;
                        peer.read(read, &mut calls).unwrap();
                        break;
                    }
                }
            }
            assert!(dropped || !peer.receiver.holds_memory());
            assert!(dropped || peer.budget.in_use() == 0);
        }
        assert_eq!(calls, std::slice::from_ref(&next), "reads of {read_len}");
    }
}

#[test]
fn what_is_dropped_is_read_in_large_pieces() {
    let refused = fragments(&write_call(60_000), &[]);
    let mut receiver = Receiver::new(IO_BYTES_MAX, buffers());
    let mut beginning = &refused[..1500];
    let Step::Memory(_) = receiver.feed(&mut beginning).unwrap() else {
        panic!("it has data")
    };
    receiver.received_into_nothing();
    assert!(matches!(receiver.feed(&mut beginning).unwrap(), Step::More));
    assert!(receiver.read_limit() > 50_000);
}

#[test]
fn of_a_compound_only_what_is_no_data_stays_in_the_record() {
    let data = 30_001;
    for behind in [vec![], vec![getattr()], vec![getattr(); 60]] {
        let call = write4(data, &behind);
        let mut receiver = Receiver::new(IO_BYTES_MAX, buffers());
        let pool = BufferPool::new(Budget::new(1 << 20));
        let bytes = fragments(&call, &[]);
        let mut rest = &bytes[..];
        let received = loop {
            match receiver.feed(&mut rest).unwrap() {
                Step::Memory(Wanted::Data { len, start }) => {
                    assert_eq!((len, start), (data, 11));
                    receiver.received_into(pool.try_take_placed(len, start).unwrap());
                }
                Step::Call(call) => break call,
                Step::More | Step::Memory(Wanted::Record(_)) => panic!("all is here"),
            }
        };
        let apart = received.apart.as_deref().unwrap();
        assert_eq!((apart.at, apart.len_in_record), (data_at(), data + 3));
        assert_eq!(received.record.len(), call.len() - data - 3);
        assert_eq!(rejoined(received), call);
    }
}

#[test]
fn of_large_compounds_in_a_row_only_the_first_ones_head_brings_bytes_to_copy() {
    let mut peer = Peer::new();
    let write = fragments(&write4(50_001, &[getattr()]), &[]);
    let (copied, _) = drained(&mut peer, &write);
    assert!(copied.len() == 1 && copied[0] < limits::CALL_HEAD_BYTES_MAX);
    let (copied, reads) = drained(&mut peer, &write.repeat(20));
    assert_eq!(copied, [0; 20]);
    assert!(reads <= 22, "a read for each: {reads}");
}

/// How many of the calls of a stream had their data received apart, in pieces of every kind of size; each comes out as
/// it went in.
fn apart_of(call: &[u8], framed: &[u8]) -> usize {
    let next = other_call(44);
    let stream = [framed, &fragments(&next, &[])].concat();
    let mut apart = None;
    for size in [1, 3, 7, 100, 1000, 1024, 4096, 8192, stream.len()] {
        let (mut peer, mut calls) = (Peer::new(), Vec::new());
        for read in stream.chunks(size) {
            peer.read(read, &mut calls).unwrap();
        }
        assert!(calls == [call, &next], "in reads of {size}");
        assert_eq!(
            *apart.get_or_insert(peer.apart),
            peer.apart,
            "reads of {size}"
        );
    }
    apart.unwrap()
}

#[test]
fn compounds_of_other_forms_are_received_whole() {
    let data = data_of(20_000);
    let with = |minor, ops: &[ArgOp<'_>]| compound(minor, ops.to_vec());
    let [sequence, putfh] = sequence_and_putfh();
    let write = write_op(&data);
    for call in [
        with(
            1,
            &[sequence.clone(), putfh.clone(), getattr(), write.clone()],
        ),
        with(1, &[putfh.clone(), write.clone()]),
        with(1, &[sequence.clone(), write.clone()]),
        with(3, &[sequence.clone(), putfh.clone(), write.clone()]),
        // Too much behind the data to be kept beside it.
        write4(9000, &[write_op(&data)]),
    ] {
        assert_eq!(apart_of(&call, &fragments(&call, &[])), 0);
    }
    let call = write4(20_001, &[getattr()]);
    assert_eq!(apart_of(&call, &fragments(&call, &[])), 1);
    // Of a record in fragments nobody knows how long it will be.
    assert_eq!(apart_of(&call, &fragments(&call, &[2000])), 0);
    let call = compound(0, vec![putfh, write_op(&data), getattr()]);
    assert_eq!(apart_of(&call, &fragments(&call, &[])), 1);
}

#[test]
fn lengths_of_data_that_are_lies_do_not_bring_the_stream_out_of_step() {
    let honest = write4(20_000, &[getattr()]);
    let at = data_at() - 4;
    // Multiples of four: what was sent in place of padding is not kept.
    for told in [
        0,
        4,
        19_000,
        19_996,
        20_004,
        20_012,
        20_024,
        70_000,
        1 << 24,
        u32::MAX - 3,
    ] {
        let mut call = honest.clone();
        call[at..at + 4].copy_from_slice(&told.to_be_bytes());
        apart_of(&call, &fragments(&call, &[]));
    }
    let end_of_data = at + 4 + 20_000;
    for (cut, apart) in [
        (at + 3, 0),
        (at + 4, 0),
        (at + 5, 0),
        (9000, 0),
        (end_of_data - 1, 0),
        (end_of_data, 1),
        (honest.len() - 1, 1),
    ] {
        let call = &honest[..cut];
        assert_eq!(apart_of(call, &fragments(call, &[])), apart, "{cut}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn writes_of_all_kinds_come_out_as_they_went_in(
        writes in proptest::collection::vec((0..3_usize, 0..40_000_usize, 0..40_usize), 1..6),
        sizes in proptest::collection::vec(1..9000_usize, 1..8),
    ) {
        let expected: Vec<Vec<u8>> = writes
            .iter()
            .map(|&(kind, len, behind)| match kind {
                0 => write_call(len),
                1 => other_call(len),
                _ => write4(len, &vec![getattr(); behind]),
            })
            .collect();
        let stream: Vec<u8> = expected.iter().flat_map(|call| fragments(call, &[])).collect();
        let (mut peer, mut calls, mut rest) = (Peer::new(), Vec::new(), &stream[..]);
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at((*size).min(rest.len()));
            rest = later;
            peer.read(now, &mut calls).unwrap();
        }
        prop_assert!(calls == expected);
        prop_assert!(peer.receiver.is_idle() && !peer.receiver.holds_memory());
    }
}
