//! A file, many senders and [`Staging`] between them, by seed: writes of any offset, length and stability, reads,
//! commits, truncations, time limits, transfers that fail half-way, calls that are given up, and crashes, in any
//! order. Beside it a model knows for each byte which values it may have.
//!
//! The rule of the model: a reader finds the bytes of a write unless one that began after that write was
//! answered has been answered too. After a commit the file itself has these bytes; after a crash, these or any
//! since the last commit.

use super::*;

const BLOCK: usize = 16;
const FILE: usize = BLOCK * 8;
const ALL: Range<u64> = 0..u64::MAX;
const STEPS: u64 = 1_200_000;

/// Numbers that a seed determines (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// A value that a byte may have, and when the write that it is of began and was answered.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    value: u8,
    began: u64,
    answered: Option<u64>,
}

struct Model {
    bytes: Vec<Vec<Candidate>>,
    /// For each byte all values since the last commit.
    since_commit: Vec<Vec<u8>>,
    /// The file ends here at least, and at most.
    end: (usize, usize),
    /// When the file was cut last: of a write that was under way then, any part may be gone.
    cut: u64,
}

impl Model {
    fn begin(&mut self, range: Range<usize>, value: u8, began: u64) {
        for at in range {
            self.bytes[at].push(Candidate {
                value,
                began,
                answered: None,
            });
            if !self.since_commit[at].contains(&value) {
                self.since_commit[at].push(value);
            }
        }
    }

    /// A write is answered: with success it replaces what was answered before it began.
    fn answer(&mut self, range: Range<usize>, value: u8, began: u64, now: u64, success: bool) {
        if success && began > self.cut {
            self.end.0 = self.end.0.max(range.end);
        }
        for at in range {
            let byte = &mut self.bytes[at];
            if success {
                byte.retain(|one| one.answered.is_none_or(|answered| answered > began));
            }
            for one in byte.iter_mut() {
                if (one.value, one.began) == (value, began) {
                    one.answered = Some(now);
                }
            }
        }
    }

    fn may_be(&self, at: usize, value: u8) -> bool {
        self.bytes[at].iter().any(|one| one.value == value)
    }
}

#[derive(Clone, Debug)]
enum Call {
    /// A write; `plain` ones go past the staging.
    Write {
        range: Range<usize>,
        plain: bool,
    },
    Read(Range<usize>),
    Commit,
    Truncate(usize),
}

/// A call that is not answered yet.
#[derive(Debug)]
struct Waiting {
    call: Call,
    began: u64,
    value: u8,
    /// It has taken out what it asks for; it waits for what was under way before this moment.
    moment: Option<u64>,
    paused: bool,
}

/// A transfer that the kernel works on.
enum Transfer {
    /// The run of a staged write.
    Run {
        placed: Placed<Vec<u8>, u8>,
        range: Range<usize>,
        value: u8,
        began: u64,
        bytes: Vec<u8>,
        given_up: bool,
    },
    /// A write past the staging.
    Plain {
        range: Range<usize>,
        value: u8,
        began: u64,
    },
    Flush(Taken<Vec<u8>, u8>),
}

struct World {
    random: Random,
    staging: Staging<Vec<u8>, u8>,
    file: [u8; FILE],
    size: usize,
    now: u64,
    waiting: Vec<Waiting>,
    transfers: Vec<Transfer>,
    model: Model,
    seen: Seen,
}

