//! The server as a whole: started with everything it needs, run until told to stop.

mod cache;
mod ebb;
mod exports;
mod held;
mod hosts;
mod io;
mod metrics;
mod names;
mod why;

use std::collections::BTreeMap;
use std::future::Future;
use std::hash::RandomState;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nfs_io::caps::{self, Capability};
use nfs_io::identity::ServerIdentity;
use nfs_io::{Budget, BufferPool, BusyPoll, EngineKind, PoolLimits, fs, heap, probe};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use self::ebb::Ebb;
use self::names::AskedNames;
use crate::exports::ExportTable;
use crate::exports::config::{Config, EngineChoice};
use crate::front::nfs4::notify_waiters;
use crate::front::service::Service;
use crate::host::call_notes::CallNotes;
use crate::host::confinement;
use crate::host::congestion;
use crate::host::state_dir::StateDir;
use crate::limits;
use crate::net::accept::{Entrance, accept};
use crate::net::clients::Clients;
use crate::net::shard::{self, ShardStart};
use crate::net::shards::Shards;
use crate::operate::audit::Audit;
use crate::operate::calls::Recorder;
use crate::operate::control::{
    Asker, AuditFollower, CallFollower, CallQuery, ClientStatus, ConfinementStatus, FollowRequest,
    Follower, IoStatus, Listening, MemoryStatus, RecorderLevel, Recording, RecordingQuery, Status,
    TraceChange, TraceStatus, VerifierOrder, VerifierStatus,
};
use crate::operate::counters::{Counters, count};
use crate::rpc::reply_cache::ReplyCache;
use crate::rpc::standing::Door;
use crate::state::{States, TICK};
use crate::vfs::file_cache::Cursor;
use crate::vfs::handle_table::HandleTable;
use crate::vfs::{Resources, Vfs};

/// What a server is started with.
#[derive(Debug)]
pub struct ServerOptions {
    /// The configuration: what to serve, and how.
    pub config: Config,
    /// Held by the server until it is dropped.
    pub state_dir: StateDir,
    /// Bound and non-blocking: `config.server.listen`, a free port, or what systemd passed.
    pub listeners: Vec<TcpListener>,
}

/// The reason for which a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// What is wrong with the configuration or the machine, with its cure.
    #[error("{0}")]
    Failed(String),
}

/// A running server. Connections wait in its listeners from [`Server::start`] on and are served
/// from [`Server::run_until`] on.
pub struct Server {
    service: Arc<Service>,
    clients: Arc<Clients>,
    state_dir: StateDir,
    listeners: Vec<TcpListener>,
    trust_loopback: bool,
    shards: Arc<Shards>,
    shard_threads: Mutex<Vec<ShardThread>>,
    shard_count: usize,
    /// What its shards do.
    busy_poll: BusyPoll,
    /// Whether that was left to the server.
    busy_poll_is_auto: bool,
    congestion_control: Option<String>,
    drain: watch::Sender<bool>,
    facts: Facts,
    started: Instant,
    /// What is known of the names of clients, and being asked.
    names: Arc<AskedNames>,
    /// Held while exports or their settings are changed.
    settings_turn: Mutex<()>,
}

type ShardThread = JoinHandle<std::io::Result<()>>;

/// What was found and decided at start.
pub(crate) struct Facts {
    engine: EngineKind,
    engine_why: String,
    fds: u64,
    budget: Budget,
    send_budget: Budget,
    local_programs: String,
}

impl Facts {
    pub(crate) fn new(
        memory_bytes: u64,
        (engine, engine_why): (EngineKind, String),
        fds: u64,
    ) -> Self {
        // Half for what comes, half for what goes: neither can starve the other.
        let half = memory_bytes / 2;
        Self {
            engine,
            engine_why,
            fds,
            budget: Budget::new(half),
            send_budget: Budget::new(half),
            local_programs: String::new(),
        }
    }
}

impl Server {
    /// Starts everything but accepting.
    ///
    /// # Errors
    /// [`StartError`], with the cure.
    pub fn start(options: ServerOptions) -> Result<Self, StartError> {
        Self::start_within(options, fs::raise_nofile(u64::MAX))
    }

