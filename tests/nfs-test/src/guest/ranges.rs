//! A program that locks random ranges of a file that others lock too, on other machines and by other kinds of
//! lock. Under a lock for writing it writes its own mark into the whole range, and before it unlocks it looks
//! whether somebody else wrote there; under one for reading nothing may change.

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fs::{FlockOperation, OFlags, flock};

use super::Report;

/// Slots of the file, of a mark each.
const SLOTS: u64 = 64;
const MARK_BYTES: u64 = 8;
/// Length of the file in bytes.
pub(crate) const LENGTH: u64 = SLOTS * MARK_BYTES;
/// Most slots that one lock covers.
const RANGE_SLOTS_MAX: u64 = 16;
/// Longest time for which a lock is held, in milliseconds.
const HOLD_MS_MAX: u64 = 60;
/// Longest pause after a range that somebody else has, in milliseconds.
const PAUSE_MS_MAX: u64 = 6;
/// How often progress is told.
const TELL_EACH: Duration = Duration::from_millis(250);
/// Bits of a mark that count the writes of its owner.
const COUNT_BITS: u32 = 48;

/// Whose a lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// The process's: `F_SETLK`.
    Process,
    /// The open file's: `F_OFD_SETLK`.
    OpenFile,
}

/// What one run of the suite does, and what its verdict is called.
pub(super) struct Plan<'a> {
    pub(super) name: &'a str,
    /// Tells its marks from those of others; not 0.
    pub(super) owner: u64,
    pub(super) kind: Kind,
    /// Reads and writes go past the client's cache: what is compared is what the server has.
    pub(super) past_cache: bool,
    /// A file: nothing new is locked while somebody else has the whole of it locked for himself.
    pub(super) gate: Option<&'a Path>,
    /// A file that the host makes when it is enough.
    pub(super) enough: &'a Path,
    pub(super) seed: u64,
}

/// Locks ranges of `file` until it is enough, tells of progress (`progress NAME LOCKS`), and gives one verdict.
pub(super) fn run(file: &Path, plan: &Plan<'_>, report: &mut Report) -> Result<()> {
    let outcome = Program::new(file, plan).and_then(|mut program| {
        program.play(report)?;
        Ok(program.locks)
    });
    if let Ok(locks) = &outcome {
        report.line(&format!("note {}: {locks} locks", plan.name))?;
    }
    report.verdict(&format!("ranges/{}", plan.name), &outcome.map(drop))
}

struct Program<'a> {
    plan: &'a Plan<'a>,
    file: File,
    gate: Option<File>,
    random: Rng,
    /// How often it got a lock.
    locks: u64,
}

impl<'a> Program<'a> {
    fn new(file: &Path, plan: &'a Plan<'a>) -> Result<Self> {
        ensure!(plan.owner != 0, "no owner is called 0");
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if plan.past_cache {
            options.custom_flags(OFlags::DIRECT.bits().cast_signed());
        }
        let gate = plan.gate.map(File::open).transpose().context("the gate")?;
        Ok(Self {
            plan,
            file: options.open(file).context("open the file")?,
            gate,
            random: Rng::with_seed(plan.seed),
            locks: 0,
        })
    }

    fn play(&mut self, report: &mut Report) -> Result<()> {
        let mut told = Instant::now();
        while !self.plan.enough.exists() {
            let first = self.random.u64(..SLOTS);
            let slots = first..SLOTS.min(first + 1 + self.random.u64(..RANGE_SLOTS_MAX));
            let writes = self.random.u64(..4) > 0;
            if !self.try_lock(&slots, writes)? {
                let pause = self.random.u64(1..=PAUSE_MS_MAX);
                // SLEEP: between two tries.
                std::thread::sleep(Duration::from_millis(pause));
                continue;
            }
            self.locks += 1;
            let held = self.hold(&slots, writes);
            let unlocked = self.set(libc::F_UNLCK, &slots).context("unlock");
            held.with_context(|| format!("lock {} of {slots:?}", self.locks))?;
            unlocked?;
            if told.elapsed() >= TELL_EACH {
                told = Instant::now();
                report.line(&format!("progress {} {}", self.plan.name, self.locks))?;
            }
        }
        Ok(())
    }

    /// Whether it has the lock now, which it has not if somebody else holds part of the range.
    fn try_lock(&self, slots: &Range<u64>, writes: bool) -> Result<bool> {
        let how = if writes { libc::F_WRLCK } else { libc::F_RDLCK };
        if let Some(gate) = &self.gate {
            flock(gate, FlockOperation::LockShared).context("the gate")?;
        }
        let outcome = match self.set(how, slots) {
            Ok(()) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(errno) => Err(errno).with_context(|| format!("lock {slots:?}")),
        };
        if let Some(gate) = &self.gate {
            flock(gate, FlockOperation::Unlock).context("the gate")?;
        }
        outcome
    }

