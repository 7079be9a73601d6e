//! The kept data against a second description: a server that crashes, answers short, late and out of
//! order, and executes calls twice.

use bytes::Bytes;
use nfs_wire::nfs3::StableHow;
use proptest::prelude::*;

use super::*;

/// Bytes of the simulated file.
const FILE: usize = 40;

#[derive(Clone, Debug)]
enum Op {
    Accept(usize, usize),
    Sync,
    Release,
    Send,
    /// The server executes a call and answers: with how many bytes short, how stable.
    Execute(usize, usize, bool),
    /// The server executes a call; its reply is lost, and the call will be sent again.
    ExecuteUnheard(usize),
    Deliver(usize),
    /// The server restarts; the bits say what of its cache came to the disk before.
    Crash(u64),
    Truncate(usize),
    EndTruncate,
    /// One of the calls on its way fails.
    Fail(usize),
}

#[derive(Clone, Debug)]
enum Call {
    Write(u64, usize, Bytes, StableHow),
    Commit,
}

#[derive(Clone, Copy, Debug)]
enum Reply {
    Write(u64, WriteAnswer),
    Commit(Verifier),
}

struct Server {
    stable: [u8; FILE],
    cache: [Option<u8>; FILE],
    restarts: u64,
}

impl Server {
    fn execute(&mut self, call: &Call, short: usize, upgrade: bool) -> Reply {
        let verifier = self.restarts.to_be_bytes();
        let (ticket, offset, data, stable) = match call {
            Call::Commit => {
                for (stable, cached) in self.stable.iter_mut().zip(&mut self.cache) {
                    *stable = cached.take().unwrap_or(*stable);
                }
                return Reply::Commit(verifier);
            }
            Call::Write(ticket, offset, data, stable) => (*ticket, *offset, data, *stable),
        };
        let count = data.len() - short.min(data.len());
        let committed = if upgrade && stable == StableHow::Unstable {
            StableHow::DataSync
        } else {
            stable
        };
        for (position, &byte) in (offset..).zip(&data[..count]) {
            if committed == StableHow::Unstable {
                self.cache[position] = Some(byte);
            } else {
                self.stable[position] = byte;
                self.cache[position] = None;
            }
        }
        let answer = WriteAnswer {
            count: u32::try_from(count).unwrap(),
            committed,
            verifier,
        };
        Reply::Write(ticket, answer)
    }

    fn crash(&mut self, survives: u64) {
        self.restarts += 1;
        for position in 0..FILE {
            let cached = self.cache[position].take();
            if survives >> position & 1 == 1 {
                self.stable[position] = cached.unwrap_or(self.stable[position]);
            }
        }
    }
}

/// The kept data, its server, what travels between them, and what should come of it.
struct World {
    kept: Kept,
    policy: Policy,
    server: Server,
    calls: Vec<Call>,
    replies: Vec<Reply>,
    /// What was accepted: the number of each byte's newest WRITE.
    expected: [u8; FILE],
    accepted: u8,
    /// Syncs that wait: what is asked of the kept data, and what the file held at that time.
    syncs: Vec<(u64, [u8; FILE])>,
    truncating: Option<usize>,
    problems: Vec<Problem>,
}

impl World {
    fn new(policy: Policy) -> Self {
        let server = Server {
            stable: [0; FILE],
            cache: [None; FILE],
            restarts: 1,
        };
        Self {
            kept: Kept::default(),
            policy,
            server,
            calls: Vec::new(),
            replies: Vec::new(),
            expected: [0; FILE],
            accepted: 0,
            syncs: Vec::new(),
            truncating: None,
            problems: Vec::new(),
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Accept(offset, len) => self.accept(offset, len),
            Op::Sync => {
                let number = self.kept.want_stable();
                self.syncs.push((number, self.expected));
            }
            Op::Release => self.kept.release(),
            Op::Send => drop(self.send()),
            Op::Execute(which, short, upgrade) => {
                if !self.calls.is_empty() {
                    let call = self.calls.remove(which % self.calls.len());
                    self.replies
                        .push(self.server.execute(&call, short, upgrade));
                }
            }
            Op::ExecuteUnheard(which) => {
                if !self.calls.is_empty() {
                    let call = self.calls[which % self.calls.len()].clone();
                    self.server.execute(&call, 0, false);
                }
            }
            Op::Deliver(which) => {
                if !self.replies.is_empty() {
                    let reply = self.replies.remove(which % self.replies.len());
                    self.deliver(reply);
                }
            }
            Op::Crash(survives) => self.server.crash(survives),
            Op::Truncate(len) => {
                if self.truncating.is_none() && self.kept.try_hold() {
                    self.truncating = Some(len);
                    self.server.stable[len..].fill(0);
                    self.server.cache[len..].fill(None);
                }
            }
            Op::EndTruncate => self.end_truncate(),
            Op::Fail(which) => {
                if !self.calls.is_empty() {
                    match self.calls.remove(which % self.calls.len()) {
                        Call::Write(ticket, ..) => self.kept.write_failed(ticket),
                        Call::Commit => self.kept.commit_failed(),
                    }
                }
            }
        }
        self.check();
    }

