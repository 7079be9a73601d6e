//! NFS-Ganesha as a server for our client.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::Result;

use crate::{Lab, Netns, Running};

/// Starts it on `export`, in the namespace; it answers some time later.
///
/// Ganesha holds fixed paths below /run and wants rpcbind: both get a world of their own, which ends
/// with this process's child. It keeps MOUNT on a port of its own, which the portmapper tells.
///
/// # Errors
/// When it cannot be started.
pub fn start(lab: &Lab, netns: &Netns, export: &Path) -> Result<Running> {
    let dir = lab.dir.display();
    let config = lab.dir.join("ganesha.conf");
    fs::create_dir_all(lab.dir.join("recovery"))?;
    fs::write(
        &config,
        format!(
            r#"NFS_CORE_PARAM {{ NFS_Port = 2049; MNT_Port = 20048; Protocols = 3; Enable_NLM = false;
  Enable_RQUOTA = false; Enable_UDP = false; mount_path_pseudo = false;
  Plugins_Dir = "/usr/lib/x86_64-linux-gnu/ganesha"; }}
NFSV4 {{ Graceless = true; RecoveryRoot = "{dir}/recovery"; }}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT_DEFAULTS {{ Access_Type = RW; Squash = no_root_squash; SecType = sys, none; }}
EXPORT {{ Export_Id = 1; Path = "{}"; Pseudo = /; FSAL {{ Name = VFS; }} }}
"#,
            export.display()
        ),
    )?;
    let script = format!(
        "mount -t tmpfs tmpfs /run && mkdir -p /run/rpcbind /run/ganesha && rpcbind -w -f & \
         until rpcinfo -p 127.0.0.1 >{dir}/rpcinfo.log 2>&1; do sleep 0.1; done; \
         exec ganesha.nfsd -F -f {} -L {dir}/ganesha.log -p {dir}/ganesha.pid",
        config.display()
    );
    let mut command = netns.command("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c"]);
    command.arg(script).stdin(Stdio::null());
    Running::start(&mut command)
}