    fn set(&self, how: libc::c_int, slots: &Range<u64>) -> nix::Result<()> {
        let bytes = |slots: u64| i64::try_from(slots * MARK_BYTES).unwrap_or(i64::MAX);
        let range = libc::flock {
            l_type: i16::try_from(how).unwrap_or_default(),
            l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
            l_start: bytes(slots.start),
            l_len: bytes(slots.end - slots.start),
            l_pid: 0,
        };
        let call = match self.plan.kind {
            Kind::Process => FcntlArg::F_SETLK(&range),
            Kind::OpenFile => FcntlArg::F_OFD_SETLK(&range),
        };
        fcntl(&self.file, call).map(drop)
    }

    /// Keeps the lock for a while, in which nobody else may write.
    fn hold(&mut self, slots: &Range<u64>, writes: bool) -> Result<()> {
        let mut expected = self.read(slots).context("read at first")?;
        if writes {
            let mark = self.plan.owner << COUNT_BITS | self.locks;
            expected.fill(mark);
            self.write(slots, &expected).context("write")?;
        }
        let pause = Duration::from_millis(self.random.u64(..HOLD_MS_MAX));
        // SLEEP: the lock is held meanwhile, and that nobody else gets it is what is tested.
        std::thread::sleep(pause);
        let found = self.read(slots).context("read again")?;
        let pairs = expected.iter().zip(&found);
        for (slot, (expected, found)) in slots.clone().zip(pairs) {
            if expected != found {
                bail!(
                    "slot {slot}, locked for {}, had the mark {}, and has {}",
                    if writes { "writing" } else { "reading" },
                    told(*expected),
                    told(*found),
                );
            }
        }
        Ok(())
    }

    fn read(&self, slots: &Range<u64>) -> Result<Vec<u64>> {
        let length = usize::try_from((slots.end - slots.start) * MARK_BYTES)?;
        let mut bytes = vec![0; length];
        self.file
            .read_exact_at(&mut bytes, slots.start * MARK_BYTES)?;
        let (marks, _) = bytes.as_chunks();
        Ok(marks.iter().map(|mark| u64::from_be_bytes(*mark)).collect())
    }

    fn write(&self, slots: &Range<u64>, marks: &[u64]) -> Result<()> {
        let bytes: Vec<u8> = marks.iter().flat_map(|mark| mark.to_be_bytes()).collect();
        self.file.write_all_at(&bytes, slots.start * MARK_BYTES)?;
        Ok(())
    }
}

/// A mark in words.
fn told(mark: u64) -> String {
    let count = mark & ((1 << COUNT_BITS) - 1);
    format!("{count} of {}", mark >> COUNT_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of the kind `kind`, in this process.
    fn program(file: &Path, plan: &Plan<'_>, within: impl FnOnce(&mut Program<'_>)) {
        let mut program = Program::new(file, plan).unwrap();
        within(&mut program);
    }

    #[test]
    fn a_foreign_mark_under_a_lock_is_seen() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("ranges");
        std::fs::write(&file, vec![0; LENGTH as usize]).unwrap();
        let plan = Plan {
            name: "one",
            owner: 1,
            kind: Kind::OpenFile,
            past_cache: false,
            gate: None,
            enough: scratch.path(),
            seed: 1,
        };
        program(&file, &plan, |one| {
            assert!(one.try_lock(&(3..9), true).unwrap());
            program(&file, &plan, |other| {
                assert!(!other.try_lock(&(8..10), true).unwrap());
                assert!(other.try_lock(&(9..10), true).unwrap());
            });
            one.hold(&(3..9), true).unwrap();
            // Somebody writes who has no lock, until it is seen.
            let path = file.clone();
            std::thread::scope(|scope| {
                let writer = scope.spawn(move || {
                    let other = OpenOptions::new().write(true).open(path).unwrap();
                    for _ in 0..1_000_000 {
                        other.write_all_at(&[0xff; 8], 4 * MARK_BYTES).unwrap();
                    }
                });
                let mut outcome = Ok(());
                while outcome.is_ok() && !writer.is_finished() {
                    outcome = one.hold(&(3..9), true);
                }
                let error = outcome.unwrap_err().to_string();
                assert!(error.contains("slot 4, locked for writing"), "{error}");
            });
        });
    }
}
