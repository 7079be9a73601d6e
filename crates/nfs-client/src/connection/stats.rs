//! What is counted of connections themselves, whatever is called over them.

use std::time::Duration;

/// What a connection has counted since it was made. For tests, status lines and curiosity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls that were made, whatever came of them.
    pub calls: u64,
    /// Replies that reached their calls.
    pub replies: u64,
    /// Replies that no call waited for: late, twice, or of an xid never used.
    pub stray_replies: u64,
    /// Records that are neither replies nor calls that can be answered.
    pub garbage_records: u64,
    /// Calls that came from the server. No program is served on this side, which they are answered, as long
    /// as few of the answers wait to be sent.
    pub server_calls: u64,
    /// Calls that ran out of time.
    pub timeouts: u64,
    /// Connections made after the first.
    pub reconnects: u64,
    /// Calls sent again: over a new connection, or because that, too, brought no reply.
    pub resent_calls: u64,
    /// Reads from the socket, those that brought nothing among them.
    pub receives: u64,
    /// System calls that wrote to the socket.
    pub sends: u64,
    /// Bytes of data for given memory that were copied there instead of being received there.
    pub copied_bytes: u64,
    /// Times that a call was made again later because the server had asked for time: NFS3ERR_JUKEBOX, NFS4ERR_DELAY,
    /// NFS4ERR_GRACE.
    pub jukebox_waits: u64,
    /// How long was waited before such calls, together.
    pub jukebox_waited: Duration,
}

impl Stats {
    /// The sum of both, count by count.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = *self;
        let mut more = *other;
        for (sum, more) in sum.counts().into_iter().zip(more.counts()) {
            *sum = sum.saturating_add(*more);
        }
        sum.jukebox_waited = sum.jukebox_waited.saturating_add(more.jukebox_waited);
        sum
    }

    /// What came since `earlier`; `None` where that is no earlier state of this one.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let (mut new, mut before) = (*self, *earlier);
        for (now, before) in new.counts().into_iter().zip(before.counts()) {
            *now = now.checked_sub(*before)?;
        }
        new.jukebox_waited = new.jukebox_waited.checked_sub(before.jukebox_waited)?;
        Some(new)
    }

    /// All counts, without the time.
    fn counts(&mut self) -> [&mut u64; 12] {
        [
            &mut self.calls,
            &mut self.replies,
            &mut self.stray_replies,
            &mut self.garbage_records,
            &mut self.server_calls,
            &mut self.timeouts,
            &mut self.reconnects,
            &mut self.resent_calls,
            &mut self.receives,
            &mut self.sends,
            &mut self.copied_bytes,
            &mut self.jukebox_waits,
        ]
    }
}
