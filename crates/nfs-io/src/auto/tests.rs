//! What the decider settles on for workloads as they are met, and that it changes its mind seldom whatever comes.

use std::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::testing::Random;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// What the page cache may have.
const MEMORY: u64 = 512 * MIB;

fn around() -> Around {
    Around {
        memory_bytes: MEMORY,
        ..Around::default()
    }
}

fn call(direction: Direction, offset: u64, bytes: u64, file_bytes: u64) -> Call {
    Call {
        direction,
        offset,
        bytes,
        file_bytes,
        aligned: offset.is_multiple_of(4096) && bytes.is_multiple_of(4096),
        stable: false,
        hint: Hint::Normal,
        takes_direct: true,
        takes_dontcache: true,
    }
}

fn read(offset: u64, bytes: u64, file_bytes: u64) -> Call {
    call(Direction::Read, offset, bytes, file_bytes)
}

/// A WRITE that extends the file if it ends behind it.
fn write(offset: u64, bytes: u64) -> Call {
    call(Direction::Write, offset, bytes, offset + bytes)
}

/// Where calls of `bytes` begin that go from one end of a range to the other.
fn scan(range: Range<u64>, bytes: u64) -> impl Iterator<Item = u64> {
    let last = range.end - bytes;
    (range.start..=last).step_by(bytes as usize)
}

/// Where calls on whole blocks of `bytes` begin that go anywhere within `file_bytes`.
fn anywhere(calls: usize, bytes: u64, file_bytes: u64) -> impl Iterator<Item = u64> {
    let mut random = Random(7);
    std::iter::repeat_with(move || random.below(file_bytes / bytes) * bytes).take(calls)
}

/// A file's history and what was said of its calls.
struct Trial {
    history: History,
    around: Around,
    /// All changes of mode.
    switches: Vec<Switch>,
}

impl Trial {
    fn new() -> Self {
        Self {
            history: History::default(),
            around: around(),
            switches: Vec::new(),
        }
    }

    fn run(&mut self, calls: impl Iterator<Item = Call>) -> Verdict {
        let mut last = None;
        for call in calls {
            let verdict = self.history.judge(&call, &self.around);
            self.switches.extend(verdict.switch);
            last = Some(verdict);
        }
        last.expect("there are calls")
    }
}

/// What a workload ends with: mode, reason, and how often the mode changed on the way.
fn settled(calls: impl Iterator<Item = Call>) -> (Mode, Reason, usize) {
    let mut trial = Trial::new();
    let verdict = trial.run(calls);
    (verdict.mode, verdict.reason, trial.switches.len())
}

#[test]
fn a_stream_larger_than_memory_goes_past_the_cache_from_its_first_call() {
    for bytes in [32 * KIB, 128 * KIB, MIB] {
        let calls = scan(0..2 * GIB, bytes).map(|at| read(at, bytes, 4 * GIB));
        assert_eq!(settled(calls), (Mode::Direct, Reason::Stream, 0), "{bytes}");
    }
}

#[test]
fn a_client_with_one_read_in_flight_is_a_stream_too() {
    let calls = scan(0..GIB, 128 * KIB).map(|at| read(at, 128 * KIB, GIB));
    assert_eq!(settled(calls), (Mode::Direct, Reason::Stream, 0));
    // Smaller ones are read ahead of best by the kernel.
    let calls = scan(0..GIB, 8 * KIB).map(|at| read(at, 8 * KIB, GIB));
    assert_eq!(settled(calls), (Mode::DontCache, Reason::SmallStream, 1));
}

#[test]
fn a_stream_smaller_than_memory_stays_in_it() {
    let calls = scan(0..64 * MIB, MIB).map(|at| read(at, MIB, 64 * MIB));
    assert_eq!(settled(calls), (Mode::Buffered, Reason::Fits, 0));
}

#[test]
fn small_hot_reads_stay_in_the_cache() {
    let hot = anywhere(40_000, 4 * KIB, 16 * MIB);
    let calls = hot.map(|at| read(at * 64 / 4096 * 4096, 4 * KIB, 4 * GIB));
    assert_eq!(settled(calls), (Mode::Buffered, Reason::Reused, 0));
}

#[test]
fn small_cold_reads_go_past_the_cache() {
    let calls = anywhere(40_000, 4 * KIB, 8 * GIB).map(|at| read(at, 4 * KIB, 8 * GIB));
    assert_eq!(settled(calls), (Mode::Direct, Reason::Scattered, 1));
}

#[test]
fn scans_that_come_back_are_kept_if_memory_can_hold_them() {
    let scans = |file: u64| {
        let one = move |_| scan(0..file, MIB).map(move |at| read(at, MIB, file));
        (0..6).flat_map(one)
    };
    assert_eq!(
        settled(scans(100 * MIB)),
        (Mode::Buffered, Reason::Reused, 0)
    );
    assert_eq!(
        settled(scans(200 * MIB)),
        (Mode::Buffered, Reason::Reused, 1)
    );
    assert_eq!(settled(scans(GIB)), (Mode::Direct, Reason::Stream, 0));
}

