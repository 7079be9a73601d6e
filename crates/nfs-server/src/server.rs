//! The server as a whole: started with everything it needs, run until told to stop.
//!
//! STUB: the shape that `penstock serve` is written against; it accepts nobody.

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;

use crate::config::Config;
use crate::control::{ClientStatus, ExportStatus, Status};
use crate::exports::ExportTable;
use crate::state_dir::StateDir;

/// What a server is started with.
#[derive(Debug)]
pub struct ServerOptions {
    /// What to serve and how.
    pub config: Config,
    /// Held by the server until it is dropped.
    pub state_dir: StateDir,
    /// Bound and non-blocking: `config.server.listen`, a free port, or what systemd passed.
    pub listeners: Vec<TcpListener>,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// With its cure.
    #[error("{0}")]
    Failed(String),
}

/// A running server. It serves from [`Server::start`] on.
#[derive(Debug)]
pub struct Server {
    options: ServerOptions,
    table: ArcSwap<ExportTable>,
    started: Instant,
}

impl Server {
    /// Starts serving.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(options: ServerOptions) -> Result<Self, StartError> {
        let table = ExportTable::new(&options.config)
            .map_err(|error| StartError::Failed(error.to_string()))?;
        Ok(Self {
            options,
            table: ArcSwap::from_pointee(table),
            started: Instant::now(),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        let addresses = self.options.listeners.iter().map(TcpListener::local_addr);
        addresses.filter_map(Result::ok).collect()
    }

    /// What was found and decided at start: engine, capabilities, limits. One line each, for people.
    #[must_use]
    pub fn facts(&self) -> Vec<String> {
        vec![format!("capabilities: {}", nfs_io::caps::summary())]
    }

    /// For `penstock ctl status`.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs(),
            listeners: self.local_addrs(),
            state_dir: self.options.state_dir.path().to_owned(),
            exports: self.table.load().exports().len(),
            ..Status::default()
        }
    }

    /// For `penstock ctl exports`.
    #[must_use]
    pub fn exports(&self) -> Vec<ExportStatus> {
        self.table
            .load()
            .exports()
            .iter()
            .map(|export| ExportStatus::of(export))
            .collect()
    }

    /// For `penstock ctl clients`.
    #[must_use]
    pub fn clients(&self) -> Vec<ClientStatus> {
        Vec::new()
    }

    /// Serves another table from now on, all of it or, on error, the old one.
    ///
    /// # Errors
    /// Which export cannot be served, and why.
    pub fn apply(&self, table: ExportTable) -> Result<(), String> {
        self.table.store(Arc::new(table));
        Ok(())
    }

    /// Serves until `shutdown` is done, then finishes what is under way and ends all threads.
    ///
    /// # Errors
    /// What made the server end by itself.
    pub async fn run_until(&self, shutdown: impl Future<Output = ()>) -> Result<(), StartError> {
        shutdown.await;
        Ok(())
    }
}
