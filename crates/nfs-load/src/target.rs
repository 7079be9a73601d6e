//! Who is measured: a server that is there, ours in one of its modes, or this host's file system.
//!
//! What is started here ends with the value that stands for it, and so do its files.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nfs_client::{MountOptions, NfsUrl};
use nfs_io::{BusyPoll, usage};

use crate::error::LoadError;
use crate::ganesha::{self, Clients, Ports, Protocols, Served};
use crate::leftovers;
use crate::limits::{CLAIMS_MAX, FILE_BYTES_MAX, STARTS_MAX};
use crate::own::Own;
use crate::place::{Place, Session, Way};
use crate::respond::{self, Answers};
use crate::serving::{Room, Serving};
use crate::watch::has_ended;

/// Whom a run measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The server at this address, which is there already.
    Server(NfsUrl),
    /// Our server in this mode, started and ended by the run.
    Own(Own),
    /// A server that others made, started and ended by the run.
    Peer(Peer),
    /// What is mounted at this directory of this host, by whichever client: a kernel's, or one in user space.
    Mounted(PathBuf),
    /// The file system of this host, asked in this way.
    Local(Way),
    /// The responder in this process that touches no file: what comes of it is what the generator itself can do.
    Responder,
}

/// A server that others made, as this host has it installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// NFS-Ganesha with its VFS back end.
    Ganesha,
}

/// Size of the responder's files, in bytes: no load reads past their end.
const RESPONDER_FILE_BYTES: u64 = FILE_BYTES_MAX;

impl Peer {
    /// Name and version of what is installed.
    ///
    /// # Errors
    /// It is not installed, or cannot be started by this user.
    pub fn version(self) -> Result<String, LoadError> {
        match self {
            Self::Ganesha => Ok(format!("NFS-Ganesha {}", ganesha::version()?)),
        }
    }
}

impl Target {
    /// Its name in the report.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Server(url) => {
                let port = url.port.map_or(String::new(), |port| format!(":{port}"));
                let path = String::from_utf8_lossy(&url.path);
                format!("{}{port}{path} (NFSv{})", url.host, url.version)
            }
            Self::Own(own) => format!("penstock {}", own.words()),
            Self::Peer(Peer::Ganesha) => "ganesha".to_owned(),
            Self::Mounted(directory) => format!("mounted {}", directory.display()),
            Self::Local(way) => format!("local {}", way.word()),
            Self::Responder => "responder".to_owned(),
        }
    }

    /// Whether its files are on this host, in the run's one directory.
    #[must_use]
    pub const fn is_here(&self) -> bool {
        match self {
            Self::Server(_) | Self::Mounted(_) | Self::Responder => false,
            Self::Own(_) | Self::Peer(_) | Self::Local(_) => true,
        }
    }

    /// Whether its calls go to a server, so that what the generator does against the responder is their ceiling.
    #[must_use]
    pub const fn is_held_against_the_responder(&self) -> bool {
        match self {
            Self::Server(_) | Self::Own(_) | Self::Peer(_) => true,
            Self::Mounted(_) | Self::Local(_) | Self::Responder => false,
        }
    }
}

/// A directory of the run's own on this host, which goes with the value.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Held as long as the run lives, where other runs look for what ended ones left.
    _lock: Option<File>,
}

impl Scratch {
    /// Makes a directory in `parent`, and removes those that runs of this user left which could not clear up.
    ///
    /// # Errors
    /// There is no such directory, or it may not be written.
    pub fn new(parent: &Path) -> Result<Self, LoadError> {
        let parent = fs::canonicalize(parent).map_err(LoadError::local(parent))?;
        leftovers::sweep(&parent);
        let mut left = CLAIMS_MAX;
        loop {
            let path = Self::made(&parent)?;
            left -= 1;
            match leftovers::claim(&path) {
                Ok(lock) => return Ok(Self { path, _lock: lock }),
                Err(error) if error.kind() == io::ErrorKind::NotFound && left > 0 => {}
                Err(error) => return Err(LoadError::local(&path)(error)),
            }
        }
    }

    /// Makes a directory in `parent`, which may be a server's: nobody looks for leftovers there.
    fn unlocked(parent: &Path) -> Result<Self, LoadError> {
        let parent = fs::canonicalize(parent).map_err(LoadError::local(parent))?;
        let path = Self::made(&parent)?;
        Ok(Self { path, _lock: None })
    }

