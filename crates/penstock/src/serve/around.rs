//! What a server has around it: control and status socket, `/metrics`, the web page, SIGHUP, rpcbind, portmap.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use nfs_io::accounts;
use nfs_server::Server;
use nfs_server::exports::config::Config;
use nfs_server::exports::reload::{Occasion, Reloader};
use nfs_server::host::portmap::Portmap;
use nfs_server::host::rpcbind::Registration;
use nfs_server::host::state_dir::StateDir;
use nfs_server::host::systemd;
use nfs_server::limits::LIVE_PERIOD_MS;
use nfs_server::metrics;
use nfs_server::operate::control::{
    Asker, ControlSocket, Controls, ExportOrder, ExportsChanged, IoQuery,
};
use nfs_server::operate::http::{HttpListener, Names, Page, Routes};
use nfs_server::operate::live::{Part, Web};
use tokio::signal::unix::Signal;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;

use super::report;
use crate::logging::SetLevel;

/// The port of portmap and rpcbind (RFC 1833 §3).
const PORTMAP_PORT: u16 = 111;

/// Sockets beside the server's own, bound before it starts so that a failure is one at once.
pub(super) struct Doors {
    control: ControlSocket,
    status: ControlSocket,
    metrics: Option<HttpListener>,
    web: Option<HttpListener>,
    portmap: Option<Portmap>,
}

impl Doors {
    pub(super) async fn bind(
        config: &Config,
        state_dir: &StateDir,
        listeners: &[SocketAddr],
    ) -> anyhow::Result<Self> {
        let control = ControlSocket::bind(&state_dir.control_socket())
            .with_context(|| format!("control socket in {}", state_dir.path().display()))?;
        let status = status_socket(config, state_dir)?;
        let metrics = http_listener("/metrics", config.server.metrics).await?;
        let web = http_listener("the web page", config.server.web).await?;
        let portmap = if config.server.portmap {
            let cure = "--portmap needs root and no rpcbind running; clients that are given the \
                        port need neither";
            let programs = config.server.versions.programs();
            let bound = Portmap::bind(listeners, &programs, PORTMAP_PORT).await;
            Some(bound.context(cure)?)
        } else {
            None
        };
        Ok(Self {
            control,
            status,
            metrics,
            web,
            portmap,
        })
    }

    /// What is answered over HTTP: a word for it, and its address.
    pub(super) fn http_urls(&self) -> io::Result<Vec<(&'static str, String)>> {
        let mut urls = Vec::new();
        if let Some(metrics) = &self.metrics {
            urls.push((
                "metrics",
                format!("http://{}/metrics", metrics.local_addr()?),
            ));
        }
        if let Some(web) = &self.web {
            urls.push(("web", format!("http://{}/", web.local_addr()?)));
        }
        Ok(urls)
    }
}

async fn http_listener(
    what: &str,
    address: Option<SocketAddr>,
) -> anyhow::Result<Option<HttpListener>> {
    let Some(address) = address else {
        return Ok(None);
    };
    let bound = HttpListener::bind(address).await;
    let bound = bound.with_context(|| format!("cannot answer {what} on {address}"))?;
    Ok(Some(bound))
}

/// The status socket, for the group that the configuration names.
fn status_socket(config: &Config, state_dir: &StateDir) -> anyhow::Result<ControlSocket> {
    let path = state_dir.status_socket();
    let shown = path.display();
    let Some(word) = &config.server.status_group else {
        return ControlSocket::bind_status(&path, None)
            .with_context(|| format!("status socket {shown}"));
    };
    let group = match word.parse() {
        Ok(number) => Some(number),
        Err(_) => accounts::group_id(word.as_bytes())
            .context("status_group: the machine's group database does not answer")?,
    };
    let group = group.with_context(|| {
        format!("status_group: this machine has no group \"{word}\"; make it, or write another")
    })?;
    let bind = || {
        let obstacle = state_dir.let_through(group)?;
        if let Some(directory) = obstacle {
            let directory = directory.display();
            tracing::warn!(
                "status_group: members of \"{word}\" cannot reach {shown}, since {directory} is closed to \
                 them; open it (chmod o+x), or use a state_dir elsewhere"
            );
        }
        anyhow::Ok(ControlSocket::bind_status(&path, Some(group))?)
    };
    bind().with_context(|| {
        format!("status socket {shown} for group \"{word}\": a server without privileges can give it to its own groups only")
    })
}

