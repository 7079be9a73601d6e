//! How long calls take, and whether stable storage costs anything.
//!
//! A server that answers FILE_SYNC before the data is on stable storage cannot be told, from outside,
//! from one whose stable storage is as fast as memory. What can be seen is whether a stable WRITE takes
//! longer than an unstable one, and COMMIT longer than one that has nothing to commit; by more than such
//! calls differ among themselves. So the finding gives the evidence, and no accusation.
//!
//! Like is compared with like: another procedure goes another way through the server, which on a slow machine costs
//! as much as a fast disk does.

use std::time::Duration;

use nfs_wire::nfs3::StableHow;

use super::words::{distribution, time};
use super::{Level, List, Section, untold};
use crate::doctor::facts::{Facts, StableTrial, Times, Verifiers};

/// A difference between two kinds of call below this says nothing: a task switch in the server, another
/// path through its code. The fastest disks with a protected cache need more for a flush and a journal.
const NOISE_MIN: Duration = Duration::from_micros(25);
/// So many times the spread of the calls that are compared counts as noise.
const SPREADS: u32 = 2;
/// A WRITE with data is copied, changes times and may be handed to another thread, which takes up to what one without a
/// byte does; percent.
const NOTHING_BESIDES: u32 = 100;
/// It takes up to three times as long as a GETATTR, where only that is there to compare; percent.
const GETATTR_BESIDES: u32 = 200;
/// A round trip that makes programs that ask for one file after the other slow.
const ROUND_TRIP_LONG: Duration = Duration::from_millis(5);
/// The slowest hundredth of calls takes so many times as long as half of them where something gets stuck.
const TAIL_LONG: u32 = 50;
/// Such a tail matters from this on.
const TAIL_MATTERS: Duration = Duration::from_millis(50);

pub(super) fn judge(list: &mut List, facts: &Facts) {
    let latency = &facts.latency;
    for (subject, times) in [
        ("NULL", &latency.null),
        ("GETATTR", &latency.getattr),
        ("READ 4 KiB", &latency.read),
    ] {
        calls(list, subject, times);
    }
    let Ok(trials) = &facts.trials else {
        return;
    };
    match &trials.stable {
        Ok(trial) => stable(list, trial),
        Err(refusal) => untold(list, Section::Stability, "stable WRITE", refusal),
    }
    match &trials.verifiers {
        Ok(verifiers) => verifier(list, verifiers),
        Err(refusal) => untold(list, Section::Stability, "write verifier", refusal),
    }
}

fn calls(list: &mut List, subject: &'static str, times: &Times) {
    let section = Section::Stability;
    let Some(fact) = distribution(times) else {
        return;
    };
    let at = |percent| times.percentile(percent).unwrap_or_default();
    let (half, tail) = (at(50), at(99));
    if half >= ROUND_TRIP_LONG {
        list.add(section, Level::Warning, subject, fact).meaning(
            "each call takes that long: programs that open one small file after the other crawl",
        );
    } else if tail >= TAIL_MATTERS && tail >= half.saturating_mul(TAIL_LONG) {
        list.add(section, Level::Warning, subject, fact)
            .meaning("a call in a hundred gets stuck: lost packets, or a server that stalls")
            .cure("look at the server's load and at retransmissions (ss -ti) while it is so");
    } else {
        list.add(section, Level::Ok, subject, fact);
    }
}

/// What a comparison of two kinds of calls shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    /// By how much the median of the one is above that of the other.
    more: Duration,
    /// What says nothing.
    noise: Duration,
}

/// Whether a cost is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// It is more than what says nothing.
    Yes,
    /// There is none.
    No,
    /// There may be one, which is hidden in the noise.
    Unclear,
}

impl Cost {
    fn of(dear: &Times, cheap: &Times) -> Self {
        let half = |times: &Times| times.percentile(50).unwrap_or_default();
        // The spread of the calls that are to be cheap: that of the others is the disk's.
        let noise = cheap.spread().saturating_mul(SPREADS).max(NOISE_MIN);
        Self {
            more: half(dear).saturating_sub(half(cheap)),
            noise,
        }
    }

    /// As [`Self::of`], where the cheap calls have less to do besides: so much of what one of them takes says nothing
    /// either.
    fn beside(dear: &Times, cheap: &Times, besides: u32) -> Self {
        let cost = Self::of(dear, cheap);
        let way = cheap.percentile(50).unwrap_or_default();
        Self {
            noise: cost.noise.max(way.saturating_mul(besides) / 100),
            ..cost
        }
    }

    fn seen(self) -> Seen {
        if self.more > self.noise {
            Seen::Yes
        } else if self.more <= NOISE_MIN {
            Seen::No
        } else {
            Seen::Unclear
        }
    }

    fn words(self) -> String {
        let (more, noise) = (time(self.more), time(self.noise));
        format!("{more} more, where up to {noise} says nothing")
    }
}

