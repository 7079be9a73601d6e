//! Whom a run measures, as the command line says it.

use std::path::PathBuf;

use nfs_client::NfsUrl;
use nfs_load::target::{MODES, Target};

use crate::exit::UsageError;

#[derive(clap::Args, Debug)]
pub(super) struct TargetArgs {
    /// A server that is there, whoever made it: files are made in a new directory in this one; may be repeated
    #[arg(long, value_name = "URL")]
    server: Vec<NfsUrl>,
    /// Our server, started for the run, in each of these modes: buffered, dontcache, direct, auto, separated by
    /// commas; in all of them if none is named
    #[arg(
        long = "self",
        value_name = "MODES",
        num_args = 0..=1,
        require_equals = true,
        value_delimiter = ',',
        value_parser = mode,
        default_missing_value = "buffered,dontcache,direct,auto"
    )]
    own: Option<Vec<&'static str>>,
    /// The same load straight on this host's file system, buffered, direct or both; in both ways if none is named
    #[arg(
        long,
        value_name = "WAYS",
        num_args = 0..=1,
        require_equals = true,
        value_delimiter = ',',
        value_parser = way,
        default_missing_value = "buffered,direct"
    )]
    local: Option<Vec<bool>>,
    /// Where files of this host are made, for --self and --local, in a new directory
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    directory: PathBuf,
}

fn mode(text: &str) -> Result<&'static str, String> {
    let found = MODES.into_iter().find(|mode| *mode == text);
    found.ok_or_else(|| format!("give some of {}, separated by commas", MODES.join(", ")))
}

/// Whether past the page cache.
fn way(text: &str) -> Result<bool, String> {
    match text {
        "buffered" => Ok(false),
        "direct" => Ok(true),
        _ => Err("give buffered, direct, or both, separated by a comma".to_owned()),
    }
}

impl TargetArgs {
    /// The targets in their order, each once.
    pub(super) fn targets(&self) -> Result<Vec<Target>, UsageError> {
        let servers = self.server.iter().cloned().map(Target::Server);
        let own = self.own.iter().flatten().copied().map(Target::Own);
        let local = self.local.iter().flatten().copied().map(Target::Local);
        let mut targets: Vec<Target> = servers.chain(own).chain(local).collect();
        if targets.is_empty() {
            targets.extend(MODES.map(Target::Own));
        }
        for (index, target) in targets.iter().enumerate() {
            let name = target.name();
            let is_double = targets
                .iter()
                .skip(index + 1)
                .any(|other| other.name() == name);
            if is_double {
                return Err(UsageError(format!("{name} is named twice")));
            }
        }
        Ok(targets)
    }

    /// Where files of this host are made.
    pub(super) fn directory(&self) -> PathBuf {
        self.directory.clone()
    }
}
