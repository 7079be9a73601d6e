//! What the file API reports, with the likely cause and the cure.

use std::sync::Arc;

use nfs_wire::mount3::Mountstat3;
use nfs_wire::nfs3::Nfsstat3;

use super::{Nfs4Error, RpcError};
use crate::limits::{PATTERN_MATCHES_MAX, READDIR_ENTRIES_MAX, SYMLINKS_MAX};

/// Why an operation on files failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The call brought no results.
    #[error(transparent)]
    Rpc(RpcError),
    /// The server answered with an error status.
    #[error("{path}: {operation}: {}", describe(*status))]
    Nfs {
        /// The procedure that failed, in the RFC's word.
        operation: &'static str,
        /// What it was about, escaped for printing; may be empty.
        path: String,
        /// The status in the results (RFC 1813 §2.6).
        status: Nfsstat3,
    },
    /// The server does not let us mount the path.
    #[error("cannot mount {path}: {}{}", describe_mount(*status, *listed, *source_port), exports_told(exports))]
    Mount {
        /// The path that was asked for, escaped for printing.
        path: String,
        /// The status in the results (RFC 1813 §5.1.5).
        status: Mountstat3,
        /// Whether the server's list of exports (EXPORT) has the path.
        listed: Listed,
        /// The local port that the server saw; `None` where it is not known.
        source_port: Option<u16>,
        /// What the server exports, escaped for printing, where the path lies in none of it: the first
        /// [`EXPORTS_TOLD_MAX`](crate::limits::EXPORTS_TOLD_MAX).
        exports: Vec<String>,
    },
    /// No address of the host's portmapper leads to the program.
    #[error("the host's portmapper knows no {program} over TCP: give its port in the URL")]
    NotRegistered {
        /// The program that was looked for, `NFS` or `MOUNT`.
        program: &'static str,
    },
    /// An operation of NFSv4 failed.
    #[error("{}{error}", before(path))]
    Nfs4 {
        /// What it was about, escaped for printing; may be empty.
        path: String,
        /// Why it failed.
        error: Nfs4Error,
    },
    /// The URL names a version over which this cannot be done yet.
    #[error("only NFSv3 can do this so far: leave version={version} out of the URL")]
    OnlyV3 {
        /// The version that the URL names.
        version: &'static str,
    },
    /// Too many symbolic links on the way.
    #[error("{path}: more than {SYMLINKS_MAX} symbolic links on the way, or a loop of them")]
    SymlinkLoop {
        /// The path that was walked, escaped for printing.
        path: String,
    },
    /// An absolute symbolic link that leads out of the export.
    #[error("{path}: leads to {target}, outside the mounted export")]
    OutsideExport {
        /// The path that was walked, escaped for printing.
        path: String,
        /// Where the link points, escaped for printing.
        target: String,
    },
    /// A path of too many names.
    #[error("{path}: too many names in the path")]
    TooManyNames {
        /// The path that was walked, escaped for printing.
        path: String,
    },
    /// A path that names nothing that could be created, removed or renamed: `/`, `.`, `..`.
    #[error("{path}: names no entry of a directory")]
    NoName {
        /// The path, escaped for printing.
        path: String,
    },
    /// Something else than a directory has the name of a directory that is to be made.
    #[error("{path}: is in the way: something there is not a directory")]
    InTheWay {
        /// The path, escaped for printing.
        path: String,
    },
    /// The path leads to something that is not a regular file.
    #[error("{path}: is a {what}, not a regular file")]
    NotAFile {
        /// The path, escaped for printing.
        path: String,
        /// What the path leads to, in words.
        what: &'static str,
    },
    /// A directory that does not end: the server repeats itself, or it is larger than the cap.
    #[error(
        "the server's listing of a directory does not end: it repeats itself, stops without saying \
         so, or has more than {READDIR_ENTRIES_MAX} entries"
    )]
    EndlessDirectory,
    /// A pattern in an address that matches more names than the cap.
    #[error(
        "more than {PATTERN_MATCHES_MAX} names match the pattern: name the directory, with -r where the command has it"
    )]
    TooManyMatches,
    /// A name that no file can have: empty, or with a `/` or NUL in it.
    #[error("the server lists the name '{name}', which no file can have")]
    BadName {
        /// The name, escaped for printing.
        name: String,
    },
    /// The server took a WRITE without taking a single byte, again and again.
    #[error("{path}: the server accepts no data at offset {offset}")]
    NoProgress {
        /// The path, escaped for printing.
        path: String,
        /// Where in the file that was, in bytes.
        offset: u64,
    },
    /// The thread of a [`blocking`](crate::blocking) client cannot be started.
    #[error("the client's thread cannot be started: {cause}")]
    Thread {
        /// The error that the system gave.
        cause: Arc<std::io::Error>,
    },
    /// The write verifier changed while parts of one write were on their way, each time it was tried.
    #[error("{path}: the server restarts again and again; what was written may be lost")]
    VerifierKeepsChanging {
        /// The path, escaped for printing.
        path: String,
    },
}