    fn made(parent: &Path) -> Result<PathBuf, LoadError> {
        let path = parent.join(leftovers::unique());
        fs::create_dir(&path).map_err(LoadError::local(&path))?;
        Ok(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("penstock: cannot remove {}: {error}", self.path.display());
        }
    }
}

/// The export at `path` of a server of this run, with its ports of NFS and MOUNT.
fn ours(setup: &Setup<'_>, (port, mount_port): (u16, u16), path: &[u8]) -> Place {
    Place::Nfs {
        url: NfsUrl {
            host: "127.0.0.1".to_owned(),
            port: Some(port),
            mount_port: Some(mount_port),
            path: path.to_vec(),
            ..NfsUrl::default()
        },
        options: setup.options.clone(),
    }
}

/// A responder of this process that polls for so long, begun now: its export as a place.
///
/// # Errors
/// There is no loopback.
pub(crate) fn responder(options: &MountOptions, busy_poll: BusyPoll) -> Result<Place, LoadError> {
    let begun = respond::begin(Answers {
        file_bytes: RESPONDER_FILE_BYTES,
        delay: Duration::ZERO,
        copied: false,
        busy_poll,
    });
    let address = begun.map_err(LoadError::system("listen on loopback"))?;
    Ok(Place::Nfs {
        url: NfsUrl {
            host: address.ip().to_string(),
            port: Some(address.port()),
            mount_port: Some(address.port()),
            path: respond::EXPORT.as_bytes().to_vec(),
            ..NfsUrl::default()
        },
        options: options.clone(),
    })
}

/// What the C library calls `EADDRINUSE`, in the log of a server that finds a port taken.
const PORT_TAKEN: &str = "Address already in use";

/// Calls `start` with two ports that nobody has at this moment; again with others, if somebody takes one of them
/// before the server does. A server that listens on port 0 needs none of this, but has to tell where it listens.
fn on_free_ports<T>(mut start: impl FnMut(Ports) -> Result<T, LoadError>) -> Result<T, LoadError> {
    for _ in 1..STARTS_MAX {
        let ports = free_ports().map_err(LoadError::system("find free ports"))?;
        match start(ports) {
            Err(LoadError::Start { why, .. }) if why.contains(PORT_TAKEN) => {}
            ended => return ended,
        }
    }
    start(free_ports().map_err(LoadError::system("find free ports"))?)
}

/// Two ports that nobody has at this moment, on any address of this host.
fn free_ports() -> io::Result<Ports> {
    // A listener on `::` has the port of every IPv4 address too, where the host has IPv6.
    let listen = || {
        TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))
    };
    let (nfs, mount) = (listen()?, listen()?);
    Ok(Ports {
        nfs: nfs.local_addr()?.port(),
        mount: mount.local_addr()?.port(),
    })
}

/// A target that can be measured.
#[derive(Debug)]
pub struct Standing {
    /// Its name in the report.
    pub name: String,
    /// Where the files of the measurements are.
    pub place: Place,
    /// The same directory on this host, if it is there.
    pub backing: Option<PathBuf>,
    /// The directory that the place is in, if it has to be removed through the server, and its name there.
    parent: Option<(Place, String)>,
    /// The directory that the place is in, if it is a directory of the run's own beside the one that all share.
    scratch: Option<Scratch>,
    server: Option<Serving>,
    meter: Meter,
    /// Whether it has not answered: nothing more is asked of it.
    is_silent: Cell<bool>,
}

/// Whose processor time is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meter {
    Nobody,
    Process(u32),
    Ourselves,
}

/// What starting a target takes.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// The program of this project.
    pub program: &'a Path,
    /// A directory of the run's own on this host.
    pub scratch: &'a Path,
    /// How servers are mounted.
    pub options: &'a MountOptions,
    /// Memory of each server that is started, in bytes; `None` for all there is.
    pub memory_bytes: Option<u64>,
}

