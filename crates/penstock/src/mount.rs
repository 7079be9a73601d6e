//! `penstock mount`: an export as a file system that every program sees.

mod background;
mod statistics;
mod words;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use nfs_client::{Client, ClientError, MountOptions, NfsUrl, Version};
use nfs_fuse::{Mount, MountError, Options, Unsaved};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::words::{Asked, Words};
use crate::exit::UsageError;
use crate::limits::GOODBYE_MAX;

/// Mount an NFS export on a directory (FUSE), so that every program sees its files
///
/// Without root it takes `fusermount3` (package fuse3), and only you can use the mount. Prints one line
/// when it is mounted, and runs until it is unmounted: with `fusermount3 -u DIR`, with `umount DIR` as
/// root, or with Ctrl-C. Either brings everything that was written to the server's stable storage, and
/// says what could not be.
///
/// A file is on stable storage when `close` or `fsync` of the program that wrote it has returned.
///
/// Examples:
///
///   penstock mount nfs://localhost:20049/ /mnt
///
///   penstock mount --background -o ro,nconnect=4 nfs://server/export/photos ~/photos
///
///   sudo penstock mount -o allow_other nfs://server/export /mnt
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Options, separated by commas; --help lists them
    #[arg(short = 'o', value_name = "OPTION,...")]
    options: Vec<Words>,

    /// Let the kernel keep file contents: faster for programs that read the same again
    ///
    /// What others write is seen when a file is opened after they closed it. The same as `-o cached`.
    #[arg(long)]
    cached: bool,

    /// Return when it is mounted, and go on in the background
    #[arg(long)]
    background: bool,

    /// Where messages go in the background; without it they are lost
    #[arg(long, value_name = "FILE", requires = "background")]
    log: Option<PathBuf>,

    /// What to mount: nfs://HOST[:PORT]/EXPORT/DIRECTORY
    url: NfsUrl,

    /// Where to mount it: an existing directory
    dir: PathBuf,
}

const AFTER_HELP: &str = "\
Options of -o:
  ro, rw                   read-only or not
  allow_other              other users may use the mount. Made by root, each program's requests carry
                           its own user and groups; made by anybody else, they all carry the mounter's
  default_permissions      the kernel checks permission bits, too; the server does in any case. On with
                           allow_other; no_default_permissions turns it off, for servers with ACLs that
                           allow more than the bits
  cached                   as --cached
  hint=HINT                how programs read the files: sequential, random, noreuse, willneed or normal, as
                           posix_fadvise(2) has them, which the kernel does not pass on
  nconnect=N               connections to the server, 1 to 16
  threads=N                threads that take the kernel's requests (2)
  attr_timeout=SECONDS     how long attributes may be remembered (1)
  entry_timeout=SECONDS    how long names may be remembered (1)
  timeout=SECONDS          when the server does not answer for so long, programs get an error (ETIMEDOUT)
                           instead of waiting on

Locks are kept on this machine only. There are no extended attributes and no ACLs.

Exit codes: 0 unmounted and everything is safe, 1 failure, 2 wrong usage.";