/// What a server's list of exports says of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// It has the path, or a directory above it.
    Yes,
    /// It has nothing that the path lies in.
    No,
    /// The server does not give its list.
    Unknown,
}

impl ClientError {
    /// The server's status, if it is one of NFS.
    pub fn status(&self) -> Option<Nfsstat3> {
        match self {
            Self::Nfs { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// What the error is about, escaped for printing; `None` where it says nothing of it.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Nfs { path, .. }
            | Self::Mount { path, .. }
            | Self::Nfs4 { path, .. }
            | Self::SymlinkLoop { path }
            | Self::OutsideExport { path, .. }
            | Self::TooManyNames { path }
            | Self::NoName { path }
            | Self::InTheWay { path }
            | Self::NotAFile { path, .. }
            | Self::NoProgress { path, .. }
            | Self::VerifierKeepsChanging { path } => Some(path),
            Self::Rpc(_)
            | Self::NotRegistered { .. }
            | Self::OnlyV3 { .. }
            | Self::Thread { .. }
            | Self::TooManyMatches
            | Self::EndlessDirectory
            | Self::BadName { .. } => None,
        }
    }

    /// This error, about `path` where it was about one name or one part of it.
    pub fn of(mut self, path: &[u8]) -> Self {
        match &mut self {
            Self::Nfs { path: told, .. }
            | Self::Nfs4 { path: told, .. }
            | Self::SymlinkLoop { path: told }
            | Self::OutsideExport { path: told, .. }
            | Self::TooManyNames { path: told }
            | Self::NoName { path: told }
            | Self::InTheWay { path: told }
            | Self::NotAFile { path: told, .. }
            | Self::NoProgress { path: told, .. }
            | Self::VerifierKeepsChanging { path: told } => *told = printable(path),
            _ => {}
        }
        self
    }
}

impl From<RpcError> for ClientError {
    fn from(error: RpcError) -> Self {
        match error {
            RpcError::Nfs4(error) => Self::Nfs4 {
                path: String::new(),
                error: (*error).clone(),
            },
            error => Self::Rpc(error),
        }
    }
}

impl From<Nfs4Error> for ClientError {
    fn from(error: Nfs4Error) -> Self {
        match error {
            Nfs4Error::Rpc(error) => Self::Rpc(error),
            error => Self::Nfs4 {
                path: String::new(),
                error,
            },
        }
    }
}

pub(crate) fn refused(operation: &'static str, path: &[u8], status: Nfsstat3) -> ClientError {
    let path = if path.is_empty() {
        "the file".to_owned()
    } else {
        printable(path)
    };
    ClientError::Nfs {
        operation,
        path,
        status,
    }
}

/// A path at the beginning of a message, if there is one.
fn before(path: &str) -> String {
    match path {
        "" => String::new(),
        path => format!("{path}: "),
    }
}

/// A path for a message: escaped where a terminal could misread it.
pub(crate) fn printable(path: &[u8]) -> String {
    path.escape_ascii().to_string()
}

/// What a status means to the person who asked (RFC 1813 §2.6).
fn describe(status: Nfsstat3) -> &'static str {
    match status {
        Nfsstat3::Ok => "no error",
        Nfsstat3::Perm => "not permitted: only the owner or root may do this",
        Nfsstat3::Noent => "no such file or directory",
        Nfsstat3::Io => "input/output error on the server: see its log",
        Nfsstat3::Nxio => "no such device",
        Nfsstat3::Acces => "permission denied: check the mode, or call as another uid= and gid=",
        Nfsstat3::Exist => "exists already",
        Nfsstat3::Xdev => "on another file system of the server",
        Nfsstat3::Nodev => "no such device",
        Nfsstat3::Notdir => "not a directory",
        Nfsstat3::Isdir => "is a directory",
        Nfsstat3::Inval => "the server finds an argument invalid",
        Nfsstat3::Fbig => "the file would become too large",
        Nfsstat3::Nospc => "no space left on the server's file system",
        Nfsstat3::Rofs => "the export or its file system is read-only",
        Nfsstat3::Mlink => "too many links",
        Nfsstat3::Nametoolong => "the name is too long",
        Nfsstat3::Notempty => "the directory is not empty",
        Nfsstat3::Dquot => "over the quota",
        Nfsstat3::Stale => "stale handle: the file was removed, or the export is gone; mount again",
        Nfsstat3::Remote => "too many levels of remote in path",
        Nfsstat3::Badhandle => "the server does not know this handle; mount again",
        Nfsstat3::NotSync => "somebody else changed the file first",
        Nfsstat3::BadCookie => "the directory changed while it was read; read it again",
        Nfsstat3::Notsupp => "the server does not support this",
        Nfsstat3::Toosmall => "the server needs room for a longer reply",
        Nfsstat3::Serverfault => "the server failed inside: see its log",
        Nfsstat3::Badtype => "the server does not support files of this type",
        Nfsstat3::Jukebox => "the server is not ready with it yet; try again later",
    }
}