#[test]
fn clients_beside_each_other_are_streams_each() {
    let two = scan(0..GIB, MIB).flat_map(|at| [at, at + GIB, at + 2 * GIB]);
    let calls = two.map(|at| read(at, MIB, 4 * GIB));
    assert_eq!(settled(calls), (Mode::Direct, Reason::Stream, 0));
    let mut random = Random(3);
    let both = scan(0..GIB, MIB).flat_map(|at| [at, random.below(4 * GIB / MIB) * MIB]);
    let calls = both.collect::<Vec<_>>().into_iter();
    let (mode, _, switches) = settled(calls.map(|at| read(at, MIB, 4 * GIB)));
    assert_eq!((mode, switches), (Mode::Direct, 0));
}

#[test]
fn records_of_47008_bytes_are_gathered_by_the_cache_unless_they_are_staged() {
    let records = || scan(0..2 * GIB, 47008).map(|at| write(at, 47008));
    let (mode, reason, switches) = settled(records());
    assert_eq!(
        (mode, reason, switches),
        (Mode::Buffered, Reason::Unaligned, 0)
    );
    let staged = records().map(|call| Call {
        aligned: true,
        ..call
    });
    assert_eq!(settled(staged), (Mode::Direct, Reason::Stream, 1));
}

#[test]
fn a_log_that_is_appended_to_stays_in_the_cache() {
    let calls = scan(0..8 * MIB, 200).map(|at| write(at, 200));
    let (mode, _, switches) = settled(calls);
    assert_eq!((mode, switches), (Mode::Buffered, 0));
}

#[test]
fn stable_writes_of_whole_blocks_go_to_the_disk_at_once() {
    let database = || {
        anywhere(20_000, 8 * KIB, GIB).map(|at| Call {
            stable: true,
            file_bytes: GIB,
            ..write(at, 8 * KIB)
        })
    };
    assert_eq!(settled(database()), (Mode::Direct, Reason::Stable, 0));
    let odd = database().map(|call| Call {
        aligned: false,
        ..call
    });
    assert_eq!(settled(odd), (Mode::Buffered, Reason::Unaligned, 0));
}

#[test]
fn a_backup_is_written_and_read_back_past_the_cache() {
    let mut trial = Trial::new();
    let written = trial.run(scan(0..2 * GIB, MIB).map(|at| write(at, MIB)));
    assert_eq!(
        (written.mode, written.reason),
        (Mode::Direct, Reason::Stream)
    );
    let restored = trial.run(scan(0..2 * GIB, MIB).map(|at| read(at, MIB, 2 * GIB)));
    assert_eq!(
        (restored.mode, restored.reason),
        (Mode::Direct, Reason::Stream)
    );
    let switch = Switch {
        from: Mode::Buffered,
        to: Mode::Direct,
        reason: Reason::Stream,
    };
    assert_eq!(trial.switches, [switch], "while the file grew");
}

#[test]
fn small_files_stay_in_the_cache() {
    for bytes in [100, 4 * KIB, 256 * KIB, MIB] {
        let mut trial = Trial::new();
        let written = trial.run([write(0, bytes)].into_iter());
        let restored = trial.run([read(0, bytes, bytes)].into_iter());
        for verdict in [written, restored] {
            assert_eq!(
                (verdict.mode, verdict.reason),
                (Mode::Buffered, Reason::SmallFile)
            );
        }
        assert_eq!(trial.switches, []);
    }
}

#[test]
fn a_hint_counts_for_more_than_what_is_seen() {
    let stream = |hint| {
        scan(0..GIB, MIB).map(move |at| Call {
            hint,
            ..read(at, MIB, 2 * GIB)
        })
    };
    assert_eq!(
        settled(stream(Hint::WillNeed)),
        (Mode::Buffered, Reason::Hint, 0)
    );
    assert_eq!(
        settled(stream(Hint::NoReuse)),
        (Mode::Direct, Reason::Hint, 0)
    );
    assert_eq!(
        settled(stream(Hint::Random)),
        (Mode::Direct, Reason::Scattered, 0)
    );
    let small = anywhere(20_000, 4 * KIB, GIB).map(|at| Call {
        hint: Hint::Sequential,
        ..read(at, 4 * KIB, 2 * GIB)
    });
    let (mode, reason, _) = settled(small);
    assert_eq!((mode, reason), (Mode::DontCache, Reason::SmallStream));
}

