//! When so much of the heap may be free that it is worth giving back.

use crate::limits;

/// Remembers what happened since memory was given back last.
#[derive(Default)]
pub(super) struct Ebb {
    ended_before: u64,
    buffers_bytes: u64,
}

impl Ebb {
    /// Whether the heap is to be looked through: so many connections have ended since, or so much of buffers was
    /// given up. `ended`: all that have ended since the start; `buffers_bytes`: given up since this was asked last.
    pub(super) fn has_come(&mut self, ended: u64, buffers_bytes: u64) -> bool {
        let since = ended.saturating_sub(self.ended_before);
        self.buffers_bytes = self.buffers_bytes.saturating_add(buffers_bytes);
        let has_come = since >= limits::HEAP_TRIM_CONNECTIONS_MIN
            || self.buffers_bytes >= limits::HEAP_TRIM_BUFFERS_BYTES_MIN;
        if has_come {
            self.ended_before = ended;
            self.buffers_bytes = 0;
        }
        has_come
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_once_for_each_crowd() {
        let crowd = limits::HEAP_TRIM_CONNECTIONS_MIN;
        let mut ebb = Ebb::default();
        assert!(!ebb.has_come(crowd - 1, 0));
        assert!(ebb.has_come(crowd + 10, 0));
        assert!(!ebb.has_come(crowd + 10, 0), "told already");
        assert!(!ebb.has_come(2 * crowd + 9, 0));
        assert!(ebb.has_come(2 * crowd + 10, 0));
    }

    #[test]
    fn it_comes_when_much_of_buffers_was_given_up() {
        let much = limits::HEAP_TRIM_BUFFERS_BYTES_MIN;
        let mut ebb = Ebb::default();
        assert!(!ebb.has_come(0, much - 1));
        assert!(ebb.has_come(0, 1), "together they are enough");
        assert!(!ebb.has_come(0, much - 1), "counted anew");
    }
}
