//! The socket over which a mount tells its statistics: where it is, who serves it, who reads it.
//!
//! It stands in a directory of its user's that is gone after a reboot, and has the name of the mount's device number,
//! which a mount point leads to (`/proc/self/mountinfo`) without asking the mount itself: a server that is away holds
//! nobody up. Whoever connects is told once and heard nothing; only the mount's user and root are told. One that a
//! mount left which was killed is replaced by the next with the same number.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::geteuid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::figures::{Figures, VERSION};
use crate::limits::{STATISTICS_BYTES_MAX, STATISTICS_READERS_MAX, STATISTICS_TIME_MAX};

/// Where root's programs have what is gone after a reboot, and below it each user's.
const RUN: &str = "/run";

/// The directory of a user's sockets. Root's does not depend on a session: a mount outlives it.
///
/// # Errors
/// There is none: `XDG_RUNTIME_DIR` is not set, and systemd has made none for the user.
pub(crate) fn own_directory() -> io::Result<PathBuf> {
    let uid = geteuid().as_raw();
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let session = session.filter(|path| uid != 0 && path.is_absolute());
    let base = session.unwrap_or_else(|| base_of(uid));
    match base.is_dir() {
        true => Ok(base.join("penstock")),
        false => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!(
                "{} is not there, and XDG_RUNTIME_DIR is not set",
                base.display()
            ),
        )),
    }
}

/// The directory of another user's sockets, unless that one's `XDG_RUNTIME_DIR` says otherwise.
pub(crate) fn directory_of(uid: u32) -> PathBuf {
    base_of(uid).join("penstock")
}

fn base_of(uid: u32) -> PathBuf {
    match uid {
        0 => PathBuf::from(RUN),
        uid => Path::new(RUN).join("user").join(uid.to_string()),
    }
}

/// The name of the socket of the mount with this device number.
pub(crate) fn name((major, minor): (u32, u32)) -> String {
    format!("mount-{major}:{minor}.sock")
}

/// The bound socket of a mount.
#[derive(Debug)]
pub(crate) struct MountSocket {
    listener: UnixListener,
    file: SocketFile,
}

/// A socket that is served. Nobody is told any more when it is dropped, and its file is gone then.
#[derive(Debug)]
pub(crate) struct Telling {
    // Removed before the listener goes: its number may be another file's after that.
    _file: SocketFile,
    _listener: Arc<UnixListener>,
    task: AbortHandle,
}

/// The file of a socket. It goes with this, unless another one has taken its place.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and number.
    identity: (u64, u64),
}

impl MountSocket {
    /// Binds the socket `name` in `directory`, which is made if need be, in place of what has the name. Must be
    /// called on a tokio runtime.
    ///
    /// # Errors
    /// What the system says, and that others could change what is in the directory.
    pub(crate) fn bind(directory: &Path, name: &str) -> io::Result<Self> {
        let about = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", directory.display()))
        };
        usable(directory).map_err(about)?;
        let path = directory.join(name);
        // Under a name of its own until it is only its owner's.
        let fresh = directory.join(format!(".{name}.{}", std::process::id()));
        let bound = || {
            remove_if_there(&fresh)?;
            let listener = UnixListener::bind(&fresh)?;
            std::fs::set_permissions(&fresh, Permissions::from_mode(0o600))?;
            let identity = identity(&fresh)?;
            std::fs::rename(&fresh, &path)?;
            let file = SocketFile { path, identity };
            Ok(Self { listener, file })
        };
        bound().map_err(about)
    }

    /// Tells everybody who connects and may know, as long as the result is not dropped.
    pub(crate) fn serve(self, tell: impl Fn() -> Vec<u8> + Send + Sync + 'static) -> Telling {
        let listener = Arc::new(self.listener);
        let served = serve(Arc::clone(&listener), tell);
        Telling {
            _file: self.file,
            _listener: listener,
            task: tokio::spawn(served).abort_handle(),
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            // Gone already, or left to whoever uses the name next.
            let _replaced_later = std::fs::remove_file(&self.path);
        }
    }
}

async fn serve(listener: Arc<UnixListener>, tell: impl Fn() -> Vec<u8> + Send + Sync + 'static) {
    let (tell, slots) = (
        Arc::new(tell),
        Arc::new(Semaphore::new(STATISTICS_READERS_MAX)),
    );
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let tell = Arc::clone(&tell);
                tokio::spawn(async move {
                    // Who reads too slowly, or not at all, has what was sent by then.
                    let _late =
                        tokio::time::timeout(STATISTICS_TIME_MAX, answer(stream, &*tell)).await;
                    drop(slot);
                });
            }
            // Out of descriptors, for the most part: to try again at once would spin.
            Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

/// Tells the peer, if it may know.
async fn answer(mut stream: UnixStream, tell: impl Fn() -> Vec<u8>) -> io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    if peer != 0 && peer != geteuid().as_raw() {
        return Ok(());
    }
    stream.write_all(&tell()).await?;
    stream.shutdown().await
}

/// Makes the directory if it is not there, and sees that only its owner, who we are, can change it.
fn usable(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let found = std::fs::symlink_metadata(directory)?;
    let ours = found.is_dir() && found.uid() == geteuid().as_raw();
    if !ours || found.mode() & 0o022 != 0 {
        return Err(io::Error::other(
            "others could change what is in it: remove it, or give it to this user alone (chmod 700)",
        ));
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// What the mount behind the socket at `path`, which belongs to the user `owner`, tells.
///
/// # Errors
/// Nobody listens there ([`io::ErrorKind::NotFound`], [`io::ErrorKind::ConnectionRefused`]); somebody else's program
/// does; what comes is too late, too long or not understood.
pub(crate) async fn ask(path: &Path, owner: u32) -> io::Result<Figures> {
    let asked = async {
        let stream = UnixStream::connect(path).await?;
        let peer = stream.peer_cred()?.uid();
        if peer != owner {
            let text = format!("user {peer} answers in place of user {owner}");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let mut text = Vec::new();
        let mut bounded = stream.take(STATISTICS_BYTES_MAX);
        bounded.read_to_end(&mut text).await?;
        Ok(text)
    };
    let text = tokio::time::timeout(STATISTICS_TIME_MAX, asked).await;
    let text = text.map_err(|_| {
        let seconds = STATISTICS_TIME_MAX.as_secs();
        let text = format!("the mount's process says nothing for {seconds} seconds");
        io::Error::new(io::ErrorKind::TimedOut, text)
    })??;
    understood(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn understood(text: &[u8]) -> Result<Figures, String> {
    if text.is_empty() {
        return Err("the mount's process tells nothing: it is being ended, or busy".to_owned());
    }
    #[derive(serde::Deserialize)]
    struct Version {
        v: u32,
    }
    let no = |error| format!("not the statistics of a mount: {error}");
    let Version { v } = serde_json::from_slice(text).map_err(no)?;
    if v != VERSION {
        return Err(format!(
            "the mount's process tells statistics of form {v}, this program reads {VERSION}: use the one that mounted"
        ));
    }
    serde_json::from_slice(text).map_err(no)
}

#[cfg(test)]
mod tests;