/// What happened: a simulation in which something never does shows nothing of it.
#[derive(Default, Debug)]
struct Seen {
    joined: u64,
    held: u64,
    flushed: u64,
    under_way: u64,
    covers: u64,
    failed: u64,
    given_up: u64,
    commits: u64,
    truncations: u64,
    crashes: u64,
    reads: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let zero = Candidate {
            value: 0,
            began: 0,
            answered: Some(0),
        };
        Self {
            random: Random(seed),
            staging: Staging::new(BLOCK),
            file: [0; FILE],
            size: 0,
            now: 1,
            waiting: Vec::new(),
            transfers: Vec::new(),
            model: Model {
                bytes: vec![vec![zero]; FILE],
                since_commit: vec![vec![0]; FILE],
                end: (0, 0),
                cut: 0,
            },
            seen: Seen::default(),
        }
    }

    fn step(&mut self) {
        self.now += 1;
        match self.random.below(20) {
            0..=6 if self.waiting.len() + self.transfers.len() < 12 => self.call(),
            0..=11 => self.go_on(),
            12..=17 => self.transfer(),
            18 => self.time_limit(),
            _ if self.random.one_in(30) => self.crash(),
            _ => {}
        }
        self.check_size();
    }

    fn call(&mut self) {
        let at = self.random.below(FILE as u64 - 1) as usize;
        // Records that meet, mostly.
        let record = 3 * BLOCK - 5;
        let range = if self.random.one_in(2) {
            let start = at / record * record;
            start..(start + record).min(FILE)
        } else {
            let len = 1 + self.random.below((FILE - at) as u64) as usize;
            at..at + len.min(4 * BLOCK)
        };
        let call = match self.random.below(24) {
            0 => Call::Commit,
            1 => Call::Truncate(at),
            2..=4 => Call::Read(range),
            5..=6 => Call::Write { range, plain: true },
            _ => Call::Write {
                range,
                plain: false,
            },
        };
        let value = (self.now % 251) as u8 + 1;
        if let Call::Write { range, .. } = &call {
            self.model.begin(range.clone(), value, self.now);
            self.model.end.1 = self.model.end.1.max(range.end);
        }
        self.waiting.push(Waiting {
            call,
            began: self.now,
            value,
            moment: None,
            paused: false,
        });
    }

    fn pick<T>(random: &mut Random, of: &mut Vec<T>) -> Option<T> {
        let len = of.len() as u64;
        (len > 0).then(|| of.swap_remove(random.below(len) as usize))
    }

    /// One of the calls that wait is tried.
    fn go_on(&mut self) {
        let Some(waiting) = Self::pick(&mut self.random, &mut self.waiting) else {
            return;
        };
        let not_yet = match waiting.call.clone() {
            Call::Write { range, plain } => self.write(waiting, range, plain),
            Call::Read(range) => self.read(waiting, &range),
            Call::Commit => self.commit(waiting),
            Call::Truncate(size) => self.truncate(waiting, size),
        };
        self.waiting.extend(not_yet);
    }

    /// Takes out what is held of `range` from before the call first asked; says whether all of that is done.
    fn flushed(&mut self, waiting: &mut Waiting, range: &Range<u64>) -> bool {
        let moment = *waiting.moment.get_or_insert(self.staging.moment());
        let taken = self.staging.take(range, Which::Before(moment));
        self.transfers.extend(taken.map(Transfer::Flush));
        !self.staging.is_under_way(range, moment)
    }

    fn write(
        &mut self,
        mut waiting: Waiting,
        range: Range<usize>,
        mut plain: bool,
    ) -> Option<Waiting> {
        let (value, began) = (waiting.value, waiting.began);
        let asked = range.start as u64..range.end as u64;
        if !plain {
            let data = vec![value; range.len()];
            let memory = || (value % 16 != 0).then(|| vec![0xDB; BLOCK]);
            let written = self
                .staging
                .write(asked.start, &data, &value, self.now, memory);
            match written {
                Ok(placed) => {
                    self.place(placed, range, value, began);
                    return None;
                }
                Err(Obstacle::UnderWay) => {
                    self.seen.under_way += 1;
                    return Some(waiting);
                }
                Err(Obstacle::Covers) => {
                    self.seen.covers += 1;
                    let middle = asked.start.next_multiple_of(BLOCK as u64)
                        ..asked.end / BLOCK as u64 * BLOCK as u64;
                    if self.flushed(&mut waiting, &middle) {
                        waiting.moment = None;
                    }
                    return Some(waiting);
                }
                Err(Obstacle::NoMiddle | Obstacle::Paused) => plain = true,
            }
        }
        if !self.flushed(&mut waiting, &asked) {
            waiting.call = Call::Write { range, plain };
            return Some(waiting);
        }
        self.transfers.push(Transfer::Plain {
            range,
            value,
            began,
        });
        None
    }

    fn place(&mut self, placed: Placed<Vec<u8>, u8>, range: Range<usize>, value: u8, began: u64) {
        let asked = range.start as u64..range.end as u64;
        let (front, back) = placed.of_others(&asked);
        let own = asked.start.max(placed.run.start)..asked.end.min(placed.run.end);
        let own = vec![value; (own.end - own.start) as usize];
        let bytes = [front, &own, back].concat();
        assert_eq!(bytes.len() as u64, placed.run.end - placed.run.start);
        self.seen.joined += placed.taken.len() as u64;
        let ends = [placed.head, placed.tail];
        self.seen.held += ends.iter().filter(|end| **end == End::Held).count() as u64;
        let given_up = self.random.one_in(40);
        self.transfers.push(Transfer::Run {
            placed,
            range,
            value,
            began,
            bytes,
            given_up,
        });
    }

    fn read(&mut self, mut waiting: Waiting, range: &Range<usize>) -> Option<Waiting> {
        let asked = range.start as u64..range.end as u64;
        if !self.flushed(&mut waiting, &asked) {
            return Some(waiting);
        }
        self.seen.reads += 1;
        // What came meanwhile need not be seen, and may be.
        for at in range.clone() {
            let value = self.file[at];
            let held_meanwhile = self.staging.holds(&(at as u64..at as u64 + 1))
                || self
                    .staging
                    .is_under_way(&(at as u64..at as u64 + 1), u64::MAX);
            assert!(
                self.model.may_be(at, value) || held_meanwhile,
                "byte {at} is {value}, and may be {:?}",
                self.model.bytes[at]
            );
        }
        None
    }

    fn commit(&mut self, mut waiting: Waiting) -> Option<Waiting> {
        if !self.flushed(&mut waiting, &ALL) {
            return Some(waiting);
        }
        self.seen.commits += 1;
        for at in 0..FILE {
            let value = self.file[at];
            let byte = &self.model.bytes[at];
            // Answered before the commit began, and nothing answered since in its place: it must be there.
            let newer = |one: &Candidate| one.answered.is_none_or(|at| at > waiting.began);
            let quiet = !byte.iter().any(newer);
            if quiet {
                assert!(self.model.may_be(at, value), "{at}: {value}, {byte:?}");
                self.model.since_commit[at] = byte.iter().map(|one| one.value).collect();
            }
        }
        None
    }

    fn truncate(&mut self, mut waiting: Waiting, size: usize) -> Option<Waiting> {
        if !waiting.paused {
            self.staging.pause();
            waiting.paused = true;
        }
        if !self.flushed(&mut waiting, &ALL) {
            return Some(waiting);
        }
        assert_eq!(self.staging.blocks(), 0);
        self.seen.truncations += 1;
        self.size = size;
        self.file[size..].fill(0);
        self.model.begin(size..FILE, 0, self.now);
        self.model.answer(size..FILE, 0, self.now, self.now, true);
        self.model.end.0 = size;
        self.model.cut = self.now;
        let mut ends = vec![size];
        for one in &self.waiting {
            if let Call::Write { range, .. } = &one.call {
                ends.push(range.end);
            }
        }
        for one in &self.transfers {
            match one {
                Transfer::Run { range, .. } | Transfer::Plain { range, .. } => {
                    ends.push(range.end);
                }
                Transfer::Flush(_) => {}
            }
        }
        self.model.end.1 = ends.into_iter().max().unwrap_or(size);
        self.staging.resume();
        None
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.file[at..at + bytes.len()].copy_from_slice(bytes);
        if !bytes.is_empty() {
            self.size = self.size.max(at + bytes.len());
        }
    }

    /// One of the transfers ends, or fails half-way.
    fn transfer(&mut self) {
        let Some(transfer) = Self::pick(&mut self.random, &mut self.transfers) else {
            return;
        };
        let fails = self.random.one_in(12);
        match transfer {
            Transfer::Flush(mut taken) => {
                self.seen.flushed += taken.len() as u64;
                let mut puts = Vec::new();
                for (start, block) in taken.blocks_mut() {
                    let bytes = block.memory_mut().clone();
                    for (range, _) in block.parts() {
                        puts.push((start as usize + range.start, bytes[range].to_vec()));
                    }
                }
                if fails {
                    // No thread was to be had: nothing was written, or some of it.
                    puts.truncate(1);
                }
                for (at, bytes) in puts {
                    self.put(at, &bytes);
                }
                if fails {
                    self.staging.restore(taken);
                } else {
                    self.staging.done(taken);
                }
            }
            Transfer::Plain {
                range,
                value,
                began,
            } => {
                let len = range.len();
                self.put(range.start, &vec![value; len]);
                self.model.answer(range, value, began, self.now, true);
            }
            Transfer::Run {
                placed,
                range,
                value,
                began,
                bytes,
                given_up,
            } => self.run(placed, range, (value, began), &bytes, (given_up, fails)),
        }
    }

    fn run(
        &mut self,
        placed: Placed<Vec<u8>, u8>,
        range: Range<usize>,
        (value, began): (u8, u64),
        bytes: &[u8],
        (given_up, fails): (bool, bool),
    ) {
        let end = range.end as u64;
        let written = if fails {
            self.random.below(bytes.len() as u64) as usize
        } else {
            bytes.len()
        };
        self.put(placed.run.start as usize, &bytes[..written]);
        // What could not be held is written behind the run.
        if !fails {
            for (end, part) in [
                (placed.head, range.start..placed.run.start as usize),
                (placed.tail, placed.run.end as usize..range.end),
            ] {
                if end == End::Refused {
                    let len = part.len();
                    self.put(part.start, &vec![value; len]);
                }
            }
        }
        let number = placed.number;
        if given_up || fails {
            // Nobody knows how far it came: what it took along is held again.
            self.staging.restore(placed.taken);
        } else {
            self.staging.done(placed.taken);
        }
        if fails {
            self.seen.failed += 1;
            self.staging.retract(number, &(range.start as u64..end));
            self.model.answer(range, value, began, self.now, false);
        } else if given_up {
            self.seen.given_up += 1;
            self.model.answer(range, value, began, self.now, false);
        } else {
            self.staging.accepted(end);
            self.model.answer(range, value, began, self.now, true);
        }
    }

    fn time_limit(&mut self) {
        let since_max = self.now.saturating_sub(40);
        let taken = self.staging.take(&ALL, Which::HeldSince(since_max));
        self.transfers.extend(taken.map(Transfer::Flush));
    }

    /// The server is killed: what is held and under way is gone, and nobody waits any more.
    fn crash(&mut self) {
        self.seen.crashes += 1;
        self.waiting.clear();
        self.transfers.clear();
        self.staging = Staging::new(BLOCK);
        for at in 0..FILE {
            let value = self.file[at];
            let known = &self.model.since_commit[at];
            assert!(
                self.model.may_be(at, value) || known.contains(&value),
                "byte {at} is {value} after a crash"
            );
            self.model.bytes[at] = vec![Candidate {
                value,
                began: 0,
                answered: Some(0),
            }];
            self.model.since_commit[at] = vec![value];
        }
        assert!(self.size <= self.model.end.1, "nobody wrote so far");
        self.model.end = (self.size, self.size);
    }

    fn check_size(&self) {
        let shown = self.size.max(self.staging.end().0 as usize);
        let (least, most) = self.model.end;
        assert!(
            least <= shown && shown <= most,
            "the file is shown to end at {shown}, not within {least}..={most}"
        );
        assert!(self.size <= most, "bytes beyond all that was written");
    }
}

fn simulate(seed: u64, steps: u64) -> Seen {
    let mut world = World::new(seed);
    for _ in 0..steps {
        world.step();
    }
    world.seen
}

/// `PENSTOCK_STAGING_STEPS` in the environment makes it longer: tens of millions take some minutes.
#[test]
fn whatever_comes_in_whatever_order_the_file_is_what_was_promised() {
    let steps = std::env::var("PENSTOCK_STAGING_STEPS").map_or(STEPS, |steps| {
        steps.parse().expect("PENSTOCK_STAGING_STEPS is a number")
    });
    for seed in 0..8 {
        let seen = simulate(seed, steps / 8);
        let all = [
            seen.joined,
            seen.held,
            seen.flushed,
            seen.under_way,
            seen.covers,
            seen.failed,
            seen.given_up,
            seen.commits,
            seen.truncations,
            seen.crashes,
            seen.reads,
        ];
        assert!(
            all.iter().all(|count| *count > 100),
            "seed {seed}: {seen:?}"
        );
    }
}