    /// Starts everything but accepting, as [`Server::start`] does, with at most `fds` descriptors for
    /// connections and open files together: for a program that runs the server beside something else.
    ///
    /// # Errors
    /// [`StartError`], with the cure.
    pub fn start_within(options: ServerOptions, fds: u64) -> Result<Self, StartError> {
        let ServerOptions {
            config,
            state_dir,
            listeners,
        } = options;
        // A client's root is no reason to use the blocks reserved for the administrator's.
        if caps::has(Capability::SysResource)
            && let Err(error) = caps::drop_effective(Capability::SysResource)
        {
            tracing::debug!(%error, "CAP_SYS_RESOURCE stays");
        }
        let congestion_control = config.server.congestion_control.clone();
        if let Some(name) = &congestion_control {
            congestion::choose(&listeners, name).map_err(StartError::Failed)?;
        }
        ServerIdentity::current();
        let trust_loopback = config.server.trust_loopback;
        let mut facts = Facts::new(
            config.server.memory_bytes,
            choose_engine(config.server.engine)?,
            fds,
        );
        facts.local_programs = Door::for_trial(trust_loopback).fact();
        let service = Arc::new(make_service(&config, &state_dir, &facts)?);
        let half = usize::try_from(fds / 2).unwrap_or(usize::MAX);
        let clients = Arc::new(Clients::new(
            limits::CONNECTIONS_MAX.min(half),
            facts.budget.total(),
        ));
        let (drain, draining) = watch::channel(false);
        let shard_count = config.server.shards.unwrap_or_else(processors);
        let busy_poll = where_processors_are_not_rationed(config.server.busy_poll);
        let of_each = (shard_count, busy_poll);
        let (shards, shard_threads) = start_shards(of_each, &service, &clients, &facts, &draining)?;
        Ok(Self {
            service,
            clients,
            state_dir,
            listeners,
            trust_loopback,
            shards,
            shard_threads: Mutex::new(shard_threads),
            shard_count,
            busy_poll,
            busy_poll_is_auto: config.server.busy_poll.is_auto(),
            congestion_control,
            drain,
            facts,
            started: Instant::now(),
            names: Arc::default(),
            settings_turn: Mutex::default(),
        })
    }

