use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::exports::policy::{Because, StableFloor};

const STABILITIES: [Stability; 3] = [
    Stability::Unstable,
    Stability::DataSync,
    Stability::FileSync,
];

/// The decision by a policy that leaves nothing to what is seen of a file.
fn decide(policy: &IoPolicy, call: &IoCall, facts: &IoFacts<'_>) -> Option<Decision> {
    super::decide(choose(policy, call, facts), call, facts)
}

fn policy(mode: Mode) -> IoPolicy {
    IoPolicy {
        read: mode.into(),
        write: mode.into(),
        ..IoPolicy::default()
    }
}

fn call(io: Io, offset: u64, bytes: usize) -> IoCall {
    let memory = match io {
        Io::Read => 0,
        Io::Write => nfs_io::plan::placement(offset),
    };
    IoCall {
        io,
        offset,
        bytes,
        client: Ipv4Addr::LOCALHOST.into(),
        open: OpenAs::default(),
        stable: Stability::Unstable,
        memory,
    }
}

fn facts() -> IoFacts<'static> {
    IoFacts {
        name: None,
        size: 1 << 20,
        alignment: Alignment {
            memory: 512,
            offset: 512,
            read_offset: 0,
            block: 4096,
        },
        refused: Refused::default(),
    }
}

fn direct(io: Io, offset: u64, bytes: usize) -> Decision {
    decide(&policy(Mode::Direct), &call(io, offset, bytes), &facts()).unwrap()
}

fn only(decision: &Decision) -> Segment {
    let segments: Vec<Segment> = decision.segments().collect();
    assert_eq!(segments.len(), 1);
    segments[0].clone()
}

#[test]
fn a_read_is_cut_at_the_end_of_the_file_and_a_write_is_not() {
    let past_the_end = (1 << 20) - 10;
    let read = decide(
        &policy(Mode::Buffered),
        &call(Io::Read, past_the_end, 100),
        &facts(),
    );
    let read = read.unwrap();
    assert_eq!((read.bytes(), only(&read).file.end), (10, 1 << 20));
    let write = decide(
        &policy(Mode::Buffered),
        &call(Io::Write, past_the_end, 100),
        &facts(),
    );
    assert_eq!(write.unwrap().bytes(), 100);
    let behind = decide(
        &policy(Mode::Direct),
        &call(Io::Read, 1 << 30, 100),
        &facts(),
    )
    .unwrap();
    assert_eq!((behind.bytes(), behind.segments().count()), (0, 0));
}

#[test]
fn a_range_beyond_every_file_is_not_decided() {
    for (io, offset) in [(Io::Read, u64::MAX), (Io::Write, i64::MAX as u64)] {
        assert_eq!(
            decide(&policy(Mode::Direct), &call(io, offset, 1), &facts()),
            None
        );
    }
}

#[test]
fn several_segments_are_synced_once_and_one_by_itself() {
    let mut stable = call(Io::Write, 100, 12288);
    for (stability, each) in
        STABILITIES
            .into_iter()
            .zip([WriteSync::None, WriteSync::Dsync, WriteSync::Sync])
    {
        stable.stable = stability;
        let three = decide(&policy(Mode::Direct), &stable, &facts()).unwrap();
        assert_eq!(three.segments().count(), 3);
        assert_eq!(three.sync_of_each(), WriteSync::None);
        assert_eq!(three.is_synced_once(), stability != Stability::Unstable);
        let one = decide(&policy(Mode::Buffered), &stable, &facts()).unwrap();
        assert_eq!((one.sync_of_each(), one.is_synced_once()), (each, false));
    }
}

#[test]
fn the_floor_of_the_rule_that_decides_raises_what_is_asked() {
    let mut policy = policy(Mode::Direct);
    policy.rules = vec!["op=write,mode=4", "mode=dontcache"]
        .into_iter()
        .map(|rule| crate::exports::policy::parse_rule(rule).unwrap())
        .collect();
    let write = decide(&policy, &call(Io::Write, 0, 4096), &facts()).unwrap();
    assert_eq!(write.choice.because, Because::Rule(0));
    assert_eq!(
        (write.choice.stable, write.stability),
        (StableFloor::FileSync, Stability::FileSync)
    );
    let read = decide(&policy, &call(Io::Read, 0, 4096), &facts()).unwrap();
    assert_eq!(
        (read.choice.because, read.choice.mode),
        (Because::Rule(1), Mode::DontCache)
    );
}

