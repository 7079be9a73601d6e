//! Why a load, a server of it or a report failed, with the likely cause.

use std::io;
use std::path::{Path, PathBuf};

use nfs_client::nfs_wire::nfs3::Nfsstat3;
use nfs_client::{ClientError, Nfs4Error, RpcError};

/// Why a measurement, or what it needs, failed.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// An operation of the client failed.
    #[error("{doing}: {error}")]
    Client {
        /// What was being done.
        doing: String,
        /// The client's own words.
        error: ClientError,
    },
    /// A call had no results.
    #[error("{doing}: {error}")]
    Rpc {
        /// The procedure.
        doing: &'static str,
        /// The connection's own words.
        error: RpcError,
    },
    /// A call was answered with an error.
    #[error("{doing}: the server answered {status:?}")]
    Status {
        /// The procedure.
        doing: &'static str,
        /// The status of the answer.
        status: Nfsstat3,
    },
    /// A file or directory of this host failed.
    #[error("{path}: {error}", path = path.display())]
    Local {
        /// The file or directory.
        path: PathBuf,
        /// The error that the system call gave.
        error: io::Error,
    },
    /// Fewer bytes were moved than asked for, and it was not the end of the file.
    #[error("{doing} at {offset}: {moved} bytes instead of {asked}")]
    Short {
        /// READ or WRITE.
        doing: &'static str,
        /// Offset in the file, in bytes.
        offset: u64,
        /// How many bytes were asked for.
        asked: usize,
        /// How many bytes were moved.
        moved: usize,
    },
    /// What was read is not what was written.
    #[error("READ at {offset}: the bytes are not those that were written there")]
    WrongBytes {
        /// Offset in the file, in bytes.
        offset: u64,
    },
    /// The server began anew while data was not yet on stable storage.
    #[error("the write verifier changed: the server restarted, and what was written may be lost")]
    VerifierChanged,
    /// A directory has other names than were made.
    #[error("a directory of {expected} names was listed with {listed}")]
    Listing {
        /// How many were made.
        expected: u64,
        /// How many the server told.
        listed: u64,
    },
    /// A program that was to serve did not come up.
    #[error("{server} does not start: {why}")]
    Start {
        /// Its name.
        server: String,
        /// Its last words, or what is missing.
        why: String,
    },
    /// No group of processes with little memory could be made.
    #[error(
        "no memory cgroup can be made: {path}: {error}; run this as root on a host whose /sys/fs/cgroup may be \
         written, or start the server in a group that something else makes (systemd-run --scope -p MemoryMax=512M \
         penstock serve ...) and name it with --server",
        path = path.display()
    )]
    Cgroup {
        /// The group, or a file of it.
        path: PathBuf,
        /// The error that the system call gave.
        error: io::Error,
    },
    /// A server that was started for the run ended in the middle of it.
    #[error(
        "the server ended by itself: with --memory the kernel ends one that needs more (`dmesg` says so): give it more"
    )]
    Ended,
    /// Nothing was asked, as the server has not answered before.
    #[error("not asked: the server has not answered before")]
    Silent,
    /// An idle connection could not be had.
    #[error(
        "connection {number}: {error}; a server bounds how many one host may have: give its process more \
         descriptors (`ulimit -n`, LimitNOFILE=), or give fewer (--idle, --connections)"
    )]
    Idle {
        /// Which of them, counted from 1.
        number: usize,
        /// The error that the system call gave.
        error: io::Error,
    },
    /// A server closed connections that were left alone.
    #[error(
        "the server closed {closed} of {of} connections: one host may have no more; give its process more \
         descriptors (`ulimit -n`, LimitNOFILE=), or give fewer (--idle, --connections)"
    )]
    IdleClosed {
        /// How many it closed.
        closed: usize,
        /// How many there were.
        of: usize,
    },
    /// A setting is out of its range, or does not fit another one.
    #[error("{0}")]
    Setting(String),
    /// Not enough room for the files of the measurement.
    #[error("{path} has room for {free} bytes, and the files of this measurement take {needed}: give --size or --directory", path = path.display())]
    NoRoom {
        /// Directory in which the files were to be made.
        path: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes that are needed.
        needed: u64,
    },
    /// The run was told to stop.
    #[error("interrupted")]
    Interrupted,
    /// The event loop, a thread or a timer could not be had.
    #[error("cannot {doing}: {error}")]
    System {
        /// What could not be done.
        doing: &'static str,
        /// The error that the system call gave.
        error: io::Error,
    },
}

impl LoadError {
    /// Whether it says that a server has not answered for as long as a call, or an attempt to connect, may take.
    pub(crate) fn is_silence(&self) -> bool {
        let (Self::Rpc { error, .. }
        | Self::Client {
            error:
                ClientError::Rpc(error)
                | ClientError::Nfs4 {
                    error: Nfs4Error::Rpc(error),
                    ..
                },
            ..
        }) = self
        else {
            return matches!(self, Self::Silent);
        };
        match error {
            RpcError::Timeout { .. } => true,
            RpcError::Connect { cause, .. } => cause.kind() == io::ErrorKind::TimedOut,
            _ => false,
        }
    }

    /// Makes an error of this host's file system one about `path`.
    pub fn local(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Local {
            path: path.to_owned(),
            error,
        }
    }

    /// Makes an error of the client one about what was being `doing`.
    pub fn client(doing: impl Into<String>) -> impl FnOnce(ClientError) -> Self {
        move |error| Self::Client {
            doing: doing.into(),
            error,
        }
    }

    /// Makes an error of the system one about what could not be done.
    pub fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { doing, error }
    }
}