fn stable(list: &mut List, trial: &StableTrial) {
    let section = Section::Stability;
    for (subject, times) in [
        ("WRITE UNSTABLE", &trial.unstable),
        ("COMMIT", &trial.commit),
        ("WRITE FILE_SYNC", &trial.file_sync),
    ] {
        if let Some(fact) = distribution(times) {
            list.add(section, Level::Ok, subject, fact);
        }
    }
    if trial.file_sync_promised != StableHow::FileSync {
        let fact = "a WRITE that asked for FILE_SYNC was answered with less";
        list.add(section, Level::Problem, "promises", fact)
            .meaning(
                "the protocol forbids it (RFC 1813 section 3.3.7); clients may take it for stable",
            )
            .cure("report it to whoever makes the server");
    }
    if trial.unstable_promised == StableHow::FileSync {
        // Then COMMIT has nothing to do, and an unstable WRITE is as dear as a stable one.
        let (sync, against) = match trial.nothing.count() {
            0 => (
                Cost::beside(&trial.file_sync, &trial.getattr, GETATTR_BESIDES),
                "GETATTR",
            ),
            _ => (
                Cost::beside(&trial.file_sync, &trial.nothing, NOTHING_BESIDES),
                "a WRITE of nothing",
            ),
        };
        let evidence = format!("FILE_SYNC against {against}: {}", sync.words());
        list.add(
            section,
            Level::Note,
            "promises",
            "UNSTABLE WRITEs are answered FILE_SYNC",
        )
        .meaning("the server makes every WRITE stable, and COMMIT has nothing to do");
        return verdict(list, sync.seen(), sync.seen(), evidence);
    }
    let sync = Cost::of(&trial.file_sync, &trial.unstable);
    let commit = Cost::of(&trial.commit, &trial.commit_idle);
    let evidence = format!(
        "FILE_SYNC against UNSTABLE: {}; COMMIT against one of nothing: {}",
        sync.words(),
        commit.words()
    );
    verdict(list, sync.seen(), commit.seen(), evidence);
}

/// What it means whether FILE_SYNC and COMMIT are seen to cost anything.
fn verdict(list: &mut List, sync: Seen, commit: Seen, evidence: String) {
    const CURE: &str = "find out what is below: the export option async (Linux), sync=disabled (ZFS), a file \
                        system in memory, a disk whose cache does not survive a power cut; a power cut under \
                        load is the proof";
    let (level, meaning) = match (sync, commit) {
        (Seen::Yes, Seen::Yes) => (Level::Ok, "stable storage costs what a disk costs"),
        (Seen::No, Seen::No) => (
            Level::Warning,
            "no cost of stable storage can be seen. Either it is as fast as memory (NVRAM, a cache with a \
             battery, a file system in memory), or the server answers before the data is there, and a power \
             cut loses what it has acknowledged. From outside the two look the same",
        ),
        (Seen::No, Seen::Yes) => (
            Level::Warning,
            "COMMIT takes time and FILE_SYNC none that can be seen, though both promise the same: FILE_SYNC may \
             be answered before the data is on stable storage",
        ),
        (Seen::Yes, Seen::No) => (
            Level::Warning,
            "FILE_SYNC takes time and COMMIT none that can be seen, though both promise the same: COMMIT may be \
             answered before the data is on stable storage",
        ),
        (Seen::Unclear, _) | (_, Seen::Unclear) => (
            Level::Note,
            "it cannot be told what stable storage costs: the calls differ too much among themselves. Ask again \
             when server and network are at rest, and from nearby",
        ),
    };
    let finding = list.add(Section::Stability, level, "stable storage", evidence);
    finding.meaning(meaning);
    if level == Level::Warning {
        finding.cure(CURE);
    }
}

fn verifier(list: &mut List, seen: &Verifiers) {
    const SUBJECT: &str = "write verifier";
    let section = Section::Stability;
    if seen.changes > 0 {
        let fact = format!("{} changes in {} replies", seen.changes, seen.replies);
        list.add(section, Level::Problem, SUBJECT, fact)
            .meaning(
                "each change tells clients that the server restarted and lost what was not stable: they send \
                 all of it again, and may never end",
            )
            .cure(
                "if the server did not restart meanwhile: look for errors of its disk in its log, and for \
                 several servers behind one address",
            );
        return;
    }
    let fact = format!("the same in {} replies", seen.replies);
    match &seen.same_elsewhere {
        Ok(true) => {
            list.add(
                section,
                Level::Ok,
                SUBJECT,
                format!("{fact}, and over another connection"),
            );
        }
        Ok(false) => {
            list.add(section, Level::Problem, SUBJECT, format!("{fact}, another over another connection"))
                .meaning(
                    "a client that commits over another connection than it wrote over sends all of it again",
                )
                .cure("several servers behind one address must share a verifier, or keep a client to one");
        }
        Err(refusal) => {
            list.add(section, Level::Ok, SUBJECT, fact).meaning(format!(
                "over another connection it was not found out: {refusal}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(microseconds: &[u64]) -> Times {
        let times = microseconds.iter().copied().map(Duration::from_micros);
        Times::from(times.collect::<Vec<_>>())
    }

    #[test]
    fn a_cost_is_more_than_the_calls_differ_among_themselves() {
        let steady = times(&[100, 101, 102, 103]);
        let seen = |dear: u64, cheap: &Times| Cost::of(&times(&[dear; 5]), cheap).seen();
        // The floor counts where calls hardly differ.
        assert_eq!(seen(120, &steady), Seen::No);
        assert_eq!(seen(130, &steady), Seen::Yes);
        // Noisy calls hide it: the middle half of these lies 200 us apart.
        let noisy = times(&[100, 100, 200, 300, 300]);
        assert_eq!(seen(210, &noisy), Seen::No);
        assert_eq!(seen(590, &noisy), Seen::Unclear);
        assert_eq!(seen(610, &noisy), Seen::Yes);
        // What is faster than it should be costs nothing.
        assert_eq!(seen(50, &steady), Seen::No);
    }
}
