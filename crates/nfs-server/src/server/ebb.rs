//! When so many connections have gone that the memory they took is worth giving back.

use crate::limits;

/// Remembers how many connections had ended when memory was given back last.
#[derive(Default)]
pub(super) struct Ebb {
    ended_before: u64,
}

impl Ebb {
    /// Whether so many connections have ended since that the heap is to be looked through. `ended`: all that have
    /// ended since the start.
    pub(super) fn has_come(&mut self, ended: u64) -> bool {
        let since = ended.saturating_sub(self.ended_before);
        let has_come = since >= limits::HEAP_TRIM_CONNECTIONS_MIN;
        if has_come {
            self.ended_before = ended;
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
        assert!(!ebb.has_come(crowd - 1));
        assert!(ebb.has_come(crowd + 10));
        assert!(!ebb.has_come(crowd + 10), "told already");
        assert!(!ebb.has_come(2 * crowd + 9));
        assert!(ebb.has_come(2 * crowd + 10));
    }
}
