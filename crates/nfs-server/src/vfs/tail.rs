//! Whether the rest of a file's last block is zeros on its disk, as far as WRITEs tell that are under way together.
//!
//! A WRITE that leaves a gap behind a file's end has to know that (`io/behind_end.rs`), and of many that are on their
//! way at once each may find such a gap, which the others fill. Once the rest of the last block is zeros on the disk,
//! WRITEs leave it so, since a file system gives a file that grows blocks without content. Only who makes the file
//! shorter puts an end to that. This server's own truncations are told here; those by programs of its host show in the
//! length, which is less than what a WRITE has reached that ended before. So nothing is known for longer than WRITEs
//! are under way without a pause, nor of a length that they do not account for.
//!
//! It belongs to the gate of a file, as two exports may hold one. WRITEs that begin and end with a block leave no such
//! rest, and are not counted.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::gate::Gate;

/// What is known of the rest of a file's last block.
#[derive(Default)]
pub(super) struct Tail(Mutex<State>);

#[derive(Default)]
struct State {
    /// WRITEs under way.
    running: u32,
    /// How often the file was truncated by this server.
    truncations: u64,
    zeros: Option<Zeros>,
    /// The rest of the last block was zeros on the disk once since the gate is there.
    was_zeros: bool,
}

/// The rest of the last block is zeros, whichever of these lengths the file has.
#[derive(Clone, Copy)]
struct Zeros {
    /// The file has been so long, or a WRITE that ended has made it so.
    least: u64,
    /// No WRITE that began reaches further.
    most: u64,
}

/// A WRITE that may leave the file's last block in part. It began before anybody looked at the file's length for it.
pub(super) struct Growing {
    gate: Arc<Gate>,
    truncations: u64,
    /// The least length that the file had when the WRITE began, if the rest of its last block was known.
    least: Option<u64>,
    done: Done,
}

/// How far a WRITE has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// The file is as it was.
    Nothing,
    /// Anything may have been written, or nothing.
    Unknown,
    /// Up to here it was written.
    To(u64),
}

impl Tail {
    /// The file was truncated.
    pub(super) fn truncated(&self) {
        let mut state = self.0.lock();
        state.truncations = state.truncations.wrapping_add(1);
        state.zeros = None;
    }

    /// Whether the rest of the last block was zeros on the disk once since the gate is there. If it is not so any more,
    /// who made the file shorter since has left the page with the zeros to be written back.
    pub(super) fn was_zeros(&self) -> bool {
        self.0.lock().was_zeros
    }

    /// The rest of the last block is zeros on the disk.
    pub(super) fn is_zeros_now(&self) {
        self.0.lock().was_zeros = true;
    }
}

impl Growing {
    /// A WRITE to the file of `gate` begins; its length is looked at after this.
    pub(super) fn begin(gate: &Arc<Gate>) -> Self {
        let mut state = gate.tail.0.lock();
        if state.running == 0 {
            state.zeros = None;
        }
        state.running += 1;
        Self {
            gate: Arc::clone(gate),
            truncations: state.truncations,
            least: state.zeros.map(|zeros| zeros.least),
            done: Done::Nothing,
        }
    }

    /// Whether the rest of the last block of the file, which has `size` bytes, is known to be zeros on its disk, so
    /// that the WRITE of `range`, which is about to be made, may leave a gap there.
    pub(super) fn is_zeros(&mut self, size: u64, range: &Range<u64>, block: u64) -> bool {
        self.done = Done::Unknown;
        let mut state = self.gate.tail.0.lock();
        let is_known = state.truncations == self.truncations
            // What nobody knew when this WRITE began was found out since.
            && state.zeros.is_some_and(|zeros| {
                (self.least.unwrap_or(zeros.least)..=zeros.most).contains(&size)
            });
        let is_whole = size.is_multiple_of(block);
        if !is_known && !is_whole {
            return false;
        }
        state.was_zeros |= is_whole;
        self.note(&mut state, size, range);
        true
    }

    /// The rest of the last block of the file, which had `size` bytes, was made zeros on its disk.
    pub(super) fn filled(&self, size: u64, range: &Range<u64>) {
        self.note(&mut self.gate.tail.0.lock(), size, range);
    }

    fn note(&self, state: &mut State, size: u64, range: &Range<u64>) {
        if state.truncations != self.truncations {
            return;
        }
        let zeros = state.zeros.get_or_insert(Zeros {
            least: size,
            most: size,
        });
        zeros.most = zeros.most.max(size).max(range.end);
    }

