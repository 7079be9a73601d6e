//! Our client against our server, against NFS-Ganesha and against the Linux kernel's nfsd: the library at
//! each of its levels, each command, and large and many files.

mod files;
mod kill;
mod large;
mod library;
mod local;
mod many;
mod resume;
mod tree;

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use nfs_lab::output_within;

use crate::host::{Context, Peer, PeerServer};

/// How long one command may take.
const COMMAND_DEADLINE: Duration = Duration::from_secs(240);

pub(super) fn files_penstock(context: &Context) -> Result<String> {
    files::run(context, Peer::Penstock)
}

pub(super) fn files_ganesha(context: &Context) -> Result<String> {
    files::run(context, Peer::Ganesha)
}

pub(super) fn files_nfsd(context: &Context) -> Result<String> {
    files::run(context, Peer::KernelNfsd)
}

pub(super) use kill::{kill, power_ext4, power_xfs};
pub(super) use large::run as large;
pub(super) use local::run as local;
pub(super) use many::{
    ganesha as many_ganesha, nfsd as many_nfsd, penstock_server as many_penstock,
};

/// `penstock` with these words, run to its end.
fn penstock(server: &PeerServer<'_>, words: &[&str]) -> Result<Vec<u8>> {
    output_within(server.penstock().args(words), COMMAND_DEADLINE)
}

/// Runs a command that has to fail with exit code `code` and to say something on standard error.
fn refused(command: &mut Command, code: i32) -> Result<()> {
    let done = command.output()?;
    ensure!(
        done.status.code() == Some(code) && !done.stderr.is_empty(),
        "{command:?}: {}, should be exit code {code}: {}",
        done.status,
        String::from_utf8_lossy(&done.stderr).trim()
    );
    Ok(())
}
