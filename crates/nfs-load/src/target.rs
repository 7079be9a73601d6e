//! Who is measured: a server that is there, ours in one of its modes, or this host's file system.
//!
//! What is started here ends with the value that stands for it, and so do its files.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nfs_client::{MountOptions, NfsUrl};
use nfs_io::usage;
use rustix::process::{Pid, Signal, kill_process};

use crate::error::LoadError;
use crate::place::{Place, Session};

/// How long a server may take until it accepts connections.
const START_WITHIN: Duration = Duration::from_secs(30);
/// How long it may take to end when it is asked to.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Whom a run measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The server at this address, which is there already.
    Server(NfsUrl),
    /// Our server in this mode, started and ended by the run.
    Own(&'static str),
    /// The file system of this host; `true` for past its page cache.
    Local(bool),
}

/// The modes of our server that are compared.
pub const MODES: [&str; 4] = ["buffered", "dontcache", "direct", "auto"];

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
            Self::Own(mode) => format!("penstock {mode}"),
            Self::Local(true) => "local direct".to_owned(),
            Self::Local(false) => "local buffered".to_owned(),
        }
    }

    /// Whether its files are on this host, in a directory of the run.
    #[must_use]
    pub const fn is_here(&self) -> bool {
        match self {
            Self::Server(_) => false,
            Self::Own(_) | Self::Local(_) => true,
        }
    }
}

/// A directory of the run's own on this host, which goes with the value.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes a directory in `parent`.
    ///
    /// # Errors
    /// There is no such directory, or it may not be written.
    pub fn new(parent: &Path) -> Result<Self, LoadError> {
        let parent = fs::canonicalize(parent).map_err(LoadError::local(parent))?;
        let path = parent.join(unique());
        fs::create_dir(&path).map_err(LoadError::local(&path))?;
        Ok(Self(path))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("penstock: cannot remove {}: {error}", self.0.display());
        }
    }
}

/// A name that no other run has.
fn unique() -> String {
    format!(
        "penstock-bench-{}-{:08x}",
        std::process::id(),
        fastrand::u32(..)
    )
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
    server: Option<Serving>,
    meter: Meter,
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
}

impl Standing {
    /// Starts a target, or goes to it, and makes the directory of its files.
    ///
    /// # Errors
    /// It does not start, or cannot be reached or written.
    pub fn start(target: &Target, setup: &Setup<'_>) -> Result<Self, LoadError> {
        match target {
            Target::Server(url) => Self::at_server(target.name(), url, setup),
            Target::Own(mode) => Self::own(mode, setup),
            Target::Local(direct) => {
                let directory = setup.scratch.join(target.name().replace(' ', "-"));
                fs::create_dir(&directory).map_err(LoadError::local(&directory))?;
                Ok(Self {
                    name: target.name(),
                    place: Place::Local {
                        directory: directory.clone(),
                        direct: *direct,
                    },
                    backing: Some(directory),
                    parent: None,
                    server: None,
                    meter: Meter::Ourselves,
                })
            }
        }
    }

    fn at_server(name: String, url: &NfsUrl, setup: &Setup<'_>) -> Result<Self, LoadError> {
        let parent = Place::Nfs {
            url: url.clone(),
            options: setup.options.clone(),
        };
        let directory = unique();
        at(&parent, async |session| {
            session.make_directory(&directory).await
        })?;
        Ok(Self {
            name,
            place: parent.below(&directory),
            backing: None,
            parent: Some((parent, directory)),
            server: None,
            meter: Meter::Nobody,
        })
    }

    fn own(mode: &'static str, setup: &Setup<'_>) -> Result<Self, LoadError> {
        let name = Target::Own(mode).name();
        let home = setup.scratch.join(mode);
        let export = home.join("export");
        fs::create_dir_all(&export).map_err(LoadError::local(&export))?;
        let words = ["--listen=127.0.0.1:0", "--no-rpcbind", "--log-level=warn"];
        let modes = [format!("--read={mode}"), format!("--write={mode}")];
        let mut command = with_us(setup.program);
        command
            .arg("serve")
            .arg(&export)
            .arg("--state-dir")
            .arg(home.join("state"));
        command.args(words).args(modes);
        let (server, port) = Serving::start(&name, command, &home.join("log"))?;
        let mut url = NfsUrl {
            host: "127.0.0.1".to_owned(),
            port: Some(port),
            path: b"/".to_vec(),
            ..NfsUrl::default()
        };
        url.mount_port = Some(port);
        Ok(Self {
            name,
            place: Place::Nfs {
                url,
                options: setup.options.clone(),
            },
            backing: Some(export),
            parent: None,
            meter: Meter::Process(server.child.id()),
            server: Some(server),
        })
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

    /// Removes the files from a server that stays.
    ///
    /// # Errors
    /// Some of them stay.
    pub fn clean(&mut self) -> Result<(), LoadError> {
        match self.parent.take() {
            Some((parent, name)) => at(&parent, async |session| session.remove_tree(&name).await),
            None => Ok(()),
        }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if let Err(error) = self.clean() {
            eprintln!(
                "penstock: the files of the measurement stay on {}: {error}",
                self.name
            );
        }
        drop(self.server.take());
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

/// The beginning of a command that ends with this process, even if that is killed.
fn with_us(program: &Path) -> Command {
    let has = |directory: PathBuf| directory.join("setpriv").is_file();
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(has) {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(program);
    command
}

/// A server as a process, asked to end when dropped, and waited for.
#[derive(Debug)]
struct Serving {
    child: Child,
}

impl Serving {
    /// Starts our server; gives the port that it says it listens on.
    fn start(name: &str, mut command: Command, log: &Path) -> Result<(Self, u16), LoadError> {
        let failed = |why: String| LoadError::Start {
            server: name.to_owned(),
            why,
        };
        let said = File::create(log).map_err(LoadError::local(log))?;
        // Ctrl-C is the run's to handle: it ends its servers when it is done with them.
        command.process_group(0);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(said);
        let child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let mut serving = Self { child };
        let Some(out) = serving.child.stdout.take() else {
            return Err(failed("it has no standard output".to_owned()));
        };
        let (found, port) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            for line in lines {
                let port = line
                    .strip_prefix("listening ")
                    .and_then(|at| at.rsplit(':').next());
                if let Some(port) = port.and_then(|port| port.parse().ok()) {
                    // Whoever waited too long is gone.
                    let _sent = found.send(port);
                }
            }
        });
        match port.recv_timeout(START_WITHIN) {
            Ok(port) => Ok((serving, port)),
            Err(_) => {
                drop(serving);
                let said = fs::read_to_string(log).unwrap_or_default();
                let mut last: Vec<&str> = said.lines().rev().take(5).collect();
                last.reverse();
                Err(failed(last.join("; ")))
            }
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // It is waited for below only, so the number is still its own.
            let _ended_before = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + END_WITHIN;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            // SLEEP: a poll for the end of a process that was asked to end.
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ended_now = self.child.kill();
        let _status = self.child.wait();
    }
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
