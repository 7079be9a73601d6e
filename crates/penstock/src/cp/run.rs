//! What `penstock cp` and `penstock sync` share: places are mounted, the work runs, is shown and interrupted.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use nfs_client::transfer::{Event, Figures, Open, Place, Remote, TransferError, Watch};
use nfs_client::{Client, ClientError, MountOptions, NfsUrl, UrlPattern, Version};

use super::options::is_standard;
use super::report::Reporter;
use crate::exit::UsageError;
use crate::interrupt::{self, Ended, Interrupts};
use crate::patterns::{self, Expanded};
use crate::progress::{Progress, ProgressArgs, TICK};
use crate::results::{Failure, Told};
use crate::session::{self, Common, ending, leave};
use crate::statistics::{self, figures::About};
use crate::windows::WindowArgs;

/// One run of a command that moves files: how it mounts, and what it tells.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) common: &'a Common,
    pub(crate) progress: &'a ProgressArgs,
    pub(crate) windows: &'a WindowArgs,
    /// Bytes per second, all files together.
    pub(crate) limit: Option<NonZeroU64>,
    /// `-` and its like stand for standard input and output.
    pub(crate) standard_streams: bool,
    /// A pattern may stand for one source only.
    pub(crate) one_source: bool,
    /// The user is asked before a file is written over.
    pub(crate) asks: bool,
    /// A line says how far it is, where there is a terminal.
    pub(crate) shows_progress: bool,
    /// What is done with each file is told.
    pub(crate) verbose: bool,
    /// The totals are told at the end.
    pub(crate) tells_totals: bool,
    pub(crate) doing: Doing,
    /// The command that goes on after an interrupt.
    pub(crate) again: Option<String>,
}

/// Whether anything is changed, and so what is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// The files are moved.
    Really,
    /// What would be done is told.
    DryRun,
    /// How the two sides differ is told, and makes the exit code 1.
    Check,
}

impl Run<'_> {
    /// Mounts `places`, and has `work` move what is in them.
    pub(crate) fn run(
        &self,
        places: &[OsString],
        work: impl AsyncFnOnce(Vec<Place>, &Watch) -> Result<Figures, TransferError>,
    ) -> anyhow::Result<ExitCode> {
        let mut code = ExitCode::SUCCESS;
        let ran = session::run_alone(self.common, async {
            code = self.moved(places, work).await?;
            Ok(())
        })?;
        Ok(if ran == ExitCode::SUCCESS { code } else { ran })
    }

    async fn moved(
        &self,
        places: &[OsString],
        work: impl AsyncFnOnce(Vec<Place>, &Watch) -> Result<Figures, TransferError>,
    ) -> anyhow::Result<ExitCode> {
        raise_descriptors();
        let mut interrupts = Interrupts::new()?;
        let mut progress = Progress::new(self.progress, self.common, self.shows_progress, true);
        let reporter = Arc::new(Reporter::new(self));
        let events = reporter.clone();
        let report = move |event: Event<'_>| events.event(event);
        let watch = match self.asks {
            true => {
                let asking = reporter.clone();
                Watch::asking(report, move |place| asking.may_replace(place))
            }
            false => Watch::new(report),
        };
        let started = Instant::now();
        let work = async {
            let mut exports = Exports::default();
            let mount = self.windows.limited(self.limit).mount_options(self.common);
            let moved = async {
                let mut found = Vec::with_capacity(places.len());
                // A destination that is not there is told before anything is begun.
                for (index, place) in places.iter().enumerate().rev() {
                    let is_source = index + 1 < places.len();
                    let number = u8::from(!is_source);
                    if self.standard_streams && is_standard(place, number) {
                        found.push(standard(number)?);
                        continue;
                    }
                    let (places, failed) = exports.places(place, is_source, &mount).await?;
                    found.extend(places.into_iter().rev());
                    for (url, error) in failed {
                        reporter.failed(&url, error);
                    }
                }
                found.reverse();
                if self.one_source && found.len() > places.len() {
                    let count = found.len() + 1 - places.len();
                    let text =
                        format!("the pattern stands for {count} sources, and there can be one");
                    return Err(UsageError(text).into());
                }
                anyhow::Ok(with_progress(work(found, &watch), &watch, &mut progress).await?)
            };
            let moved = moved.await;
            if self.progress.stats {
                exports.tell(&reporter);
            }
            exports.leave().await;
            moved
        };
        let ended = interrupts.watch(work, || {
            watch.stop();
            reporter.stopping();
        });
        let ended = ended.await;
        progress.clear();
        let (figures, interrupted, given_up) = match ended {
            Ended::Done { value, interrupted } => (value?, interrupted, false),
            Ended::GivenUp => (watch.figures(), true, true),
        };
        reporter.summary(&figures, started.elapsed(), interrupted);
        if interrupted && !is_complete(&figures) {
            reporter.how_to_go_on(&figures, given_up, self.again.as_deref());
            return Ok(interrupt::exit_code());
        }
        Ok(if figures.failed > 0 || reporter.has_failed() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }
}

