//! `penstock cp`: files and trees to, from and between NFS servers.

mod options;
mod report;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use nfs_client::transfer::{self, Figures, Place, Remote, Watch};
use nfs_client::{Client, MountOptions, NfsUrl, Version};

use crate::exit::UsageError;
use crate::interrupt::{self, Ended, Interrupts};
use crate::progress::{Progress, TICK};
use crate::session::{self, leave};

pub(crate) use self::options::Args;
use self::report::Reporter;

impl Args {
    /// Runs the copy that the arguments ask for, and reports it.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut code = ExitCode::SUCCESS;
        let ran = session::run_alone(&self.common, async {
            code = self.copy().await?;
            Ok(())
        })?;
        Ok(if ran == ExitCode::SUCCESS { code } else { ran })
    }

    async fn copy(&self) -> anyhow::Result<ExitCode> {
        let (destination, sources) = match self.places.split_last() {
            Some((destination, sources)) if !sources.is_empty() => (destination, sources),
            _ => return Err(UsageError("give a source and a destination".to_owned()).into()),
        };
        let options = self.options();
        raise_descriptors();
        let mut interrupts = Interrupts::new()?;
        let mut progress = Progress::new(&self.progress, &self.common, !self.json, true);
        let reporter = Arc::new(Reporter::new(self));
        let told = reporter.clone();
        let watch = Watch::new(move |event| told.event(event));
        let started = Instant::now();
        let work = async {
            let mut exports = Exports::default();
            let mount = self.windows.limited(self.limit).mount_options(&self.common);
            let copied = async {
                let destination = exports.place(destination, &mount).await?;
                let mut places = Vec::with_capacity(sources.len());
                for source in sources {
                    places.push(exports.place(source, &mount).await?);
                }
                let copy = transfer::copy(&places, &destination, &options, &watch);
                anyhow::Ok(with_progress(copy, &watch, &mut progress).await?)
            };
            let copied = copied.await;
            exports.leave().await;
            copied
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
            reporter.how_to_go_on(&figures, given_up, self.again().as_deref());
            return Ok(interrupt::exit_code());
        }
        Ok(if figures.failed > 0 || reporter.has_failed() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }
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
pub(crate) async fn with_progress<T>(
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

    /// Over NFSv4 one session is for all places of a server.
    fn in_session(&self, url: &NfsUrl) -> Option<(Client, Vec<u8>)> {
        let server = url.with_path("/");
        let known = self.mounted.iter().find(|(known, _)| *known == server);
        let (_, client) = known?;
        Some((client.clone(), client.below_export(&url.path)?))
    }

    async fn place(&mut self, text: &OsString, options: &MountOptions) -> anyhow::Result<Place> {
        let Some(text) = text.to_str().filter(|text| is_url(text)) else {
            return Ok(Place::local(text));
        };
        let url: NfsUrl = text
            .parse()
            .map_err(|error| UsageError(format!("{text}: {error}")))?;
        if url.version != Version::V3
            && let Some(found) = self.in_session(&url)
        {
            let (client, path) = found;
            return Ok(Place::Remote(Box::new(Remote { client, path, url })));
        }
        let mounted = Client::mount_with(&url, options).await;
        let (client, path) =
            mounted.map_err(|error| anyhow::Error::msg(crate::session::told(&url, error)))?;
        let server = url.with_path(client.export());
        let known = self.mounted.iter().find(|(mounted, _)| *mounted == server);
        let client = match known {
            Some((_, client)) => client.clone(),
            None => {
                self.mounted.push((server, client.clone()));
                client
            }
        };
        Ok(Place::Remote(Box::new(Remote { client, path, url })))
    }
}

/// Whether a place is an address; everything else is a path of this host.
fn is_url(text: &str) -> bool {
    text.get(..6)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("nfs://"))
}
