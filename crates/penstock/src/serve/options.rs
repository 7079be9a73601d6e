//! The flags of `penstock serve`, and the configuration that they make.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use anyhow::Context as _;
use nfs_io::BusyPoll;
use nfs_server::exports::config::{
    self, Access, ClientConfig, Config, Confine, Durability, EngineChoice, ExportConfig, LogLevel,
    NFS_PORT, ServerConfig, SquashKind, Who, from_word,
};
use nfs_server::exports::policy::{self, AutoUse, IoChange, IoPolicy, StableFloor, Way, WriteMode};
use nfs_server::exports::{NfsVersion, Versions};

use crate::exit::UsageError;

/// Serve a directory, or what a configuration file says, over NFS
///
/// `penstock serve DIR` creates DIR if it is missing and exports it as `/` to clients on this machine,
/// on 127.0.0.1:2049 or, if that port is taken, on a free one. MOUNT and NFS are answered on the one
/// port; no rpcbind is needed by clients that are given it. Such clients may change everything that
/// their user may, and their root is root here, unless --read-only or --squash say otherwise. Whose they are is
/// asked of the kernel: see --trust-loopback.
///
/// Logs and what was found at start go to standard error. When connections are accepted, standard
/// output gets a line `ready`, then `listening ADDR:PORT` for each address, then `metrics URL` and `web URL`
/// where these are answered. SIGTERM and SIGINT finish what is under way and end with status 0, a second one ends at once; SIGHUP reads the configuration file again.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Directory to export as `/`
    #[arg(required_unless_present = "config", conflicts_with = "config")]
    dir: Option<PathBuf>,
    /// Configuration file, instead of DIR. --listen, --state-dir, --versions, --engine, --memory, --busy-poll, --metrics,
    /// --web, --log-level, --log-json, --portmap, --trust-loopback, --confine and --no-rpcbind override what it says
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Address and port to listen on; may be repeated. Port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", value_parser = config::parse_listen)]
    listen: Vec<SocketAddr>,
    /// Where handle keys, the control socket and the lock are kept. Default: a directory of its own for
    /// each DIR or FILE below /var/lib/penstock (root) or ~/.local/state/penstock
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Versions of NFS that are answered: 3, 4.1, 4.2, separated by commas. Default: all of them
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = |word: &str| from_word(word, NfsVersion::WORDS)
    )]
    versions: Vec<NfsVersion>,
    /// How file I/O is done: auto, uring or threads
    #[arg(long, value_parser = |word: &str| from_word(word, EngineChoice::WORDS))]
    engine: Option<EngineChoice>,
    /// Budget of all I/O buffers together, for example 256MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    memory: Option<u64>,
    /// How long a thread that serves connections looks for more before it sleeps, once it had something to do, for
    /// example 50us. Saves the time of a wake-up for each call, and keeps a processor busy for that long. `auto`: for
    /// a short time, while it is at work for a quarter of the time or more; 0: not at all. Default: auto
    #[arg(long, value_name = "TIME")]
    busy_poll: Option<BusyPoll>,
    /// TCP congestion control that replies are sent with, for example cubic. Default: the system's
    #[arg(long, value_name = "NAME")]
    congestion_control: Option<String>,
    /// Answer GET /metrics over HTTP on this address, for Prometheus, for example 127.0.0.1:9150. It is open to
    /// whoever can connect
    #[arg(long, value_name = "ADDR:PORT", value_parser = config::parse_http)]
    metrics: Option<SocketAddr>,
    /// Answer with a web page on this address: the live picture of the last five minutes, as penstock top has it, for
    /// example 127.0.0.1:8049. It changes nothing, and is open to whoever can connect
    #[arg(long, value_name = "ADDR:PORT", value_parser = config::parse_http)]
    web: Option<SocketAddr>,
    /// How much is logged: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", value_parser = |word: &str| from_word(word, LogLevel::WORDS))]
    log_level: Option<LogLevel>,
    /// Log one JSON object per line
    #[arg(long)]
    log_json: bool,
    /// Answer portmap and rpcbind on port 111 as well (needs root, and no rpcbind running). Clients that
    /// mount without nolock are told there that file locks are refused; with nothing on port 111 they hang
    #[arg(long)]
    portmap: bool,
    /// Believe programs of this machine who they say they are. Without it the kernel is asked whose each
    /// is, and only root's may act for other users
    #[arg(long)]
    trust_loopback: bool,
    /// Whether the process gives up what it does not need once it has started (capabilities, system calls,
    /// files outside DIR): auto (as far as the kernel lets it), off, or required (no start without)
    #[arg(long, value_name = "HOW", value_parser = |word: &str| from_word(word, Confine::WORDS))]
    confine: Option<Confine>,
    /// Do not register with the local rpcbind
    #[arg(long)]
    no_rpcbind: bool,
    /// For measurements: open each file anew for every call, as far as that loses nothing
    #[arg(long)]
    pub(super) no_file_cache: bool,

    /// How READs reach the disk: buffered, dontcache or direct (or the kernel's 0, 1, 2), or auto: what suits the
    /// file's calls, which is the default
    #[arg(long, value_name = "MODE", conflicts_with = "config", value_parser = policy::parse_mode)]
    read: Option<Way>,
    /// How WRITEs reach the disk: buffered, dontcache, direct or auto (or the kernel's 0, 1, 2; 3 and 4 are direct
    /// with --stable data-sync and file-sync)
    #[arg(long, value_name = "MODE", conflicts_with = "config", value_parser = WriteMode::from_str)]
    write: Option<WriteMode>,
    /// How stable every WRITE is at least: asked (as the client asks), data-sync or file-sync
    #[arg(
        long,
        value_name = "FLOOR",
        conflicts_with = "config",
        value_parser = |word: &str| from_word(word, StableFloor::WORDS)
    )]
    stable: Option<StableFloor>,
    /// Whether the modes that auto chooses are taken: on, or dry-run, where they are only told and counted, for all
    /// READs and WRITEs, and calls in auto are buffered
    #[arg(
        long,
        value_name = "HOW",
        conflicts_with = "config",
        value_parser = |word: &str| from_word(word, AutoUse::WORDS)
    )]
    auto: Option<AutoUse>,
    /// How much is read ahead of clients that read a file from one end to the other, where READs are direct,
    /// for example 8MiB; 0 for nothing. Default: 4MiB
    #[arg(long, value_name = "SIZE", conflicts_with = "config", value_parser = policy::parse_read_ahead)]
    read_ahead: Option<u64>,
    /// Let the ends of unstable direct WRITEs that are parts of blocks wait in memory, for a second at most, until a
    /// neighbour completes the block. Local programs see them that much later
    #[arg(long, conflicts_with = "config")]
    staging: bool,
    /// Take space ahead of streams of WRITEs that extend files, and give it back when they are over: fewer
    /// pieces on the disk where a file is written by many calls at once
    #[arg(long, conflicts_with = "config")]
    reserve: bool,
    /// Let WRITEs that come out of order wait a moment for those before them, so that a file is extended in
    /// order
    #[arg(long, conflicts_with = "config")]
    order: bool,
    /// Send large buffered READs from the page cache without a copy: what is changed before it is sent goes as it is then
    #[arg(long, conflicts_with = "config")]
    splice: bool,
    /// Leave attributes out of the replies to stable WRITEs of NFSv3, for clients that open files with O_DIRECT: one
    /// WRITE after the other waits for less. A client that does cache drops what it wrote itself
    #[arg(long, conflicts_with = "config")]
    no_stable_write_attributes: bool,
    /// Let clients read only
    #[arg(long, conflicts_with = "config")]
    read_only: bool,
    /// Let these clients in as well, besides this machine: a network (CIDR), an address, the name of a host or a
    /// @netgroup; may be repeated. Their root is squashed unless --squash says otherwise
    #[arg(long, value_name = "CLIENTS", conflicts_with = "config", value_parser = str::parse::<Who>)]
    allow: Vec<Who>,
    /// Whose requests run as nobody: root, all or none. Default: none for clients on this machine, root
    /// for others
    #[arg(
        long,
        value_name = "WHO",
        conflicts_with = "config",
        value_parser = |word: &str| from_word(word, SquashKind::WORDS)
    )]
    squash: Option<SquashKind>,
    /// Acknowledge changes before they are on stable storage: faster, and a power cut loses them
    #[arg(long = "async", conflicts_with = "config")]
    asynchronous: bool,
}