/// What there is instead, as the end of a sentence.
fn exports_told(exports: &[String]) -> String {
    match exports {
        [] => String::new(),
        some => format!("; the server exports {}", some.join(", ")),
    }
}

/// A refused mount, its likely cause and the cure. MNT3ERR_ACCES stands for a refused address and for a
/// refused port alike (RFC 1813 §5.1.5 has no other word), so what else is known has to tell them apart.
fn describe_mount(status: Mountstat3, listed: Listed, source_port: Option<u16>) -> String {
    let port = source_port.filter(|port| *port >= PRIVILEGED_PORTS_END);
    let text = match status {
        Mountstat3::Acces | Mountstat3::Perm => return describe_refusal(listed, port),
        Mountstat3::Noent => "no such directory, or not exported: check the path's spelling",
        Mountstat3::Io => "input/output error on the server: see its log",
        Mountstat3::Notdir => "not a directory",
        Mountstat3::Inval => "the server finds the path invalid",
        Mountstat3::Nametoolong => "the path is too long",
        Mountstat3::Notsupp => "the server does not support it",
        Mountstat3::Serverfault => "the server failed inside: see its log",
    };
    text.to_owned()
}

/// Why the server's rules are likely to have refused a mount. `port`: the one it came from, if only below 1024
/// is privileged and this is not.
fn describe_refusal(listed: Listed, port: Option<u16>) -> String {
    let run_as_root = "run this as root, or let the export take any port (Penstock: \
                       privileged_port = false; exports(5): insecure)";
    let add_host =
        "ask for this host's address in the export's clients, and check the path's spelling";
    match (listed, port) {
        (Listed::Yes, Some(port)) => format!(
            "refused, though it is in the server's list of exports: most likely because it was asked for \
             from port {port}, which is not below 1024: {run_as_root}"
        ),
        (Listed::Yes, None) => {
            "refused, though it is in the server's list of exports: it may be for other \
             hosts or users; the server's log has the reason"
                .to_owned()
        }
        (Listed::No, _) => format!(
            "not exported to this host: the server's list of exports does not have it; {add_host}"
        ),
        (Listed::Unknown, None) => format!("not exported to this host: {add_host}"),
        (Listed::Unknown, Some(port)) => format!(
            "not exported to this host, or not to port {port}, which is not below 1024: {add_host}; for \
             the port, {run_as_root}"
        ),
    }
}

/// A port below this can be bound only by root (or with CAP_NET_BIND_SERVICE), and servers may ask for one.
const PRIVILEGED_PORTS_END: u16 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_over_nfsv4_names_what_it_was_about_if_that_is_known() {
        let error = ClientError::from(Nfs4Error::SlotsGivenUp);
        assert!(error.to_string().starts_with("no slot"), "{error}");
        let error = error.of(b"/file");
        assert!(error.to_string().starts_with("/file: no slot"), "{error}");
    }

    #[test]
    fn a_refused_port_is_not_called_not_exported() {
        let told = |listed, source_port| describe_mount(Mountstat3::Acces, listed, source_port);
        let by_port = told(Listed::Yes, Some(40_000));
        assert!(
            by_port.contains("from port 40000, which is not below 1024"),
            "{by_port}"
        );
        assert!(!by_port.contains("not exported"), "{by_port}");
        for source_port in [Some(1023), None] {
            let other = told(Listed::Yes, source_port);
            assert!(other.contains("the server's log has the reason"), "{other}");
            assert!(!other.contains("1024"), "{other}");
        }
        for source_port in [Some(1023), Some(40_000)] {
            let by_host = told(Listed::No, source_port);
            assert!(
                by_host.starts_with("not exported to this host"),
                "{by_host}"
            );
            assert!(!by_host.contains("1024"), "{by_host}");
        }
        let either = told(Listed::Unknown, Some(40_000));
        assert!(either.contains("or not to port 40000"), "{either}");
    }
}
