//! `penstock serve`: from flags or a file to a running server, and from a signal to its end.

mod around;
mod confine;
mod options;
mod report;

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use nfs_server::exports::config::Config;
use nfs_server::host::state_dir::{self, ServerRecord, StateDir};
use nfs_server::host::systemd;
use nfs_server::{Server, ServerOptions};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use around::{Around, Doors};
pub(crate) use options::Args;
use report::Report;

use crate::logging::{self, SetLevel};

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let no_file_cache = self.no_file_cache;
        let plan = self.plan()?;
        let set_level = logging::start(plan.config.server.log, plan.config.server.log_json);
        let mut told = Report::new(plan.config.server.log_json);
        if let Some(directory) = &plan.create {
            create_directory(directory, &mut told)?;
        }
        let state_dir = match &plan.config.server.state_dir {
            Some(path) => path.clone(),
            None => state_dir::default_path(&plan.served)?,
        };
        let state_dir = StateDir::open(&state_dir)?;
        let listeners = listeners(&plan.config.server.listen, plan.any_port, &mut told)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(serve(
            plan.config,
            plan.loaded,
            state_dir,
            listeners,
            told,
            set_level,
            no_file_cache,
        ))
    }
}

fn create_directory(directory: &Path, told: &mut Report) -> anyhow::Result<()> {
    let shown = directory.display();
    match std::fs::create_dir(directory) {
        Ok(()) => told.line(format!("created {shown}")),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error).with_context(|| format!("cannot create {shown}")),
    }
    Ok(())
}

/// The sockets to listen on: systemd's if it passed some, else bound to `listen`. With `any_port`
/// a free port will do where the one asked for is taken.
fn listeners(
    listen: &[SocketAddr],
    any_port: bool,
    told: &mut Report,
) -> anyhow::Result<Vec<TcpListener>> {
    let passed = systemd::listeners().context("sockets passed by systemd")?;
    if !passed.is_empty() {
        told.line("listening on the sockets that systemd passed".to_owned());
        return Ok(passed);
    }
    let mut listeners = Vec::with_capacity(listen.len());
    for address in listen {
        let listener = match TcpListener::bind(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && any_port => {
                told.line(format!(
                    "port {} is taken, so a free one is used",
                    address.port()
                ));
                TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            }
            bound => bound,
        };
        let listener = listener.map_err(|error| {
            let cure = match error.kind() {
                io::ErrorKind::AddrInUse => "; stop what listens there, or choose another port",
                io::ErrorKind::PermissionDenied => "; ports below 1024 need CAP_NET_BIND_SERVICE",
                io::ErrorKind::AddrNotAvailable => "; it is no address of this machine",
                _ => "",
            };
            anyhow::Error::msg(format!("cannot listen on {address}: {error}{cure}"))
        })?;
        listener.set_nonblocking(true)?;
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Runs the server until SIGTERM, SIGINT or `ctl drain`.
async fn serve(
    config: Config,
    loaded: Config,
    state_dir: StateDir,
    listeners: Vec<TcpListener>,
    mut told: Report,
    set_level: SetLevel,
    no_file_cache: bool,
) -> anyhow::Result<ExitCode> {
    file_limit_is_no_end()?;
    // Before anything can signal us: a SIGTERM from here on drains.
    let hangup = signal(SignalKind::hangup())?;
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let bound = listeners
        .iter()
        .map(TcpListener::local_addr)
        .collect::<io::Result<Vec<_>>>()?;
    state_dir.write_record(&record(&config, &bound))?;
    let doors = Doors::bind(&config, &state_dir, &bound).await?;
    let http = doors.http_urls()?;
    confine::enter(&config, &state_dir, &listeners)?;
    let options = ServerOptions {
        config: config.clone(),
        state_dir,
        listeners,
    };
    let server = Arc::new(Server::start(options)?);
    server.write_calls_at_crash()?;
    if no_file_cache {
        server.keep_no_files();
    }
    let addresses = server.local_addrs();
    let drain = Arc::new(Notify::new());
    let around = Around::start(doors, &config, loaded, &server, &drain, hangup, set_level);

    told.started(&config, &addresses, &server.facts());
    announce(&addresses, &http)?;
    systemd::ready(&format!("serving on {}", report::joined(&addresses)));
    let shutdown = async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: draining"),
            _ = interrupt.recv() => tracing::info!("SIGINT: draining"),
            () = drain.notified() => tracing::info!("asked to drain"),
        }
        systemd::stopping();
        tokio::spawn(end_at_next_signal(terminate, interrupt));
    };
    let outcome = server.run_until(shutdown).await;
    around.end().await;
    outcome?;
    tracing::info!("ended");
    Ok(ExitCode::SUCCESS)
}

/// A write past the process's limit on the length of files (`ulimit -f`, systemd's `LimitFSIZE=`) is
/// answered with NFS3ERR_FBIG. The kernel sends SIGXFSZ as well, which unhandled ends the process.
fn file_limit_is_no_end() -> io::Result<()> {
    let kind = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    // The handler stays when nobody listens any more.
    signal(kind).map(drop)
}

fn record(config: &Config, listeners: &[SocketAddr]) -> ServerRecord {
    let exports = config.exports.iter();
    ServerRecord {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        listeners: listeners.to_vec(),
        exports: exports
            .map(|export| (export.pseudo.clone(), export.path.clone()))
            .collect(),
    }
}

/// Whoever asks twice does not want to wait. Nothing acknowledged is lost: a crash would do the same.
async fn end_at_next_signal(mut terminate: Signal, mut interrupt: Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::warn!("asked again: ending without draining");
    std::process::exit(1);
}

/// `ready` on standard output, for scripts that wait for it, then a line for each address, for
/// those that asked for a free port, and one for each of `http`: a word, and the address of a page.
fn announce(addresses: &[SocketAddr], http: &[(&str, String)]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let mut listening: String = addresses
        .iter()
        .map(|address| format!("listening {address}\n"))
        .collect();
    for (word, url) in http {
        listening.push_str(&format!("{word} {url}\n"));
    }
    let written = write!(out, "ready\n{listening}").and_then(|()| out.flush());
    match written {
        // Nobody listens to our standard output: not a reason to stop serving.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
