//! The thread that writes the handle table, and what it does while it cannot.
//!
//! A failed write begins an episode: it is logged once, calls that need a write are refused, and what
//! is known goes on being served. The first call after a pause tries again; the pause grows with what
//! opening the table takes. The first success ends the episode.

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use super::store::Check;
use super::{Change, Request, Shared, TableError, TableId};
use crate::limits;

pub(super) struct Committer {
    shared: Arc<Shared>,
    /// `Some` while the table cannot be written.
    episode: Option<Episode>,
    /// Names that went while the table could not be told: written with the next success.
    owed: Vec<Change>,
}

struct Episode {
    why: TableError,
    retry_at: Instant,
    refused: u64,
}

impl Committer {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            episode: None,
            owed: Vec::new(),
        }
    }

    /// Takes all changes that wait, writes them in one transaction, answers.
    pub(super) fn run(mut self, incoming: &mpsc::Receiver<Request>) {
        while let Ok(first) = incoming.recv() {
            let mut objects = first.change.objects();
            let mut group = vec![first];
            while objects < limits::HANDLE_TABLE_GROUP_MAX
                && let Ok(next) = incoming.try_recv()
            {
                objects += next.change.objects();
                group.push(next);
            }
            match self.commit(&group) {
                Ok(answers) => {
                    for (request, ids) in group.iter().zip(answers) {
                        // A caller that no longer waits has no use for the answer.
                        let _ = request.reply.send(Ok(ids));
                    }
                }
                Err(error) => self.refuse(group, &error),
            }
        }
    }

    fn commit(&mut self, group: &[Request]) -> Result<Vec<Vec<TableId>>, TableError> {
        if let Some(episode) = &self.episode {
            if Instant::now() < episode.retry_at {
                return Err(episode.why.clone());
            }
            self.reopen().map_err(|error| self.failed(error))?;
        }
        match self.write(group) {
            Ok(mut answers) => {
                answers.drain(..self.owed.len());
                self.owed.clear();
                self.ended();
                Ok(answers)
            }
            // One record; the others are none the worse.
            Err(error @ (TableError::Damaged(_) | TableError::NotAName)) => Err(error),
            Err(error) => {
                let why = self.failed(error);
                if let Err(error) = self.reopen() {
                    self.failed(error);
                }
                Err(why)
            }
        }
    }

    fn write(&self, group: &[Request]) -> Result<Vec<Vec<TableId>>, TableError> {
        let shared = &self.shared;
        let touched = std::mem::take(&mut *shared.touched.lock());
        let changes = self.owed.iter();
        let changes = changes.chain(group.iter().map(|request| &request.change));
        let next_number = shared.next_number.load(Ordering::Relaxed);
        let store = shared.store.read();
        let store = store.as_ref().map_err(Clone::clone)?;
        let (next_number, answers) =
            store.commit(changes, &touched, next_number, shared.objects_max)?;
        shared.next_number.store(next_number, Ordering::Relaxed);
        Ok(answers)
    }

    /// Opens the file anew: a store that failed once is of no use.
    fn reopen(&self) -> Result<(), TableError> {
        let mut store = self.shared.store.write();
        // The old one must not look at the file beside the new one.
        *store = Err(TableError::Closed);
        match self.shared.open_store(Check::AfterCrash) {
            Ok((opened, next_number)) => {
                *store = Ok(opened);
                self.shared
                    .next_number
                    .store(next_number, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                *store = Err(error.clone());
                Err(error)
            }
        }
    }

    /// Begins an episode or goes on with it.
    fn failed(&mut self, why: TableError) -> TableError {
        let took = *self.shared.opening_took.lock();
        let retry_at = Instant::now() + limits::HANDLE_TABLE_RETRY.max(took * PAUSE_PER_OPENING);
        if let Some(episode) = &mut self.episode {
            episode.retry_at = retry_at;
        } else {
            tracing::error!(
                table = %self.shared.path.display(),
                "{why}; what clients know goes on, what is new to them is refused until it can be written again"
            );
            self.episode = Some(Episode {
                why: why.clone(),
                retry_at,
                refused: 0,
            });
            self.shared.is_writable.store(false, Ordering::Relaxed);
        }
        why
    }

    fn ended(&mut self) {
        if let Some(episode) = self.episode.take() {
            self.shared.is_writable.store(true, Ordering::Relaxed);
            tracing::info!(
                table = %self.shared.path.display(),
                refused = episode.refused,
                "the handle table can be written again"
            );
        }
    }

    fn refuse(&mut self, group: Vec<Request>, why: &TableError) {
        for Request { change, reply } in group {
            let answer = match change {
                // The name has gone already, and that it is remembered does little harm.
                Change::Removed(_) | Change::Renamed { .. } => {
                    if self.owed.len() < limits::HANDLE_TABLE_OWED_MAX {
                        self.owed.push(change);
                    }
                    Ok(Vec::new())
                }
                Change::Root(_) | Change::Intern(_) | Change::Linked { .. } | Change::Probe => {
                    self.shared.refused.fetch_add(1, Ordering::Relaxed);
                    if let Some(episode) = &mut self.episode {
                        episode.refused += 1;
                    }
                    Err(why.clone())
                }
            };
            let _ = reply.send(answer);
        }
    }
}

/// A large table takes long to open, and nothing is served meanwhile: at most a tenth of the time.
const PAUSE_PER_OPENING: u32 = 9;
