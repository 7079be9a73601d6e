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

impl Plan {
    /// Whether WRITEs are among the calls, in whatever mode the export has.
    pub(super) fn writes(self) -> bool {
        match self {
            Self::Row(act) => act.writes(),
            Self::Names => false,
            Self::Mixed => true,
        }
    }
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
/// table comes first, the rows of data in each mode, unless the run is too short for all of them: then the first row is
/// of records whose ends are staged, which all others may miss.
pub(super) fn schedule(count: u32, rows: bool, random: &mut Rng) -> Vec<(Plan, IoSetting)> {
    let mut rounds = Vec::new();
    // A mode whose share of the rounds has no WRITE in it would not be tested.
    let (mut deck, mut of_names) = (Deck::default(), Deck::default());
    if rows {
        rounds = all_rows(random);
        if rounds.len() > count as usize {
            rounds = vec![(Plan::Row(Act::RecordsThenCommit), IoSetting::staged())];
            rounds.truncate(count as usize);
            deck = Deck::without(Mode::Direct);
        }
    }
    for round in rounds.len()..count as usize {
        let plan = match round % 4 {
            1 => Plan::Names,
            3 if rows => Plan::Row(writing(random)),
            _ => Plan::Mixed,
        };
        let deck = if plan.writes() {
            &mut deck
        } else {
            &mut of_names
        };
        rounds.push((plan, deck.draw(random)));
    }
    rounds
}

fn writing(random: &mut Rng) -> Act {
    let acts: Vec<Act> = rows_of_data().collect();
    acts[random.usize(..acts.len())]
}

/// The acts that are a row of the durability table by themselves and move bytes.
fn rows_of_data() -> impl Iterator<Item = Act> {
    Act::DATA.iter().copied().filter(|act| act.writes())
}

fn all_rows(random: &mut Rng) -> Vec<(Plan, IoSetting)> {
    let mut rows = Vec::new();
    for act in rows_of_data() {
        for mode in Mode::ALL {
            let setting = IoSetting {
                reserve: random.bool(),
                order: random.bool(),
                ..IoSetting::all(mode)
            };
            rows.push((Plan::Row(act), setting));
        }
        rows.push((Plan::Row(act), IoSetting::staged()));
    }
    for (act, write, floor) in FLOORS {
        let setting = IoSetting {
            floor: *floor,
            ..IoSetting::all(*write)
        };
        rows.push((Plan::Row(*act), setting));
    }
    let mut deck = Deck::default();
    for act in Act::OTHER {
        rows.push((Plan::Row(*act), deck.draw(random)));
    }
    rows
}

/// Settings in a random order, each mode of WRITE as often as any other.
#[derive(Default)]
struct Deck(Vec<Mode>);

impl Deck {
    /// One of which a setting of this mode was drawn already.
    fn without(mode: Mode) -> Self {
        Self(Mode::WORDS.into_iter().filter(|it| *it != mode).collect())
    }

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
            splice: false,
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
    fn of_each<'a>(rounds: impl Iterator<Item = &'a (Plan, IoSetting)> + Clone) -> Vec<usize> {
        let of = |mode| rounds.clone().filter(|(_, io)| io.write == mode).count();
        Mode::WORDS.into_iter().map(of).collect()
    }

    #[test]
    fn each_mode_gets_its_share_of_a_run_of_any_length() {
        for seed in 0..50 {
            for count in [3, 5, 8, 25, 70, 90, 300] {
                for rows in [true, false] {
                    let rounds = schedule(count, rows, &mut Rng::with_seed(seed));
                    assert_eq!(rounds.len(), count as usize);
                    let of = of_each(rounds.iter());
                    // The rows that come first have a mode of their own, which is never `auto`.
                    let of = if rows { &of[..Mode::ALL.len()] } else { &of };
                    let least = count as usize / 5;
                    assert!(of.iter().all(|of| *of >= least), "{count}");
                }
            }
        }
    }

    #[test]
    fn each_mode_writes_in_the_short_form_and_some_ends_are_staged() {
        for seed in 0..200 {
            for (count, least) in [(8, 1), (16, 2), (70, 9)] {
                let rounds = schedule(count, true, &mut Rng::with_seed(seed));
                let writing = rounds.iter().filter(|(plan, _)| plan.writes());
                let of = of_each(writing);
                let of = if count == 70 { &of[..3] } else { &of };
                assert!(of.iter().all(|of| *of >= least), "{count}: {of:?}");
            }
            for count in 1..80 {
                let rounds = schedule(count, true, &mut Rng::with_seed(seed));
                let stages = |(plan, io): &(Plan, IoSetting)| {
                    matches!(plan, Plan::Row(Act::RecordsThenCommit)) && io.staging
                };
                assert!(rounds.iter().any(stages), "{count}");
            }
        }
    }
}
