use nfs_io::{Budget, BufferPool};
use nfs_wire::auth::{AUTH_SYS, AuthSys, GidList, OpaqueAuth};
use nfs_wire::encode_to_vec;
use nfs_wire::nfs3::{FileHandle, Procedure, StableHow, WriteArgs};
use nfs_wire::record::FragmentHeader;
use nfs_wire::rpc::CallHeader;

use super::*;

const IO_BYTES_MAX: u32 = 64 << 10;

/// What came out of a receiver: a call's bytes as they were sent, whichever way they were received.
fn rejoined(call: Call) -> Vec<u8> {
    let mut bytes = call.record;
    if let Some(apart) = call.apart {
        let Apart {
            at,
            payload,
            missing,
            ..
        } = *apart;
        assert_eq!((at, missing), (bytes.len(), 0));
        let payload = payload.unwrap();
        assert_eq!(payload.data.address() % 4096, 11, "placed as in the file");
        bytes.extend_from_slice(&payload.data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

struct Peer {
    receiver: Receiver,
    pool: BufferPool,
    budget: Budget,
    apart: usize,
}

impl Peer {
    fn new() -> Self {
        let budget = Budget::new(1 << 20);
        Self {
            receiver: Receiver::new(IO_BYTES_MAX),
            pool: BufferPool::new(budget.clone()),
            budget,
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

#[test]
fn calls_come_out_as_they_went_in_wherever_the_stream_is_cut() {
    let (bytes, expected) = stream();
    for cut in 0..=bytes.len() {
        let mut peer = Peer::new();
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
    let mut receiver = Receiver::new(IO_BYTES_MAX);
    let step = receiver.feed(&mut &bytes[..]).unwrap();
    assert!(matches!(step, Step::Memory(Wanted::Record(60_000))));
    assert!(receiver.cutter.kept_capacity() <= limits::CALL_BYTES_UNACCOUNTED_MAX);
}

#[test]
fn only_a_long_record_takes_its_reservation_along() {
    for (len, keeps) in [(5000, false), (16_384, false), (16_385, true)] {
        let bytes = fragments(&other_call(len), &[4500]);
        let mut receiver = Receiver::new(IO_BYTES_MAX);
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
    let mut receiver = Receiver::new(IO_BYTES_MAX);
    let mut beginning = &refused[..1500];
    let Step::Memory(_) = receiver.feed(&mut beginning).unwrap() else {
        panic!("it has data")
    };
    receiver.received_into_nothing();
    assert!(matches!(receiver.feed(&mut beginning).unwrap(), Step::More));
    assert!(receiver.read_limit() > 50_000);
}
