//! The table of NFSv3 and MOUNT procedures times their errors, on the wire through our own client.
//!
//! Each row is one call (or a few) and the statuses that RFC 1813 allows for it. Where the RFC leaves
//! a choice, the row allows what POSIX file systems and established servers answer, and no more. A
//! row that fails does not end the run: all failures are told together.
//!
//! [`run`] starts a server of its own with three exports; [`WireArgs`] runs the same rows against any
//! server, ours or not, whose exports are directories of this machine.

mod bed;
mod creating;
mod data;
mod directories;
mod handles;
mod kinds;
mod mounting;
mod names;
mod permissions;
mod read_only;
mod rpc;
mod table;

use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::host::Context;
use bed::{Bed, Place};
use nfs_lab::{Lab, Server, ServerOptions, copy_program};
use table::Table;

/// The user and group that an unprivileged server runs as.
const NOBODY: u32 = 65_534;

/// `nfs-test wire`: the rows against a server that runs already. The directories' contents are lost.
#[derive(clap::Args)]
pub(crate) struct WireArgs {
    /// Where NFS is answered.
    #[arg(long, value_name = "ADDR:PORT")]
    nfs: SocketAddr,
    /// Where MOUNT is answered, if not on the NFS port.
    #[arg(long, value_name = "ADDR:PORT")]
    mount: Option<SocketAddr>,
    /// A directory of this machine that is exported under its own path, writable, without squash.
    #[arg(long)]
    export: PathBuf,
    /// The same, read-only.
    #[arg(long)]
    read_only: Option<PathBuf>,
    /// The same, with user 0 made anonymous.
    #[arg(long)]
    squashed: Option<PathBuf>,
}

/// Runs the rows against our server with three exports.
pub(crate) fn run(context: &Context) -> Result<String> {
    run_as(context, None)
}

/// The scenario: the same with a server that has no privilege, so that handles come from its table,
/// and everybody is the server's own user. Rows about users are left out.
pub(crate) fn run_unprivileged(context: &Context) -> Result<String> {
    // Where nobody can execute it, whatever the directories on the way to the original allow.
    let program = context.lab.dir.join("penstock");
    copy_program(&context.lab.program, &program)?;
    let context = Context {
        lab: Lab {
            program,
            ..context.lab.clone()
        },
        ..*context
    };
    run_as(&context, Some(NOBODY))
}

fn run_as(context: &Context, only_user: Option<u32>) -> Result<String> {
    let place = Place {
        export: context.lab.dir.join("export"),
        read_only: Some(context.lab.dir.join("read-only")),
        squashed: Some(context.lab.dir.join("squashed")),
        only_user,
    };
    place.prepare()?;
    let config = context.lab.dir.join("penstock.toml");
    std::fs::write(&config, place.config())?;
    let options = ServerOptions {
        config: Some(config),
        unprivileged: only_user.is_some(),
        ..ServerOptions::default()
    };
    let state = context.lab.dir.join("state");
    std::fs::create_dir(&state)?;
    chown(&state, only_user, only_user)?;
    let server = Server::start(&context.lab, &place.export, &state, &options)?;
    let address = server.address();
    let outcome = rows(&place, address, address);
    server.stop()?;
    outcome
}

/// Runs the rows as the command `nfs-test wire`.
pub(crate) fn main(args: &WireArgs) -> Result<ExitCode> {
    let place = Place {
        export: args.export.clone(),
        read_only: args.read_only.clone(),
        squashed: args.squashed.clone(),
        only_user: None,
    };
    place.prepare()?;
    println!(
        "{}",
        rows(&place, args.nfs, args.mount.unwrap_or(args.nfs))?
    );
    Ok(ExitCode::SUCCESS)
}

fn rows(place: &Place, nfs: SocketAddr, mount: SocketAddr) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let table = runtime.block_on(async {
        let bed = Bed::new(place, nfs, mount).await?;
        let mut table = Table::default();
        let end = handles::rows(&bed, &mut table).await;
        table.end_of("handles", end);
        let end = names::rows(&bed, &mut table).await;
        table.end_of("names", end);
        let end = kinds::rows(&bed, &mut table).await;
        table.end_of("kinds", end);
        if bed.only_user.is_none() {
            let end = permissions::rows(&bed, &mut table).await;
            table.end_of("permissions", end);
        }
        let end = read_only::rows(&bed, &mut table).await;
        table.end_of("read_only", end);
        let end = creating::rows(&bed, &mut table).await;
        table.end_of("creating", end);
        let end = data::rows(&bed, &mut table).await;
        table.end_of("data", end);
        let end = directories::rows(&bed, &mut table).await;
        table.end_of("directories", end);
        let end = mounting::rows(&bed, &mut table).await;
        table.end_of("mounting", end);
        let end = rpc::rows(&bed, &mut table).await;
        table.end_of("rpc", end);
        anyhow::Ok(table)
    })?;
    if table.failures.is_empty() {
        return Ok(format!("{} rows", table.passed));
    }
    let all = table.passed + table.failures.len();
    bail!(
        "{} of {all} rows are wrong:\n  {}",
        table.failures.len(),
        table.failures.join("\n  ")
    );
}
