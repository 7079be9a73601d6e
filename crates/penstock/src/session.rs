//! What the client commands share while they run: how they mount, how a failure is told without ending
//! the command, and what Ctrl-C does.
//!
//! A [`Session`] lives as long as its command. It mounts each export once, however many operands are
//! in it, and remembers whether something failed. It never decides what a failure means to the command.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use nfs_client::{Client, ClientError, Liveness, MountOptions, NfsUrl, Node, UrlPattern, Windows};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::exit::UsageError;
use crate::limits::GOODBYE_MAX;
use crate::patterns::{self, Expanded};
use crate::results::{self, Failure, Told};
use crate::{exit, message, show, silence};

/// How long what is on its way may take to end after Ctrl-C.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// Options of every command that talks to a server.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Common {
    /// Give up a call that has no answer after so many seconds, reconnects included
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// Say only what failed: no progress, no totals, nothing of a server that does not answer
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Print one JSON object per line on standard output, errors among them
    ///
    /// Numbers are numbers, times RFC 3339; numbers of files (fileid) and file systems are strings. What is not
    /// UTF-8 comes in hexadecimal, as `name_hex` instead of `name`. An error is `{"error": {...}}` with `url` or
    /// `path`, `message`, `status` and `code`.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print messages on standard error as JSON, one object per line: time, level, message
    #[arg(long)]
    pub(crate) log_json: bool,

    /// Who knows which servers do not answer; shared with the connections.
    #[arg(skip)]
    liveness: Liveness,
}

/// Seconds from 0.001 to 1,000,000, with a fraction if need be.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (0.001..=1e6).contains(number));
    number
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "give a number of seconds from 0.001 to 1000000".to_owned())
}

impl Common {
    /// The user said how long a call may take.
    pub(crate) fn has_timeout(&self) -> bool {
        self.timeout.is_some()
    }

    /// Refuses `--json` where file contents go to standard output.
    pub(crate) fn without_json(&self) -> Result<(), UsageError> {
        match self.json {
            true => {
                let text = "a file's contents go to standard output: leave out --json; --log-json is for messages";
                Err(UsageError(text.to_owned()))
            }
            false => Ok(()),
        }
    }

    /// The options as they are written on a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let timeout = self.timeout.map(|timeout| timeout.as_secs_f64());
        let timeout = timeout.map(|seconds| format!("--timeout={seconds}"));
        let flags = [
            (self.json, "--json"),
            (self.quiet, "--quiet"),
            (self.log_json, "--log-json"),
        ];
        let flags = flags.into_iter().filter(|(set, _)| *set);
        let flags = flags.map(|(_, flag)| flag.to_owned());
        timeout.into_iter().chain(flags).collect()
    }

    /// Who knows which of this command's servers do not answer.
    pub(crate) fn liveness(&self) -> Liveness {
        self.liveness.clone()
    }

    /// Runs a client command's work, and tells meanwhile of servers that do not answer.
    pub(crate) async fn with_news<T>(&self, work: impl Future<Output = T>) -> T {
        message::begin(self.log_json);
        results::begin(self.json);
        match self.quiet {
            true => work.await,
            false => silence::told(&self.liveness, work).await,
        }
    }

    /// The options that this command mounts exports with.
    pub(crate) fn mount_options(&self) -> MountOptions {
        let mut options = MountOptions::default();
        options.connect.liveness = self.liveness();
        if let Some(timeout) = self.timeout {
            options.connect.call_timeout = timeout;
            options.connect.connect_timeout = options.connect.connect_timeout.min(timeout);
        }
        options
    }
}

/// One run of a client command: its connections and options, what it was told to stop by, and whether
/// anything failed.
pub(crate) struct Session {
    options: MountOptions,
    servers: Vec<Server>,
    failed: bool,
    stop: Stop,
}

/// What is mounted from one server, as one identity.
struct Server {
    /// A URL of it, with the path `/`.
    url: NfsUrl,
    /// The paths that the server exports; empty if it does not tell.
    exports: Vec<Vec<u8>>,
    clients: Vec<Client>,
}

