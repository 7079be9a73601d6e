//! The servers that are measured: ours with either engine, and NFS-Ganesha.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::limits;
use crate::stage::{Stage, output};

/// A server of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Ours, with the io_uring engine.
    PenstockUring,
    /// Ours, with the thread-pool engine.
    PenstockThreads,
    /// NFS-Ganesha with its VFS back end, from the distribution's packages.
    Ganesha,
}

impl Kind {
    /// In the order in which they take turns.
    pub const ALL: [Self; 3] = [Self::PenstockUring, Self::PenstockThreads, Self::Ganesha];

    /// The name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::PenstockUring => "penstock (uring)",
            Self::PenstockThreads => "penstock (threads)",
            Self::Ganesha => "ganesha",
        }
    }

    fn ports(self) -> Ports {
        match self {
            Self::PenstockUring => Ports {
                nfs: 20_491,
                mount: 20_491,
            },
            Self::PenstockThreads => Ports {
                nfs: 20_492,
                mount: 20_492,
            },
            Self::Ganesha => Ports {
                nfs: 20_493,
                mount: 20_494,
            },
        }
    }
}

/// Where a server is told to listen.
pub(crate) struct Ports {
    /// The NFS program.
    pub(crate) nfs: u16,
    /// The MOUNT program; Ganesha's lock manager takes the next one.
    pub(crate) mount: u16,
}

/// Where a load finds a server.
#[derive(Clone, Debug)]
pub struct Place {
    /// Of the NFS program.
    pub nfs: SocketAddr,
    /// Of the MOUNT program.
    pub mount: SocketAddr,
    /// The path to mount.
    pub export: String,
}

/// A running server; ended when dropped.
#[derive(Debug)]
pub struct Server {
    /// Which one.
    pub kind: Kind,
    /// Where it listens.
    pub place: Place,
    /// The process that serves.
    pub pid: u32,
    _processes: Processes,
}

impl Server {
    /// Starts a server on `cpu` with a directory of its own below `stage.exports`; `wrapper` is put before
    /// its command (for callgrind). Returns when it accepts connections.
    ///
    /// # Errors
    /// The binary is missing, or the server does not come up; the message names its log.
    pub fn start(kind: Kind, stage: &Stage, cpu: usize, wrapper: &[String]) -> Result<Self> {
        let ports = kind.ports();
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let work = stage.root.join(format!("server-{}", ports.nfs));
        let export = stage.exports.join(format!("export-{}", ports.nfs));
        std::fs::create_dir_all(&work)?;
        std::fs::create_dir_all(&export)?;
        let path = export.display().to_string();
        let (children, mounted_as) = match kind {
            Kind::Ganesha => (ganesha(&work, &path, &ports, cpu, wrapper)?, path),
            Kind::PenstockUring => (
                vec![penstock("uring", &work, &path, &ports, cpu, wrapper)?],
                "/".into(),
            ),
            Kind::PenstockThreads => (
                vec![penstock("threads", &work, &path, &ports, cpu, wrapper)?],
                "/".into(),
            ),
        };
        let processes = Processes(children);
        let place = Place {
            nfs: at(ports.nfs),
            mount: at(ports.mount),
            export: mounted_as,
        };
        processes.wait_until_they_accept(kind.name(), &place, &work)?;
        Ok(Self {
            kind,
            place,
            pid: processes.server_pid()?,
            _processes: processes,
        })
    }
}

/// What a server consists of, its own process last; asked to end when dropped, and waited for.
#[derive(Debug)]
pub(crate) struct Processes(pub(crate) Vec<Child>);

impl Processes {
    /// The process that serves.
    pub(crate) fn server_pid(&self) -> Result<u32> {
        Ok(self.0.last().context("no process")?.id())
    }

