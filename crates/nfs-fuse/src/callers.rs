//! Who a request is made as.
//!
//! A mount that other users may use, made by root, calls the server as the process that asks: with its
//! user, its group and its supplementary groups. Every other mount calls as who made it.

use std::collections::HashMap;
use std::io::Read as _;
use std::time::Instant;

use nfs_client::{Client, Identity};
use parking_lot::Mutex;

use crate::limits::{CALLER_AGE_MAX, CALLERS_MAX, IDENTITIES_MAX, PROC_STATUS_BYTES_MAX};

/// The process behind a request, as the kernel names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) pid: u32,
}

/// Finds the client that a request is made with.
#[derive(Debug)]
pub(crate) struct Callers {
    client: Client,
    each: Option<Each>,
}

/// What is kept where each caller has an identity of its own.
#[derive(Debug, Default)]
struct Each {
    groups: Mutex<HashMap<Caller, (Instant, Vec<u32>)>>,
    clients: Mutex<HashMap<Identity, Client>>,
}

impl Callers {
    /// All requests as `client`, or with `each` as the process that asks.
    pub(crate) fn new(client: Client, each: bool) -> Self {
        Self {
            client,
            each: each.then(Each::default),
        }
    }

    /// The client for a request of `caller`.
    pub(crate) fn client(&self, caller: Caller) -> Client {
        let Some(each) = &self.each else {
            return self.client.clone();
        };
        let groups = each.groups_of(caller, Instant::now());
        let identity = Identity::sys(caller.uid, caller.gid, &groups);
        let mut clients = each.clients.lock();
        if let Some(client) = clients.get(&identity) {
            return client.clone();
        }
        if clients.len() >= IDENTITIES_MAX {
            clients.clear();
        }
        let client = self.client.with_identity(identity.clone());
        clients.insert(identity, client.clone());
        client
    }
}

impl Each {
    fn groups_of(&self, caller: Caller, now: Instant) -> Vec<u32> {
        let mut known = self.groups.lock();
        if let Some((at, groups)) = known.get(&caller)
            && now.saturating_duration_since(*at) < CALLER_AGE_MAX
        {
            return groups.clone();
        }
        if known.len() >= CALLERS_MAX {
            known.clear();
        }
        let groups = read_groups(caller.pid);
        known.insert(caller, (now, groups.clone()));
        groups
    }
}

/// The supplementary groups of a process; none if it is gone, or of another process namespace.
fn read_groups(pid: u32) -> Vec<u32> {
    read_status(pid)
        .map(|status| groups_in(&status))
        .unwrap_or_default()
}

/// What the system says of a process or a thread; `None` if it is gone, or of another process
/// namespace.
pub(crate) fn read_status(pid: u32) -> Option<String> {
    let mut status = String::new();
    std::fs::File::open(format!("/proc/{pid}/status"))
        .and_then(|file| file.take(PROC_STATUS_BYTES_MAX).read_to_string(&mut status))
        .ok()?;
    Some(status)
}

/// The line `Groups:` of a `/proc/PID/status`.
fn groups_in(status: &str) -> Vec<u32> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("Groups:"))
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|group| group.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_a_status() {
        let status = "Name:\tcat\nUid:\t1\t1\t1\t1\nGroups:\t4 24 1000 \nNStgid:\t7\n";
        assert_eq!(groups_in(status), [4, 24, 1000]);
        assert!(groups_in("Name:\tcat\nGroups:\t\nx").is_empty());
        assert!(groups_in("").is_empty());
    }

    #[test]
    fn a_process_that_is_gone_has_no_groups() {
        assert!(read_groups(u32::MAX).is_empty());
    }
}