/// Runs a command to its end, or to Ctrl-C (SIGINT, SIGTERM).
///
/// The exit code is 0 if nothing failed, 1 if something did, 130 after a signal. A closed standard output
/// (`| head`) is success: the reader has what it wanted.
pub(crate) fn run(
    common: &Common,
    command: impl AsyncFnOnce(&mut Session) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        // Small files keep tasks ready all the time, and Ctrl-C is seen only when the loop looks for events.
        .event_interval(16)
        .enable_all()
        .build()
        .context("cannot start the event loop")?;
    runtime.block_on(async {
        let stop = Stop::default();
        let mut session = Session {
            options: common.mount_options(),
            servers: Vec::new(),
            failed: false,
            stop: stop.clone(),
        };
        let result = tokio::select! {
            result = common.with_news(command(&mut session)) => result,
            ended = stop.ended() => ended.context("cannot listen for signals"),
        };
        session.end().await;
        match result {
            Err(error) if show::is_broken_pipe(&error) => return Ok(ExitCode::SUCCESS),
            Err(error) => return Err(show::about_output(error)),
            Ok(()) => {}
        }
        Ok(if stop.is_set() {
            ExitCode::from(exit::INTERRUPTED)
        } else if session.failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    })
}

/// Runs the work of a command that mounts for itself and ends its work itself at Ctrl-C.
///
/// A closed standard output (`| head`) is success: the reader has what it wanted.
pub(crate) fn run_alone(
    common: &Common,
    command: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")?;
    let result = runtime.block_on(common.with_news(command));
    // A thread that hangs in a file of this host, or in a pipe, must not hold up a command that was
    // given up; one that ended has waited for all of them.
    runtime.shutdown_background();
    match result {
        Err(error) if show::is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        result => result.map(|()| ExitCode::SUCCESS),
    }
}

/// [`run`], for a command that does the same at each of `urls`: a failure at one is told, and the next is gone on with.
pub(crate) fn run_each(
    common: &Common,
    urls: &[NfsUrl],
    command: impl AsyncFn(&mut Session, &NfsUrl) -> Result<(), ClientError>,
) -> anyhow::Result<ExitCode> {
    run(common, async |session| {
        for url in urls {
            if let Err(error) = command(session, url).await {
                session.failed(url, error);
            }
        }
        Ok(())
    })
}

impl Session {
    /// Mounts the export that holds the URL's path, or takes the one that is mounted already. Returns
    /// the rest of the path, below the export.
    pub(crate) async fn at(&mut self, url: &NfsUrl) -> Result<(Client, Vec<u8>), ClientError> {
        let place = url.with_path("/");
        let known = self.servers.iter().find(|server| server.url == place);
        if let Some(found) = known.and_then(|server| server.mounted(&url.path)) {
            return Ok(found);
        }
        let (client, rest) = Client::mount_with(url, &self.options).await?;
        let server = match self.servers.iter_mut().find(|server| server.url == place) {
            Some(server) => server,
            None => {
                // A server that keeps its list to itself costs one mount per operand, no more.
                let exports = match client.mount_service() {
                    Some(mount) => mount.export().await.unwrap_or_default(),
                    None => Vec::new(),
                };
                let mut exports: Vec<_> = exports.into_iter().map(|one| one.directory).collect();
                if client.nfs().v3().is_none() {
                    // NFSv4 has one name space, with all of them in it.
                    exports.push(client.export().to_vec());
                }
                self.servers.push(Server {
                    url: place,
                    exports,
                    clients: Vec::new(),
                });
                match self.servers.last_mut() {
                    Some(server) => server,
                    None => return Ok((client, rest)),
                }
            }
        };
        server.clients.push(client.clone());
        Ok((client, rest))
    }

    /// What the addresses stand for: patterns in them are told apart from names here. A pattern that matches nothing
    /// is told, and lets the command end with 1.
    pub(crate) async fn expand(&mut self, patterns: &[UrlPattern]) -> Vec<NfsUrl> {
        let mut urls = Vec::with_capacity(patterns.len());
        for pattern in patterns {
            let Some(found) = self.matches(pattern).await else {
                continue;
            };
            if found.is_empty() {
                let failure = Failure::at(pattern.literal());
                results::failed(&patterns::no_match(pattern), failure);
                self.failed = true;
            }
            urls.extend(found);
        }
        urls
    }

    /// What one address stands for; `None` after a failure that was told.
    pub(crate) async fn matches(&mut self, pattern: &UrlPattern) -> Option<Vec<NfsUrl>> {
        let options = self.options.clone();
        let expanded = patterns::expanded(pattern, &options, async |url| self.at(url).await);
        let Expanded { urls, failed } = expanded.await;
        let has_failed = !failed.is_empty();
        for (url, error) in failed {
            self.failed(&url, error);
        }
        (!has_failed || !urls.is_empty()).then_some(urls)
    }

    /// What `url` names; a symbolic link at its end is followed.
    pub(crate) async fn resolve(&mut self, url: &NfsUrl) -> Result<(Client, Node), ClientError> {
        let (client, path) = self.at(url).await?;
        let node = client.resolve(&path).await?;
        Ok((client, node))
    }

    /// What `url` names; a symbolic link at its end itself, unless a slash comes after it, as with lstat(2).
    pub(crate) async fn resolve_link(
        &mut self,
        url: &NfsUrl,
    ) -> Result<(Client, Node), ClientError> {
        let (client, path) = self.at(url).await?;
        let node = match path.ends_with(b"/") {
            true => client.resolve(&path).await?,
            false => client.resolve_link(&path).await?,
        };
        Ok((client, node))
    }

    /// Takes leave of the servers that remember who uses them.
    async fn end(&mut self) {
        let servers = std::mem::take(&mut self.servers);
        for client in servers.into_iter().flat_map(|server| server.clients) {
            leave(client).await;
        }
    }

    /// The options that exports are mounted with.
    pub(crate) fn mount_options(&self) -> &MountOptions {
        &self.options
    }

    /// Mounts with these windows from now on.
    pub(crate) fn set_windows(&mut self, windows: Windows) {
        self.options.windows = windows;
    }

    /// Tells of a failure at `url` and goes on; the command will end with 1.
    pub(crate) fn failed(&mut self, url: &NfsUrl, error: ClientError) {
        let failure = Failure::of(url, &error);
        results::failed(&told(url, error), failure);
        self.failed = true;
    }

    /// Tells that something was refused for a reason that is no error of the client's, and lets the command
    /// end with 1 as [`Self::failed`] does.
    pub(crate) fn refused(&mut self, url: &NfsUrl, why: impl std::fmt::Display) {
        results::failed(&format!("{url}: {why}"), Failure::at(url));
        self.failed = true;
    }

    /// The command will end with 1; what there is to say was said.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
    }

    /// The flag that says whether the command was interrupted, for commands that end what they began then.
    pub(crate) fn stop(&self) -> Stop {
        self.stop.clone()
    }
}