    /// Returns when both programs accept connections. The message of a failure has the end of `work`/log.
    pub(crate) fn wait_until_they_accept(
        &self,
        name: &str,
        place: &Place,
        work: &Path,
    ) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(limits::START_SECONDS_MAX);
        for address in [place.nfs, place.mount] {
            while TcpStream::connect(address).is_err() {
                if Instant::now() > deadline {
                    let log = std::fs::read_to_string(work.join("log")).unwrap_or_default();
                    let end: Vec<&str> = log.lines().rev().take(10).collect();
                    let end: Vec<&str> = end.into_iter().rev().collect();
                    bail!(
                        "{name} does not accept connections on {address}:\n{}",
                        end.join("\n")
                    );
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in self.0.iter_mut().rev() {
            // Asked first, so that a profiler writes what it has seen.
            if let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            let deadline = Instant::now() + Duration::from_secs(10);
            while Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn penstock(
    engine: &str,
    work: &Path,
    export: &str,
    ports: &Ports,
    cpu: usize,
    wrapper: &[String],
) -> Result<Child> {
    let binary = std::env::var_os("PENSTOCK_SERVER")
        .map(PathBuf::from)
        .context("PENSTOCK_SERVER is not set: start this with `cargo xtask bench baseline`")?;
    let mut command = Command::new("taskset");
    command
        .args(["-c", &cpu.to_string()])
        .args(wrapper)
        .arg(binary)
        .args(["serve", export]);
    command
        .arg("--listen")
        .arg(format!("127.0.0.1:{}", ports.nfs));
    command
        .arg("--state-dir")
        .arg(work.join("state"))
        .args(["--engine", engine]);
    command
        .stdin(Stdio::null())
        .stdout(File::create(work.join("output"))?);
    command.stderr(File::create(work.join("log"))?);
    command.spawn().context("starting penstock")
}

/// Whether Ganesha and what it needs are installed.
pub fn ganesha_is_installed() -> bool {
    ["ganesha.nfsd", "rpcbind"]
        .iter()
        .all(|program| output("which", &[program]).is_ok())
}

/// Starts rpcbind and Ganesha.
pub(crate) fn ganesha(
    work: &Path,
    export: &str,
    ports: &Ports,
    cpu: usize,
    wrapper: &[String],
) -> Result<Vec<Child>> {
    let config = work.join("ganesha.conf");
    std::fs::write(&config, ganesha_config(work, export, ports)).context("writing ganesha.conf")?;
    let log = work.join("log");
    let sink = || File::create(work.join("output"));
    let rpcbind = Command::new("rpcbind")
        .args(["-w", "-f"])
        .stdin(Stdio::null())
        .stdout(sink()?)
        .stderr(sink()?)
        .spawn()
        .context("starting rpcbind")?;
    let served = Command::new("taskset")
        .args(["-c", &cpu.to_string()])
        .args(wrapper)
        .args(["ganesha.nfsd", "-F"])
        .arg("-f")
        .arg(&config)
        .arg("-L")
        .arg(&log)
        .arg("-p")
        .arg(work.join("pid"))
        .stdin(Stdio::null())
        .stdout(sink()?)
        .stderr(sink()?)
        .spawn()
        .context("starting ganesha.nfsd")?;
    Ok(vec![rpcbind, served])
}

/// As a file server for everybody, without NFSv4's grace period, which would delay the first answers.
fn ganesha_config(work: &Path, export: &str, ports: &Ports) -> String {
    let (nfs, mount, lock) = (ports.nfs, ports.mount, ports.mount + 1);
    let recovery = work.join("recovery").display().to_string();
    format!(
        "NFS_CORE_PARAM {{\n  NFS_Port = {nfs}; MNT_Port = {mount}; NLM_Port = {lock};\n  Protocols = 3,4;\n  \
         Enable_UDP = false;\n  mount_path_pseudo = false;\n  \
         Plugins_Dir = \"/usr/lib/x86_64-linux-gnu/ganesha\";\n}}\n\
         NFSV4 {{ Graceless = true; RecoveryRoot = \"{recovery}\"; }}\n\
         NFS_KRB5 {{ Active_krb5 = false; }}\n\
         EXPORT_DEFAULTS {{ Access_Type = RW; Squash = no_root_squash; SecType = sys,none; PrivilegedPort = false; }}\n\
         EXPORT {{ Export_Id = 1; Path = \"{export}\"; Pseudo = /; FSAL {{ Name = VFS; }} }}\n"
    )
}
