//! Where a run takes place: namespaces and a file system of its own, gone with the process.
//!
//! Ganesha insists on fixed paths under `/run`, on rpcbind's port and on its own ports. In private mount, network
//! and process namespaces it meets nobody, both servers are reached over the same loopback
//! interface, and the kernel takes everything down when the last process ends, also after Ctrl-C.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result};
use nfs_lab::output_within;

/// How long a command of the set-up may take: apt-get may have to fetch packages.
const COMMAND_DEADLINE: Duration = Duration::from_secs(600);
/// The TCP congestion control of a network namespace.
const CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// Set in the environment of the process inside the namespaces.
const INSIDE: &str = "PENSTOCK_BENCH_INSIDE";

/// Whether this process is already inside its namespaces.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Whether this process is root, and so may make namespaces and mounts.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Starts this program again, with the same arguments, inside new namespaces, and waits for it.
///
/// # Errors
/// `unshare` (util-linux) is missing.
pub fn enter() -> Result<ExitStatus> {
    inside_command()?
        .status()
        .context("starting unshare (package util-linux)")
}

/// The command that [`enter`] runs.
///
/// # Errors
/// Our own binary cannot be found.
pub fn inside_command() -> Result<Command> {
    let program = std::env::current_exe().context("finding our own binary")?;
    let mut command = Command::new("unshare");
    command
        .args([
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--",
        ])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1");
    Ok(command)
}

/// A command of this program that makes namespaces of its own, wherever it is started.
pub(crate) fn anew(command: &mut Command) -> &mut Command {
    command.env_remove(INSIDE)
}

/// The stage, set: `root` is a scratch directory, `exports` lies on the file system that is served.
#[derive(Debug)]
pub struct Stage {
    /// Scratch directory for the servers' logs, configurations and state.
    pub root: PathBuf,
    /// Parent directory of all directories that are exported.
    pub exports: PathBuf,
    /// Description of the exported file system, for the report.
    pub file_system: String,
}

impl Stage {
    /// Brings loopback up and mounts what the servers need. With `directory`, that is served; otherwise a new
    /// XFS on a memory-backed loop device, so that the disk of the machine is not what is measured.
    ///
    /// # Errors
    /// A mount is refused, or mkfs.xfs is missing.
    pub fn set(directory: Option<&Path>) -> Result<Self> {
        let root = set_network_and_run()?;
        if let Some(directory) = directory {
            let exports = std::fs::canonicalize(directory)
                .with_context(|| directory.display().to_string())?;
            let file_system = output("stat", &["-f", "-c", "%T", &exports.display().to_string()])?;
            return Ok(Self {
                root,
                exports,
                file_system,
            });
        }
        let (image, exports) = (root.join("disk.img"), root.join("exports"));
        let (image_text, exports_text) =
            (image.display().to_string(), exports.display().to_string());
        std::fs::create_dir(&exports)?;
        std::fs::File::create(&image)?.set_len(4 << 30)?;
        run("mkfs.xfs", &["-q", &image_text])?;
        run("mount", &["-o", "loop", &image_text, &exports_text])?;
        Ok(Self {
            root,
            exports,
            file_system: "xfs on a loop device in memory".to_owned(),
        })
    }
}

/// Brings loopback up and puts an empty `/run` in place of the machine's; gives the scratch directory in it.
///
/// # Errors
/// A mount is refused.
pub fn set_network_and_run() -> Result<PathBuf> {
    set_network()?;
    run("mount", &["-t", "tmpfs", "tmpfs", "/run"])?;
    for made in ["/run/rpcbind", "/run/ganesha", "/run/bench"] {
        std::fs::create_dir_all(made).context(made)?;
    }
    Ok(PathBuf::from("/run/bench"))
}

/// Brings loopback up, which a new network namespace has, but not up, and has everybody in the namespace send as Linux
/// does unless it is told otherwise.
///
/// # Errors
/// `ip` (iproute2) is missing.
pub fn set_network() -> Result<()> {
    run("ip", &["link", "set", "lo", "up"])?;
    // Some machines have bbr, which paces: over loopback that is what would be measured.
    if let Err(error) = std::fs::write(CONGESTION_CONTROL, "cubic") {
        eprintln!("nfs-bench: {CONGESTION_CONTROL}: {error}: everybody sends as this machine does");
    }
    Ok(())
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    output(program, arguments).map(drop)
}

/// What a program prints, without the last newline.
///
/// # Errors
/// It is missing or fails; its standard error is in the message.
pub fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let output = output_within(Command::new(program).args(arguments), COMMAND_DEADLINE)?;
    Ok(String::from_utf8_lossy(&output).trim_end().to_owned())
}
