//! The operator's side of what NFSv4's clients hold: who they are, what they have open and locked, how far the grace
//! period is; and its end, or a client's, on the operator's word.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use nfs_state::{Bits, ClientId, FileState, LockKind, LockOwner, Millis, Range, Why};

use super::Server;
use crate::limits;
use crate::operate::control::{
    Asker, Expired, GraceReport, HeldAnswer, HeldQuery, Listed, LockRow, Nfs4ClientStatus, OpenRow,
    Page,
};
use crate::state::States;
use crate::vfs::{Object, Opened};

type Client = Arc<nfs_state::Client<Opened>>;

impl Server {
    /// What NFSv4's clients hold, as `penstock ctl grace`, `opens`, `locks`, `clients` and `expire` ask. May wait for the
    /// disk of the state directory; to be called from a thread that may block, outside of any task.
    ///
    /// # Errors
    /// The sentence to show: NFSv4 is not served, there is no such client, or it cannot be done now.
    pub fn held(&self, query: &HeldQuery, asker: Asker) -> Result<HeldAnswer, String> {
        let Some(states) = &self.service.states else {
            return match query {
                HeldQuery::Clients(_) => Ok(HeldAnswer::Clients(Listed {
                    total: 0,
                    rows: Vec::new(),
                })),
                _ => Err(
                    "no minor version of NFSv4 is served: see `versions` in [server]".to_owned(),
                ),
            };
        };
        match query {
            HeldQuery::Grace => Ok(HeldAnswer::Grace(grace(states))),
            HeldQuery::EndGrace => self.end_grace(states, asker).map(HeldAnswer::Grace),
            HeldQuery::Clients(page) => {
                let clients = chosen(states, page)?;
                let now = states.now();
                let rows = clients.iter().map(|client| client_row(states, client, now));
                Ok(HeldAnswer::Clients(cut(page, rows)))
            }
            HeldQuery::Opens(page) => {
                let clients = chosen(states, page)?;
                let opens = clients.iter().flat_map(|client| {
                    let mut opens = client.opens();
                    opens.sort_by_key(|open| open.stateid().to_wire().other);
                    opens
                });
                let opens = cut(page, opens);
                let rows = opens.rows.iter().map(|open| self.open_row(open)).collect();
                let total = opens.total;
                Ok(HeldAnswer::Opens(Listed { total, rows }))
            }
            HeldQuery::Locks(page) => {
                let clients = chosen(states, page)?;
                let locks = cut(page, self.all_locks(&clients, page.client.is_some()));
                let total = locks.total;
                let rows = locks.rows.into_iter().map(|(object, lock)| LockRow {
                    file: self.shown(&object),
                    ..lock
                });
                let rows = rows.collect();
                Ok(HeldAnswer::Locks(Listed { total, rows }))
            }
            HeldQuery::Expire(whom) => self.expire(states, whom, asker).map(HeldAnswer::Expired),
        }
    }