    /// The addresses that MOUNT and NFS are answered on.
    #[must_use]
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.listeners
            .iter()
            .map(TcpListener::local_addr)
            .filter_map(Result::ok)
            .collect()
    }

    /// What was found and decided at start: engine, capabilities, limits. One line each, for people.
    #[must_use]
    pub fn facts(&self) -> Vec<String> {
        let handles = match self.service.vfs.table.get() {
            None => "handles: the kernel's (open_by_handle_at)",
            Some(_) if caps::has(Capability::DacReadSearch) => {
                "handles: a table in the state directory, for file systems without handles of their own"
            }
            Some(_) => "handles: a table in the state directory (no CAP_DAC_READ_SEARCH)",
        };
        let mut facts = vec![
            format!("engine: {} ({})", self.facts.engine, self.facts.engine_why),
            format!("capabilities: {}", caps::summary()),
            handles.to_owned(),
            format!(
                "limits: {} open files, {} in the file cache; {} MiB of I/O buffers; \
                 READ and WRITE up to {} KiB; {} shards",
                self.facts.fds,
                self.service.vfs.files.stats().fds_max,
                (self.facts.budget.total() + self.facts.send_budget.total()) >> 20,
                self.service.vfs.io_bytes_max >> 10,
                self.shard_count,
            ),
        ];
        if !self.busy_poll.is_off() && !self.busy_poll.is_auto() {
            facts.push(format!(
                "busy polling: a shard that had something to do looks for more for {} before it sleeps, and keeps a \
                 processor busy meanwhile",
                self.busy_poll
            ));
        }
        if let Some(name) = &self.congestion_control {
            facts.push(format!("congestion control: replies are sent with {name}"));
        }
        let most = self.service.vfs.files.fds_max();
        if most < limits::FILE_CACHE_FDS_FEW {
            facts.push(format!(
                "descriptors: {} are few: {most} for open files at once, beyond which files are synced \
                 and closed early and clients may be told to come again; raise LimitNOFILE= of the \
                 systemd unit, or ulimit -n",
                self.facts.fds,
            ));
        }
        let own = ServerIdentity::current();
        if let Some(obstacle) = own.obstacle() {
            facts.push(format!(
                "identity: this server cannot act as other users ({obstacle}): everybody's requests run as its own user {} and group {}",
                own.creds().uid().0,
                own.creds().gid().0,
            ));
        }
        facts.push(self.facts.local_programs.clone());
        facts.extend(confinement_status().iter().map(ToString::to_string));
        facts
    }

    /// The state of the server, for `penstock ctl status`.
    #[must_use]
    pub fn status(&self) -> Status {
        let budgets = [&self.facts.budget, &self.facts.send_budget];
        let sum = |of: fn(&Budget) -> u64| budgets.iter().map(|budget| of(budget)).sum();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs(),
            state: if *self.drain.borrow() {
                Listening::Draining
            } else {
                Listening::Serving
            },
            engine: format!("{} ({})", self.facts.engine, self.facts.engine_why),
            capabilities: caps::summary(),
            confinement: confinement_status(),
            handles: if self.service.vfs.table.get().is_some() {
                "table"
            } else {
                "kernel"
            }
            .to_owned(),
            listeners: self.local_addrs(),
            state_dir: self.state_dir.path().to_owned(),
            verifier: format!(
                "{:016x}",
                u64::from_be_bytes(self.service.vfs.verifier.bytes())
            ),
            shards: self.shard_count,
            busy_poll_us: self.busy_poll.microseconds(),
            busy_poll_is_auto: self.busy_poll_is_auto,
            congestion_control: self.congestion_control.clone(),
            exports: self.service.vfs.trees.load().table.exports().len(),
            connections: self.service.counters.connections.load(Ordering::Relaxed),
            blocked: self.service.blocked.list(Instant::now()),
            memory: MemoryStatus {
                budget_bytes: sum(Budget::total),
                in_use_bytes: sum(Budget::in_use),
                peak_bytes: sum(Budget::peak),
            },
            counters: self.counters(),
            procedures: self.service.counters.procedures(),
            operations: self.service.counters.operations(),
            io: self.io(),
        }
    }

    /// How the bytes of READ and WRITE were moved, by export in the order of the configuration,
    /// operation and mode: what counts anything.
    #[must_use]
    pub fn io(&self) -> Vec<IoStatus> {
        let trees = self.service.vfs.trees.load();
        let exports = trees.table.exports().iter();
        exports
            .filter_map(|export| trees.by_id(export.id))
            .flat_map(|tree| tree.io.stats(&tree.export.pseudo))
            .collect()
    }

    /// Changes which trace events go to the log: what `penstock ctl trace on`, `off` and `list` ask for.
    ///
    /// # Errors
    /// In words: a name that is no event's.
    pub fn trace(&self, change: &TraceChange) -> Result<TraceStatus, String> {
        let trace = &self.service.vfs.trace;
        match change {
            TraceChange::On(events) => trace.log_on(events),
            TraceChange::Off(events) => trace.log_off(events),
            TraceChange::List => Ok(trace.status()),
        }
    }

    /// Follows trace events, as `penstock ctl trace follow` asks for. The events are on until the answer is
    /// dropped.
    ///
    /// # Errors
    /// In words: a name that is no event's, an export that is not served, too many followers.
    pub fn follow(&self, request: &FollowRequest) -> Result<Follower, String> {
        self.service.vfs.trace.follow(request)
    }

    /// Follows single calls with their steps, or tells those that the flight recorder has, as `penstock ctl trace
    /// tree` asks for. All steps are recorded until the answer is dropped.
    ///
    /// # Errors
    /// In words: a name that is no procedure's, an export that is not served, too many followers.
    pub fn follow_calls(&self, query: &CallQuery) -> Result<CallFollower, String> {
        self.service.calls.follow(query)
    }

    /// Records calls, as `penstock trace record` asks for, until the answer is dropped.
    ///
    /// # Errors
    /// In words: an export that is not served, too many that record.
    pub fn record_calls(&self, query: &RecordingQuery) -> Result<Recording, String> {
        self.service.calls.record(query)
    }

    /// Has a file with the last calls written into the state directory if this process panics, or is ended by a signal
    /// that says that something went wrong. For a process that serves and does nothing else.
    ///
    /// # Errors
    /// No descriptors or no thread to be had.
    pub fn write_calls_at_crash(&self) -> std::io::Result<()> {
        self.service.calls.write_at_crash(self.state_dir.path())
    }

    /// Opens each file anew for every call, as far as that loses nothing. For measurements of what the open-file cache
    /// saves.
    pub fn keep_no_files(&self) {
        self.service
            .vfs
            .keeps_no_files
            .store(true, Ordering::Relaxed);
    }

    /// Says how much the flight recorder keeps, after it was changed to `level`, if that is given.
    pub fn recorder_level(&self, level: Option<RecorderLevel>) -> RecorderLevel {
        if let Some(level) = level {
            self.service.calls.set_level(level);
        }
        self.service.calls.level()
    }

    /// Follows the audit, as `penstock ctl audit follow` asks for.
    ///
    /// # Errors
    /// In words: no export is audited, too many followers.
    pub fn follow_audit(&self) -> Result<AuditFollower, String> {
        self.service.audit.follow()
    }

    /// Tells the write verifier, and changes it if that is asked for: then every client sends again what it wrote
    /// UNSTABLE and has not committed.
    #[must_use]
    pub fn verifier(&self, order: VerifierOrder, asker: Asker) -> VerifierStatus {
        let verifier = &self.service.vfs.verifier;
        if order.change {
            verifier.change_as_asked();
            tracing::warn!(
                "the write verifier was changed, as asked by {asker}: clients send again what they have not committed"
            );
        }
        VerifierStatus {
            verifier: format!("{:016x}", u64::from_be_bytes(verifier.bytes())),
            changes: verifier.changes(),
        }
    }

    /// The clients that are connected, for `penstock ctl clients`.
    #[must_use]
    pub fn clients(&self) -> Vec<ClientStatus> {
        self.clients.list()
    }

    /// Serves until `shutdown` is done, then finishes what is under way and ends all threads.
    ///
    /// # Errors
    /// What made the server end by itself.
    pub async fn run_until(&self, shutdown: impl Future<Output = ()>) -> Result<(), StartError> {
        let sweepers = [
            tokio::spawn(sweep(Arc::clone(&self.service.vfs))),
            tokio::spawn(sweep_idle(Arc::clone(&self.service))),
            tokio::spawn(sweep_staged(Arc::clone(&self.service.vfs))),
            tokio::spawn(look_at_page_cache(Arc::clone(&self.service.vfs))),
            tokio::spawn(tick(Arc::clone(&self.service))),
            tokio::spawn(notify(Arc::clone(&self.service))),
            tokio::spawn(names::keep(
                Arc::clone(&self.service),
                Arc::clone(&self.names),
            )),
        ];
        let accepting = self.accept();
        tokio::select! {
            failed = accepting => failed?,
            () = shutdown => {}
        }
        for sweeper in sweepers {
            sweeper.abort();
        }
        self.drain.send_replace(true);
        let threads = std::mem::take(&mut *self.shard_threads.lock());
        let service = Arc::clone(&self.service);
        let ended = tokio::task::spawn_blocking(move || {
            end(&service.vfs, threads);
            service.audit.close();
        });
        let ended = ended.await;
        ended.map_err(|error| StartError::Failed(format!("a thread panicked: {error}")))
    }

    async fn accept(&self) -> Result<(), StartError> {
        let entrance = Entrance {
            service: Arc::clone(&self.service),
            clients: Arc::clone(&self.clients),
            trust_loopback: self.trust_loopback,
            shards: Arc::clone(&self.shards),
        };
        let accepted = accept(Arc::new(entrance), &self.listeners).await;
        let why = match accepted {
            Ok(()) => "a shard ended by itself".to_owned(),
            Err(error) => format!("listener: {error}"),
        };
        Err(StartError::Failed(why))
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let counters = &self.service.counters;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let of_files = &self.service.vfs.counters;
        let files = self.service.vfs.files.stats();
        let commits = self.service.vfs.committer.stats();
        let pool = self.service.vfs.pool.stats();
        let others = [
            ("system_calls_refused", confinement::refused().times),
            ("call_notes_failed", self.service.replies.notes_failed()),
            ("trace_events_lost", self.service.vfs.trace.lost()),
            ("trace_calls_lost", self.service.calls.lost()),
            ("verifier_changes", self.service.vfs.verifier.changes()),
            ("file_cache_objects", files.objects as u64),
            ("file_cache_fds", files.fds as u64),
            ("file_cache_hits", files.hits),
            ("file_cache_misses", files.misses),
            ("file_cache_evictions", files.evictions),
            ("file_cache_fds_max", files.fds_max as u64),
            ("file_cache_write_opens", self.service.vfs.writers.opens()),
            (
                "file_cache_synced_for_room",
                load(&of_files.synced_for_room),
            ),
            (
                "file_cache_removed_locally",
                load(&of_files.removed_locally),
            ),
            ("file_cache_sweeps", load(&of_files.sweeps)),
            ("commit_requests", commits.requests),
            ("commit_rounds", commits.rounds),
            ("commit_syncs", commits.syncs),
            ("helper_threads", pool.threads as u64),
            ("helper_jobs_running", pool.running as u64),
            ("helper_jobs_queued", pool.queued as u64),
            ("helper_jobs_refused", pool.refused),
            (
                "handle_table_refused",
                self.service.vfs.table.get().map_or(0, HandleTable::refused),
            ),
        ];
        let named = counters.named().into_iter().chain(others);
        let named = named.chain(counters.access.named());
        let named = named.chain(self.service.vfs.stages.named());
        let named = named.chain(of_files.reserve.named());
        let named = named.chain(of_files.order.named());
        let named = named.chain(self.service.audit.counters());
        let named = named.chain(self.name_counters());
        let named = named.map(|(name, value)| (name.to_owned(), value));
        let calls = counters.procedures().into_iter().map(|status| {
            let name = status.procedure.to_lowercase();
            (format!("calls_{name}"), status.calls)
        });
        let operations = counters.operations().into_iter().map(|status| {
            let name = status.procedure.to_lowercase();
            (format!("operations_{name}"), status.calls)
        });
        let of_states = self.service.states.iter().flat_map(|states| states.named());
        let of_states = of_states.map(|(name, value)| (name.to_owned(), value));
        named
            .chain(calls)
            .chain(operations)
            .chain(of_states)
            .collect()
    }
}

