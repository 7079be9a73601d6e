//! The export table: what is served, to whom, and as whom their requests run.
//!
//! A table is built from a [`Config`] and is swapped whole on reload; requests under way keep the
//! `Arc<Export>` that they began with. Nothing of it changes but the I/O policies and what the names
//! of clients stand for. Nothing here touches a file or panics on a peer's bytes.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use ipnet::IpNet;
use nfs_io::{Creds, LocalGid, LocalUid};

use crate::exports::config::{
    Access, Allowance, Audited, ClientConfig, Config, ConfigErrors, Durability, ExportConfig,
    Problem, SquashKind, Who, export_id,
};
use crate::exports::names::{ClientName, LiveName, Resolved};
use crate::exports::policy::{IoPolicy, LivePolicy};
use crate::exports::pseudo::PseudoTree;
use crate::exports::versions::{NfsVersion, Versions};

/// A port below this can be bound only by root (or with CAP_NET_BIND_SERVICE) on the client.
const PRIVILEGED_PORTS_END: u16 = 1024;
/// A port below [`PRIVILEGED_PORTS_END`], for callers whose port is not to be asked about.
pub(crate) const PRIVILEGED_PORT: u16 = 1;

/// A user id as a client sent it. Not an identity here until [`Squash::creds`] made it one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WireUid(pub u32);

/// A group id as a client sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WireGid(pub u32);

/// All exports of one configuration.
#[derive(Debug)]
pub struct ExportTable {
    /// The exports in the order of the configuration.
    exports: Vec<Arc<Export>>,
    by_id: HashMap<u32, Arc<Export>>,
    /// The directories above the exports.
    pseudo: PseudoTree,
    /// The networks of all rules of all exports, without overlaps and in order.
    admitted: Vec<IpNet>,
    /// The names that rules have, in order and each once.
    names: Vec<Arc<LiveName>>,
    /// The addresses of all names, in order and each once.
    admitted_by_name: ArcSwap<Vec<IpAddr>>,
}

/// One export. Two are equal when every setting is.
#[derive(Debug, PartialEq, Eq)]
pub struct Export {
    /// [`export_id`] of the pseudo path: the same in every run, part of every handle.
    pub id: u32,
    /// The directory that is served.
    pub path: PathBuf,
    /// The path that clients mount, in normal form: `/` or `/a/b`.
    pub pseudo: String,
    /// When a change is on stable storage.
    pub durability: Durability,
    /// Are the replies to stable WRITEs of NFSv3 to tell attributes?
    pub stable_write_attributes: bool,
    /// May a client walk into file systems mounted below `path`?
    pub crossmnt: bool,
    /// Which calls the audit is told of.
    pub audit: Audited,
    /// How READs and WRITEs reach the disk.
    pub io: LivePolicy,
    rules: Vec<ClientRule>,
}

/// What one network of clients may do with an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRule {
    /// The clients that the rule is for.
    pub clients: Clients,
    /// May these clients change files, or only read them?
    pub access: Access,
    /// The users as whom these clients' requests run.
    pub squash: Squash,
    /// Whether these clients' ports must be below 1024.
    pub privileged_port: bool,
    /// Versions of NFS that these clients may use, of those that the server answers.
    pub versions: Versions,
    /// What each of these clients gets beside others, and at most, where that is not the default.
    pub allowance: Option<Arc<Allowance>>,
}

/// The clients that a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clients {
    /// Those whose address is in a network.
    Net(IpNet),
    /// Those whose address is one that a name stands for at the moment.
    Named(Arc<LiveName>),
}

impl Clients {
    /// Is the client at this address, which is in its IPv4 form where it has one, among them?
    #[must_use]
    pub fn contains(&self, address: &IpAddr) -> bool {
        match self {
            Self::Net(net) => net.contains(address),
            Self::Named(name) => name.contains(address),
        }
    }

    /// The name that the rule has, where it has one.
    #[must_use]
    pub fn named(&self) -> Option<&LiveName> {
        match self {
            Self::Net(_) => None,
            Self::Named(name) => Some(name),
        }
    }
}