/// The tasks around a running server.
pub(super) struct Around {
    tasks: JoinSet<()>,
    registration: Option<JoinHandle<Registration>>,
}

impl Around {
    pub(super) fn start(
        doors: Doors,
        config: &Config,
        loaded: Config,
        server: &Arc<Server>,
        drain: &Arc<Notify>,
        hangup: Signal,
        set_level: SetLevel,
    ) -> Self {
        let addresses = server.local_addrs();
        let reloader = Arc::new(reloader(loaded, server, &set_level));
        let controls = Arc::new(controls(server, &reloader, drain, set_level));
        let mut tasks = JoinSet::new();
        tasks.spawn(doors.control.serve(Arc::clone(&controls)));
        tasks.spawn(doors.status.serve(controls));
        let names = Names::with_host(&config.server.http_names);
        if let Some(listener) = doors.metrics {
            let server = Arc::clone(server);
            let routes = Routes::default().with("/metrics", move || Page {
                content_type: metrics::CONTENT_TYPE,
                body: metrics::prometheus(&server.metrics()).into(),
                security_policy: None,
            });
            tasks.spawn(listener.serve(routes, names.clone()));
        }
        if let Some(listener) = doors.web {
            let web = Arc::new(Web::default());
            tasks.spawn(look_for_the_page(Arc::clone(server), Arc::clone(&web)));
            tasks.spawn(listener.serve(web_routes(server, web), names));
        }
        // In the background: an rpcbind that does not answer must not hold us up.
        let register = config.server.rpcbind && doors.portmap.is_none();
        let registration = register.then(|| {
            let addresses = addresses.clone();
            let programs = config.server.versions.programs();
            tokio::task::spawn_blocking(move || Registration::new(&addresses, &programs))
        });
        if let Some(portmap) = doors.portmap {
            tasks.spawn(portmap.serve());
        }
        tasks.spawn(reload_at_hangup(hangup, reloader, addresses));
        Self {
            tasks,
            registration,
        }
    }

    /// Takes all of it down; the control socket's file goes with it.
    pub(super) async fn end(mut self) {
        self.tasks.shutdown().await;
        let Some(registration) = self.registration else {
            return;
        };
        let removed = match registration.await {
            Ok(registration) => tokio::task::spawn_blocking(|| registration.remove()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::error!(%error, "rpcbind may still have our entries");
        }
    }
}

/// Looks at the server again and again, so that a page that is just opened shows what was.
async fn look_for_the_page(server: Arc<Server>, web: Arc<Web>) {
    let mut ticks = tokio::time::interval(Duration::from_millis(LIVE_PERIOD_MS));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (server, web) = (Arc::clone(&server), Arc::clone(&web));
        let look = tokio::task::spawn_blocking(move || web.add(&server.metrics()));
        if let Err(error) = look.await {
            tracing::error!(%error, "the web page's figures stand still");
            return;
        }
    }
}

fn web_routes(server: &Arc<Server>, web: Arc<Web>) -> Routes {
    let told = |part: Part| {
        let (server, web) = (Arc::clone(server), Arc::clone(&web));
        move || {
            // Of all exports, which cannot fail; without them, modes are not known.
            let policies = server.io_policies(&IoQuery::default()).unwrap_or_default();
            web.told(part, &policies)
        }
    };
    Routes::default()
        .with("/", Web::page)
        .with("/live.json", told(Part::All))
        .with("/now.json", told(Part::Latest))
}

/// `loaded` is the configuration as it was read, before flags changed it.
fn reloader(loaded: Config, server: &Arc<Server>, set_level: &SetLevel) -> Reloader {
    let (server, set_level) = (Arc::clone(server), Arc::clone(set_level));
    Reloader::new(loaded, move |table, occasion| match occasion {
        Occasion::Reload(level) => {
            server.apply(table)?;
            set_level(level);
            Ok(())
        }
        Occasion::Order => server.apply_keeping_modes(table),
    })
}