    fn accept(&mut self, offset: usize, len: usize) {
        // The truncation has its turn, and a byte holds no more numbers.
        if self.truncating.is_some() || self.accepted == 255 || !self.kept.has_room(self.policy) {
            return;
        }
        self.accepted += 1;
        let range = offset..(offset + len).min(FILE);
        self.expected[range.clone()].fill(self.accepted);
        let data = Bytes::from(vec![self.accepted; range.len()]);
        self.kept.accept(offset as u64, data, Writer::default());
    }

    fn send(&mut self) -> bool {
        match self.kept.next(self.policy) {
            None => return false,
            Some(Step::Commit(_)) => self.calls.push(Call::Commit),
            Some(Step::Write(write)) => {
                let offset = usize::try_from(write.offset).unwrap();
                let call = Call::Write(write.ticket, offset, write.data, write.stable);
                self.calls.push(call);
            }
        }
        true
    }

    fn deliver(&mut self, reply: Reply) {
        let result = match reply {
            Reply::Write(ticket, answer) => self.kept.write_answered(ticket, &answer),
            Reply::Commit(verifier) => self.kept.commit_answered(verifier),
        };
        self.problems.extend(result.err());
    }

    fn end_truncate(&mut self) {
        if let Some(len) = self.truncating.take() {
            self.expected[len..].fill(0);
            for (_, expected) in &mut self.syncs {
                expected[len..].fill(0);
            }
            self.kept.cut(len as u64);
            self.kept.unhold();
        }
    }

    /// What must hold at any time.
    fn check(&mut self) {
        let mut covered = [false; FILE];
        for call in &self.calls {
            if let Call::Write(_, offset, data, _) = call {
                for seen in &mut covered[*offset..offset + data.len()] {
                    assert!(!*seen, "two WRITEs of the same bytes are in flight");
                    *seen = true;
                }
            }
        }
        if self.truncating.is_some() {
            return;
        }
        let stable_end = usize::try_from(self.kept.stable_end()).unwrap();
        assert_eq!(
            self.server.stable[..stable_end],
            self.expected[..stable_end],
            "what is called stable is not"
        );
        if self.kept.lost_from.is_none() {
            let Self { kept, server, .. } = self;
            self.syncs.retain(|(number, expected)| {
                let done = kept.is_stable(*number);
                // Newer bytes have higher numbers.
                let holds = server
                    .stable
                    .iter()
                    .zip(expected)
                    .all(|(is, was)| is >= was);
                assert!(!done || holds, "a sync ended too early");
                !done
            });
        }
    }

    /// The server behaves from now on.
    fn finish(&mut self) {
        self.end_truncate();
        self.apply(&Op::Sync);
        for _ in 0..10_000 {
            if let Some(reply) = self.replies.pop() {
                self.deliver(reply);
            } else if let Some(call) = self.calls.pop() {
                self.replies.push(self.server.execute(&call, 0, false));
            } else if !self.send() {
                break;
            }
            self.check();
        }
        assert!(self.kept.is_empty(), "it does not end: {:?}", self.kept);
    }
}