/// As the configuration writes it.
impl fmt::Display for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(net) => net.fmt(f),
            Self::Named(name) => name.name.fmt(f),
        }
    }
}

/// Why a client may not use an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No rule of the export names its address.
    #[error(
        "its address is in no network of the export's clients, and none that a name of theirs has"
    )]
    NotListed,
    /// The rule asks for a port below 1024 and the client's is not.
    #[error("its port is not below 1024, as the export asks (privileged_port)")]
    PortNotPrivileged,
    /// The rule gives its clients other versions of NFS than the one it came with.
    #[error("its rule lets it use other versions of NFS only (versions)")]
    Version,
    /// It is a program of this machine with whom a server that acts as its own user shares nothing.
    #[error(
        "it is a program of another user of this machine, for whom the server would act as its own user"
    )]
    LocalBarred,
    /// The user as whom its requests would run is none that the server knows or can act as.
    #[error(
        "neither the user that it names nor the export's anonymous one (anonuid, anongid) exists in \
         the server's user namespace"
    )]
    NoIdentity,
}

/// The users as whom a client's requests run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Squash {
    kind: SquashKind,
    anonymous: Creds,
}

impl ExportTable {
    /// The table of `config`.
    ///
    /// # Errors
    /// Two exports whose pseudo paths are the same or get the same id. [`Config::load`] finds these
    /// too, with their lines; here they stop a configuration made of flags.
    pub fn new(config: &Config) -> Result<Self, ConfigErrors> {
        let mut exports = Vec::with_capacity(config.exports.len());
        let mut by_id = HashMap::with_capacity(config.exports.len());
        let mut problems = Vec::new();
        let mut names = BTreeMap::new();
        for export in &config.exports {
            let export = Arc::new(Export::new(export, &mut names));
            if let Some(other) = by_id.insert(export.id, Arc::clone(&export)) {
                let other: Arc<Export> = other;
                let message = format!(
                    "pseudo paths \"{}\" and \"{}\" get the same export id; change one of them",
                    other.pseudo, export.pseudo
                );
                problems.push(Problem {
                    line: None,
                    message,
                });
            }
            exports.push(export);
        }
        if problems.is_empty() {
            let admitted = networks(&exports);
            let paths: Vec<&str> = exports.iter().map(|it| it.pseudo.as_str()).collect();
            let pseudo = PseudoTree::new(&paths);
            return Ok(Self {
                pseudo,
                exports,
                by_id,
                admitted,
                names: names.into_values().collect(),
                admitted_by_name: ArcSwap::default(),
            });
        }
        Err(ConfigErrors {
            file: config.file.clone(),
            problems,
        })
    }

    /// The export with this id.
    #[must_use]
    pub fn by_id(&self, id: u32) -> Option<&Arc<Export>> {
        self.by_id.get(&id)
    }

    /// The directories above the exports.
    #[must_use]
    pub const fn pseudo(&self) -> &PseudoTree {
        &self.pseudo
    }

    /// All exports in the order of the configuration.
    pub fn exports(&self) -> &[Arc<Export>] {
        &self.exports
    }