    fn end_grace(&self, states: &States, asker: Asker) -> Result<GraceReport, String> {
        if !grace(states).running {
            return Err("no grace period is running: clients get what they ask for".to_owned());
        }
        wait_for(async {
            for _ in 0..limits::CONTROL_TRIES_MAX {
                states.end_grace(&self.service.vfs).await;
                if !grace(states).running {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        })?;
        let report = grace(states);
        if report.running {
            return Err("the grace period could not be ended yet: a client is reclaiming, or the state directory \
                 cannot be written; it ends as soon as that is over"
                .to_owned());
        }
        tracing::info!(
            "the grace period was ended by {asker}: who has not come back has lost what it held"
        );
        Ok(report)
    }

    fn expire(&self, states: &States, whom: &str, asker: Asker) -> Result<Expired, String> {
        let client = find(states, whom)?;
        let holds = client.holds();
        let id = client.id();
        let done = wait_for(async {
            for _ in 0..limits::CONTROL_TRIES_MAX {
                if states
                    .expire(&self.service.vfs, id, Why::Operator)
                    .await
                    .is_ok()
                {
                    return true;
                }
                tokio::time::sleep(PAUSE).await;
            }
            false
        })?;
        if !done {
            return Err(format!(
                "client {whom} has requests in progress all the time, or the state directory cannot be written; shut \
                 it out first (`penstock ctl clients block {}`)",
                client.from().address.to_canonical()
            ));
        }
        let expired = Expired {
            id: shown_id(id),
            name: escaped(client.owner().as_bytes()),
            opens: holds.opens,
            lock_states: holds.lock_states,
        };
        tracing::info!(
            "NFSv4 client {} ({}) was expired by {asker}: it lost {} opens and {} lock stateids",
            expired.id,
            expired.name,
            expired.opens,
            expired.lock_states
        );
        Ok(expired)
    }

    fn open_row(&self, open: &nfs_state::OpenState<Opened>) -> OpenRow {
        OpenRow {
            client: shown_id(open.client()),
            owner: escaped(open.owner().as_bytes()),
            file: self.shown(open.pin().object()),
            access: word(open.access()).to_owned(),
            deny: word(open.deny()).to_owned(),
        }
    }

    /// The locks in all files that these clients have open, without the files' names. `of_one`: those of the client
    /// alone.
    fn all_locks(&self, clients: &[Client], of_one: bool) -> Vec<(Arc<Object>, LockRow)> {
        let mut seen: HashSet<*const FileState> = HashSet::new();
        let mut found = Vec::new();
        for client in clients {
            for open in client.opens() {
                if !seen.insert(Arc::as_ptr(open.file())) {
                    continue;
                }
                let object = open.pin().object();
                let locks = open.file().locks();
                let locks = locks
                    .iter()
                    .filter(|(owner, ..)| !of_one || owner.client() == Some(client.id()));
                found.extend(locks.map(|lock| (Arc::clone(object), lock_row(lock))));
                // Other file systems' locks may be another machine's to tell, which takes its time.
                if !of_one && object.mount.local {
                    found.extend(
                        self.local_lock(object)
                            .map(|lock| (Arc::clone(object), lock)),
                    );
                }
            }
        }
        found
    }

    /// A lock of a local program in a file.
    fn local_lock(&self, object: &Object) -> Option<LockRow> {
        let budget = self.service.vfs.files.budget();
        let held = object
            .host_holder(Range::WHOLE, LockKind::Write, budget)
            .ok()??;
        let length = u64::try_from(held.length).ok()?;
        Some(LockRow {
            holder: "local".to_owned(),
            client: held
                .pid
                .map_or_else(String::new, |pid| format!("process {pid}")),
            offset: u64::try_from(held.start).ok()?,
            length: (length > 0).then_some(length),
            kind: match held.lock {
                nfs_io::fs::OfdLock::Read => "read".to_owned(),
                nfs_io::fs::OfdLock::Write => "write".to_owned(),
            },
            ..LockRow::default()
        })
    }

    /// The path of an object as clients see it, or its handle.
    pub(super) fn shown(&self, object: &Object) -> String {
        match self.service.vfs.exported_path(object) {
            Some(path) => escaped(&path),
            None => {
                let handle: &[u8] = object.handle.as_ref();
                let digits = handle.iter().map(|byte| format!("{byte:02x}"));
                format!("handle {}", digits.collect::<String>())
            }
        }
    }
}

/// Between two attempts at what is not to be done at once.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits for something on this thread.
fn wait_for<F: Future>(what: F) -> Result<F::Output, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.map_err(|error| format!("cannot wait for it: {error}"))?;
    Ok(runtime.block_on(what))
}

fn grace(states: &States) -> GraceReport {
    let status = states.core.grace();
    let names = states.core.grace_waiting(limits::CONTROL_GRACE_NAMES_MAX);
    let running = !status.is_over;
    GraceReport {
        running,
        seconds_left: match running {
            true => status.until.since(states.now()).div_ceil(1000),
            false => 0,
        },
        waiting: status.waiting,
        names: names.iter().map(|name| escaped(name.as_bytes())).collect(),
    }
}

/// The clients that a page is about, in the order in which they came.
fn chosen(states: &States, page: &Page) -> Result<Vec<Client>, String> {
    match &page.client {
        Some(whom) => Ok(vec![find(states, whom)?]),
        None => Ok(states.core.clients()),
    }
}

/// The client of this id, or of this name.
fn find(states: &States, whom: &str) -> Result<Client, String> {
    let mut clients = states.core.clients();
    clients.retain(|client| {
        shown_id(client.id()) == whom || escaped(client.owner().as_bytes()) == whom
    });
    clients.pop().ok_or_else(|| {
        format!("no NFSv4 client has the id or name {whom}; `penstock ctl clients` lists them")
    })
}

fn client_row(states: &States, client: &Client, now: Millis) -> Nfs4ClientStatus {
    let (holds, from) = (client.holds(), client.from());
    let (silent, lease) = (client.silent_ms(now), states.core.config().lease_ms);
    let shared = states.core.name_shared_by(client, now);
    Nfs4ClientStatus {
        id: shown_id(client.id()),
        name: escaped(client.owner().as_bytes()),
        address: from.address.to_canonical().to_string(),
        version: format!("4.{}", from.minor),
        silent_seconds: silent / 1000,
        lease_seconds_left: lease.saturating_sub(silent).div_ceil(1000),
        courtesy: silent > lease,
        sessions: holds.sessions,
        opens: holds.opens,
        lock_states: holds.lock_states,
        name_shared_by: shared
            .iter()
            .flatten()
            .map(|address| address.to_canonical().to_string())
            .collect(),
    }
}

fn lock_row((owner, range, kind): &(LockOwner, Range, LockKind)) -> LockRow {
    let name = match owner {
        LockOwner::V4 { owner, .. } | LockOwner::Nlm { owner, .. } => owner,
    };
    LockRow {
        holder: "remote".to_owned(),
        client: owner.client().map_or_else(String::new, shown_id),
        owner: escaped(name.as_bytes()),
        file: String::new(),
        offset: range.offset(),
        length: (range.length() != u64::MAX).then_some(range.length()),
        kind: match kind {
            LockKind::Read => "read".to_owned(),
            LockKind::Write => "write".to_owned(),
        },
    }
}

/// The rows of a page, and how many there are in all.
fn cut<T>(page: &Page, rows: impl IntoIterator<Item = T>) -> Listed<T> {
    let limit = page.limit.min(limits::CONTROL_HELD_ROWS_MAX);
    let (mut total, mut kept) = (0_usize, Vec::new());
    for row in rows {
        if total >= page.skip && kept.len() < limit {
            kept.push(row);
        }
        total += 1;
    }
    Listed { total, rows: kept }
}

fn shown_id(id: ClientId) -> String {
    format!("{:016x}", id.to_wire())
}

fn escaped(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

const fn word(bits: Bits) -> &'static str {
    match (bits.has(Bits::READ), bits.has(Bits::WRITE)) {
        (true, true) => "both",
        (true, false) => "read",
        (false, true) => "write",
        (false, false) => "none",
    }
}