fn op(fails: bool) -> impl Strategy<Value = Op> {
    let which = || 0..8_usize;
    prop_oneof![
        12 => (0..FILE - 1, 1..12_usize).prop_map(|(offset, len)| Op::Accept(offset, len)),
        2 => Just(Op::Sync),
        1 => Just(Op::Release),
        14 => Just(Op::Send),
        12 => (which(), prop_oneof![4 => Just(0), 1 => 0..12_usize], prop::bool::weighted(0.1))
            .prop_map(|(which, short, upgrade)| Op::Execute(which, short, upgrade)),
        2 => which().prop_map(Op::ExecuteUnheard),
        12 => which().prop_map(Op::Deliver),
        2 => any::<u64>().prop_map(Op::Crash),
        1 => (0..FILE).prop_map(Op::Truncate),
        2 => Just(Op::EndTruncate),
        1 => which().prop_map(move |which| if fails { Op::Fail(which) } else { Op::Send }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn whatever_the_server_does_the_file_ends_as_written_or_a_problem_is_told(
        depth in 1..5_usize,
        commit_bytes in 1..60_u64,
        ops in prop::collection::vec(op(false), 0..150),
    ) {
        let mut world = World::new(Policy { depth, commit_bytes });
        for op in &ops {
            world.apply(op);
        }
        world.finish();
        if world.problems.is_empty() {
            prop_assert_eq!(world.server.stable, world.expected);
            prop_assert_eq!(world.kept.lost_from, None);
        }
    }

    #[test]
    fn after_failures_only_what_is_stable_is_called_stable(
        depth in 1..5_usize,
        commit_bytes in 1..60_u64,
        ops in prop::collection::vec(op(true), 0..150),
    ) {
        let mut world = World::new(Policy { depth, commit_bytes });
        for op in &ops {
            world.apply(op);
        }
        world.finish();
    }
}

#[test]
fn a_write_of_which_nothing_was_taken_does_not_move_the_end() {
    let mut kept = Kept::of_size(0);
    kept.accept(30, Bytes::from_static(b"data"), Writer(0));
    kept.release();
    let policy = Policy {
        depth: 1,
        commit_bytes: u64::MAX,
    };
    let Some(Step::Write(write)) = kept.next(policy) else {
        panic!("it is to be sent");
    };
    let answer = WriteAnswer {
        count: 0,
        committed: StableHow::Unstable,
        verifier: [1; 8],
    };
    kept.write_answered(write.ticket, &answer).unwrap();
    assert_eq!(kept.answered_end(), 0);
    // A read below it has to wait: the hole is not there yet.
    assert!(!kept.is_visible(0, 10));
}

#[test]
fn a_read_waits_for_the_end_that_two_restarts_have_taken_away() {
    let mut kept = Kept::of_size(0);
    let policy = Policy {
        depth: 1,
        commit_bytes: u64::MAX,
    };
    let write = |kept: &mut Kept, verifier: u8| {
        let Some(Step::Write(write)) = kept.next(policy) else {
            panic!("a WRITE is to be sent");
        };
        let answer = WriteAnswer {
            count: u32::try_from(write.data.len()).unwrap(),
            committed: StableHow::Unstable,
            verifier: [verifier; 8],
        };
        kept.write_answered(write.ticket, &answer).unwrap();
        write.offset
    };
    kept.accept(30, Bytes::from_static(b"older"), Writer(0));
    kept.accept(60, Bytes::from_static(b"newer"), Writer(0));
    assert_eq!(write(&mut kept, 1), 30);
    // The server lost the older data before it took the newer, and has lost that before it takes the
    // older again: its file ends at 35.
    assert_eq!(write(&mut kept, 2), 60);
    assert_eq!(kept.answered_end(), 65);
    assert_eq!(write(&mut kept, 3), 30);
    assert_eq!(kept.answered_end(), 35);
    // In between is a hole, which the server takes to be beyond the end.
    assert!(!kept.is_visible(40, 50));
    assert_eq!(write(&mut kept, 3), 60);
    assert!(kept.is_visible(40, 50));
}

#[test]
fn what_is_given_up_on_its_way_keeps_its_place_until_it_is_answered() {
    let policy = Policy {
        depth: 3,
        commit_bytes: 1,
    };
    let write = |kept: &mut Kept| match kept.next(policy) {
        Some(Step::Write(write)) => write,
        step => panic!("{step:?}"),
    };
    let answer = |count: u32, restart: u64| WriteAnswer {
        count,
        committed: StableHow::Unstable,
        verifier: restart.to_be_bytes(),
    };
    let data = |len| Bytes::from(vec![7; len]);
    let mut kept = Kept::default();
    kept.accept(0, data(10), Writer::default());
    kept.accept(90, data(10), Writer::default());
    kept.release();
    let mut sent = write(&mut kept);
    let late = write(&mut kept);
    // All that is written is lost again and again, while the other WRITE is on its way.
    let problem = (0_u64..).find_map(|restart| {
        assert_eq!(
            kept.write_answered(sent.ticket, &answer(10, restart)),
            Ok(())
        );
        assert!(matches!(kept.next(policy), Some(Step::Commit(_))));
        let told = kept.commit_answered((restart + 1).to_be_bytes()).err();
        if told.is_none() {
            sent = write(&mut kept);
        }
        told
    });
    assert_eq!(problem, Some(Problem::VerifierKeepsChanging));
    assert!(kept.is_stable(kept.next_number()), "nobody waits for it");
    assert_eq!(kept.end(), 100, "an append comes behind it");
    assert!(!kept.try_hold(), "a change of the length waits for it");
    assert!(
        !kept.is_visible(95, 96),
        "a read of what it may still change"
    );
    kept.accept(0, data(5), Writer::default());
    kept.accept(95, data(10), Writer::default());
    kept.release();
    assert_eq!(write(&mut kept).offset, 0);
    assert!(
        kept.next(policy).is_none(),
        "two WRITEs of the same bytes are in flight"
    );
    assert_eq!(kept.write_answered(late.ticket, &answer(10, 1)), Ok(()));
    assert_eq!(write(&mut kept).offset, 95);
}