#[test]
fn where_memory_is_short_what_does_not_come_back_is_not_kept() {
    let scan_of = |file: u64| scan(0..file, MIB).map(move |at| read(at, MIB, file));
    let mut trial = Trial::new();
    trial.around.memory_bytes = 8 * GIB;
    assert_eq!(trial.run(scan_of(512 * MIB)).mode, Mode::Buffered);
    let mut trial = Trial::new();
    trial.around.memory_bytes = 8 * GIB;
    trial.around.pressed = true;
    let verdict = trial.run(scan_of(512 * MIB));
    assert_eq!(
        (verdict.mode, verdict.reason),
        (Mode::Direct, Reason::Pressure)
    );
    // What comes back is worth its memory.
    let hot = anywhere(20_000, 4 * KIB, 8 * MIB).map(|at| read(at, 4 * KIB, 4 * GIB));
    assert_eq!(trial.run(hot).mode, Mode::Buffered);
}

#[test]
fn streams_that_fit_one_by_one_and_not_together_are_not_kept() {
    let (mut around, mut streamed) = (around(), 0);
    let mut modes = Vec::new();
    for _ in 0..10 {
        let mut history = History::default();
        for at in scan(0..100 * MIB, MIB) {
            let verdict = history.judge(&read(at, MIB, 100 * MIB), &around);
            streamed += u64::from(verdict.streamed_bytes);
        }
        modes.extend(history.mode(Direction::Read));
        let found = (Some(MEMORY), None, std::mem::take(&mut streamed));
        around = around.after_a_second(found.0, found.1, found.2);
    }
    assert_eq!(modes[..3], [Mode::Buffered; 3]);
    assert_eq!(modes[4..], [Mode::Direct; 6]);
}

#[test]
fn what_a_file_does_not_take_is_given_up_at_once_and_said() {
    let without = |takes_direct, takes_dontcache| {
        scan(0..GIB, MIB).map(move |at| Call {
            takes_direct,
            takes_dontcache,
            ..read(at, MIB, 4 * GIB)
        })
    };
    let mut trial = Trial::new();
    trial.run(without(true, true));
    let verdict = trial.run(without(false, true).take(1));
    assert_eq!(verdict.mode, Mode::DontCache);
    let reason = verdict.switch.map(|switch| switch.reason);
    assert_eq!(reason, Some(Reason::Refused));
    let verdict = trial.run(without(false, false).take(40));
    assert_eq!(
        (verdict.mode, verdict.reason, verdict.instead_of),
        (Mode::Buffered, Reason::Stream, Some(Mode::Direct))
    );
    assert_eq!(trial.switches.len(), 2);
}

#[test]
fn a_mode_that_is_slower_than_the_one_before_is_given_up_for_long() {
    // A call every 20 microseconds, or every 200 in direct.
    let (modes, evidence) = paced(|mode, _| if mode == Mode::Direct { 200 } else { 20 });
    let slower = (Mode::Buffered, Reason::Slower);
    assert_eq!(modes, [(Mode::Direct, Reason::Scattered), slower]);
    assert_eq!(evidence.switches as usize, modes.len());
}

#[test]
fn a_client_that_makes_pauses_is_not_taken_for_a_slow_mode() {
    // As fast in either mode; after the change the client rests before nine of ten calls that are sampled.
    let (modes, _) = paced(|mode, call| match mode {
        Mode::Direct if call % 160 > 16 => 20_000,
        Mode::Direct | Mode::DontCache | Mode::Buffered => 20,
    });
    assert_eq!(modes, [(Mode::Direct, Reason::Scattered)]);
}

/// The changes of mode of small READs here and there, each so many microseconds after the one before as `apart`
/// says for the mode and the number of the call.
fn paced(apart: impl Fn(Mode, u64) -> u64) -> (Vec<(Mode, Reason)>, Evidence) {
    let mut history = History::default();
    let (mut modes, mut now) = (Vec::new(), 0);
    for (number, at) in (0..).zip(anywhere(60_000, 4 * KIB, 8 * GIB)) {
        let call = read(at, 4 * KIB, 8 * GIB);
        let verdict = history.judge(&call, &around());
        now += apart(verdict.mode, number) * 1000;
        if verdict.sample {
            history.sampled_at(Direction::Read, now);
        }
        modes.extend(verdict.switch.map(|switch| (switch.to, switch.reason)));
    }
    (modes, history.evidence(Direction::Read))
}

#[test]
fn pages_that_are_in_the_cache_already_are_read_from_it() {
    let mut history = History::default();
    for at in anywhere(20_000, 4 * KIB, GIB) {
        let call = read(at, 4 * KIB, GIB);
        let verdict = history.judge(&call, &around());
        if let Some(place) = verdict.look_at {
            assert_eq!(place, at);
            history.found_cached(Direction::Read, 1, 1);
        }
    }
    assert_eq!(history.mode(Direction::Read), Some(Mode::Buffered));
    assert_eq!(history.evidence(Direction::Read).cached, Some(100));
}