fn confinement_status() -> Vec<ConfinementStatus> {
    let parts = confinement::in_force().iter();
    parts
        .map(|part| ConfinementStatus {
            part: part.name.to_owned(),
            state: part.state.word().to_owned(),
            detail: part.detail.clone(),
        })
        .collect()
}

/// Closes files for writing to which nobody writes, lets go of those that were removed on this host, and looks how
/// memory is.
async fn sweep(vfs: Arc<Vfs>) {
    let (mut cursor, mut refused) = (Cursor::default(), confinement::refused());
    loop {
        refused = confinement::tell_refused(refused);
        tokio::time::sleep(Duration::from_secs(limits::SWEEP_SECONDS)).await;
        let swept = Arc::clone(&vfs);
        let job = tokio::task::spawn_blocking(move || {
            swept.files.set_clock();
            swept.close_quiet();
            swept.ahead.drop_old(Instant::now());
            swept.surroundings.look();
            swept.let_removed_go(&mut cursor);
            count(&swept.counters.sweeps);
            cursor
        });
        match job.await {
            Ok(left) => cursor = left,
            Err(error) => {
                tracing::error!(%error, "looking through the file cache failed");
                cursor = Cursor::default();
            }
        }
    }
}

/// Has done what is due of the state of NFSv4's clients.
async fn tick(service: Arc<Service>) {
    let Some(states) = &service.states else {
        return;
    };
    loop {
        tokio::time::sleep(TICK).await;
        states.tick(&service.vfs).await;
    }
}

