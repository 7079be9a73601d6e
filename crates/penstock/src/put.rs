//! `penstock put`: standard input to a file of an NFS server.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::Context as _;
use bytes::Bytes;
use nfs_client::limits::{LOCAL_MEMORY_BYTES, LOCAL_PIECES_MAX};
use nfs_client::nfs3::{CreateHow, Nfsstat3, Sattr3};
use nfs_client::rate::Limit;
use nfs_client::transfer::read_piece;
use nfs_client::{Client, NfsUrl};
use nfs_io::budget::Budget;
use nfs_io::buffer::BufferPool;
use serde_json::json;
use tokio::sync::mpsc;

use crate::get::Tally;
use crate::interrupt::{self, Ended, Interrupts};
use crate::message;
use crate::progress::{Progress, ProgressArgs, bytes_text};
use crate::results;
use crate::session::{self, Common, ending, leave};
use crate::statistics::{self, figures::About};
use crate::{show, windows};

/// Write standard input to a file of an NFS server
///
/// The file is made, or cut to nothing if it is there. When the command ends
/// without an error, all of it is on stable storage. Standard input cannot be
/// read twice, so an interrupted put cannot go on; it says how much is there.
///
/// Examples:
///
///   tar c photos | zstd | penstock put nfs://server/export/photos.tar.zst
///
///   pg_dump shop | penstock put --no-clobber nfs://server/export/shop.sql
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// Fail if the file is there already
    #[arg(short, long)]
    no_clobber: bool,

    /// Permission bits of a new file, octal
    #[arg(long, value_name = "MODE", default_value = "0644", value_parser = mode)]
    mode: u32,

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

fn mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o7777)
        .ok_or_else(|| "give an octal mode from 0 to 7777, such as 0640".to_owned())
}

/// Bytes asked of standard input at once.
const READ_BYTES: usize = 1024 * 1024;

impl Args {
    /// Writes standard input to the file.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut code = ExitCode::SUCCESS;
        session::run_alone(&self.common, async {
            code = self.read_in().await?;
            Ok(())
        })?;
        Ok(code)
    }

    async fn read_in(&self) -> anyhow::Result<ExitCode> {
        let mut interrupts = Interrupts::new()?;
        let moved = Tally::default();
        let begun = Instant::now();
        let mut progress = Progress::new(&self.progress, &self.common, true, false);
        let (told, mut stopped) = mpsc::channel(1);
        let work = moved.shown(self.pump(&moved, &mut stopped), &mut progress);
        let ended = interrupts.watch(work, || {
            // There is room for the one message that is ever sent.
            let _ = told.try_send(());
        });
        match ended.await {
            Ended::Done { value, .. } => {
                if value? {
                    let bytes = moved.bytes.load(Ordering::Relaxed);
                    let members =
                        json!({ "bytes": bytes, "seconds": begun.elapsed().as_secs_f64() });
                    results::done(&self.url, "written", members, false);
                    return Ok(ExitCode::SUCCESS);
                }
                message::warn(format_args!(
                    "interrupted: {} are there, on stable storage: {}",
                    bytes_text(moved.bytes.load(Ordering::Relaxed)),
                    self.url
                ));
            }
            Ended::GivenUp => message::warn(format_args!(
                "interrupted and given up: {} is incomplete",
                self.url
            )),
        }
        Ok(interrupt::exit_code())
    }

    /// Whether all of it was written: false after a stop. What was written is on stable storage.
    async fn pump(&self, moved: &Tally, stopped: &mut mpsc::Receiver<()>) -> anyhow::Result<bool> {
        let mount = self.windows.mount_options(&self.common);
        let mounted = Client::mount_with(&self.url, &mount).await;
        let (client, path) = mounted.map_err(|error| ending(&self.url, error))?;
        let all = async {
            let file = self.open(&client, &path).await?;
            self.fill(file, moved, stopped).await
        };
        let all = all.await;
        if self.progress.stats {
            statistics::say(&statistics::of(&client, About::transfer(&self.url)));
        }
        leave(client).await;
        all
    }

    async fn fill(
        &self,
        file: nfs_client::File,
        moved: &Tally,
        stopped: &mut mpsc::Receiver<()>,
    ) -> anyhow::Result<bool> {
        let mut input = standard_input().context("standard input")?;
        let limit = self.limit.map(Limit::new);
        let mut all = false;
        loop {
            // At an interrupt, a writer that sends nothing must not be waited for.
            let data = tokio::select! {
                data = input.recv() => data,
                _ = stopped.recv() => break,
            };
            let Some(data) = data else {
                all = true;
                break;
            };
            let mut data = data.context("standard input")?;
            let step = limit.as_ref().map_or(data.len(), Limit::piece_bytes);
            while !data.is_empty() {
                let part = data.split_to(step.min(data.len()));
                let len = part.len() as u64;
                if let Some(limit) = &limit {
                    // What was read is written, also after a stop: then without waiting.
                    limit.take(len, || !stopped.is_empty()).await;
                }
                let offset = moved.bytes.load(Ordering::Relaxed);
                file.write_at(offset, part).await?;
                moved.bytes.store(offset + len, Ordering::Relaxed);
            }
        }
        file.close().await?;
        Ok(all)
    }

    async fn open(&self, client: &Client, path: &[u8]) -> anyhow::Result<nfs_client::File> {
        let told = |error| ending(&self.url, error);
        let attributes = Sattr3 {
            mode: Some(self.mode),
            size: Some(0),
            ..Sattr3::default()
        };
        let how = match self.no_clobber {
            true => CreateHow::Guarded(attributes),
            false => CreateHow::Unchecked(attributes),
        };
        let (dir, name) = client.parent(path).await.map_err(told)?;
        let shown = self.url.to_string().into_bytes();
        let node = match client.create_in(&dir, name, &how).await {
            // What is there is no regular file: the next step says what it is.
            Err(error) if error.status() == Some(Nfsstat3::Exist) && !self.no_clobber => {
                client.lookup(&dir, name).await
            }
            made => made,
        };
        let node = node.map_err(told)?;
        let file = client.open_node(node, &shown)?;
        // A server need not look at the size for a file that is there (RFC 1813 §3.3.8).
        if node.attributes.size != 0 {
            file.set_len(0).await?;
        }
        Ok(file)
    }
}

/// Standard input, read ahead a little by a thread of its own, in pieces of [`READ_BYTES`] whatever the
/// writer on its other side makes of it.
fn standard_input() -> std::io::Result<mpsc::Receiver<std::io::Result<Bytes>>> {
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    // Refused for what is no pipe, and over a user's share of pipe memory: it stays as it is.
    let _as_it_is = rustix::pipe::fcntl_setpipe_size(&input, READ_BYTES);
    // A COMMIT gives back many at once, and all are soon taken again.
    let pool = BufferPool::keeping(Budget::new(LOCAL_MEMORY_BYTES), LOCAL_MEMORY_BYTES);
    let (sender, receiver) = mpsc::channel(LOCAL_PIECES_MAX);
    // Not one of the runtime's threads: it may hang in read(2) when the command ends.
    std::thread::spawn(move || {
        loop {
            let piece = read_piece(&mut input, READ_BYTES, true, &pool);
            if piece.as_ref().is_ok_and(Bytes::is_empty) {
                return;
            }
            let failed = piece.is_err();
            if sender.blocking_send(piece).is_err() || failed {
                return;
            }
        }
    });
    Ok(receiver)
}