impl Standing {
    /// Starts a target, or goes to it, and makes the directory of its files.
    ///
    /// # Errors
    /// It does not start, or cannot be reached or written.
    pub fn start(target: &Target, setup: &Setup<'_>) -> Result<Self, LoadError> {
        match target {
            Target::Server(url) => Self::at_server(target.name(), url, setup),
            Target::Own(own) => Self::own(*own, setup),
            Target::Peer(Peer::Ganesha) => Self::ganesha(setup),
            Target::Mounted(directory) => {
                let scratch = Scratch::unlocked(directory)?;
                let directory = scratch.path().to_owned();
                Ok(Self {
                    name: target.name(),
                    place: Place::Local {
                        directory: directory.clone(),
                        way: Way::Buffered,
                    },
                    backing: Some(directory),
                    parent: None,
                    scratch: Some(scratch),
                    server: None,
                    meter: Meter::Nobody,
                    is_silent: Cell::new(false),
                })
            }
            Target::Responder => Ok(Self {
                name: target.name(),
                place: responder(setup.options, BusyPoll::OFF)?,
                backing: None,
                parent: None,
                scratch: None,
                server: None,
                // Generator and responder are one process: nobody's time is told apart.
                meter: Meter::Nobody,
                is_silent: Cell::new(false),
            }),
            Target::Local(way) => {
                let directory = setup.scratch.join(target.name().replace(' ', "-"));
                fs::create_dir(&directory).map_err(LoadError::local(&directory))?;
                Ok(Self {
                    name: target.name(),
                    place: Place::Local {
                        directory: directory.clone(),
                        way: *way,
                    },
                    backing: Some(directory),
                    parent: None,
                    scratch: None,
                    server: None,
                    meter: Meter::Ourselves,
                    is_silent: Cell::new(false),
                })
            }
        }
    }

    fn at_server(name: String, url: &NfsUrl, setup: &Setup<'_>) -> Result<Self, LoadError> {
        let parent = Place::Nfs {
            url: url.clone(),
            options: setup.options.clone(),
        };
        let directory = leftovers::unique();
        at(&parent, async |session| {
            session.make_directory(&directory).await
        })?;
        Ok(Self {
            name,
            place: parent.below(&directory),
            backing: None,
            parent: Some((parent, directory)),
            scratch: None,
            server: None,
            meter: Meter::Nobody,
            is_silent: Cell::new(false),
        })
    }

    fn own(own: Own, setup: &Setup<'_>) -> Result<Self, LoadError> {
        let (name, words) = (Target::Own(own).name(), own.words());
        let home = setup.scratch.join(&words);
        let export = home.join("export");
        fs::create_dir_all(&export).map_err(LoadError::local(&export))?;
        let usual = ["--listen=127.0.0.1:0", "--no-rpcbind", "--log-level=warn"];
        let mut arguments: Vec<OsString> = vec!["serve".into(), (&export).into()];
        arguments.extend(["--state-dir".into(), home.join("state").into()]);
        arguments.extend(usual.map(OsString::from));
        arguments.extend(own.options().into_iter().map(OsString::from));
        let room = Room::new(&words, setup.memory_bytes)?;
        let log = home.join("log");
        let (server, port) = Serving::listening(&name, room, setup.program, &arguments, &log)?;
        let place = ours(setup, (port, port), b"/");
        Ok(Self::started(name, server, place, export))
    }

    fn ganesha(setup: &Setup<'_>) -> Result<Self, LoadError> {
        on_free_ports(|ports| Self::ganesha_on(ports, setup))
    }

    fn ganesha_on(ports: Ports, setup: &Setup<'_>) -> Result<Self, LoadError> {
        let name = Target::Peer(Peer::Ganesha).name();
        let home = setup.scratch.join(&name);
        let export = home.join("export");
        fs::create_dir_all(&export).map_err(LoadError::local(&export))?;
        let served = Served {
            dir: &home,
            export: &export,
            ports,
            protocols: Protocols::V3AndV41,
            clients: Clients::Loopback,
        };
        let room = Room::new(&name, setup.memory_bytes)?;
        let place = ours(
            setup,
            (ports.nfs, ports.mount),
            export.as_os_str().as_bytes(),
        );
        let answers = || at(&place, async |_session| Ok(())).is_ok();
        let server = Serving::ganesha(&name, room, &served, answers)?;
        Ok(Self::started(name, server, place, export))
    }