impl Server {
    fn mounted(&self, path: &[u8]) -> Option<(Client, Vec<u8>)> {
        let depth = |path: &[u8]| nfs_client::url::components(path).count();
        let holds = |export: &Vec<u8>| {
            nfs_client::url::components(export)
                .eq(nfs_client::url::components(path).take(depth(export)))
        };
        let longest = self.exports.iter().filter(|export| holds(export));
        let longest = longest.max_by_key(|export| depth(export))?;
        let is_it = |client: &&Client| {
            nfs_client::url::components(client.export()).eq(nfs_client::url::components(longest))
        };
        let client = self.clients.iter().find(is_it)?;
        Some((client.clone(), client.below_export(path)?))
    }
}

/// Ends a session of NFSv4; NFSv3 has none, and nothing is done. A server that is away is not waited for: it ends
/// the session by itself when its lease is over.
pub(crate) async fn leave(client: Client) {
    if client.nfs().v3().is_none() {
        let _later = tokio::time::timeout(GOODBYE_MAX, client.unmount()).await;
    }
}

/// A failure in a line that begins with its URL.
pub(crate) fn told(url: &NfsUrl, error: ClientError) -> String {
    let place = url.to_string();
    let text = error.of(place.as_bytes()).to_string();
    if text.starts_with(&place) {
        text
    } else {
        format!("{place}: {text}")
    }
}

/// A failure that ends a command.
pub(crate) fn ending(url: &NfsUrl, error: ClientError) -> anyhow::Error {
    let failure = Failure::of(url, &error);
    let text = told(url, error);
    Told { text, failure }.into()
}

/// Whether the command is to stop. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Stop {
    shared: Arc<StopState>,
}

#[derive(Default)]
struct StopState {
    set: AtomicBool,
    /// The command looks at it and ends by itself.
    heeded: AtomicBool,
    changed: Notify,
}

impl Stop {
    /// The user asked the command to stop. Whoever asks is expected to end soon.
    pub(crate) fn is_set(&self) -> bool {
        self.shared.heeded.store(true, Ordering::Relaxed);
        self.shared.set.load(Ordering::Relaxed)
    }

    /// Returns when the user asks the command to stop. Whoever waits is expected to end soon.
    pub(crate) async fn asked(&self) {
        let changed = self.shared.changed.notified();
        if !self.is_set() {
            changed.await;
        }
    }

    /// Returns when the command is to be dropped where it is: at once if it does not look, else when
    /// its time is over or the user asks again.
    async fn ended(&self) -> std::io::Result<()> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        self.shared.set.store(true, Ordering::Relaxed);
        self.shared.changed.notify_waiters();
        if self.shared.heeded.load(Ordering::Relaxed) {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                () = tokio::time::sleep(STOP_WITHIN) => {}
            }
        }
        Ok(())
    }
}
