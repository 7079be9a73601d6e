//! Who wrote to an open file since it was last brought to stable storage, and so has to wait for that
//! at a close. Pure.
//!
//! Every close of a descriptor reaches the mount, also those of a child that a program starts: it holds
//! copies of all descriptors for a moment. Only who wrote has something to be told.

use fuser::LockOwner;

use crate::limits::WRITERS_MAX;

/// Somebody who writes: an open of the file, and the table of descriptors that it was used from, which
/// threads share and a child process does not.
pub(crate) type Writer = (u64, LockOwner);

/// The callers who wrote to one file.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    /// The number of the latest write.
    last: u64,
    /// Each with the number of the last write; `None` is somebody, the kernel does not say who.
    since: Vec<(Option<Writer>, u64)>,
}

impl Writers {
    /// Takes note of a write by `writer`.
    pub(crate) fn wrote(&mut self, writer: Option<Writer>) {
        self.last += 1;
        let room = self.since.len() < WRITERS_MAX;
        let known = self.since.iter().any(|(known, _)| *known == writer);
        let writer = writer.filter(|_| room || known);
        match self.since.iter_mut().find(|(known, _)| *known == writer) {
            Some((_, number)) => *number = self.last,
            None => self.since.push((writer, self.last)),
        }
    }

    /// Whether something is to be brought to stable storage before a close by `writer` returns.
    pub(crate) fn waits_for(&self, writer: Writer) -> bool {
        let mut theirs = self.since.iter().map(|(known, _)| *known);
        theirs.any(|known| known.is_none_or(|known| known == writer))
    }

    /// The number of the last write.
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    /// Everything up to the write `number` is on stable storage.
    pub(crate) fn safe(&mut self, number: u64) {
        self.since.retain(|(_, last)| *last > number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: Writer = (1, LockOwner(10));
    const CHILD: Writer = (1, LockOwner(11));
    const OTHER_OPEN: Writer = (2, LockOwner(10));

    #[test]
    fn only_who_wrote_waits() {
        let mut writers = Writers::default();
        assert!(!writers.waits_for(PARENT));
        writers.wrote(Some(PARENT));
        assert!(writers.waits_for(PARENT));
        assert!(!writers.waits_for(CHILD));
        assert!(!writers.waits_for(OTHER_OPEN));
        writers.wrote(Some(CHILD));
        assert!(writers.waits_for(CHILD));
        assert!(writers.waits_for(PARENT));
    }

    #[test]
    fn everybody_waits_for_what_nobody_is_known_to_have_written() {
        let mut writers = Writers::default();
        writers.wrote(None);
        assert!(writers.waits_for(CHILD));
        assert!(writers.waits_for(OTHER_OPEN));
    }

    #[test]
    fn what_is_written_meanwhile_is_waited_for_again() {
        let mut writers = Writers::default();
        writers.wrote(Some(PARENT));
        writers.wrote(Some(CHILD));
        let number = writers.last();
        writers.wrote(Some(PARENT));
        // Until it is safe, whoever closes waits.
        assert!(writers.waits_for(CHILD));
        writers.safe(number);
        assert!(!writers.waits_for(CHILD));
        assert!(writers.waits_for(PARENT));
        writers.safe(writers.last());
        assert!(!writers.waits_for(PARENT));
    }

    #[test]
    fn too_many_writers_are_nobody_in_particular() {
        let mut writers = Writers::default();
        let writer = |number| (1, LockOwner(number));
        let cap = u64::try_from(WRITERS_MAX).unwrap();
        for number in 0..cap {
            writers.wrote(Some(writer(number)));
        }
        assert!(!writers.waits_for(writer(cap)));
        writers.wrote(Some(writer(0)));
        assert!(!writers.waits_for(writer(cap)));
        writers.wrote(Some(writer(cap)));
        writers.wrote(Some(writer(cap + 1)));
        assert!(writers.waits_for(writer(cap + 2)));
        assert_eq!(writers.since.len(), WRITERS_MAX + 1);
    }
}