/// What to serve, made of the flags.
pub(super) struct Plan {
    pub(super) config: Config,
    /// The configuration as it was before flags changed it: what a reload compares with.
    pub(super) loaded: Config,
    /// What the default state directory is named after: DIR or the configuration file.
    pub(super) served: PathBuf,
    /// A directory to create if it is missing.
    pub(super) create: Option<PathBuf>,
    /// May another port be used if the one asked for is taken?
    pub(super) any_port: bool,
}

impl Args {
    /// # Errors
    /// [`config::ConfigErrors`] and [`UsageError`], which end with status 2.
    pub(super) fn plan(self) -> anyhow::Result<Plan> {
        let mut plan = match (&self.config, &self.dir) {
            (Some(file), _) => Self::plan_of_file(file)?,
            (None, Some(dir)) => self.plan_of_directory(dir)?,
            (None, None) => return Err(UsageError("name a DIR or --config FILE".into()).into()),
        };
        let server = &mut plan.config.server;
        if !self.listen.is_empty() {
            server.listen = self.listen;
            plan.any_port = false;
        }
        if let Some(state_dir) = self.state_dir {
            server.state_dir = Some(std::path::absolute(state_dir)?);
        }
        if !self.versions.is_empty() {
            let given = self.versions.into_iter();
            server.versions = given.fold(Versions::NONE, Versions::with);
        }
        server.engine = self.engine.unwrap_or(server.engine);
        server.memory_bytes = self.memory.unwrap_or(server.memory_bytes);
        server.busy_poll = self.busy_poll.unwrap_or(server.busy_poll);
        server.congestion_control = self.congestion_control.or(server.congestion_control.take());
        server.metrics = self.metrics.or(server.metrics);
        server.web = self.web.or(server.web);
        server.log = self.log_level.unwrap_or(server.log);
        server.log_json |= self.log_json;
        server.confine = self.confine.unwrap_or(server.confine);
        server.portmap |= self.portmap;
        server.trust_loopback |= self.trust_loopback;
        server.rpcbind &= !self.no_rpcbind;
        Ok(plan)
    }

