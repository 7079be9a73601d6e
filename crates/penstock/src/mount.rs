//! `penstock mount`: an export as a file system that every program sees.

mod background;
mod helper;
mod statistics;
mod words;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use nfs_client::{Client, ClientError, MountOptions, NfsUrl, Version};
use nfs_fuse::{Mount, MountError, Options, Unsaved};
use tokio::signal::unix::{Signal, SignalKind, signal};

use serde_json::json;

pub(crate) use self::helper::run as run_as_helper;
use self::words::{Asked, Words};
use crate::exit::UsageError;
use crate::interrupt;
use crate::limits::{COPIES_UNTOLD, GOODBYE_MAX};
use crate::silence;
use crate::statistics::socket::Telling;

/// Mount an NFS export on a directory (FUSE), so that every program sees its files
///
/// Without root it takes `fusermount3` (package fuse3), and only you can use the
/// mount. Prints one line when it is mounted, and runs until it is unmounted:
/// with `fusermount3 -u DIR`, with `umount DIR` as root, or with Ctrl-C. Either
/// brings everything that was written to the server's stable storage, and says
/// what could not be.
///
/// A file is on stable storage when `close` or `fsync` of the program that wrote
/// it has returned.
///
/// Examples:
///
///   penstock mount nfs://localhost:20049/ /mnt
///
///   penstock mount --background -o ro,nconnect=4 nfs://server/photos ~/photos
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

    /// Say that it is mounted as a JSON object
    #[arg(long)]
    json: bool,

    /// What to mount: nfs://HOST[:PORT]/EXPORT/DIRECTORY
    url: NfsUrl,

    /// Where to mount it: an existing directory
    dir: PathBuf,
}

const AFTER_HELP: &str = "\
Options of -o:
  ro, rw             read-only or not
  allow_other        other users may use the mount. Made by root, each
                     program's requests carry its own user and groups; made
                     by anybody else, they all carry the mounter's
  default_permissions, no_default_permissions
                     whether the kernel checks permission bits, too; the
                     server does in any case. On with allow_other; off for
                     servers with ACLs that allow more than the bits
  cached             as --cached
  hard               wait for a server that is away for ever
  timeout=SECONDS    when the server does not answer for so long (300),
                     programs get an error (ETIMEDOUT) instead
  timeo=TENTHS       after so much silence calls go out again (150)
  hint=HINT          how programs read the files: sequential, random,
                     noreuse, willneed or normal, as posix_fadvise(2) has
                     them, which the kernel does not pass on
  nconnect=N         connections to the server, 1 to 16
  rsize=N, wsize=N   bytes of a READ, of a WRITE, at most
  port=N, mountport=N
                     the ports of NFS and MOUNT
  threads=N          threads that take the kernel's requests (2)
  attr_timeout=SECONDS, entry_timeout=SECONDS
                     how long attributes and names may be remembered (1);
                     actimeo=SECONDS both, noac neither
  suid, dev, noexec  set-user-ID bits count; devices do; no program starts
  log=FILE           as --log

Options that say what is so anyway are taken: vers=3, nolock, proto=tcp,
sec=sys, soft, cto, noatime (the server keeps times of access), and those
for mount(8) and systemd: _netdev, nofail, noauto, user, x-... What
something else would happen for is refused with the reason.

In fstab(5), with /sbin/mount.fuse.penstock a link to this program:
  nfs://server/export /mnt fuse.penstock allow_other,hard,_netdev 0 0

Locks are kept on this machine only. There are no extended attributes and
no ACLs.

Exit codes: 0 unmounted and everything is safe, 1 failure, 2 wrong usage,
130 given up while the server did not answer. As mount.fuse.penstock those
of mount(8): 1 wrong usage, 32 not mounted.";

