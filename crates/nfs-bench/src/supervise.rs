//! The process that outlives the run and takes down what namespaces do not: the zram disk, the cgroups, the
//! files on the machine's disk. It does so too when it is interrupted.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context, Result};
use nfs_lab::Zram;
use nfs_load::cgroup;
use serde::{Deserialize, Serialize};

use crate::stage;

/// Carries a [`Setting`] from the supervisor to the run.
const SETTING: &str = "PENSTOCK_BENCH_SETTING";

/// What the supervisor made for the run and takes down after it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setting {
    /// Beginning of the name of every cgroup of the run.
    pub cgroups: String,
    /// Device file of the zram disk, if there is one.
    pub zram: Option<PathBuf>,
    /// A directory of our own on the machine's disk.
    pub disk: PathBuf,
}

impl Setting {
    /// The setting this process was started with.
    ///
    /// # Errors
    /// It was not started by [`run_inside`].
    pub fn ours() -> Result<Self> {
        let text = std::env::var(SETTING).context("not started by the supervisor")?;
        Ok(serde_json::from_str(&text)?)
    }
}

/// Starts this program again, with the same arguments, in namespaces of its own, and clears up after it
/// however it ends. The files on disk go to a new directory below `disk_parent`; a zram disk of `fast_bytes`
/// is made if the fast device is wanted.
///
/// # Errors
/// The namespaces cannot be made, or something cannot be cleared up.
pub fn run_inside(disk_parent: &Path, fast_bytes: Option<u64>) -> Result<ExitStatus> {
    let name = std::process::id().to_string();
    std::fs::create_dir_all(disk_parent).with_context(|| disk_parent.display().to_string())?;
    let disk_parent = disk_parent.canonicalize()?;
    // Before the first thing that has to be taken down again.
    let interrupted = Interrupted::listen()?;
    let zram = match fast_bytes {
        Some(bytes) => Zram::new(bytes)?,
        None => None,
    };
    let setting = Setting {
        cgroups: format!("{name}-"),
        zram: zram.as_ref().map(Zram::device),
        disk: disk_parent.join(format!("{}{name}", cgroup::PREFIX)),
    };
    let ended = interrupted.run(&setting);
    let groups = cgroup::remove_all(&setting.cgroups);
    drop(zram);
    if setting.disk.exists() {
        std::fs::remove_dir_all(&setting.disk).context("removing the files on disk")?;
    }
    groups?;
    ended
}

/// Signals that end a run wait here until the run is told.
struct Interrupted {
    runtime: tokio::runtime::Runtime,
    signals: [tokio::signal::unix::Signal; 3],
}

impl Interrupted {
    fn listen() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("starting to listen for signals")?;
        let signals = {
            let _inside = runtime.enter();
            [
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
                signal(SignalKind::hangup())?,
            ]
        };
        Ok(Self { runtime, signals })
    }

    /// Runs the child to its end, or ends it when a signal comes.
    fn run(self, setting: &Setting) -> Result<ExitStatus> {
        let mut child = stage::inside_command()?
            .env(SETTING, serde_json::to_string(setting)?)
            .spawn()
            .context("starting unshare (package util-linux)")?;
        let (done, wait) = tokio::sync::oneshot::channel();
        let pid = child.id();
        let waiter = std::thread::spawn(move || {
            let status = child.wait();
            // Nobody listens any more when a signal came first.
            let _ = done.send(());
            status
        });
        let [mut interrupt, mut terminate, mut hangup] = self.signals;
        self.runtime.block_on(async {
            tokio::select! {
                _ = wait => return,
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            eprintln!("interrupted: clearing up");
            // The first process of a namespace dies with unshare, and all others of the namespace with it.
            if let Some(pid) = rustix::process::Pid::from_raw(pid.cast_signed()) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        });
        let status = waiter
            .join()
            .map_err(|_| anyhow::anyhow!("the waiting thread died"))?;
        status.context("waiting for the run")
    }
}
