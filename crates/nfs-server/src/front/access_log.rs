//! The lines of the log that say who was let in, who was refused, and why.
//!
//! Each event is counted; its line is written within the quotas of its address
//! ([`Notices`](crate::operate::notices::Notices)). A line names the client, the path or export, and for a
//! refusal its real reason and cure, which the reply has no words for.

use std::net::IpAddr;
use std::time::Instant;

use crate::exports::config::{Access, SquashKind, word_of};
use crate::exports::{ClientRule, Export, Refused};
use crate::front::mount3::NotMounted;
use crate::front::service::Service;
use crate::limits;
use crate::network::Network;
use crate::operate::counters::count;
use crate::operate::notices::{Leave, Topic};
use crate::rpc::caller::Caller;

impl Service {
    /// A MNT was answered with a handle.
    pub(super) fn note_mounted(&self, caller: &Caller, path: &[u8], export: &Export) {
        count(&self.counters.access.mounts_granted);
        if let Some(leave) = self.leave(Topic::MountGranted, caller)
            && let Ok(rule) = Self::rule(caller, export)
        {
            let (client, path, terms) = (client(caller), shown(path), terms(rule));
            tracing::info!("mount of {path} by {client} granted: {terms}{leave}");
        }
    }

    /// A MNT was refused, or failed.
    pub(super) fn note_not_mounted(&self, caller: &Caller, path: &[u8], why: &NotMounted) {
        let counters = &self.counters.access;
        match why {
            NotMounted::Stranger => counters.mounts_refused.count(Refused::NotListed),
            NotMounted::Refused { why, .. } => counters.mounts_refused.count(*why),
            NotMounted::NoExport | NotMounted::Failed { .. } => count(&counters.mounts_of_no_path),
        }
        if let Some(leave) = self.leave(Topic::MountRefused, caller) {
            let (client, path) = (client(caller), shown(path));
            tracing::warn!("mount of {path} by {client} refused: {why}{leave}");
        }
    }

    /// The rules of the export of its handle refused an NFS call.
    #[cold]
    pub(super) fn note_refused_call(&self, caller: &Caller, export: &Export, why: Refused) {
        self.counters.access.calls_refused.count(why);
        if let Some(leave) = self.leave(Topic::CallRefused, caller) {
            let (client, pseudo) = (client(caller), &export.pseudo);
            tracing::warn!("a call by {client} with a handle of {pseudo} is refused: {why}{leave}");
        }
    }

    /// A connection uses an export that it did not use before.
    #[cold]
    pub(super) fn note_use(&self, caller: &Caller, export: &Export) {
        let network = Network::of(caller.addr);
        if !self.first_uses.lock().is_first(network, export.id) {
            return;
        }
        count(&self.counters.access.first_uses);
        if let Some(leave) = self.leave(Topic::FirstUse, caller)
            && let Ok(rule) = Self::rule(caller, export)
        {
            let (client, pseudo, terms) = (client(caller), &export.pseudo, terms(rule));
            tracing::info!("first use of {pseudo} by {client}: {terms}{leave}");
        }
    }

    /// Whether a connection that was just accepted comes from a host that the operator shut out, which is counted.
    pub(crate) fn is_blocked(&self, addr: IpAddr) -> bool {
        let now = Instant::now();
        if !self.blocked.refuses(addr, now) {
            return false;
        }
        count(&self.counters.access.connections_blocked);
        let leave = self.notices.lock().note(Topic::Blocked, addr, now);
        if let Some(leave) = leave {
            let addr = addr.to_canonical();
            tracing::info!("a connection of {addr}, which is blocked, is refused{leave}");
        }
        true
    }

    /// Two machines take turns under one name of an NFSv4 client (`co_ownerid`), and throw each other out: this caller's and
    /// the one at the other address.
    pub(super) fn note_shared_name(&self, caller: &Caller, other: IpAddr, name: &[u8]) {
        let Some(leave) = self.leave(Topic::SharedName, caller) else {
            return;
        };
        let (one, other) = (caller.addr.to_canonical(), other.to_canonical());
        let name = shown(name);
        tracing::warn!(
            "two machines, at {one} and {other}, call themselves \"{name}\" and throw each other out: give each a \
             name of its own (the parameter nfs.nfs4_unique_id of Linux's nfs module, or another host name){leave}"
        );
    }

    fn leave(&self, topic: Topic, caller: &Caller) -> Option<Leave> {
        let now = Instant::now();
        self.notices.lock().note(topic, caller.addr, now)
    }
}

/// The client as a line shows it.
fn client(caller: &Caller) -> String {
    let (addr, port) = (caller.addr, caller.port);
    match caller.standing.user() {
        Some(user) => format!("{addr} port {port} (local user {user})"),
        None => format!("{addr} port {port}"),
    }
}

/// A path that a client sent, as a line shows it: no byte of it can end the line or steer a terminal.
fn shown(path: &[u8]) -> String {
    match path.get(..limits::NOTICE_PATH_BYTES_MAX) {
        Some(beginning) if beginning.len() < path.len() => {
            format!("{}...", beginning.escape_ascii())
        }
        _ => path.escape_ascii().to_string(),
    }
}

/// What a rule gives.
fn terms(rule: &ClientRule) -> String {
    let access = word_of(rule.access, Access::WORDS);
    let squash = word_of(rule.squash.kind(), SquashKind::WORDS);
    format!(
        "{access}, squash {squash}, by the rule for {}",
        rule.clients
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_forge_a_line() {
        assert_eq!(shown(b"/data"), "/data");
        assert_eq!(shown(b"/a\nmount of /"), "/a\\nmount of /");
        assert_eq!(shown(b"/\x1b[2J\xff"), "/\\x1b[2J\\xff");
        assert_eq!(shown(&[b'a'; 201]), format!("{}...", "a".repeat(200)));
        assert_eq!(shown(&[b'a'; 200]), "a".repeat(200));
    }
}