impl Args {
    /// Mounts, and serves until it is unmounted.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        self.mount(true)
    }

    /// [`Self::run`]; `tells` whether it is said that it is mounted, when that is so in the background.
    fn mount(self, tells: bool) -> anyhow::Result<ExitCode> {
        if self.background && !background::is_child() {
            return background::start(tells);
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
        if self.url.version != Version::V3 {
            let version = self.url.version.word();
            return Err(ClientError::OnlyV3 { version }.into());
        }
        refuse_second(&self.dir)?;
        let (url, options) = asked.of_client(&self.url);
        let found = async {
            let (client, path) = Client::mount_with(&url, &options).await?;
            let root = client.resolve(&path).await?;
            Ok::<_, ClientError>((client, root))
        };
        // Whoever waits for the mount is told of a server that says nothing, and may give it up.
        let (client, root) = tokio::select! {
            found = silence::told(&options.connect.liveness, found) => found?,
            () = signals.next() => return Ok(interrupt::exit_code()),
        };
        let fuse = self.fuse_options(&asked);
        let cached = fuse.cached;
        let mounted = Mount::new(client.clone(), root, &self.dir, fuse);
        let mount = mounted.await.map_err(usage)?;
        // Told as long as it is there, and until all is safe.
        let telling = statistics::tell(&client, &self.url, mount.point(), cached);
        let cannot = |error| {
            tell(&format!(
                "`penstock stats` cannot look at this mount: {error}"
            ));
        };
        let mut telling = telling.map_err(cannot).ok().flatten();
        self.tell_mounted(mount.point());
        if self.background {
            let log = self.log.as_deref().or(asked.log.as_deref());
            background::detach(log)?;
        }
        let unsaved = until_unmounted(mount, &mut signals, &mut telling).await;
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

    fn tell_mounted(&self, point: &Path) {
        let mut out = std::io::stdout().lock();
        let url = self.url.to_string();
        let line = match self.json {
            true => {
                let directory = point.to_string_lossy();
                json!({ "url": url, "directory": directory, "done": "mounted" }).to_string()
            }
            false => format!("mounted {url} on {}", point.display()),
        };
        // Whoever started this may have gone; the mount is there all the same.
        let _ = writeln!(out, "{line}");
        let _ = out.flush();
    }

    fn fuse_options(&self, asked: &Asked) -> Options {
        let usual = Options::default();
        let mounter_decides = self.url.uid.is_some() || self.url.gid.is_some();
        Options {
            name: self.url.to_string(),
            read_only: asked.read_only,
            allow_other: asked.allow_other,
            suid: asked.suid,
            dev: asked.dev,
            no_exec: asked.no_exec,
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

impl Asked {
    /// What the words say of how the server is called: in the address where that has a place for it.
    fn of_client(&self, url: &NfsUrl) -> (NfsUrl, MountOptions) {
        let mut options = MountOptions::default();
        options.nconnect = self.nconnect.unwrap_or(options.nconnect);
        options.hint = self.hint.unwrap_or(options.hint);
        let connect = &mut options.connect;
        connect.call_timeout = self.call_timeout.unwrap_or(connect.call_timeout);
        connect.retry_after = self.retry_after.unwrap_or(connect.retry_after);
        let url = NfsUrl {
            port: self.port.or(url.port),
            mount_port: self.mount_port.or(url.mount_port),
            read_bytes: self.read_bytes.or(url.read_bytes),
            write_bytes: self.write_bytes.or(url.write_bytes),
            ..url.clone()
        };
        (url, options)
    }
}

/// Refuses a directory that an export is mounted on already: two mounts of one place hide each other, and unmounting
/// takes the wrong one. The mount itself is not looked at, for its server may be away.
fn refuse_second(dir: &Path) -> anyhow::Result<()> {
    let absolute = std::path::absolute(dir).with_context(|| dir.display().to_string())?;
    let point = match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => match parent.canonicalize() {
            Ok(parent) => parent.join(name),
            // What is wrong with it is told where it is mounted on.
            Err(_) => return Ok(()),
        },
        _ => absolute,
    };
    let mounts = nfs_io::mounts::mounts().context("/proc/self/mountinfo")?;
    let there = mounts
        .iter()
        .rev()
        .find(|mount| mount.mount_point == point && mount.fs_type == nfs_fuse::FS_TYPE);
    match there {
        None => Ok(()),
        Some(there) => Err(UsageError(format!(
            "{}: {} is mounted here already; unmount it first: fusermount3 -u {}",
            point.display(),
            there.source,
            interrupt::quoted(point.as_os_str()),
        ))
        .into()),
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
async fn until_unmounted(
    mount: Mount,
    signals: &mut Signals,
    telling: &mut Option<Telling>,
) -> Vec<Unsaved> {
    let early = tokio::select! {
        () = mount.ended() => Vec::new(),
        () = signals.next() => {
            or_at_once(unmounted(&mount), signals, mount.abandon(), telling).await
        }
    };
    let mut unsaved = or_at_once(mount.finish(), signals, async { Ok(()) }, telling).await;
    unsaved.extend(early);
    unsaved
}

/// Unmounts in good order. Tells what is not safe.
async fn unmounted(mount: &Mount) -> Vec<Unsaved> {
    let unsaved = mount.sync().await;
    match mount.unmount(false).await {
        Ok(()) => copies_ended(mount).await,
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

/// Waits for the end of a mount that is off the tree and that no program of this mount namespace uses. Others, of
/// containers and services that were started meanwhile, may have a copy of it.
async fn copies_ended(mount: &Mount) {
    if tokio::time::timeout(COPIES_UNTOLD, mount.ended())
        .await
        .is_err()
    {
        tell(&format!(
            "{}: it is unmounted here, and still mounted in another mount namespace (a container or a service that was \
             started meanwhile: `grep -l {} /proc/[0-9]*/mounts`); it ends when that ends (a second signal ends it at \
             once)",
            mount.point().display(),
            nfs_fuse::FS_TYPE,
        ));
    }
}

/// What `work` brings, unless a signal ends this process before, after `leave`: the server may be away. The socket for
/// `penstock stats` goes in that case, too.
async fn or_at_once<T>(
    work: impl Future<Output = T>,
    signals: &mut Signals,
    leave: impl Future<Output = Result<(), MountError>>,
    telling: &mut Option<Telling>,
) -> T {
    tokio::select! {
        done = work => done,
        () = signals.next() => {
            tell("ended at once: what programs wrote and did not close may not be on the server");
            if let Ok(Err(error)) = tokio::time::timeout(GOODBYE_MAX, leave).await {
                tell(&error.to_string());
            }
            // Nothing that is not dropped by hand is dropped.
            drop(telling.take());
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
