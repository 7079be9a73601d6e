//! What the process gives up before the server starts in it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use nfs_io::peer::Asker;
use nfs_server::exports::ClientName;
use nfs_server::exports::config::{Config, Confine};
use nfs_server::host::confinement::{self, Needs, Part, PartState};
use nfs_server::host::state_dir::StateDir;

/// Confines the process as `config` asks. All sockets are bound and nothing runs beside the calling
/// thread yet.
///
/// # Errors
/// What missing of a confinement that is required.
pub(super) fn enter(
    config: &Config,
    state_dir: &StateDir,
    listeners: &[TcpListener],
) -> anyhow::Result<()> {
    let server = &config.server;
    let is_required = match server.confine {
        Confine::Off => return Ok(()),
        Confine::Auto => false,
        Confine::Required => true,
    };
    let parts = confinement::enter(&Needs {
        beneath: server.confine_beneath.clone(),
        exports: config
            .exports
            .iter()
            .map(|export| export.path.clone())
            .collect(),
        own: vec![state_dir.path().to_owned()],
        read: directories_of(config.file.as_deref()),
        user_database: server.server_groups
            || server.idmap_domain.is_some()
            || has_netgroups(config),
        network_namespaces: listeners.iter().any(Asker::asks_elsewhere),
    });
    let missing = parts
        .iter()
        .filter(|part| part.state == PartState::Unavailable);
    let missing: Vec<String> = missing.map(Part::to_string).collect();
    if is_required && !missing.is_empty() {
        let missing = missing.join("; ");
        anyhow::bail!(
            "confinement is required and not all of it is to be had: {missing}; mend that, or use \
             confine = \"auto\""
        );
    }
    Ok(())
}

/// Whether clients are named by netgroups, which a database of any kind may have.
fn has_netgroups(config: &Config) -> bool {
    let mut clients = config.exports.iter().flat_map(|export| &export.clients);
    clients.any(|client| matches!(client.net.name(), Some(ClientName::Netgroup(_))))
}

/// The directories in which a reload finds the file: its own, and that of what it is a link to.
fn directories_of(file: Option<&Path>) -> Vec<PathBuf> {
    let real = file.and_then(|file| file.canonicalize().ok());
    let files = [file, real.as_deref()].into_iter().flatten();
    files.filter_map(Path::parent).map(Path::to_owned).collect()
}