    /// The WRITE is done as far as this.
    pub(super) fn reached(mut self, end: u64) {
        self.done = Done::To(end);
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        let mut state = self.gate.tail.0.lock();
        state.running -= 1;
        match (&mut state.zeros, self.done) {
            (Some(zeros), Done::To(end)) => zeros.least = zeros.least.max(end),
            (_, Done::Unknown) => state.zeros = None,
            (None, Done::To(_)) | (_, Done::Nothing) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gate::Gates;
    use super::*;

    const BLOCK: u64 = 4096;
    const RECORD: u64 = 47_008;

    fn record(number: u64) -> Range<u64> {
        number * RECORD..(number + 1) * RECORD
    }

    #[test]
    fn records_that_come_in_any_order_leave_zeros() {
        let gates = Gates::default();
        let gate = gates.of((1, 1));
        let mut first = Growing::begin(&gate);
        assert!(first.is_zeros(0, &record(7), BLOCK), "it has no last block");
        assert!(gate.tail.was_zeros());
        let mut second = Growing::begin(&gate);
        first.reached(record(7).end);
        // Looked at after the first one ended, and before it.
        let mut third = Growing::begin(&gate);
        assert!(third.is_zeros(record(7).end, &record(9), BLOCK));
        assert!(second.is_zeros(record(7).end, &record(8), BLOCK));
        third.reached(record(9).end);
        let mut fourth = Growing::begin(&gate);
        assert!(fourth.is_zeros(record(9).end, &record(11), BLOCK));
    }

    #[test]
    fn what_was_found_out_since_a_write_began_is_known_to_it() {
        let gates = Gates::default();
        let gate = gates.of((1, 1));
        let (first, mut second) = (Growing::begin(&gate), Growing::begin(&gate));
        let mut third = Growing::begin(&gate);
        first.filled(4173, &record(2));
        assert!(second.is_zeros(4173, &record(4), BLOCK));
        assert!(!third.is_zeros(4000, &record(6), BLOCK), "it is shorter");
    }

    #[test]
    fn nothing_is_known_of_a_file_that_somebody_left() {
        let gates = Gates::default();
        let gate = gates.of((1, 1));
        let mut alone = Growing::begin(&gate);
        assert!(!alone.is_zeros(4173, &record(2), BLOCK));
        alone.filled(4173, &record(2));
        let beside = Growing::begin(&gate);
        alone.reached(record(2).end);
        beside.reached(record(0).end);
        assert!(!gate.tail.was_zeros());
        gate.tail.is_zeros_now();
        let mut later = Growing::begin(&gate);
        assert!(gate.tail.was_zeros(), "that is of the page cache");
        let found = later.is_zeros(record(2).end, &record(4), BLOCK);
        assert!(!found, "nobody wrote for a while");
    }

    #[test]
    fn a_shorter_file_is_not_known() {
        let gates = Gates::default();
        let gate = gates.of((1, 1));
        let mut stays = Growing::begin(&gate);
        assert!(stays.is_zeros(0, &record(9), BLOCK));
        let mut writes = Growing::begin(&gate);
        assert!(writes.is_zeros(0, &record(3), BLOCK));
        writes.reached(record(3).end);
        let (mut by_host, mut longer) = (Growing::begin(&gate), Growing::begin(&gate));
        assert!(!by_host.is_zeros(4173, &record(5), BLOCK));
        let most = record(9).end + 1;
        let found = longer.is_zeros(most, &record(12), BLOCK);
        assert!(!found, "nobody wrote so far");
        gate.tail.truncated();
        for mut write in [stays, by_host] {
            let found = write.is_zeros(record(3).end, &record(6), BLOCK);
            assert!(!found, "truncated since it began");
            write.filled(record(4).end, &record(6));
            write.reached(record(6).end);
        }
        let mut since = Growing::begin(&gate);
        let found = since.is_zeros(record(6).end, &record(8), BLOCK);
        assert!(
            !found,
            "what was filled before the truncation is no zeros any more"
        );
    }

    #[test]
    fn a_failure_forgets_if_anything_was_written() {
        let gates = Gates::default();
        let gate = gates.of((1, 1));
        let mut stays = Growing::begin(&gate);
        assert!(stays.is_zeros(0, &record(3), BLOCK));
        let refused = Growing::begin(&gate);
        drop(refused);
        let mut fails = Growing::begin(&gate);
        assert!(fails.is_zeros(RECORD, &record(3), BLOCK));
        drop(fails);
        let mut after = Growing::begin(&gate);
        assert!(!after.is_zeros(RECORD, &record(5), BLOCK));
    }
}