    fn plan_of_file(file: &Path) -> anyhow::Result<Plan> {
        // Absolute: a reload must find the file again.
        let file = std::path::absolute(file)?;
        let config = Config::load(&file)?;
        Ok(Plan {
            loaded: config.clone(),
            config,
            served: file,
            create: None,
            any_port: false,
        })
    }

    fn plan_of_directory(&self, dir: &Path) -> anyhow::Result<Plan> {
        let absolute = std::path::absolute(dir)
            .with_context(|| format!("cannot tell where {} is", dir.display()))?;
        let create = (!absolute.exists()).then(|| absolute.clone());
        if create.is_none() {
            config::check_directory(&absolute).map_err(UsageError)?;
        }
        let loopback_squash = self.squash.unwrap_or(SquashKind::None);
        let squash = self.squash.unwrap_or(SquashKind::Root);
        let access = if self.read_only {
            Access::ReadOnly
        } else {
            Access::ReadWrite
        };
        let rule = |net: Who, squash| ClientConfig {
            net,
            access,
            squash,
            ..ClientConfig::default()
        };
        let loopback = config::loopback_nets().map(|net| rule(net.into(), loopback_squash));
        let others = self.allow.iter().map(|net| rule(net.clone(), squash));
        let durability = if self.asynchronous {
            Durability::Async
        } else {
            Durability::Sync
        };
        let change = IoChange {
            read: self.read,
            write: self.write,
            auto: self.auto,
            hint: None,
            stable: self.stable,
            read_ahead: self.read_ahead,
            staging: self.staging.then_some(true),
            reserve: self.reserve.then_some(true),
            order: self.order.then_some(true),
            splice: self.splice.then_some(true),
            rules: None,
        };
        change.check().map_err(UsageError)?;
        let export = ExportConfig {
            clients: loopback.into_iter().chain(others).collect(),
            durability,
            stable_write_attributes: !self.no_stable_write_attributes,
            io: change.applied_to(&IoPolicy::default()),
            ..ExportConfig::new(&absolute, "/")
        };
        let server = ServerConfig {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, NFS_PORT))],
            // Nothing else will be served: there is no file that a reload could read.
            confine_beneath: vec![absolute.clone()],
            ..ServerConfig::default()
        };
        let config = Config::from_flags(server, vec![export]);
        Ok(Plan {
            loaded: config.clone(),
            config,
            served: absolute,
            create,
            any_port: true,
        })
    }
}

fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = nfs_io::size::parse(text).map_err(|error| error.to_string())?;
    config::check_memory(bytes)?;
    Ok(bytes)
}
