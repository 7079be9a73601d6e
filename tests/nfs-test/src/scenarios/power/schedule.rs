//! What each round does, and in which I/O mode: drawn from the seed, but for what may not be missing.

use fastrand::Rng;
use nfs_wire::nfs3::StableHow;

use super::worker::Act;
use crate::host::{IoSetting, Mode};

/// The calls that are made in one round.
#[derive(Debug, Clone, Copy)]
pub(super) enum Plan {
    /// A few calls of one kind, one after the other, nothing else.
    Row(Act),
    /// Calls that change names, from all sequences at once.
    Names,
    /// Calls of every kind, from all sequences at once.
    Mixed,
}

/// Rows with the least that the server makes of every WRITE: an UNSTABLE one has to survive.
const FLOORS: &[(Act, Mode, StableHow)] = &[
    (Act::WriteUnstable, Mode::Direct, StableHow::DataSync),
    (Act::WriteUnstable, Mode::Direct, StableHow::FileSync),
    (Act::WriteUnstable, Mode::Buffered, StableHow::FileSync),
    (Act::WriteUnstable, Mode::DontCache, StableHow::DataSync),
    (Act::OverwriteDataSync, Mode::Direct, StableHow::FileSync),
];

/// The rounds of a run. With `rows` (the power is cut, not the server killed) each row of the durability
/// table comes first, the rows of data in each mode, unless the run is too short for all of them.
pub(super) fn schedule(count: u32, rows: bool, random: &mut Rng) -> Vec<(Plan, IoSetting)> {
    let mut deck = Deck::default();
    let mut rounds = Vec::new();
    if rows && count as usize >= all_rows(&mut deck, random).len() {
        rounds = all_rows(&mut deck, random);
    }
    let data = |random: &mut Rng| Act::DATA[random.usize(..Act::DATA.len())];
    for round in rounds.len()..count as usize {
        let plan = match round % 4 {
            1 => Plan::Names,
            3 if rows => Plan::Row(data(random)),
            _ => Plan::Mixed,
        };
        rounds.push((plan, deck.draw(random)));
    }
    rounds
}

fn all_rows(deck: &mut Deck, random: &mut Rng) -> Vec<(Plan, IoSetting)> {
    let mut rows = Vec::new();
    for act in Act::DATA.iter().filter(|act| **act != Act::Read) {
        for mode in Mode::ALL {
            let setting = IoSetting {
                reserve: random.bool(),
                order: random.bool(),
                ..IoSetting::all(mode)
            };
            rows.push((Plan::Row(*act), setting));
        }
        rows.push((Plan::Row(*act), IoSetting::staged()));
    }
    for (act, write, floor) in FLOORS {
        let setting = IoSetting {
            floor: *floor,
            ..IoSetting::all(*write)
        };
        rows.push((Plan::Row(*act), setting));
    }
    for act in Act::OTHER {
        rows.push((Plan::Row(*act), deck.draw(random)));
    }
    rows
}

/// Settings in a random order, each mode of WRITE as often as any other.
#[derive(Default)]
struct Deck(Vec<Mode>);

impl Deck {
    fn draw(&mut self, random: &mut Rng) -> IoSetting {
        if self.0.is_empty() {
            self.0 = Mode::WORDS.to_vec();
        }
        let write = self.0.swap_remove(random.usize(..self.0.len()));
        let read = Mode::WORDS[random.usize(..Mode::WORDS.len())];
        let floor = match random.u64(..8) {
            0 => StableHow::DataSync,
            1 => StableHow::FileSync,
            _ => StableHow::Unstable,
        };
        // Small and large WRITEs to one file go different ways in half of the rounds.
        let small = Mode::ALL.get(random.usize(..2 * Mode::ALL.len())).copied();
        IoSetting {
            read,
            write,
            floor,
            small,
            reserve: random.bool(),
            order: random.bool(),
            // In two of three rounds in which it does something.
            staging: matches!(write, Mode::Direct | Mode::Auto) && random.u64(..3) > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the rounds in each mode of WRITE.
    fn of_each(rounds: &[(Plan, IoSetting)]) -> Vec<usize> {
        let of = |mode| rounds.iter().filter(|(_, io)| io.write == mode).count();
        Mode::WORDS.into_iter().map(of).collect()
    }

    #[test]
    fn each_mode_gets_its_share_of_a_run_of_any_length() {
        for seed in 0..50 {
            for count in [3, 5, 8, 25, 70, 90, 300] {
                for rows in [true, false] {
                    let rounds = schedule(count, rows, &mut Rng::with_seed(seed));
                    assert_eq!(rounds.len(), count as usize);
                    let of = of_each(&rounds);
                    // The rows that come first have a mode of their own, which is never `auto`.
                    let of = if rows { &of[..Mode::ALL.len()] } else { &of };
                    let least = count as usize / 5;
                    assert!(of.iter().all(|of| *of >= least), "{count}");
                }
            }
        }
    }
}
