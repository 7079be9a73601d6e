//! NFS-Ganesha: its configuration, and a process of it in a world of its own.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::LoadError;

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

/// Whom Ganesha lets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clients {
    /// This host alone.
    Loopback,
    /// Everybody who reaches it: it is in a network of its own.
    Everybody,
}

/// What Ganesha is to serve: a directory under its own path, root as root.
#[derive(Debug, Clone, Copy)]
pub struct Served<'a> {
    /// Its configuration, state and `ganesha.log` go here.
    pub dir: &'a Path,
    /// The directory.
    pub export: &'a Path,
    /// Where it listens.
    pub ports: Ports,
    /// What it speaks.
    pub protocols: Protocols,
    /// Whom it lets in.
    pub clients: Clients,
}

/// The program of Debian's package.
const PROGRAM: &str = "ganesha.nfsd";
/// What is installed for it.
const PACKAGES: &str = "nfs-ganesha nfs-ganesha-vfs rpcbind";

impl Served<'_> {
    /// Writes the configuration; gives the words of the command that serves it. It wants rpcbind, and directories
    /// `/run/rpcbind` and `/run/ganesha` that are its own.
    ///
    /// # Errors
    /// The configuration cannot be written.
    pub fn command_line(&self) -> Result<Vec<OsString>, LoadError> {
        let config = self.dir.join("ganesha.conf");
        let recovery = self.dir.join("recovery");
        fs::create_dir_all(&recovery).map_err(LoadError::local(&recovery))?;
        let written = fs::write(&config, self.configuration(&recovery));
        written.map_err(LoadError::local(&config))?;
        let mut words: Vec<OsString> = vec![PROGRAM.into(), "-F".into()];
        for (option, path) in [
            ("-f", config),
            ("-L", self.log()),
            ("-p", self.dir.join("ganesha.pid")),
        ] {
            words.extend([option.into(), path.into()]);
        }
        Ok(words)
    }

    /// The same with a `/run` and a rpcbind of its own, which end with it: Ganesha does not serve NFSv3 before it is
    /// registered, and what a rpcbind of the host knows of another server must not change. The command has to be
    /// killed (`unshare` hands no signal on), or its only child asked to end.
    ///
    /// # Errors
    /// The configuration cannot be written.
    pub fn command_line_in_private(&self) -> Result<Vec<OsString>, LoadError> {
        // A rpcbind that knows no network listens on none: Ganesha meets it at its socket.
        let (hidden, shown) = match self.clients {
            Clients::Loopback => (
                "echo 'local tpi_cots_ord - loopback - - -' >/run/netconfig && \
                 mount --bind /run/netconfig /etc/netconfig || exit 1; ",
                "umount /etc/netconfig && ",
            ),
            Clients::Everybody => ("", ""),
        };
        // Without a host rpcinfo asks at the socket in the new /run, so that nobody meets the rpcbind of the host.
        let script = format!(
            "mount -t tmpfs tmpfs /run && mkdir -p /run/rpcbind /run/ganesha || exit 1; {hidden}\
             rpcbind -w -f & for look in $(seq 100); do \
             rpcinfo >/dev/null 2>&1 && {shown}exec \"$@\"; sleep 0.1; done; \
             echo 'rpcbind does not start' >&2; exit 1"
        );
        let mut words: Vec<OsString> = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
            .map(OsString::from)
            .to_vec();
        words.extend(["sh", "-c", &script, "sh"].map(OsString::from));
        words.extend(self.command_line()?);
        Ok(words)
    }

    /// What Ganesha says.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.dir.join("ganesha.log")
    }

    /// NFS over TCP without NFSv3's locks and quotas, and without NFSv4's grace period, which would delay the
    /// first answers.
    fn configuration(&self, recovery: &Path) -> String {
        let protocols = match self.protocols {
            Protocols::V3 => "3",
            Protocols::V3AndV41 => "3, 4",
        };
        let (others, clients) = match self.clients {
            Clients::Everybody => ("RW", ""),
            Clients::Loopback => (
                "None",
                "CLIENT { Clients = 127.0.0.1; Access_Type = RW; Squash = no_root_squash; } ",
            ),
        };
        let Ports { nfs, mount } = self.ports;
        let (export, recovery) = (self.export.display(), recovery.display());
        let plugins = plugins();
        let plugins = plugins.display();
        format!(
            r#"NFS_CORE_PARAM {{ NFS_Port = {nfs}; MNT_Port = {mount}; Protocols = {protocols}; Enable_NLM = false;
  Enable_RQUOTA = false; Enable_UDP = false; mount_path_pseudo = false;
  Plugins_Dir = "{plugins}"; }}
NFSV4 {{ Graceless = true; Minor_Versions = 1; RecoveryRoot = "{recovery}"; }}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT_DEFAULTS {{ Access_Type = {others}; Squash = no_root_squash; SecType = sys, none; PrivilegedPort = false; }}
EXPORT {{ Export_Id = 1; Path = "{export}"; Pseudo = /; {clients}FSAL {{ Name = VFS; }} }}
"#
        )
    }
}

/// Where Debian has the part that serves a directory.
fn plugins() -> PathBuf {
    format!("/usr/lib/{}-linux-gnu/ganesha", std::env::consts::ARCH).into()
}

/// The version of the Ganesha that is installed.
///
/// # Errors
/// It, or what it needs, is not installed, or this process is not root: Ganesha opens files by their handles.
pub fn version() -> Result<String, LoadError> {
    let missing = |why: String| LoadError::Start {
        server: "ganesha".to_owned(),
        why,
    };
    let has = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let system = ["/usr/sbin", "/sbin", "/usr/bin"].map(PathBuf::from);
        let mut all = std::env::split_paths(&path).chain(system);
        all.any(|dir| dir.join(program).is_file())
    };
    let absent = [PROGRAM, "rpcbind", "rpcinfo", "unshare"].into_iter();
    let mut absent: Vec<String> = absent.filter(|p| !has(p)).map(str::to_owned).collect();
    let plugin = plugins().join("libfsalvfs.so");
    if !plugin.exists() {
        absent.push(plugin.display().to_string());
    }
    if !absent.is_empty() {
        let absent = absent.join(", ");
        return Err(missing(format!("no {absent} here: apt install {PACKAGES}")));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(missing("it has to be started by root".to_owned()));
    }
    let said = Command::new(PROGRAM).arg("-v").output();
    let said = said.map_err(|error| missing(error.to_string()))?;
    let said = String::from_utf8_lossy(&said.stdout);
    let number = said.split_once('=').map_or("", |(_, number)| number);
    Ok(number.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_loopback_nobody_else_is_let_in() {
        let served = |clients| Served {
            dir: Path::new("/d"),
            export: Path::new("/e"),
            ports: Ports { nfs: 1, mount: 2 },
            protocols: Protocols::V3,
            clients,
        };
        let of = |clients| served(clients).configuration(Path::new("/r"));
        assert!(of(Clients::Everybody).contains("EXPORT_DEFAULTS { Access_Type = RW;"));
        let alone = of(Clients::Loopback);
        assert!(alone.contains("EXPORT_DEFAULTS { Access_Type = None;"));
        assert!(alone.contains("CLIENT { Clients = 127.0.0.1; Access_Type = RW;"));
    }
}