#[test]
fn only_refusals_of_the_mode_that_was_tried_lead_to_the_page_cache() {
    let transfer = |errno| Failure::Transfer(errno);
    let (read, write) = (direct(Io::Read, 100, 5000), direct(Io::Write, 0, 4096));
    for refusal in [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOTBLK] {
        for decision in [&read, &write] {
            let mut segment = only(decision);
            let reason =
                |segment: &Segment| decision.reason_to_fall_back(segment, transfer(refusal));
            assert_eq!(reason(&segment), Some(Reason::RefusedDirect));
            segment.mode = Mode::DontCache;
            assert_eq!(reason(&segment), Some(Reason::RefusedDontCache));
            segment.mode = Mode::Buffered;
            assert_eq!(
                reason(&segment),
                None,
                "there is nothing below the page cache"
            );
        }
    }
    let open = |errno| Failure::Open(Error::Errno(errno));
    let reason = |failure| write.reason_to_fall_back(&only(&write), failure);
    assert_eq!(reason(open(Errno::INVAL)), Some(Reason::OpenRefused));
    assert_eq!(reason(open(Errno::OPNOTSUPP)), Some(Reason::OpenRefused));
    for failure in [
        open(Errno::NOTBLK),
        open(Errno::ACCESS),
        Failure::Open(Error::Busy),
        transfer(Errno::NOSPC),
        transfer(Errno::AGAIN),
        transfer(Errno::IO),
    ] {
        assert_eq!(reason(failure), None, "{failure:?}");
    }
    let failed = read.reason_to_fall_back(&only(&read), transfer(Errno::IO));
    assert_eq!(
        failed,
        Some(Reason::DirectFailed),
        "a read is tried once more"
    );
}

#[test]
fn a_refused_read_is_not_rounded_and_a_refused_write_keeps_its_segments() {
    let read = direct(Io::Read, 100, 1000);
    let segment = only(&read);
    assert_eq!(
        (segment.file.clone(), segment.mode),
        (0..1536, Mode::Direct)
    );
    assert_eq!(read.window(&segment, 1536), 100..1100);
    assert_eq!(read.window(&segment, 600), 100..600);
    assert_eq!(read.window(&segment, 50), 50..50);
    let instead = read.instead(&segment);
    assert_eq!(
        (instead.file.clone(), instead.mode),
        (100..1100, Mode::Buffered)
    );
    assert_eq!(read.window(&instead, 1000), 0..1000);
    let write = direct(Io::Write, 100, 12288);
    let middle = write.segments().nth(1).unwrap();
    assert_eq!(
        (write.part(&middle), middle.mode),
        (3996..12188, Mode::Direct)
    );
    assert_eq!(write.instead(&middle).file, middle.file);
}

/// What a file really refuses, whatever is known of it.
#[derive(Clone, Copy, Debug)]
struct Truth {
    open: bool,
    direct: bool,
    dontcache: bool,
}

impl Truth {
    /// How an attempt at a segment ends.
    fn attempt(self, segment: &Segment) -> core::result::Result<(), Failure> {
        match segment.mode {
            Mode::Direct if self.open => Err(Failure::Open(Error::Errno(Errno::INVAL))),
            Mode::Direct if self.direct => Err(Failure::Transfer(Errno::INVAL)),
            Mode::DontCache if self.dontcache => Err(Failure::Transfer(Errno::OPNOTSUPP)),
            Mode::Buffered | Mode::DontCache | Mode::Direct => Ok(()),
        }
    }

    /// What looking at the file finds out, or a call that met all of it.
    fn refused(self) -> Refused {
        let direct = self.direct.then_some(Reason::RefusedDirect);
        Refused {
            direct: self.open.then_some(Reason::OpenRefused).or(direct),
            dontcache: self.dontcache.then_some(Reason::RefusedDontCache),
        }
    }
}

