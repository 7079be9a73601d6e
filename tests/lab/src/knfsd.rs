//! The Linux kernel's own NFS server, in User Mode Linux: a foreign server for our client.
//!
//! A guest's root is the host's tree, which a kernel cannot export. What it exports is a disk of its
//! own: the image of a [`LoopFs`](super::LoopFs), which the host has mounted before and mounts again
//! when the guest has halted.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::netns::Wire;
use crate::uml::{Kernel, boot, setup};
use crate::{Heard, Lab, Lines, Netns, Running};

/// How long the guest may take until it serves.
const START_DEADLINE: Duration = Duration::from_secs(90);
/// How long it may take to write its disk and halt.
const HALT_DEADLINE: Duration = Duration::from_secs(240);
/// The modules of an NFSv3 server, in the order of their needs; those not there are built in.
const MODULES: &str = "net/sunrpc/sunrpc fs/nfs_common/grace fs/lockd/lockd fs/nfs_common/nfs_acl \
     lib/oid_registry net/sunrpc/auth_gss/auth_rpcgss fs/nfsd/nfsd";
/// Number of nfsd threads in the guest.
const THREADS: u32 = 8;

/// When the kernel's server answers that something is on stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// When it is there.
    Sync,
    /// At once: the export option `async`, with which a power cut loses what was acknowledged.
    Async,
}

impl Promise {
    const fn option(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Async => "async",
        }
    }
}

/// A guest that serves; it ends when this is dropped, its disk then as after a power cut.
pub struct KernelNfsd {
    process: Running,
    /// A file on the host; the guest halts when it appears.
    stop: PathBuf,
    said: Lines,
}

impl KernelNfsd {
    /// What the guest exports, with root as root.
    pub const EXPORT: &'static str = "/mnt/export";

    /// Boots a guest that exports the ext4 file system in the image `disk`, and waits until it serves
    /// on [`Netns::GUEST`], port 2049, with a portmapper.
    ///
    /// # Errors
    /// When it does not come up; its result file is in the error.
    pub fn start(lab: &Lab, netns: &Netns, disk: &Path) -> Result<Self> {
        Self::start_promising(lab, netns, disk, Promise::Sync)
    }

    /// As [`Self::start`], with an export that keeps its promises or does not.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    pub fn start_promising(
        lab: &Lab,
        netns: &Netns,
        disk: &Path,
        promise: Promise,
    ) -> Result<Self> {
        let path = |name: &str| lab.dir.join(name);
        let (stop, results, init) = (
            path("nfsd-stop"),
            path("nfsd-results.log"),
            path("nfsd-init.sh"),
        );
        // A guest before this one may have been told to halt by it.
        match fs::remove_file(&stop) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let mut said = Lines::new(&results)?;
        fs::write(&init, init_script(&stop, &results, promise)?)?;
        fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
        let mut process = boot(
            Kernel::Installed,
            lab,
            netns,
            &Wire::FIRST,
            &init,
            Some(disk),
        )?;
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            match said.hear(&mut process, deadline)? {
                Heard::Line(line) if line == "ready" => break,
                Heard::Line(_) => {}
                Heard::Ended | Heard::Late => {
                    bail!("the kernel's server did not start: {}", said.text()?)
                }
            }
        }
        Ok(Self {
            process,
            stop,
            said,
        })
    }

    /// Halts the guest, with its disk unmounted.
    ///
    /// # Errors
    /// When it does not halt in time, or could not unmount.
    pub fn stop(mut self) -> Result<()> {
        fs::write(&self.stop, "")?;
        self.process.wait(HALT_DEADLINE)?;
        let text = self.said.text()?;
        let has_unmounted = text.lines().any(|line| line == "end");
        ensure!(has_unmounted, "the guest did not unmount: {text}");
        Ok(())
    }
}

fn init_script(stop: &Path, results: &Path, promise: Promise) -> Result<String> {
    let promise = promise.option();
    let (export, network) = (KernelNfsd::EXPORT, Netns::NETWORK);
    let setup = setup(Kernel::Installed, Netns::GUEST, MODULES)?;
    let (stop, results) = (stop.display(), results.display());
    Ok(format!(
        "#!/bin/sh\n\
         exec >>{results} 2>&1\n\
         {setup}\
         for d in /run /mnt /tmp /var/lib/nfs; do mount -t tmpfs tmpfs $d; done\n\
         mkdir -p {export} /run/rpcbind /var/lib/nfs/v4recovery\n\
         touch /var/lib/nfs/etab /var/lib/nfs/rmtab\n\
         mount -t nfsd nfsd /proc/fs/nfsd && mount -t ext4 /dev/ubda {export} && rpcbind -w &&\n\
         exportfs -i -o rw,{promise},no_subtree_check,no_root_squash,insecure {network}:{export} &&\n\
         rpc.nfsd -N 4 -V 3 -U {THREADS} && rpc.mountd -N 4 -u -p 20048 && echo ready\n\
         until [ -e {stop} ]; do sleep 0.1; done\n\
         rpc.nfsd 0; exportfs -f -ua; umount {export} && echo end\n\
         halt -f -p\n"
    ))
}
