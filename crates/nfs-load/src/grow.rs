//! A file that is written and read at the same time: in turn, a thread writes its next record and reads one of those
//! that it has written.

use std::collections::BTreeSet;

use fastrand::Rng;

/// How far one thread is with its records. They begin in the order of their numbers, and end as they like; as many are
/// on the way as there are calls in flight.
#[derive(Debug, Default)]
pub(crate) struct Grown {
    on_the_way: BTreeSet<u64>,
    begun: u64,
}

/// What a call of a growing file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It writes the record of this number.
    Write(u64),
    /// It reads the record of this number.
    Read(u64),
    /// There is no record yet that could be read.
    Nothing,
}

impl Grown {
    /// What the call with this number does. A record that is to be written counts as begun.
    pub(crate) fn turn(&mut self, number: u64) -> Turn {
        let record = number / 2;
        if number.is_multiple_of(2) {
            self.on_the_way.insert(record);
            self.begun = self.begun.max(record + 1);
            return Turn::Write(record);
        }
        match self.on_the_way.first().copied().unwrap_or(self.begun) {
            0 => Turn::Nothing,
            written => {
                let mut rng = Rng::with_seed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                Turn::Read(rng.u64(..written))
            }
        }
    }

    /// This record was written.
    pub(crate) fn written(&mut self, record: u64) {
        self.on_the_way.remove(&record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_that_was_not_written() {
        let mut grown = Grown::default();
        assert_eq!(grown.turn(0), Turn::Write(0));
        assert_eq!(grown.turn(1), Turn::Nothing);
        assert_eq!(grown.turn(2), Turn::Write(1));
        // The second is done before the first, and what is behind a gap is not read.
        grown.written(1);
        assert_eq!(grown.turn(3), Turn::Nothing);
        grown.written(0);
        assert!(matches!(grown.turn(3), Turn::Read(0 | 1)));
    }

    #[test]
    fn any_record_is_read_and_the_same_ones_again() {
        let run = || {
            let mut grown = Grown::default();
            let mut read = Vec::new();
            for number in 0..2000 {
                match grown.turn(number) {
                    Turn::Write(record) => grown.written(record),
                    Turn::Read(record) => read.push(record),
                    Turn::Nothing => panic!("{number}"),
                }
            }
            read
        };
        let read = run();
        assert_eq!(read, run());
        assert!(
            read.iter()
                .zip(1..)
                .all(|(record, written)| *record < written)
        );
        let different: BTreeSet<_> = read.iter().collect();
        assert!(different.len() > 400, "{}", different.len());
    }
}