/// The segments as they went, and why some did not go as they were chosen: what READ and WRITE do with a
/// decision.
fn execute(decision: &Decision, truth: Truth) -> (Vec<Segment>, Vec<Reason>) {
    let (mut moved, mut reasons) = (Vec::new(), Vec::new());
    for mut segment in decision.segments() {
        while let Err(failure) = truth.attempt(&segment) {
            let reason = decision.reason_to_fall_back(&segment, failure).unwrap();
            reasons.push(reason);
            segment = decision.instead(&segment);
        }
        moved.push(segment);
    }
    reasons.dedup();
    (moved, reasons)
}

fn any_call() -> impl Strategy<Value = IoCall> {
    let io = prop_oneof![Just(Io::Read), Just(Io::Write)];
    let offset = prop_oneof![
        0u64..20_000,
        (0u64..1 << 20),
        (0u64..64).prop_map(|block| block * 4096)
    ];
    let bytes = prop_oneof![
        0usize..20_000,
        (0usize..16).prop_map(|blocks| blocks * 4096)
    ];
    let stable = prop::sample::select(STABILITIES.to_vec());
    (io, offset, bytes, stable).prop_map(|(io, offset, bytes, stable)| IoCall {
        stable,
        ..call(io, offset, bytes)
    })
}

fn any_truth() -> impl Strategy<Value = Truth> {
    any::<(bool, bool, bool)>().prop_map(|(open, direct, dontcache)| Truth {
        open,
        direct,
        dontcache,
    })
}

fn any_facts() -> impl Strategy<Value = IoFacts<'static>> {
    let align = prop::sample::select(vec![0u32, 1, 512, 4096, 1000]);
    (0u64..1 << 20, align.clone(), align).prop_map(|(size, memory, offset)| IoFacts {
        size,
        alignment: Alignment {
            memory,
            offset,
            ..facts().alignment
        },
        ..facts()
    })
}

proptest! {
    #[test]
    fn what_is_foreseen_is_what_happens(
        mode in prop::sample::select(Mode::ALL.to_vec()),
        call in any_call(),
        facts in any_facts(),
        truth in any_truth(),
    ) {
        let decision = decide(&policy(mode), &call, &facts).unwrap();
        let (moved, reasons) = execute(&decision, truth);
        prop_assert_eq!(decision.foreseen(&truth.refused()), (moved, reasons));
    }

    #[test]
    fn what_is_remembered_is_not_met_again(
        mode in prop::sample::select(Mode::ALL.to_vec()),
        call in any_call(),
        facts in any_facts(),
        truth in any_truth(),
    ) {
        let facts = IoFacts { refused: truth.refused(), ..facts };
        let decision = decide(&policy(mode), &call, &facts).unwrap();
        let (moved, reasons) = execute(&decision, truth);
        prop_assert_eq!(&reasons, &[]);
        prop_assert_eq!(moved, decision.segments().collect::<Vec<_>>());
        prop_assert_eq!(decision.fallback.is_some(), truth.refused().reason(mode).is_some()
            || mode == Mode::Direct && decision.bytes() > 0
                && decision.segments().all(|segment| segment.mode != Mode::Direct));
    }

    #[test]
    fn the_segments_hold_the_range_in_order(
        mode in prop::sample::select(Mode::ALL.to_vec()),
        call in any_call(),
        facts in any_facts(),
        truth in any_truth(),
    ) {
        let decision = decide(&policy(mode), &call, &facts).unwrap();
        let (moved, _) = execute(&decision, truth);
        let whole = decision.bytes();
        match call.io {
            Io::Write => {
                let mut at = 0;
                for segment in &moved {
                    prop_assert_eq!(decision.part(segment).start, at);
                    at = decision.part(segment).end;
                }
                prop_assert_eq!(at, call.bytes);
            }
            Io::Read => {
                prop_assert_eq!(moved.len(), usize::from(whole > 0));
                for segment in &moved {
                    prop_assert_eq!(decision.window(segment, len_of(segment)).len(), whole);
                }
            }
        }
        prop_assert!(decision.stability as u8 >= call.stable as u8);
    }
}
