//! What the Linux kernel's NFSv4 clients hold, shared with others and over restarts of the server: locks, opens,
//! and a database that rests on them.
//!
//! When the grace period is over, and why, the server's log says.

mod blocked;
mod locks;
mod restart;
mod sqlite;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nfs_lab::{
    FsKind, Guest, GuestOutcome, Kernel, Lab, LoopFs, Mount, Netns, Server, ServerOptions, Wire,
};

use super::kernel::failures;
use crate::host::Context;

pub(super) use blocked::run as blocked;
pub(super) use locks::run as locks;
pub(super) use restart::run as restart;
pub(super) use sqlite::run as sqlite;

const PORT: u16 = 2049;
/// The export's path.
const EXPORT: &str = "/data";
/// How long the server may take to say something in its log: longer than a grace period in which nobody comes back.
const LOG_DEADLINE: Duration = Duration::from_secs(100);
/// The pause between two looks at a file.
const PAUSE: Duration = Duration::from_millis(10);

/// A disk, a network, and a server on them that comes and goes.
struct Bed<'a> {
    context: &'a Context,
    export: PathBuf,
    config: PathBuf,
    // Ended before the disk is unmounted.
    netns: Netns,
    disk: LoopFs,
    /// The server's socket, where it is held as systemd holds it: nobody is refused while the server is away.
    socket: Mutex<Option<TcpListener>>,
}

impl<'a> Bed<'a> {
    /// A bed for guests on both wires.
    fn new(context: &'a Context) -> Result<Self> {
        let point = context.lab.dir.join("disk");
        let disk = LoopFs::new(FsKind::Xfs, 512, &point)?;
        let export = point.join("data");
        fs::create_dir(&export)?;
        let netns = Netns::new()?;
        netns.add_second_wire()?;
        let config = context.lab.dir.join("penstock.toml");
        let text = format!(
            "[server]\nversions = [\"4.1\", \"4.2\"]\n\
             [[export]]\npath = \"{}\"\npseudo = \"{EXPORT}\"\nclients = [\"{}\", \"{}\"]\nsquash = \"none\"\n",
            export.display(),
            Netns::NETWORK,
            Wire::SECOND_NETWORK
        );
        fs::write(&config, text)?;
        Ok(Self {
            context,
            export,
            config,
            netns,
            disk,
            socket: Mutex::new(None),
        })
    }

    /// Has the servers that are started from now on handed one socket.
    fn hold_socket(&self) -> Result<()> {
        let bound = || Ok(TcpListener::bind((Netns::HOST, PORT))?);
        let socket = self.netns.within(bound)?;
        *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket);
        Ok(())
    }

    /// Has them make their own again. One that runs keeps the one that it has.
    fn let_go_of_socket(&self) {
        self.socket
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }

    fn start(&self) -> Result<Server> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let options = ServerOptions {
            listen: format!("{}:{PORT}", Netns::HOST),
            socket: socket.as_ref(),
            netns: Some(&self.netns),
            config: Some(self.config.clone()),
            ..ServerOptions::default()
        };
        Server::start(&self.context.lab, &self.export, &self.state(), &options)
    }

    /// The server's state directory.
    fn state(&self) -> PathBuf {
        self.context.lab.dir.join("state")
    }

    /// Kills the server and starts another one; returns when nobody has to wait for the clients of the one that
    /// was killed: since when the new one has been there.
    ///
    /// # Errors
    /// When not all of them came back, or there was nobody to wait for.
    fn restart(&self, server: &mut Server, clients: usize) -> Result<Instant> {
        server.kill()?;
        let from = self.log_length()?;
        *server = self.start()?;
        let started = Instant::now();
        let told = self.hear(
            from,
            &["may reclaim what they held", "there is no grace period"],
        )?;
        let count = format!("clients={clients} ");
        ensure!(
            told.contains(&count),
            "{clients} clients held something, and the log says: {told}"
        );
        let told = self.hear(from, &["the grace period is over"])?;
        ensure!(
            told.contains("all NFSv4 clients came back"),
            "clients were lost: {told}"
        );
        Ok(started)
    }

    fn log(&self) -> PathBuf {
        self.context.lab.dir.join("server.log")
    }

    fn log_length(&self) -> Result<usize> {
        Ok(fs::read(self.log())?.len())
    }

    /// Waits for a line of the log, behind the first `from` bytes, that has one of these texts.
    fn hear(&self, from: usize, texts: &[&str]) -> Result<String> {
        let deadline = Instant::now() + LOG_DEADLINE;
        loop {
            let log = fs::read(self.log())?;
            let log = String::from_utf8_lossy(log.get(from..).unwrap_or_default()).into_owned();
            let mut lines = log.lines();
            if let Some(line) = lines.find(|line| texts.iter().any(|text| line.contains(text))) {
                return Ok(line.to_owned());
            }
            ensure!(
                Instant::now() < deadline,
                "the log does not say: {}",
                texts.join(" or ")
            );
            // SLEEP: between two looks.
            std::thread::sleep(PAUSE);
        }
    }

    /// Runs `script` in a guest that has the export at `/mnt/nfs`.
    fn guest(
        &self,
        client: &Client,
        script: &str,
        within: Duration,
        seen: impl FnMut(&str) -> Result<()>,
    ) -> Result<GuestOutcome> {
        let guest = Guest {
            kernel: client.kernel,
            netns: &self.netns,
            port: PORT,
            mounts: &[Mount::new("nfs", EXPORT, "hard").over(client.version)],
            script,
            within,
        };
        let lab = Lab {
            dir: self.context.lab.dir.join(client.name),
            ..self.context.lab.clone()
        };
        fs::create_dir(&lab.dir)?;
        let outcome = guest.run_on(client.wire, &lab, seen).context(client.name)?;
        let wrong = failures(&outcome);
        ensure!(wrong.is_empty(), "{}: {}", client.name, wrong.join(" | "));
        Ok(outcome)
    }

    fn end(mut self, server: Server) -> Result<()> {
        server.stop()?;
        self.disk.unmount()
    }
}

/// A guest.
struct Client {
    name: &'static str,
    kernel: Kernel,
    wire: &'static Wire,
    version: &'static str,
}

/// A client of each minor version, and of each kernel that there is.
const CLIENTS: [Client; 2] = [
    Client {
        name: "guest-1",
        kernel: Kernel::Installed,
        wire: &Wire::FIRST,
        version: "4.1",
    },
    Client {
        name: "guest-2",
        kernel: Kernel::Newer,
        wire: &Wire::SECOND,
        version: "4.2",
    },
];

/// A file that is made to say that something is enough.
fn make(path: &Path) -> Result<()> {
    fs::write(path, "").with_context(|| path.display().to_string())
}