/// Tells NFSv4 clients of locks that they wait for.
async fn notify(service: Arc<Service>) {
    if let Some(states) = service.states.clone() {
        notify_waiters(&service, states).await;
    }
}

/// Finds out how much the page cache holds of open files, while somebody asks for it. Beside the other sweeps, which are
/// not to wait where a file system has somebody wait for an open.
async fn look_at_page_cache(vfs: Arc<Vfs>) {
    loop {
        tokio::time::sleep(Duration::from_secs(limits::SWEEP_SECONDS)).await;
        let vfs = Arc::clone(&vfs);
        let look = tokio::task::spawn_blocking(move || vfs.look_at_page_cache(Instant::now()));
        if let Err(error) = look.await {
            tracing::error!(%error, "looking at the page cache failed");
        }
    }
}

/// Has ends of WRITEs written that wait for a neighbour for long.
async fn sweep_staged(vfs: Arc<Vfs>) {
    loop {
        tokio::time::sleep(Duration::from_millis(limits::STAGED_SWEEP_MILLISECONDS)).await;
        vfs.flush_aged();
    }
}

/// Puts objects that nobody uses out of the file cache, and old replies out of theirs, gives memory back, that of
/// idle buffers too, and says what lines of the log were left out, now and then.
async fn sweep_idle(service: Arc<Service>) {
    let mut ebb = Ebb::default();
    loop {
        tokio::time::sleep(Duration::from_secs(limits::FILE_CACHE_IDLE_SECONDS)).await;
        service.replies.expire(Instant::now());
        // The lock is not held while lines are written.
        let left_out = service.notices.lock().overdue(Instant::now());
        for left_out in left_out {
            tracing::warn!("{left_out}");
        }
        let swept = Arc::clone(&service.vfs);
        // Closing may wait for a disk.
        let job = tokio::task::spawn_blocking(move || swept.let_go(swept.files.take_idle()));
        if let Err(error) = job.await {
            tracing::error!(%error, "sweeping the file cache failed");
        }
        let given = [&service.receive_buffers, &service.vfs.read_buffers]
            .map(BufferPool::give_back_untouched)
            .into_iter()
            .sum();
        if ebb.has_come(service.counters.connections_ended(), given)
            && let Err(error) = tokio::task::spawn_blocking(heap::give_back_free_pages).await
        {
            tracing::error!(%error, "giving back memory failed");
        }
    }
}