/// Every SIGHUP reads the configuration again. What came of it is in the log.
async fn reload_at_hangup(mut hangup: Signal, reloader: Arc<Reloader>, addresses: Vec<SocketAddr>) {
    while hangup.recv().await.is_some() {
        systemd::reloading();
        let reloader = Arc::clone(&reloader);
        let outcome = tokio::task::spawn_blocking(move || reloader.reload()).await;
        let status = match outcome {
            Ok(Ok(_)) => format!("serving on {}", report::joined(&addresses)),
            Ok(Err(_)) | Err(_) => "reload refused, the old configuration stays".to_owned(),
        };
        systemd::ready(&status);
    }
}

/// Adds an export, as the operator asks, and says so in the log.
fn add_export(
    reloader: &Reloader,
    order: &ExportOrder,
    asker: Asker,
) -> Result<ExportsChanged, String> {
    let added = reloader.add(order).map_err(|error| error.to_string())?;
    let path = added.path.display();
    tracing::info!(export = %added.pseudo, %path, by = %asker, "export added, {LASTS}");
    for warning in &added.warnings {
        tracing::warn!("{warning}");
    }
    Ok(added)
}

/// Removes an export, likewise.
fn remove_export(
    reloader: &Reloader,
    pseudo: &str,
    asker: Asker,
) -> Result<ExportsChanged, String> {
    let removed = reloader.remove(pseudo).map_err(|error| error.to_string())?;
    tracing::info!(export = %removed.pseudo, by = %asker, "export removed, {LASTS}");
    Ok(removed)
}

/// How long an order about exports holds.
const LASTS: &str = "until the next reload or start, which go by the configuration";

fn controls(
    server: &Arc<Server>,
    reloader: &Arc<Reloader>,
    drain: &Arc<Notify>,
    set_level: SetLevel,
) -> Controls {
    let [for_status, for_exports, for_clients, for_trace, for_follow] =
        [(); 5].map(|()| Arc::clone(server));
    let [for_io, for_change, for_why, for_audit, for_metrics] =
        [(); 5].map(|()| Arc::clone(server));
    let [for_calls, for_recorder, for_recording] = [(); 3].map(|()| Arc::clone(server));
    let [
        for_block,
        for_unblock,
        for_disconnect,
        for_held,
        for_verifier,
        for_cache,
    ] = [(); 6].map(|()| Arc::clone(server));
    let [for_add, for_remove] = [(); 2].map(|()| Arc::clone(reloader));
    let (reloader, drain) = (Arc::clone(reloader), Arc::clone(drain));
    Controls {
        status: Box::new(move || for_status.status()),
        metrics: Box::new(move || for_metrics.metrics()),
        exports: Box::new(move || for_exports.exports()),
        exports_add: Box::new(move |order, asker| add_export(&for_add, order, asker)),
        exports_remove: Box::new(move |pseudo, asker| remove_export(&for_remove, pseudo, asker)),
        clients: Box::new(move || for_clients.clients()),
        block: Box::new(move |order, asker| for_block.block(order, asker)),
        unblock: Box::new(move |net, asker| for_unblock.unblock(net, asker)),
        disconnect: Box::new(move |peer, asker| for_disconnect.disconnect(peer, asker)),
        held: Box::new(move |query, asker| for_held.held(query, asker)),
        cache: Box::new(move |query, asker| for_cache.file_cache(query, asker)),
        verifier: Box::new(move |order, asker| Ok(for_verifier.verifier(*order, asker))),
        reload: Box::new(move || reloader.reload()),
        drain: Box::new(move || drain.notify_one()),
        log_level: Box::new(move |level| set_level(level)),
        io: Box::new(move |query, _| for_io.io_policies(query)),
        io_set: Box::new(move |order, asker| for_change.set_io_policy(order, asker)),
        io_why: Box::new(move |query, _| for_why.why_io(query)),
        trace: Box::new(move |change, _| for_trace.trace(change)),
        follow: Box::new(move |request, _| for_follow.follow(request)),
        follow_calls: Box::new(move |query, _| for_calls.follow_calls(query)),
        record_calls: Box::new(move |query, _| for_recording.record_calls(query)),
        recorder: Box::new(move |level, _| Ok(for_recorder.recorder_level(*level))),
        follow_audit: Box::new(move || for_audit.follow_audit()),
    }
}
