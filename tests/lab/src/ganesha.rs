//! NFS-Ganesha: its configuration, and a process of it in a world of its own.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result};

use crate::{Lab, Netns, Running};

/// The TCP ports on which Ganesha listens.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    /// TCP port of the NFS program.
    pub nfs: u16,
    /// The MOUNT program, which has a port of its own; a portmapper tells it.
    pub mount: u16,
}

/// The versions of NFS that Ganesha is to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocols {
    /// NFSv3 alone.
    V3,
    /// NFSv3 and NFSv4.1.
    V3AndV41,
}

impl Protocols {
    const fn numbers(self) -> &'static str {
        match self {
            Self::V3 => "3",
            Self::V3AndV41 => "3, 4",
        }
    }
}

/// Writes a configuration that exports `export` under its own path to everybody, root as root, and gives
/// the words of the command that serves it. Configuration, state and `ganesha.log` are in `dir`.
///
/// It wants rpcbind, and directories `/run/rpcbind` and `/run/ganesha` that are its own.
///
/// # Errors
/// When the configuration cannot be written.
pub fn command_line(
    dir: &Path,
    export: &Path,
    ports: Ports,
    protocols: Protocols,
) -> Result<Vec<OsString>> {
    let config = dir.join("ganesha.conf");
    let recovery = dir.join("recovery");
    fs::create_dir_all(&recovery)?;
    fs::write(&config, configuration(export, &recovery, ports, protocols))
        .with_context(|| config.display().to_string())?;
    let mut words: Vec<OsString> = vec!["ganesha.nfsd".into(), "-F".into()];
    for (option, path) in [
        ("-f", config),
        ("-L", dir.join("ganesha.log")),
        ("-p", dir.join("ganesha.pid")),
    ] {
        words.extend([option.into(), path.into()]);
    }
    Ok(words)
}

/// Starts Ganesha on `export`, in the namespace; it answers some time later, on port 2049.
///
/// It gets a `/run` and a rpcbind of its own, which end with it.
///
/// # Errors
/// When it cannot be started.
pub fn start(lab: &Lab, netns: &Netns, export: &Path) -> Result<Running> {
    let ports = Ports {
        nfs: 2049,
        mount: 20048,
    };
    let script = "mount -t tmpfs tmpfs /run && mkdir -p /run/rpcbind /run/ganesha && rpcbind -w -f & \
                  until rpcinfo -p 127.0.0.1 >\"$0\" 2>&1; do sleep 0.1; done; exec \"$@\"";
    let mut command = netns.command("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c"]);
    command.arg(script).arg(lab.dir.join("rpcinfo.log"));
    command.args(command_line(&lab.dir, export, ports, Protocols::V3)?);
    Running::start(command.stdin(Stdio::null()))
}

/// NFS over TCP without NFSv3's locks and quotas, and without NFSv4's grace period, which would delay the
/// first answers.
fn configuration(export: &Path, recovery: &Path, ports: Ports, protocols: Protocols) -> String {
    let protocols = protocols.numbers();
    let Ports { nfs, mount } = ports;
    let (export, recovery) = (export.display(), recovery.display());
    format!(
        r#"NFS_CORE_PARAM {{ NFS_Port = {nfs}; MNT_Port = {mount}; Protocols = {protocols}; Enable_NLM = false;
  Enable_RQUOTA = false; Enable_UDP = false; mount_path_pseudo = false;
  Plugins_Dir = "/usr/lib/x86_64-linux-gnu/ganesha"; }}
NFSV4 {{ Graceless = true; Minor_Versions = 1; RecoveryRoot = "{recovery}"; }}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT_DEFAULTS {{ Access_Type = RW; Squash = no_root_squash; SecType = sys, none; PrivilegedPort = false; }}
EXPORT {{ Export_Id = 1; Path = "{export}"; Pseudo = /; FSAL {{ Name = VFS; }} }}
"#
    )
}
