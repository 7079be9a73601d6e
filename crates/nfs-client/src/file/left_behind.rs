//! What nobody waits for any more: data of files that were dropped before it was on stable storage.
//!
//! Each such file has a task that brings it there and keeps the file open meanwhile. What failed is kept for
//! [`Client::unmount`](crate::Client::unmount).

use std::future::{Future, poll_fn};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::{JoinError, JoinSet};

use super::{File, Files};
use crate::error::{ClientError, Lost, RpcError};

/// What one client's files have left.
#[derive(Debug, Default)]
pub(super) struct LeftBehind {
    state: Mutex<State>,
    /// Held by the one who waits for the tasks: they wake one at most.
    waiting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    tasks: JoinSet<Result<(), ClientError>>,
    /// The first failure of the tasks that have ended.
    failed: Option<ClientError>,
}

impl State {
    /// Takes note of how a task ended.
    fn ended(&mut self, ended: Result<Result<(), ClientError>, JoinError>) {
        let given_up = || ClientError::Rpc(RpcError::Disconnected(Lost::Here));
        if let Err(error) = ended.unwrap_or_else(|_| Err(given_up())) {
            self.failed.get_or_insert(error);
        }
    }
}

impl LeftBehind {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl File {
    /// The runtime that the file's tasks live on.
    pub(crate) fn runtime(&self) -> &tokio::runtime::Handle {
        self.inner.nfs.connection().runtime()
    }

    /// Has `work` done though nobody waits for it; its failure is told at the end.
    pub(crate) fn leave_behind(
        &self,
        work: impl Future<Output = Result<(), ClientError>> + Send + 'static,
    ) {
        let mut state = self.inner.shared.writing.files().left_behind.lock();
        while let Some(ended) = state.tasks.try_join_next() {
            state.ended(ended);
        }
        state.tasks.spawn_on(work, self.runtime());
    }
}

impl Files {
    /// Waits for all that is left behind, and tells the first failure since this was asked last. Dropped before it is
    /// ready, it has taken nothing.
    pub(crate) async fn finish_left_behind(&self) -> Result<(), ClientError> {
        let left = &self.left_behind;
        let _only = left.waiting.lock().await;
        while let Some(ended) = poll_fn(|cx| left.lock().tasks.poll_join_next(cx)).await {
            left.lock().ended(ended);
        }
        left.lock().failed.take().map_or(Ok(()), Err)
    }
}