impl Args {
    /// Mounts, and serves until it is unmounted.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if self.background && !background::is_child() {
            return background::start();
        }
        if self.background {
            background::leave_terminal();
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start the event loop")?;
        let code = runtime.block_on(self.serve());
        // Requests that are still waiting for the server have nobody to answer to.
        runtime.shutdown_background();
        code
    }

    async fn serve(self) -> anyhow::Result<ExitCode> {
        let asked = Asked::of(&self.options);
        let mut signals = Signals::new()?;
        let mut options = MountOptions::default();
        if let Some(count) = asked.nconnect {
            options.nconnect = count;
        }
        if let Some(hint) = asked.hint {
            options.hint = hint;
        }
        if let Some(timeout) = asked.call_timeout {
            options.connect.call_timeout = timeout;
        }
        if self.url.version != Version::V3 {
            let version = self.url.version.word();
            return Err(ClientError::OnlyV3 { version }.into());
        }
        let (client, path) = Client::mount_with(&self.url, &options).await?;
        let root = client.resolve(&path).await?;
        let fuse = self.fuse_options(&asked);
        let cached = fuse.cached;
        let mounted = Mount::new(client.clone(), root, &self.dir, fuse);
        let mount = mounted.await.map_err(usage)?;
        // Told as long as it is there, and until all is safe.
        let telling = statistics::tell(&client, &self.url, mount.point(), cached);
        if let Err(error) = &telling {
            tell(&format!(
                "`penstock stats` cannot look at this mount: {error}"
            ));
        }
        {
            let mut out = std::io::stdout().lock();
            // Whoever started this may have gone; the mount is there all the same.
            let _ = writeln!(out, "mounted {} on {}", self.url, mount.point().display());
            let _ = out.flush();
        }
        if self.background {
            background::detach(self.log.as_deref())?;
        }
        let unsaved = until_unmounted(mount, &mut signals).await;
        drop(telling);
        for file in &unsaved {
            tell(&format!(
                "file number {}: not all that was written is safe on the server: {}",
                file.number, file.error
            ));
        }
        // Advisory: the server's list of mounts is for people to look at. A server that is away is not
        // waited for.
        tokio::select! {
            _ = tokio::time::timeout(GOODBYE_MAX, client.unmount()) => {}
            () = signals.next() => {}
        }
        Ok(if unsaved.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn fuse_options(&self, asked: &Asked) -> Options {
        let usual = Options::default();
        let mounter_decides = self.url.uid.is_some() || self.url.gid.is_some();
        Options {
            name: self.url.to_string(),
            read_only: asked.read_only,
            allow_other: asked.allow_other,
            default_permissions: asked.default_permissions.unwrap_or(asked.allow_other),
            each_caller: asked.allow_other
                && !mounter_decides
                && rustix::process::geteuid().is_root(),
            cached: self.cached || asked.cached,
            attr_timeout: asked.attr_timeout.unwrap_or(usual.attr_timeout),
            entry_timeout: asked.entry_timeout.unwrap_or(usual.entry_timeout),
            threads: asked.threads.unwrap_or(usual.threads),
        }
    }
}

/// A mount point that is none is wrong usage.
fn usage(error: MountError) -> anyhow::Error {
    match error {
        MountError::Point { .. } | MountError::NotADirectory => {
            UsageError(error.to_string()).into()
        }
        other => other.into(),
    }
}

/// Waits for the end: unmounted from outside, or by a signal. Tells what is not safe then.
async fn until_unmounted(mount: Mount, signals: &mut Signals) -> Vec<Unsaved> {
    let early = tokio::select! {
        () = mount.ended() => Vec::new(),
        () = signals.next() => {
            or_at_once(unmounted(&mount), signals, mount.abandon()).await
        }
    };
    let mut unsaved = or_at_once(mount.finish(), signals, async { Ok(()) }).await;
    unsaved.extend(early);
    unsaved
}

/// Unmounts in good order. Tells what is not safe.
async fn unmounted(mount: &Mount) -> Vec<Unsaved> {
    let unsaved = mount.sync().await;
    match mount.unmount(false).await {
        Ok(()) => {}
        Err(MountError::Busy { .. }) => {
            tell(&format!(
                "{}: programs still use it; it is taken off the tree now and ends when they \
                 close their files (a second signal ends it at once)",
                mount.point().display()
            ));
            if let Err(error) = mount.unmount(true).await {
                tell(&error.to_string());
            }
        }
        Err(error) => tell(&error.to_string()),
    }
    mount.ended().await;
    unsaved
}

/// What `work` brings, unless a signal ends this process before, after `leave`: the server may be away.
async fn or_at_once<T>(
    work: impl Future<Output = T>,
    signals: &mut Signals,
    leave: impl Future<Output = Result<(), MountError>>,
) -> T {
    tokio::select! {
        done = work => done,
        () = signals.next() => {
            tell("ended at once: what programs wrote and did not close may not be on the server");
            if let Ok(Err(error)) = tokio::time::timeout(GOODBYE_MAX, leave).await {
                tell(&error.to_string());
            }
            std::process::exit(1);
        }
    }
}

/// Says something on standard error, which may be gone.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "penstock: {text}");
}

/// The signals that end the mount.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        let kind = |kind| signal(kind).context("cannot wait for signals");
        Ok(Self {
            interrupt: kind(SignalKind::interrupt())?,
            terminate: kind(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
