//! Where the calls of a load go in a file, and in what order: pure functions of the call's number.

use fastrand::Rng;

/// The order in which the records of a file are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// From the first to the last, and then from the first again.
    Forward,
    /// Each call at a place of its own that the seed and its number give.
    Random(u64),
    /// Forward, but mixed up within each so many records.
    Shuffled(u64),
}

/// A file as records of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records {
    /// Bytes of one record.
    pub bytes: u32,
    /// How many whole records the file has.
    pub count: u64,
    /// The order in which they are moved.
    pub order: Order,
}

impl Records {
    /// A file of `file_bytes`, or as many of them as are whole records; at least one.
    #[must_use]
    pub fn new(bytes: u32, file_bytes: u64, order: Order) -> Self {
        let count = (file_bytes / u64::from(bytes.max(1))).max(1);
        Self {
            bytes: bytes.max(1),
            count,
            order,
        }
    }

    /// Bytes of all records.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.count * u64::from(self.bytes)
    }

    /// Where the call with this number goes.
    #[must_use]
    pub fn offset(&self, number: u64) -> u64 {
        let record = match self.order {
            Order::Forward => number % self.count,
            Order::Random(seed) => {
                Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..self.count)
            }
            Order::Shuffled(within) => shuffled(number, self.count, within.max(1)),
        };
        record * u64::from(self.bytes)
    }
}

fn shuffled(number: u64, count: u64, within: u64) -> u64 {
    let number = number % count;
    let first = number / within * within;
    let here = within.min(count - first);
    let mut places: Vec<u64> = (first..first + here).collect();
    Rng::with_seed(first).shuffle(&mut places);
    usize::try_from(number - first)
        .ok()
        .and_then(|at| places.get(at).copied())
        .unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_comes_once_a_pass() {
        for order in [Order::Forward, Order::Shuffled(64), Order::Shuffled(7)] {
            let records = Records::new(47_008, 10 << 20, order);
            let mut offsets: Vec<u64> = (0..records.count).map(|n| records.offset(n)).collect();
            let in_order: Vec<u64> = (0..records.count).map(|n| n * 47_008).collect();
            assert_eq!(offsets == in_order, order == Order::Forward);
            offsets.sort_unstable();
            assert_eq!(offsets, in_order, "{order:?}");
            assert_eq!(records.offset(records.count), records.offset(0));
        }
    }

    #[test]
    fn random_places_lie_in_the_file_and_come_again_with_the_seed() {
        let records = Records::new(4096, 1 << 20, Order::Random(7));
        let offsets: Vec<u64> = (0..1000).map(|n| records.offset(n)).collect();
        assert!(offsets.iter().all(|offset| offset + 4096 <= 1 << 20));
        assert_eq!(offsets[5], records.offset(5));
        let different: std::collections::HashSet<_> = offsets.iter().collect();
        assert!(different.len() > 200, "{}", different.len());
        let other = Records::new(4096, 1 << 20, Order::Random(8));
        assert!((0..20).any(|n| other.offset(n) != records.offset(n)));
    }

    #[test]
    fn a_file_shorter_than_a_record_has_one() {
        assert_eq!(Records::new(4096, 10, Order::Forward).count, 1);
    }
}
