//! `penstock get`: one file of an NFS server to standard output, with a progress line.

use std::num::NonZeroU64;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Context as _;
use nfs_client::rate::Limit;
use nfs_client::transfer::Figures;
use nfs_client::{Client, NfsUrl};

use crate::interrupt::{self, Ended, Interrupts};
use crate::message;
use crate::out::Out;
use crate::progress::{Progress, ProgressArgs, TICK, bytes_text};
use crate::session::{self, Common, ending, leave};
use crate::show::{self, STANDARD_OUTPUT};
use crate::statistics::{self, figures::About};
use crate::windows;

/// Write one file of an NFS server to standard output, and show how far it is
///
/// As `penstock cat` of one file, with a progress line on standard error if that
/// is a terminal. To copy into a file, `penstock cp` knows more: holes, times,
/// going on after an interrupt.
///
/// Examples:
///
///   penstock get nfs://server/export/backup.tar.zst | zstd -d | tar x
///
///   penstock get --offset 1GiB nfs://server/export/disk.img > rest
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP, mut_arg("json", |json| json.hide(true)))]
pub(crate) struct Args {
    /// Begin here, such as 4096 or 1GiB
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = nfs_io::size::parse)]
    offset: u64,

    /// Move at most so many bytes per second, such as 20MiB
    #[arg(long, value_name = "SIZE", value_parser = windows::rate)]
    limit: Option<NonZeroU64>,

    #[command(flatten)]
    windows: windows::WindowArgs,

    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    progress: ProgressArgs,

    /// The file: nfs://HOST[:PORT]/EXPORT/PATH
    url: NfsUrl,
}

impl Args {
    /// Writes the file to the standard output.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        self.common.without_json()?;
        let mut code = ExitCode::SUCCESS;
        let ran = session::run_alone(&self.common, async {
            code = self.write_out().await?;
            Ok(())
        })?;
        Ok(if ran == ExitCode::SUCCESS { code } else { ran })
    }

    async fn write_out(&self) -> anyhow::Result<ExitCode> {
        let mut interrupts = Interrupts::new()?;
        let moved = Tally::default();
        let mut progress = Progress::new(&self.progress, &self.common, true, false);
        let stop = moved.stop.clone();
        let work = moved.shown(self.pump(&moved), &mut progress);
        match interrupts
            .watch(work, || stop.store(true, Ordering::Relaxed))
            .await
        {
            Ended::Done { value, interrupted } => {
                let all = value?;
                if !interrupted || all {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            Ended::GivenUp => {}
        }
        let bytes = moved.bytes.load(Ordering::Relaxed);
        message::warn(format_args!(
            "interrupted: {} are written",
            bytes_text(bytes)
        ));
        message::info(format_args!(
            "to go on: penstock get --offset={} {}",
            self.offset + bytes,
            interrupt::quoted(self.url.to_string().as_ref()),
        ));
        Ok(interrupt::exit_code())
    }

    /// Moves the file to standard output; whether all of it was written.
    async fn pump(&self, moved: &Tally) -> anyhow::Result<bool> {
        let limited = self.windows.limited(self.limit);
        let mount = limited.mount_options(&self.common);
        let mounted = Client::mount_with(&self.url, &mount).await;
        let (client, path) = mounted.map_err(|error| ending(&self.url, error))?;
        let done = self.moved(&client, &path, moved).await;
        if self.progress.stats {
            statistics::say(&statistics::of(&client, About::transfer(&self.url)));
        }
        leave(client).await;
        done
    }

    async fn moved(&self, client: &Client, path: &[u8], moved: &Tally) -> anyhow::Result<bool> {
        let told = |error| ending(&self.url, error);
        let node = client.resolve(path).await.map_err(told)?;
        let file = client.open_node(node, self.url.to_string().as_bytes())?;
        let size = node.attributes.size.saturating_sub(self.offset);
        moved.total.store(size, Ordering::Relaxed);
        let mut stream = file.stream(self.offset);
        let limit = self.limit.map(Limit::new);
        let is_stopped = || moved.stop.load(Ordering::Relaxed);
        let mut out = Out::new()?;
        while !is_stopped() {
            let next = stream.next().await;
            let Some(data) = next.map_err(told)? else {
                out.finish().await.context(STANDARD_OUTPUT)?;
                return Ok(true);
            };
            let len = data.len() as u64;
            if let Some(limit) = &limit {
                limit.take(len, is_stopped).await;
            }
            out.write(data).await.context(STANDARD_OUTPUT)?;
            moved.bytes.fetch_add(len, Ordering::Relaxed);
        }
        Ok(false)
    }
}

/// How far a stream has come.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) bytes: AtomicU64,
    /// Bytes of the whole stream; 0 where that is not known.
    pub(crate) total: AtomicU64,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Tally {
    /// Runs `work` and shows meanwhile how far it is.
    pub(crate) async fn shown<T>(
        &self,
        work: impl Future<Output = T>,
        progress: &mut Progress,
    ) -> T {
        let mut work = std::pin::pin!(work);
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                value = &mut work => {
                    progress.clear();
                    return value;
                }
                _ = tick.tick(), if progress.is_shown() => {
                    let total = self.total.load(Ordering::Relaxed);
                    progress.show(&Figures {
                        walked: total > 0,
                        bytes_found: total,
                        bytes_done: self.bytes.load(Ordering::Relaxed),
                        ..Figures::default()
                    });
                }
            }
        }
    }
}