/// Standard input (0) or standard output (1) of this process.
fn standard(number: u8) -> std::io::Result<Place> {
    let (fd, name) = match number {
        0 => (std::io::stdin().as_fd().try_clone_to_owned()?, "/dev/stdin"),
        _ => (
            std::io::stdout().as_fd().try_clone_to_owned()?,
            "/dev/stdout",
        ),
    };
    Ok(Place::Open(Open {
        fd: Arc::new(fd),
        name: name.into(),
    }))
}

/// Each directory on the way down is open on this host: as many descriptors as this process may have.
fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // What is refused stays as it was; a tree too deep for it is told where it fails.
    let _as_it_was = setrlimit(Resource::Nofile, raised);
}

/// Whether an interrupt came too late to stop anything.
fn is_complete(figures: &Figures) -> bool {
    figures.walked && figures.failed == 0 && figures.files_done == figures.files_found
}

/// Runs `work` to its end and shows meanwhile how far it is.
async fn with_progress<T>(
    work: impl Future<Output = T>,
    watch: &Watch,
    progress: &mut Progress,
) -> T {
    if !progress.is_shown() {
        return work.await;
    }
    let mut work = std::pin::pin!(work);
    let mut tick = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            value = &mut work => {
                progress.clear();
                return value;
            }
            _ = tick.tick() => progress.show(&watch.figures()),
        }
    }
}

/// The exports that a command has mounted: places in one share it.
#[derive(Default)]
struct Exports {
    mounted: Vec<(NfsUrl, Client)>,
}

impl Exports {
    /// Takes leave of the servers that remember who uses them.
    async fn leave(self) {
        for (_, client) in self.mounted {
            leave(client).await;
        }
    }

    /// Tells what the calls to each server came to.
    fn tell(&self, reporter: &Reporter) {
        for (url, client) in &self.mounted {
            reporter.statistics(&statistics::of(client, About::transfer(url)));
        }
    }

    /// Over NFSv4 one session is for all places of a server.
    fn in_session(&self, url: &NfsUrl) -> Option<(Client, Vec<u8>)> {
        let server = url.with_path("/");
        let known = self.mounted.iter().find(|(known, _)| *known == server);
        let (_, client) = known?;
        Some((client.clone(), client.below_export(&url.path)?))
    }

    /// The client of what is mounted already and has what the URL names.
    fn known(&self, url: &NfsUrl) -> Option<(Client, Vec<u8>)> {
        let server = url.with_path("/");
        let here = |known: &NfsUrl| known.with_path("/") == server;
        let clients = self.mounted.iter().filter(|(known, _)| here(known));
        let found =
            clients.filter_map(|(_, client)| Some((client, client.below_export(&url.path)?)));
        let (client, path) = found.min_by_key(|(_, path)| path.len())?;
        Some((client.clone(), path))
    }

    /// What `text` names or, as a source with patterns in it, all that it stands for, and what failed on the way.
    async fn places(
        &mut self,
        text: &OsString,
        is_source: bool,
        options: &MountOptions,
    ) -> anyhow::Result<(Vec<Place>, Vec<(NfsUrl, ClientError)>)> {
        let Some(text) = text.to_str().filter(|text| NfsUrl::is_meant_by(text)) else {
            return Ok((vec![Place::local(text)], Vec::new()));
        };
        let pattern: UrlPattern = text
            .parse()
            .map_err(|error| UsageError(format!("{text}: {error}")))?;
        if !is_source || !pattern.is_pattern() {
            let url = pattern.literal();
            let at = self.at(url, options).await;
            let (client, path) = at.map_err(|error| ending(url, error))?;
            return Ok((vec![remote(client, path, url)], Vec::new()));
        }
        let found = patterns::expanded(&pattern, options, async |url| self.at(url, options).await);
        let Expanded { urls, failed } = found.await;
        if urls.is_empty() {
            let failed = failed.into_iter().next();
            let failed = failed.map(|(url, error)| ending(&url, error));
            let none = || Told {
                text: patterns::no_match(&pattern),
                failure: Failure::at(pattern.literal()),
            };
            return Err(failed.unwrap_or_else(|| none().into()));
        }
        let mut places = Vec::with_capacity(urls.len());
        for url in &urls {
            let at = match self.known(url) {
                Some(known) => Ok(known),
                None => self.at(url, options).await,
            };
            let (client, path) = at.map_err(|error| ending(url, error))?;
            places.push(remote(client, path, url));
        }
        Ok((places, failed))
    }

    /// Mounts the export that has what the URL names, or takes the one that is mounted already.
    async fn at(
        &mut self,
        url: &NfsUrl,
        options: &MountOptions,
    ) -> Result<(Client, Vec<u8>), ClientError> {
        if url.version != Version::V3
            && let Some(found) = self.in_session(url)
        {
            return Ok(found);
        }
        let (client, path) = Client::mount_with(url, options).await?;
        let server = url.with_path(client.export());
        let known = self.mounted.iter().find(|(mounted, _)| *mounted == server);
        let client = match known {
            Some((_, client)) => client.clone(),
            None => {
                self.mounted.push((server, client.clone()));
                client
            }
        };
        Ok((client, path))
    }
}

fn remote(client: Client, path: Vec<u8>, url: &NfsUrl) -> Place {
    let url = url.clone();
    Place::Remote(Box::new(Remote { client, path, url }))
}
