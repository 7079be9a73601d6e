//! Who was let in and who was not, as numbers for `penstock ctl status`.

use std::sync::atomic::{AtomicU64, Ordering};

use super::counters::count;
use crate::exports::Refused;

/// Shared by all shards; every field only grows.
#[derive(Default)]
pub(crate) struct AccessCounters {
    /// MNTs that were answered with a handle.
    pub(crate) mounts_granted: AtomicU64,
    /// MNTs that the rules of the exports refused.
    pub(crate) mounts_refused: Refusals,
    /// MNTs of a path that no export has, or that is not there in its export.
    pub(crate) mounts_of_no_path: AtomicU64,
    /// NFS calls that the rules of the exports refused.
    pub(crate) calls_refused: Refusals,
    /// Connections of hosts that the administrator shut out, refused when they were accepted.
    pub(crate) connections_blocked: AtomicU64,
    /// Calls of such hosts over connections that they had; each closed its connection.
    pub(crate) calls_blocked: AtomicU64,
    /// Clients and exports that were used for the first time, each pair once.
    pub(crate) first_uses: AtomicU64,
}

/// Refusals by their reason.
#[derive(Default)]
pub(crate) struct Refusals {
    host: AtomicU64,
    port: AtomicU64,
    version: AtomicU64,
    local_program: AtomicU64,
    identity: AtomicU64,
}

impl Refusals {
    /// Counts one refusal.
    pub(crate) fn count(&self, why: Refused) {
        count(match why {
            Refused::NotListed => &self.host,
            Refused::PortNotPrivileged => &self.port,
            Refused::Version => &self.version,
            Refused::LocalBarred => &self.local_program,
            Refused::NoIdentity => &self.identity,
        });
    }
}

impl AccessCounters {
    /// The names under which `ctl status` shows them, with their values.
    pub(crate) fn named(&self) -> [(&'static str, u64); 15] {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (mounts, calls) = (&self.mounts_refused, &self.calls_refused);
        [
            ("mounts_granted", load(&self.mounts_granted)),
            ("mounts_refused_host", load(&mounts.host)),
            ("mounts_refused_port", load(&mounts.port)),
            ("mounts_refused_version", load(&mounts.version)),
            ("mounts_refused_local_program", load(&mounts.local_program)),
            ("mounts_refused_identity", load(&mounts.identity)),
            ("mounts_of_no_path", load(&self.mounts_of_no_path)),
            ("calls_refused_host", load(&calls.host)),
            ("calls_refused_port", load(&calls.port)),
            ("calls_refused_version", load(&calls.version)),
            ("calls_refused_local_program", load(&calls.local_program)),
            ("calls_refused_identity", load(&calls.identity)),
            ("connections_blocked", load(&self.connections_blocked)),
            ("calls_blocked", load(&self.calls_blocked)),
            ("first_uses", load(&self.first_uses)),
        ]
    }
}
