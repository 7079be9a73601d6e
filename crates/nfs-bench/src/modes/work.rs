//! The workloads of the mode comparison: what moves, in what pieces, in what order.

use clap::ValueEnum;
use fastrand::Rng;
use serde::Serialize;

/// A workload of the mode comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// The whole file from its beginning, an application's reads of 1 MiB.
    #[value(name = "seq-read-1m")]
    SeqRead1m,
    /// The same in reads of 128 KiB, as programs make them that copy or checksum.
    #[value(name = "seq-read-128k")]
    SeqRead128k,
    /// The same in reads of 3 MiB, which travel as READs of the size the server takes.
    #[value(name = "seq-read-3m")]
    SeqRead3m,
    /// A new file in WRITEs of 1 MiB, UNSTABLE, and the COMMIT that makes it stable.
    #[value(name = "seq-write-1m")]
    SeqWrite1m,
    /// READs of 4 KiB at random places.
    #[value(name = "rand-read-4k")]
    RandRead4k,
    /// A new file in records that are aligned to nothing, and COMMIT.
    #[value(name = "write-47008")]
    Write47008,
    /// The same in records of 48 KiB, which are: the limit for those that are not.
    #[value(name = "write-48k")]
    Write48k,
    /// The whole file in records that are aligned to nothing.
    #[value(name = "read-47008")]
    Read47008,
    /// A new file in WRITEs of 64 KiB, UNSTABLE, and the COMMIT: what the comparison of orders measures.
    #[value(name = "write-64k")]
    Write64k,
    /// Lines of 200 bytes at the end of a new file, UNSTABLE, and the COMMIT: a log.
    #[value(name = "append-200")]
    Append200,
    /// FILE_SYNC WRITEs of 8 KiB at random places of a file that is there: a database.
    #[value(name = "sync-write-8k")]
    SyncWrite8k,
}

/// The direction in which a workload's bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the server to the client.
    Read,
    /// From the client to the server.
    Write,
}

impl Work {
    /// Every workload of the mode comparison, in the order of the report.
    pub const ALL: [Self; 8] = [
        Self::SeqRead1m,
        Self::SeqRead128k,
        Self::SeqRead3m,
        Self::SeqWrite1m,
        Self::RandRead4k,
        Self::Write47008,
        Self::Write48k,
        Self::Read47008,
    ];

    /// The workload's name on the command line and in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::SeqRead1m => "seq-read-1m",
            Self::SeqRead128k => "seq-read-128k",
            Self::SeqRead3m => "seq-read-3m",
            Self::SeqWrite1m => "seq-write-1m",
            Self::RandRead4k => "rand-read-4k",
            Self::Write47008 => "write-47008",
            Self::Write48k => "write-48k",
            Self::Read47008 => "read-47008",
            Self::Write64k => "write-64k",
            Self::Append200 => "append-200",
            Self::SyncWrite8k => "sync-write-8k",
        }
    }

    /// The direction in which the workload's bytes go.
    pub fn direction(self) -> Direction {
        match self {
            Self::SeqWrite1m
            | Self::Write47008
            | Self::Write48k
            | Self::Write64k
            | Self::Append200
            | Self::SyncWrite8k => Direction::Write,
            Self::SeqRead1m
            | Self::SeqRead128k
            | Self::SeqRead3m
            | Self::RandRead4k
            | Self::Read47008 => Direction::Read,
        }
    }

    /// Length in bytes of one call of the application.
    pub fn call_bytes(self) -> u32 {
        match self {
            Self::SeqRead1m | Self::SeqWrite1m => 1 << 20,
            Self::SeqRead128k => 128 << 10,
            Self::SeqRead3m => 3 << 20,
            Self::RandRead4k => 4096,
            Self::Write48k => 48 << 10,
            Self::Write47008 | Self::Read47008 => 47_008,
            Self::Write64k => 64 << 10,
            Self::Append200 => 200,
            Self::SyncWrite8k => 8 << 10,
        }
    }

    /// Whether the workload's calls go to random places of the file.
    pub fn is_random(self) -> bool {
        matches!(self, Self::RandRead4k | Self::SyncWrite8k)
    }

    /// Whether the workload's WRITEs are on stable storage when they are answered, so that no COMMIT follows.
    pub fn is_stable(self) -> bool {
        self == Self::SyncWrite8k
    }

    /// Whether the workload makes the file that it moves; otherwise that is there before.
    pub fn makes_file(self) -> bool {
        self.direction() == Direction::Write && !self.is_random()
    }

    /// Whether an application's direct I/O can do the same: offsets and lengths are multiples of a block.
    pub fn is_aligned(self) -> bool {
        self.call_bytes().is_multiple_of(4096)
    }
}

