//! Whom a run measures, as the command line says it.

use std::path::PathBuf;

use nfs_client::NfsUrl;
use nfs_load::own::Own;
use nfs_load::place::Way;
use nfs_load::run::Plan;
use nfs_load::target::{Peer, Target};
use nfs_load::workload::Workload;

use crate::exit::UsageError;
use crate::session::Common;

#[derive(clap::Args, Debug)]
pub(super) struct TargetArgs {
    /// A server that is there, whoever made it: files are made in a new directory in this one; may be repeated
    #[arg(long, value_name = "URL")]
    server: Vec<NfsUrl>,
    /// Our server, started for the run, in each of these modes: buffered, dontcache, direct, auto, separated by commas;
    /// in all of them if none is named. With +staging behind direct or auto, the ends of WRITEs wait for their
    /// neighbours; with +order behind any, WRITEs that come out of order wait for those before them, with +reserve
    /// space is taken ahead of streams, with +async names are acknowledged before they are on stable storage, with
    /// +no-stable-write-attributes replies to stable WRITEs tell no attributes, with +splice behind buffered or auto
    /// large READs are sent from the page cache without a copy, and with +busy-poll=50us threads always look for more
    /// calls for so long before they sleep, with +busy-poll=0 never. Several may follow each other: direct+staging+order
    #[arg(
        long = "self",
        value_name = "MODES",
        num_args = 0..=1,
        require_equals = true,
        value_delimiter = ',',
        value_parser = Own::parse,
        default_missing_value = "buffered,dontcache,direct,auto"
    )]
    own: Option<Vec<Own>>,
    /// Another server that is installed on this host, started for the run on ports of its own; takes root
    #[arg(long, value_name = "NAME", value_parser = ["ganesha"])]
    peer: Option<String>,
    /// What is mounted here, through its own client: a kernel's, or one in user space; may be repeated
    #[arg(long, value_name = "DIR")]
    mounted: Vec<PathBuf>,
    /// The same load straight on this host's file system: buffered, direct, and, for names, buffered+sync, which puts
    /// each on stable storage as a server does (fsync(2) of its directory); buffered and direct if none is named
    #[arg(
        long,
        value_name = "WAYS",
        num_args = 0..=1,
        require_equals = true,
        value_delimiter = ',',
        value_parser = way,
        default_missing_value = "buffered,direct"
    )]
    local: Option<Vec<Way>>,
    /// Memory of each server that is started, its page cache included, for example 512MiB: a memory cgroup for each.
    /// A file outgrows it then
    #[arg(long, value_name = "SIZE", value_parser = super::size)]
    memory: Option<u64>,
    /// Where files of this host are made, for --self, --peer and --local, in a new directory
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    directory: PathBuf,
}

fn way(text: &str) -> Result<Way, String> {
    let named = Way::ALL.into_iter().find(|way| way.word() == text);
    named.ok_or_else(|| {
        "give buffered, direct, buffered+sync, or some of them, separated by commas".to_owned()
    })
}

impl TargetArgs {
    /// The targets in their order, each once.
    fn targets(&self) -> Result<Vec<Target>, UsageError> {
        let servers = self.server.iter().cloned().map(Target::Server);
        let own = self.own.iter().flatten().copied().map(Target::Own);
        let mounted = self.mounted.iter().cloned().map(Target::Mounted);
        let local = self.local.iter().flatten().copied().map(Target::Local);
        let peer = self.peer.iter().map(|_| Target::Peer(Peer::Ganesha));
        let mut targets: Vec<Target> = servers
            .chain(own)
            .chain(peer)
            .chain(mounted)
            .chain(local)
            .collect();
        if targets.is_empty() {
            targets.extend(Own::each().map(Target::Own));
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

    /// The plan of a workload with its usual numbers, on these targets.
    pub(super) fn plan(
        &self,
        workload: Workload,
        repetitions: u32,
        common: &Common,
    ) -> anyhow::Result<Plan> {
        Ok(Plan {
            directory: self.directory.clone(),
            memory_bytes: self.memory,
            ..super::plan(workload, self.targets()?, repetitions, common)?
        })
    }

    /// Memory of each server that is started, in bytes.
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        self.memory
    }
}