fn end(vfs: &Arc<Vfs>, threads: Vec<ShardThread>) {
    for thread in threads {
        match thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "a shard failed"),
            Err(_) => tracing::error!("a shard panicked"),
        }
    }
    let flushed = async {
        let most = Duration::from_secs(limits::DRAIN_SECONDS_MAX);
        tokio::time::timeout(most, vfs.flush_stages()).await
    };
    if tokio::runtime::Handle::current().block_on(flushed).is_err() {
        tracing::warn!("ends of WRITEs were not written: their file system does not answer");
    }
    vfs.sync_all();
    vfs.trace.close();
    let left = vfs
        .pool
        .shutdown(Duration::from_secs(limits::DRAIN_SECONDS_MAX));
    if left > 0 {
        tracing::warn!("{left} calls on file systems that do not answer were given up");
    }
}

fn choose_engine(choice: EngineChoice) -> Result<(EngineKind, String), StartError> {
    let probed = match choice {
        EngineChoice::Threads => return Ok((EngineKind::Threads, "as asked for".to_owned())),
        EngineChoice::Auto | EngineChoice::Uring => probe::uring(),
    };
    match (choice, probed) {
        (EngineChoice::Uring, Ok(_)) => Ok((EngineKind::Uring, "as asked for".to_owned())),
        (EngineChoice::Uring, Err(why)) => Err(StartError::Failed(format!(
            "io_uring was asked for and cannot be used: {why}; \
             use --engine threads, or auto to choose by what the kernel offers"
        ))),
        (_, Ok(_)) => Ok((EngineKind::Uring, "found by a probe".to_owned())),
        (_, Err(why)) => Ok((EngineKind::Threads, format!("no io_uring: {why}"))),
    }
}

