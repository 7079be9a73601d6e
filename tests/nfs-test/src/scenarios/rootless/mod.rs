//! A server without privileges, whose handles rest on its state directory and on where the exported
//! file system is found again.

mod device;
mod full;

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::Result;
use nfs_lab::{Lab, Server, ServerOptions, copy_program};

use crate::host::Context;

/// The user and group that an unprivileged server runs as.
const NOBODY: u32 = 65_534;

pub(super) use device::run as device;
pub(super) use full::run as full;

/// A directory that belongs to the server's user.
fn own_dir(path: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(path)?;
    chown(path, Some(NOBODY), Some(NOBODY))?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755))?;
    Ok(path.to_path_buf())
}

/// A copy of the context with a server that the user nobody can execute, whatever the directories on the way
/// to the original allow.
fn for_nobody(context: &Context) -> Result<Context> {
    let program = context.lab.dir.join("penstock");
    copy_program(&context.lab.program, &program)?;
    Ok(Context {
        lab: Lab {
            program,
            ..context.lab.clone()
        },
        ..*context
    })
}

/// Starts a server as nobody, or else with all capabilities of this process.
fn start(context: &Context, export: &Path, state: &Path, unprivileged: bool) -> Result<Server> {
    let config = context.lab.dir.join("penstock.toml");
    let text = format!(
        "[[export]]\npath = {export:?}\npseudo = \"/\"\ncrossmnt = true\n\
         [[export.client]]\nnet = \"127.0.0.0/8\"\naccess = \"rw\"\nsquash = \"none\"\n"
    );
    std::fs::write(&config, text)?;
    let options = ServerOptions {
        config: Some(config),
        unprivileged,
        ..ServerOptions::default()
    };
    Server::start(&context.lab, export, state, &options)
}