/// The offsets of a workload's calls, one after another.
#[derive(Clone, Debug)]
pub struct Places {
    call_bytes: u64,
    calls_in_file: u64,
    next: u64,
    /// From one of the calls to the next one: more than 1 where clients take turns.
    step: u64,
    random: Option<Rng>,
    shuffled: Option<Shuffled>,
}

/// Calls that go out in a random order, as many at a time as there are senders.
#[derive(Clone, Debug)]
struct Shuffled {
    together: u64,
    random: Rng,
    /// The calls of those that go out together that are left, the next one last.
    left: Vec<u64>,
}

impl Places {
    /// Makes the offsets of calls of `call_bytes` in a file of `file_bytes`: random ones without end with a
    /// `seed`, otherwise each once from the beginning. A last piece that is shorter than a call is left out.
    pub fn new(call_bytes: u32, file_bytes: u64, seed: Option<u64>) -> Self {
        let call_bytes = u64::from(call_bytes);
        Self {
            call_bytes,
            calls_in_file: file_bytes / call_bytes,
            next: 0,
            step: 1,
            random: seed.map(Rng::with_seed),
            shuffled: None,
        }
    }

    /// Those of the calls that are the client's who is the `client`th, from 0 on, of `clients` that take turns call by
    /// call: the interleaved segments of IOR's "hard" pattern. Of no meaning for random places.
    pub fn of_client(self, client: u64, clients: u64) -> Self {
        Self {
            next: client,
            step: clients,
            ..self
        }
    }

    /// The same calls from the beginning, each `together` of them that follow each other in a random order;
    /// with 1 as they are.
    pub fn shuffled(self, together: u64, seed: u64) -> Self {
        let shuffled = (together > 1).then(|| Shuffled {
            together,
            random: Rng::with_seed(seed),
            left: Vec::new(),
        });
        Self { shuffled, ..self }
    }

    /// The number of the next call from the beginning, in order or not.
    fn next_in_turn(&mut self) -> Option<u64> {
        let Some(shuffled) = &mut self.shuffled else {
            let index = self.next;
            self.next += self.step;
            return (index < self.calls_in_file).then_some(index);
        };
        if shuffled.left.is_empty() {
            let end = self.calls_in_file.min(self.next + shuffled.together);
            shuffled.left = (self.next..end).collect();
            shuffled.random.shuffle(&mut shuffled.left);
            self.next = end;
        }
        shuffled.left.pop()
    }
}

impl Iterator for Places {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.calls_in_file == 0 {
            return None;
        }
        let index = match &mut self.random {
            None => self.next_in_turn()?,
            Some(random) => random.u64(..self.calls_in_file),
        };
        Some(index * self.call_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for work in Work::ALL {
            assert_eq!(Work::from_str(work.name(), false), Ok(work));
        }
    }

    #[test]
    fn a_sequence_covers_the_file_once() {
        let places: Vec<u64> = Places::new(1000, 3999, None).collect();
        assert_eq!(places, [0, 1000, 2000]);
        assert_eq!(Places::new(1000, 999, None).next(), None);
        assert_eq!(Places::new(1000, 999, Some(1)).next(), None);
    }

    #[test]
    fn clients_that_take_turns_cover_the_file_once() {
        for clients in [1, 2, 4, 7] {
            let of = |client| Places::new(10, 105, None).of_client(client, clients);
            let mut all: Vec<u64> = (0..clients).flat_map(of).collect();
            assert_eq!(of(0).next(), Some(0));
            assert_eq!(of(clients - 1).next(), Some((clients - 1) * 10));
            all.sort_unstable();
            let expected: Vec<u64> = (0..10).map(|call| call * 10).collect();
            assert_eq!(all, expected, "{clients}");
        }
    }

    #[test]
    fn shuffled_calls_go_out_once_each_and_not_before_those_in_front_of_their_group() {
        for together in [1, 2, 4, 20, 64] {
            let places = Places::new(10, 1005, None).shuffled(together, 7);
            let places: Vec<u64> = places.map(|place| place / 10).collect();
            let mut sorted = places.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..100).collect::<Vec<u64>>(), "each once");
            let group = |at: usize| at as u64 / together;
            let strayed = |(at, place): (usize, &u64)| place / together != group(at);
            assert!(!places.iter().enumerate().any(strayed), "{together}");
            assert_eq!(places == sorted, together == 1, "{together}");
        }
    }

    #[test]
    fn random_places_are_in_the_file_and_everywhere() {
        let mut seen = [false; 8];
        for place in Places::new(4096, 8 * 4096 + 5, Some(42)).take(1000) {
            assert_eq!(place % 4096, 0);
            seen[usize::try_from(place / 4096).unwrap()] = true;
        }
        assert_eq!(seen, [true; 8]);
    }
}
