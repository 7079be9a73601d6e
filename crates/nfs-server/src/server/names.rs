//! The names of clients are looked up while the server runs, and what they stand for is put into the export table.
//!
//! A look-up may take as long as a name server is silent. Each runs on a thread of its own, of which there are at most
//! [`limits::CLIENT_LOOKUPS_MAX`](crate::limits::CLIENT_LOOKUPS_MAX): on the helper threads it would keep the server from
//! ending, which waits for those. What is under way when the server ends is given up.

use std::sync::Arc;
use std::time::Instant;

use nfs_io::host_names::LookupError;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Server;
use crate::exports::{LiveName, NameState, Names, Question, Resolved};
use crate::front::service::Service;

/// What is known of names, and the sign that it is to be looked at.
#[derive(Default)]
pub(super) struct AskedNames {
    known: Mutex<Names>,
    changed: Notify,
}

impl AskedNames {
    /// Has everything looked up anew: the exports are others, and so may be the machine's databases.
    pub(super) fn ask_anew(&self) {
        self.known.lock().forget_times();
        self.changed.notify_one();
    }
}

/// Looks up what is due, for as long as the server runs.
pub(super) async fn keep(service: Arc<Service>, names: Arc<AskedNames>) {
    loop {
        let table = Arc::clone(&service.vfs.trees.load().table);
        let wait = if table.names().is_empty() {
            None
        } else {
            let questions = {
                let wanted = table.names().iter().map(|live| &live.name);
                names.known.lock().ask(wanted, Instant::now())
            };
            for question in questions {
                look_up(&names, question);
            }
            let now = Instant::now();
            let (changed, wait) = {
                let known = names.known.lock();
                let changed = table.set_names(|name| known.resolved(name, now));
                (changed, known.next_in(now))
            };
            for (live, before) in changed {
                tell(&live, &before);
            }
            Some(wait)
        };
        let changed = names.changed.notified();
        match wait {
            None => changed.await,
            // Whether something was learnt or the time is over, what is due is looked at.
            Some(wait) => drop(tokio::time::timeout(wait, changed).await),
        }
    }
}

/// Has one question asked.
fn look_up(names: &Arc<AskedNames>, question: Question) {
    let asked = (Arc::clone(names), question.clone());
    let look = move || {
        let (names, question) = asked;
        let answer = question.look_up();
        names.known.lock().learn(&question, answer, Instant::now());
        names.changed.notify_one();
    };
    let thread = std::thread::Builder::new().name("names".to_owned());
    if let Err(error) = thread.spawn(look) {
        let why = format!("no thread to be had to look it up: {error}");
        let answer = Err(LookupError::Unavailable(why));
        names.known.lock().learn(&question, answer, Instant::now());
    }
}

/// Says once what became of a name.
fn tell(live: &LiveName, before: &Resolved) {
    let (name, now) = (&live.name, live.resolved());
    let cure = "see to it that `getent hosts` or `getent netgroup` knows it on this machine, or list addresses";
    let is_other = now.state != before.state;
    match now.state {
        NameState::Nobody if is_other => {
            tracing::warn!("client {name} matches nobody: {}; {cure}", now.trouble)
        }
        NameState::Kept if is_other => tracing::warn!(
            "client {name} keeps the addresses from before for some minutes: {}; {cure}",
            now.trouble
        ),
        NameState::Partly if is_other || now.trouble != before.trouble => {
            tracing::warn!("client {name}: {}; {cure}", now.trouble);
        }
        NameState::Known if is_other && before.state != NameState::Asked => {
            tracing::info!("client {name} has its addresses again");
        }
        NameState::Known if !is_other => tracing::info!(
            "client {name} has other addresses: {:?}, before {:?}",
            now.addresses,
            before.addresses
        ),
        NameState::Asked
        | NameState::Nobody
        | NameState::Kept
        | NameState::Partly
        | NameState::Known => {}
    }
}

impl Server {
    /// What is counted about names of clients.
    pub(super) fn name_counters(&self) -> [(&'static str, u64); 4] {
        let table = Arc::clone(&self.service.vfs.trees.load().table);
        let without = table.names().iter().filter(|live| {
            let state = live.resolved().state;
            matches!(state, NameState::Asked | NameState::Nobody)
        });
        let (lookups, failed) = self.names.known.lock().figures();
        [
            ("client_names", table.names().len() as u64),
            ("client_names_unresolved", without.count() as u64),
            ("client_name_lookups", lookups),
            ("client_name_lookups_failed", failed),
        ]
    }
}
