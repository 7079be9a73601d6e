//! Several connections to one server, used as one.
//!
//! Each call goes over the one with the least to do, and stays with it: an xid and what is sent again
//! belong to one connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::task::JoinSet;

use super::operations::{Operation, add_all};
use super::{ConnectOptions, Connection, Reconnect, Stats, Target};
use crate::error::RpcError;
use crate::limits::NCONNECT_MAX;

/// One to [`NCONNECT_MAX`] connections to one server. Clones share them.
#[derive(Clone, Debug)]
pub struct Connections {
    /// All connections: one at least.
    all: Arc<[Connection]>,
}

impl From<Connection> for Connections {
    fn from(only: Connection) -> Self {
        Self {
            all: Arc::new([only]),
        }
    }
}

impl Connections {
    /// `first` and more like it, `count` in all (at most [`NCONNECT_MAX`]). The others are made at once;
    /// one that cannot be made is tried again when calls would use it, and does not hurt the rest.
    pub async fn more(first: Connection, count: u32) -> Self {
        let mut making = JoinSet::new();
        for _ in 1..count.min(NCONNECT_MAX) {
            let (target, options) = (first.target().clone(), first.options().clone());
            making.spawn(async move { one_more(target, options).await });
        }
        let mut all = vec![first];
        while let Some(made) = making.join_next().await {
            all.extend(made.ok().flatten());
        }
        Self { all: all.into() }
    }

    /// All of them; there is at least one.
    pub fn all(&self) -> &[Connection] {
        &self.all
    }

    /// The first connection, which exists in any case.
    #[expect(
        clippy::indexing_slicing,
        reason = "both constructors put one connection in"
    )]
    pub fn first(&self) -> &Connection {
        &self.all[0]
    }

    /// The one with the fewest calls among those that are up, the first of equals. One that is down is
    /// brought up again meanwhile.
    pub fn least_busy(&self) -> &Connection {
        if self.all.len() == 1 {
            return self.first();
        }
        let rank = |connection: &&Connection| {
            let shared = &connection.handle.shared;
            let down = !shared.up.load(Ordering::Relaxed);
            if down {
                shared.bring_up();
            }
            (down, shared.load.load(Ordering::Relaxed))
        };
        self.all.iter().min_by_key(rank).unwrap_or(self.first())
    }

    /// How often one of them was made again: as long as it stays the same, no reply has come from a
    /// server that was started since.
    pub fn remade(&self) -> u64 {
        let remade = |one: &Connection| one.handle.shared.remade.load(Ordering::Acquire);
        self.all.iter().map(remade).sum()
    }

    /// What the calls of each kind came to over all of them together, in the order of [`super::Kind::all`].
    pub fn operations(&self) -> Vec<Operation> {
        let mut sum = Vec::new();
        for one in self.all.iter() {
            add_all(&mut sum, one.operations());
        }
        sum
    }

    /// What all of them have counted together.
    pub fn stats(&self) -> Stats {
        self.all
            .iter()
            .fold(Stats::default(), |sum, one| sum.plus(&one.stats()))
    }
}

async fn one_more(target: Target, options: ConnectOptions) -> Option<Connection> {
    match Connection::connect(target.clone(), options.clone()).await {
        Ok(connection) => Some(connection),
        Err(RpcError::Connect { .. }) if options.reconnect != Reconnect::Never => {
            Some(Connection::start(target, options, None))
        }
        Err(_) => None,
    }
}