pub(crate) fn make_service(
    config: &Config,
    state_dir: &StateDir,
    facts: &Facts,
) -> Result<Service, StartError> {
    // The modes of what clients make are theirs to choose.
    fs::umask_zero();
    let failed = |error: String| StartError::Failed(error);
    let exports = ExportTable::new(config).map_err(|error| failed(error.to_string()))?;
    let pool = match config.server.helper_threads {
        Some(threads_max) => PoolLimits {
            threads_max,
            lane_threads_max: (threads_max / 2).max(1),
            ..PoolLimits::default()
        },
        None => PoolLimits::default(),
    };
    let half = usize::try_from(facts.fds / 2).unwrap_or(usize::MAX);
    let resources = Resources {
        pool,
        ring: facts.engine == EngineKind::Uring,
        fds_max: half.saturating_sub(limits::FDS_RESERVED).max(64),
        write_budget: facts.budget.clone(),
        read_budget: facts.send_budget.clone(),
    };
    let vfs = Vfs::open(state_dir.path(), exports, resources).map_err(failed)?;
    let audit = Audit::new(state_dir.path(), config.server.audit_to);
    let versions = config.server.versions;
    let states = match versions.has_v4() {
        true => {
            let times = (config.server.lease_seconds, config.server.grace_seconds);
            Some(States::open(state_dir.path(), vfs.io_bytes_max, times).map_err(failed)?)
        }
        false => None,
    };
    let trees = vfs.trees.load_full();
    audit.set_exports(trees.table.exports().iter().map(AsRef::as_ref));
    let mut of_notes = [0; 24];
    getrandom::fill(&mut of_notes).map_err(|error| failed(format!("random numbers: {error}")))?;
    let notes = Arc::new(CallNotes::open(state_dir.path(), of_notes));
    Ok(Service {
        calls: Recorder::new(vfs.trace.exports()),
        vfs: Arc::new(vfs),
        replies: Arc::new(ReplyCache::new(notes)),
        receive_buffers: BufferPool::new(facts.budget.clone()),
        counters: Counters::default(),
        audit,
        paces: Default::default(),
        notices: Default::default(),
        first_uses: Default::default(),
        rings: Default::default(),
        blocked: Default::default(),
        mounts: Default::default(),
        versions,
        states: states.map(Arc::new),
        lines: Arc::default(),
        accounts: Arc::default(),
        server_groups: config.server.server_groups,
        idmap_domain: config.server.idmap_domain.as_deref().map(Arc::from),
    })
}

fn start_shards(
    (shard_count, busy_poll): (usize, BusyPoll),
    service: &Arc<Service>,
    clients: &Arc<Clients>,
    facts: &Facts,
    drain: &watch::Receiver<bool>,
) -> Result<(Arc<Shards>, Vec<ShardThread>), StartError> {
    // One seed for all shards: a client is the same client on each.
    let client_hasher = RandomState::new();
    let channels = (0..shard_count.clamp(1, limits::SHARDS_MAX)).map(|_| mpsc::unbounded_channel());
    let (inlets, outlets): (Vec<_>, Vec<_>) = channels.unzip();
    let shards = Arc::new(Shards::new(inlets));
    let started = outlets.into_iter().enumerate();
    let threads = started
        .map(|(number, receiver)| {
            let start = ShardStart {
                service: Arc::clone(service),
                engine: facts.engine,
                connections: receiver,
                drain: drain.clone(),
                client_hasher: client_hasher.clone(),
                clients: Arc::clone(clients),
                memory_bytes: facts.budget.total() + facts.send_budget.total(),
                number,
                shards: Arc::clone(&shards),
                busy_poll,
            };
            std::thread::Builder::new()
                .name(format!("shard-{number}"))
                .spawn(move || shard::run(start))
                .map_err(|error| StartError::Failed(format!("shard thread: {error}")))
        })
        .collect::<Result<_, _>>()?;
    Ok((shards, threads))
}

/// How long shards look for more, which is not at all where they would use up what their control group may have of the
/// processors, and stand still then: but for those that were told how long.
fn where_processors_are_not_rationed(busy_poll: BusyPoll) -> BusyPoll {
    match busy_poll.is_auto() && nfs_io::processors::time_is_rationed() {
        true => BusyPoll::OFF,
        false => busy_poll,
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