    fn started(name: String, server: Serving, place: Place, backing: PathBuf) -> Self {
        Self {
            name,
            place,
            backing: Some(backing),
            parent: None,
            scratch: None,
            meter: Meter::Process(server.pid()),
            server: Some(server),
            is_silent: Cell::new(false),
        }
    }

    /// The number of the process that was started for the run and serves.
    pub(crate) fn server(&self) -> Option<u32> {
        self.server.as_ref().map(Serving::pid)
    }

    /// The number of the process whose processor time is counted.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        match self.meter {
            Meter::Nobody => None,
            Meter::Process(process) => Some(process),
            Meter::Ourselves => Some(std::process::id()),
        }
    }

    /// Processor time of the server so far, in seconds; of this process, where it works on files itself.
    #[must_use]
    pub fn cpu_seconds(&self) -> Option<f64> {
        let usage = match self.meter {
            Meter::Nobody => None,
            Meter::Process(pid) => usage::of(pid),
            Meter::Ourselves => usage::process(),
        };
        usage.map(|usage| (usage.user + usage.system).as_secs_f64())
    }

    /// Takes note of why something failed: of a server that does not answer nothing more is asked, as each call would
    /// wait for as long as a call may take.
    pub(crate) fn note(&self, error: &LoadError) {
        if error.is_silence() {
            self.is_silent.set(true);
        }
    }

    /// Whether something may be asked of it.
    ///
    /// # Errors
    /// It has not answered before, or the server that was started for the run has ended.
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        if self.is_silent.get() {
            return Err(LoadError::Silent);
        }
        match self.server().is_some_and(has_ended) {
            true => Err(LoadError::Ended),
            false => Ok(()),
        }
    }

    /// Removes the files from a server that stays, and says which stay.
    pub(crate) fn leave(&mut self) -> Option<String> {
        let stays = match &self.parent {
            Some((_, directory)) => format!("the directory {directory} stays on {}", self.name),
            None => return None,
        };
        match self.clean() {
            Ok(()) => None,
            Err(error) => Some(format!("{stays}: {error}")),
        }
    }

    fn clean(&mut self) -> Result<(), LoadError> {
        match self.parent.take() {
            Some(_) if self.is_silent.get() => Err(LoadError::Silent),
            Some((parent, name)) => at(&parent, async |session| session.remove_tree(&name).await),
            None => Ok(()),
        }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if let Some(stays) = self.leave() {
            eprintln!("penstock: {stays}");
        }
        drop(self.server.take());
        drop(self.scratch.take());
    }
}

/// Does something at a place, with a session of its own.
///
/// # Errors
/// The place cannot be reached, or what was done failed.
pub fn at<T>(
    place: &Place,
    work: impl AsyncFnOnce(&Session) -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(LoadError::system("start an event loop"))?;
    runtime.block_on(async {
        let session = Session::open(place).await?;
        let done = work(&session).await;
        session.end().await;
        done
    })
}

/// The words of a command line, for a report.
#[must_use]
pub fn command_line(words: &[OsString]) -> String {
    let plain = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte))
    };
    let shown = words.iter().map(|word| {
        let text = word.to_string_lossy();
        match plain(&text) {
            true => text.into_owned(),
            false => format!("'{}'", text.replace('\'', "'\\''")),
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(why: &str) -> LoadError {
        LoadError::Start {
            server: "ganesha".to_owned(),
            why: why.to_owned(),
        }
    }

    #[test]
    fn a_server_whose_port_was_taken_starts_on_others() {
        let mut tried = Vec::new();
        let started = on_free_ports(|ports| {
            tried.push(ports.nfs);
            match tried.len() {
                3 => Ok(ports.nfs),
                _ => Err(refused(
                    "Cannot bind NFS tcp6 socket, error 98 (Address already in use)",
                )),
            }
        });
        assert_eq!(started.ok(), tried.last().copied());
        assert_eq!(tried.len(), 3);
    }

    #[test]
    fn a_server_that_does_not_start_is_told_at_last() {
        for (why, starts) in [("No such file or directory", 1), (PORT_TAKEN, STARTS_MAX)] {
            let mut tried = 0;
            let started: Result<(), LoadError> = on_free_ports(|_| {
                tried += 1;
                Err(refused(why))
            });
            assert!(started.unwrap_err().to_string().contains(why));
            assert_eq!(tried, starts);
        }
    }
}
