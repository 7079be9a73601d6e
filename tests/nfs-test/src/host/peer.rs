//! The servers that our client is tested against, as one thing: an export that is filled on the host,
//! served, changed by the client, and looked at again on the host when the server has ended.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nfs_client::NfsUrl;
use nfs_lab::{FsKind, KernelNfsd, LoopFs, Netns, Promise, Running, Server, ServerOptions, output};
use nfs_load::ganesha::{Clients, Ports, Protocols, Served};

use super::Context;

/// How long a foreign server may take to start.
const START_DEADLINE: Duration = Duration::from_secs(60);
/// The export's file system, in MiB; what is not written takes no space.
const DISK_MIB: u32 = 12 << 10;

/// The kinds of server that our client is tested on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Penstock,
    Ganesha,
    KernelNfsd,
    /// The same with an export that answers before what it promises is so.
    KernelNfsdAsync,
}

/// A server that runs on an export of its own.
pub(crate) struct PeerServer<'a> {
    pub(crate) context: &'a Context,
    peer: Peer,
    // Ended before the namespace and the disk that they use.
    process: Process,
    netns: Netns,
    disk: LoopFs,
    export: PathBuf,
    root: NfsUrl,
}

enum Process {
    Penstock(Server),
    Ganesha(Running),
    KernelNfsd(KernelNfsd),
    Ended,
}

impl<'a> PeerServer<'a> {
    /// Fills an export with `fill` and serves it; the server answers when this returns.
    ///
    /// # Errors
    /// Those of `fill`, and when the server does not start.
    pub(crate) fn start(
        context: &'a Context,
        peer: Peer,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        let export = context.lab.dir.join("export");
        let netns = Netns::new()?;
        let mut disk = LoopFs::new(FsKind::Ext4, DISK_MIB, &export)?;
        fill(&export)?;
        let (process, root) = match peer {
            Peer::Penstock => {
                let options = ServerOptions {
                    netns: Some(&netns),
                    more: &["--squash", "none"],
                    ..ServerOptions::default()
                };
                let server = Server::start(
                    &context.lab,
                    &export,
                    &context.lab.dir.join("state"),
                    &options,
                )?;
                let url = format!("nfs://{}/", server.address());
                (Process::Penstock(server), url)
            }
            Peer::Ganesha => {
                let server = ganesha(&context.lab.dir, &netns, &export)?;
                let path = export.to_str().context("the export's path is UTF-8")?;
                (Process::Ganesha(server), format!("nfs://127.0.0.1{path}"))
            }
            Peer::KernelNfsd | Peer::KernelNfsdAsync => {
                let promise = match peer {
                    Peer::KernelNfsdAsync => Promise::Async,
                    _ => Promise::Sync,
                };
                disk.unmount()?;
                let (lab, image) = (&context.lab, disk.image());
                let server = KernelNfsd::start_promising(lab, &netns, image, promise)?;
                let url = format!("nfs://{}{}", Netns::GUEST, KernelNfsd::EXPORT);
                (Process::KernelNfsd(server), url)
            }
        };
        let server = Self {
            context,
            peer,
            process,
            netns,
            disk,
            export,
            root: root.parse()?,
        };
        server.until_it_answers()?;
        Ok(server)
    }

    fn until_it_answers(&self) -> Result<()> {
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            match output(self.penstock().arg("stat").arg(self.root.to_string())) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    return Err(error).with_context(|| format!("{:?} does not answer", self.peer));
                }
                // SLEEP: between two looks at a server that has no way to tell that it is ready.
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    /// The `penstock` command, run where the server can be reached.
    pub(crate) fn penstock(&self) -> Command {
        self.netns.command(&self.context.lab.program)
    }

    /// The directory in which our server keeps its control socket.
    pub(crate) fn state(&self) -> PathBuf {
        self.context.lab.dir.join("state")
    }

    /// The namespace in which the server can be reached.
    pub(crate) fn netns(&self) -> &Netns {
        &self.netns
    }

    /// The URL of a path below the export; the path begins without `/`.
    pub(crate) fn url(&self, path: impl AsRef<[u8]>) -> NfsUrl {
        let mut whole = self.root.path.clone();
        if !whole.ends_with(b"/") {
            whole.push(b'/');
        }
        whole.extend_from_slice(path.as_ref());
        self.root.with_path(whole)
    }

    /// Ends the server and returns the export's directory, to be looked at. The disk goes with `self`.
    ///
    /// # Errors
    /// When it does not end as it should.
    pub(crate) fn at_rest(&mut self) -> Result<&Path> {
        match std::mem::replace(&mut self.process, Process::Ended) {
            Process::Penstock(server) => server.stop()?,
            Process::Ganesha(mut server) => {
                ensure!(server.exited()?.is_none(), "Ganesha has ended by itself");
            }
            Process::KernelNfsd(server) => {
                server.stop()?;
                self.disk.mount()?;
            }
            Process::Ended => {}
        }
        Ok(&self.export)
    }
}

/// Ganesha in the namespace, on its usual ports; it answers some time later.
fn ganesha(dir: &Path, netns: &Netns, export: &Path) -> Result<Running> {
    let served = Served {
        dir,
        export,
        ports: Ports {
            nfs: 2049,
            mount: 20048,
        },
        protocols: Protocols::V3,
        clients: Clients::Everybody,
    };
    let mut words = served.command_line_in_private()?.into_iter();
    let program = words.next().context("a command has a program")?;
    let mut command = netns.command(&program);
    Running::start(command.args(words).stdin(Stdio::null()))
}
