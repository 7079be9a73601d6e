//! Which servers do not answer, seen from beside the calls that wait for them.
//!
//! Owns nothing of a connection: it knows those that were made with it ([`ConnectOptions::liveness`]) as long
//! as they are there, and looks at them when it is asked. A call costs nothing more for it.
//!
//! [`ConnectOptions::liveness`]: super::ConnectOptions::liveness

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::{Shared, Target};

/// Tells which of the servers that a program's connections go to do not answer. Clones share it: give one
/// to all [`ConnectOptions`](super::ConnectOptions) whose servers are to be watched together.
#[derive(Clone, Default)]
pub struct Liveness {
    watched: Arc<Mutex<Watched>>,
}

/// What is looked at; entries of what is no more are dropped at each change and look.
#[derive(Default)]
struct Watched {
    connections: Vec<Weak<Shared>>,
    attempts: Vec<Weak<Attempt>>,
}

/// A server that is waited for and says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent {
    /// The host and port that do not answer.
    pub target: Target,
    /// How long nothing has come from there, though something was waited for.
    pub lasting: Duration,
}

/// A first attempt to connect, from its beginning until it is dropped.
pub(super) struct Attempt {
    target: Target,
    since: Instant,
}

impl Liveness {
    /// The servers that have said nothing for at least `least`, though calls or an attempt to connect wait for
    /// them. Of several connections to one target, the one that was heard from last counts.
    pub fn silent(&self, least: Duration) -> Vec<Silent> {
        let now = Instant::now();
        let mut found: Vec<Silent> = Vec::new();
        for (target, since) in self.lock().waiting() {
            let lasting = now.saturating_duration_since(since);
            match found.iter_mut().find(|known| known.target == target) {
                Some(known) => known.lasting = known.lasting.min(lasting),
                None => found.push(Silent { target, lasting }),
            }
        }
        found.retain(|silent| silent.lasting >= least);
        found
    }

    /// When something came from `target` last, over the connections that there are; `None` before.
    pub fn heard_at(&self, target: &Target) -> Option<Instant> {
        let watched = self.lock();
        let connections = watched.connections.iter().filter_map(Weak::upgrade);
        let connections = connections.filter(|connection| connection.target == *target);
        connections.filter_map(|one| one.lock().heard_at).max()
    }

    /// Looks at this connection from now on, as long as it is there.
    pub(super) fn watch(&self, connection: &Arc<Shared>) {
        let mut watched = self.lock();
        watched.connections.retain(|one| one.strong_count() > 0);
        watched.connections.push(Arc::downgrade(connection));
    }

    /// An attempt to connect to `target` that begins now and lasts until the result is dropped.
    pub(super) fn attempt(&self, target: &Target) -> Arc<Attempt> {
        let attempt = Arc::new(Attempt {
            target: target.clone(),
            since: Instant::now(),
        });
        let mut watched = self.lock();
        watched.attempts.retain(|one| one.strong_count() > 0);
        watched.attempts.push(Arc::downgrade(&attempt));
        attempt
    }

    /// Lists of weak references stay whole, whoever panics.
    fn lock(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    /// Each target that something waits for, and since when nothing has come from there.
    fn waiting(&self) -> Vec<(Target, Instant)> {
        let attempts = self.attempts.iter().filter_map(Weak::upgrade);
        let attempts = attempts.map(|attempt| (attempt.target.clone(), attempt.since));
        let connections = self.connections.iter().filter_map(Weak::upgrade);
        let connections = connections.filter_map(|connection| {
            let since = connection.lock().silent_since()?;
            Some((connection.target.clone(), since))
        });
        attempts.chain(connections).collect()
    }
}

impl std::fmt::Debug for Liveness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Liveness").finish_non_exhaustive()
    }
}
