//! How many waiters may be told, of one session, one host and all, and how many calls may be under way. Pure.

use std::collections::HashMap;

use nfs_state::Host;

use crate::limits;

/// What there is of notices and calls.
#[derive(Default)]
pub(super) struct Room {
    /// Notices in queues and in flight.
    queued: usize,
    /// What each host has of that, without hosts that have nothing.
    hosts: HashMap<Host, AtHost>,
}

/// What the clients of one host have of what all share.
#[derive(Default)]
struct AtHost {
    /// Notices in queues and in flight.
    queued: usize,
    /// Calls in flight.
    calling: usize,
}

impl Room {
    /// Whether one more waiter can be told of this host, through a session with so many in its queue.
    pub(super) fn may_join(&self, host: Host, of_session: usize) -> bool {
        let of_host = self.hosts.get(&host).map_or(0, |it| it.queued);
        self.queued < limits::NOTICES_MAX
            && of_host < limits::NOTICES_PER_HOST_MAX
            && of_session < limits::NOTICES_PER_SESSION_MAX
    }

    /// A waiter of this host is to be told.
    pub(super) fn joins(&mut self, host: Host) {
        self.queued += 1;
        self.hosts.entry(host).or_default().queued += 1;
    }

    /// A waiter of this host was told, or is not to be told any more.
    pub(super) fn leaves(&mut self, host: Host) {
        self.queued = self.queued.saturating_sub(1);
        if let Some(at) = self.hosts.get_mut(&host) {
            at.queued = at.queued.saturating_sub(1);
        }
        self.forget_if_idle(host);
    }

    /// Whether one more call to this host may be under way, beside the bound of all.
    pub(super) fn may_call(&self, host: Host) -> bool {
        let calling = self.hosts.get(&host).map_or(0, |it| it.calling);
        calling < limits::CALLBACKS_PER_HOST_MAX
    }

    /// A call to this host is under way.
    pub(super) fn calls(&mut self, host: Host) {
        self.hosts.entry(host).or_default().calling += 1;
    }

    /// A call to this host has ended.
    pub(super) fn called(&mut self, host: Host) {
        if let Some(at) = self.hosts.get_mut(&host) {
            at.calling = at.calling.saturating_sub(1);
        }
        self.forget_if_idle(host);
    }

    fn forget_if_idle(&mut self, host: Host) {
        let at = self.hosts.get(&host);
        if at.is_some_and(|at| (at.queued, at.calling) == (0, 0)) {
            self.hosts.remove(&host);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many more waiters of this host can be told, each through a session of its own.
    fn fill(room: &mut Room, host: Host) -> usize {
        let mut joined = 0;
        while room.may_join(host, 0) {
            room.joins(host);
            joined += 1;
        }
        joined
    }

    #[test]
    fn a_session_a_host_and_all_have_so_many_who_are_to_be_told() {
        let mut room = Room::default();
        assert!(room.may_join(Host(1), 255));
        assert!(!room.may_join(Host(1), 256), "of one session");
        for host in 1..=8 {
            assert_eq!(fill(&mut room, Host(host)), 2048, "of one host");
        }
        assert!(!room.may_join(Host(9), 0), "of all");
        room.leaves(Host(1));
        assert!(!room.may_join(Host(2), 0), "it has its part");
        assert_eq!(fill(&mut room, Host(9)), 1);
    }

    #[test]
    fn a_host_has_so_many_calls_under_way_and_none_is_kept_in_mind_without() {
        let mut room = Room::default();
        room.joins(Host(1));
        for _ in 0..64 {
            assert!(room.may_call(Host(1)));
            room.calls(Host(1));
        }
        assert!(!room.may_call(Host(1)));
        assert!(room.may_call(Host(2)));
        room.called(Host(1));
        assert!(room.may_call(Host(1)));
        for _ in 0..63 {
            room.called(Host(1));
        }
        assert_eq!(room.hosts.len(), 1, "one is to be told");
        room.leaves(Host(1));
        assert!(room.hosts.is_empty());
        assert_eq!(room.queued, 0);
    }
}