    /// Whether any rule of any export names this address. IPv4-mapped IPv6 addresses count as IPv4. Of an
    /// address that none names, every call would be refused.
    #[must_use]
    pub fn admits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let behind = self
            .admitted
            .partition_point(|net| net.network() <= address);
        let last = behind.checked_sub(1).and_then(|at| self.admitted.get(at));
        last.is_some_and(|net| net.contains(&address))
            || (!self.names.is_empty()
                && self.admitted_by_name.load().binary_search(&address).is_ok())
    }

    /// The names of hosts and netgroups that rules have, in order and each once.
    #[must_use]
    pub fn names(&self) -> &[Arc<LiveName>] {
        &self.names
    }

    /// Puts in force what the names stand for from now on; returns those whose meaning changed, with what they stood
    /// for. For one caller at a time.
    pub(crate) fn set_names(
        &self,
        resolved: impl Fn(&ClientName) -> Resolved,
    ) -> Vec<(Arc<LiveName>, Arc<Resolved>)> {
        let mut changed = Vec::new();
        for live in &self.names {
            let new = resolved(&live.name);
            let old = Arc::clone(&live.resolved());
            if *old != new {
                live.set(new);
                changed.push((Arc::clone(live), old));
            }
        }
        if !changed.is_empty() {
            self.admit_names();
        }
        changed
    }

    /// Goes on with what another table knows of the names that both have.
    pub(crate) fn go_on_from(&self, other: &Self) {
        for live in &self.names {
            let same = other.names.binary_search_by(|it| it.name.cmp(&live.name));
            if let Some(same) = same.ok().and_then(|at| other.names.get(at)) {
                live.go_on_from(same);
            }
        }
        self.admit_names();
    }

    /// Goes on with the I/O policies that another table's exports have now, where the settings are the same.
    pub(crate) fn keep_modes(&self, other: &Self) {
        for export in &self.exports {
            if let Some(old) = other.by_id(export.id).filter(|old| *old == export) {
                let now = old.io.now();
                export.io.change(|_| IoPolicy::clone(&now));
            }
        }
    }

    fn admit_names(&self) {
        let resolved = self.names.iter().map(|live| live.resolved());
        let mut all: Vec<IpAddr> = resolved
            .flat_map(|resolved| resolved.addresses.clone())
            .collect();
        all.sort_unstable();
        all.dedup();
        self.admitted_by_name.store(Arc::new(all));
    }

    /// The export that a MOUNT of `mount_path` means, and the names below its root that are left to
    /// walk: clients may mount a directory inside an export. The longest pseudo path wins.
    ///
    /// Slashes at the end, doubled ones and `.` change nothing. A path that does not begin with a
    /// slash or that holds `..` or a NUL byte names no export: what `..` means can only be said by
    /// walking, and nothing above an export's root is to be walked.
    #[must_use]
    pub fn find_by_pseudo<'p>(&self, mount_path: &'p [u8]) -> Option<(Arc<Export>, Vec<&'p [u8]>)> {
        if mount_path.first() != Some(&b'/') || mount_path.contains(&0) {
            return None;
        }
        let names: Vec<&[u8]> = names_of(mount_path).collect();
        if names.contains(&b"..".as_slice()) {
            return None;
        }
        let rest_of = |export: &Arc<Export>| {
            let mut rest = names.iter();
            for name in names_of(export.pseudo.as_bytes()) {
                if rest.next() != Some(&name) {
                    return None;
                }
            }
            Some((Arc::clone(export), rest.copied().collect::<Vec<_>>()))
        };
        self.exports
            .iter()
            .filter_map(rest_of)
            .min_by_key(|(_, rest)| rest.len())
    }
}

/// The networks that the rules of these exports name, without overlaps and in order.
fn networks(exports: &[Arc<Export>]) -> Vec<IpNet> {
    let rules = exports.iter().flat_map(|export| export.rules());
    let nets = rules.filter_map(|rule| match &rule.clients {
        Clients::Net(net) => Some(net.trunc()),
        Clients::Named(_) => None,
    });
    let all: Vec<IpNet> = nets.collect();
    let mut merged = IpNet::aggregate(&all);
    merged.sort();
    merged
}

/// The names of a path, without empty ones and `.`.
fn names_of(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
}

impl Export {
    /// `names` are those of the whole table: a name is looked up once, however many rules have it.
    fn new(config: &ExportConfig, names: &mut BTreeMap<ClientName, Arc<LiveName>>) -> Self {
        let rules = config.clients.iter();
        let rules = rules.map(|rule| ClientRule::new(rule, names)).collect();
        Self {
            id: export_id(&config.pseudo),
            path: config.path.clone(),
            pseudo: config.pseudo.clone(),
            durability: config.durability,
            stable_write_attributes: config.stable_write_attributes,
            crossmnt: config.crossmnt,
            audit: config.audit,
            io: LivePolicy::new(config.io.clone()),
            rules,
        }
    }