#[test]
fn to_foretell_changes_nothing() {
    let mut history = History::default();
    let first = history.foretell(&read(0, MIB, 4 * GIB), &around());
    assert_eq!(history.mode(Direction::Read), None);
    assert_eq!(history.judge(&read(0, MIB, 4 * GIB), &around()), first);
    assert_eq!(history.evidence(Direction::Read).calls, 1);
    assert_eq!(history.evidence(Direction::Write).calls, 0);
}

#[test]
fn a_history_is_small() {
    assert!(
        size_of::<History>() <= 384,
        "{} bytes for each open file",
        size_of::<History>()
    );
}

#[test]
fn every_reason_has_its_own_word_and_number() {
    for (number, reason) in Reason::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, number);
        let same = Reason::ALL
            .iter()
            .filter(|other| other.word() == reason.word());
        assert_eq!(same.count(), 1, "{reason:?}");
        assert!(!reason.sentence().is_empty());
    }
}

/// Stretches of calls that each have something in common, so that evidence comes together and is lost again.
#[derive(Clone, Debug)]
struct Stretch {
    calls: u16,
    bytes: u64,
    file_bytes: u64,
    sequential: bool,
    direction: Direction,
    stable: bool,
    hint: Hint,
    cached: bool,
    nanos: u64,
    around: Around,
}

fn stretches() -> impl Strategy<Value = Vec<Stretch>> {
    let direction = prop_oneof![Just(Direction::Read), Just(Direction::Write)];
    let hint = prop_oneof![
        6 => Just(Hint::Normal),
        1 => Just(Hint::Sequential),
        1 => Just(Hint::Random),
        1 => Just(Hint::NoReuse),
        1 => Just(Hint::WillNeed),
    ];
    let bytes = prop_oneof![Just(4096), Just(47008), Just(MIB), 0..u64::MAX];
    let file_bytes = prop_oneof![Just(MIB), Just(64 * MIB), Just(8 * GIB), 0..u64::MAX];
    let around = (
        any::<bool>(),
        any::<bool>(),
        prop_oneof![Just(MEMORY), any::<u64>()],
    );
    let around = around.prop_map(|(pressed, flooded, memory_bytes)| Around {
        memory_bytes,
        pressed,
        flooded,
        ..Around::default()
    });
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let stretch = (
        1..600_u16,
        bytes,
        file_bytes,
        flags,
        direction,
        hint,
        any::<u64>(),
        around,
    );
    let stretch = stretch.prop_map(
        |(calls, bytes, file_bytes, flags, direction, hint, nanos, around)| Stretch {
            calls,
            bytes,
            file_bytes,
            sequential: flags.0,
            direction,
            stable: flags.1,
            hint,
            cached: flags.2,
            nanos,
            around,
        },
    );
    proptest::collection::vec(stretch, 1..100)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// However calls come, the mode of a direction changes seven times at first and then once in 4096 calls at
    /// most, and never within 64 calls.
    #[test]
    fn modes_change_seldom(stretches in stretches(), seed: u64) {
        let mut random = Random(seed | 1);
        let mut history = History::default();
        let (mut calls, mut switches, mut last) = ([0_u64; 2], [0_u64; 2], [None::<u64>; 2]);
        let mut now = 0_u64;
        for stretch in stretches {
            let mut at = 0_u64;
            for _ in 0..stretch.calls {
                at = match stretch.sequential {
                    true => at.saturating_add(stretch.bytes),
                    false => random.below(stretch.file_bytes.max(1)),
                };
                let mut call = call(stretch.direction, at, stretch.bytes, stretch.file_bytes);
                (call.stable, call.hint) = (stretch.stable, stretch.hint);
                let verdict = history.judge(&call, &stretch.around);
                let way = stretch.direction as usize;
                now = now.saturating_add(stretch.nanos);
                if verdict.sample {
                    history.sampled_at(stretch.direction, now);
                    history.found_cached(stretch.direction, u64::from(stretch.cached), 1);
                }
                if let Some(switch) = verdict.switch {
                    prop_assert_ne!(switch.from, switch.to);
                    prop_assert_eq!(switch.to, verdict.mode);
                    let apart = calls[way] + 1 - last[way].unwrap_or(0);
                    prop_assert!(apart >= u64::from(AUTO_SWITCH_CALLS_MIN), "{} calls", apart);
                    (switches[way], last[way]) = (switches[way] + 1, Some(calls[way] + 1));
                }
                calls[way] += 1;
                let most = 7 + calls[way] / u64::from(AUTO_CALM_CALLS);
                prop_assert!(switches[way] <= most, "{switches:?} of {calls:?}");
            }
        }
    }
}