    /// The rule for a client at `address` that sends from `source_port`: the first whose network
    /// or name has it. IPv4-mapped IPv6 addresses count as IPv4.
    ///
    /// # Errors
    /// Why this client may not use the export.
    pub fn client_rule(&self, address: IpAddr, source_port: u16) -> Result<&ClientRule, Refused> {
        let listed = self.rule_index(address);
        let rule = listed.and_then(|index| self.rules.get(index));
        let rule = rule.ok_or(Refused::NotListed)?;
        if rule.privileged_port && source_port >= PRIVILEGED_PORTS_END {
            return Err(Refused::PortNotPrivileged);
        }
        Ok(rule)
    }

    /// The rule for a client that uses this version, as [`Export::client_rule`] finds it.
    ///
    /// # Errors
    /// Why this client may not use the export.
    pub fn rule_for(
        &self,
        address: IpAddr,
        source_port: u16,
        version: NfsVersion,
    ) -> Result<&ClientRule, Refused> {
        let rule = self.client_rule(address, source_port)?;
        if rule.versions.contains(version) {
            Ok(rule)
        } else {
            Err(Refused::Version)
        }
    }

    /// Which of the [`rules`](Self::rules) holds for a client at `address`: the first whose network
    /// or name has it.
    #[must_use]
    pub fn rule_index(&self, address: IpAddr) -> Option<usize> {
        let address = address.to_canonical();
        self.rules
            .iter()
            .position(|rule| rule.clients.contains(&address))
    }

    /// May a change be acknowledged before it is on stable storage?
    #[must_use]
    pub fn is_async(&self) -> bool {
        self.durability == Durability::Async
    }

    /// The rules in the order they are tried: for the EXPORT list of MOUNT and for `ctl exports`.
    #[must_use]
    pub fn rules(&self) -> &[ClientRule] {
        &self.rules
    }
}

impl ClientRule {
    fn new(config: &ClientConfig, names: &mut BTreeMap<ClientName, Arc<LiveName>>) -> Self {
        let clients = match &config.net {
            Who::Net(net) => Clients::Net(*net),
            Who::Named(name) => {
                let live = names.entry(name.clone());
                let live = live.or_insert_with(|| Arc::new(LiveName::new(name.clone())));
                Clients::Named(Arc::clone(live))
            }
        };
        Self {
            clients,
            access: config.access,
            squash: Squash::new(config.squash, config.anonuid, config.anongid),
            privileged_port: config.privileged_port,
            versions: config.versions,
            allowance: (config.allowance != Allowance::DEFAULT).then(|| Arc::new(config.allowance)),
        }
    }

    /// May these clients change anything?
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.access == Access::ReadWrite
    }
}

impl Squash {
    /// Squashes `kind` of requests to `anonuid` and `anongid`.
    #[must_use]
    pub fn new(kind: SquashKind, anonuid: u32, anongid: u32) -> Self {
        let anonymous = Creds::new(LocalUid(anonuid), LocalGid(anongid), &[]);
        Self { kind, anonymous }
    }

    /// Which users' requests run as the anonymous user.
    #[must_use]
    pub const fn kind(&self) -> SquashKind {
        self.kind
    }

    /// The user as whom AUTH_NONE and everybody that is squashed runs.
    #[must_use]
    pub const fn anonymous(&self) -> &Creds {
        &self.anonymous
    }

    /// The user and groups as whom an AUTH_SYS credential runs. `gids` are its groups, or those that this
    /// machine's group database has for the user; they are squashed alike.
    ///
    /// The id 4294967295 is anonymous under every rule: to the kernel's set-id calls it means
    /// "leave as it is", which here would be the server's own identity.
    #[must_use]
    pub fn creds(&self, uid: WireUid, gid: WireGid, gids: &[u32]) -> Creds {
        if self.kind == SquashKind::All {
            return self.anonymous.clone();
        }
        let is_squashed = |id: u32| id == u32::MAX || (self.kind == SquashKind::Root && id == 0);
        let group = |id: u32| {
            if is_squashed(id) {
                self.anonymous.gid().0
            } else {
                id
            }
        };
        let uid = if is_squashed(uid.0) {
            self.anonymous.uid()
        } else {
            LocalUid(uid.0)
        };
        let groups: Vec<u32> = gids.iter().copied().map(group).collect();
        Creds::new(uid, LocalGid(group(gid.0)), &groups)
    }
}

#[cfg(test)]
mod tests;
